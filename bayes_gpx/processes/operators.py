"""Linear operators on a Gaussian process, one class for each question.

An operator has points and a quantity there. Operators add, scale and stack: ``evaluate(X) + -1.0 *
evaluate(B)`` is a difference, ``stack(evaluate(X), weight(X))`` is both jointly. Processes define
the covariances (`bayes_gpx.processes.covariance`). Other operators are finite combinations of these
(`AtPoints.opened`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, NoReturn

import numpy as np
import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.numerics.coalitions import Coalitions, Players, all_coalitions, mixed
from bayes_gpx.numerics.quadrature import Rule, gauss_legendre, in_chunks, rule, total_of

PATH_NODES = 16
"""Nodes on each path where attributions meet other slopes: their exact forms are for values."""

MOST_PLAYERS = 10
"""Most players for which all coalitions are enumerated."""


class Operator(ABC):
    """A linear map from a Gaussian process to finitely many numbers."""

    @property
    @abstractmethod
    def own_noise(self) -> bool:
        """Whether the numbers may include samples' own noise, `eps_w` of a weight process."""

    def __add__(self, other: "Operator") -> "OperatorSum":
        return OperatorSum((self, other))

    def __rmul__(self, factor: TensorLike) -> "ScaledOperator":
        return ScaledOperator((self,), factor)


@dataclass(frozen=True, eq=False)
class Composite(Operator):
    """An operator made of others, its parts."""

    parts: tuple[Operator, ...]

    @property
    def own_noise(self) -> bool:  # noqa: D102
        return any(part.own_noise for part in self.parts)

    @abstractmethod
    def assembled(self, blocks: list[Tensor], axis: int) -> Tensor:
        """The operator's matrix from its parts' matrices, with their values along this axis."""


@dataclass(frozen=True, eq=False)
class OperatorSum(Composite):
    """The sum of operators that have the same number of components."""

    def assembled(self, blocks: list[Tensor], axis: int) -> Tensor:  # noqa: D102
        return sum(blocks[1:], start=blocks[0])


@dataclass(frozen=True, eq=False)
class ScaledOperator(Composite):
    """A multiple of an operator; `factor` is a number or a scalar tensor."""

    factor: TensorLike

    def assembled(self, blocks: list[Tensor], axis: int) -> Tensor:  # noqa: D102
        return self.factor * blocks[0]


@dataclass(frozen=True, eq=False)
class Stack(Composite):
    """Operators one after the other, in one vector."""

    def assembled(self, blocks: list[Tensor], axis: int) -> Tensor:  # noqa: D102
        return pt.concatenate(blocks, axis=axis)


@dataclass(frozen=True, eq=False)
class Combination(Composite):
    """Linear combinations of the parts' values: contrasts, means, quadratures."""

    combine: Callable[..., Tensor]  # from matrices of the parts (len part, k) to (len self, k)

    def assembled(self, blocks: list[Tensor], axis: int) -> Tensor:  # noqa: D102
        return self.combine(*blocks) if axis == 0 else self.combine(*(b.T for b in blocks)).T


@dataclass(frozen=True, eq=False)
class AtPoints(Operator):
    """One group of components at each of m points X (m, d); see the functions below."""

    X: TensorLike
    name: ClassVar[str]  # the function that makes it
    # `opened` is a quadrature, used only without an exact form
    by_quadrature: ClassVar[bool] = False

    @property
    def x(self) -> Tensor:
        """X as a tensor."""
        return pt.as_tensor_variable(self.X)

    def opened(self, other: "AtPoints") -> Operator | None:
        """A finite combination of other operators, for the covariance with `other`; or None."""
        # Parts need no Z: the process multiplies by it.


@dataclass(frozen=True, eq=False)
class OfSamples(AtPoints):
    """A quantity of rows, which may have noise `eps_w`."""

    # Rows with equal values share the noise `eps_w`. Integers (m,) are positions in training. "new"
    # rows are equal only in operators over the identical `X` object, never by equal coordinates.
    sample: str | TensorLike = field(default="new", kw_only=True)
    smooth: bool = field(default=False, kw_only=True)  # leave the noise out
    tied: ClassVar = False

    @property
    def own_noise(self) -> bool:  # noqa: D102
        return not self.smooth


@dataclass(frozen=True, eq=False)
class Value(OfSamples):
    """Values f(x), or z' w(x)."""

    Z: TensorLike | None = None
    name: ClassVar = "evaluate"
    axes: ClassVar = 0


