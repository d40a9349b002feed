"""What a model is made of, apart from its data: kernel, hyperparameters, priors.

A `Specification` decides the structure of every graph and is the key under which compiled
functions are shared: two models with equal specifications never compile twice.
"""

import difflib
import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayes_gpx.approximations import HSGP, Inducing, RandomFeatures
from bayes_gpx.likelihoods import LIKELIHOODS, named
from bayes_gpx.processes import GaussianProcess, WeightProcess

WEIGHT_PRIORS = ("shared", "per_feature", "horseshoe")


def _stationary(cov_class):
    return lambda d, h: cov_class(d, ls=h["lengthscale"])


FACTORS = {
    "expquad": (("lengthscale",), _stationary(pm.gp.cov.ExpQuad)),
    "matern52": (("lengthscale",), _stationary(pm.gp.cov.Matern52)),
    "matern32": (("lengthscale",), _stationary(pm.gp.cov.Matern32)),
    "ratquad": (
        ("lengthscale", "alpha"),
        lambda d, h: pm.gp.cov.RatQuad(d, ls=h["lengthscale"], alpha=h["alpha"]),
    ),
    "periodic": (
        ("lengthscale", "period"),
        lambda d, h: pm.gp.cov.Periodic(d, ls=h["lengthscale"], period=h["period"]),
    ),
    "linear": ((), lambda d, h: pm.gp.cov.Linear(d, c=0.0)),
    "polynomial": (
        ("offset", "degree"),
        lambda d, h: pm.gp.cov.Polynomial(d, c=0.0, d=h["degree"], offset=h["offset"]),
    ),
}
"""Kernel name -> hyperparameters of its own, and PyMC's covariance function from them."""

DEFAULT_PRIORS = {
    "lengthscale": lambda name, dims, d, p: pm.LogNormal(
        name, mu=0.5 * np.log(d) + 0.5, sigma=1.0, dims=dims
    ),
    "alpha": lambda name, dims, d, p: pm.Gamma(name, alpha=2.0, beta=0.5, dims=dims),
    "period": lambda name, dims, d, p: pm.LogNormal(name, mu=0.0, sigma=1.0, dims=dims),
    "offset": lambda name, dims, d, p: pm.HalfNormal(name, sigma=1.0, dims=dims),
    "amplitude": lambda name, dims, d, p: pm.HalfNormal(name, sigma=2.0 / np.sqrt(p), dims=dims),
    "linear amplitude": lambda name, dims, d, p: pm.HalfNormal(
        name, sigma=2.0 / np.sqrt(d * p), dims=dims
    ),
    "polynomial amplitude": lambda name, dims, d, p: pm.HalfNormal(
        name, sigma=2.0 / ((1 + d) * np.sqrt(p)), dims=dims
    ),
    "sigma_w": lambda name, dims, d, p: pm.HalfNormal(name, sigma=0.5 / np.sqrt(p), dims=dims),
    "relative sigma_w": lambda name, dims, d, p: pm.HalfNormal(name, sigma=0.5, dims=dims),
    "sigma": lambda name, dims, d, p: pm.HalfNormal(name, sigma=1.0, dims=dims),
    "nu": lambda name, dims, d, p: pm.Gamma(name, alpha=2.0, beta=0.1, dims=dims),
    "dispersion": lambda name, dims, d, p: pm.LogNormal(name, mu=1.0, sigma=1.5, dims=dims),
}
"""Default priors on the model's scale, with d columns of X and p weighed features.

Weakly informative for standardised data; `docs/priors.md` shows what they imply.
"""

DEFAULT_VALUES = {"degree": 2.0}
"""Hyperparameters that are fixed unless a prior is given."""

MAY_BE_ZERO = ("sigma_w", "relative sigma_w", "offset")


@dataclass(frozen=True)
class Hyperparameter:
    """One hyperparameter: its name, the kind that decides its prior, its dim or None."""

    name: str
    kind: str
    dim: str | None = None

    @property
    def ndim(self):
        """Number of dimensions of one draw."""
        return 0 if self.dim is None else 1


@dataclass(frozen=True)
class Factor:
    """One factor of a named kernel and what its hyperparameters' names begin with."""

    kind: str
    prefix: str


