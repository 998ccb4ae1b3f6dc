// Gradients through contact that has come to rest (section by section: docs/contact-gradients.md).
// At rest a step must not enlarge anything: the spectral radius of its derivative is 1, the
// derivative of thousands of steps stays small, and it is the right one.

#include "base/common.h"
#include "support/assert.h"
#include "support/modelfile.h"
#include "support/trial.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { NX = 10, STARTS = 30, STEPS = 5000 }; // five joints

static ns_system_options friction_options(int friction) {
    ns_system_options options = ns_default_system_options();
    options.friction = (ns_friction)friction;
    return options;
}

// The spectral radius, from the growth of high powers by repeated squaring.
static double spectral_radius(const double* J, uint32_t n) {
    enum { MOST = 13 };
    double P[MOST * MOST], Q[MOST * MOST], logarithm = 0.0, power = 1.0;
    assert_true(n <= MOST);
    memcpy(P, J, n * n * sizeof *J);
    for (int k = 0; k <= 26; k++, power *= 2.0) {
        double size = 0.0;
        for (uint32_t i = 0; i < n * n; i++) size += P[i] * P[i];
        size = sqrt(size);
        if (size <= 0.0) return 0.0;
        logarithm += log(size) / power;
        for (uint32_t i = 0; i < n * n; i++) P[i] /= size;
        for (uint32_t i = 0; i < n; i++) {
            for (uint32_t j = 0; j < n; j++) {
                Q[i * n + j] = 0.0;
                for (uint32_t m = 0; m < n; m++) Q[i * n + j] += P[i * n + m] * P[m * n + j];
            }
        }
        memcpy(P, Q, n * n * sizeof *P);
    }
    return exp(logarithm);
}

// A chain above the ground: its tips are 0.3 m apart, the first joint at 0.6 m, radius 0.05 m.
static void random_start(ns_rng* rng, double* x0) {
    bool clear = false;
    while (!clear) {
        double height = 0.6, angle = 0.0;
        clear = true;
        for (int k = 0; k < 5; k++) {
            x0[k] = ns_rng_uniform(rng, k == 0 ? -1.5 : -1.0, k == 0 ? 1.5 : 1.0);
            x0[5 + k] = ns_rng_uniform(rng, -1.0, 1.0);
            angle += x0[k];
            height -= 0.3 * cos(angle);
            clear = clear && height > 0.06;
        }
    }
}

// The chain with contact between its spheres and the ground only. As it stands in the file its
// spheres also touch each other, and one lying on another creeps off, as it should.
static ns_model* chain_on_ground(void) {
    static const char was[] = "type=\"sphere\"", is[] = "type=\"sphere\" contype=\"2\"";
    size_t size;
    char *text = modelfile_read("mujoco/models/pendulum5_ground.xml", &size), *from = text, *hit;
    char* changed = calloc(size + 1000, 1);
    assert_non_null(changed);
    while ((hit = strstr(from, was)) != NULL) {
        strncat(changed, from, (size_t)(hit - from));
        strcat(changed, is);
        from = hit + strlen(was);
    }
    strcat(changed, from);
    ns_model* model = modelfile_parse(changed);
    assert_int_equal(ns_model_get_sizes(model).ncontact, 5);
    free(text);
    free(changed);
    return model;
}

static bool at_rest(const trial* t) {
    double fastest = 0.0;
    for (uint32_t n = STEPS - 300; n <= STEPS; n++) {
        for (uint32_t k = 5; k < NX; k++) fastest = fmax(fastest, fabs(trial_state(t, n)[k]));
    }
    return fastest < 0.02;
}

// Norm of d q / d v0, and its distance to central differences with a step of h.
static double norm_of(const double* d) {
    double sum = 0.0;
    for (int i = 0; i < 5; i++) {
        for (int k = 5; k < NX; k++) sum += d[i * NX + k] * d[i * NX + k];
    }
    return sqrt(sum);
}

