"""Tickets: many decisions out, settled in any order, with other actions, or abandoned."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest

from riskroute import POLICIES, Actions, InputError, Policy, Setting, StateError, make_policy
from riskroute.learning.tickets import Ticket, Tickets
from riskroute.policies import Oracle
from riskroute.routing.allocations import Allocations
from riskroute.simulation.checks import _easy_problem
from riskroute.simulation.environments import Environment

PROBLEM = _easy_problem()
ROUNDS = 300
SETTING = Environment(PROBLEM).setting(ROUNDS)


def policy_named(name: str) -> Policy:
    return Oracle(schedule=((0, PROBLEM.best),)) if name == "oracle" else make_policy(name)


def rewards() -> Any:
    return Environment(PROBLEM).run(np.random.default_rng(2)).reward


@pytest.mark.parametrize("name", POLICIES)
def test_delayed_learning_changes_nothing_when_nothing_is_delayed(name: str) -> None:
    plain, tickets = policy_named(name).start(SETTING, 3), Tickets(policy_named(name).start(SETTING, 3))
    one, two = rewards(), rewards()
    for _ in range(ROUNDS):
        action, ticket = plain.select(), tickets.issue()
        assert ticket.action == action
        plain.update(action, one(action))
        tickets.settle(ticket.number, two(action))
        if plain.pending is None:
            assert tickets.policy.state() == plain.state()
    assert tickets.policy.state() == plain.state()
    assert tickets.issue() == Ticket(ROUNDS, plain.recommend(), learned=False)


def test_a_phase_ends_when_its_tickets_are_settled_or_abandoned() -> None:
    policy = make_policy("rise", explore_multiplier=0.5).start(SETTING, 3)
    plan, tickets = policy.plan(), Tickets(policy)
    phase = [tickets.issue() for _ in range(plan.rounds)]
    assert Counter(ticket.action for ticket in phase) == dict(zip(plan.actions.tolist(), plan.counts, strict=True))
    meanwhile = tickets.issue()
    assert not meanwhile.learned
    for ticket in phase[2:]:
        tickets.settle(ticket.number, 0.1 * ticket.number)
    assert tickets.policy.pending is not None
    tickets.abandon(phase[0].number)
    tickets.settle(phase[1].number, 0.1)
    assert tickets.policy.pending is None
    assert tickets.policy.played == plan.rounds - 1
    assert tickets.issue().action == tickets.recommend()
    tickets.settle(meanwhile.number, 1e5)  # not of the phase: nothing is learned
    assert tickets.policy.played == plan.rounds - 1


@pytest.mark.parametrize("part", [0.1, 0.8])
def test_phases_go_on_although_some_tickets_never_settle(part: float) -> None:
    """With a tenth of the tickets abandoned, actions are eliminated; with most of them the phase is played again."""
    tickets = Tickets(make_policy("rise++", constant=0.1).start(SETTING, 3))
    rng, reward = np.random.default_rng(1), rewards()
    for _ in range(ROUNDS):
        ticket = tickets.issue()
        if rng.random() < part:
            tickets.abandon(ticket.number)
        else:
            tickets.settle(ticket.number, reward(ticket.action))
    assert bool(tickets.policy.cuts) == (part < 0.25)  # type: ignore[attr-defined]  # of a phased policy


def test_another_action_than_asked_for_is_learned_as_it_happened() -> None:
    setting = Setting(actions=Allocations(shares=4, slots=3))
    tickets = Tickets(make_policy("adaptive").start(setting, 1))
    out = [tickets.issue() for _ in range(40)]
    for ticket in out:
        tickets.settle(ticket.number, 1.0, action=(4, 0, 0))
    tickets.replan()
    observations = tickets.policy.observations  # type: ignore[attr-defined]  # of a linear policy
    assert observations.counts.tolist() == [40.0]
    assert observations.features.tolist() == setting.actions.features(np.array([[4, 0, 0]])).tolist()


def test_late_rewards_are_learned_with_the_next_plan() -> None:
    tickets = Tickets(make_policy("thompson").start(SETTING, 1))
    out = [tickets.issue() for _ in range(100)]
    assert tickets.policy.played == 0
    for ticket in reversed(out):
        tickets.settle(ticket.number, 0.5)
    more = tickets.issue()
    while tickets.policy.played == 0:
        more = tickets.issue()
    assert tickets.policy.played == 100
    assert more.number in tickets.out


def test_decisions_ahead_come_from_a_plan_that_only_replan_renews() -> None:
    policy = make_policy("adaptive").start(SETTING, 1)
    tickets, reward = Tickets(policy, ahead=True), rewards()
    for _ in range(5):
        tickets.replan()
        plan = policy.pending
        assert plan is not None
        planned = np.repeat(plan.actions, plan.counts).tolist()
        out = [tickets.issue() for _ in range(2 * len(planned))]
        assert [ticket.action for ticket in out] == 2 * planned
        assert policy.pending is plan
        for ticket in out:
            tickets.settle(ticket.number, reward(ticket.action))
        assert policy.pending is plan
    assert 0 < policy.played < ROUNDS


def test_the_horizon_is_never_exceeded() -> None:
    tickets = Tickets(make_policy("lin-ucb").start(Setting(actions=Actions(np.eye(3)), horizon=10), 1))
    out = [tickets.issue() for _ in range(25)]
    assert sum(ticket.learned for ticket in out) == 10
    for ticket in out:
        tickets.settle(ticket.number, 0.1)
    assert tickets.policy.played == 10


def test_bad_tickets_are_refused() -> None:
    policy = make_policy("uniform").start(SETTING)
    tickets = Tickets(policy)
    number = tickets.issue().number
    with pytest.raises(InputError, match="ticket must be the number of an open ticket, was 7"):
        tickets.settle(7, 0.1)
    with pytest.raises(InputError, match="action must belong to the action set, was 99"):
        tickets.settle(number, 0.1, action=99)
    with pytest.raises(InputError, match=r"action must be a handle of the action set, was 0\.5"):
        tickets.settle(number, 0.1, action=0.5)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="reward must be"):
        tickets.settle(number, float("nan"))
    tickets.settle(number, 0.1)
    with pytest.raises(InputError, match="ticket must be the number of an open ticket, was 0"):
        tickets.abandon(number)
    begun = make_policy("uniform").start(SETTING)
    begun.update(begun.select(), 0.0)
    with pytest.raises(StateError, match="in the middle of a plan"):
        Tickets(begun)


@pytest.mark.parametrize(
    "damage", [{"place": [9**9, 0]}, {"out": [[0, 5, 1]]}, {"next": -1}, {"tallies": []}, {"policy": {}}]
)
def test_damaged_states_are_refused(damage: dict[str, Any]) -> None:
    tickets = Tickets(make_policy("greedy").start(SETTING))
    tickets.issue()
    state = json.loads(json.dumps(tickets.state()))
    assert Tickets.restore(state, SETTING.actions).state() == state
    with pytest.raises(StateError):
        Tickets.restore(state | damage, SETTING.actions)
    with pytest.raises(StateError):
        Tickets.restore([], SETTING.actions)  # type: ignore[arg-type]
