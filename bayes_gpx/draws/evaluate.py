"""From one draw to all: compile once, loop, sample, name.

Graphs are written for one draw, and compiled as functions of hyperparameters, data and jitter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import pymc as pm
import xarray as xr

from bayes_gpx.aliases import Draws
from bayes_gpx.draws.averages import averaged, of_groups, refuse_averages
from bayes_gpx.draws.each_draw import in_blocks
from bayes_gpx.draws.hyperparameter_draws import hyperparameter_draws
from bayes_gpx.draws.intervals import interval_probability
from bayes_gpx.draws.mixtures import Beside, Conditional
from bayes_gpx.draws.protocols import ModelLike
from bayes_gpx.draws.results import ResultBuilder
from bayes_gpx.draws.stores import Memory, Store
from bayes_gpx.numerics.jets import Jet
from bayes_gpx.numerics.progress import progress_bar
from bayes_gpx.numerics.threads import blas_threads
from bayes_gpx.posteriors.predictive_derivatives import ClassSensitivity, Sensitivity
from bayes_gpx.posteriors.softmax import across
from bayes_gpx.processes.expected_gradients import TOGETHER
from bayes_gpx.system.digests import digest
from bayes_gpx.validation import count, one_of

if TYPE_CHECKING:
    from bayes_gpx.draws.hyperparameter_draws import HyperparameterDraws
    from bayes_gpx.draws.new_responses import NewResponses
    from bayes_gpx.draws.points import Points
    from bayes_gpx.draws.quantities import Quantity

BLOCK_BYTES = 32 * 2**20
"""Size of the largest array that a block of rows may need."""

LARGEST_JOINT = 5000
"""Most quantities that are drawn jointly."""


@dataclass(frozen=True)
class _PosteriorMoments:
    """Posterior moments of an operator: the build function of an explanation.

    `second` is the operator of a total. With `beside` it is the operator without deviations; its
    prior variances come last, and its covariance is computed with the covariance of the quantity.
    """

    operator: Callable
    moment: str
    second: Callable | None
    across: bool = False
    beside: bool = False

    def __call__(self, draw):
        """Return mean (m c,) and the moment; of a second, mean and variance (m,). Or `across`."""
        operator = self.operator(draw.asked)
        if self.across:
            each = [draw.posterior(label)(operator) for label in draw.given.labels]
            return [*across(each, self.moment == "cov")]
        q = draw.posterior(draw.label)
        posterior = q(operator)
        outputs = [posterior.mean, getattr(posterior, self.moment)]
        if self.second is not None:
            without = self.second(draw.asked)
            second, prior = q(without), draw.given.process
            joint = self.beside and self.moment == "cov"
            outputs += [second.mean, second.cov if joint else second.variance]
            if self.beside:
                outputs.append(prior.variance(operator) - prior.variance(without))
        return outputs


def explain(
    model: ModelLike,
    idata: Draws,
    quantity: Quantity,
    where: Points,
    *,
    draws: int = 1000,
    num_draws: int | None = None,
    features: Sequence[str] | None = None,
    covariance: bool = False,
    joint: bool = False,
    keep: str = "draws",
    on: str = "response",
    path: str | PathLike | None = None,
    seed: int | None = None,
    progressbar: bool = True,
    response: NewResponses | None = None,
    ci_prob: float | None = None,
) -> xr.Dataset:
    """Posterior of a linear quantity at points, for every hyperparameter draw.

    Parameters
    ----------
    model : Model
    idata : xarray.DataTree or dict
        A fit of this model, or a dict of fixed hyperparameters.
    quantity : Quantity
    where : Points
    draws : int
        Number of conditional draws if there is a single hyperparameter draw. Otherwise each
        hyperparameter draw gives one.
    num_draws : int, optional
        Thin the hyperparameter draws evenly to at most this many.
    features : list of str, optional
        Only these components.
    covariance : bool
        Also the covariance between components, `name_cov`.
    joint : bool
        Draw all rows jointly.
    keep : {"draws", "summary"}
    on : {"response", "latent"}
        The mean response or f, which are equal for a Gaussian likelihood.
    path : str or path, optional
        Stream the draws to a new zarr store, instead of keeping them in memory. It grows in `path`
        with ".unfinished" added; missing values are NaN. A repeated call continues an interrupted
        one, with the same numbers; derivatives and attributions of the response of classes and
        counts start again. A finished store replaces an earlier store. Files that the package did
        not write are left alone and refused.
    seed : int, optional
    progressbar : bool
    response : NewResponses, optional
        A new response around the quantity, which is f.
    ci_prob : float, optional
        Probability of the intervals; 90% by default.

    Returns
    -------
    xarray.Dataset
        The variables of the explanation function and, for each quantity, `name_interval` (...,
        ci_bound): equal-tailed quantiles of the mixture of normals over hyperparameter draws (at
        most 400 of them), independent of the seed. Quantities that are not linear in f have no
        interval, nor do results in memory with very many rows; pass a `path` for these.

    Notes
    -----
    `bayes_gpx.predictions`, `weights`, `contributions`, `derivatives`, `attributions` and
    `shapley_values` take `executor` too: a `concurrent.futures.Executor`, for Dask
    ``client.get_executor()``. Its workers explain more than 16,384 rows in chunks of 512 to 16,384
    rows, such that draws and moments of a chunk take about 128 MiB, or the memory of 512 rows if
    this is more. Draws then need a `path` that all workers can write to; it is optional with
    ``keep="summary"``. `obs` and `joint` are not supported. Out-of-core training rows are explained
    in chunks without an executor as well. For fewer rows, workers take blocks of hyperparameter
    draws of about 0.3 seconds, and the results are combined here; they equal the results without an
    executor, except for round-off. `seed` gives the same draws for any number of workers. For
    classes and counts, where each posterior is found starting from the previous draw's, they agree
    to about nine digits.
    """
    one_of("keep", keep, ("draws", "summary"))
    one_of("on", on, ("response", "latent"))
    observation = model.specification.observation
    if quantity.bends and on == "response" and observation.mean_name is not None:
        raise ValueError(
            f"{quantity.name} of the {observation.mean_name} cannot be drawn jointly with others. "
            f"Pass on='latent' to draw it for f, in units of {quantity.units}."
        )
    count("draws", draws)
    if seed is not None:
        count("seed", seed, 0)
    if path is not None and keep == "summary":
        raise ValueError(
            "path was given with keep='summary', but summaries of rows in memory are small. Leave "
            "path out, and write the returned Dataset by .to_zarr(path)."
        )
    prob = interval_probability(ci_prob)
    hyper = hyperparameter_draws(model, idata, num_draws)
    sampled, named = keep == "draws", where
    if where.by is not None:
        _refuse_averages(model, quantity, where, path, response)
        quantity, named, joint = averaged(quantity, where.by), of_groups(where), True
    shape, size = (len(hyper.chain), len(hyper.draw)), len(named.index) * quantity.width
    if joint and size > LARGEST_JOINT:
        raise ValueError(
            f"joint=True would draw {size} quantities jointly; at most {LARGEST_JOINT} can be. "
            "Explain fewer observations at a time with obs=."
        )
    by_variance = quantity.components is None or not (sampled or covariance or quantity.total)
    by_variance = by_variance and not quantity.across and quantity.mixes is None
    moment = "cov" if joint else "variance" if by_variance else "block"
    each, m = draws if hyper.alone else 1, len(named.index)
    gathered = by_class(
        model,
        path if sampled else None,
        lambda: ResultBuilder(quantity, features, m, covariance),
        quantity.across,
    )
    lead = (shape[0], shape[1] * each, m)
    shapes = [g.shapes(lead) if sampled else {} for g in gathered]
    largest_jitter = np.zeros(1)
    sums = [*gathered[0].sums, largest_jitter]
    if response is not None:
        shapes[0] |= response.shapes(lead) if sampled else {}
        sums += response.sums
    if path is None or not sampled:
        place = Memory(shapes, seed)
    else:
        asked = _asked(model, hyper, quantity, where, features, covariance, joint, each, seed)
        asked = asked if response is None else digest(asked, response.exposure)
        place = Store(path, shapes[0], seed, asked, sums, along=quantity.along, together=each)
    for own in gathered:
        own.keep_for_intervals(len(hyper), prob, place)
    keep_freed_memory()
    with blas_threads(model.training.n), progress_bar(progressbar) as progress:
        begun, first = place.done
        tracked = progress.track(
            [*hyper][begun:],
            total=len(hyper) - begun,
            description=f"Computing {quantity.name} of {m} rows, by draw",
        )
        for at, theta, rows, label, (mean, second, *other), jitter in _moments(
            model, hyper, tracked, quantity, where, moment, each, first
        ):
            own = gathered[label]
            rows = rows if where.by is None else slice(0, m)
            largest_jitter[:] = max(largest_jitter[0], jitter)
            noise = float(theta["sigma"]) if quantity.noisy else None
            part = Conditional(mean, second, moment, own.drawn, quantity)
            number = at[0] * shape[1] + at[1]
            beside = None
            if quantity.beside is not None:
                smooth, variance, deviations = other
                beside = Beside(smooth, variance, deviations, moment, quantity, part)
                other = [beside.smooth]
            own.add(rows, part, noise, other, number)
            if response is not None:
                response.add(rows, part, theta)
            elif not sampled:
                continue
            which = () if len(gathered) == 1 else (label,)
            key = np.random.SeedSequence(place.entropy, spawn_key=(*at, rows.start, *which))
            rng = np.random.default_rng(key)
            sources = 1 + (quantity.noisy is not None) + (beside is not None)
            normal = rng.standard_normal((sources, each, *part.mean.shape))
            found = own.sample(part, noise, normal, beside)
            if response is not None:
                found |= response.sample(rows, found[quantity.name], theta, rng)
            if not sampled:
                continue
            kept = (at[0], slice(at[1] * each, (at[1] + 1) * each), rows)
            for name, array in found.items():
                place.arrays[label][name][kept] = array
            place.keep((number, rows.stop) if rows.stop < m else (number + 1, 0), sums)
    dataset = joined(model, gathered, named, place)
    between = "" if len(gathered) == 1 else ", independent between classes"
    between = ", joint over classes" if quantity.across else between
    attrs = {
        "relative_jitter": float(largest_jitter[0]),
        "dependence": DEPENDENCE[joint].format(quantity.along) + between,
        "samples": quantity.samples or SAMPLES[where.positions is None],
    }
    if response is not None:
        dataset, attrs = response.named(dataset, place.held[0]), attrs | response.attrs
    found = finished(dataset, model, quantity, hyper, each, sampled, place, attrs)
    return found if where.by is None else found.rename(obs="by")


def _refuse_averages(model, quantity, where, path, response):
    """Raise for averages that are not linear, too large, or to be stored."""
    if path is not None:
        raise ValueError("path was given with by, but averages are small. Leave path out.")
    if response is not None:
        refuse_averages(where)
    spec = model.specification
    deviates = spec.family == "GPX" and quantity.samples is None
    if deviates and spec.approximation is not None:
        raise ValueError(
            f"by is not offered for {quantity.name} of a GPX with an approximation, which keeps no "
            "joint deviations of rows. Use bx.weights(smooth=True), bx.derivatives or "
            "bx.attributions, which leave deviations out."
        )
    size = len(where.X) * quantity.width
    if size > LARGEST_JOINT and not spec.expanded:
        raise ValueError(
            f"by needs the covariance of {size} quantities, at most {LARGEST_JOINT} for this "
            "model. Average over fewer rows by obs=, or fit with approximation=bx.HSGP(...) or "
            "bx.RandomFeatures(...), whose averages have no such limit."
        )


def _asked(model, hyper, quantity, where, *options):
    """Digest of all that decides what `explain` computes."""
    training, operator = model.training, quantity.operator
    arrays = [*training.scaled().values(), training.X.values, training.y]
    arrays += [*hyper.values.values(), hyper.chain, hyper.draw, quantity.factor]
    arrays += [where.X, where.Z, where.positions, where.index, where.baseline, where.group]
    said = getattr(operator, "__qualname__", None) or repr(operator)
    described = [model.signature, quantity.name, said, quantity.attrs, version("bayes_gpx")]
    return digest(*arrays, *described, options)


def by_class(model, path, make, across=False):
    """List what `make` makes, for each class or for all together; refuses a path for classes."""
    number = 1 if across else model.specification.classes or 1
    if path is not None and model.specification.classes is not None:
        raise ValueError(
            "path was given with likelihood='categorical', but classes are kept in memory. Leave "
            "path out, and explain fewer observations at a time with obs=, or pass keep='summary'."
        )
    return [make() for _ in range(number)]


def joined(model, gathered, where, place):
    """Name the gathered results of all classes, with `class` as the last dim."""
    parts = [g.dataset(model, where, s) for g, s in zip(gathered, place.held, strict=True)]
    if len(parts) == 1:
        return parts[0]
    common = [v for v in ("value", "center", "offset", "baseline") if v in parts[0]]
    labels = xr.DataArray(list(model.training.labels), dims="class", name="class")
    found = xr.concat([part.drop_vars(common) for part in parts], labels)
    found = found.transpose(..., "class").assign(parts[0][common])
    found = found.transpose(..., "ci_bound", missing_dims="ignore")
    found.attrs.update(parts[0].attrs)
    return found


def keep_freed_memory():
    """Make the C library keep freed memory, by freeing one block of just under 32 MiB.

    Until glibc has freed a block of this size, it returns blocks to the system and takes them again
    page by page, half of the time of an explanation.
    """
    np.empty(32 * 2**20 - 2**16, np.uint8)


DEPENDENCE = {
    False: "joint over {}s within an observation, independent between observations",
    True: "joint over {}s and observations",
}
"""What attrs say of how draws belong together: of draws for each observation, and of joint ones."""

SAMPLES = {True: "new samples, with fresh eps_w", False: "training samples, with their own eps_w"}
"""What attrs say of the samples that a result is about: whether they are new ones."""


def _moments(model, hyper, tracked, quantity, where, moment, each, first):
    """Posterior moments of a quantity for each draw, block of rows and class, as from `in_blocks`.

    The blocks depend on the model and the quantity alone, never on how many rows are asked for:
    their first rows are part of the seeds.
    """
    paths = 1 if where.baseline is None else len(np.atleast_2d(where.baseline))
    second = (quantity.total or quantity.beside or (None, None))[1]
    beside = quantity.beside is not None
    build = _PosteriorMoments(quantity.operator, moment, second, quantity.across, beside)
    c = quantity.width
    pairs = TOGETHER * paths**2 * max(c**2, TOGETHER) if paths > 1 else 0
    squares = 16 * c**2 if quantity.square else 0

    def size_of(known):
        if moment == "cov":
            return len(where.X)
        if quantity.points > 1 and not model.specification.expanded:
            return 1  # all pairs of one row's points
        points = max(c, quantity.points) * paths
        return max(1, BLOCK_BYTES // (8 * max(points * max(known, each), pairs, squares)))

    labels = () if quantity.across else range(model.specification.classes or 0)
    return in_blocks(model, hyper, tracked, build, where, size_of, labels, first)


def jets(
    model: ModelLike,
    hyper: HyperparameterDraws,
    where: Points,
    order: int,
    *,
    smooth: bool = False,
    only: Sequence[int] | None = None,
    progressbar: bool = True,
) -> Iterator[tuple[tuple[int, int], dict[str, Any], Jet, Jet, float]]:
    """Yield mean and variance of f, with derivatives up to `order`, for each draw of `hyper`.

    With `smooth` only the smooth part, with `only` the draws at these positions. Yields (chain,
    draw), the hyperparameters, jets of mean and variance on the model's scale (with a last dim of
    classes, and two for their covariances), and the jitter.
    """
    kind = Sensitivity if model.specification.classes is None else ClassSensitivity
    build = kind(order, model.training.tied, smooth)

    def size_of(known):
        return max(1, BLOCK_BYTES // (8 * known * model.training.d**order))

    keep_freed_memory()
    with blas_threads(model.training.n), progress_bar(progressbar) as progress:
        draws = [*hyper] if only is None else [draw for k, draw in enumerate(hyper) if k in only]
        tracked = progress.track(
            draws, total=len(draws), description="Means of the response, by draw"
        )
        new, parts = replace(where, positions=None), []
        for at, theta, rows, _, found, jitter in in_blocks(
            model, hyper, tracked, build, new, size_of
        ):
            parts.append([np.array(part) for part in found])
            if rows.stop == len(where.X):
                whole = [np.concatenate(part) for part in zip(*parts, strict=True)]
                yield at, theta, Jet(*whole[::2]), Jet(*whole[1::2]), jitter
                parts = []


def finished(dataset, model, quantity, hyper, each, sampled, place, attrs):
    """Name the draws, describe the numbers, and move a store with them to its place."""
    if sampled:
        draw = np.arange(each) if hyper.alone else hyper.draw
        dataset = dataset.assign_coords(chain=hyper.chain, draw=draw)
    dataset.attrs.update(origin(model), units=quantity.units, **attrs)
    return place.finished(dataset)


def origin(model: ModelLike) -> dict[str, Any]:
    """What every result's attrs say of where it comes from."""
    return {
        "likelihood": model.specification.likelihood,
        "bayes_gpx": version("bayes_gpx"),
        "pymc": pm.__version__,
    }
