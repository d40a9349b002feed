"""Names of types that many signatures share."""

import numpy as np
from pytensor.tensor.variable import TensorVariable

Tensor = TensorVariable
"""A symbol or what is computed from symbols."""

TensorLike = TensorVariable | np.ndarray | float
"""What takes the place of a symbol."""
