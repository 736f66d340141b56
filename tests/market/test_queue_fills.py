"""Limit orders at any moment: the same fills as one order per bucket has, and when they came."""

from __future__ import annotations

import datetime as dt

import numpy as np
import polars
import pytest

from naive_books import Flow, naive_outflow
from riskroute.core.errors import InputError
from riskroute.market import RecordingStore
from riskroute.market.clock import SECOND, TimeWindow
from riskroute.market.day_books import DayBooks
from riskroute.market.order_profits import limit_profits
from riskroute.market.queue_fills import QueueReplay
from riskroute.market.sampling import SampleTimes, sample_books
from riskroute.market.schema import EVENT_SCHEMA, snapshot_schema

SIZES = [20, 500, 3000]


@pytest.fixture(scope="module")
def venues(half_hour: RecordingStore) -> dict[str, tuple[polars.DataFrame, polars.DataFrame]]:
    return {one.venue: (half_hour.snapshots(one), half_hour.events(one)) for one in half_hour.of_symbol("QVEX")}


@pytest.mark.parametrize("rule", ["price-time", "pro-rata"])
@pytest.mark.parametrize("side", ["sell", "buy"])
def test_fills_are_those_of_one_order_per_bucket(
    side: str, rule: str, venues: dict[str, tuple[polars.DataFrame, polars.DataFrame]]
) -> None:
    """Orders join at snapshots, in 29 buckets of a minute, at the last snapshot of each stamp."""
    sign = 1 if side == "buy" else -1
    filled = 0
    for name, (snapshots, events) in venues.items():
        edges = TimeWindow(dt.time(10, 56), dt.time(11, 25), 29).edges(dt.date(2019, 3, 27))
        stamps = snapshots["ts_event"].cast(polars.Int64).to_numpy()
        chosen = np.searchsorted(stamps, edges[:-1] + SECOND, side="right") - 1
        times = SampleTimes(edges, stamps[chosen])
        inside = stamps[chosen] >= edges[:-1]
        expected = limit_profits(snapshots, events, times, SIZES, side=side, rule=rule).filled
        replay = QueueReplay(DayBooks.of_tables({name: snapshots}), {name: events}, {name: rule})
        own = sample_books(snapshots, chosen, levels=1).side("bid" if side == "buy" else "ask")[0][:, 0]
        for bucket in np.flatnonzero(inside):
            for k, shares in enumerate(SIZES):
                begin, end = int(times.times[bucket]), int(edges[bucket + 1])
                price, fills = replay.fills(0, sign, begin, end, shares)
                assert price == own[bucket]
                assert sum(some for _, some in fills) == expected[bucket, k]
                assert all(begin <= time < end and some > 0 for time, some in fills)
                assert [time for time, _ in fills] == sorted({time for time, _ in fills})
                filled += sum(some for _, some in fills)
    assert filled > 1000


def one_book(*events: list[object]) -> tuple[DayBooks, polars.DataFrame]:
    """Five shares offered at 10.02, and what happens then."""
    book = [10.00, 50, 10.02, 5]
    snapshots = polars.DataFrame([[1, 1, "XNAS", "ZZ", *book]], schema=snapshot_schema(1), orient="row")
    rows = [[row[0], row[0], "XNAS", "ZZ", *row[1:]] for row in events]
    return DayBooks.of_tables({"XNAS": snapshots}), polars.DataFrame(rows, schema=EVENT_SCHEMA, orient="row")


def test_each_fill_has_its_time() -> None:
    """Five shares were there before us; four behind us trade, so they would have been ours, and a bid comes for two."""
    books, events = one_book(
        [2, "F", "A", 10.02, 5, 0, 7, 0],
        [3, "A", "A", 10.02, 4, 4, 9, 0],
        [4, "F", "A", 10.02, 4, 0, 9, 0],
        [6, "A", "B", 10.02, 2, 2, 11, 0],
    )
    replay = QueueReplay(books, {"XNAS": events})
    assert replay.fills(0, -1, 1, 9, 10) == (10.02, [(4, 4), (6, 2)])
    assert replay.fills(0, -1, 1, 6, 10) == (10.02, [(4, 4)])
    assert replay.fills(0, -1, 1, 9, 3) == (10.02, [(4, 3)])


