"""Prices as whole numbers of 1e-9, so that equal prices compare equal even if their floats differ in the last digit."""

from __future__ import annotations

import numpy as np
from numba import njit

from riskroute.core.arrays import Integers, Matrix
from riskroute.core.errors import DataError

PRICE_UNITS = 10**9  # per 1 of price: the smallest tick of an instrument is one such unit
NO_PRICE = -(2**62)  # key of a missing price; no price has it
_LARGEST = 1e9  # 1e18 units, so that sums of a few keys fit into int64


def price_keys(prices: Matrix, direction: int = 1) -> Integers:
    """Return prices as whole numbers, of the same shape; `NO_PRICE` for NaN and infinity. Refuse prices beyond 1e9.

    ``direction`` is 1 for asks and -1 for bids: keys increase as prices get worse for the counterparty.

    >>> price_keys(np.array([10.01, np.nan])).tolist(), price_keys(np.array([0.1 + 0.2]), -1).tolist()
    ([10010000000, -4611686018427387904], [-300000000])
    """
    given = np.asarray(prices, dtype=np.float64)
    beyond = given[np.isfinite(given) & (np.abs(given) > _LARGEST)]
    if len(beyond):
        raise DataError(f"prices must be from -{_LARGEST:,.0f} to {_LARGEST:,.0f}, was {beyond[0]:,.15g}")
    return np.asarray(_keys(given.ravel(), direction).reshape(given.shape))


@njit(cache=True)
def price_key(price: float) -> int:
    """Return one price as a whole number; `NO_PRICE` for NaN, infinity and prices beyond 1e9."""
    size = abs(price)
    if not size <= _LARGEST:
        return NO_PRICE
    # A float has 53 significant bits: beyond 2**50 units its last digits are rounding errors and become zeros.
    step = 1
    while size * (PRICE_UNITS // step) >= 2.0**50:
        step *= 10
    return int(np.rint(price * (PRICE_UNITS // step))) * step


@njit(cache=True)
def _keys(prices: Matrix, direction: int) -> Integers:
    keys = np.empty(len(prices), dtype=np.int64)
    for k in range(len(prices)):
        key = price_key(prices[k])
        keys[k] = key if key == NO_PRICE else direction * key
    return keys
