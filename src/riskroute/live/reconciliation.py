"""Reconciliation: what venues say about our open orders and balances, compared with the log.

Fills are compared through balances: what a venue holds for us beyond the positions booked there changes only if
somebody else trades or moves money, or if a fill was missed. An order of ours that is open at the venue, but unknown or
done in the log, halts trading; other differences are logged and shown.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal

from riskroute.core.instrument import instrument_from_terms, natural_quantity
from riskroute.core.text import decimal_text, shown
from riskroute.live.ledger import Ledger, LedgerTimers, Task
from riskroute.live.places import Places
from riskroute.live.state.amounts import NANO, amount_scale
from riskroute.live.state.effects import QueryEffect
from riskroute.live.state.events import ReconciledEvent
from riskroute.live.state.orders import ChildOrder
from riskroute.live.state.trading_state import VenueState
from riskroute.live.venues.gateway import VenueAccount


class Reconciliation:
    """Compares each place with the log when it comes up and every minute; call with the ledger's lock held."""

    every = 60 * NANO
    again = NANO  # a difference counts once two accounts this far apart show it, since reports and lists may be late

    def __init__(
        self, places: Places, ledger: Ledger, timers: LedgerTimers, post: Callable[[list[Task]], None]
    ) -> None:
        self._places, self._ledger, self._timers, self._post = places, ledger, timers, post
        self._asked: dict[str, int] = {}
        self._moved: dict[str, dict[str, Decimal]] = {}  # by place, changes and first offsets seen once
        self._late: dict[str, set[str]] = {}  # by place, children that are done and were open in the last account
        self.checked: dict[str, int] = {}  # by place, the time of the last account
        self.differences: dict[str, list[str]] = {}  # by place, differences in our orders, from the last account

    def begin(self) -> None:
        """Begin the regular requests."""
        now = self._ledger.clock()
        for place in self._places.gateways:
            self._timers.add(now + self.every, "account", place)

    def on_timer(self, place: str, once: bool) -> None:
        """Request the account of a place, and again after a minute unless this is an additional request."""
        now, places = self._ledger.clock(), self._places
        if not once:
            self._timers.add(now + self.every, "account", place)
        if place not in places.connected:
            return
        budget = places.budgets.get(places.session(place))
        if budget is not None and not budget.take(self._ledger.monotonic(), urgent=True):
            self._timers.add(now + self.again, "account", place, 1)
            return
        self._asked[place] = now
        with suppress(Exception):  # a gateway may raise anything; it is asked again in a minute
            places.gateways[place].request_account()

    def take(self, place: str, account: VenueAccount) -> None:
        """Compare an account with the log; all reports before it must be booked."""
        self.checked[place] = self._ledger.clock()
        self.differences[place] = self._compare_orders(place, account)
        if account.balances is not None:
            self._compare_balances(place, account.balances)

    def _compare_orders(self, place: str, account: VenueAccount) -> list[str]:
        ledger, state, asked = self._ledger, self._ledger.state, self._asked.get(place, 0)
        found, there, late, wrong = list[str](), set[str](), set[str](), list[ChildOrder]()
        for one in account.open_orders:
            name = self._places.child_of(one.wire_id)
            if name is None:
                self._places.note_foreign(place, one.wire_id or one.venue_id)
            elif (child := state.children.get(name)) is None:
                found.append(f"{place} has our order {shown(name)}, which the log does not know")
            else:
                there.add(name)
                if child.done and child.done_at < asked:
                    late.add(name)
                    if name in self._late.get(place, ()):
                        found.append(f"{place} has {name}, which is done in the log: it is cancelled")
                        wrong.append(child.order)
        missing = [
            QueryEffect(child.order)
            for name, child in state.children.items()
            if child.order.place == place
            and child.status in ("acknowledged", "partly_filled")
            and not child.order.immediate
            and child.final < 0
            and child.sent_at < asked
            and name not in there
        ]
        if late and not wrong:
            self._timers.add(ledger.clock() + self.again, "account", place, 1)
        self._late[place] = late
        if missing:  # it has ended, and the report is missing or under way
            self._post(list(missing))
        for order in wrong:
            with suppress(Exception):  # a gateway may raise anything; the next account shows the order again
                self._places.gateways[place].cancel(order)
        if found:
            ledger.halt(found[0], "book")
        return found

    def _compare_balances(self, place: str, balances: dict[str, Decimal]) -> None:
        state, now = self._ledger.state, self._ledger.clock()
        booked, least = self._booked(place)
        offsets = {currency: balances.get(currency, Decimal(0)) - amount for currency, amount in booked.items()}
        known = state.venues.get(place, VenueState()).offsets
        moved = {name: offset - known[name] for name, offset in offsets.items() if name in known}
        moved = {name: change for name, change in moved.items() if abs(change) >= least[name]}
        # The first offset of a currency counts once it is seen twice, too: fills may be under way.
        seen = moved | {name: offset for name, offset in offsets.items() if name not in known}
        last = self._moved.get(place, {})
        same = seen.keys() == last.keys() and all(abs(seen[name] - last[name]) < least[name] for name in seen)
        if seen and not same:
            self._moved[place] = seen
            self._timers.add(now + self.again, "account", place, 1)
        elif seen:
            self._moved.pop(place, None)
            text = ", ".join(f"{decimal_text(change)} {name}" for name, change in moved.items())
            self._ledger.record(ReconciledEvent(at=now, place=place, offsets=known | offsets, difference=text))
        else:
            self._moved.pop(place, None)

    def _booked(self, place: str) -> tuple[dict[str, Decimal], dict[str, Decimal]]:
        """Return what the positions at a place change in its balances, and the least change that counts."""
        amounts: dict[str, Decimal] = {}
        least: dict[str, Decimal] = {}

        def add(currency: str, amount: Decimal, step: Decimal) -> None:
            if currency:
                amounts[currency] = amounts.get(currency, Decimal(0)) + amount
                least[currency] = max(step, least.get(currency, step))

        for symbol, position in self._ledger.state.venues.get(place, VenueState()).positions.items():
            if (terms := self._places.gateways[place].terms(symbol)) is None:
                continue
            instrument, natural = instrument_from_terms(symbol, position.terms), amount_scale(position.terms).natural
            add(terms.base, natural_quantity(instrument, position.shares), terms.lot)
            money = natural(position.cash) - natural(position.fees - position.converted)
            add(terms.quote, money, terms.lot * terms.tick)
            for currency, charged in position.charged.items():
                add(currency, -charged, least.get(currency, terms.lot * terms.tick))
        return amounts, least
