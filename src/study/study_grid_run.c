// Runs of a study on a grid: the truth is simulated from each pose, and each method fits it from every cell.

#include "fit/fit_state.h"
#include "neuralsim/table.h"
#include "study/study_grid.h"

#include <math.h>
#include <stdio.h>
#ifdef _OPENMP
#include <omp.h>
#endif

static double cell_value(const study_grid* g, uint32_t k) {
    return g->cells > 1 ? g->from + (g->to - g->from) * k / (g->cells - 1) : g->from;
}

// Initial values of a cell.
static void cell_start(const study_grid* g, uint32_t cell, double start[2]) {
    uint32_t row = g->cells > 0 ? g->cells : 1;
    start[0] = cell_value(g, cell % row);
    start[1] = cell_value(g, cell / row);
}

static double cell_distance(const study_grid* g, const double x[2]) {
    return hypot(x[0] - g->truth[0], x[1] - g->truth[1]);
}

// ---- recordings --------------------------------------------------------------------------------

// The truth of a grid at work.
typedef struct study_recorder {
    ns_hybrid* hybrid;
    ns_system* system;
    ns_workspace* work;
    uint32_t nx;
    double *x0, *states;
    const char** names; // (nx + 1) of columns
    double* line;
} study_recorder;

static bool record_prepare(study_grid* g, study_recorder* r) {
    ns_study* s = g->study;
    ns_system_options options = ns_default_system_options();
    // Load the true model, with the options of its own file.
    const char* path = nsi_study_path(s, s->folder, g->model);
    if (!nsi_study_load_model(s, path, NULL, &r->hybrid)) return false;
    ns_hybrid_apply(r->hybrid, &options);
    options.blueprint = ns_hybrid_blueprint(r->hybrid);

    // The grid may override time step and integrator.
    options.timestep = g->timestep;
    if (g->integrator >= 0) options.integrator = g->integrator;

    const ns_model* model = ns_hybrid_model(r->hybrid);
    if (!nsi_study_take(s, ns_system_create(model, &options, &r->system, &s->error))) return false;

    // Poses of the file must have the model's coordinates.
    if (ns_model_get_sizes(model).nq != g->nq) {
        return nsi_study_fail(s, NS_ERR_PARSE, "%s has %u coordinates, but poses have %u", path,
                              ns_model_get_sizes(model).nq, g->nq);
    }

    // Allocate memory for one trajectory and one row of its table.
    ns_workspace_size size = {.batch = 1, .steps = g->steps, .threads = 1};
    r->nx = ns_system_get_sizes(r->system).nx;
    r->x0 = nsi_study_zeros(s, r->nx * sizeof *r->x0);
    r->states = nsi_study_zeros(s, ((size_t)g->steps + 1) * r->nx * sizeof *r->states);
    r->names = nsi_study_zeros(s, ((size_t)r->nx + 1) * sizeof *r->names);
    r->line = nsi_study_zeros(s, ((size_t)r->nx + 1) * sizeof *r->line);

    // The workspace comes last, and only if all memory is there.
    return s->status == NS_OK &&
           nsi_study_take(s, ns_workspace_create(r->system, &size, &r->work, &s->error));
}

static bool record_write(study_grid* g, const study_recorder* r, const char* path) {
    ns_study* s = g->study;
    ns_table_writer* table = NULL;
    if (!nsi_study_take(s, ns_table_writer_create(path, NULL, &table, &s->error))) return false;
    r->names[0] = "t";
    for (uint32_t k = 0; k < r->nx; k++) r->names[k + 1] = ns_system_state_name(r->system, k);
    ns_table_writer_put_names(table, r->names, r->nx + 1);
    for (uint32_t i = 0; i <= g->steps; i++) {
        r->line[0] = i * g->timestep;
        memcpy(r->line + 1, r->states + (size_t)i * r->nx, r->nx * sizeof *r->line);
        ns_table_writer_put_row(table, r->line, r->nx + 1);
    }
    return nsi_study_take(s, ns_table_writer_finish(table, &s->error));
}

