#!/usr/bin/env python3
"""Answers of another solver (CVXOPT, an interior-point method) for the tests of quadratic programs and
of the MPC, which is written down here a second time: step by step, with the matrix exponential.

usage: python3 tests/quadruped/reference.py tests/data/control

Writes qp.json: random problems and their answers. Rewrites mpc.json: states of walking robots,
recorded from the simulator, and the forces that are best for them. Needs Debian's python3-cvxopt.
"""
import json
import math
import random
import sys

from cvxopt import matrix, solvers

solvers.options.update(show_progress=False, abstol=1e-13, reltol=1e-13, feastol=1e-12, maxiters=200)


def solve(H, g, rows, lower, upper):
    """Minimise 1/2 x'Hx + g'x so that lower <= rows x <= upper (None: no bound)."""
    n, G, h, A, b = len(g), [], [], [], []
    for row, low, high in zip(rows, lower, upper):
        if low is not None and low == high:
            A.append(row)
            b.append(high)
            continue
        if high is not None:
            G.append(row)
            h.append(high)
        if low is not None:
            G.append([-a for a in row])
            h.append(-low)
    dense = lambda M: matrix([[float(row[j]) for row in M] for j in range(n)], (len(M), n))
    answer = solvers.qp(matrix([[float(x) for x in row] for row in H]), matrix(g, (n, 1), "d"),
                        dense(G) if G else None, matrix(h, (len(h), 1), "d") if G else None,
                        dense(A) if A else None, matrix(b, (len(b), 1), "d") if A else None)
    return answer["status"], list(answer["x"] or [])


# ---- random problems ---------------------------------------------------------------------------


def random_problem(rng):
    n, m = rng.randint(1, 8), rng.randint(0, 12)
    number = lambda: round(rng.gauss(0.0, 1.0), 2)
    B = [[number() for _ in range(n)] for _ in range(n)]
    H = [[round(sum(B[k][i] * B[k][j] for k in range(n)), 6) for j in range(n)] for i in range(n)]
    for i in range(n):
        H[i][i] = round(H[i][i] + 0.05, 6)
    z, rows, lower, upper = [number() for _ in range(n)], [], [], []
    equalities = 0
    for _ in range(m):
        row = [number() if rng.random() < 0.6 else 0.0 for _ in range(n)]
        value = round(sum(a * x for a, x in zip(row, z)), 4)
        kind = rng.choice("lub=") if any(row) else "b"
        if kind == "=" and equalities + 1 >= n:
            kind = "b"
        equalities += kind == "="
        gap = round(rng.random() + 1e-3, 4)
        rows.append(row)
        upper.append(value if kind == "=" else None if kind == "l" else round(value + gap, 4))
        lower.append(value if kind == "=" else None if kind == "u" else round(value - gap, 4))
    return {"H": H, "g": [round(3 * number(), 2) for _ in range(n)], "rows": rows, "lower": lower,
            "upper": upper}


def random_problems(count):
    rng, problems = random.Random(1), []
    while len(problems) < count:
        p = random_problem(rng)
        try:
            status, x = solve(p["H"], p["g"], p["rows"], p["lower"], p["upper"])
        except (ValueError, ArithmeticError):  # equalities that depend on each other
            continue
        if status == "optimal":
            problems.append(dict(p, x=[float("%.10g" % v) for v in x]))
    return problems


# ---- the MPC -----------------------------------------------------------------------------------

ROBOTS = {"laikago": (215 / 9.8, [0.07335, 0.25068, 0.25447]),
          "a1": (108 / 9.8, [0.068, 0.228, 0.256])}
STEPS, DT, G, MU = 10, 0.025, 9.8, 0.45
WEIGHTS = [5, 5, 0.2, 0, 0, 10, 0, 0, 1, 1, 1, 0, 0]


def multiply(A, B):
    return [[sum(a * B[k][j] for k, a in enumerate(row) if a) for j in range(len(B[0]))]
            for row in A]


def exponential(A):
    n = len(A)
    result = [[float(i == j) for j in range(n)] for i in range(n)]
    term = result
    for k in range(1, 12):
        term = [[v / k for v in row] for row in multiply(term, A)]
        result = [[a + b for a, b in zip(x, y)] for x, y in zip(result, term)]
    return result


