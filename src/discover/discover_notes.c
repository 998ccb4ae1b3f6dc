// What a discovery says in sentences.

#include "discover/discover_words.h"
#include "report/format.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

static const nsi_term* noted_term(const ns_discovery* d, uint32_t k) {
    return &d->library.terms.data[k];
}

const char* nsi_discover_sentence(ns_discovery* d, const ns_discovered* f) {
    char text[600];
    nsi_formatted value = nsi_format_value(f->value, f->standard_error);
    if (f->parameter) {
        snprintf(text, sizeof text, "%.300s = %s", f->quantity, value.text);
    } else if (isfinite(f->shape)) {
        snprintf(text, sizeof text, "%.300s += %s tanh(qd / %s)", f->quantity, value.text,
                 nsi_format(f->shape, 2).text);
    } else if (strcmp(f->form, "1") == 0) {
        snprintf(text, sizeof text, "%.300s += %s", f->quantity, value.text);
    } else {
        snprintf(text, sizeof text, "%.300s += %s %.100s", f->quantity, value.text, f->form);
    }
    return nsi_arena_string(&d->arena, text, strlen(text));
}

// ---- notes -------------------------------------------------------------------------------------

typedef struct noter {
    ns_discovery* d;
    bool failed;
} noter;

static void add_note(noter* n, ns_note_level level, const char* format, ...) NSI_PRINTF(3, 4);
static void add_note(noter* n, ns_note_level level, const char* format, ...) {
    char text[1200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const char* kept = nsi_arena_string(&n->d->arena, text, strlen(text));
    ns_note note = {level, kept};
    if (!kept || !nsi_array_push(&n->d->allocator, &n->d->notes, note)) n->failed = true;
}

// The move by which an active term came.
static const nsi_selection_step* move_of(const ns_discovery* d, uint32_t term) {
    for (uint32_t k = d->steps.count; k-- > 0;) {
        const nsi_selection_step* m = &d->steps.data[k];
        if (m->kind != NSI_STEP_BACKWARD && m->term == term) return m;
    }
    return NULL;
}

// "same as joint/elbow/damping = 0.098": where the model has such a parameter.
static void note_same(noter* n, uint32_t term) {
    const ns_discovery* d = n->d;
    const nsi_term* t = noted_term(d, term);
    const ns_model* model = d->fit->variants[0].model;
    if (t->equivalent == NSI_NONE) return;
    const ns_param* param = ns_model_param(model, t->equivalent);
    double was = nsi_discover_value(d->fit, param), value = was - d->workspace.values[term];
    if (!(value >= 0.0)) return;

    // Of a spring with a rest angle, the stiffness is more than a factor of q.
    if (param->kind == NS_PARAM_JOINT_STIFFNESS) {
        uint32_t rest = nsi_discover_find_param(model, NS_PARAM_JOINT_REST, param->owner);
        if (rest == NSI_NONE) return;
        if (nsi_discover_value(d->fit, ns_model_param(model, rest)) != 0.0) return;
    }

    nsi_formatted shown = nsi_format_value(value, d->errors[term]);
    if (t->shape == NSI_NONE) {
        add_note(n, NS_NOTE_INFO, "%s is the same as %s = %s", t->name, param->name, shown.text);
    } else if (was == 0.0) {
        double v = noted_term(d, t->shape)->start + d->workspace.values[t->shape];
        add_note(n, NS_NOTE_INFO,
                 "the friction at %s is the same as %s = %s, with friction_velocity = %s",
                 t->quantity, param->name, shown.text, nsi_format(v, 2).text);
    }
}

static void note_rivals(noter* n, uint32_t term) {
    const nsi_selection_step* m = move_of(n->d, term);
    char text[900] = "";
    for (int equal = 1; equal >= 0 && m; equal--) {
        int used = 0, count = 0;
        for (uint32_t k = 0; k < m->nrival && count < 6; k++) {
            if (m->rivals[k].equal != (bool)equal) continue;
            used += snprintf(text + used, sizeof text - (size_t)used, "%s%.120s",
                             count++ > 0 ? "; " : "", noted_term(n->d, m->rivals[k].term)->name);
        }
        if (count == 0) continue;
        add_note(n, NS_NOTE_INFO,
                 equal ? "%s: the data cannot tell it from: %s"
                       : "%s: nearly as much is explained by: %s",
                 noted_term(n->d, term)->name, text);
    }
}

static double residual_left(const ns_discovery* d) {
    return d->learned.blueprint ? d->learned.after : d->levels.data[d->levels.count - 1].after;
}

bool nsi_discover_is_misfit(const ns_discovery* d) {
    const double tiny = 1e-9; // in units of the spread of a channel, or of its noise: rounding
    if (d->levels.count == 0 || d->progress->stopped) return false;
    double left = residual_left(d);
    return d->noise > 0.0 && left > nsi_thresholds.ranking.noise_ratio * d->noise && left >= tiny;
}

static void note_left(noter* n) {
    const ns_discovery* d = n->d;
    if (!nsi_discover_is_misfit(d)) return;
    double left = residual_left(d);
    add_note(n, NS_NOTE_WARNING, "what is left is %s times the noise: %s",
             nsi_format_short(left / d->noise, 2).text,
             d->found.count > 0
                 ? "the terms above may stand in for others, and their errors are too small"
                 : "something is missing that no candidate term describes");
}

// Does a channel come to the limit within this share of the range?
static bool reaches(const ns_dataset* data, uint32_t channel, double limit, double near) {
    uint32_t nchannel = ns_dataset_channel_count(data);
    bool below = false, above = false;
    for (uint32_t k = 0; k < ns_dataset_recording_count(data); k++) {
        const ns_recording* r = ns_dataset_recording(data, k);
        for (uint32_t i = 0; i < r->nsample; i++) {
            double x = r->values[(size_t)i * nchannel + channel];
            below = below || x <= limit + near;
            above = above || x >= limit - near;
        }
    }
    return below && above;
}

// Stops exert forces that no candidate describes.
static void note_limits(noter* n) {
    const double near = 1e-3;
    const ns_model* model = n->d->fit->variants[0].model;
    const nsi_problem* p = n->d->workspace.problem;
    const ns_dataset* train = n->d->fit->data[NS_ROLE_TRAIN];
    for (uint32_t k = 0; k < ns_model_get_sizes(model).nlink; k++) {
        const ns_link_def* link = ns_model_link(model, k);
        uint32_t q = ns_model_joint_q(model, k);
        if (!link->limited || q >= p->nq || p->channel_of_state[q] == NSI_NONE) continue;
        double range = link->upper - link->lower;
        for (int upper = 0; upper < 2; upper++) {
            double limit = upper ? link->upper : link->lower;
            if (!reaches(train, p->channel_of_state[q], limit, near * range)) continue;
            add_note(
                n, NS_NOTE_WARNING,
                "joint/%s reaches its limit of %s in the recordings: a stop that is not as in the "
                "model"
                " can look like other terms; leave these stretches out",
                link->joint, nsi_format_short(limit, 4).text);
        }
    }
}

ns_status nsi_discover_note(ns_discovery* d, ns_error* error) {
    noter n = {.d = d};

    // For each term: equivalent parameters, and rival candidates that explain as much.
    for (uint32_t k = 0; k < d->active.count; k++) {
        // Parameters that the file fits are no discovery.
        if (!nsi_term_is_candidate(noted_term(d, d->active.data[k]))) continue;
        note_same(&n, d->active.data[k]);
        note_rivals(&n, d->active.data[k]);
    }

    // The remaining residual may come from the integrator, or may be left to a network.
    if (d->numerical) {
        // More physics would not help here; a smaller time step would.
        add_note(
            &n, NS_NOTE_WARNING,
            "what is left is the error of the integrator: %s takes %s %% of it away; take smaller"
            " steps, or this integrator",
            d->other, nsi_format_short(100.0 * d->numerical_share, 3).text);
    } else if (d->learned.blueprint) {
        // The network is judged on held-out windows.
        add_note(
            &n, NS_NOTE_INFO,
            "no formula was found for %s: a network stands there; windows that it was not trained "
            "on"
            " have residuals of %s with it, %s without",
            d->learned.quantity, nsi_format(d->learned.after, 3).text,
            nsi_format(d->learned.before, 3).text);
    }

    // What the values above rest on.
    for (uint32_t k = 0; k < d->groups.count; k++) {
        add_note(
            &n, NS_NOTE_WARNING,
            "these can be traded against each other, the data cannot tell: %s. The values above"
            " and their errors hold if the others are as in the model; `discover: {parameters:"
            " [..]}` chooses which may change",
            d->groups.data[k]);
    }

    // Limits of the result: remaining residual, identifiability, size of the library.
    note_left(&n);
    note_limits(&n);
    // Later searches use a larger library.
    if (d->extended)
        add_note(&n, NS_NOTE_INFO, "the candidate library was extended at %s", d->extended);
    // Candidates that did not fit were never tried.
    if (d->library.omitted > 0) {
        add_note(
            &n, NS_NOTE_WARNING,
            "the model is large: %u kinds of terms were left out; `discover: {outputs: [...]}` "
            "makes"
            " room for them",
            d->library.omitted);
    }

    return n.failed ? nsi_fail_nomem(error) : NS_OK;
}

void nsi_discover_step_text(const ns_discovery* d, const nsi_selection_step* m,
                            nsi_text_builder* out) {
    nsi_format_add(out, noted_term(d, m->term)->name);
    if (m->kind == NSI_STEP_EXCHANGE) {
        nsi_text_add(out, " in the place of ");
        nsi_format_add(out, noted_term(d, m->replaced)->name);
    } else {
        nsi_text_add(out, m->kind == NSI_STEP_FORWARD ? " enters" : " leaves");
    }
}
