"""Fit a model: check options first, and add jitter only if a computation fails without it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from pytensor.graph.traversal import ancestors

from bayes_gpx.draws.constraints_met import constraints_met
from bayes_gpx.draws.leave_one_out import of_responses, responses_labelled
from bayes_gpx.draws.truncated import with_truncated
from bayes_gpx.inference.base import Method
from bayes_gpx.inference.datatree import name_method
from bayes_gpx.inference.diagnostics import ConvergenceWarning
from bayes_gpx.inference.log_density import Density
from bayes_gpx.inference.methods import METHODS, method_named
from bayes_gpx.inference.nuts import LEFT_OUT
from bayes_gpx.inference.optimise import EVALUATIONS, Elsewhere, Maximum, NowhereFinite
from bayes_gpx.model.examination import FEWEST_OF_PROCESSES, complain
from bayes_gpx.model.inducing_points import bound_by_rows, inducing_values
from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.numerics.progress import beside, flops_per_second, spoken
from bayes_gpx.numerics.threads import blas_threads
from bayes_gpx.posteriors.strategies.exact import Exact
from bayes_gpx.processes.approximations import Inducing
from bayes_gpx.system.memory import APPROXIMATE, room_for_pairs
from bayes_gpx.system.warning import warn
from bayes_gpx.validation import count, known_executor, one_of

if TYPE_CHECKING:
    from bayes_gpx.aliases import Draws
    from bayes_gpx.model.specification import Specification

FIT_JITTERS = (0.0, 1e-10, 1e-8, 1e-6)
"""Jitters that a fit tries in turn, relative to the variance of the response.

They are relative to 1 for a non-Gaussian likelihood. Smaller jitters than these, except 0, leave
densities rough.
"""

LATENT = (-3.0, -1.0, 0.0, 1.0, 3.0)
"""A possible y has a finite log density at these latent values."""

SAMPLE, MANY = 2_000, 5
"""Rows that the starts of an optimiser climb with, where there are `MANY` times as many and each
density passes over all: five starts then take less time than one of all rows. With more than
`SAMPLE // MANY` inducing points little would be saved."""

HOUR = 3600.0
"""Seconds that the search of the mode may take where the rows alone decide it."""

WORTH_TIMING, FLOPS = 4_000, 3
"""Fewest rows for which a fit first measures the machine's speed, and floating-point operations of
a density with its gradient, as a multiple of n^3: 2.8 to 3.7 at 353 rows, 1.6 to 2.4 at 1,437."""

DRAWS_WORTH_LOO = 100
"""From this many draws on, a fit has leave-one-out terms for `arviz.loo`."""


ROWS_WORTH_LOO = 2000
"""Most rows with leave-one-out terms if the fit itself does not pass over the rows.

