// Read the triangles of COLLADA files (.dae): the geometries that the nodes of the visual scene name, with
// the transforms of the nodes and the unit of the file. Without a scene all geometries count as they are.
//
// The file's up_axis is left out of account: that is what rviz, MoveIt and Gazebo do, and robots' files are
// written to look right there, whatever they say about it.
//
// Materials, normals, textures, animations and skins are skipped. Nothing else is opened.

#include "io/mesh_sink.h"

#include "io/numbers.h"
#include "io/xml.h"

#include <math.h>
#include <stdio.h>

// Libraries are read once for each node that names them, so that a small file can be a lot of work.
enum { MAX_LEVELS = 64, MAX_INSTANCES = 2000, MAX_POINTS = 1 << 22, MAX_CORNERS = 1 << 26 };

typedef NSI_ARRAY(double) number_list;

// An id, and the element that it is looked for in.
typedef struct dae_id {
    const nsi_xml_element* below;
    const char* name;
    const nsi_xml_element* element;
} dae_id;

typedef struct dae {
    const nsi_xml* xml;
    const char* name;
    nsi_mesh_sink* to;
    const ns_allocator* allocator;
    NSI_ARRAY(dae_id) ids;
    nsi_index id_index;
    uint32_t instances;       // of nodes and geometries so far
    uint32_t points, corners; // read so far
    ns_error* error;
} dae;

typedef double matrix4[4][4];

static ns_status dae_fail(const dae* d, const nsi_xml_element* element, const char* what) {
    return nsi_fail(d->error, NS_ERR_PARSE, "%s:%u: <%.40s> %s", d->name, element->line,
                    element->name, what);
}

// ---- numbers and names -----------------------------------------------------------------------

// The next number of a text, or false at its end or when it is none.
static bool next_number(const char** at, double* out) {
    const char* word = *at;
    while (*word && (unsigned char)*word <= ' ') word++;
    size_t size = 0;
    while ((unsigned char)word[size] > ' ') size++;
    *at = word + size;
    return size > 0 && nsi_text_read_double(word, size, out) == NS_OK;
}

// The next whole number below `limit`.
static bool next_index(const char** at, uint32_t limit, uint32_t* out) {
    double value;
    if (!next_number(at, &value) || !(value >= 0.0 && value < limit)) return false;
    *out = (uint32_t)value;
    return value == (double)*out;
}

static uint32_t index_value(const nsi_xml_element* element, const char* attribute,
                            uint32_t otherwise) {
    const char* text = nsi_xml_value(element, attribute);
    uint32_t value;
    return text && next_index(&text, UINT32_MAX, &value) ? value : otherwise;
}

// ---- ids -------------------------------------------------------------------------------------

static uint32_t id_hash(const nsi_xml_element* below, const char* id) {
    uint32_t parts[2] = {nsi_hash_bytes(&below, sizeof below), nsi_hash_bytes(id, strlen(id))};
    return nsi_hash_bytes(parts, sizeof parts);
}

// The element with this id that was found inside of another one; `url` may start with '#'.
static const nsi_xml_element* find_id(const dae* d, const nsi_xml_element* below, const char* url) {
    if (!url || d->ids.count == 0) return NULL;
    if (*url == '#') url++;
    for (uint32_t at = nsi_index_first(&d->id_index, id_hash(below, url)), k;
         nsi_index_at(&d->id_index, at, &k); at = nsi_index_next(&d->id_index, at)) {
        const dae_id* id = &d->ids.data[k];
        if (id->below == below && strcmp(id->name, url) == 0) return id->element;
    }
    return NULL;
}

// Of several elements with the same id the first counts.
static bool add_id(dae* d, const nsi_xml_element* below, const nsi_xml_element* element) {
    const char* name = nsi_xml_value(element, "id");
    if (!name || find_id(d, below, *name == '#' ? "" : name)) return true;
    dae_id id = {below, name, element};
    return nsi_array_push(d->allocator, &d->ids, id) &&
           nsi_index_insert(d->allocator, &d->id_index, id_hash(below, name), d->ids.count - 1);
}

