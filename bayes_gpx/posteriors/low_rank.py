"""Conditioning through few coefficients: basis functions, and inducing points.

In both, values of the process are a `design` matrix times M standard normal coefficients. With
basis functions this is the whole process. With inducing values u = f(U), the coefficients are
``K_UU^-1/2 u``, and the rest of the process keeps its prior: the variational approximation of
Titsias (2009), collapsed.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.numerics.linear_algebra import (
    cholesky,
    plus_diagonal,
    solve,
    solve_root,
    solve_upper,
)
from bayes_gpx.processes.base import KernelProcess, Process
from bayes_gpx.processes.basis_process import (
    BasisProcess,
    by_observation,
    n_features,
    own_variances,
)
from bayes_gpx.processes.class_process import ClassProcess
from bayes_gpx.processes.indexed_process import IndexedProcess, Part, by_rows
from bayes_gpx.processes.operators import (
    AtPoints,
    Components,
    Composite,
    Contribution,
    Derivative,
    OfSamples,
    Operator,
    Value,
    Weight,
    evaluate,
)
from bayes_gpx.processes.weight_process import informed

JITTER = 1e-10
"""Added to the covariance of inducing values, as a multiple of its mean diagonal."""

LEAST_VARIANCE = 1e-280
"""Variance of samples' own deviations at the least, where their features or sigma_w are 0."""


@dataclass(frozen=True, eq=False)
class LowRankDesign:
    """Noisy values y of a process, observed through coefficients.

    Classes with kernels of their own have a design each: arrays of rows have a second axis (C,).
    """

    process: Process  # a BasisProcess; or of kernels, with inducing points
    # (n,), with other than normal noise of rows' sites; None where nothing is learnt of `eps_w`.
    y: Any
    sigma: Any  # standard deviation of Gaussian noise; 0 for other likelihoods
    X: Any  # (n, d)
    Z: Any = None  # (n, p)
    inducing: Operator | None = None  # the inducing values u; None for a BasisProcess
    jitter: Any = 0.0  # added to `JITTER`
    variance: Any = 0.0  # of y's noise (n,), besides that of sigma; sites have any sign

    @cached_property
    def parts(self) -> list[tuple[Part, "LowRankDesign"]]:
        """The independent parts of the process, each with its own coefficients."""
        if isinstance(self.process, ClassProcess):
            return [(Part(own), replace(self, process=own)) for own in self.process.parts]
        if not isinstance(self.process, IndexedProcess):
            return [(Part(self.process), self)]
        return [(part, replace(self, process=part.process)) for part in self.process.parts]

    def _of_classes(self, name: str) -> Tensor | None:
        """An array of rows of each class, if these have kernels of their own."""
        if not isinstance(self.process, ClassProcess):
            return None
        return pt.stack([getattr(one, name) for _, one in self.parts], axis=1)

    @property
    def rest(self) -> bool:
        """Whether the process varies beyond its coefficients."""
        return any(not isinstance(part.process, BasisProcess) for part, _ in self.parts)

    @cached_property
    def inducing_root(self) -> Tensor:
        """Lower Cholesky factor of the covariance of the inducing values."""
        u = cast(Operator, self.inducing)
        K = self.process.covariance(u, u)
        return cholesky(plus_diagonal(K, (JITTER + self.jitter) * pt.diagonal(K).mean()))

    def design(self, L: Operator) -> Tensor:
        """What multiplies the coefficients in L's values, (len L, M)."""
        if isinstance(self.process, IndexedProcess):
            return self._joined(L, separate=False)
        if isinstance(self.process, BasisProcess):
            return self.process.design(L)
        u = cast(Operator, self.inducing)
        return solve_root(self.inducing_root, self.process.covariance(u, L)).T

    def of_groups(self, L: Operator) -> Tensor:
        """What multiplies the coefficients of its group in each of L's values, (len L, K)."""
        return self._joined(L, separate=True)

    def _joined(self, L: Operator, separate: bool) -> Tensor:
        if isinstance(L, Composite):
            return L.assembled([self._joined(part, separate) for part in L.parts], axis=0)
        bare, found = cast(IndexedProcess, self.process).bare(L), []
        for part, seen in self.parts:
            if part.separate == separate:
                (asked,) = part.asked(bare)
                own = by_observation(seen.design(asked), asked)
                if isinstance(L, Components) and any(part.appended for part, _ in self.parts):
                    own = self._among_components(own, bare, separate)
                loadings = part.loadings(cast(AtPoints, L))
                own = own if loadings is None else by_rows(own, loadings)
                found.append(own.reshape((-1, own.shape[2])))
        return pt.concatenate(found, axis=1)

    def _among_components(self, own: Tensor, bare: Components, separate: bool) -> Tensor:
        """A design (m, c, K) of shared components or of groups' one, for all of them."""
        none = own[:, :1] * 0.0
        if not separate:
            return pt.concatenate([own, none], axis=1)
        shared = next(seen for part, seen in self.parts if not part.separate)
        count = by_observation(shared.design(bare), bare).shape[1]
        return pt.concatenate([pt.repeat(none, count, axis=1), own], axis=1)

    def summed(self, L: AtPoints, weights: Tensor) -> Tensor:
        """Sums of weights (m | 1, M) times the design of a gradient or Hessian, (m, c)."""
        if self.inducing is None or isinstance(self.process, IndexedProcess):
            return (by_observation(self.design(L), L) * weights[:, None]).sum(axis=2)
        at_inducing = solve_upper(self.inducing_root, weights.T)
        return cast(KernelProcess, self.process).summed(L, self.inducing, at_inducing.T)

    @property
    def deviates(self) -> bool:
        """Whether rows deviate from the smooth part, by `eps_w`."""
        return own_variances(self.process, self.smooth) is not None

    @cached_property
    def smooth(self) -> Value:
        """The smooth part at the observations, an operator."""
        return evaluate(self.X, self.Z, smooth=True)

    @cached_property
    def F(self) -> Tensor:
        """Design of the smooth part at the observations, (n, M)."""
        of_classes = self._of_classes("F")
        return self.design(self.smooth) if of_classes is None else of_classes

    @cached_property
    def E(self) -> Tensor:
        """Design of what groups add to the smooth part at the observations, (n, K)."""
        return self.of_groups(self.smooth)

    @cached_property
    def codes(self) -> Tensor:
        """Groups of the observations, (n,)."""
        return cast(IndexedProcess, self.process).group(self.smooth)

    @cached_property
    def D(self) -> Tensor:
        """Variance of y around the smooth part, (n,); not quite 0, to divide by."""
        of_classes = self._of_classes("D")
        if of_classes is not None:
            return of_classes
        noise = pt.zeros(self.X.shape[0]) + pt.as_tensor(self.sigma) ** 2
        own = own_variances(self.process, evaluate(self.X, self.Z, sample="train"))
        if own is None:
            return noise
        total = pt.maximum(noise + (self.Z**2 * own).sum(axis=1), LEAST_VARIANCE)
        return total + self.variance

    @cached_property
    def unseen(self) -> Tensor:
        """Prior variance of the smooth part that is independent of all coefficients, (n,)."""
        of_classes = self._of_classes("unseen")
        if of_classes is not None:
            return of_classes
        if not self.rest:
            return pt.zeros(self.X.shape[0])
        known = pt.sqr(self.F).sum(axis=1)
        if any(part.separate for part, _ in self.parts):
            known = known + pt.sqr(self.E).sum(axis=1)
        return pt.maximum(self.process.variance(self.smooth) - known, 0.0)


