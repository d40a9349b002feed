"""The models: Gaussian processes, and Gaussian processes of feature weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from bayes_gpx.aliases import Column, Priors, Table
from bayes_gpx.data.streamed import read_data
from bayes_gpx.likelihoods import refuse_exposure
from bayes_gpx.model.constraints import Constraint, read_constraints
from bayes_gpx.model.model import Model
from bayes_gpx.model.specification import Specification
from bayes_gpx.validation import options_named

if TYPE_CHECKING:
    from bayes_gpx.kernels.precomputed import Precomputed
    from bayes_gpx.processes.approximations import HSGP, Inducing, RandomFeatures


class GP(Model):
    """Gaussian process regression.

    ``y = f(x) + noise``, where f is a Gaussian process with mean zero on the scale of the
    standardised response, and noise is N(0, sigma^2).

    Parameters
    ----------
    X : pandas or polars frame, xarray.DataArray or array (n, d); or what is read in parts
        A column of a categorical type, ``X["colour"].astype("category")``, is represented by an
        indicator for each level, such as `colour=red`, which share one lengthscale; see Notes. A
        column of dates is read as days since the first row's, slopes along it are per day, and new
        rows have dates too; times with a time zone are refused.

        Rows are read in parts, and need not fit into memory, if X is the path of a Parquet or
        Arrow file, of a folder of these or a glob, such as ``"rides/*.parquet"``, or a list of
        files; a pyarrow Dataset or Table; a Dask data frame; or an iterable of pandas or polars
        frames that can be iterated over again. All columns but y and the exposure are then
        features. This needs an approximation; see Notes.
    y : series or array (n,); or a frame or array (n, q); or str
        A table holds several outputs of each row, one in each column, for normal noise; missing
        values are gaps, and columns of arrays are named y0, y1, ... Where rows are read in parts,
        the name of a column.
    kernel : str, Precomputed or callable
        "expquad", "matern52", "matern32", "ratquad", "linear", "polynomial", "periodic", joined by
        ``+`` and ``*``; or a function ``kernel(d)``, called inside the model, that returns a PyMC
        covariance function including its amplitude; or `Precomputed`, a covariance between labelled
        objects, where X is one column of their labels.
    ard : bool
        Whether each feature has its own lengthscale.
    likelihood : str
        "normal", "student_t", "bernoulli", "categorical", "poisson" or "negative_binomial": how y
        varies around f. Labels may be strings, booleans or whole numbers. "bernoulli" is for two
        labels, and f is the log odds (or the probit, depending on `link`) of the second one in
        sorted order. With "categorical", each class has its own function, all functions share their
        hyperparameters, and probabilities are their softmax. For counts, f is the log rate. All
        likelihoods but "normal" use Laplace's approximation or, with `approximation`, the best
        Gaussian posterior.
    link : {"logit", "probit"}, optional
        Link of "bernoulli"; logit by default.
    approximation : Inducing, HSGP, RandomFeatures or None
        Approximation for many rows; None is exact.
    priors : dict, optional
        For each hyperparameter, by name, one of: a distribution such as ``pm.HalfNormal.dist(1)``,
        independent for each feature if the hyperparameter has a value for each; a callable that
        returns a PyMC variable (called with the name, and with `dims` if it takes them); an object
        with ``create_variable(name)``; or a number, which fixes the hyperparameter.
    exposure : array (n,) or str, optional
        For counts: the factor that the rate is multiplied by, such as the time of observation.
        Where rows are read in parts, the name of a column.
    resolution : float or sequence of floats, optional
        The step that y was recorded to, in its units, such as 1 of whole numbers, for "normal" and
        "student_t"; one for each of several outputs. By default it is found from three or more
        distinct values, if a step that their range holds at most 200 times divides all their
        differences; 0 stands for none.
        Noise is no less than the rounding error, ``sigma >= resolution / sqrt(12)``, by the default
        prior of `sigma`: else rows that are repeated with one rounded response have noise of 0.
    scale : bool
        Whether to standardise X and, for "normal" and "student_t", y (sd with ddof 0), and to
        centre f at the log of the mean rate for counts. Priors and hyperparameters then refer to
        standardised data; every result is in user units.
    groups : series or array (n,), optional
        A label for each row, such as the person who was measured. Each group g then has a level of
        its own, ``f(x, g) = f(x) + u_g`` with u_g ~ N(0, group_amplitude^2), which the data of all
        groups estimate together. Verbs take `groups_new` with `X_new`: a known label continues its
        group, and any other one is a new group, whose level is drawn from its prior. Rows with the
        same new label share one. See Notes.
    representation : {"collapsed", "hierarchy"}
        The variables in `pymc`, the model's `pymc.Model`. "collapsed": hyperparameters and y; the
        function is integrated out or, if noise is not normal, represented by whitened latent
        values. "hierarchy": also f (obs), in user units, with y observed around it, for PyMC's own
        functions and for further terms of a larger model; see Notes.
    constraints : sequence of constraints
        What is known of the function beside the data: `bx.constraints.Increasing` and `Decreasing`,
        `Slope`, `Curvature`, `Interaction`, and `Value`, and in a `GPX` `Weight`. With normal
        noise, and without inducing points; or with another likelihood of one latent value that is
        log-concave in it, and without an approximation. Then they are in units of f, and
        observations and bounds are normally approximated by expectation propagation.
    correlation : int
        For a table of outputs, and for the classes of "categorical": the number of functions that
        they share, which is the rank of what correlates them. With 0, they are independent given
        their hyperparameters. See Notes.
    name : str
        Prefix of variables and dims, for a model built inside a ``with pm.Model()`` block.

    Raises
    ------
    ValueError
        For data that are not finite, numeric, varying and of matching size, and for unknown names.
        For rows in parts, the message begins with the file, frame or partition.

    Notes
    -----
    Without an approximation memory grows with n^2 and time with n^3, for C classes with C n^2 and
    C n^3; with M basis functions or inducing points they grow with n M and n M^2. With inducing
    points and normal noise the model's density is Titsias' bound on the exact one. Variances of a
    variational posterior are too small rather than too large.

    With normal noise and M basis functions that no hyperparameter changes, which are those of
    `HSGP`, rows enter by sums alone. These are made once; a density then takes memory M^2 and time
    M^3, whatever n is. Beyond 2000 rows such a fit has no leave-one-out terms by itself;
    ``bx.log_likelihood(model, idata, obs=rows)`` computes those of some rows.

    All other models of rows in parts pass over them for each density: twice with normal noise,
    once for the coefficients' posterior and once for the bound with its slopes, and with other
    likelihoods once for each step towards that posterior. State and memory are those of M^2 numbers
    and of a few parts, or of all rows where these are at most 256 MB, which are then read once.

    Groups need exact models, without `approximation`. A group does not change with x, so
    attributions and derivatives are those within a group; of a GP they are the same in all groups.
    ``bx.loo_predictions(model, idata, groups=groups)`` predicts each group from all others.

    Both representations have the same prior of y. `fit` infers the same hyperparameters by the same
    density, in which f is integrated out, and explanations are the same. Only `pymc` differs: with
    a hierarchy, ``pm.sample`` and ``fit("nuts", latent="sample")`` sample f too, through standard
    normals `f_white` (obs) or, with `HSGP` and `RandomFeatures`, through coefficients. With
    `Inducing` points f is the process itself. Where there are constraints, such a sampler also
    samples what they are about, through `constrained_white`.

    Several outputs are a linear model of coregionalisation,
    ``f_o(x) = h_o(x) + sum_r loading[o, r] g_r(x)``, with noise N(0, sigma_o^2). Each h_o is the
    process of a model of that output alone; lengthscale, amplitude and other hyperparameters have
    the dim `output` first. The g_r have an amplitude of 1, and hyperparameters such as
    `factor_lengthscale` (factor, feature). `output_covariance` (output, output_bis) is what the
    outputs share, ``loading loading'``; the signs and places of single factors are not identified.
    Each output is scaled by its own mean and sd. In the `pymc.Model`, y has one value for each cell
    of the table that was observed. Verbs return a last dim `output`; ``model.of_output(name)`` is
    the model as it is asked about one output. For outputs the model is exact, has a kernel by its
    name and neither groups, constraints nor a hierarchy.

    Classes that correlate have latent functions of one kernel [1]_, ``f_c(x) = amplitude h_c(x) +
    sum_r loading[c, r] g_r(x)``. All h_c and g_r are independent and have the kernel's lengthscale
    and an amplitude of 1, so that Cov(f_c, f_k) at one x is B_ck of ``B = amplitude^2 I + loading
    loading'``. Of a sum of kernels, each summand has an amplitude and loadings, such as
    `linear_loading`. `output_covariance` (class, class_bis) is B, summed over summands. Softmax
    depends on differences between classes alone, so that data tell of `output_covariance_centred`,
    which is ``H B H`` with ``H = I - 1/C``; single loadings are not identified, and for C classes C
    - 2 shared functions are as many as can matter. Laplace's approximation takes all n C latent
    values together: memory grows with (n C)^2, time with (n C)^3, and n C is at most 5000. Such a
    model has no approximation, a kernel by its name, and neither groups nor a hierarchy.

    With one lengthscale for all indicators of a column, a stationary kernel treats its levels as
    exchangeable: k = 1 for equal levels and the same correlation rho for any two different ones,
    whatever their names and order, so that a declared level without rows can be predicted.
    Indicators are scaled by the root of their summed variances, so that two random rows are as far
    apart as in a standardised column of numbers. Explanations treat the column as one feature:
    attributions and contributions are sums over its indicators, relevance, comparisons and partial
    dependence compare levels, and derivatives along levels are refused. A callable kernel sees
    indicators as columns.

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
        likelihood: str = "normal",
        link: str | None = None,
        approximation: Inducing | HSGP | RandomFeatures | None = None,
        priors: Priors | None = None,
        scale: bool = True,
        exposure: Column | str | None = None,
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
        refuse_exposure(exposure, specification.observation)
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
        )
        outputs = None if training.outputs is None else len(training.outputs.names)
        known = read_constraints(constraints, training, specification)
        specification = replace(
            specification, constraints=known, outputs=outputs, correlation=correlation
        )
        super().__init__(training, specification, priors=priors, scale=scale, name=name)


