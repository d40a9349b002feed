"""A simpler model in the place of another: effects of single features and of chosen pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pymc as pm
from pymc.gp.cov import Covariance

from bayes_gpx.aliases import Tensor
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
    """Build a model of the same data with only the given interactions.

    Use it to check that the pairs found by `interactions` matter: compare its predictions with
    those of `model`. ``f(x) = sum_j f_j(x_j) + sum_(i, j) f_ij(x_i, x_j)``, where each summand is a
    separate Gaussian process with the kernel of `model`.

    Parameters
    ----------
    model : GP
        With one of the kernels "expquad", "matern52" and "matern32". It need not be fitted.
    pairs : list of pairs of str
        Features that interact, such as the first pairs of `bayes_gpx.ranking`; may be empty. A
        categorical column is one feature: its effect has a kernel of all its indicators, with one
        lengthscale.

    Returns
    -------
    GP
        Not fitted, with the data, scaling, likelihood and noise priors of `model`. Hyperparameters:
        `amplitude` and `lengthscale` of each feature; `pair_amplitude` and `pair_lengthscale`
        (pair, 2) of each pair, with features in the order of the data.

    Raises
    ------
    ValueError
        For a GPX, another kernel, an approximation, and pairs that are repeated or not two
        different names.

    References
    ----------
    Paananen, Andersen and Vehtari, "Uncertainty-aware sensitivity analysis using Renyi divergences"
    (2021), the bike sharing experiment; Duvenaud, Nickisch and Rasmussen, "Additive Gaussian
    processes" (2011), for the full kernel.
    """
    refuse_swapped(model, None)
    model.training.refuse_outputs("interaction_model", "Fit a model of one column of y.")
    spec = model.specification
    if spec.family != "GP" or spec.approximation is not None or spec.kernel not in BASES:
        raise ValueError(
            f"The model is a {spec.family} with kernel={spec.kernel!r} and "
            f"approximation={spec.approximation}. Pass a bx.GP without an approximation and with a "
            f"kernel among {list(BASES)}."
        )
    X = model.training.X
    chosen = tuple(tuple(sorted(pair)) for pair in read_pairs(pairs, X.sources))
    names = [" : ".join(X.sources[i] for i in pair) for pair in chosen]
    kernel = Effects(
        str(spec.kernel),
        tuple(X.groups.tolist()),
        chosen,
        tuple(names),
        model.in_model("feature"),
    )
    others = {*spec.observation.hyperparameters, *(h.name for h in spec.group_amplitudes)}
    kept = {name: prior for name, prior in model.priors.items() if name in others}
    return GP.restored(
        model.training,
        replace(spec, kernel=kernel),
        priors=kept,
        scale=model.scale,
        name=model.name,
    )


@dataclass(frozen=True)
class Effects:
    """A callable kernel: the sum over single features and pairs of them."""

    base: str  # a key of `BASES`
    groups: tuple  # from columns to features: all indicators of a categorical column to one
    pairs: tuple  # of features
    names: tuple  # of pairs
    dim: str

    @classmethod
    def of_fields(
        cls,
        base: str,
        groups: Sequence[int],
        pairs: Sequence[Sequence[int]],
        names: Sequence[str],
        dim: str,
    ) -> Effects:
        """Restore effects from a file, where tuples are lists."""
        return cls(base, tuple(groups), tuple((i, j) for i, j in pairs), tuple(names), dim)

    @property
    def described(self) -> str:
        """The kernel of the effects and the pairs, which tell its fits from others."""
        return f"interaction_model({self.base}, groups {self.groups}, pairs {self.pairs})"

    def __call__(self, d: int) -> Any:
        """The covariance function, in the model on the context stack."""
        features = max(self.groups) + 1
        size = features + len(self.pairs)
        lengths = lengthscale("lengthscale", self.dim, 1, 1)
        amplitudes = amplitude("amplitude", self.dim, features, size)
        terms = [(amplitudes[j], lengths[[j]], (j,)) for j in range(features)]
        if self.pairs:
            pm.modelcontext(None).add_coords({"pair": list(self.names), "member": [0, 1]})
            lengths = lengthscale("pair_lengthscale", ("pair", "member"), 2, 1)
            amplitudes = amplitude("pair_amplitude", "pair", features, size)
            terms += [(amplitudes[k], lengths[k], pair) for k, pair in enumerate(self.pairs)]
        parts = [a**2 * self._effect(d, length, members) for a, length, members in terms]
        return sum(parts[1:], start=parts[0])

    def _effect(self, d: int, length: Tensor, members: Sequence[int]) -> Covariance:
        """Kernel of the columns of some features, each feature's with its own lengthscale."""
        columns = [j for j, feature in enumerate(self.groups) if feature in members]
        each = length[[members.index(self.groups[j]) for j in columns]]
        return BASES[self.base](d, ls=each, active_dims=columns)
