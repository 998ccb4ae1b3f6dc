// Figures in pages and in files, and how they look.

#include "report/drawing.h"

#include "report/html.h"

// Colours that all kinds of colour vision tell apart (Okabe and Ito), lighter on dark paper. No
// variables: some programs that show SVG do not know them.
const char nsi_figure_style[] =
    "svg.figure text { font: 10px sans-serif; fill: #222222; }\n"
    "svg.figure .e { text-anchor: end; }\n"
    "svg.figure .m { text-anchor: middle; }\n"
    "svg.figure text.faint { fill: #595959; }\n"
    "svg.figure text.bad { fill: #b04a00; }\n"
    "svg.figure text.title { font-size: 15px; font-weight: bold; }\n"
    "svg.figure .paper { fill: #ffffff; }\n"
    "svg.figure .grid { stroke: #dddddd; stroke-width: 0.7; fill: none; }\n"
    "svg.figure .ink { stroke: #222222; fill: none; }\n"
    "svg.figure .dash { stroke: #767676; stroke-width: 0.8; stroke-dasharray: 3 3; fill: none; }\n"
    "svg.figure .span { fill: #888888; fill-opacity: 0.15; }\n"
    "svg.figure .blue { fill: #0072b2; }\n"
    "svg.figure .red { fill: #d55e00; }\n"
    "svg.figure .grey { fill: #aaaaaa; }\n"
    "svg.figure .cell, svg.figure .shade { shape-rendering: crispEdges; }\n"
    "svg.figure .curve { fill: none; stroke-width: 1.3; stroke-linejoin: round; }\n"
    "svg.figure .c0 { stroke: #0072b2; }\n"
    "svg.figure .c1 { stroke: #d55e00; }\n"
    "svg.figure .c2 { stroke: #009e73; }\n"
    "svg.figure .c3 { stroke: #cc79a7; }\n"
    "svg.figure .c4 { stroke: #e69f00; }\n"
    "svg.figure .c5 { stroke: #56b4e9; }\n"
    "svg.figure .c6 { stroke: #222222; }\n"
    "svg.figure .c7 { stroke: #8c6d31; }\n"
    "svg.figure .other { stroke: #bbbbbb; stroke-width: 0.8; }\n"
    "svg.figure .recorded { stroke: #222222; stroke-width: 1; }\n"
    "svg.figure .before { stroke: #d55e00; stroke-dasharray: 4 2; }\n"
    "svg.figure .after { stroke: #0072b2; }\n"
    "svg.network text { font-size: 12px; }\n"
    "svg.network .p { stroke: #0072b2; fill: none; }\n"
    "svg.network .n { stroke: #d55e00; fill: none; }\n"
    "svg.network circle { fill: #e8e8e8; stroke: #222222; }\n"
    "svg.network circle.bias { fill: #ffffff; stroke-dasharray: 2 1.5; }\n"
    "@media screen and (prefers-color-scheme: dark) {\n"
    "svg.figure text { fill: #e8e8e8; }\n"
    "svg.figure text.faint { fill: #a8a8a8; }\n"
    "svg.figure text.bad { fill: #ff9a52; }\n"
    "svg.figure .paper { fill: #16181c; }\n"
    "svg.figure .grid { stroke: #3a3e46; }\n"
    "svg.figure .ink { stroke: #e8e8e8; }\n"
    "svg.figure .dash { stroke: #8a8f99; }\n"
    "svg.figure .blue { fill: #56b4e9; }\n"
    "svg.figure .red { fill: #ff9a52; }\n"
    "svg.figure .grey { fill: #777777; }\n"
    "svg.figure .c0 { stroke: #56b4e9; }\n"
    "svg.figure .c1 { stroke: #ff9a52; }\n"
    "svg.figure .c2 { stroke: #2fc99a; }\n"
    "svg.figure .c3 { stroke: #e39ac2; }\n"
    "svg.figure .c4 { stroke: #f0c341; }\n"
    "svg.figure .c5 { stroke: #8f9bff; }\n"
    "svg.figure .c6 { stroke: #e8e8e8; }\n"
    "svg.figure .c7 { stroke: #9a7b3a; }\n"
    "svg.figure .other { stroke: #5a5f69; }\n"
    "svg.figure .recorded { stroke: #e8e8e8; }\n"
    "svg.figure .before { stroke: #ff9a52; }\n"
    "svg.figure .after { stroke: #56b4e9; }\n"
    "svg.network .p { stroke: #56b4e9; }\n"
    "svg.network .n { stroke: #ff9a52; }\n"
    "svg.network circle { fill: #3a3e46; stroke: #e8e8e8; }\n"
    "svg.network circle.bias { fill: #16181c; }\n"
    "}\n";

void nsi_drawing_free(nsi_drawing* figure) {
    if (!figure) return;
    ns_text_free(&figure->title);
    ns_text_free(&figure->svg);
    ns_text_free(&figure->csv);
    *figure = (nsi_drawing){0};
}

// Numbers keep their lines, so each is escaped by itself.
static void add_escaped_lines(nsi_text_builder* page, const char* text) {
    while (*text) {
        size_t length = strcspn(text, "\n");
        nsi_html_text_part(page, text, text + length);
        text += length;
        if (*text) nsi_text_add(page, "\n"), text++;
    }
}

void nsi_html_drawing(nsi_text_builder* page, const nsi_drawing* figure) {
    nsi_text_add(page, "<figure id=\"figure-%s\" class=\"figure\"><figcaption>", figure->name);
    nsi_html_text(page, figure->title.data);
    nsi_text_add(page, "</figcaption>\n");
    nsi_text_add_bytes(page, figure->svg.data ? figure->svg.data : "", figure->svg.size);
    if (figure->csv.size > 0) {
        nsi_text_add(page, "<details><summary>numbers</summary><pre>");
        add_escaped_lines(page, figure->csv.data);
        nsi_text_add(page, "</pre></details>");
    }
    nsi_text_add(page, "</figure>\n");
}

ns_status nsi_drawing_file(const nsi_drawing* figure, ns_text* out, ns_error* error) {
    static const char opening[] = "<svg ";
    const char *svg = figure->svg.data, *inside = svg ? strchr(svg, '>') : NULL;
    *out = (ns_text){0};
    if (!inside || strncmp(svg, opening, sizeof opening - 1) != 0) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "the figure %s has no picture", figure->name);
    }
    inside++;
    nsi_text_builder b = {.allocator = figure->svg.allocator};
    nsi_text_add(&b, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                     "<svg xmlns=\"http://www.w3.org/2000/svg\" ");
    svg += sizeof opening - 1;
    nsi_text_add_bytes(&b, svg, (size_t)(inside - svg));
    nsi_text_add(
        &b, "\n<style>\n%s</style>\n<rect class=\"paper\" width=\"100%%\" height=\"100%%\"/>\n",
        nsi_figure_style);
    nsi_text_add_bytes(&b, inside, figure->svg.size - (size_t)(inside - figure->svg.data));
    return nsi_text_finish(&b, out, error);
}
