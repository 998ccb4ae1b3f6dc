// Materials.

import {
    Color,
    MeshBasicMaterial,
    MeshLambertMaterial,
    NotEqualStencilFunc,
    ReplaceStencilOp,
    SRGBColorSpace,
} from "three";

// What was recorded, and what was before, is looked through when there are other tracks.
export function isGhost(tracks, number) {
    const { role } = tracks[number];
    return tracks.length > 1 && (role === "recorded" || role === "before");
}

// Materials of one track, or of the world; one for each colour.
export class Paint {
    // @param color  of all geometries, or null: each has its own
    // @param ghost  0: solid; 1, 2, ...: to be looked through, one number for each
    constructor(color, ghost) {
        this.color = color;
        this.ghost = ghost;
        this.made = new Map();
    }

    of(geom) {
        const [r, g, b, a] = this.color ? [0, 0, 0, 1] : geom.color;
        const key = `${r} ${g} ${b} ${a}`;
        if (!this.made.has(key)) {
            const color = this.color ? new Color(this.color) : new Color().setRGB(r, g, b, SRGBColorSpace);
            this.made.set(key, this.#make(color, a));
        }
        return this.made.get(key);
    }

    #make(color, alpha) {
        const material = new MeshLambertMaterial({ color });
        if (this.ghost > 0) {
            // Each pixel takes colour once from a ghost, whatever of it lies behind, and a solid robot is
            // seen where both coincide. Shadows have 1 in the stencil.
            Object.assign(material, {
                transparent: true,
                opacity: 0.4,
                depthWrite: false,
                polygonOffset: true,
                polygonOffsetFactor: 1,
                polygonOffsetUnits: 4,
                stencilWrite: true,
                stencilFunc: NotEqualStencilFunc,
                stencilRef: this.ghost + 1,
                stencilZPass: ReplaceStencilOp,
            });
        } else if (alpha < 1) {
            Object.assign(material, { transparent: true, opacity: alpha, depthWrite: false });
        }
        return material;
    }

    dispose() {
        for (const material of this.made.values()) material.dispose();
    }
}

// Drawn over everything, to be seen inside bodies: axes, frames, forces.
export const OVER = 20; // their order

export function overlay(options) {
    return new MeshBasicMaterial({ transparent: true, depthTest: false, depthWrite: false, ...options });
}
