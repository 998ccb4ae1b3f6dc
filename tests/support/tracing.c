#include "support/tracing.h"

#include "neuralsim/program.h"
#include "support/assert.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

ns_graph* tracing_begin(void) {
    ns_graph* g = NULL;
    assert_int_equal(ns_graph_create(NULL, &g, NULL), NS_OK);
    assert_int_equal(ns_trace_begin(g, NULL), NS_OK);
    return g;
}

void tracing_end(void) {
    ns_error error;
    must(ns_trace_end(&error), &error);
}

void run_graph(const ns_graph* graph, const double* in, double* out) {
    ns_program* program = NULL;
    ns_error error = {0};
    if (ns_program_build(graph, NULL, &program, &error) != NS_OK) {
        fail_msg("the program is refused: %s", error.message);
    }
    void* work = malloc(ns_program_work_size(program) + 1);
    if (!work) abort();
    ns_program_run(program, &(ns_run){.in = in, .out = out, .work = work});
    free(work);
    ns_program_free(program);
}
