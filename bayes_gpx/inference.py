"""From a PyMC model to posterior draws: MAP, Laplace, NUTS. Knows no Gaussian process."""

import os
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pymc as pm
import pytensor
import xarray as xr
from arviz_stats.base import array_stats
from pymc.backends.arviz import find_constants, find_observations
from scipy.optimize import minimize
from scipy.stats import multivariate_t

from bayes_gpx.density import MODE, THREADED_FROM, Density, observations, progress_bar
from bayes_gpx.diagnostics import ConvergenceWarning, diagnose
from bayes_gpx.resampling import resampled

LOST = 1e12
"""Stands in for the objective where the log density is not finite."""

WIDEST = 5.0
"""Largest standard deviation that a Laplace approximation is given, unconstrained scale."""


CLIMBED = 2
"""Starts of a variational bound that are worth climbing from."""

PROPOSED, FEWEST_PROPOSED = 2, 1000
"""Draws that a Laplace approximation proposes for each that is kept, and at the least."""

ROUNDS, TAILS = 2, 5
"""In which they are proposed, and degrees of freedom of the distributions that they come from."""

LEAST_OWN = 0.01
"""Of Laplace's covariance, added to that of the weighted draws, which few draws may rule."""

NEGLIGIBLE = 500.0
"""Log density below the highest, from which on a proposal's weight is as good as 0."""

WORTHWHILE = 1000
"""Steps of a sampler from which machine code is worth its compilation."""

NEAR = 0.1
"""Standard deviation of chains' starts around given values, unconstrained scale."""


class NowhereFinite(ValueError):
    """No start of an optimiser has a finite log density."""


@dataclass(frozen=True)
class Optimum:
    """Where one start of the optimiser ended."""

    x: np.ndarray
    log_density: float
    converged: bool
    evaluations: int
    trace: np.ndarray


def climb(density, starts, *, progressbar=True):
    """Maximise from every start by L-BFGS with exact gradients, starts in parallel threads.

    Parameters
    ----------
    density : Density
    starts : list of dict
        Constrained values by variable name.

    Returns
    -------
    list of Optimum, in the order of the starts
    """
    workers = min(len(starts), os.cpu_count() or 1)
    with ThreadPoolExecutor(workers) as pool, progress_bar(progressbar) as progress:
        ends = pool.map(lambda start: _ascend(density, start), starts)
        optima = list(progress.track(ends, total=len(starts), description="Maximising"))
    if not any(o.log_density > -LOST for o in optima):
        raise NowhereFinite(
            "The log density is not finite at any start. Expected priors that allow "
            "hyperparameters of moderate size on the model's scale, and noise that is not all but "
            "0; check priors, fixed values such as sigma, and kernel."
        )
    best = max(optima, key=lambda o: o.log_density)
    if not best.converged:
        warnings.warn(
            "The best start of the optimiser did not converge; see the group `starts`. "
            "Give more starts, or tighter priors.",
            ConvergenceWarning,
            stacklevel=4,
        )
    return optima


def _ascend(density, start):
    """Where one start ends; each call has functions of its own and may run in a thread."""
    value_and_slope, trace = density.value_and_slope(), []
    x0 = density.unconstrain(start)
    best = [LOST, x0]

    def objective(x):
        value, slope = value_and_slope(x)
        trace.append(value)
        if not np.isfinite(value):
            return LOST, slope
        if -value < best[0]:
            best[:] = -value, x.copy()
        return -value, -slope

    reach = np.maximum(20.0, np.abs(x0))
    result = minimize(
        objective,
        x0,
        jac=True,
        method="L-BFGS-B",
        bounds=list(zip(x0 - reach, x0 + reach, strict=True)),
        options={"maxiter": 1000, "maxfun": 2000, "ftol": 1e-11, "gtol": 1e-4},
    )
    inside = (np.abs(result.x - x0) < 0.999 * reach).all()
    flat = np.abs(result.jac).max() < 1e-2 * max(1.0, 1e-3 * abs(result.fun))
    converged = bool((flat or (result.success and inside)) and result.fun < LOST)
    value, x = best if best[0] < result.fun else (result.fun, result.x)
    return Optimum(x, -float(value), converged, result.nfev, np.array(trace))


