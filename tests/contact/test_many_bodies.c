// Scenes with more points of rigid contact than are on at a time: the solver's room is for those that
// are on. Stacks and heaps against what they must do.

#include "contact/block_rig.h"
#include "contact/convex_block.h"
#include "support/trial.h"

#include <stdarg.h>
#include <string.h>

enum { TOLD = 4 }; // outputs of the solver behind the impulses

// ---- the solver ------------------------------------------------------------------------------

// Inputs of the impulse problem of n contacts, allocated.
typedef struct crowd {
    uint32_t n, nv, params[3];
    uint32_t b, mu, cfm, on, count;
    double* x;
} crowd;

// Both solvers have the same inputs and outputs.
static const nsi_block_kind* const solvers[] = {&nsi_ncp, &nsi_convex};

static crowd crowd_of(const nsi_block_kind* kind, uint32_t n, uint32_t nv) {
    crowd c = {.n = n, .nv = nv, .params = {n, NSI_FRICTION_CONE, nv}};
    if (kind == &nsi_convex) c.params[1] = nv; // has the cone only
    c.b = 3 * n * nv;
    c.mu = c.b + 3 * n;
    c.cfm = c.mu + n;
    c.on = c.cfm + n;
    c.count = c.on + n;
    c.x = test_calloc(c.count, sizeof *c.x);
    return c;
}

// Contact c is at particle c % (nv / 3), with a random frame; it takes away the velocity v.
static void fill_contact(ns_rng* rng, crowd* to, uint32_t c, const double* v) {
    double frame[3 * BODY], unused[3 * BODY];
    uint32_t first = 3 * (c % (to->nv / 3));
    body_rows(rng, 1, frame, unused);
    for (uint32_t t = 0; t < 3; t++) {
        double* row = to->x + (size_t)(3 * c + t) * to->nv;
        for (uint32_t k = 0; k < 3; k++) row[first + k] = frame[t * BODY + k];
        to->x[to->b + 3 * c + t] = -row_dot(to->nv, row, v);
    }
    to->x[to->mu + c] = 0.4;
    to->x[to->cfm + c] = 1e-3;
}

static void fill_crowd(ns_rng* rng, crowd* to) {
    double v[300];
    assert_true(to->nv <= 300);
    for (uint32_t k = 0; k < to->nv; k++) v[k] = ns_rng_normal(rng);
    for (uint32_t c = 0; c < to->n; c++) fill_contact(rng, to, c, v);
}

// 900 contacts of which 6 are on have the bits of these 6 alone, and those that are off exact zeros.
static void check_contacts_that_are_off(const nsi_block_kind* kind) {
    enum { N = 900, FEW = 6, NV = 12 };
    static const uint32_t chosen[FEW] = {0, 63, 64, 255, 256, 899};
    ns_rng rng = ns_rng_seed(31);
    crowd many = crowd_of(kind, N, NV), few = crowd_of(kind, FEW, NV);
    fill_crowd(&rng, &many);
    for (uint32_t k = 0; k < FEW; k++) {
        uint32_t c = chosen[k];
        many.x[many.on + c] = few.x[few.on + k] = 1.0;
        few.x[few.mu + k] = many.x[many.mu + c];
        few.x[few.cfm + k] = many.x[many.cfm + c];
        memcpy(few.x + few.b + 3 * k, many.x + many.b + 3 * c, 3 * sizeof *few.x);
        memcpy(few.x + 3 * k * NV, many.x + 3 * c * NV, sizeof(double[3 * NV]));
    }

    static double l[3 * N + TOLD], alone[3 * FEW + TOLD];
    run_kind(kind, many.params, many.x, l);
    run_kind(kind, few.params, few.x, alone);
    double largest = 0.0;
    for (uint32_t c = 0, k = 0; c < N; c++) {
        bool on = k < FEW && chosen[k] == c;
        for (uint32_t t = 0; t < 3; t++) {
            double expected = on ? alone[3 * k + t] : 0.0;
            assert_true(check_same_bits(l[3 * c + t], expected));
            largest = fmax(largest, fabs(expected));
        }
        k += on;
    }
    assert_true(largest > 0.1);
    for (uint32_t k = 0; k < TOLD; k++) {
        assert_true(check_same_bits(l[3 * N + k], alone[3 * FEW + k]));
    }
    test_free(many.x);
    test_free(few.x);
}

