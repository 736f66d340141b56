"""The service on a real PostgreSQL: what it does on a file, it does there. Skipped where there is none."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

from live_services import order_json, running, service_config
from riskroute.live.log.interface import verify_log_chain
from riskroute.live.log.postgres import PostgresLog
from riskroute.live.log.recovery import replay_log, verify_log


def test_a_service_on_postgresql_answers_halts_restarts_and_forgets_nothing(postgres: str, tmp_path: Path) -> None:
    stream = f"s{uuid4().hex}"
    config = service_config(tmp_path, log={"postgres": postgres, "stream": stream, "snapshot_every": 10})
    with running(config) as up:
        orders = [order_json(f"o{number}") for number in range(5)]
        answers = [up.client.post("/orders", json=order) for order in orders]
        assert [answer.status_code for answer in answers] == [200] * 5
        for order in orders:
            up.client.settled(order["key"])
        assert up.client.post("/orders", json=orders[0] | {"quantity": 7}).status_code == 409
        assert up.client.post("/halt", scope="halt", json={"reason": "lunch"}).json() == {"halted": "lunch"}
        positions = up.client.get("/positions").json()
        assert postgres not in up.client.get("/state").text
    with running(config) as up:
        assert up.client.get("/health").json() == {"status": "halted"}
        assert up.client.get("/positions").json() == positions
        assert up.client.post("/orders", json=orders[3]).json() == answers[3].json()
        assert up.client.post("/orders", json=order_json("new")).status_code == 503
        assert up.client.post("/resume").status_code == 200
        assert up.client.post("/orders", json=order_json("new")).status_code == 200
        up.client.settled("new")
    with PostgresLog(postgres, stream, create=False) as log:
        verify_log_chain(log)
        assert verify_log(log).decisions == 6
        assert verify_log(log).holds
        assert replay_log(log).positions["DEMO"].shares == 600
