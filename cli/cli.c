// Functions shared by the commands: options, messages, files, loading of models.

#define _POSIX_C_SOURCE 200809L // isatty, clock_gettime

#include "cli.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAX_FILE = 256 << 20 };

// ---- messages ------------------------------------------------------------------------------

static void print_message(const char* format, va_list arguments) {
    fprintf(stderr, "neuralsim: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
}

int cli_fail(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    print_message(format, arguments);
    va_end(arguments);
    return EXIT_FAILED;
}

int cli_usage(const char* command, const char* format, ...) {
    va_list arguments;
    char message[4096];
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    const size_t length = strlen(message);
    const bool question = length > 0 && message[length - 1] == '?';
    fprintf(stderr, "neuralsim %s: %s%s 'neuralsim %s --help'\n", command, message,
            question ? " See" : "; see", command);
    return EXIT_USAGE;
}

void cli_note(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    print_message(format, arguments);
    va_end(arguments);
}

// ---- options -------------------------------------------------------------------------------

bool cli_list_add(cli_list* list, const char* item) {
    if (list->count == CLI_MAX_LIST) return false;
    list->items[list->count++] = item;
    return true;
}

// If argv[*i] is `--name VALUE` or `--name=VALUE`, set *value, step over it and return true. A
// missing value sets *value to NULL.
static bool take_option(int argc, char** argv, int* i, const char* name, const char** value) {
    const char* argument = argv[*i];
    size_t length = strlen(name);
    if (strncmp(argument, name, length) != 0) return false;
    if (argument[length] == '=') {
        *value = argument + length + 1;
        return true;
    }
    if (argument[length] != '\0') return false;
    *value = *i + 1 < argc ? argv[++*i] : NULL;
    return true;
}

bool cli_read_number(const char* text, double* out) {
    char* end;
    size_t size = strspn(text, "+-.0123456789eE"); // no hexadecimal numbers, no words
    *out = strtod(text, &end);
    return size > 0 && text[size] == '\0' && end == text + size && isfinite(*out);
}

// "-x" and "--xyz" are options; "-", "-1" and "-.5" are not.
static bool looks_like_option(const char* text) {
    return text[0] == '-' && text[1] != '\0' && text[1] != '.' &&
           !(text[1] >= '0' && text[1] <= '9');
}

static bool read_integer(const char* text, uint64_t most, uint64_t* out) {
    char* end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    *out = number;
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && number <= most;
}

// False when the value does not fit the row.
static bool set_value(const cli_row* row, const char* text) {
    uint64_t integer;
    switch (row->kind) {
    case CLI_FLAG: break;
    case CLI_TEXT: *(const char**)row->value = text; return text[0] != '\0';
    case CLI_LIST:
    case CLI_EACH: return text[0] != '\0' && cli_list_add(row->value, text);
    case CLI_COUNT:
        if (!read_integer(text, UINT32_MAX, &integer)) return false;
        *(uint32_t*)row->value = (uint32_t)integer;
        return true;
    case CLI_SEED: return read_integer(text, UINT64_MAX, row->value);
    case CLI_NUMBER: return cli_read_number(text, row->value);
    case CLI_CHOICE: return ns_choice_find(row->needs, text, row->value);
    }
    return false;
}

static int bad_value(const char* command, const cli_row* row, const char* text) {
    if (row->kind == CLI_CHOICE) {
        char what[NS_ERROR_SIZE];
        if (text) {
            ns_choice_fault(row->needs, text, what, sizeof what);
            return cli_usage(command, "%s: '%.100s' %s", row->name, text, what);
        }
        ns_choices_list(row->needs, what, sizeof what);
        return cli_usage(command, "%s needs one of: %s", row->name, what);
    }
    const char* needs = row->needs;
    if (!text) return cli_usage(command, "%s needs %s", row->name, needs);
    bool list = row->kind == CLI_LIST || row->kind == CLI_EACH;
    if (list && ((const cli_list*)row->value)->count == CLI_MAX_LIST) {
        return cli_usage(command, "%s has more than %d values", row->name, CLI_MAX_LIST);
    }
    return cli_usage(command, "%s needs %s, not '%.100s'", row->name, needs, text);
}

static int unknown_option(const char* command, const cli_row* rows, const char* argument) {
    // Without the value of --name=VALUE.
    char name[NS_WORD_SIZE];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(argument, "="), argument);

    ns_nearest nearest = {.wanted = name};
    for (const cli_row* row = rows; row->name; row++) ns_nearest_offer(&nearest, row->name);
    ns_nearest_offer(&nearest, "--help");
    const char* likely = ns_nearest_likely(&nearest);
    return cli_usage(command, "unknown option '%.100s'%s%s%s", argument,
                     likely ? "; did you mean '" : "", likely ? likely : "", likely ? "'?" : "");
}

