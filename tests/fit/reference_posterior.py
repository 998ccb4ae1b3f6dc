#!/usr/bin/env python3
"""Posteriors of a pendulum by an independent sampler (emcee, an affine-invariant ensemble) and an
independent simulator, for tests/fit/test_sample_posterior.c.

usage: python3 tests/fit/reference_posterior.py tests/data/posterior

Writes for each problem the recording that it is about, <problem>.csv, and reference.csv: mean, standard
deviation and quantiles of each number. Needs Debian's python3-emcee.

driven: damping, mass and the noise of angle and rate, which is not known. bound: damping alone, of a
pendulum without any, with a known noise; its posterior is cut off at 0. Both have a free initial state.
"""
import sys

import emcee
import numpy as np

DT, STEPS, GRAVITY = 0.02, 60, 9.81
LENGTH, INERTIA = 0.5, 0.05  # of the centre of mass; about it
PROBLEMS = {"driven": (0.3, 1.4, 0.01, 0.05), "bound": (0.0, 1.4, 0.01, 0.05)}


def torque(step):
    return 2.0 * np.sin(0.1 * step)


def simulate(damping, mass, angle, rate):
    """Classical Runge-Kutta with a torque that is constant over a step; (STEPS + 1) x 2 x walkers."""

    def derivative(q, v, tau):
        moment = tau - damping * v - mass * GRAVITY * LENGTH * np.sin(q)
        return v, moment / (INERTIA + mass * LENGTH**2)

    q, v = np.array(angle, float), np.array(rate, float)
    out = [(q, v)]
    for step in range(STEPS):
        tau = torque(step)
        a, b = derivative(q, v, tau)
        c, d = derivative(q + 0.5 * DT * a, v + 0.5 * DT * b, tau)
        e, f = derivative(q + 0.5 * DT * c, v + 0.5 * DT * d, tau)
        g, h = derivative(q + DT * e, v + DT * f, tau)
        q, v = q + DT / 6 * (a + 2 * c + 2 * e + g), v + DT / 6 * (b + 2 * d + 2 * f + h)
        out.append((q, v))
    return np.array(out)


def log_density(theta, problem, data):
    """theta: damping, angle, rate[, mass, log of both noise levels], a row for each walker."""
    damping, angle, rate = theta.T[:3]
    if problem == "driven":
        mass, noise = theta.T[3], np.exp(theta.T[4:6])
    else:
        mass, noise = np.full_like(damping, 1.4), np.array(PROBLEMS["bound"][2:])[:, None]
    inside = (damping >= 0.0) & (mass > 0.0)
    with np.errstate(all="ignore"):
        motion = simulate(np.where(inside, damping, 0.1), np.where(inside, mass, 1.0), angle, rate)
        squares = (((motion - data[:, :, None]) / noise) ** 2).sum(axis=(0, 1))
        value = -0.5 * squares
        if problem == "driven":
            value = value - (STEPS + 1) * theta.T[4:6].sum(axis=0)
    return np.where(inside & np.isfinite(value), value, -np.inf)


def main(folder):
    rows = []
    for number, (problem, (damping, mass, *noise)) in enumerate(PROBLEMS.items()):
        random = np.random.default_rng(7 + number)
        data = simulate(damping, mass, 1.0, 0.0)
        data = data + random.normal(size=data.shape) * np.array(noise)
        times, tau = DT * np.arange(STEPS + 1), torque(np.arange(STEPS + 1))
        np.savetxt(f"{folder}/{problem}.csv", np.column_stack([times, data, tau]), delimiter=",",
                   header="t,q0,qd0,tau0", comments="", fmt="%.17g")
        data = np.loadtxt(f"{folder}/{problem}.csv", delimiter=",", skiprows=1)[:, 1:3]

        # An ensemble from near the truth; a tenth of the steps is burn-in.
        centre = np.array([0.3 if problem == "driven" else 0.02, 1.0, 0.0])
        if problem == "driven":
            centre = np.concatenate([centre, [mass], np.log(noise)])
        walkers, steps = 64, 20000
        np.random.seed(number)
        start = centre + 0.01 * np.abs(np.random.normal(size=(walkers, len(centre))))
        sampler = emcee.EnsembleSampler(walkers, len(centre), log_density, args=(problem, data),
                                        vectorize=True)
        sampler.run_mcmc(start, steps)
        chain = sampler.get_chain(discard=steps // 10, flat=True)
        size = len(chain) / sampler.get_autocorr_time(tol=0).max()
        names = ["joint/hinge/damping", "window 0: q0", "window 0: qd0"]
        if problem == "driven":
            names += ["link/rod/mass", "noise/q0", "noise/qd0"]
            chain[:, 4:6] = np.exp(chain[:, 4:6])
        print(f"{problem}: {size:.0f} effective samples")
        for name, x in zip(names, chain.T):
            rows.append([str(number), name, *(f"{v:.8g}" for v in (
                x.mean(), x.std(), *np.quantile(x, [0.05, 0.5, 0.95])))])
    with open(f"{folder}/reference.csv", "w", encoding="utf-8") as out:
        out.write("problem,name,mean,deviation,p5,median,p95\n")
        for row in rows:
            out.write(",".join(row) + "\n")


main(sys.argv[1])
