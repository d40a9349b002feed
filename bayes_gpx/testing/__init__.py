"""Checks for those who write kernels and likelihoods: what a model relies on, without pytest.

They are necessary, not sufficient. Each raises an `AssertionError` that says what differs, where
and by how much; a likelihood's values at extreme hyperparameters remain to be tested otherwise.
"""

from bayes_gpx.testing.kernels import check_kernel
from bayes_gpx.testing.likelihoods import check_likelihood

__all__ = ["check_kernel", "check_likelihood"]
