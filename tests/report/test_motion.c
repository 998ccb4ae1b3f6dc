// What a page shows of a motion is the motion: the data of pages is read by other means and compared
// with rollouts, models and files. Whatever names are, they do not leave their place.

#define _POSIX_C_SOURCE 200809L

#include "report/html.h"
#include "report/motion_data.h"
#include "report/motion_rig.h"
#include "report/motion_scene.h"
#include "report/packed_columns.h"
#include "report/web_bundle.h"
#include "support/assert.h"
#include "support/modelfile.h"
#include "support/payload.h"
#include "support/testalloc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// The bundle of a build without npm.
#undef NSI_WEB_FOLDER
#define nsi_web_bundle_get bundle_without_npm
bool bundle_without_npm(nsi_web_bundle* out);
#include "report/web_bundle.c"
#undef nsi_web_bundle_get

// ---- motion ----------------------------------------------------------------------------------

enum { STEPS = 400, MISSING = 250 };

typedef struct recording {
    ns_system* system; // that observes all there is to see
    ns_system_sizes z;
    double *states, *controls, *observations; // of STEPS + 1 rows
} recording;

// A rollout, its last row by one step more.
static recording record(const ns_model* model, ns_system_options options, const double* x0) {
    static const char* const observe[] = {"link/*/pose", "joint", "energy", "com", "contact"};
    recording r = {0};
    ns_error error;
    options.observe = observe;
    options.nobserve = ns_model_get_sizes(model).ncontact > 0 ? 5 : 4;
    must(ns_system_create(model, &options, &r.system, &error), &error);
    r.z = ns_system_get_sizes(r.system);
    r.states = calloc((size_t)(STEPS + 2) * r.z.nx, sizeof(double));
    r.controls = calloc((size_t)(STEPS + 1) * r.z.nc, sizeof(double));
    r.observations = calloc((size_t)(STEPS + 1) * r.z.ny, sizeof(double));
    for (uint32_t k = 0; k <= STEPS; k++) r.controls[(k + 1) * r.z.nc - 1] = sin(0.05 * k);
    ns_workspace* work = NULL;
    ns_workspace_size size = {.batch = 1, .steps = STEPS + 1, .threads = 1};
    ns_rollout_args args = {.batch = 1,
                            .steps = STEPS + 1,
                            .x0 = x0,
                            .controls = r.controls,
                            .states = r.states,
                            .observations = r.observations};
    assert_int_equal(ns_workspace_create(r.system, &size, &work, NULL), NS_OK);
    must(ns_rollout(r.system, work, &args, &error), &error);
    ns_workspace_free(work);
    return r;
}

static void recording_free(recording* r) {
    ns_system_free(r->system);
    free(r->states);
    free(r->controls);
    free(r->observations);
}

static uint32_t find_observation(const recording* r, const char* name) {
    for (uint32_t k = 0; k < r->z.ny; k++) {
        if (strcmp(ns_system_observation_name(r->system, k), name) == 0) return k;
    }
    fail_msg("the rollout does not observe %s", name);
    return 0;
}

// A column is what the rollout observed, row by row, up to where rows are missing.
static void compare(const recording* r, const char* name, const double* column, uint32_t rows,
                    double tolerance) {
    uint32_t k = find_observation(r, name);
    double low = INFINITY, high = -INFINITY;
    if (!column) fail_msg("the page does not have %s", name);
    for (uint32_t row = 0; row < rows; row++) {
        low = fmin(low, r->observations[row * r->z.ny + k]);
        high = fmax(high, r->observations[row * r->z.ny + k]);
    }
    if (tolerance == 0.0) tolerance = ldexp(high - low, -24) + 1e-12;
    for (uint32_t row = 0; row <= STEPS; row++) {
        double expected = r->observations[row * r->z.ny + k];
        if (row >= rows ? isnan(column[row]) : fabs(column[row] - expected) <= tolerance) continue;
        fail_msg("%s, row %u: %.12g is not %.12g", name, row, column[row], expected);
    }
}