// Ids of all elements, by the element that they are directly in; nodes also by the library that they are
// anywhere in. Recursion is bounded by the depth of a document.
static bool collect_ids(dae* d, const nsi_xml_element* parent, const nsi_xml_element* library) {
    if (strcmp(parent->name, "library_nodes") == 0) library = parent;
    for (const nsi_xml_element* e = parent->first_child; e; e = e->next) {
        if (!add_id(d, parent, e) || (library && !add_id(d, library, e)) ||
            !collect_ids(d, e, library)) {
            return false;
        }
    }
    return true;
}

// ---- geometries ------------------------------------------------------------------------------

// Positions of a <source>, transformed and added to the mesh.
static ns_status read_positions(dae* d, const nsi_xml_element* source, const matrix4 pose,
                                number_list* out) {
    const nsi_xml_element *array = nsi_xml_child(source, "float_array"),
                          *technique = nsi_xml_child(source, "technique_common"),
                          *accessor = technique ? nsi_xml_child(technique, "accessor") : NULL;
    if (!array || !array->text) return NS_OK; // a mesh may be empty
    uint32_t stride = accessor ? index_value(accessor, "stride", 1) : 3;
    uint32_t offset = accessor ? index_value(accessor, "offset", 0) : 0;
    uint32_t count = accessor ? index_value(accessor, "count", UINT32_MAX) : UINT32_MAX;
    if (stride < 3 || stride > 64) return dae_fail(d, source, "has no x, y and z");

    const char* at = array->text;
    double value;
    for (uint32_t i = 0; i < offset && next_number(&at, &value);) i++;
    for (uint32_t i = 0; i < count; i++) {
        double v[3] = {0.0}, place[3];
        uint32_t read = 0;
        while (read < stride && next_number(&at, &value)) {
            if (read < 3) v[read] = value;
            read++;
        }
        if (read < 3 && *at != '\0') return dae_fail(d, array, "has something that is no number");
        if (read < 3) break;
        for (int r = 0; r < 3; r++) {
            place[r] = pose[r][0] * v[0] + pose[r][1] * v[1] + pose[r][2] * v[2] + pose[r][3];
        }
        if (++d->points > MAX_POINTS) return dae_fail(d, array, "makes more than 4194304 vertices");
        if (!nsi_mesh_add_point(d->to, place)) {
            return dae_fail(d, array, "has a vertex that is not finite or beyond 1e9");
        }
        if (!nsi_array_reserve(d->allocator, out, 3)) return nsi_fail_nomem(d->error);
        memcpy(out->data + out->count, place, sizeof place);
        out->count += 3;
    }
    return NS_OK;
}

// How the corners of a primitive are written: indices of several inputs in turn, of which the one of the
// position counts.
typedef struct dae_corners {
    const char* at;
    uint32_t stride, offset;
    const number_list* vertices;
} dae_corners;

// The vertex of the next corner. False at the end of the text, and when it is none: `at` is then not at the
// end.
static bool next_corner(dae_corners* c, const double** out) {
    uint32_t vertex = 0, index;
    for (uint32_t k = 0; k < c->stride; k++) {
        const char* before = c->at;
        if (!next_index(&c->at, k == c->offset ? c->vertices->count / 3 : UINT32_MAX, &index)) {
            if (*c->at || k > 0) c->at = before;
            return false;
        }
        if (k == c->offset) vertex = index;
    }
    *out = c->vertices->data + 3 * (size_t)vertex;
    return true;
}

static bool is_blank(const char* text) {
    while (*text && (unsigned char)*text <= ' ') text++;
    return *text == '\0';
}

