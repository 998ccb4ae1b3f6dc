// Parts of a page: HTML and SVG.

#include "report/html.h"

#include "report/drawing.h"
#include "report/web_bundle.h"

#include <math.h>
#include <stdio.h>

static const char head[] =
    "<meta charset=\"utf-8\"/>\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n";

// Colours of text and tables; those of figures are their own.
static const char style[] =
    ":root { color-scheme: light dark; --ink: #222; --faint: #666; --paper: #fff; --line: #ddd;\n"
    "  --blue: #0072b2; --red: #d55e00; --grey: #aaa; }\n"
    "@media screen and (prefers-color-scheme: dark) { :root { --ink: #e8e8e8; --faint: #a8a8a8;\n"
    "  --paper: #16181c; --line: #3a3e46; --blue: #56b4e9; --red: #ff9a52;\n"
    "  --grey: #777; } }\n"
    "@media print { :root { color-scheme: light; } }\n"
    "body { font: 16px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--paper);\n"
    "  max-width: 60em; margin: 0 auto; padding: 0 1em 3em; overflow-wrap: anywhere; }\n"
    "h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin-top: 2em; }\n"
    "h3 { font-size: 1em; margin: 1.5em 0 .3em; }\n"
    "h1, h2, h3, figcaption { break-after: avoid; }\n"
    "dl { display: grid; grid-template-columns: max-content 1fr; gap: .1em 1em; }\n"
    "dt, .faint { color: var(--faint); } dd { margin: 0; }\n"
    ".wide { overflow-x: auto; overflow-wrap: normal; }\n"
    "table { border-collapse: collapse; font-variant-numeric: tabular-nums; }\n"
    "th, td { padding: .2em .7em .2em 0; text-align: right;\n"
    "  border-bottom: 1px solid var(--line); }\n"
    "th { font-weight: 600; } .l { text-align: left; } td.bad { color: var(--red); }\n"
    ".problem { border: 2px solid var(--red); border-radius: 4px; padding: .5em .8em; }\n"
    ".problem strong, .warning strong { color: var(--red); }\n"
    "figure { margin: .5em 0 1.2em; break-inside: avoid; }\n"
    "figcaption { font-weight: 600; margin-bottom: .3em; }\n"
    ".figure > svg { display: block; width: 100%; max-width: 36em; height: auto; }\n"
    ".figure > svg.network { width: auto; max-width: 100%; }\n"
    "summary { color: var(--faint); cursor: pointer; }\n"
    ".figure pre { max-height: 20em; overflow: auto; font-size: .8em; overflow-wrap: normal; }\n"
    // On a phone a table is moved sideways under its first column.
    "@media (max-width: 40em) { table { font-size: .9em; } .wide tr > .l:first-child {\n"
    "  position: sticky; left: 0; background: var(--paper); min-width: 6em;\n"
    "  max-width: 9em; overflow-wrap: anywhere; z-index: 1; } }\n";

