// Buttons that save a figure as SVG or PNG, and its numbers as CSV.

import "./figures.css";
import { saveBlob, saveButtons, saveText, svgText, svgToPng } from "./save.js";

const svgSpace = "http://www.w3.org/2000/svg";

export function startFigures(root) {
    const style = root.getElementById("figure-style")?.textContent ?? "";
    for (const figure of root.querySelectorAll("figure.figure")) {
        const name = figure.id.replace(/^figure-/, "");
        const svg = figure.querySelector("svg"), numbers = figure.querySelector("pre");
        const actions = {};
        if (svg) {
            actions.SVG = () => saveText(svgText(alone(svg, style)), `${name}.svg`, "image/svg+xml");
            actions.PNG = async () => {
                const { width, height } = svg.viewBox.baseVal;
                saveBlob(await svgToPng(alone(svg, style), width, height), `${name}.png`);
            };
        }
        if (numbers) actions.CSV = () => saveText(numbers.textContent, `${name}.csv`, "text/csv");
        const row = saveButtons(name, actions);
        row.classList.add("figure-save");
        figure.insertBefore(row, figure.querySelector("details"));
    }
}

// A copy that needs no page: with a size and with its style.
function alone(svg, style) {
    const copy = svg.cloneNode(true);
    const { width, height } = svg.viewBox.baseVal;
    copy.setAttribute("width", width);
    copy.setAttribute("height", height);
    // The page's own rules fit a picture to the width of the text.
    copy.setAttribute("style", `width: ${width}px; height: ${height}px; max-width: none; margin: 0`);
    const element = document.createElementNS(svgSpace, "style");
    element.textContent = plain(style);
    copy.prepend(element);
    return copy;
}

// Most programs that draw SVG know no variables of CSS: put their light values, which stand first.
function plain(style) {
    const values = new Map();
    for (const [, name, value] of style.matchAll(/(--[\w-]+)\s*:\s*([^;}]+)/g)) {
        if (!values.has(name)) values.set(name, value.trim());
    }
    return style.replace(/var\((--[\w-]+)\)/g, (whole, name) => values.get(name) ?? whole);
}