static void differences(const trial* t, double h, double* states, double* d) {
    double x[2 * 5 * NX];
    for (int k = 0; k < 5; k++) {
        for (int side = 0; side < 2; side++) {
            double* at = x + (2 * k + side) * NX;
            memcpy(at, t->x0, NX * sizeof *x);
            at[5 + k] += side == 0 ? h : -h;
        }
    }
    ns_rollout_args args = {
        .batch = 10, .steps = STEPS, .x0 = x, .params = t->params, .states = states};
    ns_error error = {0};
    must(ns_rollout(t->system, t->work, &args, &error), &error);
    for (int k = 0; k < 5; k++) {
        const double* up = states + ((size_t)(2 * k) * (STEPS + 1) + STEPS) * NX;
        const double* down = states + ((size_t)(2 * k + 1) * (STEPS + 1) + STEPS) * NX;
        for (int i = 0; i < 5; i++) d[i * NX + 5 + k] = (up[i] - down[i]) / (2.0 * h);
    }
}

static double distance(const double* a, const double* b) {
    double d[NX * NX];
    for (int i = 0; i < NX * NX; i++) d[i] = a[i] - b[i];
    return norm_of(d) / norm_of(b);
}

static void a_chain_on_the_ground_has_gradients(void** state) {
    (void)state;
    for (int friction = 0; friction < 2; friction++) {
        ns_system_options o = friction_options(friction);
        static const char* const mu[] = {"contact/*/mu"};
        o.free_params = mu;
        o.nfree = 1;
        trial t = trial_of_model(chain_on_ground(), &o, STEPS);
        trial one = trial_of_model(chain_on_ground(), &o, 1);
        trial_set(&t, "**", 0.5);
        trial_set(&one, "**", 0.5);
        double* states = malloc((size_t)10 * (STEPS + 1) * NX * sizeof *states);
        ns_rng rng = ns_rng_seed(7);
        uint32_t resting = 0, meaningful = 0;
        double largest = 0.0, largest_radius = 0.0;
        for (int start = 0; start < STARTS; start++) {
            double J[NX * NX] = {0}, d[NX * NX] = {0}, far[NX * NX] = {0}, near[NX * NX] = {0};
            random_start(&rng, t.x0);
            trial_run(&t);
            trial_jacobian(&t, J);
            if (at_rest(&t)) {
                resting++;
                largest = fmax(largest, norm_of(J));
                for (uint32_t n = STEPS - 300; n < STEPS; n += 20) {
                    memcpy(one.x0, trial_state(&t, n), NX * sizeof(double));
                    trial_jacobian(&one, d);
                    largest_radius = fmax(largest_radius, spectral_radius(d, NX));
                }
            }
            differences(&t, 1e-6, states, far);
            differences(&t, 2e-7, states, near);
            if (distance(near, far) < 3e-5) { // no kink between
                meaningful++;
                if (distance(J, near) > 1e-4) {
                    fail_msg("start %d: %g from differences", start, distance(J, near));
                }
            }
        }
        print_message("friction %d: %u of %d starts come to rest, largest gradient %.3g, largest"
                      " spectral radius 1 + %.2g, %u with differences that mean something\n",
                      friction, resting, STARTS, largest, largest_radius - 1.0, meaningful);
        assert_true(resting >= 25 && meaningful >= 20);
        assert_true(largest < 100.0);
        // 2e-7 but for one start, whose contacts hardly press: 0.02 per second.
        assert_true(largest_radius <= 1.0 + 2e-5);
        free(states);
        trial_free(&t);
        trial_free(&one);
    }
}

