"""Arrays about some columns among those about all columns, with zeros in the other places."""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.tensor.basic import Alloc, get_underlying_scalar_constant_value
from pytensor.tensor.type import TensorType

from bayes_gpx.aliases import Tensor


def among_all(part: Tensor, columns: np.ndarray, d: int | Tensor, *axes: int) -> Tensor:
    """Widen these axes of an array from some columns to all d columns.

    Parameters
    ----------
    part : tensor
    columns : array of int
        Which of all columns those of `part` are, in their order.
    d : int or scalar tensor
    *axes : int
        Not negative.
    """
    for axis in axes:
        sizes = [pt.as_tensor(d if a == axis else part.shape[a]) for a in range(part.ndim)]
        part = _zeros(sizes)[(slice(None),) * axis + (columns,)].set(part)
    return part


def _zeros(sizes):
    """Zeros of these sizes, of which the type knows those that are plain to see.

    `pytensor.tensor.zeros` infers sizes from all that an array is made of each time that it is
    called, which takes longer than the array's graph takes to compile.
    """
    known = [get_underlying_scalar_constant_value(s, raise_not_constant=False) for s in sizes]
    shape = [None if isinstance(s, Variable) else int(s) for s in known]
    zeros = TensorType("float64", shape=shape)()
    return Apply(Alloc(), [pt.constant(0.0, dtype=zeros.dtype), *sizes], [zeros]).outputs[0]
