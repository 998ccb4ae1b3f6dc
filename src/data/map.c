// Read maps from YAML; what depends on a table is checked later, when one is read.

#include "data/map.h"

#include "io/yaml.h"

#include <float.h>
#include <math.h>

typedef struct reader {
    const nsi_yaml* yaml;
    ns_data_map* map;
    ns_error* error;
} reader;

// ---- making --------------------------------------------------------------------------------

ns_data_map* nsi_data_map_create(const char* file, const ns_allocator* allocator) {
    ns_allocator memory = allocator ? *allocator : ns_default_allocator();
    ns_data_map* map = nsi_alloc_zeroed(&memory, sizeof *map);
    if (!map) return NULL;
    map->arena.allocator = memory;
    map->file = nsi_arena_string(&map->arena, file, strlen(file));
    if (!map->file) {
        ns_data_map_free(map);
        return NULL;
    }
    return map;
}

static void free_formula(const ns_data_map* map, const nsi_map_formula* f) {
    ns_formula_free(f->formula);
    for (uint32_t k = 0; f->each && k < map->row_samples; k++) {
        ns_formula_free(f->each[k].formula);
    }
}

void ns_data_map_free(ns_data_map* map) {
    if (!map) return;
    ns_allocator memory = map->arena.allocator;
    for (uint32_t k = 0; k < map->sources.count; k++) {
        nsi_map_source* s = &map->sources.data[k];
        free_formula(map, &s->time);
        free_formula(map, &s->since);
        free_formula(map, &s->until);
        for (uint32_t i = 0; i < s->define.count; i++) free_formula(map, &s->define.data[i]);
        for (uint32_t i = 0; i < s->observe.count; i++) free_formula(map, &s->observe.data[i]);
        for (uint32_t i = 0; i < s->control.count; i++) free_formula(map, &s->control.data[i]);
        nsi_array_free(&memory, &s->where);
        nsi_array_free(&memory, &s->define);
        nsi_array_free(&memory, &s->quaternions);
        nsi_array_free(&memory, &s->observe);
        nsi_array_free(&memory, &s->control);
    }
    nsi_array_free(&memory, &map->columns);
    nsi_array_free(&memory, &map->sources);
    nsi_array_free(&memory, &map->channels);
    nsi_array_free(&memory, &map->controls);
    nsi_array_free(&memory, &map->unused);
    nsi_arena_free(&map->arena);
    nsi_free(&memory, map);
}

ns_status nsi_map_formula_parse(ns_data_map* map, const char* name, const char* text, uint32_t line,
                                uint32_t column, nsi_map_formula* out, ns_error* error) {
    *out = (nsi_map_formula){.line = line, .column = column};
    if (map->nformula++ == NSI_MAP_MAX_FORMULAS) {
        return nsi_fail(error, NS_ERR_LIMIT, "%.200s:%u:%u: more than %d formulas; split the map",
                        map->file, line, column, NSI_MAP_MAX_FORMULAS);
    }
    out->name = name ? nsi_arena_string(&map->arena, name, strlen(name)) : "";
    out->text = nsi_arena_string(&map->arena, text, strlen(text));
    if (!out->name || !out->text) return nsi_fail_nomem(error);
    size_t where;
    ns_error inner;
    ns_status status = ns_formula_parse(text, strlen(text), true, &map->arena.allocator,
                                        &out->formula, &where, &inner);
    if (status == NS_ERR_NOMEM) return nsi_fail_nomem(error);
    if (status != NS_OK) {
        return nsi_fail(error, status, "%.200s:%u:%zu: %s", map->file, line, column + where,
                        inner.message);
    }
    return NS_OK;
}

static ns_status fail_twice(const ns_data_map* map, const nsi_map_formula* f, ns_error* error) {
    return nsi_fail(error, NS_ERR_PARSE, "%.200s:%u:%u: \"%.100s\" is given twice; remove one",
                    map->file, f->line, f->column, f->name);
}

