// Tables of numbers: what is read agrees with another program's writing, what is written reads back
// bit for bit, and what is no table gets a message that says where and why.

#define _POSIX_C_SOURCE 200809L

#include "base/common.h"
#include "neuralsim/table.h"
#include "support/assert.h"
#include "support/check.h"
#include "support/tempdir.h"
#include "support/testalloc.h"

#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

static ns_table parse(const char* text) {
    ns_table csv;
    ns_error error = {0};
    must(ns_table_parse(text, strlen(text), "t.csv", NULL, NULL, &csv, &error), &error);
    return csv;
}

// ---- reading -------------------------------------------------------------------------------

// Written by the csv module of Python: tests/io/csv_reference.py prints both.
static const char reference[] =
    "\"t\",\"q_hip\",\"a, b\",\"say \"\"hi\"\"\",\"énergie\",\"link/a b/mass\"\r\n"
    "-0.35233447033367526,-0.0006983016521509962,30186.89460797075,-8.551274266649145e+19,"
    "7.17640086133784e-302,-2.6862216617482892e+299\r\n"
    "-0.8840021504505864,1.4871466378840516e-05,-92500.86831160303,-1.3270863267522826e+19,"
    "-8.602891528507622e-301,-8.185739733122699e+299\r\n"
    "-0.15096162171497207,inf,-75239.60777007088,-5.535220707859709e+19,2.548664448111786e-301,"
    "8.954178849140113e+299\r\n"
    "0.15420589723499734,-0.0002066390506984397,-0.0,-9.068346387644875e+19,7.169369180973591e-301,"
    "-4.207814273366475e+299\r\n"
    "-0.7114898332851249,-0.0007644155238432633,-38303.63517961313,5e-324,-6.3854724015212504e-301,"
    "1.6320032732493252e+299\r\n"
    "0.2778269378523681,-0.00025520491454853757,9548.893141911563,-8.744220500533536e+19,"
    "-8.807976600675348e-301,-5.8808257436134695e+299\r\n";

static const char* const reference_names[] = {"t",          "q_hip",   "a, b",
                                              "say \"hi\"", "énergie", "link/a b/mass"};

static const double reference_numbers[6][6] = {
    {-0x1.68ca5e0d58b24p-2, -0x1.6e1c7611e1b6dp-11, 0x1.d7ab94141ca47p+14, -0x1.28ae9298e9673p+66,
     0x1.89b4cd1f75fcbp-1001, -0x1.9abd3a4fee846p+994},
    {-0x1.c49bee0b8ed14p-1, 0x1.f300ec69465e4p-17, -0x1.6954de49ab51cp+16, -0x1.705727a8d6f4ap+63,
     -0x1.26fa72cd0b54fp-997, -0x1.38e978b872194p+996},
    {-0x1.352b5de1bc450p-3, INFINITY, -0x1.25e79b96d1c1fp+16, -0x1.80154588e2d23p+65,
     0x1.5d8ea6e83dac4p-999, 0x1.5649666c94202p+996},
    {0x1.3bd04d2bcc158p-3, -0x1.b15a7edfdb5f4p-13, -0x0.0p+0, -0x1.3a9f187bc76c8p+66,
     0x1.eba68e6513334p-998, -0x1.41b3289424e71p+995},
    {-0x1.6c48653acace2p-1, -0x1.90c61d67585f2p-11, -0x1.2b3f45364322fp+15, 0x0.0000000000001p-1022,
     -0x1.b5e4c7bf6739bp-998, 0x1.f315fd3c9d347p+993},
    {0x1.1c7eaa301850cp-2, -0x1.0b9a0c302fe9cp-12, 0x1.2a6725279626dp+13, -0x1.2f60478a79f98p+66,
     -0x1.2e02a4d575b7ep-997, -0x1.c19b443716c00p+995},
};

static void assert_is_reference(const ns_table* csv) {
    assert_int_equal(csv->ncol, 6);
    assert_int_equal(csv->nrow, 6);
    for (uint32_t k = 0; k < 6; k++) {
        assert_string_equal(csv->names[k], reference_names[k]);
        assert_int_equal(ns_table_column(csv, reference_names[k]), k);
        assert_int_equal(csv->lines[k], k + 2);
        for (uint32_t row = 0; row < 6; row++) {
            assert_true(check_same_bits(ns_table_at(csv, row, k), reference_numbers[row][k]));
        }
    }
}