@dataclass(frozen=True, eq=False)
class Components(AtPoints):
    """The parts of f for each summand of the kernel; higher orders are one remainder."""

    order: int
    name: ClassVar = "components"
    own_noise: ClassVar = False


@dataclass(frozen=True, eq=False)
class Varying(AtPoints):
    """Values of f without its constants: the sum of all other components."""

    name: ClassVar = "varying"
    own_noise: ClassVar = False


class OfFeatures(OfSamples):
    """What only a weight process has: a component for each column of Z."""

    def opened(self, other: AtPoints) -> NoReturn:  # noqa: D102
        raise ValueError(
            f"{self.name} is defined for a WeightProcess; a GaussianProcess has no weights. Ask "
            "for values or slopes, or use bx.GPX."
        )


@dataclass(frozen=True, eq=False)
class Weight(OfFeatures):
    """Weights w_l(x)."""

    name: ClassVar = "weight"


@dataclass(frozen=True, eq=False)
class Contribution(OfFeatures):
    """Contributions z_l w_l(x)."""

    Z: TensorLike
    # Numbers (m, q) of a sparse Z's columns that each row has, where Z (m, q) are its values there.
    columns: TensorLike | None = None
    name: ClassVar = "contribution"


@dataclass(frozen=True, eq=False)
class Smooth(AtPoints):
    """A quantity of the smooth function: f, or z' g(x) of a weight process."""

    Z: TensorLike | None = None  # (m, p)
    # Z is X, perhaps with a last column of ones, and moves with it.
    tied: bool = field(default=False, kw_only=True)
    axes: ClassVar[int]  # feature axes of the components at a point: d^axes, row-major
    own_noise: ClassVar = False


class Derivative(Smooth):
    """Derivatives in each point, of order `axes`."""


@dataclass(frozen=True, eq=False)
class Gradient(Derivative):
    """Derivatives df/dx_i."""

    name: ClassVar = "gradient"
    axes: ClassVar = 1


@dataclass(frozen=True, eq=False)
class Hessian(Derivative):
    """Second derivatives d^2 f / dx_i dx_j."""

    name: ClassVar = "hessian"
    axes: ClassVar = 2


@dataclass(frozen=True, eq=False)
class FromBaseline(Smooth):
    """Comparisons of points with a baseline (d,), or with several (B, d) on average."""

    baseline: TensorLike = field(kw_only=True)

    @property
    def start(self) -> Tensor:
        """The baseline as a tensor."""
        return pt.as_tensor_variable(self.baseline)


@dataclass(frozen=True, eq=False)
class Difference(FromBaseline):
    """Differences f(x) - f(baseline)."""

    name: ClassVar = "difference"
    axes: ClassVar = 0

    def opened(self, other: AtPoints) -> Composite:  # noqa: D102
        ends, starts = Value(self.X, smooth=True), Value(pt.atleast_2d(self.start), smooth=True)
        return Combination((ends, starts), lambda end, start: end - start.mean(axis=0))


@dataclass(frozen=True, eq=False)
class Attribution(FromBaseline):
    """Integrals of gradients along paths from the baseline."""

    nodes: Rule | None = field(default=None, kw_only=True)  # along the paths; None: most exact
    name: ClassVar = "integrated_gradient"
    axes: ClassVar = 1


@dataclass(frozen=True, eq=False)
class IntegratedGradient(Attribution):
    """Attributions along one path to each point, from a `baseline` (d,), or (m, d) one for each."""

    by_quadrature: ClassVar = True

    def opened(self, other: AtPoints) -> Composite:
        """Gradients at nodes of the paths, one node at a time where `other` has nodes too."""
        delta, nodes = self.x - self.start, self.nodes or gauss_legendre(PATH_NODES)
        chunks = [*in_chunks(nodes, 1 if isinstance(other, Attribution) else len(nodes.t), 2)]
        points = [(self.start + t * delta).reshape((-1, self.x.type.shape[1])) for t, _ in chunks]

        def combine(*slopes: Tensor) -> Tensor:
            parts = [
                (w * slope.reshape((len(t), -1, slope.shape[1]))).sum(axis=0)
                for (t, w), slope in zip(chunks, slopes, strict=True)
            ]
            return delta.reshape((-1, 1)) * total_of(parts)

        return Combination(tuple(map(Gradient, points)), combine)


