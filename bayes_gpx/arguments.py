"""What a verb is given: samples to explain, and draws of the hyperparameters."""

from dataclasses import dataclass, replace
from numbers import Real

import numpy as np
import xarray as xr

from bayes_gpx.approximations import HSGP
from bayes_gpx.frames import read_features, refuse_misaligned, row_labels
from bayes_gpx.labels import read_reals, texts
from bayes_gpx.specification import count, one_of
from bayes_gpx.views import OWN_WHITE, WHITE


@dataclass(frozen=True, eq=False)
class Points:
    """Samples to explain, on the model's scale, with what names them.

    Attributes
    ----------
    X, Z : array
        Z is None where none is needed.
    positions : integer array or None
        Positions in the training set; None for new samples.
    X_values, Z_values : array
        The same in user units.
    index : array
        Labels of the rows.
    baseline : array (d,), (B, d) or None
        Where the paths of attributions start, on the model's scale; several are averaged over.
    baseline_values : array or None
        The same in user units.
    rows : integer array or None
        Which of the given samples these are.
    """

    X: np.ndarray
    Z: np.ndarray | None
    positions: np.ndarray | None
    X_values: np.ndarray
    Z_values: np.ndarray | None
    index: np.ndarray
    baseline: np.ndarray | None = None
    baseline_values: np.ndarray | None = None
    rows: np.ndarray | None = None


def points(model, X_new=None, Z_new=None, *, obs=None, needs_z=True):
    """New samples, or training samples (X_new=None); `obs` picks some of them by label."""
    if X_new is None:
        if Z_new is not None:
            raise ValueError("Z_new was given without X_new; pass both, or neither.")
        X, Z = model.training.X, model.training.Z
    else:
        X, Z = model.training.read_new(X_new, Z_new, needs_z=needs_z)
    rows = rows_labelled(X.index, obs)
    refuse_outside(model, X.values[rows], "X_new")
    scaled_Z = None if Z is None else model.training.Z_scaling.apply(Z.values[rows])
    return Points(
        model.training.X_scaling.apply(X.values[rows]),
        scaled_Z,
        rows if X_new is None else None,
        X.values[rows],
        None if Z is None else Z.values[rows],
        X.index[rows],
        rows=rows,
    )


BASELINES = {
    "mean": lambda values: values.mean(axis=0),
    "median": lambda values: np.median(values, axis=0),
    "zero": lambda values: np.zeros(values.shape[1]),
}


def read_baseline(model, baseline, name="baseline"):
    """Point (d,) or points (B, d) in user units.

    Parameters
    ----------
    model : Model
    baseline : {"mean", "median", "zero"}, array (d,) or (B, d), frame or frame row
        "mean" and "median" are those of the training rows; one row is one point.
    name : str
        What error messages call it.

    Raises
    ------
    ValueError
        For an unknown name, and rows that are not one finite number for each feature.
    """
    X = model.training.X
    if isinstance(baseline, str):
        one_of(name, baseline, BASELINES)
        point = BASELINES[baseline](X.values)
        refuse_outside(model, point[None], name)
        return point
    rows = baseline.to_frame().T if hasattr(baseline, "to_frame") else baseline
    if not hasattr(rows, "columns") and np.ndim(rows) == 1:
        rows = np.asarray(rows)[None]
    read = read_features(rows, name, like=X, minimum_rows=1)
    refuse_outside(model, read.values, name)
    return read.values[0] if len(read) == 1 else read.values


def from_baseline(model, where, baseline, name="baseline"):
    """Points with a baseline, or several, for their paths to start from; see `read_baseline`."""
    start = read_baseline(model, baseline, name)
    scaled = model.training.X_scaling.apply(start)
    return replace(where, baseline=scaled, baseline_values=start)


def refuse_outside(model, values, name):
    """Raise if rows lie outside of the box on which an HSGP's basis functions are meant."""
    approximation = model.specification.approximation
    if not isinstance(approximation, HSGP):
        return
    low, high = (bound(model.training.X.values, axis=0) for bound in (np.min, np.max))
    outside = 2.0 * np.abs(values - 0.5 * (low + high)) > approximation.c * (high - low)
    if outside.any():
        row, column = np.argwhere(outside)[0]
        raise ValueError(
            f"{name}: {outside.any(axis=1).sum()} rows lie outside of HSGP's box, such as row "
            f"{row} with {model.training.X.columns[column]} = {values[row, column]:g}. Give it a "
            f"larger c than {approximation.c:g} (and more m), or use bx.RandomFeatures."
        )


