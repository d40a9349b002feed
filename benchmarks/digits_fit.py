"""GPX on Digits (1437 images, 64 pixels): the fit, compared with the same model in GPyTorch.

Both sides use the same model, priors, starting point and optimizer (L-BFGS) in float64, without
compilation time. GPyTorch is set to factorize exactly, as this package does.
"""

import gpytorch
import numpy as np
import pymc as pm
import torch
from scipy.optimize import minimize

import bayes_gpx as bx
from bayes_gpx.inference.log_density import Density
from bayes_gpx.inference.optimise import ascend
from bayes_gpx.numerics.threads import blas_threads
from digits_weights import NAMES, split, timed

PRIOR_SD = 10.0


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
    """L-BFGS on the log posterior; returns log density, evaluations, seconds."""
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
    return constant - result.fun, result.nfev, seconds


def fit_ours(model, start):
    """The fit of `bx` in the same form: one starting point, compilation first."""
    with blas_threads(model.training.n):
        density, compiling = timed(lambda: Density(model.objective, jacobian=False))
        point = density.unconstrain(start)
        _, first = timed(lambda: density.value_and_slope()(point))
        optimum, seconds = timed(lambda: ascend(density, start))
    return optimum.log_density, optimum.evaluations, seconds, compiling + first


def main():
    X, _, y, _ = split()
    priors = {name: lambda n: pm.HalfNormal(n, PRIOR_SD) for name in NAMES}
    model = bx.GPX(X, y, ard=False, scale=False, priors=priors)
    start = model.starts()[1]
    print("| fit, one start | seconds | evaluations | log density | compilation, s |")
    print("|---|---|---|---|---|")
    density, evaluations, own, compiling = fit_ours(model, start)
    print(
        f"| bayes_gpx | {own:.1f} | {evaluations} | {density:.3f} | {compiling:.1f} |", flush=True
    )
    density, evaluations, peer = fit_gpytorch(X, y, start)
    print(f"| GPyTorch | {peer:.1f} | {evaluations} | {density:.3f} | |")
    print(f"\n{peer / own:.1f} times faster than GPyTorch.")


if __name__ == "__main__":
    main()
