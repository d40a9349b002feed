"""Results handed to other packages' own types."""

import numpy as np
import xarray as xr
from arviz_base import rcParams
from pymc.stats import compute_log_prior

from bayes_gpx.arguments import probability, refuse_other_model
from bayes_gpx.density import MODE
from bayes_gpx.draws import LARGEST_JOINT
from bayes_gpx.explain import log_likelihood, predictions
from bayes_gpx.shown import ONE_UNIT, interval_of, shown

LARGEST = 2.0**62
"""Counts above are cut to it: ArviZ asks for whole numbers."""


def sample_posterior_predictive(
    model, idata, X_new=None, Z_new=None, *, exposure=None, joint=True, seed=None, progressbar=True
):
    """Draw responses given the data: what PyMC's function of this name does for other models.

    ``pm.sample_posterior_predictive(idata, model=model.pymc)`` draws y from the hyperparameters
    alone, since the function is integrated out: its replications know nothing of the training
    responses. Where latent values are in ``model.pymc`` but not in the fit, it draws them from
    their prior. The responses drawn here are conditioned on y.

    Parameters
    ----------
    model : GP or GPX
    idata : xarray.DataTree or dict
        What ``model.fit`` or ``pm.sample`` returned, or a dict of fixed hyperparameters on the
        model's scale.
    X_new, Z_new : frame or array, optional
        New samples; None for the training samples.
    exposure : array (m,), optional
        Of new counts.
    joint : bool
        Draw all rows jointly, as a set of data that the model makes, which is what PyMC does: at
        most 5000 rows. Else each row by itself, which is faster.
    seed : int, optional
    progressbar : bool

    Returns
    -------
    xarray.DataTree
        `posterior_predictive` with `y` (chain, draw, obs) in user units, labels coded 0, 1, ...,
        and `observed_data`; of new samples the group `predictions` alone.

    Raises
    ------
    ValueError
        If `idata` belongs to another model, samples do not fit it, or there are too many rows to
        be drawn jointly.

    Examples
    --------
    >>> import numpy as np
    >>> import bayes_gpx as bx
    >>> X = np.linspace(0.0, 3.0, 20)[:, None]
    >>> model = bx.GP(X, np.sin(X[:, 0]), scale=False)
    >>> theta = {"lengthscale": [1.0], "amplitude": 1.0, "sigma": 0.01}
    >>> tree = bx.sample_posterior_predictive(model, theta, seed=1, progressbar=False)
    >>> drawn = tree["posterior_predictive"]["y"]
    >>> round(np.corrcoef(drawn.isel(chain=0, draw=0), np.sin(X[:, 0]))[0, 1].item(), 2)
    1.0
    """
    rows = model.training.n if X_new is None else len(X_new)
    if joint and rows > LARGEST_JOINT:
        raise ValueError(
            f"{rows} rows would be drawn jointly; at most {LARGEST_JOINT} are. Pass joint=False to "
            "draw each row by itself, or fewer new samples."
        )
    options = {"joint": joint, "seed": seed, "progressbar": progressbar}
    drawn = predictions(model, idata, X_new, Z_new, exposure=exposure, **options)["y"]
    name, obs = model.in_model("y"), model.in_model("obs")
    found = {"posterior_predictive" if X_new is None else "predictions": drawn.rename(obs=obs)}
    if X_new is None:
        observed = xr.DataArray(model.training.y, {obs: model.training.X.index}, [obs])
        found["observed_data"] = observed
    if model.specification.observation.discrete:
        found = {k: values.clip(max=LARGEST).astype("int64") for k, values in found.items()}
    groups = {k: values.drop_attrs().to_dataset(name=name) for k, values in found.items()}
    return xr.DataTree.from_dict(groups)


def predictive_checks(model, idata, *, joint=False, seed=None, progressbar=True):
    """The fit with all that ArviZ's predictive checks take: responses drawn at the training rows.

    As in ``az.plot_ppc_pava(bx.predictive_checks(model, idata))``, of labels; of counts
    ``az.plot_ppc_rootogram``; of real numbers ``az.plot_ppc_dist``. Each row is replicated given
    all responses, its own among them, so these checks flatter a flexible model. Those that leave
    the row out, such as PITs, are by `bayes_gpx.loo_predictions`.

    Parameters
    ----------
    model : GP or GPX
    idata : xarray.DataTree or dict
        What ``model.fit`` returned, or a dict of fixed hyperparameters on the model's scale.
    joint : bool
        Draw all rows jointly, as a set of data that the model makes: slower, and needed where a
        check pools rows, as ``plot_ppc_rootogram`` and ``plot_ppc_tstat`` do; at most 5000 rows.
    seed : int, optional
    progressbar : bool

    Returns
    -------
    xarray.DataTree
        A copy of the fit with the groups that `sample_posterior_predictive` returns. Without
        `log_likelihood`: its terms are of responses that have not been seen, so
        ``az.plot_loo_pit`` would weigh these replications as what they are not.

    Raises
    ------
    ValueError
        If `idata` belongs to another model.
    """
    options = {"joint": joint, "seed": seed, "progressbar": progressbar}
    drawn = sample_posterior_predictive(model, idata, **options)
    if isinstance(idata, dict):
        return drawn
    tree = idata.drop_nodes("log_likelihood", errors="ignore")
    for group, found in drawn.children.items():
        tree[group] = found
    return tree


