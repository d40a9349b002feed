"""A page that computes explanations of any row from the posterior, in the browser."""

from __future__ import annotations

import base64
import json
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import jinja2
import numpy as np

from bayes_gpx.aliases import Column, Draws, Table
from bayes_gpx.data.dates import date_after
from bayes_gpx.draws import questions
from bayes_gpx.draws.hyperparameter_draws import hyperparameter_draws, refuse_swapped
from bayes_gpx.draws.intervals import interval_probability
from bayes_gpx.draws.points import points, read_baseline
from bayes_gpx.draws.scales import Response
from bayes_gpx.model.description import structure
from bayes_gpx.numerics.threads import on_cores
from bayes_gpx.reporting.browser_state import State, form_of, inputs_of, several, state_of
from bayes_gpx.reporting.fit import Fit
from bayes_gpx.reporting.kernel_form import differentiable
from bayes_gpx.reporting.page import Prose
from bayes_gpx.reporting.sections.cautions import OF_FIT
from bayes_gpx.system.files import replaced, writable
from bayes_gpx.system.versions import versions
from bayes_gpx.validation import count

if TYPE_CHECKING:
    from bayes_gpx.data.features import Frame
    from bayes_gpx.data.scaling import Scaling
    from bayes_gpx.model.model import Model

SCRIPTS = ("kernels", "posterior", "mixture", "response", "explain", "draw", "page")
"""Scripts of the page, in the order in which they need one another."""

MOST_ROWS = 500
"""Most rows to start from; of more, so many are spread evenly."""

BINS = 24
"""Bars of the distribution of a number."""

STEPS = 400
"""Steps of the table of the response."""

POOR = 0.1, 0.03
"""Largest errors of means, in posterior sds, and of sds, that go without a caution."""


@on_cores
def what_if(
    model: Model,
    idata: Draws,
    X: Table | None = None,
    Z: Table | None = None,
    *,
    groups: Column | None = None,
    path: str | PathLike,
    draws: int = 20,
    ci_prob: float | None = None,
    cores: int | None = None,
    seed: int | None = None,
) -> Path:
    """Write a page with sliders that recomputes predictions and explanations.

    Use it to look at many what-if questions, and to hand a model to people without Python: the page
    is one HTML file that opens from disk and loads nothing. It computes from the posterior of the
    fit. Use `report` for a record of fixed rows, and the explanation functions for numbers to
    publish.

    The page has a slider or a menu for each feature, and shows at the chosen point: the prediction
    with its interval; attributions or Shapley values against a baseline; slopes; of a GPX, weights
    and contributions; a second point and the comparison with it; the prediction along one feature;
    and by how much the point leaves the training data.

    Parameters
    ----------
    model : GP or GPX
        A model of `GP.of_event` shows a probability such as S(t). A menu chooses which of several
        classes or outputs is shown.
    idata : xarray.DataTree or dict
        A fit, or a dict of fixed hyperparameters on the model's scale.
    X, Z : frame or array (m, d), (m, p), optional
        Rows to start from; None for the training rows. Of more than 500, 500 are offered.
    groups : array (m,), optional
        Groups of the rows of X.
    path : str or path
        The HTML file, in an existing folder. It is replaced only at the end.
    draws : int
        Hyperparameter draws on the page, thinned evenly; of a posterior mode there is one.
    ci_prob : float, optional
        Probability of all intervals; 90% by default.
    seed : int, optional
        Seed of the points at which the page's error is measured.

    Returns
    -------
    pathlib.Path

    Raises
    ------
    ValueError
        If the model has a sparse Z, or a kernel that the page cannot compute; or if the path cannot
        be written to.

    Notes
    -----
    As many rows are chosen as fit into about 1.5 MB. The page states how far its means and
    sds are from the model's at 1,000 random points. "Reports and the command line" in the guide
    lists the kernels and the approximations.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import bayes_gpx as bx
    >>> X = np.random.default_rng(1).normal(size=(30, 2))
    >>> model = bx.GP(X, X[:, 0] ** 2)
    >>> theta = {"lengthscale": [1.0, 1.0], "amplitude": 1.0, "sigma": 0.1}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = bx.what_if(model, theta, path=f"{folder}/what_if.html")
    ...     page.read_text(encoding="utf-8").splitlines()[0]
    '<!doctype html>'
    """
    refuse_swapped(model, idata)
    refuse_what_if(model, idata)
    count("draws", draws)
    target = writable(path)
    fit = Fit(model, idata)
    prob = interval_probability(ci_prob)
    rng = np.random.default_rng(seed)
    state = state_of(model, idata, 1 if fit.alone else max(draws, len(fit.hyper.chain)), rng)
    data = {
        "prob": prob,
        **_of_posterior(model, state),
        **_of_features(model),
        **_of_rows(model, X, Z, groups),
        "attributions": differentiable(state.form),
    }
    page = _rendered(fit, state, data)
    with replaced(target) as file:
        file.write(page.encode("utf-8"))
    return target