ns_status nsi_map_add_channel(ns_data_map* map, nsi_map_source* source, nsi_map_formula* value,
                              double sigma, double weight, ns_error* error) {
    const ns_allocator* memory = &map->arena.allocator;
    ns_channel channel = {value->name, sigma, weight, value->text};
    if (!value->name || !nsi_array_push(memory, &source->observe, *value)) {
        free_formula(map, value);
        return nsi_fail_nomem(error);
    }
    for (uint32_t k = 0; k < map->channels.count; k++) {
        if (strcmp(map->channels.data[k].name, value->name) == 0) {
            return fail_twice(map, value, error);
        }
    }
    return nsi_array_push(memory, &map->channels, channel) ? NS_OK : nsi_fail_nomem(error);
}

ns_status nsi_map_add_control(ns_data_map* map, nsi_map_source* source, nsi_map_formula* value,
                              ns_error* error) {
    const ns_allocator* memory = &map->arena.allocator;
    if (!value->name || !nsi_array_push(memory, &source->control, *value)) {
        free_formula(map, value);
        return nsi_fail_nomem(error);
    }
    for (uint32_t k = 0; k < map->controls.count; k++) {
        if (strcmp(map->controls.data[k], value->name) == 0) return fail_twice(map, value, error);
    }
    return nsi_array_push(memory, &map->controls, value->name) ? NS_OK : nsi_fail_nomem(error);
}

// ---- values --------------------------------------------------------------------------------

// A copy of the text that outlives the tree. `node` may be NULL.
static ns_status map_read_text(reader* r, const nsi_yaml_node* node, const char** out) {
    const char* text = "";
    if (!node) return NS_OK;
    ns_status status = nsi_yaml_text(r->yaml, node, &text, r->error);
    if (status != NS_OK) return status;
    const char* copy = nsi_arena_string(&r->map->arena, text, strlen(text));
    if (!copy) return nsi_fail_nomem(r->error);
    *out = copy;
    return NS_OK;
}

static ns_status map_read_formula(reader* r, const nsi_yaml_node* node, const char* name,
                                  nsi_map_formula* out) {
    const char* text = "";
    ns_status status = nsi_yaml_text(r->yaml, node, &text, r->error);
    if (status != NS_OK) return status;
    // A fault is that of the file in which the formula stands.
    const char* own = r->map->file;
    r->map->file = node->source->file;
    status = nsi_map_formula_parse(r->map, name, text, node->line, node->column + !node->plain, out,
                                   r->error);
    r->map->file = own;
    return status;
}

// "[a, b, nan]", for descriptions of a channel.
static ns_status join_texts(reader* r, nsi_map_formula* f) {
    nsi_text_builder text = {.allocator = r->map->arena.allocator};
    for (uint32_t k = 0; k < r->map->row_samples; k++) {
        nsi_text_add(&text, "%s%s", k > 0 ? ", " : "[", f->each[k].text);
    }
    nsi_text_add(&text, "]");
    ns_text joined;
    ns_status status = nsi_text_finish(&text, &joined, r->error);
    if (status != NS_OK) return status;
    f->text = nsi_arena_string(&r->map->arena, joined.data, joined.size);
    ns_text_free(&joined);
    return f->text ? NS_OK : nsi_fail_nomem(r->error);
}

// One formula of a list; `nan` is missing.
static ns_status read_sample(reader* r, const nsi_yaml_node* node, nsi_map_formula* out) {
    if (node->type != NSI_YAML_SCALAR || strcmp(node->text, "nan") != 0) {
        return map_read_formula(r, node, NULL, out);
    }
    *out = (nsi_map_formula){.name = "", .text = "nan", .line = node->line, .column = node->column};
    return NS_OK;
}

