// Faces of buttons.

import { makeSvg } from "./dom.js";

const ICONS = {
    play: { path: "M7 4l13 8-13 8z", full: true },
    pause: { path: "M6 5h3v14H6zM15 5h3v14h-3z", full: true },
    back: { path: "M6 5v14M19 6v12l-9-6z", full: true },
    forward: { path: "M18 5v14M5 6v12l9-6z", full: true },
    loop: { path: "M4 12a8 8 0 0 1 14-5l2 2M20 4v5h-5M20 12a8 8 0 0 1-14 5l-2-2M4 20v-5h5" },
    picture: { path: "M3 7h5l2-3h4l2 3h5v13H3zM12 17a4 4 0 1 0 0-8a4 4 0 0 0 0 8" },
    fullscreen: { path: "M4 9V4h5M15 4h5v5M20 15v5h-5M9 20H4v-5" },
};

export function makeIcon(name) {
    const { path, full } = ICONS[name];
    const icon = makeSvg("svg", { viewBox: "0 0 24 24", class: full ? "icon full" : "icon", "aria-hidden": "true" });
    icon.append(makeSvg("path", { d: path }));
    return icon;
}
