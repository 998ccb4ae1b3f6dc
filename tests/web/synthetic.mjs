// Pages of motions that no program would make in a moment: a page that the program wrote, with other data.

import { readFileSync, writeFileSync } from "node:fs";
import { deflateSync } from "node:zlib";

// A column as web/README.md says, of order 0.
function pack(values) {
    const finite = values.filter(Number.isFinite);
    const offset = finite.length > 0 ? Math.min(...finite) : 0, height = Math.max(...finite, offset) - offset;
    const step = height > 0 ? height / 0xfffffff0 : 1;
    const numbers = values.map((v) => (Number.isFinite(v) ? 1 + Math.round((v - offset) / step) : 0));
    return { offset, step, rows: values.length, numbers };
}

// The differences of order 0, as zigzag numbers in four planes.
function toBytes(columns) {
    const all = columns.flatMap(({ numbers }) => numbers), bytes = Buffer.alloc(4 * all.length);
    all.forEach((u, k) => {
        const d = u | 0, zigzag = ((d << 1) ^ (d >> 31)) >>> 0;
        for (let plane = 0; plane < 4; plane++) bytes[k + plane * all.length] = (zigzag >>> (8 * plane)) & 255;
    });
    return bytes;
}

// Episodes whose columns are lists of numbers where the page has their places.
// @param episodes  [{ name, time, tracks: [{ name, role, poses: [7 lists for each link] or null,
//                  contacts: [{ name, columns: 6 lists }] }],
//                  quantities: [{ name, unit, columns: a list or null for each track }], spans, note }]
export function writePage(template, path, scene, episodes) {
    const columns = [];
    const put = (...lists) => {
        const first = columns.length;
        columns.push(...lists.map(pack));
        return first;
    };
    const placed = episodes.map(({ time, tracks, quantities = [], ...rest }) => ({
        name: "episode",
        spans: [],
        note: null,
        ...rest,
        time: put(time),
        tracks: tracks.map(({ poses, contacts = [], ...track }) => ({
            ...track,
            poses: poses ? put(...poses) : null,
            contacts: contacts.map((contact) => ({ name: contact.name, first: put(...contact.columns) })),
        })),
        quantities: quantities.map((quantity) => ({
            ...quantity,
            columns: quantity.columns.map((list) => (list ? put(list) : null)),
        })),
    }));
    const data = { version: 1, scene, episodes: placed, columns: {
        rows: columns.map(({ rows }) => rows),
        orders: columns.map(() => 0),
        offsets: columns.map(({ offset }) => offset),
        steps: columns.map(({ step }) => step),
    } };
    const replace = (text, id, content) => {
        const begin = text.indexOf(">", text.indexOf(`id="${id}"`)) + 1;
        return text.slice(0, begin) + content + text.slice(text.indexOf("</script>", begin));
    };
    let text = readFileSync(template, "utf8");
    text = replace(text, "viewer-data", JSON.stringify(data).replaceAll("<", "\\u003c"));
    text = replace(text, "viewer-bytes", deflateSync(toBytes(columns)).toString("base64"));
    writeFileSync(path, text);
}

// ---- parts -------------------------------------------------------------------------------------

export const times = (count, first = 0, step = 0.01) => Array.from({ length: count }, (_, k) => first + k * step);

// Columns of a body that goes from a place along a line and turns about z by quaternions that change sign.
export function bodyPoses(time, place = [0, 0, 0], velocity = [0, 0, 0], rate = 1) {
    const angle = (t) => rate * (t - time[0]) / 2, sign = (k) => (k % 2 === 0 ? 1 : -1);
    return [
        ...[0, 1, 2].map((c) => time.map((t) => place[c] + velocity[c] * (t - time[0]))),
        time.map((t, k) => sign(k) * Math.cos(angle(t))), time.map(() => 0), time.map(() => 0),
        time.map((t, k) => sign(k) * Math.sin(angle(t))),
    ];
}

export const box = (link, half, more = {}) => ({ name: `geom${link}`, link, type: "box",
    size: [half, half / 2, half / 4], pose: [0, 0, 0, 1, 0, 0, 0], color: [0.5, 0.5, 0.5, 1], ...more });
export const freeLink = (name, parent = -1) =>
    ({ name, parent, joint: { name: `${name}_joint`, type: "floating", axis: [0, 0, 1] } });
