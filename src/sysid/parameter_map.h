// The numbers a fit looks for, besides weights: parameters of the model, or numbers of the user's own
// of which parameters are functions.
//
//     z  ->  v  ->  p
//
// z are unbounded, for optimisers; v what a person reads, within its bounds; p the free parameters of
// the system. A link whose ten inertial numbers are all looked for stays physical for every z
// (log-Cholesky coordinates of its pseudo-inertia: Rucker & Wensing 2022, "Smooth parameterization of
// rigid-body inertia").
//
// Several variants of a robot can share variables: z and v are those of all of them, and each variant
// has a map of its own from v to its p. A variable belongs to the variants that have a parameter of its
// name; a name of one's own to all.

#ifndef NSI_SYSID_PARAMETER_MAP_H
#define NSI_SYSID_PARAMETER_MAP_H

#include "base/common.h"
#include "expr/formula_syntax.h"
#include "neuralsim/sim.h"

typedef enum nsi_transform {
    NSI_TRANSFORM_NONE,
    NSI_TRANSFORM_LOG,   // above the lower bound, over orders of magnitude: masses, lengths
    NSI_TRANSFORM_ABOVE, // above the lower bound, which can be reached: l + s (sqrt(z^2 + 1) - 1)
    NSI_TRANSFORM_BELOW, // the same from above
    NSI_TRANSFORM_BOX,   // both can be reached: l + (u - l) (1 + sin z) / 2
    NSI_TRANSFORM_BODY   // one of ten of a link
} nsi_transform;

typedef struct nsi_parameter {
    const char *name, *unit;
    double start, lower, upper;
    double size;  // what counts as a change when the value is near 0
    double prior; // standard deviation around `start`; INFINITY: none
    nsi_transform transform;
} nsi_parameter;

// What a person asked for. A name or glob of parameters, or a name of their own.
typedef struct nsi_parameter_request {
    const char* name;
    double start;          // NaN: the model's
    double lower, upper;   // NaN: the model's; a name of one's own has none
    double size, prior;    // NaN: none given
    bool own;              // not a parameter of the model: `start` is needed
    uint32_t line, column; // for messages
} nsi_parameter_request;

typedef struct nsi_setting_request {
    const char* name;    // a parameter, or a glob of them
    const char* formula; // of variables, and of parameters in double quotes
    uint32_t line, column;
} nsi_setting_request;

typedef struct nsi_parameters nsi_parameters;

// A variant of a robot.
typedef struct nsi_parameter_model {
    const char* name; // for messages; NULL: there is only one
    const ns_model* model;
    const ns_system_options* options; // its `set` are the values of parameters that stay
} nsi_parameter_model;

// What is asked for must be in one variant at least. A formula holds in the variants that have all it
// uses. Where variants start at different values of a shared parameter, a start must be given.
// @param file  for messages
// @return NS_OK; NS_ERR_PARSE with file:line:column; NS_ERR_NOMEM
ns_status nsi_parameters_create_shared(const nsi_parameter_model* models, uint32_t nmodel,
                                       const char* file, const nsi_parameter_request* requests,
                                       uint32_t nrequest, const nsi_setting_request* settings,
                                       uint32_t nsetting, const ns_allocator* allocator,
                                       nsi_parameters** out, ns_error* error);

// The same for one robot.
ns_status nsi_parameters_create(const ns_model* model, const ns_system_options* options,
                                const char* file, const nsi_parameter_request* requests,
                                uint32_t nrequest, const nsi_setting_request* settings,
                                uint32_t nsetting, const ns_allocator* allocator,
                                nsi_parameters** out, ns_error* error);
void nsi_parameters_free(nsi_parameters* variables); // NULL is allowed

uint32_t nsi_parameters_count(const nsi_parameters* variables);
const nsi_parameter* nsi_parameters_at(const nsi_parameters* variables, uint32_t number);

// Parameters of a variant's system, for ns_system_options.free_params: their names in the order of p,
// which is that of the model. Variants count from 0.
uint32_t nsi_parameters_param_count(const nsi_parameters* variables, uint32_t variant);
const char* const* nsi_parameters_param_names(const nsi_parameters* variables, uint32_t variant);

void nsi_parameters_start(const nsi_parameters* variables, double* natural);
void nsi_parameters_set_start(nsi_parameters* variables, uint32_t number, double value);
void nsi_parameters_to_z(const nsi_parameters* variables, const double* natural, double* z);

// Numbers of memory that the next two need from their caller; each thread has its own.
size_t nsi_parameters_scratch(const nsi_parameters* variables);

// v for z, and its derivatives (n x n, row i for v_i) unless NULL.
void nsi_parameters_from_z(const nsi_parameters* variables, const double* z, double* natural,
                           double* dv, double* scratch);

// p of a variant for v, and its derivatives (np x n) unless NULL.
void nsi_parameters_params(const nsi_parameters* variables, uint32_t variant, const double* natural,
                           double* p, double* dp, double* scratch);

// NULL when every number is finite and in its range and every link physical; otherwise the name of
// the link or parameter that is not.
const char* nsi_parameters_fault(const nsi_parameters* variables, uint32_t variant,
                                 const double* p);

#endif
