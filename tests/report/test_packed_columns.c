// Columns read back, by a decoder of the test's own, to the precision they promise: of all kinds of
// numbers, also of those that nobody should have.

#include "report/packed_columns.h"

#include "support/payload.h"
#include "support/testalloc.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

enum { ROWS = 1000 };

static payload read_back(const nsi_columns* columns) {
    ns_json* j = ns_json_create(NULL);
    nsi_columns_describe(columns, "columns", j);
    ns_text json, text;
    assert_int_equal(ns_json_finish(j, &json, NULL), NS_OK);
    nsi_text_builder b = {.allocator = ns_default_allocator()};
    assert_int_equal(nsi_columns_write(columns, &b, NULL), NS_OK);
    assert_int_equal(nsi_text_finish(&b, &text, NULL), NS_OK);
    json_t* data = json_loads(json.data, 0, NULL);
    assert_non_null(data);
    payload p = payload_unpack(json_object_get(data, "columns"), text.data, text.size);
    json_decref(data);
    ns_text_free(&json);
    ns_text_free(&text);
    return p;
}

// One column there and back, each number within `error`; missing ones are those that must be.
static void check_column(const char* what, const double* values, uint32_t rows, double step,
                         double error) {
    nsi_columns columns = {.allocator = ns_default_allocator()};
    assert_int_equal(nsi_columns_add(&columns, values, 1, rows, step, NULL), NS_OK);
    payload p = read_back(&columns);
    assert_int_equal(p.ncolumn, 1);
    assert_int_equal(p.rows[0], rows);
    for (uint32_t k = 0; k < rows; k++) {
        double x = values[k], y = p.columns[0][k];
        bool missing = !(fabs(x) <= DBL_MAX / 2.0);
        if (missing != (bool)isnan(y) || (!missing && !(fabs(x - y) <= error))) {
            fail_msg("%s, row %u: %.17g was read as %.17g, more than %g off", what, k, x, y, error);
        }
    }
    payload_free(&p);
    nsi_columns_free(&columns);
}

static double range_of(const double* values, uint32_t rows) {
    double low = INFINITY, high = -INFINITY;
    for (uint32_t k = 0; k < rows; k++) {
        if (!(fabs(values[k]) <= DBL_MAX / 2.0)) continue;
        low = fmin(low, values[k]);
        high = fmax(high, values[k]);
    }
    return high > low ? high - low : 0.0;
}

// Half a step, and the rounding of offset + step k.
static double promised(const double* values, uint32_t rows) {
    double most = 0.0;
    for (uint32_t k = 0; k < rows; k++) {
        if (fabs(values[k]) <= DBL_MAX / 2.0) most = fmax(most, fabs(values[k]));
    }
    return ldexp(range_of(values, rows), -25) * (1.0 + 1e-9) + 2.0 * DBL_EPSILON * most +
           DBL_TRUE_MIN;
}

// ---- kinds of numbers ------------------------------------------------------------------------

static void numbers_are_good_to_a_step(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(1);
    double values[ROWS];
    for (int scale = -300; scale <= 300; scale += 20) {
        double unit = pow(10.0, scale), shift = ns_rng_uniform(&rng, -3.0, 3.0);
        for (int kind = 0; kind < 4; kind++) {
            for (uint32_t k = 0; k < ROWS; k++) {
                double t = 0.01 * k, noise = ns_rng_normal(&rng);
                double x = kind == 0   ? sin(t)
                           : kind == 1 ? noise
                           : kind == 2 ? floor(t)
                                       : 1e-9 * t * t;
                values[k] = unit * (x + shift);
                if (kind == 1 && ns_rng_below(&rng, 5) == 0) values[k] = NAN;
            }
            char what[60];
            snprintf(what, sizeof what, "kind %d of 1e%d", kind, scale);
            check_column(what, values, ROWS, NSI_ANY_STEP, promised(values, ROWS));
        }
    }
}

static void lengths_are_good_to_a_tenth_of_a_micrometre(void** state) {
    (void)state;
    double values[ROWS];
    for (double range = 1e-3; range < 100.0; range *= 3.0) {
        for (uint32_t k = 0; k < ROWS; k++) values[k] = range * sin(0.03 * k) - 0.7;
        check_column("length", values, ROWS, NSI_POSE_STEP, 0.51e-7);
    }
    // A robot that is shot off: as good as 32 bits can be.
    for (uint32_t k = 0; k < ROWS; k++) values[k] = 1e6 * k * k;
    check_column("far away", values, ROWS, NSI_POSE_STEP,
                 ldexp(range_of(values, ROWS), -32) * 1.01);
}

