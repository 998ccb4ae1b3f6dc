// Tendons where joints are at their rest, against closed forms.

#include "model/model_data.h"
#include "support/assert.h"
#include "support/modelfile.h"

#include <math.h>

// A crank of length 0.5 at its rest of 0.3 rad, and a slide at its rest of 0.2 m.
static void lengths_and_moments_have_closed_forms(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(
        "<mujoco><compiler angle='radian'/><worldbody><site name='w' pos='2 0 0'/>"
        "<body><joint name='a' axis='0 0 1' springref='0.3'/><inertial pos='0 0 0' mass='1' "
        "diaginertia='1 1 1'/><site name='p' pos='0.5 0 0'/></body>"
        "<body><joint name='b' type='slide' axis='0 0 1' springref='0.2'/><inertial pos='0 0 0' "
        "mass='1' diaginertia='1 1 1'/></body></worldbody><tendon>"
        "<fixed name='f'><joint joint='a' coef='2'/><joint joint='b' coef='-3'/></fixed>"
        "<spatial name='s'><site site='w'/><site site='p'/></spatial>"
        "<spatial name='h'><pulley divisor='4'/><site site='w'/><site site='p'/></spatial>"
        "<fixed name='g' springlength='0.7'><joint joint='a' coef='1'/></fixed></tendon></mujoco>");
    ns_error error;
    double length, moment[2];
    must(nsi_tendon_at_rest(model, &model->tendons[0], &length, moment, &error), &error);
    close_to("fixed", length, 2 * 0.3 - 3 * 0.2, 1e-15);
    assert_true(moment[0] == 2.0 && moment[1] == -3.0);

    // By the law of cosines, and its derivative.
    double distance = sqrt(4.0 + 0.25 - 2.0 * 2.0 * 0.5 * cos(0.3));
    must(nsi_tendon_at_rest(model, &model->tendons[1], &length, moment, &error), &error);
    close_to("spatial", length, distance, 1e-15);
    close_to("its moment", moment[0], 2.0 * 0.5 * sin(0.3) / distance, 1e-15);
    assert_true(moment[1] == 0.0);
    must(nsi_tendon_at_rest(model, &model->tendons[2], &length, moment, &error), &error);
    close_to("with a pulley", length, distance / 4.0, 1e-15);

    // Springs without a length rest there.
    close_to("rest", ns_model_tendon(model, 1)->rest, distance, 1e-15);
    uint32_t rest = ns_model_find_param(model, "tendon/s/rest");
    close_to("parameter", ns_model_param(model, rest)->value, distance, 1e-15);
    assert_true(ns_model_tendon(model, 3)->rest == 0.7);
    ns_model_free(model);
}

// A string around a drum of radius 0.2 on the crank's axis: two tangents, the arc between them, and the
// radius as its moment.
static void strings_wrap_around_drums(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(
        "<mujoco><compiler angle='radian'/><worldbody><site name='w' pos='-2 0 0'/>"
        "<site name='up' pos='0 1 0'/><geom name='drum' type='cylinder' size='0.2 1' mass='0'/>"
        "<body><joint name='a' axis='0 0 1' springref='0.3'/><inertial pos='0 0 0' mass='1' "
        "diaginertia='1 1 1'/><site name='p' pos='0.5 0 0'/></body></worldbody><tendon>"
        "<spatial name='s'><pulley divisor='2'/><site site='w'/><geom geom='drum' sidesite='up'/>"
        "<site site='p'/></spatial></tendon></mujoco>");
    ns_error error;
    double length, moment[1];
    const double arc = 3.14159265358979323846 - 0.3 - acos(0.2 / 2.0) - acos(0.2 / 0.5);
    must(nsi_tendon_at_rest(model, &model->tendons[0], &length, moment, &error), &error);
    close_to("around the drum", length, 0.5 * (sqrt(4.0 - 0.04) + sqrt(0.25 - 0.04) + 0.2 * arc),
             1e-14);
    close_to("its moment", moment[0], -0.5 * 0.2, 1e-14);
    ns_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(lengths_and_moments_have_closed_forms),
                                       cmocka_unit_test(strings_wrap_around_drums)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
