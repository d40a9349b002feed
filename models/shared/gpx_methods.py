"""The methods that Yoshikawa and Iwata compare, each in the settings of their appendix D.

    Y. Yoshikawa and T. Iwata, "Gaussian process regression with interpretable sample-wise feature
    weights", IEEE TNNLS 34 (2023) 5789-5803.

A method takes a `Split` and is fitted to its training rows. It predicts the test rows and explains
them by weights (m, p) and contributions (m, p). Hyperparameters of Gaussian processes maximize the
marginal likelihood. LIME, Kernel SHAP, lasso and ridge come from their authors' libraries;
`local_lasso` implements the network lasso and the localized lasso.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np
import pymc as pm
from scipy.spatial.distance import pdist
from sklearn.linear_model import LassoCV, RidgeCV
from sklearn.model_selection import KFold

import bayes_gpx as bx
import local_lasso
from gpx_means import MeanOfMixtures, PosteriorMean

NETWORK, SPARSITY, NEIGHBOURS = (1, 3, 5, 7), (0.01, 0.1, 1, 10), (5, 10, 15)
"""Grids of the localized lasso and the network lasso."""

RIDGE = (0.1, 1, 10)
BACKGROUND = 10
"""Number of k-means centers that represent the training rows in Kernel SHAP."""

DELTA = 1e-3
"""Step of the finite differences of KL, in standard deviations of a feature."""

SEVERAL_STARTS = {False: 2_000, True: 1_000}
"""Up to this many rows, the optimizer also uses the package's starting points, in addition to the
paper's: with one lengthscale, and with a lengthscale per feature."""

LEAST_NOISE, MOST_NOISE = 0.3, 3.0
"""Bounds for the noise's sd if the density has no bound."""

SOME, LONGEST = 1_000, 20.0
"""For more rows than `SEVERAL_STARTS`, a fit with ARD or with bounds on the noise starts at the
optimum of `SOME` rows. Its lengthscales are capped at `LONGEST`, because the density hardly depends
on longer ones and the optimizer would not return from there."""


class Rows(NamedTuple):
    """Inputs X (n, m), features Z (n, p) and response y (n,), all standardized."""

    X: np.ndarray
    Z: np.ndarray
    y: np.ndarray

    def of(self, which):
        X = self.X[which]
        return Rows(X, X if self.Z is self.X else self.Z[which], self.y[which])


@dataclass
class Split:
    """Training and test rows, with fits that several methods share.

    `embed` maps changed features Z (k, p) to inputs X (k, m), and returns the same array if X is Z.
    `chosen` contains known penalties by name of the method, which need no search.
    """

    train: Rows
    test: Rows
    embed: Callable = lambda Z: Z
    seed: int = 0
    chosen: dict = field(default_factory=dict)

    @cached_property
    def gp(self):
        """The GP with one lengthscale: model, idata, hyperparameters; seconds.

        If it was fitted before, it contains only hyperparameters and seconds.
        """
        return _timed(maximum_likelihood, "GP", self.train)

    @cached_property
    def gpx(self):
        """The GPX, in the same form as `gp`."""
        return _timed(maximum_likelihood, "GPX", self.train)

    @cached_property
    def ard_gp(self):
        return _timed(maximum_likelihood, "GP", self.train, ard=True)


class Explained(NamedTuple):
    """Predictions and explanations of the test rows by one method.

    `predict` maps Z (k, p) to predictions (k,), with X computed from Z. `weights` and
    `contributions` are (m, p), or None for methods that do not explain. Times are in seconds, and
    `notes` contains further numbers of the fit.
    """

    predict: Callable
    predicted: np.ndarray
    weights: np.ndarray | None
    contributions: np.ndarray | None
    training: float
    explaining: float
    notes: dict


def maximum_likelihood(family, rows, ard=False):
    """Model, idata, and hyperparameters with the highest marginal likelihood, on the scale of the
    rows.
    """
    weighed, local = family == "GPX", _local_maximum(family, rows)
    model, names = _unfitted(family, rows, ard), _names(family)
    start = {"amplitude": 1.0, "sigma": 2 * LEAST_NOISE if local else 0.1}
    start["lengthscale"] = _median_lengthscale(rows.X, ard)
    if weighed:
        start["sigma_w"] = 0.1
    if (ard or local) and len(rows.y) > SEVERAL_STARTS[ard]:
        some = np.random.default_rng(0).choice(len(rows.y), SOME, replace=False)
        *_, start = maximum_likelihood(family, rows.of(some), ard)
        start["lengthscale"] = np.minimum(start["lengthscale"], LONGEST)
    found, several = [], len(rows.y) <= SEVERAL_STARTS[ard] and not local
    for given in (start, None) if several else (start,):
        idata = model.fit("map", start=given, progressbar=False, jacobian=False)
        theta = {name: idata["posterior"][name].values[0, 0] for name in names}
        evidence = bx.log_likelihood(model, theta, progressbar=False)["log_marginal_likelihood"]
        found.append((evidence.item(), idata, theta))
    _, idata, theta = max(found, key=lambda one: one[0])
    return model, idata, theta


