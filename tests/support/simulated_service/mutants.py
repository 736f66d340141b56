"""Mistakes to plant in the service, each of which the simulation must find."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from riskroute.live import places
from riskroute.live.engine import TradingEngine
from riskroute.live.ledger import Ledger, Task, Written
from riskroute.live.log.group_commit import Batch, GroupCommitRows, commit_rows
from riskroute.live.log.interface import LogEntry, LogHead, LogLease, log_head_record
from riskroute.live.log.snapshot_writer import SnapshotWriter
from riskroute.live.places import Places
from riskroute.live.state import fold
from riskroute.live.state.archive import OrderArchive
from riskroute.live.state.effects import Effect, SendEffect
from riskroute.live.state.events import PlaceDownEvent, ReportedEvent
from riskroute.live.state.execution_reports import ExecutionReport
from riskroute.live.state.trading_state import ChildState, ParentState, TradingState
from simulated_service.disk import SimulatedLog
from simulated_service.standard_library import THREADING

_places: Any = places
_fold: Any = fold
_threading: Any = THREADING


def tell_reports_apart_by_exec_id_alone() -> None:
    key: Any = property(lambda self: self.exec_id)
    ExecutionReport.key = key  # type: ignore[method-assign]  # the mistake
    _fold.execution_report_key = lambda venue, day, exec_id: exec_id


def settle_while_a_fill_is_on_its_way() -> None:
    def at_once(state: TradingState, child: ChildState, at: int, effects: list[Effect]) -> None:
        if child.final >= 0 or child.filled >= child.order.quantity:
            fold._finish_child(state, child, child.reason, at, effects)

    _fold._end_if_complete = at_once


def settle_a_second_time() -> None:
    settle = fold._settle

    def forgetful(state: TradingState, parent: ParentState, effects: list[Effect]) -> None:
        settle(state, parent, effects)
        parent.settled = False
        state.unsettled[parent.order.key] = None
        use = state.symbols[parent.order.symbol]
        use.quantity += parent.order.quantity
        use.notional += parent.order.quantity * parent.mid

    _fold._settle = forgetful


def send_again_instead_of_asking() -> None:
    _places.QueryEffect = SendEffect


def do_not_sync_commits() -> None:
    SimulatedLog.synchronous = "NORMAL"


def answer_before_durable() -> None:
    record = Ledger.record_in_batch

    def hasty(self: Ledger, event: Any, answer: Callable[[Written], None]) -> None:
        done: Written = Written()
        done.set_result([])
        answer(done)
        record(self, event, lambda written: None)

    Ledger.record_in_batch = hasty  # type: ignore[method-assign]  # the mistake


def send_before_the_decision_is_durable() -> None:
    append = Ledger._append

    def hasty(
        self: Ledger, entries: list[LogEntry], tasks: list[Task], answers: Sequence[Any], *, deferrable: bool
    ) -> Written:
        self._on_durable(tasks)
        return append(self, entries, [], answers, deferrable=deferrable)

    Ledger._append = hasty  # type: ignore[method-assign]  # the mistake


def book_a_fill_again_after_a_reconnection() -> None:
    """Forget the reports of a child when its venue is asked for it."""
    book = fold._book_report

    def twice(state: TradingState, event: ReportedEvent, effects: list[Effect]) -> None:
        child = state.children.get(event.report.child)
        if child is not None and child.status in ("acknowledged", "partly_filled") and event.report.kind == "filled":
            state.reports.pop(event.report.key, None)
        book(state, event, effects)

    fold._HANDLERS[ReportedEvent] = twice
    engine_book = TradingEngine.book

    def all_of_them(self: TradingEngine, reports: list[ExecutionReport]) -> None:
        for report in reports:
            child = self.state.children.get(report.child)
            if child is not None and report.child in self.places.unresolved[child.order.place]:
                self.state.reports.pop(report.key, None)
        engine_book(self, reports)

    TradingEngine.book = all_of_them  # type: ignore[method-assign]  # the mistake


def forget_a_halt_in_recovery() -> None:
    begin = TradingEngine._begin

    def forgetful(self: TradingEngine, state: TradingState, archive: OrderArchive, term: int) -> None:
        state.halted = state.halted_by = ""
        begin(self, state, archive, term)

    TradingEngine._begin = forgetful  # type: ignore[method-assign]  # the mistake


def lose_timers_in_a_restart() -> None:
    resume = TradingEngine._resume_orders

    def forgetful(self: TradingEngine) -> None:
        start = self._start_timers
        self._start_timers = lambda key: None  # type: ignore[method-assign]  # the mistake
        resume(self)
        self._start_timers = start  # type: ignore[method-assign]  # as it was

    TradingEngine._resume_orders = forgetful  # type: ignore[method-assign]  # the mistake


def save_snapshots_ahead_of_the_log() -> None:
    """Say that the state is that of the row before."""
    take: Any = SnapshotWriter.take

    def ahead(self: SnapshotWriter, *arguments: Any) -> None:
        *before, written, lock = arguments
        earlier: Written = Written()
        if written is not None:
            written.add_done_callback(lambda done: earlier.set_result([max(max(done.result()) - 1, 1)]))
            take(self, *before, earlier, lock)

    SnapshotWriter.take = ahead  # type: ignore[assignment]  # the mistake


def wait_for_a_stopped_worker_for_ever() -> None:
    _threading.Timer.run = lambda alarm: None


def record_the_head_ahead_of_the_log() -> None:
    write = SimulatedLog._write

    def ahead(self: SimulatedLog, lease: LogLease, head: LogHead, batches: Sequence[Batch]) -> GroupCommitRows:
        if rows := commit_rows(head, batches, {}).rows:
            self._record(log_head_record(LogHead(rows[-1].seq, rows[-1].chain), b""))
        return write(self, lease, head, batches)

    SimulatedLog._write = ahead  # type: ignore[method-assign]  # the mistake


def decide_for_places_that_are_down() -> None:
    fold._HANDLERS[PlaceDownEvent] = lambda state, event, effects: None


def raise_places_without_an_event() -> None:
    def silently(self: Places, place: str) -> None:
        if place in self.connected and not self.unresolved.get(place):
            self._ledger.state.down.pop(place, None)

    Places._raise_if_resolved = silently  # type: ignore[method-assign]  # the mistake


MUTANTS: dict[str, Callable[[], None]] = {
    mistake.__name__: mistake
    for mistake in (
        tell_reports_apart_by_exec_id_alone,
        settle_while_a_fill_is_on_its_way,
        settle_a_second_time,
        send_again_instead_of_asking,
        do_not_sync_commits,
        answer_before_durable,
        save_snapshots_ahead_of_the_log,
        send_before_the_decision_is_durable,
        book_a_fill_again_after_a_reconnection,
        forget_a_halt_in_recovery,
        lose_timers_in_a_restart,
        wait_for_a_stopped_worker_for_ever,
        record_the_head_ahead_of_the_log,
        decide_for_places_that_are_down,
        raise_places_without_an_event,
    )
}