// The option at argv[*i]: CLI_GO_ON with *i at its last argument, or an exit code. `given` has a
// bit for each row that was there before.
static int parse_option(const char* command, const cli_row* rows, int argc, char** argv, int* i,
                        uint64_t* given) {
    const cli_row* row = rows;
    const char* value = NULL;
    for (; row->name; row++) {
        if (row->kind == CLI_FLAG && strcmp(argv[*i], row->name) == 0) {
            *(bool*)row->value = true;
            return CLI_GO_ON;
        }
        if (row->kind != CLI_FLAG && take_option(argc, argv, i, row->name, &value)) break;
    }
    if (!row->name) return unknown_option(command, rows, argv[*i]);
    if (!value || looks_like_option(value) || !set_value(row, value)) {
        return bad_value(command, row, value);
    }
    uint64_t bit = (uint64_t)1 << (row - rows);
    if ((*given & bit) && row->kind != CLI_LIST && row->kind != CLI_EACH) {
        return cli_usage(command, "%s is given twice", row->name);
    }
    *given |= bit;
    while (row->kind == CLI_LIST && *i + 1 < argc && !looks_like_option(argv[*i + 1])) {
        if (!set_value(row, argv[++*i])) return bad_value(command, row, argv[*i]);
    }
    return CLI_GO_ON;
}

// The help of a command, with the names of a closed set where it says {option}.
static void print_help(const char* help, const cli_row* rows) {
    for (const char* at = help; *at;) {
        size_t plain = strcspn(at, "{"), name = strcspn(at + plain, "}");
        fwrite(at, 1, plain, stdout);
        at += plain;
        const cli_row* row = rows;
        while (row->name && !(row->kind == CLI_CHOICE && strlen(row->name) == name + 1 &&
                              memcmp(row->name + 2, at + 1, name - 1) == 0)) {
            row++;
        }
        if (*at && at[name] == '}' && row->name) {
            char list[NS_ERROR_SIZE];
            ns_choices_list(row->needs, list, sizeof list);
            fputs(list, stdout);
            at += name + 1;
        } else if (*at) {
            putchar(*at++);
        }
    }
}

int cli_parse(const char* command, const char* help, const cli_row* rows, int argc, char** argv,
              cli_list* arguments) {
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--help") != 0 && strcmp(argv[i], "-h") != 0) continue;
        print_help(help, rows);
        return cli_finish();
    }
    uint64_t given = 0;
    for (int i = 0; i < argc; i++) {
        if (!looks_like_option(argv[i])) {
            if (!cli_list_add(arguments, argv[i])) return cli_usage(command, "too many arguments");
            continue;
        }
        int code = parse_option(command, rows, argc, argv, &i, &given);
        if (code != CLI_GO_ON) return code;
    }
    return CLI_GO_ON;
}

const char* cli_model_argument(const char* command, const cli_list* arguments) {
    if (arguments->count == 1) return arguments->items[0];
    if (arguments->count == 0) {
        cli_usage(command, "no MODEL given (put it before options that take several values)");
    } else {
        cli_usage(command, "one MODEL at a time, not also '%.100s'", arguments->items[1]);
    }
    return NULL;
}

