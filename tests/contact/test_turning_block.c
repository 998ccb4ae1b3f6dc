// Torsional and rolling friction in the solvers' blocks: conditions of random problems, derivatives, lanes.

#include "contact/block_rig.h"
#include "contact/contact_step.h"
#include "contact/convex_block.h"
#include "contact/convex_kernels.h"

#include <string.h>

// Blocks of rows: each contact, its torsion and its rolling.
enum { MAX_BLOCKS = POINTS * PARTS, MAX_ROWS = 3 * MAX_BLOCKS };
enum { PER_BLOCK = NSI_CONTACT_STEP_PER_CONTACT };
enum { MAX_INPUTS = MAX_ROWS * (BODY + 2) + (PER_BLOCK + 1) * MAX_BLOCKS };
enum { MAX_OUTPUTS = 19 * MAX_BLOCKS + 8, MAX_MORE = 2 * MAX_INPUTS + MAX_OUTPUTS };

// A block that solves for impulses, with its derivatives, and numbers that depend on how many blocks of rows
// there are.
typedef struct solver {
    const char* name;
    const nsi_block_kind *value, *tangent, *adjoint;
    nsi_friction friction;
    bool step, convex;
} solver;

static const solver solvers[] = {
    {"ncp cone", &nsi_ncp, &nsi_ncp_tangent, &nsi_ncp_adjoint, NSI_FRICTION_CONE, false, false},
    {"ncp pyramid", &nsi_ncp, &nsi_ncp_tangent, &nsi_ncp_adjoint, NSI_FRICTION_PYRAMID, false,
     false},
    {"step cone", &nsi_contact_step, &nsi_contact_step_tangent, &nsi_contact_step_adjoint,
     NSI_FRICTION_CONE, true, false},
    {"step pyramid", &nsi_contact_step, &nsi_contact_step_tangent, &nsi_contact_step_adjoint,
     NSI_FRICTION_PYRAMID, true, false},
    {"convex", &nsi_convex, &nsi_convex_tangent, &nsi_convex_adjoint, NSI_FRICTION_CONE, false,
     true},
};
enum { SOLVERS = sizeof solvers / sizeof *solvers };

// Where the inputs and outputs of a block are.
typedef struct places {
    uint32_t n, rows, params[3];
    uint32_t u, h, mu, cfm, per_block, kind; // Z is at 0; u is b where there is no h
    uint32_t smooth, count;                  // inputs that have derivatives, inputs
    uint32_t noutput, residual, changes;     // outputs; those that have derivatives, from 0
    uint32_t kept, nkept;                    // outputs that derivatives read, in a row,
    uint32_t level;                          // and the output behind them, or 0
} places;

static places places_of(const solver* s, uint32_t n) {
    places at = {.n = n, .rows = 3 * n};
    at.u = at.rows * BODY;
    at.h = at.u + at.rows;
    at.mu = s->step ? at.h + at.rows : at.h;
    at.cfm = at.mu + n;
    at.per_block = at.cfm + n;
    at.kind = at.smooth = at.mu + (s->step ? PER_BLOCK : 2) * n;
    at.count = at.smooth + n;
    at.residual = s->step ? NSI_CONTACT_STEP_TOLD(n) : at.rows;
    at.noutput = at.residual + 4;
    at.changes = s->step ? 2 * at.rows : at.rows;
    at.kept = s->step ? 2 * at.rows : 0;
    at.nkept = s->step ? 13 * n + 4 : at.rows;
    at.level = s->step || s->convex ? 0 : at.rows + 3;
    at.params[0] = n;
    at.params[1] = s->convex ? BODY : (uint32_t)s->friction;
    at.params[2] = BODY;
    return at;
}

// ---- problems ----------------------------------------------------------------------------------

typedef struct mix {
    double cfm, impact, massless, off; // shares of problems, rows, contacts
} mix;

static bool chance(ns_rng* rng, double share) {
    return ns_rng_uniform(rng, 0.0, 1.0) < share;
}

