// The data of a page, as README.md says.

const DAMAGED = "the data of this page is damaged";

// { scene, episodes, columns }: columns are Float64Arrays, NaN where a number is missing. Null when the
// page has no viewer.
export async function readPayload(root = document) {
    const text = root.getElementById("viewer-data");
    if (!text) return null;
    const data = JSON.parse(text.textContent);
    if (data.version !== 1) throw new Error(`this page has data of version ${data.version}`);
    const bytes = await inflate(fromBase64(root.getElementById("viewer-bytes").textContent.trim()));
    return { scene: data.scene, episodes: data.episodes, columns: unpack(bytes, data.columns) };
}

function fromBase64(text) {
    const binary = atob(text);
    const bytes = new Uint8Array(binary.length);
    for (let k = 0; k < binary.length; k++) bytes[k] = binary.charCodeAt(k);
    return bytes;
}

async function inflate(bytes) {
    if (!window.DecompressionStream) {
        throw new Error("this browser cannot unpack it; Chrome 111, Firefox 121, Safari 16.4 and later ones can");
    }
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    try {
        return new Uint8Array(await new Response(stream).arrayBuffer());
    } catch {
        throw new Error(DAMAGED); // the browser's own words are of a network
    }
}

function unpack(bytes, { rows, orders, offsets, steps }) {
    const total = rows.reduce((sum, n) => sum + n, 0);
    if (bytes.length !== 4 * total) throw new Error(DAMAGED);
    let at = 0;
    return rows.map((count, c) => {
        const values = new Float64Array(count);
        const sums = new Int32Array(orders[c] + 1); // the difference, its sum, the sum of these; last u
        for (let k = 0; k < count; k++, at++) {
            const zigzag = bytes[at] | (bytes[at + total] << 8) | (bytes[at + 2 * total] << 16) |
                (bytes[at + 3 * total] << 24);
            sums[0] = (zigzag >>> 1) ^ -(zigzag & 1);
            for (let i = 1; i < sums.length; i++) sums[i] += sums[i - 1]; // wraps around
            const u = sums[sums.length - 1] >>> 0;
            values[k] = u === 0 ? NaN : offsets[c] + steps[c] * (u - 1);
        }
        return values;
    });
}
