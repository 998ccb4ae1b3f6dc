// Runs of a study of fits: one fit after the other, from several seeds, to more and more recordings, and
// without each fold.

#define _POSIX_C_SOURCE 200809L

#include "fit/fit_state.h"
#include "io/file.h"
#include "study/study_fits.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// Of the fits that are run, the last of each group stands for its headline, and the first for the
// start, unless the file says otherwise.
static void runs_choose_headlines(study_fits* f) {
    // Of each group.
    for (uint32_t c = 0; c < f->ngroup; c++) {
        study_group* of = &f->groups[c];
        uint32_t first = NSI_NONE;
        of->headline = NSI_NONE;
        for (uint32_t k = 0; k < f->nentry; k++) {
            if (f->entries[k].group != c || !f->entries[k].chosen) continue;
            if (first == NSI_NONE) first = k;
            of->headline = k;
        }
        if (of->baseline == NSI_NONE || !f->entries[of->baseline].chosen) of->baseline = first;
    }

    // The headline of the study: the one named, or another of its group, or the last.
    if (f->headline != NSI_NONE && f->entries[f->headline].chosen) {
        f->groups[f->entries[f->headline].group].headline = f->headline;
        return;
    }
    uint32_t same =
        f->headline != NSI_NONE ? f->groups[f->entries[f->headline].group].headline : NSI_NONE;
    for (uint32_t k = 0; k < f->nentry; k++) {
        if (f->entries[k].chosen) f->headline = k;
    }
    if (same != NSI_NONE) f->headline = same;
}

// ---- recordings --------------------------------------------------------------------------------

static bool runs_have_folder(study_fits* f, const char* name) {
    const char* roots[NSI_DATA_FOLDERS];
    uint32_t count = nsi_data_folders(f->study->folder, roots);
    for (uint32_t k = 0; k < count; k++) {
        if (nsi_study_is_folder(nsi_study_path(f->study, roots[k], name))) return true;
    }
    return false;
}

// Leave out groups whose recordings are missing, and fits that start from one of them.
static void runs_leave_out(study_fits* f) {
    ns_study* s = f->study;
    for (uint32_t c = 0; c < f->ngroup; c++) {
        study_group* of = &f->groups[c];
        if (!of->data || runs_have_folder(f, of->data)) continue;
        of->missing = true;
        nsi_study_note(s,
                       "%s: left out, since its recordings are missing: a folder %s below"
                       " $NEURALSIM_DATA, from %s",
                       of->title, of->data, s->source ? s->source : "their authors");
        for (uint32_t k = 0; k < f->nentry; k++) {
            if (f->entries[k].group == c) f->entries[k].chosen = false;
        }
    }

    for (uint32_t k = 0; k < f->nentry; k++) {
        study_entry* x = &f->entries[k];
        if (!x->chosen || x->from == NSI_NONE || f->entries[x->from].chosen) continue;
        x->chosen = false;
        nsi_study_note(s, "%s: left out, since it starts from %s", x->name,
                       f->entries[x->from].name);
    }
}

// Before anything is run: nobody has the recordings by default, so the message says where they come from.
bool nsi_study_prepare_fits(ns_study* s) {
    study_fits* f = s->fits;
    const char* named = getenv("NEURALSIM_DATA");
    runs_leave_out(f);
    if (f->data && !runs_have_folder(f, f->data)) {
        return nsi_study_fail(
            s, NS_ERR_IO,
            "%s needs recordings in a folder %s, which is neither in %s%s%s nor in %s;"
            " get them from %s and set NEURALSIM_DATA to the folder that holds %s",
            s->name, f->data, named ? "$NEURALSIM_DATA (" : "$NEURALSIM_DATA", named ? named : "",
            named ? ")" : " (not set)", s->folder, s->source ? s->source : "their authors",
            f->data);
    }

    runs_choose_headlines(f);
    if (f->headline != NSI_NONE && f->entries[f->headline].chosen) return true;
    return nsi_study_fail(s, NS_ERR_IO, "%s: there is nothing to run", s->name);
}

