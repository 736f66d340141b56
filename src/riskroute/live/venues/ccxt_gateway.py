"""An exchange of ccxt as a lit place: immediate and resting limit orders, looked up by the client's id.

No order is ever sent twice. After a time-out or another network error the order may have arrived, unless the exchange
refused the request as one too many: it is looked up until the exchange shows it, or has not shown it in two look-ups
after the time in which a request can arrive. Fills are the exchange's trades, with fees in the currency charged.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from riskroute.core.errors import InputError, StateError
from riskroute.core.instrument import instrument_terms
from riskroute.live.state.amounts import NANO, amount_scale
from riskroute.live.state.execution_reports import ExecutionReport, ReportKind
from riskroute.live.state.orders import ChildOrder
from riskroute.live.venues.ccxt_session import LOGGER, CcxtSession, exact_number, whole_units
from riskroute.live.venues.gateway import GatewaySink, OpenOrder, VenueAccount, VenueTerms, wire_id

_ENDS: dict[str, ReportKind] = {  # kinds of the last report, by ccxt's status
    "canceled": "cancelled",
    "closed": "cancelled",
    "expired": "expired",
    "rejected": "rejected",
}


@dataclass(eq=False)
class _Child:
    """A child order at the exchange; times are nanoseconds of the clock."""

    order: ChildOrder
    wire: str
    theirs: str  # symbol of the exchange
    since: int  # when its request was last under way
    venue_id: str = ""
    filled: int = 0  # reported units
    done: bool = False
    busy: bool = False  # a coroutine is finding out about it, and will report
    missed: int = 0  # look-ups after the horizon that did not find it


class CcxtGateway:
    """A gateway to one account at an exchange; all work is done in the session's thread."""

    poll_seconds = 1.0  # between looks at resting orders
    longest_backoff = 30.0  # longest wait in seconds between attempts to reach an exchange that is down
    most_ended = 20_000  # ended children kept, to recognise their late fills
    overlap = 60_000  # milliseconds of trades read again: exchanges list trades late

    def __init__(self, session: CcxtSession, clock: Callable[[], int] = time.time_ns) -> None:
        dialect = session.dialect
        self.place = self.session = session.place
        self._ccxt, self._dialect, self._clock = session, dialect, clock
        self._sink: GatewaySink | None = None
        self._children: dict[str, _Child] = {}  # by wire id
        self._by_venue_id: dict[str, _Child] = {}
        self._others: set[str] = set()  # ids at the exchange of orders that are no children of this process
        self._is_up = False
        self._began = self._exec_ids = clock()
        self._traded_until: dict[str, int] = {}  # by symbol, time of the newest trade read, in milliseconds
        self._rates: dict[str, tuple[float, Decimal]] = {}  # by pair of currencies: when it was read, and its price
        self._turn: asyncio.Lock | None = None

    # the gateway: these methods only check and hand over to the session's thread

    def connect(self, sink: GatewaySink) -> None:
        self._sink = sink
        self._ccxt.start()
        self._ccxt.spawn(self._reach, "not connected yet")
        self._ccxt.spawn(self._poll)

    def terms(self, symbol: str) -> VenueTerms | None:
        return self._ccxt.terms(symbol)

    def send(self, child: ChildOrder) -> None:
        terms = self.terms(child.symbol)
        if terms is None:
            raise StateError(self._ccxt.refused.get(child.symbol, f"{self.place} does not trade {child.symbol}"))
        if child.limit is None or child.kind in ("dark", "dark_rest"):
            raise InputError(f"{self.place} takes limit orders only, got one of kind {child.kind}")
        quantity, price = self._natural(child)
        if quantity % terms.lot or price % terms.tick or price <= 0:
            raise InputError(
                f"expected multiples of {terms.lot} at multiples of {terms.tick}, got {quantity} at {price}"
            )
        self._ccxt.spawn(self._create, child, f"{quantity:f}", f"{price:f}")

    def cancel(self, child: ChildOrder) -> None:
        self._ccxt.spawn(self._cancel, child)

    def query(self, child: ChildOrder) -> None:
        self._ccxt.spawn(self._find_out, child)

    def request_account(self) -> None:
        self._ccxt.spawn(self._account)

    def close(self) -> None:
        self._ccxt.close()
        self._sink = None

    # everything below runs in the session's thread

    async def _call(self, method: str, *arguments: Any) -> Any:
        """Call a method of ccxt; where nonces must increase, wait for the call before."""
        function = getattr(self._ccxt.client, method)
        if not self._dialect.serial:
            return await function(*arguments)
        self._turn = self._turn or asyncio.Lock()
        async with self._turn:
            return await function(*arguments)

    async def _read(self, method: str, *arguments: Any) -> Any:
        """Call a method that changes nothing, again after errors of the network."""
        for attempt in range(3):
            try:
                return await self._call(method, *arguments)
            except _ccxt_errors().OperationFailed:
                if attempt == 2:
                    raise
                await asyncio.sleep(0.2 * 2**attempt)

    # whether the exchange can be reached

    async def _reach(self, reason: str) -> None:
        """Connect, or connect again, until the exchange answers a request that needs the keys."""
        self._is_up, wait = False, 1.0
        if self._sink is not None:
            self._sink.down(reason)
        while self._sink is not None:
            try:
                await self._ccxt.load_markets()
                await self._call("fetch_balance")
            except Exception as error:
                reason = self._ccxt.told(error)
                LOGGER.warning("venue %s cannot be reached: %s", self.place, reason)
                if self._sink is not None:
                    self._sink.down(reason)
                await asyncio.sleep(wait)
                wait = min(2 * wait, self.longest_backoff)
                continue
            for refusal in self._ccxt.refused.values():
                LOGGER.warning("%s", refusal)
            self._is_up = True
            if self._sink is not None:
                self._sink.up()
            return

    def _lost(self, error: BaseException) -> None:
        """Take the place down after network errors, and try to reach it again."""
        if self._is_up:
            self._is_up = False
            self._ccxt.spawn_here(self._reach, self._ccxt.told(error))

    # orders

    def _natural(self, child: ChildOrder) -> tuple[Decimal, Decimal]:
        """Return quantity and limit price as decimal numbers."""
        assert child.limit is not None
        return self._ccxt.instruments[child.symbol].natural(child.quantity), Decimal(child.limit) / NANO

    def _known(self, child: ChildOrder) -> _Child:
        """Return the record of a child; a new one counts as sent at the start, since an earlier process may have."""
        wire = wire_id(child.id)
        if wire not in self._children:
            if len(self._children) >= 2 * self.most_ended:
                self._forget()
            self._children[wire] = _Child(child, wire, self._ccxt.symbols[child.symbol], self._began)
        return self._children[wire]

    def _forget(self) -> None:
        """Forget the oldest ended children."""
        ended = [name for name, there in self._children.items() if there.done]
        for name in ended[: -self.most_ended]:
            self._by_venue_id.pop(self._children.pop(name).venue_id, None)

    async def _create(self, child: ChildOrder, quantity: str, price: str) -> None:
        """Send an order once, and report what becomes of it."""
        errors = _ccxt_errors()
        there, dialect = self._known(child), self._dialect
        parameters = {dialect.create: there.wire}
        if child.immediate:
            parameters["timeInForce"] = "IOC"
        if dialect.deadline:
            until = dt.datetime.fromtimestamp(self._clock() / NANO + dialect.deadline, dt.UTC)
            parameters["deadline"] = until.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        there.busy = True
        try:
            order = await self._call("create_order", there.theirs, "limit", child.side, quantity, price, parameters)
        except errors.DuplicateOrderId:
            order = None
        except errors.DDoSProtection as error:  # too many requests: exchanges count them before they read them
            there.busy = False
            self._end(there, "not_known", 0, self._ccxt.told(error))
            return
        except errors.OrderNotFillable as error:
            there.busy = False
            self._end(there, "cancelled", 0, self._ccxt.told(error))
            return
        except errors.ExchangeError as error:
            there.busy = False
            self._end(there, "rejected", 0, self._ccxt.told(error))
            if isinstance(error, errors.AuthenticationError):
                self._lost(error)
            return
        except Exception as error:  # a time-out, a lost connection, an answer that cannot be read: it may be there
            LOGGER.warning("venue %s: the answer to %s was lost: %s", self.place, child.id, self._ccxt.told(error))
            order = None
        there.since = self._clock()
        self._note_id(there, order)
        await self._follow(there, order)

    async def _cancel(self, child: ChildOrder) -> None:
        """Cancel an order by the exchange's own id, and report what became of it."""
        there = self._known(child)
        try:
            if there.venue_id or await self._find(there) is not None:
                await self._call("cancel_order", there.venue_id, there.theirs)
        except _ccxt_errors().OrderNotFound:
            pass  # it has ended
        except Exception as error:
            LOGGER.warning("venue %s: a cancel of %s failed: %s", self.place, child.id, self._ccxt.told(error))
        await self._find_out(child)

    async def _find_out(self, child: ChildOrder) -> None:
        """Look a child up and report it, unless another coroutine is about to."""
        there = self._known(child)
        if not there.busy:
            there.busy = True
            await self._follow(there, None)

    async def _follow(self, there: _Child, order: Any) -> None:
        """Report an order. Look up an immediate one until it has ended, a missing one until it cannot arrive."""
        errors = _ccxt_errors()
        failures = looks = 0
        try:
            while True:
                try:
                    if order is None or order.get("status") is None or order.get("filled") is None:
                        order = await self._find(there)
                    if order is not None:
                        await self._report(there, order)
                        looks += 1
                        if there.done or not there.order.immediate or looks > 10:
                            return
                        order = None
                        await asyncio.sleep(min(0.02 * 2**looks, 2.0))
                    elif await self._is_gone(there):
                        return
                except errors.OperationFailed as error:  # the network, not the request
                    failures, order = failures + 1, None
                    if failures >= 3:
                        self._lost(error)
                    await asyncio.sleep(min(0.05 * 2**failures, 5.0))
        finally:
            there.busy = False

    async def _is_gone(self, there: _Child) -> bool:
        """Wait before the next look-up of an order that was not found; return whether it can no longer arrive."""
        left = there.since + int(self._dialect.horizon * NANO) - self._clock()
        if left > 0:
            await asyncio.sleep(min(left / NANO, 2.0))
            return False
        there.missed += 1
        if there.missed < 2:
            await asyncio.sleep(0.5)
            return False
        self._end(there, "not_known", 0, f"not found {self._dialect.horizon:g} s after it was sent")
        return True

    async def _find(self, there: _Child) -> Any:
        """Return an order as ccxt has it; None if the exchange does not have it."""
        errors, dialect = _ccxt_errors(), self._dialect
        try:
            if there.venue_id:
                order = await self._call("fetch_order", there.venue_id, there.theirs, dict(dialect.parameters))
            elif dialect.look_up:
                parameters = {dialect.look_up: there.wire, **dialect.parameters}
                order = await self._call("fetch_order", "", there.theirs, parameters)
            else:
                order = await self._search(there)
        except errors.OrderNotFound:
            return None
        self._note_id(there, order)
        return order

    def _note_id(self, there: _Child, order: Any) -> None:
        """Keep the exchange's own id of an order."""
        if order is not None and order.get("id"):
            there.venue_id = str(order["id"])
            self._by_venue_id[there.venue_id] = there

    async def _search(self, there: _Child, most: int = 100) -> Any:
        """Return an order from the exchange's lists; raise `OperationFailed` if they do not reach back far enough."""
        errors, dialect = _ccxt_errors(), self._dialect
        for method in dialect.lists:
            if dialect.list_by:
                orders = await self._call(method, there.theirs, None, None, {dialect.list_by: there.wire})
            else:
                orders = await self._call(method, there.theirs, None, most)
            for order in orders:
                if self._wire_of(order) == there.wire:
                    return order
            oldest = min([order["timestamp"] or 0 for order in orders], default=0)
            reaches = oldest * 1_000_000 <= there.since - int(dialect.horizon * NANO)
            if not (dialect.list_by or len(orders) < most or reaches):
                raise errors.OperationFailed(f"{there.wire} is not among the newest {most} orders")
        return None

    def _wire_of(self, order: Any) -> str:
        return str(order.get("clientOrderId") or "").removeprefix(self._dialect.prefix)

    # reports

    async def _report(self, there: _Child, order: Any) -> None:
        """Report the fills of an order, and then its state."""
        child, instrument = there.order, self._ccxt.instruments[there.order.symbol]
        filled = whole_units(order["filled"], instrument)
        reports = await self._fills(there, order, filled) if filled else []
        there.filled = max(there.filled, sum(one.quantity for one in reports))
        status = str(order["status"])
        there.done = status in _ENDS
        leaves = 0 if there.done else child.quantity - filled
        kind = _ENDS.get(status, "acknowledged")
        if kind == "rejected" and filled:
            kind = "cancelled"
        reports.append(self._new_report(there, kind, cum=filled, leaves=leaves))
        self._say(reports)

    async def _fills(self, there: _Child, order: Any, filled: int) -> list[ExecutionReport]:
        """Return reports of the trades of an order; wait a little for trades that the exchange does not list yet."""
        instrument = self._ccxt.instruments[there.order.symbol]
        trades = [trade for trade in order.get("trades") or [] if trade.get("id") and trade.get("amount")]
        for attempt in range(5):
            if sum(whole_units(trade["amount"], instrument) for trade in trades) >= filled:
                break
            if attempt:
                await asyncio.sleep(0.05 * 2**attempt)
            trades = await self._trades(there, order)
        return await self._fill_reports(there, trades)

    async def _trades(self, there: _Child, order: Any) -> list[Any]:
        """Return the trades of an order."""
        client, venue_id = self._ccxt.client, there.venue_id
        listed = client.has.get("fetchOrderTrades")
        if listed is True:
            return list(await self._call("fetch_order_trades", venue_id, there.theirs))
        if listed == "emulated" and order.get("trades"):  # from the ids that the order has
            ids = {"trades": order["trades"]}
            return list(await self._call("fetch_order_trades", venue_id, there.theirs, None, None, ids))
        began = order.get("timestamp") or there.since // 1_000_000
        trades = await self._call("fetch_my_trades", there.theirs, began - self.overlap)
        return [trade for trade in trades if str(trade["order"]) == venue_id]

    async def _fill_reports(self, there: _Child, trades: Sequence[Any]) -> list[ExecutionReport]:
        """Return reports of trades, whose exec ids are the exchange's: a trade that is read twice is booked once."""
        child, instrument, cum = there.order, self._ccxt.instruments[there.order.symbol], 0
        reports = []
        for trade in sorted(trades, key=lambda one: (one["timestamp"] or 0, str(one["id"]))):
            units = whole_units(trade["amount"], instrument)
            price = exact_number(trade["price"])
            cum += units
            more = await self._fee(child, trade, price)
            reports.append(
                ExecutionReport(
                    venue=self.place,
                    day="",
                    exec_id=f"{there.theirs}-{trade['id']}",
                    child=child.id,
                    kind="filled",
                    at=(trade["timestamp"] or self._clock() // 1_000_000) * 1_000_000,
                    cum=cum,
                    leaves=max(child.quantity - cum, 0),
                    quantity=units,
                    price=round(price * NANO),
                    raw=json.dumps(trade.get("info"), default=str).encode(),
                    **more,
                )
            )
        return reports

    async def _fee(self, child: ChildOrder, trade: Any, price: Decimal) -> dict[str, Any]:
        """Return the fee of a trade: as an amount, and as it was charged if that was in another currency."""
        instrument = self._ccxt.instruments[child.symbol]
        one = amount_scale(instrument_terms(instrument)).one
        charged: dict[str, Decimal] = {}
        for fee in trade.get("fees") or [trade.get("fee") or {}]:
            if fee.get("cost"):
                charged[fee["currency"]] = charged.get(fee["currency"], Decimal(0)) + exact_number(fee["cost"])
        if not charged:
            return {}
        ((currency, cost),) = charged.items()
        if currency == instrument.currency:
            return {"fee": round(cost * one)}
        terms = self._ccxt.terms(child.symbol)
        rate = (
            price if terms is not None and currency == terms.base else await self._rate(currency, instrument.currency)
        )
        return {"fee": round(cost * rate * one), "fee_currency": currency, "fee_amount": cost}

    async def _rate(self, currency: str, into: str) -> Decimal:
        """Return the last price of a currency that fees are charged in, read at most once a minute."""
        pair, now = f"{currency}/{into}", time.monotonic()
        at, rate = self._rates.get(pair, (-60.0, Decimal(0)))
        if now - at >= 60:
            try:
                rate = exact_number((await self._call("fetch_ticker", pair))["last"])
            except Exception as error:
                LOGGER.warning(
                    "venue %s: no price of %s, in which fees are charged: %s", self.place, pair, self._ccxt.told(error)
                )
            self._rates[pair] = now, rate
        return rate

    def _new_report(self, there: _Child, kind: ReportKind, **more: Any) -> ExecutionReport:
        self._exec_ids += 1  # from the clock: exec ids of an earlier run are not reused
        return ExecutionReport(
            venue=self.place,
            day="",
            exec_id=f"r{self._exec_ids}",
            child=there.order.id,
            kind=kind,
            at=self._clock(),
            **more,
        )

    def _end(self, there: _Child, kind: ReportKind, cum: int, text: str) -> None:
        there.done = True
        self._say([self._new_report(there, kind, cum=cum, text=text)])

    def _say(self, reports: Sequence[ExecutionReport]) -> None:
        if self._sink is not None and reports:
            self._sink(*reports)

    # resting orders and the account

    async def _poll(self) -> None:
        """Report changes of resting orders; look for them every `poll_seconds`."""
        while True:
            await asyncio.sleep(self.poll_seconds)
            if not self._is_up:
                continue
            resting = [one for one in self._children.values() if not (one.done or one.busy or one.order.immediate)]
            for theirs in {one.theirs for one in resting}:
                try:
                    orders = await self._call("fetch_open_orders", theirs)
                except Exception as error:
                    LOGGER.warning("venue %s: %s", self.place, self._ccxt.told(error))
                    continue
                shown = {self._wire_of(order): order for order in orders}
                for there in resting:
                    if there.theirs != theirs or there.busy or there.done:
                        continue
                    order = shown.get(there.wire)
                    instrument = self._ccxt.instruments[there.order.symbol]
                    if order is None or whole_units(order["filled"], instrument) > there.filled:
                        self._ccxt.spawn_here(self._find_out, there.order)

    async def _account(self) -> None:
        """Report open orders and balances, and before them all fills that these may include."""
        at = self._clock()
        balances = await self._read("fetch_balance")
        orders = [order for theirs in self._ccxt.ours for order in await self._read("fetch_open_orders", theirs)]
        for theirs in self._ccxt.ours:
            since = self._traded_until.get(theirs, self._began // 1_000_000)
            trades = await self._read("fetch_my_trades", theirs, since - self.overlap)
            mine: dict[str, list[Any]] = {}
            for trade in trades:
                mine.setdefault(str(trade["order"]), []).append(trade)
            for venue_id, found in mine.items():
                if (there := await self._recognised(venue_id, theirs)) is not None:
                    self._say(await self._fill_reports(there, found))
            self._traded_until[theirs] = max([since, *[trade["timestamp"] or 0 for trade in trades]])
        totals = {name: exact_number(total) for name, total in balances["total"].items()}
        if self._sink is not None:
            opened = tuple(self._open_order(order) for order in orders)
            self._sink.account(VenueAccount(at=at, open_orders=opened, balances=totals))

    async def _recognised(self, venue_id: str, theirs: str) -> _Child | None:
        """Return the child that the exchange knows by an id, even if the answer to its order was lost; else None.

        None stands for an order of somebody else, or for a child that ended in an earlier process: all children that
        were open at the end of that process have been queried.
        """
        if (there := self._by_venue_id.get(venue_id)) is None and venue_id not in self._others:
            order = await self._read("fetch_order", venue_id, theirs, dict(self._dialect.parameters))
            if (there := self._children.get(self._wire_of(order))) is None:
                if len(self._others) >= self.most_ended:
                    self._others.clear()
                self._others.add(venue_id)
            else:
                self._note_id(there, order)
        return there

    def _open_order(self, order: Any) -> OpenOrder:
        symbol = self._ccxt.ours[order["symbol"]]
        return OpenOrder(
            wire_id=self._wire_of(order),
            symbol=symbol,
            side=str(order["side"]),
            leaves=whole_units(order["remaining"], self._ccxt.instruments[symbol]),
            venue_id=str(order["id"]),
        )


def _ccxt_errors() -> Any:
    """Return the module ccxt, which has the error classes; `CcxtSession` has imported it before."""
    import ccxt

    return ccxt
