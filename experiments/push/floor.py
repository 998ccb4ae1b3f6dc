#!/usr/bin/env python3
"""How well do pushes repeat? The same push of a plate, as seen from the plate, was done at 10 and at 20 mm/s, at other
places of the board and in other directions.

usage: floor.py MCUBE_PUSH_FOLDER

Pairs of rows of the end-point tables, one of each speed, where the rod starts and ends within 1 mm of the same places of
the plate's first frame; each row is in one pair at most, nearest first. A push has half of the variance of their difference, so the
floor of a model that knows all but what changes from push to push is the difference / sqrt(2). E is
sqrt(dx^2 + dy^2 + (50 mm dyaw)^2) at the end of the push, in mm.
"""

import csv
import math
import os
import sys

PLATES = ["ellip1", "ellip2", "rect1", "rect2", "tri1"]  # those with both speeds
NEAR = 0.001  # m
ARM = 50.0  # mm


def read(path):
    """Of each push: places of the rod (x0, y0, x1, y1) and motion of the plate (x, y, yaw), in the plate's first frame."""
    pushes = []
    with open(path) as f:
        for row in csv.DictReader(f):
            v = {k: float(x) for k, x in row.items()}
            c, s = math.cos(v["obj_yaw0"]), math.sin(v["obj_yaw0"])

            def seen(name, c=c, s=s, v=v):
                x, y = v[name[0]] - v["obj_x0"], v[name[1]] - v["obj_y0"]
                return c * x + s * y, c * y - s * x

            turn = v["obj_yaw1"] - v["obj_yaw0"]
            rod = seen(("tip_x0", "tip_y0")) + seen(("tip_x1", "tip_y1"))
            motion = seen(("obj_x1", "obj_y1")) + (math.atan2(math.sin(turn), math.cos(turn)),)
            pushes.append((rod, motion))
    return pushes


def pairs(slow, fast):
    near = []
    for i, (a, _) in enumerate(slow):
        for k, (b, _) in enumerate(fast):
            off = max(math.hypot(a[0] - b[0], a[1] - b[1]), math.hypot(a[2] - b[2], a[3] - b[3]))
            if off < NEAR:
                near.append((off, i, k))
    used, found = set(), []
    for _, i, k in sorted(near):
        if ("slow", i) not in used and ("fast", k) not in used:
            used |= {("slow", i), ("fast", k)}
            found.append((slow[i][1], fast[k][1]))
    return found


def line(name, found):
    root = math.sqrt(2)
    place = [1000 * math.hypot(a[0] - b[0], a[1] - b[1]) / root for a, b in found]
    turn = [abs(math.atan2(math.sin(a[2] - b[2]), math.cos(a[2] - b[2]))) / root for a, b in found]
    both = [math.hypot(p, ARM * t) for p, t in zip(place, turn)]
    degrees = [math.degrees(t) for t in turn]

    def of(x):
        x = sorted(x)
        rms = math.sqrt(sum(v * v for v in x) / len(x))
        return f"{sum(x) / len(x):.2f} {x[len(x) // 2]:.2f} {rms:.2f}"

    print(f"{name:8s} {len(found):5d}   {of(both)}   {of(place)}   {of(degrees)}")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print("plate    pairs   E: mean, median, rms (mm)   position (mm)   yaw (deg)")
    everything = []
    for plate in PLATES:
        tables = [os.path.join(sys.argv[1], "endpoints", f"abs_{plate}_v{v}.csv") for v in (10, 20)]
        found = pairs(*(read(t) for t in tables))
        everything += found
        line(plate, found)
    line("all", everything)


main()
