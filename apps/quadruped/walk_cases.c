// The cases of the NeuralSim paper, section IV-D: a controller, and networks in its place.

#include "quadruped/walk_experiment.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

// ---- model-predictive control --------------------------------------------------------------------

static const walk_run_case mpc_runs[] = {
    {.name = "laikago", .label = "Laikago", .robot = WALK_LAIKAGO, .record_trace = true},
    {.name = "a1", .label = "A1", .robot = WALK_A1, .record_trace = true},
    {.name = "laikago_jumps",
     .label = "Laikago, commands jump",
     .robot = WALK_LAIKAGO,
     .immediate_commands = true},
    {.name = "a1_jumps",
     .label = "A1, commands jump",
     .robot = WALK_A1,
     .immediate_commands = true},
    {.name = "laikago_trimmed",
     .label = "Laikago, corrected commands",
     .robot = WALK_LAIKAGO,
     .command_correction = true},
    {.name = "a1_trimmed",
     .label = "A1, corrected commands",
     .robot = WALK_A1,
     .command_correction = true},
    {.name = "laikago_spring",
     .label = "Laikago, spring contact",
     .robot = WALK_LAIKAGO,
     .contact = NS_CONTACT_SPRING,
     .seeds = 4},
    {.name = "a1_spring",
     .label = "A1, spring contact",
     .robot = WALK_A1,
     .contact = NS_CONTACT_SPRING,
     .seeds = 4},
};

static const char* const mpc_notes[] = {
    "A new target within 0.6 m/s, 0.2 m/s and 0.8 rad/s every 2 s, reached by a ramp of 0.5 s, or "
    "at "
    "once where commands jump. The velocity estimate averages 5 decisions.",
    "Corrected commands: gains of the commands and an offset of the height, from validation runs.",
};

const walk_case walk_case_mpc = {
    .name = "mpc",
    .title = "Two quadrupeds walk by model-predictive control",
    .citation =
        "E. Heiden, D. Millard, E. Coumans, Y. Sheng, G. S. Sukhatme, \"NeuralSim: Augmenting "
        "Differentiable Simulators with Neural Networks\", ICRA 2021, section IV-D; controller of "
        "X. B. Peng et al., \"Learning Agile Robotic Locomotion Skills by Imitating Animals\", RSS "
        "2020, after J. Di Carlo et al., \"Dynamic Locomotion in the MIT Cheetah 3 Through Convex "
        "Model-Predictive Control\", IROS 2018",
    .seconds = 60.0,
    .quick_seconds = 10.0,
    .seeds = 20,
    .quick_seeds = 2,
    .playback = 20.0,
    .runs = mpc_runs,
    .nrun = COUNT(mpc_runs),
    .notes = mpc_notes,
    .nnote = COUNT(mpc_notes),
};

// ---- imitation and tuning ------------------------------------------------------------------------

static const walk_policy_case imitation_policies[] = {
    {.name = "two",
     .label = "41-192-192-12",
     .robot = WALK_A1,
     .hidden = {192, 192},
     .nhidden = 2,
     .transitions = 10000,
     .quick_transitions = 4000,
     .keep_probability = 0.2,
     .iterations = 8000,
     .quick_iterations = 2000},
    {.name = "three",
     .label = "41-192-192-192-12",
     .robot = WALK_A1,
     .hidden = {192, 192, 192},
     .nhidden = 3,
     .transitions = 10000,
     .keep_probability = 0.2,
     .iterations = 8000,
     .full_only = true},
    {.name = "tuned",
     .label = "41-192-192-12, tuned",
     .tuned_from = "two",
     .iterations = 200,
     .quick_iterations = 20,
     .learning_rate = 1e-4,
     .validate_every = 20,
     .validation_seeds = 4,
     .validation_seconds = 30.0},
    {.name = "laikago",
     .label = "Laikago, 41-192-192-12",
     .robot = WALK_LAIKAGO,
     .hidden = {192, 192},
     .nhidden = 2,
     .transitions = 10000,
     .keep_probability = 0.2,
     .iterations = 8000,
     .full_only = true},
    {.name = "laikago_tuned",
     .label = "Laikago, 41-192-192-12, tuned",
     .tuned_from = "laikago",
     .iterations = 200,
     .learning_rate = 1e-4,
     .error_scale = {0.05, 0.03, 0.05, 0.02, 0.02, 0.001},
     .validate_every = 20,
     .validation_seeds = 8,
     .validation_seconds = 60.0,
     .full_only = true},
};

