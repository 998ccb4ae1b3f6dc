// An experiment of kind `grid`: two parameters are looked for in simulated recordings, from every cell
// of a grid of start values and by several methods. How often is the truth found, and what does it
// cost?

#define _POSIX_C_SOURCE 200809L

#include "cli.h"
#include "experiment.h"
#include "fit/fit_state.h"
#include "report/html.h"
#include "report/start_map.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#ifdef _OPENMP
#include <omp.h>
#endif

typedef struct method {
    const char *name, *label;
    const nsi_yaml_node* node; // its mapping in study.yaml
} method;

// What came of a cell.
typedef struct result {
    double error;   // distance from the truth
    double seconds; // of one core
    uint32_t runs;  // local optimisations
    bool found;
} result;

typedef struct grid {
    experiment* e;
    const char* model;
    nsi_text_list files; // others that fits need
    const char *headline, *compare;
    uint32_t quick_cells, quick_poses; // 0: all
    uint32_t steps;
    double timestep;
    int integrator;
    const double** poses; // (npose) start positions, at rest
    const char** folders; // (npose) of their recording and fits
    uint32_t npose, nq;
    const char* names[2]; // of the parameters
    double truth[2], tolerance;
    double from, to;
    uint32_t cells; // in a row
    method* methods;
    uint32_t nmethod, main, local; // local: what the main one is compared with in pictures

    result* results; // (npose x nmethod x cells x cells): row i has the second parameter's value i
    uint32_t failed; // lowest number of a result that could not be had, or NSI_NONE
    ns_error error;  // why
    double rollouts; // per second
    uint64_t seed;
} grid;

static uint32_t cell_count(const grid* g) {
    return g->cells * g->cells;
}

static result* results_of(const grid* g, uint32_t pose, uint32_t which) {
    return g->results + (size_t)(pose * g->nmethod + which) * cell_count(g);
}

static double value_at(const grid* g, uint32_t k) {
    return g->cells > 1 ? g->from + (g->to - g->from) * k / (g->cells - 1) : g->from;
}

// Start values of a cell.
static void start_of(const grid* g, uint32_t cell, double start[2]) {
    start[0] = value_at(g, cell % g->cells);
    start[1] = value_at(g, cell / g->cells);
}

static double distance(const grid* g, const double x[2]) {
    return hypot(x[0] - g->truth[0], x[1] - g->truth[1]);
}

// ---- reading -----------------------------------------------------------------------------------

static ns_status read_grid_truth(nsi_schema_reader* r, const nsi_yaml_node* map, void* out) {
    grid* g = out;
    if (map->type != NSI_YAML_MAP || map->count != 2) {
        return nsi_yaml_fail(r->yaml, map, r->error,
                             "`truth` needs two parameters and their values");
    }
    ns_status status = NS_OK;
    int k = 0;
    for (const nsi_yaml_node* n = map->first; n && status == NS_OK; n = n->next, k++) {
        g->names[k] = n->key;
        status = nsi_yaml_number(r->yaml, n, -1e300, 1e300, &g->truth[k], r->error);
    }
    return status;
}

static ns_status check_method(nsi_schema_reader* r, const nsi_yaml_node* map, void* out) {
    (void)r;
    method* m = out;
    if (!m->label) m->label = m->name;
    m->node = map;
    return NS_OK;
}

static const nsi_schema_key method_keys[] = {
    {"name", NSI_KEY_TEXT, offsetof(method, name), .required = true, .help = "of its files"},
    {"extends", NSI_KEY_OTHER, .values = "file, or name of a method before it",
     .help = "what the fit is but for its own keys; it reads `truth.csv`"},
    {"label", NSI_KEY_TEXT, offsetof(method, label), .fallback = "(the name)", .help = "in tables"},
};
const nsi_schema study_method_schema = {.what = "a method",
                                        .keys = method_keys,
                                        .count = sizeof method_keys / sizeof *method_keys,
                                        .check = check_method,
                                        .also = &nsi_fit_schema};

