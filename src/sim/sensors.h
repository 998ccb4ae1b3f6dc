// Quantities of sites and sensors.

#ifndef NSI_SIM_SENSORS_H
#define NSI_SIM_SENSORS_H

#include "dyn/robot.h"

// site/<s>/position, orientation, velocity/linear and angular. `pose` (nlink): of the links.
void nsi_name_sites(const nsi_robot* robot, const nsi_link_pose* pose);

// sensor/<s>, of a robot that accelerates by qdd (nv).
void nsi_name_sensors(const nsi_robot* robot, const ns_expr* qdd);

#endif
