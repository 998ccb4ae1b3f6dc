// Simulated recordings of a study: motions of a true model from random initial states.

#include "neuralsim/io_names.h"
#include "study/study_fits.h"

#include <math.h>

enum {
    SIMULATE_MAX_TRAJECTORIES = 100000,
    SIMULATE_MAX_STEPS = 1000000,
    SIMULATE_MAX_NUMBERS = 1 << 28
};

// An entry of `simulate`.
typedef struct study_truth {
    const nsi_yaml_node* node;
    const char *file, *model;
    uint32_t trajectories, stride, seed;
    double seconds, timestep;
    int integrator, friction;   // friction of ncp: 0 a cone, 1 a pyramid
    double noise;               // share of a column's root mean square about its mean
    const nsi_yaml_node* start; // {name: number or [low, high]}, or NULL
} study_truth;

typedef struct study_simulator {
    ns_study* study;
    study_truth of;
    ns_hybrid* hybrid;
    ns_system* system;
    ns_system_sizes sizes;
    ns_io_names* names;
    ns_workspace* work;
    uint32_t steps, rows, columns; // rows of a trajectory; columns: coordinates and velocities
    double *low, *high;            // (nx) of the start state
    double *states, *table;        // of one trajectory, of all
} study_simulator;

static ns_status simulate_check(nsi_schema_reader* r, const nsi_yaml_node* map, void* out) {
    study_truth* t = out;
    const nsi_yaml_node* file = nsi_yaml_find(map, "file");
    t->node = map;
    if (*t->file == '.' || strchr(t->file, '/')) {
        return nsi_yaml_fail(r->yaml, file, r->error,
                             "this must be the name of a file, not a path");
    }
    for (const nsi_yaml_node* other = map->parent->first; other != map; other = other->next) {
        if (strcmp(nsi_yaml_find(other, "file")->text, t->file) == 0) {
            return nsi_yaml_fail(r->yaml, file, r->error, "another entry before it has this file");
        }
    }
    return NS_OK;
}

static const nsi_schema_key simulate_keys[] = {
    {"file", NSI_KEY_TEXT, offsetof(study_truth, file), .required = true, .values = "name",
     .help = "a table in the folder `data` of the results, where fits find it by `folder: data`"},
    {"model", NSI_KEY_PATH, offsetof(study_truth, model), .required = true, .help = "the truth"},
    {"trajectories", NSI_KEY_COUNT, offsetof(study_truth, trajectories), 1,
     SIMULATE_MAX_TRAJECTORIES, .fallback = "1",
     .help = "motions. Each draws its own numbers: more motions do not change the first, but for"
             " the size of their noise"},
    {"seconds", NSI_KEY_NUMBER, offsetof(study_truth, seconds), 1e-6, 1e6, .required = true,
     .help = "how long each motion is"},
    {"timestep", NSI_KEY_NUMBER, offsetof(study_truth, timestep), 1e-9, 10.0,
     .fallback = "(the model's)", .help = "s"},
    {"integrator", NSI_KEY_CHOICE, offsetof(study_truth, integrator), .choices = &ns_integrators,
     .fallback = "(the model's)", .help = ""},
    {"friction", NSI_KEY_CHOICE, offsetof(study_truth, friction), .choices = &ns_frictions,
     .fallback = "cone", .help = "of `ncp` contacts"},
    {"stride", NSI_KEY_COUNT, offsetof(study_truth, stride), 1, SIMULATE_MAX_STEPS, .fallback = "1",
     .help = "rows are each so-many-th step"},
    {"initial_state", NSI_KEY_MAP, offsetof(study_truth, start),
     .values = "`{q_elbow: [-1, 1], qd0: 2}`", .fallback = "(the model's pose, at rest)",
     .help = "a number or `[low, high]` (uniform) for states by the names that `simulate` takes;"
             " quaternions are made unit length"},
    {"noise", NSI_KEY_NUMBER, offsetof(study_truth, noise), 0.0, 1e6, .fallback = "0",
     .help = "on every row, as a share of a column's standard deviation over all motions"},
    {"seed", NSI_KEY_COUNT, offsetof(study_truth, seed), .fallback = "1",
     .help = "two entries with the same seed and `initial_state` have the same motions: one to test"
             " on needs a seed of its own"},
};
const nsi_schema nsi_study_simulate_schema =
    NSI_SCHEMA("an entry of simulate", simulate_keys, simulate_check);

