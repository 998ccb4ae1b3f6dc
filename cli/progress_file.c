// Write progress.json, the progress of a running fit.

#include "progress_file.h"

#include "cli.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const double interval = 0.5; // s between two writes

// ---- the loss over time --------------------------------------------------------------------

static bool is_end_of_phase(const progress_file* p, uint32_t k) {
    const progress_point* at = p->points;
    return k == 0 || k + 1 == p->count || at[k - 1].phase != at[k].phase ||
           at[k + 1].phase != at[k].phase;
}

// Drop every second point between the ends of phases; when there are so many phases that this does
// not help, every second point.
static void thin(progress_file* p) {
    uint32_t count = 0;
    bool keep = true;
    for (uint32_t k = 0; k < p->count; k++) {
        bool is_end = is_end_of_phase(p, k);
        if (!is_end) keep = !keep;
        if (is_end || keep) p->points[count++] = p->points[k];
    }
    p->count = count;
    if (count > PROGRESS_POINTS / 4 * 3) {
        for (uint32_t k = 0; 2 * k < count; k++) p->points[k] = p->points[2 * k];
        p->count = (count + 1) / 2;
    }
    p->stride *= 2;
}

static void add_loss_point(progress_file* p, progress_point point) {
    bool same_phase = p->count > 0 && p->points[p->count - 1].phase == point.phase;
    if (same_phase && p->since > 0) p->count--; // the newest one was not to be kept
    p->since = same_phase ? (p->since + 1) % p->stride : 0;
    if (p->count == PROGRESS_POINTS) thin(p);
    p->points[p->count++] = point;
}

// ---- the file ------------------------------------------------------------------------------

static void put_history(const progress_file* p, ns_json* j) {
    ns_json_open(j, "history", '[');
    for (uint32_t k = 0; k < p->count; k++) {
        ns_json_open(j, NULL, '[');
        ns_json_number(j, NULL, p->points[k].seconds);
        ns_json_number(j, NULL, p->points[k].loss);
        ns_json_count(j, NULL, p->points[k].phase);
        ns_json_close(j);
    }
    ns_json_close(j);
}

// Under another name first, so that a reader sees the old file or the new one; false with errno.
static bool replace_file(const char* path, const ns_text* text) {
    size_t size = strlen(path) + sizeof ".new";
    char* other = malloc(size);
    if (!other) return false;
    snprintf(other, size, "%s.new", path);
    FILE* file = fopen(other, "wb");
    bool written = file && fwrite(text->data, 1, text->size, file) == text->size;
    written = file && fclose(file) == 0 && written;
    written = written && rename(other, path) == 0;
    if (!written) {
        int reason = errno;
        remove(other);
        errno = reason;
    }
    free(other);
    return written;
}

static void write_progress(progress_file* p, const char* state, const char* message) {
    if (!p->path) return;
    ns_json* j = ns_json_create(NULL);
    ns_json_text(j, "state", state);
    ns_json_text(j, "title", p->title);
    ns_json_text(j, "phase", p->last.phase);
    ns_json_count(j, "number", p->last.number);
    ns_json_count(j, "count", p->last.count);
    ns_json_count(j, "iteration", p->last.iteration);
    ns_json_count(j, "iterations", p->last.iterations);
    ns_json_number(j, "loss", p->last.loss);
    ns_json_number(j, "seconds", p->last.seconds);
    put_history(p, j);
    ns_json_text(j, "message", message);
    ns_text text = {0};
    ns_error error = {0};
    bool made = ns_json_finish(j, &text, &error) == NS_OK;
    if (!made || !replace_file(p->path, &text)) {
        cli_note("'neuralsim view' cannot show this fit while it runs: %s: %s", p->path,
                 made ? strerror(errno) : error.message);
        free(p->path);
        p->path = NULL;
    }
    ns_text_free(&text);
    p->written = cli_clock();
}

void progress_file_begin(progress_file* p, const char* folder, const char* title) {
    *p = (progress_file){.title = title, .stride = 1, .last.loss = NAN};
    size_t size = strlen(folder) + sizeof "/progress.json";
    p->path = malloc(size);
    if (p->path) snprintf(p->path, size, "%s/progress.json", folder);
    write_progress(p, "running", NULL);
}

void progress_file_update(progress_file* p, const ns_fit_progress* progress) {
    p->last = *progress;
    snprintf(p->phase, sizeof p->phase, "%s", progress->phase);
    p->last.phase = p->phase;
    if (isfinite(progress->loss)) {
        add_loss_point(p, (progress_point){progress->seconds, progress->loss, progress->number});
    }
    if (cli_clock() - p->written >= interval) write_progress(p, "running", NULL);
}

void progress_file_end(progress_file* p, const char* state, const char* message) {
    write_progress(p, state, message);
    free(p->path);
    p->path = NULL;
}
