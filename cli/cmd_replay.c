// neuralsim replay: how far a model is from recordings when it predicts them open loop.
//
// From a state of the recording on, the simulation sees nothing of it but the controls.

#include "cli.h"

#include "fit/result_words.h"
#include "io/hybrid_file.h"
#include "sysid/prediction.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char help[] =
    "usage: neuralsim replay MODEL --data FILE.. [OPTIONS]\n"
    "\n"
    "Predict recordings from their first row with their controls, and tell the error.\n"
    "\n"
    "  --data FILE..         tables of recordings; columns q0, q_<joint>, qd_<joint>, u_<joint>,\n"
    "                        tau0, names of quantities, t, traj, or as a map says\n"
    "  --map FILE.yaml       what the columns mean, for all files\n"
    "  --period S            s between samples; default: of the first file\n"
    "  --horizon N           predict N samples, or seconds: 0.5s; default: to the end\n"
    "  --horizons S..        errors up to these times, s; default: four, spread evenly\n"
    "  --origins K           K predictions from evenly spread samples instead of one from the "
    "first\n"
    "                        of each recording\n"
    "  --history H           fit the state at each origin to the H samples up to it, by the "
    "model;\n"
    "                        default 0: as recorded, or as a cubic through samples around it "
    "tells\n"
    "  --reach R             samples of the cubic to either side; default 5\n"
    "  --dt H                time step, s; default: the longest that divides the period and is "
    "not\n"
    "                        above the model's\n"
    "  --integrator I        {integrator}; default: the model's\n"
    "  --contact C, --friction F, --sweeps N   as for simulate\n"
    "  --blueprint FILE, --weights FILE        networks, and their weights\n"
    "  -o FILE.csv           write predicted values beside recorded ones\n"
    "  --json                print one object instead of tables\n"
    "  --threads N           default: one for each core; the result is the same\n"
    "  --variant NAME        of a model with variants, for all files; default: as each name tells\n"
    "  --ground, --self-collision, --repair-inertia   as for simulate\n"
    "\n"
    "example: what a model without friction makes of a pendulum that has some\n"
    "  neuralsim replay models/double_pendulum.urdf --data examples/rusty_pendulum_run.csv\n";

enum { MOST_LINES = 20, MOST_NAMES = 8, DEFAULT_HORIZONS = 4, NAME_WIDTH = 40 };

// The robot, or a variant of it to which recordings belong.
typedef struct robot {
    const char *name, *files; // NULL: it is the only one
    cli_model source;
    ns_system* system;
} robot;

typedef struct replay {
    // options
    const char *model_path, *map_path, *horizon, *output;
    cli_list files, horizon_texts;
    double period, dt; // NAN: not given
    uint32_t origins, history, reach, threads;
    int integrator;
    cli_contact contact;
    cli_networks networks;
    ns_load_options load;
    bool json;

    // what is predicted
    nsi_hybrid file; // of a model with variants
    robot* robots;
    uint32_t nrobot;
    ns_data_map* map;
    ns_dataset* data;
    nsi_problem* problem;
    nsi_arena arena;
    const char **names, **units; // (nchannel)
    double horizons[CLI_MAX_LIST];
    uint32_t nhorizon;
    nsi_predict_options options;
    nsi_prediction result;
} replay;

// ---- setup ---------------------------------------------------------------------------------

// "900", or "0.5s".
static bool read_horizon(const char* text, double* number, bool* seconds) {
    char digits[64];
    size_t size = strlen(text);
    *seconds = size > 1 && text[size - 1] == 's';
    if (*seconds) size--;
    if (size >= sizeof digits) return false;
    memcpy(digits, text, size);
    digits[size] = '\0';
    return cli_read_number(digits, number) && *number > 0.0 &&
           (*seconds || (*number == floor(*number) && *number < UINT32_MAX));
}