def refuse_what_if(model: Model, idata: Draws) -> None:
    """Raise for a model that the page has no place for."""
    model.training.refuse_sparse("what_if")
    questions.refuse_weight(model, "what_if")
    form_of(model, hyperparameter_draws(model, idata))


def _rendered(fit: Fit, state: State, data: dict[str, Any]) -> str:
    """The page's HTML."""
    model = fit.model
    cautions = [cast(Prose, part).text for make in OF_FIT for part in make(fit)]
    if state.errors[0] > POOR[0] or state.errors[1] > POOR[1]:
        cautions.append(
            "The page follows the kernel between the observations that it keeps, but the model is "
            "an approximation of it: see the page's error below."
            if model.specification.approximation is not None
            else "The page stores too few rows of the training data for this model: see its error "
            "below. Fewer draws leave room for more rows."
        )
    if any(np.any(draw.deviation > 0.0) for draw in state.draws):
        cautions.append(
            "A row to start from counts as a new one: its weights have a new deviation, not the "
            "one that the row had. Curves and comparisons leave such deviations out."
        )
    folder = files("bayes_gpx.reporting").joinpath("browser")
    names = ["page.html.j2", "page.css", *(f"{name}.js" for name in SCRIPTS)]
    template, style, *scripts = [folder.joinpath(n).read_text(encoding="utf-8") for n in names]
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    return environment.from_string(template).render(
        response=_named(model),
        rows=model.training.moments.n,
        weighed=model.training.Z is not None,
        method=fit.method,
        alone=fit.alone,
        structure=structure(model),
        cautions=cautions,
        convergence=fit.convergence[1],
        state=state,
        kept=len(state.rows) // len(several(model)),
        versions=versions(),
        # A name with "<" could end the script, or hide its end.
        data=json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c"),
        style=style,
        scripts=scripts,
    )


def _named(model: Model) -> str:
    """The response, or the outputs."""
    outputs = model.training.outputs
    if outputs is None or outputs.asked is not None:
        return str(model.training.y_name)
    return " and ".join(map(str, outputs.names))


def _of_posterior(model: Model, state: State) -> dict[str, Any]:
    spec = model.specification
    lower = np.tril_indices(len(state.rows))
    draws = [
        {
            "numbers": [values.tolist() for values in draw.numbers],
            "beta": _packed(draw.beta),
            **_in_steps(draw.factor[lower]),
            "deviation": draw.deviation.tolist(),
        }
        for draw in state.draws
    ]
    kind = "class" if spec.outputs is None else "output"
    return {
        "state": {
            "form": state.form,
            "rows": _packed(state.rows),
            "columns": state.rows.shape[1],
            "jitter": state.jitter,
        },
        "draws": draws,
        "width": model.training.d,
        "kind": "quantity" if spec.processes else kind,
        "functions": _functions(model, state),
    }


