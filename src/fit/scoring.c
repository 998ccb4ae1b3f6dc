// Scoring: loads a model and recordings, predicts them open loop, and computes errors.

#include "fit/scoring_state.h"

#include "data/map.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { DEFAULT_HORIZONS = 4, MAX_STATE_NAMES = 8 };

ns_scoring_options ns_default_scoring_options(void) {
    return (ns_scoring_options){
        .smoothing = 5, .integrator = -1, .contact = -1, .load = ns_default_load_options()};
}

// Put the place in front of a message; returns the status.
static ns_status scoring_fail_at(const char* place, ns_status status, const ns_error* inner,
                                 ns_error* error) {
    return nsi_fail(error, status, "%.200s: %s", place, inner->message);
}

// Where names of channels and controls stand: in the map, if there is one.
static const char* scoring_data_place(const ns_scoring* s) {
    return s->options.map ? s->options.map : s->options.files[0];
}

static ns_status scoring_add_note(ns_scoring* s, ns_error* error, const char* format, ...)
    NSI_PRINTF(3, 4);
static ns_status scoring_add_note(ns_scoring* s, ns_error* error, const char* format, ...) {
    char text[600];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const char* kept = nsi_arena_string(&s->arena, text, strlen(text));
    bool done = kept && nsi_array_push(&s->allocator, &s->notes, kept);
    return done ? NS_OK : nsi_fail_nomem(error);
}

// ---- robots ------------------------------------------------------------------------------------

// Variants to which recordings belong, in the order of the file: the first that fits counts.
static ns_status scoring_choose_robots(ns_scoring* s, ns_error* error) {
    ns_status status = NS_OK;

    // A model file may define variants; the option selects one of them.
    if (ns_hybrid_is_path(s->model) && !s->options.load.variant) {
        status = nsi_hybrid_read(s->model, &s->allocator, &s->file, error);
        if (status != NS_OK) return status;
    }

    // Without variants there is room for the one robot.
    uint32_t count = s->file.variants.count;
    s->robots = nsi_alloc_zeroed(&s->allocator, ((size_t)count + 1) * sizeof *s->robots);
    bool* needed = nsi_alloc_zeroed(&s->allocator, ((size_t)count + 1) * sizeof *needed);
    if (!s->robots || !needed) status = nsi_fail_nomem(error);

    // The files to score determine which variants are needed.
    for (uint32_t k = 0; k < s->options.nfile && status == NS_OK && count > 0; k++) {
        const nsi_hybrid_variant* v = nsi_hybrid_variant_of(&s->file, s->options.files[k]);

        // The first variant whose glob fits, as in a fit.
        if (v) {
            needed[v - s->file.variants.data] = true;
        } else {
            status =
                nsi_fail(error, NS_ERR_PARSE,
                         "%.200s belongs to no variant of %.200s: none of their `files` matches "
                         "its name; choose one with the option variant",
                         s->options.files[k], s->model);
        }
    }

    // Robots in the order of the file; a model without variants is one robot.
    for (uint32_t k = 0; k < count && status == NS_OK; k++) {
        const nsi_hybrid_variant* v = &s->file.variants.data[k];
        nsi_scored_robot one = {.name = v->name, .files = v->files};
        if (needed[k]) s->robots[s->nrobot++] = one;
    }
    if (count == 0 && status == NS_OK) s->nrobot = 1;
    nsi_free(&s->allocator, needed);
    return status;
}

static ns_blueprint* robot_blueprint(const nsi_scored_robot* one) {
    return one->given ? one->given : ns_hybrid_blueprint(one->hybrid);
}

