// The script of a page: what is in the page is shown without it; it adds motion.

import { startCurves } from "./curves.js";
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
        const message = document.createElement("p");
        message.className = "page-error";
        message.setAttribute("role", "alert");
        message.textContent = `${what}: ${error?.message ?? error}`;
        parent.append(message);
        console.error(error);
        return null;
    }
}

function addPart(parent, name) {
    const part = document.createElement("div");
    part.className = name;
    parent.append(part);
    return part;
}

async function startViewer(viewer) {
    const timeline = new Timeline(await readPayload());
    const motion = addPart(viewer, "viewer-motion"), curves = addPart(viewer, "viewer-curves");
    const scene = await attempt(motion, "The robot cannot be shown", () => startPlayer(motion, timeline));
    window.neuralsim = { timeline, scene };
    await attempt(curves, "The curves cannot be shown", () => startCurves(curves, timeline));
}

const live = document.getElementById("live");
const viewer = document.getElementById("viewer");
attempt(document.body, "The figures cannot be saved", () => startFigures(document));
if (live) attempt(live, "What is running cannot be shown", () => startLive(live));
if (viewer) attempt(viewer, "The motion cannot be shown", () => startViewer(viewer));
