"""Types of a posterior: data, requests, results, and strategies from data to a posterior."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol, cast

import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.likelihoods.base import ScalarLikelihood, VectorLikelihood
from bayes_gpx.likelihoods.continuous import Normal
from bayes_gpx.likelihoods.rows import Weighted, rows_of
from bayes_gpx.posteriors.constraints import Constraints
from bayes_gpx.posteriors.evidence.sums import Sums
from bayes_gpx.processes.base import Process
from bayes_gpx.processes.basis_process import counting, counts_of
from bayes_gpx.processes.indexed_process import IndexedProcess, in_groups, of_no_group
from bayes_gpx.processes.operators import Operator, evaluate, stack

WHITENED = "white"
"""Name of sampled whitened latent values or coefficients, next to the hyperparameters."""

OWN_WHITENED = "own_white"
"""Name of sampled deviations of rows from the smooth part, divided by their sd."""

LATENT = "latent"
"""Name of sampled latent values at the observations, not whitened."""


CONSTRAINED = "constrained"
"""Name of noisy values, drawn between the bounds of constraints."""

CONSTRAINED_WHITENED = "constrained_white"
"""Name of whitened constrained quantities, sampled with latent values."""

BY_ROW = "X", "Z", "group", "positions", "weights"
"""Names of inputs with an entry for each row."""

BESIDE = "beside_"
"""Begins the names of inputs of a second question, at rows of its own."""


@dataclass(frozen=True, eq=False)
class Conditioning:
    """A process and its observations: symbolic, for one draw of the hyperparameters."""

    process: Process  # the prior, on the model's scale
    likelihood: ScalarLikelihood | VectorLikelihood  # of y given the process's values
    # Hyperparameters by name and, if they were sampled, latent values by the names above.
    theta: dict[str, Any]
    X: Any  # (n, d), with the codes of groups as a last column, for a process of groups
    y: Any  # (n,), as the likelihood codes it, on the model's scale
    Z: Any = None  # (n, p)
    exposure: Any = None  # (n,)
    inducing: Operator | None = None  # values of the smooth part at inducing points
    jitter: Any = 0.0  # added to variances, as a multiple of their mean
    # The sums over rows that a strategy `by_sums` needs; X, y and Z may be missing then.
    sums: Sums | None = None
    constraints: Constraints | None = None  # on the process, in addition to the data
    # Out-of-core rows: X, y and Z are then symbols of a block of rows. See
    # `bayes_gpx.numerics.row_sums.PARTS`.
    parts: Any = None
    # Hyperparameters (q,) of the noise of several outputs; `theta` has those of each row's output.
    noise: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Let rows with weights deviate by the mean of as many rows."""
        if isinstance(self.likelihood, Weighted):
            object.__setattr__(self, "process", counting(self.process, self.exposure[:, -1]))

    @cached_property
    def deviations(self) -> Tensor:
        """Variance of rows' deviations from the smooth part, each as of weight 1, (n,)."""
        own = self.process.variance(self.observed) - self.process.variance(self.smooth)
        return own if self.counts is None else own * self.counts

    @property
    def rows(self) -> list[Tensor]:
        """The y of rows and, if there are any, their weights."""
        return rows_of(self.likelihood, self.y, self.exposure)

    @property
    def weights(self) -> TensorLike:
        """Weights of rows, (n,), or 1 for all."""
        return self.rows[1] if len(self.rows) > 1 else 1.0

    @property
    def counts(self) -> Tensor | None:
        """Weights of rows that deviate, (n,)."""
        return counts_of(self.process)

    @property
    def beyond(self) -> Tensor | None:
        """`beyond_normal` of the noise and deviations of rows."""
        return self.beyond_normal(0.0)

    def beyond_normal(self, unseen: TensorLike) -> Tensor | None:
        """Log of p(y | g)^w over the density of the mean of w rows, (n,); None without weights.

        Rows have the variance `unseen` besides noise and deviations.
        """
        if not (isinstance(self.likelihood, Weighted) and self.likelihood.normal):
            return None
        own = unseen if self.counts is None else self.deviations + unseen
        return self.likelihood.beyond_normal(self.theta, self.exposure, own)

    @property
    def noise_sd(self) -> Any:
        """Standard deviation of Gaussian noise: a scalar, or (n,)."""
        return cast(Normal, self.likelihood).sd(self.theta, self.exposure)

    @property
    def outputs(self) -> Tensor:
        """Code of each row's output, (n,)."""
        return self.X[:, -1].astype("int64")

    @cached_property
    def observed(self) -> Operator:
        """What y was observed of: the process's values, samples' own deviations included."""
        return evaluate(self.X, self.Z, sample="train")

    @cached_property
    def smooth(self) -> Operator:
        """The smooth part at the observations."""
        return evaluate(self.X, self.Z, smooth=True)

    @cached_property
    def known(self) -> Operator:
        """The observed operators, and after them the constrained ones."""
        return self._with_constraints(self.observed)

    @cached_property
    def known_smooth(self) -> Operator:
        """The smooth part of `known`."""
        return self._with_constraints(self.smooth)

    @cached_property
    def constrained(self) -> Operator:
        """The constrained operators: with groups, of the function that all of them share."""
        return of_no_group(self.process, cast(Constraints, self.constraints).operator)

    def _with_constraints(self, observed: Operator) -> Operator:
        return observed if self.constraints is None else stack(observed, self.constrained)

    @property
    def bare_X(self) -> Any:  # noqa: N802
        """X without codes."""
        process = self.process
        return process.bare(self.observed).X if isinstance(process, IndexedProcess) else self.X

    @property
    def labels(self) -> Sequence[int | None]:
        """Codes of the classes that have a function each; one None where there is one function."""
        return range(*self.columns) if self.columns else (None,)

    @property
    def columns(self) -> tuple[int, ...]:
        """Last dims of arrays with a column for each class: (C,), or () for one function."""
        return self.likelihood.class_shape