static int check_options(replay* r) {
    if (r->files.count == 0) return cli_usage("replay", "no --data given");
    if (r->period <= 0.0)
        return cli_usage("replay", "--period must be positive, not %g", r->period);
    if (r->dt <= 0.0) return cli_usage("replay", "--dt must be positive, not %g", r->dt);
    if (r->reach == 0) return cli_usage("replay", "--reach needs at least 1");
    if (r->json && r->output && strcmp(r->output, "-") == 0) {
        return cli_usage("replay", "--json and -o - both write to standard output");
    }
    double number;
    bool seconds;
    if (r->horizon && !read_horizon(r->horizon, &number, &seconds)) {
        return cli_usage("replay",
                         "--horizon needs a whole number of samples or seconds such as 0.5s, not"
                         " '%.60s'",
                         r->horizon);
    }
    for (uint32_t k = 0; k < r->horizon_texts.count; k++) {
        double* h = &r->horizons[k];
        if (!cli_read_number(r->horizon_texts.items[k], h) || *h <= 0.0) {
            return cli_usage("replay", "--horizons needs positive times in s, not '%.60s'",
                             r->horizon_texts.items[k]);
        }
        if (k > 0 && *h <= h[-1]) return cli_usage("replay", "--horizons must grow");
    }
    r->nhorizon = r->horizon_texts.count;
    if (r->origins > 0 && !r->horizon && r->nhorizon == 0) {
        return cli_usage("replay", "--origins needs --horizon: how far to predict from each");
    }
    return CLI_GO_ON;
}

// Variants to which recordings belong, in the order of the file: the first that fits counts.
static bool choose_robots(replay* r) {
    bool* needed = NULL;
    ns_error error;
    if (ns_hybrid_is_path(r->model_path) && !r->load.variant &&
        nsi_hybrid_read(r->model_path, NULL, &r->file, &error) != NS_OK) {
        return cli_fail("%s", error.message), false;
    }
    uint32_t count = r->file.variants.count;
    r->robots = calloc((size_t)count + 1, sizeof *r->robots);
    needed = calloc((size_t)count + 1, sizeof *needed);
    bool ok = r->robots && needed;
    if (!ok) cli_fail("out of memory");
    for (uint32_t k = 0; k < r->files.count && ok && count > 0; k++) {
        const nsi_hybrid_variant* v = nsi_hybrid_variant_of(&r->file, r->files.items[k]);
        ok = v != NULL;
        if (ok) needed[v - r->file.variants.data] = true;
        if (!ok) {
            cli_fail("%s belongs to no variant of %s: none of their `files` fits its name; name one"
                     " by --variant",
                     r->files.items[k], r->model_path);
        }
    }
    for (uint32_t k = 0; k < count && ok; k++) {
        const nsi_hybrid_variant* v = &r->file.variants.data[k];
        if (needed[k]) r->robots[r->nrobot++] = (robot){.name = v->name, .files = v->files};
    }
    if (count == 0) r->nrobot = 1;
    free(needed);
    return ok;
}

static bool load_robots(replay* r) {
    if (!choose_robots(r)) return false;
    for (uint32_t k = 0; k < r->nrobot; k++) {
        ns_load_options load = r->load;
        if (r->robots[k].name) load.variant = r->robots[k].name;
        if (!cli_model_load_any(r->model_path, &load, &r->networks, &r->robots[k].source)) {
            return false;
        }
    }
    return true;
}

static bool load_data(replay* r) {
    const ns_model* model = r->robots[0].source.model;
    ns_error error;
    ns_status status = r->map_path
                           ? ns_data_map_load(r->map_path, NULL, &r->map, &error)
                           : ns_data_map_infer(r->files.items[0], model, NULL, &r->map, &error);
    if (status == NS_OK) {
        double period = isnan(r->period) ? 0.0 : r->period;
        status = ns_dataset_create(r->map, period, NULL, &r->data, &error);
    }
    for (uint32_t k = 0; status == NS_OK && k < r->files.count; k++) {
        status = ns_dataset_add(r->data, r->files.items[k], NULL, &error);
    }
    if (status != NS_OK) return cli_fail("%s", error.message), false;
    if (ns_dataset_channel_count(r->data) > 0) return true;
    return cli_fail("%s: there is nothing to compare with: no column is a coordinate or another"
                    " quantity of the model",
                    r->files.items[0]),
           false;
}

