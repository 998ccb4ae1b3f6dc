// The fallback: a network at the force of a joint, where no formula explains what is left.
//
// It is trained on short windows of most recordings and scored on held-out windows. Inputs that do
// not help there are removed one by one.

#include "discover/discover_state.h"

#include "sysid/gauss_newton.h"

#include <math.h>

static const char network_name[] = "missing.network";

// Inputs of a network; arrays are from the arena of the discovery.
typedef struct network_inputs {
    const char** names;
    double *shift, *scale;
    uint32_t count;
} network_inputs;

// A network that is tried.
typedef struct network_trial {
    network_inputs inputs;
    bool alone; // without the other terms that were found, which may have stood in for it
    ns_blueprint* blueprint;
    ns_system* system;
    nsi_problem* problem;
    double* weights;
    double held_out; // root mean square residual of held-out windows
} network_trial;

typedef struct fallback {
    ns_discovery* d;
    uint32_t site;   // where the network is, the force of a joint
    uint32_t length; // of windows
    nsi_windows train, test, all;
    ns_error* error;
} fallback;

static const nsi_site* fallback_site(const fallback* f) {
    return &f->d->library.sites.data[f->site];
}

static void trial_free(const fallback* f, network_trial* t) {
    nsi_problem_free(t->problem);
    ns_system_free(t->system);
    ns_blueprint_free(t->blueprint);
    nsi_free(&f->d->allocator, t->weights);
    t->problem = NULL;
    t->system = NULL;
    t->blueprint = NULL;
    t->weights = NULL;
}

// Does an active term stay beside the network? Not at the same joint, whose force is the network's.
static bool stays_active(const fallback* f, const network_trial* trial, uint32_t term) {
    const nsi_term *terms = f->d->library.terms.data, *t = &terms[term];
    if (t->kind == NSI_TERM_SHAPE) t = &terms[t->owner];
    if (t->kind == NSI_TERM_GIVEN) return true;
    if (trial->alone) return false;
    const nsi_site* site = &f->d->library.sites.data[t->site];
    uint32_t link = fallback_site(f)->link;
    bool here = (site->kind == NSI_SITE_JOINT && site->link == link) ||
                (site->kind == NSI_SITE_JOINT_PAIR && (site->link == link || site->other == link));
    return !here;
}

// ---- the network -------------------------------------------------------------------------------

// The blueprint of the formulas that stay, and a network.
static ns_status trial_blueprint(fallback* f, network_trial* t) {
    ns_discovery* d = f->d;
    uint32_t count = 0;

    // Keep the formulas that the network does not replace.
    uint32_t* terms = nsi_alloc(&d->allocator, ((size_t)d->active.count + 1) * sizeof *terms);
    if (!terms) return nsi_fail_nomem(f->error);
    for (uint32_t k = 0; k < d->active.count; k++) {
        if (stays_active(f, t, d->active.data[k])) terms[count++] = d->active.data[k];
    }

    // They become the base blueprint.
    ns_status status = nsi_term_library_blueprint(&d->library, d->fit, terms, count,
                                                  d->workspace.values, &t->blueprint, f->error);
    nsi_free(&d->allocator, terms);
    if (status != NS_OK) return status;

    // Add a small network with scaled inputs.
    const char* output = fallback_site(f)->name;
    ns_network_def def = ns_default_network_def();
    // Inputs: states of the joint and its neighbours; output: the force of the place.
    def.name = network_name;
    def.inputs = t->inputs.names;
    def.ninput = t->inputs.count;
    def.outputs = &output;
    def.noutput = 1;
    def.hidden = nsi_thresholds.network.hidden;
    def.nhidden = 2;
    // Inputs are normalised by their mean and standard deviation in the recordings.
    def.input_shift = t->inputs.shift;
    def.ninput_shift = t->inputs.count;
    def.input_scale = t->inputs.scale;
    def.ninput_scale = t->inputs.count;
    return ns_blueprint_add(t->blueprint, &def, f->error);
}

