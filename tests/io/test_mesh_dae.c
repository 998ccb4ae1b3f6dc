// COLLADA: transforms, units and primitives, beside assimp where that is installed; broken files.

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

#ifdef TEST_HAVE_ASSIMP
#include <assimp/cimport.h>
#include <assimp/config.h>
#include <assimp/postprocess.h>
#include <assimp/scene.h>
#endif

#define CUBOID NEURALSIM_SOURCE_DIR "/tests/data/mesh/cuboid.dae"

// The signed volume and its centroid, times the volume: sums over tetrahedra to the origin.
typedef struct moments {
    double volume, first[3];
} moments;

static void add_tetrahedron(const double* a, const double* b, const double* c, moments* m) {
    double v = (a[0] * (b[1] * c[2] - b[2] * c[1]) + a[1] * (b[2] * c[0] - b[0] * c[2]) +
                a[2] * (b[0] * c[1] - b[1] * c[0])) /
               6.0;
    m->volume += v;
    for (int i = 0; i < 3; i++) m->first[i] += v * (a[i] + b[i] + c[i]) / 4.0;
}

static moments moments_of(const nsi_surface* s) {
    moments m = {0};
    for (uint32_t k = 0; k < s->triangles.count; k += 3) {
        const uint32_t* t = s->triangles.data + k;
        add_tetrahedron(s->vertices.data + 3 * (size_t)t[0], s->vertices.data + 3 * (size_t)t[1],
                        s->vertices.data + 3 * (size_t)t[2], &m);
    }
    return m;
}

static void read_surface(const char* bytes, size_t size, nsi_surface* out) {
    ns_allocator allocator = ns_default_allocator();
    ns_error error = {0};
    must(nsi_surface_parse(bytes, size, "a.dae", 100, &allocator, out, &error), &error);
}

// 3 x 2 x 1 m, a corner at the origin: scaled, turned by a right angle, and moved, in that order. The
// up axis of the file is Y; were it taken into account, z would be 0 to 2.
static void nodes_place_their_geometries(void** state) {
    (void)state;
    ns_allocator allocator = ns_default_allocator();
    ns_error error = {0};
    nsi_mesh mesh;
    must(nsi_mesh_read(CUBOID, &allocator, &mesh, &error), &error);
    assert_int_equal(mesh.count, 8);
    double low[3] = {9, 9, 9}, high[3] = {-9, -9, -9};
    for (int k = 0; k < 24; k++) {
        low[k % 3] = fmin(low[k % 3], mesh.corners[k]);
        high[k % 3] = fmax(high[k % 3], mesh.corners[k]);
    }
    all_close(low, (const double[]){0, 0, 0}, 3, 1e-14);
    all_close(high, (const double[]){3, 2, 1}, 3, 1e-14);

    size_t size;
    char* text = modelfile_read("mesh/cuboid.dae", &size);
    nsi_surface surface;
    read_surface(text, size, &surface);
    assert_int_equal(surface.triangles.count, 36);
    moments m = moments_of(&surface);
    close_to("volume", fabs(m.volume), 6.0, 1e-13);
    for (int i = 0; i < 3; i++) close_to("centroid", m.first[i] / m.volume, 1.5 - 0.5 * i, 1e-13);
    nsi_surface_free(&allocator, &surface);
    free(text);
}

#define FILE_OF(nodes, primitives)                                                                 \
    "<COLLADA><library_geometries><geometry id='g'><mesh><source id='s'><float_array>"             \
    "0 0 0 1 0 0 0 1 0 0 0 1</float_array></source><vertices id='v'><input semantic='POSITION' "   \
    "source='#s'/></vertices>" primitives "</mesh></geometry></library_geometries>" nodes          \
    "</COLLADA>"
#define INPUT "<input semantic='VERTEX' source='#v' offset='0'/>"

// A tetrahedron, volume 1/6 and centroid (1, 1, 1) / 4, in each primitive; and without a scene.
static void primitives_are_triangles(void** state) {
    (void)state;
    static const char* const texts[] = {
        FILE_OF("", "<triangles>" INPUT "<p>0 2 1 0 1 3 0 3 2 1 2 3</p></triangles>"),
        FILE_OF("",
                "<polygons>" INPUT "<p>0 2 1</p><p>0 1 3</p><p>0 3 2</p><p>1 2 3</p></polygons>"),
        FILE_OF("", "<trifans>" INPUT "<p>0 1 3 2 1</p><p>1 2 3</p></trifans>"),
        FILE_OF("", "<tristrips>" INPUT "<p>0 2 1 3 0 2</p></tristrips>"),
    };
    ns_allocator allocator = ns_default_allocator();
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
        nsi_surface surface;
        read_surface(texts[k], strlen(texts[k]), &surface);
        assert_int_equal(surface.triangles.count, 12);
        moments m = moments_of(&surface);
        close_to("volume", fabs(m.volume), 1.0 / 6.0, 1e-15);
        for (int i = 0; i < 3; i++) close_to("centroid", m.first[i] / m.volume, 0.25, 1e-14);
        nsi_surface_free(&allocator, &surface);
    }
}

