"""Checks of orders: validity, repetition, and limits.

Limits on orders, symbols, venues, days and prices bind every router; exceeding some of them halts trading.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from hashlib import blake2b

import msgspec

from riskroute.core.errors import InputError
from riskroute.core.text import shown
from riskroute.live.state.orders import NANO, ChildOrder, ParentOrder, Record, VenueQuote, touch_prices
from riskroute.live.state.trading_state import TradingState

LARGEST_QUANTITY = 10**9  # shares of any order, whatever the configured limits
LARGEST_PRICE = 10**7 * NANO  # a higher price is certainly in another unit
LARGEST_FEE = 10 * NANO  # a fee per share of larger magnitude is certainly in another unit


def check_order(order: ParentOrder) -> None:
    """Raise `InputError` for an invalid order; limits and the age of its quotes are checked by the engine."""
    if not order.quotes:
        raise InputError("quotes must be sent with this order, with an earlier one or to /quotes, were missing")
    for name, text, most in (("key", order.key, 200), ("symbol", order.symbol, 32)):
        if not 0 < len(text) <= most or not text.isprintable():
            raise InputError(f"{name} must be 1 to {most} printable characters, was {shown(text)}")
    for name, value, most in (
        ("quantity", order.quantity, LARGEST_QUANTITY),
        ("lot", order.lot, LARGEST_QUANTITY),
        ("tick", order.tick, LARGEST_PRICE),
        ("deadline", order.deadline, 2**63 - 1),
        ("limit", order.limit, LARGEST_PRICE),
    ):
        if value is not None and not 0 < value <= most:
            raise InputError(f"{name} must be from 1 to {most}, was {value}")
    if len(order.features) > 100:
        raise InputError(f"features must be at most 100, was {len(order.features)}")
    for name, number in order.features.items():
        if len(name) > 100 or not name.isprintable():
            raise InputError(f"a feature's name must be at most 100 printable characters, was {shown(name)}")
        if not math.isfinite(number):
            raise InputError(f"feature {name} must be finite, was {number}")
    names = [quote.venue for quote in order.quotes] + [pool.pool for pool in order.pools]
    if len(set(names)) < len(names):
        raise InputError(f"quotes and pools must name each place once, was {shown(names)}")
    check_quote_limits(order.quotes)
    if not all(touch_prices(order.quotes)):
        raise InputError("quotes must show a bid and an ask at some venue, did not")


def check_quote_limits(quotes: tuple[VenueQuote, ...]) -> None:
    """Raise `InputError` for books that are unsorted, crossed, out of range, or undated."""
    for quote in quotes:
        for side, sign, levels in (("bids", -1, quote.bids), ("asks", 1, quote.asks)):
            where = f"{side} of {quote.venue} must"
            prices = [sign * price for price, _ in levels]
            if len(prices) > 1 and prices != sorted(prices):
                raise InputError(f"{where} have the best price first, was {shown(list(levels))}")
            for price, size in levels:
                if not (0 < price <= LARGEST_PRICE and 0 <= size <= 10**12):
                    raise InputError(f"{where} be prices 1 to {LARGEST_PRICE}, sizes 0 to {10**12}, was {price, size}")
        bid, ask = touch_prices((quote,))
        if bid and ask and bid >= ask:
            raise InputError(f"bids of {quote.venue} must be below its asks, was {bid} against {ask}")
        if quote.at <= 0:
            raise InputError(f"at of {quote.venue} must be a time since 1970, was {quote.at}")


def order_digest(order: ParentOrder) -> bytes:
    """Hash the client's terms, without quotes: a retry with the same key may bring newer books."""
    wanted = order.symbol, order.side, order.quantity, order.limit, order.deadline, order.lot, order.tick
    return blake2b(msgspec.msgpack.encode(wanted), digest_size=12).digest()