def fit_map(model, starts, *, progressbar=True):
    """Maximise the density in the hyperparameters themselves; one chain, one draw."""
    density = Density(model, jacobian=False)
    optima = climb(density, starts, progressbar=progressbar)
    best = max(optima, key=lambda o: o.log_density)
    draws = {k: np.asarray(v)[None, None] for k, v in density.expand()(best.x).items()}
    stats = {"lp": np.array([[best.log_density]])}
    return _tree(model, draws, stats, optima, method="map")


def fit_svgp(model, starts, *, progressbar=True):
    """As `fit_map`, for a variational bound; with the best start's values of it, group `elbo`.

    From the starts of which the bound is largest, at most `CLIMBED`.
    """
    density = Density(model, jacobian=False)
    value = density.value_and_slope()
    starts = sorted(starts, key=lambda start: -value(density.unconstrain(start))[0])[:CLIMBED]
    optima = climb(density, starts, progressbar=progressbar)
    best = max(optima, key=lambda o: o.log_density)
    values = density.expand()(best.x)
    return of_one(model, values, best.log_density, best.trace, optima, method="svgp")


def of_one(model, values, height, trace, optima, *, method):
    """The DataTree of one draw, with what was maximised there, and its trace."""
    draws = {k: np.asarray(v)[None, None] for k, v in values.items()}
    tree = _tree(model, draws, {"lp": np.array([[height]])}, optima, method=method)
    found = xr.Dataset({"elbo": ("step", trace)})
    tree["elbo"] = xr.DataTree(found.assign_attrs(units="bound plus log prior density, nats"))
    return tree


def fit_laplace(model, starts, *, draws=1000, seed=None, progressbar=True):
    """Draw around the mode of the unconstrained density, weighted by that density.

    Proposals come from multivariate t distributions: the tails of a normal one are lighter than a
    posterior's, and no weight makes up for draws that are not there. Half of them lie around the
    mode, scaled by Laplace's approximation, and half where the first half's weights put the
    posterior. Weights are smoothed by PSIS, and the draws resampled, so that all count alike.

    References
    ----------
    Cornuet et al., "Adaptive multiple importance sampling" (2012); Vehtari et al., "Pareto smoothed
    importance sampling" (2024).
    """
    density = Density(model, jacobian=True)
    optima, mode, spread = _mode_and_spread(density, starts, progressbar)
    rng, count = np.random.default_rng(seed), max(PROPOSED * draws, FEWEST_PROPOSED)
    points, log_p, log_q, log_weights, khat = _weighed(
        density, mode, spread, count, rng, progressbar
    )
    largest = min(1.0 - 1.0 / np.log10(count), 0.7)
    if khat > largest:
        warnings.warn(
            f"The posterior is far from its Laplace approximation: Pareto k of the weights is "
            f"{khat:.2f} (want at most {largest:.2f}), so a few draws stand for most of it. Use "
            "'nuts', more draws, or tighter priors.",
            ConvergenceWarning,
            stacklevel=4,
        )
    kept = resampled(np.exp(log_weights), draws, rng)
    expand = density.expand()
    columns = [expand(x) for x in points[kept]]
    stacked = {k: np.stack([c[k] for c in columns])[None] for k in columns[0]}
    stats = {"lp": log_p[kept][None], "lp_approximation": log_q[kept][None]}
    tree = _tree(model, stacked, stats, optima, method="laplace")
    tree.attrs["khat"] = khat
    return tree


