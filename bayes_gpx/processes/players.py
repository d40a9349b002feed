"""Kernels that are linear in the contribution of each player, for exact Shapley values."""

# A player is one column, or several that move together. Three shapes are known: a product of one
# factor for each player, interactions of kernels of single columns, and powers of a linear kernel.
# In all of them a player contributes `width` numbers for two points in a pair, and the kernel is
# linear in each player's numbers. If each player is at one end of its way with some probability,
# the expected kernel is therefore the kernel of the expected numbers.

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import reduce
from operator import mul
from typing import Any

import numpy as np
import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor
from bayes_gpx.kernels.additive import ElementarySymmetric
from bayes_gpx.kernels.base import Kernel
from bayes_gpx.kernels.composite import Active, Power, Product, Sum
from bayes_gpx.kernels.elementary import Constant, LinearKernel
from bayes_gpx.kernels.profiles import ExpQuad
from bayes_gpx.kernels.stationary import Stationary
from bayes_gpx.numerics.coalitions import Players
from bayes_gpx.numerics.quadrature import Rule, gauss_legendre

DEGREES = range(1, 7)
"""Supported degrees of powers of a linear kernel."""


@dataclass(frozen=True, eq=False)
class Factors:
    """A product of kernels, each of some columns: one factor for each player."""

    players: Players
    variance: Tensor
    # Squared exponentials, which are products over their columns.
    squares: list[tuple[Stationary, np.ndarray]]
    # Kernels of columns of one player, with the player's position.
    single: list[tuple[Kernel, np.ndarray, int]]
    # A sum over columns, and hence over as many products.
    linear: tuple[LinearKernel, np.ndarray] | None

    def at(self, x: Tensor, xs: Tensor) -> Tensor:
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
        for single, columns, player in self.single:
            value = single.derivative(x[..., columns], xs[..., columns], 0, 0)
            found = found[..., player].set(found[..., player] * value)
        found = found[..., None, :]
        if self.linear is None:
            return found
        linear, columns = self.linear
        here, there = (points[..., columns] - linear.center for points in (x, xs))
        each = (linear.weights * here * there)[..., None]
        return found * pt.switch(_member(columns, self.players) > 0.0, each, 1.0)

    @property
    def nodes(self) -> Rule:
        """Exact for one factor for each player."""
        return gauss_legendre(-(-len(self.players) // 2))

    def without_one(self, each: Tensor) -> Tensor:
        """Slope (..., players) of the product in each of its factors (..., players)."""
        return others(each)

    def without_two(self, each: Tensor) -> Tensor:
        """Slope (..., players, players) in two factors, and in one of them on the diagonal."""
        same = np.eye(len(self.players), dtype=bool)
        return others(pt.switch(same, 1.0, each[..., None, :]))

    def of_players(self, values: Tensor, *axes: int) -> Tensor:
        """The same: each player brings one number."""
        return values


@dataclass(frozen=True, eq=False)
class Interactions:
    """Interactions of kernels of one column each, no two of which move together."""

    # They are linear in every player's kernel, like `Factors`, with the same methods.

    players: Players
    variance: Tensor
    kernel: ElementarySymmetric
    columns: np.ndarray  # of the kernel

    def at(self, x: Tensor, xs: Tensor) -> Tensor:
        """The players' kernels (..., 1, players) of points (..., d), 0 of those without one."""
        each = self.kernel.each(x[..., self.columns], xs[..., self.columns])
        return pt.dot(each, self._seats)[..., None, :]

    @property
    def nodes(self) -> Rule:
        """Exact for as many players at a time as interact."""
        return gauss_legendre(-(-self.kernel.order // 2))

    def without_one(self, each: Tensor) -> Tensor:
        """Slope (..., players) of the kernel in each player's (..., players)."""
        return pt.dot(self.kernel.slopes(pt.dot(each, self._seats.T)), self._seats)

    def without_two(self, each: Tensor) -> Tensor:
        """Slope (..., players, players) in two of them, and in one of them on the diagonal."""
        same = np.eye(len(self.players), dtype=bool)
        left = pt.dot(pt.switch(same, 0.0, each[..., None, :]), self._seats.T)
        rest = pt.dot(self.kernel.slopes(left, after=1), self._seats)
        return pt.switch(same, self.without_one(each)[..., None, :], rest)

    def of_players(self, values: Tensor, *axes: int) -> Tensor:
        """The same: each player brings one number."""
        return values

    @property
    def _seats(self) -> np.ndarray:
        return _member(self.columns, self.players)


@dataclass(frozen=True, eq=False)
class Powers:
    """A whole power of a linear kernel plus a constant, with the same methods as `Factors`."""

    # A player contributes the powers of its term of the linear kernel up to this degree, each
    # divided by its factorial: the coefficients of a polynomial in t. The kernel follows from the
    # coefficients of the product of all players' polynomials, up to the degree.

    players: Players
    variance: Tensor
    linear: LinearKernel
    columns: np.ndarray  # of the kernel
    offset: Tensor
    degree: int

    def at(self, x: Tensor, xs: Tensor) -> Tensor:
        """Powers of each player's part (..., 1, players degree) of points (..., d)."""
        here, there = (points[..., self.columns] - self.linear.center for points in (x, xs))
        each = pt.dot(self.linear.weights * here * there, _member(self.columns, self.players))
        order = np.arange(1, self.degree + 1)
        powers = each[..., None] ** order / np.array([math.factorial(k) for k in order])
        return powers.reshape((*powers.shape[:-2], self._width))[..., None, :]

    @property
    def nodes(self) -> Rule:
        """Exact for as many players at a time as there are factors."""
        return gauss_legendre(-(-self.degree // 2))

    def without_one(self, each: Tensor) -> Tensor:
        """Slope (..., players degree) of the kernel in each of the numbers."""
        return self._slopes(each[..., None, :], np.ones((1, self._width)))[..., 0, :]

    def without_two(self, each: Tensor) -> Tensor:
        """Slope in two numbers, (..., players degree, players degree); see also `paired`."""
        same = np.eye(self._width, dtype=bool)
        player = np.arange(self._width) // self.degree
        alike = player[:, None] == player
        lone = pt.switch(alike, same.astype(float), each[..., None, :])
        # If only one number of a player's polynomial is left, which is 1, slopes in the others'
        # numbers are slopes in both.
        rest = self._slopes(lone, np.where(alike, 0.0, 1.0))
        own = self.without_one(each)[..., None, :]
        return pt.switch(same, own, pt.switch(alike, 0.0, rest))

    def of_players(self, values: Tensor, *axes: int) -> Tensor:
        """Sums over each player's numbers along some axes."""
        member = np.repeat(np.eye(len(self.players)), self.degree, axis=0)
        for axis in axes:
            values = pt.moveaxis(pt.dot(pt.moveaxis(values, axis, -1), member), -1, axis)
        return values

    @property
    def _width(self) -> int:
        return len(self.players) * self.degree

    def _slopes(self, each: Tensor, lead: np.ndarray) -> Tensor:
        """Slopes (..., rows, width) at numbers (..., rows, width) of polynomials that begin so."""
        p, top = self.degree, math.factorial(self.degree)
        one = pt.zeros_like(each[..., :1]) + 1.0
        polynomials = [
            pt.concatenate([one * lead[:, k : k + 1], each[..., k : k + p]], axis=-1)
            for k in range(0, self._width, p)
        ]
        none = pt.concatenate([one, pt.zeros_like(each[..., :p])], axis=-1)
        before, after = [none], [none]
        for first, last in zip(polynomials[:-1], polynomials[:0:-1], strict=True):
            before.append(_truncated(before[-1], first))
            after.append(_truncated(last, after[-1]))
        levels = [top / math.factorial(p - k) * self.offset ** (p - k) for k in range(p + 1)]
        levels = pt.stack(levels)
        found = []
        for left, right in zip(before, reversed(after), strict=True):
            others = _truncated(left, right)
            found += [(levels[k:] * others[..., : p + 1 - k]).sum(axis=-1) for k in range(1, p + 1)]
        return pt.stack(found, axis=-1)


def _truncated(one: Tensor, other: Tensor) -> Tensor:
    """Product of two polynomials (..., k) without the powers that these do not have."""
    count = one.type.shape[-1] or other.type.shape[-1]
    return pt.stack(
        [(one[..., : k + 1] * other[..., k::-1]).sum(axis=-1) for k in range(count)], axis=-1
    )


type Linear = Factors | Interactions | Powers
"""A kernel that is linear in the numbers of each player."""


def factors(kernel: Kernel, players: Players) -> list[Linear] | None:
    """Summands of a kernel that are linear in every player's own kernel; None if some are not."""
    columns = np.concatenate([np.array(own) for own in players])
    products = [_factors(parts, players) for parts in _products(kernel, np.sort(columns))]
    known = [product for product in products if product is not None]
    return known if len(known) == len(products) else None


def split(kernel: Kernel, d: int, own: Collection[int]) -> list[tuple[Kernel, Kernel]] | None:
    """Kernels of some columns and of the others whose products add up to a kernel, or None."""
    one, found = Constant(pt.constant(1.0)), []
    for parts in _products(kernel, np.arange(d)):
        pairs: list[tuple[Kernel, Kernel]] = [(one, one)]
        for part, columns in parts:
            sides = _sides(part, columns, np.isin(columns, list(own)))
            pairs = [
                (Product(left, first or one), Product(right, second or one))
                for left, right in pairs
                for first, second in sides
            ]
        if not pairs:
            return None
        found += pairs
    return found


type Sides = list[tuple[Kernel | None, Kernel | None]]
"""Pairs of factors, of some columns and of the others; None for 1."""


def _sides(kernel: Kernel, columns: np.ndarray, inside: np.ndarray) -> Sides:
    """Pairs of factors that add up to a kernel of such columns; none if there are no pairs."""
    if isinstance(kernel, Constant) or inside.all():
        return [(Active(kernel, columns), None)]
    if not inside.any():
        return [(None, Active(kernel, columns))]
    exponential = isinstance(kernel, Stationary) and isinstance(kernel.profile, ExpQuad)
    if not (exponential or isinstance(kernel, LinearKernel)):
        return []
    first, second = (Active(_of_columns(kernel, s), columns[s]) for s in (inside, ~inside))
    return [(first, second)] if exponential else [(first, None), (None, second)]


def _of_columns(kernel: Any, kept: np.ndarray) -> Kernel:
    """The kernel of some of its columns: with the numbers that it has for these."""
    numbers = {k: v for k, v in vars(kernel).items() if getattr(v, "ndim", 0) == 1}
    # One number in a vector is for all columns.
    whole = {name: pt.broadcast_to(value, (len(kept),)) for name, value in numbers.items()}
    return replace(kernel, **{name: value[kept] for name, value in whole.items()})


def _products(kernel: Kernel, columns: np.ndarray) -> list[list[tuple[Kernel, np.ndarray]]]:
    """Lists of kernels with their columns; their products add up to a kernel."""
    if isinstance(kernel, Active):
        return _products(kernel.kernel, columns[kernel.columns])
    if isinstance(kernel, Sum):
        return [*_products(kernel.left, columns), *_products(kernel.right, columns)]
    if isinstance(kernel, Product):
        left, right = (_products(part, columns) for part in (kernel.left, kernel.right))
        return [[*one, *other] for one in left for other in right]
    return [[(kernel, columns)]]


def _factors(parts: list[tuple[Kernel, np.ndarray]], players: Players) -> Linear | None:
    squares: list[tuple[Stationary, np.ndarray]] = []
    single: list[tuple[Kernel, np.ndarray, int]] = []
    variance, linear = pt.constant(1.0), None
    varying = [part for part in parts if not isinstance(part[0], Constant)]
    variances = [part.variance for part, _ in parts if isinstance(part, Constant)]
    if len(varying) == 1:
        ((kernel, columns),) = varying
        if isinstance(kernel, ElementarySymmetric):
            if _member(columns, players).sum(axis=0).max() == 1.0:
                return Interactions(players, reduce(mul, variances, variance), kernel, columns)
        if isinstance(kernel, Power):
            return _powers(kernel, columns, players, reduce(mul, variances, variance))
    for kernel, columns in parts:
        player = [k for k, own in enumerate(players) if set(columns.tolist()) <= set(own)]
        if isinstance(kernel, Constant):
            variance = variance * kernel.variance
        elif isinstance(kernel, Stationary) and isinstance(kernel.profile, ExpQuad):
            squares.append((kernel, columns))
        elif player:
            single.append((kernel, columns, player[0]))
        elif isinstance(kernel, LinearKernel) and linear is None:
            linear = kernel, columns
        else:
            return None
    return Factors(players, variance, squares, single, linear)


def _powers(
    kernel: Power, columns: np.ndarray, players: Players, variance: Tensor
) -> Powers | None:
    """A whole power of a linear kernel plus a constant; None for other powers."""
    base, degree = kernel.kernel, getattr(kernel.exponent, "data", kernel.exponent)
    if not isinstance(base, Sum) or degree not in DEGREES:
        return None
    left, right = base.left, base.right
    if not (isinstance(left, LinearKernel) and isinstance(right, Constant)):
        return None
    return Powers(players, variance, left, columns, right.variance, int(degree))


def _member(columns: np.ndarray, players: Players) -> np.ndarray:
    """Which player each column belongs to, (columns, players) of 0 and 1."""
    return np.array([[float(c in own) for own in players] for c in columns])


def others(each: Tensor) -> Tensor:
    """Products (..., k) of all numbers along the last axis but the own one."""
    ones = pt.ones_like(each[..., :1])
    before = pt.concatenate([ones, pt.cumprod(each[..., :-1], axis=-1)], axis=-1)
    after = pt.concatenate([pt.cumprod(each[..., :0:-1], axis=-1)[..., ::-1], ones], axis=-1)
    return before * after