// Springs that suit the step, as docs/contact-gradients.md says: friction that is soft enough for the
// force of a landing, mu f 4 / transition_velocity < 2 m / dt.
static void a_chain_on_springs_has_gradients(void** state) {
    (void)state;
    ns_system_options o = ns_default_system_options();
    static const char* const names[] = {"contact/*/mu", "contact/*/mu_static",
                                        "contact/*/stiffness", "contact/*/damping",
                                        "contact/*/transition_velocity"};
    o.contact = NS_CONTACT_SPRING;
    o.timestep = 5e-4;
    o.free_params = names;
    o.nfree = 5;
    trial t = trial_of_model(chain_on_ground(), &o, STEPS);
    trial one = trial_of_model(chain_on_ground(), &o, 1);
    trial* both[] = {&t, &one};
    for (int k = 0; k < 2; k++) {
        trial_set(both[k], "contact/*/mu", 0.5);
        trial_set(both[k], "contact/*/mu_static", 0.5);
        trial_set(both[k], "contact/*/stiffness", 2e4);
        trial_set(both[k], "contact/*/damping", 5.0);
        trial_set(both[k], "contact/*/transition_velocity", 0.5);
    }
    double* states = malloc((size_t)10 * (STEPS + 1) * NX * sizeof *states);
    ns_rng rng = ns_rng_seed(11);
    uint32_t resting = 0, meaningful = 0;
    double largest = 0.0, largest_radius = 0.0;
    for (int start = 0; start < STARTS; start++) {
        double J[NX * NX] = {0}, d[NX * NX] = {0}, far[NX * NX] = {0}, near[NX * NX] = {0};
        random_start(&rng, t.x0);
        trial_run(&t);
        trial_jacobian(&t, J);
        largest = fmax(largest, norm_of(J));
        if (at_rest(&t)) {
            resting++;
            for (uint32_t n = STEPS - 300; n < STEPS; n += 20) {
                memcpy(one.x0, trial_state(&t, n), NX * sizeof(double));
                trial_jacobian(&one, d);
                largest_radius = fmax(largest_radius, spectral_radius(d, NX));
            }
        }
        differences(&t, 1e-6, states, far);
        differences(&t, 2e-7, states, near);
        if (distance(near, far) < 3e-5) { // no kink between
            meaningful++;
            if (distance(J, near) > 1e-4) {
                fail_msg("start %d: %g from differences", start, distance(J, near));
            }
        }
    }
    print_message("springs: %u of %d starts come to rest, largest gradient %.3g, largest spectral"
                  " radius 1 + %.2g, %u with differences that mean something\n",
                  resting, STARTS, largest, largest_radius - 1.0, meaningful);
    assert_true(resting >= 5 && meaningful >= 20);
    assert_true(largest < 2.0); // 0.78: soft friction lets the chain forget how it fell
    // Springs creep, and a chain that topples slowly against friction moves apart as it should, by
    // 0.03 /s. Where nothing pulls along the ground there is nothing of it: the box below.
    assert_true(largest_radius <= 1.0 + 5e-5);
    free(states);
    trial_free(&t);
    trial_free(&one);
}

// ---- other robots ----------------------------------------------------------------------------

// The final state's component along `weights`, after moving x0 and params by h along a direction.
static double outcome(trial* t, const double* weights, const double* direction, double h) {
    uint32_t nx = t->n.nx, np = t->n.np;
    for (uint32_t i = 0; i < nx + np; i++)
        *(i < nx ? &t->x0[i] : &t->params[i - nx]) += h * direction[i];
    trial_run(t);
    double sum = 0.0;
    for (uint32_t i = 0; i < nx; i++) sum += weights[i] * trial_end(t)[i];
    for (uint32_t i = 0; i < nx + np; i++)
        *(i < nx ? &t->x0[i] : &t->params[i - nx]) -= h * direction[i];
    return sum;
}

