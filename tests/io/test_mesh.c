// Meshes: which corners are kept, triangles, files of both formats, damaged ones, and models that
// name them.

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

#define MESHES NEURALSIM_SOURCE_DIR "/tests/data/mesh/"

static nsi_mesh reduce(const double* vertices, uint32_t count) {
    ns_allocator allocator = ns_default_allocator();
    nsi_hull hull;
    nsi_mesh mesh;
    nsi_hull_start(&hull, &allocator);
    for (uint32_t i = 0; i < count; i++) assert_true(nsi_hull_add(&hull, vertices + 3 * i));
    assert_int_equal(nsi_hull_finish(&hull, &mesh), NS_OK);
    return mesh;
}

static ns_status parse_mesh(const char* bytes, size_t size, const char* name, nsi_mesh* out,
                            ns_error* error) {
    ns_allocator allocator = ns_default_allocator();
    return nsi_mesh_parse(bytes, size, name, &allocator, out, error);
}

static bool has_corner(const nsi_mesh* mesh, double x, double y, double z) {
    for (uint32_t i = 0; i < mesh->count; i++) {
        const double* c = mesh->corners + 3 * i;
        if (c[0] == x && c[1] == y && c[2] == z) return true;
    }
    return false;
}

// Eight corners of the cuboid in the files, and nothing else.
static void check_cuboid(const nsi_mesh* mesh) {
    assert_int_equal(mesh->count, 8);
    for (int k = 0; k < 8; k++) {
        assert_true(has_corner(mesh, k & 1 ? 3 : 0, k & 2 ? 2 : 0, k & 4 ? 1 : 0));
    }
}

// ---- corners -----------------------------------------------------------------------------------

static void few_vertices_are_all_kept(void** state) {
    (void)state;
    const double point[] = {1, 2, 3};
    nsi_mesh mesh = reduce(point, 1);
    assert_int_equal(mesh.count, 1);
    assert_true(has_corner(&mesh, 1, 2, 3));

    const double tetrahedron[] = {0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0.2, 0.2, 0.2, 1, 0, 0};
    mesh = reduce(tetrahedron, 6);
    assert_int_equal(mesh.count, 4); // not the one inside, none twice
    assert_false(has_corner(&mesh, 0.2, 0.2, 0.2));
    mesh = reduce(NULL, 0);
    assert_int_equal(mesh.count, 0);
}

static void boxes_keep_their_corners(void** state) {
    (void)state;
    // A fine grid on a flat box.
    enum { N = 21 };
    static double grid[3 * N * N * 2];
    uint32_t count = 0;
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            for (int k = 0; k < 2; k++, count++) {
                grid[3 * count] = 0.1 * i, grid[3 * count + 1] = 0.1 * j;
                grid[3 * count + 2] = 0.05 * k;
            }
        }
    }
    nsi_mesh mesh = reduce(grid, count);
    for (int k = 0; k < 8; k++) {
        assert_true(
            has_corner(&mesh, k & 1 ? 0.1 * 20 : 0, k & 2 ? 0.1 * 20 : 0, k & 4 ? 0.05 : 0));
    }
    assert_true(mesh.count < 16);
}

// All corners of a box without its corners, which are close together in pairs; points inside and on its
// faces, and copies.
static void small_faces_stay(void** state) {
    (void)state;
    double points[3 * 200];
    uint32_t count = 0;
    for (int axis = 0; axis < 3; axis++) {
        for (int k = 0; k < 8; k++) { // a face's corners, a hundredth inside
            for (int i = 0; i < 3; i++) {
                double edge = k >> i & 1 ? 1.0 : -1.0;
                points[3 * count + (uint32_t)i] = i == axis ? edge : 0.99 * edge;
            }
            count++;
        }
    }
    for (uint32_t k = 24; k < 200; k++, count++) {
        memcpy(points + 3 * k, points + 3 * (k % 24), 3 * sizeof *points);
        if (k % 2) points[3 * k + k % 3] *= 0.5;
    }
    nsi_mesh mesh = reduce(points, count);
    assert_int_equal(mesh.count, 24);
    for (uint32_t k = 0; k < 24; k++) {
        assert_true(has_corner(&mesh, points[3 * k], points[3 * k + 1], points[3 * k + 2]));
    }
}

