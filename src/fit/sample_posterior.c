// The posterior of a fit: modes from the end of the fit and from minima of its search, each by a
// Laplace approximation; then samples, from these or by HMC.

#include "fit/fit_run.h"
#include "fit/posterior_summary.h"
#include "solver/solvers.h"
#include "sysid/refit_samples.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { DEFAULT_CHAINS = 4, DEFAULT_SAMPLES = 1000, MAX_MODES = 16, NAME_SIZE = 200 };

static const double MAX_NUMBERS = 2e8; // of all samples

// Difference of log-densities or evidences from which on a mode does not count: a probability of
// 1e-9.
static const double NEGLIGIBLE = 20.7;

typedef struct posterior_mode {
    ns_laplace* laplace;
    double *value, *deviation; // (nz) of parameters there
} posterior_mode;

typedef struct posterior_run {
    nsi_run* r;
    ns_fit* f;
    const nsi_stage* stage;
    ns_posterior_options options; // with defaults
    nsi_residual_density* density;
    ns_density callbacks;
    uint32_t threads;
    posterior_mode modes[MAX_MODES];
    uint32_t nmode;
    uint32_t undetermined; // directions of the main mode
    double* block;         // scratch
    double *start, *scales, *z, *dv, *scratch;
} posterior_run;

static ns_status posterior_note(posterior_run* p, const char* text) {
    nsi_result* a = &p->f->result;
    const char* kept = nsi_arena_string(&a->arena, text, strlen(text));
    bool done = kept && nsi_array_push(&a->allocator, &a->notes, kept);
    return done ? NS_OK : nsi_fail_nomem(p->r->error);
}

// ---- modes --------------------------------------------------------------------------------------

static void free_mode(const ns_fit* f, posterior_mode* m) {
    ns_laplace_free(m->laplace);
    nsi_free(&f->allocator, m->value);
    *m = (posterior_mode){0};
}

// Values of the parameters at the mode, and their deviations there.
static ns_status describe_mode(posterior_run* p, posterior_mode* m) {
    const ns_fit* f = p->f;
    const uint32_t nz = f->nz, n = p->callbacks.n;
    m->value = nsi_alloc_zeroed(&f->allocator, 2 * ((size_t)nz + 1) * sizeof *m->value);
    if (!m->value) return nsi_fail_nomem(p->r->error);
    m->deviation = m->value + nz;
    if (!nsi_optimises_parameters(p->stage->windows.optimise) || nz == 0) return NS_OK;
    nsi_parameters_from_z(f->parameters, m->laplace->mean, m->value, p->dv, p->scratch);
    for (uint32_t i = 0; i < nz; i++) {
        double square = 0.0;
        for (uint32_t k = 0; k < n; k++) {
            double sum = 0.0;
            for (uint32_t j = 0; j < nz; j++) {
                sum += p->dv[(size_t)i * nz + j] * m->laplace->factor[(size_t)j * n + k];
            }
            square += sum * sum;
        }
        m->deviation[i] = sqrt(square);
    }
    return NS_OK;
}

// Are all parameters of two modes within three of their deviations?
static bool modes_agree(const posterior_run* p, const posterior_mode* a, const posterior_mode* b) {
    for (uint32_t k = 0; k < p->f->nz; k++) {
        if (fabs(a->value[k] - b->value[k]) > 3.0 * hypot(a->deviation[k], b->deviation[k])) {
            return false;
        }
    }
    return true;
}

