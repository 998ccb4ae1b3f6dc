// A step with rigid contact as a block: the equations of its stages, recomputed here, and derivatives.

#include "contact/block_rig.h"
#include "contact/contact_step.h"
#include "contact/second_derivative.h"
#include "expr/trace.h"
#include "support/tracing.h"

#include <string.h>

enum { MAX_CONTACTS = 5, MAX_ROWS = 3 * MAX_CONTACTS, MAX_NV = 70, PROBLEMS = 4 };
enum { PER_CONTACT = NSI_CONTACT_STEP_PER_CONTACT };
enum { MAX_INPUTS = MAX_ROWS * (MAX_NV + 2) + (PER_CONTACT + 1) * MAX_CONTACTS };
enum { MAX_OUTPUTS = 19 * MAX_CONTACTS + 8, MAX_KEPT = 13 * MAX_CONTACTS + PROBLEMS };
enum { CLOSED = NSI_CONTACT_RESTS + NSI_CONTACT_CLOSED };

// Kinds of inputs, in their order.
enum { Z, U, H, MU, CFM, E, GAP, SHARE, SLACK, SLACK_AFTER, GOAL, RISE, KIND, INPUT_KINDS };
static const char* const input_names[INPUT_KINDS] = {
    "Z",     "u",     "h",           "mu",   "cfm",  "restitution", "gap",
    "share", "slack", "slack_after", "goal", "rise", "kind"};

// Where the inputs and outputs of the block begin.
typedef struct places {
    uint32_t n, nv, rows;
    uint32_t in[INPUT_KINDS + 1];
    uint32_t smooth, count; // inputs that have derivatives, inputs
    uint32_t problem[PROBLEMS], position, level, residual, softest, noutput;
} places;

static places places_of(uint32_t n, uint32_t nv) {
    places at = {.n = n, .nv = nv, .rows = 3 * n};
    for (int k = 0; k < INPUT_KINDS; k++) {
        at.in[k + 1] = at.in[k] + (k == Z ? at.rows * nv : k <= H ? at.rows : n);
    }
    at.smooth = at.in[KIND];
    at.count = at.in[INPUT_KINDS];
    for (uint32_t k = 0; k < PROBLEMS; k++) at.problem[k] = (2 + k) * at.rows;
    at.position = 6 * at.rows;
    at.level = at.position + n;
    at.residual = NSI_CONTACT_STEP_TOLD(n);
    at.softest = at.residual + 1;
    at.noutput = at.residual + 4;
    return at;
}

// ---- random steps ------------------------------------------------------------------------------

typedef struct mix {
    double impact;   // how many bodies have one
    double massless; // how many rows have no mass
    double mu, cfm;
} mix;

static bool chance(ns_rng* rng, double share) {
    return ns_rng_uniform(rng, 0.0, 1.0) < share;
}

// Kinds, shares and gaps of the contacts of one body (contacts first, first + step, ...).
static void random_island(ns_rng* rng, const places* at, uint32_t first, uint32_t step, bool impact,
                          double* x) {
    bool late = impact && chance(rng, 0.25), hit = false;
    double share = impact && !late ? ns_rng_uniform(rng, 0.05, 0.95) : 0.0;
    for (uint32_t c = first; c < at->n; c += step) {
        double kind = ns_rng_uniform(rng, 0.0, 1.0);
        bool hits = impact && (kind < 0.45 || !hit), late_hit = hits && late && chance(rng, 0.7);
        hit = hit || hits;
        x[at->in[KIND] + c] = hits                     ? NSI_CONTACT_HIT
                              : kind < 0.7 && impact   ? CLOSED
                              : kind < 0.87 || !impact ? NSI_CONTACT_RESTS
                                                       : 0.0;
        bool open = x[at->in[KIND] + c] == NSI_CONTACT_RESTS && chance(rng, 0.5);
        x[at->in[E] + c] = chance(rng, 0.3) ? 0.0 : ns_rng_uniform(rng, 0.05, 1.0);
        x[at->in[GAP] + c] = ns_rng_uniform(rng, -0.3, 0.3);
        x[at->in[SHARE] + c] = share;
        x[at->in[SLACK] + c] = open ? ns_rng_uniform(rng, 0.05, 0.4) : 0.0;
        x[at->in[SLACK_AFTER] + c] = open ? ns_rng_uniform(rng, 0.05, 0.4) : 0.0;
        x[at->in[GOAL] + c] = hits ? 0.0 : ns_rng_uniform(rng, -0.2, 0.2);
        x[at->in[RISE] + c] = late_hit ? ns_rng_uniform(rng, 1.0, 2.0) : 0.0;
    }
}

