"""Explain the probability of a class by shap and captum, on the model of `response.py`.

Both are given the expected probability as a function: in NumPy for shap's
KernelExplainer, with all coalitions, in PyTorch for captum's integrated gradients, with the steps
that an error of 1e-4 takes. They return one number for each row and feature. Standard deviations
over 1,000 functions would take them a thousand times as long, which is not measured. CPU seconds of
the second call, with one thread.
"""

import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import shap
import torch
from captum.attr import IntegratedGradients
from scipy.special import expit

import bayes_gpx as bx

N, D, ROWS, COALITIONS = 500, 10, 20, 2**10
LENGTHSCALE, AMPLITUDE = 2.5, 1.5
NODES = np.linspace(-8.0, 8.0, 41)
WEIGHTS = np.exp(-(NODES**2) / 2) / np.exp(-(NODES**2) / 2).sum()


def covariance(a, b):
    apart = (a**2).sum(1)[:, None] - 2 * a @ b.T + (b**2).sum(1)
    return AMPLITUDE**2 * np.exp(-0.5 * np.maximum(apart, 0.0) / LENGTHSCALE**2)


def laplace(X, y):
    """Slope at the mode (n,), and half (n, n) with var f(x) = k(x, x) - |half k(X, x)|^2."""
    K, f = covariance(X, X), np.zeros(len(y))
    for _ in range(30):
        p = expit(f)
        W = p * (1 - p)
        B = np.eye(len(y)) + np.sqrt(W)[:, None] * K * np.sqrt(W)
        b = W * f + y - p
        f = K @ (b - np.sqrt(W) * np.linalg.solve(B, np.sqrt(W) * (K @ b)))
    return y - expit(f), np.linalg.solve(np.linalg.cholesky(B), np.diag(np.sqrt(W)))


def seconds(call):
    call()
    started = time.process_time()
    found = call()
    return time.process_time() - started, found


def main(quick=False):
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D))
    odds = X[:, 0] + X[:, 1] * X[:, 2]
    y = (rng.uniform(size=N) < 1 / (1 + np.exp(-odds))).astype(int)
    theta = {"lengthscale": np.full(D, LENGTHSCALE), "amplitude": AMPLITUDE}
    model = bx.GP(X, y, likelihood="bernoulli", scale=False)
    slope, half = laplace(X, y)
    rows, start = X[: 2 if quick else ROWS], np.zeros((1, D))

    def probability(x):
        k = covariance(x, X)
        sd = np.sqrt(np.maximum(AMPLITUDE**2 - ((k @ half.T) ** 2).sum(1), 0.0))
        return expit((k @ slope)[:, None] + sd[:, None] * NODES) @ WEIGHTS

    own = {"baseline": "zero", "keep": "summary", "progressbar": False, "seed": 1, "cores": 1}
    table = []

    def add(who, what, of, sds, took, values, truth):
        error = np.abs(values - truth).max()
        table.append({"library": who, "call": what, "numbers": of, "sds": sds, "CPU s": took})
        table[-1]["largest difference"] = error

    took, found = seconds(lambda: bx.shapley_values(model, theta, rows, method="exact", **own))
    exact = found["attribution_mean"].values
    add("bayes_gpx", "Shapley values", exact.size, "yes", took, exact, exact)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        explainer = shap.KernelExplainer(probability, start)
        took, values = seconds(
            lambda: explainer.shap_values(rows, nsamples=COALITIONS, l1_reg=False, silent=True)
        )
    add("shap", "Shapley values", exact.size, "no", took, values, exact)

    took, found = seconds(lambda: bx.attributions(model, theta, rows, **own))
    exact = found["attribution_mean"].values
    add("bayes_gpx", "attributions", exact.size, "yes", took, exact, exact)
    t = {k: torch.tensor(v) for k, v in {"X": X, "a": slope, "half": half, "z": NODES}.items()}
    w = torch.tensor(WEIGHTS)

    def in_torch(x):
        k = AMPLITUDE**2 * torch.exp(-0.5 * ((x[:, None] - t["X"]) ** 2).sum(-1) / LENGTHSCALE**2)
        variance = AMPLITUDE**2 - ((k @ t["half"].T) ** 2).sum(1)
        sd = torch.sqrt(torch.clamp(variance, min=1e-12))
        return torch.sigmoid((k @ t["a"])[:, None] + sd[:, None] * t["z"]) @ w

    method, inputs = IntegratedGradients(in_torch), torch.tensor(rows)
    for steps in (8, 16, 32, 64):
        took, values = seconds(lambda: method.attribute(inputs, n_steps=steps))  # noqa: B023
        if np.abs(values.numpy() - exact).max() < 1e-4:
            break
    add("captum", f"attributions, {steps} steps", exact.size, "no", took, values.numpy(), exact)
    found = pd.DataFrame(table)
    found["CPU s"] = found["CPU s"].round(3)
    print(found.to_string(index=False))
    if not quick:
        found.to_csv(Path(__file__).with_suffix(".csv"), index=False, float_format="%.2g")


if __name__ == "__main__":
    main("--quick" in sys.argv)
