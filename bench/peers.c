// MuJoCo on the same steps: the reference for rigid bodies with contact on a CPU.
//
// The library is opened at run time, so the program does not depend on it. The header, which defines
// the layout of its structures, is needed at compile time and must have the version of the library.

#include "bench/bench.h"

#ifndef BENCH_HAVE_MUJOCO

bool bench_peers_open(const char** why) {
    *why = "this program was built without MuJoCo's header (tools/setup.sh test installs it)";
    return false;
}

void bench_peers_close(void) {}

bool bench_peers_step(const bench_options* options, const bench_peer_task* task) {
    (void)options;
    (void)task;
    return false;
}

#else

#include "base/common.h"

#include <dlfcn.h>
#include <math.h>
#include <mujoco/mujoco.h>
#include <stdio.h>
#include <stdlib.h>

// The functions that are used, by their names.
#define MUJOCO_FUNCTIONS(X)                                                                        \
    X(mj_version)                                                                                  \
    X(mj_versionString)                                                                            \
    X(mj_defaultVFS)                                                                               \
    X(mj_makeEmptyFileVFS)                                                                         \
    X(mj_findFileVFS)                                                                              \
    X(mj_deleteVFS)                                                                                \
    X(mj_loadXML)                                                                                  \
    X(mj_deleteModel)                                                                              \
    X(mj_makeData)                                                                                 \
    X(mj_deleteData)                                                                               \
    X(mj_step)

#define MEMBER(name) __typeof__(name)* name;
static struct {
    void* library;
    char backend[32]; // "mujoco-2.2.2"
    MUJOCO_FUNCTIONS(MEMBER)
} mujoco;

// ---- loading -------------------------------------------------------------------------------

// MuJoCo's own handlers write a file into the current folder, and wait for a key after an error.
static void on_warning(const char* message) {
    fprintf(stderr, "neuralsim bench: MuJoCo: %s\n", message);
}

static void peers_on_error(const char* message) { // must not return
    on_warning(message);
    exit(EXIT_FAILURE);
}

static bool find_functions(void) {
    bool all = true;
#define FIND(name)                                                                                 \
    *(void**)&mujoco.name = dlsym(mujoco.library, #name);                                          \
    all = all && mujoco.name;
    MUJOCO_FUNCTIONS(FIND)
    void (**error)(const char*) = dlsym(mujoco.library, "mju_user_error");
    void (**warning)(const char*) = dlsym(mujoco.library, "mju_user_warning");
    if (!all || !error || !warning) return false;
    *error = peers_on_error;
    *warning = on_warning;
    return true;
}

bool bench_peers_open(const char** why) {
    static char reason[256];
    char name[64];
    *why = reason;
    // Packages name the library after the whole version.
    snprintf(name, sizeof name, "libmujoco.so.%d.%d.%d", mjVERSION_HEADER / 100,
             mjVERSION_HEADER / 10 % 10, mjVERSION_HEADER % 10);
    mujoco.library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!mujoco.library) mujoco.library = dlopen("libmujoco.so", RTLD_NOW | RTLD_LOCAL);
    if (!mujoco.library) {
        snprintf(reason, sizeof reason, "MuJoCo is not installed: %.200s", dlerror());
        return false;
    }
    if (!find_functions() || mujoco.mj_version() != mjVERSION_HEADER) {
        snprintf(reason, sizeof reason,
                 "this program was built for MuJoCo %d.%d.%d, and another "
                 "version is installed",
                 mjVERSION_HEADER / 100, mjVERSION_HEADER / 10 % 10, mjVERSION_HEADER % 10);
        bench_peers_close();
        return false;
    }
    snprintf(mujoco.backend, sizeof mujoco.backend, "mujoco-%s", mujoco.mj_versionString());
    return true;
}

void bench_peers_close(void) {
    if (mujoco.library) dlclose(mujoco.library);
    mujoco.library = NULL;
}

// ---- models --------------------------------------------------------------------------------