class Limits(Record, frozen=True):
    """Limits of the engine. Money is in 1e-9 dollars, times are in nanoseconds.

    Attributes
    ----------
    order_quantity, order_notional
        Maximum of a single order.
    symbol_quantity, symbol_notional
        Maximum over unsettled orders in a symbol.
    venue_open
        Maximum of open children at one venue.
    day_orders, day_notional
        Maximum over the orders of a day (UTC); default: unlimited.
    day_loss
        Cost against arrival mids of the orders settled on a day; more halts trading.
    day_rejects, rejects_in_a_row
        Rejected children of a day, and in a row at one venue; more halts trading.
    unknown
        Children whose venue does not answer; more halts trading.
    unsettled
        Number of unsettled orders at which the safe router takes over; with twice as many, orders are refused.
    collar
        Maximum distance of a child's limit price from the arrival mid, in basis points.
    quote_age
        Maximum age of an order's newest quote at its receipt, and maximum time of the order in the router's queue.
    stale_quotes
        Orders in a row refused for old quotes; more halts trading.
    clock_jump
        Change of the wall clock against the monotonic clock; more halts trading.
    slow_write
        Time until an entry of the log is durable; more halts trading.
    """

    order_quantity: int = 1_000_000
    order_notional: int = 10_000_000 * NANO
    symbol_quantity: int = 10_000_000
    symbol_notional: int = 100_000_000 * NANO
    venue_open: int = 10_000
    day_orders: int = 10**30
    day_notional: int = 10**30
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
        """Return the worst limit price of a child, given the arrival mid.

        Examples
        --------
        >>> Limits(collar=100).worst_price(10 * NANO, 1) / NANO, Limits(collar=100).worst_price(10 * NANO, -1) / NANO
        (10.1, 9.9)
        """
        return mid + sign * (mid * self.collar // 10_000)

    def stale_quotes_refusal(self, order: ParentOrder, received: int, now: int) -> str:
        """Return why the quotes of an order are refused: too old at its receipt, or in the future; empty if neither."""
        newest = max(quote.at for quote in order.quotes)
        if (age := received - newest) > self.quote_age:
            return f"quotes must be at most {self.quote_age / NANO:g} s old, was {age / NANO:g} s"
        if (ahead := newest - now) > self.clock_jump:
            return f"quotes must not be from the future, was {ahead / NANO:g} s ahead"
        return ""

    def order_refusal(self, state: TradingState, order: ParentOrder, now: int) -> str:
        """Return why an order is refused; empty if it is accepted."""
        if state.halted:
            return f"trading is halted: {state.halted}"
        bid, ask = touch_prices(order.quotes)
        notional = order.quantity * ((bid + ask) // 2)
        use = state.symbols.get(order.symbol)
        quantity_in_use, notional_in_use = (use.quantity, use.notional) if use else (0, 0)
        for what, value, most in (
            ("quantity", order.quantity, min(self.order_quantity, LARGEST_QUANTITY)),
            ("notional", notional, self.order_notional),
            ("quantity of open orders in {}", quantity_in_use + order.quantity, self.symbol_quantity),
            ("notional of open orders in {}", notional_in_use + notional, self.symbol_notional),
            ("orders of the day", state.day.orders + 1, self.day_orders),
            ("notional of the day", state.day.notional + notional, self.day_notional),
            ("orders that are not settled", len(state.unsettled) + 1, 2 * self.unsettled),
        ):
            if value > most:
                unit = NANO if "notional" in what else 1
                return f"{what.format(order.symbol)} must be at most {most / unit:,.0f}, was {value / unit:,.0f}"
        if order.deadline <= now:
            return "deadline must be later than now, was not"
        return ""

    def children_refusal(
        self, state: TradingState, order: ParentOrder, mid: int, children: Iterable[ChildOrder], free: int
    ) -> str:
        """Return why children may not be sent; empty if they may. ``free`` is the quantity they may hold together."""
        asked = 0
        opened: dict[str, int] = {}
        worst = self.worst_price(mid, order.sign)
        if order.limit is not None:
            worst = min(worst, order.limit) if order.sign > 0 else max(worst, order.limit)
        for child in children:
            asked += child.quantity
            opened[child.place] = opened.get(child.place, 0) + 1
            if type(child.quantity) is not int or child.quantity <= 0:
                return f"quantity of a child must be positive, was {child.quantity}"
            if (child.symbol, child.side, child.parent) != (order.symbol, order.side, order.key):
                return "a child must have the symbol, side and key of its order, did not"
            if child.limit is None or order.sign * child.limit > order.sign * worst:
                price = "none" if child.limit is None else f"{child.limit / NANO:.9g}"
                return f"limit of a child must be no worse than {worst / NANO:.9g}, was {price}"
        if asked > free:
            return f"children must hold at most {free} shares, was {asked}"
        for place, count in opened.items():
            use = state.venues.get(place)
            if (total := count + (use.open if use else 0)) > self.venue_open:
                return f"open children at {place} must be at most {self.venue_open}, was {total}"
        return ""

    def automatic_halt(self, state: TradingState) -> str:
        """Return why trading must halt; empty if it need not."""
        if state.day.loss > self.day_loss:
            return f"the day's cost of {state.day.loss / NANO:,.2f} dollars exceeds {self.day_loss / NANO:,.2f}"
        if state.day.rejects > self.day_rejects:
            return f"{state.day.rejects} children were rejected today, more than {self.day_rejects}"
        for name, use in state.venues.items():
            if use.rejects_in_a_row > self.rejects_in_a_row:
                return f"{name} rejected {use.rejects_in_a_row} children in a row, more than {self.rejects_in_a_row}"
        if len(state.unknown) > self.unknown:
            return f"{len(state.unknown)} children are unknown, more than {self.unknown}"
        return ""
