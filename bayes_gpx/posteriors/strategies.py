"""How data become a posterior: twelve strategies, each final, on rows or through coefficients.

On rows, the n latent values at the observations are conditioned on. Through coefficients, of basis
functions or of inducing values, there are M of them; see `bayes_gpx.posteriors.low_rank`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Container
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import disconnected_grad

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.numerics.linear_algebra import cholesky, solve, solve_root
from bayes_gpx.numerics.special import log_normal
from bayes_gpx.posteriors.base import (
    BELIEVED,
    LATENT,
    OWN_WHITENED,
    WHITENED,
    Collapsed,
    Found,
    GroupsLeft,
    LeftOut,
    Strategy,
)
from bayes_gpx.posteriors.beliefs import joint_logp, sites, with_sites
from bayes_gpx.posteriors.correlated import Correlated
from bayes_gpx.posteriors.evidence.correlated import correlated_laplace, correlated_mode
from bayes_gpx.posteriors.evidence.groups import Precision, groups_left_out, sum_of_group
from bayes_gpx.posteriors.evidence.laplace import laplace_evidence, laplace_sites
from bayes_gpx.posteriors.evidence.normal import (
    leave_one_out,
    low_rank_leave_one_out,
    low_rank_logp,
    normal_logp,
)
from bayes_gpx.posteriors.evidence.row_bounds import (
    Rows,
    best_normal,
    best_variational,
    bound_around,
    expected_log,
    expected_normal,
)
from bayes_gpx.posteriors.evidence.softmax import softmax_laplace, softmax_mode
from bayes_gpx.posteriors.evidence.sums import Sums, sums_logp
from bayes_gpx.posteriors.evidence.variational import KEPT, variational
from bayes_gpx.posteriors.exact import exact, noisy_covariance
from bayes_gpx.posteriors.gaussian import Posterior
from bayes_gpx.posteriors.laplace import laplace, prior_covariance
from bayes_gpx.posteriors.latent import latent
from bayes_gpx.posteriors.low_rank import LEAST_VARIANCE, LowRank, LowRankDesign
from bayes_gpx.posteriors.prior_functions import by_class, prior_function
from bayes_gpx.posteriors.softmax import Coupled
from bayes_gpx.processes.basis_process import BasisProcess
from bayes_gpx.processes.operators import Derivative

if TYPE_CHECKING:
    from bayes_gpx.posteriors.base import Conditioning, Values
    from bayes_gpx.posteriors.beliefs import Beliefs
    from bayes_gpx.processes.operators import Operator

LEAST_SITE = 1e-9
"""Information of an observation that is left out, at the least, as a share of what f's variance
makes of it: less says nothing, and the difference of two covariances would lose it."""

LATENT_JITTER = 1e-8
"""Added to the covariance of latent values that are drawn, as a multiple of its mean diagonal."""


class _OnRows(Strategy):
    """Conditioning on the n latent values at the observations."""

    def posterior(self, given, found, label=None):
        alpha = found.alpha if label is None else found.alpha[:, label]
        return Posterior(given.process, given.known, given.y, alpha, found.root)

    def update(self, given, found, fresh):
        """Matheron's rule: alpha less C times the prior function's values, noise added."""
        values = prior_function(given, fresh)(given.known_smooth)
        own = self._observed_variance(given, found) - given.process.variance(given.known_smooth)
        noise = pt.sqrt(pt.maximum(own, 0.0))
        noise = noise[:, None] if given.columns else noise
        values = values + noise * fresh.normal((found.alpha.shape[0], *given.columns))
        return found.alpha - self._weights(given, found, values, fresh)

    def _observed_variance(self, given, found):
        """Prior variance of what is known, noise included where it is normal."""
        return pt.sqr(found.root).sum(axis=1)

    def _weights(self, given, found, values, fresh):
        """C times such values, (n,) or (n, C)."""
        return solve(found.root, values)

    def function(self, given, update, fresh):
        prior, process = prior_function(given, fresh), given.process

        def summed(operator, weights):
            return process.summed(operator, given.known_smooth, weights[None]).reshape((-1,))

        def moved(operator):
            if isinstance(operator, Derivative):
                return by_class(summed, operator, update, given)
            return pt.dot(process.covariance(operator, given.known_smooth), update)

        return lambda operator: prior(operator) + moved(operator)


class Exact(_OnRows, Collapsed):
    """Normal noise on every row."""

    def parts(self, given, ridge=0.0):
        sigma = given.theta["sigma"]
        return [noisy_covariance(given.process, given.X, sigma, given.Z, ridge=ridge)]

    def signature(self, likelihood):
        return "(n,n)"

    def log_density(self, likelihood, y, C):  # noqa: N803
        return normal_logp(y, C)

    def condition(self, given):
        sigma, jitter = given.theta["sigma"], given.jitter
        q = exact(given.process, given.X, given.y, sigma, given.Z, jitter=jitter)
        return Found(q.alpha, q.root)

    def leave_one_out(self, given):
        sigma, jitter = given.theta["sigma"], given.jitter
        C = noisy_covariance(given.process, given.X, sigma, given.Z, jitter=jitter)
        return _with_normal_noise(given, *leave_one_out(given.y, C))

    def leave_groups_out(self, given, groups):
        sigma, jitter = given.theta["sigma"], given.jitter
        precision = Precision.of(
            noisy_covariance(given.process, given.X, sigma, given.Z, jitter=jitter)
        )
        alpha = pt.dot(precision.H.T, pt.dot(precision.H, given.y))
        return _groups_of_normal(given, *groups_left_out(precision, alpha, groups))


class WithBeliefs(Collapsed):
    """Normal noise, and beliefs, each of which is a row more.

    Bounds are sites of expectation propagation, which stay what all rows made them where rows are
    left out; or values, where a draw holds those.
    """

    plain: ClassVar[type[Collapsed]]
    """The strategy for data without beliefs."""

    def around(self, given: Conditioning, beliefs: Beliefs | None) -> Callable[[Operator], Values]:
        """The posterior given the data and such beliefs in the place of all."""
        strategy = self.plain() if beliefs is None else self
        given = replace(given, beliefs=beliefs)
        return strategy.posterior(given, strategy.condition(given))

    def _bounds(self, given):
        """Bounds (k,), the same where a value is known or was drawn."""
        bounds = [pt.constant(bound) for bound in (given.beliefs.low, given.beliefs.high)]
        if BELIEVED not in given.theta:
            return bounds
        own = np.flatnonzero(given.beliefs.low < given.beliefs.high)
        return [bound[own].set(given.theta[BELIEVED]) for bound in bounds]

    def log_density(self, likelihood, y, *parts):
        """Of y given the beliefs."""
        joint = self._joint_logp(y, *parts)
        return pt.switch(pt.isinf(joint), -np.inf, joint - self.log_belief(*parts))

    @abstractmethod
    def _joint_logp(self, y, *parts):
        """Log density of y and probability, or density, of the beliefs."""

    def log_belief(self, *parts: Tensor) -> Tensor:
        """Log probability of the beliefs under the prior, or density of those that are values."""
        C, low, high = self.belief_covariance(*parts), *parts[-2:]
        return joint_logp(C, pt.zeros(0), low, high)

    @abstractmethod
    def belief_covariance(self, *parts: Tensor) -> Tensor:
        """Prior covariance of what is believed something of, noise included, (k, k)."""


class ExactWithBeliefs(_OnRows, WithBeliefs):
    """Beliefs beside normal noise on every row."""

    plain = Exact

    def parts(self, given, ridge=0.0):
        return [self._covariance(given, ridge=ridge), *self._bounds(given)]

    def _covariance(self, given, **added):
        """Covariance of y and of what is believed something of, noise included."""
        sigma = given.theta["sigma"] * pt.ones(given.y.shape[0])
        sd = pt.concatenate([sigma, given.beliefs.sd])
        return noisy_covariance(given.process, given.known, sd, given.Z, **added)

    def signature(self, likelihood):
        return "(m,m),(k),(k)"

    def _joint_logp(self, y, C, low, high):  # noqa: N803
        return joint_logp(C, y, low, high)

    def belief_covariance(self, C, low, high):  # noqa: N803
        n = C.shape[0] - low.shape[0]
        return C[n:, n:]

    def condition(self, given):
        y, C, _ = self._seen(given)
        root = cholesky(C)
        return Found(solve(root, y), root)

    def _seen(self, given):
        """All that is observed, beliefs as sites; its covariance; and the log of their factors."""
        C = self._covariance(given, jitter=given.jitter)
        found = sites(C, given.y, *self._bounds(given))
        return *with_sites(C, given.y, found), found.log_factor

    def leave_one_out(self, given):
        y, C, log_factor = self._seen(given)
        prior = self._covariance(given, jitter=given.jitter)
        beliefs = self.log_belief(prior, *self._bounds(given))
        joint, mean, variance = leave_one_out(y, C)
        n = given.y.shape[0]
        return _with_normal_noise(given, joint + log_factor - beliefs, mean[:n], variance[:n])

    def leave_groups_out(self, given, groups):
        y, C, _ = self._seen(given)
        n, precision = given.y.shape[0], Precision.of(C)
        alpha = pt.dot(precision.H.T, pt.dot(precision.H, y))[:n]
        own = Precision(precision.own[:n], precision.H[:, :n], precision.sign)
        return _groups_of_normal(given, *groups_left_out(own, alpha, groups))


class Laplace(_OnRows, Collapsed):
    """Another likelihood of one latent value, by Laplace's approximation at the mode."""

    def parts(self, given, ridge=0.0):
        return [_ridged(given, ridge), given.exposure, *_values(given)]

    def signature(self, likelihood):
        return f"(n,n),(n){',()' * len(likelihood.hyperparameters)}"

    def log_density(self, likelihood, y, K, exposure, *values):  # noqa: N803
        return laplace_evidence(likelihood, K, y, _named(likelihood, values), exposure)[0]

    def condition(self, given):
        options = {"theta": given.theta, "exposure": given.exposure, "jitter": given.jitter}
        q = laplace(given.process, given.X, given.y, given.likelihood, given.Z, **options)
        return Found(q.alpha, q.root)

    def leave_one_out(self, given):
        K = prior_covariance(given.process, given.X, given.Z, jitter=given.jitter)
        found = laplace_sites(given.likelihood, K, given.y, given.theta, given.exposure)
        spread = found.variance / found.left
        return _scored(given, found.logp, found.f - spread * found.alpha, spread)

    def leave_groups_out(self, given, groups):
        K = prior_covariance(given.process, given.X, given.Z, jitter=given.jitter)
        found = laplace_sites(given.likelihood, K, given.y, given.theta, given.exposure)
        W, own = pt.maximum(found.W, LEAST_SITE / pt.diagonal(K)), pt.arange(K.shape[0])
        precision = Precision.of(K[own, own].inc(1.0 / W))
        height = given.likelihood.logp(found.f, given.y, given.theta, given.exposure)
        return _groups_of_sites(given, groups, precision, found.f, found.alpha, W, height)