static void reads_what_python_wrote(void** state) {
    (void)state;
    ns_table csv = parse(reference);
    assert_is_reference(&csv);
    assert_int_equal(ns_table_column(&csv, "Q_hip"), NSI_NONE);
    assert_int_equal(ns_table_column(&csv, ""), NSI_NONE);
    ns_table_free(&csv);
    ns_table_free(&csv); // again
    ns_table_free(NULL);

    const char* path = tempdir_write_bytes("t.csv", reference, sizeof reference - 1);
    assert_int_equal(ns_table_read(path, NULL, NULL, &csv, NULL), NS_OK);
    assert_is_reference(&csv);
    ns_table_free(&csv);
    unlink(path);
}

// The same table in other clothes.
static void form_does_not_matter(void** state) {
    (void)state;
    static const char* const forms[] = {
        "a,b\n1,2\n3,4\n",
        "a,b\n1,2\n3,4",
        "a,b\r\n1,2\r\n3,4\r\n",
        "a,b\r1,2\r3,4\r",
        "\357\273\277a,b\n1,2\n3,4\n", // with a byte order mark
        "# made by hand\n#\n\n  # indented\na,b\n1,2\n3,4\n",
        " a ,\tb\n 1 , 2\t\n3,  4  \n",
        "\"a\",\"b\"\n\"1\",\"2\"\n \"3\" , \"4\" \n",
        "\n\na,b\n\n1,2\n  \n3,4\n\n \t",
        "a,b\n1.0e0,+2\n.3e1,400e-2\n",
    };
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
        ns_table csv = parse(forms[k]);
        assert_int_equal(csv.ncol, 2);
        assert_int_equal(csv.nrow, 2);
        assert_string_equal(csv.names[0], "a");
        assert_string_equal(csv.names[1], "b");
        for (uint32_t i = 0; i < 4; i++) {
            if (csv.numbers[i] != i + 1.0) fail_msg("form %zu: number %u", k, i);
        }
        ns_table_free(&csv);
    }
    ns_table csv = parse("\n# c\na,b\n\n1,2\n\r\n3,4\n");
    assert_int_equal(csv.lines[0], 5);
    assert_int_equal(csv.lines[1], 7);
    ns_table_free(&csv);

    csv = parse("only\n");
    assert_int_equal(csv.ncol, 1);
    assert_int_equal(csv.nrow, 0);
    ns_table_free(&csv);
}

static void missing_numbers_are_nan_when_allowed(void** state) {
    (void)state;
    static const char text[] = "a,b,c\n,2,\n1,,3\n";
    ns_table csv;
    ns_error error;
    assert_int_equal(ns_table_parse(text, strlen(text), "t.csv",
                                    &(ns_table_options){.allow_missing = true}, NULL, &csv, &error),
                     NS_OK);
    static const double expected[6] = {NAN, 2.0, NAN, 1.0, NAN, 3.0};
    for (int i = 0; i < 6; i++) assert_true(check_same_bits(csv.numbers[i], expected[i]));
    ns_table_free(&csv);
    assert_int_equal(ns_table_parse(text, strlen(text), "t.csv", NULL, NULL, &csv, &error),
                     NS_ERR_PARSE);
    assert_string_equal(error.message,
                        "t.csv:2:1: there is nothing in column \"a\"; write a number");
}

