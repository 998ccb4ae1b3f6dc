// Files that a page gives: pictures and tables.

import "./save.css";
import { make, makeButton } from "./dom.js";

const pngScale = 2; // dots for each unit of the picture

export function saveBlob(blob, name) {
    const link = make("a", { href: URL.createObjectURL(blob), download: name });
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
        const canvas = make("canvas", { width: Math.round(width * pngScale), height: Math.round(height * pngScale) });
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

// A button that says when it could not save.
export function makeSaveButton(face, name, action) {
    const button = makeButton(face, async () => {
        try {
            await action();
        } catch (error) {
            button.textContent = "failed";
            console.error(error);
        }
    }, name);
    return button;
}

// A row of them: actions by kind of file, { SVG() {...} }.
export function makeSaveButtons(what, actions) {
    return make("span", { className: "save" }, ...Object.entries(actions).map(([kind, action]) =>
        makeSaveButton(kind, `save ${what} as ${kind}`, action)));
}
