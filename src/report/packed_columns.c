// Columns of numbers, packed.

#include "report/packed_columns.h"

#include <math.h>
#include <zlib.h>

// ---- quantisation ----------------------------------------------------------------------------

// The difference of two of these is finite.
static bool is_present(double value) {
    return fabs(value) <= DBL_MAX / 2.0;
}

// The step of numbers offset + k step (k = 0, 1, ..), as those of a clock are but for rounding; 0 for
// others.
static double even_step(const double* values, size_t stride, uint32_t rows) {
    const double rounding = 4.0 * DBL_EPSILON;
    if (rows < 3 || !is_present(values[0]) || !is_present(values[(rows - 1) * stride])) return 0.0;
    double first = values[0], last = values[(rows - 1) * stride];
    double step = (last - first) / (rows - 1), most = rounding * fmax(fabs(first), fabs(last));
    for (uint32_t k = 0; k < rows; k++) {
        if (!(fabs(values[k * stride] - (first + step * k)) <= most)) return 0.0;
    }
    return step > 0.0 ? step : 0.0;
}

// Offset and step of a column. A step of 0 is that of a column that is constant.
static void columns_choose_order(const double* values, size_t stride, double step,
                                 nsi_column* column) {
    double low = INFINITY, high = -INFINITY;
    for (uint32_t k = 0; k < column->rows; k++) {
        double value = values[k * stride];
        if (!is_present(value)) continue;
        low = fmin(low, value);
        high = fmax(high, value);
    }
    column->offset = low <= high ? low : 0.0;
    column->step = 0.0;
    if (!(low < high)) return;
    double range = high - low, even = even_step(values, stride, column->rows);
    column->step = fmax(fmin(ldexp(range, -24), step), ldexp(range, -31));
    if (even > 0.0) column->step = even;
    if (column->step == 0.0) column->step = DBL_TRUE_MIN; // the range is that small
}

static uint32_t quantise(const nsi_column* column, double value) {
    if (!is_present(value)) return 0;
    if (column->step == 0.0) return 1;
    return 1 + (uint32_t)nearbyint((value - column->offset) / column->step);
}

// Differences of a sequence of numbers, of all orders, and how large they are. Zeros come before the
// first number.
typedef struct differences {
    uint32_t d[NSI_COLUMN_ORDERS];    // the last ones; of order 0: the number
    uint64_t bits[NSI_COLUMN_ORDERS]; // of all of them
} differences;

static uint32_t zigzag(uint32_t d) {
    return d << 1 ^ (d >> 31 ? UINT32_MAX : 0);
}

static uint32_t bit_length(uint32_t x) {
    uint32_t length = 0;
    for (; x > 0; x >>= 4) length += x < 2 ? 1 : x < 4 ? 2 : x < 8 ? 3 : 4;
    return length;
}

static void next_difference(differences* all, uint32_t u) {
    for (int order = 0; order < NSI_COLUMN_ORDERS; order++) {
        uint32_t last = all->d[order];
        all->d[order] = u;
        all->bits[order] += bit_length(zigzag(u));
        u -= last;
    }
}

// Smooth motion has small differences of high order, measurements with noise of low order.
static uint32_t choose_order(const nsi_column* column, const double* values, size_t stride) {
    differences all = {0};
    uint32_t best = 0;
    for (uint32_t k = 0; k < column->rows; k++) {
        next_difference(&all, quantise(column, values[k * stride]));
    }
    for (uint32_t order = 1; order < NSI_COLUMN_ORDERS; order++) {
        if (all.bits[order] < all.bits[best]) best = order;
    }
    return best;
}

static void columns_fill(nsi_columns* columns, nsi_column* column, const double* values,
                         size_t stride, double step) {
    columns_choose_order(values, stride, step, column);
    column->order = choose_order(column, values, stride);
    differences all = {0};
    for (uint32_t k = 0; k < column->rows; k++) {
        next_difference(&all, quantise(column, values[k * stride]));
        uint32_t stored = zigzag(all.d[column->order]);
        for (int p = 0; p < 4; p++) {
            columns->planes[p].data[column->first + k] = (uint8_t)(stored >> 8 * p);
        }
    }
}

// ---- columns ---------------------------------------------------------------------------------

