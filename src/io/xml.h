// A small XML tree over expat: elements with their names, attributes, children and lines. Text
// between elements is not kept, only its line; that of elements without children is.
//
// Safe for untrusted files: document types, and with them entities, are refused; size, depth, number
// of elements, attributes of an element and length of a value are limited. Nothing is ever fetched.
// A document can be joined with others, as MJCF's <include> does; the reader of that format decides.

#ifndef NSI_IO_XML_H
#define NSI_IO_XML_H

#include "base/common.h"

enum {
    NSI_XML_MAX_SIZE = 64 << 20, // bytes
    NSI_XML_MAX_DEPTH = 512,     // elements within elements; the bodies of a chain nest
    NSI_XML_MAX_ELEMENTS = 250 * 1000,
    NSI_XML_MAX_ATTRIBUTES = 64, // of one element
    NSI_XML_MAX_VALUE = 1 << 20, // bytes; meshes and keyframes may be written in an attribute
    NSI_XML_MAX_NAME = 200       // bytes, of an element or attribute
};

typedef struct nsi_xml_attribute {
    const char *name, *value;
} nsi_xml_attribute;

typedef struct nsi_xml_element nsi_xml_element;
struct nsi_xml_element {
    const char* name;
    const nsi_xml_attribute* attributes;
    uint32_t nattributes;
    uint32_t line;
    uint32_t text_line; // of text other than white space directly inside; 0: none
    const char* text;   // of an element without children, without white space around it; or NULL
    const char* file;   // that the line is in, for messages
    nsi_xml_element *parent, *first_child, *last_child, *next;
    const nsi_xml_element* frame; // an element around it that a reader has taken out of the tree
};

typedef struct nsi_xml {
    const char* file; // its name, for messages
    nsi_arena arena;
    nsi_xml_element* root;
    uint32_t nelements;
    size_t size; // bytes read
} nsi_xml;

// Read a document. `out` must be freed in any case.
// @param file  must outlive the document
// @return NS_OK, NS_ERR_PARSE, NS_ERR_UNSUPPORTED (document type), NS_ERR_LIMIT, NS_ERR_NOMEM; the
//         message starts with file and line
ns_status nsi_xml_parse(const char* text, size_t size, const char* file,
                        const ns_allocator* allocator, nsi_xml* out, ns_error* error);
void nsi_xml_free(nsi_xml* xml);

// Read another document, whose elements live as long as those of the first. Limits hold for both
// together.
// @param file   must outlive the first document
// @param depth  levels of elements that the new ones will be put below
// @param root   receives its root element, without a parent
// @return as nsi_xml_parse()
ns_status nsi_xml_parse_more(nsi_xml* xml, const char* text, size_t size, const char* file,
                             uint32_t depth, nsi_xml_element** root, ns_error* error);

// Put the children of an element in its place. `before` is the sibling before it, or NULL.
void nsi_xml_dissolve(nsi_xml_element* element, nsi_xml_element* before);

// NULL when there is none.
const nsi_xml_attribute* nsi_xml_find(const nsi_xml_element* element, const char* attribute);
const char* nsi_xml_value(const nsi_xml_element* element, const char* attribute);

// The first child, or the next sibling, of this name; NULL when there is none.
const nsi_xml_element* nsi_xml_child(const nsi_xml_element* element, const char* name);
const nsi_xml_element* nsi_xml_next(const nsi_xml_element* element, const char* name);

#endif
