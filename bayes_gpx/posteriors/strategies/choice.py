"""Which strategy a model has, and whether it sums over blocks of rows."""

from __future__ import annotations

from collections.abc import Container

from bayes_gpx.posteriors.base import LATENT, WHITENED, Conditioning, Strategy
from bayes_gpx.posteriors.evidence.variational import KEPT
from bayes_gpx.posteriors.strategies.by_group import ByGroup, ByRow, SampledByGroup
from bayes_gpx.posteriors.strategies.correlated import CorrelatedLaplace, CorrelatedValues
from bayes_gpx.posteriors.strategies.exact import Exact
from bayes_gpx.posteriors.strategies.laplace import Laplace, SoftmaxLaplace
from bayes_gpx.posteriors.strategies.low_rank import FixedBasis, LowRankNormal
from bayes_gpx.posteriors.strategies.processes import ProcessesLaplace, ProcessesValues
from bayes_gpx.posteriors.strategies.propagation import Propagation
from bayes_gpx.posteriors.strategies.sampled import SampledCoefficients, SampledValues
from bayes_gpx.posteriors.strategies.variational import Variational


def strategy_of(
    *,
    normal: bool,
    classes: int | None,
    separate: bool = False,
    approximated: bool,
    inducing: bool,
    fixed_basis: bool,
    constraints: bool,
    smooth: bool = True,
    correlated: bool = False,
    grouped: bool = False,
    deviating: bool = False,
    names: Container[str],
) -> Strategy:
    """The strategy for the data of a model, and for the names in draws of its posterior.

    `normal` is a Gaussian likelihood. Latent values of a row may be of `separate` processes with a
    kernel each. The process is `approximated` by coefficients, of `inducing` values, or of a
    `fixed_basis` that no hyperparameter changes. `correlated` classes correlate a priori; `grouped`
    rows have levels or weights of their groups, and `deviating` ones weights of their own. A log
    density that is not `smooth` has kinks.
    `names` are hyperparameters, and latent values if they were sampled.
    """
    sampled = WHITENED in names or LATENT in names
    if separate and (not approximated or (sampled and inducing)):
        return ProcessesValues() if sampled else ProcessesLaplace()
    if correlated:
        return CorrelatedValues() if sampled else CorrelatedLaplace()
    if grouped and approximated and not (sampled and inducing):
        if sampled:
            return SampledByGroup()
        return ByGroup(constrained=constraints)
    if sampled:
        return SampledCoefficients() if approximated and not inducing else SampledValues()
    if fixed_basis and normal and not constraints:
        return FixedBasis()
    if deviating and approximated and not (normal or constraints):
        return ByRow()
    if approximated:
        through = LowRankNormal if normal else Variational
        return through(constrained=constraints)
    if normal or constraints or not smooth:
        on_rows = Exact if normal else Propagation
        return on_rows(constrained=constraints)
    return Laplace() if classes is None else SoftmaxLaplace()


def has_large_design(strategy: Strategy, given: Conditioning) -> bool:
    """Whether a density is better summed over blocks of rows than from a design of all rows."""
    if strategy.by_sums or strategy.constrained:
        return False
    if not isinstance(strategy, LowRankNormal | Variational):
        return False
    columns = strategy.design(given).F.type.shape[-1]
    return columns is not None and len(given.y) * columns > KEPT
