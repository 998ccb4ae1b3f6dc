// Figures in the plane of a study of fits: where a pushed plate goes, and what it stands on.

#include "study/study_fits.h"

#include <math.h>
#include <stdio.h>

enum { PLANE_ELLIPSE_POINTS = 60, PLANE_MAX_VARIANTS = 20 };

// ---- outlines ----------------------------------------------------------------------------------

// The first plate of a model, in its link's plane.
typedef struct study_outline {
    double *x, *y;
    uint32_t count;
} study_outline;

static const ns_geom_def* plane_find_plate(const ns_model* model) {
    for (uint32_t k = 0; k < ns_model_get_sizes(model).ngeom; k++) {
        const ns_geom_def* g = ns_model_geom(model, k);
        if (g->type == NS_GEOM_POLYGON || g->type == NS_GEOM_ELLIPSE) return g;
    }
    return NULL;
}

static bool plane_make_outline(ns_study* s, const ns_model* model, study_outline* out) {
    nsi_figures* charts = &s->charts;
    const ns_geom_def* g = plane_find_plate(model);
    if (!g)
        return nsi_study_fail(s, NS_ERR_PARSE,
                              "a figure of outlines needs a model with a polygon or an ellipse");
    out->count = g->type == NS_GEOM_POLYGON ? g->nvertex : PLANE_ELLIPSE_POINTS;
    out->x = nsi_figures_zeros(charts, out->count, sizeof(double));
    out->y = nsi_figures_zeros(charts, out->count, sizeof(double));
    if (!out->x || !out->y) return nsi_study_fail_nomem(s);
    for (uint32_t k = 0; k < out->count; k++) {
        double angle = 2.0 * acos(-1.0) * k / PLANE_ELLIPSE_POINTS;
        bool polygon = g->type == NS_GEOM_POLYGON;
        double x = polygon ? g->vertices[3 * (size_t)k] : g->size[0] * cos(angle);
        double y = polygon ? g->vertices[3 * (size_t)k + 1] : g->size[1] * sin(angle);
        const double* q =
            g->pose.quaternion; // turned about z alone, as far as it is seen from above
        double turn = 2.0 * atan2(q[3], q[0]), c = cos(turn), n = sin(turn);
        out->x[k] = g->pose.position[0] + c * x - n * y;
        out->y[k] = g->pose.position[1] + n * x + c * y;
    }
    return true;
}

// A path, and the outline at its end.
static bool plane_add_path(ns_study* s, const ns_table* t, uint32_t first, uint32_t end,
                           const uint32_t columns[3], const study_outline* plate, const char* name,
                           const char* style, ns_plane_curve curves[2]) {
    uint32_t count = end - first;
    double* x = nsi_figures_zeros(&s->charts, 2 * (size_t)(count + plate->count), sizeof *x);
    if (!x) return nsi_study_fail_nomem(s);
    double *y = x + count, *ox = y + count, *oy = ox + plate->count, last[3] = {NAN, NAN, NAN};
    for (uint32_t k = 0; k < count; k++) {
        x[k] = ns_table_at(t, first + k, columns[0]);
        y[k] = ns_table_at(t, first + k, columns[1]);
        double angle = ns_table_at(t, first + k, columns[2]);
        if (isfinite(x[k]) && isfinite(y[k]) && isfinite(angle)) {
            last[0] = x[k], last[1] = y[k], last[2] = angle;
        }
    }
    double cosine = cos(last[2]), sine = sin(last[2]);
    for (uint32_t k = 0; k < plate->count; k++) {
        ox[k] = last[0] + cosine * plate->x[k] - sine * plate->y[k];
        oy[k] = last[1] + sine * plate->x[k] + cosine * plate->y[k];
    }
    curves[0] = (ns_plane_curve){name, style, x, y, count, false};
    curves[1] = (ns_plane_curve){NULL, style, ox, oy, plate->count, true};
    return true;
}

static bool plane_find_columns(study_fits* f, const study_figure* of, const ns_table* t,
                               const char* path, const char* ending, uint32_t columns[3]) {
    for (int k = 0; k < 3; k++) {
        char name[300];
        snprintf(name, sizeof name, "%s%s", of->channels.data[k], ending);
        columns[k] = ns_table_column(t, name);
        if (columns[k] == NSI_NONE) return nsi_study_fail_column(f, t, path, of->channels.data[k]);
    }
    return true;
}

