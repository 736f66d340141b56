"""Limit orders and orders of the other side that come to their price or through it."""

from __future__ import annotations

import numpy as np
import polars
import pytest

from naive_books import Row, event_table, snapshot_table
from riskroute.core.validation import SIDES
from riskroute.market.order_profits import PassiveOrderProfit, limit_profits
from riskroute.market.sampling import SampleTimes

BOOK = (1, 1, "XNAS", "ZZ", 10.00, 50, 10.02, 5)
DAY = SampleTimes(np.array([0, 100]), np.array([1]))
GONE = (2, "C", "A", 10.02, 5, 7, 0)
"""The five shares ahead of us are cancelled."""

Told = tuple[int, str, str, float | None, int, int, int]


def events_of(rows: list[Told], first: int = 2) -> polars.DataFrame:
    """Events ``(time, action, side, price, size, order id, old order id)``."""
    return event_table(
        [
            (stamp, number, "XNAS", "ZZ", action, side, price, size, None, order, old)
            for number, (stamp, action, side, price, size, order, old) in enumerate(rows, first)
        ]
    )


def mirrored(rows: list[Told]) -> list[Told]:
    """The same events with the sides changed, and prices as far on the other side of 10.01."""
    return [
        (stamp, action, "B" if side == "A" else "A", None if price is None else round(20.02 - price, 2), size, one, old)
        for stamp, action, side, price, size, one, old in rows
    ]


def filled_of(rows: list[Told], quantity: int = 100, rule: str = "price-time", side: str = "sell") -> int:
    book = BOOK if side == "sell" else (*BOOK[:4], 10.00, 5, 10.02, 50)
    events = events_of(rows if side == "sell" else mirrored(rows))
    return int(limit_profits(snapshot_table([book], 1), events, DAY, [quantity], side=side, rule=rule).filled[0, 0])


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(
    ("rows", "filled"),
    [
        ([(3, "A", "B", 10.02, 8, 20, 0)], 8),
        ([(3, "A", "B", 10.05, 8, 20, 0)], 8),
        ([(3, "A", "B", 10.01, 8, 20, 0)], 0),
        ([(3, "A", "B", 10.02, 8, 20, 0), (4, "A", "B", 10.03, 7, 21, 0)], 15),
        ([(3, "A", "B", 10.02, 99, 20, 0), (4, "A", "B", 10.03, 7, 21, 0)], 100),
        ([(3, "A", "B", 10.02, 8, 0, 0)], 0),  # no order
        ([(3, "A", "B", None, 8, 20, 0)], 0),
        ([(3, "A", "B", float("nan"), 8, 20, 0)], 0),
        ([(100, "A", "B", 10.02, 8, 20, 0)], 0),  # in the next bucket
        ([(3, "A", "B", 10.02, 8, 20, 0), (4, "F", "B", 10.02, 8, 20, 0)], 8),  # whoever sells to it later
        ([(3, "A", "B", 10.02, 8, 20, 0), (4, "C", "B", 10.02, 8, 20, 0)], 8),
    ],
)
def test_a_bid_at_the_price_of_our_ask_or_above_trades_with_us(rows: list[Told], filled: int, side: str) -> None:
    assert filled_of([GONE, *rows], side=side) == filled


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(
    ("rows", "filled"),
    [
        ([(3, "A", "B", 10.01, 8, 20, 0), (4, "M", "B", 10.02, 6, 21, 20)], 6),  # it comes by its replacement
        ([(3, "A", "B", 10.02, 8, 20, 0), (4, "M", "B", 10.03, 9, 21, 20)], 8),  # it is gone by then
        ([(3, "A", "B", 10.02, 8, 20, 0), (4, "M", "B", 10.00, 9, 21, 20), (5, "M", "B", 10.02, 9, 22, 21)], 8),
        ([(3, "M", "B", 10.02, 8, 21, 20), (4, "M", "B", 10.02, 9, 22, 21)], 8),  # the first was never added
        ([(3, "A", "B", 10.02, 8, 20, 0), (4, "C", "B", 10.02, 8, 20, 0), (4, "A", "B", 10.03, 8, 21, 0)], 8),
        ([(3, "A", "B", 10.02, 8, 20, 0), (4, "C", "B", 10.02, 8, 20, 0), (5, "A", "B", 10.03, 8, 21, 0)], 16),
        ([(3, "A", "B", 10.01, 8, 20, 0), (4, "C", "B", 10.01, 8, 20, 0), (4, "A", "B", 10.02, 6, 21, 0)], 6),
        ([(3, "A", "B", 10.02, 8, 20, 0), (4, "C", "A", 10.05, 8, 20, 0), (4, "A", "B", 10.03, 8, 21, 0)], 16),
    ],
)
def test_an_order_and_what_replaces_it_meet_us_once(rows: list[Told], filled: int, side: str) -> None:
    assert filled_of([GONE, *rows], side=side) == filled
    assert filled_of([GONE, *rows], rule="pro-rata", side=side) == filled


