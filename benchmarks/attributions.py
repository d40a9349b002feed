"""Attributions of 89 new rows of diabetes, compared with libraries that explain any model.

All libraries explain the same posterior mean from the same baseline. Ours computes exact
attributions with standard deviations; the others compute only means.
"""

import time
from functools import partial

import numpy as np
import shap
import torch
from captum.attr import IntegratedGradients
from shapiq.explainer.product_kernel import ProductKernelExplainer
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import train_test_split

import bayes_gpx as bx

GOAL = 1e-6
"""A quadrature is done at this error, relative to the largest attribution."""
MOST_STEPS = 4096
PEER_ROWS = 5


def best(task, times=8):
    """Result, and the shortest of several waits in seconds."""
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
    idata = model.fit("map", seed=0, progressbar=False)
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
        a, b = x / scale, points / scale
        squares = (a**2).sum(1)[:, None] + (b**2).sum(1) - 2.0 * a @ b.T
        return torch.exp(-0.5 * squares) @ values

    explainer, rows = IntegratedGradients(posterior_mean), torch.as_tensor(new)
    start = torch.zeros_like(rows[:1])
    for method in ("riemann_right", "riemann_trapezoid", "gausslegendre"):
        options, steps, error = {"method": method, "internal_batch_size": 89 * 64}, 4, np.inf
        while error > GOAL and steps < MOST_STEPS:
            steps *= 2
            explained = partial(explainer.attribute, rows, start, n_steps=steps, **options)
            error = np.abs(explained().numpy() - exact).max() / np.abs(exact).max()
        _, seconds = best(explained, times=2)
        name = f"captum, {method}, {steps} steps"
        print(f"| {name} | {seconds:.4f} | {seconds / ours:.1f} | {error:.0e} | mean |", flush=True)

    def predicted(x):
        return posterior_mean(torch.as_tensor(x)).numpy()

    a_row = ours / len(new)
    backgrounds = {"the baseline": np.zeros((1, X.shape[1])), "100 rows": scaled[:100]}
    for name, background in backgrounds.items():
        kernel = shap.KernelExplainer(predicted, background)
        _, seconds = best(partial(kernel.shap_values, new[:PEER_ROWS], silent=True), times=2)
        seconds /= PEER_ROWS
        name = f"shap, KernelExplainer, background {name}, a row"
        print(f"| {name} | {seconds:.4f} | {seconds / a_row:.0f} | | mean |", flush=True)

    peer = GaussianProcessRegressor(
        RBF(1.0), alpha=(theta["sigma"] / theta["amplitude"]) ** 2, optimizer=None
    ).fit(scaled / theta["lengthscale"], response)
    product = ProductKernelExplainer(model=peer)
    asked = new[:PEER_ROWS] / theta["lengthscale"]
    _, seconds = best(lambda: [product.explain(row) for row in asked], times=2)
    seconds /= PEER_ROWS
    print(f"| shapiq, product kernel, a row | {seconds:.4f} | {seconds / a_row:.0f} | | mean |")


def distances(A, B, lengthscale):
    return (((A[:, None] - B[None]) / lengthscale) ** 2).sum(-1)


if __name__ == "__main__":
    main()
