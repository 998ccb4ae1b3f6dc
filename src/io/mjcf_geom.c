// Geoms of MJCF, their masses, and the meshes, outlines and materials they refer to.

#include "io/file.h"
#include "io/mjcf.h"
#include "io/numbers.h"
#include "model/pose.h"
#include "neuralsim/table.h"

#include <math.h>

// ---- assets ----------------------------------------------------------------------------------

// The file's name without folder and ending, as MuJoCo names a mesh that has no name.
static const char* stem(nsi_mjcf* m, const char* file) {
    const char* start = file;
    for (const char* at = file; *at; at++) {
        if (*at == '/' || *at == '\\') start = at + 1;
    }
    const char* end = strrchr(start, '.');
    return nsi_arena_string(&m->strings, start, end ? (size_t)(end - start) : strlen(start));
}

bool nsi_mjcf_number_list(nsi_mjcf* m, const nsi_xml_element* element, const char* attribute,
                          uint32_t each, double** out, uint32_t* count) {
    const char* text = nsi_xml_value(element, attribute);
    *out = NULL;
    *count = 0;
    if (!text) return true;
    uint32_t most = (uint32_t)strlen(text) / 2 + 1; // a digit and a space each
    *out = nsi_alloc(&m->reader->allocator, most * sizeof **out);
    if (!*out) return nsi_reader_fail_nomem(m->reader);
    if (!nsi_reader_numbers(m->reader, element, attribute, 0, most, *out, count)) return false;
    if (*count > 0 && *count % each == 0) return true;
    return nsi_reader_fail(m->reader, element, NS_ERR_PARSE,
                           "%s has %u numbers; give %s for each %s", attribute, *count,
                           each == 2 ? "two" : "three", attribute);
}

// The hull of vertices that stand in the file; NULL when there are none.
static bool read_hull(nsi_mjcf* m, const nsi_xml_element* mesh, const nsi_mesh** out) {
    double* numbers;
    uint32_t count;
    nsi_hull hull;
    nsi_hull_start(&hull, &m->reader->allocator);
    *out = NULL;
    bool read = nsi_mjcf_number_list(m, mesh, "vertex", 3, &numbers, &count);
    for (uint32_t i = 0; read && i < count; i += 3) {
        if (nsi_hull_add(&hull, numbers + i)) continue;
        read = nsi_reader_fail(m->reader, mesh, NS_ERR_PARSE, "vertex %u is beyond 1e9", i / 3);
    }
    nsi_mesh found;
    ns_status status = nsi_hull_finish(&hull, &found);
    if (read && count > 0) {
        nsi_mesh* corners = status == NS_OK ? nsi_arena_alloc(&m->strings, sizeof *corners) : NULL;
        if (corners) *corners = found;
        read = corners || nsi_reader_fail_nomem(m->reader);
        *out = corners;
    }
    nsi_free(&m->reader->allocator, numbers);
    return read;
}

bool nsi_mjcf_read_assets(nsi_mjcf* m) {
    nsi_reader* reader = m->reader;
    // There may be several <asset> elements.
    const nsi_xml_element* asset = nsi_xml_child(reader->xml->root, "asset");
    for (; asset; asset = nsi_xml_next(asset, "asset")) {
        for (const nsi_xml_element* e = asset->first_child; e; e = e->next) {
            bool mesh = strcmp(e->name, "mesh") == 0, material = strcmp(e->name, "material") == 0;
            bool hfield = strcmp(e->name, "hfield") == 0;
            // Textures are not needed.
            if (!mesh && !material && !hfield) continue;

            // A mesh or height field without a name has that of its file.
            const char *name = nsi_xml_value(e, "name"), *file = nsi_xml_value(e, "file");
            if (!material && !name && file) {
                name = stem(m, file);
                if (!name) return nsi_reader_fail_nomem(reader);
            }
            // Nameless assets cannot be referenced.
            if (!name || !*name) {
                return nsi_reader_fail(reader, e, NS_ERR_PARSE, "the attribute name is missing");
            }

            // Register the name for later references by geoms.
            nsi_names* names = mesh ? &m->meshes : hfield ? &m->hfields : &m->materials;
            if (nsi_names_find(names, name) != NSI_NONE) {
                return nsi_reader_fail(reader, e, NS_ERR_PARSE,
                                       "there is already a <%s> \"%.100s\"", e->name, name);
            }
            if (!nsi_names_add(reader, names, name, e)) return false;

            // Vertices may be given inline; meshes without have NULL at their place.
            const nsi_mesh* corners;
            if (!mesh) continue;
            if (!read_hull(m, e, &corners)) return false;
            if (!nsi_array_push(&reader->allocator, &m->mesh_data,
                                ((nsi_mjcf_mesh){.corners = corners}))) {
                return nsi_reader_fail_nomem(reader);
            }
        }
    }
    return true;
}