With more rows these terms would take most of the time; use `bayes_gpx.log_likelihood` for some
rows.
"""


def infer(
    model: Any,
    method: str,
    *,
    draws: int,
    tune: int,
    chains: int,
    seed: int | None,
    start: Draws | None,
    latent: str,
    truncated: str,
    progressbar: bool,
    log_likelihood: bool = True,
    **kwargs: Any,
) -> xr.DataTree:
    """Infer the hyperparameters of a `Model`; see `Model.fit` for the arguments."""
    chosen = method_named(method)
    if latent != "sample" and not model.objective.free_RVs:
        raise ValueError(
            f"All hyperparameters are fixed, so method={method!r} has nothing to infer. Pass them "
            "to the explanation functions as a dict, or fix fewer of them."
        )
    for name, value in (("draws", draws), ("tune", tune), ("chains", chains)):
        count(name, value)
    if seed is not None:
        count("seed", seed, 0)
        if seed >= 2**64:
            raise ValueError(f"seed is {seed}. Pass a whole number below 2**64.")
    chosen.refuse_unknown(method, kwargs)
    known_executor(kwargs.get("executor"))
    given: dict[str, Any] = {"draws": draws, "tune": tune, "chains": chains, "seed": seed}
    given["by_rows"] = partial(bound_by_rows, model)
    options = {"progressbar": progressbar, **kwargs, **{k: given[k] for k in chosen.takes}}
    _refuse_truncated(model, truncated)
    _warn_of_terms(model)
    sampled = _samples_latent(model, latent, method)
    if chosen.inducing and not model.inducing:
        raise ValueError(
            f"method={method!r} was given with approximation={model.specification.approximation}. "
            "Pass approximation=bx.Inducing(m), with m inducing points."
        )
    if method == "svgp" and model.specification.codes:
        raise ValueError(
            "method is 'svgp', whose result is the posterior of one function's values at inducing "
            "points, but a model with groups or several outputs has several functions. Use "
            "fit('map'), which finds the same hyperparameters from all rows."
        )
    spec = model.specification
    room = room_for_pairs(model.training.n, spec.approximation, spec.classes or 0)
    order = len(model.sums["cross"]) if spec.fixed_basis else model.training.n
    other = cheaper(spec, model.training.n, model.training.d)
    with room, beside(other), blas_threads(order, chosen.threads(options)):
        starts = model.starts(start)
        _refuse_slow(model, len(starts))
        if start is None and options.get("minibatch") is None and _worth_sampling(model):
            starts = _near(model, starts, options)
        if sampled:
            options["around"] = _mode(model, starts, options)
        idata = _fit_with_jitter(model, chosen, starts, options, sampled)
    if spec.strategy_of(idata["posterior"]).at_mode:
        idata.attrs["laplace_information"] = spec.conditioned.information_at_mode
    by_sampler = _terms_of_sampler(model, idata)
    if "inference_method" not in idata["posterior"].attrs:
        name_method(idata, method)
    idata.attrs[model.signature_key] = model.signature
    if seed is not None:
        idata.attrs["seed"] = str(seed)
    if truncated == "sample":
        idata = with_truncated(model, idata, draws=draws, seed=seed, progressbar=progressbar)
    if chosen.inducing:
        idata["variational"] = xr.DataTree(inducing_values(model, idata, progressbar))
    found = idata["posterior"].sizes["chain"] * idata["posterior"].sizes["draw"]
    costly = spec.fixed_basis and model.training.n > ROWS_WORTH_LOO
    if log_likelihood and found >= DRAWS_WORTH_LOO and not (costly or model.training.streamed):
        _add_left_out(model, idata, by_sampler, progressbar)
    if spec.constraints is not None:
        with _draws_kept("summary of its constraints"):
            met = constraints_met(model, idata, progressbar=progressbar)
            idata["constraints"] = xr.DataTree(met)
    complain(model, idata)
    return idata


def _refuse_slow(model: Any, starts: int) -> None:
    """Raise before the first density if all of them would take more than an hour."""
    spec, n = model.specification, model.training.n
    if spec.approximation is not None or spec.fixed_basis or n < WORTH_TIMING:
        return
    densities = EVALUATIONS * (starts + 1)
    seconds = densities * (spec.classes or 1) * FLOPS * float(n) ** 3 / flops_per_second()
    if seconds > HOUR:
        raise ValueError(
            f"{n} rows without an approximation need about {densities} factorisations of a matrix "
            f"of all pairs of rows, which take {spoken(seconds)} or more here. {APPROXIMATE}"
        )


def _worth_sampling(model: Any) -> bool:
    """Whether a sample of the rows tells where to start, in a fraction of the time."""
    spec, data = model.specification, model.training
    passes = spec.approximation is not None and not spec.fixed_basis and not data.streamed
    points = max(map(len, model.inducing.values()), default=0)
    many = data.n >= MANY * SAMPLE and points <= SAMPLE // MANY
    return passes and many and spec.constraints is None and not model.joined


def _near(model: Any, starts: list[dict[str, Any]], options: dict[str, Any]) -> list[Any]:
    """The optimum for a sample of rows, and the first start; all starts if none is finite."""
    positions = np.random.default_rng(0).choice(model.training.n, SAMPLE, replace=False)
    sample = model.of_rows(model.training.rows(np.sort(positions)))
    with warnings.catch_warnings():
        # It is of all rows that is said whether a start converged.
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            return [_mode(sample, starts, options), starts[0]]
        except NowhereFinite:
            return starts


def _warn_of_terms(model: Any) -> None:
    """Warn of terms that the user added to the model of PyMC, and that its objective lacks."""
    whole = model._pymc
    later = {*whole.potentials, *whole.observed_RVs} - model.own_terms
    names = {*model.posterior_names.values(), *model.latent_names.values()}
    own = {whole[name] for name in names & {*whole.named_vars}}  # others are fixed
    left_out = sorted(str(v.name) for v in later if own & set(ancestors([v])))
    if left_out and model.objective is not whole:
        warn(
            f"fit leaves out {left_out}, which were added to the model, because noise is not "
            "normal or the model is a hierarchy. To include them, sample the whole model by "
            "pm.sample(model=model.pymc), and explain these draws."
        )


def _samples_latent(model: Any, latent: str, method: str) -> bool:
    one_of("latent", latent, ("marginal", "sample"))
    spec = model.specification
    if latent == "marginal":
        laplace = spec.processes and spec.approximation is None
        if laplace and model.training.n < FEWEST_OF_PROCESSES:
            raise ValueError(
                f"likelihood={spec.likelihood!r} has {model.training.n} rows, but Laplace's "
                f"approximation needs at least {FEWEST_OF_PROCESSES}: with fewer rows its 90% "
                "intervals hold the truth in half of the cases. Pass "
                f"approximation=bx.Inducing({model.training.n}) to the model, which is better "
                "with few rows, or method='nuts' and latent='sample' to fit."
            )
        return False
    if (spec.normal and not spec.hierarchical) or not method_named(method).latent:
        able = " or ".join(repr(name) for name in METHODS if method_named(name).latent)
        raise ValueError(
            f"latent='sample' was given with method={method!r} and likelihood={spec.likelihood!r}. "
            f"Pass method={able}, and a likelihood other than the normal, which has no latent "
            "values to sample, or a model with representation='hierarchy'."
        )
    model.training.refuse_out_of_core(
        "latent='sample' was given with out-of-core data, but their latent values are not "
        "stored. Pass latent='marginal', or fit a sample of the rows in memory."
    )
    if model.inducing:
        raise ValueError(
            f"latent='sample' was given with {model.specification.approximation}. Use no "
            "approximation, bx.HSGP or bx.RandomFeatures."
        )
    return True


def _refuse_truncated(model: Any, truncated: str) -> None:
    one_of("truncated", truncated, ("ep", "sample"))
    constraints = model.specification.constraints
    if truncated == "sample" and (constraints is None or constraints.bounded is None):
        raise ValueError(
            "truncated='sample' was given without constraints in bounds, so nothing is truncated. "
            "Use such as GP(X, y, constraints=[bx.constraints.Increasing('dose')]), or "
            "truncated='ep'."
        )
    spec = model.specification
    if truncated == "sample" and (not spec.normal or spec.hierarchical):
        raise ValueError(
            f"truncated='sample' was given with likelihood={spec.likelihood!r} and "
            f"representation={spec.representation!r}, but needs normal noise and 'collapsed'. For "
            "others, fit('nuts', latent='sample') samples f and the constrained values, with "
            "classes and counts as well as with representation='hierarchy'."
        )


def _mode(
    model: Any, starts: list[dict[str, Any]], options: dict[str, Any]
) -> dict[str, np.ndarray]:
    """Hyperparameters, by variable name, where their marginal density is largest."""
    if not model.objective.free_RVs:
        return {}
    spec = model.specification
    if spec.processes and spec.approximation is None and spec.censored is not None:
        return starts[0]  # no marginal density: Laplace's approximation takes no bounds of these
    known = {"executor", "progressbar", "jacobian"}
    own = {k: value for k, value in options.items() if k in known}
    fit = _fit_with_jitter(model, Maximum(), starts, own)
    found = fit["posterior"].to_dataset().isel(chain=0, draw=0)
    return {str(name): value.values for name, value in found.data_vars.items()}


def _fit_with_jitter(
    model: Any,
    method: Method,
    starts: list[dict[str, Any]],
    options: dict[str, Any],
    sampled: bool = False,
) -> xr.DataTree:
    """Fit; where no start has a finite density, again with more jitter, and say so."""
    normal = model.specification.normal
    size = float(model.training.scaled()["y"].var()) if normal else 1.0
    executor = options.get("executor")
    for jitter in FIT_JITTERS:
        if executor is not None:
            again = partial(_objective, model, jitter * size)
            options = options | {"executor": Elsewhere(executor, again)}
        with model.jittered(jitter * size):
            try:
                idata = method.fit(model.pymc if sampled else model.objective, starts, **options)
                break
            except NowhereFinite:
                if jitter == FIT_JITTERS[-1]:
                    _refuse_impossible(model, starts[0])
                    raise
    idata.attrs["relative_jitter"] = jitter
    return idata


def _refuse_impossible(model: Any, start: dict[str, Any]) -> None:
    """Raise with the first y that has no finite log density at any of `LATENT`."""
    spec, data = model.specification, model.training
    if spec.normal or data.streamed:
        return
    density, likelihood = Density(model.objective, jacobian=False), spec.conditioned
    values = density.expand()(density.unconstrain(start))
    theta = {
        name: pt.as_tensor(model.fixed.get(name, values.get(model.posterior_names[name])))
        for name in likelihood.hyperparameters
    }
    scaled = data.scaled()
    exposed = (scaled["exposure"],) if "exposure" in scaled else ()
    y, *exposure = (pt.as_tensor(v) for v in (scaled["y"], *exposed))
    f = np.ones((data.n, *likelihood.class_shape))
    terms = [likelihood.logp(pt.as_tensor(value * f), y, theta, *exposure) for value in LATENT]
    impossible = np.flatnonzero(~np.isfinite(pm.draw(terms, mode=MODE)).any(axis=0))
    if len(impossible):
        dim, labels = data.responses
        first = impossible[0]
        more = f", as for {len(impossible) - 1} more" if len(impossible) > 1 else ""
        raise NowhereFinite(
            f"y is {data.y[first]:g} at {dim} {labels[first]}, and logp of the likelihood "
            f"{spec.likelihood!r} is not finite there at any f from {LATENT[0]:g} to "
            f"{LATENT[-1]:g}{more}. Correct y or leave the row out, or pass a likelihood that "
            "allows this y. If the likelihood is yours, let its `read` refuse such a y."
        )


def _objective(model: Any, jitter: float) -> pm.Model:
    """The density of the hyperparameters, for a task, wherever it runs."""
    return model.at_jitter(jitter).objective


def _terms_of_sampler(model: Any, idata: xr.DataTree) -> np.ndarray | None:
    """Remove the sampler's leave-one-out terms from the fit and return them; None without any."""
    # They come from a joint normal density of all responses, without jitter.
    if LEFT_OUT not in idata.children:
        return None
    terms = idata[LEFT_OUT].to_dataset()["terms"].values
    del idata[LEFT_OUT]
    exact = model.specification.strategy_of() == Exact()
    # With weights, the sampler's densities are those of other noise.
    plain = exact and not idata.attrs["relative_jitter"] and not model.specification.weighted
    return terms if plain and np.isfinite(terms).all() else None


