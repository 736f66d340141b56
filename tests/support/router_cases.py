"""Contexts for tests of routers: two venues worked out by hand, random books, and rounds of dark pools."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from riskroute.core.arrays import Floats, Units
from riskroute.routers.context import Context, read_context
from riskroute.routers.literature.dark_allocation import DarkAllocation, _power_sizes, _power_tails
from riskroute.routers.literature.exponential_weights import _softmax_weights
from riskroute.routers.plan import Plan
from riskroute.routers.report import ChildReport, Report

TWO_VENUES: dict[str, Any] = {
    "venues": {
        "A": {"bids": [[10.00, 150], [9.98, 500]], "asks": [[10.02, 100], [10.03, 400]], "taker": 0.003},
        "B": {"bids": [[10.00, 100], [9.99, 300]], "asks": [[10.02, 300]], "taker": -0.002, "maker": 0.001},
    },
    "pools": {"P": {"fee": 0.001}, "Q": {"fee": 0.002}},
}


def sale(shares: int = 300, **more: Any) -> Context:
    """An order to sell at the two venues."""
    return read_context(TWO_VENUES, side="sell", shares=shares, **more)


def random_context(rng: np.random.Generator, number: int = 0, **more: Any) -> Context:
    """Three to five venues with one to four levels, some sides empty, and up to three pools."""
    venues: dict[str, dict[str, Any]] = {}
    for v in range(rng.integers(3, 6)):
        bid, depth = 1000 - rng.integers(0, 3), rng.integers(1, 5)
        bids = [[(bid - level) / 100, float(rng.integers(0, 9) * 100)] for level in range(depth)]
        asks = [[(bid + 1 + rng.integers(1, 3) + level) / 100, float(rng.integers(1, 900))] for level in range(1)]
        bps = (number + v) % 4 * 4 - 4  # of the price, on top of a fee per share
        fees = {"taker": f"{int(rng.integers(-20, 30)) / 1e4:.4f} per share + {bps} bps", "maker": f"{bps / 2} bps"}
        venues[f"V{v}"] = {"bids": bids, "asks": asks} | fees
    venues["V0"]["bids"].insert(0, [10.01, 200.0])
    venues["V0"]["asks"] = [[10.02, 300.0], [10.03, 300.0]]
    pools = {f"P{k}": {"fee": 0.001 * k} for k in range(rng.integers(0, 4))}
    order = {
        "order": f"o{number}",
        "side": "buy" if rng.random() < 0.5 else "sell",
        "shares": int(rng.integers(1, 3000)),
        "lot": int(rng.choice([1, 100])),
        "horizon": float(rng.choice([0, 60])),
    }
    return read_context({"venues": venues, "pools": pools}, **order | more)


TWO_POOLS = ((0.6, 0.1), (0.7, 1.2))
THREE_POOLS = ((0.7, 0.5), (0.6, 1.2), (0.8, 0.3))
"""Zero bins and exponents of pools whose best splits were worked out by hand; sizes of 1 to 100."""


def pools_context(pools: int, shares: int, lot: int = 1, fees: tuple[float, ...] = (), **more: Any) -> Context:
    """An order to sell where a fill at the mid saves a cent, less the fee of the pool."""
    venues = {"A": {"bids": [[10.0, 10_000]], "asks": [[10.02, 10_000]]}}
    listed = {f"P{k}": {"fee": fees[k] if fees else 0.0} for k in range(pools)}
    return read_context({"venues": venues, "pools": listed}, side="sell", shares=shares, lot=lot, **more)


def reported(context: Context, plan: Plan, sizes: NDArray[Any]) -> Report:
    """What comes of a plan if pools hold ``sizes (K,)`` shares."""
    children: list[ChildReport] = []
    for pool, sent in plan.dark.items():
        filled = int(min(sent, sizes[int(pool[1:])]))
        children.append(ChildReport(len(children), "dark", pool, sent, filled, 10.01 if filled else 0.0, 0.0, 0, 1))
    return Report(context.order, tuple(children), complete=True, profit=0.0)


def play_pools(router: DarkAllocation, sizes: NDArray[Any], context: Context, *, saved_at: int = -1) -> Units:
    """Shares that a router sends to pools which hold ``sizes (T, K)``, ``(T, K)``; saved and restored if asked for."""
    sent = np.zeros(sizes.shape, dtype=np.int64)
    for t, row in enumerate(sizes):
        if t == saved_at:
            router = type(router).restore(json.loads(json.dumps(router.state())))
        now = dataclasses.replace(context, order=f"o{t}", time=t * 10**9)
        vars(now)["displayed"] = context.displayed  # the books are the same, and sorting them takes time
        plan = router.route(now).checked(now)
        for pool, shares in plan.dark.items():
            sent[t, int(pool[1:])] = shares
        router.learn(reported(now, plan, row))
    return sent


def draw_pools(pools: tuple[tuple[float, float], ...], rounds: int, seed: int, largest: int = 100) -> Units:
    """Sizes ``(rounds, K)`` of pools with a zero bin and a power law."""
    rng = np.random.default_rng(seed)
    columns = []
    for empty, exponent in pools:
        drawn = rng.choice(np.arange(1, largest + 1), size=rounds, p=_power_sizes(exponent, largest))
        columns.append(np.where(rng.random(rounds) < empty, 0, drawn))
    return np.array(columns, dtype=np.int64).T


def expected_fill(pools: tuple[tuple[float, float], ...], split: Any, largest: int = 100) -> float:
    """Units that whole parts of an order are filled with on average."""
    tails = [_power_tails(empty, exponent, largest) for empty, exponent in pools]
    return float(sum(tail[: int(units)].sum() for tail, units in zip(tails, split, strict=True)))


def play_expgrad(sizes: Floats, units: Units, rate: float) -> Floats:
    """Fractional units ``(T, K)`` that ExpGrad sends to pools of known ``sizes (T, K)``; ``units (T,)`` per order."""
    rounds, pools = sizes.shape
    gradients, sent = np.zeros((int(units.max(initial=0)), pools)), np.zeros((rounds, pools))
    for t in range(rounds):
        sent[t] = _softmax_weights(rate, gradients[: units[t]]).sum(axis=0)
        gradients[: units[t]] += (sizes[t] >= sent[t]).astype(float)
    return sent
