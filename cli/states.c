// States, controls and parameters from tables and from the command line.

#include "states.h"

#include "quantity_args.h"

#include <neuralsim/closure.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

bool states_create(const model_io* p, uint32_t count, const double* params,
                   const ns_keyframe_def* keyframe, states* out) {
    *out = (states){.count = count};
    out->x = cli_zeros((size_t)count * p->z.nx);
    out->c = cli_zeros((size_t)count * p->z.nc);
    out->params = cli_zeros((size_t)count * p->z.np);
    if (!out->x || !out->c || !out->params) return false;
    for (size_t row = 0; row < count; row++) {
        double* x = out->x + row * p->z.nx;
        ns_model_default_q(p->model, x);
        if (keyframe) {
            memcpy(x, keyframe->q, p->n.nq * sizeof *x);
            memcpy(x + p->n.nq, keyframe->qd, p->n.nv * sizeof *x);
            memcpy(out->c + row * p->z.nc, keyframe->control, p->n.nu * sizeof *x);
            double* state = x + p->n.nq + p->n.nv; // of actuators that have one
            for (uint32_t i = 0; i < p->n.nu; i++) {
                const ns_actuator_def* a = ns_model_actuator(p->model, i);
                bool motor = a->type == NS_ACTUATOR_SERIES_ELASTIC;
                if (motor) state++;
                if (a->dynamics != NS_DYNAMICS_NONE) *state++ = keyframe->activation[i];
            }
        }
        if (p->z.np > 0) memcpy(out->params + row * p->z.np, params, p->z.np * sizeof *params);
    }
    return true;
}

void states_free(states* s) {
    free(s->x);
    free(s->c);
    free(s->params);
    *s = (states){0};
}

// ---- columns -------------------------------------------------------------------------------

static bool is_bookkeeping(const char* column) {
    static const char* const names[] = {"t", "time", "traj", "trajectory", "step", "row", "energy"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        if (strcmp(column, names[k]) == 0) return true;
    }
    return false;
}

// Is the column the result of an earlier run?
static bool is_quantity(const ns_system* everything, cli_pool* pool, const char* column) {
    for (uint32_t k = 0; k < ns_system_get_sizes(everything).ny; k++) {
        const char* name = quantity_column(pool, ns_system_observation_name(everything, k));
        if (name && strcmp(name, column) == 0) return true;
    }
    return false;
}

// A column that is nothing of the model: say what was meant, or what there is. Tables of controls
// (`keep`) are offered controls.
static void explain_unknown(const model_io* p, const char* path, const char* name,
                            ns_io_kind keep) {
    ns_nearest near = {.wanted = name};
    for (uint32_t k = 0; k < ns_io_names_count(p->names); k++) {
        ns_io_target target;
        const char* other = ns_io_names_at(p->names, k, &target);
        if (keep == NS_IO_NONE || target.kind == keep) ns_nearest_offer(&near, other);
    }
    for (uint32_t k = 0; k < p->n.nparam && keep == NS_IO_NONE; k++) {
        ns_nearest_offer(&near, ns_model_param(p->model, k)->name);
    }
    const char* likely = ns_nearest_likely(&near);
    if (likely) {
        cli_fail("%s: column \"%.100s\" is not part of this model; did you mean \"%.100s\"?", path,
                 name, likely);
    } else if (keep == NS_IO_CONTROL && p->z.nc > 0) {
        cli_fail("%s: column \"%.100s\" is not part of this model; controls are %s%s%s%s"
                 " ('neuralsim quantities MODEL' lists all)",
                 path, name, model_io_control_name(p, 0, false), p->z.nc > 1 ? ", " : "",
                 p->z.nc > 1 ? model_io_control_name(p, 1, false) : "", p->z.nc > 2 ? "..." : "");
    } else {
        cli_fail("%s: column \"%.100s\" is not part of this model; it takes columns such as q0,"
                 " qd0, tau0, %s ('neuralsim quantities MODEL' lists all; with --params, parameters"
                 " too)",
                 path, name, p->z.nx > 0 ? model_io_state_name(p, 0, false) : "t");
    }
}

