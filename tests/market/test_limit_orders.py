"""Limit orders against a naive book that replays every event with our order in its queue."""

from __future__ import annotations

import numpy as np
import polars
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naive_books import (
    Flow,
    event_table,
    events_of_levels,
    levels_of,
    naive_fill,
    naive_joined,
    naive_profit,
    snapshot_table,
)
from riskroute.core.errors import DataError
from riskroute.core.validation import SIDES
from riskroute.market.day_books import DayBooks
from riskroute.market.order_profits import limit_profits
from riskroute.market.queue_fills import ACTION, QueueReplay, _code_day_events
from riskroute.market.queue_fills import MATCHING_RULES as RULES
from riskroute.market.sampling import SampleTimes, sample_closest_rows
from riskroute.market.schema import EVENT_SCHEMA, snapshot_schema


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32),
    steps=st.integers(0, 150),
    side=st.sampled_from(SIDES),
    rule=st.sampled_from(RULES),
    crossed=st.booleans(),
)
def test_fills_and_profits_equal_those_of_a_replay_with_our_order_in_the_book(
    seed: int, steps: int, side: str, rule: str, crossed: bool
) -> None:
    flow = Flow(seed, steps, rule, crossed=crossed)
    sample_times, quantities = flow.moments(), [1, 2, 5, 9, 30]
    snapshots, events = flow.tables()
    outcome = limit_profits(snapshots, events, sample_times, quantities, side=side, rule=rule)
    for bucket, row in enumerate(sample_closest_rows(snapshots, sample_times)):
        sequence, end = int(row) + 1, int(sample_times.edges[bucket + 1])
        if row < 0 or not all(levels_of(flow.snapshots[row], letter) for letter in "AB"):
            assert np.isnan(outcome.profits[bucket]).all()
            assert not outcome.filled[bucket].any()
            continue
        filled = [naive_fill(flow, side, rule, sequence, end, quantity) for quantity in quantities]
        assert outcome.filled[bucket].tolist() == filled
        profits = [naive_profit(flow, side, sequence, end, f, q) for f, q in zip(filled, quantities, strict=True)]
        np.testing.assert_allclose(outcome.profits[bucket], profits, atol=1e-9)


