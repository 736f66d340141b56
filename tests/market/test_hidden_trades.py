"""Trades with orders that were never displayed: kept by readers, seen by routers, met by what is sent beyond books."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest

import riskroute as rr
from market_files import (
    ITCH_NAME,
    LOBSTER_NAME,
    MIDNIGHT,
    OPEN,
    Message,
    check_recordings,
    itch_bytes,
    itch_directory,
    itch_order,
    lobster_texts,
    naive_books,
)
from riskroute.market.clock import SECOND
from riskroute.market.day_books import DayBooks, PreparedDayBooks
from riskroute.market.importing import import_files
from riskroute.market.queue_fills import QueueReplay
from riskroute.market.readers.reading import ReadingOptions
from riskroute.market.recordings import Recording, RecordingStore
from riskroute.routers.plan import Plan
from riskroute.routers.public_data import PublicData
from riskroute.routers.rules import HiddenRule
from riskroute.simulation.clairvoyant import Clairvoyant
from riskroute.simulation.exchange import Exchange, ExchangeLatency
from riskroute.simulation.execute_plan import execute_plan

ASK, MID = 1_000_200, 1_000_100
MESSAGES = [
    Message("A", OPEN, 1, "B", 300, 1_000_000),
    Message("A", OPEN + 1, 2, "S", 100, ASK),
    Message("A", OPEN + 2, 3, "S", 900, ASK + 200),
    Message("P", OPEN + SECOND, 0, "B", 70, MID),
    Message("E", OPEN + 2 * SECOND, 2, "S", 100, ASK),
    Message("P", OPEN + 2 * SECOND, 0, "B", 250, ASK),
    Message("A", OPEN + 3 * SECOND, 4, "S", 100, ASK),
    Message("P", OPEN + 5 * SECOND, 0, "B", 40, ASK),
    Message("P", OPEN + 5 * SECOND + 1, 0, "B", 60, ASK),
    Message("D", OPEN + 9 * SECOND, 4, "S", 100, ASK),
]
"""At the ask 100 shares are displayed and 350 trade at once; in the sixth second 100 hidden ones trade there."""


def itch_import(folder: Path, messages: list[Message] = MESSAGES) -> tuple[Recording, RecordingStore]:
    path = folder / ITCH_NAME
    path.write_bytes(itch_bytes(messages))
    (one,) = import_files([path], folder / "itch", ReadingOptions(("ACME",), 3))
    return one, RecordingStore(folder / "itch")


def lobster_import(folder: Path) -> tuple[Recording, RecordingStore]:
    paths = [folder / LOBSTER_NAME.format(kind, 3) for kind in ("message", "orderbook")]
    for path, text in zip(paths, lobster_texts(MESSAGES, 3), strict=True):
        path.write_text(text)
    (one,) = import_files([paths[0]], folder / "lobster", ReadingOptions())
    return one, RecordingStore(folder / "lobster")


READERS = {"itch": itch_import, "lobster": lobster_import}


@pytest.fixture(params=READERS)
def imported(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Recording, RecordingStore]:
    return READERS[request.param](tmp_path)


def replay_of(one: Recording, store: RecordingStore) -> QueueReplay:
    return QueueReplay(DayBooks.of_tables({one.venue: store.snapshots(one)}), {one.venue: store.events(one)})


def test_readers_keep_them_as_executions_of_no_order(imported: tuple[Recording, RecordingStore]) -> None:
    one, store = imported
    events = store.events(one)
    hidden = events.filter(polars.col("order_id") == 0)
    assert hidden.select("action", "price", "size", "remaining").rows() == [
        ("F", message.price / 10_000, message.shares, None) for message in MESSAGES if message.kind == "P"
    ]
    assert hidden["ts_event"].cast(polars.Int64).to_list() == [
        MIDNIGHT + message.time for message in MESSAGES if message.kind == "P"
    ]
    assert events.height == len(MESSAGES)
    assert events["sequence"].is_sorted()
    check_recordings(store.folder)


def test_they_change_no_book_and_no_count_of_references(tmp_path: Path) -> None:
    one, store = itch_import(tmp_path)
    last = store.snapshots(one).row(-1, named=True)
    expected = naive_books(MESSAGES, 3)[-1]
    assert [(last["ask_px_00"], last["ask_sz_00"])] == expected["ask"][:1]
    assert (one.references, one.unresolved) == (2, 0), "the execution and the deletion"


def test_they_are_nobodys_place_in_a_queue(imported: tuple[Recording, RecordingStore]) -> None:
    """An order to sell behind the 100 shares at the ask: what is hidden does not bring it forward."""
    one, store = imported
    events = store.events(one)
    books = DayBooks.of_tables({one.venue: store.snapshots(one)})
    whole = QueueReplay(books, {one.venue: events})
    bare = QueueReplay(books, {one.venue: events.filter(polars.col("order_id") > 0)})
    for sign in (1, -1):
        asked = (0, sign, MIDNIGHT + OPEN + 10, MIDNIGHT + OPEN + 8 * SECOND)
        assert whole.fills(*asked, 500) == bare.fills(*asked, 500)
        assert whole.drain(*asked) == bare.drain(*asked)


def test_routers_see_them_with_what_was_displayed(imported: tuple[Recording, RecordingStore]) -> None:
    """350 shares traded where 100 were displayed; at the mid nobody knows whose 70 shares they were."""
    replay = replay_of(*imported)
    exchange = Exchange(replay.books, np.zeros((1, 2)), np.zeros((1, 2)), queue=replay)
    told = exchange.public_trades(0, MIDNIGHT + OPEN + 4 * SECOND)
    assert told == {"XNAS": {"ask": [(70, 0), (350, 100)], "bid": [(70, 0)]}}
    router = HiddenRule(delta=0.5)
    context = rr.routers.Context("o", "buy", 100, exchange.venue_books(MIDNIGHT + OPEN + 4 * SECOND))
    router.on_public_data(PublicData(context, {}, trades=told))
    assert router.reserves == {"XNAS": {"ask": 0.5 * 70 + 250, "bid": 70}}


def test_days_keep_them_whatever_is_made_of_them(imported: tuple[Recording, RecordingStore], tmp_path: Path) -> None:
    """A day made ready, read again, with aged books and without cancellations."""
    replay = replay_of(*imported)
    folder = PreparedDayBooks(replay.books, replay).write(tmp_path / "day")
    again = PreparedDayBooks.read(folder).queue
    assert again is not None
    window = MIDNIGHT + OPEN + 5 * SECOND, MIDNIGHT + OPEN + 6 * SECOND
    for one in (replay, again, again.pessimistic(), again.on_books(again.books.aged(60.0))):
        assert one.hidden_volume(0, 100.02, *window) == 100
        assert one.hidden_volume(0, 100.02, window[0] + 1, window[1]) == 60
        assert one.hidden_volume(0, 100.01, *window) == 0
        assert one.most_hidden(0, 100.02, *window, SECOND) == 100
        assert one.most_hidden(0, 100.02, window[0] + 1, window[1], SECOND) == 60
        assert one.most_hidden(0, 100.02, window[0] + 10**15, window[1] + 10**15, SECOND) == 0
        assert one.trades(0, 1, *window) == replay.trades(0, 1, *window) == [(40, 100), (60, 100)]
    assert QueueReplay(replay.books, {}).hidden_volume(0, 100.02, *window) == 0
    assert QueueReplay(replay.books, {}).most_hidden(0, 100.02, *window, SECOND) == 0


def executed(replay: QueueReplay, second: float, plan: dict[str, Any], shares: int = 400) -> list[tuple[str, int, int]]:
    """Children of an order to buy that arrives at a second: kind, shares sent and filled."""
    exchange = Exchange(
        replay.books, np.zeros((1, 2)), np.zeros((1, 2)), queue=replay, latency=ExchangeLatency(0.001, 0.001)
    )
    time = MIDNIGHT + OPEN + int(second * SECOND)
    context = rr.routers.Context("o", "buy", shares, exchange.venue_books(time), time=time)
    done = execute_plan(exchange, 0, context, Plan("o", **plan).checked(context))
    assert done.filled == shares
    return [(child.kind, child.sent, child.filled) for child in done.children]


def test_what_is_sent_beyond_the_display_meets_what_traded_within_a_second(
    imported: tuple[Recording, RecordingStore],
) -> None:
    replay = replay_of(*imported)
    at_ask = {"take": {"XNAS": 400}, "take_limits": {"XNAS": 100.02}}
    assert executed(replay, 4.5, at_ask) == [("take", 400, 200), ("sweep", 200, 200)], "100 displayed, 100 hidden"
    assert executed(replay, 3.5, at_ask) == [("take", 400, 100), ("sweep", 300, 300)], "nothing for a second and a half"
    assert executed(replay, 5.5, at_ask) == [("take", 400, 100), ("sweep", 300, 300)], "what has traded is gone"


def two_venues(folder: Path) -> Exchange:
    """The recorded venue, and one that offers 900 shares a cent higher than its ask."""
    one, store = itch_import(folder)
    other = [Message("A", OPEN, 1, "B", 300, 1_000_000), Message("A", OPEN + 1, 2, "S", 900, ASK + 100)]
    path = folder / "20190327.BX_ITCH_50"
    path.write_bytes(itch_bytes(other))
    (second,) = import_files([path], store.folder, ReadingOptions(("ACME",), 3))
    recordings = (one, second)
    books = DayBooks.of_tables({each.venue: store.snapshots(each) for each in recordings})
    replay = QueueReplay(books, {each.venue: store.events(each) for each in recordings})
    return Exchange(books, np.zeros((2, 2)), np.zeros((2, 2)), queue=replay)


def test_a_router_that_has_seen_them_pays_less_than_the_sweep(tmp_path: Path) -> None:
    """It sends 200 shares where 100 are displayed, and gets them; the sweep takes 100 of them a cent higher."""
    exchange = two_venues(tmp_path)
    time = MIDNIGHT + OPEN + int(4.5 * SECOND)
    context = rr.routers.Context("o", "buy", 200, exchange.venue_books(time), time=time)
    router, sweep = HiddenRule(), rr.routers.SweepRule()
    router.on_public_data(PublicData(context, {}, trades=exchange.public_trades(0, time)))
    plans = router.route(context), sweep.route(context)
    assert [plan.take for plan in plans] == [{"XNAS": 200}, {"XBOS": 100, "XNAS": 100}]
    costs = [execute_plan(exchange, 0, context, plan.checked(context)).cost for plan in plans]
    assert costs == pytest.approx([200 * 0.01, 100 * 0.01 + 100 * 0.02])
    assert Clairvoyant().execute(exchange, 0, context).cost == pytest.approx(costs[0]), "it knows them too"


def test_shares_that_were_met_are_not_met_again(tmp_path: Path) -> None:
    """What comes back is swept a millisecond later, when the same hidden shares are still to trade."""
    exchange = two_venues(tmp_path)
    time = MIDNIGHT + OPEN + int(4.5 * SECOND)
    context = rr.routers.Context("o", "buy", 1300, exchange.venue_books(time), time=time)
    plan = Plan("o", take={"XNAS": 300}, take_limits={"XNAS": 100.02})
    done = execute_plan(exchange, 0, context, plan.checked(context))
    at_ask = sum(fill.shares for fill in done.fills if fill.place == "XNAS" and fill.price == 100.02)
    assert at_ask == 200, "100 displayed and 100 hidden, whatever is sent"


def test_trades_of_other_symbols_are_left_out(tmp_path: Path) -> None:
    """A file of two symbols, and one whose directory has neither."""
    other = Message("P", OPEN + 4 * SECOND, 0, "B", 999, ASK)
    content = itch_directory("ACME") + itch_directory("ZZ", 2)
    content += b"".join(itch_order(one) for one in MESSAGES[:4]) + itch_order(other, "ZZ", 2)
    for name, some in (("whole", content), ("bare", content[len(itch_directory("ACME")) * 2 :])):
        path = tmp_path / f"20190327.{name}.NASDAQ_ITCH_50"
        path.write_bytes(some)
        (one,) = import_files([path], tmp_path / name, ReadingOptions(("ACME",)))
        hidden = RecordingStore(tmp_path / name).events(one).filter(polars.col("order_id") == 0)
        assert hidden["size"].to_list() == [70]


def test_trades_out_of_order_are_refused(tmp_path: Path) -> None:
    late = MESSAGES[3]._replace(time=OPEN)
    path = tmp_path / ITCH_NAME
    path.write_bytes(itch_bytes([*MESSAGES[:3], late]))
    with pytest.raises(rr.DataError, match="must have a time not before that of the previous message"):
        import_files([path], tmp_path / "out", ReadingOptions(("ACME",)))
