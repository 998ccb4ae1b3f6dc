// A contact law from outside the library: it is written against the public headers alone, simulated,
// compared with its closed form, and differentiated.

#include "neuralsim/neuralsim.h"
#include "support/assert.h"
#include "support/tempdir.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

// ---- the law: a linear spring and damper without friction ------------------------------------

enum { STIFFNESS, DAMPING, NPARAM };

static const ns_contact_param linear_params[NPARAM] = {
    [STIFFNESS] = {.name = "linear_stiffness",
                   .unit = "N/m",
                   .value = 1e4,
                   .upper = INFINITY,
                   .positive = true,
                   .attribute = true},
    [DAMPING] = {.name = "linear_damping",
                 .unit = "N s/m",
                 .value = 10.0,
                 .upper = INFINITY,
                 .attribute = true},
};

// `context` counts the points that are traced.
static void linear_force(void* context, const ns_contact_point* point, ns_expr force[3]) {
    ++*(int*)context;
    ns_expr elastic = ns_mul(point->params[STIFFNESS], point->depth);
    ns_expr damping = ns_mul(point->params[DAMPING], point->velocity[0]);
    force[0] = ns_contact_quantity(point, "force/normal", "N", ns_sub(elastic, damping));
    force[1] = force[2] = ns_const(0.0);
}

static int traced;

static const ns_contact_law linear = {.name = "linear",
                                      .help = "linear spring and damper without friction",
                                      .params = linear_params,
                                      .nparam = NPARAM,
                                      .stage = NS_CONTACT_STAGE_FORCES,
                                      .force = linear_force,
                                      .context = &traced};

static int linear_number(void) {
    ns_error error;
    int number;
    must(ns_contact_law_register(&linear, &number, &error), &error);
    return number;
}

// ---- a ball on the ground --------------------------------------------------------------------

static const double MASS = 2.0, RADIUS = 0.1, GRAVITY = 9.81, STEP = 1e-4;
enum { STEPS = 400 };

// A ball that slides up and down; its coordinate is the height of its lowest point.
static ns_model* make_ball(int law, const ns_contact_value* values, uint32_t nvalue) {
    ns_model_builder* builder = NULL;
    ns_model* model = NULL;
    ns_error error;
    must(ns_model_builder_create(NULL, &builder, &error), &error);
    ns_link_def ball = ns_default_link_def();
    ball.name = "ball", ball.joint_type = NS_JOINT_PRISMATIC, ball.mass = MASS;
    ball.origin.position[2] = RADIUS;
    must(ns_model_builder_add_link(builder, &ball, &error), &error);
    ns_geom_def geom = ns_default_geom_def();
    geom.name = "sphere", geom.link = "ball", geom.type = NS_GEOM_SPHERE, geom.size[0] = RADIUS;
    must(ns_model_builder_add_geom(builder, &geom, &error), &error);
    geom = ns_default_geom_def();
    geom.name = "ground", geom.type = NS_GEOM_PLANE;
    must(ns_model_builder_add_geom(builder, &geom, &error), &error);
    ns_contact_def pair = ns_default_contact_def();
    pair.name = "pair", pair.a = "sphere", pair.b = "ground";
    pair.model = law, pair.values = values, pair.nvalue = nvalue;
    must(ns_model_builder_add_contact(builder, &pair, &error), &error);
    must(ns_model_builder_finish(builder, &model, &error), &error);
    ns_model_builder_free(builder);
    return model;
}

// m x'' = -k x - c x' - m g from x0, v0: a damped oscillation about -m g / k.
static double closed_form(double k, double c, double x0, double v0, double t) {
    double rest = -MASS * GRAVITY / k, decay = c / (2.0 * MASS);
    double w = sqrt(k / MASS - decay * decay), a = x0 - rest;
    return rest + exp(-decay * t) * (a * cos(w * t) + (v0 + decay * a) / w * sin(w * t));
}

typedef struct rolled {
    double end;         // x after STEPS
    double dparams[2];  // of it, for stiffness and damping
    double dx0[2];      // for x0, v0
    double first_force; // normal force at the start
} rolled;

