// Rollouts with networks: gradients, no change where the output is zero, batches, threads, memory.

#include "base/common.h"
#include "model/model_data.h"
#include "neuralsim/sim.h"
#include "sim/augment_rig.h"
#include "support/assert.h"
#include "support/check.h"
#include "support/malloccount.h"
#include "support/modelfile.h"
#include "support/testalloc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- gradients -----------------------------------------------------------------------------

typedef struct graded {
    const char *name, *model, *yaml;
    int integrator, contact;
    const char* free_params;
    double q, qd; // added to the first coordinates
} graded;

static const char swimmer_drag[] =
    "networks:\n  - name: drag\n    each: link/*\n    inputs: [\"{}/velocity/com/x\","
    " \"{}/velocity/com/y\", \"{}/velocity/angular/z\"]\n    outputs: [\"{}/force/x\","
    " \"{}/force/y\", \"{}/torque/z\"]\n    hidden: [5]\n    structure: [dissipative]\n"
    "    output_scale: 1.0e-3\n"
    "  - name: joints\n    inputs: [q/*, qd/*, \"lag2:control/*\"]\n    outputs: [joint/*/tau]\n"
    "    hidden: [4, 3]\n    activation: elu\n    output_scale: 1.0e-4\n";

static const char nearly_everywhere[] = NEARLY_EVERYWHERE;

static const char at_contacts[] =
    "networks:\n  - {name: a, each: contact/*/*, inputs: [\"{}/depth\", \"{}/velocity/normal\"],"
    " outputs: [\"{}/force/normal\"], hidden: [3], mode: scale}\n"
    "  - {name: b, inputs: [q/*], outputs: [contact/*/0/depth], hidden: [2], output_scale: "
    "[0.001]}\n";

static const graded all_graded[] = {
    {"swimmer, euler", "swimmer2.xml", swimmer_drag, NS_INTEGRATOR_EULER, -1, "link/*/mass", 0.1,
     0.3},
    {"pendulum, euler", pendulum, everywhere, NS_INTEGRATOR_EULER, -1, "**", 0.5, 0.7},
    {"pendulum, rk4", pendulum, nearly_everywhere, NS_INTEGRATOR_RK4, -1, "**", 0.5, 0.7},
    {"pendulum, implicit", pendulum, everywhere, NS_INTEGRATOR_IMPLICIT, -1, "**", 0.5, 0.7},
    {"delay", pendulum, delay, NS_INTEGRATOR_EULER, -1, "**", 0.5, 0.7},
    {"ball, springs", ball, at_contacts, NS_INTEGRATOR_EULER, NS_CONTACT_SPRING,
     "contact/*/stiffness", -0.003, -0.3},
    {"ball, springs, rk4", ball, at_contacts, NS_INTEGRATOR_RK4, NS_CONTACT_SPRING,
     "contact/*/stiffness", -0.003, -0.3},
    {"ball, impulses", ball, at_contacts, NS_INTEGRATOR_EULER, NS_CONTACT_NCP, "link/*/mass",
     -0.003, -0.3}};

enum { GRADED = sizeof all_graded / sizeof *all_graded };

// The swimmer weighs 31 g a link.
static double control_size(const char* model) {
    return strncmp(model, "swimmer", 7) == 0 ? 1e-4 : 1.0;
}

static rig graded_rig(const graded* c, ns_backend backend, uint32_t steps, ns_rng* rng) {
    ns_system_options o = ns_default_system_options();
    o.integrator = c->integrator;
    o.contact = c->contact;
    o.backend = backend;
    o.free_params = &c->free_params;
    o.nfree = 1;
    rig r = rig_make(c->model, c->yaml, &o, steps);
    double size = control_size(c->model);
    for (uint32_t k = 0; k < r.n.nw; k++) r.weights[k] = ns_rng_uniform(rng, -0.5, 0.5);
    for (uint32_t k = 0; k < r.n.nx; k++) {
        r.x0[k] += (k < r.nq ? c->q : c->qd) * ns_rng_uniform(rng, 0.9, 1.1);
    }
    for (size_t k = 0; k < (size_t)steps * r.n.nc; k++) {
        r.controls[k] = size * ns_rng_uniform(rng, -0.2, 0.2);
    }
    return r;
}

