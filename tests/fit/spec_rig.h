// Parts of fit files.

#ifndef TEST_SPEC_RIG_H
#define TEST_SPEC_RIG_H

#include "support/assert.h"
#include "support/experiment.h"

#define PENDULUM NEURALSIM_SOURCE_DIR "/models/double_pendulum.urdf"

static inline int write_files(void** state) {
    (void)state;
    static const double starts[] = {0.8, -0.3, 0.2, 0.5, -1.2, 0.4, -0.5, 1.0};
    motion m = motion_of(PENDULUM, 0.01, 21);
    m.runs = 2;
    m.x0 = starts;
    m.push = 0.5;
    motion_record(&m, "a.csv");
    experiment_write("header.csv", "t,q0,q1\n");
    experiment_write("nan.csv", "t,q0,q1\n0,nan,nan\n0.01,nan,nan\n0.02,nan,nan\n");
    experiment_write("back.csv", "t,q0\n0,1\n0.01,2\n0.005,3\n");
    experiment_write("text.csv", "t,q0\n0,1\n0.01,two\n");
    experiment_write("ragged.csv", "t,q0\n0,1\n0.01,2,3\n");
    experiment_write("strange.csv", "t,height,width\n0,1,2\n0.01,1,2\n");
    experiment_write("gap.csv", "t,q0,tau0\n0,1,2\n0.01,1,\n0.02,1,2\n");
    experiment_write("pose.yaml", "time: t\ntrajectory: traj\nobserve: {link/link1/poze/x: q0}\n");
    experiment_write("motor.yaml",
                     "time: t\ntrajectory: traj\nobserve: {q0: q0}\ncontrol: {tau7: q1}\n");
    experiment_write("noise.yaml",
                     "time: t\ntrajectory: traj\nobserve: {q0: {value: q0, sigma: -1}}\n");
    experiment_write("formula.yaml", "time: t\ntrajectory: traj\nobserve: {q0: sin(q0}\n");
    experiment_write("column.yaml", "time: t\ntrajectory: traj\nobserve: {q0: q7}\n");
    experiment_write("unweighted.yaml",
                     "time: t\ntrajectory: traj\nobserve: {q0: {value: q0, weight: 0}}\n");
    experiment_write("net.yaml", "networks:\n  - name: drag\n    inputs: joint/*/velocity\n"
                                 "    outputs: joint/*/tau\n    hidden: [3]\n");
    experiment_write("bad_net.yaml", "networks:\n  - name: drag\n    inputs: joint/*/speed\n"
                                     "    outputs: joint/*/tau\n");
    experiment_write("bad.urdf", "<robot name='r'>\n<link name='a'>\n</robot>\n");
    experiment_write("ball.xml",
                     "<mujoco><worldbody><body name='b'><freejoint/><inertial pos='0 0 0' mass='1'"
                     " diaginertia='1 1 1'/></body></worldbody></mujoco>");
    experiment_write("ball.csv", "t,q0,q1,q2\n0,0,0,0\n0.01,0,0,0\n0.02,0,0,0\n0.03,0,0,0\n");
    return 0;
}

// ---- whole files -------------------------------------------------------------------------------

#define MODEL "model: " PENDULUM "\n"

#define MASS "parameters: {link/link1/mass: free}\n"

#endif
