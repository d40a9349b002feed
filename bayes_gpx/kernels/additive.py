"""The additive kernel: interactions of every order between one-dimensional kernels."""

# Elementary symmetric polynomials of the features' kernels are computed by recursion over features.
# This avoids 2^d terms, and divisions or differences that would lose digits: Duvenaud, Nickisch and
# Rasmussen, "Additive Gaussian processes", NeurIPS 24 (2011), equations 6 to 11.

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, permutations
from math import comb
from typing import cast

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.kernels.base import Kernel, Pairs
from bayes_gpx.kernels.centred import Centred, measures
from bayes_gpx.kernels.composite import Active
from bayes_gpx.kernels.stationary import Stationary
from bayes_gpx.kernels.tensor_products import (
    Slots,
    TensorProduct,
    on_diagonal,
    partitions,
    sum_of_products,
)


class Additive(pm.gp.cov.Covariance):
    """Build an additive kernel: main effects and interactions up to an order.

    Use it with `components` to separate effects, or with `measure` for `sobol_indices`. ``k(x, x')
    = sum_r variances_r e_r(k_1(x_1, x'_1), ..., k_d(x_d, x'_d))`` with the elementary symmetric
    polynomials e_r, sums over all products of r different features' kernels: order 1 contains main
    effects, order 2 interactions of two features, and so on [1]_. The kernel is as often
    differentiable as the kernel of each feature.

    Parameters
    ----------
    input_dim : int
        Number of columns of the points.
    ls : scalar or tensor (d,)
        Lengthscales of the d features, in their units.
    order : int, optional
        Highest order of interaction; d by default.
    variances : tensor (order,), optional
        Variance of each single product of this order. By default all orders contribute equally to a
        total variance of 1, given kernels of variance 1.
    base : callable
        One feature's covariance function, ``base(1, ls=ls_i)``.
    active_dims : list of int, optional
        The d columns of the kernel; all by default.
    measure : str, tuple or array, optional
        With a measure for each column, the additive kernel is orthogonal: each feature's kernel is
        constrained to functions with mean zero under the measure [2]_ [3]_. One of "gaussian" or
        ``("gaussian", mean, sd)``; "uniform" or ``("uniform", low, high)``; or rows of data (S, d),
        for the empirical measure of each column. Numbers are in the units of the kernel's points,
        and may be one for each column. A model with ``scale=True`` standardizes columns; "gaussian"
        and "uniform" alone have mean 0 and variance 1.

    Raises
    ------
    ValueError
        If `order` is not between 1 and d, or `variances`, `ls` or `measure` do not fit.

    Notes
    -----
    Without a measure, data cannot distinguish effects, interactions and constants. With a measure,
    each has mean zero along each of its features, so components are identified, and
    `sobol_indices` computes their variances. The kernel has no constant; add
    ``pm.gp.cov.Constant``. The guide page on time series and components describes the accuracy.

    References
    ----------
    .. [1] Duvenaud, Nickisch and Rasmussen, "Additive Gaussian processes", NeurIPS 24 (2011),
       equation 9.
    .. [2] Durrande, Ginsbourger, Roustant and Carraro, "ANOVA kernels and RKHS of zero mean
       functions for model-based sensitivity analysis" (2013).
    .. [3] Lu, Boukouvalas and Hensman, "Additive Gaussian processes revisited" (2022).

    Examples
    --------
    >>> import numpy as np
    >>> import bayes_gpx as bx
    >>> kernel = bx.Additive(3, ls=[1.0, 1.0, 2.0], order=2)
    >>> kernel.diag(np.zeros((1, 3))).eval().round(6)
    array([1.])
    """

    def __init__(
        self,
        input_dim: int,
        ls: TensorLike,
        order: int | None = None,
        variances: TensorLike | None = None,
        base: Callable[..., pm.gp.cov.Covariance] = pm.gp.cov.ExpQuad,
        active_dims: Sequence[int] | None = None,
        measure: str | tuple | TensorLike | None = None,
    ) -> None:
        super().__init__(input_dim, active_dims)
        d, scales = self.n_dims, pt.as_tensor_variable(ls)
        order = d if order is None else order
        if not 1 <= order <= d:
            raise ValueError(f"order is {order}, but must be from 1 to the {d} features.")
        if variances is None:
            variances = np.array([1.0 / (order * comb(d, r)) for r in range(1, order + 1)])
        weights = pt.as_tensor_variable(variances).astype("floatX")
        for name, values, size in (("ls", scales, d), ("variances", weights, order)):
            scalar = name == "ls" and values.ndim == 0
            if not scalar and (values.ndim != 1 or values.type.shape[0] not in (None, size)):
                raise ValueError(f"{name} has shape {values.type.shape}, but must have ({size},).")
        self.order, self.variances = order, weights
        self.parts = [base(1, ls=scales if scales.ndim == 0 else scales[i]) for i in range(d)]
        if measure is not None:
            self.parts = [*map(Centred, self.parts, measures(measure, d))]

    def full(self, X: TensorLike, Xs: TensorLike | None = None) -> Tensor:
        """Covariance (n, m) of the points X (n, input_dim) with Xs, or with themselves."""
        own, others = self._slice(X, Xs)
        each = [
            part.full(own[:, [i]], None if others is None else others[:, [i]])
            for i, part in enumerate(self.parts)
        ]
        return over_subsets(each, self.variances, self.order)

    def diag(self, X: TensorLike) -> Tensor:
        """Variance (n,) at the points X (n, input_dim)."""
        own, _ = self._slice(X, None)
        each = [part.diag(own[:, [i]]) for i, part in enumerate(self.parts)]
        return over_subsets(each, self.variances, self.order)


