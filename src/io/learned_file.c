// Learned systems in files: reading.

#include "io/learned_file.h"

#include "io/utf8.h"

#include <float.h>
#include <math.h>

static const char shared_keys[] = "kind hidden increment integrate hide angle activation init seed";
static const char all_keys[] =
    "kind hidden increment integrate hide angle activation init seed"
    " controls state_shift state_scale control_shift control_scale output_scale";

nsi_learned nsi_default_learned(void) {
    ns_learned_def def = ns_default_learned_def();
    return (nsi_learned){.kind = def.kind,
                         .activation = def.activation,
                         .init_scale = def.init_scale,
                         .init_last_scale = def.init_last_scale,
                         .seed = def.seed};
}

// ---- reading -----------------------------------------------------------------------------------

typedef struct reader {
    const nsi_yaml* yaml;
    const nsi_yaml_node* map;
    nsi_arena* arena;
    ns_error* error;
    ns_status status; // the first failure
} reader;

static const nsi_yaml_node* find(const reader* r, const char* key) {
    return nsi_yaml_find(r->map, key);
}

// A list with at most `most` items; NULL: it is not there, or something failed.
static const nsi_yaml_node* read_list(reader* r, const char* key, uint32_t most) {
    const nsi_yaml_node* list = find(r, key);
    if (!list || r->status != NS_OK) return NULL;
    r->status = nsi_yaml_check_list(r->yaml, list, r->error);
    if (r->status == NS_OK && list->count > most) {
        r->status =
            nsi_yaml_fail_limit(r->yaml, list, r->error, "%s: more than %u of them", key, most);
    }
    return r->status == NS_OK ? list : NULL;
}

static void read_names(reader* r, const char* key, nsi_names* out) {
    const nsi_yaml_node* list = read_list(r, key, NSI_LEARNED_MAX_NUMBERS);
    if (!list) return;
    out->data = nsi_arena_alloc(r->arena, ((size_t)list->count + 1) * sizeof *out->data);
    if (!out->data) r->status = nsi_fail_nomem(r->error);
    for (const nsi_yaml_node* n = list->first; n && r->status == NS_OK; n = n->next) {
        const char* text = NULL;
        r->status = nsi_yaml_text(r->yaml, n, &text, r->error);
        if (r->status != NS_OK) return;
        out->data[out->count] = nsi_arena_string(r->arena, text, strlen(text));
        if (!out->data[out->count]) r->status = nsi_fail_nomem(r->error);
        out->count++;
    }
}

static void read_numbers(reader* r, const char* key, double lower, nsi_numbers_list* out) {
    const nsi_yaml_node* list = read_list(r, key, NSI_LEARNED_MAX_NUMBERS);
    if (!list) return;
    out->data = nsi_arena_alloc(r->arena, ((size_t)list->count + 1) * sizeof *out->data);
    if (!out->data) r->status = nsi_fail_nomem(r->error);
    for (const nsi_yaml_node* n = list->first; n && r->status == NS_OK; n = n->next) {
        r->status =
            nsi_yaml_number(r->yaml, n, lower, INFINITY, &out->data[out->count++], r->error);
    }
}

static void read_layers(reader* r, nsi_learned* out) {
    const nsi_yaml_node* list = read_list(r, "hidden", NSI_LEARNED_MAX_LAYERS);
    for (const nsi_yaml_node* n = list ? list->first : NULL; n && r->status == NS_OK; n = n->next) {
        r->status = nsi_yaml_count(r->yaml, n, 1, NSI_LEARNED_MAX_NUMBERS,
                                   &out->hidden[out->nhidden++], r->error);
    }
    const nsi_yaml_node* activation = find(r, "activation");
    int word = (int)out->activation;
    if (r->status == NS_OK) {
        r->status = nsi_yaml_choice(r->yaml, activation, &ns_activations, &word, r->error);
    }
    out->activation = (ns_activation)word;
    bool lstm = out->kind == NS_LEARNED_LSTM;
    if (r->status == NS_OK && lstm && out->nhidden == 0) {
        r->status = nsi_yaml_fail(r->yaml, list ? list : r->map, r->error,
                                  "an lstm needs the widths of its layers: hidden: [16]");
    }
    if (r->status == NS_OK && lstm && out->activation != NS_TANH) {
        r->status = nsi_yaml_fail(r->yaml, activation, r->error,
                                  "activation: that of an lstm is tanh; leave it out");
    }
}

static void read_init(reader* r, nsi_learned* out) {
    const nsi_yaml_node* init = find(r, "init");
    if (init && r->status == NS_OK) {
        r->status = nsi_yaml_check_map(r->yaml, init, "init", "scale last", r->error);
    }
    if (init && r->status == NS_OK) {
        r->status = nsi_yaml_number(r->yaml, nsi_yaml_find(init, "scale"), 0.0, 1e9,
                                    &out->init_scale, r->error);
    }
    if (init && r->status == NS_OK) {
        r->status = nsi_yaml_number(r->yaml, nsi_yaml_find(init, "last"), 0.0, 1e9,
                                    &out->init_last_scale, r->error);
    }
    if (r->status == NS_OK) {
        r->status = nsi_yaml_whole(r->yaml, find(r, "seed"), 0, UINT64_MAX, &out->seed, r->error);
    }
}

