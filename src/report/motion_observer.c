// From states to what is shown of them. A system of its own observes the quantities; each row is a
// robot that makes one step.

#include "report/motion_data.h"

#include "model/model_data.h"
#include "sim/system.h"

#include <math.h>
#include <stdio.h>

enum {
    CHUNK = 1024, // rows at a time
    POSE = 7,
    CONTACT = 6
};

// What is shown without being asked for, as far as the model has it. Names may have slashes in them.
static const char* const usual[] = {
    "link/**/pose/*", "joint/**/position",     "joint/**/velocity",  "joint/**/tau",     "energy/*",
    "com/*",          "contact/**/position/*", "contact/**/force/?", "contact/**/depth",
};
enum { NUSUAL = sizeof usual / sizeof *usual };

// A point of contact, by numbers of observations.
typedef struct point {
    const char* name; // "foot:ground/0"
    uint32_t part[CONTACT], depth;
} point;

struct ns_motion_observer {
    ns_allocator allocator;
    const ns_model* model;
    ns_system* system;
    ns_workspace* work;
    ns_system_sizes z;
    nsi_arena arena;
    nsi_index observations; // by name
    uint32_t* pose;         // (nlink x POSE) observations
    NSI_ARRAY(point) points;
    bool* listed; // (ny) is it a quantity of every track?
};

// ---- names -----------------------------------------------------------------------------------

// Number of an observation, or NSI_NONE.
static uint32_t observer_find(const ns_motion_observer* m, const char* name) {
    uint32_t hash = nsi_hash_bytes(name, strlen(name));
    for (uint32_t at = nsi_index_first(&m->observations, hash), id;
         nsi_index_at(&m->observations, at, &id); at = nsi_index_next(&m->observations, at)) {
        if (strcmp(ns_system_observation_name(m->system, id), name) == 0) return id;
    }
    return NSI_NONE;
}

// ---- creation --------------------------------------------------------------------------------

// Which of the usual quantities a step has. Networks add none of them.
static ns_status find_usual(const ns_model* model, const ns_system_options* options,
                            bool found[NUSUAL], ns_error* error) {
    nsi_step_options step = nsi_system_step_options(model, options);
    step.all_quantities = true;
    ns_graph* graph = NULL;
    ns_status status = nsi_step_trace(model, &step, &graph, error);
    if (status != NS_OK) return status;
    for (int k = 0; k < NUSUAL; k++) {
        found[k] = false;
        for (uint32_t i = 0; i < graph->quantities.count && !found[k]; i++) {
            found[k] = nsi_quantity_matches(usual[k], graph->quantities.data[i].name);
        }
    }
    ns_graph_free(graph);
    return NS_OK;
}

static ns_status observer_create_system(ns_motion_observer* m, const ns_system_options* options,
                                        const char* const* patterns, uint32_t npattern,
                                        ns_error* error) {
    bool found[NUSUAL];
    ns_system_options with = options ? *options : ns_default_system_options();
    ns_status status = nsi_system_check_options(&with, error);
    if (status == NS_OK) status = find_usual(m->model, &with, found, error);
    if (status != NS_OK) return status;
    const char** observe = nsi_arena_alloc(&m->arena, (NUSUAL + npattern) * sizeof *observe);
    if (!observe) return nsi_fail_nomem(error);
    with.observe = observe;
    with.nobserve = 0;
    for (int k = 0; k < NUSUAL; k++) {
        if (found[k]) observe[with.nobserve++] = usual[k];
    }
    for (uint32_t k = 0; k < npattern; k++) observe[with.nobserve++] = patterns[k];
    status = ns_system_create(m->model, &with, &m->system, error);
    if (status != NS_OK) return status;
    m->z = ns_system_get_sizes(m->system);
    return ns_workspace_create(m->system, &(ns_workspace_size){.batch = CHUNK, .steps = 1},
                               &m->work, error);
}

static bool index_observations(ns_motion_observer* m) {
    bool done = true;
    for (uint32_t k = 0; k < m->z.ny && done; k++) {
        const char* name = ns_system_observation_name(m->system, k);
        uint32_t hash = nsi_hash_bytes(name, strlen(name));
        done = nsi_index_insert(&m->allocator, &m->observations, hash, k);
    }
    return done;
}

