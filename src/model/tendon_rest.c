// Tendons where all joints are at their rest: the length that a spring has there, and the moments that
// the stiffness of automatic limits follows from. In numbers; src/dyn/transmission.c traces them.

#include "dyn/joint.h"
#include "expr/trace.h"
#include "math/wrap.h"
#include "model/model_data.h"
#include "model/pose.h"

#include <math.h>

static void rotate(const double q[4], const double v[3], double out[3]) {
    double r[9];
    nsi_quat_to_matrix(q, r);
    for (int i = 0; i < 3; i++)
        out[i] = r[3 * i] * v[0] + r[3 * i + 1] * v[1] + r[3 * i + 2] * v[2];
}

static void find_poses(const ns_model* model, bool at_reference, ns_pose* pose) {
    for (uint32_t i = 0; i < model->sizes.nlink; i++) {
        const ns_link_def* def = &model->links[i].def;
        const nsi_joint* type = nsi_joint_get(def->joint_type);
        ns_pose joint = nsi_pose_identity();
        if (type->info.has_axis) type->pose(def, at_reference ? def->reference : def->rest, &joint);
        pose[i] = nsi_pose_compose(&def->origin, &joint);
        uint32_t parent = model->links[i].parent;
        if (parent != NSI_NONE) pose[i] = nsi_pose_compose(&pose[parent], &pose[i]);
    }
}

// Add the moments of a force at a point of a link, along all joints that carry it.
static void add_moments(const ns_model* model, const ns_pose* pose, uint32_t link,
                        const double point[3], const double along[3], double* moment) {
    for (uint32_t i = link; i != NSI_NONE; i = model->links[i].parent) {
        const nsi_link* l = &model->links[i];
        double arm[3];
        for (int k = 0; k < 3; k++) arm[k] = point[k] - pose[i].position[k];
        for (uint32_t k = 0; k < l->nv; k++) {
            double s[6] = {0.0}, turn[3], slide[3], lever[3];
            nsi_joint_get(l->def.joint_type)->subspace(&l->def, k, s);
            rotate(pose[i].quaternion, s, turn);
            rotate(pose[i].quaternion, s + 3, slide);
            nsi_cross(turn, arm, lever);
            for (int c = 0; c < 3; c++) moment[l->v + k] += along[c] * (slide[c] + lever[c]);
        }
    }
}

// A path in numbers: points of bodies in turn, joined by straight lines, but for the length along a surface.
typedef struct rest_path {
    const ns_model* model;
    const ns_pose* pose;
    double divisor, length;
    double* moment;
} rest_path;

// A straight piece from a point of one link to one of another.
static void add_piece(rest_path* path, uint32_t from_link, const double from[3], uint32_t to_link,
                      const double to[3]) {
    double along[3], distance = 0.0;
    for (int c = 0; c < 3; c++) along[c] = to[c] - from[c];
    for (int c = 0; c < 3; c++) distance += along[c] * along[c];
    distance = sqrt(distance);
    if (!(distance > 0.0)) return;
    path->length += distance / path->divisor;
    for (int c = 0; c < 3; c++) along[c] /= distance * path->divisor;
    add_moments(path->model, path->pose, to_link, to, along, path->moment);
    for (int c = 0; c < 3; c++) along[c] = -along[c];
    add_moments(path->model, path->pose, from_link, from, along, path->moment);
}

static ns_pose site_pose(const rest_path* path, uint32_t number) {
    const nsi_model_site* site = &path->model->sites[number];
    if (site->link == NSI_NONE) return site->def.pose;
    return nsi_pose_compose(&path->pose[site->link], &site->def.pose);
}

// A point in a frame: the other way round than in rotate().
static vec3 point_in(const ns_pose* frame, const double point[3]) {
    const double* q = frame->quaternion;
    const double back[4] = {q[0], -q[1], -q[2], -q[3]};
    double way[3], out[3];
    for (int c = 0; c < 3; c++) way[c] = point[c] - frame->position[c];
    rotate(back, way, out);
    return v3_const(out[0], out[1], out[2]);
}

// The value of an expression of constants.
static double value_of(const ns_graph* graph, ns_expr x) {
    if (!ns_expr_is_valid(x)) return 0.0;
    const nsi_node* node = &graph->nodes.data[x.id];
    return node->op == NSI_CONST ? node->value : 0.0;
}

