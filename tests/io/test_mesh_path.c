// Where meshes are looked for, and where they are not.

#define _XOPEN_SOURCE 700 // setenv, symlink, realpath

#include "io/mesh_path.h"
#include "neuralsim/model.h"
#include "support/assert.h"
#include "support/modelfile.h"
#include "support/tempdir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

// Below a temporary folder:
//
//   arm/package.xml  arm/urdf/  arm/meshes/a.stl  arm/urdf/own.stl
//   hand/meshes/h.stl
//   elsewhere/foot/meshes/f.stl  elsewhere/share/toe/t.stl
//   bare/urdf/  bare/b.stl  secret.stl
static void make_tree(const char* root) {
    static const char* const paths[] = {"arm/",
                                        "arm/package.xml",
                                        "arm/urdf/",
                                        "arm/urdf/own.stl",
                                        "arm/meshes/",
                                        "arm/meshes/a.stl",
                                        "hand/",
                                        "hand/meshes/",
                                        "elsewhere/",
                                        "hand/meshes/h.stl",
                                        "elsewhere/foot/",
                                        "elsewhere/foot/meshes/",
                                        "bare/",
                                        "elsewhere/share/",
                                        "elsewhere/share/toe/",
                                        "elsewhere/foot/meshes/f.stl",
                                        "bare/urdf/",
                                        "elsewhere/share/toe/t.stl",
                                        "bare/b.stl",
                                        "secret.stl"};
    for (size_t k = 0; k < sizeof paths / sizeof *paths; k++) {
        char path[1000];
        snprintf(path, sizeof path, "%s/%s", root, paths[k]);
        if (path[strlen(path) - 1] == '/') {
            assert_int_equal(mkdir(path, 0777), 0);
        } else {
            FILE* file = fopen(path, "w");
            assert_non_null(file);
            fclose(file);
        }
    }
}

typedef struct path_case {
    const char *folder, *name;
    nsi_mesh_place place;
    const char* file; // that is found, below the root
} path_case;

static void try_case(const char* root, const path_case* c, const char* package) {
    char folder[1000], name[1200], out[NSI_MESH_MAX_PATH], expected[1200];
    snprintf(folder, sizeof folder, "%s/%s/", root, c->folder);
    const char* at = strchr(c->name, '@'); // stands for the root
    if (at) {
        snprintf(name, sizeof name, "%.*s%s%s", (int)(at - c->name), c->name, root, at + 1);
    } else {
        snprintf(name, sizeof name, "%s", c->name);
    }
    const nsi_mesh_search search = {folder, &package, package != NULL, NULL};
    nsi_mesh_place place = nsi_mesh_find(&search, name, out);
    if (place != c->place) fail_msg("%s in %s: %d", c->name, c->folder, place);
    if (place != NSI_MESH_FOUND) return;
    snprintf(expected, sizeof expected, "%s/%s", root, c->file);
    struct stat one, other;
    assert_int_equal(stat(out, &one), 0);
    assert_int_equal(stat(expected, &other), 0);
    if (one.st_ino != other.st_ino) fail_msg("%s is %s, not %s", c->name, out, expected);
}