def rows_labelled(index, obs):
    """Positions of observations by label, list of labels or mask; None for all."""
    if obs is None:
        return np.arange(len(index))
    wanted = np.atleast_1d(np.asarray(obs))
    if wanted.dtype == bool:
        if wanted.shape != index.shape:
            raise ValueError(
                f"obs is a mask of shape {wanted.shape}; expected one value for each of "
                f"{len(index)} rows, or labels."
            )
        wanted = index[wanted]
    if wanted.ndim != 1:
        raise ValueError(f"obs has shape {wanted.shape}; expected a label or a list of labels.")
    rows = [np.flatnonzero(index == label) for label in wanted]
    missing = [str(label) for label, found in zip(wanted, rows, strict=True) if not len(found)]
    if missing or not len(wanted):
        examples = ", ".join(map(str, index[:3]))
        raise ValueError(
            f"obs: no rows labelled {missing}; expected labels of the index, such as {examples}."
        )
    return np.concatenate(rows)


def refuse_classes(model, what):
    """Raise for a model of several classes, for which something is not known."""
    if model.specification.classes is not None:
        raise ValueError(
            f"{what} with likelihood='categorical'; expected another, since it is not known yet "
            "for several classes. See bx.derivatives and bx.attributions of their probabilities."
        )


def names_among(what, given, columns):
    """List of different names among the columns, checked."""
    if isinstance(given, str) or not len(given) or len(set(given)) < len(given):
        raise ValueError(f"{what} is {given!r}; expected a list of different names.")
    for name in given:
        one_of(what, name, columns)
    return list(given)


def read_pairs(pairs, columns):
    """Positions of pairs of names, as a list of frozensets.

    Raises
    ------
    ValueError
        For what are no pairs of different columns, or pairs that repeat.
    """
    found = []
    for pair in pairs:
        if isinstance(pair, str) or len(pair) != 2 or len(set(pair)) != 2:
            raise ValueError(f"pairs: {pair!r} is no pair; expected two different names.")
        found.append(frozenset(columns.index(name) for name in names_among("pairs", pair, columns)))
    if len(set(found)) < len(found):
        raise ValueError(f"pairs is {pairs!r}; expected a list of different pairs of names.")
    return found


def read_observed(dataset, y):
    """Responses observed where a dataset predicts, (obs,); labels as their codes.

    Parameters
    ----------
    dataset : xarray.Dataset
        What `bayes_gpx.predictions` returned.
    y : array or pandas.Series (m,)
        In the order of the dataset's observations.

    Raises
    ------
    ValueError
        For another length or index, unknown labels, and what the model's own `y` may not be.
    """
    index = dataset["obs"].values
    if np.shape(y) != index.shape:
        raise ValueError(
            f"y has shape {np.shape(y)}; expected one value for each of the dataset's observations,"
            f" {index.shape}."
        )
    labels = row_labels(y)
    if labels is not None:
        refuse_misaligned(index, labels, "the dataset", "y")
    known = dataset.attrs.get("labels")
    if known is None:
        values = read_reals(y)
    else:
        read = texts(y)
        for label in set(read):
            one_of("y", label, known)
        values = np.array([known.index(label) for label in read])
    return xr.DataArray(values, {"obs": index}, ["obs"])


def probability(ci_prob, default):
    """Probability of an interval, checked; None for the default."""
    prob = default if ci_prob is None else ci_prob
    if not (isinstance(prob, Real) and 0 < prob < 1):
        raise ValueError(f"ci_prob is {prob!r}; expected a probability between 0 and 1.")
    return prob


@dataclass(frozen=True, eq=False)
class HyperparameterDraws:
    """Hyperparameters on the model's scale.

    Attributes
    ----------
    values : dict of arrays (chain, draw, ...)
        In the model's order; last whitened latent values, where they were sampled.
    chain, draw : arrays
        Labels.
    alone : bool
        Whether the fit holds a single draw.
    """

    values: dict
    chain: np.ndarray
    draw: np.ndarray
    alone: bool

    def __iter__(self):
        """Pairs of (chain, draw) positions and the dict of hyperparameters there."""
        for at in np.ndindex(len(self.chain), len(self.draw)):
            yield at, {name: np.asarray(values[at]) for name, values in self.values.items()}

    def __len__(self):
        return len(self.chain) * len(self.draw)


