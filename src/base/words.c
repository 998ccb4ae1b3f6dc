// Closed sets of names, and the nearest name to one that was misspelt.

#include "neuralsim/words.h"

#include <stdio.h>
#include <string.h>

// ---- closed sets ---------------------------------------------------------------------------

bool ns_choice_at(const ns_choices* choices, uint32_t k, ns_choice* out) {
    if (choices->at) return choices->at(k, out);
    if (k >= choices->count) return false;
    *out = choices->items[k];
    return true;
}

static bool find_choice(const ns_choices* choices, int value, ns_choice* out) {
    for (uint32_t k = 0; ns_choice_at(choices, k, out); k++) {
        if (out->value == value) return true;
    }
    return false;
}

bool ns_choice_has(const ns_choices* choices, int value) {
    ns_choice found;
    return find_choice(choices, value, &found);
}

const char* ns_choice_name(const ns_choices* choices, int value) {
    ns_choice found;
    return find_choice(choices, value, &found) ? found.name : "unknown";
}

const char* ns_choice_help(const ns_choices* choices, int value) {
    ns_choice found;
    return find_choice(choices, value, &found) ? found.help : "";
}

bool ns_choice_find(const ns_choices* choices, const char* name, int* value) {
    ns_choice choice;
    for (uint32_t k = 0; ns_choice_at(choices, k, &choice); k++) {
        if (strcmp(choice.name, name) != 0) continue;
        *value = choice.value;
        return true;
    }
    return false;
}

void ns_choices_list(const ns_choices* choices, char* text, size_t size) {
    ns_choice choice;
    size_t used = 0;
    if (size > 0) text[0] = '\0';
    for (uint32_t k = 0; used < size && ns_choice_at(choices, k, &choice); k++) {
        int added = snprintf(text + used, size - used, "%s%s", k > 0 ? ", " : "", choice.name);
        used += added > 0 ? (size_t)added : 0;
    }
}

void ns_choice_fault(const ns_choices* choices, const char* name, char* text, size_t size) {
    char list[NS_ERROR_SIZE];
    ns_nearest nearest = {.wanted = name};
    ns_choices_list(choices, list, sizeof list);
    ns_nearest_offer_choices(&nearest, choices);
    const char* likely = ns_nearest_likely(&nearest);
    snprintf(text, size, "is not one of: %s%s%s%s", list, likely ? "; did you mean \"" : "",
             likely ? likely : "", likely ? "\"?" : "");
}

// ---- distances -----------------------------------------------------------------------------

static uint32_t min3(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t m = a < b ? a : b;
    return m < c ? m : c;
}

static bool is_word_digit(char c) {
    return c >= '0' && c <= '9';
}

// Changing a letter is a slip; another number is likely meant, and counts twice.
static uint32_t change_cost(char a, char b) {
    return a == b ? 0 : is_word_digit(a) && is_word_digit(b) ? 2 : 1;
}

// Letters to insert, delete, change, or swap with their neighbour (optimal string alignment), of names
// that are shorter than NS_WORD_SIZE. Row i of the table has the distances of the first i letters of a
// to all prefixes of b; three rows are kept.
static uint32_t edit_distance(const char* a, const char* b) {
    size_t na = strlen(a), nb = strlen(b);
    uint32_t rows[3][NS_WORD_SIZE] = {{0}};
    uint32_t *before = rows[0], *last = rows[1], *row = rows[2];
    for (uint32_t j = 0; j <= nb; j++) last[j] = j;
    for (uint32_t i = 1; i <= na; i++) {
        row[0] = i;
        for (uint32_t j = 1; j <= nb; j++) {
            row[j] =
                min3(last[j] + 1, row[j - 1] + 1, last[j - 1] + change_cost(a[i - 1], b[j - 1]));
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && before[j - 2] + 1 < row[j]) row[j] = before[j - 2] + 1;
        }
        uint32_t* oldest = before;
        before = last;
        last = row;
        row = oldest;
    }
    return last[nb];
}

// ---- synonyms ------------------------------------------------------------------------------

// Words of one line mean the same; names use the first of them.
static const char* const synonyms[][8] = {
    {"position", "angle", "pos", "coordinate", "displacement"},
    {"velocity", "speed", "vel", "rate"},
    {"qdd", "acceleration", "accel", "acc"},
    {"tau", "torque", "effort", "moment"},
    {"mass", "weight"},
    {"com", "centre", "center", "cog"},
    {"mu", "friction"},
    {"restitution", "bounce", "elasticity"},
    {"stiffness", "spring"},
    {"damping", "viscous", "damper"},
    {"lower", "min", "minimum"},
    {"upper", "max", "maximum"},
    {"time", "duration", "seconds"},
    {"timestep", "dt", "step", "stepsize"},
    {"control", "input", "command", "action"},
    {"validation", "val", "valid", "dev"},
    {"test", "holdout"},
    {"train", "training"},
    {"euler", "semi_implicit"},
    {"rk4", "runge_kutta"},
    {"ncp", "rigid", "lcp"},
    {"simulate", "run", "rollout"},
    {"fit", "identify", "calibrate", "estimate"},
};