static bool simulate_read(study_fits* f, const nsi_yaml_node* n, study_truth* out) {
    *out = (study_truth){.integrator = -1};
    nsi_schema_defaults(&nsi_study_simulate_schema, out);
    return nsi_study_read(f->study, &nsi_study_simulate_schema, n, f, out);
}

bool nsi_study_check_simulate(study_fits* f) {
    ns_study* s = f->study;
    uint32_t count, made = 0;
    study_truth t;
    const nsi_yaml_node* n = nsi_study_list(s, s->yaml.root, "simulate", false, &count);
    f->simulates = count > 0;
    f->made = nsi_study_zeros(s, ((size_t)count + 1) * sizeof *f->made);
    if (!f->made) return false;
    for (; n; n = n->next) {
        if (!simulate_read(f, n, &t)) return false;
        f->made[made++] = t.file;
    }
    return s->status == NS_OK;
}

// ---- simulation --------------------------------------------------------------------------------

// Bounds of the start state.
static bool simulate_read_start(study_simulator* m) {
    ns_study* s = m->study;

    // Default: each state at its initial value in the model.
    ns_model_default_q(ns_hybrid_model(m->hybrid), m->low);
    memcpy(m->high, m->low, m->sizes.nx * sizeof *m->low);

    // Override the states that the file names.
    for (const nsi_yaml_node* n = m->of.start ? m->of.start->first : NULL; n; n = n->next) {
        ns_io_target target = ns_io_names_find(m->names, n->key);
        // Controls and observations have no initial value.
        if (target.kind != NS_IO_STATE) {
            nsi_study_fault(s, n,
                            "this is no state of the model: `neuralsim quantities` lists them");
            return false;
        }

        // A single number fixes the state; [low, high] is a range.
        uint32_t count = 2;
        double one[2] = {0.0, 0.0}, *bounds = one;
        if (n->type == NSI_YAML_LIST) {
            bounds = nsi_study_numbers(s, n, &count);
        } else if (s->status == NS_OK) {
            s->status = nsi_yaml_number(&s->yaml, n, -1e9, 1e9, one, &s->error);
            one[1] = one[0];
        }
        // A list of another length is reported at its line.
        if (count != 2) nsi_study_fault(s, n, "expected a number, or [low, high]");
        if (s->status != NS_OK) return false;
        // Quaternions are normalised later, when a state has been drawn.
        m->low[target.index] = bounds[0];
        m->high[target.index] = bounds[1];
    }
    return true;
}

// The system with its names.
static bool simulate_load(study_simulator* m) {
    ns_study* s = m->study;
    ns_system_options options = ns_default_system_options();
    const char* path = nsi_study_path(s, s->folder, m->of.model);
    if (!nsi_study_load_model(s, path, NULL, &m->hybrid)) return false;
    ns_hybrid_apply(m->hybrid, &options);
    options.blueprint = ns_hybrid_blueprint(m->hybrid);
    if (m->of.timestep > 0.0) options.timestep = m->of.timestep;
    if (m->of.integrator >= 0) options.integrator = m->of.integrator;
    options.friction = (ns_friction)m->of.friction;

    const ns_model* model = ns_hybrid_model(m->hybrid);
    if (!nsi_study_take(s, ns_system_create(model, &options, &m->system, &s->error)) ||
        !nsi_study_take(s, ns_io_names_create(m->system, &m->names, &s->error))) {
        return false;
    }
    if (!ns_io_names_by_joint(m->names)) {
        nsi_study_note(s, "%s: names by joint would be ambiguous; by index (q0) they are not",
                       m->of.model);
    }
    m->sizes = ns_system_get_sizes(m->system);
    m->columns = ns_model_get_sizes(model).nq + ns_model_get_sizes(model).nv;
    return true;
}

