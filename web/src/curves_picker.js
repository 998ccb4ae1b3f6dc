// A list of quantities to choose from: type to filter, grouped by the beginning of their names.

import { make, makeButton } from "./dom.js";

// @param chosen  names
// @param most    units that can be chosen from at a time
// @param change(name, on)  called for each choice; the units chosen then
export function makePicker(quantities, chosen, most, change, close) {
    const search = make("input", { className: "curve-search", type: "search",
        placeholder: `type to filter ${quantities.length} quantities`, "aria-label": "filter quantities" });
    const none = make("p", { className: "faint", hidden: true }, "No name has all of that.");
    const full = make("p", { className: "faint", role: "status" });
    const groups = new Map();
    const items = quantities.map(({ name, unit }) => {
        const cut = name.lastIndexOf("/") + 1, title = name.slice(0, cut);
        if (!groups.has(title)) groups.set(title, makeGroup(title));
        const tick = make("input", { type: "checkbox", checked: chosen.includes(name) });
        tick.addEventListener("change", () => showUnits(change(name, tick.checked)));
        const label = make("label", { className: "curve-choice" }, tick, make("bdi", {}, name.slice(cut)),
            make("span", { className: "faint" }, unit ?? ""));
        const group = groups.get(title);
        group.append(label);
        return { label, tick, group, unit: unit ?? "", text: name.toLowerCase() };
    });
    const list = make("div", { className: "curve-list" }, ...groups.values(), none);
    const box = make("div", { className: "curve-picker" },
        make("div", { className: "curve-picker-head" }, search, makeButton("close", close)), full, list);

    // A panel has so many axes, each of one unit.
    const showUnits = (units) => {
        const isFull = units.length >= most;
        full.textContent = isFull ?
            `This panel has its ${most} axes: ${units.map((unit) => unit || "no unit").join(" and ")}. ` +
            "Add a panel for other units." : "";
        full.hidden = !isFull;
        for (const { label, tick, unit } of items) {
            tick.disabled = isFull && !units.includes(unit);
            label.classList.toggle("faint", tick.disabled);
        }
    };
    showUnits([...new Set(items.filter(({ tick }) => tick.checked).map(({ unit }) => unit))]);

    search.addEventListener("input", () => {
        const words = search.value.toLowerCase().split(/\s+/);
        for (const group of groups.values()) group.hidden = true;
        for (const { label, group, text } of items) {
            label.hidden = !words.every((word) => text.includes(word));
            if (!label.hidden) group.hidden = false;
        }
        none.hidden = items.some(({ label }) => !label.hidden);
    });
    search.addEventListener("keydown", (event) => {
        if (event.key === "Enter") items.find(({ label }) => !label.hidden)?.tick.click();
    });
    box.addEventListener("keydown", (event) => {
        event.stopPropagation(); // typing is no command to the player
        if (event.key === "Escape") close();
    });
    return { box, focus: () => search.focus({ preventScroll: true }) };
}

function makeGroup(title) {
    const group = make("div", { className: "curve-group", role: "group" });
    if (title) {
        group.setAttribute("aria-label", title);
        group.append(make("bdi", { className: "curve-group-title faint" }, title));
    }
    return group;
}
