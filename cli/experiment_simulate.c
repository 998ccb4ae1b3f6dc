// Recordings that an experiment makes itself: motions of a model, the truth, from random starts.

#include "experiment_fits.h"
#include "model_io.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_TRAJECTORIES = 100000, MOST_STEPS = 1000000, MOST_NUMBERS = 1 << 28 };

// An entry of `simulate`.
typedef struct truth {
    const nsi_yaml_node* node;
    const char *file, *model;
    uint32_t trajectories, stride, seed;
    double seconds, timestep;
    int integrator, friction;   // friction of ncp: 0 a cone, 1 a pyramid
    double noise;               // share of a column's root mean square about its mean
    const nsi_yaml_node* start; // {name: number or [low, high]}, or NULL
} truth;

typedef struct simulator {
    fits* f;
    truth of;
    cli_model model;
    ns_system* system;
    model_io io;
    ns_workspace* work;
    uint32_t steps, rows, columns; // rows of a trajectory; columns: coordinates and velocities
    double *low, *high;            // (nx) of the start state
    double *states, *table;        // of one trajectory, of all
} simulator;

static ns_status check_simulated(nsi_schema_reader* r, const nsi_yaml_node* map, void* out) {
    truth* t = out;
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
    {"file", NSI_KEY_TEXT, offsetof(truth, file), .required = true, .values = "name",
     .help = "a table in the folder `data` of the results, where fits find it by `folder: data`"},
    {"model", NSI_KEY_PATH, offsetof(truth, model), .required = true, .help = "the truth"},
    {"trajectories", NSI_KEY_COUNT, offsetof(truth, trajectories), 1, MOST_TRAJECTORIES,
     .fallback = "1",
     .help = "motions. Each draws its own numbers: more motions do not change the first, but for"
             " the size of their noise"},
    {"seconds", NSI_KEY_NUMBER, offsetof(truth, seconds), 1e-6, 1e6, .required = true,
     .help = "how long each motion is"},
    {"timestep", NSI_KEY_NUMBER, offsetof(truth, timestep), 1e-9, 10.0, .fallback = "(the model's)",
     .help = "s"},
    {"integrator", NSI_KEY_CHOICE, offsetof(truth, integrator), .choices = &ns_integrators,
     .fallback = "(the model's)", .help = ""},
    {"friction", NSI_KEY_CHOICE, offsetof(truth, friction), .choices = &ns_frictions,
     .fallback = "cone", .help = "of `ncp` contacts"},
    {"stride", NSI_KEY_COUNT, offsetof(truth, stride), 1, MOST_STEPS, .fallback = "1",
     .help = "rows are each so-many-th step"},
    {"initial_state", NSI_KEY_MAP, offsetof(truth, start), .values = "`{q_elbow: [-1, 1], qd0: 2}`",
     .fallback = "(the model's pose, at rest)",
     .help = "a number or `[low, high]` (uniform) for states by the names that `simulate` takes;"
             " quaternions are made unit length"},
    {"noise", NSI_KEY_NUMBER, offsetof(truth, noise), 0.0, 1e6, .fallback = "0",
     .help = "on every row, as a share of a column's standard deviation over all motions"},
    {"seed", NSI_KEY_COUNT, offsetof(truth, seed), .fallback = "1",
     .help = "two entries with the same seed and `initial_state` have the same motions: one to test"
             " on needs a seed of its own"},
};
const nsi_schema study_simulate_schema =
    NSI_SCHEMA("an entry of simulate", simulate_keys, check_simulated);

static bool read_simulated(fits* f, const nsi_yaml_node* n, truth* out) {
    *out = (truth){.integrator = -1};
    nsi_schema_defaults(&study_simulate_schema, out);
    return experiment_read(f->e, &study_simulate_schema, n, f, out);
}

