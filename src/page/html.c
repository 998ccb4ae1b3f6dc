// Parts of a page: HTML and SVG.

#include "page/html.h"

#include "page/bundle.h"

enum { LONGEST_NAME = 22 }; // characters beside a picture

static const char head[] =
    "<meta charset=\"utf-8\"/>\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n";

// Blue and vermilion, which all kinds of colour vision tell apart (Okabe and Ito).
static const char style[] =
    ":root { color-scheme: light dark; --ink: #222; --faint: #666; --paper: #fff; --line: #ddd;\n"
    "  --blue: #0072b2; --red: #d55e00; --grey: #aaa; }\n"
    "@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e8; --faint: #a8a8a8;\n"
    "  --paper: #16181c; --line: #3a3e46; --blue: #56b4e9; --red: #ff9a52; --grey: #777; } }\n"
    "body { font: 16px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--paper);\n"
    "  max-width: 60em; margin: 0 auto; padding: 0 1em 3em; overflow-wrap: anywhere; }\n"
    "h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin-top: 2em; }\n"
    "dt, .faint { color: var(--faint); } dd { margin: 0 0 .4em 1em; }\n"
    ".wide { overflow-x: auto; overflow-wrap: normal; }\n"
    "table { border-collapse: collapse; font-variant-numeric: tabular-nums; }\n"
    "th, td { padding: .2em .7em .2em 0; text-align: right;\n"
    "  border-bottom: 1px solid var(--line); }\n"
    "th { font-weight: 600; } .l { text-align: left; } td.bad { color: var(--red); }\n"
    "svg { display: block; width: 100%; max-width: 36em; height: auto; margin: .5em 0; }\n"
    "svg text { font: 10px system-ui, sans-serif; fill: var(--ink); }\n"
    "svg .e { text-anchor: end; } svg .m { text-anchor: middle; }\n"
    "svg .grid { stroke: var(--line); } svg .ink { stroke: var(--ink); fill: none; }\n"
    "svg .dash { stroke: var(--faint); stroke-dasharray: 3 3; }\n"
    "svg .blue { fill: var(--blue); } svg .red { fill: var(--red); }\n"
    "svg .grey { fill: var(--grey); }\n"
    "svg rect { stroke: var(--line); stroke-width: .4; }\n"
    "svg polyline { fill: none; stroke: var(--blue); stroke-width: 1.5; }\n";

