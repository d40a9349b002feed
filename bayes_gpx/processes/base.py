"""What processes share: prior covariances, blocks and variances of operators."""

import pytensor.tensor as pt

from bayes_gpx.processes import covariance
from bayes_gpx.processes.operators import AtPoints, Stack, Sum


class Process:
    """Bilinearity: what adding, scaling and stacking operators does to covariances."""

    def covariance(self, L, M):
        """Prior covariance matrix of L's values with M's, (len L, len M)."""
        if not isinstance(L, AtPoints):
            return _combine(L, [self.covariance(part, M) for part in _parts(L)], axis=0)
        if not isinstance(M, AtPoints):
            return _combine(M, [self.covariance(L, part) for part in _parts(M)], axis=1)
        return self._covariance(L, M)

    def variance(self, L):
        """Prior variance of each of L's values, (len L,)."""
        if isinstance(L, AtPoints):
            return self._variance(L)
        if isinstance(L, Stack):
            return pt.concatenate([self.variance(part) for part in L.parts])
        return pt.diagonal(self.covariance(L, L))

    def block(self, L):
        """Prior covariance between the components of each observation, (obs, c, c)."""
        if isinstance(L, AtPoints):
            return self._block(L)
        raise ValueError(
            "block is defined for one operator at points; a sum or stack of operators has no "
            "single component axis. Ask for `cov`, or for each operator's block."
        )

    def summed(self, L, M, weights):
        """Sum over M's values of their prior covariance with L's, times weights (m | 1, len M).

        Returns
        -------
        tensor (m, c)
            For a gradient or Hessian L, and M's values, without the matrix of covariances.
        """
        if isinstance(M, AtPoints) and M.kind == "evaluate" and L.kind in covariance.SLOPES:
            return self._summed(L, M, weights)
        m = pt.as_tensor_variable(L.X).shape[0]
        by_points = self.covariance(L, M).reshape((m, -1, weights.shape[1]))
        return (by_points * weights[:, None]).sum(axis=2)

    def cross(self, L):
        """Prior covariance of a gradient's or Hessian's components with f there, (m, c)."""
        return self._cross(L)


def _diagonals(block):
    return pt.diagonal(block, axis1=1, axis2=2).reshape((-1,))


def _cross(kernel, L, M):
    x = _tensor(L.X)
    return kernel.gram(x) if L.X is M.X else kernel.value(x, _tensor(M.X))


def _parts(operator):
    if isinstance(operator, Stack):
        return operator.parts
    if isinstance(operator, Sum):
        return operator.terms
    return (operator.operator,)


def _combine(operator, blocks, axis):
    if isinstance(operator, Stack):
        return pt.concatenate(blocks, axis=axis)
    if isinstance(operator, Sum):
        return sum(blocks[1:], start=blocks[0])
    return operator.factor * blocks[0]


def _tensor(points):
    return pt.as_tensor_variable(points)
