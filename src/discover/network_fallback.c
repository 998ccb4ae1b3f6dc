// The last resort: a network at the force of a joint, where what is left cannot be said by a formula.
//
// It is trained on short windows of all folds but one and judged by the windows left out. Inputs that do not help there
// are taken away one by one.

#include "discover/discover_state.h"
#include "sysid/gauss_newton.h"

#include <math.h>
#include <stdio.h>

enum { MOST_JOINTS = 4, MOST_INPUTS = 2 * MOST_JOINTS, ITERATIONS = 40 };

// A network in training.
typedef struct pupil {
    const char* inputs[MOST_INPUTS];
    double shift[MOST_INPUTS], scale[MOST_INPUTS];
    uint32_t ninput;
    bool alone; // nothing else that was found counts: it may have been in vain
    ns_blueprint* blueprint;
    ns_system* system;
    nsi_problem* problem;
    double* weights;
    double held_out; // root mean square residual of windows left out
} pupil;

typedef struct school {
    ns_discovery* d;
    const char* place;
    uint32_t length; // of windows
    nsi_windows train, test, all;
    ns_error* error;
} school;

static void free_pupil(const school* s, pupil* p) {
    nsi_problem_free(p->problem);
    ns_system_free(p->system);
    ns_blueprint_free(p->blueprint);
    nsi_free(&s->d->allocator, p->weights);
    p->problem = NULL;
    p->system = NULL;
    p->blueprint = NULL;
    p->weights = NULL;
}

// Does an active term stay beside the network? Not at its place, which is the network's.
static bool stays(const school* s, const pupil* p, uint32_t term) {
    const nsi_term *terms = s->d->dictionary.terms.data, *t = &terms[term];
    if (t->kind == NSI_TERM_SHAPE) t = &terms[t->of];
    return t->kind == NSI_TERM_GIVEN || (!p->alone && !strstr(t->place, s->place));
}

// ---- the network -------------------------------------------------------------------------------

// The formulas that stand elsewhere, and a network.
static ns_status make_pupil(school* s, pupil* p) {
    ns_discovery* d = s->d;
    uint32_t count = 0;
    uint32_t* terms = nsi_alloc(&d->allocator, ((size_t)d->active.count + 1) * sizeof *terms);
    if (!terms) return nsi_fail_nomem(s->error);
    for (uint32_t k = 0; k < d->active.count; k++) {
        if (stays(s, p, d->active.data[k])) terms[count++] = d->active.data[k];
    }
    ns_status status = nsi_dictionary_blueprint(&d->dictionary, d->fit, terms, count,
                                                d->bench.values, &p->blueprint, s->error);
    nsi_free(&d->allocator, terms);
    if (status != NS_OK) return status;
    static const uint32_t hidden[] = {8, 8};
    ns_network_def def = ns_default_network_def();
    def.name = "missing.network";
    def.inputs = p->inputs;
    def.ninput = p->ninput;
    def.outputs = &s->place;
    def.noutput = 1;
    def.hidden = hidden;
    def.nhidden = 2;
    def.input_shift = p->shift;
    def.ninput_shift = p->ninput;
    def.input_scale = p->scale;
    def.ninput_scale = p->ninput;
    status = ns_blueprint_add(p->blueprint, &def, s->error);
    if (status == NS_OK) {
        status = nsi_workspace_system(&d->bench, &d->fit->options, p->blueprint, &p->system,
                                      &p->problem, s->error);
    }
    if (status != NS_OK) return status;
    p->weights = nsi_alloc_zeroed(&d->allocator,
                                  ((size_t)ns_system_get_sizes(p->system).nw + 1) * sizeof(double));
    if (!p->weights) return nsi_fail_nomem(s->error);
    ns_system_default_weights(p->system, p->weights);
    return NS_OK;
}

