// Fills the result of a fit: description, estimates with standard errors, and scores.

#include "fit/fit_state.h"
#include "fit/uncertainty.h"
#include "fit/verdicts.h"

#include <math.h>
#include <stdio.h>

// "LSTM of 16, next state"
static void describe_learned(const nsi_learned* l, char* text, size_t size) {
    int used = snprintf(text, size, "%s",
                        l->kind == NS_LEARNED_LSTM ? "LSTM of "
                        : l->nhidden == 0          ? "linear map"
                                                   : "feed-forward network of ");
    for (uint32_t k = 0; k < l->nhidden && used > 0 && (size_t)used < size; k++) {
        used +=
            snprintf(text + used, size - (size_t)used, "%s%u", k > 0 ? " and " : "", l->hidden[k]);
    }
    if (used > 0 && (size_t)used < size) {
        snprintf(text + used, size - (size_t)used, ", %s",
                 l->integrate   ? l->increment ? "increments of velocities" : "next velocities"
                 : l->increment ? "increments"
                                : "next state");
    }
}

// "butter.xml", or all of the spec's variants one after the other; NULL: out of memory.
static const char* describe_model(ns_fit* f) {
    nsi_text_builder text = {.allocator = f->allocator};
    if (f->spec->model) return f->spec->model;
    for (uint32_t k = 0; k < f->nvariant && f->by_calls; k++) {
        const char* name = f->variants[k].name;
        nsi_text_add(&text, "%s%s", k > 0 ? ", " : "", name ? name : "model");
    }
    for (uint32_t k = 0; k < f->spec->variants.count; k++) {
        nsi_text_add(&text, "%s%s", k > 0 ? ", " : "", f->spec->variants.data[k].model);
    }
    const char* kept =
        text.failed ? NULL : nsi_arena_string(&f->result.arena, text.text.data, text.text.count);
    nsi_array_free(&text.allocator, &text.text);
    return kept;
}

static ns_status describe_fit(ns_fit* f, ns_error* error) {
    static const char* const states[] = {"free start states", "start states as recorded",
                                         "start states tied to the window before"};

    // How the motion is integrated: by a learned system, or in time steps of the physics.
    const nsi_stage* last = &f->spec->stages.data[f->spec->stages.count - 1];
    ns_system_sizes sizes = ns_system_get_sizes(f->system);
    char text[300], step[200];
    double period = ns_dataset_period(f->data[NS_ROLE_TRAIN]);
    if (f->spec->learned) {
        describe_learned(f->spec->learned, step, sizeof step);
    } else {
        snprintf(step, sizeof step, "%s, steps of %g ms",
                 ns_choice_help(&ns_integrators, (int)sizes.integrator), sizes.timestep * 1e3);
    }

    // Data and windows of the last stage, and the seed that reproduces the fit.
    char noise[60] = "";
    if (f->spec->noise > 0.0) {
        snprintf(noise, sizeof noise, "; noise of %g added to training data", f->spec->noise);
    }
    snprintf(text, sizeof text, "%s, samples every %g ms; %s%s; seed %llu", step, period * 1e3,
             states[last->windows.initial_state], noise, (unsigned long long)f->spec->seed);

    // Texts of the spec live as long as the fit; the setting is made here.
    nsi_result* a = &f->result;
    a->setting = nsi_arena_string(&a->arena, text, strlen(text));
    a->title = f->spec->title;
    a->citation = f->spec->citation;
    a->model = describe_model(f);
    a->treatment = ns_dataset_treatment(f->data[NS_ROLE_TRAIN]);

    // Standard errors are absolute only if every weighted channel has a sigma.
    a->noise_known = true;
    for (uint32_t k = 0; k < ns_dataset_channel_count(f->data[NS_ROLE_TRAIN]); k++) {
        const ns_channel* channel = ns_dataset_channel(f->data[NS_ROLE_TRAIN], k);
        if (channel->weight > 0.0 && !(channel->sigma > 0.0)) a->noise_known = false;
    }

    // What the checks said of the recordings.
    a->data_warnings.count = 0;
    for (uint32_t k = 0; k < f->data_warnings.texts.count; k++) {
        const char* warning = f->data_warnings.texts.data[k];
        warning = nsi_arena_string(&a->arena, warning, strlen(warning));
        if (!warning || !nsi_array_push(&a->allocator, &a->data_warnings, warning)) {
            return nsi_fail_nomem(error);
        }
    }

    // Network weights count if some stage optimises them.
    a->nweight = 0;
    for (uint32_t k = 0; k < f->spec->stages.count; k++) {
        if (nsi_optimises_weights(f->spec->stages.data[k].windows.optimise)) a->nweight = f->nw;
    }
    return a->setting && a->model ? NS_OK : nsi_fail_nomem(error);
}