static void names_lead_to_files(void** state) {
    (void)state;
    const char* root = tempdir();
    make_tree(root);
    unsetenv("ROS_PACKAGE_PATH");
    unsetenv("AMENT_PREFIX_PATH");
    static const path_case cases[] = {
        // relative
        {"arm/urdf", "own.stl", NSI_MESH_FOUND, "arm/urdf/own.stl"},
        {"arm/urdf", "./x/../own.stl", NSI_MESH_FOUND, "arm/urdf/own.stl"},
        {"arm/urdf", "../meshes/a.stl", NSI_MESH_FOUND, "arm/meshes/a.stl"},
        {"arm/urdf", "..\\meshes\\a.stl", NSI_MESH_FOUND, "arm/meshes/a.stl"},
        {"arm/urdf", "meshes/a.stl", NSI_MESH_FOUND, "arm/meshes/a.stl"},
        {"arm/urdf", "file://../meshes/a.stl", NSI_MESH_FOUND, "arm/meshes/a.stl"},
        {"arm/urdf", "nowhere.stl", NSI_MESH_MISSING, NULL},
        {"arm/urdf", "", NSI_MESH_MISSING, NULL},
        {"arm/urdf", "..", NSI_MESH_MISSING, NULL},
        // out of the package; without a package.xml the folder around the model's is the last one
        {"arm/urdf", "../../secret.stl", NSI_MESH_OUTSIDE, NULL},
        {"arm/urdf", "x/../../../secret.stl", NSI_MESH_OUTSIDE, NULL},
        {"arm/urdf", "secret.stl", NSI_MESH_MISSING, NULL},
        {"bare/urdf", "../b.stl", NSI_MESH_FOUND, "bare/b.stl"},
        {"bare/urdf", "../../secret.stl", NSI_MESH_OUTSIDE, NULL},
        // packages: the model's own, one beside it, none
        {"arm/urdf", "package://arm/meshes/a.stl", NSI_MESH_FOUND, "arm/meshes/a.stl"},
        {"arm/urdf", "package://hand/meshes/h.stl", NSI_MESH_FOUND, "hand/meshes/h.stl"},
        {"arm/urdf", "model://hand/meshes/h.stl", NSI_MESH_FOUND, "hand/meshes/h.stl"},
        {"arm/urdf", "package://renamed/meshes/a.stl", NSI_MESH_FOUND, "arm/meshes/a.stl"},
        {"arm/urdf", "package://foot/meshes/f.stl", NSI_MESH_MISSING, NULL},
        {"arm/urdf", "package://renamed/secret.stl", NSI_MESH_OUTSIDE, NULL},
        {"arm/urdf", "package://hand/../secret.stl", NSI_MESH_OUTSIDE, NULL},
        {"arm/urdf", "package://../secret.stl", NSI_MESH_OUTSIDE, NULL},
        {"arm/urdf", "package://./secret.stl", NSI_MESH_OUTSIDE, NULL},
        // absolute
        {"arm/urdf", "@/arm/meshes/a.stl", NSI_MESH_FOUND, "arm/meshes/a.stl"},
        {"arm/urdf", "file://@/arm/meshes/a.stl", NSI_MESH_FOUND, "arm/meshes/a.stl"},
        {"arm/urdf", "@/secret.stl", NSI_MESH_OUTSIDE, NULL},
        {"arm/urdf", "@/arm/../secret.stl", NSI_MESH_OUTSIDE, NULL},
        {"arm/urdf", "/etc/passwd", NSI_MESH_OUTSIDE, NULL},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) try_case(root, &cases[k], NULL);

    // Folders of packages: the package itself, one that contains it, and those of the environment.
    static const path_case foot = {"arm/urdf", "package://foot/meshes/f.stl", NSI_MESH_FOUND,
                                   "elsewhere/foot/meshes/f.stl"};
    static const path_case toe = {"arm/urdf", "package://toe/t.stl", NSI_MESH_FOUND,
                                  "elsewhere/share/toe/t.stl"};
    static const path_case absolute = {"arm/urdf", "@/elsewhere/foot/meshes/f.stl", NSI_MESH_FOUND,
                                       "elsewhere/foot/meshes/f.stl"};
    char package[1200], list[2600];
    snprintf(package, sizeof package, "%s/elsewhere/foot", root);
    try_case(root, &foot, package);
    try_case(root, &absolute, package);
    static const path_case secret = {"arm/urdf", "@/secret.stl", NSI_MESH_FOUND, "secret.stl"};
    try_case(root, &secret, "/"); // all files
    snprintf(package, sizeof package, "%s/elsewhere/", root);
    try_case(root, &foot, package);
    snprintf(list, sizeof list, "/nowhere::%s/elsewhere", root);
    setenv("ROS_PACKAGE_PATH", list, 1);
    try_case(root, &foot, NULL);
    try_case(root, &absolute, NULL);
    unsetenv("ROS_PACKAGE_PATH");
    setenv("AMENT_PREFIX_PATH", list, 1);
    try_case(root, &toe, NULL);
    unsetenv("AMENT_PREFIX_PATH");
    tempdir_remove();
}

