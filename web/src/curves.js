// Quantities of an episode over time: panels of curves that share their time with the robot in 3D.

import "./curves.css";
import { onDark } from "./colors.js";
import { Panel } from "./curves_panel.js";
import { joinSpans } from "./curves_spans.js";
import { make, makeButton, setText } from "./dom.js";
import { numberText } from "./ticks.js";
import { NUMBERS } from "./timeline.js";

const HINTS = {
    fine: "Click to go there, drag to zoom, double click for the whole time; the wheel zooms, too.",
    coarse: "Drag sideways to move in time, pinch to zoom, tap twice for the whole time.",
};

export function startCurves(parent, timeline) {
    return new Curves(parent, timeline);
}

class Curves {
    constructor(parent, timeline) {
        this.timeline = timeline;
        this.list = [];
        this.hover = null; // a time under the pointer
        this.aimed = false; // the wheel is meant for us
        this.due = new Set(); // what to do at the next frame
        this.told = 0; // when numbers were shown

        this.box = make("div", { className: "curve-panels" });
        this.clock = make("span", { className: "curve-clock" });
        this.wholeButton = makeButton("whole time", () => timeline.setRange());
        const bar = make("div", { className: "curve-bar" },
            makeButton("add panel", () => this.addNext()), this.wholeButton, this.clock);
        const hint = HINTS[matchMedia("(pointer: coarse)").matches ? "coarse" : "fine"];
        this.root = make("section", { className: "curves", "aria-label": "curves" }, bar, this.box,
            make("p", { className: "curve-hint faint" }, hint));
        parent.append(this.root);

        timeline.addEventListener("time", () => this.showTime());
        timeline.addEventListener("state", () => this.showTime());
        timeline.addEventListener("range", () => this.later("range"));
        timeline.addEventListener("tracks", () => this.list.forEach((panel) => panel.showTracks()));
        timeline.addEventListener("episode", () => this.rebuild());
        onDark(() => this.list.forEach((panel) => panel.repaint()));
        new ResizeObserver(() => this.later("size")).observe(this.box);
        // A page that scrolls under the pointer must not start to zoom: the pointer has to move first.
        addEventListener("scroll", () => (this.aimed = false), { passive: true });
        this.rebuild();
    }

    // ---- panels ------------------------------------------------------------------------------

    rebuild() {
        const old = this.list.map((panel) => panel.names);
        this.clear();
        this.hover = null;
        const { quantities, spans } = this.timeline.episode;
        this.quantities = new Map(quantities.map((quantity) => [quantity.name, quantity]));
        this.spans = joinSpans(spans);
        const kept = old.map((names) => names.filter((name) => this.quantities.has(name)));
        const lists = kept.filter((names) => names.length > 0);
        for (const names of lists.length > 0 ? lists : this.firstChoice()) this.addPanel(names);
        this.root.hidden = quantities.length === 0;
        this.showRange();
    }

    // Two joints; a floating base moves in 3D already.
    firstChoice() {
        const names = [...this.quantities.keys()];
        const positions = names.filter((name) => /^joint\/.+\/position$/.test(name));
        return (positions.length > 0 ? positions : names).slice(0, 2).map((name) => [name]);
    }

    addPanel(names) {
        const panel = new Panel(this, names);
        this.list.push(panel);
        this.box.append(panel.root);
        panel.build();
        return panel;
    }

    // One more, of the first quantity that is not shown yet, and the list to choose another.
    addNext() {
        const shown = new Set(this.list.flatMap((panel) => panel.names));
        const names = [...this.quantities.keys()];
        const panel = this.addPanel([names.find((name) => !shown.has(name)) ?? names[0]]);
        panel.root.scrollIntoView({ block: "nearest" });
        panel.openPicker();
    }

    remove(panel) {
        panel.destroy();
        this.list = this.list.filter((other) => other !== panel);
    }

    // ---- for scripts and tests ---------------------------------------------------------------

    // What is drawn.
    panels() {
        return this.list.map((panel) => ({
            names: [...panel.names],
            range: panel.ranges(),
            series: panel.shownCurves().map(({ label, role, y, color }) =>
                ({ label, role, x: this.timeline.times, y, color })),
        }));
    }

    // A panel more, of these; returns its number.
    show(names) {
        this.addPanel(names.filter((name) => this.quantities.has(name)));
        return this.list.length - 1;
    }

    clear() {
        this.list.forEach((panel) => panel.destroy());
        this.list = [];
    }

    // ---- time --------------------------------------------------------------------------------

    get range() {
        const { from, to } = this.timeline;
        return from < to ? [from, to] : [from - 0.5, from + 0.5];
    }

    // Only the overlays move: the plots stay as they are.
    showTime() {
        for (const panel of this.list) panel.showTime();
        // Numbers that run are not read faster than this, and each change is drawn at a cost.
        const now = performance.now();
        if (this.timeline.playing && this.hover === null && now - this.told < NUMBERS) return;
        this.told = now;
        const [from, to] = this.range;
        setText(this.clock, `${numberText(this.hover ?? this.timeline.time, (to - from) / 1000)} s`);
        for (const panel of this.list) panel.showValues();
    }

    setHover(time) {
        this.hover = time;
        this.showTime();
    }

    showRange() {
        const [min, max] = this.range;
        for (const panel of this.list) panel.plot.setScale("x", { min, max });
        this.wholeButton.disabled =
            this.timeline.from <= this.timeline.first && this.timeline.to >= this.timeline.last;
        this.showTime();
    }

    zoom(from, to) {
        const { first, last, times } = this.timeline;
        // Two rows must stay in view, however far one turns the wheel.
        const least = (2 * (last - first)) / Math.max(times.length - 1, 1), middle = (from + to) / 2;
        const half = Math.max(to - from, least) / 2;
        this.timeline.setRange(middle - half, middle + half);
    }

    // Plots are drawn once for each frame, however often the wheel turns.
    later(what) {
        if (this.due.size === 0) {
            requestAnimationFrame(() => {
                if (this.due.has("size")) this.list.forEach((panel) => panel.resize());
                if (this.due.has("range")) this.showRange();
                this.due.clear();
            });
        }
        this.due.add(what);
    }
}
