// Certificates of gradients while a rollout goes on.

#ifndef NSI_SIM_CERTIFICATE_H
#define NSI_SIM_CERTIFICATE_H

#include "neuralsim/certificate.h"

// What the contact solver says of one step.
typedef struct nsi_contact_note {
    double residual;   // of the conditions, relative
    double relaxation; // regularisation that had to be added to solve them; 0: none
} nsi_contact_note;

// Outputs of a step behind its observations, in this order; a system has the first `nsolver`.
enum { NSI_SOLVER_RESIDUAL, NSI_SOLVER_RELAXATION };

void nsi_contact_report_add(ns_contact_report* report, const nsi_contact_note* note, uint32_t step);

// Growth of one robot's adjoint, from the last step back.
typedef struct nsi_growth {
    double seeds;           // sum of the largest components so far
    double log_alternation; // sum of log factors
} nsi_growth;

void nsi_certificate_begin(ns_gradient_certificate* c, uint32_t steps);

// Take in one step on the way back. Numbers are `stride` apart.
// @param seed    largest component of what seeds put in at this step
// @param after   (count) adjoint of the state after the step, seeds included
// @param before  (count) adjoint of the state before it
void nsi_certificate_add_step(ns_gradient_certificate* c, nsi_growth* growth, uint32_t step,
                              double seed, const double* after, const double* before, size_t count,
                              size_t stride);

// Verdict and reason from what has been counted.
void nsi_certificate_judge(const ns_system* system, ns_gradient_certificate* c);

#endif
