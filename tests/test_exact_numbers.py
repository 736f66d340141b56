"""Quantities, prices and money are exact through import, route, backtest, export and live, for thirty instruments.

One random market of two venues passes all five stages. Expected values are fractions, computed from whole numbers of
units and ticks; the stages print and store decimals and float64, which hold a quantity or a price to the last unit.
"""

from __future__ import annotations

import datetime as dt
import itertools
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import Any

import msgspec
import polars
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import riskroute as rr
from instruments import THIRTY
from live_engines import World
from live_logs import MemoryLog
from live_services import order_json
from market_files import csv_text
from riskroute.cli.app import run_app
from riskroute.core.errors import InputError
from riskroute.core.instrument import REG_NMS, Instrument, load_instruments
from riskroute.core.text import decimal_text
from riskroute.live.config import LiveConfig, live_config
from riskroute.live.http.requests import OrderRequest, RequestParser, decode_request
from riskroute.live.limits import Limits
from riskroute.live.log.export import export_log
from riskroute.live.state.amounts import NANO
from riskroute.live.state.quotes import VenueQuote
from riskroute.live.tokens import token_hash
from riskroute.live.venues.simulated import SimulatedVenueMarket
from riskroute.market import ReadingOptions, RecordingStore, import_files
from riskroute.routing.fees import load_fees
from small_days import HERE

DAY = dt.date(2024, 1, 9)
VENUES = "A", "B"
SECONDS = 240  # of the recorded market, a book a second
ROUNDING = Fraction(1, 10**14)  # of sums of float64, relative to the value of an order

Level = tuple[int, int]  # ticks, units
Book = tuple[tuple[Level, ...], tuple[Level, ...]]  # bids and asks, the best first


def instrument_file(one: Instrument) -> str:
    """The table of an instrument as a user writes it."""
    fields = {name: value for name, value in one.to_json().items() if name != "symbol"}
    lines = [f"{name} = {json.dumps(value)}" for name, value in fields.items()]
    return "\n".join([f'[instruments."{one.symbol}"]', *lines]) + "\n"


