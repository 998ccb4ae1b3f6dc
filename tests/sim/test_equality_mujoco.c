// Equality constraints beside MuJoCo's, which are stiff springs: with a time constant of two of its steps and
// the least softness it allows, its motion is that of hard constraints to some 1e-4.

#include "neuralsim/neuralsim.h"
#include "support/assert.h"
#include "support/evaluate.h"
#include "support/modelfile.h"

#include <math.h>
#include <mujoco/mujoco.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STIFF "solref='0.0002 1' solimp='0.9999 0.9999 0.001'"

// A four-bar linkage; two loops on a floating base, as on Cassie's leg; a body that is welded to a pendulum; joints
// coupled by a polynomial.
static const char four_bar[] =
    "<body><joint name='j1' axis='0 1 0'/><inertial pos='0 0 0.1' mass='1' diaginertia='.01 .01 "
    ".001'/>"
    "<body name='coupler' pos='0 0 0.2'><joint name='j2' axis='0 1 0'/>"
    "<inertial pos='0.25 0 0.1' mass='1' diaginertia='.01 .03 .03'/></body></body>"
    "<body name='rocker' pos='0.5 0 0'><joint name='j3' axis='0 1 0'/>"
    "<inertial pos='0 0 0.2' mass='1' diaginertia='.02 .02 .001'/></body></worldbody>"
    "<equality><connect body1='rocker' body2='coupler' anchor='0 0 0.4' " STIFF "/></equality>";
#define BAR "<inertial pos='0.05 0.01 -0.15' mass='0.5' diaginertia='.006 .006 .001'/>"
static const char two_loops[] =
    "<body name='base'><freejoint/><inertial pos='0 0 0' mass='5' diaginertia='.2 .3 .2'/>"
    "<body name='thigh'><joint name='hip' axis='0 1 0' damping='1'/>" BAR
    "<body name='shin' pos='0.1 0 -0.35'><joint name='knee' axis='0 1 0' damping='1'/>" BAR
    "<body name='foot' pos='-0.1 0 -0.35'><joint name='ankle' axis='0 1 0' damping='1'/>" BAR
    "</body></body></body><body name='rod' pos='-0.12 0 0'><joint name='crank' axis='0 1 0'/>" BAR
    "<body name='link' pos='0.1 0 -0.35'><joint name='pin' axis='0 1 0'/>" BAR "</body></body>"
    "<body name='achilles' pos='0.02 0.05 0.02'><joint name='ball' type='ball'/>"
    "<inertial pos='0 0 -0.2' mass='0.2' diaginertia='.002 .002 .001'/></body></body></worldbody>"
    "<equality><connect body1='link' body2='shin' anchor='0.1 0 -0.1' " STIFF "/>"
    "<connect body1='achilles' body2='shin' anchor='0 -0.03 -0.4' " STIFF "/></equality>";
static const char welded[] = "<body name='a' pos='0 0 1'><joint type='ball'/>" BAR "</body>"
                             "<body name='b' pos='0.3 0.1 1.2' euler='20 30 40'><freejoint/>" BAR
                             "</body></worldbody><equality>"
                             "<weld body1='a' body2='b' " STIFF "/></equality>";
static const char coupled[] =
    "<body><joint name='x' axis='0 1 0' ref='10'/>" BAR
    "<body pos='0.1 0 -0.3'><joint name='y' axis='0 1 0.2' ref='-20'/>" BAR
    "</body></body></worldbody>"
    "<equality><joint joint1='y' joint2='x' polycoef='0 0.5 0.3 0.2 -0.1' " STIFF "/></equality>";

static void complain(const char* message) {
    fail_msg("MuJoCo: %s", message);
}

static mjModel* load(const char* text) {
    char error[1000] = "";
    int size = (int)strlen(text);
    mjVFS* files = malloc(sizeof *files); // too large for the stack
    assert_non_null(files);
    mj_defaultVFS(files);
    assert_int_equal(mj_makeEmptyFileVFS(files, "scene.xml", size), 0);
    memcpy(files->filedata[mj_findFileVFS(files, "scene.xml")], text, (size_t)size);
    mjModel* model = mj_loadXML("scene.xml", files, error, sizeof error);
    mj_deleteVFS(files);
    free(files);
    if (!model) fail_msg("%s", error);
    return model;
}

