"""Attributions of 89 new rows of diabetes by one fit, against libraries that explain any model.

Every peer explains the very same posterior mean, from the same baseline. Ours are the exact
attributions with standard deviations; the peers give means alone.
"""

import time

import numpy as np
import shap
import shapiq
import torch
from captum.attr import IntegratedGradients
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.model_selection import train_test_split

import bayes_gpx as bx

GOAL = 1e-6
"""Error, as a share of the largest attribution, at which a quadrature counts as done."""
SHAP_ROWS, SHAPIQ_ROWS = 5, 5


def best(task, times=7):
    """Result, and the shortest of several waits in seconds, the first left out."""
    task()
    waits = []
    for _ in range(times):
        begun = time.perf_counter()
        result = task()
        waits.append(time.perf_counter() - begun)
    return result, min(waits)


def main():
    data = bx.datasets.load("diabetes")
    X, X_test, y, _ = train_test_split(data.X, data.y, test_size=0.2, random_state=0)
    model = bx.GP(X, y)
    idata = model.fit(seed=0, progressbar=False)
    options = {"keep": "summary", "progressbar": False}
    found, ours = best(lambda: bx.attributions(model, idata, X_test, **options))
    exact = found["attribution_mean"].values
    print(f"{len(X)} rows learnt from, {len(X_test)} x {X.shape[1]} attributions, one draw")
    print("\n| attributions | seconds | times slower | error | gives |")
    print("|---|---|---|---|---|")
    print(f"| bayes_gpx | {ours:.4f} | 1 | | mean and sd |")

    theta = {k: np.asarray(v)[0, 0] for k, v in idata["posterior"].data_vars.items()}
    scaled, new = (model.training.X_scaling.apply(part.values) for part in (X, X_test))
    response = model.training.y_scaling.apply(y.values)
    K = theta["amplitude"] ** 2 * np.exp(-0.5 * distances(scaled, scaled, theta["lengthscale"]))
    alpha = np.linalg.solve(K + theta["sigma"] ** 2 * np.eye(len(X)), response)
    weights = model.training.y_scaling.scale * theta["amplitude"] ** 2 * alpha

    points, scale, values = (torch.as_tensor(v) for v in (scaled, theta["lengthscale"], weights))
    torch.set_default_dtype(torch.float64)

    def posterior_mean(x):
        return torch.exp(-0.5 * torch.cdist(x / scale, points / scale) ** 2) @ values

    def smooth_mean(x):
        """The same with squares by inner products, whose gradient is cheap."""
        a, b = x / scale, points / scale
        squares = (a**2).sum(1)[:, None] + (b**2).sum(1) - 2.0 * a @ b.T
        return torch.exp(-0.5 * squares) @ values

    explainer, rows = IntegratedGradients(smooth_mean), torch.as_tensor(new)
    start = torch.zeros_like(rows[:1])
    for method in ("riemann_right", "riemann_trapezoid", "gausslegendre"):
        steps, error = 4, np.inf

        def explained(steps, method=method):
            arguments = {"n_steps": steps, "method": method, "internal_batch_size": 89 * 64}
            return explainer.attribute(rows, baselines=start, **arguments).numpy()

        while error > GOAL and steps < 2**15:
            steps *= 2
            error = np.abs(explained(steps) - exact).max() / np.abs(exact).max()
        _, seconds = best(lambda: explained(steps), times=3)
        name = f"captum, {method}, {steps} steps"
        print(f"| {name} | {seconds:.4f} | {seconds / ours:.1f} | {error:.0e} | mean |", flush=True)

    def predicted(x):
        return smooth_mean(torch.as_tensor(x)).numpy()

    kernel = shap.KernelExplainer(predicted, np.zeros((1, X.shape[1])))
    _, seconds = best(lambda: kernel.shap_values(new[:SHAP_ROWS], silent=True), times=1)
    per_row = seconds / SHAP_ROWS / (ours / len(new))
    print(f"| shap, KernelExplainer, a row | {seconds / SHAP_ROWS:.4f} | {per_row:.0f} | | mean |")

    rbf = ConstantKernel(theta["amplitude"] ** 2) * RBF(theta["lengthscale"])
    peer = GaussianProcessRegressor(
        RBF(theta["lengthscale"]), alpha=(theta["sigma"] / theta["amplitude"]) ** 2, optimizer=None
    ).fit(scaled, response)
    assert rbf is not None
    product = shapiq.ProductKernelExplainer(model=peer)
    _, seconds = best(lambda: [product.explain(row) for row in new[:SHAPIQ_ROWS]], times=1)
    per_row = seconds / SHAPIQ_ROWS / (ours / len(new))
    print(
        f"| shapiq, product kernel, a row | {seconds / SHAPIQ_ROWS:.4f} | {per_row:.0f} | | mean |"
    )


def distances(A, B, lengthscale):
    return (((A[:, None] - B[None]) / lengthscale) ** 2).sum(-1)


if __name__ == "__main__":
    main()
