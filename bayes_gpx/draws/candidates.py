"""The variance that new rows would remove from quantities, at every draw of the hyperparameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor
from bayes_gpx.draws import questions
from bayes_gpx.draws.each_draw import each_draw, rows_within
from bayes_gpx.draws.protocols import ModelLike
from bayes_gpx.numerics.gaussian_expectations import standard_nodes
from bayes_gpx.posteriors.base import BESIDE
from bayes_gpx.posteriors.low_rank import learned
from bayes_gpx.posteriors.softmax import across, between_classes
from bayes_gpx.system.memory import in_words, refuse_beyond

if TYPE_CHECKING:
    from bayes_gpx.draws.hyperparameter_draws import HyperparameterDraws
    from bayes_gpx.draws.points import Points
    from bayes_gpx.draws.questions import Question
    from bayes_gpx.posteriors.base import Asked, OneDraw


@dataclass(frozen=True)
class _Taught:
    """Moments and expected information of f at candidates, and covariances with quantities.

    The build function of `Candidates`. The quantities have rows of their own, `Asked.beside`.
    """

    quantity: Callable
    smooth: Callable
    value: Callable
    observation: Any

    def __call__(self, draw: OneDraw) -> list[Tensor]:
        """Return (m, C), four (m, C, C) and (k, C, m, C), as attributes of `Candidates`."""
        posteriors = [draw.posterior(label) for label in draw.given.labels]
        asked = cast("Asked", draw.asked)
        quantities, smooth, values = (
            [q(operator) for q in posteriors]
            for operator in (self.quantity(asked.beside), self.smooth(asked), self.value(asked))
        )
        (mean, whole), noisy = across(smooth), across(values)[1]
        mean = mean.reshape((whole.shape[0], -1))
        quantities, smooth = ([*map(learned, part)] for part in (quantities, smooth))
        cov = across(smooth)[1]
        theta = dict(draw.given.theta)
        if draw.given.noise:  # outputs differ in noise; a column, for the nodes of f
            output = asked.points[:, -1].astype("int64")
            theta |= {name: value[output][:, None] for name, value in draw.given.noise.items()}
        seen = self._information(mean, noisy, theta, asked["exposure"])
        shared = between_classes(quantities, smooth)
        return [mean, cov, whole - cov, noisy - whole, seen, shared]

    def _information(self, mean: Tensor, cov: Tensor, theta: Any, exposure: Any) -> Tensor:
        """Fisher's information about f of a row, (m, C, C), averaged over f's distribution."""
        sd = pt.sqrt(pt.maximum(pt.diagonal(cov, axis1=1, axis2=2), 0.0))
        if self.observation.classes is not None:
            return self.observation.expected_information(mean, sd)
        x, weights = standard_nodes()
        if self.observation.normal:  # it does not depend on f
            x, weights = np.zeros(1), np.ones(1)
        each = None if exposure is None else exposure[:, None]
        f = mean[:, 0][:, None] + sd[:, 0][:, None] * x
        fisher = self.observation.fisher(f, theta, each)
        return (weights * fisher).sum(axis=1)[:, None, None]


@dataclass
class Candidates:
    """Candidate rows and their covariances with quantities; `learn` counts a row as measured.

    The first axis of the arrays is the draws (S,):

    - `mean` (S, N, C) of the smooth part of f at the rows;
    - its covariances (S, N, C, C): `cov`, which rows can reduce, and `rest`, which they cannot. The
      rest is 0 without inducing points;
    - covariances `own` (S, N, C, C) of the rows' deviations from the smooth part;
    - the expected `information` (S, N, C, C) of a measurement;
    - covariances `shared` (S, k, N, C) with k quantities.
    """

    model: ModelLike
    hyper: HyperparameterDraws
    where: Points
    progressbar: bool = False
    steps: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)

    def about(self, question: Question, of: Points, picked: np.ndarray) -> None:
        """Compute the arrays for picked components of a question, at its rows.

        `shared` is in the quantity's user units, in the order rows, components, classes.
        """
        *found, shared = self._taught(question, of)
        self.mean, self.cov, self.rest, self.own, self.information = found
        S, _, C, N, _ = shared.shape
        by_component = question.mixed(shared.reshape((S, -1, question.width, C, N, C)), 2)
        factor = question.factor[picked][:, None, None, None]
        self.shared = (by_component[:, :, picked] * factor).reshape((S, -1, N, C))

    def _taught(self, question: Question, of: Points) -> list[np.ndarray]:
        model = self.model
        C, k = model.specification.classes or 1, len(of.by.labels if of.by else of.X)
        build = _Taught(
            question.operator,
            questions.value(model, smooth=True).operator,
            questions.value(model).operator,
            model.specification.observation,
        )
        beside = {f"{BESIDE}{n}": v for n, v in (of.inputs | of.common).items()}
        width = k * question.width * C * C
        needed = 8 * len(self.hyper) * len(self.where.X) * (width + 4 * C * C)
        refuse_beyond(
            2 * needed,
            f"Covariances of {width // C**2} quantities with {len(self.where.X)} candidates at "
            f"{len(self.hyper)} draws take {in_words(needed)}",
            "Pass fewer candidates, a smaller num_draws, or fewer rows by obs=.",
        )
        parts: list[list[list[np.ndarray]]] = [[] for _ in range(len(self.hyper))]
        for number, _, _, _, arrays, _ in each_draw(
            model,
            self.hyper,
            build,
            replace(self.where, common=beside),
            size_of=lambda known: rows_within(8 * max(known, width, C * C)),
            description=f"Comparing {len(self.where.X)} candidates, by draw",
            progressbar=self.progressbar,
        ):
            parts[number].append([np.array(array) for array in arrays])
        axes = (0, 0, 0, 0, 0, 2)
        return [
            np.stack([np.concatenate([b[i] for b in blocks], axis) for blocks in parts])
            for i, axis in enumerate(axes)
        ]

    @property
    def gains(self) -> np.ndarray:
        """Reduction of variance per squared covariance with f, W (I + V W)^-1, (S, N, C, C)."""
        W = self.information
        if W.shape[-1] == 1:
            return W / (1.0 + (self.cov + self.own) * W)
        seen = np.eye(W.shape[-1]) + (self.cov + self.own) @ W
        return np.swapaxes(np.linalg.solve(np.swapaxes(seen, -1, -2), W), -1, -2)

    def reductions(self) -> np.ndarray:
        """Variance that each row would remove from each quantity, (k, N), averaged over draws."""
        total = np.zeros(self.shared.shape[1:3])
        for shared, gains in zip(self.shared, self.gains, strict=True):
            total += np.einsum("knc,ncd,knd->kn", shared, gains, shared, optimize=True)
        return total / len(self.shared)

    def learn(self, row: int) -> np.ndarray:
        """Count a row as measured; return its covariances with f at all rows, (S, N, C, C)."""
        of = self.where.take(np.array([row]))
        K = self._taught(questions.value(self.model, smooth=True), of)[-1]
        K = np.moveaxis(K[:, 0], 1, 2)  # the row's classes come first: (S, N, C of row, C)
        for earlier, gain in self.steps:
            K = K - np.einsum("sab,sbc,sncd->snad", earlier[:, row].mT, gain, earlier)
        G = self.gains[:, row]
        own = self.shared[:, :, row] @ G
        self.shared = self.shared - np.einsum("ska,snab->sknb", own, K)
        self.cov = self.cov - K.mT @ G[:, None] @ K
        self.steps.append((K, G))
        return K
