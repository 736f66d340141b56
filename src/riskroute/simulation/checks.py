"""Conformance checks that users can run on their own policies, action sets, environments and routers.

A check raises `CheckError` at the first violated property; errors raised by the checked object are passed on.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from riskroute.core.errors import CheckError, InputError, RiskrouteError, StateError
from riskroute.core.validation import instance_of, true_or_false, whole_number
from riskroute.learning.actions import Action, Actions, ActionSet, as_action, as_batch
from riskroute.learning.plan import Plan, Setting
from riskroute.learning.policies.linear_policy import LinearPolicy
from riskroute.learning.policy import Policy
from riskroute.learning.problem import Problem
from riskroute.learning.tally import Tallies, Tally
from riskroute.learning.tickets import Ticket, Tickets
from riskroute.routers.context import Context, read_context
from riskroute.routers.plan import Plan as RouterPlan
from riskroute.routers.report import ChildReport, Report
from riskroute.routers.router import FEEDBACK, Router
from riskroute.simulation.environments import Environment
from riskroute.simulation.runner import simulate

_DEPTH = 20  # number of tickets outstanding at once
_HORIZON = 600
_UNITS_HORIZON = 200
_ORDERS = 60


def _require(holds: Any, subject: object, property_: str) -> None:
    if not holds:
        raise CheckError(f"{subject}: {property_}")


def _easy_problem() -> Problem:
    angles = np.linspace(0, np.pi / 2, 12)
    features = np.column_stack([np.cos(angles), np.sin(angles), np.sin(2 * angles) / 2])
    mean, variance = np.array([0.9, -0.2, -0.3]), np.array([-0.5, 0.5, 0.3])
    return Problem(actions=Actions.scaled(features), mean_coef=mean, var_coef=variance)


def _strong_check_problem(seed: int) -> Problem:
    """Return a problem of twenty actions with means up to 10,000 noise deviations apart, and a clear winner."""
    rng = np.random.default_rng(seed)
    while True:
        features, coef = rng.uniform(0.05, 1.0, (20, 3)), rng.standard_normal(3)
        means = np.sort(features @ coef)
        if means[-1] - means[-2] > 0.01 * (means[-1] - means[0]):
            coef *= 1e4 / (means[-1] - means[0])
            return Problem(actions=Actions(features), mean_coef=coef, var_coef=np.zeros(3), check_norms=False)


def check_policy(policy: Policy, *, learns: bool = True) -> None:
    """Check seeding, save and restore, independence of clones, all forms of play, memory, learning and bad input.

    A ticket (`riskroute.learning.tickets`) is an action whose reward arrives later. With one ticket at a time, actions
    must equal those of `Policy.select`. With many, settled in random order, for other actions or never, every reward
    that arrives must be learned exactly once, even if the policy is saved and restored in between.

    A ``unit_free`` policy must make the same decisions in every unit of reward. Every policy must beat uniform play. A
    `LinearPolicy` must quickly find the best action if means lie thousands of standard deviations of the noise apart.
    ``learns=False`` skips the last two tests.
    """
    instance_of("policy", policy, Policy, "a Policy")
    true_or_false("learns", learns)
    setting = Environment(_easy_problem()).setting(_HORIZON)
    (decisions, size), again = (_episode(policy.clone().start(setting, 3), _HORIZON) for _ in range(2))
    _require((decisions, size) == again, policy.name, "the same seed and rewards must give the same decisions")
    _check_restore(policy, setting, decisions)
    _check_clones(policy, setting, decisions)
    _check_plans_equal_rounds(policy, setting, decisions)
    try:
        _check_tickets(policy, setting, decisions)
    except CheckError:
        raise
    except RiskrouteError as error:
        raise CheckError(f"{policy.name}: must handle many outstanding tickets: {error}") from error
    _check_memory(policy, setting, size)
    _check_edges(policy)
    _check_bad_input(policy, setting)
    if policy.unit_free:
        _check_units(policy, dataclasses.replace(setting, horizon=_UNITS_HORIZON))
    if learns:
        _check_learning(policy)
        if isinstance(policy, LinearPolicy):
            _check_strong_signals(policy)


def _rewards() -> Callable[[Action], float]:
    """Return a function that draws rewards of the easy problem; all such functions draw the same sequence."""
    return Environment(_easy_problem()).run(np.random.default_rng(7)).reward


def _trace(policy: Policy, rounds: int, reward: Callable[[Action], float]) -> list[Action]:
    actions = []
    for _ in range(rounds):
        actions.append(policy.select())
        policy.update(actions[-1], reward(actions[-1]))
    return actions


def _episode(running: Policy, rounds: int) -> tuple[list[Action], int]:
    decisions = _trace(running, rounds, _rewards())
    size = len(json.dumps(running.state()))
    return [*decisions, running.recommend()], size


def _check_restore(policy: Policy, setting: Setting, expected: list[Action]) -> None:
    running, reward, last = policy.clone().start(setting, 3), _rewards(), 0
    for saved_at in (0, 1, 37, 211, _HORIZON - 1, _HORIZON):
        decisions = _trace(running, saved_at - last, reward)
        _require(
            decisions == expected[last:saved_at],
            policy.name,
            f"must make the same decisions when saved after {last} rounds",
        )
        saved, last = running.state(), saved_at
        running = type(policy).restore(json.loads(json.dumps(saved, allow_nan=False)), setting.actions)
        _require(running.state() == saved, policy.name, f"state must survive a save after {saved_at} rounds")
    _require(running.recommend() == expected[-1], policy.name, "must recommend the same action once saved and restored")
    other = Actions.scaled(np.eye(3))
    state = policy.clone().start(setting).state()
    _expect(StateError, lambda: type(policy).restore(state, other), policy.name, "must refuse another action set")
    old = state | {"version": 0}
    _expect(StateError, lambda: type(policy).restore(old, setting.actions), policy.name, "must refuse another version")


def _replay(values: np.ndarray[Any, Any]) -> Callable[[Action], float]:
    source = iter(values.tolist())
    return lambda action: float(next(source))


def _check_clones(policy: Policy, setting: Setting, expected: list[Action]) -> None:
    original, reward = policy.clone().start(setting, 3), _rewards()
    _trace(original, 50, reward)
    before = json.dumps(original.state())
    clone = original.clone()
    _require(clone == original and not clone.started, policy.name, "a clone must have the parameters, not the state")
    _trace(clone.start(setting, 9), 50, _rewards())
    _require(json.dumps(original.state()) == before, policy.name, "running a clone must not change the original")
    _require(
        _trace(original, 50, reward) == expected[50:100],
        policy.name,
        "must make the same decisions when saved and cloned",
    )


def _check_plans_equal_rounds(policy: Policy, setting: Setting, expected: list[Action]) -> None:
    decisions, reward = list[Action](), _rewards()
    planner = policy.clone().start(setting, 3)
    while planner.remaining:
        plan, tallies = planner.plan(), []
        for row, n in zip(plan.actions, plan.counts.tolist(), strict=True):
            action = as_action(row)
            tallies.append(Tally.of([reward(action) for _ in range(n)]))
            decisions.extend([action] * n)
        planner.learn(Tallies.of(plan.actions, tallies))
    decisions.append(planner.recommend())
    _require(decisions == expected, policy.name, "plans and rounds must give the same decisions for the same rewards")


def _check_tickets(policy: Policy, setting: Setting, decisions: list[Action]) -> None:
    """Check tickets one by one, many at a time, and abandoned; ``decisions`` were made by `Policy.select`."""
    tickets, reward = Tickets(policy.clone().start(setting, 3)), _rewards()
    for expected in decisions[:-1]:
        ticket = tickets.issue()
        alike = ticket.action == expected and ticket.learned
        _require(alike, policy.name, "tickets one by one must give the decisions of select() and update()")
        tickets.settle(ticket.number, reward(ticket.action))
    holds = tickets.recommend() == decisions[-1] == tickets.issue().action
    _require(holds, policy.name, "tickets must carry the recommendation after the horizon")
    once, saved = (_settle_at_random(policy, setting, at) for at in ((), (15, 130)))
    _require(once == saved, policy.name, "a save with tickets outstanding must not change decisions")
    issued, learned, played = once
    members = set(map(as_action, setting.actions.listed().handles))
    _require(members.issuperset(issued), policy.name, "tickets must carry actions of the set")
    _require(played == learned, policy.name, f"every reward must be learned once ({played} of {learned} were)")
    tickets = Tickets(policy.clone().start(setting, 3))
    for _ in range(3):
        for ticket in [tickets.issue() for _ in range(_DEPTH)]:
            tickets.abandon(ticket.number)
    holds = tickets.policy.played == 0 and not tickets.out and tickets.abandoned == 3 * _DEPTH
    _require(holds, policy.name, "abandoned tickets must not be learned")


def _settle_at_random(policy: Policy, setting: Setting, saves: tuple[int, ...]) -> tuple[list[Action], int, int]:
    """Settle tickets in random order, with a save at each count in ``saves``; return actions and counts of rewards."""
    rng, reward = np.random.default_rng(5), _rewards()
    tickets, out = Tickets(policy.clone().start(setting, 3)), list[Ticket]()
    issued, learned = list[Action](), 0

    def back(ticket: Ticket) -> int:
        if rng.random() < 0.04:
            tickets.abandon(ticket.number)
            return 0
        other = issued[0] if rng.random() < 0.1 else None  # sometimes another action than the ticket's was played
        tickets.settle(ticket.number, reward(ticket.action if other is None else other), other)
        return int(ticket.learned)

    for count in range(240):
        if count in saves:
            state = json.loads(json.dumps(tickets.state(), allow_nan=False))
            tickets = Tickets.restore(state, setting.actions, type(policy))
        out.append(tickets.issue())
        issued.append(out[-1].action)
        if len(out) > _DEPTH:
            learned += back(out.pop(int(rng.integers(len(out)))))
    while out:
        learned += back(out.pop())
    tickets.replan()
    unlearned = sum(tally.count for tally in (*tickets._tallies, *tickets._others.values()))
    return issued, learned, tickets.policy.played + unlearned


def _check_memory(policy: Policy, setting: Setting, size: int) -> None:
    longer = dataclasses.replace(setting, horizon=4 * _HORIZON)
    _, then = _episode(policy.clone().start(longer, 3), 4 * _HORIZON)
    # 8,000 characters are fewer than five for each additional round
    _require(then < size + 8000, policy.name, f"memory must be bounded (state of {size}, then {then} characters)")


def _check_edges(policy: Policy) -> None:
    cases = {
        "one action": (np.array([[0.6, 0.8]]), 50),
        "equal actions": (np.tile([0.6, 0.8], (5, 1)), 50),
        "only zero features": (np.zeros((2, 3)), 20),
        "one dimension": (np.linspace(-1, 1, 5)[:, None], 50),
        "a horizon of one round": (np.eye(4), 1),
        "fewer rounds than actions": (np.vstack([np.eye(4), -np.eye(4)]), 3),
    }
    for case, (features, horizon) in cases.items():
        setting = Setting(actions=Actions(features), horizon=horizon)
        running = policy.clone().start(setting, 3)
        actions = _trace(running, horizon, _replay(np.random.default_rng(0).normal(size=horizon)))
        legal = all(isinstance(a, int) and 0 <= a < len(features) for a in [*actions, running.recommend()])
        _require(legal, policy.name, f"must play and recommend actions of the set, with {case}")
        _expect(StateError, running.select, policy.name, f"must stop at the horizon, with {case}")


def _check_bad_input(policy: Policy, setting: Setting) -> None:
    _expect(StateError, policy.clone().select, policy.name, "must refuse to select before it is started")
    running = policy.clone().start(setting)
    action = running.select()
    nan = float("nan")
    _expect(InputError, lambda: running.update(action, nan), policy.name, "must refuse a reward that is not finite")
    wrong = (action if isinstance(action, int) else 0) + 1
    _expect(InputError, lambda: running.update(wrong, 0.0), policy.name, "must refuse a reward for another action")
    plan = running.plan()
    none = np.zeros(len(plan.counts))
    short = Tallies(plan.actions, plan.counts + 1, none, none)
    _expect(InputError, lambda: running.learn(short), policy.name, "must refuse tallies that do not match the plan")


def _check_learning(policy: Policy) -> None:
    """Require at most 80 % of uniform play's regret: in the mean of four runs, or clearly (40 %) in each of two."""
    for runs in (2, 4):
        result = simulate(_easy_problem(), {"this": policy, "uniform": "uniform"}, 20_000, runs=runs, seed=11)
        ours, uniform = (one.regret[:, -1] for one in result.policies.values())
        limit = 0.8 * float(uniform.mean())
        if ours.max() < limit / 2:
            return
    found = f"regret {ours.mean():.0f} against {uniform.mean():.0f}"
    _require(ours.mean() < limit, policy.name, f"must beat uniform play by 20 % on an easy problem ({found})")