static ns_status scoring_load_robot(ns_scoring* s, nsi_scored_robot* one, ns_error* error) {
    const ns_scoring_options* o = &s->options;
    ns_load_options load = o->load;
    if (one->name) load.variant = one->name;
    ns_status status = ns_hybrid_load(s->model, &load, &one->hybrid, error);
    if (status == NS_ERR_ARGUMENT) status = NS_ERR_UNSUPPORTED; // the file has no such variant
    if (status == NS_OK && o->blueprint) {
        status = ns_blueprint_load(o->blueprint, &s->allocator, &one->given, error);
    }
    if (status == NS_OK && o->weights) {
        if (!robot_blueprint(one)) {
            return nsi_fail(error, NS_ERR_UNSUPPORTED,
                            "weights %.200s: there are no networks; name them by a blueprint",
                            o->weights);
        }
        status = ns_blueprint_load_weights(robot_blueprint(one), o->weights, error);
    }
    return status;
}

static ns_status scoring_load_robots(ns_scoring* s, ns_error* error) {
    const ns_scoring_options* o = &s->options;
    ns_status status = scoring_choose_robots(s, error);
    for (uint32_t k = 0; k < s->nrobot && status == NS_OK; k++) {
        status = scoring_load_robot(s, &s->robots[k], error);
    }
    if (status != NS_OK) return status;
    s->learned = ns_hybrid_is_learned(s->robots[0].hybrid);
    bool physics =
        o->timestep > 0.0 || o->integrator >= 0 || o->contact >= 0 || o->blueprint || o->weights;
    if (!s->learned || !physics) return NS_OK;
    return nsi_fail(error, NS_ERR_ARGUMENT,
                    "%.200s is a learned system: a time step (--dt), --integrator, --contact, "
                    "--blueprint and --weights do not apply",
                    s->model);
}

// ---- data --------------------------------------------------------------------------------------

static ns_status scoring_load_data(ns_scoring* s, ns_error* error) {
    const ns_scoring_options* o = &s->options;
    const ns_model* model = ns_hybrid_model(s->robots[0].hybrid);
    ns_status status = o->map
                           ? ns_data_map_load(o->map, &s->allocator, &s->map, error)
                           : ns_data_map_infer(o->files[0], model, &s->allocator, &s->map, error);
    if (status == NS_OK) {
        status = ns_dataset_create(s->map, o->period, &s->allocator, &s->data, error);
    }
    if (status == NS_OK) nsi_dataset_keep_rows(s->data);
    for (uint32_t k = 0; status == NS_OK && k < o->nfile; k++) {
        status = ns_dataset_add(s->data, o->files[k], NULL, error);
    }
    if (status == NS_OK) {
        ns_dataset* sets[] = {s->data};
        const char* names[] = {""};
        status = nsi_data_warnings_check(&s->data_warnings, sets, names, 1, model, error);
    }
    if (status != NS_OK || ns_dataset_channel_count(s->data) > 0) return status;
    return nsi_fail(
        error, NS_ERR_PARSE,
        "%.200s: there is nothing to compare with: no column is a coordinate or another "
        "quantity of the model",
        o->files[0]);
}

// ---- systems -----------------------------------------------------------------------------------

// Of a learned system: its channels are coordinates and velocities.
static ns_status scoring_create_learned(ns_scoring* s, ns_error* error) {
    nsi_scored_robot* one = &s->robots[0];
    ns_error inner;
    ns_status status = ns_hybrid_create_learned(one->hybrid, &one->system, &inner);
    if (status != NS_OK) return scoring_fail_at(s->model, status, &inner, error);
    status = nsi_problem_create(ns_hybrid_model(one->hybrid), one->system, NULL, s->data,
                                &s->allocator, &s->problem, &inner);
    if (status != NS_OK) return scoring_fail_at(scoring_data_place(s), status, &inner, error);
    return NS_OK;
}

// How a robot is simulated, but for the time step.
static ns_system_options robot_options(const ns_scoring* s, const nsi_scored_robot* one) {
    ns_system_options options = ns_default_system_options();
    ns_hybrid_apply(one->hybrid, &options);
    options.blueprint = robot_blueprint(one);
    if (s->options.contact >= 0) options.contact = s->options.contact;
    options.friction = s->options.friction;
    options.contact_sweeps = s->options.contact_sweeps;
    if (s->options.integrator >= 0) options.integrator = s->options.integrator;
    return options;
}

