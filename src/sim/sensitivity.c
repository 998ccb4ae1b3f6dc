// Sensitivities carried forward through a rollout. Which way a step goes:
//
// Lanes, without derivatives for weights. Four columns of S are the tangents of four lanes that all have the same
// state; the forward derivative of the step gives the next state and the next columns at once:
//
//     in   x | c | p | dx | dc | dp        out   y | residual | next x | dy | d residual | next dx
//
// each number [component][lane]. Columns stay in this layout from step to step and are copied to rows
// for the visitor only.
//
// Rows, with them. The reverse derivative of the step, seeded at one state, gives that row of A, of
// B for parameters and, added to where sinks point, of B for weights: into the row of the next S. Then
// jacobian_product.c adds A S. Observations are further rows, made only when they are looked at.

#include "sim/sensitivity.h"

#include "expr/kernels.h"
#include "sim/jacobian_product.h"
#include "sim/system.h"

#include <float.h>
#include <math.h>

enum { LANES = 4 };

// Columns first .. first + count as lanes; lanes that are left over repeat the last one.
typedef struct lane_group {
    const ns_program* program;
    uint32_t first, count, lanes;
    double* in;
} lane_group;

struct nsi_sensitivity {
    const ns_system* system;
    nsi_arena arena;           // of all below
    uint32_t initial, columns; // initial: how many of them belong to the initial state
    bool along;                // columns for parameters are directions, not single ones
    double *x, *y, *dx, *dy;   // what the visitor sees
    double* out;               // of programs
    void* work;
    const double** arrays; // of weights, then their tangents, which are 0
    lane_group* groups;    // without derivatives for weights
    uint32_t ngroup;

    // With them.
    bool by_rows;
    double* in;                     // x | c | p | seeds of y | of the residual | of the next x
    double* next;                   // the next dx
    double** sinks;                 // of a row
    nsi_jacobian_product_row* rows; // (nx + ny)
    nsi_jacobian_product_kernel* multiply;
};

static size_t step_inputs(const ns_system* s) {
    return (size_t)s->sizes.nx + s->sizes.nc + s->sizes.np;
}

// Of what a step gave: observations that are looked at, the next state; both with derivatives.
typedef struct finiteness {
    bool observed, next;
} finiteness;

// ---- memory --------------------------------------------------------------------------------

static double* alloc_columns(nsi_sensitivity* d, size_t count) {
    return nsi_arena_alloc(&d->arena, count * sizeof(double));
}

// Groups of four columns; a column that is left over, or the state without any, goes alone.
static bool make_groups(nsi_sensitivity* d) {
    const ns_system* s = d->system;
    d->ngroup = d->columns > 0 ? (d->columns - 1) / LANES + 1 : 1;
    d->groups = nsi_arena_alloc(&d->arena, d->ngroup * sizeof *d->groups);
    if (!d->groups) return false;
    for (uint32_t n = 0; n < d->ngroup; n++) {
        lane_group* g = &d->groups[n];
        g->first = n * LANES;
        g->count = d->columns - g->first < LANES ? d->columns - g->first : LANES;
        g->lanes = g->count > 1 ? LANES : 1;
        g->program = g->count == 0 ? s->step[NSI_FORM_ONE]
                                   : s->jvp[g->count > 1 ? NSI_FORM_FOUR : NSI_FORM_ONE];
        g->in = alloc_columns(d, 2 * step_inputs(s) * g->lanes);
        if (!g->in) return false;
    }
    return true;
}

static bool make_jacobian_rows(nsi_sensitivity* d) {
    const ns_system* s = d->system;
    const size_t nx = s->sizes.nx, nrow = nx + s->sizes.ny;
    d->in = alloc_columns(d, step_inputs(s) + nsi_step_ny(s) + nx);
    d->next = alloc_columns(d, nx * d->columns);
    d->sinks = nsi_arena_alloc(&d->arena, s->narray * sizeof *d->sinks);
    d->rows = nsi_arena_alloc(&d->arena, nrow * sizeof *d->rows);
    double* values = alloc_columns(d, nrow * nx);
    const double** states = nsi_arena_alloc(&d->arena, nrow * nx * sizeof *states);
    if (!d->in || !d->next || !d->sinks || !d->rows || !values || !states) {
        return false;
    }
    for (size_t i = 0; i < nrow; i++) {
        d->rows[i] = (nsi_jacobian_product_row){.value = values + i * nx, .state = states + i * nx};
    }
    d->multiply = nsi_jacobian_product_generic;
#ifdef NSI_HAVE_AVX2_KERNELS
    if (nsi_cpu_has_avx2_fma()) d->multiply = nsi_jacobian_product_avx2;
#endif
    return true;
}

