// Accelerations of the recorded motion beside those of the model: what checks by the motion share
// (check_dynamics.c).

#ifndef NSI_DATA_CHECK_MOTION_H
#define NSI_DATA_CHECK_MOTION_H

#include "data/check_state.h"

// Of the polynomials that smooth and differentiate: samples, and order.
enum { NSI_MOTION_WINDOW = 11, NSI_MOTION_ORDER = 3, NSI_MOTION_MAX_CONTROLS = 64 };

typedef struct nsi_motion_fit {
    ns_data_check* check;
    ns_system* system;
    ns_system_sizes sizes;
    ns_workspace* work;
    uint32_t nq, nv, ncontrol;
    uint32_t* channel;              // (nq + nv) of the state, NSI_NONE: not recorded
    uint32_t* control;              // (ncontrol) number in the system
    double *q, *qd, *qdd;           // (most samples x nq, nv, nv)
    double *x0, *controls, *states; // (ncontrol + 1)
    double* column;                 // (3 x most samples)
    double* weights;                // (nv) 1 / deviation of each acceleration
    double *normal, *right;         // (ncontrol^2), (ncontrol)
    double angle_unit, time_unit;   // rad and s of what was recorded
    double size, misfit; // sums of squares of angles: accelerations, what the model leaves
    double rest;         // sum of squares of what is regressed
    double count;        // numbers that were regressed
    ns_error error;
} nsi_motion_fit;

// Set up the model and the places of the signals in it, and judge: not where a coordinate is not recorded or
// the model has states of other kinds.
// @param timestep  s of the model's steps; 0: its own
// @param judge_by  receives scratch for nsi_motion_accelerations()
void nsi_motion_check(ns_data_check* c, double timestep,
                      void (*judge_by)(nsi_motion_fit* f, double* model));

// False where findings say that units are wrong or angles jump: these would be taken for dynamics.
bool nsi_motion_has_clean_units(const nsi_motion_fit* f);

// Positions, velocities and accelerations of a recording into q, qd and qdd.
void nsi_motion_smooth(nsi_motion_fit* f, const nsi_checked_recording* r);
bool nsi_motion_is_known(const nsi_motion_fit* f, const nsi_checked_recording* r, uint32_t k);

// Accelerations of the model in the state of sample k: without controls, and with each one alone.
// @param out  ((ncontrol + 1) x nv)
// @return false when the model cannot be simulated from there
bool nsi_motion_accelerations(nsi_motion_fit* f, const nsi_checked_recording* r, uint32_t k,
                              double* out);

// Invert a symmetric positive matrix (n x n) in place; rows without size become 0.
void nsi_motion_invert(double* a, uint32_t n);

#endif
