"""How smooth a kernel is that a user wrote: as far as its derivatives agree with differences."""

from dataclasses import replace

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import explicit_graph_inputs

from bayes_gpx.kernels import Kernel

ORDERS = {1: ((1, 0), (0, 1), (1, 1)), 2: ((2, 0), (0, 2), (2, 1), (1, 2), (2, 2))}
"""Derivatives that a process has when it is differentiable once, and twice."""


def measured(kernel: Kernel, d: int) -> Kernel:
    """Count the orders of derivatives that agree with finite differences of the kernel's values.

    Hyperparameters are drawn from their prior, free inputs are 1. Pairs of points coincide, nearly
    coincide or are apart; derivatives are taken along random directions v and w. The process is
    twice differentiable where the fourth differences of its variance converge.
    """
    rng = np.random.default_rng(0)
    x, apart = 1.0 + abs(rng.normal(size=(2, 48, d)))
    v, w = (u / np.linalg.norm(u, axis=1, keepdims=True) for u in rng.normal(size=(2, 48, d)))
    xs = x + np.repeat([0.0, 1e-9, 0.5], 16)[:, None] * apart
    steps = 100.0 * 0.25 ** np.arange(14.0)
    moves = np.multiply.outer(steps, [-1.0, 0.0, 1.0])[..., None, None]
    left, right = (x + moves * v)[:, :, None], np.stack([xs + moves * w, x + moves * v])[:, :, None]

    def differences(table, i, j):
        stencil = np.array([[0.0, 1.0, 0.0], [-0.5, 0.0, 0.5], [1.0, -2.0, 1.0]])
        return np.einsum("a,b,sabn->sn", stencil[i], stencil[j], table) / steps[:, None] ** (i + j)

    orders = ORDERS[1] + ORDERS[2]
    outputs = [kernel.derivative(left, right, 0, 0)]
    outputs += [kernel.derivative(x, xs, *order) for order in orders]
    ones = {v: pt.ones([n or d for n in v.type.shape]) for v in explicit_graph_inputs(outputs)}
    with np.errstate(all="ignore"):
        drawn = pm.draw(clone_replace(outputs, ones), random_seed=0, mode="FAST_COMPILE")
        (values, variances), *jets = drawn
        resolved = np.median(abs(variances[:, 1, 2] / variances[:, 1, 1] - 1.0), axis=1) > 1e-6
        agreed = []
        for (i, j), jet in zip(orders, jets, strict=True):
            for direction in reversed([v] * i + [w] * j):
                jet = np.einsum("n...a,na->n...", jet, direction)
            near = abs(differences(values, i, j) - jet) <= 1e-2 * abs(jet).max()
            agreed.append((resolved & near.all(axis=1)).any())
        fourth = differences(variances, 2, 2)
        converges = (abs(np.diff(fourth, axis=0)) <= 0.2 * abs(fourth[1:])).all(axis=1).any()
    once, twice = all(agreed[: len(ORDERS[1])]), all(agreed) and converges
    return replace(kernel, smoothness=int(once) + int(twice), measured=True)
