"""Fit many rows with this package and others: time, error, density and memory, in one table.

There are two features, Gaussian noise of known size, and 5000 held-out rows. Each case runs in its
own process with two threads, and is stopped after ten minutes. Seconds include building, compiling,
fitting and predicting. `ptgp` needs an older PyMC, so it is not in the `bench` extra: `pip install
--no-deps ptgp`. `python benchmarks/many_rows_peers.py 10000` runs only this size.

All methods fit hyperparameters:

- this package and GPyTorch use 200 inducing points; GPyTorch's stochastic bound also moves them,
  in 30, 5 and 1 passes with decreasing steps;
- ptgp uses 100, because its variances are NaN with 200;
- gpboost uses Vecchia's approximation with 20 neighbors, and predicts with 200, beyond which its
  error hardly falls;
- `pm.gp.HSGP` uses the mode of all variables, because NUTS does not finish (`rows.py`) and ADVI
  produces NaN;
- scikit-learn uses 300 landmarks, with a lengthscale by three-fold cross-validation on 10,000 rows.

A case is skipped if its time with fewer rows predicts more than twice the limit.
"""

import os
import subprocess
import sys
import time
from functools import partial

import numpy as np

from rows import REACH, SINES, memory, priors, simulated

SIZES, HELD_OUT, POINTS, FEW_POINTS, LIMIT = (10**4, 10**5, 10**6), 5_000, 200, 100, 600
PREDICTED_BY = 200
THREADS = {f"{library}_NUM_THREADS": "2" for library in ("OMP", "OPENBLAS", "MKL")}


def rows(n):
    """Training rows, held-out rows with their f, and center and scale of y."""
    X, y = simulated(n)
    rng = np.random.default_rng(1)
    new = rng.uniform(-2.0, 2.0, (HELD_OUT, 2))
    f = np.sin(2.0 * new[:, 0]) * np.cos(1.5 * new[:, 1]) + 0.3 * new[:, 0]
    return X, y, new, f, f + 0.5 * rng.normal(size=HELD_OUT)


def standardised(X, y, new):
    center, scale = X.mean(axis=0), X.std(axis=0)
    return (X - center) / scale, (y - y.mean()) / y.std(), (new - center) / scale


def hsgp(X, y, new):
    import bayes_gpx as bx

    return _ours(bx.GP(X, y, approximation=bx.HSGP(SINES, c=REACH), priors=priors()), new)


def inducing(X, y, new, points=POINTS):
    import bayes_gpx as bx

    few = np.random.default_rng(0).choice(len(X), 1000, replace=False)
    start = bx.GP(X[few], y[few]).fit("map", seed=0, progressbar=False)
    return _ours(bx.GP(X, y, approximation=bx.Inducing(points)), new, start=start)


def _ours(model, new, **fit):
    import bayes_gpx as bx

    idata = model.fit("map", seed=0, progressbar=False, **fit)
    found = bx.predictions(model, idata, new, keep="summary", progressbar=False)
    return found["f_mean"].values, found["y_sd"].values


