"""Arguments, one-line errors and result folders, shared by the example scripts."""

import argparse
import tempfile
import warnings
from pathlib import Path

import arviz as az
import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import xarray as xr
from scipy.stats import norm

import bayes_gpx as bx

LEVEL = 0.9
LEVELS = np.linspace(0.05, 0.95, 19).round(2)
TAILS = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
MARKERS = "osD^vP"


class Run:
    """One run of a script: its data, its fit, and its result folder.

    Wrong arguments are rejected here, before any computation. `description` is the text of
    ``--help``. With `arguments` None, the command line is used. A script with `data` None simulates
    its own data and has no ``--data``. `method` and `draws` are the defaults of their options, and
    `quick` adds ``--quick``.
    """

    def __init__(self, name, description, arguments, *, data, method, draws=1000, quick=False):
        parser = _Parser(
            prog=f"{name}.py",
            description=description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if data is not None:
            parser.add_argument(
                "--data",
                help=f"folder of the data sets (default: ${bx.datasets.FOLDER_VARIABLE}); not "
                "needed for data that scikit-learn brings or fetches",
            )
        parser.add_argument(
            "--method",
            choices=("map", "laplace", "nuts", *(["svgp"] if method == "svgp" else [])),
            default=method,
            help="how the hyperparameters are inferred (default: %(default)s)",
        )
        parser.add_argument(
            "--draws",
            type=_whole(range(1, 1_000_001)),
            default=draws,
            help="of nuts, in each of 4 chains, after as many for tuning; of laplace, in all; map "
            "and svgp have one (default: %(default)s)",
        )
        parser.add_argument(
            "--seed",
            type=_whole(range(2**32)),
            default=0,
            help="random seed (default: %(default)s)",
        )
        parser.add_argument(
            "--out",
            type=Path,
            default=Path("results", name),
            help="folder for the results, made if absent (default: %(default)s)",
        )
        if quick:
            parser.add_argument("--quick", action="store_true", help="few and small simulations")
        given = parser.parse_args(arguments)
        self.method, self.draws, self.seed = given.method, given.draws, given.seed
        self.quick = quick and given.quick
        self._out, self._parser = given.out, parser
        self._folder = given.data if data is not None else None
        self.data = None if data is None else self.second(data)
        try:
            self._out.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=self._out).close()
        except OSError as unusable:
            parser.error(f"argument --out: cannot write to {self._out}: {unusable.strerror}")
        matplotlib.use("Agg")
        az.style.use("arviz-variat")
        plt.rcParams["text.parse_math"] = False  # units contain dollar signs

    def second(self, name):
        """Load another data set, or exit with a one-line error."""
        try:
            return bx.datasets.load(name, path=self._folder)
        except (ImportError, OSError, ValueError) as unusable:
            self._parser.error(f"argument --data: {unusable}")

    def fit(self, model, *, suffix="", method=None, **options):
        """Fit the model; write `fit.nc`, and the hyperparameters as `summary.csv`.

        `suffix` distinguishes the files of a second model. `method` overrides the method of the
        run, and `options`, such as `start`, are passed to ``model.fit``.
        """
        method = method or self.method
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", bx.ConvergenceWarning)
            idata = model.fit(method, draws=self.draws, tune=self.draws, seed=self.seed, **options)
        path = self._path(f"fit{suffix}.nc")
        bx.save(model, idata, path)
        names = [rv.name for rv in model.variables.values()]
        if method in ("map", "svgp"):
            mean = az.summary(idata, names, kind="stats", round_to="none")[["mean"]]
            exact = shown = mean.rename(columns={"mean": "mode"})
        else:
            exact = az.summary(idata, names, ci_prob=LEVEL, round_to="none")
            exact = exact.dropna(axis=1, how="all")
            shown = az.summary(idata, names, ci_prob=LEVEL)[exact.columns]
        exact.to_csv(self._path(f"summary{suffix}.csv"), index_label="hyperparameter")
        print("\nHyperparameters, on the model's scale:")
        print(shown.to_string())
        for warning in caught:
            print(warning.message)
        if not caught and method == "nuts":
            print(idata.attrs["convergence_summary"])
        return idata

    def score(self, predicted, y):
        """Compare predictions with observations; print the scores, and write `scores.csv`."""
        error = predicted["y_mean"].values - y.values
        mse = np.mean(error**2)
        scores = pd.Series(
            {
                "mse": mse,
                "rmse": np.sqrt(mse),
                "r2": 1 - mse / y.var(ddof=0),
                f"coverage_{100 * LEVEL:.0f}": bx.metrics.coverage(predicted, y, LEVEL).item(),
            },
            name="value",
        )
        scores.to_csv(self._path("scores.csv"), index_label="score")
        print(f"\nOn {len(y)} held-out rows; coverage is that of {LEVEL:.0%} intervals:")
        print(scores.round(4).to_string())

    def figure(self, figure, name):
        """Write a figure of matplotlib or ArviZ as `name`.png."""
        figure.savefig(self._path(f"{name}.png"), dpi=120)
        plt.close("all")

    def table(self, frame, name):
        """Write the numbers of a figure as `name`.csv, one row per mark."""
        frame.to_csv(self._path(f"{name}.csv"), index=False)

    def _path(self, name):
        path = self._out / name
        print(f"writing {path}", flush=True)
        return path


