// Read PLY files: a header that lists elements and their properties, then their values, as text or
// binary in either byte order. What counts are x, y and z of the element vertex and the list
// vertex_indices (or vertex_index) of the element face; everything else is skipped.

#include "io/mesh_sink.h"

#include "io/numbers.h"

#include <stdio.h>

enum { MAX_PROPERTIES = 64, MAX_ELEMENTS = 16, MAX_CORNERS = 4096 };

typedef enum ply_type {
    INT8,
    UINT8,
    INT16,
    UINT16,
    INT32,
    UINT32,
    FLOAT32,
    FLOAT64,
    NO_TYPE
} ply_type;

typedef struct ply_property {
    ply_type type;
    ply_type count; // of a list: the type of its length; otherwise NO_TYPE
    int axis;       // of a vertex: 0, 1, 2 for x, y, z; -1
    bool corners;   // of a face: its vertices
} ply_property;

typedef struct ply_element {
    uint64_t count;
    bool vertex, face;
    uint32_t nproperty;
    ply_property properties[MAX_PROPERTIES];
} ply_element;

typedef enum ply_format { ASCII, LITTLE, BIG } ply_format;

typedef struct ply {
    const char *at, *end, *name;
    uint32_t line; // of the header or of a text
    ply_format format;
    uint32_t nelement;
    ply_element elements[MAX_ELEMENTS];
    NSI_ARRAY(double) vertices; // x y z of each
    nsi_mesh_sink* to;
    ns_error* error;
} ply;

static ns_status ply_fail(const ply* p, const char* what) {
    return nsi_fail(p->error, NS_ERR_PARSE, "%s:%u: %s", p->name, p->line, what);
}

// ---- header ----------------------------------------------------------------------------------

// The next line, without its end and cut into at most `max` words. False at the end of the file.
static bool next_line(ply* p, char words[][32], uint32_t max, uint32_t* count) {
    const char* newline = p->at < p->end ? memchr(p->at, '\n', (size_t)(p->end - p->at)) : NULL;
    if (!newline) return false;
    *count = 0;
    const char* at = p->at;
    while (at < newline) {
        while (at < newline && (*at == ' ' || *at == '\t' || *at == '\r')) at++;
        size_t size = 0;
        while (at + size < newline && at[size] != ' ' && at[size] != '\t' && at[size] != '\r')
            size++;
        if (size > 0 && *count < max) {
            snprintf(words[*count], 32, "%.*s", (int)(size < 31 ? size : 31), at);
            (*count)++;
        }
        at += size;
    }
    p->at = newline + 1;
    p->line++;
    return true;
}

static ply_type type_of(const char* word) {
    static const char* const names[][2] = {
        {"char", "int8"}, {"uchar", "uint8"}, {"short", "int16"},   {"ushort", "uint16"},
        {"int", "int32"}, {"uint", "uint32"}, {"float", "float32"}, {"double", "float64"},
    };
    for (int k = 0; k < NO_TYPE; k++) {
        if (strcmp(word, names[k][0]) == 0 || strcmp(word, names[k][1]) == 0) return (ply_type)k;
    }
    return NO_TYPE;
}

static ns_status read_element(ply* p, char words[][32], uint32_t count) {
    double number;
    if (count < 3 || nsi_text_read_double(words[2], strlen(words[2]), &number) != NS_OK ||
        !(number >= 0.0 && number <= UINT32_MAX) || number != (double)(uint32_t)number) {
        return ply_fail(p, "an element needs a name and a whole number of items");
    }
    if (p->nelement == MAX_ELEMENTS) return ply_fail(p, "more than 16 elements");
    p->elements[p->nelement++] = (ply_element){.count = (uint64_t)number,
                                               .vertex = strcmp(words[1], "vertex") == 0,
                                               .face = strcmp(words[1], "face") == 0};
    return NS_OK;
}

static ns_status read_property(ply* p, char words[][32], uint32_t count) {
    bool list = count > 1 && strcmp(words[1], "list") == 0;
    if (p->nelement == 0 || count < (list ? 5u : 3u)) return ply_fail(p, "a property of nothing");
    ply_element* element = &p->elements[p->nelement - 1];
    const char* name = words[list ? 4 : 2];
    ply_property property = {.type = type_of(words[list ? 3 : 1]),
                             .count = list ? type_of(words[2]) : NO_TYPE,
                             .axis = -1};
    if (property.type == NO_TYPE || (list && property.count > UINT32)) {
        return ply_fail(p, "a property has no type");
    }
    if (element->nproperty == MAX_PROPERTIES) return ply_fail(p, "more than 64 properties");
    if (element->vertex && !list && name[0] >= 'x' && name[0] <= 'z' && name[1] == '\0') {
        property.axis = name[0] - 'x';
    }
    property.corners = element->face && list &&
                       (strcmp(name, "vertex_indices") == 0 || strcmp(name, "vertex_index") == 0);
    element->properties[element->nproperty++] = property;
    return NS_OK;
}

