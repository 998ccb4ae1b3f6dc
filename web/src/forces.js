// Contact points as balls and their forces as arrows, over everything: three draws, however many there are.

import { Color, Group, InstancedMesh, Matrix4, Vector3 } from "three";
import { overlay, OVER } from "./paint.js";
import { stretch } from "./robot.js";

const TYPICAL = 0.3, LONGEST = 1; // lengths of arrows in sizes of the robot

export class Forces {
    // @param most     contacts at a time
    // @param typical  force, N
    constructor(model, most, typical) {
        this.size = model.size;
        this.typical = typical;
        this.material = overlay({ opacity: 0.9 });
        this.meshes = [model.dot, model.shaft, model.head].map((geometry) => {
            const mesh = new InstancedMesh(geometry, this.material, Math.max(most, 1));
            mesh.frustumCulled = false;
            mesh.renderOrder = OVER;
            return mesh;
        });
        this.root = new Group().add(...this.meshes);
    }

    // @param tracks  [{ color, contacts: [{ position, force }] }]
    // @param origin  from which places are counted, near what is seen
    update(tracks, origin) {
        const [balls, shafts, heads] = this.meshes;
        const place = new Matrix4(), from = new Vector3(), to = new Vector3(), color = new Color();
        this.root.position.copy(origin);
        let count = 0;
        for (const track of tracks) {
            color.set(track.color);
            for (const { position, force } of track.contacts) {
                const newton = Math.hypot(...force);
                const length = this.size * Math.min(TYPICAL * newton / this.typical, LONGEST);
                from.set(...position).sub(origin);
                to.set(...force).multiplyScalar(length / newton).add(from);
                balls.setMatrixAt(count, place.makeTranslation(from));
                shafts.setMatrixAt(count, stretch(place, from, to));
                heads.setMatrixAt(count, place.scale(size.set(1, 1, 1 / length)).setPosition(to));
                for (const mesh of this.meshes) mesh.setColorAt(count, color);
                count++;
            }
        }
        for (const mesh of this.meshes) {
            mesh.count = count;
            mesh.visible = count > 0;
            mesh.instanceMatrix.needsUpdate = true;
            if (mesh.instanceColor) mesh.instanceColor.needsUpdate = true;
        }
    }

    dispose() {
        this.material.dispose();
        for (const mesh of this.meshes) mesh.dispose();
    }
}

const size = new Vector3();