def test_the_replay_meets_every_case() -> None:
    """Days as above have whole fills, parts, none, short books, missing ones, and bids that meet us: no idle match."""
    quantities, seen = np.array([1, 5, 30]), dict.fromkeys(("none", "part", "whole", "short", "missing", "met"), 0)
    for seed in range(40):
        flow = Flow(seed, 80)
        sample_times, (snapshots, events) = flow.moments(), flow.tables()
        outcome = limit_profits(snapshots, events, sample_times, quantities)
        asks = limit_profits(snapshots, events.filter(side="A"), sample_times, quantities)
        seen["met"] += int((outcome.filled > asks.filled).sum())
        lost = np.isnan(outcome.profits)
        seen["none"] += int((outcome.filled == 0).sum())
        seen["part"] += int(((outcome.filled > 0) & (outcome.filled < quantities)).sum())
        seen["whole"] += int((outcome.filled == quantities).sum())
        seen["short"] += int((lost & ~lost[:, :1]).sum())
        seen["missing"] += int(lost[:, 0].sum())
    assert min(seen.values()) >= 5, seen


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32), side=st.sampled_from(SIDES), rule=st.sampled_from(RULES))
def test_orders_that_were_never_added_are_ahead(seed: int, side: str, rule: str) -> None:
    """Without replacements, what happened before the first join need not be in the table."""
    flow = Flow(seed, 120, rule, replaces=False)
    snapshots, events = flow.tables()
    sample_times = SampleTimes(np.array([flow.stamp // 2, flow.stamp + 1]), np.array([flow.stamp // 2]))
    begin = snapshots["sequence"][int(sample_closest_rows(snapshots, sample_times)[0])]
    whole = limit_profits(snapshots, events, sample_times, [3, 20], side=side, rule=rule)
    part = limit_profits(
        snapshots, events.filter(polars.col("sequence") > begin), sample_times, [3, 20], side=side, rule=rule
    )
    assert part.filled.tolist() == whole.filled.tolist()
    np.testing.assert_array_equal(part.profits, whole.profits)


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32), depth=st.integers(1, 2))
def test_ids_tell_when_orders_joined_that_a_recording_of_few_levels_does_not_show(seed: int, depth: int) -> None:
    """As a list of ids tells it, and never later than was the case."""
    flow = Flow(seed, 150, replaces=False)
    rows = events_of_levels(flow, depth)
    for letter, direction in (("A", 1), ("B", -1)):
        mine = [(row[1], row[9], came) for row, came in zip(rows, naive_joined(rows), strict=True) if row[5] == letter]
        found = _code_day_events(event_table(rows), direction)
        leaves = np.isin(found.actions, (ACTION.cancel, ACTION.execute))
        told = dict(zip(found.sequences[leaves].tolist(), found.gone_joined[leaves].tolist(), strict=True))
        assert told == {number: came for number, _, came in mine if number in told}
        truth = {row[9]: row[1] for row in flow.events if row[4] == "A"}
        assert all(told[number] <= truth[order] for number, order, _ in mine if number in told)


@pytest.mark.parametrize(
    ("rows", "filled"),
    [
        ([("C", 10.02, 5, 40, 0), ("F", 10.02, 5, 7, 0), ("F", 10.02, 1, 41, 0)], 1),  # 40 and 41 were sent after 30
        ([("C", 10.02, 5, 20, 0), ("F", 10.02, 5, 7, 0), ("F", 10.02, 1, 41, 0)], 6),  # 20 was there before 30
        ([("F", 10.02, 3, 40, 0)], 3),
        ([("F", 10.02, 3, 20, 0)], 0),
    ],
)
def test_an_order_sent_after_we_joined_is_not_ahead(rows: list[tuple[str, float, int, int, int]], filled: int) -> None:
    """Five shares were there when we joined; order 30 is added elsewhere, the others come into sight later."""
    assert filled_of(events_of(("A", 10.05, 9, 30, 0), *rows)) == filled
    books = DayBooks.of_tables({"XNAS": snapshot_table([BOOK], 1)})
    replay = QueueReplay(books, {"XNAS": events_of(("A", 10.05, 9, 30, 0), *rows)})
    assert sum(some for _, some in replay.fills(0, -1, 1, 100, 100)[1]) == filled


def test_ids_that_do_not_rise_tell_nothing() -> None:
    rows = [("A", 10.05, 9, 30, 0), ("A", 10.06, 9, 12, 0), ("F", 10.02, 3, 40, 0)]
    assert filled_of(events_of(*rows)) == 0


@given(seed=st.integers(0, 2**32), rule=st.sampled_from(RULES))
@settings(max_examples=20)
def test_larger_orders_fill_no_less_and_never_more_than_themselves(seed: int, rule: str) -> None:
    flow = Flow(seed, 100, rule)
    quantities = np.arange(1, 31)
    filled = limit_profits(*flow.tables(), flow.moments(), quantities, rule=rule).filled
    assert (filled <= quantities).all()
    assert (np.diff(filled, axis=1) >= 0).all()


BOOK = (1, 1, "XNAS", "ZZ", 10.00, 50, 10.02, 5)
DAY = SampleTimes(np.array([0, 100]), np.array([1]))


def events_of(*rows: tuple[str, float, int, int, int]) -> polars.DataFrame:
    """Events on the ask side ``(action, price, size, order id, old order id)``, a tick of the clock apart."""
    return event_table(
        [
            (k, k, "XNAS", "ZZ", a, "A", price, size, None, order, old)
            for k, (a, price, size, order, old) in enumerate(rows, 2)
        ]
    )


def filled_of(events: polars.DataFrame, quantity: int = 100, rule: str = "price-time") -> int:
    return int(limit_profits(snapshot_table([BOOK], 1), events, DAY, [quantity], rule=rule).filled[0, 0])


@pytest.mark.parametrize(
    ("rows", "filled"),
    [
        ([("F", 10.02, 5, 7, 0)], 0),  # all that was ahead
        ([("F", 10.02, 8, 7, 0)], 3),  # three more than was ahead
        ([("C", 10.02, 5, 7, 0), ("A", 10.02, 4, 9, 0), ("F", 10.02, 3, 9, 0)], 3),
        ([("A", 10.02, 4, 9, 0), ("C", 10.02, 4, 9, 0), ("F", 10.02, 6, 7, 0)], 1),  # a cancel behind is nothing
        ([("A", 10.03, 4, 9, 0), ("F", 10.03, 2, 9, 0)], 2),  # a worse price: ours was better
        ([("A", 10.01, 4, 9, 0), ("F", 10.01, 4, 9, 0)], 0),  # a better price comes first
        ([("A", 10.03, 4, 9, 0), ("M", 10.02, 4, 10, 9), ("F", 10.02, 4, 10, 0)], 4),  # moved behind us
        ([("A", 10.02, 4, 9, 0), ("F", 10.01, 4, 9, 0)], 4),  # the resting price counts, not the price paid
        ([("F", 10.02, 5, 0, 0), ("F", 10.02, 5, 0, 0)], 0),  # no displayed order
        ([("A", 10.02, 4, 9, 0), ("F", 10.02, 1, 9, 0), ("F", 10.02, 2, 7, 0)], 3),  # so nothing was ahead any more
    ],
)
def test_price_time_by_hand(rows: list[tuple[str, float, int, int, int]], filled: int) -> None:
    assert filled_of(events_of(*rows)) == filled


def test_a_replaced_order_ahead_goes_behind() -> None:
    """Order 7 (2 of 5 shares ahead) was seen before we joined, in part executed, and then moves to our own price."""
    before = events_of(("A", 10.02, 4, 7, 0), ("F", 10.02, 2, 7, 0), ("M", 10.02, 2, 8, 7), ("F", 10.02, 4, 6, 0))
    joined = (3, 3, *BOOK[2:])
    outcome = limit_profits(snapshot_table([joined], 1), before, DAY, [10])
    assert outcome.filled.tolist() == [[1]]  # 3 ahead after the move, 4 executed


@pytest.mark.parametrize(
    ("rows", "quantity", "filled"),
    [
        ([("F", 10.02, 5, 7, 0)], 5, 2),  # half of five, whole shares
        ([("F", 10.02, 4, 7, 0)], 15, 3),  # 4 * 15 / 20
        ([("A", 10.02, 10, 9, 0), ("F", 10.02, 4, 7, 0)], 5, 1),  # 4 * 5 / 20
        ([("C", 10.02, 5, 7, 0), ("F", 10.03, 4, 9, 0)], 5, 4),  # nobody else is left
        ([("F", 10.02, 5, 7, 0), ("F", 10.02, 50, 9, 0)], 5, 5),
    ],
)
def test_pro_rata_by_hand(rows: list[tuple[str, float, int, int, int]], quantity: int, filled: int) -> None:
    assert filled_of(events_of(*rows), quantity, "pro-rata") == filled


def test_executions_of_one_timestamp_are_one_trade() -> None:
    """Two executions of 3: together 6 * 5 / 10 = 3; apart 3 * 5 / 10 = 1 and then 3 * 4 / 6 = 2 of what is shown."""
    apart = events_of(("F", 10.02, 3, 7, 0), ("F", 10.02, 3, 8, 0))
    together = apart.with_columns(ts_event=polars.lit(2).cast(polars.Int64).cast(EVENT_SCHEMA["ts_event"]))
    one = events_of(("F", 10.02, 6, 7, 0))
    assert filled_of(together, 5, "pro-rata") == filled_of(one, 5, "pro-rata") == 3
    assert filled_of(apart, 4, "pro-rata") == 1 + 3 * 3 // 5


def test_events_of_the_next_bucket_do_not_count() -> None:
    sample_times = SampleTimes(np.array([0, 2, 100]), np.array([1, 50]))
    outcome = limit_profits(snapshot_table([BOOK], 1), events_of(("F", 10.02, 9, 7, 0)), sample_times, [3])
    assert outcome.filled.tolist() == [[0], [0]]
    assert np.isnan(outcome.profits).tolist() == [[False], [True]]


def test_fees_are_paid_on_what_they_are_for() -> None:
    """Of 6 shares 4 fill a cent above the middle, 2 cross a cent below it."""
    tables = snapshot_table([BOOK], 1), events_of(("F", 10.02, 9, 7, 0))
    for maker, taker, expected in ((0, 0, 0.02), (-0.002, 0, 0.028), (0, 0.003, 0.014), (0.001, 0.001, 0.014)):
        outcome = limit_profits(*tables, DAY, [6], maker_fee=(maker, 0.0), taker_fee=(taker, 0.0))
        assert outcome.profits[0, 0] == pytest.approx(expected, abs=1e-12)
    outcome = limit_profits(*tables, DAY, [6], maker_fee=(0.0, 1e-4), taker_fee=(0.0, 1e-3))
    assert outcome.profits[0, 0] == pytest.approx(0.02 - 4 * 10.02e-4 - 2 * 10.00e-3, abs=1e-9)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("side", SIDES)
def test_nothing_to_go_by_is_no_profit(side: str, rule: str) -> None:
    empty, columns = event_table([]), snapshot_schema(1)
    without = limit_profits(polars.DataFrame(schema=columns), empty, DAY, [1, 2], side=side, rule=rule)
    assert np.isnan(without.profits).tolist() == [[True, True]]
    for names in (("bid_px_00", "bid_sz_00"), ("ask_px_00", "ask_sz_00")):
        one_sided = snapshot_table([BOOK], 1).with_columns(
            polars.lit(None, dtype=polars.Float64).alias(names[0]), polars.lit(0, dtype=polars.UInt32).alias(names[1])
        )
        outcome = limit_profits(one_sided, events_of(("F", 10.02, 9, 7, 0)), DAY, [1], side=side, rule=rule)
        assert np.isnan(outcome.profits).all()
        assert outcome.filled.tolist() == [[0]]


def test_without_events_everything_crosses() -> None:
    outcome = limit_profits(snapshot_table([BOOK], 1), event_table([]), DAY, [1, 50, 51])
    assert outcome.filled.tolist() == [[0, 0, 0]]
    np.testing.assert_allclose(outcome.profits, [[-0.01, -0.5, np.nan]], atol=1e-9)


def test_a_whole_fill_needs_no_book_to_cross() -> None:
    gone = (50, 50, "XNAS", "ZZ", None, 0, 10.02, 5)
    outcome = limit_profits(snapshot_table([BOOK, gone], 1), events_of(("F", 10.02, 9, 7, 0)), DAY, [4, 5])
    np.testing.assert_allclose(outcome.profits, [[0.04, np.nan]], atol=1e-9)


def test_prices_without_a_value_belong_to_no_queue() -> None:
    events = events_of(("C", 10.02, 2, 7, 0), ("F", 10.02, 9, 8, 0))
    for nothing in (None, float("nan"), float("inf")):
        blank = events.with_columns(price=polars.when(polars.col("action") == "C").then(nothing).otherwise("price"))
        assert filled_of(blank) == 4
        assert filled_of(blank, 5, "pro-rata") == filled_of(events[1:], 5, "pro-rata")


def test_bad_tables_are_named() -> None:
    good = events_of(("A", 10.02, 4, 9, 0), ("C", 10.02, 4, 9, 0))
    for bad, message in (
        (good.drop("order_id", "side"), "missing side, order_id"),
        (good.with_columns(action=polars.lit("X")), "action must be one of A, C, F, M, T, was X"),
        (
            good.with_columns(action=polars.lit(None, dtype=polars.String)),
            "action must be one of A, C, F, M, T, was None",
        ),
        (good.reverse(), "events must be sorted by sequence"),
        (good.with_columns(ts_event=polars.col("ts_event").reverse()), "events must be sorted by ts_event"),
    ):
        with pytest.raises(DataError, match=message):
            limit_profits(snapshot_table([BOOK], 1), bad, DAY, [1])
    with pytest.raises(DataError, match="expected snapshot columns"):
        limit_profits(snapshot_table([BOOK], 1).drop("bid_sz_00"), good, DAY, [1])
