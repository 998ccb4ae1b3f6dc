// The records of joint types: what they say about themselves, and that their numbers, their traces and
// their velocities agree with each other.

#include "dyn/joint.h"
#include "dyn/robot.h"
#include "expr/graph.h"
#include "expr/trace.h"
#include "model/pose.h"
#include "support/assert.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const ns_joint_type types[] = {
#define TYPE(ENUMERATOR, record) NS_JOINT_##ENUMERATOR,
    NS_JOINT_TYPES(TYPE)
#undef TYPE
};

enum { TYPES = sizeof types / sizeof *types };

static void records_are_consistent(void** state) {
    (void)state;
    for (size_t k = 0; k < TYPES; k++) {
        const nsi_joint* joint = nsi_joint_get(types[k]);
        const ns_joint_info* info = ns_joint_type_info(types[k]);
        assert_ptr_equal(info, &joint->info);
        bool turns = info->quaternion < info->nq; // four coordinates for three velocities
        assert_int_equal(info->nv, info->nq - (turns ? 1 : 0));
        assert_true(info->nlinear <= info->quaternion && info->quaternion <= info->nq);
        assert_true(info->nv <= NSI_MAX_DOF);
        if (turns) assert_int_equal(info->nq, info->quaternion + 4);
        if (info->has_axis) assert_int_equal(info->nq, 1);
        assert_true((joint->trace != NULL) == (info->nv > 0));
        assert_true((joint->subspace != NULL) == (info->nv > 0));
        for (size_t i = 0; i < k; i++) {
            assert_string_not_equal(info->name, ns_joint_type_info(types[i])->name);
        }
    }
    assert_null(ns_joint_type_info((ns_joint_type)TYPES));
    assert_null(ns_joint_type_info((ns_joint_type)-1));
    assert_string_equal(ns_joint_type_info(NS_JOINT_REVOLUTE)->name, "revolute");
    assert_string_equal(ns_joint_type_info(NS_JOINT_FLOATING)->name, "floating");
}

// ---- one joint, traced at constants ----------------------------------------------------------

typedef struct traced_joint {
    ns_model* model;
    ns_graph* graph;
    nsi_robot robot;
    double q[7], qd[6];
} traced_joint;

static ns_link_def link_of(ns_joint_type type) {
    ns_link_def def = ns_default_link_def();
    def.name = "link", def.joint_type = type, def.mass = 1.0;
    def.axis[0] = 0.48, def.axis[1] = -0.6, def.axis[2] = 0.64;
    for (int k = 0; k < 3; k++) def.inertia[k] = 1.0;
    return def;
}

static double value_of(const traced_joint* t, ns_expr x) {
    const nsi_node* node = &t->graph->nodes.data[x.id];
    assert_int_equal(node->op, NSI_CONST); // of constants all is computed while tracing
    return node->value;
}

// The joint where `pose` says, or at `value` if it has no quaternion; to be ended by finish_joint().
static void trace_joint(traced_joint* t, ns_joint_type type, double value, const ns_pose* pose) {
    ns_model_builder* builder = NULL;
    ns_error error;
    ns_link_def def = link_of(type);
    *t = (traced_joint){0};
    must(ns_model_builder_create(NULL, &builder, &error), &error);
    must(ns_model_builder_add_link(builder, &def, &error), &error);
    must(ns_model_builder_finish(builder, &t->model, &error), &error);
    ns_model_builder_free(builder);

    const ns_joint_info* info = ns_joint_type_info(type);
    for (uint32_t k = 0; k < info->nq; k++) t->q[k] = value;
    if (info->quaternion < info->nq) {
        memcpy(t->q + info->quaternion, pose->quaternion, sizeof pose->quaternion);
    }
    for (uint32_t k = 0; k < info->nv; k++) t->qd[k] = 0.3 + 0.2 * k;

    must(ns_graph_create(NULL, &t->graph, &error), &error);
    must(ns_trace_begin(t->graph, &error), &error);
    static ns_expr q[7], qd[6], param[100];
    for (uint32_t k = 0; k < 7; k++) q[k] = ns_const(t->q[k]);
    for (uint32_t k = 0; k < 6; k++) qd[k] = ns_const(t->qd[k]);
    uint32_t nparam = ns_model_get_sizes(t->model).nparam;
    assert_true(nparam <= 100);
    for (uint32_t k = 0; k < nparam; k++) param[k] = ns_const(ns_model_param(t->model, k)->value);
    assert_true(nsi_robot_init(&t->robot, t->model, param, q, qd));
}

static void finish_joint(traced_joint* t) {
    ns_error error;
    must(ns_trace_end(&error), &error);
    ns_graph_free(t->graph);
    ns_model_free(t->model);
}

