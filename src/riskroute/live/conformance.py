"""Conformance checks of gateways: what the live router relies on, tried on a venue that a test controls.

A venue of your own is checked on a stand-in for it (`VenueBench`), such as a local server that speaks its protocol.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from riskroute.core.errors import CheckError
from riskroute.live.children import child_id
from riskroute.live.state.execution_reports import ExecutionReport
from riskroute.live.state.orders import ChildOrder
from riskroute.live.venues.gateway import Gateway, VenueAccount, wire_id


class VenueBench(Protocol):
    """A venue under the control of a test.

    An order to buy ``quantity`` units of ``symbol`` at ``limit`` rests until `fill`; ``quantity`` must be at least four
    lots. ``deadline`` is a time at which the order is still open.
    """

    place: str
    symbol: str
    quantity: int
    limit: int
    deadline: int

    def gateway(self) -> Gateway:
        """Return a new gateway to the same venue and account, as a new process would have."""

    def wait(self) -> None:
        """Let all messages under way arrive, in both directions."""

    def fill(self, child: ChildOrder, quantity: int) -> None:
        """Trade a part of an order that is open at the venue."""

    def refuse(self) -> None:
        """Reject the next order."""

    def mute(self, muted: bool) -> None:
        """Lose everything that the venue says while it is muted; the connection stays."""

    def repeat(self) -> None:
        """Send the last report again, as it was."""

    def reverse(self) -> None:
        """Let the reports up to the next `wait` arrive in reverse, if the protocol allows it."""

    def cut(self) -> None:
        """Cut the connection; the venue keeps running."""

    def mend(self) -> None:
        """Let the gateway connect again."""

    def received(self) -> Sequence[str]:
        """Return the client's id of every order that the venue has received, repeated ones included."""


class _Sink:
    """A sink that keeps what a gateway says."""

    def __init__(self) -> None:
        self.reports, self.states, self.accounts = list[ExecutionReport](), list[str](), list[VenueAccount]()

    def __call__(self, *reports: ExecutionReport) -> None:
        self.reports += reports

    def up(self) -> None:
        self.states.append("up")

    def down(self, reason: str) -> None:
        self.states.append(f"down: {reason}")

    def account(self, account: VenueAccount) -> None:
        self.accounts.append(account)


class _Trial:
    """A gateway in use, with the checks that hold at any time."""

    longest_call = 2.0  # seconds; no call may wait for the venue

    def __init__(self, bench: VenueBench, name: str) -> None:
        self.bench, self.name, self.sink, self._children = bench, name, _Sink(), 0
        self._earlier: list[ExecutionReport] = []
        self.gateway = bench.gateway()
        self.connect()

    def require(self, holds: Any, property_: str) -> None:
        if not holds:
            raise CheckError(f"{self.bench.place}: {property_}")

    def call(self, function: Callable[..., Any], *arguments: Any) -> None:
        began = time.monotonic()
        function(*arguments)
        took = time.monotonic() - began
        self.require(took < self.longest_call, f"no call may wait for the venue, one took {took:.1f} s")

    def connect(self) -> None:
        self.call(self.gateway.connect, self.sink)
        self.bench.wait()
        self.require(self.sink.states[-1:] == ["up"], "must say `up` when orders can be sent, did not")

    def restart(self) -> None:
        """Begin another gateway, as a new process does; the earlier one is closed."""
        self._earlier += self.sink.reports
        self.sink, self.gateway = _Sink(), self.bench.gateway()
        self.connect()

    def child(self) -> ChildOrder:
        """Return a new child that rests."""
        self._children += 1
        bench, key = self.bench, f"{self.name} {self._children}"
        terms = self.gateway.terms(bench.symbol)
        return ChildOrder(
            id=child_id(f"conformance {bench.deadline}", key, 0, 0),
            parent=key,
            slot=0,
            attempt=0,
            kind="limit",
            place=bench.place,
            symbol=bench.symbol,
            side="buy",
            quantity=bench.quantity,
            limit=bench.limit,
            until=bench.deadline,
            idempotent=terms is not None and terms.idempotent,
        )

    def sent(self) -> ChildOrder:
        """Return a child that the venue has acknowledged."""
        child = self.child()
        self.call(self.gateway.send, child)
        self.bench.wait()
        kinds = [one.kind for one in self.of(child)]
        self.require("acknowledged" in kinds, f"an order must be acknowledged, reports were {kinds}")
        return child

    def fill(self, child: ChildOrder, quantity: int) -> None:
        self.bench.fill(child, quantity)
        self.bench.wait()

    def of(self, child: ChildOrder) -> list[ExecutionReport]:
        """Return the different reports of a child, of all gateways, and check that each is complete."""
        found: dict[str, ExecutionReport] = {}
        for one in [*self._earlier, *self.sink.reports]:
            if one.child not in (child.id, wire_id(child.id)):
                continue
            self.require(one.venue == self.bench.place, f"`venue` of a report must be {self.bench.place}")
            self.require(one.day and one.exec_id and one.at > 0, "a report must have a day, an exec id and a time")
            before = found.setdefault(one.key, one)
            same = (before.kind, before.quantity, before.price) == (one.kind, one.quantity, one.price)
            self.require(same, f"day and exec id must be of one report, were of {before.kind} and {one.kind}")
            total = one.cum + one.leaves
            self.require(total <= child.quantity, f"`cum` and `leaves` must be at most {child.quantity}, were {total}")
        return list(found.values())

    def check_filled(self, child: ChildOrder, quantity: int, when: str) -> None:
        """Check that the fills of a child, each counted once, sum to a quantity."""
        fills = [one for one in self.of(child) if one.kind == "filled"]
        booked = sum(one.quantity for one in fills)
        self.require(booked == quantity, f"fills must sum to {quantity} {when}, was {booked}")
        self.require(all(one.price > 0 for one in fills), "a fill must have a price")
        cums = sorted(one.cum for one in fills)
        self.require(not cums or cums[-1] == quantity, f"`cum` of the last fill must be {quantity} {when}, was {cums}")

    def query(self, child: ChildOrder) -> ExecutionReport:
        """Query a child; return the last answer."""
        before = {one.key for one in self.of(child)}
        self.call(self.gateway.query, child)
        self.bench.wait()
        found = [one for one in self.sink.reports if one.child in (child.id, wire_id(child.id))]
        self.require(
            found and found[-1].key not in before, "the last answer to a query must have an exec id of its own"
        )
        return found[-1]