// A formula, or where rows are recordings a list of them, one for each sample.
static ns_status read_value(reader* r, const nsi_yaml_node* node, const char* name,
                            nsi_map_formula* out) {
    uint32_t count = r->map->row_samples;
    if (count == 0 || node->type != NSI_YAML_LIST) return map_read_formula(r, node, name, out);
    if (node->count != count) {
        return nsi_yaml_fail(r->yaml, node, r->error,
                             "a list of %u where time has %u: write a value for each sample, or "
                             "one for all",
                             node->count, count);
    }
    *out = (nsi_map_formula){.line = node->line, .column = node->column};
    out->name = name ? nsi_arena_string(&r->map->arena, name, strlen(name)) : "";
    out->each = nsi_arena_alloc(&r->map->arena, count * sizeof *out->each);
    if (!out->name || !out->each) return nsi_fail_nomem(r->error);
    memset(out->each, 0, count * sizeof *out->each);
    ns_status status = NS_OK;
    uint32_t k = 0;
    for (const nsi_yaml_node* entry = node->first; entry && status == NS_OK; entry = entry->next) {
        status = read_sample(r, entry, &out->each[k++]);
    }
    if (status == NS_OK) status = join_texts(r, out);
    if (status != NS_OK) {
        free_formula(r->map, out);
        *out = (nsi_map_formula){0};
    }
    return status;
}

// A number, also one that is computed: 0.1*deg.
static ns_status read_constant(reader* r, const nsi_yaml_node* node, double* out) {
    if (!node) return NS_OK;
    nsi_map_formula f = {0};
    ns_status status = map_read_formula(r, node, NULL, &f);
    if (status != NS_OK) return status;
    if (ns_formula_variable_count(f.formula) > 0) {
        status = nsi_yaml_fail(r->yaml, node, r->error,
                               "\"%.60s\" is not known; write a number, without columns",
                               ns_formula_variable(f.formula, 0));
    } else {
        *out = ns_formula_eval(f.formula, NULL);
        if (!isfinite(*out) || *out < 0.0) {
            status = nsi_yaml_fail(r->yaml, node, r->error,
                                   "this must be a finite number that is not negative");
        }
    }
    ns_formula_free(f.formula);
    return status;
}

static ns_status want_map(reader* r, const nsi_yaml_node* node, const char* example) {
    if (!node || (node->type == NSI_YAML_MAP && node->count > 0)) return NS_OK;
    return nsi_yaml_fail(r->yaml, node, r->error, "%s: write a mapping such as %s", node->key,
                         example);
}

// ---- tables --------------------------------------------------------------------------------

static ns_status mark_resample(nsi_schema_reader* r, const nsi_yaml_node* node, void* out) {
    (void)r, (void)node;
    ((nsi_map_source*)out)->resample_given = true;
    return NS_OK;
}

static const nsi_schema_key grid_keys[] = {
    {"resample", NSI_KEY_CHOICE, offsetof(nsi_map_source, resample), .choices = &ns_resamples,
     .read = mark_resample, .fallback = "linear",
     .help = "how rows come onto the grid; cubic is Catmull-Rom. Controls are held if it is not"
             " given"},
    {"max_gap", NSI_KEY_NUMBER, offsetof(nsi_map_source, max_gap), DBL_MIN, DBL_MAX,
     .fallback = "(1.5 times their median distance)", .values = "s, > 0",
     .help = "between rows that are further apart numbers are missing"},
    {"time_repair", NSI_KEY_FLAG, offsetof(nsi_map_source, time_repair), .fallback = "false",
     .help = "sort rows whose time goes back (by at most 16 rows), drop those that repeat one;"
             " otherwise they are an error"},
};
const nsi_schema nsi_map_grid_schema = NSI_SCHEMA("a grid", grid_keys, NULL);

