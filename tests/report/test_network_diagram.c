// Pictures of networks, read back with expat: a circle for each node and a line for each weight, as
// wide as the weight is large; names arrive as they are; the same network gives the same bytes.

#include "base/common.h"
#include "report/network_diagram.h"
#include "support/assert.h"

#include <expat.h>
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

// ---- reading a picture ---------------------------------------------------------------------

enum { MAX_LINES = 60000, MAX_TEXT = 1 << 20 };

typedef struct drawn_line {
    double x1, y1, x2, y2, width, opacity;
    bool negative;
} drawn_line;

typedef struct picture {
    uint32_t circles, biases, lines, links;
    drawn_line line[MAX_LINES];
    char text[MAX_TEXT]; // of all elements, a line break after each
    size_t size;
} picture;

static picture seen;

static double attribute(const XML_Char** attributes, const char* name) {
    for (; *attributes; attributes += 2) {
        if (strcmp(attributes[0], name) == 0) return strtod(attributes[1], NULL);
    }
    fail_msg("no attribute %s", name);
    return NAN;
}

static void on_start(void* user, const XML_Char* name, const XML_Char** attributes) {
    picture* p = user;
    const char* class = "";
    for (const XML_Char** a = attributes; *a; a += 2) {
        if (strcmp(a[0], "class") == 0) class = a[1];
        if (strstr(a[0], "href") || strstr(a[1], "url(")) p->links++;
    }
    if (strcmp(name, "circle") == 0) {
        p->circles++;
        p->biases += strcmp(class, "bias") == 0;
        assert_true(attribute(attributes, "r") > 0.0);
    } else if (strcmp(name, "line") == 0) {
        assert_true(p->lines < MAX_LINES);
        p->line[p->lines++] = (drawn_line){attribute(attributes, "x1"),
                                           attribute(attributes, "y1"),
                                           attribute(attributes, "x2"),
                                           attribute(attributes, "y2"),
                                           attribute(attributes, "stroke-width"),
                                           attribute(attributes, "stroke-opacity"),
                                           strcmp(class, "n") == 0};
    } else {
        assert_true(strcmp(name, "image") != 0 && strcmp(name, "script") != 0);
    }
}

static void on_end(void* user, const XML_Char* name) {
    picture* p = user;
    (void)name;
    assert_true(p->size + 1 < MAX_TEXT);
    p->text[p->size++] = '\n';
}

static void on_text(void* user, const XML_Char* text, int size) {
    picture* p = user;
    assert_true(p->size + (size_t)size + 1 < MAX_TEXT);
    memcpy(p->text + p->size, text, (size_t)size);
    p->size += (size_t)size;
}

static const picture* read_picture(const char* text, size_t size) {
    memset(&seen, 0, sizeof seen);
    XML_Parser parser = XML_ParserCreate("UTF-8");
    assert_non_null(parser);
    XML_SetUserData(parser, &seen);
    XML_SetElementHandler(parser, on_start, on_end);
    XML_SetCharacterDataHandler(parser, on_text);
    if (XML_Parse(parser, text, (int)size, 1) != XML_STATUS_OK) {
        fail_msg("line %lu: %s", XML_GetCurrentLineNumber(parser),
                 XML_ErrorString(XML_GetErrorCode(parser)));
    }
    XML_ParserFree(parser);
    assert_int_equal(seen.links, 0);
    return &seen;
}

// Is this the whole text of an element?
static bool says(const picture* p, const char* text) {
    size_t size = strlen(text);
    for (const char* at = p->text; (at = strstr(at, text)) != NULL; at++) {
        if ((at == p->text || at[-1] == '\n') && at[size] == '\n') return true;
    }
    return false;
}

// ---- networks ------------------------------------------------------------------------------

enum { MAX_LAYERS = 4, MAX_WIDTH = 300 };

// A network of these widths with random weights and numbered names.
typedef struct sample {
    ns_network_diagram_layer layers[MAX_LAYERS];
    double* weights[MAX_LAYERS];
    char names[MAX_WIDTH][16];
    const char* list[MAX_WIDTH];
    ns_network_diagram network;
} sample;