// How deep the sides of what is left of a ball lie inside.
static void balls_become_polyhedra(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(4);
    ns_allocator allocator = ns_default_allocator();
    nsi_hull hull;
    nsi_hull_start(&hull, &allocator);
    for (int i = 0; i < 50000; i++) {
        double v[3] = {ns_rng_normal(&rng), ns_rng_normal(&rng), ns_rng_normal(&rng)};
        double length = sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
        for (int k = 0; k < 3; k++) v[k] /= length;
        assert_true(nsi_hull_add(&hull, v));
    }
    nsi_mesh mesh;
    assert_int_equal(nsi_hull_finish(&hull, &mesh), NS_OK);
    assert_int_equal(mesh.count, NSI_MESH_MAX_CORNERS);
    double worst = 1.0; // how far the corners reach in a direction, of the radius
    for (int i = 0; i < 20000; i++) {
        double d[3] = {ns_rng_normal(&rng), ns_rng_normal(&rng), ns_rng_normal(&rng)};
        double length = sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2]), reach = -1.0;
        for (uint32_t c = 0; c < mesh.count; c++) {
            const double* v = mesh.corners + 3 * c;
            reach = fmax(reach, (v[0] * d[0] + v[1] * d[1] + v[2] * d[2]) / length);
        }
        worst = fmin(worst, reach);
    }
    printf("a ball's corners reach to %.3f of its radius everywhere\n", worst);
    assert_true(worst > 0.83);
}

static void far_vertices_are_refused(void** state) {
    (void)state;
    ns_allocator allocator = ns_default_allocator();
    nsi_hull hull;
    nsi_hull_start(&hull, &allocator);
    assert_false(nsi_hull_add(&hull, (const double[]){0, NAN, 0}));
    assert_false(nsi_hull_add(&hull, (const double[]){0, 0, -INFINITY}));
    assert_false(nsi_hull_add(&hull, (const double[]){2e9, 0, 0}));
    assert_int_equal(hull.nvertex, 0);
}

// ---- files -------------------------------------------------------------------------------------

static void files_are_read(void** state) {
    (void)state;
    nsi_mesh mesh;
    ns_error error = {0};
    ns_allocator allocator = ns_default_allocator();
    assert_int_equal(nsi_mesh_read(MESHES "cuboid.obj", &allocator, &mesh, &error), NS_OK);
    check_cuboid(&mesh);
    assert_int_equal(nsi_mesh_read(MESHES "cuboid.STL", &allocator, &mesh, &error), NS_OK);
    check_cuboid(&mesh);
    assert_int_equal(nsi_mesh_read(MESHES "nowhere.obj", &allocator, &mesh, &error), NS_ERR_IO);
    assert_int_equal(mesh.count, 0);
    assert_int_equal(nsi_mesh_read(MESHES "mjcf.xml", &allocator, &mesh, &error),
                     NS_ERR_UNSUPPORTED);
}

static size_t put_u32(char* at, uint32_t value) {
    for (int k = 0; k < 4; k++) at[k] = (char)(value >> (8 * k) & 0xFF);
    return 4;
}

static size_t put_float(char* at, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return put_u32(at, bits);
}

// A binary STL file of triangles between the corners of a cuboid; returns its size.
static size_t make_binary(char* out, uint32_t count) {
    memset(out, ' ', 80);
    memcpy(out, "solid", 5); // as some programs write it
    size_t at = 80;
    at += put_u32(out + at, count);
    for (uint32_t i = 0; i < count; i++) {
        for (int k = 0; k < 3; k++) at += put_float(out + at, 0.5f);
        for (uint32_t v = 0; v < 3; v++) {
            uint32_t corner = (3 * i + v) % 8;
            at += put_float(out + at, corner & 1 ? 3.0f : 0.0f);
            at += put_float(out + at, corner & 2 ? 2.0f : 0.0f);
            at += put_float(out + at, corner & 4 ? 1.0f : 0.0f);
        }
        out[at++] = 0, out[at++] = 0;
    }
    return at;
}

