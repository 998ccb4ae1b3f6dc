// Numbers a fit looks for: there and back, derivatives, bodies that stay physical, messages.

#include "model/model_data.h"
#include "support/assert.h"
#include "support/testalloc.h"
#include "sysid/parameter_map.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

enum { MOST = 64 };

// ---- making them -------------------------------------------------------------------------------

static ns_model* pendulum;
static ns_system_options no_options;

static int load_pendulum(void** state) {
    (void)state;
    no_options = ns_default_system_options();
    ns_error error;
    return ns_model_load(NEURALSIM_SOURCE_DIR "/models/double_pendulum.urdf", NULL, &pendulum,
                         &error);
}

static int free_pendulum(void** state) {
    (void)state;
    ns_model_free(pendulum);
    return 0;
}

static nsi_parameter_request ask(const char* name) {
    return (nsi_parameter_request){
        .name = name, .how = ns_default_parameter(), .line = 3, .column = 5};
}

static nsi_parameter_request ask_own(const char* name, double start, double lower, double upper) {
    nsi_parameter_request r = ask(name);
    r.how.initial = start;
    r.how.lower = lower;
    r.how.upper = upper;
    return r;
}

static nsi_setting_request set(const char* name, const char* formula) {
    return (nsi_setting_request){.name = name, .formula = formula, .line = 7, .column = 9};
}

static ns_parameters* make(const nsi_parameter_request* requests, uint32_t nrequest,
                           const nsi_setting_request* settings, uint32_t nsetting) {
    ns_parameters* v = NULL;
    ns_error error = {0};
    ns_status status =
        nsi_parameters_read(&(ns_variant){.model = pendulum, .options = &no_options}, 1, "e.yaml",
                            requests, nrequest, settings, nsetting, NULL, &v, &error);
    must(status, &error);
    return v;
}

static void refuse(const nsi_parameter_request* requests, uint32_t nrequest,
                   const nsi_setting_request* settings, uint32_t nsetting, const char* place,
                   const char* says) {
    ns_parameters* v = NULL;
    ns_error error = {0};
    ns_status status =
        nsi_parameters_read(&(ns_variant){.model = pendulum, .options = &no_options}, 1, "e.yaml",
                            requests, nrequest, settings, nsetting, NULL, &v, &error);
    assert_int_equal(status, NS_ERR_PARSE);
    assert_null(v);
    char start[32];
    snprintf(start, sizeof start, "e.yaml:%s: ", place);
    if (strncmp(error.message, start, strlen(start)) != 0 || !strstr(error.message, says)) {
        fail_msg("'%s', not '%s...%s'", error.message, start, says);
    }
}

static void refuse_one(nsi_parameter_request r, const char* says) {
    refuse(&r, 1, NULL, 0, "3:5", says);
}

static void assert_near(double a, double b, double tolerance, const char* what) {
    if (!(fabs(a - b) <= tolerance * fmax(1.0, fmax(fabs(a), fabs(b))))) {
        fail_msg("%s: %.17g is not %.17g", what, a, b);
    }
}

static double* scratch_of(const ns_parameters* v) {
    double* scratch = malloc(nsi_parameters_scratch(v) * sizeof *scratch);
    assert_non_null(scratch);
    return scratch;
}

// Derivatives of both maps at z against central differences.
static void check_derivatives(const ns_parameters* v, const double* z) {
    uint32_t n = ns_parameters_count(v), np = nsi_parameters_param_count(v, 0);
    double *scratch = scratch_of(v), *dv = calloc(n * n + 1, sizeof *dv);
    double *dp = calloc(np * n + 1, sizeof *dp), at[MOST], low[MOST], high[MOST], moved[MOST];
    nsi_parameters_from_z(v, z, at, dv, scratch);
    for (uint32_t j = 0; j < n; j++) {
        double h = 1e-5;
        memcpy(moved, z, n * sizeof *z);
        moved[j] = z[j] + h;
        nsi_parameters_from_z(v, moved, high, NULL, scratch);
        moved[j] = z[j] - h;
        nsi_parameters_from_z(v, moved, low, NULL, scratch);
        for (uint32_t i = 0; i < n; i++) {
            assert_near(dv[i * n + j], (high[i] - low[i]) / (2.0 * h), 1e-8, "dv/dz");
        }
    }
    nsi_parameters_params(v, 0, at, low, dp, scratch);
    for (uint32_t j = 0; j < n; j++) {
        double h = 1e-5 * fmax(1.0, fabs(at[j]));
        memcpy(moved, at, n * sizeof *z);
        moved[j] = at[j] + h;
        nsi_parameters_params(v, 0, moved, high, NULL, scratch);
        moved[j] = at[j] - h;
        nsi_parameters_params(v, 0, moved, low, NULL, scratch);
        for (uint32_t i = 0; i < np; i++) {
            assert_near(dp[i * n + j], (high[i] - low[i]) / (2.0 * h), 1e-8, "dp/dv");
        }
    }
    free(scratch);
    free(dv);
    free(dp);
}

