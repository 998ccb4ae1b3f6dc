// neuralsim eval: quantities of a model at given states, and their derivatives.
//
// A rollout of one step observes the quantities at the start of the step. Derivatives are forward
// mode, one unit direction at a time over all rows of a block.

#include "cli.h"
#include "quantity_args.h"
#include "states.h"

#include <stdio.h>
#include <stdlib.h>

static const char help[] =
    "usage: neuralsim eval MODEL --states FILE.csv --quantity NAME... [OPTIONS]\n"
    "\n"
    "Computes quantities (see 'neuralsim quantities') for each row of a table of states.\n"
    "\n"
    "  --states FILE     columns q0.., qd0.., tau0.., or q_<joint>, qd_<joint>, tau_<joint>,\n"
    "                    u_<actuator>, or parameters by name; without one, the keyframe, or the\n"
    "                    default pose at rest. - is standard input\n"
    "  --keyframe NAME   start of columns that the table does not have; default without a\n"
    "                    table: the first one of the model\n"
    "  --quantity NAME.. qdd, mass_matrix, bias, energy/kinetic, link/<l>/pose, globs\n"
    "  --wrt NAME..      differentiate with respect to q, qd, tau, u, a component of them\n"
    "                    (q3, q_<joint>), or parameters\n"
    "  --tangent         differentiate along q * exp(dq), dq of size nv (body frame), instead\n"
    "                    of with respect to each component of a quaternion\n"
    "  --free GLOB..     parameters that columns or --set may change\n"
    "  --set PARAM=X..   values of parameters\n"
    "  -o FILE           write columns qdd0.., mass_matrix_0_0.., dqdd0/dq1..;\n"
    "                    default: standard output\n"
    "  --backend B       {backend}\n"
    "  --contact C       {contact}; default: the law of each pair\n"
    "  --friction F      friction of rigid contact: {friction}\n"
    "  --sweeps N        baumgarte: run N plain sweeps instead of solving exactly\n"
    "  --blueprint FILE  networks at quantities; --weights FILE: their weights\n"
    "  --ground          add the plane z = 0 unless the file has a plane\n"
    "  --floating-base, --self-collision, --no-self-collision, --package-path   see 'inspect "
    "--help'\n"
    "  --variant NAME, --strict   robot of a hybrid model; refuse what would be repaired\n"
    "\n"
    "example: accelerations of a pendulum and their derivatives with respect to the angles\n"
    "  neuralsim eval models/double_pendulum.urdf --states examples/double_pendulum_states.csv \\\n"
    "    --quantity qdd --wrt q\n";

// What to differentiate for: one number of state, control or parameters, or a rotation.
typedef struct direction {
    const char* name;
    ns_io_target target;
    uint32_t tangent; // velocity whose direction q moves in, or UINT32_MAX
} direction;

typedef struct eval_command {
    const char *model_path, *states_path, *keyframe, *output;
    cli_list quantities, wrt, free_params, set;
    bool tangent;
    cli_load load;
    int backend;
    cli_contact contact;
    cli_networks networks;

    cli_model source;
    const ns_model* model;
    ns_system* system;
    ns_table table;
    settings settings;
    model_io io;
    states states;
    double* params; // (np) without columns
    cli_pool pool;  // names
    direction* directions;
    uint32_t ndirection, capacity;
} eval_command;

// ---- directions ----------------------------------------------------------------------------

static bool add_direction(eval_command* c, const char* name, ns_io_target at, uint32_t tangent) {
    if (!name) return false;
    for (uint32_t k = 0; k < c->ndirection; k++) { // given twice, as in q q0
        if (strcmp(c->directions[k].name, name) == 0) return true;
    }
    if (c->ndirection == c->capacity &&
        !cli_grow((void**)&c->directions, &c->capacity, sizeof *c->directions)) {
        return false;
    }
    c->directions[c->ndirection++] = (direction){name, at, tangent};
    return true;
}

// "q<v>" for the tangent of velocity v.
static bool add_tangent(eval_command* c, uint32_t v) {
    return add_direction(c, cli_pool_format(&c->pool, "q%u", v),
                         (ns_io_target){NS_IO_STATE, UINT32_MAX}, v);
}