// Bodies of six velocities each that contacts are dealt to in turn; with another number of velocities, any
// rows. Velocities are those of a motion: u = J v.
static void random_step(ns_rng* rng, uint32_t n, uint32_t nv, const mix* m, double* x) {
    places at = places_of(n, nv);
    uint32_t bodies = nv % BODY == 0 && nv <= 2 * BODY ? nv / BODY : 1;
    double v[MAX_NV], a[MAX_NV], J[MAX_ROWS * BODY], rows[MAX_ROWS * BODY];
    for (uint32_t k = 0; k < nv; k++) v[k] = ns_rng_normal(rng), a[k] = 0.4 * ns_rng_normal(rng);
    memset(x, 0, at.count * sizeof *x);
    if (nv % BODY == 0 && nv <= 2 * BODY) {
        body_rows(rng, n, J, rows);
        for (uint32_t i = 0; i < at.rows; i++) {
            uint32_t column = i / 3 % bodies * BODY;
            memcpy(x + i * nv + column, rows + i * BODY, BODY * sizeof *x);
            x[at.in[U] + i] = row_dot(BODY, J + i * BODY, v + column);
            x[at.in[H] + i] = row_dot(BODY, J + i * BODY, a + column);
        }
    } else {
        any_rows(rng, n, nv, x);
        for (uint32_t i = 0; i < at.rows; i++) {
            x[at.in[U] + i] = row_dot(nv, x + i * nv, v);
            x[at.in[H] + i] = row_dot(nv, x + i * nv, a);
        }
    }
    for (uint32_t i = 0; i < at.rows; i++) {
        if (!chance(rng, m->massless)) continue;
        for (uint32_t k = 0; k < nv; k++) x[i * nv + k] *= i % 2 ? 0.0 : 1e-9;
    }
    for (uint32_t c = 0; c < n; c++) {
        x[at.in[MU] + c] = m->mu * ns_rng_uniform(rng, 0.5, 1.5);
        x[at.in[CFM] + c] = m->cfm;
    }
    for (uint32_t body = 0; body < bodies; body++) {
        random_island(rng, &at, body, bodies, chance(rng, m->impact), x);
    }
    for (uint32_t i = 0; i < at.rows; i += 3) { // what hits approaches
        if (x[at.in[KIND] + i / 3] != NSI_CONTACT_HIT || x[at.in[U] + i] < 0.0) continue;
        for (uint32_t k = 0; k < nv; k++) x[i * nv + k] *= -1.0;
        x[at.in[U] + i] *= -1.0;
        x[at.in[H] + i] *= -1.0;
    }
}

// ---- the equations -----------------------------------------------------------------------------

// The step as this test sees it: rows and contacts that are not there are zero.
typedef struct model {
    places at;
    nsi_friction friction;
    const double *x, *y;
    bool there[MAX_CONTACTS], has[MAX_ROWS], impact;
    double A0[MAX_ROWS][MAX_ROWS], softness[MAX_ROWS], u[MAX_ROWS], h[MAX_ROWS];
} model;

static double given(const model* m, int kind, uint32_t c) {
    return m->x[m->at.in[kind] + c];
}

static bool is_kind(const model* m, uint32_t c, int flag) {
    return m->there[c] && ((int)given(m, KIND, c) & flag);
}

static model model_of(const places* at, nsi_friction friction, const double* x, const double* y) {
    model m = {.at = *at, .friction = friction, .x = x, .y = y};
    uint32_t nv = at->nv;
    for (uint32_t i = 0; i < at->rows; i++) {
        double mass = row_dot(nv, x + i * nv, x + i * nv) * (1.0 + x[at->in[CFM] + i / 3]);
        if (i % 3 == 0) m.there[i / 3] = x[at->in[KIND] + i / 3] != 0.0 && mass > 1e-12;
        m.has[i] = m.there[i / 3] && mass > 1e-12;
        m.u[i] = m.has[i] ? x[at->in[U] + i] : 0.0;
        m.h[i] = m.has[i] ? x[at->in[H] + i] : 0.0;
    }
    for (uint32_t i = 0; i < at->rows; i++) {
        for (uint32_t j = 0; j < at->rows; j++) {
            m.A0[i][j] = m.has[i] && m.has[j] ? row_dot(nv, x + i * nv, x + j * nv) : 0.0;
        }
    }
    for (uint32_t i = 0; i < at->rows; i++) {
        m.softness[i] = m.A0[i][i];
        uint32_t first = i - i % 3 + 1, second = first + 1;
        bool twins = friction == NSI_FRICTION_CONE && i % 3 > 0 && m.has[first] && m.has[second];
        if (twins) m.softness[i] = 0.5 * (m.A0[first][first] + m.A0[second][second]);
    }
    for (uint32_t c = 0; c < at->n; c++) m.impact = m.impact || is_kind(&m, c, NSI_CONTACT_HIT);
    return m;
}

// out = start + A0 l
static void respond(const model* m, const double* start, const double* l, double* out) {
    for (uint32_t i = 0; i < m->at.rows; i++) {
        out[i] = start[i] + row_dot(m->at.rows, m->A0[i], l);
    }
}

// Worst violation of a problem: velocities `start` (without impulses, targets taken off) and its members.
static double problem_violation(const model* m, uint32_t number, const double* start,
                                const bool* member) {
    const double* l = m->y + m->at.problem[number];
    double level = m->y[m->at.level + number], w[MAX_ROWS], size_l = 1e-9, size_w = 1e-9;
    double worst = 0.0;
    respond(m, start, l, w);
    for (uint32_t i = 0; i < m->at.rows; i++) {
        w[i] += fmax(given(m, CFM, i / 3), level) * m->softness[i] * l[i];
        size_l = fmax(size_l, fabs(l[i]));
        size_w = fmax(size_w, fmax(fabs(w[i]), fabs(start[i])));
        if (!m->has[i] || !member[i / 3]) assert_true(l[i] == 0.0);
    }
    for (uint32_t c = 0; c < m->at.n; c++) {
        if (!member[c]) continue;
        worst = fmax(worst, coulomb_violation(m->friction, given(m, MU, c), l + 3 * c, w + 3 * c,
                                              size_l, size_w));
    }
    return worst;
}

