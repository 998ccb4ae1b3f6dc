// One robot with networks or formulas, rolled out.

#ifndef TEST_AUGMENT_RIG_H
#define TEST_AUGMENT_RIG_H

#include "base/common.h"
#include "model/model_data.h"
#include "neuralsim/sim.h"
#include "support/assert.h"
#include "support/check.h"
#include "support/modelfile.h"
#include "support/testalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- one robot with networks ---------------------------------------------------------------

typedef struct rig {
    ns_model* model;
    ns_blueprint* blueprint;
    ns_system* system;
    ns_workspace* work;
    ns_system_sizes n;
    uint32_t nq, batch, steps;
    double *x0, *controls, *weights, *states, *observations;
} rig;

// A text, or a file of models/ by its name.
static inline ns_model* load_model(const char* text) {
    if (strchr(text, '<')) return modelfile_parse(text);
    char path[1000];
    ns_model* model = NULL;
    ns_error error = {0};
    snprintf(path, sizeof path, "%s/models/%s", NEURALSIM_SOURCE_DIR, text);
    must(ns_model_load(path, NULL, &model, &error), &error);
    return model;
}

static inline ns_blueprint* parse_blueprint(const char* yaml) {
    ns_blueprint* blueprint = NULL;
    ns_error error = {0};
    must(ns_blueprint_parse(yaml, strlen(yaml), "b.yaml", NULL, &blueprint, &error), &error);
    return blueprint;
}

// Let each allocation of ns_system_create() fail in turn, for a robot with a blueprint: it says so and
// leaves nothing behind. Returns how many there are.
static inline uint32_t fail_each_system(const char* robot, const char* yaml) {
    test_alloc counter = {0};
    ns_allocator allocator = test_allocator(&counter);
    ns_error error = {0};
    ns_model* model = NULL;
    ns_load_options load = ns_default_load_options();
    load.allocator = &allocator;
    must(ns_model_parse(robot, strlen(robot), "t", &load, &model, &error), &error);
    ns_blueprint* blueprint = parse_blueprint(yaml);
    size_t before = counter.live_blocks;
    ns_system_options options = ns_default_system_options();
    options.blueprint = blueprint;
    options.backend = NS_BACKEND_INTERP;
    uint32_t failures = 0;
    for (bool reached = true; reached; failures += reached) {
        ns_system* system = NULL;
        counter.calls = 0;
        counter.fail_at = failures + 1;
        ns_status status = ns_system_create(model, &options, &system, &error);
        reached = counter.calls >= counter.fail_at;
        counter.fail_at = 0;
        assert_int_equal(status, reached ? NS_ERR_NOMEM : NS_OK);
        assert_true((system == NULL) == reached);
        ns_system_free(system);
        assert_int_equal(counter.live_blocks, before);
    }
    ns_blueprint_free(blueprint);
    ns_model_free(model);
    assert_int_equal(counter.live_blocks, 0);
    return failures;
}

static inline void rig_work(rig* r, uint32_t batch, uint32_t steps) {
    ns_error error = {0};
    ns_workspace_size size = {.batch = batch, .steps = steps};
    must(ns_workspace_create(r->system, &size, &r->work, &error), &error);
    r->batch = batch;
    r->steps = steps;
    r->x0 = doubles((size_t)batch * r->n.nx);
    r->controls = doubles((size_t)batch * steps * r->n.nc);
    r->states = doubles((size_t)batch * (steps + 1) * r->n.nx);
    r->observations = doubles((size_t)batch * steps * r->n.ny);
    for (uint32_t b = 0; b < batch; b++) ns_model_default_q(r->model, r->x0 + b * r->n.nx);
}

// `yaml` NULL: without networks. The robot stands as its model does; weights are the initial ones.
static inline rig rig_make(const char* model, const char* yaml, const ns_system_options* options,
                           uint32_t steps) {
    rig r = {.model = load_model(model), .blueprint = yaml ? parse_blueprint(yaml) : NULL};
    ns_system_options o = options ? *options : ns_default_system_options();
    ns_error error = {0};
    o.blueprint = r.blueprint;
    must(ns_system_create(r.model, &o, &r.system, &error), &error);
    r.n = ns_system_get_sizes(r.system);
    r.nq = ns_model_get_sizes(r.model).nq;
    r.weights = doubles(r.n.nw);
    ns_system_default_weights(r.system, r.weights);
    rig_work(&r, 1, steps);
    return r;
}

