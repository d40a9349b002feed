"""Arrays of some columns among all of them, against NumPy's assignment, to the last bit."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from bayes_gpx.numerics.columns import among_all
from bayes_gpx.numerics.compile_modes import MODE


@pytest.mark.parametrize("axes", [(1,), (0, 2), (1, 0)])
@pytest.mark.parametrize("symbolic", [False, True])
def test_columns_are_placed_among_zeros(rng, axes, symbolic):
    columns, d = np.array([4, 0, 3]), 6
    part, wide = rng.normal(size=(3, 3, 3)), pt.matrix("wide")
    x = pt.tensor("x", dtype="float64", shape=(None, None, None))
    graph = among_all(x, columns, wide.shape[1] if symbolic else d, *axes)
    function = pytensor.function([x, wide], graph, mode=MODE, on_unused_input="ignore")
    where = [columns if axis in axes else np.arange(3) for axis in range(3)]
    expected = np.zeros([d if axis in axes else 3 for axis in range(3)])
    expected[np.ix_(*where)] = part
    found = function(part, np.zeros((2, d)))
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, expected)


def test_lengths_that_are_plain_to_see_are_known():
    x = pt.tensor("x", dtype="float64", shape=(None, 2, 5))
    assert among_all(x, np.array([0, 2]), 4, 1).type.shape == (None, 4, 5)
    assert among_all(x, np.array([0, 2]), pt.dmatrix().shape[1], 1).type.shape == (None, None, 5)
