// Rollouts and their derivatives: loops over the step's programs.
//
// Robots go in tiles of four lanes (a last one alone goes in one lane); tiles are shared out to
// threads. What a step reads and writes lies in one record per step, [component][lane]:
//
//     y of the step before | x | c | p | seeds of y | seeds of the next x
//     (y: observations, then the residual of contact impulses if there are any)
//     ^ output of the step before     ^------- input of the step's reverse program ------^
//                          ^ input of the step
//
// so that the program of one step writes the input of the next, and the reverse sweep finds its
// inputs where the forward one left them.
//
// Memory. When the records of all steps do not fit the bound, a segment of them is kept. The
// forward sweep stores the state at the beginning of each segment; the reverse sweep recomputes
// segments.
//
// Sums over robots are made per tile and lane, those for weights per chunk of tiles, and added up in
// order at the end: the result does not depend on the number of threads.

#include "sim/rollout.h"
#include "sim/certificate_notes.h"
#include "sim/integrators.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#ifdef _OPENMP
#include <omp.h>
#endif

enum { CHUNKS = 32 };

// Parts of a batch that have a gradient of the weights each.
uint32_t nsi_chunk_count(uint32_t batch) {
    return nsi_tile_count(batch) < CHUNKS ? nsi_tile_count(batch) : CHUNKS;
}

// ---- workspace -----------------------------------------------------------------------------

static size_t rollout_work_size(const ns_system* s) {
    size_t size = 0;
    for (int f = 0; f < NSI_FORMS; f++) {
        size = nsi_max_size(size, ns_program_work_size(s->step[f]));
        size = nsi_max_size(size, ns_program_work_size(s->jvp[f]));
        size = nsi_max_size(size, ns_program_work_size(s->vjp[f]));
        if (s->hvp[f]) size = nsi_max_size(size, ns_program_work_size(s->hvp[f]));
    }
    return size;
}

// Numbers per lane that a segment is recomputed from: the state, with its tangent for ns_rollout_hvp().
static size_t checkpoint_size(const ns_system* s) {
    return (s->hvp[0] ? 2 : 1) * (size_t)s->sizes.nx;
}

static bool allocate_thread(const ns_system* s, uint32_t steps, uint32_t segment,
                            nsi_thread_memory* m) {
    const ns_system_sizes* z = &s->sizes;
    const ns_allocator* memory = &s->allocator;
    size_t number = NSI_TILE_LANES * sizeof(double);
    m->records = nsi_alloc_zeroed(memory, ((size_t)segment + 1) * nsi_record_size(s) * number);
    m->checkpoints = nsi_alloc(memory, ((size_t)steps / segment + 2) * checkpoint_size(s) * number);
    m->in = nsi_alloc(memory, 2 * ((size_t)z->nx + z->nc + z->np + 1) * number);
    size_t reverse_inputs = nsi_step_ny(s) + 2 * (size_t)z->nx + z->nc + z->np;
    m->hvp_in = nsi_alloc(memory, (s->hvp[0] ? 2 * reverse_inputs : 1) * number);
    m->out = nsi_alloc(memory, 2 * (nsi_step_ny(s) + z->nx + z->nc + z->np + 1) * number);
    m->adjoint = nsi_alloc(memory, (checkpoint_size(s) + 1) * number);
    m->spare_weights = nsi_alloc(memory, ((size_t)z->nw + 1) * sizeof *m->spare_weights);
    m->spare_sinks = nsi_alloc(memory, ((size_t)s->narray + 1) * sizeof *m->spare_sinks);
    m->work = nsi_alloc(memory, rollout_work_size(s));
    for (uint32_t k = 0; m->spare_weights && m->spare_sinks && k < s->narray; k++) {
        m->spare_sinks[k] = m->spare_weights + s->arrays[k].offset;
    }
    return m->records && m->checkpoints && m->in && m->hvp_in && m->out && m->adjoint &&
           m->spare_weights && m->spare_sinks && m->work;
}

// The longest segment whose records and checkpoints fit the bound; 0 when none does.
static uint32_t choose_segment(const ns_system* s, uint32_t steps, double bytes) {
    double record = (double)nsi_record_size(s) * NSI_TILE_LANES * sizeof(double);
    double state = (double)checkpoint_size(s) * NSI_TILE_LANES * sizeof(double);
    for (double segment = steps;; segment = floor(segment / 1.25)) {
        if (segment < 1.0) return 0;
        if ((segment + 1) * record + (steps / segment + 2) * state <= bytes) {
            return (uint32_t)segment;
        }
    }
}

ns_status ns_workspace_create(const ns_system* system, const ns_workspace_size* size,
                              ns_workspace** out, ns_error* error) {
    *out = NULL;
    if (!system || !size) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "a workspace needs a system and a size");
    }
    if (size->batch == 0 || size->steps == 0) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "a workspace needs at least one robot and one step");
    }

    ns_workspace* w = nsi_alloc_zeroed(&system->allocator, sizeof *w);
    if (!w) return nsi_fail_nomem(error);
    w->allocator = system->allocator;
    w->system = system;
    w->size = *size;
    if (w->size.max_bytes == 0) w->size.max_bytes = (size_t)1 << 30;

    // Threads: a tile of lanes is the smallest piece of work.
    uint32_t tiles = nsi_tile_count(size->batch);
