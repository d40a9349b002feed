"""A fit, and the facts about it that every page and file states: method, draws, convergence."""

from __future__ import annotations

import warnings
from functools import cached_property
from typing import TYPE_CHECKING, Any

import xarray as xr

from bayes_gpx.aliases import Draws
from bayes_gpx.draws.constraints_met import ConstraintConflictWarning, constraints_met
from bayes_gpx.draws.hyperparameter_draws import hyperparameter_draws
from bayes_gpx.inference.diagnostics import FEWEST_DRAWS, Diagnosis, diagnose
from bayes_gpx.inference.methods import METHODS, method_named

if TYPE_CHECKING:
    from bayes_gpx.model.model import Model


class Fit:
    """A model with its fit, or with a dict of fixed hyperparameters."""

    def __init__(self, model: Model, idata: Draws) -> None:
        self.model = model
        # A DataTree where `fitted`; ArviZ takes no chunks of Dask.
        self.idata: Any = idata.compute() if isinstance(idata, xr.DataTree) else idata
        self.hyper = hyperparameter_draws(model, idata)

    @property
    def alone(self) -> bool:
        """Whether the fit is one hyperparameter draw, or copies of it."""
        return self.hyper.alone or self.gives == "mode"

    @property
    def fitted(self) -> bool:
        """Whether there is a fit, not a dict of fixed hyperparameters."""
        return not isinstance(self.idata, dict)

    @property
    def posterior_variables(self) -> set:
        """Names of the variables that the fit has draws of."""
        return set(self.idata["posterior"].data_vars) if self.fitted else set()

    @cached_property
    def constraints(self) -> xr.Dataset | None:
        """How constraints fare, None without any; see `constraints_met`."""
        if self.model.specification.constraints is None:
            return None
        if self.fitted and "constraints" in self.idata.children:
            return self.idata["constraints"].to_dataset()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConstraintConflictWarning)  # which two sections tell
            return constraints_met(self.model, self.idata, progressbar=False)

    @property
    def method(self) -> str:
        """How the hyperparameters were inferred."""
        if not self.fitted:
            return "given"
        return self.idata["posterior"].attrs.get("inference_method", "pymc.sample")

    @property
    def gives(self) -> str:
        """What the inference gives: "mode", "weighted" draws or "chains"."""
        return method_named(self.method).gives if self.method in METHODS else "chains"

    @cached_property
    def diagnosis(self) -> Diagnosis | None:
        """What the chains' diagnostics say; None without chains."""
        if not self.fitted or self.gives != "chains":
            return None
        enough = self.idata["posterior"].sizes["draw"] >= FEWEST_DRAWS
        return diagnose(self.idata) if enough else None

    @property
    def convergence(self) -> tuple[str | None, str | None]:
        """State and summary of draws; None of a mode that was found, and in early files."""
        if self.diagnosis is not None:
            return self.diagnosis.convergence, self.diagnosis.summary
        attrs = self.idata.attrs if self.gives != "chains" else {}
        return attrs.get("convergence"), attrs.get("convergence_summary")
