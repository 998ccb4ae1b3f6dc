// Plates of MJCF files: polygons and ellipses, outlines from tables beside the model or where data is.

#define _XOPEN_SOURCE 700 // setenv

#include "io/mjcf_contact_rig.h"
#include "io/mjcf_rig.h"
#include "model/model_data.h"
#include "support/assert.h"
#include "support/modelfile.h"
#include "support/tempdir.h"
#include "support/testalloc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// What MuJoCo has no words for: plates, points, and how a pair pushes back.
static void plates_and_laws_are_read(void** state) {
    (void)state;
    ns_model* model = modelfile_load("mjcf/plates.xml");
    assert_int_equal(ns_model_get_sizes(model).nignored, 0);
    const ns_geom_def* square = ns_model_geom(model, 1);
    assert_int_equal(square->type, NS_GEOM_POLYGON);
    all_close(square->size, (const double[]){0.01, 0, 0}, 3, 0.0);
    assert_int_equal(square->nvertex, 4);
    // Counter-clockwise, whichever way round the file has them.
    all_close(square->vertices, (const double[]){0.2, 0, 0, 0.2, 0.2, 0, 0, 0.2, 0, 0, 0, 0}, 12,
              0.0);
    const ns_geom_def* foot = ns_model_geom(model, 2);
    assert_int_equal(foot->type, NS_GEOM_POINTS);
    assert_int_equal(foot->nvertex, 2);
    all_close(foot->vertices, (const double[]){0.1, 0.1, -0.011, 0.2, 0, -0.011}, 6, 0.0);
    assert_false(foot->visual);
    const ns_geom_def* round = ns_model_geom(model, 3);
    assert_int_equal(round->type, NS_GEOM_ELLIPSE);
    all_close(round->size, (const double[]){0.1, 0.05, 0.02}, 3, 0.0);
    all_close(round->pose.quaternion, (const double[]){cos(pi / 12), 0, 0, sin(pi / 12)}, 4, 1e-15);

    expect_pairs(model, "square:rod round:rod foot:board");
    const ns_contact_def* rigid = ns_model_contact(model, 0);
    assert_int_equal(rigid->model, NS_CONTACT_NCP);
    assert_true(rigid->restitution == 0.2 && rigid->mu == 0.3);
    const ns_contact_def* soft = ns_model_contact(model, 1);
    assert_int_equal(soft->model, NS_CONTACT_SPRING);
    assert_true(soft->mu == 0.1 && soft->exponent == 1.5 && soft->transition_velocity == 0.05);
    const ns_contact_def* own = ns_model_contact(model, 2);
    assert_int_equal(own->model, NS_CONTACT_SPRING);
    assert_true(own->stiffness == 900.0 && own->damping == 0.5 && own->exponent == 1.0);
    assert_true(own->transition_velocity == 0.01 && own->max_depth == INFINITY);
    ns_model_free(model);

    // The mass of a plate is not computed.
    model = parse_world("<body name='a'><joint/><geom size='0.1' mass='1'/>"
                        "<geom name='p' type='ellipse' size='1 1 0'/></body>");
    assert_true(modelfile_notes(model, "<geom name=\"p\"> is a plate, whose mass is not computed"));
    ns_model_free(model);

    // One that is given is left out, and that is said.
    model = parse_world("<body name='a'><joint/><geom size='0.1' mass='1'/>"
                        "<geom name='p' type='ellipse' size='1 1 0' mass='2'/>"
                        "<geom name='q' type='points' vertex='0 0 0' mass='3'/>"
                        "<geom name='r' type='points' vertex='0 0 0'/></body>");
    assert_true(ns_model_link(model, 0)->mass == 1.0);
    assert_true(modelfile_notes(model, "<geom name=\"p\"> is a plate, whose mass is left out"));
    assert_true(
        modelfile_notes(model, "<geom name=\"q\"> is a set of points, whose mass is left out"));
    assert_false(modelfile_notes(model, "<geom name=\"r\">"));
    ns_model_free(model);

    // What an element says wins over its class; twice on one element is a fault.
    model = modelfile_parse("<mujoco><default><geom file='none.csv'/></default><worldbody>"
                            "<geom type='polygon' size='1' vertex='0 0 1 0 1 1'/></worldbody>"
                            "</mujoco>");
    assert_int_equal(ns_model_geom(model, 0)->nvertex, 3);
    ns_model_free(model);
    assert_non_null(strstr(modelfile_error("<mujoco><default><geom vertex='0 0 1 0 1 1'/></default>"
                                           "<worldbody><geom type='polygon' size='1' "
                                           "file='p.csv'/></worldbody></mujoco>",
                                           NS_ERR_IO),
                           "cannot be found"));
    assert_non_null(strstr(modelfile_error("<mujoco><worldbody><geom type='polygon' size='1' "
                                           "file='p.csv' vertex='0 0 1 0 1 1'/></worldbody>"
                                           "</mujoco>",
                                           NS_ERR_PARSE),
                           "needs one of the attributes vertex and file"));

    // More vertices than a geometry may have, and outlines of a model that is not from a file.
    size_t size = 0, room = 100000;
    char* text = malloc(room);
    assert_non_null(text);
    size += (size_t)snprintf(text, room, "<mujoco><worldbody><geom type='points' vertex='");
    for (int k = 0; k < 4097; k++) {
        size += (size_t)snprintf(text + size, room - size, "%d 0 0 ", k);
    }
    snprintf(text + size, room - size, "'/></worldbody></mujoco>");
    assert_non_null(strstr(modelfile_error(text, NS_ERR_LIMIT), "too many vertices, 4097"));
    free(text);
    const char* message = modelfile_error("<mujoco><worldbody><geom type='polygon' size='1' "
                                          "file='p.csv'/></worldbody></mujoco>",
                                          NS_ERR_IO);
    assert_non_null(strstr(message, "cannot be found, since the model was not loaded from a file"));
}

