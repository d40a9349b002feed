"""Do 90% intervals contain the truth in 90% of cases? Simulation-based calibration of models.

For each model the script draws 200 truths from the prior and refits the model to each. It ranks
hyperparameters, f, y, slopes, attributions, weights, contributions, relevance and the log
likelihood among 99 draws; see `bayes_gpx.calibrate`. Runs are stored in a folder, so a stopped
script continues; all runs take hours. For each model the script prints the coverage of central 90%
intervals with p-values of uniformity, and draws a figure. The name of a likelihood stands for a GP
of 25 rows that is fitted by Laplace's approximation. With `_until` at its end, y are durations, and
the observation of each row ends at a given time.

    python benchmarks/calibrated.py [names of models] [--runs 200] [--out results/calibrated]
"""

import argparse
import csv
import functools
import warnings
from pathlib import Path

import arviz as az
import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import bayes_gpx as bx
from bayes_gpx.likelihoods import named

ROWS = 30
CHAINS = {"draws": 200, "tune": 300, "chains": 2}
"""NUTS settings of each refit: 400 draws, thinned to 99 for the ranks."""
SHORT = CHAINS | {"tune": 250}
"""As many draws in fewer than 1000 steps, because longer runs compile machine code each time."""

rng = np.random.default_rng(21)
X = rng.normal(size=(ROWS, 2))
Z = rng.normal(size=(ROWS, 2))
NUMBERS = X[:, 0] + 0.3 * rng.normal(size=ROWS)
LABELS = (NUMBERS > 0).astype(int)
COUNTS = rng.poisson(np.exp(0.5 * X[:, 0]))
FAMILIES = Path(__file__).with_name("calibrated_families.csv")
FEW = X[:25]
TRIALS = rng.integers(1, 6, 25)
TIMES = np.exp(rng.normal(0.5, 1.0, 25))
RESPONSES = {
    "poisson": {},
    "negative_binomial": {"dispersion": 3.0},
    "zero_inflated_poisson": {"inflation": 0.2},
    "zero_inflated_negative_binomial": {"inflation": 0.2, "dispersion": 3.0},
    "lognormal": {"sigma": 0.6},
    "gamma": {"shape": 3.0},
    "weibull": {"shape": 2.0},
    "loglogistic": {"shape": 3.0},
    "beta": {"precision": 10.0},
    "student_t": {"sigma": 0.5, "nu": 4.0},
    "asymmetric_laplace": {"sigma": 0.3},
}
"""Hyperparameters of the responses whose scale the models keep."""


def family(name):
    """A GP of 25 rows with this likelihood."""
    made, f, options = np.random.default_rng(1), FEW[:, 0], {}
    if name == "heteroscedastic_normal":
        y = f + np.exp(0.5 * FEW[:, 1] - 1.0) * made.normal(size=25)
        options["approximation"] = bx.Inducing(25)
    elif name == "ordinal":
        y = np.digitize(f + 0.5 * made.normal(size=25), [-0.7, 0.0, 0.7])
    elif name == "binomial":
        y, options = made.binomial(TRIALS, 1.0 / (1.0 + np.exp(-f))), {"trials": TRIALS}
    elif name == "bernoulli":
        y = (f + 0.5 * made.normal(size=25) > 0.0).astype(int)
    else:
        y = named(name).draw(f, RESPONSES[name], made, np.ones(25))
    return bx.GP(FEW, y, likelihood=name, **options)


MODELS = {
    "gpx_nuts": (lambda: bx.GPX(X, NUMBERS, Z), "nuts", CHAINS),
    "gpx_laplace": (lambda: bx.GPX(X, NUMBERS, Z), "laplace", {}),
    "inducing_nuts": (lambda: bx.GP(X, NUMBERS, approximation=bx.Inducing(8)), "nuts", SHORT),
    "bernoulli_latent": (
        lambda: bx.GP(X, LABELS, likelihood="bernoulli"),
        "nuts",
        SHORT | {"latent": "sample"},
    ),
    "bernoulli_marginal": (lambda: bx.GP(X, LABELS, likelihood="bernoulli"), "nuts", SHORT),
    "poisson_laplace": (lambda: bx.GP(X, COUNTS, likelihood="poisson"), "laplace", {}),
    "svgp": (
        lambda: bx.GP(X, LABELS, likelihood="bernoulli", approximation=bx.Inducing(8)),
        "svgp",
        {},
    ),
}

MODELS |= {
    name: (functools.partial(family, name), "laplace", {})
    for name in ("bernoulli", "binomial", "ordinal", *RESPONSES, "heteroscedastic_normal")
}
MODELS |= {
    f"{name}_until": (functools.partial(family, name), "laplace", {"censoring_times": TIMES})
    for name in ("lognormal", "weibull", "loglogistic")
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=[], metavar="model", help=", ".join(MODELS))
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Path("results/calibrated"))
    given = parser.parse_args()
    matplotlib.use("Agg")
    az.style.use("arviz-variat")
    az.rcParams["plot.max_subplots"] = 60
    for name in given.models or MODELS:
        build, method, options = MODELS[name]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings of single refits
            found = bx.calibrate(
                build(), runs=given.runs, method=method, seed=1, path=given.out / name, **options
            )
        print(f"{name}: {found.attrs['summary']}", flush=True)
        ranks = found["prior_sbc"].to_dataset()
        shares = (abs(ranks - 0.5) < 0.45).mean()
        table = pd.DataFrame({"inside": shares.to_pandas(), "rank": ranks.mean().to_pandas()})
        if "uniformity" in found.children:
            table["p_holm"] = found["uniformity"]["p_holm"].to_series()
        table.to_csv(given.out / f"{name}.csv", index_label="quantity")
        print(table.round(3).to_string(), flush=True)
        az.plot_ecdf_pit(found, group="prior_sbc")
        plt.savefig(given.out / f"{name}.png", dpi=80, bbox_inches="tight")
        plt.close("all")
    write_families(given.out)


def write_families(folder):
    """The table of likelihoods: of those whose runs are in the folder anew, of others as it is."""
    rows = {row["likelihood"]: row for row in csv.DictReader(FAMILIES.open())}
    for name, (build, *_) in MODELS.items():
        if not isinstance(build, functools.partial) or not (folder / f"{name}.csv").exists():
            continue
        found = pd.read_csv(folder / f"{name}.csv", index_col="quantity")
        known = {"f": "f", "y": "y", "slopes": "derivative", "attributions": "attribution"}
        others = found.index.difference([*known.values(), "relevance", "log_likelihood"])
        row = {title: found["inside"].get(own, np.nan) for title, own in known.items()}
        row["hyperparameters"] = found["inside"][others].mean()
        shares = {title: "" if np.isnan(v) else f"{100.0 * v:.1f}%" for title, v in row.items()}
        rows[name] = {"likelihood": name, **shares, "smallest p": f"{found['p_holm'].min():.2g}"}
    pd.DataFrame([rows[name] for name in MODELS if name in rows]).to_csv(FAMILIES, index=False)


if __name__ == "__main__":
    main()
