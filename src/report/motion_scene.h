// What a page draws of a model, as web/README.md says: links, joints and geometries.

#ifndef NSI_REPORT_MOTION_SCENE_H
#define NSI_REPORT_MOTION_SCENE_H

#include "base/common.h"
#include "neuralsim/json.h"
#include "neuralsim/model.h"

// Most triangles of all meshes of a model. Where there are more, meshes are drawn by their corners.
enum { NSI_SCENE_MAX_TRIANGLES = 200000 };

// Drawn are the geometries that are to be seen; where a link has none, those it touches with. Files
// of meshes are read here: one that is gone is drawn by the corners that the model has of it, or not
// at all.
// @return NS_OK, NS_ERR_NOMEM
ns_status nsi_scene_write(const ns_model* model, const ns_allocator* allocator, const char* key,
                          ns_json* j, ns_error* error);

#endif