def _check_units(policy: Policy, setting: Setting) -> None:
    rewards, reward = list[float](), _rewards()

    def noted(action: Action) -> float:
        rewards.append(reward(action))
        return rewards[-1]

    running = policy.clone().start(setting, 3)
    decisions = [*_trace(running, _UNITS_HORIZON, noted), running.recommend()]
    for factor in (1e-6, 0.37, 1e6):
        other = dataclasses.replace(
            setting, risk_tolerance=setting.risk_tolerance * factor, base_variance=setting.base_variance * factor**2
        )
        running = policy.in_units(factor).start(other, 3)
        again = [*_trace(running, _UNITS_HORIZON, _replay(factor * np.array(rewards))), running.recommend()]
        _require(
            again == decisions, policy.name, f"must make the same decisions when rewards are multiplied by {factor:g}"
        )


def _check_strong_signals(policy: LinearPolicy) -> None:
    for seed in range(4):
        problem = _strong_check_problem(seed)
        environment, rounds = Environment(problem), 20 * problem.actions.dim
        running = policy.clone().start(environment.setting(rounds), seed)
        run = environment.run(np.random.default_rng(seed))
        while running.remaining:
            running.learn(run.tally(running.plan()))
        found = f"must find the best of 20 actions in {rounds} rounds if means lie 10,000 noise deviations apart"
        _require(running.recommend() == problem.best, policy.name, found)


