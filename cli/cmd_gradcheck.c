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
    "Verdicts: ok; zero: no effect; biased: at a kink; unreliable: differences are inconclusive,\n"
    "with the reason; FAIL: they differ. Exit code 1: an input fails, 3: none could be judged.\n"
    "\n"
    "  --free GLOB..     parameters to check; '**' for all\n"
    "  --steps N         default 20\n"
    "  --dt H            time step in s; default: the model's\n"
    "  --integrator I    {integrator}; default: the model's\n"
    "  --contact C       {contact}; default: the law of each pair\n"
    "  --friction F      friction of rigid contact: {friction}\n"
    "  --sweeps N        baumgarte: run N plain sweeps instead of solving exactly\n"
    "  --q0 X..          coordinates to start from; default: random, near the pose of the model\n"
    "  --qd0 X..         velocities to start from; default: random\n"
    "  --keyframe NAME   state to start from\n"
    "  --blueprint FILE  networks; up to 20 of their weights are checked, too\n"
    "  --weights FILE    weights of the networks; default: from the seeds of the blueprint\n"
    "  --seed S          seed of the random state and weights; default 1\n"
    "  --smooth SIGMA    also smooth the gradient by random changes of SIGMA times an input's "
    "size\n"
    "  --samples N       rollouts of the smoothed gradient; default 64\n"
    "  --backend B       {backend}\n"
    "  --json            the table as one JSON object\n"
    "  --ground          add the plane z = 0 unless the file has a plane\n"
    "  --floating-base, --self-collision, --no-self-collision, --package-path   see 'inspect "
    "--help'\n"
    "  --variant NAME, --strict   robot of a hybrid model; refuse what would be repaired\n"
    "\n"
    "example: gradients with respect to all masses\n"
    "  neuralsim gradcheck models/quadruped.urdf --free 'link/*/mass'\n";

typedef struct gradcheck_command {
    const char* model_path;
    cli_list free_params;
    uint32_t steps;
    uint64_t seed;
    double dt;     // NAN: not given
    double smooth; // NAN: not given
    uint32_t samples;
    int integrator, backend;
    cli_contact contact;
    cli_start start;
    cli_networks networks;
    bool json;
    cli_load load;
} gradcheck_command;

// ---- output --------------------------------------------------------------------------------

// Inputs without any effect are no evidence.
static bool nothing_judged(const ns_gradcheck_result* r) {
    return r->is_zero || r->ok + r->biased + r->fail == 0;
}

static int name_width(const ns_gradcheck_result* r) {
    int width = 5;
    for (uint32_t k = 0; k < r->ninput; k++) {
        int length = (int)strlen(r->inputs[k].name);
        if (length > width) width = length;
    }
    return width;
}

// Why the first input that could not be judged is unreliable.
static const char* first_reason(const ns_gradcheck_result* r) {
    for (uint32_t k = 0; k < r->ninput; k++) {
        if (r->inputs[k].verdict == NS_GRADCHECK_UNRELIABLE) return r->inputs[k].reason;
    }
    return "inputs have no effect";
}

// A line for each input, with the smoothed derivative where there is one.
static void print_checked_inputs(const ns_gradcheck_result* r) {
    int width = name_width(r);
    printf("%-9s %-*s %17s %17s %17s %9s", "input", width, "", "reverse", "forward", "differences",
           "error");
    if (r->has_smoothed) printf("  %12s %9s %6s", "smoothed", "+-", "alpha");
    printf("  %s\n", "verdict");
    for (uint32_t k = 0; k < r->ninput; k++) {
        const ns_gradcheck_input* in = &r->inputs[k];
        const ns_smoothed_derivative* d = &in->smoothed;
        printf("%-9s %-*s %17.9e %17.9e %17.9e %9.1e", ns_gradcheck_kind_name(in->kind), width,
               in->name, in->reverse, in->forward, in->difference, in->error);
        if (r->has_smoothed && in->kind == NS_GRADCHECK_WEIGHT)
            printf("  %12s %9s %6s", "", "", "");
        if (r->has_smoothed && in->kind != NS_GRADCHECK_WEIGHT) {
            printf("  %12.4e %9.1e %6.3f", d->estimate, d->standard_error, d->alpha);
        }
        printf("  %s\n", ns_gradcheck_verdict_name(in->verdict));
    }
}

// Why inputs are not ok: each reason once, with the number of inputs that have it.
static void print_reasons(const ns_gradcheck_result* r) {
    for (uint32_t k = 0; k < r->ninput; k++) {
        const ns_gradcheck_input* in = &r->inputs[k];
        uint32_t count = 0;
        bool first = in->reason[0] != '\0';
        for (uint32_t i = 0; i < r->ninput; i++) {
            bool same =
                r->inputs[i].verdict == in->verdict && strcmp(r->inputs[i].reason, in->reason) == 0;
            if (same && i < k) first = false;
            count += same;
        }
        if (!first) continue;
        printf("%s because %s (%u %s)\n", ns_gradcheck_verdict_name(in->verdict), in->reason, count,
               count == 1 ? "input" : "inputs");
    }
}

