"""The service over HTTP: orders, halts, tokens, and everything that must be refused."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from live_engines import stored_events
from live_logs import MemoryStore
from live_services import TOKENS, Running, order_json, running, service_config
from riskroute.core.errors import StateError
from riskroute.live.engine import TradingEngine
from riskroute.live.log.interface import LogEntry, LogHead
from riskroute.live.service import Service
from riskroute.live.state.amounts import NANO
from riskroute.live.state.archive import archive_settled
from riskroute.live.state.events import AcceptedEvent


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One service for all tests that leave it as it is, but for orders of their own."""
    folder = tmp_path_factory.mktemp("service")
    with running(service_config(folder), MemoryStore()) as found:
        yield found


def accepted(up: Running) -> list[str]:
    assert up.store is not None
    events = stored_events(up.store)
    return [event.order.key for event in events if isinstance(event, AcceptedEvent)]


def sentence(answer: Any) -> str:
    """The error of an answer: one line, and nothing of what must not leak."""
    assert answer.headers["content-type"] == "application/json"
    said: dict[str, str] = answer.json()
    assert set(said) == {"error"}
    text = said["error"]
    assert text
    assert "\n" not in text
    assert len(text) < 400
    for leak in ("Traceback", "riskroute/", ".py", "sha256:", *TOKENS.values()):
        assert leak not in text
    return text


def test_an_order_is_decided_filled_and_settled(up: Running) -> None:
    answer = up.client.post("/orders", json=order_json("first", quantity=700))
    assert answer.status_code == 200
    assert answer.json()["router"] == "dark-first+sweep"
    assert answer.json()["plan"]["dark"] == {"P": 700}
    found = up.client.settled("first")
    assert found["filled"] == 700
    assert sum(child["filled"] for child in found["children"]) == 700
    held = up.client.get("/positions").json()["DEMO"]
    assert held["quantity"] >= 700
    assert (held["unit"], held["currency"]) == ("shares", "USD")
    assert held["fees"] > 0


def test_the_same_key_gets_the_same_answer_and_another_body_409(up: Running) -> None:
    order = order_json("again")
    first = up.client.post("/orders", json=order)
    assert up.client.post("/orders", json=order).content == first.content
    newer = order_json("again", deadline=order["deadline"])
    assert up.client.post("/orders", json=newer).content == first.content
    bare = {name: value for name, value in order.items() if name != "quotes"}
    assert up.client.post("/orders", json=bare).content == first.content
    other = up.client.post("/orders", json=order | {"quantity": 101})
    assert other.status_code == 409
    assert sentence(other) == "key 'again' belongs to another order"
    assert accepted(up).count("again") == 1


def changed(**more: Any) -> bytes:
    return json.dumps(order_json("bad") | more).encode()


def stale(seconds: float) -> list[dict[str, Any]]:
    quotes: list[dict[str, Any]] = order_json()["quotes"]
    return [quote | {"at": quote["at"] - int(seconds * NANO)} for quote in quotes]


def book(bids: list[list[Any]], asks: list[list[Any]]) -> list[dict[str, Any]]:
    return [{"venue": "A", "at": time.time_ns(), "bids": bids, "asks": asks}]


