// What one instance of a network or formula reads and writes: outputs, inputs with their lags, the
// velocities along which its forces act. Checks order and sizes.

#include "nn/binding_state.h"

#include <stdio.h>

// ---- outputs ---------------------------------------------------------------------------------

static bool may_move(const nsi_binder* p, uint32_t name) {
    return !p->affects_state || p->affects_state[name];
}

ns_status nsi_binder_applies(nsi_binder* p, bool* exists, bool* acts) {
    const ns_network_def* def = nsi_binder_definition(p);
    *exists = *acts = false;
    for (uint32_t i = 0; i < def->noutput && !*acts; i++) {
        ns_status status = nsi_binder_expand(p, def->outputs[i], NSI_FIELD_OUTPUTS, i);
        if (status != NS_OK) return status;
        *exists = *exists || p->found.count > 0;
        for (uint32_t k = 0; k < p->found.count; k++) {
            *acts = *acts || may_move(p, p->found.data[k]);
        }
    }
    return NS_OK;
}

// The part becomes the owner of a name.
static ns_status take_output(nsi_binder* p, uint32_t item, uint32_t name) {
    uint32_t owner = p->owner[name];
    if (!may_move(p, name)) {
        return nsi_binder_fail(
            p, NS_ERR_ARGUMENT, NSI_FIELD_OUTPUTS, item,
            "nothing in the step depends on \"%.150s\", so that a %s there has no"
            " effect",
            p->names[name], nsi_binder_formula(p) ? "formula" : "network");
    }
    if (owner != NSI_NONE) {
        char other[80];
        return nsi_binder_fail(
            p, NS_ERR_ARGUMENT, NSI_FIELD_OUTPUTS, item,
            "\"%.150s\" is an output of %s already; a quantity has one network or"
            " formula at most",
            p->names[name], nsi_binder_part_name(p->blueprint, owner, other));
    }
    p->owner[name] = p->part;
    return NS_OK;
}

ns_status nsi_binder_take_outputs(nsi_binder* p) {
    const ns_network_def* def = nsi_binder_definition(p);
    p->outputs.count = 0;
    ns_status status = NS_OK;
    for (uint32_t i = 0; i < def->noutput && status == NS_OK; i++) {
        uint32_t k = p->outputs.count;
        status = nsi_binder_expand_onto(p, def->outputs[i], NSI_FIELD_OUTPUTS, i, &p->outputs);
        for (; k < p->outputs.count && status == NS_OK; k++) {
            status = take_output(p, i, p->outputs.data[k]);
        }
    }
    return status;
}

static uint32_t earliest_output(const nsi_binder* p) {
    uint32_t earliest = p->outputs.data[0];
    for (uint32_t i = 1; i < p->outputs.count; i++) {
        if (p->outputs.data[i] < earliest) earliest = p->outputs.data[i];
    }
    return earliest;
}

// ---- inputs ----------------------------------------------------------------------------------

static ns_status take_input(nsi_binder* p, uint32_t item, uint32_t earliest) {
    uint32_t first, last;
    const char* template = nsi_input_lags(nsi_binder_definition(p)->inputs[item], &first, &last);
    ns_status status = nsi_binder_expand(p, template, NSI_FIELD_INPUTS, item);
    if (status != NS_OK) return status;
    if (p->found.count == 0) return nsi_binder_fail_missing(p, NSI_FIELD_INPUTS, item, p->text);
    status = nsi_binder_check_count(
        p, NSI_FIELD_INPUTS, item, p->inputs.count + (uint64_t)p->found.count * (last - first + 1));
    if (status != NS_OK) return status;
    for (uint32_t k = 0; k < p->found.count; k++) {
        uint32_t name = p->found.data[k];
        if (p->is_diagnostic && p->is_diagnostic[name]) {
            return nsi_binder_fail(p, NS_ERR_ARGUMENT, NSI_FIELD_INPUTS, item,
                                   "\"%.120s\" is a diagnostic of the solver, which has no"
                                   " derivative; observe it instead",
                                   p->names[name]);
        }
        if (last == 0 && !p->causality && name >= earliest) {
            return nsi_binder_fail(
                p, NS_ERR_ARGUMENT, NSI_FIELD_INPUTS, item,
                "\"%.120s\" is not computed before the output \"%.120s\"; prev: takes"
                " the value of the step before",
                p->names[name], p->names[earliest]);
        }
        for (uint32_t lag = first; lag <= last; lag++) {
            nsi_lagged_name input = {name, lag, item};
            if (!nsi_array_push(&p->allocator, &p->inputs, input)) return nsi_binder_fail_nomem(p);
        }
        if (p->depth[name] < last) p->depth[name] = last;
    }
    return NS_OK;
}

