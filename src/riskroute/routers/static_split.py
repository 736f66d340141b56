"""The same split for every order, whatever the books show: what a study of averages recommends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from riskroute.core.errors import InputError, shown
from riskroute.core.parameters import parameter
from riskroute.core.validation import instance_of, list_of, real_number
from riskroute.routers.context import Context
from riskroute.routers.dark_first import pool_savings, quickest_venue
from riskroute.routers.plan import Plan
from riskroute.routers.router import Router
from riskroute.routing.weights import proportional_lots


@dataclass
class StaticSplit(Router):
    """Send fixed fractions of an order to venues, taken at once at any price, and to pools.

    Shares for a venue or pool that is absent today are treated as if they had come back.

    Parameters
    ----------
    take : Mapping[str, float]
        Weights of venues; all equal if both this and ``dark`` are empty.
    dark : Mapping[str, float]
        Weights of pools.
    rest : str
        Venue to which what pools return is sent; swept if empty.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> books = {"venues": {name: {"bids": [[10.0, 900]], "asks": [[10.02, 900]]} for name in ("XNAS", "XPSX")}}
    >>> StaticSplit({"XNAS": 0.97, "XPSX": 0.03}).route(read_context(books, side="sell", shares=1000)).take
    {'XNAS': 970, 'XPSX': 30}
    """

    name: ClassVar[str] = "static"
    take: Mapping[str, float] = field(default_factory=dict)
    dark: Mapping[str, float] = field(default_factory=dict)
    rest: str = parameter("", instance_of, kind=str, expected="the name of a venue")

    def check_parameters(self) -> None:
        for name in ("take", "dark"):
            weights = getattr(self, name)
            if not isinstance(weights, Mapping):
                raise InputError(f"{name} must hold weights by name, was {shown(weights)}")
            for place, weight in weights.items():
                real_number(f"weight of {place}", weight, minimum=0)
        if (self.take or self.dark) and not sum(self.take.values()) + sum(self.dark.values()) > 0:
            raise InputError("weights must not all be 0, were")

    def decide(self, context: Context) -> Plan:
        take = self.take if self.take or self.dark else dict.fromkeys(context.books.venues, 1.0)
        places = [("take", place) for place in take] + [("dark", place) for place in self.dark]
        weights = [*take.values(), *self.dark.values()]
        rest = f"venue:{self.rest}" if self.rest in context.books.venues else "sweep"
        return split_plan(context, places, weights, rest)


def split_plan(
    context: Context, places: Sequence[tuple[str, str]], weights: Sequence[float], rest: str = "sweep"
) -> Plan:
    """Return the plan that divides an order in proportion to weights, at any price.

    ``places`` are pairs of ``take`` or ``dark`` and a name; shares for one that is absent today go with the rest.
    """
    shares = proportional_lots(np.array(weights, dtype=float), context.shares, context.lot)
    there = {"take": context.books.venues, "dark": tuple(pool.name for pool in context.pools)}
    sent: dict[str, dict[str, int]] = {"take": {}, "dark": {}}
    for (kind, place), some in zip(places, shares, strict=True):
        if some and place in there[kind]:
            sent[kind][place] = int(some)
    return Plan(context.order, take=sent["take"], dark=sent["dark"], rest=rest, trade_through=True)


@dataclass
class StaticSweep(Router):
    """Rest a fixed fraction of an order in pools, post another, and sweep the remainder on the current books.

    Parameters
    ----------
    pools : Sequence[str]
        Pools that are tried first, one after the other as listed, with all that neither rests nor is posted.
    rest : float
        Fraction of the order that rests until the horizon, divided equally among the pools that save anything.
    post : float
        Fraction that is posted until the horizon, at the best price of the venue whose queue should empty first.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> books = {"venues": {"XNAS": {"bids": [[10.0, 900]], "asks": [[10.02, 900]]}}, "pools": {"P": {}}}
    >>> plan = StaticSweep(pools=["P"], post=0.5).route(read_context(books, side="sell", shares=1000, horizon=60))
    >>> plan.dark, plan.limit, plan.rest
    ({'P': 500}, {'XNAS': 500}, 'sweep')
    """

    name: ClassVar[str] = "static+sweep"
    pools: Sequence[str] = ()
    rest: float = parameter(0.0, real_number, minimum=0, maximum=1)
    post: float = parameter(0.0, real_number, minimum=0, maximum=1)

    def check_parameters(self) -> None:
        if self.rest + self.post > 1:
            raise InputError(f"rest and post must not exceed 1 together, was {self.rest + self.post}")
        if isinstance(self.pools, str):
            raise InputError(f"pools must be a list of names, was {shown(self.pools)}")
        self.pools = list_of("pools", self.pools, str, "names")

    def decide(self, context: Context) -> Plan:
        savings = {pool: saving for pool, saving in pool_savings(context).items() if saving > 0}
        resting, posting, venue = 0, 0, quickest_venue(context)
        if context.horizon > 0:
            wanted = np.array([self.rest if savings else 0.0, self.post if venue else 0.0, 0.0])
            wanted[2] = 1 - wanted.sum()
            resting, posting, _ = (int(n) for n in proportional_lots(wanted, context.shares, context.lot))
        each = proportional_lots(np.ones(max(len(savings), 1)), resting, context.lot)
        now = context.shares - resting - posting
        return Plan(
            context.order,
            dark={pool: now for pool in self.pools if pool in savings} if now else {},
            in_turn=True,
            dark_rest={pool: int(n) for pool, n in zip(savings, each, strict=False) if n},
            limit={venue: posting} if posting else {},
        )
