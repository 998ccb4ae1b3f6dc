// Transmissions: what an actuator or a tendon acts along.

#ifndef NSI_DYN_TRANSMISSION_H
#define NSI_DYN_TRANSMISSION_H

#include "dyn/robot.h"

// The length x of a transmission, its rate, and its moment dx/dq: the force that each velocity of the
// model feels per unit of the transmission's force.
typedef struct nsi_transmission {
    ns_expr length, velocity;
    ns_expr* moment; // (nv)
} nsi_transmission;

// Pose of a site in the world. `pose` (nlink) are those of the links.
nsi_link_pose nsi_site_pose(const nsi_robot* robot, const nsi_link_pose* pose, uint32_t site);

// False when out of memory (the trace fails). `pose` (nlink): see nsi_transmission_poses().
bool nsi_actuator_transmission(const nsi_robot* robot, const nsi_link_pose* pose, uint32_t actuator,
                               nsi_transmission* out);
bool nsi_tendon_transmission(const nsi_robot* robot, const nsi_link_pose* pose, uint32_t tendon,
                             nsi_transmission* out);

// Poses of all links, which sites need; NULL for a model without sites.
const nsi_link_pose* nsi_transmission_poses(const nsi_robot* robot);

// A parameter that an actuator has.
ns_expr nsi_actuator_param_of(const ns_model* model, const ns_expr* param, uint32_t actuator,
                              uint32_t which);

// Add `force` along a transmission to the forces of the velocities (nv).
void nsi_transmission_apply(const nsi_robot* robot, const nsi_transmission* t, ns_expr force,
                            ns_expr* into);

// Does it act along several velocities?
bool nsi_transmission_is_shared(const nsi_robot* robot, const nsi_transmission* t);

// -d(f)/d(velocity) of a force f along it, from the derivatives for the velocities of the model: the velocity
// itself may be part of an expression that has taken its sign.
ns_expr nsi_transmission_slope(const nsi_robot* robot, const nsi_transmission* t, ns_expr f);

// A force along several velocities whose -d(force)/d(velocity) is `slope` couples them: adds slope moment
// moment' to `coupling` (nv x nv), off the diagonal; made where it is NULL.
void nsi_transmission_couple(const nsi_robot* robot, const nsi_transmission* t, ns_expr slope,
                             ns_expr** coupling);

#endif
