"""What to hold an explanation to: faithfulness, sufficiency, stability; and intervals: coverage.

The first three are of posterior means, since an explanation's draws at different observations are
independent of each other unless asked for jointly.
"""

from functools import partial

import numpy as np
import xarray as xr
from arviz_base import rcParams
from scipy.spatial import KDTree

from bayes_gpx.arguments import points, probability, read_observed
from bayes_gpx.explain.predictions import predictions
from bayes_gpx.specification import count

REMOVABLE = ("attribution", "contribution")
NEIGHBOURLY = ("weight", "derivative", *REMOVABLE)
PER_VALUE = ("weight", "derivative")

ASKED = {"keep": "summary", "draws": 2, "seed": 0}
"""Of predictions, whose means alone are looked at."""


def coverage(dataset, y, ci_prob=None):
    """Share of observed responses within central intervals of predicted ones.

    Parameters
    ----------
    dataset : xarray.Dataset
        What `bayes_gpx.predictions` returned, with draws of `y`.
    y : array or pandas.Series (m,)
        What was observed, in the order of the dataset's observations.
    ci_prob : float or list of float, optional
        Probability of the intervals; ArviZ's ``stats.ci_prob`` by default.

    Returns
    -------
    xarray.DataArray
        A number, or one for each `ci_prob`. Draws that equal a response, as of counts, lie half
        below and half above it: whole numbers have no interval of exactly that probability.

    Raises
    ------
    ValueError
        For a dataset without draws of `y`, labels, which have no intervals, a `y` that does not
        fit, and a `ci_prob` that is no probability.

    Examples
    --------
    >>> import numpy as np
    >>> import bayes_gpx as bx
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=200)
    >>> model = bx.GP(X, y, scale=False)
    >>> theta = {"lengthscale": [1.5], "amplitude": 1.0, "sigma": 0.1}
    >>> found = bx.predictions(model, theta, seed=0, progressbar=False)
    >>> bx.metrics.coverage(found, y, [0.5, 0.9]).values.round(1)
    array([0.5, 0.9])
    """
    if "y" not in dataset or not {"chain", "draw"} <= set(dataset["y"].dims):
        raise ValueError(
            "The dataset has no draws of `y`; expected the result of bx.predictions with "
            "keep='draws'."
        )
    if "labels" in dataset.attrs:
        raise ValueError(
            "The response is a label, which has no interval; expected a number. See "
            "bx.predictive_checks and ArviZ's plots of calibration for probabilities."
        )
    default = rcParams["stats.ci_prob"]
    prob = [probability(p, default) for p in np.ravel([ci_prob])]
    drawn, dims = dataset["y"], ("chain", "draw")
    seen = read_observed(dataset, y)
    place = (drawn < seen).mean(dims) + 0.5 * (drawn == seen).mean(dims)
    wanted = xr.DataArray(prob, {"ci_prob": prob}, ["ci_prob"])
    inside = (np.abs(2.0 * place - 1.0) <= wanted).mean("obs").rename("coverage")
    return inside.isel(ci_prob=0) if np.ndim(ci_prob) == 0 else inside


def stability(dataset, neighbours=10):
    """Largest change of an explanation between an observation and its neighbours, per distance.

    ``max_j |e_i - e_j| / |x_i - x_j|`` over the nearest neighbours j, an estimate of the local
    Lipschitz constant: the smaller, the stabler. Values are divided by their sd over the
    observations; e are posterior means, with weights and derivatives times these sds, so that all
    is in units of y.

    Parameters
    ----------
    dataset : xarray.Dataset
        Of weights, contributions, derivatives or attributions, at two observations or more.
    neighbours : int
        How many of them are looked at; of fewer, all others.

    Returns
    -------
    xarray.DataArray
        (obs), or (obs, class); NaN where no neighbour has another value.

    Raises
    ------
    ValueError
        For another dataset.

    References
    ----------
    Alvarez-Melis and Jaakkola, "On the robustness of interpretability methods" (2018); Yoshikawa
    and Iwata, IEEE TNNLS 34 (2023), equation 19.

    Examples
    --------
    >>> import numpy as np
    >>> import bayes_gpx as bx
    >>> X = np.linspace(0.0, 3.0, 20)[:, None]
    >>> model = bx.GPX(X, X[:, 0] ** 2, scale=False)
    >>> theta = {"lengthscale": [1.5], "amplitude": 3.0, "sigma_w": 0.0, "sigma": 0.01}
    >>> found = bx.weights(model, theta, keep="summary", progressbar=False)
    >>> wide = X.std() ** 2  # the weight is x; both it and x are scaled
    >>> round(float(bx.metrics.stability(found, 2).median() / wide), 2)
    1.0
    """
    count("neighbours", neighbours)
    name = _named(dataset, NEIGHBOURLY)
    value = dataset["value"].transpose("obs", "feature")
    if dataset.sizes["obs"] < 2:
        raise ValueError("The dataset has one observation; expected two or more.")
    sd = value.std("obs")
    mean = dataset[f"{name}_mean"] * (sd if name in PER_VALUE else 1.0)
    mean = mean.transpose("obs", "feature", ...)
    x = (value / sd.where(sd > 0, 1.0)).values
    apart, which = KDTree(x).query(x, min(neighbours + 1, len(x)))
    change = np.linalg.norm(mean.values[which] - mean.values[:, None], axis=2)
    apart = apart.reshape((*apart.shape, *[1] * (change.ndim - 2)))
    found = np.full(change.shape, -np.inf)
    np.divide(change, apart, out=found, where=np.broadcast_to(apart > 0, change.shape))
    largest = found.max(axis=1)
    kept = mean.isel(feature=0, drop=True)
    return kept.copy(data=np.where(np.isinf(largest), np.nan, largest)).rename("stability")


