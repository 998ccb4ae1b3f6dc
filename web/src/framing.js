// From where to look at a motion.

import { Box3, Vector3 } from "three";

const ASIDE = 0.45, ABOVE = 0.32; // rad
const MARGIN = 1.15;

export function extent(points) {
    return points.length > 0 ? new Box3().setFromPoints(points).getSize(new Vector3()).length() : 0;
}

export function centreOf(points) {
    return new Box3().setFromPoints(points).getCenter(new Vector3());
}

// Across the way a motion mostly goes, a little from the side and from above, as near as all of it fits.
// @param field   of view from top to bottom, degrees
// @param aspect  width of the view by its height
// @param nearest  not nearer than this
// @return { target, position }
export function frame(points, up, field, aspect, nearest) {
    const target = centreOf(points);
    const back = mainSide(points, up).cross(up).applyAxisAngle(up, ASIDE);
    const eye = back.multiplyScalar(Math.cos(ABOVE)).addScaledVector(up, Math.sin(ABOVE));
    const right = up.clone().cross(eye).normalize(), top = eye.clone().cross(right);
    const high = Math.tan(field * Math.PI / 360), wide = high * aspect;
    // Each point must lie between the sides of the view, at its own depth.
    let distance = nearest;
    for (const point of points) {
        const p = point.clone().sub(target);
        const beside = Math.max(Math.abs(p.dot(right)) / wide, Math.abs(p.dot(top)) / high);
        distance = Math.max(distance, MARGIN * beside + p.dot(eye));
    }
    return { target, position: target.clone().addScaledVector(eye, distance) };
}

// The level direction in which points are spread most, to the right when x goes to the right; x itself (y,
// where x is up) when they are spread about evenly.
function mainSide(points, up) {
    const x = new Vector3(1, 0, 0).projectOnPlane(up);
    if (x.length() < 0.1) x.set(0, 1, 0).projectOnPlane(up);
    x.normalize();
    const y = up.clone().cross(x);
    const centre = centreOf(points);
    let xx = 0, xy = 0, yy = 0;
    for (const point of points) {
        const p = point.clone().sub(centre);
        const a = p.dot(x), b = p.dot(y);
        xx += a * a;
        xy += a * b;
        yy += b * b;
    }
    if (Math.hypot(xx - yy, 2 * xy) < 0.35 * (xx + yy)) return x;
    const angle = Math.atan2(2 * xy, xx - yy) / 2;
    return x.multiplyScalar(Math.cos(angle)).addScaledVector(y, Math.sin(angle));
}
