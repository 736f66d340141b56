"""The synthetic market: valid files, the characters of the venues, and the same bytes from the same seed."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import itch_book
import numpy as np
import polars
import pytest

from naive_books import NaiveItchBook, read_messages
from riskroute.core.errors import InputError
from riskroute.market.clock import SECOND, TimeWindow
from riskroute.market.order_profits import market_profits
from riskroute.market.sampling import draw_sample_times, sample_closest_books
from riskroute.market.schema import TIME
from riskroute.market.synthetic.generate import DEFAULT_SYMBOLS, generate_market
from riskroute.market.synthetic.order_flow import _fundamental_price, _target_quotes
from riskroute.market.synthetic.venues import DEFAULT_VENUES, SyntheticOwnQuotes, SyntheticVenue

DAY = dt.date(2019, 3, 27)
SEEDS = (0, 1)
FAULTS = ("missing_ref", "dup_ref", "rejected", "clamped", "crossed_books", "malformed", "unknown")


def minutes(first: int, last: int) -> tuple[dt.time, dt.time]:
    start = dt.datetime(2019, 3, 27, 10)
    return (start + dt.timedelta(minutes=first)).time(), (start + dt.timedelta(minutes=last)).time()


def depth_table(path: Path, locate: int = 1) -> tuple[polars.DataFrame, dict[str, int]]:
    feed = itch_book.open(str(path))
    parts = [polars.DataFrame(batch.depth) for batch in feed.batches(tables=("depth", "messages", "symbols"), depth=5)]
    table = polars.concat(parts).filter(polars.col("locate") == locate)
    assert feed.stats is not None
    return table.with_columns(polars.col("ts_event").cast(TIME)), feed.stats


@pytest.fixture(scope="module")
def short_market(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Ten minutes of all symbols."""
    return generate_market(tmp_path_factory.mktemp("short"), seed=4, hours=minutes(30, 40))


@pytest.fixture(scope="module")
def markets(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[Path]]:
    """The paper's two hours of the first symbol, for several seeds."""
    hours = (dt.time(10, 59), dt.time(13))
    return {
        seed: generate_market(
            tmp_path_factory.mktemp(f"seed{seed}"), seed=seed, symbols=DEFAULT_SYMBOLS[:1], hours=hours
        )
        for seed in SEEDS
    }


def test_files_have_the_names_that_nasdaq_gives(short_market: list[Path]) -> None:
    assert [path.name for path in short_market] == [
        "03272019.NASDAQ_ITCH50",
        "20190327.PSX_ITCH_50",
        "20190327.BX_ITCH_50",
    ]
    assert sorted(short_market[0].parent.iterdir()) == sorted(short_market)


@pytest.mark.parametrize("index", range(3))
def test_a_naive_book_finds_no_fault_after_any_message(short_market: list[Path], index: int) -> None:
    book = NaiveItchBook()
    for message in read_messages(short_market[index]):
        book.apply(message)
    begin, end = (int(hour * 3600 * SECOND) for hour in (10.5, 10 + 40 / 60))
    assert book.symbols == dict(enumerate(DEFAULT_SYMBOLS, 1))
    assert book.events == [("O", begin), ("S", begin), ("M", end), ("E", end), ("C", end)]
    assert book.kinds["H"] == book.kinds["R"] == 3


@pytest.mark.parametrize("index", range(3))
def test_itch_book_finds_no_fault(short_market: list[Path], index: int) -> None:
    table, stats = depth_table(short_market[index])
    assert {fault: stats[fault] for fault in FAULTS} == dict.fromkeys(FAULTS, 0)
    assert stats["messages"] == sum(1 for _ in read_messages(short_market[index]))
    assert table.height > 1000