@dataclass(frozen=True, eq=False)
class ExpectedGradient(Attribution):
    """Attributions averaged over the paths from several baselines (B, d)."""

    def opened(self, other: AtPoints) -> Composite:
        """Attributions along every path, averaged."""
        ends, starts = every_path(self.x, self.start)
        each = IntegratedGradient(ends, baseline=starts, nodes=self.nodes)

        def combine(rows: Tensor) -> Tensor:
            by_paths = rows.reshape((ends.shape[0], -1))
            return averaged(by_paths, self.x, self.start).reshape((-1, rows.shape[1]))

        return Combination((each,), combine)


@dataclass(frozen=True, eq=False)
class ShapleyValue(FromBaseline):
    """Shapley values of the game in which players move from the baseline to x."""

    # Columns of each player; its component is at its first column, with zeros at the others.
    players: Players = field(kw_only=True)
    # The coalitions to enumerate; None for all of them, or their closed form.
    among: Coalitions | None = field(default=None, kw_only=True)
    name: ClassVar = "shapley_value"
    axes: ClassVar = 1
    by_quadrature: ClassVar = True  # all coalitions: what others open up comes first

    def opened(self, other: AtPoints) -> Composite:
        """Values of all coalitions; raises ValueError for more than `MOST_PLAYERS`."""
        if self.among is None and len(self.players) > MOST_PLAYERS:
            raise ValueError(
                f"{len(self.players)} features, without a form for products over features: Shapley "
                f"values go through all coalitions of at most {MOST_PLAYERS}. Pass "
                "method='permutations'; or use an exact model or inducing points, with a squared "
                "exponential, periodic or linear kernel, or sums and products of these."
            )
        among = all_coalitions(self.players) if self.among is None else self.among
        points = mixed(self.x, pt.atleast_2d(self.start), among.masks)

        def combine(values: Tensor) -> Tensor:
            shape = *tuple(points.shape)[:3], values.shape[1]
            by_coalition = values.reshape(shape).mean(axis=1)
            return (among.shares @ by_coalition).reshape((-1, values.shape[1]))

        flat = points.reshape((-1, self.x.type.shape[1]))
        return Combination((Value(flat, smooth=True),), combine)


@dataclass(frozen=True, eq=False)
class Moved(Smooth):
    """Values at each point with some columns moved to places (k, d), or their sums over points.

    The numbers are point-major and place-minor. With `weights` (m, g) they are weighted sums over
    points, group-major: partial dependence.
    """

    places: TensorLike = field(kw_only=True)
    columns: tuple[int, ...] = field(kw_only=True)  # those that move
    weights: TensorLike | None = field(default=None, kw_only=True)
    name: ClassVar = "moved"
    axes: ClassVar = 0

    @property
    def to(self) -> Tensor:
        """The places as a tensor."""
        return pt.as_tensor_variable(self.places)

    def opened(self, other: AtPoints) -> Composite:
        """Values of all points at every place."""
        d = self.x.type.shape[1]
        points = pt.switch(np.isin(np.arange(d), self.columns), self.to, self.x[:, None])

        def combine(values: Tensor) -> Tensor:
            by_points = values.reshape((self.x.shape[0], -1))
            return self.summed(by_points).reshape((-1, values.shape[1]))

        return Combination((Value(points.reshape((-1, d)), smooth=True),), combine)

    def summed(self, values: Tensor) -> Tensor:
        """Numbers (m, n) of points, or their weighted sums (g, n)."""
        return values if self.weights is None else pt.dot(pt.transpose(self.weights), values)


def every_path(x: Tensor, baselines: Tensor) -> list[Tensor]:
    """Each x (m, d) with each baseline (B, d), both (m B, d), baselines varying faster."""
    ends = pt.broadcast_arrays(x[:, None], baselines[None])
    return [end.reshape((-1, x.type.shape[1])) for end in ends]


def averaged(parts: Tensor, x: Tensor, baselines: Tensor) -> Tensor:
    """Mean over baselines, (m, ...), of quantities (m B, ...) on the paths of `every_path`."""
    shape = x.shape[0], baselines.shape[0], *tuple(parts.shape)[1:]
    return parts.reshape(shape).mean(axis=1)


def stack(*operators: Operator) -> Stack:
    """Ask for several operators jointly, in this order."""
    return Stack(operators)


def evaluate(
    X: TensorLike,
    Z: TensorLike | None = None,
    *,
    sample: str | TensorLike = "new",
    smooth: bool = False,
) -> Value:
    """Value f(x) at each row of X (m, d); for a weight process z' w(x), with Z (m, p)."""
    return Value(X, Z, sample=_identity(sample, X), smooth=smooth)


