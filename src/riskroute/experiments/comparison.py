"""The first comparison: all policies on a random instance of S shares over m slots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from riskroute.results import SimulationResult
from riskroute.routing.splits import random_routing_problem
from riskroute.simulation.runner import Progress, simulate

PAPER_POLICIES = ("rise", "rise++", "risk-ucb", "risk-exp-exp")
"""The four policies of the paper's figures."""

DEMO_POLICIES = (*PAPER_POLICIES, "greedy", "uniform")
"""The paper's four beside two yardsticks."""


def compare(
    *,
    slots: int = 6,
    shares: int = 8,
    policies: Sequence[str] = PAPER_POLICIES,
    horizon: int = 100_000,
    runs: int = 50,
    seed: int = 0,
    instance_seed: int = 0,
    risk_tolerance: float = 2.0,
    progress: Progress | None = None,
) -> SimulationResult:
    """Simulate policies on the random instance number ``instance_seed``."""
    problem = random_routing_problem(shares, slots, instance_seed, risk_tolerance=risk_tolerance)
    result = simulate(problem, policies, horizon, runs, seed, progress=progress)
    instance = {"slots": slots, "shares": shares, "instance_seed": instance_seed}
    return replace(result, config=instance | result.config)


def demo(progress: Progress | None = None) -> SimulationResult:
    """The comparison `make demo` shows: 8 shares over 6 slots, 100,000 rounds, 50 runs."""
    return compare(policies=DEMO_POLICIES, progress=progress)
