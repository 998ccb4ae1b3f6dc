// Height fields of MJCF: <hfield name size nrow ncol elevation file> among the assets.
//
// `elevation` has the rows from top (y = +size) to bottom, a file from bottom to top. Both are scaled so
// that the lowest elevation is 0 and the highest 1. A file has the numbers of rows and columns, 4 bytes
// each, then the elevations as 4-byte floats by rows; little-endian. Images are not read. The fourth size,
// how deep the ground is, does not act: the ground has no end below.

#include "io/file.h"
#include "io/mjcf.h"
#include "io/numbers.h"

#include <math.h>
#include <stdio.h>

enum { HEADER = 8, MAX_FILE = HEADER + 4 * NSI_MAX_ELEVATIONS };

static bool fail_hfield_size(nsi_mjcf* m, const nsi_xml_element* asset, double nrow, double ncol) {
    return nsi_reader_fail(m->reader, asset, NS_ERR_LIMIT,
                           "hfield of %g rows and %g columns; a height field has 2 or more of both "
                           "and at most %d elevations",
                           nrow, ncol, NSI_MAX_ELEVATIONS);
}

// Room for the elevations; NULL after a failure, which has been told.
static double* make_elevation_room(nsi_mjcf* m, const nsi_xml_element* asset, double nrow,
                                   double ncol, ns_geom_def* geom) {
    bool whole = nrow == floor(nrow) && ncol == floor(ncol);
    if (!whole || !(nrow >= 2.0 && ncol >= 2.0 && nrow * ncol <= NSI_MAX_ELEVATIONS)) {
        fail_hfield_size(m, asset, nrow, ncol);
        return NULL;
    }
    geom->nrow = (uint32_t)nrow, geom->ncol = (uint32_t)ncol;
    double* elevation = nsi_arena_alloc(&m->strings, (size_t)(nrow * ncol) * sizeof *elevation);
    if (!elevation) nsi_reader_fail_nomem(m->reader);
    geom->elevation = elevation;
    return elevation;
}

// From 0 to 1.
static void normalise(double* elevation, uint32_t count) {
    double low = INFINITY, high = -INFINITY;
    for (uint32_t k = 0; k < count; k++) {
        low = fmin(low, elevation[k]), high = fmax(high, elevation[k]);
    }
    double range = high > low ? high - low : 1.0;
    for (uint32_t k = 0; k < count; k++) elevation[k] = (elevation[k] - low) / range;
}

static bool read_elevation_text(nsi_mjcf* m, const nsi_xml_element* asset, ns_geom_def* geom) {
    double nrow = 0.0, ncol = 0.0;
    if (!nsi_reader_number(m->reader, asset, "nrow", &nrow) ||
        !nsi_reader_number(m->reader, asset, "ncol", &ncol)) {
        return false;
    }
    // Without elevations the ground is flat, whatever its grid.
    bool whole = nrow == floor(nrow) && ncol == floor(ncol) && nrow >= 2.0 && ncol >= 2.0;
    if (whole && !nsi_xml_value(asset, "elevation")) nrow = ncol = 2.0;
    double* elevation = make_elevation_room(m, asset, nrow, ncol, geom);
    if (!elevation) return false;
    uint32_t count = geom->nrow * geom->ncol, given;
    memset(elevation, 0, count * sizeof *elevation);
    if (!nsi_reader_numbers(m->reader, asset, "elevation", count, count, elevation, &given)) {
        return false;
    }
    for (uint32_t row = 0; row < geom->nrow / 2; row++) { // from bottom to top
        double* a = elevation + (size_t)row * geom->ncol;
        double* b = elevation + (size_t)(geom->nrow - 1 - row) * geom->ncol;
        for (uint32_t k = 0; k < geom->ncol; k++) {
            double x = a[k];
            a[k] = b[k], b[k] = x;
        }
    }
    normalise(elevation, count);
    return true;
}