// Are all columns that fit nothing quantities of the model?
static bool check_unknown(const model_io* p, const ns_table* table, const char* path,
                          ns_io_kind keep, const ns_io_target* columns) {
    // The table may come from a run with another contact law, which has quantities of its own.
    cli_contact contact[1 + NS_CONTACT_MAX_LAWS] = {CLI_CONTACT_DEFAULT};
    enum { WAYS = sizeof contact / sizeof *contact };
    ns_system* everything[WAYS] = {NULL};
    uint32_t ways = 1;
    const ns_contact_law* law;
    for (int n = 0; ns_model_get_sizes(p->model).ncontact > 0 && (law = ns_contact_law_get(n));
         n++) {
        if (law->stage == NS_CONTACT_STAGE_FORCES) contact[ways++] = (cli_contact){.model = n};
    }

    // Systems are created only when a column needs them.
    cli_pool pool = {0};
    bool ok = true;
    for (uint32_t k = 0; k < table->ncol && ok; k++) {
        const char* name = table->names[k];
        if (columns[k].kind != NS_IO_NONE || is_bookkeeping(name)) continue;
        bool found = false;

        // A name that any contact law knows is a quantity, so its column is ignored.
        for (uint32_t i = 0; i < ways && ok && !found; i++) {
            if (!everything[i]) everything[i] = quantity_system(p->source, &contact[i]);
            ok = everything[i] != NULL;
            found = ok && is_quantity(everything[i], &pool, name);
        }
        if (ok && !found) {
            explain_unknown(p, path, name, keep);
            ok = false;
        }
    }

    cli_pool_free(&pool);
    for (uint32_t i = 0; i < WAYS; i++) ns_system_free(everything[i]);
    return ok;
}

// Two columns for one number, such as q0 and q_elbow?
static bool check_column_twice(const model_io* p, const ns_table* table, const char* path,
                               const ns_io_target* columns) {
    size_t count = (size_t)p->z.nx + p->z.nc + p->z.np;
    uint32_t* first = calloc(count + 1, sizeof *first);
    if (!first) cli_fail("out of memory");
    bool ok = first != NULL;
    for (uint32_t k = 0; k < table->ncol && ok; k++) {
        if (columns[k].kind == NS_IO_NONE) continue;
        size_t at = columns[k].index;
        if (columns[k].kind != NS_IO_STATE) at += p->z.nx;
        if (columns[k].kind == NS_IO_PARAM) at += p->z.nc;
        if (first[at] != 0) {
            cli_fail("%s: columns \"%.100s\" and \"%.100s\" refer to the same value; remove one",
                     path, table->names[first[at] - 1], table->names[k]);
            ok = false;
        }
        first[at] = k + 1;
    }
    free(first);
    return ok;
}

// One line for all columns that are not used.
static void note_ignored(const ns_table* table, const char* path, const ns_io_target* columns) {
    enum { MAX_NAMED = 10 };
    cli_pool pool = {0};
    const char* list = "";
    uint32_t count = 0;
    for (uint32_t k = 0; k < table->ncol && list; k++) {
        if (columns[k].kind != NS_IO_NONE) continue;
        const char* comma = count > 0 ? ", " : "";
        if (count < MAX_NAMED)
            list = cli_pool_format(&pool, "%s%s%s", list, comma, table->names[k]);
        if (count == MAX_NAMED) list = cli_pool_format(&pool, "%s...", list);
        count++;
    }
    if (count > 0 && list) {
        cli_note("%s: ignored %u %s: %s", path, count, count == 1 ? "column" : "columns", list);
    }
    cli_pool_free(&pool);
}

bool states_columns(const model_io* p, const ns_table* table, const char* path, ns_io_kind keep,
                    ns_io_target* out) {
    for (uint32_t k = 0; k < table->ncol; k++) {
        const char* name = table->names[k];
        out[k] = ns_io_names_find(p->names, name);
        if (out[k].kind == NS_IO_CONTROL && out[k].index >= p->n.nu && name[0] == 'u') {
            cli_note("%s: column %s is taken as tau%u, since no actuator drives that joint", path,
                     name, out[k].index - p->n.nu);
        }
    }
    if (!check_unknown(p, table, path, keep, out) || !check_column_twice(p, table, path, out))
        return false;
    if (keep == NS_IO_NONE) note_ignored(table, path, out);
    for (uint32_t k = 0; k < table->ncol && keep != NS_IO_NONE; k++) {
        if (out[k].kind != keep) out[k].kind = NS_IO_NONE;
    }
    return true;
}

