// Reads the predictions of a fit of a study from the table in its folder.

#include "study/study_fits.h"

#include <stdio.h>

bool nsi_study_read_predictions(study_fits* f, const study_entry* x, const char** path,
                                ns_table* out) {
    ns_study* s = f->study;
    ns_table_options options = {.allow_missing = true};
    const char* folder = nsi_study_path(s, s->output, x->name);
    if (folder && x->folds > 0) folder = nsi_study_path(s, folder, "fold1");
    *path = folder ? nsi_study_path(s, folder, "predictions.csv") : NULL;
    return *path && nsi_study_take(s, ns_table_read(*path, &options, NULL, out, &s->error));
}

bool nsi_study_find_recording(const ns_table* t, double number, uint32_t* first, uint32_t* end) {
    uint32_t traj = ns_table_column(t, "traj");
    double seen = -1.0;
    *first = *end = 0;
    for (uint32_t r = 0; r < t->nrow; r++) {
        if (r == 0 || ns_table_at(t, r, traj) != ns_table_at(t, r - 1, traj)) seen += 1.0;
        if (seen == number && *end == 0) *first = r;
        if (seen == number) *end = r + 1;
    }
    return *end > *first;
}

static bool predictions_end_with(const char* name, const char* ending) {
    size_t size = strlen(name), more = strlen(ending);
    return size > more && strcmp(name + size - more, ending) == 0;
}

// Columns without "/before" and "/after", behind traj, t and test.
bool nsi_study_fail_column(study_fits* f, const ns_table* t, const char* path,
                           const char* channel) {
    char list[300] = "";
    for (uint32_t k = 3; k < t->ncol; k++) {
        const char* name = t->names[k];
        size_t used = strlen(list);
        if (predictions_end_with(name, "/before") || predictions_end_with(name, "/after")) continue;
        snprintf(list + used, sizeof list - used, "%s%s", used > 0 ? ", " : "", name);
    }
    return nsi_study_fail(f->study, NS_ERR_PARSE,
                          "a figure asks for %s, which %s does not have; its channels are %s",
                          channel, path, list);
}
