// Default options of the controller: those of google-research/motion_imitation (Peng et al. 2020).

#include "quadruped/control.h"

quad_controller_options quad_default_controller_options(void) {
    return (quad_controller_options){
        .gait = {.stance_duration = 0.3,
                 .duty_factor = 0.6,
                 .swings_first = {true, false, false, true},
                 .initial_phase = {0.9, 0.0, 0.0, 0.9},
                 .contact_phase = 0.1},
        .swing = {.gain = 0.03, .clearance = 0.01, .apex = 0.1},
        .mpc = {.timestep = 0.025,
                .state_weights = {5, 5, 0.2, 0, 0, 10, 0, 0, 1, 1, 1, 0},
                .force_weight = 1e-5,
                .friction = 0.45,
                .least_force = 0.1,
                .most_force = 10.0,
                .gravity = 9.8},
        .window = 20,
        .fall_angle = 0.8,
        .fall_height = 0.4,
    };
}