#ifdef _OPENMP
    if (w->size.threads == 0) w->size.threads = (uint32_t)omp_get_num_procs();
#else
    w->size.threads = 1;
#endif
    if (w->size.threads > tiles) w->size.threads = tiles;

    // Steps kept between checkpoints, so that the records of a thread fit its share of memory.
    double share = (double)w->size.max_bytes / w->size.threads;
    w->segment = choose_segment(system, size->steps, share);
    if (w->segment == 0) {
        ns_workspace_free(w);
        return nsi_fail(error, NS_ERR_LIMIT,
                        "%zu bytes are too few for rollouts of %u steps; raise max_bytes",
                        size->max_bytes, size->steps);
    }

    // Gradients are added up by tile and by chunk, and summed in a fixed order: results do not
    // depend on the number of threads.
    w->thread = nsi_alloc_zeroed(&w->allocator, w->size.threads * sizeof *w->thread);
    size_t parts = system->hvp[0] ? 2 : 1; // a gradient, and its product with a direction
    w->hvp = system->hvp[0] != NULL;
    w->dparams = nsi_alloc(&w->allocator, (parts * tiles * system->sizes.np + 1) * NSI_TILE_LANES *
                                              sizeof(double));
    uint32_t narray = system->narray, chunks = nsi_chunk_count(size->batch);
    w->dweights =
        nsi_alloc(&w->allocator, ((parts * chunks + 1) * system->sizes.nw + 1) * sizeof(double));
    w->arrays = nsi_alloc(&w->allocator, (2 * (size_t)narray + 1) * sizeof *w->arrays);
    w->sinks = nsi_alloc(&w->allocator, (parts * chunks * narray + 1) * sizeof *w->sinks);
    w->failed_step = nsi_alloc(&w->allocator, tiles * sizeof(uint32_t));
    w->failed_lane = nsi_alloc(&w->allocator, tiles * sizeof(uint32_t));
    w->failed_input = nsi_alloc(&w->allocator, tiles * sizeof(uint32_t));
    bool ok = w->thread && w->dparams && w->dweights && w->arrays && w->sinks && w->failed_step &&
              w->failed_lane && w->failed_input;

    for (uint32_t t = 0; ok && t < w->size.threads; t++) {
        ok = allocate_thread(system, size->steps, w->segment, &w->thread[t]);
    }
    if (!ok) {
        ns_workspace_free(w);
        return nsi_fail_nomem(error);
    }
    *out = w;
    return NS_OK;
}

void ns_workspace_free(ns_workspace* w) {
    if (!w) return;
    ns_allocator memory = w->allocator;
    for (uint32_t t = 0; w->thread && t < w->size.threads; t++) {
        nsi_free(&memory, w->thread[t].records);
        nsi_free(&memory, w->thread[t].checkpoints);
        nsi_free(&memory, w->thread[t].in);
        nsi_free(&memory, w->thread[t].hvp_in);
        nsi_free(&memory, w->thread[t].out);
        nsi_free(&memory, w->thread[t].adjoint);
        nsi_free(&memory, w->thread[t].spare_weights);
        nsi_free(&memory, w->thread[t].spare_sinks);
        nsi_free(&memory, w->thread[t].work);
    }
    nsi_free(&memory, w->thread);
    nsi_free(&memory, w->dparams);
    nsi_free(&memory, w->dweights);
    nsi_free(&memory, w->arrays);
    nsi_free(&memory, w->sinks);
    nsi_free(&memory, w->failed_step);
    nsi_free(&memory, w->failed_lane);
    nsi_free(&memory, w->failed_input);
    nsi_free(&memory, w);
}

// Numbers that a caller hands in: `rows` rows of `count`, named by `name`.
static ns_status check_rollout_numbers(const ns_system* s, const char* what, const double* x,
                                       size_t rows, size_t count,
                                       const char* (*name)(const ns_system*, uint32_t),
                                       ns_error* error) {
    if (!x || nsi_all_finite(x, rows * count)) return NS_OK;
    size_t k = 0;
    while (fabs(x[k]) <= DBL_MAX) k++;
    return nsi_fail(error, NS_ERR_NONFINITE, "%s, row %zu: %s is %g", what, k / count,
                    name(s, (uint32_t)(k % count)), x[k]);
}

// Quaternions of initial states may have any length but 0.
static ns_status check_quaternions(const ns_system* s, const ns_rollout_args* args,
                                   ns_error* error) {
    for (uint32_t i = 0; s->model && i < s->model->sizes.nlink; i++) {
        const nsi_link* link = &s->model->links[i];
        if (link->nq < 4) continue;
        const uint32_t first = link->q + link->nq - 4; // the last coordinates
        for (uint32_t n = 0; n < args->batch; n++) {
            const double* q = args->x0 + (size_t)n * s->sizes.nx + first;
            if (q[0] != 0.0 || q[1] != 0.0 || q[2] != 0.0 || q[3] != 0.0) continue;
            return nsi_fail(error, NS_ERR_ARGUMENT,
                            "x0, row %u: the quaternion at %s is zero; it must not be", n,
                            ns_system_state_name(s, first));
        }
    }
    return NS_OK;
}

