"""The models: Gaussian processes, and Gaussian processes of feature weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from bayes_gpx.aliases import Column, Priors, Table
from bayes_gpx.data.reading import read_data
from bayes_gpx.data.scaling import Scaling
from bayes_gpx.likelihoods import KnownNoise, exposure_of
from bayes_gpx.likelihoods.base import Likelihood
from bayes_gpx.model.constraints import Constraint, read_constraints
from bayes_gpx.model.model import Model
from bayes_gpx.model.specification import Specification
from bayes_gpx.validation import options_named

if TYPE_CHECKING:
    from bayes_gpx.kernels.precomputed import Precomputed
    from bayes_gpx.processes.approximations import Approximation


class GP(Model):
    """Model a response with a Gaussian process.

    ``y = f(x) + noise``: on the scale of the standardized response f is a Gaussian process with
    mean zero, and noise is N(0, sigma^2). Use `GPX` instead for a regression with coefficients that
    vary between rows. "Options of a model" in the guide names the page that explains each option.

    Parameters
    ----------
    X : pandas or polars frame, xarray.DataArray or array (n, d); or out-of-core data
        Columns are numbers, dates or of a categorical type. Out-of-core data are files, Dask frames
        or iterables of frames.
    y : series or array (n,); or a frame or array (n, q); or str
        The response; a table of several outputs; or for out-of-core data, the name of a column.
    kernel : str, Precomputed or callable
        "expquad", "matern52", "matern32", "ratquad", "linear", "polynomial", "periodic", joined by
        ``+`` and ``*``; a function ``kernel(d)`` that returns a PyMC covariance function; or
        `Precomputed`.
    ard : bool
        Give each feature its own lengthscale.
    likelihood : str or likelihood
        "normal", "student_t", "heteroscedastic_normal", "bernoulli", "binomial", "ordinal",
        "categorical", "poisson", "negative_binomial", "zero_inflated_poisson",
        "zero_inflated_negative_binomial", "lognormal", "gamma", "weibull", "loglogistic", "beta",
        "asymmetric_laplace", or one from `likelihoods.asymmetric_laplace` or `.custom`.
    link : {"logit", "probit"}, optional
        Link of "bernoulli", "binomial" and "ordinal"; logit by default.
    approximation : Inducing, HSGP, RandomFeatures or None
        Approximation for many rows; None is exact.
    priors : dict, optional
        For each hyperparameter, by name: a distribution such as ``pm.HalfNormal.dist(1)``, a
        callable that returns a PyMC variable, an object with ``create_variable(name)``, or a
        number, which fixes it.
    exposure, trials, noise_sd : array (n,) or str, optional
        For counts, a factor of the rate; for "binomial", the number of trials; for "normal", the
        known standard deviation of noise. For out-of-core data, the name of a column.
    weights, censoring : array (n,) or str, optional
        Factor of each row's log likelihood; and "none", "left", "right" or "interval".
    resolution : float or sequence of floats, optional
        The step to which y was rounded, in its units; found by default.
    scale : bool
        Standardize X and, for "normal" and "student_t", y. Priors and hyperparameters then refer to
        standardized data; every result is in user units.
    groups : series or array (n,), optional
        A label for each row, such as a person, with a level of its own.
    representation : {"collapsed", "hierarchy"}
        Whether `pymc`, the model's `pymc.Model`, has f as a variable.
    constraints : sequence of constraints
        Knowledge about f in addition to the data, such as `bx.constraints.Increasing`.
    correlation : int
        For several outputs or classes: number of functions that they share.
    name : str
        Prefix of variables and dims, for a model built inside a ``with pm.Model()`` block.

    Raises
    ------
    ValueError
        For data that are not finite, numeric, varying and of matching size, and for unknown names.

    Notes
    -----
    Without an approximation memory grows with n^2 and time with n^3. "Can I trust the intervals?"
    lists combinations that are not supported.

    References
    ----------
    Rasmussen and Williams, "Gaussian Processes for Machine Learning" (2006), section 2.2; section
    3.5 for Laplace's approximation. Bonilla, Chai and Williams, "Multi-task Gaussian process
    prediction" (2008), equation 1, for several outputs.

    Examples
    --------
    >>> import numpy as np
    >>> import bayes_gpx as bx
    >>> X = np.random.default_rng(1).normal(size=(30, 2))
    >>> model = bx.GP(X, np.sin(X[:, 0]), kernel="matern52", priors={"sigma": 0.1})
    >>> list(model.hyperparameters)
    ['lengthscale', 'amplitude', 'sigma']
    >>> idata = model.fit("map", progressbar=False)
    >>> idata["posterior"]["lengthscale"].dims
    ('chain', 'draw', 'feature')
    """

    @options_named
    def __init__(
        self,
        X: Table,
        y: Column | str,
        *,
        kernel: str | Precomputed | Callable[[int], Any] = "expquad",
        ard: bool = True,
        likelihood: str | Likelihood = "normal",
        link: str | None = None,
        approximation: Approximation | None = None,
        priors: Priors | None = None,
        scale: bool = True,
        exposure: Column | str | None = None,
        trials: Column | str | None = None,
        noise_sd: Column | str | None = None,
        weights: Column | None = None,
        censoring: Column | None = None,
        resolution: float | Sequence[float] | None = None,
        groups: Column | None = None,
        representation: Literal["collapsed", "hierarchy"] = "collapsed",
        constraints: Sequence[Constraint] = (),
        correlation: int = 0,
        name: str = "",
    ) -> None:
        specification = Specification(
            "GP",
            kernel,
            ard,
            likelihood,
            approximation=approximation,
            link=link,
            representation=representation,
            grouped=groups is not None,
        )
        specification = _with_noise(specification, noise_sd, priors)
        given = {"exposure": exposure, "trials": trials, "noise_sd": noise_sd}
        exposure = exposure_of(specification.observation, **given)
        training = read_data(
            X,
            y,
            specification.observation,
            weighs=False,
            scale=scale,
            levels=specification.levels,
            exposure=exposure,
            resolution=resolution,
            groups=groups,
            weights=weights,
            censoring=censoring,
        )
        outputs = None if training.outputs is None else len(training.outputs.names)
        known = read_constraints(constraints, training, specification)
        specification = replace(
            specification, constraints=known, outputs=outputs, correlation=correlation
        )
        super().__init__(training, specification, priors=priors, scale=scale, name=name)


class GPX(Model):
    """Model a response by a regression with weights that vary with x [1]_.

    ``y = z' w(x) + noise``, ``w_l(x) = g_l(x) + eps_w,l``: the weight functions g_l are zero-mean
    Gaussian processes with the kernel, `eps_w` ~ N(0, sigma_w^2) are deviations of each row, and
    noise is N(0, sigma^2). Use `GP` if you need no coefficients.

    Parameters
    ----------
    X : pandas or polars frame, xarray.DataArray or array (n, d); or out-of-core data
        Features that the weights depend on. Out-of-core data, as in `GP`, contain all columns; the
        features are all columns but y, the exposure and the columns of Z.
    y : series or array (n,); or a frame or array (n, q); or str
        The response, or a table of several outputs, as in `GP`; for out-of-core data, the name of a
        column.
    Z : like X, (n, p), optional; or list of str
        Features that have weights; X itself by default. Each level of a categorical column has its
        own weight. A sparse matrix stays sparse ("Large data" in the guide). For out-of-core data,
        names of columns.
    kernel, ard, likelihood, link, approximation, priors, scale, name
        As in `GP`; `scale` standardizes Z too.
    exposure, trials, noise_sd, weights, censoring, resolution
        As in `GP`; not every model has `weights`.
    correlation
        As in `GP`, for a table of outputs: the number of weight functions, for each column of Z,
        that the outputs share.
    constraints
        As in `GP`, and `bx.constraints.Weight`.
    groups : series or array (n,), optional
        As in `GP`, but each group adds its own weight functions, ``g_l(x) + v_l,g(x)``.
    representation : {"collapsed", "hierarchy"}
        As in `GP`. A hierarchy has `g`, `eps_w`, the weights `w`, their sum, and `f`.
    weight_prior : {"shared", "per_feature", "horseshoe"}
        "shared": one amplitude for all weight functions. "per_feature": one amplitude for each.
        "horseshoe": one amplitude for each under a regularized horseshoe prior, with sd ``sigma_w
        amplitude_l`` for `eps_w,l`.
    intercept : bool
        Add a constant 1 to Z, as the last column `intercept`.

    Notes
    -----
    `sigma_w` is weakly identified. State its prior when you publish weights of training rows.

    References
    ----------
    .. [1] Yoshikawa and Iwata, "Gaussian process regression with interpretable sample-wise
       feature weights", IEEE Transactions on Neural Networks and Learning Systems 34 (2023)
       5789-5803, equations 3 to 6 and 13.

    Examples
    --------
    Coefficients of one feature that vary with place:

    >>> import numpy as np
    >>> import bayes_gpx as bx
    >>> rng = np.random.default_rng(1)
    >>> places, size = rng.normal(size=(40, 2)), rng.normal(size=(40, 1))
    >>> price = size[:, 0] * np.sin(places[:, 0])
    >>> model = bx.GPX(places, price, size, intercept=True)
    >>> model.pymc.coords["z_feature"]
    ('z0', 'intercept')
    """

    @options_named
    def __init__(
        self,
        X: Table,
        y: Column | str,
        Z: Table | None = None,
        *,
        kernel: str | Precomputed | Callable[[int], Any] = "expquad",
        ard: bool = True,
        likelihood: str | Likelihood = "normal",
        link: str | None = None,
        approximation: Approximation | None = None,
        priors: Priors | None = None,
        scale: bool = True,
        exposure: Column | str | None = None,
        trials: Column | str | None = None,
        noise_sd: Column | str | None = None,
        weights: Column | None = None,
        censoring: Column | None = None,
        resolution: float | Sequence[float] | None = None,
        groups: Column | None = None,
        representation: Literal["collapsed", "hierarchy"] = "collapsed",
        constraints: Sequence[Constraint] = (),
        correlation: int = 0,
        name: str = "",
        weight_prior: Literal["shared", "per_feature", "horseshoe"] = "shared",
        intercept: bool = False,
    ) -> None:
        specification = Specification(
            "GPX",
            kernel,
            ard,
            likelihood,
            weight_prior,
            approximation,
            link,
            representation=representation,
            grouped=groups is not None,
        )
        specification = _with_noise(specification, noise_sd, priors)
        given = {"exposure": exposure, "trials": trials, "noise_sd": noise_sd}
        exposure = exposure_of(specification.observation, **given)
        training = read_data(
            X,
            y,
            specification.observation,
            Z,
            weighs=True,
            intercept=intercept,
            scale=scale,
            levels=specification.levels,
            exposure=exposure,
            resolution=resolution,
            groups=groups,
            weights=weights,
            censoring=censoring,
        )
        outputs = None if training.outputs is None else len(training.outputs.names)
        if training.sparse:
            _refuse_dense(specification, constraints, outputs)
        known = read_constraints(constraints, training, specification)
        specification = replace(
            specification, constraints=known, outputs=outputs, correlation=correlation
        )
        super().__init__(training, specification, priors=priors, scale=scale, name=name)


def _with_noise(
    specification: Specification, noise_sd: Column | str | None, priors: Priors | None
) -> Specification:
    """The specification, with the noise of each row if it is known."""
    if noise_sd is None or not specification.normal:
        return specification
    return replace(specification, likelihood=KnownNoise("sigma" in (priors or {})), link=None)


def _refuse_dense(
    specification: Specification, constraints: Sequence[Constraint], outputs: int | None
) -> None:
    """Raise for settings that need every value of Z, where Z is sparse."""
    for wrong, setting, cure in (
        (specification.weight_prior != "shared", "weight_prior", "weight_prior='shared'"),
        (specification.approximation is not None, "approximation", "approximation=None"),
        (specification.hierarchical, "representation", "representation='collapsed'"),
        (len(constraints) > 0, "constraints", "no constraints"),
        (outputs is not None, "y with several outputs", "one model for each output"),
    ):
        if wrong:
            raise ValueError(
                f"Z is sparse, which {setting} does not support. Use {cure}, or pass Z.toarray(), "
                "of a frame Z.sparse.to_dense()."
            )


def plain_regression(model: Model, kernel: Callable[[int], Any], levels: bool) -> GP:
    """A GP of the same response, likelihood and noise priors with another kernel, not fitted."""
    # Its features are those of X, or of Z for a GPX. It has no approximation or constraints, and
    # groups only if they shall have `levels`.
    training, known = model.training, model.specification
    training.refuse_sparse("baselines=True")
    if training.streamed or training.outputs is not None or known.levels is not None:
        raise ValueError(
            "baselines=True needs one response and a table of features in memory. Leave it out, "
            "and pass your own baselines in models."
        )
    if training.Z is not None and not training.tied:
        p = training.p - training.intercept
        center, scale = training.Z_scaling.center[:p], training.Z_scaling.scale[:p]
        training = replace(training, X=training.Z.first(p), X_scaling=Scaling(center, scale))
    training = replace(training, Z=None, Z_scaling=None, z_is_x=False, intercept=False)
    levels = levels and training.groups is not None
    training = training if levels else replace(training, groups=None)
    noise = known.observation.hyperparameters
    priors = {name: prior for name, prior in model.priors.items() if name in noise}
    plain = Specification(
        "GP",
        kernel,
        likelihood=known.likelihood,
        link=known.link,
        classes=known.classes,
        grouped=levels,
    )
    return GP.restored(training, plain, priors=priors, scale=model.scale, name="")
