"""The base class of methods of inference."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import pymc as pm
import xarray as xr

from bayes_gpx.validation import SYNONYMS

Start = Mapping[str, Any]
"""Values of some variables by name; the others start at their priors' centres."""

type ValueAndSlope = Callable[[np.ndarray], tuple[float, np.ndarray]]
"""Function x -> (value, gradient) of a log density; -inf where there is no value."""


class Method(ABC):
    """A method from a model's density to draws of its free variables."""

    # Type of its draws: "mode", a single one of highest density; "weighted", draws resampled by
    # importance weights, all with equal weight; "chains", the draws of a sampler.
    gives: ClassVar[Literal["mode", "weighted", "chains"]]
    # Arguments that `fit` needs, among `draws`, `tune`, `chains`, `seed`, as the user passed them;
    # and `by_rows`, a function from the size of a minibatch to a `BoundByRows`. All other keywords
    # of `fit` are options of the method.
    takes: ClassVar[tuple[str, ...]] = ()
    # The model must have inducing points, and the fit contains the posterior of their values.
    inducing: ClassVar[bool] = False
    # It can sample latent values too. It then takes `around`, hyperparameters of high density.
    latent: ClassVar[bool] = False

    @abstractmethod
    def fit(self, model: pm.Model, starts: Sequence[Start], **options: Any) -> xr.DataTree:
        """Infer the free variables; raises NowhereFinite if the density is finite at no start."""
        # `progressbar` is among the options.

    def refuse_unknown(self, name: str, options: Iterable[str]) -> None:
        """Raise TypeError for options that `fit` does not support; list the supported ones."""
        for option in options:
            if meant := SYNONYMS["fit"].get(option):
                raise TypeError(f"fit has no option {option!r}. Did you mean {meant!r}?")
        parameters = inspect.signature(self.fit).parameters.values()
        if any(p.kind is p.VAR_KEYWORD for p in parameters):
            return
        given = {*self.takes, "progressbar", "around"}
        own = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.name not in given]
        unknown = [option for option in options if option not in own]
        if unknown:
            own += [option for option in self.takes if option != "by_rows"]
            expected = f"Pass some of {own}" if own else "It has no options"
            raise TypeError(f"method={name!r} does not take the options {unknown}. {expected}.")

    def threads(self, options: Mapping[str, Any]) -> int:
        """Number of densities that `fit` mostly evaluates at the same time, given its options."""
        return 1
