"""The process in which a router learns."""

from __future__ import annotations

import os
from concurrent.futures.process import BrokenProcessPool

import pytest

from riskroute.live.refit_worker import RefitWorker


def test_a_worker_that_dies_is_started_again() -> None:
    worker = RefitWorker()
    try:
        with pytest.raises(BrokenProcessPool):
            worker.submit(os._exit, 3).result(60)
        assert worker.submit(abs, -3).result(60) == 3
    finally:
        worker.shutdown()