// The step: all backends, both modes, central differences.
static void steps_with_networks_pass_the_derivative_check(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(5);
    rig rigs[GRADED];
    check_batch* batch = check_batch_create();
    for (uint32_t n = 0; n < GRADED; n++) {
        rig* r = &rigs[n];
        *r = graded_rig(&all_graded[n], NS_BACKEND_INTERP, 1, &rng);
        double* in = doubles(r->n.nx + r->n.nc + r->n.np);
        memcpy(in, r->x0, r->n.nx * sizeof *in);
        memcpy(in + r->n.nx, r->controls, r->n.nc * sizeof *in);
        ns_system_default_params(r->system, in + r->n.nx + r->n.nc);
        const double* arrays[20];
        uint32_t narray = 0;
        for (uint32_t k = 0; k < ns_system_weight_matrix_count(r->system); k++) {
            ns_weight_matrix w = ns_system_weight_matrix(r->system, k);
            if (w.layer == 0) arrays[narray++] = r->weights + w.offset;
        }
        check_options check = {.name = all_graded[n].name, .seed = n, .c = CHECK_C_VJP};
        check_batch_add(batch, ns_system_graph(r->system), in, arrays, &check);
        free(in);
    }
    check_report report = check_batch_finish(batch);
    printf("    transpose %.1e, differences %.1e, %u of %u slopes undecided\n",
           report.transpose_error, report.difference_error, report.undecided, report.slopes);
    assert_true(report.undecided * 10 < report.slopes);
    for (uint32_t n = 0; n < GRADED; n++) rig_free(&rigs[n]);
}

// What a function of states is: sum of coefficients times states.
static double weighted(const rig* r, const double* seeds) {
    double sum = 0.0;
    for (size_t k = 0; k < (size_t)r->batch * (r->steps + 1) * r->n.nx; k++) {
        sum += seeds[k] * r->states[k];
    }
    return sum;
}

static double dot(const double* a, const double* b, size_t n) {
    double sum = 0.0;
    for (size_t k = 0; k < n; k++) sum += a[k] * b[k];
    return sum;
}

// Rollouts: reverse = forward = differences along a direction in weights, state, controls, parameters.
static void rollouts_have_gradients(void** state) {
    (void)state;
    enum { STEPS = 12 };
    for (uint32_t n = 0; n < GRADED; n++) {
        for (int backend = 0; backend < 2; backend++) {
            ns_rng rng = ns_rng_seed(60 + n);
            rig r = graded_rig(&all_graded[n], backend ? NS_BACKEND_NATIVE : NS_BACKEND_INTERP,
                               STEPS, &rng);
            size_t nstate = (STEPS + 1) * (size_t)r.n.nx, ncontrol = STEPS * (size_t)r.n.nc;
            double *seeds = doubles(nstate), *dstates = doubles(nstate);
            double* params = doubles(r.n.np);
            struct {
                double *at, *gradient, *direction, *start;
                size_t count;
            } in[4] = {{.at = r.x0, .count = r.n.nx},
                       {.at = r.controls, .count = ncontrol},
                       {.at = params, .count = r.n.np},
                       {.at = r.weights, .count = r.n.nw}};
            ns_system_default_params(r.system, params);
            for (size_t k = 0; k < nstate; k++) seeds[k] = ns_rng_uniform(&rng, -1.0, 1.0);
            for (int p = 0; p < 4; p++) {
                in[p].gradient = doubles(in[p].count);
                in[p].direction = doubles(in[p].count);
                in[p].start = doubles(in[p].count);
                for (size_t k = 0; k < in[p].count; k++) {
                    double size = p == 2 ? 0.1 * fabs(params[k]) : 1.0;
                    in[p].direction[k] = size * ns_rng_uniform(&rng, -1.0, 1.0);
                    if (p == 2 && params[k] == 0.0) in[p].direction[k] = 0.0;
                }
                memcpy(in[p].start, in[p].at, in[p].count * sizeof(double));
            }
            ns_rollout_args args = rig_args(&r);
            ns_error error = {0};
            args.params = params;
            ns_rollout_adjoint adjoint = {.state_seeds = seeds,
                                          .dx0 = in[0].gradient,
                                          .dcontrols = in[1].gradient,
                                          .dparams = in[2].gradient,
                                          .dweights = in[3].gradient};
            must(ns_rollout_vjp(r.system, r.work, &args, &adjoint, &error), &error);
            for (int p = 0; p < 4; p++) { // each kind by itself
                ns_rollout_tangent tangent = {.dx0 = p == 0 ? in[0].direction : NULL,
                                              .dcontrols = p == 1 ? in[1].direction : NULL,
                                              .dparams = p == 2 ? in[2].direction : NULL,
                                              .dweights = p == 3 ? in[3].direction : NULL,
                                              .dstates = dstates};
                must(ns_rollout_jvp(r.system, r.work, &args, &tangent, &error), &error);
                double reverse = dot(in[p].gradient, in[p].direction, in[p].count);
                double forward = dot(seeds, dstates, nstate);
                if (!(fabs(forward - reverse) <= 1e-9 * (1.0 + fabs(forward)))) {
                    fail_msg("%s, part %d: forward %.15g, reverse %.15g", all_graded[n].name, p,
                             forward, reverse);
                }
                double f[4], h = 1e-5;
                static const double offset[4] = {-2.0, -1.0, 1.0, 2.0};
                for (int e = 0; e < 4; e++) {
                    for (size_t k = 0; k < in[p].count; k++) {
                        in[p].at[k] = in[p].start[k] + h * offset[e] * in[p].direction[k];
                    }
                    must(ns_rollout(r.system, r.work, &args, &error), &error);
                    f[e] = weighted(&r, seeds);
                }
                memcpy(in[p].at, in[p].start, in[p].count * sizeof(double));
                double slope = (8.0 * (f[2] - f[1]) - (f[3] - f[0])) / (12.0 * h);
                if (!(fabs(slope - forward) <= 1e-6 * (1.0 + fabs(forward)))) {
                    fail_msg("%s, part %d: derivative %.12g, differences %.12g", all_graded[n].name,
                             p, forward, slope);
                }
                assert_true(forward != 0.0);
            }
            for (int p = 0; p < 4; p++) {
                free(in[p].gradient), free(in[p].direction), free(in[p].start);
            }
            free(seeds), free(dstates), free(params);
            rig_free(&r);
        }
    }
}

