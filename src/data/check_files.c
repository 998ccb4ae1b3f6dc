// Checks of files: those with the same columns are one data set with one map, and one check. Without a map,
// columns are taken by their names, and files with other columns have a check of their own behind the first.

#include "data/check_state.h"

#include <math.h>
#include <stdio.h>

// Files with the same columns.
typedef struct file_group {
    ns_data_map* map;
    ns_table header; // of its first file
    NSI_ARRAY(const char*) files;
} file_group;

typedef struct file_groups {
    const ns_data_check_options* options;
    ns_allocator allocator;
    NSI_ARRAY(file_group) groups;
} file_groups;

static void free_groups(file_groups* g) {
    for (uint32_t k = 0; k < g->groups.count; k++) {
        file_group* group = &g->groups.data[k];
        ns_data_map_free(group->map);
        ns_table_free(&group->header);
        nsi_array_free(&g->allocator, &group->files);
    }
    nsi_array_free(&g->allocator, &g->groups);
}

// ---- columns -------------------------------------------------------------------------------------

// Column `number` of an inferred map, as formulas write it; NULL behind the last one.
static const char* map_column(const ns_data_map* map, uint32_t number) {
    const nsi_map_source* source = &map->sources.data[0];
    uint32_t observed = source->observe.count, controls = source->control.count;
    if (number < observed) return source->observe.data[number].text;
    if (number - observed < controls) return source->control.data[number - observed].text;
    const char* others[] = {source->time.formula ? source->time.text : NULL, map->trajectory};
    for (uint32_t k = 0, left = number - observed - controls; k < 2; k++) {
        if (others[k] && left-- == 0) return others[k];
    }
    return NULL;
}

static bool has_column(const ns_data_map* map, const char* column) {
    for (uint32_t k = 0;; k++) {
        const char* other = map_column(map, k);
        if (!other) return false;
        if (strcmp(other, column) == 0) return true;
    }
}

// Is it nothing that the model has?
static bool is_unused(const ns_data_map* map, const char* column) {
    for (uint32_t k = 0; k < map->unused.count; k++) {
        const char* name = map->unused.data[k];
        size_t quote = *column == '"' ? 1 : 0, size = strlen(name);
        if (strncmp(column + quote, name, size) == 0 && strlen(column) == size + 2 * quote) {
            return true;
        }
    }
    return false;
}

// Columns of one map that the other has not, as a list.
typedef struct column_list {
    char text[200];
    uint32_t count;
    bool used; // the model has one of them
} column_list;

static column_list columns_without(const ns_data_map* map, const ns_data_map* other) {
    enum { MORE = 20 };
    column_list list = {.text = ""};
    uint32_t named = 0;
    const char* column;
    for (uint32_t k = 0; (column = map_column(map, k)); k++) {
        size_t used = strlen(list.text);
        if (has_column(other, column)) continue;
        if (named == list.count && used + strlen(column) + MORE < sizeof list.text) {
            snprintf(list.text + used, sizeof list.text - used, "%s%s", used > 0 ? ", " : "",
                     column);
            named++;
        }
        list.count++;
        list.used = list.used || !is_unused(map, column);
    }
    size_t used = strlen(list.text);
    if (list.count > named) {
        snprintf(list.text + used, sizeof list.text - used, "%s%u more", named > 0 ? " and " : "",
                 list.count - named);
    }
    return list;
}

// ---- groups --------------------------------------------------------------------------------------

static bool has_same_names(const ns_table* a, const ns_table* b) {
    if (a->ncol != b->ncol) return false;
    for (uint32_t k = 0; k < a->ncol; k++) {
        if (ns_table_column(b, a->names[k]) == NSI_NONE) return false;
    }
    return true;
}

static ns_status add_file(file_groups* g, file_group* group, const char* file, ns_error* error) {
    return nsi_array_push(&g->allocator, &group->files, file) ? NS_OK : nsi_fail_nomem(error);
}

