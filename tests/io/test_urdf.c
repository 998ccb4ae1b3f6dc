// URDF: what a file becomes, closed forms, broken and damaged files.

#include "model/model_data.h"
#include "support/assert.h"
#include "support/modelfile.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

static const double pi = 3.14159265358979323846;

#define INERTIAL                                                                                   \
    "<inertial><mass value='1'/><inertia ixx='0.1' iyy='0.1' izz='0.1' ixy='0' ixz='0' "           \
    "iyz='0'/></inertial>"
#define LINK(name) "<link name='" name "'>" INERTIAL "</link>"
#define JOINT(name, type, parent, child, more)                                                     \
    "<joint name='" name "' type='" type "'><parent link='" parent "'/><child link='" child        \
    "'/>" more "</joint>"

// ---- the tree ----------------------------------------------------------------------------------

static void order_is_depth_first(void** state) {
    (void)state;
    // Joints before links, children before parents.
    ns_model* model = modelfile_parse("<robot name='tree'>" JOINT("j4", "continuous", "c", "e", "")
                                          JOINT("j1", "continuous", "a", "b", "") LINK("e")
                                              LINK("d") JOINT("j2", "continuous", "a", "c", "")
                                                  JOINT("j3", "continuous", "b", "d", "") LINK("c")
                                                      LINK("b") LINK("a") "</robot>");
    static const char* const links[] = {"a", "b", "d", "c", "e"};
    static const char* const joints[] = {"a_joint", "j1", "j3", "j2", "j4"};
    assert_int_equal(ns_model_get_sizes(model).nlink, 5);
    for (uint32_t i = 0; i < 5; i++) {
        assert_string_equal(ns_model_link(model, i)->name, links[i]);
        assert_string_equal(ns_model_link(model, i)->joint, joints[i]);
    }
    assert_string_equal(ns_model_name(model), "tree");
    assert_int_equal(ns_model_link(model, 0)->joint_type, NS_JOINT_FIXED); // welded to the world
    assert_int_equal(ns_model_link_parent(model, 0), UINT32_MAX);
    assert_int_equal(ns_model_get_sizes(model).nu, 0);
    ns_model_free(model);
}

static void a_root_named_world_is_the_world(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(
        "<robot><link name='world'><visual><geometry><box size='2 4 "
        "6'/></geometry></visual></link>" LINK("a")
            JOINT("j", "floating", "world", "a", "<origin xyz='1 2 3' rpy='0 0 0'/>") "</robot>");
    assert_int_equal(ns_model_get_sizes(model).nlink, 1);
    assert_string_equal(ns_model_geom(model, 0)->link, "world");
    all_close(ns_model_geom(model, 0)->size, (const double[]){1, 2, 3}, 3, 0.0);
    double q[7];
    ns_model_default_q(model, q);
    all_close(q, (const double[]){1, 2, 3, 1, 0, 0, 0}, 7, 0.0);
    ns_model_free(model);

    // Under a root of another name, a floating joint still starts from the world.
    model = modelfile_parse("<robot><link name='ground'/>" LINK("a")
                                JOINT("j", "floating", "ground", "a", "") "</robot>");
    assert_int_equal(ns_model_get_sizes(model).nlink, 2);
    assert_string_equal(ns_model_link(model, 1)->parent, "world");
    ns_model_free(model);
}

// A chain far deeper than any stack of calls.
static void long_chains_load(void** state) {
    (void)state;
    enum { LENGTH = 20000 };
    nsi_text_builder b = {.allocator = ns_default_allocator()};
    nsi_text_add(&b, "<robot name='chain'><link name='world'/>");
    for (int i = 0; i < LENGTH; i++) {
        nsi_text_add(&b, "<link name='l%d'>%s</link>", i, INERTIAL);
        nsi_text_add(&b, "<joint name='j%d' type='continuous'><parent link='", i);
        nsi_text_add(&b, i > 0 ? "l%d" : "world", i - 1);
        nsi_text_add(&b, "'/><child link='l%d'/></joint>", i);
    }
    nsi_text_add(&b, "</robot>");
    ns_text text;
    assert_int_equal(nsi_text_finish(&b, &text, NULL), NS_OK);
    ns_model* model = modelfile_parse(text.data);
    assert_int_equal(ns_model_get_sizes(model).nq, LENGTH);
    assert_int_equal(ns_model_link_parent(model, LENGTH - 1), LENGTH - 2);
    ns_model_free(model);
    ns_text_free(&text);
}

