// Where a file is that a model names: a mesh, or another one that must be exactly there.
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
// Names come from strangers. What is read must be, with links resolved, in the model's package, which
// is below the next folder upwards that has a package.xml, or below the folder that the model's folder is
// in if there is none; or in the package of the name, found upwards and no link to elsewhere. A package's
// name must not lead out of it. Folders given by the caller or the environment are trusted: links in them
// may lead anywhere.

#ifndef NSI_IO_MESH_PATH_H
#define NSI_IO_MESH_PATH_H

#include "base/common.h"

enum { NSI_MESH_LEVELS = 6, NSI_MESH_MAX_PATH = 4096 };

typedef struct nsi_mesh_search {
    const char* folder;          // of the model's file, ending with '/' or empty
    const char* const* packages; // (npackage) folders given by the caller
    uint32_t npackage;
    const char* beside; // folder that exact names are relative to, ending with '/' or empty; NULL:
                        // that of the model, and packages and folders above it are searched as well
} nsi_mesh_search;

typedef enum nsi_mesh_place {
    NSI_MESH_FOUND,
    NSI_MESH_MISSING,
    NSI_MESH_OUTSIDE // the name leads to where it must not
} nsi_mesh_place;

// @param out  receives the path when there is such a file; where it is outside the folder that would have
//             to be one of `packages`, or "" when none would help
nsi_mesh_place nsi_mesh_find(const nsi_mesh_search* search, const char* name,
                             char out[NSI_MESH_MAX_PATH]);

// The option that allows a folder, "" for any, as it is typed in a shell: --package-path 'a b'. What does not
// fit in `out`, of more than 20 bytes, is cut off.
enum { NSI_MESH_PERMISSION = 1000 };
void nsi_mesh_permission(const char* folder, char* out, size_t size);

// The package in package://P/... or model://P/...: where it starts and its length; 0 for other names.
size_t nsi_mesh_package(const char* name, const char** out);

#endif
