// The controls of a motion: play, time, speed, what is shown, and the camera.

import { onDark, shade, trackColor } from "./colors.js";
import { make, makeButton, setName, setPressed, setText } from "./dom.js";
import { makeIcon } from "./icons.js";
import { listenToKeys, makeKeyList } from "./keys.js";
import { isGhost } from "./paint.js";
import { fileName, makeSaveButton, saveBlob } from "./save.js";
import { RobotScene } from "./scene.js";
import { NUMBERS } from "./timeline.js";
import "./player.css";

const SPEEDS = [0.1, 0.25, 0.5, 1, 2, 4];
const SHORTEST = 0.1, LONGEST = 600; // s: motions that take less or more are not played as fast as they were
const LONGEST_FRAME = 0.25; // s: after a pause of the browser's motion goes on where it was

const VIEWS = { contacts: "contacts and forces", axes: "axes of joints", names: "names and frames of links" };

function hasPoses(episode) {
    return episode.tracks.some((track) => track.poses !== null);
}

export function startPlayer(parent, timeline) {
    return new Player(parent, timeline).scene;
}

class Player {
    constructor(parent, timeline) {
        this.timeline = timeline;
        this.shown = { contacts: true, axes: false, names: false };
        this.stage = make("div", { className: "stage" });
        this.legend = make("div", { className: "legend", role: "group", "aria-label": "tracks" });
        this.note = make("p", { className: "note" });
        this.dialog = makeKeyList();
        this.element = make("div", { className: "player", role: "group", "aria-label": "motion" },
            this.stage, this.legend, this.#makeScrub(), this.#makeBar(), this.note, this.dialog);
        parent.append(this.element);
        this.#startScene();

        this.#showEpisode();
        timeline.addEventListener("episode", () => this.#showEpisode());
        timeline.addEventListener("time", () => this.#showTime());
        timeline.addEventListener("range", () => this.#showSpans());
        timeline.addEventListener("state", () => this.#showState());
        timeline.addEventListener("tracks", () => this.#showHidden());
        onDark(() => this.#showLegend());
        listenToKeys(this);
    }

    // ---- making -------------------------------------------------------------------------------

    // Where it cannot be drawn there is a sentence in place of the picture, and all else goes on.
    #startScene() {
        this.scene = null;
        if (this.timeline.payload.episodes.some(hasPoses)) {
            try {
                this.scene = new RobotScene(this.stage, this.timeline, () => this.#request());
            } catch (error) {
                const text = `The robot cannot be drawn: ${error.message}.`;
                this.stage.replaceChildren(make("p", { className: "stage-message" }, text));
            }
        }
        for (const element of this.viewTools) element.hidden = this.scene === null;
    }

    #makeScrub() {
        const { timeline } = this;
        this.slider = make("input", { type: "range", step: "any", "aria-label": "time" });
        this.slider.addEventListener("input", () => timeline.set(Number(this.slider.value)));
        // Time does not run on under the finger.
        this.slider.addEventListener("pointerdown", () => {
            this.held = timeline.playing;
            if (this.held) timeline.setPlaying(false);
        });
        const release = () => {
            if (this.held) timeline.setPlaying(true);
            this.held = false;
        };
        for (const event of ["pointerup", "pointercancel", "change"]) this.slider.addEventListener(event, release);
        this.spans = make("div", { className: "spans" });
        this.scrub = make("div", { className: "scrub" }, this.slider, this.spans);
        return this.scrub;
    }

    #makeBar() {
        const { timeline } = this;
        const group = (className, ...children) => make("div", { className: `group ${className}` }, ...children);
        const button = (name, icon, action) => makeButton(makeIcon(icon), action, name);
        this.play = button("play", "play", () => this.togglePlay());
        this.play.classList.add("primary");
        this.loop = button("loop", "loop", () => timeline.setLoop(!timeline.loop));
        this.time = make("span", { className: "time" });
        this.speed = make("select", { title: "speed", "aria-label": "speed" });
        this.speed.addEventListener("change", () => timeline.setSpeed(Number(this.speed.value)));
        const { episodes } = timeline.payload;
        this.episode = make("select", { title: "episode", "aria-label": "episode", hidden: episodes.length < 2 },
            ...episodes.map(({ name }, k) => make("option", { value: String(k) }, name)));
        this.episode.addEventListener("change", () => timeline.choose(Number(this.episode.value)));

        this.toggles = Object.fromEntries(Object.entries(VIEWS).map(([what, name]) =>
            [what, makeButton(what, () => this.toggleShown(what), name)]));
        this.follow = makeButton("follow", () => this.toggleFollow(), "follow the robot");
        const reset = makeButton("reset", () => this.scene.resetView(), "reset the view");
        const picture = makeSaveButton(makeIcon("picture"), "save the picture as PNG", () => this.#savePicture());
        const full = button("fullscreen", "fullscreen", () => this.#toggleFullscreen());
        full.hidden = !document.fullscreenEnabled;
        const looks = group("", ...Object.values(this.toggles), this.follow, reset);
        this.viewTools = [looks, picture];
        return make("div", { className: "bar" },
            group("wide",
                group("",
                    button("one row back", "back", () => this.step(-1)), this.play,
                    button("one row forward", "forward", () => this.step(1)), this.loop),
                this.time,
                group("", this.speed, this.episode)),
            group("wide", looks, group("", picture, full, makeButton("?", () => this.showKeys(), "keys"))));
    }

    // ---- showing ------------------------------------------------------------------------------

    #showEpisode() {
        const { timeline } = this;
        const { first, last, times, episode } = timeline;
        this.slider.min = first;
        this.slider.max = last;
        this.slider.disabled = times.length < 2;
        this.episode.value = String(timeline.number);
        const step = (last - first) / Math.max(times.length - 1, 1);
        this.digits = step > 0 ? Math.min(Math.max(Math.ceil(-Math.log10(step)), 1), 9) : 1;
        this.stage.hidden = !hasPoses(episode);
        this.note.textContent = episode.note ?? "";
        this.note.hidden = !episode.note;
        this.#showSpeeds();
        this.#showSpans();
        this.#showLegend();
        this.#showShown();
        this.#showState();
    }

    // As fast as it was, or so that it takes some seconds.
    #showSpeeds() {
        const { first, last, speed } = this.timeline;
        const length = last - first;
        const usual = length === 0 || (length >= SHORTEST && length <= LONGEST);
        const power = usual ? 0 : Math.round(Math.log10(length / 5));
        this.speeds = SPEEDS.map((factor) => Number(`${factor}e${power}`));
        this.speed.replaceChildren(...this.speeds.map((value) =>
            make("option", { value: String(value) }, `${value}\u00d7`)));
        if (!this.speeds.includes(speed)) this.timeline.setSpeed(Number(`1e${power}`));
    }

    #showLegend() {
        const { tracks } = this.timeline.episode;
        this.legend.replaceChildren(...tracks.map((track, number) => {
            const box = make("input", { type: "checkbox" });
            box.addEventListener("change", () => this.timeline.setHidden(track, !box.checked));
            const swatch = make("span", { className: isGhost(tracks, number) ? "swatch ghost" : "swatch" });
            swatch.style.setProperty("--track", shade(trackColor(tracks, number)));
            return make("label", {}, box, swatch, make("bdi", {}, track.name));
        }));
        this.legend.hidden = tracks.length < 2;
        this.#showHidden();
    }

    #showHidden() {
        const boxes = this.legend.querySelectorAll("input");
        this.timeline.episode.tracks.forEach((track, k) => { boxes[k].checked = !this.timeline.isHidden(track); });
    }

    // Spans of data, and the stretch that is played when it is not all.
    #showSpans() {
        const { first, last, from, to, episode } = this.timeline;
        const share = (time) => 100 * Math.min(Math.max((time - first) / (last - first || 1), 0), 1);
        const place = (element, start, end) => {
            element.style.left = `${share(start)}%`;
            element.style.width = `${share(end) - share(start)}%`;
            return element;
        };
        const parts = episode.spans.map((span) => {
            const title = `${span.role}: ${span.from} to ${span.to} s`;
            const part = make("div", { title }, span.role);
            if (span.role === "train" || span.role === "test") part.classList.add(span.role);
            return place(part, span.from, span.to);
        });
        this.scrub.classList.toggle("plain", parts.length === 0);
        if (from > first || to < last) parts.push(place(make("div", { className: "stretch" }), from, to));
        this.spans.replaceChildren(...parts);
    }

    #showTime() {
        const { time, last, times, playing } = this.timeline;
        // Numbers that run are not read faster than this, and each change is drawn at a cost.
        const now = performance.now();
        if (playing && now - this.told < NUMBERS) return;
        this.told = now;
        const text = `${time.toFixed(this.digits)} / ${last.toFixed(this.digits)} s`;
        this.slider.value = time;
        this.slider.setAttribute("aria-valuetext", text);
        setText(this.time, text);
        this.time.title = `row ${this.timeline.place().row + 1} of ${times.length}`;
    }

    #showState() {
        const { playing, speed, loop, canPlay } = this.timeline;
        this.play.replaceChildren(makeIcon(playing ? "pause" : "play"));
        setName(this.play, playing ? "pause" : "play");
        this.play.disabled = !canPlay;
        setPressed(this.loop, loop);
        this.speed.value = String(speed);
        this.told = 0;
        this.#showTime();
        if (playing) this.#request();
    }