static bool add_states(eval_command* c, uint32_t first, uint32_t count) {
    bool ok = true;
    for (uint32_t k = first; k < first + count && ok; k++) {
        ok = add_direction(c, ns_system_state_name(c->system, k), (ns_io_target){NS_IO_STATE, k},
                           UINT32_MAX);
    }
    return ok;
}

static bool add_controls(eval_command* c, uint32_t first, uint32_t count) {
    bool ok = true;
    for (uint32_t k = first; k < first + count && ok; k++) {
        ok = add_direction(c, ns_system_control_name(c->system, k),
                           (ns_io_target){NS_IO_CONTROL, k}, UINT32_MAX);
    }
    return ok;
}

// A component of q, by index or joint, as a tangent: that of the velocity with the same name.
static bool add_named_tangent(eval_command* c, const char* name) {
    char velocity[1200];
    snprintf(velocity, sizeof velocity, "qd%.1100s", name + 1);
    ns_io_target p = ns_io_names_find(c->io.names, velocity);
    if (p.kind != NS_IO_STATE) {
        cli_fail("--wrt %s: with --tangent, components of q are numbered like velocities, and "
                 "there is no %s",
                 name, velocity);
        return false;
    }
    return add_direction(c, name, (ns_io_target){NS_IO_STATE, UINT32_MAX}, p.index - c->io.n.nq);
}

// Free parameters by name or glob; false when there is none.
static bool add_params(eval_command* c, const char* pattern) {
    bool found = false;
    for (uint32_t k = 0; k < c->io.z.np; k++) {
        const char* name = ns_system_param_name(c->system, k);
        if (!ns_glob_match(pattern, name)) continue;
        if (!add_direction(c, name, (ns_io_target){NS_IO_PARAM, k}, UINT32_MAX)) return false;
        found = true;
    }
    return found;
}

static int add_wrt(eval_command* c, const char* name) {
    ns_model_sizes n = c->io.n;
    bool ok = true;

    // Names of entire vectors.
    // Along the tangent space, quaternions have three directions.
    if (strcmp(name, "q") == 0 && c->tangent) {
        for (uint32_t v = 0; v < n.nv && ok; v++) ok = add_tangent(c, v);
    } else if (strcmp(name, "q") == 0) {
        ok = add_states(c, 0, n.nq);
    } else if (strcmp(name, "qd") == 0) {
        ok = add_states(c, n.nq, n.nv);
    } else if (strcmp(name, "u") == 0 && n.nu == 0) {
        return cli_usage("eval", "--wrt u: the model has no actuators");
    } else if (strcmp(name, "u") == 0) {
        ok = add_controls(c, 0, n.nu);
    } else if (strcmp(name, "tau") == 0) {
        ok = add_controls(c, n.nu, n.nv);
    } else {
        // Single components: coordinates along the tangent if requested, then inputs, then
        // parameters.
        ns_io_target p = ns_io_names_find(c->io.names, name);
        bool coordinate =
            (name[0] == 'q' && name[1] != 'd') || (p.kind == NS_IO_STATE && p.index < n.nq);
        // Full names contain a slash, and mean components of the state.
        if (c->tangent && coordinate && !strchr(name, '/')) {
            ok = add_named_tangent(c, name);
        } else if (p.kind != NS_IO_NONE) {
            ok = add_direction(c, name, p, UINT32_MAX);
        } else if (!add_params(c, name)) {
            return cli_usage(
                "eval",
                "--wrt: '%.100s' is neither q, qd, tau, u, one of their components, nor"
                " a parameter of the model",
                name);
        }
    }

    return ok ? EXIT_OK : EXIT_FAILED;
}

// Parameters among --wrt are set free without being asked to. Names of vectors fit no parameter.
static int free_wrt(eval_command* c) {
    for (uint32_t i = 0; i < c->wrt.count; i++) {
        bool found = false;
        for (uint32_t k = 0; k < ns_model_get_sizes(c->model).nparam && !found; k++) {
            found = ns_glob_match(c->wrt.items[i], ns_model_param(c->model, k)->name);
        }
        if (found && !cli_list_add(&c->free_params, c->wrt.items[i])) {
            return cli_usage("eval", "more than %d free parameters", CLI_MAX_LIST);
        }
    }
    return CLI_GO_ON;
}