static ns_status check_args(const ns_system* s, const ns_workspace* w, const ns_rollout_args* args,
                            ns_error* error) {
    if (!s || !w || !args) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "a rollout needs a system, a workspace and arguments");
    }
    if (w->system != s) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "the workspace belongs to another system");
    }

    // Sizes within those of the workspace.
    if (args->batch == 0 || args->batch > w->size.batch || args->steps == 0 ||
        args->steps > w->size.steps) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "a rollout of %u robots and %u steps does not fit a workspace for 1 to %u"
                        " robots and 1 to %u steps",
                        args->batch, args->steps, w->size.batch, w->size.steps);
    }

    if (!args->x0) return nsi_fail(error, NS_ERR_ARGUMENT, "x0 is missing");
    if (args->per_robot_params && !args->params) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "per_robot_params is set, but params is NULL");
    }

    // Numbers are finite; a message names the first that is not.
    const ns_system_sizes* z = &s->sizes;
    ns_status status =
        check_rollout_numbers(s, "x0", args->x0, args->batch, z->nx, ns_system_state_name, error);
    if (status == NS_OK) status = check_quaternions(s, args, error);
    if (status == NS_OK) {
        status =
            check_rollout_numbers(s, "controls", args->controls, (size_t)args->batch * args->steps,
                                  z->nc, ns_system_control_name, error);
    }
    if (status == NS_OK) {
        status = check_rollout_numbers(s, "params", args->params,
                                       args->per_robot_params ? args->batch : 1, z->np,
                                       ns_system_param_name, error);
    }
    for (uint32_t k = 0; status == NS_OK && args->weights && k < z->nw; k++) {
        if (fabs(args->weights[k]) <= DBL_MAX) continue;
        status = nsi_fail(error, NS_ERR_NONFINITE, "weight %u is %g", k, args->weights[k]);
    }
    return status;
}

// ---- lanes ---------------------------------------------------------------------------------

// Tile `number`, in the memory of thread number `thread` of the workspace.
static nsi_tile make_tile(const ns_system* s, ns_workspace* w, const ns_rollout_args* args,
                          uint32_t number, uint32_t thread) {
    nsi_tile t = {.s = s,
                  .args = args,
                  .memory = &w->thread[thread],
                  .number = number,
                  .arrays = w->arrays,
                  .sinks = w->sinks};
    t.first = number * NSI_TILE_LANES;
    t.count = args->batch - t.first < NSI_TILE_LANES ? args->batch - t.first : NSI_TILE_LANES;
    t.form = t.count == 1 ? NSI_FORM_ONE : NSI_FORM_FOUR;
    t.lanes = t.count == 1 ? 1 : NSI_TILE_LANES;
    return t;
}

// Robot of a lane; lanes that are left over repeat the last robot.
static size_t robot_of(const nsi_tile* t, uint32_t lane) {
    return t->first + (lane < t->count ? lane : t->count - 1);
}

// Rows of `from`, `stride` apart per robot, into [component][lane]; NULL: zeros.
void nsi_tile_gather(const nsi_tile* t, const double* from, size_t stride, size_t count,
                     double* to) {
    for (uint32_t l = 0; l < t->lanes; l++) {
        const double* row = from ? from + robot_of(t, l) * stride : NULL;
        for (size_t k = 0; k < count; k++) to[k * t->lanes + l] = row ? row[k] : 0.0;
    }
}

// Add the seeds of robots. Lanes that are left over have none: gradients for weights are summed over
// lanes.
void nsi_tile_add(const nsi_tile* t, const double* from, size_t stride, size_t count, double* to) {
    for (uint32_t l = 0; from && l < t->count; l++) {
        const double* row = from + (t->first + l) * stride;
        for (size_t k = 0; k < count; k++) to[k * t->lanes + l] += row[k];
    }
}

void nsi_tile_scatter(const nsi_tile* t, const double* from, size_t stride, size_t count,
                      double* to) {
    for (uint32_t l = 0; to && l < t->count; l++) {
        double* row = to + (t->first + l) * stride;
        for (size_t k = 0; k < count; k++) row[k] = from[k * t->lanes + l];
    }
}

void nsi_tile_gather_params(const nsi_tile* t, const double* params, double* to) {
    const ns_system_sizes* z = &t->s->sizes;
    if (params) {
        nsi_tile_gather(t, params, t->args->per_robot_params ? z->np : 0, z->np, to);
        return;
    }
    for (uint32_t k = 0; k < z->np; k++) {
        double value = t->s->params[t->s->free_param[k]];
        for (uint32_t l = 0; l < t->lanes; l++) to[k * t->lanes + l] = value;
    }
}

// Parts of a record.
static double* record_at(const nsi_tile* t, size_t k) {
    return t->memory->records + k * nsi_record_size(t->s) * t->lanes;
}
static double* record_x(const nsi_tile* t, size_t k) {
    return record_at(t, k) + nsi_step_ny(t->s) * t->lanes;
}
static double* record_c(const nsi_tile* t, size_t k) {
    return record_x(t, k) + t->s->sizes.nx * t->lanes;
}
static double* record_p(const nsi_tile* t, size_t k) {
    return record_c(t, k) + t->s->sizes.nc * t->lanes;
}
static double* record_seeds(const nsi_tile* t, size_t k) {
    return record_p(t, k) + t->s->sizes.np * t->lanes;
}

// ---- how well impulses were found ----------------------------------------------------------

