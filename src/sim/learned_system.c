// Learned systems: the step is a feed-forward network or a stack of LSTM layers.

#include "neuralsim/learned.h"

#include "expr/trace.h"
#include "neuralsim/vec.h"
#include "nn/blueprint_data.h"
#include "nn/network_trace.h"
#include "sim/system.h"

#include <math.h>
#include <stdio.h>

static const ns_choice kind_rows[] = {NS_LEARNED_KIND_MAP(NS_CHOICE_ROW)};
const ns_choices ns_learned_kinds = NS_CHOICES("kind", kind_rows);

enum { MAX_LAYERS = NSI_BLUEPRINT_MAX_HIDDEN, MAX_WIDTH = NSI_BLUEPRINT_MAX_WIDTH };

static const double FORGET_BIAS = 1.0; // Gers et al. 2000: begin by remembering

ns_learned_def ns_default_learned_def(void) {
    return (ns_learned_def){.activation = NS_TANH,
                            .timestep = 0.01,
                            .init_scale = 1.0,
                            .init_last_scale = 0.1,
                            .seed = 1};
}

static double list_element(const double* list, uint32_t count, uint32_t i, double otherwise) {
    return i < count ? list[i] : otherwise;
}

static ns_learned_input input_mode(const ns_learned_def* def, uint32_t i) {
    return i < def->nstate_input ? def->state_input[i] : NS_LEARNED_RAW;
}

static double state_scale(const ns_learned_def* def, uint32_t i) {
    return list_element(def->state_scale, def->nstate_scale, i, 1.0);
}

// Numbers that the network gets of state and control.
static uint32_t input_count(const ns_learned_def* def) {
    uint32_t count = def->nc;
    static const uint32_t sizes[] = {1, 2, 0, 9}; // in the order of ns_learned_input
    for (uint32_t i = 0; i < def->nx; i++) count += sizes[input_mode(def, i)];
    return count;
}

static uint32_t motion_size(const ns_learned_motion* m) {
    return m->rotation ? 4 : 1;
}

// The motion that a state belongs to, or NULL: it has an output.
static const ns_learned_motion* motion_of(const ns_learned_def* def, uint32_t state) {
    for (uint32_t k = 0; k < def->nmotion; k++) {
        const ns_learned_motion* m = &def->motions[k];
        if (state >= m->state && state - m->state < motion_size(m)) return m;
    }
    return NULL;
}

static uint32_t learned_output_count(const ns_learned_def* def) {
    uint32_t count = def->nx;
    for (uint32_t k = 0; k < def->nmotion; k++) count -= motion_size(&def->motions[k]);
    return count;
}

// ---- is the definition all right? ----------------------------------------------------------

static ns_status check_learned_list(const char* field, const void* list, uint32_t count,
                                    uint32_t most, ns_error* error) {
    if (count > 0 && !list) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "def.%s is NULL, but its length is %u", field,
                        count);
    }
    if (count > most) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "def.%s has %u numbers; there may be %u", field,
                        count, most);
    }
    return NS_OK;
}

static ns_status check_learned_numbers(const char* field, const double* list, uint32_t count,
                                       uint32_t most, bool positive, ns_error* error) {
    ns_status status = check_learned_list(field, list, count, most, error);
    for (uint32_t i = 0; i < count && status == NS_OK; i++) {
        if (isfinite(list[i]) && (!positive || list[i] > 0.0)) continue;
        status = nsi_fail(error, NS_ERR_ARGUMENT, "def.%s[%u] is %g; it must be finite%s", field, i,
                          list[i], positive ? " and above 0" : "");
    }
    return status;
}

static ns_status check_learned_number(const char* field, double value, bool zero, ns_error* error) {
    if (isfinite(value) && (zero ? value >= 0.0 : value > 0.0)) return NS_OK;
    return nsi_fail(error, NS_ERR_ARGUMENT, "def.%s is %g; it must be finite and %s 0", field,
                    value, zero ? "at least" : "above");
}

static ns_status check_learned_names(const char* field, const char* const* names, uint32_t count,
                                     ns_error* error) {
    for (uint32_t i = 0; names && i < count; i++) {
        size_t length = names[i] ? strlen(names[i]) : 0;
        if (length == 0 || length > NSI_BLUEPRINT_MAX_NAME) {
            return nsi_fail(error, NS_ERR_ARGUMENT, "def.%s[%u] must have 1 to %d bytes", field, i,
                            NSI_BLUEPRINT_MAX_NAME);
        }
        for (uint32_t k = 0; k < i; k++) {
            if (strcmp(names[i], names[k]) != 0) continue;
            return nsi_fail(error, NS_ERR_ARGUMENT, "def.%s[%u] and [%u] are both \"%s\"", field, k,
                            i, names[i]);
        }
    }
    return NS_OK;
}

