"""Conformance checks for routers, shipped to users."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from riskroute.core.errors import CheckError, RiskrouteError
from riskroute.core.validation import instance_of
from riskroute.routers.context import Context, read_context
from riskroute.routers.plan import Plan
from riskroute.routers.report import ChildReport, Report
from riskroute.routers.router import FEEDBACK, Router

_ORDERS = 60


def check_router(router: Router, *, seed: int = 0) -> None:
    """Check a router; raise `CheckError` at the first property that is violated.

    Routes orders of many sizes on random books, some thin or one-sided, with reports that arrive in parts, late, out of
    order, twice or never. Plans must be executable, decisions reproducible, and a restored state must continue alike.

    Examples
    --------
    >>> from riskroute.routers.rules import SweepRule
    >>> check_router(SweepRule())
    """
    instance_of("router", router, Router, "a router")
    _hold(router.feedback in FEEDBACK, router, f"feedback must be one of {', '.join(FEEDBACK)}")
    fresh = type(router)(**copy.deepcopy(router.parameters))
    _hold(fresh.parameters == router.parameters, router, "must be reconstructed from its parameters")
    rng = np.random.default_rng(seed)
    contexts = [_context(rng, number) for number in range(_ORDERS)]
    expected = _played(fresh, contexts, seed)
    again = type(router)(**router.parameters)
    _hold(_played(again, contexts, seed) == expected, router, "must decide alike on the same orders")
    for saved_at in (1, _ORDERS // 2):
        plans = _played(type(router)(**router.parameters), contexts, seed, saved_at=saved_at)
        _hold(plans == expected, router, f"must decide alike when saved after {saved_at} orders")
    repeated = type(router)(**router.parameters)
    plans = _played(repeated, contexts, seed, twice=True)
    _hold(plans == expected and repeated.state() == fresh.state(), router, "must learn a repeated report once")
    _check_abandoning(router, contexts, seed)


def _hold(holds: bool, router: Router, property_: str) -> None:
    if not holds:
        raise CheckError(f"{router.name}: {property_}")


def _context(rng: np.random.Generator, number: int) -> Context:
    """Return an order on random books of two to five venues, of which the first shows both sides."""
    venues: dict[str, Any] = {}
    for v in range(int(rng.integers(2, 6))):
        best, depth = 2000 - int(rng.integers(0, 3)), int(rng.integers(0 if v else 1, 4))
        sizes = rng.integers(1, 20, (2, depth)) * 50.0
        venues[f"V{v}"] = {
            "bids": [[(best - level) / 100, float(sizes[0, level])] for level in range(depth)],
            "asks": [[(best + 2 + level) / 100, float(sizes[1, level])] for level in range(depth if v != 1 else 0)],
            "taker": float(rng.integers(-20, 31)) / 1e4,
            "maker": float(rng.integers(-30, 21)) / 1e4,
        }
    pools = {f"P{k}": {"fee": 0.001 * k} for k in range(int(rng.integers(0, 4)))}
    return read_context(
        {"venues": venues, "pools": pools},
        order=f"order {number}",
        side="buy" if rng.random() < 0.5 else "sell",
        shares=int(rng.choice([1, 7, 100, 300, 1000, 20_000])),
        lot=int(rng.choice([1, 100])),
        horizon=float(rng.choice([0.0, 10.0, 300.0])),
        time=number * 10**9,
    )


def _reports(rng: np.random.Generator, context: Context, plan: Plan) -> list[Report]:
    """Return two reports of partially filled children."""
    children: list[ChildReport] = []
    left = context.shares
    for kind in ("dark", "dark_rest", "limit", "take"):
        for place, shares in getattr(plan, kind).items():
            sent = min(shares, left)
            filled = int(rng.integers(0, sent + 1))
            left -= filled
            price = context.mid if filled else 0.0
            facts = kind, place, sent, filled, price, 0.0, context.time, context.time
            children.append(ChildReport(len(children), *facts))
    children.append(ChildReport(len(children), "sweep", "V0", left, left, context.mid if left else 0.0, 0.0, 0, 0))
    first, last = tuple(children[::2]), tuple(children[1::2])
    order, profit = context.order, float(-rng.exponential() * context.shares / 100)
    return [Report(order, first), Report(order, last, complete=True, profit=profit)]


def _played(
    router: Router, contexts: Sequence[Context], seed: int, *, saved_at: int = -1, twice: bool = False
) -> list[dict[str, Any]]:
    """Return the plans for all orders, with reports three orders late, saved and restored at ``saved_at``."""
    rng = np.random.default_rng([seed, 1])
    plans: list[dict[str, Any]] = []
    waiting: list[Report] = []
    for number, context in enumerate(contexts):
        if number == saved_at:
            router = type(router).restore(json.loads(json.dumps(router.state())))
        plan = router.route(context)
        try:
            plan.checked(context)
        except RiskrouteError as error:
            raise CheckError(f"{router.name}: plans must be executable: {error}") from error
        _hold(Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan, router, "plans must survive JSON")
        plans.append(plan.to_json())
        waiting += _reports(rng, context, plan)
        while len(waiting) > 6:
            report = waiting.pop(0)
            router.learn(report)
            if twice:
                router.learn(report)
    for report in waiting[::2] + waiting[1::2]:
        router.learn(report)
    _hold(router.under_way == (), router, "must forget orders after their last report")
    return plans


def _check_abandoning(router: Router, contexts: list[Context], seed: int) -> None:
    """Abandon every fifth order, and compare with a twin that follows the same plans instead of making them."""
    first, twin = (type(router)(**router.parameters) for _ in range(2))
    rng = np.random.default_rng([seed, 2])
    for number, context in enumerate(contexts[: _ORDERS // 2]):
        plan = first.route(context)
        plan.checked(context)
        twin.follow(context, plan)
        reports = _reports(rng, context, plan)
        for one in (first, twin):
            if number % 5 == 4:
                one.abandon(context.order)
            for report in reports:
                one.learn(report)
    _hold(first.under_way == (), router, "must forget abandoned orders")
    _hold(first.state() == twin.state(), router, "must have the same state whether it makes or follows a plan")
