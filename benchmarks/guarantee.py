"""Cost and benefit of the guard of `guarded`.

1. Cost: the four problems of the paper's figure 2, on held-out instances: regret of `guarded` at several strengths over
   that of `adaptive`, and the proven bound (docs/guarantee.md) as a fraction of the trivial one. The ratio is
   the geometric mean over instances, with the standard error of its logarithm.
2. Longer horizons: the same for the default strength. Exploration grows as the horizon to the power 2/3, the regret of
   `adaptive` as the logarithm of the horizon, so the relative cost grows.
3. Protection: adversarial inner policies, with and without the guard, and the bound: sums over rounds of the gap and
   the squared difference of means.
4. Why no cheaper guard is known: the gap that the rewards of `adaptive` alone could certify for its final action, with
   known variances and five standard deviations. A bound for all actions and times needs more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from crowd import final_regret, geometric_mean, side_by_side
from riskroute import Actions, Environment, Policy, Problem, random_routing_problem
from riskroute.learning.plan import Plan
from riskroute.policies import Adaptive, Guarded
from timing import leave, print_heading, print_table, say, sized, verdict

SIZES = sized(((4, 4), (4, 5), (6, 6), (8, 6)), ((3, 3),))
HORIZON, LONGER = sized(100_000, 200), sized((100_000, 1_000_000, 10_000_000), (200, 400))
STRENGTHS = sized((0.003, 0.01, 0.03, 0.1, 0.6), (0.01, 0.6))
DEFAULT = Guarded().strength
INSTANCES, FEW = sized(range(300, 310), range(300, 301)), sized(range(300, 305), range(300, 301))
RUNS, FEW_RUNS, BAD_RUNS = sized((20, 10, 20), (1, 1, 1))
BAD_HORIZON = 10**10
LIMIT = 1.1
"""Largest ratio of the regret at the default strength to that of `adaptive`."""


def policies(strengths: Sequence[float]) -> dict[str, Policy]:
    """Return `adaptive`, and `guarded` by strength."""
    guarded: dict[str, Policy] = {f"{strength:g}": Guarded(strength=strength) for strength in strengths}
    return guarded | {"adaptive": Adaptive()}


def cost(horizon: int, strengths: Sequence[float], instances: Sequence[int], runs: int) -> list[list[str]]:
    """Return the rows of the table for one horizon, one per strength."""
    problems = [random_routing_problem(*size, i) for size in SIZES for i in instances]
    found = side_by_side(final_regret, [(problem, policies(strengths), horizon, runs, 1) for problem in problems])
    usual = np.array([one["adaptive"].mean() for one in found])
    rows = []
    for strength in strengths:
        regrets = np.array([one[f"{strength:g}"].mean() for one in found])
        started = [Guarded(strength=strength).start(Environment(problem).setting(horizon)) for problem in problems]
        proven = [policy.regret_bound() / (horizon * policy.bounds.round_cost) for policy in started]
        ratios = regrets / usual
        error = float(np.log(ratios).std() / math.sqrt(len(ratios)))
        rows.append(
            [
                f"{horizon:,}",
                f"{strength:g}",
                f"{np.mean([policy.exploration for policy in started]):,.0f}",
                f"{usual.mean():,.0f}",
                f"{regrets.mean():,.0f}",
                f"{geometric_mean(ratios):.2f}",
                f"{error:.2f}",
                f"{np.mean(proven):.2f}",
            ]
        )
    return rows


HEADER = ["rounds", "strength", "explored", "adaptive", "guarded", "ratio", "s.e.", "bound / trivial"]


def two_best() -> Problem:
    """Return four actions: two with the same mean-variance and distant means, a slightly worse one, and a bad one."""
    return Problem(
        actions=Actions([[1.0, 0.0], [0.0, 1.0], [0.98, 0.0], [-0.7, -0.7]]),
        mean_coef=np.array([0.7, 0.1]),
        var_coef=np.array([0.6, -0.6]),
    )


class Worst(Guarded):
    """Inner policy that plays the worst action the guard allows."""

    def inner_plan(self) -> Plan:
        """Return a plan of the worst allowed action, a hundredth of the horizon long."""
        problem, allowed = two_best(), self.survivors.listed()
        return Plan.repeat(allowed.action(int(np.argmax(problem.gaps()[allowed.members]))), max(self.horizon // 100, 1))


class Fickle(Guarded):
    """Inner policy that alternates between two best actions with very different means."""

    def inner_plan(self) -> Plan:
        """Return a plan of both actions, a twentieth as long as the rounds that the guard allows on other actions."""
        half = max(int(self.balanced) // 40, 1)
        return Plan(np.array([0, 1]), np.array([half, half]))


def price(policy: Guarded, problem: Problem, horizon: int, seed: int) -> tuple[float, float]:
    """Return the regret (summed gaps and squared differences of means) of one run, and of the inner policy alone."""
    environment = Environment(problem)
    policy = policy.clone().start(environment.setting(horizon), seed)
    alone = policy.inner_plan()
    rewards, played = environment.run(np.random.default_rng([seed, 7])), np.zeros(problem.actions.size)
    while policy.remaining:
        plan = policy.plan()
        policy.learn(rewards.tally(plan))
        np.add.at(played, plan.actions, plan.counts)
    free = np.bincount(alone.actions, alone.counts, len(played)) * (horizon / alone.rounds)
    return spent(problem, played), spent(problem, free)


def spent(problem: Problem, played: np.ndarray) -> float:
    """Return the summed gaps plus the squared differences of means to their average."""
    means = problem.means(problem.actions.listed().handles)
    return float(played @ problem.gaps() + played @ (means - played @ means / played.sum()) ** 2)


def protection() -> list[bool]:
    """Play adversarial inner policies with and without the guard; return whether the bound holds."""
    say(f"3. adversarial inner policies: {BAD_HORIZON:,} rounds, strength 0.6, worst of {BAD_RUNS} runs")
    rows, held = [], []
    for label, kind in (("worst", Worst), ("changes between the two best", Fickle)):
        policy = kind(strength=0.6)
        runs = [price(policy, two_best(), BAD_HORIZON, seed) for seed in range(BAD_RUNS)]
        bound = policy.start(Environment(two_best()).setting(BAD_HORIZON)).regret_bound()
        guarded, alone = (max(column) for column in zip(*runs, strict=True))
        held.append(guarded <= bound)
        rows.append([label, f"{alone:,.0f}", f"{guarded:,.0f}", f"{bound:,.0f}", verdict(held[-1])])
    print_table(["inner policy", "alone", "guarded", "bound", ""], rows)
    return held


def possible_gap(problem: Problem, horizon: int, seed: int) -> tuple[float, float]:
    """Return the rounds of `adaptive` away from its most played action, and the largest possible gap of that action."""
    environment, listed, rho = Environment(problem), problem.actions.listed(), problem.risk_tolerance
    policy = Adaptive().start(environment.setting(horizon), seed)
    rewards, played = environment.run(np.random.default_rng([seed, 7])), np.zeros(listed.size)
    while policy.remaining:
        plan = policy.plan()
        policy.learn(rewards.tally(plan))
        np.add.at(played, listed.rows_of(plan.actions), plan.counts)
    rows, variance, scores = listed.rows, problem.variances(listed.handles), problem.gaps()
    main = int(np.argmax(played))
    means, variances = (np.linalg.inv((rows.T * (played * w)) @ rows) for w in (1 / variance, 1 / (2 * variance**2)))
    apart = rows - rows[main]
    deviation = np.sqrt(np.einsum("ij,ij->i", apart @ (variances + rho**2 * means), apart).clip(0))
    return float(horizon - played[main]), float(np.max(scores[main] - scores + 5 * deviation))


def certified() -> None:
    """Print the gaps that the rewards of `adaptive` alone could certify."""
    say(f"4. what the rewards of adaptive alone could certify: {len(FEW)} instances of each problem, one run each")
    rows = []
    for horizon in LONGER:
        problems = [random_routing_problem(*size, i) for size in SIZES for i in FEW]
        found = np.array(side_by_side(possible_gap, [(problem, horizon, 1) for problem in problems]))
        largest = [float(problem.gaps().max()) for problem in problems]
        rows.append([f"{horizon:,}", *(f"{x:,.0f}" if x > 100 else f"{x:.1f}" for x in np.median(found, axis=0))])
        rows[-1].append(f"{np.median(largest):.1f}")
    print_table(["rounds", "away from main action", "its gap may be", "largest gap"], rows)
    say("medians over instances; the rewards do not exclude that the main action has that gap\n")


def main() -> None:
    """Print all parts."""
    print_heading("What the guard costs", ["riskroute", "numpy", "scipy"])
    say(f"1. cost at {HORIZON:,} rounds: {len(INSTANCES)} instances of each problem, {RUNS} runs")
    rows = cost(HORIZON, STRENGTHS, INSTANCES, RUNS)
    print_table(HEADER, rows)
    ratio = next(float(row[5]) for row in rows if row[1] == f"{DEFAULT:g}")
    say(f"strength {DEFAULT:g}: {ratio:.2f}, target at most {LIMIT}: {verdict(ratio <= LIMIT)}\n")
    say(f"2. longer horizons: {len(FEW)} instances of each problem, {FEW_RUNS} runs")
    print_table(HEADER, [row for horizon in LONGER for row in cost(horizon, [DEFAULT], FEW, FEW_RUNS)])
    held = protection()
    certified()
    leave(held, [ratio <= LIMIT])


if __name__ == "__main__":
    main()
