"""The settings of a model: kernel, hyperparameters, priors, likelihood, approximation."""

# A `Specification` decides the structure of every graph and is the key under which compiled
# functions are shared: two models with equal specifications never compile twice.

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any, Self, cast

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.gp.cov import Covariance

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.data.row_data import RowData
from bayes_gpx.data.training import TrainingData
from bayes_gpx.kernels.precomputed import Precomputed
from bayes_gpx.likelihoods import KNOWN, named
from bayes_gpx.likelihoods.base import Likelihood
from bayes_gpx.likelihoods.events import Event
from bayes_gpx.likelihoods.rows import Censored, CensoredProcesses, Weighted
from bayes_gpx.model.hyperparameters import (
    Hyperparameter,
    amplitude_of,
    loading,
    of_noise,
    relative_sigma_w,
    sigma_w,
)
from bayes_gpx.model.named_kernels import KERNELS, NamedKernel, amplitude
from bayes_gpx.model.unsupported import refuse_unsupported
from bayes_gpx.posteriors.base import Strategy
from bayes_gpx.posteriors.constraints import Constraints
from bayes_gpx.posteriors.strategies.choice import strategy_of
from bayes_gpx.processes.approximations import HSGP, Expansion, Inducing
from bayes_gpx.processes.base import Process
from bayes_gpx.processes.basis_process import BasisProcess, expanded
from bayes_gpx.processes.class_process import ClassProcess, SeparateProcesses
from bayes_gpx.processes.gaussian_process import GaussianProcess
from bayes_gpx.processes.indexed_process import IndexedProcess, Loaded, Part, Same
from bayes_gpx.processes.weight_process import WeightProcess
from bayes_gpx.validation import one_of

WEIGHT_PRIORS = ("shared", "per_feature", "horseshoe")
"""How the amplitudes of a GPX's weight functions may be related; see `bayes_gpx.GPX`."""

OF_OUTPUTS, OF_CLASSES = 1.0, 2.0
"""What is shared by outputs, in standard deviations of y, and by classes, as log odds; a priori."""

FACTOR = "factor_"
"""What the names begin with of hyperparameters of functions that outputs share."""

REPRESENTATIONS = ("collapsed", "hierarchy")
"""What a model's `pymc.Model` can be; see `bayes_gpx.GP`."""


@dataclass(frozen=True)
class Factor:
    """One factor of a kernel, and the prefix of its hyperparameters' names."""

    kind: str | Precomputed
    prefix: str

    @property
    def kernel(self) -> NamedKernel:
        """What it stands for."""
        kind = self.kind
        if isinstance(kind, Precomputed):
            return NamedKernel(lambda d: kind, growth=lambda d: kind.deviation)
        return KERNELS[kind]


