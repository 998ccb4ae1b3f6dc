// What is measured of one robot file.

#ifndef MODELS_MODEL_TRIAL_H
#define MODELS_MODEL_TRIAL_H

#include <stdbool.h>

// Numbers below 0 were not measured.
typedef struct model_trial {
    bool loads, peer_loads;    // here, in MuJoCo
    int lost;                  // notes on what changes the motion and is not represented
    double acceleration_error; // largest difference of joint accelerations from MuJoCo's without
                               // constraints, relative to the largest acceleration; of models
                               // without equality constraints, which always act here
    bool moved, finite;        // 2 s as the file says, without controls; states are finite
    double height_difference;  // m, of a floating root after these 2 s, from MuJoCo's
    double first_gradient;     // s, from opening the file to the gradient of one step
    double step, peer_step;    // us
    char message[512];         // first note that counts, or why it does not load
} model_trial;

void model_trial_clear(model_trial* trial);

// Load the file here and in MuJoCo, where that is there at build time, and compare.
void model_trial_run(const char* path, model_trial* trial);

#endif
