"""Bases of likelihoods: the response given one latent value for each row, or several.

A likelihood is a frozen dataclass under one of the two abstract bases, `ScalarLikelihood` and
`VectorLikelihood`, and is entered in `bayes_gpx.likelihoods.KNOWN` by its name; nothing else of
the package knows it. Methods are for one draw of the hyperparameters, and elementwise over n rows:
on tensors, but `draw` and `variance` in NumPy, and `predictive` in NumPy with derivatives in x.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
import pytensor.tensor as pt
from numpy.typing import ArrayLike

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.data.moments import Moments
from bayes_gpx.data.response import read_reals
from bayes_gpx.numerics.gaussian_expectations import moments, nodes, standard_nodes, wide_nodes
from bayes_gpx.numerics.jets import Jet
from bayes_gpx.numerics.special import log_sum_exp

Theta = Mapping[str, Any]
"""Hyperparameters by name: scalars, symbolic or of NumPy as the method's other arguments."""


type Exposure = Tensor | None
"""What multiplies the mean response of each row, (n,); None for 1."""


class Response(NamedTuple):
    """Mean of the response, and its first and second derivative in the latent value."""

    value: Tensor
    slope: Tensor | None
    curvature: Tensor | None


class DefaultPrior(NamedTuple):
    """The default prior of a positive hyperparameter of a likelihood.

    Attributes
    ----------
    prior : callable
        From the hyperparameter's name to a PyMC variable, on the model's scale. The prior of
        Gaussian noise takes `dims` too, for several outputs. A prior in units of y takes `least`,
        the smallest allowed value, for a rounded response.
    in_units_of_y : bool
        The hyperparameter is in units of y, like a standard deviation. Optimizers then start at
        multiples of the standard deviation of y, and otherwise at the prior's center.
    dim : str or None
        Name of its dim, one of `coords`, if it is a vector of real numbers, such as cutpoints. Its
        prior takes `dims`.
    """

    prior: Callable[..., Tensor]
    in_units_of_y: bool = False
    dim: str | None = None


