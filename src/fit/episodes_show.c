// Episodes of a fit in a page: recorded, before, after.

#include "fit/episodes.h"

#include "fit/show.h"
#include "model/model.h"
#include "page/viewer.h"

#include <stdio.h>

// What is drawn of a fit's system for a point of its variables.
typedef struct showing {
    const nsi_episodes* e;
    const ns_fit* f;
    nsi_viewer* viewer;
    nsi_motion* motion;
    double* params[2];
    nsi_arena arena;
    const char** units; // (nchannel)
} showing;

// Stretches of the same role.
static ns_status add_spans(const showing* s, const nsi_episode* episode, ns_error* error) {
    const nsi_episodes* e = s->e;
    uint32_t end = episode->first + episode->rows;
    for (uint32_t row = episode->first; row < end;) {
        uint32_t last = row;
        while (last + 1 < end && e->roles[last + 1] == e->roles[row]) last++;
        if (e->roles[row] < NSI_ROLES) {
            double to = last + 1 < end ? e->time[last + 1] : e->time[last];
            ns_status status = nsi_viewer_add_span(s->viewer, e->time[row], to,
                                                   nsi_show_role((nsi_role)e->roles[row]), error);
            if (status != NS_OK) return status;
        }
        row = last + 1;
    }
    return NS_OK;
}

// A coordinate or velocity of a joint with one is shown under the name that simulations have for it.
static const char* shown_name(const showing* s, uint32_t channel, char* room, size_t size) {
    const nsi_problem* p = s->f->problem;
    const nsi_source* source = &p->sources[channel];
    const ns_model* model = ns_hybrid_model(s->f->hybrid);
    bool velocity = source->number >= p->nq;
    uint32_t number = velocity ? source->number - p->nq : source->number;
    for (uint32_t k = 0; source->state && k < ns_model_get_sizes(model).nlink; k++) {
        const ns_link_def* link = ns_model_link(model, k);
        bool single =
            link->joint_type == NS_JOINT_REVOLUTE || link->joint_type == NS_JOINT_PRISMATIC;
        uint32_t at = velocity ? ns_model_joint_v(model, k) : ns_model_joint_q(model, k);
        if (!single || at != number) continue;
        snprintf(room, size, "joint/%s/%s", link->joint, velocity ? "velocity" : "position");
        return room;
    }
    return ns_dataset_channel(s->f->data[NSI_ROLE_TRAIN], channel)->name;
}

static ns_status add_channels(const showing* s, const nsi_episode* episode, const double* values,
                              ns_error* error) {
    const nsi_episodes* e = s->e;
    for (uint32_t c = 0; c < e->nchannel; c++) {
        char name[NSI_MODEL_MAX_NAME + 20];
        ns_status status = nsi_viewer_add_quantity(
            s->viewer, shown_name(s, c, name, sizeof name), s->units[c],
            values + (size_t)episode->first * e->nchannel + c, e->nchannel, error);
        if (status != NS_OK) return status;
    }
    return NS_OK;
}

static ns_status add_track(const showing* s, const nsi_episode* episode, const char* name,
                           const double* values, const double* states, const double* params,
                           const double* weights, ns_error* error) {
    const nsi_episodes* e = s->e;
    bool recorded = values == e->recorded;
    ns_status status = nsi_viewer_add_track(s->viewer, name, name, error);
    if (status == NS_OK && states) {
        nsi_motion_rows rows = {.states = states + (size_t)episode->first * e->nx,
                                .controls = e->controls + (size_t)episode->first * e->nc,
                                .params = params,
                                .weights = weights,
                                .poses_only = recorded};
        status = nsi_motion_show(s->motion, s->viewer, &rows, error);
    }
    return status == NS_OK ? add_channels(s, episode, values, error) : status;
}

static ns_status show_episode(const showing* s, const nsi_episode* episode, const char* note,
                              ns_error* error) {
    const nsi_episodes* e = s->e;
    const ns_fit* f = s->f;
    ns_status status = nsi_viewer_add_episode(s->viewer, episode->name, e->time + episode->first,
                                              episode->rows, note, error);
    if (status == NS_OK) status = add_spans(s, episode, error);
    if (status == NS_OK) {
        status = add_track(s, episode, "recorded", e->recorded, e->measured, s->params[NSI_AFTER],
                           f->w, error);
    }
    if (status == NS_OK) {
        status = add_track(s, episode, "before", e->values[NSI_BEFORE], e->states[NSI_BEFORE],
                           s->params[NSI_BEFORE], f->w0, error);
    }
    if (status == NS_OK) {
        status = add_track(s, episode, "after", e->values[NSI_AFTER], e->states[NSI_AFTER],
                           s->params[NSI_AFTER], f->w, error);
    }
    return status;
}

// Parameters of the system before and after.
static ns_status find_params(showing* s, ns_error* error) {
    const ns_fit* f = s->f;
    size_t np = s->f->problem->sizes.np, scratch = nsi_variables_scratch(f->variables);
    double* v = nsi_alloc(&f->allocator, ((size_t)f->nz + scratch + 1) * sizeof(double));
    for (int k = 0; k < 2; k++) {
        s->params[k] = nsi_alloc(&f->allocator, (np + 1) * sizeof(double));
        if (!v || !s->params[k]) continue;
        nsi_variables_from_z(f->variables, k == NSI_AFTER ? f->z : f->z0, v, NULL, v + f->nz);
        nsi_variables_params(f->variables, v, s->params[k], NULL, v + f->nz);
    }
    nsi_free(&f->allocator, v);
    return v && s->params[0] && s->params[1] ? NS_OK : nsi_fail_nomem(error);
}

static void note_of(const nsi_episodes* e, const ns_fit* f, char* text, size_t size) {
    const nsi_fit_plan* plan = f->plan;
    int used = 0;
    if (plan->horizons.count > 0) {
        used = snprintf(text, size, "Predictions start anew every %s s from a state %s.",
                        nsi_show_short(plan->horizons.data[plan->horizons.count - 1], 4).text,
                        plan->history > 1 ? "fitted to the samples before" : "as recorded");
    } else {
        used = snprintf(text, size, "Predictions start at the beginning of each part.");
    }
    if (e->left_out > 0 && used > 0 && (size_t)used < size) {
        snprintf(text + used, size - (size_t)used, " %u recording%s not shown.", e->left_out,
                 e->left_out == 1 ? " is" : "s are");
    }
}

ns_status nsi_episodes_show(const nsi_episodes* e, const ns_fit* f, nsi_viewer* viewer,
                            ns_error* error) {
    showing s = {.e = e, .f = f, .viewer = viewer, .arena = {.allocator = e->allocator}};
    char note[300];
    note_of(e, f, note, sizeof note);
    s.units = nsi_arena_alloc(&s.arena, ((size_t)e->nchannel + 1) * sizeof *s.units);
    ns_status status = s.units ? find_params(&s, error) : nsi_fail_nomem(error);
    if (status == NS_OK) {
        status = nsi_problem_units(f->problem, f->data[NSI_ROLE_TRAIN], &f->options, &s.arena,
                                   s.units, error);
    }
    if (status == NS_OK) {
        status =
            nsi_motion_create(ns_hybrid_model(f->hybrid), &f->options, NULL, 0, &s.motion, error);
    }
    for (uint32_t k = 0; status == NS_OK && k < e->list.count; k++) {
        status = show_episode(&s, &e->list.data[k], note, error);
    }
    nsi_motion_free(s.motion);
    nsi_arena_free(&s.arena);
    for (int k = 0; k < 2; k++) nsi_free(&f->allocator, s.params[k]);
    return status;
}