// A pose: its recording, and the fits beside it.
static bool record_pose(study_grid* g, const study_recorder* r, uint32_t pose) {
    ns_study* s = g->study;
    const char* folder = g->folders[pose];
    const char* table = nsi_study_path(s, folder, "truth.csv");
    memcpy(r->x0, g->poses[pose], g->nq * sizeof *r->x0);
    ns_rollout_args args = {.batch = 1, .steps = g->steps, .x0 = r->x0, .states = r->states};
    bool done = table && nsi_study_make_folder(s, folder) &&
                nsi_study_take(s, ns_rollout(r->system, r->work, &args, &s->error)) &&
                record_write(g, r, table) && nsi_study_copy(s, g->model, folder);
    for (uint32_t k = 0; done && k < g->nmethod; k++) {
        done = nsi_study_write_method(g, &g->methods[k], folder);
    }
    for (uint32_t k = 0; done && k < g->files.count; k++) {
        done = nsi_study_copy(s, g->files.data[k], folder);
    }
    return done;
}

// The truth from each pose into <output>/pose<k>/truth.csv, and the fits beside it, so that each of
// them can be run by itself.
static bool record_all(study_grid* g) {
    study_recorder r = {0};
    bool done = record_prepare(g, &r);
    for (uint32_t k = 0; done && k < g->npose; k++) done = record_pose(g, &r, k);
    ns_workspace_free(r.work);
    ns_system_free(r.system);
    ns_hybrid_free(r.hybrid);
    return done;
}

// ---- cells -------------------------------------------------------------------------------------

// A fit is loaded once for all cells of a pose and a method.
typedef struct study_worker {
    ns_fit* fit;
    uint32_t pose, method;
    uint64_t seed; // of the file
} study_worker;

static ns_status worker_load(const study_grid* g, study_worker* w, uint32_t pose, uint32_t method,
                             ns_error* error) {
    if (w->fit && w->pose == pose && w->method == method) return NS_OK;
    ns_fit_free(w->fit);
    w->fit = NULL;
    w->pose = pose;
    w->method = method;
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.yaml", g->folders[pose], g->methods[method].name);
    ns_status status = ns_fit_load(path, 1, &w->fit, error);
    if (status == NS_OK) w->seed = w->fit->spec->seed;
    return status;
}

static ns_status worker_fit(const study_grid* g, study_worker* w, uint32_t cell, ns_error* error) {
    double start[2];
    cell_start(g, cell, start);
    w->fit->spec->seed = w->seed + cell; // each cell draws its own numbers
    ns_status status = ns_fit_set_initial(w->fit, g->names[0], start[0], error);
    if (status == NS_OK) status = ns_fit_set_initial(w->fit, g->names[1], start[1], error);
    return status == NS_OK ? ns_fit_run(w->fit, NULL, error) : status;
}

// Local optimisations of a run: a search has one for each start and stage.
static uint32_t worker_count_runs(const ns_fit* fit) {
    uint32_t runs = 0;
    bool searches = fit->spec->search.solver != NULL;
    for (uint32_t k = 0; k < fit->result.phases.count; k++) {
        bool search = searches && k == 0;
        runs += search ? fit->result.phases.data[k].iterations * fit->spec->stages.count : 1;
    }
    return runs;
}

static ns_status worker_run_cell(const study_grid* g, study_worker* w, uint32_t number,
                                 ns_error* error) {
    uint32_t count = nsi_study_cell_count(g), cell = number % count;
    uint32_t method = number / count % g->nmethod, pose = number / count / g->nmethod;
    ns_status status = worker_load(g, w, pose, method, error);
    if (status != NS_OK) return status;
    study_cell* out = &g->results[number];
    double began = nsi_clock_thread_cpu(), x[2] = {NAN, NAN};
    status = worker_fit(g, w, cell, error);
    out->seconds = nsi_clock_thread_cpu() - began;

    // A start that leads nowhere is a result, too.
    if (status == NS_ERR_NONFINITE) {
        cell_start(g, cell, x);
        *out = (study_cell){.error = cell_distance(g, x), .seconds = out->seconds, .runs = 1};
        return NS_OK;
    }
    if (status != NS_OK) return status;

    for (int k = 0; k < 2; k++) ns_fit_estimate(w->fit, g->names[k], &x[k], NULL);
    out->error = cell_distance(g, x);
    out->found = fabs(x[0] - g->truth[0]) < g->tolerance && fabs(x[1] - g->truth[1]) < g->tolerance;
    out->runs = worker_count_runs(w->fit);
    return NS_OK;
}

#ifdef _OPENMP
static int grid_threads(const ns_study* s) {
    return s->options.threads > 0 ? (int)s->options.threads : omp_get_num_procs();
}
#endif

