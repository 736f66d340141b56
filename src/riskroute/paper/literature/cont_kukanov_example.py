"""Cont and Kukanov: their numerical example, how its solution moves with queue and prices, and two exchanges.

1,000 shares are bought. 2,000 shares stand in the queue, and a Poisson number of 2,200 leave it on average. The
half-spread is 2 cents, taking costs 0.3 cents, a fill pays 0.2, a missing share costs 2.6 and a surplus one 2.4 cents.

References
----------
R. Cont, A. Kukanov, "Optimal order placement in limit order markets", Quantitative Finance 17 (2017),
https://doi.org/10.1080/14697688.2016.1190030
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
from scipy.stats import poisson

from riskroute.core.arrays import Floats
from riskroute.core.seeding import seed_stream
from riskroute.core.validation import true_or_false
from riskroute.paper.literature.statements import Statement
from riskroute.routers.literature.cont_kukanov import (
    PlacementPrices,
    one_exchange_placement,
    placement_costs,
    stochastic_placement,
)

SHARES, QUEUE, OUTFLOW = 1000, 2000, 2200
PRICES = PlacementPrices(0.02, 0.003, (0.002,), under=0.026, over=0.024)
IMPACT = 0.0005
"""Dollars for every share sent, where the example has an impact."""

UNDER = (0.024, 0.026, 0.03, 0.05, 0.1)
QUEUES = (1950, 2000, 2050, 2100)


@dataclass(frozen=True)
class ContKukanovResult:
    """What the example gave.

    Parameters
    ----------
    placement : tuple[int, int]
        Shares taken and posted with one exchange, exactly.
    costs : dict[str, float]
        Mean cost in dollars of that placement, of taking all and of posting all.
    found : tuple[float, float]
        Shares taken and posted by stochastic approximation.
    by_under, by_queue : dict[float, int]
        Shares posted by the price of a missing share, and by the shares in the queue.
    two : tuple[float, float, float]
        Shares taken and posted at two exchanges, with impact, by stochastic approximation.
    statements : tuple[Statement, ...]
        What is said of it.
    """

    placement: tuple[int, int]
    costs: dict[str, float]
    found: tuple[float, float]
    by_under: dict[float, int]
    by_queue: dict[int, int]
    two: tuple[float, float, float]
    statements: tuple[Statement, ...]


def remake_cont_kukanov(*, quick: bool = False, seed: int = 0) -> ContKukanovResult:
    """Solve the example exactly and by stochastic approximation, and vary it.

    Examples
    --------
    >>> found = remake_cont_kukanov(quick=True)
    >>> found.placement, round(found.costs["placed"], 3)
    ((728, 272), 14.278)
    >>> all(one.holds for one in found.statements)
    True
    """
    steps = 50_000 if true_or_false("quick", quick) else 1_000_000
    rng = np.random.default_rng(seed_stream(seed, "cont and kukanov"))
    placement = _exact(PRICES)
    costs = {
        "placed": mean_cost(*placement, PRICES),
        "all taken": mean_cost(SHARES, 0, PRICES),
        "all posted": mean_cost(0, SHARES, PRICES),
    }
    outflows = rng.poisson(OUTFLOW, (steps // 2, 2)).astype(np.float64)
    one = stochastic_placement(SHARES, np.array([float(QUEUE)]), outflows[:, :1], PRICES, steps=steps)
    pair = dataclasses.replace(PRICES, rebates=PRICES.rebates * 2, impact=IMPACT)
    queues = np.full(2, float(QUEUE))
    two = stochastic_placement(SHARES, queues, outflows, pair, steps=steps, mode="overbook")
    by_under = {under: _exact(dataclasses.replace(PRICES, under=under))[1] for under in UNDER}
    by_queue = {queue: _exact(PRICES, queue)[1] for queue in QUEUES}
    impact = _exact(dataclasses.replace(PRICES, impact=IMPACT))
    later = rng.poisson(OUTFLOW, (50_000, 2)).astype(np.float64)
    summed = stochastic_placement(SHARES, queues, outflows, pair, steps=steps)
    booked, alone = (
        float(placement_costs(SHARES, split[0], split[1:], queues, later, pair).mean()) for split in (two, summed)
    )
    statements = (
        _said("one exchange: 728 shares are taken and 272 posted", f"{placement}", placement == (728, 272)),
        _said(
            "a mix costs less than market or limit orders alone",
            ", ".join(f"{name} {cost:.3f}" for name, cost in costs.items()),
            costs["placed"] < min(costs["all taken"], costs["all posted"]),
        ),
        _said(
            "stochastic approximation finds it: the mean cost is within a cent",
            f"({one[0]:.0f}, {one[1]:.0f}), {mean_cost(one[0], one[1], PRICES):.3f}",
            mean_cost(one[0], one[1], PRICES) < costs["placed"] + 0.01,
        ),
        _said("an impact moves shares to market orders", f"{impact}", impact[0] > placement[0]),
        _said(
            "the more a missing share costs, the less is posted",
            ", ".join(f"{100 * under:g} cents: {limit}" for under, limit in by_under.items()),
            all(np.diff(list(by_under.values())) < 0),
        ),
        _said(
            "a longer queue takes as many shares off the limit order",
            ", ".join(f"{queue:,}: {limit}" for queue, limit in by_queue.items()),
            len({queue + limit for queue, limit in by_queue.items()}) == 1,
        ),
        _said(
            "with two exchanges more is sent than the order has",
            f"({two[0]:.0f}, {two[1]:.0f}, {two[2]:.0f})",
            float(two.sum()) > SHARES + 20,
        ),
        _said(
            "a second exchange more than halves the cost",
            f"{booked:.3f}, without overbooking {alone:.3f}",
            booked < costs["placed"] / 2 and booked <= alone,
        ),
    )
    market, limit = one.tolist()
    taken, first, second = two.tolist()
    return ContKukanovResult(placement, costs, (market, limit), by_under, by_queue, (taken, first, second), statements)


def mean_cost(market: float, limit: float, prices: PlacementPrices) -> float:
    """Mean cost in dollars with one exchange, summed over the distribution."""
    outflows, chances = _distribution()
    costs = placement_costs(SHARES, market, np.array([limit]), np.array([float(QUEUE)]), outflows, prices)
    return float(chances @ costs)


def _distribution() -> tuple[Floats, Floats]:
    """Outflows ``(n, 1)`` within 20 standard deviations and their probabilities ``(n,)``."""
    outflows = np.arange(OUTFLOW - 1000, OUTFLOW + 1001)
    return outflows[:, None].astype(np.float64), poisson(OUTFLOW).pmf(outflows)


def _exact(prices: PlacementPrices, queue: int = QUEUE) -> tuple[int, int]:
    return one_exchange_placement(SHARES, queue, poisson(OUTFLOW).cdf, prices)


def _said(name: str, measured: str, holds: bool) -> Statement:
    return Statement(name, measured, bool(holds))