static size_t sensitivity_work_size(const nsi_sensitivity* d) {
    const ns_system* s = d->system;
    if (d->by_rows) {
        return nsi_max_size(ns_program_work_size(s->step[NSI_FORM_ONE]),
                            ns_program_work_size(s->vjp[NSI_FORM_ONE]));
    }
    size_t derivative = nsi_max_size(ns_program_work_size(s->jvp[NSI_FORM_ONE]),
                                     ns_program_work_size(s->jvp[NSI_FORM_FOUR]));
    return nsi_max_size(derivative, ns_program_work_size(s->step[NSI_FORM_ONE]));
}

static bool make_memory(nsi_sensitivity* d) {
    const ns_system* s = d->system;
    const ns_system_sizes* z = &s->sizes;
    size_t outputs = nsi_step_ny(s) + z->nx;
    d->x = alloc_columns(d, z->nx);
    d->y = alloc_columns(d, z->ny);
    d->dx = alloc_columns(d, (size_t)z->nx * d->columns);
    d->dy = alloc_columns(d, (size_t)z->ny * d->columns);
    d->out = alloc_columns(d, nsi_max_size(2 * outputs * LANES, step_inputs(s)));
    d->work = nsi_arena_alloc(&d->arena, sensitivity_work_size(d));
    d->arrays = nsi_arena_alloc(&d->arena, 2 * s->narray * sizeof *d->arrays);
    double* zeros = alloc_columns(d, z->nw);
    if (!d->x || !d->y || !d->dx || !d->dy || !d->out || !d->work || !d->arrays || !zeros) {
        return false;
    }
    memset(zeros, 0, z->nw * sizeof(double));
    for (uint32_t k = 0; k < s->narray; k++) {
        d->arrays[s->narray + k] = zeros + s->arrays[k].offset;
    }
    return d->by_rows ? make_jacobian_rows(d) : make_groups(d);
}

// `shape` says which columns there are.
static ns_status create_sensitivity(const ns_system* system, nsi_sensitivity shape,
                                    nsi_sensitivity** out, ns_error* error) {
    nsi_sensitivity* d = nsi_alloc(&system->allocator, sizeof *d);
    *out = NULL;
    if (!d) return nsi_fail_nomem(error);
    *d = shape;
    d->system = system;
    d->arena.allocator = system->allocator;
    if (!make_memory(d)) {
        nsi_sensitivity_free(d);
        return nsi_fail_nomem(error);
    }
    *out = d;
    return NS_OK;
}

ns_status nsi_sensitivity_create(const ns_system* system, bool initial, bool weights,
                                 nsi_sensitivity** out, ns_error* error) {
    const ns_system_sizes* z = &system->sizes;
    uint32_t first = initial ? z->nx : 0;
    return create_sensitivity(system,
                              (nsi_sensitivity){.initial = first,
                                                .columns = first + z->np + (weights ? z->nw : 0),
                                                .by_rows = weights && z->nw > 0},
                              out, error);
}

ns_status nsi_sensitivity_create_along(const ns_system* system, bool initial, uint32_t directions,
                                       nsi_sensitivity** out, ns_error* error) {
    uint32_t first = initial ? system->sizes.nx : 0;
    return create_sensitivity(
        system, (nsi_sensitivity){.initial = first, .columns = first + directions, .along = true},
        out, error);
}

void nsi_sensitivity_free(nsi_sensitivity* d) {
    if (!d) return;
    ns_allocator memory = d->arena.allocator;
    nsi_arena_free(&d->arena);
    nsi_free(&memory, d);
}

uint32_t nsi_sensitivity_columns(const nsi_sensitivity* d) {
    return d->columns;
}

static double param(const ns_system* s, const nsi_sensitivity_args* args, uint32_t k) {
    return args->params ? args->params[k] : s->params[s->free_param[k]];
}

// ---- columns as lanes ----------------------------------------------------------------------

static void repeat(const double* from, size_t count, size_t lanes, double* to) {
    for (size_t k = 0; k < count; k++) {
        for (size_t l = 0; l < lanes; l++) to[k * lanes + l] = from[k];
    }
}

