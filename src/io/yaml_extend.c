// Files of YAML that extend others, and trees from parts of trees.

#include "io/file.h"
#include "io/numbers.h"
#include "io/yaml.h"

#include <stdio.h>

// What is read at the moment: a file, or a mapping within one, and what extends it.
typedef struct chain {
    const struct chain* up;
    const char* path;
    uint32_t depth;
} chain;

// How `extends` is followed.
typedef struct extension {
    nsi_yaml* out;
    const char* skip; // keys of mappings that are copied
    nsi_yaml_finder* find;
    void* context;
    const nsi_yaml_source *copied, *copy; // the last source that was copied
    ns_error* error;
} extension;

static ns_status follow_extends(extension* x, nsi_yaml_node* map, const chain* at,
                                nsi_yaml_node** merged);

// ---- copies ----------------------------------------------------------------------------------

static const char* copy_string(extension* x, const char* text) {
    return text ? nsi_arena_string(&x->out->arena, text, strlen(text)) : NULL;
}

static const nsi_yaml_source* copy_source(extension* x, const nsi_yaml_source* source) {
    if (!source || source == x->copied) return source ? x->copy : NULL;
    nsi_yaml_source* copy = nsi_arena_alloc(&x->out->arena, sizeof *copy);
    if (!copy) return NULL;
    *copy = (nsi_yaml_source){copy_string(x, source->file), copy_string(x, source->folder)};
    if (!copy->file || !copy->folder) return NULL;
    x->copied = source;
    x->copy = copy;
    return copy;
}

static bool is_word_of(const char* words, const char* word) {
    size_t size = strlen(word);
    for (const char* at = words; (at = strstr(at, word)) != NULL; at += size) {
        bool begins = at == words || at[-1] == ' ';
        if (begins && (at[size] == ' ' || at[size] == '\0')) return true;
    }
    return false;
}

// A deep copy, without the keys of `skip` at its top. NULL when out of memory. Recursion is bounded by the
// depth of a tree.
static nsi_yaml_node* copy_node(extension* x, const nsi_yaml_node* node, const char* skip) {
    nsi_yaml_node* copy = nsi_arena_alloc(&x->out->arena, sizeof *copy);
    if (!copy) return NULL;
    *copy = *node;
    copy->parent = copy->next = copy->first = NULL;
    copy->count = 0;
    copy->key = copy_string(x, node->key);
    copy->text = copy_string(x, node->text);
    copy->source = copy_source(x, node->source);
    if ((node->key && !copy->key) || (node->text && !copy->text) ||
        (node->source && !copy->source)) {
        return NULL;
    }
    const nsi_yaml_node** next = &copy->first;
    for (const nsi_yaml_node* n = node->first; n; n = n->next) {
        if (n->key && strcmp(n->key, "extends") != 0 && is_word_of(skip, n->key)) continue;
        nsi_yaml_node* entry = copy_node(x, n, "");
        if (!entry) return NULL;
        entry->parent = copy;
        *next = entry;
        next = &entry->next;
        copy->count++;
    }
    return copy;
}

// ---- merging ---------------------------------------------------------------------------------

// Entries of a mapping by their keys.
typedef struct key_index {
    NSI_ARRAY(nsi_yaml_node*) entries; // NULL: removed
    nsi_index index;
} key_index;

static bool index_keys(const ns_allocator* memory, const nsi_yaml_node* map, key_index* out) {
    for (const nsi_yaml_node* n = map->first; n; n = n->next) {
        uint32_t hash = nsi_hash_bytes(n->key, strlen(n->key));
        if (!nsi_array_push(memory, &out->entries, (nsi_yaml_node*)n) ||
            !nsi_index_insert(memory, &out->index, hash, out->entries.count - 1)) {
            return false;
        }
    }
    return true;
}

static nsi_yaml_node** find_key(const key_index* keys, const char* key) {
    if (!keys->index.ids) return NULL;
    uint32_t hash = nsi_hash_bytes(key, strlen(key));
    for (uint32_t at = nsi_index_first(&keys->index, hash), id; nsi_index_at(&keys->index, at, &id);
         at = nsi_index_next(&keys->index, at)) {
        nsi_yaml_node* entry = keys->entries.data[id];
        if (entry && strcmp(entry->key, key) == 0) return &keys->entries.data[id];
    }
    return NULL;
}

static void replace_node(nsi_yaml_node* old, const nsi_yaml_node* new) {
    const nsi_yaml_node *next = old->next, *parent = old->parent;
    *old = *new;
    old->next = next;
    old->parent = parent;
    for (const nsi_yaml_node* n = old->first; n; n = n->next) ((nsi_yaml_node*)n)->parent = old;
}

static ns_status merge_maps(extension* x, nsi_yaml_node* base, const nsi_yaml_node* over);

