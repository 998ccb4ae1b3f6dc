// Plots that leave pointer, legend and names to us: uPlot's options.

import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { FAINT, LINE, shade } from "./colors.js";
import { dotRoom, dots, lines, rowsIn } from "./lines.js";

export const FAMILY = "system-ui, sans-serif";
export const THIN = 1.6, WIDE = 4; // of lines

// A curve: { color, wide, dash, scale }. Wide ones are pale, so that others can be seen on them.
function seriesOf({ color, wide, dash, scale = "y" }) {
    // Both scales are linear: two numbers say all, which is quicker than to ask uPlot for each.
    const linear = (u, name) => {
        const { min, max } = u.scales[name], start = u.valToPos(min, name, true);
        const slope = (u.valToPos(max, name, true) - start) / (max - min);
        return (value) => start + (value - min) * slope;
    };
    const view = (u) => ({
        rows: rowsIn(u.data[0], u.scales.x.min, u.scales.x.max),
        placeX: linear(u, "x"),
        placeY: linear(u, scale),
    });
    return {
        scale,
        auto: false,
        stroke: () => shade(color) + (wide ? "66" : ""),
        width: wide ? WIDE : THIN,
        dash: dash?.map((length) => length * uPlot.pxRatio),
        paths(u, k) {
            const { rows, placeX, placeY } = view(u), stroke = new Path2D();
            for (const run of lines(u.data[0], u.data[k], rows, placeX, placeY)) {
                stroke.moveTo(run[0], run[1]);
                for (let i = 2; i < run.length; i += 2) stroke.lineTo(run[i], run[i + 1]);
            }
            return { stroke, fill: null, clip: null, band: null, gaps: null, flags: 0 };
        },
        points: {
            show: false,
            size: 4,
            width: 0,
            fill: () => shade(color),
            filter(u, k) {
                const { rows, placeX, placeY } = view(u);
                return dots(u.data[0], u.data[k], rows, placeX, placeY, wide ? dotRoom * uPlot.pxRatio : 0);
            },
        },
    };
}

// x, and each of ys by the name of its scale: { range(u), ticks(low, high, pixels) -> { values, step },
// text(value, step), label }. The second of ys stands on the right.
export function optionsOf({ width, height, top, x, ys, curves, hooks }) {
    const length = (u, scale) => (scale === "x" ? u.bbox.width : u.bbox.height) / uPlot.pxRatio;
    const axis = (scale, way, more) => ({
        scale,
        stroke: () => shade(FAINT),
        font: `11px ${FAMILY}`,
        labelFont: `11px ${FAMILY}`,
        grid: { stroke: () => shade(LINE), width: 1 },
        ticks: { show: false },
        splits: (u, k, low, high) => {
            const { values, step } = way.ticks(low, high, length(u, scale));
            way.step = step;
            return values;
        },
        values: (u, splits) => splits.map((value) => way.text(value, way.step)),
        incrs: (u, k, low, high) => [Math.max(high - low, 5)], // any that uPlot takes: ours decide
        label: way.label,
        labelSize: 16,
        labelGap: 0,
        gap: 4,
        ...more,
    });
    const side = (scale, k) => axis(scale, ys[scale], {
        // Of the same width in most panels, so that they begin at the same place.
        size: (u, texts) => Math.max(44, 14 + 6 * Math.max(...(texts ?? []).map((text) => text.length), 0)),
        ...(k > 0 && { side: 1, grid: { show: false } }),
    });
    const names = Object.keys(ys);
    return {
        width,
        height,
        padding: [top, names.length > 1 ? 4 : 12, 0, 4],
        legend: { show: false },
        cursor: { show: false },
        select: { show: false, left: 0, top: 0, width: 0, height: 0 },
        scales: { x: { time: false, range: x.range },
            ...Object.fromEntries(names.map((name) => [name, { range: ys[name].range }])) },
        axes: [axis("x", x, { size: 20 }), ...names.map(side)],
        series: [{}, ...curves.map(seriesOf)],
        hooks,
    };
}

export { uPlot };
