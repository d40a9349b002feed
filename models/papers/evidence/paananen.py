"""Paananen, Andersen and Vehtari: divergences and their derivatives."""

import mpmath as mp
import numpy as np
from scipy.stats import norm

from evidence.case import Case


def divergences():
    """Divergences of predictive distributions, and their derivatives with respect to features."""

    def mixed(function, *at):
        return float(mp.diff(function, at, (1,) * len(at)))

    def js(h):
        def log_mean(t):
            return mp.log((mp.npdf(t) + mp.npdf(t, h)) / 2)

        def half(m):
            return lambda t: mp.npdf(t, m) * (mp.log(mp.npdf(t, m)) - log_mean(t))

        ends = mp.linspace(-12, 12, 9)
        return (mp.quad(half(0), ends) + mp.quad(half(h), ends)) / 2

    h = mp.mpf("0.001")
    yield Case(
        "remark on Jensen-Shannon",
        "its second derivative over that of KL",
        1.0,
        0.25,
        float(2 * js(h) / h**2),
        "quadrature of the divergence",
    )

    def kl(m, V, at):
        m0, V0 = m(*at), V(*at)
        return lambda x, z: (
            (V0 / V(x, z) + (m(x, z) - m0) ** 2 / V(x, z) - 1 + mp.log(V(x, z) / V0)) / 2
        )

    slope_of = 0.7
    divergence = kl(lambda x, z: slope_of * x * z, lambda x, z: mp.mpf("0.64"), (0, 0))
    yield Case(
        "supplement, beside (3)",
        "KL-diff² of 0.7 xz at 0",
        slope_of / 0.8,
        np.sqrt(2) * slope_of / 0.8,
        float(mp.sqrt(mp.diff(divergence, (0, 0), (2, 2)))),
        "fourth derivative of KL",
    )

    def m(x, z):
        return mp.sin(x) + mp.mpf("0.5") * x * z + z**2 / 4

    def V(x, z):
        return mp.mpf("0.4") + x**2 / 3 + mp.mpf("0.2") * z + x * z / 5 + z**2 / 2

    at = (mp.mpf("0.3"), mp.mpf("0.2"))
    m_at, V_at, u = float(m(*at)), float(V(*at)), float(m(*at) / mp.sqrt(1 + V(*at)))
    md, me, mde = (float(mp.diff(m, at, n)) for n in ((1, 0), (0, 1), (1, 1)))
    Vd, Ve, Vde = (float(mp.diff(V, at, n)) for n in ((1, 0), (0, 1), (1, 1)))
    w = 1 + V_at
    ud, ue = (g / w**0.5 - m_at * G / (2 * w**1.5) for g, G in ((md, Vd), (me, Ve)))

    def probit(sign, power):
        bent = mde / w**0.5 - (md * Ve + me * Vd + m_at * Vde) / (2 * w**1.5)
        bent += 3 * m_at * Vd * Ve / (4 * w**power)
        return norm.pdf(u) * (sign * u * ud * ue + bent)

    yield Case(
        "probit cross-derivative",
        "mixed derivative of the probability",
        probit(1, 1.5),
        probit(-1, 2.5),
        mixed(lambda x, z: mp.ncdf(m(x, z) / mp.sqrt(1 + V(x, z))), *at),
        "numerical derivative",
    )
