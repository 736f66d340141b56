"""The files of the dashboard: nothing of others is loaded, nothing inline is run, and no data is in them."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path

import pytest

from live_logs import MemoryStore
from live_services import order_json, running, service_config
from riskroute.live.http.streams import EventStreams
from riskroute.live.http.views import state_view, viewer_view
from riskroute.routers.rules import DarkFirstRule

STATIC = files("riskroute.live.http") / "static"
MEDIA = {
    "index.html": "text/html",
    "style.css": "text/css",
    "main.js": "text/javascript",
    "panels.js": "text/javascript",
    "words.js": "text/javascript",
}


@pytest.mark.parametrize("name", MEDIA)
def test_every_file_is_served_to_anybody_under_a_strict_policy(tmp_path: Path, name: str) -> None:
    with running(service_config(tmp_path), MemoryStore()) as up:
        answer = up.client.ask("GET", "/" if name == "index.html" else f"/static/{name}", scope="")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith(MEDIA[name])
    policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.text == (STATIC / name).read_text()


def test_all_files_are_ours_small_and_self_contained() -> None:
    assert {path.name for path in STATIC.iterdir()} == set(MEDIA)
    texts = {name: (STATIC / name).read_text() for name in MEDIA}
    assert sum(map(len, texts.values())) < 60_000
    for name, text in texts.items():
        assert set(re.findall(r"https?://[^\"' ]+", text)) <= {"http://www.w3.org/2000/svg"}, name
        for word in ("innerHTML", "insertAdjacentHTML", "document.write", "eval(", "localStorage", "document.cookie"):
            assert word not in text, f"{name}: {word}"
    assert not re.search(r"\son\w+=|\sstyle=|<style|<script(?![^>]*\ssrc=)", texts["index.html"])


def test_the_event_stream_names_the_scopes_of_the_token(tmp_path: Path) -> None:
    with running(service_config(tmp_path), MemoryStore()) as up:
        assert viewer_view(up.service, "halt") == {"name": "halt", "scopes": ["halt", "read"]}
        service = up.service

        async def first() -> bytes:
            return await anext(EventStreams(service, 1).messages("read", None))

        told = up.client.runner.run(first())
    kind, data = told.decode().strip().split("\n")
    assert kind == "event: viewer"
    assert json.loads(data.removeprefix("data: ")) == {"name": "read", "scopes": ["read"]}


def test_a_router_that_fails_to_report_beliefs_does_not_break_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(service_config(tmp_path), MemoryStore()) as up:
        up.client.post("/orders", json=order_json("one"))
        up.client.settled("one")
        (belief,) = state_view(up.service)["router"]["believes"]
        assert belief["place"] == "P"
        monkeypatch.setattr(DarkFirstRule, "beliefs", lambda self: 1 / 0)
        assert state_view(up.service)["router"]["believes"] == []


def test_beliefs_are_shown_again_after_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("riskroute.live.service.Service.belief_seconds", 0.0)
    with running(service_config(tmp_path), MemoryStore()) as up:
        up.client.post("/orders", json=order_json("one"))
        up.client.settled("one")
        before = up.service.mark()
        assert state_view(up.service)["beliefs"] != []
        assert up.service.mark() != before


def test_limits_say_which_of_them_halt(tmp_path: Path) -> None:
    with running(service_config(tmp_path), MemoryStore()) as up:
        up.client.post("/orders", json=order_json("one"))
        up.client.settled("one")
        limits = {one["what"]: one for one in state_view(up.service)["limits"]}
    assert limits["orders of the day"] == {
        "what": "orders of the day",
        "used": 1,
        "most": 100_000,
        "unit": "",
        "halts": False,
    }
    assert limits["cost of the day"]["halts"]
    assert limits["cost of the day"]["unit"] == "USD"
