// Networks as SVG, after figure 10 of the NeuralSim paper (Heiden et al. 2021).

#include "report/network_diagram.h"

#include "report/html.h"

#include <math.h>

// Lengths are in pixels of a drawing that is not scaled.
static const double MARGIN = 20.0;
static const double LINE = 18.0;                 // from a line of text to the next
static const double FONT = 12.0;                 // size
static const double TITLE = 17.0;                // of the title: of 15, and bold, which is wider
static const double LETTER = 7.3;                // width of a letter at that size, rather too much
static const double SPACING = 24.0;              // between nodes
static const double RADIUS = 8.0;                // of a node
static const double WIDEST = 4.0;                // line
static const double GAP = 190.0;                 // between columns,
static const double WIDE_GAP = 380.0;            // next to one with small nodes
static const double LEAST_OPACITY = 0.1;         // of a weight near zero
enum { LONGEST_LABEL = 64, LONGEST_NOTE = 120 }; // characters; longer ones lose their middle

// ---- text ----------------------------------------------------------------------------------

static void add_attribute(nsi_text_builder* b, const char* name, double value) {
    nsi_text_add(b, " %s=\"%s\"", name, nsi_html_length(value).text);
}

static const char* skip_characters(const char* text, uint32_t count) {
    uint32_t code;
    for (; *text && count > 0; count--) text += nsi_format_next(text, &code);
    return text;
}

// A text that is short enough for a picture; a long one can be read by pointing at it.
static void add_label(nsi_text_builder* b, const char* text, uint32_t longest) {
    uint32_t count = 0, code, half = longest / 2;
    for (const char* c = text; *c; c += nsi_format_next(c, &code)) count++;
    if (count <= longest) {
        nsi_html_text(b, text);
        return;
    }
    nsi_text_add(b, "<title>");
    nsi_html_text(b, text);
    nsi_text_add(b, "</title>");
    nsi_html_text_part(b, text, skip_characters(text, half - 1));
    nsi_text_add(b, "\xe2\x80\xa6"); // an ellipsis
    nsi_html_text(b, skip_characters(text, count - half));
}

// Of a text or what is left of it.
static double label_width(const char* text, uint32_t longest) {
    uint32_t count = 0, code;
    for (const char* c = text; *c; c += nsi_format_next(c, &code)) count++;
    double width = FONT / 10.0 * nsi_html_width(text);
    return count > longest ? width * (longest + 1) / count : width;
}

static void open_text(nsi_text_builder* b, const char* class, double x, double y, double size) {
    nsi_text_add(b, "<text");
    if (class) nsi_text_add(b, " class=\"%s\"", class);
    add_attribute(b, "x", x);
    add_attribute(b, "y", y);
    if (size < FONT) {
        nsi_text_add(b, " style=\"font-size: %spx\"", nsi_html_length(size).text);
    }
    nsi_text_add(b, ">");
}

static void close_text(nsi_text_builder* b) {
    nsi_text_add(b, "</text>\n");
}

// ---- layout --------------------------------------------------------------------------------

// The nodes of one layer that are drawn, in order.
typedef struct column {
    uint32_t count; // nodes there are, without the bias
    uint32_t drawn;
    uint32_t* node; // (drawn) their numbers
    bool bias;      // drawn below them
    double x, top;  // of the first node
    double spacing, radius;
} column;

typedef struct drawing {
    const ns_network_diagram* network;
    nsi_text_builder* text;
    column* columns;  // (nlayer + 1)
    double* largest;  // (nlayer) |weight|
    double* strength; // (most nodes of a layer)
    double left, right, top, height;
    double width_total, height_total;
} drawing;

// From the first node to the last one; the bias stands one and a half places below the others.
static double column_height(const column* c) {
    return c->spacing * ((double)c->drawn - 1.0 + (c->bias ? 1.5 : 0.0));
}

static double column_y(const column* c, uint32_t place) {
    return c->top + c->spacing * place;
}

static double weight_size(const drawing* d, uint32_t layer, uint32_t row, uint32_t to) {
    const ns_network_diagram_layer* l = &d->network->layers[layer];
    double largest = d->largest[layer];
    return largest > 0.0 ? fabs(l->weights[(size_t)row * l->columns + to]) / largest : 0.0;
}

