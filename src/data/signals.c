// What the channels and controls of a data check are, and their samples in each recording.

#include "data/check_state.h"

#include "base/series.h"
#include "data/state_number.h"

#include <math.h>
#include <stdio.h>

// ---- what a signal is ----------------------------------------------------------------------------

// The joint with one coordinate to which a component of the state belongs; NSI_NONE: none.
static uint32_t signal_joint(const ns_model* model, uint32_t state, bool* velocity) {
    ns_model_sizes n = ns_model_get_sizes(model);
    *velocity = state >= n.nq;
    for (uint32_t k = 0; k < n.nlink; k++) {
        const ns_link_def* link = ns_model_link(model, k);
        if (!ns_joint_type_info(link->joint_type)->has_axis || link->mimic) continue;
        uint32_t at = *velocity ? n.nq + ns_model_joint_v(model, k) : ns_model_joint_q(model, k);
        if (at == state) return k;
    }
    return NSI_NONE;
}

static void signal_by_model(const ns_model* model, nsi_signal* s) {
    bool velocity;
    s->state = nsi_state_number(model, s->quantity);
    if (s->state == NSI_NONE) return;
    s->of_model = true;
    uint32_t joint = signal_joint(model, s->state, &velocity);
    if (joint == NSI_NONE) return;

    // Coordinates of joints with one are angles or lengths.
    const ns_link_def* link = ns_model_link(model, joint);
    bool linear = link->joint_type == NS_JOINT_PRISMATIC;
    s->stats.unit = linear ? velocity ? "m/s" : "m" : velocity ? "rad/s" : "rad";
    s->kind = linear     ? velocity ? NSI_SIGNAL_SPEED : NSI_SIGNAL_LENGTH
              : velocity ? NSI_SIGNAL_ANGULAR_RATE
                         : NSI_SIGNAL_ANGLE;
    s->limited = link->limited && !velocity;
    s->lower = link->lower;
    s->upper = link->upper;
}

// Without a model, q_<joint> and qd_<joint>, joint/<joint>/position and joint/<joint>/velocity, and
// x and x_dot or xd are a position and its velocity. Numbers are not: q3 and qd3 need not be of one
// joint.
static bool is_velocity_name(const char* position, const char* velocity) {
    char name[400];
    size_t size = strlen(position);
    if (size > 300) return false;
    if (strncmp(position, "q_", 2) == 0) {
        snprintf(name, sizeof name, "qd_%s", position + 2);
        if (strcmp(name, velocity) == 0) return true;
    }
    if (size > 9 && strcmp(position + size - 9, "/position") == 0) {
        snprintf(name, sizeof name, "%.*s/velocity", (int)(size - 9), position);
        if (strcmp(name, velocity) == 0) return true;
    }
    snprintf(name, sizeof name, "%s_dot", position);
    return strcmp(name, velocity) == 0;
}

// q0, qd0, q_<joint>, qd_<joint>
static bool is_motion_name(const char* name) {
    if (*name++ != 'q') return false;
    if (*name == 'd') name++;
    return *name == '_' || (*name >= '0' && *name <= '9');
}

static void find_velocities(ns_data_check* c) {
    uint32_t nq = c->model ? ns_model_get_sizes(c->model).nq : 0;
    for (uint32_t k = 0; k < c->nchannel; k++) {
        nsi_signal* s = &c->signals[k];
        s->velocity = NSI_NONE;
        for (uint32_t i = 0; i < c->nchannel; i++) {
            const nsi_signal* v = &c->signals[i];
            bool match = false;
            if (s->state == NSI_NONE && v->state == NSI_NONE) {
                match = is_velocity_name(s->quantity, v->quantity);
            } else if (s->kind == NSI_SIGNAL_ANGLE || s->kind == NSI_SIGNAL_LENGTH) {
                // Of joints with one coordinate: the velocity with the same joint.
                bool is_velocity;
                uint32_t joint = signal_joint(c->model, s->state, &is_velocity);
                match = v->state == nq + ns_model_joint_v(c->model, joint);
            }
            if (match) s->velocity = i;
        }
    }

    // Positions and velocities: of the model, of such a pair, or called so.
    for (uint32_t k = 0; k < c->nchannel; k++) {
        nsi_signal* s = &c->signals[k];
        if (s->state != NSI_NONE || is_motion_name(s->quantity)) s->motion = true;
        if (s->velocity != NSI_NONE) s->motion = c->signals[s->velocity].motion = true;
    }
}

typedef struct quantity_units {
    ns_data_check* check;
} quantity_units;

// Units of the quantities that are observed.
static void take_unit(void* context, const ns_quantity_info* quantity) {
    ns_data_check* c = ((quantity_units*)context)->check;
    for (uint32_t k = 0; k < c->nchannel; k++) {
        nsi_signal* s = &c->signals[k];
        if (strcmp(s->quantity, quantity->name) != 0) continue;
        s->of_model = true;
        if (*s->stats.unit) continue;
        s->stats.unit = nsi_arena_string(&c->arena, quantity->unit, strlen(quantity->unit));
        if (!s->stats.unit) s->stats.unit = "";
    }
}

// ---- samples -------------------------------------------------------------------------------------