@dataclass(frozen=True)
class Market:
    """Books of both venues in some states, which state holds in each second, taker fees, and orders in units."""

    one: Instrument
    states: tuple[tuple[Book, Book], ...]
    seconds: tuple[int, ...]
    fees: tuple[tuple[Fraction, Fraction], ...]  # by venue: an amount per quantity of 1, and a fraction of the value
    quantity: int

    @property
    def begin(self) -> int:
        """Three hours into the session: the time of the first book."""
        return self.one.session(DAY)[0] + 3 * 3600 * NANO

    def money(self, ticks: Fraction | int, units: int) -> Fraction:
        """Value of units at a price."""
        return ticks * Fraction(self.one.tick) * units * Fraction(self.one.unit) * Fraction(self.one.multiplier)

    def fee(self, venue: int, ticks: int, units: int) -> Fraction:
        amount, rate = self.fees[venue]
        return amount * units * Fraction(self.one.unit) + rate * abs(self.money(ticks, units))

    def mid(self, state: int) -> Fraction:
        """The consolidated mid in ticks."""
        both = self.states[state]
        return Fraction(max(book[0][0][0] for book in both) + min(book[1][0][0] for book in both), 2)

    def sweep(self, state: int, sign: int) -> tuple[Fraction, Fraction, Fraction]:
        """The value of a sweep before fees, its fees, and its cost, unit by unit from the first level to the last."""
        offers = []
        for venue, book in enumerate(self.states[state]):
            for ticks, units in book[sign > 0]:
                price, net = sign * self.money(ticks, 1), sign * self.money(ticks, 1) + self.fee(venue, ticks, 1)
                offers.append(((price, net) if self.one.protection == REG_NMS else (net, price), venue, ticks, units))
        value, fees, left = Fraction(0), Fraction(0), self.quantity
        for _, venue, ticks, units in sorted(offers):
            some = min(units, left)
            value, fees, left = value + self.money(ticks, some), fees + self.fee(venue, ticks, some), left - some
        assert left == 0
        return value, fees, sign * (value - self.money(self.mid(state), self.quantity)) + fees

    def price(self, ticks: int) -> str:
        return decimal_text(ticks * self.one.tick, "")

    def size(self, units: int) -> str:
        return decimal_text(units * self.one.unit, "")

    def fee_text(self, venue: int) -> str:
        """The fee in natural units, such as ``0.02 per BTC + 5 bps``."""
        amount, rate = self.fees[venue]
        bps = f"{decimal_text(Decimal(float(rate * 10_000)), '')} bps"
        each = decimal_text(Decimal(amount.numerator) / amount.denominator, "")
        return f"{each} per {self.one.singular} + {bps}" if amount else bps

    def write(self, folder: Path) -> tuple[Path, Path, Path]:
        """Write books, instrument and fees as a user has them."""
        columns: dict[str, list[Any]] = {"ts_event": [], "venue": [], "symbol": []}
        for second, (venue, name) in itertools.product(range(SECONDS), enumerate(VENUES)):
            cells = [self.begin + second * NANO, name, self.one.symbol]
            for column, cell in zip(("ts_event", "venue", "symbol"), cells, strict=True):
                columns[column].append(cell)
            for side, levels in zip(("bid", "ask"), self.states[self.seconds[second]][venue], strict=True):
                for level, (ticks, units) in enumerate(levels):
                    columns.setdefault(f"{side}_px_{level:02d}", []).append(self.price(ticks))
                    columns.setdefault(f"{side}_sz_{level:02d}", []).append(self.size(units))
        entries = (
            f'[[fees]]\nvenue = "{name}"\nfrom = 2020-01-01\ntaker = "{self.fee_text(venue)}"\nmaker = "0 bps"\n'
            for venue, name in enumerate(VENUES)
        )
        texts = {"books.csv": csv_text(columns), "instruments.toml": instrument_file(self.one)}
        texts["fees.toml"] = "\n".join(entries)
        for name, text in texts.items():
            (folder / name).write_text(text)
        books, instruments, fees = (folder / name for name in texts)
        return books, instruments, fees

    def near(self, found: Any, expected: Fraction) -> bool:
        """Whether an amount in float64 is exact but for rounding."""
        largest = max(abs(self.money(self.mid(k), self.quantity)) for k in range(len(self.states)))
        widest = max(abs(self.money(book[1][1][0] - book[0][1][0], self.quantity)) for book in self.states[0])
        return abs(Fraction(found) - expected) <= ROUNDING * (largest + widest + abs(expected))


