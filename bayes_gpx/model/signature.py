"""The signature of a model, which distinguishes its fits from the fits of other models."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors

from bayes_gpx.kernels.precomputed import Precomputed
from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.system.digests import digest

PROBES = 5
"""Number of training rows at which a user's kernel is evaluated."""


def probe_of(model: Any) -> list[str]:
    """Covariances by a callable kernel between a few training rows, with six digits.

    Its variables have made-up values between 0.3 and 0.8: a fit may be used with other priors of
    them, but not with another kernel.
    """
    training, points = model.training, model.training.corners
    if not training.streamed:  # values between the rows need not mean anything to the kernel
        rows = np.unique(np.linspace(0, training.n - 1, PROBES).astype(int))
        points = training.X_scaling.apply(training.X.values[rows])
    K, made_up = model.called_kernel(points), {}
    above = set(ancestors([K]))
    inside = [variable for variable in model.own_variables if variable in above]
    for k, variable in enumerate(sorted(inside, key=lambda variable: variable.name)):
        shape = tuple(variable.shape.eval(mode=MODE))
        steps = 0.618034 * (k + 1 + np.arange(np.prod(shape, dtype=int)))
        values = (0.3 + 0.5 * (steps % 1.0)).reshape(shape)
        made_up[variable] = pt.constant(values.astype(variable.dtype))
    probed = graph_replace([K], made_up)[0] if made_up else K
    found = pytensor.function([], probed, mode=MODE)()
    return [f"{value:.6g}" for value in found[np.triu_indices(len(found))]]


def signature_of(model: Any) -> str:
    """Text that tells one model from another: structure, columns and size."""
    spec, data = model.specification, model.training
    kernel = spec.kernel
    described = getattr(kernel, "described", "callable") if spec.calls_kernel else str(kernel)
    said = {
        "family": spec.family,
        "kernel": described,
        "ard": spec.ard,
        "likelihood": spec.likelihood,
    }
    if isinstance(kernel, Precomputed):
        said["covariance"] = digest(kernel.labels, kernel.matrix)
    if spec.calls_kernel:
        said["kernel_probe"] = model.kernel_probe
    if spec.link is not None:
        said["link"] = spec.link
    said["weight_prior"] = spec.weight_prior
    if spec.hierarchical:
        said["representation"] = spec.representation
    if spec.constraints:
        said["constraints"] = digest(spec.constraints)
    said |= {
        "scale": model.scale,
        "fixed": {name: value.tolist() for name, value in model.fixed.items()},
        "features": data.X.columns,
        "z_features": data.Z and data.Z.columns,
        "n": data.n,
    }
    if data.groups is not None:
        said["groups"] = data.groups.labels
    if spec.outputs is not None:
        said["outputs"] = list(data.outputs.names)
    if spec.outputs is not None or spec.correlation:
        said["correlation"] = spec.correlation
    if spec.approximation is not None:
        said["approximation"] = repr(spec.approximation)
    return json.dumps(said)
