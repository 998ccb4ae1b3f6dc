// Parameters inside the library: from the coordinates of solvers to the free parameters of systems.
//
//     z  ->  v  ->  p
//
// z are unbounded, for solvers; v the estimated parameters in their natural units, within their bounds
// (parameters.h); p the free parameters of a system. z and v are those of all variants; each variant
// has its own map from v to its p.

#ifndef NSI_SYSID_PARAMETER_MAP_H
#define NSI_SYSID_PARAMETER_MAP_H

#include "base/common.h"
#include "neuralsim/parameters.h"

// A parameter that a file asks for.
typedef struct nsi_parameter_request {
    const char* name;
    ns_parameter how;
    const char* file;      // for messages; NULL: that of all
    uint32_t line, column; // for messages
} nsi_parameter_request;

// A formula for parameters that a file gives.
typedef struct nsi_setting_request {
    const char* name;    // a parameter, or a glob of them
    const char* formula; // of variables, and of parameters in double quotes
    const char* file;    // for messages; NULL: that of all
    uint32_t line, column;
} nsi_setting_request;

// All that a file asks for, ready for use.
// @param file  for messages
// @return NS_OK; NS_ERR_PARSE with file:line:column; NS_ERR_NOMEM
ns_status nsi_parameters_read(const ns_variant* variants, uint32_t nvariant, const char* file,
                              const nsi_parameter_request* requests, uint32_t nrequest,
                              const nsi_setting_request* settings, uint32_t nsetting,
                              const ns_allocator* allocator, ns_parameters** out, ns_error* error);

// Build the maps, if they are not there. Afterwards nothing can be added.
// @return NS_OK; NS_ERR_ARGUMENT, or NS_ERR_PARSE with the place in a file: a formula uses a name that
//         is not known; NS_ERR_NOMEM
ns_status nsi_parameters_finish(ns_parameters* params, ns_error* error);

const ns_allocator* nsi_parameters_allocator(const ns_parameters* params);

// The following are for parameters that are finished. Variants count from 0.
uint32_t nsi_parameters_variant_count(const ns_parameters* params);
const ns_variant* nsi_parameters_variant(const ns_parameters* params, uint32_t variant);

// Parameters of a variant's system, for ns_system_options.free_params: their names in the order of p,
// which is that of the model.
uint32_t nsi_parameters_param_count(const ns_parameters* params, uint32_t variant);
const char* const* nsi_parameters_param_names(const ns_parameters* params, uint32_t variant);

void nsi_parameters_initial(const ns_parameters* params, double* natural);
void nsi_parameters_to_z(const ns_parameters* params, const double* natural, double* z);

// Numbers of memory that the next two need from their caller; each thread has its own.
size_t nsi_parameters_scratch(const ns_parameters* params);

// v for z, and its derivatives (n x n, row i for v_i) unless NULL.
void nsi_parameters_from_z(const ns_parameters* params, const double* z, double* natural,
                           double* dv, double* scratch);

// p of a variant for v, and its derivatives (np x n) unless NULL.
void nsi_parameters_params(const ns_parameters* params, uint32_t variant, const double* natural,
                           double* p, double* dp, double* scratch);

// NULL when every number is finite and in its range and every link physical; otherwise the name of
// the link or parameter that is not. Moments that no motion shows restrict nothing: a link is
// physical when there are values of them with which a body can have the others.
const char* nsi_parameters_fault(const ns_parameters* params, uint32_t variant, const double* p);

// Move the estimated moments of links that are not physical to the nearest values that are, so that a
// step which leaves the physical values goes along their boundary.
// @param natural, p  memory for v, and for the most p of a variant
// @return whether z is physical now; coordinates of what is not moved stay as they are
bool nsi_parameters_repair(const ns_parameters* params, double* z, double* natural, double* p,
                           double* scratch);

// Moments that no motion shows, of a link whose other moments have left them behind.
typedef struct nsi_following_moments {
    const char* link;
    bool moved[6]; // xx yy zz xy xz yz
    double value[6];
    char name[6][1200];
} nsi_following_moments;

// The k-th link of a variant of which inertial parameters change: the nearest values of moments that no
// motion shows with which it is physical.
// @return false when there is no such link
bool nsi_parameters_following(const ns_parameters* params, uint32_t variant, const double* p,
                              uint32_t k, nsi_following_moments* out);

#endif