static void binary_stl_is_read(void** state) {
    (void)state;
    char bytes[84 + 50 * 8];
    size_t size = make_binary(bytes, 8);
    nsi_mesh mesh;
    ns_error error = {0};
    assert_int_equal(parse_mesh(bytes, size, "a.stl", &mesh, &error), NS_OK);
    check_cuboid(&mesh);
    memcpy(bytes, "Solid", 5);
    assert_int_equal(parse_mesh(bytes, size, "a.Stl", &mesh, &error), NS_OK);
    check_cuboid(&mesh);
}

static void expect_error(const char* bytes, size_t size, const char* name, ns_status status,
                         const char* fragment) {
    nsi_mesh mesh;
    ns_error error = {0};
    // An exact copy, so that a sanitizer sees a read past the end.
    char* exact = malloc(size + (size == 0));
    memcpy(exact, bytes, size);
    ns_status got = parse_mesh(exact, size, name, &mesh, &error);
    if (got != status) fail_msg("%s: status %d: %s", name, got, error.message);
    if (!strstr(error.message, fragment)) fail_msg("%s, not %s", error.message, fragment);
    assert_memory_equal(error.message, name, strlen(name));
    assert_int_equal(mesh.count, 0);
    free(exact);
}

static void broken_files_say_what_is_wrong(void** state) {
    (void)state;
    char bytes[84 + 50 * 8];
    size_t size = make_binary(bytes, 8);
    memcpy(bytes, "xxxxx", 5);
    expect_error(bytes, size - 1, "a.stl", NS_ERR_PARSE,
                 "cut off, or not an STL file: 8 triangles");
    expect_error(bytes, 84, "a.stl", NS_ERR_PARSE, "8 triangles need 484 bytes, and it has 84");
    expect_error(bytes, 83, "a.stl", NS_ERR_PARSE, "not an STL file: it has 83 bytes");
    expect_error(bytes, 0, "a.stl", NS_ERR_PARSE, "it has 0 bytes");
    put_u32(bytes + 80, UINT32_MAX); // would not fit 32 bits
    expect_error(bytes, size, "a.stl", NS_ERR_PARSE,
                 "4294967295 triangles need 214748364834 bytes");
    put_u32(bytes + 80, 0);
    expect_error(bytes, size, "a.stl", NS_ERR_PARSE, "has no vertices");
    make_binary(bytes, 8);
    put_float(bytes + 84 + 50 + 12, NAN);
    expect_error(bytes, size, "a.stl", NS_ERR_PARSE, "triangle 2 has a vertex that is not finite");
    put_float(bytes + 84 + 50 + 12, 1e30f);
    expect_error(bytes, size, "a.stl", NS_ERR_PARSE, "triangle 2");

    static const struct {
        const char *name, *text, *fragment;
    } cases[] = {
        {"a.stl", "solid a\n", "a.stl:2: cut off: there is no endsolid"},
        {"a.stl", "solid a\nendsolid", "has no vertices"},
        {"a.stl", "solid a\nfacet\nvertex 1 2\nvertex 1 2 3\nendsolid\n",
         "a.stl:3: a vertex needs three numbers"},
        {"a.stl", "solid a\nvertex 1 2 nan\nendsolid\n", "a.stl:2: the vertex is not finite"},
        {"a.stl", "solid a\nvertex 1 2 1e12\nendsolid\n", "beyond 1e9"},
        {"a.stl", "solid a\nvertex 1 2 3x\nendsolid\n", "not \"3x\""},
        {"a.stl", "solid a\nvertex 1 2", "a.stl:2: a vertex needs three numbers, not \"\""},
        {"a.obj", "", "has no vertices"},
        {"a.obj", "# v 1 2 3\nvn 1 2 3\nf 1 2 3\n", "has no vertices"},
        {"a.obj", "v 0 0 0\nv 1 2\nv 1 2 3\n", "a.obj:2: a vertex needs three numbers"},
        {"a.obj", "v 0 0 inf\n", "a.obj:1: the vertex is not finite"},
        {"a.obj", "v 0 0 1,5\n", "not \"1,5\""},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        expect_error(cases[k].text, strlen(cases[k].text), cases[k].name, NS_ERR_PARSE,
                     cases[k].fragment);
    }
    expect_error("v 0 0 0", 7, "a.3ds", NS_ERR_UNSUPPORTED, "is not .stl, .obj");
    expect_error("v 0 0 0", 7, "obj", NS_ERR_UNSUPPORTED, "is not .stl, .obj");

    nsi_mesh mesh;
    ns_error error;
    size_t much = (size_t)NSI_MESH_MAX_SIZE + 1;
    char* large = calloc(much, 1);
    assert_int_equal(parse_mesh(large, much, "a.obj", &mesh, &error), NS_ERR_LIMIT);
    assert_non_null(strstr(error.message, "a.obj: larger than 64 MiB"));
    free(large);
}

