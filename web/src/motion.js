// The motion of one track: where its links are and what touches, at any time.

import { Quaternion, Vector3 } from "three";
import { Reach } from "./shapes.js";

// How much is looked at to know how far a motion reaches and how hard it pushes.
const SURVEYED = 300; // rows
const SURVEYED_CONTACTS = 100000; // rows times contacts

export class Motion {
    constructor(timeline, track, nlink) {
        this.track = track;
        this.rows = timeline.times.length;
        this.poses = [];
        for (let k = 0; k < 7 * nlink; k++) this.poses.push(timeline.column(track.poses + k));
        this.points = (track.contacts ?? []).map(({ name, first }) => {
            const columns = [];
            for (let k = 0; k < 6; k++) columns.push(timeline.column(first + k));
            return { name, columns };
        });
        this.other = new Vector3();
        this.turn = new Quaternion();
    }

    has(row) {
        return row < this.rows && this.poses.every((column) => Number.isFinite(column[row]));
    }

    read(link, row, position, quaternion) {
        const c = this.poses, k = 7 * link;
        position.set(c[k][row], c[k + 1][row], c[k + 2][row]);
        quaternion.set(c[k + 4][row], c[k + 5][row], c[k + 6][row], c[k + 3][row]).normalize();
    }

    // Between two rows positions go straight, and quaternions straight too, the shorter way, made unit
    // again: between rows that are close this is the turn at even speed.
    readBetween(link, row, share, position, quaternion) {
        this.read(link, row, position, quaternion);
        if (share === 0) return;
        const { other, turn } = this;
        this.read(link, row + 1, other, turn);
        position.lerp(other, share);
        const sign = quaternion.dot(turn) < 0 ? -1 : 1;
        const a = 1 - share, b = sign * share;
        quaternion.set(a * quaternion.x + b * turn.x, a * quaternion.y + b * turn.y,
            a * quaternion.z + b * turn.z, a * quaternion.w + b * turn.w).normalize();
    }

    // The contacts at a time: { name, position, force }. One that ends in the next row stays until then.
    contacts(row, share) {
        const found = [];
        for (const { name, columns } of this.points) {
            if (!touches(columns, row)) continue;
            const s = share > 0 && touches(columns, row + 1) ? share : 0;
            const [x, y, z, fx, fy, fz] =
                columns.map((column) => s > 0 ? (1 - s) * column[row] + s * column[row + 1] : column[row]);
            found.push({ name, position: [x, y, z], force: [fx, fy, fz] });
        }
        return found;
    }
}

function touches(columns, row) {
    if (!columns.every((column) => Number.isFinite(column[row]))) return false;
    return columns[3][row] !== 0 || columns[4][row] !== 0 || columns[5][row] !== 0;
}

function someRows(rows, most) {
    const count = Math.min(rows, most);
    return Array.from({ length: count }, (_, k) => Math.round(k * (rows - 1) / Math.max(count - 1, 1)));
}

const position = new Vector3(), quaternion = new Quaternion(), point = new Vector3();

function surveyRow(motion, row, corners, reach) {
    corners.forEach((list, link) => {
        motion.read(link, row, position, quaternion);
        for (const corner of list) reach.add(point.copy(corner).applyQuaternion(quaternion).add(position));
    });
}

// Where motions reach, in the world.
// @param corners  for each link, points of it in its frame
export function surveyReach(motions, corners) {
    const reach = new Reach();
    for (const motion of motions) {
        for (const row of someRows(motion.rows, SURVEYED)) {
            if (motion.has(row)) surveyRow(motion, row, corners, reach);
        }
    }
    return reach;
}

// Where a robot reaches in its first row that is not missing.
export function surveyStart(motion, corners) {
    const reach = new Reach();
    let row = 0;
    while (row < motion.rows && !motion.has(row)) row++;
    if (row < motion.rows) surveyRow(motion, row, corners, reach);
    return reach;
}

// The force in the middle of all that act, N; 0 when nothing touches.
export function surveyForce(motions) {
    const sizes = [];
    for (const motion of motions) {
        const most = Math.ceil(SURVEYED_CONTACTS / Math.max(motion.points.length, 1));
        for (const row of someRows(motion.rows, most)) {
            for (const { force } of motion.contacts(row, 0)) sizes.push(Math.hypot(...force));
        }
    }
    sizes.sort((a, b) => a - b);
    return sizes.length > 0 ? sizes[sizes.length >> 1] : 0;
}
