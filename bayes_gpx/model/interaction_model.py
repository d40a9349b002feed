"""A simpler model in the place of another: effects of single features and of chosen pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

import pymc as pm

from bayes_gpx.draws.hyperparameter_draws import refuse_swapped
from bayes_gpx.model.gp import GP
from bayes_gpx.model.named_kernels import amplitude, lengthscale
from bayes_gpx.validation import read_pairs

if TYPE_CHECKING:
    from bayes_gpx.model.model import Model

BASES = {
    "expquad": pm.gp.cov.ExpQuad,
    "matern52": pm.gp.cov.Matern52,
    "matern32": pm.gp.cov.Matern32,
}
"""PyMC's covariance functions that effects can be made of, by the kernel of the model."""


def interaction_model(model: Model, pairs: Sequence[tuple[str, str]]) -> Model:
    """Build the model of the same data whose features act alone, or in the given pairs.

    ``f(x) = sum_j f_j(x_j) + sum_(i, j) f_ij(x_i, x_j)``, each summand a Gaussian process of its
    own with the kernel of `model`: what is left of a model when only these interactions are kept.
    How well it predicts, beside `model` itself, says whether they are the ones that matter.

    Parameters
    ----------
    model : GP
        With one of the kernels "expquad", "matern52" and "matern32". It need not be fitted.
    pairs : list of pairs of str
        Features that interact, such as the first of `bayes_gpx.ranking`; may be empty.

    Returns
    -------
    GP
        Not fitted, with the data, scaling, likelihood and priors of noise of `model`.
        Hyperparameters: `amplitude` and `lengthscale` of each feature; `pair_amplitude` and
        `pair_lengthscale` (pair, 2) of each pair, the feature that stands first in the data first.

    Raises
    ------
    ValueError
        For a GPX, another kernel, an approximation, and pairs that are no pairs of different names
        or asked twice.

    References
    ----------
    Paananen, Andersen and Vehtari, "Uncertainty-aware sensitivity analysis using Renyi divergences"
    (2021), the bike sharing experiment; Duvenaud, Nickisch and Rasmussen, "Additive Gaussian
    processes" (2011), of whose kernel these are chosen terms.
    """
    refuse_swapped(model, None)
    spec = model.specification
    if spec.family != "GP" or spec.approximation is not None or spec.kernel not in BASES:
        raise ValueError(
            f"The model is a {spec.family} with kernel={spec.kernel!r} and "
            f"approximation={spec.approximation}; expected a bx.GP without an approximation and "
            f"with a kernel among {list(BASES)}."
        )
    if model.training.X.levels:
        raise ValueError(
            f"The model has the categorical columns {list(model.training.X.levels)}; expected "
            "columns of numbers alone: effects of categorical ones are not there yet."
        )
    columns = model.training.X.columns
    chosen = tuple(tuple(sorted(pair)) for pair in read_pairs(pairs, columns))
    names = [" : ".join(columns[i] for i in pair) for pair in chosen]
    kernel = _Effects(BASES[spec.kernel], chosen, tuple(names), model.in_model("feature"))
    noise = {
        name: p for name, p in model.priors.items() if name in spec.observation.hyperparameters
    }
    return GP.restored(
        model.training,
        replace(spec, kernel=kernel),
        priors=noise,
        scale=model.scale,
        name=model.name,
    )


@dataclass(frozen=True)
class _Effects:
    """A callable kernel: the sum over single columns and pairs of them."""

    base: type
    pairs: tuple
    names: tuple
    dim: str

    def __call__(self, d):
        size = d + len(self.pairs)
        lengths = lengthscale("lengthscale", self.dim, 1, 1)
        amplitudes = amplitude("amplitude", self.dim, d, size)
        terms = [(amplitudes[j], lengths[j], [j]) for j in range(d)]
        if self.pairs:
            pm.modelcontext(None).add_coords({"pair": list(self.names), "member": [0, 1]})
            lengths = lengthscale("pair_lengthscale", ("pair", "member"), 2, 1)
            amplitudes = amplitude("pair_amplitude", "pair", d, size)
            own = ((amplitudes[k], lengths[k], list(p)) for k, p in enumerate(self.pairs))
            terms = chain(terms, own)
        parts = [a**2 * self.base(d, ls=length, active_dims=which) for a, length, which in terms]
        return sum(parts[1:], start=parts[0])
