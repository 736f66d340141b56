"""Beliefs about fills: exact updates, the frequencies they converge to, and the best split of their tables."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import riskroute as rr
from riskroute.core.errors import InputError, StateError
from riskroute.routers.context import Context, read_context
from riskroute.routers.literature.bayes_fill import (
    _PRIOR_STRENGTH,
    FILL_FRACTIONS,
    BayesFill,
    _best_split,
    _compositions,
    _dirichlet_moments,
    _dirichlet_weights,
    _Drift,
    _fill_class,
    _size_class,
    _venue_state,
)
from riskroute.routers.literature.cont_kukanov import cont_kukanov_queues
from riskroute.routers.public_data import PublicData, PublicMarketAtHorizon, PublicQueueOutflow
from riskroute.routers.report import ChildReport, Report
from riskroute.routers.risk import RiskProfile
from riskroute.routers.rules import SweepRule
from router_cases import sale


def public(context: Context, mid: float | None = None, **outflows: int) -> PublicData:
    standing = cont_kukanov_queues(context)
    queues = {venue: PublicQueueOutflow(10.0, int(standing[venue][1]), outflow) for venue, outflow in outflows.items()}
    return PublicData(context, {}, queues, PublicMarketAtHorizon(context.mid if mid is None else mid, 0.01))


def order(number: int, shares: int = 400, **more: Any) -> Context:
    return sale(shares, horizon=60.0, order=f"o{number}", **more)


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=12))
@settings(max_examples=30, deadline=None)
def test_drift_is_updated_exactly(moves: list[float]) -> None:
    """All at once and one after the other by the textbook's formulas."""
    start = _Drift(0.1, 2.0, 3.0, 0.5)
    mean, count, shape, scale = start
    for move in moves:
        scale += count * (move - mean) ** 2 / (2 * (count + 1))
        mean, count, shape = (count * mean + move) / (count + 1), count + 1, shape + 0.5
    found = start.after(len(moves), sum(moves), sum(move**2 for move in moves))
    assert found == pytest.approx((mean, count, shape, scale))
    student = stats.t(2 * shape, mean, np.sqrt(scale * (count + 1) / (shape * count)))
    assert found.variance == pytest.approx(student.var())


def test_drift_draws_have_the_moments_of_the_belief() -> None:
    """20,000 draws: means within four standard errors."""
    rng, belief = np.random.default_rng(0), _Drift(0.5, 4.0, 6.0, 2.0)
    means, variances = np.array([belief.draw(rng) for _ in range(20_000)]).T
    assert means.mean() == pytest.approx(0.5, abs=4 * means.std() / 141)
    assert variances.mean() == pytest.approx(2.0 / 5, abs=4 * variances.std() / 141)
    assert means.var() + variances.mean() == pytest.approx(belief.variance, rel=0.03)


def test_dirichlet_moments_by_simulation() -> None:
    """The predictive variance is that of one more fill: a class drawn from drawn chances."""
    rng, weights = np.random.default_rng(1), np.array([2.0, 1, 0.5, 0.5, 1, 4])
    fills = FILL_FRACTIONS[[rng.choice(6, p=chances) for chances in rng.dirichlet(weights, 20_000)]]
    mean, variance = _dirichlet_moments(weights)
    assert fills.mean() == pytest.approx(mean, abs=4 * np.sqrt(variance / 20_000))
    assert fills.var() == pytest.approx(variance, rel=0.03)


def test_counts_are_added_to_the_pooled_prior() -> None:
    """One venue was filled twice in full, the other not at all, one state of it never seen."""
    router = BayesFill(decay=1.0)
    for number in range(2):
        router.on_public_data(public(order(number), A=100 + 400, B=10))
    full, none = np.eye(6)[5], np.eye(6)[0]
    market = (_PRIOR_STRENGTH / 6 + 2 * full + 2 * none) / (_PRIOR_STRENGTH + 4)
    venue = (_PRIOR_STRENGTH * market + 2 * full) / (_PRIOR_STRENGTH + 2)
    state = _venue_state(order(9), "A")
    assert router.weights("A", "3+", 400) == pytest.approx(_PRIOR_STRENGTH * venue)
    assert router.weights("A", state, 400) == pytest.approx(_PRIOR_STRENGTH * venue + 2 * full)
    assert router.weights("C", "1=", 400) == pytest.approx(_PRIOR_STRENGTH * market)
    assert router.weights("A", state, 600) == pytest.approx(np.ones(6))  # no order was so large
    assert _dirichlet_weights([], 6).sum() == pytest.approx(1)


def test_outflow_rates_are_gamma() -> None:
    router = BayesFill(decay=1.0)
    router.on_public_data(public(order(0), A=120, B=30))
    router.on_public_data(public(order(1), A=60, B=30))
    state = _venue_state(order(9), "A")
    assert router.rate("A", state) == pytest.approx((BayesFill.rate_prior[0] + 180) / (BayesFill.rate_prior[1] + 120))
    assert router.rate("A", "3+") == BayesFill.rate_prior[0] / BayesFill.rate_prior[1]


