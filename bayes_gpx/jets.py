"""A number that varies with x, known with its derivatives there."""

from typing import NamedTuple

import numpy as np


class Jet(NamedTuple):
    """Values at m points, with their derivatives in d features.

    Attributes
    ----------
    value : array (m,)
    first : array (m, d) or None
    second : array (m, d, d) or None
    """

    value: np.ndarray
    first: np.ndarray | None = None
    second: np.ndarray | None = None

    def shifted(self, constant):
        """The sum with a number that does not vary with x."""
        return self._replace(value=self.value + constant)


def expectation(mean, variance, value, rates):
    """Jet of E g(f) where f ~ N(mean, variance), both jets.

    A derivative of a Gaussian expectation in the variance is half the second one in the mean.

    Parameters
    ----------
    mean, variance : Jet
    value : array (m,)
        E g(f).
    rates : sequence of arrays (m,)
        Expectations of the first two derivatives of g, or for second derivatives of all four.
    """
    if mean.first is None:
        return Jet(value)
    one, two = rates[0][:, None], rates[1][:, None] / 2.0
    first = one * mean.first + two * variance.first
    if mean.second is None:
        return Jet(value, first)
    one, two, three, four = (
        rate[:, None, None] / part for rate, part in zip(rates, (1.0, 2.0, 2.0, 4.0), strict=True)
    )
    crossed = mean.first[:, :, None] * variance.first[:, None]
    second = (
        one * mean.second
        + two * variance.second
        + 2.0 * two * (mean.first[:, :, None] * mean.first[:, None])
        + three * (crossed + crossed.transpose(0, 2, 1))
        + four * (variance.first[:, :, None] * variance.first[:, None])
    )
    return Jet(value, first, second)


def change(parameters, factor=1.0):
    """How fast a distribution leaves itself as x changes: KL-diff and KL-diff^2.

    With parameters theta_k of Fisher information I_k, uncorrelated, the Kullback-Leibler divergence
    from p(x) to p(x + t e_d) is ``t^2 / 2 sum_k I_k theta_k,d^2`` to second order.

    Parameters
    ----------
    parameters : sequence of (Jet, array (m,))
        Parameters of the distribution and the Fisher information of each.
    factor : float
        Of the sum for pairs of features.

    Returns
    -------
    first : array (m, d)
        ``sqrt(sum_k I_k theta_k,d^2)``.
    second : array (m, d, d) or None
        ``sqrt(factor sum_k I_k theta_k,de^2)``.

    References
    ----------
    Paananen, Andersen and Vehtari, "Uncertainty-aware sensitivity analysis using Renyi divergences"
    (2021), equations 2 and 3; the supplement has the latter with a factor of 1.
    """
    roots = [(jet, np.sqrt(information)) for jet, information in parameters]
    first = sum((root[:, None] * jet.first) ** 2 for jet, root in roots)
    if any(jet.second is None for jet, _ in roots):
        return np.sqrt(first), None
    second = sum((root[:, None, None] * jet.second) ** 2 for jet, root in roots)
    return np.sqrt(first), np.sqrt(factor * second)
