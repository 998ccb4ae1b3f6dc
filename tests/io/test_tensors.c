// Files of tensors: what is read agrees with another program's writing, what is written reads back
// bit for bit, broken files get a message, and a file that cannot be written loses nothing.

#define _XOPEN_SOURCE 700

#include "io/file.h"
#include "io/tensors_rig.h"
#include "neuralsim/tensors.h"
#include "support/assert.h"
#include "support/check.h"
#include "support/tempdir.h"
#include "support/testalloc.h"

#include <dirent.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

// ---- helpers -------------------------------------------------------------------------------

// A path in the temporary folder.
static char path[PATH_MAX];

static void set_path(const char* name) {
    snprintf(path, sizeof path, "%s", tempdir_path(name));
}

static int make_folder(void** state) {
    (void)state;
    set_path("w.safetensors");
    return 0;
}

// Number of files in the temporary folder.
static uint32_t count_files(void) {
    DIR* list = opendir(tempdir());
    uint32_t count = 0;
    for (struct dirent* item; (item = readdir(list)) != NULL;) {
        if (strcmp(item->d_name, ".") == 0 || strcmp(item->d_name, "..") == 0) continue;
        count++;
    }
    closedir(list);
    return count;
}

static int remove_folder(void** state) {
    (void)state;
    tempdir_remove();
    return 0;
}

// ---- reading -------------------------------------------------------------------------------

// tests/io/tensors_reference.py prints these files.
static const char reference_f64[] = "\x88\x00\x00\x00\x00\x00\x00\x00\x7b\x22\x64\x72\x61\x67\x2f"
                                    "\x77\x30\x22\x3a\x7b\x22\x64\x74\x79"
                                    "\x70\x65\x22\x3a\x22\x46\x36\x34\x22\x2c\x22\x73\x68\x61\x70"
                                    "\x65\x22\x3a\x5b\x33\x2c\x32\x5d\x2c"
                                    "\x22\x64\x61\x74\x61\x5f\x6f\x66\x66\x73\x65\x74\x73\x22\x3a"
                                    "\x5b\x30\x2c\x34\x38\x5d\x7d\x2c\x22"
                                    "\xc3\xa9\x6e\x65\x72\x67\x69\x65\x20\x5c\x22\x78\x5c\x22\x22"
                                    "\x3a\x7b\x22\x64\x74\x79\x70\x65\x22"
                                    "\x3a\x22\x46\x36\x34\x22\x2c\x22\x73\x68\x61\x70\x65\x22\x3a"
                                    "\x5b\x31\x2c\x31\x5d\x2c\x22\x64\x61"
                                    "\x74\x61\x5f\x6f\x66\x66\x73\x65\x74\x73\x22\x3a\x5b\x34\x38"
                                    "\x2c\x35\x36\x5d\x7d\x7d\x20\x20\x20"
                                    "\x9a\x99\x99\x99\x99\x99\xb9\x3f\x00\x00\x00\x00\x00\x00\x00"
                                    "\x80\x01\x00\x00\x00\x00\x00\x00\x00"
                                    "\xff\xff\xff\xff\xff\xff\xef\xff\x55\x55\x55\x55\x55\x55\xd5"
                                    "\x3f\x00\x00\x00\x00\x00\x00\x10\x00"
                                    "\x00\x00\x00\x00\x00\x00\xc4\x3f";