static const nsi_schema_key grid_simulate_keys[] = {
    {"steps", NSI_KEY_COUNT, offsetof(grid, steps), 1, 1000000, .fallback = "500", .help = ""},
    {"timestep", NSI_KEY_NUMBER, offsetof(grid, timestep), DBL_MIN, 10.0, .fallback = "0.01",
     .help = "s"},
    {"integrator", NSI_KEY_CHOICE, offsetof(grid, integrator), .choices = &ns_integrators,
     .fallback = "(the model's)", .help = ""},
};
const nsi_schema study_grid_simulate_schema = NSI_SCHEMA("simulate", grid_simulate_keys, NULL);

static ns_status check_cells(nsi_schema_reader* r, const nsi_yaml_node* map, void* out) {
    const grid* g = out;
    if (g->from < g->to) return NS_OK;
    return nsi_yaml_fail(r->yaml, map, r->error, "`grid` needs a `from` below its `to`");
}

static const nsi_schema_key cells_keys[] = {
    {"from", NSI_KEY_NUMBER, offsetof(grid, from), .help = "smallest initial value of both"},
    {"to", NSI_KEY_NUMBER, offsetof(grid, to), .help = "largest"},
    {"cells", NSI_KEY_COUNT, offsetof(grid, cells), 2, 100, .fallback = "11", .help = "in a row"},
};
const nsi_schema study_cells_schema = NSI_SCHEMA("grid", cells_keys, check_cells);

static const nsi_schema_key grid_smoke_keys[] = {
    {"cells", NSI_KEY_COUNT, offsetof(grid, quick_cells), 2, 100, .fallback = "(all)",
     .help = "in a row, for `--quick`"},
    {"poses", NSI_KEY_COUNT, offsetof(grid, quick_poses), 1, 100, .fallback = "(all)",
     .help = "for `--quick`"},
};
const nsi_schema study_grid_smoke_schema = NSI_SCHEMA("smoke", grid_smoke_keys, NULL);

static const nsi_schema_key grid_keys[] = {
    {"model", NSI_KEY_PATH, offsetof(grid, model), .required = true,
     .help = "the truth, a URDF or MJCF file"},
    {"files", NSI_KEY_TEXTS, offsetof(grid, files), .values = "list of files",
     .help = "what fits need besides the model, such as a map"},
    {"simulate", NSI_KEY_TABLE, 0, .table = &study_grid_simulate_schema,
     .help = "`{steps, timestep, integrator}` of the truth"},
    {"poses", NSI_KEY_OTHER, .values = "list of lists", .help = "coordinates, at rest"},
    {"grid", NSI_KEY_TABLE, 0, .table = &study_cells_schema, .required = true,
     .help = "`{from, to, cells}`: initial values of both"},
    {"truth", NSI_KEY_OTHER, .read = read_grid_truth, .required = true,
     .values = "`{NAME: value, NAME: value}`", .help = "of both parameters"},
    {"tolerance", NSI_KEY_NUMBER, offsetof(grid, tolerance), DBL_MIN, 1e300, .fallback = "1e-3",
     .help = "how near counts as found"},
    {"methods", NSI_KEY_OTHER, .values = "list", .help = "fits, run from every cell"},
    {"headline", NSI_KEY_TEXT, offsetof(grid, headline), .required = true, .values = "name",
     .help = "the method that is called `global` in metrics"},
    {"compare", NSI_KEY_TEXT, offsetof(grid, compare), .required = true, .values = "name",
     .help = "drawn beside it"},
    {"smoke", NSI_KEY_TABLE, 0, .table = &study_grid_smoke_schema,
     .help = "`{cells, poses}`: how many for `--quick`"},
};
const nsi_schema study_grid_schema = {.what = "a study on a grid",
                                      .keys = grid_keys,
                                      .count = sizeof grid_keys / sizeof *grid_keys,
                                      .also = &study_schema};

