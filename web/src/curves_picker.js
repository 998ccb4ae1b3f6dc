// A list of quantities to choose from: type to filter, grouped by the beginning of their names.

import { button, element } from "./dom.js";

// chosen: a Set of names; change(name, on) is called for each choice.
export function makePicker(quantities, chosen, change, close) {
    const box = element("div", "curve-picker");
    const search = element("input", "curve-search");
    search.type = "search";
    search.placeholder = `type to filter ${quantities.length} quantities`;
    search.setAttribute("aria-label", "filter quantities");
    const list = element("div", "curve-list"), none = element("p", "faint", "No name has all of that.");
    none.hidden = true;
    const head = element("div", "curve-picker-head");
    head.append(search, button("close", close));
    box.append(head, list);

    const groups = new Map();
    const items = quantities.map(({ name, unit }) => {
        const cut = name.lastIndexOf("/") + 1, title = name.slice(0, cut);
        if (!groups.has(title)) groups.set(title, makeGroup(title));
        const group = groups.get(title);
        const label = element("label", "curve-choice"), tick = element("input");
        tick.type = "checkbox";
        tick.checked = chosen.has(name);
        tick.addEventListener("change", () => change(name, tick.checked));
        label.append(tick, element("bdi", "", name.slice(cut)), element("span", "faint", unit ?? ""));
        group.append(label);
        return { label, tick, group, text: name.toLowerCase() };
    });
    list.append(...groups.values(), none);

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
    const group = element("div", "curve-group");
    group.setAttribute("role", "group");
    if (title) {
        group.setAttribute("aria-label", title);
        group.append(element("bdi", "curve-group-title faint", title));
    }
    return group;
}
