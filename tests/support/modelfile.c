#define _POSIX_C_SOURCE 200809L

#include "support/modelfile.h"

#include "model/model_data.h"
#include "support/assert.h"
#include "support/testalloc.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

// ---- reading -----------------------------------------------------------------------------------

static char* read_path(const char* path, size_t* size) {
    FILE* file = fopen(path, "rb");
    if (!file) fail_msg("%s cannot be opened", path);
    size_t room = 1 << 16;
    char* text = malloc(room);
    *size = 0;
    for (size_t got; (got = fread(text + *size, 1, room - *size - 1, file)) > 0;) {
        *size += got;
        if (*size + 1 < room) continue;
        char* larger = realloc(text, room *= 2);
        if (!larger) free(text);
        assert_non_null(larger);
        text = larger;
    }
    text[*size] = '\0';
    fclose(file);
    return text;
}

static void data_path(char* out, size_t size, const char* path) {
    snprintf(out, size, "%s/tests/data/%s", NEURALSIM_SOURCE_DIR, path);
}

char* modelfile_read(const char* path, size_t* size) {
    char full[1000];
    data_path(full, sizeof full, path);
    return read_path(full, size);
}

ns_model* modelfile_load(const char* path) {
    char full[1000];
    data_path(full, sizeof full, path);
    ns_model* model = NULL;
    ns_error error = {0};
    must(ns_model_load(full, NULL, &model, &error), &error);
    modelfile_check(model);
    return model;
}

ns_model* modelfile_parse(const char* text) {
    ns_model* model = NULL;
    ns_error error = {0};
    must(ns_model_parse(text, strlen(text), "t", NULL, &model, &error), &error);
    modelfile_check(model);
    return model;
}

const char* modelfile_error(const char* text, ns_status status) {
    static ns_error error;
    ns_model* model = NULL;
    ns_status got = ns_model_parse(text, strlen(text), "t", NULL, &model, &error);
    if (got == NS_OK) fail_msg("this is accepted:\n%s", text);
    assert_null(model);
    assert_int_equal(got, error.status);
    if (got != status) fail_msg("status %d, not %d: %s", got, status, error.message);
    return error.message;
}

bool modelfile_notes(const ns_model* model, const char* fragment) {
    for (uint32_t i = 0; i < ns_model_get_sizes(model).nignored; i++) {
        if (strstr(ns_model_ignored(model, i), fragment)) return true;
    }
    return false;
}

uint32_t modelfile_link(const ns_model* model, const char* name) {
    for (uint32_t i = 0; i < ns_model_get_sizes(model).nlink; i++) {
        if (strcmp(ns_model_link(model, i)->name, name) == 0) return i;
    }
    return UINT32_MAX;
}

// ---- checking ----------------------------------------------------------------------------------

static double norm(const double* v, uint32_t n) {
    double sum = 0.0;
    for (uint32_t i = 0; i < n; i++) sum += v[i] * v[i];
    return sqrt(sum);
}

static void check_finite(const double* v, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) assert_true(isfinite(v[i]));
}

static void check_pose(const ns_pose* pose) {
    check_finite(pose->position, 3);
    assert_true(fabs(norm(pose->quaternion, 4) - 1.0) < 1e-14);
}

static void check_link(const ns_model* model, uint32_t i, uint32_t* nq, uint32_t* nv) {
    static const uint32_t sizes_q[] = {0, 1, 1, 4, 7}, sizes_v[] = {0, 1, 1, 3, 6};
    const ns_link_def* link = ns_model_link(model, i);
    uint32_t parent = ns_model_link_parent(model, i);
    assert_true(parent == UINT32_MAX || parent < i);
    assert_string_equal(link->parent,
                        parent == UINT32_MAX ? "world" : ns_model_link(model, parent)->name);
    assert_true(link->mass >= 0.0 && isfinite(link->mass));
    check_finite(link->com, 3);
    assert_null(nsi_inertia_fault(link->mass, link->inertia));
    check_pose(&link->origin);
    assert_true(fabs(norm(link->axis, 3) - 1.0) < 1e-14);
    check_finite(&link->stiffness, 1);
    assert_true(!link->limited || link->lower < link->upper);
    assert_true(link->joint_type != NS_JOINT_FLOATING || parent == UINT32_MAX);

    bool moves = !link->mimic && link->joint_type != NS_JOINT_FIXED;
    assert_int_equal(ns_model_joint_q(model, i), moves ? *nq : UINT32_MAX);
    assert_int_equal(ns_model_joint_v(model, i), moves ? *nv : UINT32_MAX);
    if (moves) {
        *nq += sizes_q[link->joint_type];
        *nv += sizes_v[link->joint_type];
    }
}

