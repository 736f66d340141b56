"""Kill whole services and engines with kill -9: a program of its own, since forking is safe only without threads.

killed_services.py service FOLDER STEP ROUTER..   one life for every STEP-th change of a file or message, killed before,
                                                  in or after it, and a second life that must leave all in order
killed_services.py resend FOLDER STEP ROUTER..    the same with a service that wrongly sends open children again after
                                                  its start instead of querying them; stops at the first mistake
killed_services.py engine FOLDER ROUTER ORDERS KILLS SEED PACE
                                                  an engine killed at random, with faulty reports; prints what differs
                                                  from an undisturbed life

With PACE 0 every order is settled before the next one arrives, so the router must end with the same belief.
"""

from __future__ import annotations

import json
import math
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from faulty_disk import FaultyDisk, FaultyLog, FaultyStateStore, Operation, no_fault
from live_engines import World, parent_order
from live_logs import LONG
from live_services import order_json, served, service_config
from riskroute.live.config import LiveConfig
from riskroute.live.engine import TradingEngine
from riskroute.live.log.interface import Log, log_events_after, verify_log_chain
from riskroute.live.log.recovery import replay_log, verify_log
from riskroute.live.log.snapshot_writer import SnapshotWriter
from riskroute.live.log.sqlite import SqliteLog
from riskroute.live.log.state_store import SqliteStateStore, StateStore
from riskroute.live.places import Places
from riskroute.live.service import Service
from riskroute.live.state import fold
from riskroute.live.state.amounts import NANO
from riskroute.live.state.archive import OrderArchive
from riskroute.live.state.events import AcceptedEvent, SettledEvent
from riskroute.live.state.orders import ChildOrder, order_id
from riskroute.live.state.trading_state import TradingState, encode_trading_state
from riskroute.live.venues.simulated import Faults, JournalledVenue, ServedSimulatedVenue, SimulatedVenueMarket
from riskroute.routers.registry import make_router, router_parameters

MANNERS = ("before", "in", "after")
ORDERS = 3
PLACES = ("A", "B", "P")
AT_THE_END = -1

Perform = Callable[[Operation, Callable[[], None]], None]


def config_of(folder: Path, router: str) -> LiveConfig:
    """Two venues and a pool that answer at once, and where those who rest soon meet others; snapshots all the time."""
    quick = {"latency_ms": 0.0, "fill_seconds": 0.002, "partial": 0.3}
    return service_config(
        folder,
        log={"path": str(folder / "live.sqlite"), "snapshot_every": 5},
        router={"name": router},
        venues={"A": quick, "B": quick | {"seed": 1}},
        pools={"P": quick | {"hidden": 100}},
        limits={"quote_seconds": 3600.0, "slow_write_seconds": 600.0, "clock_jump_seconds": 600.0},
        patience_seconds=0.3,
    )


def orders_of(now: int) -> list[dict[str, Any]]:
    """What the client wants; it sends the same again if it does not get an answer."""
    return [
        order_json(
            f"order {number}",
            quantity=350 + number,
            side="buy" if number % 2 else "sell",
            deadline=now + 600 * NANO,
            quotes=[one | {"at": now} for one in order_json()["quotes"]],
        )
        for number in range(ORDERS)
    ]


class Journal:
    """The journal of a venue, every line of which is a change of a file."""

    def __init__(self, name: str, file: Any, perform: Perform) -> None:
        self.name, self.file, self.perform = name, file, perform

    def write(self, line: bytes) -> None:
        self.perform(Operation("write", self.name, AT_THE_END, line), lambda: self._written(line))

    def _written(self, line: bytes) -> None:
        self.file.write(line)

    def close(self) -> None:
        self.file.close()


def watch(service: Service, folder: Path, perform: Perform) -> None:
    """Put messages to venues and their journals before ``perform``, and note children that arrive twice."""
    for gateway in service.engine.outbox.gateways.values():
        assert isinstance(gateway, ServedSimulatedVenue)
        _watch_venue(gateway, gateway.venue, folder, perform)


def _watch_venue(gateway: ServedSimulatedVenue, venue: JournalledVenue, folder: Path, perform: Perform) -> None:
    send, arrive, connect = gateway.send, venue._arrive, venue.connect

    def watched_send(child: ChildOrder) -> None:
        perform(Operation("message", venue.place), lambda: send(child))

    def watched_arrival(child: ChildOrder) -> None:
        if child.id in venue.children:
            (folder / "twice").write_text(child.id)
        arrive(child)

    def watched_connect(sink: Any) -> None:
        connect(sink)
        venue._journal = Journal(venue.path.name, venue._journal, perform)  # type: ignore[assignment]  # all it needs

    gateway.send = watched_send  # type: ignore[method-assign]  # what a test may do
    venue._arrive = watched_arrival  # type: ignore[method-assign]  # stand-in
    venue.connect = watched_connect  # type: ignore[method-assign]  # stand-in