class SoftmaxLaplace(_OnRows, Collapsed):
    """Several classes, which the data couple, by Laplace's approximation at the joint mode."""

    root_by_class = True

    def parts(self, given, ridge=0.0):
        return [_ridged(given, ridge), given.exposure, *_values(given)]

    def signature(self, likelihood):
        return f"(n,n),(n){',()' * len(likelihood.hyperparameters)}"

    def log_density(self, likelihood, y, K, exposure, *values):  # noqa: N803
        return softmax_laplace(likelihood, K, y).logp

    def condition(self, given):
        return _where_found(*softmax_mode(given.likelihood, self._prior(given), given.y))

    def _prior(self, given):
        return prior_covariance(given.process, given.X, given.Z, jitter=given.jitter)

    def posterior(self, given, found, label=None):
        return self._coupled(given, found).of(label)

    def _coupled(self, given, found):
        return Coupled(given.process, given.observed, found.alpha, found.root, given.y)

    def leave_one_out(self, given):
        K = self._prior(given)
        found = softmax_laplace(given.likelihood, K, given.y)
        return _cavities(given, found, pt.dot(K, found.alpha))

    def _observed_variance(self, given, found):
        return given.process.variance(given.observed)

    def _weights(self, given, found, values, fresh):
        coupled = self._coupled(given, found)
        return coupled.information(self._prior(given), values, fresh.normal(values.shape))


