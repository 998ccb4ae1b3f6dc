// Numbers of the runs of a study of fits: errors over seeds and folds, and what is known of the truth.

#include "study/study_fits.h"

#include <math.h>
#include <stdlib.h>

const ns_data_role nsi_study_roles[STUDY_ROLES] = {NS_ROLE_TEST, NS_ROLE_VALIDATION, NS_ROLE_TRAIN};

static int score_compare(const void* a, const void* b) {
    double x = *(const double*)a, y = *(const double*)b;
    return (x > y) - (x < y);
}

study_spread nsi_study_spread_of(const double* values, uint32_t count) {
    double sorted[STUDY_MAX_SEEDS];
    for (uint32_t k = 0; k < count; k++) {
        if (isnan(values[k])) return (study_spread){NAN, NAN, NAN};
        sorted[k] = values[k];
    }
    if (count == 0) return (study_spread){NAN, NAN, NAN};
    qsort(sorted, count, sizeof *sorted, score_compare);
    double low = sorted[(count - 1) / 2], high = sorted[count / 2];
    return (study_spread){isinf(high) ? high : 0.5 * (low + high), sorted[0], sorted[count - 1]};
}

// NaN: there is no such thing.
static double score_number(const ns_score* score, study_quantity what) {
    if (score->windows == 0) return NAN; // no such data
    if (what.kind == STUDY_RMSE_Q) return score->rmse_q;
    if (what.kind == STUDY_RMSE_QD) return score->rmse_qd;
    for (uint32_t k = 0; what.kind == STUDY_MEASURE && k < score->nmetric; k++) {
        if (strcmp(score->metrics[k].name, what.name) == 0) return score->metrics[k].mean;
    }
    for (uint32_t k = 0; what.kind != STUDY_MEASURE && k < score->nhorizon; k++) {
        const ns_horizon_error* h = &score->horizons[k];
        if (fabs(h->seconds - what.seconds) >= 1e-9) continue;
        return what.kind == STUDY_POOLED ? h->pooled : h->median;
    }
    return NAN;
}

const ns_score* nsi_study_example(const study_entry* x, uint32_t number, bool after,
                                  ns_data_role role) {
    uint32_t run = nsi_study_is_folded(x, role) ? 1 : number * x->seeds;
    const nsi_result* a = &x->runs[run].result;
    return after ? &a->after[role] : &a->before[role];
}

// How much such a number counts in an average: the predictions, or samples, that it is of.
static double score_weight(const ns_score* score, study_quantity what) {
    for (uint32_t k = 0; what.kind == STUDY_MEASURE && k < score->nmetric; k++) {
        if (strcmp(score->metrics[k].name, what.name) == 0) return score->metrics[k].windows;
    }
    for (uint32_t k = 0; what.kind == STUDY_POOLED && k < score->nhorizon; k++) {
        const ns_horizon_error* h = &score->horizons[k];
        if (fabs(h->seconds - what.seconds) < 1e-9) return h->windows;
    }
    return (double)score->samples;
}

// Of all that folds leave out: measures and squares are averaged over predictions.
static study_spread score_folds(const study_entry* x, bool after, study_quantity what) {
    double values[STUDY_MAX_SEEDS] = {0}, sum = 0.0, count = 0.0;
    bool squares = what.kind != STUDY_MEASURE && what.kind != STUDY_MEDIAN;
    uint32_t folds = 0; // in which there is something
    for (uint32_t k = 1; k < x->nrun; k++) {
        const nsi_result* a = &x->runs[k].result;
        const ns_score* score = after ? &a->after[NS_ROLE_TEST] : &a->before[NS_ROLE_TEST];
        double value = score_number(score, what), weight = score_weight(score, what);
        if (isnan(value)) continue;
        values[folds++] = value;
        sum += weight * (squares ? value * value : value);
        count += weight;
    }
    study_spread out = nsi_study_spread_of(values, folds);
    if (folds == 0) return out;
    if (what.kind != STUDY_MEDIAN) out.median = squares ? sqrt(sum / count) : sum / count;
    return out;
}

study_spread nsi_study_score(const study_entry* x, uint32_t number, bool after, ns_data_role role,
                             study_quantity what) {
    double values[STUDY_MAX_SEEDS];
    const study_run* runs = x->runs + (size_t)number * x->seeds;
    if (nsi_study_is_folded(x, role)) return score_folds(x, after, what);
    for (uint32_t k = 0; k < x->seeds; k++) {
        const nsi_result* a = &runs[k].result;
        values[k] = score_number(after ? &a->after[role] : &a->before[role], what);
    }
    return nsi_study_spread_of(values, x->seeds);
}

