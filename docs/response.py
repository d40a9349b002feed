"""Errors of Taylor expansion and of Laplace's approximation.

The script prints the tables of response_taylor.csv and response_laplace.csv. Importance sampling
from Laplace's approximation, with the joint density of y and the latent values f, is the reference
for its error.
"""

import numpy as np
from scipy.special import expit, gammaln

import bayes_gpx as bx

QUIET = {"progressbar": False}
DRAWS = 200_000
DISPERSION = 2.0


def world(rows, kind, amplitude=1.5, base=0.0):
    """Features, response and the covariance of f, drawn from the prior."""
    rng = np.random.default_rng(rows)
    X = rng.normal(size=(rows, 2))
    K = amplitude**2 * np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(-1))
    f = base + np.linalg.cholesky(K + 1e-9 * np.eye(rows)) @ rng.normal(size=rows)
    if kind == "bernoulli":
        return X, (rng.random(rows) < expit(f)).astype(int), K
    rate = np.exp(f)
    if kind == "negative_binomial":
        rate = rate * rng.gamma(DISPERSION, 1 / DISPERSION, size=rows)
    return X, rng.poisson(rate), K


def taylor():
    """Print the table of Taylor's error."""
    print("| likelihood | rows | amplitude | sd of f | largest attribution | missed by Taylor |")
    print("|---|---|---|---|---|---|")
    for kind in ("bernoulli", "poisson"):
        for rows, amplitude in ((400, 1.0), (100, 1.0), (100, 3.0), (20, 1.0), (20, 3.0)):
            X, y, _ = world(rows, kind, amplitude)
            model = bx.GP(X, y, likelihood=kind, scale=False)
            theta = {"lengthscale": [1.0, 1.0], "amplitude": amplitude}
            new = np.random.default_rng(1).normal(size=(30, 2))
            options = {"baseline": np.zeros(2), **QUIET}
            exact = bx.attributions(model, theta, new, draws=2, keep="summary", **options)
            expanded = bx.attributions(model, theta, new, method="taylor", **options)
            sd = bx.predictions(model, theta, new, on="latent", keep="summary", **QUIET)["f_sd"]
            largest = float(abs(exact["attribution_mean"]).max())
            error = float(abs(expanded["attribution_mean"] - exact["attribution_mean"]).max())
            print(
                f"| {kind} | {rows} | {amplitude:g} | {float(sd.mean()):.2f} | {largest:.2f} | "
                f"{error:.3f} ({error / largest:.0%}) |"
            )


def density(kind, y):
    """Log p(y | f) over the last axis of f, and the information about f."""
    if kind == "bernoulli":
        sign = 2 * y - 1
        return lambda f: -np.logaddexp(0, -sign * f), lambda f: expit(f) * expit(-f)
    constant = gammaln(y + 1)
    if kind == "poisson":
        return lambda f: y * f - np.exp(f) - constant, np.exp
    a = DISPERSION
    constant = constant + gammaln(a) - gammaln(y + a)
    log_odds = np.log(a)
    return (
        lambda f: y * f - (a + y) * np.logaddexp(f, log_odds) + a * log_odds - constant,
        lambda f: (a + y) * expit(f - log_odds) * expit(log_odds - f),
    )


def judged(kind, amplitude, base, rows=40):
    """Log marginal likelihood by both methods, errors of Laplace's mean and sd, effective draws."""
    X, y, K = world(rows, kind, amplitude, base)
    model = bx.GP(X, y, likelihood=kind, scale=False)
    theta = {"lengthscale": [1.0, 1.0], "amplitude": amplitude}
    theta |= {"dispersion": DISPERSION} if kind == "negative_binomial" else {}
    found = bx.predictions(model, theta, on="latent", keep="summary", **QUIET)
    evidence = bx.log_likelihood(model, theta, **QUIET)["log_marginal_likelihood"].item()
    mode, sd = found["f_mean"].values, found["f_sd"].values
    logp, information = density(kind, y)
    cov = K - K @ np.linalg.solve(K + np.diag(1 / information(mode)), K)
    root = np.linalg.cholesky(cov + 1e-10 * np.eye(rows))
    prior = np.linalg.cholesky(K + 1e-10 * np.eye(rows))
    white = np.random.default_rng(0).standard_normal((DRAWS, rows))
    f = mode + white @ root.T
    own = np.linalg.solve(prior, f.T)
    log_ratio = np.log(np.diag(root)).sum() - np.log(np.diag(prior)).sum()
    log_w = logp(f).sum(axis=1) - 0.5 * (own**2).sum(axis=0) + 0.5 * (white**2).sum(axis=1)
    log_w += log_ratio
    top = log_w.max()
    w = np.exp(log_w - top)
    true_evidence, effective = top + np.log(w.mean()), w.sum() ** 2 / (w**2).sum()
    w /= w.sum()
    mean = w @ f
    true_sd = np.sqrt(w @ (f - mean) ** 2)
    return evidence, true_evidence, (mode - mean) / true_sd, sd / true_sd, effective


def laplace():
    """Print the table of Laplace's bias."""
    print("\n| likelihood | amplitude | mean of f | log evidence, Laplace | true |", end="")
    print(" means off by, sd | at most | sds, ratio | effective draws |\n|" + "---|" * 9)
    for kind, amplitude, base in (
        ("bernoulli", 1.0, 0.0),
        ("bernoulli", 3.0, 0.0),
        ("poisson", 1.0, 0.0),
        ("poisson", 1.0, 2.0),
        ("negative_binomial", 1.0, 0.0),
        ("negative_binomial", 1.0, 2.0),
    ):
        own, true, off, ratio, effective = judged(kind, amplitude, base)
        print(
            f"| {kind} | {amplitude:g} | {base:g} | {own:.3f} | {true:.3f} | "
            f"{abs(off).mean():.2f} | {abs(off).max():.2f} | {ratio.min():.2f} – {ratio.max():.2f} "
            f"| {effective:.0f} of {DRAWS} |"
        )


if __name__ == "__main__":
    taylor()
    laplace()
