"""Examine a fit for problems that its numbers do not show, and suggest fixes in plain words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from pytensor.graph.replace import graph_replace
from scipy.stats import ks_2samp, spearmanr

from bayes_gpx.aliases import Tensor
from bayes_gpx.data.training import TrainingData
from bayes_gpx.draws.each_draw import at_training_rows
from bayes_gpx.model.given_values import medians
from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.posteriors.base import OneDraw
from bayes_gpx.posteriors.strategies.by_group import ByRow
from bayes_gpx.processes.approximations import HSGP, LARGEST_BASIS
from bayes_gpx.processes.basis_process import expanded
from bayes_gpx.processes.gaussian_process import GaussianProcess
from bayes_gpx.processes.operators import evaluate
from bayes_gpx.system.warning import FitWarning, warn

FEWEST_OF_PROCESSES = 100
"""Fewest rows for Laplace's approximation of a mean and a noise process: measured, in
`benchmarks/process_intervals.csv`."""

AT_FLOOR, NO_NOISE = 1.3, 0.01
"""Noise counts as 0 up to these multiples of the rounding error's sd and of the sd of y."""

FEW_COPIES = 3
"""So many repeated rows are not worth a word."""

ROWS_A_FEATURE = 2
"""Rows for each feature below which lengthscales rest on their priors."""

ENOUGH_DRAWS, PRIOR_DRAWS, SAME = 100, 1000, 0.1
"""Fewest draws to compare a posterior with its prior, draws of the prior, and the
Kolmogorov-Smirnov distance up to which both count as equal."""

WIDER = {
    "poisson": ("Poisson", "likelihood='negative_binomial'"),
    "binomial": ("binomial", "likelihood='beta' for proportions, if none is 0 or 1"),
}
"""Likelihoods of counts as sentences name them, and others that let counts vary more."""

FAR, EXPECTED = 4.0, 1e-3
"""A row is an outlier this many standard deviations from its prediction by the others; and the
expected proportion of such rows."""

UNEVEN, CHANCE, FEWEST = 2.5, 1e-3, 20
"""Ratio of the noise's sds in the outer thirds of a column above which the noise varies with it,
the probability to say so by chance, and the fewest rows that can tell."""

ALONE = 2.0
"""Nats by which the best optimum must exceed all others to be reported as alone."""

OVERDISPERSED = 1.5
"""Mean squared Pearson residual of left-out counts above which the Poisson distribution is too
narrow."""

ROUGH = 0.2
"""Share of the variance of f that other rows do not explain, above which f may follow noise."""

MOST_ROWS, MOST_NORMAL = 2000, 20_000
"""Most rows for leave-one-out predictions in an examination, of counts and of other responses."""

FAR_VALUE, DISTINCT = 8.0, 10
"""Interquartile ranges from the median to the farthest value above which a column is reported, if
it has more than this number of distinct values."""

AT_ENDS, WIDE, MISSED = 0.7, 3.0, 1.1
"""Least prior variance of an HSGP at an end of the data, relative to the middle; a c that suffices
for all lengthscales; and how much more twice as many sines may hold."""

MOST_NAMED = 5
"""So many features are named in a sentence."""

EXAMINATION = "examination"
"""Attribute of a fit with the findings, one or two sentences in each line."""


def examine(model: Any, idata: xr.DataTree) -> list[str]:
    """What was found in a fit, most important first; it is also written to its attributes."""
    found = [
        *_noise(model, idata),
        *_lengthscales(model, idata),
        *_box(model, idata),
        *_deviations(model, idata),
        *_features(model),
        *_far_values(model),
        *_starts(idata),
        *_prior(model, idata),
        *_residuals(model, idata),
        *_dispersion(model, idata),
        *_varying_noise(model, idata),
    ]
    if found:
        idata.attrs[EXAMINATION] = "\n".join(found)
    return found


_UNEXAMINED: ContextVar[bool] = ContextVar("_UNEXAMINED", default=False)


@contextmanager
def unexamined() -> Iterator[None]:
    """Fit without an examination: its advice is about data that the user has not seen."""
    token = _UNEXAMINED.set(True)
    try:
        yield
    finally:
        _UNEXAMINED.reset(token)