static void print_check(const gradcheck_command* g, const ns_gradcheck_result* r) {
    print_checked_inputs(r);
    print_reasons(r);

    // Counts of verdicts, and what they mean for the gradient
    printf("%u inputs over %u steps: %u ok, ", r->ninput, g->steps, r->ok);
    if (r->zero > 0) printf("%u zero, ", r->zero);
    printf("%u biased, %u unreliable, %u FAIL", r->biased, r->unreliable, r->fail);
    if (nothing_judged(r)) {
        printf("; no input could be judged");
    } else if (r->unreliable > 0) {
        printf("; %u of %u could be judged", r->judged, r->ninput);
    }
    if (r->ok > 0) printf("; largest relative error %.1e", r->largest_error);

    // Contact
    const ns_contact_report* contact = &r->certificate.contact;
    if (r->contact_steps > 0) {
        printf("; contact acted in %u %s", r->contact_steps,
               r->contact_steps == 1 ? "step" : "steps");
        if (contact->unsolved > 0) printf(", unsolved in %u", contact->unsolved);
        if (contact->relaxed > 0) printf(", relaxed in %u", contact->relaxed);
    } else if (r->can_touch) {
        printf("; no contact acted (--q0 and --qd0 choose the start)");
    }
    printf("\n");
    if (r->certificate.verdict != NS_GRADIENT_OK) {
        printf("the gradient as a whole is %s: %s\n",
               ns_choice_name(&ns_gradient_verdicts, (int)r->certificate.verdict),
               r->certificate.reason);
    }
}

static void add_certificate_json(ns_json* j, const ns_gradient_certificate* c) {
    ns_json_open(j, "certificate", '{');
    ns_json_text(j, "verdict", ns_choice_name(&ns_gradient_verdicts, (int)c->verdict));
    ns_json_text(j, "reason", c->reason);
    ns_json_count(j, "unsolved_steps", c->contact.unsolved);
    ns_json_count(j, "relaxed_steps", c->contact.relaxed);
    ns_json_number(j, "residual", c->contact.residual);
    ns_json_number(j, "growth", c->growth);
    ns_json_count(j, "growth_step", c->growth_step);
    ns_json_count(j, "alternating_steps", c->alternating_steps);
    ns_json_count(j, "switching_steps", c->switching_steps);
    ns_json_close(j);
}

static void add_smoothed_json(ns_json* j, const ns_smoothed_derivative* d) {
    ns_json_open(j, "smoothed", '{');
    ns_json_number(j, "estimate", d->estimate);
    ns_json_number(j, "standard_error", d->standard_error);
    ns_json_number(j, "alpha", d->alpha);
    ns_json_number(j, "first", d->first);
    ns_json_number(j, "first_error", d->first_error);
    ns_json_number(j, "zeroth", d->zeroth);
    ns_json_number(j, "zeroth_error", d->zeroth_error);
    ns_json_close(j);
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
    ns_json_count(j, "biased", r->biased);
    ns_json_count(j, "unreliable", r->unreliable);
    ns_json_count(j, "fail", r->fail);
    ns_json_count(j, "judged", r->judged);
    ns_json_number(j, "largest_error", r->largest_error);
    // Without contact, its derivatives were not tested.
    ns_json_count(j, "contact_steps", r->contact_steps);
    add_certificate_json(j, &r->certificate);

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
        if (in->reason[0]) ns_json_text(j, "reason", in->reason);
        if (r->has_smoothed && in->kind != NS_GRADCHECK_WEIGHT) add_smoothed_json(j, &in->smoothed);
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
    if (code != EXIT_OK) return code;
    if (nothing_judged(r)) {
        cli_fail("no input could be judged: %s",
                 r->is_zero ? "the gradient is zero everywhere" : first_reason(r));
        return EXIT_UNDECIDED;
    }
    return r->fail > 0 ? EXIT_FAILED : EXIT_OK;
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
    options.smooth_samples = g->samples;
    if (!isnan(g->smooth)) options.smooth_sigma = g->smooth;

    // What of the initial state is given, and unit quaternions for the rest
    ns_model_sizes n = ns_model_get_sizes(model);
    double* x0 = cli_zeros((size_t)n.nq + n.nv);
    if (!x0) return EXIT_FAILED;
    ns_model_default_q(model, x0);
    bool from_keyframe = g->start.keyframe != NULL;
    const ns_keyframe_def* keyframe;
    bool found = cli_find_keyframe(model, g->start.keyframe, &keyframe);
    if (found && from_keyframe) {
        memcpy(x0, keyframe->q, n.nq * sizeof *x0);
        memcpy(x0 + n.nq, keyframe->qd, n.nv * sizeof *x0);
    }
    int code = found ? cli_set_start("gradcheck", model, &g->start, x0) : EXIT_FAILED;
    if (from_keyframe || g->start.q0.count > 0) options.q0 = x0;
    if (from_keyframe || g->start.qd0.count > 0) options.qd0 = x0 + n.nq;

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
                           .smooth = NAN,
                           .samples = ns_default_gradcheck_options().smooth_samples,
                           .integrator = -1,
                           .contact = CLI_CONTACT_DEFAULT,
                           .load.options = ns_default_load_options()};

    // Options, in the order of the help text.
    const cli_row rows[] = {{"--free", CLI_LIST, &g.free_params, "names of parameters"},
                            {"--steps", CLI_COUNT, &g.steps, "a whole number of steps"},
                            {"--dt", CLI_NUMBER, &g.dt, "a time step in s"},
                            {"--integrator", CLI_CHOICE, &g.integrator, &ns_integrators},
                            CLI_CONTACT_ROWS(g.contact),
                            CLI_START_ROWS(g.start),
                            CLI_NETWORK_ROWS(g.networks),
                            {"--seed", CLI_SEED, &g.seed, "a whole number"},
                            {"--smooth", CLI_NUMBER, &g.smooth, "a standard deviation"},
                            {"--samples", CLI_COUNT, &g.samples, "a whole number of rollouts"},
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
    if (g.smooth <= 0.0) {
        return cli_usage("gradcheck", "--smooth must be positive, not %g", g.smooth);
    }
    if (g.samples < 4) return cli_usage("gradcheck", "--samples needs at least 4");
    if (g.dt <= 0.0) return cli_usage("gradcheck", "--dt must be positive, not %g", g.dt);

    return run_gradcheck(&g);
}
