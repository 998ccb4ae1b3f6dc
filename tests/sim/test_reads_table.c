// The table of docs/blueprint.md: what it allows is accepted and has right gradients, what it does not is
// refused, and possible with prev:.

#include "sim/augment_rig.h"

#include <math.h>

enum { MAX_GROUPS = 64, MAX_GLOBS = 16, MAX_QUANTITIES = 600, NAMES = 60000, YAML = 3 * NAMES };

#define HOPPER "../tests/data/mjcf/hopper.xml" // from models/

// ---- the page ------------------------------------------------------------------------------

typedef struct table_row {
    char name[60];
    char globs[MAX_GLOBS][80];
    int nglob;
    char cells[2][1000]; // springs, rigid
} table_row;

static table_row rows[MAX_GROUPS];
static int nrow;

static void read_row(char* line) {
    table_row* row = &rows[nrow];
    assert_true(nrow < MAX_GROUPS);
    char* cell[4];
    line += 2; // "| "
    for (int k = 0; k < 4; k++) {
        cell[k] = line;
        char* end = strstr(line, k < 3 ? " | " : " |");
        assert_non_null(end);
        *end = '\0';
        line = end + 3;
    }
    snprintf(row->name, sizeof row->name, "%s", cell[0]);
    for (char* glob = strchr(cell[1], '`'); glob; glob = strchr(glob, '`')) {
        char* end = strchr(++glob, '`');
        assert_non_null(end);
        *end = '\0';
        assert_true(row->nglob < MAX_GLOBS);
        snprintf(row->globs[row->nglob++], sizeof row->globs[0], "%s", glob);
        glob = end + 1;
    }
    for (int law = 0; law < 2; law++) {
        snprintf(row->cells[law], sizeof row->cells[law], "%s", cell[2 + law]);
    }
    nrow++;
}

static int read_page(void** state) {
    (void)state;
    FILE* file = fopen(NEURALSIM_SOURCE_DIR "/docs/blueprint.md", "r");
    assert_non_null(file);
    char line[4000];
    bool inside = false;
    int number = 0;
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, "<!-- keys: reads", 16) == 0) inside = true;
        if (strncmp(line, "<!-- end", 8) == 0) inside = false;
        if (inside && line[0] == '|' && number++ > 1) read_row(line);
    }
    fclose(file);
    assert_true(nrow > 20);
    return 0;
}

// Is a group in a list "a, b, c"?
static bool is_listed(const char* list, const char* name) {
    size_t size = strlen(name);
    for (const char* at = list; at; at = strstr(at, ", ") ? strstr(at, ", ") + 2 : NULL) {
        if (strncmp(at, name, size) == 0 && (at[size] == '\0' || at[size] == ',')) return true;
    }
    return false;
}

// ---- quantities ----------------------------------------------------------------------------

typedef struct known {
    char name[100];
    double size; // of its value, about
    bool acts;
    int group; // -1: none
} known;

static known quantities[MAX_QUANTITIES];
static int nquantity;

static void learn(void* context, const ns_quantity_info* q) {
    (void)context;
    assert_true(nquantity < MAX_QUANTITIES);
    known* k = &quantities[nquantity++];
    *k = (known){.acts = q->affects_state, .group = -1, .size = 1.0};
    snprintf(k->name, sizeof k->name, "%s", q->name);
    for (int g = 0; g < nrow; g++) {
        for (int i = 0; i < rows[g].nglob; i++) {
            if (!ns_glob_match(rows[g].globs[i], q->name)) continue;
            assert_int_equal(k->group, -1); // in one group only
            k->group = g;
        }
    }
    static const char* const diagnostics[] = {"contact/residual", "contact/relaxation",
                                              "contact/solves", "contact/sweeps"};
    bool diagnostic = false;
    for (int i = 0; i < 4; i++) diagnostic = diagnostic || strcmp(q->name, diagnostics[i]) == 0;
    if (diagnostic == (k->group >= 0)) fail_msg("%s: group %d", q->name, k->group);
}

// A network may be there: of the two numbers of the mass matrix that are one, above the diagonal.
static bool may_be_output(const known* k) {
    unsigned i, j;
    if (sscanf(k->name, "mass_matrix/%u/%u", &i, &j) == 2 && i > j) return false;
    return k->acts;
}

// ---- networks ------------------------------------------------------------------------------

static const int contact_laws[2] = {NS_CONTACT_SPRING, NS_CONTACT_NCP};

typedef struct listing {
    char text[NAMES], scales[20 * MAX_QUANTITIES];
    int count, first;          // how many; the first quantity
    int group[MAX_QUANTITIES]; // of each
} listing;