// The contact points of a track: each number of those that touch, and none that does not.
static uint32_t compare_contacts(const recording* r, const payload* p, const json_t* track,
                                 uint32_t rows) {
    const json_t* contacts = at(track, "contacts");
    uint32_t touching = 0;
    for (size_t c = 0; c < json_array_size(contacts); c++) {
        const char* name = json_string_value(at(item(contacts, c), "name"));
        json_int_t first = json_integer_value(at(item(contacts, c), "first"));
        uint32_t part[6];
        for (int i = 0; i < 6; i++) {
            char full[300];
            snprintf(full, sizeof full, "contact/%s/%s/%c", name, i < 3 ? "position" : "force",
                     "xyz"[i % 3]);
            part[i] = find_observation(r, full);
        }
        double most = 0.0; // N, of the forces; half a step is 2^-25 of their range
        for (uint32_t k = 0; k < 3 * rows; k++) {
            most = fmax(most, fabs(r->observations[k / 3 * r->z.ny + part[3 + k % 3]]));
        }
        const double error[2] = {1e-6, ldexp(most, -24) + 1e-9};
        for (uint32_t row = 0; row <= STEPS; row++) {
            const double* y = r->observations + row * r->z.ny;
            bool touches = y[part[3]] != 0.0 || y[part[4]] != 0.0 || y[part[5]] != 0.0;
            touches = touches && row < rows;
            touching += touches;
            for (int i = 0; i < 6; i++) {
                double shown = p->columns[first + i][row], expected = y[part[i]];
                if (touches ? fabs(shown - expected) <= error[i / 3] : isnan(shown)) continue;
                fail_msg("%s, row %u, %d: %.9g is not %.9g", name, row, i, shown, expected);
            }
        }
    }
    return touching;
}

static uint32_t count_touching(const recording* r, uint32_t rows) {
    uint32_t count = 0;
    for (uint32_t k = 0; k + 2 < r->z.ny; k++) {
        const char* name = ns_system_observation_name(r->system, k);
        size_t length = strlen(name);
        if (strncmp(name, "contact/", 8) != 0 || strcmp(name + length - 8, "/force/x") != 0)
            continue;
        for (uint32_t row = 0; row < rows; row++) {
            const double* f = r->observations + row * r->z.ny + k;
            count += f[0] != 0.0 || f[1] != 0.0 || f[2] != 0.0;
        }
    }
    return count;
}

static void compare_track(const recording* r, const ns_model* model, const payload* p,
                          uint32_t number, uint32_t rows) {
    static const char* const parts[7] = {"x", "y", "z", "qw", "qx", "qy", "qz"};
    const json_t* episode = item(at(p->data, "episodes"), 0);
    const json_t* track = item(at(episode, "tracks"), number);
    json_int_t poses = json_integer_value(at(track, "poses"));
    for (uint32_t k = 0; k < 7 * ns_model_get_sizes(model).nlink; k++) {
        char name[100];
        snprintf(name, sizeof name, "link/%s/pose/%s", ns_model_link(model, k / 7)->name,
                 parts[k % 7]);
        compare(r, name, p->columns[poses + k], rows, 1e-6);
        assert_ptr_equal(payload_quantity(p, 0, number, name), p->columns[poses + k]);
    }
    for (uint32_t k = 0; k < r->z.ny; k++) {
        const char* name = ns_system_observation_name(r->system, k);
        bool usual = ns_glob_match("joint/*/position", name) ||
                     ns_glob_match("joint/*/position/*", name) ||
                     ns_glob_match("joint/*/velocity", name) ||
                     ns_glob_match("joint/*/tau", name) || ns_glob_match("energy/*", name) ||
                     ns_glob_match("com/*", name) || ns_glob_match("joint/*/sin", name);
        if (usual) compare(r, name, payload_quantity(p, 0, number, name), rows, 0.0);
    }
    uint32_t touching = compare_contacts(r, p, track, rows);
    assert_int_equal(touching, count_touching(r, rows));
}