// ---- evaluation ----------------------------------------------------------------------------

// Memory for a block of rows.
typedef struct block {
    uint32_t rows;       // most
    double* values;      // (rows x ny)
    double* derivatives; // (directions x rows x ny)
    double *dx, *dc, *dp;
    ns_workspace* work;
} block;

static bool block_create(const eval_command* c, block* b) {
    enum { BUDGET = 1 << 22 }; // numbers
    const ns_system_sizes* z = &c->io.z;
    size_t n = c->ndirection;
    size_t each = (size_t)z->ny * (n + 1) + z->nx + z->nc + z->np;
    size_t rows = BUDGET / each + 1;
    *b = (block){.rows = rows < c->states.count ? (uint32_t)rows : c->states.count};
    b->values = cli_zeros((size_t)b->rows * z->ny);
    b->derivatives = cli_zeros((size_t)b->rows * z->ny * n);
    b->dx = cli_zeros((size_t)b->rows * z->nx);
    b->dc = cli_zeros((size_t)b->rows * z->nc);
    b->dp = cli_zeros((size_t)b->rows * z->np);
    if (!b->values || !b->derivatives || !b->dx || !b->dc || !b->dp) return false;
    b->work = cli_create_workspace(c->system, &(ns_workspace_size){.batch = b->rows, .steps = 1});
    return b->work != NULL;
}

static void block_free(block* b) {
    free(b->values);
    free(b->derivatives);
    free(b->dx);
    free(b->dc);
    free(b->dp);
    ns_workspace_free(b->work);
}

// d/de q * exp(e w) for velocity v of the robot: itself, or for a rotation q (0, w) / 2.
static void tangent_of(const eval_command* c, const double* x, uint32_t v, double* dx) {
    const ns_model* model = c->model;
    for (uint32_t i = 0; i < c->io.n.nlink; i++) {
        uint32_t first = ns_model_joint_v(model, i), nv = cli_joint_nv(model, i);
        if (nv == 0 || v < first || v >= first + nv) continue;
        uint32_t plain = ns_joint_type_info(ns_model_link(model, i)->joint_type)->quaternion;
        uint32_t k = v - first;
        if (k < plain) {
            dx[ns_model_joint_q(model, i) + k] = 1.0;
            return;
        }
        uint32_t at = cli_joint_quaternion(model, i);
        const double w = x[at], a = x[at + 1], b = x[at + 2], d = x[at + 3];
        const double columns[3][4] = {{-a, w, d, -b}, {-b, -d, w, a}, {-d, b, -a, w}};
        for (uint32_t j = 0; j < 4; j++) dx[at + j] = 0.5 * columns[k - plain][j];
    }
}

static void set_direction(const eval_command* c, const direction* d, uint32_t first, uint32_t rows,
                          block* b) {
    const ns_system_sizes* z = &c->io.z;
    memset(b->dx, 0, (size_t)rows * z->nx * sizeof(double));
    memset(b->dc, 0, (size_t)rows * z->nc * sizeof(double));
    memset(b->dp, 0, (size_t)rows * z->np * sizeof(double));
    for (size_t row = 0; row < rows; row++) {
        if (d->tangent != UINT32_MAX) {
            tangent_of(c, c->states.x + (first + row) * z->nx, d->tangent, b->dx + row * z->nx);
        } else if (d->target.kind == NS_IO_STATE) {
            b->dx[row * z->nx + d->target.index] = 1.0;
        } else if (d->target.kind == NS_IO_CONTROL) {
            b->dc[row * z->nc + d->target.index] = 1.0;
        } else {
            b->dp[row * z->np + d->target.index] = 1.0;
        }
    }
}

