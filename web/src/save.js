// Files that a page gives: pictures and tables.

import "./save.css";
import { button, element } from "./dom.js";

const pngScale = 2; // dots for each unit of the picture

export function saveBlob(blob, name) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000); // a browser may ask where to first
}

export function saveText(text, name, type) {
    saveBlob(new Blob([text], { type: `${type};charset=utf-8` }), name);
}

// Any text as the name of a file, without its ending.
export function fileName(text) {
    const name = text.replace(/[^\p{L}\p{N}._]+/gu, "-").slice(0, 80).replace(/^[-.]+|[-.]+$/g, "");
    return name || "picture";
}

// An svg element as the text of a file. Letters that XML does not allow become U+FFFD.
export function svgText(svg) {
    const text = new XMLSerializer().serializeToString(svg);
    return text.replace(/[^\t\n\r\x20-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, "\ufffd");
}

// The picture on white paper.
export async function svgToPng(svg, width, height) {
    const address = URL.createObjectURL(new Blob([svgText(svg)], { type: "image/svg+xml" }));
    try {
        const image = new Image();
        image.src = address;
        await image.decode();
        const canvas = document.createElement("canvas");
        canvas.width = Math.round(width * pngScale);
        canvas.height = Math.round(height * pngScale);
        const context = canvas.getContext("2d");
        context.fillStyle = "#fff";
        context.fillRect(0, 0, canvas.width, canvas.height);
        context.drawImage(image, 0, 0, canvas.width, canvas.height);
        return await new Promise((resolve, reject) =>
            canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("no PNG"))), "image/png"));
    } finally {
        URL.revokeObjectURL(address);
    }
}

// A table as RFC 4180 says; numbers with all their digits, missing ones empty.
export function csvText(names, columns) {
    const cell = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    const lines = [names.map(cell).join(",")];
    for (let row = 0; row < columns[0].length; row++) {
        lines.push(columns.map((c) => (Number.isFinite(c[row]) ? String(c[row]) : "")).join(","));
    }
    return lines.join("\r\n") + "\r\n";
}

// A row of buttons: actions by kind of file, { SVG() {...} }.
export function saveButtons(what, actions) {
    const row = element("span", "save");
    for (const [kind, action] of Object.entries(actions)) {
        const made = button(kind, async () => {
            try {
                await action();
            } catch (error) {
                made.textContent = `${kind} failed`;
                console.error(error);
            }
        });
        made.title = `save ${what} as ${kind}`;
        made.setAttribute("aria-label", made.title);
        row.append(made);
    }
    return row;
}