class _OfCorrelatedClasses(_OnRows):
    """Several classes whose functions correlate beforehand."""

    @abstractmethod
    def joint(self, given: Conditioning, found: Found) -> Correlated:
        """The posterior of all classes."""

    def posterior(self, given, found, label=None):
        return self.joint(given, found).of(label)

    def _covariances(self, given, jitter):
        """Prior covariances of the observations' values by each part of the process, (S, n, n)."""
        parts = given.process.parts
        return pt.stack([prior_covariance(part, given.X, jitter=jitter) for part in parts])

    def function(self, given, update, fresh):
        prior = prior_function(given, fresh)
        weights = [(part, pt.dot(update, shared)) for part, shared in given.process.each()]

        def summed(part, operator, own):
            return part.summed(operator, given.observed, own[None]).reshape((-1,))

        def moved(operator, part, own):
            if isinstance(operator, Derivative):
                return by_class(partial(summed, part), operator, own, given)
            return pt.dot(part.covariance(operator, given.observed), own)

        return lambda operator: prior(operator) + sum(moved(operator, *own) for own in weights)


class CorrelatedLaplace(_OfCorrelatedClasses, Collapsed):
    """Labels of classes that correlate, by Laplace's approximation at the joint mode."""

    def parts(self, given, ridge=0.0):
        K, own = self._covariances(given, 0.0), pt.arange(given.X.shape[0])
        return [K[:, own, own].inc(ridge), given.process.shared, given.exposure]

    def signature(self, likelihood):
        return "(s,n,n),(s,c,c),(n)"

    def log_density(self, likelihood, y, K, shared, exposure):  # noqa: N803
        return correlated_laplace(likelihood, K, shared, y).logp

    def condition(self, given):
        K = self._covariances(given, given.jitter)
        return _where_found(*correlated_mode(given.likelihood, K, given.process.shared, given.y))

    def joint(self, given, found):
        own = pt.eq(given.y[:, None], pt.arange(given.likelihood.classes))
        p = pt.maximum(own - found.alpha, 0.0)
        return Correlated(given.process, given.observed, found.alpha, found.root, p)

    def leave_one_out(self, given):
        K = self._covariances(given, given.jitter)
        found = correlated_laplace(given.likelihood, K, given.process.shared, given.y)
        return _cavities(given, found, given.process.times(K, found.alpha))

    def update(self, given, found, fresh):
        values = prior_function(given, fresh)(given.observed)
        K, normal = self._covariances(given, given.jitter), fresh.normal(values.shape)
        return found.alpha - self.joint(given, found).information(K, values, normal)


