// Files that extend others: what the merged tree is, where its parts come from, and what is refused.

#define _POSIX_C_SOURCE 200809L

#include "io/schema.h"
#include "support/assert.h"
#include "support/tempdir.h"
#include "support/testalloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static int remove_files(void** state) {
    (void)state;
    tempdir_remove();
    return 0;
}

static nsi_yaml read_tree(const char* name) {
    nsi_yaml yaml;
    ns_error error = {0};
    static char path[600];
    snprintf(path, sizeof path, "%s", tempdir_path(name));
    must(nsi_yaml_read(path, NULL, &yaml, &error), &error);
    return yaml;
}

// The tree as text, to be freed.
static ns_text print_tree(const nsi_yaml* yaml) {
    nsi_text_builder builder = {.allocator = ns_default_allocator()};
    ns_text text;
    nsi_yaml_add_node(&builder, yaml->root);
    assert_int_equal(nsi_text_finish(&builder, &text, NULL), NS_OK);
    return text;
}

static void assert_tree(const char* name, const char* expected) {
    nsi_yaml yaml = read_tree(name);
    ns_text text = print_tree(&yaml);
    assert_string_equal(text.data, expected);
    ns_text_free(&text);
    nsi_yaml_free(&yaml);
}

static void refused(const char* name, ns_status status, const char* what) {
    nsi_yaml yaml;
    ns_error error = {0};
    assert_int_equal(nsi_yaml_read(tempdir_path(name), NULL, &yaml, &error), status);
    if (!strstr(error.message, what)) fail_msg("%s\nnot %s", error.message, what);
}

// Maps merge, lists and values replace, null removes; the order is that of the base.
static void maps_merge(void** state) {
    (void)state;
    tempdir_write("base.yaml", "a: 1\nb: {x: 1, y: [1, 2], z: {p: 1}}\nc: \"1\"\nd: text\n");
    tempdir_write("over.yaml", "extends: base.yaml\nnew: 5\nd: null\nb: {y: [3], z: {q: 2}, w: 0}\n"
                               "a: 2\n");
    assert_tree("over.yaml", "---\na: 2\nb:\n  x: 1\n  \"y\":\n    - 3\n  z:\n    p: 1\n    q: 2\n"
                             "  w: 0\nc: \"1\"\nnew: 5\n");
}

// What is printed is read back as the same tree.
static void trees_are_printed(void** state) {
    (void)state;
    tempdir_write("tree.yaml", "a: {b: [], c: {}, d: [1, [2, {e: 3}]], \"k: y\": 'it''s'}\nf:\n"
                               "g: \"*x\"\nh: 0.4 * exp(a, b)\n");
    nsi_yaml first = read_tree("tree.yaml");
    ns_text text = print_tree(&first), again;
    nsi_yaml second;
    ns_error error = {0};
    must(nsi_yaml_parse(text.data, text.size, "again", NULL, &second, &error), &error);
    again = print_tree(&second);
    assert_string_equal(text.data, again.data);
    ns_text_free(&text);
    ns_text_free(&again);
    nsi_yaml_free(&first);
    nsi_yaml_free(&second);
}

// Nodes know their file, and paths stay relative to it.
static void nodes_know_their_file(void** state) {
    (void)state;
    tempdir_mkdir("far");
    tempdir_write("far/deep.yaml", "robot: arm.urdf\nn: x\n");
    tempdir_write("far/base.yaml", "extends: deep.yaml\nmap: map.yaml\n");
    tempdir_write("top.yaml", "extends: far/base.yaml\nown: own.yaml\n");
    nsi_yaml yaml = read_tree("top.yaml");
    nsi_schema_reader r = {.yaml = &yaml, .arena = &yaml.arena};
    const char* path = NULL;
    assert_int_equal(nsi_schema_path(&r, nsi_yaml_find(yaml.root, "robot"), &path), NS_OK);
    assert_string_equal(path, "far/arm.urdf");
    assert_int_equal(nsi_schema_path(&r, nsi_yaml_find(yaml.root, "map"), &path), NS_OK);
    assert_string_equal(path, "far/map.yaml");
    assert_int_equal(nsi_schema_path(&r, nsi_yaml_find(yaml.root, "own"), &path), NS_OK);
    assert_string_equal(path, "own.yaml");
    ns_error error = {0};
    double number;
    nsi_yaml_number(&yaml, nsi_yaml_find(yaml.root, "n"), 0, 1, &number, &error);
    assert_non_null(strstr(error.message, "far/deep.yaml:2:4: n: \"x\" is not a number"));
    nsi_yaml_free(&yaml);
}

