// Ctrl-C during long work.

#define _POSIX_C_SOURCE 200809L

#include "interrupt.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t heard;
static struct sigaction before;

static void on_interrupt(int signal_number) {
    (void)signal_number;
    heard = 1;
}

void interrupt_listen(void) {
    struct sigaction action = {.sa_handler = on_interrupt};
    sigemptyset(&action.sa_mask);
    action.sa_flags = (int)SA_RESETHAND;
    sigaction(SIGINT, &action, &before);
}

bool interrupt_heard(void) {
    return heard != 0;
}

void interrupt_restore(void) {
    sigaction(SIGINT, &before, NULL);
}