static const char reference_mixed[] = "\xd8\x00\x00\x00\x00\x00\x00\x00\x7b\x22\x5f\x5f\x6d\x65\x74"
                                      "\x61\x64\x61\x74\x61\x5f\x5f\x22\x3a"
                                      "\x7b\x22\x66\x6f\x72\x6d\x61\x74\x22\x3a\x22\x70\x74\x22\x7d"
                                      "\x2c\x22\x73\x69\x6e\x67\x6c\x65\x22"
                                      "\x3a\x7b\x22\x64\x74\x79\x70\x65\x22\x3a\x22\x46\x33\x32\x22"
                                      "\x2c\x22\x73\x68\x61\x70\x65\x22\x3a"
                                      "\x5b\x31\x2c\x33\x5d\x2c\x22\x64\x61\x74\x61\x5f\x6f\x66\x66"
                                      "\x73\x65\x74\x73\x22\x3a\x5b\x30\x2c"
                                      "\x31\x32\x5d\x7d\x2c\x22\x68\x61\x6c\x66\x22\x3a\x7b\x22\x64"
                                      "\x74\x79\x70\x65\x22\x3a\x22\x46\x31"
                                      "\x36\x22\x2c\x22\x73\x68\x61\x70\x65\x22\x3a\x5b\x32\x2c\x33"
                                      "\x5d\x2c\x22\x64\x61\x74\x61\x5f\x6f"
                                      "\x66\x66\x73\x65\x74\x73\x22\x3a\x5b\x31\x32\x2c\x32\x34\x5d"
                                      "\x7d\x2c\x22\x62\x72\x61\x69\x6e\x22"
                                      "\x3a\x7b\x22\x64\x74\x79\x70\x65\x22\x3a\x22\x42\x46\x31\x36"
                                      "\x22\x2c\x22\x73\x68\x61\x70\x65\x22"
                                      "\x3a\x5b\x32\x5d\x2c\x22\x64\x61\x74\x61\x5f\x6f\x66\x66\x73"
                                      "\x65\x74\x73\x22\x3a\x5b\x32\x34\x2c"
                                      "\x32\x38\x5d\x7d\x7d\x20\x20\x20\x00\x00\xc0\x3f\x01\x00\x00"
                                      "\x00\xff\xff\x7f\xff\x00\x38\x00\xc0"
                                      "\xff\x7b\x01\x00\x00\x04\x00\x80\x80\x3f\x00\xbc";

static const double reference_numbers[6] = {
    0.1, -0.0, 5e-324, -1.7976931348623157e308, 1.0 / 3.0, 2.2250738585072014e-308};

static const double reference_one[1] = {0.15625};

static const ns_tensor reference_tensors[2] = {{"drag/w0", 3, 2, reference_numbers},
                                               {"énergie \"x\"", 1, 1, reference_one}};

static void reads_what_python_wrote(void** state) {
    (void)state;
    ns_tensors tensors = parse(reference_f64, sizeof reference_f64 - 1, "w.safetensors");
    assert_same(&tensors, reference_tensors, 2);
    ns_tensors_free(&tensors);
    ns_tensors_free(&tensors); // again
    ns_tensors_free(NULL);

    static const double single[3] = {1.5, 0x1p-149, -0x1.fffffep127};
    static const double half[6] = {0.5, -2.0, 65504.0, 0x1p-24, 0x1p-14, -0.0};
    static const double brain[2] = {1.0, -0.0078125};
    tensors = parse(reference_mixed, sizeof reference_mixed - 1, "w");
    assert_int_equal(tensors.count, 3);
    assert_tensor(&tensors.data[0], "single", 1, 3, single);
    assert_tensor(&tensors.data[1], "half", 2, 3, half);
    assert_tensor(&tensors.data[2], "brain", 1, 2, brain); // one dimension is a row
    ns_tensors_free(&tensors);
}

static void writes_what_python_writes(void** state) {
    (void)state;
    ns_text text;
    assert_int_equal(ns_tensors_print(reference_tensors, 2, NS_TENSORS_F64, NULL, &text, NULL),
                     NS_OK);
    assert_int_equal(text.size, sizeof reference_f64 - 1);
    assert_memory_equal(text.data, reference_f64, text.size);
    ns_text_free(&text);
}

// Every number of 16 bits, by its definition: (-1)^s 2^(e-15) (1 + f / 1024), or for e = 0
// (-1)^s 2^-14 f / 1024.
static void all_halves_are_read(void** state) {
    (void)state;
    size_t size;
    char* bytes =
        make_file("{\"h\":{\"dtype\":\"F16\",\"shape\":[256,248],\"data_offsets\":[0,126976"
                  "]}} ",
                  126976, &size);
    unsigned char* at = (unsigned char*)bytes + size - 126976;
    for (unsigned h = 0; h < 65536; h++) {
        if ((h >> 10 & 31) == 31) continue;
        *at++ = (unsigned char)(h & 0xFF);
        *at++ = (unsigned char)(h >> 8);
    }
    ns_tensors tensors = parse(bytes, size, "h");
    const double* number = tensors.data[0].data;
    for (unsigned h = 0; h < 65536; h++) {
        int e = (int)(h >> 10 & 31);
        double f = (h & 1023) / 1024.0;
        if (e == 31) continue;
        double expected = e > 0 ? pow(2.0, e - 15) * (1.0 + f) : pow(2.0, -14) * f;
        assert_true(check_same_bits(*number++, h >> 15 ? -expected : expected));
    }
    ns_tensors_free(&tensors);
    free(bytes);
}