def complain(model: Any, idata: xr.DataTree) -> None:
    """Warn of all that was found in a fit, in one warning; the fit is kept if that fails."""
    if _UNEXAMINED.get():
        return
    try:
        found = examine(model, idata)
    except (Exception, KeyboardInterrupt) as stopped:
        warn(f"The fit was not examined ({type(stopped).__name__}: {stopped}).", FitWarning)
        return
    if found:
        warn("About this fit: " + " ".join(found), FitWarning)


def _noise(model: Any, idata: xr.DataTree) -> Iterator[str]:
    """Noise of 0, or no larger than the rounding of the response."""
    spec, data = model.specification, model.training
    if "sigma" not in model.posterior_names:
        return
    theta = dict(model.fixed) | dict(medians(model, idata))
    sigma = np.asarray(theta["sigma"])
    if not spec.observation.smooth:  # whose noise has another sd
        sigma = np.sqrt(spec.observation.variance(0.0, {"sigma": sigma}))
    own = 0.0
    if spec.family == "GPX":
        size = (data.scaled()["Z"] ** 2).mean(axis=0)
        own = float((np.asarray(spec.deviation_sd(theta)) ** 2 * size).sum())
    noise = np.sqrt(sigma**2 + own)
    spread = data.y_scaling.scale if data.outputs is None else data.outputs.scaling.scale
    spread = 1.0 if model.scale else _spread(data) / spread
    if spec.observation.exposed:  # sigma is that of log y at exposure 1
        values = data.y / data.exposures if data.outputs is None else data.outputs.values
        spread = np.nanstd(np.log(values), axis=0)
    rounded = np.any((noise <= AT_FLOOR * data.least_noise) & (data.least_noise > 0.0))
    if not (rounded or np.any(noise <= NO_NOISE * spread)):
        return
    copies = _copies(data)
    what = f"repeated with the same {data.y_name}, as if there were no noise"
    if rounded:
        said = f"sigma is no larger than the rounding error of {data.y_name}"
    else:
        said = "sigma is near 0"
    if rounded and copies < FEW_COPIES:
        yield (
            f"{said[0].upper()}{said[1:]}, which is its lower bound: the data show no other noise. "
            "Intervals may be too wide. Pass resolution=0 to remove the bound, or a likelihood for "
            "classes or counts if the response has few values."
        )
    elif copies >= FEW_COPIES:
        yield (
            f"{said[0].upper()}{said[1:]}, since {copies} of {data.n} rows are {what}. If they are "
            "copies of one record, drop them; if each is a measurement of its own, give repeated "
            "rows a label of their own by groups=."
        )
    else:
        yield (
            f"{said[0].upper()}{said[1:]}: the function passes through every response. Unless "
            f"{data.y_name} was computed without noise, intervals are too narrow. Give sigma a "
            "prior that keeps it away from 0, such as "
            "priors={'sigma': pm.LogNormal.dist(-1, 0.5)}, or use fewer features."
        )


def _spread(data: TrainingData) -> float | np.ndarray:
    """Standard deviation of the response, or of each output."""
    if data.outputs is None:
        return float(np.std(data.y))
    return np.nanstd(data.outputs.values, axis=0)


def _copies(data: TrainingData) -> int:
    """Rows that repeat another one, response included."""
    if data.streamed or data.outputs is not None:
        return 0
    held = [data.X.values, data.y[:, None]]
    if data.Z is not None and data.Z.sparse:  # two random sums tell rows apart
        held += [data.Z.values @ np.random.default_rng(0).normal(size=(data.p, 2))]
    elif data.Z is not None:
        held += [data.Z.values]
    return data.n - len(np.unique(np.column_stack(held), axis=0))


def _lengthscales(model: Any, idata: xr.DataTree) -> Iterator[str]:
    """Lengthscales below the spacing of a feature's values: its effect is noise there."""
    data = model.training
    kinds = {h.name for h in model.specification.hyperparameters if h.kind == "lengthscale"}
    values = medians(model, idata)
    if data.streamed or not kinds & set(values):
        return
    x = data.X_scaling.apply(data.X.values)
    gaps = [np.diff(np.unique(column)) for column in x.T]
    spacing = np.array([np.median(gap) if len(gap) > 1 else 0.0 for gap in gaps])
    short = np.zeros(data.d, bool)
    for name in kinds & set(values):
        own = _of_columns(values[name], data)
        short |= (own < spacing).reshape((-1, data.d)).any(axis=0)
    names = [name for name, bad in zip(data.X.columns, short, strict=True) if bad]
    if names:
        yield (
            f"The lengthscale of {_some(names)} is shorter than the distance between neighbouring "
            "values, so that each value has an effect of its own. Declare a feature of few values "
            "as categories, leave out one that numbers the rows, or pass "
            "priors={'lengthscale': bx.lengthscale_prior(X)}."
        )