// Of a learned system: its channels are coordinates and velocities.
static bool create_learned_problem(replay* r) {
    ns_error error;
    robot* one = &r->robots[0];
    const char* place = r->map_path ? r->map_path : r->files.items[0];
    if (ns_hybrid_create_learned(one->source.hybrid, &one->system, &error) != NS_OK ||
        nsi_problem_create(one->source.model, one->system, NULL, r->data, NULL, &r->problem,
                           &error) != NS_OK) {
        return cli_fail("%s: %s", one->system ? place : r->model_path, error.message), false;
    }
    return true;
}

static bool create_system(replay* r, robot* one, ns_system_options* options) {
    uint32_t count = 0;
    ns_error error;
    const char** observe = calloc((size_t)ns_dataset_channel_count(r->data) + 1, sizeof *observe);
    if (!observe) return cli_fail("out of memory"), false;
    // Names of channels and controls stand in the map, if there is one.
    const char* place = r->map_path ? r->map_path : r->files.items[0];
    ns_status status =
        nsi_problem_observations(one->source.model, r->data, observe, &count, &error);
    if (status != NS_OK) {
        cli_fail("%s: %s", place, error.message);
    } else {
        options->observe = observe;
        options->nobserve = count;
        one->system = cli_create_system(one->source.model, options);
    }
    free(observe);
    if (!one->system) return false;
    cli_note_integrator(one->source.model, one->system, options->integrator);
    return true;
}

// How a robot is simulated, but for the time step.
static ns_system_options options_of(const replay* r, const robot* one) {
    ns_system_options options = ns_default_system_options();
    cli_model_apply(&one->source, &options);
    cli_set_contact(&r->contact, &options);
    if (r->integrator >= 0) options.integrator = r->integrator;
    return options;
}

static bool create_problem(replay* r) {
    double given = isnan(r->dt) ? 0.0 : r->dt, period = ns_dataset_period(r->data), step = INFINITY;
    ns_error error;
    for (uint32_t k = 0; k < r->nrobot; k++) {
        ns_system_options options = options_of(r, &r->robots[k]);
        const ns_model* model = r->robots[k].source.model;
        step = fmin(step, nsi_problem_timestep(model, &options, given, period));
    }
    nsi_variant* variants = calloc(r->nrobot, sizeof *variants);
    if (!variants) return cli_fail("out of memory"), false;
    bool ok = true;
    for (uint32_t k = 0; k < r->nrobot && ok; k++) {
        robot* one = &r->robots[k];
        ns_system_options options = options_of(r, one);
        options.timestep = step;
        ok = create_system(r, one, &options);
        variants[k] = (nsi_variant){one->name, one->files, one->source.model, one->system};
    }
    const char* place = r->model_path;
    ns_status status = ok ? nsi_variants_check(variants, r->nrobot, &error) : NS_OK;
    if (ok && status == NS_OK) {
        place = r->map_path ? r->map_path : r->files.items[0];
        status = nsi_problem_create_shared(variants, r->nrobot, NULL, r->data, NULL, &r->problem,
                                           &error);
    }
    if (status != NS_OK) cli_fail("%s: %s", place, error.message);
    free(variants);
    return ok && status == NS_OK;
}

// ---- names and units -----------------------------------------------------------------------

