"""Covariances of Shapley values between a baseline and x, which are linear in f.

The Shapley value of a player is the integral over q in [0, 1] of the slope, in the player's own
probability, of the expected f where each player is at x with probability q and at the baseline
otherwise. A player is one column, or several that move together. For a kernel that is a product of
one factor for each player, or linear in each of them like the additive kernel, the integrand is a
polynomial in q, so that a Gauss-Legendre rule with half as many nodes as players is exact. All
other kernels go through all coalitions.

References
----------
Owen, "Multilinear extensions of games" (1972); Chau, Muandet and Sejdinovic, "Explaining the
uncertain: stochastic Shapley values for Gaussian process models" (2023), for games that remove a
feature in another way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from operator import add, mul

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from bayes_gpx.aliases import Tensor
from bayes_gpx.kernels.additive import ElementarySymmetric
from bayes_gpx.kernels.base import Kernel
from bayes_gpx.kernels.composite import Active, Product, Sum
from bayes_gpx.kernels.elementary import Constant, LinearKernel
from bayes_gpx.kernels.profiles import ExpQuad
from bayes_gpx.kernels.stationary import Stationary
from bayes_gpx.numerics.coalitions import Players, all_coalitions, mixed
from bayes_gpx.numerics.quadrature import Rule, gauss_legendre

MOST_PAIRED = 7
"""Players up to which pairs of coalitions of many rows are gone through at once."""


class NoProduct(ValueError):
    """A kernel is no product over features, and these are many."""


@dataclass(frozen=True, eq=False)
class Factors:
    """A product of kernels, each of some columns: one factor for each player.

    Attributes
    ----------
    players : Players
    variance : scalar tensor
    squares : list of (Stationary, array of int)
        Squared exponentials, which are products over their columns.
    single : list of (Kernel, array of int, int)
        Kernels of columns of one player, whose position comes last.
    linear : (LinearKernel, array of int) or None
        A sum over columns, and so of as many products.
    """

    players: Players
    variance: TensorVariable
    squares: list
    single: list
    linear: tuple | None

    def at(self, x: TensorVariable, xs: TensorVariable) -> TensorVariable:
        """The factors (..., r, players) of points (..., d), one row for each of r products."""
        count = len(self.players)
        exponent = pt.zeros((*pt.broadcast_shape(x, xs)[:-1], count))
        for kernel, columns in self.squares:
            apart = x[..., columns] - xs[..., columns]
            if kernel.period is not None:
                apart = pt.sin(math.pi * apart / kernel.period)
            square = pt.sqr(apart / kernel.lengthscale)
            exponent -= 0.5 * pt.dot(square, _member(columns, self.players))
        found = pt.exp(exponent)
        for kernel, columns, player in self.single:
            value = kernel.derivative(x[..., columns], xs[..., columns], 0, 0)
            found = found[..., player].set(found[..., player] * value)
        found = found[..., None, :]
        if self.linear is None:
            return found
        kernel, columns = self.linear
        here, there = (points[..., columns] - kernel.center for points in (x, xs))
        each = (kernel.weights * here * there)[..., None]
        return found * pt.switch(_member(columns, self.players) > 0.0, each, 1.0)

    @property
    def nodes(self) -> Rule:
        """Exact for one factor for each player."""
        return gauss_legendre(-(-len(self.players) // 2))

    def without_one(self, each: TensorVariable) -> TensorVariable:
        """Slope (..., players) of the product in each of its factors (..., players)."""
        return others(each)

    def without_two(self, each: TensorVariable) -> TensorVariable:
        """Slope (..., players, players) in two factors, and in one of them on the diagonal."""
        same = np.eye(len(self.players), dtype=bool)
        return others(pt.switch(same, 1.0, each[..., None, :]))


@dataclass(frozen=True, eq=False)
class Interactions:
    """Interactions of kernels of one column each, no two of which move together.

    They are linear in every player's kernel, as `Factors` are, with the same methods.

    Attributes
    ----------
    players : Players
    variance : scalar tensor
    kernel : ElementarySymmetric
    columns : array of int
        Those that the kernel sees.
    """

    players: Players
    variance: TensorVariable
    kernel: ElementarySymmetric
    columns: np.ndarray

    def at(self, x: TensorVariable, xs: TensorVariable) -> TensorVariable:
        """The players' kernels (..., 1, players) of points (..., d), 0 of those without one."""
        each = self.kernel.each(x[..., self.columns], xs[..., self.columns])
        return pt.dot(each, self._seats)[..., None, :]

    @property
    def nodes(self) -> Rule:
        """Exact for as many players at a time as interact."""
        return gauss_legendre(-(-self.kernel.order // 2))

    def without_one(self, each: TensorVariable) -> TensorVariable:
        """Slope (..., players) of the kernel in each player's (..., players)."""
        return pt.dot(self.kernel.slopes(pt.dot(each, self._seats.T)), self._seats)

    def without_two(self, each: TensorVariable) -> TensorVariable:
        """Slope (..., players, players) in two of them, and in one of them on the diagonal."""
        same = np.eye(len(self.players), dtype=bool)
        left = pt.dot(pt.switch(same, 0.0, each[..., None, :]), self._seats.T)
        rest = pt.dot(self.kernel.slopes(left, after=1), self._seats)
        return pt.switch(same, self.without_one(each)[..., None, :], rest)

    @property
    def _seats(self):
        return _member(self.columns, self.players)


def factors(kernel: Kernel, players: Players) -> list[Factors | Interactions] | None:
    """Summands of a kernel that are linear in every player's own kernel; None if some are not."""
    columns = np.concatenate([np.array(own) for own in players])
    products = [_factors(parts, players) for parts in _products(kernel, np.sort(columns))]
    return None if any(product is None for product in products) else products


def _products(kernel, columns):
    """Lists of kernels with their columns, whose products add up to a kernel."""
    if isinstance(kernel, Active):
        return _products(kernel.kernel, columns[kernel.columns])
    if isinstance(kernel, Sum):
        return [*_products(kernel.left, columns), *_products(kernel.right, columns)]
    if isinstance(kernel, Product):
        left, right = (_products(part, columns) for part in (kernel.left, kernel.right))
        return [[*one, *other] for one in left for other in right]
    return [[(kernel, columns)]]


def _factors(parts, players):
    variance, squares, single, linear = pt.constant(1.0), [], [], []
    varying = [part for part in parts if not isinstance(part[0], Constant)]
    if len(varying) == 1 and isinstance(varying[0][0], ElementarySymmetric):
        ((kernel, columns),) = varying
        if _member(columns, players).sum(axis=0).max() == 1.0:
            variances = [part.variance for part, _ in parts if isinstance(part, Constant)]
            return Interactions(players, reduce(mul, variances, variance), kernel, columns)
    for kernel, columns in parts:
        player = [k for k, own in enumerate(players) if set(columns.tolist()) <= set(own)]
        if isinstance(kernel, Constant):
            variance = variance * kernel.variance
        elif isinstance(kernel, Stationary) and isinstance(kernel.profile, ExpQuad):
            squares.append((kernel, columns))
        elif player:
            single.append((kernel, columns, player[0]))
        elif isinstance(kernel, LinearKernel) and not linear:
            linear.append((kernel, columns))
        else:
            return None
    return Factors(players, variance, squares, single, linear[0] if linear else None)


def _member(columns, players):
    """Which player each column belongs to, (columns, players) of 0 and 1."""
    return np.array([[float(c in own) for own in players] for c in columns])


def others(each: TensorVariable) -> TensorVariable:
    """Products (..., k) of all numbers along the last axis but the own one."""
    ones = pt.ones_like(each[..., :1])
    before = pt.concatenate([ones, pt.cumprod(each[..., :-1], axis=-1)], axis=-1)
    after = pt.concatenate([pt.cumprod(each[..., :0:-1], axis=-1)[..., ::-1], ones], axis=-1)
    return before * after


def cross(
    products: list[Factors | Interactions],
    x: TensorVariable,
    baselines: TensorVariable,
    xs: TensorVariable,
) -> TensorVariable:
    """Covariance of the Shapley values at x (m, d) with values at xs (n, d): (m, players, n).

    Averages over baselines (b, d).
    """

    def of_product(product):
        end = product.at(x[:, None, None], xs)
        start = product.at(baselines[:, None], xs)
        at_nodes = (
            w * product.without_one(t * end + (1.0 - t) * start)
            for t, w in zip(*product.nodes, strict=True)
        )
        share = (end - start) * reduce(add, at_nodes)
        return product.variance * share.mean(axis=1).sum(axis=-2)

    return reduce(add, map(of_product, products)).dimshuffle(0, 2, 1)


def paired(
    products: list[Factors | Interactions],
    x: TensorVariable,
    baseline: TensorVariable,
    xs: TensorVariable,
    baselines: TensorVariable,
) -> TensorVariable:
    """Covariance of Shapley values of pairs of points (..., d), each with a baseline of its own.

    Returns
    -------
    tensor (..., players, players)
    """

    def of_product(product):
        ends = [[product.at(p, q) for q in (xs, baselines)] for p in (x, baseline)]
        (both, first), (second, none) = ends
        total, same = 0.0, np.eye(len(product.players), dtype=bool)
        own = (both - first - second + none)[..., None, :]
        s, v = (part.reshape((-1, *[1] * both.ndim)) for part in product.nodes)
        left, right = both - second, first - none
        there = (s * left + (1.0 - s) * right)[..., :, None]
        for t, w in zip(*product.nodes, strict=True):
            here = (t * (both - first) + (1.0 - t) * (second - none))[..., None, :]
            start, end = t * first + (1.0 - t) * none, t * both + (1.0 - t) * second
            rest = product.without_two(s * end + (1.0 - s) * start)
            each = rest * pt.switch(same, own, there * here)
            total += w * (v[..., None] * each).sum(axis=0)
        return product.variance * total.sum(axis=-3)

    return reduce(add, map(of_product, products))


def among_columns(values: Tensor, players: Players, *axes: int) -> Tensor:
    """Widen axes from players to columns: a player's number stands at its first column."""
    d, first = sum(map(len, players)), [own[0] for own in players]
    if d == len(players) and first == list(range(d)):
        return values
    for axis in axes:
        shape = [d if a == axis else values.shape[a] for a in range(values.ndim)]
        values = pt.zeros(shape)[(slice(None),) * axis + (np.array(first),)].set(values)
    return values


def block_by_coalitions(
    kernel: Kernel, x: TensorVariable, baselines: TensorVariable, players: Players
) -> TensorVariable:
    """Prior covariance (m, d, d) between the Shapley values of each x, for any kernel.

    Raises
    ------
    NoProduct
        For more than `MOST_PAIRED` players.
    """
    if len(players) > MOST_PAIRED:
        raise NoProduct(
            f"{len(players)} features and a kernel that is no product over features: Shapley "
            f"values of all rows at once are known of at most {MOST_PAIRED}. Pass `among`, and one "
            "row at a time."
        )
    among = all_coalitions(players)
    points = mixed(x, baselines, among.masks)
    pairs = points[:, :, None, :, None], points[:, None, :, None]
    between = kernel.derivative(*pairs, 0, 0).mean(axis=(1, 2))
    return pt.matmul(pt.matmul(among.shares, between), among.shares.T)
