// neuralsim simulate: trajectories from initial states, as a table.
//
// Trajectories run in parallel, in pieces of some steps, which bounds memory and allows a progress
// display. A single trajectory is written while it runs. The rows of several are kept until all have
// finished, since the table lists one trajectory after the other; batches that would need too much
// memory are divided into groups.

#include "cli.h"
#include "controls.h"
#include "page_simulate.h"
#include "quantity_args.h"
#include "states.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char help[] =
    "usage: neuralsim simulate MODEL [OPTIONS]\n"
    "\n"
    "Simulates trajectories and writes them as a CSV table, one row for each step.\n"
    "\n"
    "  --steps N, --time T   duration; default 1 s; T (s) is rounded to whole steps\n"
    "  --dt H                time step in s; default: the model's\n"
    "  --integrator I        {integrator}; default: the model's\n"
    "  --contact C           {contact}; default: that of each pair\n"
    "  --friction F          friction of rigid contact: {friction}\n"
    "  --sweeps N            baumgarte: run N plain sweeps instead of solving exactly\n"
    "  --blueprint FILE, --weights FILE   networks, and their weights\n"
    "  --q0 X.., --qd0 X..   initial coordinates and velocities; default: the keyframe, else at "
    "rest\n"
    "  --keyframe NAME       start there, with its controls; default: the model's first one, if "
    "any\n"
    "  --state FILE.csv      initial state: first row of a table (columns as for eval)\n"
    "  --batch FILE.csv      one trajectory for each row; the output has a column traj\n"
    "  --close C             move initial states onto equality constraints: auto, always, never\n"
    "  --set PARAM=X..       values of parameters, by name or glob\n"
    "  --control C           formulas of t, \"tau0=0.1*sin(2*pi*t), u_knee=1\", or a table: a row "
    "for\n"
    "                        each step, or column t (a row holds until the next; 0 before the "
    "first)\n"
    "  --observe NAME..      add columns with quantities, see 'neuralsim quantities'\n"
    "  --every K             write only every K-th step and the last one\n"
    "  --index-names         columns q0.. instead of q_<joint>..\n"
    "  -o FILE               write the table to FILE; default: standard output\n"
    "  --html FILE           write a page with 3D motion and curves; table only with -o\n"
    "  --json                print a summary as JSON; table only with -o\n"
    "  --backend B           {backend}\n"
    "  --threads N           threads for --batch; default: one for each core\n"
    "  --ground, --floating-base, --[no-]self-collision, --package-path   see 'inspect --help'\n"
    "  --variant NAME, --strict   robot of a hybrid model; refuse what would be repaired\n"
    "\n"
    "example: two seconds of a double pendulum released at 1 rad, with its energy\n"
    "  neuralsim simulate models/double_pendulum.urdf --time 2 --q0 1 0 --observe energy/total\n";

enum {
    PIECE = 1024,            // steps simulated at a time, at most
    PIECE_NUMBERS = 1 << 22, // numbers kept for a piece, about
    GROUP_NUMBERS = 1 << 25, // numbers kept for the rows of trajectories, at most
    WORKSPACE_BYTES = 64 << 20,
};

#define UNSET UINT32_MAX

typedef struct simulation {
    // options
    const char *model_path, *state_path, *batch_path, *control, *output, *html;
    cli_list control_options;              // one at most
    uint32_t steps_option, every, threads; // steps UNSET: not given
    double time, dt;                       // NAN: not given
    int integrator, backend, close;
    cli_contact contact;
    cli_start initial;
    const ns_keyframe_def* keyframe; // where trajectories start, or NULL
    cli_networks networks;
    cli_list set, observe, free_params;
    bool index_names, json;
    cli_load load;

    // what is simulated
    cli_model source;
    const ns_model* model;
    ns_system* system;
    model_io io;
    settings settings;
    ns_table table;
    states start; // one for each trajectory
    controls controls;
    double* params; // (np)
    cli_pool pool;  // names
    uint64_t steps;

    // output
    bool writing;
    ns_table_writer* writer;
    const char** names; // of columns
    uint32_t ncol;
    uint32_t* shown; // controls that are columns
    uint32_t nshown;
    double* line; // (ncol)
    motion_page page;

    // results
    double* end; // (trajectories x nx) final states
    double seconds;
    uint64_t rows;
    uint64_t unsolved; // steps whose contact impulses do not meet their conditions
    double residual;   // the largest, relative
    uint64_t relaxed;  // steps solved with more regularisation than asked for
    double relaxation; // the largest
} simulation;