// Contacts of one body with torsion and rolling; one of the three may lack.
static void turning_problem(ns_rng* rng, const solver* s, uint32_t n, const mix* m, double* x) {
    places at = places_of(s, n);
    double J[MAX_ROWS * BODY], v[BODY], a[BODY];
    memset(x, 0, at.count * sizeof *x);
    turning_rows(rng, n, J, x);
    for (uint32_t k = 0; k < BODY; k++) v[k] = ns_rng_normal(rng), a[k] = 0.4 * ns_rng_normal(rng);
    bool impact = s->step && chance(rng, m->impact);
    double share = impact ? ns_rng_uniform(rng, 0.05, 0.95) : 0.0;
    for (uint32_t b = 0; b < n; b++) {
        uint32_t part = b % PARTS;
        double* own = x + at.per_block; // restitution, gap, share, slack, slack after, goal, rise
        x[at.mu + b] = (part == 0 ? 0.6 : part == 1 ? 0.1 : 0.05) * ns_rng_uniform(rng, 0.5, 1.5);
        x[at.cfm + b] = m->cfm;
        double kind = chance(rng, 0.6) ? NSI_CONTACT_HIT : 5.0; // rests and closed
        kind = chance(rng, m->off) ? 0.0 : impact ? kind : NSI_CONTACT_RESTS;
        if (part > 0) {
            double contact = x[at.kind + b - part];
            kind = contact > 0.0 ? fmod(contact, 8.0) + NSI_CONTACT_LIMITED : 0.0;
            if (chance(rng, m->off)) kind = 0.0;
        }
        x[at.kind + b] = kind;
        if (!s->step) continue;
        own[n * 2 + b] = share;
        if (part > 0) continue;
        own[b] = ns_rng_uniform(rng, 0.0, 1.0);
        own[n + b] = ns_rng_uniform(rng, -0.3, 0.3);
        if (kind == NSI_CONTACT_RESTS) own[n * 3 + b] = own[n * 4 + b] = 0.05;
        own[n * 5 + b] = ns_rng_uniform(rng, -0.2, 0.2);
    }
    for (uint32_t i = 0; i < at.rows; i++) {
        double scale = chance(rng, m->massless) ? i % 2 ? 0.0 : 1e-9 : 1.0;
        double sign = s->step ? 1.0 : -1.0;
        x[at.u + i] = sign * row_dot(BODY, J + i * BODY, v);
        if (s->step) x[at.h + i] = row_dot(BODY, J + i * BODY, a);
        for (uint32_t k = 0; k < BODY; k++) x[i * BODY + k] *= scale;
    }
}

// ---- conditions --------------------------------------------------------------------------------

// Worst violation of the friction conditions by impulses l and velocities w of the rows of a disc, or of
// intervals.
static double friction_violation(nsi_friction friction, double bound, const double* l,
                                 const double* w, double size_l, double size_w) {
    double worst = 0.0;
    if (friction == NSI_FRICTION_CONE) {
        double size = hypot(l[0], l[1]), slip = hypot(w[0], w[1]);
        worst = (size - bound) / size_l;
        double against = fabs(slip * bound + w[0] * l[0] + w[1] * l[1]) / fmax(bound, 1e-12);
        if (bound > 1e-9 * size_l) worst = fmax(worst, fmin(slip, against) / size_w);
        return worst;
    }
    for (int k = 0; k < 2; k++) {
        double inside = bound - fabs(l[k]);
        worst = fmax(worst, -inside / size_l);
        worst = fmax(worst, fmin(fabs(w[k]) / size_w, fmax(0.0, inside) / size_l));
        if (w[k] * l[k] > 0.0) worst = fmax(worst, fabs(w[k] * l[k]) / (size_l * size_w));
    }
    return worst;
}

// The same for the convex law: impulses in the cone and velocities in its dual. Of all parts together.
static double convex_violation(const double* x, const places* at, uint32_t b, const double* l,
                               const double* w, double size_l, double size_w) {
    double dual = -w[3 * b], work = l[3 * b] * w[3 * b], worst = 0.0;
    for (uint32_t r = b; r < b + PARTS; r++) {
        double mu = x[at->kind + r] > 0.0 ? x[at->mu + r] : 0.0;
        const double *drag = l + 3 * r + 1, *slip = w + 3 * r + 1;
        worst = fmax(worst, (hypot(drag[0], drag[1]) - mu * l[3 * b]) / size_l);
        dual += mu * hypot(slip[0], slip[1]);
        work += drag[0] * slip[0] + drag[1] * slip[1];
    }
    return fmax(worst, fmax(dual / size_w, fabs(work) / (size_l * size_w)));
}

