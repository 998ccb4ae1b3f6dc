// Fits of learned systems: scales of the network's inputs and outputs come from the training data.

#include "fit/fit_state.h"

#include "sim/learned_model.h"

#include <math.h>

// The system and its problem while scales are looked for: any system with these states will do.
static ns_status make_probe(const ns_fit* f, ns_system** system, nsi_problem** problem,
                            ns_error* error) {
    nsi_learned linear = nsi_default_learned();
    linear.controls = f->spec->learned->controls;
    linear.integrate = f->spec->learned->integrate;
    const ns_model* model = f->variants[0].model;
    ns_status status =
        nsi_learned_create(&linear, model, f->timestep, false, &f->allocator, system, error);
    if (status != NS_OK) return status;
    return nsi_problem_create(model, *system, NULL, f->data[NS_ROLE_TRAIN], &f->allocator, problem,
                              error);
}

// All coordinates, and no other channel.
static ns_status check_channels(const ns_fit* f, const nsi_problem* p, ns_error* error) {
    for (uint32_t k = 0; k < p->nq; k++) {
        if (p->channel_of_state[k] != NSI_NONE) continue;
        return nsi_fail(error, NS_ERR_PARSE,
                        "the data has no %s; a learned system needs all coordinates of the model",
                        ns_system_state_name(p->system, k));
    }
    for (uint32_t k = 0; k < p->nchannel; k++) {
        if (p->sources[k].state) continue;
        return nsi_fail(error, NS_ERR_PARSE,
                        "the data has a channel %.200s, but a learned system tells only coordinates"
                        " and velocities",
                        ns_dataset_channel(f->data[NS_ROLE_TRAIN], k)->name);
    }
    return NS_OK;
}

// Sums over all samples of the training data. Two passes: first the means, then what is around them.
typedef struct sums {
    const nsi_problem* p;
    uint32_t nx, nc;
    double *x, *last;           // (sizes.nx) states of a sample and of the one before
    double *mean, *square;      // (nx + nc) of states and controls
    double* change;             // (nx) squares of increments
    double count, change_count; // of samples
} sums;

static void add_sample(sums* s, const ns_recording* r, uint32_t sample, bool second) {
    for (uint32_t k = 0; k < s->nx + s->nc; k++) {
        double value = k < s->nx ? s->x[k] : r->controls[(size_t)sample * s->nc + k - s->nx];
        double off = value - s->mean[k];
        if (second) {
            s->square[k] += off * off;
        } else {
            s->mean[k] += value;
        }
    }
}

static void pass(sums* s, const ns_dataset* data, uint32_t reach, bool second) {
    s->count = s->change_count = 0.0;
    for (uint32_t r = 0; r < ns_dataset_recording_count(data); r++) {
        const ns_recording* recording = ns_dataset_recording(data, r);
        bool follows = false;
        for (uint32_t k = 0; k < recording->nsample; k++) {
            if (!nsi_problem_guess(s->p, recording, k, reach, s->x)) {
                follows = false;
                continue;
            }
            add_sample(s, recording, k, second);
            s->count += 1.0;
            for (uint32_t i = 0; follows && i < s->nx; i++) {
                double change = s->x[i] - s->last[i];
                if (second) s->change[i] += change * change;
            }
            s->change_count += follows;
            memcpy(s->last, s->x, s->nx * sizeof(double));
            follows = true;
        }
    }
}

// What does not change has the scale 1.
static double scale_of(double squares, double count) {
    double rms = count > 0.0 ? sqrt(squares / count) : 0.0;
    return rms > 0.0 && isfinite(rms) ? rms : 1.0;
}

static bool fill_scales(ns_fit* f, const sums* s) {
    nsi_learned* l = f->spec->learned;
    nsi_arena* arena = &f->spec->yaml.arena;
    nsi_number_list* lists[] = {&l->state_shift, &l->state_scale, &l->output_scale,
                                &l->control_shift, &l->control_scale};
    for (int k = 0; k < 5; k++) {
        lists[k]->count = k < 3 ? s->nx : s->nc;
        lists[k]->data = nsi_arena_alloc(arena, ((size_t)lists[k]->count + 1) * sizeof(double));
        if (!lists[k]->data) return false;
    }
    for (uint32_t k = 0; k < s->nx; k++) {
        l->state_shift.data[k] = s->mean[k];
        l->state_scale.data[k] = scale_of(s->square[k], s->count);
        // Increments have no shift: they are scaled by their size, not by their spread.
        l->output_scale.data[k] =
            l->increment ? scale_of(s->change[k], s->change_count) : l->state_scale.data[k];
    }
    for (uint32_t k = 0; k < s->nc; k++) {
        l->control_shift.data[k] = s->mean[s->nx + k];
        l->control_scale.data[k] = scale_of(s->square[s->nx + k], s->count);
    }
    return true;
}

