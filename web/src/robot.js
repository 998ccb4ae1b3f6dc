// A robot as three draws it: the model, which tracks share, and one body of it for each track.

import {
    Color,
    ConeGeometry,
    CylinderGeometry,
    Float32BufferAttribute,
    Group,
    Mesh,
    MeshBasicMaterial,
    MeshLambertMaterial,
    NotEqualStencilFunc,
    PlaneGeometry,
    Quaternion,
    ReplaceStencilOp,
    SphereGeometry,
    SRGBColorSpace,
    TorusGeometry,
    Vector3,
} from "three";
import { mergeGeometries } from "three/addons/utils/BufferGeometryUtils.js";
import { makeShape, Reach, toVectors } from "./shapes.js";

const X = new Vector3(1, 0, 0), Y = new Vector3(0, 1, 0), Z = new Vector3(0, 0, 1);
export const OVER = 20; // order of what is drawn over everything: axes, frames, forces

export function setPose(object, [x, y, z, qw, qx, qy, qz]) {
    object.position.set(x, y, z);
    object.quaternion.set(qx, qy, qz, qw).normalize();
}

// Lay a mesh along z, of length 1, from one point to another.
const along = new Vector3();
export function stretch(object, from, to) {
    along.subVectors(to, from);
    const length = along.length();
    object.visible = length > 0;
    if (length === 0) return;
    object.position.copy(from);
    object.quaternion.setFromUnitVectors(Z, along.divideScalar(length));
    object.scale.set(1, 1, length);
}

export function isDrawn({ geom, shape }) {
    return shape !== null || geom.type === "points" || geom.type === "plane";
}

export class Model {
    constructor({ up, links, geoms }) {
        this.up = new Vector3(...up).normalize();
        this.links = links;
        const shared = new Map();
        this.parts = geoms.map((geom) => {
            const key = JSON.stringify([geom.type, geom.size, geom.vertices, geom.triangles]);
            if (!shared.has(key)) shared.set(key, makeShape(geom));
            return { geom, shape: shared.get(key) };
        });
        // A link with nothing to draw is shown as a ball, so that every robot is seen.
        this.bare = links.map((_, link) => !this.parts.some((part) => part.geom.link === link && isDrawn(part)));
        this.corners = links.map((_, link) => this.#reachOf(link));
        for (const list of this.corners) if (list.length === 0) list.push(new Vector3());
        this.worldCorners = this.#reachOf(-1);
    }

    #reachOf(link) {
        const reach = new Reach();
        const place = new Group(), point = new Vector3();
        for (const { geom, shape } of this.parts) {
            if (geom.link !== link) continue;
            setPose(place, geom.pose);
            place.updateMatrix();
            if (geom.type === "points") {
                for (const v of toVectors(geom.vertices)) reach.add(v.applyMatrix4(place.matrix));
            } else if (shape) {
                const at = shape.getAttribute("position");
                for (let k = 0; k < at.count; k++) {
                    reach.add(point.fromBufferAttribute(at, k).applyMatrix4(place.matrix));
                }
            }
        }
        return reach.list();
    }

    // What is sized by the robot: balls, rods, axes, frames.
    // @param size  of the robot, m
    setSize(size) {
        this.size = size;
        const rod = (radius) =>
            new CylinderGeometry(radius, radius, 1, 10).rotateX(Math.PI / 2).translate(0, 0, 0.5);
        this.sheet = new PlaneGeometry(2, 2);
        this.ball = new SphereGeometry(0.02 * size, 16, 12);
        this.dot = new SphereGeometry(0.012 * size, 10, 8);
        this.rod = rod(0.006 * size);
        this.shaft = rod(0.0065 * size);
        this.head = new ConeGeometry(0.019 * size, 0.055 * size, 14).rotateX(Math.PI / 2);
        const half = 0.1 * size;
        const shaft = new CylinderGeometry(0.003 * size, 0.003 * size, 2 * half, 8).rotateX(Math.PI / 2);
        const head = new ConeGeometry(0.01 * size, 0.035 * size, 12).rotateX(Math.PI / 2).translate(0, 0, half);
        this.slide = mergeGeometries([shaft, head]);
        this.hinge = mergeGeometries([shaft, head, new TorusGeometry(0.03 * size, 0.003 * size, 6, 24)]);
        this.frame = makeFrame(rod(0.0025 * size), 0.07 * size);
    }
}

// x, y and z in vermilion, green and blue.
function makeFrame(rod, length) {
    const arms = [["#d55e00", X], ["#009e73", Y], ["#3d9bdc", Z]].map(([name, axis]) => {
        const arm = rod.clone().scale(1, 1, length);
        arm.applyQuaternion(new Quaternion().setFromUnitVectors(Z, axis));
        const color = new Color(name).toArray();
        const colors = Array.from({ length: arm.getAttribute("position").count }, () => color).flat();
        return arm.setAttribute("color", new Float32BufferAttribute(colors, 3));
    });
    return mergeGeometries(arms);
}

