"""A running router, put together from its configuration: log, router, venues, and engine."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any, TypeVar

import msgspec

from riskroute.core.errors import InputError, StateError
from riskroute.live.config import LiveConfig, configured_router, configured_venues, open_log
from riskroute.live.engine import RefusedError, TradingEngine, new_answer
from riskroute.live.http.requests import (
    OrderIn,
    QuotesIn,
    ShadowIn,
    checked_deadline,
    checked_parent,
    checked_times,
    instrument_of,
    market_trades,
    order_terms,
    parent_order,
    venue_quotes,
)
from riskroute.live.learner import Refit, RefitWorker, router_bytes
from riskroute.live.log.event_rows import events_after
from riskroute.live.log.interface import LeaseError, Log
from riskroute.live.market_history import MarketHistory
from riskroute.live.orders import checked_quotes, order_digest
from riskroute.live.readiness import warm_up
from riskroute.live.shadow import ShadowComparison, ShadowEvaluator
from riskroute.live.state.events import Accepted, Decision, ParentOrder, Settled, Shadowed
from riskroute.live.state.trading_state import TradingState

Value = TypeVar("Value")

STAND_BY_SECONDS = 0.02
"""A router that stands by looks so often whether it is needed."""

HALT_FILE_SECONDS = 0.2
"""The halt file is looked for so often."""

BELIEF_SECONDS = 2.0
"""What is believed of places is shown as it was so long ago, at most."""

REMEMBERED = 20_000
"""So many rows at the end of the log tell, after a start, what to expect of pools and queues."""

LOGGER = logging.getLogger("riskroute.live")


class HaltedError(RefusedError):
    """Nothing is accepted while trading is halted, or before the start is complete."""


class Service:
    """Everything that runs behind the addresses of the service.

    Parameters
    ----------
    config : LiveConfig
        What to run.
    log : Log, optional
        Another log than that of the configuration.
    clock : Callable[[], int]
        Nanoseconds since 1970.
    """

    def __init__(self, config: LiveConfig, *, log: Log | None = None, clock: Callable[[], int] = time.time_ns) -> None:
        self.config, self.clock, self.board = config, clock, MarketHistory(keep=config.mode == "shadow")
        self.terms = order_terms(config)
        router = configured_router(config)
        self._worker: Executor | None = None
        if config.router.refit_every:
            self._worker = RefitWorker()
        self.engine = TradingEngine(
            open_log(config) if log is None else log,
            configured_venues(config, self.board, clock),
            router,
            config.limits.limits(),
            refit_every=config.router.refit_every,
            worker=self._worker,
            quotes=self.board,
            clock=clock,
            patience=config.patience_seconds,
            decision_seconds=None if config.router.decision_ms is None else config.router.decision_ms / 1000,
            snapshot_every=config.log.snapshot_every,
            owner=f"{socket.gethostname()}:{os.getpid()}"[-64:],
            lease_seconds=config.lease_seconds,
            reopen=(lambda: open_log(config)) if log is None else None,
            history=self.board,
        )
        self._evaluator = ShadowEvaluator(self.engine) if config.mode == "shadow" else None
        self.engine.on_recovered = self._show_books
        self.began = clock()
        self.started = False
        self._believed: tuple[float, int, list[dict[str, Any]]] = (-BELIEF_SECONDS, 0, [])
        self._watching: threading.Thread | None = None
        self._closing = threading.Event()

    def start(self) -> None:
        """Warm up, recover, ask every venue, and begin to work."""
        self._warm_up()
        self._begin()

    def _warm_up(self) -> None:
        self.started = True
        router = self.engine.learner.router
        warm_up(self.config, router)
        if self._worker is not None:
            self._worker.submit(Refit(type(router), router_bytes(router), [], [], []))

    def _begin(self) -> None:
        self.engine.start()
        self._remember()
        self.engine.serve()
        self._watching = threading.Thread(target=self._watch_halt_file, name="riskroute halt file", daemon=True)
        self._watching.start()

    def _remember(self) -> None:
        """Let the counterfactual learn again what it knew before the start."""
        books: dict[str, ParentOrder] = {}
        for _, event in events_after(self.log, max(self.log.head().seq - REMEMBERED, 0)):
            if isinstance(event, Accepted):
                books[event.order.key] = event.order
            elif isinstance(event, Settled) and event.outcome.parent in books:
                self.engine.decider.counterfactual.learn(books.pop(event.outcome.parent), event.outcome.slots)
            elif isinstance(event, Shadowed):
                self.engine.decider.counterfactual.learn(event.order, event.outcome.slots)

    def _show_books(self, state: TradingState) -> None:
        """Show the books of orders that are not settled: simulated venues trade on them when they are connected."""
        for key in state.unsettled:
            order = state.parents[key].order
            self.board.put(order.symbol, order.quotes)

    def stand_by(self, on_held: Callable[[StateError], None]) -> None:
        """Start as soon as nobody else writes the log; ``on_held`` is told, once, if somebody does now."""
        told = False
        self._warm_up()
        while True:
            try:
                self._begin()
            except LeaseError as error:
                if not told:
                    on_held(error)
                told = True
                time.sleep(STAND_BY_SECONDS)
            else:
                return

    def close(self) -> None:
        """Stop: orders that wait are answered first, and what was answered is durable."""
        self._closing.set()
        if self._watching is not None:
            self._watching.join()
            self._watching, taken = None, threading.Event()
            self.engine.call_soon(taken.set)
            taken.wait()
        try:
            self.engine.flush()
        finally:
            self.engine.close()
            if self._worker is not None:
                self._worker.shutdown(wait=True, cancel_futures=True)

    # doors

    def submit(self, order: OrderIn) -> Future[Decision]:
        """Hand an order to the engine's thread; the future has its decision once that is durable."""
        return self._in_engine(partial(self._accept, order))

    def shadow(self, given: ShadowIn) -> Future[ShadowComparison | None]:
        """Hand an order that another router has executed to the engine's thread."""
        return self._in_engine(lambda _: self._watched(given))

    def told(self, quotes: QuotesIn) -> Future[int]:
        """Hand books and trades to the engine's thread, which takes them before the orders that come after them."""

        def take(answer: Future[int]) -> Future[int]:
            answer.set_result(self.quote(quotes))
            return answer

        return self._in_engine(take)

    def _in_engine(self, call: Callable[[Future[Value]], Future[Value]]) -> Future[Value]:
        """Let the engine's thread make a call, which completes the future that it gets, or returns another one."""
        answer: Future[Value] = new_answer()

        def run() -> None:
            try:
                given = call(answer)
            except Exception as error:  # the client must get an answer, whatever went wrong
                answer.set_exception(error)
            else:
                if given is not answer:
                    given.add_done_callback(partial(_copy_result, answer))

        if self._closing.is_set():
            answer.set_exception(HaltedError("the service must be running, is about to stop"))
        else:
            self.engine.call_soon(run)
        return answer

    def _accept(self, given: OrderIn, answer: Future[Decision]) -> Future[Decision]:
        if self.config.mode == "shadow":
            raise StateError("mode must be live for orders, was shadow: send what was done to /shadow/orders")
        engine, now = self.engine, self.clock()
        order = parent_order(self.terms, given)
        digest, brought = order_digest(order), order.quotes
        # A client that repeats an order gets its first answer, even if its quotes would be refused by now.
        if (known := engine.known(order.key, digest)) is not None:
            return known
        if not brought:
            order = msgspec.structs.replace(order, quotes=self.board(order.symbol) or ())
        checked_parent(order)
        checked_deadline(self.config, order, now)
        if engine.state.halted:
            raise HaltedError(f"trading is halted: {engine.state.halted}")
        if not engine.ready:
            raise HaltedError(f"the router is not ready: {engine.failed or 'venues are being asked for old children'}")
        made = engine.accept(self._with_flows(order, now), digest, answer)
        if brought:
            self.board.put(order.symbol, brought)
        return made

    def _with_flows(self, order: ParentOrder, now: int) -> ParentOrder:
        """The order with what traded lately at the venues, as routers know it from backtests; what it brings counts."""
        flows = self.board.outflows(order.symbol, [quote.venue for quote in order.quotes], order.sign, now)
        return msgspec.structs.replace(order, features=flows | order.features) if flows else order

    def _watched(self, given: ShadowIn) -> Future[ShadowComparison | None]:
        if self._evaluator is None:
            raise StateError("mode must be shadow for orders of another router, was live")
        order = msgspec.structs.replace(parent_order(self.terms, given.order), received=given.arrived)
        order = self._with_flows(order, order.received)
        checked_times(self.config, order, self.clock())
        return self._evaluator.compare(order, given.children)

    def quote(self, quotes: QuotesIn) -> int:
        """Take books and trades; returns for how many venues there were books."""
        instrument_of(self.terms, quotes.symbol)
        made = venue_quotes(self.terms, quotes.quotes)
        checked_quotes(made)
        if not made and quotes.trades is None:
            raise InputError("quotes must be of at least one venue, were of none")
        now, limits = self.clock(), self.engine.limits
        for quote in made:
            if quote.at - now > limits.clock_jump:
                raise InputError(
                    f"at of {quote.venue} must not be in the future, was {(quote.at - now) / 1e9:g} s ahead"
                )
        trades = () if quotes.trades is None else market_trades(self.terms, quotes.trades, now + limits.clock_jump)
        if quotes.trades is not None:
            newest = max([quote.at for quote in made] + [trade.at for trade in trades], default=now)
            trades = self.board.trade(quotes.symbol, trades, min(newest, now))
        self.board.put(quotes.symbol, made)
        if self.config.log.quotes:
            self.engine.record_quotes(quotes.symbol, made, trades)
        return len(made)

    def halt(self, reason: str, by: str) -> Future[list[int]]:
        """Halt trading."""
        return self.engine.halt(reason or "no reason given", by)

    def resume(self, by: str) -> Future[list[int]]:
        """Resume trading, unless the halt file is there."""
        if self._halt_file_there():
            raise StateError(f"the halt file {self._halt_name} must be removed before trading is resumed, was there")
        return self.engine.resume(by)

    @property
    def log(self) -> Log:
        """The log, which may be opened anew after a failure."""
        return self.engine.log

    @property
    def closing(self) -> bool:
        """Whether the service is about to stop."""
        return self._closing.is_set()

    def beliefs(self) -> list[dict[str, Any]]:
        """What is believed of every place; worked out anew every few seconds."""
        if self._beliefs_due():
            settled = self.engine.state.settled
            self._believed = time.monotonic(), settled, self.engine.decider.counterfactual.fills.view()
        return self._believed[2]

    def _beliefs_due(self) -> bool:
        """Whether something was learned since beliefs were worked out, and that is a while ago."""
        at, settled, _ = self._believed
        return settled != self.engine.state.settled and time.monotonic() - at > BELIEF_SECONDS

    def mark(self) -> tuple[Any, ...]:
        """Something that changes whenever what a page shows does."""
        return self.engine.state.events, self.engine.state.halted, self.status, self._beliefs_due()

    @property
    def status(self) -> str:
        """One word: ready, halted, starting or failed."""
        if self.engine.failed:
            return "failed"
        if self.engine.state.halted:
            return "halted"
        return "ready" if self.engine.ready else "starting"

    def _halt_file_there(self) -> bool:
        return self.config.halt_file is not None and self.config.halt_file.exists()

    @property
    def _halt_name(self) -> str:
        """The name of the halt file; clients are not told where it is."""
        return "" if self.config.halt_file is None else self.config.halt_file.name

    # threads

    def _watch_halt_file(self) -> None:
        while not self._closing.wait(HALT_FILE_SECONDS):
            if self._halt_file_there() and not self.engine.state.halted and not self.engine.failed:
                self.engine.halt(f"the file {self._halt_name} is there", "file")


def _copy_result(answer: Future[Value], done: Future[Value]) -> None:
    error = done.exception()
    if error is None:
        answer.set_result(done.result())
    else:
        answer.set_exception(error)
