// Masses of MJCF bodies: shells, bounds, groups of geoms, meshes. tests/io/test_mujoco_files.c compares
// files with MuJoCo.

#include "io/mjcf_rig.h"

// A body with one geom.
static ns_link_def load_body(const char* compiler, const char* geom) {
    char text[1000];
    snprintf(
        text, sizeof text,
        "<mujoco><compiler %s/><asset><mesh name='m' vertex='0 0 0 1 0 0 0 1 0 0 0 1'/></asset>"
        "<worldbody><body name='b'><freejoint/>%s</body></worldbody></mujoco>",
        compiler, geom);
    ns_model* model = modelfile_parse(text);
    ns_link_def link = *ns_model_link(model, 0);
    ns_model_free(model);
    return link;
}

// A shell is how the solid changes as its surface moves outwards.
static void shells_are_derivatives_of_solids(void** state) {
    (void)state;
    static const struct {
        const char* type;
        double size[3];
        int count; // sizes that a move outwards changes
    } shapes[] = {{"sphere", {0.1, 0, 0}, 1},
                  {"box", {0.1, 0.2, 0.3}, 3},
                  {"cylinder", {0.1, 0.2, 0}, 2},
                  {"capsule", {0.1, 0.2, 0}, 1}};
    const double step = 1e-5;
    for (size_t n = 0; n < sizeof shapes / sizeof *shapes; n++) {
        ns_link_def bodies[3]; // larger, smaller, shell
        for (int k = 0; k < 3; k++) {
            double size[3], move = k == 0 ? step : k == 1 ? -step : 0.0;
            for (int i = 0; i < 3; i++) {
                size[i] = shapes[n].size[i] + (i < shapes[n].count ? move : 0.0);
            }
            char geom[200];
            snprintf(geom, sizeof geom,
                     "<geom type='%s' size='%.17g %.17g %.17g' density='50' shellinertia='%s'/>",
                     shapes[n].type, size[0], size[1], size[2], k == 2 ? "true" : "false");
            bodies[k] = load_body("", geom);
        }
        close_relative(bodies[2].mass, (bodies[0].mass - bodies[1].mass) / (2.0 * step), 1e-7);
        for (int i = 0; i < 6; i++) {
            double slope = (bodies[0].inertia[i] - bodies[1].inertia[i]) / (2.0 * step);
            close_relative(bodies[2].inertia[i], slope, 1e-7);
        }
    }
}

static void bounds_hold(void** state) {
    (void)state;
    ns_link_def link = load_body("boundmass='3' boundinertia='0.5'", "<geom size='0.1'/>");
    close_relative(link.mass, 4000.0 * pi / 3.0 * 0.001, 1e-15);
    link = load_body("boundmass='9' boundinertia='0.5'", "<geom size='0.1'/>");
    assert_true(link.mass == 9.0);
    all_close(link.inertia, (const double[]){0.5, 0.5, 0.5, 0, 0, 0}, 6, 1e-15);
    link =
        load_body("balanceinertia='true'", "<inertial pos='0 0 0' mass='1' diaginertia='1 2 6'/>");
    all_close(link.inertia, (const double[]){3, 3, 3, 0, 0, 0}, 6, 1e-15);
    link = load_body("settotalmass='5'", "<inertial pos='0 0 0' mass='1' diaginertia='1 2 3'/>");
    assert_true(link.mass == 5.0);
    all_close(link.inertia, (const double[]){5, 10, 15, 0, 0, 0}, 6, 1e-14);
    const char* message =
        modelfile_error("<mujoco><compiler boundmass='-1'/><worldbody/></mujoco>", NS_ERR_PARSE);
    assert_non_null(strstr(message, "boundmass is negative"));
}

static void groups_of_geoms_count_or_not(void** state) {
    (void)state;
    static const char geoms[] = "<geom size='0.1'/><geom size='0.1' group='3' pos='1 0 0'/>";
    double ball = 4000.0 * pi / 3.0 * 0.001;
    close_relative(load_body("", geoms).mass, 2.0 * ball, 1e-15);
    ns_link_def link = load_body("inertiagrouprange='3 4'", geoms);
    close_relative(link.mass, ball, 1e-15);
    all_close(link.com, (const double[]){1, 0, 0}, 3, 1e-15);
}

