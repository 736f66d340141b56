"""Conformance of gateways: the simulated venue and the documentation's gateway conform; those with mistakes do not."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from checkout import ROOT
from line_exchange import LineBench, LineExchange
from live_engines import START, Clock
from live_services import LONGEST, order_json, running, service_config
from riskroute.core.errors import CheckError, InputError
from riskroute.live.conformance import _Trial, check_gateway
from riskroute.live.service import Service
from riskroute.live.state.amounts import NANO
from riskroute.live.state.execution_reports import ExecutionReport
from riskroute.live.state.orders import ChildOrder
from riskroute.live.venues.gateway import Gateway, GatewaySink, VenueAccount, VenueTerms
from riskroute.live.venues.simulated import SimulatedVenue, SimulatedVenueMarket


class Quiet(SimulatedVenueMarket):
    """A market in which nothing trades unless the test says so, with one symbol."""

    def trades(self, child: ChildOrder, begin: int, end: int) -> list[tuple[int, int, int]]:
        return []


class SimulatedBench:
    """A bench for `check_gateway` with a simulated venue.

    Parameters
    ----------
    wrap : Callable
        Makes the gateway from a line to the venue.
    """

    place, symbol, quantity, limit = "A", "DEMO", 100, 10 * NANO

    def __init__(self, wrap: Callable[[SimulatedLine], Gateway] = lambda line: line) -> None:
        self.clock, self.wrap = Clock(), wrap
        self.deadline = START + 3600 * NANO
        self.venue = SimulatedVenue("A", Quiet(lambda symbol: ()), self.clock)
        self.line: SimulatedLine
        self.connected = True

    def gateway(self) -> Gateway:
        self.line = SimulatedLine(self)
        return self.wrap(self.line)

    def wait(self) -> None:
        for _ in range(20):
            self.clock.now += NANO // 100
            self.venue.deliver()
        self.line.flush()

    def fill(self, child: ChildOrder, quantity: int) -> None:
        self.venue._fill(self.venue.children[child.id], 10 * NANO, quantity)

    def refuse(self) -> None:
        arrive = self.venue._arrive

        def refused(child: ChildOrder) -> None:
            arrive(child)
            there = self.venue.children[child.id]
            self.line.said.clear()
            there.reports.clear()
            self.venue._due = [one for one in self.venue._due if one[0] > self.clock.now + NANO]
            self.venue._end(there, "rejected")
            self.venue._arrive = arrive  # type: ignore[method-assign]  # as it was

        self.venue._arrive = refused  # type: ignore[method-assign]  # stand-in

    def mute(self, muted: bool) -> None:
        self.line.muted = muted

    def repeat(self) -> None:
        self.line(self.line.last)

    def reverse(self) -> None:
        self.line.held = []

    def cut(self) -> None:
        self.venue.close()
        self.connected = False
        self.line.sink.down("cut")

    def mend(self) -> None:
        self.connected = True
        self.venue.connect(self.line)

    def received(self) -> Sequence[str]:
        return self.venue.arrivals


class SimulatedLine:
    """A connection of one process to the simulated venue, which may be muted or cut."""

    def __init__(self, bench: SimulatedBench) -> None:
        self.bench, self.session = bench, "A"
        self.sink: GatewaySink
        self.muted = False
        self.said: list[ExecutionReport] = []
        self.held: list[ExecutionReport] | None = None
        self.last: ExecutionReport

    def connect(self, sink: GatewaySink) -> None:
        self.sink = sink
        self.bench.venue.connect(self)

    def terms(self, symbol: str) -> VenueTerms | None:
        return self.bench.venue.terms(symbol) if symbol == self.bench.symbol else None

    def send(self, child: ChildOrder) -> None:
        if not self.bench.connected:
            raise ConnectionError("cut")
        self.bench.venue.send(child)

    def cancel(self, child: ChildOrder) -> None:
        self.bench.venue.cancel(child)

    def query(self, child: ChildOrder) -> None:
        self.bench.venue.query(child)

    def request_account(self) -> None:
        self.bench.venue.request_account()

    def close(self) -> None:
        self.bench.venue.close()

    # what the venue says

    def __call__(self, *reports: ExecutionReport) -> None:
        for report in reports:
            self.last = report
            if self.held is not None:
                self.held.append(report)
            elif not self.muted:
                self.sink(report)

    def flush(self) -> None:
        held, self.held = self.held, None
        for report in reversed(held or []):
            self(report)

    def up(self) -> None:
        self.sink.up()

    def down(self, reason: str) -> None:
        self.sink.down(reason)

    def account(self, account: VenueAccount) -> None:
        self.sink.account(account)


def line_gateway() -> Any:
    """Return the class and the function in docs/own-venue.md."""
    page = (ROOT / "docs" / "own-venue.md").read_text()
    code = re.search(r"```python\n(.*?)```", page, flags=re.DOTALL)
    assert code is not None
    assert len(code[1].splitlines()) <= 90
    names: dict[str, Any] = {}
    exec(code[1], names)  # the documentation's own code
    return names


@pytest.fixture(autouse=True)
def _busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Trial, "longest_call", LONGEST)


def test_simulated_venues_conform() -> None:
    check_gateway(SimulatedBench())


def test_the_gateway_of_the_documentation_conforms() -> None:
    bench = LineBench(line_gateway()["LineGateway"])
    check_gateway(bench)
    assert len(bench.exchange.received) == len(set(bench.exchange.received)) + 1, "one is sent twice on purpose"
    bench.exchange.cut()


@pytest.fixture
def registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with the gateway of the documentation, and its entry points, as `pip` installs them."""
    code = re.search(r"```python\n(.*?)```", (ROOT / "docs" / "own-venue.md").read_text(), flags=re.DOTALL)
    assert code is not None
    (tmp_path / "our_gateway.py").write_text(code[1])
    about = tmp_path / "our_package-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: our-package\nVersion: 1.0\n")
    points = "lines = our_gateway:line_exchange\nbroken = our_gateway:nothing\n"
    (about / "entry_points.txt").write_text(f"[riskroute.venues]\n{points}")
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("registered")
def test_an_installed_package_adds_a_kind_of_venue_by_an_entry_point(tmp_path: Path) -> None:
    exchange = LineExchange()
    options = {"host": "127.0.0.1", "port": exchange.port}
    ours: dict[str, Any] = {"kind": "lines", "options": options, "foreign": "ignore"}
    folder = tmp_path / "service"
    folder.mkdir()
    with running(service_config(folder, venues={"A": ours, "B": {}}, pools={}, router={"name": "sweep"})) as up:
        quotes = order_json()["quotes"][:1]
        assert up.client.post("/orders", json=order_json(quantity=300, quotes=quotes)).status_code == 200
        assert up.client.settled("one")["filled"] == 300
        exchange._hear(
            {"do": "new", "id": "by hand", "symbol": "DEMO", "side": "buy", "units": 5, "price": 1, "until": 1}
        )
        exchange.cut()
        end = time.monotonic() + LONGEST
        while "A" not in up.service.engine.state.down and time.monotonic() < end:
            time.sleep(0.01)
        assert up.service.engine.state.down == {"A": "the exchange has closed the connection"}
        other = order_json("two", quantity=300)
        assert up.client.post("/orders", json=other).status_code == 200
        assert {child["place"] for child in up.client.settled("two")["children"]} == {"B"}
        assert not up.service.engine.state.halted
    assert [order["cum"] for order in exchange.orders.values()] == [300, 0]