// Of the rows of contacts that are marked.
static double work(const model* m, const bool* marked, const double* l, const double* um) {
    double sum = 0.0;
    for (uint32_t i = 0; i < m->at.rows; i++) {
        if (marked[i / 3]) sum += l[i] * (um[i] + 0.5 * row_dot(m->at.rows, m->A0[i], l));
    }
    return sum;
}

// Mark all contacts that are connected with contact c.
static void mark_island(const model* m, uint32_t c, bool* marked) {
    memset(marked, 0, m->at.n * sizeof *marked);
    marked[c] = true;
    for (uint32_t round = 0; round < m->at.n; round++) {
        for (uint32_t i = 0; i < m->at.rows * m->at.rows; i++) {
            uint32_t a = i / m->at.rows, b = i % m->at.rows;
            if (m->has[a] && m->has[b] && m->A0[a][b] != 0.0 && marked[a / 3]) marked[b / 3] = true;
        }
    }
}

typedef struct finding {
    double violation, energy, mixing, shift, position; // worst of each
    uint32_t impacts, bounded, corrected, late;        // how many there were
} finding;

// The impact of an island: what it loses, and that it is a mixture of both solutions.
static void check_island(const model* m, const bool* marked, const double* um, const double* l,
                         finding* f) {
    const double *l0 = m->y + m->at.problem[1], *lN = m->y + m->at.problem[2];
    double e = 0.0, along = 0.0, size = 0.0, largest = 1e-9, fastest = 0.0;
    for (uint32_t c = 0; c < m->at.n; c++) {
        if (marked[c] && is_kind(m, c, NSI_CONTACT_HIT)) e = fmax(e, given(m, E, c));
    }
    for (uint32_t i = 0; i < m->at.rows; i++) {
        largest = fmax(largest, fmax(fabs(m->y[i]), fmax(fabs(l0[i]), fabs(lN[i]))));
        fastest = fmax(fastest, fabs(um[i]));
        if (!marked[i / 3]) continue;
        along += (l[i] - l0[i]) * (lN[i] - l0[i]);
        size += (lN[i] - l0[i]) * (lN[i] - l0[i]);
    }
    double theta = size > 1e-20 * largest * largest ? along / size : 1.0;
    double lost = work(m, marked, l0, um), bound = (1.0 - e * e) * lost;
    double now = work(m, marked, l, um);
    assert_true(lost <= 0.0 && theta > -1e-12 && theta < 1.0 + 1e-9);
    for (uint32_t i = 0; i < m->at.rows; i++) {
        if (!marked[i / 3]) continue;
        f->mixing = fmax(f->mixing, fabs(l[i] - l0[i] - theta * (lN[i] - l0[i])) / largest);
    }
    double scale = fmax(fabs(lost), 1e-6 * largest * fastest);
    f->energy = fmax(f->energy, (now - bound) / scale);
    if (theta > 1.0 - 1e-7) return;
    f->bounded++; // the largest theta: the bound is met
    f->energy = fmax(f->energy, fabs(now - bound) / scale);
}

static void check_impact(const model* m, const double* um, const double* l, finding* f) {
    bool marked[MAX_ROWS];
    for (uint32_t c = 0; c < m->at.n; c++) {
        mark_island(m, c, marked);
        check_island(m, marked, um, l, f);
    }
}

// The position equation at normals, and the impulses that coordinates lack.
static void check_positions(const model* m, const double* w1, const double* wp, finding* f) {
    const double *l3 = m->y + m->at.problem[3], *p = m->y + m->at.position, *l1 = m->y;
    l1 += m->at.problem[0];
    double rows[MAX_ROWS] = {0}, moved[MAX_ROWS], zero[MAX_ROWS] = {0}, size = 1.0;
    for (uint32_t c = 0; c < m->at.n; c++) rows[3 * c] = p[c];
    respond(m, zero, rows, moved);
    for (uint32_t c = 0; c < m->at.n; c++) size = fmax(size, fabs(p[c] * m->A0[3 * c][3 * c]));
    for (uint32_t c = 0; c < m->at.n; c++) {
        uint32_t i = 3 * c;
        double s = given(m, SHARE, c), cfm = fmax(given(m, CFM, c), m->y[m->at.level + 3]);
        bool late = is_kind(m, c, NSI_CONTACT_HIT) && given(m, RISE, c) > 0.0;
        f->late += late;
        if (!(l3[i] > 0.0 || late)) {
            assert_true(p[c] == 0.0);
            continue;
        }
        f->corrected++;
        double goal = given(m, GOAL, c) + given(m, RISE, c) * fmax(0.0, wp[i]);
        double reached = given(m, GAP, c) + s * w1[i] + (1.0 - s) * wp[i];
        double got = moved[i] + cfm * m->softness[i] * p[c];
        f->position = fmax(f->position, fabs(got - (goal - reached)) / size);
    }
    for (uint32_t i = 0; i < m->at.rows; i++) {
        double s = given(m, SHARE, i / 3), want = s * (l1[i] - m->y[i]) + rows[i];
        f->shift = fmax(f->shift, fabs(m->y[m->at.rows + i] - (m->has[i] ? want : 0.0)));
    }
}

