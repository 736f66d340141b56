"""Processes that share the symbols on one PostgreSQL: each log has one writer, and one that stands by takes over."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from killed_services import complaint
from live_services import ServiceProcess, order_json, write_config
from riskroute.live.config import read_live_config
from riskroute.live.log.interface import verify_log_chain
from riskroute.live.log.postgres import PostgresLog
from riskroute.live.log.recovery import replay_log
from riskroute.live.state.amounts import NANO

pytestmark = [
    pytest.mark.crash,
    pytest.mark.thorough,  # four processes; what it rests on is tried on the log itself, in test_log_postgres.py
]

Survived = Callable[[str, int], None]
LEASE_SECONDS = 10.0  # renewed in time on a busy machine, too


def test_a_standby_takes_over_and_the_old_leader_never_writes_again(
    postgres: str, tmp_path: Path, survived: Survived
) -> None:
    stream = f"s{uuid4().hex}"
    file = write_config(tmp_path, postgres=postgres, stream=stream, lease_seconds=LEASE_SECONDS)
    config = read_live_config(file, partition="1/2")
    ours = next(name for name in config.instruments if config.partition_of(name) == 1)
    other = next(name for name in config.instruments if config.partition_of(name) == 2)
    orders = [
        order_json(f"order {number}", symbol=ours, quantity=300 + number, deadline=time.time_ns() + 600 * NANO)
        for number in range(9)
    ]
    processes = []
    try:
        first = ServiceProcess(file, "--partition", "1/2")
        processes.append(first)
        first.said("live on")
        waiting = [ServiceProcess(file, "--partition", "1/2") for _ in range(2)]
        processes += waiting
        for one in waiting:
            one.said("standing by")
        answer = first.answered(order_json("elsewhere", symbol=other))
        assert answer is not None
        assert answer.status_code == 422
        assert answer.json()["error"] == f"symbol {other} belongs to partition 2/2, this is partition 1/2"
        answers = {order["key"]: first.waited(order).text for order in orders[:5]}

        first.process.kill()
        second = None
        while second is None:
            second = next((one for one in waiting if one.answered(orders[5]) is not None), None)
        answers[orders[5]["key"]] = second.waited(orders[5]).text
        assert {order["key"]: second.waited(order).text for order in orders[:6]} == answers
        for order in orders[:6]:
            second.settled(order["key"])

        third = next(one for one in waiting if one is not second)
        os.kill(second.process.pid, signal.SIGSTOP)
        answers[orders[6]["key"]] = third.waited(orders[6]).text
        os.kill(second.process.pid, signal.SIGCONT)
        late = second.answered(orders[7])
        assert late is None or late.status_code >= 400
        assert second.process.wait(60) == 3
        assert {order["key"]: third.waited(order).text for order in orders[:7]} == answers
        for order in orders[:7]:
            third.settled(order["key"])
        third.process.send_signal(signal.SIGTERM)
        assert third.process.wait(60) == 0
    finally:
        for one in processes:
            one.end()
    with PostgresLog(postgres, f"{stream}.1of2", create=False) as log:
        verify_log_chain(log)
        assert complaint(tmp_path, log, replay_log(log), ours, f"{stream}.1of2") == ""
    survived("kill -9 of a service on PostgreSQL, taken over from", 1)
    survived("service on PostgreSQL stopped, taken over from, and woken", 1)