class CorrelatedValues(_OfCorrelatedClasses):
    """Latent values of classes that correlate, which were sampled."""

    def values(self, given: Conditioning) -> Tensor:
        """Latent values at the observations, (n, C): as sampled, or from whitened ones."""
        if LATENT in given.theta:
            return given.theta[LATENT]
        white = given.theta[WHITENED]
        return pt.dot(self._root(given), white.ravel()).reshape(white.shape)

    def _root(self, given):
        K = given.process.covariance(given.observed, given.observed)
        own = pt.arange(K.shape[0])
        return cholesky(K[own, own].inc(LATENT_JITTER * pt.diagonal(K).mean()))

    def condition(self, given):
        root, f = self._root(given), self.values(given)
        return Found(solve(root, f.ravel()).reshape(f.shape), root)

    def joint(self, given, found):
        return Correlated(given.process, given.observed, found.alpha, found.root)

    def leave_one_out(self, given):
        """Of f_i given the other latent values, which the prior alone tells."""
        f, root = self.values(given), self._root(given)
        n, C = f.shape
        half = solve_root(root, pt.eye(root.shape[0]))
        by_rows = half.reshape((n * C, n, C)).transpose(1, 2, 0)
        own = pt.linalg.inv(pt.matmul(by_rows, by_rows.transpose(0, 2, 1)))
        pull = pt.dot(half.T, pt.dot(half, f.ravel())).reshape((n, C, 1))
        spread = pt.linalg.cholesky(own, lower=True, on_error="nan")
        return _scored_by_values(given, f, f - pt.matmul(own, pull)[:, :, 0], spread)

    def update(self, given, found, fresh):
        values, joint = prior_function(given, fresh)(given.observed), self.joint(given, found)
        return found.alpha - joint.weighed(values[:, :, None])[:, :, 0]


class SampledValues(_OnRows):
    """Latent values at the observations that were sampled: nothing of them is uncertain."""

    def values(self, given: Conditioning) -> Tensor:
        """Latent values at the observations, (n,) or (n, C): as sampled, or from whitened ones."""
        if LATENT in given.theta:
            return given.theta[LATENT]
        return pt.dot(self._root(given), given.theta[WHITENED])

    def _root(self, given):
        K = prior_covariance(given.process, given.X, given.Z, jitter=LATENT_JITTER)
        return cholesky(K)

    def condition(self, given):
        options = {"jitter": LATENT_JITTER}
        q = latent(given.process, given.X, self.values(given), given.Z, **options)
        return Found(q.alpha, q.root)

    def leave_one_out(self, given):
        """Of f_i given the other latent values, which the prior alone tells."""
        f, root = self.values(given), self._root(given)
        inverse = solve_root(root, pt.eye(root.shape[0]))
        own = 1.0 / pt.sqr(inverse).sum(axis=0)
        own = own[:, None] * pt.ones_like(f) if given.columns else own
        mean = f - own * pt.dot(inverse.T, pt.dot(inverse, f))
        return _scored_by_values(given, f, mean, own)


class _ThroughCoefficients(Strategy):
    """Conditioning on M coefficients, of basis functions or of inducing values."""

    def design(self, given: Conditioning, label: TensorLike | None = None) -> LowRankDesign:
        """What was observed, as it depends on the coefficients."""
        return LowRankDesign(
            given.process, None, 0.0, given.X, given.Z, given.inducing, given.jitter
        )

    @abstractmethod
    def posterior(self, given, found, label=None):
        """A `LowRank`."""

    def update(self, given, found, fresh):
        """Drawn coefficients; with inducing points, less those of the prior function."""
        prior = None if given.inducing is None else prior_function(given, fresh)
        normal = fresh.normal((found.alpha.shape[0], *given.columns))
        of_class = [self.posterior(given, found, label) for label in given.labels]
        if given.columns:
            drawn = [q.drawn(normal[:, c]) for c, q in enumerate(of_class)]
            drawn = pt.stack(drawn, axis=1)
        else:
            drawn = of_class[0].drawn(normal)
        if prior is None:
            return drawn
        return drawn - solve_root(self.design(given).inducing_root, prior(given.inducing))

    def function(self, given, update, fresh):
        if given.inducing is None:
            return lambda operator: by_class(given.process.values, operator, update, given)
        prior, design = prior_function(given, fresh), self.design(given)
        return lambda operator: prior(operator) + pt.dot(design.design(operator), update)

    def inducing_moments(self, given: Conditioning) -> list[Tensor]:
        """Mean of the inducing values, (M,) or (M, C), and a factor of their covariance.

        The factor is lower triangular, (M, M) or (C, M, M).
        """
        alpha, root = self.condition(given)
        to_values = self.design(given).inducing_root
        half = solve_root(root, pt.broadcast_to(to_values.T, root.shape))
        # PyTensor types the arguments of matmul as NumPy's.
        covariance = pt.matmul(pt.swapaxes(half, -1, -2), half)  # type: ignore[arg-type]
        factor = pt.linalg.cholesky(covariance, lower=True, on_error="nan")
        return [pt.dot(to_values, alpha), factor]


