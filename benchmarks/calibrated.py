"""Is what the package says with 90 % probability so in 90 % of cases? Simulations of models.

For each, 200 truths from the prior, a refit to each, and the ranks of hyperparameters, f, y,
slopes, attributions, weights, contributions, relevance and the log likelihood among 99 draws; see
`bayes_gpx.calibrate`. Runs are kept in a folder, so that the script goes on where it stopped; all
of them take hours. For each model the shares of truths in central 90 % intervals with p-values of
uniformity, and a figure.

    python benchmarks/calibrated.py [names of models] [--runs 200] [--out results/calibrated]
"""

import argparse
import warnings
from pathlib import Path

import arviz as az
import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import bayes_gpx as bx

ROWS = 30
CHAINS = {"draws": 200, "tune": 300, "chains": 2}
"""Of each refit by NUTS: 400 draws, of which 99 are ranked among."""
SHORT = CHAINS | {"tune": 250}
"""As many draws in fewer than 1000 steps, from where machine code would be compiled each time."""

rng = np.random.default_rng(21)
X = rng.normal(size=(ROWS, 2))
Z = rng.normal(size=(ROWS, 2))
NUMBERS = X[:, 0] + 0.3 * rng.normal(size=ROWS)
LABELS = (NUMBERS > 0).astype(int)
COUNTS = rng.poisson(np.exp(0.5 * X[:, 0]))

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
            warnings.simplefilter("ignore")  # of single refits
            found = bx.calibrate(
                build(), runs=given.runs, method=method, seed=1, path=given.out / name, **options
            )
        print(f"{name}: {found.attrs['summary']}", flush=True)
        ranks = found["prior_sbc"].to_dataset()
        shares = (abs(ranks - 0.5) < 0.45).mean()
        table = pd.DataFrame({"inside": shares.to_pandas()})
        if "uniformity" in found.children:
            table["p_holm"] = found["uniformity"]["p_holm"].to_series()
        table.to_csv(given.out / f"{name}.csv", index_label="quantity")
        print(table.round(3).to_string(), flush=True)
        az.plot_ecdf_pit(found, group="prior_sbc")
        plt.savefig(given.out / f"{name}.png", dpi=80, bbox_inches="tight")
        plt.close("all")


if __name__ == "__main__":
    main()
