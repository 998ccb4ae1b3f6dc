// Three's renderer, as fine as the machine can draw: coarser while things move slowly, fine when they rest.

import { WebGLRenderer } from "three";

const SLOW = 36, QUICK = 27; // ms: when frames take longer they are made coarser, when less, finer again
const STEP = 0.75; // from one ratio of pixels to the next
const COARSEST = 0.75, FINEST = 2; // pixels for each of the page
const PATIENCE = 10; // frames before they are made coarser
const CONFIDENCE = 45; // frames before they are made finer; twice as many each time that this was too fine
const REST = 200; // ms without a change, after which the picture is drawn finely

export class Renderer {
    // @param redraw  called to have the picture drawn again, finely
    // Throws when there is no WebGL.
    constructor(redraw) {
        this.redraw = redraw;
        this.canvas = document.createElement("canvas");
        // Without a graphics card smooth edges cost more than all else together; at rest many pixels make
        // up for them.
        this.software = isSoftware();
        const options = { alpha: false, antialias: !this.software, stencil: true };
        const context = this.canvas.getContext("webgl2", options);
        if (!context) throw new Error("this browser has no WebGL 2 here");
        this.three = new WebGLRenderer({ canvas: this.canvas, context });
        this.coarse = 1; // share of the pixels, along each side, that there would be
        this.since = 0; // frames since that changed
        this.confidence = CONFIDENCE;
    }

    // While things move.
    get ratio() {
        const best = this.software ? 1 : Math.min(window.devicePixelRatio, FINEST);
        return Math.max(this.coarse * best, Math.min(COARSEST, best));
    }

    get fineRatio() {
        return this.software ? FINEST : Math.min(window.devicePixelRatio, FINEST);
    }

    setSize(width, height) {
        this.three.setSize(width, height, false);
    }

    // @param interval  ms since the last frame when frames follow one another, else 0
    // @param fine      whatever it takes
    render(scene, camera, interval, fine) {
        this.#adapt(interval);
        const ratio = fine ? this.fineRatio : this.ratio;
        if (this.three.getPixelRatio() !== ratio) this.three.setPixelRatio(ratio);
        this.three.render(scene, camera);
        clearTimeout(this.timer);
        if (ratio < this.fineRatio) this.timer = setTimeout(this.redraw, REST);
    }

    #adapt(interval) {
        if (interval === 0) return;
        const taken = Math.min(interval, 2 * SLOW); // one long pause says little
        this.interval = 0.9 * (this.interval ?? QUICK) + 0.1 * taken;
        this.since++;
        if (this.interval > SLOW && this.since >= PATIENCE && this.ratio > COARSEST) {
            if (this.risen) this.confidence *= 2; // it was too early
            this.#change(STEP);
        } else if (this.interval < QUICK && this.since >= this.confidence && this.coarse < 1) {
            this.#change(1 / STEP);
        }
    }

    #change(by) {
        this.coarse = Math.min(this.coarse * by, 1);
        this.risen = by > 1;
        this.since = 0;
    }
}

function isSoftware() {
    const context = document.createElement("canvas").getContext("webgl2");
    const names = context?.getExtension("WEBGL_debug_renderer_info");
    const name = context?.getParameter(names ? names.UNMASKED_RENDERER_WEBGL : context.RENDERER) ?? "";
    context?.getExtension("WEBGL_lose_context")?.loseContext();
    return /swiftshader|llvmpipe|softpipe|software|basic render/i.test(name);
}
