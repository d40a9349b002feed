"""Names of types that signatures share; nothing is imported until a type checker asks."""

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import xarray as xr
    from narwhals.typing import IntoDataFrame, IntoSeries
    from numpy.typing import ArrayLike
    from pytensor.tensor import TensorVariable

type Draws = xr.DataTree | dict[str, Any]
"""A fit, with hyperparameter draws in its group `posterior`; or a dict of fixed hyperparameters."""

type Table = IntoDataFrame | xr.DataArray | ArrayLike
"""Samples by features: a pandas or polars frame, a DataArray, or an array."""

type Column = IntoSeries | xr.DataArray | ArrayLike
"""A number or label for each sample."""

type Labels = Hashable | Sequence[Hashable] | np.ndarray | pd.Index
"""Label of one observation, labels of several, or a boolean mask over all."""

type Tensor = TensorVariable
"""A symbolic variable of PyTensor."""

type TensorLike = TensorVariable | np.ndarray | float
"""A symbolic variable, or a number or array in its place."""

type Priors = dict[str, Any]
"""For each hyperparameter a callable or object that makes a PyMC variable, or a fixed number."""

type Backend = Literal["matplotlib", "plotly", "bokeh", "none"]
"""Plotting backend of `arviz_plots`."""

type Dims = str | Sequence[str] | None
"""Name of the dim of a PyMC variable, or several; None for a single number."""

type Rename = Callable[[str], str]
"""From the name of a variable or dim to its name in the PyMC model."""
