#!/bin/sh
# What the program does so far, on one page. usage: sh examples/demo.sh PROGRAM
set -eu
program=$1
here=$(dirname "$0")
at="q=0.5,qd=1,length=1"

say() { printf '\n%s\n' "$*"; }
run() {
    printf '$ neuralsim %s\n' "$*"
    "$program" "$@"
}

say "A pendulum's acceleration as a graph of scalar operations (examples/pendulum.graph):"
run graph "$here/pendulum.graph"
run graph "$here/pendulum.graph" --eval "$at"

say "Its exact gradient is a graph again. How does the acceleration change with each input?"
run graph "$here/pendulum.graph" --derive vjp --eval "$at,seed:qdd=1"

say "Interpreted, as machine code, and as plain C, the bits are the same:"
run graph "$here/pendulum.graph" --derive vjp --eval "$at,seed:qdd=1" --backend interp
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
run graph "$here/pendulum.graph" --derive vjp --emit-c pendulum_gradient -o "$work/gradient.c"
cat >"$work/main.c" <<'END'
#include "gradient.c"
#include <stdio.h>
int main(void) {
    const double in[] = {0.5, 1.0, 1.0, 1.0};
    double out[pendulum_gradient_outputs], work[pendulum_gradient_work + 1];
    pendulum_gradient(in, out, NULL, NULL, work);
    for (int i = 0; i < pendulum_gradient_outputs; i++) printf("out[%d] = %.17g\n", i, out[i]);
    return 0;
}
END
cc -std=c17 -O2 -ffp-contract=off -o "$work/main" "$work/main.c" -lm
printf '$ cc gradient.c ... && ./main\n'
"$work/main"

say "And it is fast: a network of 175 weights, value and gradient, in nanoseconds per sample:"
run bench mlp175 --backend native --quick

say "More: 'neuralsim --help', README.md, docs/design.md."
