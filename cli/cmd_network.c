// neuralsim network: a picture of a network of a blueprint.

#include "cli.h"
#include "nn/plan.h"
#include "sim/system.h"
#include "svg_network.h"

#include <stdio.h>
#include <stdlib.h>

int cmd_network(int argc, char** argv);

static const char help[] =
    "usage: neuralsim network MODEL --blueprint FILE [OPTIONS]\n"
    "\n"
    "Draws a network of a blueprint as SVG: inputs and outputs with the names of their "
    "quantities,\n"
    "a line for each weight, its width and opacity by the weight's size, its colour by the sign.\n"
    "Layers of more than 40 nodes are drawn smaller, of more than 200 only the 40 strongest "
    "nodes.\n"
    "\n"
    "  --blueprint FILE  the networks (docs/blueprint.md); not needed when MODEL is a hybrid "
    "model\n"
    "                    (.yaml) that names one\n"
    "  --weights FILE    safetensors or .json; without it the weights a network starts with\n"
    "  --set NAME        which set of weights, when there are several: the name of a network, or\n"
    "                    <network>/<match> where weights are separate\n"
    "  --contact C       none, ncp (rigid) or spring; --friction, --sweeps: as for simulate\n"
    "  -o FILE           write there instead of to standard output\n"
    "  --ground          add the plane z = 0 unless the file has a plane\n"
    "  --self-collision  links of a URDF can touch each other\n"
    "  --repair-inertia  raise unphysical inertias instead of refusing the file\n"
    "\n"
    "example: the network of a swimmer's medium\n"
    "  neuralsim network models/swimmer2.xml --blueprint medium.yaml -o medium.svg\n";

typedef struct network_command {
    const char *model, *set, *output;
    cli_networks networks;
    cli_contact contact;
    ns_load_options load;
    nsi_arena arena; // names
    bool out_of_memory;
} network_command;

// ---- names ---------------------------------------------------------------------------------

static const char* keep(network_command* c, nsi_text_builder* b) {
    char* kept = b->failed ? NULL : nsi_arena_string(&c->arena, b->text.data, b->text.count);
    nsi_array_free(&b->allocator, &b->text);
    *b = (nsi_text_builder){.allocator = b->allocator};
    if (!kept) c->out_of_memory = true;
    return kept ? kept : "";
}

static uint32_t part_count(const char* name) {
    uint32_t count = 1;
    for (; *name; name++) count += *name == '/';
    return count;
}

// A name for what is called `a` in one use of a network and `b` in another: with * for the parts
// that differ.
static const char* common_name(network_command* c, const char* a, const char* b) {
    if (strcmp(a, b) == 0 || part_count(a) != part_count(b)) return a;
    nsi_text_builder text = {.allocator = ns_default_allocator()};
    for (;;) {
        size_t n = strcspn(a, "/"), m = strcspn(b, "/");
        bool same = n == m && memcmp(a, b, n) == 0;
        nsi_text_add_bytes(&text, same ? a : "*", same ? n : 1);
        if (!a[n]) return keep(c, &text);
        nsi_text_add(&text, "/");
        a += n + 1, b += m + 1;
    }
}

// Names of inputs (or outputs) of a set of weights, over all uses of it. NULL when out of memory.
static const char** port_names(network_command* c, const nsi_plan* plan, uint32_t set,
                               bool inputs) {
    const nsi_plan_set* s = &plan->sets[set];
    uint32_t count = inputs ? s->ninput : s->noutput;
    const char** names = nsi_arena_alloc(&c->arena, ((size_t)count + 1) * sizeof *names);
    for (uint32_t k = 0; names && k < count; k++) {
        names[k] = NULL;
        uint32_t lag = 0;
        for (uint32_t u = 0; u < plan->nuse; u++) {
            const nsi_plan_use* use = &plan->uses[u];
            if (use->set != set) continue;
            const char* name = inputs ? use->inputs[k].name : use->outputs[k];
            lag = inputs ? use->inputs[k].lag : 0;
            names[k] = names[k] ? common_name(c, names[k], name) : name;
        }
        if (lag == 0) continue;
        nsi_text_builder text = {.allocator = ns_default_allocator()};
        if (lag == 1) nsi_text_add(&text, "prev:%s", names[k]);
        if (lag > 1) nsi_text_add(&text, "%s, %u steps before", names[k], lag);
        names[k] = keep(c, &text);
    }
    return names;
}

