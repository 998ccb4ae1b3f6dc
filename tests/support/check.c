#include "support/check.h"

#include "expr/graph.h"
#include "neuralsim/program.h"
#include "support/ccode.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

enum { LANES = 64, C_LANES = 4, GUARD = 8 };

// Both sides of the transpose identity are sums of products that went through some hundred
// roundings of 1e-16 each, so nearly all agree to 1e-14; but of 200,000 random points one in 20,000
// is so ill-conditioned that it loses two to six digits more. Where terms of order 1 cancel, NOISE
// is what remains of them, in units of the tolerance.
static const double TRANSPOSE_TOLERANCE = 1e-8, NOISE = 1e-4;

// Central differences with steps h and h/2 are off by c h^2 and c h^2/4 where f is smooth; a kink
// in between makes them differ by the order of the change of slope. The extrapolated value is then
// off by at most a third of their difference. So what passes as consistent leaves a factor of 30 to
// what fails as wrong. The value's part allows for its rounding: 1e-16 / h at the smallest step.
static const double STEPS[] = {1e-3, 1e-4, 1e-5};
static const double CONSISTENT = 1e-6, CONSISTENT_VALUE = 1e-9, CONSISTENT_ABSOLUTE = 1e-12;
static const double ACCEPTED = 10.0; // times the above

struct check_batch {
    ccode* code;
    NSI_ARRAY(struct subject*) subjects;
    NSI_ARRAY(ns_graph*) graphs; // derivatives made here
    check_report report;
    bool failed;
    char problem[3000];
};

static const ns_allocator* const memory = NULL; // the default one

static void* must(void* block) {
    if (!block) abort(); // out of memory in a test
    return block;
}

static double* doubles(size_t count) {
    return must(calloc(count + 1, sizeof(double)));
}

static bool complain(check_batch* b, const char* format, ...) NSI_PRINTF(2, 3);
static bool complain(check_batch* b, const char* format, ...) {
    if (b->failed) return false;
    b->failed = true;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(b->problem, sizeof b->problem, format, arguments);
    va_end(arguments);
    return false;
}

bool check_same_bits(double a, double b) {
    return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0;
}

// ---- what is run, and on what --------------------------------------------------------------

// A graph with values for all it reads, in LANES lanes, and the answers of the reference: the
// interpreter with one lane.
typedef struct subject {
    const ns_graph* graph;
    const char *name, *what; // "pendulum", "vjp"
    double* in;              // [input][LANES]
    double** arrays;         // [size], or [size][LANES] if per lane
    double* out;             // [output][LANES]
    double** sinks;          // [size][LANES]: what each lane alone adds to zero
    uint32_t c_function;     // number in the library, or UINT32_MAX
} subject;

static subject* subject_create(check_batch* b, const ns_graph* graph, const char* name,
                               const char* what) {
    subject* s = must(calloc(1, sizeof *s));
    *s = (subject){.graph = graph, .name = name, .what = what, .c_function = UINT32_MAX};
    s->in = doubles((size_t)graph->inputs.count * LANES);
    s->out = doubles((size_t)graph->outputs.count * LANES);
    s->arrays = must(calloc(graph->arrays.count + 1, sizeof *s->arrays));
    s->sinks = must(calloc(graph->sinks.count + 1, sizeof *s->sinks));
    for (uint32_t k = 0; k < graph->arrays.count; k++) {
        const nsi_array_port* array = &graph->arrays.data[k];
        s->arrays[k] = doubles((size_t)array->size * (array->per_lane ? LANES : 1));
    }
    for (uint32_t k = 0; k < graph->sinks.count; k++) {
        s->sinks[k] = doubles((size_t)graph->sinks.data[k].size * LANES);
    }
    if (!nsi_array_push(memory, &b->subjects, s)) abort();
    return s;
}

static void subject_free(subject* s, uint32_t narray, uint32_t nsink) {
    for (uint32_t k = 0; k < narray; k++) free(s->arrays[k]);
    for (uint32_t k = 0; k < nsink; k++) free(s->sinks[k]);
    free(s->in);
    free(s->out);
    free(s->arrays);
    free(s->sinks);
    free(s);
}

static double array_at(const subject* s, uint32_t array, uint32_t element, uint32_t lane) {
    return s->graph->arrays.data[array].per_lane ? s->arrays[array][element * LANES + lane]
                                                 : s->arrays[array][element];
}

// Another point nearby.
static double vary(ns_rng* rng, double x) {
    return x + ns_rng_uniform(rng, -0.1, 0.1) * (1.0 + fabs(x));
}

