// The page of a simulation, as the program writes it: it shows what the table says, whatever things
// are called, and also when the simulation does not come to its end.

#define _POSIX_C_SOURCE 200809L

#include "neuralsim/table.h"
#include "report/web_bundle.h"
#include "support/assert.h"
#include "support/payload.h"
#include "support/program.h"
#include "support/tempdir.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define MODELS NEURALSIM_SOURCE_DIR "/models/"
#define PENDULUM NEURALSIM_SOURCE_DIR "/tests/data/cli/pendulum.urdf"

static payload read_page(const char* name) {
    char* page = tempdir_read(name);
    payload p = payload_read(page);
    free(page);
    return p;
}

static const json_t* episode_of(const payload* p) {
    const json_t* episodes = json_object_get(p->data, "episodes");
    assert_int_equal(json_array_size(episodes), 1);
    return json_array_get(episodes, 0);
}

static const json_t* tracks_of(const payload* p) {
    return json_object_get(episode_of(p), "tracks");
}

static const double* time_of(const payload* p, uint32_t* rows) {
    json_int_t column = json_integer_value(json_object_get(episode_of(p), "time"));
    *rows = p->rows[column];
    return p->columns[column];
}

// A column of a table is a quantity of a track, from a row on.
static void compare(const payload* p, uint32_t track, const ns_table* table, uint32_t first,
                    const char* column, const char* quantity) {
    uint32_t rows, c = ns_table_column(table, column);
    time_of(p, &rows);
    const double* shown = payload_quantity(p, 0, track, quantity);
    if (!shown || c == NSI_NONE) fail_msg("there is no %s", shown ? column : quantity);
    assert_true(first + rows <= table->nrow);
    for (uint32_t k = 0; k < rows; k++) {
        double expected = ns_table_at(table, first + k, c);
        if (fabs(shown[k] - expected) <= 1e-5 * fmax(1.0, fabs(expected))) continue;
        fail_msg("%s, row %u: %.9g is not %.9g", quantity, k, shown[k], expected);
    }
}

static ns_table read_table(const char* name) {
    ns_table table;
    ns_error error;
    must(ns_table_read(tempdir_path(name), NULL, NULL, &table, &error), &error);
    return table;
}

// ---- tests -----------------------------------------------------------------------------------

static void a_page_shows_what_a_table_says(void** state) {
    (void)state;
    run_ok("simulate " MODELS "double_pendulum.urdf --time 2 --q0 1 0 --every 7 --observe"
           " energy/total link/link1/velocity --control 'tau0=sin(t)' -o a.csv --html a.html");
    assert_says(last.out, "a.html: 287 rows of 1 trajectory, ");
    assert_says(last.out, "287 rows in a.csv: ");
    payload p = read_page("a.html");
    ns_table table = read_table("a.csv");
    uint32_t rows;
    const double* time = time_of(&p, &rows);
    assert_int_equal(rows, 287); // 0, 7, .. 1995, 2000
    for (uint32_t k = 0; k < rows; k++) {
        assert_true(fabs(time[k] - ns_table_at(&table, k, 0)) < 1e-6);
    }
    assert_int_equal(json_array_size(tracks_of(&p)), 1);
    compare(&p, 0, &table, 0, "q_joint0", "joint/joint0/position");
    compare(&p, 0, &table, 0, "qd_joint1", "joint/joint1/velocity");
    compare(&p, 0, &table, 0, "energy/total", "energy/total");
    compare(&p, 0, &table, 0, "link/link1/velocity/com/x", "link/link1/velocity/com/x");
    compare(&p, 0, &table, 0, "tau_joint0", "tau0");
    ns_table_free(&table);
    payload_free(&p);

    char* page = tempdir_read("a.html");
    assert_says(page, "<h1>double_pendulum</h1>");
    assert_says(page, "<dt>steps</dt>\n<dd>2000</dd>");
    assert_says(page, "<dt>time step</dt>\n<dd>0.001 s</dd>");
    assert_says(page, "<dt>integrator</dt>\n<dd>semi-implicit Euler</dd>");
    assert_says(page, "<dt>contact</dt>\n<dd>none</dd>");
    assert_says(page, "double_pendulum.urdf</dd>");
    assert_true(strstr(page, "Ignored") == NULL);
    free(page);

    // Without -o the page is all there is, and with --json only that is printed.
    run_ok("simulate " PENDULUM " --html b.html");
    assert_int_equal(payload_count(last.out, "\n"), 1);
    assert_memory_equal(last.out, "b.html: 1001 rows of 1 trajectory, ", 35);
    run_ok("simulate " PENDULUM " --html b.html --json");
    json_t* summary = json_loads(last.out, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(summary, "page")), "b.html");
    json_decref(summary);
    run_ok("simulate " PENDULUM " --html b.html -o - --every 500");
    assert_memory_equal(last.out, "t,", 2);
    assert_int_equal(payload_count(last.out, "\n"), 4);
    run_ok("simulate " MODELS "quadruped.urdf --ground --steps 20 --contact spring --html c.html");
    page = tempdir_read("c.html");
    assert_says(page, "<dt>contact</dt>\n<dd>springs</dd>");
    free(page);
}

