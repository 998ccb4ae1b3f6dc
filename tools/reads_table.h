// The table of docs/blueprint.md that says which quantities a network may read, from the graph of a step.

#ifndef READS_TABLE_H
#define READS_TABLE_H

#include "base/common.h"

// @param robot  file of the robot whose step is looked at
bool reads_table_print(const char* robot, nsi_text_builder* out);

#endif
