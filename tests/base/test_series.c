// Columns of numbers over time: continuous angles, smoothing polynomials, spacing of rows.

#include "base/series.h"
#include "neuralsim/random.h"
#include "support/assert.h"

#include <math.h>
#include <stdlib.h>

static const double pi = 3.14159265358979323846;

static void angles_become_continuous(void** state) {
    (void)state;
    double x[] = {3.0, -3.0, NAN, -2.0, 2.5, -2.5};
    nsi_series_unwrap(x, 6);
    close_to("first", x[0], 3.0, 0.0);
    close_to("over pi", x[1], 2.0 * pi - 3.0, 1e-14);
    assert_true(isnan(x[2])); // stepped over
    close_to("after the gap", x[3], 2.0 * pi - 2.0, 1e-14);
    close_to("back", x[4], 2.5, 1e-14);
    close_to("over pi again", x[5], 2.0 * pi - 2.5, 1e-14);
}

static void the_spacing_is_the_lower_median(void** state) {
    (void)state;
    double scratch[6];
    close_to("odd", nsi_series_spacing((double[]){0, 1, 3, 4}, 4, scratch), 1.0, 0.0);
    close_to("even", nsi_series_spacing((double[]){0, 5, 6, 8, 11}, 5, scratch), 2.0, 0.0);
    close_to("one", nsi_series_spacing((double[]){2, 2.25}, 2, scratch), 0.25, 0.0);
    assert_true(isnan(nsi_series_spacing((double[]){1}, 1, scratch)));
}

// A polynomial of the order that is fitted stays itself, also on uneven rows, and so does its slope.
static void polynomials_are_smoothed_to_themselves(void** state) {
    (void)state;
    enum { ROWS = 40 };
    double x[ROWS], times[ROWS], out[ROWS];
    ns_rng rng = ns_rng_seed(2);
    for (int k = 0; k < ROWS; k++) {
        times[k] = 0.1 * k + ns_rng_uniform(&rng, -0.02, 0.02);
        x[k] = 1.0 + times[k] * (2.0 - times[k] * (0.5 + 0.3 * times[k]));
    }
    nsi_series_smooth(x, times, ROWS, 7, 3, false, out);
    all_close(out, x, ROWS, 1e-11);
    nsi_series_smooth(x, times, ROWS, 7, 3, true, out);
    for (int k = 0; k < ROWS; k++) {
        close_to("slope", out[k], 2.0 - times[k] * (1.0 + 0.9 * times[k]), 1e-10);
    }
}

// The weights of Savitzky and Golay for five points and a parabola: (-3 12 17 12 -3) / 35.
static void a_spike_shows_the_weights(void** state) {
    (void)state;
    double x[9] = {[4] = 35.0}, out[9];
    nsi_series_smooth(x, NULL, 9, 5, 2, false, out);
    all_close(out + 2, (double[]){-3, 12, 17, 12, -3}, 5, 1e-12);
}

static void missing_numbers_take_no_part(void** state) {
    (void)state;
    double x[9] = {0, 1, 2, NAN, 4, 5, 6, 7, 8}, out[9];
    nsi_series_smooth(x, NULL, 9, 5, 1, false, out);
    for (int k = 0; k < 9; k++) {
        if (k == 3) {
            assert_true(isnan(out[k]));
        } else {
            close_to("line", out[k], k, 1e-12);
        }
    }

    // Rows that are too far apart to be neighbours, and too few of them.
    double times[4] = {0, 1, 2, 100};
    nsi_series_smooth((double[]){1, 2, 3, 50}, times, 4, 3, 1, false, out);
    assert_true(isnan(out[3]));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(angles_become_continuous),
        cmocka_unit_test(the_spacing_is_the_lower_median),
        cmocka_unit_test(polynomials_are_smoothed_to_themselves),
        cmocka_unit_test(a_spike_shows_the_weights),
        cmocka_unit_test(missing_numbers_take_no_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