@dataclass(frozen=True)
class Specification:
    """Structure of a model; hashable, without data and without priors.

    Attributes
    ----------
    family : {"GP", "GPX"}
    kernel : str or callable
        Names joined by ``+`` and ``*``, or ``kernel(d) -> pymc.gp.cov.Covariance``.
    ard : bool
        One lengthscale for each feature.
    likelihood : str
        One of `bayes_gpx.likelihoods.LIKELIHOODS`.
    weight_prior : {"shared", "per_feature", "horseshoe"}
        Of GPX: how the amplitudes of the weight functions are related.
    approximation : Inducing, HSGP, RandomFeatures or None
    link : str or None
        Of the likelihood; None for its default.
    classes : int or None
        Number of labels of "categorical".
    """

    family: str
    kernel: str | Callable
    ard: bool = True
    likelihood: str = "normal"
    weight_prior: str = "shared"
    approximation: Any = None
    link: str | None = None
    classes: int | None = None

    def __post_init__(self):
        one_of("likelihood", self.likelihood, LIKELIHOODS)
        if named(self.likelihood, self.link) is named(self.likelihood):
            object.__setattr__(self, "link", None)
        one_of("weight_prior", self.weight_prior, WEIGHT_PRIORS)
        known = RandomFeatures | HSGP | Inducing | None
        if not isinstance(self.approximation, known):
            raise ValueError(
                f"approximation is {self.approximation!r}; expected None, bx.Inducing(m), "
                "bx.HSGP(m, c) or bx.RandomFeatures(m, seed)."
            )
        made = isinstance(self.kernel, pm.gp.cov.BaseCovariance | type)
        if made or not (callable(self.kernel) or isinstance(self.kernel, str)):
            raise ValueError(
                f"kernel is {self.kernel!r}; expected a name, names joined by + and *, or a "
                "callable kernel(d) that returns a PyMC covariance function, such as "
                "lambda d: pm.HalfNormal('size') ** 2 * pm.gp.cov.Matern52(d, ls=2.0)."
            )
        for summand in self.summands:
            for factor in summand:
                one_of("kernel", factor.kind, FACTORS)

    @cached_property
    def summands(self):
        """The named kernel as a sum of products of factors; empty for a callable."""
        if callable(self.kernel):
            return ()
        names = [[f.strip() for f in term.split("*")] for term in self.kernel.split("+")]
        alone = sum(map(len, names)) == 1
        seen, summands = {}, []
        for term in names:
            factors = []
            for kind in term:
                seen[kind] = seen.get(kind, 0) + 1
                repeat = str(seen[kind]) if seen[kind] > 1 else ""
                factors.append(Factor(kind, "" if alone else f"{kind}{repeat}_"))
            summands.append(tuple(factors))
        return tuple(summands)

    @property
    def normal(self):
        """Whether noise is normal, so that all but hyperparameters integrates out exactly."""
        return self.likelihood == "normal"

    @cached_property
    def observation(self):
        """How the response varies around the process; see `bayes_gpx.likelihoods`."""
        likelihood = named(self.likelihood, self.link)
        return likelihood if self.classes is None else replace(likelihood, classes=self.classes)

    @property
    def reader(self):
        """What reads the response; None where it is any finite number."""
        return None if self.normal else self.observation

    @property
    def by_feature(self):
        """Whether each weight function has an amplitude of its own."""
        return self.family == "GPX" and self.weight_prior != "shared"

    @cached_property
    def amplitudes(self):
        """Hyperparameters that scale the summands; a callable kernel has its own."""
        dim = "z_feature" if self.by_feature else None
        if callable(self.kernel):
            return (Hyperparameter("amplitude", "amplitude", dim),) if self.by_feature else ()
        prefixes = [s[0].prefix for s in self.summands] if len(self.summands) > 1 else [""]
        return tuple(
            Hyperparameter(f"{prefix}amplitude", _amplitude_kind(summand), dim)
            for prefix, summand in zip(prefixes, self.summands, strict=True)
        )

    @cached_property
    def hyperparameters(self):
        """All hyperparameters but those that a callable kernel creates."""
        own = [
            Hyperparameter(
                factor.prefix + kind,
                kind,
                "feature" if kind == "lengthscale" and self.ard else None,
            )
            for summand in self.summands
            for factor in summand
            for kind in FACTORS[factor.kind][0]
        ]
        sigma_w = "relative sigma_w" if self.weight_prior == "horseshoe" else "sigma_w"
        weights = [Hyperparameter("sigma_w", sigma_w)] if self.family == "GPX" else []
        noise = [Hyperparameter(k, k) for k in self.observation.hyperparameters]
        return (*own, *self.amplitudes, *weights, *noise)

    def process(self, theta, d, called=None):
        """Prior process on the model's scale, from hyperparameters by name.

        Parameters
        ----------
        theta : dict of tensors
        d : int
        called : pymc.gp.cov.Covariance, optional
            What a callable kernel returned; see `call_kernel`.
        """
        if callable(self.kernel):
            summands = [called]
        else:
            summands = [self._product(summand, theta, d) for summand in self.summands]
        amplitudes = [theta[a.name] for a in self.amplitudes]
        if not self.by_feature:
            if amplitudes:
                summands = [a**2 * k for a, k in zip(amplitudes, summands, strict=True)]
            cov_func = sum(summands[1:], start=summands[0])
            if self.family == "GP":
                return GaussianProcess(cov_func)
            return WeightProcess(cov_func, theta["sigma_w"])
        sigma_w = theta["sigma_w"]
        if self.weight_prior == "horseshoe":
            sigma_w = sigma_w * pt.sqrt(sum(pt.as_tensor(a) ** 2 for a in amplitudes))
        return WeightProcess(summands, sigma_w, amplitudes)

    def call_kernel(self, d):
        """Call a callable kernel in the model on the context stack; None for a named one."""
        if not callable(self.kernel):
            return None
        cov_func = self.kernel(d)
        if not isinstance(cov_func, pm.gp.cov.BaseCovariance):
            raise ValueError(
                f"kernel(d) returned {type(cov_func).__name__}; expected a covariance function "
                "of pymc.gp.cov, complete with its amplitude."
            )
        columns = np.max(getattr(cov_func, "active_dims", 0)) + 1
        if columns > d:
            raise ValueError(
                f"kernel(d) returned a covariance function of {columns} columns; X has {d}. Use "
                "the argument d as its input_dim."
            )
        return cov_func

    def _product(self, summand, theta, d):
        product = None
        for factor in summand:
            own, build = FACTORS[factor.kind]
            cov_func = build(d, {kind: theta[factor.prefix + kind] for kind in own})
            product = cov_func if product is None else product * cov_func
        return product