def killing(when: int, manner: str, folder: Path) -> Callable[[int, Operation, Callable[[], None]], None]:
    """A fault that ends this process at a given change."""

    def fault(number: int, operation: Operation, perform: Callable[[], None]) -> None:
        if number < when:
            perform()
            return
        if manner == "after":
            perform()
        elif manner == "in" and operation.what == "write":
            file = os.open(folder / operation.file, os.O_WRONLY)
            offset = os.fstat(file).st_size if operation.offset == AT_THE_END else operation.offset
            os.pwrite(file, operation.data[: len(operation.data) // 2], offset)
        os.kill(os.getpid(), signal.SIGKILL)

    return fault


def live(
    folder: Path,
    router: str,
    log: Log,
    store: StateStore,
    orders: list[dict[str, Any]],
    answered: Callable[[str, str], None],
    perform: Perform,
) -> TradingState:
    """Send all orders, and wait until they are settled; tell of every answer."""
    service = Service(config_of(folder, router), log=log, store=store)
    watch(service, folder, perform)
    with served(service) as client:
        while not service.engine.ready:
            time.sleep(0.001)
        for order in orders:
            answer = client.post("/orders", json=order)
            if answer.status_code != 200:
                raise RuntimeError(answer.text)
            answered(order["key"], answer.text)
        end = time.monotonic() + 60
        while service.engine.state.unsettled and time.monotonic() < end:
            time.sleep(0.001)
        service.engine.flush()
        if lost := service.engine.failed or archive_complaint(log, service.engine):
            raise RuntimeError(lost)
        return service.engine.state


def first_life(folder: Path, router: str, when: int, manner: str, orders: list[dict[str, Any]], file: int) -> None:
    """A life that is cut short at a change."""
    disk = FaultyDisk(killing(when, manner, folder))
    log = FaultyLog(folder / "live.sqlite", disk, pages=8)
    store = FaultyStateStore(folder / "live.sqlite-state", disk, pages=8)

    def answered(key: str, text: str) -> None:
        line = f"{json.dumps([key, text])}\n".encode()
        disk.perform(Operation("answer", key), lambda: _said(file, line))

    live(folder, router, log, store, orders, answered, disk.perform)


def _said(file: int, line: bytes) -> None:
    os.write(file, line)


def second_life(folder: Path, router: str, orders: list[dict[str, Any]], answers: dict[str, str]) -> str:
    """Go on after a life that was cut short; say what is wrong, nothing if all promises hold."""
    found: dict[str, str] = {}
    log = SqliteLog(folder / "live.sqlite", "test")
    store = SqliteStateStore(folder / "live.sqlite-state", "test")
    state = live(folder, router, log, store, orders, found.__setitem__, lambda operation, call: _done(call))
    if any(found[key] != text for key, text in answers.items()):
        return "an answer was lost"
    with SqliteLog(folder / "live.sqlite", "test") as log:
        return complaint(folder, log, state)


def _done(call: Callable[[], None]) -> None:
    call()


def complaint(folder: Path, log: Log, state: TradingState, symbol: str = "DEMO", stem: str = "live.sqlite") -> str:
    """What is wrong with a log, the journals of its venues, and the state of the service that wrote it."""
    verify_log_chain(log)
    events = [event for _, event in log_events_after(log)]
    accepted = Counter(event.order.key for event in events if isinstance(event, AcceptedEvent))
    settled = Counter(event.outcome.parent for event in events if isinstance(event, SettledEvent))
    if state.unsettled or settled != accepted or set(settled.values()) != {1}:
        waiting = {name: child.status for name, child in state.children.items() if not child.done}
        found = f"{dict(settled)} of {dict(accepted)}; open children: {waiting}, unsettled: {list(state.unsettled)}"
        return f"not every order was learned once: {found}, halted: {state.halted!r}"
    if state.halted or state.orphans or state.overfilled or state.corrections:
        return f"trading went wrong: {state.halted}"
    if encode_trading_state(replay_log(log)) != encode_trading_state(state):
        return "the log does not lead to the state"
    if not verify_log(log).holds:
        return "a decision comes out differently"
    with mock.patch.object(fold, "SETTLED_KEPT", 10**9):  # all orders in the state
        return venues_complaint(folder, replay_log(log), symbol, stem)


def archive_complaint(log: Log, engine: TradingEngine) -> str:
    """What the archive of an engine has not as its log says."""
    state, archive = TradingState(), OrderArchive(log.header.stream)
    for _, event in log_events_after(log):
        fold.apply(state, event, archive)
    with engine.lock:
        if archive.unsaved.keys() & {order_id(archive.stream, key) for key in engine.state.parents}:
            return "an order is archived and in the state"
        wrong = [one for one in archive.unsaved.values() if engine.ledger.archive.find(one.id) != one]
    return f"{len(wrong)} archived orders are lost or different" if wrong else ""


def venues_complaint(folder: Path, state: TradingState, symbol: str, stem: str) -> str:
    """What the journals of the venues have and the state does not, or the other way round."""
    if (folder / "twice").exists():
        return f"a venue got {(folder / 'twice').read_text()} twice"
    sent = {name: child for name, child in state.children.items() if child.reason != "withheld"}
    there: dict[str, int] = {}
    acknowledged: Counter[str] = Counter()
    for place in PLACES:
        journal = folder / f"{stem}-venue-{place}.jsonl"
        for line in journal.read_bytes().splitlines() if journal.exists() else []:
            try:
                one = json.loads(line)
            except ValueError:
                continue  # cut off
            there[one["report"]["child"]] = one["cum"]
            acknowledged[one["report"]["child"]] += one["report"]["kind"] == "acknowledged"
    if there.keys() != sent.keys():
        return f"venues have {len(there)} children, the log has {len(sent)}"
    if set(acknowledged.values()) - {1}:
        return "a venue took a child twice"
    if wrong := [name for name, filled in there.items() if sent[name].filled != filled]:
        return f"fills of {wrong[0]} are not booked once"
    shares = sum((1 if sent[name].order.side == "buy" else -1) * filled for name, filled in there.items())
    held = state.positions[symbol].shares if symbol in state.positions else 0
    return "" if held == shares else f"the position is {held}, at the venues {shares}"


def killed_once(folder: Path, router: str, when: int, manner: str) -> str | None:
    """What is wrong after a life that is ended at a change and another; None if the first ends by itself before."""
    folder.mkdir(parents=True)
    orders = orders_of(time.time_ns())
    said, status = in_child(lambda file: first_life(folder, router, when, manner, orders, file))
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0:
        return None
    if not os.WIFSIGNALED(status):
        return f"the first life ended with status {status}"
    answers = dict(json.loads(line) for line in said.splitlines())
    said, status = in_child(lambda file: _said(file, second_life(folder, router, orders, answers).encode()))
    return said if status == 0 else f"the second life ended with status {status}"


def in_child(work: Callable[[int], None]) -> tuple[str, int]:
    """What a child process writes to the file that it is given, and how it ends."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            work(writing)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        said = file.read()
    return said, os.waitpid(child, 0)[1]


def kill_all(folder: Path, router: str, step: int, most: float = math.inf) -> dict[str, Any]:
    """Kill at every ``step``-th change; how many lives were cut short, and ``most`` things that were wrong."""
    killed, wrong, when = 0, [], 1
    (folder / "whole").mkdir(parents=True)
    if text := second_life(folder / "whole", router, orders_of(time.time_ns()), {}):
        wrong.append(f"not killed: {text}")
    end = time.monotonic() + 300
    while threading.active_count() > 1 and time.monotonic() < end:
        time.sleep(0.01)  # threads beside the service end by themselves
    assert threading.active_count() == 1  # everything is loaded now, and forking is safe
    while len(wrong) < most:
        manners = MANNERS if LONG else [MANNERS[when // step % 3]]
        said = {manner: killed_once(folder / f"{when}{manner}", router, when, manner) for manner in manners}
        if None in said.values():
            break
        killed += len(said)
        wrong += [f"killed {manner} change {when}: {text}" for manner, text in said.items() if text]
        when += step
    return {"killed": killed, "changes": when - 1, "wrong": wrong}


WRONG = Faults(duplicate=0.05, disorder=0.05, silence=0.02)
"""Reports that come twice, late, or only when they are asked for."""

DEAD = 5 * NANO
"""So long a dead engine stays dead."""


class FileWorld(World):
    """The same world, in files that outlive its process."""

    def __init__(self, folder: Path, faults: Faults, seed: int, disk: FaultyDisk) -> None:
        super().__init__(faults=faults, seed=seed, snapshot_every=2_000)
        self.folder, self.disk = folder, disk
        market = SimulatedVenueMarket(self.books, 1, hidden={"P": 100})
        self.venues = {
            name: JournalledVenue(name, market, self.clock, faults=faults, seed=seed, journal=folder / f"{name}.jsonl")
            for name in ("A", "B", "P")
        }
        self.make_log = self._log

    def _log(self) -> FaultyLog:
        log = FaultyLog(self.folder / "live.db", self.disk)
        last = next(iter(log.read(log.head().seq - 1, 1)))
        if last.seq:
            self.clock.now = last.at + DEAD
        return log

    def play(self, router: str, orders: int, pace: float) -> None:
        name, parameters = router_parameters(router)
        self.start(make_router(name, **parameters))
        self.pass_time(1)
        for number in range(self.state.decisions, orders):
            side = "buy" if number % 3 else "sell"
            now = self.clock.now
            order = parent_order(
                f"order {number}", 150 + number % 97, side=side, received=now, deadline=now + 60 * NANO
            )
            self.engine.submit(order).result(60)
            self.pass_time(pace or 0.02)
            while not pace and self.state.unsettled:
                self.pass_time(0.1)
        while self.state.unsettled:
            self.pass_time(1)
        self.pass_time(1)
        self.engine.close()


def killing_at(when: int) -> Callable[[int, Operation, Callable[[], None]], None]:
    """A fault that ends this process at a given change of a file."""

    def fault(number: int, operation: Operation, perform: Callable[[], None]) -> None:
        if number == when:
            os.kill(os.getpid(), signal.SIGKILL)
        perform()

    return fault


def learned(folder: Path) -> dict[str, Any]:
    """What a log says in the end: positions, outcomes, what they taught; and whether it keeps its promises."""
    with SqliteLog(folder / "live.db", "test") as log:
        verify_log_chain(log)
        state, check = replay_log(log), verify_log(log)
        settled = [event.outcome for _, event in log_events_after(log) if isinstance(event, SettledEvent)]
        held = {name: [one.shares, one.cash, one.fees] for name, one in state.positions.items()}
    return {
        "positions": held,
        "outcomes": {one.parent: [one.filled, one.left, one.cost] for one in settled},
        "once": len(settled) == len({one.parent for one in settled}) == state.settled == state.decisions,
        "whole": check.holds and not (state.unsettled or state.halted or state.orphans or state.overfilled),
        "duplicates": state.duplicates,
    }


def one_life(folder: Path, faults: Faults, seed: int, fault: Any, play: tuple[str, int, float]) -> int:
    """A life in a process of its own; how it ended."""

    def work(file: int) -> None:
        world = FileWorld(folder, faults, seed, FaultyDisk(fault))
        world.play(*play)
        os.write(file, json.dumps([world.disk.count, world.engine.learner.router.state()]).encode())

    said, status = in_child(work)
    if status == 0:
        (folder / "end.json").write_text(said)
    return status


def shake(folder: Path, router: str, orders: int, kills: int, seed: int, pace: float) -> None:
    """Play the same orders without faults and with all of them, and print what differs."""
    draw = random.Random(seed)
    plain, shaken = folder / "plain", folder / "shaken"
    plain.mkdir(parents=True)
    shaken.mkdir()
    play = router, orders, pace
    wrong = []
    if one_life(plain, Faults(), seed, no_fault, play) != 0:
        wrong.append("the life without faults did not end well")
    changes = json.loads((plain / "end.json").read_text())[0]
    one, killed = learned(plain), 0  # decides all again, so that the lives to come find everything loaded
    for life in range(kills + 1):
        last = life == kills
        when = draw.randrange(1, changes // kills)
        status = one_life(shaken, WRONG, seed + life, no_fault if last else killing_at(when), play)
        if not last and os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            killed += 1
        elif status != 0:
            wrong.append(f"life {life} ended with status {status}")
    two = learned(shaken)
    wrong += [f"{name} differ" for name in ("positions", "outcomes") if one[name] != two[name]]
    wrong += [f"not {name}" for name in ("once", "whole") if not (one[name] and two[name])]
    if (
        pace == 0
        and json.loads((plain / "end.json").read_text())[1] != json.loads((shaken / "end.json").read_text())[1]
    ):
        wrong.append("what the router learned differs")
    print(json.dumps({"killed": killed, "orders": len(two["outcomes"]), "wrong": wrong}))  # noqa: T201 - for the test


if __name__ == "__main__":
    fold.SETTLED_KEPT, fold.ARCHIVED_TOGETHER, SnapshotWriter.pause = 1, 0, 1  # few orders, but archived, and snapshots
    task, *words = sys.argv[1:]
    if task == "engine":
        where, name, orders, kills, seed, pace = words
        shake(Path(where), name, int(orders), int(kills), int(seed), float(pace))
    else:
        if task == "resend":
            resolve = Places.resolve

            def resend(self: Places, place: str) -> None:
                resolve(self, place)
                for name in self.unresolved[place]:
                    self.gateways[place].send(self._ledger.state.children[name].order)

            Places.resolve = resend  # type: ignore[method-assign]  # the mistake
        where, step, *routers = words
        enough = 1 if task == "resend" else math.inf
        found = {
            name: kill_all(Path(where) / str(number), name, int(step), enough) for number, name in enumerate(routers)
        }
        print(json.dumps(found))  # noqa: T201 - for the test
