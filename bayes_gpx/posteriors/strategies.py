"""How a model sees its data: its prior process, and the coefficients that it is seen through.

The namespace `s` of a model holds the data `X`, `y`, `Z`, `exposure`, the inducing points `U`,
`U_Z`, and what an earlier call left behind, `alpha` and `root`. Where latent values are sampled,
`theta` holds them, whitened, beside the hyperparameters.
"""

from dataclasses import replace

import pytensor.tensor as pt

from bayes_gpx.posteriors.low_rank import Seen
from bayes_gpx.processes.approximations import Inducing
from bayes_gpx.processes.basis_process import expanded
from bayes_gpx.processes.operators import evaluate
from bayes_gpx.processes.weight_process import informed

WHITE, OWN_WHITE = "white", "own_white"
"""Names of latent values or coefficients, and of samples' own noise beside coefficients."""


def prior(specification, theta, d, called, s):
    """Prior process on the model's scale, with basis functions where the model has them."""
    process = informed(specification.process(theta, d, called), s.Z)
    approximation = specification.approximation
    if approximation is None or isinstance(approximation, Inducing):
        return process
    return expanded(process, approximation, s.X)


def seen_through(specification, process, theta, s, label=None):
    """Return what was seen through coefficients, for one class; None where the road is exact.

    Latent values that were sampled are those of the process itself, inducing points or none.
    """
    if specification.approximation is None or (WHITE in theta and s.U is not None):
        return None
    inducing = None if s.U is None else evaluate(s.U, s.U_Z, smooth=True)
    noise = (s.y, theta["sigma"]) if specification.normal else (None, 0.0)
    seen = Seen(process, *noise, s.X, s.Z, inducing, s.jitter)
    if OWN_WHITE not in theta:
        return seen
    white, own = (
        theta[name] if label is None else theta[name][:, label] for name in (WHITE, OWN_WHITE)
    )
    if white.ndim > 1:
        return seen
    return replace(seen, y=pt.dot(seen.F, white) + pt.sqrt(seen.D) * own)
