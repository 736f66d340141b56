"""Environments: how rewards come about, given the actions.

In every environment the reward of round ``t`` is ``mean + deviation * noise_t``, with mean and standard deviation
those of the action (and of the segment of time, if coefficients change). An environment describes; `Environment.run`
gives the mutable source of rewards of one episode, which draws single rewards or whole tallies for a plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from riskroute.core.arrays import Integers, Vector
from riskroute.core.errors import InputError, shown
from riskroute.core.seeding import checked_seed, coarse_for_seeding, seed_stream, seeding_hash
from riskroute.core.validation import exact_array, instance_of, list_of, one_of, real_number, whole_number
from riskroute.learning.actions import Action, Actions, ActionSet, as_batch
from riskroute.learning.plan import LONGEST_HORIZON, Setting
from riskroute.learning.policies.baselines import Oracle
from riskroute.learning.policy import Policy
from riskroute.learning.problem import Problem
from riskroute.learning.tally import ActionBatch
from riskroute.simulation.episodes import AutocorrelatedNoise, Noise, Run

MOST_ROUNDS = 10**9
"""Noise is drawn at once for at most so many rounds of an episode."""


class Environment:
    """Independent Gaussian rewards with the problem's means and variances.

    Examples
    --------
    >>> from riskroute.learning.actions import Actions
    >>> problem = Problem(actions=Actions([[1.0]]), mean_coef=[0.5], var_coef=[0.0])
    >>> run = Environment(problem).run(np.random.default_rng(0))
    >>> round(run.reward(0), 6)
    0.62573
    """

    independent = True  # rewards of different rounds are independent, given the actions
    gaussian = True  # if also independent, a block of n rewards may be drawn as one tally
    one_set = True  # the same actions are on offer in every round
    kind: ClassVar[str] = ""  # names the random streams; that of the class if empty
    digests: ClassVar[tuple[str, ...]] = ("actions",)  # parts of the description that are hashes of numbers

    def __init__(self, problem: Problem) -> None:
        instance_of("problem", problem, Problem, "a Problem")
        self.pieces: tuple[Problem, ...] = (problem,)
        self.starts: tuple[int, ...] = (0,)
        self._tables: dict[int, tuple[Vector, Vector, Vector]] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.actions!r})"

    def describe(self) -> dict[str, Any]:
        """Everything that makes this environment what it is, as plain values."""
        return {
            "kind": self.kind or type(self).__name__,
            "actions": self.actions.fingerprint,
            "risk_tolerance": self.risk_tolerance,
            "starts": list(self.starts),
            "pieces": [
                {
                    "mean_coef": problem.mean_coef.tolist(),
                    "var_coef": problem.var_coef.tolist(),
                    "base_variance": problem.base_variance,
                }
                for problem in self.pieces
            ],
        }

    @cached_property
    def identity(self) -> str:
        """Hash of everything that makes this environment what it is, to the last bit."""
        return seeding_hash(self.describe())

    @cached_property
    def stream_name(self) -> str:
        """Name of this environment's random streams: the same on every machine, whatever its rounding errors."""
        described = {key: value for key, value in self.describe().items() if key not in self.digests}
        return seeding_hash(coarse_for_seeding(described) | {"size": str(self.actions.size), "dim": self.actions.dim})

    @property
    def actions(self) -> ActionSet:
        """The action set; the one of the first round, if it changes."""
        return self.pieces[0].actions

    @property
    def risk_tolerance(self) -> float:
        """The risk tolerance regret is measured with."""
        return self.pieces[0].risk_tolerance

    def setting(self, horizon: int) -> Setting:
        """Return what policies are told."""
        first = self.pieces[0]
        return Setting(
            actions=self.actions,
            horizon=horizon,
            risk_tolerance=first.risk_tolerance,
            base_variance=first.base_variance,
        )

    def piece_at(self, rounds: int | Integers) -> Integers:
        """Piece that each of some rounds (counted from 0) falls in."""
        return np.asarray(np.searchsorted(self.starts, as_rounds(rounds), side="right") - 1)

    def rounds_in(self, rounds: Integers) -> Vector:
        """How many of the first ``t`` rounds fall in each piece, for each ``t``, ``(len(rounds), pieces)``."""
        rounds = exact_array("rounds", rounds, np.int64, (None,))
        ends = np.append(self.starts[1:], np.iinfo(np.int64).max)
        inside = np.clip(rounds[:, None] - np.array(self.starts), 0, ends - np.array(self.starts))
        return np.asarray(inside, dtype=np.float64)

    def playable(self, method: str) -> str:
        """Return how the runner is to play when asked for ``method``."""
        return method

    def moments(self, actions: ActionBatch, piece: int = 0) -> tuple[Vector, Vector]:
        """Mean and standard deviation of the reward of each action, during the given piece."""
        problem = self._piece(piece)
        return problem.means(actions), np.sqrt(np.maximum(problem.variances(actions), 0.0))

    def _piece_number(self, piece: int) -> int:
        if type(piece) is int and 0 <= piece < len(self.pieces):
            return piece
        return whole_number("piece", piece, minimum=0, maximum=len(self.pieces) - 1)

    def _piece(self, piece: int) -> Problem:
        return self.pieces[self._piece_number(piece)]

    @cached_property
    def comparators(self) -> tuple[Action, ...]:
        """Return the action the regret compares with, per piece."""
        return tuple(self._comparator(piece) for piece in range(len(self.pieces)))

    def _comparator(self, piece: int) -> Action:
        return self.pieces[piece].best

    def _listed_comparator(self, piece: int) -> Action:
        """Best action by the true moments, where these are not linear in the features; looks at every action."""
        listed = self.pieces[piece].actions.listed()
        mean, deviation = self.moments(listed.handles, piece)
        return listed.action(int(np.argmin(deviation**2 - self.risk_tolerance * mean)))

    @cached_property
    def _comparator_moments(self) -> tuple[Vector, Vector]:
        """Mean and variance of every piece's comparator."""
        moments = [self.moments(as_batch(action), k) for k, action in enumerate(self.comparators)]
        return np.array([m[0] for m, _ in moments]), np.array([s[0] ** 2 for _, s in moments])

    def oracle(self, horizon: int) -> Policy:
        """Return a policy that plays what the comparator plays."""
        return Oracle(schedule=self.oracle_schedule(horizon))

    def oracle_schedule(self, horizon: int) -> tuple[tuple[int, Action], ...]:
        """First round (from 0) and action of every segment of the comparator."""
        horizon = whole_number("horizon", horizon, maximum=LONGEST_HORIZON)
        return tuple((start, a) for start, a in zip(self.starts, self.comparators, strict=True) if start < horizon)

    def last_comparator(self, horizon: int) -> Action:
        """Return the action the regret compares with in the last of ``horizon`` rounds."""
        horizon = whole_number("horizon", horizon, maximum=LONGEST_HORIZON)
        return self.comparators[int(self.piece_at(horizon - 1))]

    def expected_comparator(self, rounds: Integers) -> Vector:
        """Expected mean-variance of the comparator's path after each of ``rounds`` rounds.

        Over segments with means ``m`` and variances ``v``, with ``t`` rounds in all: the variances shrunk by the
        estimated mean, plus the spread of the means themselves, minus the risk tolerance times their sum.
        """
        t = _past(rounds)
        inside = self.rounds_in(t)
        mean, variance = self._comparator_moments
        total = inside @ mean
        apart = np.einsum("ij,ij->i", inside, (mean - (total / t)[:, None]) ** 2)
        return np.asarray((inside @ variance) * self._shrinkage(t) + apart - self.risk_tolerance * total)

    def comparator_means(self, rounds: Integers) -> Vector:
        """Expected mean reward of the comparator over the first ``t`` rounds, for each ``t``."""
        t = _past(rounds)
        return np.asarray(self.rounds_in(t) @ self._comparator_moments[0] / t)

    def _shrinkage(self, t: Integers) -> Vector:
        """Share of the variance left after subtracting the path's own mean: ``1 - 1/t`` for independent noise."""
        return np.asarray(1 - 1 / t)

    def gaps(self, actions: ActionBatch, piece: int = 0) -> Vector:
        """Mean-variance of each action above the comparator's, during the given piece."""
        comparator = as_batch(self.comparators[self._piece_number(piece)])
        both = np.concatenate([comparator, exact_array("actions", actions, np.int64, (None, *comparator.shape[1:]))])
        mean, deviation = self.moments(both, piece)
        value = deviation**2 - self.risk_tolerance * mean
        return np.asarray(value[1:] - value[0])

    def outcomes(self, actions: ActionBatch, piece: int = 0) -> tuple[Vector, Vector, Vector]:
        """Mean, standard deviation and gap of each action, from a table if the action set is listed."""
        offered = self._piece(piece).actions
        if isinstance(offered, Actions):
            mean, deviation, gap = self.table(piece)
            rows = offered.checked_rows(actions)
            return mean[rows], deviation[rows], gap[rows]
        return *self.moments(actions, piece), self.gaps(actions, piece)

    def table(self, piece: int) -> tuple[Vector, Vector, Vector]:
        """Mean, standard deviation and gap by row of a listed action set, computed once per piece."""
        piece = self._piece_number(piece)
        if piece not in self._tables:
            listed = self.pieces[piece].actions.listed()
            table = np.zeros((3, len(listed.matrix)))
            table[:, listed.members] = *self.moments(listed.handles, piece), self.gaps(listed.handles, piece)
            self._tables[piece] = table[0], table[1], table[2]
        return self._tables[piece]

    def noise(self, rng: np.random.Generator) -> Noise:
        """Source of the standardised noise of one episode."""
        return Noise(checked_seed(rng))

    def reward_tables(self, rng: np.random.Generator, horizon: int) -> tuple[Vector, Vector, Integers, Vector]:
        """All that decides the rewards of an episode, for a listed set of K actions.

        Means and standard deviations ``(P, K)`` of every action in every piece, and of every round its piece and noise.
        """
        horizon = whole_number("horizon", horizon, maximum=MOST_ROUNDS)
        handles = self.actions.listed().handles
        tables = [self.outcomes(handles, k)[:2] for k in range(len(self.pieces))]
        means, deviations = (np.stack(table) for table in zip(*tables, strict=True))
        return means, deviations, self.piece_at(np.arange(horizon)), self.noise(rng).draw(horizon)

    def run(self, rng: np.random.Generator) -> Run:
        """Return the rewards of one episode."""
        return Run(self, checked_seed(rng))


