"""Kernels as plain data, which other programs evaluate: a tree of named kernels and its numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor
from bayes_gpx.kernels.additive import ElementarySymmetric
from bayes_gpx.kernels.base import Kernel, name_of
from bayes_gpx.kernels.composite import Active, Product, Sum
from bayes_gpx.kernels.elementary import Constant, LinearKernel
from bayes_gpx.kernels.profiles import (
    Exponential,
    ExpQuad,
    Matern12,
    Matern32,
    Matern52,
    RadialProfile,
    RatQuad,
)
from bayes_gpx.kernels.stationary import Stationary
from bayes_gpx.processes.gaussian_process import GaussianProcess
from bayes_gpx.processes.weight_process import WeightProcess

KNOWN: tuple[type[RadialProfile], ...] = (ExpQuad, Matern52, Matern32, Matern12, Exponential)
"""Profiles without parameters that a form can have."""

type Form = dict[str, Any]
"""A kernel's `kind`, columns and parts, with the places of its parameters among the numbers."""


def form_of_process(
    process: GaussianProcess | WeightProcess, d: int, p: int
) -> tuple[Form, list[Tensor]]:
    """Form of the covariance of f, and its numbers, each (k,).

    The points have the d columns of X and, for a weight process, after them the p columns of Z:
    the prior variance of z'g(x) is a sum of products of kernels of x with linear kernels of z.
    """
    numbers: list[Tensor] = []

    def place(value: Any) -> int:
        numbers.append(pt.atleast_1d(pt.as_tensor_variable(value)).astype("float64"))
        return len(numbers) - 1

    every = tuple(range(d))
    if isinstance(process, GaussianProcess):
        return _form(process.kernel, every, place), numbers
    weighed = list(range(d, d + p))
    parts = [
        {
            "kind": "product",
            "parts": [
                _form(kernel, every, place),
                _linear(weighed, 0.0, pt.sqr(amplitude), place),
            ],
        }
        for kernel, amplitude in zip(process.kernels, process.amplitudes, strict=True)
    ]
    return {"kind": "sum", "parts": parts}, numbers


def _form(kernel: Kernel, columns: Sequence[int], place: Callable[[Any], int]) -> Form:
    if isinstance(kernel, Active):
        return _form(kernel.kernel, [columns[int(c)] for c in kernel.columns], place)
    if isinstance(kernel, Sum | Product):
        parts = [_form(part, columns, place) for part in (kernel.left, kernel.right)]
        return {"kind": type(kernel).__name__.lower(), "parts": parts}
    if isinstance(kernel, ElementarySymmetric):
        each = [_form(part, [columns[i]], place) for i, part in enumerate(kernel.parts)]
        own = {"variances": place(kernel.variances), "order": kernel.order}
        return {"kind": "additive", "parts": each, **own}
    if isinstance(kernel, Constant):
        return {"kind": "constant", "variance": place(kernel.variance)}
    if isinstance(kernel, LinearKernel):
        return _linear(columns, kernel.center, kernel.weights, place)
    if isinstance(kernel, Stationary) and isinstance(kernel.profile, (*KNOWN, RatQuad)):
        profile = kernel.profile
        return {
            "kind": type(profile).__name__,
            "columns": list(columns),
            "lengthscale": place(kernel.lengthscale),
            "period": None if kernel.period is None else place(kernel.period),
            "alpha": place(profile.alpha) if isinstance(profile, RatQuad) else None,
        }
    raise ValueError(
        f"The kernel has the part {name_of(kernel)}, which the page cannot evaluate. It evaluates "
        "sums and products of ExpQuad, Matern, RatQuad, Periodic, Linear, Constant and Additive "
        "(without a measure)."
    )


def _linear(columns: Sequence[int], center: Any, weights: Any, place: Callable[[Any], int]) -> Form:
    own = {"center": place(center), "weights": place(weights)}
    return {"kind": "linear", "columns": list(columns), **own}


def differentiable(form: Form) -> bool:
    """Whether a form's process has derivatives."""
    own = form["kind"] not in {Matern12.__name__, Exponential.__name__}
    return own and all(map(differentiable, form.get("parts", ())))
