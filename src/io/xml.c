// A small XML tree over expat.

#include "io/xml.h"

#include <expat.h>
#include <stdio.h>

// ---- memory ------------------------------------------------------------------------------------

// expat takes its memory from three functions without a user pointer. A parser lives only inside
// nsi_xml_parse(), so the allocator of the call is where they find it: one per thread. A call from
// within an allocator's own functions would put its own in place, and back.
static _Thread_local const ns_allocator* current;

static void* expat_alloc(size_t size) {
    return nsi_alloc(current, size);
}

static void* expat_realloc(void* block, size_t size) {
    return current->realloc(current->user, block, size > 0 ? size : 1);
}

static void expat_free(void* block) {
    nsi_free(current, block);
}

// ---- handlers ----------------------------------------------------------------------------------

typedef struct xml_reader {
    XML_Parser parser;
    nsi_xml* xml;
    const char* file;
    nsi_xml_element* root;
    nsi_xml_element* open; // innermost element that has begun
    uint32_t depth;
    NSI_ARRAY(char) text; // so far, of the innermost element if it has no children
    ns_status status;     // of the first failure
    ns_error* error;
} xml_reader;

static uint32_t current_line(const xml_reader* reader) {
    return (uint32_t)XML_GetCurrentLineNumber(reader->parser);
}

static void stop(xml_reader* reader, ns_status status, const char* what) {
    if (reader->status != NS_OK) return;
    reader->status = status == NS_ERR_NOMEM ? nsi_fail_nomem(reader->error)
                                            : nsi_fail(reader->error, status, "%s:%u: %s",
                                                       reader->file, current_line(reader), what);
    XML_StopParser(reader->parser, XML_FALSE);
}

// `pairs` is name, value, name, value, ..., NULL.
static bool copy_attributes(xml_reader* reader, nsi_xml_element* element, const char** pairs) {
    // Count first, to allocate once.
    uint32_t count = 0;
    while (pairs[2 * count]) {
        // Bounds the memory of an element.
        if (++count > NSI_XML_MAX_ATTRIBUTES) {
            stop(reader, NS_ERR_LIMIT, "an element has more than 64 attributes");
            return false;
        }
    }
    if (count == 0) return true;

    // Expat frees its strings after the call, so they are copied.
    nsi_arena* arena = &reader->xml->arena;
    nsi_xml_attribute* attributes = nsi_arena_alloc(arena, count * sizeof *attributes);
    bool kept = attributes != NULL;
    for (uint32_t i = 0; i < count && kept; i++) {
        // Expat passes names and values in turn.
        const char *name = pairs[2 * i], *value = pairs[2 * i + 1];
        // Long values have no place in a robot file.
        if (strlen(name) > NSI_XML_MAX_NAME || strlen(value) > NSI_XML_MAX_VALUE) {
            stop(reader, NS_ERR_LIMIT, "the name or value of an attribute is too long");
            return false;
        }
        attributes[i].name = nsi_arena_string(arena, name, strlen(name));
        attributes[i].value = nsi_arena_string(arena, value, strlen(value));
        kept = attributes[i].name && attributes[i].value;
    }

    // Attributes become visible only when all of them are complete.

    if (!kept) {
        stop(reader, NS_ERR_NOMEM, "");
        return false;
    }
    element->attributes = attributes;
    element->nattributes = count;
    return true;
}