@st.composite
def markets(draw: st.DrawFn, one: Instrument) -> Market:
    """Books of two levels at two venues, deep enough for the order; levels are multiples of a permitted order."""
    most_ticks = min(int((10**7 if one.protection == REG_NMS else 10**9) / one.tick), 10**14) - 8
    near, far = st.integers(10, min(2000, most_ticks)), st.integers(10, most_ticks)
    below = st.integers(-2000, -10) if one.negative_prices else near
    mids = [draw(st.one_of(near, below, far)) for _ in range(3)]
    least = max(one.lot_units, ceil(one.minimum_quantity / one.unit))
    least = max(least, ceil(Fraction(one.minimum_notional) / (Fraction(one.tick * one.unit * one.multiplier) * 2)))
    least = -(-least // one.lot_units) * one.lot_units
    most = max(int(min(Decimal(10) ** 13, Decimal(10) ** 11 / one.unit)) // least, 4)
    sizes = st.one_of(st.integers(1, most // 4), st.integers(1, min(most // 4, 500)))
    states, depth = [], most
    for mid in mids:
        both = []
        for _ in VENUES:
            away = [draw(st.integers(1, 3)) for _ in range(4)]
            units = [least * draw(sizes) for _ in range(4)]
            ticks = [mid - away[0], mid - away[0] - away[1], mid + away[2], mid + away[2] + away[3]]
            bids, asks = (tuple(zip(ticks[k : k + 2], units[k : k + 2], strict=True)) for k in (0, 2))
            both.append((bids, asks))
        states.append((both[0], both[1]))
        depth = min(depth, *(sum(some for book in both for _, some in book[k]) // least for k in (0, 1)))
    step = min(one.tick * one.multiplier, Decimal(3)) / 10  # an amount per share is at most 10
    amounts, rates = st.sampled_from([0, 1, -5, 30]), st.sampled_from([-50, 0, 10, 75, 300])
    fees = [(draw(amounts) * Fraction(step), Fraction(draw(rates), 100_000)) for _ in VENUES]
    seconds = draw(st.lists(st.integers(0, 2), min_size=SECONDS, max_size=SECONDS))
    return Market(one, tuple(states), tuple(seconds), tuple(fees), least * draw(st.integers(1, depth)))


def whole(value: Any, step: Decimal) -> int:
    """The number of steps of a stored number, which must be whole."""
    count = Decimal(f"{value:.15g}" if isinstance(value, float) else str(value)) / step
    assert count == count.to_integral_value(), (value, step)
    return int(count)


def levels(row: dict[str, Any], market: Market) -> Book:
    """The book of a row of a recording in ticks and units."""
    sides = (
        tuple(
            (whole(row[f"{side}_px_{k:02d}"], market.one.tick), whole(row[f"{side}_sz_{k:02d}"], market.one.unit))
            for k in range(2)
        )
        for side in ("bid", "ask")
    )
    bids, asks = sides
    return bids, asks


def check_recordings(market: Market, folder: Path, expected: dict[str, list[Book]]) -> None:
    """The recorded books of each venue are the expected ones, in units and ticks."""
    store = RecordingStore(folder)
    found = {recording.venue: recording for recording in store.recordings()}
    assert set(found) == set(expected)
    for venue, recording in found.items():
        assert (recording.instrument, recording.date) == (market.one, DAY)
        assert [levels(row, market) for row in store.snapshots(recording).iter_rows(named=True)] == expected[venue]


def check_route(market: Market, folder: Path, files: tuple[Path, Path, Path], sign: int, capsys: Any) -> None:
    """`riskroute route` plans the order and prints its cost."""
    one, books, answer = market.one, {}, folder / "answer.json"
    for venue, (name, book) in enumerate(zip(VENUES, market.states[0], strict=True)):
        sides = [[[float(market.price(p)), float(market.size(q))] for p, q in side] for side in book]
        books[name] = {"bids": sides[0], "asks": sides[1], "taker": market.fee_text(venue)}
    (folder / "now.json").write_text(json.dumps({"venues": books}))
    words = ["route", str(folder / "now.json"), "--side", "buy" if sign > 0 else "sell"]
    words += ["--quantity", market.size(market.quantity), "--instruments", str(files[1]), "--json", str(answer)]
    capsys.readouterr()
    assert run_app(words) == 0
    said = capsys.readouterr()
    assert said.err == ""
    found = json.loads(answer.read_text(), parse_float=Decimal)
    assert whole(found["quantity"], one.unit) == market.quantity
    value, fees, cost = market.sweep(0, sign)
    sent = {child["place"]: whole(child["quantity"], one.unit) for child in found["children"]}
    assert sum(sent.values()) == market.quantity
    limits = {child["place"]: whole(child["limit"], one.tick) for child in found["children"]}
    for name, book in zip(VENUES, market.states[0], strict=True):
        assert name not in limits or limits[name] in [ticks for ticks, _ in book[sign > 0]]
    assert market.near(found["expected_cost"], cost)
    assert market.near(found["net"], value + sign * fees)
    assert f"{one.quantity_text(market.quantity)} of {one.symbol} at a mid of" in said.out
    assert said.out.count(one.currency) >= 2


def check_backtest(market: Market, folder: Path, files: tuple[Path, Path, Path]) -> None:
    """The orders, children and fills of a backtest, and their files, are the sweeps of the books at their times."""
    result = rr.backtest(
        folder / "books", quantities=float(market.size(market.quantity)), routers=["sweep"], fees=load_fees(files[2]),
        orders=6, seeds=1, latency_ms=0, protection=None, kept=folder / "kept", backend=HERE, block_minutes=1,
    )  # fmt: skip
    result.tables.write(folder / "backtest")
    orders, children, fills = (
        polars.read_parquet(folder / "backtest" / f"{name}.parquet").filter(polars.col("router") == "sweep")
        for name in ("orders", "children", "fills")
    )
    zeros = sum(not market.mid(state) for state in range(len(market.states)))
    assert 0 < orders.height <= 6 if zeros else orders.height == 6
    for order in orders.iter_rows(named=True):
        state, sign = market.seconds[(order["time"] - market.begin) // NANO], order["sign"]
        value, fees, cost = market.sweep(state, sign)
        assert whole(order["quantity"], market.one.unit) == market.quantity
        assert Fraction(f"{order['mid']:.15g}") == market.mid(state) * Fraction(market.one.tick)
        assert order["estimated"] == 0
        mine = fills.filter(polars.col("number") == order["number"])
        taken = Counter[tuple[str, int]]()
        for fill in mine.iter_rows(named=True):
            taken[fill["place"], whole(fill["price"], market.one.tick)] += whole(fill["quantity"], market.one.unit)
        shown = {
            (name, ticks): units
            for name, book in zip(VENUES, market.states[state], strict=True)
            for ticks, units in book[sign > 0]
        }
        assert all(units <= shown[level] for level, units in taken.items())
        assert sum(taken.values()) == market.quantity
        assert sum(market.money(ticks, units) for (_, ticks), units in taken.items()) == value
        sent = children.filter(polars.col("number") == order["number"])["filled"].to_list()
        assert sum(whole(some, market.one.unit) for some in sent) == market.quantity
        assert market.near(order["fees"], fees)
        assert market.near(order["cost"], cost)


class Trading(World):
    """Venues with the books of a market in the state of the second."""

    def __init__(self, market: Market, config: LiveConfig) -> None:
        limits = Limits(order_quantity=1e18, order_notional=10**40, symbol_quantity=1e18, symbol_notional=10**40,
                        day_loss=10**40, collar=10_000)  # fmt: skip
        super().__init__(limits=limits)
        fees = config.build_fees()
        place = SimulatedVenueMarket(
            self.books, fees=lambda name, one: fees.of(name, one, DAY), instruments=config.instruments
        )
        for venue in self.venues.values():
            venue.market = place
        self.clock.now = market.begin
        self.parser = RequestParser(config, self.clock)
        self.shown: tuple[VenueQuote, ...] = ()

    def books(self, symbol: str) -> tuple[VenueQuote, ...]:
        return self.shown


def live_market(market: Market) -> LiveConfig:
    """The configuration of a live router for a market."""
    one = market.one
    return live_config(
        {
            "log": {"path": "unused"},
            "venues": {name: {"taker": market.fee_text(venue)} for venue, name in enumerate(VENUES)},
            "instruments": {one.symbol: {name: value for name, value in one.to_json().items() if name != "symbol"}},
            "tokens": {"desk": {"hash": token_hash("x"), "scopes": ["trade"]}},
        }
    )


def check_live(market: Market, folder: Path) -> None:
    """The live router trades an order of each side; its positions are exact, and its export is the market again."""
    one = market.one
    if one.negative_prices:
        with pytest.raises(InputError, match=f"negative_prices of {one.symbol} must be false"):
            live_market(market)
        return
    world = Trading(market, live_market(market))
    world.start()
    value, fees, cost = Fraction(0), Fraction(0), Fraction(0)
    expected: dict[str, list[Book]] = {name: [] for name in VENUES}
    for number, (state, sign) in enumerate(zip((0, 1, 2), (1, -1, 1), strict=True)):
        quotes = [
            {"venue": name, "at": world.clock.now}
            | {side: [[market.price(p), market.size(q)] for p, q in book[k]] for k, side in enumerate(("bids", "asks"))}
            for name, book in zip(VENUES, market.states[state], strict=True)
        ]
        about: dict[str, Any] = {"symbol": one.symbol, "side": "buy" if sign > 0 else "sell", "quotes": quotes}
        about |= {"quantity": market.size(market.quantity), "deadline": world.clock.now + 2 * NANO}
        body = json.dumps(order_json(f"order {number}") | about).encode()
        order = world.parser.order(decode_request(body, OrderRequest, "an order"))
        order = msgspec.structs.replace(order, received=world.clock.now)
        world.shown = order.quotes
        world.engine.submit(order).result(0)
        world.pass_time(4)
        found = market.sweep(state, sign)
        value, fees, cost = value + sign * found[0], fees + found[1], cost + found[2]
        for name, book in zip(VENUES, market.states[state], strict=True):
            expected[name].append(book)
    held, scale = world.state.positions[one.symbol], order.scale
    assert held.shares == market.quantity
    assert Fraction(held.cash, scale.one) == -value
    # each child's fee is rounded to the smallest amount
    assert abs(Fraction(held.fees, scale.one) - fees) <= Fraction(6, 2 * scale.one)
    assert abs(Fraction(world.state.totals.cost, NANO) - cost) <= Fraction(6, 2 * scale.one) + Fraction(3, 2 * NANO)
    export_log(MemoryLog(world.store), folder / "export")
    exported = polars.read_parquet(folder / "export" / "fills.parquet")
    signs = dict(polars.read_parquet(folder / "export" / "orders.parquet").select("number", "sign").iter_rows())
    again = [
        signs[fill["number"]] * market.money(whole(fill["price"], one.tick), whole(fill["quantity"], one.unit))
        for fill in exported.iter_rows(named=True)
    ]
    assert sum(again) == value
    instruments = load_instruments(folder / "export" / "instruments.toml")
    assert instruments == {one.symbol: one}
    import_books((folder / "export" / "books").iterdir(), folder / "again", instruments)
    check_recordings(market, folder / "again", expected)


def import_books(files: Iterable[Path], out: Path, instruments: dict[str, Instrument]) -> None:
    import_files(sorted(files), out, ReadingOptions(instruments=instruments))


@pytest.mark.parametrize("one", THIRTY, ids=lambda one: one.symbol)
@given(data=st.data())
@settings(max_examples=2, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
def test_a_market_is_exact_through_all_stages(
    one: Instrument, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory, capsys: Any
) -> None:
    market, folder = data.draw(markets(one)), tmp_path_factory.mktemp("market")
    files = market.write(folder)
    import_books([files[0]], folder / "books", load_instruments(files[1]))
    shown = {name: [market.states[k][venue] for k in market.seconds] for venue, name in enumerate(VENUES)}
    check_recordings(market, folder / "books", shown)
    check_route(market, folder, files, data.draw(st.sampled_from([1, -1])), capsys)
    check_backtest(market, folder, files)
    check_live(market, folder)


def test_an_order_at_a_mid_of_zero_has_a_route_and_no_backtest(tmp_path: Path, capsys: Any) -> None:
    """Costs in basis points are fractions of the order's value."""
    (one,) = (one for one in THIRTY if one.symbol == "POWER")
    books = [((((mid - 1, 5), (mid - 2, 5)), ((mid + 1, 5), (mid + 2, 5))),) * 2 for mid in (0, -40)]
    market = Market(one, tuple(books), tuple(k // 20 % 2 for k in range(SECONDS)), ((Fraction(0), Fraction(0)),) * 2, 7)
    files = market.write(tmp_path)
    import_books([files[0]], tmp_path / "books", load_instruments(files[1]))
    check_route(market, tmp_path, files, 1, capsys)
    check_backtest(market, tmp_path, files)
