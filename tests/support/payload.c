// The data of a page, read.

#include "support/payload.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <cmocka.h>

// What stands in <script type=... id="...">; the place and its size.
static const char* find_script(const char* page, const char* id, size_t* size) {
    char mark[100];
    snprintf(mark, sizeof mark, " id=\"%s\">", id);
    const char* start = strstr(page, mark);
    if (!start) fail_msg("the page has no script %s", id);
    start += strlen(mark);
    const char* end = strstr(start, "</script>");
    if (!end) fail_msg("the script %s does not end", id);
    *size = (size_t)(end - start);
    return start;
}

static unsigned char* from_base64(const char* text, size_t size, size_t* out_size) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    assert_int_equal(size % 4, 0);
    unsigned char* bytes = malloc(size / 4 * 3 + 1);
    size_t count = 0;
    for (size_t k = 0; k < size; k += 4) {
        unsigned long group = 0;
        for (int i = 0; i < 4; i++) {
            const char* digit =
                text[k + (size_t)i] == '=' ? digits : strchr(digits, text[k + (size_t)i]);
            assert_non_null(digit);
            group = group << 6 | (unsigned long)(digit - digits);
        }
        for (int i = 2; i >= 0; i--) bytes[count++] = (unsigned char)(group >> 8 * i & 255);
    }
    bool two = size > 0 && text[size - 2] == '=', one = size > 0 && text[size - 1] == '=';
    *out_size = count - (two ? 2 : one ? 1 : 0);
    return bytes;
}

// Undo differences one order at a time, each as a running sum.
static void decode(const unsigned char* planes, size_t total, size_t first, uint32_t rows,
                   long long order, double offset, double step, double* out) {
    uint32_t* u = malloc((rows + 1) * sizeof *u);
    for (uint32_t k = 0; k < rows; k++) {
        uint32_t stored = 0;
        for (size_t p = 0; p < 4; p++) stored |= (uint32_t)planes[p * total + first + k] << 8 * p;
        u[k] = stored % 2 ? UINT32_MAX - stored / 2 : stored / 2; // -1 - n is odd 2n + 1
    }
    for (long long i = 0; i < order; i++) {
        for (uint32_t k = 1; k < rows; k++) u[k] += u[k - 1];
    }
    for (uint32_t k = 0; k < rows; k++) {
        out[k] = u[k] == 0 ? (double)NAN : offset + step * (double)(u[k] - 1);
    }
    free(u);
}

payload payload_unpack(const json_t* columns, const char* base64, size_t size) {
    const json_t *rows = json_object_get(columns, "rows"),
                 *orders = json_object_get(columns, "orders");
    const json_t *offsets = json_object_get(columns, "offsets"),
                 *steps = json_object_get(columns, "steps");
    payload p = {.ncolumn = (uint32_t)json_array_size(rows)};
    assert_int_equal(json_array_size(orders), p.ncolumn);
    assert_int_equal(json_array_size(offsets), p.ncolumn);
    assert_int_equal(json_array_size(steps), p.ncolumn);
    p.rows = malloc((p.ncolumn + 1) * sizeof *p.rows);
    p.columns = malloc((p.ncolumn + 1) * sizeof *p.columns);
    size_t total = 0, packed_size, first = 0;
    for (uint32_t c = 0; c < p.ncolumn; c++) {
        p.rows[c] = (uint32_t)json_integer_value(json_array_get(rows, c));
        total += p.rows[c];
    }
    unsigned char* packed = from_base64(base64, size, &packed_size);
    unsigned char* planes = malloc(4 * total + 1);
    uLongf unpacked = 4 * total + 1; // one byte more would be seen
    assert_int_equal(uncompress(planes, &unpacked, packed, packed_size), Z_OK);
    assert_int_equal(unpacked, 4 * total);
    for (uint32_t c = 0; c < p.ncolumn; c++) {
        long long order = json_integer_value(json_array_get(orders, c));
        assert_in_range(order, 0, 4);
        assert_true(json_is_number(json_array_get(offsets, c)));
        assert_true(json_is_number(json_array_get(steps, c)));
        p.columns[c] = malloc((p.rows[c] + 1) * sizeof **p.columns);
        decode(planes, total, first, p.rows[c], order,
               json_number_value(json_array_get(offsets, c)),
               json_number_value(json_array_get(steps, c)), p.columns[c]);
        first += p.rows[c];
    }
    free(packed);
    free(planes);
    return p;
}

payload payload_read(const char* page) {
    size_t size;
    json_error_t error;
    const char* text = find_script(page, "viewer-data", &size);
    if (memchr(text, '<', size)) fail_msg("the data has a '<'");
    json_t* data = json_loadb(text, size, 0, &error); // checks that it is UTF-8
    if (!data) fail_msg("%s: %.200s", error.text, text);
    text = find_script(page, "viewer-bytes", &size);
    payload p = payload_unpack(json_object_get(data, "columns"), text, size);
    p.data = data;
    return p;
}

void payload_free(payload* p) {
    for (uint32_t c = 0; c < p->ncolumn; c++) free(p->columns[c]);
    free(p->columns);
    free(p->rows);
    json_decref(p->data);
}

const double* payload_quantity(const payload* p, uint32_t episode, uint32_t track,
                               const char* name) {
    const json_t* e = json_array_get(json_object_get(p->data, "episodes"), episode);
    const json_t* list = json_object_get(e, "quantities");
    for (size_t k = 0; k < json_array_size(list); k++) {
        const json_t* q = json_array_get(list, k);
        if (strcmp(json_string_value(json_object_get(q, "name")), name) != 0) continue;
        const json_t* columns = json_object_get(q, "columns");
        assert_int_equal(json_array_size(columns), json_array_size(json_object_get(e, "tracks")));
        const json_t* column = json_array_get(columns, track);
        return json_is_integer(column) ? p->columns[json_integer_value(column)] : NULL;
    }
    return NULL;
}

uint32_t payload_count(const char* text, const char* part) {
    uint32_t count = 0;
    for (; (text = strstr(text, part)); text += strlen(part)) count++;
    return count;
}
