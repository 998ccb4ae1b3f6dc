// A study of a double pendulum that simulates its own recordings: run through the library, and its results.

#ifndef TEST_STUDY_RIG_H
#define TEST_STUDY_RIG_H

#include "neuralsim/study.h"
#include "support/program.h"
#include "support/tempdir.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// A double pendulum with friction in its joints, and fits of what its model lacks.
static const struct {
    const char *name, *text;
} study_rig_files[] = {
    {"truth.yaml", "robot: " NEURALSIM_SOURCE_DIR "/models/double_pendulum.urdf\n"
                   "parameters: {joint/joint0/damping: 0.1, joint/joint1/damping: 0.05}\n"},
    {"friction.yaml", "formulas:\n"
                      "  - name: friction\n"
                      "    each: joint/*\n"
                      "    weights: separate\n"
                      "    output: \"{}/tau\"\n"
                      "    formula: -b * \"{}/velocity\"\n"
                      "    coefficients: {b: 0.01}\n"},
#define FIT(start) FIT_WITH(start, "")
#define FIT_WITH(start, measures)                                                                  \
    "model: " NEURALSIM_SOURCE_DIR "/models/double_pendulum.urdf\n" start                          \
    "integrator: rk4\ntimestep: 0.01\n"                                                            \
    "data:\n  folder: data\n  train: [{file: a.csv, trajectories: 0-9}]\n"                         \
    "  test: [{file: a.csv, trajectories: 10-14}]\n"                                               \
    "predict: {horizons: [0.5, 1]" measures "}\n"
    {"formula.yaml",
     FIT("blueprint: friction.yaml\n") "train: {window: 20, initial_state: recorded}\n"},
    {"again.yaml", FIT("blueprint: friction.yaml\n") "train: {window: 20, initial_state: recorded, "
                                                     "iterations: 1}\n"},
    {"damping.yaml", FIT("parameters: {joint/*/damping: {initial: 0.01, lower: 0}}\n") //
     "train: {window: 20, initial_state: recorded}\n"},
    {"near_far.yaml", FIT_WITH("blueprint: friction.yaml\n",
                               ", measures: {near: {distance: [q0]}, far: {distance: [q1]}}") //
     "train: {window: 20, initial_state: recorded, iterations: 0}\n"},
    {"far_near.yaml", FIT_WITH("blueprint: friction.yaml\n",
                               ", measures: {far: {distance: [q1]}, near: {distance: [q0]}}") //
     "train: {window: 20, initial_state: recorded, iterations: 0}\n"},
#define PUSHES(data)                                                                               \
    "model: " NEURALSIM_SOURCE_DIR "/models/double_pendulum.urdf\n"                                \
    "integrator: rk4\ntimestep: 0.01\ndata: {" data "}\n"                                          \
    "parameters: {joint/*/damping: {initial: 0.01, lower: 0}}\n"                                   \
    "train: {window: 20, initial_state: recorded}\n"                                               \
    "predict: {measures: {far: {distance: [q0, q1]}}}\n"
    {"pushes.yaml", PUSHES("train: [push_*.csv]")},
    {"twice.yaml", PUSHES("train: [push_a.csv, push_?.csv]")},
    {"first.yaml", PUSHES("train: [push_b.csv, push_d.csv], test: [push_a.csv, push_c.csv]")},
    {"second.yaml", PUSHES("train: [{file: push_*.csv, select: 0}, push_c.csv],"
                           " test: [push_b.csv, push_d.csv]")},
    {"plate.xml", "<mujoco><option timestep='0.01'/><default><geom contype='0' conaffinity='0'/>"
                  "</default><worldbody><geom name='board' type='plane' size='1 1 1'/>"
                  "<body name='plate'><joint name='x' type='slide' axis='1 0 0' damping='0.2'/>"
                  "<joint name='y' type='slide' axis='0 1 0'/>"
                  "<joint name='yaw' type='hinge' axis='0 0 1'/>"
                  "<inertial pos='0 0 0' mass='1' diaginertia='1 1 1'/>"
                  "<geom name='square' type='polygon' size='0.01'"
                  " vertex='0.1 0.1 -0.1 0.1 -0.1 -0.1 0.1 -0.1'/>"
                  "<geom name='foot' type='points' vertex='0 0 0' pos='0.05 -0.02 1'/>"
                  "</body></worldbody><contact><pair geom1='foot' geom2='board' friction='0.3'/>"
                  "</contact></mujoco>"},
    {"slide.yaml", "model: plate.xml\ndata: {train: [slide_*.csv]}\n"
                   "parameters: {joint/x/damping: {initial: 0.1, lower: 0}}\n"
                   "train: {window: whole, initial_state: recorded}\n"
                   "predict: {measures: {far: {distance: [q0, q1]}}}\n"},
    {"network.yaml", FIT("blueprint: networks.yaml\n") //
     "train: {window: 5, initial_state: recorded, iterations: 3}\n"},
    {"networks.yaml", "networks:\n"
                      "  - {name: torque, each: joint/*, inputs: [\"{}/velocity\"], outputs: "
                      "[\"{}/tau\"], hidden: [3]}\n"},
};