void nsi_tile_begin_report(const nsi_tile* t) {
    for (uint32_t l = 0; l < t->count; l++) {
        uint32_t robot = t->first + l;
        if (t->args->contact) t->args->contact[robot] = (ns_contact_report){0};
        if (t->certificate) nsi_certificate_begin(&t->certificate[robot], t->args->steps);
    }
}

// Note what the solver of a step put out behind its observations `y`.
void nsi_tile_report_contact(const nsi_tile* t, const double* y, uint32_t step) {
    uint32_t nsolver = t->s->nsolver;
    if ((!t->args->contact && !t->certificate) || nsolver == 0) return;
    const double* told = y + t->s->sizes.ny * t->lanes;
    for (uint32_t l = 0; l < t->count; l++) {
        nsi_contact_note note = {.residual = told[NSI_SOLVER_RESIDUAL * t->lanes + l]};
        if (nsolver > NSI_SOLVER_RELAXATION) {
            note.relaxation = told[NSI_SOLVER_RELAXATION * t->lanes + l];
        }
        uint32_t robot = t->first + l;
        if (t->args->contact) nsi_contact_report_add(&t->args->contact[robot], &note, step);
        if (t->certificate) nsi_contact_report_add(&t->certificate[robot].contact, &note, step);
    }
}

// ---- forward -------------------------------------------------------------------------------

// Steps `from` .. `from + count` from the state in record 0.
static void forward_segment(const nsi_tile* t, uint32_t from, uint32_t count, bool report) {
    const ns_system_sizes* z = &t->s->sizes;
    const ns_rollout_args* a = t->args;
    const size_t steps = a->steps;
    for (uint32_t k = 0; k < count; k++) {
        size_t step = from + k;
        if (a->controls) {
            nsi_tile_gather(t, a->controls + step * z->nc, steps * z->nc, z->nc, record_c(t, k));
        }
        ns_program_run(t->s->step[t->form], &(ns_run){.in = record_x(t, k),
                                                      .out = record_at(t, k + 1),
                                                      .arrays = t->arrays,
                                                      .work = t->memory->work});
        if (!report) continue;
        nsi_tile_report_contact(t, record_at(t, k + 1), (uint32_t)step);
        nsi_tile_scatter(t, record_x(t, k + 1), (steps + 1) * z->nx, z->nx,
                         a->states ? a->states + (step + 1) * z->nx : NULL);
        nsi_tile_scatter(t, record_at(t, k + 1), steps * z->ny, z->ny,
                         a->observations ? a->observations + step * z->ny : NULL);
    }
}

// Everything that does not change from step to step.
static void prepare_records(const nsi_tile* t, uint32_t segment) {
    const ns_system_sizes* z = &t->s->sizes;
    uint32_t used = t->args->steps < segment ? t->args->steps : segment;
    for (uint32_t k = 0; k < used; k++) {
        if (k == 0) {
            nsi_tile_gather_params(t, t->args->params, record_p(t, 0));
        } else {
            memcpy(record_p(t, k), record_p(t, 0), z->np * t->lanes * sizeof(double));
        }
        if (!t->args->controls) memset(record_c(t, k), 0, z->nc * t->lanes * sizeof(double));
    }
    nsi_tile_begin_report(t);
    nsi_tile_gather(t, t->args->x0, z->nx, z->nx, record_x(t, 0));
    nsi_tile_scatter(t, record_x(t, 0), ((size_t)t->args->steps + 1) * z->nx, z->nx,
                     t->args->states);
}

// All steps; leaves the last segment's records. A number that is not finite stays so, hence one
// look per segment is enough.
static void forward_tile(const nsi_tile* t, ns_workspace* w) {
    const ns_system_sizes* z = &t->s->sizes;
    const size_t state = z->nx * t->lanes;
    w->failed_step[t->number] = NSI_NONE;
    prepare_records(t, w->segment);
    for (uint32_t from = 0, n; from < t->args->steps; from += n) {
        n = t->args->steps - from < w->segment ? t->args->steps - from : w->segment;
        if (from > 0) memcpy(record_x(t, 0), record_x(t, w->segment), state * sizeof(double));
        memcpy(t->memory->checkpoints + from / w->segment * state, record_x(t, 0),
               state * sizeof(double));
        forward_segment(t, from, n, true);
        if (nsi_all_finite(record_x(t, n), state)) continue;
        for (uint32_t k = 1; k <= n && w->failed_step[t->number] == NSI_NONE; k++) {
            for (size_t i = 0; i < state; i++) {
                if (fabs(record_x(t, k)[i]) <= DBL_MAX) continue;
                w->failed_step[t->number] = from + k - 1;
                w->failed_lane[t->number] = (uint32_t)(i % t->lanes);
                break;
            }
        }
        return;
    }
}

// What to do about a state that led out of the finite numbers.
static void advise(const ns_system* s, const double* x, uint32_t step, char* text, size_t size) {
    uint32_t largest = 0;
    for (uint32_t k = 1; k < s->sizes.nx; k++) {
        if (fabs(x[k]) > fabs(x[largest])) largest = k;
    }
    if (step == 0) {
        snprintf(text, size, "look at the initial state and the %s",
                 s->model ? "parameters" : "weights");
    } else if (!s->model) {
        snprintf(text, size, "%s was %.3g before it: train on longer rollouts or smaller weights",
                 ns_system_state_name(s, largest), x[largest]);
    } else {
        char other[80] = "";
        if (s->binding) {
            snprintf(other, sizeof other, " or a smaller output_scale of the networks");
        } else if (!nsi_integrator_has(s->sizes.integrator, NSI_FAST_SPINS)) {
            snprintf(other, sizeof other, " or the %s integrator",
                     nsi_integrator_name_with(NSI_FAST_SPINS));
        }
        snprintf(text, size, "%s was %.3g before it: take a smaller time step%s",
                 ns_system_state_name(s, largest), x[largest], other);
    }
}

