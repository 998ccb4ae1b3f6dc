// neuralsim gradcheck: compare the gradient of a rollout in reverse mode, forward mode and by
// differences.

#include "cli.h"

#include <neuralsim/gradcheck.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "usage: neuralsim gradcheck MODEL [OPTIONS]\n"
    "\n"
    "Checks the gradient of a random weighted sum of the final state of a short rollout. For each\n"
    "component of the initial state, each control (held over all steps), each free parameter and\n"
    "up to 20 weights, the table compares reverse mode, forward mode and central differences.\n"
    "\n"
    "Verdicts: ok; zero: the input has no effect; unsure: differences are inconclusive, as at\n"
    "a kink; FAIL: the derivatives differ. The exit code is 1 when an input fails. With contact, "
    "the\n"
    "last line gives the number of steps in which a contact acted.\n"
    "\n"
    "  --free GLOB..     parameters to check; '**' for all\n"
    "  --steps N         default 20\n"
    "  --dt H            time step in s; default: the model's\n"
    "  --integrator I    {integrator}; default: the model's\n"
    "  --contact C       {contact}; default: the law of each pair\n"
    "  --friction F      friction of rigid contact: {friction}\n"
    "  --sweeps N        ncp: run N plain sweeps instead of solving exactly\n"
    "  --q0 X..          coordinates to start from; default: random, near the pose of the model\n"
    "  --qd0 X..         velocities to start from; default: random\n"
    "  --blueprint FILE  networks; up to 20 of their weights are checked, too\n"
    "  --weights FILE    weights of the networks; default: from the seeds of the blueprint\n"
    "  --seed S          seed of the random state and weights; default 1\n"
    "  --backend B       {backend}\n"
    "  --json            the table as one JSON object\n"
    "  --ground          add the plane z = 0 unless the file has a plane\n"
    "  --self-collision  links of a URDF collide with each other\n"
    "  --variant NAME    variant of a hybrid model that has several\n"
    "  --repair-inertia  raise unphysical inertias instead of refusing the file\n"
    "\n"
    "example: gradients with respect to all masses\n"
    "  neuralsim gradcheck models/quadruped.urdf --free 'link/*/mass'\n";

typedef struct gradcheck_command {
    const char* model_path;
    cli_list free_params;
    uint32_t steps;
    uint64_t seed;
    double dt; // NAN: not given
    int integrator, backend;
    cli_contact contact;
    cli_start start;
    cli_networks networks;
    bool json;
    ns_load_options load;
} gradcheck_command;

// ---- output --------------------------------------------------------------------------------

static void print_check(const gradcheck_command* g, const ns_gradcheck_result* r) {
    // Columns are as wide as the longest name.
    int width = 5;
    for (uint32_t k = 0; k < r->ninput; k++) {
        int length = (int)strlen(r->inputs[k].name);
        if (length > width) width = length;
    }

    // One line per input: three derivatives, their largest difference, the verdict.
    printf("%-9s %-*s %17s %17s %17s %9s  %s\n", "input", width, "", "reverse", "forward",
           "differences", "error", "verdict");
    for (uint32_t k = 0; k < r->ninput; k++) {
        const ns_gradcheck_input* in = &r->inputs[k];
        // Full precision, so that digits can be compared.
        printf("%-9s %-*s %17.9e %17.9e %17.9e %9.1e  %s\n", ns_gradcheck_kind_name(in->kind),
               width, in->name, in->reverse, in->forward, in->difference, in->error,
               ns_gradcheck_verdict_name(in->verdict));
    }

    // Summary.
    printf("%u inputs over %u steps: %u ok, ", r->ninput, g->steps, r->ok);
    // Zero derivatives deserve a look: they may be right or a missing path.
    if (r->zero > 0) printf("%u zero, ", r->zero);
    printf("%u unsure, %u FAIL; largest relative error %.1e", r->unsure, r->fail, r->largest_error);

    // Contact makes derivatives difficult, so say whether it was tested.
    if (r->contact_steps > 0) {
        printf("; contact acted in %u %s\n", r->contact_steps,
               r->contact_steps == 1 ? "step" : "steps");
    } else {
        printf("%s\n", r->can_touch ? "; no contact acted (--q0 and --qd0 choose the start)" : "");
    }
}

static int print_check_json(const gradcheck_command* g, const ns_model* model,
                            const ns_gradcheck_result* r) {
    // Settings that reproduce the check, and its summary.
    ns_json* j = ns_json_create(NULL);
    ns_json_text(j, "model", ns_model_name(model));
    ns_json_count(j, "steps", g->steps);
    ns_json_count(j, "seed", g->seed);
    // Counts by verdict.
    ns_json_count(j, "ok", r->ok);
    ns_json_count(j, "zero", r->zero);
    ns_json_count(j, "unsure", r->unsure);
    ns_json_count(j, "fail", r->fail);
    ns_json_number(j, "largest_error", r->largest_error);
    // Without contact, its derivatives were not tested.
    ns_json_count(j, "contact_steps", r->contact_steps);

    // One entry per input, with all three derivatives.
    ns_json_open(j, "inputs", '[');
    for (uint32_t k = 0; k < r->ninput; k++) {
        const ns_gradcheck_input* in = &r->inputs[k];
        // The kind tells names apart that occur twice.
        ns_json_open(j, NULL, '{');
        ns_json_text(j, "kind", ns_gradcheck_kind_name(in->kind));
        ns_json_text(j, "name", in->name);
        ns_json_number(j, "reverse", in->reverse);
        ns_json_number(j, "forward", in->forward);
        ns_json_number(j, "difference", in->difference);
        ns_json_number(j, "error", in->error);
        ns_json_text(j, "verdict", ns_gradcheck_verdict_name(in->verdict));
        ns_json_close(j);
    }
    ns_json_close(j);

    // Print, or report a lack of memory.
    return cli_print_json(j);
}

