// A discovery for a terminal, and the sentences that all forms share.

#include "discover/discover_words.h"
#include "fit/result_words.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

static const nsi_term* term_of(const ns_discovery* d, uint32_t k) {
    return &d->dictionary.terms.data[k];
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

static void note(noter* n, const char* format, ...) NSI_PRINTF(2, 3);
static void note(noter* n, const char* format, ...) {
    char text[1200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const char* kept = nsi_arena_string(&n->d->arena, text, strlen(text));
    if (!kept || !nsi_array_push(&n->d->allocator, &n->d->notes, kept)) n->failed = true;
}

// The move by which an active term came.
static const nsi_move* move_of(const ns_discovery* d, uint32_t term) {
    for (uint32_t k = d->moves.count; k-- > 0;) {
        const nsi_move* m = &d->moves.data[k];
        if (m->kind != NSI_MOVE_LEAVE && m->term == term) return m;
    }
    return NULL;
}

// Is the spring of a joint at rest at 0? Otherwise its stiffness is more than a factor of q.
static bool rests_at_zero(const ns_discovery* d, const nsi_term* t) {
    const ns_model* model = ns_hybrid_model(d->fit->hybrid);
    char name[300];
    snprintf(name, sizeof name, "%.*s/rest", (int)(strrchr(t->same_as, '/') - t->same_as),
             t->same_as);
    uint32_t number = ns_model_find_param(model, name);
    return number != UINT32_MAX && nsi_discover_value(d->fit, ns_model_param(model, number)) == 0.0;
}

// "same as joint/elbow/damping = 0.098": where the model has such a parameter.
static void note_same(noter* n, uint32_t term) {
    const nsi_term* t = term_of(n->d, term);
    const ns_model* model = ns_hybrid_model(n->d->fit->hybrid);
    if (!t->same_as) return;
    uint32_t number = ns_model_find_param(model, t->same_as);
    if (number == UINT32_MAX) return;
    double was = nsi_discover_value(n->d->fit, ns_model_param(model, number));
    double value = was - n->d->bench.values[term];
    if (!(value >= 0.0) || (strcmp(t->form, "q") == 0 && !rests_at_zero(n->d, t))) return;
    nsi_formatted shown = nsi_format_value(value, n->d->errors[term]);
    if (t->of == NSI_NONE) {
        note(n, "%s is the same as %s = %s", t->name, t->same_as, shown.text);
    } else if (was == 0.0) {
        double v = term_of(n->d, t->of)->start + n->d->bench.values[t->of];
        note(n, "the friction at %s is the same as %s = %s, with friction_velocity = %s", t->place,
             t->same_as, shown.text, nsi_format(v, 2).text);
    }
}

static void note_rivals(noter* n, uint32_t term) {
    const nsi_move* m = move_of(n->d, term);
    char text[900] = "";
    for (int equal = 1; equal >= 0 && m; equal--) {
        int used = 0, count = 0;
        for (uint32_t k = 0; k < m->nrival && count < 6; k++) {
            if (m->rivals[k].equal != (bool)equal) continue;
            used += snprintf(text + used, sizeof text - (size_t)used, "%s%.120s",
                             count++ > 0 ? "; " : "", term_of(n->d, m->rivals[k].term)->name);
        }
        if (count == 0) continue;
        note(n,
             equal ? "%s: the data cannot tell it from: %s"
                   : "%s: nearly as much is explained by: %s",
             term_of(n->d, term)->name, text);
    }
}

static void note_left(noter* n) {
    const double tiny = 1e-9; // in units of the spread of a channel, or of its noise: rounding
    const ns_discovery* d = n->d;
    if (d->levels.count == 0 || d->watch->stopped) return;
    double left = d->levels.data[d->levels.count - 1].after;
    if (d->learned.blueprint) left = d->learned.after;
    if (!(d->noise > 0.0) || !(left > 3.0 * d->noise) || left < tiny) return;
    note(n, "what is left is %s times the noise: %s", nsi_format_short(left / d->noise, 2).text,
         d->found.count > 0
             ? "the terms above may stand in for others, and their errors are too small"
             : "something is missing that no term of the dictionary can say");
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

// Stops make forces of their own, which the dictionary has not.
static void note_limits(noter* n) {
    const double near = 1e-3;
    const ns_model* model = ns_hybrid_model(n->d->fit->hybrid);
    const nsi_problem* p = n->d->bench.problem;
    const ns_dataset* train = n->d->fit->data[NSI_ROLE_TRAIN];
    for (uint32_t k = 0; k < ns_model_get_sizes(model).nlink; k++) {
        const ns_link_def* link = ns_model_link(model, k);
        uint32_t q = ns_model_joint_q(model, k);
        if (!link->limited || q >= p->nq || p->channel_of_state[q] == NSI_NONE) continue;
        double range = link->upper - link->lower;
        for (int upper = 0; upper < 2; upper++) {
            double limit = upper ? link->upper : link->lower;
            if (!reaches(train, p->channel_of_state[q], limit, near * range)) continue;
            note(n,
                 "joint/%s reaches its limit of %s in the recordings: a stop that is not as in the "
                 "model"
                 " can look like other terms; leave these stretches out",
                 link->joint, nsi_format_short(limit, 4).text);
        }
    }
}

ns_status nsi_discover_note(ns_discovery* d, ns_error* error) {
    noter n = {.d = d};
    for (uint32_t k = 0; k < d->active.count; k++) {
        if (!nsi_term_is_candidate(term_of(d, d->active.data[k]))) continue;
        note_same(&n, d->active.data[k]);
        note_rivals(&n, d->active.data[k]);
    }
    if (d->numerical) {
        note(&n,
             "what is left is the error of the integrator: %s takes %s %% of it away; take smaller"
             " steps, or this integrator",
             d->other, nsi_format_short(100.0 * d->numerical_share, 3).text);
    } else if (d->learned.blueprint) {
        note(&n,
             "no formula was found for %s: a network stands there; windows that it was not trained "
             "on"
             " have residuals of %s with it, %s without",
             d->learned.place, nsi_format(d->learned.after, 3).text,
             nsi_format(d->learned.before, 3).text);
    }
    note_left(&n);
    note_limits(&n);
    if (d->wide) note(&n, "the dictionary was widened at %s", d->wide);
    if (d->dictionary.left_out > 0) {
        note(&n,
             "the model is large: %u kinds of terms were left out; `discover: {outputs: [...]}` "
             "makes"
             " room for them",
             d->dictionary.left_out);
    }
    return n.failed ? nsi_fail_nomem(error) : NS_OK;
}

void nsi_discover_move(const ns_discovery* d, const nsi_move* m, nsi_text_builder* out) {
    nsi_format_add(out, term_of(d, m->term)->name);
    if (m->kind == NSI_MOVE_SWAP) {
        nsi_text_add(out, " in the place of ");
        nsi_format_add(out, term_of(d, m->instead)->name);
    } else {
        nsi_text_add(out, m->kind == NSI_MOVE_ENTER ? " enters" : " leaves");
    }
}

// ---- the text ----------------------------------------------------------------------------------

static void add_scores(nsi_text_builder* b, const ns_discovery* d) {
    nsi_text_add(b, "\nroot mean square residuals  before      after\n");
    nsi_text_add(b, "  windows left out          %-10s  %s\n", nsi_format(d->held_out[0], 3).text,
                 nsi_format(d->held_out[1], 3).text);
    for (int role = 0; role < NSI_ROLES; role++) {
        if (!isfinite(d->score[role][0])) continue;
        nsi_text_add(b, "  %-24s  %-10s  %s\n", nsi_role_name((nsi_role)role),
                     nsi_format(d->score[role][0], 3).text, nsi_format(d->score[role][1], 3).text);
    }
}

ns_status ns_discover_text(const ns_discovery* d, ns_text* out, ns_error* error) {
    nsi_text_builder b = {.allocator = d->allocator};
    nsi_format_add(&b, d->fit->plan->title);
    nsi_text_add(&b, "\n%u terms, %u without effect; windows of", d->ncandidate + d->nidle,
                 d->nidle);
    for (uint32_t k = 0; k < d->levels.count; k++) {
        nsi_text_add(&b, "%s%u", k > 0 ? ", " : " ", d->levels.data[k].length);
    }
    nsi_text_add(&b, " samples; %s s\n\n", nsi_format_short(d->seconds, 2).text);
    if (d->watch->stopped) {
        nsi_text_add(&b, NSI_INTERRUPTED "\n\n");
    } else if (d->found.count == 0)
        nsi_text_add(&b, "nothing is missing that these recordings show\n");
    for (uint32_t k = 0; k < d->found.count; k++) {
        const ns_discovered* f = &d->found.data[k];
        nsi_format_add(&b, f->text);
        if (isnan(f->value)) {
            nsi_text_add(&b, "\n");
            continue;
        }
        nsi_text_add(&b, "   (\xc2\xb1 %s", nsi_format_error(f->value, f->standard_error).text);
        if (f->parameter) nsi_text_add(&b, ", was %s", nsi_format_short(f->start, 6).text);
        nsi_text_add(&b, ")\n");
    }
    for (uint32_t k = 0; k < d->notes.count; k++) {
        nsi_text_add(&b, "%s- ", k == 0 ? "\n" : "");
        nsi_format_add(&b, d->notes.data[k]);
        nsi_text_add(&b, "\n");
    }
    if (d->ranks.count > 0) {
        nsi_text_add(&b, "\nshare of the residuals that up to three terms at one place explain, "
                         "left out windows\n");
    }
    for (uint32_t k = 0; k < d->ranks.count && k < NSI_MOST_RANKS; k++) {
        const nsi_rank* r = &d->ranks.data[k];
        nsi_text_add(&b, "  %6s %%  ", nsi_format(100.0 * r->share, 3).text);
        nsi_format_add(&b, r->place);
        nsi_text_add(&b, "\n");
    }
    if (d->moves.count > 0) nsi_text_add(&b, "\nsteps\n");
    for (uint32_t k = 0; k < d->moves.count; k++) {
        const nsi_move* m = &d->moves.data[k];
        nsi_text_add(&b, "  windows of %u: ", m->length);
        nsi_discover_move(d, m, &b);
        nsi_text_add(&b, "; sum of squares %s to %s\n", nsi_format(m->before, 3).text,
                     nsi_format(m->after, 3).text);
    }
    if (d->levels.count > 0) add_scores(&b, d);
    return nsi_text_finish(&b, out, error);
}