def z_scores(table):
    """Center and scale columns by their sd with n - 1 over all rows, as the papers do."""
    return (table - table.mean()) / table.std()


def plot_coverage(covered, rows, what):
    """Plot the coverage of central intervals on held-out responses by level and model."""
    figure, axes = plt.subplots(figsize=(6, 6), layout="constrained")
    spread = 2 * np.sqrt(LEVELS * (1 - LEVELS) / rows)
    axes.fill_between(LEVELS, LEVELS - spread, LEVELS + spread, color="gray", alpha=0.2)
    axes.plot(LEVELS, LEVELS, color="gray", label=f"exact, ± 2 sd of {rows} {what}")
    for name, inside in covered.items():
        axes.plot(LEVELS, inside, "o-", label=name)
    axes.set(xlabel="probability of the interval", ylabel=f"share of {what} inside")
    axes.set_title("Coverage of central intervals")
    axes.legend()
    return figure


def intervals(draws):
    """Lower and upper ends of central intervals, over chains and draws."""
    return draws.quantile(TAILS, dim=("chain", "draw")).values


def summed(*given, **options):
    """Attributions by a paper's quadrature, without the warning about its error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bx.CompletenessWarning)
        return bx.attributions(*given, **options)


def classified(predicted, y):
    """Accuracy and mean log predictive density of class labels y, as a table."""
    probability, labels = predicted["probability_mean"], predicted.attrs["labels"]
    if "class" not in probability.dims:
        probability = xr.concat([1 - probability, probability], "class")
    own = [labels.index(str(label)) for label in y]
    right = probability.transpose("obs", "class").values[np.arange(len(y)), own]
    best = probability.transpose("obs", "class").values.argmax(axis=1)
    scores = {"accuracy": (best == own).mean(), "log_predictive_density": np.log(right).mean()}
    return pd.Series(scores, name="value").rename_axis("score").reset_index()


def attribution_table(found, **labels):
    """Attributions in long form: mean, sd and interval for each observation and feature.

    Without draws, the posterior is a single normal distribution and the interval is exact. `labels`
    add constant columns.
    """
    mean, sd = found["attribution_mean"], found["attribution_sd"]
    if "attribution" in found:
        low, high = intervals(found["attribution"])
    else:
        low, high = (mean.values + norm.ppf(tail) * sd.values for tail in TAILS)
    columns = {"mean": mean, "sd": sd, "low": mean.copy(data=low), "high": mean.copy(data=high)}
    table = xr.Dataset(columns).reset_coords(drop=True).to_dataframe().reset_index()
    return table.assign(**labels)


def draw_intervals(panel, table, by):
    """Draw means and intervals of features from top to bottom, by the values of a column."""
    features = table["feature"].unique()
    place = pd.Series(np.arange(len(features)), features)
    groups = list(table.groupby(by, sort=False))
    for k, (label, part) in enumerate(groups):
        at = place[part["feature"]].values + 0.7 * ((k + 0.5) / len(groups) - 0.5)
        panel.hlines(at, part["low"], part["high"], color=f"C{k}")
        panel.plot(part["mean"], at, MARKERS[k], color=f"C{k}", markersize=5, label=label)
    panel.axvline(0, color="gray", linewidth=1)
    panel.set_yticks(place.values, features)
    panel.set_ylim(len(features) - 0.5, -0.5)


def plot_predictions(predicted, y):
    """Plot observations against predictions with intervals."""
    return bx.plot_predictions(predicted, y, ci_prob=LEVEL)


class _Parser(argparse.ArgumentParser):
    """Report errors in one line."""

    def error(self, message):
        self.exit(2, f"{self.prog}: {message}\n")


def _whole(allowed):
    """Argument type: a whole number in a range."""

    def read(text):
        if not text.isdecimal() or int(text) not in allowed:
            raise argparse.ArgumentTypeError(
                f"{text!r}; expected a whole number from {allowed[0]} to {allowed[-1]}"
            )
        return int(text)

    return read
