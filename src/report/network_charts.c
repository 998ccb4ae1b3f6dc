// Sets of weights with their names.

#include "report/network_charts.h"

#include "nn/binding.h"

typedef struct maker {
    nsi_arena* arena;
    bool failed; // out of memory
} maker;

// ---- names ---------------------------------------------------------------------------------

static const char* keep_name(maker* m, nsi_text_builder* b) {
    char* kept = b->failed ? NULL : nsi_arena_string(m->arena, b->text.data, b->text.count);
    nsi_array_free(&b->allocator, &b->text);
    *b = (nsi_text_builder){.allocator = b->allocator};
    if (!kept) m->failed = true;
    return kept ? kept : "";
}

static uint32_t part_count(const char* name) {
    uint32_t count = 1;
    for (; *name; name++) count += *name == '/';
    return count;
}

// A name for what is called `a` in one use of a network and `b` in another: with * for the parts
// that differ.
static const char* common_name(maker* m, const char* a, const char* b) {
    if (strcmp(a, b) == 0 || part_count(a) != part_count(b)) return a;
    nsi_text_builder text = {.allocator = m->arena->allocator};
    for (;;) {
        size_t n = strcspn(a, "/"), k = strcspn(b, "/");
        bool same = n == k && memcmp(a, b, n) == 0;
        nsi_text_add_bytes(&text, same ? a : "*", same ? n : 1);
        if (!a[n]) return keep_name(m, &text);
        nsi_text_add(&text, "/");
        a += n + 1, b += k + 1;
    }
}

static const char** new_names(maker* m, uint32_t count) {
    const char** names = nsi_arena_alloc(m->arena, ((size_t)count + 1) * sizeof *names);
    if (!names) m->failed = true;
    return names;
}

// Names of inputs (or outputs) of a set of weights, over all uses of it. NULL when out of memory.
static const char** port_names(maker* m, const nsi_binding* binding, uint32_t set, bool inputs) {
    const nsi_binding_set* s = &binding->sets[set];
    uint32_t count = inputs ? s->ninput : s->noutput;
    const char** names = new_names(m, count);
    for (uint32_t k = 0; names && k < count; k++) {
        names[k] = NULL;
        uint32_t lag = 0;
        for (uint32_t u = 0; u < binding->ninstance; u++) {
            const nsi_network_instance* use = &binding->instances[u];
            if (use->set != set) continue;
            const char* name = inputs ? use->inputs[k].name : use->outputs[k];
            lag = inputs ? use->inputs[k].lag : 0;
            names[k] = names[k] ? common_name(m, names[k], name) : name;
        }
        if (lag == 0) continue;
        nsi_text_builder text = {.allocator = m->arena->allocator};
        if (lag == 1) nsi_text_add(&text, "prev:%s", names[k]);
        if (lag > 1) nsi_text_add(&text, "%s, %u steps before", names[k], lag);
        names[k] = keep_name(m, &text);
    }
    return names;
}

// Names of what the last layer gives: the outputs, or what they are made of.
static const char** last_names(maker* m, const ns_network_def* def, uint32_t columns,
                               const char** outputs) {
    bool dissipative = def->structure & NS_STRUCTURE_DISSIPATIVE,
         conservative = def->structure & NS_STRUCTURE_CONSERVATIVE;
    if (!dissipative && !conservative) return outputs;
    const char** names = new_names(m, columns);
    nsi_text_builder text = {.allocator = m->arena->allocator};
    for (uint32_t k = 0, i = 0, j = 0; names && k < columns; k++) {
        if (conservative) nsi_text_add(&text, "potential V");
        if (dissipative) nsi_text_add(&text, "L %u,%u", i + 1, j + 1); // lower triangle, by rows
        names[k] = keep_name(m, &text);
        if (j++ == i) i++, j = 0;
    }
    return names;
}