def _unfitted(family, rows, ard=False):
    """The model with flat priors, which leave the marginal likelihood unchanged."""
    priors = dict.fromkeys(_names(family), _flat)
    if _local_maximum(family, rows):
        priors["sigma"] = _noisy
    options = {"ard": ard, "scale": False, "priors": priors}
    if family == "GPX":
        return bx.GPX(rows.X, rows.y, None if rows.Z is rows.X else rows.Z, **options)
    return bx.GP(rows.X, rows.y, **options)


def _names(family):
    weighed = ["sigma_w"] if family == "GPX" else []
    return ["lengthscale", "amplitude", *weighed, "sigma"]


def _local_maximum(family, rows):
    """Whether to search for a maximum between bounds, because there is no global one."""
    return family == "GP" and unbounded(rows)


def repeated(rows):
    """Number of rows, and number of responses, for each group of rows with equal inputs."""
    _, group, size = np.unique(rows.X, axis=0, return_inverse=True, return_counts=True)
    responses = np.unique(np.column_stack([group.ravel(), rows.y]), axis=0)[:, 0]
    several = size > 1
    return size[several], np.bincount(responses.astype(int))[several]


def best_lengthscale(split, sigma, lengthscales):
    """Lengthscale, log marginal likelihood and error of a GP with fixed noise and an amplitude of
    1.
    """
    model, found = _unfitted("GP", split.train), []
    for lengthscale in lengthscales:
        theta = {"lengthscale": lengthscale, "amplitude": 1.0, "sigma": sigma}
        evidence = bx.log_likelihood(model, theta, progressbar=False)["log_marginal_likelihood"]
        found.append((evidence.item(), theta))
    evidence, theta = max(found, key=lambda one: one[0])
    error = np.mean((PosteriorMean(split.train, theta)(*split.test[:2]) - split.test.y) ** 2)
    return {
        "lengthscale": theta["lengthscale"],
        "log_marginal_likelihood": evidence,
        "error": error,
    }


def unbounded(rows):
    """Whether the density of a GP grows without bound as noise and lengthscale go to 0.

    It does if inputs repeat and each group of equal inputs has a single response.
    """
    _, responses = repeated(rows)
    return responses.size > 0 and responses.max() == 1


def _flat(name, dims=None):
    return pm.HalfFlat(name, dims=dims)


def _noisy(name, dims=None):
    return pm.Uniform(name, LEAST_NOISE, MOST_NOISE, dims=dims)


