"""The headroom: its parts add up, the best fixed plan is the best of its table, and words say what learning saves."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from naive_costs import an_order
from riskroute.core.records import from_plain
from riskroute.routers.risk import CAUTIOUS, CHEAPEST, risk_profile
from riskroute.study.candidates import Candidate
from riskroute.study.config import BacktestConfig
from riskroute.study.costs import objective_cost, order_objectives
from riskroute.study.headroom import (
    HeadroomParts,
    _by_state,
    _plays_of_learned,
    _ready_again,
    headroom_legend,
    headroom_table,
    headroom_words,
    market_headroom,
)
from riskroute.study.markets import MarketDay
from riskroute.study.play import PlayCache, play_routers, play_tasks
from small_days import HERE


def test_the_parts_of_the_headroom_add_up(dark_days: list[MarketDay], tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    found = market_headroom(
        "dark",
        dark_days,
        BacktestConfig(orders=10, block_minutes=2),
        sizes=(500,),
        horizons=(0.0, 10.0),
        risks=(CHEAPEST, CAUTIOUS),
        backend=HERE,
        cache=PlayCache(tmp_path),
        progress=lambda *words: told.append(words),
    )
    assert [(one.quantity, one.horizon, one.risk.name) for one in found] == [
        (500, 0.0, "cheapest"), (500, 0.0, "cautious"), (500, 10.0, "cheapest"), (500, 10.0, "cautious"),
    ]  # fmt: skip
    assert [done for _, done, _ in told] == [1, 2, 3, 4]
    for one in found:
        assert (one.standard, one.synthetic, one.orders) == ("dark-first+sweep", True, 10)
        parts = one.fixed_saving_bps, one.seeing_saving_bps, one.foresight_saving_bps
        assert min(parts) >= 0
        assert sum(parts) == pytest.approx(one.fixed_bps[one.standard] - one.foresight_bps)
        best = min(one.fixed_bps.values())
        if one.risk == CHEAPEST:
            assert one.fixed_bps[one.best_fixed] == best
            assert one.seeing_saving_bps == pytest.approx(max(best - min(one.seeing_bps.values()), 0.0))
        assert one.fixed_bps[one.best_fixed] == pytest.approx(one.fixed_bps[one.standard] - one.fixed_saving_bps)
        assert one.foresight_bps <= min(best, *one.seeing_bps.values()) + 1e-9
        learned = {one.best_fixed: one.fixed_bps[one.best_fixed]} | one.learned_bps
        assert one.learned_saving_bps == pytest.approx(one.fixed_bps[one.best_fixed] - learned[one.best_learned])
        assert one.learned_saving_bps <= one.seeing_saving_bps + 1e-9  # no plan that the profile leaves out
        assert one.learned_low_bps is not None
        assert one.learned_low_bps <= one.learned_saving_bps
        assert one.learned_bps.items() <= one.seeing_bps.items()
        assert len(one.seeing_bps) == len(one.learned_bps) + 2
        if one.risk == CHEAPEST:
            # in every state of the book the best fixed plan was there to be chosen
            assert one.seeing_bps["fixed plan by spread and imbalance, fitted"] <= best + 1e-9
        plain = one.to_json()
        assert from_plain(HeadroomParts, {name: plain[name] for name in plain if name != "learning"}) == one
        assert plain["learning"] == one.learning
    assert len(found[0].fixed_bps) == 6 + 8  # rules, and pools to ping
    assert len(found[2].fixed_bps) == 8 + 2 * 15  # and fractions to rest and to post
    assert found[0].foresight_bps == found[1].foresight_bps  # what is known is no risk, at any price of it


def test_the_learner_meets_the_judged_orders_again(dark_days: list[MarketDay]) -> None:
    """The second time, its beliefs are those of the end of the first; it explores no more."""
    config = BacktestConfig(orders=10, seeds=1, horizon=10.0, quantities=(500,))
    (tables,) = _plays_of_learned(dark_days, config, HERE, None)
    assert set(tables.orders["day"]) == {str(dark_days[1].date)}
    assert tables.orders["judged"].all()
    assert tables.orders["exploration"].to_numpy() == pytest.approx(0.0)
    (first,) = play_tasks([Candidate("contextual", "contextual")], dark_days[1:], config)
    state = dataclasses.replace(first, train=0).perform().state
    assert state is not None
    again = _ready_again(state)
    assert (again.budget, again.under_way) == (0.0, ())
    assert again.dark_beliefs.keys() == {"LUMO"}
    (halved,) = _plays_of_learned(dark_days[:1], config, HERE, None)
    assert halved.orders["judged"].to_list() == [False] * 5 + [True] * 5


def test_the_objective_of_single_orders_is_that_of_all(dark_days: list[MarketDay]) -> None:
    config = BacktestConfig(orders=10, horizon=10.0, quantities=(500, 300), routers=("sweep",))
    orders = play_routers([Candidate("r", "dark-first+sweep")], dark_days, config, backend=HERE).orders
    mean = order_objectives(orders, 0.2)["objective_bps"].mean()
    assert mean == pytest.approx(objective_cost(orders, 0.2))


def test_the_plan_by_state_is_the_best_of_each_state() -> None:
    """Three states of the book and two plans, a and b; b costs less in all."""
    costs = {  # by block: state, cost of a, cost of b
        0: ("x", 1.0, 2.0), 1: ("x", 3.0, 2.0), 2: ("y", 5.0, 4.0), 3: ("y", 9.0, 4.0), 4: ("z", 1.0, 6.5),
    }  # fmt: skip
    rows = [
        an_order(name, block, block=block, cost=10 * one[1 + k], foreseen=10 * one[1 + k], impact=0.0)
        for k, name in enumerate("ab")
        for block, one in costs.items()
    ]
    orders = pl.DataFrame(rows)
    plans = {name: orders.filter(pl.col("router") == name) for name in "ab"}
    states = pl.DataFrame(
        [
            {"symbol": "QVEX", "day": "2023-11-16", "seed": 0, "number": block, "state": one[0]}
            for block, one in costs.items()
        ]
    )
    found = [
        _by_state(plans, states, BacktestConfig(), held).sort("block")["router"].to_list() for held in (False, True)
    ]
    # in x both cost 4; held out, a block of x is played as the other one says, and z, seen once, by the best plan
    assert found == [["a", "a", "b", "b", "a"], ["b", "a", "b", "b", "b"]]


def room(shares: int, saving: float, *, far: float = 0.01, risk: float = 0.0, **other: Any) -> HeadroomParts:
    """Fixed plans cost 3.0 and 2.0 bps, seeing the books saves so much, and foresight one more bps."""
    parts: dict[str, Any] = {
        "fixed_bps": {"sweep": 3.0, "post": 2.0},
        "seeing_bps": {"contextual": 2.0 - saving},
        "learned_bps": {"contextual": 2.0 - saving},
        "foresight_bps": 1.0 - saving,
    }
    parts |= {"fixed_saving_bps": 1.0, "seeing_saving_bps": saving, "foresight_saving_bps": 1.0}
    parts |= {"learned_low_bps": saving - far, "learned_high_bps": saving + far, "estimated_share": 0.0}
    parts |= {"learned_saving_bps": saving, "best_fixed": "post"}
    parts |= {"best_seeing": "contextual", "best_learned": "contextual"} | other
    return HeadroomParts("m", shares, 0.0, risk_profile("risk", risk), 100, "sweep", **parts)


def test_learning_can_pay_if_seeing_the_books_clearly_saves_enough() -> None:
    assert room(10, 0.05).learning == "cannot"
    assert room(10, 0.2).learning == "can"
    assert room(10, 0.2, far=0.3).learning == "unclear"
    assert room(10, 0.2, learned_saving_bps=0.05).learning == "unclear"
    assert room(10, 0.2, learned_low_bps=None, learned_high_bps=None).learning == "unclear"
    assert room(10, 0.05, foresight_saving_bps=50.0).learning == "cannot"  # nobody learns the future


SAVED = (
    "The best fixed plan saves 1.00 bps per order against sweep; plans that see the books save at most {0} bps more "
    "(fitted on the judged days), and {0} bps on orders that they were not fitted to; only foresight saves the other "
    "1.00 bps."
)


def test_words_about_headroom() -> None:
    begin = "m, immediate execution:"
    assert headroom_words([room(10, 0.05), room(100, 0.02)]) == [
        f"{begin} learning cannot pay at every size. {SAVED.format('0.02 to 0.05')}"
    ]
    assert headroom_words([room(10, 0.5)]) == [
        f"{begin} learning can pay for orders of 10 shares. {SAVED.format('0.50')}"
    ]
    assert headroom_words([room(10, 0.05), room(100, 0.2), room(200, 0.2, far=1.0)]) == [
        f"{begin} learning cannot pay for orders of 10 shares; learning can pay for orders of 100 shares; there are "
        f"too few orders to tell whether learning can pay for orders of 200 shares. {SAVED.format('0.05 to 0.20')}"
    ]
    assert headroom_words([room(10, 0.05), room(10, 0.2, risk=0.2)]) == [
        f"{begin} whether learning can pay depends on the risk profile for orders of 10 shares. "
        f"{SAVED.format('0.05 to 0.20')}"
    ]


def test_headroom_names_its_price_and_what_could_not_be_played() -> None:
    assert headroom_legend([room(10, 0.05, benchmark="vwap")])[0] == (
        "bps per judged order against the VWAP from arrival to the horizon, fees and charge for risk included"
    )
    assert headroom_words([room(10, 0.05, resting=False)])[-1] == (
        "m, immediate execution: limit orders could not be played on this data."
    )


def test_headroom_says_what_is_synthetic_and_what_is_estimated() -> None:
    made = room(10, 0.05, synthetic=True)
    (line,) = headroom_words([made])
    assert line.startswith("m (synthetic), immediate execution: ")
    assert headroom_table([made]).rows[0][0] == "m (synthetic)"
    lines = headroom_words([room(10, 0.05), room(5000, 3.0, estimated_share=0.57)])
    assert lines == [
        f"m, immediate execution: learning cannot pay for orders of 10 shares. {SAVED.format('0.05')}",
        "m, immediate execution: no verdict for 5,000 shares: 57% of the volume is beyond the recorded depth "
        "and priced by an estimate. Import more levels or use smaller orders.",
    ]
    table = headroom_table([room(5000, 3.0, estimated_share=0.57), room(10, 0.0)])
    assert table.header[-1] == "estimated"
    assert [row[-1] for row in table.rows] == ["57.0%", "0.0%"]
    assert [row[-4:-1] for row in table.rows] == [
        ["no verdict", "post", "contextual"],
        ["cannot", "post", "contextual"],
    ]
