// Mass and inertia of meshes against closed forms. tests/io/test_mujoco_files.c compares files with MuJoCo.

#include "io/mesh_mass.h"
#include "model/model_data.h"
#include "support/assert.h"

#include <math.h>

// A box with these half lengths at a place, its triangles outwards; `turned`: that many inwards.
static nsi_surface make_box(const double half[3], const double at[3], uint32_t turned) {
    static const uint32_t faces[12][3] = {{0, 2, 3}, {0, 3, 1}, {4, 5, 7}, {4, 7, 6},
                                          {0, 1, 5}, {0, 5, 4}, {2, 6, 7}, {2, 7, 3},
                                          {0, 4, 6}, {0, 6, 2}, {1, 3, 7}, {1, 7, 5}};
    nsi_surface s = {0};
    for (uint32_t k = 0; k < 8; k++) {
        for (uint32_t i = 0; i < 3; i++) {
            double sign = (k >> i) & 1 ? 1.0 : -1.0;
            assert_true(nsi_array_push(NULL, &s.vertices, at[i] + sign * half[i]));
        }
    }
    for (uint32_t k = 0; k < 12; k++) {
        for (uint32_t i = 0; i < 3; i++) {
            uint32_t corner = k < turned && i > 0 ? 3 - i : i;
            assert_true(nsi_array_push(NULL, &s.triangles, faces[k][corner]));
        }
    }
    return s;
}

static nsi_mesh_mass find(const nsi_surface* s, nsi_mesh_inertia kind) {
    nsi_mesh_mass mass;
    const char* fault;
    assert_int_equal(nsi_mesh_mass_find(s, kind, NULL, &mass, &fault), NS_OK);
    if (fault) fail_msg("%s", fault);
    return mass;
}

static const char* find_fault(const nsi_surface* s, nsi_mesh_inertia kind) {
    nsi_mesh_mass mass;
    const char* fault;
    assert_int_equal(nsi_mesh_mass_find(s, kind, NULL, &mass, &fault), NS_OK);
    return fault ? fault : "";
}

static void boxes_have_their_closed_form(void** state) {
    (void)state;
    const double half[3] = {0.1, 0.3, 0.2}, at[3] = {2.0, -1.0, 0.5};
    double volume = 8.0 * 0.1 * 0.3 * 0.2;
    const double inertia[6] = {volume * (0.09 + 0.04) / 3.0,
                               volume * (0.01 + 0.04) / 3.0,
                               volume * (0.01 + 0.09) / 3.0,
                               0.0,
                               0.0,
                               0.0};
    for (nsi_mesh_inertia kind = NSI_MESH_LEGACY; kind <= NSI_MESH_CONVEX; kind++) {
        nsi_surface s = make_box(half, at, 0);
        nsi_mesh_mass mass = find(&s, kind);
        close_relative(mass.mass, volume, 1e-14);
        all_close(mass.com, at, 3, 1e-14);
        all_close(mass.inertia, inertia, 6, 1e-14);
        nsi_surface_free(NULL, &s);
    }

    // The shell: how the solid changes as its faces move outwards.
    double step = 1e-4, up[3], down[3];
    for (int i = 0; i < 3; i++) up[i] = half[i] + step, down[i] = half[i] - step;
    nsi_surface s = make_box(half, at, 0), more = make_box(up, at, 0), less = make_box(down, at, 0);
    nsi_mesh_mass shell = find(&s, NSI_MESH_SHELL), a = find(&more, NSI_MESH_EXACT),
                  b = find(&less, NSI_MESH_EXACT);
    close_relative(shell.mass, (a.mass - b.mass) / (2.0 * step), 1e-7);
    all_close(shell.com, at, 3, 1e-14);
    for (int i = 0; i < 6; i++) {
        close_relative(shell.inertia[i], (a.inertia[i] - b.inertia[i]) / (2.0 * step), 1e-7);
    }
    nsi_surface_free(NULL, &s);
    nsi_surface_free(NULL, &more);
    nsi_surface_free(NULL, &less);
}

// Two boxes beside each other as one surface: parts may be anywhere when volumes have signs.
static void parts_add_up(void** state) {
    (void)state;
    const double half[3] = {0.1, 0.3, 0.2}, cube[3] = {0.2, 0.2, 0.2}, left[3] = {-1.0, 0.5, 0.0},
                 right[3] = {2.0, 0.0, 0.3};
    nsi_surface s = make_box(half, left, 0), t = make_box(cube, right, 0);
    nsi_mesh_mass a = find(&s, NSI_MESH_EXACT), b = find(&t, NSI_MESH_EXACT);
    uint32_t first = s.vertices.count / 3;
    for (uint32_t k = 0; k < t.vertices.count; k++) {
        assert_true(nsi_array_push(NULL, &s.vertices, t.vertices.data[k]));
    }
    for (uint32_t k = 0; k < t.triangles.count; k++) {
        assert_true(nsi_array_push(NULL, &s.triangles, first + t.triangles.data[k]));
    }
    nsi_mesh_mass both = find(&s, NSI_MESH_EXACT);
    double com[3], inertia[6] = {0.0}, total = a.mass + b.mass;
    for (int i = 0; i < 3; i++) com[i] = (a.mass * a.com[i] + b.mass * b.com[i]) / total;
    const nsi_mesh_mass* const parts[2] = {&a, &b};
    for (int k = 0; k < 2; k++) {
        double offset[3];
        for (int i = 0; i < 3; i++) offset[i] = parts[k]->com[i] - com[i];
        for (int i = 0; i < 6; i++) inertia[i] += parts[k]->inertia[i];
        nsi_inertia_shift(parts[k]->mass, offset, inertia);
    }
    close_relative(both.mass, total, 1e-14);
    all_close(both.com, com, 3, 1e-14);
    all_close(both.inertia, inertia, 6, 1e-14);

    // The legacy rule counts the gap, the hull fills it.
    assert_true(find(&s, NSI_MESH_LEGACY).mass > 1.5 * total);
    assert_true(find(&s, NSI_MESH_CONVEX).mass > 1.5 * total);
    nsi_surface_free(NULL, &s);
    nsi_surface_free(NULL, &t);
}

static void faults_are_told(void** state) {
    (void)state;
    const double half[3] = {0.1, 0.3, 0.2}, at[3] = {2.0, -1.0, 0.5}, flat[3] = {0.1, 0.3, 0.0};
    nsi_surface inwards = make_box(half, at, 12);
    assert_non_null(strstr(find_fault(&inwards, NSI_MESH_EXACT), "its triangles point inwards"));
    assert_string_equal(find_fault(&inwards, NSI_MESH_LEGACY), "");
    assert_string_equal(find_fault(&inwards, NSI_MESH_CONVEX), "");
    nsi_surface_free(NULL, &inwards);
    nsi_surface plate = make_box(flat, at, 0);
    assert_string_equal(find_fault(&plate, NSI_MESH_LEGACY), "has no volume");
    assert_string_equal(find_fault(&plate, NSI_MESH_CONVEX), "has no convex hull");
    plate.triangles.count = 0;
    assert_string_equal(find_fault(&plate, NSI_MESH_LEGACY), "has no convex hull");
    nsi_surface_free(NULL, &plate);

    // Half of the faces turned around: volumes cancel in part.
    nsi_surface torn = make_box(half, at, 6);
    assert_string_not_equal(find_fault(&torn, NSI_MESH_EXACT), "");
    nsi_surface_free(NULL, &torn);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(boxes_have_their_closed_form),
        cmocka_unit_test(parts_add_up),
        cmocka_unit_test(faults_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