// Names of what the last layer gives: the outputs, or what they are made of.
static const char** last_names(network_command* c, const ns_network_def* def, uint32_t columns,
                               const char** outputs) {
    bool dissipative = def->guarantee & NS_GUARANTEE_DISSIPATIVE,
         conservative = def->guarantee & NS_GUARANTEE_CONSERVATIVE;
    if (!dissipative && !conservative) return outputs;
    const char** names = nsi_arena_alloc(&c->arena, ((size_t)columns + 1) * sizeof *names);
    nsi_text_builder text = {.allocator = ns_default_allocator()};
    for (uint32_t k = 0, i = 0, j = 0; names && k < columns; k++) {
        if (conservative) nsi_text_add(&text, "potential V");
        if (dissipative) nsi_text_add(&text, "L %u,%u", i + 1, j + 1); // lower triangle, by rows
        names[k] = keep(c, &text);
        if (j++ == i) i++, j = 0;
    }
    return names;
}

// ---- the picture ---------------------------------------------------------------------------

static const char* add_note(network_command* c, const nsi_plan* plan, uint32_t set,
                            const char** outputs) {
    const nsi_plan_set* s = &plan->sets[set];
    const ns_network_def* def = ns_blueprint_network(plan->blueprint, s->network);
    static const char* const modes[] = {"adds to", "replaces", "scales"};
    nsi_text_builder text = {.allocator = ns_default_allocator()};
    if (def->guarantee & NS_GUARANTEE_DISSIPATIVE) nsi_text_add(&text, "-L L' v ");
    if (def->guarantee & NS_GUARANTEE_CONSERVATIVE) nsi_text_add(&text, "-gradient of V ");
    nsi_text_add(&text, "%s ", modes[def->mode]);
    for (uint32_t k = 0; k < s->noutput && k < 3; k++) {
        nsi_text_add(&text, "%s%s", k > 0 ? ", " : "", outputs[k]);
    }
    if (s->noutput > 3) nsi_text_add(&text, " and %u more", s->noutput - 3);
    return keep(c, &text);
}

static const char* size_note(network_command* c, const nsi_plan* plan, uint32_t set) {
    const nsi_plan_set* s = &plan->sets[set];
    const ns_network_def* def = ns_blueprint_network(plan->blueprint, s->network);
    static const char* const guarantees[] = {"dissipative", "conservative", "odd", "even",
                                             "bounded"};
    uint32_t uses = 0;
    for (uint32_t u = 0; u < plan->nuse; u++) uses += plan->uses[u].set == set;
    nsi_text_builder text = {.allocator = ns_default_allocator()};
    nsi_text_add(&text, "%u weights", s->count);
    if (uses > 1) nsi_text_add(&text, ", shared by %u", uses);
    for (int k = 0; k < 5; k++) {
        if (def->guarantee & (1u << k)) nsi_text_add(&text, ", %s", guarantees[k]);
    }
    return keep(c, &text);
}

static int draw(network_command* c, const ns_system* system, uint32_t set) {
    const nsi_plan* plan = system->plan;
    const nsi_plan_set* s = &plan->sets[set];
    const ns_network_def* def = ns_blueprint_network(plan->blueprint, s->network);
    nsi_layer shapes[NSI_MAX_LAYERS];
    svg_layer layers[NSI_MAX_LAYERS];
    uint32_t nlayer = nsi_network_layers(def, s->ninput, s->noutput, shapes);
    for (uint32_t k = 0; k < nlayer; k++) {
        const nsi_layer* from = &shapes[k];
        layers[k] = (svg_layer){.weights = system->weights + s->offset + from->offset,
                                .rows = from->rows,
                                .columns = from->columns,
                                .bias = from->bias,
                                .heading = k + 1 < nlayer ? ns_activation_name(def->activation)
                                                          : "outputs"};
    }
    const char** inputs = port_names(c, plan, set, true);
    const char** outputs = port_names(c, plan, set, false);
    const char** last = outputs ? last_names(c, def, shapes[nlayer - 1].columns, outputs) : NULL;
    if (!inputs || !last || c->out_of_memory) return cli_fail("out of memory");
    const char* notes[] = {add_note(c, plan, set, outputs), size_note(c, plan, set)};
    svg_network picture = {.title = s->name,
                           .notes = notes,
                           .nnote = 2,
                           .layers = layers,
                           .nlayer = nlayer,
                           .inputs = inputs,
                           .outputs = last};
    ns_text text = {0};
    ns_error error;
    if (c->out_of_memory) return cli_fail("out of memory");
    if (svg_network_draw(&picture, &text, &error) != NS_OK) return cli_fail("%s", error.message);
    bool written = cli_write_file(c->output, text.data, text.size);
    ns_text_free(&text);
    return written ? cli_finish() : EXIT_FAILED;
}

