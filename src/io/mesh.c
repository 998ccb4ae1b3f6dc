// Read meshes from STL and OBJ files; mesh_ply.c and mesh_dae.c read others. The convex hull needs vertices only; faces are read when
// triangles are wanted.

#include "io/mesh_sink.h"

#include "io/file.h"
#include "io/numbers.h"
#include "math/convex_hull.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

// ---- hull ------------------------------------------------------------------------------------

enum { NAXES = 6 };

// Direction k: the axes first, then a spiral from pole to pole with equal areas (Fibonacci lattice).
static void direction(uint32_t k, double out[3]) {
    const double golden_angle = 2.39996322972865332; // pi (3 - sqrt 5)
    if (k < NAXES) {
        out[0] = out[1] = out[2] = 0.0;
        out[k / 2] = k % 2 ? 1.0 : -1.0;
        return;
    }
    double turns = golden_angle * (k - NAXES);
    double z = 1.0 - (2.0 * (k - NAXES) + 1.0) / (NSI_MESH_DIRECTIONS - NAXES);
    double radius = sqrt(1.0 - z * z);
    out[0] = radius * cos(turns), out[1] = radius * sin(turns), out[2] = z;
}

void nsi_hull_start(nsi_hull* hull, const ns_allocator* allocator) {
    *hull = (nsi_hull){.allocator = allocator};
    for (uint32_t k = 0; k < NSI_MESH_DIRECTIONS; k++) direction(k, hull->directions[k]);
}

static bool is_place(const double v[3]) {
    const double furthest = 1e9; // m; what is computed from it stays finite
    for (int i = 0; i < 3; i++) {
        if (!(fabs(v[i]) <= furthest)) return false;
    }
    return true;
}

// Number of the vertex among those at other places, of which there are `count`; `count` for a new one.
static uint32_t find_vertex_place(const nsi_index* places, const double* vertices, uint32_t count,
                                  const double place[3], uint32_t hash) {
    for (uint32_t at = nsi_index_first(places, hash), id; nsi_index_at(places, at, &id);
         at = nsi_index_next(places, at)) {
        if (memcmp(vertices + 3 * (size_t)id, place, 3 * sizeof *place) == 0) return id;
    }
    return count;
}

// Keep a vertex for the hull, unless there is one at its place, or there are too many already.
static void collect_vertex(nsi_hull* hull, const double v[3]) {
    uint32_t count = hull->vertices.count / 3;
    if (count > NSI_MESH_MAX_HULL || hull->status != NS_OK) return;
    const double place[3] = {v[0] + 0.0, v[1] + 0.0, v[2] + 0.0}; // no -0
    uint32_t hash = nsi_hash_bytes(place, sizeof place);
    if (find_vertex_place(&hull->places, hull->vertices.data, count, place, hash) < count) return;
    if (!nsi_array_reserve(hull->allocator, &hull->vertices, 3) ||
        !nsi_index_insert(hull->allocator, &hull->places, hash, count)) {
        hull->status = NS_ERR_NOMEM;
        return;
    }
    memcpy(hull->vertices.data + hull->vertices.count, place, sizeof place);
    hull->vertices.count += 3;
}

bool nsi_hull_add(nsi_hull* hull, const double v[3]) {
    if (!is_place(v)) return false;
    for (uint32_t k = 0; k < NSI_MESH_DIRECTIONS; k++) {
        const double* d = hull->directions[k];
        double reach = v[0] * d[0] + v[1] * d[1] + v[2] * d[2];
        if (hull->nvertex > 0 && reach <= hull->reach[k]) continue;
        hull->reach[k] = reach;
        memcpy(hull->furthest[k], v, sizeof hull->furthest[k]);
    }
    hull->nvertex++;
    collect_vertex(hull, v);
    return true;
}

static double square_distance(const double a[3], const double b[3]) {
    double x = a[0] - b[0], y = a[1] - b[1], z = a[2] - b[2];
    return x * x + y * y + z * z;
}

// Corners to choose from, and how far each is from the nearest that is kept, squared.
typedef struct corner_choice {
    const double* corners; // x y z of each
    uint32_t count;
    double* distance;
} corner_choice;