// A page runs our script and no other, whatever stands in it, and asks the network for nothing; a
// live one asks whoever served it.
static void open_page(nsi_text_builder* b, const char* title, const char* connect) {
    nsi_bundle bundle;
    bool has_script = nsi_bundle_get(&bundle);
    nsi_text_add(b, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n%s", head);
    nsi_text_add(b,
                 "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                 "style-src 'unsafe-inline'; img-src data: blob:; connect-src %s; script-src "
                 "%s%s%s; base-uri 'none'; form-action 'none'\"/>\n",
                 connect, has_script ? "'sha256-" : "'none'", bundle.hash, has_script ? "'" : "");
    nsi_page_element(b, "title", title);
    nsi_text_add(b, "<style>\n%s", style);
    nsi_text_add_bytes(b, bundle.style, bundle.style_size);
    nsi_text_add(b, "</style>\n</head>\n<body>\n");
}

void nsi_page_open(nsi_text_builder* b, const char* title) {
    open_page(b, title, "'none'");
}

void nsi_page_open_live(nsi_text_builder* b, const char* title) {
    open_page(b, title, "'self'");
}

void nsi_page_close(nsi_text_builder* b) {
    nsi_bundle bundle;
    if (nsi_bundle_get(&bundle)) {
        nsi_text_add(b, "<script>");
        nsi_text_add_bytes(b, bundle.script, bundle.script_size);
        nsi_text_add(b, "</script>\n");
    }
    nsi_text_add(b, "</body>\n</html>\n");
}

// ---- texts -----------------------------------------------------------------------------------

void nsi_page_text(nsi_text_builder* b, const char* text) {
    uint32_t code;
    for (size_t size; text && *text; text += size) {
        size = nsi_show_next(text, &code);
        switch (code) {
        case '&': nsi_text_add(b, "&amp;"); break;
        case '<': nsi_text_add(b, "&lt;"); break;
        case '>': nsi_text_add(b, "&gt;"); break;
        case '"': nsi_text_add(b, "&quot;"); break;
        case '\'': nsi_text_add(b, "&#39;"); break;
        case ' ': nsi_text_add(b, " "); break;
        case 0xfffd: nsi_text_add(b, "\xef\xbf\xbd"); break;
        default: nsi_text_add_bytes(b, text, size);
        }
    }
}

void nsi_page_element(nsi_text_builder* b, const char* tag, const char* text) {
    nsi_text_add(b, "<%s>", tag);
    nsi_page_text(b, text);
    nsi_text_add(b, "</%s>\n", tag);
}

void nsi_page_cell(nsi_text_builder* b, const char* class, const char* text) {
    nsi_text_add(b, "<td class=\"%s\">", class);
    nsi_page_text(b, text);
    nsi_text_add(b, "</td>");
}

void nsi_page_number(nsi_text_builder* b, double value, int digits) {
    nsi_text_add(b, "<td>%s</td>", nsi_show(value, digits).text);
}

void nsi_page_open_table(nsi_text_builder* b, const char* headings) {
    nsi_text_add(b, "<div class=\"wide\"><table>\n<tr>");
    while (*headings) {
        bool left = *headings == '<';
        headings += left;
        size_t length = strcspn(headings, "|");
        nsi_text_add(b, "<th%s>%.*s</th>", left ? " class=\"l\"" : "", (int)length, headings);
        headings += length + (headings[length] == '|');
    }
    nsi_text_add(b, "</tr>\n");
}

void nsi_page_close_table(nsi_text_builder* b) {
    nsi_text_add(b, "</table></div>\n");
}

// ---- pictures --------------------------------------------------------------------------------

nsi_shown nsi_page_length(double length) {
    return nsi_show_short(length, 5);
}

void nsi_page_open_picture(nsi_text_builder* b, const char* name, double width, double height) {
    nsi_text_add(b, "<svg role=\"img\" viewBox=\"0 0 %s %s\"><title>%s</title>\n",
                 nsi_page_length(width).text, nsi_page_length(height).text, name);
}

void nsi_page_close_picture(nsi_text_builder* b) {
    nsi_text_add(b, "</svg>\n");
}

void nsi_page_line(nsi_text_builder* b, const char* class, double x1, double y1, double x2,
                   double y2) {
    nsi_text_add(b, "<line class=\"%s\" x1=\"%s\" y1=\"%s\" x2=\"%s\" y2=\"%s\"/>\n", class,
                 nsi_page_length(x1).text, nsi_page_length(y1).text, nsi_page_length(x2).text,
                 nsi_page_length(y2).text);
}

void nsi_page_open_bar(nsi_text_builder* b, const char* class, double x, double y, double width,
                       double height, double opacity) {
    nsi_text_add(b,
                 "<rect class=\"%s\" x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\" "
                 "fill-opacity=\"%s\">",
                 class, nsi_page_length(x).text, nsi_page_length(y).text,
                 nsi_page_length(width).text, nsi_page_length(height).text,
                 nsi_show_short(opacity, 2).text);
}

void nsi_page_bar(nsi_text_builder* b, const char* class, double x, double y, double width,
                  double height, double opacity) {
    nsi_page_open_bar(b, class, x, y, width, height, opacity);
    nsi_text_add(b, "</rect>\n");
}

void nsi_page_label(nsi_text_builder* b, const char* class, double x, double y, const char* text) {
    nsi_text_add(b, "<text class=\"%s\" x=\"%s\" y=\"%s\">%s</text>\n", class,
                 nsi_page_length(x).text, nsi_page_length(y).text, text);
}

void nsi_page_name(nsi_text_builder* b, double x, double y, const char* name) {
    nsi_text_add(b, "<text class=\"e\" x=\"%s\" y=\"%s\"><title>", nsi_page_length(x).text,
                 nsi_page_length(y).text);
    nsi_page_text(b, name);
    nsi_text_add(b, "</title>");
    uint32_t count = 0, code;
    for (const char* c = name; c && *c; c += nsi_show_next(c, &code)) count++;
    for (; count > LONGEST_NAME; count--) name += nsi_show_next(name, &code);
    nsi_page_text(b, name);
    nsi_text_add(b, "</text>\n");
}