// What is `NSI_KEY_OTHER` is read in the order of its use, below.
static const nsi_schema_key source_keys[] = {
    {"where", NSI_KEY_OTHER, .values = "`{column: text}`", .fallback = "(all rows)",
     .help = "only rows with this text in this column"},
    {"rate", NSI_KEY_NUMBER, offsetof(nsi_map_source, rate), DBL_MIN, 1e9,
     .help = "rows per second; one of `rate` and `time` is needed"},
    {"time", NSI_KEY_OTHER, .values = "formula", .help = "s, of columns of the file"},
    {"offset", NSI_KEY_NUMBER, offsetof(nsi_map_source, offset), .values = "s", .fallback = "0",
     .help = "added to the time: how far a clock is off"},
    {"since", NSI_KEY_OTHER, .values = "formula", .fallback = "(the first row)",
     .help = "a recording begins with the first row where it is above 0"
             " (`abs(shift(x, -5) - first(x)) - 1*mm`: five rows before something has moved)"},
    {"until", NSI_KEY_OTHER, .values = "formula", .fallback = "(the last row)",
     .help = "a recording ends before the first row where it is above 0"},
    {"define", NSI_KEY_OTHER, .values = "`{name: formula}`",
     .help = "further columns, in order; later formulas see earlier ones. The name of a column of"
             " the file is hidden from then on"},
    {"quaternions", NSI_KEY_OTHER, .values = "list of `[w, x, y, z]`",
     .help = "columns that are made unit length, with the sign nearer to the row before, before"
             " formulas see them"},
    {"observe", NSI_KEY_OTHER,
     .values = "`{quantity: formula}`, `{quantity: {value, sigma, weight}}`",
     .help = "what was measured"},
    {"control", NSI_KEY_OTHER, .values = "`{control: formula}`", .help = "what was commanded"},
};
const nsi_schema nsi_map_source_schema = {.what = "source",
                                          .keys = source_keys,
                                          .count = sizeof source_keys / sizeof *source_keys,
                                          .also = &nsi_map_grid_schema};

static const nsi_schema_key map_keys[] = {
    {"rows", NSI_KEY_OTHER, .values = "`samples`, `recordings`", .fallback = "samples",
     .help = "what a row of the file is"},
    {"columns", NSI_KEY_OTHER, .values = "list of names", .fallback = "(the first row)",
     .help = "for a file that has none"},
    {"trajectory", NSI_KEY_OTHER, .values = "column", .fallback = "(one recording)",
     .help = "consecutive rows with the same number are one recording"},
    {"table", NSI_KEY_OTHER, .values = "`{file, key}`",
     .help = "a second table, with one row per recording"},
    {"sources", NSI_KEY_OTHER, .values = "list",
     .help = "for streams with clocks of their own: mappings with the keys below"},
};
const nsi_schema nsi_map_schema = {.what = "map",
                                   .keys = map_keys,
                                   .count = sizeof map_keys / sizeof *map_keys,
                                   .also = &nsi_map_source_schema};

static const nsi_schema_key table_keys[] = {
    {"file", NSI_KEY_TEXT, offsetof(nsi_map_table, file), .values = "name",
     .help = "of a file beside the recordings"},
    {"key", NSI_KEY_TEXT, offsetof(nsi_map_table, key), .values = "column",
     .help = "that names recordings"},
};
const nsi_schema nsi_map_table_schema = NSI_SCHEMA("table", table_keys, NULL);

static const nsi_schema_key channel_keys[] = {
    {"value", NSI_KEY_OTHER, .values = "formula", .help = "of columns"},
    {"sigma", NSI_KEY_OTHER, .values = "number, >= 0", .fallback = "(the channel's spread)",
     .help = "standard deviation of its noise"},
    {"weight", NSI_KEY_OTHER, .values = "number, >= 0", .fallback = "1",
     .help = "of its residuals"},
};
const nsi_schema nsi_map_channel_schema = NSI_SCHEMA("a channel", channel_keys, NULL);

// The keys of one table; others may be there.
static ns_status read_by_table(reader* r, const nsi_schema* schema, const nsi_yaml_node* node,
                               void* out) {
    nsi_schema_reader by = {.yaml = r->yaml, .arena = &r->map->arena, .error = r->error};
    return nsi_schema_read_known(&by, schema, node, out);
}

// ---- sources -------------------------------------------------------------------------------