static void evenly_spaced_numbers_are_exact(void** state) {
    (void)state;
    double values[ROWS];
    for (uint32_t k = 0; k < ROWS; k++) values[k] = k * 0.001;
    check_column("time", values, ROWS, NSI_ANY_STEP, 2.0 * DBL_EPSILON);
    for (uint32_t k = 0; k < ROWS; k++) values[k] = 1000.0 + k / 60.0;
    check_column("later time", values, ROWS, NSI_ANY_STEP, 2000.0 * DBL_EPSILON);
}

static void constant_columns_are_exact(void** state) {
    (void)state;
    static const double constants[] = {0.0, -0.0, 0.1, -1e-320, 1e307, 12345.678};
    double values[ROWS];
    for (size_t c = 0; c < sizeof constants / sizeof *constants; c++) {
        for (uint32_t k = 0; k < ROWS; k++) values[k] = constants[c];
        check_column("constant", values, ROWS, NSI_ANY_STEP, 0.0);
        values[0] = NAN, values[500] = INFINITY, values[ROWS - 1] = -INFINITY;
        check_column("constant with gaps", values, ROWS, NSI_ANY_STEP, 0.0);
        check_column("one row", values + 1, 1, NSI_POSE_STEP, 0.0);
    }
}

static void hostile_numbers_do_no_harm(void** state) {
    (void)state;
    static const double all[] = {
        NAN,     INFINITY,    -INFINITY,    1.7e308,      -1.7e308, 8e307,
        -8e307,  DBL_MAX / 2, -DBL_MAX / 2, 0.0,          -0.0,     DBL_TRUE_MIN,
        DBL_MIN, -DBL_MIN,    DBL_EPSILON,  1.0,          -1e-310,  3e-310,
        1e300,   -1e-7,       1e-7,         4294967295.0, 1e16,     9007199254740993.0};
    enum { NALL = sizeof all / sizeof *all };
    check_column("all", all, NALL, NSI_ANY_STEP, promised(all, NALL));
    check_column("all as poses", all, NALL, NSI_POSE_STEP, promised(all, NALL));
    for (uint32_t k = 0; k < NALL; k++) {
        check_column("one", all + k, 1, NSI_ANY_STEP, 0.0);
        for (uint32_t i = 0; i < NALL; i++) {
            const double pair[4] = {all[k], all[i], all[k], all[i]};
            check_column("two", pair, 4, NSI_ANY_STEP, promised(pair, 4));
            check_column("two as poses", pair, 4, NSI_POSE_STEP, promised(pair, 4));
        }
    }
    const double tiny[] = {0.0,    DBL_TRUE_MIN, 5.0 * DBL_TRUE_MIN, 1e6 * DBL_TRUE_MIN,
                           1e-316, 3e-316};
    check_column("denormals", tiny, 4, NSI_ANY_STEP, 0.0); // steps of one are enough
    check_column("more of them", tiny, 6, NSI_ANY_STEP, promised(tiny, 6));
    const double missing[] = {NAN, NAN, NAN, NAN, NAN};
    check_column("nothing", missing, 5, NSI_ANY_STEP, 0.0);
    check_column("no rows", missing, 0, NSI_ANY_STEP, 0.0);
}

// ---- several columns -------------------------------------------------------------------------

static void columns_have_lengths_and_strides_of_their_own(void** state) {
    (void)state;
    double table[3 * ROWS];
    for (uint32_t k = 0; k < ROWS; k++) {
        for (uint32_t c = 0; c < 3; c++) table[3 * k + c] = cos(0.01 * (c + 1) * k);
    }
    nsi_columns columns = {.allocator = ns_default_allocator()};
    for (uint32_t c = 0; c < 3; c++) {
        assert_int_equal(
            nsi_columns_add(&columns, table + c, 3, ROWS - 100 * c, NSI_ANY_STEP, NULL), NS_OK);
    }
    const double* other = table + 2; // in place of the second
    nsi_columns_replace(&columns, 1, other, 3, NSI_ANY_STEP);
    payload p = read_back(&columns);
    assert_int_equal(p.ncolumn, 3);
    for (uint32_t c = 0; c < 3; c++) {
        assert_int_equal(p.rows[c], ROWS - 100 * c);
        for (uint32_t k = 0; k < p.rows[c]; k++) {
            assert_true(fabs(p.columns[c][k] - table[3 * k + (c == 1 ? 2 : c)]) < 1e-7);
        }
    }
    payload_free(&p);
    nsi_columns_free(&columns);
}

