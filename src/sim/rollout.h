// The inside of rollouts, for all that rolls out: memory of threads, tiles of robots, sums over robots.
// rollout.c has the picture.

#ifndef NSI_ROLLOUT_H
#define NSI_ROLLOUT_H

#include "sim/system.h"

enum { NSI_TILE_LANES = 4 };

typedef struct nsi_thread_memory {
    double* records;       // (segment + 1) records
    double* checkpoints;   // state at the beginning of each segment
    double* in;            // inputs of the forward derivative
    double* hvp_in;        // inputs of the reverse derivative and their tangents
    double* out;           // outputs of the reverse or forward derivative
    double* adjoint;       // of the state; behind it its tangent
    double* spare_weights; // (nw) for gradients that are dropped: certificates only
    double** spare_sinks;  // of the arrays in them
    void* work;
} nsi_thread_memory;

struct ns_workspace {
    ns_allocator allocator;
    const ns_system* system;
    ns_workspace_size size;
    uint32_t segment; // steps whose records are kept
    bool hvp;         // has room for ns_rollout_hvp()
    nsi_thread_memory* thread;
    double* dparams;       // per tile: (np) x lanes; for hvp then the same for the product
    double* dweights;      // per chunk: (nw), for hvp twice; then zeros (nw)
    const double** arrays; // the system's arrays of weights, then their tangents
    double** sinks;        // per chunk: where the gradient of each array goes
    uint32_t* failed_step; // per tile: first step whose result is not finite, or NSI_NONE
    uint32_t* failed_lane;
    uint32_t* failed_input; // per tile: state or parameter whose derivative is not finite
};

// One tile at work.
typedef struct nsi_tile {
    const ns_system* s;
    const ns_rollout_args* args;
    nsi_thread_memory* memory;
    uint32_t number, first, count; // robots first .. first + count
    const double* const* arrays;
    double* const* sinks;
    uint32_t lanes, form;
    ns_gradient_certificate* certificate; // (batch) of a gradient, or NULL
} nsi_tile;

// The work of one tile.
typedef void nsi_tile_work(const nsi_tile* t, ns_workspace* w, const void* job);

// What is done with a tile: forward alone, or a derivative described by `job`.
typedef struct nsi_tile_task {
    nsi_tile_work* work;
    const void* job;
    const double* dweights; // tangents, or NULL
    bool gradient;          // of the weights: their sinks are written
    bool second;            // and those of its product with a direction
} nsi_tile_task;

static inline uint32_t nsi_tile_count(uint32_t batch) {
    return (batch - 1) / NSI_TILE_LANES + 1;
}

// Parts of a batch that have a gradient of the weights each.
uint32_t nsi_chunk_count(uint32_t batch);

static inline size_t nsi_record_size(const ns_system* s) {
    const ns_system_sizes* z = &s->sizes;
    return 2 * (nsi_step_ny(s) + z->nx) + z->nc + z->np;
}

// All tiles, in chunks shared out to threads; then see whether every robot stayed finite.
ns_status nsi_run_tiles(const ns_system* s, ns_workspace* w, const ns_rollout_args* args,
                        const nsi_tile_task* task, ns_error* error);

// Called in the middle of a gradient: robots first .. first + count are simulated, their states and
// observations stored, and their seeds are read next. Threads call it side by side, for different robots.
typedef void nsi_tile_seeder(void* context, uint32_t first, uint32_t count);

// ns_rollout_vjp() for seeds that depend on the motion: one simulation instead of two.
ns_status nsi_rollout_vjp_seeded(const ns_system* s, ns_workspace* w, const ns_rollout_args* args,
                                 const ns_rollout_adjoint* adjoint, nsi_tile_seeder* seed,
                                 void* context, ns_error* error);

// ---- lanes of a tile -----------------------------------------------------------------------

// Rows of `from`, `stride` apart per robot, into [component][lane]; NULL: zeros.
void nsi_tile_gather(const nsi_tile* t, const double* from, size_t stride, size_t count,
                     double* to);

// Add the seeds of robots. Lanes that are left over have none: gradients for weights are summed over
// lanes.
void nsi_tile_add(const nsi_tile* t, const double* from, size_t stride, size_t count, double* to);

// Back into rows; `to` may be NULL.
void nsi_tile_scatter(const nsi_tile* t, const double* from, size_t stride, size_t count,
                      double* to);

// Parameters, NULL: the model's.
void nsi_tile_gather_params(const nsi_tile* t, const double* params, double* to);

// ---- results -------------------------------------------------------------------------------

void nsi_tile_begin_report(const nsi_tile* t);

// Note what the solver of a step put out behind its observations `y`.
void nsi_tile_report_contact(const nsi_tile* t, const double* y, uint32_t step);

// Look at `count` derivatives, [component][lane]; the first bad one is kept, counted from `first`.
void nsi_tile_check_derivative(const nsi_tile* t, ns_workspace* w, const double* d, size_t count,
                               uint32_t first);

// `of` says what the components are: "the gradient for", "the derivative of".
ns_status nsi_report_derivative(const ns_system* s, const ns_workspace* w,
                                const ns_rollout_args* args, const char* of, ns_error* error);

// Sum over robots in order, or hand out one row per robot, from `parts` per tile.
void nsi_collect_dparams(const ns_system* s, const double* parts, const ns_rollout_args* args,
                         double* dparams);

// Sum over chunks in order, whose parts are `stride` apart.
void nsi_collect_dweights(const ns_system* s, const double* parts, size_t stride, uint32_t chunks,
                          double* dweights);

#endif