static ns_status read_where(reader* r, const nsi_yaml_node* node, nsi_map_source* source) {
    ns_status status = want_map(r, node, "{stream: obj}");
    for (const nsi_yaml_node* entry = node && status == NS_OK ? node->first : NULL;
         entry && status == NS_OK; entry = entry->next) {
        ns_table_where where = {nsi_arena_string(&r->map->arena, entry->key, strlen(entry->key)),
                                ""};
        if (!where.column) return nsi_fail_nomem(r->error);
        status = map_read_text(r, entry, &where.text);
        if (status == NS_OK && !nsi_array_push(&r->map->arena.allocator, &source->where, where)) {
            status = nsi_fail_nomem(r->error);
        }
    }
    return status;
}

static ns_status map_read_clock(reader* r, const nsi_yaml_node* node, nsi_map_source* source) {
    const nsi_yaml_node* rate = nsi_yaml_find(node, "rate");
    const nsi_yaml_node* time = nsi_yaml_find(node, "time");
    if (!rate == !time) {
        return nsi_yaml_fail(r->yaml, time ? time : node, r->error,
                             "%s; write rate: rows per second, or time: a formula of columns (s)",
                             rate ? "rate and time are both given"
                                  : "neither rate nor time is given");
    }
    ns_status status = read_by_table(r, &nsi_map_source_schema, node, source);
    if (status == NS_OK && time) status = read_value(r, time, NULL, &source->time);
    const nsi_yaml_node* since = nsi_yaml_find(node, "since");
    const nsi_yaml_node* until = nsi_yaml_find(node, "until");
    if (status == NS_OK && since) status = map_read_formula(r, since, NULL, &source->since);
    if (status == NS_OK && until) status = map_read_formula(r, until, NULL, &source->until);
    return status;
}

static ns_status read_define(reader* r, const nsi_yaml_node* node, nsi_map_source* source) {
    ns_status status = want_map(r, node, "{angle: unwrap(a)}");
    for (const nsi_yaml_node* entry = node && status == NS_OK ? node->first : NULL;
         entry && status == NS_OK; entry = entry->next) {
        nsi_map_formula f = {0};
        status = read_value(r, entry, entry->key, &f);
        if (status == NS_OK && !nsi_array_push(&r->map->arena.allocator, &source->define, f)) {
            status = nsi_fail_nomem(r->error);
            free_formula(r->map, &f);
        }
    }
    return status;
}

static uint32_t definitions_until(const nsi_map_source* source, const char* name) {
    uint32_t until = 0;
    for (uint32_t k = 0; k < source->define.count; k++) {
        if (strcmp(source->define.data[k].name, name) == 0) until = k + 1;
    }
    return until;
}

static ns_status read_quaternions(reader* r, const nsi_yaml_node* node, nsi_map_source* source) {
    if (!node) return NS_OK;

    // Both errors show the same example.
    static const char example[] = "write a list of lists of four columns, [[qw, qx, qy, qz]]";
    if (node->type != NSI_YAML_LIST) {
        return nsi_yaml_fail(r->yaml, node, r->error, "quaternions: %s", example);
    }

    for (const nsi_yaml_node* entry = node->first; entry; entry = entry->next) {
        // Each entry names four columns or definitions.
        if (entry->type != NSI_YAML_LIST || entry->count != 4) {
            return nsi_yaml_fail(r->yaml, entry, r->error, "quaternions: %s", example);
        }
        // Limits keep malicious files cheap.
        if (source->quaternions.count == NSI_MAP_MAX_FORMULAS) {
            return nsi_yaml_fail_limit(r->yaml, entry, r->error, "more than %d quaternions",
                                       NSI_MAP_MAX_FORMULAS);
        }

        // A quaternion is normalised as soon as its last component has been defined.
        nsi_map_quaternion q = {
            .names = {"", "", "", ""}, .line = entry->line, .column = entry->column};
        const nsi_yaml_node* name = entry->first;
        for (int k = 0; k < 4; k++, name = name->next) {
            ns_status status = map_read_text(r, name, &q.names[k]);
            if (status != NS_OK) return status;
            // Definitions may refer to earlier ones; find where this component becomes available.
            uint32_t until = definitions_until(source, q.names[k]);
            if (until > q.after) q.after = until;
        }

        // Streams apply them in the order of the file.
        if (!nsi_array_push(&r->map->arena.allocator, &source->quaternions, q)) {
            return nsi_fail_nomem(r->error);
        }
    }
    return NS_OK;
}