// The function's own inputs and arrays: the given point in lane 0, others around it.
static void fill_point(subject* s, const double* x, const double* const* arrays, ns_rng* rng) {
    for (uint32_t i = 0; i < s->graph->inputs.count; i++) {
        s->in[i * LANES] = x[i];
        for (uint32_t l = 1; l < LANES; l++) s->in[i * LANES + l] = vary(rng, x[i]);
    }
    for (uint32_t k = 0; k < s->graph->arrays.count; k++) {
        const nsi_array_port* array = &s->graph->arrays.data[k];
        for (uint32_t e = 0; e < array->size; e++) {
            if (!array->per_lane) {
                s->arrays[k][e] = arrays[k][e];
                continue;
            }
            s->arrays[k][e * LANES] = arrays[k][e];
            for (uint32_t l = 1; l < LANES; l++) {
                s->arrays[k][e * LANES + l] = vary(rng, arrays[k][e]);
            }
        }
    }
}

// A derivative's inputs and arrays: those of the function, then random tangents or seeds.
static void extend_point(subject* s, const subject* f, ns_rng* rng) {
    uint32_t ninput = f->graph->inputs.count, narray = f->graph->arrays.count;
    if (ninput > 0) memcpy(s->in, f->in, (size_t)ninput * LANES * sizeof(double));
    for (uint32_t i = ninput * LANES; i < s->graph->inputs.count * LANES; i++) {
        s->in[i] = ns_rng_uniform(rng, -1.0, 1.0);
    }
    for (uint32_t k = 0; k < s->graph->arrays.count; k++) {
        const nsi_array_port* array = &s->graph->arrays.data[k];
        for (uint32_t e = 0; e < array->size * (array->per_lane ? LANES : 1u); e++) {
            s->arrays[k][e] = k < narray ? f->arrays[k][e] : ns_rng_uniform(rng, -1.0, 1.0);
        }
    }
}

// ---- running -------------------------------------------------------------------------------

// A program with everything it needs to run; guards behind each array that it writes.
typedef struct machine {
    const ns_graph* graph;
    ns_program* program;
    ns_backend backend;
    uint32_t lanes;
    double *in, *out;
    double **arrays, **sinks;
    unsigned char* work;
    size_t work_size;
} machine;

static size_t sink_length(const machine* m, uint32_t k) {
    const nsi_array_port* sink = &m->graph->sinks.data[k];
    return (size_t)sink->size * (sink->per_lane ? m->lanes : 1);
}

// A machine without a program: just room for what one would read and write.
static machine machine_without_program(const ns_graph* g, uint32_t lanes) {
    machine storage = {.graph = g, .lanes = lanes}, *m = &storage;
    m->in = doubles((size_t)g->inputs.count * lanes);
    m->out = doubles((size_t)g->outputs.count * lanes + GUARD);
    m->arrays = must(calloc(g->arrays.count + 1, sizeof *m->arrays));
    for (uint32_t k = 0; k < g->arrays.count; k++) {
        const nsi_array_port* array = &g->arrays.data[k];
        m->arrays[k] = doubles((size_t)array->size * (array->per_lane ? lanes : 1));
    }
    m->sinks = must(calloc(g->sinks.count + 1, sizeof *m->sinks));
    for (uint32_t k = 0; k < g->sinks.count; k++) m->sinks[k] = doubles(sink_length(m, k) + GUARD);
    return storage;
}

static void machine_free(machine* m) {
    if (!m->graph) return;
    ns_program_free(m->program);
    free(m->in);
    free(m->out);
    for (uint32_t k = 0; k < m->graph->arrays.count; k++) free(m->arrays[k]);
    for (uint32_t k = 0; k < m->graph->sinks.count; k++) free(m->sinks[k]);
    free(m->arrays);
    free(m->sinks);
    free(m->work);
}

static bool machine_create(check_batch* b, const subject* s, ns_backend backend, uint32_t lanes,
                           machine* m) {
    *m = machine_without_program(s->graph, lanes);
    ns_program_options options = ns_default_program_options();
    options.backend = backend;
    options.lanes = lanes;
    ns_error error;
    if (ns_program_build(s->graph, &options, &m->program, &error) != NS_OK) {
        machine_free(m);
        *m = (machine){0};
        return complain(b, "%s, %s: cannot build a program: %s", s->name, s->what, error.message);
    }
    m->backend = ns_program_get_info(m->program).backend;
    m->work_size = ns_program_work_size(m->program);
    m->work = must(malloc(m->work_size + GUARD * sizeof(double)));
    return true;
}

static const double GUARD_VALUE = -7.25e77;

static bool guarded(const double* behind) {
    bool intact = true;
    for (int i = 0; i < GUARD; i++) intact = intact && behind[i] == GUARD_VALUE;
    return intact;
}

