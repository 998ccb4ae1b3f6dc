// Connects channels and controls of the data to states, observations and controls of a system.

#include "sysid/problem.h"

#include "data/state_number.h"
#include "io/hybrid_file.h"
#include "io/numbers.h"
#include "neuralsim/io_names.h"
#include "sim/step.h"

#include <math.h>
#include <stdio.h>

// ---- names -------------------------------------------------------------------------------------

typedef struct search {
    const char* name;
    bool found;
    ns_nearest nearest;
} search;

static void offer(search* s, const char* name) {
    if (strcmp(s->name, name) == 0) s->found = true;
    ns_nearest_offer(&s->nearest, name);
}

static void offer_quantity(void* context, const ns_quantity_info* quantity) {
    offer(context, quantity->name);
}

static ns_status fail_unknown(const search* s, const char* what, ns_error* error) {
    char quote[NSI_QUOTE_SIZE], hint[NS_HINT_SIZE] = "";
    if (ns_nearest_likely(&s->nearest)) ns_nearest_hint(&s->nearest, hint);
    return nsi_fail(
        error, NS_ERR_PARSE,
        "the data has a %s %s, which the model does not know (`neuralsim quantities MODEL`"
        " lists what there is)%s",
        what, nsi_quote(s->name, strlen(s->name), quote), hint);
}

ns_status nsi_problem_observations(const ns_model* model, const ns_dataset* data, const char** out,
                                   uint32_t* count, ns_error* error) {
    *count = 0;
    for (uint32_t k = 0; k < ns_dataset_channel_count(data); k++) {
        const char* name = ns_dataset_channel(data, k)->name;
        if (nsi_state_number(model, name) != NSI_NONE) continue;
        search s = {.name = name, .nearest = {.wanted = name}};
        ns_status status = ns_model_quantities(model, NULL, offer_quantity, &s, error);
        if (status != NS_OK) return status;
        if (!s.found) return fail_unknown(&s, "channel", error);
        out[(*count)++] = name;
    }
    return NS_OK;
}

ns_status nsi_problem_make_system(const ns_parameters* params, uint32_t variant, double timestep,
                                  const ns_dataset* data, ns_system** out, ns_error* error) {
    const ns_variant* v = nsi_parameters_variant(params, variant);
    ns_allocator memory = *nsi_parameters_allocator(params);
    ns_system_options options = *v->options;
    *out = NULL;
    const char** observe =
        nsi_alloc(&memory, ((size_t)ns_dataset_channel_count(data) + 1) * sizeof *observe);
    if (!observe) return nsi_fail_nomem(error);
    ns_status status = nsi_problem_observations(v->model, data, observe, &options.nobserve, error);
    if (status == NS_OK) {
        options.observe = observe;
        options.free_params = nsi_parameters_param_names(params, variant);
        options.nfree = nsi_parameters_param_count(params, variant);
        options.timestep = timestep;
        status = ns_system_create(v->model, &options, out, error);
    }
    nsi_free(&memory, observe);
    return status;
}

static uint32_t observation_number(const ns_system* system, const char* name) {
    for (uint32_t k = 0; ns_system_observation_name(system, k); k++) {
        if (strcmp(ns_system_observation_name(system, k), name) == 0) return k;
    }
    return NSI_NONE;
}

static ns_status connect_controls(nsi_problem* p, const ns_dataset* data, ns_error* error) {
    ns_io_names* names = NULL;
    p->ncontrol = ns_dataset_control_count(data);
    p->controls = nsi_alloc(&p->allocator, (p->ncontrol + 1) * sizeof *p->controls);
    if (!p->controls) return nsi_fail_nomem(error);
    ns_status status = ns_io_names_create(p->system, &names, error);
    for (uint32_t k = 0; k < p->ncontrol && status == NS_OK; k++) {
        // u/<actuator>, tau0, or as columns of tables are called: u_<actuator>, tau_<joint>.
        const char* control = ns_dataset_control(data, k);
        ns_io_target target = ns_io_names_find(names, control);
        p->controls[k] = target.index;
        if (target.kind == NS_IO_CONTROL) continue;

        // Neither: the nearest of both.
        search s = {.name = control, .nearest = {.wanted = control}};
        for (uint32_t i = 0; i < p->sizes.nc; i++) {
            offer(&s, ns_system_control_name(p->system, i));
            offer(&s, ns_io_names_control(names, i));
        }
        status = fail_unknown(&s, "control", error);
    }
    ns_io_names_free(names);
    return status;
}