// Channels as a person knows them: by the column they are, or as the map names them.
static bool name_channels(replay* r) {
    uint32_t count = r->problem->nchannel;
    r->names = calloc((size_t)count + 1, sizeof *r->names);
    r->units = calloc((size_t)count + 1, sizeof *r->units);
    bool ok = r->names && r->units;
    for (uint32_t k = 0; k < count && ok; k++) {
        const ns_channel* channel = ns_dataset_channel(r->data, k);
        const char* name = r->map_path ? channel->name : channel->value;
        size_t size = strlen(name);
        bool quoted = !r->map_path && size > 1 && name[0] == '"';
        r->names[k] = nsi_arena_string(&r->arena, name + quoted, size - 2 * quoted);
        ok = r->names[k] != NULL;
    }
    return ok || (cli_fail("out of memory"), false);
}

static void find_units(replay* r) {
    for (uint32_t k = 0; k < r->problem->nchannel; k++) {
        r->units[k] = nsi_problem_unit(r->problem, r->data, k);
    }
}

// Say of which coordinates the data tells nothing.
static void note_unknown_states(const replay* r) {
    const nsi_problem* p = r->problem;
    char list[200] = "";
    uint32_t count = 0;
    for (uint32_t k = 0; k < p->ncoordinate && r->history < 2; k++) {
        const nsi_coordinate* c = &p->coordinates[k];
        bool known = p->channel_of_state[c->at] != NSI_NONE;
        for (uint32_t i = 0; i < p->ncoordinate && c->at >= p->nq; i++) { // or its position is
            const nsi_coordinate* position = &p->coordinates[i];
            uint32_t first = p->nq + position->tangent, size = position->quaternion ? 3 : 1;
            if (position->at >= p->nq || c->at < first || c->at >= first + size) continue;
            known |= p->channel_of_state[position->at] != NSI_NONE;
        }
        if (known) continue;
        size_t used = strlen(list);
        if (count <= MOST_NAMES) {
            const char* name = ns_system_state_name(p->system, c->at);
            snprintf(list + used, sizeof list - used, "%s%s", count > 0 ? ", " : "",
                     count < MOST_NAMES ? name : "...");
        }
        count++;
    }
    if (count == 0) return;
    cli_note("the data has no %s: predictions start from the pose of the model, at rest;"
             " --history fits the state to other measurements",
             list);
}

// ---- predicting ----------------------------------------------------------------------------

static uint32_t history_before(const replay* r) {
    return r->history > 1 ? r->history - 1 : 0;
}

// Samples that the longest prediction has.
static uint32_t longest_prediction(const replay* r) {
    uint32_t longest = 0;
    for (uint32_t k = 0; k < ns_dataset_recording_count(r->data); k++) {
        uint32_t samples = ns_dataset_recording(r->data, k)->nsample;
        if (samples < (uint64_t)history_before(r) + 2) continue;
        uint32_t room = samples - 1 - history_before(r);
        if (room > longest) longest = room;
    }
    return r->options.ahead > 0 && r->options.ahead < longest ? r->options.ahead : longest;
}

static int choose_horizons(replay* r) {
    double period = ns_dataset_period(r->data), number = 0.0;
    bool seconds = false;
    r->options = (nsi_predict_options){.history = r->history,
                                       .origins = r->origins,
                                       .smoothing = r->reach,
                                       .threads = r->threads,
                                       .horizons = r->horizons};
    if (r->horizon) {
        read_horizon(r->horizon, &number, &seconds);
        if (seconds) number = floor(number / period + 1e-6);
        if (number < 1.0) {
            return cli_usage("replay", "--horizon %s is less than the %g s between samples",
                             r->horizon, period);
        }
        r->options.ahead = number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
    } else if (r->origins == 0) {
        r->options.ahead = UINT32_MAX;
    }
    for (uint32_t k = 0; k < r->nhorizon; k++) {
        double samples = floor(r->horizons[k] / period + 1e-6);
        if (samples < 1.0) {
            return cli_usage("replay", "--horizons: %g s is less than the %g s between samples",
                             r->horizons[k], period);
        }
        if (r->horizon && samples > number) {
            return cli_usage("replay", "--horizons: %g s is beyond --horizon %s", r->horizons[k],
                             r->horizon);
        }
    }
    uint64_t longest = longest_prediction(r), before = 0;
    for (uint64_t k = 1; k <= DEFAULT_HORIZONS && r->horizon_texts.count == 0; k++) {
        uint64_t samples = longest * k / DEFAULT_HORIZONS;
        if (samples > before) r->horizons[r->nhorizon++] = (double)samples * period;
        before = samples;
    }
    r->options.nhorizon = r->nhorizon;
    return CLI_GO_ON;
}

