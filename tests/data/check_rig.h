// Recordings of a simulated cart-pole, with and without a mistake, and what the checks say of them.

#ifndef TEST_CHECK_RIG_H
#define TEST_CHECK_RIG_H

#include "neuralsim/neuralsim.h"
#include "support/assert.h"
#include "support/tempdir.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define PI 3.14159265358979323846

// Columns of the table, and its period.
enum { T, Q_SLIDE, Q_HINGE, QD_SLIDE, QD_HINGE, TAU, COLUMNS, ROWS = 800 };
static const double PERIOD = 0.01; // s

// Standard deviations of the noise of positions that every check is tried with; velocities have 3 times
// as much.
static const double noise_levels[] = {0.0, 1e-4, 1e-3, 5e-3};
enum { NOISE_LEVELS = sizeof noise_levels / sizeof *noise_levels };

static const char model_text[] =
    "<mujoco model='cartpole'><compiler angle='radian'/><option timestep='0.001' integrator='RK4'/>"
    "<worldbody><body name='cart'>"
    "<joint name='slide' type='slide' axis='1 0 0' stiffness='8' damping='0.5' limited='true' "
    "range='-2 2'/>"
    "<inertial pos='0 0 0' mass='1' diaginertia='0.01 0.01 0.01'/>"
    "<body name='pole'><joint name='hinge' type='hinge' axis='0 1 0' damping='0.01' limited='true'"
    " range='-2.5 2.5'/>"
    "<inertial pos='0 0 -0.3' mass='0.2' diaginertia='0.006 0.006 1e-6'/>"
    "</body></body></worldbody></mujoco>";

static inline ns_model* rig_model(void) {
    ns_model* model = NULL;
    ns_error error = {0};
    must(ns_model_parse(model_text, sizeof model_text - 1, "cartpole.xml", NULL, &model, &error),
         &error);
    return model;
}

typedef struct recording {
    double x[ROWS][COLUMNS];
} recording;

// How a force acts between rows, which have its value at their time.
typedef enum rig_hold { RIG_HELD, RIG_CONTINUOUS, RIG_END } rig_hold;

// The motion under a force, with noise.
static inline recording* rig_record_force(double noise, uint64_t seed, double (*force)(double t),
                                          rig_hold hold) {
    enum { EACH = 10 }; // steps for a row
    ns_model* model = rig_model();
    ns_system_options options = ns_default_system_options();
    options.timestep = PERIOD / EACH;
    ns_system* system = NULL;
    ns_workspace* work = NULL;
    ns_error error = {0};
    must(ns_system_create(model, &options, &system, &error), &error);
    ns_system_sizes n = ns_system_get_sizes(system);
    must(ns_workspace_create(system, &(ns_workspace_size){.batch = 1, .steps = ROWS * EACH}, &work,
                             &error),
         &error);

    double* controls = doubles((size_t)ROWS * EACH * n.nc);
    double* states = doubles(((size_t)ROWS * EACH + 1) * n.nx);
    const double x0[4] = {0.1, 0.9, 0.0, 0.0};
    for (int k = 0; k < ROWS * EACH; k++) {
        double row = hold == RIG_CONTINUOUS ? (k + 0.5) / EACH
                     : hold == RIG_END      ? k / EACH + 1
                                            : k / EACH;
        controls[(size_t)k * n.nc] = force(PERIOD * row);
    }
    ns_rollout_args args = {
        .batch = 1, .steps = ROWS * EACH, .x0 = x0, .controls = controls, .states = states};
    must(ns_rollout(system, work, &args, &error), &error);

    recording* out = calloc(1, sizeof *out);
    assert_non_null(out);
    ns_rng rng = ns_rng_seed(seed);
    for (int k = 0; k < ROWS; k++) {
        const double* state = states + (size_t)k * EACH * n.nx;
        out->x[k][T] = PERIOD * k;
        for (int i = 0; i < 4; i++) {
            double size = i < 2 ? noise : 3.0 * noise;
            out->x[k][Q_SLIDE + i] = state[i] + size * ns_rng_normal(&rng);
        }
        out->x[k][TAU] = force(PERIOD * k);
    }
    free(controls);
    free(states);
    ns_workspace_free(work);
    ns_system_free(system);
    ns_model_free(model);
    return out;
}

