"""One simulated life of the service: everything that a scenario says, played by one scheduler, and checked."""

from __future__ import annotations

import asyncio
import datetime as dt
import gc
import json
import logging
import random
import shutil
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import uvicorn
from pydantic import PrivateAttr
from uvicorn.server import ServerState

from riskroute.core.errors import DataError, RiskrouteError
from riskroute.live import engine as engine_module
from riskroute.live import service as service_module
from riskroute.live.background import BackgroundProcess
from riskroute.live.config import LiveConfig
from riskroute.live.fees import LiveFees
from riskroute.live.http import api, server
from riskroute.live.learner import Learner
from riskroute.live.log.interface import Log
from riskroute.live.log.snapshot_writer import SnapshotWriter
from riskroute.live.log.state_store import StateStore
from riskroute.live.service import Service
from riskroute.live.state import fold
from riskroute.live.state.archive import OrderArchive
from riskroute.live.state.orders import ChildOrder
from riskroute.live.state.quotes import VenueQuote
from riskroute.live.state.trading_state import TradingState, encode_trading_state
from riskroute.live.tokens import token_hash
from riskroute.live.venues.gateway import Gateway, VenueLink
from riskroute.live.venues.simulated import Faults, SimulatedVenueMarket
from riskroute.routers.context import Context
from riskroute.routers.plan import Plan
from riskroute.routers.report import ChildReport
from riskroute.routers.router import Router
from riskroute.routers.rules import DarkFirstPostRule, RestEvenRule
from simulated_service.checks import BrokenGuaranteeError, Checks, difference
from simulated_service.disk import SimulatedDisk, SimulatedLog, SimulatedStateStore
from simulated_service.network import Answer, Connection, Network, SimulatedLoop, read_answer, request
from simulated_service.scenario import INSTRUMENTS, PLACES, POOLS, VENUES, Fault, Order, Scenario
from simulated_service.scheduler import NANO, NEVER, Crash, Process, Scheduler, Thread, active
from simulated_service.standard_library import refit_faults, stand_ins
from simulated_service.venues import Line, Venue

TOKENS = {name: f"the-token-that-is-good-for-{name}" for name in ("trade", "halt", "read")}
PATIENCE = 0.5
LONGEST_REFIT = 5.0  # seconds; a refit takes 0.3


class CountingRouter(DarkFirstPostRule):
    """Pings, posts, rests or sweeps, by the key of the order; counts what it has learned, and hashes the sequence."""

    name: ClassVar[str] = "counting"
    memory: ClassVar[tuple[str, ...]] = ("scores", "expected", "learned", "sequence")
    remembered_orders: ClassVar[int] = 300
    learned: int
    sequence: int

    def begin(self) -> None:
        super().begin()
        self.learned = self.sequence = 0

    def decide(self, context: Context) -> Plan:
        manner = zlib.crc32(context.order.encode()) % 5
        plan = super().decide(context)
        if manner == 0:
            return Plan(context.order, dark=plan.dark, in_turn=True)
        if manner == 1:
            return RestEvenRule().decide(context)
        if manner == 2:
            resting = RestEvenRule().decide(context)
            return Plan(context.order, dark_rest=resting.dark_rest, recall=context.horizon / 3)
        return plan

    def on_fills(self, order: str, children: tuple[ChildReport, ...], profit: float | None) -> None:
        super().on_fills(order, children, profit)
        if profit is not None:
            self.learned += 1
            self.sequence = zlib.crc32(order.encode(), self.sequence)


class _Config(LiveConfig):
    """The configuration of the simulated service: its log, venues and router are those of the simulation."""

    _simulation: Any = PrivateAttr()

    def open_log(self, *, create: bool = True) -> Log:
        log: Log = self._simulation.open_log(create=create)
        return log

    def open_state_store(self) -> StateStore:
        store: StateStore = self._simulation.open_state_store()
        return store

    def build_router(self) -> Router:
        return CountingRouter()

    def build_venues(self, history: Any, clock: Callable[[], int]) -> dict[str, VenueLink]:
        lines: dict[str, Gateway] = self._simulation.lines()
        return {name: VenueLink(line) for name, line in lines.items()}


@dataclass
class Outcome:
    """What came of a simulation: what was broken, if anything, and what was survived."""

    broken: str
    seconds: float
    orders: int
    survived: Counter[str]
    trace: list[str]
    mark: str
    steps: int = 0


