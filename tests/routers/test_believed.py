"""What routers say of venues and pools: in a unit that is known, with how sure they are, and without a change."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from riskroute.routers.context import read_context
from riskroute.routers.registry import make_router
from riskroute.routers.report import ChildReport, Report
from riskroute.routers.router import Router

BOOKS = {
    "venues": {name: {"bids": [[10.0, 900]], "asks": [[10.02, 900]]} for name in ("A", "B")},
    "pools": {"P": {}, "Q": {"fee": 0.001}},
}


def taught(name: str, orders: int, **parameters: object) -> Router:
    """A router after some orders of 400 shares, of which P fills a quarter and Q nothing."""
    router = make_router(name, **parameters)
    for number in range(orders):
        context = read_context(BOOKS, side="sell", shares=400, order=str(number), time=number)
        plan = router.route(context)
        children = tuple(
            ChildReport(k, "dark", pool, sent, sent // 4 if pool == "P" else 0, 10.01, 0.0, 5, 9)
            for k, (pool, sent) in enumerate(plan.dark.items())
            if sent
        )
        router.learn(Report(str(number), children, complete=True, profit=-1.0 - 0.1 * (number % 3)))
    return router


@pytest.mark.parametrize("name", ["dark-first+sweep", "thompson", "contextual", "sweep"])
def test_to_say_what_is_believed_changes_nothing(name: str) -> None:
    assert make_router(name).beliefs() == ()
    router = taught(name, 12)
    before = copy.deepcopy(router.state())
    said = router.beliefs()
    assert router.state() == before
    assert all(one.unit in ("bp", "$/share", "probability") for one in said)
    assert all(np.isfinite(one.mean) and (one.deviation is None or one.deviation >= 0) for one in said)


def test_dark_first_says_what_pools_save() -> None:
    score = {one.place: one for one in taught("dark-first+sweep", 60).beliefs()}
    assert score["P"].mean > score["Q"].mean
    assert score["P"].deviation is None


def test_policies_say_what_venues_earn_and_are_surer_with_time() -> None:
    early, late = ({one.place: one for one in taught("thompson", orders).beliefs()} for orders in (40, 200))
    assert set(early) == {"A", "B", "P", "Q"}
    assert sum(float(one.deviation or 0) for one in late.values()) < sum(
        float(one.deviation or 0) for one in early.values()
    )
    assert late["A"].seen is not None
    assert late["A"].seen > 100


def test_contextual_says_how_often_pools_hold_something() -> None:
    said = {one.place: one for one in taught("contextual-greedy", 60).beliefs()}
    assert said["P"].what == "ping finds shares"
    assert said["P"].mean > 0.9
    assert "Q" not in said or said["Q"].mean < said["P"].mean
    assert said["P"].seen is not None
