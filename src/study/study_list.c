// Lists the studies below given folders.

#define _POSIX_C_SOURCE 200809L

#include "io/file.h"
#include "study/study_state.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

struct ns_study_list {
    nsi_arena arena;
    NSI_ARRAY(ns_study_entry) entries;
};

static bool list_has(const ns_study_list* list, const char* name) {
    for (uint32_t k = 0; k < list->entries.count; k++) {
        if (strcmp(list->entries.data[k].name, name) == 0) return true;
    }
    return false;
}

// The title that a file says, whatever else is wrong with it; NULL: none.
static const char* list_read_title(ns_study_list* list, const char* path) {
    nsi_yaml yaml = {0};
    const char* title = NULL;
    if (nsi_yaml_read(path, NULL, &yaml, NULL) == NS_OK && yaml.root->type == NSI_YAML_MAP) {
        const nsi_yaml_node* node = nsi_yaml_find(yaml.root, "title");
        if (node && node->type == NSI_YAML_SCALAR) {
            title = nsi_arena_string(&list->arena, node->text, strlen(node->text));
        }
    }
    nsi_yaml_free(&yaml);
    return title;
}

// Add folder/name if it is a study; false when out of memory.
static bool list_add(ns_study_list* list, const char* folder, const char* name) {
    if (name[0] == '.' || list_has(list, name)) return true;
    size_t size = strlen(folder) + strlen(name) + sizeof "//study.yaml";
    char* path = nsi_arena_alloc(&list->arena, size);
    if (!path) return false;
    snprintf(path, size, "%s/%s/study.yaml", folder, name);
    if (!nsi_file_exists(path)) return true;

    ns_study_entry entry = {.name = nsi_arena_string(&list->arena, name, strlen(name)),
                            .path = path,
                            .title = list_read_title(list, path)};
    return entry.name && nsi_array_push(NULL, &list->entries, entry);
}

static int list_compare(const void* a, const void* b) {
    return strcmp(((const ns_study_entry*)a)->name, ((const ns_study_entry*)b)->name);
}

ns_status ns_study_list_create(const char* const* folders, uint32_t nfolder, ns_study_list** out,
                               ns_error* error) {
    ns_study_list* list = nsi_alloc_zeroed(NULL, sizeof *list);
    *out = list;
    if (!list) return nsi_fail_nomem(error);
    list->arena.allocator = ns_default_allocator();

    bool done = true;
    for (uint32_t k = 0; k < nfolder && done; k++) {
        DIR* folder = opendir(folders[k]);
        for (struct dirent* d; folder && done && (d = readdir(folder));) {
            done = list_add(list, folders[k], d->d_name);
        }
        if (folder) closedir(folder);
    }

    if (!done) {
        ns_study_list_free(list);
        *out = NULL;
        return nsi_fail_nomem(error);
    }
    if (list->entries.count > 0) {
        qsort(list->entries.data, list->entries.count, sizeof *list->entries.data, list_compare);
    }
    return NS_OK;
}

void ns_study_list_free(ns_study_list* list) {
    if (!list) return;
    nsi_array_free(NULL, &list->entries);
    nsi_arena_free(&list->arena);
    nsi_free(NULL, list);
}

uint32_t ns_study_list_count(const ns_study_list* list) {
    return list->entries.count;
}

const ns_study_entry* ns_study_list_at(const ns_study_list* list, uint32_t number) {
    return number < list->entries.count ? &list->entries.data[number] : NULL;
}
