"""A precomputed covariance between labelled objects: a kernel of their labels."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.kernels.base import Kernel, Pairs
from bayes_gpx.kernels.tensor_products import Slots

ROUND_OFF = 1e-8
"""Largest violation of symmetry or definiteness, relative to the largest entry or eigenvalue."""


BETWEEN_LABELS = (
    "A precomputed covariance is known at its labels and not between them, so there are no "
    "derivatives and no attributions in X. Use bx.comparisons for the effect of one label instead "
    "of another; in a GPX, bx.weights and bx.contributions explain Z."
)
"""Why nothing is differentiated in labels."""


class Precomputed(pm.gp.cov.Covariance):
    """Use a precomputed covariance between labelled objects as a kernel.

    Objects may be words, graphs or sets, and the covariance any measure of similarity that is
    symmetric and positive semi-definite. X is then one column of labels. New rows are labels in K,
    including labels without a training row::

        model = bx.GP(words, y, kernel=bx.Precomputed(K))

    Parameters
    ----------
    K : pandas.DataFrame (N, N)
        Covariance of all pairs of objects, with their labels as its index and its columns. The only
        hyperparameter is `amplitude`: the model's kernel is ``amplitude**2 * K``.

    Attributes
    ----------
    labels : tuple of str
    matrix : array (N, N)

    Raises
    ------
    ValueError
        If K is no frame of finite numbers, if its index and its columns are not the same unique
        labels, or if it is not symmetric or has a negative eigenvalue.

    Notes
    -----
    The column of labels is a categorical one. Predictions, comparisons of labels, weights and
    contributions of Z (which a `GPX` needs here), random functions and `Inducing` points work as
    for any X. Not supported: derivatives and attributions in X, because there are no points between
    two labels; `HSGP` and `RandomFeatures`, because K has no spectral density.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import bayes_gpx as bx
    >>> words = ["pain", "paint", "saint"]
    >>> K = pd.DataFrame([[1.0, 0.8, 0.4], [0.8, 1.0, 0.6], [0.4, 0.6, 1.0]], words, words)
    >>> model = bx.GP(words, np.array([1.0, 1.2, 2.0]), kernel=bx.Precomputed(K))
    >>> list(model.hyperparameters)
    ['amplitude', 'sigma']
    """

    def __init__(self, K: pd.DataFrame) -> None:  # noqa: N803
        self.labels, self.matrix = _checked(K)
        super().__init__(len(self.labels))

    def __repr__(self) -> str:
        """How many labels it knows."""
        return f"Precomputed({len(self.labels)} labels)"

    @property
    def deviation(self) -> float:
        """Root of the mean variance of the objects."""
        return float(np.sqrt(self.matrix.diagonal().mean()))

    def full(self, X: TensorLike, Xs: TensorLike | None = None) -> Tensor:
        """Covariance (n, m) of indicators of labels, X (n, N), with Xs, or with themselves."""
        X, Xs = (pt.as_tensor_variable(points) for points in (X, X if Xs is None else Xs))
        return Labelled(self.matrix).value(X, Xs)

    def diag(self, X: TensorLike) -> Tensor:
        """Variance (n,) at indicators of labels, X (n, N)."""
        return Labelled(self.matrix).diag(pt.as_tensor_variable(X))


@dataclass(frozen=True, eq=False)
class Labelled(Kernel):
    """k = x' matrix x' of indicators of labels; of weighted labels, their weighted sums."""

    matrix: np.ndarray

    @property
    def smoothness(self) -> float:  # noqa: D102
        return 0

    @property
    def name(self) -> str:
        """Name for messages."""
        return Precomputed.__name__

    @property
    def root(self) -> np.ndarray:
        """A matrix (N, N) with root root' = matrix."""
        values, vectors = np.linalg.eigh(self.matrix)
        return vectors * np.sqrt(np.maximum(values, 0.0))

    def _jet(self, pairs: Pairs, slots: Slots) -> Tensor | None:
        if slots:
            raise ValueError(BETWEEN_LABELS)
        left = pt.dot(pairs.x, self.matrix)
        return pt.dot(left, pairs.xs.T) if pairs.matrix else (left * pairs.xs).sum(-1)


def _checked(K: pd.DataFrame) -> tuple[tuple[str, ...], np.ndarray]:
    """Labels as text and the matrix (N, N) of a covariance."""
    if not isinstance(K, pd.DataFrame):
        raise ValueError(
            f"K is a {type(K).__name__}. Pass a pandas DataFrame with the labels of the objects as "
            "its index and its columns: pd.DataFrame(K, labels, labels)."
        )
    labels, columns = (tuple(map(str, side)) for side in (K.index, K.columns))
    if labels != columns:
        raise ValueError(
            "The index and the columns of K differ. Use the same labels in the same order, as in "
            "K.loc[labels, labels]."
        )
    repeated = sorted({label for label in labels if labels.count(label) > 1})
    if repeated or not labels:
        raise ValueError(f"K has the repeated labels {repeated}. Use different labels.")
    try:
        matrix = K.to_numpy("float64", copy=True)
    except (TypeError, ValueError) as wrong:
        raise ValueError(f"K does not hold numbers: {wrong}.") from wrong
    if not np.isfinite(matrix).all():
        i, j = np.argwhere(~np.isfinite(matrix))[0]
        raise ValueError(
            f"K has {matrix[i, j]} at {labels[i]!r}, {labels[j]!r}. Use finite numbers."
        )
    largest = np.abs(matrix).max()
    apart = np.abs(matrix - matrix.T)
    if apart.max() > ROUND_OFF * largest:
        i, j = np.unravel_index(apart.argmax(), apart.shape)
        raise ValueError(
            f"K is not symmetric: {matrix[i, j]:g} at {labels[i]!r}, {labels[j]!r} and "
            f"{matrix[j, i]:g} at {labels[j]!r}, {labels[i]!r}. Pass a covariance; (K + K.T) / 2 "
            "may be one."
        )
    matrix = (matrix + matrix.T) / 2.0
    eigenvalues = np.linalg.eigvalsh(matrix)
    if eigenvalues[0] < -ROUND_OFF * max(eigenvalues[-1], 0.0) or not eigenvalues[-1] > 0.0:
        raise ValueError(
            f"K has eigenvalues from {eigenvalues[0]:g} to {eigenvalues[-1]:g}, but a covariance "
            "has none below 0 and some above. A similarity that is no covariance becomes one if "
            "its negative eigenvalues are put to 0 (numpy.linalg.eigh)."
        )
    return labels, matrix
