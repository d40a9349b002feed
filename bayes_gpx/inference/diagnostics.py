"""What the diagnostics of sampled draws say, in sentences with a cure."""

from typing import NamedTuple

import numpy as np
import xarray as xr

FEWEST_DRAWS = 4
"""Draws in each chain that R-hat and effective sample sizes need to be defined."""


class ConvergenceWarning(UserWarning):
    """An optimiser or sampler did not converge, or left its result incomplete."""


class Diagnosis(NamedTuple):
    """What the diagnostics of a sampled posterior say."""

    r_hat: float
    """Largest split R-hat of any variable."""
    ess_bulk: float
    """Smallest bulk effective sample size."""
    ess_tail: float
    """Smallest tail effective sample size."""
    divergences: int

    @property
    def complaints(self) -> list[str]:
        """Sentences on what is wrong, each with a cure; empty if nothing is."""
        found = []
        if self.divergences:
            found.append(
                f"{self.divergences} divergent transitions: raise target_accept or tighten priors"
            )
        if not self.r_hat <= 1.01:
            found.append(f"R-hat up to {self.r_hat:.4g} (want at most 1.01): run longer chains")
        if not min(self.ess_bulk, self.ess_tail) >= 100:
            found.append(
                f"effective sample size down to {min(self.ess_bulk, self.ess_tail):.0f} "
                "(want at least 100): draw more"
            )
        return found

    @property
    def verdict(self) -> str:
        """One sentence."""
        if self.complaints:
            return "Do not trust these draws yet: " + "; ".join(self.complaints) + "."
        return (
            f"Converged: R-hat at most {self.r_hat:.4g}, effective sample size at least "
            f"{min(self.ess_bulk, self.ess_tail):.0f}, no divergences."
        )


def diagnose(idata: xr.DataTree) -> Diagnosis:
    """Largest R-hat, smallest effective sample sizes and divergences of a posterior."""
    import arviz as az

    posterior = idata["posterior"].to_dataset()
    if posterior.sizes["draw"] < FEWEST_DRAWS:
        return Diagnosis(np.nan, np.nan, np.nan, _divergences(idata))

    def extreme(statistic, pick):
        values = [v.values.ravel() for v in statistic.data_vars.values()]
        return float(pick(np.concatenate(values)))

    return Diagnosis(
        extreme(az.rhat(posterior), np.nanmax),
        extreme(az.ess(posterior, method="bulk"), np.nanmin),
        extreme(az.ess(posterior, method="tail"), np.nanmin),
        _divergences(idata),
    )


def _divergences(idata):
    diverging = idata["sample_stats"].get("diverging", None)
    return 0 if diverging is None else int(diverging.sum())