// ---- setup ---------------------------------------------------------------------------------

static int check_simulation_options(const simulation* s) {
    if (s->steps_option != UNSET && !isnan(s->time)) {
        return cli_usage("simulate", "give --steps or --time, not both");
    }
    if (s->steps_option == 0) return cli_usage("simulate", "--steps needs at least 1");
    if (s->time <= 0.0) return cli_usage("simulate", "--time must be positive, not %g", s->time);
    if (s->dt <= 0.0) return cli_usage("simulate", "--dt must be positive, not %g", s->dt);
    int sources = (s->state_path != NULL) + (s->batch_path != NULL) +
                  (s->initial.q0.count + s->initial.qd0.count > 0);
    if (sources > 1) {
        return cli_usage("simulate", "give only one of --state, --batch and --q0/--qd0");
    }
    if (s->control_options.count > 1) {
        return cli_usage("simulate", "--control is given twice; separate controls by commas:"
                                     " \"tau0=1, tau1=2\"");
    }
    if (s->every == 0) return cli_usage("simulate", "--every needs at least 1");
    if (s->html && s->output && cli_same_file(s->html, s->output)) {
        return cli_usage("simulate", "-o and --html are the same file");
    }
    return !s->html || motion_page_check(s->html) ? CLI_GO_ON : EXIT_FAILED;
}

static bool create_simulated_system(simulation* s) {
    ns_system_options options = ns_default_system_options();
    const char* observe[CLI_MAX_LIST];
    for (uint32_t k = 0; k < s->observe.count; k++) {
        observe[k] = quantity_pattern(&s->pool, s->observe.items[k]);
        if (!observe[k]) return false;
    }
    cli_model_apply(&s->source, &options);
    options.observe = observe;
    options.nobserve = s->observe.count;
    options.free_params = s->free_params.items;
    options.nfree = s->free_params.count;
    if (!isnan(s->dt)) options.timestep = s->dt;
    if (s->integrator >= 0) options.integrator = s->integrator;
    cli_set_contact(&s->contact, &options);
    options.backend = (ns_backend)s->backend;
    s->system = cli_create_system(s->model, &options);
    if (s->system) cli_note_integrator(s->model, s->system, options.integrator);
    if (!s->system || !model_io_create(&s->io, &s->source, s->system)) return false;
    ns_error error;
    if (!s->html || ns_motion_observer_create(s->model, &options, observe, options.nobserve,
                                              &s->page.motion, &error) == NS_OK) {
        return true;
    }
    return cli_fail("%s", error.message), false;
}

static int read_initial_states(simulation* s) {
    const char* path = s->batch_path ? s->batch_path : s->state_path;
    s->params = cli_zeros(s->io.z.np);
    if (!s->params || !cli_find_keyframe(s->model, s->initial.keyframe, &s->keyframe)) {
        return EXIT_FAILED;
    }
    if (path && !s->initial.keyframe) s->keyframe = NULL; // the table says what there is
    if (!settings_apply(&s->settings, s->model, s->system, s->params)) return EXIT_FAILED;
    if (path) {
        uint32_t most = s->batch_path ? UINT32_MAX : 1;
        if (!states_read(&s->io, &s->table, path, most, s->params, s->keyframe, &s->start)) {
            return EXIT_FAILED;
        }
        if (s->start.has_controls && !s->control) {
            cli_note("%s has columns of controls; they are not used without --control", path);
        }
        return CLI_GO_ON;
    }
    if (!states_create(&s->io, 1, s->params, s->keyframe, &s->start)) return EXIT_FAILED;
    return cli_set_start("simulate", s->model, &s->initial, s->start.x);
}

