// The quadruped of models/ on a PD stance by formulas (kp 60 N m, kd 1.5 N m s), with torques that make it
// step: derivatives of the final state for the initial one, with springs at their defaults beside rigid
// contact.

#include "contact/rig.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char stance[] =
    "formulas:\n"
    "- {name: abd, each: joint/*_abd, output: '{}/tau',\n"
    "   formula: '-60 * \"{}/position\" - 1.5 * \"{}/velocity\"'}\n"
    "- {name: hip, each: joint/*_hipj, output: '{}/tau',\n"
    "   formula: '60 * (0.8 - \"{}/position\") - 1.5 * \"{}/velocity\"'}\n"
    "- {name: knee, each: joint/*_knee, output: '{}/tau',\n"
    "   formula: '60 * (-1.6 - \"{}/position\") - 1.5 * \"{}/velocity\"'}\n";

// Largest derivative of the final state for the initial one; NaN when it is not finite.
static double stance_sensitivity(const trial_options* options, const ns_blueprint* blueprint,
                                 int contact, double torque, uint32_t steps) {
    char path[4096];
    snprintf(path, sizeof path, "%s/quadruped.urdf", options->models);
    ns_system_options o = ns_default_system_options();
    o.blueprint = blueprint;
    o.contact = contact;
    ns_model* model = rig_load(path, NULL, true);
    uint32_t nx = ns_model_get_sizes(model).nq + ns_model_get_sizes(model).nv;
    rig r = rig_create(model, &o, nx, steps);
    const uint32_t nc = r.n.nc;
    double* x0 = trial_alloc((size_t)nx * nx, sizeof *x0);
    double* dx0 = trial_alloc((size_t)nx * nx, sizeof *dx0);
    double* dstates = trial_alloc((size_t)nx * (steps + 1) * nx, sizeof *dstates);
    double* controls = trial_alloc((size_t)nx * steps * nc, sizeof *controls);

    // The stance; diagonal pairs of legs in turn, twice a second.
    r.x0[2] = 0.33;
    for (int k = 0; k < 4; k++) r.x0[8 + 3 * k] = 0.8, r.x0[9 + 3 * k] = -1.6;
    for (uint32_t b = 0; b < nx; b++) {
        memcpy(x0 + (size_t)b * nx, r.x0, nx * sizeof *x0);
        dx0[(size_t)b * nx + b] = 1.0;
        for (uint32_t t = 0; t < steps; t++) {
            double* tau = controls + ((size_t)b * steps + t) * nc;
            double phase = 4.0 * 3.141592653589793 * 1e-3 * t;
            for (int k = 0; k < 4; k++) {
                tau[8 + 3 * k] = torque * sin(phase) * (k == 0 || k == 3 ? 1.0 : -1.0);
            }
        }
    }
    ns_rollout_args args = {.batch = nx,
                            .steps = steps,
                            .x0 = x0,
                            .controls = controls,
                            .params = r.params,
                            .states = r.states};
    ns_rollout_tangent tangent = {.dx0 = dx0, .dstates = dstates};
    double largest = 0.0;
    if (ns_rollout_jvp(r.system, r.work, &args, &tangent, NULL) != NS_OK) largest = NAN;
    for (uint32_t b = 0; b < nx; b++) {
        const double* end = dstates + ((size_t)b * (steps + 1) + steps) * nx;
        for (uint32_t i = 0; i < nx; i++) {
            if (!(fabs(end[i]) <= largest)) largest = fabs(end[i]);
        }
    }
    free(x0), free(dx0), free(dstates), free(controls);
    rig_free(&r);
    return largest;
}

void trial_stance(const trial_options* options) {
    static const double torques[] = {0.0, 5.0, 15.0}; // N m
    const uint32_t steps = options->quick ? 300 : 3000;
    char what[100], text[100];
    ns_blueprint* blueprint = NULL;
    ns_error error;
    if (ns_blueprint_parse(stance, strlen(stance), "stance", NULL, &blueprint, &error) != NS_OK) {
        trial_die("stance", error.message);
    }
    for (int k = 0; k < 3; k++) {
        double spring =
            stance_sensitivity(options, blueprint, NS_CONTACT_SPRING, torques[k], steps);
        double rigid = stance_sensitivity(options, blueprint, NS_CONTACT_NCP, torques[k], steps);
        snprintf(what, sizeof what,
                 "quadruped, %u steps, torques of %g N m: largest d x / d x0, springs", steps,
                 torques[k]);
        snprintf(text, sizeof text, "%.3g (rigid contact: %.3g)", spring, rigid);
        trial_row(what, "< 1e3 where rigid < 500", text, spring < 1e3 || !(rigid < 500.0));
    }
    ns_blueprint_free(blueprint);
}