class GPX(Model):
    """Regression with a Gaussian process on each feature's weight [1]_.

    ``y = z' w(x) + noise``, ``w_l(x) = g_l(x) + eps_w,l``: g_l are zero-mean Gaussian
    processes with the kernel, `eps_w` ~ N(0, sigma_w^2) is each sample's own, and noise is
    N(0, sigma^2).

    Parameters
    ----------
    X : pandas or polars frame, xarray.DataArray or array (n, d); or what is read in parts
        Features that the weights depend on. What is read in parts, as in `GP`, holds all columns;
        those that are neither y, the exposure nor in Z are these features.
    y : series or array (n,); or str
        The name of a column, where rows are read in parts.
    Z : like X, (n, p), optional; or list of str
        Features that have weights; X itself by default. Each level of a categorical column has its
        own weight. Where rows are read in parts, names of columns.
    kernel, ard, likelihood, link, approximation, exposure, resolution, priors, scale, name
        As in `GP`; `scale` standardises Z too.
    constraints
        As in `GP`, and `bx.constraints.Weight`.
    groups : series or array (n,), optional
        As in `GP`, but each group has weight functions of its own beside those of all groups:
        ``g_l(x) + v_l,g(x)``, where v has the same kernel with `group_amplitude` in the place of
        `amplitude`. A constant in Z (`intercept`) gives groups a level that varies with x. This
        needs a kernel by its name, and weight_prior="shared" or "per_feature".
    representation : {"collapsed", "hierarchy"}
        As in `GP`. A hierarchy has the weight functions `g`, `eps_w` (unless `sigma_w` is fixed at
        0) and the weights `w`, their sum, all (obs, z_feature) in units of y per unit of z, and `f`
        (obs), the sum of ``w_l (z_l - center_l)`` plus the mean of y, where the model scales its
        data.
    weight_prior : {"shared", "per_feature", "horseshoe"}
        "shared": one amplitude for all weight functions. "per_feature": one amplitude for each.
        "horseshoe": one amplitude for each under a regularised horseshoe prior, where `eps_w,l` has
        sd ``sigma_w amplitude_l``.
    intercept : bool
        Whether to add a constant 1 to Z, as the last column `intercept`.

    Notes
    -----
    `sigma_w` is weakly identified: it affects the data only through a variance of y that grows with
    the length of z, so its prior matters. State this prior when you publish weights of training
    samples.

    With `HSGP`, normal noise and ``priors={"sigma_w": 0}`` rows enter by sums alone, as in `GP`;
    M is the number of basis functions times that of weights. Otherwise each density of rows in
    parts passes over them, and their own `eps_w` are known as those of a table are.

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
        likelihood: str = "normal",
        link: str | None = None,
        approximation: Inducing | HSGP | RandomFeatures | None = None,
        priors: Priors | None = None,
        scale: bool = True,
        exposure: Column | str | None = None,
        resolution: float | Sequence[float] | None = None,
        groups: Column | None = None,
        representation: Literal["collapsed", "hierarchy"] = "collapsed",
        constraints: Sequence[Constraint] = (),
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
        refuse_exposure(exposure, specification.observation)
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
        )
        known = read_constraints(constraints, training, specification)
        specification = replace(specification, constraints=known)
        super().__init__(training, specification, priors=priors, scale=scale, name=name)
