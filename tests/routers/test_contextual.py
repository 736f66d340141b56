"""The contextual routers: plans before any data, learning, exploration and saved states."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

import riskroute as rr
from riskroute.core.errors import InputError, StateError
from riskroute.core.instrument import Instrument
from riskroute.routers.context import Context, read_context
from riskroute.routers.contextual.dark_belief import DarkBelief
from riskroute.routers.contextual.lit_belief import (
    _POSTING_FEATURES,
    _drift_features,
    _fill_fraction,
    _FillModel,
    _posting_features,
)
from riskroute.routers.contextual.market_features import MarketFeatures, horizon_feature
from riskroute.routers.contextual.router import Contextual, ContextualGreedy, ContextualIds, _order_class
from riskroute.routers.contextual.wait_or_trade import WaitOrTradePlan, _best_plan, _coupled
from riskroute.routers.public_data import PublicData, PublicMarketAtHorizon, PublicQueueOutflow
from riskroute.routers.report import ChildReport, Report
from riskroute.routers.risk import CHEAPEST, RiskProfile
from riskroute.routers.rules import SweepRule

KINDS = (ContextualGreedy, Contextual, ContextualIds)
SECOND = 10**9


def moment(
    number: int = 0, *, horizon: float = 60.0, shares: int = 1000, pools: Any = ("P", "Q"), flows: bool = True
) -> Context:
    """Two venues with the same prices; B's queue is shorter."""
    books = {
        "A": {"bids": [[10.00, 900], [9.99, 900]], "asks": [[10.02, 900], [10.03, 900]], "taker": 0.003},
        "B": {"bids": [[10.00, 300], [9.99, 900]], "asks": [[10.02, 300], [10.03, 900]], "taker": 0.003},
    }
    known = {"outflow A": 5.0, "outflow B": 5.0} if flows else {}
    return read_context(
        {"venues": books, "pools": {name: {"fee": 0.001} for name in pools}},
        **{"order": f"{number}", "side": "sell", "shares": shares, "lot": 10, "horizon": horizon, "features": known},
        time=number * SECOND,
    )


def outcome(context: Context, filled: dict[str, bool], moved: float = 0.0) -> PublicData:
    """Limit orders that were filled or not, and a sweep at the horizon a move of the mid later."""
    sizes = PublicData.outcome_sizes(context.shares, context.lot)
    sweep = 0.013 + moved
    earned = {name: tuple(size * (0.01 if there else -sweep) for size in sizes) for name, there in filled.items()}
    return PublicData(
        context,
        {name: {"take": earned[name], "limit": earned[name]} for name in filled},
        {name: PublicQueueOutflow(10.02, 300, 5000 if there else 0) for name, there in filled.items()},
        PublicMarketAtHorizon(context.mid - moved, sweep),
    )


def taught(router: ContextualGreedy, chances: dict[str, float], rounds: int = 300, deviation: float = 0.0) -> None:
    """Show a router moments at which limit orders fill with these probabilities."""
    rng = np.random.default_rng(5)
    for number in range(rounds):
        filled = {name: bool(rng.random() < chance) for name, chance in chances.items()}
        router.on_public_data(outcome(moment(number), filled, deviation * rng.normal()))


@pytest.mark.parametrize("kind", KINDS)
def test_they_pass_the_router_checks(kind: type[ContextualGreedy]) -> None:
    rr.check_router(kind())


@pytest.mark.parametrize("kind", KINDS)
def test_without_pools_and_queues_they_are_the_sweep(kind: type[ContextualGreedy]) -> None:
    for horizon, flows in ((0.0, True), (60.0, False), (0.0, False)):
        context = moment(horizon=horizon, pools=(), flows=flows)
        plan = kind(risk=CHEAPEST).route(context)
        assert not plan.dark
        assert not plan.dark_rest
        assert not plan.limit
        priced = rr.routers.price_decision(context, plan)
        assert priced.expected_cost == pytest.approx(
            rr.routers.price_decision(context, SweepRule().route(context)).expected_cost
        )


@pytest.mark.parametrize("kind", KINDS)
def test_an_order_without_time_tries_pools_in_turn_and_sweeps(kind: type[ContextualGreedy]) -> None:
    plan = kind().route(moment(horizon=0.0))
    assert plan.in_turn
    assert set(plan.dark) == {"P", "Q"}
    assert plan.rest == "sweep"
    assert not plan.dark_rest
    assert not plan.limit