// An evaluator at the pupil's weights; with `learn`, of the network's weights alone.
static ns_status seat(school* s, pupil* p, const nsi_windows* windows, bool learn,
                      uint32_t* columns, nsi_objective** out) {
    ns_discovery* d = s->d;
    ns_window_options loss = {.length = s->length,
                              .smoothing = 5,
                              .optimise = learn ? NS_OPTIMISE_WEIGHTS : NS_OPTIMISE_NONE};
    ns_status status = nsi_objective_create(p->problem, d->fit->data[NSI_ROLE_TRAIN], &loss,
                                            windows, d->fit->threads, out, s->error);
    if (status != NS_OK) return status;
    nsi_point point = nsi_objective_point(*out);
    nsi_workspace_variables(&d->bench, d->bench.values, point.z);
    for (uint32_t k = 0; k < d->active.count; k++) {
        uint32_t term = d->active.data[k];
        const nsi_term_part* part = &d->dictionary.terms.data[term].parts[0];
        bool gone = part->atom == NSI_NONE && s->place && !stays(s, p, term);
        if (gone) point.z[part->column] -= d->bench.values[term];
    }
    memcpy(point.w, p->weights, ns_system_get_sizes(p->system).nw * sizeof(double));
    uint32_t count = 0;
    for (uint32_t k = 0; learn && k < ns_system_weight_matrix_count(p->system); k++) {
        ns_weight_matrix m = ns_system_weight_matrix(p->system, k);
        if (strcmp(m.set, "missing.network") != 0) continue;
        for (uint32_t i = 0; i < m.rows * m.columns; i++) columns[count++] = m.offset + i;
    }
    if (learn) nsi_objective_set_active(*out, columns, count);
    return NS_OK;
}

static ns_status train(school* s, pupil* p, const nsi_windows* windows, uint32_t iterations) {
    nsi_objective* e = NULL;
    uint32_t nw = ns_system_get_sizes(p->system).nw;
    uint32_t* columns = nsi_alloc(&s->d->allocator, ((size_t)nw + 1) * sizeof *columns);
    if (!columns) return nsi_fail_nomem(s->error);
    ns_status status = seat(s, p, windows, true, columns, &e);
    if (status == NS_OK) {
        ns_solver_options options = {.max_iterations = iterations, .tolerance = 1e-5};
        nsi_objective_lm(e, &options, nsi_watch_lm, s->d->watch);
        memcpy(p->weights, nsi_objective_point(e).w, nw * sizeof(double));
    }
    nsi_objective_free(e);
    nsi_free(&s->d->allocator, columns);
    return status;
}

// Root mean square residual of windows, start states fitted.
static ns_status judge(school* s, pupil* p, const nsi_windows* windows, double* out) {
    nsi_objective* e = NULL;
    ns_status status = seat(s, p, windows, false, NULL, &e);
    *out = INFINITY;
    if (status == NS_OK) {
        ns_solver_options options = {.max_iterations = 10};
        if (isfinite(nsi_objective_lm(e, &options, nsi_watch_lm, s->d->watch).value) &&
            isfinite(nsi_objective_cost(e))) {
            *out = nsi_objective_rms(e);
        }
    }
    nsi_objective_free(e);
    return status;
}

static ns_status teach(school* s, pupil* p) {
    ns_status status = make_pupil(s, p);
    if (status == NS_OK) status = train(s, p, &s->train, ITERATIONS);
    if (status == NS_OK) status = judge(s, p, &s->test, &p->held_out);
    return status;
}

// ---- its inputs --------------------------------------------------------------------------------

