"""GPX on Digits (1437 images, 64 pixels) against GPyTorch and the paper's own algorithm.

The fit: the same model, priors and start, and the same optimiser (L-BFGS) on both sides, float64,
compilation apart. GPyTorch factorises exactly, as this package does.

The weights: Yoshikawa and Iwata's equations 16 to 18 for 360 test images, in blocks of n x n with
Woodbury's identity; without it, the same equations need a matrix of n d rows, shown for small n.
"""

import resource
import time

import gpytorch
import numpy as np
import pymc as pm
import torch
from scipy.optimize import minimize
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.model_selection import train_test_split

import bayes_gpx as bx
from bayes_gpx.density import Density, blas_threads
from bayes_gpx.inference import _ascend

NAMES = ("lengthscale", "amplitude", "sigma_w", "sigma")
PRIOR_SD = 10.0
SMALL = (10, 20, 40, 60)


def timed(task):
    start = time.perf_counter()
    result = task()
    return result, time.perf_counter() - start


def split():
    X, digit = load_digits(return_X_y=True)
    low, high = X.min(axis=1, keepdims=True), X.max(axis=1, keepdims=True)
    y = np.where(digit >= 5, 1.0, -1.0)
    return train_test_split((X - low) / (high - low), y, test_size=0.2, random_state=0)


class Weighed(gpytorch.kernels.Kernel):
    """Covariance of z'w(x) with z = x: equation 13 without the noise."""

    def __init__(self, start):
        super().__init__()
        self.logs = torch.nn.Parameter(torch.tensor([np.log(start[n]) for n in NAMES[:3]]))

    def forward(self, x, xs, diag=False, **params):
        lengthscale, amplitude, sigma_w = self.logs.exp()
        k = amplitude**2 * torch.exp(
            -0.5 * self.covar_dist(x, xs, square_dist=True) / lengthscale**2
        )
        return (k + sigma_w**2 * torch.eye(len(x))) * (x @ xs.T)


class Exact(gpytorch.models.ExactGP):
    """The GPX as a GPyTorch exact GP."""

    def __init__(self, X, y, start):
        likelihood = gpytorch.likelihoods.GaussianLikelihood(
            noise_constraint=gpytorch.constraints.Positive(torch.exp, torch.log)
        )
        likelihood.noise = start["sigma"] ** 2
        super().__init__(X, y, likelihood)
        self.mean_module, self.covar_module = gpytorch.means.ZeroMean(), Weighed(start)

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def fit_gpytorch(X, y, start):
    """L-BFGS on the log posterior; returns hyperparameters, log density, evaluations, seconds."""
    torch.set_default_dtype(torch.float64)
    model = Exact(torch.tensor(X), torch.tensor(y), start).train()
    evidence = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    parameters = [model.covar_module.logs, model.likelihood.raw_noise]

    def natural():
        return torch.cat([parameters[0].exp(), model.likelihood.noise.sqrt()])

    def objective(x):
        parameters[0].data = torch.tensor(x[:3])
        parameters[1].data = torch.tensor([[2.0 * x[3]]]).reshape(parameters[1].shape)
        model.zero_grad()
        loss = -len(y) * evidence(model(*model.train_inputs), model.train_targets)
        loss = loss + 0.5 * ((natural() / PRIOR_SD) ** 2).sum()
        loss.backward()
        slope = np.append(parameters[0].grad.numpy(), 2.0 * parameters[1].grad.numpy())
        return loss.item(), slope

    x0 = np.log([start[n] for n in NAMES])
    options = {"maxiter": 1000, "maxfun": 2000, "ftol": 1e-11, "gtol": 1e-4}
    with gpytorch.settings.max_cholesky_size(len(y) + 1):
        objective(x0)
        result, seconds = timed(
            lambda: minimize(objective, x0, jac=True, method="L-BFGS-B", options=options)
        )
    constant = 4 * np.log(np.sqrt(2 / np.pi) / PRIOR_SD)
    return np.exp(result.x), constant - result.fun, result.nfev, seconds


def fit_ours(model, start):
    """The same from `bx`: one start, compilation first."""
    with blas_threads(model.training.n):
        density, compiling = timed(lambda: Density(model._pymc, jacobian=False))
        point = density.unconstrain(start)
        _, first = timed(lambda: density.value_and_slope()(point))
        optimum, seconds = timed(lambda: _ascend(density, start))
    found = density.expand()(optimum.x)
    theta = {n: float(found[n]) for n in NAMES}
    return theta, optimum.log_density, optimum.evaluations, seconds, compiling + first


