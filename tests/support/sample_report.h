// A report with every kind of thing in it, for the tests of the renderers.

#ifndef TEST_SAMPLE_REPORT_H
#define TEST_SAMPLE_REPORT_H

#include "neuralsim/report.h"

#define SAMPLE_HOSTILE "<script>alert('1 & \"2\"')</script>"
#define SAMPLE_LONG                                                                                \
    "link/a_rather_long_name_of_a_link_that_somebody_chose/inertia_about_its_centre_of_mass/xx"

// A pendulum in one episode of three rows; it lives as long as the program.
const ns_model* sample_model(void);

// NULL when out of memory. Sections "Parameters" (a table of three rows with an estimate, a verdict and
// a link, a sentence, notes of all levels), "Motion" (one figure, one motion), one without a title (a
// table of many rows) and "Nothing", which is empty.
ns_report* sample_report(const ns_allocator* allocator);

enum { SAMPLE_ROWS = 250 }; // of the long table

#endif
