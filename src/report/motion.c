// What moves in a page: episodes, their tracks and quantities, and where their numbers are.

#include "report/motion_data.h"

#include "model/model_data.h"
#include "neuralsim/json.h"
#include "report/motion_scene.h"
#include "report/packed_columns.h"

#include <math.h>
#include <stdio.h>

enum { POSE = 7, CONTACT = 6 }; // columns

typedef struct span {
    double from, to;
    const char* role;
} span;

typedef struct contact {
    const char* name;
    uint32_t first; // column
} contact;

typedef struct track {
    const char *name, *role;
    uint32_t poses; // first column, or NSI_NONE
    NSI_ARRAY(contact) contacts;
} track;

typedef struct quantity {
    const char *name, *unit;
    NSI_ARRAY(uint32_t) columns; // of the tracks, up to the last that has it; NSI_NONE: has none
} quantity;

typedef struct episode {
    const char *name, *note;
    uint32_t time, rows; // column, and its length
    NSI_ARRAY(span) spans;
    NSI_ARRAY(track) tracks;
    NSI_ARRAY(quantity) quantities;
    nsi_index names; // of quantities
} episode;

struct ns_motion {
    ns_allocator allocator;
    const ns_model* model;
    nsi_arena strings;
    nsi_columns columns;
    NSI_ARRAY(episode) episodes;
};

ns_status ns_motion_create(const ns_model* model, const ns_allocator* allocator, ns_motion** out,
                           ns_error* error) {
    ns_allocator memory = allocator ? *allocator : ns_default_allocator();
    *out = nsi_alloc_zeroed(&memory, sizeof **out);
    if (!*out) return nsi_fail_nomem(error);
    **out = (ns_motion){.allocator = memory,
                        .model = model,
                        .strings = {.allocator = memory},
                        .columns = {.allocator = memory}};
    return NS_OK;
}

static void free_episode(const ns_allocator* memory, episode* e) {
    for (uint32_t k = 0; k < e->tracks.count; k++) {
        nsi_array_free(memory, &e->tracks.data[k].contacts);
    }
    for (uint32_t k = 0; k < e->quantities.count; k++) {
        nsi_array_free(memory, &e->quantities.data[k].columns);
    }
    nsi_array_free(memory, &e->spans);
    nsi_array_free(memory, &e->tracks);
    nsi_array_free(memory, &e->quantities);
    nsi_index_free(memory, &e->names);
}

void ns_motion_free(ns_motion* v) {
    if (!v) return;
    ns_allocator memory = v->allocator;
    for (uint32_t k = 0; k < v->episodes.count; k++) free_episode(&memory, &v->episodes.data[k]);
    nsi_array_free(&memory, &v->episodes);
    nsi_columns_free(&v->columns);
    nsi_arena_free(&v->strings);
    nsi_free(&memory, v);
}

// ---- what is added ---------------------------------------------------------------------------

static const char* motion_keep(ns_motion* v, const char* text) {
    return nsi_arena_string(&v->strings, text, strlen(text));
}

// The last episode, or its last track; NULL after saying that there is none.
static episode* last_episode(ns_motion* v, ns_error* error) {
    if (v->episodes.count > 0) return &v->episodes.data[v->episodes.count - 1];
    nsi_fail(error, NS_ERR_STATE, "the viewer has no episode yet");
    return NULL;
}

static track* last_track(ns_motion* v, ns_error* error) {
    episode* e = last_episode(v, error);
    if (!e) return NULL;
    if (e->tracks.count > 0) return &e->tracks.data[e->tracks.count - 1];
    nsi_fail(error, NS_ERR_STATE, "the episode \"%.100s\" has no track yet", e->name);
    return NULL;
}

ns_status ns_motion_add_episode(ns_motion* v, const char* name, const double* time, uint32_t rows,
                                const char* note, ns_error* error) {
    if (rows == 0) return nsi_fail(error, NS_ERR_ARGUMENT, "episode \"%.100s\": no rows", name);
    for (uint32_t k = 0; k < rows; k++) {
        if (isfinite(time[k]) && (k == 0 || time[k] >= time[k - 1])) continue;
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "episode \"%.100s\": the time of row %u is not finite or goes back", name,
                        k);
    }
    episode e = {.name = motion_keep(v, name),
                 .note = note ? motion_keep(v, note) : NULL,
                 .time = v->columns.list.count,
                 .rows = rows};
    if (!e.name || (note && !e.note) || !nsi_array_reserve(&v->allocator, &v->episodes, 1)) {
        return nsi_fail_nomem(error);
    }
    ns_status status = nsi_columns_add(&v->columns, time, 1, rows, NSI_ANY_STEP, error);
    if (status == NS_OK) v->episodes.data[v->episodes.count++] = e;
    return status;
}

ns_status ns_motion_add_span(ns_motion* v, double from, double to, const char* role,
                             ns_error* error) {
    episode* e = last_episode(v, error);
    if (!e) return NS_ERR_STATE;
    span s = {from, to, motion_keep(v, role)};
    if (s.role && nsi_array_push(&v->allocator, &e->spans, s)) return NS_OK;
    return nsi_fail_nomem(error);
}

