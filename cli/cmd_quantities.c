// neuralsim quantities: list the states, controls and quantities of a model.

#include "cli.h"
#include "model_io.h"
#include "quantity_args.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

static const char help[] =
    "usage: neuralsim quantities MODEL [PATTERN] [OPTIONS]\n"
    "\n"
    "Lists states and controls, by their names in blueprints and their columns in tables, and "
    "every\n"
    "quantity that can be observed (eval --quantity, simulate --observe), in the order of the "
    "step.\n"
    "Stages: start (inputs of the step), state (functions of the inputs), contact (springs), "
    "forces,\n"
    "acceleration, impulses (rigid contact), after (outputs that no other quantity depends on). "
    "The\n"
    "last column says whether a network of a blueprint can be attached.\n"
    "\n"
    "Vectors and matrices take one line, qdd [18], and so do all links and joints, link/*/pose.\n"
    "PATTERN selects names: * matches anything but a slash, ** anything; a name also selects all\n"
    "names below it.\n"
    "\n"
    "  --all             one line for each number\n"
    "  --params          also list the parameters that can be set free\n"
    "  --json            print states, controls and quantities with their shapes as one JSON "
    "object\n"
    "  --contact C       {contact}; default: the law of each pair\n"
    "  --friction F      friction of rigid contact: {friction}\n"
    "  --sweeps N        baumgarte: run N plain sweeps instead of solving exactly\n"
    "  --blueprint FILE  networks, whose outputs are quantities, too\n"
    "  --weights FILE    weights of the networks\n"
    "  --ground          add the plane z = 0 unless the file has a plane\n"
    "  --floating-base, --self-collision, --no-self-collision, --package-path   see 'inspect "
    "--help'\n"
    "  --variant NAME, --strict   robot of a hybrid model; refuse what would be repaired\n"
    "\n"
    "example: all numbers of the poses of links\n"
    "  neuralsim quantities models/quadruped.urdf 'link/*/pose' --all\n";

typedef struct quantities_command {
    const char* pattern;
    bool all, params, json;
    cli_contact contact;
    cli_networks networks;
    cli_load load;
} quantities_command;

// Does a name, or the beginning of it before a slash, fit the pattern?
static bool matches_pattern(const char* pattern, const char* name) {
    char below[1200];
    if (!pattern || ns_glob_match(pattern, name)) return true;
    snprintf(below, sizeof below, "%.1100s/**", pattern);
    return ns_glob_match(below, name);
}

// ---- numbers by name -------------------------------------------------------------------------

// A map from names to numbers: an object of jansson, which is a hash table.
static uint32_t map_find(const json_t* map, const char* name) {
    const json_t* number = json_object_get(map, name);
    return number ? (uint32_t)json_integer_value(number) : UINT32_MAX;
}

// False after saying that there is no memory.
static bool map_add(json_t** map, const char* name, uint32_t number) {
    if (!*map) *map = json_object();
    if (json_object_set_new_nocheck(*map, name, json_integer(number)) == 0) return true;
    cli_fail("out of memory");
    return false;
}

// ---- what is known of a quantity -------------------------------------------------------------

typedef struct knowledge {
    const char *name, *unit, *stage;
    bool affects_state;
    const char *group, *family, *object, *component; // as of ns_quantity_info
    uint32_t rank, index[2];
    uint32_t place; // in the order of the step
} knowledge;

// The quantities of the step, by name.
typedef struct facts {
    cli_pool pool; // texts
    knowledge* list;
    uint32_t count, capacity;
    json_t* map; // of the list
    bool failed;
} facts;

