"""Explain very many rows, streamed to a store: rows per second, compared with other libraries.

All methods use one set of hyperparameters, three features and 10,000 training rows. Ours computes
the mean, the sd and one draw of each number, in chunks shared by two threads, and writes them to a
store. The others keep their numbers in memory.

GPyTorch uses the same inducing points and hyperparameters. Its derivatives are PyTorch's
derivatives of the posterior mean. Its attributions are captum's integrated gradients, with enough
steps to add up to the difference of the means within 1e-3. Its sd covers only the low-rank part.
gpboost predicts by Vecchia's approximation, with its default number of neighbors and with enough
neighbors to bring its error near ours. Each case runs in its own process. `python
benchmarks/explaining_rows.py 50000` explains fewer rows than a million.
"""

import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

LEARNT, FEATURES, POINTS, PEER_ROWS, BATCH = 10_000, 3, 200, 20_000, 1000
THETA = {"lengthscale": np.array([0.8, 0.9, 1.2]), "amplitude": 1.0, "sigma": 0.3}
NEIGHBOURS = (40, 200, 400)
GOAL = 1e-3
"""Largest gap in the sum of captum's attributions, relative to the largest of them."""


def simulated(n, seed, reach=2.0):
    X = np.random.default_rng(seed).uniform(-reach, reach, (n, FEATURES))
    return X, np.sin(2.0 * X[:, 0]) * np.cos(X[:, 1]) + 0.3 * X[:, 2] ** 2


def learnt():
    X, f = simulated(LEARNT, seed=0)
    return X, f + 0.3 * np.random.default_rng(1).normal(size=LEARNT)


def points():
    return simulated(POINTS, seed=2)[0]


def approximations():
    import bayes_gpx as bx

    return {
        "HSGP": bx.HSGP(8),
        "RandomFeatures": bx.RandomFeatures(512),
        "Inducing": bx.Inducing(points()),
    }


def ours(rows, name):
    import bayes_gpx as bx

    model = bx.GP(*learnt(), approximation=approximations()[name], scale=False)
    X, f = simulated(rows, seed=3, reach=1.9)
    verbs = {
        "predictions": (bx.predictions, "f"),
        "derivatives": (bx.derivatives, "derivative"),
        "attributions": (bx.attributions, "attribution"),
    }
    error = ""
    for what, (verb, quantity) in verbs.items():
        options = {"draws": 1, "seed": 0, "progressbar": False}
        options |= {"baseline": "zero"} if what == "attributions" else {}
        verb(model, THETA, X[:10], **options)
        with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as executor:
            begun = time.perf_counter()
            options |= {"path": Path(folder) / "store.zarr", "executor": executor}
            found = verb(model, THETA, X, **options)
            seconds = time.perf_counter() - begun
            if what == "predictions":
                error = f"{np.sqrt(np.mean((found[f'{quantity}_mean'].values - f) ** 2)):.4f}"
        line = f"{what} | bayes_gpx, {name} | mean, sd, a draw | {rows} | {rows / seconds:.0f}"
        print(f"| {line} | {error if what == 'predictions' else ''} |", flush=True)