static void mistakes_are_refused(void** state) {
    (void)state;
    tempdir_write("self.yaml", "extends: self.yaml\n");
    refused("self.yaml", NS_ERR_PARSE,
            "self.yaml:1:10: extends: \"self.yaml\" is this file; name another");
    tempdir_write("one.yaml", "extends: two.yaml\n");
    tempdir_write("two.yaml", "a: 1\nextends: one.yaml\n");
    refused("one.yaml", NS_ERR_PARSE, "two.yaml:2:10: extends: \"one.yaml\" extends this file");
    tempdir_write("none.yaml", "extends: not_there.yaml\n");
    refused("none.yaml", NS_ERR_IO, "none.yaml:1:10: extends: there is no file");
    tempdir_write("folder.yaml", "extends: .\n");
    refused("folder.yaml", NS_ERR_IO, "there is no file");
    tempdir_write("odd.yaml", "extends: [a.yaml]\n");
    refused("odd.yaml", NS_ERR_PARSE, "odd.yaml:1:10: extends: this is a list; write a text");
    tempdir_write("list.yaml", "- a\n");
    tempdir_write("over_list.yaml", "extends: list.yaml\n");
    refused("over_list.yaml", NS_ERR_PARSE, "list.yaml:1:1: a file that is extended is a mapping");
    tempdir_write("plain.yaml", "a: 1\n");
    tempdir_write("removes.yaml", "extends: plain.yaml\nb: null\n");
    refused("removes.yaml", NS_ERR_PARSE, "removes.yaml:2:4: null removes b");
    nsi_yaml yaml;
    ns_error error = {0};
    assert_int_equal(nsi_yaml_parse("extends: a.yaml\n", 16, "t", NULL, &yaml, &error),
                     NS_ERR_PARSE);
    assert_non_null(strstr(error.message, "t:1:10: extends: only a file can extend another"));
}

// Eight files may follow one another, not nine.
static void chains_end(void** state) {
    (void)state;
    tempdir_write("chain0.yaml", "a: 0\n");
    for (int k = 1; k <= NSI_YAML_MAX_BASES + 1; k++) {
        char name[40], text[80];
        snprintf(name, sizeof name, "chain%d.yaml", k);
        snprintf(text, sizeof text, "extends: chain%d.yaml\nb%d: %d\n", k - 1, k, k);
        tempdir_write(name, text);
    }
    nsi_yaml yaml = read_tree("chain8.yaml");
    assert_int_equal(yaml.root->count, 9);
    nsi_yaml_free(&yaml);
    refused("chain9.yaml", NS_ERR_LIMIT, "more than 8 files extend one another");
}

static const nsi_yaml_node* find_entry(void* context, const char* name) {
    const nsi_yaml_node* list = context;
    for (const nsi_yaml_node* n = list->first; n; n = n->next) {
        if (strcmp(nsi_yaml_find(n, "name")->text, name) == 0) return n;
    }
    return NULL;
}

// Mappings of one file extend one another, and files; keys of others are left out.
static void parts_are_trees(void** state) {
    (void)state;
    tempdir_write("base.yaml", "model: a.urdf\ntrain: {iterations: 5}\n");
    tempdir_write("study.yaml",
                  "fits:\n  - {name: a, seeds: 3, extends: base.yaml, data: {noise: 1}}\n"
                  "  - {name: b, extends: a, train: {iterations: 7}}\n");
    nsi_yaml yaml = read_tree("study.yaml"), tree;
    ns_error error = {0};
    const nsi_yaml_node* list = nsi_yaml_find(yaml.root, "fits");
    must(nsi_yaml_derive(&yaml, list->first->next, "name seeds extends", find_entry, (void*)list,
                         NULL, &tree, &error),
         &error);
    nsi_yaml_free(&yaml); // the copy does not refer to it
    ns_text text = print_tree(&tree);
    assert_string_equal(text.data, "---\nmodel: a.urdf\ntrain:\n  iterations: 7\ndata:\n"
                                   "  noise: 1\n");
    ns_text_free(&text);
    nsi_yaml_free(&tree);
}

static void memory_may_run_out(void** state) {
    (void)state;
    tempdir_write("base.yaml", "a: 1\nb: {x: 1, y: [1, 2]}\nc: 3\n");
    tempdir_write("over.yaml", "extends: base.yaml\nb: {y: [3], z: 1}\nc: null\nd: 4\n");
    for (size_t n = 1;; n++) {
        test_alloc counter = {.fail_at = n};
        ns_allocator allocator = test_allocator(&counter);
        nsi_yaml yaml, part = {0};
        ns_error error = {0};
        ns_status status = nsi_yaml_read(tempdir_path("over.yaml"), &allocator, &yaml, &error);
        if (status == NS_OK) {
            status = nsi_yaml_derive(&yaml, nsi_yaml_find(yaml.root, "b"), "", NULL, NULL,
                                     &allocator, &part, &error);
        }
        assert_int_equal(status, counter.calls < n ? NS_OK : NS_ERR_NOMEM);
        nsi_yaml_free(&part);
        nsi_yaml_free(&yaml);
        assert_int_equal(counter.live_blocks, 0);
        if (status == NS_OK) break;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maps_merge),
        cmocka_unit_test(trees_are_printed),
        cmocka_unit_test(nodes_know_their_file),
        cmocka_unit_test(mistakes_are_refused),
        cmocka_unit_test(chains_end),
        cmocka_unit_test(parts_are_trees),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, remove_files);
}
