"""Books for tests of routers: two venues worked out by hand, and random ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from riskroute.routers.context import Context, read_context

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
        venues[f"V{v}"] = {"bids": bids, "asks": asks, "taker": float(rng.integers(-20, 30)) / 1e4}
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
