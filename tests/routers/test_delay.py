"""Posting where the rebate is worth the wait."""

from __future__ import annotations

import numpy as np
import pytest

import riskroute as rr
from riskroute.core.errors import InputError
from riskroute.routers.rules import Delay, Sweep, best_queue, quickest_venue
from router_books import random_context, sale


def test_a_rebate_is_worth_some_delay() -> None:
    """At 10.02 A offers 100 shares without a fee, B 300 for 0.1 cents; B is 2.5 times as quick."""
    features = {"outflow A": 2.0, "outflow B": 15.0}  # 50 and 20 seconds
    assert best_queue(sale(features=features), 0.001 / 30 * 0.99) == "A"
    assert best_queue(sale(features=features), 0.001 / 30 * 1.01) == "B"
    assert Delay(gamma=0.0).route(sale(300, horizon=60)).rest == "post:A"


def test_a_venue_behind_the_best_price_is_not_joined() -> None:
    books = {"A": {"bids": [[9.99, 1]], "asks": [[10.02, 9]], "maker": -0.003}, "B": {"bids": [[10.0, 900]]}}
    assert best_queue(rr.routers.read_context({"venues": books}, side="buy", shares=10), 1e-6) == "B"


def test_a_high_price_of_time_is_the_shortest_delay() -> None:
    rng = np.random.default_rng(3)
    for number in range(100):
        context = random_context(rng, number, features={f"outflow V{k}": float(rng.integers(1, 50)) for k in range(6)})
        assert best_queue(context, 1e6) == quickest_venue(context)


def test_without_time_it_sweeps() -> None:
    assert Delay().route(sale(300)) == Sweep().route(sale(300))


def test_it_is_a_router_like_all_others() -> None:
    rr.check_router(Delay())
    with pytest.raises(InputError, match="gamma must be a number of at least 0 and of at most 1000, was -1"):
        Delay(gamma=-1.0)
