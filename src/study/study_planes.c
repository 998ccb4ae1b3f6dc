// Figures in the plane of a study of fits: where a pushed plate goes, and what it stands on.

#include "study/study_fits.h"

#include "contact/law.h"

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

// What the outlines of a figure are made from.
typedef struct study_pushes {
    study_fits* f;
    const study_figure* of;
    study_outline plate;
    ns_table tables[STUDY_MAX_SHOWN]; // predictions of each fit
    const char* paths[STUDY_MAX_SHOWN];
} study_pushes;

// Curves of a recording: as it was recorded, and as each fit predicts it. The first table has both.
static bool plane_add_recording(const study_pushes* p, double recording, ns_plane_curve* curves,
                                uint32_t* count) {
    *count = 0;
    for (uint32_t k = 0; k <= p->of->nfit; k++) {
        uint32_t from = k > 0 ? k - 1 : 0, first, end, columns[3] = {0};
        const ns_table* t = &p->tables[from];
        const char* label = k > 0 ? p->of->fits[from]->label : "recorded";
        const char* style = k > 0 ? nsi_study_line_styles[from] : "recorded";
        if (!nsi_study_find_recording(t, recording, &first, &end)) continue;
        if (!plane_find_columns(p->f, p->of, t, p->paths[from], k > 0 ? "/after" : "", columns) ||
            !plane_add_path(p->f->study, t, first, end, columns, &p->plate, label, style,
                            curves + *count)) {
            return false;
        }
        *count += 2;
    }
    return true;
}

// One panel for each recording.
static bool plane_add_panels(const study_pushes* p, ns_plane_chart* out) {
    ns_study* s = p->f->study;
    const nsi_number_list* recordings = &p->of->recordings;
    uint32_t width = 2 * (p->of->nfit + 1), count;
    ns_plane_panel* panels = nsi_figures_zeros(&s->charts, recordings->count, sizeof *panels);
    ns_plane_curve* curves =
        nsi_figures_zeros(&s->charts, (size_t)recordings->count * width, sizeof *curves);
    if (!panels || !curves) return nsi_study_fail_nomem(s);
    out->panels = panels;

    for (uint32_t r = 0; r < recordings->count; r++, curves += width) {
        double recording = recordings->data[r];
        if (!plane_add_recording(p, recording, curves, &count)) return false;
        if (count == 0) {
            nsi_study_note(s, "%s has no recording %g: the figure is without it", p->paths[0],
                           recording);
            continue;
        }
        const char* title = nsi_figures_text(&s->charts, "recording %g", recording);
        if (!title) return nsi_study_fail_nomem(s);
        panels[out->npanel++] = (ns_plane_panel){.title = title, .curves = curves, .ncurve = count};
    }
    return true;
}

// Columns of the table of a figure, as they are filled.
typedef struct study_plane_rows {
    const char **panel, **what;
    double *x, *y, *size;
    size_t count;
} study_plane_rows;

static void plane_add_row(study_plane_rows* r, const char* panel, const char* what, double x,
                          double y, double size) {
    r->panel[r->count] = panel;
    r->what[r->count] = what;
    r->x[r->count] = x;
    r->y[r->count] = y;
    r->size[r->count++] = size;
}

// Curves point by point, then dots; an outline goes by the name of the path before it.
static bool plane_add_panel_rows(ns_study* s, const ns_plane_panel* panel, study_plane_rows* rows) {
    const char* name = "";
    for (uint32_t c = 0; c < panel->ncurve; c++) {
        const ns_plane_curve* curve = &panel->curves[c];
        if (curve->name) name = curve->name;
        const char* what = curve->closed ? nsi_figures_text(&s->charts, "%s, outline", name) : name;
        if (!what) return nsi_study_fail_nomem(s);
        for (uint32_t k = 0; k < curve->count; k++) {
            plane_add_row(rows, panel->title, what, curve->x[k], curve->y[k], NAN);
        }
    }
    for (uint32_t k = 0; k < panel->ndot; k++) {
        const ns_plane_dot* dot = &panel->dots[k];
        plane_add_row(rows, panel->title, dot->name, dot->x, dot->y, dot->size);
    }
    return true;
}

