// A robot as three draws it. Shapes that are equal are drawn at once, as an InstancedMesh: what a draw costs
// hardly depends on how much is drawn.

import { Group, InstancedMesh, Matrix4, Quaternion, Vector3 } from "three";
import { AXIS } from "./colors.js";
import { turnTo } from "./model.js";
import { overlay, OVER } from "./paint.js";

const BARE = { color: [0.5, 0.5, 0.5, 1] }; // of links without geometry
const AXES = overlay({ color: AXIS, opacity: 0.9 });
const FRAMES = overlay({ vertexColors: true });
const IDENTITY = new Matrix4(), ONE = new Vector3(1, 1, 1);

// Where a rod of length 1 along z lies from one point to another.
const along = new Vector3(), size = new Vector3();
export function stretch(matrix, from, to) {
    along.subVectors(to, from);
    size.set(1, 1, along.length());
    return matrix.compose(from, turnTo(along), size);
}

// Equal shapes in their places.
class Places {
    // @param things  { geometry, material, frame: a number, local: a Matrix4 in that frame }
    constructor(things, order) {
        const [{ geometry, material }] = things;
        this.things = things;
        this.mesh = new InstancedMesh(geometry, material, things.length);
        this.mesh.frustumCulled = false; // three would have to know how far all of it reaches
        this.mesh.renderOrder = order;
        this.place = new Matrix4();
    }

    put(frames) {
        this.things.forEach(({ frame, local }, k) => {
            this.mesh.setMatrixAt(k, this.place.multiplyMatrices(frames[frame], local));
        });
        this.mesh.instanceMatrix.needsUpdate = true;
    }

    // A frame, as told by the place of something in it; null when nothing here is in it.
    read(frame) {
        const k = this.things.findIndex((thing) => thing.frame === frame);
        if (k < 0) return null;
        const place = new Matrix4();
        this.mesh.getMatrixAt(k, place);
        return place.multiply(this.things[k].local.clone().invert());
    }
}

// Equal ones together.
function gather(things, order) {
    const sets = new Map();
    for (const thing of things) {
        const key = `${thing.geometry.id} ${thing.material.id}`;
        if (!sets.has(key)) sets.set(key, []);
        sets.get(key).push(thing);
    }
    return [...sets.values()].map((set) => new Places(set, order));
}

function groupOf(places) {
    const group = new Group();
    for (const { mesh } of places) group.add(mesh);
    return group;
}

function thingsOf(model, link, paint, frame) {
    return model.drawn(link).map(({ geom, ...rest }) => ({ ...rest, frame, material: paint.of(geom) }));
}

// What does not move, without planes.
export class World {
    constructor(model, paint) {
        this.paint = paint;
        const things = thingsOf(model, -1, paint, 0).filter(({ geometry }) => geometry !== model.sheet);
        this.places = gather(things, 0);
        for (const places of this.places) places.put([IDENTITY]);
        this.root = groupOf(this.places);
    }

    dispose() {
        for (const { mesh } of this.places) mesh.dispose();
        this.paint.dispose();
    }
}

export class Robot {
    // @param paint  disposed of with it
    constructor(model, motion, paint) {
        this.motion = motion;
        this.paint = paint;
        this.seen = false;
        this.positions = model.links.map(() => new Vector3()); // of links in the world
        this.turn = new Quaternion();
        const numbers = [...model.links.keys()], bare = numbers.filter((link) => model.bare[link]);
        this.rods = bare.filter((link) => model.links[link].parent >= 0)
            .map((link) => ({ from: model.links[link].parent, to: link }));
        // Of links, then of rods; from the root, since numbers on a graphics card have seven digits only.
        this.frames = [...numbers, ...this.rods].map(() => new Matrix4());

        const thing = (geometry, material, frame, local = IDENTITY) => ({ geometry, material, frame, local });
        const frame = (link) => thing(model.frame, FRAMES, link);
        this.bodies = gather([
            ...numbers.flatMap((link) => thingsOf(model, link, paint, link)),
            ...bare.map((link) => thing(model.ball, paint.of(BARE), link)),
            ...this.rods.map((_, k) => thing(model.rod, paint.of(BARE), numbers.length + k)),
        ], paint.ghost);
        this.axes = gather(numbers.filter((link) => model.axes[model.links[link].joint?.type]).map((link) => {
            const { type, axis } = model.links[link].joint;
            const turn = new Matrix4().makeRotationFromQuaternion(turnTo(new Vector3(...axis)));
            return thing(model.axes[type], AXES, link, turn);
        }), OVER);
        this.linkFrames = gather(numbers.filter((link) => !model.bare[link]).map(frame), OVER);
        const ballFrames = gather(bare.map(frame), OVER); // always: a ball does not show how it is turned
        this.places = [...this.bodies, ...this.axes, ...this.linkFrames, ...ballFrames];
        this.root = groupOf(this.places);
    }

    setShown({ axes, names }) {
        for (const { mesh } of this.axes) mesh.visible = axes;
        for (const { mesh } of this.linkFrames) mesh.visible = names;
    }

    // Go where the track is at a time; out of sight where it has no row.
    pose({ row, share }, wanted) {
        const { motion, positions, frames, root, turn } = this;
        this.seen = wanted && motion.has(row);
        root.visible = this.seen;
        if (!this.seen) return;
        const s = share > 0 && motion.has(row + 1) ? share : 0;
        positions.forEach((position, link) => {
            motion.readBetween(link, row, s, position, turn);
            if (link === 0) root.position.copy(position);
            frames[link].compose(along.subVectors(position, root.position), turn, ONE);
        });
        this.rods.forEach(({ from, to }, k) => {
            const [start, end] = [from, to].map((link) => positions[link].clone().sub(root.position));
            stretch(frames[positions.length + k], start, end);
        });
        for (const places of this.places) if (places.mesh.visible) places.put(frames);
        root.updateMatrixWorld();
    }

    centre(target) {
        target.set(0, 0, 0);
        for (const position of this.positions) target.add(position);
        return target.divideScalar(Math.max(this.positions.length, 1));
    }

    // A link's frame in the world, from what three is given.
    read(link) {
        for (const places of this.bodies) {
            const frame = places.read(link);
            if (frame) return frame.premultiply(this.root.matrixWorld);
        }
        return null;
    }

    dispose() {
        for (const { mesh } of this.places) mesh.dispose();
        this.paint.dispose();
    }
}