// Two tracks of the same motion; of the second, the end is missing.
static void show_and_compare(const char* path, bool ground, int contact, const double* x0) {
    ns_model* model = load(path, ground);
    ns_system_options options = ns_default_system_options();
    options.contact = contact;
    recording r = record(model, options, x0);
    static const char* const more[] = {"joint/*/sin"};
    ns_motion_observer* motion = NULL;
    ns_motion* viewer = NULL;
    ns_error error;
    must(ns_motion_observer_create(model, &options, more, 1, &motion, &error), &error);
    double time[STEPS + 1];
    for (uint32_t k = 0; k <= STEPS; k++) time[k] = k * r.z.timestep;
    assert_int_equal(ns_motion_create(model, NULL, &viewer, NULL), NS_OK);
    assert_int_equal(ns_motion_add_episode(viewer, "e", time, STEPS + 1, NULL, NULL), NS_OK);
    assert_int_equal(ns_motion_rows(viewer), STEPS + 1);
    for (int k = 0; k < 2; k++) {
        ns_motion_states rows = {.states = r.states, .controls = r.controls};
        for (uint32_t row = MISSING; row <= STEPS && k == 1; row++) r.states[row * r.z.nx] = NAN;
        assert_int_equal(ns_motion_add_track(viewer, k ? "late" : "whole", "run", NULL), NS_OK);
        must(ns_motion_observer_add_states(motion, viewer, &rows, &error), &error);
    }
    payload p = read_viewer(viewer);
    assert_int_equal(json_integer_value(at(p.data, "version")), 1);
    const json_t* episode = item(at(p.data, "episodes"), 0);
    assert_true(json_is_null(at(episode, "note")));
    const double* shown_time = p.columns[json_integer_value(at(episode, "time"))];
    for (uint32_t k = 0; k <= STEPS; k++) assert_true(fabs(shown_time[k] - time[k]) < 1e-15);
    compare_track(&r, model, &p, 0, STEPS + 1);
    compare_track(&r, model, &p, 1, MISSING);
    assert_int_equal(count_touching(&r, STEPS + 1) > 0, ground && contact != NS_CONTACT_NONE);
    assert_true(p.ncolumn <= 1 + 2 * ns_motion_observer_column_count(motion));

    // The control that is not zero is shown, the others are not.
    uint32_t last = r.z.nc - 1;
    const double* control = payload_quantity(&p, 0, 0, ns_system_control_name(r.system, last));
    assert_non_null(control);
    for (uint32_t k = 0; k <= STEPS; k++) {
        assert_true(fabs(control[k] - r.controls[k * r.z.nc + last]) < 1e-6);
    }
    for (uint32_t k = 0; k < last; k++) {
        assert_null(payload_quantity(&p, 0, 0, ns_system_control_name(r.system, k)));
    }
    payload_free(&p);
    ns_motion_free(viewer);
    ns_motion_observer_free(motion);
    recording_free(&r);
    ns_model_free(model);
}

static void the_page_shows_the_rollout(void** state) {
    (void)state;
    const double pendulum[4] = {1.0, 0.5, -0.3, 0.2};
    show_and_compare(NEURALSIM_SOURCE_DIR "/models/double_pendulum.urdf", false, -1, pendulum);
    double quadruped[19 + 18] = {0.0, 0.0, 0.45, 1.0};
    quadruped[20] = 0.5, quadruped[24] = 1.0;
    const char* path = NEURALSIM_SOURCE_DIR "/models/quadruped.urdf";
    show_and_compare(path, true, NS_CONTACT_NCP, quadruped);
    show_and_compare(path, true, NS_CONTACT_SPRING, quadruped);
    show_and_compare(path, true, NS_CONTACT_NONE, quadruped);
}

