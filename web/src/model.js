// What tracks share of a robot: its links, the shapes of its geometries, and what is sized by it.

import {
    Color,
    ConeGeometry,
    CylinderGeometry,
    Float32BufferAttribute,
    Matrix4,
    PlaneGeometry,
    Quaternion,
    SphereGeometry,
    TorusGeometry,
    Vector3,
} from "three";
import { mergeGeometries } from "three/addons/utils/BufferGeometryUtils.js";
import { FRAME } from "./colors.js";
import { makeShape, Reach, toVectors } from "./shapes.js";

const X = new Vector3(1, 0, 0), Y = new Vector3(0, 1, 0), Z = new Vector3(0, 0, 1);
const ONE = new Vector3(1, 1, 1);

export function poseMatrix([x, y, z, qw, qx, qy, qz], scale = ONE) {
    return new Matrix4().compose(new Vector3(x, y, z), new Quaternion(qx, qy, qz, qw).normalize(), scale);
}

// The turn that brings z to an axis; none for an axis without length.
export function turnTo(axis) {
    return new Quaternion().setFromUnitVectors(Z, axis.lengthSq() > 0 ? axis.normalize() : Z);
}

export class Model {
    constructor({ up, links, geoms }) {
        this.up = new Vector3(...up).normalize();
        this.links = links;
        const made = [];
        this.parts = geoms.map((geom) => {
            let same = made.find((other) => isSame(other.geom, geom));
            if (!same) made.push(same = { geom, shape: makeShape(geom) });
            return { geom, shape: same.shape };
        });
        // A link with nothing to draw is shown as a ball, so that every robot is seen.
        this.bare = links.map((_, link) => !this.partsOf(link).some(isDrawn));
        this.corners = links.map((_, link) => this.#reachOf(link));
        for (const list of this.corners) if (list.length === 0) list.push(new Vector3());
        this.worldCorners = this.#reachOf(-1);
        this.size = 0; // m; known when a motion is
    }

    // @param link  -1: the world
    partsOf(link) {
        return this.parts.filter(({ geom }) => geom.link === link);
    }

    #reachOf(link) {
        const reach = new Reach();
        const point = new Vector3();
        for (const { geom, shape } of this.partsOf(link)) {
            const place = poseMatrix(geom.pose);
            if (geom.type === "points") {
                for (const v of toVectors(geom.vertices)) reach.add(v.applyMatrix4(place));
            } else if (shape) {
                const at = shape.getAttribute("position");
                for (let k = 0; k < at.count; k++) reach.add(point.fromBufferAttribute(at, k).applyMatrix4(place));
            }
        }
        return reach.list();
    }

    // Geometries to draw of a link, with where they are in its frame: { geometry, local, geom }.
    drawn(link) {
        return this.partsOf(link).filter(isDrawn).flatMap(({ geom, shape }) => {
            const local = poseMatrix(geom.pose);
            if (geom.type === "points") {
                return toVectors(geom.vertices).map((at) => (
                    { geometry: this.dot, local: local.clone().multiply(new Matrix4().makeTranslation(at)), geom }));
            }
            if (geom.type !== "plane") return [{ geometry: shape, local, geom }];
            const [x, y] = geom.size.map((half) => half || this.size / 2);
            return [{ geometry: this.sheet, local: poseMatrix(geom.pose, new Vector3(x, y, 1)), geom }];
        });
    }

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
        const ring = new TorusGeometry(0.03 * size, 0.003 * size, 6, 24);
        this.axes = { prismatic: mergeGeometries([shaft, head]), revolute: mergeGeometries([shaft, head, ring]) };
        this.frame = makeFrame(rod(0.0025 * size), 0.07 * size);
    }
}

function isDrawn({ geom, shape }) {
    return shape !== null || geom.type === "points" || geom.type === "plane";
}

function isSame(a, b) {
    return a.type === b.type &&
        ["size", "vertices", "triangles"].every((name) => sameNumbers(a[name] ?? [], b[name] ?? []));
}

function sameNumbers(a, b) {
    return a.length === b.length && a.every((number, k) => number === b[k]);
}

function makeFrame(rod, length) {
    const arms = [X, Y, Z].map((axis, k) => {
        const arm = rod.clone().scale(1, 1, length).applyQuaternion(turnTo(axis.clone()));
        const color = new Color(FRAME[k]).toArray();
        const colors = Array.from({ length: arm.getAttribute("position").count }, () => color).flat();
        return arm.setAttribute("color", new Float32BufferAttribute(colors, 3));
    });
    return mergeGeometries(arms);
}
