"""Environments, which generate rewards for actions.

The reward of round ``t`` is ``mean + deviation * noise_t``, with the mean and standard deviation of the action. If
coefficients or action sets change, a *piece* is a period, or an action set, with its problem. An `Environment` is
immutable; `Environment.run` returns the rewards of one episode, drawn one by one or as tallies of a whole plan.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy

from riskroute.core.arrays import Floats, Integers, Vector
from riskroute.core.errors import InputError, StateError
from riskroute.core.seeding import checked_rng, seed_stream, seeding_hash
from riskroute.core.text import shown
from riskroute.core.validation import (
    exact_array,
    instance_of,
    one_of,
    real_number,
    valid_list,
    valid_magnitude,
    whole_number,
)
from riskroute.learning.actions import Action, Actions, ActionSet, as_batch
from riskroute.learning.plan import LONGEST_HORIZON, Plan, Setting
from riskroute.learning.policies.baselines import Oracle
from riskroute.learning.policy import Policy
from riskroute.learning.problem import Problem
from riskroute.learning.regret import RegretBlocks
from riskroute.learning.tally import ActionBatch, Tallies, merge_tally_groups


@dataclass
class EnvironmentNoise:
    """Standard normal noise, independent from round to round."""

    rng: np.random.Generator

    def draw(self, rounds: int) -> Vector:
        """Draw the noise of the next ``rounds`` rounds."""
        return self.rng.standard_normal(rounds)


@dataclass
class _AutocorrelatedNoise(EnvironmentNoise):
    """First-order autoregressive noise, standard normal in every round, including the first."""

    correlation: float
    previous: float | None = None

    def draw(self, rounds: int) -> Vector:
        if rounds == 0:
            return np.zeros(0)
        fresh = self.rng.standard_normal(rounds)
        first = 1 if self.previous is None else 0  # the first value of an episode already has variance one
        fresh[first:] *= np.sqrt(1 - self.correlation**2)
        carried = 0.0 if self.previous is None else self.correlation * self.previous
        if rounds == 1:  # same as the filter, without its overhead
            drawn: Vector = carried + fresh
        else:
            drawn = scipy.signal.lfilter([1.0], [1.0, -self.correlation], fresh, zi=[carried])[0]
        self.previous = float(drawn[-1])
        return drawn


@dataclass
class _StudentNoise(EnvironmentNoise):
    degrees: float

    def draw(self, rounds: int) -> Vector:
        return np.asarray(math.sqrt((self.degrees - 2) / self.degrees) * self.rng.standard_t(self.degrees, rounds))


class EnvironmentRun:
    """Rewards of one episode, drawn in the order of the rounds."""

    def __init__(self, environment: Environment, rng: np.random.Generator) -> None:
        self.environment = environment
        self.rng = rng
        self.noise = environment.noise(rng)
        self.time = 0
        self._changes = np.array(environment.starts[1:], dtype=np.int64)

    @property
    def piece(self) -> int:
        """Index of the piece of the next round."""
        return int(self.environment.piece_at(self.time)) if len(self.environment.pieces) > 1 else 0

    @property
    def actions(self) -> ActionSet:
        """Action set of the next round."""
        return self.environment.pieces[self.piece].actions

    def reward(self, action: Action) -> float:
        """Draw the reward of ``action`` in the next round."""
        mean, deviation, _ = self.environment.outcomes(as_batch(action), self.piece)
        self.time += 1
        return float(mean.item() + deviation.item() * self.noise.draw(1).item())

    def tally(self, plan: Plan) -> Tallies:
        """Draw the rewards of a whole plan, one tally per entry of the plan."""
        instance_of("plan", plan, Plan, "a Plan")
        if plan.rounds == 0 or plan.counts.min() < 1:
            raise InputError(f"counts of a plan must be positive, was {shown(plan.counts.tolist())}")
        return self.plan_blocks(plan, np.zeros(0, dtype=np.int64))[0]

    def plan_blocks(self, plan: Plan, cuts: Integers) -> tuple[Tallies, Integers, RegretBlocks]:
        """Draw the rewards of a whole plan in blocks of rounds.

        A block ends where an entry of the plan ends, where coefficients change and at the rounds ``cuts``. Return one
        tally per entry, the entry of each block, and the blocks.
        """
        if not self.environment.one_set:
            raise InputError("with changing action sets, draw rewards round by round, not by plan")
        stops = np.concatenate([cuts, self._changes]) if len(self._changes) else cuts
        begins, counts, entry = _block_cuts(plan.counts, self.time, stops)
        actions = plan.actions[entry]
        environment = self.environment
        if len(self._changes):
            mean, deviation, gap = environment.outcomes_by_piece(actions, environment.piece_at(begins))
        else:
            mean, deviation, gap = environment.outcomes(actions)
        reward_mean, reward_spread = self.draw_blocks(actions, counts, mean, deviation)
        self.time += plan.rounds
        blocks = RegretBlocks(counts, reward_mean, reward_spread, mean, deviation**2, gap)
        if len(entry) > len(plan.counts):
            _, reward_mean, reward_spread = merge_tally_groups(
                entry, len(plan.counts), counts, reward_mean, reward_spread
            )
        return Tallies(plan.actions, plan.counts, reward_mean, reward_spread), entry, blocks

    def draw_blocks(
        self, actions: ActionBatch, counts: Integers, mean: Vector, deviation: Vector
    ) -> tuple[Vector, Vector]:
        """Draw the mean and the sum of squared deviations of the rewards of each block, which has a single action."""
        if self.environment.independent and self.environment.gaussian:
            # Sample mean and sum of squares of Gaussian rewards are independent: draw both directly.
            center = mean + deviation / np.sqrt(counts) * self.rng.standard_normal(len(counts))
            return center, deviation**2 * self._chi_squares(counts)
        center, spread = noise_block_moments(self.noise.draw(int(counts.sum())), counts)
        return mean + deviation * center, deviation**2 * spread

    def _chi_squares(self, counts: Integers) -> Vector:
        """Draw a chi-squared variate with ``n - 1`` degrees of freedom for each count ``n``."""
        if len(counts) <= 8:  # for few variates, single draws are faster, and give the same values
            return np.array([2 * self.rng.standard_gamma((n - 1) / 2) if n > 1 else 0.0 for n in counts.tolist()])
        drawn, several = np.zeros(len(counts)), counts > 1
        drawn[several] = 2 * self.rng.standard_gamma((counts[several] - 1) / 2)
        return drawn


def noise_block_moments(values: Vector, counts: Integers) -> tuple[Vector, Vector]:
    """Return mean and sum of squared deviations of consecutive blocks of ``counts`` values."""
    first = np.cumsum(counts) - counts
    center = np.add.reduceat(values, first) / counts
    return center, np.add.reduceat((values - np.repeat(center, counts)) ** 2, first)


def _block_cuts(counts: Integers, begin: int, stops: Integers) -> tuple[Integers, Integers, Integers]:
    """Cut a plan that begins after ``begin`` rounds into blocks, at its entries and at the rounds ``stops``.

    >>> before, lengths, entry = _block_cuts(np.array([3, 4]), 10, np.array([5, 11, 15]))
    >>> before.tolist(), lengths.tolist(), entry.tolist()
    ([10, 11, 13, 15], [1, 2, 2, 2], [0, 0, 1, 1])
    """
    ends = begin + np.cumsum(counts)
    edges = np.union1d(ends, stops[(stops > begin) & (stops < ends[-1])])
    edges = edges[edges > begin]  # entries with a count of zero end where they begin
    before = np.concatenate([[begin], edges[:-1]])
    return before, edges - before, np.searchsorted(ends, edges)


MOST_ROUNDS = 10**9  # maximum number of rounds whose noise is drawn at once


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
    one_set = True  # the same actions are available in every round
    kind: ClassVar[str] = ""  # names the random streams; default: the name of the class
    digests: ClassVar[tuple[str, ...]] = ("actions",)  # keys of `describe` whose values are exact hashes of numbers
    described: ClassVar[tuple[str, ...]] = ()  # attributes that a subclass adds to `describe`

    def __init__(self, problem: Problem) -> None:
        instance_of("problem", problem, Problem, "a Problem")
        self.pieces: tuple[Problem, ...] = (problem,)
        self.starts: tuple[int, ...] = (0,)
        self._tables: dict[int, tuple[Vector, Vector, Vector]] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.actions!r})"

    def describe(self) -> dict[str, Any]:
        """Return the full specification of the environment, as plain values."""
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
        } | {name: getattr(self, name) for name in self.described}

    @cached_property
    def identity(self) -> str:
        """Hash of the full specification, in which every bit of a number counts."""
        return seeding_hash(self.describe())

    @cached_property
    def stream_name(self) -> str:
        """Name of the random streams: a hash that is robust to rounding errors, so that machines agree."""
        described = {key: value for key, value in self.describe().items() if key not in self.digests}
        return seeding_hash(described | {"size": str(self.actions.size), "dim": self.actions.dim}, coarse=True)

    @property
    def actions(self) -> ActionSet:
        """Action set of the first round."""
        return self.pieces[0].actions

    @property
    def risk_tolerance(self) -> float:
        """Risk tolerance with which regret is computed."""
        return self.pieces[0].risk_tolerance

    def setting(self, horizon: int) -> Setting:
        """Return the `Setting` passed to policies."""
        base = self.pieces[0].base_variance
        return Setting(actions=self.actions, horizon=horizon, risk_tolerance=self.risk_tolerance, base_variance=base)

    def piece_at(self, rounds: int | Integers) -> Integers:
        """Return the index of the piece of each round; rounds count from 0."""
        return np.asarray(np.searchsorted(self.starts, _as_rounds(rounds), side="right") - 1)

    def rounds_in(self, rounds: Integers) -> Vector:
        """Return how many of the first ``t`` rounds each piece has, for every ``t``: ``(len(rounds), pieces)``."""
        rounds = exact_array("rounds", rounds, np.int64, (None,))
        ends = np.append(self.starts[1:], np.iinfo(np.int64).max)
        inside = np.clip(rounds[:, None] - np.array(self.starts), 0, ends - np.array(self.starts))
        return np.asarray(inside, dtype=np.float64)

    def playable(self, method: str) -> str:
        """Return how the runner plays this environment if the user requests ``method``."""
        return method

    def moments(self, actions: ActionBatch, piece: int = 0) -> tuple[Vector, Vector]:
        """Return mean and standard deviation of the reward of each action in a piece."""
        problem = self.pieces[self._piece_number(piece)]
        return problem.means(actions), np.sqrt(np.maximum(problem.variances(actions), 0.0))

    def _piece_number(self, piece: int) -> int:
        if type(piece) is int and 0 <= piece < len(self.pieces):  # the fast path: called twice per round
            return piece
        return whole_number("piece", piece, minimum=0, maximum=len(self.pieces) - 1)

    @cached_property
    def comparators(self) -> tuple[Action, ...]:
        """For each piece, the action against which regret is measured."""
        return tuple(self._comparator(piece) for piece in range(len(self.pieces)))

    def _comparator(self, piece: int) -> Action:
        return self.pieces[piece].best

    def _listed_comparator(self, piece: int) -> Action:
        """Return the best action by enumeration, for true moments that are not linear in the features."""
        listed = self.pieces[piece].actions.listed()
        mean, deviation = self.moments(listed.handles, piece)
        return listed.action(int(np.argmin(deviation**2 - self.risk_tolerance * mean)))

    @cached_property
    def _comparator_moments(self) -> tuple[Vector, Vector]:
        moments = [self.moments(as_batch(action), k) for k, action in enumerate(self.comparators)]
        return np.array([m[0] for m, _ in moments]), np.array([s[0] ** 2 for _, s in moments])

    def oracle(self, horizon: int) -> Policy:
        """Return a policy that plays the comparator of each piece."""
        return Oracle(schedule=self.oracle_schedule(horizon))

    def oracle_schedule(self, horizon: int) -> tuple[tuple[int, Action], ...]:
        """Return, for every piece that starts before ``horizon``, its first round (from 0) and its comparator."""
        horizon = whole_number("horizon", horizon, maximum=LONGEST_HORIZON)
        return tuple((start, a) for start, a in zip(self.starts, self.comparators, strict=True) if start < horizon)

    def last_comparator(self, horizon: int) -> Action:
        """Return the comparator of the last of ``horizon`` rounds."""
        horizon = whole_number("horizon", horizon, maximum=LONGEST_HORIZON)
        return self.comparators[int(self.piece_at(horizon - 1))]

    def expected_comparator(self, rounds: Integers) -> Vector:
        """Return the expected mean-variance of the comparator's rewards in the first ``t`` rounds, for each ``t``.

        It is the sum of variances, times a factor below one because deviations are from the sample mean; plus the
        squared deviations of the pieces' means from their average; minus the risk tolerance times the sum of means.
        """
        t = _past(rounds)
        inside = self.rounds_in(t)
        mean, variance = self._comparator_moments
        total = inside @ mean
        apart = np.einsum("ij,ij->i", inside, (mean - (total / t)[:, None]) ** 2)
        return np.asarray((inside @ variance) * self._shrinkage(t) + apart - self.risk_tolerance * total)

    def comparator_means(self, rounds: Integers) -> Vector:
        """Return the comparator's expected mean reward over the first ``t`` rounds, for each ``t``."""
        t = _past(rounds)
        return np.asarray(self.rounds_in(t) @ self._comparator_moments[0] / t)

    def _shrinkage(self, t: Integers) -> Vector:
        """Return the expected ratio of the sample variance to the true variance: ``1 - 1/t`` for independent noise."""
        return np.asarray(1 - 1 / t)

    def gaps(self, actions: ActionBatch, piece: int = 0) -> Vector:
        """Return the mean-variance of each action in ``piece``, minus the comparator's."""
        comparator = as_batch(self.comparators[self._piece_number(piece)])
        both = np.concatenate([comparator, exact_array("actions", actions, np.int64, (None, *comparator.shape[1:]))])
        mean, deviation = self.moments(both, piece)
        value = deviation**2 - self.risk_tolerance * mean
        return np.asarray(value[1:] - value[0])

    def outcomes(self, actions: ActionBatch, piece: int = 0) -> tuple[Vector, Vector, Vector]:
        """Return mean, standard deviation and gap of each action; looked up in `table` if the action set is listed."""
        offered = self.pieces[self._piece_number(piece)].actions
        if isinstance(offered, Actions):
            mean, deviation, gap = self.table(piece)
            rows = offered.checked_rows(actions)
            return mean[rows], deviation[rows], gap[rows]
        return *self.moments(actions, piece), self.gaps(actions, piece)

    def outcomes_by_piece(self, actions: ActionBatch, pieces: Integers) -> tuple[Vector, Vector, Vector]:
        """Return the `outcomes` of actions ``(n,)``, where ``pieces`` ``(n,)`` gives the piece of each action."""
        found = np.empty((3, len(pieces)))
        for piece in np.unique(pieces).tolist():
            there = pieces == piece
            found[:, there] = self.outcomes(actions[there], piece)
        return found[0], found[1], found[2]

    def table(self, piece: int) -> tuple[Vector, Vector, Vector]:
        """Return mean, standard deviation and gap by row of a listed action set, computed once per piece."""
        piece = self._piece_number(piece)
        if piece not in self._tables:
            listed = self.pieces[piece].actions.listed()
            table = np.zeros((3, len(listed.matrix)))
            table[:, listed.members] = *self.moments(listed.handles, piece), self.gaps(listed.handles, piece)
            self._tables[piece] = table[0], table[1], table[2]
        return self._tables[piece]

    def noise(self, rng: np.random.Generator) -> EnvironmentNoise:
        """Return the noise of one episode, with mean zero and variance one."""
        return EnvironmentNoise(checked_rng(rng))

    def reward_tables(self, rng: np.random.Generator, horizon: int) -> tuple[Vector, Vector, Integers, Vector]:
        """Return means and standard deviations by piece and listed action ``(P, K)``, and pieces and noise by round."""
        horizon = whole_number("horizon", horizon, maximum=MOST_ROUNDS)
        handles = self.actions.listed().handles
        tables = [self.outcomes(handles, k)[:2] for k in range(len(self.pieces))]
        means, deviations = (np.stack(table) for table in zip(*tables, strict=True))
        return means, deviations, self.piece_at(np.arange(horizon)), self.noise(rng).draw(horizon)

    def run(self, rng: np.random.Generator) -> EnvironmentRun:
        """Return the rewards of one episode."""
        return EnvironmentRun(self, checked_rng(rng))