static void units_are_told(void** state) {
    (void)state;
    ns_model* model = load(NEURALSIM_SOURCE_DIR "/models/double_pendulum.urdf", false);
    ns_motion_observer* motion = NULL;
    ns_motion* viewer = NULL;
    const double time = 0.0, x[4] = {0.1, 0.2, 0.3, 0.4}, c[2] = {1.0, 0.0};
    ns_motion_states rows = {.states = x, .controls = c};
    assert_int_equal(ns_motion_observer_create(model, NULL, NULL, 0, &motion, NULL), NS_OK);
    assert_int_equal(ns_motion_create(model, NULL, &viewer, NULL), NS_OK);
    assert_int_equal(ns_motion_add_episode(viewer, "e", &time, 1, "one", NULL), NS_OK);
    assert_int_equal(ns_motion_add_track(viewer, "t", "run", NULL), NS_OK);
    assert_int_equal(ns_motion_observer_add_states(motion, viewer, &rows, NULL), NS_OK);
    payload p = read_viewer(viewer);
    static const char* const units[][2] = {{"joint/joint0/position", "rad"},
                                           {"joint/joint1/velocity", "rad/s"},
                                           {"joint/joint1/tau", "N m"},
                                           {"energy/total", "J"},
                                           {"com/z", "m"},
                                           {"link/link1/pose/x", "m"},
                                           {"link/link1/pose/qw", ""},
                                           {"tau0", "N m"}};
    const json_t* episode = item(at(p.data, "episodes"), 0);
    const json_t* list = at(episode, "quantities");
    assert_text(episode, "note", "one");
    for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
        bool found = false;
        for (size_t k = 0; k < json_array_size(list); k++) {
            const json_t* q = item(list, k);
            if (strcmp(json_string_value(at(q, "name")), units[u][0]) != 0) continue;
            assert_text(q, "unit", units[u][1]);
            found = true;
        }
        if (!found) fail_msg("there is no %s", units[u][0]);
    }
    payload_free(&p);
    ns_motion_free(viewer);
    ns_motion_observer_free(motion);

    const char* wrong = "no/such/quantity";
    ns_error error;
    assert_int_equal(ns_motion_observer_create(model, NULL, &wrong, 1, &motion, &error),
                     NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, wrong));
    assert_null(motion);
    ns_model_free(model);
}

// ---- viewer ----------------------------------------------------------------------------------

