"""From a PyMC model to posterior draws: MAP, Laplace, NUTS. Knows no Gaussian process.

The log density and its gradient are compiled with PyTensor's Python linker: about a second
and no compilation cache, where numba takes a minute on a cold machine. What is heavy in
them releases Python's lock, so nutpie's chains run in parallel threads.
"""

import os
import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import xarray as xr
from pymc.backends.arviz import find_constants, find_observations
from pymc.initial_point import make_initial_point_fn
from pymc.pytensorf import join_nonshared_inputs
from pytensor.compile.mode import Mode
from pytensor.graph.replace import graph_replace
from pytensor.link.basic import PerformLinker
from rich.console import Console
from rich.progress import Progress
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

MODE = Mode(linker="py", optimizer="fast_compile")
"""Python linker: compiles in a moment, runs NumPy and LAPACK."""

BUFFERED_MODE = Mode(linker=PerformLinker(allow_gc=False), optimizer="fast_compile")
"""The same, with every intermediate array kept for the next call."""

BUFFERED_BELOW = 1000
"""Observations up to which keeping arrays is worth its memory (a third of the time)."""

WIDEST = 5.0
"""Largest standard deviation that a Laplace approximation is given, unconstrained scale."""


class ConvergenceWarning(UserWarning):
    """An optimiser or sampler did not do what its result claims."""


class Diagnosis(NamedTuple):
    """What the diagnostics of a sampled posterior say."""

    r_hat: float
    """Largest split R-hat of any variable."""
    ess_bulk: float
    """Smallest bulk effective sample size."""
    ess_tail: float
    """Smallest tail effective sample size."""
    divergences: int

    @property
    def complaints(self):
        """Sentences on what is wrong, each with a cure; empty if nothing is."""
        found = []
        if self.divergences:
            found.append(
                f"{self.divergences} divergent transitions: raise target_accept or tighten priors"
            )
        if not self.r_hat <= 1.01:
            found.append(f"R-hat up to {self.r_hat:.3f} (want at most 1.01): run longer chains")
        if not min(self.ess_bulk, self.ess_tail) >= 100:
            found.append(
                f"effective sample size down to {min(self.ess_bulk, self.ess_tail):.0f} "
                "(want at least 100): draw more"
            )
        return found

    @property
    def verdict(self):
        """One sentence."""
        if self.complaints:
            return "Do not trust these draws yet: " + "; ".join(self.complaints) + "."
        return (
            f"Converged: R-hat at most {self.r_hat:.3f}, effective sample size at least "
            f"{min(self.ess_bulk, self.ess_tail):.0f}, no divergences."
        )