def _of_columns(values: Any, data: TrainingData) -> np.ndarray:
    """Hyperparameters of features, where one may be for all indicators of a category."""
    own = np.asarray(values)
    return own if own.ndim == 0 or own.shape[-1] == data.d else own[..., data.X.groups]


def _box(model: Any, idata: xr.DataTree) -> Iterator[str]:
    """Sines of an HSGP that lose prior variance at the ends of the data, or everywhere.

    They vanish at the ends of the box, and so does a function that hardly varies along a column.
    """
    spec, data = model.specification, model.training
    approximation = spec.approximation
    if not isinstance(approximation, HSGP):
        return
    theta = dict(model.fixed) | dict(medians(model, idata))
    several = spec.outputs or len(spec.processes)
    asked = [h for h in spec.hyperparameters if not spec.outputs or h.each == "output"]
    theta |= {h.name: _of_columns(theta[h.name], data) for h in asked if h.dim == "feature"}
    middle, along = data.corners.mean(axis=0), np.eye(data.d, dtype=bool)
    points = np.vstack([middle, *np.where(along, data.corners[:, None], middle)])
    bases, variances = [approximation, replace(approximation, c=WIDE)], []
    for basis in tuple(bases):  # with twice the sines, if these are not too many
        finer = basis.enlarged(2)
        bases.append(finer if finer.size(data.d) <= LARGEST_BASIS else basis)
    for k in range(several or 1):
        of_one = {h.name: theta[h.name][k] if several else theta[h.name] for h in asked}
        own = {name: pt.constant(value) for name, value in of_one.items()}
        prior: Any = spec.process(own, data.d, model.called_kernel)
        summands = prior.cov_funcs if spec.family == "GPX" else [prior.cov_func]
        for exact in map(GaussianProcess, summands):
            each = [expanded(exact, basis, data.corners) for basis in bases]
            variances += [pt.stack([p.variance(evaluate(points)) for p in (exact, *each)])]
    values = {rv: pt.constant(theta[rv.name]) for rv in model.own_variables}
    found = np.array(pm.draw(graph_replace(variances, values, strict=False), mode=MODE))
    held, of_wide, of_finer, of_finest = (
        found[:, k] / np.maximum(found[:, 0], 1e-300) for k in range(1, 5)
    )
    known = held[:, :1] > 0.0  # not of a line through 0
    of_ends = np.divide(held[:, 1:], held[:, :1], out=np.ones_like(held[:, 1:]), where=known)
    at_ends = of_ends.reshape((-1, 2, data.d)).min(axis=(0, 1))
    low = np.unique(data.X.groups[at_ends < AT_ENDS])
    if len(low):
        names = [data.X.sources[k] for k in low]
        few = (of_finest[:, 0] > MISSED * of_wide[:, 0]).any()
        yield (
            f"The lengthscale of {_some(names)} is long for the box of HSGP: at the ends of the "
            f"data, f has {at_ends.min():.0%} of its prior variance in the middle, so predictions "
            f"there are wrong. Fit with approximation=bx.{bases[3 if few else 1]}, or leave such "
            "columns out."
        )
    elif (of_finer[:, 0] > MISSED * held[:, 0]).any():
        yield (
            f"{approximation.m} sines are too few for a lengthscale, and lose a part of the prior "
            f"variance. Compare a fit with approximation=bx.{bases[2]}."
        )


def _deviations(model: Any, idata: xr.DataTree) -> Iterator[str]:
    """Deviations of weights, which not all fits through coefficients learn."""
    spec, sampled = model.specification, {*model.latent_names.values()}
    learnt = spec.normal or spec.approximation is None or isinstance(spec.strategy_of(), ByRow)
    if spec.family != "GPX" or learnt:
        return
    sizes = spec.deviation_sd(dict(model.fixed) | dict(medians(model, idata)))
    if np.any(sizes) and sampled.isdisjoint(idata["posterior"].data_vars):
        yield (
            "Weights of training rows do not deviate from the smooth ones, and sigma_w is "
            "estimated too small: with groups, constraints, several outputs or out-of-core rows, "
            f"{type(spec.approximation).__name__} learns deviations only for normal noise. Fit "
            "without an approximation, or pass priors={'sigma_w': 0.0}."
        )


