#include "support/residual.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

void residual_add(residual* r, double got, double want, double scale) {
    double error = fabs(got - want) / scale;
    r->count++;
    if (!(error <= r->worst)) r->worst = isfinite(error) ? error : INFINITY;
}

void residual_array(residual* r, const double* got, const double* want, size_t n, double floor) {
    double scale = floor;
    for (size_t i = 0; i < n; i++) scale = fmax(scale, fabs(want[i]));
    for (size_t i = 0; i < n; i++) residual_add(r, got[i], want[i], scale);
}

void residual_check(const residual* r) {
    printf("    %-58s %8.1e  (tolerance %.0e, %llu numbers)\n", r->name, r->worst, r->tolerance,
           (unsigned long long)r->count);
    if (r->count == 0) fail_msg("%s: nothing was compared", r->name);
    if (!(r->worst <= r->tolerance)) {
        fail_msg("%s: residual %g exceeds the tolerance %g", r->name, r->worst, r->tolerance);
    }
}
