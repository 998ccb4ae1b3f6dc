// The record of a study of fits, as result.json holds it: metrics by name, each run by itself, and the
// records of the fits.

#include "fit/result_words.h"
#include "study/study_fits.h"

#include <math.h>
#include <stdio.h>

// Keys of metrics: "<who>_<role>_<what>_<horizon>s".
static void record_add_metric(ns_json* j, const char* who, const char* what, double seconds,
                              double value) {
    char key[300];
    snprintf(key, sizeof key, isnan(seconds) ? "%.150s_%.110s" : "%.150s_%.110s_%ss", who, what,
             nsi_format_short(seconds, 6).text);
    ns_json_number(j, key, value);
}

// Numbers of an entry with the number-th count of trajectories.
typedef struct study_metrics {
    ns_json* j;
    const char* who;
    const study_entry* x;
    uint32_t number;
    bool after;
} study_metrics;

static void metrics_add(const study_metrics* m, ns_data_role role, const char* what, double seconds,
                        study_quantity quantity) {
    char name[200];
    snprintf(name, sizeof name, "%s_%.100s", nsi_role_name(role), what);
    record_add_metric(m->j, m->who, name, seconds,
                      nsi_study_score(m->x, m->number, m->after, role, quantity).median);
}

static void metrics_add_scores(const study_metrics* m) {
    for (size_t r = 0; r < STUDY_ROLES; r++) {
        ns_data_role role = nsi_study_roles[r];
        const ns_score* score = nsi_study_example(m->x, m->number, m->after, role);
        if (score->windows == 0) continue;
        for (uint32_t h = 0; h < score->nhorizon; h++) {
            double seconds = score->horizons[h].seconds;
            metrics_add(m, role, "median", seconds, (study_quantity){STUDY_MEDIAN, seconds, NULL});
            metrics_add(m, role, "pooled", seconds, (study_quantity){STUDY_POOLED, seconds, NULL});
        }
        for (uint32_t k = 0; k < score->nmetric; k++) {
            study_quantity measure = {.kind = STUDY_MEASURE, .name = score->metrics[k].name};
            metrics_add(m, role, measure.name, NAN, measure);
        }
        metrics_add(m, role, "q", NAN, (study_quantity){.kind = STUDY_RMSE_Q});
        metrics_add(m, role, "qd", NAN, (study_quantity){.kind = STUDY_RMSE_QD});
    }
}

// How many times smaller an error on test data is than that of the baseline.
static void metrics_add_gain(const study_metrics* m, const study_fits* f, const char* what,
                             double seconds, study_quantity quantity) {
    const study_entry* baseline = &f->entries[f->groups[m->x->group].baseline];
    double before =
        nsi_study_score(baseline, baseline->ncount - 1, false, NS_ROLE_TEST, quantity).median;
    double after = nsi_study_score(m->x, m->number, true, NS_ROLE_TEST, quantity).median;
    record_add_metric(m->j, m->who, what, seconds, before / after);
}

static void metrics_add_gains(const study_metrics* m, const study_fits* f) {
    const ns_score* after = nsi_study_example(m->x, m->number, true, NS_ROLE_TEST);
    if (after->windows == 0) return;
    for (uint32_t h = 0; h < after->nhorizon; h++) {
        double seconds = after->horizons[h].seconds;
        metrics_add_gain(m, f, "gain", seconds, (study_quantity){STUDY_POOLED, seconds, NULL});
    }
    for (uint32_t k = 0; k < after->nmetric; k++) {
        study_quantity measure = {.kind = STUDY_MEASURE, .name = after->metrics[k].name};
        char named[200];
        snprintf(named, sizeof named, "gain_%.100s", measure.name);
        metrics_add_gain(m, f, named, NAN, measure);
    }
    metrics_add_gain(m, f, "gain_q", NAN, (study_quantity){.kind = STUDY_RMSE_Q});
    metrics_add_gain(m, f, "gain_qd", NAN, (study_quantity){.kind = STUDY_RMSE_QD});
}

// A fit with each number of trajectories; the largest goes by the name alone, too.
static void metrics_add_entry(ns_json* j, const study_fits* f, const study_entry* x) {
    char who[200];
    for (uint32_t n = 0; n < x->ncount; n++) {
        for (int named = 0; named < 2; named++) {
            if (named == 0 ? n + 1 < x->ncount : x->counts[n] == 0) continue;
            snprintf(who, sizeof who, named ? "%.100s_n%u" : "%.100s", x->name, x->counts[n]);
            study_metrics m = {.j = j, .who = who, .x = x, .number = n, .after = true};
            metrics_add_scores(&m);
            metrics_add_gains(&m, f);
            record_add_metric(j, who, "seconds", NAN, nsi_study_seconds(x, n).median);
        }
    }

    if (x->inputs) {
        record_add_metric(j, x->name, "right_inputs", NAN, nsi_study_count_inputs(x));
    }
    if (x->truth) {
        study_spread off = nsi_study_truth_errors(f, x);
        record_add_metric(j, x->name, "truth_error", NAN, off.median);
        record_add_metric(j, x->name, "truth_error_worst", NAN, off.most);
    }
}