def _median_lengthscale(X, ard):
    """Lengthscale for the paper's exp(-d^2 / theta_2), with theta_2 the median squared distance."""
    some = X[:: max(1, len(X) // 2_000)]
    length = np.sqrt(np.median(pdist(some, "sqeuclidean")) / 2)
    return np.full(X.shape[1], length) if ard else length


def _timed(task, *arguments, **options):
    start = time.perf_counter()
    return task(*arguments, **options), time.perf_counter() - start


def _sizes(theta):
    return {name: float(np.exp(np.log(value).mean())) for name, value in theta.items()}


# The methods.


def gpx(split):
    train, test = split.train, split.test
    (model, _, theta), training = split.gpx
    own = None if train.Z is train.X else test.Z
    options = {"keep": "summary", "progressbar": False}
    if model is None:
        model = _unfitted("GPX", train)
    found, explaining = _timed(bx.weights, model, theta, test.X, own, **options)
    mean = PosteriorMean(train, theta)
    weights = found["weight_mean"].transpose("obs", "feature").values
    return Explained(
        lambda Z: mean(split.embed(Z), Z),
        mean(test.X, test.Z),
        weights,
        weights * test.Z,
        training,
        explaining,
        _sizes(theta),
    )


def gpr(split):
    return _plain(split, *split.gp)


def ard(split):
    (model, idata, theta), training = split.ard_gp
    relevance = np.tile(theta["lengthscale"] ** -2.0, (len(split.test.y), 1))
    found = _plain(split, (model, idata, theta), training)
    return found._replace(weights=relevance, contributions=relevance)


def kl(split):
    """Relevance of each row's features by finite differences, on the GP with ARD."""
    (model, idata, theta), training = split.ard_gp
    options = {"method": "finite_difference", "step": DELTA, "keep": "summary"}
    found, explaining = _timed(
        bx.relevance, model, idata, split.test.X, progressbar=False, **options
    )
    relevance = found["relevance_mean"].transpose("obs", "feature").values
    plain = _plain(split, (model, idata, theta), training)
    return plain._replace(weights=relevance, contributions=relevance, explaining=explaining)


def _plain(split, fitted, training):
    """A Gaussian process that predicts without explaining."""
    mean, test = PosteriorMean(split.train, fitted[2]), split.test
    predicted, predicting = _timed(mean, test.X, test.Z)
    return Explained(
        lambda Z: mean(split.embed(Z), Z),
        predicted,
        None,
        None,
        training,
        predicting,
        _sizes(fitted[2]),
    )


def lime(split):
    """Coefficients of "lies in the same quarter as this row", LIME's default for numbers."""
    from lime.lime_tabular import LimeTabularExplainer

    plain, train, test = gpr(split), split.train, split.test

    def explain():
        explainer = LimeTabularExplainer(train.Z, mode="regression", random_state=split.seed)
        found = np.zeros(test.Z.shape)
        for row, z in zip(found, test.Z, strict=True):
            told = explainer.explain_instance(z, plain.predict, num_features=len(z))
            which, size = zip(*told.local_exp[1], strict=True)
            row[list(which)] = size
        return found

    return _told(plain, *_timed(explain))


def kernel_shap(split):
    """SHAP values with the library's default number of coalitions."""
    import shap

    plain, mean = gpr(split), MeanOfMixtures(split.train, split.gp[0][2])

    def explain():
        background = shap.kmeans(split.train.Z, BACKGROUND)
        explainer = shap.KernelExplainer(
            lambda Z: mean(split.embed(Z), Z), background, seed=split.seed
        )
        return np.asarray(explainer.shap_values(split.test.Z, silent=True))

    return _told(plain, *_timed(explain))


def _told(plain, found, explaining):
    """Use a library's explanation for both weights and contributions."""
    return plain._replace(weights=found, contributions=found, explaining=explaining)


def lasso(split):
    """`LassoCV` with its defaults: 100 penalties down to a thousandth of the largest."""
    return _linear(LassoCV(), split)


def ridge(split):
    return _linear(RidgeCV(alphas=RIDGE), split)


def network(split):
    return _local(split, "Network", [0.0])


def localized(split):
    return _local(split, "Localized", SPARSITY)


METHODS = {
    "GPX": gpx,
    "GPR": gpr,
    "ARD": ard,
    "KL": kl,
    "LIME": lime,
    "SHAP": kernel_shap,
    "Lasso": lasso,
    "Ridge": ridge,
    "Network": network,
    "Localized": localized,
}


def _linear(estimator, split):
    estimator, training = _timed(estimator.fit, split.train.Z, split.train.y)
    weights = np.tile(estimator.coef_, (len(split.test.y), 1))
    predicted, explaining = _timed(estimator.predict, split.test.Z)
    contributions, notes = weights * split.test.Z, {"penalty": estimator.alpha_}
    return Explained(
        estimator.predict, predicted, weights, contributions, training, explaining, notes
    )


def _local(split, name, sparsities):
    """Explain test rows by weights computed from the weights of their nearest neighbors."""
    train, test = split.train, split.test
    chosen, searching = split.chosen.get(name), 0.0
    if chosen is None:
        chosen, searching = _timed(_penalties, train, sparsities)
    k, strength, sparsity = chosen

    def final():
        graph = local_lasso.neighbour_graph(train.X, k)
        return local_lasso.fit(train.Z, train.y, graph, strength, sparsity)

    fitted, training = _timed(final)

    def at(X):
        return local_lasso.weights_at(X, train.X, fitted.weights, k)

    weights, explaining = _timed(at, test.X)
    notes = {"neighbours": k, "network": strength, "sparsity": sparsity}
    notes |= {"kkt_residual": fitted.residual, "steps": fitted.steps, "searching": searching}
    return Explained(
        lambda Z: (at(split.embed(Z)) * Z).sum(axis=1),
        (weights * test.Z).sum(axis=1),
        weights,
        weights * test.Z,
        training,
        explaining,
        notes,
    )


def _penalties(train, sparsities):
    """Neighbors and penalties with the smallest error on a held-out fifth of the rows."""
    inner, held = next(KFold(5, shuffle=True, random_state=0).split(train.X))
    own, other, errors = train.of(inner), train.of(held), {}
    for k in NEIGHBOURS:
        graph, start = local_lasso.neighbour_graph(own.X, k), None
        for strength, sparsity in product(NETWORK, sparsities):
            start = local_lasso.fit(own.Z, own.y, graph, strength, sparsity, start).weights
            there = local_lasso.weights_at(other.X, own.X, start, k)
            error = np.mean(((there * other.Z).sum(axis=1) - other.y) ** 2)
            errors[k, strength, sparsity] = error
    return min(errors, key=errors.get)
