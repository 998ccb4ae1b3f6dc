// neuralsim view: show pages and fits in a browser, from a server that only this machine can reach.

#define _POSIX_C_SOURCE 200809L

#include "cli.h"
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <neuralsim/live_page.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

extern char** environ;

static const char help[] =
    "usage: neuralsim view FILE [--no-browser]\n"
    "\n"
    "Shows FILE in a browser until Ctrl-C: a page (.html), or the folder of a fit or an "
    "experiment.\n"
    "The folder of a running fit shows its progress, then its report.\n"
    "\n"
    "The address is printed. It contains a random token and can be reached from this machine "
    "only.\n"
    "\n"
    "  --no-browser   only print the address; without this option, view starts $BROWSER, or\n"
    "                 xdg-open on a graphical desktop\n"
    "\n"
    "example: neuralsim view /tmp/pendulum\n";

typedef struct view {
    const char* path;
    bool is_folder;
} view;

// ---- files ---------------------------------------------------------------------------------

static const char html_content[] = "text/html; charset=utf-8";
static const char json_content[] = "application/json";

// What a browser is told that a file is; NULL: files of this kind are not shown.
static const char* type_of(const char* name) {
    static const char* const types[][2] = {{".html", html_content},
                                           {".svg", "image/svg+xml"},
                                           {".csv", "text/csv; charset=utf-8"},
                                           {".json", json_content},
                                           {".png", "image/png"}};
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        if (cli_ends_with(name, types[k][0])) return types[k][1];
    }
    return NULL;
}

// O_NONBLOCK: opening a pipe does not wait for who writes to it.
enum { OPEN = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK };

// A file below a folder, or -1. No link is followed, so that nothing leads out of the folder, also
// when somebody changes it at this moment.
static int open_below(const char* folder, const char* name) {
    char part[NAME_MAX + 1];
    int at = open(folder, OPEN | O_DIRECTORY);
    while (at >= 0) {
        size_t size = strcspn(name, "/");
        bool is_last = name[size] == '\0', is_name = size > 0 && size <= NAME_MAX && *name != '.';
        int next = -1;
        if (is_name) {
            memcpy(part, name, size);
            part[size] = '\0';
            next = openat(at, part, OPEN | O_NOFOLLOW | (is_last ? 0 : O_DIRECTORY));
        }
        close(at);
        at = next;
        if (is_last) break;
        name += size + 1;
    }
    return at;
}

// Bytes of a file that is sent, and of one that is read.
enum { MOST_SENT = 512 << 20, MOST_READ = 4 << 20 };

// Keep only what is a regular file and not too long; closes all others.
static bool is_fine(int file, off_t longest, struct stat* about) {
    if (file < 0) return false;
    if (fstat(file, about) == 0 && S_ISREG(about->st_mode) && about->st_size <= longest)
        return true;
    close(file);
    return false;
}

static bool find_open_file(int file, const char* type, server_answer* out) {
    struct stat about;
    if (!is_fine(file, MOST_SENT, &about)) return false;
    out->type = type;
    out->file = file;
    out->file_size = (uint64_t)about.st_size;
    return true;
}

static bool find_report(const view* v, server_answer* out) {
    return find_open_file(open_below(v->path, "report.html"), html_content, out);
}

// ---- a fit that is running -------------------------------------------------------------------

// progress.json, or NULL when there is none; `time` is when it was written.
static json_t* read_progress(const view* v, struct timespec* time) {
    int file = open_below(v->path, "progress.json");
    struct stat about;
    if (!is_fine(file, MOST_READ, &about)) return NULL;
    *time = about.st_mtim;
    json_t* progress = json_loadfd(file, JSON_REJECT_DUPLICATES, NULL);
    close(file);
    if (json_is_string(json_object_get(progress, "state"))) return progress;
    json_decref(progress);
    return NULL;
}

static bool progress_is(const json_t* progress, const char* state) {
    return progress && strcmp(json_string_value(json_object_get(progress, "state")), state) == 0;
}

// What the script of a live page asks for.
static bool find_progress(const view* v, server_answer* out) {
    struct timespec time, now;
    json_t* progress = read_progress(v, &time);
    if (!progress) return false;
    clock_gettime(CLOCK_REALTIME, &now);
    double age = (double)(now.tv_sec - time.tv_sec) + 1e-9 * (double)(now.tv_nsec - time.tv_nsec);
    json_object_set_new(progress, "age", json_real(age > 0.0 ? age : 0.0));
    char* dump = json_dumps(progress, JSON_COMPACT);
    json_decref(progress);
    if (!dump) return false;
    out->type = json_content;
    out->text = (ns_text){dump, strlen(dump), ns_default_allocator()}; // both use malloc()
    return true;
}

