"""How smooth a user's own kernel is: as far as its derivatives agree with finite differences."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import explicit_graph_inputs

from bayes_gpx.kernels.base import Kernel, autodiff
from bayes_gpx.kernels.elementary import Automatic
from bayes_gpx.numerics.compile_modes import MODE

ORDERS = {1: ((1, 0), (0, 1), (1, 1)), 2: ((2, 0), (0, 2), (2, 1), (1, 2), (2, 2))}
"""Derivatives, by orders in x and xs, that k needs for smoothness 1, and besides for 2."""


def measured(kernel: Kernel, d: int) -> int:
    """Count the orders of derivatives that agree with finite differences of the kernel's values.

    Hyperparameters are drawn from their prior, free inputs are 1. Pairs of points coincide, nearly
    coincide or are apart; derivatives are taken along random directions v and w. The process is
    twice differentiable where the fourth differences of its variance converge.
    """
    rng = np.random.default_rng(0)
    x, apart = 1.0 + abs(rng.normal(size=(2, 48, d)))
    v, w = (u / np.linalg.norm(u, axis=1, keepdims=True) for u in rng.normal(size=(2, 48, d)))
    xs = x + np.repeat([0.0, 1e-9, 0.5], 16)[:, None] * apart
    # Axes: steps, moves of x, moves of xs, pairs of points, features.
    steps = 100.0 * 0.25 ** np.arange(14.0)
    moves = np.multiply.outer(steps, [-1.0, 0.0, 1.0])[..., None, None]
    left, right = (x + moves * v)[:, :, None], np.stack([xs + moves * w, x + moves * v])[:, :, None]

    def differences(table, i, j):
        stencil = np.array([[0.0, 1.0, 0.0], [-0.5, 0.0, 0.5], [1.0, -2.0, 1.0]])
        return np.einsum("a,b,sabn->sn", stencil[i], stencil[j], table) / steps[:, None] ** (i + j)

    def agree(orders):
        """Whether derivatives agree, each at some step; and fourth differences of the variance."""
        outputs = [kernel.derivative(left, right, 0, 0)]
        outputs += [_directional(kernel, x, xs, v, w, *order) for order in orders]
        free = {v: pt.ones([n or d for n in v.type.shape]) for v in explicit_graph_inputs(outputs)}
        drawn = pm.draw(clone_replace(outputs, free), random_seed=0, mode=MODE)
        (values, variances), *jets = drawn
        # Steps so small that round-off hides the variance's change say nothing.
        resolved = np.median(abs(variances[:, 1, 2] / variances[:, 1, 1] - 1.0), axis=1) > 1e-6
        agreed = []
        for (i, j), jet in zip(orders, jets, strict=True):
            near = abs(differences(values, i, j) - jet) <= 1e-2 * abs(jet).max()
            agreed.append((resolved & near.all(axis=1)).any())
        return all(agreed), differences(variances, 2, 2)

    with np.errstate(all="ignore"):
        once, fourth = agree(ORDERS[1])
        converges = (abs(np.diff(fourth, axis=0)) <= 0.2 * abs(fourth[1:])).all(axis=1).any()
        twice = once and converges and agree(ORDERS[2])[0]
    return int(once) + int(twice)


def _directional(kernel, x, xs, v, w, i, j):
    """Derivatives (n,) of those orders along v (n, d) in x and along w in xs."""
    if isinstance(kernel, Automatic):

        def line(a, b, x, xs, v, w):
            return kernel.covariance((x + a * v)[None], (xs + b * w)[None])[0, 0]

        still = np.zeros((len(x), 1))
        points = [pt.as_tensor_variable(p) for p in (still, still, x, xs, v, w)]
        return autodiff(line, points, (0,) * i + (1,) * j).reshape((len(x),))
    jet = kernel.derivative(x, xs, i, j)
    for direction in reversed([v] * i + [w] * j):
        jet = (jet * pt.expand_dims(direction, list(range(1, jet.ndim - 1)))).sum(-1)
    return jet