def _functions(model: Model, state: State) -> list[dict[str, Any]]:
    """Each output, class or process that the page can show; one of a model with one function."""
    spec, training, found = model.specification, model.training, []
    noisy = spec.normal and spec.observation.exposure_name != "noise_sd" and spec.event is None
    labels = model.class_labels(False) if spec.classes else ()
    shown = model.class_labels(True) if spec.classes else ()
    for k, code in enumerate(several(model)):
        named = training.outputs is not None
        own = model.of_output(training.outputs.names[code]) if named else model
        scaling, named_y = own.training.f_scaling, own.training.y_name
        units, name = questions.latent_units(own), str(shown[k] if shown else named_y)
        if labels:
            units = f"{labels[k]} of {named_y}" if spec.processes else f"{units}, {name}"
        center = scaling.center + (spec.observation.centers[k] if spec.processes else 0.0)
        sds = [spec.observation.sd(draw.theta) for draw in state.draws] if noisy else []
        found.append(
            {
                "name": name,
                "code": code,
                "scale": {"factor": float(scaling.scale), "center": float(center)},
                "units": units,
                "noise": [float(np.ravel(sd)[code if named else 0]) for sd in sds] or None,
                "response": _response(own, state, k, shown)
                if questions.responds(own, "response")
                else None,
            }
        )
    return found


def _response(model: Model, state: State, k: int, labels: tuple) -> dict[str, Any]:
    """Tables of the mean response: one for each draw where it depends on hyperparameters.

    Probabilities of classes are a softmax, and have none.
    """
    scale, spec = Response(model), model.specification
    question, named = scale.question(questions.value(model, smooth=True)), model.training.y_name
    units = question.units
    if spec.processes:
        units = f"{labels[k]} of {named}"
    elif labels:
        units = f"probability that {named} is {labels[k]}"
    elif model.training.labels is not None and len(model.training.labels) == 2:
        units = f"probability that {named} is {model.training.labels[1]}"
    softmax = bool(labels) and not spec.processes
    low, high = (end + scale.center for end in state.reach)
    f, tables = np.linspace(low, high, STEPS + 1), []
    at, own = f, cast(Any, slice(None))
    if spec.processes:  # the response of a process depends on this process alone
        at, own = np.zeros((len(f), len(labels))), (..., k)
        at[own] = f
    for draw in () if softmax else state.draws[: None if spec.response.shaped_by else 1]:
        given = scale.given({name: np.asarray(value) for name, value in draw.theta.items()})
        values, slopes = given.values(at)[own], given.slopes(at)[own]
        tables.append(
            {
                "low": low,
                "step": (high - low) / STEPS,
                "values": _packed(values),
                "slopes": _packed(slopes[..., k] if spec.processes else slopes),
            }
        )
    return {
        "center": scale.center,
        "factor": float(question.factor[0]),
        "softmax": softmax,
        "tables": tables,
        "units": units,
    }


def _of_features(model: Model) -> dict[str, Any]:
    """Controls of the columns of X, of a separate Z and of groups, and the weights of a GPX."""
    training = model.training
    features = [_feature(training.X, training.X_scaling, k, 0) for k in _numbers(training.X)]
    weights: list[dict[str, Any]] = []
    if training.Z is not None:
        own = training.Z.first(training.p - training.intercept)
        scaling, d = cast("Scaling", training.Z_scaling), training.d
        if training.z_is_x:
            for feature in features:
                feature["columns"] += [d + c for c in feature["columns"]]
        else:
            features += [_feature(own, scaling, k, d) for k in _numbers(own)]
        weights = [
            {
                "name": str(column),
                "column": d + c,
                "columns": (d + np.flatnonzero(training.Z.groups == group)).tolist(),
                "scale": float(np.asarray(scaling.scale)[c]),
            }
            for c, (column, group) in enumerate(
                zip(training.Z.columns, training.Z.groups, strict=True)
            )
        ]
    if training.groups is not None:
        labels = training.groups.labels
        codes = [*sorted(range(len(labels)), key=labels.__getitem__), len(labels)]
        counts = np.bincount(training.groups.codes, minlength=len(codes))[codes]
        features.append(
            {
                "name": "group",
                "columns": [training.d + (training.p if training.Z is not None else 0)],
                "kind": "category",
                "levels": [[*labels, "a new group"][code] for code in codes],
                "points": [[code] for code in codes],
                "shares": (counts / counts.sum()).tolist(),
            }
        )
    return {"features": features, "weights": weights}


