// Traces of a fit as a motion of the report: recorded, before, after.

#include "fit/prediction_traces.h"

#include "fit/result_words.h"
#include "model/model_data.h"
#include "neuralsim/motion.h"
#include "sim/step.h"

#include <stdio.h>

// Of all columns: so many are written in about a second.
enum { MAX_NUMBERS = 10000000 };

// What is drawn of a fit's system for values of its parameters.
typedef struct showing {
    const nsi_traces* e;
    const ns_fit* f;
    ns_motion* viewer;
    ns_motion_observer* motion;
    uint32_t variant; // that is shown
    double* params[2];
    uint32_t rows; // shown, of all there are
} showing;

// Rows of a trace that are shown.
static uint32_t motion_row_count(const showing* s, const nsi_trace* trace) {
    if (trace->first >= s->rows) return 0;
    uint32_t left = s->rows - trace->first;
    return trace->rows < left ? trace->rows : left;
}

// Stretches of the same role.
static ns_status motion_add_spans(const showing* s, const nsi_trace* trace, ns_error* error) {
    const nsi_traces* e = s->e;
    uint32_t end = trace->first + motion_row_count(s, trace);
    for (uint32_t row = trace->first; row < end;) {
        uint32_t last = row;
        while (last + 1 < end && e->roles[last + 1] == e->roles[row]) last++;
        if (e->roles[row] < NS_ROLE_COUNT) {
            bool goes_on = last + 1 < end && e->roles[last + 1] < NS_ROLE_COUNT;
            double to = e->time[goes_on ? last + 1 : last];
            ns_status status = ns_motion_add_span(
                s->viewer, e->time[row], to, nsi_role_name((ns_data_role)e->roles[row]), error);
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
    const ns_model* model = s->f->variants[0].model;
    bool velocity = source->number >= p->nq;
    uint32_t number = velocity ? source->number - p->nq : source->number;
    for (uint32_t k = 0; source->state && k < ns_model_get_sizes(model).nlink; k++) {
        const ns_link_def* link = ns_model_link(model, k);
        bool single = ns_joint_type_info(link->joint_type)->has_axis;
        uint32_t at = velocity ? ns_model_joint_v(model, k) : ns_model_joint_q(model, k);
        if (!single || at != number) continue;
        snprintf(room, size, "joint/%s/%s", link->joint, velocity ? "velocity" : "position");
        return room;
    }
    return ns_dataset_channel(s->f->data[NS_ROLE_TRAIN], channel)->name;
}

static ns_status motion_add_channels(const showing* s, const nsi_trace* trace, const double* values,
                                     ns_error* error) {
    const nsi_traces* e = s->e;
    const ns_fit* f = s->f;
    for (uint32_t c = 0; c < e->nchannel; c++) {
        const char* unit = nsi_problem_unit(f->problem, c);
        char name[NSI_MODEL_MAX_NAME + 20];
        ns_status status = ns_motion_add_quantity(
            s->viewer, shown_name(s, c, name, sizeof name), unit,
            values + (size_t)trace->first * e->nchannel + c, e->nchannel, error);
        if (status != NS_OK) return status;
    }
    return NS_OK;
}

// A learned system has coordinates and velocities, as the model's own system has in front; what that
// has behind them does not matter for its poses.
static ns_status motion_add_learned(const showing* s, const nsi_trace* trace, const double* states,
                                    ns_error* error) {
    const nsi_traces* e = s->e;
    const nsi_problem* p = s->f->problem;
    size_t used = p->nq + p->nv, nx = used + nsi_model_actuator_states(p->model);
    double* x = nsi_alloc_zeroed(&e->allocator, (trace->rows * nx + 1) * sizeof *x);
    if (!x) return nsi_fail_nomem(error);
    for (size_t row = 0; row < trace->rows; row++) {
        memcpy(x + row * nx, states + (trace->first + row) * e->nx, used * sizeof *x);
    }
    ns_motion_states rows = {.states = x, .poses_only = true};
    ns_status status = ns_motion_observer_add_states(s->motion, s->viewer, &rows, error);
    nsi_free(&e->allocator, x);
    return status;
}

static ns_status motion_add_track(const showing* s, const nsi_trace* trace, const char* name,
                                  const double* values, const double* states, const double* params,
                                  const double* weights, ns_error* error) {
    const nsi_traces* e = s->e;
    bool recorded = values == e->recorded;
    ns_status status = ns_motion_add_track(s->viewer, name, name, error);
    if (status == NS_OK && states && s->f->spec->learned) {
        status = motion_add_learned(s, trace, states, error);
    } else if (status == NS_OK && states) {
        ns_motion_states rows = {.states = states + (size_t)trace->first * e->nx,
                                 .controls = e->controls + (size_t)trace->first * e->nc,
                                 .params = params,
                                 .weights = weights,
                                 .poses_only = recorded};
        status = ns_motion_observer_add_states(s->motion, s->viewer, &rows, error);
    }
    return status == NS_OK ? motion_add_channels(s, trace, values, error) : status;
}

// Parts of a recording that overlap are traces of their own: what they are for tells them apart.
static const char* motion_title(const nsi_traces* e, const nsi_trace* trace, char* room,
                                size_t size) {
    uint32_t same = 0;
    for (uint32_t k = 0; k < e->list.count; k++) {
        same += strcmp(e->list.data[k].name, trace->name) == 0;
    }
    if (same < 2 || trace->rows == 0) return trace->name;
    uint32_t last = trace->first + trace->rows - 1;
    snprintf(room, size, "%.200s, %s, %s to %s s", trace->name,
             nsi_role_name((ns_data_role)e->roles[trace->first]),
             nsi_format_short(e->time[trace->first], 4).text,
             nsi_format_short(e->time[last], 4).text);
    return room;
}

static ns_status motion_add_trace(const showing* s, const nsi_trace* trace, const char* note,
                                  ns_error* error) {
    const nsi_traces* e = s->e;
    const ns_fit* f = s->f;
    char name[400];
    ns_status status =
        ns_motion_add_episode(s->viewer, motion_title(e, trace, name, sizeof name),
                              e->time + trace->first, motion_row_count(s, trace), note, error);
    if (status == NS_OK) status = motion_add_spans(s, trace, error);
    if (status == NS_OK) {
        status = motion_add_track(s, trace, "recorded", e->recorded, e->measured,
                                  s->params[NSI_AFTER], f->w, error);
    }
    if (status == NS_OK) {
        status = motion_add_track(s, trace, "before", e->values[NSI_BEFORE], e->states[NSI_BEFORE],
                                  s->params[NSI_BEFORE], f->w0, error);
    }
    if (status == NS_OK) {
        status = motion_add_track(s, trace, "after", e->values[NSI_AFTER], e->states[NSI_AFTER],
                                  s->params[NSI_AFTER], f->w, error);
    }
    return status;
}

// Parameters of the system before and after.
static ns_status motion_find_params(showing* s, ns_error* error) {
    const ns_fit* f = s->f;
    size_t np = nsi_parameters_param_count(f->parameters, s->variant),
           scratch = nsi_parameters_scratch(f->parameters);
    double* v = nsi_alloc(&f->allocator, ((size_t)f->nz + scratch + 1) * sizeof(double));
    for (int k = 0; k < 2; k++) {
        s->params[k] = nsi_alloc(&f->allocator, (np + 1) * sizeof(double));
        if (!v || !s->params[k]) continue;
        nsi_parameters_from_z(f->parameters, k == NSI_AFTER ? f->z : f->z0, v, NULL, v + f->nz);
        nsi_parameters_params(f->parameters, s->variant, v, s->params[k], NULL, v + f->nz);
    }
    nsi_free(&f->allocator, v);
    return v && s->params[0] && s->params[1] ? NS_OK : nsi_fail_nomem(error);
}

// As many rows as fit a page: the others are left out, too.
static void motion_choose_rows(showing* s) {
    uint64_t columns =
        1 + 3 * ((uint64_t)ns_motion_observer_column_count(s->motion) + s->e->nchannel);
    uint64_t most = columns < MAX_NUMBERS ? MAX_NUMBERS / columns : 1;
    s->rows = s->e->rows < most ? s->e->rows : (uint32_t)most;
}

// What a person should know about all traces.
static void motion_make_note(const showing* s, char* text, size_t size) {
    const nsi_traces* e = s->e;
    const nsi_fit_spec* spec = s->f->spec;
    char beginning[120] = "Predictions start at the beginning of each part.", rest[120] = "";
    char only[160] = "";
    if (e->ahead > 0) {
        double seconds = e->ahead * ns_dataset_period(s->f->data[NS_ROLE_TRAIN]);
        snprintf(beginning, sizeof beginning, "Predictions start anew every %s s from a state %s.",
                 nsi_format_short(seconds, 4).text,
                 spec->history > 1 ? "fitted to the samples before" : "as recorded");
    }
    if (e->left_out + e->cut > 0 || s->rows < e->rows) {
        snprintf(rest, sizeof rest,
                 " Not all recordings are shown, or not to their end: it would"
                 " be too much for a page.");
    }
    if (s->f->nvariant > 1) {
        snprintf(only, sizeof only, " Only recordings of the variant %.60s are shown here.",
                 s->f->variants[s->variant].name);
    }
    snprintf(text, size, "%s%s%s", beginning, rest, only);
}

ns_status nsi_traces_show(const nsi_traces* e, const ns_fit* f, ns_motion* viewer,
                          ns_error* error) {
    showing s = {.e = e, .f = f, .viewer = viewer, .variant = nsi_traces_variant(e)};
    const nsi_fit_variant* v = &f->variants[s.variant];
    char note[460];
    ns_status status = motion_find_params(&s, error);
    if (status == NS_OK) {
        status = ns_motion_observer_create(v->model, &v->options, NULL, 0, &s.motion, error);
    }
    if (status == NS_OK) {
        motion_choose_rows(&s);
        motion_make_note(&s, note, sizeof note);
    }
    for (uint32_t k = 0; status == NS_OK && k < e->list.count; k++) {
        if (motion_row_count(&s, &e->list.data[k]) == 0) break;
        if (e->list.data[k].variant != s.variant) continue;
        status = motion_add_trace(&s, &e->list.data[k], note, error);
    }
    ns_motion_observer_free(s.motion);
    for (int k = 0; k < 2; k++) nsi_free(&f->allocator, s.params[k]);
    return status;
}
