"""Trades and the shares displayed before them, and days that keep them."""

from __future__ import annotations

from pathlib import Path

import polars
import pytest

import riskroute as rr
from naive_books import DEPTH, Flow
from riskroute.market.day_books import DayBooks, PreparedDayBooks
from riskroute.market.queue_fills import QueueReplay
from riskroute.market.schema import EVENT_SCHEMA, snapshot_schema

NOBODY = 0


def one_venue(*events: list[object]) -> QueueReplay:
    """50 shares are bid for at 10.00 and 5 offered at 10.02 at first; what the books show next does not matter."""
    book = [10.00, 50, 10.02, 5]
    snapshots = polars.DataFrame([[1, 1, "XNAS", "ZZ", *book]], schema=snapshot_schema(1), orient="row")
    rows = [[row[0], row[0], "XNAS", "ZZ", *row[1:]] for row in events]
    table = polars.DataFrame(rows, schema=EVENT_SCHEMA, orient="row")
    return QueueReplay(DayBooks.of_tables({"XNAS": snapshots}), {"XNAS": table})


def test_hidden_trades_belong_to_the_side_they_are_nearer_to() -> None:
    """At the mid both sides get it; nothing is displayed there. At the ask, 5 shares were displayed."""
    replay = one_venue(
        [2, "F", "B", 10.01, 70, None, NOBODY, 0],
        [3, "F", "B", 10.02, 8, None, NOBODY, 0],
        [4, "F", "B", 10.00, 60, None, NOBODY, 0],
    )
    assert replay.trades(0, 1, 0, 9) == [(70, 0), (8, 5)]
    assert replay.trades(0, -1, 0, 9) == [(70, 0), (60, 50)]
    assert replay.trades(0, 1, 3, 9) == [(8, 5)]
    assert replay.trades(0, 1, 0, 3) == [(70, 0)]


@pytest.mark.parametrize("seed", range(4))
def test_executions_of_one_price_and_time_are_one_trade(seed: int) -> None:
    """A book replayed event by event, whose snapshots say what was displayed."""
    flow = Flow(seed, 300)
    snapshots, events = flow.tables()
    replay = QueueReplay(DayBooks.of_tables({"XNAS": snapshots}), {"XNAS": events})
    for side, sign in (("A", 1), ("B", -1)):
        expected: dict[tuple[int, float], list[int]] = {}
        for number, (stamp, _, _, _, action, where, dollars, size, *_) in enumerate(flow.events):
            if action == "F" and where == side:
                before = flow.snapshots[number - 1]
                first = 4 if side == "B" else 6
                shown = {before[k]: before[k + 1] for k in range(first, 4 + 4 * DEPTH, 4)}
                expected.setdefault((stamp, dollars), [0, shown.get(dollars, 0)])[0] += size
        found = replay.trades(0, sign, 0, flow.stamp + 1)
        assert sorted(found) == sorted((size, shown) for size, shown in expected.values())
        assert len(found) > 10


def test_a_day_that_is_made_ready_keeps_them(half_hour: rr.market.RecordingStore, tmp_path: Path) -> None:
    """The reader of these files leaves hidden trades out; two are added at the end."""
    recordings = half_hour.of_symbol("QVEX")
    books = DayBooks.of_tables({one.venue: half_hour.snapshots(one) for one in recordings}, levels=5)
    events = {one.venue: half_hour.events(one) for one in recordings}
    last = (
        events["XNAS"]
        .tail(2)
        .with_columns(
            sequence=polars.col("sequence").max() + 1,
            action=polars.lit("F"),
            price=polars.Series([1.0, 10_000.0]),
            size=polars.Series([70, 80], dtype=polars.UInt32),
            order_id=polars.lit(NOBODY, dtype=polars.UInt64),
        )
    )
    events["XNAS"] = polars.concat([events["XNAS"], last.with_columns(ts_event=polars.col("ts_event").max())])
    queue = QueueReplay(books, events)
    again = PreparedDayBooks.read(PreparedDayBooks(books, queue).write(tmp_path / "day")).queue
    assert again is not None
    end = books.last + 10**12
    for venue, name in enumerate(books.venues):
        for sign in (1, -1):
            found = queue.trades(venue, sign, 0, end)
            assert found == again.trades(venue, sign, 0, end) == again.pessimistic().trades(venue, sign, 0, end)
            if name == "XNAS":
                assert found[-1] == ((80, 0) if sign > 0 else (70, 0))
    assert QueueReplay(books, {}).trades(0, 1, 0, books.last) == []