def test_pools_that_cost_more_than_the_sweep_are_left_alone() -> None:
    books = {"venues": {"A": {"bids": [[10.0, 900]], "asks": [[10.02, 900]]}}, "pools": {"P": {"fee": 0.02}}}
    context = read_context(books, side="sell", shares=300, horizon=60.0)
    plan = ContextualGreedy().route(context)
    assert not plan.dark
    assert not plan.dark_rest


def test_it_learns_from_public_outcomes_where_limit_orders_fill() -> None:
    """Both venues look alike but for their queues; fills are seen at A alone."""
    router = ContextualGreedy(risk=CHEAPEST)
    taught(router, {"A": 0.95, "B": 0.05})
    plan = router.route(moment(1000, pools=()))
    assert plan.limit.get("A", 0) == 1000
    assert "B" not in plan.limit


def test_with_a_constant_market_it_is_the_best_static_split() -> None:
    """True means by venue are known, so that all splits in tenths can be compared."""
    chances = {"A": 0.9, "B": 0.6}
    router = ContextualGreedy(risk=CHEAPEST)
    taught(router, chances, rounds=600)
    context = moment(1000, pools=())
    plan = router.route(context)
    earned = {name: chance * 0.01 - (1 - chance) * 0.013 for name, chance in chances.items()}
    now = context.displayed.costs(np.arange(0, 1001, 100.0))
    costs = {
        (a, b): -100 * (a * earned["A"] + b * earned["B"]) + float(now[10 - a - b])
        for a in range(11)
        for b in range(11 - a)
    }
    best = min(costs, key=lambda way: costs[way])
    assert best == (10, 0)
    assert (plan.limit.get("A", 0), plan.limit.get("B", 0)) == (1000, 0)


def test_a_price_for_risk_makes_it_wait_less() -> None:
    waits = []
    for kappa in (0.0, 0.5, 100.0):
        router = ContextualGreedy(risk=RiskProfile("one", kappa))
        taught(router, {"A": 0.8, "B": 0.6}, deviation=0.02)
        waits.append(sum(router.route(moment(1000, pools=())).limit.values()))
    assert waits == sorted(waits, reverse=True)
    assert waits[0] == 1000
    assert waits[-1] == 0


def test_resting_orders_reach_the_greedy_split_of_ganchev_and_others() -> None:
    """What comes to each pool within the horizon has a law; the best split gives each share where it fills best."""
    rng = np.random.default_rng(3)
    presence, reach = {"P": 0.9, "Q": 0.5}, {"P": 300, "Q": 2000}
    router = Contextual(risk=CHEAPEST, seed=1)
    for number in range(800):
        plan = router.route(moment(number, flows=False))
        children = []
        held = {**dict.fromkeys(plan.dark, 0), **plan.dark_rest}
        for child, (pool, sent) in enumerate(held.items()):
            there = reach[pool] if rng.random() < presence[pool] else 0
            kind = "dark_rest" if sent else "dark"
            size = sent or 10
            filled = min(size, there) if sent else 0  # nothing is found at once
            children.append(ChildReport(child, kind, pool, size, filled, 10.01 if filled else 0.0, 0.0, 0, 1))
        router.learn(Report(f"{number}", tuple(children), complete=True, profit=0.0))
    best = router.greedy(moment(10_000, flows=False))
    assert best is not None
    assert best.dark_rest["P"] == pytest.approx(300, abs=60)
    assert best.dark_rest["Q"] == pytest.approx(700, abs=60)


@pytest.mark.parametrize("budget", [0.0, 0.05])
@pytest.mark.parametrize("kind", [Contextual, ContextualIds])
def test_a_plan_that_is_sent_seems_worse_than_the_best_by_no_more_than_the_budget(
    kind: type[Contextual], budget: float
) -> None:
    router = kind(budget=budget, risk=CHEAPEST)
    taught(router, {"A": 0.5, "B": 0.4}, rounds=21)
    others = 0
    for number in range(100, 120):
        problem = router.problem(moment(number))
        router.routed = number
        mean = problem.mean
        best = mean.best_plan(0.0)
        chosen, _ = router.choose(problem, 0.0)
        worse = mean.forecast(chosen).cost - mean.forecast(best).cost
        assert worse * problem.per_bp <= budget + 1e-9
        others += chosen.units.tolist() != best.units.tolist()
    assert budget == 0.0 or kind is ContextualIds or others > 0


