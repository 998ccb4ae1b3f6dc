// Elements whose texts are texts, never HTML.

export function element(tag, name = "", text = "") {
    const made = document.createElement(tag);
    made.className = name;
    made.textContent = text;
    return made;
}

export function button(text, action) {
    const made = element("button", "", text);
    made.type = "button";
    made.addEventListener("click", action);
    return made;
}

// Writing the same text again would make the browser lay out the page again.
export function setText(where, text) {
    if (where.textContent !== text) where.textContent = text;
}