// The page of a folder without a report, or with one of a fit before. `progress` may be NULL.
static bool find_live_page(const json_t* progress, bool has_report, server_answer* out) {
    const char* title = json_string_value(json_object_get(progress, "title"));
    ns_live_page page = {.title = title ? title : "neuralsim",
                         .report_url = has_report ? "report.html" : NULL};
    if (progress_is(progress, "running")) {
        page.progress_url = "progress";
        page.text =
            "A fit is running here. Load this page again to see its report when it is done.";
    } else {
        page.text = progress_is(progress, "failed")
                        ? "The last fit here failed."
                        : "There is no report here, and no fit is running.";
        page.message = json_string_value(json_object_get(progress, "message"));
    }
    out->type = html_content;
    return ns_live_page_write(&page, NULL, &out->text, NULL) == NS_OK;
}

// ---- what is shown ---------------------------------------------------------------------------

static bool is_later(struct timespec a, struct timespec b) {
    return a.tv_sec > b.tv_sec || (a.tv_sec == b.tv_sec && a.tv_nsec > b.tv_nsec);
}

// The report, unless it is of a fit before the one that is running or failed.
static bool find_folder(const view* v, server_answer* out) {
    struct timespec time;
    struct stat about;
    json_t* progress = read_progress(v, &time);
    bool has_report = find_report(v, out) && fstat(out->file, &about) == 0;
    bool found = has_report;
    bool has_news = progress_is(progress, "running") || progress_is(progress, "failed");
    if (!has_report || (has_news && is_later(time, about.st_mtim))) {
        if (out->file >= 0) close(out->file);
        *out = (server_answer){.file = -1};
        found = find_live_page(progress, has_report, out);
    }
    json_decref(progress);
    return found;
}

// Pages that are made here, as find_live_page() makes one, belong here too.
static bool find_answer(void* context, const char* name, server_answer* out) {
    const view* v = context;
    const char* type = type_of(name);
    if (!v->is_folder)
        return *name == '\0' && find_open_file(open(v->path, OPEN), html_content, out);
    if (*name == '\0') return find_folder(v, out);
    if (strcmp(name, "progress") == 0) return find_progress(v, out);
    return type && find_open_file(open_below(v->path, name), type, out);
}

// Is there something to show? EXIT_OK, or EXIT_FAILED after saying why not.
static int check_view_path(view* v) {
    struct stat about;
    server_answer answer = {.file = -1};
    if (stat(v->path, &about) != 0) {
        return cli_fail("%s: cannot be opened: %s", v->path, strerror(errno));
    }
    v->is_folder = S_ISDIR(about.st_mode);
    if (v->is_folder) {
        struct timespec time;
        json_t* progress = read_progress(v, &time);
        bool found = progress != NULL || find_report(v, &answer);
        json_decref(progress);
        if (answer.file >= 0) close(answer.file);
        return found ? EXIT_OK : cli_fail("no report.html and no fit is running in %s", v->path);
    }
    if (!S_ISREG(about.st_mode) || !cli_ends_with(v->path, ".html")) {
        return cli_fail(
            "%s cannot be viewed; give a page (.html), or the folder of a fit or experiment",
            v->path);
    }
    if (!find_answer(v, "", &answer))
        return cli_fail("%s: cannot be read, or is too long", v->path);
    close(answer.file);
    return EXIT_OK;
}

// ---- the browser -----------------------------------------------------------------------------

static bool is_set(const char* variable) {
    const char* value = getenv(variable);
    return value && *value;
}