static ns_status trial_make(fallback* f, network_trial* t) {
    ns_discovery* d = f->d;
    ns_status status = trial_blueprint(f, t);
    if (status == NS_OK) {
        status = nsi_workspace_system(&d->workspace, &d->fit->options, t->blueprint, &t->system,
                                      &t->problem, f->error);
    }
    if (status != NS_OK) return status;
    size_t nw = ns_system_get_sizes(t->system).nw;
    t->weights = nsi_alloc_zeroed(&d->allocator, (nw + 1) * sizeof *t->weights);
    if (!t->weights) return nsi_fail_nomem(f->error);
    ns_system_default_weights(t->system, t->weights);
    return NS_OK;
}

// An objective at the weights of the trial; with `columns`, over the weights of the network alone.
// @param columns  (weights) scratch, or NULL: over initial states alone
static ns_status trial_objective(fallback* f, const network_trial* t, const nsi_windows* windows,
                                 uint32_t* columns, nsi_objective** out) {
    ns_discovery* d = f->d;
    // Windows of the same length as in the search.
    ns_window_options loss = {.length = f->length,
                              .smoothing = nsi_thresholds.windows.smoothing,
                              .optimise = columns ? NS_OPTIMISE_WEIGHTS : NS_OPTIMISE_NONE};
    ns_status status = nsi_objective_create(t->problem, d->fit->data[NS_ROLE_TRAIN], &loss, windows,
                                            d->fit->threads, out, f->error);
    if (status != NS_OK) return status;

    // Start from the parameters found, without those that the network replaces.
    nsi_point point = nsi_objective_point(*out);
    nsi_workspace_variables(&d->workspace, d->workspace.values, point.z);
    for (uint32_t k = 0; k < d->active.count; k++) {
        uint32_t term = d->active.data[k];
        const nsi_term_part* part = &d->library.terms.data[term].parts[0];
        // Formulas were removed from the blueprint already; only parameters need this.
        bool gone = part->atom == NSI_NONE && f->site != NSI_NONE && !stays_active(f, t, term);
        if (gone) point.z[part->column] -= d->workspace.values[term];
    }

    // Weights of the trial; without columns, only initial states are fitted.
    memcpy(point.w, t->weights, ns_system_get_sizes(t->system).nw * sizeof *point.w);
    if (!columns) return NS_OK;

    // Freeze the formulas: only weights of the network are free.
    uint32_t count = 0;
    for (uint32_t k = 0; k < ns_system_weight_matrix_count(t->system); k++) {
        ns_weight_matrix m = ns_system_weight_matrix(t->system, k);
        // Weight sets carry the name of their network.
        if (strcmp(m.set, network_name) != 0) continue;
        for (uint32_t i = 0; i < m.rows * m.columns; i++) columns[count++] = m.offset + i;
    }
    nsi_objective_set_active(*out, columns, count);
    return NS_OK;
}

static ns_status trial_train(fallback* f, network_trial* t, const nsi_windows* windows) {
    nsi_objective* objective = NULL;
    uint32_t nw = ns_system_get_sizes(t->system).nw;
    uint32_t* columns = nsi_alloc(&f->d->allocator, ((size_t)nw + 1) * sizeof *columns);
    if (!columns) return nsi_fail_nomem(f->error);
    ns_status status = trial_objective(f, t, windows, columns, &objective);
    if (status == NS_OK) {
        ns_solver_options options = {.max_iterations = nsi_thresholds.network.train.iterations,
                                     .tolerance = nsi_thresholds.network.train.tolerance};
        nsi_objective_lm(objective, &options, nsi_discover_poll_lm, f->d->progress);
        memcpy(t->weights, nsi_objective_point(objective).w, nw * sizeof *t->weights);
    }
    nsi_objective_free(objective);
    nsi_free(&f->d->allocator, columns);
    return status;
}

// Root mean square residual of windows, initial states fitted.
static ns_status trial_score(fallback* f, const network_trial* t, const nsi_windows* windows,
                             double* out) {
    nsi_objective* objective = NULL;
    ns_status status = trial_objective(f, t, windows, NULL, &objective);
    *out = INFINITY;
    if (status == NS_OK) {
        ns_solver_options options = {.max_iterations = nsi_thresholds.network.score_iterations};
        ns_solver_result result =
            nsi_objective_lm(objective, &options, nsi_discover_poll_lm, f->d->progress);
        if (isfinite(result.value) && isfinite(nsi_objective_cost(objective))) {
            *out = nsi_objective_rms(objective);
        }
    }
    nsi_objective_free(objective);
    return status;
}

