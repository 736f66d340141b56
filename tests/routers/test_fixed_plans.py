"""Fixed plans as a safety net: what a plan would have cost, and when a fixed plan replaces the model's."""

from __future__ import annotations

import json

import numpy as np
import pytest

from riskroute.core.errors import DataError
from riskroute.core.records import from_plain, to_plain
from riskroute.routers.context import Context, read_context
from riskroute.routers.contextual.fixed_plans import FixedPlans, fixed_plan, plan_outcome
from riskroute.routers.contextual.router import Contextual
from riskroute.routers.plan import Plan
from riskroute.routers.public_data import PublicData, PublicMarketAtHorizon, PublicQueueOutflow
from riskroute.routers.report import ChildReport, Report
from riskroute.routers.risk import CAUTIOUS


def buy(number: int = 0, pools: tuple[str, ...] = ("P", "Q")) -> Context:
    """Buy 400 shares at a mid of 10; a sweep costs 0.013 dollars per share, fees included."""
    book = {"bids": [[9.99, 300]], "asks": [[10.01, 9000]], "taker": 0.003, "maker": -0.002}
    books = {"venues": {"A": book}, "pools": {name: {"fee": 0.001} for name in pools}}
    order = {"order": f"{number}", "side": "buy", "shares": 400, "lot": 100, "horizon": 60.0, "time": number * 10**9}
    return read_context(books, **order, features={"outflow A": 5.0})


def later(context: Context, outflow: int, move: float = 0.02) -> PublicData:
    """A mid ``move`` higher at the horizon, and a queue from which ``outflow`` shares left behind 300."""
    queues = {"A": PublicQueueOutflow(9.99, 300, outflow)}
    profits = tuple(-0.033 * size for size in (100, 200, 400))
    return PublicData(context, {"A": {"limit": profits}}, queues, PublicMarketAtHorizon(context.mid + move, 0.033))


def test_the_cost_of_plans_by_hand() -> None:
    """Of the limit order 100 shares fill; P fills 150 of a ping, Q nothing, and a resting order fills by half."""
    context = buy()

    def fills(pool: str, rests: bool, shares: int) -> float:
        return shares / 2 if rests else min(shares, 150) * (pool == "P")

    per_bp = 1e4 / 4000
    posted, swept, pinged = 100 * -0.012 + 300 * 0.033, 400 * 0.013, 150 * 0.001
    rested = 200 * (0.001 + 0.01) + 200 * 0.033
    for plan, cost in (
        (Plan("0", limit={"A": 400}), posted),
        (Plan("0"), swept),
        (Plan("0", dark={"P": 400, "Q": 400}, in_turn=True), pinged + 250 * 0.013),
        (Plan("0", dark_rest={"P": 400}), rested),
        # the ping first: 250 shares are left, of which the limit order keeps 200, and the resting order 50
        (
            Plan("0", dark={"P": 400}, in_turn=True, before=True, dark_rest={"Q": 200}, limit={"A": 200}),
            pinged + 25 * 0.011 + 25 * 0.033 + 100 * -0.012 + 100 * 0.033,
        ),
    ):
        assert plan_outcome(plan, later(context, 400), fills) == pytest.approx(cost * per_bp)


def test_fixed_plans_ping_with_what_does_not_wait() -> None:
    plans = {name: fixed_plan(name, buy()) for name in FixedPlans.names(buy())}
    assert plans["ping"].dark == {"P": 400, "Q": 400}
    assert plans["post"].limit == {"A": 400}
    assert plans["rest"].dark_rest == {"P": 200, "Q": 200}
    assert (plans["rest and post"].limit, plans["rest and post"].dark_rest) == ({"A": 200}, {"P": 100, "Q": 100})
    assert FixedPlans.names(buy(pools=())) == ["ping", "post"]


