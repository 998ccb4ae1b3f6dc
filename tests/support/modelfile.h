// For tests of model files: reading, comparing, checking and damaging them.

#ifndef TEST_MODELFILE_H
#define TEST_MODELFILE_H

#include "base/common.h"
#include "neuralsim/model.h"

// A file below tests/data, NUL-terminated; fails the test when it cannot be read. Freed by free().
char* modelfile_read(const char* path, size_t* size);

// Load a file below tests/data, or a text; fails the test, with the message, when that fails.
ns_model* modelfile_load(const char* path);
ns_model* modelfile_parse(const char* text);

// The message a text fails with; fails the test when it does not. The name of the text is "t".
const char* modelfile_error(const char* text, ns_status status);

// Does one of the notes on what was ignored contain this?
bool modelfile_notes(const ns_model* model, const char* fragment);

// Number of a link by its name; UINT32_MAX when there is none.
uint32_t modelfile_link(const ns_model* model, const char* name);

// Check what every model must satisfy: finite numbers, parents before children, unit quaternions
// and axes, coordinates and parameters without gaps. Fails the test when something is wrong.
void modelfile_check(const ns_model* model);

// Check that two models have the same links, joints and inertias, to a tolerance that is relative
// to the larger of 1 and the number (for inertias: of 1 and the larger of both tensors).
void modelfile_check_same(const ns_model* a, const ns_model* b, double tolerance);

// A damaged copy of a text: bytes changed, removed, repeated; words exchanged; numbers replaced by
// awkward ones. Freed by free().
char* modelfile_damage(ns_rng* rng, const char* text, size_t size, size_t* out_size);

// Try `count` damaged copies of files below tests/data (a list ending with NULL): each must give a
// good model, or an error whose message starts with the name and a line. Says how many were which.
void modelfile_try_damaged(const char* const* paths, uint32_t count, uint64_t seed);

// Load a text failing every allocation in turn: NS_ERR_NOMEM each time, and nothing left behind.
void modelfile_fail_allocations(const char* text);

// Load every file of tests/data/broken whose name ends like this. The first line of each is a
// comment that says what the message must contain: <!-- expect: fragment | fragment -->. A fragment
// ":7:" stands for the line. Returns how many there were.
uint32_t modelfile_try_broken(const char* ending);

// Load every file of a folder below tests/data with this ending, which has to be accepted, with a note. The first line of
// each says which: <!-- noted: fragment | fragment --> where the option `strict` accepts it too, and
// <!-- repaired: ... --> where that refuses it. The fragments, of which the first is the note's line,
// "line 7:", are in one note; that of a repair is in the message of the refusal. Returns how many
// there were.
uint32_t modelfile_try_accepted(const char* folder, const char* ending);

#endif