// Series-elastic motors start where their controls do, unless they were placed. Activations start at 0.
static bool place_motors(simulation* s) {
    uint32_t first = s->io.n.nq + s->io.n.nv, nx = s->io.z.nx;
    if (s->io.nactuator_state == 0 || s->start.has_motors) return true;
    double* c = cli_zeros(s->io.z.nc);
    bool ok = c != NULL;
    for (uint32_t n = 0; n < s->start.count && ok; n++) {
        ok = controls_fill(&s->controls, n, 0, 1, s->io.z.timestep, c);
        for (uint32_t k = 0; k < s->io.nactuator_state && ok; k++) {
            uint32_t actuator = model_io_state_actuator(&s->io, k);
            if (ns_model_actuator(s->model, actuator)->dynamics != NS_DYNAMICS_NONE) continue;
            s->start.x[(size_t)n * nx + first + k] = c[actuator];
        }
    }
    free(c);
    return ok;
}

static int choose_steps(simulation* s) {
    double dt = s->io.z.timestep, time = isnan(s->time) ? 1.0 : s->time;
    double steps = s->steps_option != UNSET ? s->steps_option : round(time / dt);
    if (steps > 1e12) return cli_usage("simulate", "--time is more than 1e12 time steps");
    s->steps = (uint64_t)fmax(steps, 1.0);
    return CLI_GO_ON;
}

static bool prepare_page(simulation* s) {
    motion_page* page = &s->page;
    page->path = s->html;
    page->model_path = s->model_path;
    page->model = s->model;
    page->z = s->io.z;
    page->contact = s->contact.model;
    page->batch = s->batch_path != NULL;
    page->steps = s->steps;
    page->every = s->every;
    page->ntraj = s->start.count;
    return motion_page_prepare(page, s->start.params);
}

static int prepare_simulation(simulation* s) {
    if (!cli_model_load(s->model_path, &s->load, &s->networks, &s->source)) return EXIT_FAILED;
    s->model = s->source.model;
    cli_note_ignored(s->model, s->model_path);
    int code = settings_read("simulate", &s->set, &s->settings, &s->free_params);
    if (code != CLI_GO_ON) return code;
    const char* path = s->batch_path ? s->batch_path : s->state_path;
    if (path && (!cli_read_table(path, &s->table) ||
                 !states_add_free(s->model, &s->table, &s->free_params))) {
        return EXIT_FAILED;
    }
    if (!create_simulated_system(s)) return EXIT_FAILED;
    code = choose_steps(s);
    if (code == CLI_GO_ON) code = read_initial_states(s);
    if (code == CLI_GO_ON && !states_close(&s->io, (closing)s->close, &s->start)) {
        code = EXIT_FAILED;
    }
    if (code == CLI_GO_ON) code = controls_create(&s->controls, "simulate", &s->io, s->control);
    s->controls.keyframe = s->keyframe;
    if (code != CLI_GO_ON) return code;
    bool ok = controls_check(&s->controls, s->start.count, s->steps) && place_motors(s) &&
              (!s->html || prepare_page(s));
    return ok ? CLI_GO_ON : EXIT_FAILED;
}

// ---- columns -------------------------------------------------------------------------------

static void add_table_column(simulation* s, const char* name) {
    s->names[s->ncol++] = name;
}

// Is there a column of this name, so that an observed quantity need not repeat it?
static bool has_column(const simulation* s, const char* name) {
    for (uint32_t k = 0; k < s->ncol; k++) {
        if (strcmp(s->names[k], name) == 0) return true;
    }
    return false;
}

// All controls of actuators, and the generalised forces that --control sets.
static bool control_is_shown(const simulation* s, uint32_t control) {
    bool shown = control < s->io.n.nu;
    for (uint32_t k = 0; k < s->controls.ndriven; k++) {
        shown = shown || s->controls.driven[k].index == control;
    }
    return shown;
}

