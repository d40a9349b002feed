"""What stands for an array of numbers in signatures, symbolic or not."""

import numpy as np
from pytensor.tensor.variable import TensorVariable

type TensorLike = TensorVariable | np.ndarray | float