static void begin_lanes(nsi_sensitivity* d, const nsi_sensitivity_args* args) {
    const ns_system* s = d->system;
    const ns_system_sizes* z = &s->sizes;
    for (uint32_t n = 0; n < d->ngroup; n++) {
        const lane_group* g = &d->groups[n];
        double* p = g->in + ((size_t)z->nx + z->nc) * g->lanes;
        double *dx = p + z->np * g->lanes, *dp = dx + ((size_t)z->nx + z->nc) * g->lanes;

        // All lanes of a group run the same state; only their tangents differ.
        memset(g->in, 0, 2 * step_inputs(s) * g->lanes * sizeof(double));
        repeat(args->x0, z->nx, g->lanes, g->in);
        for (uint32_t k = 0; k < z->np; k++) {
            double value = param(s, args, k);
            repeat(&value, 1, g->lanes, p + k * g->lanes);
        }

        // The tangent of a lane: a unit vector of the initial state or of a parameter, or a given
        // direction. Lanes beyond the last column repeat it.
        for (uint32_t l = 0; l < g->lanes && g->count > 0; l++) {
            uint32_t column = g->first + (l < g->count ? l : g->count - 1);
            if (column < d->initial) {
                dx[column * g->lanes + l] = 1.0;
            } else if (d->along) {
                size_t count = d->columns - d->initial;
                for (uint32_t k = 0; k < z->np; k++) {
                    dp[k * g->lanes + l] = args->along[k * count + column - d->initial];
                }
            } else {
                dp[(column - d->initial) * g->lanes + l] = 1.0;
            }
        }
    }
}

// The columns of a group, [component][lane], into rows.
static void put_columns(const nsi_sensitivity* d, const lane_group* g, const double* from,
                        size_t count, double* to) {
    to += g->first;
    if (g->count == LANES) {
        for (size_t i = 0; i < count; i++) {
            memcpy(to + i * d->columns, from + i * LANES, LANES * sizeof(double));
        }
        return;
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t l = 0; l < g->count; l++) to[i * d->columns + l] = from[i * g->lanes + l];
    }
}

// State and columns as the visitor sees them.
static void show_lanes(nsi_sensitivity* d) {
    const ns_system_sizes* z = &d->system->sizes;
    const lane_group* first = &d->groups[0];
    for (size_t i = 0; i < z->nx; i++) d->x[i] = first->in[i * first->lanes];
    for (uint32_t n = 0; n < d->ngroup; n++) {
        const lane_group* g = &d->groups[n];
        put_columns(d, g, g->in + step_inputs(d->system) * g->lanes, z->nx, d->dx);
    }
}

static finiteness step_lanes(nsi_sensitivity* d, const double* controls, bool visited) {
    const ns_system* s = d->system;
    const ns_system_sizes* z = &s->sizes;
    finiteness finite = {true, true};
    if (visited) show_lanes(d);
    for (uint32_t n = 0; n < d->ngroup; n++) {
        const lane_group* g = &d->groups[n];
        const size_t lanes = g->lanes, state = z->nx * lanes;
        double *x = g->in, *dx = x + step_inputs(s) * lanes;
        const double *next = d->out + nsi_step_ny(s) * lanes, *dy = next + state;
        const double* dnext = dy + nsi_step_ny(s) * lanes;

        if (controls) repeat(controls, z->nc, lanes, x + state);
        ns_program_run(g->program,
                       &(ns_run){.in = x, .out = d->out, .arrays = d->arrays, .work = d->work});

        // Observations, and their derivatives by column.
        if (visited) {
            for (size_t i = 0; i < z->ny; i++) d->y[i] = d->out[i * lanes];
            put_columns(d, g, dy, z->ny, d->dy);
        }

        // The next state and its derivatives become inputs.
        if (n == 0) finite.next = nsi_all_finite(next, state); // the same numbers in all groups
        memcpy(x, next, state * sizeof(double));
        if (g->count == 0) continue;
        finite.next &= nsi_all_finite(dnext, state);
        memcpy(dx, dnext, state * sizeof(double));
    }
    if (visited)
        finite.observed =
            nsi_all_finite(d->y, z->ny) && nsi_all_finite(d->dy, z->ny * (size_t)d->columns);
    return finite;
}

// ---- rows of the Jacobian ------------------------------------------------------------------

static void begin_rows(nsi_sensitivity* d, const nsi_sensitivity_args* args) {
    const ns_system* s = d->system;
    const ns_system_sizes* z = &s->sizes;
    double* p = d->in + z->nx + z->nc;
    memset(d->in, 0, (step_inputs(s) + nsi_step_ny(s) + z->nx) * sizeof(double));
    memcpy(d->in, args->x0, z->nx * sizeof(double));
    for (uint32_t k = 0; k < z->np; k++) p[k] = param(s, args, k);
    memset(d->dx, 0, (size_t)z->nx * d->columns * sizeof(double));
    for (size_t i = 0; i < d->initial; i++) d->dx[i * d->columns + i] = 1.0;
}