bool states_check_finite(const ns_table* table, const char* path, const ns_io_target* columns) {
    for (uint32_t row = 0; row < table->nrow; row++) {
        for (uint32_t k = 0; k < table->ncol; k++) {
            double number = ns_table_at(table, row, k);
            if (columns[k].kind == NS_IO_NONE || isfinite(number)) continue;
            cli_fail("%s:%u: column \"%.100s\" is %g; it must be finite", path, table->lines[row],
                     table->names[k], number);
            return false;
        }
    }
    return true;
}

// ---- rows ----------------------------------------------------------------------------------

// Make quaternions unit length; says so when one was off by more than rounding in the file.
static bool normalize_rows(const model_io* p, const ns_table* table, const char* path, states* s) {
    double worst = 0.0;
    uint32_t count = 0, first = 0;
    for (uint32_t row = 0; row < s->count; row++) {
        double off = ns_model_normalize_q(p->model, s->x + (size_t)row * p->z.nx);
        if (off < 0.0) {
            cli_fail("%s:%u: a quaternion is zero; write 1 0 0 0 for no rotation", path,
                     table->lines[row]);
            return false;
        }
        if (off > 1e-6 && count++ == 0) first = table->lines[row];
        if (off > worst) worst = off;
    }
    if (count > 0) {
        cli_note("%s: quaternions of %u %s made unit length (first in line %u; off by up to %.3g)",
                 path, count, count == 1 ? "row" : "rows", first, worst);
    }
    return true;
}

// Motors are where their controls are; activations are zero.
static void rest_motors(const model_io* p, states* s) {
    for (uint32_t m = 0; m < p->nactuator_state; m++) {
        uint32_t index = p->n.nq + p->n.nv + m, actuator = model_io_state_actuator(p, m);
        if (ns_model_actuator(p->model, actuator)->dynamics != NS_DYNAMICS_NONE) continue;
        for (size_t row = 0; row < s->count; row++) {
            s->x[row * p->z.nx + index] = s->c[row * p->z.nc + actuator];
        }
    }
}

// The parameters of all rows, when the table has some.
static bool check_row_params(const model_io* p, const ns_table* table, const char* path,
                             const ns_io_target* columns, const states* s) {
    bool any = false, ok = true;
    for (uint32_t k = 0; k < table->ncol; k++) any = any || columns[k].kind == NS_IO_PARAM;
    for (uint32_t row = 0; row < s->count && any && ok; row++) {
        char where[320];
        snprintf(where, sizeof where, "%.280s:%u", path, table->lines[row]);
        ok = states_check_params(p->model, p->system, s->params + (size_t)row * p->z.np, where);
    }
    return ok;
}

static void fill_rows(const model_io* p, const ns_table* table, const ns_io_target* columns,
                      states* s) {
    for (uint32_t row = 0; row < s->count; row++) {
        for (uint32_t k = 0; k < table->ncol; k++) {
            double number = ns_table_at(table, row, k);
            uint32_t index = columns[k].index;
            switch (columns[k].kind) {
            case NS_IO_NONE: break;
            case NS_IO_STATE: s->x[(size_t)row * p->z.nx + index] = number; break;
            case NS_IO_CONTROL: s->c[(size_t)row * p->z.nc + index] = number; break;
            case NS_IO_PARAM: s->params[(size_t)row * p->z.np + index] = number; break;
            }
        }
    }
}