class Autocorrelated(Environment):
    """Gaussian rewards whose noise follows a first-order autoregression.

    Parameters
    ----------
    correlation : float
        Correlation of the noise in successive rounds, in (-1, 1).
    scale : str
        What multiplies the noise: the standard ``deviation`` of the action (correlation 0 is then the
        independent model) or its ``variance``, as the paper prints it.
    """

    independent = False

    def __init__(self, problem: Problem, correlation: float, *, scale: str = "deviation") -> None:
        super().__init__(problem)
        self.correlation = real_number("correlation", correlation, above=-1, below=1)
        self.scale = one_of("scale", scale, ("deviation", "variance"))

    def describe(self) -> dict[str, Any]:
        return super().describe() | {"correlation": self.correlation, "scale": self.scale}

    def moments(self, actions: ActionBatch, piece: int = 0) -> tuple[Vector, Vector]:
        mean, deviation = super().moments(actions, piece)
        return mean, deviation if self.scale == "deviation" else deviation**2

    def _comparator(self, piece: int) -> Action:
        return super()._comparator(piece) if self.scale == "deviation" else self._listed_comparator(piece)

    def _shrinkage(self, t: Integers) -> Vector:
        r = self.correlation
        pairs = r * (t - 1 - t * r + r ** t.astype(float)) / (1 - r) ** 2  # sum over lags k of (t - k) r^k
        return np.asarray(1 - (t + 2 * pairs) / t.astype(float) ** 2)

    def noise(self, rng: np.random.Generator) -> Noise:
        return AutocorrelatedNoise(checked_seed(rng), self.correlation)


