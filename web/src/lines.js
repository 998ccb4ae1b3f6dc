// Curves as lines: thinned to what a screen can show, with dots where lines would not tell, and the range to
// show of them.

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

const FAR = 1e5; // dots: what leaves the picture need not go further

// Lines through the finite numbers, as runs of [x, y, x, y, ...] in a picture, broken where numbers
// are missing. Of each column of dots only the first, lowest, highest and last number is kept.
export function lines(x, y, { first, last }, placeX, place) {
    const runs = [];
    const placeY = (value) => Math.min(Math.max(place(value), -FAR), FAR);
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

// ---- range -----------------------------------------------------------------------------------

// How far curves may go beyond what is recorded (else beyond the curve in the middle), in heights of it; what
// goes further leaves the picture, so that a motion that diverged does not flatten all others.
const BEFORE = 1, OTHERS = 10;

// The range to show of curves, { y, role, quantity }, a little wider than they are.
export function rangeOf(curves, rows) {
    const all = curves.map((curve) => ({ ...curve, ...limitsOf(curve.y, rows) }))
        .filter(({ low, high }) => low <= high);
    const names = [...new Set(all.map(({ quantity }) => quantity))];
    const { low, high } = join(names.map((name) => boundsOf(all.filter(({ quantity }) => quantity === name))));
    if (low > high) return [-1, 1];
    const size = Math.max(Math.abs(low), Math.abs(high));
    // Rounding is not motion: a constant is drawn as one.
    const room = high - low > 1e-12 * size ? 0.06 * (high - low) : 0.1 * size || 1;
    return [low - room, high + room];
}

// Of one quantity in all its tracks.
function boundsOf(curves) {
    const firm = firmOf(curves);
    if (!firm) return join(curves);
    const height = firm.high - firm.low;
    return join([firm, ...curves.map(({ role, low, high }) => {
        if (role === "recorded") return { low, high };
        const reach = height * (role === "before" ? BEFORE : OTHERS);
        const limit = (value) => Math.min(Math.max(value, firm.low - reach), firm.high + reach);
        return { low: limit(low), high: limit(high) };
    })]);
}

// What others are compared with; null when nothing moves.
function firmOf(curves) {
    const moving = curves.filter(({ low, high }) => high > low);
    const recorded = moving.filter(({ role }) => role === "recorded");
    if (recorded.length > 0) return join(recorded);
    const found = moving.filter(({ role }) => role !== "before").sort((a, b) => a.high - a.low - (b.high - b.low));
    return found[(found.length - 1) >> 1] ?? null;
}

function join(limits) {
    return { low: Math.min(...limits.map(({ low }) => low)), high: Math.max(...limits.map(({ high }) => high)) };
}

function limitsOf(y, { first, last }) {
    let low = Infinity, high = -Infinity;
    for (let row = first; row <= last; row++) {
        if (y[row] < low && y[row] > -Infinity) low = y[row];
        if (y[row] > high && y[row] < Infinity) high = y[row];
    }
    return { low, high };
}
