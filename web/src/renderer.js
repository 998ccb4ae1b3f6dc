// Three's renderer, as fine as the machine can draw: coarser while things move slowly, fine when they rest.

import { WebGLRenderer } from "three";

const SLOW = 33; // ms: when frames take longer they are made coarser, down to
const COARSEST = 0.75; // pixels for each of the page
const FINEST = 2;
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
        this.coarse = FINEST;
        this.slow = 0;
    }

    get ratio() {
        return Math.min(this.coarse, this.software ? 1 : window.devicePixelRatio, FINEST);
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
        this.interval = 0.9 * (this.interval ?? interval) + 0.1 * interval;
        this.slow = interval > SLOW ? this.slow + 1 : 0;
        if (this.slow < 10) return;
        this.slow = 0;
        this.coarse = Math.max(0.75 * this.ratio, COARSEST);
    }
}

function isSoftware() {
    const context = document.createElement("canvas").getContext("webgl2");
    const names = context?.getExtension("WEBGL_debug_renderer_info");
    const name = names ? context.getParameter(names.UNMASKED_RENDERER_WEBGL) : "";
    context?.getExtension("WEBGL_lose_context")?.loseContext();
    return /swiftshader|llvmpipe|softpipe|software|basic render/i.test(name);
}
