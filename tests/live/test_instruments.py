"""Instruments of the live router: exact quantities, prices and money; minima, sessions, currencies and fees."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import polars
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instruments import instrument_of
from live_engines import CENT, START, World, accepted, child_order, parent_order, report, stored_again
from live_logs import MemoryLog, MemoryStore
from live_services import order_json, running, service_config
from riskroute.core.errors import InputError, RefusedError
from riskroute.core.instrument import Instrument, instrument_terms, load_instruments
from riskroute.core.instrument import instrument_from_terms as live_instrument
from riskroute.live.config import LiveConfig, live_config, read_live_config
from riskroute.live.fees import LiveFees, LivePlaceFees, OrderFee
from riskroute.live.http.requests import OrderRequest, QuotesRequest, RequestParser, decode_request
from riskroute.live.http.views import encode_view, replay_view
from riskroute.live.limits import Limits, limit_units
from riskroute.live.log.export import export_log
from riskroute.live.log.interface import log_entries_of
from riskroute.live.state.amounts import NANO, amount_scale
from riskroute.live.state.archive import OrderArchive
from riskroute.live.state.effects import LearnEffect
from riskroute.live.state.events import AnyEvent, ReportedEvent, SettledEvent
from riskroute.live.state.fold import apply
from riskroute.live.state.orders import minimum_order_units
from riskroute.live.state.trading_state import TradingState, decode_trading_state, encode_trading_state
from riskroute.live.tokens import token_hash
from riskroute.live.venues.simulated import Faults, SimulatedVenueMarket
from riskroute.routers.plan import Plan
from riskroute.routers.router import Router

NEW_YORK = ZoneInfo("America/New_York")
COIN: dict[str, Any] = {"unit": "0.00001", "tick": "0.01", "quantity": "BTC", "currency": "USDT", "zone": "UTC"}


def config(instruments: dict[str, Any], **more: Any) -> LiveConfig:
    given: dict[str, Any] = {
        "log": {"path": "unused"},
        "venues": {"A": {}, "B": {}},
        "instruments": instruments,
        "tokens": {"desk": {"hash": token_hash("x"), "scopes": ["trade"]}},
    }
    return live_config(given | more)


# exact numbers

steps = st.sampled_from(["0.00000001", "0.00001", "0.001", "0.25", "0.4", "1", "3", "100", "1000000"])
ticks = st.sampled_from(["0.000000001", "0.000000003", "0.0001", "0.01", "0.0625", "0.25", "1", "100"])
multipliers = st.sampled_from(["1", "0.001", "0.1", "3", "50", "1000", "12500000"])


@st.composite
def trades(draw: st.DrawFn) -> tuple[Instrument, bool, list[tuple[int, int, int]], int, int]:
    """An instrument, the side, fills (price in ticks, units, fee in 1e-9), and bid and ask in ticks."""
    instrument = instrument_of("X", unit=draw(steps), tick=draw(ticks), multiplier=draw(multipliers))
    most = int(10**9 / instrument.tick)
    bid = draw(st.integers(1, most - 2))
    ask = draw(st.integers(bid + 1, min(most, 2 * bid + 1)))
    price, units = st.integers(max(bid - 5, 1), min(ask + 5, most)), st.integers(1, 10**13)
    fills = draw(st.lists(st.tuples(price, units, st.integers(-(10**12), 10**12)), min_size=1, max_size=4))
    return instrument, draw(st.booleans()), fills, bid, ask


@given(trades(), st.booleans())
@settings(max_examples=150)
def test_numbers_are_exact_from_the_request_to_the_position(
    drawn: tuple[Instrument, bool, list[tuple[int, int, int]], int, int], text: bool
) -> None:
    instrument, buys, fills, bid, ask = drawn
    parser = RequestParser(config({"X": {**instrument.to_json(), "symbol": ""}}))
    quantity = sum(units for _, units, _ in fills)
    books = {name: [[price * instrument.tick, instrument.unit]] for name, price in (("bids", bid), ("asks", ask))}
    body = order_json("one", symbol="X", side="buy" if buys else "sell", quantity=quantity * instrument.unit)
    body["quotes"] = [{"venue": "A", "at": START} | books]
    encoder = msgspec.json.Encoder(decimal_format="string" if text else "number")
    order = parser.order(decode_request(encoder.encode(body), OrderRequest, "an order"))
    assert order.quantity == quantity
    assert order.quotes[0].asks[0] == (int(ask * instrument.tick * NANO), 1)
    assert order.instrument == instrument

    state, archive, rows = TradingState(), OrderArchive(), MemoryStore()
    child = child_order(order, 0, quantity, kind="take", until=0)
    one = order.scale.one
    events: list[AnyEvent] = [accepted(order, child)]
    cum = 0
    for k, (price, units, fee) in enumerate(fills):
        cum += units
        done = {"quantity": units, "price": int(price * instrument.tick * NANO), "fee": fee * one // NANO}
        events.append(
            ReportedEvent(at=START, report=report(child, "filled", f"{k}", cum=cum, leaves=quantity - cum, **done))
        )
    log = MemoryLog(rows)
    log.lease("test", math.inf)
    for event in events:
        state = _folded(state, event, archive, log)
    exact = Fraction(instrument.unit) * Fraction(instrument.multiplier) * Fraction(instrument.tick)
    sign = 1 if buys else -1
    cash = -sign * sum(price * units * exact for price, units, _ in fills)
    fees = Fraction(sum(fee for _, _, fee in fills), NANO)
    cost = sign * sum((price - Fraction(bid + ask, 2)) * units * exact for price, units, _ in fills) + fees
    held = state.positions["X"]
    assert held.shares == sign * quantity
    assert (Fraction(held.cash, one), Fraction(held.fees, one)) == (cash, fees)
    parent = state.parents["one"]
    assert parent.outcome is None or Fraction(parent.outcome.cost, one) == cost
    assert abs(Fraction(state.totals.cost, NANO) - cost) <= Fraction(1, 2 * NANO)
    again = decode_trading_state(encode_trading_state(state))
    assert encode_trading_state(again) == encode_trading_state(state)
    shown = json.loads(encode_view(replay_view(again)), parse_float=Decimal, parse_int=Decimal)["positions"]["X"]
    assert (Fraction(shown["cash"]), Fraction(shown["fees"])) == (cash, fees)
    assert Fraction(shown["quantity"]) == sign * quantity * Fraction(instrument.unit)


def _folded(state: TradingState, event: AnyEvent, archive: OrderArchive, log: MemoryLog) -> TradingState:
    """Fold an event as it comes back from the log, and the outcome that follows from it."""
    assert stored_again(event) == event
    log.append(log_entries_of([event])).result()
    state, effects = apply(state, stored_again(event), archive)
    for effect in effects:
        if isinstance(effect, LearnEffect):
            settled = SettledEvent(at=START, outcome=effect.outcome, benchmark_cost=effect.outcome.cost)
            assert stored_again(settled) == settled
            log.append(log_entries_of([settled])).result()
            state, _ = apply(state, settled, archive)
    return state


def test_numbers_are_exact_over_http_and_in_the_export(tmp_path: Path) -> None:
    venues = {name: {"latency_ms": 0.0, "taker": "10 bps"} for name in "AB"}
    made = service_config(tmp_path, instruments={"BTCUSDT": COIN}, venues=venues, pools={})
    book = {"bids": [["64321.11", "0.00002"]], "asks": [[64321.13, 0.25001], ["64321.99", 2]], "at": 0}
    with running(made) as up:
        order = order_json("one", symbol="BTCUSDT", quantity="0.30001")
        now = order["quotes"][0]["at"]
        order["quotes"] = [{"venue": "A"} | book | {"at": now}]
        answer = up.client.post("/orders", json=order)
        assert answer.status_code == 200, answer.text
        found = up.client.settled("one")
        text = json.loads(up.client.get("/orders/one").text, parse_float=Decimal)
        held = json.loads(up.client.get("/positions").text, parse_float=Decimal)["BTCUSDT"]
        state = up.client.get("/state").json()
        assert up.client.post("/orders", json=order).content == answer.content
    paid = Decimal("64321.13") * Decimal("0.25001") + Decimal("64321.99") * Decimal("0.05")
    assert (held["quantity"], held["unit"], held["currency"]) == (Decimal("0.30001"), "BTC", "USDT")
    assert (held["cash"], held["fees"]) == (-paid, paid / 1000)
    assert text["cost"] == paid + paid / 1000 - Decimal("64321.12") * Decimal("0.30001")
    assert (found["quantity"], found["filled"], found["mid"]) == (0.30001, 0.30001, 64321.12)
    assert (state["currency"], state["totals"]["cost"]) == ("USDT", round(float(text["cost"]), 9))
    with made.open_log(create=False) as log:
        export_log(log, tmp_path / "out")
    fills = polars.read_parquet(tmp_path / "out" / "fills.parquet")
    assert fills["quantity"].sum() == pytest.approx(0.30001, abs=1e-15)
    assert set(fills["price"]) == {64321.13, 64321.99}
    day = dt.datetime.fromtimestamp(now // NANO, dt.UTC).date()  # the session day of its zone
    books = polars.read_parquet(tmp_path / "out" / "books" / f"{day}.parquet")
    assert books.row(0, named=True) | {"ask_px_00": 64321.13, "ask_sz_00": 0.25001} == books.row(0, named=True)
    assert 'taker = "10 bps"' in (tmp_path / "out" / "fees.toml").read_text()
    assert load_instruments(tmp_path / "out" / "instruments.toml") == made.instruments


# minima, lots and limits


def test_orders_below_the_minima_or_off_the_lot_are_refused() -> None:
    parser = RequestParser(config({"X": COIN | {"lot": "0.001", "minimum_quantity": "0.002", "minimum_notional": 500}}))
    world = World()
    engine = world.start()

    def refused(quantity: str) -> str:
        body = order_json("one", symbol="X", quantity=quantity)
        body["quotes"] = [{"venue": "A", "at": START, "bids": [["99999", 5]], "asks": [["100001", 5]]}]
        order = parser.order(decode_request(json.dumps(body).encode(), OrderRequest, "an order"))
        with pytest.raises(InputError) as error:
            engine.submit(order)
        return str(error.value)

    assert refused("0.0025") == "quantity must be a multiple of the lot, 0.001 BTC, was 0.0025 BTC"
    expected = "quantity must be at least 0.005 BTC, since the minima are 0.002 BTC and 500 USDT, was 0.004 BTC"
    assert refused("0.004") == expected
    assert minimum_order_units(instrument_terms(instrument_of(minimum_quantity=7, lot=5)), 1) == 10


class Scattering(Router):
    """Divides an order over venues and the pool, in pieces of any size."""

    name = "scattering"
    shares: tuple[int, ...] = (30, 10, 4, 3)

    def decide(self, context: Any) -> Plan:
        a, b, rest, ping = self.shares
        return Plan(context.order, take={"A": a, "B": b}, limit={"B": rest}, dark={"P": ping})


@given(
    st.tuples(st.integers(0, 60), st.integers(0, 60), st.integers(0, 60), st.integers(0, 60)),
    st.sampled_from([1, 2, 5]),
    st.integers(0, 40),
    st.integers(1, 200),
)
@settings(max_examples=40, deadline=None)
def test_children_are_multiples_of_the_lot_and_no_smaller_than_the_minimum(
    shares: tuple[int, ...], lot: int, least: int, size: int
) -> None:
    quantity = -(-max(sum(shares), least, 1) // lot) * lot
    world = World(faults=Faults())
    router = Scattering()
    router.shares = shares
    engine = world.start(router)
    for venue in world.venues.values():
        venue.market.hidden = {"P": 37}  # type: ignore[attr-defined]  # a simulated market
    terms = instrument_terms(instrument_of(lot=lot, minimum_quantity=least, tick="0.05"))
    engine.submit(parent_order(quantity=quantity, terms=terms, deadline=START + 3 * NANO))
    world.pass_time(8)
    children = [there.child for venue in world.venues.values() for there in venue.children.values()]
    assert all(child.quantity % lot == 0 and child.quantity >= least for child in children)
    assert all(child.limit is not None and child.limit % (5 * CENT) == 0 for child in children)
    parent = world.state.parents["one"]
    assert parent.settled
    left = quantity - parent.filled
    assert left < max(least, lot)
    assert world.state.positions["QVEX"].shares == world.shares_at_venues() == parent.filled


def test_limits_are_in_natural_quantities_and_in_the_currency() -> None:
    terms = instrument_terms(instrument_of("X", **COIN))
    assert limit_units(0.25, terms) == 25_000
    world = World(limits=Limits(order_quantity=0.25, order_notional=2 * NANO))
    engine = world.start()
    for quantity, message in (
        (25_001, "quantity must be at most 0.25 BTC, was 0.25001 BTC"),
        (25_000, r"notional must be at most 2\.00 USDT, was 2\.50 USDT"),
    ):
        with pytest.raises(RefusedError, match=message):
            engine.submit(parent_order(quantity=quantity, terms=terms))
    engine.submit(parent_order(quantity=10_000, terms=terms)).result(0)


def test_one_log_has_one_currency_and_one_unit_per_symbol() -> None:
    world = World()
    engine = world.start()
    engine.submit(parent_order("first")).result(0)
    for change, message in (
        (instrument_of(currency="EUR"), "amounts of this log are in USD, those of QVEX in EUR: use another log"),
        (
            instrument_of(unit="0.1"),
            "QVEX has unit 1, tick 0.01, multiplier 1 in this log, and now unit 0.1",
        ),
        (instrument_of(multiplier=50), "and now unit 1, tick 0.01, multiplier 50: use another log, or another symbol"),
    ):
        with pytest.raises(RefusedError, match=message):
            engine.submit(parent_order("second", terms=instrument_terms(change)))
    engine.submit(
        parent_order("second", terms=instrument_terms(instrument_of(hours="09:30-16:00", tick="0.005")))
    ).result(0)


# sessions


def test_orders_outside_the_session_are_refused_with_the_next_opening() -> None:
    now = int(dt.datetime(2024, 3, 12, 8, 0, tzinfo=NEW_YORK).timestamp()) * NANO
    clock = [now]
    day = {"hours": "09:30-16:00"}
    parser = RequestParser(config({"DAY": day, "NIGHT": {"hours": "18:00-17:00"}, "ALWAYS": {}}), lambda: clock[0])

    def refused(symbol: str, hour: int, minute: int = 0, seconds: float = 60) -> str:
        clock[0] = int(dt.datetime(2024, 3, 12, hour, minute, tzinfo=NEW_YORK).timestamp()) * NANO
        body = order_json("one", symbol=symbol, deadline=clock[0] + int(seconds * NANO))
        order = parser.order(decode_request(json.dumps(body).encode(), OrderRequest, "an order"))
        try:
            parser.check_deadline(order, clock[0])
        except InputError as error:
            return str(error)
        return ""

    opening = "must be traded in its session, which opens at"
    assert refused("DAY", 8) == f"DAY {opening} 2024-03-12 09:30:00 America/New_York"
    assert refused("DAY", 9, 30) == ""
    assert refused("DAY", 15, 59) == ""
    assert refused("DAY", 16) == f"DAY {opening} 2024-03-13 09:30:00 America/New_York"
    late = "deadline must not be after the close, 2024-03-12 16:00:00 America/New_York, was 2024-03-12 16:29:00"
    assert refused("DAY", 15, 59, 1800).startswith(late)
    assert refused("NIGHT", 17, 30) == f"NIGHT {opening} 2024-03-12 18:00:00 America/New_York"
    assert refused("NIGHT", 18) == refused("NIGHT", 2) == refused("ALWAYS", 17, 30) == ""


# fees


@given(
    st.tuples(st.integers(-(10**7), 10**7), st.integers(-(10**6), 10**7)),
    st.none() | st.integers(0, 10**10),
    st.none() | st.integers(10**10, 10**12),
    st.lists(st.tuples(st.integers(1, 10**13), st.integers(1, 10**6)), min_size=1, max_size=5),
    st.sampled_from([Instrument(), instrument_of("X", **COIN), instrument_of(multiplier=50, unit=5)]),
)
def test_a_fee_is_booked_exactly_over_all_fills(
    rates: tuple[int, int], least: int | None, most: int | None, fills: list[tuple[int, int]], instrument: Instrument
) -> None:
    fee = OrderFee(*rates, least, most)
    scale = amount_scale(instrument_terms(instrument))
    quantity = sum(units for _, units in fills) * Fraction(instrument.unit)
    value = sum(price * units for price, units in fills) * Fraction(instrument.unit) * Fraction(instrument.multiplier)
    expected = (rates[0] * quantity + rates[1] * value / NANO) / NANO
    expected = max(expected, Fraction(least, NANO)) if least is not None else expected
    expected = min(expected, Fraction(most, NANO)) if most is not None else expected
    assert abs(Fraction(fee.total(instrument, fills), scale.one) - expected) <= Fraction(1, 2 * scale.one)


def test_a_simulated_venue_charges_the_minimum_once_per_child() -> None:
    fee = OrderFee(CENT // 10, minimum=NANO // 2)
    world = World(faults=Faults(partial=1.0))
    for venue in world.venues.values():
        venue.market = SimulatedVenueMarket(world.books, fees=lambda place, instrument: LivePlaceFees(fee, fee))
    engine = world.start()
    engine.submit(parent_order(quantity=2500))
    world.pass_time(12)
    children = [child for child in world.state.children.values() if child.filled]
    assert max(len(child.executions) for child in children) > 1
    assert all(child.fees == max(NANO // 2, child.filled * CENT // 10) for child in children)


def test_fees_come_from_the_configuration_or_else_from_the_schedule(tmp_path: Path) -> None:
    entry = '[[fees]]\nvenue = "{}"\nfrom = 2020-01-01\ntaker = "{}"\nmaker = "-1 bps"\n'
    (tmp_path / "fees.toml").write_text(entry.format("A", "3 bps") + entry.format("B", "0.5 USDT per BTC"))
    made = config({"X": COIN}, venues={"A": {"maker": "2 bps"}, "B": {}}, fees=tmp_path / "fees.toml")
    parser = RequestParser(made)
    body = {"symbol": "X", "quotes": [{"venue": name, "at": 5, "bids": [[1, 1]]} for name in "AB"]}
    given = decode_request(json.dumps(body).encode(), QuotesRequest, "quotes")
    a, b = parser.quotes(parser.instrument("X"), given.quotes)
    assert (a.taker, a.taker_rate, a.maker_rate) == (0, 0, 200_000)
    assert (b.taker, b.taker_rate, b.maker_rate) == (NANO // 2, 0, -100_000)
    with pytest.raises(InputError, match="no fee for X at C"):
        RequestParser(config({"X": COIN}, venues={"C": {}}, fees=tmp_path / "fees.toml"))
    assert LiveFees({"A": None}).of("A", Instrument(), dt.date(2024, 1, 1)) == LivePlaceFees()


def test_instruments_of_a_file_are_those_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "instruments.toml").write_text('[instruments.BTCUSDT]\nunit = "0.00001"\ncurrency = "USDT"\n')
    tables = '[tokens.desk]\nhash = "{}"\nscopes = ["read"]\n[venues.A]\n[log]\npath = "x"\n'.format(token_hash("x"))
    (tmp_path / "live.toml").write_text(f'instruments = "instruments.toml"\n{tables}')
    (symbol, one), *_ = read_live_config(tmp_path / "live.toml").instruments.items()
    assert (symbol, one) == ("BTCUSDT", instrument_of("BTCUSDT", unit="0.00001", currency="USDT"))
    assert live_instrument(symbol, instrument_terms(one)) == one