// The group with the columns of this file, or a new one. Other failures than NS_ERR_NOMEM: the columns
// cannot be known.
static ns_status group_file(file_groups* g, const char* file, ns_error* error) {
    file_group group = {0};
    const ns_table_options form = {.allow_missing = true, .names_only = true};
    ns_status status = ns_table_read(file, &form, &g->allocator, &group.header, error);
    if (status != NS_OK) return status;

    // Most files have the same names; their order is free.
    file_group* found = NULL;
    for (uint32_t k = 0; k < g->groups.count && !found; k++) {
        file_group* other = &g->groups.data[k];
        if (has_same_names(&other->header, &group.header)) found = other;
    }
    if (!found) {
        status = nsi_data_map_infer_all(file, g->options->model, &g->allocator, &group.map, error);
    }

    // Names that do not matter, such as step, may differ.
    for (uint32_t k = 0; k < g->groups.count && !found && status == NS_OK; k++) {
        file_group* other = &g->groups.data[k];
        bool same = columns_without(other->map, group.map).count == 0 &&
                    columns_without(group.map, other->map).count == 0;
        if (same) found = other;
    }
    if (found || status != NS_OK) {
        ns_data_map_free(group.map);
        ns_table_free(&group.header);
        return found ? add_file(g, found, file, error) : status;
    }
    status = add_file(g, &group, file, error);
    if (status == NS_OK && nsi_array_push(&g->allocator, &g->groups, group)) return NS_OK;
    ns_data_map_free(group.map);
    ns_table_free(&group.header);
    nsi_array_free(&g->allocator, &group.files);
    return nsi_fail_nomem(error);
}

// Files whose columns are not known are with the first group: reading them says why.
static ns_status group_files(file_groups* g, ns_error* error) {
    const ns_data_check_options* o = g->options;
    ns_status status = NS_OK;
    bool* left = nsi_alloc_zeroed(&g->allocator, o->nfile * sizeof *left);
    if (!left) return nsi_fail_nomem(error);
    for (uint32_t k = 0; k < o->nfile && status != NS_ERR_NOMEM; k++) {
        status = group_file(g, o->files[k], error);
        left[k] = status != NS_OK;
    }

    // No file at all has columns: the last failure says why.
    if (status != NS_ERR_NOMEM && g->groups.count > 0) status = NS_OK;
    for (uint32_t k = 0; k < o->nfile && status == NS_OK; k++) {
        if (left[k]) status = add_file(g, &g->groups.data[0], o->files[k], error);
    }
    nsi_free(&g->allocator, left);
    return status;
}

// All files with the map that was given.
static ns_status map_files(file_groups* g, ns_error* error) {
    file_group group = {0};
    const ns_data_check_options* o = g->options;
    ns_status status = ns_data_map_load(o->map, &g->allocator, &group.map, error);
    if (status != NS_OK) return status;
    group.map->tolerant = true;
    for (uint32_t k = 0; k < o->nfile && status == NS_OK; k++) {
        status = add_file(g, &group, o->files[k], error);
    }
    if (status == NS_OK && nsi_array_push(&g->allocator, &g->groups, group)) return NS_OK;
    ns_data_map_free(group.map);
    nsi_array_free(&g->allocator, &group.files);
    return nsi_fail_nomem(error);
}

// ---- findings ------------------------------------------------------------------------------------

static void find_unreadable(ns_data_check* c, const char* path, const char* why) {
    nsi_places places = {.kept = 1, .count = 1, .recordings = 1};
    const char* name = nsi_check_keep(c, path);
    places.data[0] = (ns_data_place){name, name, 0, NAN};
    // The message begins with the file, and says what to do.
    nsi_find(c, NS_DATA_UNREADABLE, NS_DATA_PROBLEM, NULL, &places, NAN, "", "%s", why);
    if (c->findings.count > 0) {
        c->findings.data[c->findings.count - 1].text = nsi_check_keep(c, why);
    }
}