static ns_status read_channel(reader* r, const nsi_yaml_node* entry, nsi_map_source* source) {
    const nsi_yaml_node* value = entry;
    double sigma = 0.0, weight = 1.0;
    if (entry->type == NSI_YAML_MAP) {
        ns_status status = nsi_schema_check_keys(r->yaml, &nsi_map_channel_schema, entry, r->error);
        if (status != NS_OK) return status;
        value = nsi_yaml_find(entry, "value");
        if (!value) {
            return nsi_yaml_fail(r->yaml, entry, r->error,
                                 "%.100s has no value; write {value: a formula, ...}", entry->key);
        }
        status = read_constant(r, nsi_yaml_find(entry, "sigma"), &sigma);
        if (status == NS_OK) status = read_constant(r, nsi_yaml_find(entry, "weight"), &weight);
        if (status != NS_OK) return status;
    }
    nsi_map_formula f = {0};
    ns_status status = read_value(r, value, entry->key, &f);
    if (status != NS_OK) return status;
    return nsi_map_add_channel(r->map, source, &f, sigma, weight, r->error);
}

static ns_status read_measurements(reader* r, const nsi_yaml_node* node, nsi_map_source* source) {
    const nsi_yaml_node* observe = nsi_yaml_find(node, "observe");
    const nsi_yaml_node* control = nsi_yaml_find(node, "control");
    source->first_channel = r->map->channels.count;
    source->first_control = r->map->controls.count;
    if (!observe && !control) {
        return nsi_yaml_fail(r->yaml, node, r->error,
                             "neither observe nor control is given; write observe: {joint/elbow/"
                             "position: a formula of columns}");
    }
    ns_status status = want_map(r, observe, "{joint/elbow/position: angle}");
    if (status == NS_OK) status = want_map(r, control, "{u/elbow_motor: current}");
    for (const nsi_yaml_node* entry = observe && status == NS_OK ? observe->first : NULL;
         entry && status == NS_OK; entry = entry->next) {
        status = read_channel(r, entry, source);
    }
    for (const nsi_yaml_node* entry = control && status == NS_OK ? control->first : NULL;
         entry && status == NS_OK; entry = entry->next) {
        nsi_map_formula f = {0};
        status = read_value(r, entry, entry->key, &f);
        if (status == NS_OK) status = nsi_map_add_control(r->map, source, &f, r->error);
    }
    return status;
}

// @param manner  what holds when the source does not say
static ns_status map_read_source(reader* r, const nsi_yaml_node* node,
                                 const nsi_map_source* manner) {
    nsi_map_source fresh = *manner;
    if (r->map->sources.count == NSI_MAP_MAX_SOURCES) {
        return nsi_yaml_fail_limit(r->yaml, node, r->error, "more than %d sources; split the map",
                                   NSI_MAP_MAX_SOURCES);
    }
    if (!nsi_array_push(&r->map->arena.allocator, &r->map->sources, fresh)) {
        return nsi_fail_nomem(r->error);
    }
    nsi_map_source* source = &r->map->sources.data[r->map->sources.count - 1];
    ns_status status = read_where(r, nsi_yaml_find(node, "where"), source);
    if (status == NS_OK) status = read_by_table(r, &nsi_map_grid_schema, node, source);
    if (status == NS_OK) status = map_read_clock(r, node, source);
    if (status == NS_OK) status = read_define(r, nsi_yaml_find(node, "define"), source);
    if (status == NS_OK) status = read_quaternions(r, nsi_yaml_find(node, "quaternions"), source);
    if (status == NS_OK) status = read_measurements(r, node, source);
    return status;
}

// ---- files ---------------------------------------------------------------------------------