    #showShown() {
        for (const [what, button] of Object.entries(this.toggles)) setPressed(button, this.shown[what]);
        this.toggles.contacts.disabled = !this.timeline.episode.tracks.some((track) => track.contacts?.length > 0);
        setPressed(this.follow, this.scene?.follow ?? false);
    }

    // ---- the clock ----------------------------------------------------------------------------

    #request() {
        this.frame ??= requestAnimationFrame((now) => {
            this.frame = null;
            const interval = this.last === undefined ? 0 : now - this.last;
            this.last = undefined;
            if (this.timeline.playing) {
                this.last = now;
                this.timeline.advance(Math.min(interval / 1000, LONGEST_FRAME));
                this.#request();
            }
            this.scene?.draw(interval);
        });
    }

    // ---- doing --------------------------------------------------------------------------------

    togglePlay() {
        this.timeline.setPlaying(!this.timeline.playing);
    }

    step(rows) {
        const { timeline } = this;
        if (timeline.playing) timeline.setPlaying(false);
        const { row, share } = timeline.place();
        // Back from between two rows goes to the one just passed.
        const next = row + rows + (rows < 0 && share > 0 ? 1 : 0);
        timeline.set(timeline.times[Math.min(Math.max(next, 0), timeline.times.length - 1)]);
    }

    changeSpeed(by) {
        const at = this.speeds.indexOf(this.timeline.speed) + by;
        this.timeline.setSpeed(this.speeds[Math.min(Math.max(at, 0), this.speeds.length - 1)]);
    }

    toggleShown(what) {
        this.shown = { ...this.shown, [what]: !this.shown[what] };
        this.scene?.setShown(this.shown);
        this.#showShown();
    }

    toggleFollow() {
        this.scene?.setFollow(!this.scene.follow);
        this.#showShown();
    }

    toggleTrack(number) {
        const track = this.timeline.episode.tracks[number];
        if (track && !this.legend.hidden) this.timeline.setHidden(track, !this.timeline.isHidden(track));
    }

    showKeys() {
        this.dialog.showModal();
    }

    async #toggleFullscreen() {
        if (document.fullscreenElement) await document.exitFullscreen();
        else await this.element.requestFullscreen();
    }

    async #savePicture() {
        const { episode, time } = this.timeline;
        saveBlob(await this.scene.savePicture(), `${fileName(`${episode.name} ${time.toFixed(this.digits)} s`)}.png`);
    }
}