// ---- joints ------------------------------------------------------------------------------------

static void joints_have_their_numbers(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(
        "<robot>" LINK("a") LINK("b") LINK("c") LINK("d") LINK("e") LINK("f") JOINT(
            "rev", "revolute", "a", "b",
            "<origin xyz='1 2 3' rpy='0.1 0.2 0.3'/><axis xyz='0 3 4'/>"
            "<limit lower='-1' upper='2' effort='5' velocity='6'/>"
            "<dynamics damping='0.5' friction='0.25' stiffness='3' rest='0.125' armature='0.01' "
            "friction_velocity='0.2'/>")
            JOINT("con", "continuous", "b", "c", "<dynamics springref='0.5' stiffness='1'/>")
                JOINT("pri", "prismatic", "c", "d", "<limit lower='0' upper='0'/>")
                    JOINT("sph", "spherical", "d", "e", "<dynamics damping='2'/>")
                        JOINT("ball", "ball", "d", "f",
                              "<limit effort='1' velocity='2' lower='1' upper='3'/>") "</robot>");
    const ns_link_def* rev = ns_model_link(model, 1);
    assert_int_equal(rev->joint_type, NS_JOINT_REVOLUTE);
    all_close(rev->origin.position, (const double[]){1, 2, 3}, 3, 0.0);
    all_close(rev->axis, (const double[]){0, 0.6, 0.8}, 3, 1e-16);
    assert_true(rev->limited && rev->lower == -1.0 && rev->upper == 2.0);
    assert_true(rev->damping == 0.5 && rev->friction == 0.25 && rev->stiffness == 3.0);
    assert_true(rev->rest == 0.125 && rev->armature == 0.01 && rev->friction_velocity == 0.2);
    assert_true(modelfile_notes(model, "<limit> in <joint name=\"rev\"> velocity"));

    const ns_link_def* con = ns_model_link(model, 2);
    assert_int_equal(con->joint_type, NS_JOINT_REVOLUTE);
    assert_false(con->limited);
    assert_true(con->rest == 0.5);
    all_close(con->axis, (const double[]){1, 0, 0}, 3, 0.0); // URDF's default
    assert_int_equal(ns_model_link(model, 3)->joint_type, NS_JOINT_PRISMATIC);
    assert_false(ns_model_link(model, 3)->limited);
    assert_true(modelfile_notes(model, "has lower = upper; the joint moves without limits"));
    assert_int_equal(ns_model_link(model, 4)->joint_type, NS_JOINT_SPHERICAL);
    assert_true(ns_model_link(model, 4)->damping == 2.0);
    assert_int_equal(ns_model_link(model, 5)->joint_type, NS_JOINT_SPHERICAL);
    assert_true(modelfile_notes(model, "has a range, which has no effect"));
    ns_model_free(model);

    model = modelfile_parse("<robot>" LINK("a") LINK("b")
                                JOINT("j", "revolute", "a", "b", "") "</robot>");
    assert_true(modelfile_notes(model, "<joint name=\"j\"> has no <limit>"));
    ns_model_free(model);
    model = modelfile_parse("<robot>" LINK("a") LINK("b") JOINT(
        "j", "fixed", "a", "b", "<dynamics damping='1'/>") "</robot>");
    assert_true(ns_model_link(model, 1)->damping == 0.0);
    assert_true(modelfile_notes(model, "has no effect on a fixed joint"));
    ns_model_free(model);
}

