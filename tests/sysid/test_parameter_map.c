// Numbers a fit looks for: there and back, derivatives, bodies that stay physical, messages.

#include "model/model_data.h"
#include "support/assert.h"
#include "support/testalloc.h"
#include "sysid/parameter_map.h"
#include "sysid/parameter_rig.h"

#include <math.h>
#include <stdlib.h>

// ---- making them -------------------------------------------------------------------------------

static void refuse_one(nsi_parameter_request r, const char* says) {
    refuse(&r, 1, NULL, 0, "3:5", says);
}

// ---- parameters of the model -------------------------------------------------------------------

static void globs_ask_for_many(void** state) {
    (void)state;
    nsi_parameter_request requests[] = {ask("joint/*/damping"), ask("link/link1/mass")};
    requests[0].how.initial = 0.1;
    ns_parameters* v = make(requests, 2, NULL, 0);
    assert_int_equal(ns_parameters_count(v), 3);
    assert_string_equal(ns_parameters_at(v, 0)->name, "joint/joint0/damping");
    assert_string_equal(ns_parameters_at(v, 1)->name, "joint/joint1/damping");
    assert_string_equal(ns_parameters_at(v, 2)->name, "link/link1/mass");
    assert_string_equal(ns_parameters_at(v, 2)->unit, "kg");
    // Those of the system stand in the order of the model.
    assert_int_equal(nsi_parameters_param_count(v, 0), 3);
    for (uint32_t k = 0; k < 2; k++) {
        assert_true(ns_model_find_param(pendulum, nsi_parameters_param_names(v, 0)[k]) <
                    ns_model_find_param(pendulum, nsi_parameters_param_names(v, 0)[k + 1]));
    }
    double *scratch = scratch_of(v), x[3], p[3];
    nsi_parameters_initial(v, x);
    assert_true(x[0] == 0.1 && x[1] == 0.1 && x[2] == 0.6);
    x[0] = 0.2, x[1] = 0.3;
    nsi_parameters_params(v, 0, x, p, NULL, scratch);
    for (uint32_t k = 0; k < 3; k++) {
        const char* name = nsi_parameters_param_names(v, 0)[k];
        double value = NAN;
        for (uint32_t i = 0; i < 3; i++) {
            if (strcmp(ns_parameters_at(v, i)->name, name) == 0) value = x[i];
        }
        assert_true(p[k] == value);
    }
    free(scratch);
    ns_parameters_free(v);
}

// `set` of the options is where parameters start, the later one first.
static void options_give_starts(void** state) {
    (void)state;
    ns_param_value values[] = {{"link/*/mass", 2.0}, {"link/link1/mass", 3.0}};
    ns_system_options options = ns_default_system_options();
    options.set = values;
    options.nset = 2;
    nsi_parameter_request request = ask("link/*/mass");
    ns_parameters* v = NULL;
    ns_error error;
    assert_int_equal(nsi_parameters_read(&(ns_variant){.model = pendulum, .options = &options}, 1,
                                         "e.yaml", &request, 1, NULL, 0, NULL, &v, &error),
                     NS_OK);
    assert_true(ns_parameters_at(v, 0)->initial == 2.0 && ns_parameters_at(v, 1)->initial == 3.0);
    ns_parameters_free(v);
}

static void every_parameter_of_a_model_can_be_asked_for(void** state) {
    (void)state;
    for (uint32_t k = 0; k < ns_model_get_sizes(pendulum).nparam; k++) {
        nsi_parameter_request request = ask(ns_model_param(pendulum, k)->name);
        ns_parameters* v = make(&request, 1, NULL, 0);
        double *scratch = scratch_of(v), x, z, back, p;
        nsi_parameters_initial(v, &x);
        assert_true(x == ns_model_param(pendulum, k)->value);
        nsi_parameters_to_z(v, &x, &z);
        nsi_parameters_from_z(v, &z, &back, NULL, scratch);
        assert_near(back, x, 1e-3, request.name); // at a bound it is moved off
        nsi_parameters_params(v, 0, &back, &p, NULL, scratch);
        assert_true(p == back);
        free(scratch);
        ns_parameters_free(v);
    }
}

// ---- messages ----------------------------------------------------------------------------------