static void other_forms_are_read(void** state) {
    (void)state;
    // Rows by text; in the others there may be anything, and any number of fields.
    static const char text[] = "kind,x,n\na,1,1\nb,2\n\" b\",2,1\nb,3,1\n b ,4,2\nb,5,1,\n";
    static const ns_table_where where[] = {{"kind", "b"}, {"n", "1"}};
    ns_table_options form = {.allow_missing = true, .where = where, .nwhere = 2};
    ns_table csv;
    ns_error error = {0};
    assert_int_equal(ns_table_parse(text, strlen(text), "t.csv", &form, NULL, &csv, &error),
                     NS_ERR_PARSE);
    assert_string_equal(error.message, "t.csv:3:4: 2 fields for 3 columns; add what is missing from"
                                       " column \"n\" on");
    static const char good[] = "kind,x,n\na,1,1\n\" b\",2\nb,3,1\n b ,4,2\n\"b\",5,1\nc\n";
    assert_int_equal(ns_table_parse(good, strlen(good), "t.csv", &form, NULL, &csv, &error), NS_OK);
    assert_int_equal(csv.nrow, 2);
    assert_int_equal(csv.lines[0], 4);
    assert_int_equal(csv.lines[1], 6);
    assert_true(isnan(ns_table_at(&csv, 0, 0)));
    assert_true(ns_table_at(&csv, 0, 1) == 3.0 && ns_table_at(&csv, 1, 1) == 5.0);
    assert_true(ns_table_at(&csv, 1, 2) == 1.0);
    ns_table_free(&csv);
    form.where = &(ns_table_where){"other", "b"};
    form.nwhere = 1;
    assert_int_equal(ns_table_parse(good, strlen(good), "t.csv", &form, NULL, &csv, &error),
                     NS_ERR_PARSE);
    assert_string_equal(error.message, "t.csv:1:1: there is no column \"other\"");

    // Without a row of names, and names only.
    static const char* const names[] = {"a", "b"};
    form = (ns_table_options){.names = names, .nname = 2};
    assert_int_equal(ns_table_parse("# c\n1,2\n3,4\n", 12, "t.csv", &form, NULL, &csv, &error),
                     NS_OK);
    assert_int_equal(csv.nrow, 2);
    assert_int_equal(ns_table_column(&csv, "b"), 1);
    assert_int_equal(csv.lines[0], 2);
    assert_true(ns_table_at(&csv, 1, 1) == 4.0);
    ns_table_free(&csv);
    assert_int_equal(ns_table_parse("1,2,3\n", 6, "t.csv", &form, NULL, &csv, &error),
                     NS_ERR_PARSE);
    assert_string_equal(error.message,
                        "t.csv:1:5: more fields than the 2 columns; remove them, or name them");
    form = (ns_table_options){.names_only = true};
    assert_int_equal(ns_table_parse("a,b\nx,y,z\n", 10, "t.csv", &form, NULL, &csv, &error), NS_OK);
    assert_int_equal(csv.ncol, 2);
    assert_int_equal(csv.nrow, 0);
    ns_table_free(&csv);
}

// ---- what is no table ----------------------------------------------------------------------