// All stages of a step that was solved.
static void check_step(const model* m, finding* f) {
    const double *l1 = m->y + m->at.problem[0], *l3 = m->y + m->at.problem[3], *total = m->y;
    double sum[MAX_ROWS], start[MAX_ROWS], w1[MAX_ROWS], um[MAX_ROWS];
    double l[MAX_ROWS], ui[MAX_ROWS], wp[MAX_ROWS], s[MAX_ROWS];
    bool member[MAX_CONTACTS];
    uint32_t rows = m->at.rows, n = m->at.n;
    for (uint32_t i = 0; i < rows; i++) s[i] = m->impact ? given(m, SHARE, i / 3) : 0.0;
    for (uint32_t i = 0; i < rows; i++) sum[i] = m->u[i] + m->h[i];

    // Rest before the impact.
    for (uint32_t i = 0; i < rows; i++) {
        start[i] = sum[i] + (i % 3 == 0 && m->has[i] ? given(m, SLACK, i / 3) : 0.0);
    }
    for (uint32_t c = 0; c < n; c++) {
        member[c] = m->impact && is_kind(m, c, NSI_CONTACT_RESTS) && given(m, SHARE, c) > 0.0;
    }
    f->violation = fmax(f->violation, problem_violation(m, 0, start, member));
    respond(m, sum, l1, w1);
    for (uint32_t i = 0; i < rows; i++) um[i] = m->u[i] + s[i] * (w1[i] - m->u[i]);

    // The impact, with and without restitution.
    for (uint32_t i = 0; i < rows; i++) start[i] = (1.0 + given(m, CFM, i / 3)) * um[i];
    for (uint32_t c = 0; c < n; c++) {
        member[c] = m->impact && is_kind(m, c, NSI_CONTACT_HIT | NSI_CONTACT_CLOSED);
    }
    f->violation = fmax(f->violation, problem_violation(m, 1, start, member));
    for (uint32_t c = 0; c < n; c++) {
        bool bounces = is_kind(m, c, NSI_CONTACT_HIT) && um[3 * c] < 0.0;
        if (bounces) start[3 * c] *= 1.0 + given(m, E, c);
    }
    f->violation = fmax(f->violation, problem_violation(m, 2, start, member));
    for (uint32_t i = 0; i < rows; i++) l[i] = total[i] - s[i] * l1[i] - l3[i];
    if (m->impact) check_impact(m, um, l, f);
    f->impacts += m->impact;

    // Rest after it.
    respond(m, um, l, ui);
    for (uint32_t i = 0; i < rows; i++) start[i] = ui[i] + (1.0 - s[i]) * m->h[i];
    for (uint32_t c = 0; c < n; c++) {
        member[c] = is_kind(m, c, NSI_CONTACT_RESTS | NSI_CONTACT_HIT);
        if (!is_kind(m, c, NSI_CONTACT_HIT | NSI_CONTACT_CLOSED) && m->has[3 * c]) {
            start[3 * c] += given(m, SLACK_AFTER, c) / (1.0 - s[3 * c]);
        }
    }
    f->violation = fmax(f->violation, problem_violation(m, 3, start, member));

    // The whole step.
    respond(m, sum, total, wp);
    check_positions(m, w1, wp, f);
}

static void stages_satisfy_their_equations(void** state) {
    (void)state;
    static double x[MAX_INPUTS], y[MAX_OUTPUTS];
    ns_rng rng = ns_rng_seed(3);
    for (nsi_friction friction = 0; friction <= NSI_FRICTION_CONE; friction++) {
        finding f = {0};
        uint32_t unsolved = 0, softened = 0, total = 0;
        for (uint32_t trial = 0; trial < 3000; trial++, total++) {
            uint32_t n = 1 + trial % MAX_CONTACTS, nv = trial % 3 == 0 ? 2 * BODY : BODY;
            const mix m = {.impact = trial % 4 == 0 ? 0.0 : 0.8,
                           .massless = trial % 5 == 0 ? 0.2 : 0.0,
                           .mu = trial % 7 == 0   ? 0.0
                                 : trial % 3 == 0 ? 0.4
                                                  : 1.0,
                           .cfm = trial % 2 ? 1e-4 : 0.02};
            places at = places_of(n, nv);
            random_step(&rng, n, nv, &m, x);
            run_kind(&nsi_contact_step, (uint32_t[]){n, friction, nv}, x, y);
            double softest = 0.0;
            for (uint32_t k = 0; k < PROBLEMS; k++) softest = fmax(softest, y[at.level + k]);
            assert_true(y[at.softest] == softest);
            softened += softest > 0.0;
            if (!(y[at.residual] < 1e-10)) {
                unsolved++;
                continue;
            }
            model step = model_of(&at, friction, x, y);
            check_step(&step, &f);
            if (f.violation < 1e-8 && f.energy < 2e-9 && f.position < 1e-8) continue;
            print_message("trial %u, n %u, nv %u: violation %.1e, energy %.1e, position %.1e\n",
                          trial, n, nv, f.violation, f.energy, f.position);
            break;
        }
        print_message("%s: %u steps, %u with impact, %u unsolved, %u softened; energy bound active "
                      "%u times, %u positions corrected, %u late\n  violation %.1e, energy %.1e, "
                      "mixing %.1e, shift %.1e, position %.1e\n",
                      friction == NSI_FRICTION_CONE ? "cone" : "pyramid", total, f.impacts,
                      unsolved, softened, f.bounded, f.corrected, f.late, f.violation, f.energy,
                      f.mixing, f.shift, f.position);
        assert_true(f.violation < 1e-8 && f.energy < 2e-9 && f.mixing < 1e-9);
        assert_true(f.shift < 1e-9 && f.position < 1e-8);
        assert_true(f.bounded > 50 && f.corrected > 300 && f.late > 50 && f.impacts > 500);
        assert_true(unsolved == 0);
    }
}

// ---- closed forms ------------------------------------------------------------------------------

