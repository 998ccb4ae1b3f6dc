// progress.json, the progress of a fit beside its results; `neuralsim view` shows it while the fit is
// running (web/README.md documents its content).

#ifndef CLI_PROGRESS_FILE_H
#define CLI_PROGRESS_FILE_H

#include <neuralsim/fit.h>

enum { PROGRESS_POINTS = 1000 };

typedef struct progress_point {
    double seconds, loss;
    uint32_t phase;
} progress_point;

typedef struct progress_file {
    char* path; // NULL: not written
    const char* title;
    double written;       // s of the clock on the wall
    ns_fit_progress last; // its phase is the next
    char phase[128];

    // The loss over time. The last point is the newest; of the others of a phase every `stride`-th
    // is kept, and its first and last.
    progress_point points[PROGRESS_POINTS];
    uint32_t count, stride;
    uint32_t since; // points since the last one that is kept; 0: the newest one is
} progress_file;

// Write it for a fit that begins. Where that cannot be done, a note says so and nothing else happens.
// @param title  must outlive it
void progress_file_begin(progress_file* p, const char* folder, const char* title);

// Writes it at most twice a second.
void progress_file_update(progress_file* p, const ns_fit_progress* progress);

// Write it for the last time.
// @param state    "done", "stopped" or "failed"
// @param message  why it failed, or NULL
void progress_file_end(progress_file* p, const char* state, const char* message);

#endif