// ---- memory --------------------------------------------------------------------------------

bool cli_grow(void** data, uint32_t* capacity, size_t item_size) {
    uint32_t more = *capacity < 16 ? 16 : 2 * *capacity;
    void* larger = more > *capacity ? realloc(*data, more * item_size) : NULL;
    if (!larger) {
        cli_fail("out of memory");
        return false;
    }
    *data = larger;
    *capacity = more;
    return true;
}

char* cli_pool_format(cli_pool* pool, const char* format, ...) {
    if (pool->count == pool->capacity &&
        !cli_grow((void**)&pool->texts, &pool->capacity, sizeof *pool->texts)) {
        return NULL;
    }
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char* text = size < 0 ? NULL : malloc((size_t)size + 1);
    if (!text) {
        cli_fail("out of memory");
        return NULL;
    }
    va_start(arguments, format);
    vsnprintf(text, (size_t)size + 1, format, arguments);
    va_end(arguments);
    pool->texts[pool->count++] = text;
    return text;
}

void cli_pool_free(cli_pool* pool) {
    for (uint32_t k = 0; k < pool->count; k++) free(pool->texts[k]);
    free(pool->texts);
    *pool = (cli_pool){0};
}

double* cli_zeros(size_t count) {
    double* zeros = calloc(count + 1, sizeof *zeros);
    if (!zeros) cli_fail("out of memory");
    return zeros;
}

// ---- files ---------------------------------------------------------------------------------

char* cli_read_file(const char* path, size_t* size) {
    // "-" is standard input.
    bool standard = strcmp(path, "-") == 0;
    FILE* file = standard ? stdin : fopen(path, "rb");
    if (!file) {
        cli_fail("cannot open %s: %s", path, strerror(errno));
        return NULL;
    }

    // Read in growing pieces: a pipe does not know its size.
    size_t capacity = 1 << 16, used = 0;
    char* data = malloc(capacity + 1);
    while (data) {
        // A short read is the end of the file or an error.
        used += fread(data + used, 1, capacity - used, file);
        if (used < capacity || capacity >= MAX_FILE) break;
        char* larger = realloc(data, 2 * capacity + 1);
        if (!larger) free(data);
        data = larger;
        capacity *= 2;
    }

    // A file of exactly the limit is fine, a byte more is not.
    // Ask for errors before the file is closed.
    bool failed = ferror(file) != 0;
    bool more = data && used == capacity && fgetc(file) != EOF;
    int reason = errno;
    if (!standard) fclose(file);

    // Report the first of the possible failures.
    if (!data) {
        cli_fail("out of memory reading %s", path);
    } else if (failed) {
        cli_fail("cannot read %s: %s", path, strerror(reason));
    } else if (more) {
        cli_fail("%s is larger than %d MiB", path, MAX_FILE >> 20);
    } else {
        // Terminated, so that parsers need no length.
        data[used] = '\0';
        *size = used;
        return data;
    }

    free(data);
    return NULL;
}

char* cli_beside(const char* file, const char* ending) {
    size_t size = strlen(file), more = strlen(ending) + 1;
    char* name = malloc(size + more);
    if (!name) return NULL;
    memcpy(name, file, size + 1);
    char *dot = strrchr(name, '.'), *slash = strrchr(name, '/');
    if (dot && (!slash || dot > slash + 1)) *dot = '\0';
    memcpy(name + strlen(name), ending, more);
    return name;
}

