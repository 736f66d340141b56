"""Action sets that change from round to round, over coefficients that do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from riskroute.core.arrays import Floats, Integers
from riskroute.core.errors import InputError, StateError, shown
from riskroute.core.validation import exact_array, list_of, whole_number
from riskroute.learning.actions import Action, ActionSet
from riskroute.learning.plan import Plan
from riskroute.learning.policies.baselines import Oracle
from riskroute.learning.policy import Policy
from riskroute.learning.problem import Problem
from riskroute.simulation.environments import MOST_ROUNDS, Environment, as_rounds


class ChangingActionSets(Environment):
    """Independent Gaussian rewards, and another set of actions to choose from in every round.

    Orders of different sizes over the same slots are an example (`riskroute.routing.instances.random_order_sizes`).
    The comparator plays the best action of each round's set. Policies are offered the set before each round, so play
    is round by round only.

    Parameters
    ----------
    problems : Sequence[Problem]
        One per set, with the same coefficients, risk tolerance and base variance.
    sequence : Sequence[int] | Integers
        Number of the problem (counted from 0) whose set is on offer in each round; it is repeated when it ends.

    Examples
    --------
    >>> from riskroute.learning.actions import Actions
    >>> sets = [Actions([[1.0, 0.0], [0.0, 1.0]]), Actions([[0.6, 0.6]])]
    >>> problems = [Problem(actions=one, mean_coef=[0.5, 0.1], var_coef=[0.3, 0.2]) for one in sets]
    >>> ChangingActionSets(problems, [0, 0, 1]).oracle_schedule(7)
    ((0, 0), (2, 0), (3, 0), (5, 0), (6, 0))
    """

    kind: ClassVar[str] = "VaryingSets"

    one_set = False
    digests: ClassVar[tuple[str, ...]] = ("actions", "sets")

    def __init__(self, problems: Sequence[Problem], sequence: Sequence[int] | Integers) -> None:
        problems = list_of("problems", problems, object, "problems")
        if not problems:
            raise InputError("problems must not be empty")
        super().__init__(problems[0])
        for k, problem in enumerate(problems):
            _require_shared(problems[0], problem, k)
        self.pieces = tuple(problems)
        self.sequence = _checked_sequence(sequence, len(problems))
        if len({np.shape(action) for action in self.comparators}) > 1:
            raise InputError("problems must all have row numbers or all have vectors as handles, was a mixture")

    def __repr__(self) -> str:
        return f"ChangingActionSets({len(self.pieces)} sets, dim {self.actions.dim})"

    def describe(self) -> dict[str, Any]:
        return super().describe() | {
            "sets": [problem.actions.fingerprint for problem in self.pieces],
            "sequence": self.sequence.tolist(),
        }

    @property
    def actions(self) -> ActionSet:
        return self.pieces[int(self.sequence[0])].actions

    def piece_at(self, rounds: int | Integers) -> Integers:
        return np.asarray(self.sequence[as_rounds(rounds) % len(self.sequence)])

    def rounds_in(self, rounds: Integers) -> Floats:
        rounds = exact_array("rounds", rounds, np.int64, (None,))
        if len(rounds) == 0:
            return np.zeros((0, len(self.pieces)))
        cycles, rest = np.divmod(rounds, len(self.sequence))
        count = len(self.pieces)
        begun = np.stack([np.bincount(self.sequence[:r], minlength=count) for r in rest])
        return (cycles[:, None] * np.bincount(self.sequence, minlength=count) + begun).astype(float)

    def playable(self, method: str) -> str:
        if isinstance(method, str) and method == "blocks":
            raise InputError("method must be auto or rounds where the action set changes, was 'blocks'")
        return "rounds"

    def oracle(self, horizon: int) -> Policy:
        sets = [problem.actions.fingerprint for problem in self.pieces]
        return VaryingSetOracle(best=dict(zip(sets, self.comparators, strict=True)))

    def oracle_schedule(self, horizon: int) -> tuple[tuple[int, Action], ...]:
        piece = self.piece_at(np.arange(whole_number("horizon", horizon, maximum=MOST_ROUNDS)))
        starts = np.flatnonzero(np.diff(piece, prepend=-1))
        return tuple((int(start), self.comparators[piece[start]]) for start in starts)


def _require_shared(first: Problem, other: Problem, number: int) -> None:
    """Everything but the action set must be the same in all problems."""
    if not isinstance(other, Problem):
        raise InputError(f"problems must be Problems, was {type(other).__name__} at {number}")
    for name in ("mean_coef", "var_coef", "risk_tolerance", "base_variance"):
        ours, theirs = getattr(first, name), getattr(other, name)
        if not np.array_equal(ours, theirs):
            raise InputError(f"problems must share one {name}, {theirs} at {number} differs from {ours} at 0")


def _checked_sequence(sequence: Sequence[int] | Integers, count: int) -> Integers:
    expected = f"whole numbers from 0 to {count - 1}, one per round"
    try:
        given = np.array(sequence)
    except ValueError:
        given = np.array(None)
    if given.ndim != 1 or given.size == 0 or given.dtype.kind not in "iu":
        raise InputError(f"sequence must be {expected}, was {shown(sequence)}")
    outside = given[(given < 0) | (given >= count)]
    if len(outside):
        raise InputError(f"sequence must be {expected}, was {outside[0]}")
    return given.astype(np.int64)


@dataclass(kw_only=True)
class VaryingSetOracle(Oracle):
    """Play the best action of whatever set is on offer: ``best`` holds it by the set's fingerprint."""

    fixed_set: ClassVar[bool] = False

    best: Mapping[str, Action] = field(default_factory=dict)

    def check_parameters(self) -> None:
        self.recommend()

    def propose(self) -> Plan:
        return Plan.repeat(self.recommend(), self.remaining)

    def recommend(self) -> Action:
        offered = self.setting.actions
        if offered.fingerprint not in self.best:
            raise StateError(f"oracle knows the best action of {len(self.best)} sets, was offered another: {offered}")
        return self.best[offered.fingerprint]