// Joints with one coordinate: that of the place, and its neighbours or all if there are few.
static ns_status list_inputs(school* s, pupil* p) {
    const ns_model* model = ns_hybrid_model(s->d->fit->hybrid);
    const nsi_problem* problem = s->d->bench.problem;
    const ns_dataset* train = s->d->fit->data[NSI_ROLE_TRAIN];
    uint32_t nlink = ns_model_get_sizes(model).nlink, joints = 0, own = NSI_NONE;
    double* x = nsi_alloc_zeroed(&s->d->allocator, ((size_t)problem->sizes.nx + 1) * sizeof *x);
    if (!x) return nsi_fail_nomem(s->error);
    for (uint32_t k = 0; k < nlink; k++) {
        char tau[300];
        const ns_link_def* link = ns_model_link(model, k);
        joints += ns_joint_type_info(link->joint_type)->has_axis;
        snprintf(tau, sizeof tau, "joint/%.200s/tau", link->joint ? link->joint : "");
        if (strcmp(tau, s->place) == 0) own = k;
    }
    for (uint32_t k = 0; k < nlink && p->ninput + 2 <= MOST_INPUTS; k++) {
        const ns_link_def* link = ns_model_link(model, k);
        bool one = ns_joint_type_info(link->joint_type)->has_axis;
        bool near = joints <= MOST_JOINTS || k == own || ns_model_link_parent(model, k) == own ||
                    (own != NSI_NONE && ns_model_link_parent(model, own) == k);
        if (!one || !near || ns_model_joint_v(model, k) == UINT32_MAX) continue;
        for (int rate = 0; rate < 2; rate++) {
            char name[300];
            uint32_t at =
                rate ? problem->nq + ns_model_joint_v(model, k) : ns_model_joint_q(model, k);
            double sum = 0.0, squares = 0.0, count = 0.0;
            for (uint32_t r = 0; r < ns_dataset_recording_count(train); r++) {
                const ns_recording* recording = ns_dataset_recording(train, r);
                for (uint32_t i = 0; i < recording->nsample; i += recording->nsample / 50 + 1) {
                    nsi_problem_guess(problem, recording, i, 5, x);
                    sum += x[at];
                    squares += x[at] * x[at];
                    count += 1.0;
                }
            }
            double mean = count > 0.0 ? sum / count : 0.0;
            double spread = count > 0.0 ? squares / count - mean * mean : 0.0;
            snprintf(name, sizeof name, "joint/%.200s/%s", link->joint,
                     rate ? "velocity" : "position");
            p->inputs[p->ninput] = nsi_arena_string(&s->d->arena, name, strlen(name));
            p->shift[p->ninput] = mean;
            p->scale[p->ninput] = spread > 1e-12 ? sqrt(spread) : 1.0;
            if (!p->inputs[p->ninput++]) {
                nsi_free(&s->d->allocator, x);
                return nsi_fail_nomem(s->error);
            }
        }
    }
    nsi_free(&s->d->allocator, x);
    return NS_OK;
}

static void take_input(pupil* p, uint32_t number) {
    for (uint32_t k = number; k + 1 < p->ninput; k++) {
        p->inputs[k] = p->inputs[k + 1];
        p->shift[k] = p->shift[k + 1];
        p->scale[k] = p->scale[k + 1];
    }
    p->ninput--;
}

// Inputs without which it does as well go.
static ns_status prune(school* s, pupil* p) {
    ns_status status = NS_OK;
    for (uint32_t k = p->ninput; k-- > 0 && p->ninput > 1 && status == NS_OK;) {
        pupil fewer = *p;
        fewer.blueprint = NULL;
        fewer.system = NULL;
        fewer.problem = NULL;
        fewer.weights = NULL;
        if (nsi_discover_tell(s->d, "a network of fewer inputs")) break;
        take_input(&fewer, k);
        status = teach(s, &fewer);
        bool as_good = status == NS_OK && fewer.held_out <= 1.1 * p->held_out;
        if (as_good) {
            free_pupil(s, p);
            *p = fewer;
        } else {
            free_pupil(s, &fewer);
        }
    }
    return status;
}

// ---- the whole ---------------------------------------------------------------------------------

// Every fourth recording is left out, or with fewer than three the last quarter of the windows.
static ns_status divide(school* s) {
    ns_discovery* d = s->d;
    const ns_dataset* data = d->fit->data[NSI_ROLE_TRAIN];
    uint32_t recordings = ns_dataset_recording_count(data);
    ns_status status =
        nsi_windows_make(d->bench.problem, data, s->length, 2000, false, &s->all, s->error);
    for (uint32_t k = 0; k < s->all.count && status == NS_OK; k++) {
        bool out = recordings < 3 ? 4 * k >= 3 * s->all.count
                                  : s->all.data[k].recording % 4 == (recordings < 4 ? 2u : 3u);
        if (!nsi_array_push(&d->allocator, out ? &s->test : &s->train, s->all.data[k])) {
            status = nsi_fail_nomem(s->error);
        }
    }
    return status;
}

// What the formulas leave of the windows left out: a pupil without a network.
static ns_status judge_formulas(school* s, double* out) {
    ns_discovery* d = s->d;
    pupil p = {.problem = d->bench.problem, .system = d->bench.system};
    uint32_t nw = ns_system_get_sizes(p.system).nw;
    p.weights = nsi_alloc_zeroed(&d->allocator, ((size_t)nw + 1) * sizeof(double));
    if (!p.weights) return nsi_fail_nomem(s->error);
    memcpy(p.weights, d->bench.w0, nw * sizeof(double));
    for (uint32_t k = 0; k < d->dictionary.terms.count; k++) {
        const nsi_term* t = &d->dictionary.terms.data[k];
        for (uint32_t i = 0; i < t->npart; i++) {
            if (t->parts[i].atom == NSI_NONE) continue;
            p.weights[t->parts[i].column - d->dictionary.nz] +=
                t->parts[i].sign * d->bench.values[k];
        }
    }
    ns_status status = judge(s, &p, &s->test, out);
    nsi_free(&d->allocator, p.weights);
    return status;
}