static ns_status check_learned_size(const char* field, uint32_t size, uint32_t least,
                                    ns_error* error) {
    if (size >= least && size <= MAX_WIDTH) return NS_OK;
    return nsi_fail(error, NS_ERR_ARGUMENT, "def.%s is %u; it must be %u to %d", field, size, least,
                    MAX_WIDTH);
}

static ns_status check_learned_layers(const ns_learned_def* def, ns_error* error) {
    bool lstm = def->kind == NS_LEARNED_LSTM;
    if (def->nhidden > MAX_LAYERS || (lstm && def->nhidden == 0)) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "def.nhidden is %u; it must be %d to %d",
                        def->nhidden, lstm, MAX_LAYERS);
    }
    ns_status status = check_learned_list("hidden", def->hidden, def->nhidden, MAX_LAYERS, error);
    for (uint32_t k = 0; k < def->nhidden && status == NS_OK; k++) {
        char field[32];
        snprintf(field, sizeof field, "hidden[%u]", k);
        status = check_learned_size(field, def->hidden[k], 1, error);
    }
    if (status != NS_OK) return status;
    if (!ns_activation_name(def->activation)) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "def.activation is %d, which is none",
                        (int)def->activation);
    }
    if (lstm && def->activation != NS_TANH) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "def.activation is %s; that of an LSTM is tanh",
                        ns_activation_name(def->activation));
    }
    return NS_OK;
}

static ns_status check_inputs(const ns_learned_def* def, ns_error* error) {
    ns_status status =
        check_learned_list("state_input", def->state_input, def->nstate_input, def->nx, error);
    for (uint32_t i = 0; i < def->nstate_input && status == NS_OK; i++) {
        if ((unsigned)def->state_input[i] > NS_LEARNED_ROTATION) {
            status = nsi_fail(error, NS_ERR_ARGUMENT, "def.state_input[%u] is %d, which is none", i,
                              (int)def->state_input[i]);
        }
    }

    // A rotation takes four states, of which the first stands for all.
    for (uint32_t i = 0; i < def->nstate_input && status == NS_OK; i++) {
        if (def->state_input[i] != NS_LEARNED_ROTATION) continue;

        bool room = def->nx - i >= 4;
        for (uint32_t k = 1; k < 4 && room; k++) room = input_mode(def, i + k) == NS_LEARNED_HIDE;
        if (!room) {
            status = nsi_fail(error, NS_ERR_ARGUMENT,
                              "def.state_input[%u] is a rotation: three states must follow that are"
                              " NS_LEARNED_HIDE",
                              i);
        }
    }

    // An LSTM has its memory to read, a feed-forward network needs an input.
    if (status == NS_OK && def->kind == NS_LEARNED_FEEDFORWARD && input_count(def) == 0) {
        status = nsi_fail(error, NS_ERR_ARGUMENT,
                          "def.state_input hides all states and there are no controls: the network"
                          " has no input");
    }
    return status;
}

// Motions are of states of their own; their velocities are not.
static ns_status check_motions(const ns_learned_def* def, ns_error* error) {
    ns_status status = check_learned_list("motions", def->motions, def->nmotion, def->nx, error);
    for (uint32_t k = 0; k < def->nmotion && status == NS_OK; k++) {
        const ns_learned_motion* m = &def->motions[k];
        uint32_t size = motion_size(m), rates = m->rotation ? 3 : 1;
        bool good = m->state < def->nx && def->nx - m->state >= size && m->velocity < def->nx &&
                    def->nx - m->velocity >= rates;
        for (uint32_t i = 0; i < size && good; i++) good = motion_of(def, m->state + i) == m;
        for (uint32_t i = 0; i < rates && good; i++) good = !motion_of(def, m->velocity + i);
        if (good) continue;
        status = nsi_fail(error, NS_ERR_ARGUMENT,
                          "def.motions[%u]: states %u and %u are none, or belong to another motion",
                          k, m->state, m->velocity);
    }
    return status;
}

