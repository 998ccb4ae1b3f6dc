// A panel: some quantities over time, in all tracks that have them. It has an axis for each unit, two at most.

import { seriesColor, trackColor } from "./colors.js";
import { makePicker } from "./curves_picker.js";
import { listenToPointer } from "./curves_pointer.js";
import { drawSpans } from "./curves_spans.js";
import { drawSvg, makeMark } from "./curves_svg.js";
import { make, makeButton, setPressed, setText } from "./dom.js";
import { rangeOf, rowsIn } from "./lines.js";
import { optionsOf, uPlot } from "./plot.js";
import { csvText, fileName, makeSaveButtons, saveBlob, saveText, svgText, svgToPng } from "./save.js";
import { numberText, ticks } from "./ticks.js";

const SCALES = ["y", "y2"]; // left, right

// Recorded ones are drawn first: wide and pale, what was computed on top of them.
const ROLES = {
    recorded: { order: 0, wide: true },
    before: { order: 1, dash: [6, 4] },
    after: { order: 2 },
    run: { order: 2 },
};
const MORE_DASHES = [[2, 3], [10, 3, 2, 3], [1, 4]]; // of further tracks where colours tell quantities

export class Panel {
    constructor(owner, names) {
        this.owner = owner;
        this.names = names;
        this.hidden = new Set(); // labels of curves
        this.precision = {}; // of the values in the legend, by scale
        this.title = makeButton("", () => (this.picker ? this.closePicker() : this.openPicker()));
        this.title.classList.add("curve-title");
        this.title.setAttribute("aria-expanded", "false");
        const save = makeSaveButtons("this panel", {
            SVG: () => saveText(svgText(this.picture().svg), `${this.file()}.svg`, "image/svg+xml"),
            PNG: async () => {
                const { svg, width, height } = this.picture();
                saveBlob(await svgToPng(svg, width, height), `${this.file()}.png`);
            },
            CSV: () => saveText(this.table(), `${this.file()}.csv`, "text/csv"),
        });
        save.append(makeButton("\u00d7", () => owner.remove(this), "remove this panel"));
        this.head = make("div", { className: "curve-head" }, this.title, save);
        this.frame = make("div", { className: "curve-plot", role: "img" });
        this.legend = make("div", { className: "curve-legend" });
        this.root = make("section", { className: "curve-panel" }, this.head, this.frame, this.legend);
    }