// ---- geoms -----------------------------------------------------------------------------------

bool nsi_mjcf_ends(nsi_mjcf* m, nsi_mjcf_item c, ns_pose* pose, double* length, bool* given) {
    double ends[6], along[3];
    uint32_t count;
    if (!nsi_mjcf_numbers(m, c, "fromto", 6, 6, ends, &count)) return false;
    *given = count > 0;
    if (!*given) return true;

    // The centre lies halfway between the ends; coincident ends have no direction.
    for (int i = 0; i < 3; i++) {
        along[i] = ends[i + 3] - ends[i];
        pose->position[i] = 0.5 * (ends[i] + ends[i + 3]);
    }
    *length = sqrt(along[0] * along[0] + along[1] * along[1] + along[2] * along[2]);
    if (!isfinite(*length) || !nsi_normalize(along, 3)) {
        return nsi_reader_fail(m->reader, c.element, NS_ERR_PARSE,
                               "the two points of fromto are the same or too far apart");
    }
    nsi_quat_from_z(along, pose->quaternion);
    return true;
}

// Ends instead of position, orientation and length.
static bool read_fromto(nsi_mjcf* m, nsi_mjcf_item c, ns_geom_def* geom, bool* given) {
    // Absent: position and size come from other attributes.
    double length;
    if (!nsi_mjcf_ends(m, c, &geom->pose, &length, given)) return false;
    if (!*given) return true;

    // Only elongated shapes have two ends.
    if (geom->type != NS_GEOM_CAPSULE && geom->type != NS_GEOM_CYLINDER &&
        geom->type != NS_GEOM_BOX && geom->type != NS_GEOM_ELLIPSOID) {
        return nsi_reader_fail(m->reader, c.element, NS_ERR_PARSE,
                               "fromto is for capsules, cylinders, boxes and ellipsoids");
    }

    // The z axis points along the shape; boxes and ellipsoids have a square or round section.
    bool round = geom->type == NS_GEOM_CAPSULE || geom->type == NS_GEOM_CYLINDER;
    if (!round) geom->size[1] = geom->size[0];
    // Half lengths, as in MuJoCo.
    geom->size[round ? 1 : 2] = 0.5 * length;
    return true;
}

static bool read_geom_size(nsi_mjcf* m, nsi_mjcf_item c, ns_geom_def* geom) {
    // Numbers needed, without and with fromto; a plane's third is for its grid.
    static const uint32_t needed[] = {1, 2, 2, 3, 2, 0, 3, 1, 3, 0, 0};
    uint32_t count;
    bool fromto = false;
    double size[3] = {0.0, 0.0, 0.0};
    if (!nsi_mjcf_numbers(m, c, "size", 1, 3, size, &count)) return false;
    if (geom->type == NS_GEOM_MESH || geom->type == NS_GEOM_HFIELD) return true;
    memcpy(geom->size, size, sizeof geom->size);
    if (!read_fromto(m, c, geom, &fromto)) return false;
    uint32_t least = fromto ? 1 : needed[geom->type];
    if (count < least) {
        return nsi_reader_fail(m->reader, c.element, NS_ERR_PARSE,
                               "size has %u numbers where this type of geom needs %u", count,
                               least);
    }
    return true;
}

// Position of an element in a table by a name in an attribute; NSI_NONE, with a note, when the
// name is unknown.
static bool find_asset(nsi_mjcf* m, nsi_mjcf_item c, const char* attribute, const nsi_names* names,
                       uint32_t* out) {
    const char* name = nsi_mjcf_text(m, c, attribute);
    *out = name ? nsi_names_find(names, name) : NSI_NONE;
    if (!name || *out != NSI_NONE) return true;
    return nsi_reader_note(m->reader, c.element, "names a %s that is not among the assets",
                           attribute);
}

bool nsi_mjcf_find_file(nsi_mjcf* m, const char* file, const char** out) {
    if (m->strip_path) {
        for (const char* at = file; *at; at++) {
            if (*at == '/' || *at == '\\') file = at + 1;
        }
    }
    *out = file;
    if (!m->mesh_folder || !*m->mesh_folder || file[0] == '/') return true;
    size_t folder = strlen(m->mesh_folder), size = strlen(file);
    char* path = nsi_arena_alloc(&m->strings, folder + 1 + size + 1);
    if (!path) return nsi_reader_fail_nomem(m->reader);
    memcpy(path, m->mesh_folder, folder);
    if (path[folder - 1] != '/') path[folder++] = '/';
    memcpy(path + folder, file, size + 1);
    *out = path;
    return true;
}