static void read_methods(grid* g, const nsi_yaml_node* root) {
    experiment* e = g->e;
    const nsi_yaml_node* list = nsi_yaml_find(root, "methods");
    if (!list || list->count == 0) experiment_fault(e, list ? list : root, "`methods` is missing");
    experiment_read_list(e, &study_method_schema, list, g, sizeof *g->methods, &g->methods,
                         &g->nmethod);
    g->main = g->local = NSI_NONE;
    for (uint32_t k = 0; k < g->nmethod && e->status == NS_OK; k++) {
        if (strcmp(g->methods[k].name, g->headline) == 0) g->main = k;
        if (strcmp(g->methods[k].name, g->compare) == 0) g->local = k;
    }
    if (g->main == NSI_NONE || g->local == NSI_NONE) {
        experiment_fault(e, root, "`headline` and `compare` must be names of methods");
    }
}

static void read_poses(grid* g, const nsi_yaml_node* root, uint32_t most) {
    experiment* e = g->e;
    uint32_t count, nq;
    const nsi_yaml_node* n = experiment_list(e, root, "poses", true, &count);
    g->poses = experiment_zeros(e, (count + 1) * sizeof *g->poses);
    g->folders = experiment_zeros(e, (count + 1) * sizeof *g->folders);
    for (; n && e->status == NS_OK && g->npose < most; n = n->next) {
        char name[40];
        snprintf(name, sizeof name, "pose%u", g->npose + 1);
        g->folders[g->npose] = experiment_path(e, e->output, name);
        g->poses[g->npose++] = experiment_numbers(e, n, &nq);
        if (g->npose == 1) g->nq = nq;
        if (nq != g->nq) experiment_fault(e, n, "all poses have as many numbers");
    }
}

static void read_grid(grid* g) {
    experiment* e = g->e;
    const nsi_yaml_node* root = e->yaml.root;
    nsi_schema_defaults(&study_grid_schema, g);
    g->integrator = -1;
    if (!experiment_read(e, &study_grid_schema, root, g, g)) return;
    uint32_t most = e->quick && g->quick_poses > 0 ? g->quick_poses : 100;
    if (e->quick && g->quick_cells > 0) g->cells = g->quick_cells;
    read_methods(g, root);
    read_poses(g, root, most);
    g->results = experiment_zeros(e, ((size_t)g->npose * g->nmethod * cell_count(g) + 1) *
                                         sizeof *g->results);
}

// What `extends` of a method names, if that is a method before it.
typedef struct method_finder {
    const grid* g;
    const method* m;
} method_finder;

static const nsi_yaml_node* find_method(void* context, const char* name) {
    const method_finder* finder = context;
    for (const method* m = finder->g->methods; m < finder->m; m++) {
        if (strcmp(m->name, name) == 0) return m->node;
    }
    return NULL;
}

// The fit of a method with all that it extends, as <folder>/<name>.yaml.
static bool write_method(grid* g, const method* m, const char* folder) {
    char skip[NSI_SCHEMA_WORDS_SIZE], name[200];
    method_finder finder = {g, m};
    nsi_yaml tree = {0};
    ns_error error;
    ns_text text = {0};
    nsi_text_builder builder = {.allocator = ns_default_allocator()};
    ns_status status =
        nsi_yaml_derive(&g->e->yaml, m->node, nsi_schema_words(&study_method_schema, skip),
                        find_method, &finder, NULL, &tree, &error);
    if (status == NS_OK) nsi_yaml_add_node(&builder, tree.root);
    ns_status written = nsi_text_finish(&builder, &text, status == NS_OK ? &error : NULL);
    if (status == NS_OK) status = written;
    if (status != NS_OK) cli_fail("%s", error.message);
    snprintf(name, sizeof name, "%.150s.yaml", m->name);
    const char* path = experiment_path(g->e, folder, name);
    bool done = status == NS_OK && path && cli_write_file(path, text.data, text.size);
    ns_text_free(&text);
    nsi_yaml_free(&tree);
    return done;
}

// ---- recordings --------------------------------------------------------------------------------