// ---- scales ------------------------------------------------------------------------------------

// Root mean square of how far a channel goes from where each recording starts. 1 for a channel that does
// not move: the spin of a ball in flight has rounding for a spread, which would count for everything.
static double problem_spread(const ns_dataset* data, uint32_t channel) {
    const double rounding = 1e-10; // SI units, and share of the channel's size
    double sum = 0.0, size = 0.0, count = 0.0;
    uint32_t nchannel = ns_dataset_channel_count(data);
    for (uint32_t r = 0; r < ns_dataset_recording_count(data); r++) {
        const ns_recording* recording = ns_dataset_recording(data, r);
        double first = NAN;
        for (uint32_t k = 0; k < recording->nsample; k++) {
            double x = recording->values[(size_t)k * nchannel + channel];
            if (isnan(x)) continue;
            if (isnan(first)) first = x;
            sum += (x - first) * (x - first);
            size += x * x;
            count += 1.0;
        }
    }
    double rms = count > 0.0 ? sqrt(sum / count) : 0.0;
    size = count > 0.0 ? sqrt(size / count) : 0.0;
    return rms > rounding * fmax(size, 1.0) ? rms : 1.0;
}

static ns_status connect_channels(nsi_problem* p, const ns_dataset* data, ns_error* error) {
    // Both directions: from channels to states, and back for initial states.
    p->nchannel = ns_dataset_channel_count(data);
    p->sources = nsi_alloc(&p->allocator, ((size_t)p->nchannel + 1) * sizeof *p->sources);
    p->channel_of_state =
        nsi_alloc(&p->allocator, ((size_t)p->sizes.nx + 1) * sizeof *p->channel_of_state);
    if (!p->sources || !p->channel_of_state) return nsi_fail_nomem(error);
    for (uint32_t k = 0; k < p->sizes.nx; k++) p->channel_of_state[k] = NSI_NONE;

    // A channel is a state, by the model's name or the system's, or else an observation.
    for (uint32_t k = 0; k < p->nchannel; k++) {
        const ns_channel* channel = ns_dataset_channel(data, k);
        nsi_source* s = &p->sources[k];
        uint32_t number = NSI_NONE;

        // Learned systems without a robot know the names of their states alone.
        if (p->model) {
            number = nsi_state_number(p->model, channel->name);
        } else {
            for (uint32_t i = 0; i < p->sizes.nx; i++) {
                if (strcmp(ns_system_state_name(p->system, i), channel->name) == 0) number = i;
            }
        }

        s->state = number != NSI_NONE;
        if (s->state) p->channel_of_state[number] = k;

        // An unknown channel is an error, with the nearest name as a suggestion.
        s->number = s->state ? number : observation_number(p->system, channel->name);

        if (s->number == NSI_NONE) {
            search unknown = {.name = channel->name, .nearest = {.wanted = channel->name}};
            return fail_unknown(&unknown, "channel", error);
        }

        // Residuals are in standard deviations; without a sigma, the spread of the data is used.
        p->observes |= !s->state;
        s->scale =
            channel->weight / (channel->sigma > 0.0 ? channel->sigma : problem_spread(data, k));
    }
    return NS_OK;
}

// ---- states ------------------------------------------------------------------------------------

static void add_coordinate(nsi_problem* p, uint32_t at, bool quaternion) {
    p->coordinates[p->ncoordinate++] =
        (nsi_coordinate){.at = at, .tangent = p->ntangent, .quaternion = quaternion};
    p->ntangent += quaternion ? 3 : 1;
}

// Positions, then velocities; motors and past values that networks read start as they do.
static ns_status list_coordinates(nsi_problem* p, ns_error* error) {
    p->coordinates = nsi_alloc(&p->allocator, ((size_t)p->sizes.nx + 1) * sizeof *p->coordinates);
    if (!p->coordinates) return nsi_fail_nomem(error);
    if (!p->model) {
        for (uint32_t k = 0; k < p->sizes.nx; k++) {
            if (p->channel_of_state[k] != NSI_NONE) add_coordinate(p, k, false);
        }
        return NS_OK;
    }
    uint32_t nlink = ns_model_get_sizes(p->model).nlink;
    for (uint32_t k = 0; k < nlink; k++) {
        const ns_link_def* link = ns_model_link(p->model, k);
        uint32_t at = ns_model_joint_q(p->model, k);
        if (at == NSI_NONE) continue;
        const ns_joint_info* info = ns_joint_type_info(link->joint_type);
        for (uint32_t i = 0; i < info->quaternion; i++) add_coordinate(p, at + i, false);
        if (info->quaternion < info->nq) add_coordinate(p, at + info->quaternion, true);
    }
    for (uint32_t k = 0; k < p->nv; k++) add_coordinate(p, p->nq + k, false);
    return NS_OK;
}