def _features(model: Any) -> Iterator[str]:
    """More features than the rows can distinguish."""
    data, spec = model.training, model.specification
    d, _ = data.sources
    each = spec.ard and any(h.kind == "lengthscale" for h in spec.hyperparameters)
    if each and d > 1 and data.n < ROWS_A_FEATURE * d:
        yield (
            f"{data.n} rows cannot tell {d} features apart: which of them matter rests on the "
            "prior. Use fewer features, or one lengthscale for all by ard=False."
        )


def _far_values(model: Any) -> Iterator[str]:
    """Columns with a few huge values, which determine the scale and the lengthscale."""
    frame = model.training.X
    if model.training.streamed:
        return
    low, middle, high = np.quantile(frame.values, [0.25, 0.5, 0.75], axis=0)
    reach = np.abs(frame.values - middle).max(axis=0)
    far = (reach > FAR_VALUE * (high - low)) & (high > low)
    names = [
        name
        for name, values, beyond in zip(frame.columns, frame.values.T, far, strict=True)
        if beyond and name in frame.sources and len(np.unique(values)) > DISTINCT
    ]
    if names:
        yield (
            f"A few values of {_some(names)} are more than {FAR_VALUE:g} interquartile ranges from "
            "the median, and these rows determine the lengthscale. Compare a fit to the logarithm "
            "of these features, or to np.arcsinh of them if they are not positive."
        )


def _starts(idata: xr.DataTree) -> Iterator[str]:
    """A mode that one start alone has found."""
    if idata["posterior"].attrs.get("inference_method") == "nuts":
        return
    if "starts" not in idata.children:
        return
    heights = idata["starts"].to_dataset()["log_density"].values
    if len(heights) > 2 and np.sort(heights)[-1] - np.sort(heights)[-2] > ALONE:
        yield (
            f"One of {len(heights)} starts found the highest mode, the others ended lower, so "
            "there may be a higher one still. Compare fit('nuts'), or pass start= with another "
            "guess."
        )


def _prior(model: Any, idata: xr.DataTree) -> Iterator[str]:
    """Hyperparameters with a posterior that looks like the prior."""
    posterior = idata["posterior"].to_dataset()
    if posterior.sizes["chain"] * posterior.sizes["draw"] < ENOUGH_DRAWS or model.joined:
        return
    free = {rv.name: rv for rv in model.objective.free_RVs if rv.name in posterior}
    try:
        prior = pm.draw([*free.values()], PRIOR_DRAWS, random_seed=0, mode=MODE)
    except NotImplementedError:  # of a prior that cannot be drawn from, such as pm.HalfFlat
        return
    same = []
    for (name, _), drawn in zip(free.items(), prior, strict=True):
        values = posterior[name].values.reshape((-1, *posterior[name].shape[2:]))
        columns = values.reshape((len(values), -1)).T
        before = np.asarray(drawn).reshape((PRIOR_DRAWS, -1)).T
        distance = [ks_2samp(a, b).statistic for a, b in zip(columns, before, strict=True)]
        if len(distance) and max(distance) < SAME:
            same.append(name)
    if same:
        yield (
            f"The posterior of {_some(same)} equals the prior: the data say nothing of it. What "
            "depends on it is an assumption; name its prior when you report."
        )


def _deviation(draw: OneDraw) -> list[Tensor]:
    """Deviation of each response from its prediction by the others, in sds, and this prediction."""
    given = draw.given
    _, _, mean, spread = draw.strategy.leave_one_out(given)
    return [(given.y - mean) / pt.sqrt(spread + given.noise_sd**2), mean]


def _residuals(model: Any, idata: xr.DataTree) -> Iterator[str]:
    """Outliers, and noise with a varying size."""
    spec, data = model.specification, model.training
    unfit = data.outputs is not None or data.streamed or data.n > MOST_NORMAL
    if not spec.normal or unfit:
        return
    theta = {name: np.asarray(value) for name, value in medians(model, idata).items()}
    (away, mean), *_ = at_training_rows(model, theta, _deviation, progressbar=False)
    size, mean = np.abs(away.ravel()), mean.ravel()
    far = np.flatnonzero(size > FAR)
    if len(far) > EXPECTED * len(size):
        labels = [str(data.X.index[k]) for k in far[np.argsort(-size[far])]]
        rows = "row" if len(labels) == 1 else "rows"
        yield (
            f"{len(labels)} of {data.n} responses lie {FAR:g} or more standard deviations from "
            f"what the others predict ({rows} {_some(labels)}). Check them, or use "
            "likelihood='student_t'."
        )
    beside = spec.grouped or spec.calls_kernel or spec.levels or spec.constraints is not None
    able = spec.family == "GP" and not beside  # as two processes need
    yield from _uneven(size, {**_numeric(data), f"predicted {data.y_name}": mean}, able)