static bool write_states(const grid* g, const ns_system* system, const char* path,
                         const double* states) {
    uint32_t nx = ns_system_get_sizes(system).nx;
    const char** names = malloc((nx + 1) * sizeof *names);
    double* line = malloc((nx + 1) * sizeof *line);
    ns_table_writer* table = names && line ? cli_create_table(path) : NULL;
    bool done = table != NULL;
    if (done) {
        names[0] = "t";
        for (uint32_t k = 0; k < nx; k++) names[k + 1] = ns_system_state_name(system, k);
        ns_table_writer_put_names(table, names, nx + 1);
        for (uint32_t i = 0; i <= g->steps; i++) {
            line[0] = i * g->timestep;
            memcpy(line + 1, states + (size_t)i * nx, nx * sizeof *line);
            ns_table_writer_put_row(table, line, nx + 1);
        }
        done = cli_finish_table(table);
    }
    free(names);
    free(line);
    return done;
}

// The truth from each pose into <output>/pose<k>/truth.csv, and the fits beside it, so that each of
// them can be run by itself.
static bool simulate(grid* g) {
    experiment* e = g->e;
    const char* path = experiment_path(e, e->folder, g->model);
    if (!path) return false;
    ns_load_options load = ns_default_load_options();
    ns_system_options options = ns_default_system_options();
    cli_model model = {0};
    ns_system* system = NULL;
    ns_workspace* work = NULL;
    double *x0 = NULL, *states = NULL;
    bool done = cli_model_load(path, &load, NULL, &model);
    if (done) {
        cli_model_apply(&model, &options);
        options.timestep = g->timestep;
        if (g->integrator >= 0) options.integrator = g->integrator;
        system = cli_create_system(model.model, &options);
        done = system != NULL;
    }
    if (done && ns_model_get_sizes(model.model).nq != g->nq) {
        cli_fail("%s has %u coordinates, but poses have %u", path,
                 ns_model_get_sizes(model.model).nq, g->nq);
        done = false;
    }
    if (done) {
        uint32_t nx = ns_system_get_sizes(system).nx;
        x0 = cli_zeros(nx);
        states = cli_zeros(((size_t)g->steps + 1) * nx);
        ns_workspace_size size = {.batch = 1, .steps = g->steps, .threads = 1};
        work = cli_create_workspace(system, &size);
        done = x0 && states && work;
    }
    for (uint32_t k = 0; done && k < g->npose; k++) {
        ns_error error;
        const char* table = experiment_path(e, g->folders[k], "truth.csv");
        memcpy(x0, g->poses[k], g->nq * sizeof *x0);
        ns_rollout_args args = {.batch = 1, .steps = g->steps, .x0 = x0, .states = states};
        done = table && experiment_make_folder(g->folders[k]);
        if (done && ns_rollout(system, work, &args, &error) != NS_OK) {
            cli_fail("%s", error.message);
            done = false;
        }
        done = done && write_states(g, system, table, states);
        done = done && experiment_copy(e, g->model, g->folders[k]);
        for (uint32_t m = 0; done && m < g->nmethod; m++) {
            done = write_method(g, &g->methods[m], g->folders[k]);
        }
        for (uint32_t i = 0; done && i < g->files.count; i++) {
            done = experiment_copy(e, g->files.data[i], g->folders[k]);
        }
    }
    free(x0);
    free(states);
    ns_workspace_free(work);
    ns_system_free(system);
    cli_model_free(&model);
    return done;
}

// ---- cells -------------------------------------------------------------------------------------

// A fit is loaded once for all cells of a pose and a method.
typedef struct worker {
    ns_fit* fit;
    uint32_t pose, which;
    uint64_t seed; // of the file
} worker;

static ns_status take_fit(const grid* g, worker* w, uint32_t pose, uint32_t which,
                          ns_error* error) {
    if (w->fit && w->pose == pose && w->which == which) return NS_OK;
    ns_fit_free(w->fit);
    w->fit = NULL;
    w->pose = pose;
    w->which = which;
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.yaml", g->folders[pose], g->methods[which].name);
    ns_status status = ns_fit_load(path, 1, &w->fit, error);
    if (status == NS_OK) w->seed = w->fit->plan->seed;
    return status;
}