// Every curve as rows of a table: which panel, which curve, x, y.
static bool plane_add_numbers(ns_study* s, ns_figure* chart) {
    nsi_figures* charts = &s->charts;
    const ns_plane_chart* p = &chart->as.plane;

    // One row per point of a curve and per dot.
    size_t count = 0;
    for (uint32_t n = 0; n < p->npanel; n++) {
        for (uint32_t c = 0; c < p->panels[n].ncurve; c++) count += p->panels[n].curves[c].count;
        count += p->panels[n].ndot;
    }

    // Memory, one column after the other.
    const char** texts = nsi_figures_zeros(charts, 2 * count, sizeof *texts);
    double* numbers = nsi_figures_zeros(charts, 3 * count, sizeof *numbers);
    ns_figure_column* columns = nsi_figure_table(charts, chart, 5, (uint32_t)count);
    if (!texts || !numbers || !columns) return nsi_study_fail_nomem(s);

    study_plane_rows rows = {texts,           texts + count,       numbers,
                             numbers + count, numbers + 2 * count, 0};
    columns[0] = (ns_figure_column){.name = "panel", .texts = rows.panel};
    columns[1] = (ns_figure_column){.name = "what", .texts = rows.what};
    columns[2] = (ns_figure_column){.name = "x, m", .numbers = rows.x};
    columns[3] = (ns_figure_column){.name = "y, m", .numbers = rows.y};
    columns[4] = (ns_figure_column){.name = "size", .numbers = rows.size};

    // Fill the rows, panel by panel.
    for (uint32_t n = 0; n < p->npanel; n++) {
        if (!plane_add_panel_rows(s, &p->panels[n], &rows)) return false;
    }
    return true;
}

bool nsi_study_add_outlines(study_fits* f, const study_figure* of) {
    ns_study* s = f->study;
    ns_hybrid* hybrid = NULL;
    study_pushes p = {.f = f, .of = of};
    const char* path = nsi_study_path(s, s->folder, of->model);
    bool done = nsi_study_load_model(s, path, NULL, &hybrid) &&
                plane_make_outline(s, ns_hybrid_model(hybrid), &p.plate);
    for (uint32_t k = 0; k < of->nfit && done; k++) {
        done = nsi_study_read_predictions(f, of->fits[k], &p.paths[k], &p.tables[k]);
    }

    ns_plane_chart plane = {.unit = "m", .max = 1.0};
    done = done && plane_add_panels(&p, &plane);
    ns_figure* chart =
        done ? nsi_figures_add(&s->charts, NS_FIGURE_PLANE, "outlines", of->title) : NULL;
    if (chart) chart->as.plane = plane;
    if (done && !chart) done = nsi_study_fail_nomem(s);
    done = done && plane_add_numbers(s, chart);
    for (uint32_t k = 0; k < of->nfit; k++) ns_table_free(&p.tables[k]);
    ns_hybrid_free(hybrid);
    return done;
}

// ---- supports ----------------------------------------------------------------------------------

// The parameter that is the friction of a pair; NULL when there is none.
static const ns_param* plane_find_friction(const ns_model* model, uint32_t pair) {
    uint32_t slot = nsi_contact_find_slot("mu");
    for (uint32_t k = 0; k < ns_model_get_sizes(model).nparam; k++) {
        const ns_param* param = ns_model_param(model, k);
        bool of_pair = param->kind == NS_PARAM_CONTACT && param->owner == pair;
        if (of_pair && param->component == slot) return param;
    }
    return NULL;
}

// The friction of a point, of the first pair that it is in. NaN: it touches nothing.
static double plane_friction_of(const ns_hybrid* hybrid, const char* point) {
    const ns_model* model = ns_hybrid_model(hybrid);
    ns_system_options options = ns_default_system_options();
    ns_hybrid_apply(hybrid, &options);
    for (uint32_t k = 0; k < ns_model_get_sizes(model).ncontact; k++) {
        const ns_contact_def* pair = ns_model_contact(model, k);
        if (strcmp(pair->a, point) != 0 && strcmp(pair->b, point) != 0) continue;
        const ns_param* mu = plane_find_friction(model, k);
        double value = mu ? mu->value : pair->mu;
        for (uint32_t i = 0; i < options.nset && mu; i++) {
            if (ns_glob_match(options.set[i].pattern, mu->name)) value = options.set[i].value;
        }
        return value;
    }
    return NAN;
}

// The outline of a model, and a disc for each of its points that touches something.
static bool plane_add_support_panel(ns_study* s, const ns_hybrid* hybrid, ns_plane_panel* out,
                                    double* most) {
    nsi_figures* charts = &s->charts;
    const ns_model* model = ns_hybrid_model(hybrid);
    uint32_t count = ns_model_get_sizes(model).ngeom;

    // The outline of the plate.
    study_outline plate;
    ns_plane_curve* curve = nsi_figures_zeros(charts, 1, sizeof *curve);
    ns_plane_dot* dots = nsi_figures_zeros(charts, count, sizeof *dots);
    if (!curve || !dots) return nsi_study_fail_nomem(s);
    if (!plane_make_outline(s, model, &plate)) return false;
    *curve = (ns_plane_curve){NULL, "recorded", plate.x, plate.y, plate.count, true};

    // As large as its friction.
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

    // The panel is named after the variant.
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

    // The fitted model of the first fit, and the variants of its spec.
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

    // One chart: the discs of all panels share its scale.
    ns_figure* chart = nsi_figures_add(charts, NS_FIGURE_PLANE, "supports", of->title);
    if (!chart) return nsi_study_fail_nomem(s);
    chart->as.plane = plane;
    return plane_add_numbers(s, chart);
}
