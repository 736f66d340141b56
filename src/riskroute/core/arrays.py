"""Type aliases of NumPy arrays, named after their contents; docstrings state the shapes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]  # any shape
Vector = NDArray[np.float64]  # one dimension, such as coefficients (d,)
Matrix = NDArray[np.float64]  # two dimensions, such as features (K, d) of K actions
Integers = NDArray[np.int64]  # any shape
Units = NDArray[np.int64]  # number of whole lots in each slot
Stamps = NDArray[np.int64]  # nanoseconds since 1970, UTC
Flags = NDArray[np.bool_]
