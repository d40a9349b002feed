"""A likelihood of the user's own, from any distribution of PyMC."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor
from bayes_gpx.data.moments import Moments
from bayes_gpx.data.response import SUPPORTS
from bayes_gpx.likelihoods.base import DefaultPrior, Theta
from bayes_gpx.likelihoods.derived import FARTHEST, Derived
from bayes_gpx.likelihoods.log_link import log_average
from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.system.warning import warn
from bayes_gpx.validation import one_of

TRIED = {
    "real": (-100.0, -10.0, -1.0, -0.1, 0.0, 0.3, 3.0, 30.0, 300.0),
    "positive": (1e-3, 1e-2, 0.1, 0.5, 1.0, 2.0, 10.0, 100.0, 1e3),
    "unit": (1e-3, 0.01, 0.1, 0.3, 0.5, 0.8, 0.95, 0.99, 0.999),
    "counts": (0.0, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0, 1e3),
}
"""Responses where `custom` finds out whether a log density is concave in f."""

DRAWS = 8
"""Hyperparameters drawn from their priors for the same."""

FAR = 6.0
"""Largest |mean| and sd of real y that f's prior is sensible for, and inverse of the least sd."""


@dataclass(frozen=True)
class Custom(Derived):
    """See `custom`."""

    made_by: Callable[..., Tensor]
    mean_of_y: Callable[[Any, Any], Any]
    priors: tuple[tuple[str, Any], ...]
    support: str

    mean_name = "mean"

    def __repr__(self) -> str:
        """Return the name of every likelihood of a user's own."""
        return "custom"

    @property
    def called(self) -> str:
        """What messages call the likelihood."""
        return "this likelihood of your own"

    # What other likelihoods state in their class, this one computes, which mypy does not allow for.

    @property
    def units(self) -> str:  # type: ignore[override]
        """Units of f."""
        return "log mean of {y}" if self.exposed else "f of {y}"

    @property
    def hyperparameters(self) -> Mapping[str, DefaultPrior]:  # type: ignore[override]
        """The priors by name."""
        return {name: DefaultPrior(prior) for name, prior in self.priors}

    @property
    def exposed(self) -> bool:  # type: ignore[override]
        """Whether the mean is exposure exp(f)."""
        return _found(self)[0]

    @property
    def concave(self) -> bool:  # type: ignore[override]
        """Whether the log density is concave in f wherever it was tried."""
        return _found(self)[1]

    def center(
        self, y: np.ndarray, exposure: np.ndarray | None = None, weights: np.ndarray | None = None
    ) -> float:
        """Log of the mean y, or of y per exposure."""
        return log_average(y, exposure, weights)

    def warn_if_far(self, of_y: Moments, priors: Mapping[str, Any]) -> None:
        """Warn of real y far from the default prior of f, which has no units of y."""
        mean, sd = float(of_y.mean[0]), float(of_y.sd[0])
        near = abs(mean) < FAR and 1.0 / FAR < sd < FAR
        f = pt.dscalar("f")
        of_f = self.support == "real" and self.mean_of_y(f, pt.constant(1.0)) is f
        if of_f and not near and "amplitude" not in priors:
            warn(
                f"y has the mean {mean:.3g} and the sd {sd:.3g}, but a likelihood of your own "
                "takes y as it is, and f has a prior around 0 with an sd near 1. Standardize y, or "
                "give `amplitude` and the hyperparameters priors in units of y."
            )

    def distribution(self, f: Tensor, exposure: Tensor, theta: Theta) -> Tensor:
        """Distribution of y given f."""
        return self.made_by(f, exposure, **{name: theta[name] for name, _ in self.priors})

    def mean(self, f: Tensor, exposure: Tensor) -> Tensor:
        """Mean of y given f."""
        return pt.as_tensor(self.mean_of_y(f, exposure))