def _expect(error: type[Exception], call: Callable[[], Any], subject: object, property_: str) -> None:
    try:
        call()
    except error:
        return
    raise CheckError(f"{subject}: {property_} (no {error.__name__} was raised)")


def check_actions(actions: ActionSet, *, seed: int = 0) -> None:
    """Check that the methods of an action set agree: features, best and top actions, sampling, elimination, design."""
    instance_of("actions", actions, ActionSet, "an action set (riskroute.Actions)")
    rng = np.random.default_rng(whole_number("seed", seed, minimum=0))
    drawn = actions.sample(rng, 64)
    features = actions.features(drawn)
    _require(features.shape == (64, actions.dim), actions, "features must have shape (n, dim)")
    norm = np.linalg.norm(features, axis=1).max()
    _require(norm <= actions.largest_norm() * (1 + 1e-12), actions, "no feature may exceed largest_norm() in norm")
    _require(isinstance(actions.size, int) and actions.size >= 1, actions, "the size must be a positive integer")
    for _ in range(8):
        coef = rng.standard_normal(actions.dim)
        best = actions.best(coef)
        floor = float(actions.action_features(best) @ coef)
        better = (features @ coef < floor - 1e-9).any()
        _require(not better, actions, "no sampled action may score better than the best")
        near = actions.within(coef, 0.1)
        inside = near.features(near.sample(rng, 32)) @ coef
        _require(bool((inside <= floor + 0.1 + 1e-9).all()), actions, "survivors must lie within the tolerance")
        _require(near.best(coef) == best and near.size <= actions.size, actions, "the best action must survive")
        half = max(actions.size // 2, 1)
        _require(actions.top(coef, half).size == half, actions, "top must return as many actions as requested")
    zeros = np.zeros(actions.dim)
    _require(actions.best(zeros) == actions.best(zeros), actions, "ties must break alike")
    design = actions.design(0.05)
    fits = abs(design.weights.sum() - 1) < 1e-9 and (design.weights > 0).all()
    _require(fits, actions, "weights must be positive and sum to one")
    limit = max(design.rank * (design.rank + 1) // 2, 1)
    _require(len(design) <= limit, actions, "the support must be at most r (r + 1) / 2")
    _require(design.bound <= 1.05 * design.rank + 1e-9, actions, "the bound must be within the tolerance of the rank")
    support = actions.features(design.actions)
    information = (support * design.weights[:, None]).T @ support
    inverse = np.linalg.pinv(information, hermitian=True, rcond=1e-13)
    levers = np.einsum("ij,jk,ik->i", features, inverse, features)
    highest = design.bound * (1 + 1e-6) + 1e-9
    _require(levers.max(initial=0) <= highest, actions, "no sampled leverage may exceed the bound")
    nan, long = np.full(actions.dim, np.nan), np.zeros(actions.dim + 1)
    _expect(InputError, lambda: actions.best(nan), actions, "must refuse coefficients that are not finite")
    _expect(InputError, lambda: actions.best(long), actions, "must refuse coefficients of another length")


def check_environment(environment: Environment, *, runs: int = 4000, seed: int = 0) -> None:
    """Check that tallies and single rewards have equal moments, and that the oracle's mean regret is zero.

    The checks compare ``runs`` simulations with limits of five standard errors; ``seed`` fixes the draws.
    """
    instance_of("environment", environment, Environment, "an Environment")
    whole_number("runs", runs, minimum=2, maximum=10**7)
    seed = whole_number("seed", seed, minimum=0)
    path = [environment.comparators[k] for k in environment.piece_at(np.arange(8))]
    cuts = [0, *(t for t in range(1, 8) if t == 3 or path[t] != path[t - 1]), 8]
    plan = Plan(as_batch(*(path[t] for t in cuts[:-1])), np.diff(cuts))
    tallied, single = np.empty((runs, 2)), np.empty((runs, 2))
    for run in range(runs):
        by_round = environment.run(np.random.default_rng([seed, run, 1]))
        one = Tally.of(by_round.reward(action) for action in path)
        single[run] = one.mean, one.spread
        _require(by_round.time == 8, environment, "time must advance by the rounds played")
        if environment.one_set:
            by_plan = environment.run(np.random.default_rng([seed, run, 0]))
            t = by_plan.tally(plan)
            parts = (Tally(int(n), m, s) for n, m, s in zip(t.counts, t.means, t.spreads, strict=True))
            both = reduce(Tally.merge, parts)
            tallied[run] = both.mean, both.spread
            _require(by_plan.time == 8, environment, "time must advance by the rounds played")
    if environment.one_set:
        error = np.sqrt(tallied.var(axis=0) / runs + single.var(axis=0) / runs)
        apart = np.abs(tallied.mean(axis=0) - single.mean(axis=0))
        _require((apart <= 5 * error).all(), environment, "tallies and rewards must have the same mean and spread")
    else:
        other = environment.run(np.random.default_rng(seed))
        _expect(InputError, lambda: other.tally(plan), environment, "must refuse whole plans with changing action sets")
    expected = environment.expected_comparator(np.array([8]))[0]
    value = single[:, 1] - environment.risk_tolerance * 8 * single[:, 0]
    close = abs(value.mean() - expected) <= 5 * value.std() / np.sqrt(runs)
    _require(close, environment, "the oracle must have no regret on average")


def check_router(router: Router, *, seed: int = 0) -> None:
    """Check a router; raise `CheckError` at the first violated property.

    The router plans orders of many sizes on random books, some of them thin or one-sided. Reports arrive in parts,
    late, out of order, twice or never. Plans must be executable, decisions reproducible, and a restored router must
    decide as if it had never been saved.

    Examples
    --------
    >>> from riskroute.routers.rules import SweepRule
    >>> check_router(SweepRule())
    """
    instance_of("router", router, Router, "a router")
    _require(router.feedback in FEEDBACK, router.name, f"feedback must be one of {', '.join(FEEDBACK)}")
    fresh = type(router)(**copy.deepcopy(router.parameters))
    _require(fresh.parameters == router.parameters, router.name, "must be reconstructed from its parameters")
    rng = np.random.default_rng(seed)
    contexts = [_context(rng, number) for number in range(_ORDERS)]
    expected = _played(fresh, contexts, seed)
    again = type(router)(**router.parameters)
    _require(_played(again, contexts, seed) == expected, router.name, "must make the same decisions on the same orders")
    for saved_at in (1, _ORDERS // 2):
        plans = _played(type(router)(**router.parameters), contexts, seed, saved_at=saved_at)
        _require(plans == expected, router.name, f"must make the same decisions when saved after {saved_at} orders")
    repeated = type(router)(**router.parameters)
    plans = _played(repeated, contexts, seed, twice=True)
    _require(plans == expected and repeated.state() == fresh.state(), router.name, "must learn a repeated report once")
    _check_abandoning(router, contexts, seed)


def _context(rng: np.random.Generator, number: int) -> Context:
    """Return an order on random books of two to five venues; the first shows both sides."""
    venues: dict[str, Any] = {}
    for v in range(int(rng.integers(2, 6))):
        best, depth = 2000 - int(rng.integers(0, 3)), int(rng.integers(0 if v else 1, 4))
        sizes = rng.integers(1, 20, (2, depth)) * 50.0
        bps = (number + v) % 4 * 4 - 4  # some fees are in basis points of the price
        venues[f"V{v}"] = {
            "bids": [[(best - level) / 100, float(sizes[0, level])] for level in range(depth)],
            "asks": [[(best + 2 + level) / 100, float(sizes[1, level])] for level in range(depth if v != 1 else 0)],
            "taker": f"{int(rng.integers(-20, 31)) / 1e4:.4f} per share + {bps} bps",
            "maker": f"{int(rng.integers(-30, 21)) / 1e4:.4f} per share + {bps / 2} bps",
        }
    pools = {f"P{k}": {"fee": 0.001 * k} for k in range(int(rng.integers(0, 4)))}
    return read_context(
        {"venues": venues, "pools": pools},
        order=f"order {number}",
        side="buy" if rng.random() < 0.5 else "sell",
        shares=int(rng.choice([1, 7, 100, 300, 1000, 20_000])),
        lot=int(rng.choice([1, 100])),
        horizon=float(rng.choice([0.0, 10.0, 300.0])),
        time=number * 10**9,
    )


def _reports(rng: np.random.Generator, context: Context, plan: RouterPlan) -> list[Report]:
    """Return two reports of an order, each with the fills of some of its children."""
    children: list[ChildReport] = []
    left = context.shares
    for kind in ("dark", "dark_rest", "limit", "take"):
        for place, shares in getattr(plan, kind).items():
            sent = min(shares, left)
            filled = int(rng.integers(0, sent + 1))
            left -= filled
            price = context.mid if filled else 0.0
            facts = kind, place, sent, filled, price, 0.0, context.time, context.time
            children.append(ChildReport(len(children), *facts))
    children.append(ChildReport(len(children), "sweep", "V0", left, left, context.mid if left else 0.0, 0.0, 0, 0))
    first, last = tuple(children[::2]), tuple(children[1::2])
    order, profit = context.order, float(-rng.exponential() * context.shares / 100)
    return [Report(order, first), Report(order, last, complete=True, profit=profit)]


def _played(
    router: Router, contexts: Sequence[Context], seed: int, *, saved_at: int = -1, twice: bool = False
) -> list[dict[str, Any]]:
    """Return the plans for all orders; reports arrive three orders late. Save and restore before order ``saved_at``."""
    rng = np.random.default_rng([seed, 1])
    plans: list[dict[str, Any]] = []
    waiting: list[Report] = []
    for number, context in enumerate(contexts):
        if number == saved_at:
            router = type(router).restore(json.loads(json.dumps(router.state())))
        plan = router.route(context)
        try:
            plan.checked(context)
        except RiskrouteError as error:
            raise CheckError(f"{router.name}: plans must be executable: {error}") from error
        _require(
            RouterPlan.from_json(json.loads(json.dumps(plan.to_json()))) == plan, router.name, "plans must survive JSON"
        )
        plans.append(plan.to_json())
        waiting += _reports(rng, context, plan)
        while len(waiting) > 6:
            report = waiting.pop(0)
            router.learn(report)
            if twice:
                router.learn(report)
    for report in waiting[::2] + waiting[1::2]:
        router.learn(report)
    _require(router.under_way == (), router.name, "must forget orders after their last report")
    return plans


def _check_abandoning(router: Router, contexts: list[Context], seed: int) -> None:
    """Abandon every fifth order, and compare with a router that follows the same plans instead of making them."""
    first, twin = (type(router)(**router.parameters) for _ in range(2))
    rng = np.random.default_rng([seed, 2])
    for number, context in enumerate(contexts[: _ORDERS // 2]):
        plan = first.route(context)
        plan.checked(context)
        twin.follow(context, plan)
        reports = _reports(rng, context, plan)
        for one in (first, twin):
            if number % 5 == 4:
                one.abandon(context.order)
            for report in reports:
                one.learn(report)
    _require(first.under_way == (), router.name, "must forget abandoned orders")
    _require(first.state() == twin.state(), router.name, "must have the same state whether it makes or follows a plan")
