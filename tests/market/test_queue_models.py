"""Queue positions estimated from depth and trades: against a naive queue, the true queue, and by hand."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import polars
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkout import SHARED_DATA
from naive_books import Flow
from naive_queues import hidden_ids, naive_depth, naive_estimate, naive_match, whole_fills
from riskroute.core.errors import DataError, InputError
from riskroute.core.validation import SIDES
from riskroute.market import ReadingOptions, RecordingStore, import_files
from riskroute.market.clock import SECOND
from riskroute.market.day_books import DayBooks, PreparedDayBooks
from riskroute.market.order_profits import limit_profits
from riskroute.market.price_keys import PRICE_UNITS
from riskroute.market.queue_fills import QueueReplay
from riskroute.market.queue_models import QUEUE_MODELS, QueueModel, match_queue_model_trades, queue_model_side
from riskroute.market.sampling import SampleTimes
from riskroute.market.schema import EVENT_SCHEMA, snapshot_schema

MILLISECOND = SECOND // 1000
APART = 100 * MILLISECOND
SPACING = 30 * MILLISECOND  # of the units of time of a random day
CENT = PRICE_UNITS // 100


def scaled(table: polars.DataFrame, spacing: int = SPACING) -> polars.DataFrame:
    """The same table in longer units of time."""
    stamps = polars.col("ts_event").cast(polars.Int64) * spacing
    return table.with_columns(stamps.cast(table.schema["ts_event"]))


def moved(trades: polars.DataFrame, seed: int, most: int) -> polars.DataFrame:
    """The same trades up to ``most`` nanoseconds earlier or later, in the order of their new times."""
    shifts = np.random.default_rng(seed).integers(-most, most + 1, trades.height)
    stamps = polars.col("ts_event").cast(polars.Int64) + polars.Series(shifts)
    kind = trades.schema["ts_event"]
    return trades.with_columns(polars.max_horizontal(stamps, 0).cast(kind)).sort("ts_event", maintain_order=True)


def naive_trades(table: polars.DataFrame, side: str) -> list[tuple[int, int, int]]:
    letter, sign = ("A", 1) if side == "sell" else ("B", -1)
    rows = table.filter(polars.col("side") == letter).select(polars.col("ts_event").cast(polars.Int64), "price", "size")
    return [(stamp, sign * round(100 * price), size) for stamp, price, size in rows.iter_rows()]


MODELS = [QueueModel(name) for name in QUEUE_MODELS if name != "power"]
MODELS += [QueueModel("power", exponent) for exponent in (0.0, 0.5, 3.0)]


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32), side=st.sampled_from(SIDES), jitter=st.sampled_from([0, 1, 50]))
def test_fills_are_those_of_a_naive_queue(seed: int, side: str, jitter: int) -> None:
    flow = Flow(seed, 80, crossed=seed % 3 == 0)
    snapshots, events = (scaled(table) for table in flow.tables())
    trades = moved(hidden_ids(events), seed, jitter * MILLISECOND)
    depth = naive_depth(flow, side, SPACING)
    parts = naive_match(depth, naive_trades(trades, side), APART)
    books, sign, direction = DayBooks.of_tables({"XBIN": snapshots}), *((-1, 1) if side == "sell" else (1, -1))
    replay = QueueReplay(books, {"XBIN": trades} if trades.height else {})
    if not trades.height:
        return
    found = replay.matched[0, sign]
    pieces = zip(found.rows, found.stamps, found.prices // CENT, found.sizes, strict=True)
    together: dict[tuple[int, ...], int] = {}
    for *key, size in ([int(one) for one in piece] for piece in pieces):
        together[tuple(key)] = together.get(tuple(key), 0) + size
    assert sorted((*key, size) for key, size in together.items()) == parts
    assert direction == -sign
    rng = np.random.default_rng(seed)
    for begin in rng.integers(0, depth[-1].stamp + 1, 4).tolist():
        end = begin + int(rng.integers(1, 60)) * SPACING
        row = max((k for k, book in enumerate(depth) if book.stamp <= begin), default=-1)
        if row < 0 or not depth[row].ours:
            continue
        for model in MODELS:
            reached, left = naive_estimate(depth, parts, row, begin, end, model.name, model.exponent, APART)
            posed = replay.with_model(model)
            for shares in (1, 3, 1000):
                price, fills = posed.fills(0, sign, begin, end, shares)
                assert round(100 * price) * direction == depth[row].ours[0][0]
                assert fills == whole_fills(reached, shares)
            if row == max((k for k, book in enumerate(depth) if book.stamp <= begin + SPACING), default=-1):
                later = posed.fills(0, sign, begin + SPACING, end, 1000)[1]  # on the same snapshot: never more
                assert all(
                    sum(size for time, size in later if time <= until)
                    <= sum(size for time, size in posed.fills(0, sign, begin, end, 1000)[1] if time <= until)
                    for until, _ in later
                )
            outflow = left + sum(volume for _, volume in reached)
            assert posed.drain(0, sign, begin, end)[1:] == (depth[row].ours[0][1], int(outflow + 1e-9))


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32), side=st.sampled_from(SIDES))
def test_the_true_queue_is_between_the_pessimistic_and_the_optimistic_one(seed: int, side: str) -> None:
    """Every event at a time of its own, so that every trade is matched to its own snapshot."""
    flow = Flow(seed, 120, replaces=False)
    snapshots, events = (
        table.with_columns((polars.col("sequence").cast(polars.Int64) * SECOND).cast(EVENT_SCHEMA["ts_event"]))
        for table in flow.tables()
    )
    public, sign = hidden_ids(events), -1 if side == "sell" else 1
    if not public.height:
        return
    books = DayBooks.of_tables({"XBIN": snapshots})
    exact, estimated = QueueReplay(books, {"XBIN": events}), QueueReplay(books, {"XBIN": public})
    late = QueueReplay(books, {"XBIN": moved(public, seed, APART // 2)})
    for begin in (np.random.default_rng(seed).integers(1, snapshots.height, 5) * SECOND).tolist():
        end = begin + 30 * SECOND + SECOND // 2

        def filled(replay: QueueReplay, begin: int = begin, end: int = end) -> list[int]:
            return [sum(size for _, size in replay.fills(0, sign, begin, end, n)[1]) for n in (1, 5, 1000)]

        low, *others, high = (filled(estimated.with_model(QueueModel(name))) for name in QUEUE_MODELS)
        for some in (*others, filled(exact)):
            assert all(a <= b <= c for a, b, c in zip(low, some, high, strict=True))
        # half a tenth of a second between the two feeds makes no difference
        assert filled(late) == filled(estimated)


def test_the_random_days_meet_every_case() -> None:
    """Whole fills, parts, none, and models that differ: no idle match."""
    seen = dict.fromkeys(("none", "part", "whole", "differ"), 0)
    for seed in range(60):
        flow = Flow(seed, 80)
        snapshots, events = (scaled(table) for table in flow.tables())
        replay = QueueReplay(DayBooks.of_tables({"XBIN": snapshots}), {"XBIN": hidden_ids(events)})
        for begin in range(10 * SPACING, flow.stamp * SPACING, 5 * SPACING):
            low, high = (
                sum(size for _, size in replay.with_model(QueueModel(name)).fills(0, 1, begin, begin + SECOND, 5)[1])
                for name in ("pessimistic", "optimistic")
            )
            seen["differ"] += low < high
            seen["none"] += low == 0
            seen["part"] += 0 < low < 5
            seen["whole"] += low == 5
    assert min(seen.values()) >= 5, seen


Levels = list[tuple[float, int]]


def replay_of(
    *rows: tuple[int, Levels, Levels], trades: list[tuple[int, str | None, float, float]], model: str = "proportional"
) -> QueueReplay:
    """Snapshots of bids and asks at milliseconds, and public trades: time, resting side, price, size."""
    books = []
    for number, (stamp, bids, asks) in enumerate(rows):
        levels = [one for k in range(2) for side in (bids, asks) for one in (side[k] if k < len(side) else (None, 0))]
        books.append([stamp * MILLISECOND, number, "XBIN", "ZZ", *levels])
    snapshots = polars.DataFrame(books, schema=snapshot_schema(2), orient="row")
    events = [
        [stamp * MILLISECOND, k, "XBIN", "ZZ", "T", side, price, size, None, 0, 0]
        for k, (stamp, side, price, size) in enumerate(trades)
    ]
    schema = EVENT_SCHEMA | {"size": polars.Float64}
    table = polars.DataFrame(events, schema=schema, orient="row")
    return QueueReplay(DayBooks.of_tables({"XBIN": snapshots}), {"XBIN": table}, model=QueueModel(model))


ASKS = [(10.02, 50)]


def sold(replay: QueueReplay, shares: int = 100, end: int = 900) -> list[tuple[int, int]]:
    """Fills of a limit order to sell that joins at the first snapshot; times in milliseconds."""
    price, fills = replay.fills(0, -1, 0, end * MILLISECOND, shares)
    assert price == 10.02
    return [(time // MILLISECOND, some) for time, some in fills]


@pytest.mark.parametrize(
    ("model", "filled"), [("pessimistic", 20), ("proportional", 26), ("power", 26), ("optimistic", 30)]
)
def test_cancellations_by_hand(model: str, filled: int) -> None:
    """50 ahead, 50 join behind, 20 are cancelled; 60 trade: 60 less 50 - 20 x 0, 1/2 or 1 ahead, at 100 shown."""
    replay = replay_of(
        (0, [(10.0, 9)], [(10.02, 50)]),
        (100, [(10.0, 9)], [(10.02, 100)]),
        (200, [(10.0, 9)], [(10.02, 80)]),
        (400, [(10.0, 9)], [(10.02, 20)]),
        trades=[(400, "A", 10.02, 60)],
        model=model,
    )
    expected = {"pessimistic": 10, "proportional": 20, "power": 20, "optimistic": 30}[model]
    assert filled >= expected
    assert sold(replay) == [(400, expected)]


@pytest.mark.parametrize("stamp", [150, 199, 200, 201, 260])
def test_a_trade_is_no_cancellation_whether_the_book_or_the_trade_comes_first(stamp: int) -> None:
    """40 of 50 trade, 10 stay ahead; then 10 and 5 more trade. Twice counted, the queue would be empty earlier."""
    replay = replay_of(
        (0, [(10.0, 9)], ASKS),
        (200, [(10.0, 9)], [(10.02, 10)]),
        (500, [(10.0, 9)], [(10.02, 10)]),
        trades=[(stamp, "A", 10.02, 40), (500, "A", 10.02, 15)],
        model="optimistic",
    )
    assert sold(replay) == [(500, 5)]
    assert replay.drain(0, -1, 0, 900 * MILLISECOND) == (10.02, 50, 55)


def test_one_trade_may_explain_several_snapshots() -> None:
    replay = replay_of(
        (0, [(10.0, 9)], ASKS),
        (200, [(10.0, 9)], [(10.02, 30)]),
        (200, [(10.0, 9)], [(10.02, 5)]),
        (210, [(10.0, 9)], [(10.03, 5)]),
        trades=[(200, "A", 10.02, 55)],
        model="pessimistic",
    )
    assert replay.matched[0, -1].rows.tolist() == [1, 1, 2, 3]
    assert sorted(replay.matched[0, -1].sizes.tolist()) == [5, 5, 20, 25]
    assert sold(replay) == [(200, 5)]
    assert replay.trades(0, 1, 0, SECOND) == [(55, 50)]
    assert replay.trades(0, -1, 0, SECOND) == []


def test_trades_through_our_price_and_orders_that_cross_it_fill_us() -> None:
    """A trade at a worse price of 3, then bids at our price: 4 come, 1 leaves, 2 come."""
    replay = replay_of(
        (0, [(10.0, 9)], ASKS),
        (300, [(10.02, 4), (10.0, 9)], [(10.05, 5)]),
        (400, [(10.02, 3), (10.0, 9)], [(10.05, 5)]),
        (500, [(10.03, 2), (10.02, 3)], [(10.05, 5)]),
        trades=[(250, "A", 10.03, 3)],
    )
    assert sold(replay) == [(250, 3), (300, 4), (500, 2)]
    assert replay.drain(0, -1, 0, 900 * MILLISECOND) == (10.02, 50, 59)
    assert sold(replay, 5) == [(250, 3), (300, 2)]
    assert sold(replay, end=300) == [(250, 3)]


def test_a_book_that_shows_nothing_changes_nothing() -> None:
    """Recordings write empty books where updates are missing, and levels beyond the last are unknown."""
    replay = replay_of(
        (0, [(10.0, 9)], ASKS),
        (300, [], []),
        (400, [(10.0, 9)], [(10.0, 5), (10.01, 5)]),
        (500, [(9.9, 9)], ASKS),
        trades=[(600, "A", 10.02, 60)],
        model="optimistic",
    )
    assert sold(replay) == [(600, 10)]


def test_a_trade_without_a_side_belongs_to_the_nearer_one() -> None:
    book = ([(10.0, 9)], ASKS)
    replay = replay_of((0, *book), (800, *book), trades=[(300, None, 10.02, 70), (400, None, 10.0, 5)])
    assert [replay.trades(0, sign, 0, SECOND) for sign in (1, -1)] == [[(70, 50)], [(5, 9)]]
    assert sold(replay) == [(300, 20)]
    assert replay.volume(0, SECOND) == 75
    assert replay.outflow(0, -1, SECOND, 1) == 70.0
    assert replay.outflow(0, 1, SECOND, 1) == 5.0
    assert replay.hidden_volume(0, 10.02, 0, SECOND) == 0


def test_an_exact_replay_has_no_limit_orders_where_positions_are_estimates(tmp_path: Path) -> None:
    book = ([(10.0, 9)], ASKS)
    replay = replay_of((0, *book), (800, *book), trades=[(300, "A", 10.02, 70)])
    assert replay.estimated == ("XBIN",)
    without = replay.with_model(None)
    assert without.fills(0, -1, 0, SECOND, 9)[1] == []
    assert np.isnan(without.drain(0, -1, 0, SECOND)[0])
    assert without.pessimistic().model is None
    assert replay.pessimistic().model == QueueModel("pessimistic")
    folder = PreparedDayBooks(replay.books, replay).write(tmp_path / "day")
    again = PreparedDayBooks.read(folder).queue
    assert again is not None
    assert again.estimated == ("XBIN",)
    assert sold(again) == sold(replay) == [(300, 20)]
    assert sold(again.on_books(again.books.aged(60.0))) == [(300, 20)]


def test_public_trades_beside_executions_by_order_id_change_nothing() -> None:
    """They may be the same trades once more."""
    flow = Flow(5, 100)
    snapshots, events = flow.tables()
    both = polars.concat([events, hidden_ids(events)]).sort("sequence")
    one, other = (QueueReplay(DayBooks.of_tables({"XNAS": snapshots}), {"XNAS": table}) for table in (both, events))
    assert one.estimated == ()
    assert one.trades(0, 1, 0, flow.stamp + 1) == other.trades(0, 1, 0, flow.stamp + 1)
    assert one.fills(0, 1, flow.stamp // 2, flow.stamp, 9) == other.fills(0, 1, flow.stamp // 2, flow.stamp, 9)
    assert one.hidden[0].shape == (4, 0)


def test_executions_that_name_no_order_leave_the_position_an_estimate() -> None:
    """Orders have ids, but trades do not: without executions, an exact queue would never move."""
    flow = Flow(5, 100)
    snapshots, events = flow.tables()
    both = polars.concat([events.filter(polars.col("action") != "F"), hidden_ids(events)]).sort("sequence")
    books = DayBooks.of_tables({"XBIN": snapshots})
    mixed, plain = (QueueReplay(books, {"XBIN": table}) for table in (both, hidden_ids(events)))
    assert mixed.estimated == ("XBIN",)
    assert [one.tolist() for one in mixed.matched[0, 1]] == [one.tolist() for one in plain.matched[0, 1]]


def test_what_is_refused() -> None:
    with pytest.raises(InputError, match=r"name of a queue model must be one of pessimistic, .*, was 'random'"):
        QueueModel("random")
    with pytest.raises(InputError, match=r"exponent must be .*, was -1"):
        QueueModel("power", -1.0)
    flow = Flow(5, 40)
    snapshots, events = flow.tables()
    public, books = hidden_ids(events), DayBooks.of_tables({"XBIN": snapshots})
    with pytest.raises(DataError, match=r"matching of XBIN must be price-time, since .* no order ids, was pro-rata"):
        QueueReplay(books, {"XBIN": public}, {"XBIN": "pro-rata"})
    with pytest.raises(DataError, match="events must have order ids for limit orders in buckets"):
        limit_profits(snapshots, public, SampleTimes(np.array([0, 99]), np.array([9])), [1])
    parts = public.with_columns(polars.col("size") + 0.5)
    with pytest.raises(
        DataError, match=r"sizes of events must be whole numbers of units, was \d+\.5; use `recording_in_units`"
    ):
        QueueReplay(books, {"XBIN": parts})


@pytest.mark.real_data
def test_a_real_day_without_order_ids_has_nearly_the_fills_of_its_true_queues(tmp_path: Path) -> None:
    """600 orders of 100 shares at AMZN, 10 and 60 seconds each: within 2 % of the true fill rate, and bounded."""
    archive = SHARED_DATA / "lobster" / "LOBSTER_SampleFile_AMZN_2012-06-21_5.zip"
    if not archive.is_file():
        pytest.skip(f"real data are not here: {archive}")
    import_files([archive], tmp_path, ReadingOptions(start=dt.time(11), end=dt.time(13)))
    store = RecordingStore(tmp_path)
    (one,) = store.recordings()
    books, events = DayBooks.of_tables({one.venue: store.snapshots(one)}), store.events(one)
    exact = QueueReplay(books, {one.venue: events})
    public = QueueReplay(books, {one.venue: hidden_ids(events.filter(polars.col("order_id") > 0))})
    starts = np.linspace(books.first + 60 * SECOND, books.last - 61 * SECOND, 300).astype(np.int64).tolist()

    def fill_rate(replay: QueueReplay, seconds: int) -> float:
        fills = (replay.fills(0, sign, begin, begin + seconds * SECOND, 100)[1] for begin in starts for sign in (1, -1))
        return sum(size for some in fills for _, size in some) / (200 * len(starts))

    for seconds in (10, 60):
        true = fill_rate(exact, seconds)
        low, *others, high = (fill_rate(public.with_model(QueueModel(name)), seconds) for name in QUEUE_MODELS)
        assert low <= true <= high
        assert all(abs(rate - true) < 0.02 for rate in (low, *others, high))
        assert true > 0.1


def test_trades_are_matched_within_a_tenth_of_a_second() -> None:
    """The next snapshot reflects a trade however late it is; others only if they are near."""
    table = replay_of((0, [(10.0, 9)], ASKS), (5000, [(10.0, 9)], [(10.02, 40)]), trades=[(10, "A", 10.02, 10)])
    assert table.matched[0, -1].rows.tolist() == [1]
    side = queue_model_side(table.books, 0, 1)
    stamps, prices, sizes = (np.array([value]) for value in (5200 * MILLISECOND, 1002 * CENT, 10))
    for apart, row in ((150 * MILLISECOND, 2), (250 * MILLISECOND, 1)):
        assert match_queue_model_trades(side, stamps, prices, sizes, apart=apart).rows.tolist() == [row]