static ns_status run_from(const grid* g, worker* w, uint32_t cell, ns_error* error) {
    double start[2];
    start_of(g, cell, start);
    w->fit->plan->seed = w->seed + cell; // each cell draws its own numbers
    ns_status status = ns_fit_set_initial(w->fit, g->names[0], start[0], error);
    if (status == NS_OK) status = ns_fit_set_initial(w->fit, g->names[1], start[1], error);
    return status == NS_OK ? ns_fit_run(w->fit, NULL, error) : status;
}

// Local optimisations of a run: a search has one for each start and stage.
static uint32_t count_runs(const ns_fit* fit) {
    uint32_t runs = 0;
    bool searches = fit->plan->search.solver != NULL;
    for (uint32_t k = 0; k < fit->answer.phases.count; k++) {
        bool search = searches && k == 0;
        runs += search ? fit->answer.phases.data[k].iterations * fit->plan->stages.count : 1;
    }
    return runs;
}

static ns_status run_cell(const grid* g, worker* w, uint32_t number, ns_error* error) {
    uint32_t cell = number % cell_count(g), which = number / cell_count(g) % g->nmethod;
    ns_status status = take_fit(g, w, number / cell_count(g) / g->nmethod, which, error);
    if (status != NS_OK) return status;
    result* out = &g->results[number];
    double began = nsi_clock_thread_cpu(), x[2];
    status = run_from(g, w, cell, error);
    out->seconds = nsi_clock_thread_cpu() - began;
    if (status == NS_ERR_NONFINITE) { // a start that leads nowhere is a result, too
        start_of(g, cell, x);
        *out = (result){.error = distance(g, x), .seconds = out->seconds, .runs = 1};
        return NS_OK;
    }
    if (status != NS_OK) return status;
    for (int k = 0; k < 2; k++) ns_fit_estimate(w->fit, g->names[k], &x[k], NULL);
    out->error = distance(g, x);
    out->found = fabs(x[0] - g->truth[0]) < g->tolerance && fabs(x[1] - g->truth[1]) < g->tolerance;
    out->runs = count_runs(w->fit);
    return NS_OK;
}

// Each result depends on its number only, not on the thread.
static void run_cells(grid* g) {
    uint32_t count = g->npose * g->nmethod * cell_count(g), done = 0;
    cli_progress progress = cli_progress_start(g->e->name);
    g->failed = NSI_NONE;
#ifdef _OPENMP
    int threads = g->e->threads > 0 ? (int)g->e->threads : omp_get_num_procs();
#pragma omp parallel num_threads(threads)
#endif
    {
        worker w = {.fit = NULL};
#ifdef _OPENMP
#pragma omp for schedule(dynamic)
#endif
        for (int k = 0; k < (int)count; k++) {
            ns_error error;
            bool needed;
#ifdef _OPENMP
#pragma omp critical(experiment_grid)
#endif
            needed = (uint32_t)k < g->failed;
            ns_status status = needed ? run_cell(g, &w, (uint32_t)k, &error) : NS_OK;
#ifdef _OPENMP
#pragma omp critical(experiment_grid)
#endif
            {
                cli_progress_update(&progress, ++done, count);
                if (status != NS_OK && (uint32_t)k < g->failed) {
                    g->failed = (uint32_t)k;
                    g->error = error;
                }
            }
        }
        ns_fit_free(w.fit);
    }
    cli_progress_end(&progress);
}

// Rollouts with Jacobian and normal equations, as in each iteration of LM, per second on one core.
static ns_status measure(grid* g, ns_error* error) {
    worker w = {.fit = NULL};
    nsi_objective* evaluator = NULL;
    ns_status status = take_fit(g, &w, 0, g->local, error);
    if (status == NS_OK) {
        const ns_fit* fit = w.fit;
        g->seed = w.seed;
        status =
            nsi_objective_create(fit->problem, fit->data[NS_ROLE_TRAIN],
                                 &fit->plan->stages.data[0].windows, NULL, 1, &evaluator, error);
        if (status == NS_OK) {
            memcpy(nsi_objective_point(evaluator).z, fit->z0, fit->nz * sizeof(double));
        }
    }
    double began = nsi_clock_wall(), seconds = 0.0, value;
    uint32_t count = 0;
    for (; status == NS_OK && seconds < 0.2; count++) {
        if (!nsi_objective_linearise(evaluator, &value)) {
            status = nsi_fail(error, NS_ERR_NONFINITE, "no derivatives at the first start");
        }
        seconds = nsi_clock_wall() - began;
    }
    if (seconds > 0.0) g->rollouts = count / seconds;
    nsi_objective_free(evaluator);
    ns_fit_free(w.fit);
    return status;
}