// A text of the result's own: it may outlive the fit.
static bool own_text(nsi_result* a, const char** text) {
    if (*text) *text = nsi_arena_string(&a->arena, *text, strlen(*text));
    return *text != NULL;
}

static ns_status own_texts(nsi_result* a, ns_error* error) {
    bool ok = own_text(a, &a->title) && own_text(a, &a->citation) && own_text(a, &a->model);
    ok = ok && own_text(a, &a->treatment);
    for (uint32_t k = 0; ok && k < a->estimates.count; k++) {
        ns_estimate* estimate = &a->estimates.data[k];
        ok = own_text(a, &estimate->name) && (!estimate->unit || own_text(a, &estimate->unit));
    }
    for (uint32_t k = 0; ok && k < a->coefficients.count; k++) {
        ok =
            own_text(a, &a->coefficients.data[k].set) && own_text(a, &a->coefficients.data[k].name);
    }
    for (int role = 0; ok && role < 2 * NS_ROLE_COUNT; role++) {
        ns_score* s = role < NS_ROLE_COUNT ? &a->before[role] : &a->after[role - NS_ROLE_COUNT];
        for (uint32_t k = 0; ok && k < s->nmetric; k++) {
            ok = own_text(a, &s->metrics[k].name) && own_text(a, &s->metrics[k].unit);
        }
    }
    return ok ? NS_OK : nsi_fail_nomem(error);
}

// Windows of the last stage whose gradient at its end is unreliable. Without a cost there is nothing to
// say: predictions name windows that are lost.
static ns_status certify_windows(nsi_objective* e, nsi_result* a, ns_error* error) {
    nsi_gradient_trust trust;
    ns_status status = nsi_objective_certify(e, &trust, error);
    a->unreliable_gradients = NULL;
    if (status == NS_ERR_NONFINITE) return NS_OK;
    if (status != NS_OK || trust.unreliable == 0) return status;
    char text[NS_GRADIENT_REASON_SIZE + 80];
    snprintf(text, sizeof text, "%u of %u windows (%.0f %%), the first because %s",
             trust.unreliable, trust.windows, 100.0 * trust.unreliable / trust.windows,
             trust.reason);
    a->unreliable_gradients = nsi_arena_string(&a->arena, text, strlen(text));
    return a->unreliable_gradients ? NS_OK : nsi_fail_nomem(error);
}

