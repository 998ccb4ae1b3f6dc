// The posterior of a fit as tables, notes and figures, and its samples as a table.

#include "fit/posterior_report.h"

#include "fit/posterior_figures.h"
#include "fit/posterior_summary.h"
#include "neuralsim/table.h"

#include <math.h>
#include <stdio.h>

enum {
    MAX_TABLE = 200 // rows of the table
};

// R-hat above it, or fewer effective samples: chains were too short, or do not agree.
static const double GOOD_RHAT = 1.01, GOOD_SIZE = 400.0;

// ---- figures ------------------------------------------------------------------------------------

// Parameters, coefficients and noise levels; states and weights of networks mean nothing by
// themselves.
static bool is_number_shown(const ns_posterior_number* number) {
    bool weight = number->kind == NS_POSTERIOR_WEIGHT && strncmp(number->name, "weight ", 7) == 0;
    return number->kind != NS_POSTERIOR_STATE && !weight;
}

static uint32_t choose_corner(const ns_posterior* p, uint32_t chosen[NSI_MAX_CORNER]) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < p->n && count < NSI_MAX_CORNER; k++) {
        if (is_number_shown(&p->numbers[k]) && p->numbers[k].kind != NS_POSTERIOR_NOISE) {
            chosen[count++] = k;
        }
    }
    return count;
}

ns_status nsi_posterior_add_figures(const nsi_result* a, nsi_figures* figures, ns_error* error) {
    const ns_posterior* p = a->posterior;
    uint32_t chosen[NSI_MAX_CORNER], n = p ? choose_corner(p, chosen) : 0;
    if (n == 0) return NS_OK;

    // Samples of equal weight, fewer than there are.
    const size_t all = (size_t)p->chains * p->count;
    uint32_t count = all < NSI_MAX_CORNER_POINTS ? (uint32_t)all : NSI_MAX_CORNER_POINTS;
    const char** names = nsi_figures_zeros(figures, n, sizeof *names);
    double* values = nsi_figures_zeros(figures, (size_t)n * count, sizeof *values);
    if (!names || !values) return nsi_fail_nomem(error);
    for (uint32_t i = 0; i < count; i++) {
        size_t row = nsi_posterior_pick(p, (i + 0.5) / count);
        for (uint32_t k = 0; k < n; k++) {
            values[(size_t)i * n + k] = p->samples[row * p->n + chosen[k]];
        }
    }
    for (uint32_t k = 0; k < n; k++) names[k] = p->numbers[chosen[k]].name;
    return nsi_corner_add_figure(figures, names, n, values, count, error);
}

// Of the first recording.
static ns_status add_bands(const nsi_traces* t, const ns_fit* f, nsi_figures* figures,
                           ns_error* error) {
    const nsi_trace* trace = &t->list.data[0];
    uint32_t rows = trace->rows < NSI_MAX_BAND_ROWS ? trace->rows : NSI_MAX_BAND_ROWS;
    uint32_t n = t->nchannel < NSI_MAX_BAND_PANELS ? t->nchannel : NSI_MAX_BAND_PANELS;
    double* numbers = nsi_figures_zeros(figures, (size_t)rows * (1 + 3 * n), sizeof *numbers);
    const char** names = nsi_figures_zeros(figures, n, sizeof *names);
    if (!numbers || !names) return nsi_fail_nomem(error);

    // Recorded numbers, and both ends of the band.
    const double* from[3] = {t->recorded, t->bands[0], t->bands[1]};
    memcpy(numbers, t->time + trace->first, rows * sizeof *numbers);
    for (uint32_t c = 0; c < n; c++) {
        names[c] = ns_dataset_channel(f->data[NS_ROLE_TRAIN], c)->name;
        for (uint32_t i = 0; i < 3 * rows; i++) {
            size_t at = ((size_t)trace->first + i % rows) * t->nchannel + c;
            numbers[(size_t)(1 + 3 * c) * rows + i] = from[i / rows][at];
        }
    }
    return nsi_bands_add_figure(figures, names, n, numbers, rows, error);
}

