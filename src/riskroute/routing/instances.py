"""Random instances of the paper's synthetic experiments, of any size."""

from __future__ import annotations

from riskroute.learning.actions import ActionSet
from riskroute.learning.problem import Problem, random_problem
from riskroute.routing.allocations import Allocations
from riskroute.routing.splits import count_splits, split_actions

COMFORTABLE_LIST = 200_000
"""Sets up to this size are listed: looking up is then faster than working out."""


def routing_actions(shares: int, slots: int, *, listed: bool | None = None, scale: float | None = None) -> ActionSet:
    """All splits of ``shares`` over ``slots``: a list while it is short, the implicit set otherwise.

    ``listed`` decides instead. Handles are row numbers of `list_splits` in a list, tuples of shares otherwise. Features
    are divided by ``scale``, or by their largest norm.

    >>> routing_actions(8, 6), routing_actions(1000, 20)
    (Actions(1287 actions, dim 12), Allocations(1000 shares over 20 slots, about 9.9e+39 allocations))
    """
    if listed is None:
        listed = count_splits(shares, slots) <= COMFORTABLE_LIST
    return split_actions(shares, slots, scale=scale) if listed else Allocations(shares, slots, scale=scale)


def random_routing_problem(
    shares: int, slots: int, seed: int, *, risk_tolerance: float = 2.0, base_variance: float = 1.0
) -> Problem:
    """A random instance of the paper's synthetic experiments: S shares over m slots.

    >>> random_routing_problem(shares=4, slots=4, seed=0).actions
    Actions(35 actions, dim 8)
    """
    actions = routing_actions(shares, slots)
    return random_problem(actions, seed, risk_tolerance=risk_tolerance, base_variance=base_variance)
