"""Problems over splits whose actions are numbers of rows, for tests of what does not care what actions are."""

from __future__ import annotations

import dataclasses

from riskroute import Actions, Problem, random_routing_problem


def numbered_routing_problem(shares: int, slots: int, seed: int, *, risk_tolerance: float = 2.0) -> Problem:
    """`random_routing_problem` with handles 0, 1, 2 and so on, in the order of the list."""
    problem = random_routing_problem(shares, slots, seed, risk_tolerance=risk_tolerance)
    listed = problem.actions.listed()
    return dataclasses.replace(problem, actions=Actions(listed.rows, coordinates=slots))
