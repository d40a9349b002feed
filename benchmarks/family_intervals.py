"""Do 90% intervals of f, its slopes and its attributions hold the truth in 90% of cases?

For each family, 100 functions are drawn from the prior as sums of 2,000 random waves, with a
response at 25 rows each. The hyperparameters are held at the truth. Shares are over six rows of
each function; their standard error is some 2%. In censored rows y is only known to be above a
random bound.
"""

import csv
import sys
from pathlib import Path

import numpy as np
from scipy.special import expit

import bayes_gpx as bx
from bayes_gpx.likelihoods import named

RUNS, N, ROWS, WAVES, AMPLITUDE = 100, 25, 6, 2000, 1.2
KERNEL = {"lengthscale": [1.0, 1.0], "amplitude": AMPLITUDE}
QUIET = {"on": "latent", "keep": "summary", "progressbar": False}
FAMILIES = {
    ("bernoulli", "logit"): {},
    ("binomial", "logit"): {},
    ("ordinal", "logit"): {"cutpoint": np.array([-1.5, 0.0, 1.0])},
    ("ordinal", "probit"): {"cutpoint": np.array([-1.0, 0.0, 0.7])},
    ("poisson", None): {},
    ("negative_binomial", None): {"dispersion": 3.0},
    ("zero_inflated_poisson", None): {"inflation": 0.2},
    ("zero_inflated_negative_binomial", None): {"inflation": 0.2, "dispersion": 3.0},
    ("lognormal", None): {"sigma": 0.6},
    ("gamma", None): {"shape": 3.0},
    ("weibull", None): {"shape": 2.0},
    ("loglogistic", None): {"shape": 3.0},
    ("beta", None): {"precision": 10.0},
    ("student_t", None): {"sigma": 0.5, "nu": 4.0},
    ("asymmetric_laplace", None): {"sigma": 0.3},
    (bx.likelihoods.asymmetric_laplace(quantile=0.9), None): {"sigma": 0.1},
}
CENSORED = {("normal", None): {"sigma": 0.5}} | {
    family: theta
    for family, theta in FAMILIES.items()
    if family[0] != "bernoulli" and family[1] != "probit" and isinstance(family[0], str)
}
TABLE = Path(__file__).with_suffix(".csv")


class Function:
    """A function from the prior: its values, and its gradients."""

    def __init__(self, rng):
        self.waves, self.phases = rng.normal(size=(WAVES, 2)), rng.uniform(0, 2 * np.pi, WAVES)
        self.heights = AMPLITUDE * np.sqrt(2 / WAVES) * rng.normal(size=WAVES)

    def __call__(self, X):
        return np.cos(X @ self.waves.T + self.phases) @ self.heights

    def gradient(self, X):
        return -(np.sin(X @ self.waves.T + self.phases) * self.heights) @ self.waves

    def attributions(self, X):
        """From 0, by the midpoint rule."""
        steps = (np.arange(200) + 0.5) / 200
        return X * np.mean([self.gradient(step * X) for step in steps], axis=0)


def held(name, link, theta, rng, censored=False):
    """Shares of values, slopes and attributions in their intervals, and of censored rows."""
    likelihood, inside = named(name, link), []
    for _ in range(RUNS):
        X, function = rng.normal(size=(N, 2)), Function(rng)
        options, exposure = {}, None
        if name == "binomial":
            exposure = options["trials"] = rng.integers(1, 6, N)
        y = likelihood.draw(function(X), theta, rng, exposure)
        if name in ("bernoulli", "ordinal"):  # all categories must occur
            last = 1 + len(theta.get("cutpoint", [0.0]))
            y[:last] = np.where(len(np.unique(y)) < last, np.arange(last), y[:last])
        if censored:
            bound = bounds(name, likelihood, rng, exposure)
            if name == "ordinal":  # nor may a category be known by bounds alone
                bound[np.unique(y, return_index=True)[1]] = np.inf
            beyond = y > bound
            options["censoring"] = np.where(beyond, "right", "none")
            y = np.minimum(y, bound)
        model = bx.GP(X, y, likelihood=name, link=link, scale=False, **options)
        asked, rows = (model, KERNEL | theta), X[:ROWS]
        found = bx.predictions(*asked, rows, **QUIET)
        slopes = bx.derivatives(*asked, rows, **QUIET)
        shares = bx.attributions(*asked, rows, baseline=[0.0, 0.0], **QUIET)
        one = []
        for result, quantity, truth in (
            (found, "f", function(rows)),
            (slopes, "derivative", function.gradient(rows)),
            (shares, "attribution", function.attributions(rows)),
        ):
            low, high = np.moveaxis(result[f"{quantity}_interval"].values, -1, 0)
            one.append(((low < truth) & (truth < high)).mean())
        one.append(beyond.mean() if censored else 0.0)
        inside.append(one)
    return np.mean(inside, axis=0)


def bounds(name, likelihood, rng, trials):
    """A random bound of each row that some y are above."""
    if name == "ordinal":
        return 1.0 * rng.integers(0, likelihood.count - 1, N)
    if name == "binomial":
        return 1.0 * rng.integers(0, trials)
    drawn = rng.normal(0.3, 1.0, N)
    if name == "beta":
        return expit(drawn)
    if likelihood.scaled:
        return drawn
    return np.floor(np.exp(drawn)) if likelihood.discrete else np.exp(drawn)


def main():
    found, wanted = [], sys.argv[1:]
    cases = [(*case, False) for case in FAMILIES.items()]
    cases += [(*case, True) for case in CENSORED.items()]
    for (name, link), theta, censored in cases:
        if wanted and str(name) not in wanted:
            continue
        rng = np.random.default_rng(sum(map(ord, str(name))))
        shares = held(name, link, theta, rng, censored)
        row = {"likelihood": str(name), "link": link or ""}
        percent = (f"{100 * share:.1f}" for share in shares)
        row |= dict(zip(("f", "slopes", "attributions", "censored rows"), percent, strict=True))
        found.append(row)
        print(row, flush=True)
    if not wanted:
        with TABLE.open("w", newline="") as file:
            writer = csv.DictWriter(file, found[0])
            writer.writeheader()
            writer.writerows(found)


if __name__ == "__main__":
    main()
