"""Classes and counts with constraints, on all rows, by expectation propagation."""

from dataclasses import replace

import numpy as np
import pytensor.tensor as pt

from bayes_gpx.posteriors.evidence.expectation_propagation import all_sites
from bayes_gpx.posteriors.evidence.groups import Precision
from bayes_gpx.posteriors.evidence.normal import normal_logp
from bayes_gpx.posteriors.strategies.laplace import values_by_name, values_of
from bayes_gpx.posteriors.strategies.left_out import groups_of_sites, scored
from bayes_gpx.posteriors.strategies.with_constraints import ExactWithConstraints, joint_covariance


class Propagation(ExactWithConstraints):
    """Another log-concave likelihood of one latent value, with constraints.

    Every observation and every bound is a site of expectation propagation, like a Gaussian
    likelihood with a variance for each. Laplace's approximation would fail: if a sign is sharp, the
    mode is at the bound.
    """

    def around(self, given, constraints):
        given = replace(given, constraints=constraints)
        return self.posterior(given, self.condition(given))

    def parts(self, given, ridge=0.0):
        return [given.exposure, *values_of(given), *super().parts(given, ridge)]

    def _covariance(self, given, **added):
        return joint_covariance(given, 0.0, **added)

    def _bounds(self, given):
        return [pt.zeros(0)] * 2 if given.constraints is None else super()._bounds(given)

    def signature(self, likelihood):
        return f"(n){',()' * len(likelihood.hyperparameters)},{super().signature(likelihood)}"

    def constraint_covariance(self, *parts):
        return super().constraint_covariance(*parts[-3:])

    def _joint_logp(self, likelihood, y, exposure, *others):
        *values, C, low, high = others
        theta = values_by_name(likelihood, values)
        return _evidence(C, all_sites(likelihood, C, y, theta, exposure, low, high))

    def _seen(self, given):
        C, found = self._sites(given)
        return found.mean, _noisy(C, found), found.log_factor

    def _sites(self, given):
        """Prior covariance of all values, and their sites."""
        C, known = self._covariance(given, jitter=given.jitter), (given.theta, given.exposure)
        return C, all_sites(given.likelihood, C, given.y, *known, *self._bounds(given))

    def leave_one_out(self, given):
        C, found = self._sites(given)
        evidence = _evidence(C, found) - self.log_constraint(C, *self._bounds(given))
        return scored(given, evidence, found.center, found.spread)

    def leave_groups_out(self, given, groups):
        C, found = self._sites(given)
        n, precision = given.y.shape[0], Precision.of(_noisy(C, found))
        alpha = pt.dot(precision.H.T, pt.dot(precision.H, found.mean))[:n]
        own = Precision(precision.own[:n], precision.H[:, :n], precision.sign)
        sites = found.mean[:n], found.variance[:n], found.of_rows
        return groups_of_sites(given, groups, own, alpha, *sites)


def _noisy(C, found):  # noqa: N803
    """Covariance of the sites' means."""
    own = pt.arange(C.shape[0])
    return C[own, own].inc(found.variance)


def _evidence(C, found):  # noqa: N803
    """Log density of y and probability, or density, of the constraints; -inf where no sites are."""
    of_means = normal_logp(found.mean, _noisy(C, found))
    return pt.switch(pt.isinf(of_means), -np.inf, of_means + found.log_factor)
