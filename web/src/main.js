// The script of a page: what is in the page is shown without it; it adds motion.

import { startCurves } from "./curves.js";
import { make } from "./dom.js";
import { startFigures } from "./figures.js";
import { startLive } from "./live.js";
import { readPayload } from "./payload.js";
import { startPlayer } from "./player.js";
import { Timeline } from "./timeline.js";
import "./style.css";

// What fails is said in the page, and the other parts go on.
async function attempt(parent, what, start) {
    try {
        return await start();
    } catch (error) {
        parent.append(make("p", { className: "page-error", role: "alert" }, `${what}: ${error?.message ?? error}.`));
        console.error(error);
        return null;
    }
}

async function startViewer(viewer) {
    const timeline = new Timeline(await readPayload());
    const motion = make("div", { className: "viewer-motion" }), panels = make("div", { className: "viewer-curves" });
    viewer.append(motion, panels);
    const scene = await attempt(motion, "The robot cannot be shown", () => startPlayer(motion, timeline));
    const curves = await attempt(panels, "The curves cannot be shown", () => startCurves(panels, timeline));
    window.neuralsim = { timeline, scene, curves };
}

async function startAll() {
    const viewer = document.getElementById("viewer"), place = document.getElementById("live");
    attempt(document.body, "The figures cannot be saved", () => startFigures(document));
    if (viewer) attempt(viewer, "The motion cannot be shown", () => startViewer(viewer));
    if (!place) return;
    const live = await attempt(place, "What is running cannot be shown", () => startLive(place));
    window.neuralsim = { live };
}

startAll();
