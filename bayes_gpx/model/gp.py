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
    vary between rows.

    Parameters
    ----------
    X : pandas or polars frame, xarray.DataArray or array (n, d); or out-of-core data
        A column of a categorical type, ``X["colour"].astype("category")``, is represented by an
        indicator for each level, such as `colour=red`; the indicators share one lengthscale (see
        Notes). A column of dates is converted to days since the first row, slopes along it are per
        day, and new rows have dates too. Times with a time zone are not supported.

        Out-of-core data need not fit into memory. X is then the path of a Parquet or Arrow file, of
        a folder of these or a glob, such as ``"rides/*.parquet"``, or a list of files; a pyarrow
        Dataset or Table; a Dask data frame; or an iterable of pandas or polars frames that can be
        iterated repeatedly. All columns but y and the exposure are features. This needs an
        approximation; see Notes.
    y : series or array (n,); or a frame or array (n, q); or str
        A table contains several outputs, one in each column, for every likelihood but
        "categorical"; labels are the same in all outputs. Missing values are allowed, and columns
        of arrays are named y0, y1, ... For out-of-core data, the
        name of a column.
    kernel : str, Precomputed or callable
        "expquad", "matern52", "matern32", "ratquad", "linear", "polynomial", "periodic", joined by
        ``+`` and ``*``; a function ``kernel(d)``, called inside the model, that returns a PyMC
        covariance function including its amplitude; or `Precomputed`, a covariance between labelled
        objects, with their labels as the only column of X.
    ard : bool
        Give each feature its own lengthscale.
    likelihood : str or likelihood
        "normal", "student_t", "heteroscedastic_normal", "bernoulli", "binomial", "ordinal",
        "categorical", "poisson", "negative_binomial", "zero_inflated_poisson",
        "zero_inflated_negative_binomial", "lognormal", "gamma", "weibull", "loglogistic", "beta",
        or one from `likelihoods.custom`. With "heteroscedastic_normal", the mean and the log
        standard deviation of y are each a process, with hyperparameters of its own.
        Class labels may be strings, booleans or whole numbers. With "bernoulli", for two classes, f
        is the log odds (or the probit, depending on `link`) of the second class in sorted order.
        "ordinal" is for whole numbers that are ordered categories. With "categorical", each class
        has its own function, all functions share their hyperparameters, and probabilities are
        their softmax. For counts, f is the log rate, and for positive y the log mean. All
        likelihoods but "normal" use Laplace's approximation or, with `approximation`, the best
        Gaussian posterior.
    link : {"logit", "probit"}, optional
        Link of "bernoulli", "binomial" and "ordinal"; logit by default.
    approximation : Inducing, HSGP, RandomFeatures or None
        Approximation for many rows; None is exact.
    priors : dict, optional
        For each hyperparameter, by name, one of: a distribution such as ``pm.HalfNormal.dist(1)``,
        independent for each feature if the hyperparameter has a value for each; a callable that
        returns a PyMC variable (called with the name, and with `dims` if it takes them); an object
        with ``create_variable(name)``; or a number, which fixes the hyperparameter.
    exposure : array (n,) or str, optional
        For counts: a factor of the rate, such as the time of observation. For out-of-core data, the
        name of a column.
    trials : array (n,) or str, optional
        For "binomial": the number of trials of each row; 1 by default. For out-of-core data, the
        name of a column.
    noise_sd : array (n,) or str, optional
        For "normal" and one output: the known standard deviation of each row's noise, in units of
        y. The model then has no `sigma`, unless `priors` has one: noise is N(0, noise_sd^2 +
        sigma^2). For out-of-core data, the name of a column.
    weights : array (n,), optional
        Multiplies the log likelihood of each row: a row of weight 2 counts as two equal rows, also
        for centers and scales. Their mean should be 1: see "Choose a likelihood" in the guide. A
        `GPX` needs ``priors={"sigma_w": 0}``. Predictions and draws of y are of rows of weight 1;
        `elpd` adds up weight times log density.
    censoring : array (n,), optional
        "none", "left", "right" or "interval" for each row: y is the value itself; is at most that;
        is more than that; or is more than the first and at most the second column of a table y.
        For "normal", "lognormal", "weibull" and "loglogistic". See Notes.
    resolution : float or sequence of floats, optional
        For "normal" and "student_t": the step to which y was rounded, in its units, such as 1 for
        whole numbers; one for each of several outputs. By default it is found from three or more
        distinct values, if a step divides all their differences and fits into their range at most
        200 times; 0 means no rounding. The default prior of `sigma` keeps noise above the rounding
        error, ``sigma >= resolution / sqrt(12)``. Otherwise repeated rows with one rounded response
        would have noise of 0.
    scale : bool
        Standardize X and, for "normal" and "student_t", y (sd with ddof 0); center f at the log of
        the mean rate for counts. Priors and hyperparameters then refer to standardized data; every
        result is in user units.
    groups : series or array (n,), optional
        A label for each row, such as a person. Each group g has its own level, ``f(x, g) = f(x) +
        u_g`` with u_g ~ N(0, group_amplitude^2), estimated jointly from all groups. Explanation
        functions take `groups_new` with `X_new`: a known label continues its group, and an unknown
        label is a new group with a level drawn from the prior. Rows with the same new label share
        one level. See Notes.
    representation : {"collapsed", "hierarchy"}
        The variables in `pymc`, the model's `pymc.Model`. "collapsed": hyperparameters and y; f is
        integrated out or, for a non-Gaussian likelihood, represented by whitened latent values.
        "hierarchy": also f (obs), in user units, with y observed around it, for PyMC's own
        functions and for further terms of a larger model; see Notes.
    constraints : sequence of constraints
        Knowledge about f in addition to the data: `bx.constraints.Increasing` and `Decreasing`,
        `Slope`, `Curvature`, `Interaction`, and `Value`, and in a `GPX` `Weight`. They need a
        Gaussian likelihood, or another log-concave likelihood of one latent value without an
        approximation. In the second case they are in units of f, and observations and bounds are
        normally approximated by expectation propagation. With `groups`, they are about the
        function that all groups share, and need a model without an approximation.
    correlation : int
        For a table of outputs, and for the classes of "categorical": the number of functions that
        they share, the rank of their correlation. With 0, they are independent given their
        hyperparameters. Each output has its own hyperparameters, but noise that is not Gaussian has
        the same ones in all outputs. See Notes.
    name : str
        Prefix of variables and dims, for a model built inside a ``with pm.Model()`` block.

    Raises
    ------
    ValueError
        For data that are not finite, numeric, varying and of matching size, and for unknown names.
        For out-of-core data, the message begins with the file, frame or partition.

    Notes
    -----
    Without an approximation memory grows with n^2 and time with n^3; for C classes with C n^2 and
    C n^3, or with (n C)^2 and (n C)^3 if they correlate. With M basis functions or inducing points
    they grow with n M and n M^2. With `HSGP` and a Gaussian likelihood, a density takes time M^3
    for any n. With inducing points and a Gaussian likelihood, the density is Titsias' bound on the
    exact density. Variances of a variational posterior are too small rather than too large.

    With `groups` and M basis functions or inducing points, time grows with n M^2; in a `GPX`, whose
    groups have K coefficients each, with n (M + K)^2 and K^3 for each group.

    Censoring must not depend on y in any other way than by the bound, and y is centered and scaled
    by the bounds as if they were values. A normal likelihood is no longer conjugate then: f has
    Laplace's approximation, or that of the best Gaussian. Out-of-core data, constraints with an
    approximation or groups, and tables of outputs support neither weights nor censoring.

    Both representations have the same prior of y, the same hyperparameters and the same
    explanations.

    Several outputs are a linear model of coregionalization; correlated classes share functions in
    the same way [1]_. Single loadings are not identified, but `output_covariance` is; for classes
    only `output_covariance_centred`, because softmax depends on differences alone.

    A stationary kernel treats the levels of a category as exchangeable: any two different levels
    have one correlation. Indicators are scaled by the root of their summed variances, so two random
    rows are as far apart as in a standardized column of numbers. A callable kernel takes the
    indicators as columns.

    The guide describes each in a page of its own: "Large data", "Repeated measurements", "Several
    outputs, or classes, that correlate", "Categories, dates and missing values", "Inside a PyMC
    model". "Can I trust the intervals?" lists combinations that are not supported.

    References
    ----------
    .. [1] Bonilla, Chai and Williams, "Multi-task Gaussian process prediction", Advances in Neural
       Information Processing Systems 20 (2008), equation 1; Rasmussen and Williams, "Gaussian
       Processes for Machine Learning" (2006), section 3.5, for Laplace's approximation.

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
        own weight. A SciPy sparse matrix, or a pandas frame of sparse columns, stays sparse; see
        Notes. For out-of-core data, names of columns.
    kernel, ard, likelihood, link, approximation, priors, scale, name
        As in `GP`; `scale` standardizes Z too.
    exposure, trials, noise_sd, weights, censoring, resolution
        As in `GP`.
    correlation
        As in `GP`, for a table of outputs: the number of weight functions, for each column of Z,
        that the outputs share. Each output has weights, and deviations `eps_w`, of its own.
    constraints
        As in `GP`, and `bx.constraints.Weight`.
    groups : series or array (n,), optional
        As in `GP`, but each group adds its own weight functions, ``g_l(x) + v_l,g(x)``, where v has
        the same kernel with `group_amplitude` instead of `amplitude`. A constant in Z (`intercept`)
        gives groups a level that varies with x. This needs a kernel by name, and
        weight_prior="shared" or "per_feature".
    representation : {"collapsed", "hierarchy"}
        As in `GP`. A hierarchy has the weight functions `g`, `eps_w` (unless `sigma_w` is fixed at
        0) and the weights `w`, their sum, all (obs, z_feature) in units of y per unit of z. It also
        has `f` (obs), the sum of ``w_l (z_l - center_l)``, plus the mean of y if the model scales
        its data.
    weight_prior : {"shared", "per_feature", "horseshoe"}
        "shared": one amplitude for all weight functions. "per_feature": one amplitude for each.
        "horseshoe": one amplitude for each under a regularized horseshoe prior, with sd ``sigma_w
        amplitude_l`` for `eps_w,l`.
    intercept : bool
        Add a constant 1 to Z, as the last column `intercept`.

    Notes
    -----
    `sigma_w` is weakly identified: it affects the data only through a variance of y that grows with
    the length of z, so its prior matters. State this prior when you publish weights of training
    rows.

    A sparse Z, such as words or one-hot codes, enters through products of its rows, so memory and
    time grow with its entries. `scale` divides its columns by their root mean squares, but does not
    center them, because centers would fill the matrix. `bayes_gpx.weights` and `contributions`
    return the features that rows have. It needs one response, ``weight_prior="shared"`` and
    rows without an approximation, constraints or hierarchy.

    With `HSGP`, a Gaussian likelihood and ``priors={"sigma_w": 0}`` the density needs only
    sufficient statistics, as in `GP`; M is the number of basis functions times the number of
    weights. Otherwise each density of out-of-core data passes over the rows, and their `eps_w` are
    inferred as for data in memory.

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


def plain_regression(model: Model, kernel: Callable[[int], Any]) -> GP:
    """A GP of the same response, likelihood and noise priors with another kernel, not fitted."""
    # Its features are those of X, or of Z for a GPX. It has no groups, approximation or
    # constraints.
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
    training = replace(training, Z=None, Z_scaling=None, groups=None, z_is_x=False, intercept=False)
    noise = known.observation.hyperparameters
    priors = {name: prior for name, prior in model.priors.items() if name in noise}
    plain = Specification(
        "GP", kernel, likelihood=known.likelihood, link=known.link, classes=known.classes
    )
    return GP.restored(training, plain, priors=priors, scale=model.scale, name="")
