"""The base of models: data, kernel and priors become a `pymc.Model` with named dims; `fit`."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import xarray as xr
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors

from bayes_gpx.aliases import Draws, Priors, Tensor
from bayes_gpx.draws.each_draw import posteriors_at
from bayes_gpx.draws.hyperparameter_draws import hyperparameter_draws
from bayes_gpx.model.bound_data import BoundModel, add_cells, add_points, bound_data, name_functions
from bayes_gpx.model.description import described, probe_of, signature_of
from bayes_gpx.model.fitting import infer
from bayes_gpx.model.fixed_basis import deviates, fixed_design, sums_over_rows
from bayes_gpx.model.given_values import by_variable, checked, medians
from bayes_gpx.model.inducing_points import inducing_points
from bayes_gpx.model.latent_variables import latent_names
from bayes_gpx.model.observed_response import (
    check_response,
    collapsed,
    observe,
    refuse_many,
    refuse_row_data,
    refuse_streamed,
)
from bayes_gpx.model.priors import add_covariances, create_variables, of_sources
from bayes_gpx.model.starting_points import starts
from bayes_gpx.model.views import Views
from bayes_gpx.names import no_attribute
from bayes_gpx.numerics.row_sums import PARTS
from bayes_gpx.numerics.threads import on_cores
from bayes_gpx.posteriors.base import Conditioning, inducing_operator, symbols_of_rows
from bayes_gpx.processes.indexed_process import in_groups

if TYPE_CHECKING:
    from bayes_gpx.data.training import TrainingData
    from bayes_gpx.model.specification import Specification


class Model(Views):
    """Base class of `GP` and `GPX`; abstract."""

    # A `TrainingData`: X, Z and y in user units, and their scaling. Explanation functions use Z,
    # labels and scalings where a family has them, which a type checker would call optional.
    training: Any
    # A `Specification`: frozen, while `SpecificationLike` declares fields that can be set.
    specification: Any
    priors: Priors  # as passed by the user
    hyperparameters: dict[str, int]  # number of dimensions of one draw, by name
    fixed: dict[str, np.ndarray]  # hyperparameters that are not inferred
    inducing: dict[str, np.ndarray]  # inducing points on the model's scale, if any
    # Given out-of-core rows, by digests of the hyperparameters so far: alpha, root and jitter.
    posteriors: dict[str, tuple]
    structures: dict[tuple, Any]  # of graphs, by names and dimensions of the draws' hyperparameters
    joined: bool  # built inside a larger `pymc.Model`

    def __init__(
        self,
        training: TrainingData,
        specification: Specification,
        *,
        priors: Priors | None,
        scale: bool,
        name: str,
    ) -> None:
        self._read(training, specification, priors, scale, name)
        self._build(pm.Model.get_context(error_if_none=False))

    if not TYPE_CHECKING:  # to type checkers there are no other attributes

        def __getattr__(self, name: str) -> Any:
            if hasattr(type(self), name):  # a property, which failed by an error of its own
                return object.__getattribute__(self, name)
            raise no_attribute(f"{type(self).__name__!r} object", name)

    def _read(
        self,
        training: TrainingData,
        specification: Specification,
        priors: Priors | None,
        scale: bool,
        name: str,
    ) -> None:
        if specification.observation.classes is not None:
            labels = specification.processes or training.labels or ()
            specification = replace(specification, classes=len(labels))
            refuse_many(training.n, specification)
        if training.row_data is not None:
            refuse_row_data(training, specification, priors or {})
            specification = specification.of_row_data(training)
        observation, names = specification.observation, training.labels
        if names is not None and not observation.labelled:
            training = replace(training, labels=None)  # categories stay numbers
        if not specification.settled:
            fields = observation.settled(training.response_moments, scale)
            fields |= {} if training.labels is names else {"names": names}
            specification = replace(specification, settled=tuple(fields.items()))
        check_response(training, specification.observation, priors)
        self.training, self.specification = training, specification
        self.priors, self.scale, self.name = {} if priors is None else priors, scale, name
        self.posteriors, self.structures = {}, {}

    @classmethod
    def restored(
        cls,
        training: TrainingData,
        specification: Specification,
        inducing: Mapping[str, np.ndarray] | None = None,
        *,
        sums: Mapping[str, np.ndarray] | None = None,
        posteriors: Mapping[str, tuple] | None = None,
        **settings: Any,
    ) -> Self:
        """Build a model of scaled data, or of summaries of out-of-core rows, outside any other."""
        model = cls.__new__(cls)
        model._read(training, specification, **settings)
        if sums:
            model.sums = dict(sums)
        model.posteriors |= posteriors or {}
        model._build(None, inducing)
        return model

    def of_rows(self, training: TrainingData) -> Self:
        """The same model of other samples on its scale, outside of any other; not fitted."""
        specification = self.specification
        if training.row_data is not None:
            specification = specification.of_row_data(training)
        return self.restored(training, specification, **self._settings)

    def of_features(self, sources: Sequence[str]) -> Self:
        """The same model of some columns of X, outside of any other; not fitted."""
        # It keeps their scale, the values that their hyperparameters are fixed at, and these
        # columns of inducing points. Where Z is X, the other columns have no weights either.
        if self.specification.constraints is not None:
            raise ValueError(
                "The model has constraints, which may be about features that are left out. Use a "
                "model without constraints."
            )
        training, dims = self.training.only(sources), {"U": "feature", "U_Z": "z_feature"}
        kept = {"feature": np.isin(self.training.X.columns, training.X.columns)}
        if training.tied:
            kept["z_feature"] = np.isin(self.training.Z.columns, training.Z.columns)
        dims |= {h.name: h.dim for h in self.specification.hyperparameters}
        values = (self.fixed | self.inducing).items()
        own = {n: v[..., kept[dims[n]]] for n, v in values if dims[n] in kept}
        fixed = {n: v for n, v in own.items() if n in self.fixed}
        settings = self._settings | {"priors": of_sources(self, sources) | fixed}
        inducing = {n: own.get(n, U) for n, U in self.inducing.items()}
        specification, basis = self.specification, self.specification.approximation
        if basis is not None:
            specification = replace(specification, approximation=basis.of_columns(kept["feature"]))
        return self.restored(training, specification, inducing, **settings)

    def summarized(self, idata: Draws, num_draws: int | None = None) -> Self:
        """The model of out-of-core data with summaries at these draws in place of the rows."""
        # One pass over the rows for each draw, unless sums over them suffice.
        known = posteriors_at(self, hyperparameter_draws(self, idata, num_draws))
        sums = self.sums if self.specification.fixed_basis else {}
        kept: dict[str, Any] = {"sums": sums, "posteriors": known, **self._settings}
        training = self.training.summarized()
        return self.restored(training, self.specification, self.inducing, **kept)

    @property
    def _settings(self) -> dict[str, Any]:
        return {"priors": self.priors, "scale": self.scale, "name": self.name}

    def __reduce__(self) -> tuple[Callable, tuple]:
        """Pickle the parts of the model; it is rebuilt on arrival."""
        if self.joined:
            raise pickle.PicklingError(
                "This model is part of a larger pm.Model and cannot be sent without it. Build it "
                "outside of the `with pm.Model()` block, or send the data and build both where "
                "they arrive."
            )
        kept = {"sums": self.__dict__.get("sums", {}), "posteriors": self.posteriors}
        own = self.training, self.specification, self.inducing, kept | self._settings
        return _rebuilt, (type(self), *own)

    def class_labels(self, of_response: bool) -> tuple:
        """Labels of the latent values of a row, or of their responses, if there are several."""
        observation = self.specification.observation
        own = observation.responses if of_response else observation.processes
        return own or self.training.labels or ()

    def in_model(self, name: str) -> str:
        """Name of a variable or dim of this model in its `pymc.Model`."""
        return f"{self.name}_{name}" if self.name else name

    def _build(
        self, outer: pm.Model | None, inducing: Mapping[str, np.ndarray] | None = None
    ) -> None:
        self.joined = outer is not None
        self._pymc = outer if outer is not None else BoundModel(model=None)
        if outer is not None:
            if self.in_model("X") in outer.named_vars:
                raise ValueError(
                    f"The pm.Model has a {self.in_model('X')!r} already, as of another model of "
                    "this package. Pass a name= that no other has."
                )
            _register_numba()
        approximation = self.specification.approximation
        self.inducing = dict(inducing or inducing_points(self.training, approximation))
        self._jitter, spec = pytensor.shared(0.0, "jitter"), self.specification
        self._fitting = threading.Lock()
        with self._pymc:
            theta, self.fixed, self.called_kernel, entries = self.build(observe)
        known = set(theta.values())
        above = set(ancestors(entries, blockers=known))
        self.own_variables = tuple(
            rv for rv in self._pymc.free_RVs if rv in above and rv not in known
        )
        self.posterior_names = {name: variable.name for name, variable in theta.items()}
        self.posterior_names |= {rv.name: rv.name for rv in self.own_variables}
        self.latent_names = latent_names(spec, self.in_model)
        self.own_terms = {*self._pymc.potentials, *self._pymc.observed_RVs}
        self.hyperparameters = {h.name: h.ndim for h in spec.hyperparameters}
        self.hyperparameters |= {rv.name: rv.ndim for rv in self.own_variables}

    def build(
        self, observe: Callable[..., list], enter: Callable[..., Tensor] = bound_data
    ) -> tuple[dict, dict, Any, list]:
        """Add data, by `enter` like `pymc.Data`, hyperparameters and what `observe` adds."""
        data, spec = self.training, self.specification
        x, z = add_points(data, self.in_model, enter)
        if spec.classes is not None or spec.outputs is not None:
            dim = spec.observation.class_dim
            name_functions(data, dim, self.class_labels(False), spec.correlation, self.in_model)
        for dim, labels in spec.observation.coords.items():
            pm.modelcontext(None).add_coord(self.in_model(dim), labels)
        theta, fixed = create_variables(spec, self.priors, data, rename=self.in_model)
        called = spec.call_kernel(data.d)
        scaled = data.scaled()
        if data.groups is not None:
            group = enter(self.in_model("group"), data.groups.codes, dims=(self.in_model("obs"),))
            x = in_groups(x, group)
        if data.outputs is not None:
            x, z = add_cells(x, z, data.outputs, self.in_model, enter)
        points = self.inducing.items()
        inducing = {name: pt.specify_shape(pt.constant(U), U.shape) for name, U in points}
        y: Any = scaled["y"]
        exposure, parts = None, None
        if data.streamed:
            refuse_streamed(spec)
            p = None if data.Z is None else data.p
            block = symbols_of_rows(data.d, p, spec.conditioned if spec.exposed else None)
            x, z, y, exposure = (block.get(name) for name in ("X", "Z", "y", "exposure"))
            parts = Constant(PARTS, data)
        elif data.row_data is None and spec.observation.exposed:
            name, dims = self.in_model("exposure"), (self.in_model(data.responses[0]),)
            exposure = enter(name, scaled["exposure"], dims=dims)
        elif "exposure" in scaled:
            exposure = pt.constant(scaled["exposure"])
        corners = pt.constant(data.corners) if spec.expanded else None
        process = spec.prior(theta, data.d, called, corners, data.p)
        by_sums = not spec.exposed and spec.constraints is None
        if by_sums and (design := fixed_design(process, theta, data)) is not None:
            spec, self._design = replace(spec, fixed_basis=True), design
        own = deviates(theta) and not (data.streamed or spec.codes)
        self.specification = spec = replace(spec, deviating=own)
        given = Conditioning(
            process,
            spec.conditioned,
            spec.of_outputs(theta, None if data.outputs is None else data.outputs.codes),
            x,
            y,
            z,
            exposure,
            inducing_operator(**inducing, constraints=spec.constraints),
            constraints=spec.constraints,
            parts=parts,
            noise=spec.noise_of_outputs(theta),
        )
        if spec.correlation:
            add_covariances(spec, theta, rename=self.in_model)
        entries = observe(
            spec, given, data, rename=self.in_model, ridge=self._jitter, sums=self._sums_of
        )
        return theta, fixed, called, entries

    @cached_property
    def objective(self) -> pm.Model:
        """The model that `fit` works on: hyperparameters are its only random variables."""
        spec = self.specification
        if self.training.streamed or (spec.normal and not spec.hierarchical):
            return self._pymc
        with pm.Model(model=None) as objective:
            self.build(collapsed)
        outer = set(ancestors(objective.basic_RVs)) & set(self._pymc.free_RVs)
        if outer:
            names = sorted(str(rv.name) for rv in outer)
            raise ValueError(
                f"Priors or kernel depend on {names} of a surrounding model, which fit() leaves "
                "out if noise is not normal or the model is a hierarchy. Sample the whole model "
                "with pm.sample(model=model.pymc), and explain these draws."
            )
        return objective

    @cached_property
    def sums(self) -> dict[str, np.ndarray]:
        """Sums over all rows by the names of `Sums`, if `specification.fixed_basis`: one pass."""
        return sums_over_rows(self._design, self.training)

    def _sums_of(self, y: np.ndarray) -> dict[str, np.ndarray]:
        """Sums over rows for another response that the density is evaluated at."""
        if y is self.training.y or np.array_equal(y, self.training.y):
            return self.sums
        return sums_over_rows(self._design, replace(self.training, y=np.asarray(y, "float64")))

    @cached_property
    def pymc(self) -> pm.Model:
        """The generative `pymc.Model`: hyperparameters and y, in user units.

        If noise is not normal, it also has whitened latent values. With
        ``representation="hierarchy"`` it also has f and, in a GPX, the weights.

        PyMC's functions for the prior work as for any model. Those for the posterior need care if
        the fit has hyperparameters only: ``pm.sample_posterior_predictive(idata,
        model=model.pymc)`` then draws y given the hyperparameters, but not given the observed
        responses, because the function is integrated out or drawn from its prior. Use
        `bayes_gpx.sample_posterior_predictive` and `bayes_gpx.predictions` for draws that are
        conditioned on the data.
        """
        _register_numba()
        return self._pymc

    @property
    def variables(self) -> dict[str, Tensor]:
        """PyMC's variable of each hyperparameter that is inferred, by its name here."""
        inferred = (name for name in self.hyperparameters if name not in self.fixed)
        return {name: self._pymc.named_vars[self.posterior_names[name]] for name in inferred}

    def dims_of(self, name: str) -> tuple[str, ...]:
        """Dims of one draw of a hyperparameter, as they are called in the model."""
        if name not in self.fixed:
            return self._pymc.named_vars_to_dims.get(self.posterior_names[name], ())
        dims = {h.name: h.dims for h in self.specification.hyperparameters}
        return tuple(map(self.in_model, dims[name]))

    def __repr__(self) -> str:
        """What the model is made of, and its hyperparameters, as a table."""
        return described(self)

    @property
    def signature_key(self) -> str:
        """Attribute of an idata that holds the signature of the model that was fitted."""
        return self.in_model("bayes_gpx_model")

    @property
    def signature(self) -> str:
        """Text that identifies a model: structure, columns, size, and values of kernels."""
        return signature_of(self)

    @cached_property
    def kernel_probe(self) -> list[str]:
        """What a callable kernel does at a few rows."""
        return probe_of(self)

    def fixed_hyperparameters(self, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Check a complete dict of fixed hyperparameters, on the model's scale."""
        # Raises ValueError for an unknown or missing name, or an inadmissible value.
        return {**self.fixed, **checked(self, values)}

    def starts(self, given: Draws | None = None) -> list[dict[str, Any]]:
        """Starting points of optimizers, by variable name: the given one, or several."""
        if given is None:
            found = starts(self.training, self.specification)
        else:
            found = [self.fixed_hyperparameters(medians(self, given))]
        return [by_variable(self, start) for start in found]

    @contextmanager
    def jittered(self, jitter: float) -> Iterator[None]:
        """Hold the densities' jitter at a value: for one fit at a time, since it is shared."""
        with self._fitting:
            self._jitter.set_value(jitter)
            try:
                yield
            finally:
                self._jitter.set_value(0.0)

    def at_jitter(self, jitter: float) -> Self:
        """Rebuild the model on the same rows, with a fixed jitter in its densities."""
        # For a task of a fit in progress, which uses the jitter of the original model.
        own = copy.copy(self)
        own._jitter.set_value(jitter)
        return own

    @on_cores
    def fit(
        self,
        method: str = "auto",
        *,
        draws: int = 1000,
        tune: int = 1000,
        chains: int = 4,
        seed: int | None = None,
        start: Draws | None = None,
        latent: Literal["marginal", "sample"] = "marginal",
        truncated: Literal["ep", "sample"] = "ep",
        cores: int | None = None,
        progressbar: bool = True,
        **kwargs: Any,
    ) -> xr.DataTree:
        """Infer the hyperparameters.

        Use "auto" unless speed matters more than intervals ("map") or the data are very large
        ("svgp"). "Choose an explanation" in the guide compares the methods.

        Parameters
        ----------
        method : {"auto", "map", "laplace", "nuts", "svgp"}
            "auto" is "laplace", or "nuts" if those draws are unreliable, unless that would take
            five minutes, or takes ten times as long as expected. The attribute `inference_method`
            of the posterior names the method.

            "map" maximizes the posterior density of the unconstrained hyperparameters, or with
            ``jacobian=False`` of the hyperparameters, and returns one draw. It ignores their
            uncertainty: with few rows its intervals are too narrow.

            "laplace" draws from t distributions around this mode, and resamples the draws by
            importance weights. `idata.attrs["convergence"]` is "converged" if these are even
            enough to represent the posterior. "nuts" starts around the mode.

            "svgp", for models with inducing points, is "map" with the bound's trace in `elbo`.
        draws, tune, chains : int
            For "nuts", the numbers for each chain; "laplace" returns `draws` in one chain.
        seed : int, optional
            Seed of the draws.
        start : dict or xarray.DataTree, optional
            Where the optimizer starts: hyperparameters on the model's scale, or a fit's medians.
        latent : {"marginal", "sample"}
            For "nuts" with a non-Gaussian likelihood, or with ``representation="hierarchy"``.
            "marginal" samples the hyperparameters, with an approximate marginal likelihood.
            "sample" also samples the latent values, which is exact and slower.
        truncated : {"ep", "sample"}
            For constraints with bounds: "ep" approximates up to about five; "sample" is exact for
            any number with a Gaussian likelihood.
        progressbar : bool
            Show progress.
        **kwargs
            `executor`, a `concurrent.futures.Executor` that runs the optimizer's starting points.
            `log_likelihood=False` leaves leave-one-out terms out. For "nuts": `nuts_sampler`
            ("nutpie", "pymc", "numpyro" or "blackjax"), `target_accept` (0.9) and options of the
            sampler. For "svgp": `minibatch` rows at a time, `steps` (2000), `learning_rate` (0.02).

        Returns
        -------
        xarray.DataTree
            Groups posterior, sample_stats, observed_data, constant_data, starts (the optima) and,
            with at least 100 draws, log_likelihood, for `arviz.loo`. The attribute
            `laplace_information` says which information Laplace's approximation took, if any.

        Warns
        -----
        ConvergenceWarning
            If an optimizer or sampler did not converge.
        """
        return infer(
            self,
            method,
            draws=draws,
            tune=tune,
            chains=chains,
            seed=seed,
            start=start,
            latent=latent,
            truncated=truncated,
            progressbar=progressbar,
            **kwargs,
        )


def _rebuilt(
    kind: type[Model],
    training: TrainingData,
    specification: Specification,
    inducing: Mapping[str, np.ndarray],
    settings: Mapping[str, Any],
) -> Model:
    """The model that was pickled."""
    return kind.restored(training, specification, inducing, **settings)


def _register_numba() -> None:
    """Give the log density its numba form, for those who sample by PyMC; it takes a second."""
    from bayes_gpx.posteriors.evidence import numba_forms  # noqa: F401