class Autocorrelated(Environment):
    """Gaussian rewards whose noise follows a first-order autoregression.

    Parameters
    ----------
    correlation : float
        Correlation of the noise in successive rounds, in (-1, 1).
    scale : str
        The noise is multiplied by the standard ``deviation`` of the action (correlation 0 is then the independent
        model) or by its ``variance``, as printed in the paper.
    """

    independent = False
    described: ClassVar[tuple[str, ...]] = ("correlation", "scale")

    def __init__(self, problem: Problem, correlation: float, *, scale: str = "deviation") -> None:
        super().__init__(problem)
        self.correlation = real_number("correlation", correlation, above=-1, below=1)
        self.scale = one_of("scale", scale, ("deviation", "variance"))

    def moments(self, actions: ActionBatch, piece: int = 0) -> tuple[Vector, Vector]:
        mean, deviation = super().moments(actions, piece)
        return mean, deviation if self.scale == "deviation" else deviation**2

    def _comparator(self, piece: int) -> Action:
        return super()._comparator(piece) if self.scale == "deviation" else self._listed_comparator(piece)

    def _shrinkage(self, t: Integers) -> Vector:
        r = self.correlation
        pairs = r * (t - 1 - t * r + r ** t.astype(float)) / (1 - r) ** 2  # sum over lags k of (t - k) r^k
        return np.asarray(1 - (t + 2 * pairs) / t.astype(float) ** 2)

    def noise(self, rng: np.random.Generator) -> EnvironmentNoise:
        return _AutocorrelatedNoise(checked_rng(rng), self.correlation)


