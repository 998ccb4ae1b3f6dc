// Inertial parameters of links: those of one link stay physical together.
//
// A link whose ten inertial parameters are all estimated has log-Cholesky coordinates of its
// pseudo-inertia (Rucker & Wensing 2022, "Smooth parameterization of rigid-body inertia"), with which
// it is physical for every z. Of other links, steps out of what a body can have are refused.

#include "model/model_data.h"
#include "sysid/parameters_state.h"

#include <math.h>
#include <stdio.h>

// Parameters of a link that must stay physical together, in the order of the body's coordinates.
static const char* const body_names[10] = {"mass",       "com/x",      "com/y",      "com/z",
                                           "inertia/xx", "inertia/yy", "inertia/zz", "inertia/xy",
                                           "inertia/xz", "inertia/yz"};

// ---- links ---------------------------------------------------------------------------------------

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
        c->param[i] = NSI_NONE;
        if (t->role[param] == NSI_PARAM_FIXED) continue;

        // Its place in p.
        nchange++;
        for (uint32_t p = 0; p < t->names.count; p++) {
            if (strcmp(t->names.data[p], name) == 0) c->param[i] = p;
        }
        if (t->role[param] != NSI_PARAM_ESTIMATED) continue;
        whole->at[i] = t->number[param];
        ++*nestimated;
    }
    return nchange;
}

static ns_status find_link(ns_parameters* v, nsi_variant_parameters* t, const char* link,
                           ns_error* error) {
    nsi_changed_link c;
    nsi_whole_body whole = {{0}};
    uint32_t nestimated, nchange = list_changes(t, link, &c, &whole, &nestimated);
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
            ns_status status = find_link(v, t, ns_model_link(model, k)->name, error);
            if (status != NS_OK) return status;
        }
    }
    return NS_OK;
}

// A link that no body can be; NULL: none.
static const char* find_faulty_link(const nsi_variant_parameters* t, const double* p) {
    for (uint32_t k = 0; k < t->links.count; k++) {
        const nsi_changed_link* c = &t->links.data[k];
        double body[10];
        for (int i = 0; i < 10; i++) {
            body[i] = c->param[i] == NSI_NONE ? c->fixed[i] : p[c->param[i]];
        }
        if (body[0] < 0.0 || nsi_inertia_fault(body[0], body + 4)) return c->name;
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