class Density:
    """A model's log density on the unconstrained vector, compiled.

    Parameters
    ----------
    model : pymc.Model
    jacobian : bool
        Whether the density is of the unconstrained variables (True) or of the
        hyperparameters themselves (False).
    """

    def __init__(self, model, *, jacobian):
        self.model = model
        with pytensor.config.change_flags(mode=MODE):
            self._natural_point = make_initial_point_fn(model=model, return_transformed=False)(0)
            values = model.continuous_value_vars
            self._free = [model.values_to_rvs[v] for v in values]
            self._forward = self._compile_forward()
            point = self._split(self.unconstrain({}))
            logp = model.logp(jacobian=jacobian)
            slopes = pt.grad(logp, values)
            flat = pt.concatenate([g.ravel() for g in slopes])
            outputs, x = join_nonshared_inputs(point, [logp, flat], values)
            self._value_and_slope = pytensor.function(
                [x], outputs, mode=mode_for(model), trust_input=True
            )
            expanded = model.replace_rvs_by_values(model.unobserved_RVs)
            outputs, x = join_nonshared_inputs(point, expanded, values)
            self._expand = pytensor.function([x], outputs, mode=MODE, trust_input=True)

    def _compile_forward(self):
        inputs = {rv: rv.type(rv.name) for rv in self._free}
        pieces = []
        for rv in self._free:
            transform = self.model.rvs_to_transforms[rv]
            value = rv if transform is None else transform.forward(rv, *rv.owner.inputs)
            pieces.append(value.ravel())
        joined = graph_replace([pt.concatenate(pieces)], inputs, strict=False)
        return pytensor.function(list(inputs.values()), joined[0], mode=MODE)

    def unconstrain(self, start):
        """Unconstrained vector of a dict of constrained values; the rest at prior centres."""
        natural = [
            np.broadcast_to(start.get(rv.name, self._natural_point[rv.name]), shape)
            for rv, shape in zip(self._free, self._shapes, strict=True)
        ]
        return self._forward(*[np.array(v, dtype="float64") for v in natural])

    @property
    def _shapes(self):
        return [np.shape(self._natural_point[rv.name]) for rv in self._free]

    def _split(self, x):
        point, first = {}, 0
        for rv, shape in zip(self._free, self._shapes, strict=True):
            size = int(np.prod(shape))
            value = self.model.rvs_to_values[rv]
            point[value.name] = x[first : first + size].reshape(shape)
            first += size
        return point

    def value_and_slope(self):
        """Function x -> (log density, gradient), for the use of one thread."""
        compiled = self._value_and_slope.copy()

        def evaluate(x):
            value, slope = compiled(np.array(x, dtype="float64"))
            if not (np.isfinite(value) and np.isfinite(slope).all()):
                return -np.inf, np.zeros_like(x)
            return float(value), slope

        return evaluate

    def expand(self):
        """Function x -> dict of the model's unobserved variables, for one thread."""
        compiled = self._expand.copy()
        names = [rv.name for rv in self.model.unobserved_RVs]

        def evaluate(x):
            return dict(zip(names, compiled(np.array(x, dtype="float64")), strict=True))

        return evaluate


def observations(model):
    """Length of the longest observed variable."""
    return max((len(np.atleast_1d(v)) for v in find_observations(model).values()), default=0)


def mode_for(model):
    """How to compile a function of all observations."""
    return BUFFERED_MODE if observations(model) < BUFFERED_BELOW else MODE