static ns_status scoring_create_system(ns_scoring* s, nsi_scored_robot* one, double timestep,
                                       ns_error* error) {
    ns_system_options options = robot_options(s, one);
    one->integrator = options.integrator;
    const ns_model* model = ns_hybrid_model(one->hybrid);
    uint32_t count = 0;
    size_t channels = ns_dataset_channel_count(s->data);
    const char** observe = nsi_alloc_zeroed(&s->allocator, (channels + 1) * sizeof *observe);
    if (!observe) return nsi_fail_nomem(error);
    ns_error inner;
    ns_status status = nsi_problem_observations(model, s->data, observe, &count, &inner);
    if (status != NS_OK) {
        status = scoring_fail_at(scoring_data_place(s), status, &inner, error);
    } else {
        options.observe = observe;
        options.nobserve = count;
        options.timestep = timestep;
        status = ns_system_create(model, &options, &one->system, error);
    }
    nsi_free(&s->allocator, observe);
    return status;
}

// One problem of all robots, which make the same steps.
static ns_status scoring_create_physics(ns_scoring* s, ns_error* error) {
    // All variants use the smallest of their time steps.
    double period = ns_dataset_period(s->data), step = INFINITY;
    for (uint32_t k = 0; k < s->nrobot; k++) {
        ns_system_options options = robot_options(s, &s->robots[k]);
        const ns_model* model = ns_hybrid_model(s->robots[k].hybrid);
        step = fmin(step, nsi_problem_timestep(model, &options, s->options.timestep, period));
    }

    // A system for each variant.
    nsi_variant* variants = nsi_alloc_zeroed(&s->allocator, s->nrobot * sizeof *variants);
    if (!variants) return nsi_fail_nomem(error);
    ns_status status = NS_OK;
    for (uint32_t k = 0; k < s->nrobot && status == NS_OK; k++) {
        nsi_scored_robot* one = &s->robots[k];
        status = scoring_create_system(s, one, step, error);
        variants[k] =
            (nsi_variant){one->name, one->files, ns_hybrid_model(one->hybrid), one->system};
    }

    // Check the options against each other and against the data. Messages name the file to change.
    ns_error inner;
    if (status == NS_OK) {
        status = nsi_variants_check(variants, s->nrobot, &inner);
        if (status != NS_OK) scoring_fail_at(s->model, status, &inner, error);
    }
    if (status == NS_OK) {
        status = nsi_problem_create_shared(variants, s->nrobot, NULL, s->data, &s->allocator,
                                           &s->problem, &inner);
        if (status != NS_OK) scoring_fail_at(scoring_data_place(s), status, &inner, error);
    }

    // The problem has copies.
    nsi_free(&s->allocator, variants);
    return status;
}

// ---- names -------------------------------------------------------------------------------------

// Channels as a person knows them: by the column they are, or as the map names them.
static ns_status scoring_name_channels(ns_scoring* s, ns_error* error) {
    uint32_t count = s->problem->nchannel;
    s->names = nsi_arena_alloc(&s->arena, ((size_t)count + 1) * sizeof *s->names);
    s->units = nsi_arena_alloc(&s->arena, ((size_t)count + 1) * sizeof *s->units);
    if (!s->names || !s->units) return nsi_fail_nomem(error);
    for (uint32_t k = 0; k < count; k++) {
        const ns_channel* channel = ns_dataset_channel(s->data, k);
        const char* name = s->options.map ? channel->name : channel->value;
        size_t size = strlen(name);
        bool quoted = !s->options.map && size > 1 && name[0] == '"';
        s->names[k] = nsi_arena_string(&s->arena, name + quoted, size - 2 * quoted);
        s->units[k] = nsi_problem_unit(s->problem, k);
        if (!s->names[k]) return nsi_fail_nomem(error);
    }
    return NS_OK;
}

