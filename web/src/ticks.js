// Round numbers along an axis, and numbers as texts.

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

// A number to the precision of a step. A power of ten stands where it spares digits: 2e6, but 1000000.5.
export function numberText(value, step) {
    if (!Number.isFinite(value)) return "\u2013";
    const size = Math.abs(value);
    if (size < step / 2) return "0";
    const digits = Math.max(0, Math.floor(Math.log10(size)) - Math.floor(Math.log10(step) + 1e-9));
    if (step >= 1e-5 && size < (digits > 4 ? 1e9 : 1e5)) return value.toFixed(decimals(step));
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
