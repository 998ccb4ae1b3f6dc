#!/usr/bin/env python3
"""Write the model of each plate, <plate>.xml, beside this script.

usage: make_models.py MCUBE_PUSH_FOLDER

Masses, inertias, centroids and outlines are those of the MCube laboratory. The outline of butter, a free
form, is not written into the model: it is read from the recordings' folder, here and when the model is loaded.
"""

import csv
import math
import os
import sys

GRAVITY = 9.81
DEPTH = 0.001  # m, of the points below the board: any, since only stiffness times depth counts
SPACING = 0.02  # m, of the points
HALF_THICKNESS = 0.0065

# mass (kg), inertia about the centroid (kg m^2), centroid (m), outline
PLATES = {
    "rect1": (0.8374, 0.001131, (0, 0), "rect 0.09 0.09"),
    "rect2": (1.045, 0.001808, (0, 0), "rect 0.08991 0.11258"),
    "tri1": (0.8028, 0.001414, (0.00303333, 0.00306333), "tri 0.1259 0.12587"),
    "ellip1": (0.8937, 0.001231, (0, 0), "ellipse 0.0525 0.0525"),
    "ellip2": (1.1104, 0.001953, (0, 0), "ellipse 0.0525 0.065445"),
    "ellip3": (1.3338, 0.002973, (0, 0), "ellipse 0.0525 0.0785"),
    "hex": (0.9827, 0.001497, (0, 0), "hex 0.0605"),
    "butter": (1.1974, 0.002954, (0, 0), "file mcube_push/shapes/butter.csv"),
}


def number(x):
    return f"{x:.9g}"


def corners(outline, folder):
    kind, *sizes = outline.split()
    if kind == "file":
        with open(os.path.join(folder, "shapes", os.path.basename(sizes[0]))) as f:
            return [(float(r["x"]), float(r["y"])) for r in csv.DictReader(f)]
    sizes = [float(s) for s in sizes]
    if kind == "rect":
        a, b = sizes[0] / 2, sizes[1] / 2
        return [(a, b), (-a, b), (-a, -b), (a, -b)]
    if kind == "hex":
        turn = [k * math.pi / 3 for k in range(6)]
        return [(sizes[0] * math.cos(t), sizes[0] * math.sin(t)) for t in turn]
    if kind == "tri":  # the right angle at (0.045, 0.045)
        return [(0.045, 0.045), (0.045 - sizes[0], 0.045), (0.045, 0.045 - sizes[1])]
    return None


def is_inside(x, y, outline, vertices):
    if not vertices:
        a, b = (float(s) for s in outline.split()[1:])
        return (x / a) ** 2 + (y / b) ** 2 < 1
    inside = False
    for (x0, y0), (x1, y1) in zip(vertices, vertices[1:] + vertices[:1]):
        if (y0 > y) != (y1 > y) and x < x0 + (y - y0) / (y1 - y0) * (x1 - x0):
            inside = not inside
    return inside


def points(centroid, outline, vertices):
    """An even grid about the centroid."""
    places = [(k + 0.5) * SPACING for k in range(-8, 8)]
    grid = [(centroid[0] + x, centroid[1] + y) for y in places for x in places]
    return [p for p in grid if is_inside(*p, outline, vertices)]


def plate_geom(outline, vertices):
    kind, *sizes = outline.split()
    if kind == "ellipse":
        return f'type="ellipse" size="{sizes[0]} {sizes[1]} {HALF_THICKNESS}"'
    if kind == "file":
        return f'type="polygon" size="{HALF_THICKNESS}" file="{sizes[0]}"'
    text = " ".join(f"{number(x)} {number(y)}" for x, y in vertices)
    return f'type="polygon" size="{HALF_THICKNESS}" vertex="{text}"'


def model(name, folder):
    mass, inertia, (cx, cy), outline = PLATES[name]
    vertices = corners(outline, folder)
    grid = points((cx, cy), outline, vertices)
    stiffness = mass * GRAVITY / len(grid) / DEPTH
    flat = inertia / 2 + mass * HALF_THICKNESS**2 / 3  # of no effect: the plate stays flat
    lines = [
        f'<!-- The plate {name} of the MCube set on its board, and the rod that pushes it. make_models.py writes this. -->',
        f'<mujoco model="{name}">',
        '  <compiler angle="radian"/>',
        '  <option timestep="0.001" integrator="implicit" cone="elliptic"/>',
        "  <default>",
        '    <geom contype="0" conaffinity="0"/>',
        f'    <default class="support"><geom type="points" vertex="0 0 0" group="3"/>'
        f'<pair model="spring" friction="0.4" stiffness="{number(stiffness)}" exponent="1" damping="0" transition_velocity="0.01"/></default>',
        "  </default>",
        "  <worldbody>",
        '    <geom name="board" type="plane" size="0.3 0.3 0.01" pos="0.3 0 0" rgba="0.9 0.9 0.85 1"/>',
        f'    <body name="plate" pos="0 0 {HALF_THICKNESS}">',
        '      <joint name="x" type="slide" axis="1 0 0"/>',
        '      <joint name="y" type="slide" axis="0 1 0"/>',
        '      <joint name="yaw" type="hinge" axis="0 0 1"/>',
        f'      <inertial pos="{number(cx)} {number(cy)} 0" mass="{mass}" diaginertia="{number(flat)} {number(flat)} {inertia}"/>',
        f'      <geom name="{name}" {plate_geom(outline, vertices)} rgba="0.6 0.65 0.7 1"/>',
    ]
    z = number(-HALF_THICKNESS - DEPTH)
    for k, (x, y) in enumerate(grid):
        lines.append(f'      <geom name="{name}_p{k}" class="support" pos="{number(x)} {number(y)} {z}"/>')
    lines += [
        "    </body>",
        '    <body name="rod" pos="0 0 0.03">',
        '      <joint name="rod_x" type="slide" axis="1 0 0"/>',
        '      <joint name="rod_y" type="slide" axis="0 1 0"/>',
        '      <inertial pos="0 0 0" mass="1" diaginertia="0.001 0.001 0.001"/>',
        '      <geom name="rod" type="cylinder" size="0.00475 0.03" rgba="0.2 0.2 0.2 1"/>',
        "    </body>",
        "  </worldbody>",
        "  <contact>",
        f'    <pair geom1="{name}" geom2="rod" model="ncp" friction="0.25"/>',
    ]
    lines += [f'    <pair class="support" geom1="{name}_p{k}" geom2="board"/>' for k in range(len(grid))]
    lines += [
        "  </contact>",
        "  <actuator>",
        "    <!-- So stiff that the rod has the velocity it is told, whatever it touches. -->",
        '    <velocity name="rod_vx" joint="rod_x" kv="1e8"/>',
        '    <velocity name="rod_vy" joint="rod_y" kv="1e8"/>',
        "  </actuator>",
        "</mujoco>",
        "",
    ]
    return "\n".join(lines), len(grid)


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for name in PLATES:
        text, count = model(name, sys.argv[1])
        with open(os.path.join(here, name + ".xml"), "w") as f:
            f.write(text)
        print(f"{name}: {count} points")


if __name__ == "__main__":
    main()
