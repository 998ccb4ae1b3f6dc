// The tables of keys in docs/, from the tables that files are read by.
//
//     schema_docs FILE.md..           exit code 1 when one is not current
//     schema_docs --write FILE.md..   bring them up to date (make docs)
//
// In a page a table stands between two lines, <!-- keys: train --> and <!-- end of keys -->. The table "reads"
// is not one of keys: it says what networks may read (reads_table.h).

#include "data/map.h"
#include "io/file.h"
#include "io/hybrid_file.h"
#include "nn/blueprint_data.h"
#include "reads_table.h"
#include "study/study_fits.h"
#include "study/study_grid.h"

#include <stdio.h>

static const struct {
    const char* name;
    const nsi_schema* schema;
} tables[] = {
    {"fit", &nsi_fit_schema},
    {"data", &nsi_fit_data_schema},
    {"file", &nsi_fit_file_schema},
    {"parameter", &nsi_fit_parameter_schema},
    {"train", &nsi_fit_train_schema},
    {"search", &nsi_fit_search_schema},
    {"posterior", &nsi_fit_posterior_schema},
    {"predict", &nsi_fit_predict_schema},
    {"measure", &nsi_fit_measure_schema},
    {"variant", &nsi_fit_variant_schema},
    {"discover", &nsi_fit_discover_schema},
    {"learned", &nsi_learned_schema},
    {"hybrid", &nsi_hybrid_schema},
    {"hybrid variant", &nsi_hybrid_variant_schema},
    {"network", &nsi_network_schema},
    {"formula", &nsi_formula_schema},
    {"map", &nsi_map_schema},
    {"map source", &nsi_map_source_schema},
    {"map grid", &nsi_map_grid_schema},
    {"map channel", &nsi_map_channel_schema},
    {"study", &nsi_study_schema},
    {"study of fits", &nsi_study_fits_schema},
    {"study group", &nsi_study_group_schema},
    {"study fit", &nsi_study_fit_schema},
    {"study reference", &nsi_study_reference_schema},
    {"study simulate", &nsi_study_simulate_schema},
    {"study figure", &nsi_study_figure_schema},
    {"study on a grid", &nsi_study_grid_schema},
    {"study method", &nsi_study_method_schema},
};

static const nsi_schema* find_table(const char* name, size_t size) {
    for (size_t k = 0; k < sizeof tables / sizeof *tables; k++) {
        if (strlen(tables[k].name) == size && memcmp(tables[k].name, name, size) == 0) {
            return tables[k].schema;
        }
    }
    return NULL;
}

// The page with all its tables printed anew; false after saying why.
static bool print_page(const char* path, const char* text, nsi_text_builder* out) {
    static const char begin[] = "<!-- keys: ", end[] = "<!-- end of keys -->";
    const char* at = text;
    for (const char* mark; (mark = strstr(at, begin)) != NULL;) {
        const char *name = mark + strlen(begin), *close = strstr(name, " -->\n"),
                   *stop = strstr(name, end);
        const nsi_schema* schema = close ? find_table(name, (size_t)(close - name)) : NULL;
        bool reads = close && strncmp(name, "reads -->", strlen("reads -->")) == 0;
        if ((!schema && !reads) || !stop) {
            fprintf(stderr, "%s: no table of keys, or no end: %.60s\n", path, mark);
            return false;
        }
        nsi_text_add_bytes(out, at, (size_t)(close + strlen(" -->\n") - at));
        if (reads && !reads_table_print(NEURALSIM_SOURCE_DIR "/tests/data/mjcf/hopper.xml", out)) {
            return false;
        }
        if (schema) nsi_schema_markdown(schema, out);
        at = stop;
    }
    nsi_text_add_bytes(out, at, strlen(at));
    return true;
}

// Is the page current, or is it now?
static bool check_page(const char* path, bool write) {
    nsi_bytes bytes = {0};
    nsi_text_builder builder = {.allocator = ns_default_allocator()};
    ns_text page = {0};
    ns_error error = {0};
    bool done = nsi_file_read(path, 1 << 24, NULL, &bytes, &error) == NS_OK &&
                nsi_array_push(NULL, &bytes, '\0');
    if (done) done = print_page(path, bytes.data, &builder);
    bool made = nsi_text_finish(&builder, &page, &error) == NS_OK;
    bool same = done && made && strcmp(page.data, bytes.data) == 0;
    if (done && made && !same && write) {
        same = nsi_file_write(path, page.data, page.size, NULL, &error) == NS_OK;
    } else if (done && made && !same) {
        fprintf(stderr, "%s: its tables of keys are not current; run make docs\n", path);
    }
    if (*error.message) fprintf(stderr, "%s\n", error.message);
    ns_text_free(&page);
    nsi_array_free(NULL, &bytes);
    return same;
}

int main(int argc, char** argv) {
    bool write = argc > 1 && strcmp(argv[1], "--write") == 0, done = true;
    for (int k = write ? 2 : 1; k < argc; k++) done = check_page(argv[k], write) && done;
    return done ? 0 : 1;
}