// Find the mode that z and weights lead to, and keep it unless it is known.
static ns_status posterior_add_mode(posterior_run* p, const double* z, const double* w, bool main) {
    const ns_fit* f = p->f;
    posterior_mode m = {0};
    if (!nsi_residual_density_start(p->density, z, w, p->start)) {
        return main ? posterior_note(p, "no posterior: the cost is not finite at the fit") : NS_OK;
    }
    ns_error why;
    ns_status status = ns_laplace_find(&p->callbacks, p->start, p->scales, &m.laplace, &why);
    if (status == NS_ERR_NOMEM) return nsi_fail_nomem(p->r->error);
    if (status != NS_OK) return main ? posterior_note(p, why.message) : NS_OK;
    status = describe_mode(p, &m);
    if (main) p->undetermined = m.laplace->undetermined;

    // Others count only where they are new, well-defined and probable enough.
    bool keep = status == NS_OK && p->nmode < MAX_MODES;
    if (!main) {
        double best = p->nmode > 0 ? p->modes[0].laplace->log_evidence : -INFINITY;
        keep = keep && m.laplace->converged && m.laplace->undetermined == 0 &&
               m.laplace->log_evidence > best - NEGLIGIBLE;
    }
    for (uint32_t k = 0; k < p->nmode && keep; k++) keep = !modes_agree(p, &m, &p->modes[k]);
    if (keep) {
        p->modes[p->nmode++] = m;
    } else {
        free_mode(f, &m);
    }
    return status;
}

static int compare_minima(const void* a, const void* b) {
    const double *const *x = a, *const *y = b;
    if (**x != **y) return **x < **y ? -1 : 1;
    return (*x)[1] < (*y)[1] ? -1 : (*x)[1] > (*y)[1];
}

// Minima of the search, from the lowest on, as long as they could matter.
static ns_status add_searched_modes(posterior_run* p) {
    const nsi_run* r = p->r;
    const ns_fit* f = p->f;
    const uint32_t size = 1 + f->nz + f->nw, count = r->minima.count / size;
    const double** sorted = nsi_alloc(&f->allocator, (count + (size_t)1) * sizeof *sorted);
    if (!sorted) return nsi_fail_nomem(r->error);
    for (uint32_t k = 0; k < count; k++) sorted[k] = r->minima.data + (size_t)k * size;
    qsort(sorted, count, sizeof *sorted, compare_minima);

    // Costs are means of halved squares: of residuals in units of the noise, or of its unknown
    // size.
    ns_status status = NS_OK;
    double lowest = count > 0 ? sorted[0][0] : 0.0, n = f->result.nresidual;
    uint32_t distinct = 0;
    const double* last = NULL;
    for (uint32_t k = 0; k < count && status == NS_OK && distinct < 4 * MAX_MODES; k++) {
        double gap = f->result.noise_known ? n * (sorted[k][0] - lowest)
                                           : 0.5 * n * log(sorted[k][0] / lowest);
        if (gap > 2.0 * NEGLIGIBLE) break;

        // The same minimum is found many times.
        bool same = last != NULL;
        for (uint32_t i = 0; i < f->nz && same; i++) {
            double scale = ns_parameters_at(f->parameters, i)->scale;
            same = fabs(sorted[k][1 + i] - last[1 + i]) < 1e-4 * scale;
        }
        if (same) continue;
        last = sorted[k];
        distinct++;
        nsi_parameters_to_z(f->parameters, last + 1, p->z);
        status = posterior_add_mode(p, p->z, last + 1 + f->nz, false);
    }
    nsi_free(&f->allocator, sorted);
    return status;
}

// Modes that turned out to be improbable beside another go; probabilities are those of the rest.
static void weigh_modes(posterior_run* p, double* probability) {
    double best = -INFINITY, sum = 0.0;
    uint32_t kept = 0;
    for (uint32_t k = 0; k < p->nmode; k++) best = fmax(best, p->modes[k].laplace->log_evidence);
    for (uint32_t k = 0; k < p->nmode; k++) {
        double evidence = p->modes[k].laplace->log_evidence;
        if (evidence < best - NEGLIGIBLE) {
            free_mode(p->f, &p->modes[k]);
            continue;
        }
        p->modes[kept] = p->modes[k];
        probability[kept++] = exp(evidence - best);
        sum += exp(evidence - best);
    }
    p->nmode = kept;
    for (uint32_t k = 0; k < kept; k++) probability[k] /= sum;
}

// ---- samples ------------------------------------------------------------------------------------