// The message for the first robot that left the finite numbers.
static ns_status check_finite(const ns_system* s, ns_workspace* w, const ns_rollout_args* args,
                              ns_error* error) {
    const ns_system_sizes* z = &s->sizes;
    uint32_t tiles = (args->batch - 1) / NSI_TILE_LANES + 1;
    for (uint32_t n = 0; n < tiles; n++) {
        if (w->failed_step[n] == NSI_NONE) continue;
        uint32_t robot = n * NSI_TILE_LANES + w->failed_lane[n];
        if (robot >= args->batch) robot = args->batch - 1;
        // Go there again with this robot alone, to have the inputs of the bad step.
        ns_rollout_args alone = *args;
        alone.batch = 1;
        alone.states = alone.observations = NULL;
        alone.contact = NULL;
        alone.x0 += (size_t)robot * z->nx;
        if (args->controls) alone.controls += (size_t)robot * args->steps * z->nc;
        if (args->per_robot_params) alone.params += (size_t)robot * z->np;

        // One step at a time, as far as the one that failed.
        nsi_tile t = make_tile(s, w, &alone, 0, 0);
        prepare_records(&t, w->segment);
        for (uint32_t step = 0; step < w->failed_step[n]; step++) {
            forward_segment(&t, step, 1, false);
            memcpy(record_x(&t, 0), record_x(&t, 1), z->nx * sizeof(double));
        }
        if (args->controls) {
            memcpy(record_c(&t, 0), alone.controls + (size_t)w->failed_step[n] * z->nc,
                   z->nc * sizeof(double));
        }

        // Which quantity it was, and what to do about it.
        char reason[320], advice[200];
        nsi_system_diagnose(s, record_x(&t, 0), t.arrays, reason, sizeof reason);
        advise(s, record_x(&t, 0), w->failed_step[n], advice, sizeof advice);
        return nsi_fail(error, NS_ERR_NONFINITE, "robot %u, step %u (t = %g s): %s; %s", robot,
                        w->failed_step[n], w->failed_step[n] * z->timestep, reason, advice);
    }
    return NS_OK;
}

// Where programs find weights and put their gradients, of which those that `chunks` parts of the batch
// add up begin at zero; `dweights` (nw) are tangents, or NULL for zero. With `second` a chunk has two
// gradients, one behind the other; behind all of them are zeros.
static void set_arrays(const ns_system* s, ns_workspace* w, const double* weights,
                       const double* dweights, uint32_t chunks, bool second) {
    const uint32_t narray = s->narray, nw = s->sizes.nw, parts = second ? 2 : 1;
    const size_t gradients = (size_t)chunks * parts;
    memset(w->dweights, 0, (gradients + 1) * nw * sizeof(double));
    for (uint32_t k = 0; k < narray; k++) {
        uint32_t offset = s->arrays[k].offset;
        w->arrays[k] = (weights ? weights : s->weights) + offset;
        w->arrays[narray + k] = (dweights ? dweights : w->dweights + gradients * nw) + offset;
        for (size_t c = 0; c < gradients; c++) {
            w->sinks[c * narray + k] = w->dweights + c * nw + offset;
        }
    }
}

// All tiles, in chunks shared out to threads; then see whether every robot stayed finite.
ns_status nsi_run_tiles(const ns_system* s, ns_workspace* w, const ns_rollout_args* args,
                        const nsi_tile_task* task, ns_error* error) {
    ns_status status = check_args(s, w, args, error);
    if (status != NS_OK) return status;
    uint64_t tiles = nsi_tile_count(args->batch);
    bool sums = task->gradient && s->sizes.nw > 0; // otherwise a chunk is a tile
    int chunks = (int)(sums ? nsi_chunk_count(args->batch) : nsi_tile_count(args->batch));
    set_arrays(s, w, args->weights, task->dweights, sums ? (uint32_t)chunks : 1, task->second);
    const size_t nsink = (task->second ? 2 : 1) * (size_t)s->narray;
#ifdef _OPENMP
#pragma omp parallel for schedule(static) num_threads((int)w->size.threads)
#endif
    for (int c = 0; c < chunks; c++) {
        uint32_t thread = 0;
#ifdef _OPENMP
        thread = (uint32_t)omp_get_thread_num();
#endif
        uint32_t end = (uint32_t)(tiles * ((uint64_t)c + 1) / (uint64_t)chunks);
        for (uint32_t n = (uint32_t)(tiles * (uint64_t)c / (uint64_t)chunks); n < end; n++) {
            nsi_tile t = make_tile(s, w, args, n, thread);
            if (sums) t.sinks = w->sinks + (size_t)c * nsink;
            task->work(&t, w, task->job);
        }
    }
    return check_finite(s, w, args, error);
}

static void value_work(const nsi_tile* t, ns_workspace* w, const void* job) {
    (void)job;
    forward_tile(t, w);
}

