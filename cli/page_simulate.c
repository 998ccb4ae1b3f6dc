// The page of a simulation.

#define _POSIX_C_SOURCE 200809L

#include "page_simulate.h"

#include <neuralsim/report.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

bool motion_page_check(const char* path) {
    if (!ns_report_has_script()) return cli_fail("%s", ns_report_script_hint()), false;
    char* folder = malloc(strlen(path) + 2);
    if (!folder) return cli_fail("out of memory"), false;
    const char* slash = strrchr(path, '/');
    sprintf(folder, "%.*s", slash ? (int)(slash - path) + 1 : 0, path);
    struct stat about;
    bool is_there = stat(path, &about) == 0;
    bool is_replaced = !is_there || S_ISREG(about.st_mode); // by another file in its folder
    int reason = is_there && S_ISDIR(about.st_mode) ? EISDIR : 0;
    if (reason == 0 && is_there && access(path, W_OK) != 0) reason = errno;
    if (reason == 0 && is_replaced && access(*folder ? folder : ".", W_OK) != 0) reason = errno;
    if (reason != 0) cli_fail("cannot write %s: %s", path, strerror(reason));
    free(folder);
    return reason == 0;
}

// ---- rows ------------------------------------------------------------------------------------

static uint64_t page_row_count(const motion_page* p, uint64_t every) {
    return p->steps / every + 1 + (p->steps % every != 0);
}

static bool page_fits(const motion_page* p, uint64_t every) {
    double columns = 1.0 + (double)p->ntrack * ns_motion_observer_column_count(p->motion);
    return (double)page_row_count(p, every) * columns <= NS_MOTION_MAX_NUMBERS;
}

static bool page_check_size(const motion_page* p) {
    if (page_fits(p, p->every)) return true;
    uint64_t every = p->every;
    while (!page_fits(p, every) && every <= p->steps) every *= 2;
    char advice[64] = "";
    if (page_fits(p, every)) {
        snprintf(advice, sizeof advice, ": --every %llu keeps few enough",
                 (unsigned long long)every);
    }
    cli_fail("%s: %llu rows of %u %s are too many for a page, which holds %d million numbers%s",
             p->path, (unsigned long long)page_row_count(p, p->every), p->ntrack,
             p->ntrack == 1 ? "trajectory" : "trajectories", NS_MOTION_MAX_NUMBERS / 1000000,
             advice);
    return false;
}

bool motion_page_prepare(motion_page* p, const double* params) {
    p->ntrack = p->ntraj < PAGE_TRACKS ? p->ntraj : PAGE_TRACKS;
    if (p->ntrack < p->ntraj) {
        cli_note("%s shows the first %u of %u trajectories", p->path, p->ntrack, p->ntraj);
    }
    if (!page_check_size(p)) return false;
    p->nrow = (uint32_t)page_row_count(p, p->every);
    size_t rows = (size_t)p->ntrack * p->nrow;
    p->time = cli_zeros(p->nrow);
    p->states = cli_zeros(rows * p->z.nx);
    p->controls = cli_zeros(rows * p->z.nc);
    p->params = cli_zeros((size_t)p->ntrack * p->z.np);
    if (!p->time || !p->states || !p->controls || !p->params) return false;
    for (size_t k = 0; k < rows * p->z.nx; k++) p->states[k] = NAN;
    for (uint32_t k = 0; k < p->nrow; k++) {
        uint64_t step = (uint64_t)k * p->every;
        p->time[k] = (double)(step < p->steps ? step : p->steps) * p->z.timestep;
    }
    memcpy(p->params, params, (size_t)p->ntrack * p->z.np * sizeof *params);
    return true;
}

void motion_page_free(motion_page* p) {
    ns_motion_observer_free(p->motion);
    free(p->time);
    free(p->states);
    free(p->controls);
    free(p->params);
}

void motion_page_put(motion_page* p, uint32_t trajectory, uint64_t step, const double* x,
                     const double* c) {
    if (trajectory >= p->ntrack) return;
    uint32_t row = step == p->steps ? p->nrow - 1 : (uint32_t)(step / p->every);
    size_t at = (size_t)trajectory * p->nrow + row;
    memcpy(p->states + at * p->z.nx, x, p->z.nx * sizeof *x);
    memcpy(p->controls + at * p->z.nc, c, p->z.nc * sizeof *c);
    if (row + 1 > p->reached) p->reached = row + 1;
}

