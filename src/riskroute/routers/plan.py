"""What a router decides: shares for dark pools, limit orders, shares taken at once, and what becomes of the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from riskroute.core.errors import DataError, InputError, shown
from riskroute.core.validation import instance_of, one_of, real_number, true_or_false, unchecked, whole_number
from riskroute.routers.context import Context

RESTS = ("sweep", "touch", "venue:NAME", "post:NAME")


@dataclass(frozen=True)
class Plan:
    """Child orders of one order.

    Parameters
    ----------
    order : str
        Key of the order.
    dark : Mapping[str, int]
        Shares to try in each pool now (immediate or cancel), by pool.
    in_turn : bool
        Whether pools are tried one after the other, as listed, each with all shares that no other child holds, up to
        its own number; otherwise all at once.
    before : bool
        Whether pools in turn are tried with the whole order before shares are taken, rested or posted. What they fill
        comes off shares that no child holds, then off those to take, then off those to rest, then off the limit orders.
    dark_rest : Mapping[str, int]
        Shares that rest in a pool until they are filled, recalled, or the horizon ends.
    recall : float, optional
        Seconds after which resting shares are recalled and swept; at the horizon if None.
    limit : Mapping[str, int]
        Shares posted at the best price of their own side, by venue, until the horizon.
    take : Mapping[str, int]
        Shares taken at once, by venue.
    take_limits : Mapping[str, float]
        Their limit prices, by venue; any price where none is given.
    rest : str
        What becomes of shares that came back, and of those that no child holds. ``sweep``: taken from all venues,
        cheapest first, again every second until the deadline as books refill. ``touch``: taken at the best displayed
        price alone, every millisecond for up to a second, then swept. ``venue:NAME``: taken at one venue.
        ``post:NAME``: posted there until the horizon, then swept.
    trade_through : bool
        Where order protection applies: whether children may trade at prices worse than another venue's best quote;
        otherwise they come back.

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
        """Shares that child orders hold; pools in turn are tried with the remainder."""
        tried = 0 if self.in_turn else sum(self.dark.values())
        return tried + sum(self.dark_rest.values()) + sum(self.limit.values()) + sum(self.take.values())

    def within(self, shares: int) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
        """Return the shares to take, to rest and to post if pools have left only so many; limit orders come first.

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
        """Return the plan if the order of ``context`` can be split like this, or raise `InputError`."""
        if not isinstance(self.order, str) or self.order != context.order:
            raise InputError(f"order must be {context.order!r}, was {shown(self.order)}")
        venues, pools = context.books.venues, tuple(pool.name for pool in context.pools)
        for name, places in (("dark", pools), ("dark_rest", pools), ("limit", venues), ("take", venues)):
            given = getattr(self, name)
            if type(given) is not dict:
                instance_of(name, given, Mapping, "shares by name")
            for place, shares in given.items():
                if type(shares) is int and shares >= 0 and type(place) is str and place in places:
                    continue  # as nearly always: no text is made of it
                one_of(f"{name} place", place, places)
                whole_number(f"{name} shares of {place}", shares, minimum=0)
        true_or_false("in_turn", self.in_turn)
        if true_or_false("before", self.before) and not self.in_turn:
            raise InputError("pools must be tried in turn to be tried before all else, were not")
        if self.sent > context.shares:
            raise InputError(f"child orders must hold at most {context.shares} shares, was {self.sent}")
        if type(self.take_limits) is not dict:
            instance_of("take_limits", self.take_limits, Mapping, "prices by name")
        for place, price in self.take_limits.items():
            one_of("take_limits venue", place, tuple(self.take))
            real_number(f"take limit of {place}", price, above=0)
        if self.recall is not None:
            real_number("recall", self.recall, minimum=0)
        rule, _, venue = instance_of("rest", self.rest, str, f"one of {', '.join(RESTS)}").partition(":")
        if rule in ("venue", "post"):
            one_of("venue of rest", venue, venues)
            if rule == "post" and self.limit.get(venue):
                raise InputError(f"a plan posts at a venue once: move {venue} out of limit, or use another rest")
        else:
            one_of("rest", self.rest, RESTS)
        true_or_false("trade_through", self.trade_through)
        return self

    def to_json(self) -> dict[str, Any]:
        """Return plain values, which `from_json` turns back into the same plan."""
        return {
            "order": self.order,
            "dark": dict(self.dark),
            "in_turn": self.in_turn,
            "before": self.before,
            "dark_rest": dict(self.dark_rest),
            "recall": self.recall,
            "limit": dict(self.limit),
            "take": dict(self.take),
            "take_limits": dict(self.take_limits),
            "rest": self.rest,
            "trade_through": self.trade_through,
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Plan:
        """Make a plan of plain values."""
        if values.keys() == cls.__dataclass_fields__.keys():
            return unchecked(cls, dict(values))
        unknown = [name for name in values if name not in cls.__dataclass_fields__]
        if unknown or "order" not in values:
            raise DataError(f"a plan must have the fields {', '.join(cls.__dataclass_fields__)}, was {shown(values)}")
        return cls(**values)