static void malformed_text_gets_a_message(void** state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "t.csv:1:1: there is no table; the first row must name the columns"},
        {"# only a comment\n\n", "t.csv:3:1: there is no table; the first row must name the "
                                 "columns"},
        {"a,,b\n", "t.csv:1:3: column 2 has no name; name every column in the first row"},
        {"a,b,\n1,2,\n", "t.csv:1:5: column 3 has no name; name every column in the first row"},
        {"a,\"\"\n", "t.csv:1:3: column 2 has no name; name every column in the first row"},
        {"a,b,a\n", "t.csv:1:5: columns 1 and 3 are both called \"a\"; rename one"},
        {"0.5,1\n2,3\n", "t.csv:1:1: the first row has the number 0.5 where a column's name should "
                         "be; put a row with names first"},
        {"a\tb\n",
         "t.csv:1:1: \"a?b\": columns must be separated by commas, not by semicolons or tabs"},
        {"a;b\n1;2\n",
         "t.csv:1:1: \"a;b\": columns must be separated by commas, not by semicolons or tabs"},
        {"a\x01"
         "b\n",
         "t.csv:1:1: the name \"a?b\" has a control character; remove it"},
        {"a,b\n1\n", "t.csv:2:2: 1 field for 2 columns; add what is missing from column \"b\" on"},
        {"a,b\n1,2\n3,4,5\n", "t.csv:3:5: more fields than the 2 columns; remove them, or name them"
                              " in the first row"},
        {"a,b\n1,2,\n", "t.csv:2:5: more fields than the 2 columns; remove them, or name them in "
                        "the first row"},
        {"a,b\n1,x2\n", "t.csv:2:3: \"x2\" in column \"b\" is not a number; write one, with a point"
                        " for decimals"},
        {"a,b\n1, 2 3\n", "t.csv:2:4: \"2 3\" in column \"b\" is not a number; write one, with a "
                          "point for decimals"},
        {"a\n0x10\n", "t.csv:2:1: \"0x10\" in column \"a\" is not a number; write one, with a point"
                      " for decimals"},
        {"a\n1;5\n",
         "t.csv:2:1: \"1;5\": columns must be separated by commas, not by semicolons or tabs"},
        {"a\n# late\n", "t.csv:2:1: \"# late\" in column \"a\" is not a number; write one, with a "
                        "point for decimals"},
        {"a\n1e999\n", "t.csv:2:1: 1e999 in column \"a\" is too large or too long for a number;"
                       " shorten it"},
        {"a,b\n1,\n", "t.csv:2:3: there is nothing in column \"b\"; write a number"},
        {"\"a\n1\n", "t.csv:1:1: the quoted field does not end on its line; add a closing quote"},
        {"a\n\"1\n2\"\n", "t.csv:2:1: the quoted field does not end on its line; add a closing "
                          "quote"},
        {"\"a\"b\n", "t.csv:1:4: text after a closing quote; write \"\" for a quote inside a "
                     "field"},
        {"a\nxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n",
         "t.csv:2:1: \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...\" in column \"a\" is not a"
         " number; write one, with a point for decimals"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        ns_table csv;
        ns_error error = {0};
        ns_status status =
            ns_table_parse(cases[k].text, strlen(cases[k].text), "t.csv", NULL, NULL, &csv, &error);
        if (status == NS_OK) fail_msg("accepted: %s", cases[k].text);
        assert_string_equal(error.message, cases[k].message);
        assert_int_equal(error.status, status);
        assert_int_equal(csv.nrow, 0);
        ns_table_free(&csv);
    }
}

static void nul_bytes_are_refused(void** state) {
    (void)state;
    ns_table csv;
    ns_error error;
    assert_int_equal(ns_table_parse("a,b\n1,2\n3,\0004\n", 13, "t.csv", NULL, NULL, &csv, &error),
                     NS_ERR_PARSE);
    assert_string_equal(error.message, "t.csv:3:3: a NUL byte; save the table as text in UTF-8");
}

static void limits_are_kept(void** state) {
    (void)state;
    ns_table csv;
    ns_error error;
    size_t size = NS_TABLE_MAX_NAME + 1;
    char* text = malloc(size + 2);
    memset(text, 'n', size);
    memcpy(text + size, "\n", 2);
    assert_int_equal(ns_table_parse(text, size + 1, "t.csv", NULL, NULL, &csv, &error),
                     NS_ERR_LIMIT);
    assert_string_equal(error.message, "t.csv:1:1: a name has more than 1023 bytes; shorten it");
    assert_int_equal(ns_table_parse(text + 1, size, "t.csv", NULL, NULL, &csv, &error), NS_OK);
    ns_table_free(&csv);
    free(text);

    nsi_text_builder many = {.allocator = ns_default_allocator()};
    for (int k = 0; k < NS_TABLE_MAX_COLUMNS + 1; k++) nsi_text_add(&many, "c%d,", k);
    ns_text header;
    assert_int_equal(nsi_text_finish(&many, &header, NULL), NS_OK);
    assert_int_equal(ns_table_parse(header.data, header.size, "t.csv", NULL, NULL, &csv, &error),
                     NS_ERR_LIMIT);
    assert_non_null(strstr(error.message, "more than 100000 columns; split the file"));
    ns_text_free(&header);
}

static void files_that_cannot_be_read(void** state) {
    (void)state;
    ns_table csv;
    ns_error error;
    assert_int_equal(ns_table_read("/no/such/file.csv", NULL, NULL, &csv, &error), NS_ERR_IO);
    assert_string_equal(error.message, "cannot open /no/such/file.csv: No such file or directory");
    assert_int_equal(ns_table_read("/tmp", NULL, NULL, &csv, &error), NS_ERR_IO);
    assert_string_equal(error.message, "cannot read /tmp: Is a directory");
    ns_table_free(&csv);
}

