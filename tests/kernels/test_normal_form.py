"""Profiles and terms of kernels: what a new kernel has to be, and that terms add up."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose

from bayes_gpx.kernels.from_pymc import from_pymc
from bayes_gpx.kernels.normal_form import terms
from bayes_gpx.kernels.profiles import PROFILES, RadialProfile
from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.processes import expected_gradients, integrated_gradients

cov = pm.gp.cov
LS = np.array([0.8, 1.3, 2.0])


class Cauchy(cov.Stationary):
    """1 / (1 + s^2 / 2), which is a rational quadratic kernel."""

    def full_from_distance(self, dist, squared=False):
        return 1.0 / (1.0 + 0.5 * (dist if squared else dist**2))


@dataclass(frozen=True)
class CauchyProfile(RadialProfile):
    smoothness: ClassVar = math.inf

    def radial(self, s2, order):
        return math.factorial(order) / (1.0 + 0.5 * s2) ** (order + 1)


@pytest.mark.parametrize(
    "several", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["one", "several"]
)
def test_a_new_stationary_kernel_is_one_profile_and_its_name(rng, monkeypatch, several):
    """Its values, slopes and attributions; of several points together, and of baselines."""
    monkeypatch.setitem(PROFILES, Cauchy, CauchyProfile)
    x, xs = (pt.as_tensor(v) for v in rng.normal(size=(2, 4, 3)))
    baselines = pt.as_tensor(rng.normal(size=(2, 3)))
    graphs = []
    for own in (Cauchy(3, ls=LS), cov.RatQuad(3, ls=LS, alpha=1.0)):
        kernel = from_pymc(1.7 * own)
        assert kernel.smoothness == math.inf
        if several:
            graphs += [
                integrated_gradients.between(kernel, x, xs, baselines[0]),
                expected_gradients.block(kernel, x, baselines),
            ]
        else:
            graphs += [
                kernel.gram(x),
                kernel.derivative(x, xs, 2, 2),
                integrated_gradients.cross(kernel, x, baselines[0], xs),
                integrated_gradients.block(kernel, x, baselines[0]),
            ]
    found = pytensor.function([], graphs, mode=MODE)()
    half = len(found) // 2
    for new, known in zip(found[:half], found[half:], strict=True):
        assert_allclose(new, known, rtol=1e-9, atol=1e-9)  # 48 nodes in panels, where none is known


KERNELS = {
    "sum": (1.3 * cov.ExpQuad(3, ls=LS) + 0.4 * cov.Matern52(3, ls=0.9) + 0.2, 3),
    "columns": (2.0 * (3.0 * cov.ExpQuad(3, ls=1.0, active_dims=[2, 0]) + cov.Linear(3, c=0.1)), 2),
    "weighed": (
        0.5 * (cov.ExpQuad(3, ls=LS) + 1.0 * cov.RatQuad(3, ls=1, alpha=2)) * cov.Linear(3, c=0.3),
        2,
    ),
    "weighed by a multiple": (
        cov.Matern32(3, ls=LS) * (0.7 * cov.Linear(3, c=0.3, active_dims=[1])),
        1,
    ),
    "opaque": (
        0.5 * (cov.ExpQuad(3, ls=LS) * cov.Matern52(3, ls=1.0)) + cov.Polynomial(3, 0.2, 2, 1.0),
        2,
    ),
}


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("weighed", [True, False])
def test_terms_add_up_to_the_kernel(rng, name, weighed):
    kernel, (cov_func, count) = from_pymc(KERNELS[name][0]), KERNELS[name]
    X = rng.normal(size=(5, 3))
    found = terms(kernel, 3, weighed=weighed)
    assert all(term.linear is None for term in found) or weighed
    if weighed:
        assert len(found) == count
    total = 0.0
    for term in found:
        part = term.kernel.gram(term.of(pt.as_tensor(X)))
        if term.linear is not None:
            part = part * term.linear.kernel.gram(term.linear.of(pt.as_tensor(X)))
        total = total + (part if term.variance is None else term.variance * part)
    found, expected = pytensor.function([], [total, cov_func(pt.as_tensor(X))], mode=MODE)()
    assert_allclose(found, expected, rtol=1e-9)