class LowRankNormal(_ThroughCoefficients, Collapsed):
    """Normal noise; exact with basis functions, by Titsias' bound with inducing points."""

    def by_rows(self, given: Conditioning, ridge: TensorLike = 0.0) -> Tensor:
        """`log_density` of `parts`, by sums over blocks of rows."""
        block, rows = block_of(given)
        seen = self.design(block)
        D = seen.D + ridge
        found = best_normal(seen.F, D, block.y, rows)
        expected = partial(expected_normal, seen.F, D, seen.unseen, block.y)
        bound = bound_around(found, expected, rows)
        return pt.switch(pt.isnan(bound), -np.inf, bound)

    def design(self, given, label=None):
        sigma = given.theta["sigma"]
        return LowRankDesign(
            given.process, given.y, sigma, given.X, given.Z, given.inducing, given.jitter
        )

    def parts(self, given, ridge=0.0):
        seen = self.design(given)
        return [seen.F, seen.D + ridge, self._penalty(seen)]

    def _penalty(self, seen):
        """By how much the bound is below the log density of y under the approximate prior."""
        return 0.5 * (seen.unseen / seen.D).sum()

    def signature(self, likelihood):
        return "(n,m),(n),()"

    def log_density(self, likelihood, y, F, D, penalty):  # noqa: N803
        return low_rank_logp(y, F, D) - penalty

    def condition(self, given):
        block, rows = block_of(given)
        seen = self.design(block)
        return Found(*best_normal(seen.F, seen.D, seen.y, rows))

    def posterior(self, given, found, label=None):
        return LowRank(self.design(given), found.alpha, found.root)

    def leave_one_out(self, given):
        """Under the approximate prior, with the variance that inducing values leave."""
        seen = self.design(given)
        logp, mean, variance = low_rank_leave_one_out(given.y, seen.F, seen.D)
        logp, variance = logp - self._penalty(seen), variance + seen.unseen
        return _with_normal_noise(given, logp, mean, variance)

    def leave_groups_out(self, given, groups):
        """As `leave_one_out`, with the same variance for each row of a group."""
        return _groups_through_coefficients(
            given, self.design(given), self.condition(given), groups
        )


class BasisWithBeliefs(_ThroughCoefficients, WithBeliefs):
    """Beliefs beside normal noise, with basis functions."""

    plain = LowRankNormal

    def design(self, given, label=None):
        return self.plain().design(given)

    def parts(self, given, ridge=0.0):
        seen = self.design(given)
        beliefs = seen.design(given.beliefs.operator), pt.constant(given.beliefs.sd**2)
        return [seen.F, seen.D + ridge, *beliefs, *self._bounds(given)]

    def signature(self, likelihood):
        return "(n,m),(n),(k,m),(k),(k),(k)"

    def belief_covariance(self, F, D, G, V, low, high):  # noqa: N803
        return pt.dot(G, G.T) + pt.diag(V)

    def _joint_logp(self, y, *parts):
        y, F, D, log_factor = self._seen(y, *parts)
        return pt.switch(pt.isinf(log_factor), -np.inf, low_rank_logp(y, F, D) + log_factor)

    def _seen(self, y, F, D, G, V, low, high):  # noqa: N803
        """All that is observed, beliefs as sites; how it depends on coefficients; log factors.

        The rows are F (n, M), with noise of variance D (n,), the beliefs G (k, M), with V (k,).
        """
        q = _best_of(F, D, y)
        mean, half = pt.dot(G, q.mean), solve_root(q.root, G.T)
        C = pt.dot(half.T, half) + pt.diag(V)
        found = sites(C, pt.zeros(0), low - mean, high - mean)
        # Sites are what they are: where the density is differentiated, too.
        y = pt.concatenate([y, disconnected_grad(mean + found.mean)])
        return y, pt.concatenate([F, G]), pt.concatenate([D, V + found.variance]), found.log_factor

    def condition(self, given):
        y, F, D, _ = self._seen(given.y, *self.parts(given))
        return Found(*_best_of(F, D, y))

    def posterior(self, given, found, label=None):
        return LowRank(self.design(given), found.alpha, found.root)

    def leave_one_out(self, given):
        parts = self.parts(given)
        y, F, D, log_factor = self._seen(given.y, *parts)
        joint, mean, variance = low_rank_leave_one_out(y, F, D)
        evidence, n = joint + log_factor - self.log_belief(*parts), given.y.shape[0]
        return _with_normal_noise(given, evidence, mean[:n], variance[:n])

    def leave_groups_out(self, given, groups):
        return _groups_through_coefficients(
            given, self.design(given), self.condition(given), groups
        )