void nsi_problem_move(const nsi_problem* p, const double* x, const double* step, double* out) {
    if (out != x) memcpy(out, x, p->sizes.nx * sizeof(double));
    for (uint32_t k = 0; k < p->ncoordinate; k++) {
        const nsi_coordinate* c = &p->coordinates[k];
        const double* d = step + c->tangent;
        double* q = out + c->at;
        if (!c->quaternion) {
            q[0] += d[0];
            continue;
        }
        double w = q[0], a = q[1], b = q[2], e = q[3];
        double moved[4] = {
            w - 0.5 * (a * d[0] + b * d[1] + e * d[2]), a + 0.5 * (w * d[0] + b * d[2] - e * d[1]),
            b + 0.5 * (w * d[1] + e * d[0] - a * d[2]), e + 0.5 * (w * d[2] + a * d[1] - b * d[0])};
        double norm = sqrt(moved[0] * moved[0] + moved[1] * moved[1] + moved[2] * moved[2] +
                           moved[3] * moved[3]);
        for (int i = 0; i < 4; i++) q[i] = moved[i] / norm;
    }
}

void nsi_problem_tangent(const nsi_problem* p, const double* x, const double* row, double* out) {
    for (uint32_t k = 0; k < p->ncoordinate; k++) {
        const nsi_coordinate* c = &p->coordinates[k];
        const double* r = row + c->at;
        double* d = out + c->tangent;
        if (!c->quaternion) {
            d[0] = r[0];
            continue;
        }
        const double* q = x + c->at;
        d[0] = 0.5 * (-q[1] * r[0] + q[0] * r[1] + q[3] * r[2] - q[2] * r[3]);
        d[1] = 0.5 * (-q[2] * r[0] - q[3] * r[1] + q[0] * r[2] + q[1] * r[3]);
        d[2] = 0.5 * (-q[3] * r[0] + q[2] * r[1] - q[1] * r[2] + q[0] * r[3]);
    }
}

// ---- time ----------------------------------------------------------------------------------------

double nsi_problem_timestep(const ns_model* model, const ns_system_options* options, double given,
                            double period) {
    double wanted = given > 0.0               ? given
                    : options->timestep > 0.0 ? options->timestep
                                              : ns_model_world(model)->timestep;
    double steps = ceil(period / wanted * (1.0 - 1e-6));
    double timestep = given > 0.0 ? given : period / (steps > 1.0 ? steps : 1.0);
    double ratio = period / timestep;
    // Periods come from rounded times: a step that nearly divides one is meant to.
    return fabs(ratio - round(ratio)) <= 1e-6 * ratio ? period / round(ratio) : timestep;
}

// ---- the whole ---------------------------------------------------------------------------------

static ns_status connect(nsi_problem* p, const ns_dataset* data, ns_error* error) {
    double ratio = ns_dataset_period(data) / p->sizes.timestep;
    if (!(fabs(ratio - round(ratio)) <= 1e-6 * ratio) || ratio < 0.5 || ratio > 1e6) {
        return nsi_fail(error, NS_ERR_PARSE,
                        "samples are %g s apart, which is no multiple of the time step of %g s;"
                        " give a timestep that divides it",
                        ns_dataset_period(data), p->sizes.timestep);
    }
    p->substeps = (uint32_t)round(ratio);
    ns_status status = connect_channels(p, data, error);
    if (status == NS_OK) status = connect_controls(p, data, error);
    return status == NS_OK ? list_coordinates(p, error) : status;
}

// ---- variants ------------------------------------------------------------------------------------

uint32_t nsi_problem_variant(const nsi_problem* p, const ns_recording* recording) {
    for (uint32_t k = 0; k < p->nvariant && p->nvariant > 1; k++) {
        if (nsi_variant_has_file(p->variants[k].files, recording->file)) return k;
    }
    return 0;
}

