// What the name of a quantity is made of: the object that it belongs to, indices, a component.

#ifndef NSI_QUANTITY_PARTS_H
#define NSI_QUANTITY_PARTS_H

#include "model/model_data.h"
#include "neuralsim/sim.h"

enum { NSI_FAMILY_SIZE = 1300 }; // bytes of a group or family, and its NUL

// The fields of ns_quantity_info from `group` on; texts are in `group`, `family` and constants.
typedef struct nsi_quantity_parts {
    char group[NSI_FAMILY_SIZE], family[NSI_FAMILY_SIZE];
    const char *object, *component;
    uint32_t rank, index[2];
    bool spatial; // one number of a vector or tensor in space
} nsi_quantity_parts;

void nsi_quantity_parts_of(const ns_model* model, const char* name, nsi_quantity_parts* out);

#endif
