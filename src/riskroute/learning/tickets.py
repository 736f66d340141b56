"""Concurrent decisions: each is a ticket, and tickets are settled in any order as their rewards arrive.

`Policy.select` and `Policy.update` handle one round at a time. `Tickets` issues the rounds of the policy's plans
without waiting for earlier rewards, and collects rewards into the plan's tallies.

- A policy that may learn at any time (``waits`` is False) learns from the rewards received so far and makes a new plan
  as soon as all rounds of its plan are issued. Rewards that arrive later are learned with the next plan.
- A phased policy (``waits`` is True) ends a phase when all tickets of the phase are issued and settled or abandoned.
  Until then, tickets beyond the phase carry the policy's recommendation (in the first phase, which has none, an action
  of the plan), and their rewards are not learned.

With at most one open ticket, decisions equal those of `select` and `update`, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from riskroute.core.errors import DataError, InputError, RiskrouteError, StateError
from riskroute.core.records import from_plain, to_plain
from riskroute.core.text import described, shown
from riskroute.core.validation import LARGEST, instance_of, real_number, true_or_false, whole_number
from riskroute.learning.actions import Action, ActionSet, as_action, as_batch
from riskroute.learning.plan import Plan
from riskroute.learning.policy import Policy
from riskroute.learning.registry import restore_policy
from riskroute.learning.tally import Tallies, Tally

# Entries of tickets outside the current plan: a ticket of an earlier plan, and a ticket whose reward is not learned.
_EARLIER, _UNLEARNED = -1, -2


@dataclass(frozen=True)
class Ticket:
    """A decision: its number, its action, and whether the policy learns from its reward."""

    number: int
    action: Action
    learned: bool


class Tickets:
    """Issue decisions of a policy as tickets, and collect their rewards in any order.

    Parameters
    ----------
    policy : Policy
        A started policy that is not in the middle of a plan played by `select` and `update`.
    ahead : bool
        Leave all plans but the first to `replan`, so that `issue` is fast. When a plan is used up, further tickets
        repeat it, or carry the recommendation of a phased policy. Default: `issue` makes all plans.

    Examples
    --------
    >>> import numpy as np
    >>> import riskroute as rr
    >>> tickets = Tickets(rr.make_policy("greedy").start(rr.Setting(actions=rr.Actions(np.eye(2)))))
    >>> first, second, third = (tickets.issue() for _ in range(3))
    >>> [ticket.action for ticket in (first, second, third)], tickets.out
    ([0, 0, 1], (0, 1, 2))
    >>> tickets.settle(third.number, 0.5)
    >>> tickets.settle(first.number, 0.25, action=1)  # another action was played
    >>> tickets.abandon(second.number)
    >>> tickets.out, tickets.abandoned
    ((), 1)
    """

    def __init__(self, policy: Policy, *, ahead: bool = False) -> None:
        self.policy: Policy = instance_of("policy", policy, Policy, "a Policy")
        self.ahead = true_or_false("ahead", ahead)
        if policy.partial:
            raise StateError(f"{policy.name} is in the middle of a plan: finish it by update() before issuing tickets")
        self.abandoned = 0
        self._next = 0
        self._out: dict[int, tuple[int, Action]] = {}  # entry of the plan (or a marker) and action, by ticket number
        self._open = 0  # open tickets of the current plan
        self._waiting = 0  # open tickets whose rewards will be learned
        self._collected = 0  # rewards received and not learned yet
        self._restart()

    def _restart(self) -> None:
        self._entry = self._used = 0
        plan = self.policy.pending
        self._tallies: list[Tally] = [] if plan is None else [Tally() for _ in plan.counts]
        self._others: dict[Action, Tally] = {}

    @property
    def out(self) -> tuple[int, ...]:
        """Numbers of the open tickets: neither settled nor abandoned."""
        return tuple(self._out)

    def action(self, number: int) -> Action:
        """Return the action of an open ticket."""
        return self._known(number)[1]

    def issue(self) -> Ticket:
        """Return the next decision as an open ticket."""
        entry, action = self._decide()
        number, self._next = self._next, self._next + 1
        self._out[number] = entry, action
        if entry >= 0:
            self._open += 1
            self._waiting += 1
        return Ticket(number, action, entry >= 0)

    def settle(self, number: int, reward: float, action: Action | None = None) -> None:
        """Report the reward of a ticket, and the ``action`` actually played if it differs from the ticket's."""
        entry, asked = self._known(number)
        reward = real_number("reward", reward, minimum=-LARGEST, maximum=LARGEST)
        played = asked if action is None else self._member(action)
        self._return(number, entry)
        if entry == _UNLEARNED:
            return
        self._collected += 1
        one = Tally(1, reward, 0.0)
        if entry >= 0 and played == asked:
            self._tallies[entry] = self._tallies[entry].merge(one)
        else:
            self._others[played] = self._others.get(played, Tally()).merge(one)
        self._end_if_complete()

    def abandon(self, number: int) -> None:
        """Close a ticket whose reward will never be known; the round does not count as played."""
        entry, _ = self._known(number)
        self._return(number, entry)
        self.abandoned += 1
        self._end_if_complete()

    def replan(self) -> None:
        """Learn from the rewards received and make the next plan.

        Do nothing if the current phase is incomplete, or if no reward has arrived and the plan is not used up.
        """
        if self.policy.pending is not None and not self._must_wait() and (self._collected or self._handed_out()):
            self._conclude()
        if self.policy.pending is None:
            self._propose()

    def recommend(self) -> Action:
        """Return the policy's current recommendation."""
        return self.policy.recommend()

    def _decide(self) -> tuple[int, Action]:
        if self.policy.pending is None:
            self._propose()
        elif self._handed_out() and not self._must_wait() and not self._no_room():
            if not self.ahead:
                self._conclude()
                self._propose()
            elif not self.policy.waits:
                self._entry = self._used = 0
        plan = self.policy.pending
        if plan is None or self._handed_out():
            return _UNLEARNED, self._stand_in(plan)
        entry = self._entry
        self._used += 1
        if self._used == plan.counts[entry]:
            self._entry, self._used = entry + 1, 0
        return entry, as_action(plan.actions[entry])

    def _propose(self) -> None:
        if not self._no_room():
            self._tallies = [Tally() for _ in self.policy.plan().counts]

    def _handed_out(self) -> bool:
        """Whether all rounds of the plan, or all rounds left until the horizon, are issued."""
        plan = self.policy.pending
        assert plan is not None
        return self._entry == len(plan.counts) or self._no_room()

    def _no_room(self) -> bool:
        """Whether open tickets and unlearned rewards use up the horizon."""
        return self.policy.remaining <= self._waiting + self._collected

    def _must_wait(self) -> bool:
        """Whether the policy is in an unfinished phase."""
        return self.policy.waits and (self._open > 0 or not self._handed_out())

    def _stand_in(self, plan: Plan | None) -> Action:
        """Return the action of a ticket whose reward is not learned: the recommendation, else an entry of the plan."""
        try:
            return self.policy.recommend()
        except StateError:  # the policy cannot recommend an action yet
            if plan is None:
                raise
            return as_action(plan.actions[self._next % len(plan.counts)])

    def _return(self, number: int, entry: int) -> None:
        del self._out[number]
        if entry != _UNLEARNED:
            self._waiting -= 1
        if entry >= 0:
            self._open -= 1

    def _end_if_complete(self) -> None:
        if self.ahead or self._open > 0:
            return
        if self.policy.pending is None:  # the horizon is used up: only rewards are outstanding
            if self._collected and not self._waiting:
                self._conclude()
        elif self._handed_out():
            self._conclude()

    def _conclude(self) -> None:
        """Learn from the rewards received; mark open tickets as belonging to an earlier plan."""
        plan = self.policy.pending
        back = [k for k, tally in enumerate(self._tallies) if tally.count]
        actions = [] if plan is None or not back else [plan.actions[back]]
        if self._others:
            actions.append(as_batch(*self._others))
        rows = [self._tallies[k] for k in back] + list(self._others.values())
        self.policy.conclude(Tallies.of(np.concatenate(actions), rows) if rows else None)
        self._out = {number: (min(entry, _EARLIER), action) for number, (entry, action) in self._out.items()}
        self._open = self._collected = 0
        self._restart()

    def _known(self, number: int) -> tuple[int, Action]:
        found = self._out.get(number) if type(number) is int else None
        if found is None:
            raise InputError(f"ticket must be the number of an open ticket, was {shown(number)}")
        return found

    def _member(self, action: Action) -> Action:
        given = tuple(action) if isinstance(action, list) else action
        numbers = given if isinstance(given, tuple) else (given,)
        if not all(type(number) is int for number in numbers):
            raise InputError(f"action must be a handle of the action set, was {shown(action)}")
        batch = as_batch(given)
        if not self.policy.setting.actions.contains(batch).all():
            raise InputError(f"action must belong to the action set, was {shown(action)}")
        return as_action(batch[0])

    def state(self) -> dict[str, Any]:
        """Return the complete state as plain JSON values."""
        return {
            "policy": self.policy.state(),
            "ahead": self.ahead,
            "abandoned": self.abandoned,
            "next": self._next,
            "out": [[number, entry, to_plain(action)] for number, (entry, action) in self._out.items()],
            "place": [self._entry, self._used],
            "tallies": to_plain(self._tallies),
            "others": [to_plain((action, tally)) for action, tally in self._others.items()],
        }

    @classmethod
    def restore(cls, state: dict[str, Any], actions: ActionSet, kind: type[Policy] | None = None) -> Self:
        """Rebuild tickets and policy over the same actions; ``kind``: the policy's class, if it is not registered."""
        if not isinstance(state, dict):
            raise StateError(f"state must be a dictionary that state() returned, was {described(state)}")
        try:
            saved = state["policy"]
            policy = restore_policy(saved, actions) if kind is None else kind.restore(saved, actions)
            tickets = cls(policy, ahead=state["ahead"])
            tickets._recall(state)
        except (KeyError, TypeError, ValueError, AttributeError, InputError, DataError) as error:
            what = str(error) if isinstance(error, RiskrouteError) else repr(error)
            raise StateError(f"state of tickets must be one that state() returned: {what}") from error
        return tickets

    def _recall(self, state: dict[str, Any]) -> None:
        self.abandoned = whole_number("abandoned", state["abandoned"], minimum=0)
        self._next = whole_number("next", state["next"], minimum=0)
        self._entry, self._used = (whole_number("place", number, minimum=0) for number in state["place"])
        self._tallies = from_plain(list[Tally], state["tallies"], "tallies")
        plan = self.policy.pending
        length = 0 if plan is None else len(plan.counts)
        if len(self._tallies) != length or self._entry > length:
            raise InputError(
                f"expected {length} tallies and a place of at most {length}, got {len(self._tallies)} and {self._entry}"
            )
        self._others = {self._member(a): from_plain(Tally, tally, "a tally") for a, tally in state["others"]}
        for number, entry, action in state["out"]:
            if whole_number("entry", entry, minimum=_UNLEARNED) >= length:
                raise InputError(f"entry of a ticket must be below {length}, was {entry}")
            self._out[whole_number("ticket", number, minimum=0)] = entry, self._member(action)
        self._open = sum(entry >= 0 for entry, _ in self._out.values())
        self._waiting = sum(entry != _UNLEARNED for entry, _ in self._out.values())
        self._collected = sum(tally.count for tally in (*self._tallies, *self._others.values()))