// A note for each link whose other moments have left behind those that no motion shows.
static ns_status note_following(ns_fit* f, const double* v, double* p, double* scratch,
                                ns_error* error) {
    nsi_result* a = &f->result;
    for (uint32_t m = 0; m < f->nvariant; m++) {
        nsi_following_moments moments;
        nsi_parameters_params(f->parameters, m, v, p, NULL, scratch);
        for (uint32_t k = 0; nsi_parameters_following(f->parameters, m, p, k, &moments); k++) {
            nsi_text_builder text = {.allocator = f->allocator};
            uint32_t count = 0;
            for (int i = 0; i < 6; i++) {
                if (!moments.moved[i]) continue;
                const char* name = strstr(moments.name[i], "inertia/");
                nsi_text_add(&text, "%s%s = %.4g", count++ ? ", " : "", name, moments.value[i]);
            }
            if (count > 0) {
                nsi_text_add(&text,
                             ": link %s turns about one axis, no motion shows these moments"
                             " of it, and they follow so that it stays physical",
                             moments.link);
            }

            // The text lives as long as the result.
            const char* kept =
                text.failed ? NULL : nsi_arena_string(&a->arena, text.text.data, text.text.count);
            bool done = count == 0 || (kept && nsi_array_push(&f->allocator, &a->notes, kept));
            nsi_array_free(&f->allocator, &text.text);
            if (!done) return nsi_fail_nomem(error);
        }
    }
    return NS_OK;
}

// ---- verdicts ------------------------------------------------------------------------------------

// Samples of a joint in the training recordings of a variant, and the one farthest from the middle of its
// range.
typedef struct joint_reach {
    uint32_t beyond, total;
    double farthest;
} joint_reach;

static joint_reach find_reach(const ns_fit* f, uint32_t variant, const ns_link_def* link,
                              uint32_t channel) {
    const ns_dataset* train = f->data[NS_ROLE_TRAIN];
    const double middle = 0.5 * (link->lower + link->upper);
    joint_reach reach = {.farthest = middle};

    // Stops are soft and measurements noisy: a hundredth of the range, or 3 sigma.
    double sigma = ns_dataset_channel(train, channel)->sigma;
    double slack = fmax(0.01 * (link->upper - link->lower), sigma > 0.0 ? 3.0 * sigma : 0.0);
    for (uint32_t i = 0; i < ns_dataset_recording_count(train); i++) {
        const ns_recording* r = ns_dataset_recording(train, i);
        if (nsi_problem_variant(f->problem, r) != variant) continue;
        for (uint32_t j = 0; j < r->nsample; j++) {
            double x = r->values[(size_t)j * ns_dataset_channel_count(train) + channel];
            reach.total++;
            reach.beyond += x > link->upper + slack || x < link->lower - slack;
            if (fabs(x - middle) > fabs(reach.farthest - middle)) reach.farthest = x;
        }
    }
    return reach;
}

// Joints of which more than a few samples to train on are beyond a limit of their variant, in words.
static void describe_limits(const ns_fit* f, uint32_t variant, nsi_text_builder* text) {
    const nsi_problem* p = f->problem;
    const nsi_variant* v = &p->variants[variant];
    for (uint32_t k = 0; v->model && k < ns_model_get_sizes(v->model).nlink; k++) {
        const ns_link_def* link = ns_model_link(v->model, k);
        uint32_t q = ns_model_joint_q(v->model, k);
        if (!link->limited || q >= p->nq || p->channel_of_state[q] == NSI_NONE) continue;
        joint_reach reach = find_reach(f, variant, link, p->channel_of_state[q]);
        if (reach.beyond * 200 < reach.total || reach.beyond == 0) continue;

        // Variants have joints of the same names.
        if (text->text.count > 0) nsi_text_add(text, "; ");
        if (p->nvariant > 1 && v->name) nsi_text_add(text, "%s: ", v->name);
        nsi_text_add(text, "joint/%s goes to %s, its range is %s to %s", link->joint,
                     nsi_format_short(reach.farthest, 3).text,
                     nsi_format_short(link->lower, 3).text, nsi_format_short(link->upper, 3).text);
    }
}

