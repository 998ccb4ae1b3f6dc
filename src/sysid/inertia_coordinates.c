// Inertial parameters of links: those of one link stay physical together.
//
// A link whose ten inertial parameters are all estimated has log-Cholesky coordinates of its
// pseudo-inertia (Rucker & Wensing 2022, "Smooth parameterization of rigid-body inertia"), with which
// it is physical for every z.
//
// Of other links some parameters are fixed. Moments that no motion shows, such as ixx and izz of a pole
// that turns about y alone, restrict nothing: they follow. A single moment that is estimated beside
// fixed ones has the range that these leave. Steps that leave the physical values otherwise are moved
// back to the nearest ones where an estimated moment can be moved, and refused where not.

#include "dyn/joint.h"
#include "model/model_data.h"
#include "model/pose.h"
#include "sysid/parameters_state.h"

#include <math.h>
#include <stdio.h>

// Parameters of a link that must stay physical together, in the order of the body's coordinates.
static const char* const body_names[10] = {"mass",       "com/x",      "com/y",      "com/z",
                                           "inertia/xx", "inertia/yy", "inertia/zz", "inertia/xy",
                                           "inertia/xz", "inertia/yz"};

enum { MOMENT = 4 }; // where the six numbers of the inertia begin

// ---- axes of rotation ----------------------------------------------------------------------------

// The angular velocities that a link can have, in its own frame: none, those about one axis, or any.
typedef struct link_rotation {
    uint32_t dimension; // 0, 1 or 3
    double axis[3];     // of dimension 1
} link_rotation;

static bool is_parallel(const double a[3], const double b[3]) {
    double cross[3] = {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2],
                       a[0] * b[1] - a[1] * b[0]};
    double squares = cross[0] * cross[0] + cross[1] * cross[1] + cross[2] * cross[2];
    return squares < 1e-18; // of unit vectors
}

// A joint that turns about an axis keeps an axis of the parent that is parallel to it; from any other,
// the positions of the joint make all directions.
static link_rotation add_joint_rotation(const ns_link_def* def, link_rotation parent) {
    const nsi_joint* type = nsi_joint_get(def->joint_type);
    link_rotation all = {.dimension = 3}, out = parent;

    // The parent's axis in the link's frame at the zero of its joint.
    const double* o = def->origin.quaternion;
    double inverse[4] = {o[0], -o[1], -o[2], -o[3]};
    nsi_quat_rotate(inverse, parent.axis, out.axis);

    // The axes of the joint, one after the other.
    for (uint32_t k = 0; k < type->info.nv && out.dimension < 3; k++) {
        double s[6] = {0.0};
        type->subspace(def, k, s);
        double length = sqrt(s[0] * s[0] + s[1] * s[1] + s[2] * s[2]);
        if (length == 0.0) continue;
        for (int i = 0; i < 3; i++) s[i] /= length;
        if (out.dimension == 1 && !is_parallel(s, out.axis)) return all;
        out.dimension = 1;
        memcpy(out.axis, s, sizeof out.axis);
    }
    return out;
}

static link_rotation find_rotation(const ns_model* model, uint32_t link) {
    uint32_t parent = ns_model_link_parent(model, link);
    link_rotation above = {0};
    if (parent != NSI_NONE) above = find_rotation(model, parent);
    return add_joint_rotation(ns_model_link(model, link), above);
}

// Do all joints stay as the model has them? Axes that are estimated may turn out of a plane.
static bool joints_are_fixed(const nsi_variant_parameters* t) {
    for (uint32_t k = 0; k < t->nparam; k++) {
        const ns_param* param = ns_model_param(t->variant.model, k);
        bool direction =
            param->kind == NS_PARAM_JOINT_ROTATION || param->kind == NS_PARAM_JOINT_AXIS;
        if (direction && (t->role[k] != NSI_PARAM_FIXED || t->values[k] != param->value)) {
            return false;
        }
    }
    return true;
}

// The energy of rotation is w' I w / 2: entry ij shows where components i and j of w can be there.
static void find_hidden(const nsi_variant_parameters* t, uint32_t link, bool hidden[6]) {
    static const int row[6] = {0, 1, 2, 0, 0, 1}, column[6] = {0, 1, 2, 1, 2, 2};
    link_rotation w = find_rotation(t->variant.model, link);
    bool shown[3];
    for (int i = 0; i < 3; i++) {
        shown[i] = w.dimension == 3 || (w.dimension == 1 && fabs(w.axis[i]) > 1e-9);
    }
    for (int k = 0; k < 6; k++) hidden[k] = !(shown[row[k]] && shown[column[k]]);
}