static ns_status find_scales(ns_fit* f, const nsi_problem* p, ns_error* error) {
    const ns_dataset* train = f->data[NS_ROLE_TRAIN];
    sums s = {.p = p, .nx = p->nq + p->nv, .nc = p->ncontrol};
    size_t all = (size_t)s.nx + s.nc, room = 2 * (size_t)p->sizes.nx + 2 * all + s.nx + 1;
    double* memory = nsi_alloc_zeroed(&f->allocator, room * sizeof(double));
    if (!memory) return nsi_fail_nomem(error);
    s.x = memory;
    s.last = s.x + p->sizes.nx;
    s.mean = s.last + p->sizes.nx;
    s.square = s.mean + all;
    s.change = s.square + all;
    uint32_t reach = f->spec->stages.data[0].windows.smoothing;
    pass(&s, train, reach, false);
    for (size_t k = 0; k < all && s.count > 0.0; k++) s.mean[k] /= s.count;
    pass(&s, train, reach, true);
    ns_status status = NS_OK;
    if (s.count == 0.0) {
        status = nsi_fail(error, NS_ERR_PARSE,
                          "there is no sample with all coordinates, by which a learned system could"
                          " be scaled");
    } else if (!fill_scales(f, &s)) {
        status = nsi_fail_nomem(error);
    }
    nsi_free(&f->allocator, memory);
    return status;
}

// Its controls are those that are recorded.
static ns_status name_controls(ns_fit* f, ns_error* error) {
    const ns_dataset* train = f->data[NS_ROLE_TRAIN];
    nsi_text_list* controls = &f->spec->learned->controls;
    uint32_t count = ns_dataset_control_count(train);
    controls->data = nsi_arena_alloc(&f->spec->yaml.arena, (count + 1) * sizeof *controls->data);
    if (!controls->data) return nsi_fail_nomem(error);
    for (uint32_t k = 0; k < count; k++) controls->data[k] = ns_dataset_control(train, k);
    controls->count = count;
    return NS_OK;
}

ns_status nsi_fit_prepare_learned(ns_fit* f, ns_error* error) {
    ns_system* system = NULL;
    nsi_problem* problem = NULL;
    ns_status status = name_controls(f, error);
    if (status == NS_OK) {
        status = nsi_learned_check_model(f->spec->learned, f->variants[0].model, error);
    }
    if (status == NS_OK) status = make_probe(f, &system, &problem, error);
    if (status == NS_OK) status = check_channels(f, problem, error);
    if (status == NS_OK) status = find_scales(f, problem, error);
    nsi_problem_free(problem);
    ns_system_free(system);
    return status;
}

// The same weights in a system that sees recorded states, if a stage asks for it.
ns_status nsi_fit_make_teacher(ns_fit* f, ns_error* error) {
    const ns_model* model = f->variants[0].model;
    const nsi_learned* learned = f->spec->learned;
    bool needed = false;
    for (uint32_t k = 0; k < f->spec->stages.count; k++) {
        needed |= f->spec->stages.data[k].teacher_forcing;
    }
    if (!needed) return NS_OK;
    ns_learned_input* inputs =
        nsi_arena_alloc(&f->spec->yaml.arena, (f->problem->nq + f->problem->nv) * sizeof *inputs);
    if (!inputs) return nsi_fail_nomem(error);
    nsi_learned_inputs(learned, model, inputs);
    ns_status status = nsi_learned_create(learned, model, f->timestep, true, &f->allocator,
                                          &f->teacher_system, error);
    if (status == NS_OK) {
        status = nsi_problem_create(model, f->teacher_system, f->parameters, f->data[NS_ROLE_TRAIN],
                                    &f->allocator, &f->teacher, error);
    }
    if (status != NS_OK) return status;
    f->teacher->taught = inputs;
    f->teacher->taught_changes = learned->increment;
    return NS_OK;
}