static void messages_say_where_and_what(void** state) {
    (void)state;
    refuse_one(ask("link/link1/mas"), "did you mean \"link/link1/mass\"?");
    refuse_one(ask("link/*/weight"), "no parameter matches \"link/*/weight\"");
    refuse_one(ask("joint/*/dampng"), "; the nearest is \"joint/joint0/damping\"");
    refuse_one(ask("length"), "a number of your own needs an initial value");
    refuse_one(ask_own("length", 1.0, 2.0, 1.0), "the lower bound 2 is not below the upper one 1");
    refuse_one(ask_own("length", 1.0, 1.0, 1.0), "is not below");
    refuse_one(ask_own("length", 3.0, 1.0, 2.0), "the initial value 3 is not between 1 and 2");
    nsi_parameter_request r = ask("link/link1/mass");
    r.how.initial = -1.0;
    refuse_one(r, "link/link1/mass: the initial value -1 is not between 0 and inf");
    r = ask_own("a", 1.0, NAN, NAN);
    r.how.scale = 0.0;
    refuse_one(r, "scale and prior_sigma must be positive");
    r.how.scale = NAN;
    r.how.prior_sigma = -1.0;
    refuse_one(r, "scale and prior_sigma must be positive");
    nsi_parameter_request twice[] = {ask("link/*/mass"), ask("link/link1/mass")};
    refuse(twice, 2, NULL, 0, "3:5", "link/link1/mass is asked for twice");

    nsi_parameter_request own = ask_own("a", 1.0, NAN, NAN);
    nsi_setting_request s = set("link/link1/mass", "a + b");
    refuse(&own, 1, &s, 1, "7:9", "uses \"b\", which is neither a parameter");
    s = set("link/link1/mass", "a +");
    refuse(&own, 1, &s, 1, "7:9", "of the formula");
    s = set("link/link1/mas", "a");
    refuse(&own, 1, &s, 1, "7:9", "did you mean \"link/link1/mass\"?");
    nsi_setting_request circle[] = {set("link/link1/mass", "a * \"link/link0/mass\""),
                                    set("link/link0/mass", "a")};
    refuse(&own, 1, circle, 2, "7:9", "itself set by a formula");
    nsi_setting_request again[] = {set("link/link1/mass", "a"), set("link/*/mass", "2 * a")};
    refuse(&own, 1, again, 2, "7:9", "is set twice");
    nsi_parameter_request mass = ask("link/link1/mass");
    s = set("link/link1/mass", "2");
    refuse(&mass, 1, &s, 1, "7:9", "already estimated");
}

static void every_allocation_may_fail(void** state) {
    (void)state;
    nsi_parameter_request requests[] = {ask("link/link1/mass"), ask("link/link1/com/*"),
                                        ask("link/link1/inertia/*"), ask_own("a", 1.0, 0.0, 2.0)};
    nsi_setting_request settings[] = {set("joint/*/damping", "a"), set("link/link0/mass", "1 + a")};
    for (size_t n = 1;; n++) {
        test_alloc counter = {.fail_at = n};
        ns_allocator allocator = test_allocator(&counter);
        ns_parameters* v = NULL;
        ns_error error = {0};
        ns_status status =
            nsi_parameters_read(&(ns_variant){.model = pendulum, .options = &no_options}, 1,
                                "e.yaml", requests, 4, settings, 2, &allocator, &v, &error);
        assert_int_equal(status, counter.calls < n ? NS_OK : NS_ERR_NOMEM);
        ns_parameters_free(v);
        assert_int_equal(counter.live_blocks, 0);
        if (status == NS_OK) break;
    }
}

// A fit of weights alone has none.
static void there_may_be_none(void** state) {
    (void)state;
    ns_parameters* v = make(NULL, 0, NULL, 0);
    double *scratch = scratch_of(v), none = 7.0;
    assert_int_equal(ns_parameters_count(v), 0);
    nsi_parameters_from_z(v, &none, &none, &none, scratch);
    nsi_parameters_params(v, 0, &none, &none, &none, scratch);
    assert_null(nsi_parameters_fault(v, 0, &none));
    assert_true(none == 7.0);
    free(scratch);
    ns_parameters_free(v);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(globs_ask_for_many),
        cmocka_unit_test(options_give_starts),
        cmocka_unit_test(every_parameter_of_a_model_can_be_asked_for),
        cmocka_unit_test(messages_say_where_and_what),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(there_may_be_none),
    };
    return cmocka_run_group_tests(tests, load_pendulum, free_pendulum);
}
