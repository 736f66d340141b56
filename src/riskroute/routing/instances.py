"""Routing problems of the paper: random instances of any size, and the paper's table of five venues."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from riskroute.core.arrays import Integers
from riskroute.core.errors import InputError
from riskroute.core.text import shown
from riskroute.core.validation import instance_of, real_number, valid_list, whole_number
from riskroute.learning.problem import Problem, random_problem
from riskroute.routing.allocations import routing_actions
from riskroute.routing.splits import COMFORTABLE_LIST, count_splits, split_list_limit
from riskroute.routing.venue_models import VenueModel, venue_problem


def random_routing_problem(
    shares: int, slots: int, seed: int, *, risk_tolerance: float = 2.0, base_variance: float = 1.0
) -> Problem:
    """Draw a problem of the paper's synthetic experiments: ``shares`` (the paper's S) over ``slots`` (its m).

    Examples
    --------
    >>> random_routing_problem(shares=4, slots=4, seed=0).actions
    SplitList(4 shares over 4 slots, 35 allocations)
    """
    actions = routing_actions(shares, slots)
    return random_problem(actions, seed, risk_tolerance=risk_tolerance, base_variance=base_variance)


def random_instance_sizes(
    sizes: Sequence[int],
    slots: int,
    seed: int,
    length: int,
    *,
    risk_tolerance: float = 2.0,
    base_variance: float = 1.0,
) -> tuple[list[Problem], Integers]:
    """Return one problem per order size over the same slots, and the index of each round's problem ``(length,)``.

    All problems share their coefficients, so their features have the scale of the largest order. The size of every
    round is drawn uniformly. `riskroute.simulation.environments.ChangingActionSets` simulates the result.

    Examples
    --------
    >>> problems, sequence = random_instance_sizes([2, 5, 9], slots=4, seed=0, length=1000)
    >>> [problem.actions.size for problem in problems], sequence[:8].tolist()
    ([10, 56, 220], [2, 2, 0, 0, 2, 2, 0, 0])
    """
    orders = [whole_number("sizes", size) for size in valid_list("sizes", sizes, object, "positive integers")]
    if not orders or len(set(orders)) < len(orders):
        raise InputError(f"sizes must be one or more different positive integers, was {shown(orders)}")
    whole_number("length", length, maximum=10**8)
    largest = max(orders)
    listed = count_splits(largest, slots) <= split_list_limit(slots, COMFORTABLE_LIST)
    sets = [routing_actions(size, slots, listed=listed, scale=math.hypot(largest, largest**2)) for size in orders]
    whole = random_problem(
        sets[orders.index(largest)], seed, risk_tolerance=risk_tolerance, base_variance=base_variance
    )
    # a child of the seed sequence, since the seed itself drew the coefficients
    source = np.random.SeedSequence(whole_number("seed", seed, minimum=0)).spawn(1)[0]
    sequence = np.random.default_rng(source).integers(len(orders), size=length)
    return [dataclasses.replace(whole, actions=actions) for actions in sets], sequence


def riskless_slot_instance(problem: Problem, slot: int = 0, remaining: float = 1e-3) -> Problem:
    """Return the problem with one nearly riskless slot: sending the whole order there has variance ``remaining``.

    Only this slot's two variance coefficients change: they become the pair of smallest norm with this effect. No
    variance becomes negative if the norm of ``var_coef`` was at most ``base_variance``: with a fraction ``r`` of the
    order in other slots, the riskless slot leaves at least ``r * base_variance``, and the others subtract at most that.
    The new norm may be ``sqrt(2)`` times ``base_variance`` if features have the scale of the whole order, so norms are
    not checked. Within the norm bound, all other slots would have nearly equal variances.

    Examples
    --------
    >>> problem = riskless_slot_instance(random_routing_problem(shares=4, slots=3, seed=0), slot=2)
    >>> round(float(problem.variances(np.array([[0, 0, 4]]))[0]), 6)  # everything in the last slot
    0.001
    """
    actions = instance_of("problem", problem, Problem, "a Problem").actions
    if actions.dim != 2 * actions.coordinates:
        raise InputError(f"problem must have allocations as actions, was {actions}")
    slots = actions.coordinates
    slot = whole_number("slot", slot, minimum=0, maximum=slots - 1)
    remaining = real_number("remaining", remaining, minimum=0, maximum=problem.base_variance)
    own = [slot, slots + slot]
    most = np.zeros(actions.dim)
    most[slot] = -1.0
    features = actions.action_features(actions.best(most))
    if np.delete(features, own).any():
        raise InputError(f"slot {slot} cannot take the whole order of {actions}")
    var_coef = problem.var_coef.copy()
    var_coef[own] = (remaining - problem.base_variance) * features[own] / float(features @ features)
    return dataclasses.replace(problem, var_coef=var_coef, check_norms=False)


PAPER_SHARES = 10

# The paper states neither the constant in the variance (1 here) nor whether coefficients were scaled.
PAPER_VENUES = (
    VenueModel("PSX", (-1.1439, 0.0008), (-0.031, 0.0391)),
    VenueModel("BX", (-1.4709, -0.000001), (-0.000001, 0.000001)),
    VenueModel("NASDAQ", (-0.07, -0.0002), (-0.000004, 0.00056)),
    VenueModel("Dark 1", (-0.05, 0.0003), (-0.0191, 0.06), kind="dark"),
    VenueModel("Dark 2", (-0.01, 0.0002), (-0.0091, 0.05), kind="dark"),
)


def paper_routing_instance(units: str = "money", *, base_variance: float = 1.0) -> Problem:
    """Return the problem of splitting an order over the paper's five venues; `venue_problem` explains ``units``."""
    return venue_problem(PAPER_VENUES, PAPER_SHARES, units=units, base_variance=base_variance)