def symbols_of_rows(d: int, p: int | None, exposed: Any) -> dict[str, Tensor]:
    """X (b, d), y (b,) and, with p features that have weights, Z (b, p) of a block of rows.

    Also `exposure`, for `exposed`: all likelihoods but the one with noise of one sd.
    """
    widths = {"X": d, **({} if p is None else {"Z": p})}
    wide = {k: pt.tensor(k, shape=(None, width), dtype="float64") for k, width in widths.items()}
    exposure = {} if exposed is None else {"exposure": exposed.exposures()}
    return {**wide, "y": pt.dvector("y"), **exposure}


def inducing_operator(
    U: TensorLike | None = None,  # noqa: N803
    U_Z: TensorLike | None = None,  # noqa: N803
    constraints: Constraints | None = None,
) -> Operator | None:
    """Values of the smooth part at inducing points (M, d), (M, p): an Operator, None without.

    Constrained quantities are among them, or constraints would hold for the part of these alone
    that points tell.
    """
    if U is None:
        return None
    u = evaluate(U, U_Z, smooth=True)
    return u if constraints is None else stack(u, constraints.operator)


class Found(NamedTuple):
    """Summary of the data, for k rows or coefficients; its meaning depends on the `posterior`."""

    alpha: Any  # (k,), or (k, C) for classes
    root: Any  # triangular, (k, k), or a stack with one for each class
    # Of groups with an approximation; see `bayes_gpx.posteriors.by_group.LowRankByGroup`.
    factor: Any = None
    gain: Any = None


class LeftOut(NamedTuple):
    """Leave-one-out predictions of each observation."""

    evidence: Any  # log density of all y, a scalar
    terms: Any  # (n,), log density of each y_i given the others
    mean: Any  # (n,), of f_i given the others; (n, C) for C classes
    spread: Any  # (n,), its variance; for C classes a square root (n, C, C) of the covariance


class GroupsLeft(NamedTuple):
    """Predictions of each observation given the other groups; the last three as in `LeftOut`."""

    joint: Any  # (n,), log density of all y of the group
    terms: Any
    mean: Any
    spread: Any


@dataclass(frozen=True, eq=False)
class Asked:
    """Inputs of a question at rows, as symbols by name; one that was not given is None.

    One entry for each row: X (m, d), Z (m, p), the codes `group` (m,) of groups, `positions` (m,)
    of training rows, the `weights` (m, g) of averages. Common to all rows: the baseline (d,) or
    (B, d) of attributions. With `intercept`, where Z is X, Z has a last column of ones.
    """

    inputs: Mapping[str, Any]
    intercept: bool = False

    def __getitem__(self, name: str) -> Any:
        return self.inputs.get(name)

    @property
    def beside(self) -> Asked:
        """The rows of a second question, whose inputs have `BESIDE` before their names."""
        own = {n: v for n, v in self.inputs.items() if n.startswith(BESIDE)}
        return replace(self, inputs={n.removeprefix(BESIDE): v for n, v in own.items()})

    @property
    def halves(self) -> tuple[Asked, Asked]:
        """The first half of the rows, and the second."""
        m = self["X"].shape[0] // 2
        each = [name for name in BY_ROW if self[name] is not None]
        first, second = ({n: self[n][rows] for n in each} for rows in (slice(m), slice(m, None)))
        return self.at(**first), self.at(**second)

    def at(self, **changed: Any) -> Asked:
        """The same with some inputs changed; None leaves one out."""
        return replace(self, inputs={**self.inputs, **changed})

    @cached_property
    def points(self) -> Tensor:
        """X as operators take it: with the groups as a last column, where there are any."""
        return self["X"] if self["group"] is None else in_groups(self["X"], self["group"])

    @property
    def sample(self) -> str | Tensor:
        """Which samples these are, as the argument `sample` of operators."""
        return "new" if self["positions"] is None else self["positions"]

    @property
    def Z_along(self) -> Tensor:  # noqa: N802
        """Z where it is X: X itself, with a column of ones if Z has an intercept."""
        X = self["X"]
        return pt.concatenate([X, pt.ones((X.shape[0], 1))], axis=1) if self.intercept else X