static void quantities_belong_to_tracks(void** state) {
    (void)state;
    ns_model* model = load(NEURALSIM_SOURCE_DIR "/models/double_pendulum.urdf", false);
    uint32_t nlink = ns_model_get_sizes(model).nlink;
    ns_motion* viewer = NULL;
    ns_error error;
    const double time[3] = {0.0, 0.1, 0.3}, table[6] = {1, 10, 2, 20, 3, 30};
    double* poses = calloc((size_t)3 * nlink * 7, sizeof *poses);
    for (uint32_t k = 0; k < 3 * nlink * 7; k++) poses[k] = k;
    assert_int_equal(ns_motion_create(model, NULL, &viewer, NULL), NS_OK);
    assert_int_equal(ns_motion_add_track(viewer, "a", "run", &error), NS_ERR_STATE);
    assert_int_equal(ns_motion_add_span(viewer, 0, 1, "test", &error), NS_ERR_STATE);
    assert_int_equal(ns_motion_add_episode(viewer, "one", time, 3, NULL, NULL), NS_OK);
    assert_int_equal(ns_motion_add_quantity(viewer, "x", "m", table, 2, &error), NS_ERR_STATE);
    assert_int_equal(ns_motion_set_poses(viewer, poses, &error), NS_ERR_STATE);
    assert_int_equal(ns_motion_add_contact(viewer, "c", poses, &error), NS_ERR_STATE);
    assert_int_equal(ns_motion_add_span(viewer, 0.0, 0.2, "train", NULL), NS_OK);
    assert_int_equal(ns_motion_add_track(viewer, "a", "recorded", NULL), NS_OK);
    assert_int_equal(ns_motion_add_quantity(viewer, "x", "m", table, 2, NULL), NS_OK);
    assert_int_equal(ns_motion_add_track(viewer, "b", "after", NULL), NS_OK);
    assert_int_equal(ns_motion_add_quantity(viewer, "y", "", table, 1, NULL), NS_OK);
    assert_int_equal(ns_motion_add_quantity(viewer, "y", "", table + 1, 2, NULL), NS_OK);
    assert_int_equal(ns_motion_set_poses(viewer, poses, NULL), NS_OK);
    const char* pose = "link/link0/pose/x";
    assert_int_equal(ns_motion_add_quantity(viewer, pose, "m", table, 2, NULL), NS_OK);
    assert_int_equal(ns_motion_add_contact(viewer, "c", poses, NULL), NS_OK);

    const double backwards[2] = {1.0, 0.5}, endless[1] = {INFINITY};
    assert_int_equal(ns_motion_add_episode(viewer, "two", backwards, 2, NULL, &error),
                     NS_ERR_ARGUMENT);
    assert_int_equal(ns_motion_add_episode(viewer, "two", endless, 1, NULL, &error),
                     NS_ERR_ARGUMENT);
    assert_int_equal(ns_motion_add_episode(viewer, "two", time, 0, NULL, &error), NS_ERR_ARGUMENT);

    payload p = read_viewer(viewer);
    assert_int_equal(json_array_size(at(p.data, "episodes")), 1);
    const json_t* episode = item(at(p.data, "episodes"), 0);
    assert_text(item(at(episode, "spans"), 0), "role", "train");
    assert_true(json_number_value(at(item(at(episode, "spans"), 0), "to")) == 0.2);
    const json_t* tracks = at(episode, "tracks");
    assert_text(item(tracks, 0), "role", "recorded");
    assert_true(json_is_null(at(item(tracks, 0), "poses")));
    assert_text(item(tracks, 1), "name", "b");

    assert_true(fabs(payload_quantity(&p, 0, 0, "x")[2] - 3.0) < 1e-6);
    assert_null(payload_quantity(&p, 0, 1, "x"));
    assert_null(payload_quantity(&p, 0, 0, "y"));
    const double* y = payload_quantity(&p, 0, 1, "y"); // the second time counts
    for (int k = 0; k < 3; k++) assert_true(fabs(y[k] - table[2 * k + 1]) < 1e-5);

    // The robot stays where its poses are.
    json_int_t first = json_integer_value(at(item(tracks, 1), "poses"));
    uint32_t width = 7 * nlink;
    for (uint32_t k = 0; k < 3; k++) {
        assert_true(fabs(payload_quantity(&p, 0, 1, pose)[k] - table[2 * k]) < 1e-6);
        for (uint32_t c = 0; c < width; c++) {
            assert_true(fabs(p.columns[first + c][k] - poses[k * width + c]) < 1e-6);
        }
        json_int_t point =
            json_integer_value(at(item(at(item(tracks, 1), "contacts"), 0), "first"));
        for (uint32_t c = 0; c < 6; c++) {
            assert_true(fabs(p.columns[point + c][k] - poses[k * 6 + c]) < 1e-5);
        }
    }
    payload_free(&p);
    ns_motion_free(viewer);
    ns_motion_free(NULL);
    free(poses);
    ns_model_free(model);
}

// ---- names that want to be more ----------------------------------------------------------------

static const char* const hostile[] = {
    "</script><script>alert(1)</script>",
    "<!-- <script>",
    "\"; alert(1); //",
    "a\\",
    "\xe8\xbf\x9e\xe6\x9d\x86 \xd0\xbc\xd0\xb0 \xf0\x9f\xa4\x96",
    "]]>&amp;&lt;",
    "a/b",
};

enum { NHOSTILE = sizeof hostile / sizeof *hostile };

static const char not_utf8[] = "half \xe8\xbf of \xff";