def gpytorch(rows):
    import gpytorch
    import torch
    from captum.attr import IntegratedGradients

    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(2)
    X, y = (torch.tensor(v) for v in learnt())

    class Sparse(gpytorch.models.ExactGP):
        def __init__(self, likelihood):
            super().__init__(X, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.mean_module.constant = y.mean().item()
            kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=FEATURES))
            kernel.outputscale = THETA["amplitude"] ** 2
            kernel.base_kernel.lengthscale = torch.tensor(THETA["lengthscale"])
            self.covar_module = gpytorch.kernels.InducingPointKernel(
                kernel, torch.tensor(points()), likelihood
            )

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(x), self.covar_module(x)
            )

    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    likelihood.noise = THETA["sigma"] ** 2
    peer = Sparse(likelihood).eval()
    # With the correction its mean is FITC's; without, it is Titsias's, like ours.
    gpytorch.settings.sgpr_diagonal_correction._set_state(False)
    for parameter in peer.parameters():
        parameter.requires_grad_(False)
    new, f = simulated(rows, seed=3, reach=1.9)
    batches = torch.tensor(new).split(BATCH)

    def mean(x):
        return peer(x).mean

    def predicted(x):
        found = peer(x)
        return torch.stack([found.mean, found.variance.sqrt()], dim=-1)

    def slopes(x):
        x = x.clone().requires_grad_(True)
        return torch.autograd.grad(mean(x).sum(), x)[0]

    explainer, zero, steps, error = IntegratedGradients(mean), torch.zeros(1, FEATURES), 2, np.inf
    chosen = {"method": "gausslegendre", "internal_batch_size": BATCH}
    few = batches[0][:100]
    while error > GOAL:
        steps *= 2
        found = explainer.attribute(few, zero, n_steps=steps, **chosen)
        gap = found.sum(-1) - (mean(few) - mean(zero)).detach()
        error = float(gap.abs().max() / found.abs().max())

    def attributed(x):
        return explainer.attribute(x, zero, n_steps=steps, **chosen)

    tasks = {
        "predictions": (predicted, "GPyTorch, inducing points", "mean, sd"),
        "derivatives": (slopes, "GPyTorch, autograd", "mean"),
        "attributions": (attributed, f"captum on GPyTorch, {steps} Gauss-Legendre steps", "mean"),
    }
    for what, (task, name, gives) in tasks.items():
        task(batches[0])
        begun = time.perf_counter()
        found = torch.cat([task(x) for x in batches]).detach().numpy()
        seconds = time.perf_counter() - begun
        error = f"{np.sqrt(np.mean((found[:, 0] - f) ** 2)):.4f}" if what == "predictions" else ""
        print(
            f"| {what} | {name} | {gives} | {rows} | {rows / seconds:.0f} | {error} |", flush=True
        )


def gpboost(rows):
    import gpboost as gpb

    X, y = learnt()
    new, f = simulated(rows, seed=3, reach=1.9)
    options = {"cov_function": "gaussian_ard", "gp_approx": "vecchia", "num_neighbors": 20}
    model = gpb.GPModel(gp_coords=X, **options)
    # Its kernel is exp(-(distance / range)^2).
    ranges = np.sqrt(2.0) * THETA["lengthscale"]
    theta = np.array([THETA["sigma"] ** 2, THETA["amplitude"] ** 2, *ranges])
    for neighbours in NEIGHBOURS:
        model.set_prediction_data(
            num_neighbors_pred=neighbours, vecchia_pred_type="order_obs_first_cond_all"
        )
        begun = time.perf_counter()
        found = model.predict(y=y - y.mean(), gp_coords_pred=new, cov_pars=theta, predict_var=True)
        seconds = time.perf_counter() - begun
        error = np.sqrt(np.mean((found["mu"] + y.mean() - f) ** 2))
        name = f"gpboost, Vecchia with {neighbours} neighbours"
        print(f"| predictions | {name} | mean, sd | {rows} | {rows / seconds:.0f} | {error:.4f} |")


def main(rows):
    print("| what | by | gives | rows | rows per second | error of f |\n|---|---|---|---|---|---|")
    cases = [(rows, name) for name in ("HSGP", "RandomFeatures", "Inducing")]
    cases += [(PEER_ROWS, "gpytorch"), (PEER_ROWS, "gpboost")]
    for case in cases:
        subprocess.run([sys.executable, "-W", "ignore", __file__, *map(str, case)], check=True)


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    name = sys.argv[2] if len(sys.argv) > 2 else None
    if name is None:
        main(count)
    elif name in ("gpytorch", "gpboost"):
        {"gpytorch": gpytorch, "gpboost": gpboost}[name](count)
    else:
        ours(count, name)
