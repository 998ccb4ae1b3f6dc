// Quantities of sites and sensors. Nothing depends on them.

#include "sim/sensors.h"

#include "dyn/transmission.h"
#include "expr/trace.h"

#include <stdio.h>

// A frame that moves with a link, at a point and with an orientation in it.
typedef struct moving_frame {
    uint32_t link;   // NSI_NONE: the world
    vec3 point;      // in the link
    mat3 link_R;     // link to world
    mat3 R;          // frame to world
    vec3 position;   // in the world
    quat turn;       // frame to world
    motion velocity; // of the link, in its axes
} moving_frame;

static const char* const axis[3] = {"x", "y", "z"};
static const char* const part[4] = {"qw", "qx", "qy", "qz"};

// What sensors of one step share.
typedef struct sensing {
    const nsi_robot* robot;
    const nsi_link_pose* pose;  // (nlink)
    const quat* turn;           // (nlink)
    const motion* acceleration; // (nlink) of bodies, or NULL
} sensing;

static moving_frame link_frame(const sensing* s, uint32_t link, vec3 point) {
    moving_frame f = {.link = link, .point = point, .position = point, .velocity = mo_zero()};
    f.link_R = m3_identity();
    f.turn = (quat){ns_const(1.0), ns_const(0.0), ns_const(0.0), ns_const(0.0)};
    if (link != NSI_NONE) {
        f.link_R = s->pose[link].R;
        f.position = v3_add(s->pose[link].position, m3_apply(f.link_R, point));
        f.turn = s->turn[link];
        f.velocity = nsi_link_velocity(s->robot, link);
    }
    f.R = f.link_R;
    return f;
}

static moving_frame site_frame(const sensing* s, uint32_t site) {
    const nsi_model_site* data = &s->robot->model->sites[site];
    const double *p = data->def.pose.position, *e = data->def.pose.quaternion;
    quat turn = {ns_const(e[0]), ns_const(e[1]), ns_const(e[2]), ns_const(e[3])};
    moving_frame f = link_frame(s, data->link, v3_const(p[0], p[1], p[2]));
    f.R = m3_mul(f.link_R, m3_from_quat(turn));
    f.turn = q_mul(f.turn, turn);
    return f;
}

// Velocity of the frame's origin, in the link's axes.
static vec3 linear_velocity(const moving_frame* f) {
    return v3_add(f->velocity.v, v3_cross(f->velocity.w, f->point));
}

// Spatial acceleration of the link, in its axes, gravity taken off.
static motion link_acceleration(const sensing* s, const moving_frame* f) {
    uint32_t body = f->link == NSI_NONE ? NSI_NONE : s->robot->place[f->link].body;
    if (body == NSI_NONE) {
        vec3 up = v3_neg(nsi_robot_gravity(s->robot));
        return (motion){v3_zero(), m3_apply_t(f->link_R, up)};
    }
    const nsi_placement* place = &s->robot->place[f->link];
    transform x = {m3_transpose(place->R), place->position};
    return tr_motion(x, s->acceleration[body]);
}

// Of the frame's origin, in the link's axes: what an accelerometer there feels.
static vec3 linear_acceleration(const sensing* s, const moving_frame* f) {
    motion a = link_acceleration(s, f);
    vec3 turning = v3_cross(f->velocity.w, linear_velocity(f));
    return v3_add(v3_add(a.v, v3_cross(a.w, f->point)), turning);
}

// ---- sites -----------------------------------------------------------------------------------

