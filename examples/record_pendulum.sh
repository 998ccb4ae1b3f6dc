#!/bin/sh
# Make examples/pendulum_recording.csv: what sensors would tell of a double pendulum whose true numbers
# are not those of models/double_pendulum.urdf. Angles at 50 Hz with 2 mrad of noise, torques known.
# usage: sh examples/record_pendulum.sh PROGRAM
set -eu
program=$1
cd "$(dirname "$0")/.."
{
    echo "# simulated, with noise, by examples/record_pendulum.sh"
    echo "traj,t,q_joint0,q_joint1,tau_joint0,tau_joint1"
    trajectory=0
    for start in "0.8 -0.4" "-1.2 0.9" "0.2 1.5" "-0.5 -1.1"; do
        "$program" simulate models/double_pendulum.urdf --time 6 --dt 0.02 --integrator rk4 \
            --q0 $start --set link/link0/mass=1.15 link/link1/mass=0.75 link/link1/com/z=-0.41 \
            'joint/*/damping=0.05' joint/joint0/friction=0.15 joint/joint1/friction=0.08 \
            'joint/*/friction_velocity=0.1' \
            --control "tau0=1.5*sin((2+0.3*$trajectory)*t), tau1=0.6*sin((5-0.4*$trajectory)*t+1)" |
            awk -F, -v OFS=, -v trajectory=$trajectory '
                function noise(  s, k) { s = -6; for (k = 0; k < 12; k++) s += rand(); return 0.002 * s }
                BEGIN { srand(trajectory + 1) }
                NR > 1 { printf "%d,%.2f,%.4f,%.4f,%.4f,%.4f\n", trajectory, $1, $2 + noise(), $3 + noise(), $6, $7 }'
        trajectory=$((trajectory + 1))
    done
} >examples/pendulum_recording.csv