def test_tails_that_are_no_worse_than_those_of_simple_rules_cost_little() -> None:
    free, bound = ContextualGreedy(risk=CHEAPEST), ContextualGreedy(risk=RiskProfile("cheap", 0.0, capped=True))
    for router in (free, bound):
        taught(router, {"A": 0.8, "B": 0.7}, deviation=0.05)
        for number in range(1000, 1300):
            router.route(moment(number))
    assert free.tails == {}
    (guard,) = bound.tails.values()
    assert guard.price < 0.3  # it began there, and nothing is riskier than the rule
    assert guard.gap <= 0.0
    waits = [sum(router.route(moment(2000)).limit.values()) for router in (free, bound)]
    assert waits[1] <= waits[0]


def test_a_pool_that_changes_is_learned_anew() -> None:
    router = ContextualGreedy()
    for number in range(400):
        router.route(moment(number, horizon=0.0))
        there = 1000 if number < 200 else 0
        child = ChildReport(0, "dark", "P", 1000, there, 10.01 if there else 0.0, 0.0, 0, 1)
        router.learn(Report(f"{number}", (child,), complete=True, profit=0.0))
    _, dark = router.symbol_beliefs("")
    assert dark.resets >= 1
    (found,) = dark.moments([("P", 0.0)], np.array([1000.0]))[0]
    assert found[0] < 100


@pytest.mark.parametrize("kind", KINDS)
def test_a_restored_router_makes_the_same_decisions(kind: type[ContextualGreedy]) -> None:
    router = kind()
    taught(router, {"A": 0.8, "B": 0.5}, rounds=45, deviation=0.01)
    for number in range(50, 60):
        plan = router.route(moment(number))
        pools = plan.dark_rest or plan.dark
        children = tuple(
            ChildReport(k, "dark_rest" if plan.dark_rest else "dark", pool, 100, 40, 10.01, 0.04, 5, 9)
            for k, pool in enumerate(pools)
        )
        router.learn(Report(f"{number}", children, complete=True, profit=-1.0))
    again = kind.restore(json.loads(json.dumps(router.state())))
    assert again.route(moment(99)) == router.route(moment(99))
    for one in (router, again):
        taught(one, {"A": 0.1, "B": 0.5}, rounds=45)
    assert again.route(moment(199)) == router.route(moment(199))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"risk": -1.0}, "risk must be"),
        ({"risk": "much"}, "risk must be"),
        ({"risk": True}, "risk must be"),
        ({"units": 0}, "units must be"),
        ({"lit_half_life": 0.0}, "lit_half_life must be"),
        ({"dark_half_life": float("nan")}, "dark_half_life must be"),
        ({"leak": -1}, "leak must be"),
        ({"seed": 1.5}, "seed must be"),
        ({"budget": -1}, "budget must be"),
        ({"draws": 0}, "draws must be"),
        ({"orders_left": -1}, "orders_left must be"),
    ],
)
def test_invalid_parameters_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ContextualIds(**parameters)


def test_a_damaged_state_is_refused() -> None:
    router = Contextual()
    router.route(moment())
    state = router.state()
    damages: tuple[dict[str, Any], ...] = (
        {"lit_state": {"QVEX": {}}},
        {"dark_state": {"QVEX": {"half_life": 1.0}}},
        {"dark_state": {}},
        {"venues": [3]},
        {"routed": -1},
        {"tails": {"6 10": [-1.0, 0.0, 0.0]}},
        {"tails": {"6 10": [1.0, 0.0]}},
        {"pending": 3},
    )
    for damage in damages:
        with pytest.raises(StateError):
            Contextual.restore({**state, "memory": {**state["memory"], **damage}})


def test_information_is_worth_nothing_without_future_orders() -> None:
    alone = ContextualIds(orders_left=0.0, risk=CHEAPEST, draws=4)
    for number in range(10):
        problem = alone.problem(moment(number))
        mean = problem.mean
        worlds = [problem.tables(problem.dark.draw(problem.uses, np.random.default_rng(k))) for k in range(50)]
        best, (chosen, _) = mean.best_plan(0.0), alone.choose(problem, 0.0)
        losses = [sum(world.forecast(plan).cost for world in worlds) for plan in (best, chosen)]
        assert losses[1] <= losses[0] * 1.1 + 0.1


def test_untried_pools_have_the_largest_information_gain() -> None:
    belief = DarkBelief()
    before = belief.information("P", 0.0, 500.0)
    for _ in range(50):
        belief.learn("P", 0.0, sent=500, filled=500, time=0)
    assert 0 < belief.information("P", 0.0, 500.0) < before / 4
    assert belief.information("Q", 0.0, 500.0) == before
    assert belief.information("Q", 0.0, 100.0) < before