static bool open_table(simulation* s) {
    // The table goes to standard output unless the result goes elsewhere.
    const ns_system_sizes* z = &s->io.z;
    s->writing = s->output || (!s->json && !s->html);
    // Upper bound of the columns.
    size_t most = 2 + (size_t)z->nx + z->nc + z->ny;
    s->names = calloc(most, sizeof *s->names);
    s->shown = calloc((size_t)z->nc + 1, sizeof *s->shown);
    s->line = cli_zeros(most);
    if (!s->names || !s->shown || !s->line) return cli_fail("out of memory"), false;

    // Columns: time, states, controls that are set, quantities.
    if (s->batch_path) add_table_column(s, "traj");
    add_table_column(s, "t");
    for (uint32_t k = 0; k < z->nx; k++) {
        add_table_column(s, model_io_state_name(&s->io, k, s->index_names));
    }
    for (uint32_t k = 0; k < z->nc; k++) {
        // Controls that stay zero would only widen the table.
        if (!control_is_shown(s, k)) continue;
        s->shown[s->nshown++] = k;
        add_table_column(s, model_io_control_name(&s->io, k, s->index_names));
    }

    // Use the full name of a quantity if its short name is that of a state.
    for (uint32_t k = 0; k < z->ny; k++) {
        const char* name = quantity_column(&s->pool, ns_system_observation_name(s->system, k));
        if (!name) return false;
        add_table_column(s, has_column(s, name) ? ns_system_observation_name(s->system, k) : name);
    }

    // Without a table, the columns still serve the page.
    if (!s->writing) return true;
    s->writer = cli_create_table(s->output);
    if (!s->writer) return s->writing = false;

    ns_table_writer_put_names(s->writer, s->names, s->ncol);
    return true;
}

// One row: trajectory, time, state, controls, observations.
static void fill_line(simulation* s, uint32_t trajectory, uint64_t step, const double* x,
                      const double* c, const double* y, double* line) {
    const ns_system_sizes* z = &s->io.z;
    if (s->batch_path) *line++ = trajectory;
    *line++ = (double)step * z->timestep;
    for (uint32_t k = 0; k < z->nx; k++) *line++ = x[k];
    for (uint32_t k = 0; k < s->nshown; k++) *line++ = c[s->shown[k]];
    for (uint32_t k = 0; k < z->ny; k++) *line++ = y[k];
}

// ---- groups of trajectories ----------------------------------------------------------------

// Trajectories that run side by side.
typedef struct group {
    simulation* s;
    uint32_t first, count;
    uint32_t piece;             // steps at a time, at most
    uint64_t rows_each;         // rows of a trajectory that reaches the end
    double* rows;               // (count x rows_each x ncol), or NULL: written as they come
    uint64_t* nrow;             // (count) rows so far
    double* x;                  // (count x nx) states at the beginning of the piece
    double* states;             // (count x (piece + 1) x nx)
    double* observations;       // (count x piece x ny)
    double* controls;           // (count x piece x nc)
    ns_contact_report* contact; // (count)
    ns_workspace* work;
    cli_progress* progress;
} group;

static void put_row(group* g, uint32_t n, uint64_t step, const double* x, const double* c,
                    const double* y) {
    simulation* s = g->s;
    if (step % s->every != 0 && step != s->steps) return;
    if (s->html) motion_page_put(&s->page, g->first + n, step, x, c);
    if (!s->writing) return;
    double* line = s->line;
    if (g->rows) line = g->rows + ((size_t)n * g->rows_each + g->nrow[n]) * s->ncol;
    fill_line(s, g->first + n, step, x, c, y, line);
    if (!g->rows) ns_table_writer_put_row(s->writer, line, s->ncol);
    g->nrow[n]++;
    s->rows++;
}

static void flush_rows(group* g) {
    for (uint32_t n = 0; n < g->count && g->rows; n++) {
        const double* row = g->rows + (size_t)n * g->rows_each * g->s->ncol;
        for (uint64_t k = 0; k < g->nrow[n]; k++, row += g->s->ncol) {
            ns_table_writer_put_row(g->s->writer, row, g->s->ncol);
        }
    }
}

static bool state_is_finite(const double* x, uint32_t count) {
    for (uint32_t k = 0; k < count; k++) {
        if (!isfinite(x[k])) return false;
    }
    return true;
}

// Rows of the steps of a piece, as far as states are finite.
static void put_piece(group* g, uint64_t step, uint32_t n) {
    simulation* s = g->s;
    const ns_system_sizes* z = &s->io.z;
    for (uint32_t i = 0; i < g->count; i++) {
        const double* x = g->states + (size_t)i * (n + 1) * z->nx;
        const double* c = g->controls + (size_t)i * n * z->nc;
        const double* y = g->observations + (size_t)i * n * z->ny;
        for (uint32_t k = 0; k < n && step + k <= s->steps; k++) {
            if (!state_is_finite(x + (size_t)k * z->nx, z->nx)) break;
            put_row(g, i, step + k, x + (size_t)k * z->nx, c + (size_t)k * z->nc,
                    y + (size_t)k * z->ny);
        }
    }
}

