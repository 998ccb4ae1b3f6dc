// Objectives of experiments, for tests.

#ifndef TEST_OBJECTIVE_RIG_H
#define TEST_OBJECTIVE_RIG_H

#include "fit/fit_state.h"
#include "support/assert.h"
#include "support/testalloc.h"
#include "sysid/objective.h"

#include <math.h>
#include <stdlib.h>

static const char block[] =
    "<mujoco><worldbody><body name='block' pos='0 0 1'><freejoint/>"
    "<inertial pos='0.05 0.02 -0.03' mass='2' diaginertia='0.02 0.03 0.04'/></body></worldbody>"
    "</mujoco>";

static const char hinge[] =
    "<mujoco><option timestep='0.01'/><worldbody><body name='arm'>"
    "<joint name='hinge' type='hinge' axis='0 1 0' damping='0.2'/>"
    "<inertial pos='0 0 -0.4' mass='1.5' diaginertia='0.02 0.02 0.001'/></body></worldbody>"
    "<actuator><motor name='motor' joint='hinge' gear='2'/></actuator></mujoco>";

// Of the training data and the first stage of a fit.
static inline nsi_objective* objective_of(const ns_fit* fit, uint32_t threads) {
    nsi_objective* e = NULL;
    ns_error error = {0};
    ns_status status =
        nsi_objective_create(fit->problem, fit->data[NS_ROLE_TRAIN],
                             &fit->spec->stages.data[0].windows, NULL, threads, &e, &error);
    must(status, &error);
    return e;
}

// Gradient and normal equations once; what is not finite counts as memory that ran out.
static inline ns_status differentiate_once(nsi_objective* e) {
    double value, *g = calloc(nsi_objective_unknowns(e), sizeof *g);
    bool good = isfinite(nsi_objective_gradient(e, g)) && nsi_objective_linearise(e, &value);
    free(g);
    return good ? NS_OK : NS_ERR_NOMEM;
}

// Let each allocation of `use` fail in turn: it says so, or did not need that one; nothing is left.
static inline void fail_each_use(const ns_fit* fit,
                                 ns_status (*use)(const ns_fit* fit,
                                                  const ns_allocator* allocator)) {
    for (size_t n = 1;; n++) {
        test_alloc counter = {.fail_at = n};
        ns_allocator allocator = test_allocator(&counter);
        ns_status status = use(fit, &allocator);
        if (status != NS_OK) assert_int_equal(status, NS_ERR_NOMEM);
        assert_int_equal(counter.live_blocks, 0);
        if (counter.calls < n) {
            assert_int_equal(status, NS_OK);
            return;
        }
    }
}

#endif
