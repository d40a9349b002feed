"""A check of a user's likelihood: densities, moments and draws against each other."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from numpy.typing import ArrayLike

from bayes_gpx.aliases import Tensor
from bayes_gpx.likelihoods.base import Likelihood, ScalarLikelihood, VectorLikelihood
from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.numerics.jets import Jet
from bayes_gpx.testing.agreement import ROUND_OFF, STEP, agree, require

DRAWS, SIGMAS = 20_000, 6.0
"""Number of responses drawn at each latent value; standard errors that averages may differ by."""

FAR = (30.0, 100.0, 300.0)
"""Latent values, of both signs, where log densities must be finite."""

NODES = (
    " Override `weighed_nodes` with more nodes where p(y | f) is large: if it is log-concave, by "
    "`nodes` of `numerics/gaussian_expectations.py`, as `likelihoods/counts.py` does."
)
"""What to do about expectations over f of p(y | f)."""

OPTIONS: dict[str, Any] = {"mode": MODE, "on_unused_input": "ignore"}
"""How the checks compile their functions."""


def check_likelihood(
    likelihood: Likelihood, y: ArrayLike, theta: Mapping[str, Any] | None = None, *, seed: int = 0
) -> None:
    """Check the functions of a likelihood against each other.

    Derivatives in f are compared with differences; Fisher information, the mean and the variance of
    y, and the density itself with draws of y; expectations under a normal f with quadrature or
    draws. Densities and their derivatives are also checked far out, and against the variable of
    PyMC.

    `read` and `center` are not checked. A model calls `center` only for a likelihood that is
    `exposed` and not `scaled`, and not if it is built with ``scale=False``.

    Parameters
    ----------
    likelihood : ScalarLikelihood or VectorLikelihood
    y : array (n,)
        Responses as `read` encodes them, at which densities are checked; a few are enough.
    theta : dict, optional
        Hyperparameters for which y has four moments; each 1.3 by default, and vectors from -1.3 to
        1.3.
    seed : int
        Seed of the draws.

    Raises
    ------
    AssertionError
        With the difference and its size.

    Examples
    --------
    >>> import bayes_gpx as bx
    >>> bx.testing.check_likelihood(bx.likelihoods.named("poisson"), y=[0.0, 3.0])
    """
    theta = {name: _usual(likelihood, name) for name in likelihood.hyperparameters} | dict(
        theta or {}
    )
    require(
        set(theta) == set(likelihood.hyperparameters),
        f"theta has {sorted(theta)}, but must have {sorted(likelihood.hyperparameters)}.",
    )
    hash(likelihood)
    rng, y = np.random.default_rng(seed), np.asarray(y, "float64")
    if likelihood.class_shape:
        _check_vector(cast(VectorLikelihood, likelihood), theta, y, rng)
    else:
        exposure = _exposure(likelihood)
        _check_scalar(_Scalar(cast(ScalarLikelihood, likelihood), theta, exposure), y, rng)
    _check_variable(likelihood, theta, y, rng)


def _usual(likelihood: Likelihood, name: str) -> Any:
    """A value of a hyperparameter."""
    dim = likelihood.hyperparameters[name].dim
    return 1.3 if dim is None else np.linspace(-1.3, 1.3, len(likelihood.coords[dim]))


def _given(theta: Mapping[str, Any]) -> dict[str, Tensor]:
    """Hyperparameters as constants of graphs."""
    return {name: pt.as_tensor(np.asarray(value, "float64")) for name, value in theta.items()}


def _exposure(likelihood: Likelihood) -> float | None:
    """Exposure, or trials, at which a likelihood is checked."""
    if not likelihood.exposed:
        return None
    return 7.0 if likelihood.exposure_name == "trials" else 1.7


class _Scalar:
    """A scalar likelihood as functions of arrays, which broadcast."""

    def __init__(
        self, likelihood: ScalarLikelihood, theta: Mapping[str, Any], exposure: float | None
    ) -> None:
        self.of, self.theta, self.exposure = likelihood, theta, exposure
        self._compiled: dict[tuple[str, int], tuple[Callable, bool]] = {}

    def __call__(self, name: str, *arrays: ArrayLike) -> Any:
        """Call a method by its name; several outputs become a list."""
        arrays = np.broadcast_arrays(*(np.asarray(a, "float64") for a in arrays))
        key = name, len(arrays)
        if key not in self._compiled:
            self._compiled[key] = self._compile(name, len(arrays))
        function, several = self._compiled[key]
        flat = [np.ascontiguousarray(a.ravel()) for a in arrays]
        exposure = np.full(flat[0].shape, 1.0 if self.exposure is None else self.exposure)
        found = [v.reshape(arrays[0].shape) for v in function(*flat, exposure)]
        return found if several else found[0]

    def _compile(self, name: str, number: int) -> tuple[Callable, bool]:
        symbols = [pt.dvector(f"v{k}") for k in range(number)]
        given, exposure = _given(self.theta), pt.dvector()
        last = None if self.exposure is None else exposure
        arguments = [last] if name in ("response", "expected") else [given, last]
        if name == "expected_log":
            arguments = [given, exposure]
        known = self.of.shaping(given) if name in ("response", "expected") else {}
        found = getattr(self.of, name)(*symbols, *arguments, **known)
        several = isinstance(found, tuple | list)
        outputs = [out + 0.0 * sum(symbols) for out in (found if several else [found])]
        return pytensor.function([*symbols, exposure], outputs, **OPTIONS), several


def _check_scalar(own: _Scalar, y: np.ndarray, rng: np.random.Generator) -> None:
    of = own.of
    f, each = np.linspace(-3.1, 2.9, 7), y[:, None]
    _check_differences(own, f, each)
    far = np.array([sign * value for value in FAR for sign in (1.0, -1.0)])
    with np.errstate(all="ignore"):
        for value in (own("logp", far, each), *own("derivatives", far, each)):
            worst = np.argwhere(~np.isfinite(value))
            said = far[worst[0][1]] if len(worst) else 0.0
            require(np.isfinite(value).all(), f"logp or a derivative is not finite at f = {said}.")
    curvature = own("derivatives", np.concatenate([f, far]), each)[1]
    if of.concave:
        require((curvature <= 0.0).all(), "logp is declared concave in f, and curves upwards.")
    else:
        steps = own("steps", np.concatenate([f, far]), each)
        require((steps > 0.0).all(), f"steps are not positive: {steps.min():.3g}.")
    _check_draws(own, f, rng)
    _check_expectations(own, each, rng)
    if of.comparable:
        _check_predictive(own)


def _check_differences(own: _Scalar, f: np.ndarray, each: np.ndarray) -> None:
    """Derivatives of logp and of the mean response in f, by differences."""
    h = STEP

    def slope(function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        ends = [function(f + s * h) for s in (1.0, -1.0, 2.0, -2.0)]
        return (8.0 * (ends[0] - ends[1]) - (ends[2] - ends[3])) / (12.0 * h)

    found = own("derivatives", f, each)

    def lower_than(order: int, f: np.ndarray) -> np.ndarray:
        return own("derivatives", f, each)[order - 1] if order else own("logp", f, each)

    for order in range(3):
        lower = partial(lower_than, order)
        size = np.abs(lower(f)).max()
        allowed = 1e-7 * np.abs(found[order]) + 1e-9 * np.abs(found[order]).max()
        what = f"Derivative {order + 1} of logp in f"
        agree(what, found[order], slope(lower), allowed + ROUND_OFF / h * max(size, 1e-3) + 1e-9)

    def mean_response(order: int, f: np.ndarray) -> np.ndarray:
        return own("response", f)[order]

    found = own("response", f)
    for order, said in enumerate(("slope", "curvature")):
        exact = slope(partial(mean_response, order))
        allowed = 1e-7 * np.abs(found[order + 1]).max() + ROUND_OFF / h * np.abs(found[0]).max()
        agree(f"The {said} of the mean response", found[order + 1], exact, allowed + 1e-9)


def _averages(what: str, values: np.ndarray, expected: ArrayLike, least: ArrayLike = 0.0) -> None:
    """Compare averages over draws, the last axis, with their expectations."""
    error = values.std(axis=-1) / np.sqrt(values.shape[-1])
    allowed = SIGMAS * error + 1e-9 * np.abs(expected) + least
    agree(what, values.mean(axis=-1), expected, allowed)


def _check_draws(own: _Scalar, f: np.ndarray, rng: np.random.Generator) -> None:
    """The density, its information, and y's moments against draws of y given f."""
    of, wide = own.of, np.repeat(f[:, None], DRAWS, axis=1)
    drawn = of.draw(wide, own.theta, rng, own.exposure)
    require(np.shape(drawn) == wide.shape, "draw gives another shape than that of f.")
    first, second, _ = own("derivatives", wide, drawn)
    information = own("fisher", f)
    rare = SIGMAS**2 / DRAWS * np.maximum(np.abs(second).max(axis=1), 0.0)  # events never drawn
    _averages("The expected slope of logp, over draws of y,", first, 0.0, np.sqrt(rare) * 0.05)
    _averages("The expected squared slope of logp, over draws,", first**2, information, rare)
    if of.smooth:
        _averages("The expected curvature of -logp, over draws of y,", -second, information, rare)
    center = own("response", f)[0]
    if of.level is None:
        _averages("The mean of draws of y", drawn, center)
    else:
        _averages("The share of draws below y's quantile", drawn < center[:, None], of.level)
    variance = np.broadcast_to(of.variance(f, own.theta, own.exposure), f.shape)
    off = drawn - center[:, None] - of.shift(own.theta)
    finite = np.isfinite(variance)
    _averages("The variance of draws of y", off[finite] ** 2, variance[finite])
    if of.discrete:
        for row, value in enumerate(f):
            values, counts = np.unique(drawn[row], return_counts=True)
            p = np.exp(own("logp", np.full(len(values), value), values))
            error = np.sqrt(p * np.abs(1.0 - p) / DRAWS) + 1.0 / DRAWS
            agree("The share of a number among draws of y", counts / DRAWS, p, SIGMAS * error)
    else:
        middle, scale = np.median(drawn, axis=1), drawn.std(axis=1)
        u = np.linspace(-20.0, 20.0, 100_001)  # so many for a density that ends in a step
        ys = middle[:, None] + scale[:, None] * np.sinh(u)
        with np.errstate(all="ignore"):
            p = np.nan_to_num(np.exp(own("logp", np.repeat(f[:, None], len(u), axis=1), ys)))
            total = (p * scale[:, None] * np.cosh(u)).sum(axis=1) * (u[1] - u[0])
        agree("The integral of the density of y", total, 1.0, 1e-3)