@dataclass(frozen=True, eq=False)
class ElementarySymmetric(Kernel):
    """k = sum_r variances_r e_r of one kernel for each column, r = 1, ..., order."""

    parts: tuple[Kernel, ...]
    variances: Tensor
    order: int

    @property
    def smoothness(self) -> float:  # noqa: D102
        return min(part.smoothness for part in self.parts)

    def each(self, x: Tensor, xs: Tensor) -> Tensor:
        """Every column's kernel (..., d) of points (..., d) in pairs."""
        return self._each(Pairs.of(x, xs), 0, 0)

    def slopes(self, each: Tensor, after: int = 0) -> Tensor:
        """Derivative (..., d) of k in each of its columns' kernels (..., d)."""
        # With `after`, of k's derivative in so many others, which are 0 among `each`.
        apart = [each[..., i] for i in range(len(self.parts))]
        found = _without(apart, _weights(self.variances, self.order)[after:], 1)
        return pt.zeros_like(each) if found is None else found

    def _jet(self, pairs: Pairs, slots: Slots) -> Tensor | None:
        weights = _weights(self.variances, self.order)
        if pairs.matrix:
            columns = [pairs.map(lambda X, i=i: X[:, [i]]) for i in range(len(self.parts))]
            points = zip(self.parts, columns, strict=True)
            return _value([part.value(c.x, c.xs) for part, c in points], weights)
        every = {s for n in range(len(slots) + 1) for s in combinations(slots, n)}
        rates = {key: self._each(pairs, key.count(0), key.count(1)) for key in every}
        values = [rates[()][..., i] for i in range(len(self.parts))]
        terms: list[TensorProduct] = []
        if not slots:
            return _value(values, weights)
        others = {q: _without(values, weights, q) for q in range(1, len(slots) + 1)}
        for blocks in partitions(len(slots)):
            first = tuple(block[0] for block in blocks)
            term: TensorProduct = [(others[len(blocks)], first)]
            for block in blocks:
                own = rates[tuple(slots[p] for p in block)]
                term.append((on_diagonal(own, len(block), len(values)), block))
            terms.append(term)
        return sum_of_products(terms, len(slots))

    def _each(self, pairs: Pairs, i: int, j: int) -> Tensor:
        """Derivatives (..., d) of each column's kernel, i times in x and j times in xs."""
        ends = (..., *[0] * (i + j))
        if self._alike is not None:
            points = pairs.map(lambda points: points[..., None])
            return self._alike.derivative(points.x, points.xs, i, j)[ends]
        columns = [pairs.map(lambda points, a=a: points[..., [a]]) for a in range(len(self.parts))]
        return pt.stack(
            [
                part.derivative(c.x, c.xs, i, j)[ends]
                for part, c in zip(self.parts, columns, strict=True)
            ],
            axis=-1,
        )

    @cached_property
    def _alike(self) -> Stationary | None:
        """One kernel that takes each column for a point; None where more than scales differ."""
        own = [part.kernel for part in self.parts if isinstance(part, Active)]
        stationary = [kernel for kernel in own if isinstance(kernel, Stationary)]
        periods = {kernel.period is None for kernel in stationary}
        profiles = {kernel.profile for kernel in stationary}
        if len(stationary) < len(self.parts) or len(periods) > 1 or len(profiles) > 1:
            return None
        scales = {"lengthscale": [kernel.lengthscale for kernel in stationary]}
        if periods == {False}:
            scales["period"] = [pt.as_tensor(cast(Tensor, kernel.period)) for kernel in stationary]
        stacked = {
            name: pt.stack([value.reshape((1,)) for value in values])
            for name, values in scales.items()
        }
        return replace(stationary[0], **stacked)