// The gradient of the final coordinates for initial velocities and parameters: below `bound`, and
// along random directions equal to differences over h where those to both sides agree: kinks lie
// close together. Returns in how many of `tries` they did; *largest is raised to the largest number.
static uint32_t check_gradient(trial* t, double bound, double h, uint32_t tries, ns_rng* rng,
                               double* largest) {
    uint32_t nx = t->n.nx, np = t->n.np, meaningful = 0;
    double* weights = calloc(nx, sizeof *weights);
    double* direction = calloc(nx + np, sizeof *direction);
    double *dx0 = calloc(nx, sizeof *dx0), *dp = calloc(np + 1, sizeof *dp);
    double *gx = calloc(nx, sizeof *gx), *gp = calloc(np + 1, sizeof *gp);
    for (uint32_t i = 0; i < t->nq; i++) {
        weights[i] = ns_rng_uniform(rng, -1.0, 1.0);
        trial_gradient(t, i, gx, gp);
        for (uint32_t k = 0; k < nx; k++) {
            if (k >= t->nq && !(fabs(gx[k]) < bound)) {
                fail_msg("d %s / d %s is %g", ns_system_state_name(t->system, i),
                         ns_system_state_name(t->system, k), gx[k]);
            }
            if (k >= t->nq) *largest = fmax(*largest, fabs(gx[k]));
            dx0[k] += weights[i] * gx[k];
        }
        for (uint32_t k = 0; k < np; k++) {
            if (!(fabs(gp[k]) < bound)) {
                fail_msg("d %s / d %s is %g", ns_system_state_name(t->system, i),
                         ns_system_param_name(t->system, k), gp[k]);
            }
            *largest = fmax(*largest, fabs(gp[k]));
            dp[k] += weights[i] * gp[k];
        }
    }
    for (uint32_t n = 0; n < tries; n++) {
        double exact = 0.0, size = 0.0;
        for (uint32_t i = t->nq; i < nx + np; i++) {
            direction[i] = ns_rng_uniform(rng, -1.0, 1.0);
            double term = direction[i] * (i < nx ? dx0[i] : dp[i - nx]);
            exact += term;
            size += fabs(term);
        }
        double here = outcome(t, weights, direction, 0.0);
        double after = (outcome(t, weights, direction, h) - here) / h;
        double before = (here - outcome(t, weights, direction, -h)) / h;
        if (!(fabs(after - before) <= 1e-4 * size + 1e-7)) continue; // a kink between
        meaningful++;
        if (!(fabs(0.5 * (after + before) - exact) <= 1e-4 * size + 1e-7)) {
            fail_msg("differences %.9g, gradient %.9g", 0.5 * (after + before), exact);
        }
    }
    free(weights), free(direction), free(dx0), free(dp), free(gx), free(gp);
    return meaningful;
}

static void a_chain_has_gradients_for_lengths_and_masses(void** state) {
    (void)state;
    static const char* const names[] = {"link/*/mass", "joint/*/origin/z", "geom/*_geom?/origin/z",
                                        "contact/*/mu"};
    ns_rng rng = ns_rng_seed(3);
    for (int friction = 0; friction < 2; friction++) {
        ns_system_options o = friction_options(friction);
        o.free_params = names;
        o.nfree = 4;
        trial t = trial_of_model(modelfile_load("mujoco/models/pendulum5_ground.xml"), &o, STEPS);
        trial_set(&t, "contact/*/mu", 0.5);
        uint32_t meaningful = 0;
        // Measured 2.1e3 and 1.1e3: d q1 / d joint3/origin/z of one start, and the bound is twice
        // that. Differences confirm it where they mean something.
        double largest = 0.0;
        for (int start = 0; start < 4; start++) {
            random_start(&rng, t.x0);
            meaningful += check_gradient(&t, 4e3, 2e-8, 4, &rng, &largest);
        }
        print_message("friction %d: largest gradient %.3g, %u of 16 differences mean something\n",
                      friction, largest, meaningful);
        assert_true(meaningful >= 8);
        trial_free(&t);
    }
}

static const char box[] =
    "<mujoco><option timestep='0.001'/><worldbody><geom name='ground' type='plane' size='5 5 1'/>"
    "<body name='box' pos='0 0 0.3' euler='20 30 10'><freejoint/>"
    "<geom name='box' type='box' size='0.1 0.15 0.2' mass='1'/></body></worldbody></mujoco>";