// ---- the command ---------------------------------------------------------------------------

// The set that is asked for, or the only one; NSI_NONE after saying which there are.
static uint32_t find_set(const network_command* c, const nsi_plan* plan) {
    if (!plan || plan->nset == 0) {
        cli_fail("the blueprint has no networks");
        return NSI_NONE;
    }
    if (!c->set && plan->nset == 1) return 0;
    cli_nearest near = {.wanted = c->set};
    for (uint32_t k = 0; c->set && k < plan->nset; k++) {
        if (strcmp(plan->sets[k].name, c->set) == 0) return k;
        cli_nearest_offer(&near, plan->sets[k].name);
    }
    nsi_text_builder text = {.allocator = ns_default_allocator()};
    for (uint32_t k = 0; k < plan->nset && k < 20; k++) {
        nsi_text_add(&text, " %s", plan->sets[k].name);
    }
    if (plan->nset > 20) nsi_text_add(&text, " and %u more", plan->nset - 20);
    nsi_text_add_bytes(&text, "", 1);
    const char* list = text.failed ? "" : text.text.data;
    if (c->set && near.name && cli_nearest_is_slip(&near)) {
        cli_fail("there is no set of weights '%.200s'; did you mean '%s'?", c->set, near.name);
    } else if (c->set) {
        cli_fail("there is no set of weights '%.200s'; there are:%s", c->set, list);
    } else {
        cli_fail("there are %u sets of weights; choose one with --set:%s", plan->nset, list);
    }
    nsi_array_free(&text.allocator, &text.text);
    return NSI_NONE;
}

static int run(network_command* c) {
    cli_model model;
    ns_system* system = NULL;
    uint32_t set = NSI_NONE;
    int code = EXIT_FAILED;
    if (cli_model_load(c->model, &c->load, &c->networks, &model)) {
        ns_system_options options = ns_default_system_options();
        cli_model_apply(&model, &options);
        cli_set_contact(&c->contact, &options);
        if (model.blueprint) {
            system = cli_create_system(model.model, &options);
        } else {
            code = cli_usage("network", "no --blueprint given");
        }
        if (system && !system->plan) cli_fail("the blueprint has no networks");
        if (system && system->plan) set = find_set(c, system->plan);
    }
    if (set != NSI_NONE) code = draw(c, system, set);
    ns_system_free(system);
    cli_model_free(&model);
    return code;
}

int cmd_network(int argc, char** argv) {
    network_command c = {.contact = CLI_CONTACT_DEFAULT, .load = ns_default_load_options()};
    c.arena.allocator = ns_default_allocator();
    const cli_row rows[] = {CLI_NETWORK_ROWS(c.networks),
                            CLI_CONTACT_ROWS(c.contact),
                            {"--set", CLI_TEXT, &c.set, "the name of a set of weights"},
                            {"-o", CLI_TEXT, &c.output, "a file"},
                            CLI_LOAD_ROWS(c.load),
                            {0}};
    cli_list arguments = {.count = 0};
    int code = cli_parse("network", help, rows, argc, argv, &arguments);
    if (code != CLI_GO_ON) return code;
    c.model = cli_model_argument("network", &arguments);
    code = c.model ? run(&c) : EXIT_USAGE;
    nsi_arena_free(&c.arena);
    return code;
}