static void contacts_that_are_off_need_no_room(void** state) {
    (void)state;
    for (size_t k = 0; k < 2; k++) check_contacts_that_are_off(solvers[k]);
}

// As many as there is room for are solved; with one more the step counts as unsolved.
static void check_too_many_contacts(const nsi_block_kind* kind) {
    enum { N = NSI_NCP_MAX_ACTIVE + 1, NV = 240 };
    static double l[3 * N + TOLD];
    ns_rng rng = ns_rng_seed(32);
    crowd c = crowd_of(kind, N, NV);
    fill_crowd(&rng, &c);
    for (uint32_t k = 0; k + 1 < N; k++) c.x[c.on + k] = 1.0;
    run_kind(kind, c.params, c.x, l);
    assert_true(l[3 * N] < 1e-10);
    c.x[c.on + N - 1] = 1.0;
    run_kind(kind, c.params, c.x, l);
    assert_true(l[3 * N] >= 1.0);
    for (uint32_t k = 0; k < 3 * N; k++) assert_true(isfinite(l[k]));
    test_free(c.x);
}

static void too_many_contacts_are_reported(void** state) {
    (void)state;
    for (size_t k = 0; k < 2; k++) check_too_many_contacts(solvers[k]);
}

// Lanes that have room alone, but not together, do not see one another.
static void crowded_lanes_are_solved_alone(void** state) {
    (void)state;
    enum { N = 500, NV = 30, ON = 150 };
    ns_rng rng = ns_rng_seed(33);
    crowd c = crowd_of(&nsi_ncp, N, NV);
    double* x = test_calloc((size_t)RIG_LANES * c.count, sizeof *x);
    double* y = test_calloc((size_t)RIG_LANES * (3 * N + TOLD), sizeof *y);
    for (uint32_t e = 0; e < RIG_LANES; e++) {
        fill_crowd(&rng, &c);
        for (uint32_t k = 0; k < N; k++) c.x[c.on + k] = (k + 97 * e) % N < ON;
        memcpy(x + (size_t)e * c.count, c.x, c.count * sizeof *x);
    }
    const nsi_ncp_kernels* generic = &nsi_ncp_kernels_generic;
    check_lanes(&nsi_ncp, generic->value, generic->value[0], c.params, x, y);
#ifdef NSI_HAVE_AVX2_KERNELS
    if (nsi_cpu_has_avx2_fma()) {
        check_lanes(&nsi_ncp, nsi_ncp_kernels_avx2.value, generic->value[0], c.params, x, y);
    }
#endif
    test_free(x);
    test_free(y);
    test_free(c.x);
}

// ---- scenes ----------------------------------------------------------------------------------

static void append(char* text, size_t size, const char* format, ...) {
    va_list args;
    size_t used = strlen(text);
    va_start(args, format);
    int count = vsnprintf(text + used, size - used, format, args);
    va_end(args);
    assert_true(count >= 0 && (size_t)count < size - used);
}

enum { TEXT = 20000 };

static void begin_scene(char text[TEXT]) {
    text[0] = '\0';
    append(text, TEXT,
           "<mujoco><option timestep=\"0.001\"/><worldbody>"
           "<geom name=\"floor\" type=\"plane\" size=\"5 5 1\"/>");
}

static void add_body(char text[TEXT], uint32_t number, double x, double y, double z,
                     const char* shape) {
    append(text, TEXT, "<body name=\"b%u\" pos=\"%.9g %.9g %.9g\"><freejoint/><geom %s/></body>",
           number, x, y, z, shape);
}