// One row of A and B: that of an output of the step, by its number.
static void make_row(nsi_sensitivity* d, size_t output, double* to, nsi_jacobian_product_row* row) {
    const ns_system* s = d->system;
    const ns_system_sizes* z = &s->sizes;
    double *seed = d->in + step_inputs(s) + output, *weights = to + d->initial + z->np;
    memset(to, 0, d->columns * sizeof(double));
    for (uint32_t k = 0; k < s->narray; k++) d->sinks[k] = weights + s->arrays[k].offset;
    *seed = 1.0;
    ns_program_run(
        s->vjp[NSI_FORM_ONE],
        &(ns_run){
            .in = d->in, .out = d->out, .arrays = d->arrays, .sinks = d->sinks, .work = d->work});
    *seed = 0.0;
    memcpy(to + d->initial, d->out + z->nx + z->nc, z->np * sizeof(double));
    row->out = to;
    row->count = 0;
    for (size_t i = 0; i < z->nx; i++) {
        if (d->out[i] == 0.0) continue;
        row->value[row->count] = d->out[i];
        row->state[row->count++] = d->dx + i * d->columns;
    }
}

// Leaves the derivatives of the next state in `next`.
static finiteness step_rows(nsi_sensitivity* d, const double* controls, bool visited) {
    const ns_system* s = d->system;
    const ns_system_sizes* z = &s->sizes;
    const size_t nx = z->nx, columns = d->columns;
    finiteness finite = {true, true};
    if (controls) memcpy(d->in + nx, controls, z->nc * sizeof(double));
    for (size_t i = 0; i < nx; i++) {
        make_row(d, nsi_step_ny(s) + i, d->next + i * columns, &d->rows[i]);
    }
    finite.next = d->multiply(d->rows, nx, nx, columns);
    for (size_t i = 0; i < z->ny && visited; i++) {
        make_row(d, i, d->dy + i * columns, &d->rows[nx + i]);
    }
    if (visited) finite.observed = d->multiply(d->rows + nx, z->ny, nx, columns);
    ns_program_run(s->step[NSI_FORM_ONE],
                   &(ns_run){.in = d->in, .out = d->out, .arrays = d->arrays, .work = d->work});
    if (visited) {
        memcpy(d->x, d->in, nx * sizeof(double));
        memcpy(d->y, d->out, z->ny * sizeof(double));
        finite.observed &= nsi_all_finite(d->y, z->ny);
    }
    memcpy(d->in, d->out + nsi_step_ny(s), nx * sizeof(double));
    finite.next &= nsi_all_finite(d->in, nx);
    return finite;
}

// ---- rollout -------------------------------------------------------------------------------

bool nsi_sensitivity_run(nsi_sensitivity* d, const nsi_sensitivity_args* args,
                         nsi_sensitivity_visitor* visit, void* context) {
    const ns_system_sizes* z = &d->system->sizes;
    const bool rows = d->by_rows;
    const uint32_t every = args->every > 0 ? args->every : 1;
    NS_ASSERT(!d->along || args->along || d->columns == d->initial);
    if (!nsi_all_finite(args->x0, z->nx)) return false;

    // Weights and initial derivatives.
    for (uint32_t k = 0; k < d->system->narray; k++) {
        const double* weights = args->weights ? args->weights : d->system->weights;
        d->arrays[k] = weights + d->system->arrays[k].offset;
    }
    if (rows) {
        begin_rows(d, args);
    } else {
        begin_lanes(d, args);
    }

    for (uint32_t k = 0; k < args->steps; k++) {
        const double* controls = args->controls ? args->controls + (size_t)k * z->nc : NULL;
        const bool visited = k % every == 0;
        finiteness finite =
            rows ? step_rows(d, controls, visited) : step_lanes(d, controls, visited);

        // A visitor sees finite numbers only.
        if (!finite.observed) return false;
        if (visited) visit(context, k, d->x, d->dx, d->y, d->dy);
        if (!finite.next) return false;

        // Rows are computed into a second matrix, which takes the place of the first.
        // The final state is visited without observations: those belong to a step.
        if (rows) {
            double* past = d->dx;
            d->dx = d->next;
            d->next = past;
        }
    }
    if (rows) {
        memcpy(d->x, d->in, z->nx * sizeof(double));
    } else {
        show_lanes(d);
    }
    visit(context, args->steps, d->x, d->dx, NULL, NULL);
    return true;
}