static void learn_quantity(void* context, const ns_quantity_info* q) {
    facts* f = context;
    if (f->failed) return;
    knowledge known = {.name = cli_pool_format(&f->pool, "%s", q->name),
                       .unit = cli_pool_format(&f->pool, "%s", q->unit),
                       .stage = ns_choice_name(&ns_stages, (int)q->stage),
                       .affects_state = q->affects_state,
                       .group = cli_pool_format(&f->pool, "%s", q->group),
                       .family = cli_pool_format(&f->pool, "%s", q->family),
                       .object = cli_pool_format(&f->pool, "%s", q->object),
                       .component = cli_pool_format(&f->pool, "%s", q->component),
                       .rank = q->rank,
                       .index = {q->index[0], q->index[1]},
                       .place = 2 * f->count + 1};
    bool ok = known.name && known.unit && known.group && known.family && known.object &&
              known.component && map_add(&f->map, known.name, f->count);
    if (ok && f->count == f->capacity) {
        ok = cli_grow((void**)&f->list, &f->capacity, sizeof *f->list);
    }
    if (ok) f->list[f->count++] = known;
    f->failed = !ok;
}

static const knowledge* recall(const facts* f, const char* name) {
    uint32_t number = map_find(f->map, name);
    return number == UINT32_MAX ? NULL : &f->list[number];
}

static bool collect_facts(facts* f, const cli_model* model, const cli_contact* contact) {
    ns_system_options options = ns_default_system_options();
    ns_error error;
    cli_model_apply(model, &options);
    cli_set_contact(contact, &options);
    if (ns_model_quantities(model->model, &options, learn_quantity, f, &error) != NS_OK) {
        return cli_fail("%s", error.message), false;
    }
    return !f->failed;
}

static void free_facts(facts* f) {
    free(f->list);
    json_decref(f->map);
    cli_pool_free(&f->pool);
}

// Of an observation. Outputs of networks and formulas come just before the quantity that they change, and
// have its shape, and its unit unless they scale it. Each network is an object of its own.
static knowledge know(const facts* f, const ns_system* system, uint32_t number) {
    const char* name = ns_system_observation_name(system, number);
    const knowledge* known = recall(f, name);
    if (known) return *known;

    knowledge output = {
        .name = name, .unit = "", .stage = "", .object = "", .component = "", .place = UINT32_MAX};
    ns_augment mode = NS_AUGMENT_ADD;
    const char* target = ns_system_observation_target(system, number, &mode);
    known = target ? recall(f, target) : NULL;
    if (known) {
        output.stage = known->stage;
        output.place = known->place - 1;
        output.component = known->component;
        output.rank = known->rank;
        memcpy(output.index, known->index, sizeof output.index);
        if (mode != NS_AUGMENT_SCALE) output.unit = known->unit;
    }
    return output;
}

// ---- groups --------------------------------------------------------------------------------

// Quantities that stand in one line: a scalar, components x y z, a vector, a matrix.
typedef struct group {
    const char* name;
    const char *family, *object; // of its numbers; no family: it is merged with no other
    const char* member;          // the first that was merged into it
    char parts[64];              // components, "x y z"; "" for indices
    uint32_t shape[2], rank;
    uint32_t parent; // in the shorter list: group of all that differ in link or joint only
    uint32_t count;  // members
    char units[64], stages[64]; // of its numbers, each once
    uint32_t moving, numbers;   // how many can be networks' outputs, of how many
} group;

typedef struct groups {
    cli_pool pool; // names
    group* list;
    uint32_t count, capacity;
    json_t* map; // by name and shape
} groups;

// Add a word to "m, rad" unless it is there; "" is "1" among others.
static void add_unique_word(char* list, size_t size, const char* word) {
    size_t used = strlen(list), length = strlen(word);
    for (const char* at = list; *at; at += strspn(at, ", ")) {
        size_t next = strcspn(at, ",");
        if (next == length && strncmp(at, word, length) == 0) return;
        at += next;
    }
    snprintf(list + used, size - used, "%s%s", used ? ", " : "", word);
}

static void add_knowledge(group* g, const knowledge* known) {
    add_unique_word(g->units, sizeof g->units, known->unit[0] ? known->unit : "-");
    add_unique_word(g->stages, sizeof g->stages, known->stage);
    g->moving += known->affects_state;
    g->numbers++;
}