// ---- links ---------------------------------------------------------------------------------------

// Can a body have these ten numbers, whatever those of them are that no motion shows?
static bool is_possible_body(const nsi_changed_link* c, const double body[10]) {
    double moments[6];
    memcpy(moments, body + MOMENT, sizeof moments);
    return body[0] >= 0.0 && nsi_inertia_complete(body[0], moments, c->hidden);
}

// Which inertial parameters of a link change, and how many of them are estimated.
static uint32_t list_changes(const nsi_variant_parameters* t, const char* link, nsi_changed_link* c,
                             nsi_whole_body* whole, uint32_t* nestimated) {
    uint32_t nchange = 0;
    *c = (nsi_changed_link){.name = link};
    *nestimated = 0;
    for (int i = 0; i < 10; i++) {
        char name[1200];
        snprintf(name, sizeof name, "link/%s/%s", link, body_names[i]);
        uint32_t param = ns_model_find_param(t->variant.model, name);
        if (param == NSI_NONE) break;
        c->fixed[i] = t->values[param];
        c->param[i] = c->item[i] = NSI_NONE;
        if (t->role[param] == NSI_PARAM_FIXED) continue;

        // Its place in p.
        nchange++;
        for (uint32_t p = 0; p < t->names.count; p++) {
            if (strcmp(t->names.data[p], name) == 0) c->param[i] = p;
        }
        if (t->role[param] != NSI_PARAM_ESTIMATED) continue;
        whole->at[i] = c->item[i] = t->number[param];
        ++*nestimated;
    }
    return nchange;
}

// Where a moment ends between a value that is possible and one that is not.
static double find_moment_end(const nsi_changed_link* c, double body[10], int moment,
                              double possible, double impossible) {
    for (int k = 0; k < 60; k++) {
        body[moment] = 0.5 * (possible + impossible);
        if (is_possible_body(c, body)) {
            possible = body[moment];
        } else {
            impossible = body[moment];
        }
    }
    return possible;
}

// One moment alone that is estimated, beside others that are fixed, has a range: as a bound it can be
// reached, and left again.
static void bound_single_moment(ns_parameters* v, const nsi_changed_link* c) {
    double body[10];
    int single = -1;
    memcpy(body, c->fixed, sizeof body);
    for (int i = 0; i < 10; i++) {
        if (c->item[i] != NSI_NONE) body[i] = v->items.data[c->item[i]].initial;
        if (i < MOMENT || c->param[i] == NSI_NONE) continue;
        if (single >= 0 || c->item[i] == NSI_NONE) return; // several, or a formula
        single = i;
    }
    if (single < 0 || c->hidden[single - MOMENT] || !is_possible_body(c, body)) return;

    // Far beyond the other moments there is an end, or none at all.
    ns_parameter_info* item = &v->items.data[c->item[single]];
    double value = item->initial, far = 1e3 * (body[4] + body[5] + body[6]);
    body[single] = value + far;
    bool above = !is_possible_body(c, body);
    body[single] = value - far;
    bool below = !is_possible_body(c, body);
    double upper = above ? find_moment_end(c, body, single, value, value + far) : INFINITY;
    double lower = below ? find_moment_end(c, body, single, value, value - far) : -INFINITY;

    // A range without any room would not let it move at all.
    if (!(upper - lower > 1e-6 * fabs(value)) || !isfinite(upper) || !isfinite(lower)) return;
    item->lower = fmax(item->lower, lower);
    item->upper = fmin(item->upper, upper);
    item->transform = NS_PARAMETER_BOX;
}

static ns_status find_link(ns_parameters* v, nsi_variant_parameters* t, uint32_t number,
                           ns_error* error) {
    nsi_changed_link c;
    nsi_whole_body whole = {{0}};
    const char* link = ns_model_link(t->variant.model, number)->name;
    uint32_t nestimated, nchange = list_changes(t, link, &c, &whole, &nestimated);
    if (nchange > 0 && joints_are_fixed(t)) find_hidden(t, number, c.hidden);
    if (nchange > 0) bound_single_moment(v, &c);
    if (nchange > 0 && !nsi_array_push(&v->allocator, &t->links, c)) return nsi_fail_nomem(error);
    if (nestimated < 10) return NS_OK;

    // Their coordinates know of no bounds: steps out of them are refused.
    bool known = v->items.data[whole.at[0]].transform == NS_PARAMETER_INERTIA; // of another variant
    for (int i = 0; i < 10; i++) {
        ns_parameter_info* item = &v->items.data[whole.at[i]];
        nsi_range* r = &t->ranges.data[c.param[i]];
        item->transform = NS_PARAMETER_INERTIA;
        *r = (nsi_range){fmax(r->lower, item->lower), fmin(r->upper, item->upper)};
    }
    if (!known && !nsi_array_push(&v->allocator, &v->bodies, whole)) return nsi_fail_nomem(error);
    return NS_OK;
}

