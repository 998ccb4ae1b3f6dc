// Tendons that a builder refuses.

#include "model/builder_rig.h"
#include "support/assert.h"

static void expect_error(ns_model_builder* builder, const ns_tendon_def* tendon, const char* says) {
    ns_error error;
    assert_int_equal(ns_model_builder_add_tendon(builder, tendon, &error), NS_ERR_ARGUMENT);
    assert_says(error.message, says);
}

static void bad_tendons_are_named(void** state) {
    (void)state;
    ns_model_builder* builder = new_builder();
    ns_link_def link = rod("a", NULL);
    ns_site_def site = ns_default_site_def();
    ns_error error;
    add(builder, &link);
    link = rod("b", "a");
    link.joint_type = NS_JOINT_SPHERICAL;
    add(builder, &link);
    site.name = "s";
    must(ns_model_builder_add_site(builder, &site, &error), &error);

    ns_tendon_part part[2] = {{.joint = "a_joint", .factor = 2.0}, {.site = "s"}};
    ns_tendon_def good = ns_default_tendon_def(), tendon;
    good.name = "t", good.parts = part, good.npart = 1;
    tendon = good;
    tendon.npart = 0;
    expect_error(builder, &tendon, "tendon \"t\": it has no parts");
    tendon.npart = 2;
    expect_error(builder, &tendon, "its parts must be joints, or sites, pulleys and geometries");
    part[1] = (ns_tendon_part){.joint = "b_joint"};
    expect_error(builder, &tendon, "joint \"b_joint\" must be revolute or prismatic");
    part[1].joint = "nobody";
    expect_error(builder, &tendon, "there is no joint \"nobody\"");
    part[0] = (ns_tendon_part){.site = "s"}, part[1] = (ns_tendon_part){.site = "x"};
    expect_error(builder, &tendon, "there is no site \"x\"");
    part[1] = (ns_tendon_part){.geom = "x"};
    expect_error(builder, &tendon, "there is no geometry \"x\"");
    ns_geom_def geom = ns_default_geom_def();
    geom.name = "box", geom.type = NS_GEOM_BOX;
    geom.size[0] = geom.size[1] = geom.size[2] = 1.0;
    must(ns_model_builder_add_geom(builder, &geom, &error), &error);
    part[1].geom = "box";
    expect_error(builder, &tendon, "geometry \"box\" must be a sphere or a cylinder");
    geom.name = "ball", geom.type = NS_GEOM_SPHERE;
    must(ns_model_builder_add_geom(builder, &geom, &error), &error);
    part[1].geom = "ball";
    expect_error(builder, &tendon, "geometry \"ball\" must be between two sites");
    ns_tendon_part three[3] = {{.site = "s"}, {.geom = "ball", .side = "x"}, {.site = "s"}};
    tendon.parts = three, tendon.npart = 3;
    expect_error(builder, &tendon, "there is no site \"x\"");
    tendon.parts = part, tendon.npart = 2;
    part[1] = (ns_tendon_part){.factor = 0.0};
    expect_error(builder, &tendon, "divisor must be positive");
    part[0] = (ns_tendon_part){.joint = "a_joint", .factor = 2.0};
    tendon = good;
    tendon.damping = -1.0;
    expect_error(builder, &tendon, "damping must be zero or positive");
    tendon = good;
    tendon.limited = true;
    expect_error(builder, &tendon, "lower must be less than upper");
    must(ns_model_builder_add_tendon(builder, &good, &error), &error);
    expect_error(builder, &good, "another tendon has this name");
    ns_model_builder_free(builder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(bad_tendons_are_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
