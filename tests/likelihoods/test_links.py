"""Expected slopes of a probability, where f is normal and may be far out, by fine sums."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit

from bayes_gpx.likelihoods.classification import Logit
from bayes_gpx.numerics.compile_modes import MODE

Z = np.linspace(-20, 20, 200_001)
WEIGHTS = np.exp(-(Z**2) / 2) / np.sqrt(2 * np.pi) * (Z[1] - Z[0])


@pytest.mark.parametrize(
    "mean, sd", [(-20.0, 2.0), (-3.0, 6.0), (0.7, 0.3), (9.0, 2.0), (-300, 10.0)]
)
def test_expected_slopes_of_the_logistic_function(mean, sd):
    m, v = pt.dvectors("mv")
    outputs = [*Logit().expected(m, v)[1:], *Logit().rates(m, v)]
    function = pytensor.function([m, v], outputs, mode=MODE)
    slope, curvature, *rates = (one.item() for one in function([mean], [sd**2]))
    f = mean + sd * Z
    each = expit(f) * expit(-f)
    expected = [(WEIGHTS * each).sum(), -(WEIGHTS * each * np.tanh(f / 2)).sum()]
    assert_allclose([slope, curvature], expected, rtol=1e-7, atol=1e-9 * expected[0])
    assert_allclose(rates[:2], expected, rtol=1e-7, atol=1e-9 * expected[0])
