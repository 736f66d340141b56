"""Limits that hold whatever a router says: on orders, symbols, venues and days, and on prices; and automatic halts."""

from __future__ import annotations

from collections.abc import Iterable

from riskroute.core.errors import InputError
from riskroute.live.orders import LARGEST_QUANTITY
from riskroute.live.state.events import NANO, ChildOrder, ParentOrder, Record, touch_prices
from riskroute.live.state.trading_state import TradingState

_UNLIMITED = 10**30


class Limits(Record, frozen=True):
    """What is allowed. Money is in 1e-9 dollars, times are in nanoseconds.

    Attributes
    ----------
    order_quantity, order_notional
        Of a single order.
    symbol_quantity, symbol_notional
        Of all orders in a symbol that are not settled.
    venue_open
        Children at one venue at a time.
    day_orders, day_notional
        Of all orders of a day (UTC).
    day_loss
        Cost of all orders settled on a day, against their arrival mids; more halts trading.
    day_rejects, rejects_in_a_row
        Rejected children of a day, and at one venue one after the other; more halts trading.
    unknown
        Children of which nothing is heard; more halts trading.
    unsettled
        Orders that are not settled; beyond, the safe router is used, and beyond twice as many orders are refused.
    collar
        Basis points from the arrival mid beyond which no child is sent.
    quote_age
        Age of the newest quote of an order, at most.
    stale_quotes
        Orders in a row that are refused since their quotes are too old; more halts trading.
    clock_jump
        Change of the clock against the time that has passed; more halts trading.
    slow_write
        Time that an entry of the log takes to be durable; more halts trading.
    """

    order_quantity: int = 1_000_000
    order_notional: int = 10_000_000 * NANO
    symbol_quantity: int = 10_000_000
    symbol_notional: int = 100_000_000 * NANO
    venue_open: int = 10_000
    day_orders: int = _UNLIMITED
    day_notional: int = _UNLIMITED
    day_loss: int = 1_000_000 * NANO
    day_rejects: int = 1_000
    rejects_in_a_row: int = 20
    unknown: int = 20
    unsettled: int = 1_000
    collar: int = 500
    quote_age: int = 2 * NANO
    stale_quotes: int = 100
    clock_jump: int = 5 * NANO
    slow_write: int = 10 * NANO

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) < 0:
                raise InputError(f"{name} must not be negative, was {getattr(self, name)}")

    def worst_price(self, mid: int, sign: int) -> int:
        """The worst price a child may have, given the mid.

        Examples
        --------
        >>> Limits(collar=100).worst_price(10 * NANO, 1) / NANO, Limits(collar=100).worst_price(10 * NANO, -1) / NANO
        (10.1, 9.9)
        """
        return mid + sign * (mid * self.collar // 10_000)


def quotes_too_old(limits: Limits, order: ParentOrder, now: int) -> str:
    """Say why the quotes of an order cannot be used; empty if they can."""
    newest = max(quote.at for quote in order.quotes)
    age = now - newest
    if age > limits.quote_age:
        return f"quotes must be at most {limits.quote_age / NANO:g} s old, was {age / NANO:g} s"
    if -age > limits.clock_jump:
        return f"quotes must not be from the future, was {-age / NANO:g} s ahead"
    return ""


def order_refusal(limits: Limits, state: TradingState, order: ParentOrder, now: int) -> str:
    """Say why an order is not accepted; empty if it is."""
    if state.halted:
        return f"trading is halted: {state.halted}"
    bid, ask = touch_prices(order.quotes)
    notional = order.quantity * ((bid + ask) // 2)
    use = state.symbols.get(order.symbol)
    quantity_in_use, notional_in_use = (use.quantity, use.notional) if use else (0, 0)
    for what, value, most in (
        ("quantity", order.quantity, min(limits.order_quantity, LARGEST_QUANTITY)),
        ("notional", notional, limits.order_notional),
        ("quantity of open orders in {}", quantity_in_use + order.quantity, limits.symbol_quantity),
        ("notional of open orders in {}", notional_in_use + notional, limits.symbol_notional),
        ("orders of the day", state.day.orders + 1, limits.day_orders),
        ("notional of the day", state.day.notional + notional, limits.day_notional),
        ("orders that are not settled", len(state.unsettled) + 1, 2 * limits.unsettled),
    ):
        if value > most:
            unit = NANO if "notional" in what else 1
            return f"{what.format(order.symbol)} must be at most {most / unit:,.0f}, was {value / unit:,.0f}"
    if order.deadline <= now:
        return "deadline must be later than now, was not"
    return ""


def children_refusal(
    limits: Limits, state: TradingState, order: ParentOrder, mid: int, children: Iterable[ChildOrder], free: int
) -> str:
    """Say why children may not be sent; empty if they may. ``free`` is what they may hold together."""
    asked = 0
    opened: dict[str, int] = {}
    worst = limits.worst_price(mid, order.sign)
    if order.limit is not None:
        worst = min(worst, order.limit) if order.sign > 0 else max(worst, order.limit)
    for child in children:
        asked += child.quantity
        opened[child.place] = opened.get(child.place, 0) + 1
        if type(child.quantity) is not int or child.quantity <= 0:
            return f"quantity of a child must be positive, was {child.quantity}"
        if (child.symbol, child.side, child.parent) != (order.symbol, order.side, order.key):
            return "a child must be of its order, was not"
        if child.limit is None or order.sign * child.limit > order.sign * worst:
            price = "none" if child.limit is None else f"{child.limit / NANO:.9g}"
            return f"limit of a child must be no worse than {worst / NANO:.9g}, was {price}"
    if asked > free:
        return f"children must hold at most {free} shares, was {asked}"
    for place, count in opened.items():
        use = state.venues.get(place)
        if (total := count + (use.open if use else 0)) > limits.venue_open:
            return f"open children at {place} must be at most {limits.venue_open}, was {total}"
    return ""


def automatic_halt(limits: Limits, state: TradingState) -> str:
    """Say why trading must stop; empty if it need not."""
    if state.day.loss > limits.day_loss:
        return f"the day's cost of {state.day.loss / NANO:,.2f} dollars exceeds {limits.day_loss / NANO:,.2f}"
    if state.day.rejects > limits.day_rejects:
        return f"{state.day.rejects} children were rejected today, more than {limits.day_rejects}"
    for name, use in state.venues.items():
        if use.rejects_in_a_row > limits.rejects_in_a_row:
            return f"{name} rejected {use.rejects_in_a_row} children in a row, more than {limits.rejects_in_a_row}"
    if len(state.unknown) > limits.unknown:
        return f"{len(state.unknown)} children are unknown, more than {limits.unknown}"
    return ""
