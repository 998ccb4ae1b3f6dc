// Quantities of an episode over time: panels of curves that share their time with the robot in 3D.

import "./curves.css";
import { makePicker } from "./curves_picker.js";
import { drawSvg, makeMark } from "./curves_svg.js";
import { button, element, setText } from "./dom.js";
import { family, numberText, onPalette, optionsOf, palette, rangeOf, rowsIn, ticks, uPlot }
    from "./plot.js";
import { csvText, fileName, saveBlob, saveButtons, saveText, svgText, svgToPng } from "./save.js";

// Recorded ones are drawn first: wide and pale, what was computed on top of them.
const roles = {
    recorded: { order: 0, colour: "ink", wide: true },
    before: { order: 1, colour: 1, dash: [6, 4] },
    after: { order: 2, colour: 0 },
    run: { order: 2, colour: 0 },
};
const moreDashes = [[2, 3], [10, 3, 2, 3]]; // of further tracks of a role
const shades = { test: 0.07, validation: 0.035 };

export function startCurves(parent, timeline) {
    const curves = new Curves(parent, timeline);
    window.neuralsim = Object.assign(window.neuralsim ?? {}, { curves });
}

class Curves {
    constructor(parent, timeline) {
        this.timeline = timeline;
        this.list = [];
        this.hover = null; // a time under the pointer
        this.aimed = false; // the wheel is meant for us
        this.due = new Set(); // what to do at the next frame

        this.root = element("section", "curves");
        this.root.setAttribute("aria-label", "curves");
        this.box = element("div", "curve-panels");
        this.clock = element("span", "curve-clock");
        this.addButton = button("add panel", () => this.addNext());
        this.wholeButton = button("whole time", () => timeline.setRange());
        const bar = element("div", "curve-bar");
        bar.append(this.addButton, this.wholeButton, this.clock);
        const hint = element("p", "curve-hint faint", matchMedia("(pointer: coarse)").matches ?
            "Drag sideways to move in time, pinch to zoom, tap twice for the whole time." :
            "Click to go there, drag to zoom, double click for the whole time; the wheel zooms, too.");
        this.root.append(bar, this.box, hint);
        parent.append(this.root);

        timeline.addEventListener("time", () => this.showTime());
        timeline.addEventListener("range", () => this.later("range"));
        timeline.addEventListener("episode", () => this.rebuild());
        onPalette(() => this.list.forEach((panel) => panel.repaint()));
        new ResizeObserver(() => this.later("size")).observe(this.box);
        // A page that scrolls under the pointer must not start to zoom: the pointer has to move first.
        addEventListener("scroll", () => (this.aimed = false), { passive: true });
        this.rebuild();
    }

    // ---- panels ------------------------------------------------------------------------------