class PiecewiseStationary(Environment):
    """Independent Gaussian rewards whose coefficients change abruptly at given rounds.

    Parameters
    ----------
    problems : Sequence[Problem]
        One per segment, over the same action set, with the same risk tolerance.
    changes : Sequence[int]
        Rounds (counted from 0) at which the second, third .. segment begins; ascending.
    comparator : str
        What the regret compares with in every segment: the action with the best ``mean`` (as the paper's
        non-stationary setting) or with the best ``mean-variance``.
    """

    def __init__(self, problems: Sequence[Problem], changes: Sequence[int], *, comparator: str = "mean") -> None:
        problems = list_of("problems", problems, Problem, "problems")
        if not problems:
            raise InputError("problems must not be empty")
        super().__init__(problems[0])
        times = [whole_number("changes", change) for change in list_of("changes", changes, object, "rounds")]
        if len(times) != len(problems) - 1 or times != sorted(set(times)):
            raise InputError(f"changes must be {len(problems) - 1} ascending rounds, was {shown(times)}")
        for problem in problems[1:]:
            if self._told(problem) != self._told(problems[0]):
                raise InputError("problems must share one action set, one risk tolerance and one base variance")
        self.pieces = tuple(problems)
        self.starts = (0, *times)
        self.comparator = one_of("comparator", comparator, ("mean", "mean-variance"))

    @staticmethod
    def _told(problem: Problem) -> tuple[str, float, float]:
        """What policies are told, which must not change."""
        return problem.actions.fingerprint, problem.risk_tolerance, problem.base_variance

    def describe(self) -> dict[str, Any]:
        return super().describe() | {"comparator": self.comparator}

    def _comparator(self, piece: int) -> Action:
        problem = self.pieces[piece]
        return self.actions.best(-problem.mean_coef) if self.comparator == "mean" else problem.best


