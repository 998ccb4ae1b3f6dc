// Objectives of experiments, for tests.

#ifndef TEST_OBJECTIVE_RIG_H
#define TEST_OBJECTIVE_RIG_H

#include "fit/fit_state.h"
#include "support/assert.h"

static const char block[] =
    "<mujoco><worldbody><body name='block' pos='0 0 1'><freejoint/>"
    "<inertial pos='0.05 0.02 -0.03' mass='2' diaginertia='0.02 0.03 0.04'/></body></worldbody>"
    "</mujoco>";

static const char hinge[] =
    "<mujoco><option timestep='0.01'/><worldbody><body name='arm'>"
    "<joint name='hinge' type='hinge' axis='0 1 0' damping='0.2'/>"
    "<inertial pos='0 0 -0.4' mass='1.5' diaginertia='0.02 0.02 0.001'/></body></worldbody>"
    "<actuator><motor name='motor' joint='hinge' gear='2'/></actuator></mujoco>";

#endif
