"""Shadow mode: what ours would have saved against another router, learned from what that one did."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from live_logs import MemoryLog, MemoryStore
from live_services import order_json, running, service_config
from recorded_market import executed_orders, told_market
from riskroute.live.config import LiveConfig, live_config
from riskroute.live.http.requests import QuotesRequest, ShadowRequest, decode_request
from riskroute.live.log.recovery import replay_log, verify_log
from riskroute.live.service import Service
from riskroute.live.state.amounts import NANO
from riskroute.live.tokens import token_hash
from riskroute.study.backtest import BacktestResult, run_backtest
from riskroute.study.config import BacktestConfig
from riskroute.study.markets import MarketDay
from riskroute.study.play import day_to_play
from riskroute.study.router_comparison import compare_routers
from small_days import HERE

THEIRS = "dark-first+sweep"
OURS = ("sweep", "dark-first+sweep:mode=parallel", "kaplan-meier+sweep")


@pytest.fixture(scope="module")
def result(dark_days: list[MarketDay]) -> BacktestResult:
    config = BacktestConfig(quantities=(1000,), orders=100, seeds=1, routers=(THEIRS, *OURS), train=0)
    return run_backtest("dark", dark_days[:1], config, backend=HERE)


def shadow_config(days: tuple[MarketDay, ...], router: str) -> LiveConfig:
    return live_config(
        {
            "mode": "shadow",
            "log": {"path": "unused"},
            "router": {"name": router},
            "venues": {name: {} for name in days[0].load().books.venues},
            "pools": {pool.name: {"fee": pool.fee, "improvement": pool.improvement} for pool in days[0].pools},
            "instruments": {day.symbol: {} for day in days},
            "tokens": {"desk": {"hash": token_hash("x"), "scopes": ["trade"]}},
        }
    )


def watched(result: BacktestResult, router: str, store: MemoryStore, step: int = 0) -> dict[str, Any]:
    """Let a router watch the log of a backtest, and the market every ``step`` ns; returns what is shown of it."""
    service = Service(shadow_config(result.days, router), log=MemoryLog(store))
    service.start()
    (day,) = result.days
    trading, last = day_to_play(day, result.config), 0
    try:
        for symbol, order in executed_orders(result.tables, [day], result.config, THEIRS):
            begin, end = order["arrived"], order["order"]["deadline"]
            if step:
                for told in told_market(trading, symbol, begin, end, step=step, last=last):
                    service.quote(decode_request(json.dumps(told).encode(), QuotesRequest, "quotes"))
                last = end
            given = decode_request(json.dumps(order).encode(), ShadowRequest, "an order")
            assert service.compare(given).result(60) is not None
        return service.engine.state.totals.view()
    finally:
        service.close()


@pytest.mark.parametrize("router", OURS)
def test_shadow_mode_on_a_backtests_own_log_reports_the_saving_of_the_backtest(
    result: BacktestResult, router: str
) -> None:
    """The estimate lies within the interval of the backtest, and finds the same sign."""
    paired = result.comparison.routers[router].paired
    assert paired is not None
    assert paired.against == THEIRS
    assert paired.low is not None
    assert paired.high is not None
    shown = watched(result, router, MemoryStore())
    saving = shown["saving_bps"]
    assert saving["orders"] == 100
    assert -paired.high <= saving["mean"] <= -paired.low
    assert saving["low"] < -paired.difference_bps < saving["high"]
    paid = result.comparison.routers[THEIRS].cost_bps
    assert shown["cost_bps"]["mean"] == pytest.approx(paid, abs=1e-3)


WAITING = ("dark-first+post+sweep", "contextual")


@pytest.fixture(scope="module")
def waited(dark_days: list[MarketDay]) -> BacktestResult:
    """Twenty minutes of orders that have ten seconds each; blocks of a minute, so that intervals rest on twenty."""
    routers = (THEIRS, *WAITING, "rest-even+sweep")
    config = BacktestConfig(
        quantities=(1000,), orders=100, seeds=1, horizon=10, routers=routers, train=0, block_minutes=1
    )
    return run_backtest("dark", dark_days[:1], config, backend=HERE)


@pytest.mark.parametrize("router", [pytest.param(WAITING[0], marks=pytest.mark.thorough), WAITING[1]])
def test_shadow_mode_reports_the_saving_of_the_backtest_for_orders_that_wait_too(
    waited: BacktestResult, router: str
) -> None:
    """Queues are judged by the trades that everybody saw, pools that were not tried by a careful guess."""
    compared = compare_routers(waited.tables, THEIRS, {}, risk=waited.config.risk)
    paired = compared.routers[router].paired
    assert paired is not None
    assert paired.low is not None
    assert paired.high is not None
    store = MemoryStore()
    shown = watched(waited, router, store, step=NANO // 2)["saving_bps"]
    told = sum(row.kind == "marketobserved" for row in store.rows)
    assert told == (100 if router == "contextual" else 0)  # it learned from the market, too
    assert -paired.high <= shown["mean"] <= -paired.low
    assert shown["low"] < -paired.difference_bps < shown["high"]


def test_a_mostly_guessed_saving_is_reported_as_such(waited: BacktestResult) -> None:
    """The other router never lets an order rest in a pool: nobody can know what that would have brought."""
    shown = watched(waited, "rest-even+sweep", MemoryStore())
    assert shown["guessed"] > shown["notional"] / 2
    assert shown["known_saving_bps"]["orders"] == 0


def test_a_router_saves_nothing_against_itself(result: BacktestResult) -> None:
    store = MemoryStore()
    shown = watched(result, THEIRS, store)
    assert shown["saving_bps"]["mean"] == pytest.approx(0, abs=1e-6)
    assert shown["guessed"] == 0
    log = MemoryLog(store)
    assert verify_log(log).decisions == 100
    assert verify_log(log).holds
    assert replay_log(log).totals.view() == shown


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Any]:
    with running(service_config(tmp_path, mode="shadow"), MemoryStore()) as found:
        yield found


def executed(key: str = "one", **more: Any) -> dict[str, Any]:
    """An order whose 40 shares a pool filled, the rest taken at A."""
    order = order_json(key)
    now = order["quotes"][0]["at"]
    dark = {"kind": "dark", "place": "P", "sent": 100, "filled": 40, "price": "10.01", "fee": 0.04}
    lit = {"kind": "sweep", "place": "A", "sent": 60, "filled": 60, "price": 10.02, "fee": "0.18"}
    return {
        "order": order,
        "arrived": now,
        "children": [dark | {"done_at": now + 1}, lit | {"done_at": now + 2}],
    } | more


def test_an_order_is_compared_and_learned_once(up: Any) -> None:
    given = executed()
    answer = up.client.post("/shadow/orders", json=given)
    assert answer.status_code == 200
    said = answer.json()
    # ours tries the pool with everything too, finds the same 40 shares, and takes the rest at the same price
    assert said["plan"]["dark"] == {"P": 100}
    assert (said["cost"], said["estimate"], said["saving"], said["guessed"]) == (0.82, 0.82, 0, 0)
    assert said["currency"] == "USD"
    assert up.service.engine.learner.router.scores["P"] != 1.0
    rows = up.rows
    assert up.client.post("/shadow/orders", json=given).json() == {"key": "one", "known": True}
    other = given | {"order": given["order"] | {"quantity": 200}}
    assert up.client.post("/shadow/orders", json=other).status_code == 409
    assert up.rows == rows
    shown = up.client.get("/state").json()
    assert shown["totals"]["saving_bps"]["orders"] == 1
    assert shown["totals"]["places"]["P"]["filled"] == 40 * 10.01
    assert up.service.engine.outbox.gateways == {}


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no children": ({"children": []}, "expected 1 to 1000 children, got 0"),
    "unknown pool": ({"kind": "dark", "place": "Q"}, "place of a dark child must be one of P, was 'Q'"),
    "overfilled child": (
        {"filled": 200},
        "expected a child to fill at most the quantity it sent, got 200",
    ),
    "overfilled": ({"sent": 1000, "filled": 900}, "children must fill at most 100 shares, was 960 shares"),
    "no price": ({"price": 0}, "price of a filled child must be above 0, was 0"),
    "fee": ({"fee": 10**18}, "fee of a child must be a multiple of 0.000000001 from"),
    "time": ({"sent_at": -1}, "times of a child must not be negative"),
    "from the future": ({"arrived": 2**62}, "arrived must be a time since 1970 and not in the future"),
    "old quotes": ({"arrived": 5}, "deadline must be 0 to 3600 s after the arrival"),
}


@pytest.mark.parametrize("name", BAD)
def test_inconsistent_executions_are_refused(up: Any, name: str) -> None:
    change, text = BAD[name]
    given = executed()
    if set(change) <= {"children", "arrived"}:
        given |= change
    else:
        given["children"][0] |= change
    rows = up.rows
    answer = up.client.post("/shadow/orders", json=given)
    assert answer.status_code == 422
    assert answer.json()["error"].startswith(text)
    assert up.rows == rows


def test_live_mode_takes_no_executed_orders(tmp_path: Path) -> None:
    with running(service_config(tmp_path), MemoryStore()) as up:
        answer = up.client.post("/shadow/orders", json=executed())
        assert answer.status_code == 409
        assert answer.json() == {"error": "mode must be shadow for orders of another router, was live"}


def test_shares_that_were_never_filled_cost_the_far_touch(up: Any) -> None:
    given = executed()
    given["children"] = given["children"][:1]
    said = up.client.post("/shadow/orders", json=given).json()
    assert said["cost"] == 40 * 0.001 + 60 * 0.01