// Order in the header, padding and metadata do not matter; tensors come in the order of their data.
static void form_of_the_header_does_not_matter(void** state) {
    (void)state;
    static const char* const headers[] = {
        "{\"a\":{\"dtype\":\"F64\",\"shape\":[1,1],\"data_offsets\":[0,8]},"
        "\"b\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[8,24]}}",
        "{\"b\":{\"dtype\":\"F64\",\"shape\":[1,2],\"data_offsets\":[8,24]},"
        "\"a\":{\"data_offsets\":[0,8],\"shape\":[1,1],\"dtype\":\"F64\"}}     ",
        "{ \"__metadata__\" : {\"format\": \"pt\", \"\": \"\\u00e9\"},\n\t"
        "\"\\u0061\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]},"
        "\"b\":{\"dtype\":\"F64\",\"shape\":[1,2],\"data_offsets\":[8,24]}}\n",
    };
    static const double zero[2] = {0};
    for (size_t k = 0; k < sizeof headers / sizeof *headers; k++) {
        size_t size;
        char* bytes = make_file(headers[k], 24, &size);
        ns_tensors tensors = parse(bytes, size, "w");
        assert_int_equal(tensors.count, 2);
        assert_tensor(&tensors.data[0], "a", 1, 1, zero);
        assert_tensor(&tensors.data[1], "b", 1, 2, zero);
        ns_tensors_free(&tensors);
        free(bytes);
    }
    static const char* const empty[] = {"{}", "{\"__metadata__\":{}}"};
    for (int k = 0; k < 2; k++) {
        size_t size;
        char* bytes = make_file(empty[k], 0, &size);
        ns_tensors tensors = parse(bytes, size, "w");
        assert_int_equal(tensors.count, 0);
        ns_tensors_free(&tensors);
        free(bytes);
    }
}

// ---- round trips -----------------------------------------------------------------------------

static void written_tensors_read_back(void** state) {
    (void)state;
    static const double special[] = {
        0.0,       -0.0,     0.1,     5e-324, -5e-324, 0x1p-149, 1e-310,
        DBL_MAX,   -DBL_MAX, DBL_MIN, 1e15,   1e16,    1e17,     9007199254740991.0,
        1.0 / 3.0, 1e-5,     123456.0};
    enum { SPECIAL = sizeof special / sizeof *special, RANDOM = 5000 };
    double* random = malloc(RANDOM * sizeof *random);
    ns_rng rng = ns_rng_seed(11);
    for (int i = 0; i < RANDOM;) {
        uint64_t bits = ns_rng_next(&rng);
        memcpy(&random[i], &bits, sizeof bits);
        i += isfinite(random[i]) ? 1 : 0;
    }
    const ns_tensor tensors[] = {{"z", 1, SPECIAL, special},
                                 {"a \"quoted\" \\ name, [{:", SPECIAL, 1, special},
                                 {"énergie/\xf0\x9f\xa4\x96", 50, 100, random}};
    static const char* const endings[] = {"w.safetensors", "w.json", "w"};
    for (int k = 0; k < 3; k++) {
        set_path(endings[k]);
        ns_error error = {0};
        must(ns_tensors_write(path, tensors, 3, false, NULL, &error), &error);
        ns_tensors back;
        assert_int_equal(ns_tensors_read(path, NULL, &back, &error), NS_OK);
        assert_same(&back, tensors, 3);

        // The same bytes again, from what was read.
        nsi_bytes first = {0};
        assert_int_equal(nsi_file_read(path, 1 << 30, NULL, &first, NULL), NS_OK);
        ns_text again;
        assert_int_equal(ns_tensors_print(back.data, 3, k == 1 ? NS_TENSORS_JSON : NS_TENSORS_F64,
                                          NULL, &again, NULL),
                         NS_OK);
        assert_int_equal(again.size, first.count);
        assert_memory_equal(again.data, first.data, again.size);
        ns_text_free(&again);
        nsi_array_free(NULL, &first);
        ns_tensors_free(&back);
    }
    free(random);
    assert_int_equal(count_files(), 3); // no temporary ones
}