enum { SYNONYMS = sizeof synonyms / sizeof *synonyms, PER_LINE = 8 };

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_word_digit(c);
}

// The first word of the line with this one, or NULL.
static const char* canonical_word(const char* word, size_t size) {
    for (int line = 0; line < SYNONYMS; line++) {
        for (int k = 0; k < PER_LINE && synonyms[line][k]; k++) {
            const char* other = synonyms[line][k];
            if (strlen(other) == size && memcmp(other, word, size) == 0) return synonyms[line][0];
        }
    }
    return NULL;
}

// Copy a name in small letters with the first synonym in place of each of its words; false when it is
// too long.
static bool canonical_name(const char* name, char out[NS_WORD_SIZE]) {
    // Lower case, in ASCII only: names are identifiers.
    char lower[NS_WORD_SIZE] = "";
    size_t used = 0, letters = strlen(name);
    for (size_t k = 0; k <= letters; k++) {
        bool capital = name[k] >= 'A' && name[k] <= 'Z';
        lower[k] = (char)(capital ? name[k] - 'A' + 'a' : name[k]);
    }

    // Replace word by word.
    for (const char* at = lower; *at;) {
        // Try the rest as a whole ("semi_implicit"), then up to the next separator.
        size_t size = strlen(at);
        const char* word = canonical_word(at, size);
        if (!word) {
            for (size = 0; is_letter(at[size]);) size++;
            word = canonical_word(at, size);
        }
        // A separator is copied as it is.
        if (size == 0) size = 1;

        // Append the synonym or the original word.
        size_t length = word ? strlen(word) : size;
        if (used + length >= NS_WORD_SIZE) return false;
        memcpy(out + used, word ? word : at, length);
        used += length;
        at += size;
    }
    // Two names match if their canonical forms are equal.
    out[used] = '\0';
    return true;
}

// ---- nearest names -------------------------------------------------------------------------

enum { MIN_BEGINNING = 2 }; // letters that suggest a longer name

static size_t count_letters(const char* name) {
    size_t count = 0;
    for (; *name; name++) count += is_letter(*name);
    return count;
}

// Letters that differ; 1, and `related`, for a name that begins like the wanted one or means the same.
static uint32_t nearest_cost(const char* wanted, const char* name, uint32_t edits, bool* related) {
    char a[NS_WORD_SIZE] = "", b[NS_WORD_SIZE] = "";
    uint32_t cost = edits;

    // An abbreviation: "sim", "--tim".
    *related = count_letters(wanted) >= MIN_BEGINNING && strncmp(name, wanted, strlen(wanted)) == 0;
    if (*related && cost > 1) cost = 1;

    // Another word for the same thing counts as one letter, on top of those that differ otherwise.
    if (canonical_name(wanted, a) && canonical_name(name, b)) {
        uint32_t synonym = edit_distance(a, b) + 1;
        *related = *related || synonym == 1;
        if (synonym < cost) cost = synonym;
    }
    return cost;
}

void ns_nearest_offer(ns_nearest* n, const char* name) {
    if (!n->wanted || !name) return;
    if (strlen(n->wanted) >= NS_WORD_SIZE || strlen(name) >= NS_WORD_SIZE) return;
    bool related;
    uint32_t edits = edit_distance(n->wanted, name);
    uint32_t cost = nearest_cost(n->wanted, name, edits, &related);

    // Behind all that are as near or nearer.
    uint32_t at = n->count;
    while (at > 0 && (n->best[at - 1].cost > cost ||
                      (n->best[at - 1].cost == cost && n->best[at - 1].edits > edits))) {
        at--;
    }
    if (at == NS_NEAREST_MAX) return;
    uint32_t kept = n->count < NS_NEAREST_MAX ? n->count : NS_NEAREST_MAX - 1;
    memmove(&n->best[at + 1], &n->best[at], (kept - at) * sizeof n->best[0]);
    n->count = kept + 1;
    n->best[at].cost = cost;
    n->best[at].edits = edits;
    n->best[at].related = related;
    memcpy(n->best[at].name, name, strlen(name) + 1);
}

void ns_nearest_offer_choices(ns_nearest* n, const ns_choices* choices) {
    ns_choice choice;
    for (uint32_t k = 0; ns_choice_at(choices, k, &choice); k++) ns_nearest_offer(n, choice.name);
}

const char* ns_nearest_likely(const ns_nearest* n) {
    if (n->count == 0) return NULL;
    bool likely = n->best[0].related || n->best[0].cost <= count_letters(n->wanted) / 3;
    return likely ? n->best[0].name : NULL;
}

const char* ns_nearest_hint(const ns_nearest* n, char text[NS_HINT_SIZE]) {
    text[0] = '\0';
    if (ns_nearest_likely(n)) {
        snprintf(text, NS_HINT_SIZE, "; did you mean \"%s\"?", n->best[0].name);
    } else if (n->count > 0) {
        snprintf(text, NS_HINT_SIZE, "; the nearest is \"%s\"", n->best[0].name);
    }
    return text;
}