// Run on what `in` and `arrays` hold, array outputs starting from `start`; false when something was
// written where nothing should be.
static bool machine_run(machine* m, double start) {
    size_t nout = (size_t)m->graph->outputs.count * m->lanes;
    for (size_t i = 0; i < nout; i++) m->out[i] = NAN;
    for (size_t i = 0; i < GUARD; i++) m->out[nout + i] = GUARD_VALUE;
    for (uint32_t k = 0; k < m->graph->sinks.count; k++) {
        size_t length = sink_length(m, k);
        for (size_t i = 0; i < length; i++) m->sinks[k][i] = start;
        for (size_t i = 0; i < GUARD; i++) m->sinks[k][length + i] = GUARD_VALUE;
    }
    // NaNs: a value that is read before it is written shows.
    memset(m->work, 0xff, m->work_size + GUARD * sizeof(double));

    ns_program_run(m->program, &(ns_run){.in = m->in,
                                         .out = m->out,
                                         .arrays = (const double* const*)m->arrays,
                                         .sinks = m->sinks,
                                         .work = m->work});
    bool intact = guarded(m->out + nout);
    for (uint32_t k = 0; k < m->graph->sinks.count; k++) {
        intact = intact && guarded(m->sinks[k] + sink_length(m, k));
    }
    for (size_t i = 0; i < GUARD * sizeof(double); i++) {
        intact = intact && m->work[m->work_size + i] == 0xff;
    }
    return intact;
}

// Hand the subject's values for lanes first, first + 1... to the machine.
static void machine_load(machine* m, const subject* s, uint32_t first) {
    for (uint32_t i = 0; i < m->graph->inputs.count; i++) {
        for (uint32_t l = 0; l < m->lanes; l++) {
            m->in[i * m->lanes + l] = s->in[i * LANES + first + l];
        }
    }
    for (uint32_t k = 0; k < m->graph->arrays.count; k++) {
        const nsi_array_port* array = &m->graph->arrays.data[k];
        uint32_t width = array->per_lane ? m->lanes : 1;
        for (uint32_t e = 0; e < array->size; e++) {
            for (uint32_t l = 0; l < width; l++) {
                m->arrays[k][e * width + l] = array_at(s, k, e, first + l);
            }
        }
    }
}

// ---- backends ------------------------------------------------------------------------------

// Compare one number with the reference; `mode` says whose it is.
static bool same(check_batch* b, const subject* s, const char* mode, const char* port,
                 uint32_t element, uint32_t lane, double got, double expected) {
    b->report.numbers++;
    if (check_same_bits(got, expected)) return true;
    double error = fabs(got - expected) / fmax(fabs(expected), 1e-300);
    if (!(error <= b->report.backend_error)) b->report.backend_error = error;
    return complain(b,
                    "%s, %s: %s, lane %u, \"%s\"[%u]: %.17g (%a), but the interpreter with one lane"
                    " says %.17g (%a)",
                    s->name, s->what, mode, lane, port, element, got, got, expected, expected);
}

// Compare a sum over lanes with the sum of what each lane adds alone. The order of summation
// differs, so this one is up to rounding.
static bool same_sum(check_batch* b, const subject* s, const char* mode, const machine* m,
                     uint32_t k, uint32_t first, double start) {
    enum { ROUNDINGS = 200 }; // more than any sum here has terms
    for (uint32_t e = 0; e < m->graph->sinks.data[k].size; e++) {
        double sum = start, magnitude = fabs(start);
        for (uint32_t l = 0; l < m->lanes; l++) {
            double term = s->sinks[k][e * LANES + first + l];
            sum += term;
            magnitude += fabs(term);
        }
        double got = m->sinks[k][e];
        if (!isfinite(magnitude) && !isfinite(got)) continue;
        if (!(fabs(got - sum) <= ROUNDINGS * 0x1p-53 * magnitude)) {
            return complain(b,
                            "%s, %s: %s, sum over lanes of \"%s\"[%u]: %.17g, but the lanes alone"
                            " add up to %.17g",
                            s->name, s->what, mode, m->graph->sinks.data[k].name, e, got, sum);
        }
    }
    return true;
}

// Lanes [first, first + m->lanes) against the reference.
static bool compare_lanes(check_batch* b, const subject* s, machine* m, uint32_t first) {
    char mode[40];
    snprintf(mode, sizeof mode, "%s x%u", ns_backend_name(m->backend), m->lanes);
    machine_load(m, s, first);
    if (!machine_run(m, 0.0)) {
        return complain(b, "%s, %s: %s writes out of bounds", s->name, s->what, mode);
    }
    for (uint32_t k = 0; k < m->graph->outputs.count; k++) {
        for (uint32_t l = 0; l < m->lanes; l++) {
            if (!same(b, s, mode, m->graph->outputs.data[k].name, 0, first + l,
                      m->out[k * m->lanes + l], s->out[k * LANES + first + l])) {
                return false;
            }
        }
    }
    for (uint32_t k = 0; k < m->graph->sinks.count; k++) {
        const nsi_array_port* sink = &m->graph->sinks.data[k];
        bool apart = sink->per_lane || m->lanes == 1;
        for (uint32_t i = 0; i < sink->size * m->lanes && apart; i++) {
            uint32_t e = i / m->lanes, l = i % m->lanes;
            if (!same(b, s, mode, sink->name, e, first + l, m->sinks[k][i],
                      s->sinks[k][e * LANES + first + l])) {
                return false;
            }
        }
        if (!apart && !same_sum(b, s, mode, m, k, first, 0.0)) return false;
    }
    return true;
}