class Likelihood(ABC):
    """Base class of both kinds of likelihoods.

    Attributes
    ----------
    units : str
        Units of f; ``{y}`` is replaced by the name of the response. Required.
    hyperparameters : dict
        The `DefaultPrior` of each hyperparameter by name; none by default.
    mean_name : str or None
        Name of the mean response, such as "rate". None, the default, if it is f itself; y then
        varies around f with a variance that does not depend on f.
    shaped_by : tuple of str
        Hyperparameters that the mean response depends on, as on f. `response`, `expected` and
        `rates` then take `theta`, also with a value of each for every f. None by default.
    level : float or None
        The response is this quantile of y in place of the mean, as 0.5 for the median; `variance`
        is then the mean square of y about the quantile and its `shift`. None by default.
    scaled : bool
        y is standardized, and f and hyperparameters are on this scale. False by default.
    concave : bool
        `logp` is concave in f, as by default. If not, Newton's method and Laplace's approximation
        take `fisher` for the curvature, and `steps` for the steps.
    smooth : bool
        `logp` has derivatives in f, as by default. If its information is in kinks, f is found by
        expectation propagation, not by Laplace's approximation.
    exposed : bool
        The mean response is multiplied by an exposure, 1 unless one is given; False by default.
    exposure_name : str
        What the argument for the exposure is called: "exposure", "trials" or "noise_sd".
    discrete : bool
        y are whole numbers. False by default.
    ordered : bool
        "At most y" is a meaningful event, as it is not for classes, and there is a
        `cumulative_predictive`. True by default.
    labelled : bool
        y contains class labels, coded 0, 1, ... by `read`. False by default.
    any_shapes : bool
        `divergence` is between distributions of any hyperparameters. False by default: those that
        are not in units of y are the same.
    normal : bool
        f integrates out of the density of y in closed form: only for `Normal`.
    core_shape : str
        Shape of the exposures, as NumPy's signatures write it.
    classes : int or None
        Number of latent values of a row; None for one.
    processes : tuple of str
        Names of the latent values, if each is a process with hyperparameters of its own. None by
        default: several latent values are of classes then.
    responses : tuple of str
        Names of the mean responses of processes.
    centers : array (C,)
        Prior means of the processes, which f does not contain; 0 by default.
    class_dim : str
        The dim of several latent values: "class" or "process".
    possible_y : float
        A y that is possible at any exposure; 1 by default.
    """

    units: ClassVar[str]
    hyperparameters: ClassVar[Mapping[str, DefaultPrior]] = {}
    mean_name: ClassVar[str | None] = None
    shaped_by: ClassVar[tuple[str, ...]] = ()
    level: float | None = None
    scaled: ClassVar[bool] = False
    concave: ClassVar[bool] = True
    smooth: ClassVar[bool] = True
    exposed: ClassVar[bool] = False
    exposure_name: ClassVar[str] = "exposure"
    discrete: ClassVar[bool] = False
    ordered: ClassVar[bool] = True
    labelled: ClassVar[bool] = False
    any_shapes: ClassVar[bool] = False
    normal: ClassVar[bool] = False
    core_shape: ClassVar[str] = "(n)"
    classes: int | None = None
    processes: ClassVar[tuple[str, ...]] = ()
    responses: ClassVar[tuple[str, ...]] = ()
    centers: Any = 0.0
    class_dim: ClassVar[str] = "class"
    possible_y: float = 1.0

    @abstractmethod
    def logp(self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None) -> Tensor:
        """Log density of y given f, finite wherever f is, (n,)."""

    @abstractmethod
    def derivatives(
        self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None
    ) -> tuple[Tensor, ...]:
        """Derivatives of `logp` in f; see the two bases."""

    @abstractmethod
    def fisher(self, f: Tensor, theta: Theta, exposure: Exposure = None) -> Tensor:
        """Fisher information about f: minus the expected second derivative of `logp`."""

    @abstractmethod
    def response(self, f: Tensor, exposure: Exposure = None) -> Response:
        """Mean of y given f, or the probability of each label, with derivatives in f."""

    @abstractmethod
    def draw(
        self,
        f: np.ndarray,
        theta: Theta,
        rng: np.random.Generator,
        exposure: ArrayLike | None = None,
    ) -> np.ndarray:
        """Random y given f, in NumPy."""

    @abstractmethod
    def dist(
        self, name: str, f: Tensor, theta: Theta, exposure: Exposure = None, **kwargs: Any
    ) -> Tensor:
        """Return y as a variable of the PyMC model at hand."""

    def read(
        self, y: ArrayLike, labels: ArrayLike | None = None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Check and encode y; return it with its labels, None by default.

        `labels` are the labels of the training data, if known. By default y is finite real numbers.
        """
        return read_reals(y), None

    def settled(self, of_y: Moments, scale: bool = True) -> dict[str, Any]:
        """Fields of the likelihood that the training responses decide; none by default.

        `of_y` are the responses' moments, of one column. `scale` is whether the model scales its
        data.
        """
        return {}

    def refuse(self, y: np.ndarray, exposure: np.ndarray) -> None:  # noqa: B027
        """Raise where y and its exposure, both (n,), contradict each other; never by default."""

    def highest_y(self, exposure: np.ndarray) -> np.ndarray | float:
        """The highest possible y at each exposure; infinity by default."""
        return np.inf

    def center(
        self, y: np.ndarray, exposure: np.ndarray | None = None, weights: np.ndarray | None = None
    ) -> float:
        """Prior mean of f that fits the size of y; 0 by default.

        A model that scales its data asks for it where the likelihood is `exposed` and not
        `scaled`. It enters as one more factor of the exposure, the prior mean rate exp(center).
        """
        return 0.0

    @abstractmethod
    def log_predictive(
        self, y: Tensor, mean: Tensor, spread: Tensor, theta: Theta, exposure: Exposure = None
    ) -> Tensor:
        """Log density of y for normal f; see the two bases."""

    def score(
        self, y: Tensor, mean: Tensor, spread: Tensor, theta: Theta, exposure: Exposure = None
    ) -> Tensor:
        """The part of y in a sum of log predictive densities, as `log_predictive`."""
        return self.log_predictive(y, mean, spread, theta, exposure)

    def predictive(self, mean: Jet, variance: Jet, theta: Theta) -> Any:
        """Distribution of y for f ~ N(mean, variance), jets, as a `Predictive`.

        Only relevance needs it, with ``parameters`` and ``divergence`` of its family in
        `bayes_gpx.likelihoods.predictive`.
        """
        raise ValueError(
            "Relevance and projections need the divergence between two predictive distributions, "
            f"which {self.called} does not have. Use bx.importances or bx.attributions."
        )

    @property
    def called(self) -> str:
        """What messages call the likelihood."""
        return type(self).__name__

    @property
    def information_at_mode(self) -> str:
        """Which information about f Laplace's approximation takes, in words."""
        return "observed" if self.concave else "Fisher"

    @property
    def comparable(self) -> bool:
        """Whether there is a `predictive`."""
        return type(self).predictive is not Likelihood.predictive

    @property
    def class_shape(self) -> tuple[int, ...]:
        """Shape of the latent values of one row: (C,), or () for one."""
        return () if self.classes is None else (self.classes,)

    @property
    def coords(self) -> dict[str, list[str]]:
        """Labels of the dims of hyperparameters that are vectors; none by default."""
        return {}

    def shaping(self, theta: Theta) -> dict[str, Any]:
        """The argument `theta` of the mean response, or none where it depends on f alone."""
        return {"theta": {n: theta[n] for n in self.shaped_by}} if self.shaped_by else {}

    def symbols(self) -> dict[str, Tensor]:
        """Hyperparameters by name, as inputs of graphs."""
        return {
            name: pt.dscalar(name) if h.dim is None else pt.dvector(name)
            for name, h in self.hyperparameters.items()
        }

    def exposures(self) -> Tensor:
        """Exposures (n,), as an input of graphs."""
        return pt.dvector("exposure")

    @property
    def reported(self) -> str:
        """What results call the mean response."""
        return self.mean_name or "y"

    @property
    def response_units(self) -> str:
        """Units of the mean response; ``{y}`` is replaced by the name of the response."""
        return self.units if self.mean_name is None else f"{self.mean_name} of {{y}}"

    def in_units(self, theta: Theta, unit: float) -> dict[str, Any]:
        """Hyperparameters in other units of y; one of the model's is `unit` of those."""
        own = [name for name, h in self.hyperparameters.items() if h.in_units_of_y]
        return {**theta, **{name: unit * theta[name] for name in own}}


class ScalarLikelihood(Likelihood):
    """A likelihood of one latent value for each row: f, y, exposure and results are (n,).

    `derivatives` are the first three of `logp` in f, and `response` has two. Expectations over f
    are by default quadratures of 41 nodes: to 1e-10 where the integrand varies no faster than the
    density of f does, and less exact the narrower it is.
    """

    @abstractmethod
    def variance(
        self, f: ArrayLike, theta: Theta, exposure: ArrayLike | None = None
    ) -> np.ndarray | float:
        """Variance of y given f, in NumPy; infinite where there is none."""

    def shift(self, theta: Theta) -> Any:
        """Mean of y minus f, where f itself is the response; 0 by default."""
        return 0.0

    def laplace_information(
        self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None
    ) -> tuple[Tensor, Tensor]:
        """The information in Laplace's approximation where `logp` is not concave, and its slope.

        By default `fisher`; `tails.kept_positive` is another choice, which depends on y. Name yours
        in `information_at_mode`.
        """
        W = self.fisher(f, theta, exposure)
        return W, cast(Tensor, pt.grad(W.sum(), f, disconnected_inputs="ignore"))

    def steps(self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None) -> Tensor:
        """Positive curvature that Newton's steps take where `logp` is not concave: `fisher`."""
        return self.fisher(f, theta, exposure)

    def highest(self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None) -> TensorLike:
        """The f of the highest `logp`, shaped as the given f; infinite where it is not needed.

        It is for a `logp` so steep that searches from other f fail.
        """
        return np.inf

    def expected(self, mean: Tensor, variance: Tensor, exposure: Exposure = None) -> Response:
        """Expectations of `response` where f ~ N(mean, variance)."""
        f, weights = _nodes(mean, pt.sqrt(variance))
        return Response(*((weights * v).sum(axis=1) for v in self.response(f, column(exposure))))

    def rates(self, mean: Tensor, variance: Tensor) -> list[Tensor]:
        """Expected first four derivatives of `response` where f ~ N(mean, variance)."""
        found = [cast(Tensor, slope) for slope in self.expected(mean, variance)[1:]]
        while len(found) < 4:
            found.append(cast(Tensor, pt.grad(found[-1].sum(), mean)))
        return found

    def expected_log(
        self, mean: Tensor, sd: Tensor, y: Tensor, theta: Theta, exposure: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """E `logp` for f ~ N(mean, sd^2), its slope in mean, and -2 times its slope in variance."""
        f, weights = _nodes(mean, sd)
        given = (y[:, None], theta, column(exposure))
        slopes = self.derivatives(f, *given)[0]
        x = standard_nodes()[0]
        return (
            pt.dot(self.logp(f, *given), weights),
            pt.dot(slopes, weights),
            -pt.dot(slopes, weights * x) / sd,
        )

    def log_predictive(
        self, y: Tensor, mean: Tensor, variance: Tensor, theta: Theta, exposure: Exposure = None
    ) -> Tensor:
        """Log density of y where f ~ N(mean, variance)."""
        return log_sum_exp(self.weighed_nodes(y, mean, variance, theta, exposure)[1])

    def posterior_moments(
        self, y: Tensor, mean: Tensor, variance: Tensor, theta: Theta, exposure: Exposure = None
    ) -> tuple[Tensor, Tensor]:
        """Mean and variance of f given y where f ~ N(mean, variance) before."""
        return moments(*self.weighed_nodes(y, mean, variance, theta, exposure))

    def weighed_nodes(
        self, y: Tensor, mean: Tensor, variance: Tensor, theta: Theta, exposure: Exposure = None
    ) -> tuple[Tensor, Tensor]:
        """Nodes (n, K) of f ~ N(mean, variance), and logs of weights that have p(y | f) in them."""
        log_p = lambda f: self.logp(f, y[:, None], theta, column(exposure))  # noqa: E731
        if self.concave:
            slope = self.derivatives(mean, y, theta, exposure)[0]
            return nodes(log_p, mean, variance, slope, self.highest(mean, y, theta, exposure))
        return wide_nodes(log_p, mean, variance)

    def cumulative(self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None) -> Tensor:
        """Probability of at most y given f; needed for the default of `cumulative_predictive`."""
        raise NotImplementedError(
            f"{type(self).__name__} is ordered, but has no method `cumulative`. Define it, the "
            "probability of at most y given f, or set ordered = False."
        )

    def cumulative_predictive(
        self, y: Tensor, mean: Tensor, variance: Tensor, theta: Theta, exposure: Exposure = None
    ) -> Tensor:
        """Probability of at most y where f ~ N(mean, variance), where y is `ordered`."""
        f, weights = _nodes(mean, pt.sqrt(variance))
        return (weights * self.cumulative(f, y[:, None], theta, column(exposure))).sum(axis=1)


class VectorLikelihood(Likelihood):
    """A likelihood of C latent values for each row, f (n, C); subclasses have a field `classes`.

    `derivatives` are the gradient (n, C) and the negative Hessian (n, C, C) of `logp`; `fisher` is
    (n, C, C), and `response` are probabilities (n, C) with derivatives (n, C, C), the latent value
    last. Expectations are by quasi-random points.
    """

    @abstractmethod
    def contracted(self, f: Tensor, M: Tensor) -> Tensor:
        """Derivative of ``trace(M fisher)`` in f, with M (n, C, C) fixed: (n, C).

        It is minus the third derivatives of `logp`, summed against M, if these do not depend on y.
        The gradient of Laplace's approximation needs it, and the chain rule of a Gaussian
        expectation with M_jk = Cov(df_j / dx, f_k).
        """

    def logp_and_slopes(self, f: Tensor, y: Tensor, theta: Theta) -> tuple[Tensor, Tensor]:
        """`logp` and its gradient (n, C), as precise as their sums over nodes need."""
        return self.logp(f, y, theta), self.derivatives(f, y, theta)[0]

    @abstractmethod
    def slopes(self, f: np.ndarray) -> np.ndarray:
        """Derivatives of `response` in f (..., C), in NumPy: (..., C, C), the latent value last."""

    @abstractmethod
    def second_derivatives(
        self, f: np.ndarray, gradients: np.ndarray, hessians: np.ndarray
    ) -> np.ndarray:
        """Second derivatives (m, C, d^2) of `response` in x, in NumPy.

        From f (m, C), its gradients (m, d, C) and its second derivatives (m, d^2, C).
        """

    @abstractmethod
    def expected_jets(self, mean: Jet, variance: Jet) -> tuple[Jet, ...]:
        """Jets of each expected response, from jets of f with last dims (C,) and (C, C)."""

    @abstractmethod
    def expected_information(self, mean: Tensor, sd: Tensor) -> Tensor:
        """E `fisher` where f ~ N(mean, sd^2), independent over classes, (n, C, C)."""

    def expected(self, mean: Tensor, root: Tensor, exposure: Exposure = None) -> Response:
        """Expected probabilities (n, C) where f ~ N(mean, root root'), without derivatives."""
        f, weights = self._nodes(mean, root)
        return Response((weights[:, None] * self.response(f).value).sum(axis=1), None, None)

    def expected_log(
        self, mean: Tensor, sd: Tensor, y: Tensor, theta: Theta, exposure: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """E `logp` for f ~ N(mean, sd^2), its slope in mean, and -2 times its slope in variance.

        For independent f (n, C): (n,), and two (n, C).
        """
        f, weights = self._independent(mean, sd)
        logp, slopes = self.logp_and_slopes(f, y[:, None], theta)
        wide = weights[:, None]
        return (
            (weights * logp).sum(axis=1),
            (wide * slopes).sum(axis=1),
            -(wide * standard_nodes(self.classes)[0].T * slopes).sum(axis=1) / sd,
        )

    def log_predictive(
        self,
        y: Tensor,
        mean: Tensor,
        root: Tensor,
        theta: Theta | None = None,
        exposure: Exposure = None,
    ) -> Tensor:
        """Log probability of y where f ~ N(mean, root root'), mean (n, C) and root (n, C, C)."""
        f, weights = self._nodes(mean, root)
        return log_sum_exp(self.logp(f, y[:, None], theta or {}) + np.log(weights))

    def _nodes(self, mean: Tensor, root: Tensor) -> tuple[Tensor, np.ndarray]:
        """Nodes (n, K, C) of f ~ N(mean, root root') and weights (K,)."""
        x, weights = standard_nodes(self.classes)
        return (mean[..., None] + root @ x).transpose(0, 2, 1), weights

    def _independent(self, mean: Tensor, sd: Tensor) -> tuple[Tensor, np.ndarray]:
        """Nodes (n, K, C) of independent f ~ N(mean, sd^2) and weights (K,).

        By a matrix product, which keeps the nodes of a class neighbours in memory.
        """
        x, weights = standard_nodes(self.classes)
        basis = np.stack([np.ones_like(x), x], axis=1)
        both = pt.stack([mean, sd], axis=2)[:, :, None]
        return (both @ basis)[:, :, 0].transpose(0, 2, 1), weights


def _nodes(mean: Tensor, sd: Tensor) -> tuple[Tensor, np.ndarray]:
    """Nodes (n, K) of f ~ N(mean, sd^2) and weights (K,)."""
    x, weights = standard_nodes()
    return mean[:, None] + sd[:, None] * x, weights


def column(exposure: Exposure) -> Exposure:
    """Exposure as a column (n, 1), to go with nodes (n, K) of f."""
    return None if exposure is None else exposure[:, None]