ns_status ns_rollout(const ns_system* s, ns_workspace* w, const ns_rollout_args* args,
                     ns_error* error) {
    return nsi_run_tiles(s, w, args, &(nsi_tile_task){.work = value_work}, error);
}

// ---- derivatives that are not finite -------------------------------------------------------

// Look at `count` derivatives, [component][lane]; the first bad one is kept, counted from `first`.
void nsi_tile_check_derivative(const nsi_tile* t, ns_workspace* w, const double* d, size_t count,
                               uint32_t first) {
    if (w->failed_input[t->number] != NSI_NONE || nsi_all_finite(d, count * t->lanes)) return;
    size_t i = 0;
    while (fabs(d[i]) <= DBL_MAX) i++;
    w->failed_input[t->number] = first + (uint32_t)(i / t->lanes);
    w->failed_lane[t->number] = (uint32_t)(i % t->lanes);
}

// `of` says what the components are: "the gradient for", "the derivative of".
ns_status nsi_report_derivative(const ns_system* s, const ns_workspace* w,
                                const ns_rollout_args* args, const char* of, ns_error* error) {
    for (uint32_t n = 0; n <= (args->batch - 1) / NSI_TILE_LANES; n++) {
        uint32_t input = w->failed_input[n], robot = n * NSI_TILE_LANES + w->failed_lane[n];
        if (input == NSI_NONE) continue;
        if (robot >= args->batch) robot = args->batch - 1;
        return nsi_fail(error, NS_ERR_NONFINITE,
                        "robot %u: the motion is finite, but %s %s is not; use fewer steps or a"
                        " smaller time step",
                        robot, of,
                        input < s->sizes.nx ? ns_system_state_name(s, input)
                                            : ns_system_param_name(s, input - s->sizes.nx));
    }
    return NS_OK;
}

// ---- reverse -------------------------------------------------------------------------------

// What the seeds of a step put into the adjoint of each robot, by the largest component: those of its
// observations by a run of their own, whose gradient for weights is dropped.
static void measure_seeds(const nsi_tile* t, const ns_rollout_adjoint* a, uint32_t k, uint32_t step,
                          double size[NSI_TILE_LANES]) {
    const ns_system_sizes* z = &t->s->sizes;
    const size_t steps = t->args->steps, lanes = t->lanes;
    double *seeds = record_seeds(t, k), *out = t->memory->out;
    for (size_t l = 0; l < NSI_TILE_LANES; l++) size[l] = 0.0;

    // Of observations, which the record already has.
    bool observed = false;
    for (size_t i = 0; i < z->ny * lanes; i++) observed = observed || seeds[i] != 0.0;
    if (observed) {
        memset(seeds + nsi_step_ny(t->s) * lanes, 0, z->nx * lanes * sizeof(double));
        memset(t->memory->spare_weights, 0, z->nw * sizeof(double));
        ns_program_run(t->s->vjp[t->form], &(ns_run){.in = record_x(t, k),
                                                     .out = out,
                                                     .arrays = t->arrays,
                                                     .sinks = t->memory->spare_sinks,
                                                     .work = t->memory->work});
        for (size_t i = 0; i < z->nx * lanes; i++) {
            size[i % lanes] = fmax(size[i % lanes], fabs(out[i]));
        }
    }

    // Of the state after the step.
    for (uint32_t l = 0; a->state_seeds && l < t->count; l++) {
        const double* row = a->state_seeds + ((t->first + l) * (steps + 1) + step + 1) * z->nx;
        double largest = 0.0;
        for (uint32_t i = 0; i < z->nx; i++) largest = fmax(largest, fabs(row[i]));
        size[l] += largest;
    }
}

// @param growth  (lanes) of the adjoint; used with certificates only
static void reverse_segment(const nsi_tile* t, const ns_rollout_adjoint* a, uint32_t from,
                            uint32_t count, double* dp, nsi_growth* growth) {
    const ns_system_sizes* z = &t->s->sizes;
    const size_t steps = t->args->steps, lanes = t->lanes;
    double *adjoint = t->memory->adjoint, *out = t->memory->out;
    for (uint32_t k = count; k-- > 0;) {
        size_t step = from + k;
        double* seeds = record_seeds(t, k);
        double injected[NSI_TILE_LANES] = {0.0};

        // Seeds of this step; those of the solver's outputs stay 0.
        memset(seeds, 0, nsi_step_ny(t->s) * lanes * sizeof(double));
        nsi_tile_add(t, a->observation_seeds ? a->observation_seeds + step * z->ny : NULL,
                     steps * z->ny, z->ny, seeds);
        if (t->certificate) measure_seeds(t, a, k, (uint32_t)step, injected);
        nsi_tile_add(t, a->state_seeds ? a->state_seeds + (step + 1) * z->nx : NULL,
                     (steps + 1) * z->nx, z->nx, adjoint);
        memcpy(seeds + nsi_step_ny(t->s) * lanes, adjoint, z->nx * lanes * sizeof(double));

        ns_program_run(t->s->vjp[t->form], &(ns_run){.in = record_x(t, k),
                                                     .out = out,
                                                     .arrays = t->arrays,
                                                     .sinks = t->sinks,
                                                     .work = t->memory->work});
        for (uint32_t l = 0; t->certificate && l < t->count; l++) {
            nsi_certificate_add_step(&t->certificate[t->first + l], &growth[l], (uint32_t)step,
                                     injected[l], adjoint + l, out + l, z->nx, lanes);
        }

        // The adjoint of the state goes on; those of controls and parameters are results.
        memcpy(adjoint, out, z->nx * lanes * sizeof(double));
        const double* dc = out + z->nx * lanes;
        nsi_tile_scatter(t, dc, steps * z->nc, z->nc,
                         a->dcontrols ? a->dcontrols + step * z->nc : NULL);
        for (size_t i = 0; i < z->np * lanes; i++) dp[i] += dc[z->nc * lanes + i];
    }
}

