"""The live router as a service: log, router, venues and engine, put together from a configuration."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import msgspec

from riskroute.core.errors import HaltedError, InputError, LeaseError, OverloadedError, StateError
from riskroute.core.instrument import Instrument, instrument_terms
from riskroute.core.text import one_line_text
from riskroute.live.background import BackgroundProcess, BackgroundThread
from riskroute.live.config import LiveConfig
from riskroute.live.engine import TradingEngine, new_engine_answer
from riskroute.live.http.requests import OrderRequest, QuotesRequest, RequestParser, ShadowRequest
from riskroute.live.learner import Refit
from riskroute.live.ledger import LOGGER
from riskroute.live.limits import check_order, check_quote_limits
from riskroute.live.log.interface import Log, log_events_after
from riskroute.live.log.state_store import StateStore
from riskroute.live.market_history import MarketHistory
from riskroute.live.readiness import warm_up
from riskroute.live.shadow import ShadowComparison, compare_shadow
from riskroute.live.state.events import AcceptedEvent, SettledEvent, ShadowedEvent
from riskroute.live.state.orders import OrderDecision, ParentOrder, order_digest
from riskroute.live.state.quotes import MarketTrade, VenueQuote
from riskroute.live.state.trading_state import TradingState
from riskroute.live.venues.gateway import Gateway, QuoteSource
from riskroute.routers.registry import router_bytes

_Value = TypeVar("_Value")


class _SourceSink:
    """A sink that passes books, trades and gaps from a quote source to the service."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def put(self, symbol: str, quotes: Sequence[VenueQuote], trades: Sequence[MarketTrade] | None = None) -> None:
        try:
            self._service.put_sourced(symbol, quotes, trades)
        except Exception as error:  # a source may put anything; an invalid book counts as a gap
            for quote in quotes:
                self.gap(quote.venue, symbol, str(error))

    def gap(self, place: str, symbol: str | None, reason: str) -> None:
        self._service.drop_sourced(place, symbol, one_line_text(reason))


