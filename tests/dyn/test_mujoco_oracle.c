// Every model of tests/data/mujoco, from MJCF and from URDF, against the numbers of MuJoCo. See
// tests/data/README.md for what those are and how good they are.

#include "base/common.h"
#include "model/model_data.h"
#include "model/pose.h"
#include "neuralsim/sim.h"
#include "support/assert.h"
#include "support/modelfile.h"
#include "support/residual.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

// Two programs that round differently, up to the condition number of a mass matrix (1e4 at most).
static const double VALUES = 1e-12;

// The reference is central differences, good to 1e-9 of the largest entry.
static const double DERIVATIVES = 1e-9;

// The same formulas step by step; rounding grows as nearby trajectories part, by 1e4 or so over
// these lengths.
static const double TRAJECTORY = 1e-11;

static const struct {
    const char* name;
    double step;      // s, for comparing with the trajectory *_rk4_dt1e-5; 0: there is none
    double reference; // accuracy of that trajectory
} models[] = {
    {"double_pendulum", 1e-4, 1e-11}, {"pendulum5", 2e-5, 1e-11}, {"arm7_mixed", 1e-4, 1e-8},
    {"free_body", 1e-4, 1e-9},        {"quad12", 1e-4, 1e-9},     {"swimmer2", 0.0, 0.0},
    {"swimmer6", 0.0, 0.0},
};
enum { MODELS = sizeof models / sizeof *models, FORMATS = 2 };
static const char* const formats[FORMATS] = {"xml", "urdf"};

// ---- reference data ------------------------------------------------------------------------

static json_t* load_oracle(const char* name) {
    char path[1000];
    json_error_t error;
    snprintf(path, sizeof path, NEURALSIM_SOURCE_DIR "/tests/data/mujoco/oracle/%s.json", name);
    json_t* root = json_load_file(path, 0, &error);
    if (!root) fail_msg("%s:%d: %s", path, error.line, error.text);
    return root;
}

// Copy a number, a vector or a matrix (by rows), which must have `count` numbers in all.
static size_t copy_numbers(const json_t* value, double* out, size_t room) {
    if (json_is_number(value)) {
        assert_true(room > 0);
        *out = json_number_value(value);
        return 1;
    }
    size_t used = 0;
    for (size_t i = 0; i < json_array_size(value); i++) {
        used += copy_numbers(json_array_get(value, i), out + used, room - used);
    }
    return used;
}

static void read_numbers(const json_t* state, const char* key, double* out, size_t count) {
    const json_t* value = json_object_get(state, key);
    if (!value) fail_msg("the oracle has no %s", key);
    size_t found = copy_numbers(value, out, count);
    if (found != count) fail_msg("%s has %zu numbers, not %zu", key, found, count);
}

// A CSV file with one line of names: (rows x columns) to be freed.
static double* read_csv(const char* name, const char* suffix, size_t columns, size_t* rows) {
    char path[100];
    size_t size;
    snprintf(path, sizeof path, "mujoco/trajectory/%s_%s.csv", name, suffix);
    char *text = modelfile_read(path, &size), *at = strchr(text, '\n');
    NSI_ARRAY(double) numbers = {0};
    while (at && *++at) {
        for (size_t k = 0; k < columns; k++) {
            char* end = at;
            double x = strtod(at, &end);
            if (end == at || *end != (k + 1 < columns ? ',' : '\n')) {
                fail_msg("%s: a row is malformed", path);
            }
            assert_true(nsi_array_push(NULL, &numbers, x));
            at = end + (k + 1 < columns ? 1 : 0);
        }
    }
    free(text);
    *rows = numbers.count / columns;
    assert_true(*rows > 10);
    return numbers.data;
}

// ---- models --------------------------------------------------------------------------------

static ns_model* load_file(const char* name, const char* format) {
    char path[100];
    snprintf(path, sizeof path, "mujoco/models/%s.%s", name, format);
    return modelfile_load(path);
}