// What the run knows of how far its result can be trusted. Without iterations nothing was fitted, but
// the model may still not explain the data.
static ns_status judge_result(ns_fit* f, nsi_objective* e, ns_error* error) {
    nsi_result* a = &f->result;
    const nsi_fit_spec* spec = f->spec;
    nsi_verdict_evidence evidence = {.whole = spec->stages.count == 1 && !spec->search.solver &&
                                              spec->stages.data[0].windows.length == 0};
    nsi_text_builder limits = {.allocator = f->allocator};

    // Steps of the last stage, and whether any stage moved.
    if (e) evidence.refused = nsi_objective_refused(e, &evidence.refused_name);
    uint32_t iterations = 0;
    for (uint32_t k = 0; k < a->phases.count; k++) iterations += a->phases.data[k].iterations;
    evidence.stuck = iterations == 0;
    evidence.scored = !spec->search.solver;
    for (uint32_t k = 0; k < spec->stages.count; k++) {
        evidence.scored = evidence.scored && spec->stages.data[k].iterations == 0;
    }

    // Each variant has limits of its own.
    for (uint32_t k = 0; k < f->problem->nvariant; k++) describe_limits(f, k, &limits);
    if (limits.text.count > 0) nsi_text_add_bytes(&limits, "", 1);
    if (limits.text.count > 0) evidence.limits = limits.text.data;
    ns_status status = limits.failed ? nsi_fail_nomem(error) : NS_OK;
    if (status == NS_OK) status = nsi_result_judge(a, &evidence, error);
    nsi_array_free(&limits.allocator, &limits.text);
    return status;
}

ns_status nsi_fit_get_result(ns_fit* f, nsi_objective* e, ns_error* error) {
    nsi_result* a = &f->result;
    size_t scratch = nsi_parameters_scratch(f->parameters);
    size_t np = f->problem->param_at[f->nvariant];
    double* v = nsi_alloc(&f->allocator, ((size_t)f->nz + np + scratch + 1) * sizeof(double));
    if (!v) return nsi_fail_nomem(error);
    double* p = v + f->nz;
    nsi_parameters_from_z(f->parameters, f->z, v, NULL, p + np);
    ns_status status = describe_fit(f, error);
    if (status == NS_OK) status = nsi_list_estimates(f->parameters, v, a, error);
    if (status == NS_OK) status = nsi_list_coefficients(f->system, f->w0, f->w, a, error);
    if (status == NS_OK) status = note_following(f, v, p, p + np, error);
    nsi_free(&f->allocator, v);

    // Errors at the end of the last stage, then predictions.
    const nsi_stage* last = &f->spec->stages.data[f->spec->stages.count - 1];
    if (status == NS_OK && e) {
        status = nsi_judge_estimates(f->parameters, f->system, last->windows.optimise, e, a, error);
        if (status == NS_OK) status = certify_windows(e, a, error);
    }
    for (int role = 0; role < NS_ROLE_COUNT && status == NS_OK; role++) {
        status = nsi_fit_score(f, (ns_data_role)role, false, &a->before[role], error);
        if (status == NS_OK) {
            status = nsi_fit_score(f, (ns_data_role)role, true, &a->after[role], error);
        }
    }
    if (status == NS_OK) status = judge_result(f, e, error);
    return status == NS_OK ? own_texts(a, error) : status;
}

const ns_fit_result* ns_fit_get_result(const ns_fit* f) {
    return f && f->has_result ? &f->view : NULL;
}

uint32_t ns_fit_data_warning_count(const ns_fit* f) {
    return f->data_warnings.texts.count;
}

const char* ns_fit_data_warning(const ns_fit* f, uint32_t number) {
    const nsi_data_warnings* w = &f->data_warnings;
    return number < w->texts.count ? w->texts.data[number] : NULL;
}

const char* ns_fit_title(const ns_fit* f) {
    return f->spec->title;
}

bool ns_fit_estimate(const ns_fit* f, const char* name, double* value, double* error) {
    for (uint32_t k = 0; k < f->result.estimates.count; k++) {
        const ns_estimate* estimate = &f->result.estimates.data[k];
        if (strcmp(estimate->name, name) != 0) continue;
        if (value) *value = estimate->value;
        if (error) *error = estimate->standard_error;
        return true;
    }
    return false;
}
