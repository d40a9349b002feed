"""Functions of [0, 1]^d: six to explain, with their d, and two to maximize, with their maxima."""

import numpy as np


def friedman(X):
    return (
        10 * np.sin(np.pi * X[:, 0] * X[:, 1])
        + 20 * (X[:, 2] - 0.5) ** 2
        + 10 * X[:, 3]
        + 5 * X[:, 4]
    )


def ishigami(X):
    a, b, c = (np.pi * (2 * X - 1)).T
    return np.sin(a) + 7 * np.sin(b) ** 2 + 0.1 * c**4 * np.sin(a)


def gramacy(X):
    return np.exp(np.sin((0.9 * (X[:, 0] + 0.48)) ** 10)) + X[:, 1] * X[:, 2] + X[:, 3]


def borehole(X):
    low = np.array([0.05, 100, 63070, 990, 63.1, 700, 1120, 9855])
    high = np.array([0.15, 50000, 115600, 1110, 116, 820, 1680, 12045])
    rw, r, Tu, Hu, Tl, Hl, L, Kw = (low + X * (high - low)).T
    log = np.log(r / rw)
    return 2 * np.pi * Tu * (Hu - Hl) / (log * (1 + 2 * L * Tu / (log * rw**2 * Kw) + Tu / Tl))


def otl(X):
    low, high = np.array([50, 25, 0.5, 1.2, 0.25, 50]), np.array([150, 70, 3, 2.5, 1.2, 300])
    b1, b2, f, c1, c2, beta = (low + X * (high - low)).T
    vb1, gain = 12 * b2 / (b1 + b2), beta * (c2 + 9)
    middle = (vb1 + 0.74) * gain / (gain + f) + 11.35 * f / (gain + f)
    return middle + 0.74 * f * gain / ((gain + f) * c1)


def piston(X):
    low = np.array([30, 0.005, 0.002, 1000, 90000, 290, 340])
    high = np.array([60, 0.020, 0.010, 5000, 110000, 296, 360])
    M, S, V0, k, P0, Ta, T0 = (low + X * (high - low)).T
    A = P0 * S + 19.62 * M - k * V0 / S
    V = S / (2 * k) * (np.sqrt(A**2 + 4 * k * P0 * V0 / T0 * Ta) - A)
    return 2 * np.pi * np.sqrt(M / (k + S**2 * P0 * V0 / T0 * Ta / V**2))


FUNCTIONS = {
    "friedman": (friedman, 5),
    "ishigami": (ishigami, 3),
    "gramacy": (gramacy, 4),
    "borehole": (borehole, 8),
    "otl": (otl, 6),
    "piston": (piston, 7),
}


def branin(X):
    a, b = 15 * X[:, 0] - 5, 15 * X[:, 1]
    return -(
        (b - 5.1 / (4 * np.pi**2) * a**2 + 5 / np.pi * a - 6) ** 2
        + 10 * (1 - 1 / (8 * np.pi)) * np.cos(a)
        + 10
    )


def hartmann(X):
    alpha = np.array([1.0, 1.2, 3.0, 3.2])
    A = [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14]]
    A = np.array([*A, [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]])
    P = [[1312, 1696, 5569, 124, 8283, 5886], [2329, 4135, 8307, 3736, 1004, 9991]]
    P = [*P, [2348, 1451, 3522, 2883, 3047, 6650], [4047, 8828, 8732, 5743, 1091, 381]]
    apart = (X[:, None] - 1e-4 * np.array(P)) ** 2
    return np.exp(-(A * apart).sum(axis=2)) @ alpha


SOUGHT = {"branin": (branin, 2, -0.397887), "hartmann": (hartmann, 6, 3.32237)}
