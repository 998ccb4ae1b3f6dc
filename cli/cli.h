// Shared by the commands: exit codes, options, files, messages.

#ifndef CLI_H
#define CLI_H

#include <neuralsim/contact.h>
#include <neuralsim/hybrid.h>
#include <neuralsim/json.h>
#include <neuralsim/report.h>
#include <neuralsim/table.h>
#include <neuralsim/words.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// UNDECIDED: gradcheck could not judge any input; INTERRUPTED: by Ctrl-C
enum {
    EXIT_OK = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_UNDECIDED = 3,
    EXIT_FIT_FAILED = 4,
    EXIT_INTERRUPTED = 130
};

// Each command gets its arguments after its own name and returns the exit code.
int cmd_bench(int argc, char** argv);
int cmd_data(int argc, char** argv);
int cmd_discover(int argc, char** argv);
int cmd_eval(int argc, char** argv);
int cmd_experiment(int argc, char** argv);
int cmd_export(int argc, char** argv);
int cmd_fit(int argc, char** argv);
int cmd_gradcheck(int argc, char** argv);
int cmd_graph(int argc, char** argv);
int cmd_inspect(int argc, char** argv);
int cmd_quantities(int argc, char** argv);
int cmd_score(int argc, char** argv);
int cmd_simulate(int argc, char** argv);
int cmd_view(int argc, char** argv);

// ---- messages ------------------------------------------------------------------------------

// "neuralsim: <message>" on stderr; returns EXIT_FAILED.
int cli_fail(const char* format, ...) __attribute__((format(printf, 1, 2)));

// The same with a hint at --help; returns EXIT_USAGE.
int cli_usage(const char* command, const char* format, ...) __attribute__((format(printf, 2, 3)));

// The same without failing: what a person may want to know.
void cli_note(const char* format, ...) __attribute__((format(printf, 1, 2)));

// ---- options -------------------------------------------------------------------------------

// Several values of one option, or the arguments that belong to none; they point into argv.
enum { CLI_MAX_LIST = 512 };
typedef struct cli_list {
    const char* items[CLI_MAX_LIST];
    uint32_t count;
} cli_list;

bool cli_list_add(cli_list* list, const char* item); // false when full

typedef enum cli_kind {
    CLI_FLAG,   // bool
    CLI_TEXT,   // const char*
    CLI_LIST,   // cli_list: all that follow up to the next option; may be given again
    CLI_EACH,   // cli_list: one value; may be given again
    CLI_COUNT,  // uint32_t
    CLI_SEED,   // uint64_t
    CLI_NUMBER, // double, finite
    CLI_CHOICE  // int: a value of the set in `needs`
} cli_kind;

typedef struct cli_row {
    const char* name; // with its dashes; a row without a name ends the table
    cli_kind kind;
    void* value;
    const void* needs; // a text that says what the value is, "a file"; of a choice an ns_choices
} cli_row;

// How contact is treated, by all commands that simulate.
typedef struct cli_contact {
    int model;       // number of a contact law, or -1
    int friction;    // an ns_friction
    uint32_t sweeps; // see ns_system_options
} cli_contact;

#define CLI_CONTACT_DEFAULT                                                                        \
    { .model = -1 }
#define CLI_CONTACT_ROWS(c)                                                                        \
    {"--contact", CLI_CHOICE, &(c).model, &ns_contact_laws},                                       \
        {"--friction", CLI_CHOICE, &(c).friction, &ns_frictions}, {                                \
        "--sweeps", CLI_COUNT, &(c).sweeps, "a whole number of sweeps"                             \
    }

// Read the arguments of a command. Returns CLI_GO_ON, or the code to exit with: after --help (or
// -h), or after a message about what is wrong, such as an option with one value that is given
// twice. Values are `--name VALUE` or `--name=VALUE`.
enum { CLI_GO_ON = -1 };
int cli_parse(const char* command, const char* help, const cli_row* rows, int argc, char** argv,
              cli_list* arguments);

// The one argument that a command takes, its model; NULL after saying that it is missing or not
// alone.
const char* cli_model_argument(const char* command, const cli_list* arguments);

// A finite number; false when it is none.
bool cli_read_number(const char* text, double* out);

// ---- memory --------------------------------------------------------------------------------

// Texts that are freed together. Zero is the empty pool.
typedef struct cli_pool {
    char** texts;
    uint32_t count, capacity;
} cli_pool;

// A formatted text in the pool; NULL after saying that there is no memory.
char* cli_pool_format(cli_pool* pool, const char* format, ...)
    __attribute__((format(printf, 2, 3)));
void cli_pool_free(cli_pool* pool);

// Make an array at least twice as large; false after saying that there is no memory.
bool cli_grow(void** data, uint32_t* capacity, size_t item_size);

// `count` zeros to be freed, never NULL for 0; NULL after saying that there is no memory.
double* cli_zeros(size_t count);

// ---- files ---------------------------------------------------------------------------------

// The whole file, NUL-terminated, to be freed; NULL after saying why. "-" is standard input.
char* cli_read_file(const char* path, size_t* size);

bool cli_is_folder(const char* path); // NULL is none

// FILE without its ending, with `ending` instead: where results of FILE go. To be freed; NULL: no memory.
char* cli_beside(const char* file, const char* ending);
// CLI_GO_ON, or an exit code after a message that `path` is a robot or a recording, not a fit file.
int cli_check_fit_file(const char* path, const char* document);
bool cli_ends_with(const char* text, const char* end); // and has something before it