static void numbers_agree_with_traces(void** state) {
    (void)state;
    const double value = 0.37, tolerance = 1e-14;
    for (size_t k = 0; k < TYPES; k++) {
        const nsi_joint* joint = nsi_joint_get(types[k]);
        ns_link_def def = link_of(types[k]);
        ns_pose pose = nsi_pose_identity();
        if (!joint->trace) continue;
        if (joint->pose) joint->pose(&def, value, &pose);
        traced_joint t;
        trace_joint(&t, types[k], value, &pose);
        const nsi_body* body = &t.robot.body[0];
        assert_int_equal(body->nv, joint->info.nv);

        // Motion subspace.
        for (uint32_t i = 0; i < body->nv; i++) {
            double s[6] = {0.0};
            joint->subspace(&def, i, s);
            for (int c = 0; c < 3; c++) {
                close_to(joint->info.name, value_of(&t, body->s[i].w.e[c]), s[c], tolerance);
                close_to(joint->info.name, value_of(&t, body->s[i].v.e[c]), s[3 + c], tolerance);
            }
        }

        // Pose, of all but the floating joint, whose number is never asked for.
        double R[9];
        nsi_quat_to_matrix(pose.quaternion, R);
        for (int i = 0; i < 3 && joint->pose; i++) {
            close_to(joint->info.name, value_of(&t, body->x.r.e[i]), pose.position[i], tolerance);
            for (int j = 0; j < 3; j++) { // the transform goes from the parent to the link
                close_to(joint->info.name, value_of(&t, body->x.E.e[j][i]), R[3 * i + j],
                         tolerance);
            }
        }

        // The rotation as a quaternion is the same rotation.
        if (joint->rotation) {
            mat3 turned = m3_from_quat(joint->rotation(&t.robot, 0));
            for (int i = 0; i < 9; i++) {
                close_to(joint->info.name, value_of(&t, turned.e[i / 3][i % 3]),
                         value_of(&t, body->joint_R.e[i / 3][i % 3]), tolerance);
            }
        }
        finish_joint(&t);
    }
}

// Power, twists and accelerations are the same for the model's velocities and for internal ones.
static void velocity_maps_keep_power(void** state) {
    (void)state;
    ns_pose turned = nsi_pose_identity();
    const double rpy[3] = {0.4, -0.8, 1.9};
    nsi_quat_from_rpy(rpy, turned.quaternion);
    uint32_t maps = 0;
    for (size_t n = 0; n < TYPES; n++) {
        const nsi_joint* joint = nsi_joint_get(types[n]);
        if (!joint->map) continue;
        maps++;
        traced_joint t;
        trace_joint(&t, types[n], 0.2, &turned);
        const nsi_body* body = &t.robot.body[0];
        uint32_t nv = body->nv;
        ns_expr tau[NSI_MAX_DOF], internal[NSI_MAX_DOF], back[NSI_MAX_DOF];
        for (uint32_t k = 0; k < nv; k++) tau[k] = ns_const(1.0 - 0.7 * k);

        // tau' qd = internal' rate, and there and back again.
        double power = 0.0, internal_power = 0.0;
        joint->map->force_to_body(body, tau, internal);
        for (uint32_t k = 0; k < nv; k++) {
            power += value_of(&t, tau[k]) * t.qd[k];
            internal_power += value_of(&t, internal[k]) * value_of(&t, body->rate[k]);
            back[k] = internal[k];
        }
        close_to("power", internal_power, power, 1e-14);
        joint->map->force_to_model(body, back);
        for (uint32_t k = 0; k < nv; k++) {
            close_to("force", value_of(&t, back[k]), value_of(&t, tau[k]), 1e-14);
        }

        // The twists of unit velocities add up to the body's velocity, in either frame.
        double sum[6] = {0.0}, in_world[6] = {0.0};
        for (uint32_t k = 0; k < nv; k++) {
            motion s = joint->map->twist(body, k);
            motion w = joint->map->world_twist(body, m3_transpose(body->x.E), k);
            for (int c = 0; c < 3; c++) {
                sum[c] += t.qd[k] * value_of(&t, s.w.e[c]);
                sum[3 + c] += t.qd[k] * value_of(&t, s.v.e[c]);
                in_world[c] += t.qd[k] * value_of(&t, w.w.e[c]);
                in_world[3 + c] += t.qd[k] * value_of(&t, w.v.e[c]);
            }
        }
        mat3 R = m3_transpose(body->x.E);
        vec3 w = m3_apply(R, body->velocity.w), v = m3_apply(R, body->velocity.v);
        for (int c = 0; c < 3; c++) {
            close_to("w", sum[c], value_of(&t, body->velocity.w.e[c]), 1e-14);
            close_to("v", sum[3 + c], value_of(&t, body->velocity.v.e[c]), 1e-14);
            close_to("w in the world", in_world[c], value_of(&t, w.e[c]), 1e-14);
            close_to("v in the world", in_world[3 + c], value_of(&t, v.e[c]), 1e-14);
        }

        // Accelerations there and back again.
        joint->map->acceleration_to_body(body, tau, internal);
        joint->map->acceleration_to_model(body, internal, back);
        for (uint32_t k = 0; k < nv; k++) {
            close_to("acceleration", value_of(&t, back[k]), value_of(&t, tau[k]), 1e-14);
        }
        finish_joint(&t);
    }
    assert_true(maps > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_are_consistent),
        cmocka_unit_test(numbers_agree_with_traces),
        cmocka_unit_test(velocity_maps_keep_power),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