// Which trajectory left the finite numbers first, and in which step? The library's message counts
// robots and steps from the beginning of the piece, so the reason alone is taken from it.
static bool report_divergence(const group* g, uint64_t step, uint32_t n, const ns_error* error) {
    simulation* s = g->s;
    uint32_t nx = s->io.z.nx, robot = 0, at = n + 1;
    for (uint32_t i = 0; i < g->count; i++) {
        for (uint32_t k = 1; k < at; k++) {
            if (state_is_finite(g->states + ((size_t)i * (n + 1) + k) * nx, nx)) continue;
            at = k;
            robot = i;
        }
    }
    uint64_t bad = step + at - 1;
    if (bad >= s->steps) return true; // the step after the last is only there to observe
    s->page.diverged = true;
    s->page.lost = g->first + robot;
    s->page.last = (double)bad * s->io.z.timestep;
    const char* reason = strstr(error->message, "): ");
    reason = reason ? reason + 3 : error->message;
    cli_fail("trajectory %u, step %llu (t = %g s): %s", g->first + robot, (unsigned long long)bad,
             (double)bad * s->io.z.timestep, reason);
    return false;
}

// Simulate n steps from g->x. False when something went wrong.
static bool run_piece(group* g, uint64_t step, uint32_t n) {
    // Controls of these steps for each trajectory.
    simulation* s = g->s;
    const ns_system_sizes* z = &s->io.z;
    for (uint32_t i = 0; i < g->count; i++) {
        if (!controls_fill(&s->controls, g->first + i, step, n, z->timestep,
                           g->controls + (size_t)i * n * z->nc)) {
            return false;
        }
    }

    // States that are not reached must not look finite.
    for (size_t k = 0; k < (size_t)g->count * (n + 1) * z->nx; k++) g->states[k] = NAN;

    // Each robot has its own parameters.
    ns_rollout_args args = {.batch = g->count,
                            .steps = n,
                            .x0 = g->x,
                            .controls = g->controls,
                            .params = s->start.params + (size_t)g->first * z->np,
                            .per_robot_params = true,
                            .states = g->states,
                            .observations = g->observations,
                            .contact = g->contact};

    // Measure the rollout alone, without reading and writing.
    ns_error error;
    double start = cli_clock();
    ns_status status = ns_rollout(s->system, g->work, &args, &error);
    s->seconds += cli_clock() - start;

    // Write what was reached, also before a divergence.
    put_piece(g, step, n);
    // Contact statistics.
    for (uint32_t i = 0; i < g->count; i++) {
        s->unsolved += g->contact[i].unsolved;
        s->residual = fmax(s->residual, g->contact[i].residual);
        s->relaxed += g->contact[i].relaxed;
        s->relaxation = fmax(s->relaxation, g->contact[i].relaxation);
    }

    // A divergence is reported with its time, and ends the run.
    if (status == NS_ERR_NONFINITE) return report_divergence(g, step, n, &error);
    if (status != NS_OK) return cli_fail("%s", error.message), false;
    return true;
}

// The states after the last step, into s->end.
static void keep_end(group* g, uint64_t step, uint32_t n) {
    simulation* s = g->s;
    uint32_t nx = s->io.z.nx, at = s->steps - step < n ? (uint32_t)(s->steps - step) : n;
    for (size_t i = 0; i < g->count; i++) {
        const double* x = g->states + (i * (n + 1) + at) * nx;
        memcpy(s->end + (g->first + i) * nx, x, nx * sizeof *x);
        memcpy(g->x + i * nx, x, nx * sizeof *x);
    }
}

static bool run_group(group* g) {
    simulation* s = g->s;
    const ns_system_sizes* z = &s->io.z;
    // Quantities are observed at the start of a step: for those of the last state, one step more.
    uint64_t total = s->steps + (z->ny > 0);
    for (uint64_t step = 0, n; step < total; step += n) {
        n = total - step < g->piece ? total - step : g->piece;
        if (!run_piece(g, step, (uint32_t)n)) return false;
        keep_end(g, step, (uint32_t)n);
        if (s->writing && !ns_table_writer_ok(s->writer)) return false; // told when it is finished
        cli_progress_update(
            g->progress, (double)g->first * (double)total + (double)g->count * (double)(step + n),
            (double)s->start.count * (double)total);
    }
    for (uint32_t i = 0; i < g->count && z->ny == 0; i++) {
        if (!controls_fill(&s->controls, g->first + i, s->steps, 1, z->timestep, g->controls)) {
            return false;
        }
        put_row(g, i, s->steps, g->x + (size_t)i * z->nx, g->controls, NULL);
    }
    return true;
}

