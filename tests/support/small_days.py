"""Short days of the synthetic markets, made in this process, and what routers plan on them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from riskroute.routers.context import Context
from riskroute.routers.plan import Plan
from riskroute.routers.router import Router
from riskroute.simulation import backends
from riskroute.simulation.backends import Backend
from riskroute.study import markets
from riskroute.study.markets import MarketDay, market_days

HERE = Backend("local", 1)
"""Everything in this process."""


@contextmanager
def short_market(minutes: int = 20) -> Iterator[None]:
    """Synthetic days are short, and backends that do not say otherwise have one core: this process."""
    hours = (dt.time(10, 30), dt.time(10, 30 + minutes))
    with mock.patch.object(markets, "SYNTHETIC_HOURS", hours), mock.patch.object(backends, "_cores", return_value=1):
        yield


def short_days(kept: Path, market: str = "dark", days: int = 2, *, minutes: int = 20, **more: Any) -> list[MarketDay]:
    """Days of a synthetic market, kept in a folder."""
    with short_market(minutes):
        return market_days(market, days=days, kept=kept, backend=HERE, **more)


def noting_plans(router: Router) -> list[dict[str, Any]]:
    """Have a router note its plans; returns the list that they go to."""
    plans: list[dict[str, Any]] = []
    decide = router.decide

    def noted(context: Context) -> Plan:
        plan = decide(context)
        plans.append(plan.to_json())
        return plan

    router.decide = noted  # type: ignore[method-assign]  # for this router alone
    return plans