static void a_box_at_rest_on_springs_has_gradients(void** state) {
    (void)state;
    static const char* const names[] = {"link/*/mass", "geom/box/half/*", "contact/*/mu",
                                        "contact/*/damping", "contact/*/transition_velocity"};
    ns_rng rng = ns_rng_seed(5);
    ns_system_options o = ns_default_system_options();
    o.contact = NS_CONTACT_SPRING;
    o.timestep = 2e-4;
    o.free_params = names;
    o.nfree = 5;
    trial t = trial_make(box, &o, 10000), one = trial_make(box, &o, 1);
    trial* both[] = {&t, &one};
    for (int k = 0; k < 2; k++) {
        trial_set(both[k], "contact/*/mu", 0.5);
        trial_set(both[k], "contact/*/damping", 5.0);
        trial_set(both[k], "contact/*/transition_velocity", 0.2);
    }
    // Nearly flat, 5 mm above the ground: a longer fall has more kinks than rounding leaves room for.
    const double start[] = {0.0, 0.0, 0.21, cos(0.01), sin(0.01) * 0.6, sin(0.01) * 0.8, 0.0};
    memcpy(t.x0, start, sizeof start);
    double d[13 * 13], largest = 0.0, radius = 0.0;
    uint32_t meaningful = check_gradient(&t, 100.0, 1e-7, 8, &rng, &largest);
    trial_run(&t);
    for (uint32_t k = t.nq; k < t.n.nx; k++) assert_true(fabs(trial_end(&t)[k]) < 1e-3);
    for (uint32_t n = 9000; n <= 10000; n += 100) {
        memcpy(one.x0, trial_state(&t, n), 13 * sizeof *d);
        trial_jacobian(&one, d);
        radius = fmax(radius, spectral_radius(d, 13));
    }
    print_message(
        "springs: largest gradient %.3g, spectral radius 1 + %.2g, %u of 8 differences mean"
        " something\n",
        largest, radius - 1.0, meaningful);
    assert_true(meaningful >= 4);
    assert_true(radius <= 1.0 + 1e-6);
    trial_free(&t);
    trial_free(&one);
}

static void a_box_at_rest_has_gradients(void** state) {
    (void)state;
    static const char* const names[] = {"link/*/mass", "geom/box/half/*", "contact/*/mu",
                                        "contact/*/restitution"};
    enum { TRIES = 32 };
    ns_rng rng = ns_rng_seed(5);
    for (int friction = 0; friction < 2; friction++) {
        for (int bounces = 0; bounces < 2; bounces++) {
            ns_system_options o = friction_options(friction);
            o.free_params = names;
            o.nfree = 4;
            trial t = trial_make(box, &o, bounces ? 400 : 3000);
            double largest = 0.0;
            trial_set(&t, "contact/*/mu", 0.5);
            trial_set(&t, "contact/*/restitution", bounces ? 0.5 : 0.0);
            trial_run(&t);
            for (uint32_t k = t.nq; k < t.n.nx && !bounces; k++) {
                assert_true(fabs(trial_end(&t)[k]) < 1e-2);
            }
            uint32_t meaningful =
                check_gradient(&t, 100.0, bounces ? 2e-9 : 2e-8, TRIES, &rng, &largest);
            print_message("friction %d, restitution %g: largest gradient %.3g, %u of %d differences"
                          " mean something\n",
                          friction, bounces ? 0.5 : 0.0, largest, meaningful, TRIES);
            assert_true(meaningful >= TRIES / 4);
            trial_free(&t);
        }
    }
}

