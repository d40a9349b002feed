"""Quadratures by name: what they refuse."""

import pytest

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