// Faces of `count` corners each, or as <vcount> says; UINT32_MAX: all corners are one face.
static ns_status read_faces(dae* d, const nsi_xml_element* primitive, const nsi_xml_element* p,
                            dae_corners* c, uint32_t count) {
    const nsi_xml_element* vcount = nsi_xml_child(primitive, "vcount");
    const char* counts = vcount && vcount->text ? vcount->text : NULL;
    const double* corner;
    while (!is_blank(c->at) && d->corners < MAX_CORNERS && !nsi_mesh_has_failed(d->to)) {
        uint32_t n = count;
        if (counts && !next_index(&counts, UINT32_MAX, &n)) {
            return dae_fail(d, vcount, "has fewer faces than there are corners for");
        }
        nsi_mesh_begin_face(d->to);
        for (uint32_t k = 0; k < n; k++) {
            if (count == UINT32_MAX && is_blank(c->at)) break;
            d->corners++;
            if (!next_corner(c, &corner)) {
                return dae_fail(d, p, "is cut off, or has a corner that is no vertex");
            }
            nsi_mesh_add_corner(d->to, corner);
        }
    }
    return d->corners < MAX_CORNERS ? NS_OK : dae_fail(d, p, "is one of too many faces");
}

// A strip: each corner from the third on makes a triangle with the two before it.
static ns_status read_strip(dae* d, const nsi_xml_element* p, dae_corners* c) {
    const double *last[2] = {NULL, NULL}, *corner;
    for (uint32_t k = 0; !is_blank(c->at) && !nsi_mesh_has_failed(d->to); k++) {
        if (++d->corners >= MAX_CORNERS) return dae_fail(d, p, "is one of too many strips");
        if (!next_corner(c, &corner)) {
            return dae_fail(d, p, "is cut off, or has a corner that is no vertex");
        }
        if (k >= 2) { // every other triangle is turned around
            nsi_mesh_begin_face(d->to);
            nsi_mesh_add_corner(d->to, last[k % 2]);
            nsi_mesh_add_corner(d->to, last[(k + 1) % 2]);
            nsi_mesh_add_corner(d->to, corner);
        }
        last[k % 2] = corner;
    }
    return NS_OK;
}

static ns_status read_primitive(dae* d, const nsi_xml_element* primitive,
                                const number_list* vertices) {
    dae_corners c = {.stride = 0, .offset = UINT32_MAX, .vertices = vertices};
    for (const nsi_xml_element* input = nsi_xml_child(primitive, "input"); input;
         input = nsi_xml_next(input, "input")) {
        const char* semantic = nsi_xml_value(input, "semantic");
        uint32_t offset = index_value(input, "offset", 0);
        if (offset >= 64) return dae_fail(d, input, "has an offset of 64 or more");
        if (offset + 1 > c.stride) c.stride = offset + 1;
        if (semantic && strcmp(semantic, "VERTEX") == 0) c.offset = offset;
    }
    if (c.offset == UINT32_MAX) return dae_fail(d, primitive, "has no input VERTEX");

    bool strips = strcmp(primitive->name, "tristrips") == 0;
    bool whole =
        strcmp(primitive->name, "polygons") == 0 || strcmp(primitive->name, "trifans") == 0;
    ns_status status = NS_OK;
    for (const nsi_xml_element* p = nsi_xml_child(primitive, "p"); p && status == NS_OK;
         p = nsi_xml_next(p, "p")) {
        c.at = p->text ? p->text : "";
        status =
            strips ? read_strip(d, p, &c) : read_faces(d, primitive, p, &c, whole ? UINT32_MAX : 3);
    }
    return status;
}