static void check_contact(const ns_model* model, uint32_t i) {
    const nsi_contact* contact = &model->contacts[i];
    const nsi_geom *a = &model->geoms[contact->a], *b = &model->geoms[contact->b];
    assert_ptr_equal(contact->def.a, a->def.name);
    assert_ptr_equal(contact->def.b, b->def.name);
    assert_true(a->def.collision && b->def.collision && nsi_geoms_can_touch(&a->def, &b->def));
    assert_int_not_equal(nsi_link_body(model->links, a->link),
                         nsi_link_body(model->links, b->link));
    assert_true(a->param != NSI_NONE && b->param != NSI_NONE);
    assert_true(contact->param + model->ncontact_param <= model->sizes.nparam);
}

void modelfile_check(const ns_model* model) {
    ns_model_sizes sizes = ns_model_get_sizes(model);
    uint32_t nq = 0, nv = 0;
    for (uint32_t i = 0; i < sizes.nlink; i++) check_link(model, i, &nq, &nv);
    assert_int_equal(nq, sizes.nq);
    assert_int_equal(nv, sizes.nv);
    for (uint32_t i = 0; i < sizes.ngeom; i++) {
        const ns_geom_def* geom = ns_model_geom(model, i);
        assert_true(geom->name && geom->link);
        check_finite(geom->size, 3);
        check_pose(&geom->pose);
        check_finite(geom->vertices, 3 * geom->nvertex);
    }
    for (uint32_t i = 0; i < sizes.ncontact; i++) check_contact(model, i);
    for (uint32_t i = 0; i < sizes.nu; i++) {
        const ns_actuator_def* a = ns_model_actuator(model, i);
        assert_true(a->joint || a->tendon || a->site);
    }
    for (uint32_t i = 0; i < sizes.nparam; i++) {
        const ns_param* param = ns_model_param(model, i);
        assert_int_equal(ns_model_find_param(model, param->name), i);
        assert_true(isfinite(param->value));
        assert_true(param->lower <= param->value || param->transform == NS_TRANSFORM_INERTIA);
        assert_true(param->value <= param->upper);
    }
}

static void check_close(const char* what, const char* link, const double* a, const double* b,
                        uint32_t n, double scale, double tolerance) {
    for (uint32_t i = 0; i < n; i++) {
        if (fabs(a[i] - b[i]) <= tolerance * fmax(1.0, scale)) continue;
        fail_msg("%s of link %s differs: [%u] is %.17g and %.17g", what, link, i, a[i], b[i]);
    }
}

void modelfile_check_same(const ns_model* a, const ns_model* b, double tolerance) {
    ns_model_sizes sa = ns_model_get_sizes(a), sb = ns_model_get_sizes(b);
    assert_string_equal(ns_model_name(a), ns_model_name(b));
    assert_int_equal(sa.nlink, sb.nlink);
    assert_int_equal(sa.nq, sb.nq);
    assert_int_equal(sa.nv, sb.nv);
    for (uint32_t i = 0; i < sa.nlink; i++) {
        const ns_link_def *x = ns_model_link(a, i), *y = ns_model_link(b, i);
        assert_string_equal(x->name, y->name);
        assert_string_equal(x->parent, y->parent);
        assert_string_equal(x->joint, y->joint);
        assert_int_equal(x->joint_type, y->joint_type);
        assert_int_equal(ns_model_joint_q(a, i), ns_model_joint_q(b, i));
        assert_int_equal(ns_model_joint_v(a, i), ns_model_joint_v(b, i));
        check_close("mass", x->name, &x->mass, &y->mass, 1, x->mass, tolerance);
        check_close("com", x->name, x->com, y->com, 3, 1.0, tolerance);
        check_close("inertia", x->name, x->inertia, y->inertia, 6,
                    norm(x->inertia, 6) + norm(y->inertia, 6), tolerance);
        check_close("axis", x->name, x->axis, y->axis, 3, 1.0, tolerance);
        check_close("origin", x->name, x->origin.position, y->origin.position, 3, 1.0, tolerance);
        // A quaternion and its negative are the same orientation.
        double flipped[4], dot = 0.0;
        for (int k = 0; k < 4; k++) dot += x->origin.quaternion[k] * y->origin.quaternion[k];
        for (int k = 0; k < 4; k++) flipped[k] = copysign(1.0, dot) * y->origin.quaternion[k];
        check_close("orientation", x->name, x->origin.quaternion, flipped, 4, 1.0, tolerance);
        const double px[] = {x->stiffness, x->rest, x->damping, x->friction, x->armature};
        const double py[] = {y->stiffness, y->rest, y->damping, y->friction, y->armature};
        check_close("joint forces", x->name, px, py, 5, 1.0, tolerance);
    }
}

