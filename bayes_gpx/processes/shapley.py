"""Covariances of Shapley values between a baseline and x, which are linear in f."""

# Let each player be at x with probability q and at the baseline otherwise. The Shapley value of a
# player is the integral over q in [0, 1] of the slope of the expected f in the player's own
# probability. For kernels that are linear in the contribution of each player
# (`bayes_gpx.processes.players`), such as products, the integrand is a polynomial in q, and a
# Gauss-Legendre rule with at most half as many nodes as players is exact. All other kernels
# enumerate all coalitions.
# Owen, "Multilinear extensions of games" (1972); Chau, Muandet and Sejdinovic, "Explaining the
# uncertain: stochastic Shapley values for Gaussian process models" (2023), for games that remove a
# feature in another way.

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np
import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor
from bayes_gpx.kernels.base import Kernel
from bayes_gpx.numerics.coalitions import Players, all_coalitions, mixed
from bayes_gpx.numerics.columns import among_all
from bayes_gpx.processes.players import Linear

MOST_PAIRED = 7
"""Most players for which pairs of coalitions of many rows are enumerated at once."""


class NoProduct(ValueError):
    """A kernel is no product over features, and these are many."""


def cross(products: list[Linear], x: Tensor, baselines: Tensor, xs: Tensor) -> Tensor:
    """Mean over baselines (b, d) of Cov(Shapley values at x (m, d), f(xs)): (m, players, n)."""

    def of_product(product: Linear) -> Tensor:
        end = product.at(x[:, None, None], xs)
        start = product.at(baselines[:, None], xs)
        at_nodes = (
            w * product.without_one(t * end + (1.0 - t) * start)
            for t, w in zip(*product.nodes, strict=True)
        )
        share = (end - start) * reduce(add, at_nodes)
        share = product.of_players(share.mean(axis=1).sum(axis=-2), -1)
        return product.variance * share

    return reduce(add, map(of_product, products)).dimshuffle(0, 2, 1)


def paired(
    products: list[Linear], x: Tensor, baseline: Tensor, xs: Tensor, baselines: Tensor
) -> Tensor:
    """Covariance (..., players, players) of Shapley values of pairs of points (..., d)."""

    def of_product(product: Linear) -> Tensor:
        ends = [[product.at(p, q) for q in (xs, baselines)] for p in (x, baseline)]
        (both, first), (second, none) = ends
        at_nodes, same = [], np.eye(both.type.shape[-1], dtype=bool)
        own = (both - first - second + none)[..., None, :]
        s, v = (part.reshape((-1, *[1] * both.ndim)) for part in product.nodes)
        left, right = both - second, first - none
        there = (s * left + (1.0 - s) * right)[..., :, None]
        for t, w in zip(*product.nodes, strict=True):
            here = (t * (both - first) + (1.0 - t) * (second - none))[..., None, :]
            start, end = t * first + (1.0 - t) * none, t * both + (1.0 - t) * second
            rest = product.without_two(s * end + (1.0 - s) * start)
            each = rest * pt.switch(same, own, there * here)
            at_nodes.append(w * (v[..., None] * each).sum(axis=0))
        total = reduce(add, at_nodes).sum(axis=-3)
        return product.variance * product.of_players(total, -2, -1)

    return reduce(add, map(of_product, products))


def among_columns(values: Tensor, players: Players, *axes: int) -> Tensor:
    """Widen axes from players to columns: a player's number stands at its first column."""
    d, first = sum(map(len, players)), [own[0] for own in players]
    if d == len(players) and first == list(range(d)):
        return values
    return among_all(values, np.array(first), d, *axes)


def block_by_coalitions(kernel: Kernel, x: Tensor, baselines: Tensor, players: Players) -> Tensor:
    """Prior covariance (m, d, d) between the Shapley values of each x, for any kernel."""
    if len(players) > MOST_PAIRED:
        raise NoProduct(
            f"{len(players)} features and a kernel that is no product over features: Shapley "
            f"values of all rows at once exist for at most {MOST_PAIRED}. Pass `among`, and one "
            "row at a time."
        )
    among = all_coalitions(players)
    points = mixed(x, baselines, among.masks)
    pairs = points[:, :, None, :, None], points[:, None, :, None]
    between = kernel.derivative(*pairs, 0, 0).mean(axis=(1, 2))
    return among.shares @ between @ among.shares.T
