"""What a method of inference must give: one file for each, and its name in `methods`."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import pymc as pm
import xarray as xr

Start = Mapping[str, Any]
"""Values of some variables by name; the others start at their priors' centres."""


class Method(ABC):
    """A way from a model's density to draws of its free variables.

    Attributes
    ----------
    gives : {"mode", "weighted", "chains"}
        What its draws are: "mode", a single one of highest density; "weighted", draws resampled by
        importance weights, so that all count alike; "chains", those of a sampler.
    takes : tuple of str
        Which of these `fit` wants: `draws`, `tune`, `chains`, `seed`, as the user gave them; and
        `by_rows`, a function from the size of a minibatch to a `BoundByRows`. Whatever else it
        takes by keyword are options of its own, which the user may give.
    inducing : bool
        Whether the model must have inducing points, of whose values the fit then holds the
        posterior.
    latent : bool
        Whether it can sample latent values too. It is then given `around`, hyperparameters of high
        density.
    """

    gives: ClassVar[Literal["mode", "weighted", "chains"]]
    takes: ClassVar[tuple[str, ...]] = ()
    inducing: ClassVar[bool] = False
    latent: ClassVar[bool] = False

    @abstractmethod
    def fit(self, model: pm.Model, starts: Sequence[Start], **options: Any) -> xr.DataTree:
        """Infer the free variables of a model; `progressbar` is among the options.

        Raises
        ------
        NowhereFinite
            If the density is finite at none of the starts.
        """

    def refuse_unknown(self, name: str, options: Iterable[str]) -> None:
        """Raise for options that `fit` neither takes nor passes on.

        Raises
        ------
        TypeError
            If there are any; the message lists the options of the method, called `name`.
        """
        parameters = inspect.signature(self.fit).parameters.values()
        if any(p.kind is p.VAR_KEYWORD for p in parameters):
            return
        given = {*self.takes, "progressbar", "around"}
        own = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.name not in given]
        unknown = [option for option in options if option not in own]
        if unknown:
            expected = f"expected some of {own}" if own else "it has none of its own"
            raise TypeError(f"method={name!r} does not take the options {unknown}; {expected}.")

    def threads(self, options: Mapping[str, Any]) -> int:
        """Number of densities that `fit` mostly evaluates at the same time, given its options."""
        return 1