static inline void rig_free(rig* r) {
    ns_workspace_free(r->work);
    ns_system_free(r->system);
    ns_blueprint_free(r->blueprint);
    ns_model_free(r->model);
    free(r->x0), free(r->controls), free(r->weights), free(r->states), free(r->observations);
}

static inline ns_rollout_args rig_args(const rig* r) {
    return (ns_rollout_args){.batch = r->batch,
                             .steps = r->steps,
                             .x0 = r->x0,
                             .controls = r->controls,
                             .weights = r->weights,
                             .states = r->states,
                             .observations = r->observations};
}

static inline void rig_run(rig* r) {
    ns_rollout_args args = rig_args(r);
    ns_error error = {0};
    must(ns_rollout(r->system, r->work, &args, &error), &error);
}

static inline const double* state_at(const rig* r, uint32_t step) {
    return r->states + (size_t)step * r->n.nx;
}

// ---- joints --------------------------------------------------------------------------------

static const char pendulum[] =
    "<mujoco><option timestep='0.002'/><worldbody>"
    "<body name='arm' pos='0 0 1'><joint name='hinge' type='hinge' axis='0 1 0'/>"
    "<geom type='sphere' size='0.1' pos='0 0 -0.5' mass='2'/></body></worldbody>"
    "<actuator><motor name='motor' joint='hinge' gear='2'/></actuator></mujoco>";

// ---- links ---------------------------------------------------------------------------------

static const char body[] =
    "<mujoco><option timestep='0.01' gravity='0 0 0'/><worldbody><body name='b'><freejoint/>"
    "<geom type='box' size='0.3 0.2 0.1' pos='0.1 -0.2 0.3' mass='4'/></body></worldbody></mujoco>";

// ---- contact -------------------------------------------------------------------------------

// A ball over the ground that moves up and down and along x; q is (x, height of its lowest point).
static const char ball[] =
    "<mujoco><option timestep='0.0005'/><worldbody><geom name='ground' type='plane' size='5 5 1'/>"
    "<body name='ball' pos='0 0 0.1'><joint name='x' type='slide' axis='1 0 0'/>"
    "<joint name='z' type='slide' axis='0 0 1'/>"
    "<geom name='ball' type='sphere' size='0.1' mass='0.5'/></body></worldbody></mujoco>";

// ---- memory --------------------------------------------------------------------------------

// The motor gets the control of three steps before, and half of that of one step before.
static const char delay[] = "networks:\n  - name: delay\n    inputs: [\"prev:tau/0\","
                            " \"lag3:tau/0\"]\n    outputs: [control/motor]\n    bias: false\n";

// ---- gradients -----------------------------------------------------------------------------

#define NEARLY_EVERYWHERE                                                                          \
    "networks:\n  - {name: a, inputs: [q/0, qd/0], outputs: [joint/hinge/force/damping],"          \
    " hidden: [3]}\n"                                                                              \
    "  - {name: b, inputs: [joint/hinge/force/damping, \"prev:qdd/0\"], outputs: [qdd/0], "        \
    "hidden: "                                                                                     \
    "[3],"                                                                                         \
    " mode: scale}\n"                                                                              \
    "  - {name: c, inputs: [qd/0], outputs: [world/gravity/z, link/arm/mass], hidden: [2]}\n"      \
    "  - {name: d, inputs: [q/0, link/arm/mass], outputs: [bias/0, link/arm/force/x], hidden: "    \
    "[2]}\n"

// At velocities too, which rk4 refuses.
static const char everywhere[] = NEARLY_EVERYWHERE
    "  - {name: e, inputs: [q/0], outputs: [qd/0], hidden: [2], output_scale: [0.01]}\n";

#endif
