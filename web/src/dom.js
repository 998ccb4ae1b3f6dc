// Elements whose texts are texts, never HTML.

const SVG = "http://www.w3.org/2000/svg";

// @param options  properties of the element; what has a dash in its name, and "role", are attributes
export function make(tag, options = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(options)) {
        if (name === "role" || name.includes("-")) element.setAttribute(name, value);
        else element[name] = value;
    }
    element.append(...children);
    return element;
}

export function makeSvg(tag, attributes = {}, text = "") {
    const element = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.textContent = text;
    return element;
}

// @param name  of what it does, when its face does not say so
export function makeButton(face, action, name = "") {
    const button = make("button", { type: "button" }, face);
    if (name) setName(button, name);
    button.addEventListener("click", action);
    return button;
}

export function setName(button, name) {
    button.title = name;
    button.setAttribute("aria-label", name);
}

export function setPressed(button, pressed) {
    button.setAttribute("aria-pressed", String(pressed));
}

// Writing the same text again would make the browser lay out the page again.
export function setText(where, text) {
    if (where.textContent !== text) where.textContent = text;
}