// Two balls in a column, the lower one rests, the upper one arrives: masses 1 and 2, no friction.
static void a_column_has_the_closed_form(void** state) {
    (void)state;
    enum { N = 2, NV = 2 };
    places at = places_of(N, NV);
    double x[MAX_INPUTS] = {0}, y[MAX_OUTPUTS];
    const double root[2] = {1.0, sqrt(0.5)}, s = 0.3, g = 0.01, v = 3.0;
    x[0] = root[0];                                // lower ball against the floor
    x[3 * NV] = -root[0], x[3 * NV + 1] = root[1]; // upper against lower ball
    x[at.in[U] + 3] = -v;
    x[at.in[H]] = -g; // both fall alike
    for (uint32_t c = 0; c < N; c++) x[at.in[SHARE] + c] = s;
    x[at.in[GAP] + 3 / 3] = s * v;
    x[at.in[KIND]] = CLOSED, x[at.in[KIND] + 1] = NSI_CONTACT_HIT;
    run_kind(&nsi_contact_step, (uint32_t[]){N, NSI_FRICTION_CONE, NV}, x, y);
    // Without restitution both stop: the floor takes the weight of the lower ball up to the impact, then
    // that of both; the impact stops v plus what gravity has added.
    close_to("upper contact", y[3], 2.0 * v + 2.0 * g, 1e-12);
    close_to("floor", y[0], 2.0 * v + 3.0 * g, 1e-12);
    close_to("residual", y[at.residual], 0.0, 1e-12);

    // With restitution 1 on the upper contact, Newton's law for both contacts: the lower ball stays, the upper
    // one leaves with the speed it had.
    x[at.in[E] + 1] = 1.0;
    run_kind(&nsi_contact_step, (uint32_t[]){N, NSI_FRICTION_CONE, NV}, x, y);
    double arrived = v + s * g, after = arrived - (1.0 - s) * g;
    close_to("upper contact, e = 1", y[3], 2.0 * (2.0 * arrived), 1e-11);
    close_to("upper ball", -v - g + y[3] / 2.0, after, 1e-11);
    close_to("not corrected", y[at.position + 1], 0.0, 0.0);
}

// ---- derivatives -------------------------------------------------------------------------------

// Inputs whose change of sign would change what a contact does are not varied.
static bool may_vary(const places* at, const double* x, uint32_t i) {
    static const int kinked[] = {E, SHARE, SLACK_AFTER, RISE, MU, CFM};
    for (size_t k = 0; k < sizeof kinked / sizeof *kinked; k++) {
        if (i >= at->in[kinked[k]] && i < at->in[kinked[k] + 1]) return x[i] > 0.0;
    }
    return true;
}

// Value, tangent and adjoint of the step x: y receives the outputs, dy (2 x rows) and xbar (smooth). `dx` is a
// direction of the smooth inputs, `ybar` an adjoint of the first 2 x rows outputs.
static void run_all(const uint32_t* params, const double* x, const double* dx, const double* ybar,
                    double* y, double* dy, double* xbar) {
    static double more[2 * MAX_INPUTS + MAX_KEPT];
    places at = places_of(params[0], params[2]);
    uint32_t kept = at.residual - at.problem[0];
    run_kind(&nsi_contact_step, params, x, y);
    memcpy(more, x, at.count * sizeof *more);
    memcpy(more + at.count, y + at.problem[0], kept * sizeof *more);
    memcpy(more + at.count + kept, dx, at.smooth * sizeof *more);
    run_kind(&nsi_contact_step_tangent, params, more, dy);
    memcpy(more + at.count + kept, ybar, 2 * at.rows * sizeof *more);
    run_kind(&nsi_contact_step_adjoint, params, more, xbar);
}

// The pattern of a solution: which contacts press and slide in each problem, is the energy bound met.
static void pattern_of(const places* at, nsi_friction friction, const double* x, const double* y,
                       unsigned char* to) {
    for (uint32_t k = 0; k < PROBLEMS; k++) {
        for (uint32_t c = 0; c < at->n; c++) {
            const double* l = y + at->problem[k] + 3 * c;
            double bound = x[at->in[MU] + c] * l[0];
            double size = friction == NSI_FRICTION_CONE ? hypot(l[1], l[2]) : fabs(l[1]);
            unsigned char pattern = l[0] > 0.0 ? 1 : 0;
            if (pattern && size >= bound * (1.0 - 1e-9)) pattern |= 2;
            if (friction != NSI_FRICTION_CONE && fabs(l[2]) >= bound * (1.0 - 1e-9)) pattern |= 4;
            *to++ = pattern;
        }
        *to++ = (unsigned char)(y[at->level + k] > 0.0);
    }
    double distance = 0.0, size = 1e-300; // is l = lN?
    for (uint32_t i = 0; i < at->rows; i++) {
        double s = x[at->in[SHARE] + i / 3], l = y[i] - s * y[at->problem[0] + i];
        double lN = y[at->problem[2] + i];
        distance = fmax(distance, fabs(l - y[at->problem[3] + i] - lN));
        size = fmax(size, fabs(lN));
    }
    *to = distance > 1e-9 * size;
}

enum { PATTERN = PROBLEMS * (MAX_CONTACTS + 1) + 1 };