def weight(X: TensorLike, *, sample: str | TensorLike = "new", smooth: bool = False) -> Weight:
    """Weights w_1(x), ..., w_p(x) at each row of X; components obs-major, feature-minor."""
    return Weight(X, sample=_identity(sample, X), smooth=smooth)


def contribution(
    X: TensorLike,
    Z: TensorLike,
    *,
    columns: TensorLike | None = None,
    sample: str | TensorLike = "new",
    smooth: bool = False,
) -> Contribution:
    """Contributions z_l w_l(x) at each row of X and Z; they sum to `evaluate(X, Z)`."""
    return Contribution(X, Z, columns, sample=_identity(sample, X), smooth=smooth)


def components(X: TensorLike, order: int) -> Components:
    """Part of f of each summand of the kernel at each row of X; they sum to `evaluate(X)`."""
    return Components(X, order)


def varying(X: TensorLike) -> Varying:
    """Value f(x) without the constants of its kernel, at each row of X."""
    return Varying(X)


def gradient(X: TensorLike, Z: TensorLike | None = None, *, tied: bool = False) -> Gradient:
    """Return the derivatives df/dx_1, ..., df/dx_d at each row of X.

    In a GPX they are derivatives of the smooth part z' g(x).

    Parameters
    ----------
    X : array or tensor (m, d)
    Z : array or tensor (m, p), optional
        Features of a weight process, fixed while x varies.
    tied : bool
        Z is X, perhaps with a last column of ones, and varies with it.
    """
    return Gradient(X, Z, tied=tied)


def hessian(X: TensorLike, Z: TensorLike | None = None, *, tied: bool = False) -> Hessian:
    """Second derivatives d^2 f / dx_i dx_j, (i, j) row-major, at each row of X; see `gradient`."""
    return Hessian(X, Z, tied=tied)


def integrated_gradient(
    X: TensorLike,
    baseline: TensorLike,
    Z: TensorLike | None = None,
    *,
    method: str = "exact",
    steps: int | None = None,
    tied: bool = False,
) -> Attribution:
    """Return the attributions of f(x) - f(baseline) to the features, at each row of X.

    Several baselines are averaged: expected gradients. Covariances between attributions at
    different points are then integrated with 16 nodes for each path. For a rough kernel on paths of
    many lengthscales these are too few, and covariances can be wrong by any factor. See `gradient`
    for the other arguments.

    Parameters
    ----------
    baseline : array or tensor (d,) or (B, d)
    method : {"exact", "gauss_legendre", "right", "trapezoid", "simpson"}
        "exact" is a closed form or a rule that follows the kernel's shape; the others are
        quadratures with `steps` steps, or nodes.
    """
    nodes = None if method == "exact" else rule(method, steps)
    kind = ExpectedGradient if pt.as_tensor_variable(baseline).ndim == 2 else IntegratedGradient
    return kind(X, Z, tied=tied, baseline=baseline, nodes=nodes)


def shapley_value(
    X: TensorLike,
    baseline: TensorLike,
    Z: TensorLike | None = None,
    *,
    players: Players,
    among: Coalitions | None = None,
    tied: bool = False,
) -> ShapleyValue:
    """Return the Shapley values of f(x) - f(baseline), at each row of X.

    Several baselines (B, d) are averaged. Features outside a coalition are at the baseline. See
    `gradient` for the other arguments.
    """
    return ShapleyValue(X, Z, tied=tied, baseline=baseline, players=players, among=among)


def moved(
    X: TensorLike,
    places: TensorLike,
    columns: tuple[int, ...],
    weights: TensorLike | None = None,
    Z: TensorLike | None = None,
) -> Moved:
    """Values at each row of X with some columns at each row of `places`, or their weighted sums."""
    return Moved(X, Z, places=places, columns=columns, weights=weights, tied=Z is not None)


def difference(
    X: TensorLike, baseline: TensorLike, Z: TensorLike | None = None, *, tied: bool = False
) -> Difference:
    """f(x) less the mean of f(baseline) at each row of X, the sum of `integrated_gradient`."""
    return Difference(X, Z, tied=tied, baseline=baseline)


def _identity(sample: str | TensorLike, X: TensorLike) -> str | TensorLike:
    """Turn "train" (row i is training sample i) into positions."""
    if not isinstance(sample, str):
        return sample
    if sample == "train":
        return pt.arange(pt.as_tensor_variable(X).shape[0])
    if sample == "new":
        return sample
    raise ValueError(
        f"sample is {sample!r}. Pass 'new', 'train' or the positions of training samples."
    )
