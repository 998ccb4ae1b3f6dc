// What all curves share: colours, ticks, lines thinned to what a screen can show, and uPlot's options.

import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

export const family = "system-ui, sans-serif";

// Okabe and Ito, lighter on dark paper; the first two are the page's --blue and --red.
export const palettes = {
    light: { ink: "#222222", faint: "#666666", line: "#dddddd",
        series: ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#777777"] },
    dark: { ink: "#e8e8e8", faint: "#a8a8a8", line: "#3a3e46",
        series: ["#56b4e9", "#ff9a52", "#2cc295", "#e39ac4", "#f0e442", "#8fa8ff", "#bbbbbb"] },
};
const dark = matchMedia("(prefers-color-scheme: dark)");

export const palette = () => (dark.matches ? palettes.dark : palettes.light);
export const onPalette = (listener) => dark.addEventListener("change", listener);

// A colour is "ink" or the number of a series.
export const colourOf = (colour, from = palette()) =>
    colour === "ink" ? from.ink : from.series[colour % from.series.length];

// ---- ticks -----------------------------------------------------------------------------------

// About so many round numbers in a range.
export function ticks(low, high, count) {
    const rough = (high - low) / Math.max(count, 1), power = 10 ** Math.floor(Math.log10(rough));
    // The limits lie half way between the steps, on a logarithmic scale.
    const share = rough / power;
    const step = power * (share < 1.4 ? 1 : share < 3.2 ? 2 : share < 7.1 ? 5 : 10);
    const values = [];
    for (let k = Math.ceil(low / step - 1e-9); k <= high / step + 1e-9; k++) values.push(k * step);
    return { values, step };
}

// Digits after the point that tell numbers a step apart.
const decimals = (step) => Math.max(0, -Math.floor(Math.log10(step) + 1e-9));

// A number to the precision of a step.
export function numberText(value, step) {
    if (!Number.isFinite(value)) return "\u2013";
    const size = Math.abs(value);
    if (size < 1e5 && step >= 1e-5) return value.toFixed(decimals(step)).replace(/^-(0(\.0*)?)$/, "$1");
    if (size < step / 2) return "0";
    const digits = Math.max(0, Math.floor(Math.log10(size)) - Math.floor(Math.log10(step) + 1e-9));
    return value.toExponential(Math.min(digits, 15)).replace("e+", "e");
}

// Decimal logarithms of 1, 2, 5 and 10, or of powers of ten where there are many.
export function logTicks(low, high) {
    const span = high - low, step = Math.max(1, Math.ceil(span / 6)), values = [];
    for (let decade = Math.floor(low); decade <= high; decade++) {
        for (const digit of span < 1.5 ? [1, 2, 5] : [1]) {
            const tick = decade + Math.log10(digit);
            const wanted = span < 1.5 || decade % step === 0;
            if (wanted && tick >= low && tick <= high) values.push(tick);
        }
    }
    return { values, step };
}

// ---- lines -----------------------------------------------------------------------------------

// The rows whose lines touch a range of x: one more on each side.
export function rowsIn(x, from, to) {
    const below = (limit, equal) => {
        let low = 0, high = x.length;
        while (low < high) {
            const middle = (low + high) >> 1;
            if (x[middle] < limit || (equal && x[middle] === limit)) low = middle + 1;
            else high = middle;
        }
        return low;
    };
    const first = Math.max(below(from, false) - 1, 0);
    return { first, last: Math.min(below(to, true), x.length - 1) };
}

// Lines through the finite numbers, as runs of [x, y, x, y, ...] in a picture, broken where numbers
// are missing. Of each column of dots only the first, lowest, highest and last number is kept.
export function lines(x, y, { first, last }, placeX, placeY) {
    const runs = [];
    let run = null, column = NaN, from = 0, lowest = 0, highest = 0;
    const flush = (until) => {
        const rows = [from, Math.min(lowest, highest), Math.max(lowest, highest), until];
        rows.forEach((row, k) => {
            if (k === 0 || row > rows[k - 1]) run.push(placeX(x[row]), placeY(y[row]));
        });
    };
    for (let row = first; row <= last; row++) {
        if (!Number.isFinite(y[row])) {
            if (run) flush(row - 1);
            run = null;
            continue;
        }
        const here = Math.floor(placeX(x[row]));
        if (!run) runs.push((run = []));
        else if (here === column) {
            if (y[row] < y[lowest]) lowest = row;
            if (y[row] > y[highest]) highest = row;
            continue;
        } else flush(row - 1);
        column = here;
        from = lowest = highest = row;
    }
    if (run) flush(last);
    return runs;
}

export const dotRoom = 7; // from dot to dot, in CSS pixels

// The rows to mark by dots: all when each has that much room (0: never), otherwise those between gaps,
// of which no line would tell.
export function dots(x, y, { first, last }, placeX, placeY, room) {
    const all = [], alone = [];
    let lastX = NaN, lastY = NaN;
    for (let row = first; row <= last; row++) {
        if (!Number.isFinite(y[row])) continue;
        all.push(row);
        if (Number.isFinite(y[row - 1]) || Number.isFinite(y[row + 1])) continue;
        const dotX = Math.round(placeX(x[row])), dotY = Math.round(placeY(y[row]));
        if (dotX !== lastX || dotY !== lastY) alone.push(row);
        lastX = dotX;
        lastY = dotY;
    }
    const fit = room > 0 && all.length * room <= placeX(x[last]) - placeX(x[first]);
    return fit ? all : alone;
}

// The range of the finite numbers, a little wider.
export function rangeOf(columns, { first, last }) {
    let low = Infinity, high = -Infinity;
    for (const y of columns) {
        for (let row = first; row <= last; row++) {
            if (y[row] < low && y[row] > -Infinity) low = y[row];
            if (y[row] > high && y[row] < Infinity) high = y[row];
        }
    }
    if (low > high) return [-1, 1];
    const size = Math.max(Math.abs(low), Math.abs(high));
    // Rounding is not motion: a constant is drawn as one.
    const room = high - low > 1e-12 * size ? 0.06 * (high - low) : 0.1 * size || 1;
    return [low - room, high + room];
}

// ---- uPlot -----------------------------------------------------------------------------------

// A curve: { colour, wide, dash, dots }. Wide ones are pale, so that others can be seen on them.
export function seriesOf(curve) {
    const paint = () => colourOf(curve.colour) + (curve.wide ? "66" : "");
    // Both scales are linear: two numbers say all, which is quicker than to ask uPlot for each.
    const linear = (u, scale) => {
        const { min, max } = u.scales[scale], start = u.valToPos(min, scale, true);
        const slope = (u.valToPos(max, scale, true) - start) / (max - min);
        return (value) => start + (value - min) * slope;
    };
    const view = (u) => ({
        rows: rowsIn(u.data[0], u.scales.x.min, u.scales.x.max),
        placeX: linear(u, "x"),
        placeY: linear(u, "y"),
    });
    return {
        auto: false,
        stroke: paint,
        width: curve.wide ? 4 : 1.6,
        dash: curve.dash?.map((length) => length * uPlot.pxRatio),
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
            fill: () => colourOf(curve.colour),
            filter(u, k) {
                const { rows, placeX, placeY } = view(u);
                const room = curve.wide ? dotRoom * uPlot.pxRatio : 0;
                return dots(u.data[0], u.data[k], rows, placeX, placeY, room);
            },
        },
    };
}

// Options of a plot that leaves pointer, legend and names to us.
// x and y: { range(u), ticks(low, high, pixels) -> { values, step }, text(value, step), label }.
export function optionsOf({ width, height, top, x, y, curves, hooks }) {
    const length = (u, scale) => (scale === "x" ? u.bbox.width : u.bbox.height) / uPlot.pxRatio;
    const axis = (scale, way, size) => ({
        scale,
        size,
        stroke: () => palette().faint,
        font: `11px ${family}`,
        labelFont: `11px ${family}`,
        grid: { stroke: () => palette().line, width: 1 },
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
    });
    return {
        width,
        height,
        padding: [top, 12, 0, 4],
        legend: { show: false },
        cursor: { show: false },
        select: { show: false, left: 0, top: 0, width: 0, height: 0 },
        scales: { x: { time: false, range: x.range }, y: { range: y.range } },
        axes: [axis("x", x, 20), axis("y", y, 44)],
        series: [{}, ...curves.map(seriesOf)],
        hooks,
    };
}

export { uPlot };