bool fits_check_simulate(fits* f) {
    uint32_t count, made = 0;
    truth t;
    const nsi_yaml_node* n = experiment_list(f->e, f->e->yaml.root, "simulate", false, &count);
    if (count > 0) f->simulated = f->e->output;
    f->made = experiment_zeros(f->e, ((size_t)count + 1) * sizeof *f->made);
    if (!f->made) return false;
    for (; n; n = n->next) {
        if (!read_simulated(f, n, &t)) return false;
        f->made[made++] = t.file;
    }
    return f->e->status == NS_OK;
}

// Bounds of the start state.
static bool read_start(simulator* s) {
    experiment* e = s->f->e;
    ns_model_default_q(s->model.model, s->low);
    memcpy(s->high, s->low, s->io.z.nx * sizeof *s->low);
    for (const nsi_yaml_node* n = s->of.start ? s->of.start->first : NULL; n; n = n->next) {
        ns_io_target p = ns_io_names_find(s->io.names, n->key);
        if (p.kind != NS_IO_STATE) {
            experiment_fault(e, n,
                             "this is no state of the model: `neuralsim quantities` lists them");
            return experiment_complain(e), false;
        }
        uint32_t count = 2;
        double one[2], *bounds = one;
        if (n->type == NSI_YAML_LIST) {
            bounds = experiment_numbers(e, n, &count);
        } else if (e->status == NS_OK) {
            e->status = nsi_yaml_number(&e->yaml, n, -1e9, 1e9, one, &e->error);
            one[1] = one[0];
        }
        if (count != 2) experiment_fault(e, n, "expected a number, or [low, high]");
        if (e->status != NS_OK) return experiment_complain(e), false;
        s->low[p.index] = bounds[0];
        s->high[p.index] = bounds[1];
    }
    return true;
}

static bool make_simulator(simulator* s) {
    experiment* e = s->f->e;
    const char* path = experiment_path(e, e->folder, s->of.model);
    ns_load_options load = ns_default_load_options();
    ns_system_options options = ns_default_system_options();
    if (!path || !cli_model_load(path, &load, NULL, &s->model)) return false;
    cli_model_apply(&s->model, &options);
    if (s->of.timestep > 0.0) options.timestep = s->of.timestep;
    if (s->of.integrator >= 0) options.integrator = s->of.integrator;
    options.friction = (ns_friction)s->of.friction;
    s->system = cli_create_system(s->model.model, &options);
    if (!s->system || !model_io_create(&s->io, &s->model, s->system)) return false;
    const ns_system_sizes* z = &s->io.z;
    double steps = floor(s->of.seconds / z->timestep + 1e-6);
    s->columns = s->io.n.nq + s->io.n.nv;
    double numbers = (steps / s->of.stride + 1.0) * s->of.trajectories * s->columns;
    if (!(steps >= 1.0 && steps <= MOST_STEPS && numbers <= MOST_NUMBERS)) {
        return cli_fail("%s: a motion must have from one to %d steps, and all together at most %d"
                        " numbers",
                        s->of.file, MOST_STEPS, MOST_NUMBERS),
               false;
    }
    s->steps = (uint32_t)steps;
    s->rows = s->steps / s->of.stride + 1;
    s->low = cli_zeros(z->nx);
    s->high = cli_zeros(z->nx);
    s->states = cli_zeros(((size_t)s->steps + 2) * z->nx);
    s->table = cli_zeros((size_t)s->of.trajectories * s->rows * s->columns);
    s->work = cli_create_workspace(
        s->system, &(ns_workspace_size){.batch = 1, .steps = s->steps, .threads = 1});
    return s->low && s->high && s->states && s->table && s->work && read_start(s);
}

// Quaternions that were drawn number by number become rotations.
static void make_unit(const simulator* s, double* x0) {
    for (uint32_t k = 0; k < ns_model_get_sizes(s->model.model).nlink; k++) {
        uint32_t at = cli_joint_quaternion(s->model.model, k);
        if (at == NSI_NONE) continue;
        double *q = x0 + at, size = sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
        for (int i = 0; i < 4 && size > 0.0; i++) q[i] /= size;
    }
}