def as_rounds(rounds: Any) -> Any:
    """Return one round, or an array of rounds, when they are whole numbers."""
    if type(rounds) is int and rounds <= LONGEST_HORIZON:
        return rounds
    if isinstance(rounds, int | np.integer):
        return whole_number("rounds", rounds, minimum=-LONGEST_HORIZON, maximum=LONGEST_HORIZON)
    return exact_array("rounds", rounds, np.int64, (None,))


def _past(rounds: Any) -> Integers:
    """Return numbers of rounds played, at least one each."""
    t = exact_array("rounds", rounds, np.int64, (None,))
    if len(t) and (t.min() < 1 or t.max() > LONGEST_HORIZON):
        raise InputError(f"rounds must be from 1 to {LONGEST_HORIZON:,}, was {t.min()} to {t.max()}")
    return t


def random_changes(horizon: int, count: int, seed: int | np.random.SeedSequence) -> tuple[int, ...]:
    """Draw ``count`` different change rounds uniformly from 1 .. horizon - 1, ascending.

    Examples
    --------
    >>> random_changes(10, 9, seed=0)
    (1, 2, 3, 4, 5, 6, 7, 8, 9)
    """
    whole_number("count", count, minimum=0, maximum=whole_number("horizon", horizon, maximum=LONGEST_HORIZON) - 1)
    source = seed if isinstance(seed, np.random.SeedSequence) else seed_stream(seed, "changes")
    drawn = np.random.default_rng(source).choice(np.arange(1, horizon), size=count, replace=False)
    return tuple(int(change) for change in np.sort(drawn))