    rebuild() {
        const old = this.list.map((panel) => panel.names);
        this.list.forEach((panel) => panel.destroy());
        this.list = [];
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

    firstChoice() {
        const names = [...this.quantities.keys()];
        const positions = names.filter((name) => /^(joint\/.+\/position$|q)/.test(name));
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

    panels() {
        return this.list.map(({ names, curves }) => ({
            names: [...names],
            series: curves.map(({ label, role, y }) => ({ label, role, x: this.timeline.times, y })),
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
        const [from, to] = this.range;
        setText(this.clock, `${numberText(this.hover ?? this.timeline.time, (to - from) / 1000)} s`);
        for (const panel of this.list) panel.showTime();
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

// ---- a panel -------------------------------------------------------------------------------------

class Panel {
    constructor(owner, names) {
        this.owner = owner;
        this.names = names;
        this.hidden = new Set(); // labels of curves
        this.precision = 1; // of the values in the legend
        this.root = element("section", "curve-panel");
        this.title = button("", () => (this.picker ? this.closePicker() : this.openPicker()));
        this.title.classList.add("curve-title");
        this.title.setAttribute("aria-expanded", "false");
        const close = button("\u00d7", () => owner.remove(this));
        close.title = "remove this panel";
        close.setAttribute("aria-label", close.title);
        const save = saveButtons("this panel", {
            SVG: () => saveText(svgText(this.picture().svg), `${this.file()}.svg`, "image/svg+xml"),
            PNG: async () => {
                const { svg, width, height } = this.picture();
                saveBlob(await svgToPng(svg, width, height), `${this.file()}.png`);
            },
            CSV: () => saveText(this.table(), `${this.file()}.csv`, "text/csv"),
        });
        save.append(close);
        this.head = element("div", "curve-head");
        this.head.append(this.title, save);
        this.frame = element("div", "curve-plot");
        this.frame.setAttribute("role", "img");
        this.legend = element("div", "curve-legend");
        this.root.append(this.head, this.frame, this.legend);
    }

    // Draw anew: other quantities, or another episode.
    build() {
        const { timeline } = this.owner;
        this.curves = curvesOf(timeline, this.names.map((name) => this.owner.quantities.get(name)));
        const [name = "choose quantities"] = this.names, all = this.names.join(", ") || name;
        const text = this.names.length > 1 ? `${this.names.length} quantities` : name;
        // On a phone, names break after a slash.
        this.title.replaceChildren(...text.split(/(?<=\/)/).flatMap((part) => [part, element("wbr")]));
        this.title.title = all;
        this.frame.setAttribute("aria-label", `${all} over time`);
        this.plot?.destroy();
        this.plot = new uPlot(this.options(), [timeline.times, ...this.curves.map(({ y }) => y)],
            this.frame);
        this.timeLine = overlay(this.plot, "curve-time");
        this.hoverLine = overlay(this.plot, "curve-hover");
        this.selection = element("div", "curve-selection");
        this.selection.hidden = true;
        this.plot.over.append(this.selection);
        listen(this);
        this.fillLegend();
        this.curves.forEach(({ label }, k) => this.setShown(k, !this.hidden.has(label)));
    }

    options() {
        const { owner } = this, { width, height } = this.size();
        return optionsOf({
            width,
            height,
            top: owner.spans.length > 0 ? 18 : 8,
            curves: this.curves,
            x: {
                range: () => owner.range,
                ticks: (low, high, pixels) => ticks(low, high, pixels / 90),
                text: numberText,
            },
            y: {
                range: (u) => {
                    const shown = this.curves.filter((_, k) => u.series[k + 1].show);
                    const range = rangeOf(shown.map(({ y }) => y), rowsIn(u.data[0], ...owner.range));
                    this.precision = (range[1] - range[0]) / 1000;
                    return range;
                },
                ticks: (low, high, pixels) => ticks(low, high, pixels / 32),
                text: numberText,
                label: this.unit() || " ", // keeps the room: all panels begin at the same place
            },
            hooks: {
                drawAxes: [(u) => drawSpans(u, owner.spans)],
                draw: [() => this.showTime()], // the room for the axis may have changed
            },
        });
    }

    // Of the y axis; quantities of several units share it.
    unit() {
        const units = this.names.map((name) => this.owner.quantities.get(name).unit);
        return [...new Set(units.filter(Boolean))].join(", ");
    }

    size() {
        const width = Math.max(this.frame.clientWidth, 200);
        return { width, height: width < 500 ? 170 : 200 };
    }

    resize() {
        const size = this.size();
        if (size.width !== this.plot.width) this.plot.setSize(size);
    }

    repaint() {
        this.plot.redraw(false);
        this.fillLegend();
        this.showTime();
    }

    destroy() {
        this.plot.destroy();
        this.root.remove();
    }

    // ---- legend ------------------------------------------------------------------------------

    fillLegend() {
        this.values = [];
        this.legend.replaceChildren(...this.curves.map((curve, k) => {
            const entry = button("", () => this.setShown(k, this.hidden.has(curve.label)));
            entry.className = "curve-entry";
            entry.title = "show or hide";
            entry.setAttribute("aria-pressed", String(!this.hidden.has(curve.label)));
            const value = element("span", "curve-value");
            entry.append(makeMark(curve), element("bdi", "", curve.legend), value);
            this.values.push(value);
            return entry;
        }));
    }

    setShown(k, shown) {
        const { label } = this.curves[k];
        if (shown) this.hidden.delete(label);
        else this.hidden.add(label);
        this.legend.children[k].setAttribute("aria-pressed", String(shown));
        if (this.plot.series[k + 1].show !== shown) this.plot.setSeries(k + 1, { show: shown });
    }

    showTime() {
        const { hover, timeline, range: [from, to] } = this.owner;
        this.timeLine.place((timeline.time - from) / (to - from));
        this.hoverLine.place(hover === null ? -1 : (hover - from) / (to - from));
        const { row, share } = timeline.place(hover ?? timeline.time);
        this.curves.forEach(({ y }, k) => {
            const here = y[row], next = y[row + 1];
            const value = share > 0 && Number.isFinite(next) ? here + share * (next - here) : here;
            setText(this.values[k], numberText(value, this.precision));
        });
    }

    // ---- choice ------------------------------------------------------------------------------

    openPicker() {
        this.owner.list.forEach((panel) => panel.closePicker());
        const change = (name, on) => {
            this.names = on ? [...this.names, name] : this.names.filter((other) => other !== name);
            this.build();
        };
        this.picker = makePicker([...this.owner.quantities.values()], new Set(this.names), change,
            () => this.closePicker());
        this.head.after(this.picker.box);
        this.title.setAttribute("aria-expanded", "true");
        this.picker.focus();
    }

    closePicker() {
        if (!this.picker) return;
        this.picker.box.remove();
        this.picker = null;
        this.title.setAttribute("aria-expanded", "false");
        this.title.focus({ preventScroll: true });
    }

    // ---- files -------------------------------------------------------------------------------

    file() {
        return fileName(this.names.join(" "));
    }

    picture() {
        const [from, to] = this.owner.range;
        const curves = this.curves.filter(({ label }) => !this.hidden.has(label));
        const title = this.names.length === 1 ? this.names[0] : ""; // the legend names several
        return drawSvg({ title, unit: this.unit(), from, to, spans: this.owner.spans,
            x: this.owner.timeline.times, curves });
    }

    table() {
        return csvText(["t", ...this.curves.map(({ label }) => label)],
            [this.owner.timeline.times, ...this.curves.map(({ y }) => y)]);
    }
}

// ---- what to draw ----------------------------------------------------------------------------

// One curve for each quantity and each track that has it. One quantity is coloured by the roles of the
// tracks; of several, each has its colour, and dashes tell the roles.
function curvesOf(timeline, quantities) {
    const { tracks } = timeline.episode, several = tracks.length > 1, one = quantities.length === 1;
    const curves = [];
    quantities.forEach((quantity, number) => {
        const seen = {};
        tracks.forEach((track, k) => {
            const y = timeline.column(quantity.columns[k]);
            if (!y) return;
            const role = roles[track.role] ?? roles.run;
            const more = seen[role.order] ?? 0; // tracks of this role before it
            seen[role.order] = more + 1;
            const label = several ? `${quantity.name} (${track.name})` : quantity.name;
            const curve = { label, legend: one && several ? track.name : label, role: track.role, y,
                order: role.order, wide: role.wide, dash: role.dash };
            curve.colour = !one ? number : more > 0 ? more + 1 : role.colour;
            if (!one && more > 0) curve.dash = moreDashes[(more - 1) % moreDashes.length];
            curves.push(curve);
        });
    });
    return curves.sort((a, b) => a.order - b.order);
}

// Neighbours of one role are one span; "changes" where the role before was another.
function joinSpans(spans) {
    const joined = [];
    for (const { from, to, role } of [...spans].sort((a, b) => a.from - b.from)) {
        const last = joined.at(-1);
        if (last?.role === role) last.to = Math.max(last.to, to);
        else joined.push({ from, to, role, shade: shades[role] ?? 0, changes: joined.length > 0 });
    }
    return joined;
}

function drawSpans(u, spans) {
    const { ctx } = u, { left, top, width, height } = u.bbox, ratio = uPlot.pxRatio;
    ctx.save();
    ctx.font = `${11 * ratio}px ${family}`;
    ctx.textBaseline = "bottom";
    ctx.textAlign = "left";
    ctx.lineWidth = ratio;
    ctx.setLineDash([3 * ratio, 3 * ratio]);
    ctx.strokeStyle = palette().faint;
    for (const { from, to, role, shade, changes } of spans) {
        const start = Math.max(u.valToPos(from, "x", true), left);
        const end = Math.min(u.valToPos(to, "x", true), left + width), room = end - start;
        if (room <= 0) continue;
        ctx.fillStyle = palette().ink;
        ctx.globalAlpha = shade;
        ctx.fillRect(start, top, room, height);
        ctx.globalAlpha = 1;
        ctx.fillStyle = palette().faint;
        const space = 4 * ratio;
        if (ctx.measureText(role).width + 2 * space < room)
            ctx.fillText(role, start + space, top - 2 * ratio);
        if (!changes || start <= left) continue;
        ctx.beginPath();
        ctx.moveTo(start, top - 14 * ratio);
        ctx.lineTo(start, top + height);
        ctx.stroke();
    }
    ctx.restore();
}

// A line over a plot, at a share of its width.
function overlay(plot, name) {
    const line = element("div", name);
    plot.over.append(line);
    return {
        line,
        place(share) {
            line.hidden = !(share >= 0 && share <= 1);
            line.style.transform = `translateX(${(share * plot.bbox.width) / uPlot.pxRatio}px)`;
        },
    };
}

// ---- pointer ---------------------------------------------------------------------------------

// Mouse: click goes there, drag selects a stretch, drag of the time line or along the axis scrubs.
// Touch: drag scrubs, two fingers zoom.
function listen({ owner, plot, timeLine, selection }) {
    const { timeline } = owner, { over } = plot, axis = plot.root.querySelector(".u-axis");
    const fingers = new Map(); // pointer: time at which it is held
    let how = null, start = 0, box = null;
    const share = (event) => Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
    const timeAt = (event) => {
        const [from, to] = owner.range;
        return from + share(event) * (to - from);
    };
    const measure = () => (box = over.getBoundingClientRect());
    const select = (from, to) => {
        selection.hidden = false;
        selection.style.left = `${Math.min(from, to) * 100}%`;
        selection.style.width = `${Math.abs(to - from) * 100}%`;
    };

    const down = (event) => {
        if (event.button !== 0) return;
        measure();
        event.currentTarget.setPointerCapture(event.pointerId);
        if (event.pointerType === "touch") {
            fingers.set(event.pointerId, { x: event.clientX, time: timeAt(event) });
            how = fingers.size > 1 ? "pinch" : "click"; // or a scroll of the page: wait for the move
            start = share(event);
            return;
        }
        how = event.target === timeLine.line || event.currentTarget === axis ? "scrub" : "click";
        start = share(event);
        if (how === "scrub") timeline.set(timeAt(event));
    };
    const move = (event) => {
        owner.aimed = owner.aimed || event.movementX !== 0 || event.movementY !== 0;
        if (fingers.has(event.pointerId)) fingers.get(event.pointerId).x = event.clientX;
        if (how === "click" && Math.abs(share(event) - start) * box.width > 4)
            how = event.pointerType === "touch" ? "scrub" : "select";
        if (how === "scrub") timeline.set(timeAt(event));
        else if (how === "select") select(start, share(event));
        else if (how === "pinch") pinch();
        measure();
        if (event.pointerType !== "touch") owner.setHover(how === "scrub" ? null : timeAt(event));
    };
    // The times under two fingers stay under them.
    const pinch = () => {
        const [a, b] = [...fingers.values()].sort((one, other) => one.time - other.time);
        if (!b || b.x - a.x < 10) return;
        const slope = (b.time - a.time) / (b.x - a.x);
        owner.zoom(a.time - (a.x - box.left) * slope, b.time + (box.right - b.x) * slope);
    };
    const up = (event) => {
        if (how === null) return;
        const [from, to] = owner.range;
        const times = [start, share(event)].map((k) => from + k * (to - from));
        fingers.delete(event.pointerId);
        if (how === "select") owner.zoom(Math.min(...times), Math.max(...times));
        else if (how === "click") timeline.set(timeAt(event));
        selection.hidden = true;
        how = fingers.size > 0 ? how : null;
    };
    const cancel = (event) => {
        fingers.delete(event.pointerId);
        selection.hidden = true;
        how = null;
    };
    for (const target of [over, axis]) {
        target.addEventListener("pointerdown", down);
        target.addEventListener("pointermove", move);
        target.addEventListener("pointerup", up);
        target.addEventListener("pointercancel", cancel);
        target.addEventListener("pointerleave", () => owner.setHover(null));
        target.addEventListener("dblclick", () => timeline.setRange());
    }

    over.addEventListener("wheel", (event) => {
        if (!owner.aimed && !event.ctrlKey) return;
        measure();
        const [from, to] = owner.range, unit = event.deltaMode === 0 ? 1 : 30;
        if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
            const by = (event.deltaX * unit * (to - from)) / box.width;
            const shift = Math.min(Math.max(by, timeline.first - from), timeline.last - to);
            if (shift !== 0) timeline.setRange(from + shift, to + shift);
            event.preventDefault();
            return;
        }
        const whole = from <= timeline.first && to >= timeline.last;
        if (whole && event.deltaY > 0) return; // nothing left to show: let the page scroll
        const factor = Math.exp(event.deltaY * unit * 0.002), at = timeAt(event);
        owner.zoom(at - (at - from) * factor, at + (to - at) * factor);
        event.preventDefault();
    }, { passive: false });
}