// Formulas at the place have gone into the network.
static ns_status keep(school* s, pupil* p, double before) {
    ns_discovery* d = s->d;
    uint32_t kept = 0;
    for (uint32_t k = 0; k < d->active.count; k++) {
        uint32_t term = d->active.data[k];
        if (stays(s, p, term)) {
            d->active.data[kept++] = term;
        } else {
            d->bench.values[term] = 0.0;
        }
    }
    d->active.count = kept;
    char form[700], text[1100];
    int used = snprintf(form, sizeof form, "network of ");
    for (uint32_t k = 0; k < p->ninput; k++) {
        used += snprintf(form + used, sizeof form - (size_t)used, "%s%.60s", k > 0 ? ", " : "",
                         p->inputs[k]);
    }
    snprintf(text, sizeof text, "%.300s += %s", s->place, form);
    d->learned =
        (nsi_learned_force){.blueprint = p->blueprint,
                            .system = p->system,
                            .weights = p->weights,
                            .place = nsi_arena_string(&d->arena, s->place, strlen(s->place)),
                            .form = nsi_arena_string(&d->arena, form, strlen(form)),
                            .text = nsi_arena_string(&d->arena, text, strlen(text)),
                            .before = before,
                            .after = p->held_out};
    p->blueprint = NULL;
    p->system = NULL;
    p->weights = NULL;
    d->held_out[1] = p->held_out;
    for (int role = 0; role < NSI_ROLES; role++) d->score[role][1] = NAN; // was of formulas
    bool ok = d->learned.place && d->learned.form && d->learned.text;
    return ok ? NS_OK : nsi_fail_nomem(s->error);
}

static ns_status learn_at(school* s, bool alone, double before, pupil* best, const char** place) {
    pupil p = {.alone = alone};
    ns_status status = list_inputs(s, &p);
    if (status == NS_OK) status = teach(s, &p);
    // With all inputs it knows too much by heart: what it is worth shows when some are gone.
    if (status == NS_OK && p.held_out < 3.0 * before &&
        (!best->system || p.held_out < 0.5 * best->held_out)) {
        free_pupil(s, best);
        *best = p;
        *place = s->place;
        return NS_OK;
    }
    free_pupil(s, &p);
    return status;
}

ns_status nsi_discover_learn(ns_discovery* d, ns_error* error) {
    enum { MOST_PLACES = 2 };
    if (d->levels.count == 0 || d->watch->stopped || d->numerical || !nsi_discover_is_open(d))
        return NS_OK;
    school s = {.d = d, .length = d->levels.data[0].length, .error = error};
    pupil best = {0};
    const char* place = NULL;
    double before = INFINITY;
    ns_status status = divide(&s);
    if (status == NS_OK && (s.train.count == 0 || s.test.count == 0)) goto done;
    if (status == NS_OK) status = judge_formulas(&s, &before);
    for (uint32_t k = 0; k < MOST_PLACES && status == NS_OK; k++) {
        s.place = nsi_discover_suspect(d, k);
        if (!s.place || nsi_discover_tell(d, "training a network")) break;
        status = learn_at(&s, true, before, &best, &place);
        if (status == NS_OK) status = learn_at(&s, false, before, &best, &place);
    }
    s.place = place;
    if (status == NS_OK && best.system) status = prune(&s, &best);
    if (status == NS_OK && !d->watch->stopped && best.system && best.held_out < 0.5 * before) {
        status = train(&s, &best, &s.all, ITERATIONS);
        if (status == NS_OK && !d->watch->stopped) status = keep(&s, &best, before);
    }
done:
    free_pupil(&s, &best);
    nsi_array_free(&d->allocator, &s.train);
    nsi_array_free(&d->allocator, &s.test);
    nsi_array_free(&d->allocator, &s.all);
    return status;
}