// ---- one number --------------------------------------------------------------------------------

static void every_transform_goes_there_and_back(void** state) {
    (void)state;
    nsi_parameter_request requests[] = {
        ask_own("none", -0.3, NAN, NAN),   ask_own("positive", 2.0, 0.0, NAN),
        ask_own("shifted", 3.0, 1.0, NAN), ask_own("above", -1.0, -2.0, NAN),
        ask_own("below", 4.0, NAN, 5.0),   ask_own("box", 0.3, -1.0, 2.0),
    };
    const ns_parameter_transform expected[] = {NS_PARAMETER_NONE,  NS_PARAMETER_ABOVE,
                                               NS_PARAMETER_ABOVE, NS_PARAMETER_ABOVE,
                                               NS_PARAMETER_BELOW, NS_PARAMETER_BOX};
    enum { N = sizeof requests / sizeof *requests };
    ns_parameters* v = make(requests, N, NULL, 0);
    assert_int_equal(ns_parameters_count(v), N);
    assert_int_equal(nsi_parameters_param_count(v, 0), 0);
    double* scratch = scratch_of(v);
    ns_rng rng = ns_rng_seed(1);
    for (int trial = 0; trial < 200; trial++) {
        double x[N], z[N], back[N];
        for (uint32_t k = 0; k < N; k++) {
            const ns_parameter_info* item = ns_parameters_at(v, k);
            assert_int_equal(item->transform, expected[k]);
            double low = isfinite(item->lower) ? item->lower : item->upper - 10.0;
            if (!isfinite(low)) low = -5.0;
            double high = isfinite(item->upper) ? item->upper : low + 10.0, width = high - low;
            x[k] = ns_rng_uniform(&rng, low + 0.01 * width, high - 0.01 * width);
        }
        if (trial == 0) nsi_parameters_initial(v, x);
        nsi_parameters_to_z(v, x, z);
        nsi_parameters_from_z(v, z, back, NULL, scratch);
        for (uint32_t k = 0; k < N; k++) {
            assert_near(back[k], x[k], 1e-13, ns_parameters_at(v, k)->name);
        }
        check_derivatives(v, z);
    }
    free(scratch);
    ns_parameters_free(v);
}

// For every z, however large.
static void bounds_hold_everywhere(void** state) {
    (void)state;
    nsi_parameter_request requests[] = {ask_own("log", 2.0, 1.0, NAN),
                                        ask_own("above", -1, -2, NAN), ask_own("below", 4, NAN, 5),
                                        ask_own("box", 0.3, -1, 2)};
    enum { N = sizeof requests / sizeof *requests };
    ns_parameters* v = make(requests, N, NULL, 0);
    double* scratch = scratch_of(v);
    ns_rng rng = ns_rng_seed(2);
    for (int trial = 0; trial < 1000; trial++) {
        double z[N], x[N];
        double size = pow(10.0, ns_rng_uniform(&rng, -8.0, 2.5));
        for (uint32_t k = 0; k < N; k++) z[k] = size * ns_rng_normal(&rng);
        nsi_parameters_from_z(v, z, x, NULL, scratch);
        for (uint32_t k = 0; k < N; k++) {
            const ns_parameter_info* item = ns_parameters_at(v, k);
            assert_true(x[k] >= item->lower && x[k] <= item->upper);
        }
    }
    free(scratch);
    ns_parameters_free(v);
}