static ns_status check_def(const ns_learned_def* def, ns_error* error) {
    if (!ns_choice_has(&ns_learned_kinds, (int)def->kind)) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "def.kind is %d, which is none", (int)def->kind);
    }

    // Sizes, names and what the network sees.
    ns_status status = check_learned_size("nx", def->nx, 1, error);
    if (status == NS_OK) status = check_learned_size("nc", def->nc, 0, error);
    if (status == NS_OK)
        status = check_learned_names("state_names", def->state_names, def->nx, error);
    if (status == NS_OK)
        status = check_learned_names("control_names", def->control_names, def->nc, error);
    if (status == NS_OK) status = check_learned_layers(def, error);
    if (status == NS_OK) status = check_inputs(def, error);
    if (status == NS_OK) status = check_motions(def, error);

    // Shifts and scales: none, one for all, or one each.
    const struct {
        const char* field;
        const double* list;
        uint32_t count, most;
        bool positive;
    } lists[] = {{"state_shift", def->state_shift, def->nstate_shift, def->nx, false},
                 {"state_scale", def->state_scale, def->nstate_scale, def->nx, true},
                 {"control_shift", def->control_shift, def->ncontrol_shift, def->nc, false},
                 {"control_scale", def->control_scale, def->ncontrol_scale, def->nc, true},
                 {"output_scale", def->output_scale, def->noutput_scale, def->nx, true}};
    for (size_t k = 0; k < sizeof lists / sizeof *lists && status == NS_OK; k++) {
        status = check_learned_numbers(lists[k].field, lists[k].list, lists[k].count, lists[k].most,
                                       lists[k].positive, error);
    }

    // Single numbers.
    if (status == NS_OK) status = check_learned_number("timestep", def->timestep, false, error);
    if (status == NS_OK) status = check_learned_number("init_scale", def->init_scale, true, error);
    if (status == NS_OK)
        status = check_learned_number("init_last_scale", def->init_last_scale, true, error);
    return status;
}

// ---- weights -------------------------------------------------------------------------------

// The feed-forward network without its scales, which are applied here.
static ns_network_def plain_network(const ns_learned_def* def) {
    ns_network_def network = ns_default_network_def();
    network.name = "dynamics";
    network.hidden = def->hidden;
    network.nhidden = def->nhidden;
    network.activation = def->activation;
    network.init_scale = def->init_scale;
    network.init_last_scale = def->init_last_scale;
    network.seed = def->seed;
    return network;
}

// One matrix more, behind those that are there.
static void add_matrix(ns_system* s, uint32_t* number, const char* set, uint32_t layer,
                       uint64_t inputs, uint64_t outputs) {
    ns_weight_matrix* m = &s->matrices[*number];
    const ns_weight_matrix* last = *number > 0 ? m - 1 : NULL;
    *m = (ns_weight_matrix){.set = set,
                            .layer = layer,
                            .offset = last ? last->offset + last->rows * last->columns : 0,
                            .rows = (uint32_t)inputs + 1,
                            .columns = (uint32_t)outputs,
                            .bias = true};
    (*number)++;
}

static uint64_t weight_count(const ns_learned_def* def) {
    uint64_t count = 0, inputs = input_count(def);
    uint64_t gates = def->kind == NS_LEARNED_LSTM ? 4 : 1, old = def->kind == NS_LEARNED_LSTM;
    for (uint32_t k = 0; k < def->nhidden; k++) {
        uint64_t width = def->hidden[k];
        count += (inputs + old * width + 1) * gates * width;
        inputs = width;
    }
    return count + (inputs + 1) * learned_output_count(def);
}

// N(0, scale^2 / fan_in) in all rows but the last, the biases.
static void random_matrix(ns_rng* rng, const ns_weight_matrix* m, double scale, double* weights) {
    double* w = weights + m->offset;
    uint32_t fan_in = m->rows - 1, count = fan_in * m->columns;
    for (uint32_t i = 0; i < count; i++) w[i] = scale / sqrt(fan_in) * ns_rng_normal(rng);
}

