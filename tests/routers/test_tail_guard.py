"""The tail guard: updates of its multiplier and level, corrections by realised excess, and saved states."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from riskroute.core.errors import DataError
from riskroute.core.records import from_plain, to_plain
from riskroute.routers.context import Context, read_context
from riskroute.routers.contextual.router import ContextualGreedy
from riskroute.routers.contextual.tail_guard import TailGuard, _TailCorrection
from riskroute.routers.public_data import PublicData, PublicMarketAtHorizon, PublicQueueOutflow
from riskroute.routers.report import ChildReport, Report
from riskroute.routers.risk import CAUTIOUS, RiskProfile


def updated(guard: TailGuard, plan: float, rule: float, times: int, **more: Any) -> TailGuard:
    for _ in range(times):
        guard.update(plan, rule, chance=0.04, mid_sd=3.0, **more)
    return guard


def test_the_price_rises_for_plans_riskier_than_the_rule_and_falls_for_others() -> None:
    riskier, safer = updated(TailGuard(), 0.3, 0.1, 50), updated(TailGuard(), 0.05, 0.1, 50)
    assert riskier.price > 0.5
    assert safer.price < 0.3
    assert updated(TailGuard(), 0.3, 0.1, 500).price == 1.0


def test_plans_that_come_worse_than_expected_raise_the_price() -> None:
    """Expected as risky as the rule, but three times as bad; then the rule's limit orders are as bad as that."""
    guard, both = TailGuard(), TailGuard()
    for one in (guard, both):
        for _ in range(300):
            updated(one, 0.1, 0.1, 1, posted=0.1)
            for _ in range(TailGuard.update_every):
                one.learn_plan(one.level + 0.3)
                one.learn_posted(one.level + (0.3 if one is both else 0.1))
    assert guard.price > 0.9
    assert both.price == pytest.approx(0.3)


def test_costs_below_the_level_have_no_excess() -> None:
    guard = TailGuard(level=2.0)
    guard.learn_plan(1.9)
    guard.learn_posted(-5.0)
    assert guard.plans.realised == guard.posted.realised == 0.0
    guard.learn_plan(2.5)
    guard.learn_posted(3.0)
    assert (guard.plans.realised, guard.posted.realised) == (0.5, 1.0)


def test_the_level_settles_where_the_rule_exceeds_it_in_one_order_of_twenty_five() -> None:
    rng, guard = np.random.default_rng(3), TailGuard(level=0.0)
    costs = rng.exponential(size=20_000)
    for _ in range(4000):
        chance = float((rng.choice(costs, 50) > guard.level).mean())
        guard.update(0.1, 0.1, chance=chance, mid_sd=1.0)
    assert guard.level == pytest.approx(np.log(25), abs=0.3)


def test_a_guard_survives_serialisation() -> None:
    guard = updated(TailGuard(), 0.3, 0.1, 3, posted=0.2)
    guard.learn_plan(4.0)
    assert from_plain(TailGuard, json.loads(json.dumps(to_plain(guard)))) == guard


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"price": 0.0}, "price must be > 0, was 0.0"),
        ({"updates": -1}, "updates must be >= 0, was -1"),
        ({"posted": {"realised": "x"}}, "posted.realised must be a number, was 'x'"),
        ({"plans": {"outcomes": -0.5}}, "plans.outcomes must be >= 0, was -0.5"),
    ],
)
def test_states_that_no_update_leads_to_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        from_plain(TailGuard, to_plain(TailGuard()) | change)


def sale(number: int) -> Context:
    book = {"A": {"bids": [[10.00, 900]], "asks": [[10.02, 900]], "maker": -0.001}}
    order = {"order": f"{number}", "side": "sell", "shares": 100, "lot": 100, "horizon": 60.0}
    return read_context({"venues": book}, **order, features={"outflow A": 5.0}, time=number * 10**9)


def test_realised_excess_of_orders_and_of_the_rule_is_recorded() -> None:
    """A sale of 100 at 10.02 of which 60 fill, with a rebate of 0.1 cents; 40 are swept 5 cents below the mid."""
    router = ContextualGreedy(risk=CAUTIOUS)
    router.route(sale(0))
    (guard,) = router.tails.values()
    guard.level = 1.0
    queue = {"A": PublicQueueOutflow(10.02, 900, 960)}
    router.on_public_data(PublicData(sale(0), {"A": {"limit": (0.0,)}}, queue, PublicMarketAtHorizon(9.98, 0.05)))
    cost = (60 * (-0.01 - 0.001) + 40 * 0.05) * 1e4 / (100 * 10.01)
    assert guard.posted.realised == pytest.approx(cost - 1.0)
    child = ChildReport(0, "take", "A", 100, 100, 9.98, 0.0, 0, 1)
    router.learn(Report("0", (child,), complete=True, profit=-3.0))
    assert guard.plans.realised == pytest.approx(3.0 * 1e4 / (100 * 10.01) - 1.0)


def test_the_level_begins_where_the_first_order_has_it() -> None:
    router = ContextualGreedy(risk=CAUTIOUS)
    problem = router.problem(sale(0))
    rule = problem.simple_rule(router.risk.kappa * problem.per_bp)
    level = problem.quantile_level(rule, TailGuard.exceedance)
    assert problem.excess(rule, level)[0] <= TailGuard.exceedance < problem.excess(rule, level - 0.01)[0]
    router.route(sale(0))
    (guard,) = router.tails.values()
    assert guard.level == pytest.approx(level, abs=0.301 * problem.mid_sd_bps * TailGuard.exceedance)


def test_variance_is_charged_less_as_tails_turn_out_to_be_safe() -> None:
    router = ContextualGreedy(risk=RiskProfile("low", 0.01, capped=True))
    problem = router.problem(sale(0))
    assert router._variance_price(problem) == pytest.approx(ContextualGreedy.guarded_kappa * problem.per_bp)
    (guard,) = router.tails.values()
    guard.price = 0.08
    assert router._variance_price(problem) == pytest.approx(0.8 * ContextualGreedy.guarded_kappa * problem.per_bp)
    guard.price = 0.001
    assert router._variance_price(problem) == pytest.approx(0.67 * ContextualGreedy.guarded_kappa * problem.per_bp)


def test_the_correction_is_shrunk_towards_one() -> None:
    correction = _TailCorrection()
    correction.add_predicted(0.1)
    for _ in range(100):
        correction.add_realised(0.2)
    assert round(correction.ratio(prior=10.0), 2) == 1.5


def test_a_riskier_plan_raises_the_multiplier() -> None:
    guard = TailGuard()
    guard.update(0.1, 0.1, chance=0.04, mid_sd=3.0)
    assert guard.price == 0.3
    guard.update(0.5, 0.1, chance=0.04, mid_sd=3.0)
    assert (round(guard.price, 4), guard.level) == (0.3036, 2.0)
