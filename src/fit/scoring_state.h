// State of a scoring.

#ifndef NSI_FIT_SCORING_STATE_H
#define NSI_FIT_SCORING_STATE_H

#include "fit/data_warnings.h"
#include "io/hybrid_file.h"
#include "neuralsim/data.h"
#include "neuralsim/scoring.h"
#include "sysid/prediction.h"

// The robot, or a variant of it to which recordings belong.
typedef struct nsi_scored_robot {
    const char *name, *files; // NULL: it is the only one
    ns_hybrid* hybrid;
    ns_blueprint* given; // in place of the hybrid model's, or NULL
    ns_system* system;
    int integrator; // an ns_integrator that options or hybrid model ask for; -1: none
} nsi_scored_robot;

struct ns_scoring {
    ns_allocator allocator;
    nsi_arena arena; // of names, horizons and notes
    const char* model;
    ns_scoring_options options;
    nsi_hybrid file; // of a model with variants
    nsi_scored_robot* robots;
    uint32_t nrobot;
    bool learned;
    ns_data_map* map;
    ns_dataset* data;
    nsi_problem* problem;
    const char **names, **units; // (nchannel)
    nsi_predict_options predict;
    nsi_prediction result;
    nsi_data_warnings data_warnings;
    NSI_ARRAY(const char*) notes;
};

#endif