def faithfulness(model, idata, dataset, X_new=None, Z_new=None, *, num_draws=None, **options):
    """Whether predictions drop by what an explanation says when a feature is taken away.

    Correlation over features between the explanation of an observation and by how much its mean
    response changes when that feature alone is put where the explanation starts from: the baseline
    of attributions, the center of contributions. 1 for additive models. Interactions lower it,
    since what several features add together is taken away with each of them.

    Parameters
    ----------
    model, idata
        What was explained.
    dataset : xarray.Dataset
        Attributions, or contributions, of all features.
    X_new, Z_new : frame or array, optional
        The samples, as they were given to the verb; None for training samples. Predictions are
        those of new samples with these values: in GPX without the own deviations of training
        samples.
    num_draws : int, optional
        Thin the posterior to that many draws.
    **options
        progressbar.

    Returns
    -------
    xarray.DataArray
        (obs), or (obs, class), within -1 and 1; NaN where explanation or change is the same for
        all features.

    Raises
    ------
    ValueError
        For another dataset, some of the features only, several baselines, categorical columns,
        and other samples than those of the dataset.

    References
    ----------
    Alvarez-Melis and Jaakkola, "Towards robust interpretability with self-explaining neural
    networks" (2018), section 4.

    Examples
    --------
    >>> import numpy as np
    >>> import bayes_gpx as bx
    >>> X = np.random.default_rng(1).normal(size=(40, 3))
    >>> model = bx.GP(X, X @ [1.0, 2.0, 3.0], kernel="linear", scale=False)
    >>> theta = {"amplitude": 3.0, "sigma": 0.1}
    >>> options = {"keep": "summary", "progressbar": False}
    >>> found = bx.attributions(model, theta, baseline="zero", **options)
    >>> found = bx.metrics.faithfulness(model, theta, found, progressbar=False)
    >>> round(float(found.min()), 6)
    1.0
    """
    without = _Without(model, idata, dataset, X_new, Z_new, num_draws, options)
    p = len(without.features)
    found = without(np.vstack([np.ones((1, p), bool), ~np.eye(p, dtype=bool)])[:, None])
    drops = found.isel(variant=0) - found.isel(variant=slice(1, None))
    drops = drops.rename(variant="feature").assign_coords(feature=without.features)
    return xr.corr(without.mean, drops, "feature").rename("faithfulness")