def _numbers(frame: Frame) -> range:
    return range(len(frame.sources))


def _feature(frame: Frame, scaling: Scaling, k: int, first: int) -> dict[str, Any]:
    """One of the user's columns: where it is in points, its values and their distribution."""
    source = frame.sources[k]
    columns = np.flatnonzero(frame.groups == k)
    values = frame.values[:, columns]
    center, scale = (np.asarray(v, float)[columns] for v in (scaling.center, scaling.scale))
    found: dict[str, Any] = {"name": str(source), "columns": (columns + first).tolist()}
    if source in frame.levels:
        found |= {
            "kind": "category",
            "levels": [str(level) for level in frame.levels[source]],
            "points": ((np.eye(len(columns)) - center) / scale).tolist(),
            "shares": values.mean(axis=0).tolist(),
        }
        return found
    low, high = float(values.min()), float(values.max())
    whole = bool(np.all(values == np.round(values)))
    counts = np.histogram(values, BINS, (low, high))[0] if high > low else np.zeros(BINS)
    found |= {
        "kind": "number",
        "center": float(center[0]),
        "scale": float(scale[0]),
        "low": low,
        "high": high,
        "whole": whole,
        "bars": (counts / max(counts.max(), 1)).round(3).tolist(),
    }
    if source in frame.origins:
        origin = frame.origins[source]
        found |= {"kind": "date", "origin": str(date_after(origin, 0.0).astype("datetime64[ms]"))}
    return found


def _of_rows(
    model: Model, X: Table | None, Z: Table | None, groups: Column | None
) -> dict[str, Any]:
    """Rows to start from, and baselines, as points on the model's scale."""
    training = model.training
    if X is None and training.streamed:
        labels = np.arange(len(training.X))
        inputs = _scaled(model, training.X, training.Z)
    else:
        if training.outputs is not None and training.outputs.asked is None:
            model = model.of_output(training.outputs.names[0])
        where = points(model, X, Z, groups_new=groups)
        labels, inputs = where.index, where.inputs
    rows = [inputs[name] for name in ("X", "Z") if name in inputs]
    if training.groups is not None:
        own = np.reshape(inputs["group"], (len(labels), -1))[:, :1]  # before that of the output
        rows.append(np.minimum(own, len(training.groups.labels)))
    kept = np.unique(np.linspace(0, len(labels) - 1, MOST_ROWS).round().astype(int))
    starts = {name: _baseline(model, name) for name in ("mean", "median")}
    return {
        "labels": [str(label) for label in labels[kept]],
        "points": np.round(np.hstack(rows)[kept], 12).tolist(),
        "baselines": starts,
    }


def _scaled(model: Model, X: Frame, Z: Frame | None) -> dict[str, np.ndarray]:
    training = model.training
    z = None if Z is None else cast("Scaling", training.Z_scaling).apply(Z.values)
    return inputs_of(model, training.X_scaling.apply(X.values), z)


def _baseline(model: Model, name: str) -> list[float]:
    """A baseline's columns on the model's scale; those of a separate Z stay as they are."""
    x = model.training.X_scaling.apply(read_baseline(model, name))[None]
    if model.training.z_is_x:
        return np.hstack([*inputs_of(model, x, None).values()])[0].tolist()
    return x[0].tolist()


def _in_steps(factor: np.ndarray) -> dict[str, Any]:
    """A root of a covariance, of which 1 is the prior sd, in 32,767 steps: 3e-5 of its largest."""
    step = float(np.abs(factor).max()) / np.iinfo(np.int16).max
    return {"factor": _packed(np.round(factor / step), "<i2"), "step": step}


def _packed(values: np.ndarray, kind: str = "<f8") -> str:
    """Numbers in base64."""
    return base64.b64encode(np.ascontiguousarray(values, kind).tobytes()).decode("ascii")