// In a process group of its own, so that Ctrl-C ends the server only; what it has to say is of no
// interest here.
static int spawn(const char* program, const char* address) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, usual;
    // The API wants writable strings, but does not write.
    char* arguments[] = {(char*)program, (char*)address, NULL};
    pid_t child;

    // Actions and attributes of the new process.
    if (posix_spawn_file_actions_init(&actions) != 0) return ENOMEM;
    int reason = posix_spawnattr_init(&attributes);
    if (reason == 0) {
        // Undo the signal settings that the server made for itself.
        sigemptyset(&none);
        sigemptyset(&usual);
        sigaddset(&usual, SIGPIPE); // the server ignores it
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                                  POSIX_SPAWN_SETSIGDEF);
        posix_spawnattr_setsigmask(&attributes, &none);
        posix_spawnattr_setsigdefault(&attributes, &usual);
        // A process group of its own.
        posix_spawnattr_setpgroup(&attributes, 0);

        // Standard input, output and error are /dev/null.
        for (int k = 0; k < 3 && reason == 0; k++) {
            reason = posix_spawn_file_actions_addopen(&actions, k, "/dev/null", O_RDWR, 0);
        }
        if (reason == 0) {
            // The program is searched in PATH.
            reason = posix_spawnp(&child, program, &actions, &attributes, arguments, environ);
        }
        posix_spawnattr_destroy(&attributes);
    }

    posix_spawn_file_actions_destroy(&actions);
    return reason;
}

static void open_browser(const char* address) {
    bool has_desktop = is_set("DISPLAY") || is_set("WAYLAND_DISPLAY");
    const char* program = is_set("BROWSER") ? getenv("BROWSER") : has_desktop ? "xdg-open" : NULL;
    int reason = program ? spawn(program, address) : 0;
    if (reason != 0) cli_note("cannot start %s: %s", program, strerror(reason));
}

// ---- the end ---------------------------------------------------------------------------------

// Signals arrive through a pipe. Waiting for them with sigwait() would not do: libraries have threads
// of their own (OpenBLAS), which do not block them.
static int end_pipe[2];

static void on_end_signal(int number) {
    (void)number;
    int kept = errno;
    ssize_t written = write(end_pipe[1], "", 1);
    (void)written;
    errno = kept;
}

// What is ignored here stays so, as for a program in the background.
static void listen_to(int number) {
    struct sigaction action = {.sa_handler = on_end_signal}, before;
    sigemptyset(&action.sa_mask);
    action.sa_flags = (int)SA_RESETHAND | SA_RESTART; // a second Ctrl-C ends at once
    bool ignored = sigaction(number, NULL, &before) == 0 && before.sa_handler == SIG_IGN;
    if (!ignored) sigaction(number, &action, NULL);
}

static bool listen_for_end(void) {
    if (pipe(end_pipe) != 0) return false;
    for (int k = 0; k < 2; k++) fcntl(end_pipe[k], F_SETFD, FD_CLOEXEC);
    listen_to(SIGINT);
    listen_to(SIGTERM);
    return true;
}

static void wait_for_end(void) {
    char byte;
    while (read(end_pipe[0], &byte, 1) < 0 && errno == EINTR) continue;
}

// ---- the command -----------------------------------------------------------------------------

int cmd_view(int argc, char** argv) {
    // Options, in the order of the help text.
    bool no_browser = false;
    const cli_row rows[] = {{"--no-browser", CLI_FLAG, &no_browser, NULL}, {0}};

    // Validate the path before a server is started.
    cli_list arguments = {.count = 0};
    int code = cli_parse("view", help, rows, argc, argv, &arguments);
    if (code != CLI_GO_ON) return code;
    if (arguments.count != 1) return cli_usage("view", "expected one page or folder");
    view v = {.path = arguments.items[0]};
    // A page, or the folder of a result.
    code = check_view_path(&v);
    if (code != EXIT_OK) return code;

    // Signals arrive through a pipe, which the main thread waits for.
    if (!listen_for_end()) return cli_fail("cannot make a pipe: %s", strerror(errno));

    // Threads inherit the signal mask: signals that end the program go to the main thread only.
    sigset_t ends, before;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &ends, &before);
    server* s = server_start(find_answer, &v);
    // The main thread unblocks them again.
    pthread_sigmask(SIG_SETMASK, &before, NULL);

    // Print the address first, so that scripts can read it, then wait.
    code = s ? EXIT_OK : EXIT_FAILED;
    if (s) {
        printf("%s\n", server_address(s));
        code = cli_finish();
    }
    if (code == EXIT_OK) {
        // People see how to end it; scripts do not need that.
        if (isatty(STDERR_FILENO)) cli_note("Ctrl-C ends it");
        if (!no_browser) open_browser(server_address(s));
        wait_for_end();
    }

    server_stop(s);
    return code;
}
