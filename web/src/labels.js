// Names beside the links of a robot.

import { Vector3 } from "three";
import { make } from "./dom.js";

export class Labels {
    constructor(names) {
        this.labels = names.map((name) => ({ label: make("span", {}, name), width: 0, height: 0 }));
        this.element = make("div", { className: "scene-labels" }, ...this.labels.map(({ label }) => label));
    }

    // One that would cover another is left out.
    // @param robot  null: none
    place(robot, camera) {
        const { clientWidth: width, clientHeight: height } = this.element;
        const taken = [], at = new Vector3();
        this.labels.forEach((entry, link) => {
            const { label } = entry;
            if (entry.width === 0) Object.assign(entry, { width: label.offsetWidth, height: label.offsetHeight });
            let shown = false;
            if (robot) {
                at.copy(robot.positions[link]).project(camera);
                const x = Math.round((at.x + 1) / 2 * width) + 8, y = Math.round((1 - at.y) / 2 * height) - 8;
                const box = { x, y, right: x + entry.width, bottom: y + entry.height };
                shown = Math.abs(at.z) <= 1 && !taken.some((other) => overlap(box, other));
                if (shown) {
                    taken.push(box);
                    label.style.transform = `translate(${x}px, ${y}px)`;
                }
            }
            label.style.visibility = shown ? "visible" : "hidden";
        });
    }
}

function overlap(a, b) {
    return a.x < b.right && a.right > b.x && a.y < b.bottom && a.bottom > b.y;
}
