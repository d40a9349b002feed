"""Small data with structure, and seeds by name."""

import gc
import sys

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytensor
import pytest

# Both only cost time here: graphs are small objects that live as long as the
# process, and nobody reads where a node was made.
gc.disable()
pytensor.config.traceback__limit = 0

MANY = 5_000_000
"""So many new objects are searched for garbage; those that stay are not searched again."""


@pytest.fixture(autouse=True, scope="module")
def _less_garbage():
    """Free what the tests of a file left, if it is much."""
    yield
    if gc.get_count()[0] > MANY:
        gc.collect()
        gc.freeze()


@pytest.fixture(autouse=True)
def _own_style():
    """Keep a test's style and open figures of matplotlib from the tests after it."""
    with mpl.rc_context():
        yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")


@pytest.fixture
def rng(request):
    """Random generator seeded by the test's name."""
    return np.random.default_rng(sum(map(ord, request.node.name)))


@pytest.fixture(scope="session")
def regression():
    """Features X, features Z of their own, response y, and new rows of both."""
    rng = np.random.default_rng(20)
    X = pd.DataFrame(rng.normal([5.0, -2.0], [2.0, 0.3], (14, 2)), columns=["age", "dose"])
    Z = pd.DataFrame(rng.normal([1.0, 40.0, 0.0], [0.5, 9.0, 2.0], (14, 3)), columns=list("abc"))
    y = pd.Series(
        100 + 12 * np.sin(X["age"]) * Z["a"] - Z["c"] + rng.normal(0, 2, 14), name="pressure"
    )
    X_new = pd.DataFrame(rng.normal([5.0, -2.0], [2.0, 0.3], (4, 2)), columns=X.columns)
    Z_new = pd.DataFrame(rng.normal([1.0, 40.0, 0.0], [0.5, 9.0, 2.0], (4, 3)), columns=Z.columns)
    return X, Z, y, X_new, Z_new
