"""Names of types that signatures share; nothing is imported until a type checker asks."""

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import xarray as xr
    from narwhals.typing import IntoDataFrame, IntoSeries
    from numpy.typing import ArrayLike
    from pytensor.tensor import TensorVariable

type Draws = xr.DataTree | dict[str, Any]
"""A fit, whose group `posterior` holds draws of the hyperparameters; or a dict of fixed ones."""

type Table = IntoDataFrame | xr.DataArray | ArrayLike
"""Samples by features: a pandas or polars frame, a DataArray, or an array."""

type Column = IntoSeries | xr.DataArray | ArrayLike
"""A number or label for each sample."""

type Labels = Hashable | Sequence[Hashable] | np.ndarray | pd.Index
"""Of one observation or of several, or which of them: a mask."""

type Tensor = TensorVariable
"""A symbol, or what is computed from symbols."""

type TensorLike = TensorVariable | np.ndarray | float
"""What takes the place of a symbol."""

type Priors = dict[str, Any]
"""By hyperparameter: a callable or object that makes a PyMC variable, or a fixed number."""

type Backend = Literal["matplotlib", "plotly", "bokeh", "none"]
"""Of ArviZ's plots."""