static void record_add_metrics(ns_json* j, const study_fits* f) {
    char who[200];
    ns_json_open(j, "metrics", '{');
    for (uint32_t g = 0; g < f->ngroup; g++) {
        const study_group* group = &f->groups[g];
        if (group->missing || group->headline == NSI_NONE) continue;
        const study_entry* baseline = &f->entries[group->baseline];
        snprintf(who, sizeof who, *group->name ? "%.100s_before" : "%.100sbefore", group->name);
        metrics_add_scores(
            &(study_metrics){.j = j, .who = who, .x = baseline, .number = baseline->ncount - 1});
    }
    for (uint32_t k = 0; k < f->nentry; k++) {
        if (f->entries[k].chosen) metrics_add_entry(j, f, &f->entries[k]);
    }
    ns_json_close(j);
}

static void record_add_score(ns_json* j, const ns_score* score) {
    ns_json_number(j, "q", score->rmse_q);
    ns_json_number(j, "qd", score->rmse_qd);
    for (uint32_t h = 0; h < score->nhorizon; h++) {
        const ns_horizon_error* error = &score->horizons[h];
        record_add_metric(j, "pooled", "at", error->seconds, error->pooled);
    }
    for (uint32_t k = 0; k < score->nmetric; k++) {
        ns_json_number(j, score->metrics[k].name, score->metrics[k].mean);
    }
}

// One run of an entry by itself.
static void record_add_run(ns_json* j, const study_fits* f, const study_entry* x, uint32_t run) {
    const nsi_result* a = &x->runs[run].result;
    ns_json_open(j, NULL, '{');
    if (x->folds > 0) {
        if (run > 0) ns_json_count(j, "fold", run);
    } else if (x->counts[run / x->seeds] > 0) {
        ns_json_count(j, "trajectories", x->counts[run / x->seeds]);
    }
    ns_json_count(j, "seed", x->seed + (x->folds > 0 ? 0 : run % x->seeds));
    ns_json_number(j, "seconds", a->seconds);
    for (size_t r = 0; r < STUDY_ROLES; r++) {
        const ns_score* score = &a->after[nsi_study_roles[r]];
        if (score->windows == 0) continue;
        ns_json_open(j, nsi_role_name(nsi_study_roles[r]), '{');
        record_add_score(j, score);
        ns_json_close(j);
    }
    if (x->inputs) ns_json_bool(j, "right_inputs", nsi_study_has_inputs(x, a));
    if (x->truth) ns_json_number(j, "truth_error", nsi_study_truth_error(f, x, a));
    ns_json_close(j);
}

static void record_add_runs(ns_json* j, const study_fits* f) {
    ns_json_open(j, "runs", '{');
    for (uint32_t k = 0; k < f->nentry; k++) {
        const study_entry* x = &f->entries[k];
        if (!x->chosen || x->nrun == 1) continue;
        ns_json_open(j, x->name, '[');
        for (uint32_t run = 0; run < x->nrun; run++) record_add_run(j, f, x, run);
        ns_json_close(j);
    }
    ns_json_close(j);
}

static bool record_add_fits(ns_json* j, study_fits* f) {
    ns_study* s = f->study;
    bool done = true;
    ns_json_open(j, "fits", '{');
    for (uint32_t k = 0; k < f->nentry && done; k++) {
        if (!f->entries[k].chosen) continue;
        ns_text text = {0};
        const nsi_result* a = &nsi_study_runs(&f->entries[k])->result;
        done = nsi_study_take(s, nsi_result_json(a, &text, &s->error));
        size_t size = text.size;
        while (size > 0 && text.data[size - 1] == '\n') size--;
        if (done) ns_json_value(j, f->entries[k].name, text.data, size);
        ns_text_free(&text);
    }
    ns_json_close(j);
    return done;
}

bool nsi_study_record_fits(ns_study* s, ns_json* j) {
    ns_json_text(j, "headline", s->fits->entries[s->fits->headline].name);
    record_add_metrics(j, s->fits);
    record_add_runs(j, s->fits);
    return record_add_fits(j, s->fits);
}
