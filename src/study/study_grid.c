// Reads a study of kind `grid`: several methods estimate two parameters from simulated recordings, starting
// at every cell of a grid of initial values. It counts how often a method finds the truth, and at what cost.

#include "study/study_grid.h"

#include <float.h>
#include <stdio.h>

// ---- reading -----------------------------------------------------------------------------------

static ns_status grid_read_truth(nsi_schema_reader* r, const nsi_yaml_node* map, void* out) {
    study_grid* g = out;
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

static ns_status grid_check_method(nsi_schema_reader* r, const nsi_yaml_node* map, void* out) {
    (void)r;
    study_method* m = out;
    if (!m->label) m->label = m->name;
    m->node = map;
    return NS_OK;
}

static const nsi_schema_key grid_method_keys[] = {
    {"name", NSI_KEY_TEXT, offsetof(study_method, name), .required = true, .help = "of its files"},
    {"extends", NSI_KEY_OTHER, .values = "file, or name of a method before it",
     .help = "what the fit is but for its own keys; it reads `truth.csv`"},
    {"label", NSI_KEY_TEXT, offsetof(study_method, label), .fallback = "(the name)",
     .help = "in tables"},
};
const nsi_schema nsi_study_method_schema = {.what = "a method",
                                            .keys = grid_method_keys,
                                            .count =
                                                sizeof grid_method_keys / sizeof *grid_method_keys,
                                            .check = grid_check_method,
                                            .also = &nsi_fit_schema};

static const nsi_schema_key grid_simulate_keys[] = {
    {"steps", NSI_KEY_COUNT, offsetof(study_grid, steps), 1, 1000000, .fallback = "500",
     .help = ""},
    {"timestep", NSI_KEY_NUMBER, offsetof(study_grid, timestep), DBL_MIN, 10.0, .fallback = "0.01",
     .help = "s"},
    {"integrator", NSI_KEY_CHOICE, offsetof(study_grid, integrator), .choices = &ns_integrators,
     .fallback = "(the model's)", .help = ""},
};
const nsi_schema nsi_study_grid_simulate_schema = NSI_SCHEMA("simulate", grid_simulate_keys, NULL);

static ns_status grid_check_cells(nsi_schema_reader* r, const nsi_yaml_node* map, void* out) {
    const study_grid* g = out;
    if (g->from < g->to) return NS_OK;
    return nsi_yaml_fail(r->yaml, map, r->error, "`grid` needs a `from` below its `to`");
}

static const nsi_schema_key grid_cells_keys[] = {
    {"from", NSI_KEY_NUMBER, offsetof(study_grid, from), .help = "smallest initial value of both"},
    {"to", NSI_KEY_NUMBER, offsetof(study_grid, to), .help = "largest"},
    {"cells", NSI_KEY_COUNT, offsetof(study_grid, cells), 2, 100, .fallback = "11",
     .help = "in a row"},
};
const nsi_schema nsi_study_cells_schema = NSI_SCHEMA("grid", grid_cells_keys, grid_check_cells);

static const nsi_schema_key grid_smoke_keys[] = {
    {"cells", NSI_KEY_COUNT, offsetof(study_grid, smoke_cells), 2, 100, .fallback = "(all)",
     .help = "in a row, for `--quick`"},
    {"poses", NSI_KEY_COUNT, offsetof(study_grid, smoke_poses), 1, 100, .fallback = "(all)",
     .help = "for `--quick`"},
};
const nsi_schema nsi_study_grid_smoke_schema = NSI_SCHEMA("smoke", grid_smoke_keys, NULL);

static const nsi_schema_key grid_keys[] = {
    {"model", NSI_KEY_PATH, offsetof(study_grid, model), .required = true,
     .help = "the truth, a URDF or MJCF file"},
    {"files", NSI_KEY_TEXTS, offsetof(study_grid, files), .values = "list of files",
     .help = "what fits need besides the model, such as a map"},
    {"simulate", NSI_KEY_TABLE, 0, .table = &nsi_study_grid_simulate_schema,
     .help = "`{steps, timestep, integrator}` of the truth"},
    {"poses", NSI_KEY_OTHER, .values = "list of lists", .help = "coordinates, at rest"},
    {"grid", NSI_KEY_TABLE, 0, .table = &nsi_study_cells_schema, .required = true,
     .help = "`{from, to, cells}`: initial values of both"},
    {"truth", NSI_KEY_OTHER, .read = grid_read_truth, .required = true,
     .values = "`{NAME: value, NAME: value}`", .help = "of both parameters"},
    {"tolerance", NSI_KEY_NUMBER, offsetof(study_grid, tolerance), DBL_MIN, 1e300,
     .fallback = "1e-3", .help = "how near counts as found"},
    {"methods", NSI_KEY_OTHER, .values = "list", .help = "fits, run from every cell"},
    {"headline", NSI_KEY_TEXT, offsetof(study_grid, headline_name), .required = true,
     .values = "name", .help = "the method that is called `global` in metrics"},
    {"compare", NSI_KEY_TEXT, offsetof(study_grid, compare_name), .required = true,
     .values = "name", .help = "drawn beside it"},
    {"smoke", NSI_KEY_TABLE, 0, .table = &nsi_study_grid_smoke_schema,
     .help = "`{cells, poses}`: how many for `--quick`"},
};
const nsi_schema nsi_study_grid_schema = {.what = "a study on a grid",
                                          .keys = grid_keys,
                                          .count = sizeof grid_keys / sizeof *grid_keys,
                                          .also = &nsi_study_schema};

static void grid_read_methods(study_grid* g, const nsi_yaml_node* root) {
    ns_study* s = g->study;
    const nsi_yaml_node* list = nsi_yaml_find(root, "methods");
    if (!list || list->count == 0) nsi_study_fault(s, list ? list : root, "`methods` is missing");
    nsi_study_read_list(s, &nsi_study_method_schema, list, g, sizeof *g->methods, &g->methods,
                        &g->nmethod);
    g->headline = g->compare = NSI_NONE;
    for (uint32_t k = 0; k < g->nmethod && s->status == NS_OK; k++) {
        if (strcmp(g->methods[k].name, g->headline_name) == 0) g->headline = k;
        if (strcmp(g->methods[k].name, g->compare_name) == 0) g->compare = k;
    }
    if (g->headline == NSI_NONE || g->compare == NSI_NONE) {
        nsi_study_fault(s, root, "`headline` and `compare` must be names of methods");
    }
}

static void grid_read_poses(study_grid* g, const nsi_yaml_node* root, uint32_t most) {
    ns_study* s = g->study;
    uint32_t count, nq;
    const nsi_yaml_node* n = nsi_study_list(s, root, "poses", true, &count);
    g->poses = nsi_study_zeros(s, (count + 1) * sizeof *g->poses);
    g->folders = nsi_study_zeros(s, (count + 1) * sizeof *g->folders);
    for (; n && s->status == NS_OK && g->npose < most; n = n->next) {
        g->poses[g->npose++] = nsi_study_numbers(s, n, &nq);
        if (g->npose == 1) g->nq = nq;
        if (nq != g->nq) nsi_study_fault(s, n, "all poses have as many numbers");
    }
}

static bool grid_read(ns_study* s) {
    study_grid* g = nsi_study_zeros(s, sizeof *g);
    const nsi_yaml_node* root = s->yaml.root;
    if (!g) return false;
    s->grid = g;
    g->study = s;
    nsi_schema_defaults(&nsi_study_grid_schema, g);
    g->integrator = -1;
    if (!nsi_study_read(s, &nsi_study_grid_schema, root, g, g)) return false;

    // A smoke run has fewer cells and poses.
    uint32_t most = s->options.smoke && g->smoke_poses > 0 ? g->smoke_poses : 100;
    if (s->options.smoke && g->smoke_cells > 0) g->cells = g->smoke_cells;
    grid_read_methods(g, root);
    grid_read_poses(g, root, most);

    size_t cells = (size_t)g->npose * nsi_study_cell_count(g);
    g->results = nsi_study_zeros(s, (cells * g->nmethod + 1) * sizeof *g->results);
    g->errors = nsi_study_zeros(s, (2 * cells + 1) * sizeof *g->errors);
    return s->status == NS_OK;
}

// What `extends` of a method names, if that is a method before it.
typedef struct study_method_finder {
    const study_grid* g;
    const study_method* m;
} study_method_finder;

static const nsi_yaml_node* grid_find_method(void* context, const char* name) {
    const study_method_finder* finder = context;
    for (const study_method* m = finder->g->methods; m < finder->m; m++) {
        if (strcmp(m->name, name) == 0) return m->node;
    }
    return NULL;
}

bool nsi_study_write_method(study_grid* g, const study_method* m, const char* folder) {
    ns_study* s = g->study;
    char skip[NSI_SCHEMA_WORDS_SIZE], name[200];
    study_method_finder finder = {g, m};
    nsi_yaml tree = {0};
    ns_text text = {0};
    nsi_text_builder builder = {.allocator = ns_default_allocator()};
    bool done = nsi_study_take(
        s, nsi_yaml_derive(&s->yaml, m->node, nsi_schema_words(&nsi_study_method_schema, skip),
                           grid_find_method, &finder, NULL, &tree, &s->error));
    if (done) nsi_yaml_add_node(&builder, tree.root);
    ns_status status = nsi_text_finish(&builder, &text, done ? &s->error : NULL);

    snprintf(name, sizeof name, "%.150s.yaml", m->name);
    done = done && nsi_study_take(s, status) && nsi_study_write(s, folder, name, &text);
    ns_text_free(&text);
    nsi_yaml_free(&tree);
    return done;
}

// ------------------------------------------------------------------------------------------------

// Folders of the poses, below that of the run.
static bool grid_prepare(ns_study* s) {
    study_grid* g = s->grid;
    for (uint32_t k = 0; k < g->npose; k++) {
        char name[40];
        snprintf(name, sizeof name, "pose%u", k + 1);
        g->folders[k] = nsi_study_path(s, s->output, name);
    }
    return s->status == NS_OK;
}

static uint64_t grid_seed(const ns_study* s) {
    return s->grid->seed;
}

static void grid_free(ns_study* s) {
    (void)s; // all of it is in the arena
}

const study_kind nsi_study_kind_grid = {
    .name = "grid",
    .help = "one fit from every cell of a grid",
    .read = grid_read,
    .prepare = grid_prepare,
    .run = nsi_study_run_grid,
    .report = nsi_study_report_grid,
    .record = nsi_study_record_grid,
    .seed = grid_seed,
    .free = grid_free,
};