def _amplitude_kind(summand):
    """Kernels whose variance grows with the number of columns have smaller amplitudes."""
    kinds = {factor.kind for factor in summand}
    growing = [kind for kind in ("polynomial", "linear") if kind in kinds]
    return f"{growing[0]} amplitude" if growing else "amplitude"


def create_variables(specification, priors, training, *, rename):
    """Create the hyperparameters in the model on the context stack.

    Parameters
    ----------
    specification : Specification
    priors : dict
        Hyperparameter name -> callable that returns a PyMC variable, object with
        ``create_variable(name)``, or fixed number(s).
    training : TrainingData
        Where a column of X is told by several features, these share its lengthscale.
    rename : callable
        Turns names of variables and dims into those in the model.

    Returns
    -------
    theta : dict of tensors by hyperparameter name
    fixed : dict of arrays, those of them that are fixed
    """
    if not isinstance(priors, dict):
        raise ValueError(f"priors is a {type(priors).__name__}; expected a dict by name.")
    horseshoe = specification.weight_prior == "horseshoe" and specification.by_feature
    parts = [f"{a.name}_{part}" for a in specification.amplitudes for part in HORSESHOE_PARTS]
    known = [h.name for h in specification.hyperparameters] + (parts if horseshoe else [])
    for name in priors:
        one_of("priors", name, known)
    d, p = training.sources
    sizes = {dim: training.size(dim) for dim in ("feature", "z_feature", "column")}
    theta, fixed = {}, {}
    for h in specification.hyperparameters:
        name, dim = h.name, h.dim
        if grouped(h, training):
            name, dim = by_column(h.name), "column"
        dims = dim and rename(dim)
        if h.name not in priors and horseshoe and h in specification.amplitudes:
            theta[h.name] = _horseshoe(h, priors, p, sizes[h.dim], rename)
            continue
        given = [part for part in parts if part in priors and part.startswith(f"{h.name}_")]
        if given and h in specification.amplitudes:
            raise ValueError(f"priors has both {h.name} and its parts {given}; give either.")
        default = DEFAULT_VALUES.get(h.kind, DEFAULT_PRIORS.get(h.kind))
        prior = priors.get(h.name, default)
        if prior is DEFAULT_PRIORS.get(h.kind):
            theta[h.name] = prior(rename(name), dims, d, p)
        elif callable(prior) or hasattr(prior, "create_variable"):
            theta[h.name] = _from_prior(prior, rename(name), dims, sizes.get(dim))
        else:
            fixed[h.name] = fixed_value(h, prior, training)
            theta[h.name] = pt.as_tensor(fixed[h.name])
            continue
        if name != h.name:
            own = pt.broadcast_to(theta[h.name], (sizes["column"],))
            each = own[training.X.groups]
            theta[h.name] = pm.Deterministic(rename(h.name), each, dims=rename(h.dim))
    return theta, fixed


