// The colours of tracks: what a track is decides, and all kinds of colour vision tell them apart (Okabe
// and Ito). The dark ones are lighter, to stand out from a dark page as much.

const ROLES = {
    recorded: ["#222222", "#e8e8e8"],
    before: ["#d55e00", "#ff9a52"],
    after: ["#0072b2", "#56b4e9"],
};

// Several runs side by side; a single one is as "after".
const RUNS = [
    ["#0072b2", "#56b4e9"],
    ["#e69f00", "#f0b429"],
    ["#009e73", "#35c79d"],
    ["#cc79a7", "#e09bc2"],
    ["#d55e00", "#ff9a52"],
    ["#56b4e9", "#8fd0f5"],
    ["#8a7f00", "#f0e442"],
];

export function trackColor(tracks, number, dark) {
    let pair = ROLES[tracks[number].role];
    if (!pair) {
        const earlier = tracks.slice(0, number).filter((track) => !ROLES[track.role]).length;
        pair = RUNS[earlier % RUNS.length];
    }
    return pair[dark ? 1 : 0];
}

export const darkMedia = window.matchMedia("(prefers-color-scheme: dark)");
