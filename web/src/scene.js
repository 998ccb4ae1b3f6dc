// Robots in 3D. Draws only when something has changed and whoever runs the clock asks for it.

import {
    Color,
    DirectionalLight,
    Group,
    HemisphereLight,
    PerspectiveCamera,
    Quaternion,
    Scene,
    Vector3,
} from "three";
import { OrbitControls } from "three/addons/controls/OrbitControls.js";
import { darkMedia, trackColor } from "./colors.js";
import { Forces } from "./forces.js";
import { centreOf, extent, frame } from "./framing.js";
import { makeGround } from "./ground.js";
import { Labels } from "./labels.js";
import { Motion, surveyForce, surveyReach, surveyStart } from "./motion.js";
import { Renderer } from "./renderer.js";
import { isDrawn, makePart, Model, Paint, Robot, setPose } from "./robot.js";
import { Shadow } from "./shadow.js";
import "./scene.css";

const LIGHT = {
    paper: "#f3f5f7", ground: "#e4e8ec", line: "#a4adb8", sky: "#ffffff", earth: "#b9b4ad", fill: 2.1, key: 1.8,
    shade: 0.13,
};
const DARK = {
    paper: "#1a1d22", ground: "#24282f", line: "#616a77", sky: "#dfe8f5", earth: "#5a5e68", fill: 1.9, key: 1.9,
    shade: 0.4,
};

const FIELD = 35; // degrees, of view from top to bottom
const LONG_WAY = 8; // sizes of the robot: a motion that reaches further is followed, not shown at once

export class RobotScene {
    // @param stage    element that the picture fills
    // @param request  called when a draw() is due
    // Throws when the browser has no WebGL.
    constructor(stage, timeline, request) {
        this.stage = stage;
        this.timeline = timeline;
        this.request = request;
        this.frames = 0; // drawn
        this.follow = false;
        this.moved = false; // the camera, by hand
        this.shown = { contacts: true, axes: false, names: false };
        this.renderer = new Renderer(() => this.#drawFinely());
        this.model = new Model(timeline.payload.scene);
        this.#makeRoot();
        this.#makeStage();

        this.#startEpisode();
        timeline.addEventListener("episode", () => this.#startEpisode());
        timeline.addEventListener("time", () => this.change());
        darkMedia.addEventListener("change", () => this.#rebuild());
        new ResizeObserver(() => this.#resize()).observe(stage);
    }

    // Something is not as it was drawn.
    change() {
        this.changed = true;
        this.request();
    }

    #makeRoot() {
        const { up } = this.model;
        this.root = new Scene();
        this.root.background = new Color();
        this.sky = new HemisphereLight();
        this.sky.position.copy(up);
        this.key = new DirectionalLight(); // over the shoulder of who looks
        this.key.position.set(-0.8, 1, 0.9);
        this.camera = new PerspectiveCamera(FIELD);
        this.camera.up.copy(up);
        this.camera.add(this.key, this.key.target);
        this.root.add(this.sky, this.camera);
        // Ghosts are drawn front to back: each pixel of one is drawn once.
        this.renderer.three.setTransparentSort((a, b) =>
            a.renderOrder - b.renderOrder || (a.renderOrder > 0 ? a.z - b.z : b.z - a.z) || a.id - b.id);
    }

    #makeStage() {
        const { canvas } = this.renderer;
        canvas.setAttribute("role", "img");
        canvas.setAttribute("aria-label", "the robot in 3D");
        canvas.addEventListener("webglcontextrestored", () => this.change());
        this.controls = new OrbitControls(this.camera, canvas);
        this.controls.addEventListener("change", () => this.change());
        this.controls.addEventListener("start", () => { this.moved = true; });
        this.labels = new Labels(this.model.links.map(({ name }) => name));
        this.scale = document.createElement("div");
        this.scale.className = "scene-scale";
        this.stage.append(canvas, this.labels.element, this.scale);
    }

    // ---- what is in it ------------------------------------------------------------------------

    #startEpisode() {
        const { timeline, model } = this;
        const { tracks } = timeline.episode;
        const nlink = model.links.length;
        this.motions = tracks.map((track) => track.poses === null ? null : new Motion(timeline, track, nlink));
        this.present = this.motions.filter((motion) => motion !== null);
        this.bounds = surveyReach(this.present, model.corners).list();
        if (!model.size && this.present.length > 0) {
            model.setSize(extent(surveyStart(this.present[0], model.corners).list()) || extent(this.bounds) || 1);
        }
        this.wanted = tracks.map(() => true);
        if (!this.moved) this.follow = extent(this.bounds) > LONG_WAY * model.size;
        this.#rebuild();
        if (!this.moved) this.resetView();
    }

    // Anew, in the colours of the page: for another episode, or another light.
    #rebuild() {
        this.built?.removeFromParent();
        for (const thing of this.made ?? []) thing.dispose();
        this.made = []; // to be let go of by hand
        this.built = new Group();
        this.root.add(this.built);
        this.dark = darkMedia.matches;
        this.look = this.dark ? DARK : LIGHT;
        this.root.background.set(this.look.paper);
        this.sky.color.set(this.look.sky);
        this.sky.groundColor.set(this.look.earth);
        this.sky.intensity = this.look.fill;
        this.key.intensity = this.look.key;
        this.robots = this.motions.map(() => null);
        this.shadow = null;
        this.forces = null;
        if (this.present.length > 0) {
            this.#addRobots();
            this.#addWorld();
            this.#addForces();
        }
        this.setShown(this.shown);
    }

