"""The result of a question: moments, intervals and draws, gathered over draws and named."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import xarray as xr

from bayes_gpx.data.features import INTERCEPT, Frame
from bayes_gpx.draws.averages import shares_of_variance
from bayes_gpx.draws.intervals import (
    BLOCK_NUMBERS,
    BOUNDS,
    LEAST_DRAWS,
    MOST_DRAWS,
    MOST_NUMBERS,
    mixture_quantile,
)
from bayes_gpx.draws.naming import origin, under_one_name, units_of, values_by_source, values_of
from bayes_gpx.draws.new_responses import NewResponses
from bayes_gpx.draws.normals import blocks, drawn, variances, with_deviations

if TYPE_CHECKING:
    from bayes_gpx.draws.hyperparameter_draws import HyperparameterDraws
    from bayes_gpx.draws.points import Points
    from bayes_gpx.draws.protocols import ModelLike
    from bayes_gpx.draws.questions import Question
    from bayes_gpx.draws.stores import DrawStore

DRAWN = " of draws"
"""What the name of the mean response gains where its moments are those of draws."""

type Variables = dict[str, Any]
"""Variables of a Dataset by name, each with its dims."""


class Result:
    """Moments, intervals and draws of a question, over hyperparameter draws and blocks of rows."""

    # Numbers of a row are columns: the components, then their sum or the smooth part, y, and the
    # mean response. `drawn` are the components that `add` is given: the requested ones; all, if
    # they sum to a total; or one of each pair of a symmetric matrix. `_kept` picks the requested
    # ones of them, and `_place` is where each component of the result is among these.

    def __init__(
        self,
        model: ModelLike,
        question: Question,
        where: Points,
        *,
        features: Sequence[str] | None = None,
        covariance: bool = False,
        response: NewResponses | None = None,
    ) -> None:
        self._model, self._question, self._where = model, question, where
        self._response = response
        each = model.specification.classes is not None and not question.jointly
        of_response = question.attrs.get("scale") == "response"
        self.classes = model.class_labels(of_response) if each else ()
        self._across = covariance and where.by is not None
        self._picked = picked = question.picked(features, covariance and not self._across)
        self.drawn = np.arange(len(question.factor)) if question.total else picked
        self._kept = picked if question.total else slice(None)
        self._place = np.arange(len(picked))
        if len(question.axes) == 2:
            self.drawn, self._place = _distinct(picked, len(question.labels))
        widths = {question.name: int(self._place.max()) + 1}
        self._second = (question.total or question.beside or ("",))[0]
        widths |= {name: 1 for name in (question.noisy, self._second) if name}
        if response is not None:
            widths |= dict.fromkeys((response.name, response.name + DRAWN), response.width)
        ends = np.cumsum([*widths.values()])
        self._columns = {
            name: slice(end - width, end)
            for (name, width), end in zip(widths.items(), ends, strict=True)
        }
        shape = max(1, len(self.classes)), len(where.index), ends[-1]
        self._count = np.zeros(shape, int)
        self._mean, self._within, self._between = (np.zeros(shape) for _ in range(3))
        width = widths[question.name]
        square: tuple[int, ...] = (*shape[:2], width, width)
        if self._across:
            square = shape[0], shape[1] * width, shape[1] * width
        within = covariance and bool(question.axes)
        self._cov = np.zeros(square) if self._across or within else None
        self._residuals = np.zeros((2, *shape[:2]))
        self._jitter = np.zeros(1)
        self._store: DrawStore | None = None
        self._arrays: dict[str, Any] = {}
        self._moments: Any = None
        self._moment_of: dict[int, int] = {}
        self._prob = 0.0

    @property
    def sums(self) -> list[np.ndarray]:
        """The arrays of all that was added so far."""
        own = [self._count, self._mean, self._within, self._between, self._residuals, self._jitter]
        return own if self._cov is None else [*own, self._cov]

    def begin(
        self,
        chains: int,
        draws: int,
        seed: int | None = None,
        *,
        sampled: bool,
        store: Callable[..., DrawStore] | None = None,
    ) -> None:
        """Make arrays of so many draws in memory, or in a store on its way to a path."""
        # `entropy` makes the draws' seeds. `done` counts finished hyperparameter draws, and rows of
        # the next: of a store that is resumed, with its sums.
        self._draws = draws
        shapes = self._shapes((chains, draws, self._mean.shape[1])) if sampled else {}
        if store is not None and shapes:
            if self._model.specification.classes is not None:
                raise ValueError(
                    "path was given, but several classes or processes are kept in memory. "
                    "Leave path out, and explain fewer observations at a time with obs=, or pass "
                    "keep='summary'."
                )
            self._store = store(shapes=shapes, seed=seed, sums=self.sums)
            self._arrays, self.entropy = self._store.arrays, self._store.entropy
            self.done = self._store.done
            return
        self._arrays = {name: np.empty(shape) for name, shape in shapes.items()}
        self.entropy, self.done = np.random.SeedSequence(seed).entropy, (0, 0)

    def _shapes(self, lead: tuple[int, int, int]) -> dict[str, tuple[int, ...]]:
        """Shapes of the arrays of draws (chain, draw, m, ...), by name."""
        q, classes = self._question, (len(self.classes),) if self.classes else ()
        components = self._place.shape if q.axes else ()
        found = {self._drawn_as(q.name): (*lead, *components, *classes)}
        for name in (q.noisy, self._second):
            if name:
                found[name] = (*lead, *classes)
        return found if self._response is None else found | self._response.shapes(lead)

    def _drawn_as(self, name: str) -> str:
        """What draws are called: not as the dim that they have."""
        axes = self._question.axes
        return f"{name}s" if axes and name == axes[0].dim else name

    def keep_for_intervals(self, draws: int, prob: float) -> None:
        """Keep moments of at most `MOST_DRAWS` draws, evenly chosen; none if room is too short."""
        if self._question.jointly:
            return
        classes, m, columns = self._mean.shape
        own = sum(not self._of_response(name) for name in self._columns)
        room = MOST_NUMBERS if self._store is None else np.inf
        most = own * room / max(1, classes * m * columns)
        if most < min(draws, LEAST_DRAWS):
            return
        chosen = np.linspace(0, draws - 1, int(min(draws, MOST_DRAWS, most))).round().astype(int)
        self._moment_of = {int(number): k for k, number in enumerate(np.unique(chosen))}
        shape = (2, len(self._moment_of), m, classes * columns)
        made = np.zeros if self._store is None else partial(self._store.beside, "moments")
        self._prob, self._moments = prob, made(shape)

    def _of_response(self, name: str) -> bool:
        return self._response is not None and name.startswith(self._response.name)

    def add(
        self,
        rows: Any,
        part: tuple[np.ndarray, np.ndarray],
        *,
        noise: np.ndarray | float = 0.0,
        total: tuple[np.ndarray, np.ndarray] | None = None,
        beside: tuple[np.ndarray, np.ndarray] | None = None,
        theta: Mapping[str, Any] | None = None,
        number: int = 0,
        label: int = 0,
        jitter: float = 0.0,
    ) -> None:
        """Add the normal of one draw, counted from 0, by moments `part` of `Question.in_units`."""
        # `noise` is the sd of y in user units, a number or (k,); `total` has mean and variance (k,)
        # of the components' sum, on the model's scale; `beside` the moments of the quantity without
        # deviations, in user units.
        self._jitter[:] = max(self._jitter[0], jitter)
        question, kept, (mean, second) = self._question, self._kept, part
        variance, cov = variances(second), blocks(second)
        own = None if self._cov is None or cov is None else cov[:, kept][:, :, kept]
        if self._across:
            size = len(mean) * mean[:, kept].shape[1]
            own = second[:, kept][..., kept].reshape((size, size))
        found = {question.name: (mean[:, kept], variance[:, kept])}
        if question.noisy:
            found[question.noisy] = mean, variance + np.reshape(noise, (-1, 1)) ** 2
        if question.beside and beside is not None:
            found[question.beside[0]] = beside[0], variances(beside[1])
        if question.total and total is not None:
            factor, offset = question.factor[0], question.offset_of(label).sum()
            whole, spread = total[0] * factor + offset, total[1] * factor**2
            found[question.total[0]] = whole[:, None], spread[:, None]
            of_sum = 0.0 if cov is None else cov.sum(axis=(1, 2))
            missed = np.abs([mean.sum(axis=1) - whole, of_sum - spread])
            self._keep_residuals(missed, rows, label)
        for name, (center, spread) in found.items():
            self._accumulate(name, rows, center[None], spread, cov=own, label=label)
            own = None  # covariances are those of the components, which come first
        self._keep_moments(found, rows, number, label)
        if self._response is not None and theta is not None:
            center, spread = self._response.moments(mean, second, rows, theta)
            self._accumulate(self._response.name, rows, center[None], spread)

    def _keep_residuals(self, missed: np.ndarray, rows: Any, label: int) -> None:
        """Keep the largest errors (1 or 2, k) of a sum: of its mean, and of its variance."""
        own = slice(0, len(missed)), label, rows
        self._residuals[own] = np.maximum(self._residuals[own], missed)

    def _keep_moments(
        self, found: Mapping[str, tuple[np.ndarray, np.ndarray]], rows: Any, number: int, label: int
    ) -> None:
        """Write the moments that intervals are computed from."""
        place = self._moment_of.get(number)
        if place is None:
            return
        first = label * self._mean.shape[2]
        for name, moments in found.items():
            own = self._columns[name]
            columns = slice(first + own.start, first + own.stop)
            self._moments[:, place, rows, columns] = np.stack(moments)

    def _accumulate(
        self,
        name: str,
        rows: Any,
        means: np.ndarray,
        variance: np.ndarray | float,
        *,
        cov: np.ndarray | float | None = None,
        label: int = 0,
    ) -> None:
        """Add means (draws, k, columns) of some rows, and their summed variances: Chan's update."""
        # The squares around the new mean are those of the earlier draws around theirs, those of
        # these draws around theirs, and the squared distance of both means.
        own = label, rows, self._columns[name]
        before, added = self._count[own].copy(), len(means)
        center = means.mean(axis=0)
        shift, share = center - self._mean[own], before * added / (before + added)
        self._count[own] += added
        self._mean[own] += shift * (added / (before + added))
        apart = means - center
        self._between[own] += (apart**2).sum(axis=0) + share * shift**2
        self._within[own] += variance
        if self._cov is None or cov is None:
            return
        if self._across:
            moved = shift.ravel()
            self._cov[label] += cov + share.flat[0] * np.outer(moved, moved)
        else:
            between = np.einsum("fki,fkj->kij", apart, apart)
            between += (share * shift)[:, :, None] * shift[:, None]
            self._cov[label, rows] += cov + between

    def sample(
        self,
        part: tuple[np.ndarray, np.ndarray],
        normal: np.ndarray,
        noise: np.ndarray | float = 0.0,
        beside: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None,
    ) -> dict[str, np.ndarray]:
        """Turn standard normals (1 to 3, draw, m, c) into draws, by name."""
        # `beside` has the moments of the quantity without deviations, and the deviations'
        # variances.
        if beside is None:
            return self._named(drawn(*part, normal[0]), noise * normal[1:2, ..., 0])
        smooth, values = with_deviations(part, beside, normal[0], normal[-1])
        found = self._named(values, noise * normal[1:2, ..., 0])
        return {self._second: smooth[..., 0], **found}

    def _named(self, values: np.ndarray, noise: Any = ()) -> dict[str, np.ndarray]:
        """Draws by name, from those of the components (draw, k, c) and of noise (1, draw, k)."""
        question = self._question
        if not question.axes:
            values = values[..., 0]
        elif len(question.axes) == 2:
            values = values[..., self._place]
        found = {question.name: values}
        if question.noisy:
            found[question.noisy] = values + noise[0]
        if question.total:
            found |= {question.name: values[..., self._kept], question.total[0]: values.sum(-1)}
        return {self._drawn_as(name): values for name, values in found.items()}

    def add_draws(
        self, numbers: np.ndarray, rows: Any, values: np.ndarray, total: np.ndarray | None
    ) -> None:
        """Add draws themselves, on the model's scale, and keep them if there are arrays."""
        # `values` are (draws, k, c), or (draws, k, C, c), and their `total` (draws, k) or (draws,
        # k, C).
        question, kept = self._question, self._kept
        values = question.mixed(values, -1)[..., self.drawn] * question.factor[self.drawn]
        for label in range(len(self._mean)):
            own = values[..., label, :] if self.classes else values
            own = own + question.offset_of(label)[self.drawn]
            none = 0.0 if self._cov is not None else None
            self._accumulate(question.name, rows, own[..., kept], 0.0, cov=none, label=label)
            if question.total and total is not None:
                whole = total[..., label] if self.classes else total
                whole = whole * question.factor[0] + question.offset_of(label).sum()
                self._accumulate(question.total[0], rows, whole[..., None], 0.0, label=label)
                missed = np.abs(own.sum(axis=-1) - whole).max(axis=0)
                self._keep_residuals(missed[None], rows, label)
            if self._arrays:
                for chain, own_draws, those in self._runs(numbers):
                    self.write((chain, own_draws, rows), self._named(own[those]), label)

    def _runs(self, numbers: np.ndarray) -> Iterator[tuple[int, slice, np.ndarray]]:
        """Yield chain, slice of consecutive draws, and which of the numbers they are."""
        chains, draws = np.divmod(numbers, self._draws)
        ends = np.flatnonzero((np.diff(numbers) != 1) | (np.diff(chains) != 0)) + 1
        for those in np.split(np.arange(len(numbers)), ends):
            yield int(chains[those[0]]), slice(draws[those[0]], draws[those[-1]] + 1), those

    def sample_responses(
        self, rows: slice, f: np.ndarray, theta: Mapping[str, Any], rng: np.random.Generator
    ) -> dict[str, np.ndarray]:
        """Draws of new responses and their means given draws of f, by name."""
        assert self._response is not None
        found = self._response.sample(rows, f, theta, rng)
        if self._response.of_mean:
            means = found[self._response.name]
            means = means.reshape((*means.shape[:2], -1))
            self._accumulate(self._response.name + DRAWN, rows, means, 0.0)
        return found

    def write(self, at: tuple, found: Mapping[str, np.ndarray], label: int = 0) -> None:
        """Keep draws by name, at a chain, draws and rows."""
        chain, draws, rows = at
        for name, values in found.items():
            array = self._arrays[name]
            if self._store is not None:
                array[chain, draws, rows] = values
                continue
            held = array[chain, draws]
            own = held[..., label] if self.classes else held
            own[:, rows] = values

    def keep(self, done: tuple[int, int]) -> None:
        """Let a store keep what is done, if the last time is long enough ago."""
        if self._store is not None:
            self._store.keep(done, self.sums)

    def moments(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Mean and sd (m, k), or (m, k, C), by the law of total variance."""
        own = (slice(None), slice(None), self._columns[name])
        sd = np.sqrt((self._within[own] + self._between[own]) / np.maximum(self._count[own], 1))
        return self._by_class(self._mean[own]), self._by_class(sd)

    def _by_class(self, values: np.ndarray) -> np.ndarray:
        """Values (C, m, ...) with the classes last, or of the only function."""
        return np.moveaxis(values, 0, -1) if self.classes else values[0]

    def _ends(self, name: str) -> np.ndarray:
        """Bounds of equal-tailed intervals, (m, k[, C], 2)."""
        classes, m, columns = self._mean.shape
        own = self._columns[name]
        width, draws = own.stop - own.start, len(self._moment_of)
        ends = np.empty((classes, m, width, 2))
        size = max(1, BLOCK_NUMBERS // (draws * width))
        for label in range(classes):
            which = slice(label * columns + own.start, label * columns + own.stop)
            for rows in [slice(first, first + size) for first in range(0, m, size)]:
                means, variance = self._moments[:, :, rows, which]
                sds = np.sqrt(np.maximum(variance, 0.0))
                for k, tail in enumerate((0.5 - self._prob / 2, 0.5 + self._prob / 2)):
                    ends[label, rows, :, k] = mixture_quantile(means, sds, tail)
        return np.moveaxis(ends, 0, -2) if self.classes else ends[0]

    def dataset(self) -> xr.Dataset:
        """Name what was gathered; draws in a store are not read again."""
        held = {} if self._store is not None else self._arrays
        q, classes = self._question, ("class",) if self.classes else ()
        dims = {q.name: ("obs", *(axis.dim for axis in q.axes), *classes)}
        coords: dict[str, Any] = {"obs": self._where.index}
        for axis in q.axes:
            coords[axis.dim] = [axis.labels[i] for i in self._picked]
        if classes:
            coords["class"] = list(self.classes)
        variables: dict[str, Any] = {}
        for name in (q.name, *(n for n in self._columns if n != q.name)):
            if self._of_response(name):
                continue
            own = dims.setdefault(name, ("obs", *classes))
            place = self._place if name == q.name and q.axes else 0
            mean, sd = (part[:, place] for part in self.moments(name))
            if (known := self._drawn_as(name)) in held:
                variables[known] = ("chain", "draw", *own), held[known]
            variables |= {f"{name}_mean": (own, mean), f"{name}_sd": (own, sd)}
            if self._moments is not None:
                variables[f"{name}_interval"] = (*own, "ci_bound"), self._ends(name)[:, place]
                coords["ci_bound"] = BOUNDS
        if self._cov is not None:
            variables[f"{q.name}_cov"] = self._covariance(dims[q.name], coords)
        if q.noisy:
            variables |= under_one_name(variables, q.noisy)
        variables |= self._beside(coords)
        if q.axes and q.axes[0].dim == "component":
            means = (variables[f"{name}_mean"][1] for name in (q.name, "f"))
            shares = shares_of_variance(self._model, self._where, *means)
            variables["share"] = ("component", *classes), shares
        if q.total:
            for k, name in enumerate(("completeness_residual", "completeness_residual_variance")):
                variables[name] = ("obs", *classes), self._by_class(self._residuals[k])
        if self._response is not None:
            variables |= self._responses(self._response, variables, held)
        attrs = {"ci_prob": self._prob} if "ci_bound" in coords else {}
        return xr.Dataset(variables, coords, q.attrs | attrs)

    def _covariance(self, dims: tuple[str, ...], coords: dict[str, Any]) -> tuple:
        """Covariances within rows, or across all groups of rows; the second dims end in `_bis`."""
        classes = ("class",) if self.classes else ()
        own = tuple(dim for dim in dims if dim != "class" or not classes)
        again = own if self._across else own[1:]
        coords |= {f"{dim}_bis": coords[dim] for dim in again}
        found = cast(np.ndarray, self._cov) / self._count[0, 0, 0]
        if self._across:
            sizes = [len(coords[dim]) for dim in own]
            found = found.reshape((len(found), *sizes, *sizes))
        return (*own, *(f"{dim}_bis" for dim in again), *classes), self._by_class(found)

    def _responses(
        self, response: NewResponses, variables: Variables, held: Mapping[str, Any]
    ) -> Variables:
        """Draws, moments and interval of new responses and their means, beside those of f."""
        name, (dims, f) = response.name, variables["f_mean"]
        own = {"y": dims[:1]} | ({name: dims} if response.of_mean else {})
        found = {n: (("chain", "draw", *own[n]), held[n]) for n in own if n in held}
        mean, sd = self.moments(name)
        if response.of_mean:
            sd = self.moments(name + DRAWN)[1]
        found |= {f"{name}_mean": (dims, mean.reshape(f.shape))}
        found |= {f"{name}_sd": (dims, sd.reshape(f.shape))}
        if response.exposed is not None:
            found[response.exposed] = dims[:1], response.exposure
        if response.of_mean and response.bounded and "f_interval" in variables:
            ends = response.mean_at(variables["f_interval"][1])
            found[f"{name}_interval"] = (*dims, "ci_bound"), ends
        return found | under_one_name(found, name)

    def finished(
        self, dataset: xr.Dataset, hyper: HyperparameterDraws, each: int, attrs: Mapping[str, Any]
    ) -> xr.Dataset:
        """Name the draws, describe the numbers, and move a store with them to its place."""
        if self._arrays:
            draw = np.arange(each) if hyper.alone else hyper.draw
            dataset = dataset.assign_coords(chain=hyper.chain, draw=draw)
        known = {"relative_jitter": float(self._jitter[0])} | origin(self._model)
        dataset.attrs.update({**known, "units": self._question.units, **attrs})
        if self._model.specification.family == "GP" and dataset.attrs.get("samples"):
            # No row of a GP deviates from f.
            dataset.attrs["samples"] = dataset.attrs["samples"].partition(",")[0]
        return dataset if self._store is None else self._store.finished(dataset)

    def _beside(self, coords: dict[str, Any]) -> Variables:
        """What a result says of its rows: values, units of dates, centers, offset and baseline."""
        q, training, where = self._question, self._model.training, self._where
        variables: Variables = {}
        values = where.Z_values if q.table == "Z" else where.X_values
        frame = cast("Frame", training.Z) if q.table == "Z" else training.X
        featured = bool(q.axes) and q.axes[0].dim == "feature"
        by_source = q.name == "component" or (featured and q.labels == frame.sources)
        labels = list(frame.sources if by_source else frame.columns)
        labels = coords["feature"] if featured else labels
        if q.table is None:
            return variables
        coords["feature"] = labels
        if values is not None:
            if frame.levels and by_source:
                said = values_by_source(frame, values, labels)
                coords["level"] = said.pop("level")
                variables |= said
            elif set(labels) <= {*frame.columns, INTERCEPT}:
                variables["value"] = (("obs", "feature"), values_of(frame, values, labels))
        coords |= units_of(training, frame, labels)
        if q.center is not None:
            variables["center"] = ("feature", q.center[self._picked])
            variables["offset"] = training.y_scaling.center - np.sum(q.offset)
        if where.baseline_values is not None:
            variables |= values_by_source(frame, where.baseline_values, labels, baseline=True)
            if frame.levels:
                coords["baseline_level"] = variables.pop("baseline_level")
        return variables


def _distinct(picked: np.ndarray, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Row-major places of the distinct pairs of picked features, and which pair is which (k, k)."""
    rows, columns = np.triu_indices(len(picked))
    which = np.empty((len(picked), len(picked)), int)
    which[rows, columns] = which[columns, rows] = np.arange(len(rows))
    return picked[rows] * d + picked[columns], which
