// Names of what goes into a system: coordinates, velocities, motors, controls, free parameters, as
// they stand in tables and on the command line.
//
//     by index   q0 q1..  qd0..  tau0..  u0..   and the system's own u/<actuator>, motor/<actuator>
//     by name    q_<joint>  qd_<joint>  tau_<joint>  u_<actuator>  motor_<actuator>
//                q_<joint>_0, q_<joint>_1.. for joints with several coordinates
//                memory/<quantity>/<lag> for what networks keep from step to step
//                u_<joint> for the only actuator of a joint, or tau_<joint> of one that has none
//     parameters by their own names, link/<l>/mass

#ifndef CLI_PORTS_H
#define CLI_PORTS_H

#include "cli.h"

typedef enum port_kind { PORT_NONE, PORT_STATE, PORT_CONTROL, PORT_PARAM } port_kind;

typedef struct port {
    port_kind kind;
    uint32_t index; // in the state, the control, or the free parameters
} port;

typedef struct named_port {
    const char* name;
    port port;
} named_port;

typedef struct ports {
    const cli_model* source;
    const ns_model* model;
    const ns_system* system;
    ns_model_sizes n;
    ns_system_sizes z;
    uint32_t nmotor;      // series-elastic actuators: states after coordinates and velocities
    bool by_name;         // joint names tell all apart; otherwise only indices are used
    const char** state;   // (nx) q_<joint>.., qd_<joint>.., motor_<actuator>..
    const char** control; // (nc) u_<actuator>.., tau_<joint>..
    nsi_arena arena;
    NSI_ARRAY(named_port) names;
    nsi_index index; // of names
} ports;

// False after saying why. Model and system must outlive it; free it in any case.
bool ports_create(ports* p, const cli_model* source, const ns_system* system);
void ports_free(ports* p);

port ports_find(const ports* p, const char* name);

// Columns for states and controls: by joint where possible, or by index.
const char* ports_state_name(const ports* p, uint32_t index, bool by_index);
const char* ports_control_name(const ports* p, uint32_t index, bool by_index);

// The actuator (its number, also among the controls) that motor k of the state belongs to.
uint32_t ports_motor_actuator(const ports* p, uint32_t k);

#endif
