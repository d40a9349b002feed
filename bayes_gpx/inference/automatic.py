"""The default method: weighted draws, or NUTS if these do not represent the posterior."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pymc as pm
import xarray as xr

from bayes_gpx.inference.base import Method, Start
from bayes_gpx.inference.datatree import name_method
from bayes_gpx.inference.diagnostics import BORDERLINE, ConvergenceWarning
from bayes_gpx.inference.laplace import weighted_draws
from bayes_gpx.inference.nuts import LEAPS, NUTS
from bayes_gpx.inference.optimise import Elsewhere
from bayes_gpx.numerics.progress import spoken
from bayes_gpx.system.warning import warn

PATIENCE = 300.0
"""Longest estimated time in seconds for which "auto" runs NUTS."""

SHORT, LATE = 60.0, 10.0
"""Seconds that NUTS may always take, and multiples of the estimate after which it is stopped, but
after twice `PATIENCE` in any case."""


@dataclass(frozen=True)
class Automatic(Method):
    """Draw around the mode, or by NUTS if these draws are unreliable and that is not too long."""

    # The fit says in its attributes which of both it is by. If NUTS is interrupted before it has
    # any draws, those around the mode are kept.

    gives = "weighted"
    takes = ("draws", "tune", "chains", "seed")

    def fit(
        self,
        model: pm.Model,
        starts: Sequence[Start],
        *,
        draws: int = 1000,
        tune: int = 1000,
        chains: int = 4,
        seed: int | None = None,
        executor: Elsewhere | None = None,
        progressbar: bool = True,
    ) -> xr.DataTree:
        """Draw by either way; see the class."""
        found = weighted_draws(model, starts, draws, seed, executor, progressbar)
        name_method(found.tree, "laplace")
        if not found.far:
            return found.tree
        seconds = found.seconds * LEAPS * chains * (tune + draws)
        if seconds > PATIENCE:
            warn(
                f"{found.far} fit('nuts') would take {spoken(seconds)} or so; or use tighter "
                "priors.",
                ConvergenceWarning,
            )
            return found.tree
        own: dict[str, Any] = {"draws": draws, "tune": tune, "chains": chains, "seed": seed}
        # Trees are deep where the posterior is far from normal, as without noise, and the estimate
        # knows nothing of it.
        own["longest"] = min(max(SHORT, LATE * seconds), 2.0 * PATIENCE)
        try:
            sampled = NUTS().fit(model, [found.mode], progressbar=progressbar, **own)
        except TimeoutError:
            warn(
                f"{found.far} NUTS was stopped after {spoken(own['longest'])}, because it took "
                "much longer than expected; these draws are kept. Use tighter priors, or "
                "fit('nuts'), which has no limit.",
                ConvergenceWarning,
            )
            return found.tree
        except KeyboardInterrupt:
            warn(
                f"{found.far} Interrupted before NUTS had any draws: these draws are kept.",
                ConvergenceWarning,
            )
            return found.tree
        name_method(sampled, "nuts")
        sampled.attrs["khat_laplace"] = found.tree.attrs["khat"]
        if sampled.attrs["convergence"] == BORDERLINE:
            warn(sampled.attrs["convergence_summary"], ConvergenceWarning)
        return sampled
