/// @file words.h
/// Closed sets of names, and the nearest of some names to one that was misspelt.
///
/// A closed set (integrators, activations..) is one table, an X-macro with a row for each value. It
/// provides the enum, the names, the parser and the help texts:
///
///     #define FRUIT_MAP(X) X(APPLE, "apple", "round") X(PEAR, "pear", "not quite")
///     typedef enum fruit { FRUIT_MAP(NS_CHOICE_VALUE) } fruit;
///     static const ns_choice rows[] = {FRUIT_MAP(NS_CHOICE_ROW)};
///     const ns_choices fruits = NS_CHOICES("fruit", rows);
///
///     int value;
///     if (!ns_choice_find(&fruits, "pear", &value)) ..
///     puts(ns_choice_name(&fruits, APPLE));

#ifndef NEURALSIM_WORDS_H
#define NEURALSIM_WORDS_H

#include "neuralsim/base.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- closed sets -------------------------------------------------------------------------------

#define NS_CHOICE_VALUE(id, name, help) id,             ///< a row of a table as an enum constant
#define NS_CHOICE_ROW(id, name, help) {id, name, help}, ///< and as an ns_choice

#define NS_CHOICE_BIT(id, bit, name, help) id = bit,             ///< the same for sets of bits
#define NS_CHOICE_BIT_ROW(id, bit, name, help) {id, name, help}, ///<

typedef struct ns_choice {
    int value;
    const char* name; ///< as files and options spell it
    const char* help; ///< what it is, in a few words; may be ""
} ns_choice;

typedef struct ns_choices {
    const char* what; ///< one of them, for messages: "integrator"
    const ns_choice* items;
    uint32_t count;

    /// A set that grows has a function instead of items: number k, or false behind the last.
    bool (*at)(uint32_t k, ns_choice* out);
} ns_choices;

/// The initialiser of an ns_choices over an array of rows.
#define NS_CHOICES(what, rows)                                                                     \
    { what, rows, (uint32_t)(sizeof(rows) / sizeof *(rows)), NULL }

/// Number k of a set; false behind the last.
NS_API bool ns_choice_at(const ns_choices* choices, uint32_t k, ns_choice* out);

/// Is the value in the set?
NS_API bool ns_choice_has(const ns_choices* choices, int value);

/// The name of a value; "unknown" for a value that is not in the set.
NS_API const char* ns_choice_name(const ns_choices* choices, int value);

/// The help of a value; "" for a value that is not in the set.
NS_API const char* ns_choice_help(const ns_choices* choices, int value);

/// The value of a name; false when the set has no such name.
NS_API bool ns_choice_find(const ns_choices* choices, const char* name, int* value);

/// All names, "euler, rk4, implicit". NUL-terminated; cut off, never overrun, when long.
NS_API void ns_choices_list(const ns_choices* choices, char* text, size_t size);

/// Why a name was refused, as the end of a sentence that begins with it: "is not one of: euler,
/// rk4, implicit; did you mean "rk4"?". Cut off, never overrun, when long.
NS_API void ns_choice_fault(const ns_choices* choices, const char* name, char* text, size_t size);

// ---- nearest names -----------------------------------------------------------------------------

#define NS_NEAREST_MAX 3 ///< names that are kept
#define NS_WORD_SIZE 256 ///< bytes of a name with its NUL; longer ones are not compared
#define NS_HINT_SIZE 320 ///< bytes of a hint with its NUL

/// The names most like a wanted one, nearest first: start from {.wanted = name}, offer all names
/// there are. Names are like each other when few letters must be inserted, deleted, changed or swapped, when
/// the wanted one begins the other, or when their words mean the same (angle and position, speed and
/// velocity, torque and tau..). Among equals the first that was offered comes first.
typedef struct ns_nearest {
    const char* wanted;
    uint32_t count; ///< names that are kept
    struct {
        uint32_t cost;  ///< letters, or 1 for a beginning or a word of the same meaning
        uint32_t edits; ///< letters, which decide between equal costs
        bool related;   ///< the wanted name begins this one, or means the same
        char name[NS_WORD_SIZE];
    } best[NS_NEAREST_MAX];
} ns_nearest;

NS_API void ns_nearest_offer(ns_nearest* nearest, const char* name); ///< NULL is ignored

/// Offer the names of a set.
NS_API void ns_nearest_offer_choices(ns_nearest* nearest, const ns_choices* choices);

/// The nearest name, if it is likely to be the one that was meant: at most one letter in three
/// differs, the wanted one begins it, or it means the same. Otherwise NULL.
NS_API const char* ns_nearest_likely(const ns_nearest* nearest);

/// `; did you mean "x"?` when there is a likely name, otherwise `; the nearest is "x"`, or "" when
/// none was offered. Returns `text`.
NS_API const char* ns_nearest_hint(const ns_nearest* nearest, char text[NS_HINT_SIZE]);

#ifdef __cplusplus
}
#endif

#endif