// Files whose columns are not those of the first one, which a fit reads all files with.
static void find_other_columns(ns_data_check* c, const file_group* first, const file_group* group) {
    column_list missing = columns_without(first->map, group->map),
                more = columns_without(group->map, first->map);
    nsi_places places = {.count = group->files.count};
    for (uint32_t k = 0; k < group->files.count && places.kept < NSI_MAX_PLACES; k++) {
        const char* name = nsi_check_keep(c, group->files.data[k]);
        places.data[places.kept++] = (ns_data_place){name, name, 1, NAN};
    }
    places.recordings = places.count;

    // Columns that only these files have do no harm, nor do those that the model does not know.
    bool needed = missing.count > 0 && (missing.used || !c->model);
    bool several = places.count > 1;
    const char* advice = needed
                             ? "a fit reads all files with one map: give the columns the same names"
                         : several ? "the files are checked separately"
                                   : "the file is checked separately";
    ns_data_severity severity = needed ? NS_DATA_WARNING : NS_DATA_NOTE;
    char who[40];
    if (missing.count == 0) {
        snprintf(who, sizeof who, "this file");
        if (several) snprintf(who, sizeof who, "these %u files", places.count);
        nsi_find(c, NS_DATA_OTHER_COLUMNS, severity, NULL, &places, NAN, advice,
                 "column%s %s %s in %s, not in %.150s", more.count > 1 ? "s" : "", more.text,
                 more.count > 1 ? "are" : "is", who, first->files.data[0]);
        return;
    }
    snprintf(who, sizeof who, "it has");
    if (several) snprintf(who, sizeof who, "%u files have", places.count);
    nsi_find(c, NS_DATA_OTHER_COLUMNS, severity, NULL, &places, NAN, advice,
             "%s other columns than %.150s: no %s%s%s", who, first->files.data[0], missing.text,
             more.count > 0 ? ", but also " : "", more.text);
}

// ---- checking ------------------------------------------------------------------------------------

// One data set of the files of a group, with the rows as they are. It takes over the map.
static ns_status check_group(const file_groups* g, file_group* group, ns_data_check* c,
                             ns_error* error) {
    c->own_map = group->map;
    c->file = nsi_check_keep(c, group->files.data[0]);
    ns_status status =
        ns_dataset_create(c->own_map, g->options->period, &c->allocator, &c->own_data, error);
    if (status != NS_OK) return status;
    nsi_dataset_keep_rows(c->own_data);
    for (uint32_t k = 0; k < group->files.count; k++) {
        ns_error inner = {0};
        status = ns_dataset_add(c->own_data, group->files.data[k], NULL, &inner);
        if (status == NS_ERR_NOMEM) return nsi_fail_nomem(error);
        if (status != NS_OK) find_unreadable(c, group->files.data[k], inner.message);
    }
    const char* names[] = {""};
    const ns_dataset* sets[] = {c->own_data};
    return nsi_check_run(c, sets, names, 1, error);
}

// Each group behind the one before; the first has the findings of all.
static ns_status check_groups(file_groups* g, ns_data_check* first, ns_error* error) {
    ns_data_check* last = NULL;
    ns_status status = NS_OK;
    for (uint32_t k = 0; k < g->groups.count && status == NS_OK; k++) {
        ns_data_check* c = k == 0 ? first : nsi_check_create(g->options->model, &g->allocator);
        if (!c) return nsi_fail_nomem(error);
        if (last) last->next = c;
        last = c;
        if (k > 0) find_other_columns(c, &g->groups.data[0], &g->groups.data[k]);
        status = check_group(g, &g->groups.data[k], c, error);
        for (uint32_t i = 0; i < c->findings.count && k > 0 && status == NS_OK; i++) {
            bool kept = nsi_array_push(&first->allocator, &first->findings, c->findings.data[i]);
            if (!kept) status = nsi_fail_nomem(error);
        }
    }
    if (status == NS_OK) nsi_check_sort(first);
    return status;
}

ns_status ns_data_check_files(const ns_data_check_options* o, const ns_allocator* allocator,
                              ns_data_check** out, ns_error* error) {
    *out = NULL;
    if (!o || o->nfile == 0) return nsi_fail(error, NS_ERR_ARGUMENT, "there are no files to check");
    ns_data_check* c = nsi_check_create(o->model, allocator);
    if (!c) return nsi_fail_nomem(error);
    file_groups g = {.options = o, .allocator = c->allocator};
    ns_status status = o->map ? map_files(&g, error) : group_files(&g, error);
    if (status == NS_OK) status = check_groups(&g, c, error);

    // Maps belong to the checks that were made; maps of others are left.
    const ns_data_check* owner = c;
    for (uint32_t k = 0; k < g.groups.count; k++, owner = owner ? owner->next : NULL) {
        if (owner && owner->own_map) g.groups.data[k].map = NULL;
    }
    free_groups(&g);
    if (status == NS_OK) {
        *out = c;
    } else {
        ns_data_check_free(c);
    }
    return status;
}
