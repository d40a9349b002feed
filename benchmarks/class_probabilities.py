"""Errors and times of expected class probabilities, E softmax(f) for normal f.

The truth is an average over half a million other quasi-random points. Standard deviations of f are
up to 3, and its classes independent or correlated at random, 40 rows for each number of classes.
"""

import csv
import time
from pathlib import Path

import numpy as np
from scipy.special import ndtri, softmax
from scipy.stats import qmc

from bayes_gpx.likelihoods.softmax_expectations import expected_probabilities, points
from bayes_gpx.numerics.jets import Jet

ROWS, MANY = 40, 2**17
TABLE = Path(__file__).with_suffix(".csv")


def rows(classes, rng):
    """Means (m, C) and covariances (m, C, C) of f."""
    sd = rng.uniform(0.3, 3.0, (ROWS, classes))
    loads = rng.normal(size=(ROWS, classes, classes + 2))
    both = loads @ loads.transpose(0, 2, 1)
    scale = np.sqrt(np.diagonal(both, axis1=1, axis2=2))
    correlation = both / scale[:, :, None] / scale[:, None]
    correlation[::2] = np.eye(classes)
    mean = rng.choice([0.0, 1.0, 2.0], (ROWS, 1)) * rng.normal(size=(ROWS, classes))
    return mean, correlation * sd[:, :, None] * sd[:, None]


def truth(mean, covariance):
    """By four independent sets of points and their opposites."""
    total, root = np.zeros_like(mean), np.linalg.cholesky(covariance)
    for seed in range(1, 5):
        z = ndtri(qmc.Sobol(mean.shape[1], rng=np.random.default_rng(seed)).random(MANY // 2))
        for k in range(len(mean)):
            apart = z @ root[k].T
            total[k] += sum(softmax(mean[k] + s * apart, axis=1).mean(axis=0) for s in (1, -1)) / 8
    return total


def main():
    found, rng = [], np.random.default_rng(0)
    for classes in range(2, 11):
        mean, covariance = rows(classes, rng)
        started = time.process_time()
        each = expected_probabilities(Jet(mean), Jet(covariance))
        seconds = time.process_time() - started
        probabilities = np.stack([jet.value for jet in each], axis=1)
        error = np.abs(probabilities - truth(mean, covariance)).max(axis=1)
        row = {"classes": classes, "points": points(classes), "largest error": error.max()}
        row |= {"median error": np.median(error), "ms a row": 1000 * seconds / ROWS}
        found.append({k: v if isinstance(v, int) else f"{v:.1e}" for k, v in row.items()})
        print(found[-1], flush=True)
    with TABLE.open("w", newline="") as file:
        writer = csv.DictWriter(file, found[0])
        writer.writeheader()
        writer.writerows(found)


if __name__ == "__main__":
    main()
