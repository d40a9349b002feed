"""How many signs can expectation propagation handle, and what does sampling cost instead?

The script uses slopes of a squared exponential process at evenly spaced points, all constrained to
be positive (with the noise that softens a sign). For each number of points it prints the error of
the slopes' sds relative to rejection sampling, by expectation propagation and by the Hamiltonian
walk of `fit(truncated="sample")`. It draws ``docs/_static/truncated.png``, with slopes of a dose
response in a second panel. It takes about 5 minutes on one core.
"""

import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import bayes_gpx as bx
from bayes_gpx.numerics.truncated_normal import truncated_normal
from bayes_gpx.posteriors.evidence.intervals import interval_sites

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "_static" / "truncated.png"
POINTS, LENGTHSCALES = (2, 5, 10, 20, 40), (0.3, 0.5)
STRENGTH, WALKS, DRAWS, BATCH = 0.01, 4000, 4_000_000, 200_000


def slopes(k, lengthscale):
    """Covariance of k noisy slopes on [0, 1]; the lengthscale is relative to the range."""
    apart = np.subtract.outer(*[np.linspace(0, 1, k) / lengthscale] * 2)
    return np.exp(-0.5 * apart**2) * (1 - apart**2) + STRENGTH**2 * np.eye(k)


def rejected(cov, rng):
    """Positive draws out of `DRAWS`, or out of fewer once 50,000 are kept."""
    root, kept = np.linalg.cholesky(cov), []
    for _ in range(DRAWS // BATCH):
        drawn = rng.standard_normal((BATCH, len(cov))) @ root.T
        kept.append(drawn[(drawn > 0).all(axis=1)])
        if sum(map(len, kept)) > 50_000:
            break
    return np.concatenate(kept)


def errors(k, lengthscale, rng):
    """Relative errors of sds by both methods, Monte Carlo error, time of the walks."""
    cov, zero, above = slopes(k, lengthscale), np.zeros(k), np.full(k, np.inf)
    kept = rejected(cov, rng)
    mean, variance, _ = interval_sites(cov, np.zeros(0), zero, above)
    gain = np.linalg.solve(cov + np.diag(variance), cov).T
    by_sites = np.sqrt(np.diag(cov - gain @ cov))
    begun, many = time.perf_counter(), (WALKS, k, k)
    walked = truncated_normal(np.zeros((WALKS, k)), np.broadcast_to(cov, many), zero, above, rng)
    seconds, sd = time.perf_counter() - begun, kept.std(axis=0)
    kurtosis = ((kept - kept.mean(axis=0)) ** 4).mean(axis=0) / sd**4
    noise = np.sqrt((kurtosis - 1) / 4 * (1 / len(kept) + 1 / WALKS)).mean()
    own, other = 100 * (by_sites / sd - 1), 100 * (walked.std(axis=0) / sd - 1)
    shift = (gain @ mean - kept.mean(axis=0)) / sd
    return {
        "points": k,
        "lengthscale": lengthscale,
        "kept": len(kept),
        "ep_sd_from_%": own.min(),
        "ep_sd_to_%": own.max(),
        "ep_mean_sds": np.abs(shift).max(),
        "walk_sd_mean_%": other.mean(),
        "walk_sd_largest_%": np.abs(other).max(),
        "monte_carlo_%": 100 * noise,
        "walk_ms": 1000 * seconds / WALKS,
    }


def dose_response():
    """Slopes along the dose from 12 rows, without constraints and with 40 signs by both methods."""
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"dose": rng.uniform(0, 10, 12)})
    y = (10 * X["dose"] / (2.5 + X["dose"]) + rng.normal(0, 1.5, 12)).rename("effect")
    new = pd.DataFrame({"dose": np.linspace(*X["dose"].agg(["min", "max"]), 60)})
    rising = bx.GP(X, y, constraints=[bx.constraints.Increasing("dose", at=40)])
    options = {"draws": 500, "seed": 1, "progressbar": False}
    fits = {
        "without": (plain := bx.GP(X, y), plain.fit("map", **options)),
        "expectation propagation": (rising, rising.fit("map", **options)),
        "samples": (rising, rising.fit("map", truncated="sample", **options)),
    }
    found = {
        name: bx.derivatives(*fit, new, ci_prob=0.9, keep="summary", progressbar=False)
        for name, fit in fits.items()
    }
    return new["dose"], {name: own.sel(feature="dose") for name, own in found.items()}


def plot(table):
    """Plot errors of sds against the number of points, and the slopes of a dose response."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for color, (lengthscale, own) in enumerate(table.groupby("lengthscale")):
        style = {"color": f"C{color}", "marker": "o"}
        label = f"lengthscale {lengthscale} of the range"
        left.plot(own["points"], own["ep_sd_from_%"], label=f"EP, {label}", **style)
        left.plot(own["points"], own["walk_sd_mean_%"], "--", label=f"samples, {label}", **style)
    left.axhline(0, color="gray", linewidth=1)
    left.set(xlabel="points with a sign", ylabel="error of a slope's sd, %", title="Too narrow")
    left.legend(fontsize=8)
    dose, found = dose_response()
    for color, (name, slopes) in enumerate(found.items()):
        low, high = slopes["derivative_interval"].values.T
        right.plot(dose, slopes["derivative_mean"], color=f"C{color + 2}", label=name)
        right.fill_between(dose, low, high, color=f"C{color + 2}", alpha=0.2)
    right.plot(dose, 25.0 / (2.5 + dose) ** 2, "k:", label="truth")
    right.axhline(0, color="gray", linewidth=1)
    title = "Rising at 40 points: slopes with 90 % intervals"
    right.set(xlabel="dose", ylabel="slope of the effect", title=title)
    right.legend(fontsize=8)
    return figure


if __name__ == "__main__":
    rng = np.random.default_rng(1)
    table = pd.DataFrame([errors(k, own, rng) for own in LENGTHSCALES for k in POINTS])
    print(table.round(2).to_string(index=False))
    plot(table).savefig(PICTURE, dpi=90, metadata={"Software": None})