static void trajectories_are_tracks(void** state) {
    (void)state;
    char text[1000] = "q0,joint/hinge/damping\n";
    for (int k = 0; k < 11; k++) {
        snprintf(text + strlen(text), sizeof text - strlen(text), "%g,%g\n", 0.1 * k, 0.01 * k);
    }
    tempdir_write("starts.csv", text);
    run_ok("simulate " PENDULUM " --batch starts.csv --steps 100 -o batch.csv --html batch.html");
    assert_says(last.err, "batch.html shows the first 9 of 11 trajectories");
    payload p = read_page("batch.html");
    ns_table table = read_table("batch.csv");
    assert_int_equal(json_array_size(tracks_of(&p)), 9);
    assert_int_equal(table.nrow, 11 * 101);
    for (uint32_t k = 0; k < 9; k++) {
        const json_t* track = json_array_get(tracks_of(&p), k);
        char name[8];
        snprintf(name, sizeof name, "%u", k);
        assert_string_equal(json_string_value(json_object_get(track, "name")), name);
        assert_string_equal(json_string_value(json_object_get(track, "role")), "run");
        compare(&p, k, &table, 101 * k, "q_hinge", "joint/hinge/position");
        // The force of damping follows from the damping of the row.
        const double* velocity = payload_quantity(&p, 0, k, "joint/hinge/velocity");
        const double* tau = payload_quantity(&p, 0, k, "joint/hinge/tau");
        for (uint32_t i = 0; i < 101; i++) {
            assert_true(fabs(tau[i] + 0.01 * k * velocity[i]) < 1e-6);
        }
    }
    ns_table_free(&table);
    payload_free(&p);
}

static void what_diverges_is_shown_as_far_as_it_came(void** state) {
    (void)state;
    tempdir_write("wild.urdf",
                  "<robot name='r'><link name='world'/><joint name='h' type='continuous'>"
                  "<parent link='world'/><child link='a'/><axis xyz='0 1 0'/>"
                  "<dynamics damping='500'/></joint><link name='a'><inertial>"
                  "<origin xyz='0 0 -1'/><mass value='1'/><inertia ixx='.1' iyy='.1' izz='.1'"
                  " ixy='0' ixz='0' iyz='0'/></inertial></link></robot>");
    run_bad("simulate wild.urdf --qd0 1 --dt 0.1 --steps 1000 -o wild.csv --html wild.html", 1,
            "trajectory 0, step ");
    payload p = read_page("wild.html");
    ns_table table = read_table("wild.csv");
    uint32_t rows;
    time_of(&p, &rows);
    assert_int_equal(rows, table.nrow);
    assert_true(rows > 10 && rows < 1000);
    assert_says(json_string_value(json_object_get(episode_of(&p), "note")),
                "The simulation left the finite numbers after ");
    ns_table_free(&table);
    payload_free(&p);

    // One of several: the others may be there to the end of the time.
    tempdir_write("start.csv", "q0,qd0\n0,0\n0,1\n0,0\n");
    run_bad("simulate wild.urdf --batch start.csv --dt 0.1 --steps 1000 --html wild.html", 1,
            "trajectory 1, step ");
    p = read_page("wild.html");
    assert_says(json_string_value(json_object_get(episode_of(&p), "note")),
                "Trajectory 1 left the finite numbers after ");
    payload_free(&p);
}

