// quadruped: experiments with walking robots, a client of the library's public API.

#define _POSIX_C_SOURCE 200809L

#include "quadruped/support.h"
#include "quadruped/walk_experiment.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const char help[] =
    "usage: quadruped mpc|imitation [--quick] [-o DIR] [--json] [--threads N] [--models DIR]\n"
    "\n"
    "  mpc          Laikago and A1 walk under random commands by model-predictive control\n"
    "  imitation    networks learn to walk the A1 from the MPC, and are tuned through the\n"
    "               simulator\n"
    "\n"
    "  --quick      a part of it, in seconds\n"
    "  -o DIR       folder of the results: report.html, result.json, figures, weights of networks\n"
    "               and their C code. Default: quadruped_mpc, quadruped_imitation\n"
    "  --json       print result.json instead of the report\n"
    "  --threads N  default: one per core. Results do not depend on it\n"
    "  --models DIR folder of a1.urdf and laikago.urdf. Default: ./models, or where the program "
    "was\n"
    "               built\n"
    "\n"
    "example: quadruped mpc --quick -o /tmp/walk\n";

typedef struct arguments {
    const walk_case* experiment;
    walk_options options;
    char folder[4096];
    bool json;
} arguments;

static int fail(const char* what, const char* detail) {
    fprintf(stderr, "quadruped: %s%s\n", what, detail);
    return EXIT_FAILURE;
}

// ---- arguments -----------------------------------------------------------------------------------

// The value of an option that is at argv[*at]; NULL, after a message, when there is none.
static const char* option_value(int argc, char** argv, int* at) {
    if (*at + 1 < argc) return argv[++*at];
    fail(argv[*at], " needs a value; see quadruped --help");
    return NULL;
}

static bool read_threads(const char* text, uint32_t* out) {
    char* end = NULL;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || text[0] == '-' || value > 1024) {
        fail("--threads takes a whole number up to 1024, not ", text);
        return false;
    }
    *out = (uint32_t)value;
    return true;
}

static bool read_argument(int argc, char** argv, int* at, arguments* a) {
    const char* name = argv[*at];
    if (strcmp(name, "--quick") == 0) {
        a->options.quick = true;
    } else if (strcmp(name, "--json") == 0) {
        a->json = true;
    } else if (strcmp(name, "-o") == 0) {
        a->options.output = option_value(argc, argv, at);
        return a->options.output != NULL;
    } else if (strcmp(name, "--models") == 0) {
        a->options.models = option_value(argc, argv, at);
        return a->options.models != NULL;
    } else if (strcmp(name, "--threads") == 0) {
        const char* value = option_value(argc, argv, at);
        return value && read_threads(value, &a->options.threads);
    } else if (name[0] != '-' && !a->experiment) {
        a->experiment = walk_find_case(name);
        if (!a->experiment) fail("expected the experiment mpc or imitation, not ", name);
        return a->experiment != NULL;
    } else {
        fprintf(stderr, "quadruped: unknown argument '%s'; see quadruped --help\n", name);
        return false;
    }
    return true;
}

static bool read_arguments(int argc, char** argv, arguments* a) {
    for (int k = 1; k < argc; k++) {
        if (!read_argument(argc, argv, &k, a)) return false;
    }
    if (!a->experiment) {
        fputs(help, stderr);
        return false;
    }
    if (!a->options.output) {
        snprintf(a->folder, sizeof a->folder, "quadruped_%s", a->experiment->name);
        a->options.output = a->folder;
    }
    if (!a->options.models) {
        a->options.models = access("models/a1.urdf", R_OK) == 0 ? "models" : QUADRUPED_MODELS;
    }
    return true;
}

// ---- results -------------------------------------------------------------------------------------

static void show_progress(void* context, const char* name, double fraction) {
    (void)context;
    fprintf(stderr, "\r%s: %3.0f %%", name, 100.0 * fraction);
}

static ns_status write_text(const arguments* a, const char* name, const char* ending,
                            const ns_text* text, ns_error* error) {
    char path[8192];
    snprintf(path, sizeof path, "%s/%s%s", a->options.output, name, ending);
    return quad_write_file(path, text, error);
}

// The page and its figures as files.
static ns_status write_pages(const arguments* a, const char* name, const ns_report* report,
                             ns_error* error) {
    ns_text text = {0};
    ns_status status = ns_report_html(report, &text, error);
    if (status == NS_OK) status = write_text(a, name, ".html", &text, error);
    ns_text_free(&text);
    for (uint32_t k = 0; k < ns_report_figure_count(report) && status == NS_OK; k++) {
        const ns_figure* figure = ns_report_figure(report, k);
        status = ns_figure_svg(figure, NULL, &text, error);
        if (status == NS_OK) status = write_text(a, figure->name, ".svg", &text, error);
        ns_text_free(&text);
    }
    return status;
}

static ns_status write_results(const arguments* a, const walk_experiment* w, ns_error* error) {
    // All runs.
    ns_report* report = NULL;
    ns_text json = {0}, text = {0};
    ns_status status = walk_report(w, &report, error);
    if (status == NS_OK) status = write_pages(a, "report", report, error);
    if (status == NS_OK) status = ns_report_json(report, &json, error);
    if (status == NS_OK) status = write_text(a, "result", ".json", &json, error);
    if (status == NS_OK) status = ns_report_text(report, &text, error);
    ns_report_free(report);

    // Other robots.
    for (uint32_t robot = 0; robot < WALK_ROBOTS && status == NS_OK; robot++) {
        status = walk_robot_report(w, robot, &report, error);
        if (status == NS_OK && report) {
            status = write_pages(a, w->robots[robot].name, report, error);
            ns_report_free(report);
        }
    }
    if (status == NS_OK) fputs(a->json ? json.data : text.data, stdout);
    if (status == NS_OK && !a->json) printf("\npage: %s/report.html\n", a->options.output);
    ns_text_free(&json);
    ns_text_free(&text);
    return status;
}

int main(int argc, char** argv) {
    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        fputs(help, stdout);
        return EXIT_SUCCESS;
    }
    arguments a = {0};
    if (!read_arguments(argc, argv, &a)) return 2;
    if (mkdir(a.options.output, 0777) != 0 && errno != EEXIST) {
        fprintf(stderr, "quadruped: cannot make the folder %s: %s\n", a.options.output,
                strerror(errno));
        return EXIT_FAILURE;
    }
    if (isatty(STDERR_FILENO)) a.options.progress = show_progress;

    walk_experiment* w = NULL;
    ns_error error = {0};
    ns_status status = walk_experiment_create(a.experiment, &a.options, &w, &error);
    if (a.options.progress) fputs("\r", stderr);
    if (status == NS_OK) status = write_results(&a, w, &error);
    walk_experiment_free(w);
    if (status != NS_OK) return fail(error.message, "");
    return fflush(stdout) == 0 ? EXIT_SUCCESS : fail("standard output: ", strerror(errno));
}
