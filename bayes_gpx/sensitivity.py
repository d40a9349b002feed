"""How a new sample's predictive mean and variance change with its features, for one draw."""

from dataclasses import dataclass

import pytensor.tensor as pt

from bayes_gpx import operators
from bayes_gpx.collapsed import again
from bayes_gpx.expansions import own_variances
from bayes_gpx.questions import features_along


@dataclass(frozen=True)
class Sensitivity:
    """Mean m and variance V of f at new points, with their derivatives: a build function.

    With f_d and f_de short for the derivatives of f, all from the one formula,

        m_d = E f_d           V_d = 2 Cov(f_d, f)
        m_de = E f_de         V_de = 2 Cov(f_de, f) + 2 Cov(f_d, f_e)

    given y. In a GPX the new sample's own `eps_w` is part of f, but for `smooth`: V has
    ``sum_l sigma_w,l^2 z_l^2`` too, which changes with x where z is x. The variance of Hessians is
    never asked for.

    Attributes
    ----------
    order : {0, 1, 2}
    tied : bool
        Z is X, perhaps with a last column of ones.
    smooth : bool
        Of z' g(x) alone.
    """

    order: int
    tied: bool
    smooth: bool = False

    def __call__(self, specification, process, theta, s):
        """Return m and V (m,); then m_d and V_d (m, d); then m_de and V_de (m, d, d)."""
        q = again(specification, process, theta, s, s.label)
        x, z = s.X_new, features_along(s) if self.tied else s.Z_new
        shape = tuple(x.shape)
        f = q(operators.evaluate(x, z, smooth=True))
        found = [f.mean, f.variance]
        if self.order > 0:
            slope = q(operators.gradient(x, z, tied=self.tied))
            mean = slope.mean_alone if self.order == 1 else slope.mean
            found += [mean.reshape(shape), 2.0 * slope.cross(f)]
        if self.order > 1:
            bend = q(operators.hessian(x, z, tied=self.tied))
            with_value = _symmetric(bend.cross(f), shape)
            found += [_symmetric(bend.mean_alone, shape), 2.0 * (with_value + slope.block)]
        spread = own_variances(process)
        if spread is None or self.smooth:
            return found
        found[1] = found[1] + (pt.sqr(z) * spread).sum(axis=1)
        if self.tied and self.order > 0:
            rate = 2.0 * (spread * pt.ones(z.shape[1]))[: x.type.shape[1]]
            found[3] = found[3] + rate * x
            if self.order > 1:
                found[5] = found[5] + pt.diag(rate)
        return found


def _symmetric(pairs, shape):
    """Numbers for pairs of features, (m, d, d); symmetric to the last digit."""
    square = pairs.reshape((*shape, shape[1]))
    return 0.5 * (square + square.transpose(0, 2, 1))