// The first name that differs between two lists; false: there is none.
static bool differ(const ns_system* a, const ns_system* b, uint32_t count,
                   const char* (*name)(const ns_system*, uint32_t), char* out, size_t size) {
    for (uint32_t k = 0; k < count; k++) {
        const char *one = name(a, k), *other = name(b, k);
        if (strcmp(one, other) == 0) continue;
        snprintf(out, size, "%.80s and %.80s", one, other);
        return true;
    }
    return false;
}

// Do all weights stand in the same places under the same names?
static bool same_weights(const ns_system* a, const ns_system* b) {
    uint32_t count = ns_system_weight_matrix_count(a);
    if (count != ns_system_weight_matrix_count(b)) return false;
    for (uint32_t k = 0; k < count; k++) {
        ns_weight_matrix m = ns_system_weight_matrix(a, k), n = ns_system_weight_matrix(b, k);
        bool same = strcmp(m.set, n.set) == 0 && m.layer == n.layer && m.offset == n.offset &&
                    m.rows == n.rows && m.columns == n.columns && m.bias == n.bias;
        if (!same) return false;
    }
    return true;
}

// What moves: joints one after the other, by name and type.
static const ns_link_def* moving_link(const ns_model* model, uint32_t* number) {
    for (; *number < ns_model_get_sizes(model).nlink; ++*number) {
        if (ns_model_joint_q(model, *number) == NSI_NONE) continue;
        return ns_model_link(model, (*number)++);
    }
    return NULL;
}

static bool same_joints(const ns_model* a, const ns_model* b, char* out, size_t size) {
    uint32_t i = 0, k = 0;
    for (;;) {
        const ns_link_def *one = moving_link(a, &i), *other = moving_link(b, &k);
        if (!one && !other) return true;
        const char *x = one ? one->joint : "none", *y = other ? other->joint : "none";
        if (one && other && strcmp(x, y) == 0 && one->joint_type == other->joint_type) continue;
        snprintf(out, size, "joints %.80s and %.80s", x, y);
        return false;
    }
}

// What networks keep of the step before is called after quantities, and those may be called after geometries
// of one robot alone: only its place counts.
static const char* state_name(const ns_system* system, uint32_t k) {
    ns_system_sizes z = ns_system_get_sizes(system);
    return k >= z.nx - z.nmemory ? "memory" : ns_system_state_name(system, k);
}

// What a system has that differs from another's, into `what`.
static void compare_systems(const ns_system* one, const ns_system* other, char* what, size_t size) {
    ns_system_sizes a = ns_system_get_sizes(one), b = ns_system_get_sizes(other);
    if (a.nx != b.nx) {
        snprintf(what, size, "%u and %u numbers of state", a.nx, b.nx);
    } else if (a.nc != b.nc) {
        snprintf(what, size, "%u and %u controls", a.nc, b.nc);
    } else if (a.nw != b.nw) {
        snprintf(what, size, "%u and %u weights", a.nw, b.nw);
    } else if (!same_weights(one, other)) {
        snprintf(what, size, "weights of other names or shapes");
    } else if (a.integrator != b.integrator) {
        snprintf(what, size, "other integrators; give `integrator`");
    } else if (!differ(one, other, a.nx, state_name, what, size)) {
        differ(one, other, a.nc, ns_system_control_name, what, size);
    }
}

ns_status nsi_variants_check(const nsi_variant* variants, uint32_t nvariant, ns_error* error) {
    for (uint32_t k = 1; k < nvariant; k++) {
        const nsi_variant *first = &variants[0], *v = &variants[k];
        char what[300] = "";
        bool same = same_joints(first->model, v->model, what, sizeof what);
        if (same && v->system) compare_systems(first->system, v->system, what, sizeof what);
        if (!*what) continue;
        return nsi_fail(error, NS_ERR_PARSE,
                        "variants must have the same joints, controls, networks and integrator, but"
                        " %.60s and %.60s have %s",
                        first->name, v->name, what);
    }
    return NS_OK;
}

static ns_status take_variants(nsi_problem* p, const nsi_variant* variants, uint32_t nvariant,
                               ns_error* error) {
    p->variants = nsi_alloc(&p->allocator, nvariant * sizeof *p->variants);
    p->param_at = nsi_alloc_zeroed(&p->allocator, ((size_t)nvariant + 1) * sizeof *p->param_at);
    if (!p->variants || !p->param_at) return nsi_fail_nomem(error);
    p->nvariant = nvariant;
    for (uint32_t k = 0; k < nvariant; k++) {
        p->variants[k] = variants[k];
        p->param_at[k + 1] = p->param_at[k] + ns_system_get_sizes(variants[k].system).np;
    }
    return NS_OK;
}