static void keep_corner(corner_choice* c, const double corner[3], nsi_mesh* out) {
    memcpy(out->corners + 3 * out->count++, corner, 3 * sizeof *corner);
    for (uint32_t j = 0; j < c->count; j++) {
        double square = square_distance(c->corners + 3 * (size_t)j, corner);
        c->distance[j] = fmin(c->distance[j], square);
    }
}

// Of more corners than fit: those that reach furthest along the axes, then those furthest from all that
// are kept.
static void choose_corners(const nsi_hull* hull, corner_choice* c, nsi_mesh* out) {
    for (uint32_t k = 0; k < c->count; k++) c->distance[k] = DBL_MAX;
    for (uint32_t k = 0; k < NAXES; k++) {
        bool kept = false;
        for (uint32_t j = 0; j < out->count; j++) {
            kept = kept || square_distance(out->corners + 3 * (size_t)j, hull->furthest[k]) == 0.0;
        }
        if (!kept) keep_corner(c, hull->furthest[k], out);
    }
    while (out->count < NSI_MESH_MAX_CORNERS) {
        uint32_t next = 0;
        for (uint32_t k = 1; k < c->count; k++) {
            if (c->distance[k] > c->distance[next]) next = k;
        }
        if (!(c->distance[next] > 0.0)) return; // only duplicates are left
        keep_corner(c, c->corners + 3 * (size_t)next, out);
    }
}

// Leave only corners of the hull among the collected vertices.
static void keep_hull_corners(nsi_hull* hull) {
    uint32_t count = hull->vertices.count / 3, kept = 0;
    bool* is_corner = nsi_alloc(hull->allocator, count * sizeof *is_corner);
    hull->status = is_corner ? NS_OK : NS_ERR_NOMEM;
    if (is_corner) {
        hull->status = nsi_convex_hull(hull->vertices.data, count, hull->allocator, is_corner);
    }
    for (uint32_t k = 0; k < count && hull->status == NS_OK; k++) {
        if (!is_corner[k]) continue;
        memmove(hull->vertices.data + 3 * (size_t)kept++, hull->vertices.data + 3 * (size_t)k,
                3 * sizeof(double));
    }
    hull->vertices.count = 3 * kept;
    nsi_free(hull->allocator, is_corner);
}

ns_status nsi_hull_finish(nsi_hull* hull, nsi_mesh* out) {
    *out = (nsi_mesh){0};
    bool many = hull->vertices.count / 3 > NSI_MESH_MAX_HULL;
    if (hull->status == NS_OK && hull->nvertex > 0 && !many) keep_hull_corners(hull);
    corner_choice c = {.corners = many ? hull->furthest[0] : hull->vertices.data,
                       .count = many ? NSI_MESH_DIRECTIONS : hull->vertices.count / 3};
    if (hull->status == NS_OK && c.count <= NSI_MESH_MAX_CORNERS) {
        out->count = c.count;
        if (c.count > 0) memcpy(out->corners, c.corners, 3 * c.count * sizeof *c.corners);
    } else if (hull->status == NS_OK) {
        c.distance = nsi_alloc(hull->allocator, c.count * sizeof *c.distance);
        if (c.distance) choose_corners(hull, &c, out);
        hull->status = c.distance ? NS_OK : NS_ERR_NOMEM;
    }
    nsi_free(hull->allocator, c.distance);
    nsi_array_free(hull->allocator, &hull->vertices);
    nsi_index_free(hull->allocator, &hull->places);
    return hull->status;
}

// ---- triangles -------------------------------------------------------------------------------

bool nsi_mesh_has_failed(const nsi_mesh_sink* s) {
    return s->status != NS_OK;
}

// The vertex at this place.
static uint32_t find_vertex(nsi_mesh_sink* s, const double v[3]) {
    const double place[3] = {v[0] + 0.0, v[1] + 0.0, v[2] + 0.0}; // no -0
    uint32_t hash = nsi_hash_bytes(place, sizeof place), number = s->surface->vertices.count / 3;
    uint32_t known = find_vertex_place(&s->places, s->surface->vertices.data, number, place, hash);
    if (known < number) return known;
    if (number / 3 >= s->most) { // those of triangles are never more
        s->status = NS_ERR_LIMIT;
        return 0;
    }
    if (!nsi_array_reserve(s->allocator, &s->surface->vertices, 3) ||
        !nsi_index_insert(s->allocator, &s->places, hash, number)) {
        s->status = NS_ERR_NOMEM;
        return 0;
    }
    for (int i = 0; i < 3; i++) s->surface->vertices.data[3 * number + (uint32_t)i] = place[i];
    s->surface->vertices.count += 3;
    return number;
}