static void a_standing_quadruped_has_gradients(void** state) {
    (void)state;
    static const char* const names[] = {"link/*/mass", "joint/*/stiffness", "joint/*/damping",
                                        "joint/*/rest", "joint/*_knee/origin/z"};
    ns_rng rng = ns_rng_seed(6);
    for (int friction = 0; friction < 2; friction++) {
        ns_system_options o = friction_options(friction);
        o.free_params = names;
        o.nfree = 5;
        trial t = trial_of_model(modelfile_load("mujoco/models/quad12_ground.xml"), &o, 5000);
        trial_set(&t, "joint/*_*/stiffness", 60.0);
        trial_set(&t, "joint/*_*/damping", 2.0);
        trial_set(&t, "joint/*_hipj/rest", 0.5285); // feet 0.4 m below the trunk
        trial_set(&t, "joint/*_knee/rest", -1.057);
        // Not alike on both sides: feet that land at the same time make a kink.
        t.x0[2] = 0.43;
        for (int leg = 0; leg < 4; leg++) {
            t.x0[7 + 3 * leg + 1] = 0.5285 + 0.02 * leg;
            t.x0[7 + 3 * leg + 2] = -1.057 - 0.03 * leg;
        }
        trial_run(&t);
        for (uint32_t k = t.nq; k < t.n.nx; k++) assert_true(fabs(trial_end(&t)[k]) < 1e-3);
        double largest = 0.0;
        uint32_t meaningful = check_gradient(&t, 100.0, 2e-8, 4, &rng, &largest);
        print_message("friction %d: %u of 4 differences mean something\n", friction, meaningful);
        assert_true(meaningful >= 2);
        trial_free(&t);
    }
}

// ---- what must not matter --------------------------------------------------------------------

// A second box far away changes no bit of the first one's motion.
static void a_far_contact_changes_no_bit(void** state) {
    (void)state;
    static const char two[] =
        "<mujoco><option timestep='0.001'/><worldbody><geom name='ground' type='plane' size='5 5 "
        "1'/>"
        "<body name='box' pos='0 0 0.3' euler='20 30 10'><freejoint/>"
        "<geom name='box' type='box' size='0.1 0.15 0.2' mass='1'/></body>"
        "<body name='far' pos='0 0 50'><freejoint/><geom name='far' type='sphere' size='0.1'/>"
        "</body></worldbody></mujoco>";
    for (int friction = 0; friction < 2; friction++) {
        ns_system_options o = friction_options(friction);
        trial alone = trial_make(box, &o, 500), with = trial_make(two, &o, 500);
        trial_run(&alone);
        trial_run(&with);
        double a[13], b[26];
        for (uint32_t k = 0; k < 7; k++) {
            assert_true(trial_end(&alone)[k] == trial_end(&with)[k]);
            trial_gradient(&alone, k, a, NULL);
            trial_gradient(&with, k, b, NULL);
            for (uint32_t i = 0; i < 7; i++) assert_true(a[i] == b[i]);
            for (uint32_t i = 0; i < 6; i++) assert_true(a[7 + i] == b[14 + i]);
        }
        trial_free(&alone);
        trial_free(&with);
    }
}

// ---- no NaN ----------------------------------------------------------------------------------