def sparse(
    gp: Process,
    U: TensorLike | Operator,
    a: TensorLike,
    S_chol: TensorLike,
    Z: TensorLike | None = None,
) -> "LowRank":
    """Condition a process on a posterior N(a, S) of values at inducing points.

    Parameters
    ----------
    gp : GaussianProcess or WeightProcess
    U : array or tensor (M, d), or Operator
        Inducing points, or any operator of the smooth part of the process.
    a : array or tensor (M,)
        Posterior mean of u, zero prior mean.
    S_chol : array or tensor (M, M)
        Lower triangular factor of its covariance S; 0 if u is known.
    Z : array or tensor (M, p), optional
        Features at the inducing points, for a `WeightProcess`.

    Returns
    -------
    LowRank
        Call it with an operator for the posterior of its values.

    Notes
    -----
    mean = K_Lu K_uu^-1 a, cov = K_LL - K_Lu K_uu^-1 (K_uu - S) K_uu^-1 K_uL, of the smooth part;
    the rows' own noise keeps its prior.

    References
    ----------
    Seitz, "Gradient-based explanations for Gaussian process regression and classification models"
    (2022), section 3.2, with the corrections of this package's errata.
    """
    u = U if isinstance(U, Operator) else evaluate(U, Z, smooth=True)
    seen = LowRankDesign(informed(gp, Z), None, 0.0, U, Z, u)
    whitened = (solve_root(seen.inducing_root, pt.as_tensor(v)) for v in (a, S_chol))
    mean, spread = whitened
    return LowRank(seen, mean, None, spread)


