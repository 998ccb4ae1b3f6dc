// Certificates of gradients: growth of the adjoint, what the contact solver reports, and verdicts.
//
// Growth. An exact gradient can still be useless: it may have grown by ten orders of magnitude on its way
// back, so that it holds only for changes that nobody can make. The measure is free, since the reverse
// sweep has the adjoint of every step. Growth by a motion that is unstable keeps its direction from step
// to step; an explicit integrator that is too slow for a stiff spring, friction or damper has an eigenvalue
// below -1, and the adjoint turns round in every step. So the sign tells the cause.

#include "sim/certificate_notes.h"

#include "model/model_data.h"
#include "sim/system.h"

#include <stdio.h>

static const ns_choice verdict_rows[] = {NS_GRADIENT_VERDICT_MAP(NS_CHOICE_ROW)};
const ns_choices ns_gradient_verdicts = NS_CHOICES("verdict", verdict_rows);

// Cosine below which an adjoint has turned round in a step.
static const double turned_cosine = -0.5;

// An impact may turn an adjoint round as well, a few times.
enum { MIN_ALTERNATING_STEPS = 8 };

void nsi_contact_report_add(ns_contact_report* report, const nsi_contact_note* note,
                            uint32_t step) {
    if (!(note->residual <= NS_CONTACT_TOLERANCE)) report->unsolved++;
    if (note->relaxation > 0.0) report->relaxed++;
    if (note->relaxation > report->relaxation) report->relaxation = note->relaxation;
    if (note->residual <= report->residual) return;
    report->residual = note->residual;
    report->step = step;
}

void nsi_certificate_begin(ns_gradient_certificate* c, uint32_t steps) {
    *c = (ns_gradient_certificate){.steps = steps, .finite = true, .alternation = 1.0};
}

// ---- growth ------------------------------------------------------------------------------------

// NaN when a component is.
static double largest_component(const double* x, size_t count, size_t stride) {
    double largest = 0.0;
    for (size_t k = 0; k < count; k++) {
        double size = fabs(x[k * stride]);
        if (!(size <= largest)) largest = size;
    }
    return largest;
}

// Of the angle between two vectors, scaled so that squares do not overflow.
static double cosine(const double* a, double size_a, const double* b, double size_b, size_t count,
                     size_t stride) {
    double aa = 0.0, bb = 0.0, ab = 0.0;
    for (size_t k = 0; k < count; k++) {
        double x = a[k * stride] / size_a, y = b[k * stride] / size_b;
        aa += x * x;
        bb += y * y;
        ab += x * y;
    }
    return ab / sqrt(aa * bb);
}

void nsi_certificate_add_step(ns_gradient_certificate* c, nsi_growth* growth, uint32_t step,
                              double seed, const double* after, const double* before, size_t count,
                              size_t stride) {
    growth->seeds += seed;
    if (!c->finite) return;
    double size_after = largest_component(after, count, stride);
    double size_before = largest_component(before, count, stride);
    if (!(size_before <= DBL_MAX)) {
        c->finite = false;
        c->nonfinite_step = step;
        c->growth = INFINITY;
        c->growth_step = step;
        return;
    }

    // Relative to what was put in
    if (growth->seeds > 0.0 && size_before > c->growth * growth->seeds) {
        c->growth = size_before / growth->seeds;
        c->growth_step = step;
    }

    // Steps that turn the adjoint round and enlarge it
    if (size_after == 0.0 || size_before <= size_after) return;
    if (cosine(after, size_after, before, size_before, count, stride) > turned_cosine) return;
    growth->log_alternation += log(size_before / size_after);
    c->alternation = exp(growth->log_alternation);
    c->alternating_steps++;
}

// ---- verdicts ----------------------------------------------------------------------------------