static int prepare(replay* r) {
    if (!load_robots(r)) return EXIT_FAILED;
    bool learned = ns_hybrid_is_learned(r->robots[0].source.hybrid);
    if (learned && (!isnan(r->dt) || r->integrator >= 0 || r->contact.model >= 0 ||
                    r->networks.blueprint || r->networks.weights)) {
        return cli_usage("replay",
                         "%s is a learned system: --dt, --integrator, --contact, --blueprint and"
                         " --weights do not go with it",
                         r->model_path);
    }
    for (uint32_t k = 0; k < r->nrobot && !learned; k++) {
        cli_note_ignored(r->robots[k].source.model, r->model_path);
    }
    if (!load_data(r)) return EXIT_FAILED;
    bool ok = learned ? create_learned_problem(r) : create_problem(r);
    if (!ok || !name_channels(r)) return EXIT_FAILED;
    find_units(r);
    note_unknown_states(r);
    return choose_horizons(r);
}

static bool predict(replay* r) {
    ns_error error;
    ns_status status =
        nsi_predict(r->problem, r->data, NULL, NULL, &r->options, &r->result, &error);
    if (status != NS_OK) return cli_fail("%s: %s", r->files.items[0], error.message), false;
    bool any = false;
    for (uint32_t k = 0; k < r->result.nchannel; k++) any |= !isnan(r->result.channels[k]);
    if (!any) {
        return cli_fail("%s: there is nothing to compare with: all values that are predicted are"
                        " missing",
                        r->files.items[0]),
               false;
    }
    if (r->result.blind > 0) {
        cli_note("%u of %u predictions start where a part of the state is missing, from the pose of"
                 " the model; --reach looks further, --history fits the state",
                 r->result.blind, r->result.score.windows);
    }
    return true;
}

static uint64_t predicted_samples(const replay* r) {
    uint64_t count = 0;
    for (uint32_t k = 0; k < r->result.nrecording; k++) count += r->result.recordings[k].samples;
    return count;
}

// ---- table of predictions ------------------------------------------------------------------

typedef struct path {
    uint32_t recording, origin, length;
    double* values; // (length + 1 x nchannel)
} path;

typedef struct paths {
    const replay* r;
    NSI_ARRAY(path) list;
    ns_allocator allocator;
    bool failed;
} paths;

static void keep_path(void* context, const nsi_path* from) {
    paths* all = context;
    size_t count = ((size_t)from->length + 1) * all->r->problem->nchannel;
    path p = {from->recording, from->origin, from->length, malloc((count + 1) * sizeof(double))};
    if (!p.values || !nsi_array_push(&all->allocator, &all->list, p)) {
        free(p.values);
        all->failed = true;
        return;
    }
    memcpy(p.values, from->values, count * sizeof(double));
}

// They come in any order.
static int compare_paths(const void* a, const void* b) {
    const path *x = a, *y = b;
    if (x->recording != y->recording) return x->recording < y->recording ? -1 : 1;
    return (x->origin > y->origin) - (x->origin < y->origin);
}