def test_an_order_may_meet_us_again_in_another_bucket() -> None:
    """There it meets another order of ours, which knows nothing of the first."""
    rows: list[Told] = [GONE, (3, "A", "B", 10.02, 8, 20, 0), (52, "C", "A", 10.02, 5, 9, 0)]
    events = events_of([*rows, (53, "M", "B", 10.03, 9, 21, 20)])
    sample_times = SampleTimes(np.array([0, 50, 100]), np.array([1, 51]))
    books = snapshot_table([BOOK, (51, 3, *BOOK[2:])], 1)
    assert limit_profits(books, events, sample_times, [100]).filled.tolist() == [[8], [9]]


def test_who_came_before_us_does_not_meet_us() -> None:
    """A recording that is crossed when we join: order 20 is there already, and comes anew when it is replaced."""
    before: list[Told] = [(1, "A", "B", 10.02, 8, 20, 0)]
    for after, filled in (([], 0), ([(3, "M", "B", 10.02, 6, 21, 20)], 6)):
        events = events_of([*before, GONE, *after], first=1)
        assert limit_profits(snapshot_table([BOOK], 1), events, DAY, [100]).filled.tolist() == [[filled]]


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(
    ("rows", "filled"),
    [
        ([(3, "F", "A", 10.02, 5, 7, 0), (3, "A", "B", 10.02, 8, 20, 0)], 8),
        ([GONE, (3, "A", "A", 10.02, 4, 9, 0), (4, "F", "A", 10.02, 4, 9, 0), (4, "A", "B", 10.02, 6, 20, 0)], 10),
        ([GONE, (3, "A", "A", 10.03, 4, 9, 0), (4, "F", "A", 10.03, 4, 9, 0), (4, "A", "B", 10.03, 6, 20, 0)], 10),
        ([GONE, (3, "A", "A", 10.01, 4, 9, 0), (4, "F", "A", 10.01, 4, 9, 0), (4, "A", "B", 10.02, 6, 20, 0)], 6),
    ],
)
def test_what_an_order_executes_and_its_rest_count_once_each(rows: list[Told], filled: int, side: str) -> None:
    assert filled_of(rows, side=side) == filled


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(
    ("rows", "filled"),
    [
        ([(3, "A", "B", 10.02, 8, 20, 0)], 3),  # five are ahead
        ([(3, "A", "B", 10.02, 4, 20, 0)], 0),
        ([(3, "A", "B", 10.02, 8, 20, 0), (4, "A", "B", 10.02, 7, 21, 0)], 5),  # and stay ahead
        ([(3, "A", "B", 10.02, 8, 20, 0), (4, "F", "A", 10.02, 6, 7, 0)], 4),
        ([(3, "A", "B", 10.02, 8, 20, 0), (3, *GONE[1:])], 3),  # one time, but in this order
        ([(3, *GONE[1:]), (3, "A", "B", 10.02, 8, 20, 0)], 8),
        ([(3, "A", "A", 10.01, 2, 9, 0), (4, "A", "B", 10.02, 8, 20, 0)], 1),  # two more at a better price
        ([(3, "A", "A", 10.01, 2, 9, 0), (4, "C", "A", 10.01, 1, 9, 0), (5, "A", "B", 10.02, 8, 20, 0)], 2),
        ([(3, "A", "A", 10.01, 2, 9, 0), (4, "M", "A", 10.01, 1, 10, 9), (5, "A", "B", 10.02, 8, 20, 0)], 2),
        ([(3, "A", "A", 10.01, 2, 9, 0), (4, "F", "A", 10.01, 2, 9, 0), (5, "A", "B", 10.02, 8, 20, 0)], 3),
        ([(3, "A", "A", 10.02, 2, 9, 0), (4, "A", "B", 10.02, 8, 20, 0)], 3),  # behind us
        # orders without a price stand nowhere
        ([(3, "A", "A", None, 2, 9, 0), (4, "A", "B", 10.02, 8, 20, 0)], 3),
        ([(3, "A", "A", 10.01, 2, 9, 0), (4, "C", "A", None, 1, 8, 0), (5, "A", "B", 10.02, 8, 20, 0)], 1),
        # the same number on the other side is another order
        ([(3, "A", "B", 10.05, 4, 7, 0), (4, *GONE[1:]), (5, "A", "B", 10.02, 8, 20, 0)], 8),
        # an execution at our price says that nothing better is there, whatever was not recorded
        ([(3, "A", "A", 10.01, 2, 9, 0), (4, "F", "A", 10.02, 5, 7, 0), (5, "A", "B", 10.02, 8, 20, 0)], 8),
        ([(3, "A", "A", 10.01, 2, 9, 0), (4, "F", "A", 10.03, 1, 8, 0), (5, "A", "B", 10.02, 8, 20, 0)], 9),
    ],
)
def test_of_a_crossed_recording_counts_what_exceeds_the_orders_ahead(rows: list[Told], filled: int, side: str) -> None:
    assert filled_of(rows, side=side) == filled


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(
    ("rows", "quantity", "filled"),
    [
        ([GONE, (3, "A", "B", 10.02, 8, 20, 0)], 5, 5),  # nobody else
        ([GONE, (3, "A", "B", 10.02, 8, 20, 0)], 20, 8),
        ([(3, "A", "B", 10.02, 8, 20, 0)], 5, 4),  # 8 * 5 / 10
        ([(3, "A", "B", 10.02, 8, 20, 0)], 15, 6),  # 8 * 15 / 20
        ([(3, "A", "A", 10.01, 2, 9, 0), (4, "A", "B", 10.02, 8, 20, 0)], 5, 3),  # 6 * 5 / 10
        ([(3, "A", "A", 10.01, 9, 9, 0), (4, "A", "B", 10.02, 8, 20, 0)], 5, 0),
        ([(3, "F", "A", 10.02, 5, 7, 0), (3, "A", "B", 10.02, 3, 20, 0)], 5, 4),  # 5 + 3 are one trade: 8 * 5 / 10
        ([(3, "F", "A", 10.02, 5, 7, 0), (4, "A", "B", 10.02, 2, 20, 0)], 5, 4),  # 5 * 5 / 10, then 2 for us alone
        ([(3, "A", "B", 10.02, 4, 20, 0), (4, "A", "B", 10.02, 4, 21, 0)], 5, 3),  # 4 * 5 / 10, 4 * 3 / 8
        ([(3, "A", "B", 10.02, 4, 20, 0), (3, "A", "B", 10.02, 4, 21, 0)], 5, 4),
        ([(3, "A", "A", 10.01, 2, 9, 0), (4, "F", "A", 10.02, 5, 7, 0), (5, "A", "B", 10.02, 2, 20, 0)], 5, 4),
    ],
)
def test_pro_rata_by_hand(rows: list[Told], quantity: int, filled: int, side: str) -> None:
    assert filled_of(rows, quantity, "pro-rata", side) == filled