static ns_status make_weights(const ns_learned_def* def, ns_system* s, ns_error* error) {
    uint64_t count = weight_count(def);
    if (count > NSI_BLUEPRINT_MAX_WEIGHTS) {
        return nsi_fail(error, NS_ERR_LIMIT, "def.hidden: %llu weights are more than %d",
                        (unsigned long long)count, NSI_BLUEPRINT_MAX_WEIGHTS);
    }

    bool lstm = def->kind == NS_LEARNED_LSTM;
    uint32_t inputs = input_count(def), noutput = learned_output_count(def), n = 0;
    ns_status status =
        nsi_system_alloc_weights(s, lstm ? 2 : 1, def->nhidden + 1, (uint32_t)count, error);
    if (status != NS_OK) return status;
    s->sizes.nw = (uint32_t)count;

    // Feed-forward: all layers in one array.
    if (!lstm) {
        s->arrays[0] = (nsi_weight_array){"dynamics", 0, (uint32_t)count};
        for (uint32_t k = 0; k <= def->nhidden; k++) {
            uint32_t outputs = k < def->nhidden ? def->hidden[k] : noutput;
            add_matrix(s, &n, "dynamics", k, k > 0 ? def->hidden[k - 1] : inputs, outputs);
        }
        ns_network_def network = plain_network(def);
        nsi_network_init(&network, inputs, noutput, 0, s->weights);
        return NS_OK;
    }

    // LSTM: the four gates of a layer side by side, then a linear readout in an array of its own.
    for (uint32_t k = 0; k < def->nhidden; k++) {
        uint64_t width = def->hidden[k];
        add_matrix(s, &n, "lstm", k, (k > 0 ? def->hidden[k - 1] : inputs) + width, 4 * width);
    }
    add_matrix(s, &n, "readout", 0, def->hidden[def->nhidden - 1], noutput);
    const ns_weight_matrix* readout = &s->matrices[n - 1];
    s->arrays[0] = (nsi_weight_array){"lstm", 0, readout->offset};
    s->arrays[1] = (nsi_weight_array){"readout", readout->offset, readout->rows * readout->columns};

    // Forget gates start open, so that gradients reach far back.
    ns_rng rng = ns_rng_seed(def->seed);
    for (uint32_t k = 0; k < def->nhidden; k++) {
        const ns_weight_matrix* m = &s->matrices[k];
        uint32_t width = def->hidden[k];
        random_matrix(&rng, m, def->init_scale, s->weights);
        double* bias = s->weights + m->offset + (size_t)(m->rows - 1) * m->columns;
        for (uint32_t i = 0; i < width; i++) bias[width + i] = FORGET_BIAS;
    }
    random_matrix(&rng, readout, def->init_scale * def->init_last_scale, s->weights);
    return NS_OK;
}

// ---- the step ------------------------------------------------------------------------------

typedef struct learner {
    const ns_learned_def* def;
    const ns_system* system;
    ns_graph* graph;
    ns_array arrays[2];
    uint32_t nin, nout;
    ns_expr *x, *c;    // inputs: states and controls of the definition
    ns_expr *h, *cell; // inputs: what LSTM layers keep, one layer after the other
    ns_expr* u;        // (nin) what the network gets
    ns_expr* y;        // (nout) what it gives
    ns_expr* next;     // (nx) the next state
    ns_expr *new_h, *new_cell;
} learner;

static ns_expr* expressions(const learner* l, uint64_t count) {
    ns_expr* list = nsi_arena_alloc(&l->graph->arena, (size_t)(count + 1) * sizeof *list);
    if (!list) nsi_graph_fail_nomem(l->graph);
    return list;
}

// Numbers that LSTM layers keep: half of them are h, half c.
static uint32_t kept_count(const ns_learned_def* def) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < def->nhidden && def->kind == NS_LEARNED_LSTM; k++) {
        count += def->hidden[k];
    }
    return count;
}

static bool make_learner_room(learner* l) {
    uint32_t kept = kept_count(l->def);
    l->nin = input_count(l->def);
    l->x = expressions(l, l->def->nx);
    l->c = expressions(l, l->def->nc);
    l->h = expressions(l, kept);
    l->cell = expressions(l, kept);
    l->u = expressions(l, l->nin);
    l->nout = learned_output_count(l->def);
    l->y = expressions(l, l->nout);
    l->next = expressions(l, l->def->nx);
    l->new_h = expressions(l, kept);
    l->new_cell = expressions(l, kept);
    return l->graph->error.status == NS_OK;
}

static const char* port_name(const char* const* names, const char* prefix, uint32_t i,
                             char text[32]) {
    if (names) return names[i];
    snprintf(text, 32, "%s%u", prefix, i);
    return text;
}