static ns_status read_columns(reader* r, const nsi_yaml_node* node) {
    if (!node) return NS_OK;

    // Validate the list as a whole.
    if (node->type != NSI_YAML_LIST || node->count == 0) {
        return nsi_yaml_fail(r->yaml, node, r->error, "columns: write a list of names, [t, x, y]");
    }
    // Limits keep malicious files cheap.
    if (node->count > NSI_MAP_MAX_FORMULAS) {
        return nsi_yaml_fail_limit(r->yaml, node, r->error, "more than %d columns",
                                   NSI_MAP_MAX_FORMULAS);
    }

    // Each name must fit into a table header.
    for (const nsi_yaml_node* entry = node->first; entry; entry = entry->next) {
        const char* name = "";
        ns_status status = map_read_text(r, entry, &name);
        if (status != NS_OK) return status;
        if (strlen(name) > NS_TABLE_MAX_NAME) {
            return nsi_yaml_fail_limit(r->yaml, entry, r->error, "a name has more than %d bytes",
                                       NS_TABLE_MAX_NAME);
        }

        // Names must be unique, because formulas refer to columns by name.
        for (uint32_t k = 0; k < r->map->columns.count; k++) {
            if (strcmp(r->map->columns.data[k], name) != 0) continue;
            return nsi_yaml_fail(r->yaml, entry, r->error,
                                 "columns: \"%.100s\" is given twice; rename one", name);
        }

        // Columns of the file, from left to right.
        if (!nsi_array_push(&r->map->arena.allocator, &r->map->columns, name)) {
            return nsi_fail_nomem(r->error);
        }
    }
    return NS_OK;
}

static ns_status read_side_table(reader* r, const nsi_yaml_node* node) {
    if (!node) return NS_OK;
    nsi_map_table table = {.line = node->line, .column = node->column};
    ns_status status = nsi_schema_check_keys(r->yaml, &nsi_map_table_schema, node, r->error);
    if (status != NS_OK) return status;
    const nsi_yaml_node *file = nsi_yaml_find(node, "file"), *key = nsi_yaml_find(node, "key");
    if (!file || !key) {
        return nsi_yaml_fail(
            r->yaml, node, r->error,
            "table: write {file: index.csv, key: the column that names recordings}");
    }
    status = read_by_table(r, &nsi_map_table_schema, node, &table);
    if (status != NS_OK) return status;
    // A map may come from anywhere: it does not reach into other folders.
    if (!*table.file || strpbrk(table.file, "/\\") || strcmp(table.file, "..") == 0) {
        return nsi_yaml_fail(r->yaml, file, r->error,
                             "table: write the name of a file beside the recordings, no folder");
    }
    r->map->table = table;
    return NS_OK;
}

#define MANNER "resample max_gap time_repair"
#define SOURCE "where rate time offset since until define quaternions observe control"
#define ROWS "rows columns where time offset define quaternions observe control resample max_gap"

static ns_status read_sources(reader* r, const nsi_yaml_node* root, const nsi_map_source* manner) {
    const nsi_yaml_node* list = nsi_yaml_find(root, "sources");
    if (!list) return map_read_source(r, root, manner);
    ns_status status = nsi_yaml_check_map(r->yaml, root, "a map with sources",
                                          "columns trajectory table sources " MANNER, r->error);
    if (status != NS_OK) return status;
    if (list->type != NSI_YAML_LIST || list->count == 0) {
        return nsi_yaml_fail(r->yaml, list, r->error,
                             "sources: write a list of mappings with the keys " SOURCE);
    }
    for (const nsi_yaml_node* entry = list->first; entry; entry = entry->next) {
        status = nsi_schema_check_keys(r->yaml, &nsi_map_source_schema, entry, r->error);
        if (status == NS_OK) status = map_read_source(r, entry, manner);
        if (status != NS_OK) return status;
    }
    return NS_OK;
}

#define ROW_KIND_MAP(X)                                                                            \
    X(ROWS_ARE_SAMPLES, "samples", "of a recording")                                               \
    X(ROWS_ARE_RECORDINGS, "recordings", "with samples in columns")