void nsi_name_sites(const nsi_robot* robot, const nsi_link_pose* pose) {
    const ns_model* model = robot->model;
    if (model->sizes.nsite == 0) return;
    quat* turn = nsi_robot_alloc(robot, model->sizes.nlink, sizeof *turn);
    if (!turn) return;
    nsi_link_turns(robot, turn);
    sensing s = {robot, pose, turn, NULL};
    for (uint32_t i = 0; i < model->sizes.nsite; i++) {
        const char* name = model->sites[i].def.name;
        moving_frame f = site_frame(&s, i);
        const ns_expr q[4] = {f.turn.w, f.turn.x, f.turn.y, f.turn.z};
        vec3 v = m3_apply_t(f.R, m3_apply(f.link_R, linear_velocity(&f)));
        vec3 w = m3_apply_t(f.R, m3_apply(f.link_R, f.velocity.w));
        for (int k = 0; k < 3; k++) {
            nsi_observed(f.position.e[k], "m", "site/%s/position/%s", name, axis[k]);
        }
        for (int k = 0; k < 4; k++) nsi_observed(q[k], "", "site/%s/orientation/%s", name, part[k]);
        for (int k = 0; k < 3; k++) {
            nsi_observed(v.e[k], "m/s", "site/%s/velocity/linear/%s", name, axis[k]);
        }
        for (int k = 0; k < 3; k++) {
            nsi_observed(w.e[k], "rad/s", "site/%s/velocity/angular/%s", name, axis[k]);
        }
    }
}

// ---- sensors ---------------------------------------------------------------------------------

// The numbers of a sensor.
typedef struct reading {
    ns_expr x[4];
    const char* unit;
} reading;

static reading read_vector(vec3 v, const char* unit) {
    return (reading){{v.e[0], v.e[1], v.e[2]}, unit};
}

static reading read_joint(const sensing* s, const nsi_sensor* sensor) {
    const nsi_robot* robot = s->robot;
    const nsi_link* l = &robot->model->links[sensor->object];
    const ns_expr* q = robot->q + l->q;
    switch (sensor->def.type) {
    case NS_SENSOR_JOINT_POSITION:
        return (reading){{nsi_joint_coordinate(robot->model, sensor->object, robot->q)},
                         nsi_joint_position_unit(l, 0)};
    case NS_SENSOR_JOINT_VELOCITY:
        return (reading){{ns_mul(robot->body[sensor->object].ratio, robot->qd[l->v])},
                         nsi_joint_velocity_unit(l, 0)};
    case NS_SENSOR_BALL_QUATERNION: return (reading){{q[0], q[1], q[2], q[3]}, ""};
    default: {
        const ns_expr* w = robot->qd + l->v;
        return read_vector(v3(w[0], w[1], w[2]), "rad/s");
    }
    }
}

// A quantity that was named before.
static ns_expr find_quantity(const nsi_robot* robot, const char* format, const char* name) {
    char full[NSI_MODEL_MAX_NAME + 40];
    snprintf(full, sizeof full, format, name);
    const nsi_ports* all = &robot->graph->quantities;
    for (uint32_t i = 0; i < all->count; i++) {
        if (strcmp(all->data[i].name, full) == 0) return (ns_expr){all->data[i].node};
    }
    return ns_const(0.0);
}

static reading read_transmission(const sensing* s, const nsi_sensor* sensor) {
    const nsi_robot* robot = s->robot;
    ns_sensor_type type = sensor->def.type;
    nsi_transmission t = {.length = ns_const(0.0), .velocity = ns_const(0.0)};
    if (type == NS_SENSOR_ACTUATOR_FORCE) {
        return (reading){{find_quantity(robot, "actuator/%s/force", sensor->def.actuator)}, ""};
    }
    if (type == NS_SENSOR_TENDON_POSITION || type == NS_SENSOR_TENDON_VELOCITY) {
        nsi_tendon_transmission(robot, s->pose, sensor->object, &t);
    } else {
        nsi_actuator_transmission(robot, s->pose, sensor->object, &t);
    }
    bool position = type == NS_SENSOR_TENDON_POSITION || type == NS_SENSOR_ACTUATOR_POSITION;
    return (reading){{position ? t.length : t.velocity}, ""};
}