def sufficiency(
    model, idata, dataset, X_new=None, Z_new=None, *, kept=None, num_draws=None, **options
):
    """What predictions lose when only the features with the largest explanations are kept.

    ``f(x) - f(x with the others at the baseline)`` of the mean response: close to 0 already for
    few features where the explanation names those that matter.

    Parameters
    ----------
    model, idata, dataset, X_new, Z_new, num_draws, **options
        See `faithfulness`.
    kept : list of int, optional
        How many features are kept, those with the largest absolute means; all numbers from 0 by
        default.

    Returns
    -------
    xarray.DataArray
        (kept, obs), or (kept, obs, class), in units of the explanation. Where there are classes,
        features are kept by the explanation of each.

    Raises
    ------
    ValueError
        See `faithfulness`; and for `kept` that are no numbers of features.

    References
    ----------
    DeYoung et al., "ERASER: a benchmark to evaluate rationalized NLP models" (2020), section 4.

    Examples
    --------
    >>> import numpy as np
    >>> import bayes_gpx as bx
    >>> X = np.random.default_rng(1).normal(size=(40, 3))
    >>> model = bx.GP(X, X @ [1.0, 0.0, 3.0], kernel="linear", scale=False)
    >>> theta = {"amplitude": 3.0, "sigma": 0.01}
    >>> options = {"keep": "summary", "progressbar": False}
    >>> found = bx.attributions(model, theta, baseline="zero", **options)
    >>> lost = bx.metrics.sufficiency(model, theta, found, kept=[0, 2], progressbar=False)
    >>> abs(lost).mean("obs").values.round(1)  # one of the three has no effect
    array([2.1, 0. ])
    """
    without = _Without(model, idata, dataset, X_new, Z_new, num_draws, options)
    p = len(without.features)
    kept = list(range(p + 1)) if kept is None else list(kept)
    for k in kept:
        count("kept", k, 0)
        if k > p:
            raise ValueError(f"kept has {k}; expected numbers of features, at most {p}.")
    mean = without.mean.transpose("class", "obs", "feature", missing_dims="ignore")
    place = np.argsort(np.argsort(-abs(mean.values), axis=-1), axis=-1)
    present = np.reshape([place < k for k in [p, *kept]], (-1, *place.shape[-2:]))
    found = without(present)
    if "class" in mean.dims:  # each class's response, with the features that are kept for it
        several = range(mean.sizes["class"])
        each = [found.isel({"class": c, "variant": slice(c, None, len(several))}) for c in several]
        found = xr.concat(each, mean["class"])
    lost = found.isel(variant=0) - found.isel(variant=slice(1, None))
    lost = lost.rename(variant="kept").assign_coords(kept=kept)
    return lost.transpose("kept", "obs", ...).rename("sufficiency")


class _Without:
    """Mean responses of observations of which some features are put at the baseline."""

    def __init__(self, model, idata, dataset, X_new, Z_new, num_draws, options):
        name = _named(dataset, REMOVABLE)
        training = model.training
        own_z = training.Z is not None and not training.z_is_x
        self._of_z = own_z and name == "contribution"
        frame = training.Z if self._of_z else training.X
        if frame.levels:
            raise ValueError(
                f"The columns {sorted(frame.levels)} are categorical, and have no value to be put "
                "at a baseline; expected numbers."
            )
        start = dataset["center" if name == "contribution" else "baseline"]
        weighed = training.p - training.intercept
        self.features = list(frame.columns[:weighed] if self._of_z else frame.columns)
        if start.dims != ("feature",) or not set(self.features) <= set(dataset["feature"].values):
            raise ValueError(
                "The dataset has several baselines, or some of the features alone; expected one "
                f"baseline and all of {self.features}."
            )
        where = points(model, X_new, Z_new, obs=dataset["obs"].values)
        chosen = dataset.sel(feature=self.features)
        self._rows = chosen["value"].transpose("obs", "feature").values
        known = where.Z_values[:, :weighed] if self._of_z else where.X_values
        if not np.array_equal(self._rows, known):
            raise ValueError(
                "The dataset explains other samples; expected X_new and Z_new as they were given "
                "to the verb, with labels that do not repeat."
            )
        self.mean, self._start = chosen[f"{name}_mean"], chosen[start.name].values
        self._X, self._Z = where.X_values, where.Z_values[:, :weighed] if own_z else None
        observation = model.specification.observation
        self._response = f"{observation.mean_name or 'f'}_mean"
        self._units = dataset.attrs["units"]
        self._ask = partial(predictions, model, idata, num_draws=num_draws, **ASKED, **options)

    def __call__(self, present):
        """Mean responses where `present` (variant, 1 or obs, feature) are left, all at once.

        Returns
        -------
        DataArray (variant, obs) or (variant, obs, class)
        """
        changed = np.where(present, self._rows, self._start)
        variants, m, _ = changed.shape
        kept = [None if v is None else np.tile(v, (variants, 1)) for v in (self._X, self._Z)]
        kept[1 if self._of_z else 0] = changed.reshape((variants * m, -1))
        found = self._ask(*kept)
        latent = self._units == found.attrs["units"]
        mean = found["f_mean" if latent else self._response]
        shape = (variants, m, *mean.shape[1:])
        dims, own = ("variant", *mean.dims), {d: mean[d] for d in mean.dims[1:]}
        return xr.DataArray(mean.values.reshape(shape), {"obs": self.mean["obs"]} | own, dims)


def _named(dataset, names):
    for name in names:
        if f"{name}_mean" in dataset and "value" in dataset:
            return name
    verbs = " or ".join(f"bx.{name}s" for name in names)
    raise ValueError(f"The dataset has no {' or '.join(names)}; expected the result of {verbs}.")