def test_noise_does_not_replace_the_model() -> None:
    """Both have equal means; 100 comparisons of 300 orders each, of which at three standard errors hardly any errs."""
    replaced = 0
    for seed in range(100):
        rng, fixed = np.random.default_rng(seed), FixedPlans()
        for _ in range(300):
            fixed.learn(float(rng.normal(1.0, 3.0)), {"post": float(rng.normal(1.0, 3.0))}, sweep=2.0, kappa=0.05)
        replaced += fixed.better is not None
    assert replaced <= 2


def test_variance_is_charged() -> None:
    """Equal mean costs, one with a standard deviation of 3: at kappa 0.1 its objective is 0.9 worse."""
    charged, free = FixedPlans(), FixedPlans()
    for number in range(400):
        cost = 1.0 + (3.0 if number % 2 else -3.0)
        charged.learn(cost, {"post": 1.0}, sweep=2.0, kappa=0.1)
        free.learn(cost, {"post": 1.0}, sweep=2.0, kappa=0.0)
    assert (charged.better, free.better) == ("post", None)


def test_a_router_whose_model_is_wrong_sends_the_better_fixed_plan() -> None:
    """Its belief is held at optimism about limit orders that never fill; pools fill every ping."""

    class Wrong(Contextual):
        def on_public_data(self, public: PublicData) -> None:
            pending = self.pending.pop(public.context.order)
            self._compare_fixed_plans(public, pending)

    router = Wrong()
    plans = []
    for number in range(120):
        context = buy(number)
        plan = router.route(context)
        plans.append(plan)
        waits = [("limit", venue, n, 0) for venue, n in plan.limit.items()]
        waits += [("dark_rest", pool, n, 0) for pool, n in plan.dark_rest.items()]
        if plan.dark and not plan.before:
            waits += [("dark", next(iter(plan.dark)), 400, 400)]
        children = tuple(
            ChildReport(k, kind, place, n, filled, 10.0 if filled else 0.0, 0.0, 0, 1)
            for k, (kind, place, n, filled) in enumerate(waits)
        )
        router.learn(Report(f"{number}", children, complete=True, profit=0.0))
        router.on_public_data(later(context, 0))
    assert plans[0].limit or plans[0].dark_rest  # it waited
    assert plans[-1] == fixed_plan("ping", buy(119))
    restored = Wrong.restore(json.loads(json.dumps(router.state())))
    assert restored.route(buy(500)) == fixed_plan("ping", buy(500))
    assert Contextual(risk=CAUTIOUS).route(buy()).order == "0"


def test_a_capped_profile_keeps_no_fixed_plans() -> None:
    router = Contextual(risk=CAUTIOUS)
    router.route(buy())
    router.on_public_data(later(buy(), 0))
    assert router.fixed == {}


def test_a_damaged_comparison_is_refused() -> None:
    fixed = FixedPlans()
    fixed.learn(1.0, {"post": 2.0}, sweep=2.0, kappa=0.0)
    assert from_plain(FixedPlans, json.loads(json.dumps(to_plain(fixed)))) == fixed
    with pytest.raises(DataError, match="gaps"):
        from_plain(FixedPlans, {"gaps": {"post": [1.0]}, "saved": 0.0})


def test_the_charge_corrects_variances_and_savings_that_vary() -> None:
    """Errors have four times the predicted variance; half of a sweep of 4 basis points is saved on average."""
    fixed = FixedPlans()
    assert fixed.price(0.05, 3.0) == 0.05
    for _ in range(400):
        fixed.learn(2.0, {}, sweep=4.0, kappa=0.05)
        fixed.learn_forecast(2.0, 1.0)
    assert fixed.saved == pytest.approx(2.0, abs=0.01)
    usual = fixed.price(0.05, 4.0)
    assert usual == pytest.approx(0.05 * 4, rel=0.15)  # a prior ratio of 1 counts as 20 orders
    # an order that saves 2 more than usual: the slope of saving x - kappa (x - 2)^2 at 4 is 1 - 2 kappa 2
    assert fixed.price(0.05, 8.0) == pytest.approx(usual / 0.8, rel=0.01)
    assert fixed.price(0.0, 8.0) == 0.0