bool states_read(const model_io* p, const ns_table* table, const char* path, uint32_t most,
                 const double* params, const ns_keyframe_def* keyframe, states* out) {
    *out = (states){0};
    if (table->nrow == 0) {
        cli_fail("%s: the table has no rows; at least one state is needed", path);
        return false;
    }
    ns_io_target* columns = calloc((size_t)table->ncol + 1, sizeof *columns);
    if (!columns) cli_fail("out of memory");
    bool ok = columns && states_columns(p, table, path, NS_IO_NONE, columns) &&
              states_check_finite(table, path, columns) &&
              states_create(p, table->nrow < most ? table->nrow : most, params, keyframe, out);
    if (ok) {
        for (uint32_t k = 0; k < table->ncol; k++) {
            uint32_t first = p->n.nq + p->n.nv;
            bool motor = columns[k].kind == NS_IO_STATE && columns[k].index >= first &&
                         columns[k].index < first + p->nactuator_state;
            out->has_motors = out->has_motors || motor;
            out->has_controls = out->has_controls || columns[k].kind == NS_IO_CONTROL;
        }
        fill_rows(p, table, columns, out);
        if (!out->has_motors) rest_motors(p, out);
        ok = check_row_params(p, table, path, columns, out) && normalize_rows(p, table, path, out);
    }
    free(columns);
    return ok;
}

// ---- parameters ----------------------------------------------------------------------------

// The number of link `owner` that a parameter is; NULL when it is none.
static double* inertia_param(ns_link_def* link, uint32_t owner, const ns_param* param) {
    if (!param || param->owner != owner) return NULL;
    switch (param->kind) {
    case NS_PARAM_MASS: return &link->mass;
    case NS_PARAM_COM: return &link->com[param->component];
    case NS_PARAM_INERTIA: return &link->inertia[param->component];
    default: return NULL;
    }
}

// Would the library take a link with this inertia?
static bool check_link_inertia(const ns_link_def* link, const char* where) {
    ns_model_builder* builder = NULL;
    ns_error error;
    bool ok = ns_model_builder_create(NULL, &builder, &error) == NS_OK &&
              ns_model_builder_add_link(builder, link, &error) == NS_OK;
    if (!ok) cli_fail("%s: %s", where, error.message);
    ns_model_builder_free(builder);
    return ok;
}

bool states_check_params(const ns_model* model, const ns_system* system, const double* params,
                         const char* where) {
    // Each parameter must lie in its own range.
    uint32_t np = ns_system_get_sizes(system).np;
    for (uint32_t k = 0; k < np; k++) {
        const char* name = ns_system_param_name(system, k);
        const ns_param* p = ns_model_param(model, ns_model_find_param(model, name));
        if (!p || (params[k] >= p->lower && params[k] <= p->upper)) continue;
        cli_fail("%s: %s = %g is outside its range %g to %g", where, name, params[k], p->lower,
                 p->upper);
        return false;
    }

    // Inertial parameters must also be consistent with each other: check each link that changes.
    for (uint32_t i = 0; i < ns_model_get_sizes(model).nlink; i++) {
        const ns_link_def* given = ns_model_link(model, i);
        ns_link_def link = ns_default_link_def();
        link.name = given->name;
        link.mass = given->mass;
        memcpy(link.com, given->com, sizeof link.com);
        memcpy(link.inertia, given->inertia, sizeof link.inertia);

        bool changed = false;
        for (uint32_t k = 0; k < np; k++) {
            const char* name = ns_system_param_name(system, k);
            const ns_param* param = ns_model_param(model, ns_model_find_param(model, name));
            double* number = inertia_param(&link, i, param);
            if (!number || *number == params[k]) continue;
            *number = params[k];
            changed = true;
        }

        if (changed && !check_link_inertia(&link, where)) return false;
    }
    return true;
}

bool states_add_free(const ns_model* model, const ns_table* table, cli_list* free_params) {
    for (uint32_t k = 0; k < table->ncol; k++) {
        if (ns_model_find_param(model, table->names[k]) == UINT32_MAX) continue;
        if (!cli_list_add(free_params, table->names[k])) {
            cli_fail("more than %d free parameters", CLI_MAX_LIST);
            return false;
        }
    }
    return true;
}

// ---- --set ---------------------------------------------------------------------------------

