// State of ns_parameters, shared by parameters.c (requests and lookup), transforms.c (z -> v),
// inertia_coordinates.c (links that stay physical) and parameter_formulas.c (v -> p).

#ifndef NSI_SYSID_PARAMETERS_STATE_H
#define NSI_SYSID_PARAMETERS_STATE_H

#include "expr/formula_syntax.h"
#include "sysid/parameter_map.h"

// The place in a file of what is asked for; without a file it was a call.
typedef struct nsi_place {
    const char* file;
    uint32_t line, column;
} nsi_place;

// A link whose ten inertial parameters are all estimated: their numbers among parameters.
typedef struct nsi_whole_body {
    uint32_t at[10];
} nsi_whole_body;

// A link of which some inertial parameters change.
typedef struct nsi_changed_link {
    const char* name;
    double fixed[10];
    uint32_t param[10]; // in p; NSI_NONE: `fixed`
    uint32_t item[10];  // among estimated parameters; NSI_NONE: it is none
    bool hidden[6];     // moments and products of inertia that no motion shows
} nsi_changed_link;

typedef struct nsi_range {
    double lower, upper;
} nsi_range;

// A parameter that is a formula of others.
typedef struct nsi_param_formula {
    uint32_t param; // in the model
    ns_formula* formula;
    nsi_place place;
} nsi_param_formula;

// What becomes of a parameter of the model.
typedef enum nsi_param_role {
    NSI_PARAM_FIXED,
    NSI_PARAM_ESTIMATED,
    NSI_PARAM_FORMULA
} nsi_param_role;

typedef struct nsi_variant_parameters {
    ns_variant variant;
    ns_system_options options; // of the variant
    uint32_t nparam;           // of the model
    double* values;            // (nparam) of the model, after `set` of the options
    uint8_t* role;             // (nparam) an nsi_param_role
    uint32_t* number;          // (nparam) among estimated parameters, where it is one
    NSI_ARRAY(nsi_param_formula) formulas;

    // After nsi_parameters_finish():
    NSI_ARRAY(const char*) names; // of p: every parameter that changes, in the order of the model
    NSI_ARRAY(nsi_range) ranges;  // of p: what the model, and a body with bounds, can have
    NSI_ARRAY(nsi_changed_link) links;
    ns_program* program; // forward derivatives of v -> p
} nsi_variant_parameters;

struct ns_parameters {
    ns_allocator allocator;
    nsi_arena arena; // names
    NSI_ARRAY(ns_parameter_info) items;
    NSI_ARRAY(uint32_t) requests; // the request that led to each item
    uint32_t nrequest;
    nsi_variant_parameters* variants; // (nvariant)
    uint32_t nvariant;
    NSI_ARRAY(nsi_whole_body) bodies;
    ns_program* natural; // forward derivatives of z -> v
    bool finished;
};

// NS_ERR_PARSE beginning with the place, or NS_ERR_ARGUMENT where there is none.
ns_status nsi_parameters_fail(const nsi_place* place, ns_error* error, const char* format, ...)
    NSI_PRINTF(3, 4);

// No parameter matches the name: say which is nearest.
ns_status nsi_parameters_fail_unknown(const ns_parameters* params, const char* name,
                                      const nsi_place* place, ns_error* error);

// ---- parameter_formulas.c ----------------------------------------------------------------------

ns_status nsi_parameters_set_formula(ns_parameters* params, const char* name, const char* formula,
                                     const nsi_place* place, ns_error* error);

// v -> p of a variant as a graph that is being traced.
ns_status nsi_trace_params(ns_parameters* params, uint32_t variant, ns_error* error);

// ---- transforms.c ------------------------------------------------------------------------------

// Check bounds and choose scale, prior and transform of a parameter whose name, unit, initial value
// and bounds are there.
// @param logarithm  it is positive and never 0, as masses and lengths are
ns_status nsi_choose_transform(const ns_parameter* how, bool logarithm, const nsi_place* place,
                               ns_parameter_info* out, ns_error* error);

// z -> v as a graph that is being traced.
ns_status nsi_trace_natural(ns_parameters* params, ns_error* error);

// z of a value of one parameter, which has a transform of its own.
double nsi_parameter_to_z(const ns_parameters* params, uint32_t number, double value);

// Transforms by a box or a bound on one side: the value of a coordinate, its derivative, the coordinate of a
// value strictly within the bounds, and the nearest value that is a share of the range or scale off them.
bool nsi_transform_is_bounded(const ns_parameter_info* info);
double nsi_transform_value(const ns_parameter_info* info, double z);
double nsi_transform_slope(const ns_parameter_info* info, double z);
double nsi_transform_coordinate(const ns_parameter_info* info, double value);
double nsi_transform_inside(const ns_parameter_info* info, double value, double share);

// Move coordinates of parameters on a bound off it by a thousandth, for methods that follow gradients in z.
void nsi_parameters_leave_bounds(const ns_parameters* params, double* z);

// ---- inertia_coordinates.c ---------------------------------------------------------------------

// Find the links of which inertial parameters change, and those of which all ten are estimated.
ns_status nsi_find_links(ns_parameters* params, ns_error* error);

// Log-Cholesky coordinates of a body {mass, com, inertia xx yy zz xy xz yz}, and back.
void nsi_body_to_z(const double body[10], double z[10]);
void nsi_trace_body(const ns_expr z[10], ns_expr body[10]);

#endif