double nsi_study_measure(const study_entry* x, ns_data_role role, const char* name) {
    return nsi_study_score(x, x->ncount - 1, true, role,
                           (study_quantity){.kind = STUDY_MEASURE, .name = name})
        .median;
}

study_spread nsi_study_seconds(const study_entry* x, uint32_t number) {
    double values[STUDY_MAX_SEEDS];
    const study_run* runs = x->runs + (size_t)number * x->seeds;
    for (uint32_t k = 0; k < x->seeds; k++) values[k] = runs[k].result.seconds;
    return nsi_study_spread_of(values, x->seeds);
}

bool nsi_study_has_inputs(const study_entry* x, const nsi_result* a) {
    if (a->path.count == 0) return false;
    const double* norms = a->path.data[a->path.count - 1].norms;
    uint32_t found = 0;
    for (uint32_t k = 0; k < a->path_names.count; k++) {
        bool expected = false;
        for (const nsi_yaml_node* n = x->inputs->first; n; n = n->next) {
            expected |= strcmp(n->text, a->path_names.data[k]) == 0;
        }
        if (expected != (norms[k] != 0.0)) return false;
        found += expected;
    }
    return found == x->inputs->count;
}

uint32_t nsi_study_count_inputs(const study_entry* x) {
    uint32_t right = 0;
    for (uint32_t k = 0; k < x->seeds; k++)
        right += nsi_study_has_inputs(x, &nsi_study_runs(x)[k].result);
    return right;
}

// A parameter, or "<set>/<coefficient>"; NaN: there is none of this name.
static double score_find_value(const nsi_result* a, const char* name) {
    for (uint32_t k = 0; k < a->estimates.count; k++) {
        if (strcmp(a->estimates.data[k].name, name) == 0) return a->estimates.data[k].value;
    }
    for (uint32_t k = 0; k < a->coefficients.count; k++) {
        const ns_fitted_coefficient* c = &a->coefficients.data[k];
        size_t length = strlen(c->set);
        if (strncmp(c->set, name, length) == 0 && name[length] == '/' &&
            strcmp(c->name, name + length + 1) == 0) {
            return c->value;
        }
    }
    return NAN;
}

double nsi_study_truth_error(const study_fits* f, const study_entry* x, const nsi_result* a) {
    double worst = 0.0;
    for (const nsi_yaml_node* n = x->truth->first; n; n = n->next) {
        double truth = NAN;
        nsi_yaml_number(&f->study->yaml, n, -1e300, 1e300, &truth, NULL); // was checked
        double off = fabs(score_find_value(a, n->key) - truth) / fmax(fabs(truth), 1e-300);
        if (isnan(off)) return NAN;
        worst = fmax(worst, off);
    }
    return worst;
}

study_spread nsi_study_truth_errors(const study_fits* f, const study_entry* x) {
    double values[STUDY_MAX_SEEDS];
    for (uint32_t k = 0; k < x->seeds; k++) {
        values[k] = nsi_study_truth_error(f, x, &nsi_study_runs(x)[k].result);
    }
    return nsi_study_spread_of(values, x->seeds);
}

// Does the path of a result have this input?
static bool score_has_input(const nsi_result* a, const char* name) {
    for (uint32_t k = 0; k < a->path_names.count; k++) {
        if (strcmp(a->path_names.data[k], name) == 0) return true;
    }
    return false;
}

bool nsi_study_check_names(study_fits* f) {
    for (uint32_t k = 0; k < f->nentry; k++) {
        const study_entry* x = &f->entries[k];
        if (!x->chosen) continue;
        const nsi_result* a = &nsi_study_runs(x)->result;
        for (const nsi_yaml_node* n = x->truth ? x->truth->first : NULL; n; n = n->next) {
            if (!isnan(score_find_value(a, n->key))) continue;
            return nsi_study_fail(f->study, NS_ERR_PARSE, "%s has no parameter or coefficient %s",
                                  x->name, n->key);
        }
        for (const nsi_yaml_node* n = x->inputs ? x->inputs->first : NULL; n; n = n->next) {
            if (score_has_input(a, n->text)) continue;
            return nsi_study_fail(f->study, NS_ERR_PARSE, "the path of %s has no input %s", x->name,
                                  n->text);
        }
    }
    return true;
}