static rolled roll(const ns_model* model, int contact, const double x0[2]) {
    static const char* const names[] = {"contact/pair/linear_stiffness",
                                        "contact/pair/linear_damping"};
    static const char* const observed[] = {"contact/pair/0/force/normal"};
    ns_system_options options = ns_default_system_options();
    options.free_params = names, options.nfree = 2;
    options.observe = observed, options.nobserve = 1;
    options.contact = contact, options.timestep = STEP, options.integrator = NS_INTEGRATOR_RK4;
    ns_system* system = NULL;
    ns_workspace* work = NULL;
    ns_error error;
    must(ns_system_create(model, &options, &system, &error), &error);
    ns_workspace_size size = {.batch = 1, .steps = STEPS, .threads = 1};
    must(ns_workspace_create(system, &size, &work, &error), &error);

    static double states[(STEPS + 1) * 2], seeds[(STEPS + 1) * 2], forces[STEPS];
    seeds[STEPS * 2] = 1.0; // the last height
    rolled r;
    ns_rollout_args args = {
        .batch = 1, .steps = STEPS, .x0 = x0, .states = states, .observations = forces};
    ns_rollout_adjoint adjoint = {.state_seeds = seeds, .dx0 = r.dx0, .dparams = r.dparams};
    must(ns_rollout_vjp(system, work, &args, &adjoint, &error), &error);
    r.end = states[STEPS * 2];
    r.first_force = forces[0];
    ns_workspace_free(work);
    ns_system_free(system);
    return r;
}

static void law_agrees_with_its_closed_form(void** state) {
    (void)state;
    int law = linear_number();
    const double k = 1e4, c = 10.0, x0[2] = {-2e-3, -0.1}, t = STEPS * STEP, h = 1e-4;
    ns_model* model = make_ball(law, NULL, 0);
    traced = 0;
    rolled r = roll(model, -1, x0);
    assert_true(traced > 0);

    // Runge-Kutta of order 4 at w dt = 0.007: far below 1e-9 of a motion of millimetres.
    close_to("height", r.end, closed_form(k, c, x0[0], x0[1], t), 1e-11);
    close_to("force", r.first_force, -k * x0[0] - c * x0[1], 1e-12);

    // Gradients, against central differences of the closed form: relative error h^2.
    double dk = (closed_form(k * (1 + h), c, x0[0], x0[1], t) -
                 closed_form(k * (1 - h), c, x0[0], x0[1], t)) /
                (2 * k * h);
    double dc = (closed_form(k, c * (1 + h), x0[0], x0[1], t) -
                 closed_form(k, c * (1 - h), x0[0], x0[1], t)) /
                (2 * c * h);
    double dx =
        (closed_form(k, c, x0[0] + h, x0[1], t) - closed_form(k, c, x0[0] - h, x0[1], t)) / (2 * h);
    double dv =
        (closed_form(k, c, x0[0], x0[1] + h, t) - closed_form(k, c, x0[0], x0[1] - h, t)) / (2 * h);
    assert_true(fabs(dk) > 1e-9 && fabs(dc) > 1e-6 && fabs(dx) > 0.1 && fabs(dv) > 1e-4);
    close_to("d stiffness", r.dparams[STIFFNESS] / dk, 1.0, 1e-6);
    close_to("d damping", r.dparams[DAMPING] / dc, 1.0, 1e-6);
    close_to("d x0", r.dx0[0] / dx, 1.0, 1e-6);
    close_to("d v0", r.dx0[1] / dv, 1.0, 1e-6);
    ns_model_free(model);
}

// ---- where laws are named --------------------------------------------------------------------

static double value_of(const ns_model* model, const char* name) {
    uint32_t number = ns_model_find_param(model, name);
    if (number == UINT32_MAX) fail_msg("no parameter %s", name);
    return ns_model_param(model, number)->value;
}