int settings_read(const char* command, const cli_list* texts, settings* out,
                  cli_list* free_params) {
    *out = (settings){0};
    for (uint32_t k = 0; k < texts->count; k++) {
        const char* text = texts->items[k];
        const char* equals = strchr(text, '=');
        double value;
        if (!equals || equals == text || !cli_read_number(equals + 1, &value)) {
            return cli_usage(command, "--set needs PARAMETER=NUMBER, not '%.100s'", text);
        }
        const char* name = cli_pool_format(&out->pool, "%.*s", (int)(equals - text), text);
        if (!name) return EXIT_FAILED;
        cli_list_add(&out->names, name); // as many as there are texts
        out->values[k] = value;
        if (!cli_list_add(free_params, name)) {
            return cli_usage(command, "more than %d free parameters", CLI_MAX_LIST);
        }
    }
    return CLI_GO_ON;
}

void settings_free(settings* s) {
    cli_pool_free(&s->pool);
}

bool settings_apply(const settings* s, const ns_model* model, const ns_system* system,
                    double* params) {
    ns_system_default_params(system, params);
    for (uint32_t i = 0; i < s->names.count; i++) {
        for (uint32_t k = 0; k < ns_system_get_sizes(system).np; k++) {
            if (ns_glob_match(s->names.items[i], ns_system_param_name(system, k))) {
                params[k] = s->values[i];
            }
        }
    }
    return s->names.count == 0 || states_check_params(model, system, params, "--set");
}

// ---- equality constraints ------------------------------------------------------------------

static const ns_choice closing_rows[] = {
    {CLOSE_AUTO, "auto", "if they miss them by less than 0.05 m or rad"},
    {CLOSE_ALWAYS, "always", "all"},
    {CLOSE_NEVER, "never", "none"}};
const ns_choices closings = NS_CHOICES("closing", closing_rows);

static const double ROUNDED = 1e-9, SMALL_VIOLATION = 0.05;

// How many states were off, and by how much.
typedef struct closing_count {
    uint32_t moved, kept;
    double most_moved, most_kept;
    const char *moved_by, *kept_by; // names of the constraints
} closing_count;

static void note_closing(const closing_count* n) {
    if (n->moved > 0) {
        cli_note(
            "%u initial %s missed the equality constraints, \"%s\" by %.3g, and %s moved onto them"
            " (--close never keeps such states)",
            n->moved, n->moved == 1 ? "state" : "states", n->moved_by, n->most_moved,
            n->moved == 1 ? "was" : "were");
    }
    if (n->kept > 0) {
        cli_note(
            "%u initial %s the equality constraints, \"%s\" by %.3g; the motion jumps onto them"
            " (--close always moves such states before the start)",
            n->kept, n->kept == 1 ? "state misses" : "states miss", n->kept_by, n->most_kept);
    }
}

static bool close_state(const model_io* p, closing when, ns_closure* closure, states* s,
                        uint32_t row, closing_count* n) {
    ns_error error;
    double *x = s->x + (size_t)row * p->z.nx, *params = s->params + (size_t)row * p->z.np;
    uint32_t constraint;
    double violation = ns_closure_violation(closure, params, x, &constraint);
    if (!(violation > ROUNDED)) return true;

    // Small ones are rounding of a file, or an estimate; large ones may be a mistake.
    const char* name = ns_model_equality(p->model, constraint)->name;
    bool move = when == CLOSE_ALWAYS || (when == CLOSE_AUTO && violation < SMALL_VIOLATION);
    bool closed = move && ns_closure_close(closure, params, x, &error) == NS_OK;
    if (move && !closed && when == CLOSE_ALWAYS) return cli_fail("%s", error.message), false;
    if (closed) {
        n->moved++;
        if (violation > n->most_moved) n->most_moved = violation, n->moved_by = name;
    } else {
        n->kept++;
        if (violation > n->most_kept) n->most_kept = violation, n->kept_by = name;
    }
    return true;
}

bool states_close(const model_io* p, closing when, states* s) {
    ns_closure* closure = NULL;
    ns_error error;
    if (ns_model_get_sizes(p->model).nequality == 0) return true;
    if (ns_closure_create(p->system, &closure, &error) != NS_OK) {
        return cli_fail("%s", error.message), false;
    }
    closing_count n = {0};
    bool ok = true;
    for (uint32_t row = 0; row < s->count && ok; row++) {
        ok = close_state(p, when, closure, s, row, &n);
    }
    ns_closure_free(closure);
    if (ok) note_closing(&n);
    return ok;
}