// trial_gradient() fails on numbers that are not finite: nothing moves, surfaces just touch, motion
// along the surface, edges that are parallel, balls one in the other.
static void degenerate_contacts_have_finite_gradients(void** state) {
    (void)state;
    static const char scene[] =
        "<mujoco><option timestep='0.001'/><worldbody><geom name='ground' type='plane' size='5 5 "
        "1'/>"
        "<body name='a' pos='0 0 0.1'><freejoint/><geom name='a' type='box' size='.1 .1 "
        ".1'/></body>"
        "<body name='b' pos='0 0 0.3'><freejoint/><geom name='b' type='box' size='.1 .1 "
        ".1'/></body>"
        "<body name='c' pos='1 0 0.05'><freejoint/><geom name='c' type='sphere' size='.05'/></body>"
        "<body name='d' pos='1 0 0.05'><freejoint/><geom name='d' type='sphere' size='.05'/></body>"
        "<body name='e' pos='2 0 0.05' euler='0 90 0'><freejoint/>"
        "<geom name='e' type='capsule' size='.05 .2'/></body>"
        "<body name='f' pos='2 0.1 0.05' euler='0 90 0'><freejoint/>"
        "<geom name='f' type='capsule' size='.05 .2'/></body></worldbody>"
        "<contact><exclude body1='a' body2='c'/><exclude body1='a' body2='d'/>"
        "<exclude body1='a' body2='e'/><exclude body1='a' body2='f'/>"
        "<exclude body1='b' body2='c'/><exclude body1='b' body2='d'/>"
        "<exclude body1='b' body2='e'/><exclude body1='b' body2='f'/>"
        "<exclude body1='c' body2='e'/><exclude body1='c' body2='f'/>"
        "<exclude body1='d' body2='e'/><exclude body1='d' body2='f'/></contact></mujoco>";
    for (int model = NS_CONTACT_NCP; model <= NS_CONTACT_SPRING; model++) {
        for (int friction = 0; friction < 2; friction++) {
            ns_system_options o = friction_options(friction);
            static const char* const names[] = {"contact/**", "geom/**"};
            o.contact = model;
            o.free_params = names;
            o.nfree = 2;
            trial t = trial_make(scene, &o, 3);
            for (int sliding = 0; sliding < 2; sliding++) {
                t.x0[t.nq] = t.x0[t.nq + 6] = sliding; // along the surface
                for (uint32_t k = 0; k < t.n.nx; k += 3) trial_gradient(&t, k, NULL, NULL);
            }
            trial_free(&t);
        }
    }
}

// ---- another derivative ----------------------------------------------------------------------

// Sweeps that have converged, differentiated as they are, against the implicit derivative.
static void converged_sweeps_have_the_same_derivative(void** state) {
    (void)state;
    static const char ball[] =
        "<mujoco><option timestep='0.001'/><worldbody><geom name='ground' type='plane' size='5 5 "
        "1'/>"
        "<body name='b' pos='0 0 0.1'><freejoint/><geom name='b' type='sphere' size='.1' mass='1'/>"
        "</body></worldbody></mujoco>";
    for (int friction = 0; friction < 2; friction++) {
        ns_system_options o = friction_options(friction);
        o.contact = NS_CONTACT_BAUMGARTE;
        trial exact = trial_make(ball, &o, 20);
        o.contact_sweeps = 30;
        trial swept = trial_make(ball, &o, 20);
        double want[13], got[13];
        for (int slow = 0; slow < 2; slow++) { // sliding, and rolling
            exact.x0[7] = swept.x0[7] = slow ? 1e-3 : 1.0;
            exact.x0[8] = swept.x0[8] = slow ? 2e-3 : 0.5;
            trial_run(&exact);
            trial_run(&swept);
            for (uint32_t k = 0; k < 13; k++) {
                assert_true(fabs(trial_end(&exact)[k] - trial_end(&swept)[k]) < 1e-12);
                trial_gradient(&exact, k, want, NULL);
                trial_gradient(&swept, k, got, NULL);
                for (uint32_t i = 0; i < 13; i++) assert_true(fabs(want[i] - got[i]) < 1e-9);
            }
        }
        trial_free(&exact);
        trial_free(&swept);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_on_the_ground_has_gradients),
        cmocka_unit_test(a_chain_on_springs_has_gradients),
        cmocka_unit_test(a_chain_has_gradients_for_lengths_and_masses),
        cmocka_unit_test(a_box_at_rest_on_springs_has_gradients),
        cmocka_unit_test(a_box_at_rest_has_gradients),
        cmocka_unit_test(a_standing_quadruped_has_gradients),
        cmocka_unit_test(a_far_contact_changes_no_bit),
        cmocka_unit_test(degenerate_contacts_have_finite_gradients),
        cmocka_unit_test(converged_sweeps_have_the_same_derivative),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
