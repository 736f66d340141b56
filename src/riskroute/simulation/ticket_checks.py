"""What must hold of a policy with many decisions out at once: a part of `riskroute.check_policy`."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np

from riskroute.core.errors import RiskrouteError
from riskroute.learning.actions import Action, as_action
from riskroute.learning.plan import Setting
from riskroute.learning.policy import Policy
from riskroute.learning.tickets import Ticket, Tickets

ROUNDS = 240
DEPTH = 20
SAVED = (15, 130)
ABANDONED, OTHERWISE = 0.04, 0.1
"""Parts of the tickets that are abandoned, and that are settled with another action."""

Rewards = Callable[[], Callable[[Action], float]]


def broken_ticket_property(policy: Policy, setting: Setting, decisions: list[Action], rewards: Rewards) -> str | None:
    """Return the first property that does not hold, or None; ``decisions`` are those of `Policy.select`."""
    try:
        return (
            _one_by_one(policy, setting, decisions, rewards)
            or _many_out(policy, setting, rewards)
            or _all_abandoned(policy, setting)
        )
    except RiskrouteError as error:
        return f"plays with many tickets out: {error}"


def _one_by_one(policy: Policy, setting: Setting, decisions: list[Action], rewards: Rewards) -> str | None:
    tickets, reward = Tickets(policy.clone().start(setting, 3)), rewards()
    for expected in decisions[:-1]:
        ticket = tickets.issue()
        if ticket.action != expected or not ticket.learned:
            return "tickets one by one give the decisions of select() and update()"
        tickets.settle(ticket.number, reward(ticket.action))
    holds = tickets.recommend() == decisions[-1] == tickets.issue().action
    return None if holds else "tickets go on with the recommendation after the horizon"


def _many_out(policy: Policy, setting: Setting, rewards: Rewards) -> str | None:
    """Settle in random sequence, in two runs of which one is saved and restored: both must decide alike."""
    once, saved = (_play(policy, setting, rewards, at) for at in ((), SAVED))
    if once != saved:
        return "tickets go on alike when they are saved while decisions are out"
    issued, learned, played = once
    members = set(map(as_action, setting.actions.listed().handles)) if setting.actions.size <= 10**4 else None
    if members is not None and not members.issuperset(issued):
        return "tickets carry actions of the set"
    return None if played == learned else f"every reward is learned once (of {learned}, {played} were)"


def _play(policy: Policy, setting: Setting, rewards: Rewards, saved: tuple[int, ...]) -> tuple[list[Action], int, int]:
    rng, reward = np.random.default_rng(5), rewards()
    tickets, out = Tickets(policy.clone().start(setting, 3)), list[Ticket]()
    issued, learned = list[Action](), 0

    def back(ticket: Ticket) -> int:
        if rng.random() < ABANDONED:
            tickets.abandon(ticket.number)
            return 0
        other = issued[0] if rng.random() < OTHERWISE else None
        tickets.settle(ticket.number, reward(ticket.action if other is None else other), other)
        return int(ticket.learned)

    for count in range(ROUNDS):
        if count in saved:
            state = json.loads(json.dumps(tickets.state(), allow_nan=False))
            tickets = Tickets.restore(state, setting.actions, type(policy))
        out.append(tickets.issue())
        issued.append(out[-1].action)
        if len(out) > DEPTH:
            learned += back(out.pop(int(rng.integers(len(out)))))
    while out:
        learned += back(out.pop())
    tickets.replan()
    unlearned = sum(tally.count for tally in (*tickets._tallies, *tickets._others.values()))
    return issued, learned, tickets.policy.played + unlearned


def _all_abandoned(policy: Policy, setting: Setting) -> str | None:
    tickets = Tickets(policy.clone().start(setting, 3))
    for _ in range(3):
        for ticket in [tickets.issue() for _ in range(DEPTH)]:
            tickets.abandon(ticket.number)
    holds = tickets.policy.played == 0 and not tickets.out and tickets.abandoned == 3 * DEPTH
    return None if holds else "abandoned tickets are not played"
