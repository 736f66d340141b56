"""Router that follows a bandit policy: one split for all orders, learned from their profits alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from riskroute.core.errors import InputError, StateError
from riskroute.core.records import Count, Positive
from riskroute.core.text import shown
from riskroute.core.validation import instance_of, one_of, parameter, true_or_false, whole_number
from riskroute.learning.plan import Setting
from riskroute.learning.policies.linear_policy import LinearPolicy
from riskroute.learning.registry import POLICIES, make_policy
from riskroute.learning.tickets import Tickets
from riskroute.routers.context import Context
from riskroute.routers.plan import Plan
from riskroute.routers.report import ChildReport
from riskroute.routers.risk import BALANCED, RiskProfile, risk_profile
from riskroute.routers.router import Router, RouterBelief
from riskroute.routers.rules import split_rule_plan
from riskroute.routing.allocations import Allocations


@dataclass
class _OpenOutcome:
    """Order without a reported profit: its ticket, value at the mid, and split if it is not the policy's."""

    ticket: Count
    notional: Positive
    other: list[int] | None = None


@dataclass
class PolicyRouter(Router):
    """Split orders over venues and pools by a policy of `riskroute.policies`.

    An order is divided into ``units`` units. The policy's actions are the splits of an order; the reward is its profit
    in basis points. While ``awaited`` outcomes are open, further orders repeat the last split and are not learned from.
    Venues and pools are those of the first order; shares for a venue or pool missing from a later one are swept.

    Parameters
    ----------
    policy : str
        Name of the policy.
    risk : RiskProfile
        Risk profile, its name, or kappa: the risk tolerance is ``1 / kappa``, at most 1e6. The tail is not capped.
    units : int
        Number of equal units per order.
    rounds : int
        Horizon in orders, for policies that need one; afterwards the recommended split is sent.
    seed : int
        Seed of the policy.
    parameters_of_policy : dict[str, Any]
        Parameters of the policy.
    awaited : int
        Maximum number of open outcomes.
    ahead : bool
        Plan only in `prepare`, so that decisions are fast; see `riskroute.learning.tickets`.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> books = {"venues": {name: {"bids": [[10.0, 900]], "asks": [[10.02, 900]]} for name in ("XNAS", "XPSX")}}
    >>> plan = PolicyRouter("uniform").route(read_context(books, side="sell", shares=1000))
    >>> sum(plan.take.values()), plan.trade_through
    (1000, True)
    """

    name: ClassVar[str] = "policy"
    feedback: ClassVar[str] = "F1"
    memory: ClassVar[tuple[str, ...]] = ("places", "learned", "action", "awaiting")
    places: list[tuple[str, str]] = field(init=False, repr=False)  # kind of child, and venue or pool
    action: list[int] = field(init=False, repr=False)  # units of the last split
    awaiting: dict[str, _OpenOutcome] = field(init=False, repr=False)
    policy: str = parameter("adaptive", one_of, choices=tuple(POLICIES))
    risk: RiskProfile = parameter(BALANCED, risk_profile)
    units: int = parameter(10, whole_number, maximum=1000)
    rounds: int = parameter(10_000, whole_number)
    seed: int = parameter(0, whole_number, minimum=0)
    parameters_of_policy: dict[str, Any] = field(default_factory=dict)
    awaited: int = parameter(1, whole_number, maximum=1_000_000)
    ahead: bool = parameter(False, true_or_false)

    def check_parameters(self) -> None:
        given = instance_of("parameters_of_policy", self.parameters_of_policy, dict, "parameters by name")
        if not all(isinstance(name, str) for name in given):
            raise InputError(f"parameters_of_policy must be parameters by name, was {shown(given)}")
        make_policy(self.policy, **given)

    def begin(self) -> None:
        self.places, self.action, self.awaiting = [], [], {}
        self._tickets: Tickets | None = None

    @property
    def learned(self) -> dict[str, Any] | None:
        """State of the policy and its tickets; None before the first order."""
        return self._tickets.state() if self._tickets is not None else None

    def decide(self, context: Context) -> Plan:
        if self._tickets is None:
            venues, pools = context.books.venues, context.pools
            self.places = [("take", name) for name in venues] + [("dark", pool.name) for pool in pools]
            tolerance = 1 / max(self.risk.kappa, 1e-6)
            setting = Setting(actions=self._actions(), horizon=self.rounds, risk_tolerance=tolerance)
            policy = make_policy(self.policy, **self.parameters_of_policy).start(setting, self.seed)
            self._tickets = Tickets(policy, ahead=self.ahead)
        if len(self.awaiting) < self.awaited:
            ticket = self._tickets.issue()
            self.action = [int(units) for units in np.atleast_1d(ticket.action)]
            if ticket.learned:
                self.awaiting[context.order] = _OpenOutcome(ticket.number, context.mid * context.shares)
            else:
                self._tickets.abandon(ticket.number)
        return split_rule_plan(context, self.places, self.action)

    def record_plan(self, context: Context, plan: Plan) -> None:
        ours = self.decide(context)
        if (dict(plan.take), dict(plan.dark)) == (ours.take, ours.dark) or context.order not in self.awaiting:
            return
        other = self._units_of(context, plan)
        if other is None:
            self.forget(context.order)
        else:
            self.awaiting[context.order].other = other

    def _units_of(self, context: Context, plan: Plan) -> list[int] | None:
        """Return a plan's split in units; None if a quantity is not a whole number of units."""
        shares = [getattr(plan, kind).get(place, 0) for kind, place in self.places]
        units = [round(self.units * some / context.shares) for some in shares]
        exact = all(count * context.shares == some * self.units for count, some in zip(units, shares, strict=True))
        return units if exact and sum(units) == self.units else None

    def forget(self, order: str) -> None:
        found = self.awaiting.pop(order, None)
        if found is not None and self._tickets is not None:
            self._tickets.abandon(found.ticket)

    def prepare(self) -> None:
        if self._tickets is not None:
            self._tickets.replan()

    def greedy(self, context: Context) -> Plan | None:
        try:
            best = self._tickets.recommend() if self._tickets is not None else None
        except StateError:  # no recommendation yet
            best = None
        return split_rule_plan(context, self.places, np.atleast_1d(best).tolist()) if best is not None else None

    def beliefs(self) -> tuple[RouterBelief, ...]:
        policy = self._tickets.policy if self._tickets is not None else None
        if not isinstance(policy, LinearPolicy) or policy.belief is None:
            return ()
        belief = policy.belief
        rows = policy.setting.actions.features(self.units * np.eye(len(self.places), dtype=np.int64))
        means = rows @ belief.mean_coef
        variances = np.einsum("kd,de,ke->k", rows, belief.mean_covariance, rows)
        deviations = np.sqrt(np.maximum(variances, 0.0))
        what = "profit of sending the whole order there"
        return tuple(
            RouterBelief(place, what, mean, deviation, "bp", belief.rounds)
            for (_, place), mean, deviation in zip(self.places, means.tolist(), deviations.tolist(), strict=True)
        )

    def _actions(self) -> Allocations:
        return Allocations(shares=self.units, slots=len(self.places))

    def on_fills(self, order: str, children: tuple[ChildReport, ...], profit: float | None) -> None:
        if profit is not None and order in self.awaiting and self._tickets is not None:
            found = self.awaiting.pop(order)
            other = None if found.other is None else tuple(found.other)
            self._tickets.settle(found.ticket, 1e4 * profit / found.notional, other)

    def load_memory(self, memory: dict[str, Any]) -> None:
        super().load_memory(memory)
        if memory["learned"] is not None:
            self._tickets = Tickets.restore(memory["learned"], self._actions())
            if set(self._tickets.out) != {one.ticket for one in self.awaiting.values()}:
                raise StateError("orders with an open outcome must match the open tickets")