static ns_status read_geometry(dae* d, const nsi_xml_element* geometry, const matrix4 pose) {
    static const char primitives[][10] = {"triangles", "polylist", "polygons", "trifans",
                                          "tristrips"};
    const nsi_xml_element* mesh = nsi_xml_child(geometry, "mesh");
    const nsi_xml_element* vertices = mesh ? nsi_xml_child(mesh, "vertices") : NULL;
    const nsi_xml_element* input = vertices ? nsi_xml_child(vertices, "input") : NULL;
    while (input && strcmp(nsi_xml_value(input, "semantic") ? nsi_xml_value(input, "semantic") : "",
                           "POSITION") != 0) {
        input = nsi_xml_next(input, "input");
    }
    const nsi_xml_element* source = input ? find_id(d, mesh, nsi_xml_value(input, "source")) : NULL;
    if (!source) return NS_OK; // a spline, or nothing

    number_list places = {0};
    ns_status status = read_positions(d, source, pose, &places);
    // A hull takes no faces.
    const nsi_xml_element* first = d->to->surface ? mesh->first_child : NULL;
    for (const nsi_xml_element* e = first; e && status == NS_OK; e = e->next) {
        for (size_t k = 0; k < sizeof primitives / sizeof *primitives && status == NS_OK; k++) {
            if (strcmp(e->name, primitives[k]) == 0) status = read_primitive(d, e, &places);
        }
    }
    nsi_array_free(d->allocator, &places);
    return status;
}

// ---- nodes -----------------------------------------------------------------------------------

static void multiply(matrix4 into, const matrix4 by) {
    matrix4 product;
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 4; j++) {
            product[i][j] = 0.0;
            for (int k = 0; k < 4; k++) product[i][j] += into[i][k] * by[k][j];
        }
    }
    memcpy(into, product, sizeof product);
}

static void set_identity(matrix4 m) {
    memset(m, 0, sizeof(matrix4));
    for (int i = 0; i < 4; i++) m[i][i] = 1.0;
}

// One transform of a node, applied inside of those before it; other elements change nothing.
static ns_status apply_transform(dae* d, const nsi_xml_element* e, matrix4 pose) {
    static const struct {
        const char* name;
        int count;
    } kinds[] = {{"matrix", 16}, {"translate", 3}, {"rotate", 4}, {"scale", 3}};
    int kind = 0;
    while (kind < 4 && strcmp(e->name, kinds[kind].name) != 0) kind++;
    if (kind == 4) return NS_OK;
    double v[16];
    const char* at = e->text ? e->text : "";
    for (int k = 0; k < kinds[kind].count; k++) {
        if (!next_number(&at, &v[k])) return dae_fail(d, e, "needs more numbers");
    }

    matrix4 m;
    set_identity(m);
    if (kind == 0) {
        for (int k = 0; k < 16; k++) m[k / 4][k % 4] = v[k];
    } else if (kind == 1) {
        for (int i = 0; i < 3; i++) m[i][3] = v[i];
    } else if (kind == 3) {
        for (int i = 0; i < 3; i++) m[i][i] = v[i];
    } else {
        // Rodrigues: R = cos 1 + sin [n]x + (1 - cos) n n', degrees.
        double length = sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
        double angle = v[3] * 3.14159265358979323846 / 180.0, c = cos(angle), s = sin(angle);
        if (length == 0.0) return NS_OK;
        for (int i = 0; i < 3; i++) v[i] /= length;
        const double cross[3][3] = {{0, -v[2], v[1]}, {v[2], 0, -v[0]}, {-v[1], v[0], 0}};
        for (int i = 0; i < 3; i++) {
            for (int j = 0; j < 3; j++) {
                m[i][j] = (i == j ? c : 0.0) + s * cross[i][j] + (1.0 - c) * v[i] * v[j];
            }
        }
    }
    multiply(pose, (const double(*)[4])m);
    return NS_OK;
}

static const nsi_xml_element* find_geometry(const dae* d, const nsi_xml_element* instance) {
    const nsi_xml_element* library = nsi_xml_child(d->xml->root, "library_geometries");
    const char* url = nsi_xml_value(instance, "url");
    const nsi_xml_element* found = NULL;
    for (; library && !found; library = nsi_xml_next(library, "library_geometries")) {
        found = find_id(d, library, url);
    }
    return found;
}