static ns_model* hostile_model(const ns_allocator* allocator) {
    ns_model_builder* builder = NULL;
    ns_model* model = NULL;
    assert_int_equal(ns_model_builder_create(allocator, &builder, NULL), NS_OK);
    assert_int_equal(ns_model_builder_set_name(builder, hostile[0], NULL), NS_OK);
    for (uint32_t k = 0; k <= NHOSTILE; k++) {
        ns_link_def link = ns_default_link_def();
        link.name = k < NHOSTILE ? hostile[k] : not_utf8;
        link.parent = k > 0 ? hostile[k - 1] : NULL;
        link.joint_type = NS_JOINT_REVOLUTE;
        link.mass = 1.0;
        link.com[0] = 0.1;
        link.inertia[0] = link.inertia[1] = link.inertia[2] = 0.1;
        ns_geom_def geom = ns_default_geom_def();
        geom.name = link.name;
        geom.link = link.name;
        geom.type = NS_GEOM_SPHERE;
        geom.size[0] = 0.1;
        assert_int_equal(ns_model_builder_add_link(builder, &link, NULL), NS_OK);
        assert_int_equal(ns_model_builder_add_geom(builder, &geom, NULL), NS_OK);
    }
    assert_int_equal(ns_model_builder_finish(builder, &model, NULL), NS_OK);
    ns_model_builder_free(builder);
    return model;
}

static void names_stay_where_they_are(void** state) {
    (void)state;
    ns_model* model = hostile_model(NULL);
    ns_model_sizes n = ns_model_get_sizes(model);
    ns_motion_observer* motion = NULL;
    ns_motion* viewer = NULL;
    ns_error error;
    double time[2] = {0.0, 1.0}, states[4 * (NHOSTILE + 1)] = {0.0};
    ns_system_options options = ns_default_system_options();
    options.contact = NS_CONTACT_NONE;
    must(ns_motion_observer_create(model, &options, NULL, 0, &motion, &error), &error);
    assert_int_equal(n.nq, NHOSTILE + 1);
    assert_int_equal(ns_motion_create(model, NULL, &viewer, NULL), NS_OK);
    assert_int_equal(ns_motion_add_episode(viewer, hostile[0], time, 2, hostile[1], NULL), NS_OK);
    assert_int_equal(ns_motion_add_span(viewer, 0, 1, hostile[2], NULL), NS_OK);
    assert_int_equal(ns_motion_add_track(viewer, not_utf8, hostile[0], NULL), NS_OK);
    assert_int_equal(
        ns_motion_observer_add_states(motion, viewer, &(ns_motion_states){.states = states}, NULL),
        NS_OK);
    assert_int_equal(ns_motion_add_quantity(viewer, hostile[0], hostile[1], time, 1, NULL), NS_OK);
    ns_text page = write_page(viewer);

    // Ours: the two of the viewer, and the page's script.
    nsi_web_bundle bundle;
    uint32_t scripts = 2;
    if (nsi_web_bundle_get(&bundle)) {
        char* script = calloc(bundle.script_size + 1, 1);
        memcpy(script, bundle.script, bundle.script_size);
        scripts += 1 + payload_count(script, "</script");
        free(script);
    }
    assert_int_equal(payload_count(page.data, "</script"), scripts);
    assert_int_equal(payload_count(page.data, "<!--"), 0);

    payload p = payload_read(page.data);
    const json_t* links = at(at(p.data, "scene"), "links");
    for (uint32_t k = 0; k < NHOSTILE; k++) assert_text(item(links, k), "name", hostile[k]);
    const char* repaired = "half \xef\xbf\xbd\xef\xbf\xbd of \xef\xbf\xbd";
    assert_text(item(links, NHOSTILE), "name", repaired);
    const json_t* episode = item(at(p.data, "episodes"), 0);
    assert_text(episode, "name", hostile[0]);
    assert_text(episode, "note", hostile[1]);
    assert_text(item(at(episode, "tracks"), 0), "name", repaired);
    assert_text(item(at(episode, "tracks"), 0), "role", hostile[0]);
    assert_non_null(payload_quantity(&p, 0, 0, hostile[0]));
    char name[100];
    snprintf(name, sizeof name, "link/%s/pose/x", hostile[6]);
    assert_non_null(payload_quantity(&p, 0, 0, name));
    payload_free(&p);
    ns_text_free(&page);
    ns_motion_free(viewer);
    ns_motion_observer_free(motion);
    ns_model_free(model);
}