// Is a coordinate, or the position of which it is the velocity, recorded?
static bool coordinate_is_known(const nsi_problem* p, const nsi_coordinate* c) {
    bool known = p->channel_of_state[c->at] != NSI_NONE;
    for (uint32_t i = 0; i < p->ncoordinate && c->at >= p->nq; i++) {
        const nsi_coordinate* position = &p->coordinates[i];
        uint32_t first = p->nq + position->tangent, size = position->quaternion ? 3 : 1;
        if (position->at >= p->nq || c->at < first || c->at >= first + size) continue;
        known |= p->channel_of_state[position->at] != NSI_NONE;
    }
    return known;
}

// Say of which coordinates the data tells nothing.
static ns_status scoring_note_unknown_states(ns_scoring* s, ns_error* error) {
    const nsi_problem* p = s->problem;
    char list[200] = "";
    uint32_t count = 0;
    for (uint32_t k = 0; k < p->ncoordinate && s->options.history < 2; k++) {
        if (coordinate_is_known(p, &p->coordinates[k])) continue;
        size_t used = strlen(list);
        if (count <= MAX_STATE_NAMES) {
            const char* name = ns_system_state_name(p->system, p->coordinates[k].at);
            snprintf(list + used, sizeof list - used, "%s%s", count > 0 ? ", " : "",
                     count < MAX_STATE_NAMES ? name : "...");
        }
        count++;
    }
    if (count == 0) return NS_OK;
    return scoring_add_note(s, error,
                            "the data has no %s: predictions start from the pose of the model, at "
                            "rest; a history fits the state to other measurements",
                            list);
}

// ---- horizons ----------------------------------------------------------------------------------

// Samples that the longest prediction has.
static uint32_t scoring_longest(const ns_scoring* s) {
    uint32_t longest = 0, before = s->options.history > 1 ? s->options.history - 1 : 0;
    for (uint32_t k = 0; k < ns_dataset_recording_count(s->data); k++) {
        uint32_t samples = ns_dataset_recording(s->data, k)->nsample;
        if (samples < (uint64_t)before + 2) continue;
        uint32_t room = samples - 1 - before;
        if (room > longest) longest = room;
    }
    return s->predict.ahead > 0 && s->predict.ahead < longest ? s->predict.ahead : longest;
}

static ns_status scoring_check_horizons(const ns_scoring* s, double ahead, ns_error* error) {
    const ns_scoring_options* o = &s->options;
    double period = ns_dataset_period(s->data);
    for (uint32_t k = 0; k < o->nhorizon; k++) {
        double samples = floor(o->horizons[k] / period + 1e-6);
        if (samples < 1.0) {
            return nsi_fail(error, NS_ERR_ARGUMENT,
                            "horizons: %g s is less than the %g s between samples", o->horizons[k],
                            period);
        }
        if (samples > ahead) {
            return nsi_fail(error, NS_ERR_ARGUMENT,
                            "horizons: %g s is beyond the horizon of %.0f samples", o->horizons[k],
                            ahead);
        }
    }
    return NS_OK;
}

static ns_status scoring_choose_horizons(ns_scoring* s, ns_error* error) {
    const ns_scoring_options* o = &s->options;

    // The options that need no choice.
    double period = ns_dataset_period(s->data);
    s->predict = (nsi_predict_options){.history = o->history,
                                       .origins = o->origins,
                                       .smoothing = o->smoothing,
                                       .threads = o->threads};

    // How far predictions go.
    double ahead = o->horizon > 0 ? o->horizon : floor(o->horizon_seconds / period + 1e-6);
    bool limited = o->horizon > 0 || o->horizon_seconds > 0.0;
    if (limited && ahead < 1.0) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "a horizon of %g s is less than the %g s between samples",
                        o->horizon_seconds, period);
    }

    // Without a limit, a single prediction goes to the end of its recording.
    if (limited) {
        s->predict.ahead = ahead < UINT32_MAX ? (uint32_t)ahead : UINT32_MAX;
    } else if (o->origins == 0) {
        s->predict.ahead = UINT32_MAX;
    }
    ns_status status = scoring_check_horizons(s, limited ? ahead : INFINITY, error);
    if (status != NS_OK) return status;

    // Errors up to the times asked for, or up to four.
    uint32_t room = o->nhorizon > 0 ? o->nhorizon : DEFAULT_HORIZONS;
    double* horizons = nsi_arena_alloc(&s->arena, room * sizeof *horizons);
    if (!horizons) return nsi_fail_nomem(error);
    s->predict.horizons = horizons;
    for (uint32_t k = 0; k < o->nhorizon; k++) horizons[s->predict.nhorizon++] = o->horizons[k];

    // Default horizons divide the longest prediction evenly.
    uint64_t longest = scoring_longest(s), before = 0;
    for (uint64_t k = 1; k <= DEFAULT_HORIZONS && o->nhorizon == 0; k++) {
        uint64_t samples = longest * k / DEFAULT_HORIZONS;
        if (samples > before) horizons[s->predict.nhorizon++] = (double)samples * period;
        before = samples;
    }
    return NS_OK;
}