typedef struct counts {
    uint32_t sliding[PARTS], sticking[PARTS];
} counts;

// Of a problem that the block ncp or convex solved; counts what friction does.
static double violation(const solver* s, const places* at, const double* x, const double* l,
                        counts* does) {
    double w[MAX_ROWS], reached[BODY] = {0}, worst = 0.0, size_l = 1e-9, size_w = 1e-9;
    for (uint32_t i = 0; i < at->rows; i++) {
        for (uint32_t k = 0; k < BODY; k++) reached[k] += x[i * BODY + k] * l[i];
    }
    for (uint32_t i = 0; i < at->rows; i++) {
        uint32_t first = i - i % 3 + 1, both[2] = {first * BODY, (first + 1) * BODY};
        double cfm = fmax(x[at->cfm + i / 3], l[at->rows + 3]);
        double soft = row_dot(BODY, x + i * BODY, x + i * BODY);
        bool torsion = i / 3 % PARTS == 1, disc = i % 3 > 0 && !torsion;
        if (disc && s->friction == NSI_FRICTION_CONE) {
            soft = 0.5 * (row_dot(BODY, x + both[0], x + both[0]) +
                          row_dot(BODY, x + both[1], x + both[1]));
        }
        w[i] = row_dot(BODY, x + i * BODY, reached) - x[at->u + i] + cfm * soft * l[i];
        size_l = fmax(size_l, fabs(l[i]));
        size_w = fmax(size_w, fmax(fabs(w[i]), fabs(x[at->u + i])));
    }
    for (uint32_t b = 0; b < at->n; b++) {
        uint32_t normal = 3 * (b - b % PARTS);
        double bound = x[at->mu + b] * l[normal], drag = hypot(l[3 * b + 1], l[3 * b + 2]);
        if (x[at->kind + b] == 0.0 || l[normal] == 0.0) {
            for (uint32_t r = 1; r < 3; r++) assert_true(l[3 * b + r] == 0.0);
        }
        does->sliding[b % PARTS] += drag > bound * (1.0 - 1e-12) && drag > 0.0;
        does->sticking[b % PARTS] += drag < bound * (1.0 - 1e-6);
        if (b % PARTS > 0) assert_true(l[3 * b] == 0.0); // no normal row
        if (x[at->kind + b] == 0.0) continue;
        if (s->convex && b % PARTS == 0) {
            worst = fmax(worst, convex_violation(x, at, b, l, w, size_l, size_w));
        }
        if (s->convex) continue;
        worst = fmax(worst, friction_violation(s->friction, bound, l + 3 * b + 1, w + 3 * b + 1,
                                               size_l, size_w));
        if (b % PARTS > 0) continue;
        double vn = w[3 * b], ln = l[3 * b];
        worst = fmax(worst, fmax(-ln / size_l, -vn / size_w));
        worst = fmax(worst, fabs(vn * ln) / (size_l * size_w));
    }
    return worst;
}

static void conditions_hold(void** state) {
    (void)state;
    static double x[MAX_INPUTS], y[MAX_OUTPUTS];
    const mix m = {.cfm = 1e-4, .off = 0.1};
    ns_rng rng = ns_rng_seed(71);
    for (int k = 0; k < SOLVERS; k++) {
        const solver* s = &solvers[k];
        if (s->step) continue; // below
        uint32_t failed = 0, relaxed = 0, total = 0;
        double worst = 0.0;
        counts does = {0};
        for (uint32_t trial = 0; trial < 1500; trial++, total++) {
            places at = places_of(s, PARTS * (1 + trial % POINTS));
            turning_problem(&rng, s, at.n, &m, x);
            run_kind(s->value, at.params, x, y);
            double missed = violation(s, &at, x, y, &does);
            worst = fmax(worst, missed);
            failed += missed > 1e-8;
            relaxed += y[at.residual + 3] > 0.0;
            assert_true(y[at.residual] < 1e-8);
        }
        print_message("%s: %u of %u problems not met, %u softened, violation %.1e\n", s->name,
                      failed, total, relaxed, worst);
        // Wedged between contacts from all sides, some have no solution but a softer one.
        assert_true(failed == 0 && relaxed * 50 <= total);
        for (int part = 0; part < PARTS; part++) {
            print_message("  part %d: %u slide, %u stick\n", part, does.sliding[part],
                          does.sticking[part]);
            assert_true(does.sliding[part] > 100 && does.sticking[part] > 100);
        }
    }
}