// What all weights at a node amount to, each relative to the largest of its layer.
static void find_strength(const drawing* d, uint32_t number) {
    const ns_network_diagram* n = d->network;
    const column* c = &d->columns[number];
    for (uint32_t i = 0; i < c->count; i++) d->strength[i] = 0.0;
    if (number > 0) {
        for (uint32_t j = 0; j < n->layers[number - 1].rows; j++) {
            for (uint32_t i = 0; i < c->count; i++) {
                d->strength[i] += weight_size(d, number - 1, j, i);
            }
        }
    }
    for (uint32_t i = 0; number < n->nlayer && i < c->count; i++) {
        for (uint32_t to = 0; to < n->layers[number].columns; to++) {
            d->strength[i] += weight_size(d, number, i, to);
        }
    }
}

// Choose the nodes of a column: all, or the strongest; among equals the first.
static void choose_nodes(const drawing* d, uint32_t number) {
    column* c = &d->columns[number];
    if (c->drawn == c->count) {
        for (uint32_t i = 0; i < c->count; i++) c->node[i] = i;
        return;
    }
    find_strength(d, number);
    for (uint32_t k = 0; k < c->drawn; k++) {
        uint32_t best = 0;
        for (uint32_t i = 1; i < c->count; i++) {
            if (d->strength[i] > d->strength[best]) best = i;
        }
        d->strength[best] = -1.0;
    }
    for (uint32_t i = 0, k = 0; i < c->count && k < c->drawn; i++) {
        if (d->strength[i] == -1.0) c->node[k++] = i;
    }
}

static double widest_label(const column* c, const char* const* names) {
    double width = 0.0;
    for (uint32_t k = 0; k < c->drawn; k++) {
        width = fmax(width, label_width(names[c->node[k]], LONGEST_LABEL));
    }
    return width;
}

// Sizes and places of everything.
static void diagram_lay_out(drawing* d) {
    const ns_network_diagram* n = d->network;
    column *first = &d->columns[0], *last = &d->columns[n->nlayer];

    // Nodes of large layers are drawn smaller, so that the diagram stays readable.
    d->height = 0.0;
    for (uint32_t k = 0; k <= n->nlayer; k++) {
        column* c = &d->columns[k];
        double shrink =
            c->drawn > NSI_NETWORK_FULL_SIZE ? (double)NSI_NETWORK_FULL_SIZE / c->drawn : 1.0;
        c->spacing = SPACING * shrink;
        c->radius = RADIUS * shrink;
        // The tallest column determines the height.
        d->height = fmax(d->height, column_height(c));
    }

    // Columns side by side, centred vertically; the left margin holds input labels.
    d->left = MARGIN + widest_label(first, n->inputs) + 2.0 * RADIUS;
    d->top = 2.0 * MARGIN + LINE * (n->nnote + 2.5);
    double x = d->left;
    for (uint32_t k = 0; k <= n->nlayer; k++) {
        column* c = &d->columns[k];
        bool small = c->drawn > NSI_NETWORK_FULL_SIZE;
        // Dense layers need more room for their many lines.
        if (k > 0) x += small || d->columns[k - 1].drawn > NSI_NETWORK_FULL_SIZE ? WIDE_GAP : GAP;
        c->x = x;
        c->top = d->top + (d->height - column_height(c)) / 2.0;
    }

    // Wide enough for the network and the longest line of text.
    d->width_total = x + widest_label(last, n->outputs) + 2.0 * RADIUS + MARGIN;
    d->width_total = fmax(d->width_total, 62 * LETTER + 2.0 * MARGIN); // the legend
    double title = TITLE / FONT * label_width(n->title, LONGEST_LABEL);
    d->width_total = fmax(d->width_total, title + 2.0 * MARGIN);
    // Notes may be longer than the network is wide.
    for (uint32_t k = 0; k < n->nnote; k++) {
        d->width_total =
            fmax(d->width_total, label_width(n->notes[k], LONGEST_NOTE) + 2.0 * MARGIN);
    }
    // Room for captions below.
    d->height_total = d->top + d->height + LINE * 5.0 + MARGIN;
}

// ---- drawing -------------------------------------------------------------------------------