static void make_sample(sample* s, const uint32_t* widths, uint32_t nlayer, bool bias) {
    ns_rng rng = ns_rng_seed(3);
    for (uint32_t k = 0; k < nlayer; k++) {
        uint32_t rows = widths[k] + bias, columns = widths[k + 1];
        s->weights[k] = malloc(sizeof(double) * rows * columns);
        assert_non_null(s->weights[k]);
        for (uint32_t i = 0; i < rows * columns; i++) {
            s->weights[k][i] = (k + 1.0) * ns_rng_uniform(&rng, -1.0, 1.0);
        }
        s->layers[k] = (ns_network_diagram_layer){s->weights[k], rows, columns, bias, "tanh"};
    }
    for (uint32_t i = 0; i < MAX_WIDTH; i++) {
        snprintf(s->names[i], sizeof s->names[i], "name%u", i);
        s->list[i] = s->names[i];
    }
    s->network = (ns_network_diagram){.title = "net",
                                      .layers = s->layers,
                                      .nlayer = nlayer,
                                      .inputs = s->list,
                                      .outputs = s->list};
}

static void free_sample(sample* s) {
    for (uint32_t k = 0; k < s->network.nlayer; k++) free(s->weights[k]);
}

static ns_status draw_text(const ns_network_diagram* network, ns_text* out, ns_error* error) {
    nsi_text_builder b = {.allocator = ns_default_allocator()};
    ns_status status = nsi_network_diagram_draw(&b, network, error);
    assert_int_equal(nsi_text_finish(&b, out, NULL), NS_OK);
    return status;
}

static const picture* draw(const ns_network_diagram* network) {
    ns_text text = {0};
    ns_error error = {0};
    must(draw_text(network, &text, &error), &error);
    const picture* p = read_picture(text.data, text.size);
    ns_text_free(&text);
    return p;
}

// ---- tests ---------------------------------------------------------------------------------

static void every_node_is_a_circle_and_every_weight_a_line(void** state) {
    (void)state;
    static const uint32_t shapes[][4] = {{1, 1}, {3, 5, 2}, {8, 35, 33, 4}, {41, 192, 192, 12}};
    static const uint32_t nlayers[] = {1, 2, 3, 3};
    static sample s;
    for (int k = 0; k < 8; k++) {
        const uint32_t *widths = shapes[k / 2], nlayer = nlayers[k / 2];
        bool bias = k % 2 == 0;
        make_sample(&s, widths, nlayer, bias);
        const picture* p = draw(&s.network);
        uint32_t nodes = 0, weights = 0;
        for (uint32_t i = 0; i <= nlayer; i++) nodes += widths[i];
        for (uint32_t i = 0; i < nlayer; i++) weights += s.layers[i].rows * s.layers[i].columns;
        assert_int_equal(p->circles, nodes + (bias ? nlayer : 0));
        assert_int_equal(p->biases, bias ? nlayer : 0);
        assert_int_equal(p->lines, weights);
        assert_true(says(p, "name0"));
        free_sample(&s);
    }
}

static void lines_are_as_wide_as_weights_are_large(void** state) {
    (void)state;
    static sample s;
    make_sample(&s, (uint32_t[]){4, 6, 3}, 2, true);
    s.weights[0][7] = 0.0;
    const picture* p = draw(&s.network);
    uint32_t n = 0;
    for (uint32_t k = 0; k < 2; k++) {
        uint32_t count = s.layers[k].rows * s.layers[k].columns;
        double largest = 0.0, widest = 0.0;
        for (uint32_t i = 0; i < count; i++) {
            largest = fmax(largest, fabs(s.weights[k][i]));
            widest = fmax(widest, p->line[n + i].width);
        }
        assert_true(widest > 1.0);
        for (uint32_t i = 0; i < count; i++, n++) {
            double w = s.weights[k][i], share = fabs(w) / largest;
            // Numbers have three decimals.
            assert_true(fabs(p->line[n].width - widest * share) < 0.001);
            assert_true(fabs(p->line[n].opacity - (0.1 + 0.9 * share)) < 0.001);
            assert_true(p->line[n].negative == (w < 0.0));
            assert_true(p->line[n].x1 < p->line[n].x2);
        }
        // Row by row: lines of a row start at one point, the first row's at the top.
        const drawn_line* first = &p->line[n - count];
        assert_true(first[0].y1 == first[1].y1 && first[0].y2 < first[1].y2);
        assert_true(first[s.layers[k].columns].y1 > first[0].y1);
    }
    free_sample(&s);
}

