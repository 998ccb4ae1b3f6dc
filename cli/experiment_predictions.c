// What a fit of an experiment predicted, from the table in its folder.

#include "cli.h"
#include "experiment_fits.h"

#include <stdio.h>

bool fits_read_predictions(fits* f, const fits_entry* x, const char** path, ns_table* out) {
    experiment* e = f->e;
    const char* folder = experiment_path(e, e->output, x->name);
    if (folder && x->folds > 0) folder = experiment_path(e, folder, "fold1");
    *path = folder ? experiment_path(e, folder, "predictions.csv") : NULL;
    ns_error error;
    if (!*path) return experiment_complain(e), false;
    if (ns_table_read(*path, &(ns_table_options){.allow_missing = true}, NULL, out, &error) ==
        NS_OK)
        return true;
    return cli_fail("%s", error.message), false;
}

bool fits_find_recording(const ns_table* t, double number, uint32_t* first, uint32_t* end) {
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

// Columns without "/before" and "/after", behind traj, t and test.
bool fits_fail_column(const ns_table* t, const char* path, const char* channel) {
    char list[300] = "";
    for (uint32_t k = 3; k < t->ncol; k++) {
        size_t used = strlen(list);
        if (cli_ends_with(t->names[k], "/before") || cli_ends_with(t->names[k], "/after")) continue;
        snprintf(list + used, sizeof list - used, "%s%s", used > 0 ? ", " : "", t->names[k]);
    }
    cli_fail("a figure asks for %s, which %s does not have; its channels are %s", channel, path,
             list);
    return false;
}