static void find_poses(ns_motion_observer* m) {
    static const char* const parts[POSE] = {"x", "y", "z", "qw", "qx", "qy", "qz"};
    for (uint32_t k = 0; k < POSE * m->model->sizes.nlink; k++) {
        char name[NSI_MODEL_MAX_NAME + 20];
        const char* link = m->model->links[k / POSE].def.name;
        snprintf(name, sizeof name, "link/%s/pose/%s", link, parts[k % POSE]);
        m->pose[k] = observer_find(m, name);
        NS_ASSERT(m->pose[k] != NSI_NONE);
        m->listed[m->pose[k]] = false; // the viewer lists it
    }
}

// Point `index` of a pair; false when there is none.
static bool find_point(const ns_motion_observer* m, const char* pair, uint32_t index, point* out) {
    char name[NSI_PAIR_MAX_NAME + 64];
    for (int k = 0; k < CONTACT; k++) {
        snprintf(name, sizeof name, "contact/%s/%u/%s/%c", pair, index,
                 k < 3 ? "position" : "force", "xyz"[k % 3]);
        out->part[k] = observer_find(m, name);
    }
    snprintf(name, sizeof name, "contact/%s/%u/depth", pair, index);
    out->depth = observer_find(m, name);
    return out->depth != NSI_NONE;
}

static bool find_points(ns_motion_observer* m) {
    for (uint32_t i = 0; i < m->model->sizes.ncontact; i++) {
        const char* pair = m->model->contacts[i].def.name;
        point p;
        for (uint32_t k = 0; find_point(m, pair, k, &p); k++) {
            char name[NSI_PAIR_MAX_NAME + 16];
            int length = snprintf(name, sizeof name, "%s/%u", pair, k);
            p.name = nsi_arena_string(&m->arena, name, (size_t)length);
            if (!p.name || !nsi_array_push(&m->allocator, &m->points, p)) return false;
            for (int c = 0; c < CONTACT; c++) m->listed[p.part[c]] = false;
            m->listed[p.depth] = false;
        }
    }
    return true;
}

// What is asked for is listed, whatever else it belongs to, unless the viewer lists it.
static void list_asked(ns_motion_observer* m, const char* const* patterns, uint32_t npattern) {
    for (uint32_t k = 0; k < m->z.ny; k++) {
        const char* name = ns_system_observation_name(m->system, k);
        for (uint32_t p = 0; p < npattern; p++) {
            if (nsi_quantity_matches(patterns[p], name)) m->listed[k] = true;
        }
    }
    for (uint32_t k = 0; k < POSE * m->model->sizes.nlink; k++) m->listed[m->pose[k]] = false;
}

ns_status ns_motion_observer_create(const ns_model* model, const ns_system_options* options,
                                    const char* const* patterns, uint32_t npattern,
                                    ns_motion_observer** out, ns_error* error) {
    *out = NULL;
    ns_motion_observer* m = nsi_alloc_zeroed(&model->allocator, sizeof *m);
    if (!m) return nsi_fail_nomem(error);
    *m = (ns_motion_observer){
        .allocator = model->allocator, .model = model, .arena = {.allocator = model->allocator}};
    ns_status status = observer_create_system(m, options, patterns, npattern, error);
    if (status == NS_OK) {
        m->pose = nsi_arena_alloc(&m->arena, POSE * (size_t)model->sizes.nlink * sizeof *m->pose);
        m->listed = nsi_arena_alloc(&m->arena, m->z.ny * sizeof *m->listed);
        bool done = m->pose && m->listed && index_observations(m);
        for (uint32_t k = 0; k < m->z.ny && done; k++) m->listed[k] = true;
        if (done) find_poses(m);
        done = done && find_points(m);
        if (done) list_asked(m, patterns, npattern);
        if (!done) status = nsi_fail_nomem(error);
    }
    if (status == NS_OK) {
        *out = m;
    } else {
        ns_motion_observer_free(m);
    }
    return status;
}

void ns_motion_observer_free(ns_motion_observer* m) {
    if (!m) return;
    ns_allocator memory = m->allocator;
    ns_workspace_free(m->work);
    ns_system_free(m->system);
    nsi_array_free(&memory, &m->points);
    nsi_index_free(&memory, &m->observations);
    nsi_arena_free(&m->arena);
    nsi_free(&memory, m);
}

uint32_t ns_motion_observer_column_count(const ns_motion_observer* m) {
    const ns_model_sizes* n = &m->model->sizes;
    uint32_t count = POSE * n->nlink + (CONTACT + 1) * m->points.count;
    for (uint32_t k = 0; k < m->z.ny; k++) count += m->listed[k];
    return count + (m->z.nx - n->nq - n->nv) + m->z.nc;
}