    #addRobots() {
        const several = this.present.length > 1;
        let ghosts = 0;
        this.robots = this.motions.map((motion, number) => {
            if (motion === null) return null;
            const ghost = several && isGhost(motion.track) ? ++ghosts : 0;
            const paint = new Paint(several ? this.#colorOf(number) : null, ghost);
            this.made.push(paint);
            const robot = new Robot(this.model, motion, paint);
            robot.wanted = this.wanted[number];
            this.built.add(robot.root);
            return robot;
        });
    }

    #colorOf(track) {
        return trackColor(this.timeline.episode.tracks, track, this.dark);
    }

    // What does not move, and the ground: the model's, or a faint one where the bodies reach lowest.
    #addWorld() {
        const { model } = this;
        const paint = new Paint(null, 0);
        this.made.push(paint);
        this.spacing = roundSpacing(model.size / 4);
        let hasGround = false;
        for (const part of model.parts) {
            if (part.geom.link >= 0 || !isDrawn(part)) continue;
            if (part.geom.type === "plane") {
                this.#addGround(part.geom.pose, part.geom.size, 0.85);
                hasGround = true;
            } else {
                this.built.add(makePart(model, part, paint));
            }
        }
        if (!hasGround) this.#addGround(this.#lowestPose(), [0, 0], 0);
        this.scale.textContent = `grid ${this.spacing} m`;
    }

    #addGround(pose, half, solid) {
        const place = new Group();
        setPose(place, pose);
        place.updateMatrix();
        const middle = centreOf(this.bounds).applyMatrix4(place.matrix.clone().invert());
        const radius = 1.5 * extent(this.bounds) + 2.5 * this.model.size;
        const { ground: fill, line } = this.look;
        const ground = makeGround({ middle, radius, half, spacing: this.spacing, solid, fill, line });
        this.made.push(ground.geometry, ground.material);
        this.built.add(place.add(ground));
        const normal = new Vector3().setFromMatrixColumn(place.matrix, 2);
        if (solid > 0 && !this.shadow && normal.dot(this.model.up) > 0.999) this.#addShadow(place);
    }

    #addShadow(ground) {
        this.shadow = new Shadow(ground, this.look.shade);
        for (const robot of this.robots) if (robot?.paint.ghost === 0) this.shadow.add(robot);
        this.made.push(this.shadow);
        this.built.add(this.shadow.root);
    }

    #lowestPose() {
        const { up } = this.model;
        const heights = this.bounds.map((point) => point.dot(up));
        const { x, y, z } = up.clone().multiplyScalar(heights.length > 0 ? Math.min(...heights) : 0);
        const q = new Quaternion().setFromUnitVectors(new Vector3(0, 0, 1), up);
        return [x, y, z, q.w, q.x, q.y, q.z];
    }

    #addForces() {
        const most = this.present.reduce((sum, motion) => sum + motion.points.length, 0);
        this.forces = new Forces(this.model, most, surveyForce(this.present));
        this.made.push(this.forces);
        this.built.add(this.forces.root);
    }

    // ---- what is chosen -----------------------------------------------------------------------

    // @param shown  { contacts, axes, names }: true or false
    setShown(shown) {
        this.shown = shown;
        for (const robot of this.robots) {
            for (const axis of robot?.axes ?? []) axis.visible = shown.axes;
            for (const triad of robot?.frames ?? []) triad.visible = shown.names;
        }
        if (this.forces) this.forces.root.visible = shown.contacts;
        this.labels.element.hidden = !shown.names;
        this.change();
    }

    setWanted(track, wanted) {
        this.wanted[track] = wanted;
        this.robots[track].wanted = wanted;
        this.change();
    }

    setFollow(follow) {
        this.follow = follow;
        this.followed = null;
        if (follow) this.#lookAtRobot();
        this.change();
    }

    // ---- the camera ---------------------------------------------------------------------------

    // Of a long way, which is followed, only the robot is framed, with some of its surroundings.
    resetView() {
        const { model, camera, controls } = this;
        const points = this.follow ? surveyStart(this.present[0], model.corners).list() : [...this.bounds];
        if (extent(model.worldCorners) < 2 * model.size) points.push(...model.worldCorners);
        const size = model.size ?? 1;
        const nearest = this.follow ? 3 * size : 0.5 * size;
        const { target, position } = frame(points, model.up, FIELD, camera.aspect, nearest);
        controls.target.copy(target);
        camera.position.copy(position);
        controls.minDistance = 0.02 * size;
        controls.maxDistance = 50 * Math.max(position.distanceTo(target), size);
        controls.update();
        this.moved = false;
        this.followed = null;
        if (this.follow) this.#lookAtRobot();
        this.change();
    }

    #firstSeen() {
        return this.robots.find((robot) => robot?.seen) ?? null;
    }

    #lookAtRobot() {
        const centre = this.#firstSeen()?.centre(new Vector3());
        if (centre) this.#shift(centre.sub(this.controls.target));
    }

    #shift(way) {
        this.camera.position.add(way);
        this.controls.target.add(way);
    }

    #followRobot() {
        const robot = this.follow ? this.#firstSeen() : null;
        if (!robot) return;
        const centre = robot.centre(new Vector3());
        if (this.followed) this.#shift(centre.clone().sub(this.followed));
        this.followed = centre;
    }

    #resize() {
        const { clientWidth: width, clientHeight: height } = this.stage;
        if (width === 0 || height === 0) return;
        this.renderer.setSize(width, height);
        this.camera.aspect = width / height;
        if (!this.moved) this.resetView();
        this.#drawFinely(); // at once: a canvas that was resized is empty
    }

    // ---- drawing ------------------------------------------------------------------------------

    // @param interval  ms since the last frame when frames follow one another, else 0
    draw(interval = 0, fine = false) {
        if (!this.changed) return;
        this.#pose();
        this.changed = false;
        const { camera, controls } = this;
        const distance = camera.position.distanceTo(controls.target);
        camera.near = distance / 100;
        camera.far = distance + 10 * (extent(this.bounds) + (this.model.size ?? 1));
        camera.updateProjectionMatrix();
        this.renderer.render(this.root, camera, interval, fine);
        if (this.shown.names) this.labels.place(this.#firstSeen(), camera);
        this.frames++;
    }

    #drawFinely() {
        this.changed = true;
        this.draw(0, true);
    }

    #pose() {
        if (!this.changed) return;
        const place = this.timeline.place();
        for (const robot of this.robots) robot?.pose(place);
        this.#followRobot();
        const { row, share } = place;
        this.touching = this.robots.map((robot) => robot?.seen ? robot.motion.contacts(row, share) : []);
        this.forces?.update(this.touching.map((contacts, track) => ({ color: this.#colorOf(track), contacts })));
        if (this.shadow) {
            this.built.updateMatrixWorld();
            this.shadow.update();
        }
    }

    // The picture as a PNG: a promise of a Blob.
    savePicture() {
        this.#drawFinely();
        return new Promise((resolve, reject) => {
            this.renderer.canvas.toBlob((blob) => {
                if (blob) resolve(blob);
                else reject(new Error("the picture could not be made"));
            });
        });
    }

    // ---- what is drawn, read back -------------------------------------------------------------

    // [x, y, z, qw, qx, qy, qz] of a link in the world.
    linkPose(track, link) {
        this.#pose();
        const group = this.robots[track].links[link];
        group.updateWorldMatrix(true, false);
        const position = new Vector3(), quaternion = new Quaternion();
        group.matrixWorld.decompose(position, quaternion, new Vector3());
        return [...position, quaternion.w, quaternion.x, quaternion.y, quaternion.z];
    }

    visible(track) {
        this.#pose();
        return this.robots[track]?.seen ?? false;
    }

    contacts(track) {
        this.#pose();
        if (!this.shown.contacts) return [];
        return this.touching[track].map(({ position, force }) => ({ position, force }));
    }

    get stats() {
        const { calls, triangles } = this.renderer.three.info.render;
        const { interval, ratio, software } = this.renderer;
        return { frames: this.frames, calls, triangles, interval, ratio, software };
    }
}

export function isGhost(track) {
    return track.role === "recorded" || track.role === "before";
}

// 1, 2 or 5 times a power of ten, not above a length.
function roundSpacing(length) {
    const power = Math.floor(Math.log10(length));
    const digit = length / 10 ** power;
    return Number(`${digit >= 5 ? 5 : digit >= 2 ? 2 : 1}e${power}`);
}