static void XMLCALL on_start(void* user, const char* name, const char** attributes) {
    // Limits bound the memory that a hostile file can claim.
    xml_reader* reader = user;
    nsi_xml* xml = reader->xml;
    // Expat may call once more after an error.
    if (reader->status != NS_OK) return;
    if (reader->depth >= NSI_XML_MAX_DEPTH) {
        stop(reader, NS_ERR_LIMIT, "elements are nested more than 512 deep");
        return;
    }
    // Large robots have a few thousand.
    if (xml->nelements >= NSI_XML_MAX_ELEMENTS) {
        stop(reader, NS_ERR_LIMIT, "there are more than 250000 elements");
        return;
    }
    if (strlen(name) > NSI_XML_MAX_NAME) {
        stop(reader, NS_ERR_LIMIT, "the name of an element is too long");
        return;
    }

    // Copy the element into the arena of the document.
    nsi_xml_element* element = nsi_arena_alloc(&xml->arena, sizeof *element);
    const char* copy = nsi_arena_string(&xml->arena, name, strlen(name));
    if (!element || !copy) {
        stop(reader, NS_ERR_NOMEM, "");
        return;
    }
    // The line number serves messages.
    *element = (nsi_xml_element){
        .name = copy, .line = current_line(reader), .file = reader->file, .parent = reader->open};
    if (!copy_attributes(reader, element, attributes)) return;

    // Append to the parent's children.
    nsi_xml_element* parent = reader->open;
    // The first element is the root.
    if (!parent) {
        reader->root = element;
    } else if (parent->last_child) {
        parent->last_child = parent->last_child->next = element;
    } else {
        parent->first_child = parent->last_child = element;
    }

    // Elements that follow are its children, until it is closed.
    reader->open = element;
    reader->text.count = 0;
    reader->depth++;
    xml->nelements++;
}