// A node with all inside of it. Recursion is bounded: libraries could name each other.
static ns_status read_node(dae* d, const nsi_xml_element* node, const matrix4 outer, int level) {
    matrix4 pose;
    memcpy(pose, outer, sizeof pose);
    if (level > MAX_LEVELS || ++d->instances > MAX_INSTANCES) {
        return dae_fail(d, node, "nests too deep, or there are too many nodes");
    }
    ns_status status = NS_OK;
    for (const nsi_xml_element* e = node->first_child; e && status == NS_OK; e = e->next) {
        if (nsi_mesh_has_failed(d->to)) break;
        const nsi_xml_element* target = NULL;
        if (strcmp(e->name, "node") == 0) {
            target = e;
        } else if (strcmp(e->name, "instance_node") == 0) {
            const nsi_xml_element* library = nsi_xml_child(d->xml->root, "library_nodes");
            target = library ? find_id(d, library, nsi_xml_value(e, "url")) : NULL;
        }
        if (target) {
            status = read_node(d, target, (const double(*)[4])pose, level + 1);
        } else if (strcmp(e->name, "instance_geometry") == 0) {
            const nsi_xml_element* geometry = find_geometry(d, e);
            if (++d->instances > MAX_INSTANCES) return dae_fail(d, node, "has too many instances");
            if (geometry) status = read_geometry(d, geometry, (const double(*)[4])pose);
        } else {
            status = apply_transform(d, e, pose);
        }
    }
    return status;
}

// The scene that is shown, or the first one.
static const nsi_xml_element* find_scene(const dae* d) {
    const nsi_xml_element* root = d->xml->root;
    const nsi_xml_element *library = nsi_xml_child(root, "library_visual_scenes"),
                          *scene = nsi_xml_child(root, "scene"),
                          *instance = scene ? nsi_xml_child(scene, "instance_visual_scene") : NULL;
    if (!library) return NULL;
    const nsi_xml_element* named =
        instance ? find_id(d, library, nsi_xml_value(instance, "url")) : NULL;
    return named ? named : nsi_xml_child(library, "visual_scene");
}

// Metres of a unit; 1 where the file does not say.
static ns_status read_unit(const dae* d, double* out) {
    const nsi_xml_element *asset = nsi_xml_child(d->xml->root, "asset"),
                          *unit = asset ? nsi_xml_child(asset, "unit") : NULL;
    const char* meter = unit ? nsi_xml_value(unit, "meter") : NULL;
    *out = 1.0;
    if (!meter || (next_number(&meter, out) && *out > 0.0 && isfinite(*out))) return NS_OK;
    return dae_fail(d, unit, "needs a positive number of metres");
}

static ns_status read_collada(dae* d) {
    matrix4 pose;
    set_identity(pose);
    double unit;
    ns_status status = read_unit(d, &unit);
    if (status != NS_OK) return status;
    for (int i = 0; i < 3; i++) pose[i][i] = unit;
    const nsi_xml_element* scene = find_scene(d);
    if (scene) return read_node(d, scene, (const double(*)[4])pose, 0);

    const nsi_xml_element* library = nsi_xml_child(d->xml->root, "library_geometries");
    const nsi_xml_element* geometry = library ? nsi_xml_child(library, "geometry") : NULL;
    for (; geometry && status == NS_OK; geometry = nsi_xml_next(geometry, "geometry")) {
        status = read_geometry(d, geometry, (const double(*)[4])pose);
    }
    return status;
}

ns_status nsi_mesh_parse_dae(const char* bytes, size_t size, const char* name, nsi_mesh_sink* to,
                             ns_error* error) {
    nsi_xml xml;
    ns_status status = nsi_xml_parse(bytes, size, name, to->allocator, &xml, error);
    dae d = {.xml = &xml, .name = name, .to = to, .allocator = to->allocator, .error = error};
    if (status == NS_OK && strcmp(xml.root->name, "COLLADA") != 0) {
        status = dae_fail(&d, xml.root, "is not the root of a COLLADA file");
    }
    if (status == NS_OK && !collect_ids(&d, xml.root, NULL)) status = nsi_fail_nomem(error);
    if (status == NS_OK) status = read_collada(&d);
    nsi_array_free(to->allocator, &d.ids);
    nsi_index_free(to->allocator, &d.id_index);
    nsi_xml_free(&xml);
    return status;
}