bool cli_is_folder(const char* path) {
    struct stat status;
    return path && stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

int cli_check_fit_file(const char* path, const char* document) {
    static const char* const robots[] = {".xml", ".urdf", ".mjcf"};
    for (size_t k = 0; k < sizeof robots / sizeof *robots; k++) {
        if (!cli_ends_with(path, robots[k])) continue;
        return cli_fail("%s: this is a robot (URDF or MJCF), not a fit file; write a YAML file with"
                        " `model: %s` and `data:` (%s)",
                        path, path, document);
    }
    if (!cli_ends_with(path, ".csv")) return CLI_GO_ON;
    return cli_fail("%s: this is a recording, not a fit file; write a YAML file with `model:` and"
                    " `data: {train: [%s]}` (%s)",
                    path, path, document);
}

bool cli_ends_with(const char* text, const char* end) {
    size_t size = strlen(text), more = strlen(end);
    return size > more && strcmp(text + size - more, end) == 0;
}

bool cli_same_file(const char* a, const char* b) {
    struct stat one, other;
    if (strcmp(a, b) == 0) return true;
    return stat(a, &one) == 0 && stat(b, &other) == 0 && one.st_dev == other.st_dev &&
           one.st_ino == other.st_ino;
}

bool cli_write_file(const char* path, const char* data, size_t size) {
    FILE* file = path ? fopen(path, "wb") : stdout;
    if (!file) {
        cli_fail("cannot create %s: %s", path, strerror(errno));
        return false;
    }
    bool written = fwrite(data, 1, size, file) == size;
    // cppcheck-suppress useClosedFile ; it is closed or flushed, not both
    written = (path ? fclose(file) : fflush(file)) == 0 && written;
    if (!written) cli_fail("cannot write %s: %s", path ? path : "the output", strerror(errno));
    return written;
}

bool cli_read_table(const char* path, ns_table* out) {
    ns_error error;
    ns_status status;
    if (strcmp(path, "-") == 0) {
        size_t size = 0;
        char* text = cli_read_file(path, &size);
        if (!text) return false;
        status = ns_table_parse(text, size, "standard input", NULL, NULL, out, &error);
        free(text);
    } else {
        status = ns_table_read(path, NULL, NULL, out, &error);
    }
    if (status != NS_OK) cli_fail("%s", error.message);
    return status == NS_OK;
}

ns_table_writer* cli_create_table(const char* path) {
    bool standard = !path || strcmp(path, "-") == 0;
    ns_table_writer* writer = NULL;
    ns_error error;
    ns_status status = standard
                           ? ns_table_writer_attach(stdout, "the output", NULL, &writer, &error)
                           : ns_table_writer_create(path, NULL, &writer, &error);
    if (status != NS_OK) cli_fail("%s", error.message);
    return writer;
}

bool cli_finish_table(ns_table_writer* writer) {
    ns_error error;
    if (ns_table_writer_finish(writer, &error) == NS_OK) return true;
    cli_fail("%s", error.message);
    return false;
}

int cli_print_json(ns_json* j) {
    ns_text text;
    ns_error error;
    if (ns_json_finish(j, &text, &error) != NS_OK) return cli_fail("%s", error.message);
    bool written = cli_write_file(NULL, text.data, text.size);
    ns_text_free(&text);
    return written ? EXIT_OK : EXIT_FAILED;
}

bool cli_print_report(const ns_report* report, bool json) {
    ns_text text;
    ns_error error;
    ns_status status =
        json ? ns_report_json(report, &text, &error) : ns_report_text(report, &text, &error);
    if (status != NS_OK) return cli_fail("%s", error.message), false;
    bool written = cli_write_file(NULL, text.data, text.size);
    ns_text_free(&text);
    return written;
}

int cli_finish(void) {
    if (fflush(stdout) == 0 && !ferror(stdout)) return EXIT_OK;
    return cli_fail("cannot write the output: %s", strerror(errno));
}

// ---- progress ------------------------------------------------------------------------------

double cli_clock(void) {
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now) != 0) return 0.0;
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

cli_progress cli_progress_start(const char* what) {
    double now = cli_clock();
    return (cli_progress){.what = what, .start = now, .shown = now, .terminal = isatty(2) == 1};
}

void cli_progress_update(cli_progress* p, double done, double total) {
    double now = p->terminal ? cli_clock() : p->start, elapsed = now - p->start;
    if (elapsed < 1.0 || now - p->shown < 0.2 || done <= 0.0) return;
    fprintf(stderr, "\r\033[K%s: %.1f %% in %.0f s, about %.0f s to go", p->what,
            100.0 * done / total, elapsed, elapsed * (total / done - 1.0));
    p->shown = now;
    p->visible = true;
}

