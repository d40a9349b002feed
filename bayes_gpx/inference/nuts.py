"""NUTS, started and scaled at the mode."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import xarray as xr

from bayes_gpx.inference.base import Method, Start, ValueAndSlope
from bayes_gpx.inference.datatree import as_tree
from bayes_gpx.inference.diagnostics import NOT_CONVERGED, ConvergenceWarning, diagnose
from bayes_gpx.inference.laplace import mode_and_spread
from bayes_gpx.inference.log_density import Density
from bayes_gpx.inference.optimise import Elsewhere, in_turns
from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.numerics.progress import foretell
from bayes_gpx.system.tasks import cores
from bayes_gpx.system.warning import warn

WORTHWHILE = 1000
"""Fewest steps of a sampler for which machine code is worth its compilation."""

LEAPS = 8
"""About how often NUTS evaluates the density for a draw, where it starts scaled at the mode."""

NEAR = 0.1
"""Standard deviation of chains' starts around given values, on the unconstrained scale."""

LEFT_OUT = "left_out"
"""Name of what `Density.left_out` finds, among draws and as a group of the result."""


@dataclass(frozen=True)
class NUTS(Method):
    """Sample by NUTS, from overdispersed points around the mode; diagnose the draws."""

    # If the sampler's density provides them, the result has a group `left_out`, with the log
    # density of each response given the others as `terms` (chain, draw, response).

    gives = "chains"
    takes = ("draws", "tune", "chains", "seed")
    latent = True

    def threads(self, options: Mapping[str, Any]) -> int:
        """Chains that run at a time."""
        return min(options["chains"], cores())

    def fit(
        self,
        model: pm.Model,
        starts: Sequence[Start],
        *,
        draws: int = 1000,
        tune: int = 1000,
        chains: int = 4,
        seed: int | None = None,
        progressbar: bool = True,
        nuts_sampler: str = "nutpie",
        target_accept: float = 0.9,
        around: Start | None = None,
        executor: Elsewhere | None = None,
        longest: float | None = None,
        **kwargs: Any,
    ) -> xr.DataTree:
        """Sample by "nutpie", or `pymc.sample` by "pymc", "numpyro" or "blackjax"."""
        # `around` has constrained values by variable name that replace the mode; other variables
        # start at prior centers. It is for a model with so many variables that its mode is far from
        # its mass. The samplers' own default of `target_accept`, 0.8, gives stray divergences on
        # real data. After `longest` seconds of sampling by nutpie TimeoutError is raised.
        at_a_time = min(chains, cores())
        kwargs["target_accept"] = target_accept
        long_run = nuts_sampler == "nutpie" and chains * (draws + tune) >= WORTHWHILE
        density = Density(model, jacobian=True, long_run=long_run)
        if around is None:
            optima, mode, spread = mode_and_spread(density, starts, executor, progressbar)
        else:
            mode = density.unconstrain(around)
            optima, spread = [], NEAR * np.eye(len(mode))
        evaluate, places = density.value_and_slope(), in_turns(mode)
        what = f"Sampling {chains} chains of {tune} + {draws} draws"
        times = LEAPS * chains * (tune + draws)
        foretell(what, lambda: evaluate(next(places)), times, at_a_time, progressbar)
        if nuts_sampler == "nutpie":
            given: dict[str, Any] = {"draws": draws, "tune": tune, "chains": chains, "seed": seed}
            given |= {"cores": at_a_time, "progress_bar": progressbar, **kwargs}
            idata = _nutpie(density, mode, spread, longest, given)
        else:
            expanded = density.expand()(mode)
            initial = {rv.name: expanded[rv.name] for rv in model.free_RVs}
            with pytensor.config.change_flags(mode=MODE):
                idata = pm.sample(
                    draws,
                    tune=tune,
                    chains=chains,
                    cores=at_a_time,
                    random_seed=seed,
                    progressbar=progressbar,
                    nuts_sampler=nuts_sampler,
                    initvals=initial,
                    model=model,
                    **kwargs,
                )
        posterior = {str(k): v.values for k, v in idata["posterior"].data_vars.items()}
        kept = idata["sample_stats"].data_vars.items()
        stats = {str(k): v.values for k, v in kept if v.ndim == 2}
        terms = posterior.pop(LEFT_OUT, None)
        idata = as_tree(model, posterior, stats, optima)
        if terms is not None:
            left_out = xr.Dataset({"terms": (("chain", "draw", "response"), terms)})
            idata[LEFT_OUT] = xr.DataTree(left_out)
        diagnosis = diagnose(idata)
        idata.attrs.update(
            r_hat_max=diagnosis.r_hat,
            ess_min=min(diagnosis.ess_bulk, diagnosis.ess_tail),
            divergences=diagnosis.divergences,
            convergence=diagnosis.convergence,
            convergence_summary=diagnosis.summary,
        )
        if diagnosis.convergence == NOT_CONVERGED:
            warn(diagnosis.summary, ConvergenceWarning)
        return idata


