// Learned systems in files: reading.

#include "io/learned_file.h"

#include "io/utf8.h"

#include <float.h>
#include <math.h>

nsi_learned nsi_default_learned(void) {
    ns_learned_def def = ns_default_learned_def();
    return (nsi_learned){.kind = def.kind,
                         .activation = def.activation,
                         .init_scale = def.init_scale,
                         .init_last_scale = def.init_last_scale,
                         .seed = def.seed};
}

// ---- reading -----------------------------------------------------------------------------------

static ns_status read_layers(nsi_schema_reader* r, const nsi_yaml_node* list, void* out) {
    nsi_learned* learned = out;
    ns_status status = nsi_yaml_check_list(r->yaml, list, r->error);
    if (status == NS_OK && list->count > NSI_LEARNED_MAX_LAYERS) {
        status = nsi_yaml_fail_limit(r->yaml, list, r->error, "hidden: more than %d of them",
                                     NSI_LEARNED_MAX_LAYERS);
    }
    for (const nsi_yaml_node* n = list->first; n && status == NS_OK; n = n->next) {
        status = nsi_yaml_count(r->yaml, n, 1, NSI_LEARNED_MAX_NUMBERS,
                                &learned->hidden[learned->nhidden++], r->error);
    }
    return status;
}

// What an LSTM needs, and has no choice of.
static ns_status check_learned(nsi_schema_reader* r, const nsi_yaml_node* map, void* out) {
    const nsi_learned* learned = out;
    const nsi_yaml_node* hidden = nsi_yaml_find(map, "hidden");
    bool lstm = learned->kind == NS_LEARNED_LSTM;
    if (lstm && learned->nhidden == 0) {
        return nsi_yaml_fail(r->yaml, hidden ? hidden : map, r->error,
                             "an lstm needs the widths of its layers: hidden: [16]");
    }
    if (lstm && learned->activation != NS_TANH) {
        return nsi_yaml_fail(r->yaml, nsi_yaml_find(map, "activation"), r->error,
                             "activation: that of an lstm is tanh; leave it out");
    }
    return NS_OK;
}

static const nsi_schema_key init_keys[] = {
    {"scale", NSI_KEY_NUMBER, offsetof(nsi_learned, init_scale), 0.0, 1e9, .fallback = "1",
     .help = "of initial weights"},
    {"last", NSI_KEY_NUMBER, offsetof(nsi_learned, init_last_scale), 0.0, 1e9, .fallback = "0.1",
     .help = "in addition, of the last layer"},
};
const nsi_schema nsi_learned_init_schema = NSI_SCHEMA("init", init_keys, NULL);

#define LEARNED_KEYS                                                                               \
    {"kind",                                                                                       \
     NSI_KEY_CHOICE,                                                                               \
     offsetof(nsi_learned, kind),                                                                  \
     .choices = &ns_learned_kinds,                                                                 \
     .required = true,                                                                             \
     .help = "the step: layers without memory, or with it "                                        \
             "([equations](../include/neuralsim/learned.h))"},                                     \
        {"hidden",                                                                                 \
         NSI_KEY_OTHER,                                                                            \
         .read = read_layers,                                                                      \
         .values = "list of whole numbers",                                                        \
         .fallback = "(a linear map)",                                                             \
         .help = "widths of hidden layers, or of LSTM layers"},                                    \
        {"increment", NSI_KEY_FLAG, offsetof(nsi_learned, increment), .fallback = "false",         \
         .help = "the network gives the change of the state, otherwise the next state"},           \
        {"integrate", NSI_KEY_FLAG, offsetof(nsi_learned, integrate), .fallback = "false",         \
         .help = "the network gives velocities only, and coordinates follow from them as in a"     \
                 " step of the simulator; needed for floating bases and ball joints. Not with"     \
                 " `teacher_forcing`"},                                                            \
        {"hide",                                                                                   \
         NSI_KEY_TEXTS,                                                                            \
         offsetof(nsi_learned, hide),                                                              \
         .most = NSI_LEARNED_MAX_NUMBERS,                                                          \
         .values = "list of joints",                                                               \
         .help = "whose coordinate the network does not see; of a floating joint `root` also"      \
                 " `root/x`, `root/y`, `root/z` and `root/rotation`"},                             \
        {"angle",                                                                                  \
         NSI_KEY_TEXTS,                                                                            \
         offsetof(nsi_learned, angle),                                                             \
         .most = NSI_LEARNED_MAX_NUMBERS,                                                          \
         .values = "list of joints",                                                               \
         .help = "whose coordinate it sees as sine and cosine"},                                   \
        {"activation",                                                                             \
         NSI_KEY_CHOICE,                                                                           \
         offsetof(nsi_learned, activation),                                                        \
         .choices = &ns_activations,                                                               \
         .fallback = "tanh",                                                                       \
         .help = "of the hidden layers of `feedforward`"},                                         \
        {"init",                                                                                   \
         NSI_KEY_TABLE,                                                                            \
         0,                                                                                        \
         .table = &nsi_learned_init_schema,                                                        \
         .values = "`{scale, last}`",                                                              \
         .fallback = "{1, 0.1}",                                                                   \
         .help = "initial weights"},                                                               \
    {                                                                                              \
        "seed", NSI_KEY_WHOLE, offsetof(nsi_learned, seed), .fallback = "1",                       \
                                                            .help = "of the weights"               \
    }