def _add_left_out(
    model: Any, idata: xr.DataTree, by_sampler: np.ndarray | None, progressbar: bool
) -> None:
    """Add the group log_likelihood."""
    how = " bx.log_likelihood computes the terms, of fewer draws by num_draws."
    with _draws_kept("leave-one-out terms", how):
        if by_sampler is None:
            terms = of_responses(model, idata, progressbar=progressbar)
        else:
            posterior = cast(xr.DataTree, idata["posterior"])
            terms = responses_labelled(model.training, by_sampler, posterior)
        dim = model.training.responses[0]
        terms = terms.rename({dim: model.in_model(dim)}) if model.name else terms
        idata["log_likelihood"] = xr.DataTree(terms.to_dataset(name=model.in_model("y")))


@contextmanager
def _draws_kept(what: str, how: str = "") -> Iterator[None]:
    """Turn whatever stops a part of a fit into a warning, so its draws are kept."""
    try:
        yield
    except (Exception, KeyboardInterrupt) as stopped:
        warn(
            f"The fit has no {what} ({type(stopped).__name__}: {stopped}). Its draws are "
            f"complete.{how}",
            ConvergenceWarning,
        )


EXACT, INDUCING, SINES = (10_000, 12, 2.49), (1_000_000, 6.7, 1.07), (1_000_000, 0.0043, -0.01)
"""Rows, seconds of a density of so many and exponent in the rows, without an approximation, with
`Inducing(100)` and with `HSGP(20)`: measured, in `benchmarks/scaling.csv`."""

MANY_ROWS = 2_000
"""Up to so many rows a model without an approximation is the one to use."""

FEW_FEATURES, SMOOTH = 2, ("expquad", "matern52", "matern32")
"""Up to so many features, and for these kernels, basis functions on a grid are few."""


def cheaper(specification: Specification, n: int, d: int) -> tuple[str, float] | None:
    """A cheaper approximation and its relative time for a density; None without one."""
    # For a Gaussian likelihood, without groups and outputs, with n rows and d features. The
    # relative time does not depend on the machine.
    own = specification.approximation
    alone = specification.normal and not specification.grouped and specification.outputs is None
    known = isinstance(own, Inducing) or (own is None and n > MANY_ROWS)
    if not alone or not known or specification.constraints is not None or specification.expanded:
        return None
    now = _seconds(EXACT if own is None else INDUCING, n)
    if d <= FEW_FEATURES and specification.kernel in SMOOTH:
        return "bx.HSGP(20)", _seconds(SINES, n) / now
    return None if own is not None else ("bx.Inducing(100)", _seconds(INDUCING, n) / now)


def _seconds(measured: tuple[float, float, float], n: int) -> float:
    rows, seconds, exponent = measured
    return seconds * (n / rows) ** exponent