static void no_columns_are_no_error(void** state) {
    (void)state;
    nsi_columns columns = {.allocator = ns_default_allocator()};
    payload p = read_back(&columns);
    assert_int_equal(p.ncolumn, 0);
    payload_free(&p);
    nsi_columns_free(&columns);
}

// Noise does not pack, so that what zlib hands out fills its room many times.
static void long_columns_of_noise_come_back(void** state) {
    (void)state;
    enum { MANY = 300000 };
    ns_rng rng = ns_rng_seed(2);
    double* values = malloc(MANY * sizeof *values);
    for (uint32_t k = 0; k < MANY; k++) values[k] = ns_rng_normal(&rng);
    check_column("noise", values, MANY, NSI_ANY_STEP, promised(values, MANY));
    free(values);
}

// Smooth motion takes less than a byte for each number.
static void smooth_motion_is_small(void** state) {
    (void)state;
    double values[10 * ROWS];
    for (uint32_t k = 0; k < 10 * ROWS; k++) values[k] = sin(0.003 * k) + 0.3 * cos(0.007 * k);
    nsi_columns columns = {.allocator = ns_default_allocator()};
    assert_int_equal(nsi_columns_add(&columns, values, 1, 10 * ROWS, NSI_ANY_STEP, NULL), NS_OK);
    nsi_text_builder b = {.allocator = ns_default_allocator()};
    assert_int_equal(nsi_columns_write(&columns, &b, NULL), NS_OK);
    double each = 0.75 * b.text.count / (10.0 * ROWS);
    print_message("%.2f bytes a number\n", each);
    assert_true(each < 0.75);
    nsi_array_free(&b.allocator, &b.text);
    nsi_columns_free(&columns);
}

static void too_many_numbers_are_refused(void** state) {
    (void)state;
    ns_error error;
    nsi_columns columns = {.allocator = ns_default_allocator()};
    assert_int_equal(nsi_columns_add(&columns, NULL, 0, NS_MOTION_MAX_NUMBERS + 1, 1.0, &error),
                     NS_ERR_LIMIT);
    assert_non_null(strstr(error.message, "50 million"));
    nsi_columns_free(&columns);
}

static void out_of_memory_is_told(void** state) {
    (void)state;
    double values[ROWS];
    for (uint32_t k = 0; k < ROWS; k++) values[k] = sin(0.01 * k);
    ns_status status = NS_ERR_NOMEM;
    for (size_t n = 1; status == NS_ERR_NOMEM; n++) {
        assert_true(n < 100);
        test_alloc counter = {.fail_at = n};
        nsi_columns columns = {.allocator = test_allocator(&counter)};
        nsi_text_builder b = {.allocator = columns.allocator};
        status = nsi_columns_add(&columns, values, 1, ROWS, NSI_ANY_STEP, NULL);
        if (status == NS_OK) status = nsi_columns_write(&columns, &b, NULL);
        assert_true(status == NS_OK || status == NS_ERR_NOMEM);
        assert_true(status == NS_ERR_NOMEM || counter.calls < n);
        nsi_array_free(&b.allocator, &b.text);
        nsi_columns_free(&columns);
        assert_int_equal(counter.live_blocks, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_good_to_a_step),
        cmocka_unit_test(lengths_are_good_to_a_tenth_of_a_micrometre),
        cmocka_unit_test(evenly_spaced_numbers_are_exact),
        cmocka_unit_test(constant_columns_are_exact),
        cmocka_unit_test(hostile_numbers_do_no_harm),
        cmocka_unit_test(columns_have_lengths_and_strides_of_their_own),
        cmocka_unit_test(no_columns_are_no_error),
        cmocka_unit_test(long_columns_of_noise_come_back),
        cmocka_unit_test(smooth_motion_is_small),
        cmocka_unit_test(too_many_numbers_are_refused),
        cmocka_unit_test(out_of_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