static trial end_scene(char text[TEXT], uint32_t steps) {
    append(text, TEXT, "</worldbody></mujoco>");
    static const char* const names[] = {"energy/total", "contact/penetration"};
    ns_system_options options = ns_default_system_options();
    options.observe = names;
    options.nobserve = 2;
    return trial_make(text, &options, steps);
}

// Energy does not rise above that of the start, and nothing sinks in by more than `depth`. What a step
// gains is what lifting bodies of `weight` out of one another takes.
static void check_scene(trial* t, double depth, double weight) {
    trial_run(t);
    double start = t->observations[0], deepest = 0.0, gain = 0.0;
    for (uint32_t k = 0; k < t->steps; k++) {
        double energy = t->observations[(size_t)2 * k];
        if (k > 0) gain = fmax(gain, energy - t->observations[(size_t)2 * (k - 1)]);
        assert_true(energy <= start * (1.0 + 1e-9));
        deepest = fmax(deepest, t->observations[(size_t)2 * k + 1]);
    }
    print_message("energy %.6g to %.6g J, largest gain in a step %.1e J, penetration %.1e m\n",
                  start, t->observations[(size_t)2 * (t->steps - 1)], gain, deepest);
    assert_true(deepest < depth);
    assert_true(gain <= weight * deepest + 1e-12);
}

static const char box[] = "type=\"box\" size=\".05 .05 .05\" mass=\"1\"";

// 665 candidate points, of which 72 to 80 are on.
static void a_stack_of_ten_boxes_stands(void** state) {
    (void)state;
    enum { N = 10 };
    static char text[TEXT];
    begin_scene(text);
    for (uint32_t k = 0; k < N; k++) add_body(text, k, 0.0, 0.0, 0.05 + 0.1 * k, box);
    trial t = end_scene(text, 500);
    check_scene(&t, 1e-8, N * 9.81);
    for (uint32_t k = 0; k < N; k++) {
        for (uint32_t i = 0; i < 3; i++) {
            double moved = trial_end(&t)[7 * k + i] - t.x0[7 * k + i];
            assert_true(fabs(moved) < 1e-6);
        }
    }
    trial_free(&t);
}

// 12 spheres fall into a corner of the floor and two walls, on top of one another.
static void spheres_fall_on_a_heap(void** state) {
    (void)state;
    enum { N = 12 };
    static char text[TEXT];
    begin_scene(text);
    append(text, TEXT,
           "<geom type=\"plane\" size=\"5 5 1\" pos=\"-.1 0 0\" zaxis=\"1 0 0\"/>"
           "<geom type=\"plane\" size=\"5 5 1\" pos=\"0 -.1 0\" zaxis=\"0 1 0\"/>"
           "<geom type=\"plane\" size=\"5 5 1\" pos=\".1 0 0\" zaxis=\"-1 0 0\"/>"
           "<geom type=\"plane\" size=\"5 5 1\" pos=\"0 .1 0\" zaxis=\"0 -1 0\"/>");
    for (uint32_t k = 0; k < N; k++) {
        double aside = 0.05 * (k % 2) - 0.02, along = 0.04 * (k / 2 % 2) - 0.025;
        add_body(text, k, aside, along, 0.06 + 0.11 * k,
                 "type=\"sphere\" size=\".05\" mass=\".5\" friction=\".5\"");
    }
    // The second of two impacts in a step is late: as deep as the fall of a step, at 5 m/s.
    trial t = end_scene(text, 800);
    check_scene(&t, 5e-3, N * 0.5 * 9.81);
    for (uint32_t k = 0; k < N; k++) {
        const double* q = trial_end(&t) + 7 * k;
        assert_true(fabs(q[0]) < 0.0505 && fabs(q[1]) < 0.0505 && q[2] > 0.0495);
    }
    trial_free(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contacts_that_are_off_need_no_room),
        cmocka_unit_test(too_many_contacts_are_reported),
        cmocka_unit_test(crowded_lanes_are_solved_alone),
        cmocka_unit_test(a_stack_of_ten_boxes_stands),
        cmocka_unit_test(spheres_fall_on_a_heap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