def mpc(case):
    mass, inertia = ROBOTS[case["robot"]]
    (roll, pitch), feet = case["rpy"], [f for f, s in zip(case["feet"], case["stands"]) if s]
    cr, sr, cp, sp = math.cos(roll), math.sin(roll), math.cos(pitch), math.sin(pitch)
    R = multiply([[cp, 0, sp], [0, 1, 0], [-sp, 0, cp]], [[1, 0, 0], [0, cr, -sr], [0, sr, cr]])
    inverse = multiply([[R[i][j] / inertia[j] for j in range(3)] for i in range(3)],
                       [list(c) for c in zip(*R)])
    n, nu = 13, 3 * len(feet)
    # d/dt (x, u) = [A B; 0 0] (x, u)
    M = [[0.0] * (n + nu) for _ in range(n + nu)]
    T = [[1 / cp, 0, 0], [0, 1, 0], [sp / cp, 0, 1]]
    for i in range(3):
        for j in range(3):
            M[i][6 + j] = T[i][j]
        M[3 + i][9 + i] = 1.0
    M[11][12] = 1.0
    for k, (x, y, z) in enumerate(feet):
        turn = multiply(inverse, [[0, -z, y], [z, 0, -x], [-y, x, 0]])
        for i in range(3):
            for j in range(3):
                M[6 + i][n + 3 * k + j] = turn[i][j]
            M[9 + i][n + 3 * k + i] = 1 / mass
    E = exponential([[DT * v for v in row] for row in M])
    A, B = [row[:n] for row in E[:n]], [row[n:] for row in E[:n]]
    state = [roll, pitch, 0, 0, 0, case["height"]] + case["angular_velocity"] + case["velocity"]
    free, wide = state + [-G], STEPS * nu
    effect = [[0.0] * wide for _ in range(n)]  # of all forces on the state
    H, g = [[0.0] * wide for _ in range(wide)], [0.0] * wide
    (vx, vy), turn, height = case["wanted_velocity"], case["wanted_yaw_rate"], case["wanted_height"]
    for i in range(STEPS):
        free = [sum(a * b for a, b in zip(row, free)) for row in A]
        effect = multiply(A, effect)
        for r in range(n):
            for j in range(nu):
                effect[r][i * nu + j] += B[r][j]
        t = (i + 1) * DT
        wanted = [0, 0, turn * t, vx * t, vy * t, height, 0, 0, turn, vx, vy, 0, -G]
        for r in range(n):
            if WEIGHTS[r] == 0:
                continue
            row = effect[r]
            for a in range((i + 1) * nu):
                scaled = 2 * WEIGHTS[r] * row[a]
                g[a] += scaled * (free[r] - wanted[r])
                Ha = H[a]
                for b in range((i + 1) * nu):
                    Ha[b] += scaled * row[b]
    rows, lower, upper = [], [], []
    for a in range(wide):
        H[a][a] += 1e-5
    for foot in range(STEPS * len(feet)):
        for axis, sign in ((0, 1), (0, -1), (1, 1), (1, -1)):
            row = [0.0] * wide
            row[3 * foot + axis], row[3 * foot + 2] = sign, MU
            rows.append(row)
            lower.append(0.0)
            upper.append((MU + 1) * 10 * mass * G)
        row = [0.0] * wide
        row[3 * foot + 2] = 1.0
        rows.append(row)
        lower.append(0.1 * mass * G)
        upper.append(10 * mass * G)
    status, x = solve(H, g, rows, lower, upper)
    assert status == "optimal", status
    forces = iter(x)
    return [[float("%.10g" % next(forces)) for _ in range(3)] if s else [0.0] * 3
            for s in case["stands"]]


def main():
    folder = sys.argv[1]
    with open(folder + "/mpc.json") as file:
        cases = json.load(file)
    for case in cases:
        case["forces"] = mpc(case)
    lines = lambda items: "[\n" + ",\n".join(json.dumps(i) for i in items) + "\n]\n"
    with open(folder + "/mpc.json", "w") as file:
        file.write(lines(cases))
    with open(folder + "/qp.json", "w") as file:
        file.write(lines(random_problems(300)))


main()