static bool simulate_prepare(study_simulator* m) {
    ns_study* s = m->study;
    // Model, system and names of the states.
    if (!simulate_load(m)) return false;

    // Number of steps and rows; the tolerance absorbs rounding of the quotient.
    double steps = floor(m->of.seconds / m->sizes.timestep + 1e-6);
    double numbers = (steps / m->of.stride + 1.0) * m->of.trajectories * m->columns;
    // Bound run time and memory before anything is allocated.
    if (!(steps >= 1.0 && steps <= SIMULATE_MAX_STEPS && numbers <= SIMULATE_MAX_NUMBERS)) {
        return nsi_study_fail(s, NS_ERR_LIMIT,
                              "%s: a motion must have from one to %d steps, and all together at"
                              " most %d numbers",
                              m->of.file, SIMULATE_MAX_STEPS, SIMULATE_MAX_NUMBERS);
    }
    // Every stride-th state is recorded, and the initial one.
    m->steps = (uint32_t)steps;
    m->rows = m->steps / m->of.stride + 1;

    // Allocate the states of one trajectory and the table of all.
    uint32_t nx = m->sizes.nx;
    ns_workspace_size size = {.batch = 1, .steps = m->steps, .threads = 1};
    m->low = nsi_alloc_zeroed(NULL, nx * sizeof(double));
    m->high = nsi_alloc_zeroed(NULL, nx * sizeof(double));
    // One more state than steps + 1: scratch for the initial state.
    m->states = nsi_alloc_zeroed(NULL, ((size_t)m->steps + 2) * nx * sizeof(double));
    m->table =
        nsi_alloc_zeroed(NULL, (size_t)m->of.trajectories * m->rows * m->columns * sizeof(double));
    if (!m->low || !m->high || !m->states || !m->table) return nsi_study_fail_nomem(s);

    // Check the range of initial states before anything is simulated.
    return nsi_study_take(s, ns_workspace_create(m->system, &size, &m->work, &s->error)) &&
           simulate_read_start(m);
}

// Quaternions that were drawn number by number become rotations.
static void simulate_make_unit(const study_simulator* m, double* x0) {
    const ns_model* model = ns_hybrid_model(m->hybrid);
    for (uint32_t k = 0; k < ns_model_get_sizes(model).nlink; k++) {
        uint32_t first = ns_model_joint_q(model, k);
        const ns_joint_info* info = ns_joint_type_info(ns_model_link(model, k)->joint_type);
        if (first == UINT32_MAX || !info || info->quaternion >= info->nq) continue;
        double* q = x0 + first + info->quaternion;
        double size = sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
        for (int i = 0; i < 4 && size > 0.0; i++) q[i] /= size;
    }
}

// Motion by motion: each draws its own numbers, so that more of them do not change the first.
static bool simulate_motions(study_simulator* m) {
    uint32_t nx = m->sizes.nx;
    // Scratch for the initial state, behind those of the trajectory.
    double* x0 = m->states + ((size_t)m->steps + 1) * nx;
    for (uint32_t k = 0; k < m->of.trajectories; k++) {
        // Initial state: fixed, or drawn uniformly between its bounds.
        ns_rng rng = ns_rng_seed(((uint64_t)m->of.seed << 32) + k);
        for (uint32_t i = 0; i < nx; i++) {
            bool fixed = m->low[i] == m->high[i];
            x0[i] = fixed ? m->low[i] : ns_rng_uniform(&rng, m->low[i], m->high[i]);
        }
        // Drawn quaternions are not of unit length.
        simulate_make_unit(m, x0);

        // Passive motion: no controls.
        ns_rollout_args args = {.batch = 1, .steps = m->steps, .x0 = x0, .states = m->states};
        ns_error error;
        ns_status status = ns_rollout(m->system, m->work, &args, &error);
        // A diverging trajectory is an error: the data set must be complete.
        if (status != NS_OK) {
            return nsi_study_fail(m->study, status, "%s: motion %u: %s", m->of.file, k,
                                  error.message);
        }

        // Keep every stride-th state, without the internal state of networks.
        double* rows = m->table + (size_t)k * m->rows * m->columns;
        for (uint32_t r = 0; r < m->rows; r++) {
            memcpy(rows + (size_t)r * m->columns, m->states + (size_t)r * m->of.stride * nx,
                   m->columns * sizeof *rows);
        }
    }
    return true;
}