ns_status nsi_learned_read(const nsi_yaml* yaml, const nsi_yaml_node* node, bool found,
                           nsi_arena* arena, nsi_learned* out, ns_error* error) {
    reader r = {.yaml = yaml, .map = node, .arena = arena, .error = error};
    *out = nsi_default_learned();
    if (node->type != NSI_YAML_MAP) {
        return nsi_yaml_fail(yaml, node, error,
                             "learned: must be a mapping such as {kind: lstm, hidden: [16]}");
    }
    r.status =
        nsi_yaml_check_map(yaml, node, "a learned system", found ? all_keys : shared_keys, error);
    if (r.status == NS_OK && !find(&r, "kind")) {
        r.status = nsi_yaml_fail(yaml, node, error,
                                 "learned: its kind is missing; give feedforward or lstm");
    }
    int kind = 0;
    if (r.status == NS_OK)
        r.status = nsi_yaml_choice(yaml, find(&r, "kind"), &ns_learned_kinds, &kind, error);
    out->kind = (ns_learned_kind)kind;
    read_layers(&r, out);
    if (r.status == NS_OK) {
        r.status = nsi_yaml_flag(yaml, find(&r, "increment"), &out->increment, error);
    }
    if (r.status == NS_OK) {
        r.status = nsi_yaml_flag(yaml, find(&r, "integrate"), &out->integrate, error);
    }
    read_names(&r, "hide", &out->hide);
    read_names(&r, "angle", &out->angle);
    read_init(&r, out);
    if (!found) return r.status;
    read_names(&r, "controls", &out->controls);
    read_numbers(&r, "state_shift", -INFINITY, &out->state_shift);
    read_numbers(&r, "state_scale", DBL_MIN, &out->state_scale);
    read_numbers(&r, "control_shift", -INFINITY, &out->control_shift);
    read_numbers(&r, "control_scale", DBL_MIN, &out->control_scale);
    read_numbers(&r, "output_scale", DBL_MIN, &out->output_scale);
    return r.status;
}

// ---- checking ----------------------------------------------------------------------------------

static ns_status check_names(const char* key, const nsi_names* names, ns_error* error) {
    if (names->count > NSI_LEARNED_MAX_NUMBERS) {
        return nsi_fail(error, NS_ERR_LIMIT, "learned: more than %d %s", NSI_LEARNED_MAX_NUMBERS,
                        key);
    }
    for (uint32_t k = 0; k < names->count; k++) {
        const char* name = names->data[k];
        const char* fault = !name || !*name ? "is empty" : nsi_line_fault(name, strlen(name));
        if (fault) return nsi_fail(error, NS_ERR_ARGUMENT, "learned: a name of %s %s", key, fault);
    }
    return NS_OK;
}

static ns_status check_numbers(const char* key, const nsi_numbers_list* numbers, bool positive,
                               ns_error* error) {
    bool good = numbers->count <= NSI_LEARNED_MAX_NUMBERS;
    for (uint32_t k = 0; good && k < numbers->count; k++) {
        good = isfinite(numbers->data[k]) && (!positive || numbers->data[k] >= DBL_MIN);
    }
    return good ? NS_OK
                : nsi_fail(error, NS_ERR_ARGUMENT, "learned: %s must be finite%s, and at most %d",
                           key, positive ? " and positive" : "", NSI_LEARNED_MAX_NUMBERS);
}

ns_status nsi_learned_check(const nsi_learned* l, ns_error* error) {
    bool lstm = l->kind == NS_LEARNED_LSTM;
    bool layers = l->nhidden <= NSI_LEARNED_MAX_LAYERS && !(lstm && l->nhidden == 0);
    for (uint32_t k = 0; layers && k < l->nhidden; k++) {
        layers = l->hidden[k] > 0 && l->hidden[k] <= NSI_LEARNED_MAX_NUMBERS;
    }
    if (!ns_choice_has(&ns_learned_kinds, (int)l->kind) || !layers ||
        !ns_activation_name(l->activation) || (lstm && l->activation != NS_TANH)) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "learned: there is no such network");
    }
    double scales[] = {l->init_scale, l->init_last_scale};
    for (int k = 0; k < 2; k++) {
        if (scales[k] >= 0.0 && scales[k] <= 1e9) continue;
        return nsi_fail(error, NS_ERR_ARGUMENT, "learned: init is out of its range");
    }
    ns_status status = check_names("hide", &l->hide, error);
    if (status == NS_OK) status = check_names("angle", &l->angle, error);
    if (status == NS_OK) status = check_names("controls", &l->controls, error);
    if (status == NS_OK) status = check_numbers("state_shift", &l->state_shift, false, error);
    if (status == NS_OK) status = check_numbers("state_scale", &l->state_scale, true, error);
    if (status == NS_OK) status = check_numbers("control_shift", &l->control_shift, false, error);
    if (status == NS_OK) status = check_numbers("control_scale", &l->control_scale, true, error);
    if (status == NS_OK) status = check_numbers("output_scale", &l->output_scale, true, error);
    return status;
}
