// Models of the cases scene/...: scenes.c.

#ifndef BENCH_SCENES_H
#define BENCH_SCENES_H

#include "base/common.h"

// The whole MJCF text of the scene whose name `name` begins with.
void bench_put_scene(nsi_text_builder* t, const char* name);

#endif