static void damaged_files_do_no_harm(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(2027);
    char binary[84 + 50 * 8];
    size_t sizes[3] = {0, 0, make_binary(binary, 8)};
    char* texts[3] = {modelfile_read("mesh/cuboid.obj", &sizes[0]),
                      modelfile_read("mesh/cuboid.STL", &sizes[1]), binary};
    static const char* const names[3] = {"d.obj", "d.stl", "d.stl"};
    uint32_t good = 0, bad = 0;
    for (int i = 0; i < 6000; i++) {
        size_t size;
        char* damaged = modelfile_damage(&rng, texts[i % 3], sizes[i % 3], &size);
        char* exact = malloc(size + (size == 0));
        memcpy(exact, damaged, size);
        nsi_mesh mesh;
        ns_error error = {0};
        if (parse_mesh(exact, size, names[i % 3], &mesh, &error) == NS_OK) {
            assert_in_range(mesh.count, 1, NSI_MESH_MAX_CORNERS);
            for (uint32_t k = 0; k < 3 * mesh.count; k++) {
                assert_true(fabs(mesh.corners[k]) <= 1e9);
            }
            good++;
        } else {
            assert_memory_equal(error.message, names[i % 3], 5);
            bad++;
        }
        free(exact);
        free(damaged);
    }
    printf("%u damaged meshes read, %u refused\n", good, bad);
    assert_true(good > 100 && bad > 100);
    free(texts[0]);
    free(texts[1]);
}

// ---- triangles ---------------------------------------------------------------------------------

// Closed, and of this volume: every edge is that of two triangles, once in each direction.
static void check_closed(const nsi_surface* s, double expected) {
    uint32_t n = s->triangles.count;
    const uint32_t* t = s->triangles.data;
    double volume = 0.0;
    for (uint32_t k = 0; k < n; k += 3) {
        const double *a = s->vertices.data + 3 * t[k], *b = s->vertices.data + 3 * t[k + 1],
                     *c = s->vertices.data + 3 * t[k + 2];
        volume += (a[0] * (b[1] * c[2] - b[2] * c[1]) - a[1] * (b[0] * c[2] - b[2] * c[0]) +
                   a[2] * (b[0] * c[1] - b[1] * c[0])) /
                  6.0;
        for (uint32_t e = 0; e < 3; e++) {
            uint32_t from = t[k + e], to = t[k + (e + 1) % 3], there = 0, back = 0;
            for (uint32_t o = 0; o < n; o += 3) {
                for (uint32_t f = 0; f < 3; f++) {
                    uint32_t p = t[o + f], q = t[o + (f + 1) % 3];
                    there += p == from && q == to;
                    back += p == to && q == from;
                }
            }
            assert_true(there == 1 && back == 1);
        }
    }
    assert_true(fabs(fabs(volume) - expected) < 1e-12);
}

