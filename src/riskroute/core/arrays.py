"""Names for the arrays that every room uses: what their entries are, and what they stand for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
"""Real numbers, of any shape."""

Vector = NDArray[np.float64]
"""Real numbers in one dimension, such as coefficients ``(d,)``."""

Matrix = NDArray[np.float64]
"""Real numbers in two dimensions, such as the features ``(K, d)`` of ``K`` actions."""

Integers = NDArray[np.int64]
"""Whole numbers, of any shape."""

Units = NDArray[np.int64]
"""Whole numbers of lots, slot by slot."""

Stamps = NDArray[np.int64]
"""Points in time, in nanoseconds since 1970 in UTC."""

Flags = NDArray[np.bool_]
"""Yes or no for each of several things."""