def test_every_one_of_many_fills_has_its_time() -> None:
    """Bids of one share come to our price, a hundred times; nobody else offers there any more."""
    books, events = one_book(
        [2, "F", "A", 10.02, 5, 0, 7, 0], *([3 + k, "A", "B", 10.02, 1, 1, 10 + k, 0] for k in range(100))
    )
    assert QueueReplay(books, {"XNAS": events}).fills(0, -1, 1, 200, 1000)[1] == [(3 + k, 1) for k in range(100)]


def test_an_order_that_moves_meets_us_once() -> None:
    books, events = one_book(
        [2, "F", "A", 10.02, 5, 0, 7, 0],
        [3, "A", "B", 10.02, 2, 2, 11, 0],
        [4, "M", "B", 10.03, 6, 6, 12, 11],
        [5, "A", "B", 10.02, 1, 1, 13, 0],
    )
    assert QueueReplay(books, {"XNAS": events}).fills(0, -1, 1, 9, 10)[1] == [(3, 2), (5, 1)]


def test_an_order_that_moves_away_and_back_meets_us_once() -> None:
    """It traded with us when it came first, whatever the recording has it do then."""
    books, events = one_book(
        [2, "F", "A", 10.02, 5, 0, 7, 0],
        [3, "A", "B", 10.02, 2, 2, 11, 0],
        [4, "M", "B", 10.01, 2, 2, 12, 11],
        [5, "M", "B", 10.02, 2, 2, 13, 12],
    )
    assert QueueReplay(books, {"XNAS": events}).fills(0, -1, 1, 9, 10)[1] == [(3, 2)]


@pytest.mark.parametrize("seed", range(12))
def test_outflows_are_those_of_a_book_replayed_by_name(seed: int) -> None:
    """Every fourth snapshot that shows both sides, until the next edges; queues that are not reached count too."""
    flow = Flow(seed, 200)
    snapshots, events = flow.tables()
    replay = QueueReplay(DayBooks.of_tables({"XNAS": snapshots}), {"XNAS": events})
    last = {row[0]: row[1] for row in flow.snapshots}  # of equal stamps the last is seen
    reached = kept = 0
    for stamp, sequence in list(last.items())[4:-8:4]:
        for end in (stamp + 12, stamp + 90):
            for side, sign in (("sell", -1), ("buy", 1)):
                price, ahead, outflow = replay.drain(0, sign, stamp, end)
                if np.isnan(price):
                    continue
                assert (ahead, outflow) == naive_outflow(flow, side, sequence, end)
                fills = replay.fills(0, sign, stamp, end, 10**6)[1]
                assert max(outflow - ahead, 0) == sum(some for _, some in fills)
                reached += outflow > ahead
                kept += 0 < outflow < ahead
    assert reached > 5
    assert kept > 0


def test_a_cancellation_ahead_is_an_outflow() -> None:
    """Five shares stand before us; two are cancelled, one trades. An order of one share would not have been reached."""
    books, events = one_book([2, "C", "A", 10.02, 2, 3, 7, 0], [3, "F", "A", 10.02, 1, 2, 7, 0])
    replay = QueueReplay(books, {"XNAS": events})
    assert replay.drain(0, -1, 1, 9) == (10.02, 5, 3)
    assert replay.drain(0, -1, 1, 3) == (10.02, 5, 2)
    assert np.isnan(QueueReplay(books, {}).drain(0, -1, 1, 9)[0])


def test_a_venue_without_events_takes_no_limit_orders() -> None:
    price, fills = QueueReplay(one_book()[0], {}).fills(0, -1, 1, 9, 10)
    assert np.isnan(price)
    assert fills == []


def test_what_cannot_be() -> None:
    books, events = one_book()
    with pytest.raises(InputError, match="venue of events must be one of XNAS, was 'XBOS'"):
        QueueReplay(books, {"XBOS": events})
    with pytest.raises(InputError, match="matching of XNAS must be one of price-time, pro-rata, was 'random'"):
        QueueReplay(books, {"XNAS": events}, {"XNAS": "random"})