static uint32_t read_word(const char* at) {
    const unsigned char* b = (const unsigned char*)at;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static bool parse_elevation_file(nsi_mjcf* m, const nsi_xml_element* asset, const char* file,
                                 const nsi_bytes* bytes, ns_geom_def* geom) {
    char quote[NSI_QUOTE_SIZE];
    nsi_quote(file, strlen(file), quote);
    uint32_t nrow = bytes->count >= HEADER ? read_word(bytes->data) : 0;
    uint32_t ncol = bytes->count >= HEADER ? read_word(bytes->data + 4) : 0;
    double* elevation = make_elevation_room(m, asset, nrow, ncol, geom);
    if (!elevation) return false;
    if (bytes->count != HEADER + 4 * nrow * ncol) {
        return nsi_reader_fail(m->reader, asset, NS_ERR_PARSE,
                               "file %s: %u rows and %u columns need %u bytes", quote, nrow, ncol,
                               HEADER + 4 * nrow * ncol);
    }
    for (uint32_t k = 0; k < nrow * ncol; k++) {
        uint32_t word = read_word(bytes->data + HEADER + 4 * (size_t)k);
        float value;
        memcpy(&value, &word, sizeof value);
        elevation[k] = (double)value;
        if (isfinite(elevation[k])) continue;
        return nsi_reader_fail(m->reader, asset, NS_ERR_PARSE,
                               "file %s: elevation %u is not finite", quote, k);
    }
    normalise(elevation, nrow * ncol);
    return true;
}

static bool has_ending(const char* file, const char* ending) {
    size_t size = strlen(file), length = strlen(ending);
    return size >= length && strcmp(file + size - length, ending) == 0;
}

// An image is left out: `known` is false then.
static bool read_elevation_file(nsi_mjcf* m, const nsi_xml_element* asset, const char* file,
                                ns_geom_def* geom, bool* known) {
    nsi_reader* reader = m->reader;
    char quote[NSI_QUOTE_SIZE];
    nsi_quote(file, strlen(file), quote);
    *known = !has_ending(file, ".png") && !has_ending(file, ".PNG");
    if (!*known) {
        return nsi_reader_note(
            reader, asset,
            "file %s: images are not read; convert it to elevations (nrow, ncol, "
            "elevation)",
            quote);
    }

    // In the folder of assets, relative to the model.
    const char* name;
    char* path = NULL;
    if (!nsi_mjcf_find_file(m, file, &name) || !nsi_reader_find_data(reader, asset, name, &path)) {
        return false;
    }
    nsi_bytes bytes = {0};
    ns_error error;
    ns_status status = nsi_file_read(path, MAX_FILE, &reader->allocator, &bytes, &error);
    nsi_free(&reader->allocator, path);
    bool read = status == NS_OK;
    if (status == NS_ERR_NOMEM) nsi_reader_fail_nomem(reader);
    if (!read && status != NS_ERR_NOMEM) {
        nsi_reader_fail(reader, asset, status, "file: %s", error.message);
    }
    read = read && parse_elevation_file(m, asset, file, &bytes, geom);
    nsi_array_free(&reader->allocator, &bytes);
    return read;
}

bool nsi_mjcf_read_hfield(nsi_mjcf* m, nsi_mjcf_item c, ns_geom_def* geom, bool* known) {
    // The asset; one that is missing leaves the geom out.
    const char* name = nsi_mjcf_text(m, c, "hfield");
    uint32_t number = name ? nsi_names_find(&m->hfields, name) : NSI_NONE, count;
    *known = number != NSI_NONE;
    if (!*known) {
        return nsi_reader_note(m->reader, c.element, "names a hfield that is not among the assets");
    }

    // Sizes: half lengths, height, depth below.
    const nsi_xml_element* asset = m->hfields.items.data[number].element;
    double size[4];
    if (!nsi_reader_numbers(m->reader, asset, "size", 4, 4, size, &count)) return false;
    if (count == 0) {
        return nsi_reader_fail(m->reader, asset, NS_ERR_PARSE,
                               "the attribute size is missing: half length along x, along y, "
                               "height, depth");
    }
    memcpy(geom->size, size, sizeof geom->size);
    const char* file = nsi_xml_value(asset, "file");
    if (file) return read_elevation_file(m, asset, file, geom, known);
    return read_elevation_text(m, asset, geom);
}