#define SIMULATE(more)                                                                             \
    "simulate:\n"                                                                                  \
    "  - {file: a.csv, model: truth.yaml, trajectories: 15, seconds: 1, timestep: 0.01,"           \
    " integrator: rk4, initial_state: {q_joint0: [-2, 2], q_joint1: [-2, 2], qd0: 0.5}" more "}\n"

#define STUDY_FILE "experiments/mine/study.yaml"

// What the library said during the last run.
static char study_rig_notes[4000];

static inline void study_rig_note(void* context, const char* text) {
    (void)context;
    size_t used = strlen(study_rig_notes);
    snprintf(study_rig_notes + used, sizeof study_rig_notes - used, "%s\n", text);
}

static inline int study_rig_start(void** state) {
    (void)state;
    tempdir_mkdir("experiments");
    tempdir_mkdir("experiments/mine");
    for (size_t k = 0; k < sizeof study_rig_files / sizeof *study_rig_files; k++) {
        char name[100];
        snprintf(name, sizeof name, "experiments/mine/%s", study_rig_files[k].name);
        tempdir_write(name, study_rig_files[k].text);
    }
    return 0;
}

static inline void study_rig_write(const char* text) {
    tempdir_write(STUDY_FILE, text);
}

static inline ns_study* study_rig_load(bool smoke) {
    ns_study* study = NULL;
    ns_error error;
    ns_study_options options = {.smoke = smoke, .notify = study_rig_note};
    study_rig_notes[0] = '\0';
    must(ns_study_load(tempdir_path(STUDY_FILE), &options, &study, &error), &error);
    return study;
}

static inline bool study_rig_exists(const char* name) {
    return access(tempdir_path(name), R_OK) == 0;
}

static inline json_t* study_rig_read(const char* name) {
    char* text = tempdir_read(name);
    json_error_t error;
    json_t* root = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (!root) fail_msg("%s: line %d: %s", name, error.line, error.text);
    free(text);
    return root;
}

// Run the study into a folder and save it. Returns result.json.
static inline json_t* study_rig_run(const char* folder) {
    ns_study* study = study_rig_load(false);
    ns_error error;
    char name[100];
    must(ns_study_run(study, tempdir_path(folder), &error), &error);
    assert_false(ns_study_stopped(study));
    if (ns_study_problem_count(study) > 0) fail_msg("%s", ns_study_problem(study, 0));
    must(ns_study_save(study, &error), &error);
    ns_study_free(study);
    snprintf(name, sizeof name, "%s/result.json", folder);
    return study_rig_read(name);
}

// The study is refused: when it is loaded, or run, or its result has a problem.
static inline void study_rig_refuse(bool smoke, const char* folder, const char* message) {
    ns_study* study = NULL;
    ns_error error = {0};
    ns_study_options options = {.smoke = smoke};
    ns_status status = ns_study_load(tempdir_path(STUDY_FILE), &options, &study, &error);
    if (status == NS_OK) status = ns_study_run(study, tempdir_path(folder), &error);
    if (status == NS_OK && ns_study_problem_count(study) > 0) {
        assert_says(ns_study_problem(study, 0), message);
    } else {
        assert_int_not_equal(status, NS_OK);
        assert_int_equal(error.status, status);
        assert_says(error.message, message);
    }
    ns_study_free(study);
}

// The numbers of a table, without its names.
static inline double* study_rig_numbers(const char* name, uint32_t* count) {
    char *text = tempdir_read(name), *at = strchr(text, '\n');
    double* numbers = malloc((strlen(text) + 1) * sizeof *numbers);
    *count = 0;
    for (char* end; at && *at; at = end + (*end != '\0')) {
        numbers[*count] = strtod(at, &end);
        if (end == at) break;
        ++*count;
    }
    free(text);
    return numbers;
}

#endif