// The frame of a site or of a link, there at its origin or centre of mass.
static moving_frame find_frame(const sensing* s, bool of_site, uint32_t number, bool at_com) {
    vec3 point = v3_zero();
    if (of_site) return site_frame(s, number);
    if (at_com && number != NSI_NONE) {
        const nsi_link* l = &s->robot->model->links[number];
        const ns_expr* c = s->robot->param + l->param + NSI_LINK_COM;
        point = v3(c[0], c[1], c[2]);
    }
    return link_frame(s, number, point);
}

// A frame seen from another one, which moves as well.
static reading read_relative(const sensing* s, const nsi_sensor* sensor, const moving_frame* f) {
    const ns_sensor_def* def = &sensor->def;
    moving_frame from = find_frame(s, def->ref_site != NULL, sensor->reference, false);
    vec3 way = v3_sub(f->position, from.position);
    vec3 turning = m3_apply(from.link_R, from.velocity.w), v;
    int axis_number = (int)def->type - (int)NS_SENSOR_FRAME_X_AXIS;
    switch (def->type) {
    case NS_SENSOR_FRAME_POSITION: return read_vector(m3_apply_t(from.R, way), "m");
    case NS_SENSOR_FRAME_QUATERNION: {
        quat back = {from.turn.w, ns_neg(from.turn.x), ns_neg(from.turn.y), ns_neg(from.turn.z)};
        quat turn = q_mul(back, f->turn);
        return (reading){{turn.w, turn.x, turn.y, turn.z}, ""};
    }
    case NS_SENSOR_FRAME_LINEAR_VELOCITY:
        v = v3_sub(m3_apply(f->link_R, linear_velocity(f)),
                   m3_apply(from.link_R, linear_velocity(&from)));
        return read_vector(m3_apply_t(from.R, v3_sub(v, v3_cross(turning, way))), "m/s");
    case NS_SENSOR_FRAME_ANGULAR_VELOCITY:
        v = v3_sub(m3_apply(f->link_R, f->velocity.w), turning);
        return read_vector(m3_apply_t(from.R, v), "rad/s");
    default: return read_vector(m3_apply_t(from.R, m3_column(f->R, axis_number)), "");
    }
}

static reading read_frame(const sensing* s, const nsi_sensor* sensor) {
    moving_frame f = find_frame(s, sensor->def.site != NULL, sensor->object, sensor->def.at_com);
    if (sensor->reference != NSI_NONE) return read_relative(s, sensor, &f);
    vec3 v;
    switch (sensor->def.type) {
    case NS_SENSOR_FRAME_POSITION: return read_vector(f.position, "m");
    case NS_SENSOR_FRAME_QUATERNION: return (reading){{f.turn.w, f.turn.x, f.turn.y, f.turn.z}, ""};
    case NS_SENSOR_FRAME_X_AXIS: return read_vector(m3_column(f.R, 0), "");
    case NS_SENSOR_FRAME_Y_AXIS: return read_vector(m3_column(f.R, 1), "");
    case NS_SENSOR_FRAME_Z_AXIS: return read_vector(m3_column(f.R, 2), "");
    case NS_SENSOR_FRAME_LINEAR_VELOCITY:
        return read_vector(m3_apply(f.link_R, linear_velocity(&f)), "m/s");
    case NS_SENSOR_FRAME_ANGULAR_VELOCITY:
        return read_vector(m3_apply(f.link_R, f.velocity.w), "rad/s");
    case NS_SENSOR_FRAME_LINEAR_ACCELERATION:
        return read_vector(m3_apply(f.link_R, linear_acceleration(s, &f)), "m/s^2");
    case NS_SENSOR_FRAME_ANGULAR_ACCELERATION:
        return read_vector(m3_apply(f.link_R, link_acceleration(s, &f).w), "rad/s^2");
    case NS_SENSOR_GYRO:
        v = m3_apply(f.link_R, f.velocity.w);
        return read_vector(m3_apply_t(f.R, v), "rad/s");
    case NS_SENSOR_VELOCIMETER:
        v = m3_apply(f.link_R, linear_velocity(&f));
        return read_vector(m3_apply_t(f.R, v), "m/s");
    default:
        v = m3_apply(f.link_R, linear_acceleration(s, &f));
        return read_vector(m3_apply_t(f.R, v), "m/s^2");
    }
}

