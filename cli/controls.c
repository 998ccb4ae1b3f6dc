// Controls over time, from formulas of t or from a table.

#define _POSIX_C_SOURCE 200809L // access

#include "controls.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

// ---- formulas ------------------------------------------------------------------------------

// Length of an assignment: up to the next comma outside parentheses.
static size_t assignment_length(const char* text) {
    int depth = 0;
    size_t size = 0;
    for (; text[size] && !(depth == 0 && text[size] == ','); size++) {
        if (text[size] == '(') depth++;
        if (text[size] == ')' && depth > 0) depth--;
    }
    return size;
}

static void trim(const char** text, size_t* size) {
    while (*size > 0 && **text == ' ') ++*text, --*size;
    while (*size > 0 && (*text)[*size - 1] == ' ') --*size;
}

// A formula of t at `text`.
static int read_control_formula(const controls* c, const char* command, const char* text,
                                size_t size, ns_formula** out) {
    ns_error error;
    size_t where;
    ns_status status = ns_formula_parse(text, size, false, NULL, out, &where, &error);
    if (status == NS_ERR_NOMEM) return cli_fail("out of memory");
    for (uint32_t k = 0; status == NS_OK && k < ns_formula_variable_count(*out); k++) {
        const char* name = ns_formula_variable(*out, k);
        if (strcmp(name, "t") == 0) continue;
        where = ns_formula_variable_offset(*out, k);
        status = NS_ERR_PARSE;
        snprintf(error.message, sizeof error.message,
                 "'%.40s' is not known; use t, pi and functions such as sin", name);
    }
    if (status == NS_OK) return CLI_GO_ON;
    size_t at = (size_t)(text - c->source) + where;
    return cli_usage(command, "--control: character %zu, at '%.20s': %s", at + 1, c->source + at,
                     error.message);
}

// "name = formula" at `text`.
static int add_assignment(controls* c, const char* command, const char* text, size_t size) {
    // Split at the first equals sign; formulas may contain more of them.
    char name[320] = "";
    const char* equals = memchr(text, '=', size);
    const char* start = text;
    size_t length = equals ? (size_t)(equals - text) : 0;
    // Spaces around the name are allowed.
    trim(&start, &length);
    if (!equals || length == 0 || length >= sizeof name) {
        return cli_usage(command, "--control: '%.*s' is not NAME=FORMULA",
                         (int)(size < 60 ? size : 60), text);
    }

    // Find the control, or suggest the nearest name.
    memcpy(name, start, length);
    ns_io_target p = ns_io_names_find(c->io->names, name);
    if (p.kind != NS_IO_CONTROL) {
        // Only controls are candidates.
        ns_nearest near = {.wanted = name};
        for (uint32_t k = 0; k < ns_io_names_count(c->io->names); k++) {
            ns_io_target other;
            const char* other_name = ns_io_names_at(c->io->names, k, &other);
            if (other.kind == NS_IO_CONTROL) ns_nearest_offer(&near, other_name);
        }
        const char* likely = ns_nearest_likely(&near);
        if (likely) {
            return cli_usage(command,
                             "--control: '%s' is not a control of this model; did you mean"
                             " '%.100s'?",
                             name, likely);
        }
        // Without a likely candidate, show the first control as an example.
        return cli_usage(command, "--control: '%s' is not a control of this model; %s%s", name,
                         c->io->z.nc > 0 ? "for example, " : "it has none",
                         c->io->z.nc > 0 ? model_io_control_name(c->io, 0, false) : "");
    }

    // Each control has one formula.
    for (uint32_t k = 0; k < c->ndriven; k++) {
        if (c->driven[k].index == p.index) {
            return cli_usage(command, "--control: '%s' is given twice", name);
        }
    }

    // Parse the formula; messages point into it.
    driven_control* d = &c->driven[c->ndriven++];
    d->index = p.index;
    return read_control_formula(c, command, equals + 1, size - (size_t)(equals + 1 - text),
                                &d->formula);
}

static int read_formulas(controls* c, const char* command) {
    c->driven = calloc((size_t)c->io->z.nc + 1, sizeof *c->driven);
    if (!c->driven) return cli_fail("out of memory");
    for (const char* at = c->source;;) {
        size_t size = assignment_length(at);
        int code = add_assignment(c, command, at, size);
        if (code != CLI_GO_ON) return code;
        if (at[size] == '\0') return CLI_GO_ON;
        at += size + 1;
    }
}

// ---- tables --------------------------------------------------------------------------------

// Where each trajectory starts: wherever `traj` changes.
static bool find_trajectories(controls* c) {
    uint32_t column = ns_table_column(&c->table, "traj");
    c->first = calloc((size_t)c->table.nrow + 1, sizeof *c->first);
    if (!c->first) {
        cli_fail("out of memory");
        return false;
    }
    c->ntrajectory = 1;
    for (uint32_t row = 1; row < c->table.nrow && column != UINT32_MAX; row++) {
        if (ns_table_at(&c->table, row, column) == ns_table_at(&c->table, row - 1, column))
            continue;
        c->first[c->ntrajectory++] = row;
    }
    c->first[c->ntrajectory] = c->table.nrow;
    return true;
}

