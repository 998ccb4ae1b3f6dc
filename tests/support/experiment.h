// For tests of fits: recordings of simulated motions and experiments, in the temporary folder.

#ifndef TEST_EXPERIMENT_H
#define TEST_EXPERIMENT_H

#include "neuralsim/fit.h"
#include "neuralsim/sim.h"

// Write a file into the temporary folder, as printf() does.
void experiment_write(const char* name, const char* format, ...)
    __attribute__((format(printf, 2, 3)));

// A simulated motion. What is zero is left out.
typedef struct motion {
    const char* model; // a file
    ns_system_options options;
    uint32_t runs, samples, substeps; // substeps 0: 1
    const double* x0;                 // (runs x nx)
    double push;                      // amplitude of controls, slow sines of their own each
    const char* const* channels;      // recorded: components of the state ("qd1"), or quantities;
    uint32_t nchannel;                // 0: all of q and qd
    double sigma;                     // of noise
    uint64_t seed;                    // of it
    double missing;                   // share of numbers that are left out
} motion;

// With ns_default_system_options(), one run, at the end of a time step of `timestep`.
motion motion_of(const char* model, double timestep, uint32_t samples);

// Simulate and write a table into the temporary folder; fails the test when something is wrong.
void motion_record(const motion* m, const char* name);

// Load an experiment of the temporary folder; fails the test when that fails.
ns_fit* experiment_load(const char* name, uint32_t threads);

// The message that loading fails with; fails the test when it does not, or with another status.
const char* experiment_error(const char* name, ns_status status);

#endif
