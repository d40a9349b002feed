"""Scores of a method on the test rows of a split: errors, faithfulness, sufficiency, stability.

`bayes_gpx.metrics` scores explanations by this package. The functions here score any method by its
predictions. To remove a feature, they set it to its mean, 0.
"""

import numpy as np
import xarray as xr

import bayes_gpx as bx

RADIUS = 0.05
"""Radius of the ball for neighbors in stability, as printed."""

KEPT = range(1, 11)
"""Numbers of kept features for sufficiency."""

INPUTS = ("standardised", "min_max", "everyone")
"""Readings of the ball: distances in standardized or min-max inputs; all other rows."""

RELEVANCES = ("KL", "ARD")
"""Methods with explanations without sign, compared with the absolute change of predictions."""


def scores(name, split, found, removable=True):
    """Compute every score by name.

    `removable` states whether predictions follow when a feature is removed.
    """
    test = split.test
    said = {"error": np.mean((found.predicted - test.y) ** 2)}
    said |= {"training": found.training, "explaining": found.explaining}
    if found.weights is None:
        return said | found.notes
    if removable:
        said["faithfulness"] = faithfulness(name, test.Z, found)
        said |= sufficiency(test.Z, found)
    if np.ptp(found.weights, axis=0).max() > 0:  # constant weights are stable by definition
        said |= stability(test, test.X if name in RELEVANCES else test.Z, found.weights)
    return said | found.notes


def faithfulness(name, Z, found):
    """Mean over rows of the correlation between contributions and decreases of the prediction."""
    drops = np.empty(Z.shape)
    for feature in range(Z.shape[1]):
        without = Z.copy()
        without[:, feature] = 0.0
        drops[:, feature] = found.predicted - found.predict(without)
    if name in RELEVANCES:
        drops = np.abs(drops)
    one, other = (a - a.mean(axis=1, keepdims=True) for a in (found.contributions, drops))
    sizes = np.sqrt((one**2).sum(axis=1) * (other**2).sum(axis=1))
    told = sizes > 0
    return np.mean((one * other).sum(axis=1)[told] / sizes[told])


def sufficiency(Z, found):
    """Mean absolute change of predictions if only the k largest contributions are kept."""
    place = np.argsort(np.argsort(-np.abs(found.contributions), axis=1), axis=1)
    return {
        f"sufficiency_{k}": np.mean(
            np.abs(found.predicted - found.predict(np.where(place < k, Z, 0.0)))
        )
        for k in KEPT
        if k <= Z.shape[1]
    }


def ink_of_one_sign(weights, rows):
    """Proportions of ink z, and of |z w|, at weights with the sign of y, each (m,)."""
    agrees = np.sign(weights) == np.sign(rows.y)[:, None]
    both = rows.Z, np.abs(rows.Z * weights)
    return [(ink * agrees).sum(axis=1) / ink.sum(axis=1) for ink in both]


def stability(test, weighed, weights):
    """Equation 19 with neighbors in standardized and in min-max inputs, and with all other rows.

    `weights` belong to the columns of `weighed`. The paper does not state the inputs of its radius
    of .05. `neighbours_*` are the proportions of rows with a neighbor; other rows do not count.
    """
    dims = ("obs", "feature")
    dataset = xr.Dataset({"weight_mean": (dims, weights), "value": (dims, weighed)})
    reach = np.ptp(test.X, axis=0)
    min_max = test.X / np.where(reach > 0, reach, 1.0)
    balls, said = ((RADIUS, test.X), (RADIUS, min_max), (np.inf, test.X)), {}
    for name, (radius, within) in zip(INPUTS, balls, strict=True):
        found = bx.metrics.stability(dataset, radius=radius, within=within)
        share = float(found.notnull().mean())
        said[f"neighbours_{name}"] = share
        if share > 0:
            said[f"stability_{name}"] = float(found.mean())
    return said