def _check_expectations(own: _Scalar, each: np.ndarray, rng: np.random.Generator) -> None:
    """Expectations where f ~ N(mean, variance), (3,), against quadrature of 4001 nodes."""
    of, mean, variance = own.of, np.array([-1.1, 0.4, 1.3]), np.array([0.3, 1.0, 0.6])
    z = np.linspace(-10.0, 10.0, 4001)
    weights = np.exp(-0.5 * z**2)
    weights /= weights.sum()
    f = mean[:, None] + np.sqrt(variance)[:, None] * z
    for said, found, values in zip(
        ("value", "slope", "curvature"),
        own("expected", mean, variance),
        own("response", f),
        strict=True,
    ):
        exact = values @ weights
        agree(f"The expected {said} of the response", found, exact, 1e-5 * np.abs(exact) + 1e-8)
    logp = own("logp", f, each[..., None])
    first, second, _ = own("derivatives", f, each[..., None])
    found = own("expected_log", mean, np.sqrt(variance), each)
    exact = [logp @ weights, first @ weights, -second @ weights]
    if not of.smooth:

        def average(m: np.ndarray, V: np.ndarray) -> np.ndarray:
            return own("logp", m[:, None] + np.sqrt(V)[:, None] * z, each[..., None]) @ weights

        h = 1e-2
        slope = (average(mean + h, variance) - average(mean - h, variance)) / (2.0 * h)
        narrower, wider = average(mean, variance - h), average(mean, variance + h)
        exact = [logp @ weights, slope, (narrower - wider) / h]

    def agree_at(
        what: str, found: np.ndarray, exact: np.ndarray, allowed: np.ndarray, cure: str = ""
    ) -> None:
        """Compare (n, 3) numbers at each y and normal distribution of f."""
        for at in np.ndindex(found.shape):
            where = f"at y = {each[at[0], 0]:g}, f ~ N({mean[at[1]]}, {variance[at[1]]}),"
            agree(f"{what} {where}", found[at], exact[at], allowed[at], cure)

    for said, value, other in zip(
        ("E logp", "The slope of E logp", "-2 times the slope of E logp in the variance"),
        found,
        exact,
        strict=True,
    ):
        agree_at(said, value, other, 1e-4 * np.abs(other) + 1e-4)
    density = np.exp(logp) @ weights
    found = np.exp(own("log_predictive", each, mean, variance))
    agree_at("The predictive density", found, density, 1e-5 * density + 1e-12, NODES)
    after = np.exp(logp) * weights / density[..., None]
    exact = (after * f).sum(axis=-1)
    spread = (after * (f - exact[..., None]) ** 2).sum(axis=-1)
    moments = own("posterior_moments", each, mean, variance)
    for said, found, other in zip(("mean", "variance"), moments, (exact, spread), strict=True):
        allowed = 5e-4 * np.abs(other) + 1e-5
        agree_at(f"The {said} of f given y", found, other, allowed, NODES)
    if not of.ordered:
        return
    below = own("cumulative_predictive", each, mean, variance)
    h = 1.0 if of.discrete else 1e-4
    ends = [own("cumulative_predictive", each + s, mean, variance) for s in (h, -h)]
    if of.discrete:
        before = np.where(each >= 1.0, ends[1], 0.0)
        agree("The cumulative predictive's rise to y", below - before, density, 1e-5)
    else:
        rate = (ends[0] - ends[1]) / (2.0 * h)
        agree("The slope of the cumulative predictive", rate, density, 1e-5 * density.max() + 1e-6)
    normal = mean + np.sqrt(variance) * rng.standard_normal((DRAWS, 3))
    drawn = of.draw(normal, own.theta, rng, own.exposure)
    share = (drawn[None] <= each[:, None]).mean(axis=1)
    error = np.sqrt(below * np.abs(1.0 - below) / DRAWS) + 1.0 / DRAWS
    agree("The probability of at most y", below, share, SIGMAS * error)