// From the rows of the file.
static bool take_rows(ns_data_check* c, const nsi_source_rows* rows, const double* x,
                      nsi_samples* out) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < rows->count; k++) count += isnan(x[k]) ? 0 : 1;
    *out = (nsi_samples){.count = count, .times = rows->times, .x = x, .lines = rows->lines};
    if (count == rows->count) return true;

    // Leave out rows where it is missing.
    double* times = nsi_arena_alloc(&c->arena, (2 * (size_t)count + 1) * sizeof *times);
    uint32_t* lines = nsi_arena_alloc(&c->arena, ((size_t)count + 1) * sizeof *lines);
    if (!times || !lines) return false;
    double* values = times + count;
    uint32_t at = 0;
    for (uint32_t k = 0; k < rows->count; k++) {
        if (isnan(x[k])) continue;
        times[at] = rows->times[k];
        values[at] = x[k];
        lines[at++] = rows->lines[k];
    }
    out->times = times;
    out->x = values;
    out->lines = lines;
    return true;
}

// From the grid, of recordings that were never in a file.
static bool take_grid(ns_data_check* c, const nsi_checked_recording* r, uint32_t signal,
                      nsi_samples* out) {
    const ns_recording* rec = r->recording;
    bool control = signal >= c->nchannel;
    size_t stride = control ? c->nsignal - c->nchannel : c->nchannel;
    const double* x =
        (control ? rec->controls : rec->values) + (control ? signal - c->nchannel : signal);
    double* times = nsi_arena_alloc(&c->arena, (2 * (size_t)rec->nsample + 1) * sizeof *times);
    if (!times) return false;
    double* values = times + rec->nsample;
    *out = (nsi_samples){.times = times, .x = values};
    for (uint32_t k = 0; k < rec->nsample; k++) {
        if (isnan(x[k * stride])) continue;
        times[out->count] = rec->start + k * ns_dataset_period(r->data);
        values[out->count++] = x[k * stride];
    }
    return true;
}

static bool take_samples(ns_data_check* c, nsi_checked_recording* r) {
    for (uint32_t k = 0; k < c->nsignal; k++) {
        const nsi_signal* s = &c->signals[k];
        nsi_samples* out = &r->samples[k];
        bool done = r->rows ? take_rows(c, &r->rows->sources[s->source],
                                        r->rows->sources[s->source].signals[s->slot], out)
                            : take_grid(c, r, k, out);
        if (!done) return false;
        out->spacing = nsi_series_spacing(out->times, out->count, c->scratch);
    }
    return true;
}

// ---- creation ------------------------------------------------------------------------------------

// Where names of columns were taken, the user knows these; a formula that is a column has it in quotes
// if it is not plain.
static const char* column_name(ns_data_check* c, const nsi_signal* s) {
    if (!c->map->inferred || !*s->formula) return s->quantity;
    size_t size = strlen(s->formula);
    if (size < 2 || s->formula[0] != '"') return s->formula;
    const char* name = nsi_arena_string(&c->arena, s->formula + 1, size - 2);
    return name ? name : s->quantity;
}

static void name_signals(ns_data_check* c) {
    for (uint32_t k = 0; k < c->nsignal; k++) {
        nsi_signal* s = &c->signals[k];
        *s = (nsi_signal){.state = NSI_NONE, .velocity = NSI_NONE, .stats.unit = ""};
        bool control = k >= c->nchannel;
        uint32_t number = control ? k - c->nchannel : k;
        const ns_channel* channel = control ? NULL : &c->map->channels.data[k];
        s->quantity = control ? c->map->controls.data[number] : channel->name;
        s->formula = control ? "" : channel->value;
        s->kind = control ? NSI_SIGNAL_CONTROL : NSI_SIGNAL_OTHER;
        s->of_model = control;

        // The source that has it: sources number their channels and controls one after the other.
        for (uint32_t i = 0; i < c->map->sources.count; i++) {
            const nsi_map_source* source = &c->map->sources.data[i];
            uint32_t first = control ? source->first_control : source->first_channel;
            uint32_t count = control ? source->control.count : source->observe.count;
            if (number < first || number >= first + count) continue;
            s->source = i;
            s->slot = number - first + (control ? source->observe.count : 0);
            if (control) s->formula = source->control.data[number - first].text;
        }
        s->name = column_name(c, s);
        s->stats.name = s->name;
        s->stats.control = control;
        if (c->model && !control) signal_by_model(c->model, s);
    }
}

bool nsi_signals_create(ns_data_check* c) {
    c->nchannel = c->map->channels.count;
    c->nsignal = c->nchannel + c->map->controls.count;
    c->signals = nsi_arena_alloc(&c->arena, (c->nsignal + 1) * sizeof *c->signals);
    if (!c->signals) return false;
    name_signals(c);
    find_velocities(c);
    bool others = false;
    for (uint32_t k = 0; k < c->nchannel; k++) others |= c->signals[k].state == NSI_NONE;
    quantity_units units = {c};
    if (c->model && others) ns_model_quantities(c->model, NULL, take_unit, &units, NULL);

    // Room for the samples of a signal in all recordings.
    size_t most = 0;
    for (uint32_t k = 0; k < c->nrecording; k++) {
        const nsi_checked_recording* r = &c->recordings[k];
        size_t rows = r->recording->nsample;
        for (uint32_t i = 0; r->rows && i < c->map->sources.count; i++) {
            if (r->rows->sources[i].count > rows) rows = r->rows->sources[i].count;
        }
        most += rows;
    }
    c->nscratch = most;
    c->scratch = nsi_alloc(&c->allocator, (2 * most + 1) * sizeof *c->scratch);
    if (!c->scratch) return false;

    for (uint32_t k = 0; k < c->nrecording; k++) {
        c->recordings[k].samples =
            nsi_arena_alloc(&c->arena, ((size_t)c->nsignal + 1) * sizeof(nsi_samples));
        if (!c->recordings[k].samples || !take_samples(c, &c->recordings[k])) return false;
    }
    return true;
}
