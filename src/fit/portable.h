// Portable results: copies of the files that a fitted model refers to, in its own folder.

#ifndef NSI_FIT_PORTABLE_H
#define NSI_FIT_PORTABLE_H

#include "io/hybrid_file.h"
#include "neuralsim/model.h"

// What was left out, and why: texts from the allocator.
typedef NSI_ARRAY(char*) nsi_copy_notes;
void nsi_copy_notes_free(const ns_allocator* allocator, nsi_copy_notes* notes);

// Do two paths lead to the same file, which is there?
bool nsi_same_file(const char* a, const char* b);

// Copy the robot of a hybrid model, or those of its variants, with their meshes into folder/robot,
// and let the hybrid model name the copies. Only files that are meshes (.stl, .obj) at most one folder
// above the robot file are copied; a robot that touches with one further away is not copied. Meshes
// that a robot file names by an absolute path stay where they are.
// @param models  (one, or one for each variant) the robots as they were loaded
// @param notes   receives what was left out; NULL: nobody asks
// @return NS_OK, NS_ERR_IO, NS_ERR_LIMIT: a robot file of more than 64 MB, NS_ERR_NOMEM
ns_status nsi_copy_robots(const char* folder, const ns_model* const* models, nsi_hybrid* file,
                          nsi_copy_notes* notes, const ns_allocator* allocator, ns_error* error);

#endif