static uint32_t group_size(const simulation* s, uint64_t rows_each) {
    double numbers = s->writing ? (double)rows_each * s->ncol : 1.0;
    double count = fmin((double)s->start.count, GROUP_NUMBERS / numbers);
    return (uint32_t)fmax(count, 1.0);
}

static bool group_create(simulation* s, group* g, cli_progress* progress) {
    const ns_system_sizes* z = &s->io.z;
    *g = (group){.s = s, .rows_each = s->steps / s->every + 2, .progress = progress};
    g->count = group_size(s, g->rows_each);
    size_t each = (size_t)g->count * ((size_t)z->nx + z->ny + z->nc + 1);
    g->piece = (uint32_t)fmax(16.0, fmin(PIECE, (double)PIECE_NUMBERS / (double)each));
    g->nrow = calloc(g->count, sizeof *g->nrow);
    g->x = cli_zeros((size_t)g->count * z->nx);
    g->states = cli_zeros((size_t)g->count * (g->piece + 1) * z->nx);
    g->observations = cli_zeros((size_t)g->count * g->piece * z->ny);
    g->controls = cli_zeros((size_t)g->count * g->piece * z->nc);
    g->contact = calloc(g->count, sizeof *g->contact);
    if (!g->contact || !g->nrow || !g->x || !g->states || !g->observations || !g->controls) {
        return cli_fail("out of memory"), false;
    }
    if (s->writing && g->count > 1) {
        g->rows = cli_zeros((size_t)g->count * g->rows_each * s->ncol);
        if (!g->rows) return false;
    }
    g->work = cli_create_workspace(s->system, &(ns_workspace_size){.batch = g->count,
                                                                   .steps = g->piece,
                                                                   .threads = s->threads,
                                                                   .max_bytes = WORKSPACE_BYTES});
    return g->work != NULL;
}

static void group_free(group* g) {
    free(g->rows);
    free(g->nrow);
    free(g->x);
    free(g->states);
    free(g->observations);
    free(g->controls);
    free(g->contact);
    ns_workspace_free(g->work);
}

static bool simulate_all(simulation* s) {
    uint32_t nx = s->io.z.nx;
    cli_progress progress = cli_progress_start("simulating");
    s->end = cli_zeros((size_t)s->start.count * nx);
    group g = {0};
    bool ok = s->end && group_create(s, &g, &progress);
    uint32_t most = g.count;
    for (; ok && g.first < s->start.count; g.first += most) {
        if (s->start.count - g.first < most) g.count = s->start.count - g.first;
        memset(g.nrow, 0, g.count * sizeof *g.nrow);
        memcpy(g.x, s->start.x + (size_t)g.first * nx, (size_t)g.count * nx * sizeof *g.x);
        ok = run_group(&g);
        flush_rows(&g);
    }
    cli_progress_end(&progress);
    group_free(&g);
    return ok;
}

// ---- summary -------------------------------------------------------------------------------

// A quantity (trajectories) at these states. Without contact where that does not matter.
static bool observe_once(const simulation* s, const char* name, bool contact, const double* x,
                         double* out) {
    // Use the system of the simulation, except for the options set below.
    ns_system_options options = ns_default_system_options();
    cli_model_apply(&s->source, &options);
    if (s->integrator >= 0) options.integrator = s->integrator;
    // Contact costs time, and energy does not depend on it.
    if (contact || s->source.blueprint) { // networks may be attached to contacts
        cli_set_contact(&s->contact, &options);
    } else {
        options.contact = NS_CONTACT_NONE;
    }

    // Observe a single quantity.
    options.observe = &name;
    options.nobserve = 1;
    options.free_params = s->free_params.items;
    options.nfree = s->free_params.count;
    options.backend = NS_BACKEND_INTERP; // it runs once

    // All trajectories are one batch.
    uint32_t count = s->start.count;
    ns_system* system = cli_create_system(s->model, &options);
    ns_workspace* work =
        system ? cli_create_workspace(system, &(ns_workspace_size){.batch = count, .steps = 1})
               : NULL;
    if (work) {
        ns_rollout_args args = {.batch = count,
                                .steps = 1,
                                .x0 = x,
                                .params = s->start.params,
                                .per_robot_params = true,
                                .observations = out};

        ns_rollout(system, work, &args, NULL); // the observation is there, whatever comes after it
    }

    ns_workspace_free(work);
    ns_system_free(system);
    return work != NULL;
}