// A page runs our script and no other, whatever stands in it, and asks the network for nothing; a
// live one asks whoever served it.
static void open_page(nsi_text_builder* b, const char* title, const char* connect) {
    nsi_web_bundle bundle;
    bool has_script = nsi_web_bundle_get(&bundle);
    nsi_text_add(b, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n%s", head);
    nsi_text_add(b,
                 "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                 "style-src 'unsafe-inline'; img-src data: blob:; connect-src %s; script-src "
                 "%s%s%s; base-uri 'none'; form-action 'none'\"/>\n",
                 connect, has_script ? "'sha256-" : "'none'", bundle.hash, has_script ? "'" : "");
    nsi_html_element(b, "title", title);
    nsi_text_add(b, "<style>\n%s", style);
    nsi_text_add_bytes(b, bundle.style, bundle.style_size);
    nsi_text_add(b, "</style>\n<style id=\"figure-style\">\n%s</style>\n</head>\n<body>\n",
                 nsi_figure_style);
}

void nsi_html_open(nsi_text_builder* b, const char* title) {
    open_page(b, title, "'none'");
}

void nsi_html_open_live(nsi_text_builder* b, const char* title) {
    open_page(b, title, "'self'");
}

void nsi_html_close(nsi_text_builder* b) {
    nsi_web_bundle bundle;
    if (nsi_web_bundle_get(&bundle)) {
        nsi_text_add(b, "<script>");
        nsi_text_add_bytes(b, bundle.script, bundle.script_size);
        nsi_text_add(b, "</script>\n");
    } else {
        nsi_text_add(b, "<p class=\"faint\">Nothing moves here: " NSI_WEB_BUNDLE_MISSING ".</p>\n");
    }
    nsi_text_add(b, "</body>\n</html>\n");
}

// ---- texts -----------------------------------------------------------------------------------

void nsi_html_text_part(nsi_text_builder* b, const char* text, const char* end) {
    uint32_t code;
    for (size_t size; text < end; text += size) {
        size = nsi_format_next(text, &code);
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

void nsi_html_text(nsi_text_builder* b, const char* text) {
    if (text) nsi_html_text_part(b, text, text + strlen(text));
}

void nsi_html_element(nsi_text_builder* b, const char* tag, const char* text) {
    nsi_text_add(b, "<%s>", tag);
    nsi_html_text(b, text);
    nsi_text_add(b, "</%s>\n", tag);
}

void nsi_html_cell(nsi_text_builder* b, const char* class, const char* text) {
    nsi_text_add(b, "<td class=\"%s\">", class);
    nsi_html_text(b, text);
    nsi_text_add(b, "</td>");
}

void nsi_html_number(nsi_text_builder* b, double value, int digits) {
    nsi_text_add(b, "<td>%s</td>", nsi_format(value, digits).text);
}

void nsi_html_open_table(nsi_text_builder* b, const char* headings) {
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

void nsi_html_close_table(nsi_text_builder* b) {
    nsi_text_add(b, "</table></div>\n");
}

// ---- pictures --------------------------------------------------------------------------------

nsi_formatted nsi_html_length(double length) {
    static const double MOST = 1e12; // far outside of any picture
    double size = fabs(length) < MOST ? fabs(length) : MOST;
    long long thousandths = isnan(length) ? 0 : llround(size * 1000.0);
    bool negative = length < 0.0 && thousandths > 0;
    nsi_formatted out;
    int rest = (int)(thousandths % 1000), digits = 3;
    int used =
        snprintf(out.text, sizeof out.text, "%s%lld", negative ? "-" : "", thousandths / 1000);
    if (rest == 0) return out;
    for (; rest % 10 == 0; rest /= 10) digits--;
    snprintf(out.text + used, sizeof out.text - (size_t)used, ".%0*d", digits, rest);
    return out;
}

void nsi_html_open_picture(nsi_text_builder* b, const char* class, const char* title, double width,
                           double height) {
    nsi_formatted w = nsi_html_length(width), h = nsi_html_length(height);
    nsi_text_add(b,
                 "<svg class=\"figure%s%s\" role=\"img\" width=\"%s\" height=\"%s\" "
                 "viewBox=\"0 0 %s %s\"><title>",
                 *class ? " " : "", class, w.text, h.text, w.text, h.text);
    nsi_html_text(b, title);
    nsi_text_add(b, "</title>\n");
}

void nsi_html_close_picture(nsi_text_builder* b) {
    nsi_text_add(b, "</svg>\n");
}

void nsi_html_line(nsi_text_builder* b, const char* class, double x1, double y1, double x2,
                   double y2) {
    nsi_text_add(b, "<line class=\"%s\" x1=\"%s\" y1=\"%s\" x2=\"%s\" y2=\"%s\"/>\n", class,
                 nsi_html_length(x1).text, nsi_html_length(y1).text, nsi_html_length(x2).text,
                 nsi_html_length(y2).text);
}

void nsi_html_open_bar(nsi_text_builder* b, const char* class, double x, double y, double width,
                       double height, double opacity) {
    nsi_text_add(b,
                 "<rect class=\"%s\" x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\" "
                 "fill-opacity=\"%s\">",
                 class, nsi_html_length(x).text, nsi_html_length(y).text,
                 nsi_html_length(width).text, nsi_html_length(height).text,
                 nsi_html_length(opacity).text);
}

void nsi_html_bar(nsi_text_builder* b, const char* class, double x, double y, double width,
                  double height, double opacity) {
    nsi_html_open_bar(b, class, x, y, width, height, opacity);
    nsi_text_add(b, "</rect>\n");
}

void nsi_html_ring(nsi_text_builder* b, const char* class, double x, double y, double radius) {
    nsi_text_add(b, "<circle class=\"%s\" cx=\"%s\" cy=\"%s\" r=\"%s\"/>\n", class,
                 nsi_html_length(x).text, nsi_html_length(y).text, nsi_html_length(radius).text);
}

static void open_label(nsi_text_builder* b, const char* class, double x, double y) {
    nsi_text_add(b, "<text class=\"%s\" x=\"%s\" y=\"%s\">", class, nsi_html_length(x).text,
                 nsi_html_length(y).text);
}

void nsi_html_label(nsi_text_builder* b, const char* class, double x, double y, const char* text) {
    open_label(b, class, x, y);
    nsi_html_text(b, text);
    nsi_text_add(b, "</text>\n");
}

// Of 10 px; DejaVu Sans is the widest of the usual ones.
static double letter_width(uint32_t code) {
    if (code >= 0x80) return nsi_format_columns(code) > 1 ? 10.5 : 7.5;
    if (strchr("ijlIftr.,:;'|!/\\ ()[]-`", (int)code)) return 4.1;
    if (strchr("mwMW%@", (int)code)) return 10.0;
    return (code >= 'A' && code <= 'Z') || strchr("<>=+~#^&", (int)code) ? 8.4 : 6.4;
}

double nsi_html_width(const char* text) {
    double width = 0.0;
    uint32_t code;
    while (text && *text) {
        text += nsi_format_next(text, &code);
        width += letter_width(code);
    }
    return width;
}

void nsi_html_fit(nsi_text_builder* b, const char* name, double room) {
    static const double ELLIPSIS = 10.0;
    double width = nsi_html_width(name);
    uint32_t code;
    if (width > room) {
        nsi_text_add(b, "<title>");
        nsi_html_text(b, name);
        nsi_text_add(b, "</title>\xe2\x80\xa6"); // an ellipsis
        for (; *name && width + ELLIPSIS > room; width -= letter_width(code)) {
            name += nsi_format_next(name, &code);
        }
    }
    nsi_html_text(b, name);
}

void nsi_html_name(nsi_text_builder* b, const char* class, double x, double y, const char* name,
                   double room) {
    open_label(b, class, x, y);
    nsi_html_fit(b, name, room);
    nsi_text_add(b, "</text>\n");
}

nsi_ticks nsi_html_ticks(const nsi_scale* scale, uint32_t wanted) {
    static const double APART = 6.0;
    for (;; wanted--) {
        nsi_ticks ticks = nsi_scale_ticks(scale, wanted);
        bool fit = true;
        for (uint32_t k = 1; k < ticks.count; k++) {
            double step =
                nsi_scale_place(scale, ticks.value[k]) - nsi_scale_place(scale, ticks.value[k - 1]);
            double widths =
                nsi_html_width(ticks.label[k - 1].text) + nsi_html_width(ticks.label[k].text);
            fit = fit && step >= 0.5 * widths + APART;
        }
        if (fit || wanted <= 2) return ticks;
    }
}

void nsi_legend_add(nsi_legend* l, const char* name, const char* class) {
    static const double LINE = 14.0, SAMPLE = 18.0, LONGEST_NAME = 240.0, BELOW = 4.0;
    double width = SAMPLE + 16.0 + fmin(nsi_html_width(name), LONGEST_NAME);
    if (l->height == 0.0) {
        l->x = l->left;
        l->height = LINE + BELOW;
    } else if (l->x > l->left && l->x + width > l->right) {
        l->x = l->left;
        l->height += LINE;
    }
    if (l->b) {
        double y = l->height - BELOW;
        nsi_text_add(l->b, "<path class=\"curve %s\" d=\"M%s %sh%s\"/>\n", class,
                     nsi_html_length(l->x).text, nsi_html_length(y - 3.5).text,
                     nsi_html_length(SAMPLE).text);
        nsi_html_name(l->b, "", l->x + SAMPLE + 4.0, y, name, LONGEST_NAME);
    }
    l->x += width;
}
