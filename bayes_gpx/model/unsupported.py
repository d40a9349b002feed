"""What a specification may not combine, refused with settings that it may."""

from typing import Any

import pymc as pm

from bayes_gpx.model.named_kernels import KERNELS
from bayes_gpx.processes.approximations import Approximation
from bayes_gpx.validation import count, one_of


def refuse_unsupported(spec: Any) -> None:
    """Raise for settings of a `Specification` that are wrong, or that no model has together."""
    if not isinstance(spec.approximation, Approximation | None):
        raise ValueError(
            f"approximation is {spec.approximation!r}. Pass None, bx.Inducing(m), bx.HSGP(m, "
            "c) or bx.RandomFeatures(m, seed)."
        )
    made = isinstance(spec.kernel, pm.gp.cov.BaseCovariance | type)
    if spec.calls_kernel and (made or not callable(spec.kernel)):
        table = hasattr(spec.kernel, "shape")
        given = f"a {type(spec.kernel).__name__}" if table else repr(spec.kernel)
        raise ValueError(
            f"kernel is {given}. Pass a name, names joined by + and *, bx.Precomputed(K), or a "
            "callable kernel(d) that returns a PyMC covariance function, such as lambda d: "
            "pm.HalfNormal('size') ** 2 * pm.gp.cov.Matern52(d, ls=2.0)."
        )
    if spec.levels is not None and spec.expanded:
        raise ValueError(
            f"approximation is {spec.approximation!r}, but a precomputed covariance has no "
            "basis functions. Pass None or bx.Inducing(m)."
        )
    if spec.grouped:
        _refuse_groups(spec)
    if spec.processes:
        _refuse_beside_processes(spec)
    count("correlation", spec.correlation, 0)
    if spec.outputs is None and spec.correlation and not spec.observation.class_shape:
        raise ValueError(
            f"correlation is {spec.correlation}, but y is one response. Pass y as a table "
            "(rows, outputs) of numbers, likelihood='categorical', or correlation=0."
        )
    if spec.outputs is not None:
        _refuse_correlation(spec, "outputs", spec.outputs, "one model for each output")
    elif spec.correlation:
        _refuse_correlation(spec, "classes", spec.classes, "correlation=0")
    for summand in spec.summands:
        for factor in summand:
            if isinstance(factor.kind, str):
                one_of("kernel", factor.kind, KERNELS)


def _refuse_groups(spec: Any) -> None:
    """Raise for settings that groups do not support."""
    if spec.family != "GPX":
        return
    for wrong, expected in (
        (spec.calls_kernel, "a kernel by its name, with a known amplitude"),
        (spec.weight_prior == "horseshoe", "weight_prior='shared' or 'per_feature'"),
        (spec.hierarchical, "representation='collapsed'"),
    ):
        if wrong:
            raise ValueError(f"groups was given to a GPX. Use {expected}.")


def _refuse_beside_processes(spec: Any) -> None:
    """Raise for settings that a likelihood with several processes does not support."""
    for wrong, expected in (
        (spec.family == "GPX", "bx.GP"),
        (spec.calls_kernel, "a kernel by its name"),
        (spec.levels is not None, "a kernel by its name"),
        (spec.grouped, "no groups"),
        (spec.hierarchical, "representation='collapsed'"),
        (spec.constraints is not None, "no constraints"),
        (spec.correlation > 0, "correlation=0"),
    ):
        if wrong:
            names = " and ".join(spec.processes)
            raise ValueError(
                f"likelihood={spec.likelihood!r} has the processes {names}. Use {expected}, or "
                "likelihood='normal'."
            )


def _refuse_correlation(spec: Any, of: str, number: int | None, cure: str) -> None:
    """Raise for settings that correlated functions do not support, and for a wrong rank."""
    what = "y is a table of outputs" if of == "outputs" else "classes correlate"
    classes = of == "classes"
    for wrong, expected in (
        (
            classes and spec.approximation is not None,
            "approximation=None, since correlated classes are exact",
        ),
        (spec.calls_kernel, "a kernel by its name, with a known amplitude"),
        (spec.hierarchical, "representation='collapsed'"),
        (spec.weight_prior == "horseshoe", "weight_prior='shared' or 'per_feature'"),
        (spec.normal and spec.exposed, "no noise_sd"),
    ):
        if wrong:
            raise ValueError(f"{what}. Use {expected}, or fit {cure}.")
    if number is not None and spec.correlation > number:
        raise ValueError(
            f"correlation is {spec.correlation} for {number} {of}. Pass at most as many shared "
            f"functions as there are {of}."
        )