// By how much the impact of a step loses less than the share 1 - e^2 of what it loses without restitution, e the
// largest; relative to that. All contacts are of one body.
static double impact_work(const places* at, const double* x, const double* y) {
    const double *l1 = y + 2 * at->rows, *l0 = y + 3 * at->rows, *l3 = y + 5 * at->rows;
    double l[MAX_ROWS], before[BODY] = {0}, after[BODY] = {0}, rest[BODY] = {0}, e = 0.0;
    double work[2] = {0.0, 0.0}, largest = 1e-9, fastest = 0.0;
    for (uint32_t b = 0; b < at->n; b++) {
        bool hit = fmod(x[at->kind + b], 8.0) == NSI_CONTACT_HIT;
        if (hit) e = fmax(e, x[at->per_block + b]);
    }
    for (uint32_t i = 0; i < at->rows; i++) {
        double share = x[at->per_block + 2 * at->n + i / 3];
        l[i] = y[i] - share * l1[i] - l3[i];
        for (uint32_t k = 0; k < BODY; k++) {
            before[k] += x[i * BODY + k] * l1[i];
            after[k] += x[i * BODY + k] * l[i];
            rest[k] += x[i * BODY + k] * l0[i];
        }
    }
    for (uint32_t i = 0; i < at->rows; i++) {
        const double* z = x + i * BODY;
        double share = x[at->per_block + 2 * at->n + i / 3];
        double um = x[at->u + i] + share * (x[at->h + i] + row_dot(BODY, z, before));
        work[0] += l0[i] * (um + 0.5 * row_dot(BODY, z, rest));
        work[1] += l[i] * (um + 0.5 * row_dot(BODY, z, after));
        largest = fmax(largest, fmax(fabs(y[i]), fabs(l0[i])));
        fastest = fmax(fastest, fabs(um));
    }
    return (work[1] - (1.0 - e * e) * work[0]) / fmax(fabs(work[0]), 1e-6 * largest * fastest);
}

// Impulses of a step: friction of each problem is within its limits, an impact loses energy, and only normals
// are moved by the correction.
static void steps_keep_the_limits(void** state) {
    (void)state;
    static double x[MAX_INPUTS], y[MAX_OUTPUTS];
    const mix m = {.cfm = 1e-4, .impact = 0.7, .off = 0.05};
    ns_rng rng = ns_rng_seed(72);
    for (int k = 0; k < SOLVERS; k++) {
        const solver* s = &solvers[k];
        if (!s->step) continue;
        uint32_t solved = 0, total = 0, turning = 0;
        double over = 0.0, worst_gain = -1.0;
        for (uint32_t trial = 0; trial < 1000; trial++, total++) {
            places at = places_of(s, PARTS * (1 + trial % POINTS));
            turning_problem(&rng, s, at.n, &m, x);
            run_kind(s->value, at.params, x, y);
            solved += y[at.residual] < 1e-8;
            for (uint32_t problem = 0; problem < 5; problem++) { // the four, and all together
                const double* l = y + (problem < 4 ? (2 + problem) * at.rows : 0);
                double size = 1e-9;
                for (uint32_t i = 0; i < at.rows; i++) size = fmax(size, fabs(l[i]));
                for (uint32_t b = 0; b < at.n; b++) {
                    double bound = x[at.mu + b] * l[3 * (b - b % PARTS)];
                    double drag = s->friction == NSI_FRICTION_CONE
                                      ? hypot(l[3 * b + 1], l[3 * b + 2])
                                      : fmax(fabs(l[3 * b + 1]), fabs(l[3 * b + 2]));
                    over = fmax(over, (drag - bound) / size);
                    turning += problem == 4 && b % PARTS > 0 && drag > 1e-3 * size;
                    if (b % PARTS > 0) assert_true(l[3 * b] == 0.0);
                }
            }
            worst_gain = fmax(worst_gain, impact_work(&at, x, y));
            for (uint32_t b = 0; b < at.n; b++) { // position impulses
                if (b % PARTS > 0) assert_true(y[6 * at.rows + b] == 0.0);
            }
        }
        print_message("%s: %u of %u solved, %u turn, limits exceeded by %.1e, energy of impacts by"
                      " %.1e\n",
                      s->name, solved, total, turning, over, worst_gain);
        assert_true(solved == total && turning > 500 && over < 1e-9 && worst_gain < 2e-9);
    }
}