// Each of the kept numbers by its name: an input, or an output.
static void put_kept(const learner* l, bool output) {
    char name[32];
    uint32_t first = 0;
    for (uint32_t k = 0; l->def->kind == NS_LEARNED_LSTM && k < l->def->nhidden; k++) {
        for (uint32_t half = 0; half < 2; half++) {
            ns_expr* in = (half == 0 ? l->h : l->cell) + first;
            const ns_expr* out = (half == 0 ? l->new_h : l->new_cell) + first;
            for (uint32_t i = 0; i < l->def->hidden[k]; i++) {
                snprintf(name, sizeof name, "%c%u/%u", "hc"[half], k, i);
                if (output) {
                    ns_output(name, out[i]);
                } else {
                    in[i] = ns_input(name);
                }
            }
        }
        first += l->def->hidden[k];
    }
}

static void make_learned_inputs(learner* l) {
    const ns_learned_def* def = l->def;
    char text[32];
    for (uint32_t i = 0; i < def->nx; i++) {
        l->x[i] = ns_input(port_name(def->state_names, "x", i, text));
    }
    put_kept(l, false);
    for (uint32_t i = 0; i < def->nc; i++) {
        l->c[i] = ns_input(port_name(def->control_names, "c", i, text));
    }
    for (uint32_t k = 0; k < l->system->narray; k++) {
        snprintf(text, sizeof text, "net/%s", l->system->arrays[k].name);
        l->arrays[k] = ns_input_array(text, l->system->arrays[k].count, false);
    }
}

static ns_expr normalised(ns_expr x, double shift, double scale) {
    return ns_div(ns_sub(x, ns_const(shift)), ns_const(scale));
}

static quat state_quaternion(const ns_expr* q) {
    return (quat){q[0], q[1], q[2], q[3]};
}

static void see(learner* l) {
    const ns_learned_def* def = l->def;
    uint32_t n = 0;

    // States as the network sees them; angles and rotations without their jumps.
    for (uint32_t i = 0; i < def->nx; i++) {
        switch (input_mode(def, i)) {
        case NS_LEARNED_RAW:
            l->u[n++] =
                normalised(l->x[i], list_element(def->state_shift, def->nstate_shift, i, 0.0),
                           state_scale(def, i));
            break;
        case NS_LEARNED_ANGLE:
            l->u[n++] = ns_sin(l->x[i]);
            l->u[n++] = ns_cos(l->x[i]);
            break;
        case NS_LEARNED_HIDE: break;
        case NS_LEARNED_ROTATION: {
            mat3 r = m3_from_quat(state_quaternion(l->x + i));
            for (int k = 0; k < 9; k++) l->u[n++] = r.e[k / 3][k % 3];
            break;
        }
        }
    }

    // Controls behind them.
    for (uint32_t i = 0; i < def->nc; i++) {
        l->u[n++] =
            normalised(l->c[i], list_element(def->control_shift, def->ncontrol_shift, i, 0.0),
                       list_element(def->control_scale, def->ncontrol_scale, i, 1.0));
    }
}

// One LSTM layer: new h and c (width) from inputs, and old h and c.
static void trace_cell(const learner* l, ns_array weights, uint32_t nin, const ns_expr* inputs,
                       uint32_t width, const ns_expr* h, const ns_expr* c, ns_expr* new_h,
                       ns_expr* new_c) {
    ns_expr *in = expressions(l, (uint64_t)nin + width), *sum = expressions(l, 4 * (uint64_t)width);
    if (l->graph->error.status != NS_OK) return;
    memcpy(in, inputs, nin * sizeof *in);
    memcpy(in + nin, h, width * sizeof *in);
    ns_dense_layer(weights, nin + width, in, 4 * width, NS_IDENTITY, sum);
    for (uint32_t i = 0; i < width; i++) {
        ns_expr write = ns_activate(NS_SIGMOID, sum[i]);
        ns_expr keep = ns_activate(NS_SIGMOID, sum[width + i]);
        ns_expr value = ns_tanh(sum[2 * width + i]);
        ns_expr show = ns_activate(NS_SIGMOID, sum[3 * width + i]);
        new_c[i] = ns_add(ns_mul(keep, c[i]), ns_mul(write, value));
        new_h[i] = ns_mul(show, ns_tanh(new_c[i]));
    }
}

