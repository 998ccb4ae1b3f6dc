// PLY: the cuboid of the other formats as text and in both byte orders, and damaged files.

#include "io/mesh.h"
#include "support/assert.h"
#include "support/modelfile.h"
#include "support/testalloc.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

typedef struct binary {
    char bytes[2000];
    size_t size;
    bool big;
} binary;

static void put(binary* b, const void* value, size_t size) {
    const char* from = value;
    for (size_t i = 0; i < size; i++) b->bytes[b->size + (b->big ? size - 1 - i : i)] = from[i];
    b->size += size;
}

// The cuboid of 3 x 2 x 1, with doubles, lists to be skipped, and an element that is not read.
static void make_binary(bool big, binary* b) {
    static const int faces[6][4] = {{0, 1, 3, 2}, {4, 6, 7, 5}, {0, 4, 5, 1},
                                    {2, 3, 7, 6}, {0, 2, 6, 4}, {1, 5, 7, 3}};
    *b = (binary){.big = big};
    b->size = (size_t)snprintf(
        b->bytes, sizeof b->bytes,
        "ply\r\nformat binary_%s_endian 1.0\r\nelement odd 2\r\nproperty short s\r\n"
        "element vertex 8\nproperty double x\nproperty float y\nproperty int8 z\n"
        "property list uint16 float more\nelement face 6\n"
        "property list uchar ushort vertex_index\nend_header\n",
        big ? "big" : "little");
    const int16_t odd = -3;
    put(b, &odd, 2);
    put(b, &odd, 2);
    for (int k = 0; k < 8; k++) {
        double x = k & 1 ? 3.0 : 0.0;
        float y = k & 2 ? 2.0f : 0.0f;
        int8_t z = k & 4 ? 1 : 0;
        uint16_t count = (uint16_t)(k % 2);
        put(b, &x, 8), put(b, &y, 4), put(b, &z, 1), put(b, &count, 2);
        if (count > 0) put(b, &y, 4);
    }
    for (int f = 0; f < 6; f++) {
        const uint8_t count = 4;
        put(b, &count, 1);
        for (int k = 0; k < 4; k++) {
            uint16_t corner = (uint16_t)faces[f][k];
            put(b, &corner, 2);
        }
    }
}

static double volume_of(const nsi_surface* s) {
    double volume = 0.0;
    for (uint32_t k = 0; k < s->triangles.count; k += 3) {
        const double *a = s->vertices.data + 3 * (size_t)s->triangles.data[k],
                     *b = s->vertices.data + 3 * (size_t)s->triangles.data[k + 1],
                     *c = s->vertices.data + 3 * (size_t)s->triangles.data[k + 2];
        volume += (a[0] * (b[1] * c[2] - b[2] * c[1]) + a[1] * (b[2] * c[0] - b[0] * c[2]) +
                   a[2] * (b[0] * c[1] - b[1] * c[0])) /
                  6.0;
    }
    return volume;
}

static void check_cuboid(const char* bytes, size_t size, const char* name) {
    ns_allocator allocator = ns_default_allocator();
    ns_error error = {0};
    nsi_mesh mesh;
    must(nsi_mesh_parse(bytes, size, name, &allocator, &mesh, &error), &error);
    assert_int_equal(mesh.count, 8);
    double sum[3] = {0.0};
    for (int k = 0; k < 24; k++) sum[k % 3] += mesh.corners[k];
    all_close(sum, (const double[]){12, 8, 4}, 3, 0.0);
    nsi_surface surface;
    must(nsi_surface_parse(bytes, size, name, 12, &allocator, &surface, &error), &error);
    assert_int_equal(surface.triangles.count, 36);
    assert_int_equal(surface.vertices.count, 24);
    close_to("volume", fabs(volume_of(&surface)), 6.0, 1e-14);
    nsi_surface_free(&allocator, &surface);
}

static void all_forms_are_the_same_cuboid(void** state) {
    (void)state;
    size_t size;
    char* text = modelfile_read("mesh/cuboid.ply", &size);
    check_cuboid(text, size, "a.PLY");
    free(text);
    for (int big = 0; big < 2; big++) {
        binary b;
        make_binary(big == 1, &b);
        check_cuboid(b.bytes, b.size, "a.ply");
    }
}

static void broken_files_get_a_message(void** state) {
    (void)state;
#define HEAD                                                                                       \
    "ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\n"                                  \
    "property float y\nproperty float z\n"
#define FACE "element face 1\nproperty list char int vertex_index\nend_header\n1 0 0\n"
    static const char* const cases[][2] = {
        {"", "a.ply:1: not a PLY file"},
        {"plyx\n", "not a PLY file"},
        {"ply\nformat ascii 1.0\n", "a.ply:3: cut off: there is no end_header"},
        {"ply\nend_header\n", "there is no format"},
        {"ply\nformat klingon 1\nend_header\n", "the format is unknown"},
        {"ply\nformat ascii 1.0\nelement vertex -1\n", "needs a name and a whole number"},
        {"ply\nformat ascii 1.0\nelement vertex 4.7\n", "needs a name and a whole number"},
        {"ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float z\nend_header\n"
         "1 2\n",
         "vertices need x, y and z"},
        {"ply\nformat ascii 1.0\nproperty float x\n", "a property of nothing"},
        {"ply\nformat ascii 1.0\nelement vertex 1\nproperty text x\n", "a property has no type"},
        {HEAD "end_header\n", "a.ply:8: cut off, or not a number"},
        {HEAD "end_header\nx\n", "cut off, or not a number"},
        {HEAD "end_header\n0 1e300 0\n", "not finite or beyond 1e9"},
        {HEAD FACE "3 0 0 1\n", "a corner that is no vertex"},
        {HEAD FACE "3 0 0 0.5\n", "a corner that is no vertex"},
        {HEAD FACE "-1\n", "a length that is not 0 to 4096"},
        {HEAD FACE "3 0 0\n", "cut off inside of a list"},
    };
    ns_allocator allocator = ns_default_allocator();
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        ns_error error = {0};
        nsi_surface surface;
        ns_status status = nsi_surface_parse(cases[k][0], strlen(cases[k][0]), "a.ply", 9,
                                             &allocator, &surface, &error);
        nsi_surface_free(&allocator, &surface);
        assert_int_equal(status, NS_ERR_PARSE);
        if (!strstr(error.message, cases[k][1])) fail_msg("%s: %s", cases[k][1], error.message);
    }
}

static void memory_may_run_out_anywhere(void** state) {
    (void)state;
    binary b;
    make_binary(true, &b);
    for (size_t n = 1;; n++) {
        test_alloc counter = {.fail_at = n};
        ns_allocator allocator = test_allocator(&counter);
        nsi_surface surface;
        ns_status status =
            nsi_surface_parse(b.bytes, b.size, "a.ply", 12, &allocator, &surface, NULL);
        nsi_surface_free(&allocator, &surface);
        assert_int_equal(counter.live_blocks, 0);
        if (counter.calls < n) {
            assert_int_equal(status, NS_OK);
            return;
        }
        assert_int_equal(status, NS_ERR_NOMEM);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_forms_are_the_same_cuboid),
        cmocka_unit_test(broken_files_get_a_message),
        cmocka_unit_test(memory_may_run_out_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