// ---- no change where the output is zero ----------------------------------------------------

// The last layer of every set to zero; hidden layers as they are.
static void zero_last_layers(rig* r) {
    for (uint32_t k = 0; k < ns_system_weight_matrix_count(r->system); k++) {
        ns_weight_matrix w = ns_system_weight_matrix(r->system, k);
        bool last = k + 1 == ns_system_weight_matrix_count(r->system) ||
                    ns_system_weight_matrix(r->system, k + 1).layer == 0;
        if (last) memset(r->weights + w.offset, 0, (size_t)w.rows * w.columns * sizeof(double));
    }
}

// Same numbers to the last bit; 0 and -0 are the same here: x + 0 is not -0.
static uint32_t count_changed(const char* what, const double* a, size_t stride_a, const double* b,
                              size_t stride_b, size_t rows, size_t count) {
    uint32_t changed = 0;
    for (size_t i = 0; i < rows; i++) {
        for (size_t k = 0; k < count; k++) {
            double x = a[i * stride_a + k], y = b[i * stride_b + k];
            if (x == y) continue;
            if (changed++ == 0) {
                printf("    %s: row %zu, number %zu is %.17g and %.17g\n", what, i, k, x, y);
            }
        }
    }
    return changed;
}

typedef struct unchanged {
    const char* model;
    const char* place; // "joint", "link", "contact", "qdd"...: of a network with zero output
    const char* yaml;
    int contact, integrator;
    const char* free_params; // of both, or NULL
    bool values_only;
} unchanged;

static void randomize(rig* r, double size, ns_rng* rng) {
    for (uint32_t k = 0; k < r->n.nc * r->steps; k++) {
        r->controls[k] = size * ns_rng_uniform(rng, -0.3, 0.3);
    }
    for (uint32_t k = 0; k < r->nq + ns_model_get_sizes(r->model).nv; k++) {
        r->x0[k] += ns_rng_uniform(rng, -0.1, 0.1);
    }
}

// The gradient of a sum of states, those of memory left out.
static void gradient_for_x0(rig* r, size_t shared, double* dx0) {
    size_t nx = r->n.nx;
    double* seeds = doubles((r->steps + 1) * nx);
    for (size_t s = 0; s <= r->steps; s++) {
        for (size_t k = 0; k < shared; k++) seeds[s * nx + k] = cos(1.0 + (double)(s * shared + k));
    }
    ns_rollout_args args = rig_args(r);
    ns_rollout_adjoint adjoint = {.state_seeds = seeds, .dx0 = dx0};
    ns_error error = {0};
    must(ns_rollout_vjp(r->system, r->work, &args, &adjoint, &error), &error);
    free(seeds);
}