    // Draw anew: other quantities, or another episode.
    build() {
        const { timeline } = this.owner;
        const quantities = this.names.map((name) => this.owner.quantities.get(name));
        this.units = [...new Set(quantities.map(({ unit }) => unit ?? ""))].slice(0, SCALES.length);
        this.curves = curvesOf(timeline, quantities, this.units);
        const [name = "choose quantities"] = this.names, all = this.names.join(", ") || name;
        const text = this.names.length > 1 ? `${this.names.length} quantities` : name;
        // On a phone, names break before a slash.
        this.title.replaceChildren(...text.split("/").flatMap((part, k) => k > 0 ? [make("wbr"), `/${part}`] : [part]));
        this.title.title = all;
        this.frame.setAttribute("aria-label", `${all} over time`);
        this.plot?.destroy();
        this.plot = new uPlot(this.options(), [timeline.times, ...this.curves.map(({ y }) => y)], this.frame);
        this.timeLine = overlay(this.plot, "curve-time");
        this.hoverLine = overlay(this.plot, "curve-hover");
        this.selection = make("div", { className: "curve-selection", hidden: true });
        this.plot.over.append(this.selection);
        listenToPointer(this);
        this.fillLegend();
        this.showTracks();
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
            ys: Object.fromEntries((this.units.length > 0 ? this.units : [""]).map((unit, k) => [SCALES[k], {
                range: () => {
                    const range = this.rangeOn(SCALES[k]);
                    this.precision[SCALES[k]] = (range[1] - range[0]) / 1000;
                    return range;
                },
                ticks: (low, high, pixels) => ticks(low, high, pixels / 32),
                text: numberText,
                label: unit || " ", // keeps the room: all panels begin at the same place
            }])),
            hooks: {
                drawAxes: [(u) => drawSpans(u, owner.spans)],
                draw: [() => this.showAll()], // the room for the axis may have changed
            },
        });
    }

    rangeOn(scale) {
        const { owner } = this;
        const curves = this.shownCurves().filter((curve) => curve.scale === scale);
        return rangeOf(curves, rowsIn(owner.timeline.times, ...owner.range));
    }

    ranges() {
        return this.units.map((_, k) => this.rangeOn(SCALES[k]));
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
        this.showTracks();
    }

    destroy() {
        this.plot.destroy();
        this.root.remove();
    }

    // ---- legend ------------------------------------------------------------------------------

    fillLegend() {
        this.values = [];
        this.entries = this.curves.map((curve) => {
            const value = make("span", { className: "curve-value" });
            this.values.push(value);
            const entry = makeButton(makeMark(curve), () => {
                if (!this.hidden.delete(curve.label)) this.hidden.add(curve.label);
                this.showTracks();
            });
            entry.append(make("bdi", {}, curve.legend), value);
            entry.className = "curve-entry";
            entry.title = "show or hide";
            return entry;
        });
        this.legend.replaceChildren(...this.entries);
    }

    // A curve can be hidden here, its track everywhere.
    isShown({ label, track }) {
        return !this.hidden.has(label) && !this.owner.timeline.isHidden(track);
    }

    shownCurves() {
        return this.curves.filter((curve) => this.isShown(curve));
    }

    showTracks() {
        this.curves.forEach((curve, k) => {
            const shown = this.isShown(curve);
            setPressed(this.entries[k], shown);
            this.entries[k].hidden = this.owner.timeline.isHidden(curve.track);
            if (this.plot.series[k + 1].show !== shown) this.plot.setSeries(k + 1, { show: shown });
        });
        this.showAll();
    }

    showAll() {
        this.showTime();
        this.showValues();
    }

    showTime() {
        const { hover, timeline, range: [from, to] } = this.owner;
        this.timeLine.place((timeline.time - from) / (to - from));
        this.hoverLine.place(hover === null ? -1 : (hover - from) / (to - from));
    }

    showValues() {
        const { hover, timeline } = this.owner;
        const { row, share } = timeline.place(hover ?? timeline.time);
        this.curves.forEach(({ y, scale }, k) => {
            const here = y[row], next = y[row + 1];
            const value = share > 0 && Number.isFinite(next) ? here + share * (next - here) : here;
            setText(this.values[k], numberText(value, this.precision[scale] ?? 1));
        });
    }

    // ---- choice ------------------------------------------------------------------------------

    openPicker() {
        this.owner.list.forEach((panel) => panel.closePicker());
        const change = (name, on) => {
            this.names = on ? [...this.names, name] : this.names.filter((other) => other !== name);
            this.build();
            return this.units;
        };
        this.picker = makePicker([...this.owner.quantities.values()], this.names, SCALES.length, change,
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
        const { owner } = this, [from, to] = owner.range;
        const title = this.names.length === 1 ? this.names[0] : ""; // the legend names several
        const axes = this.units.map((unit, k) => ({ unit, range: this.rangeOn(SCALES[k]) }));
        return drawSvg({ title, axes, from, to, spans: owner.spans, x: owner.timeline.times,
            curves: this.shownCurves().map((curve) => ({ ...curve, axis: SCALES.indexOf(curve.scale) })) });
    }

    table() {
        return csvText(["t", ...this.curves.map(({ label }) => label)],
            [this.owner.timeline.times, ...this.curves.map(({ y }) => y)]);
    }
}

// One curve for each quantity and each track that has it. One quantity is coloured by its tracks, as they are
// in 3D; of several, each has its colour, and dashes tell the tracks.
function curvesOf(timeline, quantities, units) {
    const { tracks } = timeline.episode, several = tracks.length > 1, one = quantities.length === 1;
    const curves = quantities.flatMap((quantity, number) => tracks.flatMap((track, k) => {
        const y = timeline.column(quantity.columns[k]);
        if (!y) return [];
        const unit = quantity.unit ?? "", role = ROLES[track.role] ?? ROLES.run;
        const label = several ? `${quantity.name} (${track.name})` : quantity.name;
        const legend = one && several ? track.name : units.length > 1 && unit ? `${label}, ${unit}` : label;
        const alike = tracks.slice(0, k).filter((other) => other.role === track.role).length;
        const dash = !one && alike > 0 ? MORE_DASHES[(alike - 1) % MORE_DASHES.length] : role.dash;
        return [{ label, legend, track, role: track.role, quantity: quantity.name, y, order: role.order,
            wide: role.wide, dash, color: one ? trackColor(tracks, k) : seriesColor(number),
            scale: SCALES[Math.max(units.indexOf(unit), 0)] }];
    }));
    return curves.sort((a, b) => a.order - b.order);
}

// A line over a plot, at a share of its width.
function overlay(plot, name) {
    const line = make("div", { className: name });
    plot.over.append(line);
    return {
        line,
        place(share) {
            const at = Math.round(share * plot.bbox.width) / uPlot.pxRatio; // in whole dots
            line.hidden = !(share >= 0 && share <= 1);
            line.style.transform = `translateX(${at}px)`;
        },
    };
}
