"""Digests: equal for what does the same, different for what does not."""

from functools import partial

import numpy as np
import pytest

from bayes_gpx.system.digests import digest

# The same source at three places; the last one differs in a constant, a name, or an argument.
SOURCES = [
    ("def f(x): return 2 * x", "def f(x): return 3 * x"),
    ("def f(x): return min(x, 1)", "def f(x): return max(x, 1)"),
    ("def f(x, k=1): return k * x", "def f(x, k=2): return k * x"),
    ("def f(x, *, k=1): return k * x", "def f(x, *, k=2): return k * x"),
    ("f = lambda x: [i for i in x if i > 1]", "f = lambda x: [i for i in x if i > 2]"),
]


def made(source, lines_before=0):
    names = {}
    exec("\n" * lines_before + source, names)  # noqa: S102
    return names["f"]


@pytest.mark.parametrize(("source", "other"), SOURCES)
def test_functions_are_told_by_their_code_and_not_by_their_place(source, other):
    assert digest(made(source)) == digest(made(source, lines_before=7))
    assert digest(made(source)) != digest(made(other))


def test_what_a_function_closes_over_counts():
    def closing(value):
        return lambda x: x @ value

    big = np.zeros(5000)  # its repr is cut short
    other = big.copy()
    other[2500] = 1.0
    assert digest(closing(big)) == digest(closing(big.copy())) != digest(closing(other))
    assert digest(partial(np.add, 1)) == digest(partial(np.add, 1)) != digest(partial(np.add, 2))
    assert digest({"start": big}) != digest({"start": other}) != digest({"begin": other})
    assert digest([1, (2, 3)]) != digest([1, (2, 4)]) != digest([1, [2, 4]])
