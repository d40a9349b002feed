"""Simulation-based calibration: whether truths that are known lie where posteriors say they do."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Executor
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pymc as pm
import xarray as xr
from arviz_stats.base import array_stats

from bayes_gpx.aliases import Column
from bayes_gpx.assess.replicates import Replicates
from bayes_gpx.draws.hyperparameter_draws import refuse_other_model, refuse_swapped
from bayes_gpx.explain.derivatives import numbers_among
from bayes_gpx.inference.methods import METHODS
from bayes_gpx.likelihoods.rows import tails_of
from bayes_gpx.numerics.progress import progress_bar
from bayes_gpx.numerics.threads import on_cores
from bayes_gpx.system.digests import digest
from bayes_gpx.system.files import replaced
from bayes_gpx.system.tasks import in_turn
from bayes_gpx.validation import count, known_executor, one_of

if TYPE_CHECKING:
    from bayes_gpx.model.model import Model

LOOKED_AT = 3
"""Number of rows to check functions, responses and explanations at, spread over the data."""

SUSPECT = 0.01
"""Adjusted p-value below which a quantity is called not calibrated."""

FEWEST = 20
"""Fewest runs for a test of uniformity."""


@on_cores
def calibrate(
    model: Model,
    *,
    runs: int = 200,
    method: str = "nuts",
    quantities: Callable[[Any, Any], xr.Dataset] | None = None,
    censoring_times: Column | None = None,
    posterior: xr.DataTree | None = None,
    draws: int = 99,
    executor: Executor | None = None,
    cores: int | None = None,
    path: str | PathLike | None = None,
    seed: int | None = None,
    progressbar: bool = True,
    **fit: Any,
) -> xr.DataTree:
    """Check by simulation that intervals of a model have their nominal coverage.

    `bayes_gpx.metrics.coverage` checks one fit on data instead. Each run draws hyperparameters from
    their prior, functions from the process, and responses at the model's own rows. It fits the
    model to these responses, and ranks each truth among draws of the fit. Ranks of calibrated
    quantities are uniform [1]_.

    Parameters
    ----------
    model : GP or GPX
        Its rows, kernel, priors and scaling are used; with `posterior` also its responses.
    runs : int
        Number of runs.
    method : {"nuts", "laplace", "svgp"}
        Method of the refits. For "svgp", only f is checked.
    quantities : callable, optional
        ``quantities(model, idata)`` returns a Dataset of further quantities with dims `chain` and
        `draw`, for the refitted model and the fit or true hyperparameters.
    censoring_times : array (n,), optional
        When the observation of each row ends; a refit knows no more of larger replicates.
    posterior : xarray.DataTree, optional
        A fit of the model. Truths then come from this posterior instead of the prior, and each
        refit combines the observed responses with a replicate of them [2]_.
    draws : int
        Draws that each truth is ranked among, thinned from the fit.
    executor : concurrent.futures.Executor, optional
        Runs refits at a time.
    path : str or path, optional
        Folder for runs; a repeated call computes missing ones.
    seed : int, optional
        Seed of the runs.
    progressbar : bool
        Show progress.
    **fit
        Options of ``model.fit``, such as `draws`, `tune`, `chains` and `latent`.

    Returns
    -------
    xarray.DataTree
        - `prior_sbc` or `posterior_sbc`: ranks in (0, 1), with dims `chain` (one), `draw` (runs)
          and the dims of the quantity; plot them with ``az.plot_ecdf_pit(found,
          group="prior_sbc")``. The quantities are hyperparameters, explanations at three rows, and
          `log_likelihood` of all responses;
        - `truth`: the true values;
        - `runs`: seconds, and the diagnostics of the fits;
        - `uniformity`: the smallest p-value of each quantity, by `arviz_stats`, times the number of
          its values, and `p_holm`, adjusted over quantities.

        ``attrs["summary"]`` names the quantities that are not calibrated.

    Raises
    ------
    ValueError
        For a method without draws, out-of-core rows, a fit of another model, and censored rows
        without `censoring_times`.

    References
    ----------
    .. [1] Talts, Betancourt, Simpson, Vehtari and Gelman, "Validating Bayesian inference algorithms
       with simulation-based calibration" (2018); Modrak et al., "Simulation-based calibration
       checking for Bayesian computation: the choice of test quantities shapes sensitivity" (2023).
    .. [2] Saeilynoja, Schmitt, Buerkner and Vehtari, "Posterior SBC: simulation-based calibration
       checking conditional on data" (2025).

    Examples
    --------
    >>> import numpy as np
    >>> import bayes_gpx as bx
    >>> X = np.linspace(-1.0, 1.0, 8)[:, None]
    >>> model = bx.GP(X, np.sin(X[:, 0]), scale=False, priors={"lengthscale": 1.0, "sigma": 0.3})
    >>> found = bx.calibrate(model, runs=2, method="laplace", draws=9, seed=1, progressbar=False)
    >>> found["prior_sbc"]["amplitude"].dims
    ('chain', 'draw')
    """
    refuse_swapped(model, None)
    model.training.refuse_outputs("calibrate", "Fit a model of one column of y.")
    model.training.refuse_sparse("calibrate")
    times = _times(model, censoring_times, posterior)
    if model.specification.weighted:
        raise ValueError(
            "calibrate draws responses, and no distribution of y has weights of rows. Build the "
            "model without weights."
        )
    known_executor(executor)
    count("runs", runs)
    count("draws", draws)
    one_of("method", method, [name for name in METHODS if name not in ("auto", "map")])
    if seed is not None:
        count("seed", seed, 0)
    if model.training.streamed or model.joined:
        raise ValueError(
            "model is part of a larger pm.Model, or its rows are out-of-core data. Pass a model of "
            "a table in memory, built outside of other models."
        )
    if model.specification.constraints is not None:
        raise ValueError(
            "model has constraints, but truths drawn from its priors need not meet them. Pass a "
            "model without constraints."
        )
    if posterior is not None:
        refuse_other_model(model, posterior)
        if model.specification.classes is not None:
            raise ValueError(
                "posterior= was given with several classes. Leave it out to draw truths from the "
                "prior."
            )
        if model.specification.family == "GPX" and model.specification.approximation is not None:
            raise ValueError(
                "posterior= was given for a GPX with an approximation, which has no joint "
                "posterior of f and weights. Leave it out, or leave approximation= out."
            )
    rows = np.unique(np.linspace(0, model.training.n - 1, LOOKED_AT).astype(int))
    replicates = Replicates(model, method, rows, draws, posterior, quantities, times, fit)
    folder, entropy = _folder(path, replicates, seed)
    with progress_bar(progressbar) as progress:
        each = ((entropy, number, folder) for number in range(runs))
        tracked = progress.track(
            in_turn(_run, replicates, each, executor),
            total=runs,
            description=f"Refitting by {method} to {runs} replicates",
        )
        found = [*tracked]
    return _as_tree(found, replicates)


def _times(model: Model, given: Column | None, posterior: xr.DataTree | None) -> np.ndarray | None:
    """When the observation of each row ends, None if never."""
    if given is None:
        cure = "Pass censoring_times=, when the observation of each row ends."
        model.training.refuse_censored("calibrate", cure)
        return None
    observation = model.specification.observation
    if tails_of(observation) is None or model.specification.classes is not None:
        raise ValueError(
            f"censoring_times was given, but likelihood={model.specification.likelihood!r} does "
            "not support censored rows. Leave it out."
        )
    if posterior is not None:
        raise ValueError("censoring_times was given with posterior=. Leave posterior out.")
    times = np.asarray(given, "float64")
    if times.shape != (model.training.n,) or np.isnan(times).any():
        raise ValueError(
            f"censoring_times has shape {times.shape} or missing values. Pass a number for each of "
            f"{model.training.n} rows, np.inf where the observation never ends."
        )
    return times


def _run(
    replicates: Replicates, entropy: int, number: int, folder: Path | None
) -> dict[str, dict[str, np.ndarray]]:
    """One run, kept in the folder if there is one."""
    file = None if folder is None else folder / f"run_{number}.npz"
    if file is not None and file.exists():
        with np.load(file) as kept:
            found: dict[str, dict] = {"pit": {}, "truth": {}, "runs": {}}
            for name in kept.files:
                group, _, own = name.partition("/")
                found[group][own] = kept[name]
            return found
    try:
        found = replicates.run(entropy, number)
    except Exception as failed:
        failed.add_note(f"This was run {number} of a calibration; runs in its path= are kept.")
        raise
    if file is not None:
        with replaced(file) as opened:
            flat: dict[str, Any] = {
                f"{group}/{k}": v for group, own in found.items() for k, v in own.items()
            }
            np.savez(opened, **flat)
    return found


def _folder(
    path: str | PathLike | None, replicates: Replicates, seed: int | None
) -> tuple[Path | None, int]:
    """The folder for runs, and the entropy of their seeds."""
    entropy = cast(int, np.random.SeedSequence(seed).entropy)
    if path is None:
        return None, entropy
    folder, model, posterior = Path(path), replicates.model, replicates.posterior
    training = model.training
    arrays = [*training.scaled().values(), training.X.values, training.y]
    # Priors may be functions: what they draw tells them apart.
    arrays += pm.draw([*model.variables.values()], draws=3, random_seed=0)
    if posterior is not None:
        arrays += [v.values for v in posterior["posterior"].data_vars.values()]
    arrays += [] if replicates.times is None else [replicates.times]
    said = [replicates.method, replicates.draws, seed, replicates.quantities]
    asked = digest(*arrays, model.signature, said, sorted(replicates.options.items()))
    known = folder / "asked.txt"
    if known.is_file():
        kept, _, kept_entropy = known.read_text().partition("\n")
        if kept != asked:
            raise ValueError(
                f"path: {folder} holds runs of another calibration. Ask for the same to go on with "
                "it, or pass another path."
            )
        return folder, int(kept_entropy)
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(f"path: {folder} is not empty, and holds no calibration; pass a new path.")
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / f".{secrets.token_hex(4)}"
    made.write_text(f"{asked}\n{entropy}")
    made.rename(known)
    return folder, entropy


def _as_tree(
    found: Sequence[Mapping[str, Mapping[str, Any]]], replicates: Replicates
) -> xr.DataTree:
    """All runs as a DataTree, with its summary."""
    model = replicates.model
    group = "prior_sbc" if replicates.posterior is None else "posterior_sbc"
    dims: dict[str, tuple[str, ...]] = {"f": ("row",), "y": ("row",)}
    labels: dict[Hashable, np.ndarray] = {"row": model.training.X.index[replicates.rows]}
    frame = model.training.X
    x, z = ("feature", frame.sources), ("z_feature", ())
    columns = "column", frame.columns
    if model.training.Z is not None:
        z = ("z_feature", model.training.Z.columns)
    slopes = columns
    if frame.levels and "derivative" in replicates.names:
        slopes = "number", numbers_among(frame, None)
    for name, (dim, names) in {
        "derivative": slopes,
        "attribution": x,
        "relevance": x,
        "weight": z,
        "contribution": ("source", () if model.training.Z is None else model.training.Z.sources),
    }.items():
        dims[name] = ("row", dim)
        labels[dim] = np.asarray(names)
    labels |= {columns[0]: np.asarray(columns[1]), **model.specification.observation.coords}
    for h in model.specification.hyperparameters:
        if h.dim is not None:
            dims[h.name] = ("column" if h.dim == "feature" else h.dim,)
    several = model.specification.classes is not None

    def dataset(kind: str) -> xr.Dataset:
        variables: dict[str, tuple] = {}
        for name in found[0][kind]:
            values = np.stack([one[kind][name] for one in found])[None]
            own = dims.get(name, ())
            own += ("class",) if several and name in replicates.names else ()
            if len(own) != values.ndim - 2:
                own = tuple(f"{name}_dim_{k}" for k in range(values.ndim - 2))
            variables[name] = (("chain", "draw", *own), values)
        made = xr.Dataset(variables)
        return made.assign_coords({d: labels.get(d, np.arange(k)) for d, k in made.sizes.items()})

    pit = dataset("pit")
    tree = {group: pit, "truth": dataset("truth"), "runs": dataset("runs")}
    summary = f"{len(found)} runs are too few to be tested; at least {FEWEST} are needed."
    if len(found) >= FEWEST:
        tree["uniformity"], summary = _uniformity(pit)
    made = xr.DataTree.from_dict(tree)
    made.attrs.update(summary=summary, method=replicates.method, draws=replicates.draws)
    return made


def _uniformity(pit: xr.Dataset) -> tuple[xr.Dataset, str]:
    """P-values of each quantity, and a sentence that names the uncalibrated quantities."""
    smallest: dict[str, float] = {}
    for name, values in pit.data_vars.items():
        each = values.values[0].reshape((values.sizes["draw"], -1)).T
        p, *_ = array_stats.uniformity_test(np.clip(each, 1e-12, 1 - 1e-12), axis=-1)
        smallest[str(name)] = min(1.0, float(np.min(p)) * len(each))
    names = sorted(smallest, key=lambda name: smallest[name])
    adjusted: dict[str, float] = {}
    largest = 0.0
    for k, name in enumerate(names):
        largest = max(largest, min(1.0, (len(names) - k) * smallest[name]))
        adjusted[name] = largest
    wrong = [name for name in names if adjusted[name] < SUSPECT]
    said = ", ".join(f"{name} (p = {adjusted[name]:.2g})" for name in wrong)
    summary = (
        f"Not calibrated: {said}, after Holm's adjustment over {len(names)} quantities."
        if wrong
        else f"No quantity of {len(names)} is distinguished from calibrated (smallest p = "
        f"{adjusted[names[0]]:.2g})."
    )
    order = [str(name) for name in pit.data_vars]
    return xr.Dataset(
        {
            "p": ("quantity", [smallest[name] for name in order]),
            "p_holm": ("quantity", [adjusted[name] for name in order]),
        },
        {"quantity": order},
    ), summary