@dataclass(frozen=True)
class Specification:
    """Structure of a model; hashable, without data and without priors."""

    family: str  # "GP" or "GPX"
    kernel: str | Precomputed | Callable  # names joined by + and *, or d -> Covariance
    ard: bool = True  # one lengthscale for each feature
    likelihood: str | Likelihood = "normal"  # a name in `bayes_gpx.likelihoods.KNOWN`, or its own
    weight_prior: str = "shared"  # of a GPX, one of `WEIGHT_PRIORS`
    approximation: Any = None  # Inducing, HSGP, RandomFeatures or None
    link: str | None = None  # link of the likelihood; None for its default
    classes: int | None = None  # of a likelihood with several latent values
    # Representation in PyMC. It is not compared, because no explanation depends on it.
    representation: str = field(default="collapsed", compare=False)
    fixed_basis: bool = False  # hyperparameters change no basis function; the model finds this out
    deviating: bool = False  # rows in memory deviate from smooth weights; likewise
    grouped: bool = False  # rows belong to groups, with a level or weights for each group
    constraints: Constraints | None = None  # on the function, in addition to the data
    outputs: int | None = None  # responses in each row of a table; None for a single response
    correlation: int = 0  # functions that outputs, or classes, share: their correlation's rank
    settled: tuple[tuple[str, Any], ...] = ()  # fields of the likelihood that the data decide
    weighted: bool = False  # rows have weights
    censored: tuple[str, ...] | None = None  # kinds of rows with bounds; () for none of them
    # What `on="response"` explains in place of the mean, as in `Model.of_event`. It is not
    # compared, because the posterior does not depend on it.
    event: Event | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.likelihood, Likelihood):
            for name, links in KNOWN.items():
                if self.likelihood == next(iter(links.values())):
                    object.__setattr__(self, "likelihood", name)
        # The default link is None, so that specifications with it by name and without are equal.
        if named(self.likelihood, self.link) is named(self.likelihood):
            object.__setattr__(self, "link", None)
        one_of("weight_prior", self.weight_prior, WEIGHT_PRIORS)
        one_of("representation", self.representation, REPRESENTATIONS)
        refuse_unsupported(self)

    def __reduce__(self) -> tuple[type, tuple]:
        """Pickle the fields alone, without the cached properties."""
        return type(self), tuple(getattr(self, field.name) for field in fields(self))

    @property
    def processes(self) -> tuple[str, ...]:
        """Names of the latent values, if each is a process with hyperparameters of its own."""
        return named(self.likelihood, self.link).processes

    @property
    def calls_kernel(self) -> bool:
        """Whether the kernel is a function of the user's."""
        return not isinstance(self.kernel, str | Precomputed)

    @property
    def levels(self) -> tuple[str, ...] | None:
        """Labels that X's one column may hold, where the kernel is one of labels; else None."""
        return self.kernel.labels if isinstance(self.kernel, Precomputed) else None

    @cached_property
    def summands(self) -> tuple[tuple[Factor, ...], ...]:
        """The kernel as a sum of products of factors; empty for a callable."""
        if isinstance(self.kernel, Precomputed):
            return ((Factor(self.kernel, ""),),)
        if not isinstance(self.kernel, str):
            return ()
        names = [[f.strip() for f in term.split("*")] for term in self.kernel.split("+")]
        alone = sum(map(len, names)) == 1
        seen: dict[str, int] = {}
        summands = []
        for term in names:
            factors = []
            for kind in term:
                seen[kind] = seen.get(kind, 0) + 1
                repeat = str(seen[kind]) if seen[kind] > 1 else ""
                factors.append(Factor(kind, "" if alone else f"{kind}{repeat}_"))
            summands.append(tuple(factors))
        return tuple(summands)

    @property
    def made_of(self) -> tuple:
        """What its names stand for now, since tables of names can change while graphs are kept."""
        kinds = (factor.kind for factor in chain(*self.summands))
        kernels = tuple(KERNELS.get(kind, kind) for kind in kinds)
        return kernels, self.observation

    @property
    def normal(self) -> bool:
        """Whether the likelihood is Gaussian, and f integrates out exactly."""
        return self.observation.normal and self.censored is None

    @property
    def exposed(self) -> bool:
        """Whether the likelihood is given numbers of each row: for all but a constant noise."""
        return not self.normal or self.observation.exposed or self.weighted

    @cached_property
    def observation(self) -> Any:  # its users declare the parts of a likelihood that they need
        """How the response varies around the process; see `bayes_gpx.likelihoods`."""
        likelihood: Any = named(self.likelihood, self.link)  # a dataclass, as its base is not
        fields = dict(self.settled) | ({} if self.classes is None else {"classes": self.classes})
        return replace(likelihood, **fields) if fields else likelihood

    @cached_property
    def conditioned(self) -> Any:
        """The likelihood of training rows: `observation`, with their weights and bounds."""
        found = self.observation
        if self.censored is not None:
            found = (CensoredProcesses if found.processes else Censored)(found, self.censored)
        return Weighted(found) if self.weighted else found

    def of_row_data(self, training: TrainingData) -> Self:
        """The same of rows with weights or bounds of y, among others that may have them too."""
        kinds, row_data = self.censored, cast(RowData, training.row_data)
        if row_data.censoring is not None:
            kinds = tuple(sorted({*(kinds or ()), *training.totals.kinds}))
        weighted = self.weighted or row_data.weights is not None
        return replace(self, weighted=weighted, censored=kinds)

    def observation_of(self, rows: Any) -> Any:
        """The likelihood of rows as they are recorded: new ones have no weights and bounds."""
        return self.observation if rows.row_data is None else self.conditioned

    @property
    def response(self) -> Any:
        """What `on="response"` explains: the observation's mean, or an event."""
        return self.observation if self.event is None else self.event

    @property
    def hierarchical(self) -> bool:
        """Whether f, and in a GPX the weights that it is made of, are variables of the model."""
        return self.representation == "hierarchy"

    @property
    def by_feature(self) -> bool:
        """Whether each weight function has its own amplitude."""
        return self.family == "GPX" and self.weight_prior != "shared"

    @cached_property
    def amplitudes(self) -> tuple[Hyperparameter, ...]:
        """Hyperparameters that scale the summands; a callable kernel has its own."""
        dim = "z_feature" if self.by_feature else None
        if self.calls_kernel:
            own = Hyperparameter("amplitude", "amplitude", dim, amplitude)
            return (own,) if self.by_feature else ()
        prefixes = [s[0].prefix for s in self.summands] if len(self.summands) > 1 else [""]
        return tuple(
            amplitude_of(prefix, summand, dim)
            for prefix, summand in zip(prefixes, self.summands, strict=True)
        )

    @cached_property
    def group_amplitudes(self) -> tuple[Hyperparameter, ...]:
        """Hyperparameters that scale groups' own parts: their levels, or their weight functions."""
        if not self.grouped:
            return ()
        if self.family == "GP":
            name = "group_amplitude"
            return (Hyperparameter(name, name, None, amplitude, may_be_zero=True),)
        return tuple(
            replace(
                of_all,
                name=f"{of_all.name.removesuffix('amplitude')}group_amplitude",
                kind="group_amplitude",
                may_be_zero=True,
            )
            for of_all in self.amplitudes
        )

    @cached_property
    def hyperparameters(self) -> tuple[Hyperparameter, ...]:
        """All hyperparameters but those that a callable kernel creates."""
        own: list[Hyperparameter] = []
        for factor in chain(*self.summands):
            kernel = factor.kernel
            for kind, default in kernel.hyperparameters.items():
                dim = "feature" if kind == "lengthscale" and self.ard else None
                zero = kind in kernel.may_be_zero
                own.append(Hyperparameter(factor.prefix + kind, kind, dim, default, zero))
        weights: tuple[Hyperparameter, ...] = ()
        if self.family == "GPX":
            kind, default = "sigma_w", sigma_w
            if self.weight_prior == "horseshoe":
                kind, default = "relative sigma_w", relative_sigma_w
            weights = (Hyperparameter("sigma_w", kind, None, default, True),)
        noise = (
            Hyperparameter(
                name,
                name,
                h.dim,
                partial(of_noise, h) if callable(h.prior) else h.prior,
                signed=h.dim is not None,
                in_units_of_y=h.in_units_of_y,
            )
            for name, h in self.observation.hyperparameters.items()
        )
        found = (*own, *self.amplitudes, *self.group_amplitudes, *weights, *noise)
        if self.processes:
            return tuple(replace(h, each="process") for h in found)
        if self.outputs is None:
            return (*found, *self.loadings)
        # Noise that is not normal has the same hyperparameters in all outputs.
        shared = () if self.normal else self.observation.hyperparameters
        each = (h if h.name in shared else replace(h, each="output") for h in found)
        return (*each, *self._of_factors(own), *self.loadings)

    def _of_factors(self, own: Sequence[Hyperparameter]) -> tuple[Hyperparameter, ...]:
        """Hyperparameters of the shared functions, from the hyperparameters of a kernel."""
        if not self.correlation:
            return ()
        return tuple(
            replace(h, name=f"{FACTOR}{h.name}", kind=f"factor {h.kind}", each="factor")
            for h in own
        )

    @cached_property
    def loadings(self) -> tuple[Hyperparameter, ...]:
        """How much of shared functions is in each output or class, by the kernel's summands."""
        if not self.correlation:
            return ()
        named = zip(self.amplitudes, self.summands, strict=True)
        each, sd = ("class", OF_CLASSES) if self.outputs is None else ("output", OF_OUTPUTS)
        return tuple(
            Hyperparameter(
                f"{a.name.removesuffix('amplitude')}loading",
                "loading",
                "factor",
                partial(loading, self.correlation, [f.kernel.growth for f in summand], sd),
                each=each,
                signed=True,
            )
            for a, summand in named
        )

    def process(
        self, theta: Mapping[str, Any], d: int, called: Any = None
    ) -> GaussianProcess | WeightProcess:
        """Prior process on the model's scale; `called` is the covariance from `call_kernel`."""
        summands = [called] if self.calls_kernel else self._products(theta, d)
        amplitudes = [theta[a.name] for a in self.amplitudes]
        if not self.by_feature:
            if amplitudes:
                summands = [a**2 * k for a, k in zip(amplitudes, summands, strict=True)]
            cov_func = sum(summands[1:], start=summands[0])
            if self.family == "GP":
                return GaussianProcess(cov_func)
            return WeightProcess(cov_func, theta["sigma_w"])
        return WeightProcess(summands, self.deviation_sd(theta), amplitudes)

    def deviation_sd(self, theta: Mapping[str, Any]) -> Any:
        """Standard deviation of `eps_w` on the model's scale, of all weights or of each."""
        if self.weight_prior != "horseshoe":
            return theta["sigma_w"]
        return theta["sigma_w"] * sum(theta[a.name] ** 2 for a in self.amplitudes) ** 0.5

    def prior(self, theta: Mapping[str, Any], d: int, called: Any, corners: Any, p: int) -> Process:
        """The prior process of data with p weighed features, by basis functions given `corners`."""
        # `corners` (2, d) are the least and the largest values of X's columns, or None without
        # basis functions.
        if self.correlation and self.outputs is None:
            return self._of_classes(theta, d, p)
        if self.processes:
            return SeparateProcesses.made_by(
                partial(self._of_one_process, theta, d, corners), len(self.processes)
            )
        parts = self._parts(theta, d, called, p)
        process: Any = parts[0].process
        if self.codes:
            process = IndexedProcess(tuple(parts), self.codes)
        return process if corners is None else expanded(process, self.approximation, corners)

    def _of_classes(self, theta: Mapping[str, Any], d: int, p: int) -> ClassProcess:
        """Prior of correlated classes; the levels of groups are independent between classes."""
        products, shared = self._products(theta, d), self.shared(theta)
        size = len(products) + self.grouped
        parts: list[Any] = [GaussianProcess(k, (s, size)) for s, k in enumerate(products)]
        if self.grouped:
            level = self._of_each_group(theta, d, p)
            level = Part(replace(level, place=(size - 1, size)), (Same(),))
            each = [*map(Part, parts), level]
            parts = [IndexedProcess((part,)) for part in each]
            shared = pt.concatenate([shared, pt.eye(self.classes)[None]])
        return ClassProcess(tuple(parts), shared)

    def _of_one_process(
        self, theta: Mapping[str, Any], d: int, corners: Any, code: TensorLike
    ) -> GaussianProcess | BasisProcess:
        """Prior of one of several processes, in its units, with its intercept."""
        one = self.process({h.name: theta[h.name][code] for h in self.hyperparameters}, d)
        units, intercepts = (pt.constant(v)[code] for v in self.observation.prior_sds)
        process = GaussianProcess(units**2 * one.cov_func + pm.gp.cov.Constant(intercepts**2))
        return process if corners is None else expanded(process, self.approximation, corners)

    @property
    def codes(self) -> int:
        """How many codes rows have: of their group, and of their output, which is the last."""
        return self.grouped + (self.outputs is not None)

    def _parts(self, theta: Mapping[str, Any], d: int, called: Any, p: int) -> list[Part]:
        """What the process adds up: the function of all groups, and each group's own; by output."""

        def of_one(own: Mapping[str, Any], *output: Loaded) -> list[Part]:
            common: Any = self.process(own, d, called)
            if isinstance(common, WeightProcess):
                common = replace(common, n_features=p)
            if not self.grouped:
                return [Part(common, output)]
            groups = Same(-self.codes)
            return [Part(common, output), Part(self._of_each_group(own, d, p), (groups, *output))]

        if self.outputs is None:
            return of_one(theta)
        parts = []
        for o, one in enumerate(np.eye(self.outputs)):
            own = {h.name: theta[h.name][o] for h in self.hyperparameters if h.each == "output"}
            parts += of_one(own, Loaded(pt.constant(one)))
        for r in range(self.correlation):
            factor = [h.name for h in self.hyperparameters if h.name.startswith(FACTOR)]
            own = {name.removeprefix(FACTOR): theta[name][r] for name in factor}
            products = list(zip(self._products(own, d), self.loadings, strict=True))
            for s, (product, loadings) in enumerate(products):
                process: Any = GaussianProcess(product, (s, len(products)))
                if self.family == "GPX":
                    process = WeightProcess(product, n_features=p)
                parts.append(Part(process, (Loaded(theta[loadings.name][:, r]),)))
        return parts

    def shared(self, theta: Mapping[str, Any]) -> Tensor:
        """Covariances between classes (S, C, C), for each of the kernel's summands."""
        own = [theta[a.name] * pt.eye(self.classes) for a in self.amplitudes]
        return pt.stack(
            [squared(theta[h.name], first) for h, first in zip(self.loadings, own, strict=True)]
        )

    def of_outputs(self, theta: Mapping[str, Any], codes: Any) -> Mapping[str, Any]:
        """Hyperparameters with the noise of the outputs with these codes, last of several."""
        if self.outputs is None or not self.normal:
            return theta
        output = codes[:, -1] if np.ndim(codes) == 2 else codes
        return {**theta, **{n: theta[n][output] for n in self.observation.hyperparameters}}

    def noise_of_outputs(self, theta: Mapping[str, Any]) -> dict[str, Any]:
        """Hyperparameters of the noise, with a value for each of several outputs."""
        several = self.outputs is not None and self.normal
        names = self.observation.hyperparameters if several else ()
        return {name: theta[name] for name in names}

    def size(self, dim: str, training: Any) -> int:
        """How many values a hyperparameter has along a dim."""
        if dim in ("feature", "z_feature"):
            return cast(int, training.size(dim))
        own = {"output": self.outputs, "class": self.classes, "factor": self.correlation}
        own["process"] = len(self.processes)
        own |= {name: len(labels) for name, labels in self.observation.coords.items()}
        return cast(int, own[dim])

    def _of_each_group(self, theta: Mapping[str, Any], d: int, p: int) -> Any:
        """Prior of each group's level, or of its weights with the same kernels."""
        amplitudes = [theta[a.name] for a in self.group_amplitudes]
        if self.family == "GP":
            level: Any = GaussianProcess(pm.gp.cov.Constant(amplitudes[0] ** 2))
            if self.approximation is None:
                return level
            return expanded(level, HSGP(1), pt.zeros((2, d)))  # one constant function
        return WeightProcess(self._products(theta, d), 0.0, amplitudes, p)

    @property
    def expanded(self) -> bool:
        """Whether the process is a sum of basis functions."""
        return isinstance(self.approximation, Expansion)

    def strategy_of(self, names: Collection[str] = ()) -> Strategy:
        """Strategy from data to a posterior, for draws with these names and hyperparameters."""
        return strategy_of(
            normal=self.normal,
            classes=self.classes,
            separate=bool(self.processes),
            approximated=self.approximation is not None,
            inducing=isinstance(self.approximation, Inducing),
            fixed_basis=self.fixed_basis,
            constraints=self.constraints is not None,
            smooth=self.observation.smooth,
            correlated=self.outputs is None and self.correlation > 0,
            grouped=self.grouped,
            deviating=self.deviating,
            names=names,
        )

    def call_kernel(self, d: int) -> Covariance | None:
        """Call a callable kernel in the model on the context stack; None for a named one."""
        if isinstance(self.kernel, str | Precomputed):
            return None
        cov_func = self.kernel(d)
        if not isinstance(cov_func, pm.gp.cov.BaseCovariance):
            raise ValueError(
                f"kernel(d) returned {type(cov_func).__name__}. Return a covariance function of "
                "pymc.gp.cov, complete with its amplitude."
            )
        columns = np.max(getattr(cov_func, "active_dims", 0)) + 1
        if columns > d:
            raise ValueError(
                f"kernel(d) returned a covariance function of {columns} columns; X has {d}. Use "
                "the argument d as its input_dim."
            )
        return cov_func

    def _products(self, theta: Mapping[str, Any], d: int) -> list[Covariance]:
        """Covariance functions of the summands, without amplitudes."""
        return [self._product(summand, theta, d) for summand in self.summands]

    def _product(self, summand: Sequence[Factor], theta: Mapping[str, Any], d: int) -> Covariance:
        product = None
        for factor in summand:
            kernel = factor.kernel
            own = {kind: theta[factor.prefix + kind] for kind in kernel.hyperparameters}
            cov_func = kernel.covariance(d, **own)
            product = cov_func if product is None else product * cov_func
        return product


def squared(W: TensorLike, own: TensorLike) -> Tensor:
    """W W' + A A' for loadings W (q, r) and separate amplitudes A (q, q), as one product."""
    # For W alone, with r = 1, PyTensor's rewrites make another product, and fail if they take the
    # shapes of random variables from their dims.
    both = pt.concatenate([own, pt.as_tensor_variable(W)], axis=1)
    return pt.dot(both, both.T)