def power_scaling(model, idata, *explained):
    """The fit with all that ArviZ's sensitivity to priors takes, for explanations too.

    As in ``az.psense_summary(bx.power_scaling(model, idata, bx.attributions(..., obs=[3])))``: how
    hyperparameters and explanations would change if the prior counted a little more or less, and
    the likelihood. ``az.plot_psense_dist`` takes it too.

    Parameters
    ----------
    model : GP or GPX
    idata : xarray.DataTree
        What ``model.fit`` returned, with several draws: "nuts", or "laplace", for which the answer
        is as good as its approximation.
    *explained : xarray.Dataset
        What verbs returned for this fit, with draws, all of them; of a few observations, since each
        number is a row of the summary.

    Returns
    -------
    xarray.DataTree
        `posterior`, with the explanations' draws beside the hyperparameters'; `log_prior`, of each
        hyperparameter; `log_likelihood`, of all of y jointly, in the place of the terms for leaving
        one out.

    Raises
    ------
    ValueError
        If `idata` belongs to another model or holds one draw, and for explanations without draws,
        with other ones than the fit's, or of one name.

    References
    ----------
    Kallioinen, Paananen, Burkner and Vehtari, "Detecting and diagnosing prior and likelihood
    sensitivity with power-scaling" (2024).
    """
    refuse_other_model(model, idata)
    posterior = idata["posterior"].to_dataset()
    for found in explained:
        drawn = [name for name in found if DRAWS <= set(found[name].dims)]
        if not drawn or any(not found[dim].equals(posterior[dim]) for dim in DRAWS):
            raise ValueError(
                "An explanation has no draws, or other ones than the fit; expected the result of a "
                "verb for this idata with keep='draws' and without num_draws."
            )
        for name in drawn:
            if name in posterior:
                raise ValueError(
                    f"There are two {name!r}; expected different names: found.rename({name}=...)."
                )
            own = found[name].reset_coords(drop=True)
            taken = {d: f"{name}_{d}" for d in own.dims if d not in DRAWS and d in posterior.dims}
            posterior[name] = own.rename(taken)
    joint = log_likelihood(model, idata, progressbar=False)["log_marginal_likelihood"]
    tree = xr.DataTree.from_dict({"posterior": posterior})
    prior = compute_log_prior(
        idata,
        model=model.objective,
        extend_inferencedata=False,
        progressbar=False,
        compile_kwargs={"mode": MODE},
    )
    tree["log_prior"] = xr.DataTree(prior)
    tree["log_likelihood"] = xr.DataTree(joint.to_dataset(name=model.in_model("y")))
    return tree


LEADING = ("row", "feature", "feature_bis", "class", "baseline", "value", "level")
DRAWS = {"chain", "draw"}


def to_pandas(dataset, *, ci_prob=None):
    """Lay out a verb's result in long form, a row for each observation and feature.

    What spreadsheets, databases and grammars of graphics take. Polars reads it by
    ``pl.from_pandas``.

    Parameters
    ----------
    dataset : xarray.Dataset
        What a verb returned, with draws or not.
    ci_prob : float, optional
        Probability of the intervals; ArviZ's ``stats.ci_prob`` by default. Equal-tailed where the
        dataset has draws, else from mean and sd as if normal.

    Returns
    -------
    pandas.DataFrame
        `row`, the observation's label, which is that of the frame's index where `X_new` had one;
        `feature`, and whatever else there is one number for (class, baseline, ...); `value`, the
        feature's, and `level` where there are categorical ones; and of each quantity of the verb
        _mean, _sd, _lower and _upper, and its probabilities. What has no feature, such as
        `difference`, is repeated for each.

    Raises
    ------
    ValueError
        For a dataset that has neither draws nor means, and a `ci_prob` that is no probability.
    """
    prob = probability(ci_prob, rcParams["stats.ci_prob"])
    means = [str(name).removesuffix("_mean") for name in dataset if str(name).endswith("_mean")]
    drawn = [str(name) for name in dataset if DRAWS <= set(dataset[name].dims)]
    columns = {}
    for name in dict.fromkeys([*drawn, *means]):
        columns |= _moments(dataset, name, prob)
    if not columns:
        raise ValueError(
            f"The dataset has no draws and no means, but {list(dataset)}; expected what a verb "
            "returned, such as bx.attributions."
        )
    dims = dict.fromkeys(dim for column in columns.values() for dim in column.dims)
    for name in dataset:
        said = name == "value" or "probability" in str(name)
        if said and str(name) not in means + drawn and dims.keys() >= set(dataset[name].dims):
            columns[str(name)] = dataset[name]
    order = sorted(dims, key=lambda dim: {"obs": 0, "feature": 1}.get(dim, 2))
    frame = xr.Dataset(columns).to_dataframe(order).reset_index().rename(columns={"obs": "row"})
    axes = [column for column in frame if column not in columns and column not in LEADING]
    lead = [column for column in LEADING if column in frame] + axes
    return frame[lead + [column for column in frame if column not in lead]]


