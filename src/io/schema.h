// Formats of YAML files as tables: a row for each key says what its values are and where they go.
//
// One reader fills structs from the tree of a file by its table; unknown keys, wrong types and values out of range are
// reported with file:line:column. The tables of keys in docs/ are printed from the same rows (tools/schema_docs.c).
// What a row cannot say is read by a function of its own, and rules between keys are checked by one of the table.

#ifndef NSI_IO_SCHEMA_H
#define NSI_IO_SCHEMA_H

#include "io/yaml.h"

#include <stddef.h>

// Type of a value                where it goes
typedef enum nsi_key_type {
    NSI_KEY_NUMBER,  // double
    NSI_KEY_COUNT,   // uint32_t
    NSI_KEY_WHOLE,   // uint64_t, of any size
    NSI_KEY_FLAG,    // bool
    NSI_KEY_TEXT,    // const char*
    NSI_KEY_PATH,    // const char*: a file, from the folder of the first file of the tree
    NSI_KEY_CHOICE,  // int or an enum: a value of `choices`
    NSI_KEY_TEXTS,   // nsi_text_list; a pointer and a uint32_t behind it will do, as
    NSI_KEY_NUMBERS, // nsi_number_list
    NSI_KEY_COUNTS,  // nsi_count_list
    NSI_KEY_MAP,     // const nsi_yaml_node*: a mapping whose keys are names; read later
    NSI_KEY_TABLE,   // a struct, by `table`
    NSI_KEY_OTHER    // by `read` alone
} nsi_key_type;

typedef struct nsi_text_list {
    const char** data;
    uint32_t count;
} nsi_text_list;

typedef struct nsi_number_list {
    double* data;
    uint32_t count;
} nsi_number_list;

typedef struct nsi_count_list {
    uint32_t* data;
    uint32_t count;
} nsi_count_list;

typedef struct nsi_schema nsi_schema;

typedef struct nsi_schema_reader {
    const nsi_yaml* yaml;
    nsi_arena* arena; // receives texts and lists; that of the tree: its texts are not copied
    void* context;    // of functions
    ns_error* error;
} nsi_schema_reader;

// Reads a value, or checks a mapping, into the struct `out` that the table is about.
typedef ns_status nsi_schema_function(nsi_schema_reader* r, const nsi_yaml_node* node, void* out);

typedef struct nsi_schema_key {
    const char* name;
    nsi_key_type type;
    size_t offset;             // in the struct
    double lower, upper;       // of numbers; equal: any. A lower of DBL_MIN: greater than 0
    const ns_choices* choices; // of a choice
    const nsi_schema* table;
    nsi_schema_function* read; // after the value was read, if its type is not NSI_KEY_OTHER
    uint32_t most;             // items of a list; 0: any
    bool single;               // one value stands for a list of one
    bool filled;               // a list is not empty
    bool required;
    const char* fallback; // the default as a file would say it; in brackets: what stands for it
    const char* values;   // for docs: what a value looks like, where the type does not say it
    const char* help;     // one line, Markdown
} nsi_schema_key;

struct nsi_schema {
    const char* what; // for messages: "a stage"
    const nsi_schema_key* keys;
    uint32_t count;
    nsi_schema_function* check; // of a whole mapping after it was read, or NULL
    const nsi_schema* also;     // a mapping may have keys of this table, too, which others read
};

#define NSI_SCHEMA(text, rows, function)                                                           \
    { .what = text, .keys = rows, .count = sizeof(rows) / sizeof *(rows), .check = function }

// Set the fields of all keys that have a default.
void nsi_schema_defaults(const nsi_schema* schema, void* out);

// Read a mapping: keys in the order of the table. What is not in it stays as it is. NULL is allowed and an empty
// mapping.
ns_status nsi_schema_read(nsi_schema_reader* r, const nsi_schema* schema, const nsi_yaml_node* map,
                          void* out);

// Is it a mapping with keys of the table, and of those that follow it by `also`, alone?
ns_status nsi_schema_check_keys(const nsi_yaml* yaml, const nsi_schema* schema,
                                const nsi_yaml_node* map, ns_error* error);

// The same as nsi_schema_read() without looking for unknown keys.
ns_status nsi_schema_read_known(nsi_schema_reader* r, const nsi_schema* schema,
                                const nsi_yaml_node* map, void* out);

// The keys of a table as a list of words.
enum { NSI_SCHEMA_WORDS_SIZE = 1024 };
const char* nsi_schema_words(const nsi_schema* schema, char out[NSI_SCHEMA_WORDS_SIZE]);

// A text or path of the tree, as the reader keeps it.
ns_status nsi_schema_text(nsi_schema_reader* r, const nsi_yaml_node* node, const char** out);
ns_status nsi_schema_path(nsi_schema_reader* r, const nsi_yaml_node* node, const char** out);

// "`key` is missing: ..."
ns_status nsi_schema_missing(nsi_schema_reader* r, const nsi_yaml_node* map,
                             const nsi_schema_key* key);

// The table of keys, as Markdown.
void nsi_schema_markdown(const nsi_schema* schema, nsi_text_builder* text);

#endif