static void links_do_not_lead_out(void** state) {
    (void)state;
    const char* root = tempdir();
    make_tree(root);
    unsetenv("ROS_PACKAGE_PATH");
    unsetenv("AMENT_PREFIX_PATH");
    char from[1000], folder[1000], out[NSI_MESH_MAX_PATH];
    static const char* const links[] = {"arm/urdf/out.stl", "hand/meshes/out.stl"};
    for (int k = 0; k < 2; k++) {
        snprintf(from, sizeof from, "%s/%s", root, links[k]);
        snprintf(folder, sizeof folder, "%s/secret.stl", root);
        assert_int_equal(symlink(folder, from), 0);
    }
    snprintf(from, sizeof from, "%s/arm/urdf/in.stl", root);
    assert_int_equal(symlink("../meshes/a.stl", from), 0);
    static const path_case cases[] = {
        {"arm/urdf", "out.stl", NSI_MESH_OUTSIDE, NULL},
        {"arm/urdf", "./out.stl", NSI_MESH_OUTSIDE, NULL},
        {"arm/urdf", "@/arm/urdf/out.stl", NSI_MESH_OUTSIDE, NULL},
        {"arm/urdf", "package://hand/meshes/out.stl", NSI_MESH_OUTSIDE, NULL},
        {"arm/urdf", "in.stl", NSI_MESH_FOUND, "arm/meshes/a.stl"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) try_case(root, &cases[k], NULL);

    // The folder that allows it is named, and does.
    snprintf(folder, sizeof folder, "%s/arm/urdf/", root);
    static const char* const names[] = {"out.stl", "../../secret.stl"};
    for (int k = 0; k < 2; k++) {
        nsi_mesh_search search = {folder, NULL, 0, NULL};
        assert_int_equal(nsi_mesh_find(&search, names[k], out), NSI_MESH_OUTSIDE);
        char* real = realpath(root, NULL);
        assert_string_equal(out, real);
        const char* packages[] = {real};
        search.packages = packages, search.npackage = 1;
        assert_int_equal(nsi_mesh_find(&search, names[k], out), NSI_MESH_FOUND);
        free(real);
    }

    // What must be exactly there is not looked for above, nor in packages.
    const nsi_mesh_search exact = {folder, NULL, 0, folder};
    assert_int_equal(nsi_mesh_find(&exact, "own.stl", out), NSI_MESH_FOUND);
    assert_int_equal(nsi_mesh_find(&exact, "../meshes/a.stl", out), NSI_MESH_FOUND);
    assert_int_equal(nsi_mesh_find(&exact, "meshes/a.stl", out), NSI_MESH_MISSING);
    assert_int_equal(nsi_mesh_find(&exact, "package://hand/meshes/h.stl", out), NSI_MESH_MISSING);
    assert_int_equal(nsi_mesh_find(&exact, "../../secret.stl", out), NSI_MESH_OUTSIDE);
    tempdir_remove();
}

static void make_link(const char* root, const char* to, const char* name) {
    char from[1000];
    snprintf(from, sizeof from, "%s/%s", root, name);
    assert_int_equal(symlink(to, from), 0);
}

// A package that is a link, in the model's package, is none; where the user gives the folder it is one,
// and so are links to files, as in a ROS 2 workspace that is built with links.
static void linked_packages_are_given(void** state) {
    (void)state;
    const char* root = tempdir();
    make_tree(root);
    unsetenv("ROS_PACKAGE_PATH");
    unsetenv("AMENT_PREFIX_PATH");
    make_link(root, "../../elsewhere/foot", "arm/urdf/evil");
    make_link(root, "../meshes", "arm/urdf/own");
    make_link(root, "../../../hand/meshes/h.stl", "elsewhere/share/toe/link.stl");
    make_link(root, "../../hand/meshes", "elsewhere/share/linked");
    static const path_case own[] = {
        {"arm/urdf", "package://evil/meshes/f.stl", NSI_MESH_OUTSIDE, NULL},
        {"arm/urdf", "package://own/a.stl", NSI_MESH_FOUND, "arm/meshes/a.stl"},
    };
    for (int k = 0; k < 2; k++) try_case(root, &own[k], NULL);

    // Given by each of the three.
    static const char* const variables[] = {"ROS_PACKAGE_PATH", "AMENT_PREFIX_PATH"};
    static const path_case found[] = {
        {"elsewhere/share/toe", "package://toe/link.stl", NSI_MESH_FOUND, "hand/meshes/h.stl"},
        {"arm/urdf", "package://toe/link.stl", NSI_MESH_FOUND, "hand/meshes/h.stl"},
        {"arm/urdf", "package://linked/h.stl", NSI_MESH_FOUND, "hand/meshes/h.stl"},
        {"elsewhere/share/toe", "link.stl", NSI_MESH_FOUND, "hand/meshes/h.stl"},
        {"elsewhere/share/toe", "../toe/link.stl", NSI_MESH_FOUND, "hand/meshes/h.stl"},
    };
    char folder[1000];
    for (size_t k = 0; k < sizeof found / sizeof *found; k++) {
        path_case none = found[k];
        none.place = k == 1 || k == 2 ? NSI_MESH_MISSING : NSI_MESH_OUTSIDE;
        try_case(root, &none, NULL);
        snprintf(folder, sizeof folder, "%s/elsewhere/share", root);
        try_case(root, &found[k], folder);
        for (int i = 0; i < 2; i++) {
            snprintf(folder, sizeof folder, i == 0 ? "%s/elsewhere/share" : "%s/elsewhere", root);
            setenv(variables[i], folder, 1);
            try_case(root, &found[k], NULL);
            unsetenv(variables[i]);
        }
    }
    tempdir_remove();
}

// Nothing is read from beside the home folder, however it is named.
static void home_is_the_last_folder(void** state) {
    (void)state;
    const char* root = tempdir();
    make_tree(root);
    char* old = getenv("HOME") ? strdup(getenv("HOME")) : NULL;
    char home[1000];
    make_link(root, "bare", "person");
    static const path_case cases[] = {
        {"bare", "../arm/meshes/a.stl", NSI_MESH_OUTSIDE, NULL},
        {"bare", "package://hand/meshes/h.stl", NSI_MESH_MISSING, NULL},
        {"bare/urdf", "../b.stl", NSI_MESH_OUTSIDE, NULL},
        {"bare", "b.stl", NSI_MESH_FOUND, "bare/b.stl"},
    };
    static const char* const names[] = {"bare", "person", "bare/"};
    for (int i = 0; i < 3; i++) {
        snprintf(home, sizeof home, "%s/%s", root, names[i]);
        setenv("HOME", home, 1);
        for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) try_case(root, &cases[k], NULL);
    }
    if (old) {
        setenv("HOME", old, 1);
    } else {
        unsetenv("HOME");
    }
    free(old);
    tempdir_remove();
}

