"""Arrays of some columns extended to all columns, with zeros in the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.tensor.basic import Alloc, get_underlying_scalar_constant_value
from pytensor.tensor.type import TensorType

from bayes_gpx.aliases import Tensor


def among_all(part: Tensor, columns: np.ndarray, d: int | Tensor, *axes: int) -> Tensor:
    """Widen these non-negative axes of an array from some `columns` to all d columns."""
    # NumPy writes to a slice in a tenth of the time that it takes for chosen positions.
    joined = columns.size > 0 and np.array_equal(columns, columns[0] + np.arange(columns.size))
    place = slice(int(columns[0]), int(columns[-1]) + 1) if joined else columns
    for axis in axes:
        sizes = [pt.as_tensor(d if a == axis else part.shape[a]) for a in range(part.ndim)]
        part = _zeros(sizes)[(slice(None),) * axis + (place,)].set(part)
    return part


def _zeros(sizes: Sequence[Tensor]) -> Tensor:
    """Zeros of these sizes, with constant sizes in the type."""
    # `pytensor.tensor.zeros` infers sizes from the array's whole graph at each call, which takes
    # longer than compiling the graph.
    known = [get_underlying_scalar_constant_value(s, raise_not_constant=False) for s in sizes]
    shape = [None if isinstance(s, Variable) else int(s) for s in known]
    zeros = TensorType("float64", shape=shape)()
    made = Apply(Alloc(), [pt.constant(0.0, dtype=zeros.dtype), *sizes], [zeros])
    return cast(Tensor, made.outputs[0])
