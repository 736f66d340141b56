"""Any policy as a router: it learns one split for all orders from their profits, and never looks at the books."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from riskroute.errors import InputError, StateError, shown
from riskroute.learning.plan import Setting
from riskroute.learning.policy import Policy
from riskroute.learning.registry import POLICIES, make_policy, restore_policy
from riskroute.parameters import parameter
from riskroute.routers.context import Context
from riskroute.routers.plan import Plan
from riskroute.routers.report import ChildReport
from riskroute.routers.router import Router
from riskroute.routers.static_split import split_plan
from riskroute.routing.allocations import Allocations
from riskroute.validation import instance_of, one_of, real_number, whole_number

LEAST_KAPPA = 1e-6


@dataclass
class PolicyRouter(Router):
    """Split orders over venues and pools as a policy of `riskroute.policies` decides.

    An order is divided into ``units``. Ways to split it are the policy's actions, and the reward is the profit of the
    order in basis points. While the outcome of a split is awaited, further orders are split the same way, and nothing
    is learned from them. Venues and pools are those of the first order; shares for one that is absent later are swept.

    Parameters
    ----------
    policy : str
        Its name.
    kappa : float
        Basis points charged for a squared basis point of deviation: the risk tolerance is ``1 / kappa``.
    units : int
        Number of equal parts into which an order is divided.
    rounds : int
        Number of orders to come, for policies that must know it; after them the recommended split is sent.
    seed : int
        Seed of the policy's own random numbers.
    parameters_of_policy : dict[str, Any]
        Its parameters.

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
    memory: ClassVar[tuple[str, ...]] = ("places", "learned", "asked", "action", "notional")
    policy: str = parameter("adaptive", one_of, choices=tuple(POLICIES))
    kappa: float = parameter(0.05, real_number, minimum=0)
    units: int = parameter(10, whole_number, maximum=1000)
    rounds: int = parameter(10_000, whole_number)
    seed: int = parameter(0, whole_number, minimum=0)
    parameters_of_policy: dict[str, Any] = field(default_factory=dict)

    def check_parameters(self) -> None:
        given = instance_of("parameters_of_policy", self.parameters_of_policy, dict, "parameters by name")
        if not all(isinstance(name, str) for name in given):
            raise InputError(f"parameters_of_policy must be parameters by name, was {shown(given)}")
        make_policy(self.policy, **given)

    def begin(self) -> None:
        self.places: list[list[str]] = []
        self.asked = ""
        """The order whose outcome is awaited."""
        self.action: list[int] = []
        self.notional = 0.0
        self._policy: Policy | None = None

    @property
    def learned(self) -> dict[str, Any] | None:
        """The state of the policy; None before the first order."""
        return self._policy.state() if self._policy is not None else None

    def decide(self, context: Context) -> Plan:
        if self._policy is None:
            venues, pools = context.books.venues, context.pools
            self.places = [["take", name] for name in venues] + [["dark", pool.name] for pool in pools]
            tolerance = 1 / max(self.kappa, LEAST_KAPPA)
            setting = Setting(actions=self._actions(), horizon=self.rounds, risk_tolerance=tolerance)
            self._policy = make_policy(self.policy, **self.parameters_of_policy).start(setting, self.seed)
        if not self.asked:
            done = self._policy.remaining <= 0
            chosen = self._policy.recommend() if done else self._policy.select()
            self.action = [int(units) for units in np.atleast_1d(chosen)]
            self.asked, self.notional = ("" if done else context.order), context.mid * context.shares
        return self._plan(context, self.action)

    def greedy(self, context: Context) -> Plan | None:
        try:
            best = self._policy.recommend() if self._policy is not None else None
        except StateError:  # nothing seems best yet
            best = None
        return self._plan(context, [int(units) for units in np.atleast_1d(best)]) if best is not None else None

    def _plan(self, context: Context, action: list[int]) -> Plan:
        return split_plan(context, [(kind, place) for kind, place in self.places], action)

    def _actions(self) -> Allocations:
        return Allocations(shares=self.units, slots=len(self.places))

    def absorb(self, order: str, children: tuple[ChildReport, ...], profit: float | None) -> None:
        if profit is not None and order == self.asked and self._policy is not None:
            self._policy.update(tuple(self.action), 1e4 * profit / self.notional)
            self.asked = ""

    def recall(self, memory: dict[str, Any]) -> None:
        self.places = [[str(kind), str(place)] for kind, place in memory["places"]]
        self.asked, self.action = str(memory["asked"]), [int(n) for n in memory["action"]]
        self.notional = real_number("notional", memory["notional"])
        if memory["learned"] is not None:
            self._policy = restore_policy(memory["learned"], self._actions())