def custom(
    dist: Callable[..., Tensor],
    *,
    mean: Callable[[Any, Any], Any],
    priors: Mapping[str, Any] | None = None,
    support: str = "real",
) -> Custom:
    """Make a likelihood from any distribution of PyMC.

    The log density, its derivatives in f, the distribution function and draws are PyMC's and
    PyTensor's. Expectations over f and over y are sums. Where the log density is not concave in f,
    Laplace's approximation takes the expected information. Whether it is concave is found by trying
    values of f, y and the hyperparameters.

    Parameters
    ----------
    dist : callable
        ``dist(f, exposure, **hyperparameters)`` returns a distribution of one y, such as
        ``pm.Gamma.dist(...)``. Write it with PyTensor's functions; arguments are tensors.
    mean : callable
        ``mean(f, exposure)`` returns the mean of y given f. Explanations on the response scale are
        of this mean, so let hyperparameters change the distribution around it. If it is
        ``exposure * exp(f)``, models take `exposure` and begin at the mean of y.
    priors : dict, optional
        The default prior of each hyperparameter, all positive: a distribution such as
        ``pm.Gamma.dist(2, 0.5)``, a function of a name that returns a PyMC variable, or a number.
    support : {"real", "positive", "unit", "counts"}
        Which y are possible: real numbers, numbers above 0, numbers between 0 and 1, or 0, 1, ...
        With "real", f has the units of y; standardize y first if its sd is far from 1.

    Returns
    -------
    Likelihood
        To pass as ``likelihood=`` to `GP` and `GPX`. Models with the same object share compiled
        functions. A file cannot hold it; pass it to `load` again.

    Raises
    ------
    ValueError
        If `dist` returns no distribution of one y, or for an unknown support.

    See Also
    --------
    bayes_gpx.testing.check_likelihood : Names the fault of a likelihood.

    Examples
    --------
    >>> import bayes_gpx as bx
    >>> import pymc as pm
    >>> inverse = bx.likelihoods.custom(
    ...     lambda f, exposure, shape: pm.Wald.dist(mu=exposure * pm.math.exp(f), lam=shape),
    ...     mean=lambda f, exposure: exposure * pm.math.exp(f),
    ...     priors={"shape": pm.Gamma.dist(2, 0.5)},
    ...     support="positive",
    ... )
    """
    one_of("support", support, SUPPORTS)
    made = Custom(dist, mean, tuple((priors or {}).items()), support)
    named = [pt.dscalar(name) for name in made.hyperparameters]
    theta = dict(zip(made.hyperparameters, named, strict=True))
    found = dist(pt.dscalar("f"), pt.dscalar("exposure"), **theta)
    if not isinstance(found, pt.TensorVariable) or found.ndim:
        said = f"of shape {found.type.shape}" if isinstance(found, pt.TensorVariable) else ""
        raise ValueError(
            f"dist returned {found!r} {said}. Return the distribution of one y, such as "
            "pm.Gamma.dist(alpha=shape, beta=shape * pm.math.exp(-f))."
        )
    return made


@lru_cache(maxsize=32)
def _found(of: Custom) -> tuple[bool, bool]:
    """Whether the mean is exposure exp(f), and whether the log density is concave in f."""
    f, y = (pt.as_tensor(v) for v in np.meshgrid(_grid(), TRIED[of.support]))
    shown = np.array([-2.0, 0.0, 1.0])
    means = pytensor.function([], of.mean(pt.as_tensor(shown), pt.as_tensor(1.5)), mode=MODE)()
    exposed = np.allclose(means, 1.5 * np.exp(shown), rtol=1e-12, atol=0.0)
    symbols = [pt.dscalar(name) for name in of.hyperparameters]
    theta = dict(zip(of.hyperparameters, symbols, strict=True))
    first, second, _ = of.derivatives(f, y, theta)
    curved = pytensor.function(symbols, [first, second], mode=MODE, on_unused_input="ignore")
    with pm.Model(model=None) as model:  # not within the model that is being built
        for name, prior in of.priors:
            if callable(prior):
                prior(name)
            elif isinstance(prior, pt.TensorVariable):
                model.register_rv(prior.owner.clone().outputs[prior.index], name)
    drawn = pm.draw(list(model.basic_RVs), DRAWS, random_seed=0) if model.basic_RVs else []
    values = dict(zip((v.name for v in model.basic_RVs), drawn, strict=True))
    for k in range(DRAWS):
        given = [values[n][k] if n in values else float(p) for n, p in of.priors]
        slope, curvature = curved(*given)
        if not np.any(curvature):
            raise ValueError(
                "The log density of this likelihood of your own has no curvature in f: its second "
                "derivative is 0, as for pm.Laplace. Use a smooth one, or 'asymmetric_laplace'."
            )
        if not np.all(curvature <= 1e-9 * (1.0 + np.abs(slope))):
            return exposed, False
    return exposed, True


def _grid() -> np.ndarray:
    return np.linspace(1.0 - FARTHEST, FARTHEST - 1.0, 233)
