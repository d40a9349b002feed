"""Classification models: fit, sampling and explanations of probabilities, compared with peers.

(a) MAP with Laplace's marginal likelihood on breast_cancer (455 training rows, 30 features),
compared with scikit-learn's GaussianProcessClassifier with as many starting points, including
predictions. (b) NUTS on the Laplace marginal against `pm.gp.Latent` with PyMC's defaults, on 200
rows. Both use nutpie; compilation and the search for the mode are timed separately. (c)
Attributions of the probability: 100 rows, 1000 draws, 30 features. (d) Predictions of held-out
classes.
"""

import sys
import time
import warnings
from functools import partial

import numpy as np
import pymc as pm
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.model_selection import train_test_split

import bayes_gpx as bx
from sampling import LENGTH, ours, peer, run

SEED = 0
QUIET = {"progressbar": False}
ROWS = 200
NAMES = ["lengthscale", "amplitude"]


def timed(task):
    """Result of the task, with wall-clock and CPU seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    found = task()
    return found, time.perf_counter() - wall, time.process_time() - cpu


def cancer():
    data = bx.datasets.load("breast_cancer")
    parts = train_test_split(data.X, data.y, test_size=114, random_state=SEED, stratify=data.y)
    X, X_test, y, y_test = parts
    mean, sd = X.mean(), X.std(ddof=0)
    return (X - mean) / sd, (X_test - mean) / sd, y, y_test


def scores(probability, y, labels):
    """Accuracy and mean log predictive density, given the probability of the second label."""
    right = np.where(y.values == labels[1], probability, 1 - probability)
    return (right > 0.5).mean(), np.log(right).mean()


def fits():
    X, X_test, y, y_test = cancer()
    print("| classifier | starts | seconds | CPU s | accuracy | log predictive density |")
    print("|---|---|---|---|---|---|")
    for ard, starts in ((False, 5), (True, 1)):
        model = bx.GP(X, y, likelihood="bernoulli", ard=ard, scale=False)
        length = np.full(X.shape[1] if ard else 1, np.sqrt(X.shape[1]))
        one = {"lengthscale": length if ard else length[0], "amplitude": 1.0}
        start = {"start": one} if starts == 1 else {}
        idata, wall, cpu = timed(lambda m=model, s=start: m.fit("map", **s, **QUIET))
        found = bx.predictions(model, idata, X_test, draws=2, keep="summary", **QUIET)
        own = scores(found["probability_mean"].values, y_test, found.attrs["labels"])
        kernel = ConstantKernel(1.0) * RBF(length)
        again = {"n_restarts_optimizer": starts - 1, "random_state": SEED}
        rival = GaussianProcessClassifier(kernel, **again)
        _, peer_wall, peer_cpu = timed(lambda p=rival: p.fit(X, y))
        others = scores(rival.predict_proba(X_test)[:, 1], y_test, rival.classes_)
        kind = "one for each feature" if ard else "one lengthscale"
        for name, w, c, (accuracy, density) in (
            ("bayes_gpx", wall, cpu, own),
            ("scikit-learn", peer_wall, peer_cpu, others),
        ):
            numbers = f"{w:.1f} | {c:.1f} | {accuracy:.3f} | {density:.4f}"
            print(f"| {name}, {kind} | {starts} | {numbers} |", flush=True)


SETS = {
    "breast_cancer": (10, 0.2, ("map", "laplace"), None),
    "iris": (10, 0.2, ("map", "laplace"), None),
    "digits": (5, 0.2, ("svgp",), bx.Inducing(300)),
    "mnist01": (1, None, ("svgp",), bx.Inducing(100)),
}
"""Splits, proportion of held-out rows, methods, approximation."""


def quality(name):
    """Accuracy and log predictive density next to scikit-learn's, with one lengthscale for all.

    With inducing points, both start at the same place for each label.
    """
    splits, test, methods, approximation = SETS[name]
    print("| data | rows | splits | hyperparameters | accuracy | more by | log density | more by |")
    print("|" + "---|" * 8)
    found = {}
    for seed in range(splits):
        X, X_test, y, y_test = _standardised(*_split(name, test, seed))
        kind = "bernoulli" if len(set(y)) == 2 else "categorical"
        for method in methods:
            options = {"ard": False, "scale": False, "approximation": approximation}
            model = bx.GP(X, y, likelihood=kind, **options)
            how = {"seed": seed} if method == "laplace" else {}
            if approximation is not None:
                how["start"] = {"lengthscale": np.sqrt(X.shape[1]), "amplitude": 1.0}
            idata = model.fit(method, **how, **QUIET)
            given = bx.predictions(
                model, idata, X_test, num_draws=100, draws=2, keep="summary", seed=0, **QUIET
            )
            found.setdefault(method, []).append(_scored(given, y_test))
        rival = GaussianProcessClassifier(ConstantKernel(1.0) * RBF(np.sqrt(X.shape[1])))
        p = rival.fit(X, y).predict_proba(X_test)
        right = p[np.arange(len(p)), np.searchsorted(rival.classes_, y_test)]
        hit = rival.classes_[p.argmax(axis=1)] == y_test
        found.setdefault("scikit-learn", []).append((hit, np.log(right)))
    theirs = [np.stack(of).astype(float) for of in zip(*found["scikit-learn"], strict=True)]
    for method, each in found.items():
        cells = []
        for of, other in zip(zip(*each, strict=True), theirs, strict=True):
            own = np.stack(of)
            # Standard errors are over rows for a single split, and over splits otherwise.
            spread = (own - other).mean(axis=1) if splits > 1 else (own - other)[0]
            more = f"{spread.mean():.4f} ± {spread.std(ddof=1) / np.sqrt(len(spread)):.4f}"
            cells += [f"{own.mean():.4f}", "" if method == "scikit-learn" else more]
        print(f"| {name} | {len(X)} | {splits} | {method} | {' | '.join(cells)} |", flush=True)


def _split(name, test, seed):
    data = bx.datasets.load(name)
    if test is None:
        other = bx.datasets.load(f"{name}_first")
        return data.X, other.X, data.y, other.y
    return train_test_split(data.X, data.y, test_size=test, random_state=seed, stratify=data.y)


def _standardised(X, X_test, y, y_test):
    """Columns divided by their own sd, and pixels by their common sd, because some never vary."""
    pixels = X.shape[1] > 60
    mean = X.mean()
    sd = X.values.std() if pixels else X.std(ddof=0)
    return (X - mean) / sd, (X_test - mean) / sd, y.values, y_test.values


def _scored(found, y):
    """For each row, whether the most probable label is right, and the log probability of the true
    label.
    """
    p = found["probability_mean"].values
    if p.ndim == 1:
        labels, p = found.attrs["labels"], np.stack([1 - p, p], axis=1)
    else:
        labels = [str(label) for label in found["class"].values]
    true = np.array([labels.index(str(label)) for label in y])
    return p.argmax(axis=1) == true, np.log(p[np.arange(len(p)), true])


def world(rows=ROWS):
    rng = np.random.default_rng(SEED)
    X = rng.normal(size=(rows, 2))
    f = 2.5 * np.sin(1.5 * X[:, 0]) + X[:, 1]
    return X, (f + rng.logistic(size=rows) > 0).astype(int)


def latent(X, y):
    """The model as a PyMC user would write it, with this package's priors."""
    with pm.Model() as model:
        lengthscale = pm.LogNormal("lengthscale", 0.5 * np.log(X.shape[1]) + 0.5, 1.0)
        amplitude = pm.HalfNormal("amplitude", 2.0)
        gp = pm.gp.Latent(cov_func=amplitude**2 * pm.gp.cov.ExpQuad(X.shape[1], ls=lengthscale))
        pm.Bernoulli("y", logit_p=gp.prior("f", X=X), observed=y)
    return model


