// Buttons that save a figure as SVG or PNG, and its numbers as CSV.

import { makeSvg } from "./dom.js";
import { makeSaveButtons, saveBlob, saveText, svgText, svgToPng } from "./save.js";

export function startFigures(root) {
    const style = root.getElementById("figure-style");
    const both = style?.textContent ?? "";
    const light = [...style?.sheet?.cssRules ?? []].filter((rule) => !(rule instanceof CSSMediaRule))
        .map(({ cssText }) => cssText).join("\n");
    for (const figure of root.querySelectorAll("figure.figure")) {
        const name = figure.id.replace(/^figure-/, "");
        const svg = figure.querySelector("svg"), numbers = figure.querySelector("pre");
        const actions = {};
        if (svg) {
            actions.SVG = () => saveText(svgText(alone(svg, both)), `${name}.svg`, "image/svg+xml");
            actions.PNG = async () => {
                const { width, height } = svg.viewBox.baseVal;
                saveBlob(await svgToPng(alone(svg, light), width, height), `${name}.png`);
            };
        }
        if (numbers) actions.CSV = () => saveText(numbers.textContent, `${name}.csv`, "text/csv");
        figure.insertBefore(makeSaveButtons(name, actions), figure.querySelector("details"));
    }
}

// A copy that needs no page: it has its style.
function alone(svg, style) {
    const copy = svg.cloneNode(true);
    copy.prepend(makeSvg("style", {}, style));
    return copy;
}
