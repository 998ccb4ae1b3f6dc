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

say "Five links fall on the ground and come to rest (gradients through contact: docs/contact-gradients.md):"
run simulate models/pendulum5_ground.xml --q0 1.2 0.5 0.2 0.1 0.3 --time 3 --observe energy/total --every 1000

say "The same to look at in a browser, in 3D with the forces (with npm on this machine when it was built):"
page=${TMPDIR:-/tmp}/neuralsim_demo.html
run simulate models/pendulum5_ground.xml --q0 1.2 0.5 0.2 0.1 0.3 --time 3 --html "$page" || true

say "A network at each joint's torque, declared in a file of its own; its weights get gradients, too:"
run simulate $model --blueprint examples/joint_friction.yaml --time 2 --q0 1 0 --observe energy/total --every 1000
run gradcheck $model --blueprint examples/joint_friction.yaml

say "A fit. 18 s of (simulated, noisy) recordings of a machine that is not quite as its URDF file says:"
run score $model --data examples/pendulum_recording.csv --history 11 --horizon 1s
fit=${TMPDIR:-/tmp}/neuralsim_demo
run fit examples/pendulum_fit.yaml -o "$fit"
say "The masses, the centre of mass and the friction of the machine were found, with error bars; motion that
was not trained on is predicted about as well as the sensors' noise of 2 mrad allows. How the loss fell, and a
page to look at ('neuralsim view $fit' opens it):
    $fit/report.html"
run plot "$fit" --figure loss
run score "$fit/fitted.yaml" --data examples/pendulum_recording.csv --history 11 --horizon 1s

say "What nobody modelled, learned: a swimmer in water, for which rigid bodies are as in vacuum. 158 weights
for the force on a link, from 2 s of ten motions, predict 9 s of new ones; and six links, never seen, as well:"
run experiment swimmer --quick -o "${TMPDIR:-/tmp}/neuralsim_demo_swimmer"

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