def hyperparameter_draws(model, idata, num_draws=None):
    """Hyperparameters of every draw, checked to belong to the model.

    Parameters
    ----------
    idata : xarray.DataTree or dict
        A fit of this model, or fixed hyperparameters (one draw).
    num_draws : int, optional
        Thin evenly to at most this many.

    Returns
    -------
    HyperparameterDraws

    Raises
    ------
    ValueError
        If `idata` belongs to another model, has no dims chain and draw, or is not finite.
    """
    if num_draws is not None:
        count("num_draws", num_draws)
    if isinstance(idata, dict):
        fixed = model.fixed_hyperparameters(idata)
        values = {name: fixed[name][None, None] for name in model.hyperparameters}
        return HyperparameterDraws(values, np.arange(1), np.arange(1), True)
    refuse_other_model(model, idata)
    posterior = idata["posterior"].to_dataset().transpose("chain", "draw", ...)
    chains, draws = posterior.sizes["chain"], posterior.sizes["draw"]
    kept = draws if num_draws is None else min(num_draws // chains, draws)
    if not kept:
        raise ValueError(
            f"num_draws is {num_draws} for {chains} chains; expected at least one for each chain."
        )
    posterior = posterior.isel(draw=np.linspace(0, draws - 1, kept).round().astype(int))
    dims = {h.name: h.dim for h in model.specification.hyperparameters}
    values = {}
    for name in model.hyperparameters:
        if name in model.fixed:
            fixed = model.fixed[name]
            value = np.broadcast_to(fixed, (chains, kept, *fixed.shape))
        else:
            value = posterior[model.posterior_names[name]].values
            if dims.get(name) and value.ndim == 2:
                value = np.repeat(value[..., None], model.training.size(dims[name]), axis=-1)
        if not np.isfinite(value).all():
            raise ValueError(f"idata holds draws of {name} that are not finite; drop them.")
        values[name] = np.asarray(value, dtype="float64")
    if not model.specification.normal:
        for name in (WHITE, OWN_WHITE):
            sampled = f"{model.in_model('y')}_{name}"
            if sampled in posterior:
                values[name] = posterior[sampled].values
    labels = [posterior[dim].values for dim in ("chain", "draw")]
    return HyperparameterDraws(values, *labels, chains * draws == 1)


def refuse_other_model(model, idata):
    """Raise if a DataTree is not a fit of this model, as far as its contents tell."""
    if "posterior" not in getattr(idata, "children", {}):
        raise ValueError(
            "idata has no group `posterior`; expected the DataTree of model.fit or pm.sample, or "
            "a dict of fixed hyperparameters."
        )
    posterior = idata["posterior"]
    if not {"chain", "draw"} <= set(posterior.sizes):
        raise ValueError(f"idata.posterior has dims {list(posterior.sizes)}; expected chain, draw.")
    for difference in _differences(model, idata):
        raise ValueError(
            f"idata belongs to another model: {difference}. Pass the idata that this model's fit "
            "returned."
        )


def _differences(model, idata):
    written = idata.attrs.get(model.signature_key, model.signature)
    if written != model.signature:
        yield f"expected {model.signature}, got {written}"
    posterior, names = idata["posterior"], model.posterior_names
    inferred = [names[n] for n in model.hyperparameters if n not in model.fixed]
    missing = [name for name in inferred if name not in posterior]
    if missing:
        yield f"it lacks {missing}, and has {list(posterior.data_vars)}"
        return
    columns = {"feature": model.training.X.columns}
    if model.training.Z is not None:
        columns["z_feature"] = model.training.Z.columns
    for h in model.specification.hyperparameters:
        if h.name in model.fixed or h.dim is None:
            continue
        found = posterior[names[h.name]]
        labels = found.coords.get(found.dims[-1]) if found.ndim == 3 else None
        if found.ndim == 3 and found.shape[-1] != len(columns[h.dim]):
            yield f"{h.name} has {found.shape[-1]} values, expected {len(columns[h.dim])}"
        elif labels is not None and (own := tuple(map(str, labels.values))) != columns[h.dim]:
            yield f"{h.name} is labelled {list(own)}, expected {list(columns[h.dim])}"
    data = model.training.scaled() | {"y": model.training.y, "X": model.training.X.values}
    for group, name in (
        ("observed_data", "y"),
        ("constant_data", "X"),
        ("constant_data", "exposure"),
    ):
        known = idata[group] if group in idata.children else {}
        kept = model.in_model(name)
        if name in data and kept in known and not np.array_equal(known[kept].values, data[name]):
            yield f"its {name} differ"
