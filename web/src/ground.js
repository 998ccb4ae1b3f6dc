// The ground: a grid whose lines stay one pixel wide and fade out before they crowd or end.

import { Color, DoubleSide, LinearSRGBColorSpace, Mesh, PlaneGeometry, ShaderMaterial, Vector2 } from "three";

const VERTEX = `
uniform float spacing, radius;
uniform vec2 middle;
varying vec2 at;   // in spacings
varying vec2 away; // from the middle, in radii
void main() {
    at = position.xy / spacing;
    away = (position.xy - middle) / radius;
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
    float mark = max(0.45 * lines(at, width), 0.9 * lines(0.2 * at, 0.2 * width));
    float base = gl_FrontFacing ? solid : 0.3 * solid;
    float alpha = base + (1.0 - base) * mark;
    gl_FragColor = vec4(mix(fill, line, mark / max(alpha, mark + 1e-6)), alpha * fade * fade);
}`;

// A part of the plane z = 0 of its frame.
// @param middle  Vector2: where it is seen best
// @param radius  where it has faded out
// @param half    [x, y]: where it ends, if before that; 0: nowhere
// @param spacing  between two lines; every fifth is stronger
// @param solid   how little is seen through it between the lines, 0 to 1
// @param fill, line  colours
export function makeGround({ middle, radius, half, spacing, solid, fill, line }) {
    const [left, right] = side(middle.x, radius, half[0]);
    const [near, far] = side(middle.y, radius, half[1]);
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
            middle: { value: new Vector2().copy(middle) },
        },
        transparent: true,
        depthWrite: false,
        side: DoubleSide,
        forceSinglePass: true, // one plane: nothing of it lies behind another part
    });
    const mesh = new Mesh(geometry, material);
    mesh.renderOrder = -1; // below whatever else can be looked through
    return mesh;
}

// A colour as it is on the screen, which spares each pixel a conversion.
function shown(color) {
    return new Color().setStyle(color, LinearSRGBColorSpace);
}

function side(middle, radius, half) {
    const low = middle - radius, high = middle + radius;
    if (!(half > 0)) return [low, high];
    if (low >= half || high <= -half) return [-half, half];
    return [Math.max(low, -half), Math.min(high, half)];
}
