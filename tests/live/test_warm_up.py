"""Warming up uses a copy: the router that trades begins as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from live_services import service_config
from riskroute.live.readiness import warm_up
from riskroute.routers.registry import make_router
from riskroute.routers.report import Report
from riskroute.routers.router import Router
from riskroute.routers.rules import DarkFirstRule


@pytest.mark.parametrize("name", ["dark-first+sweep", "kaplan-meier+sweep", "sweep"])
def test_a_copy_decides_and_learns(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    router = make_router(name)
    before = router.state()
    learned: list[Router] = []
    original = type(router).learn

    def learn(self: Router, report: Report) -> None:
        learned.append(self)
        original(self, report)

    monkeypatch.setattr(type(router), "learn", learn)
    warm_up(service_config(tmp_path), router)
    assert router.state() == before
    assert len(learned) == 6
    assert not any(one is router for one in learned)


def test_a_router_that_fails_does_not_stop_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DarkFirstRule, "decide", lambda self, context: 1 / 0)
    warm_up(service_config(tmp_path), DarkFirstRule())
