// YAML as a small tree in which every node has its file, line and column.
//
// Safe for untrusted files: sizes and depth are bounded; aliases, anchors, tags, several
// documents and repeated keys are refused. libyaml takes its memory from malloc, not from the
// allocator.
//
// A file may extend another one: `extends: base.yaml` at its top. Its values override those of the base;
// mappings merge key by key, lists and values replace, null removes a key of the base. The merged tree
// has the order of the base. Every node knows the file it comes from.

#ifndef NSI_IO_YAML_H
#define NSI_IO_YAML_H

#include "base/common.h"

enum {
    NSI_YAML_MAX_SIZE = 4 << 20, // bytes of a file
    NSI_YAML_MAX_DEPTH = 32,
    NSI_YAML_MAX_NODES = 1 << 20, // of a file and its bases together
    NSI_YAML_MAX_BASES = 8        // a file that extends one that extends one..
};

// A file that nodes come from.
typedef struct nsi_yaml_source {
    const char* file;   // for messages
    const char* folder; // from the folder of the first file to that of this one: "", "../base/"
} nsi_yaml_source;

typedef enum nsi_yaml_type { NSI_YAML_SCALAR, NSI_YAML_LIST, NSI_YAML_MAP } nsi_yaml_type;

typedef struct nsi_yaml_node nsi_yaml_node;
struct nsi_yaml_node {
    nsi_yaml_type type;
    uint32_t line, column; // from 1
    const char* key;       // of an entry of a map, otherwise NULL
    uint32_t key_line, key_column;
    const char* text;           // of a scalar, UTF-8 without control characters
    bool plain;                 // a scalar without quotes
    const nsi_yaml_node* first; // of a list or map: its entries in order
    const nsi_yaml_node* next;
    const nsi_yaml_node* parent;
    uint32_t count; // of entries
    const nsi_yaml_source* source;
};

typedef struct nsi_yaml {
    const char* file;          // for messages; must outlive the tree
    const nsi_yaml_node* root; // never NULL; of an empty file an empty text
    uint32_t nnode;            // that were read
    nsi_arena arena;
} nsi_yaml;

// Read a file and the files that it extends, or text that stands for a file and extends none. `out` is to be
// freed after success, and may be in any case.
// @return NS_OK; NS_ERR_IO; NS_ERR_PARSE and NS_ERR_LIMIT with "file:line:column: what is wrong;
//         what to do"; NS_ERR_NOMEM
ns_status nsi_yaml_read(const char* path, const ns_allocator* allocator, nsi_yaml* out,
                        ns_error* error);
ns_status nsi_yaml_parse(const char* text, size_t size, const char* path,
                         const ns_allocator* allocator, nsi_yaml* out, ns_error* error);
void nsi_yaml_free(nsi_yaml* yaml); // zeroed and freed ones are allowed

// Read text as one more tree of `out`, whose root stays as it is. The source must outlive it.
ns_status nsi_yaml_parse_into(nsi_yaml* out, const nsi_yaml_source* source, const char* text,
                              size_t size, nsi_yaml_node** root, ns_error* error);

// A copy of a mapping of another tree as a tree of its own, its `extends` followed.
// @param skip    keys of the mapping that are left out, separated by spaces; `extends` never is
// @param before  NULL, or a finder for what `extends` names other than files: it returns NULL when there is none, or
//                the mapping that is extended, of the same tree as `map`
typedef const nsi_yaml_node* nsi_yaml_finder(void* context, const char* name);
ns_status nsi_yaml_derive(const nsi_yaml* yaml, const nsi_yaml_node* map, const char* skip,
                          nsi_yaml_finder* before, void* context, const ns_allocator* allocator,
                          nsi_yaml* out, ns_error* error);

// Write `status` and "file:line:column: ..." for the node into `error`. NULL is the root.
void nsi_yaml_set_error(const nsi_yaml* yaml, const nsi_yaml_node* node, ns_error* error,
                        ns_status status, const char* format, ...) NSI_PRINTF(5, 6);

// The same as an expression with the value NS_ERR_PARSE or NS_ERR_LIMIT; see nsi_fail().
#define nsi_yaml_fail(yaml, node, error, ...)                                                      \
    (nsi_yaml_set_error((yaml), (node), (error), NS_ERR_PARSE, __VA_ARGS__),                       \
     nsi_same_status(NS_ERR_PARSE))
#define nsi_yaml_fail_limit(yaml, node, error, ...)                                                \
    (nsi_yaml_set_error((yaml), (node), (error), NS_ERR_LIMIT, __VA_ARGS__),                       \
     nsi_same_status(NS_ERR_LIMIT))

// Nothing, `~` or `null`?
bool nsi_yaml_is_null(const nsi_yaml_node* node);

// The entry of a map, or NULL.
const nsi_yaml_node* nsi_yaml_find(const nsi_yaml_node* map, const char* key);

// Is it a map (or absent: NULL is allowed) all of whose keys are in `keys`, words separated by
// spaces? If not, the message names the key, the nearest one allowed, and all that are.
// @param what  "loss", for messages
ns_status nsi_yaml_check_map(const nsi_yaml* yaml, const nsi_yaml_node* node, const char* what,
                             const char* keys, ns_error* error);

// Is it a list (or absent)?
ns_status nsi_yaml_check_list(const nsi_yaml* yaml, const nsi_yaml_node* node, ns_error* error);

// Values of scalars. When `node` is NULL the result is left as it is. Messages start with the key of
// the value, or of the list that it is in. DBL_MIN as the lower bound of a number stands for "greater
// than 0".
ns_status nsi_yaml_number(const nsi_yaml* yaml, const nsi_yaml_node* node, double lower,
                          double upper, double* out, ns_error* error); // finite
ns_status nsi_yaml_count(const nsi_yaml* yaml, const nsi_yaml_node* node, uint32_t lower,
                         uint32_t upper, uint32_t* out, ns_error* error);
ns_status nsi_yaml_whole(const nsi_yaml* yaml, const nsi_yaml_node* node, uint64_t lower,
                         uint64_t upper, uint64_t* out, ns_error* error);
ns_status nsi_yaml_flag(const nsi_yaml* yaml, const nsi_yaml_node* node, bool* out,
                        ns_error* error); // true, false
ns_status nsi_yaml_text(const nsi_yaml* yaml, const nsi_yaml_node* node, const char** out,
                        ns_error* error); // not empty; lives as long as the tree
// The value of a name in a closed set.
ns_status nsi_yaml_choice(const nsi_yaml* yaml, const nsi_yaml_node* node,
                          const ns_choices* choices, int* out, ns_error* error);

// ---- writing ---------------------------------------------------------------------------------

// Does YAML, of any version, take this plain text for something else than a text?
bool nsi_yaml_is_typed(const char* text);

// A text that is one line of UTF-8 (nsi_line_fault()), in double quotes; and as a value, without quotes
// where it is plainly a text.
void nsi_yaml_add_quoted(nsi_text_builder* text, const char* value);
void nsi_yaml_add_text(nsi_text_builder* text, const char* value);

// A node as a file, from which the same tree is read; comments are gone.
void nsi_yaml_add_node(nsi_text_builder* text, const nsi_yaml_node* node);

#endif