// ---- damage ------------------------------------------------------------------------------------

typedef struct buffer {
    char* text;
    size_t size, room;
} buffer;

static void replace(buffer* b, size_t at, size_t length, const char* by, size_t by_length) {
    char* copy = malloc(by_length + 1);
    memcpy(copy, by, by_length); // it may lie in the text itself
    size_t size = b->size - length + by_length;
    if (size + 1 > b->room) b->text = realloc(b->text, b->room = 2 * size + 1);
    memmove(b->text + at + by_length, b->text + at + length, b->size - at - length);
    memcpy(b->text + at, copy, by_length);
    b->size = size;
    free(copy);
}

static bool in_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
}

// A word at or after a random place; its length may be zero at the end.
static size_t random_word(ns_rng* rng, const buffer* b, bool number, size_t* length) {
    *length = 0;
    for (int attempt = 0; attempt < 20 && b->size > 0; attempt++) {
        size_t at = ns_rng_below(rng, (uint32_t)b->size);
        while (at < b->size && !in_word(b->text[at])) at++;
        while (at > 0 && in_word(b->text[at - 1])) at--;
        size_t end = at;
        while (end < b->size && in_word(b->text[end])) end++;
        bool is_number = at < b->size && strchr("0123456789-.", b->text[at]) != NULL;
        *length = end - at;
        if (*length > 0 && (!number || is_number)) return at;
    }
    return 0;
}

// A gentle damage leaves the XML whole, so that it reaches what reads the model.
static void damage_once(ns_rng* rng, buffer* b, bool gentle) {
    static const char* const numbers[] = {"nan",   "inf",    "-1",   "0",      "1e308",
                                          "1e999", "-1e300", "1e-9", "1e-320", "1 2 3",
                                          "",      "x",      "1,5",  "+-3"};
    static const char* const words[] = {
        "<",         ">",      "/>",      "\"",       "&",    "&#0;",  "&lt;",     "<!DOCTYPE a>",
        "<link/>",   "<body>", "</body>", "<joint/>", "name", "world", "<geom/>",  "<default>",
        "<![CDATA[", "]]>",    "<!--",    "-->",      "\xFF", "<?x?>", "floating", "\xC3\xA9"};
    if (b->size == 0) return;
    size_t at = ns_rng_below(rng, (uint32_t)b->size), length, other_length;
    size_t left = b->size - at;
    switch (gentle ? 4 + ns_rng_below(rng, 3) : ns_rng_below(rng, 9)) {
    case 0: b->text[at] = (char)(b->text[at] ^ (1 << ns_rng_below(rng, 8))); break;
    case 1: b->text[at] = (char)ns_rng_below(rng, 256); break;
    case 2: // remove
        length = ns_rng_below(rng, ns_rng_below(rng, 2) ? 4 : 200) + 1;
        replace(b, at, length < left ? length : left, "", 0);
        break;
    case 3: // repeat
        length = ns_rng_below(rng, ns_rng_below(rng, 2) ? 8 : 400) + 1;
        if (length > left) length = left;
        replace(b, at, 0, b->text + at, length);
        break;
    case 4: // exchange one word for another
    case 5: {
        at = random_word(rng, b, false, &length);
        size_t other = random_word(rng, b, false, &other_length);
        replace(b, at, length, b->text + other, other_length);
        break;
    }
    case 6: { // an awkward number
        const char* number = numbers[ns_rng_below(rng, sizeof numbers / sizeof *numbers)];
        at = random_word(rng, b, true, &length);
        replace(b, at, length, number, strlen(number));
        break;
    }
    case 7: {
        const char* word = words[ns_rng_below(rng, sizeof words / sizeof *words)];
        replace(b, at, 0, word, strlen(word));
        break;
    }
    default: // cut off, but not often
        if (ns_rng_below(rng, 4) == 0) b->size = at;
        break;
    }
}