def _jets(x: np.ndarray) -> tuple[Jet, Jet]:
    """Mean and variance of f that vary with one feature, jets at x (m,)."""
    mean = Jet(
        0.2 + 0.7 * x + 0.1 * x**2,
        (0.7 + 0.2 * x)[:, None],
        np.full((len(x), 1, 1), 0.2),
    )
    growth = 0.3 * np.exp(0.4 * x)
    return mean, Jet(0.2 + growth, 0.4 * growth[:, None], 0.16 * growth[:, None, None])


def _check_predictive(own: _Scalar) -> None:
    """What relevance asks: derivatives in x, and information against divergences."""
    of: Any = own.of  # has the `parameters` and the `divergence` of its family
    x, h = np.array([-0.7, 0.3, 1.1]), 1e-4
    theta = {name: np.asarray(value, "float64") for name, value in own.theta.items()}
    at = lambda x: of.predictive(*_jets(x), theta)  # noqa: E731
    here, ahead, behind = at(x), at(x + h), at(x - h)
    require(
        np.abs(of.divergence(here, here)).max() < 1e-12,
        "The divergence of a predictive distribution from itself is not 0.",
    )
    parts = [*zip(here.means, ahead.means, behind.means, strict=True)]
    if here.variance is not None:
        parts.append((here.variance, ahead.variance, behind.variance))
    for jet, up, down in parts:
        first = (up.value - down.value) / (2.0 * h)
        second = (up.first - down.first)[:, 0] / (2.0 * h)
        agree("A predictive parameter's slope in x", jet.first[:, 0], first, 1e-6)
        agree("A predictive parameter's second slope in x", jet.second[:, 0, 0], second, 1e-6)
    rate = sum(known * a.first[:, 0] * b.first[:, 0] for a, b, known in of.parameters(here))
    step = 1e-3
    found = [of.divergence(here, at(x + s * step)) for s in (1.0, -1.0)]
    divergence = 2.0 * (found[0] + found[1]) / (2.0 * step**2)
    agree("The information of a predictive distribution", rate, divergence, 1e-3 * np.abs(rate))