// ---- one run -----------------------------------------------------------------------------------

// A run at work, for its observer.
typedef struct study_job {
    ns_study* study;
    char what[200];
} study_job;

static bool runs_observe(void* context, const ns_fit_progress* p) {
    study_job* job = context;
    double share = p->iterations > 0 ? (double)p->iteration / p->iterations : 0.0;
    return nsi_study_observe(job->study, job->what, p->number + fmin(share, 1.0), p->count);
}

// The run that a run of an entry goes on from: the first, or that of the same fold, which has not seen
// the part that is left out either.
static uint32_t runs_origin(const study_entry* from, const study_entry* x, uint32_t run) {
    return x->folds > 0 ? run : (from->ncount - 1) * from->seeds;
}

// Parameters start where those of the same name ended.
static ns_status runs_start_from(const nsi_result* a, ns_fit* fit, ns_error* error) {
    ns_status status = NS_OK;
    for (uint32_t k = 0; k < fit->nz && status == NS_OK; k++) {
        const char* name = ns_parameters_at(fit->parameters, k)->name;
        for (uint32_t i = 0; i < a->estimates.count && status == NS_OK; i++) {
            if (strcmp(a->estimates.data[i].name, name) != 0) continue;
            status = ns_fit_set_initial(fit, name, a->estimates.data[i].value, error);
        }
    }
    return status;
}

static bool runs_keep_spec(study_fits* f, study_entry* x, const ns_fit* fit) {
    const nsi_fit_spec* spec = fit->spec;
    double* horizons = nsi_study_zeros(f->study, (spec->horizons.count + 1) * sizeof *horizons);
    if (!horizons) return false;
    for (uint32_t k = 0; k < spec->horizons.count; k++) horizons[k] = spec->horizons.data[k];
    x->horizons = horizons;
    x->nhorizon = spec->horizons.count;
    x->seed = spec->seed;
    x->has_weights = fit->nw > 0;
    return true;
}

static bool runs_stands_for_all(const study_entry* x, uint32_t run) {
    return run == (x->ncount - 1) * x->seeds;
}

// Where a run is written, if it is: "hybrid", or "hybrid/fold2".
static const char* runs_folder(study_fits* f, const study_entry* x, uint32_t run) {
    const char* folder = nsi_study_path(f->study, f->study->output, x->name);
    char name[40];
    if (!folder || x->folds == 0 || run == 0) return folder;
    snprintf(name, sizeof name, "fold%u", run);
    return nsi_study_path(f->study, folder, name);
}

// The first run of the largest number of trajectories is written, and each fold; to the folder of the
// study, too, where it is the headline. Weights of analytic.yaml are in the folder of their own fit.
static ns_status runs_save(study_fits* f, const study_entry* x, uint32_t run, const ns_fit* fit,
                           const char* folder, ns_error* error) {
    ns_study* s = f->study;
    bool first = runs_stands_for_all(x, run);
    ns_status status = NS_OK;
    if (first || x->folds > 0) status = ns_fit_save(fit, folder, error);
    if (status == NS_OK && first && x == &f->entries[f->headline]) {
        status = ns_fit_save(fit, s->output, error);
    }
    if (status == NS_OK && first && f->analytic == (uint32_t)(x - f->entries)) {
        const char* weights = fit->nw > 0 ? nsi_study_path(s, folder, "weights.safetensors") : NULL;
        status = nsi_fit_write_model(fit, s->output, "analytic.yaml", weights, NULL, error);
    }
    return status;
}