static void parameters_of_a_law_are_those_of_pairs(void** state) {
    (void)state;
    int law = linear_number();
    const ns_contact_value values[] = {{"linear_stiffness", 5.0}, {"linear_stiffness", 2000.0}};
    const double x0[2] = {-1e-3, 0.0};
    ns_model* model = make_ball(NS_CONTACT_SPRING, values, 2); // the system chooses the law
    assert_true(value_of(model, "contact/pair/linear_stiffness") == 2000.0); // the later one
    assert_true(value_of(model, "contact/pair/linear_damping") == 10.0);
    const ns_param* param =
        ns_model_param(model, ns_model_find_param(model, "contact/pair/linear_damping"));
    assert_string_equal(param->unit, "N s/m");
    assert_true(param->lower == 0.0 && param->upper == INFINITY);
    assert_int_equal(param->transform, NS_TRANSFORM_LOG);
    rolled r = roll(model, law, x0);
    close_to("height", r.end, closed_form(2000.0, 10.0, x0[0], 0.0, STEPS * STEP), 1e-11);
    ns_model_free(model);
}

static void files_name_laws(void** state) {
    (void)state;
    int law = linear_number();
    const char* path = tempdir_write(
        "ball.xml", "<mujoco><default><pair linear_damping='3'/></default><worldbody>"
                    "<geom name='ground' type='plane' size='1 1 1'/>"
                    "<body name='ball' pos='0 0 0.1'><joint name='up' type='slide'/>"
                    "<inertial mass='2' pos='0 0 0' diaginertia='1 1 1'/>"
                    "<geom name='sphere' size='0.1'/></body></worldbody>"
                    "<contact><pair name='pair' geom1='sphere' geom2='ground' model='linear'"
                    " linear_stiffness='700'/></contact></mujoco>");
    ns_model* model = NULL;
    ns_error error;
    must(ns_model_load(path, NULL, &model, &error), &error);
    assert_int_equal(ns_model_get_sizes(model).nignored, 0);
    assert_int_equal(ns_model_contact(model, 0)->model, law);
    assert_true(value_of(model, "contact/pair/linear_stiffness") == 700.0);
    assert_true(value_of(model, "contact/pair/linear_damping") == 3.0);
    ns_model_free(model);

    tempdir_write("hybrid.yaml", "robot: ball.xml\ncontact: linear\n");
    ns_hybrid* hybrid = NULL;
    must(ns_hybrid_load(tempdir_path("hybrid.yaml"), NULL, &hybrid, &error), &error);
    ns_system_options options = ns_default_system_options();
    ns_hybrid_apply(hybrid, &options);
    assert_int_equal(options.contact, law);
    ns_hybrid_free(hybrid);

    path = tempdir_write("bad.xml", "<mujoco><worldbody><geom name='g' type='plane' size='1 1 1'/>"
                                    "<body><joint/><geom name='s' size='0.1'/></body></worldbody>"
                                    "<contact><pair geom1='s' geom2='g' model='lineal'/></contact>"
                                    "</mujoco>");
    assert_int_equal(ns_model_load(path, NULL, &model, &error), NS_ERR_PARSE);
    assert_says(error.message, "\"lineal\" is none of ncp, spring, baumgarte, convex, linear");
}