class Simulation:
    """A simulation of a scenario.

    Parameters
    ----------
    scenario : Scenario
        What happens.
    folder : Path
        A folder in memory for the files of the log.
    """

    def __init__(self, scenario: Scenario, folder: Path) -> None:
        self.scenario, self.folder = scenario, folder
        self.timer = Scheduler(scenario.seed, scenario.start)
        self.rng = random.Random(f"{scenario.seed} world")
        self.disk = SimulatedDisk(folder, self.timer, self.on_point)
        self.trace: list[str] = []
        self.survived: Counter[str] = Counter()
        self.digest = 0
        self.network = Network(self.timer, self.on_point)
        self.config = self._make_config()
        faults = Faults(
            scenario.reject, scenario.partial, scenario.duplicate, scenario.disorder, scenario.silence, scenario.lost
        )
        stated = dict.fromkeys(VENUES, ("3 bps", "-2 bps")) | dict.fromkeys(POOLS, ("1 bps", "1 bps"))
        known = LiveFees(stated)
        hidden = dict.fromkeys(POOLS, 200.0)
        market = SimulatedVenueMarket(
            self.books,
            scenario.seed,
            hidden,
            1.0,
            lambda place, one: known.of(place, one, dt.date.max),
            self.config.instruments,
        )
        self.venues = {
            name: Venue(
                self.timer,
                name,
                market,
                self.timer.true_time,
                latency=scenario.latency,
                faults=faults,
                seed=scenario.seed,
            )
            for name in PLACES
        }
        self.checks = Checks(self.venues, self.config.limits.limits())
        self.service: Service | None = None
        self.process: Process | None = None
        self.world = Process("world")
        self.opened: list[SimulatedLog | SimulatedStateStore] = []
        self.armed: tuple[Fault, int] | None = None
        self.crashing = ""
        self.disturbed_until = 0
        self.failing_sync = self.halt_file = False
        self.ending = False
        self.placing = 0
        self._stopping: asyncio.Event | None = None
        self._restart: Any = None

    # the parts of the service

    def _make_config(self) -> _Config:
        per_second = self.scenario.per_second
        limit = {"orders_per_second": per_second, "burst": 5, "hold_ms": 200.0} if per_second else {}
        given: dict[str, Any] = {
            "log": {"path": str(self.folder / "live.sqlite"), "snapshot_every": self.scenario.snapshot_every},
            "router": {"refit_every": self.scenario.refit_every},
            "venues": {name: {"taker": "3 bps", "maker": "-2 bps", **limit} for name in VENUES},
            "pools": {name: {"fee": "1 bps", **limit} for name in POOLS},
            "instruments": INSTRUMENTS,
            "tokens": {name: {"hash": token_hash(token), "scopes": [name]} for name, token in TOKENS.items()},
            "halt_file": str(self.folder / "HALT"),
            "patience_seconds": PATIENCE,
            "limits": {"rejects_in_a_row": 1000, "day_loss": 1e9, "slow_write_seconds": 2.0},
        }
        config = _Config(**given)
        config._simulation = self
        return config

    def open_log(self, *, create: bool = True) -> SimulatedLog:
        """Open the log on the simulated disk, and check that it has everything that was durable."""
        log = SimulatedLog(self.folder / "live.sqlite", self.disk, self.on_rows, create=create)
        self.opened.append(log)
        self.checks.on_opened(log)
        return log

    def open_state_store(self) -> SimulatedStateStore:
        """Open the store beside the log."""
        store = SimulatedStateStore(self.folder / "live.sqlite-state", self.disk)
        self.opened.append(store)
        return store

    def lines(self) -> dict[str, Gateway]:
        """Return the lines to all venues."""
        lines = {name: Line(venue, self.on_point, self.on_send) for name, venue in self.venues.items()}
        for line in lines.values():
            line.is_known = self.is_known
        return dict(lines)

    def is_known(self, child: str) -> bool:
        """Return whether the service has a child in its state: of archived ones, it knows no wire ids after a start."""
        return self.service is not None and child in self.service.engine.state.children

    def on_send(self, child: ChildOrder) -> None:
        """Check a child that the service sends."""
        self.say(f"{child.kind} of {child.quantity} for {child.parent} to {child.place}: {child.id}")
        self.checks.on_send(child)
        if self.service is not None and child.place in self.service.engine.state.down:
            raise BrokenGuaranteeError(f"the child {child.id} is sent to {child.place}, which is down")

    def books(self, symbol: str) -> tuple[VenueQuote, ...]:
        """Return the books of a moment, which move by a cent now and then."""
        now = self.timer.true_time()
        moved = zlib.crc32(f"{symbol}{now // (7 * NANO)}".encode()) % 5 - 2
        cent = NANO // 100
        mid = 1000 * cent + moved * cent
        bids, asks = ((mid - cent, 400), (mid - 2 * cent, 400)), ((mid + cent, 400), (mid + 2 * cent, 400))
        return tuple(
            VenueQuote(venue=name, bids=bids, asks=asks, taker=3_000_000, maker=-2_000_000, at=now) for name in VENUES
        )

    def on_rows(self, rows: Any) -> None:
        """Check rows that are durable."""
        self.checks.on_rows(rows)
        self.digest = zlib.crc32(rows[-1].chain, self.digest)

    def say(self, text: str) -> None:
        """Add a line to the trace."""
        self.trace.append(f"{self.timer.now / NANO:12.6f}  {text}")

    # crashes

    def on_point(self, what: str) -> None:
        """Count a step of the service, and end it there if that was to be."""
        if self.armed is None or self.process is None:
            return
        current = self.timer.current
        fault, steps = self.armed
        if fault.place not in ("", what):
            return
        if steps > 0:
            self.armed = fault, steps - 1
            return
        if current is not None and current.process is self.process and self.process.alive:
            self.armed = None
            self.crashing = f"{fault.kind}|{what}"
            self.process.alive = False
            raise Crash

    def on_step(self) -> None:
        """Bury a service that has crashed in its last step; count the step."""
        if self.crashing:
            kind, _, where = self.crashing.partition("|")
            self.crashing = ""
            self._bury(kind, where)
        elif self.armed is not None and self.process is not None and not self.armed[0].place:
            fault, steps = self.armed
            if steps > 0:
                self.armed = fault, steps - 1
            else:
                self.armed = None
                self.process.alive = False
                self._bury(fault.kind, "between two steps")

    def _bury(self, kind: str, where: str) -> None:
        assert self.process is not None
        power = kind == "power cut"
        self.disk.alive = False
        self.timer.kill(self.process)
        self._clean_up()
        if power:
            lost = self.disk.cut_power(self.rng)
            self.say(f"{kind} at {where}: {lost} writes lost or torn")
        else:
            self.disk.keep_everything()
            self.say(f"{kind} at {where}")
        self.survived[kind] += 1
        self._start_again(power=power)

    def _clean_up(self) -> None:
        self.disk.alive = False
        for one in self.opened:
            one.abandon()
        self.opened.clear()
        self.disk.alive = True
        self.disk.failing_syncs = 0
        if self.service is not None:
            for task in asyncio.all_tasks(self.network.loop):
                task._log_destroy_pending = False  # type: ignore[attr-defined]  # no warning: the process is gone
            if not self.network.loop.is_running():
                self.network.loop.close()
        self.service = self.process = None

    def _start_again(self, *, power: bool = False) -> None:
        for venue in self.venues.values():
            venue.break_line(self.rng, lambda report: report.key in self.checks.durable.reports)
        self.network.cut(self.rng, power=power)
        down = self.rng.choice((0.05, 0.5, 3.0)) * (0.5 + self.rng.random())
        self.disturb(down + 1.0)
        self.timer.after(int(down * NANO), self.start_life)

    def disturb(self, seconds: float) -> None:
        """Note that nothing must be on time until then."""
        self.disturbed_until = max(self.disturbed_until, self.timer.now + int(seconds * NANO))

    # a life of the service

    def start_life(self) -> None:
        """Start the service in a new process."""
        if self.process is not None:
            return
        self.process = Process("service")
        self.disturb(1.0)
        Thread(target=self._live, name="service", process=self.process).start()

    def _live(self) -> None:
        process = self.process
        loop = self.network.loop = SimulatedLoop(self.timer)
        try:
            loop.run_until_complete(self._serve(loop))
        except DataError as error:
            self.timer.errors.append(f"the log cannot be read: {error}")
        except RiskrouteError as error:
            self.say(f"the service ended: {error}")
            self.disturb(5.0)
        if process is self.process:
            self.timer.after(0, self._ended, process)

    def _ended(self, process: Process) -> None:
        """Go on after the service has ended by itself."""
        if process is not self.process:
            return
        process.alive = False
        self.timer.kill(process)
        self._clean_up()
        self.disk.keep_everything()
        if not self.ending:
            self._start_again()

    async def _serve(self, loop: SimulatedLoop) -> None:
        """Do what the command `serve` does, on the simulated network."""
        assert self.process is not None
        self.service = service = Service(self.config, clock=self.timer.wall, monotonic=self.timer.monotonic)
        app = api.make_api(service)
        config = uvicorn.Config(
            app,
            http=server._Connection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
        )
        config.load()
        state = ServerState()
        self._stopping = asyncio.Event()
        async with app.router.lifespan_context(app):
            self.say("the service has started")
            if self.checks.durable.halted and not service.engine.state.halted:
                raise BrokenGuaranteeError("trading was halted before the restart, and is not after it")
            self.network.listen(self.process, loop, lambda: server._Connection(config, state, {}, loop))
            await self._stopping.wait()
            self.network.deafen()
            await asyncio.sleep(0.05)
            for protocol in list(state.connections):
                protocol.shutdown()
            for _ in range(30):
                if not state.tasks:
                    break
                await asyncio.sleep(0.1)

    # clients

    def ask(
        self, rng: random.Random, method: str, path: str, scope: str, body: bytes = b"", seconds: float = 1.0
    ) -> Answer:
        """Send a request on a new connection; return the answer, of status 0 if it does not come in time."""
        connection = self.network.connect(rng)
        if connection is None:
            return Answer()
        connection.send(request(method, path, TOKENS[scope], body))
        return self._answer(connection, seconds)

    def _answer(self, connection: Connection, seconds: float) -> Answer:
        found: list[Answer] = []

        def ready() -> bool:
            if not found and (answer := read_answer(connection.received)) is not None:
                found.append(answer)
            return bool(found) or connection.broken

        connection.wait_for(ready, seconds)
        if not connection.broken:
            connection.leave()
        self.network.forget(connection)
        return found[0] if found else Answer()

    def place(self, order: Order) -> None:
        """Send an order until it is answered or refused."""
        rng = random.Random(f"{self.scenario.seed} order {order.number}")
        timer = self.timer
        deadline = timer.true_time() + int(order.seconds * NANO)
        self.placing += 1
        self.say(str(order))
        manner = order.manner
        for attempt in range(8):
            asked = timer.now
            connection = self.network.connect(rng)
            if connection is None:
                timer.sleep(0.5 * (attempt + 1))
                continue
            data = request("POST", "/orders", TOKENS["trade"], self._order_body(order, deadline))
            if manner == "half-open" and attempt == 0:
                connection.send(data[: rng.randrange(len(data))])
                timer.sleep(1.0)
                continue
            if manner == "slow":
                connection.send(data, piece=300, pause=0.01)
            else:
                connection.send(data)
            if manner == "leaves" and attempt == 0:
                timer.sleep(0.002 * rng.random())
                connection.leave()
                if rng.random() < 0.5:
                    break
                continue
            answer = self._answer(connection, 1.0)
            self.say(f"order {order.number}: {answer.status or 'no answer'}")
            if answer.status == 200:
                self.checks.on_answer(f"order {order.number}", json.loads(answer.body))
                self.digest = zlib.crc32(answer.body, self.digest)
                self.survived["orders answered"] += 1
                break
            if answer.status in (422, 409):
                self.survived["orders refused"] += 1
                break
            if answer.status == 0 and manner == "waits" and self.is_calm(asked):
                self.timer.errors.append(f"{order} was neither answered nor refused within a second")
            timer.sleep(0.3 * (attempt + 1))
        self.placing -= 1

    def _order_body(self, order: Order, deadline: int) -> bytes:
        instrument = self.config.instruments[order.symbol]

        def natural(levels: tuple[tuple[int, int], ...]) -> list[tuple[float, float]]:
            return [(price / NANO, float(instrument.natural(size))) for price, size in levels]

        quotes = [
            {"venue": one.venue, "at": one.at, "bids": natural(one.bids), "asks": natural(one.asks)}
            for one in self.books(order.symbol)
        ]
        limit = {"limit": 10.03 if order.side == "buy" else 9.97} if order.limit else {}
        return json.dumps(
            {
                "key": f"order {order.number}",
                "symbol": order.symbol,
                "side": order.side,
                "quantity": str(instrument.natural(order.quantity)),
                "deadline": deadline,
                "quotes": quotes,
                **limit,
            }
        ).encode()

    def watch(self) -> None:
        """Look after the service as its desk does: resume trading that is halted."""
        rng = random.Random(f"{self.scenario.seed} desk")
        while True:
            self.timer.sleep(4 + 8 * rng.random())
            if rng.random() < 0.2:
                self._compare_states()
            answer = self.ask(rng, "GET", "/health", "read")
            if answer.status == 200 and b"halted" in answer.body:
                self.timer.sleep(3 * rng.random())
                self.ask(rng, "POST", "/resume", "trade", seconds=5.0)

    def _compare_states(self) -> None:
        """Compare the state of a service that rests with that of the durable rows."""
        durable, service = self.checks.durable.state, self.service
        if service is None or not service.engine.ready or service.engine.state.events != durable.events:
            return
        if encode_trading_state(service.engine.state) != encode_trading_state(durable):
            names = difference(service.engine.state, durable)
            raise BrokenGuaranteeError(f"the state of the service is not that of its log: {names}")

    def halt(self) -> None:
        """Halt trading, which must be durable and answered within a second."""
        rng = random.Random(f"{self.scenario.seed} halt {self.timer.now}")
        asked = self.timer.now
        answer = self.ask(rng, "POST", "/halt", "halt", b'{"reason": "test"}')
        if answer.status == 200:
            self.survived["halt"] += 1
            if not self.checks.durable.halted and self.is_calm(asked):
                self.timer.errors.append("a halt was answered before it was durable")
        elif self.is_calm(asked):
            self.timer.errors.append(f"a halt was not answered within a second, status {answer.status}")

    def is_calm(self, since: int) -> bool:
        """Return whether nothing has gone wrong since then that may delay an answer."""
        return self.disturbed_until < since and not self.failing_sync

    def stream(self, seconds: float) -> None:
        """Read the stream of events for some seconds."""
        rng = random.Random(f"{self.scenario.seed} stream {self.timer.now}")
        connection = self.network.connect(rng)
        if connection is not None:
            after = "?after=0" if rng.random() < 0.3 else ""
            connection.send(request("GET", f"/events{after}", TOKENS["read"]))
            self.timer.sleep(seconds)
            connection.leave()
            self.network.forget(connection)

    def hold_connections(self, seconds: float) -> None:
        """Hold connections that never send their whole request."""
        rng = random.Random(f"{self.scenario.seed} half-open {self.timer.now}")
        data = request("POST", "/halt", TOKENS["halt"], b'{"reason": "half"}')
        held = []
        for _ in range(30):
            if (connection := self.network.connect(rng)) is not None:
                connection.send(data[: rng.randrange(1, len(data))])
                held.append(connection)
        self.timer.sleep(seconds)
        for connection in held:
            connection.leave()
            self.network.forget(connection)

    # faults

    def strike(self, fault: Fault) -> None:
        """Let something go wrong."""
        if self.ending:
            return
        for thread in self.process.threads if self.process is not None else ():
            thread.idle = 0  # polls are not skipped across a fault
        self.say(f"fault: {fault}")
        kind, now, length = fault.kind, self.timer.now, int(fault.seconds * NANO)
        if kind in ("kill", "power cut"):
            if self.process is not None and self.armed is None:
                self.armed = fault, fault.steps
            return
        if kind == "stop":
            if self.service is not None and self._stopping is not None and self.process is not None:
                self.network.in_loop(self._stopping.set)
                self.disturb(6.0)
                self.timer.after(40 * NANO, self._must_have_ended, self.process)
        elif kind == "pause":
            if self.process is not None:
                self.process.paused_until = now + length
                self.disturb(fault.seconds + 1.0)
        elif kind == "clock jump":
            self.timer.skew += length if self.rng.random() < 0.5 else -length
            self.disturb(1.0)
            self.timer.after(20 * NANO, self._set_clock)
        elif kind == "full disk":
            self.disk.full = True
            self.disturb(fault.seconds + 2.0)
            self.timer.after(length, self._free_disk)
        elif kind == "slow disk":
            self.disk.sync_seconds = 0.05 + 2.0 * self.rng.random() ** 3
            self.disturb(fault.seconds + 8.0)
            self.timer.after(length, self._quicken_disk)
        elif kind == "failed sync":
            self.disk.failing_syncs += 1
            self.failing_sync = True
            self.timer.after(NANO, self._calm_after_sync)
        elif kind == "silent venue":
            self.venues[fault.place].fall_silent(fault.seconds)
        elif kind == "cut line":
            self.venues[fault.place].cut(fault.seconds, self.rng, "cut")
        elif kind == "bust":
            if not self.venues[fault.place].bust_one(self.rng):
                return
        elif kind == "halt":
            Thread(target=self.halt, name="risk", process=self.world).start()
            return
        elif kind == "halt file":
            (self.folder / "HALT").touch()
            self.halt_file = True
            self.timer.after(length, self._remove_halt_file)
        elif kind == "event stream":
            Thread(target=self.stream, args=(fault.seconds,), name="screen", process=self.world).start()
        elif kind == "half-open connections":
            Thread(target=self.hold_connections, args=(fault.seconds,), name="holder", process=self.world).start()
        elif kind == "stopped worker":
            # Longer than a refit may take, it is for good: only a new process goes on.
            refit_faults.stopped_until = now + length if fault.seconds < LONGEST_REFIT else NEVER
        elif kind == "dead worker":
            refit_faults.dies = 1
        self.survived[kind] += 1

    def _set_clock(self) -> None:
        self.timer.skew = 0

    def _free_disk(self) -> None:
        self.disk.full = False

    def _quicken_disk(self) -> None:
        self.disk.sync_seconds = 0.0003

    def _calm_after_sync(self) -> None:
        """Be calm again once the sync has failed and the service has recovered."""
        if self.disk.failing_syncs or self.service is None or self.service.engine.failed:
            self.timer.after(NANO, self._calm_after_sync)
        else:
            self.failing_sync = False
            self.disturb(2.0)

    def _remove_halt_file(self) -> None:
        (self.folder / "HALT").unlink(missing_ok=True)
        self.halt_file = False

    def _must_have_ended(self, process: Process) -> None:
        if process is self.process and process.alive and process.paused_until < self.timer.now - 40 * NANO:
            self.timer.errors.append("the service did not stop within 40 s")

    # everything

    def run(self) -> Outcome:
        """Play the scenario, let everything settle, and check it all."""
        timer = self.timer
        refit_faults.__init__()  # type: ignore[misc]  # a new simulation has a new worker
        timer.on_step = self.on_step
        timer.errors = BrokenGuaranteeError.noted
        timer.errors.clear()
        timer.poll_due = {"riskroute engine": self._engine_due, "riskroute halt file": self._halt_file_due}
        broken = ""
        with active(timer), stand_ins(), self._patched():
            for order in self.scenario.orders:
                timer.at(order.at, self._send, order)
            for fault in self.scenario.faults:
                timer.at(fault.at, self.strike, fault)
            timer.at(0, self.start_life)
            Thread(target=self.watch, name="desk", process=self.world).start()
            try:
                timer.run(int(self.scenario.seconds * NANO))
                if not timer.errors:
                    self._settle()
                if not timer.errors:
                    self._check_all()
            except BrokenGuaranteeError:
                pass
            broken = timer.errors[0] if timer.errors else ""
            self._abandon()
        self.survived += Counter({"refit given up": refit_faults.given_up, "worker died in a refit": refit_faults.died})
        return Outcome(
            broken,
            timer.now / NANO,
            len(self.checks.durable.accepted),
            self.survived,
            self.trace,
            f"{self.digest:08x}",
            timer.steps,
        )

    def _send(self, order: Order) -> None:
        Thread(target=self.place, args=(order,), name=str(order.number), process=self.world).start()

    def _engine_due(self) -> int:
        if self.service is None:
            return NEVER
        engine = self.service.engine
        if engine.failed:
            return self.timer.now
        due = engine.timers.next_due
        when = NEVER if due is None else due - self.timer.start - self.timer.skew
        return min(when, engine._refit_not_before) if engine.learner.refit_due and not engine._refitting else when

    def _halt_file_due(self) -> int:
        return self.timer.now if self.halt_file else NEVER

    def _settle(self) -> None:
        """End all faults, and wait until every order is settled."""
        timer = self.timer
        self.say("no more faults")
        self.ending = True
        self.armed = None
        self.disk.full = False
        self.disk.failing_syncs = 0
        self._set_clock()
        self._quicken_disk()
        self._remove_halt_file()
        end = timer.now + 240 * NANO
        while timer.now < end and not timer.errors:
            timer.run(timer.now + 10 * NANO)
            if self._is_quiet():
                break
        else:
            if not timer.errors:
                self._explain_unrest()
        timer.run(timer.now + 5 * NANO)

    def _is_quiet(self) -> bool:
        service = self.service
        if service is None or not service.engine.ready or self.placing:
            return False
        state = self.checks.durable.state
        return not (state.unsettled or state.unknown or state.waiting or service.engine.learner.refit_due)

    def _explain_unrest(self) -> None:
        service, state = self.service, self.checks.durable.state
        if service is None:
            said = "the service does not run"
        elif not service.engine.ready:
            said = f"the service is not ready: {service.engine.failed or service.status}"
        elif state.unsettled:
            said = f"{len(state.unsettled)} orders are not settled, such as {next(iter(state.unsettled))}"
        elif state.unknown or state.waiting:
            said = "children are unknown, or wait for fills"
        elif service.engine.learner.refit_due:
            said = f"{len(service.engine.learner.unlearned)} settled orders wait for a refit"
        else:
            said = f"{self.placing} clients wait"
        self.timer.errors.append(f"240 s after the last fault, {said}")

    def _check_all(self) -> None:
        service = self.service
        assert service is not None
        assert self._stopping is not None
        learner = service.engine.learner
        self.ending = True
        self.network.in_loop(self._stopping.set)
        self.timer.run(self.timer.now + 20 * NANO)
        if self.timer.errors:
            return
        if self.process is not None:
            self.timer.errors.append("the service did not stop within 20 s")
            return
        log = self.open_log(create=False)
        self.checks.at_the_end(log, CountingRouter, self.scenario.refit_every > 0)
        self._check_learner(learner)
        log.close()
        self.opened.clear()

    def _check_learner(self, learner: Learner) -> None:
        """Check that the router has learned every settled order once, or keeps it for the next refit."""
        router = learner.router
        assert isinstance(router, CountingRouter)
        count = router.learned + len(learner.unlearned)
        settled = list(self.checks.durable.settled)
        if learner.disabled:
            raise BrokenGuaranteeError(f"the router is out of service: {learner.disabled}")
        if count != len(settled):
            raise BrokenGuaranteeError(f"the router has learned {count} orders of {len(settled)}")
        sequence = 0
        for key in settled[: router.learned]:
            sequence = zlib.crc32(key.encode(), sequence)
        if sequence != router.sequence:
            raise BrokenGuaranteeError("the router has learned other orders than were settled")

    def _abandon(self) -> None:
        """End whatever still runs."""
        for process in (self.process, self.world):
            if process is not None:
                self.timer.kill(process)
        self._clean_up()

    @contextmanager
    def _patched(self) -> Iterator[None]:
        """Check every recovery, and warm up once."""
        engine, parts = vars(engine_module), vars(service_module)
        recovered, warmed = engine["recover_log"], parts["warm_up"]

        def checked(log: Log, learner: Learner, store: StateStore) -> tuple[TradingState, OrderArchive, int]:
            found: tuple[TradingState, OrderArchive, int] = recovered(log, learner, store)
            self.checks.on_recovered(*found[:2])
            return found

        engine["recover_log"], parts["warm_up"] = checked, lambda *_: None
        # A few orders are enough to archive some, and snapshots follow each other:
        few: dict[str, Any] = {"SETTLED_KEPT": 20, "ARCHIVED_TOGETHER": 5}
        quick = (
            mock.patch.object(SnapshotWriter, "pause", 1),
            mock.patch.object(BackgroundProcess, "least", LONGEST_REFIT),
        )
        try:
            with mock.patch.multiple(fold, **few), quick[0], quick[1]:
                yield
        finally:
            engine["recover_log"], parts["warm_up"] = recovered, warmed


def simulate(scenario: Scenario) -> Outcome:
    """Play a scenario in a folder of its own."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="simulated-", dir=memory if memory.is_dir() else None))
    loggers = [logging.getLogger(name) for name in ("riskroute.live", "uvicorn.error", "asyncio")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    before, sys.unraisablehook = sys.unraisablehook, lambda _: None  # coroutines of services that have crashed
    try:
        return Simulation(scenario, folder).run()
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        shutil.rmtree(folder, ignore_errors=True)
        gc.collect()
        gc.freeze()  # whatever is left is there for good
        sys.unraisablehook = before