static void draw_weights(drawing* d, uint32_t layer) {
    nsi_text_builder* b = d->text;
    const ns_network_diagram_layer* l = &d->network->layers[layer];
    const column *from = &d->columns[layer], *to = &d->columns[layer + 1];
    // Lines are thinner where nodes are smaller.
    double widest = fmin(WIDEST, fmin(from->radius, to->radius) * WIDEST / RADIUS);
    nsi_text_add(b, "<g class=\"layer\">\n");

    // One line per weight, from a node or the bias.
    for (uint32_t j = 0; j < from->drawn + from->bias; j++) {
        bool bias = j == from->drawn;
        uint32_t row = bias ? from->count : from->node[j];
        // The bias is drawn below the nodes.
        double y = bias ? column_y(from, j) + from->spacing / 2.0 : column_y(from, j);
        for (uint32_t i = 0; i < to->drawn; i++) {
            // Width and opacity show the magnitude, colour the sign.
            double size = weight_size(d, layer, row, to->node[i]);
            double weight = l->weights[(size_t)row * l->columns + to->node[i]];
            nsi_text_add(b, "<line class=\"%s\"", weight < 0.0 ? "n" : "p");
            add_attribute(b, "x1", from->x);
            add_attribute(b, "y1", y);
            add_attribute(b, "x2", to->x);
            add_attribute(b, "y2", column_y(to, i));
            add_attribute(b, "stroke-width", widest * size);
            add_attribute(b, "stroke-opacity", LEAST_OPACITY + (1.0 - LEAST_OPACITY) * size);
            nsi_text_add(b, "/>\n");
        }
    }
    nsi_text_add(b, "</g>\n");

    // Caption: the scale of this layer.
    open_text(b, "m faint", (from->x + to->x) / 2.0, d->top + d->height + LINE * 2.0, FONT);
    nsi_text_add(b, "largest |w| %s", nsi_format_short(d->largest[layer], 3).text);
    close_text(b);
}

static void draw_circle(nsi_text_builder* b, const column* c, double y, bool bias) {
    nsi_text_add(b, "<circle%s", bias ? " class=\"bias\"" : "");
    add_attribute(b, "cx", c->x);
    add_attribute(b, "cy", y);
    add_attribute(b, "r", c->radius);
    add_attribute(b, "stroke-width", fmin(1.0, c->radius / 4.0));
    nsi_text_add(b, "/>\n");
}

// The nodes of a layer, with names (of all nodes) on their left or right, or NULL.
static void draw_column(drawing* d, const column* c, const char* heading, const char* const* names,
                        bool left) {
    nsi_text_builder* b = d->text;
    // Labels shrink with the nodes.
    double size = fmin(FONT, 0.9 * c->spacing), lower = 0.35 * size;

    // Nodes with their labels.
    for (uint32_t k = 0; k < c->drawn; k++) {
        draw_circle(b, c, column_y(c, k), false);
        if (!names) continue;
        // Labels are outside the network.
        double off = c->radius + 0.5 * RADIUS;
        open_text(b, left ? "e" : NULL, left ? c->x - off : c->x + off, column_y(c, k) + lower,
                  size);
        add_label(b, names[c->node[k]], LONGEST_LABEL);
        close_text(b);
    }

    // The bias is a node with the constant 1.
    if (c->bias) {
        double y = column_y(c, c->drawn) + c->spacing / 2.0;
        draw_circle(b, c, y, true);
        open_text(b, "m", c->x, y + lower, fmin(size, 1.4 * c->radius));
        nsi_text_add(b, "1");
        close_text(b);
    }

    // Heading: number of nodes and activation.
    open_text(b, "m faint", c->x, d->top - 1.2 * LINE, FONT);
    nsi_text_add(b, "%u ", c->count);
    nsi_html_text(b, heading);
    close_text(b);

    // Large layers show only their strongest nodes, and say so.
    if (c->drawn == c->count) return;
    open_text(b, "m faint", c->x, d->top + d->height + LINE, FONT);
    nsi_text_add(b, "%u strongest of %u", c->drawn, c->count);
    close_text(b);
}

// What lines and circles mean. Samples are paths: lines are weights.
static void draw_legend(drawing* d) {
    nsi_text_builder* b = d->text;
    double y = d->top + d->height + LINE * 3.5, x = MARGIN;
    static const char* const names[2] = {"positive weight", "negative weight"};
    for (int k = 0; k < 2; k++) {
        nsi_text_add(b, "<path class=\"%s\" stroke-width=\"3\" d=\"M%s %sh28\"/>\n",
                     k == 0 ? "p" : "n", nsi_html_length(x).text, nsi_html_length(y - 4.0).text);
        open_text(b, NULL, x + 34.0, y, FONT);
        nsi_text_add(b, "%s", names[k]);
        close_text(b);
        x += 34.0 + LETTER * 18.0;
    }
    open_text(b, NULL, x, y, FONT);
    nsi_text_add(b, "dashed: bias");
    close_text(b);
    open_text(b, "faint", MARGIN, y + LINE, FONT);
    nsi_text_add(b, "width and opacity: |w| relative to the largest of the same layer");
    close_text(b);
}