// ---- derivatives -------------------------------------------------------------------------------

// Value, tangent and adjoint, in a row.
static void run_all(const solver* s, const places* at, const double* x, const double* seed,
                    double* y) {
    static double more[MAX_MORE];
    run_kind(s->value, at->params, x, y);
    double* next = more + at->count;
    memcpy(more, x, at->count * sizeof *more);
    memcpy(next, y + at->kept, at->nkept * sizeof *more);
    next += at->nkept;
    if (at->level > 0) *next++ = y[at->level];
    memcpy(next, seed, at->smooth * sizeof *more);
    run_kind(s->tangent, at->params, more, y + at->noutput);
    memcpy(next, seed + at->smooth, at->changes * sizeof *more);
    run_kind(s->adjoint, at->params, more, y + at->noutput + at->changes);
}

// Inputs of each kind by themselves: tangent against differences, adjoint against the tangent. The friction
// of the three parts are kinds of their own.
static void derivatives_agree(void** state) {
    (void)state;
    static double x[MAX_INPUTS], seed[2 * MAX_INPUTS], y[MAX_MORE], above[MAX_OUTPUTS];
    static double below[MAX_OUTPUTS];
    static const char* const kinds[] = {"Z", "u", "mu", "mu_torsion", "mu_rolling", "the others"};
    enum { KINDS = sizeof kinds / sizeof *kinds, TRIALS = 300 };
    const double h = 1e-7;
    ns_rng rng = ns_rng_seed(73);
    for (int k = 0; k < SOLVERS; k++) {
        const solver* s = &solvers[k];
        uint32_t close[KINDS] = {0}, moved[KINDS] = {0};
        double transpose = 0.0;
        for (uint32_t trial = 0; trial < TRIALS; trial++) {
            const mix m = {.cfm = trial % 2 ? 0.05 : 0.01, .impact = 0.5, .off = 0.05};
            places at = places_of(s, PARTS * (1 + trial % POINTS));
            turning_problem(&rng, s, at.n, &m, x);
            for (int kind = 0; kind < KINDS; kind++) {
                memset(seed, 0, sizeof seed);
                for (uint32_t i = 0; i < at.smooth; i++) {
                    bool is_mu = i >= at.mu && i < at.cfm;
                    int of = i < at.u    ? 0
                             : i < at.mu ? 1
                             : is_mu     ? 2 + (int)((i - at.mu) % PARTS)
                                         : KINDS - 1;
                    double random = ns_rng_normal(&rng);
                    // What is zero switches something when it changes; contacts of a body have one share.
                    bool is_share =
                        s->step && i >= at.per_block + 2 * at.n && i < at.per_block + 3 * at.n;
                    if (is_share) random = 0.3;
                    if (i >= at.cfm && i < at.per_block) random *= 0.1;
                    if (of == kind && (i < at.cfm || x[i] != 0.0)) seed[i] = random;
                }
                if (kind == 0) { // rows that are not there remain so
                    for (uint32_t i = 0; i < at.u; i++) {
                        if (x[i] == 0.0 && i / BODY / 3 % PARTS > 0) seed[i] = 0.0;
                    }
                }
                for (uint32_t i = 0; i < at.changes; i++) {
                    seed[at.smooth + i] = ns_rng_normal(&rng);
                }
                run_all(s, &at, x, seed, y);
                const double *dl = y + at.noutput, *bar = dl + at.changes;
                for (uint32_t i = 0; i < at.smooth; i++) x[i] += h * seed[i];
                run_kind(s->value, at.params, x, above);
                for (uint32_t i = 0; i < at.smooth; i++) x[i] -= 2.0 * h * seed[i];
                run_kind(s->value, at.params, x, below);
                for (uint32_t i = 0; i < at.smooth; i++) x[i] += h * seed[i];

                double error = 0.0, size = 0.0, forward = 0.0, backward = 0.0, scale = 1e-300;
                for (uint32_t i = 0; i < at.changes; i++) {
                    error = fmax(error, fabs((above[i] - below[i]) / (2.0 * h) - dl[i]));
                    size = fmax(size, fabs(dl[i]));
                    forward += dl[i] * seed[at.smooth + i];
                    scale += fabs(dl[i] * seed[at.smooth + i]);
                }
                for (uint32_t i = 0; i < at.smooth; i++) {
                    backward += bar[i] * seed[i];
                    scale += fabs(bar[i] * seed[i]);
                }
                transpose = fmax(transpose, fabs(forward - backward) / scale);
                close[kind] += error <= 1e-4 * (1.0 + size);
                moved[kind] += size > 1e-4;
            }
        }
        print_message("%s: adjoint and tangent differ by %.1e\n", s->name, transpose);
        for (int kind = 0; kind < KINDS; kind++) {
            print_message("  %s: %u of %d slopes agree, %u not zero\n", kinds[kind], close[kind],
                          TRIALS, moved[kind]);
        }
        assert_true(transpose < 1e-11);
        for (int kind = 0; kind < KINDS; kind++) {
            assert_true(close[kind] * 100 >= 95 * TRIALS); // a pattern may end nearby
            assert_true(moved[kind] * 3 > TRIALS);
        }
    }
}