def _nutpie(
    density: Density,
    mode: np.ndarray,
    spread: np.ndarray,
    longest: float | None,
    options: Mapping[str, Any],
) -> xr.DataTree:
    """Sample z of x = mode (d,) + spread (d, d) z, which is uncorrelated near the mode."""
    import nutpie
    from nutpie.compiled_pyfunc import from_pyfunc

    def make_expand(*_: Any) -> Callable[[np.ndarray], dict[str, np.ndarray]]:
        expand, left_out = density.expand(own=False), density.left_out()

        def evaluate(z: np.ndarray) -> dict[str, np.ndarray]:
            x = mode + spread @ z
            found = expand(x) | ({} if left_out is None else {LEFT_OUT: left_out(x)})
            return {k: np.asarray(v, dtype="float64") for k, v in found.items()}

        return evaluate

    example = make_expand()(np.zeros(len(mode)))

    def initial(chain_seed: int) -> np.ndarray:
        return np.random.default_rng(chain_seed).standard_normal(len(mode))

    def make_value_and_slope() -> ValueAndSlope:
        value_and_slope = density.value_and_slope(own=False)

        def evaluate(z: np.ndarray) -> tuple[float, np.ndarray]:
            value, slope = value_and_slope(mode + spread @ z)
            return value, slope @ spread

        return evaluate

    compiled = from_pyfunc(
        len(mode),
        make_logp_fn=make_value_and_slope,
        make_expand_fn=make_expand,
        expanded_dtypes=[np.dtype("float64")] * len(example),
        expanded_shapes=[np.shape(v) for v in example.values()],
        expanded_names=list(example),
        make_initial_point_fn=initial,
    )
    with warnings.catch_warnings():
        # ArviZ's, of an interruption with fewer draws than chains: `_drawn` says what is left.
        warnings.filterwarnings("ignore", "Found chain dimension to be longer than draw dimension")
        sampler = nutpie.sample(compiled, save_warmup=False, blocking=False, **options)
        try:
            sampled = sampler.wait(timeout=longest)
        except KeyboardInterrupt:
            sampled = sampler.abort()
        except BaseException:
            sampler.cancel()
            raise
    return _drawn(sampled, options["draws"])


def _drawn(idata: xr.DataTree, draws: int) -> xr.DataTree:
    """Cut an interrupted fit to draws that are not NaN; KeyboardInterrupt if there are none."""
    # Keeps the first k draws of all chains that have them, for the k with the most draws in total.
    posterior = idata["posterior"].to_dataset().drop_vars(LEFT_OUT, errors="ignore")
    known = xr.concat(
        [
            v.all([d for d in v.dims if d not in ("chain", "draw")])
            for v in posterior.map(np.isfinite).data_vars.values()
        ],
        "variable",
    ).all("variable")
    held = known.transpose("chain", "draw").values.cumprod(axis=1).sum(axis=1)
    if (held == draws).all():
        return idata
    kept = max(held, key=lambda count: count * (held >= count).sum(), default=0)
    if not kept:
        raise KeyboardInterrupt
    chains = np.flatnonzero(held >= kept)
    warn(
        f"Interrupted: {kept} of {draws} draws are kept, of {len(chains)} of {len(held)} chains.",
        ConvergenceWarning,
    )
    where = {"chain": chains, "draw": slice(kept)}
    groups = ("posterior", "sample_stats")
    return xr.DataTree.from_dict({g: idata[g].to_dataset().isel(where) for g in groups})
