"""Variances of the components of an orthogonal additive kernel, expected over the posterior.

Under the product of the measures, a component f_u of features u has the variance V_u, the integral
of f_u^2. Let s_u be the kernel's variance of this order, C and alpha of the posterior, and for each
feature v_i = E_s k_i(s, s) and G_i = E_s k_i(X, s) k_i(s, X'). Then

    E[V_u] = s_u prod_i v_i + s_u^2 sum(Q o G_i o G_j o ...),    Q = alpha alpha' - C,

with products over the features of u. All components together are a sum over subsets, like the
kernel, so the total includes every order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import combinations
from operator import mul
from typing import Any, cast

import numpy as np
import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor
from bayes_gpx.kernels.additive import ElementarySymmetric, over_subsets
from bayes_gpx.kernels.base import Kernel
from bayes_gpx.kernels.centred import Measure, ZeroMean
from bayes_gpx.kernels.composite import Active
from bayes_gpx.kernels.elementary import Constant
from bayes_gpx.kernels.normal_form import Term, terms
from bayes_gpx.numerics.linear_algebra import solve, solve_root
from bayes_gpx.posteriors.gaussian import Gaussian
from bayes_gpx.posteriors.low_rank import LowRankGaussian


def orthogonal(kernel: Kernel, d: int) -> Term:
    """The term of a kernel that is orthogonal and additive, if all others are constants.

    Raises ValueError for any other kernel.
    """
    varying = [term for term in terms(kernel, d) if not isinstance(term.kernel, Constant)]
    if len(varying) == 1 and isinstance(varying[0].kernel, ElementarySymmetric):
        if all(isinstance(_constrained(part), ZeroMean) for part in varying[0].kernel.parts):
            return varying[0]
    raise ValueError(
        "The kernel's components are not orthogonal, so their variances do not add up. Use one "
        "bx.Additive(..., measure=...), perhaps with a constant: kernel=lambda d: bx.Additive(d, "
        "ls, 2, measure='gaussian') + pm.gp.cov.Constant(1.0)."
    )


def component_variances(posterior: Gaussian | LowRankGaussian, order: int) -> list[Tensor]:
    """Expected variances of components, on the model's scale.

    The posterior, of any operator, is a `GaussianProcess` given values at rows, with or without
    noise, or through inducing values. Returns tensors: of each component of up to `order` features
    (k,); of f, a scalar; and of all components without a feature (d,).
    """
    process, u, Q = _given(posterior)
    term = orthogonal(process.kernel, u.x.type.shape[1])
    additive, x = cast(ElementarySymmetric, term.kernel), term.of(u.x)
    variances = additive.variances * (1.0 if term.variance is None else term.variance)
    parts = [
        _expected(cast(ZeroMean, _constrained(part)), x[:, [i]])
        for i, part in enumerate(additive.parts)
    ]
    columns, most = range(len(parts)), min(order, additive.order)

    def total(some: Sequence[int]) -> Tensor:
        spread, squares = zip(*(parts[i] for i in some), strict=True)
        prior = over_subsets(spread, variances, additive.order)
        return prior + (Q * over_subsets(squares, variances**2, additive.order)).sum()

    def alone(chosen: Sequence[int]) -> Tensor:
        spread, squares = (reduce(mul, [parts[i][side] for i in chosen]) for side in (0, 1))
        variance = variances[len(chosen) - 1]
        return variance * spread + variance**2 * (Q * squares).sum()

    each = [alone(own) for size in range(1, most + 1) for own in combinations(columns, size)]
    others = [[j for j in columns if j != i] for i in columns]
    without = [total(some) if some else pt.zeros(()) for some in others]
    return [pt.stack(each), total(columns), pt.stack(without)]


def _given(posterior: Gaussian | LowRankGaussian) -> tuple[Any, Any, Tensor]:
    """The process, the values it is conditioned on, and Q.

    For inducing values with the Cholesky factor R of their covariance, the coefficients R^-1 u have
    a posterior N(a, V), so Q = R^-T (a a' - I + V) R^-1.
    """
    if isinstance(posterior, Gaussian):
        alpha = posterior.alpha
        return posterior.process, posterior.u, alpha[:, None] * alpha - posterior.C
    a, seen, spread = posterior.coefficients, posterior.seen, posterior.spread
    one = pt.eye(a.shape[0])
    V = solve(posterior.root, one) if spread is None else pt.dot(spread, spread.T)
    half = solve_root(seen.inducing_root, one)
    return seen.process, seen.inducing, pt.dot(half.T, pt.dot(a[:, None] * a - one + V, half))


def measure_of(part: Kernel) -> Measure:
    """The measure under which a part of an orthogonal additive kernel has a mean of zero."""
    return cast(ZeroMean, _constrained(part)).measure


def _constrained(part: Kernel) -> Kernel:
    return part.kernel if isinstance(part, Active) else part


def _expected(kernel: ZeroMean, x: Tensor) -> tuple[Tensor, Tensor]:
    """E_s k(s, s), a scalar, and E_s k(x, s) k(s, x'), (n, n)."""
    points = pt.constant(np.asarray(kernel.measure.points)[:, None])
    weights = kernel.measure.weights
    cross = kernel.value(x, points)
    return pt.dot(weights, kernel.diag(points)), pt.dot(cross * weights, cross.T)
