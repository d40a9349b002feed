"""Functions in two stages: equal to functions in one, with fixed work done once."""

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

from bayes_gpx.numerics.compile_modes import BUFFERED_MODE, MODE
from bayes_gpx.numerics.threads import Staged

rng = np.random.default_rng(3)
X, Xs, t = rng.normal(size=(5, 2)), rng.normal(size=(4, 2)), np.array(0.7)


class Counted(Op):
    """Identity that counts its evaluations."""

    __props__ = ()

    def __init__(self):
        self.count = 0

    def make_node(self, x):
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        self.count += 1
        outputs[0][0] = inputs[0].copy()


def graphs(counted):
    x, xs, scale = pt.dmatrix("x"), pt.dmatrix("xs"), pt.dscalar("scale")
    products = counted(pt.dot(x, xs.T))
    return [scale], [x, xs], [pt.exp(scale * products), products.sum(axis=0), scale + 1.0]


def test_equals_the_function_in_one_stage():
    changing, fixed, outputs = graphs(Counted())
    expected = pytensor.function([*changing, *fixed], outputs, mode=MODE)(t, X, Xs)
    for mode in (MODE, BUFFERED_MODE):
        found = Staged(changing, fixed, outputs, mode).given(X, Xs)(t)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)


def test_fixed_work_is_done_once():
    counted = Counted()
    given = Staged(*graphs(counted), MODE).given(X, Xs)
    for scale in (0.1, 0.2, 0.3):
        given(np.array(scale))
    assert counted.count == 1


def test_several_settlements_live_side_by_side():
    staged = Staged(*graphs(Counted()), BUFFERED_MODE)
    first, second = staged.given(X, Xs), staged.given(2.0 * X, Xs)
    second(t)
    np.testing.assert_allclose(first(t)[0], np.exp(t * X @ Xs.T), rtol=1e-14)
    np.testing.assert_allclose(second(t)[0], np.exp(2.0 * t * X @ Xs.T), rtol=1e-14)
