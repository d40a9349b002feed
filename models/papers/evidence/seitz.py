"""Seitz: derivatives, sparse posteriors and classifiers."""

import mpmath as mp
import numpy as np
from numpy.linalg import inv, solve

from evidence.case import Case, expquad, given, slope


def sigmoid(f):
    """Logistic function."""
    return 1 / (1 + mp.exp(-f))


def mean_slope(m, s2, slope_mean, c, slope_variance):
    """E[S'(f) f_d] by quadrature over jointly normal f and f_d."""
    t, weight = np.polynomial.hermite_e.hermegauss(120)
    weight = weight / weight.sum()
    f = m + np.sqrt(s2) * t[:, None]
    f_d = slope_mean + c / s2 * (f - m) + np.sqrt(slope_variance - c**2 / s2) * t
    share = 1 / (1 + np.exp(-f))
    return weight @ (share * (1 - share) * f_d) @ weight


def regression():
    """Variances of predictions and derivatives, and the sign of a covariance."""
    rng = np.random.default_rng(2)
    X, x, other, s2 = rng.normal(size=(7, 2)), np.array([0.3, -0.4]), np.array([1.0, 0.2]), 0.2
    noisy, k = expquad(X, X) + s2 * np.eye(7), expquad(X, x[None])
    gain, everything = solve(noisy, k), np.vstack([X, x])
    joint = expquad(everything, everything) + s2 * np.diag([1.0] * 7 + [0.0])
    yield Case(
        "(5)",
        "predictive variance",
        1.0 - (gain.T @ inv(noisy) @ gain).item(),
        1.0 - (gain.T @ noisy @ gain).item(),
        given(joint, [7], list(range(7)))[0, 0],
        "conditioning the joint normal",
    )
    at = expquad(x[None], other[None]).item()
    yield Case(
        "(19) to (21)",
        "Cov(f_d(x), f(x'))",
        (x - other)[0] * at,
        -(x - other)[0] * at,
        slope(lambda v: expquad(v[None], other[None]).item(), x),
        "central differences of k",
    )
    M, root = rng.normal(size=(4, 2)), rng.normal(size=(4, 4))
    KMM = expquad(M, M)
    S = 0.4 * KMM + 0.02 * root @ root.T

    def cov(a, b):
        left, right = solve(KMM, expquad(M, a[None])), solve(KMM, expquad(M, b[None]))
        return expquad(a[None], b[None]).item() - (left.T @ (KMM - S) @ right).item()

    Kd = -(x - M)[:, 0] * expquad(M, x[None])[:, 0]
    printed, correct = solve(KMM - S, Kd), solve(KMM, Kd)
    yield Case(
        "(23), (41)",
        "variational variance of a derivative",
        1.0 - printed @ (KMM - S) @ printed,
        1.0 - correct @ (KMM - S) @ correct,  # both prior variances are 1 at lengthscale 1
        slope(lambda a: slope(lambda b: cov(a, b), x, step=3e-4), x, step=3e-4),
        "mixed differences of the variational covariance of f",
    )


def classifier():
    """Slopes of a probability, as a mean and by expansion."""
    m, v, md, c, vd = 0.6, 0.8, 0.9, -0.35, 1.1
    first, second, third = (float(mp.diff(sigmoid, m, k)) for k in (1, 2, 3))

    def mean_of(order):
        integrand = lambda t: mp.diff(sigmoid, m + mp.sqrt(v) * t, order) * mp.npdf(t)  # noqa: E731
        return float(mp.quad(integrand, [-9, -3, 0, 3, 9]))

    curve = [mean_of(1), mean_of(2)]
    yield Case(
        "(34), c read as Var(f_d)",
        "E[S'(f) f_d]",
        md * curve[0] + vd * curve[1],
        md * curve[0] + c * curve[1],
        mean_slope(m, v, md, c, vd),
        "quadrature over f and f_d",
    )

    def growth(scale):
        return (mean_slope(m, scale * v, md, scale * c, scale * vd) - first * md) / scale

    bent = 0.5 * v * third * md + c * second
    yield Case(
        "(35), (42), (43)",
        "first-order term of E[S'(f) f_d]",
        0.5 * v * third * (md + c / v) + c * second,
        bent,
        (8 * growth(0.0005) - 6 * growth(0.001) + growth(0.002)) / 3,
        "the same quadrature with small covariances, extrapolated to 0",
    )
    coefficients = (1, -7, 12, -6)
    yield Case(
        "(36)",
        "third derivative of S",
        sum(a * float(mp.diff(sigmoid, 0.7, k + 1)) for k, a in enumerate(coefficients)),
        sum(a * float(sigmoid(0.7)) ** (k + 1) for k, a in enumerate(coefficients)),
        float(mp.diff(sigmoid, 0.7, 3)),
        "numerical derivative",
    )
