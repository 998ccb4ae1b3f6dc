// Motions inside the library: written into a page as web/README.md says.

#ifndef NSI_REPORT_MOTION_DATA_H
#define NSI_REPORT_MOTION_DATA_H

#include "neuralsim/motion.h"

#include "base/common.h"
#include "neuralsim/json.h"

// The place in the page, its data behind it.
ns_status nsi_motion_write(const ns_motion* motion, nsi_text_builder* page, ns_error* error);

// Names of its episodes and how many rows they have.
void nsi_motion_describe(const ns_motion* motion, const char* key, ns_json* j);

#endif