// At a bound derivatives vanish, so a start there is moved off a little; and no further.
static void starts_at_bounds_can_move(void** state) {
    (void)state;
    nsi_parameter_request requests[] = {ask_own("zero", 0.0, 0.0, NAN),
                                        ask_own("above", -2, -2, NAN), ask_own("below", 5, NAN, 5),
                                        ask_own("low", -1, -1, 2), ask_own("high", 2, -1, 2)};
    enum { N = sizeof requests / sizeof *requests };
    ns_parameters* v = make(requests, N, NULL, 0);
    double *scratch = scratch_of(v), x[N], z[N], back[N], dv[N * N];
    nsi_parameters_initial(v, x);
    nsi_parameters_to_z(v, x, z);
    nsi_parameters_from_z(v, z, back, dv, scratch);
    for (uint32_t k = 0; k < N; k++) {
        const ns_parameter_info* item = ns_parameters_at(v, k);
        double range = item->transform == NS_PARAMETER_BOX ? 3.0 : item->scale;
        assert_true(fabs(back[k] - x[k]) <= 1.001e-3 * range);
        assert_true(back[k] != x[k] && fabs(dv[k * N + k]) > 1e-3 * range);
    }
    free(scratch);
    ns_parameters_free(v);
}

// ---- parameters of the model -------------------------------------------------------------------

static void globs_ask_for_many(void** state) {
    (void)state;
    nsi_parameter_request requests[] = {ask("joint/*/damping"), ask("link/link1/mass")};
    requests[0].how.initial = 0.1;
    ns_parameters* v = make(requests, 2, NULL, 0);
    assert_int_equal(ns_parameters_count(v), 3);
    assert_string_equal(ns_parameters_at(v, 0)->name, "joint/joint0/damping");
    assert_string_equal(ns_parameters_at(v, 1)->name, "joint/joint1/damping");
    assert_string_equal(ns_parameters_at(v, 2)->name, "link/link1/mass");
    assert_string_equal(ns_parameters_at(v, 2)->unit, "kg");
    // Those of the system stand in the order of the model.
    assert_int_equal(nsi_parameters_param_count(v, 0), 3);
    for (uint32_t k = 0; k < 2; k++) {
        assert_true(ns_model_find_param(pendulum, nsi_parameters_param_names(v, 0)[k]) <
                    ns_model_find_param(pendulum, nsi_parameters_param_names(v, 0)[k + 1]));
    }
    double *scratch = scratch_of(v), x[3], p[3];
    nsi_parameters_initial(v, x);
    assert_true(x[0] == 0.1 && x[1] == 0.1 && x[2] == 0.6);
    x[0] = 0.2, x[1] = 0.3;
    nsi_parameters_params(v, 0, x, p, NULL, scratch);
    for (uint32_t k = 0; k < 3; k++) {
        const char* name = nsi_parameters_param_names(v, 0)[k];
        double value = NAN;
        for (uint32_t i = 0; i < 3; i++) {
            if (strcmp(ns_parameters_at(v, i)->name, name) == 0) value = x[i];
        }
        assert_true(p[k] == value);
    }
    free(scratch);
    ns_parameters_free(v);
}

// `set` of the options is where parameters start, the later one first.
static void options_give_starts(void** state) {
    (void)state;
    ns_param_value values[] = {{"link/*/mass", 2.0}, {"link/link1/mass", 3.0}};
    ns_system_options options = ns_default_system_options();
    options.set = values;
    options.nset = 2;
    nsi_parameter_request request = ask("link/*/mass");
    ns_parameters* v = NULL;
    ns_error error;
    assert_int_equal(nsi_parameters_read(&(ns_variant){.model = pendulum, .options = &options}, 1,
                                         "e.yaml", &request, 1, NULL, 0, NULL, &v, &error),
                     NS_OK);
    assert_true(ns_parameters_at(v, 0)->initial == 2.0 && ns_parameters_at(v, 1)->initial == 3.0);
    ns_parameters_free(v);
}

static void every_parameter_of_a_model_can_be_asked_for(void** state) {
    (void)state;
    for (uint32_t k = 0; k < ns_model_get_sizes(pendulum).nparam; k++) {
        nsi_parameter_request request = ask(ns_model_param(pendulum, k)->name);
        ns_parameters* v = make(&request, 1, NULL, 0);
        double *scratch = scratch_of(v), x, z, back, p;
        nsi_parameters_initial(v, &x);
        assert_true(x == ns_model_param(pendulum, k)->value);
        nsi_parameters_to_z(v, &x, &z);
        nsi_parameters_from_z(v, &z, &back, NULL, scratch);
        assert_near(back, x, 1e-3, request.name); // at a bound it is moved off
        nsi_parameters_params(v, 0, &back, &p, NULL, scratch);
        assert_true(p == back);
        free(scratch);
        ns_parameters_free(v);
    }
}