def blas_threads(n, parallel=1):
    """Context in which BLAS uses as many threads as n observations are worth.

    Small matrices lose by more than one thread; `parallel` chains share the processors.
    """
    return threadpool_limits(1 if n < BUFFERED_BELOW else max(1, (os.cpu_count() or 1) // parallel))


def progress_bar(wanted):
    """Progress display on a terminal or in a notebook; silent where output goes to a file."""
    console = Console(stderr=True)
    visible = wanted and (console.is_terminal or console.is_jupyter)
    return Progress(console=console, disable=not visible, transient=True)


@dataclass(frozen=True)
class Optimum:
    """Where one start of the optimiser ended."""

    x: np.ndarray
    log_density: float
    converged: bool
    evaluations: int


def climb(density, starts, *, progressbar=True):
    """Maximise from every start by L-BFGS with exact gradients.

    Parameters
    ----------
    density : Density
    starts : list of dict
        Constrained values by variable name.

    Returns
    -------
    list of Optimum, in the order of the starts
    """
    value_and_slope = density.value_and_slope()
    lost = 1e12

    def objective(x):
        value, slope = value_and_slope(x)
        return (-value, -slope) if np.isfinite(value) else (lost, slope)

    optima = []
    with progress_bar(progressbar) as progress:
        for start in progress.track(starts, description="Maximising"):
            x0 = density.unconstrain(start)
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
            flat = np.abs(result.jac).max() < 1e-2
            converged = bool((flat or (result.success and inside)) and result.fun < lost)
            optima.append(Optimum(result.x, -float(result.fun), converged, result.nfev))
    if not any(o.log_density > -lost for o in optima):
        raise ValueError(
            "The log density is not finite at any start. Expected priors that allow "
            "hyperparameters of moderate size on the model's scale; check priors and kernel."
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


def fit_map(model, starts, *, progressbar=True):
    """Maximise the density in the hyperparameters themselves; one chain, one draw."""
    density = Density(model, jacobian=False)
    optima = climb(density, starts, progressbar=progressbar)
    best = max(optima, key=lambda o: o.log_density)
    draws = {k: np.asarray(v)[None, None] for k, v in density.expand()(best.x).items()}
    stats = {"lp": np.array([[best.log_density]])}
    return _tree(model, draws, stats, optima, method="map")


def fit_laplace(model, starts, *, draws=1000, seed=None, progressbar=True):
    """Draw from a normal approximation at the mode of the unconstrained density."""
    density = Density(model, jacobian=True)
    optima, mode, spread = _mode_and_spread(density, starts, progressbar)
    rng = np.random.default_rng(seed)
    standard = rng.standard_normal((draws, len(mode)))
    expand = density.expand()
    columns = [expand(x) for x in mode + standard @ spread.T]
    stacked = {k: np.stack([c[k] for c in columns])[None] for k in columns[0]}
    log_q = -0.5 * (standard**2).sum(axis=1) - np.linalg.slogdet(spread)[1]
    stats = {"lp_approximation": (log_q - 0.5 * len(mode) * np.log(2 * np.pi))[None]}
    return _tree(model, stacked, stats, optima, method="laplace")


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
    **kwargs,
):
    """Sample by NUTS, from overdispersed points around the mode; diagnose the draws.

    Parameters
    ----------
    nuts_sampler : str
        "nutpie", or what `pymc.sample` knows: "pymc", "numpyro", "blackjax".
    **kwargs
        Passed on to `nutpie.sample` or `pymc.sample`.
    """
    cores = cores or min(chains, os.cpu_count() or 1)
    density = Density(model, jacobian=True)
    optima, mode, spread = _mode_and_spread(density, starts, progressbar)
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


def diagnose(idata):
    """Largest R-hat, smallest effective sample sizes and divergences of a posterior."""
    import arviz as az

    posterior = idata["posterior"].to_dataset()

    def extreme(statistic, pick):
        values = [v.values.ravel() for v in statistic.data_vars.values()]
        return float(pick(np.concatenate(values)))

    diverging = idata["sample_stats"].get("diverging", None)
    return Diagnosis(
        extreme(az.rhat(posterior), np.nanmax),
        extreme(az.ess(posterior, method="bulk"), np.nanmin),
        extreme(az.ess(posterior, method="tail"), np.nanmin),
        0 if diverging is None else int(diverging.sum()),
    )


def per_draw(model, idata, graphs, *, progressbar=True, description="Evaluating"):
    """Evaluate graphs of the model's free variables at every posterior draw.

    Parameters
    ----------
    graphs : dict of str to TensorVariable

    Returns
    -------
    dict of arrays, (chain, draw, ...)
    """
    free = model.free_RVs
    inputs = {rv: rv.type(rv.name) for rv in free}
    outputs = graph_replace(list(graphs.values()), inputs, strict=False)
    compiled = pytensor.function(
        list(inputs.values()), outputs, mode=mode_for(model), trust_input=True
    )
    posterior = idata["posterior"]
    columns = [posterior[rv.name].values for rv in free]
    chains, draws = posterior.sizes["chain"], posterior.sizes["draw"]
    rows = []
    with progress_bar(progressbar) as progress:
        for at in progress.track(list(np.ndindex(chains, draws)), description=description):
            rows.append(compiled(*[np.asarray(column[at]) for column in columns]))
    return {
        name: np.stack(values).reshape((chains, draws, *np.shape(values[0])))
        for name, values in zip(graphs, zip(*rows, strict=True), strict=True)
    }


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
    import nutpie
    from nutpie.compiled_pyfunc import from_pyfunc

    example = density.expand()(mode)

    def initial(chain_seed):
        rng = np.random.default_rng(chain_seed)
        return mode + spread @ rng.standard_normal(len(mode))

    def make_expand(seed_1, seed_2, chain):
        expand = density.expand()
        return lambda x: {k: np.asarray(v, dtype="float64") for k, v in expand(x).items()}

    compiled = from_pyfunc(
        len(mode),
        make_logp_fn=density.value_and_slope,
        make_expand_fn=make_expand,
        expanded_dtypes=[np.dtype("float64")] * len(example),
        expanded_shapes=[np.shape(v) for v in example.values()],
        expanded_names=list(example),
        make_initial_point_fn=initial,
    )
    return nutpie.sample(
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