ns_status nsi_columns_add(nsi_columns* columns, const double* values, size_t stride, uint32_t rows,
                          double step, ns_error* error) {
    const ns_allocator* memory = &columns->allocator;
    nsi_column column = {.first = columns->planes[0].count, .rows = rows};
    if (rows > NS_MOTION_MAX_NUMBERS - column.first) {
        return nsi_fail(error, NS_ERR_LIMIT, "a page holds at most %d million numbers",
                        NS_MOTION_MAX_NUMBERS / 1000000);
    }
    bool fits = nsi_array_reserve(memory, &columns->list, 1);
    for (int p = 0; p < 4; p++) {
        fits = fits && nsi_array_reserve(memory, &columns->planes[p], rows);
    }
    if (!fits) return nsi_fail_nomem(error);
    columns_fill(columns, &column, values, stride, step);
    for (int p = 0; p < 4; p++) columns->planes[p].count += rows;
    columns->list.data[columns->list.count++] = column;
    return NS_OK;
}

void nsi_columns_replace(nsi_columns* columns, uint32_t number, const double* values, size_t stride,
                         double step) {
    NS_ASSERT(number < columns->list.count);
    columns_fill(columns, &columns->list.data[number], values, stride, step);
}

void nsi_columns_describe(const nsi_columns* columns, const char* key, ns_json* j) {
    const nsi_column* list = columns->list.data;
    uint32_t count = columns->list.count;
    ns_json_open(j, key, '{');
    ns_json_open(j, "rows", '[');
    for (uint32_t c = 0; c < count; c++) ns_json_count(j, NULL, list[c].rows);
    ns_json_close(j);
    ns_json_open(j, "orders", '[');
    for (uint32_t c = 0; c < count; c++) ns_json_count(j, NULL, list[c].order);
    ns_json_close(j);
    ns_json_open(j, "offsets", '[');
    for (uint32_t c = 0; c < count; c++) ns_json_number(j, NULL, list[c].offset);
    ns_json_close(j);
    ns_json_open(j, "steps", '[');
    for (uint32_t c = 0; c < count; c++) ns_json_number(j, NULL, list[c].step);
    ns_json_close(j);
    ns_json_close(j);
}

void nsi_columns_free(nsi_columns* columns) {
    nsi_array_free(&columns->allocator, &columns->list);
    for (int p = 0; p < 4; p++) nsi_array_free(&columns->allocator, &columns->planes[p]);
}

// ---- writing ---------------------------------------------------------------------------------

static void add_base64(nsi_text_builder* page, const uint8_t* bytes, size_t size) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char text[1024];
    size_t length = 0;
    for (size_t k = 0; k < size; k += 3) {
        uint32_t group = (uint32_t)bytes[k] << 16;
        if (k + 1 < size) group |= (uint32_t)bytes[k + 1] << 8;
        if (k + 2 < size) group |= bytes[k + 2];
        text[length++] = digits[group >> 18];
        text[length++] = digits[group >> 12 & 63];
        text[length++] = k + 1 < size ? digits[group >> 6 & 63] : '=';
        text[length++] = k + 2 < size ? digits[group & 63] : '=';
        if (length < sizeof text && k + 3 < size) continue;
        nsi_text_add_bytes(page, text, length);
        length = 0;
    }
}

static void* columns_allocate(void* allocator, uInt count, uInt size) {
    return nsi_alloc(allocator, (size_t)count * size);
}

static void columns_release(void* allocator, void* block) {
    nsi_free(allocator, block);
}

// Pack what the stream has been given, and with Z_FINISH all of it; whole groups of three bytes go
// to the page as they come.
static bool pack(z_stream* stream, int flush, uint8_t* room, uInt size, nsi_text_builder* page) {
    for (;;) {
        int result = deflate(stream, flush);
        bool full = stream->avail_out == 0, done = result == Z_STREAM_END;
        if (full || done) {
            add_base64(page, room, size - stream->avail_out);
            stream->next_out = room;
            stream->avail_out = size;
        }
        if (done) return true;
        if (result != Z_OK && result != Z_BUF_ERROR) return false;
        if (!full && flush == Z_NO_FLUSH) return true;
    }
}

ns_status nsi_columns_write(const nsi_columns* columns, nsi_text_builder* page, ns_error* error) {
    enum { ROOM = 3 << 12 };
    uint8_t room[ROOM];
    ns_allocator memory = columns->allocator;
    z_stream stream = {.zalloc = columns_allocate, .zfree = columns_release, .opaque = &memory};
    if (deflateInit(&stream, Z_DEFAULT_COMPRESSION) != Z_OK) return nsi_fail_nomem(error);
    stream.next_out = room;
    stream.avail_out = ROOM;
    bool packed = true;
    for (int p = 0; p < 4 && packed; p++) {
        stream.next_in = columns->planes[p].data;
        stream.avail_in = columns->planes[p].count;
        packed = pack(&stream, Z_NO_FLUSH, room, ROOM, page);
    }
    packed = packed && pack(&stream, Z_FINISH, room, ROOM, page);
    deflateEnd(&stream);
    return packed && !page->failed ? NS_OK : nsi_fail_nomem(error);
}