static bool posterior_watch(void* context, uint32_t done, uint32_t count) {
    posterior_run* p = context;
    nsi_run* r = p->r;
    bool hmc = p->options.method == NS_POSTERIOR_HMC;
    ns_fit_progress progress = {.phase = hmc ? "posterior by HMC" : "posterior by refits",
                                .number = r->nphase,
                                .count = r->nphase + 1,
                                .iteration = done,
                                .iterations = count,
                                .loss = NAN,
                                .seconds = nsi_run_elapsed(r)};
    if (r->o->observe && r->o->observe(r->o->context, &progress)) r->f->stopped = true;
    return r->f->stopped;
}

// Are weights of networks sampled?
static bool samples_networks(const posterior_run* p) {
    if (!p->options.weights) return false;
    for (uint32_t k = 0; k < ns_system_weight_matrix_count(p->f->system); k++) {
        if (!ns_system_weight_matrix(p->f->system, k).formula) return true;
    }
    return false;
}

// Samples of the Gaussians; with networks, each moved by a refit (refit_samples.h).
static ns_status draw_laplace(posterior_run* p, const ns_laplace* const* starts, uint32_t chains,
                              ns_samples** out) {
    const ns_posterior_options* o = &p->options;
    ns_status status =
        ns_laplace_sample(starts, p->nmode, chains, o->samples, p->f->spec->seed, out, p->r->error);
    if (status != NS_OK || !samples_networks(p)) return status;
    nsi_refit_options options = {.scales = p->scales,
                                 .threads = p->threads,
                                 .seed = p->f->spec->seed,
                                 .observe = posterior_watch,
                                 .context = p};
    nsi_refit_counts counts = {0};
    status = nsi_refit_samples(p->density, &options, *out, &counts, p->r->error);
    if (status != NS_OK) return status;

    // What the samples are worth.
    char text[240];
    uint32_t refits = chains * o->samples;
    if (counts.unfinished * 10 > refits) {
        snprintf(text, sizeof text,
                 "posterior: %u of %u refits did not converge%s; `hmc` is more exact",
                 counts.unfinished, refits,
                 counts.unfinished * 2 > refits ? ": do not trust these intervals" : "");
        status = posterior_note(p, text);
    }
    if (status != NS_OK || (double)counts.accepted >= 0.05 * (double)counts.steps) return status;
    snprintf(
        text, sizeof text,
        "posterior: %.2g %% of the Metropolis steps were accepted: intervals are those of refits "
        "alone, often too wide; `hmc` is more exact",
        100.0 * (double)counts.accepted / fmax(1.0, (double)counts.steps));
    return posterior_note(p, text);
}

static ns_status draw_samples(posterior_run* p, ns_samples** out) {
    const ns_laplace* starts[MAX_MODES];
    for (uint32_t k = 0; k < p->nmode; k++) starts[k] = p->modes[k].laplace;

    // As many chains for each mode.
    const ns_posterior_options* o = &p->options;
    uint32_t chains = (o->chains + p->nmode - 1) / p->nmode * p->nmode;
    if (o->method == NS_POSTERIOR_LAPLACE) {
        return draw_laplace(p, starts, chains, out);
    }
    ns_hmc_options options = {.chains = chains,
                              .warmup = o->warmup,
                              .samples = o->samples,
                              .target_accept = o->target_accept,
                              .threads = p->threads,
                              .seed = p->f->spec->seed,
                              .observe = posterior_watch,
                              .context = p};
    return ns_hmc_sample(&p->callbacks, starts, p->nmode, &options, out, p->r->error);
}

// Zeroed memory of the result.
static void* keep_zeros(posterior_run* p, size_t count, size_t size) {
    void* block = nsi_arena_alloc(&p->f->result.arena, count * size + 1);
    if (block) memset(block, 0, count * size);
    return block;
}

static const char* keep_text(posterior_run* p, const char* text) {
    return nsi_arena_string(&p->f->result.arena, text, strlen(text));
}