static void add_name(listing* l, const char* prefix, const known* k) {
    size_t length = strlen(l->text);
    snprintf(l->text + length, NAMES - length, "%s\"%s%s\"", l->count > 0 ? ", " : "", prefix,
             k->name);
    length = strlen(l->scales);
    snprintf(l->scales + length, sizeof l->scales - length, "%s%g", l->count > 0 ? ", " : "",
             k->size);
    if (l->count == 0) l->first = (int)(k - quantities);
    l->group[l->count++] = k->group;
}

// All outputs of a group, or the first one only.
static void list_outputs(listing* l, int group, bool first) {
    *l = (listing){.count = 0};
    for (int k = 0; k < nquantity; k++) {
        if (quantities[k].group != group || !may_be_output(&quantities[k])) continue;
        add_name(l, "", &quantities[k]);
        if (first) return;
    }
}

static void make_yaml(char* yaml, const listing* inputs, const listing* outputs) {
    snprintf(
        yaml, YAML,
        "networks:\n  - {name: n, inputs: [%s], outputs: [%s], hidden: [4], output_scale: 0.001,"
        " input_scale: [%s]}\n",
        inputs->text, outputs->text, inputs->scales);
}

static const ns_param_value bouncing[] = {{"contact/*/restitution", 0.3}, {"contact/*/mu", 0.3}};

static ns_system_options law_options(int law) {
    ns_system_options o = ns_default_system_options();
    o.contact = contact_laws[law];
    o.backend = NS_BACKEND_INTERP;
    o.set = bouncing;
    o.nset = 2;
    return o;
}

static ns_model* hopper;

// The foot in the ground, sliding and approaching.
static void start_hopper(rig* r) {
    const double start[6] = {0.1, -0.002, 0.02, 1.0, -0.2, -0.5};
    memcpy(r->x0, start, sizeof start);
    for (uint32_t k = 0; k < r->steps * r->n.nc; k++) r->controls[k] = 0.1;
}

// How large quantities are, so that networks see numbers of order one.
static void measure_quantities(int law) {
    static const char* const all[] = {"**"};
    ns_system_options o = law_options(law);
    o.observe = all;
    o.nobserve = 1;
    rig r = rig_make(HOPPER, "networks:\n  - {name: n, inputs: [q/0], outputs: [tau/0]}\n", &o, 1);
    start_hopper(&r);
    rig_run(&r);
    for (uint32_t i = 0; i < r.n.ny; i++) {
        for (int k = 0; k < nquantity; k++) {
            if (strcmp(quantities[k].name, ns_system_observation_name(r.system, i)) != 0) continue;
            double size = fabs(r.observations[i]);
            assert_true(isfinite(size));
            quantities[k].size = size > 0.0 ? size : 1.0;
        }
    }
    rig_free(&r);
}

static void refused_with_prev(int law, const char* yaml, const char* what) {
    ns_blueprint* blueprint = parse_blueprint(yaml);
    ns_system_options o = law_options(law);
    ns_system* system = NULL;
    ns_error error = {0};
    o.blueprint = blueprint;
    ns_status status = ns_system_create(hopper, &o, &system, &error);
    if (status != NS_ERR_ARGUMENT || !strstr(error.message, "prev:")) {
        fail_msg("%s is not refused: %s", what, error.message);
    }
    ns_blueprint_free(blueprint);
}