static bool evaluate_block(const eval_command* c, uint32_t first, uint32_t rows, block* b) {
    const ns_system_sizes* z = &c->io.z;
    ns_error error;
    ns_rollout_args args = {.batch = rows,
                            .steps = 1,
                            .x0 = c->states.x + (size_t)first * z->nx,
                            .controls = c->states.c + (size_t)first * z->nc,
                            .params = c->states.params + (size_t)first * z->np,
                            .per_robot_params = true,
                            .observations = b->values};
    ns_status status = ns_rollout(c->system, b->work, &args, &error);
    args.observations = NULL;
    for (uint32_t k = 0; k < c->ndirection && status == NS_OK; k++) {
        set_direction(c, &c->directions[k], first, rows, b);
        ns_rollout_tangent tangent = {.dx0 = b->dx,
                                      .dcontrols = b->dc,
                                      .dparams = b->dp,
                                      .dobservations =
                                          b->derivatives + (size_t)k * b->rows * z->ny};
        status = ns_rollout_jvp(c->system, b->work, &args, &tangent, &error);
    }
    if (status == NS_OK) return true;
    cli_fail("%s from row %u on (robot 0): %s", c->states_path ? c->states_path : "state", first,
             error.message);
    return false;
}

// ---- output --------------------------------------------------------------------------------

static bool put_header(eval_command* c, ns_table_writer* writer) {
    uint32_t ny = c->io.z.ny, n = c->ndirection;
    const char** names = calloc((size_t)ny * (n + 1) + 1, sizeof *names);
    bool ok = names != NULL;
    if (!ok) cli_fail("out of memory");
    for (uint32_t i = 0; i < ny && ok; i++) {
        names[i] = quantity_column(&c->pool, ns_system_observation_name(c->system, i));
        ok = names[i] != NULL;
        for (uint32_t k = 0; k < n && ok; k++) {
            const char* name =
                cli_pool_format(&c->pool, "d%s/d%s", names[i], c->directions[k].name);
            ok = name != NULL;
            names[ny + (size_t)i * n + k] = name;
        }
    }
    if (ok) ns_table_writer_put_names(writer, names, ny * (n + 1));
    free(names);
    return ok;
}

static bool put_block_rows(const eval_command* c, const block* b, uint32_t rows,
                           ns_table_writer* writer) {
    uint32_t ny = c->io.z.ny, n = c->ndirection;
    double* line = cli_zeros((size_t)ny * (n + 1));
    if (!line) return false;
    for (size_t row = 0; row < rows; row++) {
        for (uint32_t i = 0; i < ny; i++) {
            line[i] = b->values[row * ny + i];
            for (size_t k = 0; k < n; k++) {
                line[ny + (size_t)i * n + k] = b->derivatives[(k * b->rows + row) * ny + i];
            }
        }
        ns_table_writer_put_row(writer, line, ny * (n + 1));
    }
    free(line);
    return ns_table_writer_ok(writer); // finishing the writer returns the reason
}

static int write_eval_table(eval_command* c) {
    block b;
    bool ok = block_create(c, &b);
    ns_table_writer* writer = ok ? cli_create_table(c->output) : NULL;
    if (writer) {
        ok = put_header(c, writer);
        for (uint32_t first = 0, rows; first < c->states.count && ok; first += rows) {
            rows = c->states.count - first < b.rows ? c->states.count - first : b.rows;
            ok = evaluate_block(c, first, rows, &b) && put_block_rows(c, &b, rows, writer);
        }
        ok = cli_finish_table(writer) && ok;
    } else {
        ok = false;
    }
    block_free(&b);
    return ok ? EXIT_OK : EXIT_FAILED;
}

// ---- command -------------------------------------------------------------------------------

static bool create_eval_system(eval_command* c) {
    ns_system_options options = ns_default_system_options();
    const char* observe[CLI_MAX_LIST];
    for (uint32_t k = 0; k < c->quantities.count; k++) {
        observe[k] = quantity_pattern(&c->pool, c->quantities.items[k]);
        if (!observe[k]) return false;
    }
    cli_model_apply(&c->source, &options);
    options.observe = observe;
    options.nobserve = c->quantities.count;
    options.free_params = c->free_params.items;
    options.nfree = c->free_params.count;
    options.backend = (ns_backend)c->backend;
    cli_set_contact(&c->contact, &options);
    // Implicit steps have accelerations of their own; these are the equations of motion.
    options.integrator = NS_INTEGRATOR_EXPLICIT;
    c->system = cli_create_system(c->model, &options);
    return c->system != NULL;
}