def gpytorch(X, y, new):
    import gpytorch as gp
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(0)
    x, own, x_new = (torch.tensor(v, dtype=torch.float32) for v in standardised(X, y, new))

    class Sparse(gp.models.ApproximateGP):
        def __init__(self, points):
            distribution = gp.variational.NaturalVariationalDistribution(len(points))
            super().__init__(
                gp.variational.VariationalStrategy(
                    self, points, distribution, learn_inducing_locations=True
                )
            )
            self.mean_module = gp.means.ConstantMean()
            self.covar_module = gp.kernels.ScaleKernel(gp.kernels.RBFKernel(ard_num_dims=2))

        def forward(self, at):
            return gp.distributions.MultivariateNormal(self.mean_module(at), self.covar_module(at))

    model = Sparse(x[torch.randperm(len(x))[:POINTS]].clone())
    likelihood = gp.likelihoods.GaussianLikelihood()
    bound = gp.mlls.VariationalELBO(likelihood, model, num_data=len(x))
    natural = gp.optim.NGD(model.variational_parameters(), num_data=len(x), lr=0.1)
    both = [{"params": part.parameters()} for part in (likelihood,)]
    adam = torch.optim.Adam([{"params": model.hyperparameters()}, *both], lr=0.01)
    batches = DataLoader(TensorDataset(x, own), batch_size=1024, shuffle=True)
    passes = max(1, min(30, 500_000 // len(x)))
    steps = passes * len(batches)
    slower = [
        torch.optim.lr_scheduler.MultiStepLR(optimiser, [steps // 2, 3 * steps // 4], gamma=0.1)
        for optimiser in (natural, adam)
    ]
    for _ in range(passes):
        for some, its in batches:
            natural.zero_grad()
            adam.zero_grad()
            (-bound(model(some), its)).backward()
            natural.step()
            adam.step()
            for schedule in slower:
                schedule.step()
    with torch.no_grad():
        found = likelihood(model.eval()(x_new))
    sd = found.variance.sqrt().numpy()
    return y.mean() + y.std() * found.mean.numpy(), y.std() * sd


def gpboost(X, y, new):
    import gpboost as gpb

    model = gpb.GPModel(
        gp_coords=X, cov_function="gaussian_ard", gp_approx="vecchia", num_neighbors=20
    )
    model.fit(y=y - y.mean())
    model.set_prediction_data(
        num_neighbors_pred=PREDICTED_BY, vecchia_pred_type="order_obs_first_cond_all"
    )
    found = model.predict(gp_coords_pred=new, predict_var=True, predict_response=True)
    return y.mean() + found["mu"], np.sqrt(found["var"])


def pymc(X, y, new):
    import pymc as pm

    x, own, x_new = standardised(X, y, new)
    prior = priors()
    with pm.Model() as model:
        lengthscale = prior["lengthscale"]("lengthscale", shape=2)
        amplitude, sigma = (prior[name](name) for name in ("amplitude", "sigma"))
        cov = amplitude**2 * pm.gp.cov.ExpQuad(2, ls=lengthscale)
        gp = pm.gp.HSGP(m=[SINES] * 2, c=REACH, cov_func=cov, parametrization="noncentered")
        at = pm.Data("at", x)
        f = gp.prior("f", at)
        pm.Normal("y", f, sigma, observed=own, shape=f.shape)
        mode = pm.find_MAP(progressbar=False)
        free = {v.name: mode[v.name] for v in model.free_RVs}
        pm.set_data({"at": x_new})
        mean = pm.draw(pm.do(model, free)["f"])
    return y.mean() + y.std() * mean, np.full(len(new), y.std() * float(mode["sigma"]))


def ptgp(X, y, new):
    import ptgp as pg
    import pymc as pm
    import pytensor.tensor as pt
    from sklearn.cluster import MiniBatchKMeans

    x, own, x_new = standardised(X, y, new)
    points = MiniBatchKMeans(FEW_POINTS, random_state=0).fit(x).cluster_centers_
    prior = priors()
    with pm.Model():
        lengthscale = prior["lengthscale"]("lengthscale", shape=2)
        amplitude, sigma = (prior[name](name) for name in ("amplitude", "sigma"))
        kernel = amplitude**2 * pg.kernels.ExpQuad(input_dim=2, ls=lengthscale)
        model = pg.gp.VFE(
            kernel=kernel,
            sigma=sigma,
            inducing_variable=pg.inducing.Points(pt.as_tensor(points)),
        )
        fit = pg.fit(model, x, own, method="L-BFGS-B")
    mean, variance = pg.predict(model, x_new, fit, X_train=x, y_train=own, incl_lik=True)
    return y.mean() + y.std() * mean, y.std() * np.sqrt(variance)


def nystroem(X, y, new):
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import BayesianRidge
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline

    x, own, x_new = standardised(X, y, new)
    pipeline = make_pipeline(Nystroem(n_components=300, random_state=0), BayesianRidge())
    grid = {"nystroem__gamma": [0.25, 0.5, 1.0, 2.0]}
    few = np.random.default_rng(0).permutation(len(x))[:10_000]
    search = GridSearchCV(pipeline, grid, cv=3, refit=False).fit(x[few], own[few])
    pipeline.set_params(**search.best_params_).fit(x, own)
    mean, sd = pipeline.predict(x_new, return_std=True)
    return y.mean() + y.std() * mean, y.std() * sd


CASES = {
    "bayes_gpx, HSGP, mode": hsgp,
    "bayes_gpx, 200 inducing points, mode": inducing,
    "bayes_gpx, 100 inducing points, mode": partial(inducing, points=FEW_POINTS),
    "ptgp, 100 inducing points, mode": ptgp,
    "GPyTorch, SVGP, 200 inducing points": gpytorch,
    "gpboost, Vecchia": gpboost,
    "pm.gp.HSGP, mode": pymc,
    "scikit-learn, Nystroem and BayesianRidge": nystroem,
}


def run(n, name):
    X, y, new, f, y_new = rows(n)
    before, begun = memory("VmRSS"), time.perf_counter()
    mean, sd = CASES[name](X, y, new)
    seconds = time.perf_counter() - begun
    error = np.sqrt(np.mean((np.ravel(mean) - f) ** 2))
    apart = (y_new - np.ravel(mean)) / np.ravel(sd)
    density = np.mean(0.5 * apart**2 + np.log(np.ravel(sd)) + 0.5 * np.log(2.0 * np.pi))
    beside = memory("VmHWM") - before
    print(f"| {n} | {name} | {seconds:.0f} | {error:.4f} | {density:.4f} | {beside:.2f} |")


def main(sizes):
    print("| rows | by | seconds | error of f | negative log density of y | GB beside the data |")
    print("|---|---|---|---|---|---|", flush=True)
    took, fewer = dict.fromkeys(CASES, 0.0), 1
    for n in sorted(sizes):
        for name in CASES:
            if took[name] * n / fewer > 2 * LIMIT:
                print(f"| {n} | {name} | not run | | | |", flush=True)
                continue
            command = [sys.executable, "-W", "ignore", __file__, str(n), name]
            try:
                done = subprocess.run(
                    command, env=os.environ | THREADS, timeout=LIMIT, capture_output=True, text=True
                )
            except subprocess.TimeoutExpired:
                print(f"| {n} | {name} | more than {LIMIT} | | | |", flush=True)
                took[name] = LIMIT
                continue
            lines = [line for line in done.stdout.splitlines() if line.startswith("|")]
            if not lines:
                print(done.stderr[-2000:], file=sys.stderr)
            print(*lines, sep="\n", flush=True)
            took[name] = sum(float(line.split("|")[3]) for line in lines)
        fewer = n


if __name__ == "__main__":
    if len(sys.argv) == 3 and not sys.argv[2].isdigit():
        run(int(sys.argv[1]), sys.argv[2])
    else:
        main([int(size) for size in sys.argv[1:]] or SIZES)
