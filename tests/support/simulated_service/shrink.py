"""Shrinking a scenario that breaks a guarantee: the fewest orders and faults that break the same one."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from simulated_service.scenario import Scenario
from simulated_service.scheduler import NANO
from simulated_service.simulation import Outcome

Item = TypeVar("Item")
Play = Callable[[Scenario], Outcome]


def shrink(scenario: Scenario, outcome: Outcome, play: Play, seconds: float = 120.0) -> tuple[Scenario, Outcome]:
    """Return a smaller scenario that breaks the same guarantee, and its outcome, after some seconds at most."""
    until = time.monotonic() + seconds
    best = scenario, outcome

    def attempt(smaller: Scenario) -> bool:
        nonlocal best
        if time.monotonic() > until:
            return False
        found = play(smaller)
        if _likeness(found.broken) != _likeness(outcome.broken):
            return False
        best = smaller, found
        return True

    last = outcome.seconds
    early = replace(
        scenario,
        seconds=min(scenario.seconds, last),
        orders=tuple(one for one in scenario.orders if one.at <= last * NANO),
        faults=tuple(one for one in scenario.faults if one.at <= last * NANO),
    )
    attempt(early)
    changed = True
    while changed and time.monotonic() < until:
        before = best[0]
        _drop(best[0].faults, lambda kept: attempt(best[0].without(best[0].orders, kept)))
        _drop(best[0].orders, lambda kept: attempt(best[0].without(kept, best[0].faults)))
        for name in ("reject", "partial", "duplicate", "disorder", "silence", "lost", "refit_every"):
            if getattr(best[0], name):
                simpler: dict[str, Any] = {name: 0}
                attempt(replace(best[0], **simpler))
        for order in best[0].orders:
            if order.manner != "waits":
                plain = tuple(replace(one, manner="waits") if one is order else one for one in best[0].orders)
                attempt(best[0].without(plain, best[0].faults))
        changed = best[0] != before
    return best


def _likeness(message: str) -> str:
    """Return a message without numbers and names."""
    return re.sub(r"[\w-]*\d[\w.-]*", "N", message)


def _drop(items: tuple[Item, ...], attempt: Callable[[tuple[Item, ...]], bool]) -> None:
    """Drop items in ever smaller chunks, as long as what is left does."""
    size = len(items)
    while size > 0:
        begin = 0
        while begin < len(items):
            kept = items[:begin] + items[begin + size :]
            if attempt(kept):
                items = kept
            else:
                begin += size
        size //= 2