// The reference, lane by lane.
static bool run_reference(check_batch* b, subject* s) {
    machine m;
    if (!machine_create(b, s, NS_BACKEND_INTERP, 1, &m)) return false;
    bool ok = true;
    for (uint32_t l = 0; l < LANES && ok; l++) {
        machine_load(&m, s, l);
        ok = machine_run(&m, 0.0) ||
             complain(b, "%s, %s: interp x1 writes out of bounds", s->name, s->what);
        for (uint32_t k = 0; k < s->graph->outputs.count; k++) s->out[k * LANES + l] = m.out[k];
        for (uint32_t k = 0; k < s->graph->sinks.count; k++) {
            for (uint32_t e = 0; e < s->graph->sinks.data[k].size; e++) {
                s->sinks[k][e * LANES + l] = m.sinks[k][e];
            }
        }
    }
    machine_free(&m);
    return ok;
}

// Two programs of the same lane count agree in every bit, sums over lanes and the values they were
// added to included.
static bool compare_machines(check_batch* b, const subject* s, machine* m, machine* other) {
    enum { START = 3 };
    machine_load(m, s, 0);
    machine_load(other, s, 0);
    machine_run(m, START);
    machine_run(other, START);
    for (uint32_t k = 0; k < s->graph->sinks.count; k++) {
        const nsi_array_port* sink = &s->graph->sinks.data[k];
        for (uint32_t i = 0; i < sink_length(m, k); i++) {
            b->report.numbers++;
            if (!check_same_bits(m->sinks[k][i], other->sinks[k][i])) {
                return complain(b, "%s, %s: x%u, \"%s\"[%u]: %s adds up to %.17g, %s to %.17g",
                                s->name, s->what, m->lanes, sink->name, i,
                                ns_backend_name(m->backend), m->sinks[k][i],
                                ns_backend_name(other->backend), other->sinks[k][i]);
            }
        }
        if (!sink->per_lane && !same_sum(b, s, "interp", m, k, 0, START)) return false;
    }
    return true;
}

static bool run_backends(check_batch* b, subject* s) {
    static const uint32_t lane_counts[] = {1, 4, 16, 64};
    if (!run_reference(b, s)) return false;
    bool ok = true;
    for (int i = 0; i < 4 && ok; i++) {
        uint32_t lanes = lane_counts[i];
        machine interp = {0}, native = {0};
        ok = machine_create(b, s, NS_BACKEND_INTERP, lanes, &interp);
        for (uint32_t first = 0; first < LANES && ok && lanes > 1; first += lanes) {
            ok = compare_lanes(b, s, &interp, first);
        }
        if (ok && lanes <= 4) {
            ok = machine_create(b, s, NS_BACKEND_NATIVE, lanes, &native);
            for (uint32_t first = 0; first < LANES && ok; first += lanes) {
                ok = compare_lanes(b, s, &native, first);
            }
            ok = ok && compare_machines(b, s, &interp, &native);
        }
        machine_free(&interp);
        machine_free(&native);
    }
    return ok;
}

static bool emit(check_batch* b, subject* s) {
    ns_error error;
    s->c_function = ccode_add(b->code, s->graph, &error);
    return s->c_function != UINT32_MAX ||
           complain(b, "%s, %s: cannot emit C: %s", s->name, s->what, error.message);
}

// ---- derivatives ---------------------------------------------------------------------------

// The derivative of a subject as a subject of its own, with random tangents or seeds.
static subject* derive(check_batch* b, const subject* f, bool forward, bool per_lane,
                       const char* what, ns_rng* rng) {
    ns_diff_options options = ns_default_diff_options();
    options.per_lane = per_lane;
    ns_error error;
    ns_graph* g = NULL;
    ns_status status = forward ? ns_graph_jvp(f->graph, &options, &g, &error)
                               : ns_graph_vjp(f->graph, &options, &g, &error);
    if (status != NS_OK) {
        complain(b, "%s: cannot make the %s: %s", f->name, what, error.message);
        return NULL;
    }
    if (!nsi_array_push(memory, &b->graphs, g)) abort();
    if (nsi_graph_validate(g, &error) != NS_OK) {
        complain(b, "%s: the %s is not valid: %s", f->name, what, error.message);
        return NULL;
    }
    subject* s = subject_create(b, g, f->name, what);
    extend_point(s, f, rng);
    return s;
}