static void names_stay_where_they_are(void** state) {
    (void)state;
    tempdir_write(
        "it's <b> & \".urdf",
        "<robot name='&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;'><link name='world'/>"
        "<joint name='\"&gt;&lt;img src=x onerror=alert(1)&gt;' type='continuous'>"
        "<parent link='world'/><child link='\xe6\x91\x86&amp;lt;'/><axis xyz='0 1 0'/></joint>"
        "<link name='\xe6\x91\x86&amp;lt;'><inertial><origin xyz='0 0 -1'/><mass value='1'/>"
        "<inertia ixx='1' iyy='1' izz='1' ixy='0' ixz='0' iyz='0'/></inertial>"
        "<visual><geometry><sphere radius='1'/></geometry></visual></link>"
        "<gadget/></robot>");
    run_ok("simulate \"it's <b> & \\\".urdf\" --steps 10 --html names.html");
    char* page = tempdir_read("names.html");
    nsi_web_bundle bundle;
    assert_true(nsi_web_bundle_get(&bundle));
    char* script = calloc(bundle.script_size + 1, 1);
    memcpy(script, bundle.script, bundle.script_size);
    assert_int_equal(payload_count(page, "</script"), 3 + payload_count(script, "</script"));
    free(script);
    assert_null(strstr(page, "<script>alert"));
    assert_null(strstr(page, "<img"));
    assert_null(strstr(page, "<b>"));
    assert_says(page, "<h1>&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;</h1>");
    assert_says(page, "<dd>it&#39;s &lt;b&gt; &amp; &quot;.urdf</dd>");
    assert_says(page, "<h2>Ignored in the model&#39;s file</h2>");
    assert_says(page, "&lt;gadget&gt;");
    payload p = payload_read(page);
    const json_t* links = json_object_get(json_object_get(p.data, "scene"), "links");
    const json_t* link = json_array_get(links, 0);
    assert_string_equal(json_string_value(json_object_get(link, "name")), "\xe6\x91\x86&lt;");
    assert_non_null(payload_quantity(&p, 0, 0, "joint/\"><img src=x onerror=alert(1)>/position"));
    payload_free(&p);
    free(page);
}

static void what_cannot_be_is_said_early(void** state) {
    (void)state;
    run_bad("simulate " PENDULUM " --steps 1000000000 --html no/where.html", 1,
            "cannot write no/where.html: ");
    run_bad("simulate " PENDULUM " --steps 1000000000 --html .", 1,
            "cannot write .: Is a directory");
    run_bad(
        "simulate " MODELS "quadruped.urdf --ground --steps 10000000 --html much.html", 1,
        "much.html: 10000001 rows of 1 trajectory are too many for a page, which holds 50 million"
        " numbers: --every ");
    // The advice is good.
    const char* advice = strstr(last.err, "--every ");
    char command[300];
    snprintf(command, sizeof command,
             "simulate " MODELS "quadruped.urdf --ground --steps 100 --html some.html %.*s",
             (int)strcspn(advice, " \n") + 1 + (int)strcspn(advice + 8, " \n"), advice);
    run_ok(command);
    run_bad("simulate " PENDULUM " --html x.html --observe nothing/of/this", 1, "no quantity");
    run_bad("simulate " PENDULUM " --html", 2, "--html");
}

static void a_page_needs_the_script(void** state) {
    (void)state;
    run_bad("simulate " PENDULUM " --steps 1000000000 --html a.html", 1, NSI_WEB_BUNDLE_MISSING);
}

static void a_fit_without_the_script_says_so(void** state) {
    (void)state;
    run_ok("fit " NEURALSIM_SOURCE_DIR "/examples/pendulum_fit.yaml -o fit");
    assert_says(last.err, "report.html shows no motion: " NSI_WEB_BUNDLE_MISSING);
    char* page = tempdir_read("fit/report.html");
    assert_says(page, NSI_WEB_BUNDLE_MISSING);
    free(page);
    ns_table table = read_table("fit/predictions.csv");
    assert_true(table.nrow > 100);
    ns_table_free(&table);
}

int main(void) {
    const struct CMUnitTest with[] = {
        cmocka_unit_test(a_page_shows_what_a_table_says),
        cmocka_unit_test(trajectories_are_tracks),
        cmocka_unit_test(what_diverges_is_shown_as_far_as_it_came),
        cmocka_unit_test(names_stay_where_they_are),
        cmocka_unit_test(what_cannot_be_is_said_early),
    };
    const struct CMUnitTest without[] = {cmocka_unit_test(a_page_needs_the_script),
                                         cmocka_unit_test(a_fit_without_the_script_says_so)};
    nsi_web_bundle bundle;
    if (nsi_web_bundle_get(&bundle)) return cmocka_run_group_tests(with, NULL, NULL);
    return cmocka_run_group_tests(without, NULL, NULL);
}