ns_status nsi_find_links(ns_parameters* v, ns_error* error) {
    for (uint32_t m = 0; m < v->nvariant; m++) {
        nsi_variant_parameters* t = &v->variants[m];
        const ns_model* model = t->variant.model;
        for (uint32_t k = 0; k < ns_model_get_sizes(model).nlink; k++) {
            ns_status status = find_link(v, t, k, error);
            if (status != NS_OK) return status;
        }
    }
    return NS_OK;
}

static void read_body(const nsi_changed_link* c, const double* p, double body[10]) {
    for (int i = 0; i < 10; i++) body[i] = c->param[i] == NSI_NONE ? c->fixed[i] : p[c->param[i]];
}

// A link that no body can be; NULL: none.
static const char* find_faulty_link(const nsi_variant_parameters* t, const double* p) {
    for (uint32_t k = 0; k < t->links.count; k++) {
        const nsi_changed_link* c = &t->links.data[k];
        double body[10];
        read_body(c, p, body);
        if (!is_possible_body(c, body)) return c->name;
    }
    return NULL;
}

const char* nsi_parameters_fault(const ns_parameters* params, uint32_t variant, const double* p) {
    const nsi_variant_parameters* t = &params->variants[variant];
    for (uint32_t k = 0; k < t->names.count; k++) {
        if (!isfinite(p[k])) return t->names.data[k];
    }
    const char* link = find_faulty_link(t, p);
    if (link) return link;

    // Formulas and bounds may lead out of what the model can have; rounding does, a little.
    for (uint32_t k = 0; k < t->names.count; k++) {
        const nsi_range* r = &t->ranges.data[k];
        double low = isfinite(r->lower) ? fabs(r->lower) : 0.0;
        double high = isfinite(r->upper) ? fabs(r->upper) : 0.0;
        double slack = 1e-12 * fmax(fabs(p[k]), fmax(low, high));
        if (p[k] < r->lower - slack || p[k] > r->upper + slack) return t->names.data[k];
    }
    return NULL;
}

// ---- steps that leave what is physical -----------------------------------------------------------

// Move estimated moments of a link into its nearest body; false: it cannot be moved.
static bool repair_link(const ns_parameters* v, const nsi_changed_link* c, const double* p,
                        double* natural, double* z) {
    double body[10];
    bool movable[6], any = false;
    read_body(c, p, body);
    if (is_possible_body(c, body)) return true;
    for (int i = 0; i < 6; i++) {
        uint32_t item = c->item[MOMENT + i];
        bool estimated = item != NSI_NONE && v->items.data[item].transform != NS_PARAMETER_INERTIA;
        movable[i] = estimated || c->hidden[i];
        any = any || estimated;
    }
    if (!any || !nsi_inertia_complete(body[0], body + MOMENT, movable)) return false;

    // Hidden moments that are not estimated follow by themselves. Coordinates of what has not moved stay
    // as they are: to recompute them would lead away from bounds.
    for (int i = 0; i < 6; i++) {
        uint32_t item = c->item[MOMENT + i];
        if (item == NSI_NONE || natural[item] == body[MOMENT + i]) continue;
        natural[item] = body[MOMENT + i];
        z[item] = nsi_parameter_to_z(v, item, natural[item]);
    }
    return true;
}

bool nsi_parameters_repair(const ns_parameters* v, double* z, double* natural, double* p,
                           double* scratch) {
    nsi_parameters_from_z(v, z, natural, NULL, scratch);
    for (uint32_t m = 0; m < v->nvariant; m++) {
        const nsi_variant_parameters* t = &v->variants[m];
        nsi_parameters_params(v, m, natural, p, NULL, scratch);
        for (uint32_t k = 0; k < t->links.count; k++) {
            if (!repair_link(v, &t->links.data[k], p, natural, z)) return false;
        }
    }

    // What one variant moved may have left another, or the range of a parameter.
    for (uint32_t m = 0; m < v->nvariant; m++) {
        nsi_parameters_params(v, m, natural, p, NULL, scratch);
        if (nsi_parameters_fault(v, m, p)) return false;
    }
    return true;
}

