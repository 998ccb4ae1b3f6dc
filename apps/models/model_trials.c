// model_trials: robot files as they are found, loaded, moved and compared with MuJoCo. A client of the
// library's public API; docs/models.md says how to read its table.

#define _XOPEN_SOURCE 700 // nftw

#include "models/model_trial.h"

#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char help[] =
    "usage: model_trials FILE|FOLDER... [--seconds N]\n"
    "\n"
    "Loads every URDF and MJCF file of the folders and prints one line of CSV for each, then a "
    "summary:\n"
    "does it load, what of it is not represented, joint accelerations beside MuJoCo's, 2 s of "
    "motion,\n"
    "time until the first gradient, and the time of a step beside MuJoCo's. Exits with 1 when a "
    "file\n"
    "crashed the program or took too long.\n"
    "\n"
    "  --seconds N   at most so long for a file (default 60)\n";

enum { MOST_FILES = 20000 };

static char* files[MOST_FILES];
static int nfile;

// Summary of all files.
typedef struct tally {
    int robots, loaded, complete, compared, agree, moved, finite, slow, died;
} tally;

static int by_name(const void* a, const void* b) {
    return strcmp(*(char* const*)a, *(char* const*)b);
}

// Does the file have the root element of a robot?
static bool is_robot(const char* path) {
    char text[4096];
    FILE* file = fopen(path, "rb");
    if (!file) return false;
    size_t size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    for (size_t k = 0; k < size; k++) {
        if (!text[k]) text[k] = ' ';
    }
    text[size] = '\0';
    return strstr(text, "<mujoco") || strstr(text, "<robot");
}

static int visit(const char* path, const struct stat* info, int type, struct FTW* where) {
    (void)info, (void)where;
    const char* dot = strrchr(path, '.');
    bool named = dot && (strcmp(dot, ".xml") == 0 || strcmp(dot, ".urdf") == 0);
    if (type == FTW_F && named && nfile < MOST_FILES && is_robot(path)) {
        files[nfile] = strdup(path);
        if (files[nfile]) nfile++;
    }
    return 0;
}

// Try a file in a process of its own, which may crash or hang. True when it came back.
static bool try_in_process(const char* path, int seconds, model_trial* trial) {
    int ends[2];
    if (pipe(ends) != 0) return false;
    fflush(stdout);
    pid_t child = fork();
    if (child < 0) return false;
    if (child == 0) {
        close(ends[0]);
        int sink = open("/dev/null", O_WRONLY);
        if (sink >= 0) dup2(sink, STDOUT_FILENO), dup2(sink, STDERR_FILENO);
        model_trial_run(path, trial);
        ssize_t written = write(ends[1], trial, sizeof *trial);
        _exit(written == (ssize_t)sizeof *trial ? 0 : 1);
    }

    // Wait for the answer, no longer than allowed.
    close(ends[1]);
    struct pollfd answer = {.fd = ends[0], .events = POLLIN};
    bool came = poll(&answer, 1, seconds * 1000) > 0;
    size_t got = 0;
    while (came && got < sizeof *trial) {
        ssize_t more = read(ends[0], (char*)trial + got, sizeof *trial - got);
        if (more <= 0) break;
        got += (size_t)more;
    }
    close(ends[0]);
    if (!came) kill(child, SIGKILL);
    waitpid(child, NULL, 0);

    if (got == sizeof *trial) return true;
    memset(trial, 0, sizeof *trial);
    snprintf(trial->message, sizeof trial->message, "%s", came ? "crashed" : "took too long");
    return false;
}

// A number of the table; empty when it was not measured.
static void print_number(double value, const char* format) {
    putchar(',');
    if (value >= 0.0) printf(format, value);
}

static void print_trial(const char* path, const model_trial* trial) {
    printf("\"%s\",%s,%s,%d", path, trial->loads ? "yes" : "no", trial->peer_loads ? "yes" : "no",
           trial->lost);
    print_number(trial->acceleration_error, "%.1e");
    printf(",%s", !trial->moved ? "" : trial->finite ? "yes" : "no");
    print_number(trial->height_difference, "%.4f");
    print_number(trial->first_gradient, "%.3f");
    print_number(trial->step, "%.2f");
    print_number(trial->peer_step, "%.2f");

    // Quotes of the message become apostrophes: it is one cell.
    printf(",\"");
    for (const char* c = trial->message; *c; c++) putchar(*c == '"' ? '\'' : *c == '\n' ? ' ' : *c);
    printf("\"\n");
}

static void count(const model_trial* trial, tally* sum) {
    bool compared = trial->acceleration_error >= 0.0;
    sum->robots++;
    sum->loaded += trial->loads;
    sum->complete += trial->loads && trial->lost == 0;
    sum->compared += compared;
    sum->agree += compared && trial->acceleration_error <= 1e-6;
    sum->moved += trial->moved;
    sum->finite += trial->moved && trial->finite;
    sum->slow += trial->first_gradient > 1.0;
}

static void print_share(const char* what, int part, int whole) {
    printf("# %-55s %4d of %4d", what, part, whole);
    if (whole > 0) printf("  %5.1f %%", 100.0 * part / whole);
    putchar('\n');
}

int main(int argc, char** argv) {
    int seconds = 60;
    for (int k = 1; k < argc; k++) {
        if (strcmp(argv[k], "--seconds") == 0 && k + 1 < argc) {
            seconds = atoi(argv[++k]);
        } else if (argv[k][0] == '-' || nftw(argv[k], visit, 16, FTW_PHYS) != 0) {
            bool asked = strcmp(argv[k], "--help") == 0;
            fputs(help, asked ? stdout : stderr);
            return asked ? EXIT_SUCCESS : EXIT_FAILURE;
        }
    }
    if (nfile == 0) {
        fputs(argc > 1 ? "no URDF or MJCF file there\n" : help, stderr);
        return EXIT_FAILURE;
    }
    qsort(files, (size_t)nfile, sizeof *files, by_name);

    printf("file,loads,loads in MuJoCo,lost,acceleration error,finite after 2 s,"
           "difference in height (m),first gradient (s),step (us),step of MuJoCo (us),message\n");
    tally sum = {0};
    for (int k = 0; k < nfile; k++) {
        model_trial trial = {0};
        model_trial_clear(&trial);
        if (!try_in_process(files[k], seconds, &trial)) {
            sum.died++;
            trial.acceleration_error = trial.height_difference = trial.first_gradient = -1.0;
            trial.step = trial.peer_step = -1.0;
        }
        print_trial(files[k], &trial);
        count(&trial, &sum);
        free(files[k]);
    }

    print_share("load", sum.loaded, sum.robots);
    print_share("nothing lost that changes the motion", sum.complete, sum.robots);
    print_share("accelerations equal MuJoCo's to 1e-6, of those compared", sum.agree, sum.compared);
    print_share("finite after 2 s", sum.finite, sum.moved);
    print_share("first gradient later than 1 s", sum.slow, sum.robots);
    return sum.died == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