static void singles_are_rounded(void** state) {
    (void)state;
    static const double numbers[] = {0.1,   -0.0,    0x1.fffffep127, 0x1.fffffefffffffp127,
                                     1e-50, 0x1p-149};
    static const double rounded[] = {0x1.99999ap-4,  -0.0, 0x1.fffffep127,
                                     0x1.fffffep127, 0.0,  0x1p-149};
    ns_tensor tensor = {"a", 2, 3, numbers};
    assert_int_equal(ns_tensors_write(path, &tensor, 1, true, NULL, NULL), NS_OK);
    ns_tensors back;
    assert_int_equal(ns_tensors_read(path, NULL, &back, NULL), NS_OK);
    assert_int_equal(back.count, 1);
    assert_tensor(&back.data[0], "a", 2, 3, rounded);
    ns_tensors_free(&back);

    static const double large[] = {0x1.ffffffp127};
    ns_tensor too_large = {"a", 1, 1, large};
    ns_error error;
    assert_int_equal(ns_tensors_write("w", &too_large, 1, true, NULL, &error), NS_ERR_ARGUMENT);
    assert_string_equal(error.message, "w: tensor \"a\" has a number too large for F32; write F64");
}

static void json_is_made_for_reading(void** state) {
    (void)state;
    static const double a[] = {0.5, -1.0, 2.0, 1e-5}, b[] = {0.1};
    const ns_tensor tensors[] = {{"drag/w0", 2, 2, a}, {"drag/w1", 1, 1, b}};
    ns_text text;
    assert_int_equal(ns_tensors_print(tensors, 2, NS_TENSORS_JSON, NULL, &text, NULL), NS_OK);
    assert_string_equal(text.data, "{\n"
                                   "  \"drag/w0\": [\n"
                                   "    [0.5, -1],\n"
                                   "    [2, 1e-05]\n"
                                   "  ],\n"
                                   "  \"drag/w1\": [\n"
                                   "    [0.1]\n"
                                   "  ]\n"
                                   "}\n");
    ns_text_free(&text);
}

