"""A check of a user's kernel: values and derivatives against each other."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.gp.cov import BaseCovariance

from bayes_gpx.kernels.base import HIGHEST_ORDER, Kernel
from bayes_gpx.kernels.from_pymc import from_pymc
from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.testing.agreement import ROUND_OFF, STEP, agree, require

WORTH = 1e-2
"""Largest tolerance for inaccurate differences, relative to the largest derivative."""


def check_kernel(
    kernel: BaseCovariance | Kernel | Callable, d: int, *, far: float = 1e6, seed: int = 0
) -> None:
    """Check a kernel's values and derivatives against each other.

    Derivatives of every order that the kernel declares, up to the second in each point, are
    compared with differences of derivatives one order lower, at points that are apart, equal and
    nearly equal, also after moving all points far away. Matrices of values are compared with single
    values, and variances with diagonals. Covariances of values, and of values with gradients, must
    be positive definite.

    Distances of points, and steps of differences, are multiples of the kernel's length in each
    feature: sqrt(k / d^2 k / dx dx'), rounded to a power of 2.

    Parameters
    ----------
    kernel : pymc.gp.cov.Covariance, Kernel or callable
        A ``kernel=`` argument of a model, or a covariance returned by it, or a
        `bayes_gpx.kernels.base.Kernel` of the package. Random hyperparameters are drawn once from
        their priors.
    d : int
        Number of features.
    far : float
        Distance that points are moved, in lengths of the kernel, rounded to a power of 2; a
        function of x - x' must not change. 0 moves no points, for a kernel that is not such a
        function and changes too fast there.
    seed : int
        Seed of the points, and of random hyperparameters.

    Raises
    ------
    AssertionError
        With the difference, its place and size.

    Examples
    --------
    >>> import bayes_gpx as bx
    >>> import pymc as pm
    >>> bx.testing.check_kernel(pm.gp.cov.Matern52(2, ls=[0.7, 1.3]), d=2)
    """
    cov_func: Any = kernel
    if not isinstance(kernel, BaseCovariance | Kernel):
        with pm.Model():
            cov_func = kernel(d)
    own = cov_func if isinstance(cov_func, Kernel) else from_pymc(cov_func)
    rng = np.random.default_rng(seed)
    shift = float(2.0 ** np.round(np.log2(far))) if far else 0.0
    unit = _unit(own, d, seed)
    x, xs, where, moved = _pairs(rng, d, shift)
    X = np.concatenate([rng.normal(size=(16, d)), np.zeros((2, d))])
    X[-1] += 1e-7
    X, x, xs = unit * X, unit * x, unit * xs
    orders = [
        (i, j)
        for i, j in product(range(HIGHEST_ORDER + 1), repeat=2)
        if 0 < i + j and max(i, j) <= own.smoothness
    ]
    graphs: dict[Any, Any] = {
        "gram": own.gram(pt.as_tensor(X)),
        "value": own.value(pt.as_tensor(X), pt.as_tensor(X[:5])),
        "swapped": own.value(pt.as_tensor(X[:5]), pt.as_tensor(X)),
        "matrix": pt.diagonal(own.value(pt.as_tensor(x), pt.as_tensor(xs))),
        "single": own.derivative(x, xs, 0, 0),
        "moved": own.derivative(x + 8.0 * unit, xs + 8.0 * unit, 0, 0),
        "variance": own.derivative(x, x, 0, 0),
        "other variance": own.derivative(xs, xs, 0, 0),
        "diag": own.diag(pt.as_tensor(X)),
    }
    if not isinstance(cov_func, Kernel):
        graphs["pymc"] = cov_func(pt.as_tensor(X), pt.as_tensor(X[:5]))
        graphs["pymc diag"] = pt.diagonal(cov_func(pt.as_tensor(X)))
        if type(cov_func).diag is not BaseCovariance.diag:
            graphs["pymc diag"] = cov_func(pt.as_tensor(X), diag=True)
    steps = STEP * np.array([1.0, -1.0, 0.5, -0.5])
    moves = np.multiply.outer(steps, np.diag(unit))[:, :, None]  # (4, d, 1, d)
    for i, j in orders:
        graphs[i, j] = own.derivative(x, xs, i, j)
        in_xs = j > 0
        left, right = (x, xs + moves) if in_xs else (x + moves, xs)
        lower = own.derivative(left + 0.0 * moves, right + 0.0 * moves, i - (not in_xs), j - in_xs)
        graphs["lower", i, j] = lower
    if own.smoothness >= 1:
        graphs["slopes"] = own.derivative(X[:, None], X[None], 0, 1)
        graphs["curvatures"] = own.derivative(X[:, None], X[None], 1, 1)
    drawn = pm.draw(list(graphs.values()), random_seed=seed, mode=MODE)
    found = dict(zip(graphs, drawn, strict=True))
    for key, order in [(o, sum(o)) for o in orders] + [(("lower", *o), sum(o) - 1) for o in orders]:
        for axis in range(1, order + 1):  # derivatives by x / unit
            found[key] = found[key] * np.expand_dims(unit, tuple(range(1, axis)))

    size = np.sqrt(found["variance"] * found["other variance"])
    for row, (value, pair) in enumerate(zip(found["matrix"], where, strict=True)):
        allowed = 1e-7 * size[row]
        agree(f"The value of {pair}, in a matrix of them,", value, found["single"][row], allowed)
    near, away = found["single"][~moved], found["single"][moved]
    if len(away) and np.allclose(found["moved"][~moved], near, rtol=1e-9, atol=0.0):
        agree(f"The value of points that are moved by {shift:g}", away, near, 1e-7 * size[~moved])
    scale = np.abs(found["gram"]).max()
    agree("k(x, x'), with x and x' swapped,", found["swapped"].T, found["value"], 1e-9 * scale)
    agree("diag", found["diag"], np.diagonal(found["gram"]), 1e-9 * scale)
    if "pymc" in found:
        agree("The package's value", found["value"], found["pymc"], 1e-6 * scale)
        agree("The covariance function's diag", found["pymc diag"], found["diag"], 1e-6 * scale)
    _positive("The covariance of values", found["gram"])
    for i, j in orders:
        _check_derivative(found, i, j, where, moved, size)
    if own.smoothness >= 1:
        slopes, n = found["slopes"].reshape(len(X), -1), len(X)
        curvatures = found["curvatures"].transpose(0, 2, 1, 3).reshape(n * d, n * d)
        joint = np.block([[found["gram"], slopes], [slopes.T, curvatures]])
        _positive("The covariance of values and gradients", joint)
    for order in range(int(min(own.smoothness, HIGHEST_ORDER)) + 1, HIGHEST_ORDER + 1):
        try:
            own.derivative(x, xs, order, order)
        except ValueError:
            continue
        raise AssertionError(
            f"The kernel declares smoothness {own.smoothness}, but has derivatives of order "
            f"{order}. Raise a ValueError for them."
        )


def _unit(own: Kernel, d: int, seed: int) -> np.ndarray:
    """Powers of 2 (d,) near sqrt(k / d^2 k / dx dx'), so that no length is far from 1."""
    if own.smoothness < 1:
        return np.ones(d)
    x = np.random.default_rng(seed).normal(size=(16, d))
    graphs = [own.derivative(x, x, order, order) for order in (0, 1)]
    value, slope = pm.draw(graphs, random_seed=seed, mode=MODE)
    with np.errstate(all="ignore"):
        squared = np.median(value[:, None] / np.diagonal(slope, axis1=1, axis2=2), axis=0)
    usable = (squared > 0.0) & np.isfinite(squared)
    return 2.0 ** np.round(0.5 * np.log2(np.where(usable, squared, 1.0)))


def _pairs(
    rng: np.random.Generator, d: int, shift: float
) -> tuple[np.ndarray, np.ndarray, list[str], np.ndarray]:
    """Points x and xs (n, d), a description of each pair, and whether it is moved (n,)."""
    x = np.round(rng.normal(size=(6, d)) / STEP) * STEP
    way = np.round(rng.normal(size=(6, d)) / STEP) * STEP
    near = {"apart": 1.0, "equal": 0.0, "nearly equal (2^-30)": 2.0**-30, "close (2^-20)": 2.0**-20}
    left, right, where, moved = [], [], [], []
    for (said, share), by in product(near.items(), (0.0, shift) if shift else (0.0,)):
        left.append(x + by)
        right.append(x + by + share * way)
        where += [f"points that are {said}" + (f", moved by {by:g}" if by else "")] * len(x)
        moved += [by != 0.0] * len(x)
    return np.concatenate(left), np.concatenate(right), where, np.array(moved)


def _check_derivative(
    found: dict[Any, np.ndarray],
    i: int,
    j: int,
    where: list[str],
    moved: np.ndarray,
    size: np.ndarray,
) -> None:
    """Derivatives (n, d repeated i + j times) against differences of those one order lower."""
    jet, table = found[i, j], found["lower", i, j]  # table: (4, d, n, ...), the new axis second
    coarse = (table[0] - table[1]) / (2.0 * STEP)
    fine = (table[2] - table[3]) / STEP
    # The derivative's own axis: the last of xs, or of x; those of x come first.
    coarse, fine = (np.moveaxis(v, 0, -1) for v in (coarse, fine))
    n, parts = len(jet), tuple(range(1, jet.ndim))
    largest = np.abs(jet).max(axis=parts)
    scale = np.where(moved, largest[moved].max(initial=0.0), largest[~moved].max())
    # Where a derivative has a kink, differences of all components are as unsure as the worst.
    unsure = np.minimum(4.0 * np.abs(coarse - fine).max(axis=parts), WORTH * scale)
    lost = np.abs(table).max(axis=(0, 1)).reshape(n, -1).max(axis=1) + 1e-5 * size
    allowed = unsure + ROUND_OFF * lost / STEP + 1e-7 * scale
    for row, pair in enumerate(where):
        what = f"The derivative of orders ({i}, {j}) at {pair}"
        agree(what, jet[row], fine[row], allowed[row])


def _positive(what: str, covariance: np.ndarray) -> None:
    """Raise unless a covariance is positive semi-definite, up to round-off."""
    root = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    scale = np.where(root > 0.0, root, 1.0)
    values = np.linalg.eigvalsh(covariance / np.outer(scale, scale))
    require(
        (values > -1e-7 * values.max()).all() and (np.diagonal(covariance) >= 0.0).all(),
        f"{what} is not positive definite: scaled to correlations, its eigenvalues go from "
        f"{values.min():.3g} to {values.max():.3g}.",
    )
