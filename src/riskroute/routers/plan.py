"""Plan of an order: shares for dark pools, limit orders and immediate takes, and a rule for the remainder."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from riskroute.core.errors import InputError
from riskroute.core.records import from_plain
from riskroute.core.text import shown
from riskroute.core.validation import instance_of, one_of, real_number, true_or_false, unvalidated, whole_number
from riskroute.routers.context import Context


@dataclass(frozen=True)
class Plan:
    """Child orders of one parent order.

    Parameters
    ----------
    order : str
        Key of the parent order.
    dark : Mapping[str, int]
        Shares to ping in each pool (immediate or cancel).
    in_turn : bool
        Ping pools one after the other in the given order, each with all unassigned shares up to its own number;
        otherwise ping all at once.
    before : bool
        Ping pools with the whole order before other children are sent; requires ``in_turn``. Fills reduce unassigned
        shares first, then ``take``, then ``dark_rest``, then ``limit``.
    dark_rest : Mapping[str, int]
        Shares that rest in a pool until filled, recalled, or the horizon.
    recall : float, optional
        Seconds after which resting shares are recalled and swept; default: the horizon.
    limit : Mapping[str, int]
        Shares posted at the venue's best own-side price until the horizon.
    take : Mapping[str, int]
        Shares taken immediately, by venue.
    take_limits : Mapping[str, float]
        Limit prices of ``take``, by venue; default: no limit.
    rest : str
        Rule for unassigned and returned shares. ``sweep``: take from all venues, cheapest first, again every second
        until the deadline as books refill. ``touch``: take at the best displayed price only, every millisecond for up
        to a second, then sweep. ``venue:NAME``: take at one venue. ``post:NAME``: post there until the horizon, then
        sweep.
    trade_through : bool
        Under order protection: allow children to trade through another venue's better quote; otherwise the venue
        returns the shares.

    Examples
    --------
    >>> Plan("a", dark={"POOL": 300}, limit={"XNAS": 200}).sent
    500
    """

    order: str
    dark: Mapping[str, int] = field(default_factory=dict)
    in_turn: bool = False
    before: bool = False
    dark_rest: Mapping[str, int] = field(default_factory=dict)
    recall: float | None = None
    limit: Mapping[str, int] = field(default_factory=dict)
    take: Mapping[str, int] = field(default_factory=dict)
    take_limits: Mapping[str, float] = field(default_factory=dict)
    rest: str = "sweep"
    trade_through: bool = False

    @property
    def sent(self) -> int:
        """Shares assigned to child orders; pools pinged in turn get the remainder."""
        pinged = 0 if self.in_turn else sum(self.dark.values())
        return pinged + sum(self.dark_rest.values()) + sum(self.limit.values()) + sum(self.take.values())

    def within(self, shares: int) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
        """Return take, dark_rest and limit shares, reduced to ``shares`` in total: takes first, limit orders last.

        Examples
        --------
        >>> Plan("a", take={"A": 100, "B": 50}, dark_rest={"P": 80}, limit={"A": 200}).within(330)
        ({'A': 50, 'B': 0}, {'P': 80}, {'A': 200})
        """
        take: dict[str, int] = {}
        rest: dict[str, int] = {}
        limit: dict[str, int] = {}
        for kept, children in ((limit, self.limit), (rest, self.dark_rest), (take, self.take)):
            for place, wanted in children.items():
                kept[place] = min(wanted, shares)
                shares -= kept[place]
        return take, rest, limit

    def checked(self, context: Context) -> Plan:
        """Return the plan if it is valid for the order of ``context``, or raise `InputError`."""
        if not isinstance(self.order, str) or self.order != context.order:
            raise InputError(f"order must be {context.order!r}, was {shown(self.order)}")
        venues, pools = context.books.venues, tuple(pool.name for pool in context.pools)
        for name, places in (("dark", pools), ("dark_rest", pools), ("limit", venues), ("take", venues)):
            given = getattr(self, name)
            if type(given) is not dict:
                instance_of(name, given, Mapping, "shares by name")
            for place, shares in given.items():
                if type(shares) is int and shares >= 0 and type(place) is str and place in places:
                    continue  # common case: skip building the error texts
                one_of(f"{name} place", place, places)
                whole_number(f"{name} shares of {place}", shares, minimum=0)
        true_or_false("in_turn", self.in_turn)
        if true_or_false("before", self.before) and not self.in_turn:
            raise InputError("before requires in_turn: simultaneous pings of the whole order could overfill it")
        if self.sent > context.shares:
            sent, most = map(context.instrument.quantity_text, (self.sent, context.shares))
            raise InputError(f"child orders total {sent}, expected at most {most}")
        if type(self.take_limits) is not dict:
            instance_of("take_limits", self.take_limits, Mapping, "prices by name")
        for place, price in self.take_limits.items():
            one_of("take_limits venue", place, tuple(self.take))
            lowest = -math.inf if context.instrument.negative_prices else 0.0
            real_number(f"take limit of {place}", price, above=lowest)
        if self.recall is not None:
            real_number("recall", self.recall, minimum=0)
        rules = ("sweep", "touch", "venue:NAME", "post:NAME")
        rule, _, venue = instance_of("rest", self.rest, str, f"one of {', '.join(rules)}").partition(":")
        if rule in ("venue", "post"):
            one_of("venue of rest", venue, venues)
            if rule == "post" and self.limit.get(venue):
                raise InputError(f"{venue} must not be in both limit and rest: post at a venue only once")
        else:
            one_of("rest", self.rest, rules)
        true_or_false("trade_through", self.trade_through)
        return self

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain JSON values, from which `from_json` rebuilds it."""
        places = {name: dict(getattr(self, name)) for name in ("dark", "dark_rest", "limit", "take", "take_limits")}
        return vars(self) | places

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Plan:
        """Build a plan from plain values; a complete set of fields, as in a log, is not checked again."""
        if values.keys() == cls.__dataclass_fields__.keys():
            return unvalidated(cls, dict(values))
        return from_plain(cls, values, "the plan")


def plain_plan(plan: Plan) -> Plan:
    """Return the plan with plain values, as a round trip through JSON gives them."""
    values = plan.to_json()
    if type(plan) is Plan and _are_plain(values):
        return unvalidated(Plan, values)
    return Plan.from_json(json.loads(json.dumps(values)))


def _are_plain(values: dict[str, Any]) -> bool:
    """Return whether a round trip through JSON changes nothing, for values nested as in a plan."""
    plain = (int, float, bool, str, type(None))
    for value in values.values():
        if type(value) is dict:
            for key, item in value.items():
                if type(key) is not str or type(item) not in plain:
                    return False
        elif type(value) not in plain:
            return False
    return True