void cli_progress_end(cli_progress* p) {
    if (p->visible) fprintf(stderr, "\r\033[K");
    p->visible = false;
}

// ---- models --------------------------------------------------------------------------------

ns_load_options cli_load_options(const cli_load* load) {
    ns_load_options options = load->options;
    options.package_paths = load->packages.items;
    options.npackage_path = load->packages.count;
    return options;
}

bool cli_model_load(const char* path, const cli_load* load, const cli_networks* networks,
                    cli_model* out) {
    if (!cli_model_load_any(path, load, networks, out)) return false;
    if (!ns_hybrid_is_learned(out->hybrid)) return true;
    cli_fail("%s is a learned system and has no physical quantities; only score supports it", path);
    return false;
}

bool cli_model_load_any(const char* path, const cli_load* load, const cli_networks* networks,
                        cli_model* out) {
    const char* blueprint = networks ? networks->blueprint : NULL;
    const char* weights = networks ? networks->weights : NULL;
    ns_error error;
    *out = (cli_model){0};
    ns_load_options options = cli_load_options(load);
    ns_status status = ns_hybrid_load(path, &options, &out->hybrid, &error);
    if (status == NS_OK && blueprint) {
        status = ns_blueprint_load(blueprint, NULL, &out->given, &error);
    }
    if (status == NS_OK) {
        ns_blueprint* used = out->given ? out->given : ns_hybrid_blueprint(out->hybrid);
        out->model = ns_hybrid_model(out->hybrid);
        out->blueprint = used;
        if (weights && !used) {
            cli_fail("--weights %s: there are no networks; declare them with --blueprint", weights);
            return false;
        }
        if (weights) status = ns_blueprint_load_weights(used, weights, &error);
    }
    if (status != NS_OK) cli_fail("%s", error.message);
    return status == NS_OK;
}

void cli_model_free(cli_model* m) {
    ns_blueprint_free(m->given);
    ns_hybrid_free(m->hybrid);
    *m = (cli_model){0};
}

void cli_model_apply(const cli_model* m, ns_system_options* options) {
    ns_hybrid_apply(m->hybrid, options);
    options->blueprint = m->blueprint;
}

void cli_note_ignored(const ns_model* model, const char* path) {
    uint32_t counts[NS_IGNORED_CHANGING + 1] = {0};
    for (uint32_t k = 0; k < ns_model_get_sizes(model).nignored; k++) {
        counts[ns_model_ignored_effect(model, k)]++;
    }
    uint32_t count = counts[NS_IGNORED_CHANGING], unknown = counts[NS_IGNORED_UNKNOWN];
    if (count > 0) {
        cli_note("%u %s of %s that %s the motion %s ignored; 'neuralsim inspect %s' lists them",
                 count, count == 1 ? "part" : "parts", path, count == 1 ? "changes" : "change",
                 count == 1 ? "is" : "are", path);
    }
    if (unknown > 0) {
        cli_note("%u %s of %s that may change the motion %s unknown and ignored; 'neuralsim "
                 "inspect %s' lists them",
                 unknown, unknown == 1 ? "part" : "parts", path, unknown == 1 ? "is" : "are", path);
    }
}

void cli_note_integrator(const ns_model* model, const ns_system* system, int asked) {
    if (asked < 0 && ns_system_get_sizes(system).integrator != ns_model_world(model)->integrator) {
        cli_note("the model asks for %s, which does not support rigid contact: %s is used",
                 ns_choice_name(&ns_integrators, (int)ns_model_world(model)->integrator),
                 ns_choice_name(&ns_integrators, (int)ns_system_get_sizes(system).integrator));
    }
}

