// All colours, most of which all kinds of colour vision tell apart (Okabe and Ito). A colour is a pair: on light
// paper, and lighter on dark paper, to stand out as much.

const media = window.matchMedia("(prefers-color-scheme: dark)");
let printing = false;

export const isDark = () => media.matches && !printing;

// Call a function when it became dark or light; to print it is light.
export function onDark(listener) {
    media.addEventListener("change", listener);
    for (const [event, now] of [["beforeprint", true], ["afterprint", false]]) {
        window.addEventListener(event, () => {
            printing = now;
            if (media.matches) listener();
        });
    }
}

export const INK = ["#222222", "#e8e8e8"], FAINT = ["#666666", "#a8a8a8"], LINE = ["#dddddd", "#3a3e46"];

// For runs side by side, and for quantities that share a panel; the first is the page's --blue.
const SERIES = [
    ["#0072b2", "#56b4e9"],
    ["#e69f00", "#f0b429"],
    ["#009e73", "#35c79d"],
    ["#cc79a7", "#e09bc2"],
    ["#d55e00", "#ff9a52"],
    ["#56b4e9", "#8fa8ff"],
    ["#8a7f00", "#f0e442"],
    ["#7a4fa3", "#b79be0"],
    ["#777777", "#bbbbbb"],
];

const ROLES = { recorded: INK, before: ["#d55e00", "#ff9a52"], after: SERIES[0] };

export const shade = (color, dark = isDark()) => color[dark ? 1 : 0];

export const seriesColor = (number) => SERIES[number % SERIES.length];

// What a track is decides; runs are numbered, in 3D and in curves alike.
export function trackColor(tracks, number) {
    return ROLES[tracks[number].role] ?? seriesColor(tracks.slice(0, number).filter(isRun).length);
}

function isRun(track) {
    return !ROLES[track.role];
}

// The 3D picture: colours, how strong its lights are, and how dark shadows.
export const LOOKS = [
    { paper: "#f3f5f7", ground: "#e4e8ec", line: "#a4adb8", sky: "#ffffff", earth: "#b9b4ad", fill: 2.1, key: 1.8,
        shade: 0.13 },
    { paper: "#1a1d22", ground: "#24282f", line: "#616a77", sky: "#dfe8f5", earth: "#5a5e68", fill: 1.9, key: 1.9,
        shade: 0.4 },
];
export const AXIS = "#009e73";
export const FRAME = ["#d55e00", "#009e73", "#3d9bdc"]; // x, y, z