// Recorded and predicted, one panel for each recording.
static bool plane_add_panels(study_fits* f, const study_figure* of, const study_outline* plate,
                             const ns_table* tables, const char* const* paths,
                             ns_plane_chart* out) {
    ns_study* s = f->study;
    nsi_figures* charts = &s->charts;
    uint32_t width = 2 * (of->nfit + 1);
    ns_plane_panel* panels = nsi_figures_zeros(charts, of->recordings.count, sizeof *panels);
    ns_plane_curve* curves =
        nsi_figures_zeros(charts, (size_t)of->recordings.count * width, sizeof *curves);
    bool done = panels && curves;
    if (!done) return nsi_study_fail_nomem(s);
    for (uint32_t r = 0; r < of->recordings.count && done; r++) {
        ns_plane_panel* panel = &panels[out->npanel];
        ns_plane_curve* mine = curves + (size_t)r * width;
        uint32_t used = 0, first, end, columns[3];
        for (uint32_t k = 0; k <= of->nfit && done; k++) {
            uint32_t from = k > 0 ? k - 1 : 0; // the first one's table has what was recorded
            if (!nsi_study_find_recording(&tables[from], of->recordings.data[r], &first, &end))
                continue;
            done = plane_find_columns(f, of, &tables[from], paths[from], k > 0 ? "/after" : "",
                                      columns) &&
                   plane_add_path(s, &tables[from], first, end, columns, plate,
                                  k > 0 ? of->fits[from]->label : "recorded",
                                  k > 0 ? nsi_study_line_styles[from] : "recorded", mine + used);
            used += 2;
        }
        if (used == 0) {
            nsi_study_note(s, "%s has no recording %g: the figure is without it", paths[0],
                           of->recordings.data[r]);
            continue;
        }
        panel->title = nsi_figures_text(charts, "recording %g", of->recordings.data[r]);
        if (!panel->title) return nsi_study_fail_nomem(s);
        panel->curves = mine;
        panel->ncurve = used;
        out->npanel++;
    }
    out->panels = panels;
    return done;
}

// Every curve as rows of a table: which panel, which curve, x, y.
static bool plane_add_numbers(ns_study* s, ns_figure* chart) {
    nsi_figures* charts = &s->charts;
    const ns_plane_chart* p = &chart->as.plane;
    size_t rows = 0, row = 0;
    for (uint32_t n = 0; n < p->npanel; n++) {
        for (uint32_t c = 0; c < p->panels[n].ncurve; c++) rows += p->panels[n].curves[c].count;
        rows += p->panels[n].ndot;
    }
    const char** texts = nsi_figures_zeros(charts, 2 * rows, sizeof *texts);
    double* numbers = nsi_figures_zeros(charts, 3 * rows, sizeof *numbers);
    ns_figure_column* columns = nsi_figure_table(charts, chart, 5, (uint32_t)rows);
    if (!texts || !numbers || !columns) return nsi_study_fail_nomem(s);
    for (uint32_t n = 0; n < p->npanel; n++) {
        const ns_plane_panel* panel = &p->panels[n];
        const char* name = "";
        for (uint32_t c = 0; c < panel->ncurve; c++) {
            const ns_plane_curve* curve = &panel->curves[c];
            if (curve->name) name = curve->name;
            for (uint32_t k = 0; k < curve->count; k++, row++) {
                texts[row] = panel->title;
                texts[rows + row] =
                    curve->closed ? nsi_figures_text(charts, "%s, outline", name) : name;
                numbers[row] = curve->x[k];
                numbers[rows + row] = curve->y[k];
                numbers[2 * rows + row] = NAN;
                if (!texts[rows + row]) return nsi_study_fail_nomem(s);
            }
        }
        for (uint32_t k = 0; k < panel->ndot; k++, row++) {
            texts[row] = panel->title;
            texts[rows + row] = panel->dots[k].name;
            numbers[row] = panel->dots[k].x;
            numbers[rows + row] = panel->dots[k].y;
            numbers[2 * rows + row] = panel->dots[k].size;
        }
    }
    columns[0] = (ns_figure_column){.name = "panel", .texts = texts};
    columns[1] = (ns_figure_column){.name = "what", .texts = texts + rows};
    columns[2] = (ns_figure_column){.name = "x, m", .numbers = numbers};
    columns[3] = (ns_figure_column){.name = "y, m", .numbers = numbers + rows};
    columns[4] = (ns_figure_column){.name = "size", .numbers = numbers + 2 * rows};
    return true;
}

bool nsi_study_add_outlines(study_fits* f, const study_figure* of) {
    ns_study* s = f->study;
    ns_hybrid* hybrid = NULL;
    study_outline plate;
    ns_table tables[STUDY_MAX_SHOWN];
    const char* paths[STUDY_MAX_SHOWN];
    memset(tables, 0, sizeof tables);
    bool done = nsi_study_load_model(s, nsi_study_path(s, s->folder, of->model), NULL, &hybrid) &&
                plane_make_outline(s, ns_hybrid_model(hybrid), &plate);
    for (uint32_t k = 0; k < of->nfit && done; k++) {
        done = nsi_study_read_predictions(f, of->fits[k], &paths[k], &tables[k]);
    }
    ns_plane_chart plane = {.unit = "m", .max = 1.0};
    done = done && plane_add_panels(f, of, &plate, tables, paths, &plane);
    ns_figure* chart =
        done ? nsi_figures_add(&s->charts, NS_FIGURE_PLANE, "outlines", of->title) : NULL;
    if (chart) chart->as.plane = plane;
    if (done && !chart) done = nsi_study_fail_nomem(s);
    done = done && plane_add_numbers(s, chart);
    for (uint32_t k = 0; k < of->nfit; k++) ns_table_free(&tables[k]);
    ns_hybrid_free(hybrid);
    return done;
}

