// Programs: choose a backend, build it, run it.

#include "expr/code.h"

struct ns_program {
    ns_allocator allocator;
    ns_program_info info;
    nsi_interp interp;     // in use when info.backend is NS_BACKEND_INTERP
    nsi_native native;     // otherwise
    nsi_block_data** data; // (ndata) of its blocks
    uint32_t ndata;
};

static const ns_choice backend_rows[] = {NS_BACKEND_MAP(NS_CHOICE_ROW)};
const ns_choices ns_backends = NS_CHOICES("backend", backend_rows);

const char* ns_backend_name(ns_backend backend) {
    return ns_choice_name(&ns_backends, (int)backend);
}

ns_program_options ns_default_program_options(void) {
    return (ns_program_options){.backend = NS_BACKEND_AUTO, .lanes = 1};
}

// Index of a lane count in nsi_lane_counts, or NSI_LANE_FORMS.
static uint32_t lane_form(uint32_t lanes) {
    uint32_t form = 0;
    while (form < NSI_LANE_FORMS && nsi_lane_counts[form] != lanes) form++;
    return form;
}

// Share the tables of blocks with the program.
static bool share_data(const nsi_code* code, ns_program* program) {
    program->data =
        nsi_alloc(&program->allocator, ((size_t)code->blocks.count + 1) * sizeof *program->data);
    for (uint32_t i = 0; program->data && i < code->blocks.count; i++) {
        nsi_block_data* data = code->blocks.data[i].data;
        if (!data) continue;
        nsi_block_data_retain(data);
        program->data[program->ndata++] = data;
    }
    return program->data != NULL;
}

ns_status ns_program_build(const ns_graph* graph, const ns_program_options* options,
                           ns_program** out, ns_error* error) {
    *out = NULL;
    // The build time is part of the report.
    double start = nsi_clock_wall();
    ns_program_options defaults = ns_default_program_options();
    if (!options) options = &defaults;

    // Validate the options.
    uint32_t form = lane_form(options->lanes);
    if (form == NSI_LANE_FORMS) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "options.lanes is %u; allowed are 1, 4, 16, 64",
                        options->lanes);
    }
    if (options->backend < NS_BACKEND_AUTO || options->backend > NS_BACKEND_NATIVE) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "options.backend is %d, which is no backend",
                        (int)options->backend);
    }

    // Build the code that all back ends share.
    nsi_code code;
    ns_status status = nsi_code_build(graph, &code, error);
    if (status != NS_OK) return status;
    ns_program* program = nsi_alloc_zeroed(&graph->allocator, sizeof *program);
    if (!program) {
        nsi_code_free(&code);
        return nsi_fail_nomem(error);
    }
    // The program keeps the allocator, not the graph.
    program->allocator = graph->allocator;
    program->info = (ns_program_info){.backend = NS_BACKEND_INTERP,
                                      .note = "",
                                      .lanes = options->lanes,
                                      .input_count = code.ninput,
                                      .output_count = code.outputs.count,
                                      .step_count = code.steps.count};

    // Machine code if possible, else the interpreter.
    if (!share_data(&code, program)) status = nsi_fail_nomem(error);
    if (status == NS_OK && options->backend != NS_BACKEND_INTERP) {
        const char* why = "";
        status = nsi_native_build(&code, form, &program->native, &why, error);
        if (program->native.code) program->info.backend = NS_BACKEND_NATIVE;
        // Say why native code was asked for in vain.
        if (options->backend == NS_BACKEND_NATIVE) program->info.note = why;
        program->info.code_size = program->native.code_size;
    }
    // The interpreter needs no executable memory.
    if (status == NS_OK && !program->native.code) {
        status = nsi_interp_build(&code, form, &program->interp, error);
    }

    // The code itself is not needed any more.
    nsi_code_free(&code);
    if (status != NS_OK) {
        ns_program_free(program);
        return status;
    }

    program->info.build_seconds = nsi_clock_wall() - start;
    *out = program;
    return NS_OK;
}

void ns_program_free(ns_program* program) {
    if (!program) return;
    ns_allocator memory = program->allocator;
    nsi_interp_free(&memory, &program->interp);
    nsi_native_free(&memory, &program->native);
    for (uint32_t i = 0; i < program->ndata; i++) nsi_block_data_release(program->data[i]);
    nsi_free(&memory, program->data);
    nsi_free(&memory, program);
}

size_t ns_program_work_size(const ns_program* program) {
    size_t slots = program->native.code ? program->native.nslot : program->interp.nslot;
    return (slots + 1) * program->info.lanes * sizeof(double);
}

void ns_program_run(const ns_program* program, const ns_run* run) {
    if (program->native.code) {
        nsi_native_run(&program->native, run);
    } else {
        nsi_interp_run(&program->interp, run);
    }
}

ns_program_info ns_program_get_info(const ns_program* program) {
    return program->info;
}