static ns_status read_header(ply* p) {
    char words[5][32];
    uint32_t count;
    if (!next_line(p, words, 5, &count) || count != 1 || strcmp(words[0], "ply") != 0) {
        return ply_fail(p, "not a PLY file");
    }
    ns_status status = NS_OK;
    bool formatted = false;
    while (status == NS_OK) {
        if (!next_line(p, words, 5, &count)) return ply_fail(p, "cut off: there is no end_header");
        if (count == 0) continue;
        if (strcmp(words[0], "end_header") == 0) break;
        if (strcmp(words[0], "format") == 0 && count > 1) {
            formatted = true;
            if (strcmp(words[1], "ascii") == 0) {
                p->format = ASCII;
            } else if (strcmp(words[1], "binary_little_endian") == 0) {
                p->format = LITTLE;
            } else if (strcmp(words[1], "binary_big_endian") == 0) {
                p->format = BIG;
            } else {
                return ply_fail(p, "the format is unknown");
            }
        } else if (strcmp(words[0], "element") == 0) {
            status = read_element(p, words, count);
        } else if (strcmp(words[0], "property") == 0) {
            status = read_property(p, words, count);
        } // comments and the like
    }
    return status == NS_OK && !formatted ? ply_fail(p, "there is no format") : status;
}

// ---- values ----------------------------------------------------------------------------------

static bool read_binary(ply* p, ply_type type, double* out) {
    static const size_t sizes[] = {1, 1, 2, 2, 4, 4, 4, 8};
    size_t size = sizes[type];
    if ((size_t)(p->end - p->at) < size) return false;
    uint64_t bits = 0;
    for (size_t i = 0; i < size; i++) {
        uint64_t byte = (unsigned char)p->at[p->format == LITTLE ? i : size - 1 - i];
        bits |= byte << (8 * i);
    }
    p->at += size;
    float single;
    uint32_t low = (uint32_t)bits;
    switch (type) {
    case INT8: *out = (double)(int8_t)bits; break;
    case INT16: *out = (double)(int16_t)bits; break;
    case INT32: *out = (double)(int32_t)bits; break;
    case FLOAT32:
        memcpy(&single, &low, sizeof single);
        *out = (double)single;
        break;
    case FLOAT64: memcpy(out, &bits, sizeof *out); break;
    default: *out = (double)bits; break;
    }
    return true;
}

static bool read_value(ply* p, ply_type type, double* out) {
    if (p->format != ASCII) return read_binary(p, type, out);
    for (; p->at < p->end && (unsigned char)*p->at <= ' '; p->at++) p->line += *p->at == '\n';
    size_t size = 0;
    while (p->at + size < p->end && (unsigned char)p->at[size] > ' ') size++;
    bool read = size > 0 && nsi_text_read_double(p->at, size, out) == NS_OK;
    p->at += size;
    return read;
}

// A list: the corners of a face go to the mesh.
static ns_status read_list(ply* p, const ply_property* property) {
    double count, value;
    const uint32_t nvertex = p->vertices.count / 3;
    if (!read_value(p, property->count, &count) || !(count >= 0.0 && count <= MAX_CORNERS) ||
        count != (double)(uint32_t)count) {
        return ply_fail(p, "cut off, or a list with a length that is not 0 to 4096");
    }
    if (property->corners) nsi_mesh_begin_face(p->to);
    for (uint32_t k = 0; k < (uint32_t)count; k++) {
        if (!read_value(p, property->type, &value)) return ply_fail(p, "cut off inside of a list");
        if (!property->corners) continue;
        if (!(value >= 0.0 && value < nvertex) || value != (double)(uint32_t)value) {
            return ply_fail(p, "a face has a corner that is no vertex");
        }
        nsi_mesh_add_corner(p->to, p->vertices.data + 3 * (size_t)(uint32_t)value);
    }
    return NS_OK;
}

static ns_status read_item(ply* p, const ply_element* element) {
    double place[3] = {0.0, 0.0, 0.0};
    for (uint32_t k = 0; k < element->nproperty; k++) {
        const ply_property* property = &element->properties[k];
        double value;
        if (property->count != NO_TYPE) {
            ns_status status = read_list(p, property);
            if (status != NS_OK) return status;
        } else if (!read_value(p, property->type, &value)) {
            return ply_fail(p, "cut off, or not a number");
        } else if (property->axis >= 0) {
            place[property->axis] = value;
        }
    }
    if (!element->vertex) return NS_OK;
    if (!nsi_mesh_add_point(p->to, place)) {
        return ply_fail(p, "a vertex is not finite or beyond 1e9");
    }
    if (!nsi_array_reserve(p->to->allocator, &p->vertices, 3)) return nsi_fail_nomem(p->error);
    memcpy(p->vertices.data + p->vertices.count, place, sizeof place);
    p->vertices.count += 3;
    return NS_OK;
}

// Do vertices have x, y and z? Other elements need none.
static bool has_place(const ply_element* element) {
    uint32_t axes = 0;
    for (uint32_t k = 0; k < element->nproperty; k++) {
        if (element->properties[k].axis >= 0) axes |= 1u << element->properties[k].axis;
    }
    return !element->vertex || element->count == 0 || axes == 7;
}

ns_status nsi_mesh_parse_ply(const char* bytes, size_t size, const char* name, nsi_mesh_sink* to,
                             ns_error* error) {
    ply p = {.at = bytes, .end = bytes + size, .name = name, .line = 1, .to = to, .error = error};
    ns_status status = read_header(&p);
    for (uint32_t i = 0; i < p.nelement && status == NS_OK; i++) {
        if (!has_place(&p.elements[i])) status = ply_fail(&p, "vertices need x, y and z");
        // Elements without properties take no room, however many they are.
        if (p.elements[i].nproperty == 0) continue;
        for (uint64_t k = 0; k < p.elements[i].count && status == NS_OK; k++) {
            if (nsi_mesh_has_failed(to)) break;
            status = read_item(&p, &p.elements[i]);
        }
    }
    nsi_array_free(to->allocator, &p.vertices);
    return status;
}