// The main method's answer from the cell furthest away, for the last pose.
static ns_status save_furthest(grid* g, ns_error* error) {
    uint32_t furthest = 0;
    double most = -1.0;
    for (uint32_t k = 0; k < cell_count(g); k++) {
        double start[2];
        start_of(g, k, start);
        if (distance(g, start) > most) most = distance(g, start), furthest = k;
    }
    worker w = {.fit = NULL};
    ns_status status = take_fit(g, &w, g->npose - 1, g->main, error);
    if (status == NS_OK) status = run_from(g, &w, furthest, error);
    if (status == NS_OK) status = ns_fit_save(w.fit, g->e->output, error);
    ns_fit_free(w.fit);
    return status;
}

// ---- numbers -----------------------------------------------------------------------------------

typedef struct summary {
    double success; // share of cells
    double runs_mean;
    uint32_t runs_max;
    double seconds;
} summary;

// Of a pose, or of all for NSI_NONE.
static summary summarise(const grid* g, uint32_t pose, uint32_t which) {
    summary s = {0};
    double count = 0.0;
    for (uint32_t p = 0; p < g->npose; p++) {
        if (pose != NSI_NONE && p != pose) continue;
        const result* r = results_of(g, p, which);
        for (uint32_t k = 0; k < cell_count(g); k++) {
            count++;
            s.success += r[k].found;
            s.runs_mean += r[k].runs;
            if (r[k].runs > s.runs_max) s.runs_max = r[k].runs;
            s.seconds += r[k].seconds;
        }
    }
    s.success /= count;
    s.runs_mean /= count;
    return s;
}

static void print_row(const grid* g, uint32_t pose, uint32_t which) {
    summary s = summarise(g, pose, which);
    char who[80] = "all", success[40];
    if (pose != NSI_NONE) {
        snprintf(who, sizeof who, "%u (%s", pose + 1, nsi_format_short(g->poses[pose][0], 3).text);
        for (uint32_t k = 1; k < g->nq && k < 4; k++) {
            size_t used = strlen(who);
            snprintf(who + used, sizeof who - used, ", %s",
                     nsi_format_short(g->poses[pose][k], 3).text);
        }
        strncat(who, ")", sizeof who - strlen(who) - 1);
    }
    snprintf(success, sizeof success, "%s %%", nsi_format_short(100.0 * s.success, 3).text);
    printf("%-16s %-32s %8s %10s %6u %9s\n", which == 0 ? who : "", g->methods[which].label,
           success, nsi_format(s.runs_mean, 2).text, s.runs_max, nsi_format(s.seconds, 2).text);
}

static void print_all(const grid* g) {
    const experiment* e = g->e;
    printf("%s\n%u x %u starts from %s to %s; truth %s %s, %s %s; found: both within %s\n\n",
           e->title, g->cells, g->cells, nsi_format_short(g->from, 3).text,
           nsi_format_short(g->to, 3).text, g->names[0], nsi_format_short(g->truth[0], 3).text,
           g->names[1], nsi_format_short(g->truth[1], 3).text,
           nsi_format_short(g->tolerance, 3).text);
    printf("%-16s %-32s %8s %10s %6s %9s\n", "pose", "method", "found", "LM runs", "most",
           "seconds");
    for (uint32_t p = 0; p <= g->npose; p++) {
        uint32_t pose = p < g->npose ? p : NSI_NONE;
        for (uint32_t m = 0; m < g->nmethod; m++) print_row(g, pose, m);
    }
    printf("\nseconds of one core; %s rollouts of %u steps with Jacobian per second on one core\n",
           nsi_format(g->rollouts, 3).text, g->steps);
    for (uint32_t k = 0; k < e->notes.count; k++) {
        printf("- %s\n", e->notes.data[k]);
    }
    printf("\n%s s in all\nmodel   %s/fitted.yaml\npage    %s/report.html\n",
           nsi_format(nsi_clock_wall() - e->began, 3).text, e->output, e->output);
}