// A start inside the ground is thrown out of it: say so.
static bool check_start_depth(const simulation* s) {
    if (ns_model_get_sizes(s->model).ncontact == 0 || s->contact.model == NS_CONTACT_NONE) {
        return true;
    }
    double* depth = cli_zeros(s->start.count);
    bool ok = depth && observe_once(s, "contact/penetration", true, s->start.x, depth);
    uint32_t deepest = 0;
    for (uint32_t n = 1; n < s->start.count && ok; n++) {
        if (depth[n] > depth[deepest]) deepest = n;
    }
    if (ok && depth[deepest] > 1e-3) {
        cli_note("trajectory %u starts with geometries that overlap by %.3g m, which contact "
                 "pushes apart; choose another start with --q0",
                 deepest, depth[deepest]);
    }
    free(depth);
    return ok;
}

static void json_trajectory(ns_json* j, const simulation* s, uint32_t n, const double* start,
                            const double* end) {
    uint32_t nx = s->io.z.nx;
    ns_json_number(j, "energy_start", start[n]);
    ns_json_number(j, "energy_end", end[n]);
    ns_json_open(j, "final_state", '{');
    for (uint32_t k = 0; k < nx; k++) {
        ns_json_number(j, model_io_state_name(&s->io, k, s->index_names),
                       s->end[(size_t)n * nx + k]);
    }
    ns_json_close(j);
}

static int print_summary(const simulation* s) {
    // Energy at both ends of each trajectory: its drift is a check of the integrator.
    double* start = cli_zeros(s->start.count);
    double* end = cli_zeros(s->start.count);
    bool ok = start && end && observe_once(s, "energy/total", false, s->start.x, start) &&
              observe_once(s, "energy/total", false, s->end, end);
    if (ok) {
        // The run as a whole.
        ns_json* j = ns_json_create(NULL);
        double steps = (double)s->steps * s->start.count;
        ns_json_text(j, "model", ns_model_name(s->model));
        ns_json_count(j, "trajectories", s->start.count);
        ns_json_count(j, "steps", s->steps);
        ns_json_number(j, "timestep", s->io.z.timestep);
        // Time of the rollouts alone.
        ns_json_number(j, "seconds", s->seconds);
        ns_json_number(j, "steps_per_second", steps / fmax(s->seconds, 1e-9));
        // Steps in which the contact solver did not converge.
        ns_json_count(j, "contact_unsolved", s->unsolved);
        ns_json_number(j, "contact_residual", s->residual);
        ns_json_count(j, "contact_relaxed", s->relaxed);
        // Files that were written.
        if (s->output) ns_json_text(j, "output", s->output);
        if (s->html) ns_json_text(j, "page", s->html);

        // A batch lists its trajectories; a single one has its fields at the top level.
        if (s->batch_path) {
            ns_json_open(j, "results", '[');
            for (uint32_t n = 0; n < s->start.count; n++) {
                ns_json_open(j, NULL, '{');
                json_trajectory(j, s, n, start, end);
                ns_json_close(j);
            }
            ns_json_close(j);
        } else {
            json_trajectory(j, s, 0, start, end);
        }

        ok = cli_print_json(j) == EXIT_OK;
    }

    free(start);
    free(end);
    return ok ? EXIT_OK : EXIT_FAILED;
}

// Also of a simulation that did not come to its end.
static bool write_page(simulation* s) {
    size_t size;
    if (!motion_page_write(&s->page, &size)) return false;
    bool is_table = s->output && strcmp(s->output, "-") == 0;
    if (size > 0 && !s->json && !is_table) {
        printf("%s: %u rows of %u %s, %.3g MB\n", s->html, s->page.reached, s->page.ntrack,
               s->page.ntrack == 1 ? "trajectory" : "trajectories", (double)size * 1e-6);
    }
    return true;
}