static int run_eval(eval_command* c) {
    if (!cli_model_load(c->model_path, &c->load, &c->networks, &c->source)) return EXIT_FAILED;
    c->model = c->source.model;
    cli_note_ignored(c->model, c->model_path);
    int code = settings_read("eval", &c->set, &c->settings, &c->free_params);
    if (code == CLI_GO_ON) code = free_wrt(c);
    if (code != CLI_GO_ON) return code;
    if (c->states_path && (!cli_read_table(c->states_path, &c->table) ||
                           !states_add_free(c->model, &c->table, &c->free_params))) {
        return EXIT_FAILED;
    }
    if (!create_eval_system(c) || !model_io_create(&c->io, &c->source, c->system))
        return EXIT_FAILED;
    for (uint32_t k = 0; k < c->wrt.count; k++) {
        code = add_wrt(c, c->wrt.items[k]);
        if (code != EXIT_OK) return code;
    }
    c->params = cli_zeros(c->io.z.np);
    const ns_keyframe_def* keyframe;
    if (!c->params || !cli_find_keyframe(c->model, c->keyframe, &keyframe)) return EXIT_FAILED;
    if (c->states_path && !c->keyframe) keyframe = NULL; // the table says what there is
    if (!settings_apply(&c->settings, c->model, c->system, c->params)) return EXIT_FAILED;
    bool ok = c->states_path ? states_read(&c->io, &c->table, c->states_path, UINT32_MAX, c->params,
                                           keyframe, &c->states)
                             : states_create(&c->io, 1, c->params, keyframe, &c->states);
    return ok ? write_eval_table(c) : EXIT_FAILED;
}

int cmd_eval(int argc, char** argv) {
    // Options, in the order of the help text.
    eval_command c = {.load.options = ns_default_load_options(), .contact = CLI_CONTACT_DEFAULT};
    const cli_row rows[] = {
        {"--states", CLI_TEXT, &c.states_path, "a CSV file"},
        {"--keyframe", CLI_TEXT, &c.keyframe, "a keyframe"},
        {"--quantity", CLI_LIST, &c.quantities, "names of quantities"},
        {"--wrt", CLI_LIST, &c.wrt, "variables to differentiate with respect to"},
        {"--tangent", CLI_FLAG, &c.tangent, NULL},
        {"--free", CLI_LIST, &c.free_params, "names of parameters"},
        {"--set", CLI_LIST, &c.set, "PARAMETER=NUMBER"},
        {"-o", CLI_TEXT, &c.output, "a file"},
        {"--backend", CLI_CHOICE, &c.backend, &ns_backends},
        CLI_CONTACT_ROWS(c.contact),
        CLI_NETWORK_ROWS(c.networks),
        CLI_LOAD_ROWS(c.load),
        {0}};

    // Validate the options before the model is loaded.
    cli_list arguments = {.count = 0};
    int code = cli_parse("eval", help, rows, argc, argv, &arguments);
    if (code != CLI_GO_ON) return code;
    c.model_path = cli_model_argument("eval", &arguments);
    if (!c.model_path) return EXIT_USAGE;
    // A quantity is required: there is no sensible default.
    if (c.quantities.count == 0) {
        return cli_usage("eval", "no --quantity given ('neuralsim quantities MODEL' lists them)");
    }
    // The tangent space matters for derivatives only.
    if (c.tangent && c.wrt.count == 0) return cli_usage("eval", "--tangent is for --wrt q");

    // Load the model, evaluate, and write the table.
    code = run_eval(&c);

    // Release everything here, whatever happened before.
    free(c.directions);
    free(c.params);
    states_free(&c.states);
    model_io_free(&c.io);
    settings_free(&c.settings);
    ns_table_free(&c.table);
    ns_system_free(c.system);
    cli_model_free(&c.source);
    cli_pool_free(&c.pool);
    return code;
}