def test_observations_are_discounted_order_by_order() -> None:
    router = BayesFill(decay=0.5)
    for number in range(3):
        router.on_public_data(public(order(number), A=500, B=0))
    state = _venue_state(order(9), "A")
    assert router.fills[f"1|A|{state}"] == [0, 0, 0, 0, 0, 1.75]
    assert router.drifts["True"][0] == 1.75


def test_moves_are_those_against_the_order() -> None:
    """A sale: the mid fell a cent where B was not filled, so its remainder costs a cent more."""
    router = BayesFill(decay=1.0)
    router.on_public_data(public(order(0), mid=10.0, A=900, B=0))
    move = 10.01 - 10.0
    assert router.drifts["False"] == pytest.approx([1, move, move**2])
    assert router.drift("B", _venue_state(order(0), "B"), filled=False).mean > 0.001
    assert router.drift("B", "3+", filled=True).mean == pytest.approx(router.drift("A", "3+", filled=True).mean)


def test_frequencies_converge_on_books_that_stand() -> None:
    """Fills of A are in the classes 0, 2 and 5 with chances 1/2, 1/4 and 1/4: 1,000 orders, four standard errors."""
    rng, router = np.random.default_rng(2), BayesFill(decay=1.0)
    for number, outflow in enumerate(rng.choice([50, 50, 250, 900], 1000).tolist()):
        router.on_public_data(public(order(number), A=outflow, B=0))
    weights = router.weights("A", _venue_state(order(0), "A"), 400)
    assert weights / weights.sum() == pytest.approx([0.5, 0, 0.25, 0, 0, 0.25], abs=4 * np.sqrt(0.25 / 1000))


