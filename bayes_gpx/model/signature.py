"""The signature of a model, by which a fit is told from the fits of other models."""

from __future__ import annotations

import json
from typing import Any

from bayes_gpx.system.digests import digest


def signature_of(model: Any) -> str:
    """Text that tells one model from another: structure, columns and size."""
    spec, data = model.specification, model.training
    said = {
        "family": spec.family,
        "kernel": "callable" if spec.calls_kernel else str(spec.kernel),
        "ard": spec.ard,
        "likelihood": spec.likelihood,
    }
    if spec.link is not None:
        said["link"] = spec.link
    said["weight_prior"] = spec.weight_prior
    if spec.hierarchical:
        said["representation"] = spec.representation
    if spec.beliefs:
        said["beliefs"] = digest(spec.beliefs)
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