static const nsi_schema_key learned_keys[] = {LEARNED_KEYS};
const nsi_schema nsi_learned_schema = NSI_SCHEMA("a learned system", learned_keys, check_learned);

static const nsi_schema_key found_keys[] = {
    LEARNED_KEYS,
    {"controls", NSI_KEY_TEXTS, offsetof(nsi_learned, controls), .most = NSI_LEARNED_MAX_NUMBERS,
     .help = "names, in the order of inputs"},
    {"state_shift", NSI_KEY_NUMBERS, offsetof(nsi_learned, state_shift),
     .most = NSI_LEARNED_MAX_NUMBERS, .help = "what is taken from states"},
    {"state_scale", NSI_KEY_NUMBERS, offsetof(nsi_learned, state_scale), DBL_MIN, DBL_MAX,
     .most = NSI_LEARNED_MAX_NUMBERS, .help = "what states are divided by"},
    {"control_shift", NSI_KEY_NUMBERS, offsetof(nsi_learned, control_shift),
     .most = NSI_LEARNED_MAX_NUMBERS, .help = "likewise for controls"},
    {"control_scale", NSI_KEY_NUMBERS, offsetof(nsi_learned, control_scale), DBL_MIN, DBL_MAX,
     .most = NSI_LEARNED_MAX_NUMBERS, .help = "likewise for controls"},
    {"output_scale", NSI_KEY_NUMBERS, offsetof(nsi_learned, output_scale), DBL_MIN, DBL_MAX,
     .most = NSI_LEARNED_MAX_NUMBERS, .help = "what outputs are multiplied by"},
};
const nsi_schema nsi_learned_found_schema =
    NSI_SCHEMA("a learned system", found_keys, check_learned);

ns_status nsi_learned_read(const nsi_yaml* yaml, const nsi_yaml_node* node, bool found,
                           nsi_arena* arena, nsi_learned* out, ns_error* error) {
    nsi_schema_reader r = {.yaml = yaml, .arena = arena, .error = error};
    *out = nsi_default_learned();
    return nsi_schema_read(&r, found ? &nsi_learned_found_schema : &nsi_learned_schema, node, out);
}

// ---- checking ----------------------------------------------------------------------------------

static ns_status learned_check_names(const char* key, const nsi_text_list* names, ns_error* error) {
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

static ns_status learned_check_numbers(const char* key, const nsi_number_list* numbers,
                                       bool positive, ns_error* error) {
    bool good = numbers->count <= NSI_LEARNED_MAX_NUMBERS;
    for (uint32_t k = 0; good && k < numbers->count; k++) {
        good = isfinite(numbers->data[k]) && (!positive || numbers->data[k] >= DBL_MIN);
    }
    return good ? NS_OK
                : nsi_fail(error, NS_ERR_ARGUMENT, "learned: %s must be finite%s, and at most %d",
                           key, positive ? " and positive" : "", NSI_LEARNED_MAX_NUMBERS);
}

ns_status nsi_learned_check(const nsi_learned* l, ns_error* error) {
    // The network itself: LSTM cells need a layer and have no choice of activation.
    bool lstm = l->kind == NS_LEARNED_LSTM;
    bool layers = l->nhidden <= NSI_LEARNED_MAX_LAYERS && !(lstm && l->nhidden == 0);
    // Widths bound the memory of the network.
    for (uint32_t k = 0; layers && k < l->nhidden; k++) {
        layers = l->hidden[k] > 0 && l->hidden[k] <= NSI_LEARNED_MAX_NUMBERS;
    }
    // Enumerations may come from a caller that casts.
    if (!ns_choice_has(&ns_learned_kinds, (int)l->kind) || !layers ||
        !ns_activation_name(l->activation) || (lstm && l->activation != NS_TANH)) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "learned: the network is invalid");
    }

    // Scales of initial weights.
    double scales[] = {l->init_scale, l->init_last_scale};
    // NaN fails both comparisons.
    for (int k = 0; k < 2; k++) {
        if (scales[k] >= 0.0 && scales[k] <= 1e9) continue;
        return nsi_fail(error, NS_ERR_ARGUMENT, "learned: init is out of range");
    }

    // Names and normalisation.
    // Names of states and controls.
    ns_status status = learned_check_names("hide", &l->hide, error);
    if (status == NS_OK) status = learned_check_names("angle", &l->angle, error);
    if (status == NS_OK) status = learned_check_names("controls", &l->controls, error);

    // Shift and scale; scales must not be zero.
    if (status == NS_OK)
        status = learned_check_numbers("state_shift", &l->state_shift, false, error);
    if (status == NS_OK)
        status = learned_check_numbers("state_scale", &l->state_scale, true, error);
    if (status == NS_OK)
        status = learned_check_numbers("control_shift", &l->control_shift, false, error);
    if (status == NS_OK)
        status = learned_check_numbers("control_scale", &l->control_scale, true, error);
    if (status == NS_OK)
        status = learned_check_numbers("output_scale", &l->output_scale, true, error);
    return status;
}