// Do two names lead to the same file? A file that is not there is like no other.
bool cli_same_file(const char* a, const char* b);

// Write a whole file, or standard output for NULL; false after saying why.
bool cli_write_file(const char* path, const char* data, size_t size);

// A table; false after saying why. "-" is standard input.
bool cli_read_table(const char* path, ns_table* out);

// A table being written to a file, or to standard output for NULL and "-"; NULL and false after
// saying why.
ns_table_writer* cli_create_table(const char* path);
bool cli_finish_table(ns_table_writer* writer);

// Finish a JSON text and print it; the exit code.
int cli_print_json(ns_json* j);

// Print a report as text or as JSON; false after saying why not.
bool cli_print_report(const ns_report* report, bool json);

// Flush standard output; EXIT_FAILED with a message when it could not be written (a full disk).
int cli_finish(void);

// ---- progress ------------------------------------------------------------------------------

// Seconds of a monotonic clock.
double cli_clock(void);

// A progress line on standard error for long work: only on a terminal, only after a
// second.
typedef struct cli_progress {
    const char* what;
    double start, shown; // s
    bool terminal, visible;
} cli_progress;

cli_progress cli_progress_start(const char* what);
void cli_progress_update(cli_progress* p, double done, double total);
void cli_progress_end(cli_progress* p); // remove the line

// ---- models --------------------------------------------------------------------------------

// Options of all commands that load a model, for their tables of options.
typedef struct cli_load {
    ns_load_options options;
    cli_list packages;
} cli_load;

#define CLI_LOAD_ROWS(load)                                                                        \
    {"--ground", CLI_FLAG, &(load).options.ground, NULL},                                          \
        {"--self-collision", CLI_FLAG, &(load).options.self_collision, NULL},                      \
        {"--no-self-collision", CLI_FLAG, &(load).options.no_self_collision, NULL},                \
        {"--floating-base", CLI_FLAG, &(load).options.floating_base, NULL},                        \
        {"--package-path", CLI_EACH, &(load).packages, "a folder"},                                \
        {"--variant", CLI_TEXT, &(load).options.variant, "a name"}, {                              \
        "--strict", CLI_FLAG, &(load).options.strict, NULL                                         \
    }

// The options, with the folders of packages.
ns_load_options cli_load_options(const cli_load* load);

// Networks given on the command line, for all commands that simulate.
typedef struct cli_networks {
    const char *blueprint, *weights; // files, or NULL
} cli_networks;

#define CLI_NETWORK_ROWS(n)                                                                        \
    {"--blueprint", CLI_TEXT, &(n).blueprint, "a YAML file"}, {                                    \
        "--weights", CLI_TEXT, &(n).weights, "a file of weights"                                   \
    }

// What MODEL stands for: a URDF or MJCF file, or a hybrid model; with the networks of the command
// line instead of its own.
typedef struct cli_model {
    ns_hybrid* hybrid;
    const ns_model* model;
    ns_blueprint* given;           // by --blueprint, or NULL
    const ns_blueprint* blueprint; // in use, or NULL
} cli_model;

// False after saying why; free it in any case, after the systems made of it.
// @param networks  NULL for none
bool cli_model_load(const char* path, const cli_load* load, const cli_networks* networks,
                    cli_model* out);
// The same, and learned systems, which have no physics, too.
bool cli_model_load_any(const char* path, const cli_load* load, const cli_networks* networks,
                        cli_model* out);
void cli_model_free(cli_model* m);

// Into default options: what the hybrid model gives, and the networks. Options of the command line
// go on top.
void cli_model_apply(const cli_model* m, ns_system_options* options);

// One line on standard error when parts of the file that change the motion were ignored.
void cli_note_ignored(const ns_model* model, const char* path);

// Say so when another integrator is used than the model's.
void cli_note_integrator(const ns_model* model, const ns_system* system, int asked);

// What is given on the command line.
void cli_set_contact(const cli_contact* contact, ns_system_options* options);

// NULL after saying why.
ns_system* cli_create_system(const ns_model* model, const ns_system_options* options);
ns_workspace* cli_create_workspace(const ns_system* system, const ns_workspace_size* size);

// Numbers of coordinates and velocities of a link's joint.
uint32_t cli_joint_nq(const ns_model* model, uint32_t link);
uint32_t cli_joint_nv(const ns_model* model, uint32_t link);

// The options --q0, --qd0 and --keyframe, of all commands that start from a state.
typedef struct cli_start {
    cli_list q0, qd0;
    const char* keyframe;
} cli_start;

#define CLI_START_ROWS(s)                                                                          \
    {"--q0", CLI_LIST, &(s).q0, "coordinates"}, {"--qd0", CLI_LIST, &(s).qd0, "velocities"}, {     \
        "--keyframe", CLI_TEXT, &(s).keyframe, "a keyframe"                                        \
    }

// The keyframe of this name; for NULL the first one, NULL where there are none. False after saying
// that there is none of this name.
bool cli_find_keyframe(const ns_model* model, const char* name, const ns_keyframe_def** out);

// Put what was given into a state x (nq + nv at least); the rest of it stays. Says when a quaternion
// was made unit length. CLI_GO_ON, or the code to exit with after saying what is wrong.
int cli_set_start(const char* command, const ns_model* model, const cli_start* start, double* x);

// First quaternion component among the coordinates of a link's joint, or UINT32_MAX.
uint32_t cli_joint_quaternion(const ns_model* model, uint32_t link);

#endif