// ---- what is not there -------------------------------------------------------------------------

// Torsion and rolling that are off, or whose contact is off or has no mass, leave the bits of a problem without
// them, whatever their numbers are.
static void absent_parts_change_no_bit(void** state) {
    (void)state;
    static double x[MAX_INPUTS], fewer[MAX_INPUTS], y[MAX_OUTPUTS], without[MAX_OUTPUTS];
    ns_rng rng = ns_rng_seed(74);
    for (int k = 0; k < SOLVERS; k++) {
        const solver* s = &solvers[k];
        for (uint32_t trial = 0; trial < 100; trial++) {
            places at = places_of(s, PARTS * POINTS), less = places_of(s, POINTS);
            const mix m = {.cfm = 1e-3, .impact = 0.5};
            turning_problem(&rng, s, at.n, &m, x);
            for (uint32_t b = 0; b < at.n; b++) {
                if (b % PARTS == 0) continue;
                x[at.kind + b] = 0.0;
                for (uint32_t i = 3 * b * BODY; i < 3 * (b + 1) * BODY; i++) x[i] *= 1e300;
            }
            for (uint32_t c = 0; c < POINTS; c++) {
                uint32_t b = PARTS * c, block = 3 * BODY;
                memcpy(fewer + c * block, x + b * block, block * sizeof *x);
                memcpy(fewer + less.u + 3 * c, x + at.u + 3 * b, 3 * sizeof *x);
                if (s->step) memcpy(fewer + less.h + 3 * c, x + at.h + 3 * b, 3 * sizeof *x);
                for (uint32_t i = 0; i < (at.count - at.mu) / at.n; i++) {
                    fewer[less.mu + i * less.n + c] = x[at.mu + i * at.n + b];
                }
            }
            run_kind(s->value, at.params, x, y);
            run_kind(s->value, less.params, fewer, without);
            for (uint32_t i = 0; i < at.rows; i++) {
                bool part = i / 3 % PARTS > 0;
                uint32_t its = i / 3 / PARTS * 3 + i % 3;
                assert_true(check_same_bits(y[i], part ? 0.0 : without[its]));
            }

            // A contact without mass at its normal takes its torsion and rolling with it.
            for (uint32_t b = 0; b < at.n; b++) {
                if (b % PARTS == 0) continue;
                x[at.kind + b] = x[at.kind + b - b % PARTS] + NSI_CONTACT_LIMITED;
                for (uint32_t i = 3 * b * BODY; i < 3 * (b + 1) * BODY; i++) x[i] *= 1e-300;
            }
            uint32_t gone = trial % POINTS * PARTS;
            for (uint32_t i = 0; i < BODY; i++) x[3 * gone * BODY + i] = 0.0;
            run_kind(s->value, at.params, x, y);
            for (uint32_t i = 3 * gone; i < 3 * (gone + PARTS); i++) assert_true(y[i] == 0.0);
            bool others = false;
            for (uint32_t i = 0; i < at.rows; i++) others = others || y[i] != 0.0;
            assert_true(others || s->step || y[at.residual] == 0.0);
        }
    }
}