// ---- formulas ----------------------------------------------------------------------------------

static void formulas_set_parameters(void** state) {
    (void)state;
    nsi_parameter_request requests[] = {ask_own("length", 0.9, 0.1, 2.0), ask_own("m", 1.5, 0, NAN),
                                        ask("link/link1/mass")};
    nsi_setting_request settings[] = {
        set("link/link1/com/z", "-length / 2"),
        set("link/link0/mass", "m"),
        set("link/link1/inertia/yy", "\"link/link1/mass\" * length^2 / 12"),
        set("joint/*/damping", "0.01 * m + \"link/link0/inertia/yy\""),
    };
    ns_parameters* v = make(requests, 3, settings, 4);
    assert_int_equal(ns_parameters_count(v), 3);
    assert_int_equal(nsi_parameters_param_count(v, 0), 6);
    double *scratch = scratch_of(v), x[3] = {0.8, 1.2, 0.7}, p[6], z[3];
    nsi_parameters_params(v, 0, x, p, NULL, scratch);
    for (uint32_t k = 0; k < 6; k++) {
        const char* name = nsi_parameters_param_names(v, 0)[k];
        double expected = strstr(name, "com/z")        ? -0.4
                          : strstr(name, "link0/mass") ? 1.2
                          : strstr(name, "link1/mass") ? 0.7
                          : strstr(name, "inertia/yy") ? 0.7 * 0.64 / 12
                                                       : 0.01 * 1.2 + 0.085;
        assert_near(p[k], expected, 1e-15, name);
    }
    nsi_parameters_to_z(v, x, z);
    check_derivatives(v, z);
    free(scratch);
    ns_parameters_free(v);
}

// {} stands for what the * of the name stands for.
static void formulas_follow_their_names(void** state) {
    (void)state;
    nsi_parameter_request own = ask_own("a", 2.0, 0, NAN);
    nsi_setting_request s =
        set("link/*/mass", "a * \"link/{}/inertia/yy\" + 0 * \"link/{}/com/z\"");
    ns_parameters* v = make(&own, 1, &s, 1);
    double *scratch = scratch_of(v), x = 3.0, p[2];
    assert_int_equal(nsi_parameters_param_count(v, 0), 2);
    nsi_parameters_params(v, 0, &x, p, NULL, scratch);
    for (uint32_t k = 0; k < 2; k++) {
        char name[60];
        snprintf(name, sizeof name, "link/link%u/inertia/yy", k);
        assert_near(p[k],
                    3.0 * ns_model_param(pendulum, ns_model_find_param(pendulum, name))->value,
                    1e-15, name);
    }
    free(scratch);
    ns_parameters_free(v);
    s = set("link/link?/mass", "a * \"link/{}/inertia/yy\"");
    refuse(&own, 1, &s, 1, "7:9", "needs one *");
    s = set("l*/*/mass", "a * \"link/{}/inertia/yy\"");
    refuse(&own, 1, &s, 1, "7:9", "needs one *");
    s = set("link/*/mass", "a * \"link/{}/inertia/yyy\"");
    refuse(&own, 1, &s, 1, "7:9", "inertia/yyy");
}

// Where one of the names that fit has not all that the formula uses, the others still have it.
static void formulas_hold_where_they_can(void** state) {
    (void)state;
    static const char body[] = "<inertial pos='0 0 0' mass='2' diaginertia='1 1 1'/>";
    static const char* const links[] = {"h0", "other"};
    ns_model* models[2];
    ns_variant variants[2];
    for (int k = 0; k < 2; k++) {
        char text[600];
        snprintf(text, sizeof text,
                 "<mujoco><worldbody><body name='%s'><joint name='h0'/>%s</body>"
                 "<body name='h1'><joint name='h1'/>%s</body></worldbody></mujoco>",
                 links[k], body, body);
        assert_int_equal(ns_model_parse(text, strlen(text), "m.xml", NULL, &models[k], NULL),
                         NS_OK);
        variants[k] = (ns_variant){links[k], links[k], models[k], &no_options};
    }
    nsi_parameter_request own = ask_own("a", 2.0, 0, NAN);
    nsi_setting_request s = set("joint/*/armature", "a * \"link/{}/mass\"");
    ns_parameters* v = NULL;
    assert_int_equal(nsi_parameters_read(variants, 2, "e.yaml", &own, 1, &s, 1, NULL, &v, NULL),
                     NS_OK);
    assert_int_equal(nsi_parameters_param_count(v, 0), 2);
    assert_int_equal(nsi_parameters_param_count(v, 1), 1);
    assert_string_equal(nsi_parameters_param_names(v, 1)[0], "joint/h1/armature");
    ns_parameters_free(v);
    for (int k = 0; k < 2; k++) ns_model_free(models[k]);
}