// ---- running -----------------------------------------------------------------------------------

static ns_status scoring_predict(ns_scoring* s, ns_error* error) {
    ns_error inner;
    const char* file = s->options.files[0];
    ns_status status =
        nsi_predict(s->problem, s->data, NULL, NULL, &s->predict, &s->result, &inner);
    if (status != NS_OK) return scoring_fail_at(file, status, &inner, error);
    bool any = false;
    for (uint32_t k = 0; k < s->result.nchannel; k++) any |= !isnan(s->result.channels[k]);
    if (!any) {
        return nsi_fail(
            error, NS_ERR_PARSE,
            "%.200s: there is nothing to compare with: all values that are predicted are "
            "missing",
            file);
    }
    if (s->result.blind == 0) return NS_OK;
    return scoring_add_note(s, error,
                            "%u of %u predictions start where a part of the state is missing, from "
                            "the pose of the model; a longer reach looks further, a history fits "
                            "the state",
                            s->result.blind, s->result.score.windows);
}

static ns_status scoring_check_options(const ns_scoring_options* o, ns_error* error) {
    if (o->nfile == 0 || !o->files) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "there are no recordings to score");
    }
    if (o->nhorizon > 0 && !o->horizons) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "horizons is NULL, but nhorizon is %u",
                        o->nhorizon);
    }
    if (o->origins > 0 && o->horizon == 0 && !(o->horizon_seconds > 0.0) && o->nhorizon == 0) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "origins need a horizon: how far to predict");
    }
    for (uint32_t k = 0; k < o->nhorizon; k++) {
        if (o->horizons[k] > (k > 0 ? o->horizons[k - 1] : 0.0)) continue;
        return nsi_fail(error, NS_ERR_ARGUMENT, "horizons must be positive and ascending");
    }
    return NS_OK;
}

ns_status ns_scoring_run(const char* model, const ns_scoring_options* options, ns_scoring** out,
                         ns_error* error) {
    const ns_scoring_options defaults = ns_default_scoring_options();
    if (!options) options = &defaults;
    *out = NULL;

    // Validate the options before any file is read.
    ns_status status = scoring_check_options(options, error);
    if (status != NS_OK) return status;
    ns_allocator memory = ns_default_allocator();
    ns_scoring* s = nsi_alloc_zeroed(&memory, sizeof *s);
    if (!s) return nsi_fail_nomem(error);
    *s = (ns_scoring){.allocator = memory,
                      .arena = {.allocator = memory},
                      .data_warnings = {.arena = {.allocator = memory}},
                      .model = model,
                      .options = *options};

    // Load the robots and the data, simulate them together, and predict.
    status = scoring_load_robots(s, error);
    if (status == NS_OK) status = scoring_load_data(s, error);

    // A learned system steps by samples; physics needs a time step.
    if (status == NS_OK) {
        status = s->learned ? scoring_create_learned(s, error) : scoring_create_physics(s, error);
    }

    // Channels and states that are not recorded, then the predictions.
    if (status == NS_OK) status = scoring_name_channels(s, error);
    if (status == NS_OK) status = scoring_note_unknown_states(s, error);
    if (status == NS_OK) status = scoring_choose_horizons(s, error);
    if (status == NS_OK) status = scoring_predict(s, error);

    // A run that fails leaves nothing.
    if (status == NS_OK) {
        *out = s;
    } else {
        ns_scoring_free(s);
    }
    return status;
}