ns_status nsi_binder_take_inputs(nsi_binder* p) {
    uint32_t earliest = earliest_output(p);
    p->inputs.count = 0;
    ns_status status = NS_OK;
    for (uint32_t i = 0; i < nsi_binder_definition(p)->ninput && status == NS_OK; i++) {
        status = take_input(p, i, earliest);
    }
    if (status != NS_OK) return status;
    p->ninput += p->inputs.count;
    if (p->ninput > NSI_BINDER_MAX_INPUTS) {
        return nsi_binder_fail(p, NS_ERR_LIMIT, NSI_FIELD_INPUTS, NSI_NONE,
                               "all networks and formulas together have more than %d inputs",
                               NSI_BINDER_MAX_INPUTS);
    }
    return NS_OK;
}

// ---- velocities ------------------------------------------------------------------------------

ns_status nsi_binder_take_conjugate(nsi_binder* p) {
    const ns_network_def* def = nsi_binder_definition(p);
    p->conjugate.count = 0;
    if (!(def->structure & NS_STRUCTURE_DISSIPATIVE)) return NS_OK;

    // Velocities that are given, one for each output.
    if (def->conjugate) {
        for (uint32_t i = 0; i < def->noutput; i++) {
            ns_status status =
                nsi_binder_expand_onto(p, def->conjugate[i], NSI_FIELD_CONJUGATE, i, &p->conjugate);
            if (status != NS_OK) return status;
        }
        if (p->conjugate.count != p->outputs.count) {
            return nsi_binder_fail(
                p, NS_ERR_ARGUMENT, NSI_FIELD_CONJUGATE, NSI_NONE,
                "%u velocities for %u outputs; give one for each, in their order",
                p->conjugate.count, p->outputs.count);
        }
    }

    // Otherwise those that belong to the forces.
    for (uint32_t i = 0; i < p->outputs.count && !def->conjugate; i++) {
        const char* output = p->names[p->outputs.data[i]];
        const char* velocity = p->velocities ? p->velocities[p->outputs.data[i]] : NULL;
        if (!velocity) {
            return nsi_binder_fail(
                p, NS_ERR_ARGUMENT, NSI_FIELD_CONJUGATE, NSI_NONE,
                "which velocity belongs to the output \"%.150s\" is not known; give it", output);
        }
        uint32_t name = nsi_binder_find(p, velocity);
        if (name == NSI_NONE) {
            return nsi_binder_fail(
                p, NS_ERR_ARGUMENT, NSI_FIELD_CONJUGATE, NSI_NONE,
                "the velocity \"%.120s\" of the output \"%.120s\" does not exist here;"
                " give another",
                velocity, output);
        }
        if (!nsi_array_push(&p->allocator, &p->conjugate, name)) return nsi_binder_fail_nomem(p);
    }

    // The network needs them before its first output is due.
    uint32_t earliest = earliest_output(p);
    for (uint32_t i = 0; i < p->conjugate.count; i++) {
        if (p->causality || p->conjugate.data[i] < earliest) continue;
        return nsi_binder_fail(p, NS_ERR_ARGUMENT, NSI_FIELD_CONJUGATE, NSI_NONE,
                               "\"%.150s\" is not computed before the output \"%.150s\"",
                               p->names[p->conjugate.data[i]], p->names[earliest]);
    }
    return NS_OK;
}

// ---- causality -------------------------------------------------------------------------------

bool nsi_binder_mark_state(nsi_binder* p, nsi_network_instance* use) {
    uint8_t* at_state = nsi_arena_alloc(&p->out->arena, use->noutput);
    for (uint32_t k = 0; at_state && k < use->noutput; k++) {
        at_state[k] = p->is_state && p->is_state[p->outputs.data[k]];
        use->at_state = use->at_state || at_state[k];
    }
    use->output_at_state = at_state;
    return at_state != NULL;
}

// By number. Outputs at the state do not count: networks there read the state as it is given.
bool nsi_binder_note_causality(nsi_binder* p, const nsi_network_instance* use) {
    uint32_t count = p->inputs.count + p->conjugate.count;
    uint32_t* inputs = nsi_arena_alloc(&p->working, (count + 1) * sizeof *inputs);
    uint32_t* items = nsi_arena_alloc(&p->working, (count + 1) * sizeof *items);
    uint32_t* outputs = nsi_arena_alloc(&p->working, (use->noutput + 1) * sizeof *outputs);
    nsi_use_origin origin = {p->part, NULL, items};
    if (!inputs || !items || !outputs) return false;
    if (p->match) {
        origin.match = nsi_arena_string(&p->working, p->match, strlen(p->match));
        if (!origin.match) return false;
    }

    // Inputs of this step and velocities; what is kept from earlier steps closes no cycle.
    nsi_causal_use causal = {.inputs = inputs, .outputs = outputs};
    for (uint32_t k = 0; k < p->inputs.count; k++) {
        if (p->inputs.data[k].lag > 0) continue;
        items[causal.ninput] = p->inputs.data[k].item;
        inputs[causal.ninput++] = p->inputs.data[k].name;
    }
    for (uint32_t k = 0; k < p->conjugate.count; k++) {
        items[causal.ninput] = NSI_NONE;
        inputs[causal.ninput++] = p->conjugate.data[k];
    }
    for (uint32_t k = 0; k < use->noutput; k++) {
        if (!use->output_at_state[k]) outputs[causal.noutput++] = p->outputs.data[k];
    }
    return nsi_array_push(&p->allocator, &p->causal, causal) &&
           nsi_array_push(&p->allocator, &p->origins, origin);
}

