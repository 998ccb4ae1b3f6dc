// A panel of curves as a picture that stands alone, on light paper.

import { colourOf, dotRoom, dots, family, lines, numberText, palette, palettes, rangeOf, rowsIn,
    ticks } from "./plot.js";

const space = "http://www.w3.org/2000/svg";
const colours = palettes.light;
const width = 720, left = 64, right = 14, plotHeight = 260, line = 16, size = 12;

// title may be empty: { title, unit, from, to, spans, x, curves: [{ legend, y, colour, wide, dash }] }
export function drawSvg({ title, unit, from, to, spans, x, curves }) {
    const start = title ? 30 : 8, legend = placeLegend(curves, start);
    const top = start + line * (legend.rows + 1) + (spans.length > 0 ? line : 0);
    const height = top + plotHeight + 40, bottom = top + plotHeight;
    const rows = rowsIn(x, from, to);
    const [low, high] = rangeOf(curves.map(({ y }) => y), rows);
    const placeX = (t) => left + ((t - from) / (to - from)) * (width - left - right);
    const placeY = (v) => bottom - ((v - low) / (high - low)) * plotHeight;

    const svg = make("svg", { width, height, viewBox: `0 0 ${width} ${height}`,
        "font-family": family, "font-size": size, fill: colours.ink });
    if (title) add(svg, "text", { x: left, y: 20 }, fit(title, width - left - right));

    const across = ticks(from, to, (width - left - right) / 90);
    for (const t of across.values) {
        const x = round(placeX(t));
        add(svg, "line", { x1: x, x2: x, y1: top, y2: bottom, stroke: colours.line });
        add(svg, "text", { x, y: bottom + 16, "text-anchor": "middle" }, numberText(t, across.step));
    }
    const upward = ticks(low, high, plotHeight / 45);
    for (const v of upward.values) {
        const y = round(placeY(v));
        add(svg, "line", { x1: left, x2: width - right, y1: y, y2: y, stroke: colours.line });
        add(svg, "text", { x: left - 6, y: y + 4, "text-anchor": "end" }, numberText(v, upward.step));
    }

    for (const span of spans) {
        const begin = Math.max(placeX(span.from), left);
        const end = Math.min(placeX(span.to), width - right), room = end - begin;
        if (room <= 0) continue;
        add(svg, "rect", { x: round(begin), y: top, width: round(room), height: plotHeight,
            "fill-opacity": span.shade });
        if (room > textWidth(span.role) + 8)
            add(svg, "text", { x: round(begin + 4), y: top - 5, fill: colours.faint }, span.role);
        if (span.changes && begin > left)
            add(svg, "line", { x1: round(begin), x2: round(begin), y1: top - line, y2: bottom,
                stroke: colours.faint, "stroke-dasharray": "3 3" });
    }

    add(svg, "text", { x: width - right, y: bottom + 34, "text-anchor": "end" }, "time, s");
    if (unit) add(svg, "text", { transform: `translate(14 ${top + plotHeight / 2}) rotate(-90)`,
        "text-anchor": "middle" }, unit);

    // Lines go on to the next row outside: cut them at the edge.
    add(add(svg, "clipPath", { id: "plot" }), "rect",
        { x: left, y: top, width: width - left - right, height: plotHeight });
    const plot = add(svg, "g", { "clip-path": "url(#plot)", fill: "none", "stroke-linejoin": "round" });
    for (const curve of curves) drawCurve(plot, x, curve, rows, placeX, placeY);
    curves.forEach((curve, k) => drawEntry(svg, curve, legend.places[k]));
    return { svg, width, height };
}

function drawCurve(plot, x, curve, rows, placeX, placeY) {
    for (const run of lines(x, curve.y, rows, placeX, placeY)) {
        const points = [];
        for (let k = 0; k < run.length; k += 2) points.push(`${round(run[k])},${round(run[k + 1])}`);
        if (points.length > 1) add(plot, "polyline", { points: points.join(" "), ...stroke(curve) });
    }
    for (const row of dots(x, curve.y, rows, placeX, placeY, curve.wide ? dotRoom : 0)) {
        add(plot, "circle", { cx: round(placeX(x[row])), cy: round(placeY(curve.y[row])), r: 2,
            fill: colourOf(curve.colour, colours) });
    }
}

function stroke(curve, from = colours) {
    const how = { stroke: colourOf(curve.colour, from), "stroke-width": curve.wide ? 4 : 1.6 };
    if (curve.wide) how["stroke-opacity"] = 0.4;
    if (curve.dash) how["stroke-dasharray"] = curve.dash.join(" ");
    return how;
}

// Entries one after the other, in as many rows as they need.
function placeLegend(curves, start) {
    let x = left, rows = 0;
    const places = curves.map(({ legend }) => {
        const text = fit(legend, width - left - right - 28), wide = 28 + textWidth(text) + 16;
        if (x > left && x + wide > width) {
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
function drawMark(parent, curve, from, x, y) {
    add(parent, "line", { x1: x, x2: x + 22, y1: y, y2: y, ...stroke(curve, from) });
    if (curve.wide) {
        add(parent, "circle", { cx: x + 11, cy: y, r: 2, fill: colourOf(curve.colour, from) });
    }
}

// The same for a legend in a page.
export function makeMark(curve) {
    const svg = make("svg", { class: "curve-mark", viewBox: "0 0 22 8", "aria-hidden": "true" });
    drawMark(svg, curve, palette(), 0, 4);
    return svg;
}

function drawEntry(svg, curve, { text, x, y }) {
    drawMark(svg, curve, colours, x, y - 4);
    add(svg, "text", { x: round(x + 28), y }, text);
}

const measure = document.createElement("canvas").getContext("2d");

function textWidth(text) {
    measure.font = `${size}px ${family}`;
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

function make(name, attributes, text) {
    const element = document.createElementNS(space, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    return element;
}

function add(parent, name, attributes, text) {
    return parent.appendChild(make(name, attributes, text));
}