// Noise of each column as a share of its standard deviation.
static void simulate_add_noise(study_simulator* m) {
    size_t count = (size_t)m->of.trajectories * m->rows;
    for (uint32_t c = 0; c < m->columns && m->of.noise > 0.0; c++) {
        double mean = 0.0, square = 0.0;
        for (size_t r = 0; r < count; r++) mean += m->table[r * m->columns + c] / (double)count;
        for (size_t r = 0; r < count; r++) {
            double off = m->table[r * m->columns + c] - mean;
            square += off * off / (double)count;
        }
        ns_rng rng = ns_rng_seed(~(((uint64_t)m->of.seed << 32) + c));
        for (size_t r = 0; r < count; r++) {
            m->table[r * m->columns + c] += m->of.noise * sqrt(square) * ns_rng_normal(&rng);
        }
    }
}

// Columns: traj, t, states by name.
static void simulate_put_rows(const study_simulator* m, ns_table_writer* writer, const char** names,
                              double* line) {
    uint32_t width = m->columns + 2;
    names[0] = "traj";
    names[1] = "t";
    for (uint32_t c = 0; c < m->columns; c++) names[c + 2] = ns_io_names_state(m->names, c);
    ns_table_writer_put_names(writer, names, width);
    for (size_t r = 0; r < (size_t)m->of.trajectories * m->rows; r++) {
        size_t motion = r / m->rows;
        line[0] = (double)motion;
        line[1] = (double)(r % m->rows) * m->of.stride * m->sizes.timestep;
        memcpy(line + 2, m->table + r * m->columns, m->columns * sizeof *line);
        ns_table_writer_put_row(writer, line, width);
    }
}

static bool simulate_write(study_simulator* m) {
    ns_study* s = m->study;
    const char* folder = nsi_study_path(s, s->output, "data");
    const char* path = folder ? nsi_study_path(s, folder, m->of.file) : NULL;
    const char** names = nsi_study_zeros(s, ((size_t)m->columns + 2) * sizeof *names);
    double* line = nsi_study_zeros(s, ((size_t)m->columns + 2) * sizeof *line);
    ns_table_writer* writer = NULL;
    if (!path || !names || !line || !nsi_study_make_folder(s, folder) ||
        !nsi_study_take(s, ns_table_writer_create(path, NULL, &writer, &s->error))) {
        return false;
    }
    simulate_put_rows(m, writer, names, line);
    return nsi_study_take(s, ns_table_writer_finish(writer, &s->error));
}

static void simulate_free(study_simulator* m) {
    nsi_free(NULL, m->low);
    nsi_free(NULL, m->high);
    nsi_free(NULL, m->states);
    nsi_free(NULL, m->table);
    ns_workspace_free(m->work);
    ns_io_names_free(m->names);
    ns_system_free(m->system);
    ns_hybrid_free(m->hybrid);
}

bool nsi_study_simulate(study_fits* f) {
    ns_study* s = f->study;
    uint32_t count;
    bool done = true;
    const nsi_yaml_node* n = nsi_study_list(s, s->yaml.root, "simulate", false, &count);
    for (; n && done; n = n->next) {
        study_simulator m = {.study = s};
        done = simulate_read(f, n, &m.of) && simulate_prepare(&m) && simulate_motions(&m);
        if (done) simulate_add_noise(&m);
        done = done && simulate_write(&m);
        simulate_free(&m);
    }
    return done;
}