ns_status ns_motion_add_track(ns_motion* v, const char* name, const char* role, ns_error* error) {
    episode* e = last_episode(v, error);
    if (!e) return NS_ERR_STATE;
    track t = {.name = motion_keep(v, name), .role = motion_keep(v, role), .poses = NSI_NONE};
    if (t.name && t.role && nsi_array_push(&v->allocator, &e->tracks, t)) return NS_OK;
    return nsi_fail_nomem(error);
}

uint32_t ns_motion_rows(const ns_motion* v) {
    return v->episodes.count > 0 ? v->episodes.data[v->episodes.count - 1].rows : 0;
}

// The quantity of this name, which is new if need be; NULL when out of memory.
static quantity* find_quantity(ns_motion* v, episode* e, const char* name, const char* unit) {
    uint32_t hash = nsi_hash_bytes(name, strlen(name));
    for (uint32_t at = nsi_index_first(&e->names, hash), id; nsi_index_at(&e->names, at, &id);
         at = nsi_index_next(&e->names, at)) {
        if (strcmp(e->quantities.data[id].name, name) == 0) return &e->quantities.data[id];
    }
    quantity q = {.name = motion_keep(v, name), .unit = motion_keep(v, unit)};
    if (!q.name || !q.unit || !nsi_array_reserve(&v->allocator, &e->quantities, 1) ||
        !nsi_index_insert(&v->allocator, &e->names, hash, e->quantities.count)) {
        return NULL;
    }
    e->quantities.data[e->quantities.count] = q;
    return &e->quantities.data[e->quantities.count++];
}

// Where the column of a quantity for the last track is noted; NULL when out of memory.
static uint32_t* quantity_column(ns_motion* v, episode* e, const char* name, const char* unit) {
    quantity* q = find_quantity(v, e, name, unit);
    while (q && q->columns.count < e->tracks.count) {
        if (!nsi_array_push(&v->allocator, &q->columns, NSI_NONE)) q = NULL;
    }
    return q ? &q->columns.data[e->tracks.count - 1] : NULL;
}

static bool is_pose(const ns_motion* v, const track* t, uint32_t column) {
    return t->poses != NSI_NONE && column >= t->poses &&
           column < t->poses + POSE * v->model->sizes.nlink;
}

ns_status ns_motion_add_quantity(ns_motion* v, const char* name, const char* unit,
                                 const double* values, size_t stride, ns_error* error) {
    const track* t = last_track(v, error);
    if (!t) return NS_ERR_STATE;
    episode* e = last_episode(v, error);
    uint32_t* column = quantity_column(v, e, name, unit);
    if (!column) return nsi_fail_nomem(error);
    // The robot is where it was, whatever is shown instead of its pose.
    if (*column != NSI_NONE && !is_pose(v, t, *column)) {
        nsi_columns_replace(&v->columns, *column, values, stride, NSI_ANY_STEP);
        return NS_OK;
    }
    uint32_t number = v->columns.list.count;
    ns_status status = nsi_columns_add(&v->columns, values, stride, e->rows, NSI_ANY_STEP, error);
    if (status == NS_OK) *column = number;
    return status;
}

ns_status ns_motion_set_poses(ns_motion* v, const double* poses, ns_error* error) {
    // Position in the world, and orientation as a quaternion (w first).
    static const char* const parts[POSE] = {"x", "y", "z", "qw", "qx", "qy", "qz"};
    // Poses belong to the track that was added last.
    track* t = last_track(v, error);
    if (!t) return NS_ERR_STATE;
    episode* e = last_episode(v, error);
    // One row holds the poses of all links.
    size_t stride = (size_t)POSE * v->model->sizes.nlink;

    // Poses of a track that has some are replaced in place, without new columns.
    if (t->poses != NSI_NONE) {
        for (uint32_t c = 0; c < stride; c++) {
            nsi_columns_replace(&v->columns, t->poses + c, poses + c, stride, NSI_POSE_STEP);
        }
        return NS_OK;
    }

    // Otherwise, add one packed column per component.
    uint32_t first = v->columns.list.count;
    for (uint32_t c = 0; c < stride; c++) {
        // Components are quantities of their own, so that the viewer can plot them.
        char name[NSI_MODEL_MAX_NAME + 20];
        const char* link = v->model->links[c / POSE].def.name;
        snprintf(name, sizeof name, "link/%s/pose/%s", link, parts[c % POSE]);
        // Packing: rounded to NSI_POSE_STEP, which is invisible on the screen.
        ns_status status =
            nsi_columns_add(&v->columns, poses + c, stride, e->rows, NSI_POSE_STEP, error);
        if (status != NS_OK) return status;
        // Only positions have a unit.
        uint32_t* column = quantity_column(v, e, name, c % POSE < 3 ? "m" : "");
        if (!column) return nsi_fail_nomem(error);
        *column = first + c;
    }

    // The track refers to its first column; the others follow.
    t->poses = first;
    return NS_OK;
}

