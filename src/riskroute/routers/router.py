"""Router interface: `Context` in, `Plan` out, and learning from reports that arrive in any order."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections import OrderedDict
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, NamedTuple, Self, get_type_hints

from riskroute.core.errors import DataError, RiskrouteError, StateError
from riskroute.core.records import check_finite_record, from_plain, to_plain
from riskroute.core.text import described
from riskroute.core.validation import instance_of, validated_parameters
from riskroute.routers.context import Context
from riskroute.routers.plan import Plan
from riskroute.routers.public_data import PublicData
from riskroute.routers.report import ChildReport, Report

# feedback classes: the data a router learns from; F4 is only for oracles
FEEDBACK = {
    "F0": "nothing",
    "F1": "the total profit of an order",
    "F2": "the fills of its own child orders",
    "F3": "F2, and from public data the profit of orders of any size at every lit venue",
    "F4": "everything, hidden sizes too",
}


class RouterBelief(NamedTuple):
    """Estimate for one venue or pool, for display."""

    place: str  # venue or pool
    what: str  # the estimated quantity
    mean: float  # posterior mean
    deviation: float | None  # posterior standard deviation; None if the router does not estimate it
    unit: str  # unit of mean and deviation: bp, $/share or probability
    seen: float | None = None  # number of observations; None if they are not counted
    symbol: str = ""  # symbol the estimate is for; empty: all symbols


@cache
def _memory_types(kind: type[Router]) -> dict[str, Any]:
    """Return the annotated type (default: Any) of every attribute in ``memory``, without properties."""
    hints = get_type_hints(kind, include_extras=True)
    stored = [name for name in kind.memory if not isinstance(getattr(kind, name, None), property)]
    return {name: hints.get(name, Any) for name in stored}


@dataclass
class Router(ABC):
    """Base class of all routers.

    A router is a dataclass whose fields are its parameters. It implements `decide`, and `on_fills` if it learns. Many
    orders may be in flight at once.
    """

    name: ClassVar[str]
    feedback: ClassVar[str] = "F0"
    # learned attributes, set up by `begin` and saved by `state`; `restore` checks their values against the annotations
    memory: ClassVar[tuple[str, ...]] = ()
    # number of completed orders kept, to ignore repeated reports; every saved state has their keys
    remembered_orders: ClassVar[int] = 1_000

    @classmethod
    @cache
    def parameter_names(cls) -> tuple[str, ...]:
        """Return the names of the constructor's arguments."""
        return tuple(item.name for item in dataclasses.fields(cls) if item.init)

    def __post_init__(self) -> None:
        self._under_way: dict[str, list[int]] = {}
        self._done: OrderedDict[str, None] = OrderedDict()
        vars(self).update(validated_parameters(self))
        self.check_parameters()
        self.begin()

    def check_parameters(self) -> None:
        """Check parameters that depend on each other or hold several values; raise `InputError`.

        Single values are checked earlier, as declared with `riskroute.core.validation.parameter`.
        """

    def begin(self) -> None:
        """Initialise the learned attributes."""

    @abstractmethod
    def decide(self, context: Context) -> Plan:
        """Return the plan for an order; if it raises an error, the order counts as not routed."""

    def greedy(self, context: Context) -> Plan | None:
        """Return the greedy plan of a router that explores; None if the router always sends it.

        The cost of exploration is measured against this plan. The call does not change the router.
        """
        return None

    def beliefs(self) -> tuple[RouterBelief, ...]:
        """Return the router's estimates for venues and pools, for display; empty if it estimates none.

        The call does not change the router.
        """
        return ()

    def on_fills(self, order: str, children: tuple[ChildReport, ...], profit: float | None) -> None:
        """Learn from ``children`` of an order that were not reported before.

        ``profit`` is the profit of the whole order, in price times units, if the report completes it, otherwise None.
        """

    def on_public_data(self, public: PublicData) -> None:
        """Learn from public market data; called for routers with feedback F3."""

    def route(self, context: Context) -> Plan:
        """Return a plan for a new order; raise `StateError` if it is in flight or among the completed orders kept."""
        instance_of("context", context, Context, "a Context")
        self._refuse_known(context.order)
        plan = self.decide(context)
        self._under_way[context.order] = []
        return plan

    def record_plan(self, context: Context, plan: Plan) -> None:
        """Store the data that `on_fills` needs for an order with a plan made elsewhere; called by `follow`.

        The base implementation calls `decide` and ignores ``plan``; override it if `on_fills` needs the plan that was
        sent. If ``plan`` equals the router's own decision, the router must end up in the same state as after `decide`.
        """
        self.decide(context)

    def forget(self, order: str) -> None:
        """Drop the data of an order that will never complete."""

    def prepare(self) -> None:
        """Do expensive work now, between learning and the next decision."""

    def follow(self, context: Context, plan: Plan) -> None:
        """Register an order with a plan made elsewhere, to learn from its reports; raise the errors of `route`."""
        instance_of("context", context, Context, "a Context")
        instance_of("plan", plan, Plan, "a Plan")
        self._refuse_known(context.order)
        self.record_plan(context, plan)
        self._under_way[context.order] = []

    def abandon(self, order: str) -> None:
        """Drop an order, and ignore its later reports; raise `StateError` if it is not in flight."""
        if order not in self._under_way:
            raise StateError(f"order {order!r} is not in flight")
        del self._under_way[order]
        self._close(order)
        self.forget(order)

    def mark_done(self, order: str) -> None:
        """Mark an order as complete without learning from it; no effect if it is not in flight."""
        if self._under_way.pop(order, None) is not None:
            self._close(order)

    def learn(self, report: Report) -> None:
        """Learn from new children; ignore reports of completed orders, raise `StateError` if the order is unknown."""
        instance_of("report", report, Report, "a Report")
        known = self._under_way.get(report.order)
        if known is None:
            if report.order in self._done:
                return
            raise StateError(f"order {report.order!r} was never routed")
        children = tuple(child for child in report.children if child.child not in known)
        known.extend(child.child for child in children)
        if report.complete:
            del self._under_way[report.order]
            self._close(report.order)
        if children or report.complete:
            self.on_fills(report.order, children, report.profit if report.complete else None)

    def _refuse_known(self, order: str) -> None:
        if order in self._under_way or order in self._done:
            raise StateError(f"order {order!r} was routed before")

    def _close(self, order: str) -> None:
        self._done[order] = None
        while len(self._done) > self.remembered_orders:
            self._done.popitem(last=False)

    @property
    def under_way(self) -> tuple[str, ...]:
        """Orders that were routed and are not complete."""
        return tuple(self._under_way)

    @property
    def parameters(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {name: getattr(self, name) for name in self.parameter_names()}

    def state(self) -> dict[str, Any]:
        """Return the complete state as plain JSON values, from which `restore` rebuilds the router."""
        state: dict[str, Any] = to_plain(
            {
                "version": _STATE_VERSION,
                "router": self.name,
                "parameters": self.parameters,
                "memory": {name: getattr(self, name) for name in self.memory},
                "under_way": self._under_way,
                "done": list(self._done),
            }
        )
        return state

    @classmethod
    def restore(cls, state: Any) -> Self:
        """Rebuild a router from a saved state; raise `StateError` if it is not a valid state of this class."""
        if not isinstance(state, dict):
            raise StateError(f"state must be a dictionary that state() returned, was {described(state)}")
        for key, expected in (("version", _STATE_VERSION), ("router", cls.name)):
            if state.get(key) != expected:
                raise StateError(f"state {key} must be {expected!r}, was {state.get(key)!r}")
        try:
            router = cls(**state["parameters"])
            given = state["memory"]
            if set(given) != set(cls.memory):
                raise StateError(f"state memory must hold {sorted(cls.memory)}, had {sorted(given)}")
            for name, value in given.items():  # NaN would pass every comparison and spread through later plans
                check_finite_record(value, name)
            router.load_memory(given)
            router._under_way = from_plain(dict[str, list[int]], state["under_way"], "under_way")
            router._done = OrderedDict.fromkeys(from_plain(list[str], state["done"], "done"))
        except (KeyError, TypeError, ValueError, AttributeError, RiskrouteError) as error:
            what = str(error) if isinstance(error, RiskrouteError) else repr(error)
            raise StateError(f"state of {cls.name} must be one that state() returned: {what}") from error
        return router

    def load_memory(self, memory: dict[str, Any]) -> None:
        """Set the attributes listed in `memory` from plain values of the annotated types.

        Override this method to check more, or to restore what a property in `memory` saves.
        """
        for name, kind in _memory_types(type(self)).items():
            try:
                setattr(self, name, from_plain(kind, memory[name], name))
            except DataError as error:
                raise StateError(f"{name}: {error}") from None


_STATE_VERSION = 2