// From text, by way of a file in MuJoCo's virtual file system; NULL with a message.
static mjModel* peers_load(const bench_peer_task* task, char* message, int size) {
    static const char file[] = "robot.xml";
    mjModel* model = NULL;
    mjVFS* files = malloc(sizeof *files); // too large for the stack
    snprintf(message, (size_t)size, "out of memory");
    if (!files) return NULL;
    mujoco.mj_defaultVFS(files);
    if (mujoco.mj_makeEmptyFileVFS(files, file, (int)task->size) == 0) {
        memcpy(files->filedata[mujoco.mj_findFileVFS(files, file)], task->text, task->size);
        model = mujoco.mj_loadXML(file, files, message, size);
    }
    mujoco.mj_deleteVFS(files);
    free(files);
    return model;
}

// ---- the measurement -----------------------------------------------------------------------

typedef struct peer_run {
    const bench_peer_task* task;
    const mjModel* model;
    mjData* data;
    const double* warm; // (nv) accelerations from which the solver starts
} peer_run;

// Back to the start.
static void rewind_state(const peer_run* run) {
    const bench_peer_task* task = run->task;
    run->data->time = 0.0;
    memcpy(run->data->qpos, task->state, task->nq * sizeof(double));
    memcpy(run->data->qvel, task->state + task->nq, task->nv * sizeof(double));
    memcpy(run->data->qacc_warmstart, run->warm, task->nv * sizeof(double));
}

static void body_steps(void* context) {
    const peer_run* run = context;
    rewind_state(run);
    for (uint32_t n = 0; n < run->task->steps; n++) mujoco.mj_step(run->model, run->data);
}

// Constraint rows and iterations, mean over the steps.
static bench_contact count_rows(const peer_run* run) {
    double rows = 0.0, iterations = 0.0;
    rewind_state(run);
    for (uint32_t n = 0; n < run->task->steps; n++) {
        mujoco.mj_step(run->model, run->data);
        rows += run->data->nefc;
        iterations += run->data->solver_iter;
    }
    return (bench_contact){.rows = (uint32_t)lround(rows / run->task->steps),
                           .sweeps = NAN,
                           .solves = iterations / run->task->steps};
}

static bool peers_measure(const bench_options* options, peer_run* run, double load_time) {
    const bench_peer_task* task = run->task;
    // The solver starts from the step before, here the first one itself.
    double* warm = calloc((size_t)task->nv + 1, sizeof *warm);
    if (!warm) return false;
    run->warm = warm;
    rewind_state(run);
    mujoco.mj_step(run->model, run->data);
    memcpy(warm, run->data->qacc_warmstart, task->nv * sizeof *warm);

    bench_contact contact = count_rows(run);
    bench_time time = bench_measure(options, body_steps, run);
    bench_print(options, &(bench_row){.name = task->name,
                                      .backend = mujoco.backend,
                                      .lanes = 1,
                                      .ns = 1e9 * time.best / task->steps,
                                      .ns_median = 1e9 * time.median / task->steps,
                                      .compile_ms = 1e3 * load_time,
                                      .samples = time.samples,
                                      .contact = &contact});
    free(warm);
    return true;
}

bool bench_peers_step(const bench_options* options, const bench_peer_task* task) {
    char message[1000];
    double start = nsi_clock_thread_cpu();
    mjModel* model = peers_load(task, message, sizeof message);
    double load_time = nsi_clock_thread_cpu() - start;
    mjData* data = model ? mujoco.mj_makeData(model) : NULL;
    bool ok = false;
    if (data && model->nq == (int)task->nq && model->nv == (int)task->nv) {
        ok = peers_measure(options, &(peer_run){.task = task, .model = model, .data = data},
                           load_time);
        if (!ok) snprintf(message, sizeof message, "out of memory");
    } else if (model) {
        snprintf(message, sizeof message, "not the coordinates that were expected");
    }
    if (!ok) fprintf(stderr, "neuralsim bench: %s: MuJoCo: %s\n", task->name, message);
    if (data) mujoco.mj_deleteData(data);
    if (model) mujoco.mj_deleteModel(model);
    return ok;
}

#endif