def test_a_symbol_with_few_orders_borrows_from_another() -> None:
    """Fills at A alone were seen of one symbol; of the other nothing was, and it follows until it has seen more."""
    router = ContextualGreedy(risk=CHEAPEST)
    taught(router, {"A": 0.95, "B": 0.05})
    other = dataclasses.replace(moment(1000, pools=()), instrument=Instrument("NEWX"))
    plan = router.route(other)
    assert plan.limit.get("A", 0) > 900
    rng = np.random.default_rng(1)
    for number in range(400):
        context = dataclasses.replace(moment(2000 + number), instrument=Instrument("NEWX"))
        router.on_public_data(outcome(context, {"A": bool(rng.random() < 0.05), "B": bool(rng.random() < 0.95)}))
    again = router.route(dataclasses.replace(moment(3000, pools=()), instrument=Instrument("NEWX")))
    assert again.limit.get("B", 0) > 900
    first = router.route(moment(3001, pools=()))
    assert first.limit.get("A", 0) > 900


def test_compiled_outlooks_of_limit_orders_are_those_that_were_learned() -> None:
    """The features that rows are made of, times coefficients, without the compiled code."""
    rng = np.random.default_rng(2)
    router = ContextualGreedy()
    taught(router, {"A": 0.7, "B": 0.4}, rounds=41, deviation=0.01)
    lit, _ = router.symbol_beliefs("")
    coef = lit.estimate.mean_coef
    shares = np.linspace(0.0, 1000.0, 5)
    for _ in range(20):
        behind, sizes = rng.integers(0, 3, size=4) / 100, rng.integers(0, 900, size=4)
        books = {
            name: {"bids": [[10 - behind[k], int(sizes[k])]], "asks": [[10.02 + behind[k + 2], int(sizes[k + 2]) + 1]]}
            for k, name in enumerate(("A", "B"))
        }
        books["C"] = {"bids": [[9.99, 100]], "asks": [[10.05, 100]]}
        flows = {"outflow A": float(rng.random() * 20), "outflow B": 0.0}
        context = read_context({"venues": books}, side="buy", shares=1000, horizon=30.0, features=flows)
        now = MarketFeatures.of(context, context.sweep_cost / context.shares)
        drift = float((_drift_features(now) @ lit.drift.estimate.mean_coef)[0])
        seen = _posting_features(context, now, drift)
        sweep = context.displayed.costs(shares)
        wait = lit.forecast(context, now, shares, sweep)
        own = np.array([coef[_POSTING_FEATURES], coef[_POSTING_FEATURES + 1], 0.0])
        fill = _fill_fraction(seen.queue, seen.outflow, shares)
        fixed, filled = (some @ coef[:_POSTING_FEATURES] for some in (seen.fixed, seen.filled))
        each = sweep / np.maximum(shares, 1) / now.half_spread
        profit = (fixed + own)[:, None] + filled[:, None] * fill
        profit += coef[-1] * (fill * seen.earned[:, None] - (1 - fill) * each)
        late = sweep + (wait.horizon.sweep - now.sweep) * shares
        assert wait.venues == np.flatnonzero(seen.there).tolist()
        assert 2 not in wait.venues
        there, half = seen.there, now.half_spread
        cost = (-half * profit * shares)[there] - np.interp(wait.left, shares, late)
        np.testing.assert_allclose(wait.cost, cost, rtol=1e-9, atol=1e-12)


def test_unfilled_shares_exposure_and_variance_are_those_of_simulated_limit_orders() -> None:
    """An order fills like its middle share, given the move of the mid; the exposure is the slope of its cost."""
    router = ContextualGreedy()
    taught(router, {"A": 0.7, "B": 0.4}, rounds=41, deviation=0.01)
    lit, _ = router.symbol_beliefs("")
    context, shares = moment(1000), np.linspace(0.0, 1000.0, 5)
    now, sweep = MarketFeatures.of(context, context.sweep_cost / 1000), context.displayed.costs(shares)
    wait = lit.forecast(context, now, shares, sweep)
    rng = np.random.default_rng(8)
    move, luck = rng.standard_normal(400_000), rng.random(400_000)
    for v, (paid, odds, queue, outflow) in enumerate(wait.horizon.venues):
        for k in (1, 4):
            n = shares[k]
            score = odds + wait.horizon.slopes[0] * move + wait.horizon.slopes[1] * np.log((queue + n / 2) / outflow)
            missed = luck < 1 / (1 + np.exp(-score))
            late = sweep[k] / n + wait.horizon.sweep - now.sweep + wait.horizon.mid_sd * move
            costs = n * np.where(missed, late, paid)
            slope = float(np.mean(costs * move))
            assert wait.left[v, k] == pytest.approx(n * missed.mean(), rel=0.02)
            assert wait.exposed[v, k] * wait.horizon.mid_sd == pytest.approx(slope, rel=0.03)
            assert wait.variance[v, k] == pytest.approx(costs.var() - slope**2, rel=0.05)