// The group of this name (and, unless NULL, shape); UINT32_MAX after saying that there is no memory.
static uint32_t find_group(groups* g, const char* name, size_t size, const group* shape) {
    group added = {.parent = UINT32_MAX};
    if (shape) {
        added.rank = shape->rank;
        memcpy(added.shape, shape->shape, sizeof added.shape);
        memcpy(added.parts, shape->parts, sizeof added.parts);
    }
    char key[1300];
    snprintf(key, sizeof key, "%.*s [%u %u %u] %s", (int)size, name, added.rank, added.shape[0],
             added.shape[1], added.parts);
    uint32_t number = map_find(g->map, key);
    if (number != UINT32_MAX) return number;

    added.name = cli_pool_format(&g->pool, "%.*s", (int)size, name);
    if (!added.name || !map_add(&g->map, key, g->count)) return UINT32_MAX;
    if (g->count == g->capacity && !cli_grow((void**)&g->list, &g->capacity, sizeof *g->list)) {
        return UINT32_MAX;
    }
    g->list[g->count] = added;
    return g->count++;
}

// An observation and its place in the order of the step.
typedef struct entry {
    uint32_t place, number;
} entry;

static int compare_places(const void* a, const void* b) {
    const entry *x = a, *y = b;
    if (x->place != y->place) return x->place < y->place ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

// Bytes of the name of a network's output without what distinguishes the numbers of its target, which
// its name ends in.
static size_t output_group_size(const facts* f, const ns_system* system, const entry* output) {
    size_t size = strlen(ns_system_observation_name(system, output->number));
    const char* target = ns_system_observation_target(system, output->number, NULL);
    const knowledge* known = target ? recall(f, target) : NULL;
    return known ? size - (strlen(target) - strlen(known->group)) : size;
}

// The group of every observation, into group_of (ny); parameters, which have a list of their own, are
// in none.
static bool group_observations(groups* g, const cli_model* model, const facts* known,
                               const ns_system* system, const entry* order, uint32_t* group_of) {
    for (uint32_t k = 0; k < ns_system_get_sizes(system).ny; k++) {
        const char* name = ns_system_observation_name(system, order[k].number);
        group_of[k] = UINT32_MAX;
        if (ns_model_find_param(model->model, name) != UINT32_MAX) continue;

        // All numbers of a quantity share a group.
        knowledge fact = know(known, system, order[k].number);
        size_t size = fact.group ? strlen(fact.group) : output_group_size(known, system, &order[k]);
        group_of[k] = find_group(g, name, size, NULL);
        if (group_of[k] == UINT32_MAX) return false;

        // Collect unit, stage and shape of the group.
        group* found = &g->list[group_of[k]];
        add_knowledge(found, &fact);
        found->count++;
        found->rank = fact.rank;
        found->family = fact.family;
        found->object = fact.object;
        for (uint32_t r = 0; r < fact.rank; r++) {
            if (fact.index[r] >= found->shape[r]) found->shape[r] = fact.index[r] + 1;
        }

        // Components are listed by name.
        if (!fact.component[0]) continue;
        size_t used = strlen(found->parts);
        snprintf(found->parts + used, sizeof found->parts - used, "%s%s", used ? " " : "",
                 fact.component);
    }
    return true;
}

// A shorter list: link/foot/pose and link/hand/pose are both link/*/pose, all points of contact
// contact/*/*/depth.
static bool merge_groups(groups* from, groups* to) {
    for (uint32_t k = 0; k < from->count; k++) {
        group* g = &from->list[k];
        const char* name = g->family ? g->family : g->name;
        g->parent = find_group(to, name, strlen(name), g);
        if (g->parent == UINT32_MAX) return false;

        // Merge units, stages and counts.
        group* merged = &to->list[g->parent];
        merged->object = g->object;
        if (merged->count++ == 0) merged->member = g->name;
        for (char* unit = g->units; *unit; unit += strspn(unit, ", ")) {
            char word[64];
            size_t size = strcspn(unit, ",");
            snprintf(word, sizeof word, "%.*s", (int)size, unit);
            add_unique_word(merged->units, sizeof merged->units, word);
            unit += size;
        }
        add_unique_word(merged->stages, sizeof merged->stages, g->stages);
        merged->moving += g->moving;
        merged->numbers += g->numbers;
    }
    return true;
}

static void free_groups(groups* g) {
    free(g->list);
    json_decref(g->map);
    cli_pool_free(&g->pool);
}

// All of a model's quantities.
typedef struct catalog {
    const ns_system* system;
    facts facts;
    uint32_t ny;
    entry* order;       // (ny) observations in the order of the step
    uint32_t* group_of; // (ny) in `fine`
    groups fine;        // link/foot/pose
    groups coarse;      // link/*/pose
} catalog;

static bool catalog_create(catalog* c, const cli_model* model, const cli_contact* contact,
                           const ns_system* system) {
    *c = (catalog){.system = system, .ny = ns_system_get_sizes(system).ny};
    if (!collect_facts(&c->facts, model, contact)) return false;
    c->order = calloc((size_t)c->ny + 1, sizeof *c->order);
    c->group_of = calloc((size_t)c->ny + 1, sizeof *c->group_of);
    for (uint32_t k = 0; k < c->ny && c->order; k++) {
        c->order[k] = (entry){know(&c->facts, system, k).place, k};
    }
    if (c->order) qsort(c->order, c->ny, sizeof *c->order, compare_places);
    if (!c->order || !c->group_of) return cli_fail("out of memory"), false;
    return group_observations(&c->fine, model, &c->facts, system, c->order, c->group_of) &&
           merge_groups(&c->fine, &c->coarse);
}

static void catalog_free(catalog* c) {
    free(c->order);
    free(c->group_of);
    free_facts(&c->facts);
    free_groups(&c->fine);
    free_groups(&c->coarse);
}

// What to show, one call for each line or entry.
typedef struct line {
    const char* name;
    const group* group; // NULL: a single number
    uint32_t count;     // of links or joints that have it
    const char *unit, *stage;
    const char* network; // can one stand there: "yes", "no", "some"
} line;
typedef void show_line(void* to, const line* l);

static line group_line(const char* name, const group* g, uint32_t count) {
    return (line){name,      g,
                  count,     g->units,
                  g->stages, g->moving == 0 ? "no" : g->moving == g->numbers ? "yes" : "some"};
}

// Without a pattern links and joints are merged; with one, groups that fit, and numbers that fit of
// those that do not. Returns how many lines there were.
static uint32_t for_each_line(const quantities_command* c, const catalog* all, bool merged,
                              show_line* show, void* to) {
    // The short list shows merged groups only.
    uint32_t shown = 0;
    uint32_t ncoarse = merged && !c->pattern && !c->all ? all->coarse.count : 0;
    for (uint32_t k = 0; k < ncoarse; k++) {
        const group* g = &all->coarse.list[k];
        line l = group_line(g->count == 1 ? g->member : g->name, g, g->count);
        show(to, &l);
        shown++;
    }
    if (ncoarse > 0 || all->fine.count == 0) return shown;

    // A matching group is shown once, at its first number.
    uint32_t next = 0; // group that comes up for the first time
    for (uint32_t k = 0; k < all->ny; k++) {
        if (all->group_of[k] == UINT32_MAX) continue;
        const group* g = &all->fine.list[all->group_of[k]];
        const char* name = ns_system_observation_name(all->system, all->order[k].number);
        if (!c->all && matches_pattern(c->pattern, g->name)) {
            if (all->group_of[k] < next) continue;
            line l = group_line(g->name, g, 1);
            show(to, &l);
            shown++;
        } else if (matches_pattern(c->pattern, name)) {
            knowledge known = know(&all->facts, all->system, all->order[k].number);
            show(to, &(line){name, NULL, 1, known.unit[0] ? known.unit : "-", known.stage,
                             known.affects_state ? "yes" : "no"});
            shown++;
        }
        if (all->group_of[k] >= next) next = all->group_of[k] + 1;
    }
    return shown;
}

// ---- for people ----------------------------------------------------------------------------

static void print_line(void* to, const line* l) {
    bool* first = to;
    if (*first) printf("%-46s  %-16s  %-12s  %s\n", "quantities", "unit", "stage", "network");
    *first = false;
    char text[1200];
    const group* g = l->group;
    if (g && g->parts[0]) {
        snprintf(text, sizeof text, "%s [%s]", l->name, g->parts);
    } else if (g && g->rank == 2) {
        snprintf(text, sizeof text, "%s [%u x %u]", l->name, g->shape[0], g->shape[1]);
    } else if (g && g->rank == 1) {
        snprintf(text, sizeof text, "%s [%u]", l->name, g->shape[0]);
    } else {
        snprintf(text, sizeof text, "%s", l->name);
    }
    printf("  %-44s  %-16s  %-12s  ", text, l->unit, l->stage);
    if (l->count > 1) {
        printf("%-7s  %u %ss\n", l->network, l->count, g->object);
    } else {
        printf("%s\n", l->network);
    }
}

// A state or control as blueprints name it: "q/7" for the state q7, "control/hip" for the control u/hip.
static const char* quantity_name(const model_io* p, bool state, uint32_t k, char* out,
                                 size_t size) {
    ns_model_sizes m = ns_model_get_sizes(p->model);
    if (state && k < m.nq) {
        snprintf(out, size, "q/%u", k);
    } else if (state && k < m.nq + m.nv) {
        snprintf(out, size, "qd/%u", k - m.nq);
    } else if (!state && k < m.nu) {
        snprintf(out, size, "control/%s", ns_model_actuator(p->model, k)->name);
    } else if (!state) {
        snprintf(out, size, "tau/%u", k - m.nu);
    } else { // motors and earlier values are no quantities of their own
        snprintf(out, size, "%s", ns_system_state_name(p->system, k));
    }
    return out;
}

// The name in blueprints and that of the column in tables.
typedef struct input_name {
    char quantity[1200];
    const char* column;
} input_name;

// False when neither fits the pattern.
static bool name_input(const quantities_command* c, const model_io* p, bool state, uint32_t k,
                       input_name* out) {
    quantity_name(p, state, k, out->quantity, sizeof out->quantity);
    out->column = state ? model_io_state_name(p, k, false) : model_io_control_name(p, k, false);
    return matches_pattern(c->pattern, out->quantity) || matches_pattern(c->pattern, out->column);
}

static uint32_t print_inputs(const quantities_command* c, const model_io* p, ns_io_kind kind) {
    bool state = kind == NS_IO_STATE;
    uint32_t shown = 0, n = state ? p->z.nx : p->z.nc;
    for (uint32_t k = 0; k < n; k++) {
        input_name name;
        if (!name_input(c, p, state, k, &name)) continue;
        if (shown++ == 0) printf(state ? "states\n" : "controls\n");
        printf("  %-12s %s\n", name.quantity, name.column);
    }
    return shown;
}

static uint32_t print_free_params(const quantities_command* c, const ns_model* model) {
    uint32_t shown = 0;
    for (uint32_t k = 0; k < ns_model_get_sizes(model).nparam && c->params; k++) {
        const ns_param* p = ns_model_param(model, k);
        if (!matches_pattern(c->pattern, p->name)) continue;
        if (shown++ == 0) printf("parameters\n");
        printf("  %-40s %g %s\n", p->name, p->value, p->unit);
    }
    return shown;
}

static int print_quantities(const quantities_command* c, const model_io* p, const catalog* all) {
    bool first = true;
    uint32_t shown = print_inputs(c, p, NS_IO_STATE) + print_inputs(c, p, NS_IO_CONTROL);
    shown += for_each_line(c, all, true, print_line, &first);
    shown += print_free_params(c, p->model);
    if (shown == 0) return cli_fail("no name in the model matches '%s'", c->pattern);
    return cli_finish();
}

// ---- for programs --------------------------------------------------------------------------

static void json_inputs(ns_json* j, const quantities_command* c, const model_io* p,
                        ns_io_kind kind) {
    bool state = kind == NS_IO_STATE;
    ns_json_open(j, state ? "states" : "controls", '[');
    for (uint32_t k = 0; k < (state ? p->z.nx : p->z.nc); k++) {
        input_name name;
        if (!name_input(c, p, state, k, &name)) continue;
        ns_json_open(j, NULL, '{');
        ns_json_text(j, "name", name.quantity);
        ns_json_text(j, "column", name.column);
        ns_json_close(j);
    }
    ns_json_close(j);
}

static void json_line(void* to, const line* l) {
    ns_json* j = to;
    const group* g = l->group;
    ns_json_open(j, NULL, '{');
    ns_json_text(j, "name", l->name);
    ns_json_open(j, "shape", '[');
    for (uint32_t r = 0; g && r < g->rank; r++) ns_json_count(j, NULL, g->shape[r]);
    if (g && g->parts[0]) ns_json_count(j, NULL, g->count);
    ns_json_close(j);
    if (g && g->parts[0]) ns_json_text(j, "components", g->parts);
    ns_json_text(j, "unit", l->unit);
    ns_json_text(j, "stage", l->stage);
    ns_json_text(j, "network", l->network);
    ns_json_close(j);
}

static int print_quantities_json(const quantities_command* c, const model_io* p,
                                 const catalog* all) {
    ns_json* j = ns_json_create(NULL);
    json_inputs(j, c, p, NS_IO_STATE);
    json_inputs(j, c, p, NS_IO_CONTROL);
    ns_json_open(j, "quantities", '[');
    for_each_line(c, all, false, json_line, j);
    ns_json_close(j);
    if (c->params) {
        ns_json_open(j, "parameters", '[');
        for (uint32_t k = 0; k < p->n.nparam; k++) {
            const char* name = ns_model_param(p->model, k)->name;
            if (matches_pattern(c->pattern, name)) ns_json_text(j, NULL, name);
        }
        ns_json_close(j);
    }
    return cli_print_json(j);
}

int cmd_quantities(int argc, char** argv) {
    quantities_command c = {.contact = CLI_CONTACT_DEFAULT,
                            .load.options = ns_default_load_options()};
    const cli_row rows[] = {{"--all", CLI_FLAG, &c.all, NULL},
                            {"--params", CLI_FLAG, &c.params, NULL},
                            {"--json", CLI_FLAG, &c.json, NULL},
                            CLI_CONTACT_ROWS(c.contact),
                            CLI_NETWORK_ROWS(c.networks),
                            CLI_LOAD_ROWS(c.load),
                            {0}};

    // Validate the arguments before the model is loaded.
    cli_list arguments = {.count = 0};
    int code = cli_parse("quantities", help, rows, argc, argv, &arguments);
    if (code != CLI_GO_ON) return code;
    if (arguments.count == 0) return cli_usage("quantities", "no MODEL given");
    if (arguments.count > 2) return cli_usage("quantities", "one PATTERN at a time");
    if (arguments.count == 2) c.pattern = arguments.items[1];

    // Quantities depend on contact law and networks, so they are listed from a system.
    cli_model model;
    bool loaded = cli_model_load(arguments.items[0], &c.load, &c.networks, &model);
    ns_system* system = loaded ? quantity_system(&model, &c.contact) : NULL;
    model_io p = {0};
    catalog all = {0};
    code = EXIT_FAILED;
    if (system && model_io_create(&p, &model, system) &&
        catalog_create(&all, &model, &c.contact, system)) {
        code = c.json ? print_quantities_json(&c, &p, &all) : print_quantities(&c, &p, &all);
    }

    catalog_free(&all);
    model_io_free(&p);
    ns_system_free(system);
    cli_model_free(&model);
    return code;
}
