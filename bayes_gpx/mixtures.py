"""Conditional normals in user units, and the mixture of them over hyperparameter draws."""

from functools import cached_property
from pathlib import Path

import numpy as np

from bayes_gpx.conditioning import sqrt_psd
from bayes_gpx.jets import Jet


class Conditional:
    """A quantity's normal distribution for one hyperparameter draw, in user units.

    Parameters
    ----------
    mean : array (m * c,)
        Obs-major, on the model's scale.
    second : array
        What `moment` says, on the model's scale.
    moment : {"variance", "block", "cov"}
        (m * c,), (m, c, c) or (m * c, m * c).
    picked : integer array
        Which components are wanted.
    factor : array (c,)
        From the model's scale to user units.
    offset : float
    """

    def __init__(self, mean, second, moment, picked, factor, offset):
        c, self._moment = len(factor), moment
        factor = factor[picked]
        self.mean = mean.reshape((-1, c))[:, picked] * factor + offset
        if moment == "variance":
            self._second = second.reshape((-1, c))[:, picked] * factor**2
        elif moment == "block":
            self._second = second[:, picked][:, :, picked] * np.multiply.outer(factor, factor)
        else:
            m = len(self.mean)
            full = second.reshape((m, c, m, c))[:, picked][..., picked]
            self._second = full * factor[:, None, None] * factor

    @property
    def cov(self):
        """Covariance within each observation, (m, c, c); None where only variances are known."""
        if self._moment == "variance":
            return None
        return self._second if self._moment == "block" else np.einsum("icid->icd", self._second)

    @property
    def variance(self):
        """Variances (m, c)."""
        if self._moment == "variance":
            return self._second
        return np.maximum(np.einsum("icc->ic", self.cov), 0.0)

    @cached_property
    def _root(self):
        if self._moment == "variance":
            return np.sqrt(self._second)
        if self._moment == "block":
            return sqrt_psd(self._second)
        size = self.mean.size
        return sqrt_psd(self._second.reshape((size, size)))

    def moments(self, kept):
        """Mean, variance and covariance (or None) of some components."""
        cov = None if self.cov is None else self.cov[:, kept][:, :, kept]
        return self.mean[:, kept], self.variance[:, kept], cov

    def sample(self, normal):
        """Turn standard normals (draw, m, c) into draws."""
        if self._moment == "variance":
            return self.mean + self._root * normal
        if self._moment == "block":
            return self.mean + np.einsum("mij,dmj->dmi", self._root, normal)
        return self.mean + (normal.reshape((len(normal), -1)) @ self._root.T).reshape(normal.shape)


class Mixture:
    """Exact moments of a quantity (obs, component) over all its conditionals.

    Parameters
    ----------
    shape : (obs, component)
    covariance : bool
        Also the covariance between the components of each observation.
    """

    def __init__(self, shape, covariance):
        self._count = np.zeros(shape[0], int)
        self._mean, self._within, self._between = (np.zeros(shape) for _ in range(3))
        self._cov = np.zeros((*shape, shape[1])) if covariance else None

    def add(self, rows, mean, variance, cov=None):
        """Add one conditional's moments for some rows (a slice)."""
        self._count[rows] += 1
        shift = mean - self._mean[rows]
        self._mean[rows] += shift / self._count[rows][:, None]
        remaining = mean - self._mean[rows]
        self._between[rows] += shift * remaining
        self._within[rows] += variance
        if self._cov is not None:
            self._cov[rows] += cov + shift[:, :, None] * remaining[:, None, :]

    def moments(self):
        """Mean, standard deviation and covariance (or None), by the law of total variance."""
        n = self._count[:, None]
        sd = np.sqrt((self._within + self._between) / n)
        return self._mean, sd, None if self._cov is None else self._cov / n[..., None]


class JetMixture:
    """Mean and variance of y under the mixture over draws, with their derivatives in x.

    The laws of total mean and variance, differentiated: with M the mean of the draws' means m, V is
    the mean of ``V + (m - M)^2``, and its derivatives follow from covariances between m, m_d and
    m_de over draws.

    Parameters
    ----------
    shape : (m, d)
    order : {0, 1, 2}
        Of the derivatives.
    """

    def __init__(self, shape, order):
        sizes, self._count = [shape[:1], shape, (*shape, shape[1])][: order + 1], 0
        self._mean, self._within, self._between = ([np.zeros(s) for s in sizes] for _ in range(3))

    def add(self, mean, variance):
        """Add one draw's jets."""
        self._count += 1
        shift = [part - old for part, old in zip(mean, self._mean, strict=False)]
        for old, step in zip(self._mean, shift, strict=True):
            old += step / self._count
        left = mean.value - self._mean[0]
        parts = zip(self._within, variance, self._between, shift, (1.0, 2.0, 2.0), strict=False)
        for within, part, between, step, factor in parts:
            within += part
            between += factor * left.reshape((-1, *[1] * (step.ndim - 1))) * step
        if len(shift) > 2:
            rest = mean.first - self._mean[1]
            self._between[2] += 2.0 * shift[1][:, :, None] * rest[:, None]

    def moments(self):
        """Mean and variance, jets."""
        both = zip(self._within, self._between, strict=True)
        return Jet(*self._mean), Jet(*((w + b) / self._count for w, b in both))


def open_stores(shapes, path):
    """Arrays (chain, draw, obs[, feature[, feature_bis]]): in memory, or in a new zarr store."""
    if path is None:
        return {name: np.empty(shape) for name, shape in shapes.items()}
    import zarr

    path = Path(path)
    if path.exists() and not (path / "zarr.json").is_file() and not _is_empty_folder(path):
        raise ValueError(
            f"path: {path} exists and is no zarr store; expected a new path for the draws."
        )
    group = zarr.open_group(path, mode="w")
    dims = ("chain", "draw", "obs", "feature", "feature_bis")
    return {
        name: group.create_array(
            name,
            shape=shape,
            chunks=(1, min(16, shape[1]), min(256, shape[2]), *shape[3:]),
            dtype="float64",
            dimension_names=dims[: len(shape)],
        )
        for name, shape in shapes.items()
    }


def _is_empty_folder(path):
    return path.is_dir() and not any(path.iterdir())
