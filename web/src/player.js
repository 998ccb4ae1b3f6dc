// The controls of a motion: play, time, speed, what is shown, the camera, and keys for all of it.

import { darkMedia, trackColor } from "./colors.js";
import { isGhost, RobotScene } from "./scene.js";
import "./player.css";

const SPEEDS = [0.1, 0.25, 0.5, 1, 2, 4];
const NUMBERS = 60; // ms between two times that are shown while playing
const LONGEST_FRAME = 0.25; // s: after a pause of the browser's motion goes on where it was

const ICONS = {
    play: { path: "M7 4l13 8-13 8z", full: true },
    pause: { path: "M6 5h3v14H6zM15 5h3v14h-3z", full: true },
    back: { path: "M6 5v14M19 6v12l-9-6z", full: true },
    forward: { path: "M18 5v14M5 6v12l9-6z", full: true },
    loop: { path: "M4 12a8 8 0 0 1 14-5l2 2M20 4v5h-5M20 12a8 8 0 0 1-14 5l-2-2M4 20v-5h5" },
    picture: { path: "M3 7h5l2-3h4l2 3h5v13H3zM12 17a4 4 0 1 0 0-8a4 4 0 0 0 0 8" },
    fullscreen: { path: "M4 9V4h5M15 4h5v5M20 15v5h-5M9 20H4v-5" },
};

const KEYS = [
    ["space", "play or pause"],
    ["\u2190 \u2192", "one row; with shift, ten"],
    ["home, end", "first, last row"],
    ["+ \u2212", "faster, slower"],
    ["f", "follow the robot"],
    ["r", "reset the view"],
    ["c", "contacts"],
    ["a", "axes of joints"],
    ["n", "names and frames of links"],
    ["1 to 9", "show or hide a track"],
    ["?", "this list"],
];

function make(tag, properties = {}, ...children) {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
}

function setIcon(button, name) {
    const { path, full } = ICONS[name];
    const space = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(space, "svg");
    svg.setAttribute("viewBox", "0 0 24 24");
    svg.setAttribute("class", full ? "icon full" : "icon");
    svg.setAttribute("aria-hidden", "true");
    const shape = document.createElementNS(space, "path");
    shape.setAttribute("d", path);
    svg.append(shape);
    button.replaceChildren(svg);
}

function setName(button, name) {
    button.title = name;
    button.setAttribute("aria-label", name);
}

function makeButton(name, face, action) {
    const button = make("button", { type: "button" });
    if (ICONS[face]) setIcon(button, face);
    else button.textContent = face;
    setName(button, name);
    button.addEventListener("click", action);
    return button;
}

