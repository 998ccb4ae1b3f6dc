// Ctrl-C during long work: it ends cleanly, with what it has.

#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include <stdbool.h>

// From now on the first Ctrl-C is only remembered; a second one ends the program at once.
void interrupt_listen(void);
bool interrupt_heard(void);
void interrupt_restore(void); // as it was before: not before all is written

#endif