static void planar_joints_become_three(void** state) {
    (void)state;
    static const struct {
        const char* axis;
        double x[3], y[3];
    } cases[] = {
        {"<axis xyz='0 0 1'/>", {1, 0, 0}, {0, 1, 0}},
        {"<axis xyz='0 2 0'/>", {0, 0, 1}, {1, 0, 0}},
        {"", {0, 1, 0}, {0, 0, 1}},
        {"<axis xyz='0 0.6 -0.8'/>", {1, 0, 0}, {0, -0.8, -0.6}},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char text[2000];
        snprintf(text, sizeof text,
                 "<robot><link name='world'/>" LINK("base") "%s%s<dynamics damping='0.5'/></joint>"
                                                            "</robot>",
                 "<joint name='p' type='planar'><parent link='world'/><child link='base'/>"
                 "<origin xyz='1 2 3'/>",
                 cases[k].axis);
        ns_model* model = modelfile_parse(text);
        assert_int_equal(ns_model_get_sizes(model).nlink, 3);
        const ns_link_def *x = ns_model_link(model, 0), *y = ns_model_link(model, 1),
                          *base = ns_model_link(model, 2);
        assert_string_equal(x->name, "base_p_x");
        assert_string_equal(x->joint, "p_x");
        assert_string_equal(y->joint, "p_y");
        assert_string_equal(base->joint, "p_theta");
        assert_string_equal(base->name, "base");
        assert_true(x->joint_type == NS_JOINT_PRISMATIC && y->joint_type == NS_JOINT_PRISMATIC);
        assert_int_equal(base->joint_type, NS_JOINT_REVOLUTE);
        assert_true(x->mass == 0.0 && y->mass == 0.0 && base->mass == 1.0);
        all_close(x->axis, cases[k].x, 3, 1e-15);
        all_close(y->axis, cases[k].y, 3, 1e-15);
        all_close(x->origin.position, (const double[]){1, 2, 3}, 3, 0.0);
        all_close(base->origin.position, (const double[]){0, 0, 0}, 3, 0.0);
        assert_true(x->damping == 0.5 && base->damping == 0.5);
        ns_model_free(model);
    }
}

static void joints_follow_others(void** state) {
    (void)state;
    ns_model* model =
        modelfile_parse("<robot>" LINK("a") LINK("b") LINK("c")
                            JOINT("left", "prismatic", "a", "b", "<limit lower='0' upper='1'/>")
                                JOINT("right", "prismatic", "a", "c",
                                      "<limit lower='0' upper='1'/><mimic joint='left' "
                                      "multiplier='-1' offset='0.5'/>") "</robot>");
    assert_int_equal(ns_model_get_sizes(model).nq, 1);
    assert_string_equal(ns_model_link(model, 2)->mimic, "left");
    assert_true(ns_model_link(model, 2)->mimic_multiplier == -1.0);
    assert_true(ns_model_link(model, 2)->mimic_offset == 0.5);
    ns_model_free(model);
}

// ---- inertia and geometry ----------------------------------------------------------------------