static uint32_t count_changes(const unchanged* u, bool observe_more) {
    enum { STEPS = 25 };
    static const char* const observe[] = {"qdd", "energy", "link/*/velocity", "mass_matrix"};
    ns_system_options o = ns_default_system_options();
    o.contact = u->contact;
    o.integrator = u->integrator;
    o.observe = observe;
    o.nobserve = 3;
    o.free_params = &u->free_params;
    o.nfree = u->free_params ? 1 : 0;
    if (u->contact == NS_CONTACT_SPRING) o.timestep = 2e-5; // they start deep in the ground
    rig a = rig_make(u->model, NULL, &o, STEPS);
    if (observe_more) {
        static const char* const all[] = {"qdd", "energy", "link/*/velocity", "**"};
        o.observe = all;
        o.nobserve = 4;
    }
    rig b = rig_make(u->model, u->yaml, &o, STEPS);
    zero_last_layers(&b);
    ns_rng rng = ns_rng_seed(8), again = ns_rng_seed(8);
    randomize(&a, control_size(u->model), &rng);
    randomize(&b, control_size(u->model), &again);
    rig_run(&a);
    rig_run(&b);
    char what[200];
    uint32_t changed = 0;
    snprintf(what, sizeof what, "%.20s, %s, contact %d: states", u->model, u->place, u->contact);
    changed += count_changed(what, a.states, a.n.nx, b.states, b.n.nx, STEPS + 1, a.n.nx);
    snprintf(what, sizeof what, "%.20s, %s, contact %d: observed", u->model, u->place, u->contact);
    changed += count_changed(what, a.observations, a.n.ny, b.observations, b.n.ny, STEPS, a.n.ny);
    double *da = doubles(a.n.nx), *db = doubles(b.n.nx);
    gradient_for_x0(&a, a.n.nx, da);
    gradient_for_x0(&b, a.n.nx, db);
    snprintf(what, sizeof what, "%.20s, %s, contact %d: dx0", u->model, u->place, u->contact);
    if (!u->values_only) changed += count_changed(what, da, a.n.nx, db, a.n.nx, 1, a.n.nx);
    free(da), free(db);
    rig_free(&a);
    rig_free(&b);
    return changed;
}

#define AT_JOINTS(what)                                                                            \
    "networks:\n  - {name: n, each: joint/*, inputs: [q/*, qd/*], outputs: [\"{}/" what "\"],"     \
    " hidden: [4]}\n"

#define AT_ALL(what, mode)                                                                         \
    "networks:\n  - {name: n, inputs: [q/*, \"prev:qd/*\"], outputs: [" what "], hidden: [4],"     \
    " mode: " mode "}\n"

#define AT_LINKS                                                                                   \
    "networks:\n  - {name: n, each: link/*, inputs: [\"{}/velocity/com/x\","                       \
    " \"{}/velocity/com/y\", \"{}/velocity/angular/z\"], outputs: [\"{}/force/x\","                \
    " \"{}/force/y\", \"{}/force/z\", \"{}/torque/x\", \"{}/torque/y\", \"{}/torque/z\"],"         \
    " hidden: [4]}\n"

#define AT_CONTACTS(what)                                                                          \
    "networks:\n  - {name: n, each: contact/*/*, inputs: [q/0, qd/*], outputs: [\"{}/" what        \
    "\"], hidden: [4]}\n"