class FixedBasis(LowRankNormal):
    """Normal noise, and basis functions that no hyperparameter changes: rows enter by sums alone.

    The functions times `scales`, which hyperparameters do change, are the process, and samples have
    no deviations of their own from it.
    """

    by_sums = True

    def parts(self, given, ridge=0.0):
        return [self.design(given).F, *self.scales_and_variance(given, ridge)]

    def scales_and_variance(self, given: Conditioning, ridge: TensorLike = 0.0) -> list[Tensor]:
        """What `log_density_by_sums` needs of hyperparameters: scales (M,), and that of noise."""
        return [cast(BasisProcess, given.process).parted()[1], pt.sqr(given.theta["sigma"]) + ridge]

    def signature(self, likelihood):
        return "(n,m),(m),()"

    def log_density(self, likelihood, y, F, scales, variance):  # noqa: N803
        return low_rank_logp(y, F, variance * pt.ones_like(y))

    def log_density_by_sums(self, sums: Sums, scales: Tensor, variance: Tensor) -> Tensor:
        """`log_density` of the y that went into the sums."""
        return sums_logp(sums, scales, variance)

    def condition(self, given):
        scales, sigma = given.process.parted()[1], given.theta["sigma"]
        weigh, own = scales / sigma, pt.arange(scales.shape[0])
        inner = weigh[:, None] * given.sums.gram * weigh
        root = cholesky(inner[own, own].inc(1.0 + given.jitter))
        return Found(solve(root, weigh * given.sums.cross / sigma), root)

    def posterior(self, given, found, label=None):
        seen = LowRankDesign(given.process, None, 0.0, None)
        return LowRank(seen, found.alpha, found.root, deviates=False)

    def leave_one_out(self, given):
        """Of rows X and y, among those in the sums: their sites are taken out of the posterior."""
        found = self.condition(given)
        q, variance = self.posterior(given, found)(given.smooth), pt.sqr(given.theta["sigma"])
        left = 1.0 - q.variance / variance
        mean = (q.mean - given.y * q.variance / variance) / left
        logp = sums_logp(given.sums, given.process.parted()[1], variance)
        return _with_normal_noise(given, logp, mean, variance / left)


class Variational(_ThroughCoefficients, Collapsed):
    """Another likelihood: the best Gaussian posterior of the coefficients, and its bound."""

    root_by_class = True

    def by_rows(self, given: Conditioning, ridge: TensorLike = 0.0) -> Tensor:
        """`log_density` of `parts`, by sums over blocks of rows."""
        bound, found, expected, rows = self._by_rows(given, ridge)
        return pt.switch(pt.isinf(bound), -np.inf, bound_around(found, expected, rows))

    def _by_rows(self, given, ridge=0.0):
        """Bound, the best posterior, what rows expect of one, and the rows."""
        block, rows = block_of(given)
        seen, likelihood, theta = self.design(block), given.likelihood, given.theta
        rest = seen.unseen + seen.D + ridge
        points = {
            own: values for own, values in rows.items() if own not in (block.y, block.exposure)
        }
        bound, found = best_variational(
            likelihood, seen.F, rest, given.y, theta, given.exposure, points
        )

        def expected(found):
            known = block.y, theta, block.exposure, found
            return expected_log(likelihood, seen.F, rest, *known)[0]

        return bound, found, expected, rows

    def parts(self, given, ridge=0.0):
        seen = self.design(given)
        return [seen.F, seen.unseen + seen.D + ridge, given.exposure, *_values(given)]

    def signature(self, likelihood):
        return f"(n,m),(n),(n){',()' * len(likelihood.hyperparameters)}"

    def log_density(self, likelihood, y, F, rest, exposure, *values):  # noqa: N803
        theta = _named(likelihood, values)
        return variational(likelihood, F, rest, y, theta, exposure).bound

    def _best(self, given):
        """Design, variances beside the coefficients', and the best posterior."""
        seen = self.design(given)
        rest = seen.unseen + seen.D
        data = given.y, given.theta, given.exposure
        return seen, rest, variational(given.likelihood, seen.F, rest, *data)

    def condition(self, given):
        bound, found, _, _ = self._by_rows(given)
        return _where_found(bound, found.mean.T, found.root)

    def posterior(self, given, found, label=None):
        own = found if label is None else Found(found.alpha[:, label], found.root[label])
        return LowRank(self.design(given), *own)

    def leave_one_out(self, given):
        seen, rest, found = self._best(given)
        known = found.variance / (1.0 - found.W * found.variance)
        mean = pt.dot(seen.F, found.coefficients.T) - known * found.slope
        spread = known + (rest[:, None] if given.columns else rest)
        return _scored(given, found.bound, mean, spread)

    def leave_groups_out(self, given, groups):
        """The joint density is the bound of the group, whose best posterior is the one of all."""
        likelihood = given.likelihood
        if given.columns or not likelihood.concave:
            return super().leave_groups_out(given, groups)
        seen, rest, found = self._best(given)
        W = pt.maximum(found.W, LEAST_SITE / pt.maximum(found.variance, LEAST_VARIANCE))
        precision = Precision(W, solve_root(found.root, seen.F.T) * W, -1)
        f, sd = pt.dot(seen.F, found.coefficients), pt.sqrt(found.variance + rest)
        height = likelihood.expected_log(f, sd, given.y, given.theta, given.exposure)[0]
        height = height + 0.5 * W * found.variance
        return _groups_of_sites(given, groups, precision, f, found.slope, W, height, rest)