// <s, J v> = <J' s, v> in one lane.
static bool check_transpose(check_batch* b, const subject* f, const subject* jvp,
                            const subject* vjp, uint32_t l) {
    uint32_t nin = f->graph->inputs.count, nout = f->graph->outputs.count;
    uint32_t narray = f->graph->arrays.count, nsink = f->graph->sinks.count;
    double left = 0.0, right = 0.0, magnitude = 0.0;
    for (uint32_t k = 0; k < nout; k++) {
        double seed = vjp->in[(nin + k) * LANES + l];
        double term = seed * jvp->out[(nout + k) * LANES + l];
        left += term;
        // Where derivatives cancel to zero, what remains is rounding of terms like the value.
        double value = jvp->out[k * LANES + l];
        magnitude +=
            fabs(term) + NOISE * fabs(seed) * (1.0 + (isfinite(value) ? fabs(value) : 0.0));
    }
    for (uint32_t k = 0; k < nsink; k++) {
        for (uint32_t e = 0; e < f->graph->sinks.data[k].size; e++) {
            double term = array_at(vjp, narray + k, e, l) * jvp->sinks[nsink + k][e * LANES + l];
            left += term;
            magnitude += fabs(term);
        }
    }
    for (uint32_t i = 0; i < nin; i++) {
        double term = jvp->in[(nin + i) * LANES + l] * vjp->out[(nout + i) * LANES + l];
        right += term;
        magnitude += fabs(term);
    }
    for (uint32_t k = 0; k < narray; k++) {
        for (uint32_t e = 0; e < f->graph->arrays.data[k].size; e++) {
            double term = array_at(jvp, narray + k, e, l) * vjp->sinks[nsink + k][e * LANES + l];
            right += term;
            magnitude += fabs(term);
        }
    }
    if (!isfinite(magnitude)) {
        return l > 0 ||
               complain(b, "%s, %s: a derivative is not finite: <s, J v> is %g, <J's, v> %g",
                        f->name, f->what, left, right);
    }
    double error = fabs(left - right) / fmax(magnitude, 1e-300);
    b->report.transpose_error = fmax(b->report.transpose_error, error);
    return error <= TRANSPOSE_TOLERANCE ||
           complain(b,
                    "%s, %s, lane %u: forward and reverse mode disagree: <s, J v> is %.17g,"
                    " <J's, v> is %.17g",
                    f->name, f->what, l, left, right);
}

// Some entry of J' s is not zero, or that is allowed.
static bool check_not_zero(check_batch* b, const subject* f, const subject* vjp, bool allowed) {
    uint32_t nin = f->graph->inputs.count, nout = f->graph->outputs.count;
    uint32_t narray = f->graph->arrays.count, nsink = f->graph->sinks.count;
    for (uint32_t i = 0; i < nin; i++) {
        if (vjp->out[(nout + i) * LANES] != 0.0) return true;
    }
    for (uint32_t k = 0; k < narray; k++) {
        for (uint32_t e = 0; e < f->graph->arrays.data[k].size; e++) {
            if (vjp->sinks[nsink + k][e * LANES] != 0.0) return true;
        }
    }
    b->report.vanished++;
    return allowed || complain(b,
                               "%s: the derivative is zero everywhere, so that checking it says"
                               " nothing",
                               f->name);
}

// ---- central differences -------------------------------------------------------------------

// All outputs of lane 0, then all elements of array outputs, at the point plus `step` times the
// tangents of `jvp`.
static void evaluate(machine* m, const subject* f, const subject* jvp, double step, double* y) {
    uint32_t nin = f->graph->inputs.count, narray = f->graph->arrays.count;
    for (uint32_t i = 0; i < nin; i++) {
        m->in[i] = f->in[i * LANES] + step * jvp->in[(nin + i) * LANES];
    }
    for (uint32_t k = 0; k < narray; k++) {
        for (uint32_t e = 0; e < f->graph->arrays.data[k].size; e++) {
            m->arrays[k][e] = array_at(f, k, e, 0) + step * array_at(jvp, narray + k, e, 0);
        }
    }
    machine_run(m, 0.0);
    for (uint32_t k = 0; k < f->graph->outputs.count; k++) *y++ = m->out[k];
    for (uint32_t k = 0; k < f->graph->sinks.count; k++) {
        for (uint32_t e = 0; e < f->graph->sinks.data[k].size; e++) *y++ = m->sinks[k][e];
    }
}

typedef struct slope {
    const char* port;
    uint32_t element;
    double exact;
    bool decided;
} slope;

