// The ground: a grid whose lines stay one pixel wide and fade out before they crowd or end.

import { Color, DoubleSide, LinearSRGBColorSpace, Mesh, PlaneGeometry, ShaderMaterial } from "three";

const FIFTH = 5; // of so many lines, one is stronger

const VERTEX = `
uniform float spacing, radius;
varying vec2 at;   // in spacings
varying vec2 away; // from the middle, in radii
void main() {
    at = position.xy / spacing;
    away = position.xy / radius;
    gl_Position = projectionMatrix * modelViewMatrix * vec4(position, 1.0);
}`;

const FRAGMENT = `
uniform vec3 fill, line;
uniform float solid;
varying vec2 at, away;

// How much of a line there is: full at it, none a pixel beside it or where lines crowd.
float lines(vec2 p, vec2 width) {
    vec2 shown = clamp(1.0 - abs(fract(p - 0.5) - 0.5) / width, 0.0, 1.0) * clamp(1.3 - 2.2 * width, 0.0, 1.0);
    return max(shown.x, shown.y);
}

void main() {
    float fade = clamp(1.15 * (1.0 - dot(away, away)), 0.0, 1.0);
    vec2 width = fwidth(at);
    float mark = max(0.45 * lines(at, width), 0.9 * lines(at / ${FIFTH}.0, width / ${FIFTH}.0));
    float base = gl_FrontFacing ? solid : 0.3 * solid;
    float alpha = base + (1.0 - base) * mark;
    gl_FragColor = vec4(mix(fill, line, mark / max(alpha, mark + 1e-6)), alpha * fade * fade);
}`;

// A part of the plane z = 0 of its frame, as a mesh whose origin is a crossing of lines in the middle of it:
// counted from far away, places would not fit the seven digits of numbers on a graphics card.
// @param middle  where it is seen best
// @param radius  where it has faded out
// @param half    [x, y]: where it ends, if before that; 0: nowhere
// @param spacing  between two lines
// @param solid   how little is seen through it between the lines, 0 to 1
// @param fill, line  colours
// @return { root, dispose }
export function makeGround({ middle, radius, half, spacing, solid, fill, line }) {
    const [x, y] = [middle.x, middle.y].map((at) => FIFTH * spacing * Math.round(at / (FIFTH * spacing)));
    const [left, right] = side(x, radius, half[0]);
    const [near, far] = side(y, radius, half[1]);
    const geometry = new PlaneGeometry(right - left, far - near);
    geometry.translate((left + right) / 2, (near + far) / 2, 0);
    const material = new ShaderMaterial({
        vertexShader: VERTEX,
        fragmentShader: FRAGMENT,
        uniforms: {
            fill: { value: shown(fill) },
            line: { value: shown(line) },
            solid: { value: solid },
            spacing: { value: spacing },
            radius: { value: radius },
        },
        transparent: true,
        depthWrite: false,
        side: DoubleSide,
        forceSinglePass: true, // one plane: nothing of it lies behind another part
    });
    const root = new Mesh(geometry, material);
    root.position.set(x, y, 0);
    root.renderOrder = -1; // below whatever else can be looked through
    const dispose = () => {
        geometry.dispose();
        material.dispose();
    };
    return { root, dispose };
}

// Between two lines, m: 1, 2 or 5 times a power of ten, some four in a robot.
export function spacingOf(size) {
    const length = size / 4, power = Math.floor(Math.log10(length));
    const digit = length / 10 ** power;
    return Number(`${digit >= 5 ? 5 : digit >= 2 ? 2 : 1}e${power}`);
}

export function spacingText(spacing) {
    if (spacing >= 1000) return `${spacing / 1000} km`;
    return spacing >= 0.01 ? `${spacing} m` : `${Number((1000 * spacing).toPrecision(1))} mm`;
}

// A colour as it is on the screen, which spares each pixel a conversion.
function shown(color) {
    return new Color().setStyle(color, LinearSRGBColorSpace);
}

// From where to where, counted from the middle.
function side(middle, radius, half) {
    if (!(half > 0)) return [-radius, radius];
    const low = -half - middle, high = half - middle;
    return low >= radius || high <= -radius ? [low, high] : [Math.max(low, -radius), Math.min(high, radius)];
}