// Cut a good file anywhere: it is read or refused, with a message, and nothing is leaked.
static void every_prefix_is_survived(void** state) {
    (void)state;
    uint32_t good = 0;
    for (size_t size = 0; size <= sizeof reference - 1; size++) {
        test_alloc counter = {0};
        ns_allocator allocator = test_allocator(&counter);
        char* exact = malloc(size + 1); // so that reading past the end is seen
        memcpy(exact, reference, size);
        char* tight = realloc(exact, size ? size : 1);
        ns_table csv;
        ns_error error = {0};
        ns_status status = ns_table_parse(tight, size, "t.csv", NULL, &allocator, &csv, &error);
        assert_int_equal(status, error.status);
        good += status == NS_OK;
        if (status == NS_OK) ns_table_free(&csv);
        assert_int_equal(counter.live_blocks, 0);
        free(tight);
    }
    assert_true(good > 10); // whole rows, and rows whose last number is cut but still one
}

static void failing_allocations_are_reported(void** state) {
    (void)state;
    const char* path = tempdir_write_bytes("t.csv", reference, sizeof reference - 1);
    size_t n = 1;
    for (;; n++) {
        test_alloc counter = {.fail_at = n};
        ns_allocator allocator = test_allocator(&counter);
        ns_table csv;
        ns_error error = {0};
        ns_status status = ns_table_read(path, NULL, &allocator, &csv, &error);
        if (counter.calls < n) {
            assert_int_equal(status, NS_OK);
            ns_table_free(&csv);
            assert_int_equal(counter.live_blocks, 0);
            break;
        }
        assert_int_equal(status, NS_ERR_NOMEM);
        assert_int_equal(error.status, NS_ERR_NOMEM);
        assert_int_equal(counter.live_blocks, 0);
    }
    assert_true(n > 5);
    unlink(path);
}

// ---- writing -------------------------------------------------------------------------------

static void written_tables_read_back(void** state) {
    (void)state;
    // With a locale whose decimal separator is a comma, if the machine has one.
    setlocale(LC_ALL, "de_DE.UTF-8");
    static const char* const names[] = {"t", "a,b", "\"", " x", "#c", "1.5", "d\"e\"", "y "};
    static const double special[] = {0.0, -0.0, 0.1, 5e-324, 1.7976931348623157e308, -INFINITY};
    const char* path = tempdir_write("t.csv", "");
    ns_table_writer* writer;
    ns_error error;
    assert_int_equal(ns_table_writer_create(path, NULL, &writer, &error), NS_OK);
    ns_table_writer_put_names(writer, names, 8);
    ns_rng rng = ns_rng_seed(3);
    enum { ROWS = 2000 };
    double* numbers = malloc(ROWS * 8 * sizeof *numbers);
    for (int i = 0; i < ROWS * 8; i++) {
        uint64_t bits = ns_rng_next(&rng);
        memcpy(&numbers[i], &bits, sizeof bits);
        if (i < 6 || isnan(numbers[i])) numbers[i] = special[i % 6];
    }
    for (int row = 0; row < ROWS; row++) ns_table_writer_put_row(writer, numbers + row * 8, 8);
    assert_true(ns_table_writer_ok(writer));
    assert_int_equal(ns_table_writer_finish(writer, &error), NS_OK);

    ns_table csv;
    assert_int_equal(ns_table_read(path, NULL, NULL, &csv, &error), NS_OK);
    setlocale(LC_ALL, "C");
    assert_int_equal(csv.ncol, 8);
    assert_int_equal(csv.nrow, ROWS);
    for (uint32_t k = 0; k < 8; k++) assert_string_equal(csv.names[k], names[k]);
    for (int i = 0; i < ROWS * 8; i++) assert_true(check_same_bits(csv.numbers[i], numbers[i]));
    ns_table_free(&csv);
    free(numbers);
    unlink(path);
}