// What can be too stiff in a model, for the reader to look at.
static const char* stiff_part(const ns_system* s) {
    bool springs = false, friction = false;
    if (!s->model) return "the learned system is";
    for (uint32_t k = 0; k < s->model->sizes.ncontact; k++) {
        int law =
            s->options.contact >= 0 ? s->options.contact : (int)s->model->contacts[k].def.model;
        springs = springs || ns_contact_law_get(law)->stage == NS_CONTACT_STAGE_FORCES;
    }
    for (uint32_t k = 0; k < s->model->sizes.nlink; k++) {
        friction = friction || s->model->links[k].def.friction > 0.0;
    }
    if (springs) return friction ? "spring contact or joint friction is" : "spring contact is";
    return friction ? "joint friction is" : "joint damping, springs or limits are";
}

// The largest growth, and over how many steps.
static void explain_growth(const ns_system* s, ns_gradient_certificate* c) {
    uint32_t over = c->steps - c->growth_step;
    bool alternates = c->alternating_steps >= MIN_ALTERNATING_STEPS &&
                      fmin(c->alternation, c->growth) > NS_GRADIENT_MAX_ALTERNATION;
    if (!alternates && !(c->growth > NS_GRADIENT_HIGH_GROWTH)) return;
    if (alternates) {
        c->verdict = NS_GRADIENT_UNRELIABLE;
        snprintf(c->reason, sizeof c->reason,
                 "the gradient grows by %.0e over %u steps, with alternating sign: %s stiffer than"
                 " the time step allows",
                 c->growth, over, stiff_part(s));
    } else {
        bool high = c->growth > NS_GRADIENT_MAX_GROWTH;
        c->verdict = high ? NS_GRADIENT_UNRELIABLE : NS_GRADIENT_BIASED;
        snprintf(c->reason, sizeof c->reason,
                 "the gradient grows by %.0e over %u steps: it holds only for changes below %.0e",
                 c->growth, over, 1.0 / c->growth);
    }
}

static void explain_switching(ns_gradient_certificate* c) {
    c->verdict = NS_GRADIENT_BIASED;
    const char* what = "between sticking and sliding";
    if (c->touching > c->sliding) what = "between touching and apart";
    if (c->simultaneous > c->sliding && c->simultaneous > c->touching) {
        what = "in the order of impacts";
    }
    snprintf(c->reason, sizeof c->reason,
             "contact is about to switch %s in %u of %u steps, first in step %u: the derivative is"
             " that of one side",
             what, c->switching_steps, c->steps, c->switching_step);
}

// The worst finding decides. Causes in contact are named before growth, which may follow from them.
void nsi_certificate_judge(const ns_system* s, ns_gradient_certificate* c) {
    const ns_contact_report* contact = &c->contact;
    c->verdict = NS_GRADIENT_OK;
    c->reason[0] = '\0';

    // Unreliable
    if (!c->finite) {
        c->verdict = NS_GRADIENT_UNRELIABLE;
        snprintf(c->reason, sizeof c->reason, "%s in step %u",
                 c->growth > 0.0 ? "the gradient stops being finite on its way back"
                                 : "the motion stops being finite",
                 c->nonfinite_step);
        return;
    }
    if (contact->unsolved > 0) {
        c->verdict = NS_GRADIENT_UNRELIABLE;
        snprintf(c->reason, sizeof c->reason,
                 "contact was not solved in %u of %u steps (residual %.1e in step %u)",
                 contact->unsolved, c->steps, contact->residual, contact->step);
        return;
    }
    explain_growth(s, c);
    if (c->verdict == NS_GRADIENT_UNRELIABLE) return;

    // Biased
    if (contact->relaxed > 0) {
        c->verdict = NS_GRADIENT_BIASED;
        snprintf(c->reason, sizeof c->reason,
                 "%u of %u steps used relaxed contact (regularisation up to %.1e)",
                 contact->relaxed, c->steps, contact->relaxation);
    } else if (c->switching_steps > 0) {
        explain_switching(c);
    }
}