def _weighed(density, mode, spread, count, rng, progressbar):
    """Proposals (S, d), their log densities and the proposals' own, log weights (S,), Pareto k."""
    points, log_p, proposals = np.empty((0, len(mode))), np.empty(0), [(mode, spread)]
    for _ in range(ROUNDS):
        center, root = proposals[-1]
        standard = rng.standard_normal((count // ROUNDS, len(mode)))
        standard /= np.sqrt(rng.chisquare(TAILS, len(standard)) / TAILS)[:, None]
        new = center + standard @ root.T
        points = np.concatenate([points, new])
        log_p = np.concatenate([log_p, _heights(density, new, progressbar)])
        log_q = np.logaddexp.reduce([_log_t(points, *one) for one in proposals])
        log_q -= np.log(len(proposals))
        log_weights, khat = array_stats.psislw(log_q - np.maximum(log_p, log_p.max() - NEGLIGIBLE))
        weights = np.exp(log_weights)
        mean = weights @ points
        covariance = (weights[:, None] * (points - mean)).T @ (points - mean)
        root = np.linalg.cholesky(covariance + LEAST_OWN * spread @ spread.T)
        proposals.append((mean, root))
    return points, log_p, log_q, log_weights, float(khat)


def _log_t(points, center, root):
    """Log density of the proposals' t distribution, (S,)."""
    standard = np.linalg.solve(root, (points - center).T).T
    log_density = multivariate_t.logpdf(standard, df=TAILS, shape=np.eye(len(center)))
    return log_density - np.linalg.slogdet(root)[1]


def _heights(density, points, progressbar):
    """Log densities at points (S, d), by parallel threads.

    By as many as need no more memory together than one does with the rows from which BLAS has
    threads of its own.
    """
    alone = (THREADED_FROM // max(1, observations(density.model))) ** 2
    workers = max(1, min(os.cpu_count() or 1, alone))
    with ThreadPoolExecutor(workers) as pool, progress_bar(progressbar) as progress:
        found = pool.map(density.height, points)
        return np.array([*progress.track(found, total=len(points), description="Weighing")])


def fit_nuts(
    model,
    starts,
    *,
    draws=1000,
    tune=1000,
    chains=4,
    cores=None,
    seed=None,
    progressbar=True,
    nuts_sampler="nutpie",
    target_accept=0.9,
    around=None,
    **kwargs,
):
    """Sample by NUTS, from overdispersed points around the mode; diagnose the draws.

    Parameters
    ----------
    around : dict, optional
        Constrained values by variable name, in the place of the mode; the rest at prior centres.
        For a model with so many variables that its mode would be far from its mass.
    nuts_sampler : str
        "nutpie", or what `pymc.sample` knows: "pymc", "numpyro", "blackjax".
    target_accept : float
        0.8, the samplers' own default, leaves stray divergences on real data.
    **kwargs
        Passed on to `nutpie.sample` or `pymc.sample`.
    """
    cores = cores or min(chains, os.cpu_count() or 1)
    kwargs["target_accept"] = target_accept
    many = nuts_sampler == "nutpie" and chains * (draws + tune) >= WORTHWHILE
    density = Density(model, jacobian=True, many=many)
    if around is None:
        optima, mode, spread = _mode_and_spread(density, starts, progressbar)
    else:
        mode = density.unconstrain(around)
        optima, spread = [], NEAR * np.eye(len(mode))
    if nuts_sampler == "nutpie":
        idata = _nutpie(
            density, mode, spread, draws, tune, chains, cores, seed, progressbar, kwargs
        )
    else:
        expanded = density.expand()(mode)
        initial = {rv.name: expanded[rv.name] for rv in model.free_RVs}
        with pytensor.config.change_flags(mode=MODE):
            idata = pm.sample(
                draws,
                tune=tune,
                chains=chains,
                cores=cores,
                random_seed=seed,
                progressbar=progressbar,
                nuts_sampler=nuts_sampler,
                initvals=initial,
                model=model,
                **kwargs,
            )
    posterior = {k: v.values for k, v in idata["posterior"].data_vars.items()}
    stats = {k: v.values for k, v in idata["sample_stats"].data_vars.items() if v.ndim == 2}
    idata = _tree(model, posterior, stats, optima, method="nuts")
    diagnosis = diagnose(idata)
    idata.attrs.update(
        r_hat_max=diagnosis.r_hat,
        ess_min=min(diagnosis.ess_bulk, diagnosis.ess_tail),
        divergences=diagnosis.divergences,
        verdict=diagnosis.verdict,
    )
    if diagnosis.complaints:
        warnings.warn(diagnosis.verdict, ConvergenceWarning, stacklevel=3)
    return idata


def _mode_and_spread(density, starts, progressbar):
    """Mode, and a square root of the inverse negative Hessian there, by differences of slopes."""
    optima = climb(density, starts, progressbar=progressbar)
    mode = max(optima, key=lambda o: o.log_density).x
    value_and_slope = density.value_and_slope()
    step = 1e-4
    hessian = np.stack(
        [
            (value_and_slope(mode + step * e)[1] - value_and_slope(mode - step * e)[1]) / (2 * step)
            for e in np.eye(len(mode))
        ]
    )
    curvature, directions = np.linalg.eigh(-(hessian + hessian.T) / 2)
    if (curvature < WIDEST**-2).any():
        warnings.warn(
            "The posterior is nearly flat in some direction at its mode; the Laplace "
            f"approximation is held to a standard deviation of {WIDEST:g} there. Use 'nuts', or "
            "tighter priors.",
            ConvergenceWarning,
            stacklevel=4,
        )
    sd = 1.0 / np.sqrt(np.maximum(curvature, WIDEST**-2))
    return optima, mode, directions * sd


def _nutpie(density, mode, spread, draws, tune, chains, cores, seed, progressbar, kwargs):
    """Sample z of x = mode + spread z: what is correlated in x near the mode is not in z."""
    import nutpie
    from nutpie.compiled_pyfunc import from_pyfunc

    example = density.expand()(mode)

    def initial(chain_seed):
        return np.random.default_rng(chain_seed).standard_normal(len(mode))

    def make_value_and_slope():
        value_and_slope = density.value_and_slope()

        def evaluate(z):
            value, slope = value_and_slope(mode + spread @ z)
            return value, slope @ spread

        return evaluate

    def make_expand(seed_1, seed_2, chain):
        expand = density.expand()
        return lambda z: {
            k: np.asarray(v, dtype="float64") for k, v in expand(mode + spread @ z).items()
        }

    compiled = from_pyfunc(
        len(mode),
        make_logp_fn=make_value_and_slope,
        make_expand_fn=make_expand,
        expanded_dtypes=[np.dtype("float64")] * len(example),
        expanded_shapes=[np.shape(v) for v in example.values()],
        expanded_names=list(example),
        make_initial_point_fn=initial,
    )
    sampled = nutpie.sample(
        compiled,
        draws=draws,
        tune=tune,
        chains=chains,
        cores=cores,
        seed=seed,
        progress_bar=progressbar,
        save_warmup=False,
        **kwargs,
    )
    return _finished(sampled, draws)


def _finished(idata, draws):
    """What an interruption left: as many draws of as many chains as have them; or it goes on."""
    posterior = idata["posterior"].to_dataset()
    known = xr.concat(
        [
            np.isfinite(v).all([d for d in v.dims if d not in ("chain", "draw")])
            for v in posterior.data_vars.values()
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
    warnings.warn(
        f"Interrupted: {kept} of {draws} draws are kept, of {len(chains)} of {len(held)} chains.",
        ConvergenceWarning,
        stacklevel=5,
    )
    where = {"chain": chains, "draw": slice(kept)}
    groups = ("posterior", "sample_stats")
    return xr.DataTree.from_dict({g: idata[g].to_dataset().isel(where) for g in groups})


def _tree(model, draws, stats, optima, *, method):
    """Assemble the DataTree with the model's dims and coordinates."""
    coords = {k: list(v) for k, v in model.coords.items() if v is not None}

    def dataset(arrays, lead):
        variables = {}
        for name, array in arrays.items():
            own = model.named_vars_to_dims.get(name)
            shape = np.shape(array)[len(lead) :]
            own = own or tuple(f"{name}_dim_{i}" for i in range(len(shape)))
            variables[name] = ((*lead, *own), array)
        used = {d for dims, _ in variables.values() for d in dims}
        return xr.Dataset(variables, coords={k: v for k, v in coords.items() if k in used})

    lead = ("chain", "draw")
    groups = {
        "posterior": dataset(draws, lead),
        "sample_stats": dataset(stats, lead),
        "observed_data": dataset(find_observations(model), ()),
        "constant_data": dataset(find_constants(model), ()),
        "starts": xr.Dataset(
            {
                "log_density": ("start", [o.log_density for o in optima]),
                "converged": ("start", [o.converged for o in optima]),
                "evaluations": ("start", [o.evaluations for o in optima]),
            }
        ),
    }
    for name in ("posterior", "sample_stats"):
        sizes = groups[name].sizes
        groups[name] = groups[name].assign_coords({d: np.arange(sizes[d]) for d in lead})
        groups[name].attrs.update(inference_library="bayes_gpx", inference_method=method)
    return xr.DataTree.from_dict(groups)
