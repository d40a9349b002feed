"""Checks for authors of kernels and likelihoods of all that a model relies on, without pytest.

They are necessary, not sufficient. Each raises an `AssertionError` that describes the difference,
its place and size. Test a likelihood's values at extreme hyperparameters separately.
"""

from bayes_gpx.testing.kernels import check_kernel
from bayes_gpx.testing.likelihoods import check_likelihood

__all__ = ["check_kernel", "check_likelihood"]