void ns_scoring_free(ns_scoring* s) {
    if (!s) return;
    ns_allocator memory = s->allocator;
    nsi_prediction_free(&s->result);
    nsi_problem_free(s->problem);
    for (uint32_t k = 0; k < s->nrobot; k++) ns_system_free(s->robots[k].system);
    ns_dataset_free(s->data);
    ns_data_map_free(s->map);
    for (uint32_t k = 0; k < s->nrobot; k++) {
        ns_blueprint_free(s->robots[k].given);
        ns_hybrid_free(s->robots[k].hybrid);
    }
    nsi_free(&memory, s->robots);
    nsi_hybrid_free(&s->file);
    nsi_data_warnings_free(&s->data_warnings);
    nsi_array_free(&memory, &s->notes);
    nsi_arena_free(&s->arena);
    nsi_free(&memory, s);
}

// ---- reading -----------------------------------------------------------------------------------

ns_scoring_total ns_scoring_get(const ns_scoring* s) {
    const ns_score* score = &s->result.score;
    ns_scoring_total out = {.rmse_q = score->rmse_q,
                            .rmse_qd = score->rmse_qd,
                            .predictions = score->windows,
                            .lost = score->lost};
    for (uint32_t k = 0; k < s->result.nrecording; k++) {
        out.samples += s->result.recordings[k].samples;
    }
    return out;
}
uint32_t ns_scoring_horizon_count(const ns_scoring* s) {
    return s->result.score.nhorizon;
}
ns_scoring_horizon ns_scoring_get_horizon(const ns_scoring* s, uint32_t number) {
    const ns_horizon_error* h = &s->result.score.horizons[number];
    return (ns_scoring_horizon){h->seconds, h->pooled, h->median, h->windows, h->samples};
}
uint32_t ns_scoring_channel_count(const ns_scoring* s) {
    return s->result.nchannel;
}
ns_scoring_channel ns_scoring_get_channel(const ns_scoring* s, uint32_t number) {
    return (ns_scoring_channel){s->names[number], s->units[number], s->result.channels[number]};
}
uint32_t ns_scoring_recording_count(const ns_scoring* s) {
    return s->result.nrecording;
}
ns_scoring_recording ns_scoring_get_recording(const ns_scoring* s, uint32_t number) {
    const nsi_recording_error* e = &s->result.recordings[number];
    const char* name = ns_dataset_recording(s->data, number)->name;
    return (ns_scoring_recording){name, e->rmse_q, e->rmse_qd, e->samples};
}
uint32_t ns_scoring_data_warning_count(const ns_scoring* s) {
    return s->data_warnings.texts.count;
}
const char* ns_scoring_data_warning(const ns_scoring* s, uint32_t number) {
    return number < s->data_warnings.texts.count ? s->data_warnings.texts.data[number] : NULL;
}
uint32_t ns_scoring_note_count(const ns_scoring* s) {
    return s->notes.count;
}
const char* ns_scoring_note(const ns_scoring* s, uint32_t number) {
    return s->notes.data[number];
}
uint32_t ns_scoring_robot_count(const ns_scoring* s) {
    return s->nrobot;
}
const ns_model* ns_scoring_model(const ns_scoring* s, uint32_t number) {
    return ns_hybrid_model(s->robots[number].hybrid);
}
const ns_system* ns_scoring_system(const ns_scoring* s, uint32_t number) {
    return s->robots[number].system;
}

int ns_scoring_integrator(const ns_scoring* s, uint32_t number) {
    return s->robots[number].integrator;
}
bool ns_scoring_is_learned(const ns_scoring* s) {
    return s->learned;
}

// ---- predictions -------------------------------------------------------------------------------