static void the_inertial_frame_is_turned(void** state) {
    (void)state;
    // Principal moments 1, 2, 2.5 in a frame turned by 30 degrees about z:
    // xx = 1 cos^2 + 2 sin^2, yy = 1 sin^2 + 2 cos^2, xy = (1 - 2) sin cos
    char text[1000];
    snprintf(text, sizeof text,
             "<robot><link name='a'><inertial><origin xyz='0.1 0.2 0.3' rpy='0 0 %.17g'/>"
             "<mass value='2'/><inertia ixx='1' iyy='2' izz='2.5' ixy='0' ixz='0' iyz='0'/>"
             "</inertial></link></robot>",
             pi / 6.0);
    ns_model* model = modelfile_parse(text);
    const ns_link_def* a = ns_model_link(model, 0);
    const double expected[6] = {1.25, 1.75, 2.5, -sqrt(3.0) / 4.0, 0.0, 0.0};
    all_close(a->inertia, expected, 6, 1e-15);
    all_close(a->com, (const double[]){0.1, 0.2, 0.3}, 3, 0.0);
    assert_true(a->mass == 2.0);
    ns_model_free(model);

    // Off-diagonal entries, and roll and yaw at once: R I R' with the matrices written out.
    model = modelfile_parse(
        "<robot><link name='a'><inertial><origin rpy='0.4 0 -0.7'/><mass value='1'/>"
        "<inertia ixx='3' iyy='4' izz='5' ixy='0.1' ixz='-0.2' iyz='0.3'/></inertial></link>"
        "</robot>");
    double cr = cos(0.4), sr = sin(0.4), cy = cos(-0.7), sy = sin(-0.7);
    const double R[3][3] = {{cy, -sy * cr, sy * sr}, {sy, cy * cr, -cy * sr}, {0, sr, cr}};
    const double I[3][3] = {{3, 0.1, -0.2}, {0.1, 4, 0.3}, {-0.2, 0.3, 5}};
    static const int row[6] = {0, 1, 2, 0, 0, 1}, column[6] = {0, 1, 2, 1, 2, 2};
    double turned[6] = {0.0};
    for (int k = 0; k < 6; k++) {
        for (int i = 0; i < 3; i++) {
            for (int j = 0; j < 3; j++) turned[k] += R[row[k]][i] * I[i][j] * R[column[k]][j];
        }
    }
    all_close(ns_model_link(model, 0)->inertia, turned, 6, 2e-15);
    ns_model_free(model);
}

static void shapes_are_kept(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(
        "<robot><material name='red'><color rgba='1 0 0 0.5'/></material><link name='a'>"
        "<visual name='v'><origin xyz='1 2 3' rpy='0 0 3.141592653589793'/><geometry>"
        "<cylinder radius='0.1' length='0.6'/></geometry><material name='red'/></visual>"
        "<collision name='v'><geometry><capsule radius='0.2' length='0.8'/></geometry></collision>"
        "<collision><geometry><sphere radius='0.3'/></geometry></collision>"
        "<visual><geometry><mesh filename='package://p/m.dae' scale='1 2 3'/></geometry>"
        "<material name='blue'><color rgba='0 0 1 1'/></material></visual>"
        "<visual><geometry><mesh filename='m.stl'/></geometry><material name='blue'/></visual>"
        "<visual><geometry><box size='1 1 1'/></geometry><material name='none'/></visual>"
        "</link></robot>");
    assert_int_equal(ns_model_get_sizes(model).ngeom, 6);
    const ns_geom_def* g = ns_model_geom(model, 0);
    assert_string_equal(g->name, "v");
    assert_int_equal(g->type, NS_GEOM_CYLINDER);
    assert_true(g->visual && !g->collision);
    all_close(g->size, (const double[]){0.1, 0.3, 0}, 3, 1e-16);
    all_close(g->pose.position, (const double[]){1, 2, 3}, 3, 0.0);
    all_close(g->pose.quaternion, (const double[]){0, 0, 0, 1}, 4, 1e-15);
    all_close(g->color, (const double[]){1, 0, 0, 0.5}, 4, 0.0);
    g = ns_model_geom(model, 1);
    assert_string_equal(g->name, "a_geom0"); // "v" is taken
    assert_int_equal(g->type, NS_GEOM_CAPSULE);
    assert_true(!g->visual && g->collision);
    all_close(g->size, (const double[]){0.2, 0.4, 0}, 3, 1e-16);
    assert_int_equal(ns_model_geom(model, 2)->type, NS_GEOM_SPHERE);
    g = ns_model_geom(model, 3);
    assert_string_equal(g->mesh, "package://p/m.dae");
    all_close(g->size, (const double[]){1, 2, 3}, 3, 0.0);
    g = ns_model_geom(model, 4);
    all_close(g->color, (const double[]){0, 0, 1, 1}, 4, 0.0); // defined in another visual
    all_close(g->size, (const double[]){1, 1, 1}, 3, 0.0);
    assert_true(modelfile_notes(model, "<material name=\"none\"> names no material"));
    ns_model_free(model);
}