// A mesh that has neither vertices nor a file; its name stands for it.
static bool leave_out_mesh(nsi_mjcf* m, nsi_mjcf_item c, ns_geom_def* geom) {
    if (!geom->collision) return true;
    geom->collision = false;
    return nsi_reader_note(m->reader, c.element,
                           "has a mesh without file and vertices: the geometry does not touch "
                           "anything; changes the motion");
}

// The vertices of a mesh or its file, and scale.
static bool mjcf_read_mesh(nsi_mjcf* m, nsi_mjcf_item c, uint32_t number, ns_geom_def* geom) {
    const char* name = nsi_mjcf_text(m, c, "mesh");
    if (!name || !*name) {
        return nsi_reader_fail(m->reader, c.element, NS_ERR_PARSE,
                               "a geom of type mesh needs the attribute mesh");
    }

    // A missing asset has been reported; the remaining model may still be useful.
    for (int i = 0; i < 3; i++) geom->size[i] = 1.0;
    geom->mesh = name;
    if (number == NSI_NONE) return leave_out_mesh(m, c, geom);

    // Scale and placement belong to the asset.
    if (!nsi_mjcf_mesh_placement(m, number, geom->size, &geom->pose)) return false;
    const nsi_xml_element* mesh = m->meshes.items.data[number].element;

    // Inline vertices need no file.
    const nsi_mesh* corners = m->mesh_data.data[number].corners;
    const char* file = nsi_xml_value(mesh, "file");
    if (corners) {
        geom->mesh = NULL;
        // They are in memory already, and shared by all geoms of the asset.
        geom->vertices = corners->corners;
        geom->nvertex = corners->count;
        return true;
    }

    // Otherwise the mesh is loaded from its file.
    if (!file) return leave_out_mesh(m, c, geom);
    return nsi_mjcf_find_file(m, file, &geom->mesh) &&
           nsi_reader_load_mesh(m->reader, c.element, geom);
}

// Vertices with `each` numbers, 2 or 3, into an array that lasts.
static bool keep_vertices(nsi_mjcf* m, const nsi_xml_element* element, const double* numbers,
                          uint32_t count, uint32_t each, ns_geom_def* geom) {
    if (count > NSI_MAX_VERTICES) {
        return nsi_reader_fail(m->reader, element, NS_ERR_LIMIT,
                               "too many vertices, %u; at most %d", count, NSI_MAX_VERTICES);
    }
    double* vertices = nsi_arena_alloc(&m->strings, 3 * (size_t)count * sizeof *vertices);
    if (!vertices) return nsi_reader_fail_nomem(m->reader);
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < 3; k++) {
            vertices[3 * i + k] = k < each ? numbers[each * i + k] : 0.0;
        }
    }
    geom->vertices = vertices;
    geom->nvertex = count;
    return true;
}

// A table that has no reason to be long.
static ns_status read_small_table(nsi_reader* reader, const char* path, ns_table* out,
                                  ns_error* error) {
    enum { MOST = 1 << 20 };
    nsi_bytes text = {0};
    ns_status status = nsi_file_read(path, MOST, &reader->allocator, &text, error);
    if (status == NS_OK && text.count > MOST) {
        status = nsi_fail(error, NS_ERR_LIMIT, "%.200s: an outline has at most 1 MiB", path);
    }
    if (status == NS_OK) {
        status = ns_table_parse(text.data, text.count, path, NULL, &reader->allocator, out, error);
    }
    nsi_array_free(&reader->allocator, &text);
    return status;
}