void cli_set_contact(const cli_contact* contact, ns_system_options* options) {
    if (contact->model >= 0) options->contact = contact->model;
    options->friction = (ns_friction)contact->friction;
    options->contact_sweeps = contact->sweeps;
}

ns_system* cli_create_system(const ns_model* model, const ns_system_options* options) {
    ns_system* system = NULL;
    ns_error error;
    if (ns_system_create(model, options, &system, &error) != NS_OK) cli_fail("%s", error.message);
    return system;
}

ns_workspace* cli_create_workspace(const ns_system* system, const ns_workspace_size* size) {
    ns_workspace* work = NULL;
    ns_error error;
    if (ns_workspace_create(system, size, &work, &error) != NS_OK) cli_fail("%s", error.message);
    return work;
}

// The type of a joint that moves by itself, which a mimic joint does not; NULL otherwise.
static const ns_joint_info* moving_joint(const ns_model* model, uint32_t link) {
    if (ns_model_joint_q(model, link) == UINT32_MAX) return NULL;
    return ns_joint_type_info(ns_model_link(model, link)->joint_type);
}

uint32_t cli_joint_nq(const ns_model* model, uint32_t link) {
    const ns_joint_info* info = moving_joint(model, link);
    return info ? info->nq : 0;
}

uint32_t cli_joint_nv(const ns_model* model, uint32_t link) {
    const ns_joint_info* info = moving_joint(model, link);
    return info ? info->nv : 0;
}

uint32_t cli_joint_quaternion(const ns_model* model, uint32_t link) {
    const ns_joint_info* info = moving_joint(model, link);
    bool has = info && info->quaternion < info->nq;
    return has ? ns_model_joint_q(model, link) + info->quaternion : UINT32_MAX;
}

// The numbers of an option into `out` (count).
static int read_option_numbers(const char* command, const char* option, const cli_list* texts,
                               uint32_t count, double* out) {
    if (texts->count == 0) return CLI_GO_ON;
    if (texts->count != count) {
        return cli_usage(command, "%s needs %u numbers for this model, not %u", option, count,
                         texts->count);
    }
    for (uint32_t k = 0; k < count; k++) {
        if (!cli_read_number(texts->items[k], &out[k])) {
            return cli_usage(command, "%s: '%.60s' is not a number", option, texts->items[k]);
        }
    }
    return CLI_GO_ON;
}

bool cli_find_keyframe(const ns_model* model, const char* name, const ns_keyframe_def** out) {
    uint32_t count = ns_model_get_sizes(model).nkeyframe;
    uint32_t number = name ? ns_model_find_keyframe(model, name) : 0;
    *out = ns_model_keyframe(model, number);
    if (*out || !name) return true;
    ns_nearest near = {.wanted = name};
    for (uint32_t k = 0; k < count; k++) ns_nearest_offer(&near, ns_model_keyframe(model, k)->name);
    const char* likely = ns_nearest_likely(&near);
    if (likely) {
        cli_fail("the model has no keyframe \"%.100s\"; did you mean \"%.100s\"?", name, likely);
    } else if (count > 0) {
        cli_fail("the model has no keyframe \"%.100s\"; its first is \"%.100s\"", name,
                 ns_model_keyframe(model, 0)->name);
    } else {
        cli_fail("the model has no keyframes; remove --keyframe");
    }
    return false;
}

int cli_set_start(const char* command, const ns_model* model, const cli_start* start, double* x) {
    ns_model_sizes n = ns_model_get_sizes(model);
    int code = read_option_numbers(command, "--q0", &start->q0, n.nq, x);
    if (code == CLI_GO_ON)
        code = read_option_numbers(command, "--qd0", &start->qd0, n.nv, x + n.nq);
    if (code != CLI_GO_ON) return code;
    double off = start->q0.count > 0 ? ns_model_normalize_q(model, x) : 0.0;
    if (off < 0.0) return cli_usage(command, "--q0: a quaternion is zero");
    if (off > 1e-6) cli_note("--q0: a quaternion was made unit length (off by %.3g)", off);
    return CLI_GO_ON;
}