// One entry of a mapping over the base's.
static ns_status merge_entry(extension* x, key_index* keys, nsi_yaml_node* entry) {
    nsi_yaml_node** old = find_key(keys, entry->key);
    bool removes = nsi_yaml_is_null(entry);
    if (!old && removes) {
        return nsi_yaml_fail(x->out, entry, x->error,
                             "null removes %.100s from what this extends, which has no such key",
                             entry->key);
    }
    if (!old) {
        bool pushed = nsi_array_push(&x->out->arena.allocator, &keys->entries, entry);
        return pushed ? NS_OK : nsi_fail_nomem(x->error);
    }
    if (removes) {
        *old = NULL;
    } else if ((*old)->type == NSI_YAML_MAP && entry->type == NSI_YAML_MAP) {
        return merge_maps(x, *old, entry);
    } else {
        replace_node(*old, entry);
    }
    return NS_OK;
}

// Entries of `over` into `base`, in the order of the base; new ones come after.
static ns_status merge_maps(extension* x, nsi_yaml_node* base, const nsi_yaml_node* over) {
    const ns_allocator* memory = &x->out->arena.allocator;
    key_index keys = {0};
    ns_status status = index_keys(memory, base, &keys) ? NS_OK : nsi_fail_nomem(x->error);

    for (const nsi_yaml_node *n = over->first, *next; n && status == NS_OK; n = next) {
        next = n->next; // it may get another neighbour
        status = merge_entry(x, &keys, (nsi_yaml_node*)n);
    }

    // Chain what is left.
    const nsi_yaml_node** link = &base->first;
    base->count = 0;
    for (uint32_t k = 0; k < keys.entries.count; k++) {
        nsi_yaml_node* entry = keys.entries.data[k];
        if (!entry) continue;
        entry->parent = base;
        *link = entry;
        link = &entry->next;
        base->count++;
    }
    *link = NULL;
    nsi_array_free(memory, &keys.entries);
    nsi_index_free(memory, &keys.index);
    return status;
}

// ---- files -----------------------------------------------------------------------------------

static ns_status read_source(extension* x, const nsi_yaml_source* source, const chain* at,
                             nsi_yaml_node** root) {
    nsi_bytes text = {0};
    const ns_allocator* memory = &x->out->arena.allocator;
    // One byte past the limit is read, so that the parser sees that it is too much.
    ns_status status = nsi_file_read(at->path, NSI_YAML_MAX_SIZE, memory, &text, x->error);
    if (status == NS_OK) {
        status = nsi_yaml_parse_into(x->out, source, text.data, text.count, root, x->error);
    }
    nsi_array_free(memory, &text);
    if (status == NS_OK) status = follow_extends(x, *root, at, root);
    return status;
}

// "<a><b>" from the arena, where an absolute b stands alone. NULL when out of memory.
static const char* join_path(extension* x, const char* a, const char* b, size_t b_size) {
    size_t size = *b == '/' ? 0 : strlen(a);
    char* path = nsi_arena_alloc(&x->out->arena, size + b_size + 1);
    if (!path) return NULL;
    memcpy(path, a, size);
    memcpy(path + size, b, b_size);
    path[size + b_size] = '\0';
    return path;
}

// The file that `node`, a value of `extends`, names.
static ns_status read_base(extension* x, const nsi_yaml_node* node, const char* name,
                           const chain* at, nsi_yaml_node** root) {
    // The folder of the base, for paths inside it.
    const char* slash = strrchr(name, '/');
    const char* first = strrchr(x->out->file, '/');
    size_t folder = slash ? (size_t)(slash - name) + 1 : 0;

    // Resolve the path against the file that extends it, which may itself be a base.
    nsi_yaml_source* source = nsi_arena_alloc(&x->out->arena, sizeof *source);
    const char* near = join_path(x, node->source->folder, name, strlen(name));
    const char* start =
        join_path(x, "", x->out->file, first ? (size_t)(first - x->out->file) + 1 : 0);
    const char* path = near && start ? join_path(x, start, near, strlen(near)) : NULL;
    // Paths live as long as the document.
    if (!source || !path) return nsi_fail_nomem(x->error);
    *source = (nsi_yaml_source){path, join_path(x, node->source->folder, name, folder)};
    if (!source->folder) return nsi_fail_nomem(x->error);

    // A cycle of files would never end.
    char quote[NSI_QUOTE_SIZE];
    // Walk up the chain of files.
    for (const chain* c = at; c; c = c->up) {
        if (c->path && strcmp(c->path, path) == 0) {
            nsi_quote(name, strlen(name), quote);
            return c == at ? nsi_yaml_fail(x->out, node, x->error,
                                           "extends: %s is this file; name another one", quote)
                           : nsi_yaml_fail(x->out, node, x->error,
                                           "extends: %s extends this file, so they extend each"
                                           " other; remove `extends` from one of them",
                                           quote);
        }
    }

    if (!nsi_file_exists(path)) {
        return nsi_fail(x->error, NS_ERR_IO, "%.200s:%u:%u: extends: there is no file %.200s",
                        node->source->file, node->line, node->column, path);
    }

    // Read it, with its own `extends`.
    chain next = {at, path, at->depth + 1};
    return read_source(x, source, &next, root);
}