static int run_simulation(simulation* s) {
    int code = prepare_simulation(s);
    if (code != CLI_GO_ON) return code;
    bool ok = check_start_depth(s) && open_table(s) && simulate_all(s);
    if (s->writing) ok = cli_finish_table(s->writer) && ok;
    if (s->html) ok = write_page(s) && ok;
    if (!ok) return EXIT_FAILED;
    if (s->unsolved > 0) {
        cli_note("contact: the solver did not converge in %llu steps; largest residual %.2g of the "
                 "largest impulse",
                 (unsigned long long)s->unsolved, s->residual);
    }
    if (s->relaxed > 0) {
        cli_note("contact: %llu steps were solved with a larger cfm than asked for, up to %.2g",
                 (unsigned long long)s->relaxed, s->relaxation);
    }
    if (s->json) return print_summary(s);
    if (s->output && strcmp(s->output, "-") != 0) {
        printf("%llu rows in %s: %u %s of %llu steps, %.3g s, %.3g steps per second\n",
               (unsigned long long)s->rows, s->output, s->start.count,
               s->start.count == 1 ? "trajectory" : "trajectories", (unsigned long long)s->steps,
               s->seconds, (double)s->steps * s->start.count / fmax(s->seconds, 1e-9));
    }
    return cli_finish();
}

int cmd_simulate(int argc, char** argv) {
    // Unset options keep the choice of the model.
    simulation s = {.load.options = ns_default_load_options(),
                    .steps_option = UNSET,
                    .time = NAN,
                    .dt = NAN,
                    .every = 1,
                    .integrator = -1,
                    .contact = CLI_CONTACT_DEFAULT};

    // Options, in the order of the help text.
    const cli_row rows[] = {{"--steps", CLI_COUNT, &s.steps_option, "a whole number of steps"},
                            {"--time", CLI_NUMBER, &s.time, "a time in s"},
                            {"--dt", CLI_NUMBER, &s.dt, "a time step in s"},
                            {"--integrator", CLI_CHOICE, &s.integrator, &ns_integrators},
                            CLI_CONTACT_ROWS(s.contact),
                            CLI_START_ROWS(s.initial),
                            CLI_NETWORK_ROWS(s.networks),
                            {"--state", CLI_TEXT, &s.state_path, "a CSV file"},
                            {"--batch", CLI_TEXT, &s.batch_path, "a CSV file"},
                            {"--close", CLI_CHOICE, &s.close, &closings},
                            {"--set", CLI_LIST, &s.set, "PARAMETER=NUMBER"},
                            {"--control", CLI_EACH, &s.control_options, "formulas or a CSV file"},
                            {"--observe", CLI_LIST, &s.observe, "names of quantities"},
                            {"--every", CLI_COUNT, &s.every, "a whole number of steps"},
                            {"--index-names", CLI_FLAG, &s.index_names, NULL},
                            {"-o", CLI_TEXT, &s.output, "a file"},
                            {"--html", CLI_TEXT, &s.html, "a file"},
                            {"--json", CLI_FLAG, &s.json, NULL},
                            {"--backend", CLI_CHOICE, &s.backend, &ns_backends},
                            {"--threads", CLI_COUNT, &s.threads, "a whole number of threads"},
                            CLI_LOAD_ROWS(s.load),
                            {0}};

    // Validate the options before the model is loaded.
    cli_list arguments = {.count = 0};
    int code = cli_parse("simulate", help, rows, argc, argv, &arguments);
    if (code == CLI_GO_ON) code = check_simulation_options(&s);
    if (code != CLI_GO_ON) return code;
    // Several --control options are read one by one.
    if (s.control_options.count == 1) s.control = s.control_options.items[0];
    s.model_path = cli_model_argument("simulate", &arguments);
    if (!s.model_path) return EXIT_USAGE;

    // Load the model, simulate, and write the results.
    code = run_simulation(&s);

    // Release everything here, whatever happened before.
    motion_page_free(&s.page);
    free(s.names);
    free(s.shown);
    free(s.line);
    free(s.end);
    free(s.params);
    controls_free(&s.controls);
    states_free(&s.start);
    model_io_free(&s.io);
    settings_free(&s.settings);
    ns_table_free(&s.table);
    ns_system_free(s.system);
    cli_model_free(&s.source);
    cli_pool_free(&s.pool);
    return code;
}
