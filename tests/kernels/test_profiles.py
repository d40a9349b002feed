"""What radial profiles know of long paths, against integrals of their derivatives."""

import mpmath
import numpy as np
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad

from bayes_gpx.kernels.profiles import ExpQuad, Matern32, Matern52
from bayes_gpx.numerics.compile_modes import MODE

SECOND = {
    ExpQuad: lambda s: np.exp(-0.5 * s**2),
    Matern52: lambda s: 25 / 3 * np.exp(-(5**0.5) * s),
    Matern32: lambda s: 3 * 3**0.5 / s * np.exp(-(3**0.5) * s),
}
"""-1/s d/ds of -1/s d rho/ds."""


@pytest.mark.parametrize("order", [1, 2])
def test_integrals_outward_from_a_corner(order):
    """int_0^1 p^(2 k - 1) F_k(p^2 s2) dp, on both sides of where the closed form loses digits."""
    s2 = np.array([0.0, 1e-12, 1e-3, 0.09999, 0.10001, 0.7, 3.0, 50.0, 1e4])
    expected = [
        mpmath.quad(lambda p, v=v: p ** (2 * order - 1) * mpmath.exp(-(p**2) * v / 2), [0, 0.1, 1])
        for v in s2
    ]
    found = ExpQuad().of_ray(pt.constant(s2), order).eval(mode=MODE)
    assert_allclose(found, np.array(expected, float), rtol=1e-13)


@pytest.mark.parametrize("profile", SECOND)
@pytest.mark.parametrize("r", [3.0, 30.0, 3e4])
def test_the_bend_of_a_long_path(profile, r):
    """2 r^4 int_0^1 (1 - t) t^2 F_2(r t) dt, with s = r t for the variable."""

    def integrand(s):
        return 2.0 * r * (1.0 - s / r) * s**2 * SECOND[profile](s)

    expected = quad(integrand, 1e-9, min(r, 60.0), epsabs=0.0, epsrel=1e-12, limit=200)[0]
    found = profile().long_bend(pt.constant([[r]])).eval(mode=MODE)
    assert_allclose(found.item(), expected, rtol=1e-9)