// ---- bodies ------------------------------------------------------------------------------------

// Smallest eigenvalue of a symmetric 4 x 4 matrix by Jacobi rotations.
static double least_eigenvalue(double A[4][4]) {
    for (int sweep = 0; sweep < 60; sweep++) {
        for (int p = 0; p < 4; p++) {
            for (int q = p + 1; q < 4; q++) {
                if (A[p][q] == 0.0) continue;
                double theta = 0.5 * atan2(2.0 * A[p][q], A[q][q] - A[p][p]);
                double c = cos(theta), s = sin(theta);
                for (int k = 0; k < 4; k++) {
                    double a = A[k][p], b = A[k][q];
                    A[k][p] = c * a - s * b;
                    A[k][q] = s * a + c * b;
                }
                for (int k = 0; k < 4; k++) {
                    double a = A[p][k], b = A[q][k];
                    A[p][k] = c * a - s * b;
                    A[q][k] = s * a + c * b;
                }
            }
        }
    }
    double least = A[0][0];
    for (int k = 1; k < 4; k++) least = fmin(least, A[k][k]);
    return least;
}

// Is there a body of this mass, centre and inertia? There is when its pseudo-inertia is positive.
static bool is_physical(const double body[10]) {
    const double *c = body + 1, *I = body + 4;
    double half = 0.5 * (I[0] + I[1] + I[2]), m = body[0];
    double S[3][3] = {
        {half - I[0], -I[3], -I[4]}, {-I[3], half - I[1], -I[5]}, {-I[4], -I[5], half - I[2]}};
    double J[4][4];
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) J[i][j] = S[i][j] + m * c[i] * c[j];
        J[i][3] = J[3][i] = m * c[i];
    }
    J[3][3] = m;
    return m > 0.0 && least_eigenvalue(J) > 0.0;
}

// Order of a body among the variables of "link/link1/mass", "com/*", "inertia/*": as in the model.
static void whole_bodies_stay_physical(void** state) {
    (void)state;
    nsi_parameter_request requests[] = {ask("link/link1/mass"), ask("link/link1/com/*"),
                                        ask("link/link1/inertia/*")};
    ns_parameters* v = make(requests, 3, NULL, 0);
    assert_int_equal(ns_parameters_count(v), 10);
    for (uint32_t k = 0; k < 10; k++) {
        assert_int_equal(ns_parameters_at(v, k)->transform, NS_PARAMETER_INERTIA);
    }
    double *scratch = scratch_of(v), x[10], z[10], back[10], again[10], p[10];
    nsi_parameters_initial(v, x);
    nsi_parameters_to_z(v, x, z);
    nsi_parameters_from_z(v, z, back, NULL, scratch);
    for (int k = 0; k < 10; k++) assert_near(back[k], x[k], 1e-14, "start");
    ns_rng rng = ns_rng_seed(3);
    for (int trial = 0; trial < 500; trial++) {
        for (int k = 0; k < 10; k++) z[k] = ns_rng_normal(&rng);
        nsi_parameters_from_z(v, z, x, NULL, scratch);
        assert_true(is_physical(x));
        nsi_parameters_params(v, 0, x, p, NULL, scratch);
        assert_null(nsi_parameters_fault(v, 0, p));
        nsi_parameters_to_z(v, x, back);
        for (int k = 0; k < 10; k++) assert_near(back[k], z[k], 1e-7, "coordinates");
        nsi_parameters_from_z(v, back, again, NULL, scratch);
        for (int k = 0; k < 10; k++) assert_near(again[k], x[k], 1e-9, "body");
        if (trial < 50) check_derivatives(v, z);
    }
    free(scratch);
    ns_parameters_free(v);
}