char* modelfile_damage(ns_rng* rng, const char* text, size_t size, size_t* out_size) {
    buffer b = {malloc(size + 1), size, size + 1};
    memcpy(b.text, text, size);
    uint32_t times = 1 + ns_rng_below(rng, 4);
    bool gentle = ns_rng_below(rng, 2) == 0;
    for (uint32_t i = 0; i < times; i++) damage_once(rng, &b, gentle);
    *out_size = b.size;
    return b.text;
}

// "name:12: ..."
static bool starts_with_place(const char* message, const char* name) {
    size_t length = strlen(name);
    if (strncmp(message, name, length) != 0 || message[length] != ':') return false;
    const char* at = message + length + 1;
    const char* first = at;
    while (*at >= '0' && *at <= '9') at++;
    return at > first && *first != '0' && at[0] == ':' && at[1] == ' ' && at[2] != '\0';
}

void modelfile_try_damaged(const char* const* paths, uint32_t count, uint64_t seed) {
    ns_rng rng = ns_rng_seed(seed);
    uint32_t good = 0, bad = 0, npaths = 0;
    while (paths[npaths]) npaths++;
    for (uint32_t i = 0; i < count; i++) {
        size_t size, damaged_size;
        char* text = modelfile_read(paths[i % npaths], &size);
        char* damaged = modelfile_damage(&rng, text, size, &damaged_size);
        // An exact copy, so that a sanitizer sees a read past the end.
        char* exact = malloc(damaged_size + (damaged_size == 0));
        memcpy(exact, damaged, damaged_size);

        ns_model* model = NULL;
        ns_error error = {0};
        ns_load_options options = ns_default_load_options();
        options.strict = i % 2 == 1;
        options.floating_base = i % 3 == 1;
        options.ground = i % 4 > 1;
        options.self_collision = i % 8 > 3;
        ns_status status = ns_model_parse(exact, damaged_size, "damaged", &options, &model, &error);
        assert_int_equal(status == NS_OK, model != NULL);
        if (status == NS_OK) {
            modelfile_check(model);
            good++;
        } else {
            assert_int_equal(error.status, status);
            if (!starts_with_place(error.message, "damaged")) {
                fail_msg("the message \"%s\" has no place, for\n%.*s", error.message,
                         (int)damaged_size, exact);
            }
            bad++;
        }
        ns_model_free(model);
        free(exact);
        free(damaged);
        free(text);
    }
    printf("%u damaged files: %u errors, %u good models\n", count, bad, good);
    assert_true(bad > count / 4);
    assert_true(good > 0);
}

void modelfile_fail_allocations(const char* text) {
    for (size_t n = 1;; n++) {
        test_alloc counter = {.fail_at = n};
        ns_allocator allocator = test_allocator(&counter);
        ns_load_options options = {.ground = true, .self_collision = true, .allocator = &allocator};
        ns_model* model = NULL;
        ns_error error = {0};
        ns_status status = ns_model_parse(text, strlen(text), "t", &options, &model, &error);
        if (counter.calls < n) {
            assert_int_equal(status, NS_OK);
            assert_int_equal(counter.live_blocks, 1);
            modelfile_check(model);
            ns_model_free(model);
            assert_int_equal(counter.live_blocks, 0);
            assert_true(n > 20); // expat's are among them
            return;
        }
        if (status != NS_ERR_NOMEM) fail_msg("allocation %zu: %s", n, error.message);
        assert_int_equal(error.status, NS_ERR_NOMEM);
        assert_null(model);
        assert_int_equal(counter.live_blocks, 0);
    }
}

// ---- broken files ------------------------------------------------------------------------------

