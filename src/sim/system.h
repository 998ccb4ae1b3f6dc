// The inside of a system.

#ifndef NSI_SYSTEM_H
#define NSI_SYSTEM_H

#include "neuralsim/sim.h"
#include "sim/step.h"

// Programs for one robot and for four side by side.
enum { NSI_FORM_ONE, NSI_FORM_FOUR, NSI_FORMS };

struct ns_system {
    ns_allocator allocator;
    const ns_model* model;
    ns_system_sizes sizes;
    uint32_t nsolver;     // 1 when the step solves for impulses and tells the residual, else 0
    ns_graph* graph;      // in: state, control, parameters; out: observations, residual, next state
    uint32_t* free_param; // (np) numbers in the model's registry
    ns_program* step[NSI_FORMS];
    ns_program* jvp[NSI_FORMS]; // in: as step, then tangents of all; out: as step, then tangents
    ns_program*
        vjp[NSI_FORMS]; // in: as step, then seeds of all outputs; out: adjoints of all inputs
};

// Why a step from this state gave a number that is not finite: the first such quantity and the
// operation behind it. Writes a phrase into `text`.
void nsi_system_diagnose(const ns_system* system, const double* in, char* text, size_t size);

#endif
