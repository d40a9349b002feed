"""Yoshikawa and Iwata: posteriors of a GPX, and sentences compared with the paper's own tables."""

import csv
from pathlib import Path

import numpy as np
from numpy.linalg import eigvalsh, inv

from evidence.case import Case, Claim, expquad, given

MODELS = Path(__file__).resolve().parents[2]
PUBLISHED = MODELS / "shared" / "published.csv"
"""Numbers of the paper's tables."""

OURS = MODELS / "papers" / "output" / "gpx_table1.csv"
"""Our errors on the diabetes data, next to the published ones."""

INTERPRETABLE = ("ARD", "Lasso", "Ridge", "Network", "Localized")
"""Methods with global or local weights, as listed in the paper's section on compared methods."""


def gpx():
    """All variables of a small GPX as a linear map of independent variables."""
    n, p, sw2, sy2 = 6, 3, 0.15, 0.07
    rng = np.random.default_rng(1)
    X, Z = rng.normal(size=(n + 1, 2)), rng.normal(size=(n + 1, p))
    K = np.linalg.cholesky(expquad(X, X) + 1e-12 * np.eye(n + 1))
    own = np.hstack(
        [np.kron(np.eye(p), K), np.sqrt(sw2) * np.eye(p * (n + 1)), np.zeros((p * (n + 1), n + 1))]
    )  # (weight l of sample i, latent variables), l-major
    rows = np.hstack([np.diag(Z[:, k]) for k in range(p)])
    noise = np.hstack([np.zeros((n + 1, 2 * p * (n + 1))), np.sqrt(sy2) * np.eye(n + 1)])
    everything = np.vstack([own, rows @ own + noise])
    cov = everything @ everything.T
    y = np.arange(p * (n + 1), (p + 1) * (n + 1))
    w = np.concatenate([np.arange(n) + k * (n + 1) for k in range(p)])
    return X, Z, sw2, sy2, cov, w, y[:n]


def weights():
    """Posterior of the training weights."""
    X, Z, sw2, sy2, cov, w, y = gpx()
    n, p = len(y), Z.shape[1]
    K = expquad(X[:n], X[:n])
    by = "conditioning the joint normal"
    Zbar = np.hstack([np.diag(Z[:n, k]) for k in range(p)])
    Kbar, ZZ = np.kron(np.eye(p), K), Zbar.T @ Zbar / sy2
    L = Kbar + sw2 * np.eye(n * p)
    posterior = given(cov, w, y)
    yield Case(
        "(29) to (32)",
        "smallest eigenvalue of the weights' precision",
        eigvalsh(inv(Kbar) - ZZ)[0],
        eigvalsh(inv(L) + ZZ)[0],
        1 / eigvalsh(posterior)[-1],
        by,
    )
    yield Case(
        "(29) to (32), sign mended",
        "variance of a training weight",
        inv(inv(Kbar) + ZZ)[0, 0],
        inv(inv(L) + ZZ)[0, 0],
        posterior[0, 0],
        by,
    )


def claims():
    """Sentences that the paper's tables or formulas contradict."""
    rng = np.random.default_rng(4)
    w, z = rng.normal(size=(2, 9, 3))
    score, similar = (largest_change(scale * w, z) for scale in (1.0, 0.5))
    yield Claim(
        "after (19)",
        "The score is high when the weights of neighbours are similar.",
        f"(19) for weights half as far apart: {similar / score:.3g} times the score",
        similar < score,
    )
    scores, errors = published("gpx_table3"), published("gpx_table1")
    higher = [[own[name] > own["GPX"] for own in scores.values()] for name in ("LIME", "SHAP")]
    yield Claim(
        "on Table 3",
        "The scores of LIME and SHAP are lower than GPX's.",
        f"Table 3: higher on {sum(higher[0])} (LIME) and {sum(higher[1])} (SHAP) of 8 data sets",
        all(map(all, higher)),
    )
    better = [
        f"{name} on {data} {own[name]:.3f}, GPX {own['GPX']:.3f}"
        for data, own in errors.items()
        for name in INTERPRETABLE
        if own[name] < own["GPX"]
    ]
    yield Claim(
        "on Table 1",
        "GPX has the lowest errors on all data sets.",
        "Table 1: " + "; ".join(better),
        bool(better),
    )
    with OURS.open() as file:
        rows = [row for row in csv.DictReader(file) if row["data"] == "diabetes"]
    pairs = [(row["method"], float(row["mean"])) for row in rows]
    linear = [
        (name, mean, errors["diabetes"][name]) for name, mean in pairs if name in ("Lasso", "Ridge")
    ]
    yield Claim(
        "appendix C",
        "The data are on the onset of diabetes.",
        "On its progression: "
        + "; ".join(f"{name} {mean:.3f}, published {own:.3f}" for name, mean, own in linear),
        all(abs(mean - own) < 0.001 for _, mean, own in linear),
    )


def largest_change(w, z):
    """Equation 19 averaged over samples, with all other samples as neighbors."""
    apart = [np.linalg.norm(a[:, None] - a, axis=2) for a in (w, z)]
    return np.nanmax(apart[0] / np.where(apart[1] > 0, apart[1], np.nan), axis=1).mean()


def published(table):
    """Means of one of the paper's tables, by data set and method."""
    found = {}
    with PUBLISHED.open() as file:
        for row in csv.DictReader(file):
            if row["table"] == table:
                found.setdefault(row["data"], {})[row["method"]] = float(row["mean"])
    return found