void nsi_mesh_begin_face(nsi_mesh_sink* s) {
    s->ncorner = 0;
}

// The next corner of a face. From the third on each makes a triangle, unless two of its corners are
// the same.
static void add_corner(nsi_mesh_sink* s, uint32_t vertex) {
    uint32_t first = s->face[0], last = s->face[1];
    s->face[s->ncorner == 0 ? 0 : 1] = vertex;
    if (++s->ncorner < 3 || first == last || last == vertex || vertex == first) return;
    if (s->surface->triangles.count / 3 >= s->most) {
        s->status = NS_ERR_LIMIT;
    } else if (!nsi_array_reserve(s->allocator, &s->surface->triangles, 3)) {
        s->status = NS_ERR_NOMEM;
    } else {
        uint32_t* triangle = s->surface->triangles.data + s->surface->triangles.count;
        triangle[0] = first, triangle[1] = last, triangle[2] = vertex;
        s->surface->triangles.count += 3;
    }
}

bool nsi_mesh_add_point(nsi_mesh_sink* s, const double v[3]) {
    if (!s->surface) return nsi_hull_add(s->hull, v);
    if (s->loose && is_place(v) && !nsi_mesh_has_failed(s)) find_vertex(s, v);
    return is_place(v);
}

void nsi_mesh_add_corner(nsi_mesh_sink* s, const double v[3]) {
    if (s->surface && !nsi_mesh_has_failed(s)) add_corner(s, find_vertex(s, v));
}

// A vertex of an STL file, which is the corner of a face too. False when it is no place.
static bool add_vertex(nsi_mesh_sink* s, const double v[3]) {
    if (!s->surface) return nsi_hull_add(s->hull, v);
    if (!is_place(v)) return false;
    add_corner(s, find_vertex(s, v));
    return true;
}

// ---- binary STL ------------------------------------------------------------------------------

// 80 bytes of anything, the number of triangles, and for each a normal, three vertices and two bytes
// more; little-endian.
enum { STL_HEADER = 84, STL_TRIANGLE = 50, STL_VERTICES = 12 };