// Every output of f with its directional derivative.
static uint32_t list_slopes(const subject* f, const subject* jvp, slope* list) {
    uint32_t nout = f->graph->outputs.count, nsink = f->graph->sinks.count, n = 0;
    for (uint32_t k = 0; k < nout; k++) {
        slope s = {f->graph->outputs.data[k].name, 0, jvp->out[(nout + k) * LANES], false};
        if (list) list[n] = s;
        n++;
    }
    for (uint32_t k = 0; k < nsink; k++) {
        for (uint32_t e = 0; e < f->graph->sinks.data[k].size; e++) {
            slope s = {f->graph->sinks.data[k].name, e, jvp->sinks[nsink + k][e * LANES], false};
            if (list) list[n] = s;
            n++;
        }
    }
    return n;
}

// One output from four samples: at +-h and +-h/2.
static bool compare_slope(check_batch* b, const subject* f, slope* s, double h, const double y[4]) {
    double coarse = (y[0] - y[1]) / (2.0 * h), fine = (y[2] - y[3]) / h;
    double size = fmax(fabs(coarse), fabs(fine)), value = fmax(fabs(y[0]), fabs(y[1]));
    double allowed = CONSISTENT * size + CONSISTENT_VALUE * value + CONSISTENT_ABSOLUTE;
    if (!isfinite(size) || !isfinite(value) || fabs(coarse - fine) > allowed) return true;
    s->decided = true;
    double extrapolated = (4.0 * fine - coarse) / 3.0; // Richardson
    double error = fabs(extrapolated - s->exact) / allowed;
    if (!(error <= ACCEPTED)) {
        return complain(b,
                        "%s, %s: the slope of \"%s\"[%u] is %.12g, but central differences with"
                        " steps %g and %g say %.12g",
                        f->name, f->what, s->port, s->element, s->exact, h, h / 2, extrapolated);
    }
    b->report.difference_error = fmax(b->report.difference_error, error * CONSISTENT);
    return true;
}

static bool check_differences(check_batch* b, const subject* f, const subject* jvp,
                              bool* undecided) {
    machine m;
    if (!machine_create(b, f, NS_BACKEND_INTERP, 1, &m)) return false;
    uint32_t n = list_slopes(f, jvp, NULL);
    slope* slopes = must(calloc(n + 1, sizeof *slopes));
    double* y = doubles((size_t)4 * n);
    list_slopes(f, jvp, slopes);
    bool ok = true;
    for (size_t step = 0; step < sizeof STEPS / sizeof *STEPS && ok; step++) {
        double h = STEPS[step];
        evaluate(&m, f, jvp, h, y);
        evaluate(&m, f, jvp, -h, y + n);
        evaluate(&m, f, jvp, 0.5 * h, y + 2 * n);
        evaluate(&m, f, jvp, -0.5 * h, y + 3 * n);
        for (uint32_t k = 0; k < n && ok; k++) {
            double samples[4] = {y[k], y[n + k], y[2 * n + k], y[3 * n + k]};
            if (!slopes[k].decided) ok = compare_slope(b, f, &slopes[k], h, samples);
        }
    }
    for (uint32_t k = 0; k < n && ok; k++) {
        b->report.slopes++;
        b->report.undecided += !slopes[k].decided;
        *undecided = *undecided || !slopes[k].decided;
    }
    free(slopes);
    free(y);
    machine_free(&m);
    return ok;
}

// ---- second derivatives --------------------------------------------------------------------

// H times a direction: the jvp of the vjp with the seeds held. `direction` has one number per input
// and per array element, in order; `product` receives as many.
static void hessian_times(machine* m, const subject* f, const subject* vjp, const subject* hessian,
                          const double* direction, double* product) {
    uint32_t nin = f->graph->inputs.count, narray = f->graph->arrays.count;
    uint32_t nin2 = vjp->graph->inputs.count, narray2 = vjp->graph->arrays.count;
    machine_load(m, hessian, 0);
    for (uint32_t i = 0; i < nin2; i++) m->in[nin2 + i] = i < nin ? *direction++ : 0.0;
    for (uint32_t k = 0; k < narray2; k++) {
        for (uint32_t e = 0; e < vjp->graph->arrays.data[k].size; e++) {
            m->arrays[narray2 + k][e] = k < narray ? *direction++ : 0.0;
        }
    }
    machine_run(m, 0.0);
    uint32_t first = vjp->graph->outputs.count + f->graph->outputs.count;
    for (uint32_t i = 0; i < nin; i++) *product++ = m->out[first + i];
    uint32_t first_sink = vjp->graph->sinks.count + f->graph->sinks.count;
    for (uint32_t k = 0; k < narray; k++) {
        for (uint32_t e = 0; e < f->graph->arrays.data[k].size; e++) {
            *product++ = m->sinks[first_sink + k][e];
        }
    }
}