static void add_success(ns_json* j, const grid* g, const char* name, uint32_t which) {
    char key[200];
    snprintf(key, sizeof key, "%s_success", name);
    ns_json_number(j, key, summarise(g, NSI_NONE, which).success);
    for (uint32_t p = 0; p < g->npose; p++) {
        snprintf(key, sizeof key, "%s_success_pose%u", name, p + 1);
        ns_json_number(j, key, summarise(g, p, which).success);
    }
}

static ns_json* make_json(const grid* g) {
    ns_json* j = experiment_begin_json(g->e, g->seed);
    ns_json_open(j, "metrics", '{');
    add_success(j, g, "global", g->main);
    for (uint32_t m = 0; m < g->nmethod; m++) {
        const char* name = g->methods[m].name;
        summary s = summarise(g, NSI_NONE, m);
        char key[200];
        add_success(j, g, name, m);
        snprintf(key, sizeof key, "%s_runs_mean", name);
        ns_json_number(j, key, s.runs_mean);
        snprintf(key, sizeof key, "%s_runs_max", name);
        ns_json_count(j, key, s.runs_max);
        snprintf(key, sizeof key, "%s_seconds", name);
        ns_json_number(j, key, s.seconds);
    }
    ns_json_number(j, "seconds", nsi_clock_wall() - g->e->began);
    ns_json_number(j, "rollouts_per_second", g->rollouts);
    ns_json_close(j);
    ns_json_open(j, "grid", '{');
    ns_json_open(j, "parameters", '[');
    for (int k = 0; k < 2; k++) ns_json_text(j, NULL, g->names[k]);
    ns_json_close(j);
    ns_json_numbers(j, "truth", g->truth, 2);
    ns_json_number(j, "tolerance", g->tolerance);
    ns_json_number(j, "from", g->from);
    ns_json_number(j, "to", g->to);
    ns_json_count(j, "cells", g->cells);
    ns_json_close(j);
    ns_json_open(j, "methods", '[');
    for (uint32_t m = 0; m < g->nmethod; m++) {
        ns_json_open(j, NULL, '{');
        ns_json_text(j, "name", g->methods[m].name);
        ns_json_text(j, "label", g->methods[m].label);
        ns_json_close(j);
    }
    ns_json_close(j);
    ns_json_text(j, "main", g->methods[g->main].name);
    ns_json_text(j, "compare", g->methods[g->local].name);
    ns_json_open(j, "poses", '[');
    for (uint32_t p = 0; p < g->npose; p++) {
        ns_json_open(j, NULL, '{');
        ns_json_numbers(j, "q", g->poses[p], g->nq);
        ns_json_open(j, "errors", '{'); // by start: rows of the second parameter
        for (uint32_t m = 0; m < g->nmethod; m++) {
            const result* r = results_of(g, p, m);
            ns_json_open(j, g->methods[m].name, '[');
            for (uint32_t k = 0; k < cell_count(g); k++) ns_json_number(j, NULL, r[k].error);
            ns_json_close(j);
        }
        ns_json_close(j);
        ns_json_close(j);
    }
    ns_json_close(j);
    return j;
}

// ---- page --------------------------------------------------------------------------------------