static void values_are_checked(void** state) {
    (void)state;
    linear_number();
    ns_model_builder* builder = NULL;
    ns_error error;
    must(ns_model_builder_create(NULL, &builder, &error), &error);
    ns_link_def link = ns_default_link_def();
    link.name = "ball", link.joint_type = NS_JOINT_PRISMATIC, link.mass = 1.0;
    must(ns_model_builder_add_link(builder, &link, &error), &error);
    ns_geom_def geom = ns_default_geom_def();
    geom.name = "s", geom.link = "ball", geom.size[0] = 0.1;
    must(ns_model_builder_add_geom(builder, &geom, &error), &error);
    geom = ns_default_geom_def();
    geom.name = "g", geom.type = NS_GEOM_PLANE;
    must(ns_model_builder_add_geom(builder, &geom, &error), &error);

    static const struct {
        ns_contact_value value;
        int model;
        const char* message;
    } cases[] = {
        {{"linear_stiffness", 0.0}, NS_CONTACT_NCP, "linear_stiffness must be positive"},
        {{"linear_damping", -2.0}, NS_CONTACT_NCP, "linear_damping must be zero or positive"},
        {{"linear_damping", NAN}, NS_CONTACT_NCP, "linear_damping must be finite"},
        {{"nonsense", 1.0}, NS_CONTACT_NCP, "no contact law has a parameter \"nonsense\""},
        {{NULL, 1.0}, NS_CONTACT_NCP, "no contact law has a parameter \"\""},
        {{"mu", 1.0}, NS_CONTACT_NCP, "there is a field for parameter \"mu\""},
        {{"linear_damping", 1.0}, 99, "model is the number of no contact law"},
        {{"linear_damping", 1.0}, -1, "model is the number of no contact law"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        ns_contact_def pair = ns_default_contact_def();
        pair.a = "s", pair.b = "g", pair.values = &cases[k].value, pair.nvalue = 1;
        pair.model = cases[k].model;
        assert_int_equal(ns_model_builder_add_contact(builder, &pair, &error), NS_ERR_ARGUMENT);
        assert_says(error.message, cases[k].message);
    }
    ns_model_builder_free(builder);
}

// ---- registering -----------------------------------------------------------------------------

static void* register_linear(void* number) {
    ns_error error;
    ns_contact_law_register(&linear, number, &error);
    return NULL;
}

static void threads_may_register(void** state) {
    (void)state;
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    int numbers[THREADS];
    for (int k = 0; k < THREADS; k++) {
        assert_int_equal(pthread_create(&threads[k], NULL, register_linear, &numbers[k]), 0);
    }
    for (int k = 0; k < THREADS; k++) pthread_join(threads[k], NULL);
    for (int k = 0; k < THREADS; k++) assert_int_equal(numbers[k], NS_CONTACT_CONVEX + 1);
    assert_int_equal(ns_contact_law_find("linear"), NS_CONTACT_CONVEX + 1);
    assert_string_equal(ns_contact_law_get(NS_CONTACT_CONVEX + 1)->name, "linear");
    assert_null(ns_contact_law_get(NS_CONTACT_CONVEX + 2));
    assert_null(ns_contact_law_get(-1));
    assert_int_equal(ns_contact_law_find("lineal"), -1);
    assert_int_equal(ns_contact_law_find(NULL), -1);
    assert_int_equal(ns_contact_law_find("none"), NS_CONTACT_NONE);
    assert_int_equal(ns_contact_law_find("ncp"), NS_CONTACT_NCP);
    assert_int_equal(ns_contact_law_find("spring"), NS_CONTACT_SPRING);
    char list[100];
    ns_choices_list(&ns_contact_laws, list, sizeof list);
    assert_string_equal(list, "none, ncp, spring, baumgarte, convex, linear");
}

static void bad_laws_are_refused(void** state) {
    (void)state;
    linear_number();
    static const ns_contact_param other_unit = {.name = "stiffness", .unit = "N/m", .upper = 1.0};
    static const ns_contact_param no_unit = {.name = "x", .upper = 1.0};
    static const ns_contact_param no_bounds = {.name = "x", .unit = ""};
    static const ns_contact_param outside = {.name = "x", .unit = "", .value = 2.0, .upper = 1.0};
    static const ns_contact_param automatic = {
        .name = "x", .unit = "", .value = NS_CONTACT_AUTO, .lower = -2.0, .upper = 1.0};
    static const ns_contact_param field = {.name = "x", .unit = "", .upper = 1.0, .field = 8};
    static const ns_contact_param twice[] = {{.name = "x", .unit = "", .upper = 1.0},
                                             {.name = "x", .unit = "", .upper = 1.0}};
    const ns_contact_law good = {
        .name = "other", .help = "h", .stage = NS_CONTACT_STAGE_FORCES, .force = linear_force};
    const struct {
        const char *name, *help, *message;
        ns_contact_stage stage;
        const ns_contact_param* params;
        uint32_t nparam;
    } cases[] = {
        {"", "h", "name must be", good.stage, NULL, 0},
        {"a b", "h", "name must be", good.stage, NULL, 0},
        {NULL, "h", "name must be", good.stage, NULL, 0},
        {"spring", "h", "another law has this name", good.stage, NULL, 0},
        {"linear", "h", "another law has this name", good.stage, NULL, 0},
        {"other", NULL, "help must be given", good.stage, NULL, 0},
        {"other", "h", "stage must be", NS_CONTACT_STAGE_IMPULSES, NULL, 0},
        {"other", "h", "at most 16 params", good.stage, &field, 17},
        {"other", "h", "at most 16 params", good.stage, NULL, 1},
        {"other", "h", "choose another name", good.stage, &other_unit, 1},
        {"other", "h", "and a unit", good.stage, &no_unit, 1},
        {"other", "h", "lower less than upper", good.stage, &no_bounds, 1},
        {"other", "h", "must be between 0 and 1", good.stage, &outside, 1},
        {"other", "h", "within its bounds", good.stage, &automatic, 1},
        {"other", "h", "for laws of the library", good.stage, &field, 1},
        {"other", "h", "listed twice", good.stage, twice, 2},
    };
    ns_error error;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        ns_contact_law law = good;
        int number = 0;
        law.name = cases[k].name, law.help = cases[k].help, law.stage = cases[k].stage;
        law.params = cases[k].params, law.nparam = cases[k].nparam;
        assert_int_equal(ns_contact_law_register(&law, &number, &error), NS_ERR_ARGUMENT);
        assert_says(error.message, cases[k].message);
        assert_int_equal(number, -1);
    }
    assert_int_equal(ns_contact_law_register(NULL, NULL, &error), NS_ERR_ARGUMENT);
}