// ---- supports ----------------------------------------------------------------------------------

// Is this the friction of a pair in which the geometry is: contact/<a>:<b>/mu?
static bool plane_is_friction_of(const char* param, const char* geom) {
    size_t length = strlen(geom), all = strlen(param);
    if (strncmp(param, "contact/", 8) != 0 || all < 12 || strcmp(param + all - 3, "/mu") != 0) {
        return false;
    }
    const char *pair = param + 8, *end = param + all - 3;
    if ((size_t)(end - pair) <= length) return false;
    bool first = strncmp(pair, geom, length) == 0 && pair[length] == ':';
    const char* last = end - length;
    return first || (strncmp(last, geom, length) == 0 && last > pair && last[-1] == ':');
}

// The friction of a point, of the first pair that it is in. NaN: it touches nothing.
static double plane_friction_of(const ns_hybrid* hybrid, const char* point) {
    const ns_model* model = ns_hybrid_model(hybrid);
    ns_system_options options = ns_default_system_options();
    ns_hybrid_apply(hybrid, &options);
    for (uint32_t k = 0; k < ns_model_get_sizes(model).nparam; k++) {
        const ns_param* p = ns_model_param(model, k);
        if (!plane_is_friction_of(p->name, point)) continue;
        double value = p->value;
        for (uint32_t i = 0; i < options.nset; i++) {
            if (ns_glob_match(options.set[i].pattern, p->name)) value = options.set[i].value;
        }
        return value;
    }
    return NAN;
}

static bool plane_add_support_panel(ns_study* s, const ns_hybrid* hybrid, ns_plane_panel* out,
                                    double* most) {
    nsi_figures* charts = &s->charts;
    const ns_model* model = ns_hybrid_model(hybrid);
    uint32_t count = ns_model_get_sizes(model).ngeom;
    study_outline plate;
    ns_plane_curve* curve = nsi_figures_zeros(charts, 1, sizeof *curve);
    ns_plane_dot* dots = nsi_figures_zeros(charts, count, sizeof *dots);
    if (!curve || !dots) return nsi_study_fail_nomem(s);
    if (!plane_make_outline(s, model, &plate)) return false;
    *curve = (ns_plane_curve){NULL, "recorded", plate.x, plate.y, plate.count, true};
    for (uint32_t k = 0; k < count; k++) {
        const ns_geom_def* g = ns_model_geom(model, k);
        double mu =
            g->type == NS_GEOM_POINTS && g->nvertex == 1 ? plane_friction_of(hybrid, g->name) : NAN;
        if (isnan(mu)) continue;
        ns_plane_dot* dot = &dots[out->ndot++];
        *dot = (ns_plane_dot){g->pose.position[0] + g->vertices[0],
                              g->pose.position[1] + g->vertices[1], mu,
                              nsi_figures_text(charts, "%s", g->name)};
        *most = fmax(*most, mu);
        if (!dot->name) return nsi_study_fail_nomem(s);
    }
    const char* name = ns_hybrid_variant(hybrid);
    out->title = nsi_figures_text(charts, "%s", name ? name : "");
    out->dots = dots;
    out->curves = curve;
    out->ncurve = 1;
    return out->title || nsi_study_fail_nomem(s);
}

bool nsi_study_add_supports(study_fits* f, const study_figure* of) {
    ns_study* s = f->study;
    nsi_figures* charts = &s->charts;
    ns_plane_panel* panels = nsi_figures_zeros(charts, PLANE_MAX_VARIANTS, sizeof *panels);
    const char* folder = nsi_study_path(s, s->output, of->fits[0]->name);
    const char* path = folder ? nsi_study_path(s, folder, "fitted.yaml") : NULL;
    if (!panels || !path) return nsi_study_fail_nomem(s);
    ns_plane_chart plane = {.panels = panels, .unit = "m", .max = 0.0};
    nsi_fit_spec* spec = NULL;
    if (!nsi_study_take(s, nsi_study_read_spec(f, of->fits[0], &spec, &s->error))) return false;

    // A panel for each variant of the model.
    bool done = true;
    uint32_t count = spec->variants.count > 0 ? spec->variants.count : 1;
    for (uint32_t k = 0; k < count && done && plane.npanel < PLANE_MAX_VARIANTS; k++) {
        ns_hybrid* hybrid = NULL;
        const char* variant = spec->variants.count > 0 ? spec->variants.data[k].name : NULL;
        done = nsi_study_load_model(s, path, variant, &hybrid) &&
               plane_add_support_panel(s, hybrid, &panels[plane.npanel++], &plane.max);
        ns_hybrid_free(hybrid);
    }
    nsi_fit_spec_free(spec);
    if (!done) return false;

    ns_figure* chart = nsi_figures_add(charts, NS_FIGURE_PLANE, "supports", of->title);
    if (!chart) return nsi_study_fail_nomem(s);
    chart->as.plane = plane;
    return plane_add_numbers(s, chart);
}