// Each kind of input by itself: the tangent against differences.
static void every_input_has_its_slope(void** state) {
    (void)state;
    static double x[MAX_INPUTS], dx[MAX_INPUTS], ybar[2 * MAX_ROWS], y[MAX_OUTPUTS];
    static double above[MAX_OUTPUTS], below[MAX_OUTPUTS], dy[2 * MAX_ROWS], xbar[MAX_INPUTS];
    ns_rng rng = ns_rng_seed(23);
    for (nsi_friction friction = 0; friction <= NSI_FRICTION_CONE; friction++) {
        uint32_t close[KIND] = {0}, moved[KIND] = {0}, same[KIND] = {0}, tried[KIND] = {0};
        for (uint32_t trial = 0; trial < 300; trial++) {
            uint32_t n = 2 + trial % 3, nv = trial % 3 == 0 ? 2 * BODY : BODY;
            const uint32_t params[3] = {n, friction, nv};
            const mix m = {.impact = trial % 3 == 0 ? 0.3 : 1.0, .mu = 0.5, .cfm = 0.02};
            places at = places_of(n, nv);
            random_step(&rng, n, nv, &m, x);
            for (int kind = 0; kind < KIND; kind++) {
                const double h = 1e-6;
                unsigned char pattern[3][PATTERN] = {{0}};
                double error = 0.0, size = 0.0, varied = 0.0;
                memset(dx, 0, sizeof dx);
                for (uint32_t i = at.in[kind]; i < at.in[kind + 1]; i++) {
                    dx[i] = may_vary(&at, x, i) ? ns_rng_normal(&rng) : 0.0;
                    varied += dx[i] * dx[i];
                }
                if (varied <= 0.0) continue;
                run_all(params, x, dx, ybar, y, dy, xbar);
                pattern_of(&at, friction, x, y, pattern[0]);
                for (uint32_t i = 0; i < at.smooth; i++) x[i] += h * dx[i];
                run_kind(&nsi_contact_step, params, x, above);
                pattern_of(&at, friction, x, above, pattern[1]);
                for (uint32_t i = 0; i < at.smooth; i++) x[i] -= 2.0 * h * dx[i];
                run_kind(&nsi_contact_step, params, x, below);
                pattern_of(&at, friction, x, below, pattern[2]);
                for (uint32_t i = 0; i < at.smooth; i++) x[i] += h * dx[i];
                for (uint32_t i = 0; i < 2 * at.rows; i++) {
                    double slope = (above[i] - below[i]) / (2.0 * h);
                    error = fmax(error, fabs(slope - dy[i]));
                    size = fmax(size, fabs(dy[i]));
                }
                tried[kind]++;
                if (memcmp(pattern[0], pattern[1], PATTERN) ||
                    memcmp(pattern[0], pattern[2], PATTERN)) {
                    continue;
                }
                same[kind]++;
                close[kind] += error <= 1e-5 * (1.0 + size);
                moved[kind] += size > 1e-3;
            }
        }
        bool good = true;
        for (int kind = 0; kind < KIND; kind++) {
            print_message("%s, %s: %u of %u slopes agree, %u not zero; pattern changes in %u\n",
                          friction == NSI_FRICTION_CONE ? "cone" : "pyramid", input_names[kind],
                          close[kind], same[kind], moved[kind], tried[kind] - same[kind]);
            good = good && close[kind] * 100 >= 95 * same[kind] && moved[kind] * 5 > same[kind];
            good = good && same[kind] * 10 >= 9 * tried[kind] && same[kind] > 20;
        }
        assert_true(good);
    }
}

// <ybar, J dx> = <J' ybar, dx>, relative to the sum of magnitudes.
static void adjoint_is_the_transpose(void** state) {
    (void)state;
    static double x[MAX_INPUTS], dx[MAX_INPUTS], ybar[2 * MAX_ROWS], y[MAX_OUTPUTS];
    static double dy[2 * MAX_ROWS], xbar[MAX_INPUTS];
    ns_rng rng = ns_rng_seed(31);
    double worst = 0.0;
    for (uint32_t trial = 0; trial < 2000; trial++) {
        uint32_t n = 1 + trial % MAX_CONTACTS, nv = trial % 3 == 0 ? 2 * BODY : BODY;
        const uint32_t params[3] = {n, trial % 2, nv};
        const mix m = {.impact = 0.7,
                       .massless = trial % 4 == 0 ? 0.2 : 0.0,
                       .mu = 0.5,
                       .cfm = trial % 5 ? 1e-3 : 0.05};
        places at = places_of(n, nv);
        random_step(&rng, n, nv, &m, x);
        for (uint32_t i = 0; i < at.smooth; i++) {
            dx[i] = may_vary(&at, x, i) ? ns_rng_normal(&rng) : 0.0;
        }
        for (uint32_t i = 0; i < 2 * at.rows; i++) ybar[i] = ns_rng_normal(&rng);
        run_all(params, x, dx, ybar, y, dy, xbar);
        double forward = row_dot(2 * at.rows, ybar, dy), size = 1e-12;
        for (uint32_t i = 0; i < at.smooth; i++) size += fabs(xbar[i] * dx[i]);
        double error = fabs(forward - row_dot(at.smooth, xbar, dx)) / size;
        if (error > 1e-10) print_message("trial %u, n %u, nv %u: %.1e\n", trial, n, nv, error);
        worst = fmax(worst, error);
    }
    print_message("transpose: worst %.1e\n", worst);
    assert_true(worst < 1e-10);
}