static bool is_white(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// The text of an element that ends, if it has no children.
static bool keep_text(xml_reader* reader) {
    nsi_xml_element* element = reader->open;
    if (element->first_child || element->text_line == 0) return true;
    const char* text = reader->text.data;
    size_t size = reader->text.count;
    while (size > 0 && is_white(text[size - 1])) size--;
    while (size > 0 && is_white(*text)) text++, size--;
    element->text = nsi_arena_string(&reader->xml->arena, text, size);
    if (!element->text) stop(reader, NS_ERR_NOMEM, "");
    return element->text != NULL;
}

static void XMLCALL on_end(void* user, const char* name) {
    xml_reader* reader = user;
    (void)name; // expat has seen to it that it is the right one
    if (reader->status != NS_OK || !keep_text(reader)) return;
    reader->open = reader->open->parent;
    reader->depth--;
}

static void XMLCALL on_text(void* user, const char* text, int length) {
    xml_reader* reader = user;
    nsi_xml_element* element = reader->open;
    if (!element || reader->status != NS_OK) return;
    for (int i = 0; i < length && element->text_line == 0; i++) {
        if (!is_white(text[i])) element->text_line = current_line(reader);
    }
    if (element->first_child || element->text_line == 0) return;
    const ns_allocator* allocator = &reader->xml->arena.allocator;
    if (!nsi_array_reserve(allocator, &reader->text, (uint32_t)length)) {
        stop(reader, NS_ERR_NOMEM, "");
        return;
    }
    memcpy(reader->text.data + reader->text.count, text, (size_t)length);
    reader->text.count += (uint32_t)length;
}

// Without a document type there are no entities but the five of XML itself, and nothing to expand.
static void XMLCALL on_doctype(void* user, const char* name, const char* system_id,
                               const char* public_id, int has_internal_subset) {
    (void)name, (void)system_id, (void)public_id, (void)has_internal_subset;
    stop(user, NS_ERR_UNSUPPORTED,
         "document types and entities are not accepted; remove <!DOCTYPE>");
}

// ---- parse -------------------------------------------------------------------------------------

static ns_status run_parser(xml_reader* reader, const char* text, size_t size) {
    XML_SetUserData(reader->parser, reader);
    XML_SetElementHandler(reader->parser, on_start, on_end);
    XML_SetCharacterDataHandler(reader->parser, on_text);
    XML_SetStartDoctypeDeclHandler(reader->parser, on_doctype);

    // All at once: expat then never has to look at a long token twice.
    enum XML_Status result = XML_Parse(reader->parser, text, (int)size, XML_TRUE);
    if (reader->status != NS_OK) return reader->status;
    if (result == XML_STATUS_OK) return NS_OK;
    enum XML_Error code = XML_GetErrorCode(reader->parser);
    if (code == XML_ERROR_NO_MEMORY) return nsi_fail_nomem(reader->error);
    return nsi_fail(reader->error, NS_ERR_PARSE, "%s:%u: not well-formed XML at column %u: %s",
                    reader->file, current_line(reader),
                    (uint32_t)XML_GetCurrentColumnNumber(reader->parser) + 1,
                    XML_ErrorString(code));
}

ns_status nsi_xml_parse_more(nsi_xml* xml, const char* text, size_t size, const char* file,
                             uint32_t depth, nsi_xml_element** root, ns_error* error) {
    *root = NULL;
    if (size > NSI_XML_MAX_SIZE - xml->size) {
        return nsi_fail(error, NS_ERR_LIMIT,
                        xml->size == 0 ? "%s:1: the file is larger than %d MiB"
                                       : "%s:1: the files together are larger than %d MiB",
                        file, NSI_XML_MAX_SIZE >> 20);
    }
    xml->size += size;

    const ns_allocator *outer = current, own = xml->arena.allocator;
    current = &own;
    static const XML_Memory_Handling_Suite memory = {expat_alloc, expat_realloc, expat_free};
    ns_status status;
    XML_Parser parser = XML_ParserCreate_MM(NULL, &memory, NULL);
    if (parser) {
        xml_reader reader = {
            .parser = parser, .xml = xml, .file = file, .depth = depth, .error = error};
        status = run_parser(&reader, text, size);
        if (status == NS_OK) *root = reader.root;
        XML_ParserFree(parser);
        nsi_array_free(&own, &reader.text);
    } else {
        status = nsi_fail_nomem(error);
    }
    current = outer;
    return status;
}

ns_status nsi_xml_parse(const char* text, size_t size, const char* file,
                        const ns_allocator* allocator, nsi_xml* out, ns_error* error) {
    ns_allocator own = allocator ? *allocator : ns_default_allocator();
    *out = (nsi_xml){.file = file, .arena = {.allocator = own}};
    return nsi_xml_parse_more(out, text, size, file, 0, &out->root, error);
}

void nsi_xml_free(nsi_xml* xml) {
    nsi_arena_free(&xml->arena);
    xml->root = NULL;
}

// ---- joining -----------------------------------------------------------------------------------

void nsi_xml_dissolve(nsi_xml_element* element, nsi_xml_element* before) {
    nsi_xml_element *parent = element->parent, *first = element->first_child;
    for (nsi_xml_element* child = first; child; child = child->next) child->parent = parent;

    // Without children, what follows the element takes its place.
    nsi_xml_element* next = first ? first : element->next;
    if (first) element->last_child->next = element->next;
    if (before) {
        before->next = next;
    } else {
        parent->first_child = next;
    }
    if (parent->last_child == element) parent->last_child = first ? element->last_child : before;
    element->first_child = element->last_child = element->next = NULL;
}

// ---- finding -----------------------------------------------------------------------------------

const nsi_xml_attribute* nsi_xml_find(const nsi_xml_element* element, const char* attribute) {
    for (uint32_t i = 0; i < element->nattributes; i++) {
        if (strcmp(element->attributes[i].name, attribute) == 0) return &element->attributes[i];
    }
    return NULL;
}

const char* nsi_xml_value(const nsi_xml_element* element, const char* attribute) {
    const nsi_xml_attribute* found = nsi_xml_find(element, attribute);
    return found ? found->value : NULL;
}

const nsi_xml_element* nsi_xml_child(const nsi_xml_element* element, const char* name) {
    const nsi_xml_element* child = element->first_child;
    while (child && strcmp(child->name, name) != 0) child = child->next;
    return child;
}

const nsi_xml_element* nsi_xml_next(const nsi_xml_element* element, const char* name) {
    const nsi_xml_element* next = element->next;
    while (next && strcmp(next->name, name) != 0) next = next->next;
    return next;
}