class Service:
    """A trading engine with its venues, market history and watch on the halt file.

    By default, the configuration states ``log`` and ``store``; with a ``log`` given, there is no default store.
    ``gateways`` replace the gateways of configured venues and pools; ``sources`` add sources of books and trades.
    """

    belief_seconds = 2.0  # between computations of the beliefs about venues, which take long
    patience = 10.0  # seconds to wait in `close` for orders in the queue; each takes milliseconds
    most_waiting = 10_000  # calls and reports in the queue; otherwise a stuck engine would let them fill memory

    def __init__(
        self,
        config: LiveConfig,
        *,
        log: Log | None = None,
        store: StateStore | None = None,
        clock: Callable[[], int] = time.time_ns,
        monotonic: Callable[[], int] = time.monotonic_ns,
        gateways: Mapping[str, Gateway] | None = None,
        sources: Sequence[QuoteSource] = (),
    ) -> None:
        self.config, self.clock = config, clock
        places = {*config.venues, *config.pools}
        if unknown := sorted({*(gateways or {})} - places):
            raise InputError(f"gateways must be of venues or pools of the configuration, had {unknown[0]!r}")
        self.history = MarketHistory(keep=config.mode == "shadow")
        self._parser = RequestParser(config, clock)
        router = config.build_router()
        self._worker: Executor | None = BackgroundProcess() if config.router.refit_every else None
        self._saver = BackgroundThread("riskroute snapshots")
        venues = config.build_venues(self.history, clock)
        used = {name: venue.gateway for name, venue in venues.items() if config.mode == "live"}
        self.sources = [*sources, *(venue.source for venue in venues.values() if venue.source is not None)]
        self.gaps: dict[tuple[str, str], str] = {}  # by place and symbol, why the book is unknown
        self.unlogged_quotes = 0  # updates that were not logged because the engine was behind
        self.engine = TradingEngine(
            config.open_log() if log is None else log,
            {**used, **(gateways or {})},
            router,
            config.limits.limits(),
            refit_every=config.router.refit_every,
            worker=self._worker,
            quotes=self.history,
            clock=clock,
            monotonic=monotonic,
            patience=config.patience_seconds,
            decision_seconds=None if config.router.decision_ms is None else config.router.decision_ms / 1000,
            store=config.open_state_store() if log is None else store,
            snapshot_every=config.log.snapshot_every,
            saver=self._saver,
            owner=f"{socket.gethostname()}:{os.getpid()}"[-64:],
            lease_seconds=config.lease_seconds,
            reopen=config.open_log if log is None else None,
            history=self.history,
            rules=config.rules(),
        )
        self.engine.on_recovered = self._show_books
        self.began = clock()
        self.clients: dict[str, Callable[[], int]] = {}  # counts of open connections and event streams
        self.started = False
        # When beliefs were computed, after how many settled orders, and the beliefs:
        self._beliefs: tuple[float, int, list[dict[str, Any]]] = (-self.belief_seconds, 0, [])
        self._watch: threading.Thread | None = None
        self._closing = threading.Event()

    # start and end

    def start(self) -> None:
        """Warm up, recover, query every venue, and start the engine's thread."""
        self._warm_up()
        self._begin()

    def stand_by(self, on_held: Callable[[StateError], None]) -> None:
        """Start as soon as no other process holds the lease; call ``on_held`` once if one does."""
        reported = False
        self._warm_up()
        while True:
            try:
                self._begin()
            except LeaseError as error:
                if not reported:
                    on_held(error)
                reported = True
                time.sleep(0.02)
            else:
                return

    def _warm_up(self) -> None:
        self.started = True
        router = self.engine.learner.router
        warm_up(self.config, router)
        if self._worker is not None:
            self._worker.submit(Refit(type(router), router_bytes(router), [], [], []))

    def _begin(self) -> None:
        self.engine.start()
        self._restore_counterfactual()
        own = [symbol for symbol in self.config.instruments if self.config.partition_of(symbol) == self.config.part[0]]
        for source in self.sources:
            source.connect(_SourceSink(self))
            source.subscribe(own)
        self.engine.serve()
        if self.config.halt_file is not None:
            self._watch = threading.Thread(target=self._watch_halt_file, name="riskroute halt file", daemon=True)
            self._watch.start()

    def _restore_counterfactual(self, rows: int = 20_000) -> None:
        """Learn the hazards of pools and queues again from the last rows of the log."""
        counterfactual = self.engine.decider.counterfactual
        accepted: dict[str, ParentOrder] = {}
        for _, event in log_events_after(self.log, max(self.log.head().seq - rows, 0)):
            if isinstance(event, AcceptedEvent):
                accepted[event.order.key] = event.order
            elif isinstance(event, SettledEvent) and event.outcome.parent in accepted:
                counterfactual.learn(accepted.pop(event.outcome.parent), event.outcome.children)
            elif isinstance(event, ShadowedEvent):
                counterfactual.learn(event.order, event.outcome.children)

    def _show_books(self, state: TradingState) -> None:
        """Restore the books of unsettled orders, on which simulated venues trade once they are connected."""
        for key in state.unsettled:
            order = state.parents[key].order
            self.history.put(order.symbol, order.quotes)

    def close(self) -> None:
        """Answer waiting orders, then stop; abandon orders, snapshots and refits that do not end in time."""
        self._closing.set()
        if self._watch is not None:
            self._watch.join(1.0)  # it takes longer only if it waits for the lock of a stuck engine
            self._watch = None
        for source in self.sources:
            with suppress(Exception):  # a source may raise anything; the engine must be closed all the same
                source.close()
        taken = threading.Event()  # calls are made in sequence: once this one is, all earlier orders are decided
        if self.engine.serving:
            self.engine.call_soon(taken.set)
        else:
            taken.set()
        try:
            if taken.wait(self.patience):
                self.engine.flush(self.patience)
            else:
                LOGGER.warning("stopped with %d calls and reports unprocessed", self.engine.queue_length - 1)
        finally:
            self.engine.close()
            self._saver.shutdown(wait=False)  # the engine has waited for the current snapshot
            if self._worker is not None:
                self._worker.shutdown()

    # requests

    def submit(self, order: OrderRequest) -> Future[OrderDecision]:
        """Submit an order to the engine's thread; the future has its decision once it is durable."""
        return self._in_engine(partial(self._accept, order, self.clock()), order.key)

    def compare(self, given: ShadowRequest) -> Future[ShadowComparison | None]:
        """Submit an order that another router has executed; the future has the comparison, None if repeated."""
        return self._in_engine(lambda _: self._compare(given))

    def take_quotes(self, quotes: QuotesRequest) -> Future[int]:
        """Submit books and trades to the engine's thread, which applies them before later orders; see `quote`."""
        return self._in_engine(lambda _: self.quote(quotes))

    def _in_engine(
        self, call: Callable[[Future[_Value]], Future[_Value] | _Value], key: str | None = None
    ) -> Future[_Value]:
        """Queue a call for the engine's thread; the call gets the future, and returns it, another one or a result."""
        answer: Future[_Value] = new_engine_answer()

        def run() -> None:
            try:
                given = call(answer)
            except Exception as error:  # the client must get an answer, whatever went wrong
                answer.set_exception(error)
            else:
                if not isinstance(given, Future):
                    answer.set_result(given)
                elif given is not answer:
                    given.add_done_callback(partial(_copy_result, answer))

        if self._closing.is_set():
            answer.set_exception(HaltedError("the service is stopping"))
        elif (waiting := self.engine.queue_length) >= self.most_waiting:
            answer.set_exception(OverloadedError(f"the router is overloaded: {waiting:,} requests wait; try again"))
        else:
            self.engine.call_soon(run, key)
        return answer

    def _accept(self, given: OrderRequest, received: int, answer: Future[OrderDecision]) -> Future[OrderDecision]:
        if self.config.mode == "shadow":
            raise StateError("mode must be live for orders, was shadow: send executed orders to /shadow/orders")
        engine, now = self.engine, self.clock()
        order = self._parser.order(given)
        digest, brought = order_digest(order), order.quotes
        with engine.lock:
            # A repeated order gets its first answer, even if its quotes are too old by now.
            if (known := engine.known(order.key, digest)) is not None:
                return known
            if not brought:
                order = msgspec.structs.replace(order, quotes=self.history(order.symbol) or ())
            check_order(order)
            self._parser.check_deadline(order, now)
            if engine.state.halted:
                raise HaltedError(f"trading is halted: {engine.state.halted}")
            if not engine.ready:
                raise HaltedError(f"the router is not ready: {engine.not_ready}")
            engine.accept(self._with_outflows(order, now), digest, answer, received)
        if brought:
            self.history.put(order.symbol, brought)
        return answer

    def _with_outflows(self, order: ParentOrder, now: int) -> ParentOrder:
        """Add recent queue outflows to the features, as in backtests; the client's own features take precedence."""
        flows = self.history.outflows(order.symbol, [quote.venue for quote in order.quotes], order.sign, now)
        return msgspec.structs.replace(order, features=flows | order.features) if flows else order

    def _compare(self, given: ShadowRequest) -> Future[ShadowComparison | None]:
        if self.config.mode == "live":
            raise StateError("mode must be shadow for orders of another router, was live")
        order = msgspec.structs.replace(self._parser.order(given.order), received=given.arrived)
        order = self._with_outflows(order, order.received)
        self._parser.check_executed(order, self.clock())
        return compare_shadow(self.engine, order, given.children)

    def quote(self, quotes: QuotesRequest) -> int:
        """Apply books and trades of a symbol; return the number of venues with books."""
        instrument = self._parser.instrument(quotes.symbol)
        books = self._parser.quotes(instrument, quotes.quotes)
        check_quote_limits(books)
        if not books and quotes.trades is None:
            raise InputError("expected quotes of at least one venue or trades, got neither")
        now, ahead = self.clock(), self.engine.limits.clock_jump
        for book in books:
            if book.at - now > ahead:
                raise InputError(f"the book of {book.venue} is {(book.at - now) / 1e9:g} s in the future: check clocks")
        trades = () if quotes.trades is None else self._parser.trades(instrument, quotes.trades, now + ahead)
        if quotes.trades is not None:
            newest = max([book.at for book in books] + [trade.at for trade in trades], default=now)
            trades = self.history.trade(quotes.symbol, trades, min(newest, now))
        self.history.put(quotes.symbol, books)
        if self.config.log.quotes:
            self.engine.record_quotes(quotes.symbol, books, trades, instrument_terms(instrument))
        return len(books)

    def put_sourced(self, symbol: str, quotes: Sequence[VenueQuote], trades: Sequence[MarketTrade] | None) -> None:
        """Apply books and trades from a source, in its own thread; log them if the configuration says so."""
        instrument = self._parser.instrument(symbol)
        books = self._parser.sourced(instrument, quotes, trades or ())
        seen: tuple[MarketTrade, ...] = ()
        if trades is not None:
            seen = self.history.trade(symbol, trades, self.clock())
        self.history.put(symbol, books)
        if self.gaps:
            for book in books:
                self.gaps.pop((book.venue, symbol), None)
        self._log_sourced(symbol, instrument, books, seen)

    def drop_sourced(self, place: str, symbol: str | None, reason: str) -> None:
        """Empty the book of a symbol (None: all books) at a place whose source has a gap."""
        now = self.clock()
        for one in self.history.drop(place, symbol, now):
            self.gaps[place, one] = reason
            self._log_sourced(one, self.config.instruments[one], (VenueQuote(venue=place, at=now),), ())

    def _log_sourced(
        self, symbol: str, instrument: Instrument, books: tuple[VenueQuote, ...], trades: tuple[MarketTrade, ...]
    ) -> None:
        if not self.config.log.source_quotes:
            return
        if self.engine.queue_length >= self.most_waiting:
            self.unlogged_quotes += 1
            return
        record, terms = self.engine.record_quotes, instrument_terms(instrument)
        self.engine.call_soon(lambda: record(symbol, books, trades, terms))

    def halt(self, reason: str, by: str) -> Future[list[int]]:
        """Halt trading."""
        return self.engine.halt(reason or "no reason given", by)

    def resume(self, by: str) -> Future[list[int]]:
        """Resume trading, unless the halt file exists."""
        if self._halt_file_there():
            raise StateError(f"the halt file {self._halt_name} must be removed before trading is resumed")
        return self.engine.resume(by)

    # views

    @property
    def log(self) -> Log:
        """The log, which may be reopened after a failure."""
        return self.engine.log

    @property
    def status(self) -> str:
        """Status of the service: ready, halted, starting or failed."""
        if self.engine.failed or self.engine.stuck:
            return "failed"
        if self.engine.state.halted:
            return "halted"
        return "ready" if self.engine.ready else "starting"

    def beliefs(self) -> list[dict[str, Any]]:
        """Return fill beliefs by venue and pool, which are recomputed at most every `belief_seconds`."""
        if self._beliefs_due():
            settled = self.engine.state.settled
            self._beliefs = time.monotonic(), settled, self.engine.decider.counterfactual.fill_beliefs()
        return self._beliefs[2]

    def _beliefs_due(self) -> bool:
        at, settled, _ = self._beliefs
        return settled != self.engine.state.settled and time.monotonic() - at > self.belief_seconds

    @property
    def learning_lags(self) -> bool:
        """Whether a refit has been due for longer than the least time limit of the worker."""
        return self.engine.refit_overdue > BackgroundProcess.least

    def mark(self) -> tuple[Any, ...]:
        """Return a value that changes whenever the dashboard changes."""
        different = sum(map(len, self.engine.reconciliation.differences.values()))
        said = self.engine.state.events, self.engine.state.halted, self.status, len(self.gaps), different
        return *said, self._beliefs_due(), self.learning_lags

    # the halt file

    def _halt_file_there(self) -> bool:
        return self.config.halt_file is not None and self.config.halt_file.exists()

    @property
    def _halt_name(self) -> str:
        """The file's name, without its folder, for clients."""
        return "" if self.config.halt_file is None else self.config.halt_file.name

    def _watch_halt_file(self) -> None:
        # In a thread of its own, since a halt must not wait behind orders.
        while not self._closing.wait(0.2):
            with suppress(StateError):  # the log has failed meanwhile: try again
                if self._halt_file_there() and not self.engine.state.halted and not self.engine.failed:
                    self.engine.halt(f"the file {self._halt_name} exists", "file")


def _copy_result(answer: Future[_Value], done: Future[_Value]) -> None:
    error = done.exception()
    if error is None:
        answer.set_result(done.result())
    else:
        answer.set_exception(error)