def test_with_one_state_the_choice_is_the_static_optimum_of_the_tables() -> None:
    """Plain loops over all splits, with moments from the classes one by one."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        tables = np.zeros((3, 5, 6))
        tables[:, :, 0] = np.arange(5) * 100
        tables[:, :, 1] = rng.uniform(0, 1, (3, 5))
        tables[:, :, 2] = rng.uniform(0, 0.2, (3, 5))
        tables[:, :, 3] = rng.uniform(0, 0.02, (3, 1))
        tables[:, :, 4:] = rng.uniform(0, 0.01, (3, 1, 2))
        taking, kappa, costs = 0.012, float(rng.choice([0.0, 50.0])), {}
        for split in itertools.product(range(5), repeat=3):
            if sum(split) <= 4:
                mean, variance, deviation = taking * (1 - sum(split) / 4), 0.0, 0.0
                for venue, parts in enumerate(split):
                    size, filled, spread, gain, move, risk = tables[venue, parts]
                    part = size / 400
                    mean += part * (-filled * gain + (1 - filled) * (taking + move))
                    variance += part**2 * spread * ((gain + taking + move) ** 2 + risk)
                    deviation += part * (1 - filled) * np.sqrt(risk)
                costs[split] = mean + kappa * (variance + deviation**2)
        assert tuple(_best_split(tables, taking, kappa, 400).tolist()) == min(costs, key=lambda split: costs[split])


def test_variance_of_the_tables_by_simulation() -> None:
    """Two venues, half each: independent fills, one common move, 200,000 times."""
    rng, taking = np.random.default_rng(4), 0.012
    weights = np.array([[3.0, 1, 1, 1, 1, 3], [1.0, 0, 0, 0, 0, 5]])
    fills = np.stack([FILL_FRACTIONS[rng.choice(6, 200_000, p=one / one.sum())] for one in weights])
    move = 0.002 + 0.01 * rng.standard_normal(200_000)
    gains = np.array([[0.01], [0.007]])
    costs = (0.5 * (-fills * gains + (1 - fills) * (taking + move))).sum(axis=0)
    mean = variance = deviation = 0.0
    for one, gain in zip(weights, (0.01, 0.007), strict=True):
        filled, spread = _dirichlet_moments(one)
        mean += 0.5 * (-filled * gain + (1 - filled) * (taking + 0.002))
        variance += 0.25 * spread * ((gain + taking + 0.002) ** 2 + 1e-4)
        deviation += 0.5 * (1 - filled) * 0.01
    assert costs.mean() == pytest.approx(mean, abs=4 * costs.std() / 447)
    assert costs.var() == pytest.approx(variance + deviation**2, rel=0.02)


def test_it_posts_where_orders_fill_and_takes_where_they_do_not() -> None:
    good, bad = BayesFill(), BayesFill()
    for number in range(60):
        good.on_public_data(public(order(number), A=900, B=0))
        bad.on_public_data(public(order(number), mid=9.99, A=0, B=0))
    assert good.route(order(99)).limit == {"A": 400}
    assert bad.route(order(99)).limit == {}
    assert bad.route(order(98)).take == SweepRule().route(order(98)).take
    assert good.route(sale(400)) == SweepRule().route(sale(400))


def test_risk_is_priced() -> None:
    """Fills half of the time, and moves of a dime: worth a try for the mean, and not for the variance."""
    plans = []
    for kappa in (0.0, 1.0):
        router = BayesFill(risk=RiskProfile("one", kappa))
        for number in range(60):
            router.on_public_data(
                public(order(number), mid=10.01 + (0.1 if number % 4 < 2 else -0.1), A=900 * (number % 2), B=0)
            )
        plans.append(router.route(order(99)))
    assert sum(plans[0].limit.values()) > sum(plans[1].limit.values())


def test_own_fills_are_learned_instead_of_public_ones() -> None:
    router = BayesFill(decay=1.0)
    for number in range(30):
        router.on_public_data(public(order(number), A=900, B=0))
    context = order(99)
    state = _venue_state(context, "A")
    before = list(router.fills[f"1|A|{state}"])
    assert router.route(context).limit == {"A": 400}
    child = ChildReport(0, "limit", "A", 400, 40, 10.02, 0.0, 5, 9)
    router.learn(Report("o99", (child,), complete=True, profit=0.0))
    assert router.fills[f"1|A|{state}"] == [before[0], before[1] + 1, *before[2:]]
    router.on_public_data(public(context, A=900, B=0))
    assert router.fills[f"1|A|{state}"] == [before[0], before[1] + 1, *before[2:]]
    assert (router.pending, router.learned) == ({}, {})


def test_draws_differ_and_go_on_after_saving() -> None:
    router = BayesFill(sample=True, seed=4)
    for number in range(8):
        router.on_public_data(public(order(number), mid=10.0, A=150 * number, B=200 * number))
    again = BayesFill.restore(json.loads(json.dumps(router.state())))
    plans = [router.route(order(100 + number)) for number in range(30)]
    assert [again.route(order(100 + number)) for number in range(30)] == plans
    assert len({json.dumps(plan.limit) for plan in plans}) > 1


def test_states_and_sizes_have_bins() -> None:
    books = {"A": {"bids": [[10.0, 700]], "asks": [[10.01, 300]]}, "B": {"asks": [[10.5, 5]]}}
    bought, sold = (read_context({"venues": books}, side=side, shares=1) for side in ("buy", "sell"))
    assert (_venue_state(bought, "A"), _venue_state(sold, "A"), _venue_state(bought, "B")) == ("1+", "1-", "3-")
    assert [_size_class(size) for size in (1, 100, 101, 500, 501)] == [0, 0, 1, 1, 2]
    assert _fill_class(3, 3) == 5
    assert BayesFill()._sizes(1000) == [500, 1000]
    assert BayesFill()._sizes(2) == [2]


def test_it_passes_the_router_checks() -> None:
    rr.check_router(BayesFill())
    rr.check_router(BayesFill(sample=True))
    state = BayesFill().state()
    state["memory"] = state["memory"] | {"fills": {"0": [1.0]}}
    with pytest.raises(StateError, match=r"fills: .* must have at least 6 values"):
        BayesFill.restore(state)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"parts": 9}, "parts must be at most 8, was 9"),
        ({"risk": -1.0}, "risk must be cautious, balanced, cheapest or a kappa from 0 to 1000, was -1.0"),
        ({"decay": 0.0}, "decay must be a number of at most 1 and above 0, was 0"),
        ({"sample": 1}, "sample must be True or False, was 1"),
        ({"seed": -1}, "seed must be a non-negative integer, was -1"),
    ],
)
def test_invalid_parameters_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        BayesFill(**parameters)


def test_classes_moments_and_states_by_hand() -> None:
    assert [_fill_class(filled, 100) for filled in (0, 1, 25, 26, 75, 99, 100)] == [0, 1, 1, 2, 3, 4, 5]
    assert _dirichlet_moments(np.array([3.0, 0, 0, 0, 0, 1.0])) == (0.25, 0.1875)  # one full fill in four orders
    one, none = np.array([6.0, 0, 0, 0, 0, 0]), np.zeros(6)
    market = _dirichlet_weights([one, none], 6).round(2).tolist()  # no counts: the frequencies of the market
    assert market == [3.5, 0.5, 0.5, 0.5, 0.5, 0.5]
    books = {"A": {"bids": [[10.00, 200]], "asks": [[10.02, 900]]}}
    assert _venue_state(read_context({"venues": books}, side="buy", shares=1), "A") == "2-"
    assert _compositions(2, 1).tolist() == [[0, 0], [1, 0], [0, 1]]


def test_the_posterior_after_two_moves_by_hand() -> None:
    assert _Drift(0.0, 1.0, 2.0, 1.0).after(2, 2 + 4, 2**2 + 4**2) == _Drift(mean=2.0, times=3.0, shape=3.0, scale=5.0)