// A model has the parameters of the laws of its time.
static void models_do_not_know_later_laws(void** state) {
    (void)state;
    static const ns_contact_param later_params = {.name = "later", .unit = "N", .upper = 1.0};
    static const ns_contact_law later = {.name = "later",
                                         .help = "too late",
                                         .params = &later_params,
                                         .nparam = 1,
                                         .stage = NS_CONTACT_STAGE_FORCES,
                                         .force = linear_force,
                                         .context = &traced};
    ns_error error;
    ns_model* model = make_ball(NS_CONTACT_NCP, NULL, 0);
    int number;
    must(ns_contact_law_register(&later, &number, &error), &error);
    ns_system_options options = ns_default_system_options();
    options.contact = number;
    ns_system* system = NULL;
    assert_int_equal(ns_system_create(model, &options, &system, &error), NS_ERR_STATE);
    assert_says(error.message, "was registered after the model was built");
    ns_model_free(model);
}

static void there_is_an_end_to_laws(void** state) {
    (void)state;
    static ns_contact_law laws[NS_CONTACT_MAX_LAWS];
    static char names[NS_CONTACT_MAX_LAWS][16];
    ns_error error;
    int count = 0;
    ns_status status = NS_OK;
    while (status == NS_OK && count < NS_CONTACT_MAX_LAWS) {
        snprintf(names[count], sizeof names[count], "law%d", count);
        laws[count] = (ns_contact_law){.name = names[count],
                                       .help = "one more",
                                       .stage = NS_CONTACT_STAGE_FORCES,
                                       .force = linear_force};
        status = ns_contact_law_register(&laws[count], NULL, &error);
        count++;
    }
    assert_int_equal(status, NS_ERR_LIMIT);
    assert_says(error.message, "at most 16 laws");
    assert_non_null(ns_contact_law_get(NS_CONTACT_MAX_LAWS - 1));
    assert_null(ns_contact_law_get(NS_CONTACT_MAX_LAWS));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_may_register),
        cmocka_unit_test(law_agrees_with_its_closed_form),
        cmocka_unit_test(parameters_of_a_law_are_those_of_pairs),
        cmocka_unit_test(files_name_laws),
        cmocka_unit_test(values_are_checked),
        cmocka_unit_test(bad_laws_are_refused),
        cmocka_unit_test(models_do_not_know_later_laws),
        cmocka_unit_test(there_is_an_end_to_laws),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
