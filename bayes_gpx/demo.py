"""The demonstration: diabetes progression predicted and explained, with uncertainty."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import arviz as az
import matplotlib
import numpy as np
import xarray as xr

from bayes_gpx.assess.metrics import coverage
from bayes_gpx.data import datasets
from bayes_gpx.draws.intervals import LEVEL, interval_of
from bayes_gpx.explain import contributions, predictions, weights
from bayes_gpx.inference.diagnostics import ConvergenceWarning
from bayes_gpx.model.gp import GP, GPX
from bayes_gpx.model.storage import save
from bayes_gpx.plots import plot_contributions, plot_weights
from bayes_gpx.system.files import replaced, writable

if TYPE_CHECKING:
    from bayes_gpx.aliases import Draws


TEST_ROWS = 89
CHAINS, TUNE, DRAWS = 4, 300, 400
EXPLAINED_DRAWS, CURVE_DRAWS = 800, 200


def run(
    folder: str | PathLike,
    *,
    seed: int = 0,
    say: Callable[[str], Any] = print,
    progressbar: bool = True,
) -> Any:
    """Fit, check and explain into a folder; return RMSE, R² and coverage of each fit by name."""
    # `folder` is made if absent, and `say` takes each line of the report.
    started = time.perf_counter()
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    writable(folder / "gpx.nc")
    matplotlib.use("Agg")
    az.style.use("arviz-variat")
    data = datasets.load("diabetes")
    rows = np.random.default_rng(seed).permutation(len(data.y))
    train, test = rows[TEST_ROWS:], rows[:TEST_ROWS]
    X, y, X_test, y_test = (a.iloc[r] for r in (train, test) for a in (data.X, data.y))
    say(f"Diabetes: {len(train)} patients to learn from, {len(test)} to predict.")
    say("Target: disease progression after one year, from 10 measurements.\n")

    gp, gpx = GP(X, y), GPX(X, y)
    results = {}
    for name, model in (("plain GP, MAP", gp), ("GPX, MAP", gpx)):
        say(f"Maximising the posterior: {name} ...")
        idata = model.fit("map", progressbar=progressbar)
        results[name] = _score(
            predictions(model, idata, X_test, seed=seed, progressbar=False), y_test
        )
    say(f"Sampling by NUTS: GPX, {CHAINS} chains of {TUNE} + {DRAWS} draws ...")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        idata = gpx.fit(
            "nuts", draws=DRAWS, tune=TUNE, chains=CHAINS, seed=seed, progressbar=progressbar
        )
    save(gpx, idata, folder / "gpx.nc")
    fresh = predictions(gpx, idata, X_test, seed=seed, progressbar=progressbar)
    results["GPX, NUTS"] = _score(fresh, y_test)

    say("\nHyperparameters, on standardised data:")
    say(az.summary(idata, round_to=2).to_string())
    say(f"\n{idata.attrs['convergence_summary']}")
    say(f"\nOn the {len(test)} held-out patients:")
    say(f"{'':16}{'RMSE':>8}{'R²':>8}{f'coverage of {LEVEL:.0%} intervals':>30}")
    for name, (rmse, r2, covered) in results.items():
        say(f"{name:16}{rmse:8.1f}{r2:8.2f}{covered:30.0%}")

    explained = contributions(
        gpx, idata, X_test, num_draws=EXPLAINED_DRAWS, seed=seed, progressbar=progressbar
    )
    patients = _telling(explained)
    for patient in patients:
        _tell(explained, fresh, patient, y_test.loc[patient], say)
    for path in _figures(folder, gpx, idata, explained, patients, seed):
        say(f"wrote {path}")
    say(f"wrote {folder / 'gpx.nc'}")
    say(f"\nDone in {time.perf_counter() - started:.0f} s. Your own data: bayes-gpx fit --help.")
    return results


def _score(predicted: xr.Dataset, y: Any) -> tuple[float, float, float]:
    """RMSE, R² and coverage of central intervals."""
    error = predicted["y_mean"].values - y.values
    rmse = float(np.sqrt(np.mean(error**2)))
    return rmse, 1 - rmse**2 / float(y.var(ddof=0)), coverage(predicted, y, LEVEL).item()


def _telling(explained: xr.Dataset) -> np.ndarray:
    """Three observations: lowest, middle and highest expected progression."""
    order = np.argsort(explained["contribution_mean"].sum("feature").values)
    return explained["obs"].values[order[[0, len(order) // 2, -1]]]


def _tell(
    explained: xr.Dataset,
    predicted: xr.Dataset,
    patient: Any,
    observed: float,
    say: Callable[[str], None],
) -> None:
    one, f = explained.sel(obs=patient), predicted.sel(obs=patient)
    say(
        f"\nPatient {patient}: predicted {float(f['y_mean']):.0f} ± {float(f['y_sd']):.0f}, "
        f"observed {observed:.0f}; an average patient {float(one['offset']):.0f}"
    )
    ends = interval_of(one, "contribution", LEVEL).transpose("feature", "ci_bound")
    order = np.argsort(-np.abs(one["contribution_mean"].values))[:4]
    for i in order:
        low, high = ends.isel(feature=i).values
        say(
            f"  {one['feature'].values[i]:>22} = {float(one['value'][i]):<8.4g}"
            f"{float(one['contribution_mean'][i]):+8.1f}  [{low:+.1f}, {high:+.1f}]"
        )


def _figures(
    folder: Path,
    model: GPX,
    idata: Draws,
    explained: xr.Dataset,
    patients: np.ndarray,
    seed: int,
) -> Iterator[Path]:
    """Draw and save each figure; yields paths."""

    def keep(collection: Any, name: str) -> Path:
        path, figure = folder / name, collection.viz["figure"].item()
        with replaced(path) as file:
            figure.savefig(file, format="png", dpi=110)
        return path

    yield keep(plot_contributions(explained, obs=patients), "contributions.png")
    leading = abs(explained["contribution_mean"]).mean("obs")
    features = explained["feature"].values[np.argsort(-leading.values)[:3]].tolist()
    yield keep(plot_weights(_curves(model, idata, features, seed)), "weights.png")
    yield keep(az.plot_trace_dist(idata, compact=True), "trace.png")
    replicated = predictions(model, idata, num_draws=200, seed=seed, progressbar=False)
    checked = xr.DataTree.from_dict(
        {
            "posterior_predictive": replicated[["y"]],
            "observed_data": idata["observed_data"].to_dataset(),
        }
    )
    yield keep(az.plot_ppc_dist(checked, num_samples=50), "posterior_predictive.png")


def _curves(
    model: GPX, idata: Draws, features: Sequence[str], seed: int, points: int = 60
) -> xr.Dataset:
    """Weight functions g along each feature, the others at their mean."""
    X = model.training.X
    center = X.values.mean(axis=0)
    curves = []
    for feature in features:
        j = X.columns.index(feature)
        grid = np.tile(center, (points, 1))
        low, high = np.quantile(X.values[:, j], [0.01, 0.99])
        grid[:, j] = np.linspace(low, high, points)
        options: dict[str, Any] = {
            "smooth": True,
            "features": [feature],
            "num_draws": CURVE_DRAWS,
            "joint": True,
            "seed": seed,
        }
        curves.append(weights(model, idata, grid, progressbar=False, **options))
    return xr.concat(curves, dim="feature", join="outer")