def test_draws_prepared_ahead_equal_draws_at_the_decision() -> None:
    """Learning between two orders makes draws ready; a router that was restored has none, and decides the same."""
    router = Contextual()
    for number in range(30):
        router.route(moment(number))
        child = ChildReport(0, "dark", "P", 100, 40, 10.01, 0.04, 5, 9)
        router.learn(Report(f"{number}", (child,), complete=True, profit=-1.0))
        assert router.ready
        fresh = Contextual.restore(router.state())
        assert not fresh.ready
        ahead = moment(1000 + number)
        for ready, drawn in zip(router.ready[""][2], fresh._draw("", *router.last_asked[""])[2], strict=True):
            assert np.array_equal(ready, drawn)
        again = Contextual.restore(router.state())
        again.ready, again.last_asked = dict(router.ready), dict(router.last_asked)
        assert fresh.route(ahead) == again.route(ahead)
        assert not again.ready  # it was used


def test_a_draw_that_was_made_for_another_kind_of_order_is_not_used() -> None:
    router = Contextual()
    router.route(moment(0))
    child = ChildReport(0, "dark", "P", 100, 40, 10.01, 0.04, 5, 9)
    router.learn(Report("0", (child,), complete=True, profit=-1.0))
    other = moment(1, shares=400, pools=("Q",))
    assert Contextual.restore(router.state()).route(other) == router.route(other)


@pytest.mark.parametrize("budget", [0.0, 0.05, 10.0])
def test_the_compiled_choice_is_that_of_plans_compared_one_by_one(budget: float) -> None:
    router = Contextual(budget=budget)
    taught(router, {"A": 0.5, "B": 0.4}, rounds=21)
    rng = np.random.default_rng(4)
    for number in range(100, 130):
        problem = router.problem(moment(number))
        hazards, price = problem.dark.draw(problem.uses, rng), float(rng.random())
        mean, world = problem.mean, problem.tables(hazards)
        best = mean.best_plan(price)
        drawn = WaitOrTradePlan(*_best_plan(world, price, *_coupled(mean, best.units), 1))
        worse = mean.forecast(drawn).objective(price) - mean.forecast(best).objective(price)
        wanted = drawn if worse <= budget else best
        moments = problem.dark.moments(problem.uses, problem.shares, hazards)
        chosen, pools = problem.plan_under_draw(moments, price, budget)
        assert chosen.units.tolist() == wanted.units.tolist()
        assert (chosen.before, pools) == (wanted.before, problem.pinged)


def test_fill_fractions_and_their_prior_by_hand() -> None:
    assert _fill_fraction(np.array([100.0]), np.array([200.0]), np.array([0.0, 100.0])).round(4).tolist() == [
        [0.6065, 0.4773]
    ]
    assert _FillModel().coefficients(60.0).round(3).tolist() == [-0.847, 0.0, 0.0, 0.0, 0.0]


def test_orders_of_similar_size_and_horizon_share_a_class() -> None:
    assert (_order_class(60.0, 1000), _order_class(50.0, 900)) == ("6 10", "6 10")


def test_fifty_full_fills_leave_little_doubt() -> None:
    belief = DarkBelief()
    for _ in range(50):
        belief.learn("P", 0.0, sent=100, filled=100, time=0)
    assert belief.moments([("P", 0.0)], np.array([0.0, 100.0, 200.0]))[0].round().tolist() == [[0.0, 97.0, 186.0]]


def test_features_and_classes_by_hand() -> None:
    venues = {"A": {"bids": [[10.0, 300]], "asks": [[10.02, 100]]}, "B": {"bids": [[9.99, 50]]}}
    market = MarketFeatures.of(read_context({"venues": venues}, side="buy", shares=100), 0.013)
    assert (round(market.half_spread, 6), market.imbalance, round(market.lean, 6)) == (0.01, 0.5, 0.0)
    assert [horizon_feature(seconds) for seconds in (10, 60, 61, 300)] == [3, 6, 6, 8]


def test_an_order_at_the_end_of_a_queue_is_filled_last() -> None:
    assert PublicQueueOutflow(10.0, ahead=300, outflow=450).filled(1000) == 150
    assert PublicData.outcome_sizes(1000, 100) == [100, 200, 400, 800]