static void to_world(const ns_graph* graph, const ns_pose* frame, vec3 v, double out[3]) {
    double local[3];
    for (int c = 0; c < 3; c++) local[c] = value_of(graph, v.e[c]);
    rotate(frame->quaternion, local, out);
    for (int c = 0; c < 3; c++) out[c] += frame->position[c];
}

// Around a geometry. The path is that of the simulation, traced with constants.
static ns_status add_wrapped(rest_path* path, const nsi_tendon_part* around, ns_error* error) {
    const nsi_geom* geom = &path->model->geoms[around->geom];
    ns_pose from = site_pose(path, around[-1].site), to = site_pose(path, around[1].site);
    ns_pose at = geom->def.pose;
    if (geom->link != NSI_NONE) at = nsi_pose_compose(&path->pose[geom->link], &at);
    ns_graph* graph = NULL;
    ns_status status = ns_graph_create(&path->model->allocator, &graph, error);
    if (status != NS_OK) return status;
    nsi_trace_state outside = nsi_trace_enter(graph);
    vec3 side = v3_zero();
    if (around->side != NSI_NONE) side = point_in(&at, site_pose(path, around->side).position);
    nsi_wrap wrap = nsi_wrap_path(geom->def.type == NS_GEOM_SPHERE, ns_const(geom->def.size[0]),
                                  point_in(&at, from.position), point_in(&at, to.position),
                                  around->side == NSI_NONE ? NULL : &side);
    nsi_trace_leave(outside);

    // Straight, or by way of the surface.
    uint32_t from_link = path->model->sites[around[-1].site].link;
    uint32_t to_link = path->model->sites[around[1].site].link;
    status = graph->error.status;
    if (status != NS_OK) {
        nsi_fail_nomem(error);
    } else if (value_of(graph, wrap.wraps) == 0.0) {
        add_piece(path, from_link, from.position, to_link, to.position);
    } else {
        double first[3], second[3];
        to_world(graph, &at, wrap.first, first);
        to_world(graph, &at, wrap.second, second);
        path->length += value_of(graph, wrap.length) / path->divisor;
        add_piece(path, from_link, from.position, geom->link, first);
        add_piece(path, geom->link, second, to_link, to.position);
    }
    ns_graph_free(graph);
    return status;
}

static ns_status find_tendon(const ns_model* model, const nsi_tendon* tendon, bool at_reference,
                             double* length, double* moment, ns_error* error) {
    ns_pose* pose = nsi_alloc(&model->allocator, (model->sizes.nlink + 1) * sizeof *pose);
    if (!pose) return nsi_fail_nomem(error);
    memset(moment, 0, model->sizes.nv * sizeof *moment);
    find_poses(model, at_reference, pose);

    // Joints by their coefficients; or the paths between sites, of each branch by its divisor.
    rest_path path = {model, pose, 1.0, 0.0, moment};
    ns_status status = NS_OK;
    for (uint32_t k = 0; k < tendon->def.npart && status == NS_OK; k++) {
        const nsi_tendon_part* part = &tendon->parts[k];
        if (part->link != NSI_NONE) {
            const nsi_link* l = &model->links[part->link];
            path.length += part->factor * (at_reference ? l->def.reference : l->def.rest);
            moment[l->v] += part->factor * (l->mimic == NSI_NONE ? 1.0 : l->def.mimic_multiplier);
        } else if (part->geom != NSI_NONE) {
            status = add_wrapped(&path, part, error);
        } else if (part->site == NSI_NONE) {
            path.divisor = part->factor;
        } else if (k + 1 < tendon->def.npart && part[1].site != NSI_NONE) {
            ns_pose from = site_pose(&path, part->site), to = site_pose(&path, part[1].site);
            add_piece(&path, model->sites[part->site].link, from.position,
                      model->sites[part[1].site].link, to.position);
        }
    }
    nsi_free(&model->allocator, pose);
    *length = path.length;
    return status;
}

ns_status nsi_tendon_at_rest(const ns_model* model, const nsi_tendon* tendon, double* length,
                             double* moment, ns_error* error) {
    return find_tendon(model, tendon, false, length, moment, error);
}

ns_status nsi_tendon_at_reference(const ns_model* model, const nsi_tendon* tendon, double* length,
                                  double* moment, ns_error* error) {
    return find_tendon(model, tendon, true, length, moment, error);
}