// traj, t, then each channel and what was recorded of it.
static bool put_paths(const replay* r, const paths* all) {
    uint32_t nc = r->problem->nchannel, ncol = 2 + 2 * nc;
    ns_table_writer* writer = NULL;
    const char** names = calloc(ncol, sizeof *names);
    double* line = cli_zeros(ncol);
    nsi_arena arena = {.allocator = ns_default_allocator()};
    bool ok = names && line;
    for (uint32_t c = 0; c < nc && ok; c++) {
        size_t size = strlen(r->names[c]) + sizeof "_recorded";
        char* recorded = nsi_arena_alloc(&arena, size);
        ok = recorded != NULL;
        if (!ok) break;
        snprintf(recorded, size, "%s_recorded", r->names[c]);
        names[2 + 2 * c] = r->names[c];
        names[3 + 2 * c] = recorded;
    }
    if (!ok) cli_fail("out of memory");
    ok = ok && (writer = cli_create_table(r->output)) != NULL;
    if (ok) {
        names[0] = "traj";
        names[1] = "t";
        ns_table_writer_put_names(writer, names, ncol);
        for (uint32_t n = 0; n < all->list.count; n++) {
            const path* p = &all->list.data[n];
            const ns_recording* recording = ns_dataset_recording(r->data, p->recording);
            for (size_t k = 0; k <= p->length; k++) {
                line[0] = n;
                line[1] = recording->start + (double)(p->origin + k) * ns_dataset_period(r->data);
                for (uint32_t c = 0; c < nc; c++) {
                    line[2 + 2 * c] = p->values[k * nc + c];
                    line[3 + 2 * c] = recording->values[(p->origin + k) * nc + c];
                }
                ns_table_writer_put_row(writer, line, ncol);
            }
        }
        ok = cli_finish_table(writer);
    }
    free(names);
    free(line);
    nsi_arena_free(&arena);
    return ok;
}

static bool write_paths(const replay* r) {
    if (!r->output) return true;
    ns_error error;
    paths all = {.r = r, .allocator = ns_default_allocator()};
    ns_status status =
        nsi_predict_visit(r->problem, r->data, NULL, NULL, &r->options, keep_path, &all, &error);
    if (status != NS_OK) cli_fail("%s", error.message);
    if (all.failed) cli_fail("out of memory");
    bool ok = status == NS_OK && !all.failed;
    if (ok) {
        qsort(all.list.data, all.list.count, sizeof *all.list.data, compare_paths);
        ok = put_paths(r, &all);
    }
    for (uint32_t k = 0; k < all.list.count; k++) free(all.list.data[k].values);
    nsi_array_free(&all.allocator, &all.list);
    return ok;
}

// ---- output --------------------------------------------------------------------------------

static const char* integrator_name(const replay* r) {
    if (ns_hybrid_is_learned(r->robots[0].source.hybrid)) return "learned";
    return ns_choice_name(&ns_integrators, (int)r->problem->sizes.integrator);
}

static int print_json(const replay* r) {
    const nsi_score* score = &r->result.score;
    ns_json* j = ns_json_create(NULL);
    ns_json_number(j, "rmse_q", score->rmse_q);
    ns_json_number(j, "rmse_qd", score->rmse_qd);
    ns_json_count(j, "count", predicted_samples(r));
    ns_json_open(j, "coordinates", '[');
    for (uint32_t k = 0; k < r->result.nchannel; k++) {
        ns_json_open(j, NULL, '{');
        ns_json_text(j, "name", r->names[k]);
        ns_json_text(j, "unit", r->units[k]);
        ns_json_number(j, "rmse", r->result.channels[k]);
        ns_json_close(j);
    }
    ns_json_close(j);
    ns_json_open(j, "horizons", '[');
    for (uint32_t k = 0; k < score->nhorizon; k++) {
        const nsi_horizon_error* h = &score->horizons[k];
        ns_json_open(j, NULL, '{');
        ns_json_number(j, "seconds", h->seconds);
        ns_json_count(j, "steps", h->samples);
        ns_json_number(j, "pooled", h->pooled);
        ns_json_number(j, "median", h->median);
        ns_json_count(j, "windows", h->windows);
        ns_json_close(j);
    }
    ns_json_close(j);
    ns_json_open(j, "trajectories", '[');
    for (uint32_t k = 0; k < r->result.nrecording; k++) {
        const nsi_recording_error* e = &r->result.recordings[k];
        ns_json_open(j, NULL, '{');
        ns_json_text(j, "name", ns_dataset_recording(r->data, k)->name);
        ns_json_number(j, "rmse_q", e->rmse_q);
        ns_json_number(j, "rmse_qd", e->rmse_qd);
        ns_json_count(j, "samples", e->samples);
        ns_json_close(j);
    }
    ns_json_close(j);
    ns_json_count(j, "predictions", score->windows);
    ns_json_count(j, "lost", score->lost);
    ns_json_text(j, "treatment", ns_dataset_treatment(r->data));
    ns_json_number(j, "timestep", r->problem->sizes.timestep);
    ns_json_text(j, "integrator", integrator_name(r));
    return cli_print_json(j);
}