def basis(gp: BasisProcess, beta_mean: TensorLike, beta_chol: TensorLike) -> "LowRank":
    """Condition a process on a posterior of its basis functions' coefficients.

    Parameters
    ----------
    gp : BasisProcess
        A result of `bayes_gpx.expanded`.
    beta_mean : array or tensor (M,)
    beta_chol : array or tensor (M, k)
        A factor of the coefficients' covariance, such as its lower Cholesky factor; 0 for a draw.

    Returns
    -------
    LowRank
        Call it with an operator for the posterior of its values.
    """
    if not isinstance(gp, BasisProcess):
        raise ValueError(
            f"gp is a {type(gp).__name__}. Pass a BasisProcess, from bx.expanded(gp, bx.HSGP(m, "
            "c), X)."
        )
    mean, spread = pt.as_tensor(beta_mean), pt.as_tensor(beta_chol)
    return LowRank(LowRankDesign(gp, None, 0.0, None), mean, None, spread)


@dataclass(frozen=True, eq=False)
class LowRank:
    """The posterior of a process through its coefficients; call it with an operator."""

    seen: LowRankDesign
    alpha: Any  # (M,), posterior mean of the coefficients
    root: Any  # (M, M), lower Cholesky factor of their posterior precision; None with `spread`
    spread: Any = None  # (M, k), a factor of their posterior covariance
    deviates: bool = True  # rows may deviate from the smooth part

    def drawn(self, normal: Tensor) -> Tensor:
        """Coefficients (M,) drawn by standard normals (M,)."""
        if self.spread is not None:
            return self.alpha + pt.dot(self.spread, normal[: self.spread.shape[1]])
        return self.alpha + solve_upper(self.root, normal)

    def __call__(self, operator: Operator) -> "LowRankGaussian | AffineGaussian":
        """Posterior of the operator's values."""
        if not (self.deviates and self.seen.deviates and operator.own_noise):
            return self._smooth(operator)
        if not isinstance(operator, AtPoints):
            raise ValueError(
                "Sums and stacks of operators include no samples' own noise here; build them with "
                "smooth=True."
            )
        return self._own(cast(OfSamples, operator))

    def _smooth(self, operator: Operator) -> "LowRankGaussian":
        seen = self.seen
        return LowRankGaussian(
            seen.process, operator, seen, self.alpha, self.root, seen.rest, self.spread
        )

    def _own(self, operator: OfSamples) -> "AffineGaussian":
        """Posterior of values, weights or contributions of samples, `eps_w` included.

        With S = diag(sigma_w^2), `eps_w` is N(0, S) for new samples. For training samples it is
        normal given y and the smooth weights g, with mean S z (y - z' g) / D and covariance
        S - S z z' S / D; so is z' w given these, which is what `Value` asks for. A negative
        position is that of a row that was not observed.
        """
        new = isinstance(operator.sample, str) or self.seen.y is None
        asked = replace(operator, smooth=True)
        if isinstance(operator, Contribution):
            asked = Weight(asked.X, sample=asked.sample, smooth=True)
        smooth, spread = self._smooth(asked), own_variances(self.seen.process, operator)
        rows = slice(None) if new else operator.sample
        if not isinstance(operator, Weight):
            z = cast(Contribution, operator).Z  # or of a Value
        elif self.seen.Z is not None:
            z = self.seen.Z[rows]
        else:
            z = pt.ones((1, n_features(self.seen.process)))
        z = pt.as_tensor_variable(z)
        spread = pt.atleast_2d(spread * pt.ones(z.shape[1]))
        if not new:
            known = pt.switch(pt.lt(rows, 0), 0.0, 1.0 / self.seen.D[rows])
            y = self.seen.y[rows]
        if isinstance(operator, Value):
            total = (z**2 * spread).sum(axis=1)
            if new:
                return AffineGaussian(
                    smooth, pt.ones((z.shape[0], 1, 1)), None, total[:, None, None]
                )
            kept = (1.0 - total * known)[:, None, None]
            shift = (total * y * known)[:, None]
            return AffineGaussian(smooth, kept, shift, total[:, None, None] * kept)
        identity, reached = pt.eye(z.shape[1])[None], z * spread
        turn, own, shift = identity, identity * spread[:, None], None
        if not new:
            turn = identity - reached[:, :, None] * (z * known[:, None])[:, None, :]
            own = own - reached[:, :, None] * (reached * known[:, None])[:, None, :]
            shift = reached * (y * known)[:, None]
        if isinstance(operator, Contribution):
            turn, own = z[:, :, None] * turn, z[:, :, None] * own * z[:, None, :]
            shift = None if shift is None else z * shift
        return AffineGaussian(smooth, turn, shift, own)


