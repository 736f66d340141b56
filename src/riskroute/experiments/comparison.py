"""The first comparison: all policies on a random instance of S shares over m slots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from riskroute.errors import InputError
from riskroute.experiments.panels import Panel, PanelSize
from riskroute.learning.problem import random_problem
from riskroute.learning.registry import POLICIES
from riskroute.results import SimulationResult
from riskroute.routing.instances import routing_actions
from riskroute.routing.splits import about_splits, count_splits, split_list_limit
from riskroute.simulation.engines import Engine, Finished, run_tasks
from riskroute.simulation.environments import Environment
from riskroute.simulation.simulate import Progress, simulate
from riskroute.validation import one_of, whole_number

PAPER_POLICIES = ("rise", "rise++", "risk-ucb", "risk-exp-exp")
"""The four policies of the paper's figures."""

COMPARED = ("adaptive", *PAPER_POLICIES)
"""The recommended policy beside the paper's four."""

DEMO_POLICIES = ("adaptive", "risk-ucb", "greedy", "uniform", "risk-exp-exp", "thompson", "rise", "rise++")
"""Ours, the paper's four, and two yardsticks."""

DEMO_SIZE = PanelSize()
"""50 runs of 100,000 rounds."""

DEMO_RUNS = sum(map(DEMO_SIZE.runs_of, DEMO_POLICIES))


def compared_policies(slots: int, shares: int) -> tuple[str, ...]:
    """The compared policies that can play this many splits: all, or those that do not list them."""
    if count_splits(shares, slots) <= split_list_limit(slots):
        return COMPARED
    return tuple(name for name in COMPARED if not POLICIES[name].needs_list)


def comparison_must_list(policies: Sequence[str], slots: int, shares: int) -> bool | None:
    """Whether one of the policies needs a list of all splits; None leaves the choice open, too many are refused."""
    size, limit = count_splits(shares, slots), split_list_limit(slots)
    listers = [name for name in policies if POLICIES[one_of("policy", name, tuple(POLICIES))].needs_list]
    if listers and size > limit:
        raise InputError(
            f"policies must not need a list of all splits beyond {limit:,} of them, "
            f"was {listers[0]} for {about_splits(size)} splits"
        )
    return True if listers else None


def compare_policies(
    *,
    slots: int = 6,
    shares: int = 8,
    policies: Sequence[str] = COMPARED,
    horizon: int = 100_000,
    runs: int = 50,
    seed: int = 0,
    instance_seed: int = 0,
    risk_tolerance: float = 2.0,
    progress: Progress | None = None,
    engine: Engine | None = None,
) -> SimulationResult:
    """Simulate policies on the random instance number ``instance_seed``; actions are reported as splits."""
    whole_number("instance_seed", instance_seed, minimum=0)
    actions = routing_actions(shares, slots, listed=comparison_must_list(policies, slots, shares))
    problem = random_problem(actions, instance_seed, risk_tolerance=risk_tolerance)
    result = simulate(problem, policies, horizon, runs, seed, progress=progress, engine=engine)
    instance = {"slots": slots, "shares": shares, "instance_seed": instance_seed}
    return replace(result, config=instance | result.config)


def demo_comparison(engine: Engine | None = None, finished: Finished | None = None) -> SimulationResult:
    """The comparison `make demo` shows, 8 shares over 6 slots; played on all cores unless ``engine`` says otherwise."""
    facts = {"slots": 6, "shares": 8, "instance_seed": 0}
    environment = Environment(random_problem(routing_actions(8, 6, listed=True), 0))
    panel = Panel("demo", "the demo", environment, DEMO_POLICIES, facts, DEMO_SIZE)
    tasks = sorted(panel.tasks(), key=lambda task: task.first)  # unlike ones first: each worker compiles other kernels
    return panel.gather(tasks, run_tasks(tasks, engine or Engine(), finished=finished))