ns_status nsi_binder_check_causality(nsi_binder* p) {
    nsi_causal_cycle cycle;
    if (!p->causality) return NS_OK;
    ns_status status =
        nsi_causality_check(p->causality, p->causal.count, p->causal.data, &cycle, p->error);
    if (status != NS_OK || cycle.use == NSI_NONE) return status;

    // The message is about the instance at hand: make it the one that closes the cycle.
    const nsi_use_origin* origin = &p->origins.data[cycle.use];
    uint32_t item = origin->items[cycle.input];
    bool conjugate = item == NSI_NONE;
    const char *input = p->names[cycle.reads], *output = p->names[cycle.output];
    p->part = origin->part;
    p->match = origin->match;

    // Velocities cannot be those of an earlier step, inputs can.
    char prev[200] = "";
    if (!conjugate) {
        snprintf(prev, sizeof prev, "; use \"prev:%.120s\", its value in the step before", input);
    }
    nsi_field field = conjugate ? NSI_FIELD_CONJUGATE : NSI_FIELD_INPUTS;
    if (cycle.reads == cycle.output) {
        return nsi_binder_fail(p, NS_ERR_ARGUMENT, field, item, "\"%.120s\" is an output%s", input,
                               prev);
    }
    bool others = strstr(cycle.path, " => ") != NULL;
    return nsi_binder_fail(p, NS_ERR_ARGUMENT, field, item,
                           "\"%.120s\" is computed from the output \"%.120s\": %s%s%s", input,
                           output, cycle.path, others ? " (=> is another network)" : "", prev);
}

// ---- sizes -----------------------------------------------------------------------------------

static ns_status check_scale(const nsi_binder* p, nsi_field field, uint32_t count, uint32_t needed,
                             const char* of) {
    if (count <= 1 || count == needed) return NS_OK;
    return nsi_binder_fail(p, NS_ERR_ARGUMENT, field, NSI_NONE,
                           "%u numbers for %u %s; give one for all, or one for each", count, needed,
                           of);
}

ns_status nsi_binder_check_sizes(const nsi_binder* p) {
    const ns_network_def* def = nsi_binder_definition(p);
    uint32_t nin = p->inputs.count, nout = p->outputs.count;

    // Scales: one for all, or one each.
    ns_status status = check_scale(p, NSI_FIELD_INPUT_SHIFT, def->ninput_shift, nin, "inputs");
    if (status == NS_OK) {
        status = check_scale(p, NSI_FIELD_INPUT_SCALE, def->ninput_scale, nin, "inputs");
    }
    if (status == NS_OK) {
        status = check_scale(p, NSI_FIELD_OUTPUT_SCALE, def->noutput_scale, nout, "outputs");
    }
    if (status == NS_OK) {
        status = check_scale(p, NSI_FIELD_CONJUGATE_SCALE, def->nconjugate_scale, nout, "outputs");
    }
    if (status != NS_OK) return status;

    // A conservative force is a gradient with respect to the inputs.
    if ((def->structure & NS_STRUCTURE_CONSERVATIVE) && nin != nout) {
        return nsi_binder_fail(p, NS_ERR_ARGUMENT, NSI_FIELD_STRUCTURE, NSI_NONE,
                               "conservative needs as many inputs as outputs, not %u and %u", nin,
                               nout);
    }

    // A dissipative force is a symmetric matrix times velocities.
    if ((def->structure & NS_STRUCTURE_DISSIPATIVE) &&
        (uint64_t)nout * (nout + 1) / 2 > NSI_BINDER_MAX_LAST_WIDTH) {
        return nsi_binder_fail(
            p, NS_ERR_LIMIT, NSI_FIELD_OUTPUTS, NSI_NONE,
            "%u are too many for the structure dissipative, which is learned as a"
            " matrix of at most %d numbers",
            nout, NSI_BINDER_MAX_LAST_WIDTH);
    }
    return NS_OK;
}