@pytest.mark.parametrize("index", range(3))
def test_the_mix_of_messages(short_market: list[Path], index: int) -> None:
    """Around 46 % adds and 45 % deletes; two points either way hold the venues' differences and ten minutes' noise."""
    kinds = Counter(chr(message[0]) for message in read_messages(short_market[index]))
    share = {kind: 100 * kinds[kind] / sum(kinds[kind] for kind in "AFDUECX") for kind in "AFDUECXP"}
    assert 44 < share["A"] + share["F"] < 48
    assert 43 < share["D"] < 47
    assert 2.5 < share["U"] < 6.5
    assert 1.0 < share["E"] < 5
    for rare in "FCXP":
        assert 0.02 < share[rare] < 2.5


def test_books_fill_in_a_second_and_stay_deep(markets: dict[int, list[Path]]) -> None:
    """Five levels on both sides and enough shares for the venue's quantities, in 99.9 of 100 snapshots."""
    for path, needed in zip(markets[0], (200, 50, 100), strict=True):
        table, _ = depth_table(path)
        begin = table["ts_event"][0]
        later = table.filter(polars.col("ts_event") > begin + dt.timedelta(seconds=1))
        for side in ("bid", "ask"):
            total = later.select(polars.sum_horizontal(f"{side}_sz_{k:02d}" for k in range(5)).alias("total"))["total"]
            shares: list[Any] = [(total >= needed).mean(), (later[f"{side}_sz_04"] > 0).mean()]
            assert min(shares) > 0.999


def fit(values: np.ndarray, powers: np.ndarray) -> float:
    """R squared of a line."""
    return float(np.corrcoef(values, powers)[0, 1] ** 2)


@pytest.mark.parametrize("seed", SEEDS)
def test_moments_of_the_paper(markets: dict[int, list[Path]], seed: int) -> None:
    """Mean and variance of selling 1 to 10 shares, over 60 buckets.

    Spreads remember two minutes, so 60 buckets are worth some 28 independent ones for the mean and some 46 for the
    variance: standard errors of 1/5 of the deviation, and of 1/5 to 1/3 of the variance, as spreads are skewed. Margins
    are three of them and more. On the last venue the size of a tick counts: its variance is that of a spread that is a
    tick more or less at times.
    """
    sample_times = draw_sample_times(DAY, TimeWindow(), seed)
    quantities = np.arange(1, 11)
    aims = ((-0.07, 0.02, 0.00055, 2.0), (-1.144, 0.16, 0.04, 2.0), (-1.471, 0.002, 5e-6, 3.0))
    for path, (slope, margin, curve, factor) in zip(markets[seed], aims, strict=True):
        profits = market_profits(sample_closest_books(depth_table(path)[0], sample_times), quantities)
        assert not np.isnan(profits).any()
        mean, variance = profits.mean(axis=0), profits.var(axis=0, ddof=1)
        powers = np.column_stack([quantities, quantities**2])
        assert np.linalg.lstsq(powers, mean)[0][0] == pytest.approx(slope, abs=margin)
        assert curve / factor < variance[-1] / 100 < curve * factor
        assert fit(mean, quantities) > 0.97
        assert fit(variance, quantities**2) > 0.97


def test_venues_agree_on_the_middle(markets: dict[int, list[Path]]) -> None:
    """Quotes follow the price with a patience of four cents, and noise of half a cent."""
    sample_times = draw_sample_times(DAY, TimeWindow(), 1)
    middles = [sample_closest_books(depth_table(path)[0], sample_times).mid for path in markets[1]]
    assert np.ptp(middles, axis=0).max() < 0.12
    assert np.ptp(middles[0]) > 0.3