static void triangles_are_read(void** state) {
    (void)state;
    ns_allocator allocator = ns_default_allocator();
    nsi_surface surface;
    ns_error error;
    static const char* const files[] = {MESHES "cuboid.obj", MESHES "cuboid.STL"};
    for (int k = 0; k < 2; k++) {
        assert_int_equal(nsi_surface_read(files[k], 12, &allocator, &surface, NULL), NS_OK);
        assert_int_equal(surface.triangles.count, 36);
        assert_int_equal(surface.vertices.count, k == 0 ? 27 : 24); // one belongs to no face
        check_closed(&surface, 6.0);
        nsi_surface_free(&allocator, &surface);
        assert_int_equal(nsi_surface_read(files[k], 11, &allocator, &surface, &error),
                         NS_ERR_LIMIT);
        assert_non_null(strstr(error.message, "more than 11 triangles"));
        nsi_surface_free(&allocator, &surface);
    }
    assert_int_equal(nsi_surface_read(MESHES "nowhere.obj", 9, &allocator, &surface, NULL),
                     NS_ERR_IO);

    // Names of corners: with textures and normals, counted backwards, a corner twice, -0 is 0.
    static const char obj[] = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nv -0 0 0\n"
                              "f 1/1 3//2 2/3/4\nf 5 -4 -2\nf 1 4 3 # 2 1\nf 2 3 4\nf 1 1 2\nf 1 2";
    assert_int_equal(nsi_surface_parse(obj, sizeof obj - 1, "a.obj", 9, &allocator, &surface, NULL),
                     NS_OK);
    assert_int_equal(surface.vertices.count, 12);
    assert_int_equal(surface.triangles.count, 12);
    check_closed(&surface, 1.0 / 6.0);
    nsi_surface_free(&allocator, &surface);

    // Vertices of no face do not go without bound.
    static const char loose[] = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 2 0 0\nv 3 0 0\nv 4 0 0\nv 5 0 0\n"
                                "f 1 2 3\n";
    for (uint32_t most = 2; most <= 3; most++) {
        assert_int_equal(
            nsi_surface_parse(loose, sizeof loose - 1, "a.obj", most, &allocator, &surface, NULL),
            most == 2 ? NS_ERR_LIMIT : NS_OK);
        nsi_surface_free(&allocator, &surface);
    }

    // Vertices alone stand for their hull; the one inside is no corner of it.
    static const char alone[] = "v 0 0 0\nv 3 0 0\nv 0 2 0\nv 3 2 0\nv 0 0 1\nv 3 0 1\nv 0 2 1\n"
                                "v 3 2 1\nv 1 1 0.5\n";
    assert_int_equal(
        nsi_surface_parse(alone, sizeof alone - 1, "a.obj", 12, &allocator, &surface, NULL), NS_OK);
    assert_int_equal(surface.triangles.count, 36);
    check_closed(&surface, 6.0);
    nsi_surface_free(&allocator, &surface);
    assert_int_equal(
        nsi_surface_parse(alone, sizeof alone - 1, "a.obj", 11, &allocator, &surface, &error),
        NS_ERR_LIMIT);
    nsi_surface_free(&allocator, &surface);
    static const char cloud[] = "ply\nformat ascii 1.0\nelement vertex 4\nproperty float x\n"
                                "property float y\nproperty float z\nend_header\n"
                                "0 0 0 1 0 0 0 1 0 0 0 1\n";
    assert_int_equal(
        nsi_surface_parse(cloud, sizeof cloud - 1, "a.ply", 9, &allocator, &surface, NULL), NS_OK);
    assert_int_equal(surface.triangles.count, 12);
    check_closed(&surface, 1.0 / 6.0);
    nsi_surface_free(&allocator, &surface);

    static const char* const bad[] = {"v 0 0 0\nf 1 2 3\n",          "v 0 0 0\nf 0 1 1\n",
                                      "v 0 0 0\nf -2 1 1\n",         "v 0 0 0\nf 1.5 1 1\n",
                                      "v 0 0 0\nf nan 1 1\n",        "v 0 0 0\nf / 1 1\n",
                                      "v 0 0 0\nv 1 0 0\nv 0 1 0\n", ""};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        assert_int_equal(
            nsi_surface_parse(bad[k], strlen(bad[k]), "a.obj", 9, &allocator, &surface, &error),
            NS_ERR_PARSE);
        assert_memory_equal(error.message, "a.obj:", 6);
        nsi_surface_free(&allocator, &surface);
    }
}