def _moments(dataset, name, prob):
    """Mean, sd and ends of the interval of a quantity, as far as they are known."""
    found = {"mean": dataset.get(f"{name}_mean"), "sd": dataset.get(f"{name}_sd")}
    if name in dataset:
        for moment, of_draws in (("mean", dataset[name].mean), ("sd", dataset[name].std)):
            if found[moment] is None:
                found[moment] = of_draws(["chain", "draw"])
    if found["sd"] is not None:
        ends = interval_of(dataset, name, prob)
        found |= {end: ends.sel(ci_bound=end, drop=True) for end in ("lower", "upper")}
    return {f"{name}_{k}": array.drop_attrs() for k, array in found.items() if array is not None}


def to_shap(dataset, *, predictions=None, obs=None, ci_prob=None):
    """Hand attributions or contributions to the shap package, for its plots.

    shap has one number for each feature of an observation and adds them to a base value. Here
    they are posterior means, with the ends of their intervals as bounds.

    Parameters
    ----------
    dataset : xarray.Dataset
        What `bayes_gpx.attributions` or `bayes_gpx.contributions` returned, with draws or not, of
        all features.
    predictions : xarray.Dataset, optional
        What `bayes_gpx.predictions` returned for the same samples. The base values of attributions
        are then f(x) less the difference, which is f(baseline), in a GPX with the sample's own
        deviation; else they are 0, and the values add up to f(x) - f(baseline). Contributions bring
        their `offset`.
    obs : label or list of labels, optional
        Only these observations.
    ci_prob : float, optional
        Probability of the intervals; ArviZ's ``stats.ci_prob`` by default. Equal-tailed where the
        dataset has draws, else from mean and sd as if normal.

    Returns
    -------
    shap.Explanation
        `values`, `data`, `lower_bounds`, `upper_bounds` (obs, feature), `base_values` (obs),
        `feature_names`, and `output_names`, the units.

    Raises
    ------
    ImportError
        If shap is not installed.
    ValueError
        For a dataset of another verb, attributions of some features only, several baselines,
        unknown observations, and predictions of other samples or of contributions.

    References
    ----------
    Lundberg and Lee, "A unified approach to interpreting model predictions" (2017).
    """
    found = shown(dataset, ONE_UNIT, obs=obs, ci_prob=ci_prob)
    mean, rows = found["mean"].values, found["row"].values
    if "difference_mean" in dataset:
        _refuse_incomplete(dataset)
    base = np.zeros(len(mean))
    if predictions is not None:
        if "difference_mean" not in dataset or "f_mean" not in predictions:
            raise ValueError(
                "predictions are for attributions: expected the results of bx.attributions and "
                "bx.predictions; contributions bring their own offset."
            )
        if not np.array_equal(predictions["obs"].values, dataset["obs"].values):
            raise ValueError("The obs of predictions differ; expected those of the dataset.")
        base = (predictions["f_mean"] - dataset["difference_mean"]).values[rows]
    elif "offset" in dataset:
        base = np.full(len(mean), float(dataset["offset"]))
    try:
        import shap
    except ImportError as missing:
        raise ImportError(
            "to_shap needs the package shap, which is not installed; `pip install shap`."
        ) from missing
    return shap.Explanation(
        values=mean,
        base_values=base,
        data=found["value"].values,
        feature_names=[str(feature) for feature in found["feature"].values],
        output_names=dataset.attrs["units"],
        lower_bounds=found["interval"].sel(ci_bound="lower").values,
        upper_bounds=found["interval"].sel(ci_bound="upper").values,
    )


def _refuse_incomplete(dataset):
    """Raise if attributions do not add up, beyond what quadrature leaves over."""
    total = dataset["difference_mean"]
    missing = np.abs(dataset["attribution_mean"].sum("feature") - total)
    allowed = dataset["completeness_residual"] + 1e-6 * np.abs(total).max()
    if (missing > allowed).any():
        raise ValueError(
            "The attributions do not add up to the difference, so some features are left out; "
            "expected those of all. Leave `features` out of bx.attributions."
        )
