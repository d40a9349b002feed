"""Shapley values of a Gaussian process: exact with sd, compared with shap's explainers of its mean.

The baseline is the mean of 300 rows; for all methods, features outside a coalition have its values.
shap's explainers receive a function that predicts the posterior mean from dense matrices. Seconds
are per row; ours are for 20 rows at once with their sd, after compilation (last column). Errors are
the largest of a method, relative to the largest Shapley value. The permutation explainer uses
enough evaluations for an error below 1e-3, up to 64 rounds.
"""

import time

import numpy as np
import shap

import bayes_gpx as bx

ROWS, EXPLAINED, ASKED, GOAL = 300, 20, 2, 1e-3


def problem(d):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, d))
    y = X[:, 0] * X[:, 1] + np.sin(X[:, 2]) + 0.1 * rng.normal(size=ROWS)
    theta = {"lengthscale": np.full(d, np.sqrt(d)), "amplitude": 1.5, "sigma": 0.1}
    return bx.GP(X, y, scale=False), X, y, theta


def posterior_mean(X, y, theta):
    scaled, variance = X / theta["lengthscale"], theta["amplitude"] ** 2

    def kernel(A):
        A = A / theta["lengthscale"]
        squares = (A**2).sum(1)[:, None] + (scaled**2).sum(1) - 2.0 * A @ scaled.T
        return variance * np.exp(-0.5 * squares)

    alpha = np.linalg.solve(kernel(X) + theta["sigma"] ** 2 * np.eye(len(X)), y)
    return lambda A: kernel(np.asarray(A)) @ alpha


def timed(task):
    begun = time.perf_counter()
    found = task()
    return found, time.perf_counter() - begun


def show(d, name, seconds, error, gives, compiled=""):
    error = "" if error is None else f"{error:.0e}"
    print(f"| {d} | {name} | {seconds:.4f} | {error} | {gives} | {compiled} |", flush=True)


def compared(d):
    model, X, y, theta = problem(d)
    rows, base = X[:EXPLAINED], X.mean(axis=0, keepdims=True)

    def ours(verb):
        options = {"baseline": base[0], "keep": "summary", "progressbar": False}
        return timed(lambda: verb(model, theta, rows, **options))

    (_, first), (found, seconds) = ours(bx.shapley_values), ours(bx.shapley_values)
    show(d, "bayes_gpx", seconds / len(rows), None, "mean and sd", f"{first:.1f}")
    _, (_, seconds) = ours(bx.attributions), ours(bx.attributions)
    show(d, "bayes_gpx, integrated gradients", seconds / len(rows), None, "mean and sd")
    predict, some = posterior_mean(X, y, theta), rows[:ASKED]
    exact = found["attribution_mean"].values[:ASKED]

    def peer(name, task):
        values, seconds = timed(task)
        missed = np.abs(values - exact).max() / np.abs(exact).max()
        return missed, (d, f"shap, {name}", seconds / ASKED, missed, "mean")

    masker = shap.maskers.Independent(base)
    if d <= 15:
        exactly = shap.ExactExplainer(predict, masker)
        show(*peer("ExactExplainer", lambda: exactly(some).values)[1])
    by_kernel = shap.KernelExplainer(predict, base)
    show(*peer("KernelExplainer", lambda: by_kernel.shap_values(some, silent=True))[1])
    for most in (2**k * (2 * d + 1) for k in range(7)):
        explainer = shap.PermutationExplainer(predict, masker, seed=0)
        missed, line = peer(
            f"PermutationExplainer, {most} evaluations",
            lambda e=explainer, m=most: e(some, max_evals=m, silent=True).values,
        )
        if missed <= GOAL:
            break
    show(*line)


def main():
    print("| features | by | seconds a row | error | gives | first call, s |")
    print("|---|---|---|---|---|---|")
    for d in (10, 15, 30, 60):
        compared(d)


if __name__ == "__main__":
    main()