LAST: list[Row] = [
    (3, 3, "XNAS", "ZZ", 10.02, 8, 10.03, 9, 10.00, 50, 10.04, 9),
    (3, 3, "XNAS", "ZZ", 10.01, 8, 10.03, 9, 10.00, 50, 10.04, 9),
]


def outcome_at_the_end(last: Row, price: float, quantities: list[int]) -> PassiveOrderProfit:
    first = (*BOOK, 9.99, 50, 10.03, 9)
    events = events_of([GONE, (3, "A", "B", price, 8, 20, 0)])
    return limit_profits(snapshot_table([first, last], 2), events, DAY, quantities)


def test_who_has_traded_with_us_does_not_buy_the_rest_too() -> None:
    """Eight shares earn a cent each; the bid that bought them still stands in the recording's last book."""
    outcome = outcome_at_the_end(LAST[0], 10.02, [8, 10, 58, 59])
    assert outcome.filled.tolist() == [[8, 8, 8, 8]]
    np.testing.assert_allclose(outcome.profits, [[0.08, 0.08 - 0.02, 0.08 - 0.5, np.nan]], atol=1e-9)


def test_who_has_not_traded_with_us_buys_the_rest() -> None:
    outcome = outcome_at_the_end(LAST[1], 10.01, [8, 10, 58, 59])
    assert outcome.filled.tolist() == [[0, 0, 0, 0]]
    np.testing.assert_allclose(outcome.profits, [[0.0, -0.02, -0.5, np.nan]], atol=1e-9)