// An outline from a table with the columns x and y (m).
static bool read_outline(nsi_mjcf* m, const nsi_xml_element* element, const char* file,
                         ns_geom_def* geom) {
    // Find the file beside the model or below $NEURALSIM_DATA.
    nsi_reader* reader = m->reader;
    char *path = NULL, quote[NSI_QUOTE_SIZE];
    // Messages quote the name in a printable form.
    nsi_quote(file, strlen(file), quote);
    size_t size = strlen(file);
    if (size < 4 || strcmp(file + size - 4, ".csv") != 0) {
        return nsi_reader_fail(reader, element, NS_ERR_PARSE, "file: %s does not end in .csv",
                               quote);
    }
    if (!nsi_reader_find_data(reader, element, file, &path)) return false;

    // Read and validate the table; messages refer to the element that names it.
    ns_table table = {0};
    ns_error error;
    // Outlines are small: a size limit protects against other files.
    ns_status status = read_small_table(reader, path, &table, &error);
    nsi_free(&reader->allocator, path);
    bool read = status == NS_OK;
    if (status == NS_ERR_NOMEM) nsi_reader_fail_nomem(reader);
    // Keep the position in the table, which the inner message has.
    if (!read && status != NS_ERR_NOMEM) {
        nsi_reader_fail(reader, element, status, "file: %s", error.message);
    }
    // Exact columns, so that swapped or additional ones are noticed.
    if (read &&
        (table.ncol != 2 || strcmp(table.names[0], "x") != 0 || strcmp(table.names[1], "y") != 0)) {
        read = nsi_reader_fail(reader, element, NS_ERR_PARSE,
                               "file %s: its columns must be x and y", quote);
    }

    if (read) {
        // Tables often come back to the first vertex at their end.
        uint32_t count = table.nrow;
        bool closed = count > 1 && ns_table_at(&table, 0, 0) == ns_table_at(&table, count - 1, 0) &&
                      ns_table_at(&table, 0, 1) == ns_table_at(&table, count - 1, 1);
        read = keep_vertices(m, element, table.numbers, closed ? count - 1 : count, 2, geom);
    }

    ns_table_free(&table);
    return read;
}

// The vertices of polygons and points.
static bool read_vertices(nsi_mjcf* m, nsi_mjcf_item c, ns_geom_def* geom) {
    bool polygon = geom->type == NS_GEOM_POLYGON, points = geom->type == NS_GEOM_POINTS;
    const nsi_xml_element* table = nsi_mjcf_holder(m, c, "file");
    const nsi_xml_element* list = nsi_mjcf_holder(m, c, "vertex");
    if (!polygon && !points) {
        bool stray = nsi_xml_find(c.element, "vertex") || nsi_xml_find(c.element, "file");
        return !stray || nsi_reader_fail(m->reader, c.element, NS_ERR_PARSE,
                                         "vertex and file are for polygons and points");
    }
    // What the element says itself wins over what its class says.
    if (table && list && table != list && table == c.element) list = NULL;
    if (table && list && table != list && list == c.element) table = NULL;
    if (!table == !list || (points && table)) {
        return nsi_reader_fail(m->reader, c.element, NS_ERR_PARSE,
                               points ? "points need the attribute vertex, and no file"
                                      : "a polygon needs one of the attributes vertex and file");
    }
    if (table) return read_outline(m, c.element, nsi_xml_value(table, "file"), geom);
    double* numbers;
    uint32_t count, each = polygon ? 2 : 3;
    bool read = nsi_mjcf_number_list(m, list, "vertex", each, &numbers, &count) &&
                keep_vertices(m, c.element, numbers, count / each, each, geom);
    nsi_free(&m->reader->allocator, numbers);
    return read;
}

static bool mjcf_read_color(nsi_mjcf* m, nsi_mjcf_item c, double rgba[4]) {
    uint32_t material, count, class_number;
    if (!find_asset(m, c, "material", &m->materials, &material)) return false;
    if (material != NSI_NONE) {
        const nsi_xml_element* e = m->materials.items.data[material].element;
        if (!nsi_mjcf_find_class(m, e, "class", NSI_MJCF_MAIN_CLASS, &class_number) ||
            !nsi_mjcf_numbers(m, (nsi_mjcf_item){e, NSI_MJCF_MATERIAL, class_number}, "rgba", 4, 4,
                              rgba, &count)) {
            return false;
        }
    }
    return nsi_mjcf_numbers(m, c, "rgba", 4, 4, rgba, &count);
}

static bool can_be_fitted(ns_geom_type type) {
    return type == NS_GEOM_SPHERE || type == NS_GEOM_CAPSULE || type == NS_GEOM_CYLINDER ||
           type == NS_GEOM_BOX || type == NS_GEOM_ELLIPSOID;
}

// Pose and size, in the frames that the geom is in.
static bool read_place(nsi_mjcf* m, nsi_mjcf_item c, bool fitted, nsi_mjcf_geom* geom) {
    ns_pose frames;
    if (!nsi_mjcf_own_pose(m, c, &geom->def.pose)) return false;
    if (fitted && geom->mesh == NSI_NONE) {
        return nsi_reader_fail(m->reader, c.element, NS_ERR_PARSE,
                               "cannot be fitted to a mesh that is not among the assets");
    }
    if (fitted ? !nsi_mjcf_fit_mesh(m, c, geom->mesh, &geom->def)
               : !read_geom_size(m, c, &geom->def)) {
        return false;
    }
    if (!nsi_mjcf_frame_pose(m, c.element, &frames)) return false;
    geom->def.pose = nsi_pose_compose(&frames, &geom->def.pose);
    return true;
}