@pytest.mark.usefixtures("registered")
def test_a_kind_that_no_package_has_is_refused(tmp_path: Path) -> None:
    for kind, message in (
        ("none", "kind of A must be one of .*lines, .*simulated.*, was 'none'"),
        ("broken", "kind broken of A cannot be loaded"),
    ):
        config = service_config(tmp_path, venues={"A": {"kind": kind}})
        with pytest.raises(InputError, match=message):
            Service(config)
    for place, message in (
        ({"options": {"x": 1}}, "given options only for a kind of venue that is not simulated"),
        ({"kind": "lines", "seed": 1}, "given seed only for simulated places: settings of kind lines are in options"),
        ({"burst": 1}, r"venues\.A\.burst must be"),
    ):
        with pytest.raises(InputError, match=message):
            service_config(tmp_path, venues={"A": place})


# gateways with mistakes


def changed(**fields: Callable[[ExecutionReport], Any]) -> Callable[[ExecutionReport], ExecutionReport]:
    return lambda one: msgspec.structs.replace(one, **{name: change(one) for name, change in fields.items()})


class Mistaken:
    """A gateway with mistakes: methods that replace its own, and a change of every report."""

    def __init__(self, line: SimulatedLine, tell: Any = None, **methods: Any) -> None:
        self._line, self._tell, self._methods = line, tell, methods
        self.memory: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        method = self._methods.get(name)
        return getattr(self._line, name) if method is None else lambda *given: method(self, self._line, *given)

    def connect(self, sink: GatewaySink) -> None:
        outer = self

        class Sink:
            def __call__(self, *reports: ExecutionReport) -> None:
                for one in reports:
                    if (told := one if outer._tell is None else outer._tell(outer, one)) is not None:
                        sink(told)

            def __getattr__(self, name: str) -> Any:
                return getattr(sink, name) if name not in outer._methods else lambda *given: None

        if "connect" in self._methods:
            self._methods["connect"](self, self._line, Sink())
        else:
            self._line.connect(Sink())


