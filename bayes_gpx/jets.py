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
    first = sum(information[:, None] * jet.first**2 for jet, information in parameters)
    if any(jet.second is None for jet, _ in parameters):
        return np.sqrt(first), None
    second = sum(information[:, None, None] * jet.second**2 for jet, information in parameters)
    return np.sqrt(first), np.sqrt(factor * second)
