"""From a PyMC covariance function to the package's kernel."""

import math
from dataclasses import replace
from functools import reduce

import numpy as np
import pytensor.tensor as pt
from pymc.gp import cov

from bayes_gpx.kernels.additive import Additive, ElementarySymmetric
from bayes_gpx.kernels.base import HIGHEST_ORDER, Kernel
from bayes_gpx.kernels.centred import Centred, ZeroMean
from bayes_gpx.kernels.composite import Active, Power, Product, Sum, Warped
from bayes_gpx.kernels.elementary import Automatic, Constant, LinearKernel
from bayes_gpx.kernels.precomputed import Labelled, Precomputed
from bayes_gpx.kernels.profiles import PROFILES, AutomaticProfile
from bayes_gpx.kernels.smoothness import measured
from bayes_gpx.kernels.stationary import Stationary


def from_pymc(cov_func: cov.BaseCovariance) -> Kernel:
    """Translate a PyMC covariance function into a kernel with exact derivatives.

    It may be a sum, product, power, or multiple by numbers or random variables. Derivatives of
    covariance functions outside PyMC are automatic; they are available only if they agree with
    finite differences, which are computed here.
    """
    kind = type(cov_func)
    if kind in COMBINATIONS:
        return COMBINATIONS[kind](cov_func)
    if not isinstance(cov_func, cov.BaseCovariance):
        number = pt.as_tensor_variable(cov_func).squeeze().astype("floatX")
        if number.ndim == 0:
            return Constant(number)
    if not isinstance(cov_func, cov.Covariance):
        raise ValueError(
            f"{cov_func!r} is no covariance function of points and no scalar. White noise belongs "
            "in the likelihood, as sigma or sigma_w; jitter is added where it is needed."
        )
    if kind in LEAVES:
        return Active(LEAVES[kind](cov_func), cov_func.active_dims)
    if isinstance(cov_func, cov.Stationary) and kind.full is cov.Stationary.full:
        return Active(_stationary(cov_func), cov_func.active_dims)
    kernel = Automatic(cov_func, kind.__name__)
    smoothness = measured(kernel, cov_func.input_dim)
    kernel = replace(kernel, smoothness=smoothness, measured=True)
    return Active(kernel, np.arange(cov_func.input_dim))


def _gibbs(k: cov.Gibbs) -> Automatic:
    def covariance(X, Xs):
        scale, scale_s = (k.lfunc(points, k.args).flatten() for points in (X, Xs))
        total = pt.sqr(scale)[:, None] + pt.sqr(scale_s)
        return pt.sqrt(2.0 * scale[:, None] * scale_s / total) * pt.exp(-pt.sqr(X - Xs.T) / total)

    return Automatic(covariance, "Gibbs", math.inf)


def _stationary(k: cov.Stationary, period=None) -> Stationary:
    """A kernel with its known profile, or a user's own with an automatic one that is measured."""
    name, ls = type(k).__name__, k.ls.astype("floatX")
    if type(k) in PROFILES:
        return Stationary(name, ls, PROFILES[type(k)].of(k), period)
    own = AutomaticProfile(lambda s2: k.full_from_distance(s2, squared=True), HIGHEST_ORDER)
    found = measured(Stationary(name, ls, own, period), k.n_dims)
    return Stationary(name, ls, replace(own, smoothness=found, measured=True), period)


LEAVES = {
    cov.Periodic: lambda k: _stationary(k, k.period),
    cov.WrappedPeriodic: lambda k: _stationary(k.cov_func, k.period),
    cov.Linear: lambda k: LinearKernel(k.c),
    cov.Polynomial: lambda k: Power(Sum(LinearKernel(k.c), from_pymc(k.offset)), k.d),
    cov.Gibbs: _gibbs,
    cov.WarpedInput: lambda k: Warped(
        from_pymc(k.cov_func), lambda X: k.w(X, k.args), k.cov_func.input_dim
    ),
    Additive: lambda k: ElementarySymmetric(tuple(map(from_pymc, k.parts)), k.variances, k.order),
    Centred: lambda k: ZeroMean(from_pymc(k.base), k.measure),
    Precomputed: lambda k: Labelled(k.matrix),
    cov.Coregion: lambda k: Automatic(k, "Coregion", 0),
}
COMBINATIONS = {
    cov.Add: lambda k: reduce(Sum, map(from_pymc, k._factor_list)),
    cov.Prod: lambda k: reduce(Product, map(from_pymc, k._factor_list)),
    cov.Exponentiated: lambda k: Power(from_pymc(k.kernel), k.power),
    cov.Constant: lambda k: from_pymc(k.c),
}
