// The posterior density of everything that a fit estimates, for samplers (posterior.h).
//
//     log p = - F + sum over channels of (- n log s + log prior(s)) + log |dv/dz|
//
// F is the objective with the residuals of each channel divided by its noise level s, so 1/2 sum
// r^2 / s^2, priors of parameters and weight decay as a prior of weights; n counts the numbers of
// the channel. A channel with a sigma has s = 1; otherwise s is sampled as log s, with a prior that
// is flat in log s. Parameters without prior_sigma have a prior that is flat in their value within
// its bounds, which is what the last term makes of their coordinates z. Initial states have a flat
// prior.

#ifndef NSI_SYSID_RESIDUAL_DENSITY_H
#define NSI_SYSID_RESIDUAL_DENSITY_H

#include "neuralsim/posterior.h"
#include "neuralsim/random.h"
#include "sysid/objective.h"

typedef struct nsi_residual_density nsi_residual_density;

// @param data, options  as of nsi_objective_create()
// @param weights        weights of networks are sampled, too; otherwise only coefficients of
// formulas are
// @param workers        that evaluate at a time, each with an objective of its own
// @return NS_OK; NS_ERR_LIMIT: there are too many unknowns; NS_ERR_NOMEM
ns_status nsi_residual_density_create(const nsi_problem* problem, const ns_dataset* data,
                                      const ns_window_options* options, bool weights,
                                      uint32_t workers, nsi_residual_density** out,
                                      ns_error* error);
void nsi_residual_density_free(nsi_residual_density* density); // NULL is allowed

// For samplers; lives as long as `density`.
ns_density nsi_residual_density_callbacks(nsi_residual_density* density);

// Let coordinates count from this point: weights that are not sampled stay there, directions of
// initial states begin there.
void nsi_residual_density_set_origin(nsi_residual_density* density, const double* w,
                                     const double* x);

// Let the density of a worker be that of other data and priors, drawn as they could have been: recorded
// numbers with the noise once more, means of priors with their deviations once more. Noise levels are held
// as they are at a point. See refit_samples.h.
// @return false when memory ran out
bool nsi_residual_density_perturb(nsi_residual_density* density, uint32_t worker, const double* at,
                                  ns_rng* rng);
// The density itself again.
void nsi_residual_density_restore(nsi_residual_density* density, uint32_t worker);

// Coordinates of these parameters and weights with initial states of the origin; noise levels are
// those that the residuals have there.
// @return false when there is no cost
bool nsi_residual_density_start(nsi_residual_density* density, const double* z, const double* w,
                                double* out);

// Standard deviations beyond which nothing is looked for, by coordinate (ns_laplace_find).
void nsi_residual_density_scales(const nsi_residual_density* density, double* out);

// What a coordinate is.
typedef enum nsi_unknown_kind {
    NSI_UNKNOWN_PARAMETER,
    NSI_UNKNOWN_WEIGHT,
    NSI_UNKNOWN_STATE,
    NSI_UNKNOWN_NOISE
} nsi_unknown_kind;
typedef struct nsi_unknown {
    nsi_unknown_kind kind;
    uint32_t
        number; // of the parameter, weight or channel; of a state: window * directions + direction
} nsi_unknown;
nsi_unknown nsi_residual_density_unknown(const nsi_residual_density* density, uint32_t coordinate);

// "link/upper/mass", "weight 3", "window 2: joint/elbow/position", "noise/joint/elbow/position".
// Cut off, never overrun.
void nsi_residual_density_name(const nsi_residual_density* density, uint32_t coordinate, char* text,
                               size_t size);
const char* nsi_residual_density_unit(const nsi_residual_density* density, uint32_t coordinate);

// Values for coordinates (n): parameters in their units, weights, components of initial states
// (angles from the origin for quaternions), noise levels in the unit of their channel.
void nsi_residual_density_values(const nsi_residual_density* density, const double* coordinates,
                                 double* values);

// The point for coordinates: z of all parameters, all weights, initial states (windows x nx).
void nsi_residual_density_point(const nsi_residual_density* density, const double* coordinates,
                                double* z, double* w, double* x);

#endif
