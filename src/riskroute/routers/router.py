"""The interface of a router: it makes a plan for every order, and learns from reports, whenever they come back."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, NamedTuple, Self

from riskroute.core.errors import RiskrouteError, StateError, described
from riskroute.core.parameters import checked_parameters
from riskroute.core.validation import instance_of
from riskroute.routers.believed import PlaceBelief
from riskroute.routers.context import Context
from riskroute.routers.plan import Plan
from riskroute.routers.report import ChildReport, Report

FEEDBACK = {
    "F0": "nothing",
    "F1": "the total profit of an order",
    "F2": "the fills of its own child orders",
    "F3": "F2, and what orders of any size would have earned at every lit venue, from public data",
    "F4": "everything, hidden sizes too",
}
"""What routers learn from, by feedback class; only an oracle has the last."""

STATE_VERSION = 1
REMEMBERED = 100_000
"""A router still knows so many completed orders, so that it does not learn twice from a report that comes twice."""


class QueueOutcome(NamedTuple):
    """The queue at the best own-side price of a venue: its price, the shares displayed, and how many left it later.

    ``outflow`` counts executions and cancellations of what was displayed, and executions beyond it. An order of ``n``
    shares at the end of the queue is filled by the outflow between ``ahead`` and ``ahead + n``.
    """

    price: float
    ahead: int
    outflow: int

    def filled(self, shares: int) -> int:
        """Return how many shares of an order at the end of the queue are filled.

        Examples
        --------
        >>> QueueOutcome(10.0, ahead=300, outflow=450).filled(1000)
        150
        """
        return min(max(self.outflow - self.ahead, 0), shares)


class Later(NamedTuple):
    """The market at the horizon of an order: its mid, and what taking the whole order then costs.

    ``sweep`` is in dollars a share against the arrival mid, fees included.
    """

    mid: float
    sweep: float


@dataclass(frozen=True)
class Public:
    """What public data shows some time after an order came: for routers that learn from it (class F3).

    ``outcomes`` holds, by venue and kind of child (``take``, ``limit``), what orders of 1, 2, 4 .. lots, up to the size
    of the order, would have earned in dollars. ``queues`` holds what became of the queues that limit orders could have
    joined, and ``later`` what the market was like at the horizon; both are empty for an order with a horizon of 0, or
    where events are not known. ``trades`` holds all trades since the last such message, by venue and side of the
    resting order (``bid``, ``ask``): the shares traded, and the shares displayed at that price before.
    """

    context: Context
    outcomes: dict[str, dict[str, tuple[float, ...]]]
    queues: Mapping[str, QueueOutcome] = field(default_factory=dict)
    later: Later | None = None
    trades: Mapping[str, Mapping[str, Sequence[tuple[int, int]]]] = field(default_factory=dict)


def outcome_sizes(shares: int, lot: int) -> list[int]:
    """Return the sizes to give outcomes for: one lot, two, four and so on, up to that of the order.

    Examples
    --------
    >>> outcome_sizes(1000, 100)
    [100, 200, 400, 800]
    """
    sizes, size = [], lot
    while size <= shares:
        sizes.append(size)
        size *= 2
    return sizes or [shares]


@cache
def parameter_names(kind: type[Router]) -> tuple[str, ...]:
    """Names of the parameters of routers of a kind."""
    return tuple(item.name for item in dataclasses.fields(kind) if item.init)


@dataclass
class Router(ABC):
    """Base class of all routers.

    A router is a dataclass whose fields are its parameters. It implements `decide`, and `absorb` if it learns. Any
    number of orders may be under way at once.
    """

    name: ClassVar[str]
    feedback: ClassVar[str] = "F0"
    memory: ClassVar[tuple[str, ...]] = ()
    """Attributes that are learned, set up by `begin` and kept by `state`: plain values that JSON can hold."""

    def __post_init__(self) -> None:
        self._under_way: dict[str, list[int]] = {}
        self._done: OrderedDict[str, None] = OrderedDict()
        vars(self).update(checked_parameters(self))
        self.check_parameters()
        self.begin()

    def check_parameters(self) -> None:
        """Raise `InputError` for parameters that do not fit each other, or hold several values.

        What a parameter must be by itself is declared with `riskroute.core.parameters.parameter`, and checked before.
        """

    def begin(self) -> None:
        """Set up what is learned."""

    @abstractmethod
    def decide(self, context: Context) -> Plan:
        """Return the plan for an order."""

    def greedy(self, context: Context) -> Plan | None:
        """Return the plan that seems best now, if the router explores; None if it always sends that one.

        Its cost is what exploration is measured against. The call changes nothing in the router.
        """
        return None

    def believed(self) -> tuple[PlaceBelief, ...]:
        """Return what is believed of venues and pools, for people to read; empty if the router believes nothing.

        The call changes nothing in the router.
        """
        return ()

    def absorb(self, order: str, children: tuple[ChildReport, ...], profit: float | None) -> None:
        """Learn from children that were not reported before, and from the profit once the order is complete."""

    def see(self, public: Public) -> None:
        """Learn from public data."""

    def route(self, context: Context) -> Plan:
        """Return a plan for an order that was not routed before."""
        instance_of("context", context, Context, "a Context")
        if context.order in self._under_way or context.order in self._done:
            raise StateError(f"order must be a new one, was {context.order!r}, which was routed before")
        plan = self.decide(context)
        self._under_way[context.order] = []
        return plan

    def note(self, context: Context, plan: Plan) -> None:
        """Remember what is needed to learn from an order that was split by somebody else's plan.

        What the router itself would have decided is remembered unless it overrides this. Where the plan is the one that
        `decide` returns, the router must be left as `decide` leaves it.
        """
        self.decide(context)

    def forget(self, order: str) -> None:
        """Drop what is remembered of an order that will never be complete."""

    def prepare(self) -> None:
        """Do now, after learning, what would take time in the next decision."""

    def follow(self, context: Context, plan: Plan) -> None:
        """Take note of an order that was split by a plan made elsewhere, so that its reports can be learned."""
        instance_of("context", context, Context, "a Context")
        instance_of("plan", plan, Plan, "a Plan")
        if context.order in self._under_way or context.order in self._done:
            raise StateError(f"order must be a new one, was {context.order!r}, which was routed before")
        self.note(context, plan)
        self._under_way[context.order] = []

    def abandon(self, order: str) -> None:
        """Give an order up: no report of it will come, and one that comes nevertheless changes nothing."""
        if order not in self._under_way:
            raise StateError(f"order must be one that is under way, was {order!r}")
        del self._under_way[order]
        self._close(order)
        self.forget(order)

    def passed(self, order: str) -> None:
        """Let an order be complete of which there is nothing to learn; one that is not under way changes nothing."""
        if self._under_way.pop(order, None) is not None:
            self._close(order)

    def _close(self, order: str) -> None:
        self._done[order] = None
        while len(self._done) > REMEMBERED:
            self._done.popitem(last=False)

    def learn(self, report: Report) -> None:
        """Learn from a report; children that were reported before, and orders that are complete, change nothing."""
        instance_of("report", report, Report, "a Report")
        known = self._under_way.get(report.order)
        if known is None:
            if report.order in self._done:
                return
            raise StateError(f"order must be one that was routed, was {report.order!r}")
        children = tuple(child for child in report.children if child.child not in known)
        known.extend(child.child for child in children)
        if report.complete:
            del self._under_way[report.order]
            self._close(report.order)
        if children or report.complete:
            self.absorb(report.order, children, report.profit if report.complete else None)

    @property
    def under_way(self) -> tuple[str, ...]:
        """Orders that were routed and are not complete."""
        return tuple(self._under_way)

    @property
    def parameters(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {name: getattr(self, name) for name in parameter_names(type(self))}

    def state(self) -> dict[str, Any]:
        """Return everything needed to go on later, as plain values."""
        return {
            "version": STATE_VERSION,
            "router": self.name,
            "parameters": self.parameters,
            "memory": {name: getattr(self, name) for name in self.memory},
            "under_way": {order: list(known) for order, known in self._under_way.items()},
            "done": list(self._done),
        }

    @classmethod
    def restore(cls, state: Any) -> Self:
        """Rebuild the router of a saved state."""
        if not isinstance(state, dict):
            raise StateError(f"state must be a dictionary that state() returned, was {described(state)}")
        for key, expected in (("version", STATE_VERSION), ("router", cls.name)):
            if state.get(key) != expected:
                raise StateError(f"state {key} must be {expected!r}, was {state.get(key)!r}")
        try:
            router = cls(**state["parameters"])
            given = state["memory"]
            if set(given) != set(cls.memory):
                raise StateError(f"state memory must hold {sorted(cls.memory)}, had {sorted(given)}")
            router.recall(given)
            router._under_way = {str(order): [int(k) for k in known] for order, known in state["under_way"].items()}
            router._done = OrderedDict.fromkeys(map(str, state["done"]))
        except (KeyError, TypeError, ValueError, AttributeError, RiskrouteError) as error:
            what = str(error) if isinstance(error, RiskrouteError) else repr(error)
            raise StateError(f"state of {cls.name} must be one that state() returned: {what}") from error
        return router

    def recall(self, memory: dict[str, Any]) -> None:
        """Restore what was learned; a router overrides this to check what it cannot trust."""
        for name, value in memory.items():
            setattr(self, name, value)
