// neuralsim network: a picture of a network of a blueprint.

#include "cli.h"
#include "report/network_charts.h"

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
    "  --contact C       {contact}; --friction, --sweeps: as for simulate\n"
    "  -o FILE           write there instead of to standard output\n"
    "  --ground          add the plane z = 0 unless the file has a plane\n"
    "  --self-collision  links of a URDF can touch each other\n"
    "  --variant NAME    which one, of a hybrid model with variants\n"
    "  --repair-inertia  raise unphysical inertias instead of refusing the file\n"
    "\n"
    "example: the network of a swimmer's medium\n"
    "  neuralsim network models/swimmer2.xml --blueprint medium.yaml -o medium.svg\n";

typedef struct network_command {
    const char *model, *set, *output;
    cli_networks networks;
    cli_contact contact;
    ns_load_options load;
} network_command;

// ---- the picture ---------------------------------------------------------------------------

static int draw(const network_command* c, const ns_system* system, uint32_t set) {
    nsi_figures charts;
    nsi_drawing figure = {0};
    ns_text text = {0};
    ns_error error;
    nsi_figures_init(NULL, &charts);
    ns_status status = nsi_weights_add_figure(system, set, system->weights, NULL, &charts, &error);
    if (status == NS_OK) status = nsi_figure_draw(charts.list.data, NULL, &figure, &error);
    if (status == NS_OK) status = nsi_drawing_file(&figure, &text, &error);
    int code = EXIT_FAILED;
    if (status != NS_OK) {
        cli_fail("%s", error.message);
    } else if (cli_write_file(c->output, text.data, text.size)) {
        code = cli_finish();
    }
    ns_text_free(&text);
    nsi_drawing_free(&figure);
    nsi_figures_free(&charts);
    return code;
}

// ---- the command ---------------------------------------------------------------------------

// The set that is asked for, or the only one; NSI_NONE after saying which there are. Those of formulas,
// which come last, have no picture.
static uint32_t find_set(const network_command* c, const nsi_binding* binding) {
    uint32_t count = 0;
    while (binding && count < binding->nset && binding->sets[count].formula == NSI_NONE) count++;
    for (uint32_t k = count; binding && c->set && k < binding->nset; k++) {
        if (strcmp(binding->sets[k].name, c->set) != 0) continue;
        cli_fail("'%.200s' is a formula; only networks are drawn", c->set);
        return NSI_NONE;
    }
    if (count == 0) {
        cli_fail("the blueprint has no networks");
        return NSI_NONE;
    }
    if (!c->set && count == 1) return 0;
    ns_nearest near = {.wanted = c->set};
    for (uint32_t k = 0; c->set && k < count; k++) {
        if (strcmp(binding->sets[k].name, c->set) == 0) return k;
        ns_nearest_offer(&near, binding->sets[k].name);
    }
    nsi_text_builder text = {.allocator = ns_default_allocator()};
    for (uint32_t k = 0; k < count && k < 20; k++) {
        nsi_text_add(&text, " %s", binding->sets[k].name);
    }
    if (count > 20) nsi_text_add(&text, " and %u more", count - 20);
    nsi_text_add_bytes(&text, "", 1);
    const char* list = text.failed ? "" : text.text.data;
    if (c->set && ns_nearest_likely(&near)) {
        cli_fail("there is no set of weights '%.200s'; did you mean '%s'?", c->set,
                 ns_nearest_likely(&near));
    } else if (c->set) {
        cli_fail("there is no set of weights '%.200s'; there are:%s", c->set, list);
    } else {
        cli_fail("there are %u sets of weights; choose one with --set:%s", count, list);
    }
    nsi_array_free(&text.allocator, &text.text);
    return NSI_NONE;
}

static int run(const network_command* c) {
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
        if (system && !system->binding) cli_fail("the blueprint has no networks");
        if (system && system->binding) set = find_set(c, system->binding);
    }
    if (set != NSI_NONE) code = draw(c, system, set);
    ns_system_free(system);
    cli_model_free(&model);
    return code;
}

int cmd_network(int argc, char** argv) {
    network_command c = {.contact = CLI_CONTACT_DEFAULT, .load = ns_default_load_options()};
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
    return c.model ? run(&c) : EXIT_USAGE;
}
