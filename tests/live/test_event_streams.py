"""Event streams share one view: the state is encoded once per change, and each page of the log once, by one thread."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from live_logs import MemoryStore
from live_services import LONGEST, Running, order_json, running, service_config
from riskroute.live.http import streams
from riskroute.live.http.streams import EventStreams
from riskroute.live.http.views import state_view
from riskroute.live.log.interface import log_events_after
from riskroute.live.state.events import PlannedEvent

STREAMS = 20


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Running]:
    with running(service_config(tmp_path), MemoryStore()) as made:
        for number in range(5):
            made.client.post("/orders", json=order_json(f"{number}"))
            made.client.settled(f"{number}")
        yield made


async def until_state(messages: AsyncIterator[bytes], events: int) -> str:
    """Read a stream until it shows a state with at least so many events, and all rows up to it."""
    read = ""
    while True:
        read += (await anext(messages)).decode()
        states = [json.loads(line[6:]) for line in read.splitlines() if line.startswith('data: {"events"')]
        if states and states[-1]["events"] >= events:
            return read


def test_the_state_is_encoded_once_per_change_for_all_streams(up: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    marks: list[Any] = []
    threads: list[str] = []
    mark = up.service.mark

    def seen() -> Any:
        marks.append(mark())
        return marks[-1]

    def counted(service: Any) -> Any:
        threads.append(threading.current_thread().name)
        return state_view(service)

    monkeypatch.setattr(up.service, "mark", seen)
    monkeypatch.setattr(streams, "state_view", counted)
    of_all = EventStreams(up.service, STREAMS)
    of_all.count = STREAMS

    async def read() -> list[str]:
        readers = [of_all.messages("read", None) for _ in range(STREAMS)]
        first = await asyncio.gather(*[until_state(one, 1) for one in readers])
        assert all(one.startswith("event: viewer") for one in first)
        before = up.service.engine.state.events
        up.service.halt("a test", "desk").result(LONGEST)
        return await asyncio.gather(*[until_state(one, before + 1) for one in readers])

    assert all('"halted":"a test"' in one for one in up.client.runner.run(read()))
    changes = [one for one, before in zip(marks, [None, *marks], strict=False) if one != before]
    assert 2 <= len(threads) <= len(changes)
    assert set(threads) == {"riskroute event streams"}
    of_all.close()


def test_streams_at_the_same_row_share_its_page_and_each_gets_every_row(
    up: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EventStreams, "page_rows", 3)
    monkeypatch.setattr(EventStreams, "pages", 1_000)  # a slow stream finds all of them
    of_all = EventStreams(up.service, STREAMS)
    of_all.count = STREAMS
    rows = list(log_events_after(up.service.log, 0))
    last = rows[-1][0].seq
    pages: list[int] = []
    read_rows = up.service.log.read

    def counted(after: int = 0, limit: int | None = None) -> Any:
        pages.append(after)
        return read_rows(after, limit)

    monkeypatch.setattr(up.service.log, "read", counted)

    async def whole(messages: AsyncIterator[bytes]) -> str:
        read = ""
        while f"\nid: {last}\n" not in f"\n{read}":
            read += (await anext(messages)).decode()
        return read

    async def read() -> list[str]:
        return await asyncio.gather(*[whole(of_all.messages("read", 0)) for _ in range(STREAMS)])

    for text in up.client.runner.run(read()):
        ids = [int(line[4:]) for line in text.splitlines() if line.startswith("id: ")]
        assert ids == list(range(1, last + 1))
        kinds = [line[7:] for line in text.splitlines() if line.startswith("event: ")]
        assert len([kind for kind in kinds if kind not in ("viewer", "state")]) == len(rows)
        assert any(isinstance(event, PlannedEvent) for _, event in rows)
        assert '"event: planned' not in text
        assert all("state" not in json.loads(line[6:]) for line in text.splitlines() if line.startswith('data: {"at"'))
    assert len(pages) == len(set(pages)) == -(-last // 3)
    of_all.close()


def test_a_page_of_large_rows_is_short(up: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EventStreams, "page_bytes", 1)
    monkeypatch.setattr(EventStreams, "pages", 2)
    of_all = EventStreams(up.service, 1)
    assert [of_all._read_page(after)[0] for after in range(5)] == [1, 2, 3, 4, 5]
    assert list(of_all._pages) == [3, 4], "only the last pages are kept"