static void writing_fails_loudly(void** state) {
    (void)state;
    ns_table_writer* writer;
    ns_error error;
    assert_int_equal(ns_table_writer_create("/no/such/folder/x.csv", NULL, &writer, &error),
                     NS_ERR_IO);
    assert_string_equal(error.message,
                        "cannot create /no/such/folder/x.csv: No such file or directory");

    if (access("/dev/full", W_OK) == 0) {
        assert_int_equal(ns_table_writer_create("/dev/full", NULL, &writer, &error), NS_OK);
        static const char* const names[] = {"t"};
        ns_table_writer_put_names(writer, names, 1);
        for (int row = 0; row < 100000; row++) {
            ns_table_writer_put_row(writer, (const double[]){row / 3.0}, 1);
        }
        assert_false(ns_table_writer_ok(writer)); // known before the end
        assert_int_equal(ns_table_writer_finish(writer, &error), NS_ERR_IO);
        assert_string_equal(error.message, "cannot write /dev/full: No space left on device");
    }

    test_alloc counter = {.fail_at = 1};
    ns_allocator allocator = test_allocator(&counter);
    FILE* sink = tmpfile();
    assert_int_equal(ns_table_writer_attach(sink, "sink", &allocator, &writer, &error),
                     NS_ERR_NOMEM);
    assert_null(writer);
    assert_int_equal(ns_table_writer_finish(writer, &error), NS_OK);
    counter = (test_alloc){.fail_at = 2};
    assert_int_equal(ns_table_writer_attach(sink, "sink", &allocator, &writer, &error), NS_OK);
    ns_table_writer_put_row(writer, (const double[]){1.0}, 1);
    assert_int_equal(ns_table_writer_finish(writer, &error), NS_ERR_NOMEM);
    assert_int_equal(counter.live_blocks, 0);
    fclose(sink);
}

// Whoever reads a file while it is replaced sees the old one or the new one.
static void collected_tables_are_written_in_one_go(void** state) {
    (void)state;
    enum { ROWS = 20000 };
    static const char* const names[] = {"t"};
    const char* path = tempdir_write("t.csv", "old\n1\n");
    ns_table_writer* writer;
    ns_error error;
    ns_table csv;
    assert_int_equal(ns_table_writer_replace(path, NULL, &writer, &error), NS_OK);
    ns_table_writer_put_names(writer, names, 1);
    for (int row = 0; row < ROWS; row++)
        ns_table_writer_put_row(writer, (const double[]){row / 3.0}, 1);
    assert_int_equal(ns_table_read(path, NULL, NULL, &csv, &error), NS_OK);
    assert_string_equal(csv.names[0], "old");
    ns_table_free(&csv);
    assert_int_equal(ns_table_writer_finish(writer, &error), NS_OK);
    assert_int_equal(ns_table_read(path, NULL, NULL, &csv, &error), NS_OK);
    assert_string_equal(csv.names[0], "t");
    assert_int_equal(csv.nrow, ROWS);
    assert_true(csv.numbers[ROWS - 1] == (ROWS - 1) / 3.0);
    ns_table_free(&csv);
    unlink(path);

    assert_int_equal(ns_table_writer_replace("/no/such/folder/x.csv", NULL, &writer, &error),
                     NS_OK);
    ns_table_writer_put_names(writer, names, 1);
    assert_int_equal(ns_table_writer_finish(writer, &error), NS_ERR_IO);
    test_alloc counter = {.fail_at = 2};
    ns_allocator allocator = test_allocator(&counter);
    assert_int_equal(ns_table_writer_replace("/no/such/folder/x.csv", &allocator, &writer, &error),
                     NS_OK);
    ns_table_writer_put_names(writer, names, 1);
    assert_int_equal(ns_table_writer_finish(writer, &error), NS_ERR_NOMEM);
    assert_int_equal(counter.live_blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_python_wrote),
        cmocka_unit_test(form_does_not_matter),
        cmocka_unit_test(missing_numbers_are_nan_when_allowed),
        cmocka_unit_test(other_forms_are_read),
        cmocka_unit_test(malformed_text_gets_a_message),
        cmocka_unit_test(nul_bytes_are_refused),
        cmocka_unit_test(limits_are_kept),
        cmocka_unit_test(files_that_cannot_be_read),
        cmocka_unit_test(every_prefix_is_survived),
        cmocka_unit_test(failing_allocations_are_reported),
        cmocka_unit_test(written_tables_read_back),
        cmocka_unit_test(writing_fails_loudly),
        cmocka_unit_test(collected_tables_are_written_in_one_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