typedef struct kept_path {
    uint32_t recording, origin, length;
    double* values; // (length + 1 x nchannel)
} kept_path;

typedef struct kept_paths {
    const ns_scoring* scoring;
    NSI_ARRAY(kept_path) list;
    bool failed;
} kept_paths;

static void keep_prediction(void* context, const nsi_path* from) {
    kept_paths* all = context;
    const ns_allocator* memory = &all->scoring->allocator;
    size_t count = ((size_t)from->length + 1) * all->scoring->problem->nchannel;
    kept_path p = {from->recording, from->origin, from->length,
                   nsi_alloc(memory, (count + 1) * sizeof(double))};
    if (!p.values || !nsi_array_push(memory, &all->list, p)) {
        nsi_free(memory, p.values);
        all->failed = true;
        return;
    }
    memcpy(p.values, from->values, count * sizeof(double));
}

// They come in any order.
static int compare_kept_paths(const void* a, const void* b) {
    const kept_path *x = a, *y = b;
    if (x->recording != y->recording) return x->recording < y->recording ? -1 : 1;
    return (x->origin > y->origin) - (x->origin < y->origin);
}

static ns_status put_names(const ns_scoring* s, ns_table_writer* writer, nsi_arena* arena,
                           ns_error* error) {
    uint32_t nc = s->problem->nchannel, ncol = 2 + 2 * nc;
    const char** names = nsi_arena_alloc(arena, ncol * sizeof *names);
    if (!names) return nsi_fail_nomem(error);
    names[0] = "traj";
    names[1] = "t";
    for (uint32_t c = 0; c < nc; c++) {
        size_t size = strlen(s->names[c]) + sizeof "_recorded";
        char* recorded = nsi_arena_alloc(arena, size);
        if (!recorded) return nsi_fail_nomem(error);
        snprintf(recorded, size, "%s_recorded", s->names[c]);
        names[2 + 2 * c] = s->names[c];
        names[3 + 2 * c] = recorded;
    }
    ns_table_writer_put_names(writer, names, ncol);
    return NS_OK;
}

static void put_path(const ns_scoring* s, const kept_path* p, uint32_t number, double* line,
                     ns_table_writer* writer) {
    uint32_t nc = s->problem->nchannel;
    const ns_recording* recording = ns_dataset_recording(s->data, p->recording);
    for (size_t k = 0; k <= p->length; k++) {
        line[0] = number;
        line[1] = recording->start + (double)(p->origin + k) * ns_dataset_period(s->data);
        for (uint32_t c = 0; c < nc; c++) {
            line[2 + 2 * c] = p->values[k * nc + c];
            line[3 + 2 * c] = recording->values[(p->origin + k) * nc + c];
        }
        ns_table_writer_put_row(writer, line, 2 + 2 * nc);
    }
}

ns_status ns_scoring_write_predictions(const ns_scoring* s, ns_table_writer* writer,
                                       ns_error* error) {
    kept_paths all = {.scoring = s};
    nsi_arena arena = {.allocator = s->allocator};
    ns_status status = nsi_predict_visit(s->problem, s->data, NULL, NULL, &s->predict,
                                         keep_prediction, &all, error);
    if (status == NS_OK && all.failed) status = nsi_fail_nomem(error);
    if (status == NS_OK) status = put_names(s, writer, &arena, error);
    double* line = nsi_arena_alloc(&arena, (2 + 2 * (size_t)s->problem->nchannel) * sizeof *line);
    if (status == NS_OK && !line) status = nsi_fail_nomem(error);
    if (status == NS_OK && all.list.count > 0) {
        qsort(all.list.data, all.list.count, sizeof *all.list.data, compare_kept_paths);
    }
    for (uint32_t n = 0; n < all.list.count && status == NS_OK; n++) {
        put_path(s, &all.list.data[n], n, line, writer);
    }
    for (uint32_t k = 0; k < all.list.count; k++) nsi_free(&s->allocator, all.list.data[k].values);
    nsi_array_free(&s->allocator, &all.list);
    nsi_arena_free(&arena);
    return status;
}