// Gradients of the weights at the inputs of each group, against differences. Returns how many are large.
static uint32_t check_gradients(int law, const char* yaml, const listing* inputs,
                                const char* what) {
    ns_system_options o = law_options(law);
    rig r = rig_make(HOPPER, yaml, &o, 4);
    ns_rng rng = ns_rng_seed(11);
    double spread = 1.0 / sqrt(inputs->count);
    for (uint32_t k = 0; k < r.n.nw; k++) r.weights[k] = ns_rng_uniform(&rng, -1.0, 1.0);
    for (int k = 0; k < 4 * inputs->count; k++) r.weights[k] *= spread;
    start_hopper(&r);

    size_t nstate = (r.steps + 1) * (size_t)r.n.nx;
    double *seeds = doubles(nstate), *gradient = doubles(r.n.nw), *kept = doubles(r.n.nw);
    for (size_t k = 0; k < nstate; k++) seeds[k] = ns_rng_uniform(&rng, -1.0, 1.0);
    memcpy(kept, r.weights, r.n.nw * sizeof *kept);
    ns_rollout_args args = rig_args(&r);
    ns_rollout_adjoint adjoint = {.state_seeds = seeds, .dweights = gradient};
    ns_error error = {0};
    must(ns_rollout_vjp(r.system, r.work, &args, &adjoint, &error), &error);

    // Inputs differ in size, and so does the step at which differences are best.
    uint32_t large = 0;
    for (int g = 0; g < nrow; g++) {
        double slope = 0.0, best = INFINITY;
        for (double h = 1e-3; h > 1e-8; h *= 0.1) {
            double f[2] = {0.0, 0.0};
            slope = 0.0;
            for (int side = 0; side < 2; side++) {
                for (int k = 0; k < 4 * inputs->count; k++) {
                    double along = k % 3 == 0 ? 1.0 : -0.7;
                    if (inputs->group[k / 4] != g) along = 0.0;
                    r.weights[k] = kept[k] + (side == 0 ? -h : h) * along;
                    if (side == 0) slope += gradient[k] * along;
                }
                rig_run(&r);
                for (size_t k = 0; k < nstate; k++) f[side] += seeds[k] * r.states[k];
            }
            best = fmin(best, fabs((f[1] - f[0]) / (2.0 * h) - slope));
        }
        memcpy(r.weights, kept, r.n.nw * sizeof *kept);
        large += fabs(slope) > 1e-7; // far above the noise of differences
        if (!(best <= 1e-4 * fabs(slope) + 1e-9)) {
            fail_msg("%s, from %s, %s: gradient %.10g, differences off by %.2g", what, rows[g].name,
                     law == 0 ? "springs" : "rigid", slope, best);
        }
    }
    free(seeds), free(gradient), free(kept);
    rig_free(&r);
    return large;
}

// One row of the table for one law. Adds to the numbers of cells.
static void check_table_row(int law, int row, uint32_t* allowed, uint32_t* refused,
                            uint32_t* large) {
    static listing outputs, inputs, earlier;
    static char yaml[YAML];
    const char* cell = rows[row].cells[law];
    list_outputs(&outputs, row, false);
    if (outputs.count == 0) {
        assert_true(strcmp(cell, "(no network)") == 0 || strcmp(cell, "(absent)") == 0);
        return;
    }

    // Each group that is named is refused; the others are read all at once.
    inputs = earlier = (listing){.count = 0};
    for (int g = 0; g < nrow; g++) {
        listing* to = is_listed(cell, rows[g].name) ? &earlier : &inputs;
        static listing alone;
        alone = (listing){.count = 0};
        for (int k = 0; k < nquantity; k++) {
            if (quantities[k].group != g) continue;
            add_name(&alone, "", &quantities[k]);
            if (to == &earlier) add_name(&earlier, "prev:", &quantities[k]);
            if (to == &inputs && g != row) add_name(&inputs, "", &quantities[k]);
        }
        if (alone.count == 0) continue;
        if (to == &inputs) {
            ++*allowed;
            continue;
        }
        make_yaml(yaml, &alone, &outputs);
        refused_with_prev(law, yaml, rows[row].name);
        ++*refused;
    }
    make_yaml(yaml, &inputs, &outputs);
    *large += check_gradients(law, yaml, &inputs, rows[row].name);
    if (earlier.count > 0) {
        make_yaml(yaml, &earlier, &outputs);
        check_gradients(law, yaml, &earlier, rows[row].name);
    }

    // Others of its own group, and all of it at the state.
    if (is_listed(cell, rows[row].name)) return;
    list_outputs(&outputs, row, true);
    inputs = (listing){.count = 0};
    for (int k = 0; k < nquantity; k++) {
        bool itself = k == outputs.first;
        if (quantities[k].group != row || (itself && row > 0)) continue;
        add_name(&inputs, "", &quantities[k]);
    }
    if (inputs.count == 0) return;
    make_yaml(yaml, &inputs, &outputs);
    check_gradients(law, yaml, &inputs, rows[row].name);
}

static void the_table_is_true(void** state) {
    (void)state;
    uint32_t allowed = 0, refused = 0, large = 0;
    ns_error error = {0};
    hopper = load_model(HOPPER);
    assert_string_equal(rows[0].name, "state");
    for (int law = 0; law < 2; law++) {
        ns_system_options o = law_options(law);
        nquantity = 0;
        must(ns_model_quantities(hopper, &o, learn, NULL, &error), &error);
        measure_quantities(law);
        for (int row = 0; row < nrow; row++) {
            check_table_row(law, row, &allowed, &refused, &large);
        }
    }
    print_message("%u cells allowed, %u refused; %u gradients far above noise\n", allowed, refused,
                  large);
    assert_true(allowed > 500 && refused > 100);
    assert_true(large > 0.9 * allowed);
    ns_model_free(hopper);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_is_true),
    };
    return cmocka_run_group_tests(tests, read_page, NULL);
}