class PiecewiseStationary(Environment):
    """Independent Gaussian rewards whose coefficients change abruptly at given rounds.

    Parameters
    ----------
    problems : Sequence[Problem]
        One per piece, with the same action set, risk tolerance and base variance.
    changes : Sequence[int]
        Rounds (counted from 0) at which the second, third .. piece begins; ascending.
    comparator : str
        Action against which regret is measured in every piece: the one with the largest ``mean`` (the paper's
        non-stationary setting) or the one with the smallest ``mean-variance``.
    """

    described: ClassVar[tuple[str, ...]] = ("comparator",)

    def __init__(self, problems: Sequence[Problem], changes: Sequence[int], *, comparator: str = "mean") -> None:
        problems = valid_list("problems", problems, Problem, "problems")
        if not problems:
            raise InputError("problems must not be empty")
        super().__init__(problems[0])
        times = [whole_number("changes", change) for change in valid_list("changes", changes, object, "rounds")]
        if len(times) != len(problems) - 1 or times != sorted(set(times)):
            raise InputError(f"changes must be {len(problems) - 1} ascending rounds, was {shown(times)}")
        # Policies know the action set, the risk tolerance and the base variance, so these must not change.
        if len({(one.actions.fingerprint, one.risk_tolerance, one.base_variance) for one in problems}) > 1:
            raise InputError("problems must share one action set, one risk tolerance and one base variance")
        self.pieces = tuple(problems)
        self.starts = (0, *times)
        self.comparator = one_of("comparator", comparator, ("mean", "mean-variance"))

    def _comparator(self, piece: int) -> Action:
        problem = self.pieces[piece]
        return self.actions.best(-problem.mean_coef) if self.comparator == "mean" else problem.best


