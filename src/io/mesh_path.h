// Where the file is that a model names as a mesh.
//
// A name is relative to the model's file, absolute, or starts with a scheme: file://, and package://P/ or
// model://P/ for a file in the package P. What is searched, in this order:
//
//   package   folders given by the caller, which are the package or contain it; upwards from the model's
//             file, folders that are named P or contain a folder P; the folders of ROS_PACKAGE_PATH, and
//             those of AMENT_PREFIX_PATH with /share; at last the rest of the name, upwards from the
//             model's file
//   relative  the model's folder, and upwards from it as far as names with ".." may lead
//
// "Upwards" is at most NSI_MESH_LEVELS folders, and ends below the home folder and the root.
//
// Names come from strangers. A name with ".." must not lead out of its package; relative and absolute
// names must stay in the model's package, that is below the next folder upwards that has a package.xml, or
// below the folder that the model's folder is in if there is none. Absolute names may also lead to the
// folders of packages.

#ifndef NSI_IO_MESH_PATH_H
#define NSI_IO_MESH_PATH_H

#include "base/common.h"

enum { NSI_MESH_LEVELS = 6, NSI_MESH_MAX_PATH = 4096 };

typedef struct nsi_mesh_search {
    const char* folder;          // of the model's file, ending with '/' or empty
    const char* const* packages; // (npackage) folders given by the caller
    uint32_t npackage;
} nsi_mesh_search;

typedef enum nsi_mesh_place {
    NSI_MESH_FOUND,
    NSI_MESH_MISSING,
    NSI_MESH_OUTSIDE // the name leads to where it must not; nothing was looked for
} nsi_mesh_place;

// @param out  receives the path when there is such a file
nsi_mesh_place nsi_mesh_find(const nsi_mesh_search* search, const char* name,
                             char out[NSI_MESH_MAX_PATH]);

// The package in package://P/... or model://P/...: where it starts and its length; 0 for other names.
size_t nsi_mesh_package(const char* name, const char** out);

#endif
