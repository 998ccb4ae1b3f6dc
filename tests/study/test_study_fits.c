// A study of fits as its file says it: what is refused, and where.

#define _POSIX_C_SOURCE 200809L

#include "study_rig.h"

static void mistakes_are_explained(void** state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } wrong[] = {
        {"simulate: [{file: a.csv, model: truth.yaml}]\nfits: [{name: a, extends: formula.yaml}]\n",
         "`seconds` is missing"},
        {"simulate: [{file: ../a.csv, model: truth.yaml, seconds: 1}]\n"
         "fits: [{name: a, extends: formula.yaml}]\n",
         "not a path"},
        {"simulate: [{file: a.csv, model: truth.yaml, seconds: 1, initial_state: {q_knee: 1}}]\n"
         "fits: [{name: a, extends: formula.yaml}]\n",
         "no state of the model"},
        {"simulate: [{file: a.csv, model: truth.yaml, seconds: 1e5, timestep: 1e-5}]\n"
         "fits: [{name: a, extends: formula.yaml}]\n",
         "at most"},
        {"fits: [{name: a, extends: formula.yaml, from: b}]\n", "none of the names"},
        {"fits: [{name: a, extends: formula.yaml, group: b}]\n",
         "none of the names under `groups`"},
        {"fits: [{name: a, extends: formula.yaml, trajectories: [2, 1]}]\n", "must grow"},
        {"fits: [{name: a, extends: formula.yaml, trajectories: 2}]\n", "list"},
        {"fits: [{name: a, extends: formula.yaml, truth: 3}]\n", "truth: write a mapping"},
        {"groups: [{name: c, title: C}]\nfits: [{name: a, extends: formula.yaml}]\n",
         "group: NAME"},
        {"fits: [{name: a, extends: formula.yaml}]\nfigures: [{kind: pie, title: x, fits: [a]}]\n",
         "loss"},
        {"fits: [{name: a, extends: formula.yaml}]\n"
         "figures: [{kind: prediction, title: x, fits: [a]}]\n",
         "channels"},
        {"fits: [{name: a, extends: formula.yaml}, {name: a, extends: damping.yaml}]\n",
         "another one before it has this name"},
        {"groups: [{name: c, title: C}, {name: c, title: D}]\n"
         "fits: [{name: a, extends: formula.yaml, group: c}]\n",
         "another one before it has this name"},
        {"groups: [{name: c, title: C}]\nbaseline: {fit: a}\n"
         "fits: [{name: a, extends: formula.yaml, group: c}]\n",
         "each has its own"},
        {"simulate: [{file: a.csv, model: truth.yaml, seconds: 1},"
         " {file: a.csv, model: truth.yaml, seconds: 2}]\nfits: [{name: a, extends: "
         "formula.yaml}]\n",
         "another entry before it has this file"},
        {"fits: [{name: a, extends: not_there.yaml}]\n", "not_there.yaml"},
        {"fits: [{name: a, extends: network.yaml, inputs: [[x]]}]\n", "write a text"},
        {"fits: [{name: a, extends: formula.yaml, truth: {friction/b: [1]}}]\n", "write a number"},
        {"fits: [{name: a, extends: formula.yaml, truth: {friction/b: 0}}]\n", "are relative"},
        {"fits: [{name: a, extends: formula.yaml}]\n"
         "figures: [{kind: learning, title: x, fits: [a]}]\n",
         "with `trajectories`"},
        {"fits: [{name: a, extends: formula.yaml}]\n"
         "figures: [{kind: prediction, title: x, fits: [a], channels: [q0], recordings: [-1]}]\n",
         "at least 0"},
        {"fits: [{name: a, extends: formula.yaml}]\n"
         "figures: [{kind: prediction, title: x, fits: [a], channels: [q0], mark: {label: x}}]\n",
         "`at` is missing"},
        {SIMULATE("") "fits: [{name: a, extends: formula.yaml, truth: {friction/c: 1}}]\n",
         "no parameter or coefficient friction/c"},
        {SIMULATE("") "fits: [{name: a, extends: formula.yaml, inputs: [x]}]\n", "no input x"},
        {SIMULATE("") "fits: [{name: a, extends: formula.yaml, trajectories: [11]}]\n",
         "with 11 or more"},
        // Told at once, and by a quick run, which has one seed only.
        {"fits: [{name: a, extends: formula.yaml, trajectories: [1, 4], seeds: 3}]\n",
         "with 12 or more"},
    };
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        char text[2000];
        snprintf(text, sizeof text, "kind: fits\ntitle: Mine\n%s", wrong[k].text);
        study_rig_write(text);
        study_rig_refuse(false, "wrong", wrong[k].message);
        study_rig_refuse(true, "wrong", wrong[k].message);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mistakes_are_explained),
    };
    return cmocka_run_group_tests(tests, study_rig_start, NULL);
}
