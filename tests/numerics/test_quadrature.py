"""Quadratures by name: the polynomials they integrate exactly, and what they refuse."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bayes_gpx.numerics.quadrature import rule


@pytest.mark.parametrize(
    ("method", "steps", "said"),
    [
        ("simpson", 3, "an even number, 2 or more"),
        ("trapezoid", 0, "a whole number, 1 or more"),
        ("right", True, "a whole number, 1 or more"),
        ("gauss_legendre", 2.0, "a whole number, 1 or more"),
        ("milne", 2, "Unknown method 'milne'"),
    ],
)
def test_steps_that_a_rule_cannot_have_are_refused(method, steps, said):
    with pytest.raises(ValueError, match=said):
        rule(method, steps)


@pytest.mark.parametrize(
    ("method", "steps", "nodes", "degree"),
    [("right", 4, 4, 0), ("trapezoid", 4, 5, 1), ("simpson", 4, 5, 3), ("gauss_legendre", 4, 4, 7)],
)
def test_rules_are_exact_for_polynomials_of_their_degree(method, steps, nodes, degree):
    t, weights = rule(method, steps)
    assert len(t) == len(weights) == nodes
    errors = np.array([weights @ t**k - 1.0 / (k + 1) for k in range(degree + 2)])
    assert_allclose(errors[:-1], 0.0, atol=1e-14)
    assert abs(errors[-1]) > 1e-6