ns_status nsi_problem_create_shared(const nsi_variant* variants, uint32_t nvariant,
                                    const ns_parameters* parameters, const ns_dataset* scaling,
                                    const ns_allocator* allocator, nsi_problem** out,
                                    ns_error* error) {
    *out = NULL;
    const ns_model* model = variants[0].model;
    ns_allocator memory = allocator ? *allocator : ns_default_allocator();
    nsi_problem* p = nsi_alloc_zeroed(&memory, sizeof *p);
    if (!p) return nsi_fail_nomem(error);
    p->allocator = memory;
    p->model = model;
    p->system = variants[0].system;
    p->parameters = parameters;
    p->sizes = ns_system_get_sizes(p->system);
    p->nq = model ? ns_model_get_sizes(model).nq : p->sizes.nx;
    p->nv = model ? ns_model_get_sizes(model).nv : 0;
    ns_status status = take_variants(p, variants, nvariant, error);
    if (status == NS_OK) status = connect(p, scaling, error);
    if (status != NS_OK) {
        nsi_problem_free(p);
        return status;
    }
    *out = p;
    return NS_OK;
}

ns_status nsi_problem_create(const ns_model* model, const ns_system* system,
                             const ns_parameters* parameters, const ns_dataset* scaling,
                             const ns_allocator* allocator, nsi_problem** out, ns_error* error) {
    nsi_variant one = {.model = model, .system = system};
    return nsi_problem_create_shared(&one, 1, parameters, scaling, allocator, out, error);
}

void nsi_problem_free(nsi_problem* p) {
    if (!p) return;
    ns_allocator memory = p->allocator;
    nsi_free(&memory, p->variants);
    nsi_free(&memory, p->param_at);
    nsi_free(&memory, p->sources);
    nsi_free(&memory, p->channel_of_state);
    nsi_free(&memory, p->controls);
    nsi_free(&memory, p->coordinates);
    nsi_free(&memory, p);
}

const char* nsi_problem_unit(const nsi_problem* p, uint32_t channel) {
    const nsi_source* s = &p->sources[channel];
    if (!s->state) return ns_system_observation_unit(p->system, s->number);
    return p->model ? nsi_state_unit(p->model, s->number) : "";
}

uint32_t nsi_problem_steps(const nsi_problem* p, uint32_t length) {
    return length * p->substeps + (p->observes ? 1 : 0);
}

ns_status nsi_problem_check_length(const nsi_problem* p, uint32_t length, ns_error* error) {
    if ((uint64_t)length * p->substeps < INT32_MAX) return NS_OK;
    return nsi_fail(error, NS_ERR_LIMIT,
                    "%u samples, each %u steps after the one before, are too many for one"
                    " simulation; take shorter ones or a longer time step",
                    length, p->substeps);
}

void nsi_problem_controls(const nsi_problem* p, const ns_recording* recording,
                          const nsi_window* window, double* out) {
    uint32_t steps = nsi_problem_steps(p, window->length), nc = p->sizes.nc;
    memset(out, 0, (size_t)steps * nc * sizeof(double));
    for (uint32_t step = 0; step < steps; step++) {
        size_t sample = (size_t)window->start + step / p->substeps;
        for (uint32_t k = 0; k < p->ncontrol; k++) {
            out[(size_t)step * nc + p->controls[k]] = recording->controls[sample * p->ncontrol + k];
        }
    }
}

void nsi_problem_teach(const nsi_problem* p, const ns_recording* recording,
                       const nsi_window* window, uint32_t reach, double* x, double* controls) {
    for (uint32_t step = 0; step < nsi_problem_steps(p, window->length); step++) {
        double* out = controls + (size_t)step * p->sizes.nc;
        nsi_problem_guess(p, recording, window->start + step / p->substeps, reach, x);
        for (uint32_t k = 0; k < p->nq + p->nv; k++) {
            switch (p->taught[k]) {
            case NS_LEARNED_RAW: *out++ = x[k]; break;
            case NS_LEARNED_ANGLE:
                *out++ = sin(x[k]);
                *out++ = cos(x[k]);
                break;
            case NS_LEARNED_HIDE:
            case NS_LEARNED_ROTATION: break; // models with rotations have no teacher
            }
        }
    }
}
