"""A router whose disk is full or slow halts, says so, and books what it missed when the disk is well again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import msgspec
import pytest

from faulty_disk import FaultyDisk, FaultyLog, Operation
from live_engines import World, parent_order
from live_services import LONGEST, Client, order_json, served, service_config
from riskroute.core.errors import RefusedError, StateError, WriteError
from riskroute.live.log.recovery import replay_log, verify_log
from riskroute.live.service import Service
from riskroute.live.state.amounts import NANO
from riskroute.live.state.trading_state import encode_trading_state
from riskroute.routers.rules import RestEvenRule

pytestmark = pytest.mark.crash

Survived = Callable[[str, int], None]


class BadDisk:
    """A disk that is full, or slow to sync, while it is told to be."""

    def __init__(self) -> None:
        self.full, self.slow, self.failures = False, 0.0, 0
        self.disk = FaultyDisk(self)

    def __call__(self, number: int, operation: Operation, perform: Callable[[], None]) -> None:
        if self.full and operation.what == "write":
            self.failures += 1
            raise apsw.exception_for(apsw.SQLITE_FULL)
        if self.slow and operation.what == "sync":
            time.sleep(self.slow)
        perform()


def test_an_engine_on_a_full_disk_halts_and_books_what_it_missed(quick_folder: Path, survived: Survived) -> None:
    bad = BadDisk()
    world = World(log=lambda: FaultyLog(quick_folder / "live.db", bad.disk))
    engine = world.start(RestEvenRule())
    engine.submit(parent_order("before", 400, received=world.clock.now, deadline=world.clock.now + 60 * NANO)).result(
        60
    )
    engine.flush()
    world.pass_time(0.01)  # its children rest
    assert [venue.children for venue in world.venues.values() if venue.children]
    bad.full = True
    with pytest.raises(WriteError, match="cannot be written"):
        engine.submit(parent_order("lost", 300, received=world.clock.now)).result(60)
    with pytest.raises(StateError, match="the engine has failed: the log cannot be written"):
        engine.submit(parent_order("refused", 300, received=world.clock.now))
    world.clock.now += 30 * NANO
    for venue in world.venues.values():
        venue.deliver()  # fills come, and nobody can write them down
    assert world.shares_at_venues() > 0
    assert not engine.revive()
    bad.full = False
    assert engine.revive()
    assert engine.state.halted.startswith("the log could not be written: ")
    world.pass_time(5)
    with pytest.raises(RefusedError, match="trading is halted: the log could not be written"):
        engine.submit(parent_order("refused", 300, received=world.clock.now))
    assert engine.state.positions["QVEX"].shares == world.shares_at_venues()
    engine.resume("desk")
    engine.flush()
    world.pass_time(70)
    assert engine.submit(parent_order("lost", 300, received=world.clock.now)).result(60).parent == "lost"
    engine.flush()
    world.pass_time(70)
    assert (engine.state.settled, engine.state.decisions) == (2, 2)
    assert engine.state.positions["QVEX"].shares == world.shares_at_venues()
    assert encode_trading_state(replay_log(engine.log)) == encode_trading_state(engine.state)
    assert verify_log(engine.log).holds
    assert bad.failures > 0
    survived("full disk under an engine that trades", 1)
    engine.close()


def test_an_order_that_was_not_written_is_not_answered_while_the_disk_is_full(quick_folder: Path) -> None:
    bad = BadDisk()
    world = World(log=lambda: FaultyLog(quick_folder / "live.db", bad.disk))
    engine = world.start(RestEvenRule())
    order = parent_order("lost", 300, received=world.clock.now)
    bad.full = True
    for _ in range(2):
        with pytest.raises(StateError, match="cannot be written"):
            engine.submit(order).result(60)
    engine.close()


def test_a_bust_during_a_full_disk_is_booked_when_there_is_space(quick_folder: Path) -> None:
    bad = BadDisk()
    world = World(log=lambda: FaultyLog(quick_folder / "live.db", bad.disk))
    engine = world.start()
    engine.submit(parent_order("one", 1500, received=world.clock.now)).result(60)
    engine.flush()
    world.pass_time(1)
    assert not engine.state.unsettled
    bad.full = True
    for name in ("A", "B"):  # the write of the first fails, the second is not even tried
        venue = world.venues[name]
        ((child, there),) = venue.children.items()
        venue.bust(child, next(one.exec_id for one in there.reports if one.kind == "filled"))
        world.pass_time(0.1)
        assert engine.failed
    bad.full = False
    assert engine.revive()
    world.pass_time(1)
    assert engine.state.positions["QVEX"].shares == world.shares_at_venues() == 0
    engine.close()


@contextmanager
def service_on(folder: Path, bad: BadDisk) -> Iterator[tuple[Service, Client]]:
    service = Service(service_config(folder), log=FaultyLog(folder / "live.sqlite", bad.disk))
    with served(service) as client:
        yield service, client


def wait_for(client: Client, status: str) -> None:
    end = time.monotonic() + LONGEST
    while client.get("/health").json() != {"status": status}:
        assert time.monotonic() < end, client.get("/health").json()
        time.sleep(0.01)


def test_a_service_on_a_full_disk_recovers_and_stays_halted(quick_folder: Path, survived: Survived) -> None:
    bad = BadDisk()
    with service_on(quick_folder, bad) as (service, client):
        assert client.post("/orders", json=order_json("first")).status_code == 200
        client.settled("first")
        service.engine.flush()  # nothing of the first order waits to be written
        bad.full = True
        answer = client.post("/orders", json=order_json("second"))
        assert answer.status_code == 503
        assert answer.json() == {"error": "the log cannot be written: the disk is full"}
        answer = client.post("/orders", json=order_json("third"))
        assert answer.status_code == 503
        assert answer.json() == {"error": "the router is not ready: the log cannot be written: the disk is full"}
        wait_for(client, "failed")
        bad.full = False
        wait_for(client, "halted")
        answer = client.post("/orders", json=order_json("third"))
        assert answer.status_code == 503
        assert answer.json() == {"error": "trading is halted: the log could not be written: the disk is full"}
        assert str(quick_folder) not in client.get("/state").text  # clients need not know where the log is
        assert client.post("/resume").status_code == 200
        assert client.post("/orders", json=order_json("second")).status_code == 200
        assert client.settled("second")["filled"] == 100
        assert service.engine.state.decisions == 2
    survived("full disk under a service", 1)


def test_a_service_on_a_slow_disk_halts_and_keeps_booking(quick_folder: Path, survived: Survived) -> None:
    bad = BadDisk()
    with service_on(quick_folder, bad) as (service, client):
        ledger, patient = service.engine.ledger, service.engine.limits
        ledger.limits = msgspec.structs.replace(patient, slow_write=NANO)
        bad.slow = 1.2
        assert client.post("/orders", json=order_json("slow")).status_code == 200
        bad.slow = 0.0
        wait_for(client, "halted")
        answer = client.post("/orders", json=order_json("refused"))
        assert answer.status_code == 503
        assert answer.json()["error"] == "trading is halted: the log took more than 1 s to write"
        client.settled("slow")
        service.engine.flush(LONGEST)  # all of it is written, and known to have been slow
        ledger.limits = patient
        assert client.post("/resume").status_code == 200
        assert client.post("/orders", json=order_json("next")).status_code == 200
        assert client.settled("next")["filled"] == 100
        assert service.engine.state.settled == 2
    survived("slow disk under a service", 1)