// The fragments of "fragment | fragment", up to `end`: is each in the text?
static bool has_fragments(const char* text, const char* fragment, const char* end) {
    while (fragment < end) {
        const char* next = strstr(fragment, " | ");
        if (!next || next > end) next = end;
        char wanted[200];
        snprintf(wanted, sizeof wanted, "%.*s", (int)(next - fragment), fragment);
        if (!strstr(text, wanted)) return false;
        fragment = next + 3;
    }
    return true;
}

static void try_broken(const char* path, const char* name) {
    size_t size;
    char* text = read_path(path, &size);
    const char mark[] = "<!-- expect: ";
    char* end = strstr(text, " -->");
    if (strncmp(text, mark, sizeof mark - 1) != 0 || !end) {
        fail_msg("%s does not say what to expect", name);
        free(text);
        return;
    }
    ns_model* model = NULL;
    ns_error error = {0};
    ns_status status = ns_model_parse(text, size, name, NULL, &model, &error);
    if (status == NS_OK) fail_msg("%s is accepted", name);
    if (!starts_with_place(error.message, name)) fail_msg("no place: %s", error.message);
    if (!has_fragments(error.message, text + sizeof mark - 1, end)) {
        fail_msg("%s: not the message that it expects:\n%s", name, error.message);
    }
    free(text);
}

// The first note with all fragments.
static const char* find_note(const ns_model* model, const char* fragments, const char* end) {
    for (uint32_t k = 0; k < ns_model_get_sizes(model).nignored; k++) {
        if (has_fragments(ns_model_ignored(model, k), fragments, end)) {
            return ns_model_ignored(model, k);
        }
    }
    return NULL;
}

static void try_accepted(const char* path, const char* name) {
    size_t size;
    char* text = read_path(path, &size);
    char *mark = strstr(text, "<!-- "), *fragments = mark ? strstr(mark, ": ") : NULL;
    char* end = fragments ? strstr(fragments, " -->") : NULL;
    bool repaired = mark && strncmp(mark, "<!-- repaired: ", 15) == 0;
    if (!end || (!repaired && strncmp(mark, "<!-- noted: ", 12) != 0)) {
        fail_msg("%s does not say what to expect", name);
        free(text);
        return;
    }
    fragments += 2;

    ns_model* model = NULL;
    ns_error error = {0};
    ns_load_options options = ns_default_load_options();
    ns_status status = ns_model_load(path, &options, &model, &error);
    if (status != NS_OK) fail_msg("%s", error.message);
    modelfile_check(model);
    const char* note = find_note(model, fragments, end);
    if (!note) fail_msg("%s: no such note", name);
    ns_model_free(model);

    options.strict = true;
    status = ns_model_load(path, &options, &model, &error);
    ns_model_free(model);
    if (!repaired && status != NS_OK) fail_msg("strict: %s", error.message);
    if (repaired && status != NS_ERR_PARSE) fail_msg("%s is accepted by strict", name);
    const char* rest = strstr(fragments, " | "); // the line is written in another way
    rest = rest && rest < end ? rest + 3 : end;
    if (repaired &&
        !(strstr(error.message, "(--strict)") && has_fragments(error.message, rest, end))) {
        fail_msg("%s: not the message that it expects:\n%s", name, error.message);
    }
    free(text);
}

// How many files of a folder below tests/data there are, each of which has been tried.
static uint32_t try_folder(const char* name, const char* ending,
                           void (*attempt)(const char* path, const char* name)) {
    char folder[1000];
    data_path(folder, sizeof folder, name);
    DIR* directory = opendir(folder);
    if (!directory) fail_msg("%s cannot be opened", folder);
    uint32_t count = 0;
    for (struct dirent* entry; (entry = readdir(directory)) != NULL;) {
        size_t length = strlen(entry->d_name), end = strlen(ending);
        if (length < end || strcmp(entry->d_name + length - end, ending) != 0) continue;
        char path[1500];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        attempt(path, entry->d_name);
        count++;
    }
    closedir(directory);
    printf("%u files of %s/*%s\n", count, name, ending);
    return count;
}

uint32_t modelfile_try_broken(const char* ending) {
    return try_folder("broken", ending, try_broken);
}

uint32_t modelfile_try_accepted(const char* folder, const char* ending) {
    return try_folder(folder, ending, try_accepted);
}