// ---- lanes -------------------------------------------------------------------------------------

typedef struct kernels {
    const nsi_ncp_kernels *generic, *best;
} kernels;

static kernels kernels_of(const solver* s) {
    kernels k = {.generic = s->convex ? &nsi_convex_kernels_generic
                            : s->step ? &nsi_contact_step_kernels_generic
                                      : &nsi_ncp_kernels_generic};
    k.best = k.generic;
#ifdef NSI_HAVE_AVX2_KERNELS
    if (nsi_cpu_has_avx2_fma()) {
        k.best = s->convex ? &nsi_convex_kernels_avx2
                 : s->step ? &nsi_contact_step_kernels_avx2
                           : &nsi_ncp_kernels_avx2;
    }
#endif
    return k;
}

// Lanes with different contacts and parts, and rows that only some have.
static void lanes_do_not_see_their_neighbours(void** state) {
    (void)state;
    static double x[RIG_LANES * MAX_INPUTS], y[RIG_LANES * MAX_OUTPUTS];
    static double tangent[RIG_LANES * MAX_MORE], adjoint[RIG_LANES * MAX_MORE];
    static double out[RIG_LANES * MAX_INPUTS];
    const mix m = {.cfm = 1e-4, .impact = 0.2, .massless = 0.15, .off = 0.25};
    ns_rng rng = ns_rng_seed(75);
    for (int k = 0; k < SOLVERS; k++) {
        const solver* s = &solvers[k];
        const kernels all = kernels_of(s);
        places at = places_of(s, PARTS * POINTS);
        uint32_t seeds = at.count + at.nkept + (at.level > 0);
        uint32_t ntangent = seeds + at.smooth, nadjoint = seeds + at.changes;
        for (uint32_t trial = 0; trial < 30; trial++) {
            for (uint32_t e = 0; e < RIG_LANES; e++) {
                turning_problem(&rng, s, at.n, &m, x + e * at.count);
            }
            check_lanes(s->value, all.best->value, all.generic->value[0], at.params, x, y);
            for (uint32_t e = 0; e < RIG_LANES; e++) {
                double *t = tangent + e * ntangent, *a = adjoint + e * nadjoint;
                const double* told = y + e * at.noutput;
                memcpy(t, x + e * at.count, at.count * sizeof *t);
                memcpy(t + at.count, told + at.kept, at.nkept * sizeof *t);
                if (at.level > 0) t[seeds - 1] = told[at.level];
                memcpy(a, t, seeds * sizeof *a);
                for (uint32_t i = seeds; i < ntangent; i++) t[i] = ns_rng_normal(&rng);
                for (uint32_t i = seeds; i < nadjoint; i++) a[i] = ns_rng_normal(&rng);
            }
            check_lanes(s->tangent, all.best->tangent, all.generic->tangent[0], at.params, tangent,
                        out);
            check_lanes(s->adjoint, all.best->adjoint, all.generic->adjoint[0], at.params, adjoint,
                        out);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conditions_hold),
        cmocka_unit_test(steps_keep_the_limits),
        cmocka_unit_test(derivatives_agree),
        cmocka_unit_test(absent_parts_change_no_bit),
        cmocka_unit_test(lanes_do_not_see_their_neighbours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