static ns_status trial_run(fallback* f, network_trial* t) {
    ns_status status = trial_make(f, t);
    if (status == NS_OK) status = trial_train(f, t, &f->train);
    if (status == NS_OK) status = trial_score(f, t, &f->test, &t->held_out);
    return status;
}

// ---- its inputs --------------------------------------------------------------------------------

// Room for so many inputs, with those of another network; NULL: none.
static bool inputs_make(fallback* f, uint32_t room, const network_inputs* from,
                        network_inputs* out) {
    nsi_arena* arena = &f->d->arena;
    size_t size = (size_t)room + 1;
    *out = (network_inputs){.names = nsi_arena_alloc(arena, size * sizeof *out->names),
                            .shift = nsi_arena_alloc(arena, size * sizeof *out->shift),
                            .scale = nsi_arena_alloc(arena, size * sizeof *out->scale)};
    if (!out->names || !out->shift || !out->scale) return false;
    for (uint32_t k = 0; from && k < from->count; k++, out->count++) {
        out->names[k] = from->names[k];
        out->shift[k] = from->shift[k];
        out->scale[k] = from->scale[k];
    }
    return true;
}

// A component of the state, scaled by its spread in the recordings.
static bool inputs_add(fallback* f, network_inputs* inputs, nsi_text_builder* name,
                       uint32_t component, double* x) {
    nsi_state_spread spread = nsi_workspace_spread(&f->d->workspace, component, x);
    double mean = spread.count > 0 ? spread.sum / spread.count : 0.0;
    double variance = spread.count > 0 ? spread.squares / spread.count - mean * mean : 0.0;
    const char* kept =
        name->failed ? NULL : nsi_arena_string(&f->d->arena, name->text.data, name->text.count);
    nsi_array_free(&name->allocator, &name->text);
    inputs->names[inputs->count] = kept;
    inputs->shift[inputs->count] = mean;
    inputs->scale[inputs->count] =
        variance > nsi_thresholds.network.min_spread ? sqrt(variance) : 1.0;
    inputs->count++;
    return kept != NULL;
}

// Positions and velocities of the joint and its neighbours, or of all joints if there are few.
static ns_status list_network_inputs(fallback* f, network_inputs* out) {
    ns_discovery* d = f->d;
    const ns_model* model = d->fit->variants[0].model;
    const nsi_problem* problem = d->workspace.problem;
    uint32_t nlink = ns_model_get_sizes(model).nlink, joints = 0, own = fallback_site(f)->link;
    double* x = nsi_alloc_zeroed(&d->allocator, ((size_t)problem->sizes.nx + 1) * sizeof *x);
    bool ok = x && inputs_make(f, 2 * nlink, NULL, out);

    // Few joints: all of them are inputs.
    for (uint32_t k = 0; k < nlink; k++) {
        joints += ns_joint_type_info(ns_model_link(model, k)->joint_type)->has_axis;
    }
    for (uint32_t k = 0; k < nlink && ok; k++) {
        // Only joints with one coordinate, and only neighbours on larger robots.
        const ns_link_def* link = ns_model_link(model, k);
        bool near = joints <= nsi_thresholds.library.all_pairs || k == own ||
                    ns_model_link_parent(model, k) == own || ns_model_link_parent(model, own) == k;
        uint32_t v = ns_model_joint_v(model, k);
        if (!ns_joint_type_info(link->joint_type)->has_axis || !near || v == UINT32_MAX) continue;

        // Position and velocity of the joint.
        for (int rate = 0; rate < 2 && ok; rate++) {
            nsi_text_builder name = {.allocator = d->allocator};
            nsi_text_add(&name, "joint/%s/%s", link->joint, rate ? "velocity" : "position");
            ok = inputs_add(f, out, &name, rate ? problem->nq + v : ns_model_joint_q(model, k), x);
        }
    }

    nsi_free(&d->allocator, x);
    return ok ? NS_OK : nsi_fail_nomem(f->error);
}

static void inputs_remove(network_inputs* inputs, uint32_t number) {
    for (uint32_t k = number; k + 1 < inputs->count; k++) {
        inputs->names[k] = inputs->names[k + 1];
        inputs->shift[k] = inputs->shift[k + 1];
        inputs->scale[k] = inputs->scale[k + 1];
    }
    inputs->count--;
}