static void damaged_surfaces_do_no_harm(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(2028);
    char binary[84 + 50 * 8];
    size_t sizes[3] = {0, 0, make_binary(binary, 8)};
    char* texts[3] = {modelfile_read("mesh/cuboid.obj", &sizes[0]),
                      modelfile_read("mesh/cuboid.STL", &sizes[1]), binary};
    static const char* const names[3] = {"d.obj", "d.stl", "d.stl"};
    uint32_t good = 0, bad = 0;
    for (int i = 0; i < 6000; i++) {
        size_t size;
        char* damaged = modelfile_damage(&rng, texts[i % 3], sizes[i % 3], &size);
        char* exact = malloc(size + (size == 0));
        memcpy(exact, damaged, size);
        test_alloc counter = {.fail_at = i % 7 == 0 ? 1 + ns_rng_below(&rng, 8) : 0};
        ns_allocator allocator = test_allocator(&counter);
        nsi_surface surface;
        if (nsi_surface_parse(exact, size, names[i % 3], 100, &allocator, &surface, NULL) ==
            NS_OK) {
            assert_in_range(surface.triangles.count, 3, 300);
            for (uint32_t k = 0; k < surface.triangles.count; k++) {
                assert_true(surface.triangles.data[k] < surface.vertices.count / 3);
            }
            for (uint32_t k = 0; k < surface.vertices.count; k++) {
                assert_true(fabs(surface.vertices.data[k]) <= 1e9);
            }
            good++;
        } else {
            bad++;
        }
        nsi_surface_free(&allocator, &surface);
        assert_int_equal(counter.live_blocks, 0);
        free(exact);
        free(damaged);
    }
    assert_true(good > 100 && bad > 100);
    free(texts[0]);
    free(texts[1]);
}

// ---- in models ---------------------------------------------------------------------------------

static const ns_geom_def* geom_named(const ns_model* model, const char* name) {
    for (uint32_t i = 0; i < ns_model_get_sizes(model).ngeom; i++) {
        if (strcmp(ns_model_geom(model, i)->name, name) == 0) return ns_model_geom(model, i);
    }
    fail_msg("no geometry %s", name);
    return NULL;
}

static void urdf_meshes_are_found(void** state) {
    (void)state;
    ns_model* model = NULL;
    ns_error error = {0};
    ns_load_options options = ns_default_load_options();
    options.ground = true;
    must(ns_model_load(MESHES "urdf.urdf", &options, &model, &error), &error);
    modelfile_check(model);
    static const char* const found[] = {"obj", "stl", "file"};
    assert_int_equal(ns_model_get_sizes(model).ncontact, 3);
    for (uint32_t k = 0; k < 3; k++) {
        const ns_geom_def* geom = geom_named(model, found[k]);
        assert_true(geom->collision && geom->mesh);
        assert_int_equal(geom->nvertex, 8);
        const ns_contact_def* contact = ns_model_contact(model, k);
        assert_string_equal(contact->a, found[k]);
        assert_string_equal(contact->b, "ground");
        assert_true(contact->mu == 1.0 && contact->restitution == 0.25);
        assert_true(contact->stiffness == 30000.0 && contact->exponent == 1.0);
        assert_true(fabs(contact->damping - 0.5 / 300.0) < 1e-15); // N s/m over N at 1 cm
        assert_true(contact->max_depth == INFINITY);
        assert_true(geom->friction[0] == 0.6);
    }
    assert_true(geom_named(model, "obj")->size[2] == 2.0); // the scale is kept apart
    assert_false(geom_named(model, "lost")->collision);
    static const char* const notes[] = {
        "line 8: <rolling_friction> in <link name=\"body\"> is not represented; changes the motion",
        "line 6: <contact> in <link name=\"body\"> damping grows with the depth here: read as "
        "0.00166667 s/m, which is the same at a depth of 1 cm; changes the motion with springs",
        "line 14: <mesh> in <link name=\"body\"> mesh file \"nowhere.stl\" not found: the geometry "
        "is not drawn",
        "line 18: <mesh> in <collision name=\"lost\"> mesh file \"nowhere.stl\" not found: the "
        "geometry does not touch anything; changes the motion",
        "line 19: <mesh> in <collision name=\"other\"> mesh file \"urdf.urdf\" is not .stl, .obj, "
        ".ply "
        "or .dae: the geometry does not touch anything; changes the motion",
        "line 20: <mesh> in <collision name=\"folder\"> mesh file \"../mesh\" not found: the "
        "geometry does not touch anything; changes the motion",
    };
    assert_int_equal(ns_model_get_sizes(model).nignored, 6);
    for (uint32_t i = 0; i < 6; i++) assert_string_equal(ns_model_ignored(model, i), notes[i]);
    ns_model_free(model);

    // From memory there is no folder to look in.
    size_t size;
    char* text = modelfile_read("mesh/urdf.urdf", &size);
    model = modelfile_parse(text);
    assert_int_equal(ns_model_get_sizes(model).ncontact, 0);
    assert_true(modelfile_notes(model, "mesh file \"cuboid.obj\" cannot be found"));
    ns_model_free(model);
    free(text);
}

