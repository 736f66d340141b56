"""Dark pools: common random numbers for all routers, stated distributions of size and presence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from riskroute.core.errors import InputError
from riskroute.market.clock import SECOND
from riskroute.simulation.dark_market import DarkMarket, DarkMarketMoments, DarkMarketPool

COUNT = 4000


def market(
    *pools: DarkMarketPool, adverse_moves: int = 0, spread: float = 1.0, seed: int = 0, day: str = "d"
) -> DarkMarket:
    times = np.arange(COUNT) * 10 * SECOND
    moments = DarkMarketMoments(times, np.full(COUNT, spread), np.full(COUNT, adverse_moves))
    return DarkMarket(pools, moments, seed=seed, day=day)


PLAIN = DarkMarketPool("P", presence=0.3, spread=0.0, recent=0.0, state=0.0, adverse=0.0)


def present(one: DarkMarket, **more: Any) -> float:
    return float(np.mean([one.hidden(k, "P", **more) > 0 for k in range(COUNT)]))


def test_presence_and_sizes_follow_the_stated_distributions() -> None:
    """Within four standard errors, of 4,000 draws: 0.007 for the presence, and 0.014 for the share above twice the
    smallest of those that are there."""
    one = market(PLAIN)
    sizes = np.array([one.hidden(k, "P") for k in range(COUNT)])
    assert np.mean(sizes > 0) == pytest.approx(0.3, abs=4 * 0.0073)
    there = sizes[sizes > 0]
    assert there.min() >= 100
    assert np.mean(there >= 200) == pytest.approx(0.5**1.2, abs=4 * 0.0144)
    assert there.max() <= 100_000


def test_the_same_order_meets_the_same_shares() -> None:
    """Whatever was asked of a market before, and whatever pools are beside."""
    first = [market(PLAIN).hidden(k, "P") for k in range(0, 50, 5)]
    again = {
        name: [one.hidden(k, "P") for k in range(50)]
        for name, one in {
            "alone": market(PLAIN),
            "beside": market(PLAIN, DarkMarketPool("Q", 0.9)),
            "day": market(PLAIN, day="e"),
            "seed": market(PLAIN, seed=1),
        }.items()
    }
    assert again["beside"] == again["alone"]
    assert again["alone"][::5] == first
    assert again["day"] != again["alone"] != again["seed"]


def test_counterparties_are_present_before_adverse_moves() -> None:
    pool = DarkMarketPool("P", 0.3, spread=0.0, recent=0.0, state=0.0, adverse=0.2)
    assert market(pool, adverse_moves=1).chance(0, "P") == pytest.approx(0.3 * np.exp(0.2))
    assert market(pool, adverse_moves=-1).chance(0, "P") == pytest.approx(0.3 * np.exp(-0.2))
    assert present(market(pool, adverse_moves=1)) > present(market(pool)) > present(market(pool, adverse_moves=-1))


def test_a_wide_spread_and_a_recent_fill_move_the_odds() -> None:
    pool = DarkMarketPool("P", 0.5, spread=0.5, recent=0.7, state=0.0, adverse=0.0)
    assert market(pool).chance(0, "P") == pytest.approx(0.5)
    assert market(pool, spread=np.e).chance(0, "P") == pytest.approx(1 / (1 + np.exp(-0.5)))
    assert market(pool).chance(0, "P", recent=True) == pytest.approx(1 / (1 + np.exp(-0.7)))


def test_pool_states_are_correlated_and_autocorrelated() -> None:
    """Correlation 0.3 between pools, exp(-1/6) from one order to the next, ten seconds later.

    4,000 states with this memory are worth about 300 independent ones, so correlations are within 0.2.
    """
    pools = [DarkMarketPool(name, 0.5, spread=0.0, recent=0.0, state=1.0, adverse=0.0) for name in ("P", "Q")]
    one = market(*pools)
    chances = {name: np.array([one.chance(k, name) for k in range(COUNT)]) for name in ("P", "Q")}
    logits = {name: np.log(chance / (1 - chance)) for name, chance in chances.items()}
    assert np.corrcoef(logits["P"], logits["Q"])[0, 1] == pytest.approx(0.3, abs=0.2)
    assert np.corrcoef(logits["P"][1:], logits["P"][:-1])[0, 1] == pytest.approx(np.exp(-1 / 6), abs=0.05)
    assert logits["P"].std() == pytest.approx(1.0, abs=0.2)


def test_resting_orders_meet_counterparties_at_the_stated_rate() -> None:
    """Six in a minute at 0.1 a second; their mean over 4,000 orders has a standard error of 0.04."""
    one = market(PLAIN)
    came = [one.arrivals(k, "P", 60.0) for k in range(COUNT)]
    assert np.mean([len(some) for some in came]) == pytest.approx(6.0, abs=0.16)
    assert all(0 < time <= 60 and size >= 100 for some in came for time, size in some)
    assert [some[:1] for some in came[:20] if some and some[0][0] <= 5] == [
        one.arrivals(k, "P", 5.0)[:1] for k in range(20) if one.arrivals(k, "P", 5.0)
    ]


def test_an_empty_pool_stays_empty() -> None:
    one = market(DarkMarketPool("P", 0.0))
    assert present(one, recent=True) == 0
    assert one.arrivals(0, "P", 300.0) == []


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"presence": 1.1}, "presence of P must be a number of at least 0 and of at most 1, was 1.1"),
        ({"tail": 0.0}, "tail of P must be a number above 0, was 0"),
        ({"largest": 10}, "largest of P must be a number of at least 100, was 10"),
        ({"name": "<P>"}, "name of a pool must be a name"),
    ],
)
def test_invalid_pools_are_refused(values: dict[str, Any], message: str) -> None:
    plain: dict[str, Any] = {"name": "P", "presence": 0.5}
    with pytest.raises(InputError, match=message):
        DarkMarketPool(**plain | values)


def test_counterparties_arrive_more_often_before_adverse_moves() -> None:
    """Twice as often by e to the power of twice the adverse selection; four standard errors of the ratio of counts."""
    times = np.arange(COUNT) * 100 * SECOND
    moments = DarkMarketMoments(times, np.ones(COUNT), np.zeros(COUNT, dtype=np.int64))
    pool = DarkMarketPool("P", presence=0.3, rate=0.2, spread=0.0, recent=0.0, state=0.0, adverse=0.5)

    def later_moves(order: int, later: Any) -> Any:
        return np.where((later - times[order]) // SECOND % 2 == 0, 1, -1)

    one = DarkMarket([pool], moments, seed=0, day="d", later_moves=later_moves)
    came = [seconds for k in range(COUNT) for seconds, _ in one.arrivals(k, "P", 40.0)]
    before, after = (sum(int(seconds) % 2 == parity for seconds in came) for parity in (0, 1))
    assert np.log(before / after) == pytest.approx(1.0, abs=4 * np.sqrt(1 / before + 1 / after))
    assert before + after == pytest.approx(COUNT * 40 * 0.2 * np.cosh(0.5), rel=0.02)