def _numeric(data: TrainingData) -> dict[str, np.ndarray]:
    """Columns of X that are numbers, by name."""
    columns = zip(data.X.columns, data.X.values.T, strict=True)
    return {name: values for name, values in columns if name not in data.X.levels}


def _uneven(size: np.ndarray, along: Mapping[str, np.ndarray], able: bool = True) -> Iterator[str]:
    """Noise that varies along a column, or along the predictions."""
    found = []
    for name, values in along.items() if len(size) >= FEWEST else ():
        low, high = np.quantile(values, [1 / 3, 2 / 3])
        first, last = size[values <= low], size[values >= high]
        if low < high:
            ratio = np.sqrt(np.mean(last**2) / np.mean(first**2))
            found.append((spearmanr(values, size).pvalue, ratio, name))
    p, ratio, name = min(found, default=(1.0, 1.0, ""))
    if p * len(found) < CHANCE and max(ratio, 1 / ratio) > UNEVEN:
        few = f" with approximation=bx.Inducing({len(size)})" * (len(size) < FEWEST_OF_PROCESSES)
        cure = (
            f"likelihood='heteroscedastic_normal'{few}, or " * able + "a logarithm of the response"
        )
        ends = ("largest", "smallest") if ratio > 1 else ("smallest", "largest")
        yield (
            f"The noise varies with {name}: its sd is {max(ratio, 1 / ratio):.2g} times as large "
            f"in the third of the rows with the {ends[0]} {name} as in the third with the "
            f"{ends[1]}. Intervals are too narrow where the noise is large, and too wide "
            f"elsewhere. Use {cure}."
        )


def _left_out(draw: OneDraw) -> list[Tensor]:
    """Rate of each count given the others, and mean and variance of f."""
    given = draw.given
    _, _, mean, spread = draw.strategy.leave_one_out(given)
    return [given.likelihood.expected(mean, spread, given.exposure).value, mean, spread]


def _dispersion(model: Any, idata: xr.DataTree) -> Iterator[str]:
    """Counts that vary more than the Poisson or binomial distribution allows."""
    data, likelihood = model.training, model.specification.likelihood
    if likelihood not in WIDER or data.streamed or data.n > MOST_ROWS:
        return
    theta = {name: np.asarray(value) for name, value in medians(model, idata).items()}
    found, *_ = at_training_rows(model, theta, _left_out, progressbar=False)
    rate, mean, spread = (values.ravel() for values in found)
    # Large counts vary by more than their rates if the other rows leave these uncertain. A function
    # as rough as noise takes up all variation beyond the distribution, which may be noise.
    variance, unsure = rate, rate**2 * np.expm1(spread)
    if likelihood == "binomial":
        variance = rate * (1.0 - rate / np.asarray(data.exposures))
        unsure = variance**2 * spread
    squared = (data.y - rate) ** 2
    ratio = float(np.mean(squared / variance))
    narrow = np.mean(squared / (variance + unsure)) > OVERDISPERSED
    rough = spread.mean() > ROUGH * (spread.mean() + mean.var())
    if ratio > OVERDISPERSED and (narrow or rough):
        name, cure = WIDER[likelihood]
        consequence = (
            "so intervals are too narrow. Use"
            if narrow
            else "and f follows them from row to row, as if noise were signal. Compare"
        )
        yield (
            f"Counts vary {ratio:.2g} times as much as {name} counts around the rates that the "
            f"other rows predict, {consequence} {cure}."
        )


def _varying_noise(model: Any, idata: xr.DataTree) -> Iterator[str]:
    """Noise that is a process of its own, by Laplace's approximation."""
    sampled = {*model.latent_names.values()} & {*idata["posterior"].data_vars}
    spec = model.specification
    if spec.processes and spec.approximation is None and not sampled:
        yield (
            "Laplace's approximation makes the standard deviation of y too low, often by half of "
            "the posterior sd of its log. Pass approximation=bx.Inducing(100) to the model, or "
            "compare fit('nuts', latent='sample')."
        )


def _some(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
