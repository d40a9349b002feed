"""Hyperparameters by the variational bound of a few rows at a time, for very many rows."""

# At each step natural gradients move the posterior of the inducing values, and Adam the
# hyperparameters, both by an unbiased estimate of the bound. The posterior is dropped at the end:
# for given hyperparameters the best one follows from all rows.
# Hensman, Fusi and Lawrence, "Gaussian processes for big data" (2013); Salimbeni, Eleftheriadis and
# Hensman, "Natural gradients in practice" (2018); Kingma and Ba, "Adam" (2015).

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from pytensor.graph.replace import clone_replace

from bayes_gpx.aliases import Tensor
from bayes_gpx.inference.base import Method, Start
from bayes_gpx.inference.datatree import of_one
from bayes_gpx.inference.diagnostics import ConvergenceWarning
from bayes_gpx.inference.log_density import Density
from bayes_gpx.inference.optimise import Elsewhere, NowhereFinite, climb
from bayes_gpx.numerics.progress import progress_bar
from bayes_gpx.numerics.threads import ThreadedFunction
from bayes_gpx.system.warning import warn
from bayes_gpx.validation import count

CLIMBED = 2
"""Number of starting points, with the largest bounds, from which a fit of all rows is optimized."""

STEPS, LEARNING_RATE = 2000, 0.02
"""Defaults of a fit by minibatches."""

WINDOW = 200
"""Steps over which the bound is averaged, to see whether it still grows."""

MOMENTS = 0.9, 0.999
"""Adam's decay rates of the slope's mean and of its mean square."""

FIRST_SHARE = 0.5
"""Length of the first natural gradient step; one of length 1 forgets all earlier batches."""


@dataclass(frozen=True)
class SVGP(Method):
    """Maximise a variational bound, and keep its trace in the group `elbo`."""

    # With all rows L-BFGS climbs from the `CLIMBED` starts where the bound is largest; minibatches
    # begin at the first start that is not empty.

    gives = "mode"
    takes = ("seed", "by_rows")
    inducing = True

    def fit(
        self,
        model: pm.Model,
        starts: Sequence[Start],
        *,
        by_rows: Callable[[int], BoundByRows],
        seed: int | None = None,
        progressbar: bool = True,
        minibatch: int | None = None,
        steps: int | None = None,
        learning_rate: float | None = None,
        executor: Elsewhere | None = None,
        jacobian: bool = True,
    ) -> xr.DataTree:
        """Climb to the top, as `Maximum` does; or, given `minibatch`, take `steps`."""
        if minibatch is not None:
            options: dict[str, Any] = {"steps": steps, "rate": learning_rate}
            options["jacobian"] = jacobian
            return _by_batches(by_rows, starts, minibatch, seed, progressbar, **options)
        if steps is not None or learning_rate is not None:
            raise ValueError(
                "steps and learning_rate are for minibatches; pass minibatch too, or leave "
                "them out: with all rows the bound is climbed to its top."
            )
        density = Density(model, jacobian=jacobian)
        value = density.value_and_slope()
        starts = sorted(starts, key=lambda start: -value(density.unconstrain(start))[0])[:CLIMBED]
        optima = climb(density, starts, elsewhere=executor, progressbar=progressbar)
        best = max(optima, key=lambda o: o.log_density)
        values = density.expand()(best.x)
        return of_one(model, values, best.log_density, best.trace, optima)


def _by_batches(
    by_rows: Callable[[int], BoundByRows],
    starts: Sequence[Start],
    minibatch: int,
    seed: int | None,
    progressbar: bool,
    *,
    steps: int | None,
    rate: float | None,
    jacobian: bool,
) -> xr.DataTree:
    steps = STEPS if steps is None else steps
    rate = LEARNING_RATE if rate is None else rate
    count("minibatch", minibatch)
    count("steps", steps)
    bound, start = by_rows(minibatch), next(filter(None, starts), dict[str, Any]())
    options: dict[str, Any] = {
        "steps": steps,
        "rate": rate,
        "seed": seed,
        "progressbar": progressbar,
    }
    found, height, trace = Ascent(bound, jacobian=jacobian)(start, **options)
    return of_one(bound.model, found, height, trace, [])


class BoundByRows(NamedTuple):
    """An unbiased estimate of a variational bound, from some rows."""

    # Latent values are linear in coefficients, which are standard normal a priori.

    model: pm.Model
    """Whose free variables are the hyperparameters alone."""
    bound: list
    """Graphs: the estimated expected log likelihood of all rows; and of a batch the design (b, M)
    or (b, C, M), from coefficients to latent values, and slopes and curvatures in these, (b,) or
    (b, C)."""
    batch: Any
    """The symbols of a batch, a `bayes_gpx.posteriors.minibatch.Batch`: its share of the rows, and
    the coefficients' mean and root of their precision."""
    data: Mapping
    """All rows for symbols and shared variables of the graph."""
    sizes: tuple[int, int, int]
    """Rows of a batch; number M of coefficients; number C of classes, 1 without any."""
    start: float
    """Precision of the coefficients at the start."""