def blocks(theta, X, y, X_new, covariance):
    """Equations 16 to 18 in n x n blocks: mean and (co)variance of the weights at X_new."""
    lengthscale, amplitude, sigma_w, sigma = (theta[n] for n in NAMES)
    n, d = X.shape

    def k(a, b):
        return amplitude**2 * np.exp(
            -0.5 * euclidean_distances(a, b, squared=True) / lengthscale**2
        )

    prior = k(X, X) + sigma_w**2 * np.eye(n)
    inverse = np.linalg.inv(prior * (X @ X.T) + sigma**2 * np.eye(n))
    across = k(X, X_new)
    A = np.linalg.solve(prior, across)
    fresh = amplitude**2 + sigma_w**2 - (A * across).sum(axis=0)
    mean, cov = np.empty((len(X_new), d)), np.empty((len(X_new), d, d if covariance else 1))
    for a in range(d):
        left = (prior * X[:, a]) @ inverse
        mean[:, a] = A.T @ (left @ y)
        for b in range(a, d) if covariance else (a,):
            S = -(left * X[:, b]) @ prior
            if a == b:
                S += prior
            cov[:, a, b if covariance else 0] = ((A.T @ S) * A.T).sum(axis=1) + (a == b) * fresh
            if covariance:
                cov[:, b, a] = cov[:, a, b]
    return mean, cov


def whole(theta, X, y, X_new):
    """The same with a precision of n d rows, as equation 17 reads before Woodbury."""
    lengthscale, amplitude, sigma_w, sigma = (theta[n] for n in NAMES)
    n, d = X.shape
    k = amplitude**2 * np.exp(-0.5 * euclidean_distances(X, X, squared=True) / lengthscale**2)
    across = amplitude**2 * np.exp(
        -0.5 * euclidean_distances(X, X_new, squared=True) / lengthscale**2
    )
    prior = np.kron(np.eye(d), k + sigma_w**2 * np.eye(n))
    features = np.concatenate([np.diag(column) for column in X.T], axis=1)
    S = np.linalg.inv(np.linalg.inv(prior) + features.T @ features / sigma**2)
    A = np.kron(np.eye(d), np.linalg.solve(k + sigma_w**2 * np.eye(n), across).T)
    return (A @ (S @ (features.T @ y)) / sigma**2).reshape(d, -1).T


def main():
    X, X_test, y, y_test = split()
    priors = {name: lambda n: pm.HalfNormal(n, PRIOR_SD) for name in NAMES}
    model = bx.GPX(X, y, ard=False, scale=False, priors=priors)
    start = model.starts()[1]
    print("| fit, one start | seconds | evaluations | log density | compilation, s |")
    print("|---|---|---|---|---|")
    theta, density, evaluations, own, compiling = fit_ours(model, start)
    print(
        f"| bayes_gpx | {own:.1f} | {evaluations} | {density:.3f} | {compiling:.1f} |", flush=True
    )
    _, density, evaluations, peer = fit_gpytorch(X, y, start)
    print(f"| GPyTorch, exact | {peer:.1f} | {evaluations} | {density:.3f} | |", flush=True)
    print(f"\nFit: {peer / own:.1f} times faster than GPyTorch.\n")

    quiet = {"keep": "summary", "progressbar": False}
    print("| weights of 360 images | seconds | times slower |")
    print("|---|---|---|")
    for text, covariance in (("sd", False), ("covariance between all features", True)):
        found, own = timed(
            lambda c=covariance: bx.weights(model, theta, X_test, covariance=c, **quiet)
        )
        (mean, cov), peer = timed(lambda c=covariance: blocks(theta, X, y, X_test, c))
        sd = np.sqrt(np.diagonal(cov, axis1=1, axis2=2) if covariance else cov[..., 0])
        np.testing.assert_allclose(found["weight_mean"], mean, atol=1e-6)
        np.testing.assert_allclose(found["weight_sd"], sd, rtol=1e-4)
        print(f"| bayes_gpx, {text} | {own:.2f} | 1 |")
        print(
            f"| equations 16 to 18 in blocks, {text} | {peer:.1f} | {peer / own:.0f} |", flush=True
        )

    print(
        "\n| images to learn from | bayes_gpx, s | equation 17 with n d rows, s | means differ by |"
    )
    print("|---|---|---|---|")
    for n in SMALL:
        small = bx.GPX(X[:n], y[:n], ard=False, scale=False, priors=priors)
        found, own = timed(lambda s=small: bx.weights(s, theta, X_test, **quiet))
        mean, peer = timed(lambda n=n: whole(theta, X[:n], y[:n], X_test))
        apart = np.abs(found["weight_mean"].values - mean).max()
        print(f"| {n} | {own:.2f} | {peer:.2f} | {apart:.0e} |", flush=True)

    default = bx.GPX(X, y, ard=False, scale=False)
    idata, seconds = timed(lambda: default.fit("map", progressbar=False))
    error = bx.predictions(default, idata, X_test, **quiet)["f_mean"].values - y_test
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"\nDefault priors, five starts: {seconds:.1f} s, test MSE {np.mean(error**2):.3f}.")
    print(f"Peak memory of this process, peers included: {peak:.2f} GB.")


if __name__ == "__main__":
    main()