def over_subsets(each: Sequence[Tensor], variances: Tensor, order: int) -> Tensor:
    """Sum over subsets of up to `order` arrays (...) of their product times variances[size - 1]."""
    return _value(each, _weights(variances, order))


def slopes_over_subsets(
    each: Sequence[Tensor], variances: Tensor, order: int, q: int
) -> Tensor | None:
    """Derivative of `over_subsets` in q different arrays, (..., d repeated q times); None is 0."""
    return _without(each, _weights(variances, order), q)


def _weights(variances: Tensor, order: int) -> Tensor:
    """Coefficients of e_0, ..., e_order; e_0 is 1 and has none."""
    return pt.concatenate([np.zeros(1), pt.specify_shape(variances, (order,))])


def _absorbed(weights: Tensor, value: Tensor) -> Tensor:
    """Coefficients of e_r(others): e_r(others, value) = e_r(others) + value e_{r-1}(others)."""
    return pt.concatenate([weights[:-1] + value * weights[1:], weights[-1:]])


def _value(each: Sequence[Tensor], weights: Tensor) -> Tensor:
    """Return sum_r weights_r e_r(each), of arrays (...)."""
    weights = pt.expand_dims(weights, list(range(1, each[0].ndim + 1))) * pt.ones_like(each[0])
    for value in each:
        weights = _absorbed(weights, value)
    return weights[0]


def _without(each: Sequence[Tensor], weights: Tensor, q: int) -> Tensor | None:
    """Derivative of `_value` in q different arrays, (..., d repeated q times); None is 0."""
    # It is sum_r weights_r e_{r-q} of the d - q remaining arrays. If i is the last left-out array,
    # later arrays are absorbed into the weights (`behind`), and the e_r of earlier arrays are built
    # forward (`grown`): ``grown[k]`` contains them for each choice of k left-out arrays.
    d, top = len(each), weights.type.shape[0]
    if q > min(d, top - 1):
        return None
    ones, axes = pt.ones_like(each[0]), list(range(1, each[0].ndim + 1))
    behind = [pt.expand_dims(weights, axes) * ones]
    for value in reversed(each[1:]):
        behind.append(_absorbed(behind[-1], value))
    one = pt.expand_dims(pt.as_tensor_variable(np.eye(top)[0]), axes)
    grown: list[tuple[Tensor, list[tuple[int, ...]]]] = [((one * ones)[..., None], [()])]
    found, places = [], []
    for i, (value, rest) in enumerate(zip(each, reversed(behind), strict=True)):
        if len(grown) == q:
            polynomial, left_out = grown[-1]
            found.append((polynomial[: top - q] * rest[q:, ..., None]).sum(axis=0))
            places += [(*chosen, i) for chosen in left_out]
        step = [
            (pt.concatenate([p[:1], p[1:] + value[..., None] * p[:-1]]), chosen)
            for p, chosen in grown
        ]
        for level in range(1, min(len(grown), q - 1) + 1):
            p, chosen = grown[level - 1]
            chosen = [(*c, i) for c in chosen]
            if level == len(grown):
                step.append((p, chosen))
            else:
                wider = pt.concatenate([step[level][0], p], axis=-1)
                step[level] = (wider, [*step[level][1], *chosen])
        grown = step
    found.append(pt.zeros_like(each[0])[..., None])
    index = np.full((d,) * q, len(places))
    for at, place in enumerate(places):
        for order in permutations(place):
            index[order] = at
    return pt.concatenate(found, axis=-1)[..., index]