ns_status nsi_posterior_report_bands(ns_report* report, const nsi_traces* t, const ns_fit* f,
                                     ns_error* error) {
    if (!t->bands[0] || t->list.count == 0) return NS_OK;
    ns_status status = add_bands(t, f, nsi_report_figures(report), error);
    if (status != NS_OK) return status;
    nsi_section_show_figure(ns_report_add_section(report, "Prediction bands"), "bands");
    return ns_report_check(report, error);
}

// ---- the section --------------------------------------------------------------------------------

static void report_numbers(ns_section* section, const ns_posterior* p) {
    const ns_report_column columns[] = {{.name = "parameter"},
                                        {.name = "unit"},
                                        {.name = "mean", .format = NS_FORMAT_ESTIMATE},
                                        {.name = "5 %", .format = NS_FORMAT_NUMBER, .digits = 4},
                                        {.name = "median", .format = NS_FORMAT_NUMBER, .digits = 4},
                                        {.name = "95 %", .format = NS_FORMAT_NUMBER, .digits = 4},
                                        {.name = "R-hat", .format = NS_FORMAT_NUMBER, .digits = 4},
                                        {.name = "ESS", .format = NS_FORMAT_COUNT}};

    // A row for each number that is shown; R-hat and ESS are those of chains.
    ns_report_table* table = ns_section_add_table(section, "posterior", NULL, columns, 8);
    uint32_t rows = 0;
    for (uint32_t k = 0; k < p->n && rows < MAX_TABLE; k++) {
        const ns_posterior_number* number = &p->numbers[k];
        const ns_chain_summary* s = &number->summary;
        if (!is_number_shown(number)) continue;
        bool sampled = p->method == NS_POSTERIOR_HMC;
        const ns_cell row[] = {ns_cell_text(number->name),
                               ns_cell_text(number->unit),
                               ns_cell_estimate(s->mean, s->deviation),
                               ns_cell_number(s->lower),
                               ns_cell_number(s->median),
                               ns_cell_number(s->upper),
                               sampled ? ns_cell_number(s->rhat) : ns_cell_missing(),
                               sampled ? ns_cell_number(floor(s->ess_bulk)) : ns_cell_missing()};
        ns_report_table_add_row(table, row, 8);
        rows++;
    }
}

// What was sampled, how, and with which priors.
static void note_method(ns_section* section, const ns_posterior* p) {
    uint32_t counts[4] = {0};
    for (uint32_t k = 0; k < p->n; k++) counts[p->numbers[k].kind]++;
    bool networks = false; // as nsi_residual_density_name() calls their weights
    for (uint32_t k = 0; k < p->n; k++) {
        networks = networks || strncmp(p->numbers[k].name, "weight ", 7) == 0;
    }
    const char* method = p->method == NS_POSTERIOR_HMC ? "the no-U-turn sampler (HMC)"
                         : networks ? "a Gaussian at the maximum, each draw moved by a refit to"
                                      " perturbed data and Metropolis steps"
                                    : "a Gaussian at the maximum (Laplace approximation)";
    nsi_section_add_notef(section, NS_NOTE_TEXT,
                          "Posterior by %s: %u chains of %u samples of %u unknowns (%u parameters,"
                          " %u weights, %u numbers of initial states, %u noise levels), %s s.",
                          method, p->chains, p->count, p->n, counts[NS_POSTERIOR_PARAMETER],
                          counts[NS_POSTERIOR_WEIGHT], counts[NS_POSTERIOR_STATE],
                          counts[NS_POSTERIOR_NOISE], nsi_format(p->seconds, 3).text);
    ns_section_add_note(section, NS_NOTE_TEXT,
                        "Priors: Gaussian where prior_sigma is given, otherwise flat within the"
                        " bounds; flat for initial states, and for the logarithm of noise levels of"
                        " channels without a sigma.");
    nsi_section_show_figure(section, "corner");
}

static void note_modes(ns_section* section, const ns_posterior* p) {
    if (p->nmode < 2) return;
    nsi_text_builder text = {.allocator = ns_default_allocator()};
    for (uint32_t k = 0; k < p->nmode; k++) {
        nsi_text_add(&text, "%s%s %%", k == 0 ? "" : ", ",
                     nsi_format(100.0 * p->probability[k], 3).text);
    }
    nsi_text_add_bytes(&text, "", 1);
    nsi_section_add_notef(section, NS_NOTE_WARNING,
                          "%u different solutions explain the data. Their probabilities, by their"
                          " Laplace approximations: %s. R-hat is within each.",
                          p->nmode, text.failed ? "?" : text.text.data);
    nsi_array_free(&text.allocator, &text.text);
}