def test_a_limit_order_has_a_real_chance(markets: dict[int, list[Path]]) -> None:
    """Orders that join the best ask of the deep venue at a bucket's time are filled before its end, or are not.

    One is filled when an order behind it, or at a worse price, trades. Sixty buckets tell a share of 0.7 to 0.06.
    """
    sample_times = draw_sample_times(DAY, TimeWindow(), 0)
    midnight = sample_times.edges[0] - 11 * 3600 * SECOND
    waiting = list(
        zip((sample_times.times - midnight).tolist(), (sample_times.edges[1:] - midnight).tolist(), strict=True)
    )
    book, filled = NaiveItchBook(), 0
    price, ahead, end = 0, set[int](), 0
    for message in read_messages(markets[0][0]):
        if waiting and book.time >= waiting[0][0]:
            end = waiting.pop(0)[1]
            price = book.levels(1, 1)[1][0][0]
            ahead = {reference for reference, _ in book.queue(1, "S", price)}
        if end and message[:1] in b"EC":
            reference = int.from_bytes(message[11:19], "big")
            order = book.orders[reference]
            passed = order.price > price or (order.price == price and reference not in ahead)
            if order.side == "S" and passed and book.time < end:
                filled, end = filled + 1, 0
        book.apply(message)
    assert not waiting
    assert 0.3 < filled / 60 < 0.9


def test_prices_of_stocks_move_together() -> None:
    """Six tenths of the variance are common; 10,000 steps tell the correlation to 0.01."""
    moves = [np.diff(np.log(_fundamental_price(3, symbol, 10_000))) for symbol in DEFAULT_SYMBOLS]
    assert np.corrcoef(moves)[np.triu_indices(3, 1)] == pytest.approx([0.6] * 3, abs=0.04)


def test_quoted_middles_of_stocks_move_together() -> None:
    """The same of the quotes, over half minutes of five hours: 600 moves tell it to 0.03, their steps take a little."""
    steps = 5 * 3600 * 4
    middles = [_target_quotes(3, DEFAULT_VENUES[0], symbol, steps).mean(axis=1)[::120] for symbol in DEFAULT_SYMBOLS]
    assert (np.corrcoef(np.diff(np.log(middles)))[np.triu_indices(3, 1)] > 0.45).all()


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    kept = [
        [path.read_bytes() for path in generate_market(tmp_path, seed=seed, hours=minutes(30, 31))]
        for seed in (5, 5, 6)
    ]
    assert kept[0] == kept[1]
    assert all(one != other for one, other in zip(kept[0], kept[2], strict=True))


def flow_of(path: Path, symbol: str) -> list[bytes]:
    """Messages of a stock without what depends on numbers given through the file: locates, references, names."""
    book, found = NaiveItchBook(), []
    for message in read_messages(path):
        book.apply(message)
        if book.symbols.get(int.from_bytes(message[1:3], "big")) == symbol and message[:1] in b"AFECXDUP":
            numbered = 16 if message[:1] == b"U" else 8
            rest = message[11 + numbered :]
            cut = {"E": rest[:4], "C": rest[:4] + rest[12:], "P": rest[:-8], "F": rest[:-4]}.get(chr(message[0]), rest)
            found.append(message[:1] + message[5:11] + cut)
    return found


def test_a_stock_has_the_same_flow_in_any_company(tmp_path: Path) -> None:
    whole = generate_market(tmp_path / "whole", seed=2, hours=minutes(30, 32))
    alone = generate_market(
        tmp_path / "alone", seed=2, hours=minutes(30, 32), symbols=["ZORN"], venues=DEFAULT_VENUES[1:2]
    )
    turned = generate_market(tmp_path / "turned", seed=2, hours=minutes(30, 32), symbols=DEFAULT_SYMBOLS[::-1])
    expected = flow_of(whole[1], "ZORN")
    assert len(expected) > 500
    assert flow_of(alone[0], "ZORN") == expected
    assert flow_of(turned[1], "ZORN") == expected


def test_a_longer_day_begins_in_the_same_way(tmp_path: Path) -> None:
    short, long = (generate_market(tmp_path / str(end), hours=minutes(30, end)) for end in (31, 33))
    for one, other in zip(short, long, strict=True):
        whole = flow_of(one, "QVEX")
        assert whole == flow_of(other, "QVEX")[: len(whole)]


