// Simulate the swimmers of data/*.csv again with MuJoCo: from the first row of each trajectory, with the
// torques of its rows, in the medium that the file is named after. Prints how far the numbers move.
//
//     npm install --no-save @mujoco/mujoco && node make_data.mjs

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import loadMujoco from "@mujoco/mujoco";

const here = dirname(fileURLToPath(import.meta.url));
const mujoco = await loadMujoco();

// kg/m^3 and Pa s; Table II of the paper.
const media = {
    vacuum: [0, 0],
    water5: [1000, 0.001518],
    water25: [997, 0.00089],
    air25: [1.184, 0.00001849],
};

function loadModel(robot, medium) {
    const [density, viscosity] = media[medium];
    const text = readFileSync(join(here, "../../models", `${robot}.xml`), "utf8");
    const model = mujoco.MjModel.from_xml_string(text);
    model.opt.density = density;
    model.opt.viscosity = viscosity;
    return model;
}

for (const file of readdirSync(join(here, "data"))) {
    const [robot, medium] = file.replace(".csv", "").split("_");
    const model = loadModel(robot, medium), state = new mujoco.MjData(model);
    const { nq, nv, nu } = model;
    const lines = readFileSync(join(here, "data", file), "utf8").trim().split("\n");
    let trajectory = null, moved = 0;
    const rows = lines.slice(1).map((line) => {
        const numbers = line.split(",").map(Number);
        const [number, time] = numbers;
        const torques = numbers.slice(2 + nq + nv);
        if (number !== trajectory) {
            trajectory = number;
            for (let k = 0; k < nq; k++) state.qpos[k] = numbers[2 + k];
            for (let k = 0; k < nv; k++) state.qvel[k] = numbers[2 + nq + k];
        }
        const now = [...state.qpos, ...state.qvel];
        now.forEach((value, k) => { moved = Math.max(moved, Math.abs(value - numbers[2 + k])); });
        for (let k = 0; k < nu; k++) state.ctrl[k] = torques[k];
        mujoco.mj_step(model, state); // to the next row
        return [number, time, ...now.map((value) => Number(value.toPrecision(9))), ...torques].join(",");
    });
    writeFileSync(join(here, "data", file), `${[lines[0], ...rows].join("\n")}\n`);
    console.log(`${file}: ${rows.length} rows, moved by ${moved.toExponential(1)} at most`);
}
