// Derive the map of a table from its column names.

#include "data/map.h"

#include "model/model_data.h"

#include <stdio.h>
#include <stdlib.h>

enum { NAME_SIZE = 320 }; // a joint's name has at most 200 bytes

typedef enum kind { UNKNOWN, TIME, TRAJECTORY, IGNORED, CHANNEL, CONTROL } kind;

typedef struct meaning {
    kind kind;
    char name[NAME_SIZE]; // of the channel or control; "" for a quantity: that of the column
} meaning;

typedef struct inference {
    const ns_model* model;
    const ns_table* table;
    const char* path;
    meaning* columns; // (table->ncol)
    bool all;         // unknown columns are channels
    ns_error* error;
} inference;

// ---- what a column is ----------------------------------------------------------------------

static const char* infer_prefix_rest(const char* name, const char* prefix) {
    size_t size = strlen(prefix);
    return strncmp(name, prefix, size) == 0 ? name + size : NULL;
}

// All of the text as a whole number; NSI_NONE when it is none.
static uint32_t whole_number(const char* text) {
    size_t size = strlen(text);
    if (size == 0 || size > 9 || strspn(text, "0123456789") != size) return NSI_NONE;
    return (uint32_t)strtoul(text, NULL, 10);
}

// The component that "<joint>", or "<joint>_<k>" for joints with several, stands for.
static uint32_t joint_component(const ns_model* model, const char* text, bool velocity) {
    for (uint32_t i = 0; i < model->sizes.nlink; i++) {
        const nsi_link* l = &model->links[i];
        uint32_t count = velocity ? l->nv : l->nq, first = velocity ? l->v : l->q;
        const char* rest = count > 0 ? infer_prefix_rest(text, l->def.joint) : NULL;
        if (!rest) continue;
        if (*rest == '\0' && count == 1) return first;
        if (*rest != '_' || count == 1) continue;
        uint32_t k = whole_number(rest + 1);
        if (k < count) return first + k;
    }
    return NSI_NONE;
}

// The only actuator of a joint, or the actuator with this name.
static const char* find_actuator(const ns_model* model, const char* joint, const char* name) {
    const char* found = NULL;
    for (uint32_t a = 0; a < model->sizes.nu; a++) {
        const ns_actuator_def* def = ns_model_actuator(model, a);
        if (name && strcmp(def->name, name) == 0) return def->name;
        if (!joint || !def->joint || strcmp(def->joint, joint) != 0) continue;
        if (found) return NULL;
        found = def->name;
    }
    return found;
}

static bool has_actuator(const ns_model* model, const char* joint) {
    for (uint32_t a = 0; a < model->sizes.nu; a++) {
        const char* driven = ns_model_actuator(model, a)->joint;
        if (driven && strcmp(driven, joint) == 0) return true;
    }
    return false;
}

// "q3" of a model that has less is another model's table.
static ns_status numbered(inference* in, meaning* m, kind k, const char* prefix, uint32_t number,
                          uint32_t count) {
    if (number >= count) {
        return nsi_fail(
            in->error, NS_ERR_PARSE,
            "%.200s:1: column %s%u: the model has only %u of them; is this the table of "
            "another model?",
            in->path, prefix, number, count);
    }
    m->kind = k;
    snprintf(m->name, sizeof m->name, "%s%u", prefix, number);
    return NS_OK;
}

static ns_status find_control(inference* in, const char* column, meaning* m) {
    const ns_model* model = in->model;
    const char *rest, *actuator = NULL;
    uint32_t v = NSI_NONE;
    if ((rest = infer_prefix_rest(column, "u/"))) {
        actuator = find_actuator(model, NULL, rest);
    } else if ((rest = infer_prefix_rest(column, "u_"))) {
        actuator = find_actuator(model, rest, NULL);
        if (!actuator) actuator = find_actuator(model, NULL, rest);
        if (!actuator && !has_actuator(model, rest)) v = joint_component(model, rest, true);
    }
    if (actuator) {
        m->kind = CONTROL;
        snprintf(m->name, sizeof m->name, "u/%s", actuator);
    } else if (v != NSI_NONE) {
        return numbered(in, m, CONTROL, "tau", v, model->sizes.nv);
    }
    return NS_OK;
}