def test_the_bell_rings_when_the_hours_have_it(tmp_path: Path) -> None:
    for hours, events in (
        ((dt.time(9, 29, 59), dt.time(9, 30, 1)), [("O", -1), ("S", -1), ("Q", 0), ("M", 1), ("E", 1), ("C", 1)]),
        ((dt.time(15, 59, 59), dt.time(16, 0, 1)), [("O", -1), ("S", -1), ("M", 0), ("E", 1), ("C", 1)]),
        ((dt.time(16, 30, 0), dt.time(16, 30, 1)), [("O", -1), ("S", -1), ("M", -1), ("E", 1), ("C", 1)]),
    ):
        book = NaiveItchBook()
        for message in read_messages(generate_market(tmp_path, hours=hours)[0]):
            book.apply(message)
        assert [event for event, _ in book.events] == [event for event, _ in events]
        seconds = [moment.hour * 3600 + moment.minute * 60 + moment.second for moment in hours]
        bell = {-1: seconds[0], 0: seconds[0] + 1, 1: seconds[1]}
        assert [time for _, time in book.events] == [bell[when] * SECOND for _, when in events]


def test_pro_rata_trades_are_shared_among_the_queue(short_market: list[Path]) -> None:
    """Messages of one aggressor have one time; what each resting order got is recomputed from the queue before."""
    book, several = NaiveItchBook(), 0
    before: list[tuple[int, int]] = []
    got: dict[int, int] = {}
    last: tuple[Any, ...] = ()
    for message in read_messages(short_market[1]):
        executed = message[:1] in (b"E", b"C")
        key = (message[1:3], message[5:11]) if executed else ()
        if key != last and got:
            assert got == expected_fills(before, sum(got.values()))
            several += len(got) > 1
            got = {}
        if executed:
            reference, shares = (int.from_bytes(message[a:b], "big") for a, b in ((11, 19), (19, 23)))
            if not got:
                order = book.orders[reference]
                before = book.queue(order.locate, order.side, order.price)
            got[reference] = shares
        last = key
        book.apply(message)
    assert several > 50