class SampledCoefficients(_ThroughCoefficients):
    """Coefficients of basis functions that were sampled, and samples' own deviations with them."""

    def design(self, given, label=None):
        """With y the latent values, where samples' own deviations were sampled."""
        seen = super().design(given)
        if not self._own_sampled(given) or (given.columns and label is None):
            return seen
        y = self.values(given)
        return LowRankDesign(
            given.process, y if label is None else y[:, label], 0.0, given.X, given.Z
        )

    def _own_sampled(self, given):
        """Whether samples' own deviations from the smooth part were sampled too."""
        return OWN_WHITENED in given.theta or LATENT in given.theta

    def values(self, given: Conditioning) -> Tensor:
        """Latent values at the observations, (n,) or (n, C): as sampled, or from coefficients."""
        if LATENT in given.theta:
            return given.theta[LATENT]
        seen = super().design(given)
        smooth = pt.dot(seen.F, given.theta[WHITENED])
        if OWN_WHITENED not in given.theta:
            return smooth
        sd = pt.sqrt(seen.D)
        return smooth + (sd[:, None] if given.columns else sd) * given.theta[OWN_WHITENED]

    def condition(self, given):
        white = given.theta[WHITENED]
        return Found(white, pt.zeros((white.shape[0], 1)))

    def posterior(self, given, found, label=None):
        alpha = found.alpha if label is None else found.alpha[:, label]
        return LowRank(self.design(given, label), alpha, None, found.root)

    def leave_one_out(self, given):
        """Of f_i given the coefficients, which leave samples' own deviations."""
        seen, f = super().design(given), self.values(given)
        own = seen.D if self._own_sampled(given) else pt.zeros(given.X.shape[0])
        own = own[:, None] * pt.ones_like(f) if given.columns else own
        return _scored_by_values(given, f, pt.dot(seen.F, given.theta[WHITENED]), own)


def block_of(given: Conditioning) -> tuple[Conditioning, Rows]:
    """What was observed in a block of rows, in symbols, and the arrays that these stand for."""
    names = [name for name in ("X", "Z", "y", "exposure") if getattr(given, name) is not None]
    arrays = {name: pt.as_tensor_variable(getattr(given, name)) for name in names}
    types = {name: v.type.clone(shape=(None, *v.type.shape[1:])) for name, v in arrays.items()}
    symbols = {name: own(name) for name, own in types.items()}
    return replace(given, **symbols), {symbols[name]: arrays[name] for name in names}


def has_large_design(strategy: Strategy, given: Conditioning) -> bool:
    """Whether a density is better summed over blocks of rows than from a design of all rows."""
    if strategy.by_sums or not isinstance(strategy, LowRankNormal | Variational):
        return False
    columns = strategy.design(given).F.type.shape[1]
    return columns is not None and len(given.y) * columns > KEPT


def _ridged(given, ridge):
    """Covariance of the latent values (n, n), a ridge added."""
    K = prior_covariance(given.process, given.X, given.Z)
    own = pt.arange(K.shape[0])
    return K[own, own].inc(ridge)


def _values(given):
    """The likelihood's hyperparameters, in its order."""
    return [given.theta[name] for name in given.likelihood.hyperparameters]


def _named(likelihood, values):
    return dict(zip(likelihood.hyperparameters, values, strict=True))


def _where_found(evidence, *arrays):
    """The arrays as `Found`, NaN where no posterior was found."""
    return Found(*(pt.switch(pt.isinf(evidence), np.nan, array) for array in arrays))


def _with_normal_noise(given, logp, mean, variance):
    """`LeftOut` from moments of y_i given the others, (n,)."""
    of_f = pt.maximum(variance - pt.sqr(given.theta["sigma"]), 0.0)
    return LeftOut(logp, log_normal(given.y, mean, variance), mean, of_f)


def _cavities(given, found, f):
    """`LeftOut` of several classes, from `CoupledSites` at the mode f (n, C)."""
    information, eye = given.likelihood.fisher(f), pt.eye(given.likelihood.classes)
    # What is known of f_i without its own site: covariance (Sigma_i^-1 - W_i)^-1.
    cavity = pt.linalg.solve(eye - pt.matmul(found.covariance, information), found.covariance)
    mean = f - (cavity * found.alpha[:, None, :]).sum(axis=2)
    root = pt.linalg.cholesky(cavity + 1e-12 * eye, lower=True, on_error="nan")
    return _scored(given, found.logp, mean, root)


