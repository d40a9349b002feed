"""Butler, Feng and Djurić: attributions."""

import mpmath as mp
import numpy as np
from numpy.linalg import solve

from evidence.case import Case, expquad


def path():
    """One path, one training point and the paper's symbols, at lengthscale and amplitude 1."""
    start, x, seen = (
        np.array([-0.4, 0.2, 0.1]),
        np.array([0.9, -0.3, 0.8]),
        np.array([0.1, 0.6, 0.5]),
    )
    D, P = x - start, start - seen
    return start, x, seen, D, P, D @ D, 2 * D @ P, P @ P


def derivatives():
    """Covariance of difference quotients, which converge to derivatives."""
    n, x, other = 1000, np.array([0.3, -0.4]), np.array([1.0, 0.2])

    def k(x, other):
        return mp.exp(-sum((a - b) ** 2 for a, b in zip(x, other, strict=True)) / 2)

    step = np.array([1 / n, 0.0])
    second = k(x + step, other + step) - k(x, other + step) - k(x + step, other) + k(x, other)

    def mixed(s, t):
        apart = x[0] + s - other[0] - t
        return (1 - apart**2) * mp.exp(-(apart**2 + (x[1] - other[1]) ** 2) / 2)

    yield Case(
        "A.2",
        "covariance of difference quotients, n = 1000",
        float(second / n**2),
        float(second * n**2),
        float(mp.quad(mixed, [0, 1 / n], [0, 1 / n]) * n**2),
        "mean of the mixed derivative over the steps, by quadrature",
    )


def closed_forms():
    """Integrals along the path, and the prior variance of an attribution."""
    start, _, _, D, _, a, *_ = path()
    q = {"a": 0.9, "b": -0.4, "c": 0.3}

    def bell(t):
        return mp.exp(-(q["a"] * t**2 + q["b"] * t + q["c"]))

    scale, half = mp.exp(q["b"] ** 2 / (4 * q["a"]) - q["c"]), mp.sqrt(q["a"])
    edge = [mp.erf((2 * q["a"] * t + q["b"]) / (2 * half)) for t in (0, 1)]
    integral = mp.sqrt(mp.pi) / (2 * half) * scale * (edge[1] - edge[0])
    ends = (bell(0) - bell(1)) / (2 * q["a"])
    yield Case(
        "App. B, first",
        "integral of exp(-(at² + bt + c))",
        float(-integral),
        float(integral),
        float(mp.quad(bell, [0, 1])),
        "quadrature",
    )
    yield Case(
        "App. B, second",
        "integral of t exp(-(at² + bt + c))",
        float(ends - integral / (2 * q["a"])),
        float(ends - q["b"] * integral / (2 * q["a"])),
        float(mp.quad(lambda t: t * bell(t), [0, 1])),
        "quadrature",
    )
    erf, gone = mp.erf(mp.sqrt(a / 2)), 1 - mp.exp(-a / 2)
    M0 = mp.sqrt(2 * mp.pi / a) * erf - 2 * gone / a
    M2 = mp.sqrt(2 * mp.pi) * erf / a**1.5 - 4 * gone / a**2

    def both(s, t):
        here = [start + float(s) * D, start + float(t) * D]
        apart = here[0] - here[1]
        return D[0] ** 2 * (1 - apart[0] ** 2) * np.exp(-0.5 * apart @ apart)

    node, weight = np.polynomial.legendre.leggauss(20)
    node, weight = (node + 1) / 2, weight / 2
    yield Case(
        "App. B, double integral",
        "prior variance of an attribution",
        float(D[0] ** 2 * M0 + D[0] ** 4 * M2),
        float(D[0] ** 2 * M0 - D[0] ** 4 * M2),
        sum(
            w * v * both(s, t)
            for s, w in zip(node, weight, strict=True)
            for t, v in zip(node, weight, strict=True)
        ),
        "quadrature over the square",
    )


def features():
    """Random features, quadratures and the prior mean."""
    start, x, seen, D, P, *_ = path()
    v = np.array([1.3, -0.7, 0.5])
    begin, end = v @ start, v @ x
    yield Case(
        "(33)",
        "attribution of the feature sin(v'x)",
        D[0] * v[0] / (v @ D) * (np.cos(end) - np.cos(begin)),
        D[0] * v[0] / (v @ D) * (np.sin(end) - np.sin(begin)),
        float(mp.quad(lambda t: D[0] * v[0] * mp.cos(begin + t * (end - begin)), [0, 1])),
        "quadrature",
    )
    ends, one_step = {"width": np.ones(50), "Simpson": np.array([0.0, 0.25, 1.0])}.values()
    yield Case(
        "C.1, sums without width", "integral of 1, L = 50", ends.sum(), ends.mean(), 1.0, "1"
    )
    yield Case(
        "C.1, Simpson",
        "integral of t², one step",
        one_step @ [1, 2, 1] / 4,
        one_step @ [1, 4, 1] / 6,
        1 / 3,
        "1 / 3",
    )
    rng = np.random.default_rng(3)
    X, y, s2, M, s02 = rng.normal(size=(8, 3)), rng.normal(size=8), 0.2, 10, 1.5
    waves = rng.normal(size=(5, 3))

    def phi(X):
        return np.hstack([np.sin(X @ waves.T), np.cos(X @ waves.T)])

    def by_kernel(factor):
        Phi, at = phi(X), phi(x[None])[0]
        return factor * at @ Phi.T @ solve(factor * Phi @ Phi.T + s2 * np.eye(8), y)

    precision = phi(X).T @ phi(X) / s2 + M / s02 * np.eye(M)
    yield Case(
        "text at (21), k = phi'phi",
        "posterior mean with random features",
        by_kernel(1.0),
        by_kernel(s02 / M),
        phi(x[None])[0] @ solve(precision, phi(X).T @ y / s2),
        "Bayesian regression on the features",
    )
    constant, gain = 2.0, solve(expquad(X, X) + s2 * np.eye(8), expquad(X, x[None]))[:, 0]
    both = np.vstack([X, x])
    cov = expquad(both, both) + s2 * np.diag([1.0] * 8 + [0.0])
    root = np.linalg.cholesky(cov)
    white = solve(root[:8, :8], y - constant)
    yield Case(
        "(17)",
        "predictive mean, prior mean 2",
        gain @ (y - constant),
        constant + gain @ (y - constant),
        constant + root[8, :8] @ white,
        "factor of the joint covariance",
    )