// ---- evaluation ------------------------------------------------------------------------------

// Numbers of one track while it is made.
typedef struct evaluation {
    const ns_motion_states* rows;
    uint32_t nrow;
    double* y;        // (nrow x ny)
    double* x0;       // (CHUNK x nx)
    double* controls; // (CHUNK x nc)
    double* chunk;    // (CHUNK x ny)
    double* scratch;  // (nrow x the larger of nlink x POSE and CONTACT)
} evaluation;

static bool row_is_finite(const double* x, size_t count) {
    for (size_t k = 0; k < count; k++) {
        if (!isfinite(x[k])) return false;
    }
    return true;
}

static bool is_reached(const ns_motion_observer* m, const ns_motion_states* rows, size_t row) {
    return row_is_finite(rows->states + row * m->z.nx, m->z.nx) &&
           (!rows->controls || row_is_finite(rows->controls + row * m->z.nc, m->z.nc));
}

// Observations of up to CHUNK rows from `*row` on, which is moved past them.
static ns_status evaluate_chunk(ns_motion_observer* m, evaluation* e, uint32_t* row,
                                ns_error* error) {
    // Rows are evaluated as a batch of one-step rollouts.
    const ns_motion_states* rows = e->rows;
    size_t nx = m->z.nx, nc = m->z.nc, ny = m->z.ny;
    uint32_t from[CHUNK], count = 0;

    // Gather the states of the next rows; rows without finite numbers are skipped.
    for (; *row < e->nrow && count < CHUNK; ++*row) {
        if (!is_reached(m, rows, *row)) continue;
        memcpy(e->x0 + count * nx, rows->states + *row * nx, nx * sizeof(double));
        if (rows->controls) {
            memcpy(e->controls + count * nc, rows->controls + *row * nc, nc * sizeof(double));
        }
        // Remember where the results go.
        from[count++] = *row;
    }
    if (count == 0) return NS_OK;

    // A step from each state computes the quantities at that state.
    ns_rollout_args args = {.batch = count,
                            .steps = 1,
                            .x0 = e->x0,
                            .controls = rows->controls ? e->controls : NULL,
                            .params = rows->params,
                            .weights = rows->weights,
                            .observations = e->chunk};
    ns_status status = ns_rollout(m->system, m->work, &args, error);
    // A step may diverge, but the quantities at its start are valid.
    if (status != NS_OK && status != NS_ERR_NONFINITE) return status;

    // Scatter the observations back to their rows.
    for (uint32_t k = 0; k < count; k++) {
        memcpy(e->y + from[k] * ny, e->chunk + k * ny, ny * sizeof(double));
    }
    return NS_OK;
}

static ns_status observer_evaluate(ns_motion_observer* m, evaluation* e, ns_error* error) {
    const ns_motion_states* rows = e->rows;
    if ((rows->params && !row_is_finite(rows->params, m->z.np)) ||
        (rows->weights && !row_is_finite(rows->weights, m->z.nw))) {
        return nsi_fail(error, NS_ERR_NONFINITE, "a parameter or a weight is not finite");
    }
    for (size_t k = 0; k < (size_t)e->nrow * m->z.ny; k++) e->y[k] = NAN;
    ns_status status = NS_OK;
    for (uint32_t row = 0; row < e->nrow && status == NS_OK;) {
        status = evaluate_chunk(m, e, &row, error);
    }
    return status;
}

// ---- showing ---------------------------------------------------------------------------------

static ns_status show_poses(const ns_motion_observer* m, const evaluation* e, ns_motion* viewer,
                            ns_error* error) {
    uint32_t width = POSE * m->model->sizes.nlink;
    double* to = e->scratch;
    for (size_t row = 0; row < e->nrow; row++) {
        for (uint32_t k = 0; k < width; k++) *to++ = e->y[row * m->z.ny + m->pose[k]];
    }
    return ns_motion_set_poses(viewer, e->scratch, error);
}

