"""Interpolation in tables by units of an order, compiled."""

from __future__ import annotations

from numba import njit

from riskroute.core.arrays import Floats


@njit(cache=True)
def interpolate_compiled(x: float, shares: Floats, values: Floats) -> float:
    """Interpolate ``values`` between the shares of two units; shares rise evenly but for the last unit."""
    step = shares[1]
    k = min(int(x / step), len(shares) - 2)
    part = (x - shares[k]) / (shares[k + 1] - shares[k])
    return float(values[k] + part * (values[k + 1] - values[k]))
