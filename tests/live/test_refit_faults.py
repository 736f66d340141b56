"""A refit worker that stops, hangs or dies under a service: trading continues, the service ends, learning resumes."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from live_logs import MemoryStore
from live_services import (
    LONGEST,
    TOKENS,
    Running,
    ServiceProcess,
    order_json,
    running,
    service_config,
    wait_until_connected,
    write_config,
)
from riskroute.core.errors import OverloadedError, StateError
from riskroute.live.background import BackgroundProcess, BackgroundThread
from riskroute.live.engine import TradingEngine
from riskroute.live.http.control import ask_control_socket
from riskroute.live.http.requests import OrderRequest, decode_request
from riskroute.live.http.views import state_view
from riskroute.live.log.recovery import verify_log
from riskroute.live.log.snapshot_writer import SnapshotWriter
from riskroute.live.service import Service

ROUTER = {"name": "thompson:units=4", "refit_every": 5}


def eventually(holds: Callable[[], object]) -> None:
    until = time.monotonic() + LONGEST
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.fixture
def up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.setattr(BackgroundProcess, "least", LONGEST)  # a worker may take long to start
    with running(service_config(tmp_path, router=ROUTER), MemoryStore()) as up:
        yield up


def worker_of(service: Service) -> BackgroundProcess:
    assert isinstance(service._worker, BackgroundProcess)
    return service._worker


def trade(up: Running, name: str, count: int = 5) -> None:
    for number in range(count):
        assert up.client.post("/orders", json=order_json(f"{name} {number}")).status_code == 200
        up.client.settled(f"{name} {number}")


def metrics(up: Running) -> dict[str, float]:
    lines = [line for line in up.client.get("/metrics").text.splitlines() if not line.startswith("#")]
    return {name.removeprefix("riskroute_"): float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_a_stopped_worker_is_reported_and_replaced_while_trading_continues(
    up: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(TradingEngine, "pause_after_failed_refit", 10**18)
    monkeypatch.setattr(BackgroundProcess, "least", 0.5)
    worker, engine = worker_of(up.service), up.service.engine
    pid = worker.submit(os.getpid).result(LONGEST)
    os.kill(pid, signal.SIGSTOP)
    worker.limit = 1.0
    trade(up, "stopped")
    eventually(lambda: engine.failed_refits)
    eventually(lambda: up.service.learning_lags)
    refits = state_view(up.service)["service"]["refits"]
    assert (refits["every"], refits["lags"]) == (5, True)
    assert refits["overdue"] > 0.5
    eventually(lambda: "a refit failed: the worker process was killed: no answer within 1 s" in caplog.text)
    worker.limit = LONGEST  # enough for a new worker on any machine
    engine._refit_not_before = 0  # the pause is over
    eventually(lambda: engine.learner.belief == 1)
    with engine.lock:
        assert engine.learner.unlearned == []
    assert worker.submit(os.getpid).result(LONGEST) != pid
    values = metrics(up)
    assert values["refit_failures_total"] == engine.failed_refits == 1
    assert values["refit_overdue_seconds"] == values["unlearned_orders"] == 0
    assert 0 <= values["belief_age_seconds"] < LONGEST
    assert verify_log(up.service.log, refits=True).holds


def test_the_dashboard_is_sent_again_when_learning_begins_to_lag(up: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    before = up.service.mark()
    monkeypatch.setattr(TradingEngine, "refit_overdue", BackgroundProcess.least + 1)
    assert up.service.mark() != before


def test_a_worker_killed_in_a_refit_is_replaced_and_learning_continues(
    up: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TradingEngine, "pause_after_failed_refit", 0)
    pid = worker_of(up.service).submit(os.getpid).result(LONGEST)
    os.kill(pid, signal.SIGSTOP)  # so that it is killed while it has a refit
    trade(up, "before")
    eventually(lambda: up.service.engine._refitting)
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: up.service.engine.learner.belief == 1)
    assert up.service.engine.failed_refits == 1
    trade(up, "after")
    eventually(lambda: up.service.engine.learner.belief == 2)


def test_a_service_without_refits_has_no_metrics_of_them(tmp_path: Path) -> None:
    with running(service_config(tmp_path), MemoryStore()) as up:
        assert not any("refit" in name or "belief_age" in name for name in metrics(up))
        assert state_view(up.service)["service"]["refits"] is None


def workers(service: ServiceProcess) -> list[int]:
    """The numbers of the workers of a service, one soon after its start."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            command = (folder / "cmdline").read_text()
        except OSError:
            continue
        if parent == service.process.pid and "multiprocessing.spawn" in command:
            found.append(int(folder.name))
    return found


