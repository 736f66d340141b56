"""Engines on files that are killed at random, on venues that report badly: a program that tests start, for it forks.

shaken_engines.py FOLDER ROUTER ORDERS KILLS SEED PACE     prints what differs from a life in which nothing goes wrong

With PACE 0 every order is settled before the next one comes, so that a router must end with the same belief.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from disk_images import Operation
from faulty_disk import FaultyDisk, FaultyLog, no_fault
from killed_services import in_child
from live_engines import World
from live_orders import parent_order
from riskroute.live.log.interface import events_after, verify_chain
from riskroute.live.log.recovery import replay, verify
from riskroute.live.log.sqlite import SqliteLog
from riskroute.live.state.events import NANO, Settled
from riskroute.live.venues.simulated import Faults, JournalledVenue, QuotedMarket
from riskroute.routers.registry import make_router, router_parameters

WRONG = Faults(duplicate=0.05, disorder=0.05, silence=0.02)
"""Reports that come twice, late, or only when they are asked for."""

DEAD = 5 * NANO
"""So long a dead engine stays dead."""


class FileWorld(World):
    """The same world, in files that outlive its process."""

    def __init__(self, folder: Path, faults: Faults, seed: int, disk: FaultyDisk) -> None:
        super().__init__(faults=faults, seed=seed, snapshot_every=2_000)
        self.folder, self.disk = folder, disk
        market = QuotedMarket(self.books, 1, hidden={"P": 100})
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


def killing(when: int) -> Callable[[int, Operation, Callable[[], None]], None]:
    """A fault that ends this process at a given change of a file."""

    def fault(number: int, operation: Operation, perform: Callable[[], None]) -> None:
        if number == when:
            os.kill(os.getpid(), signal.SIGKILL)
        perform()

    return fault


def learned(folder: Path) -> dict[str, Any]:
    """What a log says in the end: positions, outcomes, what they taught; and whether it keeps its promises."""
    with SqliteLog(folder / "live.db", "test") as log:
        verify_chain(log)
        state, check = replay(log), verify(log)
        settled = [event.outcome for _, event in events_after(log) if isinstance(event, Settled)]
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


def main(folder: Path, router: str, orders: int, kills: int, seed: int, pace: float) -> None:
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
        status = one_life(shaken, WRONG, seed + life, no_fault if last else killing(when), play)
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
    where, name, orders, kills, seed, pace = sys.argv[1:]
    main(Path(where), name, int(orders), int(kills), int(seed), float(pace))