// The same model with other inertias (6 per link) unless NULL, and in another world unless NULL;
// actuators and limits are kept or not. Frees `model`.
static ns_model* rebuild(ns_model* model, const double* inertia, const ns_world_def* world,
                         bool forces) {
    ns_model_sizes n = ns_model_get_sizes(model);
    ns_model_builder* builder = NULL;
    ns_model* out = NULL;
    ns_error error = {0};
    ns_status status = ns_model_builder_create(NULL, &builder, &error);
    if (!world) world = ns_model_world(model);
    if (status == NS_OK) status = ns_model_builder_set_world(builder, world, &error);
    for (uint32_t i = 0; i < n.nlink && status == NS_OK; i++) {
        ns_link_def link = *ns_model_link(model, i);
        if (inertia) memcpy(link.inertia, inertia + 6 * i, sizeof link.inertia);
        if (!forces) link.limited = false;
        status = ns_model_builder_add_link(builder, &link, &error);
    }
    for (uint32_t i = 0; i < n.nu && status == NS_OK && forces; i++) {
        status = ns_model_builder_add_actuator(builder, ns_model_actuator(model, i), &error);
    }
    if (status == NS_OK) status = ns_model_builder_finish(builder, &out, &error);
    must(status, &error);
    ns_model_builder_free(builder);
    ns_model_free(model);
    return out;
}

// A model being compared, in one of its two forms.
typedef struct subject {
    const char *name, *format;
    ns_model* model;
    ns_system* system;
    ns_workspace* work;
    ns_model_sizes sizes;
    ns_system_sizes n;
} subject;

static subject subject_create(uint32_t number, ns_model* model, const ns_system_options* options,
                              uint32_t batch) {
    subject s = {.name = models[number / FORMATS].name, .format = formats[number % FORMATS]};
    ns_error error = {0};
    s.model = model;
    s.sizes = ns_model_get_sizes(s.model);
    ns_workspace_size size = {.batch = batch, .steps = 1, .threads = 1};
    if (ns_system_create(s.model, options, &s.system, &error) != NS_OK ||
        ns_workspace_create(s.system, &size, &s.work, &error) != NS_OK) {
        fail_msg("%s.%s: %s", s.name, s.format, error.message);
    }
    s.n = ns_system_get_sizes(s.system);
    return s;
}

static void subject_free(subject* s) {
    ns_workspace_free(s->work);
    ns_system_free(s->system);
    ns_model_free(s->model);
}