// A fixed base, two links in a row, and a box in the world.
static const char arm[] =
    "<robot name='r'><link name='world'><collision name='wall'><geometry><box size='1 1 1'/>"
    "</geometry></collision></link>"
    "<link name='base'><collision name='foot'><geometry><box size='1 1 1'/></geometry></collision>"
    "</link>"
    "<joint name='weld' type='fixed'><parent link='world'/><child link='base'/></joint>"
    "<link name='plate'/><joint name='weld2' type='fixed'><parent link='base'/>"
    "<child link='plate'/></joint>"
    "<link name='upper'><inertial><mass value='1'/><inertia ixx='1' iyy='1' izz='1'/></inertial>"
    "<contact><lateral_friction value='0.25'/><restitution value='0.5'/></contact>"
    "<visual name='u_drawn'><geometry><sphere radius='1'/></geometry></visual>"
    "<collision name='u'><geometry><sphere radius='1'/></geometry></collision></link>"
    "<joint name='j' type='continuous'><parent link='plate'/><child link='upper'/></joint>"
    "<link name='lower'><inertial><mass value='1'/><inertia ixx='1' iyy='1' izz='1'/></inertial>"
    "<collision name='l'><geometry><capsule radius='1' length='1'/></geometry></collision></link>"
    "<joint name='k' type='continuous'><parent link='upper'/><child link='lower'/></joint></robot>";

static void expect_pairs(bool ground, bool self_collision, const char* names) {
    ns_load_options options = ns_default_load_options();
    options.ground = ground;
    options.self_collision = self_collision;
    ns_model* model = NULL;
    ns_error error = {0};
    must(ns_model_parse(arm, strlen(arm), "t", &options, &model, &error), &error);
    modelfile_check(model);
    char all[400] = "";
    for (uint32_t i = 0; i < ns_model_get_sizes(model).ncontact; i++) {
        const ns_contact_def* contact = ns_model_contact(model, i);
        size_t length = strlen(all);
        snprintf(all + length, sizeof all - length, "%s%s", i > 0 ? " " : "", contact->name);
        bool upper = contact->name[0] == 'u';
        assert_true(contact->mu == 1.0 && contact->restitution == (upper ? 0.5 : 0.0));
    }
    assert_string_equal(all, names);
    assert_int_equal(ns_model_get_sizes(model).nignored, 0);
    ns_model_free(model);
}

static void a_robot_touches_the_world_and_itself_on_demand(void** state) {
    (void)state;
    expect_pairs(false, false, "u:wall l:wall");
    expect_pairs(true, false, "u:wall l:wall u:ground l:ground");
    // The base is part of the robot. What it carries does not touch it, though it is welded to the
    // world through another link.
    expect_pairs(false, true, "u:wall l:wall l:foot");
}