// ---- memory ----------------------------------------------------------------------------------

static ns_status make_viewer(const ns_model* model, const ns_allocator* allocator) {
    ns_motion* viewer = NULL;
    const double time[2] = {0.0, 1.0};
    double* poses = calloc(2 * 7 * (size_t)ns_model_get_sizes(model).nlink, sizeof *poses);
    nsi_text_builder b = {.allocator = *allocator};
    ns_status status = ns_motion_create(model, allocator, &viewer, NULL);
    if (status == NS_OK) status = ns_motion_add_episode(viewer, "e", time, 2, "n", NULL);
    if (status == NS_OK) status = ns_motion_add_span(viewer, 0, 1, "test", NULL);
    if (status == NS_OK) status = ns_motion_add_track(viewer, "t", "run", NULL);
    if (status == NS_OK) status = ns_motion_add_quantity(viewer, "x", "m", time, 1, NULL);
    if (status == NS_OK) status = ns_motion_set_poses(viewer, poses, NULL);
    if (status == NS_OK) status = ns_motion_add_contact(viewer, "c", poses, NULL);
    if (status == NS_OK) status = nsi_motion_write(viewer, &b, NULL);
    ns_motion_free(viewer);
    nsi_array_free(&b.allocator, &b.text);
    free(poses);
    return status;
}

static void out_of_memory_is_told(void** state) {
    (void)state;
    ns_model* model = load(NEURALSIM_SOURCE_DIR "/tests/data/mesh/urdf.urdf", false);
    ns_status status = NS_ERR_NOMEM;
    for (size_t n = 1; status == NS_ERR_NOMEM; n++) {
        assert_true(n < 1000);
        test_alloc counter = {.fail_at = n};
        ns_allocator allocator = test_allocator(&counter);
        status = make_viewer(model, &allocator);
        assert_true(status == NS_ERR_NOMEM || (status == NS_OK && counter.calls < n));
        assert_int_equal(counter.live_blocks, 0);
    }
    ns_model_free(model);

    // A motion takes its memory from the model.
    test_alloc counter = {0};
    ns_allocator allocator = test_allocator(&counter);
    model = hostile_model(&allocator);
    size_t blocks = counter.live_blocks, tried = 0;
    ns_system_options options = ns_default_system_options();
    options.contact = NS_CONTACT_NONE;
    status = NS_ERR_NOMEM;
    for (size_t n = 1; status == NS_ERR_NOMEM; n += 1 + n / 10, tried++) {
        ns_motion_observer* motion = NULL;
        counter.calls = 0;
        counter.fail_at = n;
        status = ns_motion_observer_create(model, &options, NULL, 0, &motion, NULL);
        assert_true(status == NS_ERR_NOMEM || (status == NS_OK && counter.calls < n));
        assert_int_equal(motion != NULL, status == NS_OK);
        ns_motion_observer_free(motion);
        assert_int_equal(counter.live_blocks, blocks);
    }
    assert_true(tried > 20);
    counter.fail_at = 0;
    ns_model_free(model);
}

static void a_build_without_npm_has_no_script(void** state) {
    (void)state;
    nsi_web_bundle bundle;
    assert_false(bundle_without_npm(&bundle));
    assert_int_equal(bundle.script_size, 0);
    assert_string_equal(bundle.hash, "");
    assert_non_null(strstr(NSI_WEB_BUNDLE_MISSING, "npm"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_page_shows_the_rollout),
        cmocka_unit_test(units_are_told),
        cmocka_unit_test(quantities_belong_to_tracks),
        cmocka_unit_test(names_stay_where_they_are),
        cmocka_unit_test(out_of_memory_is_told),
        cmocka_unit_test(a_build_without_npm_has_no_script),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