// Remove inputs without which the network does as well.
static ns_status remove_inputs(fallback* f, network_trial* t) {
    ns_status status = NS_OK;
    for (uint32_t k = t->inputs.count; k-- > 0 && t->inputs.count > 1 && status == NS_OK;) {
        if (nsi_discover_report_activity(f->d, "a network of fewer inputs")) break;
        network_trial fewer = {.alone = t->alone};
        if (!inputs_make(f, t->inputs.count, &t->inputs, &fewer.inputs)) {
            return nsi_fail_nomem(f->error);
        }
        inputs_remove(&fewer.inputs, k);
        status = trial_run(f, &fewer);
        bool as_good =
            status == NS_OK && fewer.held_out <= nsi_thresholds.network.as_good * t->held_out;
        if (as_good) {
            trial_free(f, t);
            *t = fewer;
        } else {
            trial_free(f, &fewer);
        }
    }
    return status;
}

// ---- the whole ---------------------------------------------------------------------------------

// One recording of several is held out, or with few recordings the last part of the windows.
static ns_status split_windows(fallback* f) {
    ns_discovery* d = f->d;
    const ns_dataset* data = d->fit->data[NS_ROLE_TRAIN];
    const uint32_t every = nsi_thresholds.network.held_out_every;
    uint32_t recordings = ns_dataset_recording_count(data);
    uint32_t last = (recordings < every ? recordings : every) - 1;
    ns_status status =
        nsi_windows_make(d->workspace.problem, data, f->length, nsi_thresholds.network.max_windows,
                         false, &f->all, f->error);
    for (uint32_t k = 0; k < f->all.count && status == NS_OK; k++) {
        bool out = recordings < nsi_thresholds.windows.min_fold_recordings
                       ? every * k >= (every - 1) * f->all.count
                       : f->all.data[k].recording % every == last;
        if (!nsi_array_push(&d->allocator, out ? &f->test : &f->train, f->all.data[k])) {
            status = nsi_fail_nomem(f->error);
        }
    }
    return status;
}

// Residual of held-out windows with the formulas that were found, as of a trial without a network.
static ns_status score_formulas(fallback* f, double* out) {
    ns_discovery* d = f->d;
    network_trial t = {.problem = d->workspace.problem, .system = d->workspace.system};
    size_t nw = ns_system_get_sizes(t.system).nw;
    t.weights = nsi_alloc_zeroed(&d->allocator, (nw + 1) * sizeof *t.weights);
    if (!t.weights) return nsi_fail_nomem(f->error);
    memcpy(t.weights, d->workspace.w0, nw * sizeof *t.weights);
    for (uint32_t k = 0; k < d->library.terms.count; k++) {
        const nsi_term* term = &d->library.terms.data[k];
        for (uint32_t i = 0; i < term->npart; i++) {
            if (term->parts[i].atom == NSI_NONE) continue;
            t.weights[term->parts[i].column - d->library.nz] +=
                term->parts[i].sign * d->workspace.values[k];
        }
    }
    ns_status status = trial_score(f, &t, &f->test, out);
    nsi_free(&d->allocator, t.weights);
    return status;
}

// "joint/a/tau += network of joint/a/position, joint/a/velocity"; `form`: what is right of the
// sign.
static ns_status describe_network(fallback* f, const network_inputs* inputs) {
    ns_discovery* d = f->d;
    nsi_text_builder text = {.allocator = d->allocator};
    const char* quantity = fallback_site(f)->name;
    nsi_text_add(&text, "%s += ", quantity);
    uint32_t start = text.text.count;
    nsi_text_add(&text, "network of ");
    for (uint32_t k = 0; k < inputs->count; k++) {
        nsi_text_add(&text, "%s%s", k > 0 ? ", " : "", inputs->names[k]);
    }
    if (!text.failed) {
        const char* whole = nsi_arena_string(&d->arena, text.text.data, text.text.count);
        d->learned.quantity = quantity;
        d->learned.text = whole;
        d->learned.form = whole ? whole + start : NULL;
    }
    bool ok = !text.failed && d->learned.text;
    nsi_array_free(&d->allocator, &text.text);
    return ok ? NS_OK : nsi_fail_nomem(f->error);
}