// Both engines for two seconds from the reference pose, at rest or with a spinning base.
static void compare(const char* bodies, bool spins, double tolerance) {
    char text[4000];
    snprintf(text, sizeof text,
             "<mujoco><option timestep='0.0001' integrator='RK4' gravity='1 2 -9'/><worldbody>%s"
             "</mujoco>",
             bodies);
    mjModel* theirs = load(text);
    mjData* data = mj_makeData(theirs);

    // Ours begins where theirs does; ten times the step.
    ns_model* model = modelfile_parse(text);
    static const char* const observe[] = {"q", "equality/*/violation"};
    ns_system_options options = ns_default_system_options();
    options.integrator = NS_INTEGRATOR_RK4;
    options.timestep = 1e-3;
    options.observe = observe;
    options.nobserve = 2;
    ns_model_sizes n = ns_model_get_sizes(model);
    assert_int_equal(n.nq, theirs->nq);
    double* x0 = doubles((size_t)n.nq + n.nv);
    memcpy(x0, theirs->qpos0, n.nq * sizeof *x0);
    for (int k = 3; k < 6 && spins; k++) x0[n.nq + (uint32_t)k] = data->qvel[k] = k - 1.0;
    uint32_t steps = 2000, ny;
    double* y = observe_rollout(model, &options, x0, steps + 1, &ny);

    double worst = 0.0, open = 0.0, way = 0.0;
    for (uint32_t step = 0; step <= steps; step++) {
        const double* at = y + (size_t)step * ny;
        for (uint32_t k = 0; k < n.nq; k++) {
            worst = fmax(worst, fabs(at[k] - data->qpos[k]));
            way = fmax(way, fabs(at[k] - x0[k]));
        }
        for (uint32_t k = n.nq; k < ny; k++) open = fmax(open, fabs(at[k]));
        for (int k = 0; k < 10; k++) mj_step(theirs, data);
    }
    assert_true(way > 0.3);
    assert_true(worst < tolerance);
    assert_true(open < 1e-12);
    free(x0);
    free(y);
    mj_deleteData(data);
    mj_deleteModel(theirs);
    ns_model_free(model);
}

static void motions_are_those_of_mujoco(void** state) {
    (void)state;
    mju_user_error = mju_user_warning = complain;
    compare(four_bar, false, 1e-3);
    compare(two_loops, true, 1e-3);
    compare(welded, false, 1e-5);
    compare(coupled, false, 1e-6);
}

// Anchors that are computed, and weld's relpose, have MuJoCo's meaning.
static void anchors_are_those_of_mujoco(void** state) {
    (void)state;
    static const char text[] =
        "<mujoco><worldbody><body name='a' pos='0.1 0.2 0.3' euler='10 20 30'><freejoint/>"
        "<geom size='0.1'/><body name='c' pos='0.2 0 0.1'><joint name='x' axis='0 1 1' ref='30'/>"
        "<geom size='0.1'/></body></body><body name='b' pos='1 0 0' euler='0 40 0'>"
        "<joint name='y' type='slide' axis='1 0 0' ref='0.3'/><geom size='0.1'/></body></worldbody>"
        "<equality><connect body1='c' body2='b' anchor='0.3 -0.1 0.2'/><weld body1='c' body2='b'/>"
        "<weld body1='c' body2='b' relpose='0.1 0.2 0.3 0.5 0.5 0.5 -0.5'/></equality></mujoco>";
    mju_user_error = mju_user_warning = complain;
    mjModel* theirs = load(text);
    ns_model* model = modelfile_parse(text);
    for (int k = 0; k < 3; k++) {
        const ns_equality_def* e = ns_model_equality(model, (uint32_t)k);
        const double* data = theirs->eq_data + mjNEQDATA * k;
        if (k == 0) { // anchors in both bodies
            all_close(e->anchor_a.position, data, 3, 1e-12);
            all_close(e->anchor_b.position, data + 3, 3, 1e-12);
            continue;
        }

        // Where the anchor is in body 1, and how body 2 is turned there: up to the sign.
        all_close(e->anchor_b.position, data, 3, 1e-12);
        all_close(e->anchor_a.position, data + 3, 3, 1e-12);
        double same = 0.0;
        for (int i = 0; i < 4; i++) same += e->anchor_a.quaternion[i] * data[6 + i];
        close_to("orientation", fabs(same), 1.0, 1e-12);
    }
    mj_deleteModel(theirs);
    ns_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(anchors_are_those_of_mujoco),
        cmocka_unit_test(motions_are_those_of_mujoco),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