def _as_rounds(rounds: Any) -> Any:
    if type(rounds) is int and rounds <= LONGEST_HORIZON:
        return rounds
    if isinstance(rounds, int | np.integer):
        return whole_number("rounds", rounds, minimum=-LONGEST_HORIZON, maximum=LONGEST_HORIZON)
    return exact_array("rounds", rounds, np.int64, (None,))


def _past(rounds: Any) -> Integers:
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


class ChangingActionSets(Environment):
    """Independent Gaussian rewards with an action set that changes from round to round.

    For example, orders have several sizes over the same slots (`riskroute.routing.instances.random_instance_sizes`).
    The comparator of a round is the best action of its set. Rounds can only be simulated one by one.

    Parameters
    ----------
    problems : Sequence[Problem]
        One per set, with the same coefficients, risk tolerance and base variance.
    sequence : Sequence[int] | Integers
        Index of the problem whose set is offered in each round; the sequence repeats when it ends.

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
        problems = valid_list("problems", problems, object, "problems")
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
        return np.asarray(self.sequence[_as_rounds(rounds) % len(self.sequence)])

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
            raise InputError("method must be auto or rounds with changing action sets, was 'blocks'")
        return "rounds"

    def oracle(self, horizon: int) -> Policy:
        sets = [problem.actions.fingerprint for problem in self.pieces]
        return _VaryingSetOracle(best=dict(zip(sets, self.comparators, strict=True)))

    def oracle_schedule(self, horizon: int) -> tuple[tuple[int, Action], ...]:
        piece = self.piece_at(np.arange(whole_number("horizon", horizon, maximum=MOST_ROUNDS)))
        starts = np.flatnonzero(np.diff(piece, prepend=-1))
        return tuple((int(start), self.comparators[piece[start]]) for start in starts)


def _require_shared(first: Problem, other: Problem, number: int) -> None:
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
class _VaryingSetOracle(Oracle):
    """Play the best action of the offered set; ``best`` maps the fingerprint of each set to its best action."""

    fixed_set: ClassVar[bool] = False

    best: Mapping[str, Action] = field(default_factory=dict)

    def check_parameters(self) -> None:
        self.recommend()

    def propose(self) -> Plan:
        return Plan.repeat(self.recommend(), self.remaining)

    def recommend(self) -> Action:
        offered = self.setting.actions
        if offered.fingerprint not in self.best:
            raise StateError(f"the offered set {offered} is none of the {len(self.best)} sets of the environment")
        return self.best[offered.fingerprint]


class HeavyTailed(Environment):
    """Independent rewards with Student t noise, scaled to the problem's means and variances.

    With four degrees of freedom or fewer, the fourth moment is infinite. The sample variance and the regret of a run
    then have infinite variance.

    Parameters
    ----------
    degrees : float
        Degrees of freedom, above 2 so that the variance is finite.
    """

    gaussian = False
    described: ClassVar[tuple[str, ...]] = ("degrees",)

    def __init__(self, problem: Problem, degrees: float = 3.0) -> None:
        super().__init__(problem)
        self.degrees = real_number("degrees", degrees, above=2)

    def noise(self, rng: np.random.Generator) -> EnvironmentNoise:
        return _StudentNoise(checked_rng(rng), self.degrees)


class NonlinearVariance(Environment):
    """Independent Gaussian rewards whose variance is a power of the linear model's variance.

    The true variance is ``base_variance * (linear variance / base_variance) ** power``. The comparator is the best
    action by the true mean-variance, found by enumeration.

    Parameters
    ----------
    problem : Problem
        Problem with a positive base variance.
    power : float
        Exponent, above 0 and up to 10; values above 1 move variances away from the base variance, values below 1
        towards it.
    """

    kind: ClassVar[str] = "BentVariance"
    described: ClassVar[tuple[str, ...]] = ("power",)

    def __init__(self, problem: Problem, power: float = 1.5) -> None:
        super().__init__(problem)
        if problem.base_variance == 0:
            raise InputError("base_variance must be positive for a nonlinear variance, was 0.0")
        self.power = valid_magnitude("power", power, above=0, largest=10, smallest=0)

    def moments(self, actions: ActionBatch, piece: int = 0) -> tuple[Vector, Vector]:
        mean, deviation = super().moments(actions, piece)
        base = np.sqrt(self.pieces[piece].base_variance)
        return mean, base * (deviation / base) ** self.power

    def _comparator(self, piece: int) -> Action:
        return self._listed_comparator(piece)


class WrongBaseVariance(Environment):
    """Rewards of the problem, but policies are passed a `Setting` with ``factor`` times the true base variance."""

    kind: ClassVar[str] = "Mistold"
    described: ClassVar[tuple[str, ...]] = ("factor",)

    def __init__(self, problem: Problem, factor: float = 2.0) -> None:
        super().__init__(problem)
        self.factor = valid_magnitude("factor", factor, above=0)

    def setting(self, horizon: int) -> Setting:
        true = super().setting(horizon)
        return dataclasses.replace(true, base_variance=self.factor * true.base_variance)
