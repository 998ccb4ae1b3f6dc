// From where one looks: turned by hand, following the robot, or reset to see all of a motion.

import { PerspectiveCamera, Vector3 } from "three";
import { OrbitControls } from "three/addons/controls/OrbitControls.js";
import { frame } from "./framing.js";

const FIELD = 35; // degrees, of view from top to bottom

export class Camera {
    // @param change  called when the view is another
    constructor(up, canvas, change) {
        this.up = up;
        this.change = change;
        this.follow = false;
        this.moved = false; // by hand
        this.followed = null; // where the robot was
        this.three = new PerspectiveCamera(FIELD);
        this.three.up.copy(up);
        this.controls = new OrbitControls(this.three, canvas);
        this.controls.addEventListener("change", change);
        this.controls.addEventListener("start", () => { this.moved = true; });
    }

    // See all of some points.
    // @param nearest  not nearer than this
    // @param size     of the robot
    reset(points, nearest, size) {
        const { three, controls } = this;
        const { target, position } = frame(points, this.up, FIELD, three.aspect, nearest);
        controls.target.copy(target);
        three.position.copy(position);
        controls.minDistance = 0.02 * size;
        controls.maxDistance = 50 * Math.max(position.distanceTo(target), size);
        controls.update();
        this.moved = false;
        this.followed = null;
        this.change();
    }

    // @param centre  of the robot, or null
    setFollow(follow, centre) {
        this.follow = follow;
        this.followed = null;
        if (follow) this.lookAt(centre);
        this.change();
    }

    lookAt(centre) {
        if (centre) this.#shift(centre.clone().sub(this.controls.target));
    }

    // The robot has gone somewhere.
    goWith(centre) {
        if (!this.follow || !centre) return;
        if (this.followed) this.#shift(centre.clone().sub(this.followed));
        this.followed = centre;
    }

    #shift(way) {
        this.three.position.add(way);
        this.controls.target.add(way);
    }

    // By keys: to the right and up, in radians.
    turn(right, up) {
        const away = this.three.position.clone().sub(this.controls.target);
        const side = new Vector3().crossVectors(this.up, away).normalize();
        const height = away.angleTo(this.up);
        const most = 0.01; // rad: not over the top
        away.applyAxisAngle(side, Math.min(Math.max(-up, most - height), Math.PI - most - height));
        away.applyAxisAngle(this.up, right);
        this.three.position.copy(this.controls.target).add(away);
        this.moved = true;
        this.controls.update();
    }

    setAspect(aspect) {
        this.three.aspect = aspect;
    }

    // @param reach  of everything, m
    prepare(reach) {
        const distance = this.three.position.distanceTo(this.controls.target);
        this.three.near = distance / 100;
        this.three.far = distance + 10 * reach;
        this.three.updateProjectionMatrix();
    }
}