// PyBullet's N/m and N s/m: a linear spring, and damping that agrees at a depth of 1 cm.
static void springs_of_pybullet_are_linear(void** state) {
    (void)state;
    static const struct {
        const char *contact, *note; // NULL: none
        double stiffness, damping, exponent;
    } cases[] = {
        {"<stiffness value='2e4'/><damping value='100'/>", "read as 0.5 s/m", 2e4, 0.5, 1.0},
        {"<stiffness value='2e4'/>", NULL, 2e4, 1.0, 1.0},
        {"<stiffness value='2e4'/><damping value='0'/>", NULL, 2e4, 0.0, 1.0},
        {"<damping value='100'/>", "has damping without stiffness", 1e5, 1.0, 1.5},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char text[1000];
        snprintf(text, sizeof text,
                 "<robot><link name='world'><collision name='w'><geometry><sphere radius='1'/>"
                 "</geometry></collision></link><link name='b'><inertial><mass value='1'/>"
                 "<inertia ixx='1' iyy='1' izz='1'/></inertial><contact>%s</contact>"
                 "<collision name='c'><geometry><sphere radius='1'/></geometry></collision></link>"
                 "<joint name='j' type='floating'><parent link='world'/><child link='b'/></joint>"
                 "</robot>",
                 cases[k].contact);
        ns_model* model = modelfile_parse(text);
        const ns_contact_def* contact = ns_model_contact(model, 0);
        assert_true(fabs(contact->stiffness - cases[k].stiffness) < 1e-9 * cases[k].stiffness);
        assert_true(contact->damping == cases[k].damping);
        assert_true(contact->exponent == cases[k].exponent);
        assert_int_equal(ns_model_get_sizes(model).nignored, cases[k].note != NULL);
        if (cases[k].note) assert_true(modelfile_notes(model, cases[k].note));
        ns_model_free(model);
    }
}

static void what_is_left_out_is_listed(void** state) {
    (void)state;
    ns_model* model =
        modelfile_parse("<robot name='r' version='1.0' xmlns:x='y' odd='1'>\n"
                        "<link name='a'>hello\n<verbose value='1'/></link>\n"
                        "<transmission name='t'><type>x</type></transmission>\n"
                        "<gazebo reference='a'/>\n"
                        "<joint name='j' type='fixed'><parent link='a'/><child link='b'/>\n"
                        "<calibration rising='1'/><safety_controller k_velocity='1'/></joint>\n"
                        "<link name='b'><sensor/></link>\n"
                        "</robot>");
    static const char* const notes[] = {
        "line 1: <robot name=\"r\"> odd: not represented",
        "line 2: <link name=\"a\"> has text inside, which is not read",
        "line 3: <verbose> in <link name=\"a\"> is not represented",
        "line 5: <gazebo> in <robot name=\"r\"> is not represented",
        "line 7: <calibration> in <joint name=\"j\"> is not represented",
        "line 7: <safety_controller> in <joint name=\"j\"> is not represented",
        "line 8: <sensor> in <link name=\"b\"> is not represented",
        ("line 4: <transmission name=\"t\"> does not join one actuator to one joint: not "
         "represented"),
    };
    const uint32_t count = sizeof notes / sizeof *notes;
    assert_int_equal(ns_model_get_sizes(model).nignored, count);
    for (uint32_t i = 0; i < count; i++) assert_string_equal(ns_model_ignored(model, i), notes[i]);
    ns_model_free(model);
}

static void the_list_of_what_is_left_out_ends(void** state) {
    (void)state;
    nsi_text_builder b = {.allocator = ns_default_allocator()};
    nsi_text_add(&b, "<robot><link name='a'/>");
    for (int i = 0; i < 5000; i++) nsi_text_add(&b, "\n<sensor/>");
    nsi_text_add(&b, "</robot>");
    ns_text text;
    assert_int_equal(nsi_text_finish(&b, &text, NULL), NS_OK);
    ns_model* model = modelfile_parse(text.data);
    assert_int_equal(ns_model_get_sizes(model).nignored, 1001);
    assert_non_null(strstr(ns_model_ignored(model, 1000), "line 1002: more of the file"));
    ns_model_free(model);
    ns_text_free(&text);
}

// ---- files -------------------------------------------------------------------------------------

static void files_are_loaded(void** state) {
    (void)state;
    static const struct {
        const char* name;
        uint32_t nlink, nq, nv;
    } files[] = {
        {"double_pendulum", 2, 2, 2}, {"pendulum5", 5, 5, 5}, {"arm7_mixed", 5, 8, 7},
        {"free_body", 1, 7, 6},       {"quad12", 13, 19, 18}, {"swimmer2", 4, 4, 4},
        {"swimmer3", 5, 5, 5},        {"swimmer6", 8, 8, 8},
    };
    for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
        char path[100];
        snprintf(path, sizeof path, "mujoco/models/%s.urdf", files[k].name);
        ns_model* model = modelfile_load(path);
        ns_model_sizes sizes = ns_model_get_sizes(model);
        assert_string_equal(ns_model_name(model), files[k].name);
        assert_int_equal(sizes.nlink, files[k].nlink);
        assert_int_equal(sizes.nq, files[k].nq);
        assert_int_equal(sizes.nv, files[k].nv);
        ns_model_free(model);
    }
}