static void mjcf_meshes_are_found(void** state) {
    (void)state;
    ns_model* model = modelfile_load("mesh/mjcf.xml");
    assert_int_equal(ns_model_get_sizes(model).ncontact, 2);
    assert_string_equal(ns_model_contact(model, 0)->name, "x:floor");
    assert_string_equal(ns_model_contact(model, 1)->name, "y:floor");
    assert_true(ns_model_contact(model, 0)->mu == 0.5);
    assert_int_equal(geom_named(model, "x")->nvertex, 8);
    assert_true(geom_named(model, "x")->size[2] == 3.0);
    assert_int_equal(geom_named(model, "y")->nvertex, 4); // of its hull
    assert_null(geom_named(model, "y")->mesh);
    assert_false(geom_named(model, "z")->collision);
    assert_true(modelfile_notes(model, "<geom name=\"z\"> mesh file \"../mesh/nowhere.stl\" not "
                                       "found: the geometry does not touch anything"));
    assert_int_equal(ns_model_get_sizes(model).nignored, 1); // what is only drawn is not opened
    ns_model_free(model);
}

static void broken_meshes_are_errors(void** state) {
    (void)state;
    ns_model* model = NULL;
    ns_error error = {0};
    assert_int_equal(ns_model_load(MESHES "broken.urdf", NULL, &model, &error), NS_ERR_PARSE);
    assert_null(model);
    assert_non_null(strstr(error.message, "broken.urdf:4: <mesh> in <link name=\"a\">: "));
    assert_non_null(strstr(error.message, "cut_off.stl:24: cut off: there is no endsolid"));
}

static void memory_may_run_out_anywhere(void** state) {
    (void)state;
    static const char* const paths[] = {MESHES "urdf.urdf", MESHES "mjcf.xml"};
    for (int k = 0; k < 2; k++) {
        for (size_t n = 1;; n++) {
            test_alloc counter = {.fail_at = n};
            ns_allocator allocator = test_allocator(&counter);
            ns_load_options options = {.ground = true, .allocator = &allocator};
            ns_model* model = NULL;
            ns_error error = {0};
            ns_status status = ns_model_load(paths[k], &options, &model, &error);
            if (counter.calls < n) {
                assert_int_equal(status, NS_OK);
                assert_int_equal(counter.live_blocks, 1);
                ns_model_free(model);
                break;
            }
            if (status != NS_ERR_NOMEM) fail_msg("allocation %zu: %s", n, error.message);
            assert_null(model);
            assert_int_equal(counter.live_blocks, 0);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_vertices_are_all_kept),
        cmocka_unit_test(boxes_keep_their_corners),
        cmocka_unit_test(small_faces_stay),
        cmocka_unit_test(balls_become_polyhedra),
        cmocka_unit_test(far_vertices_are_refused),
        cmocka_unit_test(files_are_read),
        cmocka_unit_test(binary_stl_is_read),
        cmocka_unit_test(broken_files_say_what_is_wrong),
        cmocka_unit_test(damaged_files_do_no_harm),
        cmocka_unit_test(triangles_are_read),
        cmocka_unit_test(damaged_surfaces_do_no_harm),
        cmocka_unit_test(urdf_meshes_are_found),
        cmocka_unit_test(mjcf_meshes_are_found),
        cmocka_unit_test(broken_meshes_are_errors),
        cmocka_unit_test(memory_may_run_out_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
