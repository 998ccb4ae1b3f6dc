// Ranges for domain randomisation, from the table of a posterior's samples.

#include "fit/posterior_summary.h"
#include "neuralsim/posterior.h"
#include "neuralsim/table.h"

#include <math.h>
#include <stdlib.h>

#include <jansson.h>

// Columns of samples.csv that are parameters: not about the sample, initial states, weights or
// noise.
bool nsi_is_sampled_parameter(const char* name) {
    static const char* const others[] = {"chain",     "draw",    "mode",    "weight", "log_density",
                                         "divergent", "window ", "weight ", "noise/"};
    for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
        size_t size = strlen(others[k]);
        bool begins = others[k][size - 1] == ' ' || others[k][size - 1] == '/';
        if (begins ? strncmp(name, others[k], size) == 0 : strcmp(name, others[k]) == 0)
            return false;
    }
    return true;
}

typedef struct range_sample {
    double value, weight;
} range_sample;

static int compare_range_samples(const void* a, const void* b) {
    const range_sample *x = a, *y = b;
    return (x->value > y->value) - (x->value < y->value);
}

// Of sorted samples whose weights add up to 1.
static double range_quantile(const range_sample* sorted, uint32_t count, double p) {
    double below = 0.0;
    for (uint32_t k = 0; k < count; k++) {
        below += sorted[k].weight;
        if (below >= p) return sorted[k].value;
    }
    return sorted[count - 1].value;
}

// Mean and standard deviation of a column, with weights.
static void range_moments(const ns_table* t, uint32_t column, const double* weight, double* mean,
                          double* deviation) {
    double square = 0.0;
    *mean = 0.0;
    for (uint32_t k = 0; k < t->nrow; k++) *mean += weight[k] * ns_table_at(t, k, column);
    for (uint32_t k = 0; k < t->nrow; k++) {
        double off = ns_table_at(t, k, column) - *mean;
        square += weight[k] * off * off;
    }
    *deviation = sqrt(square);
}

static double range_correlation(const ns_table* t, uint32_t a, uint32_t b, const double* weight) {
    double ma, mb, da, db, sum = 0.0;
    range_moments(t, a, weight, &ma, &da);
    range_moments(t, b, weight, &mb, &db);
    for (uint32_t k = 0; k < t->nrow; k++) {
        sum += weight[k] * (ns_table_at(t, k, a) - ma) * (ns_table_at(t, k, b) - mb);
    }
    return da > 0.0 && db > 0.0 ? sum / (da * db) : a == b;
}

static json_t* weighted_range(const ns_table* t, uint32_t column, const double* weight,
                              range_sample* sorted, double probability) {
    double mean, deviation;
    range_moments(t, column, weight, &mean, &deviation);
    for (uint32_t k = 0; k < t->nrow; k++) {
        sorted[k] = (range_sample){ns_table_at(t, k, column), weight[k]};
    }
    qsort(sorted, t->nrow, sizeof *sorted, compare_range_samples);
    double tail = 0.5 * (1.0 - probability);
    return json_pack("{s:f, s:f, s:f, s:f}", "low", range_quantile(sorted, t->nrow, tail), "high",
                     range_quantile(sorted, t->nrow, 1.0 - tail), "mean", mean, "deviation",
                     deviation);
}

// The whole object; NULL when out of memory.
static json_t* make_ranges(const ns_table* t, const double* weight, range_sample* sorted,
                           double probability) {
    json_t *ranges = json_object(), *names = json_array(), *rows = json_array();
    bool ok = ranges && names && rows;
    for (uint32_t a = 0; a < t->ncol && ok; a++) {
        if (!nsi_is_sampled_parameter(t->names[a])) continue;
        ok = json_object_set_new(ranges, t->names[a],
                                 weighted_range(t, a, weight, sorted, probability)) == 0 &&
             json_array_append_new(names, json_string(t->names[a])) == 0;
        json_t* row = json_array();
        for (uint32_t b = 0; b < t->ncol && ok && row; b++) {
            if (!nsi_is_sampled_parameter(t->names[b])) continue;
            ok = json_array_append_new(row, json_real(range_correlation(t, a, b, weight))) == 0;
        }
        ok = ok && json_array_append_new(rows, row) == 0;
    }
    if (ok) {
        return json_pack("{s:f, s:s, s:o, s:{s:o, s:o}}", "probability", probability, "units", "SI",
                         "parameters", ranges, "correlation", "names", names, "values", rows);
    }
    json_decref(ranges);
    json_decref(names);
    json_decref(rows);
    return NULL;
}

// Weights of samples, which add up to 1.
static ns_status read_sample_weights(const ns_table* t, const char* path, double* weight,
                                     ns_error* error) {
    uint32_t column = ns_table_column(t, "weight");
    double sum = 0.0;
    for (uint32_t k = 0; k < t->nrow && column != NSI_NONE; k++) {
        weight[k] = ns_table_at(t, k, column);
        sum += weight[k];
    }
    if (!(sum > 0.0) || !isfinite(sum)) {
        return nsi_fail(
            error, NS_ERR_PARSE,
            "%s has no samples with a weight; give samples.csv of a fit with a posterior", path);
    }
    for (uint32_t k = 0; k < t->nrow; k++) weight[k] /= sum;
    return NS_OK;
}

ns_status ns_posterior_ranges(const char* path, double probability, ns_text* out, ns_error* error) {
    if (!path || !out || !(probability > 0.0 && probability < 1.0)) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "ns_posterior_ranges: the probability must be between 0 and 1");
    }

    // Read samples and their weights.
    *out = (ns_text){0};
    ns_table t;
    ns_allocator memory = ns_default_allocator();
    ns_table_options options = {.allow_missing = true};
    ns_status status = ns_table_read(path, &options, NULL, &t, error);
    if (status != NS_OK) return status;
    double* weight = nsi_alloc(&memory, (t.nrow + (size_t)1) * sizeof *weight);
    range_sample* sorted = nsi_alloc(&memory, (t.nrow + (size_t)1) * sizeof *sorted);
    status =
        weight && sorted ? read_sample_weights(&t, path, weight, error) : nsi_fail_nomem(error);

    // Write the ranges as JSON.
    if (status == NS_OK) {
        json_t* root = make_ranges(&t, weight, sorted, probability);
        char* text = root ? json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(10)) : NULL;
        nsi_text_builder b = {.allocator = memory};
        if (text) nsi_text_add(&b, "%s\n", text);
        if (!text) b.failed = true;
        status = nsi_text_finish(&b, out, error);
        free(text);
        json_decref(root);
    }

    nsi_free(&memory, weight);
    nsi_free(&memory, sorted);
    ns_table_free(&t);
    return status;
}
