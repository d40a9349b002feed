"""Attributes of a model that the evaluation of draws uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np

    from bayes_gpx.data.training import TrainingData
    from bayes_gpx.likelihoods.base import ScalarLikelihood, VectorLikelihood
    from bayes_gpx.posteriors.base import Strategy
    from bayes_gpx.posteriors.constraints import Constraints
    from bayes_gpx.processes.base import Process


class SpecificationLike(Protocol):
    """What a model is made of, apart from its data; hashable."""

    family: str
    likelihood: str
    classes: int | None
    constraints: Constraints | None
    kernel: Any
    approximation: Any
    event: Any  # what `on="response"` explains in place of the mean, or None

    @property
    def normal(self) -> bool:
        """Whether noise is normal."""

    @property
    def exposed(self) -> bool:
        """Whether the likelihood is given a number of each row."""

    @property
    def observation(self) -> ScalarLikelihood | VectorLikelihood:
        """How the response varies around the process."""

    @property
    def conditioned(self) -> Any:
        """The likelihood of training rows, with weights and bounds that they may have."""

    def observation_of(self, rows: Any) -> Any:
        """The likelihood of rows as they are recorded."""

    @property
    def response(self) -> Any:
        """What `on="response"` explains: the observation's mean, or an event."""

    @property
    def made_of(self) -> tuple:
        """What its names stand for; hashable."""

    @property
    def hyperparameters(self) -> tuple:
        """Each with `name`, `kind` and `dim`."""

    def prior(self, theta: Mapping[str, Any], d: int, called: Any, corners: Any, p: int) -> Process:
        """The prior process of hyperparameters, for X in a box and p features with weights."""

    def size(self, dim: str, training: Any) -> int:
        """How many values a hyperparameter has along a dim."""

    def noise_of_outputs(self, theta: Mapping[str, Any]) -> dict[str, Any]:
        """Hyperparameters of the noise of several outputs."""

    def of_outputs(self, theta: Mapping[str, Any], codes: Any) -> Mapping[str, Any]:
        """Hyperparameters with the noise of the outputs with these codes."""

    @property
    def expanded(self) -> bool:
        """Whether the process is a sum of basis functions."""

    def strategy_of(self, names: Any = ()) -> Strategy:
        """Strategy from data to a posterior, for draws with these names."""


class ModelLike(Protocol):
    """A model, its training data, and the names of its hyperparameters."""

    training: TrainingData
    specification: SpecificationLike
    hyperparameters: dict[str, int]  # number of dimensions of one draw, by name
    fixed: dict[str, np.ndarray]  # those that are not inferred
    posterior_names: dict[str, str]  # from names to variables of a fit
    # From names of `bayes_gpx.posteriors.base` to latent values that a fit may contain.
    latent_names: dict[str, str]
    inducing: dict[str, np.ndarray]  # points `U` and `U_Z` on the model's scale, if any
    # Summaries of out-of-core rows, by digests of the hyperparameters: alpha, root and jitter.
    posteriors: dict[str, tuple]
    structures: dict[tuple, Any]  # of the model's graphs, as far as they were needed
    called_kernel: Any  # result of a callable kernel, or None
    own_variables: tuple  # random variables that it created

    def class_labels(self, of_response: bool) -> tuple:
        """Labels of the latent values of a row, or of their responses, if there are several."""

    @property
    def signature(self) -> str:
        """Text that tells one model from another."""

    @property
    def signature_key(self) -> str:
        """Attribute of a fit that holds the signature."""

    @property
    def sums(self) -> dict[str, np.ndarray]:
        """Sums over rows, computed when they are first needed."""

    def fixed_hyperparameters(self, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Check a complete dict of fixed hyperparameters, on the model's scale."""

    def in_model(self, name: str) -> str:
        """Name of a variable or dim of this model in its `pymc.Model`."""