static void trace_lstm(const learner* l) {
    const ns_learned_def* def = l->def;
    const ns_expr* inputs = l->u;
    uint32_t nin = l->nin, first = 0;
    for (uint32_t k = 0; k < def->nhidden; k++) {
        const ns_weight_matrix* m = &l->system->matrices[k];
        trace_cell(l, ns_array_slice(l->arrays[0], m->offset, m->rows * m->columns), nin, inputs,
                   def->hidden[k], l->h + first, l->cell + first, l->new_h + first,
                   l->new_cell + first);
        inputs = l->new_h + first;
        nin = def->hidden[k];
        first += nin;
    }
    ns_dense_layer(l->arrays[1], nin, inputs, l->nout, NS_IDENTITY, l->y);
}

// States that follow from velocities, once those are known; as semi-implicit Euler does it.
static void move(const learner* l) {
    ns_expr dt = ns_const(l->def->timestep);
    for (uint32_t k = 0; k < l->def->nmotion; k++) {
        const ns_learned_motion* m = &l->def->motions[k];
        const ns_expr *x = l->x + m->state, *rate = l->next + m->velocity;
        ns_expr* to = l->next + m->state;
        if (m->rotation) {
            vec3 turn = v3_scale(dt, v3(rate[0], rate[1], rate[2]));
            quat q = q_normalize(q_mul(state_quaternion(x), q_exp(turn)));
            to[0] = q.w, to[1] = q.x, to[2] = q.y, to[3] = q.z;
        } else {
            to[0] = ns_add(x[0], ns_mul(dt, rate[0]));
        }
    }
}

static void trace_learned_step(learner* l) {
    const ns_learned_def* def = l->def;
    see(l);
    if (def->kind == NS_LEARNED_LSTM) {
        trace_lstm(l);
    } else {
        ns_network_def network = plain_network(def);
        nsi_network_trace(&network, l->arrays[0], l->nin, l->u, l->nout, NULL, l->y, NULL);
    }
    char text[32], quantity[NSI_BLUEPRINT_MAX_NAME + 32];
    for (uint32_t i = 0, n = 0; i < def->nx; i++) {
        if (motion_of(def, i)) continue;
        const char* name = port_name(def->state_names, "x", i, text);
        double scale = list_element(def->output_scale, def->noutput_scale, i, state_scale(def, i));
        double shift = list_element(def->state_shift, def->nstate_shift, i, 0.0);
        snprintf(quantity, sizeof quantity, "output/%s", name);
        nsi_trace_observe(quantity, "", l->y[n]); // what a message about infinite numbers can name
        l->next[i] =
            ns_add(def->increment ? l->x[i] : ns_const(shift), ns_mul(ns_const(scale), l->y[n++]));
    }
    move(l);
    for (uint32_t i = 0; i < def->nx; i++) {
        ns_output(port_name(def->state_names, "x", i, text), l->next[i]);
    }
    put_kept(l, true);
}

static ns_status trace_learned(const ns_learned_def* def, ns_system* s, ns_error* error) {
    learner l = {.def = def, .system = s};
    ns_status status = ns_graph_create(&s->allocator, &l.graph, error);
    if (status == NS_OK) status = ns_trace_begin(l.graph, error);
    if (status != NS_OK) {
        ns_graph_free(l.graph);
        return status;
    }
    if (make_learner_room(&l)) {
        make_learned_inputs(&l);
        trace_learned_step(&l);
    }
    ns_trace_end(NULL);
    s->graph = l.graph;
    return nsi_graph_finish(&s->graph, error);
}

ns_status ns_system_create_learned(const ns_learned_def* def, const ns_allocator* allocator,
                                   ns_backend backend, ns_system** out, ns_error* error) {
    *out = NULL;
    if (!def) return nsi_fail(error, NS_ERR_ARGUMENT, "ns_system_create_learned: def is NULL");
    ns_status status = check_def(def, error);
    if (status != NS_OK) return status;
    ns_system* s = nsi_alloc_zeroed(allocator, sizeof *s);
    if (!s) return nsi_fail_nomem(error);
    s->allocator = allocator ? *allocator : ns_default_allocator();
    s->sizes = (ns_system_sizes){
        .nx = def->nx + 2 * kept_count(def), .nc = def->nc, .timestep = def->timestep};
    status = make_weights(def, s, error);
    if (status == NS_OK) status = trace_learned(def, s, error);
    if (status == NS_OK) status = nsi_system_build(s, backend, error);
    if (status != NS_OK) {
        ns_system_free(s);
        return status;
    }
    *out = s;
    return NS_OK;
}
