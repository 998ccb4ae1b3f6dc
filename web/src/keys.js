// What keys do to a motion, and the list of them for people.

import { make, makeButton } from "./dom.js";

const TURN = 0.1; // rad

// act(player, key, shift)
const KEYS = [
    { shown: "space", what: "play or pause", keys: [" "], act: (player) => player.togglePlay() },
    { shown: "\u2190 \u2192", what: "one row; with shift, ten", keys: ["ArrowLeft", "ArrowRight"],
        act: (player, key, shift) => player.step((key === "ArrowLeft" ? -1 : 1) * (shift ? 10 : 1)) },
    { shown: "home, end", what: "first, last row", keys: ["Home", "End"],
        act: ({ timeline }, key) => timeline.set(key === "Home" ? timeline.first : timeline.last) },
    { shown: "+ \u2212", what: "faster, slower", keys: ["+", "=", "-"],
        act: (player, key) => player.changeSpeed(key === "-" ? -1 : 1) },
    { shown: "[ ]", what: "play from here on, up to here", keys: ["[", "]"],
        act: ({ timeline }, key) => {
            const { time, from, to, first, last } = timeline;
            if (key === "[" && time < last) timeline.setRange(time, to > time ? to : last);
            if (key === "]" && time > first) timeline.setRange(from < time ? from : first, time);
        } },
    { shown: "w", what: "play the whole time", keys: ["w"], act: ({ timeline }) => timeline.setRange() },
    { shown: "i j k l", what: "turn the view", keys: ["i", "j", "k", "l"],
        act: ({ scene }, key) => {
            const [right, up] = { i: [0, 1], j: [-1, 0], k: [0, -1], l: [1, 0] }[key];
            scene?.turnView(TURN * right, TURN * up);
        } },
    { shown: "f", what: "follow the robot", keys: ["f"], act: (player) => player.toggleFollow() },
    { shown: "r", what: "reset the view", keys: ["r"], act: ({ scene }) => scene?.resetView() },
    { shown: "c", what: "contacts and forces", keys: ["c"], act: (player) => player.toggleShown("contacts") },
    { shown: "a", what: "axes of joints", keys: ["a"], act: (player) => player.toggleShown("axes") },
    { shown: "n", what: "names and frames of links", keys: ["n"], act: (player) => player.toggleShown("names") },
    { shown: "1 to 9", what: "show or hide a track", keys: [..."123456789"],
        act: (player, key) => player.toggleTrack(Number(key) - 1) },
    { shown: "?", what: "this list", keys: ["?"], act: (player) => player.showKeys() },
];

// Keys work where nothing else takes them: in the viewer, or, with the focus nowhere, while the player is in
// sight.
export function listenToKeys(player) {
    document.addEventListener("keydown", (event) => {
        const { target, key: pressed } = event;
        if (!(target instanceof Element)) return;
        if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || player.dialog.open) return;
        const takesText = target.closest("input:not([type=checkbox]), select, textarea, [contenteditable]");
        if (takesText && target !== player.slider) return;
        // Space presses what can be pressed.
        if (pressed === " " && target.closest("button, a, summary, input[type=checkbox]")) return;
        const box = player.element.getBoundingClientRect();
        const inSight = box.bottom > 0 && box.top < window.innerHeight;
        if (!target.closest("#viewer") && !(target === document.body && inSight)) return;
        const key = pressed.length === 1 ? pressed.toLowerCase() : pressed;
        const found = KEYS.find(({ keys }) => keys.includes(key));
        if (!found) return;
        event.preventDefault();
        found.act(player, key, event.shiftKey);
    });
}

export function makeKeyList() {
    const list = make("dl", {}, ...KEYS.flatMap(({ shown, what }) => [make("dt", {}, shown), make("dd", {}, what)]));
    const dialog = make("dialog", { className: "keys", "aria-label": "Keys" }, make("h2", {}, "Keys"), list);
    dialog.append(makeButton("close", () => dialog.close()));
    return dialog;
}