bool nsi_parameters_following(const ns_parameters* params, uint32_t variant, const double* p,
                              uint32_t k, nsi_following_moments* out) {
    const nsi_variant_parameters* t = &params->variants[variant];
    if (k >= t->links.count) return false;
    const nsi_changed_link* c = &t->links.data[k];
    double body[10];
    read_body(c, p, body);
    memcpy(out->value, body + MOMENT, sizeof out->value);
    bool possible = nsi_inertia_complete(body[0], out->value, c->hidden);
    out->link = c->name;
    for (int i = 0; i < 6; i++) {
        out->moved[i] = possible && out->value[i] != body[MOMENT + i];
        snprintf(out->name[i], sizeof out->name[i], "link/%s/%s", c->name, body_names[MOMENT + i]);
    }
    return true;
}

// ---- coordinates ---------------------------------------------------------------------------------

// Pseudo-inertia [S h; h' m], S = integral of rho x x', h = m c, of mass, com, inertia.
static void pseudo_inertia(const double body[10], double J[4][4]) {
    double m = body[0];
    const double *c = body + 1, *I = body + 4;
    double half_trace = 0.5 * (I[0] + I[1] + I[2]);
    double S[3][3] = {{half_trace - I[0], -I[3], -I[4]},
                      {-I[3], half_trace - I[1], -I[5]},
                      {-I[4], -I[5], half_trace - I[2]}};
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) J[i][j] = S[i][j] + m * c[i] * c[j];
        J[i][3] = J[3][i] = m * c[i];
    }
    J[3][3] = m;
}

// U upper triangular with U U' = J; z: log of the last diagonal element, logs of the other diagonal
// elements and the rest, both relative to it.
void nsi_body_to_z(const double body[10], double z[10]) {
    double J[4][4], U[4][4] = {{0}};
    pseudo_inertia(body, J);
    double trace = J[0][0] + J[1][1] + J[2][2];
    for (int j = 3; j >= 0; j--) {
        double d = J[j][j];
        for (int k = j + 1; k < 4; k++) d -= U[j][k] * U[j][k];
        // A thin rod lies on the border, where there is no logarithm.
        double least = 1e-9 * (j < 3 ? trace : J[3][3]);
        U[j][j] = sqrt(d > least ? d : least);
        for (int i = 0; i < j; i++) {
            double s = J[i][j];
            for (int k = j + 1; k < 4; k++) s -= U[i][k] * U[j][k];
            U[i][j] = s / U[j][j];
        }
    }
    z[0] = log(U[3][3]);
    for (int i = 0; i < 3; i++) {
        z[1 + i] = log(U[i][i] / U[3][3]);
        z[7 + i] = U[i][3] / U[3][3];
    }
    z[4] = U[0][1] / U[3][3];
    z[5] = U[0][2] / U[3][3];
    z[6] = U[1][2] / U[3][3];
}

void nsi_trace_body(const ns_expr z[10], ns_expr body[10]) {
    ns_expr m = ns_exp(ns_mul(ns_const(2.0), z[0]));
    ns_expr zero = ns_const(0.0);
    // Rows of U / exp(z0), without the last column: S about the centre of mass is m times U U'.
    ns_expr U[3][3] = {
        {ns_exp(z[1]), z[4], z[5]}, {zero, ns_exp(z[2]), z[6]}, {zero, zero, ns_exp(z[3])}};
    ns_expr S[3][3];
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) {
            ns_expr sum = zero;
            for (int k = 0; k < 3; k++) sum = ns_add(sum, ns_mul(U[i][k], U[j][k]));
            S[i][j] = ns_mul(m, sum);
        }
    }
    body[0] = m;
    for (int i = 0; i < 3; i++) {
        body[1 + i] = z[7 + i];
        body[4 + i] = ns_add(S[(i + 1) % 3][(i + 1) % 3], S[(i + 2) % 3][(i + 2) % 3]);
    }
    body[7] = ns_neg(S[0][1]);
    body[8] = ns_neg(S[0][2]);
    body[9] = ns_neg(S[1][2]);
}
