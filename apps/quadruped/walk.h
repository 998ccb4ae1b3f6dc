// A quadruped that walks in the simulator: commands as an operator would give them, the controller,
// what disturbs it, and how well it follows.
//
//     quad_walk_env_create(model, &robot, &place_options, NULL, &place, error);   // shared by threads
//     quad_walk_create(place, &options, NULL, &walk, error);                        // one for each
//     quad_walk_begin(walk, seed);
//     while (quad_walk_step(walk, &moment)) ...                              // allocates nothing
//     quad_walk_result result = quad_walk_finish(walk);

#ifndef QUADRUPED_WALK_H
#define QUADRUPED_WALK_H

#include "neuralsim/sim.h"
#include "quadruped/control.h"
#include "quadruped/support.h"

// ---- where ---------------------------------------------------------------------------------------

typedef struct quad_walk_env_options {
    ns_contact_model contact; // default NS_CONTACT_NCP
    double mass;              // factor of masses and inertias of all links. Default 1
    double friction;          // of all contacts. Default 1
} quad_walk_env_options;

quad_walk_env_options quad_default_walk_env_options(void);

typedef struct quad_walk_env {
    ns_allocator allocator;
    quad_robot robot;
    quad_map map;
    ns_system* system; // observes the depths of toes in the ground
    uint32_t nx, nc;
    double mass; // of all links as simulated: the robot's is what the controller plans with
} quad_walk_env;

// @param model  with a ground; must outlive the place
// @return NS_OK; NS_ERR_ARGUMENT when it has not the robot's joints or toes "FR_toe" and so on
ns_status quad_walk_env_create(const ns_model* model, const quad_robot* robot,
                               const quad_walk_env_options* options, const ns_allocator* allocator,
                               quad_walk_env** out, ns_error* error);
void quad_walk_env_free(quad_walk_env* place); // NULL is allowed

// ---- what ----------------------------------------------------------------------------------------

enum { QUAD_WALK_MOST_DELAY = 16, QUAD_WALK_MOST_PERIOD = 32, QUAD_WALK_MOST_STRIDE = 256 };

typedef struct quad_walk_options {
    double seconds;     // default 60
    uint32_t period;    // steps from decision to decision. Default 5
    double most[3];     // targets are drawn within these: m/s, m/s, rad/s. Default 0.6 0.2 0.8
    double hold[2];     // s that a target stays, least and most. Default 2 2
    double ramp;        // s in which the command goes to a new target. Default 0.5
    double gain[3];     // what the controller is told is the command times this. Default 1
    double lift;        // m, added to the height the controller aims at. Default 0
    uint32_t delay;     // periods by which the controller sees everything too late. Default 0
    double noise;       // 1: noise on what it sees, standard deviations below. Default 0
    double push;        // m/s, change of velocity by a push. Default 0
    double push_every;  // s; the first is after half of it. Default 5
    double settle;      // s at the start that do not count in errors. Default 1
    bool contact_known; // contacts of toes are told. Default true
    quad_controller_options controller;
} quad_walk_options;

// Window 5: with 20 the estimate is late, and robots fall under commands that change fast.
quad_walk_options quad_default_walk_options(void);

// Standard deviations of noise: of an inertial unit with a leg odometry, and of joint encoders.
#define QUAD_WALK_NOISE_VELOCITY 0.05 // m/s
#define QUAD_WALK_NOISE_ANGULAR 0.05  // rad/s
#define QUAD_WALK_NOISE_TILT 0.01     // rad
#define QUAD_WALK_NOISE_ANGLE 0.005   // rad
#define QUAD_WALK_NOISE_RATE 0.1      // rad/s

typedef struct quad_walk_sample {
    double time;          // of the decision, s
    quad_command command; // wanted by the operator
    quad_command told;    // to the controller
    quad_state state;     // as it is
    double velocity[3];   // forward, to the left, yaw rate: in the heading
    double height;        // of the trunk's origin above the lowest points of toes at rest
    quad_controller_report report;
    double seconds;         // the decision took
    const double* states;   // (period + 1 x nx) from the decision on
    const double* controls; // (period x nc)
} quad_walk_sample;

typedef struct quad_walk_result {
    uint32_t falls;      // of one run 0 or 1
    double seconds;      // walked
    uint32_t count;      // moments that errors are over
    double velocity[3];  // errors against the command, averaged over a stride; root mean square;
                         // NaN, as those below, when nothing counted
    double raw[3];       // the same of each moment, ripple of the gait included
    double height;       // root mean square error of each moment, m
    double bias;         // its mean
    double follow[3][2]; // sums of command times velocity, of command squared
    double tilt;         // largest roll or pitch, rad
    double cpu;          // s of CPU time
    uint32_t decisions, shared, unreachable, limited; // decisions: all, and those with such trouble
} quad_walk_result;

typedef struct quad_walk quad_walk;

// @param place  must outlive the walk
ns_status quad_walk_create(const quad_walk_env* place, const quad_walk_options* options,
                           const ns_allocator* allocator, quad_walk** out, ns_error* error);
void quad_walk_free(quad_walk* walk); // NULL is allowed

void quad_walk_begin(quad_walk* walk, uint64_t seed); // in the home pose, at rest

// Decide, and go on for a control period. What `moment` points to stays until the next call.
// @return false: the time is over or the robot has fallen, nothing was done
bool quad_walk_step(quad_walk* walk, quad_walk_sample* moment);

quad_walk_result quad_walk_finish(const quad_walk* walk);
const quad_controller* quad_walk_controller(const quad_walk* walk);

// Add a run to others: counts and times add up, errors are those over all the time, the worst tilt
// stays.
void quad_walk_merge(quad_walk_result* sum, const quad_walk_result* one);

#endif
