"""The process in which a router learns."""

from __future__ import annotations

import os
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest

from riskroute.live.learner import Refit, RefitWorker, router_bytes
from riskroute.routers.registry import make_router


def test_a_worker_that_dies_is_started_again() -> None:
    worker = RefitWorker()
    try:
        with pytest.raises(BrokenProcessPool):
            worker.submit(os._exit, 3).result(60)
        assert worker.submit(abs, -3).result(60) == 3
    finally:
        worker.shutdown()


def test_a_router_of_a_file_learns_in_the_worker(tmp_path: Path) -> None:
    """The class is in no module that the worker could import."""
    (tmp_path / "own.py").write_text(
        "from riskroute.routers.rules import DarkFirstRule\n\n\nclass Own(DarkFirstRule):\n    name = 'own'\n"
    )
    router = make_router(f"{tmp_path / 'own.py'}:Own", cap=50)
    worker = RefitWorker()
    try:
        body = worker.submit(Refit(type(router), router_bytes(router), [], [], [])).result(60)
    finally:
        worker.shutdown()
    assert body == router_bytes(router)