// The tangent of the adjoint against differences of the adjoint, on random steps with impacts that meet the
// energy bound and impacts that do not.
static void every_adjoint_has_its_slope(void** state) {
    (void)state;
    enum { MAX_MORE = 2 * MAX_INPUTS + MAX_KEPT + 4 * MAX_ROWS };
    static double x[MAX_INPUTS], dx[MAX_INPUTS], ybar[2 * MAX_ROWS], dybar[2 * MAX_ROWS];
    static double y[MAX_OUTPUTS], dy[2 * MAX_ROWS], more[MAX_MORE], got[MAX_INPUTS];
    static double xbar[3][MAX_INPUTS], seeds[2 * MAX_ROWS];
    ns_rng rng = ns_rng_seed(37);
    for (nsi_friction friction = 0; friction <= NSI_FRICTION_CONE; friction++) {
        uint32_t close = 0, same = 0, tried = 0, bounded = 0;
        double worst = 0.0;
        for (uint32_t trial = 0; trial < 1000; trial++, tried++) {
            uint32_t n = 1 + trial % 4, nv = trial % 3 == 0 ? 2 * BODY : BODY;
            const uint32_t params[3] = {n, friction, nv};
            const mix m = {.impact = trial % 3 == 0 ? 0.3 : 1.0, .mu = 0.7, .cfm = 0.02};
            const double h = 1e-6;
            places at = places_of(n, nv);
            random_step(&rng, n, nv, &m, x);
            for (uint32_t i = 0; i < at.smooth; i++) {
                dx[i] = may_vary(&at, x, i) ? ns_rng_normal(&rng) : 0.0;
            }
            for (uint32_t i = 0; i < 2 * at.rows; i++) {
                ybar[i] = ns_rng_normal(&rng);
                dybar[i] = ns_rng_normal(&rng);
            }

            // The adjoint here and on both sides.
            unsigned char pattern[3][PATTERN] = {{0}};
            const double steps[3] = {0.0, h, -h};
            for (int k = 0; k < 3; k++) {
                for (uint32_t i = 0; i < at.smooth; i++) x[i] += steps[k] * dx[i];
                for (uint32_t i = 0; i < 2 * at.rows; i++) seeds[i] = ybar[i] + steps[k] * dybar[i];
                run_all(params, x, dx, seeds, y, dy, xbar[k]);
                pattern_of(&at, friction, x, y, pattern[k]);
                if (k == 0) {
                    uint32_t kept = at.residual - at.problem[0];
                    double* to = more;
                    memcpy(to, x, at.count * sizeof *to), to += at.count;
                    memcpy(to, y + at.problem[0], kept * sizeof *to), to += kept;
                    memcpy(to, ybar, 2 * at.rows * sizeof *to), to += 2 * at.rows;
                    memcpy(to, dx, at.smooth * sizeof *to), to += at.smooth;
                    memcpy(to, dybar, 2 * at.rows * sizeof *to);
                    run_kind(&nsi_contact_step_adjoint_tangent, params, more, got);
                }
                for (uint32_t i = 0; i < at.smooth; i++) x[i] -= steps[k] * dx[i];
            }
            if (memcmp(pattern[0], pattern[1], PATTERN) ||
                memcmp(pattern[0], pattern[2], PATTERN)) {
                continue;
            }
            double error = 0.0, size = 0.0;
            for (uint32_t i = 0; i < at.smooth; i++) {
                if (!may_vary(&at, x, i)) continue;
                double slope = (xbar[1][i] - xbar[2][i]) / (2.0 * h);
                error = fmax(error, fabs(slope - got[i]));
                size = fmax(size, fabs(got[i]));
            }
            same++;
            bounded += pattern[0][PROBLEMS * (n + 1)];
            close += error <= 1e-5 * (1.0 + size);
            if (error <= 1e-5 * (1.0 + size)) worst = fmax(worst, error / (1.0 + size));
        }
        print_message(
            "%s: %u of %u second derivatives agree (to %.1e), bound active in %u; pattern "
            "changes in %u\n",
            friction == NSI_FRICTION_CONE ? "cone" : "pyramid", close, same, worst, bounded,
            tried - same);
        assert_true(close * 100 >= 97 * same && same * 10 >= 8 * tried && bounded > 20);
    }
}

// ---- lanes and text ----------------------------------------------------------------------------

