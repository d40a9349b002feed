"""Convergence of sampled draws: numbers, a grade, and sentences with the suggested fix."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import xarray as xr

FEWEST_DRAWS = 4
"""Draws in each chain that R-hat and effective sample sizes need to be defined."""


class ConvergenceWarning(UserWarning):
    """Warn that the draws of a fit, or its optimum, are unreliable, and suggest fixes.

    `Model.fit` gives it. The attribute `convergence` of the fit is then "borderline" or "not
    converged", and `convergence_summary` has the numbers.
    """


LARGEST_R_HAT, BAD_R_HAT = 1.01, 1.05
"""R-hat up to which chains agree, and above which they disagree. Longer chains help in between
(Vehtari et al., 2021, recommend 1.01)."""

FEWEST_EFFECTIVE, BAD_EFFECTIVE = 400, 100
"""Effective draws above which intervals are stable, and below which means are unstable."""

CONVERGED, BORDERLINE, NOT_CONVERGED = "converged", "borderline", "not converged"
"""Values of the attribute `convergence` of a fit with several draws."""

BAD_DIVERGENCES = 0.001
"""Share of divergent transitions above which a part of the posterior may not have been visited."""

LOWEST_BFMI = 0.3
"""E-BFMI below which a chain's steps in energy are too short for the posterior's tails."""


class Diagnosis(NamedTuple):
    """Diagnostics of a sampled posterior."""

    r_hat: float
    """Largest split R-hat of any variable."""
    ess_bulk: float
    """Smallest bulk effective sample size."""
    ess_tail: float
    """Smallest tail effective sample size."""
    divergences: int
    draws: int
    """In all chains."""
    bfmi: float = np.inf
    """Smallest E-BFMI of any chain; infinite where the sampler kept no energies."""

    @property
    def ess(self) -> float:
        """Smaller of both effective sample sizes."""
        return min(self.ess_bulk, self.ess_tail)

    @property
    def complaints(self) -> list[str]:
        """Each problem with the suggested fix; empty if there is none."""
        found = []
        if self.divergences:
            found.append(
                f"{self.divergences} of {self.draws} transitions diverged: raise target_accept, "
                "or tighten priors"
            )
        if np.isnan(self.r_hat):
            found.append(
                f"there is no R-hat: run at least two chains, of {FEWEST_DRAWS} draws or more"
            )
        elif not self.r_hat <= LARGEST_R_HAT:
            found.append(
                f"R-hat is up to {self.r_hat:.4g}, above {LARGEST_R_HAT}: run longer chains"
            )
        if not self.ess >= FEWEST_EFFECTIVE:
            found.append(
                f"the effective sample size is down to {self.ess:.0f}, below {FEWEST_EFFECTIVE}: "
                "draw more"
            )
        if self.bfmi < LOWEST_BFMI:
            found.append(
                f"E-BFMI is down to {self.bfmi:.2f}, below {LOWEST_BFMI}: tighten priors, or run "
                "longer chains"
            )
        return found

    @property
    def convergence(self) -> str:
        """One of "converged", "borderline" (enough to explore, not to publish), "not converged"."""
        if not self.complaints:
            return CONVERGED
        few = self.divergences <= BAD_DIVERGENCES * self.draws
        enough = self.r_hat <= BAD_R_HAT and self.ess >= BAD_EFFECTIVE
        return BORDERLINE if few and enough else NOT_CONVERGED

    @property
    def summary(self) -> str:
        """One sentence."""
        begins = {
            CONVERGED: f"Converged: R-hat is at most {self.r_hat:.4g}, the effective sample size "
            f"at least {self.ess:.0f}, and no transition diverged",
            BORDERLINE: "Borderline, which is good enough to explore. Before publishing: ",
            NOT_CONVERGED: "Not converged, so do not trust these draws: ",
        }
        return begins[self.convergence] + "; ".join(self.complaints) + "."


def diagnose(idata: xr.DataTree) -> Diagnosis:
    """Largest R-hat, smallest effective sample sizes and E-BFMI, and divergences of a posterior."""
    import arviz as az

    posterior = _identified(idata["posterior"].to_dataset())
    draws = posterior.sizes["chain"] * posterior.sizes["draw"]
    if posterior.sizes["draw"] < FEWEST_DRAWS:
        return Diagnosis(np.nan, np.nan, np.nan, _divergences(idata), draws)

    def extreme(statistic: xr.Dataset, pick: Callable[[np.ndarray], float]) -> float:
        values = np.concatenate([v.values.ravel() for v in statistic.data_vars.values()])
        return float(pick(values)) if np.isfinite(values).any() else np.nan

    known = "sample_stats" in idata.children and "energy" in idata["sample_stats"]
    return Diagnosis(
        extreme(az.rhat(posterior), np.nanmax),
        extreme(az.ess(posterior, method="bulk"), np.nanmin),
        # The tails end at the quantiles of 5% and 95%, whatever intervals ArviZ is set to.
        extreme(az.ess(posterior, method="tail", prob=0.9), np.nanmin),
        _divergences(idata),
        draws,
        float(az.bfmi(idata)["energy"].min()) if known else np.inf,
    )


def _identified(posterior: xr.Dataset) -> xr.Dataset:
    """The variables with identified positions and signs: all but factors that outputs share."""
    of_factors = [
        name for name, v in posterior.items() if any(str(d).endswith("factor") for d in v.dims)
    ]
    return posterior.drop_vars(of_factors)


def _divergences(idata: xr.DataTree) -> int:
    diverging = idata["sample_stats"].get("diverging", None)
    return 0 if diverging is None else int(diverging.sum())