static int name_width(const char* head, uint32_t count,
                      const char* (*name)(const replay*, uint32_t), const replay* r) {
    size_t width = strlen(head);
    for (uint32_t k = 0; k < count; k++) {
        if (strlen(name(r, k)) > width) width = strlen(name(r, k));
    }
    return width < NAME_WIDTH ? (int)width : NAME_WIDTH;
}

static const char* channel_name(const replay* r, uint32_t k) {
    return r->names[k];
}

static const char* recording_name(const replay* r, uint32_t k) {
    return ns_dataset_recording(r->data, k)->name;
}

static void print_setting(const replay* r) {
    const ns_system_sizes* z = &r->problem->sizes;
    const nsi_score* score = &r->result.score;
    uint32_t used = 0;
    for (uint32_t k = 0; k < r->result.nrecording; k++) {
        used += r->result.recordings[k].samples > 0;
    }
    printf("model      %s; %s, steps of %s ms\n", r->model_path, integrator_name(r),
           nsi_format_short(1e3 * z->timestep, 6).text);
    for (uint32_t k = 0; k < r->nrobot && r->robots[0].name; k++) {
        printf("%s%s%s", k > 0 ? ", " : "variants   ", r->robots[k].name,
               k + 1 == r->nrobot ? "\n" : "");
    }
    printf("data       %s\n", ns_dataset_treatment(r->data));
    printf("controls   ");
    for (uint32_t k = 0; k < r->problem->ncontrol; k++) {
        printf("%s%s", k > 0 ? ", " : "", ns_dataset_control(r->data, k));
    }
    printf("%s\n", r->problem->ncontrol == 0 ? "none" : "");
    printf("predicted  %llu samples by %u prediction%s in %u of %u trajector%s; ",
           (unsigned long long)predicted_samples(r), score->windows, score->windows == 1 ? "" : "s",
           used, r->result.nrecording, r->result.nrecording == 1 ? "y" : "ies");
    if (r->history > 1) {
        printf("states fitted to %u samples\n", r->history);
    } else {
        printf("states as recorded\n");
    }
    if (score->lost > 0) {
        printf("lost       %u, which did not stay finite: their error is infinite\n", score->lost);
    }
}

static void print_horizons(const replay* r) {
    const nsi_score* score = &r->result.score;
    if (score->nhorizon == 0) return;
    printf("\n%10s  %8s  %11s  %10s  %10s   rmse of %s up to there\n", "horizon", "samples",
           "predictions", "pooled", "median", isnan(score->rmse_q) ? "channels" : "q");
    for (uint32_t k = 0; k < score->nhorizon; k++) {
        const nsi_horizon_error* h = &score->horizons[k];
        printf("%8s s  %8u  %11u  %10s  %10s\n", nsi_format_short(h->seconds, 4).text, h->samples,
               h->windows, nsi_format(h->pooled, 4).text, nsi_format(h->median, 4).text);
    }
}

static void print_channels(const replay* r) {
    int width = name_width("channel", r->result.nchannel, channel_name, r);
    printf("\n%-*s  %-8s  %10s\n", width, "channel", "unit", "rmse");
    for (uint32_t k = 0; k < r->result.nchannel; k++) {
        printf("%-*s  %-8s  %10s\n", width, r->names[k], r->units[k][0] ? r->units[k] : "-",
               nsi_format(r->result.channels[k], 4).text);
    }
}