ns_status ns_motion_add_contact(ns_motion* v, const char* name, const double* values,
                                ns_error* error) {
    track* t = last_track(v, error);
    if (!t) return NS_ERR_STATE;
    uint32_t rows = last_episode(v, error)->rows;
    contact point = {motion_keep(v, name), v->columns.list.count};
    if (!point.name || !nsi_array_reserve(&v->allocator, &t->contacts, 1)) {
        return nsi_fail_nomem(error);
    }
    for (uint32_t c = 0; c < CONTACT; c++) {
        ns_status status = nsi_columns_add(&v->columns, values + c, CONTACT, rows,
                                           c < 3 ? NSI_POSE_STEP : NSI_ANY_STEP, error);
        if (status != NS_OK) return status;
    }
    t->contacts.data[t->contacts.count++] = point;
    return NS_OK;
}

// ---- writing ---------------------------------------------------------------------------------

static void write_column(ns_json* j, const char* key, uint32_t column) {
    ns_json_number(j, key, column == NSI_NONE ? (double)NAN : (double)column); // NaN is null
}

static void write_track(const track* t, ns_json* j) {
    ns_json_open(j, NULL, '{');
    ns_json_text(j, "name", t->name);
    ns_json_text(j, "role", t->role);
    write_column(j, "poses", t->poses);
    ns_json_open(j, "contacts", '[');
    for (uint32_t k = 0; k < t->contacts.count; k++) {
        ns_json_open(j, NULL, '{');
        ns_json_text(j, "name", t->contacts.data[k].name);
        ns_json_count(j, "first", t->contacts.data[k].first);
        ns_json_close(j);
    }
    ns_json_close(j);
    ns_json_close(j);
}

static void write_quantity(const quantity* q, uint32_t ntrack, ns_json* j) {
    ns_json_open(j, NULL, '{');
    ns_json_text(j, "name", q->name);
    ns_json_text(j, "unit", q->unit);
    ns_json_open(j, "columns", '[');
    for (uint32_t k = 0; k < ntrack; k++) {
        write_column(j, NULL, k < q->columns.count ? q->columns.data[k] : NSI_NONE);
    }
    ns_json_close(j);
    ns_json_close(j);
}

static void write_episode(const episode* e, ns_json* j) {
    ns_json_open(j, NULL, '{');
    ns_json_text(j, "name", e->name);
    ns_json_count(j, "time", e->time);
    ns_json_open(j, "spans", '[');
    for (uint32_t k = 0; k < e->spans.count; k++) {
        ns_json_open(j, NULL, '{');
        ns_json_number(j, "from", e->spans.data[k].from);
        ns_json_number(j, "to", e->spans.data[k].to);
        ns_json_text(j, "role", e->spans.data[k].role);
        ns_json_close(j);
    }
    ns_json_close(j);
    ns_json_text(j, "note", e->note);
    ns_json_open(j, "tracks", '[');
    for (uint32_t k = 0; k < e->tracks.count; k++) write_track(&e->tracks.data[k], j);
    ns_json_close(j);
    ns_json_open(j, "quantities", '[');
    for (uint32_t k = 0; k < e->quantities.count; k++) {
        write_quantity(&e->quantities.data[k], e->tracks.count, j);
    }
    ns_json_close(j);
    ns_json_close(j);
}

static ns_status write_data(const ns_motion* v, ns_text* out, ns_error* error) {
    ns_json* j = ns_json_create(&v->allocator);
    ns_json_count(j, "version", 1);
    ns_status status = nsi_scene_write(v->model, &v->allocator, "scene", j, error);
    ns_json_open(j, "episodes", '[');
    for (uint32_t k = 0; k < v->episodes.count; k++) write_episode(&v->episodes.data[k], j);
    ns_json_close(j);
    nsi_columns_describe(&v->columns, "columns", j);
    ns_status finished = ns_json_finish(j, out, status == NS_OK ? error : NULL);
    return status == NS_OK ? finished : status;
}

void nsi_motion_describe(const ns_motion* v, const char* key, ns_json* j) {
    ns_json_open(j, key, '[');
    for (uint32_t k = 0; k < v->episodes.count; k++) {
        ns_json_open(j, NULL, '{');
        ns_json_text(j, "name", v->episodes.data[k].name);
        ns_json_text(j, "note", v->episodes.data[k].note);
        ns_json_count(j, "rows", v->episodes.data[k].rows);
        ns_json_close(j);
    }
    ns_json_close(j);
}

ns_status nsi_motion_write(const ns_motion* v, nsi_text_builder* page, ns_error* error) {
    ns_text data;
    ns_status status = write_data(v, &data, error);
    if (status == NS_OK) {
        nsi_text_add(page, "<div id=\"viewer\"></div>\n"
                           "<script type=\"application/json\" id=\"viewer-data\">\n");
        nsi_text_add_bytes(page, data.data, data.size);
        nsi_text_add(page, "</script>\n"
                           "<script type=\"application/octet-stream\" id=\"viewer-bytes\">");
        status = nsi_columns_write(&v->columns, page, error);
        nsi_text_add(page, "</script>\n");
    }
    ns_text_free(&data);
    return status == NS_OK && page->failed ? nsi_fail_nomem(error) : status;
}
