// Functions of a rotation angle that are smooth at zero although their closed form is 0/0 there.

#include "neuralsim/vec.h"

// sum_k (-x2)^k / (2k + first)!, seven terms from k = 0 on: for x2 < 0.01 the next is below 1e-24.
static ns_expr series(ns_expr x2, double first_factorial, double first) {
    double coefficients[7], factorial = first_factorial;
    for (int k = 0; k < 7; k++) {
        coefficients[k] = (k % 2 ? -1.0 : 1.0) / factorial;
        factorial *= (2.0 * k + first + 1.0) * (2.0 * k + first + 2.0);
    }
    ns_expr sum = ns_const(coefficients[6]);
    for (int k = 6; k-- > 0;) sum = ns_fma(sum, x2, ns_const(coefficients[k]));
    return sum;
}

// Both branches are computed, so the one not taken gets an argument that suits it.
static const double small = 0.01;

ns_expr ns_sinc_of_square(ns_expr x2) {
    ns_expr is_small = ns_lt(x2, ns_const(small));
    ns_expr x = ns_sqrt(ns_select(is_small, ns_const(1.0), x2));
    return ns_select(is_small, series(x2, 1.0, 1.0), ns_div(ns_sin(x), x));
}

ns_expr ns_cos_of_square(ns_expr x2) {
    ns_expr is_small = ns_lt(x2, ns_const(small));
    ns_expr x = ns_sqrt(ns_select(is_small, ns_const(1.0), x2));
    return ns_select(is_small, series(x2, 1.0, 0.0), ns_cos(x));
}