static void remove_entry(nsi_yaml_node* map, const nsi_yaml_node* entry) {
    const nsi_yaml_node** link = &map->first;
    while (*link && *link != entry) link = &((nsi_yaml_node*)*link)->next;
    if (!*link) return;
    *link = entry->next;
    map->count--;
}

// What a mapping extends, with the mapping on top; itself when it extends nothing.
static ns_status follow_extends(extension* x, nsi_yaml_node* map, const chain* at,
                                nsi_yaml_node** merged) {
    // Without `extends`, the mapping is complete.
    *merged = map;
    const nsi_yaml_node* node = nsi_yaml_find(map, "extends");
    const char* name = NULL;
    if (!node) return NS_OK;

    ns_status status = nsi_yaml_text(x->out, node, &name, x->error);
    if (status != NS_OK) return status;
    // Long chains are cycles or attacks.
    if (at->depth == NSI_YAML_MAX_BASES) {
        return nsi_yaml_fail_limit(x->out, node, x->error,
                                   "extends: more than %d files extend one another",
                                   NSI_YAML_MAX_BASES);
    }
    // The key has done its work; schemas do not know it.
    remove_entry(map, node);

    // The base is a mapping of the same file, or another file.
    const nsi_yaml_node* other = x->find ? x->find(x->context, name) : NULL;
    nsi_yaml_node* base = NULL;
    if (other) {
        // Copied, because several mappings may extend it.
        chain next = {at, NULL, at->depth + 1};
        base = copy_node(x, other, x->skip);
        if (!base) return nsi_fail_nomem(x->error);
        status = follow_extends(x, base, &next, &base);
    } else {
        status = read_base(x, node, name, at, &base);
    }

    // Only mappings can be merged.
    if (status == NS_OK && base->type != NSI_YAML_MAP) {
        status = nsi_yaml_fail(x->out, base, x->error, "a file that is extended is a mapping");
    }

    // Own keys override those of the base.
    if (status == NS_OK) status = merge_maps(x, base, map);
    *merged = base;
    return status;
}

// ---- trees -----------------------------------------------------------------------------------

static ns_status begin_tree(const char* path, const ns_allocator* allocator, nsi_yaml* out,
                            nsi_yaml_source** source, ns_error* error) {
    ns_allocator memory = allocator ? *allocator : ns_default_allocator();
    *out = (nsi_yaml){.file = path, .arena.allocator = memory};
    *source = nsi_arena_alloc(&out->arena, sizeof **source);
    if (!*source) return nsi_fail_nomem(error);
    **source = (nsi_yaml_source){path, ""};
    return NS_OK;
}

static ns_status end_tree(nsi_yaml* out, const nsi_yaml_node* root, ns_status status) {
    out->root = root;
    if (status != NS_OK) nsi_yaml_free(out);
    return status;
}

ns_status nsi_yaml_parse(const char* text, size_t size, const char* path,
                         const ns_allocator* allocator, nsi_yaml* out, ns_error* error) {
    nsi_yaml_source* source;
    nsi_yaml_node* root = NULL;
    ns_status status = begin_tree(path, allocator, out, &source, error);
    if (status == NS_OK) {
        status = nsi_yaml_parse_into(out, source, text, size, &root, error);
    }
    const nsi_yaml_node* extends = status == NS_OK ? nsi_yaml_find(root, "extends") : NULL;
    if (extends) {
        status = nsi_yaml_fail(out, extends, error,
                               "extends: only a file can extend another; this text is none");
    }
    return end_tree(out, root, status);
}

ns_status nsi_yaml_read(const char* path, const ns_allocator* allocator, nsi_yaml* out,
                        ns_error* error) {
    nsi_yaml_source* source;
    nsi_yaml_node* root = NULL;
    extension x = {.out = out, .skip = "", .error = error};
    chain first = {NULL, path, 0};
    ns_status status = begin_tree(path, allocator, out, &source, error);
    if (status == NS_OK) status = read_source(&x, source, &first, &root);
    return end_tree(out, root, status);
}

ns_status nsi_yaml_derive(const nsi_yaml* yaml, const nsi_yaml_node* map, const char* skip,
                          nsi_yaml_finder* before, void* context, const ns_allocator* allocator,
                          nsi_yaml* out, ns_error* error) {
    nsi_yaml_source* source;
    nsi_yaml_node* root = NULL;
    extension x = {.out = out, .skip = skip, .find = before, .context = context, .error = error};
    chain first = {NULL, yaml->file, 0};
    ns_status status = begin_tree(yaml->file, allocator, out, &source, error);
    if (status == NS_OK) root = copy_node(&x, map, skip);
    if (status == NS_OK && !root) status = nsi_fail_nomem(error);
    if (status == NS_OK) status = follow_extends(&x, root, &first, &root);
    return end_tree(out, root, status);
}