UNITS = "must be a multiple of 1 from 0 to 100,000,000,000,000"
BAD: dict[str, tuple[Callable[[], bytes], int, str]] = {
    "malformed": (lambda: b'{"key": "bad"', 400, "an order must be JSON, was not: Input data was truncated"),
    "no JSON at all": (lambda: b"\xff\xfe", 400, "an order must be JSON, was not"),
    "empty": (lambda: b"", 400, "an order must be JSON, was not"),
    "deeply nested": (lambda: b"[" * 100_000, 400, "an order must be"),
    "a list": (lambda: b"[]", 400, "an order must be of type object, was array"),
    "missing": (lambda: b'{"key": "bad"}', 400, "symbol must be given, was missing"),
    "unknown field": (lambda: changed(colour="red"), 400, "colour is no field of an order"),
    "text for a number": (
        lambda: changed(quantity="many"),
        400,
        "quantity must be a number, was text that is not a number",
    ),
    "fraction": (lambda: changed(quantity=1.5), 422, f"quantity {UNITS}, was 1.5"),
    "not a number": (
        lambda: changed(quantity="NaN"),
        422,
        f"quantity {UNITS}, was 'NaN'",
    ),
    "huge exponent": (lambda: changed(quantity="1e999999"), 422, f"quantity {UNITS}, was '1E+999999'"),
    "tiny price": (
        lambda: changed(quotes=book([["1e-10", 1]], [[2, 1]])),
        422,
        "price of a bid of A must be a multiple of 0.000000001 from 0 to 1,000,000,000, was 0.0000000001",
    ),
    "NaN": (lambda: changed(features={"x": float("nan")}), 400, "an order must be JSON, was not"),
    "beyond 64 bits": (lambda: changed(quantity=10**30), 422, "quantity must be"),
    "side": (lambda: changed(side="both"), 400, "side must be buy or sell, was 'both'"),
    "level": (
        lambda: changed(quotes=[{"venue": "A", "at": 1, "bids": [[1]]}]),
        400,
        "quotes.0.bids.0 must be a list of 2",
    ),
    "twice": (
        lambda: changed(features={}).replace(b"{", b'{"quantity": 5, ', 1),
        400,
        "quantity must be given once, was",
    ),
    "twice in disguise": (
        lambda: changed().replace(b"{", b'{"quant\\u0069ty": 5, ', 1),
        400,
        "quantity must be given once, was repeated",
    ),
    "no depth": (lambda: changed(quotes=book([[1, 0]], [[2, 0]])), 422, "quotes must show a bid and an ask at some"),
    "crossed": (
        lambda: changed(quotes=book([[3, 1]], [[2, 1]])),
        422,
        "bids of A must be below its asks, was 3 against 2",
    ),
    "many features": (
        lambda: changed(features={str(k): 1 for k in range(101)}),
        422,
        "features must be at most 100, was 101",
    ),
    "long name": (lambda: changed(features={"x" * 101: 1}), 422, "a feature's name must be at most 100 printable"),
    "unknown symbol": (lambda: changed(symbol="NOPE"), 422, "symbol must be one of DEMO, OTHER, was 'NOPE'"),
    "unknown venue": (lambda: changed(quotes=[{"venue": "Z", "at": 1}]), 422, "venue must be one of A, B, was 'Z'"),
    "no bid": (lambda: changed(quotes=[{"venue": "A", "at": 1}]), 422, "quotes must show a bid and an ask"),
    "negative": (
        lambda: changed(quantity=-3),
        422,
        f"quantity {UNITS}, was -3",
    ),
    "huge": (
        lambda: changed(quantity=10**15),
        422,
        f"quantity {UNITS}, was 1,000,000,000,000,000",
    ),
    "over a limit": (
        lambda: changed(quantity=200_000),
        422,
        "quantity must be at most 100,000 shares, was",
    ),
    "stale": (lambda: changed(quotes=stale(7200)), 422, "quotes must be at most 3600 s old, was 72"),
    "from the future": (lambda: changed(quotes=stale(-7200)), 422, "quotes must not be from the future"),
    "late": (lambda: changed(deadline=1), 422, "deadline must be in the future, was in the past"),
    "too patient": (lambda: changed(deadline=time.time_ns() + 10**16), 422, "deadline must be within 3600 s"),
    "key": (lambda: changed(key="\n"), 422, "key must be 1 to 200 printable characters"),
    "long key": (lambda: changed(key="x" * 201), 422, "key must be 1 to 200 printable characters"),
    "infinite feature": (lambda: changed(features={"x": 1}).replace(b'"x": 1', b'"x": 1e999'), 400, ""),
    "fee": (
        lambda: changed(quotes=[q | {"taker": 99} for q in stale(0)]),
        422,
        "taker fee of A must be at most 10",
    ),
    "fee in text": (
        lambda: changed(quotes=[q | {"maker": "a lot"} for q in stale(0)]),
        422,
        "maker fee of A must be",
    ),
    "fee in a list": (
        lambda: changed(quotes=[q | {"maker": []} for q in stale(0)]),
        400,
        "quotes.0.maker must be a",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_orders_are_refused_with_one_sentence_and_nothing_is_accepted(up: Running, name: str) -> None:
    make, status, text = BAD[name]
    before = up.rows
    answer = up.client.post("/orders", content=make())
    assert (answer.status_code, sentence(answer)[: len(text)]) == (status, text)
    assert up.rows == before or not set(accepted(up)) & {"bad"}
    assert up.client.get("/health").json() == {"status": "ready"}


BAD_QUOTES: dict[str, tuple[Callable[[], Any], int, str]] = {
    "nothing": (lambda: {"quotes": []}, 422, "expected quotes of at least one venue or trades, got neither"),
    "symbol": (lambda: {"symbol": "NOPE"}, 422, "symbol must be one of DEMO, OTHER, was 'NOPE'"),
    "crossed": (lambda: {"quotes": book([[3, 1]], [[2, 1]])}, 422, "bids of A must be below its asks"),
    "unsorted": (lambda: {"quotes": book([[1, 1], [2, 1]], [])}, 422, "bids of A must have the best price first"),
    "negative": (lambda: {"quotes": book([[1, -1]], [])}, 422, "size of a bid of A must be a multiple of 1 from 0 to"),
    "no time": (lambda: {"quotes": [book([], [])[0] | {"at": 0}]}, 422, "at of A must be a time since 1970, was 0"),
    "future": (lambda: {"quotes": [book([], [])[0] | {"at": 2**62}]}, 422, "the book of A is"),
    "trades": (lambda: {"trades": [{"side": "buy"}]}, 400, "trades.0.side must be bid or ask, was 'buy'"),
    "extra": (lambda: {"colour": "red"}, 400, "colour is no field of quotes"),
}


@pytest.mark.parametrize("name", BAD_QUOTES)
def test_bad_books_are_refused_with_one_sentence_and_nothing_is_written(up: Running, name: str) -> None:
    make, status, text = BAD_QUOTES[name]
    before = up.service.history("DEMO")
    given = {"symbol": "DEMO", "quotes": book([[1, 1]], [[2, 1]])} | make()
    answer = up.client.post("/quotes", json=given)
    assert (answer.status_code, sentence(answer)[: len(text)]) == (status, text)
    assert up.service.history("DEMO") == before


def test_ten_megabytes_are_refused_whether_announced_or_not(up: Running) -> None:
    async def parts() -> Any:
        for _ in range(100):
            yield b"x" * 100_000

    before = up.rows
    for body in (b"x" * 10_000_000, parts()):
        answer = up.client.post("/orders", content=body)
        assert answer.status_code == 413
        assert sentence(answer) == "the body must have at most 1,000,000 bytes"
    assert up.rows == before


@pytest.mark.parametrize(
    "header",
    [
        *(None, "", "Bearer", "Bearer ", "Bearer wrong", "Bearer " + "x" * 10_000),
        *(f"Basic {TOKENS['trade']}", f"Bearer {TOKENS['trade'][:-1]}"),
    ],
)
def test_requests_without_a_valid_token_are_refused(up: Running, header: str | None) -> None:
    before = up.rows
    headers = {} if header is None else {"Authorization": header}
    for method, path in (("POST", "/orders"), ("POST", "/halt"), ("GET", "/state"), ("GET", "/metrics")):
        answer = up.client.ask(method, path, scope="", headers=headers, content=b"{")
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert sentence(answer) == "send a valid token as Authorization: Bearer TOKEN"
    assert up.rows == before


@pytest.mark.parametrize(
    ("method", "path", "scopes"),
    [
        ("POST", "/orders", {"trade"}),
        ("POST", "/quotes", {"trade"}),
        ("POST", "/resume", {"trade"}),
        ("POST", "/halt", {"halt"}),
        ("GET", "/positions", {"trade", "halt", "read"}),
        ("GET", "/orders/one", {"trade", "halt", "read"}),
    ],
)
def test_a_token_is_good_for_its_scopes_alone(up: Running, method: str, path: str, scopes: set[str]) -> None:
    for scope in set(TOKENS) - scopes:
        answer = up.client.ask(method, path, scope=scope)
        assert answer.status_code == 403
        assert sentence(answer).startswith("the token lacks the scope ")
    if method == "GET":
        assert all(up.client.ask(method, path, scope=scope).status_code != 403 for scope in scopes)


def test_unknown_paths_and_methods_are_refused(up: Running) -> None:
    assert (up.client.get("/nothing").status_code, up.client.get("/halt").status_code) == (404, 405)
    assert sentence(up.client.get("/nothing")) == "unknown path"
    answer = up.client.get("/orders/no/such")
    assert answer.status_code == 404
    assert sentence(answer) == "unknown order 'no/such'"


def test_internal_errors_are_not_shown_to_clients(
    up: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("riskroute.live.http.api.positions_view", lambda service: 1 / 0)
    answer = up.client.get("/positions")
    assert answer.status_code == 500
    assert sentence(answer) == "internal error; see the log of the service"
    assert "ZeroDivisionError" in caplog.text
    assert not any(token in caplog.text for token in TOKENS.values())


def test_orders_without_quotes_use_posted_ones(up: Running) -> None:
    bare = order_json("without")
    quotes = bare.pop("quotes")
    answer = up.client.post("/orders", json=bare | {"symbol": "OTHER"})
    assert answer.status_code == 422
    assert sentence(answer) == "quotes must be sent with the order or posted to /quotes, were missing"
    assert up.client.post("/quotes", json={"symbol": "OTHER", "quotes": quotes}).json() == {"venues": 2}
    assert up.client.post("/orders", json=bare | {"symbol": "OTHER"}).status_code == 200
    assert up.client.settled("without")["filled"] == 100
    for bad, text in (
        ({"symbol": "NOPE", "quotes": quotes}, "symbol must be one of"),
        ({"symbol": "OTHER", "quotes": []}, "expected quotes of at least one venue or trades, got neither"),
        ({"symbol": "OTHER", "quotes": [quotes[0] | {"at": 2**62}]}, "the book of A is"),
    ):
        assert sentence(up.client.post("/quotes", json=bad)).startswith(text)


def test_an_archived_order_is_found(up: Running) -> None:
    up.client.post("/orders", json=order_json("packed"))
    before = up.client.settled("packed")
    with up.service.engine.lock:
        archive_settled(up.service.engine.state, up.service.engine.ledger.archive, 0)
        assert "packed" not in up.service.engine.state.parents
    assert up.client.get("/orders/packed").json() == before


def test_metrics_count_orders_and_time_the_router(up: Running) -> None:
    up.client.post("/orders", json=order_json("counted"))
    text = up.client.get("/metrics").text
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert float(values["riskroute_orders_total"]) == len(accepted(up))
    assert float(values["riskroute_router_seconds_count"]) == len(accepted(up))
    assert float(values["riskroute_halted"]) == 0
    for name in ("queue_length", "unsaved_orders", "unsaved_bytes", "connections", "event_streams"):
        assert float(values[f"riskroute_{name}"]) >= 0


def test_metrics_time_the_commits_of_the_log_and_the_snapshots(tmp_path: Path) -> None:
    with running(service_config(tmp_path, log={"path": str(tmp_path / "live.sqlite"), "snapshot_every": 3})) as up:
        up.client.post("/orders", json=order_json("one"))
        values: dict[str, float] = {}
        while not values.get("riskroute_snapshots_total"):
            lines = up.client.get("/metrics").text.splitlines()
            values = {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}
    for name in ("commit_seconds_count", "commit_seconds_sum", "snapshot_seconds", "snapshot_bytes"):
        assert values[f"riskroute_{name}"] > 0
    assert values["riskroute_snapshot_failures_total"] == 0


def test_a_halt_stops_trading_and_only_another_scope_resumes(tmp_path: Path) -> None:
    config, store = service_config(tmp_path), MemoryStore()
    with running(config, store) as up:
        assert up.client.post("/halt", "halt", json={"reason": "drill"}).json() == {"halted": "drill"}
        refused = up.client.post("/orders", json=order_json())
        assert (refused.status_code, sentence(refused)) == (503, "trading is halted: drill")
        assert up.client.get("/health").json() == {"status": "halted"}
    with running(config, store) as up:
        assert up.client.get("/state").json()["halted_by"] == "halt"
        assert up.client.post("/resume", "halt").status_code == 403
        assert up.client.post("/resume").json() == {"halted": ""}
        assert up.client.post("/orders", json=order_json()).status_code == 200
        again = up.client.post("/resume")
        assert (again.status_code, sentence(again)) == (409, "trading must be halted to be resumed, was not halted")


def test_the_halt_file_halts_and_blocks_a_resume(tmp_path: Path) -> None:
    with running(service_config(tmp_path), MemoryStore()) as up:
        (tmp_path / "HALT").touch()
        while up.client.get("/health").json() != {"status": "halted"}:
            time.sleep(0.01)
        assert sentence(up.client.post("/resume")).startswith("the halt file HALT must be removed")
        (tmp_path / "HALT").unlink()
        assert up.client.post("/resume").status_code == 200


def test_the_halt_file_is_watched_after_a_halt_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    halt, tries = TradingEngine.halt, list[str]()

    def fail_once(self: TradingEngine, reason: str, by: str) -> Any:
        tries.append(reason)
        if len(tries) == 1:
            raise StateError("the log cannot be written")
        return halt(self, reason, by)

    monkeypatch.setattr(TradingEngine, "halt", fail_once)
    with running(service_config(tmp_path), MemoryStore()) as up:
        (tmp_path / "HALT").touch()
        until = time.monotonic() + 60
        while not up.service.engine.state.halted:
            assert time.monotonic() < until
            time.sleep(0.01)
    assert tries == ["the file HALT exists"] * 2


def test_a_stop_waits_for_a_slow_commit_and_raises_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Service, "patience", 0.05)
    store = MemoryStore()
    with running(service_config(tmp_path), store) as up:
        append = up.service.log.append

        def append_slowly(entries: Sequence[LogEntry], *, deferrable: bool = False) -> Future[list[int]]:
            done: Future[list[int]] = Future()
            written = append(entries, deferrable=deferrable)
            threading.Timer(1.0, lambda: done.set_result(written.result())).start()
            return done

        monkeypatch.setattr(up.service.log, "append", append_slowly)
        halt = up.service.halt("a test", "desk")
    assert halt.done()
    assert up.service.engine.end == LogHead(store.rows[-1].seq, store.rows[-1].chain)


def test_shadow_mode_takes_no_orders(tmp_path: Path) -> None:
    with running(service_config(tmp_path, mode="shadow"), MemoryStore()) as up:
        answer = up.client.post("/orders", json=order_json())
        assert answer.status_code == 409
        assert sentence(answer) == "mode must be live for orders, was shadow: send executed orders to /shadow/orders"


def test_events_start_after_a_row_number(up: Running) -> None:
    for after in ("-1", "²", "1" * 19):
        answer = up.client.get(f"/events?after={after}")
        assert (answer.status_code, sentence(answer)) == (422, "after must be the number of a row of the log")


def test_a_halt_and_a_resume_wait_for_no_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()
    monkeypatch.setattr("riskroute.live.http.api.state_view", lambda service: go_on.wait(60) and {})
    with running(service_config(tmp_path), MemoryStore()) as up:
        http = up.client.http

        async def halted_among_readers() -> list[int]:
            reading = {"Authorization": f"Bearer {TOKENS['read']}"}
            readers = [asyncio.create_task(http.get("/state", headers=reading)) for _ in range(50)]
            await asyncio.sleep(0.1)  # all threads of readers are busy
            found = []
            try:
                for path, scope in (("/halt", "halt"), ("/resume", "trade")):
                    headers = {"Authorization": f"Bearer {TOKENS[scope]}"}
                    found.append((await asyncio.wait_for(http.post(path, headers=headers), 30)).status_code)
                assert not any(reader.done() for reader in readers)
            finally:
                go_on.set()
            return found + [answer.status_code for answer in await asyncio.gather(*readers)]

        assert up.client.runner.run(halted_among_readers()) == [200] * 52