const char* const* nsi_weights_inputs(const ns_system* system, uint32_t set, nsi_arena* arena) {
    maker m = {.arena = arena};
    const char** names = port_names(&m, system->binding, set, true);
    return m.failed ? NULL : names;
}

// ---- notes ---------------------------------------------------------------------------------

static const char* make_use_note(maker* m, const nsi_binding* binding, uint32_t set,
                                 const char** outputs) {
    const nsi_binding_set* s = &binding->sets[set];
    const ns_network_def* def = ns_blueprint_network(binding->blueprint, s->network);
    static const char* const modes[] = {"adds to", "replaces", "scales"};
    nsi_text_builder text = {.allocator = m->arena->allocator};
    if (def->structure & NS_STRUCTURE_DISSIPATIVE) nsi_text_add(&text, "-L L' v ");
    if (def->structure & NS_STRUCTURE_CONSERVATIVE) nsi_text_add(&text, "-gradient of V ");
    nsi_text_add(&text, "%s ", modes[def->mode]);
    for (uint32_t k = 0; k < s->noutput && k < 3; k++) {
        nsi_text_add(&text, "%s%s", k > 0 ? ", " : "", outputs[k]);
    }
    if (s->noutput > 3) nsi_text_add(&text, " and %u more", s->noutput - 3);
    return keep_name(m, &text);
}

static const char* make_size_note(maker* m, const nsi_binding* binding, uint32_t set) {
    const nsi_binding_set* s = &binding->sets[set];
    const ns_network_def* def = ns_blueprint_network(binding->blueprint, s->network);
    uint32_t uses = 0;
    for (uint32_t u = 0; u < binding->ninstance; u++) uses += binding->instances[u].set == set;
    nsi_text_builder text = {.allocator = m->arena->allocator};
    nsi_text_add(&text, "%u weights", s->count);
    if (uses > 1) nsi_text_add(&text, ", shared by %u", uses);
    for (uint32_t k = 0; k < ns_structures.count; k++) {
        bool holds = (def->structure & (unsigned)ns_structures.items[k].value) != 0;
        if (holds) nsi_text_add(&text, ", %s", ns_structures.items[k].name);
    }
    return keep_name(m, &text);
}

// ---- the chart -----------------------------------------------------------------------------

// Name of a node: of an input or output, or "tanh 3".
static const char* node_name(maker* m, const ns_network_diagram* p, uint32_t layer, uint32_t node,
                             bool bias) {
    if (bias) return "1";
    if (layer == 0) return p->inputs[node];
    if (layer == p->nlayer) return p->outputs[node];
    nsi_text_builder text = {.allocator = m->arena->allocator};
    nsi_text_add(&text, "%s %u", p->layers[layer - 1].heading, node + 1);
    return keep_name(m, &text);
}

// One row for each weight.
static void fill_table(maker* m, const ns_network_diagram* p, nsi_figures* charts,
                       ns_figure* chart) {
    // Count the weights, and find the widest layer.
    uint32_t count = 0, most = 1;
    for (uint32_t k = 0; k < p->nlayer; k++) {
        const ns_network_diagram_layer* l = &p->layers[k];
        count += l->rows * l->columns;
        most = l->rows > most ? l->rows : most;
        most = l->columns > most ? l->columns : most;
    }

    // Memory belongs to the figure.
    ns_figure_column* columns = nsi_figure_table(charts, chart, 4, count);
    double* layers = nsi_figures_zeros(charts, count, sizeof *layers);
    double* weights = nsi_figures_zeros(charts, count, sizeof *weights);
    const char** from = nsi_figures_zeros(charts, count, sizeof *from);
    const char** to = nsi_figures_zeros(charts, count, sizeof *to);
    const char** names = new_names(m, most);
    // The caller checks once, after several steps.
    if (!columns || !layers || !weights || !from || !to || !names) {
        m->failed = true;
        return;
    }

    // One row per weight, layer by layer.
    for (uint32_t k = 0, row = 0; k < p->nlayer; k++) {
        const ns_network_diagram_layer* l = &p->layers[k];
        // Names of the nodes that this layer leads to.
        for (uint32_t i = 0; i < l->columns; i++) names[i] = node_name(m, p, k + 1, i, false);
        for (uint32_t j = 0; j < l->rows; j++) {
            // The last row of a layer holds its biases.
            const char* source = node_name(m, p, k, j, l->bias && j + 1 == l->rows);
            for (uint32_t i = 0; i < l->columns; i++, row++) {
                // Weights are stored input by output.
                layers[row] = k + 1;
                from[row] = source;
                to[row] = names[i];
                weights[row] = l->weights[(size_t)j * l->columns + i];
            }
        }
    }

    // Columns of the table: layer, connection, weight.
    columns[0] = (ns_figure_column){.name = "layer", .numbers = layers};
    columns[1] = (ns_figure_column){.name = "from", .texts = from};
    columns[2] = (ns_figure_column){.name = "to", .texts = to};
    columns[3] = (ns_figure_column){.name = "weight", .numbers = weights};
}