static const walk_run_case imitation_runs[] = {
    {.name = "qp", .label = "QP", .robot = WALK_A1, .record_trace = true},
    {.name = "qp_trimmed",
     .label = "QP, corrected commands",
     .robot = WALK_A1,
     .command_correction = true},
    {.name = "careful",
     .label = "QP, planned friction 0.2",
     .robot = WALK_A1,
     .planned_friction = 0.2},
    {.name = "network", .label = "network", .policy = "two", .record_trace = true},
    {.name = "network_trimmed",
     .label = "network, corrected commands",
     .policy = "two",
     .command_correction = true},
    {.name = "deep", .label = "network, three layers", .policy = "three", .full_only = true},
    {.name = "tuned", .label = "network, tuned", .policy = "tuned", .record_trace = true},
    {.name = "laikago_qp", .label = "Laikago, QP", .robot = WALK_LAIKAGO, .full_only = true},
    {.name = "laikago", .label = "Laikago, network", .policy = "laikago", .full_only = true},
    {.name = "laikago_tuned",
     .label = "Laikago, network, tuned",
     .policy = "laikago_tuned",
     .full_only = true},
};

static const char* const imitation_pairs[][2] = {{"network", "tuned"},
                                                 {"laikago", "laikago_tuned"}};

static const walk_disturbance imitation_disturbances[] = {
    {.name = "none", .label = "none", .mass = 1.0, .friction = 1.0},
    {.name = "heavy", .label = "mass + 20 %", .mass = 1.2, .friction = 1.0},
    {.name = "light", .label = "mass - 20 %", .mass = 0.8, .friction = 1.0},
    {.name = "friction_07", .label = "friction 0.7", .mass = 1.0, .friction = 0.7},
    {.name = "friction_05", .label = "friction 0.5", .mass = 1.0, .friction = 0.5},
    {.name = "friction_03", .label = "friction 0.3", .mass = 1.0, .friction = 0.3},
    {.name = "late", .label = "10 ms delay", .mass = 1.0, .friction = 1.0, .delay = 0.01},
    {.name = "pushes",
     .label = "pushes of 0.5 m/s every 5 s",
     .mass = 1.0,
     .friction = 1.0,
     .push = 0.5},
    {.name = "hard_pushes",
     .label = "pushes of 1 m/s every 5 s",
     .mass = 1.0,
     .friction = 1.0,
     .push = 1.0},
    {.name = "noise", .label = "sensor noise", .mass = 1.0, .friction = 1.0, .noise = 1.0},
    {.name = "more_noise",
     .label = "sensor noise, three times",
     .mass = 1.0,
     .friction = 1.0,
     .noise = 3.0},
};

static const char* const imitation_notes[] = {
    "Corrected commands: gains of the commands (and for the QP an offset of the height), from "
    "validation runs.",
};

const walk_case walk_case_imitation = {
    .name = "imitation",
    .title = "A network walks in place of the QP, and is tuned through the simulator",
    .citation = "E. Heiden, D. Millard, E. Coumans, Y. Sheng, G. S. Sukhatme, \"NeuralSim: "
                "Augmenting Differentiable Simulators with Neural Networks\", ICRA 2021, section "
                "IV-D",
    .seconds = 60.0,
    .quick_seconds = 10.0,
    .seeds = 20,
    .quick_seeds = 2,
    .playback = 20.0,
    .policies = imitation_policies,
    .npolicy = COUNT(imitation_policies),
    .runs = imitation_runs,
    .nrun = COUNT(imitation_runs),
    .pairs = imitation_pairs,
    .npair = COUNT(imitation_pairs),
    .disturbances = imitation_disturbances,
    .ndisturbance = COUNT(imitation_disturbances),
    .disturbed = {"qp", "careful", "network", "tuned"},
    .disturbed_seeds = 20,
    .quick_disturbed_seeds = 1,
    .disturbed_seconds = 30.0,
    .quick_disturbed_seconds = 5.0,
    .notes = imitation_notes,
    .nnote = COUNT(imitation_notes),
};

const walk_case* walk_find_case(const char* name) {
    static const walk_case* const cases[] = {&walk_case_mpc, &walk_case_imitation};
    for (size_t k = 0; k < COUNT(cases); k++) {
        if (strcmp(cases[k]->name, name) == 0) return cases[k];
    }
    return NULL;
}