def grouped(h, training):
    """Whether a hyperparameter of each feature has one value for all that tell of one column."""
    return h.dim == "feature" and bool(training.X.levels)


def by_column(name):
    """Name of the variable that holds a hyperparameter of each of the user's columns."""
    return f"{name}_by_column"


HORSESHOE_PARTS = ("global", "local")
_SLAB = 2.0


def _horseshoe(h, priors, p, size, rename):
    """Regularised horseshoe on amplitudes: tau lambda_l, softly capped at the slab's width.

    Piironen and Vehtari, Electronic Journal of Statistics 11 (2017) 5018-5051, equation 2.8.
    """
    dim = rename(h.dim)
    defaults = {
        "global": lambda name, dims: pm.HalfCauchy(name, beta=1.0 / p, dims=dims),
        "local": lambda name, dims: pm.HalfCauchy(name, beta=1.0, dims=dims),
    }
    tau, local = (
        _from_prior(priors.get(f"{h.name}_{part}", default), rename(f"{h.name}_{part}"), dims, many)
        for (part, default), dims, many in zip(
            defaults.items(), (None, dim), (None, size), strict=True
        )
    )
    wide = tau * local
    slab = _SLAB / np.sqrt(p)
    return pm.Deterministic(rename(h.name), wide / pt.sqrt(1 + (wide / slab) ** 2), dims=dim)


def _from_prior(prior, name, dims, size):
    """Create a variable from what the user gave, and check that it is that variable."""
    if not (callable(prior) or hasattr(prior, "create_variable")):
        raise ValueError(f"The prior of {name} is {prior!r}; expected a callable here.")
    model = pm.modelcontext(None)
    if hasattr(prior, "create_variable"):
        variable = prior.create_variable(name)
    else:
        parameters = inspect.signature(prior).parameters
        positional = [
            key
            for key, p in parameters.items()
            if key != "dims"
            and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL)
        ]
        named = {"dims": dims} if "dims" in parameters else {}
        variable = prior(*([name] if positional else []), **named)
    if variable is None or model.named_vars.get(model.name_for(name)) is not variable:
        raise ValueError(
            f"The prior of {name} returned {variable}; expected the variable that it created under "
            f"that name, such as pm.HalfNormal({name!r}). Wrap an expression of other variables in "
            f"pm.Deterministic({name!r}, ...)."
        )
    shape = variable.type.shape
    if len(shape) > (dims is not None) or (shape and shape[0] not in (None, size)):
        wanted = "a scalar" + (f" or {size} values" if dims else "")
        raise ValueError(f"The prior of {name} has shape {shape}; expected {wanted}.")
    return variable


def fixed_value(h, value, training):
    """Check a fixed hyperparameter and broadcast it to its dim.

    Raises
    ------
    ValueError
        If it is not finite and positive (`sigma_w` and `offset` may be 0), or does not fit
        its dim.
    """
    array = np.asarray(value)
    least = "at least 0" if h.kind in MAY_BE_ZERO else "above 0"
    if array.dtype.kind not in "iuf" or not np.isfinite(array).all():
        raise ValueError(f"{h.name} is {value!r}; expected a finite number {least}.")
    if (array < 0).any() or ((array == 0).any() and h.kind not in MAY_BE_ZERO):
        raise ValueError(f"{h.name} is {value!r}; expected {least}.")
    shape = () if h.dim is None else (training.size(h.dim),)
    if grouped(h, training) and array.shape == (training.size("column"),):
        array = array[training.X.groups]
    if array.shape not in ((), shape):
        wanted = "a scalar" + (f" or {shape[0]} values, one for each {h.dim}" if h.dim else "")
        raise ValueError(f"{h.name} has shape {array.shape}; expected {wanted}.")
    return np.broadcast_to(array.astype("float64"), shape)


def count(argument, value, least=1):
    """Raise unless value is a whole number of at least `least`."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < least:
        raise ValueError(f"{argument} is {value!r}; expected a whole number of at least {least}.")


def one_of(argument, value, choices):
    """Raise unless value is among the choices, naming them and the nearest."""
    if not isinstance(value, str) or value not in choices:
        near = difflib.get_close_matches(str(value), choices, 1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"{argument}: unknown {value!r}; expected one of {list(choices)}.{hint}")
