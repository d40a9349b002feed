"""Probabilities of at most y, where f is normal, against SciPy's given f."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, stats

from responses import EXPOSURE, THETA, function

CUMULATIVE = [
    ("normal", (-1.0, 0.3)),
    ("student_t", (-35.0, 0.3)),
    ("poisson", (0.0, 1.0, 7.0, 300.0)),
    ("negative_binomial", (0.0, 1.0, 7.0, 300.0)),
]
LINKS = {"poisson": "log", "negative_binomial": "log"}


def given(name, y, f, theta):
    """Probability of at most y given f, by SciPy."""
    rate, a = EXPOSURE * np.exp(f), theta["dispersion"]
    return {
        "normal": lambda: stats.norm.cdf(y, f, theta["sigma"]),
        "student_t": lambda: stats.t.cdf(y, theta["nu"], f, theta["sigma"]),
        "poisson": lambda: stats.poisson.cdf(y, rate),
        "negative_binomial": lambda: stats.nbinom.cdf(y, a, a / (a + rate)),
    }[name]()


@pytest.mark.parametrize(("name", "ys"), CUMULATIVE)
@pytest.mark.parametrize("changed", [{}, {"dispersion": 0.4, "nu": 1.0}, {"dispersion": 50.0}])
def test_probability_of_at_most_y(name, ys, changed):
    compute = function(name, LINKS.get(name, "identity"), "cumulative_predictive")
    theta = THETA | changed
    for y in ys:
        near = np.log((y + 1) / EXPOSURE) if name in LINKS else y
        for shift in (-3.0, 0.1, 2.0):
            for sd in (1e-8, 0.02, 0.3, 1.0, 4.0):
                mean = near + shift
                found = compute(y, mean, sd**2, **changed)[0].item()
                z = np.linspace(-9, 9, 40001)
                weights = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
                values = weights * given(name, y, mean + sd * z, theta)
                assert_allclose(found, integrate.trapezoid(values, z), rtol=1e-7, atol=1e-9)