@dataclass(frozen=True, eq=False)
class LowRankGaussian:
    """As `Gaussian`, for data observed only through M standard normal coefficients.

    The operator's values are `design` times the coefficients, with posterior N(coefficients, (root
    root')^-1) or N(coefficients, spread spread'), plus `rest`, which is independent of the
    coefficients.
    """

    process: Process
    operator: Operator
    # Its ``design(L)`` multiplies the coefficients in L's values, (c m, M); ``summed(L, W)`` is the
    # sum of the design over coefficients times weights (m | 1, M), (m, c).
    seen: Any
    coefficients: Any  # (M,)
    root: Any  # (M, M), None with `spread`
    rest: bool  # the process varies beyond its coefficients
    spread: Any = None  # (M, k)

    @cached_property
    def design(self) -> Tensor:  # noqa: D102
        return self.seen.design(self.operator)

    @cached_property
    def mean(self) -> Tensor:  # noqa: D102
        return pt.dot(self.design, self.coefficients)

    @cached_property
    def mean_alone(self) -> Tensor:
        """`mean` of a gradient or Hessian, computed without `design`."""
        return self.seen.summed(self.operator, self.coefficients[None]).reshape((-1,))

    def cross(self, value: "LowRankGaussian") -> Tensor:
        """Covariance (m, c) of a derivative with `value`, f at its points, without `design`."""
        if self.spread is not None:
            left = pt.dot(value._left.T, self.spread.T)
        else:
            left = solve(self.root, value.design.T).T
        if not self.rest:
            return self.seen.summed(self.operator, left)
        learned = self.seen.summed(self.operator, value.design - left)
        return cast(KernelProcess, self.process).cross(cast(Derivative, self.operator)) - learned

    @cached_property
    def _left(self) -> Tensor:
        """Factor (M | k, c m): left' left = design V design', V the coefficients' covariance."""
        if self.spread is not None:
            return pt.dot(self.spread.T, self.design.T)
        return solve_root(self.root, self.design.T)

    @cached_property
    def variance(self) -> Tensor:  # noqa: D102
        left = pt.sqr(self._left).sum(axis=0)
        if not self.rest:
            return left
        known = pt.sqr(self.design).sum(axis=1)
        return left + pt.maximum(self.process.variance(self.operator) - known, 0.0)

    @cached_property
    def block(self) -> Tensor:  # noqa: D102
        obs = cast(AtPoints, self.operator).x.shape[0]
        left = self._left.T.reshape((obs, -1, self._left.shape[0]))
        within = pt.matmul(left, left.transpose(0, 2, 1))
        if not self.rest:
            return within
        known = self.design.reshape((obs, -1, self.design.shape[1]))
        prior = self.process.block(self.operator)
        return within + prior - pt.matmul(known, known.transpose(0, 2, 1))

    @cached_property
    def cov(self) -> Tensor:  # noqa: D102
        return self.between(self)

    def between(self, other: "LowRankGaussian") -> Tensor:
        """Covariance with another operator's values."""
        left = pt.dot(self._left.T, other._left)
        if not self.rest:
            return left
        prior = self.process.covariance(self.operator, other.operator)
        return left + prior - pt.dot(self.design, other.design.T)


def learned(values: Any) -> Any:
    """The part of such values that more rows inform: without what varies beyond coefficients."""
    return replace(values, rest=False) if isinstance(values, LowRankGaussian) else values


@dataclass(frozen=True, eq=False)
class AffineGaussian:
    """Each observation's components in `base` times turn, plus shift and independent noise."""

    base: LowRankGaussian  # the posterior of m observations with k components each
    turn: Any  # (m | 1, c, k)
    shift: Any  # (m, c), or None
    own: Any  # (m | 1, c, c), covariance of the noise

    @property
    def _obs(self) -> Tensor:
        return cast(AtPoints, self.base.operator).x.shape[0]

    @cached_property
    def mean(self) -> Tensor:  # noqa: D102
        parts = self.base.mean.reshape((self._obs, 1, -1))
        moved = (self.turn * parts).sum(axis=2)
        return (moved if self.shift is None else moved + self.shift).reshape((-1,))

    @cached_property
    def variance(self) -> Tensor:  # noqa: D102
        return pt.diagonal(self.block, axis1=1, axis2=2).reshape((-1,))

    @cached_property
    def block(self) -> Tensor:  # noqa: D102
        # PyTensor types the arguments of matmul as NumPy's.
        turned = pt.matmul(self.turn, self.base.block)  # type: ignore[arg-type]
        return pt.matmul(turned, self.turn.transpose(0, 2, 1)) + self.own

    @cached_property
    def cov(self) -> Tensor:  # noqa: D102
        m, c, k = self._obs, self.turn.shape[1], self.turn.shape[2]
        turn = self.turn * pt.ones((m, 1, 1))
        by_rows = pt.matmul(turn, self.base.cov.reshape((m, k, m * k)))
        by_both = pt.matmul(turn[:, None], by_rows.reshape((m, c, m, k)).transpose(2, 0, 3, 1))
        cov = by_both.transpose(1, 3, 0, 2)
        apart = pt.eye(m)[:, None, :, None] * (self.own * pt.ones((m, 1, 1)))[:, :, None, :]
        return (cov + apart).reshape((m * c, m * c))
