// The table of joint types.

#include "dyn/joint.h"

static const nsi_joint* const joints[] = {
#define JOINT_ROW(ENUMERATOR, record) [NS_JOINT_##ENUMERATOR] = &nsi_joint_##record,
    NS_JOINT_TYPES(JOINT_ROW)
#undef JOINT_ROW
};

const nsi_joint* nsi_joint_get(ns_joint_type type) {
    return joints[type];
}

const ns_joint_info* ns_joint_type_info(ns_joint_type type) {
    return (size_t)type < sizeof joints / sizeof *joints ? &joints[type]->info : NULL;
}