static void diagram_draw(drawing* d) {
    const ns_network_diagram* n = d->network;
    nsi_text_builder* b = d->text;
    nsi_html_open_picture(b, "network", n->title, d->width_total, d->height_total);
    open_text(b, "title", MARGIN, MARGIN + FONT, FONT);
    add_label(b, n->title, LONGEST_LABEL);
    close_text(b);
    for (uint32_t k = 0; k < n->nnote; k++) {
        open_text(b, "faint", MARGIN, MARGIN + FONT + LINE * (k + 1), FONT);
        add_label(b, n->notes[k], LONGEST_NOTE);
        close_text(b);
    }
    for (uint32_t k = 0; k < n->nlayer; k++) draw_weights(d, k);
    for (uint32_t k = 0; k <= n->nlayer; k++) {
        const char* heading = k == 0 ? "inputs" : n->layers[k - 1].heading;
        const char* const* names = k == 0 ? n->inputs : k == n->nlayer ? n->outputs : NULL;
        draw_column(d, &d->columns[k], heading, names, k == 0);
    }
    draw_legend(d);
    nsi_html_close_picture(b);
}

// ---- all of it -----------------------------------------------------------------------------

static ns_status diagram_find_largest(const ns_network_diagram* n, double* largest,
                                      ns_error* error) {
    for (uint32_t k = 0; k < n->nlayer; k++) {
        const ns_network_diagram_layer* l = &n->layers[k];
        largest[k] = 0.0;
        for (size_t i = 0; i < (size_t)l->rows * l->columns; i++) {
            if (!isfinite(l->weights[i])) {
                return nsi_fail(error, NS_ERR_NONFINITE, "layer %u: weight %zu is %g", k, i,
                                l->weights[i]);
            }
            largest[k] = fmax(largest[k], fabs(l->weights[i]));
        }
    }
    return NS_OK;
}

ns_status nsi_network_diagram_draw(nsi_text_builder* b, const ns_network_diagram* n,
                                   ns_error* error) {
    // One column of nodes more than layers.
    ns_allocator memory = b->allocator;
    drawing d = {.network = n, .text = b};
    uint32_t most = 1;
    d.columns = nsi_alloc_zeroed(&memory, ((size_t)n->nlayer + 1) * sizeof *d.columns);
    d.largest = nsi_alloc_zeroed(&memory, ((size_t)n->nlayer + 1) * sizeof *d.largest);
    bool ok = d.columns && d.largest;

    // Inputs of each layer, and the outputs at the end.
    for (uint32_t k = 0; ok && k <= n->nlayer; k++) {
        column* c = &d.columns[k];
        // Outputs have no bias.
        c->bias = k < n->nlayer && n->layers[k].bias;
        c->count = k < n->nlayer ? n->layers[k].rows - c->bias : n->layers[k - 1].columns;
        // Large layers are reduced to their strongest nodes.
        c->drawn = c->count > NSI_NETWORK_MAX ? NSI_NETWORK_STRONGEST : c->count;
        c->node = nsi_alloc_zeroed(&memory, ((size_t)c->drawn + 1) * sizeof *c->node);
        if (c->count > most) most = c->count;
        ok = c->node != NULL;
    }

    // Scratch for the ranking of nodes, for the widest layer.
    d.strength = ok ? nsi_alloc_zeroed(&memory, most * sizeof *d.strength) : NULL;
    ok = ok && d.strength;

    // Normalise the weights, choose nodes, lay out, draw.
    ns_status status = ok ? diagram_find_largest(n, d.largest, error) : nsi_fail_nomem(error);
    if (status == NS_OK) {
        for (uint32_t k = 0; k <= n->nlayer; k++) choose_nodes(&d, k);
        diagram_lay_out(&d);
        diagram_draw(&d);
        // Text errors are collected and reported once.
        if (b->failed) status = nsi_fail_nomem(error);
    }

    for (uint32_t k = 0; d.columns && k <= n->nlayer; k++) nsi_free(&memory, d.columns[k].node);
    nsi_free(&memory, d.columns);
    nsi_free(&memory, d.largest);
    nsi_free(&memory, d.strength);
    return status;
}