static uint32_t find_observation(const subject* s, const char* format, ...) NSI_PRINTF(2, 3);
static uint32_t find_observation(const subject* s, const char* format, ...) {
    char name[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(name, sizeof name, format, arguments);
    va_end(arguments);
    for (uint32_t i = 0; i < s->n.ny; i++) {
        if (strcmp(ns_system_observation_name(s->system, i), name) == 0) return i;
    }
    fail_msg("%s.%s: \"%s\" is not observed", s->name, s->format, name);
    return 0;
}

// The state and control of a reference state, as rows of a batch.
static void read_state(const subject* s, const json_t* state, double* x, double* c) {
    read_numbers(state, "q", x, s->sizes.nq);
    read_numbers(state, "qd", x + s->sizes.nq, s->sizes.nv);
    read_numbers(state, "tau", c + s->sizes.nu, s->sizes.nv);
}

// ---- the model that the reference simulates ------------------------------------------------
//
// MuJoCo keeps principal moments and axes of a body, found by an iteration that stops early: where
// a file has products of inertia, the body that MuJoCo simulates is not quite the file's. On
// free_body, whose mass matrix shows the tensor directly, they differ by 9e-11 kg m^2, whatever the
// state; on arm7_mixed, with its light hand, accelerations then differ by 6e-7. So the tensors are
// first taken from the reference mass matrices, of which they are a linear function: a fit of 6
// numbers per body to 50 nv^2. What it may change is bounded, all other quantities have no part in
// it, and models without products of inertia are compared as they are.

// Of the largest moment of a body; seen: up to 9e-7.
static const double INERTIA_CHANGE = 1e-6;

// With the inertias of the file.
static const double VALUES_OF_FILE = 1e-6;

static bool has_products(const ns_link_def* link) {
    return link->inertia[3] != 0.0 || link->inertia[4] != 0.0 || link->inertia[5] != 0.0;
}

// Least squares: minimise |A x - b| for columns A[0..n), by the normal equations. What A does not
// see stays zero, thanks to a ridge that is far below what is wanted.
static void least_squares(uint32_t n, double* const* A, const double* b, size_t rows, double* x) {
    const double ridge = 1e-12;
    double *AA = doubles((size_t)n * n), largest = 0.0;
    for (uint32_t i = 0; i < n; i++) {
        x[i] = 0.0;
        for (size_t k = 0; k < rows; k++) x[i] += A[i][k] * b[k];
        for (uint32_t j = 0; j < n; j++) {
            for (size_t k = 0; k < rows; k++) AA[i * n + j] += A[i][k] * A[j][k];
        }
        largest = fmax(largest, AA[i * n + i]);
    }
    for (uint32_t i = 0; i < n; i++) AA[i * n + i] += ridge * largest;
    // Gauss, without pivoting: the matrix is positive definite.
    for (uint32_t j = 0; j < n; j++) {
        for (uint32_t i = j + 1; i < n; i++) {
            double factor = AA[i * n + j] / AA[j * n + j];
            for (uint32_t k = j; k < n; k++) AA[i * n + k] -= factor * AA[j * n + k];
            x[i] -= factor * x[j];
        }
    }
    for (uint32_t i = n; i-- > 0;) {
        for (uint32_t k = i + 1; k < n; k++) x[i] -= AA[i * n + k] * x[k];
        x[i] /= AA[i * n + i];
    }
    free(AA);
}

// For parameter `param`: dM/dp in all states, by forward mode.
static double* mass_matrix_slope(const subject* s, const ns_rollout_args* args, uint32_t param) {
    double *dp = doubles(s->n.np), *dy = doubles((size_t)args->batch * s->n.ny);
    ns_error error = {0};
    ns_rollout_tangent tangent = {.dparams = dp, .dobservations = dy};
    dp[param] = 1.0;
    must(ns_rollout_jvp(s->system, s->work, args, &tangent, &error), &error);
    free(dp);
    return dy;
}

// Load a model and give it the reference's inertias.
static ns_model* load_model(uint32_t number) {
    const char* name = models[number / FORMATS].name;
    ns_model* model = load_file(name, formats[number % FORMATS]);
    json_t* oracle = load_oracle(name);
    const json_t* states = json_object_get(oracle, "states");
    uint32_t count = (uint32_t)json_array_size(states);
    static const char *const observe[] = {"mass_matrix"}, *const inertias[] = {"link/*/inertia/*"};
    ns_system_options options = ns_default_system_options();
    options.observe = observe;
    options.free_params = inertias;
    options.nobserve = options.nfree = 1;
    subject s = subject_create(number, model, &options, count);
    assert_int_equal(s.n.np, 6 * s.sizes.nlink);

    // How far the file's mass matrices are from those of the reference.
    size_t entries = (size_t)count * s.n.ny;
    double *x = doubles(count * s.n.nx), *c = doubles(count * s.n.nc), *M = doubles(entries);
    double *missing = doubles(entries), *inertia = doubles(s.n.np), *change = doubles(s.n.np);
    for (uint32_t i = 0; i < count; i++) {
        const json_t* state = json_array_get(states, i);
        read_state(&s, state, x + i * s.n.nx, c + i * s.n.nc);
        read_numbers(state, "M", missing + (size_t)i * s.n.ny, s.n.ny);
    }
    ns_error error = {0};
    ns_rollout_args args = {.batch = count, .steps = 1, .x0 = x, .controls = c, .observations = M};
    must(ns_rollout(s.system, s.work, &args, &error), &error);
    for (size_t k = 0; k < entries; k++) missing[k] -= M[k];

    // The change of inertia that makes up for it.
    args.observations = NULL;
    uint32_t n = 0, *unknown = malloc((s.n.np + 1) * sizeof *unknown);
    double** slope = malloc((s.n.np + 1) * sizeof *slope);
    assert_true(unknown && slope);
    for (uint32_t p = 0; p < s.n.np; p++) {
        if (!has_products(ns_model_link(model, p / 6))) continue;
        slope[n] = mass_matrix_slope(&s, &args, p);
        unknown[n++] = p;
    }
    least_squares(n, slope, missing, entries, change);
    ns_system_default_params(s.system, inertia);
    for (uint32_t i = 0; i < n; i++) {
        const double* own = ns_model_link(model, unknown[i] / 6)->inertia;
        double largest = fmax(own[0], fmax(own[1], own[2]));
        if (!(fabs(change[i]) <= INERTIA_CHANGE * largest)) {
            fail_msg("%s: %s differs by %g", name, ns_system_param_name(s.system, unknown[i]),
                     change[i]);
        }
        inertia[unknown[i]] += change[i];
        free(slope[i]);
    }
    ns_workspace_free(s.work);
    ns_system_free(s.system);
    model = rebuild(model, inertia, NULL, true);
    free(x), free(c), free(M), free(missing), free(inertia), free(change), free(unknown);
    free(slope);
    json_decref(oracle);
    return model;
}

// ---- values --------------------------------------------------------------------------------

typedef struct value_residuals {
    residual qdd, M, bias, energy, position, orientation, com, jacobian;
} value_residuals;

// Quaternions up to their sign.
static void compare_quaternion(residual* r, const double* got, const double* want) {
    double sign = 0.0, flipped[4];
    for (int k = 0; k < 4; k++) sign += got[k] * want[k];
    for (int k = 0; k < 4; k++) flipped[k] = sign < 0.0 ? -got[k] : got[k];
    residual_array(r, flipped, want, 4, 1.0);
}

static void compare_values(const subject* s, const json_t* oracle, const json_t* state,
                           const double* y, value_residuals* r) {
    uint32_t nv = s->sizes.nv;
    const json_t* bodies = json_object_get(oracle, "bodies");
    size_t nbody = json_array_size(bodies);
    const char* last = json_string_value(json_array_get(bodies, nbody - 1));
    double *want = doubles((size_t)nv * nv), *pose = doubles(7 * nbody), energy[2];

    read_numbers(state, "qdd", want, nv);
    residual_array(&r->qdd, y + find_observation(s, "qdd/0"), want, nv, 1.0);
    read_numbers(state, "bias", want, nv);
    // The swimmers move centimetres and grams: relative to what is there.
    residual_array(&r->bias, y + find_observation(s, "bias/0"), want, nv, 1e-5);
    read_numbers(state, "M", want, (size_t)nv * nv);
    residual_array(&r->M, y + find_observation(s, "mass_matrix/0/0"), want, (size_t)nv * nv, 0.0);
    read_numbers(state, "kinetic", energy, 1);
    read_numbers(state, "potential", energy + 1, 1);
    residual_array(&r->energy, y + find_observation(s, "energy/kinetic"), energy, 2, 0.0);
    read_numbers(state, "com", want, 3);
    residual_array(&r->com, y + find_observation(s, "com/x"), want, 3, 0.1);

    read_numbers(state, "body_pos", pose, 3 * nbody);
    read_numbers(state, "body_quat", pose + 3 * nbody, 4 * nbody);
    for (size_t i = 0; i < nbody; i++) {
        const char* name = json_string_value(json_array_get(bodies, i));
        const double* got = y + find_observation(s, "link/%s/pose/x", name);
        residual_array(&r->position, got, pose + 3 * i, 3, 0.1);
        compare_quaternion(&r->orientation, got + 3, pose + 3 * nbody + 4 * i);
    }
    free(want);
    want = doubles(3 * (size_t)nv);
    read_numbers(state, "last_body_jacp", want, 3 * (size_t)nv);
    residual_array(&r->jacobian, y + find_observation(s, "link/%s/jacobian/linear/0/0", last), want,
                   3 * (size_t)nv, 0.0);
    read_numbers(state, "last_body_jacr", want, 3 * (size_t)nv);
    residual_array(&r->jacobian, y + find_observation(s, "link/%s/jacobian/angular/0/0", last),
                   want, 3 * (size_t)nv, 0.0);
    free(want);
    free(pose);
}

// All 50 states of a model, which is freed; `tolerance` for what depends on inertias.
static void check_values(uint32_t number, ns_model* model, double tolerance) {
    json_t* oracle = load_oracle(models[number / FORMATS].name);
    const json_t* states = json_object_get(oracle, "states");
    uint32_t count = (uint32_t)json_array_size(states);
    static const char* const observe[] = {"qdd",         "bias",
                                          "mass_matrix", "energy",
                                          "com",         "link/*/jacobian/linear",
                                          "link/*/pose", "link/*/jacobian/angular"};
    ns_system_options options = ns_default_system_options();
    options.observe = observe;
    options.nobserve = sizeof observe / sizeof *observe;
    subject s = subject_create(number, model, &options, count);
    assert_int_equal(s.sizes.nq, json_integer_value(json_object_get(oracle, "nq")));
    assert_int_equal(s.sizes.nv, json_integer_value(json_object_get(oracle, "nv")));
    assert_int_equal(count, 50);
    double *x = doubles(count * s.n.nx), *c = doubles(count * s.n.nc);
    double* y = doubles((size_t)count * s.n.ny);
    for (uint32_t i = 0; i < count; i++) {
        read_state(&s, json_array_get(states, i), x + i * s.n.nx, c + i * s.n.nc);
    }
    ns_error error = {0};
    ns_rollout_args args = {.batch = count, .steps = 1, .x0 = x, .controls = c, .observations = y};
    must(ns_rollout(s.system, s.work, &args, &error), &error);

    value_residuals r = {{.name = "qdd", .tolerance = tolerance},
                         {.name = "mass matrix", .tolerance = tolerance},
                         {.name = "bias", .tolerance = tolerance},
                         {.name = "energies", .tolerance = tolerance},
                         {.name = "positions", .tolerance = VALUES},
                         {.name = "orientations", .tolerance = VALUES},
                         {.name = "centre of mass", .tolerance = VALUES},
                         {.name = "Jacobians", .tolerance = VALUES}};
    for (uint32_t i = 0; i < count; i++) {
        compare_values(&s, oracle, json_array_get(states, i), y + (size_t)i * s.n.ny, &r);
    }
    printf("  %s.%s\n", s.name, s.format);
    residual_check(&r.qdd);
    residual_check(&r.M);
    residual_check(&r.bias);
    residual_check(&r.energy);
    residual_check(&r.position);
    residual_check(&r.orientation);
    residual_check(&r.com);
    residual_check(&r.jacobian);
    free(x), free(c), free(y);
    subject_free(&s);
    json_decref(oracle);
}

static void values_agree(void** unused) {
    (void)unused;
    for (uint32_t m = 0; m < MODELS * FORMATS; m++) check_values(m, load_model(m), VALUES);
}

static void values_of_the_files_agree_as_far_as_inertias_do(void** unused) {
    (void)unused;
    for (uint32_t m = 0; m < MODELS * FORMATS; m++) {
        ns_model* model = load_file(models[m / FORMATS].name, formats[m % FORMATS]);
        bool exact = true;
        for (uint32_t i = 0; i < ns_model_get_sizes(model).nlink; i++) {
            exact = exact && !has_products(ns_model_link(model, i));
        }
        check_values(m, model, exact ? VALUES : VALUES_OF_FILE);
    }
}

// ---- derivatives ---------------------------------------------------------------------------

// The change of coordinates when velocity k of the model is 1 for a unit of time: a unit vector, or
// for a quaternion q (0, e) / 2, the derivative of q exp(t e) at t = 0.
static void tangent(const ns_model* model, const double* q, uint32_t k, double* dq) {
    for (uint32_t i = 0; i < model->sizes.nlink; i++) {
        const nsi_link* l = &model->links[i];
        if (k < l->v || k >= l->v + l->nv) continue;
        uint32_t plain = l->nq == 7 ? 3 : l->nq == 4 ? 0 : l->nq, part = k - l->v;
        if (part < plain) {
            dq[l->q + part] = 1.0;
        } else {
            double half[4] = {0.0};
            half[1 + part - plain] = 0.5;
            nsi_quat_multiply(q + l->q + plain, half, dq + l->q + plain);
        }
    }
}

// Directions: nv of q, nv of qd, nv of tau, for each state.
static void derivatives_agree(void** unused) {
    (void)unused;
    for (uint32_t m = 0; m < MODELS * FORMATS; m++) {
        json_t* oracle = load_oracle(models[m / FORMATS].name);
        const json_t* states = json_object_get(oracle, "states");
        static const char* const observe[] = {"qdd"};
        static const char* const keys[3] = {"dqdd_dq", "dqdd_dqd", "dqdd_dtau"};
        uint32_t nv = (uint32_t)json_integer_value(json_object_get(oracle, "nv"));
        const uint32_t count = 10, batch = count * 3 * nv;
        ns_system_options options = ns_default_system_options();
        options.observe = observe;
        options.nobserve = 1;
        subject s = subject_create(m, load_model(m), &options, batch);
        double *x = doubles(batch * s.n.nx), *c = doubles(batch * s.n.nc);
        double *dx = doubles(batch * s.n.nx), *dc = doubles(batch * s.n.nc);
        double* dy = doubles(batch * nv);
        for (uint32_t b = 0; b < batch; b++) {
            uint32_t which = b / nv % 3, k = b % nv;
            double* q = x + b * s.n.nx;
            read_state(&s, json_array_get(states, b / nv / 3), q, c + b * s.n.nc);
            if (which == 0) tangent(s.model, q, k, dx + b * s.n.nx);
            if (which == 1) dx[b * s.n.nx + s.sizes.nq + k] = 1.0;
            if (which == 2) dc[b * s.n.nc + s.sizes.nu + k] = 1.0;
        }
        ns_error error = {0};
        ns_rollout_args args = {.batch = batch, .steps = 1, .x0 = x, .controls = c};
        ns_rollout_tangent t = {.dx0 = dx, .dcontrols = dc, .dobservations = dy};
        must(ns_rollout_jvp(s.system, s.work, &args, &t, &error), &error);

        residual r[3] = {{.name = "dqdd/dq", .tolerance = DERIVATIVES},
                         {.name = "dqdd/dqd", .tolerance = DERIVATIVES},
                         {.name = "dqdd/dtau", .tolerance = DERIVATIVES}};
        double *want = doubles((size_t)nv * nv), *got = doubles((size_t)nv * nv), size = 0.0;
        for (uint32_t i = 0; i < count * 3; i++) {
            read_numbers(json_array_get(states, i / 3), keys[i % 3], want, (size_t)nv * nv);
            for (uint32_t k = 0; k < nv * nv; k++) {
                got[k] = dy[(i * nv + k % nv) * nv + k / nv]; // column = direction
                size = fmax(size, fabs(want[k]));
            }
            residual_array(&r[i % 3], got, want, (size_t)nv * nv, 1.0);
        }
        assert_true(size > 1.0); // something was differentiated
        printf("  %s.%s\n", s.name, s.format);
        for (int k = 0; k < 3; k++) residual_check(&r[k]);
        free(x), free(c), free(dx), free(dc), free(dy), free(want), free(got);
        subject_free(&s);
        json_decref(oracle);
    }
}

// ---- trajectories --------------------------------------------------------------------------

// Simulate from the first row of a trajectory with steps of dt and compare each row, 0.01 s apart.
static void follow_trajectory(uint32_t number, const char* suffix, ns_integrator integrator,
                              double dt, residual* r) {
    static const char* const observe[] = {"energy/total"};
    ns_model* m = load_model(number);
    ns_model_sizes z = ns_model_get_sizes(m);
    size_t columns = 2 + z.nq + 2 * (size_t)z.nv, rows;
    double* csv = read_csv(models[number / FORMATS].name, suffix, columns, &rows);
    uint32_t every = (uint32_t)(0.01 / dt + 0.5), steps = (uint32_t)(rows - 1) * every;

    ns_error error = {0};
    ns_system* system = NULL;
    ns_workspace* work = NULL;
    ns_system_options options = ns_default_system_options();
    options.integrator = (int)integrator;
    options.timestep = dt;
    options.observe = observe;
    options.nobserve = 1;
    ns_workspace_size size = {.batch = 1, .steps = steps, .threads = 1};
    if (ns_system_create(m, &options, &system, &error) != NS_OK ||
        ns_workspace_create(system, &size, &work, &error) != NS_OK) {
        fail_msg("%s", error.message);
    }
    ns_system_sizes n = ns_system_get_sizes(system);
    double *states = doubles((steps + 1) * (size_t)n.nx), *controls = doubles(steps * (size_t)n.nc);
    double* energy = doubles(steps);
    const double *x0 = csv + 1, *tau = x0 + z.nq + z.nv;
    for (size_t k = 0; k < steps; k++) {
        memcpy(controls + k * n.nc + z.nu, tau, z.nv * sizeof *tau);
    }
    ns_rollout_args args = {.batch = 1,
                            .steps = steps,
                            .x0 = x0,
                            .controls = controls,
                            .states = states,
                            .observations = energy};
    must(ns_rollout(system, work, &args, &error), &error);

    for (size_t row = 1; row < rows; row++) {
        const double *want = csv + row * columns + 1, *got = states + row * every * n.nx;
        assert_true(fabs(want[-1] - 0.01 * (double)row) < 1e-9);
        for (uint32_t i = 0; i < z.nlink; i++) {
            const nsi_link* l = &m->links[i];
            uint32_t plain = l->nq == 7 ? 3 : l->nq == 4 ? 0 : l->nq;
            residual_array(r, got + l->q, want + l->q, plain, 1.0);
            if (plain < l->nq) {
                compare_quaternion(r, got + l->q + plain, want + l->q + plain);
            }
        }
        residual_array(r, got + z.nq, want + z.nq, z.nv, 1.0);
        if (row + 1 < rows) {
            residual_array(r, energy + row * every, csv + (row + 1) * columns - 1, 1, 1.0);
        }
    }
    free(csv), free(states), free(controls), free(energy);
    ns_workspace_free(work);
    ns_system_free(system);
    ns_model_free(m);
}

static void euler_trajectories_agree(void** unused) {
    (void)unused;
    for (uint32_t m = 0; m < MODELS * FORMATS; m++) {
        if (models[m / FORMATS].step == 0.0) continue;
        char name[64];
        snprintf(name, sizeof name, "%s.%s", models[m / FORMATS].name, formats[m % FORMATS]);
        residual r = {.name = name, .tolerance = TRAJECTORY};
        follow_trajectory(m, "euler_dt1e-3", NS_INTEGRATOR_EULER, 1e-3, &r);
        residual_check(&r);
    }
}

// With steps this short our own error is below that of the reference. On hinges both are exact to
// 1e-12, but for the rounding of 1e5 steps.
static void runge_kutta_reaches_the_reference(void** unused) {
    (void)unused;
    for (uint32_t m = 0; m < MODELS * FORMATS; m++) {
        if (models[m / FORMATS].step == 0.0) continue;
        char name[64];
        snprintf(name, sizeof name, "%s.%s", models[m / FORMATS].name, formats[m % FORMATS]);
        residual r = {.name = name, .tolerance = models[m / FORMATS].reference};
        follow_trajectory(m, "rk4_dt1e-5", NS_INTEGRATOR_RK4, models[m / FORMATS].step, &r);
        residual_check(&r);
    }
}

// On hinges both are the classical method, so they make the same errors.
static void runge_kutta_agrees_step_by_step_on_hinges(void** unused) {
    (void)unused;
    for (uint32_t m = 0; m < 2; m++) {
        residual r = {.name = models[m].name, .tolerance = TRAJECTORY};
        follow_trajectory(m * FORMATS, "rk4_dt1e-3", NS_INTEGRATOR_RK4, 1e-3, &r);
        residual_check(&r);
    }
}

// ---- one model, two files ------------------------------------------------------------------
//
// A URDF says nothing about gravity, time step and actuators, and must give its sliders limits
// (1000 m here). With the MJCF's world, and without actuators and limits, the two files describe
// the same robot, and tracing makes the same graph of it, node by node.

// Roll, pitch and yaw in one file are a quaternion in the other, printed with 17 digits: constants
// of frames that are turned agree to a few roundings only, entries of a rotation matrix being sums
// of products of those.
static const double CONSTANTS = 1e-15;

static ns_text step_text(ns_model* model) {
    ns_system* system = NULL;
    ns_text text = {0};
    ns_error error = {0};
    if (ns_system_create(model, NULL, &system, &error) != NS_OK ||
        ns_graph_print(ns_system_graph(system), &text, &error) != NS_OK) {
        fail_msg("%s", error.message);
    }
    ns_system_free(system);
    ns_model_free(model);
    return text;
}

// Lines are equal, or both define a constant by nearly the same number. Returns how many are such.
static uint32_t compare_texts(const char* name, const char* a, const char* b) {
    uint32_t line = 1, constants = 0;
    for (; *a && *b; line++) {
        size_t na = strcspn(a, "\n"), nb = strcspn(b, "\n");
        if (na != nb || memcmp(a, b, na) != 0) {
            double x = 0.0, y = 1.0;
            unsigned node_a = 0, node_b = 1;
            bool constant = sscanf(a, "%%%u = const %lf", &node_a, &x) == 2 &&
                            sscanf(b, "%%%u = const %lf", &node_b, &y) == 2 && node_a == node_b;
            if (!constant || fabs(x - y) > CONSTANTS) {
                fail_msg("%s: line %u is\n%.*s\nand\n%.*s", name, line, (int)na, a, (int)nb, b);
            }
            constants++;
        }
        a += na + (a[na] == '\n');
        b += nb + (b[nb] == '\n');
    }
    if (*a || *b) fail_msg("%s: one graph is longer than the other", name);
    return constants;
}

static void both_files_give_the_same_graph(void** unused) {
    (void)unused;
    for (uint32_t m = 0; m < MODELS; m++) {
        ns_model* mjcf = load_file(models[m].name, "xml");
        ns_world_def world = *ns_model_world(mjcf);
        ns_model* urdf = load_file(models[m].name, "urdf");
        ns_text a = step_text(rebuild(mjcf, NULL, NULL, false));
        ns_text b = step_text(rebuild(urdf, NULL, &world, false));
        uint32_t rounded = compare_texts(models[m].name, a.data, b.data);
        printf("    %-20s %6zu bytes of graph, %u constants rounded differently\n", models[m].name,
               a.size, rounded);
        if (strcmp(models[m].name, "arm7_mixed") != 0) assert_int_equal(rounded, 0);
        assert_true(a.size > 1000);
        ns_text_free(&a);
        ns_text_free(&b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_agree),
        cmocka_unit_test(values_of_the_files_agree_as_far_as_inertias_do),
        cmocka_unit_test(derivatives_agree),
        cmocka_unit_test(euler_trajectories_agree),
        cmocka_unit_test(runge_kutta_reaches_the_reference),
        cmocka_unit_test(runge_kutta_agrees_step_by_step_on_hinges),
        cmocka_unit_test(both_files_give_the_same_graph),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