static void networks_of_zero_output_change_nothing(void** state) {
    (void)state;
    static const char* const models[] = {"double_pendulum.urdf",
                                         "swimmer2.xml",
                                         "arm7_mixed.urdf",
                                         "quadruped.urdf",
                                         "pendulum5_ground.xml",
                                         pendulum,
                                         ball,
                                         body};
    static const char* const contacts[] = {
        AT_CONTACTS("depth"),          AT_CONTACTS("velocity/normal"), AT_CONTACTS("force/normal"),
        AT_CONTACTS("force/tangent1"), AT_CONTACTS("force/elastic"),   AT_CONTACTS("force/damping"),
        AT_CONTACTS("friction")};
    uint32_t changed = 0, tried = 0;
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        const struct {
            const char *place, *yaml, *free_params;
        } where[] = {
            {"empty", "networks: []\n", NULL},
            {"tau", AT_JOINTS("tau"), NULL},
            {"damping", AT_JOINTS("force/damping"), NULL},
            {"friction", AT_JOINTS("force/friction"), NULL},
            {"damping scaled", AT_ALL("joint/*/force/damping", "scale"), NULL},
            {"qdd", AT_ALL("qdd/*", "add"), NULL},
            {"input tau", AT_ALL("tau/*", "add"), NULL},
            {"bias", AT_ALL("bias/*", "add"), NULL},
            {"links", AT_LINKS, NULL},
            {"velocities", AT_ALL("qd/*", "add"), NULL},
            {"mass", "networks:\n  - {name: n, inputs: [q/*], outputs: [link/*/mass]}\n",
             "link/*/mass"},
        };
        ns_model* model = load_model(models[m]);
        bool floating = model->links[0].def.joint_type == NS_JOINT_FLOATING;
        bool has_contact = model->sizes.ncontact > 0;
        ns_model_free(model);
        for (size_t k = 0; k < sizeof where / sizeof *where; k++) {
            if (floating && strstr(where[k].yaml, "each: joint")) continue;
            if (models[m] == body && strstr(where[k].yaml, "joint/*/force")) continue;
            // The ball does not turn.
            if (models[m] == ball && strcmp(where[k].place, "links") == 0) continue;
            if (strcmp(models[m], "swimmer2.xml") == 0 && strcmp(where[k].place, "mass") == 0)
                continue;
            for (int i = 0; i < (m < 3 || m == 5 ? 3 : 1); i++) {
                if (i == NS_INTEGRATOR_RK4 && strcmp(where[k].place, "velocities") == 0) continue;
                unchanged u = {models[m], where[k].place,       where[k].yaml, -1,
                               i,         where[k].free_params, false};
                // A slope of forces that is constant is folded into the masses as the step is
                // traced: only one that is not can be compared.
                if (i == NS_INTEGRATOR_IMPLICIT && !u.free_params) {
                    u.free_params = "joint/*/damping";
                }
                changed += count_changes(&u, false) > 0;
                tried++;
            }
        }
        for (int c = NS_CONTACT_NCP; has_contact && c <= NS_CONTACT_SPRING; c++) {
            unchanged u = {models[m], "links, contact", AT_LINKS, c, 0, NULL, false};
            if (models[m] != ball) changed += count_changes(&u, false) > 0;
            tried++;
            for (size_t k = 0; k < (c == NS_CONTACT_SPRING ? 7 : 4); k++) {
                u.place = u.yaml = contacts[k];
                // The force is -(a product), whose sign moves into what uses it; with a network it
                // stays, and adjoints are summed in another order.
                u.values_only = c == NS_CONTACT_SPRING && strstr(contacts[k], "tangent1") != NULL;
                changed += count_changes(&u, false) > 0;
                tried++;
            }
        }
    }
    printf("    %u of %u changed something\n", changed, tried);
    assert_int_equal(changed, 0);
}

static void observing_changes_nothing(void** state) {
    (void)state;
    static const char* const models[] = {"double_pendulum.urdf", "swimmer2.xml", "arm7_mixed.urdf",
                                         "quadruped.urdf", "pendulum5_ground.xml"};
    uint32_t changed = 0;
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        unchanged u = {models[m], "observe", NULL, -1, 0, NULL, false};
        changed += count_changes(&u, true) > 0;
    }
    assert_int_equal(changed, 0);
}

// ---- batches, threads, memory --------------------------------------------------------------

static rig swimmers(uint32_t batch, uint32_t steps, ns_rng* rng) {
    rig r = rig_make("swimmer2.xml", swimmer_drag, NULL, 1);
    ns_workspace_free(r.work);
    free(r.x0), free(r.controls), free(r.states), free(r.observations);
    rig_work(&r, batch, steps);
    for (size_t k = 0; k < (size_t)batch * r.n.nx; k++) r.x0[k] = ns_rng_uniform(rng, -0.5, 0.5);
    for (size_t k = 0; k < (size_t)batch * steps * r.n.nc; k++) {
        r.controls[k] = ns_rng_uniform(rng, -1e-4, 1e-4);
    }
    return r;
}

static void weight_gradient(const rig* r, ns_workspace* work, const double* seeds, double* dw) {
    ns_rollout_args args = rig_args(r);
    ns_rollout_adjoint adjoint = {.state_seeds = seeds, .dweights = dw};
    ns_error error = {0};
    must(ns_rollout_vjp(r->system, work, &args, &adjoint, &error), &error);
}

