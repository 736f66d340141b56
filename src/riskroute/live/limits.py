"""Checks of orders: validity and limits.

Limits on orders, symbols, venues, days and prices bind every router; exceeding some of them halts trading.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache

from riskroute.core.errors import InputError
from riskroute.core.instrument import LARGEST_QUANTITY, Instrument, instrument_from_terms
from riskroute.core.records import Record
from riskroute.core.text import decimal_text, shown
from riskroute.core.validation import valid_decimal
from riskroute.live.state.amounts import NANO, amount_scale, natural_amount
from riskroute.live.state.orders import ChildOrder, ParentOrder, minimum_order_units
from riskroute.live.state.quotes import VenueQuote, quoted_touch
from riskroute.live.state.trading_state import TradingState

LARGEST_PRICE = 10**9 * NANO  # a higher price is certainly in another unit
LARGEST_SIZE = 10**15  # units of a displayed level


def check_order(order: ParentOrder) -> None:
    """Raise `InputError` for an invalid order; limits and the age of its quotes are checked by the engine."""
    if not order.quotes:
        raise InputError("quotes must be sent with the order or posted to /quotes, were missing")
    for name, word, longest in (("key", order.key, 200), ("symbol", order.symbol, 32)):
        if not 0 < len(word) <= longest or not word.isprintable():
            raise InputError(f"{name} must be 1 to {longest} printable characters, was {shown(word)}")
    for name, value, most, text in (
        ("quantity", order.quantity, LARGEST_QUANTITY, order.instrument.quantity_text),
        ("deadline", order.deadline, 2**63 - 1, str),
        ("limit", order.limit, LARGEST_PRICE, _price_text),
    ):
        if value is not None and not 0 < value <= most:
            raise InputError(f"{name} must be above 0 and at most {text(most)}, was {text(value)}")
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
    if not all(quoted_touch(order.quotes)):
        raise InputError("quotes must show a bid and an ask at some venue, were empty on one side")
    _check_minima(order, order.instrument)


def check_quote_limits(quotes: tuple[VenueQuote, ...]) -> None:
    """Raise `InputError` for books that are unsorted, locked, crossed, out of range or undated."""
    for quote in quotes:
        for side, sign, levels in (("bids", -1, quote.bids), ("asks", 1, quote.asks)):
            where = f"{side} of {quote.venue} must"
            prices = [price for price, _ in levels]
            if len(prices) > 1 and prices != sorted(prices, reverse=sign < 0):
                raise InputError(f"{where} have the best price first, was {', '.join(map(_price_text, prices[:5]))}")
            for price, size in levels:
                if not (0 < price <= LARGEST_PRICE and 0 <= size <= LARGEST_SIZE):
                    expected = (
                        f"prices above 0 and up to {LARGEST_PRICE // NANO:,}, sizes from 0 to {LARGEST_SIZE:,} units"
                    )
                    raise InputError(f"{where} have {expected}, was {_price_text(price)} and {size:,} units")
        bid, ask = quoted_touch((quote,))
        if bid and ask and bid >= ask:
            found = f"{_price_text(bid)} against {_price_text(ask)}"
            raise InputError(f"bids of {quote.venue} must be below its asks, was {found}")
        if quote.at <= 0:
            raise InputError(f"at of {quote.venue} must be a time since 1970, was {quote.at}")


def _check_minima(order: ParentOrder, instrument: Instrument) -> None:
    """Raise `InputError` for an order that is smaller than the instrument allows, or not a multiple of its lot."""
    text = instrument.quantity_text
    if order.quantity % instrument.lot_units:
        raise InputError(
            f"quantity must be a multiple of the lot, {text(instrument.lot_units)}, was {text(order.quantity)}"
        )
    if order.quantity < (least := minimum_order_units(order.terms, order.mid)):
        minima = f"{decimal_text(instrument.minimum_quantity)} {instrument.quantity}"
        minima += f" and {decimal_text(instrument.minimum_notional)} {instrument.currency}"
        raise InputError(
            f"quantity must be at least {text(least)}, since the minima are {minima}, was {text(order.quantity)}"
        )


@lru_cache(4096)
def limit_units(limit: float, terms: str) -> int:
    """Return the largest number of units that a natural quantity allows.

    Examples
    --------
    >>> limit_units(0.3, '{"unit":"0.1"}'), limit_units(100_000, "")
    (3, 100000)
    """
    return min(int(valid_decimal("limit", limit) // instrument_from_terms("", terms).unit), LARGEST_QUANTITY)


def terms_refusal(state: TradingState, order: ParentOrder) -> str:
    """Return why the amounts of an order cannot be added to the amounts in the state; empty if they can."""
    instrument = order.instrument
    if state.currency not in ("", instrument.currency):
        found = f"{state.currency}, those of {order.symbol} in {instrument.currency}"
        return f"amounts of this log are in {found}: use another log"
    use = state.symbols.get(order.symbol)
    if use is None or use.terms == order.terms:
        return ""
    before = instrument_from_terms(order.symbol, use.terms)
    if before.unit == instrument.unit and amount_scale(use.terms)[:2] == order.scale[:2]:
        return ""
    old, new = (
        ", ".join(f"{name} {decimal_text(getattr(one, name))}" for name in ("unit", "tick", "multiplier"))
        for one in (before, instrument)
    )
    return f"{order.symbol} has {old} in this log, and now {new}: use another log, or another symbol"


def _price_text(price: int) -> str:
    """Return a price as text."""
    return decimal_text(natural_amount(price), "")


def _money_text(nanos: int) -> str:
    """Return an amount in 1e-9 of a currency as text."""
    return f"{nanos / NANO:,.2f}"


def _count_text(count: int) -> str:
    return f"{count:,}"


class Limits(Record, frozen=True):
    """Limits of the engine. Money is in 1e-9 of the currency, times are in nanoseconds.

    Attributes
    ----------
    order_quantity, order_notional
        Maximum natural quantity and maximum notional of a single order.
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
        Maximum age of a quote at the order's receipt (older quotes are left out), and maximum time of the order in
        the router's queue.
    stale_quotes
        Orders in a row refused for old quotes; more halts trading.
    clock_jump
        Change of the wall clock against the monotonic clock; more halts trading.
    slow_write
        Time until an entry of the log is durable; more halts trading.
    """

    order_quantity: float = 1_000_000
    order_notional: int = 10_000_000 * NANO
    symbol_quantity: float = 10_000_000
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
        """Return the worst limit price of a child, given the price of the arrival mid.

        Examples
        --------
        >>> Limits(collar=100).worst_price(10 * NANO, 1) / NANO, Limits(collar=100).worst_price(10 * NANO, -1) / NANO
        (10.1, 9.9)
        """
        return mid + sign * (mid * self.collar // 10_000)

    def usable_quotes(
        self, order: ParentOrder, received: int, now: int, down: Mapping[str, str]
    ) -> tuple[tuple[VenueQuote, ...], str]:
        """Return the quotes of an order that may be used, and the reasons against the others; empty if there are none.

        Quotes that were too old at the order's receipt, are more than `clock_jump` ahead of ``now``, or belong to
        places that are ``down`` must not be used.
        """
        wrong: list[str] = []
        for quote in order.quotes:
            if quote.venue in down:
                wrong.append(f"{quote.venue} is down: {down[quote.venue]}")
            elif (age := received - quote.at) > self.quote_age:
                wrong.append(
                    f"quotes must be at most {self.quote_age / NANO:g} s old, was {age / NANO:g} s at {quote.venue}"
                )
            elif (ahead := quote.at - now) > self.clock_jump:
                wrong.append(f"quotes must not be from the future, was {ahead / NANO:g} s ahead at {quote.venue}")
        if not wrong:
            return order.quotes, ""
        kept = [one for one in order.quotes if one.venue not in down and received - one.at <= self.quote_age]
        return tuple([one for one in kept if one.at - now <= self.clock_jump]), "; ".join(wrong)

    def order_refusal(self, state: TradingState, order: ParentOrder, now: int) -> str:
        """Return why an order is refused; empty if it is accepted."""
        if state.halted:
            return f"trading is halted: {state.halted}"
        if refusal := terms_refusal(state, order):
            return refusal
        quantity, amount, terms, nanos = order.quantity, order.quantity * order.mid, order.terms, order.scale.nanos
        notional = nanos(amount)
        use = state.symbols.get(order.symbol)
        quantity_in_use, notional_in_use = (use.quantity, use.notional) if use else (0, 0)
        for what, value, most, text in (
            ("quantity", quantity, limit_units(self.order_quantity, terms), order.instrument.quantity_text),
            ("notional", notional, self.order_notional, _money_text),
            (
                "quantity of open orders in {}",
                quantity_in_use + quantity,
                limit_units(self.symbol_quantity, terms),
                order.instrument.quantity_text,
            ),
            ("notional of open orders in {}", nanos(notional_in_use + amount), self.symbol_notional, _money_text),
            ("orders of the day", state.day.orders + 1, self.day_orders, _count_text),
            ("notional of the day", state.day.notional + notional, self.day_notional, _money_text),
            ("orders that are not settled", len(state.unsettled) + 1, 2 * self.unsettled, _count_text),
        ):
            if value > most:
                currency = f" {order.instrument.currency}" if text is _money_text else ""
                found = f"at most {text(most)}{currency}, was {text(value)}{currency}"
                return f"{what.format(order.symbol)} must be {found}"
        if order.deadline <= now:
            return "deadline must be in the future, was in the past"
        return ""

    def children_refusal(
        self, state: TradingState, order: ParentOrder, mid: int, children: Iterable[ChildOrder], free: int
    ) -> str:
        """Return why children may not be sent; empty if they may.

        ``mid`` is the amount of one unit at the arrival mid, ``free`` the quantity that children may hold together.
        """
        asked = 0
        opened: dict[str, int] = {}
        worst = self.worst_price(mid // order.scale.unit, order.sign)
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
                price = "none" if child.limit is None else _price_text(child.limit)
                return f"limit of a child must be no worse than {_price_text(worst)}, was {price}"
        if asked > free:
            text = order.instrument.quantity_text
            return f"children must hold at most {text(free)}, was {text(asked)}"
        for place, count in opened.items():
            use = state.venues.get(place)
            if (total := count + (use.open if use else 0)) > self.venue_open:
                return f"open children at {place} must be at most {self.venue_open}, was {total}"
        return ""

    def automatic_halt(self, state: TradingState) -> str:
        """Return why trading must halt; empty if it need not."""
        if state.day.loss > self.day_loss:
            return (
                f"the day's cost of {_money_text(state.day.loss)} {state.currency} exceeds {_money_text(self.day_loss)}"
            )
        if state.day.rejects > self.day_rejects:
            return f"{state.day.rejects} children were rejected today, more than {self.day_rejects}"
        for name, use in state.venues.items():
            if use.rejects_in_a_row > self.rejects_in_a_row:
                return f"{name} rejected {use.rejects_in_a_row} children in a row, more than {self.rejects_in_a_row}"
        if len(state.unknown) > self.unknown:
            return f"{len(state.unknown)} children are unknown, more than {self.unknown}"
        return ""