static void wrong_tensors_are_not_written(void** state) {
    (void)state;
    static const double one[] = {1.0}, nan_[] = {1.0, NAN}, infinite[] = {-INFINITY};
    static const struct {
        ns_tensor tensors[2];
        ns_status status;
        const char* message;
    } cases[] = {
        {{{"a", 1, 1, one}, {"a", 1, 1, one}}, NS_ERR_ARGUMENT, "tensor \"a\" is given twice"},
        {{{NULL, 1, 1, one}}, NS_ERR_ARGUMENT, "a tensor has no name or no data"},
        {{{"a", 1, 1, NULL}}, NS_ERR_ARGUMENT, "a tensor has no name or no data"},
        {{{"", 1, 1, one}}, NS_ERR_ARGUMENT, "\"\" as a tensor's name is empty"},
        {{{"a\tb", 1, 1, one}},
         NS_ERR_ARGUMENT,
         "\"a b\" as a tensor's name has a control character"},
        {{{"a\xc0\x80", 1, 1, one}},
         NS_ERR_ARGUMENT,
         "\"a\xc0\x80\" as a tensor's name is not UTF-8"},
        {{{"\xed\xa0\x80", 1, 1, one}},
         NS_ERR_ARGUMENT,
         "\"\xed\xa0\x80\" as a tensor's name is not UTF-8"},
        {{{"__metadata__", 1, 1, one}},
         NS_ERR_ARGUMENT,
         "\"__metadata__\" as a tensor's name is not for tensors in safetensors files"},
        {{{"a", 0, 1, one}}, NS_ERR_ARGUMENT, "tensor \"a\" is empty"},
        {{{"a", 1, 2, nan_}},
         NS_ERR_NONFINITE,
         "tensor \"a\" has a number that is not finite; nothing was written"},
        {{{"a", 1, 1, infinite}},
         NS_ERR_NONFINITE,
         "tensor \"a\" has a number that is not finite; nothing was written"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        uint32_t count = cases[k].tensors[1].name ? 2 : 1;
        for (int form = NS_TENSORS_F64; form <= NS_TENSORS_JSON; form++) {
            ns_text text;
            ns_error error = {0};
            assert_int_equal(ns_tensors_print(cases[k].tensors, count, (ns_tensor_form)form, NULL,
                                              &text, &error),
                             cases[k].status);
            assert_string_equal(error.message, cases[k].message);
            assert_null(text.data);
        }
    }
}

// ---- damage and failures ---------------------------------------------------------------------

static void every_prefix_is_refused(void** state) {
    (void)state;
    ns_text json;
    assert_int_equal(ns_tensors_print(reference_tensors, 2, NS_TENSORS_JSON, NULL, &json, NULL),
                     NS_OK);
    const struct {
        const char *bytes, *name;
        size_t size;
    } files[] = {{reference_f64, "w", sizeof reference_f64 - 1},
                 {reference_mixed, "w", sizeof reference_mixed - 1},
                 {json.data, "w.json", json.size - 1}}; // without the line end
    for (int k = 0; k < 3; k++) {
        for (size_t size = 0; size < files[k].size; size++) {
            test_alloc counter = {0};
            ns_allocator allocator = test_allocator(&counter);
            char* exact = malloc(size ? size : 1); // so that reading past the end is seen
            memcpy(exact, files[k].bytes, size);
            ns_tensors tensors;
            ns_error error = {0};
            ns_status status =
                ns_tensors_parse(exact, size, files[k].name, &allocator, &tensors, &error);
            if (status == NS_OK) fail_msg("file %d is read when cut to %zu bytes", k, size);
            assert_int_equal(status, error.status);
            assert_int_equal(counter.live_blocks, 0);
            free(exact);
        }
    }
    ns_text_free(&json);
}

// Change single bytes: read or refused with a message, and nothing is leaked.
static void changed_bytes_are_survived(void** state) {
    (void)state;
    static const unsigned char values[] = {0,   1,   0x20, '"', '[',  ']',
                                           '{', '}', ',',  '9', 0x7F, 0xFF};
    uint32_t good = 0;
    for (size_t at = 0; at < sizeof reference_mixed - 1; at++) {
        for (size_t k = 0; k < sizeof values; k++) {
            char bytes[sizeof reference_mixed - 1];
            memcpy(bytes, reference_mixed, sizeof bytes);
            bytes[at] = (char)values[k];
            ns_tensors tensors;
            ns_error error = {0};
            ns_status status = ns_tensors_parse(bytes, sizeof bytes, "w", NULL, &tensors, &error);
            assert_int_equal(status, error.status);
            good += status == NS_OK;
            ns_tensors_free(&tensors);
        }
    }
    assert_true(good > 100);
}

static void failing_allocations_are_reported(void** state) {
    (void)state;
    for (int json = 0; json < 2; json++) {
        set_path(json ? "w.json" : "w");
        assert_int_equal(ns_tensors_write(path, reference_tensors, 1, false, NULL, NULL), NS_OK);
        size_t n = 1;
        for (bool done = false; !done; n++) {
            test_alloc counter = {.fail_at = n};
            ns_allocator allocator = test_allocator(&counter);
            ns_tensors tensors;
            ns_error error = {0};
            ns_status status = ns_tensors_read(path, &allocator, &tensors, &error);
            done = counter.calls < n;
            assert_int_equal(status, done ? NS_OK : NS_ERR_NOMEM);
            assert_int_equal(error.status, status);
            if (done) assert_same(&tensors, reference_tensors, 1);
            ns_tensors_free(&tensors);
            assert_int_equal(counter.live_blocks, 0);
        }
        assert_true(n > 3);

        // When writing fails the file stays what it was.
        n = 1;
        for (bool done = false; !done; n++) {
            test_alloc counter = {.fail_at = n};
            ns_allocator allocator = test_allocator(&counter);
            ns_error error = {0};
            ns_status status =
                ns_tensors_write(path, reference_tensors, 2, false, &allocator, &error);
            done = counter.calls < n;
            assert_int_equal(status, done ? NS_OK : NS_ERR_NOMEM);
            assert_int_equal(error.status, status);
            assert_int_equal(counter.live_blocks, 0);
            ns_tensors tensors;
            assert_int_equal(ns_tensors_read(path, NULL, &tensors, NULL), NS_OK);
            assert_same(&tensors, reference_tensors, done ? 2 : 1);
            ns_tensors_free(&tensors);
        }
        assert_true(n > 5);
    }
    assert_int_equal(count_files(), 2);
}

static void files_that_cannot_be_read(void** state) {
    (void)state;
    ns_tensors tensors;
    ns_error error;
    assert_int_equal(ns_tensors_read("/no/such/w.json", NULL, &tensors, &error), NS_ERR_IO);
    assert_string_equal(error.message,
                        "/no/such/w.json: cannot be opened: No such file or directory");
    ns_tensors_free(&tensors);
    assert_int_equal(ns_tensors_read("/tmp", NULL, &tensors, &error), NS_ERR_IO);
    assert_string_equal(error.message, "/tmp: cannot be read: Is a directory");
}

static void assert_file_is(const char* name, uint32_t count) {
    ns_tensors tensors;
    assert_int_equal(ns_tensors_read(name, NULL, &tensors, NULL), NS_OK);
    assert_same(&tensors, reference_tensors, count);
    ns_tensors_free(&tensors);
}

static void failed_writing_loses_nothing(void** state) {
    (void)state;
    ns_error error;
    assert_int_equal(
        ns_tensors_write("/no/such/folder/w", reference_tensors, 1, false, NULL, &error),
        NS_ERR_IO);
    assert_string_equal(error.message,
                        "/no/such/folder/w: cannot be written: No such file or directory");
    assert_int_equal(ns_tensors_write("/tmp", reference_tensors, 1, false, NULL, &error),
                     NS_ERR_IO);
    assert_string_equal(error.message, "/tmp: cannot be written: Is a directory");
    if (access("/dev/full", W_OK) == 0) {
        assert_int_equal(ns_tensors_write("/dev/full", reference_tensors, 1, false, NULL, &error),
                         NS_ERR_IO);
        assert_string_equal(error.message, "/dev/full: cannot be written: No space left on device");
        struct stat about;
        assert_true(stat("/dev/full", &about) == 0 && S_ISCHR(about.st_mode));
    }

    // A disk that is full halfway: files of more than 10 bytes fail.
    assert_int_equal(ns_tensors_write(path, reference_tensors, 1, false, NULL, NULL), NS_OK);
    struct rlimit limit, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small = limit;
    small.rlim_cur = 10;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    ns_status status = ns_tensors_write(path, reference_tensors, 2, false, NULL, &error);
    setrlimit(RLIMIT_FSIZE, &limit);
    signal(SIGXFSZ, handler);
    assert_int_equal(status, NS_ERR_IO);
    assert_non_null(strstr(error.message, "/w.safetensors: cannot be written: File too large"));
    assert_file_is(path, 1);
    assert_int_equal(count_files(), 1);

    // Numbers that are not finite neither.
    static const double nan_[] = {NAN};
    ns_tensor broken = {"a", 1, 1, nan_};
    assert_int_equal(ns_tensors_write(path, &broken, 1, false, NULL, &error), NS_ERR_NONFINITE);
    assert_non_null(strstr(error.message, "/w.safetensors: tensor \"a\" has a number that is not"));
    assert_file_is(path, 1);

    // A write-protected file stays (unless we may write everywhere).
    chmod(path, 0444);
    if (access(path, W_OK) != 0) {
        assert_int_equal(ns_tensors_write(path, reference_tensors, 2, false, NULL, &error),
                         NS_ERR_IO);
        assert_file_is(path, 1);
    }
}

// What is replaced keeps its permissions, and a link stays one.
static void replaced_files_stay_what_they_are(void** state) {
    (void)state;
    const char* link = tempdir_path("link");
    assert_int_equal(ns_tensors_write(path, reference_tensors, 1, false, NULL, NULL), NS_OK);
    mode_t mask = umask(0);
    umask(mask);
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0666 & ~mask);
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(symlink("w.safetensors", link), 0);
    assert_int_equal(ns_tensors_write(link, reference_tensors, 2, false, NULL, NULL), NS_OK);
    assert_file_is(path, 2);
    assert_true(lstat(link, &about) == 0 && S_ISLNK(about.st_mode));
    assert_true(stat(path, &about) == 0 && (about.st_mode & 0777) == 0640);

    // A temporary file that a crash left does not stand in the way.
    char left[64];
    snprintf(left, sizeof left, ".neuralsim-%ld-0.tmp", (long)getpid());
    FILE* file = fopen(tempdir_path(left), "w");
    assert_non_null(file);
    fclose(file);
    assert_int_equal(ns_tensors_write(path, reference_tensors, 1, false, NULL, NULL), NS_OK);
    assert_file_is(path, 1);
    assert_int_equal(count_files(), 3);
}

#define IN_FOLDER(f) cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_python_wrote),
        cmocka_unit_test(writes_what_python_writes),
        cmocka_unit_test(all_halves_are_read),
        cmocka_unit_test(form_of_the_header_does_not_matter),
        IN_FOLDER(written_tensors_read_back),
        IN_FOLDER(singles_are_rounded),
        cmocka_unit_test(json_is_made_for_reading),
        cmocka_unit_test(wrong_tensors_are_not_written),
        cmocka_unit_test(every_prefix_is_refused),
        cmocka_unit_test(changed_bytes_are_survived),
        IN_FOLDER(failing_allocations_are_reported),
        cmocka_unit_test(files_that_cannot_be_read),
        IN_FOLDER(failed_writing_loses_nothing),
        IN_FOLDER(replaced_files_stay_what_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
