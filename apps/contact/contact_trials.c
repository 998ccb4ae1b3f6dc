// contact_trials: what is asked of rigid contact, measured. A client of the library's public API;
// experiments/contact/README.md has the table.

#include "contact/rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "usage: contact_trials [TRIAL ...] [--quick]\n"
    "\n"
    "Measures rigid contact and prints a table \"requested / measured\". Exits with 1 when a row "
    "is\n"
    "missed. Without names all trials run, about half an hour.\n"
    "\n"
    "  impacts    random impacts with restitution and friction gain no energy\n"
    "  pushes     a ball pushes a box at mu = 1: solved steps, gradients beside differences\n"
    "  drops      quadrupeds fall and collapse: the same, and step times beside MuJoCo's\n"
    "  targets    L-BFGS through contact: throw a cube, bounce a ball, push a box to a place\n"
    "  stance     gradients of a standing and stepping quadruped, springs beside rigid contact\n"
    "  --quick    a small part of each, in seconds; times are printed and not judged\n";

static const struct {
    const char* name;
    trial_function* run;
} trials[] = {{"impacts", trial_impacts},
              {"pushes", trial_pushes},
              {"drops", trial_drops},
              {"targets", trial_targets},
              {"stance", trial_stance}};
enum { TRIALS = sizeof trials / sizeof *trials };

int main(int argc, char** argv) {
    trial_options options = {.models = CONTACT_MODELS, .scenes = CONTACT_SCENES};
    bool chosen[TRIALS] = {false}, any = false;
    for (int at = 1; at < argc; at++) {
        int found = -1;
        for (int k = 0; k < TRIALS; k++) {
            if (strcmp(argv[at], trials[k].name) == 0) found = k;
        }
        if (found >= 0) {
            chosen[found] = any = true;
        } else if (strcmp(argv[at], "--quick") == 0) {
            options.quick = true;
        } else {
            bool asked = strcmp(argv[at], "--help") == 0;
            fputs(help, asked ? stdout : stderr);
            return asked ? EXIT_SUCCESS : EXIT_FAILURE;
        }
    }

    printf("| | requested | measured |\n|---|---|---|\n");
    for (int k = 0; k < TRIALS; k++) {
        if (!any || chosen[k]) trials[k].run(&options);
    }
    return trial_misses() > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
