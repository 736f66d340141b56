"""The path of an order from `POST /orders` to its durable answer: files and threads."""

from __future__ import annotations

import inspect
import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from types import FrameType

from live_services import order_json, running, service_config
from riskroute.live.http.requests import OrderRequest
from riskroute.live.state.orders import OrderDecision
from trace_files import PACKAGE


def test_an_order_takes_few_files_and_two_threads_beside_the_event_loop(tmp_path: Path) -> None:
    files: dict[str, None] = {}
    threads: set[str] = set()
    recording = False

    def profile(frame: FrameType, event: str, argument: object) -> None:
        file = frame.f_code.co_filename
        function = file.startswith(PACKAGE) and frame.f_code.co_flags & inspect.CO_OPTIMIZED
        ours = not threading.current_thread().name.startswith("venue ")  # which may not be done with the first order
        if recording and event == "call" and function and ours:
            files[str(Path(file).relative_to(PACKAGE))] = None
            threads.add(threading.current_thread().name)

    before = sys.getprofile()
    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        with running(service_config(tmp_path, halt_file=None)) as up:
            assert up.client.post("/orders", json=order_json("first")).status_code == 200  # loads what is loaded late
            up.client.settled("first")
            submit = up.service.submit

            def until_answered(order: OrderRequest) -> Future[OrderDecision]:
                def stop(answer: Future[OrderDecision]) -> None:
                    nonlocal recording
                    recording = False  # in the thread that completes the answer, before anything is sent to venues

                answer = submit(order)
                answer.add_done_callback(stop)
                return answer

            up.service.submit = until_answered  # type: ignore[method-assign]  # to see the moment of the answer
            recording = True
            assert up.client.post("/orders", json=order_json("second")).status_code == 200
            assert not recording
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
    assert len(files) <= 29, " ".join(files)
    assert threads == {"MainThread", "riskroute engine", "riskroute-log"}
