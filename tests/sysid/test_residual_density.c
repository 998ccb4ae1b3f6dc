// The posterior density of a fit: gradients against differences, Jacobians of transforms against
// those of the map, information against differences of gradients.

#include "neuralsim/random.h"
#include "neuralsim/residuals.h"
#include "support/assert.h"
#include "support/trial.h"
#include "sysid/residual_density.h"
#include "sysid/residuals_state.h"

#include <math.h>
#include <stdlib.h>

#define BLOCK                                                                                      \
    "<mujoco><option timestep='0.01'/><worldbody><body name='block' pos='0 0 1'><freejoint/>"      \
    "<inertial pos='0.05 0.02 -0.03' mass='2' fullinertia='0.02 0.03 0.04 0.001 0.002 -0.001'/>"   \
    "<body name='arm' pos='0 0 0.1'><joint name='hinge' type='hinge' axis='0 1 0' damping='0.2' "  \
    "armature='0.05'/>"                                                                            \
    "<inertial pos='0 0 -0.4' mass='1.5' diaginertia='0.02 0.02 0.02'/></body>"                    \
    "</body></worldbody></mujoco>"

enum { STEPS = 12, SAMPLES = STEPS + 1, CHANNELS = 15 };

static const char* const names[CHANNELS] = {"q0",  "q1",  "q2",  "q3",  "q4",  "q5",  "q6", "q7",
                                            "qd0", "qd1", "qd2", "qd3", "qd4", "qd5", "qd6"};

typedef struct density_rig {
    ns_model* robot;
    ns_parameters* params;
    ns_dataset* data;
    ns_residuals* residuals;
    nsi_residual_density* density;
    ns_density callbacks;
} density_rig;

static void add_parameter(density_rig* r, const char* name, double lower, double upper,
                          double prior) {
    ns_parameter how = ns_default_parameter();
    ns_error error = {0};
    how.lower = lower;
    how.upper = upper;
    how.prior_sigma = prior;
    must(ns_parameters_add(r->params, name, &how, &error), &error);
}

// A tumbling block with an arm: coordinates of a whole body, of every other transform and
// quaternions; some channels have a sigma.
static density_rig make_rig(bool all_known, double noise) {
    density_rig r = {0};
    ns_error error = {0};
    trial t = trial_make(BLOCK, NULL, STEPS);
    t.x0[2] = 1.0;
    t.x0[10] = 0.7;
    t.x0[11] = -1.1;
    t.x0[14] = 2.0;
    trial_run(&t);
    double recorded[SAMPLES * CHANNELS];
    ns_rng rng = ns_rng_seed(4);
    for (int k = 0; k < SAMPLES * CHANNELS; k++) {
        recorded[k] = t.states[k] + noise * ns_rng_normal(&rng);
    }
    trial_free(&t);

    // The data, with a missing number.
    ns_array_channel channels[CHANNELS];
    for (int k = 0; k < CHANNELS; k++) {
        channels[k] = (ns_array_channel){.name = names[k],
                                         .sigma = all_known || k < 12 ? 0.01 * (1 + k % 3) : 0.0};
    }
    recorded[5 * CHANNELS + 13] = NAN;
    must(ns_dataset_create_arrays(channels, CHANNELS, NULL, 0, 0.01, NULL, &r.data, &error),
         &error);
    must(ns_dataset_add_arrays(r.data, "tumble", SAMPLES, recorded, NULL, &error), &error);

    // Parameters by every transform.
    must(ns_model_parse(BLOCK, sizeof BLOCK - 1, "block.xml", NULL, &r.robot, &error), &error);
    must(ns_parameters_create(&(ns_variant){.model = r.robot}, 1, NULL, &r.params, &error), &error);
    const char* const body[] = {"link/block/mass", "link/block/com/*", "link/block/inertia/*"};
    for (int k = 0; k < 3; k++) must(ns_parameters_add(r.params, body[k], NULL, &error), &error);
    add_parameter(&r, "joint/hinge/damping", 0.0, INFINITY, 0.1);
    add_parameter(&r, "joint/hinge/armature", 0.0, 0.5, NAN);
    add_parameter(&r, "link/arm/mass", 0.1, INFINITY, NAN);
    add_parameter(&r, "link/arm/com/x", -INFINITY, INFINITY, NAN);
    add_parameter(&r, "link/arm/com/z", -INFINITY, -0.1, NAN);
    ns_window_options windows = {.length = 6};
    must(ns_residuals_create(r.params, r.data, &windows, 1, &r.residuals, &error), &error);
    must(nsi_residual_density_create(r.residuals->problem, r.data, &windows, false, 1, &r.density,
                                     &error),
         &error);
    r.callbacks = nsi_residual_density_callbacks(r.density);
    return r;
}

static void free_rig(density_rig* r) {
    nsi_residual_density_free(r->density);
    ns_residuals_free(r->residuals);
    ns_parameters_free(r->params);
    ns_dataset_free(r->data);
    ns_model_free(r->robot);
}

static double density_at(const density_rig* r, const double* at, double* gradient) {
    return r->callbacks.log_density(r->callbacks.context, 0, at, gradient);
}

// A point off the start, with initial states turned by some degrees.
static double* make_point(const density_rig* r, uint64_t seed) {
    double* at = doubles(r->callbacks.n);
    nsi_point point = nsi_objective_point(r->residuals->objective);
    assert_true(nsi_residual_density_start(r->density, point.z, point.w, at));
    ns_rng rng = ns_rng_seed(seed);
    for (uint32_t k = 0; k < r->callbacks.n; k++) at[k] += 0.1 * ns_rng_normal(&rng);
    return at;
}