// u' H v = v' H u.
static bool check_symmetric(check_batch* b, const subject* f, const subject* vjp,
                            const subject* hessian, ns_rng* rng) {
    machine m;
    if (!machine_create(b, hessian, NS_BACKEND_INTERP, 1, &m)) return false;
    size_t n = f->graph->inputs.count;
    for (uint32_t k = 0; k < f->graph->arrays.count; k++) n += f->graph->arrays.data[k].size;
    double *u = doubles(n), *v = doubles(n), *hu = doubles(n), *hv = doubles(n);
    for (size_t i = 0; i < n; i++) {
        u[i] = ns_rng_uniform(rng, -1.0, 1.0);
        v[i] = ns_rng_uniform(rng, -1.0, 1.0);
    }
    hessian_times(&m, f, vjp, hessian, u, hu);
    hessian_times(&m, f, vjp, hessian, v, hv);
    double left = 0.0, right = 0.0, magnitude = NOISE;
    for (size_t i = 0; i < n; i++) {
        left += u[i] * hv[i];
        right += v[i] * hu[i];
        magnitude += fabs(u[i] * hv[i]) + fabs(v[i] * hu[i]);
    }
    bool ok = fabs(left - right) <= TRANSPOSE_TOLERANCE * magnitude ||
              complain(b, "%s: the Hessian is not symmetric: u'Hv is %.17g, v'Hu is %.17g", f->name,
                       left, right);
    free(u);
    free(v);
    free(hu);
    free(hv);
    machine_free(&m);
    return ok;
}

// ---- the whole check -----------------------------------------------------------------------

// The per-lane form of a vjp computes the same for one lane.
static bool check_per_lane(check_batch* b, const subject* f, const subject* vjp, ns_rng* rng) {
    ns_rng copy = *rng;
    subject* apart = derive(b, f, false, true, "vjp per lane", &copy);
    if (!apart) return false;
    if (vjp->graph->inputs.count > 0) {
        memcpy(apart->in, vjp->in, vjp->graph->inputs.count * LANES * sizeof(double));
    }
    for (uint32_t k = f->graph->arrays.count; k < vjp->graph->arrays.count; k++) {
        const nsi_array_port* array = &vjp->graph->arrays.data[k];
        memcpy(apart->arrays[k], vjp->arrays[k],
               array->size * (array->per_lane ? LANES : 1u) * sizeof(double));
    }
    if (!run_backends(b, apart)) return false;
    for (uint32_t k = 0; k < vjp->graph->sinks.count; k++) {
        for (uint32_t i = 0; i < vjp->graph->sinks.data[k].size * LANES; i++) {
            if (!same(b, apart, "interp x1", vjp->graph->sinks.data[k].name, i / LANES, i % LANES,
                      apart->sinks[k][i], vjp->sinks[k][i])) {
                return false;
            }
        }
    }
    subject* tangents = derive(b, f, true, true, "jvp per lane", &copy);
    return tangents && run_backends(b, tangents);
}

// jvp and vjp of f, which has been run; for second derivatives the vjp is the f of another round.
static bool check_derivatives(check_batch* b, const subject* f, const check_options* options,
                              bool first, ns_rng* rng, bool* undecided) {
    subject* jvp = derive(b, f, true, false, first ? "jvp" : "jvp of vjp", rng);
    subject* vjp = derive(b, f, false, false, first ? "vjp" : "vjp of vjp", rng);
    if (!jvp || !vjp || !run_backends(b, jvp) || !run_backends(b, vjp)) return false;
    bool all = options->c == CHECK_C_ALL;
    if ((all || (first && options->c == CHECK_C_JVP)) && !emit(b, jvp)) return false;
    if ((all || (first && options->c == CHECK_C_VJP)) && !emit(b, vjp)) return false;
    for (uint32_t l = options->nonfinite ? 1 : 0; l < LANES; l++) {
        if (!check_transpose(b, f, jvp, vjp, l)) return false;
    }
    if (first && !check_not_zero(b, f, vjp, options->may_vanish)) return false;
    bool smooth = !options->at_kink && !options->nonfinite;
    if (smooth && !check_differences(b, f, jvp, undecided)) return false;
    if (first && f->graph->arrays.count > 0 && !check_per_lane(b, f, vjp, rng)) return false;
    if (!first || !options->second) return true;

    subject* hessian = derive(b, vjp, true, false, "jvp of vjp", rng);
    return hessian && (options->nonfinite || check_symmetric(b, f, vjp, hessian, rng)) &&
           check_derivatives(b, vjp, options, false, rng, undecided);
}

check_batch* check_batch_create(void) {
    check_batch* b = must(calloc(1, sizeof *b));
    b->code = must(ccode_create());
    return b;
}