static void weight_gradients_do_not_depend_on_threads(void** state) {
    (void)state;
    static const uint32_t batches[] = {1, 2, 3, 5, 7, 130, 200};
    for (size_t n = 0; n < sizeof batches / sizeof *batches; n++) {
        uint32_t batch = batches[n], steps = 6;
        ns_rng rng = ns_rng_seed(n);
        rig r = swimmers(batch, steps, &rng);
        size_t nstate = (size_t)batch * (steps + 1) * r.n.nx, row = (steps + 1) * (size_t)r.n.nx;
        double* seeds = doubles(nstate);
        for (size_t k = 0; k < nstate; k++) seeds[k] = ns_rng_uniform(&rng, -1.0, 1.0);
        double *dw = doubles(r.n.nw), *other = doubles(r.n.nw), *sum = doubles(r.n.nw);
        weight_gradient(&r, r.work, seeds, dw);
        for (uint32_t threads = 1; threads <= 3; threads++) {
            for (int checkpoints = 0; checkpoints < 2; checkpoints++) {
                ns_workspace_size size = {.batch = batch, .steps = steps, .threads = threads};
                size.max_bytes = checkpoints ? threads * 14000 : 0;
                ns_workspace* work = NULL;
                ns_error error = {0};
                must(ns_workspace_create(r.system, &size, &work, &error), &error);
                weight_gradient(&r, work, seeds, other);
                for (uint32_t k = 0; k < r.n.nw; k++) {
                    assert_true(check_same_bits(dw[k], other[k]));
                }
                ns_workspace_free(work);
            }
        }
        // The sum of what each robot gives alone.
        for (uint32_t b = 0; b < batch; b++) {
            rig one = r;
            one.batch = 1;
            one.x0 = r.x0 + b * r.n.nx;
            one.controls = r.controls + (size_t)b * steps * r.n.nc;
            weight_gradient(&one, r.work, seeds + b * row, other);
            for (uint32_t k = 0; k < r.n.nw; k++) sum[k] += other[k];
        }
        for (uint32_t k = 0; k < r.n.nw; k++) {
            close_to("gradient of a weight", dw[k], sum[k], 1e-11 * (1.0 + fabs(sum[k])));
        }
        free(seeds), free(dw), free(other), free(sum);
        rig_free(&r);
    }
}

static void rolling_out_networks_allocates_nothing(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(3);
    rig r = swimmers(10, 20, &rng);
    double *seeds = doubles(10 * 21 * (size_t)r.n.nx), *dw = doubles(r.n.nw);
    double* dstates = doubles(10 * 21 * (size_t)r.n.nx);
    for (size_t k = 0; k < 10 * 21 * (size_t)r.n.nx; k++) seeds[k] = 1.0;
    ns_rollout_args args = rig_args(&r);
    ns_rollout_adjoint adjoint = {.state_seeds = seeds, .dweights = dw};
    ns_rollout_tangent tangent = {.dweights = r.weights, .dstates = dstates};
    unsigned long mallocs = 0;
    for (int n = 0; n < 4; n++) {
        if (n == 1) mallocs = malloc_calls; // the first round starts the threads
        assert_int_equal(ns_rollout(r.system, r.work, &args, NULL), NS_OK);
        assert_int_equal(ns_rollout_vjp(r.system, r.work, &args, &adjoint, NULL), NS_OK);
        assert_int_equal(ns_rollout_jvp(r.system, r.work, &args, &tangent, NULL), NS_OK);
    }
    assert_int_equal(malloc_calls, mallocs);
#ifdef COUNTS_MALLOC
    assert_true(malloc_calls > 0);
#endif
    free(seeds), free(dw), free(dstates);
    rig_free(&r);
}

static void memory_running_out_is_an_error(void** state) {
    (void)state;
    uint32_t failures = fail_each_system(pendulum, everywhere);
    printf("    %u allocations, each failed once\n", failures);
    assert_true(failures > 50);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_with_networks_pass_the_derivative_check),
        cmocka_unit_test(rollouts_have_gradients),
        cmocka_unit_test(networks_of_zero_output_change_nothing),
        cmocka_unit_test(observing_changes_nothing),
        cmocka_unit_test(weight_gradients_do_not_depend_on_threads),
        cmocka_unit_test(rolling_out_networks_allocates_nothing),
        cmocka_unit_test(memory_running_out_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