function setPressed(button, pressed) {
    button.setAttribute("aria-pressed", String(pressed));
}

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
        this.element = make("div", { className: "player" });
        this.stage = make("div", { className: "stage" });
        this.legend = make("div", { className: "legend" });
        this.note = make("p", { className: "note" });
        this.dialog = makeDialog();
        this.element.append(this.stage, this.legend, this.#makeScrub(), this.#makeBar(), this.note, this.dialog);
        parent.append(this.element);
        this.#startScene();

        this.#showEpisode();
        this.#showState();
        timeline.addEventListener("episode", () => this.#showEpisode());
        timeline.addEventListener("time", () => this.#showTime());
        timeline.addEventListener("range", () => this.#showSpans());
        timeline.addEventListener("state", () => this.#showState());
        darkMedia.addEventListener("change", () => this.#showLegend());
        document.addEventListener("keydown", (event) => this.#pressKey(event));
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
                this.stage.replaceChildren(make("p", { className: "stage-message", textContent: text }));
            }
        }
        for (const element of this.viewTools) element.hidden = this.scene === null;
    }

    #makeScrub() {
        const { timeline } = this;
        this.slider = make("input", { type: "range", step: "any" });
        this.slider.setAttribute("aria-label", "time");
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
        this.slider.addEventListener("pointerup", release);
        this.slider.addEventListener("pointercancel", release);
        this.spans = make("div", { className: "spans" });
        this.scrub = make("div", { className: "scrub" }, this.slider, this.spans);
        return this.scrub;
    }

    #makeBar() {
        const { timeline } = this;
        const group = (className, ...children) => make("div", { className: `group ${className}` }, ...children);
        this.play = makeButton("play", "play", () => this.#togglePlay());
        this.play.classList.add("primary");
        this.loop = makeButton("loop", "loop", () => {
            timeline.loop = !timeline.loop;
            timeline.tell("state");
        });
        this.time = make("span", { className: "time" });
        this.speed = make("select", { title: "speed" },
            ...SPEEDS.map((speed) => make("option", { value: String(speed), textContent: `${speed}\u00d7` })));
        this.speed.setAttribute("aria-label", "speed");
        this.speed.addEventListener("change", () => timeline.setSpeed(Number(this.speed.value)));
        const { episodes } = timeline.payload;
        this.episode = make("select", { title: "episode", hidden: episodes.length < 2 },
            ...episodes.map(({ name }, k) => make("option", { value: String(k), textContent: name })));
        this.episode.setAttribute("aria-label", "episode");
        this.episode.addEventListener("change", () => timeline.choose(Number(this.episode.value)));

        this.toggles = {};
        for (const [what, name] of [["contacts", "contacts and forces"], ["axes", "axes of joints"],
            ["names", "names and frames of links"]]) {
            this.toggles[what] = makeButton(name, what, () => this.#toggleShown(what));
        }
        this.follow = makeButton("follow the robot", "follow", () => this.#toggleFollow());
        const reset = makeButton("reset the view", "reset", () => this.scene.resetView());
        const picture = makeButton("save the picture as PNG", "picture", () => this.#savePicture());
        const full = makeButton("fullscreen", "fullscreen", () => this.#toggleFullscreen());
        full.disabled = !document.fullscreenEnabled;
        const keys = makeButton("keys", "?", () => this.dialog.showModal());
        const looks = group("", ...Object.values(this.toggles), this.follow, reset);
        this.viewTools = [looks, picture];
        return make("div", { className: "bar" },
            group("wide",
                group("",
                    makeButton("one row back", "back", () => this.#step(-1)), this.play,
                    makeButton("one row forward", "forward", () => this.#step(1)), this.loop),
                this.time,
                group("", this.speed, this.episode)),
            group("wide", looks, group("", picture, full, keys)));
    }

    // ---- showing ------------------------------------------------------------------------------

    #showEpisode() {
        const { timeline } = this;
        this.slider.min = timeline.first;
        this.slider.max = timeline.last;
        this.episode.value = String(timeline.number);
        const rows = timeline.times.length;
        const step = (timeline.last - timeline.first) / Math.max(rows - 1, 1);
        this.digits = step > 0 ? Math.min(Math.max(Math.ceil(-Math.log10(step)), 1), 6) : 1;
        this.stage.hidden = !hasPoses(timeline.episode);
        this.note.textContent = timeline.episode.note ?? "";
        this.note.hidden = !timeline.episode.note;
        this.#showSpans();
        this.#showLegend();
        this.#showShown();
        this.told = 0;
        this.#showTime();
    }

    #showLegend() {
        const { tracks } = this.timeline.episode;
        this.legend.replaceChildren(...tracks.flatMap((track, number) => {
            if (track.poses === null || !this.scene) return [];
            const box = make("input", { type: "checkbox", checked: this.scene.wanted[number] });
            box.addEventListener("change", () => this.scene.setWanted(number, box.checked));
            const ghost = isGhost(track) && tracks.length > 1;
            const swatch = make("span", { className: ghost ? "swatch ghost" : "swatch" });
            swatch.style.setProperty("--track", trackColor(tracks, number, darkMedia.matches));
            return [make("label", {}, box, swatch, track.name)];
        }));
        this.legend.hidden = this.legend.childElementCount === 0;
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
            const part = make("div", { textContent: span.role, title });
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
        this.time.textContent = text;
        this.time.title = `row ${this.timeline.place().row + 1} of ${times.length}`;
    }

    #showState() {
        const { playing, speed, loop } = this.timeline;
        setIcon(this.play, playing ? "pause" : "play");
        setName(this.play, playing ? "pause" : "play");
        setPressed(this.loop, loop);
        this.speed.value = String(speed);
        if (playing) this.#request();
        else this.#showTime();
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

    #togglePlay() {
        this.timeline.setPlaying(!this.timeline.playing);
    }

    #step(rows) {
        const { timeline } = this;
        if (timeline.playing) timeline.setPlaying(false);
        const { row, share } = timeline.place();
        // Back from between two rows goes to the one just passed.
        const next = row + rows + (rows < 0 && share > 0 ? 1 : 0);
        timeline.set(timeline.times[Math.min(Math.max(next, 0), timeline.times.length - 1)]);
    }

    #changeSpeed(by) {
        const at = SPEEDS.indexOf(this.timeline.speed);
        this.timeline.setSpeed(SPEEDS[Math.min(Math.max(at + by, 0), SPEEDS.length - 1)]);
    }

    #toggleShown(what) {
        this.shown = { ...this.shown, [what]: !this.shown[what] };
        this.scene?.setShown(this.shown);
        this.#showShown();
    }

    #toggleFollow() {
        this.scene?.setFollow(!this.scene.follow);
        this.#showShown();
    }

    #toggleTrack(number) {
        this.legend.querySelectorAll("input")[number]?.click();
    }

    #toggleFullscreen() {
        if (document.fullscreenElement) document.exitFullscreen();
        else this.element.requestFullscreen();
    }

    async #savePicture() {
        const { episode, time } = this.timeline;
        const url = URL.createObjectURL(await this.scene.savePicture());
        const name = `${episode.name} ${time.toFixed(this.digits)} s`.replace(/[^\p{L}\p{N}.-]+/gu, "_");
        make("a", { href: url, download: `${name}.png` }).click();
        setTimeout(() => URL.revokeObjectURL(url), 10000);
    }

    // Keys work where nothing else takes them: in the viewer, or, with the focus nowhere, while the viewer
    // is in sight.
    #pressKey(event) {
        if (event.ctrlKey || event.metaKey || event.altKey || this.dialog.open) return;
        const { target } = event;
        const takesText = target.closest("input:not([type=checkbox]), select, textarea, [contenteditable]");
        if (takesText && target !== this.slider) return;
        // Space presses what can be pressed.
        if (event.key === " " && target.closest("button, a, summary, input[type=checkbox]")) return;
        const box = this.element.getBoundingClientRect();
        const inSight = box.bottom > 0 && box.top < window.innerHeight;
        if (!target.closest("#viewer") && !(target === document.body && inSight)) return;
        const action = this.#actionOf(event);
        if (!action) return;
        event.preventDefault();
        action();
    }

    #actionOf({ key, shiftKey }) {
        const { timeline, scene } = this;
        const rows = shiftKey ? 10 : 1;
        switch (key.length === 1 ? key.toLowerCase() : key) {
        case " ": return () => this.#togglePlay();
        case "ArrowLeft": return () => this.#step(-rows);
        case "ArrowRight": return () => this.#step(rows);
        case "Home": return () => timeline.set(timeline.first);
        case "End": return () => timeline.set(timeline.last);
        case "+": case "=": return () => this.#changeSpeed(1);
        case "-": return () => this.#changeSpeed(-1);
        case "f": return () => this.#toggleFollow();
        case "r": return () => scene?.resetView();
        case "c": return () => this.#toggleShown("contacts");
        case "a": return () => this.#toggleShown("axes");
        case "n": return () => this.#toggleShown("names");
        case "?": return () => this.dialog.showModal();
        default: return /^[1-9]$/.test(key) ? () => this.#toggleTrack(Number(key) - 1) : null;
        }
    }
}

function makeDialog() {
    const dialog = make("dialog", { className: "keys" });
    const list = make("dl");
    for (const [key, what] of KEYS) {
        list.append(make("dt", { textContent: key }), make("dd", { textContent: what }));
    }
    const close = make("button", { type: "button", textContent: "close" });
    close.addEventListener("click", () => dialog.close());
    dialog.append(make("h2", { textContent: "Keys" }), list, close);
    dialog.setAttribute("aria-label", "Keys");
    return dialog;
}