// Folders are printed as a shell reads them, and what is too long is cut inside the quotes.
static void options_are_quoted(void** state) {
    (void)state;
    static const char* const cases[][2] = {{"/a/b-1", "--package-path /a/b-1"},
                                           {"", "--package-path FOLDER"},
                                           {"/a b", "--package-path '/a b'"},
                                           {"/$HOME;x", "--package-path '/$HOME;x'"},
                                           {"/it's", "--package-path '/it'\\''s'"}};
    char out[40];
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        nsi_mesh_permission(cases[k][0], out, sizeof out);
        assert_string_equal(out, cases[k][1]);
    }
    for (size_t size = 25; size <= sizeof out; size++) {
        memset(out, '#', sizeof out);
        nsi_mesh_permission("/a ''''''''''''''''''''''''''''''", out, size);
        assert_true(strlen(out) < size);
        assert_int_equal(out[strlen(out) - 1], '\'');
        for (size_t k = size; k < sizeof out; k++) assert_int_equal(out[k], '#');
    }
}

// What a model says of meshes that it does not find, and the option for packages.
static void models_say_what_is_missing(void** state) {
    (void)state;
    const char* root = tempdir();
    make_tree(root);
    char path[1200], package[1200];
    snprintf(path, sizeof path, "%s/arm/urdf/r.urdf", root);
    FILE* file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file,
            "<robot><link name='a'>"
            "<visual><geometry><mesh filename='package://foot/meshes/f.stl'/></geometry></visual>"
            "<visual><geometry><mesh filename='../../secret.stl'/></geometry></visual>"
            "</link></robot>");
    fclose(file);

    ns_load_options options = ns_default_load_options();
    ns_model* model = NULL;
    ns_error error = {0};
    must(ns_model_load(path, &options, &model, &error), &error);
    assert_true(modelfile_notes(model, "not found; name the folder of package foot by "
                                       "--package-path or ROS_PACKAGE_PATH: the geometry is not "
                                       "drawn"));
    assert_true(modelfile_notes(model, "\"../../secret.stl\" is outside of the model's package"));
    assert_null(ns_model_geom(model, 0)->path);
    ns_model_free(model);

    snprintf(package, sizeof package, "%s/elsewhere", root);
    const char* const packages[] = {"/nowhere", package};
    options.package_paths = packages;
    options.npackage_path = 2;
    must(ns_model_load(path, &options, &model, &error), &error);
    assert_non_null(ns_model_geom(model, 0)->path);
    assert_null(ns_model_geom(model, 1)->path);
    assert_int_equal(ns_model_get_sizes(model).nignored, 1);
    ns_model_free(model);
    tempdir_remove();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_lead_to_files),       cmocka_unit_test(links_do_not_lead_out),
        cmocka_unit_test(linked_packages_are_given), cmocka_unit_test(home_is_the_last_folder),
        cmocka_unit_test(options_are_quoted),        cmocka_unit_test(models_say_what_is_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