static ns_status find_meaning(inference* in, const char* column, meaning* m) {
    // Columns that organise the table.
    static const struct {
        const char* name;
        kind kind;
    } words[] = {{"t", TIME},
                 {"time", TIME},
                 {"traj", TRAJECTORY},
                 {"trajectory", TRAJECTORY},
                 {"step", IGNORED}};
    // Exact names only: "time_constant" is no time.
    for (size_t k = 0; k < sizeof words / sizeof *words; k++) {
        if (strcmp(column, words[k].name) == 0) m->kind = words[k].kind;
    }

    if (!in->model) return NS_OK;

    // States and joint torques, by index (q0) or by joint (q_elbow). "qd" is tried before its
    // prefix "q".
    const ns_model_sizes* n = &in->model->sizes;
    static const struct {
        const char *numbered, *named;
        kind kind;
        bool velocity;
    } states[] = {
        {"qd", "qd_", CHANNEL, true}, {"q", "q_", CHANNEL, false}, {"tau", "tau_", CONTROL, true}};
    for (size_t k = 0; k < sizeof states / sizeof *states && m->kind == UNKNOWN; k++) {
        // An index follows directly, a joint name after an underscore.
        const char* rest = infer_prefix_rest(column, states[k].numbered);
        uint32_t number = rest ? whole_number(rest) : NSI_NONE;
        // Joints with several coordinates have one column each.
        if (number == NSI_NONE && (rest = infer_prefix_rest(column, states[k].named))) {
            number = joint_component(in->model, rest, states[k].velocity);
        }
        if (number == NSI_NONE) continue;
        // Indices beyond the model are errors rather than unknown columns.
        return numbered(in, m, states[k].kind, states[k].numbered, number,
                        states[k].velocity ? n->nv : n->nq);
    }

    // Anything else may be the control of an actuator.
    return m->kind == UNKNOWN ? find_control(in, column, m) : NS_OK;
}

static void mark_quantity(void* context, const ns_quantity_info* quantity) {
    inference* in = context;
    uint32_t column = ns_table_column(in->table, quantity->name);
    if (column == NSI_NONE || in->columns[column].kind != UNKNOWN) return;
    if (ns_model_find_param(in->model, quantity->name) != UINT32_MAX) return;
    in->columns[column].kind = CHANNEL;
}

// ---- the map -------------------------------------------------------------------------------

static ns_status infer_fail_unknown(const inference* in) {
    const ns_model* model = in->model;
    char list[160];
    size_t used = 0;
    for (uint32_t k = 0; k < in->table->ncol && used < sizeof list - 1; k++) {
        int wrote = snprintf(list + used, sizeof list - used, "%s%s", k > 0 ? ", " : "",
                             in->table->names[k]);
        used += wrote > 0 ? (size_t)wrote : 0;
    }
    if (used >= sizeof list) memcpy(list + sizeof list - 4, "...", 4);
    const char* joint = model && model->sizes.nlink > 0 ? model->links[0].def.joint : "elbow";
    return nsi_fail(
        in->error, NS_ERR_PARSE,
        "%.120s:1: no column name is known: %s; known names are q0, qd0, q_<joint> "
        "(q_%.40s), names of quantities, u_<joint>, tau0, t, traj; rename columns or give a map",
        in->path, list, joint);
}

// Can a formula use the column's name without quotes?
static bool infer_is_plain(const char* name) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    return strspn(name, letters) == strlen(name) && !(name[0] >= '0' && name[0] <= '9');
}

static ns_status column_formula(inference* in, ns_data_map* map, const char* name, uint32_t column,
                                nsi_map_formula* out) {
    char text[NS_TABLE_MAX_NAME + 3];
    const char* variable = in->table->names[column];
    const char* quote = infer_is_plain(variable) ? "" : "\"";
    snprintf(text, sizeof text, "%s%s%s", quote, variable, quote);
    return nsi_map_formula_parse(map, name, text, 1, 1, out, in->error);
}

static ns_status infer_add_column(inference* in, ns_data_map* map, uint32_t column) {
    nsi_map_source* source = &map->sources.data[0];
    // What find_meaning() concluded for this column.
    const meaning* m = &in->columns[column];
    const char* column_name = in->table->names[column];
    nsi_map_formula f;
    ns_status status = NS_OK;

    // A second time or trajectory column is not used: the first one counts.
    bool second =
        (m->kind == TIME && source->time.formula) || (m->kind == TRAJECTORY && map->trajectory);

    switch (second ? UNKNOWN : m->kind) {
    // Times are used as they are.
    case TIME: return column_formula(in, map, NULL, column, &source->time);
    case TRAJECTORY:
        map->trajectory = nsi_arena_string(&map->arena, column_name, strlen(column_name));
        // The header is line 1 of the table.
        map->trajectory_line = map->trajectory_column = 1;
        return map->trajectory ? NS_OK : nsi_fail_nomem(in->error);

    // Channels and controls are formulas that copy the column; quantities keep its name.
    case CHANNEL:
    case CONTROL:
        status = column_formula(in, map, m->name[0] ? m->name : column_name, column, &f);
        if (status != NS_OK) return status;
        // Without noise information, the weight of a channel is 1.
        return m->kind == CHANNEL ? nsi_map_add_channel(map, source, &f, 0.0, 1.0, in->error)
                                  : nsi_map_add_control(map, source, &f, in->error);

    // Unused columns are listed in the description of the dataset.
    case UNKNOWN:
        column_name = nsi_arena_string(&map->arena, column_name, strlen(column_name));
        if (!column_name || !nsi_array_push(&map->arena.allocator, &map->unused, column_name)) {
            return nsi_fail_nomem(in->error);
        }
        if (!in->all) break;
        status = column_formula(in, map, column_name, column, &f);
        return status == NS_OK ? nsi_map_add_channel(map, source, &f, 0.0, 1.0, in->error) : status;
    // Columns such as step counters carry no information.
    case IGNORED: break;
    }
    return NS_OK;
}

