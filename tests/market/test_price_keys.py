"""Prices as whole numbers: equal prices are equal, different ones different, for every tick and size."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from riskroute.core.errors import DataError
from riskroute.market.price_keys import NO_PRICE, PRICE_UNITS, price_key, price_keys


@given(
    digits=st.integers(-2, 9),
    ticks=st.integers(-(10**15), 10**15).filter(bool),
    direction=st.sampled_from([1, -1]),
    last=st.sampled_from([-1, 0, 1]),
)
def test_prices_that_differ_by_a_tick_have_different_keys(digits: int, ticks: int, direction: int, last: int) -> None:
    """Prices up to 1e9 in ticks of 1e-9 to 100, as far as floats tell them apart; their last digit does not matter."""
    tick = Decimal(1).scaleb(-digits)
    while abs(ticks * tick) >= 10**9 - 200:
        ticks //= 10
    price = float(ticks * tick)
    moved = float(np.nextafter(price, last * np.inf)) if last else price
    whole = int(ticks * tick * PRICE_UNITS)
    found, beside = price_keys(np.array([moved, float((ticks + 1) * tick)]), direction)
    if abs(ticks) < 10**15 // 2:
        assert found == direction * whole
        assert direction * (beside - found) == int(tick * PRICE_UNITS)
        assert price_key(moved) == whole


def test_sums_and_products_have_the_key_of_their_decimal() -> None:
    for computed, text in ((0.1 + 0.2, "0.3"), (3 * 1.1, "3.3"), (999_999_999.9 + 0.05, "999999999.95")):
        assert price_key(computed) == int(Decimal(text) * PRICE_UNITS)


def test_no_price_is_not_mistaken_for_one() -> None:
    for direction in (1, -1):
        keys = price_keys(np.array([np.nan, np.inf, -np.inf, 0.0]), direction)
        assert keys.tolist() == [NO_PRICE, NO_PRICE, NO_PRICE, 0]
    assert price_key(float("nan")) == price_key(2e9) == NO_PRICE
    assert price_keys(np.zeros((2, 3))).shape == (2, 3)


def test_prices_beyond_a_thousand_million_are_refused() -> None:
    assert price_keys(np.array([1e9, -1e9])).tolist() == [10**18, -(10**18)]
    with pytest.raises(DataError, match=r"prices must be from -1,000,000,000 to 1,000,000,000, was -1,000,000,001"):
        price_keys(np.array([1.0, -1e9 - 1]))