// ---- page ------------------------------------------------------------------------------------

static const char* contact_name(const motion_page* p) {
    uint32_t count = ns_model_get_sizes(p->model).ncontact, springs = 0, rigid = 0;
    for (uint32_t k = 0; k < count; k++) {
        int law = p->contact < 0 ? ns_model_contact(p->model, k)->model : p->contact;
        springs += ns_contact_law_get(law)->stage == NS_CONTACT_STAGE_FORCES;
        rigid += ns_contact_law_get(law)->stage == NS_CONTACT_STAGE_IMPULSES;
    }
    return rigid && springs ? "rigid and springs" : rigid ? "rigid" : springs ? "springs" : "none";
}

static void page_facts(ns_report* report, const motion_page* p) {
    char text[64];
    ns_report_add_fact(report, "model", p->model_path);
    snprintf(text, sizeof text, "%llu", (unsigned long long)p->steps);
    ns_report_add_fact(report, "steps", text);
    snprintf(text, sizeof text, "%.6g s", p->z.timestep);
    ns_report_add_fact(report, "time step", text);
    ns_report_add_fact(report, "integrator", ns_choice_help(&ns_integrators, (int)p->z.integrator));
    ns_report_add_fact(report, "contact", contact_name(p));
}

static void add_ignored(ns_report* report, const ns_model* model) {
    uint32_t count = ns_model_get_sizes(model).nignored;
    ns_section* section =
        count > 0 ? ns_report_add_section(report, "Ignored in the model's file") : NULL;
    for (uint32_t k = 0; k < count; k++) {
        ns_section_add_note(section, NS_NOTE_INFO, ns_model_ignored(model, k));
    }
}

// What a person should know about the episode, or "".
static void page_note(const motion_page* p, char* out, size_t size) {
    char first[60] = "", who[40] = "The simulation", end[120] = "";
    if (p->ntrack < p->ntraj) {
        snprintf(first, sizeof first, "The first %u of %u trajectories. ", p->ntrack, p->ntraj);
    }
    if (p->diverged) {
        if (p->batch) snprintf(who, sizeof who, "Trajectory %u", p->lost);
        snprintf(end, sizeof end, "%s left the finite numbers after %.6g s.", who, p->last);
    }
    snprintf(out, size, "%s%s", first, end);
}

static ns_status add_tracks(const motion_page* p, ns_motion* viewer, ns_error* error) {
    char note[200];
    page_note(p, note, sizeof note);
    ns_status status = ns_motion_add_episode(viewer, "simulation", p->time, p->reached,
                                             *note ? note : NULL, error);
    for (uint32_t k = 0; k < p->ntrack && status == NS_OK; k++) {
        char name[16] = "run";
        if (p->batch) snprintf(name, sizeof name, "%u", k);
        ns_motion_states rows = {.states = p->states + (size_t)k * p->nrow * p->z.nx,
                                 .controls = p->controls + (size_t)k * p->nrow * p->z.nc,
                                 .params = p->params + (size_t)k * p->z.np};
        status = ns_motion_add_track(viewer, name, "run", error);
        if (status == NS_OK)
            status = ns_motion_observer_add_states(p->motion, viewer, &rows, error);
    }
    return status;
}

bool motion_page_write(motion_page* p, size_t* size) {
    ns_report* report = NULL;
    ns_motion* motion = NULL;
    ns_error error;
    *size = 0;
    if (p->reached == 0) return true;
    ns_status status = ns_report_create(ns_model_name(p->model), NULL, &report, &error);
    if (status == NS_OK) status = ns_motion_create(p->model, NULL, &motion, &error);
    if (status == NS_OK) status = add_tracks(p, motion, &error);
    if (status == NS_OK) {
        page_facts(report, p);
        ns_section_add_motion(ns_report_add_section(report, NULL), motion);
        add_ignored(report, p->model);
        status = ns_report_save_html(report, p->path, size, &error);
    } else {
        ns_motion_free(motion);
    }
    if (status != NS_OK) cli_fail("%s: %s", p->path, error.message);
    ns_report_free(report);
    return status == NS_OK;
}