// What one asks for can come in any order.
static void the_order_of_a_body_does_not_matter(void** state) {
    (void)state;
    nsi_parameter_request requests[] = {ask("link/link1/inertia/*"), ask("joint/joint0/damping"),
                                        ask("link/link1/com/*"), ask("link/link1/mass")};
    requests[1].how.initial = 0.1;
    ns_parameters* v = make(requests, 4, NULL, 0);
    double *scratch = scratch_of(v), x[11], z[11], back[11];
    nsi_parameters_initial(v, x);
    nsi_parameters_to_z(v, x, z);
    nsi_parameters_from_z(v, z, back, NULL, scratch);
    for (uint32_t k = 0; k < 11; k++) assert_near(back[k], x[k], 1e-14, "body");
    free(scratch);
    ns_parameters_free(v);
}

// A thin rod has no inertia about its axis, and no logarithm of it: it is thickened a little.
static void rods_on_the_border_are_taken_in(void** state) {
    (void)state;
    ns_model_builder* builder = NULL;
    ns_model* rod = NULL;
    ns_error error = {0};
    ns_link_def def = ns_default_link_def();
    def.name = "rod";
    def.joint_type = NS_JOINT_REVOLUTE;
    def.axis[0] = 0, def.axis[1] = 1, def.axis[2] = 0;
    def.mass = 2.0, def.com[2] = -0.5;
    def.inertia[0] = def.inertia[1] = 0.1;
    assert_int_equal(ns_model_builder_create(NULL, &builder, NULL), NS_OK);
    assert_int_equal(ns_model_builder_add_link(builder, &def, &error), NS_OK);
    assert_int_equal(ns_model_builder_finish(builder, &rod, &error), NS_OK);
    ns_model_builder_free(builder);
    nsi_parameter_request requests[] = {ask("link/rod/mass"), ask("link/rod/com/*"),
                                        ask("link/rod/inertia/*")};
    ns_parameters* v = NULL;
    assert_int_equal(nsi_parameters_read(&(ns_variant){.model = rod, .options = &no_options}, 1,
                                         "e.yaml", requests, 3, NULL, 0, NULL, &v, &error),
                     NS_OK);
    double *scratch = scratch_of(v), x[10], z[10], back[10];
    nsi_parameters_initial(v, x);
    nsi_parameters_to_z(v, x, z);
    nsi_parameters_from_z(v, z, back, NULL, scratch);
    for (int k = 0; k < 10; k++) assert_near(back[k], x[k], 1e-7, "rod");
    free(scratch);
    ns_parameters_free(v);
    ns_model_free(rod);
}

static void faults_name_the_link(void** state) {
    (void)state;
    nsi_parameter_request requests[] = {ask("link/link1/inertia/yy"), ask("joint/joint0/damping"),
                                        ask("link/link0/mass")};
    ns_parameters* v = make(requests, 3, NULL, 0);
    // In the order of the model: mass of link0, damping, inertia of link1.
    double good[] = {1.0, 0.1, 0.035}, heavy[] = {1.0, 0.1, 0.5}, negative[] = {-1.0, 0.1, 0.035};
    double nothing[] = {1.0, NAN, 0.035}, far[] = {1.0, 0.1, INFINITY};
    assert_null(nsi_parameters_fault(v, 0, good));
    assert_string_equal(nsi_parameters_fault(v, 0, heavy), "link1"); // above xx + zz
    assert_string_equal(nsi_parameters_fault(v, 0, negative), "link0");
    assert_string_equal(nsi_parameters_fault(v, 0, nothing), "joint/joint0/damping");
    assert_string_equal(nsi_parameters_fault(v, 0, far), "link/link1/inertia/yy");
    double below[] = {1.0, -0.1, 0.035}; // of what the model can have; a formula leads there
    assert_string_equal(nsi_parameters_fault(v, 0, below), "joint/joint0/damping");
    ns_parameters_free(v);
}

// ---- messages ----------------------------------------------------------------------------------

