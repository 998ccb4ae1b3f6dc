// A fixed joint: the link is welded to its parent.

#include "dyn/joint.h"

const nsi_joint nsi_joint_fixed = {.info = {.name = "fixed"}};