ns_status nsi_weights_add_figure(const ns_system* system, uint32_t set, const double* weights,
                                 const char* when, nsi_figures* charts, ns_error* error) {
    // All names belong to the figure.
    maker m = {.arena = &charts->arena};
    const nsi_binding* binding = system->binding;
    const nsi_binding_set* s = &binding->sets[set];
    // Formulas have no layers to draw.
    if (s->formula != NSI_NONE) return NS_OK;
    const ns_network_def* def = ns_blueprint_network(binding->blueprint, s->network);
    // Shape of the network, and names at both ends.
    nsi_layer shapes[NSI_MAX_LAYERS];
    uint32_t nlayer = nsi_network_layers(def, s->ninput, s->noutput, shapes);
    ns_network_diagram_layer* layers = nsi_figures_zeros(charts, nlayer, sizeof *layers);
    const char** inputs = port_names(&m, binding, set, true);
    const char** outputs = port_names(&m, binding, set, false);
    const char** last = outputs ? last_names(&m, def, shapes[nlayer - 1].columns, outputs) : NULL;
    // Titles say whether weights are before or after training.
    const char** notes = new_names(&m, 2);
    const char *gap = when ? ", " : "", *line = when ? "_" : "", *which = when ? when : "";
    const char* title = nsi_figures_text(charts, "Network %s%s%s", s->name, gap, which);
    const char* name = nsi_figures_text(charts, "network_%s%s%s", s->name, line, which);
    const char* heading = nsi_figures_text(charts, "%s%s%s", s->name, gap, which);
    if (!layers || !inputs || !last || !notes || !title || !name || !heading) {
        return nsi_fail_nomem(error);
    }

    // Layers refer to the weights of this set.
    for (uint32_t k = 0; k < nlayer; k++) {
        const nsi_layer* from = &shapes[k];
        layers[k] = (ns_network_diagram_layer){
            .weights = weights + s->offset + from->offset,
            .rows = from->rows,
            .columns = from->columns,
            .bias = from->bias,
            .heading = k + 1 < nlayer ? ns_activation_name(def->activation) : "outputs"};
    }

    // Notes: where the network is used, and how large it is.
    notes[0] = make_use_note(&m, binding, set, outputs);
    notes[1] = make_size_note(&m, binding, set);

    // The diagram, and the same numbers as a table.
    ns_figure* chart = nsi_figures_add(charts, NS_FIGURE_NETWORK, name, title);
    if (!chart) return nsi_fail_nomem(error);
    chart->as.network = (ns_network_diagram){.title = heading,
                                             .notes = notes,
                                             .nnote = 2,
                                             .layers = layers,
                                             .nlayer = nlayer,
                                             .inputs = inputs,
                                             .outputs = last};

    fill_table(&m, &chart->as.network, charts, chart);
    return m.failed ? nsi_fail_nomem(error) : NS_OK;
}