// One run; false when it was stopped, too.
static bool runs_run_once(study_fits* f, study_entry* x, uint32_t run,
                          const nsi_fit_changes* changes) {
    ns_study* s = f->study;
    ns_error error = {0};
    ns_fit* fit = NULL;
    study_job job = {.study = s};
    // The result of each run has a folder of its own.
    const char* folder = runs_folder(f, x, run);
    if (!folder) return false;
    // Progress lines name the fit and its run.
    snprintf(job.what, sizeof job.what, x->nrun > 1 ? "%.100s, run %u of %u" : "%.100s", x->name,
             run + 1, x->nrun);

    // Load the fit with its changes.
    ns_fit_options options = {.observe = runs_observe, .context = &job};
    nsi_fit_changes all = *changes;
    ns_status status = nsi_study_read_spec(f, x, &all.spec, &error);
    if (status == NS_OK) {
        status = nsi_fit_load(s->yaml.file, s->options.threads, &all, &fit, &error);
    }

    // Start from the result of another fit, of the same seed, size or fold.
    if (status == NS_OK && x->from != NSI_NONE) {
        const study_entry* from = &f->entries[x->from];
        status = runs_start_from(&from->runs[runs_origin(from, x, run)].result, fit, &error);
    }

    // Run the fit, unless the user has stopped the study.
    bool stopped = nsi_study_observe(s, job.what, 0.0, 1.0);
    if (status == NS_OK && !stopped) status = ns_fit_run(fit, &options, &error);
    stopped = stopped || nsi_study_observe(s, job.what, 1.0, 1.0);
    // Stopped: results of earlier fits are on disk.
    if (status == NS_OK && stopped) {
        nsi_study_note(s, "interrupted in %s; fits that were done before it are in %s", job.what,
                       s->output);
        ns_fit_free(fit);
        return false;
    }

    // Save the result, and keep it in memory for reports and later fits.
    if (status == NS_OK) status = runs_save(f, x, run, fit, folder, &error);
    bool done = status == NS_OK && (!runs_stands_for_all(x, run) || runs_keep_spec(f, x, fit));
    // The result moves to the run, so that freeing the fit leaves it alone.
    if (done) {
        x->runs[run] = (study_run){.result = fit->result, .done = true};
        nsi_result_init(NULL, &fit->result);
    }

    ns_fit_free(fit);
    if (status == NS_OK) return done; // without memory for its spec the study has failed already
    return nsi_study_fail(s, status, "%s: %s", x->name, error.message);
}

// ---- all runs ----------------------------------------------------------------------------------

static bool runs_run_entry(study_fits* f, study_entry* x) {
    ns_study* s = f->study;
    nsi_fit_changes changes = {.data = f->simulates ? s->output : NULL,
                               .made = f->made,
                               .iterations = s->options.smoke ? x->smoke_iterations : 0};
    const study_entry* from = x->from != NSI_NONE ? &f->entries[x->from] : NULL;
    for (uint32_t run = 0; run < x->nrun; run++) {
        // Weights come from files.
        if (from && from->has_weights) {
            const char* folder = runs_folder(f, from, runs_origin(from, x, run));
            changes.weights = folder ? nsi_study_path(s, folder, "weights.safetensors") : NULL;
            if (!changes.weights) return false;
        }

        // What is different from run to run.
        if (x->folds > 0) {
            changes.folds = run > 0 ? x->folds : 0;
            changes.fold = run > 0 ? run - 1 : 0;
        } else {
            changes.trajectories = x->counts[run / x->seeds];
            changes.seed = changes.block = run % x->seeds;
        }
        if (!runs_run_once(f, x, run, &changes)) return false;
    }
    return true;
}

const study_run* nsi_study_runs(const study_entry* x) {
    return x->runs + (size_t)(x->ncount - 1) * x->seeds;
}

bool nsi_study_run_fits(ns_study* s) {
    study_fits* f = s->fits;
    bool done = nsi_study_simulate(f);
    for (uint32_t k = 0; k < f->nentry && done; k++) {
        done = !f->entries[k].chosen || runs_run_entry(f, &f->entries[k]);
    }
    if (!done) return false;

    // Without a figure there are still tables, and with a wrong name, too.
    if (!nsi_study_make_figures(f)) nsi_study_keep_problem(s);
    if (!nsi_study_check_names(f)) nsi_study_keep_problem(s);
    return s->status == NS_OK;
}