// Lanes with different contacts, with and without impacts, and with rows that only some of them have.
static void lanes_do_not_see_their_neighbours(void** state) {
    (void)state;
    enum { N = 4 };
    static double x[RIG_LANES * MAX_INPUTS], y[RIG_LANES * MAX_OUTPUTS];
    static double tangent[RIG_LANES * (2 * MAX_INPUTS + MAX_KEPT)];
    static double adjoint[RIG_LANES * (2 * MAX_INPUTS + MAX_KEPT)], out[RIG_LANES * MAX_INPUTS];
    const nsi_ncp_kernels* all[] = {
        &nsi_contact_step_kernels_generic,
#ifdef NSI_HAVE_AVX2_KERNELS
        nsi_cpu_has_avx2_fma() ? &nsi_contact_step_kernels_avx2 : &nsi_contact_step_kernels_generic,
#endif
    };
    ns_rng rng = ns_rng_seed(17);
    for (uint32_t trial = 0; trial < 48; trial++) {
        uint32_t nv = (const uint32_t[]){BODY, 5, MAX_NV, 2 * BODY}[trial % 4];
        const uint32_t params[3] = {N, trial / 4 % 2, nv};
        places at = places_of(N, nv);
        uint32_t kept = at.residual - at.problem[0], seeds = at.count + kept;
        uint32_t ntangent = seeds + at.smooth, nadjoint = seeds + 2 * at.rows;
        for (uint32_t e = 0; e < RIG_LANES; e++) {
            const mix m = {.impact = 0.5, .massless = 0.2, .mu = 0.5, .cfm = 1e-4};
            double* lane = x + e * at.count;
            random_step(&rng, N, nv, &m, lane);
            for (uint32_t c = 0; c < N; c++) { // a contact that is off may hold anything
                if (!chance(&rng, 0.2)) continue;
                lane[at.in[KIND] + c] = 0.0;
                for (uint32_t k = 0; k < 3 * nv; k++) lane[3 * c * nv + k] *= 1e300;
                for (int kind = MU; kind < KIND; kind++) {
                    if (kind != SHARE) lane[at.in[kind] + c] *= chance(&rng, 0.5) ? 1e300 : NAN;
                }
            }
        }
        for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
            check_lanes(&nsi_contact_step, all[k]->value, all[0]->value[0], params, x, y);
            for (uint32_t e = 0; e < RIG_LANES; e++) {
                double *t = tangent + e * ntangent, *a = adjoint + e * nadjoint;
                memcpy(t, x + e * at.count, at.count * sizeof *t);
                memcpy(t + at.count, y + e * at.noutput + at.problem[0], kept * sizeof *t);
                memcpy(a, t, seeds * sizeof *a);
                for (uint32_t i = seeds; i < ntangent; i++) t[i] = ns_rng_normal(&rng);
                for (uint32_t i = seeds; i < nadjoint; i++) a[i] = ns_rng_normal(&rng);
            }
            check_lanes(&nsi_contact_step_tangent, all[k]->tangent, all[0]->tangent[0], params,
                        tangent, out);
            check_lanes(&nsi_contact_step_adjoint, all[k]->adjoint, all[0]->adjoint[0], params,
                        adjoint, out);
        }
    }
}

// A graph that is the block alone: inputs that may vary are inputs, the others are constants. Outputs are
// the impulses, and on demand what the solver tells. `inputs` receives the values of the inputs.
static ns_graph* step_graph(uint32_t n, nsi_friction friction, uint32_t nv, const double* x,
                            bool told, double* inputs) {
    ns_graph* g = tracing_begin();
    static nsi_id ids[MAX_INPUTS];
    char name[16];
    places at = places_of(n, nv);
    for (uint32_t i = 0; i < at.count; i++) {
        snprintf(name, sizeof name, "x%u", i);
        bool varies = i < at.smooth && may_vary(&at, x, i) && x[i] != 0.0;
        ids[i] = varies ? ns_input(name).id : ns_const(x[i]).id;
        if (varies) *inputs++ = x[i];
    }
    nsi_block block = {.kind = &nsi_contact_step,
                       .params = {n, friction, nv},
                       .ninput = at.count,
                       .inputs = ids,
                       .source = NSI_NONE,
                       .sink = NSI_NONE};
    nsi_id node = nsi_graph_block(g, &block);
    for (uint32_t k = 0; k < (told ? at.noutput : 2 * at.rows); k++) {
        snprintf(name, sizeof name, "y%u", k);
        ns_output(name, (ns_expr){nsi_graph_out(g, node, k)});
    }
    tracing_end();
    return g;
}

static void text_form_reads_back(void** state) {
    (void)state;
    double x[MAX_INPUTS], inputs[MAX_INPUTS];
    ns_rng rng = ns_rng_seed(5);
    random_step(&rng, 2, 4, &(mix){.impact = 1.0, .mu = 0.5, .cfm = 1e-3}, x);
    ns_graph* g = step_graph(2, NSI_FRICTION_CONE, 4, x, true, inputs);
    check_round_trips(g);
    ns_graph_free(g);
}

static void derivatives_pass_the_check(void** state) {
    (void)state;
    enum { GRAPHS = 6 };
    static double x[MAX_INPUTS], inputs[MAX_INPUTS];
    ns_rng rng = ns_rng_seed(11);
    check_batch* batch = check_batch_create();
    ns_graph* graphs[GRAPHS];
    for (uint32_t k = 0; k < GRAPHS; k++) {
        uint32_t n = 2 + k % 2, nv = k == 5 ? 2 * BODY : BODY;
        const mix m = {.impact = k == 0 ? 0.0 : 1.0, .mu = 0.5, .cfm = 0.01};
        random_step(&rng, n, nv, &m, x);
        graphs[k] = step_graph(n, k / 2 % 2, nv, x, false, inputs);
        check_options options = {.name = "contact_step", .may_vanish = true, .seed = k};
        options.c = k < 2 ? CHECK_C_ALL : CHECK_C_VJP;
        check_batch_add(batch, graphs[k], inputs, NULL, &options);
    }
    check_report report = check_batch_finish(batch);
    print_message("transpose %.1e, differences %.1e, undecided %u of %u\n", report.transpose_error,
                  report.difference_error, report.undecided, report.slopes);
    assert_true(report.undecided * 5 <= report.slopes); // where the pattern changes nearby
    for (uint32_t k = 0; k < GRAPHS; k++) ns_graph_free(graphs[k]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_column_has_the_closed_form),
        cmocka_unit_test(stages_satisfy_their_equations),
        cmocka_unit_test(every_input_has_its_slope),
        cmocka_unit_test(adjoint_is_the_transpose),
        cmocka_unit_test(every_adjoint_has_its_slope),
        cmocka_unit_test(lanes_do_not_see_their_neighbours),
        cmocka_unit_test(text_form_reads_back),
        cmocka_unit_test(derivatives_pass_the_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