def once(outer: Mistaken, one: ExecutionReport) -> ExecutionReport:
    """Give every report a new exec id, as a gateway does that counts what it hears."""
    outer.memory["count"] = outer.memory.get("count", 0) + 1
    return msgspec.structs.replace(one, exec_id=f"{id(outer)} {outer.memory['count']}")


def never_again(outer: Mistaken, line: SimulatedLine, child: ChildOrder) -> None:
    line.sink(ExecutionReport(venue="A", day="1", exec_id="q", child=child.id, kind="acknowledged", at=START))


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "never up": ({"up": True}, "must say `up`"),
    "never down": ({"down": True}, "must say `down`"),
    "no terms": ({"terms": lambda outer, line, symbol: None}, "must have a tick and a lot"),
    "terms of everything": ({"terms": lambda outer, line, symbol: line.terms("DEMO")}, "unknown symbol must be None"),
    "waits for the venue": ({"send": lambda outer, line, child: time.sleep(0.3)}, "no call may wait"),
    "sends nothing": ({"send": lambda outer, line, child: None}, "must be acknowledged"),
    "no acknowledgement": (
        {"tell": lambda outer, one: None if one.kind == "acknowledged" else one},
        "must be acknowledged",
    ),
    "rejects are cancels": (
        {"tell": lambda outer, one: changed(kind=lambda o: "cancelled" if o.kind == "rejected" else o.kind)(one)},
        "must be reported `rejected`",
    ),
    "new exec ids": ({"tell": once}, "fills must sum to"),
    "one exec id": (
        {"tell": lambda outer, one: msgspec.structs.replace(one, exec_id="1")},
        "must be of one report",
    ),
    "quantity is cum": (
        {"tell": lambda outer, one: changed(quantity=lambda o: o.cum if o.kind == "filled" else 0)(one)},
        "fills must sum to",
    ),
    "no cum": ({"tell": lambda outer, one: msgspec.structs.replace(one, cum=0)}, "`cum`"),
    "another venue": ({"tell": lambda outer, one: msgspec.structs.replace(one, venue="B")}, "`venue` of a report"),
    "no price": ({"tell": lambda outer, one: msgspec.structs.replace(one, price=0)}, "must have a price"),
    "no day": ({"tell": lambda outer, one: msgspec.structs.replace(one, day="")}, "a day, an exec id and a time"),
    "cancels nothing": ({"cancel": lambda outer, line, child: None}, "a cancel must be reported"),
    "answers no query": ({"query": lambda outer, line, child: None}, "the last answer to a query"),
    "answers from memory": ({"query": never_again}, "last answer|a query|fills must sum"),
    "sends again on a query": (
        {"query": lambda outer, line, child: (line.send(child), line.query(child))},
        "must be sent once|must end so",
    ),
    "knows nothing": (
        {
            "tell": lambda outer, one: changed(
                kind=lambda o: "not_known" if o.kind in ("acknowledged",) and o.cum else o.kind
            )(one)
        },
        "the last answer must be",
    ),
    "raises after sending": (
        {
            "send": lambda outer, line, child: (
                line.send(child) if line.bench.connected else (line.bench.venue.send(child), 1 / 0)
            )
        },
        "must not have sent",
    ),
    "reports after its end": ({"close": lambda outer, line: None}, "a closed gateway must report nothing"),
    "no account": ({"request_account": lambda outer, line: None}, "must be answered"),
    "an empty account": (
        {"request_account": lambda outer, line: line.sink.account(VenueAccount(START, ()))},
        "must have the open order",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_gateway_with_a_mistake_does_not_conform(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given, message = MISTAKES[name]
    if name == "waits for the venue":
        monkeypatch.setattr(_Trial, "longest_call", 0.2)
    with pytest.raises(CheckError, match=message):
        check_gateway(SimulatedBench(lambda line: Mistaken(line, **given)))