static bool keep_numbers(posterior_run* p, ns_posterior* out) {
    static const ns_posterior_kind kinds[] = {[NSI_UNKNOWN_PARAMETER] = NS_POSTERIOR_PARAMETER,
                                              [NSI_UNKNOWN_WEIGHT] = NS_POSTERIOR_WEIGHT,
                                              [NSI_UNKNOWN_STATE] = NS_POSTERIOR_STATE,
                                              [NSI_UNKNOWN_NOISE] = NS_POSTERIOR_NOISE};
    ns_posterior_number* numbers = keep_zeros(p, out->n, sizeof *numbers);
    out->numbers = numbers;
    for (uint32_t k = 0; numbers && k < out->n; k++) {
        char name[NAME_SIZE];
        nsi_residual_density_name(p->density, k, name, sizeof name);
        numbers[k].name = keep_text(p, name);
        numbers[k].unit = keep_text(p, nsi_residual_density_unit(p->density, k));
        nsi_unknown unknown = nsi_residual_density_unknown(p->density, k);
        numbers[k].kind = kinds[unknown.kind];
        numbers[k].index = unknown.number;
        if (!numbers[k].name || !numbers[k].unit) return false;
        if (!nsi_posterior_summarise(out, k, &numbers[k].summary)) return false;
    }
    return numbers != NULL;
}

// Samples in natural units, into the memory of the result.
static ns_status keep_samples(posterior_run* p, const ns_samples* s, const double* probability) {
    const size_t all = (size_t)s->chains * s->count;
    ns_posterior* out = keep_zeros(p, 1, sizeof *out);
    double *values = keep_zeros(p, all * s->n, sizeof *values), *density = keep_zeros(p, all, 8);
    bool* divergent = keep_zeros(p, all, sizeof *divergent);
    uint32_t* mode = keep_zeros(p, s->chains, sizeof *mode);
    double* probabilities = keep_zeros(p, p->nmode, sizeof *probabilities);
    if (!out || !values || !density || !divergent || !mode || !probabilities) {
        return nsi_fail_nomem(p->r->error);
    }

    // Copy, since samples go when the run ends.
    for (size_t k = 0; k < all; k++) {
        nsi_residual_density_values(p->density, s->x + k * s->n, values + k * s->n);
    }
    memcpy(density, s->log_density, all * sizeof *density);
    memcpy(divergent, s->divergent, all * sizeof *divergent);
    memcpy(mode, s->start, s->chains * sizeof *mode);
    memcpy(probabilities, probability, p->nmode * sizeof *probabilities);

    // The posterior, with summaries of its numbers.
    *out = (ns_posterior){.method = p->options.method,
                          .n = s->n,
                          .chains = s->chains,
                          .count = s->count,
                          .samples = values,
                          .log_density = density,
                          .divergent = divergent,
                          .mode = mode,
                          .probability = probabilities,
                          .nmode = p->nmode,
                          .divergences = s->divergences,
                          .truncated = s->truncated,
                          .evaluations = s->evaluations};
    if (!keep_numbers(p, out)) return nsi_fail_nomem(p->r->error);
    p->f->result.posterior = out;
    return NS_OK;
}

// ---- the whole ----------------------------------------------------------------------------------

// Why this fit has no posterior; NULL: it has.
static const char* find_obstacle(const posterior_run* p) {
    const nsi_stage* s = p->stage;
    if (s->teacher_forcing) return "no posterior: the last stage uses teacher forcing";
    if (s->l1 > 0.0 || s->group > 0.0) {
        return "no posterior: the last stage has a penalty (l1, group) that is no prior; add a "
               "stage"
               " without it";
    }
    if (samples_networks(p) && !(s->windows.weight_decay > 0.0)) {
        return "no posterior: weights of networks need a prior; give weight_decay";
    }
    return NULL;
}