def expected_fills(queue: list[tuple[int, int]], amount: int) -> dict[int, int]:
    total = sum(size for _, size in queue)
    shares = {reference: amount * size // total for reference, size in queue}
    rest = amount - sum(shares.values())
    for reference, size in queue:
        more = min(rest, size - shares[reference])
        shares[reference] += more
        rest -= more
    return {reference: given for reference, given in shares.items() if given}


def test_price_time_trades_take_the_oldest_order(short_market: list[Path]) -> None:
    book, trades = NaiveItchBook(), 0
    for message in read_messages(short_market[0]):
        if message[:1] in (b"E", b"C"):
            reference = int.from_bytes(message[11:19], "big")
            order = book.orders[reference]
            assert book.queue(order.locate, order.side, order.price)[0][0] == reference
            trades += 1
        book.apply(message)
    assert trades > 200


@pytest.mark.parametrize("rate", [0.01, 20.0])
def test_any_rate_gives_valid_files(tmp_path: Path, rate: float) -> None:
    for path in generate_market(tmp_path, rate=rate, hours=(dt.time(10), dt.time(10, 0, 30)), symbols=["A", "BRK.B"]):
        book = NaiveItchBook()
        for message in read_messages(path):
            book.apply(message)
        assert book.symbols == {1: "A", 2: "BRK.B"}


def test_rate_scales_the_messages(tmp_path: Path) -> None:
    """Tenfold events make more than sixfold messages: those of moving quotes do not grow."""
    sizes = [generate_market(tmp_path, rate=rate, hours=minutes(30, 32))[0].stat().st_size for rate in (1.0, 10.0)]
    assert 6 < sizes[1] / sizes[0] < 10.5


def test_progress_counts_venues_and_symbols(tmp_path: Path) -> None:
    calls: list[tuple[str, int, int]] = []
    generate_market(tmp_path, symbols=["A", "B"], hours=minutes(30, 31), progress=lambda *call: calls.append(call))
    names = [f"{venue} {symbol}" for venue in ("XNAS", "XPSX", "XBOS") for symbol in "AB"]
    assert calls == [(name, done, 6) for done, name in enumerate(names, 1)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seed": -1}, "seed must be a non-negative integer, was -1"),
        ({"symbols": []}, "symbols must be 1 to 1,000 distinct names"),
        ({"symbols": ["A", "A"]}, "symbols must be 1 to 1,000 distinct names"),
        ({"symbols": ["lower"]}, "symbols must have 1 to 8 capital letters, digits or dots each, was 'lower'"),
        ({"symbols": ["NINELONGS"]}, "was 'NINELONGS'"),
        ({"symbols": [3]}, "symbols must have .* was 3"),
        ({"symbols": 3}, "symbols must have .* was 3"),
        ({"hours": (dt.time(11), dt.time(11))}, "hours must be two ascending times without a zone"),
        ({"hours": ("10:30", "11:00")}, "hours must be two ascending times without a zone"),
        ({"hours": None}, "hours must be two ascending times without a zone, was None"),
        ({"hours": (dt.time(10, tzinfo=dt.UTC), dt.time(11))}, "hours must be two ascending times without a zone"),
        ({"date": "2019-03-27"}, "date must be from 1971 to 2199, was '2019-03-27'"),
        ({"rate": 0}, "rate must be a number of at least 0.001 and of at most 100, was 0"),
        ({"rate": float("nan")}, "rate must be a number"),
        ({"venues": []}, "venues must be one or more SyntheticVenue"),
        ({"venues": None}, "venues must be one or more SyntheticVenue, was None"),
        ({"venues": ["XNAS"]}, "venues must be one or more SyntheticVenue"),
        ({"venues": DEFAULT_VENUES[:1] * 2}, "name must be distinct across venues"),
        ({"venues": [DEFAULT_VENUES[0], replace(DEFAULT_VENUES[0], name="X")]}, "file_name must be distinct across"),
        ({"out": 3}, "out must be a path, was 3"),
    ],
)
def test_bad_arguments(tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    given_arguments: dict[str, Any] = {"out": tmp_path / "out"} | arguments
    with pytest.raises(InputError, match=message):
        generate_market(given_arguments.pop("out"), **given_arguments)
    assert not (tmp_path / "out").exists()


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="out must be a folder"):
        generate_market(tmp_path / "file")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": ""}, "name must be a name of up to 32 letters, digits, spaces or .* was ''"),
        ({"file_name": ""}, "file_name must be a non-empty string, was ''"),
        ({"file_name": "up/down"}, "file_name must be a name without folders, was 'up/down'"),
        ({"file_name": "%D"}, "file_name must be a name without folders, was '%D'"),
        ({"matching": "prorata"}, "matching must be one of price-time, pro-rata, was 'prorata'"),
        ({"quotes": 0.07}, "quotes of XNAS must be SyntheticOwnQuotes or SyntheticSharedQuotes, was float"),
        ({"orders": 3}, "orders of XNAS must be an integer of at least 16, was 3"),
        ({"lot": 0.5}, "lot of XNAS must be an integer"),
        ({"top_size": 0}, "top_size of XNAS must be a positive integer, was 0"),
        ({"reach": 0}, "reach of XNAS must be a number"),
        ({"sweep": 1.5}, "sweep of XNAS must be a number of at least 0 and of at most 1, was 1.5"),
        ({"takers": 0.9, "replaced": 0.2}, "must sum to at most 1"),
    ],
)
def test_bad_venues(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(DEFAULT_VENUES[0], **change)


def test_a_venue_of_ones_own(tmp_path: Path) -> None:
    quotes = SyntheticOwnQuotes(half_spread=0.01, spread_deviation=0.2, spread_patience=0.08, price_patience=0.04)
    mine: SyntheticVenue = replace(DEFAULT_VENUES[1], name="XOWN", file_name="%Y.own", quotes=quotes, reach=50)
    path = generate_market(tmp_path, venues=[mine], hours=minutes(30, 31), date=dt.date(2024, 11, 3))[0]
    assert path.name == "2024.own"
    book = NaiveItchBook()
    for message in read_messages(path):
        book.apply(message)
    assert book.kinds["A"] > 100
