// Portable results: copies of the files that a fitted model refers to, in its own folder.

#ifndef NSI_FIT_PORTABLE_H
#define NSI_FIT_PORTABLE_H

#include "io/hybrid_file.h"
#include "neuralsim/model.h"

// Copy the robot of a hybrid model, or those of its variants, with their meshes into folder/robot,
// and let the hybrid model name the copies. Meshes that a robot file names by an absolute path stay
// where they are.
// @param models  (one, or one for each variant) the robots as they were loaded
// @return NS_OK, NS_ERR_IO, NS_ERR_LIMIT: a file of more than 64 MB, NS_ERR_NOMEM
ns_status nsi_copy_robots(const char* folder, const ns_model* const* models, nsi_hybrid* file,
                          const ns_allocator* allocator, ns_error* error);

#endif