static bool check_control_times(const controls* c) {
    for (uint32_t n = 0; n < c->ntrajectory && c->time_column != UINT32_MAX; n++) {
        for (uint32_t row = c->first[n] + 1; row < c->first[n + 1]; row++) {
            if (ns_table_at(&c->table, row, c->time_column) >=
                ns_table_at(&c->table, row - 1, c->time_column)) {
                continue;
            }
            cli_fail("%s:%u: the time goes back; sort the rows, or distinguish trajectories by a "
                     "column traj",
                     c->source, c->table.lines[row]);
            return false;
        }
    }
    return true;
}

// False after saying that there is no such file, and what else may have been meant.
static bool check_control_file(const char* path) {
    if (strcmp(path, "-") == 0 || access(path, R_OK) == 0) return true;
    cli_fail("--control: cannot open %s: %s (a formula is written NAME=..., for example"
             " tau0=sin(t))",
             path, strerror(errno));
    return false;
}

static int read_control_table(controls* c) {
    c->from_table = true;
    if (!check_control_file(c->source)) return EXIT_FAILED;
    if (!cli_read_table(c->source, &c->table)) return EXIT_FAILED;
    if (c->table.nrow == 0) return cli_fail("%s: the table has no rows", c->source);
    ns_io_target* columns = calloc((size_t)c->table.ncol + 1, sizeof *columns);
    c->driven = calloc((size_t)c->io->z.nc + 1, sizeof *c->driven);
    bool ok = columns && c->driven;
    if (!ok) cli_fail("out of memory");
    ok = ok && states_columns(c->io, &c->table, c->source, NS_IO_CONTROL, columns) &&
         states_check_finite(&c->table, c->source, columns);
    for (uint32_t k = 0; k < c->table.ncol && ok; k++) {
        if (columns[k].kind != NS_IO_CONTROL) continue;
        c->driven[c->ndriven].index = columns[k].index;
        c->driven[c->ndriven++].column = k;
    }
    free(columns);
    if (ok && c->ndriven == 0) {
        cli_fail("%s: no column is a control of this model", c->source);
        ok = false;
    }
    c->time_column = ns_table_column(&c->table, "t");
    if (c->time_column == UINT32_MAX) c->time_column = ns_table_column(&c->table, "time");
    return ok && find_trajectories(c) && check_control_times(c) ? CLI_GO_ON : EXIT_FAILED;
}

int controls_create(controls* c, const char* command, const model_io* p, const char* source) {
    *c = (controls){.io = p, .source = source, .time_column = UINT32_MAX};
    if (!source) return CLI_GO_ON;
    return strchr(source, '=') ? read_formulas(c, command) : read_control_table(c);
}

void controls_free(controls* c) {
    for (uint32_t k = 0; k < c->ndriven; k++) ns_formula_free(c->driven[k].formula);
    free(c->driven);
    free(c->first);
    ns_table_free(&c->table);
    *c = (controls){0};
}

// ---- values --------------------------------------------------------------------------------

bool controls_check(const controls* c, uint32_t ntrajectory, uint64_t steps) {
    if (!c->from_table) return true;
    if (c->ntrajectory > 1 && c->ntrajectory < ntrajectory) {
        cli_fail("%s has controls for %u trajectories, but there are %u initial states", c->source,
                 c->ntrajectory, ntrajectory);
        return false;
    }
    bool ends = c->first[1] < steps; // rows of the first one
    if (c->time_column == UINT32_MAX && ends)
        cli_note("%s ends before the simulation does; its last row is held", c->source);
    return true;
}

// The row that holds at a step; UINT32_MAX before the first.
static uint32_t row_at(const controls* c, uint32_t trajectory, uint64_t step, double dt) {
    uint32_t n = c->ntrajectory == 1 ? 0 : trajectory;
    uint32_t low = c->first[n], high = c->first[n + 1] - 1;
    if (c->time_column == UINT32_MAX) return step < high - low ? low + (uint32_t)step : high;
    double t = (double)step * dt + 1e-6 * dt; // times in tables are rounded
    if (ns_table_at(&c->table, low, c->time_column) > t) return UINT32_MAX;
    while (low < high) { // the last row that is not later
        uint32_t middle = high - (high - low) / 2;
        if (ns_table_at(&c->table, middle, c->time_column) <= t) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return low;
}

bool controls_fill(const controls* c, uint32_t trajectory, uint64_t first, uint32_t steps,
                   double dt, double* out) {
    uint32_t nc = c->io->z.nc;
    memset(out, 0, (size_t)steps * nc * sizeof *out);
    for (uint32_t k = 0; k < steps && c->keyframe; k++) {
        memcpy(out + (size_t)k * nc, c->keyframe->control, c->io->n.nu * sizeof *out);
    }
    for (uint32_t k = 0; k < steps && c->ndriven > 0; k++) {
        double t = (double)(first + k) * dt;
        uint32_t row = c->from_table ? row_at(c, trajectory, first + k, dt) : 0;
        for (uint32_t i = 0; i < c->ndriven && row != UINT32_MAX; i++) {
            const driven_control* d = &c->driven[i];
            double value = c->from_table ? ns_table_at(&c->table, row, d->column)
                                         : ns_formula_eval(d->formula, &t);
            if (!isfinite(value)) {
                cli_fail("--control: %s is %g at t = %g s",
                         model_io_control_name(c->io, d->index, false), value, t);
                return false;
            }
            out[(size_t)k * nc + d->index] = value;
        }
    }
    return true;
}