static void reverse_tile(const nsi_tile* t, ns_workspace* w, const ns_rollout_adjoint* a) {
    const ns_system_sizes* z = &t->s->sizes;
    const size_t state = z->nx * t->lanes;
    double* dp = w->dparams + (size_t)t->number * z->np * NSI_TILE_LANES;
    memset(dp, 0, z->np * NSI_TILE_LANES * sizeof(double));
    memset(t->memory->adjoint, 0, state * sizeof(double));
    nsi_growth growth[NSI_TILE_LANES] = {{0}};
    uint32_t last = (t->args->steps - 1) / w->segment;
    for (uint32_t n = last + 1; n-- > 0;) {
        uint32_t from = n * w->segment;
        uint32_t count = n == last ? t->args->steps - from : w->segment;
        if (n != last) { // the last one's records are still there
            memcpy(record_x(t, 0), t->memory->checkpoints + n * state, state * sizeof(double));
            forward_segment(t, from, count, false);
        }
        reverse_segment(t, a, from, count, dp, growth);
    }
    nsi_tile_add(t, a->state_seeds, ((size_t)t->args->steps + 1) * z->nx, z->nx,
                 t->memory->adjoint);
    nsi_tile_scatter(t, t->memory->adjoint, z->nx, z->nx, a->dx0);
    // What is not finite stays so on the way back: a state passes through every step.
    w->failed_input[t->number] = NSI_NONE;
    nsi_tile_check_derivative(t, w, t->memory->adjoint, z->nx, 0);
    nsi_tile_check_derivative(t, w, dp, z->np, z->nx);
}

// Sum over robots in order, or hand out one row per robot.
void nsi_collect_dparams(const ns_system* s, const double* parts, const ns_rollout_args* args,
                         double* dparams) {
    uint32_t np = s->sizes.np;
    for (uint32_t k = 0; k < np && !args->per_robot_params; k++) dparams[k] = 0.0;
    for (uint32_t robot = 0; robot < args->batch; robot++) {
        uint32_t number = robot / NSI_TILE_LANES, lane = robot % NSI_TILE_LANES;
        bool alone = args->batch - number * NSI_TILE_LANES == 1;
        const double* dp = parts + (size_t)number * np * NSI_TILE_LANES;
        for (uint32_t k = 0; k < np; k++) {
            double d = dp[alone ? k : k * NSI_TILE_LANES + lane];
            if (args->per_robot_params) {
                dparams[(size_t)robot * np + k] = d;
            } else {
                dparams[k] += d;
            }
        }
    }
}

void nsi_collect_dweights(const ns_system* s, const double* parts, size_t stride, uint32_t chunks,
                          double* dweights) {
    memcpy(dweights, parts, s->sizes.nw * sizeof(double));
    for (uint32_t c = 1; c < chunks; c++) {
        const double* part = parts + c * stride;
        for (uint32_t k = 0; k < s->sizes.nw; k++) dweights[k] += part[k];
    }
}

// Certificates of a tile whose motion did not stay finite, and hence has no gradient.
static void certify_failed_motion(const nsi_tile* t, const ns_workspace* w) {
    for (uint32_t l = 0; t->certificate && l < t->count; l++) {
        ns_gradient_certificate* c = &t->certificate[t->first + l];
        c->finite = false;
        c->nonfinite_step = w->failed_step[t->number];
    }
}

// A gradient, and who sets its seeds when a tile is simulated; NULL: they are set.
typedef struct reverse_job {
    const ns_rollout_adjoint* adjoint;
    nsi_tile_seeder* seed;
    void* context;
} reverse_job;

static void reverse_work(const nsi_tile* t, ns_workspace* w, const void* job) {
    const reverse_job* j = job;
    const ns_rollout_adjoint* adjoint = j->adjoint;
    nsi_tile certified = *t;
    certified.certificate = adjoint->certificate;
    forward_tile(&certified, w);
    if (w->failed_step[t->number] == NSI_NONE) {
        if (j->seed) j->seed(j->context, t->first, t->count);
        reverse_tile(&certified, w, adjoint);
    } else {
        certify_failed_motion(&certified, w);
    }
    for (uint32_t l = 0; adjoint->certificate && l < t->count; l++) {
        nsi_certificate_judge(t->s, &adjoint->certificate[t->first + l]);
    }
}

ns_status ns_rollout_vjp(const ns_system* s, ns_workspace* w, const ns_rollout_args* args,
                         const ns_rollout_adjoint* adjoint, ns_error* error) {
    return nsi_rollout_vjp_seeded(s, w, args, adjoint, NULL, NULL, error);
}