// Outlines in tables: beside the model, or where the data are.
static void outlines_come_from_files(void** state) {
    (void)state;
    static const struct {
        const char *table, *fault; // NULL: it is fine
        uint32_t count;
    } cases[] = {
        {"x,y\n0,0\n1,0\n1,2\n", NULL, 3},
        {"x,y\n0,0\n1,0\n1,2\n0,2\n0,-0.0\n", NULL, 4}, // comes back to where it began
        {"x,y\n0,0\n1,0\n", "the outline has fewer than 3 vertices", 0},
        {"x,y\n0,0\n1,1\n1,0\n0,1\n", "the outline crosses or touches itself", 0},
        {"x,y\n0,0\n1,0\n1,nan\n", "vertices", 0},
        {"x,y\n0,0\n1,a\n1,2\n", ":3:3: ", 0},
        {"x,z\n0,0\n1,0\n1,2\n", "its columns must be x and y", 0},
        {"x,y,z\n0,0,0\n1,0,0\n1,2,0\n", "its columns must be x and y", 0},
        {"x,y\n", "vertices must be given", 0},
    };
    tempdir_mkdir("beside");
    tempdir_mkdir("beside/plates");
    tempdir_write("beside/model.xml",
                  "<mujoco><worldbody><geom name='p' type='polygon' size='0.01' "
                  "file='plates/p.csv'/></worldbody></mujoco>");
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        ns_model* model = NULL;
        ns_error error = {0};
        tempdir_write("beside/plates/p.csv", cases[k].table);
        ns_status status = ns_model_load(tempdir_path("beside/model.xml"), NULL, &model, &error);
        if (cases[k].fault) {
            assert_int_equal(status, NS_ERR_PARSE);
            if (!strstr(error.message, cases[k].fault)) fail_msg("%s", error.message);
        } else {
            must(status, &error);
            assert_int_equal(ns_model_geom(model, 0)->nvertex, cases[k].count);
        }
        ns_model_free(model);
    }

    // Too many vertices, and a table that is too long to be an outline.
    for (int k = 0; k < 2; k++) {
        const char* row = k == 0 ? "1,2\n" : "1.000000000000,2.000000000000\n";
        int rows = k == 0 ? 4097 : 40000;
        char* text = malloc((size_t)rows * strlen(row) + 20);
        assert_non_null(text);
        size_t size = (size_t)sprintf(text, "x,y\n0,0\n");
        for (int i = 1; i < rows; i++) size += (size_t)sprintf(text + size, "%s", row);
        tempdir_write("beside/plates/p.csv", text);
        free(text);
        ns_model* model = NULL;
        ns_error error = {0};
        assert_int_equal(ns_model_load(tempdir_path("beside/model.xml"), NULL, &model, &error),
                         NS_ERR_LIMIT);
        const char* fault = k == 0 ? "too many vertices, 4097" : "at most 1 MiB";
        if (!strstr(error.message, fault)) fail_msg("%s", error.message);
    }

    // Elsewhere than beside the model: the environment names the folder.
    const char* given = getenv("NEURALSIM_DATA");
    char* kept = given ? strdup(given) : NULL;
    tempdir_mkdir("other");
    assert_int_equal(rename(tempdir_path("beside/model.xml"), tempdir_path("other/model.xml")), 0);
    tempdir_write("beside/plates/p.csv", cases[0].table);
    ns_model* model = NULL;
    ns_error error = {0};
    unsetenv("NEURALSIM_DATA");
    assert_int_equal(ns_model_load(tempdir_path("other/model.xml"), NULL, &model, &error),
                     NS_ERR_IO);
    setenv("NEURALSIM_DATA", tempdir_path("beside"), 1);
    must(ns_model_load(tempdir_path("other/model.xml"), NULL, &model, &error), &error);
    assert_int_equal(ns_model_geom(model, 0)->nvertex, 3);
    ns_model_free(model);

    // But not out of that folder.
    tempdir_write("other/up.xml", "<mujoco><worldbody><geom name='p' type='polygon' size='0.01' "
                                  "file='plates/../plates/p.csv'/></worldbody></mujoco>");
    assert_int_equal(ns_model_load(tempdir_path("other/up.xml"), NULL, &model, &error), NS_ERR_IO);

    // Each allocation may fail.
    uint32_t n = 0;
    for (ns_status status = NS_ERR_NOMEM; status != NS_OK; n++) {
        test_alloc counter = {.fail_at = n + 1};
        ns_allocator allocator = test_allocator(&counter);
        ns_load_options options = {.allocator = &allocator};
        status = ns_model_load(tempdir_path("other/model.xml"), &options, &model, &error);
        if (status != NS_OK) assert_int_equal(status, NS_ERR_NOMEM);
        ns_model_free(model);
        assert_int_equal(counter.live_blocks, 0);
    }
    assert_true(n > 20);
    if (kept) setenv("NEURALSIM_DATA", kept, 1);
    if (!kept) unsetenv("NEURALSIM_DATA");
    free(kept);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plates_and_laws_are_read),
        cmocka_unit_test(outlines_come_from_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