// A geometry where it is in its link's frame.
export function makePart(model, { geom, shape }, paint) {
    const material = paint.of(geom);
    let object;
    if (geom.type === "points") {
        object = new Group();
        for (const at of toVectors(geom.vertices)) {
            const dot = new Mesh(model.dot, material);
            dot.position.copy(at);
            object.add(dot);
        }
    } else if (geom.type === "plane") {
        object = new Mesh(model.sheet, material);
        object.scale.set(geom.size[0] || model.size / 2, geom.size[1] || model.size / 2, 1);
    } else {
        object = new Mesh(shape, material);
    }
    setPose(object, geom.pose);
    return object;
}

// Drawn over everything, to be seen inside bodies.
export function overlay(Material, options) {
    return new Material({ transparent: true, depthTest: false, depthWrite: false, ...options });
}

// Materials of one track, or of the world; one for each colour.
export class Paint {
    // @param color  of all geometries, or null: each has its own
    // @param ghost  0: solid; 1, 2, ...: to be looked through, one number for each
    constructor(color, ghost) {
        this.color = color;
        this.ghost = ghost;
        this.made = new Map();
    }

    of(geom) {
        const [r, g, b, a] = this.color ? [0, 0, 0, 1] : geom.color;
        const key = `${r} ${g} ${b} ${a}`;
        if (!this.made.has(key)) {
            const color = this.color ? new Color(this.color) : new Color().setRGB(r, g, b, SRGBColorSpace);
            this.made.set(key, this.#make(color, a));
        }
        return this.made.get(key);
    }

    #make(color, alpha) {
        const material = new MeshLambertMaterial({ color });
        if (this.ghost > 0) {
            // Each pixel takes colour once from a ghost, whatever of it lies behind, and a solid robot is
            // seen where both coincide. Shadows have 1 in the stencil.
            Object.assign(material, {
                transparent: true,
                opacity: 0.4,
                depthWrite: false,
                polygonOffset: true,
                polygonOffsetFactor: 1,
                polygonOffsetUnits: 4,
                stencilWrite: true,
                stencilFunc: NotEqualStencilFunc,
                stencilRef: this.ghost + 1,
                stencilZPass: ReplaceStencilOp,
            });
        } else if (alpha < 1) {
            Object.assign(material, { transparent: true, opacity: alpha, depthWrite: false });
        }
        return material;
    }

    dispose() {
        for (const material of this.made.values()) material.dispose();
    }
}

export class Robot {
    constructor(model, motion, paint) {
        this.model = model;
        this.motion = motion;
        this.paint = paint;
        this.wanted = true; // by the person who looks
        this.root = new Group();
        this.links = model.links.map(() => new Group());
        this.root.add(...this.links);
        this.rods = [];
        this.axes = [];
        this.frames = [];
        for (const part of model.parts) {
            if (part.geom.link >= 0 && isDrawn(part)) this.links[part.geom.link].add(makePart(model, part, paint));
        }
        model.links.forEach((link, number) => this.#addLink(link, number));
        this.root.traverse((object) => object.renderOrder ||= paint.ghost);
    }

    #addLink({ parent, joint }, number) {
        const { model, paint } = this;
        const group = this.links[number];
        const frame = new Mesh(model.frame, FRAME);
        frame.renderOrder = OVER;
        if (model.bare[number]) {
            const material = paint.of({ color: [0.5, 0.5, 0.5, 1] });
            group.add(new Mesh(model.ball, material), frame);
            if (parent >= 0) {
                const mesh = new Mesh(model.rod, material);
                this.rods.push({ mesh, from: parent, to: number });
                this.root.add(mesh);
            }
        } else {
            frame.visible = false;
            this.frames.push(frame);
            group.add(frame);
        }
        const shape = { revolute: model.hinge, prismatic: model.slide }[joint?.type];
        if (!shape) return;
        const axis = new Mesh(shape, AXIS);
        axis.quaternion.setFromUnitVectors(Z, new Vector3(...joint.axis).normalize());
        axis.renderOrder = OVER;
        axis.visible = false;
        this.axes.push(axis);
        group.add(axis);
    }

    // Go where the track is at a time; out of sight where it has no row.
    pose({ row, share }) {
        const { motion } = this;
        this.seen = this.wanted && motion.has(row);
        this.root.visible = this.seen;
        if (!this.seen) return;
        const s = share > 0 && motion.has(row + 1) ? share : 0;
        this.links.forEach((group, link) => motion.readBetween(link, row, s, group.position, group.quaternion));
        for (const { mesh, from, to } of this.rods) {
            stretch(mesh, this.links[from].position, this.links[to].position);
        }
    }

    centre(target) {
        target.set(0, 0, 0);
        for (const link of this.links) target.add(link.position);
        return target.divideScalar(Math.max(this.links.length, 1));
    }
}

const AXIS = overlay(MeshBasicMaterial, { color: "#009e73", opacity: 0.9 });
const FRAME = overlay(MeshBasicMaterial, { vertexColors: true });