static bool mjcf_read_geom(nsi_mjcf* m, const nsi_xml_element* element, uint32_t class_number,
                           nsi_mjcf_geoms* out) {
    // The first words are in the order of ns_geom_type.
    static const char* const words[] = {"sphere", "capsule",   "cylinder", "box",     "plane",
                                        "mesh",   "ellipsoid", "polygon",  "ellipse", "points",
                                        "hfield", "sdf",       NULL};
    enum { FIRST_UNKNOWN = NS_GEOM_HFIELD + 1 };
    nsi_mjcf_item c = {element, NSI_MJCF_GEOM, NSI_MJCF_MAIN_CLASS};
    if (!nsi_mjcf_find_class(m, element, "class", class_number, &c.class_number)) return false;

    // A geom that names a mesh and has no size is a mesh, as in MuJoCo.
    bool has_mesh = nsi_mjcf_holder(m, c, "mesh") != NULL;
    uint32_t type = has_mesh && !nsi_mjcf_holder(m, c, "size") ? NS_GEOM_MESH : NS_GEOM_SPHERE;
    // MuJoCo's default is a sphere.
    if (!nsi_mjcf_word(m, c, "type", words, &type)) return false;

    // Everything else comes from the element or its default class.
    nsi_mjcf_geom geom = {.element = element, .def = ns_default_geom_def()};
    bool known = type < FIRST_UNKNOWN;
    if (type == NS_GEOM_HFIELD && !nsi_mjcf_read_hfield(m, c, &geom.def, &known)) return false;

    // Unsupported shapes are left out; their names stay known for contact pairs.
    if (!known) {
        const char* name = nsi_xml_value(element, "name");
        // A note, not an error: the geom may never touch anything.
        return (!name || nsi_names_add(m->reader, &m->left_out, name, element)) &&
               nsi_reader_note(m->reader, element,
                               "is of type %s, which is not represented; changes the motion where "
                               "it touches something",
                               words[type]);
    }

    geom.def.name = nsi_xml_value(element, "name");
    geom.def.type = (ns_geom_type)type;
    double group = 0.0;
    // A primitive shape that names a mesh is fitted to it, and its size does not count.
    bool is_mesh = type == NS_GEOM_MESH, fitted = has_mesh && can_be_fitted(geom.def.type);
    if (!find_asset(m, c, "mesh", &m->meshes, &geom.mesh) || !read_place(m, c, fitted, &geom) ||
        !nsi_mjcf_geom_contact(m, c, &geom.def) ||
        (is_mesh && !mjcf_read_mesh(m, c, geom.mesh, &geom.def)) ||
        !read_vertices(m, c, &geom.def) || !nsi_mjcf_number(m, c, "group", &group) ||
        !mjcf_read_color(m, c, geom.def.color)) {
        return false;
    }

    // Mass, unless the geom's group does not count.
    bool counts = group >= m->inertia_groups[0] && group <= m->inertia_groups[1];
    if (counts && !nsi_mjcf_geom_mass(m, c, &geom)) return false;
    geom.def.visual = group < 3.0; // MuJoCo's viewer shows the groups 0 to 2

    // Geoms are collected first, because the inertia of the body may depend on them.
    if (nsi_array_push(&m->reader->allocator, out, geom)) return true;
    return nsi_reader_fail_nomem(m->reader);
}

// The geoms directly in a body or in the world.
bool nsi_mjcf_read_geoms(nsi_mjcf* m, const nsi_xml_element* body, uint32_t class_number,
                         nsi_mjcf_geoms* out) {
    const nsi_xml_element* element = nsi_xml_child(body, "geom");
    for (; element; element = nsi_xml_next(element, "geom")) {
        if (!mjcf_read_geom(m, element, class_number, out)) return false;
    }
    return true;
}

bool nsi_mjcf_add_geoms(nsi_mjcf* m, const nsi_mjcf_geoms* geoms, const char* link) {
    for (uint32_t k = 0; k < geoms->count; k++) {
        ns_geom_def def = geoms->data[k].def;
        def.link = link;
        if (!nsi_reader_add_geom(m->reader, geoms->data[k].element, &def)) return false;
    }
    return true;
}