def test_a_service_with_a_stopped_worker_trades_halts_and_ends(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    config.write_text(
        f'{config.read_text()}[router]\nname = "{ROUTER["name"]}"\nrefit_every = {ROUTER["refit_every"]}\n'
    )
    service = ServiceProcess(config)
    try:
        service.said("live on")
        eventually(lambda: workers(service))
        (worker,) = workers(service)
        os.kill(worker, signal.SIGSTOP)
        for number in range(12):
            assert service.waited(order_json(f"{number}")).status_code == 200
            service.settled(f"{number}")
        assert service.http.get("/health").json() == {"status": "ready"}
        assert service.http.get("/state").json()["router"]["belief"] == 0
        halted = service.http.post("/halt", headers={"Authorization": "Bearer the-token-that-is-good-for-halt"})
        assert halted.status_code == 200
        assert service.http.post("/resume").status_code == 200
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(BackgroundProcess.least / 2) == 0
        assert service.said("stopped: 12 orders, 0 unsettled, all in the log")
        with pytest.raises(ProcessLookupError):
            os.kill(worker, 0)
    finally:
        service.end()
    service = ServiceProcess(config)
    try:
        service.said("live on")
        eventually(lambda: service.http.get("/state").json()["router"]["belief"] == 1)
        assert service.http.get("/state").json()["router"]["waiting_to_learn"] == 0
    finally:
        service.end()


# Whatever else may hang when a service stops.


def closed_in(service: Service) -> float:
    """Seconds that it takes to close a service."""
    began = time.monotonic()
    service.close()
    return time.monotonic() - began


def test_a_router_that_does_not_return_does_not_keep_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hangs = threading.Event()
    monkeypatch.setattr(Service, "patience", 0.2)
    monkeypatch.setattr(TradingEngine, "longest_call", 0.2)
    service = Service(service_config(tmp_path))
    service.start()
    wait_until_connected(service)  # no report of a venue waits
    service.engine.call_soon(lambda: (hangs.wait(LONGEST), None)[1])
    service.engine.call_soon(lambda: None)
    eventually(lambda: service.engine.queue_length <= 1)
    try:
        assert closed_in(service) < LONGEST / 2
    finally:
        hangs.set()
    assert "stopped with 1 calls and reports unprocessed" in caplog.text
    assert (
        "the engine does not return from a call and is abandoned: the next start recovers from the log" in caplog.text
    )


def test_requests_are_refused_while_too_many_wait_for_an_engine_that_does_not_return(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Service, "most_waiting", 3)
    began, go_on = threading.Event(), threading.Event()
    service = Service(service_config(tmp_path))

    def hang() -> None:
        began.set()
        go_on.wait(LONGEST)

    service.start()
    try:
        wait_until_connected(service)  # no report of a venue waits
        service.engine.call_soon(hang)
        assert began.wait(LONGEST)
        orders = [json.dumps(order_json(f"{number}")).encode() for number in range(5)]
        answers = [service.submit(decode_request(order, OrderRequest, "an order")) for order in orders]
        assert [answer.done() for answer in answers] == [False, False, False, True, True]
        with pytest.raises(OverloadedError, match="the router is overloaded: 3 requests wait; try again"):
            answers[-1].result()
        go_on.set()
        assert [answer.result(LONGEST).parent for answer in answers[:3]] == ["0", "1", "2"]
        again = service.submit(decode_request(orders[-1], OrderRequest, "an order"))
        assert again.result(LONGEST).parent == "4"
    finally:
        go_on.set()
        service.close()


HANGING = """
import time
from riskroute.routers.rules import DarkFirstRule


class Hanging(DarkFirstRule):
    name = "hanging"

    def route(self, context):
        if context.order == "hang":
            time.sleep(600)
        return super().route(context)
"""


def test_a_decision_that_hangs_does_not_keep_the_process(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(HANGING)
    config = write_config(tmp_path)
    router = f'[router]\nname = "{tmp_path}/own.py:Hanging"\ndecision_ms = 100.0\n'
    config.write_text(f"{config.read_text()}{router}")
    service = ServiceProcess(config)
    try:
        service.said("live on")
        assert "the router took longer than" in service.waited(order_json("hang")).json()["safe"]
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(LONGEST) == 0
    finally:
        service.end()


IMPATIENT = """
from riskroute.live.engine import TradingEngine
from riskroute.live.http.control import _Handler
from riskroute.live.service import Service

Service.patience = TradingEngine.longest_call = _Handler.lock_seconds = 0.5
"""


def test_an_engine_that_never_releases_its_lock_is_reported_and_does_not_keep_the_process(tmp_path: Path) -> None:
    """Readers, halts and streams wait for the lock; the event loop does not, and the process ends."""
    (tmp_path / "own.py").write_text(HANGING + IMPATIENT)
    config = write_config(tmp_path)
    config.write_text(f'{config.read_text()}[router]\nname = "{tmp_path}/own.py:Hanging"\n')
    service = ServiceProcess(config)
    bearer = {name: {"Authorization": f"Bearer {token}"} for name, token in TOKENS.items()}
    try:
        service.said("live on")
        service.waited(order_json("first"))
        late = [("POST", "/orders", "trade", order_json("hang")), ("POST", "/halt", "halt", None)]
        late += [("GET", path, "read", None) for path in ("/state", "/metrics", "/positions", "/orders/first") * 2]
        for method, path, name, body in late:
            with pytest.raises(httpx.ReadTimeout):
                service.http.request(
                    method, path, headers=bearer[name], json=body, timeout=httpx.Timeout(LONGEST, read=0.3)
                )
            eventually(lambda: service.http.get("/health").status_code == 503)  # the first has reached the engine
        with service.http.stream("GET", "/events", headers=bearer["read"]) as stream:
            assert next(stream.iter_text()).startswith("event: viewer")
            service.process.send_signal(signal.SIGUSR1)
            with pytest.raises(StateError, match="trading is halted as soon as it does"):
                ask_control_socket(tmp_path / "live.sqlite-control", "a test")
            health = service.http.get("/health")
            assert (health.status_code, health.json()) == (503, {"status": "failed"})
            assert ask_control_socket(tmp_path / "live.sqlite-control").status == "failed"
            service.process.send_signal(signal.SIGTERM)
            assert service.process.wait(LONGEST) == 0
        assert "unsettled, end not recorded: the next start recovers as after a crash" in service.said("stopped:")
    finally:
        service.end()


def test_a_snapshot_that_hangs_does_not_keep_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    saving, hangs = threading.Event(), threading.Event()
    monkeypatch.setattr(SnapshotWriter, "longest_wait", 0.2)

    def save(self: SnapshotWriter, *_: object) -> None:
        saving.set()
        hangs.wait(LONGEST)

    monkeypatch.setattr(SnapshotWriter, "_save", save)
    service = Service(service_config(tmp_path, log={"path": str(tmp_path / "live.sqlite"), "snapshot_every": 1}))
    service.start()
    try:
        assert service.halt("drill", "desk").result(LONGEST)
        assert saving.wait(LONGEST)
        assert closed_in(service) < LONGEST / 2
    finally:
        hangs.set()
    assert "a snapshot that is being saved is abandoned: the next start recovers from an earlier one" in caplog.text


def test_a_background_thread_waits_only_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BackgroundThread, "patience", 0.1)
    hangs, thread = threading.Event(), BackgroundThread("test")
    answer = thread.submit(hangs.wait, LONGEST)
    thread.shutdown()
    assert not answer.done()
    hangs.set()
    assert answer.result(LONGEST)