enum { ROW_KIND_MAP(NS_CHOICE_VALUE) };
static const ns_choice row_kind_rows[] = {ROW_KIND_MAP(NS_CHOICE_ROW)};
static const ns_choices row_kinds = NS_CHOICES("kind of rows", row_kind_rows);

// Are rows samples of a recording, or recordings? These have as many samples as there are times.
static ns_status read_rows(reader* r, const nsi_yaml_node* root) {
    const nsi_yaml_node *node = nsi_yaml_find(root, "rows"), *time = nsi_yaml_find(root, "time");
    int choice = ROWS_ARE_SAMPLES;
    ns_status status = nsi_yaml_choice(r->yaml, node, &row_kinds, &choice, r->error);
    if (status != NS_OK || choice == ROWS_ARE_SAMPLES) return status;
    status = nsi_yaml_check_map(r->yaml, root, "a map with rows: recordings", ROWS, r->error);
    if (status != NS_OK) return status;
    if (!time || time->type != NSI_YAML_LIST || time->count < 2) {
        return nsi_yaml_fail(r->yaml, time ? time : node, r->error,
                             "rows: recordings needs the times of at least two samples, such as "
                             "time: [0, 2.5]");
    }
    if (time->count > NSI_MAP_MAX_FORMULAS) {
        return nsi_yaml_fail_limit(r->yaml, time, r->error, "more than %d samples",
                                   NSI_MAP_MAX_FORMULAS);
    }
    r->map->row_samples = time->count;
    return NS_OK;
}

static ns_status read_map(reader* r) {
    const nsi_yaml_node* root = r->yaml->root;
    ns_status status = nsi_schema_check_keys(r->yaml, &nsi_map_schema, root, r->error);
    if (status == NS_OK) status = read_rows(r, root);
    if (status == NS_OK) status = read_columns(r, nsi_yaml_find(root, "columns"));
    const nsi_yaml_node* trajectory = nsi_yaml_find(root, "trajectory");
    if (status == NS_OK) status = map_read_text(r, trajectory, &r->map->trajectory);
    if (status == NS_OK && trajectory) {
        r->map->trajectory_line = trajectory->line;
        r->map->trajectory_column = trajectory->column;
    }
    if (status == NS_OK) status = read_side_table(r, nsi_yaml_find(root, "table"));
    nsi_map_source manner = {0};
    if (status == NS_OK) status = read_by_table(r, &nsi_map_grid_schema, root, &manner);
    if (status == NS_OK) status = read_sources(r, root, &manner);
    return status;
}

static ns_status from_tree(const nsi_yaml* yaml, const char* path, const ns_allocator* allocator,
                           ns_data_map** out, ns_error* error) {
    ns_data_map* map = nsi_data_map_create(path, allocator);
    if (!map) return nsi_fail_nomem(error);
    reader r = {.yaml = yaml, .map = map, .error = error};
    ns_status status = read_map(&r);
    if (status != NS_OK) {
        ns_data_map_free(map);
        return status;
    }
    *out = map;
    return NS_OK;
}

ns_status nsi_data_map_parse(const char* text, size_t size, const char* path,
                             const ns_allocator* allocator, ns_data_map** out, ns_error* error) {
    *out = NULL;
    nsi_yaml yaml;
    ns_status status = nsi_yaml_parse(text, size, path, allocator, &yaml, error);
    if (status == NS_OK) status = from_tree(&yaml, path, allocator, out, error);
    nsi_yaml_free(&yaml);
    return status;
}

ns_status ns_data_map_load(const char* path, const ns_allocator* allocator, ns_data_map** out,
                           ns_error* error) {
    *out = NULL;
    nsi_yaml yaml;
    ns_status status = nsi_yaml_read(path, allocator, &yaml, error);
    if (status == NS_OK) status = from_tree(&yaml, path, allocator, out, error);
    nsi_yaml_free(&yaml);
    return status;
}