def sampling():
    X, y = world()
    priors = {
        "lengthscale": lambda name: pm.LogNormal(name, 0.5 * np.log(2) + 0.5, 1.0),
        "amplitude": lambda name: pm.HalfNormal(name, 2.0),
    }
    model = bx.GP(X, y, likelihood="bernoulli", ard=False, scale=False, priors=priors)
    samplers = {
        "pm.gp.Latent": lambda: peer(latent(X, y)),
        "bayes_gpx": lambda: ours(model),
        "bayes_gpx, target_accept=0.8": lambda: ours(model, 0.8),
        "bayes_gpx, target_accept=0.8, tune=200": lambda: ours(model, 0.8, LENGTH | {"tune": 200}),
    }
    print("| sampler | wait, s | sampling, s | CPU s | steps | bulk ESS | ESS per CPU s |", end="")
    print(" R-hat | divergences | lengthscale | amplitude | times | sd apart |\n|" + "---|" * 13)
    slow = other = None
    for name, build in samplers.items():
        wait, task = build()
        one, posterior = run(task, SEED, NAMES)
        rate, mean = one.ess / one.cpu, posterior.mean()
        if slow is None:
            slow, other, sd = rate, mean, posterior.std()
        apart = max(float(abs(mean[n] - other[n]) / sd[n]) for n in NAMES)
        means = " | ".join(f"{float(mean[n]):.3f} ± {float(posterior[n].std()):.3f}" for n in NAMES)
        print(
            f"| {name} | {wait:.1f} | {one.seconds:.1f} | {one.cpu:.1f} | {one.steps:.1f} | "
            f"{one.ess:.0f} | {rate:.1f} | {one.r_hat:.3f} | {one.divergences} | {means} | "
            f"{rate / slow:.1f} | {apart:.2f} |",
            flush=True,
        )


def explanations():
    X, X_test, y, _ = cancer()
    model = bx.GP(X, y, likelihood="bernoulli", ard=False, scale=False)
    idata = model.fit("laplace", draws=1000, seed=SEED, **QUIET)
    found, wall, cpu = timed(
        lambda: bx.attributions(model, idata, X_test.iloc[:100], seed=SEED, **QUIET)
    )
    sizes = dict(found.sizes) | {"draw": found.sizes["chain"] * found.sizes["draw"]}
    missed = float(found["completeness_residual"].max())
    print(
        f"\n{sizes['obs']} rows x {sizes['draw']} draws x {sizes['feature']} features: {wall:.0f}"
        f" s, {cpu:.0f} CPU s; sums miss differences of probabilities by up to {missed:.0e}."
    )


PARTS = {"fits": fits, "sampling": sampling, "explanations": explanations}
PARTS |= {f"quality_{name}": partial(quality, name) for name in SETS}


def main():
    warnings.simplefilter("ignore")
    for name in sys.argv[1:] or PARTS:
        PARTS[name]()


if __name__ == "__main__":
    main()