static void messages_say_where_and_what(void** state) {
    (void)state;
    refuse_one(ask("link/link1/mas"), "did you mean \"link/link1/mass\"?");
    refuse_one(ask("link/*/weight"), "no parameter matches \"link/*/weight\"");
    refuse_one(ask("length"), "a number of your own needs an initial value");
    refuse_one(ask_own("length", 1.0, 2.0, 1.0), "the lower bound 2 is not below the upper one 1");
    refuse_one(ask_own("length", 1.0, 1.0, 1.0), "is not below");
    refuse_one(ask_own("length", 3.0, 1.0, 2.0), "the initial value 3 is not between 1 and 2");
    nsi_parameter_request r = ask("link/link1/mass");
    r.how.initial = -1.0;
    refuse_one(r, "link/link1/mass: the initial value -1 is not between 0 and inf");
    r = ask_own("a", 1.0, NAN, NAN);
    r.how.scale = 0.0;
    refuse_one(r, "scale and prior_sigma must be positive");
    r.how.scale = NAN;
    r.how.prior_sigma = -1.0;
    refuse_one(r, "scale and prior_sigma must be positive");
    nsi_parameter_request twice[] = {ask("link/*/mass"), ask("link/link1/mass")};
    refuse(twice, 2, NULL, 0, "3:5", "link/link1/mass is asked for twice");

    nsi_parameter_request own = ask_own("a", 1.0, NAN, NAN);
    nsi_setting_request s = set("link/link1/mass", "a + b");
    refuse(&own, 1, &s, 1, "7:9", "uses \"b\", which is neither a parameter");
    s = set("link/link1/mass", "a +");
    refuse(&own, 1, &s, 1, "7:9", "of the formula");
    s = set("link/link1/mas", "a");
    refuse(&own, 1, &s, 1, "7:9", "did you mean \"link/link1/mass\"?");
    nsi_setting_request circle[] = {set("link/link1/mass", "a * \"link/link0/mass\""),
                                    set("link/link0/mass", "a")};
    refuse(&own, 1, circle, 2, "7:9", "itself set by a formula");
    nsi_setting_request again[] = {set("link/link1/mass", "a"), set("link/*/mass", "2 * a")};
    refuse(&own, 1, again, 2, "7:9", "is set twice");
    nsi_parameter_request mass = ask("link/link1/mass");
    s = set("link/link1/mass", "2");
    refuse(&mass, 1, &s, 1, "7:9", "already estimated");
}

static void every_allocation_may_fail(void** state) {
    (void)state;
    nsi_parameter_request requests[] = {ask("link/link1/mass"), ask("link/link1/com/*"),
                                        ask("link/link1/inertia/*"), ask_own("a", 1.0, 0.0, 2.0)};
    nsi_setting_request settings[] = {set("joint/*/damping", "a"), set("link/link0/mass", "1 + a")};
    for (size_t n = 1;; n++) {
        test_alloc counter = {.fail_at = n};
        ns_allocator allocator = test_allocator(&counter);
        ns_parameters* v = NULL;
        ns_error error = {0};
        ns_status status =
            nsi_parameters_read(&(ns_variant){.model = pendulum, .options = &no_options}, 1,
                                "e.yaml", requests, 4, settings, 2, &allocator, &v, &error);
        assert_int_equal(status, counter.calls < n ? NS_OK : NS_ERR_NOMEM);
        ns_parameters_free(v);
        assert_int_equal(counter.live_blocks, 0);
        if (status == NS_OK) break;
    }
}

// A fit of weights alone has none.
static void there_may_be_none(void** state) {
    (void)state;
    ns_parameters* v = make(NULL, 0, NULL, 0);
    double *scratch = scratch_of(v), none = 7.0;
    assert_int_equal(ns_parameters_count(v), 0);
    nsi_parameters_from_z(v, &none, &none, &none, scratch);
    nsi_parameters_params(v, 0, &none, &none, &none, scratch);
    assert_null(nsi_parameters_fault(v, 0, &none));
    assert_true(none == 7.0);
    free(scratch);
    ns_parameters_free(v);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_transform_goes_there_and_back),
        cmocka_unit_test(bounds_hold_everywhere),
        cmocka_unit_test(starts_at_bounds_can_move),
        cmocka_unit_test(globs_ask_for_many),
        cmocka_unit_test(options_give_starts),
        cmocka_unit_test(every_parameter_of_a_model_can_be_asked_for),
        cmocka_unit_test(formulas_set_parameters),
        cmocka_unit_test(formulas_follow_their_names),
        cmocka_unit_test(formulas_hold_where_they_can),
        cmocka_unit_test(whole_bodies_stay_physical),
        cmocka_unit_test(the_order_of_a_body_does_not_matter),
        cmocka_unit_test(rods_on_the_border_are_taken_in),
        cmocka_unit_test(faults_name_the_link),
        cmocka_unit_test(messages_say_where_and_what),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(there_may_be_none),
    };
    return cmocka_run_group_tests(tests, load_pendulum, free_pendulum);
}