static inline double rig_force(double t) {
    return 2.5 * sin(1.7 * t) + 1.5 * sin(4.1 * t + 1.0) + 1.2 * cos(9.0 * t);
}

// The motion under a force that changes and is held from row to row, with noise.
static inline recording* rig_record(double noise, uint64_t seed) {
    return rig_record_force(noise, seed, rig_force, RIG_HELD);
}

// Write rows as a table; NaN is an empty field.
static inline const char* rig_write(const char* name, const recording* r, const char* header) {
    FILE* file = fopen(tempdir_path(name), "w");
    assert_non_null(file);
    fprintf(file, "%s\n", header ? header : "t,q_slide,q_hinge,qd_slide,qd_hinge,tau_slide");
    for (int k = 0; k < ROWS; k++) {
        for (int i = 0; i < COLUMNS; i++) {
            fprintf(file, "%s", i > 0 ? "," : "");
            if (!isnan(r->x[k][i])) fprintf(file, "%.9g", r->x[k][i]);
        }
        fprintf(file, "\n");
    }
    assert_int_equal(fclose(file), 0);
    return tempdir_path(name);
}

static inline ns_data_check* rig_check_files(const char* const* files, uint32_t nfile,
                                             const char* map, const ns_model* model) {
    ns_data_check* check = NULL;
    ns_error error = {0};
    ns_data_check_options options = {.files = files, .nfile = nfile, .map = map, .model = model};
    must(ns_data_check_files(&options, NULL, &check, &error), &error);
    return check;
}

// The check of one recording with the model.
typedef struct checked {
    ns_model* model;
    ns_data_check* check;
} checked;

static inline checked rig_check(const recording* r, const char* header, const char* map) {
    checked c = {.model = rig_model()};
    const char* path = rig_write("run.csv", r, header);
    c.check = rig_check_files(&path, 1, map, c.model);
    return c;
}

static inline void rig_drop(checked* c) {
    ns_data_check_free(c->check);
    ns_model_free(c->model);
}

// The finding with this code of this channel (NULL: of the file); NULL when there is none.
static inline const ns_data_finding* rig_find(const ns_data_check* check, ns_data_code code,
                                              const char* channel) {
    for (uint32_t k = 0; k < ns_data_check_finding_count(check); k++) {
        const ns_data_finding* f = ns_data_check_finding(check, k);
        if (f->code != code || (channel == NULL) != (f->channel == NULL)) continue;
        if (!channel || strcmp(channel, f->channel) == 0) return f;
    }
    return NULL;
}

// All warnings, apart from one kind, are a failure.
static inline void rig_only(const ns_data_check* check, int code) {
    for (uint32_t k = 0; k < ns_data_check_count(check, NS_DATA_WARNING); k++) {
        const ns_data_finding* f = ns_data_check_finding(check, k);
        if ((int)f->code != code) fail_msg("unexpected: %s", f->text);
    }
}

// A finding that must be there; it says so in the text.
static inline const ns_data_finding* rig_must_find(const ns_data_check* check, ns_data_code code,
                                                   const char* channel, const char* says) {
    const ns_data_finding* f = rig_find(check, code, channel);
    if (!f) {
        for (uint32_t k = 0; k < ns_data_check_finding_count(check); k++) {
            print_error("found: %s\n", ns_data_check_finding(check, k)->text);
        }
        fail_msg("not found: %s", ns_choice_name(&ns_data_codes, (int)code));
        return NULL;
    }
    assert_says(f->text, says);
    return f;
}

#endif