static void gradients_are_those_of_the_density(void** state) {
    (void)state;
    density_rig r = make_rig(false, 0.01);
    const uint32_t n = r.callbacks.n;
    assert_int_equal(n, 15 + 2 * 14 + 3);
    double *at = make_point(&r, 2), *gradient = doubles(n), *other = doubles(n);
    assert_true(isfinite(density_at(&r, at, gradient)));
    for (uint32_t k = 0; k < n; k++) {
        const double h = 1e-5, from = at[k];
        at[k] = from + h;
        double up = density_at(&r, at, other);
        at[k] = from - h;
        double down = density_at(&r, at, other);
        at[k] = from;
        double slope = (up - down) / (2.0 * h);
        close_to("slope", gradient[k], slope, 1e-5 * (fabs(slope) + 1e-3 * max_abs(gradient, n)));
    }
    free(at);
    free(gradient);
    free(other);
    free_rig(&r);
}

// log |det A| by elimination with pivots.
static double log_determinant(double* a, uint32_t n) {
    double sum = 0.0;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t pivot = k;
        for (uint32_t i = k + 1; i < n; i++) {
            if (fabs(a[i * n + k]) > fabs(a[pivot * n + k])) pivot = i;
        }
        for (uint32_t j = 0; j < n; j++) {
            double swap = a[k * n + j];
            a[k * n + j] = a[pivot * n + j];
            a[pivot * n + j] = swap;
        }
        sum += log(fabs(a[k * n + k]));
        for (uint32_t i = k + 1; i < n; i++) {
            double share = a[i * n + k] / a[k * n + k];
            for (uint32_t j = k; j < n; j++) a[i * n + j] -= share * a[k * n + j];
        }
    }
    return sum;
}

// Besides minus the cost, the density is the determinant of dv/dz, as the map itself differentiates
// it.
static void jacobians_are_those_of_the_map(void** state) {
    (void)state;
    density_rig r = make_rig(true, 0.01);
    const uint32_t n = r.callbacks.n, nz = ns_parameters_count(r.params);
    assert_int_equal(n, 15 + 2 * 14);
    double difference[2], *gradient = doubles(n), *v = doubles(nz), *dv = doubles(nz * nz);
    double* scratch = doubles(nsi_parameters_scratch(r.params));
    for (int k = 0; k < 2; k++) {
        double* at = make_point(&r, 5 + (uint64_t)k);
        nsi_point point = nsi_objective_point(r.residuals->objective);
        double* states = doubles(3 * 15);
        nsi_residual_density_point(r.density, at, point.z, point.w, states);
        memcpy(point.x, states, 2 * 15 * sizeof *states);
        double extra = density_at(&r, at, gradient) + ns_residuals_cost(r.residuals);
        nsi_parameters_from_z(r.params, at, v, dv, scratch);
        difference[k] = extra - log_determinant(dv, nz);
        free(states);
        free(at);
    }
    close_to("constant", difference[0], difference[1], 1e-8);
    free(gradient);
    free(v);
    free(dv);
    free(scratch);
    free_rig(&r);
}

// Where residuals vanish, J'J and the curvature of priors and transforms are all there is.
static void information_is_the_curvature_where_residuals_vanish(void** state) {
    (void)state;
    density_rig r = make_rig(true, 0.0);
    const uint32_t n = r.callbacks.n;
    double *at = doubles(n), *H = doubles((size_t)n * n), *up = doubles(n), *down = doubles(n);
    nsi_point point = nsi_objective_point(r.residuals->objective);
    assert_true(nsi_residual_density_start(r.density, point.z, point.w, at));
    assert_true(r.callbacks.information(r.callbacks.context, 0, at, H));
    for (uint32_t k = 0; k < n; k++) {
        const double h = 1e-6, from = at[k];
        at[k] = from + h;
        density_at(&r, at, up);
        at[k] = from - h;
        density_at(&r, at, down);
        at[k] = from;
        for (uint32_t i = 0; i < n; i++) {
            double slope = (down[i] - up[i]) / (2.0 * h);
            double size = sqrt(H[i * n + i] * H[k * n + k]);
            close_to("curvature", H[k * n + i], slope, 1e-5 * size + 1e-4);
        }
    }
    free(at);
    free(H);
    free(up);
    free(down);
    free_rig(&r);
}

static void unknowns_have_names_and_values(void** state) {
    (void)state;
    density_rig r = make_rig(false, 0.01);
    const uint32_t n = r.callbacks.n;
    const struct {
        uint32_t number;
        const char *name, *unit;
    } want[] = {{0, "link/block/mass", "kg"},
                {15 + 14, "window 1: q0", "m"},
                {15 + 4, "window 0: q3/turn1", "rad"},
                {15 + 28, "noise/qd4", "rad/s"}};
    for (size_t k = 0; k < sizeof want / sizeof *want; k++) {
        char name[64];
        nsi_residual_density_name(r.density, want[k].number, name, sizeof name);
        assert_string_equal(name, want[k].name);
        assert_string_equal(nsi_residual_density_unit(r.density, want[k].number), want[k].unit);
    }

    // Noise of 0.01 was added.
    double *at = doubles(n), *values = doubles(n);
    nsi_point point = nsi_objective_point(r.residuals->objective);
    assert_true(nsi_residual_density_start(r.density, point.z, point.w, at));
    nsi_residual_density_values(r.density, at, values);
    close_to("mass", values[0], 2.0, 1e-9);
    close_to("height", values[15 + 2], 1.0, 0.05);
    assert_true(values[15 + 28] > 0.003 && values[15 + 28] < 0.3);
    free(at);
    free(values);
    free_rig(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_those_of_the_density),
        cmocka_unit_test(jacobians_are_those_of_the_map),
        cmocka_unit_test(information_is_the_curvature_where_residuals_vanish),
        cmocka_unit_test(unknowns_have_names_and_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