// Signs that samples are not those of the posterior.
static void note_problems(ns_section* section, const ns_posterior* p) {
    if (p->method != NS_POSTERIOR_HMC) return;

    // Numbers with the largest R-hat and the smallest sample size.
    const ns_posterior_number *worst = &p->numbers[0], *fewest = &p->numbers[0];
    for (uint32_t k = 1; k < p->n; k++) {
        const ns_posterior_number* number = &p->numbers[k];
        if (number->summary.rhat > worst->summary.rhat) worst = number;
        if (number->summary.ess_bulk < fewest->summary.ess_bulk) fewest = number;
    }

    // Warnings, the most serious first.
    if (p->divergences > 0) {
        nsi_section_add_notef(section, NS_NOTE_WARNING,
                              "%u of %u trajectories diverged: intervals may be too narrow; give"
                              " target_accept: 0.95, or priors",
                              p->divergences, p->chains * p->count);
    }
    if (worst->summary.rhat > GOOD_RHAT) {
        nsi_section_add_notef(section, NS_NOTE_WARNING,
                              "R-hat of %s is %s, above %g: chains disagree; give more warmup and"
                              " samples, or priors",
                              worst->name, nsi_format(worst->summary.rhat, 4).text, GOOD_RHAT);
    }
    if (fewest->summary.ess_bulk < GOOD_SIZE) {
        nsi_section_add_notef(section, NS_NOTE_WARNING,
                              "only %.0f effective samples of %s: give more samples",
                              fewest->summary.ess_bulk, fewest->name);
    }
    if (p->truncated > 0) {
        nsi_section_add_notef(section, NS_NOTE_WARNING,
                              "%u of %u trajectories were cut off at their largest length",
                              p->truncated, p->chains * p->count);
    }
}

void nsi_posterior_report(ns_report* report, const nsi_result* a) {
    const ns_posterior* p = a->posterior;
    if (!p) return;
    ns_section* section = ns_report_add_section(report, "Posterior");
    note_problems(section, p);
    note_modes(section, p);
    report_numbers(section, p);
    note_method(section, p);
}

// ---- samples ------------------------------------------------------------------------------------

ns_status nsi_posterior_write_samples(const ns_posterior* p, const char* path,
                                      const ns_allocator* allocator, ns_error* error) {
    enum { FIRST = 6 };
    static const char* const first[FIRST] = {"chain",  "draw",        "mode",
                                             "weight", "log_density", "divergent"};
    const uint32_t ncol = FIRST + p->n;
    const char** names = nsi_alloc(allocator, ncol * sizeof *names);
    double* line = nsi_alloc(allocator, ncol * sizeof *line);
    ns_table_writer* writer = NULL;
    ns_status status = names && line ? NS_OK : nsi_fail_nomem(error);
    if (status == NS_OK) status = ns_table_writer_replace(path, allocator, &writer, error);
    if (status == NS_OK) {
        for (uint32_t k = 0; k < ncol; k++) {
            names[k] = k < FIRST ? first[k] : p->numbers[k - FIRST].name;
        }
        ns_table_writer_put_names(writer, names, ncol);
        for (uint32_t c = 0; c < p->chains; c++) {
            double weight = nsi_posterior_weight(p, c);
            for (uint32_t k = 0; k < p->count; k++) {
                size_t at = (size_t)c * p->count + k;
                const double head[FIRST] = {
                    c, k, p->mode[c], weight, p->log_density[at], p->divergent[at]};
                memcpy(line, head, sizeof head);
                memcpy(line + FIRST, p->samples + at * p->n, p->n * sizeof *line);
                ns_table_writer_put_row(writer, line, ncol);
            }
        }
        status = ns_table_writer_finish(writer, error);
    }
    nsi_free(allocator, names);
    nsi_free(allocator, line);
    return status;
}