static int report_check(const gradcheck_command* g, const ns_model* model,
                        const ns_gradcheck_result* r) {
    int code = EXIT_OK;
    if (g->json) {
        code = print_check_json(g, model, r);
    } else {
        print_check(g, r);
        code = cli_finish();
    }
    if (r->is_zero) return cli_fail("the gradient is zero everywhere: nothing was checked");
    return r->fail > 0 ? EXIT_FAILED : code;
}

// ---- command -------------------------------------------------------------------------------

static ns_system* create_checked_system(const gradcheck_command* g, const cli_model* source) {
    ns_system_options options = ns_default_system_options();
    cli_model_apply(source, &options);
    options.free_params = g->free_params.items;
    options.nfree = g->free_params.count;
    if (!isnan(g->dt)) options.timestep = g->dt;
    if (g->integrator >= 0) options.integrator = g->integrator;
    cli_set_contact(&g->contact, &options);
    options.backend = (ns_backend)g->backend;
    return cli_create_system(source->model, &options);
}

static int check_system(const gradcheck_command* g, const ns_model* model,
                        const ns_system* system) {
    ns_gradcheck_options options = ns_default_gradcheck_options();
    options.steps = g->steps;
    options.seed = g->seed;

    // What of the initial state is given, and unit quaternions for the rest
    ns_model_sizes n = ns_model_get_sizes(model);
    double* x0 = cli_zeros((size_t)n.nq + n.nv);
    if (!x0) return EXIT_FAILED;
    ns_model_default_q(model, x0);
    int code = cli_set_start("gradcheck", model, &g->start, x0);
    if (g->start.q0.count > 0) options.q0 = x0;
    if (g->start.qd0.count > 0) options.qd0 = x0 + n.nq;

    if (code == CLI_GO_ON) {
        ns_gradcheck_result* result = NULL;
        ns_error error;
        ns_status status = ns_gradcheck(system, &options, &result, &error);
        code = status == NS_OK ? report_check(g, model, result) : cli_fail("%s", error.message);
        ns_gradcheck_free(result);
    }
    free(x0);
    return code;
}

static int run_gradcheck(const gradcheck_command* g) {
    cli_model source;
    bool loaded = cli_model_load(g->model_path, &g->load, &g->networks, &source);
    if (loaded) cli_note_ignored(source.model, g->model_path);
    ns_system* system = loaded ? create_checked_system(g, &source) : NULL;
    int code = system ? check_system(g, source.model, system) : EXIT_FAILED;
    ns_system_free(system);
    cli_model_free(&source);
    return code;
}

int cmd_gradcheck(int argc, char** argv) {
    // NAN and -1 keep the choice of the model.
    gradcheck_command g = {.steps = 20,
                           .seed = 1,
                           .dt = NAN,
                           .integrator = -1,
                           .contact = CLI_CONTACT_DEFAULT,
                           .load = ns_default_load_options()};

    // Options, in the order of the help text.
    const cli_row rows[] = {{"--free", CLI_LIST, &g.free_params, "names of parameters"},
                            {"--steps", CLI_COUNT, &g.steps, "a whole number of steps"},
                            {"--dt", CLI_NUMBER, &g.dt, "a time step in s"},
                            {"--integrator", CLI_CHOICE, &g.integrator, &ns_integrators},
                            CLI_CONTACT_ROWS(g.contact),
                            CLI_START_ROWS(g.start),
                            CLI_NETWORK_ROWS(g.networks),
                            {"--seed", CLI_SEED, &g.seed, "a whole number"},
                            {"--backend", CLI_CHOICE, &g.backend, &ns_backends},
                            {"--json", CLI_FLAG, &g.json, NULL},
                            CLI_LOAD_ROWS(g.load),
                            {0}};

    // Validate the options before the model is loaded.
    cli_list arguments = {.count = 0};
    int code = cli_parse("gradcheck", help, rows, argc, argv, &arguments);
    if (code != CLI_GO_ON) return code;
    g.model_path = cli_model_argument("gradcheck", &arguments);
    if (!g.model_path) return EXIT_USAGE;
    // Without a step there is nothing to differentiate.
    if (g.steps == 0) return cli_usage("gradcheck", "--steps needs at least 1");
    // NAN passes: the model's own time step.
    if (g.dt <= 0.0) return cli_usage("gradcheck", "--dt must be positive, not %g", g.dt);

    return run_gradcheck(&g);
}