static void files_that_are_not_there(void** state) {
    (void)state;
    ns_model* model = NULL;
    ns_error error;
    assert_int_equal(ns_model_load("/nowhere/robot.urdf", NULL, &model, &error), NS_ERR_IO);
    assert_non_null(strstr(error.message, "/nowhere/robot.urdf: cannot be opened: "));
    assert_int_equal(ns_model_load(NEURALSIM_SOURCE_DIR "/tests", NULL, &model, &error), NS_ERR_IO);
    assert_non_null(strstr(error.message, "cannot be read"));
    assert_int_equal(ns_model_load("/dev/null", NULL, &model, &error), NS_ERR_PARSE);
    assert_string_equal(error.message,
                        "/dev/null:1: not well-formed XML at column 1: no element found");
    assert_int_equal(ns_model_load("/dev/zero", NULL, &model, &error), NS_ERR_LIMIT);
    assert_null(model);
    assert_int_equal(ns_model_load(NULL, NULL, &model, NULL), NS_ERR_ARGUMENT);
    assert_int_equal(ns_model_load("x", NULL, NULL, NULL), NS_ERR_ARGUMENT);
    assert_int_equal(ns_model_parse(NULL, 0, "t", NULL, &model, NULL), NS_ERR_ARGUMENT);
    assert_int_equal(ns_model_parse("x", 1, NULL, NULL, &model, &error), NS_ERR_PARSE);
    assert_memory_equal(error.message, "model:1: ", 9);
}

static void broken_files_say_what_is_wrong(void** state) {
    (void)state;
    assert_true(modelfile_try_broken(".urdf") >= 40);
}

static void damaged_files_do_no_harm(void** state) {
    (void)state;
    static const char* const paths[] = {"mujoco/models/arm7_mixed.urdf",
                                        "urdf/everything.urdf",
                                        "mujoco/models/swimmer2.urdf",
                                        "urdf/everything.urdf",
                                        "mujoco/models/quad12.urdf",
                                        "mesh/urdf.urdf",
                                        NULL};
    modelfile_try_damaged(paths, 3600, 2026);
}

static void memory_may_run_out_anywhere(void** state) {
    (void)state;
    size_t size;
    static const char* const paths[] = {"urdf/everything.urdf", "mesh/urdf.urdf"};
    for (int k = 0; k < 2; k++) {
        char* text = modelfile_read(paths[k], &size);
        modelfile_fail_allocations(text);
        free(text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_is_depth_first),
        cmocka_unit_test(a_root_named_world_is_the_world),
        cmocka_unit_test(long_chains_load),
        cmocka_unit_test(joints_have_their_numbers),
        cmocka_unit_test(planar_joints_become_three),
        cmocka_unit_test(joints_follow_others),
        cmocka_unit_test(the_inertial_frame_is_turned),
        cmocka_unit_test(shapes_are_kept),
        cmocka_unit_test(a_robot_touches_the_world_and_itself_on_demand),
        cmocka_unit_test(springs_of_pybullet_are_linear),
        cmocka_unit_test(what_is_left_out_is_listed),
        cmocka_unit_test(the_list_of_what_is_left_out_ends),
        cmocka_unit_test(files_are_loaded),
        cmocka_unit_test(files_that_are_not_there),
        cmocka_unit_test(broken_files_say_what_is_wrong),
        cmocka_unit_test(damaged_files_do_no_harm),
        cmocka_unit_test(memory_may_run_out_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
