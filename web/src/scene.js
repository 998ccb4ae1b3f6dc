// Robots in 3D. Draws only when something has changed and whoever runs the clock asks for it.

import { Color, DirectionalLight, Group, HemisphereLight, Quaternion, Scene, Vector3 } from "three";
import { Camera } from "./camera.js";
import { isDark, LOOKS, onDark, shade, trackColor } from "./colors.js";
import { make } from "./dom.js";
import { Forces } from "./forces.js";
import { centreOf, extent } from "./framing.js";
import { makeGround, spacingOf, spacingText } from "./ground.js";
import { Labels } from "./labels.js";
import { Model, poseMatrix } from "./model.js";
import { Motion, surveyForce, surveyReach, surveyStart } from "./motion.js";
import { isGhost, Paint } from "./paint.js";
import { Renderer } from "./renderer.js";
import { Robot, World } from "./robot.js";
import { Shadow } from "./shadow.js";
import "./scene.css";

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
        this.shown = { contacts: true, axes: false, names: false };
        this.renderer = new Renderer(() => this.#drawFinely());
        this.model = new Model(timeline.payload.scene);
        this.camera = new Camera(this.model.up, this.renderer.canvas, () => this.change());
        this.#makeRoot();
        this.#makeStage();

        this.#startEpisode();
        timeline.addEventListener("episode", () => this.#startEpisode());
        timeline.addEventListener("time", () => this.change());
        timeline.addEventListener("tracks", () => this.change());
        onDark(() => this.#rebuild());
        window.addEventListener("beforeprint", () => this.#print());
        new ResizeObserver(() => this.#resize()).observe(stage);
    }

    // Something is not as it was drawn.
    change() {
        this.changed = true;
        this.request();
    }

    #makeRoot() {
        this.root = new Scene();
        this.root.background = new Color();
        this.sky = new HemisphereLight();
        this.sky.position.copy(this.model.up);
        this.key = new DirectionalLight(); // over the shoulder of who looks
        this.key.position.set(-0.8, 1, 0.9);
        this.camera.three.add(this.key, this.key.target);
        this.root.add(this.sky, this.camera.three);
    }

    #makeStage() {
        const { canvas } = this.renderer;
        canvas.setAttribute("role", "img");
        canvas.setAttribute("aria-label", "the robot in 3D");
        this.word = make("p", { className: "stage-message" });
        canvas.addEventListener("webglcontextlost", () =>
            this.#say("The browser has taken the picture away; it comes back when there is room for it."));
        canvas.addEventListener("webglcontextrestored", () => {
            this.#sayWhatIsMissing();
            this.change();
        });
        this.labels = new Labels(this.model.links.map(({ name }) => name));
        this.scale = make("div", { className: "scene-scale" });
        this.paper = make("canvas", { className: "scene-paper", role: "img", "aria-label": "the robot in 3D" });
        this.stage.append(canvas, this.paper, this.labels.element, this.scale, this.word);
    }

    #say(text) {
        this.word.textContent = text;
        this.word.hidden = text === "";
    }

    #sayWhatIsMissing() {
        const known = this.bounds.length > 0 || this.model.links.length === 0;
        this.#say(known ? "" : "No track says where the robot is.");
    }

    // ---- what is in it ------------------------------------------------------------------------

    #startEpisode() {
        const { timeline, model, camera } = this;
        const nlink = model.links.length;
        this.motions = timeline.episode.tracks.map((track) =>
            track.poses === null ? null : new Motion(timeline, track, nlink));
        this.present = this.motions.filter((motion) => motion !== null);
        this.bounds = surveyReach(this.present, model.corners).list();
        if (!model.size) model.setSize(this.#findSize());
        this.#sayWhatIsMissing();
        if (!camera.moved) camera.follow = extent(this.bounds) > LONG_WAY * model.size;
        this.#rebuild();
        if (!camera.moved) this.resetView();
    }

    #findSize() {
        const sizes = this.present.map((motion) => extent(surveyStart(motion, this.model.corners).list()));
        return sizes.find((size) => size > 0) ?? (extent(this.bounds) || extent(this.model.worldCorners) || 1);
    }

    // Anew, in the colours of the page: for another episode, or another light.
    #rebuild() {
        this.built?.removeFromParent();
        for (const thing of this.made ?? []) thing.dispose();
        this.made = []; // to be let go of by hand
        this.built = new Group();
        this.root.add(this.built);
        this.look = LOOKS[isDark() ? 1 : 0];
        this.root.background.set(this.look.paper);
        this.sky.color.set(this.look.sky);
        this.sky.groundColor.set(this.look.earth);
        this.sky.intensity = this.look.fill;
        this.key.intensity = this.look.key;
        this.shadow = null;
        this.#addRobots();
        this.#addWorld();
        const most = this.present.reduce((sum, motion) => sum + motion.points.length, 0);
        this.forces = this.#add(new Forces(this.model, most, surveyForce(this.present)));
        this.setShown(this.shown);
    }

    // What has a root, and is disposed of when all is made anew.
    #add(thing) {
        this.made.push(thing);
        this.built.add(thing.root);
        return thing;
    }

    #addRobots() {
        const { tracks } = this.timeline.episode;
        let ghosts = 0;
        this.colors = tracks.map((_, number) => shade(trackColor(tracks, number)));
        this.robots = this.motions.map((motion, number) => {
            if (motion === null) return null;
            const color = tracks.length > 1 ? this.colors[number] : null;
            return this.#add(new Robot(this.model, motion, new Paint(color, isGhost(tracks, number) ? ++ghosts : 0)));
        });
    }

    // What does not move, and the ground: the model's, or a faint one where the bodies reach lowest.
    #addWorld() {
        const { model } = this;
        this.#add(new World(model, new Paint(null, 0)));
        this.spacing = spacingOf(model.size);
        const planes = model.partsOf(-1).filter(({ geom }) => geom.type === "plane");
        for (const { geom } of planes) this.#addGround(geom.pose, geom.size, 0.85);
        if (planes.length === 0) this.#addGround(this.#lowestPose(), [0, 0], 0);
        this.scale.textContent = `grid ${spacingText(this.spacing)}`;
    }

    #addGround(pose, half, solid) {
        const place = poseMatrix(pose);
        const middle = centreOf(this.bounds).applyMatrix4(place.clone().invert());
        const radius = 1.5 * extent(this.bounds) + 2.5 * this.model.size;
        const { ground: fill, line } = this.look;
        const ground = makeGround({ middle, radius, half, spacing: this.spacing, solid, fill, line });
        ground.root.applyMatrix4(place);
        this.#add(ground);
        const normal = new Vector3().setFromMatrixColumn(place, 2);
        if (solid === 0 || this.shadow || normal.dot(this.model.up) < 0.999) return;
        this.shadow = this.#add(new Shadow(place, this.look.shade));
        for (const robot of this.robots) if (robot?.paint.ghost === 0) this.shadow.add(robot);
    }

    #lowestPose() {
        const { up } = this.model;
        const heights = this.bounds.map((point) => point.dot(up));
        const { x, y, z } = up.clone().multiplyScalar(heights.length > 0 ? Math.min(...heights) : 0);
        const q = new Quaternion().setFromUnitVectors(new Vector3(0, 0, 1), up);
        return [x, y, z, q.w, q.x, q.y, q.z];
    }

    // ---- what is chosen -----------------------------------------------------------------------

    // @param shown  { contacts, axes, names }: true or false
    setShown(shown) {
        this.shown = shown;
        for (const robot of this.robots) robot?.setShown(shown);
        this.forces.root.visible = shown.contacts;
        this.labels.element.hidden = !shown.names;
        this.change();
    }

    get follow() {
        return this.camera.follow;
    }

    setFollow(follow) {
        this.#pose();
        this.camera.setFollow(follow, this.#centre());
    }

    // Of a long way, which is followed, only the robot is framed, with some of its surroundings.
    resetView() {
        const { model, camera } = this;
        const starts = this.present.map((motion) => surveyStart(motion, model.corners).list());
        const points = camera.follow ? starts.find((list) => list.length > 0) ?? [] : [...this.bounds];
        if (extent(model.worldCorners) < 2 * model.size) points.push(...model.worldCorners);
        camera.reset(points, (camera.follow ? 3 : 0.5) * model.size, model.size);
        this.#pose();
        if (camera.follow) camera.lookAt(this.#centre());
    }

    turnView(right, up) {
        this.camera.turn(right, up);
        this.change();
    }

    #firstSeen() {
        return this.robots.find((robot) => robot?.seen) ?? null;
    }

    #centre() {
        return this.#firstSeen()?.centre(new Vector3()) ?? null;
    }

    // ---- drawing ------------------------------------------------------------------------------

    #resize() {
        const { clientWidth: width, clientHeight: height } = this.stage;
        if (width === 0 || height === 0) return;
        this.renderer.setSize(width, height);
        this.camera.setAspect(width / height);
        if (!this.camera.moved) this.resetView();
        this.changed = true;
        this.draw(); // at once: a canvas that was resized is empty
    }

    // @param interval  ms since the last frame when frames follow one another, else 0
    draw(interval = 0, fine = false) {
        if (!this.changed) return;
        this.#pose();
        this.changed = false;
        this.camera.prepare(extent(this.bounds) + this.model.size);
        this.renderer.render(this.root, this.camera.three, interval, fine);
        if (this.shown.names) this.labels.place(this.#firstSeen(), this.camera.three);
        this.frames++;
    }

    #drawFinely() {
        this.changed = true;
        this.draw(0, true);
    }

    // Bring everything to where it is now.
    #pose() {
        if (!this.changed) return;
        const { timeline } = this;
        const place = timeline.place();
        for (const robot of this.robots) robot?.pose(place, !timeline.isHidden(robot.motion.track));
        const centre = this.#centre();
        this.camera.goWith(centre);
        this.touching = this.robots.map((robot) =>
            robot?.seen ? robot.motion.contacts(place.row, place.share) : []);
        this.forces.update(this.touching.map((contacts, track) => ({ color: this.colors[track], contacts })),
            centre ?? new Vector3());
        this.shadow?.update();
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

    // A canvas of WebGL comes out empty on paper: print a copy.
    #print() {
        const { canvas } = this.renderer;
        this.#drawFinely();
        this.paper.width = canvas.width;
        this.paper.height = canvas.height;
        this.paper.getContext("2d").drawImage(canvas, 0, 0);
    }

    // ---- what is drawn, read back -------------------------------------------------------------

    // [x, y, z, qw, qx, qy, qz] of a link in the world.
    linkPose(track, link) {
        this.#pose();
        const position = new Vector3(), quaternion = new Quaternion();
        this.robots[track].read(link).decompose(position, quaternion, new Vector3());
        return [...position, quaternion.w, quaternion.x, quaternion.y, quaternion.z];
    }

    visible(track) {
        this.#pose();
        return this.robots[track]?.root.visible ?? false;
    }

    contacts(track) {
        this.#pose();
        if (!this.shown.contacts) return [];
        return this.touching[track].map(({ position, force }) => ({ position, force }));
    }

    get stats() {
        const { render, memory, programs } = this.renderer.three.info;
        const { interval, ratio, software } = this.renderer;
        return { frames: this.frames, calls: render.calls, triangles: render.triangles, interval, ratio, software,
            geometries: memory.geometries, textures: memory.textures, programs: programs.length };
    }
}