// The network becomes part of the result, in the place of the formulas at its joint.
static ns_status keep_network(fallback* f, network_trial* t, double before) {
    ns_discovery* d = f->d;
    // Remove the replaced terms from the active set.
    uint32_t kept = 0;
    for (uint32_t k = 0; k < d->active.count; k++) {
        uint32_t term = d->active.data[k];
        if (stays_active(f, t, term)) {
            d->active.data[kept++] = term;
        } else {
            // A replaced parameter returns to its value in the model.
            d->workspace.values[term] = 0.0;
        }
    }
    d->active.count = kept;

    // Transfer ownership to the discovery.
    d->learned = (nsi_learned_force){.blueprint = t->blueprint,
                                     .system = t->system,
                                     .weights = t->weights,
                                     .before = before,
                                     .after = t->held_out};
    // The caller frees the trial; it must not free these.
    t->blueprint = NULL;
    t->system = NULL;
    t->weights = NULL;

    // Scores of the formulas do not apply any more; they are computed again later.
    d->held_out[1] = d->learned.after;
    for (int role = 0; role < NS_ROLE_COUNT; role++) d->score[role][1] = NAN;
    // The report describes the network.
    return describe_network(f, &t->inputs);
}

// Train a network at the site; it becomes the best when it is promising.
static ns_status try_site(fallback* f, bool alone, double before, network_trial* best,
                          uint32_t* best_site) {
    network_trial t = {.alone = alone};
    ns_status status = list_network_inputs(f, &t.inputs);
    if (status == NS_OK) status = trial_run(f, &t);

    // With all inputs it overfits: its worth shows when some are removed.
    bool promising =
        status == NS_OK && t.held_out < nsi_thresholds.network.promising * before &&
        (!best->system || t.held_out < nsi_thresholds.network.clearly_better * best->held_out);
    if (promising) {
        trial_free(f, best);
        *best = t;
        *best_site = f->site;
    } else {
        trial_free(f, &t);
    }
    return status;
}

// The best network at one of the suspects, with few inputs; kept when it is much better than
// formulas.
static ns_status run_fallback(fallback* f, const nsi_site_list* suspects, network_trial* best) {
    ns_discovery* d = f->d;
    uint32_t site = NSI_NONE;
    double before = INFINITY;
    ns_status status = score_formulas(f, &before);
    for (uint32_t k = 0; k < nsi_thresholds.network.max_joints && status == NS_OK; k++) {
        if (k >= suspects->count) break;
        if (nsi_discover_report_activity(d, "training a network")) break;
        f->site = suspects->data[k];
        status = try_site(f, true, before, best, &site);
        if (status == NS_OK) status = try_site(f, false, before, best, &site);
    }
    if (status != NS_OK || !best->system) return status;

    f->site = site;
    status = remove_inputs(f, best);
    bool good = best->held_out < nsi_thresholds.network.accepted * before;
    if (status != NS_OK || d->progress->stopped || !good) return status;

    // Held-out windows have decided: all windows train the final weights.
    status = trial_train(f, best, &f->all);
    if (status == NS_OK && !d->progress->stopped) status = keep_network(f, best, before);
    return status;
}

ns_status nsi_discover_learn(ns_discovery* d, ns_error* error) {
    if (d->levels.count == 0 || d->progress->stopped || d->numerical || !nsi_discover_is_open(d)) {
        return NS_OK;
    }
    fallback f = {.d = d, .site = NSI_NONE, .length = d->levels.data[0].length, .error = error};
    network_trial best = {0};
    nsi_site_list suspects = {0};
    ns_status status = split_windows(&f);
    if (status == NS_OK) status = nsi_discover_suspects(d, &suspects, error);
    if (status == NS_OK && f.train.count > 0 && f.test.count > 0) {
        status = run_fallback(&f, &suspects, &best);
    }
    trial_free(&f, &best);
    nsi_array_free(&d->allocator, &suspects);
    nsi_array_free(&d->allocator, &f.train);
    nsi_array_free(&d->allocator, &f.test);
    nsi_array_free(&d->allocator, &f.all);
    return status;
}
