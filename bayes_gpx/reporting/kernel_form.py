"""Kernels as plain data, which other programs evaluate: a tree of named kernels and its numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
from bayes_gpx.processes.base import Process
from bayes_gpx.processes.class_process import ClassProcess
from bayes_gpx.processes.gaussian_process import GaussianProcess
from bayes_gpx.processes.indexed_process import IndexedProcess, Part, Same

KNOWN: tuple[type[RadialProfile], ...] = (ExpQuad, Matern52, Matern32, Matern12, Exponential)
"""Profiles without parameters that a form can have."""

type Form = dict[str, Any]
"""A kernel's `kind`, columns and parts, with the places of its parameters among the numbers."""


def form_of_process(
    process: Process, d: int, p: int, codes: int, classes: int | None
) -> tuple[Form, list[Tensor]]:
    """Form of the covariance of f, and its numbers, each (k,).

    The points have the d columns of X; after them, for a weight process, the p columns of Z, as the
    prior variance of z'g(x) is a sum of products of kernels of x with linear kernels of z; then the
    codes of groups and outputs; and last the code of a class.
    """
    numbers: list[Tensor] = []

    def place(value: Any) -> int:
        numbers.append(pt.as_tensor_variable(value).astype("float64").ravel())
        return len(numbers) - 1

    def of(process: Any) -> Form:
        if isinstance(process, ClassProcess):
            return _sum(_product(of(part), table(B)) for part, B in process.each())
        if isinstance(process, IndexedProcess):
            return _sum(of_part(part) for part in process.parts)
        if isinstance(process, GaussianProcess):
            return _form(process.kernel, every, place)
        return _sum(
            _product(_form(kernel, every, place), _linear(weighed, 0.0, pt.sqr(amplitude), place))
            for kernel, amplitude in zip(process.kernels, process.amplitudes, strict=True)
        )

    def of_part(part: Part) -> Form:
        found = of(part.process)
        for index in part.indices:
            if isinstance(index, Same):
                found = _product(found, {"kind": "same", "column": last + index.column})
            else:
                found = _product(found, table(pt.outer(index.loadings, index.loadings)))
        return found

    def table(values: Tensor) -> Form:
        return {"kind": "table", "column": last - (not classes), "values": place(values)}

    every, weighed, last = tuple(range(d)), list(range(d, d + p)), d + p + codes
    form = of(process)
    if classes and not isinstance(process, ClassProcess):  # independent, of one prior
        form = _product(form, {"kind": "same", "column": last})
    return form, numbers


def _sum(parts: Iterable[Form]) -> Form:
    return {"kind": "sum", "parts": list(parts)}


def _product(*parts: Form) -> Form:
    return {"kind": "product", "parts": list(parts)}


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