def _check_terms(trial: _Trial) -> None:
    terms = trial.gateway.terms(trial.bench.symbol)
    trial.require(terms is not None and terms.tick > 0 and terms.lot > 0, "`terms` must have a tick and a lot above 0")
    trial.require(trial.gateway.terms("NO SUCH SYMBOL") is None, "`terms` of an unknown symbol must be None")
    trial.require(isinstance(trial.gateway.session, str) and trial.gateway.session, "`session` must be a name")


def _check_partial_fills(trial: _Trial) -> None:
    child, total = trial.sent(), trial.bench.quantity
    trial.fill(child, total // 4)
    trial.check_filled(child, total // 4, "after a partial fill")
    trial.fill(child, total - total // 4)
    trial.check_filled(child, total, "after the last fill")
    last = max(trial.of(child), key=lambda one: one.cum)
    trial.require(last.leaves == 0, f"`leaves` of the last fill must be 0, was {last.leaves}")


def _check_reject(trial: _Trial) -> None:
    child = trial.child()
    trial.bench.refuse()
    trial.call(trial.gateway.send, child)
    trial.bench.wait()
    kinds = [one.kind for one in trial.of(child)]
    trial.require(kinds == ["rejected"], f"an order that is refused must be reported `rejected`, was {kinds}")


def _check_cancel(trial: _Trial) -> None:
    child, part = trial.sent(), trial.bench.quantity // 4
    trial.fill(child, part)
    trial.call(trial.gateway.cancel, child)
    trial.bench.wait()
    ends = [one.cum for one in trial.of(child) if one.kind == "cancelled"]
    trial.require(ends == [part], f"a cancel must be reported once, with `cum` {part}, was {ends}")
    trial.check_filled(child, part, "after a cancel")


def _check_cancel_race(trial: _Trial) -> None:
    child, total = trial.sent(), trial.bench.quantity
    trial.bench.fill(child, total)  # the report is under way when the cancel is sent
    trial.call(trial.gateway.cancel, child)
    trial.bench.wait()
    trial.check_filled(child, total, "if a cancel comes too late")
    ends = [one for one in trial.of(child) if one.kind in ("cancelled", "rejected", "expired")]
    trial.require(not ends, "a child that is filled must not end otherwise if a cancel comes too late")
    answer = trial.query(child)
    known = answer.kind != "not_known" and answer.cum == total
    trial.require(known, f"a query must still answer with `cum` {total}, was {answer.kind} with {answer.cum}")


def _check_silence(trial: _Trial) -> None:
    bench, child = trial.bench, trial.sent()
    bench.mute(True)
    trial.fill(child, bench.quantity // 4)
    bench.mute(False)
    answer = trial.query(child)
    trial.check_filled(child, bench.quantity // 4, "once a query is answered")
    expected = "acknowledged", bench.quantity // 4
    trial.require((answer.kind, answer.cum) == expected, f"the last answer must be {expected}, was {answer.kind}")
    again = trial.query(child)
    trial.require(again.key != answer.key, "each last answer to a query must have an exec id of its own")


def _check_lost_answers(trial: _Trial) -> None:
    bench, child = trial.bench, trial.child()
    bench.mute(True)
    trial.call(trial.gateway.send, child)
    bench.wait()
    bench.mute(False)
    answer = trial.query(child)
    trial.require(answer.kind == "acknowledged", f"a query must find an order that was sent, was {answer.kind}")
    ids = [one for one in bench.received() if one in (child.id, wire_id(child.id))]
    trial.require(len(ids) == 1, f"a child must be sent once, was sent {len(ids)} times")


def _check_not_known(trial: _Trial) -> None:
    answer = trial.query(trial.child())
    trial.require(answer.kind == "not_known", f"a query of a child that was not sent must end so, was {answer.kind}")


def _check_duplicates(trial: _Trial) -> None:
    child, part = trial.sent(), trial.bench.quantity // 4
    trial.fill(child, part)
    trial.bench.repeat()
    trial.bench.wait()
    trial.check_filled(child, part, "if a report is repeated")


def _check_disorder(trial: _Trial) -> None:
    child, part = trial.sent(), trial.bench.quantity // 4
    trial.bench.reverse()
    for _ in range(3):
        trial.bench.fill(child, part)
    trial.bench.wait()
    trial.check_filled(child, 3 * part, "if reports arrive in reverse")


def _check_restart(trial: _Trial) -> None:
    bench, child = trial.bench, trial.sent()
    part = bench.quantity // 4
    trial.fill(child, part)
    trial.gateway.close()
    heard = len(trial.sink.reports)
    trial.fill(child, part)
    trial.require(len(trial.sink.reports) == heard, "a closed gateway must report nothing")
    trial.restart()
    answer = trial.query(child)
    trial.require(answer.cum == 2 * part, f"`cum` must be {2 * part} after a restart, was {answer.cum}")
    trial.check_filled(child, 2 * part, "after a restart")
    trial.call(trial.gateway.cancel, child)
    bench.wait()
    ended = any(one.kind == "cancelled" for one in trial.of(child))
    trial.require(ended, "a child of an earlier process must be cancelled")


def _check_reconnection(trial: _Trial) -> None:
    bench, child = trial.bench, trial.sent()
    bench.cut()
    bench.wait()
    trial.require(trial.sink.states[-1] != "up", "must say `down` when the connection is cut, did not")
    bench.fill(child, bench.quantity // 4)
    late = trial.child()
    raised = False
    try:
        trial.call(trial.gateway.send, late)
    except CheckError:
        raise
    except Exception:  # by the contract, it was certainly not sent
        raised = True
    bench.mend()
    bench.wait()
    trial.require(trial.sink.states[-1] == "up", "must say `up` when it is connected again, did not")
    answer = trial.query(child)
    trial.require(answer.cum == bench.quantity // 4, f"`cum` must include fills during a cut, was {answer.cum}")
    trial.check_filled(child, bench.quantity // 4, "after a cut")
    answer = trial.query(late)
    there = any(one in (late.id, wire_id(late.id)) for one in bench.received())
    trial.require(not (raised and there), "a `send` that raises must not have sent")
    known = answer.kind != "not_known"
    trial.require(known == there, f"a child sent during a cut is {'' if there else 'not '}there, answer {answer.kind}")


def _check_repeated_send(trial: _Trial) -> None:
    terms = trial.gateway.terms(trial.bench.symbol)
    if terms is None or not terms.idempotent:
        return
    child, total = trial.sent(), trial.bench.quantity
    trial.call(trial.gateway.send, child)
    trial.bench.wait()
    trial.fill(child, total)
    answer = trial.query(child)
    trial.require(answer.cum == total, f"a child sent twice must trade once if `idempotent`, `cum` was {answer.cum}")
    trial.check_filled(child, total, "if it is sent twice and `idempotent`")


def _check_account(trial: _Trial) -> None:
    bench, child = trial.bench, trial.sent()
    trial.fill(child, bench.quantity // 4)

    def open_orders() -> Iterable[tuple[str, str, str, int | None]]:
        before = len(trial.sink.accounts)
        trial.call(trial.gateway.request_account)
        bench.wait()
        trial.require(len(trial.sink.accounts) > before, "`request_account` must be answered, was not")
        account = trial.sink.accounts[-1]
        trial.require(account.at > 0, "an account must have a time")
        return [(one.wire_id, one.symbol, one.side, one.leaves) for one in account.open_orders]

    left = bench.quantity - bench.quantity // 4
    mine = [one for one in open_orders() if one[0] == wire_id(child.id)]
    expected = [(wire_id(child.id), bench.symbol, "buy", leaves) for leaves in (left, None)]
    trial.require(len(mine) == 1 and mine[0] in expected, f"an account must have the open order once, had {mine}")
    trial.call(trial.gateway.cancel, child)
    bench.wait()
    gone = all(one[0] != wire_id(child.id) for one in open_orders())
    trial.require(gone, "an account must not have an order that is cancelled")


_CHECKS = (
    _check_terms,
    _check_partial_fills,
    _check_reject,
    _check_cancel,
    _check_cancel_race,
    _check_silence,
    _check_lost_answers,
    _check_not_known,
    _check_duplicates,
    _check_disorder,
    _check_restart,
    _check_reconnection,
    _check_repeated_send,
    _check_account,
)


def check_gateway(bench: VenueBench) -> None:
    """Check a gateway against `riskroute.live.venues.gateway.Gateway`, on a venue that the test controls.

    It plays acknowledgement, partial fills, reject, cancel, a cancel that comes too late, silence, lost answers,
    duplicates, disorder, a restart, a reconnection, a repeated send, and the account. Raises `CheckError` at the first
    property that does not hold.
    """
    for check in _CHECKS:
        trial = _Trial(bench, check.__name__)
        check(trial)
        trial.gateway.close()
