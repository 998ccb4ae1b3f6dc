// A discovery for a browser: one page with its figure in it.

#include "discover/discover_words.h"
#include "fit/result_words.h"
#include "report/figure_data.h"
#include "report/html.h"

#include <math.h>

// Bars of what terms at each place explain.
static ns_status add_ranking(nsi_text_builder* b, const ns_discovery* d, ns_error* error) {
    uint32_t rows = d->ranks.count < NSI_MOST_RANKS ? d->ranks.count : NSI_MOST_RANKS;
    if (rows == 0) return NS_OK;
    nsi_figures charts;
    nsi_figures_init(&d->allocator, &charts);
    ns_figure* chart =
        nsi_figures_add(&charts, NS_FIGURE_BARS, "ranking",
                        "Share of the residuals that up to three terms at one place explain");
    const char** labels = nsi_figures_zeros(&charts, rows, sizeof *labels);
    ns_bar* bars = nsi_figures_zeros(&charts, rows, sizeof *bars);
    double* shares = nsi_figures_zeros(&charts, rows, sizeof *shares);
    ns_figure_column* columns = chart ? nsi_figure_table(&charts, chart, 2, rows) : NULL;
    ns_status status = labels && bars && shares && columns ? NS_OK : nsi_fail_nomem(error);
    for (uint32_t k = 0; k < rows && status == NS_OK; k++) {
        labels[k] = d->ranks.data[k].place;
        shares[k] = d->ranks.data[k].share;
        const char* text =
            nsi_figures_text(&charts, "%s %%", nsi_format(100.0 * shares[k], 3).text);
        bars[k] = (ns_bar){.length = shares[k], .mark = NAN, .text = text};
        if (!text) status = nsi_fail_nomem(error);
    }
    nsi_drawing figure = {0};
    if (status == NS_OK) {
        columns[0] = (ns_figure_column){.name = "quantity", .texts = labels};
        columns[1] = (ns_figure_column){.name = "share", .numbers = shares};
        chart->as.bars = (ns_bar_chart){
            .labels = labels, .bars = bars, .rows = rows, .ngroup = 1, .groups = {"share", NULL}};
        status = nsi_figure_draw(chart, &d->allocator, &figure, error);
    }
    if (status == NS_OK) {
        nsi_text_add(b,
                     "<h2>Where</h2>\n<p class=\"faint\">Of the model as it was; in recordings that"
                     " were left out of the fit of these terms.</p>\n");
        nsi_html_drawing(b, &figure);
    }
    nsi_drawing_free(&figure);
    nsi_figures_free(&charts);
    return status;
}

static void add_found(nsi_text_builder* b, const ns_discovery* d) {
    if (d->watch->stopped) nsi_html_element(b, "blockquote", NSI_INTERRUPTED);
    if (d->found.count == 0 && d->watch->stopped) return;
    if (d->found.count == 0) {
        nsi_text_add(b, "<p>Nothing is missing that these recordings show.</p>\n");
        return;
    }
    nsi_html_open_table(b, "<what|value|\xc2\xb1|was");
    for (uint32_t k = 0; k < d->found.count; k++) {
        const ns_discovered* f = &d->found.data[k];
        nsi_text_add(b, "<tr>");
        nsi_html_cell(b, "l", f->text);
        nsi_html_cell(b, "", nsi_format_value(f->value, f->standard_error).text);
        nsi_html_cell(b, "", nsi_format_error(f->value, f->standard_error).text);
        nsi_html_cell(b, "", f->parameter ? nsi_format_short(f->start, 6).text : "0");
        nsi_text_add(b, "</tr>\n");
    }
    nsi_html_close_table(b);
}

static void add_moves(nsi_text_builder* b, const ns_discovery* d) {
    if (d->moves.count == 0) return;
    nsi_text_add(b, "<h2>Steps</h2>\n");
    nsi_html_open_table(b, "<step|windows|sum of squares, before|after|left out, before|after");
    for (uint32_t k = 0; k < d->moves.count; k++) {
        const nsi_move* m = &d->moves.data[k];
        nsi_text_builder text = {.allocator = b->allocator};
        nsi_discover_move(d, m, &text);
        nsi_text_add_bytes(&text, "", 1);
        if (text.failed) b->failed = true;
        nsi_text_add(b, "<tr>");
        nsi_html_cell(b, "l", text.failed ? "" : text.text.data);
        nsi_array_free(&text.allocator, &text.text);
        nsi_text_add(b, "<td>%u</td>", m->length);
        nsi_html_number(b, m->before, 3);
        nsi_html_number(b, m->after, 3);
        nsi_html_number(b, sqrt(fmax(m->held_out_before, 0.0)), 3);
        nsi_html_number(b, sqrt(fmax(m->held_out_after, 0.0)), 3);
        nsi_text_add(b, "</tr>\n");
    }
    nsi_html_close_table(b);
}

static void add_score(nsi_text_builder* b, const char* label, const double score[2]) {
    if (!isfinite(score[0])) return;
    nsi_text_add(b, "<tr>");
    nsi_html_cell(b, "l", label);
    nsi_html_number(b, score[0], 3);
    nsi_html_number(b, score[1], 3);
    nsi_text_add(b, "</tr>\n");
}

ns_status ns_discover_html(const ns_discovery* d, ns_text* out, ns_error* error) {
    nsi_text_builder b = {.allocator = d->allocator};
    nsi_html_open(&b, d->fit->plan->title);
    nsi_html_element(&b, "h1", d->fit->plan->title);
    nsi_text_add(&b, "<h2>What is missing</h2>\n");
    add_found(&b, d);
    if (d->notes.count > 0) nsi_text_add(&b, "<ul>\n");
    for (uint32_t k = 0; k < d->notes.count; k++) nsi_html_element(&b, "li", d->notes.data[k]);
    if (d->notes.count > 0) nsi_text_add(&b, "</ul>\n");
    nsi_text_add(
        &b, "<h2>Residuals</h2>\n<p class=\"faint\">Root mean squares, start states fitted.</p>\n");
    nsi_html_open_table(&b, "<of|before|after");
    add_score(&b, "windows left out of the fit", d->held_out);
    for (int role = 0; role < NSI_ROLES; role++) {
        add_score(&b, nsi_role_name((nsi_role)role), d->score[role]);
    }
    nsi_html_close_table(&b);
    ns_status status = add_ranking(&b, d, error);
    add_moves(&b, d);
    nsi_text_add(&b,
                 "<p class=\"faint\">%u terms were looked at, %u more have no effect here.</p>\n",
                 d->ncandidate, d->nidle);
    nsi_html_close(&b);
    if (status == NS_OK) return nsi_text_finish(&b, out, error);
    nsi_array_free(&b.allocator, &b.text);
    return status;
}
