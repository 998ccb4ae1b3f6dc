// Geometries of a model as meshes; types and sizes are those of ns_geom_def (neuralsim/model.h). Few
// triangles: pages are also looked at without a graphics card.

import {
    BoxGeometry,
    BufferGeometry,
    CapsuleGeometry,
    CylinderGeometry,
    ExtrudeGeometry,
    Float32BufferAttribute,
    Shape,
    SphereGeometry,
    Vector3,
} from "three";
import { ConvexGeometry } from "three/addons/geometries/ConvexGeometry.js";
import { toCreasedNormals } from "three/addons/utils/BufferGeometryUtils.js";

const CREASE = 0.6; // rad: edges sharper than this stay sharp

// Null when there is nothing to draw as a surface: planes and points, which are drawn in other ways, shapes
// without size or with numbers missing, a type from later than this page.
export function makeShape(geom) {
    if (![geom.size, geom.vertices ?? []].every((numbers) => numbers.every(Number.isFinite))) return null;
    const shape = makeAny(geom);
    if (!shape) return null;
    shape.computeBoundingBox();
    const size = shape.boundingBox.getSize(new Vector3());
    return [...size].filter((length) => length > 0).length >= 2 ? shape : null;
}

function makeAny({ type, size, vertices, triangles }) {
    switch (type) {
    case "sphere": return new SphereGeometry(size[0], 20, 14);
    case "ellipsoid": return new SphereGeometry(1, 24, 16).scale(size[0], size[1], size[2]);
    case "box": return new BoxGeometry(2 * size[0], 2 * size[1], 2 * size[2]);
    case "cylinder": return upright(new CylinderGeometry(size[0], size[0], 2 * size[1], 24));
    case "capsule": return upright(new CapsuleGeometry(size[0], 2 * size[1], 5, 16));
    case "ellipse":
        return upright(new CylinderGeometry(1, 1, 2 * size[2], 36)).scale(size[0], size[1], 1);
    case "polygon": return vertices?.length >= 9 ? makePlate(vertices, size[0]) : null;
    case "mesh": return makeMesh(vertices, triangles, size);
    case "hfield": return triangles?.length > 0 ? makeMesh(vertices, triangles, size) : null;
    default: return null;
    }
}

// Three's long shapes lie along y, ours along z.
function upright(geometry) {
    return geometry.rotateX(Math.PI / 2);
}

export function toVectors(numbers = []) {
    const vectors = [];
    for (let k = 0; k + 2 < numbers.length; k += 3) {
        vectors.push(new Vector3(numbers[k], numbers[k + 1], numbers[k + 2]));
    }
    return vectors;
}

function makePlate(vertices, half) {
    const outline = new Shape(toVectors(vertices));
    return new ExtrudeGeometry(outline, { depth: 2 * half, bevelEnabled: false }).translate(0, 0, -half);
}

function makeMesh(vertices, triangles = [], scale) {
    const corners = toVectors(vertices).map((v) => v.multiply(new Vector3(...scale)));
    if (triangles.length > 0) {
        const geometry = new BufferGeometry();
        const numbers = corners.flatMap((v) => [v.x, v.y, v.z]);
        geometry.setAttribute("position", new Float32BufferAttribute(numbers, 3));
        // A mirrored mesh has its outside inside.
        const mirrored = scale[0] * scale[1] * scale[2] < 0;
        geometry.setIndex(mirrored ? [...triangles].reverse() : triangles);
        return toCreasedNormals(geometry, CREASE);
    }
    try {
        return new ConvexGeometry(corners);
    } catch {
        return null; // of corners in one line there is no hull
    }
}

// The points that reach furthest in 26 directions: enough to know how far something reaches.
const DIRECTIONS = [];
for (let x = -1; x <= 1; x++) {
    for (let y = -1; y <= 1; y++) {
        for (let z = -1; z <= 1; z++) if (x || y || z) DIRECTIONS.push(new Vector3(x, y, z));
    }
}

export class Reach {
    constructor() {
        this.most = DIRECTIONS.map(() => -Infinity);
        this.points = DIRECTIONS.map(() => null);
    }

    add(point) {
        let copy = null;
        for (let k = 0; k < DIRECTIONS.length; k++) {
            const far = DIRECTIONS[k].dot(point);
            if (far <= this.most[k]) continue;
            this.most[k] = far;
            this.points[k] = copy ??= point.clone();
        }
    }

    // Those points, each once; none when none was added.
    list() {
        return [...new Set(this.points)].filter((point) => point !== null);
    }
}