static bool is_beyond(const ns_model* model, uint32_t link, uint32_t root) {
    while (link != root && link != NSI_NONE) link = model->links[link].parent;
    return link == root;
}

// The mean over a link and all that it carries, weighted by mass: of centres of mass or their velocities.
static reading read_subtree(const sensing* s, const nsi_sensor* sensor) {
    const ns_model* model = s->robot->model;
    bool velocity = sensor->def.type == NS_SENSOR_SUBTREE_VELOCITY;
    ns_expr mass = ns_const(0.0);
    vec3 sum = v3_zero();
    for (uint32_t i = 0; i < model->sizes.nlink; i++) {
        if (!is_beyond(model, i, sensor->object)) continue;
        const ns_expr* p = s->robot->param + model->links[i].param;
        ns_expr m = p[NSI_LINK_MASS];
        moving_frame f =
            link_frame(s, i, v3(p[NSI_LINK_COM], p[NSI_LINK_COM + 1], p[NSI_LINK_COM + 2]));
        vec3 x = velocity ? m3_apply(f.link_R, linear_velocity(&f)) : f.position;
        mass = ns_add(mass, m);
        sum = v3_add(sum, v3_scale(m, x));
    }
    vec3 mean = v3_scale(ns_div_safe(ns_const(1.0), mass), sum);
    return read_vector(mean, velocity ? "m/s" : "m");
}

static void name_sensor(const sensing* s, const nsi_sensor* sensor) {
    const ns_sensor_info* info = ns_sensor_type_info(sensor->def.type);
    reading r;
    switch (info->object) {
    case NS_SENSOR_OF_JOINT:
    case NS_SENSOR_OF_BALL: r = read_joint(s, sensor); break;
    case NS_SENSOR_OF_ACTUATOR:
    case NS_SENSOR_OF_TENDON: r = read_transmission(s, sensor); break;
    case NS_SENSOR_OF_LINK: r = read_subtree(s, sensor); break;
    default: r = read_frame(s, sensor); break;
    }

    // Orientations are not cut off.
    ns_sensor_type type = sensor->def.type;
    bool turns =
        info->size == 4 || (type >= NS_SENSOR_FRAME_X_AXIS && type <= NS_SENSOR_FRAME_Z_AXIS);
    double cutoff = turns ? 0.0 : sensor->def.cutoff;
    for (uint32_t k = 0; k < info->size; k++) {
        ns_expr x = r.x[k];
        if (cutoff > 0.0) x = ns_clamp(x, ns_const(-cutoff), ns_const(cutoff));
        const char* name = sensor->def.name;
        if (info->size == 1) {
            nsi_observed(x, r.unit, "sensor/%s", name);
        } else {
            nsi_observed(x, r.unit, "sensor/%s/%s", name, info->size == 4 ? part[k] : axis[k]);
        }
    }
}

void nsi_name_sensors(const nsi_robot* robot, const ns_expr* qdd) {
    const ns_model* model = robot->model;
    uint32_t n = model->sizes.nlink;
    if (model->sizes.nsensor == 0) return;
    nsi_link_pose* pose = nsi_robot_alloc(robot, n, sizeof *pose);
    quat* turn = nsi_robot_alloc(robot, n, sizeof *turn);
    motion* a = nsi_robot_alloc(robot, n, sizeof *a);
    if (!pose || !turn || !a) return;
    nsi_link_poses(robot, pose);
    nsi_link_turns(robot, turn);
    nsi_body_accelerations(robot, qdd, a);
    sensing s = {robot, pose, turn, a};
    for (uint32_t i = 0; i < model->sizes.nsensor; i++) name_sensor(&s, &model->sensors[i]);
}