// Beside the page as a file, and in it.
static bool add_starts(const grid* g, uint32_t pose, double* values, nsi_text_builder* page) {
    uint32_t n = cell_count(g), which[2] = {g->local, g->main};
    for (int side = 0; side < 2; side++) {
        const result* r = results_of(g, pose, which[side]);
        for (uint32_t k = 0; k < n; k++) values[(size_t)side * n + k] = r[k].error;
    }
    nsi_starts starts = {.names = {g->names[0], g->names[1]},
                         .labels = {g->methods[g->local].label, g->methods[g->main].label},
                         .truth = {g->truth[0], g->truth[1]},
                         .from = g->from,
                         .to = g->to,
                         .cells = g->cells};
    const double* errors[2] = {values, values + n};
    nsi_figures charts;
    nsi_drawing figure = {0};
    ns_text text = {0};
    ns_error error;
    nsi_figures_init(NULL, &charts);
    ns_status status = nsi_starts_add_figure(&starts, pose, errors, &charts, &error);
    if (status == NS_OK) status = nsi_figure_draw(charts.list.data, NULL, &figure, &error);
    if (status == NS_OK) status = nsi_drawing_file(&figure, &text, &error);
    bool done = status == NS_OK;
    if (!done) cli_fail("%s", error.message);
    if (done) {
        char name[80];
        snprintf(name, sizeof name, "%s.svg", figure.name);
        nsi_html_drawing(page, &figure);
        done = experiment_write(g->e, name, &text);
    }
    ns_text_free(&text);
    nsi_drawing_free(&figure);
    nsi_figures_free(&charts);
    return done;
}

static void add_table(const grid* g, uint32_t pose, nsi_text_builder* page) {
    nsi_html_open_table(page, "<method|found|LM runs, mean|most|seconds");
    for (uint32_t m = 0; m < g->nmethod; m++) {
        summary s = summarise(g, pose, m);
        nsi_text_add(page, "<tr>");
        nsi_html_cell(page, "l", g->methods[m].label);
        nsi_text_add(page, "<td>%s %%</td>", nsi_format_short(100.0 * s.success, 3).text);
        nsi_html_number(page, s.runs_mean, 2);
        nsi_text_add(page, "<td>%u</td>", s.runs_max);
        nsi_html_number(page, s.seconds, 2);
        nsi_text_add(page, "</tr>\n");
    }
    nsi_html_close_table(page);
}

static bool make_page(const grid* g, nsi_text_builder* page) {
    bool done = true;
    double* values = cli_zeros(2 * (size_t)cell_count(g));
    if (!values) return false;
    experiment_open_page(g->e, page);
    nsi_text_add(
        page,
        "<p class=\"faint\">Every cell is a start; its colour is the distance between the "
        "truth (star) and where the method ended. Found: both parameters within %s. Seconds "
        "are those of one core, on which %s rollouts of %u steps with Jacobian take a "
        "second.</p>\n<h2>All poses</h2>\n",
        nsi_format_short(g->tolerance, 3).text, nsi_format(g->rollouts, 3).text, g->steps);
    add_table(g, NSI_NONE, page);
    for (uint32_t p = 0; p < g->npose && done; p++) {
        nsi_text_add(page, "<h2>Pose %u: released at rest from (", p + 1);
        for (uint32_t k = 0; k < g->nq; k++) {
            nsi_text_add(page, "%s%s", k > 0 ? ", " : "", nsi_format_short(g->poses[p][k], 4).text);
        }
        nsi_text_add(page, ") rad</h2>\n");
        done = add_starts(g, p, values, page);
        add_table(g, p, page);
    }
    experiment_close_page(g->e, page);
    free(values);
    return done;
}

static int run_all(grid* g) {
    if (!experiment_make_folder(g->e->output) || !simulate(g)) return EXIT_FAILED;
    run_cells(g);
    if (g->failed != NSI_NONE) return cli_fail("%s", g->error.message);
    ns_error error;
    ns_status status = measure(g, &error);
    if (status == NS_OK) status = save_furthest(g, &error);
    if (status != NS_OK) return cli_fail("%s", error.message);
    nsi_text_builder page = {.allocator = ns_default_allocator()};
    bool done = make_page(g, &page);
    ns_json* j = make_json(g);
    int code = experiment_finish(g->e, j, &page);
    if (done && code == EXIT_OK && !g->e->json) {
        print_all(g);
        code = cli_finish();
    }
    return done ? code : EXIT_FAILED;
}

int experiment_run_grid(experiment* e) {
    grid g = {.e = e};
    read_grid(&g);
    int code = experiment_complain(e);
    return code == EXIT_OK ? run_all(&g) : code;
}
