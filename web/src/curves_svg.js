// A panel of curves as a picture that stands alone, on light paper.

import { FAINT, INK, isDark, LINE, shade } from "./colors.js";
import { makeSvg } from "./dom.js";
import { dotRoom, dots, lines, rowsIn } from "./lines.js";
import { FAMILY, THIN, WIDE } from "./plot.js";
import { numberText, ticks } from "./ticks.js";

const width = 720, left = 64, plotHeight = 260, line = 16, size = 12;
const [ink] = INK, [faint] = FAINT, [grey] = LINE;

// @param title  may be empty
// @param axes   one or two: { unit, range: [low, high] }
// @param curves  [{ legend, y, color, wide, dash, axis }]
export function drawSvg({ title, axes, from, to, spans, x, curves }) {
    const right = axes.length > 1 ? 64 : 14;
    const start = title ? 30 : 8, legend = placeLegend(curves, start, width - right);
    const top = start + line * (legend.rows + 1) + (spans.length > 0 ? line : 0);
    const height = top + plotHeight + 40, bottom = top + plotHeight;
    const rows = rowsIn(x, from, to);
    const placeX = (t) => left + ((t - from) / (to - from)) * (width - left - right);
    const places = axes.map(({ range: [low, high] }) => (v) => bottom - ((v - low) / (high - low)) * plotHeight);

    const svg = makeSvg("svg", { width, height, viewBox: `0 0 ${width} ${height}`,
        "font-family": FAMILY, "font-size": size, fill: ink });
    if (title) add(svg, "text", { x: left, y: 20 }, fit(title, width - left - right));

    const across = ticks(from, to, (width - left - right) / 90);
    for (const t of across.values) {
        const at = round(placeX(t));
        add(svg, "line", { x1: at, x2: at, y1: top, y2: bottom, stroke: grey });
        add(svg, "text", { x: at, y: bottom + 16, "text-anchor": "middle" }, numberText(t, across.step));
    }
    add(svg, "text", { x: width - right, y: bottom + 34, "text-anchor": "end" }, "time, s");
    axes.forEach(({ unit, range }, k) => {
        const upward = ticks(...range, plotHeight / 45), isLeft = k === 0;
        for (const v of upward.values) {
            const y = round(places[k](v));
            if (isLeft) add(svg, "line", { x1: left, x2: width - right, y1: y, y2: y, stroke: grey });
            add(svg, "text", { x: isLeft ? left - 6 : width - right + 6, y: y + 4,
                "text-anchor": isLeft ? "end" : "start" }, numberText(v, upward.step));
        }
        const middle = `translate(${isLeft ? 14 : width - 6} ${top + plotHeight / 2}) rotate(-90)`;
        if (unit) add(svg, "text", { transform: middle, "text-anchor": "middle" }, unit);
    });

    for (const span of spans) {
        const begin = Math.max(placeX(span.from), left);
        const end = Math.min(placeX(span.to), width - right), room = end - begin;
        if (room <= 0) continue;
        add(svg, "rect", { x: round(begin), y: top, width: round(room), height: plotHeight,
            "fill-opacity": span.shade });
        if (room > textWidth(span.role) + 8)
            add(svg, "text", { x: round(begin + 4), y: top - 5, fill: faint }, span.role);
        if (span.changes && begin > left)
            add(svg, "line", { x1: round(begin), x2: round(begin), y1: top - line, y2: bottom,
                stroke: faint, "stroke-dasharray": "3 3" });
    }

    // Lines go on to the next row outside: cut them at the edge.
    add(add(svg, "clipPath", { id: "plot" }), "rect",
        { x: left, y: top, width: width - left - right, height: plotHeight });
    const plot = add(svg, "g", { "clip-path": "url(#plot)", fill: "none", "stroke-linejoin": "round" });
    for (const curve of curves) drawCurve(plot, x, curve, rows, placeX, places[curve.axis]);
    curves.forEach((curve, k) => {
        const { text, x: at, y } = legend.places[k];
        drawMark(svg, curve, false, at, y - 4);
        add(svg, "text", { x: round(at + 28), y }, text);
    });
    return { svg, width, height };
}

function drawCurve(plot, x, curve, rows, placeX, placeY) {
    for (const run of lines(x, curve.y, rows, placeX, placeY)) {
        const points = [];
        for (let k = 0; k < run.length; k += 2) points.push(`${round(run[k])},${round(run[k + 1])}`);
        if (points.length > 1) add(plot, "polyline", { points: points.join(" "), ...stroke(curve, false) });
    }
    for (const row of dots(x, curve.y, rows, placeX, placeY, curve.wide ? dotRoom : 0)) {
        add(plot, "circle", { cx: round(placeX(x[row])), cy: round(placeY(curve.y[row])), r: 2,
            fill: shade(curve.color, false) });
    }
}

function stroke({ color, wide, dash }, dark) {
    const how = { stroke: shade(color, dark), "stroke-width": wide ? WIDE : THIN };
    if (wide) how["stroke-opacity"] = 0.4;
    if (dash) how["stroke-dasharray"] = dash.join(" ");
    return how;
}

// Entries one after the other, in as many rows as they need.
function placeLegend(curves, start, end) {
    let x = left, rows = 0;
    const places = curves.map(({ legend }) => {
        const text = fit(legend, end - left - 28), wide = 28 + textWidth(text) + 16;
        if (x > left && x + wide > end + 16) {
            x = left;
            rows++;
        }
        const place = { text, x, y: start + line * rows + 10 };
        x += wide;
        return place;
    });
    return { places, rows };
}

// How a curve looks, for a legend.
function drawMark(parent, curve, dark, x, y) {
    add(parent, "line", { x1: x, x2: x + 22, y1: y, y2: y, ...stroke(curve, dark) });
    if (curve.wide) add(parent, "circle", { cx: x + 11, cy: y, r: 2, fill: shade(curve.color, dark) });
}

// The same for a legend in a page.
export function makeMark(curve) {
    const svg = makeSvg("svg", { class: "curve-mark", viewBox: "0 0 22 8", "aria-hidden": "true" });
    drawMark(svg, curve, isDark(), 0, 4);
    return svg;
}

const measure = document.createElement("canvas").getContext("2d");

function textWidth(text) {
    measure.font = `${size}px ${FAMILY}`;
    return measure.measureText(text).width;
}

// A text that is too long loses its beginning: names differ at their ends.
function fit(text, room) {
    if (textWidth(text) <= room) return text;
    const letters = [...text];
    while (letters.length > 1 && textWidth("\u2026" + letters.join("")) > room) letters.shift();
    return "\u2026" + letters.join("");
}

const round = (length) => Math.round(length * 100) / 100;

function add(parent, name, attributes, text) {
    return parent.appendChild(makeSvg(name, attributes, text));
}
