// What the kernels of a scene share: memory, lanes, graph-level derivatives.

#ifndef NSI_SCENE_KERNEL_H
#define NSI_SCENE_KERNEL_H

#include "contact/scene.h"

// One lane of a block: inputs, outputs, scratch.
typedef void nsi_scene_work(const nsi_scene* scene, const double* x, double* y, double* scratch);

// Do the lanes of a block one after the other.
void nsi_scene_lanes(const nsi_block_args* args, size_t lanes, nsi_scene_work* work);

// The kernels of a work function for all lane counts, and the function that chooses one.
#define NSI_SCENE_KERNEL(work)                                                                     \
    static void work##_1(const nsi_block_args* a) {                                                \
        nsi_scene_lanes(a, 1, work);                                                               \
    }                                                                                              \
    static void work##_4(const nsi_block_args* a) {                                                \
        nsi_scene_lanes(a, 4, work);                                                               \
    }                                                                                              \
    static void work##_16(const nsi_block_args* a) {                                               \
        nsi_scene_lanes(a, 16, work);                                                              \
    }                                                                                              \
    static void work##_64(const nsi_block_args* a) {                                               \
        nsi_scene_lanes(a, 64, work);                                                              \
    }                                                                                              \
    static nsi_block_kernel* work##_kernel(uint32_t form) {                                        \
        static nsi_block_kernel* const kernels[NSI_LANE_FORMS] = {work##_1, work##_4, work##_16,   \
                                                                  work##_64};                      \
        return kernels[form];                                                                      \
    }

// Sizes from the parameters: inputs, outputs, scratch.
bool nsi_scene_sizes(const uint32_t* params, nsi_block_sizes* out);

// Append a derivative of the block `value`: it reads the inputs of the value, `nkept` of its outputs from
// `kept` on, and `more`, where NSI_NONE is zero.
nsi_id nsi_scene_append(ns_graph* g, const nsi_block_kind* kind, const nsi_block* value,
                        uint32_t kept, uint32_t nkept, const nsi_id* more, uint32_t nmore,
                        uint32_t noutput, size_t scratch);

// Memory for numbers, and for counts, from scratch.
static inline double* nsi_take(double** at, size_t count) {
    double* block = *at;
    *at += count;
    return block;
}
static inline uint32_t* nsi_take_counts(double** at, size_t count) {
    return (uint32_t*)(void*)nsi_take(at, (count + 1) / 2);
}

static inline void nsi_scene_run(const ns_program* program, const double* in, double* out,
                                 double* work) {
    ns_program_run(program, &(ns_run){.in = in, .out = out, .work = work});
}

// The root of a tree in a forest of islands, and the union of two.
static inline uint32_t nsi_island_root(uint32_t* parent, uint32_t tree) {
    while (parent[tree] != tree) tree = parent[tree] = parent[parent[tree]];
    return tree;
}
static inline void nsi_island_join(uint32_t* parent, uint32_t a, uint32_t b) {
    a = nsi_island_root(parent, a);
    b = nsi_island_root(parent, b);
    if (a < b) parent[b] = a;
    if (b < a) parent[a] = b;
}

// The tree of a geometry's body, or NSI_NONE.
static inline uint32_t nsi_scene_geom_tree(const nsi_scene* s, uint32_t geom) {
    uint32_t body = s->geoms[geom].body;
    return body == NSI_NONE ? NSI_NONE : s->bodies[body].tree;
}

// The pair and the point of a contact in the list; false: there is none, and none follows.
static inline bool nsi_scene_contact_of(const double* contact, uint32_t* pair, uint32_t* point) {
    if (contact[NSI_SCENE_ID] < 0.0) return false;
    uint32_t id = (uint32_t)contact[NSI_SCENE_ID];
    *pair = id / NSI_SCENE_MAX_POINTS;
    *point = id % NSI_SCENE_MAX_POINTS;
    return true;
}

#endif