void check_batch_add(check_batch* b, const ns_graph* graph, const double* x,
                     const double* const* arrays, const check_options* options) {
    const check_options defaults = {0};
    if (!options) options = &defaults;
    if (b->failed) return;
    ns_rng rng = ns_rng_seed(options->seed);
    subject* f = subject_create(b, graph, options->name ? options->name : "function", "value");
    fill_point(f, x, arrays, &rng);
    bool undecided = false;
    bool compiled = options->c == CHECK_C_ALL || options->c == CHECK_C_VALUE;
    if (run_backends(b, f) && (!compiled || emit(b, f))) {
        check_derivatives(b, f, options, true, &rng, &undecided);
    }
    b->report.functions++;
    b->report.functions_undecided += undecided;
}

// ---- emitted C -----------------------------------------------------------------------------

static bool compare_c(check_batch* b, const subject* s, const char* compiler) {
    char mode[40];
    snprintf(mode, sizeof mode, "emitted C (%s)", compiler);
    machine m = machine_without_program(s->graph, 1);
    bool ok = true;
    for (uint32_t l = 0; l < C_LANES && ok; l++) {
        machine_load(&m, s, l);
        for (uint32_t k = 0; k < s->graph->outputs.count; k++) m.out[k] = NAN;
        for (uint32_t k = 0; k < s->graph->sinks.count; k++) {
            memset(m.sinks[k], 0, s->graph->sinks.data[k].size * sizeof(double));
        }
        ok = ccode_run(b->code, s->c_function, m.in, m.out, (const double* const*)m.arrays,
                       m.sinks) ||
             complain(b, "%s, %s: %s writes out of bounds", s->name, s->what, mode);
        for (uint32_t k = 0; k < s->graph->outputs.count && ok; k++) {
            ok = same(b, s, mode, s->graph->outputs.data[k].name, 0, l, m.out[k],
                      s->out[k * LANES + l]);
        }
        for (uint32_t k = 0; k < s->graph->sinks.count && ok; k++) {
            const nsi_array_port* sink = &s->graph->sinks.data[k];
            for (uint32_t e = 0; e < sink->size && ok; e++) {
                ok = same(b, s, mode, sink->name, e, l, m.sinks[k][e], s->sinks[k][e * LANES + l]);
            }
        }
    }
    machine_free(&m);
    return ok;
}

static bool compile_and_compare(check_batch* b, const char* compiler, bool optimised) {
    char message[2000];
    if (!ccode_compile(b->code, compiler, optimised, message, sizeof message)) {
        return complain(b, "%s", message);
    }
    bool ok = true;
    for (uint32_t i = 0; i < b->subjects.count && ok; i++) {
        if (b->subjects.data[i]->c_function != UINT32_MAX) {
            ok = compare_c(b, b->subjects.data[i], compiler);
        }
    }
    return ok;
}

// The first batch of a program goes through every compiler, every fourth one through the first of
// them; the others take the fastest way, the last compiler without optimisation.
static bool check_emitted(check_batch* b) {
    static uint32_t batches;
    uint32_t count = 0;
    while (ccode_compiler(count)) count++;
    uint32_t batch = batches++;
    if (count == 0) return true;
    if (batch % 4 != 0) return compile_and_compare(b, ccode_compiler(count - 1), false);
    bool ok = true;
    for (uint32_t n = 0; ok && n < (batch == 0 ? count : 1); n++) {
        ok = compile_and_compare(b, ccode_compiler(n), true);
    }
    return ok;
}

bool check_batch_finish_quietly(check_batch* b, check_report* report, char* message, size_t size) {
    if (!b->failed) check_emitted(b);
    bool ok = !b->failed;
    *report = b->report;
    snprintf(message, size, "%s", b->problem);
    for (uint32_t i = 0; i < b->subjects.count; i++) {
        const ns_graph* graph = b->subjects.data[i]->graph;
        subject_free(b->subjects.data[i], graph->arrays.count, graph->sinks.count);
    }
    for (uint32_t i = 0; i < b->graphs.count; i++) ns_graph_free(b->graphs.data[i]);
    nsi_array_free(memory, &b->subjects);
    nsi_array_free(memory, &b->graphs);
    ccode_free(b->code);
    free(b);
    return ok;
}

check_report check_batch_finish(check_batch* b) {
    check_report report;
    char message[3000];
    if (!check_batch_finish_quietly(b, &report, message, sizeof message)) fail_msg("%s", message);
    return report;
}

check_report check_function(const ns_graph* f, const double* x, const double* const* arrays,
                            const check_options* options) {
    check_batch* b = check_batch_create();
    check_batch_add(b, f, x, arrays, options);
    return check_batch_finish(b);
}
