#!/bin/sh
# What the program does so far, on one page. usage: sh examples/demo.sh PROGRAM
set -eu
program=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
cd "$(dirname "$0")/.."
at="q=0.5,qd=1,length=1"

say() { printf '\n%s\n' "$*"; }
run() {
    printf '$ neuralsim %s\n' "$*"
    "$program" "$@"
}

model=models/double_pendulum.urdf

say "A double pendulum from a URDF file, let go at 1 rad, and what becomes of its energy:"
run simulate $model --time 2 --q0 1 0 --observe energy/total --every 500

say "How does its acceleration depend on the angles, and on the mass of the second link? Exactly so:"
run eval $model --states examples/double_pendulum_states.csv --quantity qdd --wrt q link/link1/mass

say "The gradient of a whole simulation for start, torques and masses at once, three ways:"
run gradcheck $model --free 'link/*/mass'

say "Underneath is a graph of scalar operations. A pendulum's, and its gradient:"
run graph examples/pendulum.graph --eval "$at"
run graph examples/pendulum.graph --derive vjp --eval "$at,seed:qdd=1"

say "Interpreted, as machine code, and as plain C, the bits are the same:"
run graph examples/pendulum.graph --derive vjp --eval "$at,seed:qdd=1" --backend interp
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
run graph examples/pendulum.graph --derive vjp --emit-c pendulum_gradient -o "$work/gradient.c"
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

say "And it is fast. Nanoseconds per robot and step, for one robot and for four side by side:"
run bench double_pendulum/step quadruped_air mlp175 --backend native --quick

say "More: 'neuralsim --help', README.md, docs/design.md."
