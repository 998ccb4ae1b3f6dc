// Any bytes as a result.json, of a fit or of a grid. What is read must be sound, can be drawn in every
// form, and comes back the same after writing; what is not must say why, and leaves no memory behind.

#include "fit/fit_report.h"
#include "report/start_map.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);          \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static void draw_all(const nsi_figures* charts) {
    for (uint32_t k = 0; k < charts->list.count; k++) {
        nsi_drawing figure;
        ns_text text;
        REQUIRE(nsi_figure_draw(&charts->list.data[k], NULL, &figure, NULL) == NS_OK);
        REQUIRE(!strstr(figure.svg.data, "\"nan\"") && !strstr(figure.svg.data, "\"inf\""));
        nsi_drawing_free(&figure);
        REQUIRE(ns_figure_text(&charts->list.data[k], 60, true, NULL, &text, NULL) == NS_OK);
        ns_text_free(&text);
    }
}

static void render_all(const nsi_result* result) {
    typedef ns_status renderer(const ns_report*, ns_text*, ns_error*);
    static renderer* const all[] = {ns_report_text, ns_report_html, ns_report_json};
    ns_report* report = NULL;
    REQUIRE(nsi_result_report(result, NULL, NULL, NULL, &report, NULL) == NS_OK);
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        ns_text text;
        REQUIRE(all[k](report, &text, NULL) == NS_OK);
        ns_text_free(&text);
    }
    ns_report_free(report);
}

static bool read_result(const char* text, size_t size, nsi_result* out) {
    ns_error error = {0};
    ns_status status = nsi_result_read(text, size, "fuzz.json", NULL, NULL, out, &error);
    REQUIRE(status == error.status); // an error has its message, and only an error
    REQUIRE(status == NS_OK || strncmp(error.message, "fuzz.json", 9) == 0);
    return status == NS_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    nsi_result result, back;
    nsi_figures charts;
    nsi_figures_init(NULL, &charts);
    if (read_result((const char*)data, size, &result)) {
        REQUIRE(nsi_result_add_figures(&result, &charts, NULL) == NS_OK);
        draw_all(&charts);
        ns_text one, two;
        REQUIRE(nsi_result_json(&result, &one, NULL) == NS_OK);
        REQUIRE(read_result(one.data, one.size, &back));
        REQUIRE(nsi_result_json(&back, &two, NULL) == NS_OK);
        REQUIRE(one.size == two.size && memcmp(one.data, two.data, one.size) == 0);
        nsi_result_free(&back);
        ns_text_free(&one);
        ns_text_free(&two);
        render_all(&result);
    }
    nsi_figures_free(&charts);
    nsi_result_free(&result);
    ns_error error = {0};
    ns_status status = nsi_starts_read((const char*)data, size, "fuzz.json", &charts, &error);
    REQUIRE(status == error.status);
    if (status == NS_OK) draw_all(&charts);
    nsi_figures_free(&charts);
    return 0;
}
