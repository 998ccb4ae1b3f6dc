// Figures: made, found, drawn.

#include "report/figure_data.h"

#include "report/html.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

void nsi_figures_init(const ns_allocator* allocator, nsi_figures* out) {
    ns_allocator memory = allocator ? *allocator : ns_default_allocator();
    *out = (nsi_figures){.arena = {.allocator = memory}};
}

void nsi_figures_free(nsi_figures* charts) {
    ns_allocator memory = charts->arena.allocator;
    if (!memory.free) return; // zeroed
    nsi_array_free(&memory, &charts->list);
    nsi_arena_free(&charts->arena);
    nsi_figures_init(&memory, charts);
}

const ns_figure* nsi_figures_find(const nsi_figures* charts, const char* name) {
    for (uint32_t k = 0; k < charts->list.count; k++) {
        if (strcmp(charts->list.data[k].name, name) == 0) return &charts->list.data[k];
    }
    return NULL;
}

static bool is_plain(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

ns_figure* nsi_figures_add(nsi_figures* charts, ns_figure_kind kind, const char* name,
                           const char* title) {
    ns_figure chart = {.kind = kind, .title = title};
    size_t size = 0;
    for (; name[size] && size + 12 < sizeof chart.name; size++) {
        chart.name[size] = name[size];
        if (!is_plain(name[size])) chart.name[size] = '_';
    }
    for (uint32_t number = 2; nsi_figures_find(charts, chart.name); number++) {
        snprintf(chart.name + size, sizeof chart.name - size, "_%u", number);
    }
    if (!nsi_array_push(&charts->arena.allocator, &charts->list, chart)) return NULL;
    return &charts->list.data[charts->list.count - 1];
}

void* nsi_figures_zeros(nsi_figures* charts, size_t count, size_t size) {
    void* block = nsi_arena_alloc(&charts->arena, (count + 1) * size);
    if (block) memset(block, 0, (count + 1) * size);
    return block;
}

const char* nsi_figures_text(nsi_figures* charts, const char* format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    char* text = length >= 0 ? nsi_arena_alloc(&charts->arena, (size_t)length + 1) : NULL;
    if (text) vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    va_end(arguments);
    return text;
}

ns_figure_column* nsi_figure_table(nsi_figures* charts, ns_figure* chart, uint32_t ncolumn,
                                   uint32_t nrow) {
    ns_figure_column* columns = nsi_figures_zeros(charts, ncolumn, sizeof *columns);
    if (!columns) return NULL;
    chart->columns = columns;
    chart->ncolumn = ncolumn;
    chart->nrow = nrow;
    return columns;
}

// ---- numbers -----------------------------------------------------------------------------------

// In quotes where a reader of tables would take it for something else.
static void csv_add_text(nsi_text_builder* b, const char* text) {
    size_t size = strlen(text);
    double number;
    bool quoted = size == 0 || strpbrk(text, ",\"\n\r\t#") || text[0] == ' ' ||
                  text[size - 1] == ' ' ||
                  nsi_text_read_double(text, size, &number) != NS_ERR_PARSE;
    if (!quoted) {
        nsi_format_add(b, text);
        return;
    }
    nsi_text_add(b, "\"");
    while (*text) {
        uint32_t code;
        const char* next = text + nsi_format_next(text, &code);
        if (code == 0xfffd) {
            nsi_text_add(b, "\xef\xbf\xbd");
        } else if (code == ' ') {
            nsi_text_add(b, " ");
        } else {
            if (code == '"') nsi_text_add(b, "\"");
            nsi_text_add_bytes(b, text, (size_t)(next - text));
        }
        text = next;
    }
    nsi_text_add(b, "\"");
}

ns_status ns_figure_csv(const ns_figure* chart, const ns_allocator* allocator, ns_text* out,
                        ns_error* error) {
    nsi_text_builder b = {.allocator = allocator ? *allocator : ns_default_allocator()};
    for (uint32_t c = 0; c < chart->ncolumn; c++) {
        if (c > 0) nsi_text_add(&b, ",");
        csv_add_text(&b, chart->columns[c].name ? chart->columns[c].name : "");
    }
    if (chart->ncolumn > 0) nsi_text_add(&b, "\n");
    for (uint32_t row = 0; row < chart->nrow && !b.failed; row++) {
        for (uint32_t c = 0; c < chart->ncolumn; c++) {
            const ns_figure_column* column = &chart->columns[c];
            if (c > 0) nsi_text_add(&b, ",");
            if (column->texts && column->texts[row]) csv_add_text(&b, column->texts[row]);
            if (!column->texts && !isnan(column->numbers[row])) {
                nsi_text_add_double(&b, column->numbers[row]);
            }
        }
        nsi_text_add(&b, "\n");
    }
    return nsi_text_finish(&b, out, error);
}

// ---- figures -----------------------------------------------------------------------------------

static ns_status draw_by_kind(const ns_figure* chart, nsi_text_builder* b, ns_error* error) {
    switch (chart->kind) {
    case NS_FIGURE_LINES: nsi_line_chart_draw(b, &chart->as.lines, chart->title); break;
    case NS_FIGURE_BARS: nsi_bar_chart_draw(b, &chart->as.bars, chart->title); break;
    case NS_FIGURE_INTERVALS: nsi_interval_chart_draw(b, &chart->as.intervals, chart->title); break;
    case NS_FIGURE_HEATMAP: nsi_heatmap_draw(b, &chart->as.heatmap, chart->title); break;
    case NS_FIGURE_MATRIX: nsi_matrix_chart_draw(b, &chart->as.matrix, chart->title); break;
    case NS_FIGURE_PLANE: nsi_plane_chart_draw(b, &chart->as.plane, chart->title); break;
    case NS_FIGURE_CORNER: nsi_corner_chart_draw(b, &chart->as.corner, chart->title); break;
    case NS_FIGURE_NETWORK: return nsi_network_diagram_draw(b, &chart->as.network, error);
    }
    return NS_OK;
}

ns_status nsi_figure_draw(const ns_figure* chart, const ns_allocator* allocator, nsi_drawing* out,
                          ns_error* error) {
    ns_allocator memory = allocator ? *allocator : ns_default_allocator();
    nsi_text_builder title = {.allocator = memory}, svg = {.allocator = memory};
    *out = (nsi_drawing){0};
    memcpy(out->name, chart->name, sizeof out->name);
    nsi_format_add(&title, chart->title);
    ns_status status = draw_by_kind(chart, &svg, error);
    if (status != NS_OK) svg.failed = true; // to be freed
    ns_status made = nsi_text_finish(&svg, &out->svg, status == NS_OK ? error : NULL);
    ns_status titled = nsi_text_finish(&title, &out->title, status == NS_OK ? error : NULL);
    if (status == NS_OK) status = made != NS_OK ? made : titled;
    if (status == NS_OK) status = ns_figure_csv(chart, &memory, &out->csv, error);
    if (status != NS_OK) nsi_drawing_free(out);
    return status;
}

ns_status ns_figure_svg(const ns_figure* figure, const ns_allocator* allocator, ns_text* out,
                        ns_error* error) {
    nsi_drawing drawing;
    *out = (ns_text){0};
    ns_status status = nsi_figure_draw(figure, allocator, &drawing, error);
    if (status == NS_OK) status = nsi_drawing_file(&drawing, out, error);
    nsi_drawing_free(&drawing);
    return status;
}
