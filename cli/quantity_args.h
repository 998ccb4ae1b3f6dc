// Names of quantities, as the library has them and as they stand in tables:
//
//     qdd/3                qdd3
//     mass_matrix/0/1      mass_matrix_0_1
//     energy/kinetic       energy/kinetic
//     link/foot/pose/x     link/foot/pose/x

#ifndef CLI_QUANTITY_ARGS_H
#define CLI_QUANTITY_ARGS_H

#include "cli.h"

// The column of a quantity; in the pool, NULL after saying that there is no memory.
const char* quantity_column(cli_pool* pool, const char* quantity);

// The name or glob of a quantity, given the name, glob or column that a person wrote; likewise.
const char* quantity_pattern(cli_pool* pool, const char* name);

// A system that observes every quantity of the model with contact treated like this; NULL after
// saying why.
ns_system* quantity_system(const cli_model* model, const cli_contact* contact);

#endif
