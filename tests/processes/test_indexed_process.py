"""Processes of several outputs: each cheap graph agrees with the full covariance."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

from bayes_gpx.processes import operators
from bayes_gpx.processes.approximations import HSGP
from bayes_gpx.processes.basis_process import expanded
from bayes_gpx.processes.gaussian_process import GaussianProcess
from bayes_gpx.processes.indexed_process import IndexedProcess, Loaded, Part, in_groups

RNG = np.random.default_rng(8)
X, CODES = RNG.normal(size=(5, 2)), np.array([0, 2, 1, 1, 0])
OTHER, OTHERS = RNG.normal(size=(4, 2)), np.array([1, 0, 2, 2])
MIXING = RNG.normal(size=(3, 2))
CLOSE = {"rtol": 1e-10, "atol": 1e-12}


@pytest.fixture(scope="module")
def found():
    """Arrays of both operators at X, and of values at other points."""
    kernels = pm.gp.cov.ExpQuad(2, ls=[0.9, 1.7]), 0.5 * pm.gp.cov.Matern52(2, ls=1.3)
    pairs = zip(kernels, MIXING.T, strict=True)
    process = IndexedProcess(
        [Part(GaussianProcess(kernel), (Loaded(pt.constant(m)),)) for kernel, m in pairs]
    )
    x, other = in_groups(X, CODES), in_groups(OTHER, OTHERS)
    f, slope, there = (
        operators.evaluate(x),
        operators.gradient(x),
        operators.evaluate(other),
    )
    weights = RNG.normal(size=(1, 4))
    graphs = {
        "slopes": process.covariance(slope, slope),
        "slope and value": process.covariance(slope, f),
        "elsewhere": process.covariance(slope, there),
        "block": process.block(slope),
        "variance": process.variance(slope),
        "cross": process.cross(slope),
        "summed": process.summed(slope, there, pt.constant(weights)),
        "values": process.covariance(f, there),
        "apart": process.parts[0].process.covariance(
            operators.evaluate(X), operators.evaluate(OTHER)
        ),
        "rest": process.parts[1].process.covariance(
            operators.evaluate(X), operators.evaluate(OTHER)
        ),
    }
    arrays = pytensor.function([], list(graphs.values()), mode="FAST_COMPILE")()
    return dict(zip(graphs, arrays, strict=True)) | {"weights": weights}


def test_values_are_mixed_by_the_shares_of_their_outputs(found):
    shares = [np.outer(MIXING[CODES, j], MIXING[OTHERS, j]) for j in range(2)]
    expected = shares[0] * found["apart"] + shares[1] * found["rest"]
    np.testing.assert_allclose(found["values"], expected, **CLOSE)


def test_blocks_and_variances_are_those_of_the_covariance(found):
    full = found["slopes"].reshape((5, 2, 5, 2))
    np.testing.assert_allclose(found["block"], np.einsum("icid->icd", full), **CLOSE)
    np.testing.assert_allclose(found["variance"], np.diag(found["slopes"]), **CLOSE)
    assert np.linalg.eigvalsh(found["slopes"]).min() > 0.0


def test_sums_and_covariances_with_values_at_the_same_points(found):
    full = found["slope and value"].reshape((5, 2, 5))
    np.testing.assert_allclose(found["cross"], np.einsum("ici->ic", full), **CLOSE)
    expected = (found["elsewhere"] @ found["weights"][0]).reshape((5, 2))
    np.testing.assert_allclose(found["summed"], expected, **CLOSE)


def test_basis_functions_have_covariances_of_slopes_with_values():
    """As the full covariance has them, at the same points."""
    kernel = GaussianProcess(pm.gp.cov.ExpQuad(2, ls=[0.9, 1.7]))
    process = expanded(kernel, HSGP(4), pt.constant(X))
    slope, value = operators.gradient(pt.constant(X)), operators.evaluate(pt.constant(X))
    graphs = [process.cross(slope), process.covariance(slope, value)]
    cross, whole = pytensor.function([], graphs, mode="FAST_COMPILE")()
    np.testing.assert_allclose(cross, np.einsum("idi->id", whole.reshape((5, 2, 5))), **CLOSE)
    assert abs(cross).max() > 0.01