static void of_very_wide_layers_the_strongest_nodes_are_drawn(void** state) {
    (void)state;
    static sample s;
    make_sample(&s, (uint32_t[]){3, 300, 2}, 2, true);
    // Hidden nodes 5, 12, 19... have weights, the others hardly any.
    for (uint32_t i = 0; i < 300; i++) {
        for (uint32_t j = 0; j < 4; j++) s.weights[0][j * 300 + i] = i % 7 == 5 ? -2.0 : 1e-3;
        for (uint32_t j = 0; j < 2; j++) s.weights[1][i * 2 + j] = 0.0;
    }
    const picture* p = draw(&s.network);
    assert_int_equal(p->circles, 3 + 1 + NSI_NETWORK_STRONGEST + 1 + 2);
    assert_int_equal(p->lines, 4 * NSI_NETWORK_STRONGEST + (NSI_NETWORK_STRONGEST + 1) * 2);
    for (uint32_t k = 0; k < 4 * NSI_NETWORK_STRONGEST; k++) assert_true(p->line[k].negative);
    assert_true(says(p, "40 strongest of 300"));
    free_sample(&s);
}

static void names_are_escaped(void** state) {
    (void)state;
    static sample s;
    make_sample(&s, (uint32_t[]){4, 2}, 1, true);
    char longest[500];
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    s.list[0] = "joint/<&\"'>]]>/\xd0\xba\xd0\xbe\xd0\xbb\xd0\xb5\xd0\xbd\xd0\xbe/\xe8\x86\x9d";
    s.list[1] = "bad\xff\x01\xef\xbf\xbf.";
    s.list[2] = longest;
    s.list[3] = "";
    s.network.title = "<script>&amp;";
    s.network.notes = s.list;
    s.network.nnote = 2;
    const picture* p = draw(&s.network);
    assert_true(says(p, s.list[0]));
    assert_true(says(p, "bad\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd."));
    assert_true(says(p, longest)); // to be pointed at
    assert_true(says(p, s.network.title));
    free_sample(&s);
}

static void zeros_are_drawn_and_what_is_not_finite_is_refused(void** state) {
    (void)state;
    static sample s;
    make_sample(&s, (uint32_t[]){2, 2}, 1, false);
    for (int i = 0; i < 4; i++) s.weights[0][i] = 0.0;
    const picture* p = draw(&s.network);
    assert_int_equal(p->lines, 4);
    assert_true(p->line[3].width == 0.0);
    assert_true(says(p, "largest |w| 0"));

    s.weights[0][0] = 4.9e-324; // and the extremes of finite numbers
    s.weights[0][3] = -1.797e308;
    p = draw(&s.network);
    assert_true(p->line[3].negative && p->line[3].width > 1.0);
    assert_true(says(p, "largest |w| 1.8e+308") || strstr(p->text, "largest |w| 1.797e+308"));

    s.weights[0][2] = NAN;
    ns_text text = {0};
    ns_error error = {0};
    assert_int_equal(draw_text(&s.network, &text, &error), NS_ERR_NONFINITE);
    assert_non_null(strstr(error.message, "weight 2"));
    ns_text_free(&text);
    free_sample(&s);
}

static void the_same_network_gives_the_same_bytes(void** state) {
    (void)state;
    static sample s;
    make_sample(&s, (uint32_t[]){5, 60, 4}, 2, true);
    ns_text a = {0}, b = {0};
    assert_int_equal(draw_text(&s.network, &a, NULL), NS_OK);
    setlocale(LC_ALL, "de_DE.UTF-8"); // where there is such a locale, its decimal comma
    assert_int_equal(draw_text(&s.network, &b, NULL), NS_OK);
    setlocale(LC_ALL, "C");
    assert_int_equal(a.size, b.size);
    assert_memory_equal(a.data, b.data, a.size);
    ns_text_free(&a);
    ns_text_free(&b);
    free_sample(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_node_is_a_circle_and_every_weight_a_line),
        cmocka_unit_test(lines_are_as_wide_as_weights_are_large),
        cmocka_unit_test(of_very_wide_layers_the_strongest_nodes_are_drawn),
        cmocka_unit_test(names_are_escaped),
        cmocka_unit_test(zeros_are_drawn_and_what_is_not_finite_is_refused),
        cmocka_unit_test(the_same_network_gives_the_same_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