def _check_vector(
    of: VectorLikelihood, theta: Mapping[str, float], y: np.ndarray, rng: np.random.Generator
) -> None:
    (C,), n = of.class_shape, 5
    f = rng.normal(size=(n, C))
    symbol, answer, M = pt.dmatrix("f"), pt.dvector("y"), pt.dtensor3("M")
    mean, sd, root = pt.dmatrix("mean"), pt.dmatrix("sd"), pt.dtensor3("root")
    given = _given(theta)
    response = of.response(symbol)
    information = of.fisher(symbol, given)
    at = pytensor.function(
        [symbol, answer, M],
        [
            of.logp(symbol, answer, given),
            *of.derivatives(symbol, answer, given),
            information,
            response.value,
            cast(Tensor, response.slope),
            of.contracted(symbol, M),
            (M * information).sum(axis=(1, 2)),
        ],
        **OPTIONS,
    )
    labels = np.resize(y, n)
    weights = rng.normal(size=(n, C, C))
    logp, gradient, hessian, fisher, p, rates, contracted, _ = at(f, labels, weights)
    ends = [[at(f + s * STEP * e, labels, weights) for s in (1.0, -1.0)] for e in np.eye(C)]

    def differences(place: int) -> np.ndarray:
        return np.stack([(up[place] - down[place]) / (2.0 * STEP) for up, down in ends], axis=-1)

    agree("The gradient of logp in f", gradient, differences(0), 1e-6)
    size = 1e-6 * np.maximum(1.0, np.abs(hessian).max())
    agree("The negative Hessian of logp in f", hessian, -differences(1), size)
    agree("The derivative of probabilities in f", rates, differences(4), 1e-6)
    agree("contracted", contracted, differences(7), 1e-5)
    if of.labelled:
        agree("The sum of probabilities", p.sum(axis=1), 1.0, 1e-10)
    for size in FAR:
        far = size * np.sign(rng.normal(size=(n, C)))
        found = at(far, labels, weights)[:4]
        require(all(np.isfinite(v).all() for v in found), f"logp is not finite at |f| = {size}.")
    wide = np.repeat(f[:, None], DRAWS, axis=1)
    drawn = of.draw(wide, theta, rng)
    for row in range(n):
        _, first, second, *_ = at(wide[row], drawn[row], np.zeros((DRAWS, C, C)))
        _averages("The expected negative Hessian of logp", np.moveaxis(second, 0, -1), fisher[row])
        outer = np.moveaxis(first[:, :, None] * first[:, None], 0, -1)
        _averages("The expected square of logp's gradient", outer, fisher[row])
        for label in range(C) if of.labelled else ():
            same = (drawn[row] == label).astype(float)
            said = f"The share of label {label} among draws"
            _averages(said, same, p[row, label], SIGMAS / DRAWS)
            one = at(f[row : row + 1], np.array([float(label)]), weights[:1])[0]
            agree(f"exp(logp) of label {label}", np.exp(one[0]), p[row, label], 1e-9)
    spread, sds = 0.4 * np.tril(rng.normal(size=(n, C, C))), 0.3 + rng.random((n, C))
    outputs = [
        of.expected(mean, root).value,
        of.log_predictive(answer, mean, root, given),
        *of.expected_log(mean, sd, answer, given, pt.ones_like(answer)),
        of.expected_information(mean, sd),
    ]
    found = pytensor.function([mean, sd, root, answer], outputs, **OPTIONS)(f, sds, spread, labels)
    for row in range(n):
        z, many = rng.standard_normal((DRAWS, C)), np.full(DRAWS, labels[row])
        empty = np.zeros((DRAWS, C, C))
        logs, _, _, _, probabilities, *_ = at(f[row] + z @ spread[row].T, many, empty)
        _averages("E probabilities", probabilities.T, found[0][row], 1e-2)
        _averages("The predictive probability", np.exp(logs), np.exp(found[1][row]), 1e-2)
        logs, first, second, information, *_ = at(f[row] + z * sds[row], many, empty)
        _averages("E logp", logs, found[2][row], 2e-2)
        _averages("The slope of E logp", first.T, found[3][row], 2e-2)
        own = np.diagonal(second, axis1=1, axis2=2).T
        _averages("-2 times the slope of E logp in the variance", own, found[4][row], 3e-2)
        _averages("E fisher", np.moveaxis(information, 0, -1), found[5][row], 2e-2)


def _check_variable(
    of: Likelihood, theta: Mapping[str, float], y: np.ndarray, rng: np.random.Generator
) -> None:
    """The density of the variable that `dist` makes in PyMC."""
    shape = (len(y), *of.class_shape)
    f, exposure = rng.normal(size=shape), None
    if of.exposed:
        exposure = pt.as_tensor(np.full(len(y), _exposure(of)))
    observed = y.astype(int) if of.discrete else y
    with pm.Model() as model:
        given = _given(theta)
        latent = pm.Flat("f", shape=shape)
        made = of.dist("y", latent, given, exposure, observed=observed)
    require(model.named_vars.get("y") is made, "dist returned another variable than its own.")
    found = model.compile_logp(vars=[made], sum=False)({"f": f})[0]
    exact = pm.draw(of.logp(pt.as_tensor(f), pt.as_tensor(y), given, exposure), mode=MODE)
    agree("The log density of PyMC's variable", found, exact, 1e-7 * np.abs(exact) + 1e-7)
