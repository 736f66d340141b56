"""Mistakes that backtests once made, made again: the oracle notices every one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest

from comparison import Conditions
from random_markets import Shape
from riskroute.core.instrument import Instrument
from riskroute.market.day_books import DayBooks
from riskroute.market.day_trades import DayTrades
from riskroute.market.queue_fills import QueueReplay
from riskroute.routers.context import ContextBooks
from riskroute.routing.consolidated import ConsolidatedBook
from riskroute.routing.fees import fee_at
from riskroute.simulation import clairvoyant, execute_plan, play_day
from riskroute.study import costs, play
from test_random_markets import check

Patch = Callable[[pytest.MonkeyPatch], None]


def five_levels(patch: pytest.MonkeyPatch) -> None:
    whole = DayBooks.of_tables
    patch.setattr(DayBooks, "of_tables", lambda tables, levels: whole(tables, levels=min(levels, 5)))


def price_before_fees(patch: pytest.MonkeyPatch) -> None:
    merge = ConsolidatedBook._merge

    def by_price(self: ConsolidatedBook, *given: Any) -> None:
        *others, _ = given
        merge(self, *others, True)  # type: ignore[call-arg]  # mypy counts them twice

    patch.setattr(ConsolidatedBook, "_merge", by_price)


def straight_estimate(patch: pytest.MonkeyPatch) -> None:
    """Prices of sales fall along a straight line, below zero if need be."""

    def beyond(self: ConsolidatedBook, shares: int) -> tuple[float, float]:
        last, fees = self._last
        worst = max(self.sign * (last - self.mid), 0.0)
        price = self.mid + self.sign * worst * (1 + shares / (2 * self.depth))
        return price, float(fee_at(fees, price))

    patch.setattr(ConsolidatedBook, "beyond", beyond)


def fees_without_limits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ContextBooks, "order_fee", lambda _self, _venue, total, **_: total)


def hours_ignored(patch: pytest.MonkeyPatch) -> None:
    session = play._session
    patch.setattr(play, "_session", lambda books, date, *_: session(books, date, None, Instrument(zone="UTC")))
    patch.setattr(play, "_configured_hours", lambda *_: (0, 2**62))


def old_books(patch: pytest.MonkeyPatch) -> None:
    for module in (play_day, play):
        patch.setattr(module, "STALE", {True: 600.0, False: 600.0})


def own_shares_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(execute_plan, "remove_own", lambda *_: None)


def no_protection(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(execute_plan, "execution_limit", lambda *_: np.inf)


def front_of_the_queue(patch: pytest.MonkeyPatch) -> None:
    joined = QueueReplay._joined

    def first(self: QueueReplay, *given: int) -> Any:
        found = joined(self, *given)
        return found and (*found[:-1], 0)

    patch.setattr(QueueReplay, "_joined", first)


def clairvoyant_never_posts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(clairvoyant, "_posted", lambda *_: [])


def plain_trade_prices(patch: pytest.MonkeyPatch) -> None:
    """Large trades and small ones count alike."""
    between = DayTrades.between
    patch.setattr(DayTrades, "between", lambda self, *given: between(self._replace(sizes=0 * self.sizes + 1), *given))


def average_of_the_ends(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DayBooks, "mean_mids", lambda self, *ends: sum(map(self.mids, ends)) / 2)


def spreads_against_the_arrival_mid(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(costs, "_effective_spread", lambda: 2 * costs._signed_bps(pl.col("price"), pl.col("arrival")))


MINUTE = "10:01-10:02"
LARGE, SMALL = (300, 6000, 30_000), (100, 300, 1500)
MISTAKES: dict[str, tuple[Patch, Shape, Conditions]] = {
    "five levels": (five_levels, Shape(1, 2, 12), Conditions(shares=LARGE)),
    "price before fees": (price_before_fees, Shape(6, 4, 5), Conditions(shares=SMALL)),
    "fees without limits": (fees_without_limits, Shape(6, 4, 5, limited=True), Conditions(shares=SMALL)),
    "straight estimate": (straight_estimate, Shape(3, 2, 2), Conditions(shares=LARGE)),
    "hours ignored": (hours_ignored, Shape(4, seconds=150, zone="Asia/Tokyo"), Conditions(hours=MINUTE)),
    "old books": (old_books, Shape(6, 3, 2), Conditions(shares=SMALL)),
    "own shares again": (own_shares_again, Shape(7, 2, 5), Conditions(horizon=3.0, shares=LARGE)),
    "front of the queue": (front_of_the_queue, Shape(9, 2, 5, events=True), Conditions(horizon=3.0, shares=SMALL)),
    "no limit orders": (clairvoyant_never_posts, Shape(9, 2, 5, events=True), Conditions(horizon=3.0, shares=SMALL)),
    "trade prices": (plain_trade_prices, Shape(9, 2, 5, events=True), Conditions(horizon=3.0, shares=SMALL)),
    "mids at the ends": (average_of_the_ends, Shape(7, 2, 5), Conditions(horizon=3.0, shares=SMALL)),
    "arrival spreads": (spreads_against_the_arrival_mid, Shape(7, 2, 5), Conditions(horizon=3.0, shares=LARGE)),
    "no protection": (no_protection, Shape(8, 4, 5), Conditions("reg-nms", 50.0, shares=SMALL, orders=60)),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_oracle_notices(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    patch, shape, conditions = MISTAKES[mistake]
    assert check(shape, conditions) == []
    patch(monkeypatch)
    monkeypatch.setattr(play, "_hold", lambda *_: None)  # the backtest's own checks would stop some of them
    assert check(shape, conditions), f"{mistake} went unnoticed"
