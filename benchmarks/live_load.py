"""Load for the benchmark of the live router: orders, fills, whole logs, and HTTP clients that cost little CPU time.

Clients build their requests before the clock starts, and one thread serves all connections.
"""

from __future__ import annotations

import json
import selectors
import socket
import time
from collections import deque
from collections.abc import Iterator

from live_services import HEADERS, order_json
from riskroute.live.children import child_id
from riskroute.live.state.amounts import NANO
from riskroute.live.state.archive import OrderArchive
from riskroute.live.state.effects import LearnEffect
from riskroute.live.state.events import AcceptedEvent, AnyEvent, PlannedEvent, ReportedEvent, SentEvent, SettledEvent
from riskroute.live.state.execution_reports import ExecutionReport
from riskroute.live.state.fold import apply
from riskroute.live.state.orders import ChildOrder, OrderDecision, ParentOrder
from riskroute.live.state.quotes import VenueQuote
from riskroute.live.state.trading_state import TradingState
from riskroute.routers.registry import router_bytes
from riskroute.routers.router import Router


def books(now: int, venues: int = 2) -> tuple[VenueQuote, ...]:
    """Return the books of venues that all show 10.00 to 10.02."""
    bids, asks = ((10 * NANO, 100_000),), ((10 * NANO + NANO // 50, 100_000),)
    return tuple(VenueQuote(venue=f"V{k}", bids=bids, asks=asks, at=now) for k in range(venues))


def new_order(key: str, quantity: int, now: int, venues: int = 2) -> ParentOrder:
    """Return an order with books."""
    return ParentOrder(
        key=key, symbol="DEMO", side="buy", quantity=quantity, deadline=now + 3600 * NANO, quotes=books(now, venues)
    )


def filled(child: ChildOrder, quantity: int, cum: int, number: int) -> ExecutionReport:
    """Return a fill of a child."""
    return ExecutionReport(
        venue=child.place,
        day="20260105",
        exec_id=f"{number}",
        child=child.id,
        kind="filled",
        at=time.time_ns(),
        cum=cum,
        leaves=child.quantity - cum,
        quantity=quantity,
        price=10 * NANO,
    )


def order_events(
    router: Router, events: int, begin: int = 1_767_600_000 * NANO, label: str = "order "
) -> Iterator[AnyEvent]:
    """Yield the events of sequential orders, each sent to two venues and filled in two parts at each."""
    state, archive, at, number = TradingState(), OrderArchive(), begin, 0
    first: list[AnyEvent] = [
        PlannedEvent(at=at, belief=0, router=router.name, after=0, learned=0, state=router_bytes(router))
    ]
    todo: deque[AnyEvent] = deque(first)
    for _ in range(events):
        if not todo:
            at += 1_000_000
            todo.extend(_order(f"{label}{number}", number, at))
            number += 1
        event = todo.popleft()
        for effect in apply(state, event, archive)[1]:
            if isinstance(effect, LearnEffect):
                todo.appendleft(SettledEvent(at=at, outcome=effect.outcome, benchmark_cost=effect.outcome.cost))
        yield event


def _order(key: str, number: int, at: int) -> list[AnyEvent]:
    order = new_order(key, 200, at)
    children = tuple(
        ChildOrder(
            id=child_id("main", order.key, slot, 0),
            parent=order.key,
            slot=slot,
            attempt=0,
            kind="take",
            place=f"V{slot}",
            symbol="DEMO",
            side="buy",
            quantity=100,
        )
        for slot in range(2)
    )
    plan = {"order": order.key, "take": {"V0": 100, "V1": 100}}
    decision = OrderDecision(parent=order.key, router="sweep", belief=0, ticket=number, plan=plan, at=at)
    events: list[AnyEvent] = [AcceptedEvent(at=at, order=order, decision=decision, children=children, digest=b"x" * 12)]
    events += [SentEvent(at=at, child=child.id) for child in children]
    for slot, child in enumerate(children):
        for part in range(2):
            report = filled(child, 50, 50 * (part + 1), 4 * number + 2 * slot + part)
            events.append(ReportedEvent(at=at, report=report))
    return events


class Connection:
    """A persistent connection that sends each order after the response to the previous one."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sent_at = 0.0
        self._read = b""

    def send(self, request: bytes) -> None:
        self.sent_at = time.perf_counter()
        self.socket.sendall(request)

    def response(self) -> tuple[int, bytes] | None:
        """Return status and body of the response once it is complete; call this when the socket is readable."""
        self._read += self.socket.recv(65_536)
        head, end, body = self._read.partition(b"\r\n\r\n")
        if not end or len(body) < int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]):
            return None
        self._read = b""
        return int(head.split(b" ", 2)[1]), body

    def answered(self) -> bool:
        """Return whether the response is complete; raise if it is not a decision."""
        if (found := self.response()) is None:
            return False
        if found[0] != 200:
            raise RuntimeError(found[1].decode())
        return True


def order_request(key: str) -> bytes:
    """Return the complete request of an order, with current books."""
    body = json.dumps(order_json(key, deadline=time.time_ns() + 600 * NANO)).encode()
    token = HEADERS["Authorization"]
    head = f"POST /orders HTTP/1.1\r\nHost: b\r\nAuthorization: {token}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def ask_for_decisions(listen: str, label: str, clients: int, orders: int) -> tuple[float, list[float]]:
    """Return decisions per second and the seconds of each, for a number of clients that wait for every response."""
    host, _, port = listen.partition(":")
    requests = iter([order_request(f"{label}.{clients}.{number}") for number in range(orders)])
    waits: list[float] = []
    with selectors.DefaultSelector() as selector:
        connections = [Connection((host, int(port))) for _ in range(clients)]
        for one in connections:
            selector.register(one.socket, selectors.EVENT_READ, one)
        began = time.perf_counter()
        for one, request in zip(connections, requests, strict=False):
            one.send(request)
        while len(waits) < orders:
            for key, _ in selector.select():
                one = key.data
                if one.answered():
                    waits.append(time.perf_counter() - one.sent_at)
                    if (request := next(requests, b"")) != b"":
                        one.send(request)
        rate = orders / (time.perf_counter() - began)
        for one in connections:
            one.socket.close()
    return rate, waits