static void print_trajectories(const replay* r) {
    uint32_t count = r->result.nrecording, lines = count < MOST_LINES ? count : MOST_LINES;
    int width = name_width("trajectory", lines, recording_name, r);
    printf("\n%-*s  %8s  %10s  %10s\n", width, "trajectory", "samples", "rmse q", "rmse qd");
    for (uint32_t k = 0; k < lines; k++) {
        const nsi_recording_error* e = &r->result.recordings[k];
        printf("%-*s  %8u  %10s  %10s\n", width, recording_name(r, k), e->samples,
               nsi_format(e->rmse_q, 4).text, nsi_format(e->rmse_qd, 4).text);
    }
    if (count > lines) printf("and %u more\n", count - lines);
    printf("%-*s  %8llu  %10s  %10s\n", width, "all", (unsigned long long)predicted_samples(r),
           nsi_format(r->result.score.rmse_q, 4).text, nsi_format(r->result.score.rmse_qd, 4).text);
}

static int run(replay* r) {
    int code = prepare(r);
    if (code != CLI_GO_ON) return code;
    if (!predict(r) || !write_paths(r)) return EXIT_FAILED;
    if (r->json) return print_json(r);
    if (r->output && strcmp(r->output, "-") == 0) return cli_finish();
    print_setting(r);
    print_horizons(r);
    print_channels(r);
    print_trajectories(r);
    return cli_finish();
}

int cmd_replay(int argc, char** argv) {
    replay r = {.load = ns_default_load_options(),
                .period = NAN,
                .dt = NAN,
                .reach = 5,
                .integrator = -1,
                .contact = CLI_CONTACT_DEFAULT,
                .arena = {.allocator = ns_default_allocator()}};
    const cli_row rows[] = {{"--data", CLI_LIST, &r.files, "CSV files"},
                            {"--map", CLI_TEXT, &r.map_path, "a YAML file"},
                            {"--period", CLI_NUMBER, &r.period, "a time in s"},
                            {"--horizon", CLI_TEXT, &r.horizon, "samples, or seconds: 0.5s"},
                            {"--horizons", CLI_LIST, &r.horizon_texts, "times in s"},
                            {"--origins", CLI_COUNT, &r.origins, "a whole number of predictions"},
                            {"--history", CLI_COUNT, &r.history, "a whole number of samples"},
                            {"--reach", CLI_COUNT, &r.reach, "a whole number of samples"},
                            {"--dt", CLI_NUMBER, &r.dt, "a time step in s"},
                            {"--integrator", CLI_CHOICE, &r.integrator, &ns_integrators},
                            CLI_CONTACT_ROWS(r.contact),
                            CLI_NETWORK_ROWS(r.networks),
                            {"-o", CLI_TEXT, &r.output, "a file"},
                            {"--json", CLI_FLAG, &r.json, NULL},
                            {"--threads", CLI_COUNT, &r.threads, "a whole number of threads"},
                            CLI_LOAD_ROWS(r.load),
                            {0}};
    cli_list arguments = {.count = 0};
    int code = cli_parse("replay", help, rows, argc, argv, &arguments);
    if (code == CLI_GO_ON) code = check_options(&r);
    if (code != CLI_GO_ON) return code;
    r.model_path = cli_model_argument("replay", &arguments);
    if (!r.model_path) return EXIT_USAGE;
    code = run(&r);

    nsi_prediction_free(&r.result);
    nsi_problem_free(r.problem);
    for (uint32_t k = 0; k < r.nrobot; k++) ns_system_free(r.robots[k].system);
    ns_dataset_free(r.data);
    ns_data_map_free(r.map);
    for (uint32_t k = 0; k < r.nrobot; k++) cli_model_free(&r.robots[k].source);
    free(r.robots);
    nsi_hybrid_free(&r.file);
    nsi_arena_free(&r.arena);
    free(r.names);
    free(r.units);
    return code;
}