static void rules_of_meshes(void** state) {
    (void)state;
    static const char inwards[] =
        "<mujoco><asset><mesh name='m' inertia='%s' vertex='0 0 0 1 0 0 0 1 0 0 0 1' face='%s'/>"
        "</asset><worldbody><body><freejoint/><geom type='mesh' mesh='m' density='6'/></body>"
        "</worldbody></mujoco>";
    static const struct {
        const char *rule, *faces;
        double mass; // of a volume of 1/6
    } cases[] = {
        {"exact", "0 2 1 0 1 3 1 2 3 0 3 2", 1.0},
        {"legacy", "0 1 2 0 1 3 1 2 3 0 3 2", 1.0}, // one turned around
        {"convex", "0 1 2", 1.0},
        {"shell", "0 1 2", 3.0}, // half a square
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char text[600];
        snprintf(text, sizeof text, inwards, cases[k].rule, cases[k].faces);
        ns_model* model = modelfile_parse(text);
        close_relative(ns_model_link(model, 0)->mass, cases[k].mass, 1e-14);
        ns_model_free(model);
    }

    // Without a mass that can be known: a note, and an error where the body then has none.
    char text[600];
    snprintf(text, sizeof text, inwards, "exact", "0 1 2 0 3 1 1 3 2 0 2 3");
    const char* message = modelfile_error(text, NS_ERR_PARSE);
    assert_non_null(strstr(message, "no inertia resists its motion"));
    snprintf(text, sizeof text, inwards, "legacy", "0 1 4");
    assert_non_null(strstr(modelfile_error(text, NS_ERR_PARSE),
                           "face: 4 is not the number of a vertex, 0 to 3"));
    snprintf(text, sizeof text, inwards, "legacy", "0 1 2 3");
    assert_non_null(strstr(modelfile_error(text, NS_ERR_PARSE), "give three for each face"));
}

static void unknown_masses_are_noted(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(
        "<mujoco><asset><mesh name='m' file='m.stl'/></asset><worldbody><body><freejoint/>"
        "<geom size='1'/><geom type='mesh' mesh='m' contype='0' conaffinity='0'/></body><body>"
        "<freejoint/><inertial pos='0 0 0' mass='1' diaginertia='1 1 1'/>"
        "<geom type='mesh' mesh='m' contype='0' conaffinity='0' mass='3'/></body><geom type='mesh' "
        "mesh='m' contype='0' conaffinity='0'/></worldbody></mujoco>");
    assert_true(modelfile_notes(model, "is a mesh without mass"));
    assert_int_equal(ns_model_get_sizes(model).nignored, 1); // the others need none
    ns_model_free(model);
    const char* message = modelfile_error(
        "<mujoco><asset><mesh name='m' file='m.stl'/></asset><worldbody><geom type='box' mesh='m'/>"
        "</worldbody></mujoco>",
        NS_ERR_PARSE);
    assert_non_null(strstr(message, "cannot be fitted: the mesh is in a file"));
    message = modelfile_error("<mujoco><worldbody><geom type='box' mesh='m'/></worldbody></mujoco>",
                              NS_ERR_PARSE);
    assert_non_null(strstr(message, "cannot be fitted to a mesh that is not among the assets"));
    message = modelfile_error("<mujoco><asset><mesh name='m' scale='1 2 3' refquat='1 1 0 0' "
                              "vertex='0 0 0 1 0 0 0 1 0 0 0 1'/></asset><worldbody><geom "
                              "type='mesh' mesh='m'/></worldbody></mujoco>",
                              NS_ERR_UNSUPPORTED);
    assert_non_null(strstr(message, "refquat together with a scale"));
}

static void memory_may_run_out_anywhere(void** state) {
    (void)state;
    modelfile_fail_allocations(
        "<mujoco><asset><mesh name='m' vertex='0 0 0 1 0 0 0 1 0 0 0 1' face='0 2 1 0 1 3 1 2 3 0 "
        "3 "
        "2'/><mesh name='h' vertex='0 0 0 1 0 0 0 1 0 0 0 1'/></asset><worldbody><body><freejoint/>"
        "<geom type='mesh' mesh='m'/><geom type='mesh' mesh='h'/><geom type='box' mesh='h'/></body>"
        "</worldbody></mujoco>");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shells_are_derivatives_of_solids),
        cmocka_unit_test(bounds_hold),
        cmocka_unit_test(groups_of_geoms_count_or_not),
        cmocka_unit_test(rules_of_meshes),
        cmocka_unit_test(unknown_masses_are_noted),
        cmocka_unit_test(memory_may_run_out_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
