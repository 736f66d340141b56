"""Learning while orders are under way: at once, or in a worker whose result is an event of the log."""

from __future__ import annotations

import pickle
from concurrent.futures import Executor, Future
from typing import Any

import msgspec
import pytest

from live_engines import World, parent_order, stored_events
from live_logs import MemoryLog
from riskroute.core.errors import DataError, WriteError
from riskroute.live.learner import Learner
from riskroute.live.log.recovery import replay_log, verify_log
from riskroute.live.state.events import PlannedEvent
from riskroute.live.state.trading_state import encode_trading_state
from riskroute.live.venues.simulated import Faults
from riskroute.routers.registry import make_router
from riskroute.routers.router import Router


class Lazy(Executor):
    """A worker that works when the test says so, on a copy, as another process would."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Future[Any], bytes]] = []

    def submit(self, job: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.jobs.append((Future(), pickle.dumps(job)))
        return self.jobs[-1][0]

    def work(self) -> None:
        jobs, self.jobs = self.jobs, []
        for done, job in jobs:
            done.set_result(pickle.loads(job)())


def bandit() -> Router:
    return make_router("thompson", units=4, awaited=1000, ahead=True, rounds=10_000)


def planned(world: World) -> list[PlannedEvent]:
    return [event for event in stored_events(world.store) if isinstance(event, PlannedEvent)]


def submit(world: World, number: int) -> Any:
    side = "buy" if number % 2 else "sell"
    return world.engine.submit(parent_order(f"order {number}", 400, side=side, received=world.clock.now)).result(0)


def test_decisions_use_a_belief_from_its_event_on() -> None:
    worker, world = Lazy(), World()
    world.start(bandit(), refit_every=10, worker=worker)
    beliefs = []
    for number in range(40):
        beliefs.append(submit(world, number).belief)
        world.pass_time(0.05)
        if number == 25:
            assert len(worker.jobs) == 1
            worker.work()
            world.engine.pump()
    assert beliefs == [0] * 26 + [1] * 14
    first, second = planned(world)
    assert (first.belief, second.belief) == (0, 1)
    assert second.learned == 10
    assert second.state != first.state
    result = verify_log(world.engine.log, refits=True)
    assert (result.decisions, result.different) == (40, ())


@pytest.mark.parametrize("refit_every", [0, 7])
def test_the_log_restores_the_router_after_every_crash(refit_every: int) -> None:
    world = World(faults=Faults(partial=0.2, disorder=0.2, duplicate=0.2), snapshot_every=50)
    world.start(bandit(), refit_every=refit_every)
    for number in range(60):
        if number % 13 == 12:
            world.pass_time(0.004)  # some orders are under way
            before = world.engine.learner
            world.die()
            world.start(bandit(), refit_every=refit_every)
            after = world.engine.learner
            assert after.router.state() == before.router.state()
            assert (after.followed, after.unlearned, after.belief) == (before.followed, before.unlearned, before.belief)
            world.pass_time(1)
        submit(world, number)
        world.pass_time(0.03)
    world.pass_time(20)
    assert world.state.settled == 60
    assert encode_trading_state(replay_log(world.engine.log)) == encode_trading_state(world.state)
    result = verify_log(world.engine.log, refits=refit_every > 0)
    assert (result.decisions, result.different) == (60, ())
    assert len(planned(world)) > (refit_every > 0) * 3
    learned = world.engine.learner.router.learned["policy"]["memory"]["played"]  # type: ignore[attr-defined]
    assert learned >= 40


def test_a_refit_that_fails_leaves_the_belief_and_is_tried_again_later(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Lazy):
        def work(self) -> None:
            for done, _ in self.jobs:
                done.set_exception(MemoryError())
            self.jobs = []

    worker, world = Broken(), World()
    engine = world.start(bandit(), refit_every=5, worker=worker)
    for number in range(30):
        submit(world, number)
        world.pass_time(0.05)
        worker.work()
    assert engine.learner.belief == 0
    assert not world.state.halted
    assert world.state.settled >= 29
    assert engine.failed_refits == 1  # and the next is not due yet
    assert caplog.messages == ["a refit failed: MemoryError; the last belief decides, and 5 orders are unlearned"]
    assert 1.0 < engine.refit_overdue < engine.belief_age < 2.0
    world.clock.now += engine.pause_after_failed_refit
    world.pass_time(0.05)
    Lazy.work(worker)
    world.pass_time(0.05)
    assert engine.learner.belief == 1
    assert engine.failed_refits == 1
    assert engine.refit_overdue == 0.0
    assert engine.belief_age < 0.1


def test_a_refit_from_before_a_failed_write_is_not_adopted(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have learned from orders that the log lacks."""

    def refuse(log: MemoryLog, entries: object) -> list[int]:
        raise WriteError("the disk is full", definite=True)

    worker, world = Lazy(), World()
    engine = world.start(bandit(), refit_every=5, worker=worker)
    for number in range(6):
        submit(world, number)
        world.pass_time(0.05)
    (under_way,) = worker.jobs
    worker.jobs = []
    with monkeypatch.context() as full:
        full.setattr(MemoryLog, "_append", refuse)
        with pytest.raises(WriteError):
            submit(world, 6)
    assert engine.revive()
    engine.resume("desk")
    worker.jobs = [under_way]
    worker.work()
    world.pass_time(0.05)
    assert engine.learner.belief == 0
    assert len(worker.jobs) == 1, "another refit from the orders in the log"
    worker.work()
    world.pass_time(0.05)
    assert engine.learner.belief == 1
    assert verify_log(engine.log, refits=True).holds


def test_a_belief_of_another_router_is_refused() -> None:
    world = World()
    world.start(make_router("sweep"))
    world.die()
    with pytest.raises(DataError, match="the log has a belief that policy cannot restore"):
        world.start(bandit())


def test_orders_unknown_to_the_router_are_no_error() -> None:
    world = World()
    world.start(bandit())
    submit(world, 0)
    world.pass_time(1)
    learner = Learner(bandit())
    for event in stored_events(world.store):
        if hasattr(event, "outcome"):
            learner.settle(1, event.outcome)
    assert learner.disabled == ""


def test_a_new_belief_catches_up_with_decisions_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refit may take seconds, and then there are hundreds of decisions that the new router has to be told of."""
    worker, world = Lazy(), World()
    engine = world.start(bandit(), refit_every=10, worker=worker)
    for number in range(40):
        submit(world, number)
        world.pass_time(0.05)
    held: list[bool] = []
    noted = type(engine.learner.router).record_plan

    def record_plan(router: Router, context: Any, plan: Any) -> None:
        held.append(engine.lock._is_owned())  # type: ignore[attr-defined]  # of every lock of CPython
        noted(router, context, plan)

    monkeypatch.setattr(type(engine.learner.router), "record_plan", record_plan)
    worker.work()
    world.pass_time(0.05)
    assert engine.learner.belief == 1
    assert len(held) > 20
    assert not any(held)
    monkeypatch.undo()
    for number in range(40, 45):
        submit(world, number)
        world.pass_time(0.05)
    assert verify_log(engine.log, refits=True).holds


def test_the_probability_of_a_decision_is_logged_if_known() -> None:
    world = World()
    world.start()
    assert world.engine.submit(parent_order()).result(0).probability == 1.0
    other = World()
    other.start(make_router("thompson", units=4, seed=3))
    decision = other.engine.submit(parent_order()).result(0)
    assert decision.seed == 3
    assert b"probability" not in msgspec.json.encode(decision)