static void broken_files_get_a_message(void** state) {
    (void)state;
#define SCENE(inside)                                                                              \
    "<library_visual_scenes><visual_scene>" inside "</visual_scene></library_visual_scenes>"
#define TRIANGLES "<triangles>" INPUT "<p>0 1 2</p></triangles>"
    static const char* const cases[][2] = {
        {"<a/>", "a.dae:1: <a> is not the root"},
        {"<COLLADA>", "a.dae:1: not well-formed XML"},
        {FILE_OF("", "<triangles>" INPUT "<p>0 1 4</p></triangles>"), "<p> is cut off, or has a"},
        {FILE_OF("", "<triangles>" INPUT "<p>0 1</p></triangles>"), "<p> is cut off"},
        {FILE_OF("", "<triangles>" INPUT "<p>0 1 x</p></triangles>"), "<p> is cut off"},
        {FILE_OF("", "<triangles><p>0 1 2</p></triangles>"), "has no input VERTEX"},
        {FILE_OF(SCENE("<node><matrix>1 2</matrix></node>"), TRIANGLES), "needs more numbers"},
        {FILE_OF(SCENE("<node><scale>1e300 1 1</scale><instance_geometry url='#g'/></node>"),
                 TRIANGLES),
         "not finite or beyond 1e9"},
        {FILE_OF(SCENE("<instance_node url='#n'/>") "<library_nodes><node id='n'><instance_node "
                                                    "url='#n'/></node></library_nodes>",
                 TRIANGLES),
         "nests too deep"},
        {FILE_OF(SCENE("<node/>"), TRIANGLES), "has no triangles"},
        {FILE_OF("", "<polylist>" INPUT "<vcount>3</vcount><p>0 2 1 0 1 3</p></polylist>"),
         "<vcount> has fewer faces than there are corners for"},
        {FILE_OF("<asset><unit meter='nan'/></asset>", TRIANGLES),
         "<unit> needs a positive number of metres"},
        {FILE_OF("<asset><unit meter='0'/></asset>", TRIANGLES),
         "<unit> needs a positive number of metres"},
    };
    ns_allocator allocator = ns_default_allocator();
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        ns_error error = {0};
        nsi_surface surface;
        ns_status status = nsi_surface_parse(cases[k][0], strlen(cases[k][0]), "a.dae", 9,
                                             &allocator, &surface, &error);
        nsi_surface_free(&allocator, &surface);
        assert_int_equal(status, NS_ERR_PARSE);
        if (!strstr(error.message, cases[k][1])) fail_msg("%s: %s", cases[k][1], error.message);
    }
}

static void memory_may_run_out_anywhere(void** state) {
    (void)state;
    size_t size;
    char* text = modelfile_read("mesh/cuboid.dae", &size);
    for (size_t n = 1;; n++) {
        test_alloc counter = {.fail_at = n};
        ns_allocator allocator = test_allocator(&counter);
        nsi_surface surface;
        ns_status status = nsi_surface_parse(text, size, "a.dae", 12, &allocator, &surface, NULL);
        nsi_surface_free(&allocator, &surface);
        assert_int_equal(counter.live_blocks, 0);
        if (counter.calls < n) {
            assert_int_equal(status, NS_OK);
            break;
        }
        assert_int_equal(status, NS_ERR_NOMEM);
    }
    free(text);
}

#ifdef TEST_HAVE_ASSIMP
// Another reader, told to leave the up axis alone, too, and to merge all nodes into one.
static void assimp_reads_the_same(void** state) {
    (void)state;
    struct aiPropertyStore* store = aiCreatePropertyStore();
    aiSetImportPropertyInteger(store, AI_CONFIG_IMPORT_COLLADA_IGNORE_UP_DIRECTION, 1);
    const struct aiScene* scene = aiImportFileExWithProperties(
        CUBOID, aiProcess_Triangulate | aiProcess_PreTransformVertices, NULL, store);
    aiReleasePropertyStore(store);
    assert_non_null(scene);
    moments theirs = {0};
    uint32_t count = 0;
    for (uint32_t i = 0; i < scene->mNumMeshes; i++) {
        const struct aiMesh* mesh = scene->mMeshes[i];
        for (uint32_t f = 0; f < mesh->mNumFaces; f++) {
            double corner[3][3];
            assert_int_equal(mesh->mFaces[f].mNumIndices, 3);
            for (int k = 0; k < 3; k++) {
                struct aiVector3D v = mesh->mVertices[mesh->mFaces[f].mIndices[k]];
                corner[k][0] = (double)v.x, corner[k][1] = (double)v.y, corner[k][2] = (double)v.z;
            }
            add_tetrahedron(corner[0], corner[1], corner[2], &theirs);
            count++;
        }
    }
    aiReleaseImport(scene);

    size_t size;
    char* text = modelfile_read("mesh/cuboid.dae", &size);
    nsi_surface surface;
    ns_allocator allocator = ns_default_allocator();
    read_surface(text, size, &surface);
    moments ours = moments_of(&surface);
    assert_int_equal(surface.triangles.count, 3 * count);
    close_to("volume", ours.volume, theirs.volume, 1e-5); // single precision
    all_close(ours.first, theirs.first, 3, 1e-5);
    nsi_surface_free(&allocator, &surface);
    free(text);
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_place_their_geometries),
        cmocka_unit_test(primitives_are_triangles),
        cmocka_unit_test(broken_files_get_a_message),
        cmocka_unit_test(memory_may_run_out_anywhere),
#ifdef TEST_HAVE_ASSIMP
        cmocka_unit_test(assimp_reads_the_same),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