// Each result depends on its number only, not on the thread.
static bool grid_run_cells(study_grid* g) {
    ns_study* s = g->study;
    // One fit for each combination of pose, method and cell.
    uint32_t count = g->npose * g->nmethod * nsi_study_cell_count(g), done = 0;
    g->failed = NSI_NONE;
#ifdef _OPENMP
#pragma omp parallel num_threads(grid_threads(s))
#endif
    {
        // Each thread has its own fit, which it reuses from cell to cell.
        study_worker w = {.fit = NULL};
#ifdef _OPENMP
#pragma omp for schedule(dynamic)
#endif
        for (int k = 0; k < (int)count; k++) {
            // After a failure only results of lower numbers are needed, which may fail before it.
            ns_error error;
            bool needed;
#ifdef _OPENMP
#pragma omp critical(nsi_study_grid)
#endif
            needed = (uint32_t)k < g->failed && !s->stopped;
            ns_status status = needed ? worker_run_cell(g, &w, (uint32_t)k, &error) : NS_OK;

            // The failure of the lowest number counts, at any number of threads.
#ifdef _OPENMP
#pragma omp critical(nsi_study_grid)
#endif
            {
                // Progress counts finished cells in any order.
                if (needed) nsi_study_observe(s, s->name, ++done, count);
                if (status != NS_OK && (uint32_t)k < g->failed) {
                    g->failed = (uint32_t)k;
                    g->error = error;
                }
            }
        }

        ns_fit_free(w.fit);
    }

    // A grid without all of its cells has no result.
    // A stopped grid reports how far it came.
    if (g->failed != NSI_NONE) return nsi_study_fail(s, g->error.status, "%s", g->error.message);
    if (s->stopped) {
        nsi_study_note(s, "interrupted after %u of %u fits; there is no result", done, count);
    }
    return !s->stopped;
}

// Rollouts with Jacobian and normal equations, as in each iteration of LM, per second on one core.
static ns_status grid_measure(study_grid* g, ns_error* error) {

    study_worker w = {.fit = NULL};
    nsi_objective* objective = NULL;

    // The residuals of the first stage, at its initial values.
    ns_status status = worker_load(g, &w, 0, g->compare, error);
    if (status == NS_OK) {
        const ns_fit* fit = w.fit;
        // Report the seed that the timing belongs to.
        g->seed = w.seed;
        status =
            nsi_objective_create(fit->problem, fit->data[NS_ROLE_TRAIN],
                                 &fit->spec->stages.data[0].windows, NULL, 1, &objective, error);
        // Timing starts from the initial values, as the fit does.
        if (status == NS_OK) {
            memcpy(nsi_objective_point(objective).z, fit->z0, fit->nz * sizeof(double));
        }
    }

    // Repeat for 0.2 s: long enough to average out clock resolution.
    double began = nsi_clock_wall(), seconds = 0.0, value;
    uint32_t count = 0;
    for (; status == NS_OK && seconds < 0.2; count++) {
        // Residuals and derivatives without a step: each repetition costs the same.
        if (!nsi_objective_linearise(objective, &value)) {
            status = nsi_fail(error, NS_ERR_NONFINITE, "no derivatives at the first start");
        }
        seconds = nsi_clock_wall() - began;
    }

    if (seconds > 0.0) g->rollouts = count / seconds;
    nsi_objective_free(objective);
    ns_fit_free(w.fit);
    return status;
}

// The headline's result from the cell furthest away, for the last pose.
static ns_status grid_save_furthest(study_grid* g, ns_error* error) {
    uint32_t furthest = 0;
    double most = -1.0;
    for (uint32_t k = 0; k < nsi_study_cell_count(g); k++) {
        double start[2];
        cell_start(g, k, start);
        if (cell_distance(g, start) > most) most = cell_distance(g, start), furthest = k;
    }
    study_worker w = {.fit = NULL};
    ns_status status = worker_load(g, &w, g->npose - 1, g->headline, error);
    if (status == NS_OK) status = worker_fit(g, &w, furthest, error);
    if (status == NS_OK) status = ns_fit_save(w.fit, g->study->output, error);
    ns_fit_free(w.fit);
    return status;
}

bool nsi_study_run_grid(ns_study* s) {
    study_grid* g = s->grid;
    return record_all(g) && grid_run_cells(g) && nsi_study_take(s, grid_measure(g, &s->error)) &&
           nsi_study_take(s, grid_save_furthest(g, &s->error)) && nsi_study_draw_grid(g);
}