// The column of a coordinate, or NULL.
static const char* coordinate_column(const inference* in, uint32_t q) {
    char name[NAME_SIZE];
    snprintf(name, sizeof name, "q%u", q);
    for (uint32_t k = 0; k < in->table->ncol; k++) {
        if (strcmp(in->columns[k].name, name) == 0) return in->table->names[k];
    }
    return NULL;
}

// Rotations of floating and spherical joints, if they are there in full.
static ns_status add_quaternions(inference* in, ns_data_map* map) {
    for (uint32_t i = 0; i < in->model->sizes.nlink; i++) {
        const nsi_link* l = &in->model->links[i];
        if (l->nq != 4 && l->nq != 7) continue;
        nsi_map_quaternion q = {.line = 1, .column = 1};
        bool all = true;
        for (uint32_t k = 0; k < 4 && all; k++) {
            const char* column = coordinate_column(in, l->q + l->nq - 4 + k);
            all = column != NULL;
            if (!all) break;
            q.names[k] = nsi_arena_string(&map->arena, column, strlen(column));
            if (!q.names[k]) return nsi_fail_nomem(in->error);
        }
        if (all && !nsi_array_push(&map->arena.allocator, &map->sources.data[0].quaternions, q)) {
            return nsi_fail_nomem(in->error);
        }
    }
    return NS_OK;
}

static ns_status fill_map(inference* in, ns_data_map* map) {
    // Interpret each column name as a state or a control.
    ns_status status = NS_OK;
    for (uint32_t k = 0; k < in->table->ncol && status == NS_OK; k++) {
        status = find_meaning(in, in->table->names[k], &in->columns[k]);
    }

    // Remaining columns may be quantities of the model, by their full name.
    if (status == NS_OK && in->model) {
        status = ns_model_quantities(in->model, NULL, mark_quantity, in, in->error);
    }

    // The map has one source, the table itself.
    if (status == NS_OK &&
        !nsi_array_push(&map->arena.allocator, &map->sources, (nsi_map_source){0})) {
        status = nsi_fail_nomem(in->error);
    }

    // Columns become channels and controls.
    for (uint32_t k = 0; k < in->table->ncol && status == NS_OK; k++) {
        status = infer_add_column(in, map, k);
    }
    // Coordinates of floating and spherical joints form quaternions.
    if (status == NS_OK && in->model) status = add_quaternions(in, map);
    if (in->all && status == NS_OK) {
        if (!map->sources.data[0].time.formula) map->sources.data[0].rate = 1.0;
        return NS_OK;
    }

    // A table without any known column, or without time, needs a map from the user.
    if (status == NS_OK && map->channels.count + map->controls.count == 0) {
        status = infer_fail_unknown(in);
    }
    // Without time or sample rate, there is no simulation to compare with.
    if (status == NS_OK && !map->sources.data[0].time.formula) {
        status = nsi_fail(in->error, NS_ERR_PARSE,
                          "%.200s:1: column t (time in s) is missing; add it, or give a map with "
                          "the sample rate (rate: 400)",
                          in->path);
    }
    return status;
}

static ns_status infer_map(const char* path, const ns_model* model, bool all,
                           const ns_allocator* allocator, ns_data_map** out, ns_error* error) {
    *out = NULL;
    ns_allocator memory = allocator ? *allocator : ns_default_allocator();
    ns_table table;
    ns_table_options form = {.allow_missing = true, .names_only = true};
    ns_status status = ns_table_read(path, &form, &memory, &table, error);
    if (status != NS_OK) return status;
    inference in = {.model = model, .table = &table, .path = path, .all = all, .error = error};
    in.columns = nsi_alloc_zeroed(&memory, table.ncol * sizeof *in.columns);
    ns_data_map* map = nsi_data_map_create(path, &memory);
    status = in.columns && map ? fill_map(&in, map) : nsi_fail_nomem(error);
    nsi_free(&memory, in.columns);
    ns_table_free(&table);
    if (status != NS_OK) {
        ns_data_map_free(map);
        return status;
    }
    map->inferred = true;
    *out = map;
    return NS_OK;
}

ns_status ns_data_map_infer(const char* path, const ns_model* model, const ns_allocator* allocator,
                            ns_data_map** out, ns_error* error) {
    return infer_map(path, model, false, allocator, out, error);
}

ns_status nsi_data_map_infer_all(const char* path, const ns_model* model,
                                 const ns_allocator* allocator, ns_data_map** out,
                                 ns_error* error) {
    ns_status status = infer_map(path, model, true, allocator, out, error);
    if (status == NS_OK) (*out)->tolerant = true;
    return status;
}