class Ascent:
    """Stochastic ascent of a `BoundByRows`."""

    def __init__(self, of: BoundByRows, *, jacobian: bool = True) -> None:
        model, bound, batch, data, sizes, self._start = of
        self._density, self._data = Density(model, jacobian=jacobian), data
        self._size, self._M, self._C = sizes
        self._several = batch.coefficients.ndim > 1
        prior, bound = model.logp(jacobian=jacobian), model.replace_rvs_by_values(list(bound))
        x = pt.dvector("x")
        values = dict(zip(model.continuous_value_vars, self._density.split(x), strict=True))
        rows = {symbol: symbol.type() for symbol in data}
        prior, *bound = cast(list[Tensor], clone_replace([prior, *bound], values | rows))
        height = prior + bound[0]
        outputs = [height, pt.grad(height, x), *bound[1:]]
        inputs = [x, *rows.values(), batch.share, batch.coefficients, batch.root]
        self._at = ThreadedFunction(inputs, outputs)

    def __call__(
        self, start: Start, *, steps: int, rate: float, seed: int | None, progressbar: bool
    ) -> tuple[dict[str, np.ndarray], float, np.ndarray]:
        """Hyperparameters by name, the bound plus log prior density, and the bound's trace."""
        # The first two are averages over the last quarter of the steps. Raises NowhereFinite if the
        # bound is not finite at the start.
        x, rng = self._density.unconstrain(start), np.random.default_rng(seed)
        n, eye = len(next(iter(self._data.values()))), np.eye(self._M)
        # Natural parameters of the coefficients' posterior: precision P, and h = P times the mean.
        P, h = np.tile(self._start * eye, (self._C, 1, 1)), np.zeros((self._C, self._M))
        first, second, path, trace = np.zeros_like(x), np.zeros_like(x), [], []
        with progress_bar(progressbar) as progress:
            for step in progress.track(
                range(steps), description="Maximising the bound by batches of rows"
            ):
                rows = rng.choice(n, self._size, replace=False)
                root = np.linalg.cholesky(P)
                m = np.linalg.solve(P, h[..., None])[..., 0]
                expected, slope, F, local, W = self._evaluate(x, rows, n, m, root)
                if not (np.isfinite(expected) and np.isfinite(slope).all()):
                    break
                path.append(x)
                trace.append(expected - _kl_from_prior(m, root))
                decay = 1.0 / (1.0 + 4.0 * step / steps)
                share, scale = FIRST_SHARE * decay, n / len(rows)
                designs = F.swapaxes(0, 1) if F.ndim == 3 else [F] * self._C
                of_class = [*zip(designs, W.T, local.T, m, strict=True)]
                information = np.stack([(D * w[:, None]).T @ D for D, w, *_ in of_class])
                P = (1.0 - share) * P + share * (eye + scale * information)
                pull = np.stack([D.T @ (up + w * (D @ at)) for D, w, up, at in of_class])
                h = (1.0 - share) * h + share * scale * pull
                # Adam's step, its two means corrected for starting at 0.
                first = MOMENTS[0] * first + (1.0 - MOMENTS[0]) * slope
                second = MOMENTS[1] * second + (1.0 - MOMENTS[1]) * slope**2
                size = np.sqrt(second / (1.0 - MOMENTS[1] ** (step + 1))) + 1e-8
                x = x + rate * decay * first / (1.0 - MOMENTS[0] ** (step + 1)) / size
        if not path:
            raise NowhereFinite("The bound is not finite at the start; see the priors and kernel.")
        _complain(np.array(trace), steps)
        last = slice(-max(1, len(path) // 4), None)
        found = self._density.expand()(np.mean(path[last], axis=0))
        return found, np.mean(trace[last]), np.array(trace)

    def _evaluate(
        self, x: np.ndarray, rows: np.ndarray, n: int, m: np.ndarray, root: np.ndarray
    ) -> tuple[float, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        taken = [np.ascontiguousarray(values[rows]) for values in self._data.values()]
        own = (m, root) if self._several else (m[0], root[0])
        expected, slope, F, local, W = self._at(x, *taken, np.float64(len(rows) / n), *own)
        local, W = (v.reshape((len(rows), -1)) for v in (local, W))
        return expected, slope, F, local, np.maximum(W, 0.0)


def _kl_from_prior(m: np.ndarray, root: np.ndarray) -> float:
    """KL divergence of N(m, (root root')^-1) from the prior, for m (C, M) and root (C, M, M)."""
    logs = 2.0 * np.log(np.diagonal(root, axis1=1, axis2=2)).sum()
    return 0.5 * ((np.linalg.inv(root) ** 2).sum() + (m**2).sum() - m.size + logs)


def _complain(trace: np.ndarray, steps: int) -> None:
    """Warn where the bound stopped being finite, or still grew at the end."""
    problem = None
    if len(trace) < steps:
        problem = f"The bound was not finite at step {len(trace)}, and the steps before it are kept"
    elif steps >= 2 * WINDOW:
        before, after = trace[-2 * WINDOW : -WINDOW], trace[-WINDOW:]
        error = np.sqrt((before.var() + after.var()) / WINDOW)
        if after.mean() - before.mean() > 4.0 * error:
            problem = "The bound still grew over the last steps; see the group `elbo`"
    if problem is not None:
        cure = "Give more steps, a smaller learning_rate, or larger minibatches."
        warn(f"{problem}. {cure}", ConvergenceWarning)