class Values(Protocol):
    """The posterior of an operator's values, for m observations with c components each.

    Attributes as in `bayes_gpx.posteriors.gaussian.Gaussian`.
    """

    @property
    def mean(self) -> Tensor:
        """Obs-major, component-minor, (m c,)."""

    @property
    def variance(self) -> Tensor:
        """The diagonal of `cov`."""

    @property
    def block(self) -> Tensor:
        """Covariance between the components of each observation, (m, c, c)."""

    @property
    def cov(self) -> Tensor:
        """Covariance of all values, (m c, m c)."""


class Strategy(ABC):
    """A strategy from data to a posterior: graphs for one draw of the hyperparameters.

    Strategies compare equal by their class, and by whether there are constraints. They use no
    random variables of a PyMC model; see `bayes_gpx.model.observed_response`.
    """

    constrained = False
    """Whether there are constraints, besides the rows."""

    by_sums = False
    """Whether sums over rows are all that conditioning needs of the data; see `Sums`."""

    at_mode = False
    """Whether the posterior is Laplace's approximation, at the mode of the latent values."""

    def __eq__(self, other: object) -> bool:
        same = type(self) is type(other)
        return same and self.constrained == cast(Strategy, other).constrained

    def __hash__(self) -> int:
        return hash((type(self), self.constrained))

    @abstractmethod
    def condition(self, given: Conditioning) -> Found:
        """What the data of a `Conditioning` leave behind: `Found`, NaN where nothing was found."""

    @abstractmethod
    def posterior(
        self, given: Conditioning, found: Found, label: TensorLike | None = None
    ) -> Callable[[Operator], Values]:
        """The posterior, of one class: call it with an operator."""

    @abstractmethod
    def leave_one_out(self, given: Conditioning) -> LeftOut:
        """Leave-one-out predictions of each observation."""

    def leave_groups_out(self, given: Conditioning, groups: Tensor) -> GroupsLeft:
        """Predictions of each observation given the other groups, with codes (n,).

        Raises ValueError for a strategy without a closed form.
        """
        raise ValueError(
            "Groups cannot be left out of this fit in closed form, because its latent values were "
            "sampled. Refit without each group: az.loo_kfold(..., group_by=groups) takes a "
            "bx.SamplingWrapper(model, idata)."
        )

    @abstractmethod
    def update(self, given: Conditioning, found: Found, fresh: Any) -> Tensor:
        """Weights that move a prior function to the posterior, with a column for each class.

        The prior function takes the first random numbers from `fresh`, so `function` can draw it
        again.
        """

    @abstractmethod
    def function(
        self, given: Conditioning, update: Tensor, fresh: Any
    ) -> Callable[[Operator], Tensor]:
        """A random function: call it with an operator of the smooth part."""


@dataclass(frozen=True, eq=False)
class OneDraw:
    """The symbols of one draw of the hyperparameters, which a build function turns into graphs.

    `found` is what an earlier call found; `changing` are other symbols whose values change from
    call to call, such as the code of a class (`label`), a generator (`rng`) and what
    `Strategy.update` found (`update`); `groups` (n,) are codes of groups of observations.
    """

    strategy: Strategy
    given: Conditioning
    found: Found | None = None
    asked: Asked | None = None
    changing: Mapping[str, Any] = field(default_factory=dict)
    groups: Any = None

    def posterior(self, label: TensorLike | None = None) -> Callable[[Operator], Values]:
        """The posterior, of one class, from the stored summary."""
        return self.strategy.posterior(self.given, cast(Found, self.found), label)


Build = Callable[[OneDraw], list]
"""From one draw's symbols to the graphs that a verb asks for; hashable."""