// A point that touches at some time. Where it does not, there is nothing to see.
static ns_status show_point(const ns_motion_observer* m, const evaluation* e, const point* p,
                            ns_motion* viewer, ns_error* error) {
    bool touches = false;
    for (size_t row = 0; row < e->nrow; row++) {
        const double* y = e->y + row * m->z.ny;
        double* to = e->scratch + row * CONTACT;
        bool now = false;
        for (int k = 0; k < CONTACT; k++) to[k] = y[p->part[k]];
        for (int k = 3; k < CONTACT; k++) now = now || (isfinite(to[k]) && to[k] != 0.0);
        for (int k = 0; k < CONTACT && !now; k++) to[k] = NAN;
        touches = touches || now;
    }
    if (!touches) return NS_OK;
    ns_status status = ns_motion_add_contact(viewer, p->name, e->scratch, error);
    if (status != NS_OK || m->listed[p->depth]) return status;
    return ns_motion_add_quantity(viewer, ns_system_observation_name(m->system, p->depth), "m",
                                  e->y + p->depth, m->z.ny, error);
}

static ns_status show_quantities(const ns_motion_observer* m, const evaluation* e,
                                 ns_motion* viewer, ns_error* error) {
    ns_status status = NS_OK;
    for (uint32_t k = 0; k < m->z.ny && status == NS_OK; k++) {
        if (!m->listed[k]) continue;
        const char* name = ns_system_observation_name(m->system, k);
        status = ns_motion_add_quantity(viewer, name, ns_system_observation_unit(m->system, k),
                                        e->y + k, m->z.ny, error);
    }
    return status;
}

// States that are no coordinates: motors. What networks remember is shown as what it was.
static ns_status show_states(const ns_motion_observer* m, const evaluation* e, ns_motion* viewer,
                             ns_error* error) {
    ns_status status = NS_OK;
    for (uint32_t k = m->model->sizes.nq + m->model->sizes.nv; k < m->z.nx - m->z.nmemory; k++) {
        if (status != NS_OK) break;
        const char* name = ns_system_state_name(m->system, k);
        status = ns_motion_add_quantity(viewer, name, "", e->rows->states + k, m->z.nx, error);
    }
    return status;
}

// Controls that are not zero all the time.
static ns_status show_controls(const ns_motion_observer* m, const evaluation* e, ns_motion* viewer,
                               ns_error* error) {
    const double* c = e->rows->controls;
    uint32_t nu = m->model->sizes.nu;
    ns_status status = NS_OK;
    for (uint32_t k = 0; k < m->z.nc && c && status == NS_OK; k++) {
        bool any = false;
        for (size_t row = 0; row < e->nrow && !any; row++) {
            double value = c[row * m->z.nc + k];
            any = isfinite(value) && value != 0.0;
        }
        if (!any) continue;
        const char* unit = k >= nu ? nsi_force_unit(m->model, k - nu) : "";
        status = ns_motion_add_quantity(viewer, ns_system_control_name(m->system, k), unit, c + k,
                                        m->z.nc, error);
    }
    return status;
}

static ns_status observer_show(const ns_motion_observer* m, const evaluation* e, ns_motion* viewer,
                               ns_error* error) {
    if (e->rows->poses_only) return show_poses(m, e, viewer, error);
    ns_status status = show_quantities(m, e, viewer, error);
    if (status == NS_OK) status = show_states(m, e, viewer, error);
    if (status == NS_OK) status = show_controls(m, e, viewer, error);
    if (status == NS_OK) status = show_poses(m, e, viewer, error);
    for (uint32_t k = 0; k < m->points.count && status == NS_OK; k++) {
        status = show_point(m, e, &m->points.data[k], viewer, error);
    }
    return status;
}

ns_status ns_motion_observer_add_states(ns_motion_observer* m, ns_motion* viewer,
                                        const ns_motion_states* rows, ns_error* error) {
    evaluation e = {.rows = rows, .nrow = ns_motion_rows(viewer)};
    size_t width = POSE * (size_t)m->model->sizes.nlink;
    if (width < CONTACT) width = CONTACT;
    size_t numbers = e.nrow * (m->z.ny + width) + CHUNK * ((size_t)m->z.nx + m->z.nc + m->z.ny);
    e.y = nsi_alloc(&m->allocator, numbers * sizeof *e.y);
    if (!e.y) return nsi_fail_nomem(error);
    e.scratch = e.y + (size_t)e.nrow * m->z.ny;
    e.x0 = e.scratch + e.nrow * width;
    e.controls = e.x0 + CHUNK * (size_t)m->z.nx;
    e.chunk = e.controls + CHUNK * (size_t)m->z.nc;
    ns_status status = observer_evaluate(m, &e, error);
    if (status == NS_OK) status = observer_show(m, &e, viewer, error);
    nsi_free(&m->allocator, e.y);
    return status;
}