ns_status nsi_rollout_vjp_seeded(const ns_system* s, ns_workspace* w, const ns_rollout_args* args,
                                 const ns_rollout_adjoint* adjoint, nsi_tile_seeder* seed,
                                 void* context, ns_error* error) {
    if (!adjoint) return nsi_fail(error, NS_ERR_ARGUMENT, "ns_rollout_vjp: adjoint is NULL");

    // Sweeps of all tiles, then sums over them.
    const reverse_job job = {adjoint, seed, context};
    const nsi_tile_task task = {.work = reverse_work, .job = &job, .gradient = true};
    ns_status status = nsi_run_tiles(s, w, args, &task, error);
    if (status != NS_OK) return status;
    if (adjoint->dparams) nsi_collect_dparams(s, w->dparams, args, adjoint->dparams);
    if (adjoint->dweights && s->sizes.nw > 0) {
        nsi_collect_dweights(s, w->dweights, s->sizes.nw, nsi_chunk_count(args->batch),
                             adjoint->dweights);
    }

    // What is not finite.
    status = nsi_report_derivative(s, w, args, "the gradient for", error);
    for (uint32_t k = 0; status == NS_OK && adjoint->dweights && k < s->sizes.nw; k++) {
        if (fabs(adjoint->dweights[k]) <= DBL_MAX) continue;
        status = nsi_fail(error, NS_ERR_NONFINITE,
                          "the motion is finite, but the gradient for weight %u is not; use fewer"
                          " steps or a smaller time step",
                          k);
    }
    return status;
}

// ---- forward derivative --------------------------------------------------------------------

static void tangent_tile(const nsi_tile* t, ns_workspace* w, const ns_rollout_tangent* d) {
    const ns_system_sizes* z = &t->s->sizes;
    const ns_rollout_args* a = t->args;
    const size_t lanes = t->lanes, steps = a->steps;
    double *x = t->memory->in, *c = x + z->nx * lanes, *p = c + z->nc * lanes;
    double *dx = p + z->np * lanes, *dc = dx + z->nx * lanes, *dp = dc + z->nc * lanes;
    double *y = t->memory->out, *next = y + nsi_step_ny(t->s) * lanes;
    double *dy = next + z->nx * lanes, *dnext = dy + nsi_step_ny(t->s) * lanes;

    // Initial state and parameters, and their tangents.
    w->failed_step[t->number] = w->failed_input[t->number] = NSI_NONE;
    nsi_tile_begin_report(t);
    nsi_tile_gather(t, a->x0, z->nx, z->nx, x);
    nsi_tile_gather_params(t, a->params, p);
    nsi_tile_gather(t, d->dx0, z->nx, z->nx, dx);
    nsi_tile_gather(t, d->dparams, a->per_robot_params ? z->np : 0, z->np, dp);
    nsi_tile_scatter(t, x, (steps + 1) * z->nx, z->nx, a->states);
    nsi_tile_scatter(t, dx, (steps + 1) * z->nx, z->nx, d->dstates);

    for (size_t step = 0; step < steps; step++) {
        nsi_tile_gather(t, a->controls ? a->controls + step * z->nc : NULL, steps * z->nc, z->nc,
                        c);
        nsi_tile_gather(t, d->dcontrols ? d->dcontrols + step * z->nc : NULL, steps * z->nc, z->nc,
                        dc);

        ns_program_run(t->s->jvp[t->form],
                       &(ns_run){.in = x, .out = y, .arrays = t->arrays, .work = t->memory->work});
        nsi_tile_report_contact(t, y, (uint32_t)step);

        // The next state replaces the last; what the caller wants of it is copied out.
        memcpy(x, next, z->nx * lanes * sizeof(double));
        memcpy(dx, dnext, z->nx * lanes * sizeof(double));
        nsi_tile_scatter(t, x, (steps + 1) * z->nx, z->nx,
                         a->states ? a->states + (step + 1) * z->nx : NULL);
        nsi_tile_scatter(t, dx, (steps + 1) * z->nx, z->nx,
                         d->dstates ? d->dstates + (step + 1) * z->nx : NULL);
        nsi_tile_scatter(t, y, steps * z->ny, z->ny,
                         a->observations ? a->observations + step * z->ny : NULL);
        nsi_tile_scatter(t, dy, steps * z->ny, z->ny,
                         d->dobservations ? d->dobservations + step * z->ny : NULL);

        // A lane that leaves the finite numbers ends the tile.
        for (size_t i = 0; i < z->nx * lanes; i++) {
            if (fabs(x[i]) <= DBL_MAX) continue;
            w->failed_step[t->number] = (uint32_t)step;
            w->failed_lane[t->number] = (uint32_t)(i % lanes);
            return;
        }
    }

    nsi_tile_check_derivative(t, w, dx, z->nx, 0);
}

static void tangent_work(const nsi_tile* t, ns_workspace* w, const void* job) {
    tangent_tile(t, w, job);
}

ns_status ns_rollout_jvp(const ns_system* s, ns_workspace* w, const ns_rollout_args* args,
                         const ns_rollout_tangent* tangent, ns_error* error) {
    if (!tangent) return nsi_fail(error, NS_ERR_ARGUMENT, "ns_rollout_jvp: tangent is NULL");
    const nsi_tile_task task = {
        .work = tangent_work, .job = tangent, .dweights = tangent->dweights};
    ns_status status = nsi_run_tiles(s, w, args, &task, error);
    return status == NS_OK ? nsi_report_derivative(s, w, args, "the derivative of", error) : status;
}