static uint32_t read_u32(const char* at) {
    const unsigned char* b = (const unsigned char*)at;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static double read_float(const char* at) {
    uint32_t bits = read_u32(at);
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

static ns_status parse_binary(const char* bytes, size_t size, const char* name, nsi_mesh_sink* to,
                              ns_error* error) {
    uint64_t count = read_u32(bytes + STL_HEADER - 4);
    uint64_t needed = STL_HEADER + count * STL_TRIANGLE;
    if (size < needed) {
        return nsi_fail(error, NS_ERR_PARSE,
                        "%s: cut off, or not an STL file: %llu triangles need %llu bytes, and it "
                        "has %zu",
                        name, (unsigned long long)count, (unsigned long long)needed, size);
    }
    for (uint64_t i = 0; i < count && !nsi_mesh_has_failed(to); i++) {
        nsi_mesh_begin_face(to);
        const char* at = bytes + STL_HEADER + i * STL_TRIANGLE + STL_VERTICES;
        for (int k = 0; k < 3; k++, at += 12) {
            const double vertex[3] = {read_float(at), read_float(at + 4), read_float(at + 8)};
            if (add_vertex(to, vertex)) continue;
            return nsi_fail(error, NS_ERR_PARSE,
                            "%s: triangle %llu has a vertex that is not finite or beyond 1e9", name,
                            (unsigned long long)i + 1);
        }
    }
    return NS_OK;
}

// ---- text ------------------------------------------------------------------------------------

// A text that is read word by word. Line ends are words of their own: "\n".
typedef struct words {
    const char *at, *end;
    uint32_t line;
    const char* word;
    size_t size; // 0: the end
} words;

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

static void mesh_next_word(words* w) {
    if (w->size == 1 && w->word[0] == '\n') w->line++;
    while (w->at < w->end && is_blank(*w->at)) w->at++;
    w->word = w->at;
    if (w->at < w->end && *w->at == '\n') {
        w->at++;
    } else {
        while (w->at < w->end && !is_blank(*w->at) && *w->at != '\n') w->at++;
    }
    w->size = (size_t)(w->at - w->word);
}

static bool is_word(const words* w, const char* word) {
    return w->size == strlen(word) && memcmp(w->word, word, w->size) == 0;
}

// The three numbers of a vertex; the word before them is the current one.
static ns_status mesh_read_numbers(words* w, const char* name, double vertex[3], ns_error* error) {
    for (int i = 0; i < 3; i++) {
        mesh_next_word(w);
        if (w->size > 0 && nsi_text_read_double(w->word, w->size, &vertex[i]) == NS_OK) continue;
        char quote[NSI_QUOTE_SIZE];
        return nsi_fail(error, NS_ERR_PARSE, "%s:%u: a vertex needs three numbers, not %s", name,
                        w->line, nsi_quote(w->word, w->size, quote));
    }
    if (is_place(vertex)) return NS_OK;
    return nsi_fail(error, NS_ERR_PARSE, "%s:%u: the vertex is not finite or beyond 1e9", name,
                    w->line);
}

// "vertex x y z" anywhere between "solid" and "endsolid"; those of a face are in one "loop".
static ns_status parse_text_stl(const char* bytes, size_t size, const char* name, nsi_mesh_sink* to,
                                ns_error* error) {
    words w = {.at = bytes, .end = bytes + size, .line = 1};
    bool ended = false;
    for (mesh_next_word(&w); w.size > 0 && !nsi_mesh_has_failed(to); mesh_next_word(&w)) {
        bool starts = is_word(&w, "solid"), ends = is_word(&w, "endsolid");
        if (starts || ends) {
            ended = ends;
            while (w.size > 0 && !is_word(&w, "\n")) mesh_next_word(&w); // a name, which may be any
            if (w.size == 0) break;
        }
        if (is_word(&w, "loop")) nsi_mesh_begin_face(to);
        if (!is_word(&w, "vertex")) continue;
        double vertex[3];
        ns_status status = mesh_read_numbers(&w, name, vertex, error);
        if (status != NS_OK) return status;
        add_vertex(to, vertex);
    }
    if (ended || nsi_mesh_has_failed(to)) return NS_OK;
    return nsi_fail(error, NS_ERR_PARSE, "%s:%u: cut off: there is no endsolid", name, w.line);
}

// Numbers of vertices by their order in an OBJ file.
typedef NSI_ARRAY(uint32_t) vertex_list;

// A corner of an OBJ file's face, "7", "7/1" or "7//2": vertices count from 1, and backwards from -1.
static bool read_corner(const words* w, const vertex_list* all, uint32_t* out) {
    size_t size = 0;
    while (size < w->size && w->word[size] != '/') size++;
    double number;
    if (nsi_text_read_double(w->word, size, &number) != NS_OK) return false;
    if (number < 0.0) number += (double)all->count + 1.0;
    if (!(number >= 1.0 && number <= (double)all->count) || number != floor(number)) return false;
    *out = all->data[(uint32_t)number - 1];
    return true;
}

// A line that starts with "f"; afterwards its end is the current word.
static ns_status read_face(words* w, const char* name, const vertex_list* all, nsi_mesh_sink* to,
                           ns_error* error) {
    bool comment = false;
    nsi_mesh_begin_face(to);
    for (mesh_next_word(w); w->size > 0 && !is_word(w, "\n"); mesh_next_word(w)) {
        uint32_t vertex;
        if (comment || w->word[0] == '#') {
            comment = true;
            continue;
        }
        if (!read_corner(w, all, &vertex)) {
            char quote[NSI_QUOTE_SIZE];
            return nsi_fail(error, NS_ERR_PARSE, "%s:%u: %s is no vertex of a face", name, w->line,
                            nsi_quote(w->word, w->size, quote));
        }
        add_corner(to, vertex);
    }
    return NS_OK;
}

// Lines that start with "v", and for surfaces with "f".
static ns_status parse_obj(const char* bytes, size_t size, const char* name, nsi_mesh_sink* to,
                           ns_error* error) {
    words w = {.at = bytes, .end = bytes + size, .line = 1};
    vertex_list all = {0};
    ns_status status = NS_OK;
    bool starts = true;
    for (mesh_next_word(&w); w.size > 0 && status == NS_OK && !nsi_mesh_has_failed(to);
         mesh_next_word(&w)) {
        double vertex[3];
        if (starts && is_word(&w, "v")) {
            status = mesh_read_numbers(&w, name, vertex, error);
            if (status != NS_OK) break;
            if (!to->surface) {
                nsi_hull_add(to->hull, vertex);
            } else if (!nsi_array_push(to->allocator, &all, find_vertex(to, vertex))) {
                to->status = NS_ERR_NOMEM;
            }
        } else if (starts && to->surface && is_word(&w, "f")) {
            status = read_face(&w, name, &all, to, error);
        }
        starts = is_word(&w, "\n");
    }
    nsi_array_free(to->allocator, &all);
    return status;
}

// ---- files -----------------------------------------------------------------------------------

static ns_status parse_stl(const char* bytes, size_t size, const char* name, nsi_mesh_sink* to,
                           ns_error* error);

// Formats by the ending of the name.
typedef struct mesh_format {
    const char* ending;
    ns_status (*parse)(const char* bytes, size_t size, const char* name, nsi_mesh_sink* to,
                       ns_error* error);
} mesh_format;

static const mesh_format formats[] = {
    {".stl", parse_stl},
    {".obj", parse_obj},
    {".ply", nsi_mesh_parse_ply},
    {".dae", nsi_mesh_parse_dae},
};

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

// NULL for a format that is not read.
static const mesh_format* format_of(const char* name) {
    size_t length = strlen(name);
    if (length < 4) return NULL;
    char ending[5] = "";
    for (int i = 0; i < 4; i++) ending[i] = lower(name[length - 4 + (size_t)i]);
    for (size_t k = 0; k < sizeof formats / sizeof *formats; k++) {
        if (strcmp(ending, formats[k].ending) == 0) return &formats[k];
    }
    return NULL;
}

// Text begins with "solid", but so do some binary files; those have the right size.
static bool is_binary_stl(const char* bytes, size_t size) {
    const char mark[] = "solid";
    if (size < sizeof mark - 1 || memcmp(bytes, mark, sizeof mark - 1) != 0) return true;
    return size >= STL_HEADER &&
           size == STL_HEADER + (uint64_t)read_u32(bytes + STL_HEADER - 4) * STL_TRIANGLE;
}

static ns_status parse_stl(const char* bytes, size_t size, const char* name, nsi_mesh_sink* to,
                           ns_error* error) {
    if (!is_binary_stl(bytes, size)) return parse_text_stl(bytes, size, name, to, error);
    if (size >= STL_HEADER) return parse_binary(bytes, size, name, to, error);
    return nsi_fail(error, NS_ERR_PARSE, "%s: not an STL file: it has %zu bytes", name, size);
}

static ns_status mesh_parse(const char* bytes, size_t size, const char* name, nsi_mesh_sink* to,
                            ns_error* error) {
    const mesh_format* format = format_of(name);
    if (!format) {
        return nsi_fail(error, NS_ERR_UNSUPPORTED, "%s: is not " NSI_MESH_FORMATS, name);
    }
    if (size > NSI_MESH_MAX_SIZE) {
        return nsi_fail(error, NS_ERR_LIMIT, "%s: larger than %d MiB", name,
                        NSI_MESH_MAX_SIZE >> 20);
    }
    ns_status status = format->parse(bytes, size, name, to, error);
    if (to->status == NS_ERR_NOMEM) return nsi_fail_nomem(error);
    if (to->status == NS_OK) return status;
    return nsi_fail(error, to->status, "%s: has more than %u triangles", name, to->most);
}

ns_status nsi_mesh_parse(const char* bytes, size_t size, const char* name,
                         const ns_allocator* allocator, nsi_mesh* out, ns_error* error) {
    nsi_hull hull;
    nsi_hull_start(&hull, allocator);
    ns_status status = mesh_parse(bytes, size, name,
                                  &(nsi_mesh_sink){.hull = &hull, .allocator = allocator}, error);
    ns_status finished = nsi_hull_finish(&hull, out);
    if (status != NS_OK) *out = (nsi_mesh){0};
    if (status != NS_OK) return status;
    if (finished != NS_OK) return nsi_fail_nomem(error);
    if (out->count > 0) return NS_OK;
    return nsi_fail(error, NS_ERR_PARSE, "%s: has no vertices", name);
}

// The triangles of the convex hull of the vertices.
static ns_status cover_vertices(const char* name, uint32_t most, const ns_allocator* allocator,
                                nsi_surface* surface, ns_error* error) {
    uint32_t *triangles = NULL, count = 0;
    ns_status status = nsi_convex_hull_triangles(
        surface->vertices.data, surface->vertices.count / 3, allocator, &triangles, &count);
    if (status == NS_OK && count > most) {
        status = nsi_fail(error, NS_ERR_LIMIT, "%s: has more than %u triangles", name, most);
    } else if (status == NS_OK && count == 0) {
        status = nsi_fail(error, NS_ERR_PARSE,
                          "%s: has no triangles, and its vertices have no convex hull", name);
    } else if (status == NS_OK && !nsi_array_reserve(allocator, &surface->triangles, 3 * count)) {
        status = nsi_fail_nomem(error);
    } else if (status == NS_OK) {
        memcpy(surface->triangles.data, triangles, 3 * (size_t)count * sizeof *triangles);
        surface->triangles.count = 3 * count;
    } else {
        nsi_fail_nomem(error);
    }
    nsi_free(allocator, triangles);
    return status;
}

ns_status nsi_surface_parse(const char* bytes, size_t size, const char* name, uint32_t most,
                            const ns_allocator* allocator, nsi_surface* out, ns_error* error) {
    *out = (nsi_surface){0};
    nsi_mesh_sink to = {.surface = out, .allocator = allocator, .most = most};
    ns_status status = mesh_parse(bytes, size, name, &to, error);
    nsi_index_free(allocator, &to.places);
    if (status != NS_OK || out->triangles.count > 0) return status;

    // Vertices alone stand for their convex hull.
    nsi_surface_free(allocator, out);
    *out = (nsi_surface){0};
    to = (nsi_mesh_sink){.surface = out, .allocator = allocator, .most = most, .loose = true};
    status = mesh_parse(bytes, size, name, &to, error);
    nsi_index_free(allocator, &to.places);
    return status == NS_OK ? cover_vertices(name, most, allocator, out, error) : status;
}

void nsi_surface_free(const ns_allocator* allocator, nsi_surface* surface) {
    nsi_array_free(allocator, &surface->vertices);
    nsi_array_free(allocator, &surface->triangles);
}

bool nsi_mesh_is_path(const char* path) {
    return format_of(path) != NULL;
}

// What cannot be read need not be opened.
static ns_status read_bytes(const char* path, const ns_allocator* allocator, nsi_bytes* out,
                            ns_error* error) {
    if (!nsi_mesh_is_path(path)) return NS_OK;
    return nsi_file_read(path, NSI_MESH_MAX_SIZE, allocator, out, error);
}

ns_status nsi_mesh_read(const char* path, const ns_allocator* allocator, nsi_mesh* out,
                        ns_error* error) {
    nsi_bytes bytes = {0};
    *out = (nsi_mesh){0};
    ns_status status = read_bytes(path, allocator, &bytes, error);
    if (status == NS_OK)
        status = nsi_mesh_parse(bytes.data, bytes.count, path, allocator, out, error);
    nsi_array_free(allocator, &bytes);
    return status;
}

ns_status nsi_surface_read(const char* path, uint32_t most, const ns_allocator* allocator,
                           nsi_surface* out, ns_error* error) {
    nsi_bytes bytes = {0};
    *out = (nsi_surface){0};
    ns_status status = read_bytes(path, allocator, &bytes, error);
    if (status == NS_OK) {
        status = nsi_surface_parse(bytes.data, bytes.count, path, most, allocator, out, error);
    }
    nsi_array_free(allocator, &bytes);
    return status;
}