// Motion by motion: each draws its own numbers, so that more of them do not change the first.
static bool run_motions(simulator* s) {
    uint32_t nx = s->io.z.nx;
    double* x0 = s->states + ((size_t)s->steps + 1) * nx;
    for (uint32_t k = 0; k < s->of.trajectories; k++) {
        ns_rng rng = ns_rng_seed(((uint64_t)s->of.seed << 32) + k);
        for (uint32_t i = 0; i < nx; i++) {
            x0[i] =
                s->low[i] == s->high[i] ? s->low[i] : ns_rng_uniform(&rng, s->low[i], s->high[i]);
        }
        make_unit(s, x0);
        ns_rollout_args args = {.batch = 1, .steps = s->steps, .x0 = x0, .states = s->states};
        ns_error error;
        if (ns_rollout(s->system, s->work, &args, &error) != NS_OK) {
            return cli_fail("%s: motion %u: %s", s->of.file, k, error.message), false;
        }
        double* rows = s->table + (size_t)k * s->rows * s->columns;
        for (uint32_t r = 0; r < s->rows; r++) {
            memcpy(rows + (size_t)r * s->columns, s->states + (size_t)r * s->of.stride * nx,
                   s->columns * sizeof *rows);
        }
    }
    return true;
}

static void add_noise(simulator* s) {
    size_t count = (size_t)s->of.trajectories * s->rows;
    for (uint32_t c = 0; c < s->columns && s->of.noise > 0.0; c++) {
        double mean = 0.0, square = 0.0;
        for (size_t r = 0; r < count; r++) mean += s->table[r * s->columns + c] / (double)count;
        for (size_t r = 0; r < count; r++) {
            double off = s->table[r * s->columns + c] - mean;
            square += off * off / (double)count;
        }
        ns_rng rng = ns_rng_seed(~(((uint64_t)s->of.seed << 32) + c));
        for (size_t r = 0; r < count; r++) {
            s->table[r * s->columns + c] += s->of.noise * sqrt(square) * ns_rng_normal(&rng);
        }
    }
}

static bool write_table(simulator* s) {
    experiment* e = s->f->e;
    const char *folder = experiment_path(e, e->output, "data"),
               *path = folder ? experiment_path(e, folder, s->of.file) : NULL;
    size_t width = (size_t)s->columns + 2;
    const char** names = calloc(width, sizeof *names);
    double* line = cli_zeros(width);
    ns_table_writer* writer = NULL;
    bool done = path && names && line && experiment_make_folder(folder);
    done = done && (writer = cli_create_table(path)) != NULL;
    if (done) {
        names[0] = "traj";
        names[1] = "t";
        for (uint32_t c = 0; c < s->columns; c++) {
            names[c + 2] = model_io_state_name(&s->io, c, false);
        }
        ns_table_writer_put_names(writer, names, (uint32_t)width);
        for (size_t r = 0; r < (size_t)s->of.trajectories * s->rows; r++) {
            size_t motion = r / s->rows;
            line[0] = (double)motion;
            line[1] = (double)(r % s->rows) * s->of.stride * s->io.z.timestep;
            memcpy(line + 2, s->table + r * s->columns, s->columns * sizeof *line);
            ns_table_writer_put_row(writer, line, (uint32_t)width);
        }
        done = cli_finish_table(writer);
    }
    free(names);
    free(line);
    return done;
}

static void free_simulator(simulator* s) {
    free(s->low);
    free(s->high);
    free(s->states);
    free(s->table);
    ns_workspace_free(s->work);
    if (s->system) model_io_free(&s->io);
    ns_system_free(s->system);
    cli_model_free(&s->model);
}

bool fits_simulate(fits* f) {
    uint32_t count;
    bool done = true;
    const nsi_yaml_node* n = experiment_list(f->e, f->e->yaml.root, "simulate", false, &count);
    for (; n && done; n = n->next) {
        simulator s = {.f = f};
        done = read_simulated(f, n, &s.of) && make_simulator(&s) && run_motions(&s);
        if (done) add_noise(&s);
        done = done && write_table(&s);
        free_simulator(&s);
    }
    return done;
}