static ns_status prepare_posterior(posterior_run* p) {
    nsi_run* r = p->r;
    const ns_fit* f = p->f;
    ns_error why;
    ns_status status =
        nsi_residual_density_create(f->problem, f->data[NS_ROLE_TRAIN], &p->stage->windows,
                                    p->options.weights, p->threads, &p->density, &why);
    if (status == NS_ERR_LIMIT) return posterior_note(p, why.message);
    if (status != NS_OK) return nsi_fail(r->error, status, "%s", why.message);
    p->callbacks = nsi_residual_density_callbacks(p->density);
    if (p->callbacks.n == 0) {
        nsi_residual_density_free(p->density);
        p->density = NULL;
        return posterior_note(p, "no posterior: the last stage optimises nothing");
    }

    // A result that could not be held is refused before hours of sampling.
    double chains = fmax(p->options.chains, MAX_MODES);
    if (chains * p->options.samples * p->callbacks.n > MAX_NUMBERS) {
        nsi_residual_density_free(p->density);
        p->density = NULL;
        return posterior_note(p,
                              "no posterior: chains x samples x unknowns is above 2e8; take fewer");
    }

    // Scratch numbers.
    size_t n = p->callbacks.n, nz = f->nz, more = nsi_parameters_scratch(f->parameters);
    p->block = nsi_alloc_zeroed(&f->allocator, (2 * n + nz + nz * nz + more + 1) * sizeof(double));
    if (!p->block) return nsi_fail_nomem(r->error);
    p->start = p->block;
    p->scales = p->start + n;
    p->z = p->scales + n;
    p->dv = p->z + nz;
    p->scratch = p->dv + nz * nz;
    nsi_residual_density_scales(p->density, p->scales);
    nsi_point point = nsi_objective_point(r->e);
    nsi_residual_density_set_origin(p->density, point.w, point.x);
    return NS_OK;
}

static ns_status sample_modes(posterior_run* p) {
    double probability[MAX_MODES];

    // Modes: the fit's own, then those of the search. A flat direction leaves no posterior.
    nsi_point point = nsi_objective_point(p->r->e);
    ns_status status = posterior_add_mode(p, point.z, point.w, true);
    if (status != NS_OK || p->nmode == 0) return status;
    if (p->undetermined > 0) {
        char text[200];
        snprintf(text, sizeof text,
                 "no posterior: %u combinations of unknowns are determined neither by the data nor"
                 " by priors; give parameters a prior_sigma",
                 p->undetermined);
        return posterior_note(p, text);
    }
    if (!p->modes[0].laplace->converged) {
        status =
            posterior_note(p, "the maximum of the posterior was not reached: samples of laplace,"
                              " and probabilities of solutions, are unreliable");
    }
    if (status == NS_OK) status = add_searched_modes(p);
    if (status == NS_OK) weigh_modes(p, probability);
    if (status != NS_OK || p->nmode == 0) return status;

    // Samples of all of them.
    ns_samples* samples = NULL;
    status = draw_samples(p, &samples);
    if (status == NS_ERR_NONFINITE && p->r->error) return posterior_note(p, p->r->error->message);
    if (status == NS_OK && samples->count == 0) {
        status = posterior_note(p, "no posterior: stopped before its first sample");
    } else if (status == NS_OK) {
        status = keep_samples(p, samples, probability);
    }
    ns_samples_free(samples);
    return status;
}

ns_status nsi_run_sample_posterior(nsi_run* r) {
    ns_fit* f = r->f;
    posterior_run p = {.r = r,
                       .f = f,
                       .stage = &f->spec->stages.data[f->spec->stages.count - 1],
                       .options = f->spec->posterior};
    if (p.options.method == NS_POSTERIOR_NONE || !r->e) return NS_OK;
    if (p.options.chains == 0) p.options.chains = DEFAULT_CHAINS;
    if (p.options.samples == 0) p.options.samples = DEFAULT_SAMPLES;
    p.threads = nsi_solver_threads(&(ns_solver_options){.threads = f->threads});
    const char* obstacle = find_obstacle(&p);
    if (obstacle) return posterior_note(&p, obstacle);

    // Modes, then samples.
    double start = nsi_clock_wall();
    ns_status status = prepare_posterior(&p);
    if (status == NS_OK && p.density) status = sample_modes(&p);
    if (f->result.posterior) f->result.posterior->seconds = nsi_clock_wall() - start;
    f->result.complete = f->result.complete && !f->stopped;
    for (uint32_t k = 0; k < p.nmode; k++) free_mode(f, &p.modes[k]);
    nsi_residual_density_free(p.density);
    nsi_free(&f->allocator, p.block);
    return status;
}