def _scored(given, evidence, mean, spread):
    """`LeftOut` from moments of f_i given the others; independent classes have a root each.

    Each observation's site is taken out of the posterior: Vehtari et al., "Bayesian leave-one-out
    cross-validation approximations for Gaussian latent variable models" (2016), section 3.3.
    """
    if not given.columns:
        known = given.theta, given.exposure
        terms = given.likelihood.log_predictive(given.y, mean, spread, *known)
        return LeftOut(evidence, terms, mean, spread)
    if spread.ndim == 2:
        spread = pt.sqrt(spread)[:, :, None] * pt.eye(given.likelihood.classes)
    return LeftOut(evidence, given.likelihood.log_predictive(given.y, mean, spread), mean, spread)


def _groups_of_normal(given, shift, variance, joint):
    """`GroupsLeft` from moments of y_i given the other groups, (n,)."""
    mean = given.y - shift
    of_f = pt.maximum(variance - pt.sqr(given.theta["sigma"]), 0.0)
    return GroupsLeft(joint, log_normal(given.y, mean, variance), mean, of_f)


def _best_of(F, D, y):  # noqa: N803
    """`best_normal` of arrays of all rows."""
    symbols = [v.type.clone(shape=(None, *v.type.shape[1:]))() for v in (F, D, y)]
    return best_normal(*symbols, dict(zip(symbols, (F, D, y), strict=True)))


def _groups_through_coefficients(given, seen, found, groups):
    """`GroupsLeft` for normal noise, from the posterior of coefficients."""
    alpha = (given.y - pt.dot(seen.F, found.alpha)) / seen.D
    precision = Precision(1.0 / seen.D, solve_root(found.root, seen.F.T) / seen.D, -1)
    return _groups_of_normal(given, *groups_left_out(precision, alpha, groups, seen.unseen))


def _groups_of_sites(given, groups, precision, f, alpha, W, height, rest=0.0):
    """`GroupsLeft` where each observation is a normal site: f + alpha / W, with variance 1 / W.

    Once a group's sites are removed, the mode of what is left times its likelihood is where it was.
    So Laplace's approximation of the joint density is there, made of log p(y | f), `height`, at
    that mode. A group of one row needs no approximation.

    Parameters
    ----------
    precision : Precision
        Of the sites' centres.
    f, alpha, W, height : tensor (n,)
    rest : tensor (n,) or 0
        Variances beside those that the sites know of.
    """
    shift, variance, centres = groups_left_out(precision, alpha, groups)
    mean, spread = f + alpha / W - shift, pt.maximum(variance - 1.0 / W, 0.0) + rest
    known = given.theta, given.exposure
    terms = given.likelihood.log_predictive(given.y, mean, spread, *known)
    own = height + 0.5 * (pt.sqr(alpha) / W - pt.log(W) + np.log(2.0 * np.pi))
    joint = centres + sum_of_group(own, groups)
    alone = pt.eq(sum_of_group(pt.ones_like(f), groups), 1.0)
    return GroupsLeft(pt.switch(alone, terms, joint), terms, mean, spread)


def _scored_by_values(given, f, mean, own):
    """`_scored`, the evidence being log p(y | f) of sampled latent values."""
    evidence = given.likelihood.logp(f, given.y, given.theta, given.exposure).sum()
    return _scored(given, evidence, mean, own)


def strategy_of(
    *,
    normal: bool,
    classes: int | None,
    approximated: bool,
    inducing: bool,
    fixed_basis: bool,
    beliefs: bool,
    correlated: bool = False,
    names: Container[str],
) -> Strategy:
    """The strategy for data of a model, and what draws of its posterior hold.

    Parameters
    ----------
    normal : bool
        Whether noise is normal.
    classes : int or None
    approximated, inducing : bool
        Whether the process is seen through coefficients, and whether of inducing values.
    fixed_basis : bool
        Whether they are those of basis functions that no hyperparameter changes.
    beliefs : bool
        Whether anything is believed beside the data.
    correlated : bool
        Whether the functions of several classes correlate beforehand.
    names : container of str
        Hyperparameters, and latent values beside them where they were sampled.
    """
    sampled = WHITENED in names or LATENT in names
    if correlated:
        return CorrelatedValues() if sampled else CorrelatedLaplace()
    if sampled:
        return SampledCoefficients() if approximated and not inducing else SampledValues()
    if fixed_basis and normal and not beliefs:
        return FixedBasis()
    if approximated and beliefs:
        return BasisWithBeliefs()
    if approximated:
        return LowRankNormal() if normal else Variational()
    if normal:
        return ExactWithBeliefs() if beliefs else Exact()
    return Laplace() if classes is None else SoftmaxLaplace()
