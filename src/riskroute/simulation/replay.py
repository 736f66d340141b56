"""Replay: rewards are profits of splits on recorded books; `replay_belief` fits a prior to them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from riskroute.core.arrays import Floats, Integers, Matrix, Vector
from riskroute.core.errors import InputError
from riskroute.core.seeding import checked_rng, seed_stream
from riskroute.core.validation import exact_array, instance_of, real_number, valid_list, valid_magnitude, whole_number
from riskroute.learning.actions import Action, Actions, as_action, as_batch
from riskroute.learning.belief import LEAST_VARIANCE, Belief
from riskroute.learning.problem import Problem
from riskroute.learning.tally import ActionBatch
from riskroute.market.fitting import bootstrap_fit_buckets
from riskroute.routing.lattice import LatticeSet
from riskroute.routing.shared_books import SharedBook
from riskroute.routing.splits import SplitList
from riskroute.simulation.environments import MOST_ROUNDS, Environment, EnvironmentRun, noise_block_moments

_CELLS = 4_000_000  # maximum size of an array of profits by split and scenario


class Replay(Environment):
    """Draw one recorded scenario per round; a split earns the sum of its slots' profits in this scenario.

    Slots that share a book take its levels jointly.

    Parameters
    ----------
    problem : Problem
        Problem over splits of an order (`Allocations`, or its `listed` form). It has the setting passed to policies,
        and the linear model that they assume.
    profits : Floats
        ``(slots, scenarios, shares + 1)``, profit of 0, 1, 2 .. shares in a slot if no other slot shares its book.
    shared : Sequence[SharedBook]
        Books that several slots share; they reduce the profits of splits that use several of these slots.

    Examples
    --------
    >>> from riskroute.routing.allocations import Allocations
    >>> actions = Allocations(shares=2, slots=2)
    >>> problem = Problem(actions=actions, mean_coef=np.zeros(4), var_coef=np.zeros(4))
    >>> profits = np.array([[[0.0, -1.0, -3.0], [0.0, -2.0, -5.0]], [[0.0, -1.5, -2.0], [0.0, -1.0, -2.5]]])
    >>> Replay(problem, profits).totals(np.array([[2, 0], [1, 1]])).tolist()
    [[-3.0, -5.0], [-2.5, -3.0]]
    """

    gaussian = False
    digests: ClassVar[tuple[str, ...]] = ("actions", "profits")

    def __init__(self, problem: Problem, profits: Floats, shared: Sequence[SharedBook] = ()) -> None:
        super().__init__(problem)
        actions = problem.actions
        if not isinstance(actions, LatticeSet | SplitList):
            raise InputError(f"problem must be over splits of an order, was {actions}")
        slots, shares, highs = actions.slots, actions.shares, actions.largest_amounts
        given = exact_array("profits", profits, np.float64, (None,) * getattr(profits, "ndim", 3))
        if given.ndim != 3 or given.shape[::2] != (slots, shares + 1) or not given.shape[1]:
            expected = f"({slots}, scenarios, {shares + 1})"
            raise InputError(f"profits must have shape {expected}, was {given.shape}")
        self.profits = np.ascontiguousarray(given)
        known = np.concatenate([self.profits[slot, :, : high + 1].ravel() for slot, high in enumerate(highs)])
        if np.isinf(self.profits).any() or np.isnan(known).any():
            raise InputError("profits must be finite for all amounts that a split may have; found NaN or infinity")
        # Cache of the local search: allowed moves, and means and standard deviations after them, by split and step.
        self._seen: dict[tuple[bytes, int], tuple[Integers, Vector, Vector]] = {}
        self._latest: tuple[tuple[bytes, tuple[int, ...]], Vector] = (b"", ()), np.zeros(0)
        self.shared = tuple(valid_list("shared", shared, SharedBook, "shared books"))
        for book in self.shared:
            if book.crossing.shape != self.profits.shape[1:] or not set(book.slots) <= set(range(slots)):
                expected = f"of shape {self.profits.shape[1:]} over slots 0 to {slots - 1}"
                raise InputError(f"shared books must be {expected}, was {book.crossing.shape}, slots {book.slots}")
            if not np.isfinite(book.crossing[:, : int(highs[list(book.slots)].sum()) + 1]).all():
                raise InputError("crossing must be finite for all amounts that may cross; found NaN or infinity")

    @property
    def scenarios(self) -> int:
        """Number of recorded scenarios."""
        return int(self.profits.shape[1])

    def describe(self) -> dict[str, Any]:
        tables = [self.profits, *(table for book in self.shared for table in (book.crossing, book.rests))]
        digests = [hashlib.sha256(np.ascontiguousarray(table).tobytes()).hexdigest()[:16] for table in tables]
        slots = [list(book.slots) for book in self.shared]
        return super().describe() | {"profits": digests, "shape": list(self.profits.shape), "shared": slots}

    def playable(self, method: str) -> str:
        return "blocks" if method == "auto" and self.listed_totals is None else method

    def totals(self, actions: ActionBatch) -> Vector:
        """Return the profit of each split in every scenario, ``(n, scenarios)``."""
        splits = self._splits(actions)
        total = np.zeros((len(splits), self.scenarios))
        for slot in range(splits.shape[1]):
            total += self.profits[slot].T[splits[:, slot]]
        for book in self.shared:
            total += book.extra(splits)
        return total

    def _splits(self, actions: ActionBatch) -> ActionBatch:
        """Return splits ``(n, slots)``; raise `InputError` if an amount is not in the table of profits."""
        slots, _, amounts = self.profits.shape
        splits = exact_array("actions", actions, np.int64, (None, slots))
        if len(splits) and (splits.min() < 0 or splits.max() >= amounts):
            raise InputError(
                f"actions must have 0 to {amounts - 1} shares per slot, got {splits.min()} to {splits.max()}"
            )
        return splits

    def values(self, action: Action) -> Vector:
        """Return the profit of one split in every scenario, ``(scenarios,)``."""
        table = self.listed_totals
        if table is None:
            batch = as_batch(action)
            key = batch.tobytes(), batch.shape
            if self._latest[0] != key:  # policies often repeat a split many times in a row
                self._latest = key, np.asarray(self.totals(batch)[0])
            return self._latest[1]
        return np.asarray(table[int(self.actions.listed().rows_of(as_batch(action))[0])])

    def reward_tables(self, rng: np.random.Generator, horizon: int) -> tuple[Vector, Vector, Integers, Vector]:
        """Return each scenario as a piece whose rewards have no noise."""
        listed = self.actions.listed()
        totals = self.totals(listed.handles) if self.listed_totals is None else self.listed_totals[listed.members]
        means = np.ascontiguousarray(totals.T)
        whole_number("horizon", horizon, maximum=MOST_ROUNDS)
        drawn = checked_rng(rng).integers(self.scenarios, size=horizon)
        return means, np.zeros_like(means), drawn, np.zeros(horizon)

    @cached_property
    def listed_totals(self) -> Vector | None:
        """`totals` of all splits by row of the list; None if splits are not listed or the table is too large."""
        actions = self.actions
        if not isinstance(actions, Actions) or len(actions.matrix) * self.scenarios > _CELLS:
            return None
        table = np.zeros((len(actions.matrix), self.scenarios))
        table[actions.members] = self.totals(actions.handles)
        return table

    def beyond(self, action: Action) -> float:
        """Return the fraction of scenarios in which a split takes more than a shared book's recorded levels hold."""
        splits = self._splits(as_batch(action))
        over = [book.beyond(splits)[0] for book in self.shared]
        return float(np.any(over, axis=0).mean()) if over else 0.0

    def moments(self, actions: ActionBatch, piece: int = 0) -> tuple[Vector, Vector]:
        actions = self._splits(actions)
        if len(actions) == 0:
            return np.zeros(0), np.zeros(0)
        step = max(_CELLS // self.scenarios, 1)
        means, deviations = [], []
        for start in range(0, len(actions), step):
            total = self.totals(actions[start : start + step])
            means.append(total.mean(axis=1))
            deviations.append(total.std(axis=1))
        return np.concatenate(means), np.concatenate(deviations)

    def mean_variance(self, actions: ActionBatch, risk_tolerance: float | None = None) -> Vector:
        """Return each split's mean-variance over the scenarios, or minus its mean for an infinite risk tolerance."""
        mean, deviation = self.moments(actions)
        return _score(mean, deviation, self._tolerance(risk_tolerance))

    def _tolerance(self, risk_tolerance: float | None) -> float:
        if risk_tolerance is None:
            return self.risk_tolerance
        if isinstance(risk_tolerance, float) and risk_tolerance == np.inf:
            return risk_tolerance
        return valid_magnitude("risk_tolerance", risk_tolerance, minimum=0, smallest=0)

    def _comparator(self, piece: int) -> Action:
        return self.best_split()

    def best_split(self, risk_tolerance: float | None = None) -> Action:
        """Return the split with the smallest mean-variance: by enumeration if splits are listed, else by local search.

        The search starts from the linear model's best split, from splits that fill one slot first, and at random.
        """
        actions = self.actions
        if not isinstance(actions, LatticeSet):
            tolerance = self._tolerance(risk_tolerance)
            return actions.listed().action(int(_score(*self._listed_moments, tolerance).argmin()))
        full = (actions.best(-unit) for unit in np.eye(actions.dim)[: actions.slots])
        some = map(as_action, actions.sample(np.random.default_rng(0), 8))
        ends = as_batch(*(self.climb(start, risk_tolerance) for start in (self.pieces[0].best, *full, *some)))
        return as_action(ends[self.mean_variance(ends, risk_tolerance).argmin()])

    @cached_property
    def _listed_moments(self) -> tuple[Vector, Vector]:
        return self.moments(self.actions.listed().handles)

    def climb(self, start: Action, risk_tolerance: float | None = None) -> Action:
        """Return the local minimum of the mean-variance that moves of ever fewer shares between two slots reach."""
        actions = self.actions
        if not isinstance(actions, LatticeSet):
            raise InputError(f"local search needs an unlisted set of splits, was {actions}; call best_split instead")
        split, lot = self._splits(as_batch(start))[0], actions.lot
        value = float(self.mean_variance(split[None], risk_tolerance)[0])
        tolerance = self._tolerance(risk_tolerance)
        step = max(int(split.sum()) // (2 * lot), 1) * lot
        while step >= lot:
            moved, mean, deviation = self._around(actions, split, step)
            values = _score(mean, deviation, tolerance) if len(moved) else np.array([np.inf])
            if values.min() < value:
                split, value = moved[values.argmin()], float(values.min())
            else:
                step = step // (2 * lot) * lot
        return as_action(split)

    def _around(self, actions: LatticeSet, split: Integers, step: int) -> tuple[ActionBatch, Vector, Vector]:
        """Return the splits reached by moving ``step`` shares between two slots, with mean and standard deviation."""
        unit = np.eye(len(split), dtype=np.int64)
        moved = split + step * (unit[:, None] - unit[None, :]).reshape(-1, len(split))
        key = split.tobytes(), step  # cached: searches at many risk tolerances visit the same splits
        if key not in self._seen:
            allowed = np.flatnonzero(actions.contains(moved))
            if 3 * len(moved) * len(self._seen) > _CELLS:
                self._seen.clear()
            self._seen[key] = allowed, *self.moments(moved[allowed])
        allowed, mean, deviation = self._seen[key]
        return moved[allowed], mean, deviation

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle, without the cache of the local search."""
        return self.__dict__ | {"_seen": {}}

    def run(self, rng: np.random.Generator) -> EnvironmentRun:
        return _ReplayRun(self, checked_rng(rng))


def _score(mean: Vector, deviation: Vector, risk_tolerance: float) -> Vector:
    return np.asarray(-mean if np.isinf(risk_tolerance) else deviation**2 - risk_tolerance * mean)


class _ReplayRun(EnvironmentRun):
    environment: Replay

    def reward(self, action: Action) -> float:
        self.time += 1
        return float(self.environment.values(action)[self.rng.integers(self.environment.scenarios)])

    def draw_blocks(
        self, actions: ActionBatch, counts: Integers, mean: Vector, deviation: Vector
    ) -> tuple[Vector, Vector]:
        scenarios, table = self.environment.scenarios, self.environment.listed_totals
        if table is not None and (counts < scenarios).all():
            # Draw many short blocks at once; the loop below would make the same draws.
            rows = self.environment.actions.listed().rows_of(actions)
            scenario = self.rng.integers(scenarios, size=int(counts.sum()))
            return noise_block_moments(table[np.repeat(rows, counts), scenario], counts)
        center, spread = np.empty(len(counts)), np.empty(len(counts))
        even = np.full(scenarios, 1 / scenarios)
        for block, (action, count) in enumerate(zip(actions, counts, strict=True)):
            values = self.environment.values(action)
            if count < scenarios:
                drawn = values[self.rng.integers(scenarios, size=count)]
                center[block] = drawn.mean()
                spread[block] = ((drawn - center[block]) ** 2).sum()
            else:
                times = self.rng.multinomial(count, even)
                center[block] = times @ values / count
                spread[block] = times @ (values - center[block]) ** 2
        return center, spread


def replay_belief(replay: Replay, buckets: Integers, *, firmness: float = 0.1, seed: int = 0) -> Belief:
    """Fit a prior on the coefficients to the scenarios of a replay, for `Adaptive(prior=...)`.

    Recorded books give the profit of every split. Means and variances of a sample of splits are regressed on their
    features; resampling the buckets of the day gives the precision of the coefficients.

    Parameters
    ----------
    buckets : Integers
        ``(scenarios,)``, each scenario's bucket of the day; scenarios of one bucket are strongly correlated.
    firmness : float
        Weight of the prior, above 0 and up to 1. At 1, it is as precise as the recorded books allow. Future books may
        differ by more, so a lower weight lets the policy adapt.
    """
    instance_of("replay", replay, Replay, "a Replay")
    buckets = exact_array("buckets", buckets, np.int64, (None,))
    names = np.unique(buckets)
    if np.shape(buckets) != (replay.scenarios,) or len(names) < 2:
        was = f"shape {np.shape(buckets)} with {len(names)} different"
        raise InputError(f"buckets must have shape ({replay.scenarios},) and at least two different values, was {was}")
    real_number("firmness", firmness, above=0, maximum=1)
    rng = np.random.default_rng(seed_stream(whole_number("seed", seed, minimum=0), "warm start"))
    problem = replay.pieces[0]
    splits = np.unique(replay.actions.sample(rng, 400), axis=0)
    drawn = bootstrap_fit_buckets(buckets, 200, rng)
    means, variances = _moments(replay.totals(splits), np.vstack([np.ones_like(drawn[:1]), drawn]))
    typical = float(np.median(variances[0])) or float(variances[0].max()) or problem.base_variance or 1.0
    noise = np.maximum(variances[0], LEAST_VARIANCE * typical)
    features = replay.actions.features(splits)
    about_mean = _fitted(features, means, 1 / noise)
    about_variance = _fitted(features, variances - problem.base_variance, 1 / noise**2)
    firm = [_precision(about[1:], len(names)) for about in (about_mean, about_variance)]
    return Belief(about_mean[0], firm[0], about_variance[0], firm[1], typical, len(names)).weakened(firmness)


def _moments(totals: Matrix, weights: Integers) -> tuple[Matrix, Matrix]:
    """Return mean and variance ``(R, n)`` of totals ``(n, scenarios)`` under each row of weights ``(R, scenarios)``."""
    middle = totals.mean(axis=1)
    apart, share = (totals - middle[:, None]).T, weights / weights.sum(axis=1, keepdims=True)
    means = share @ apart
    return means + middle, np.maximum(share @ apart**2 - means**2, 0.0)


def _fitted(features: Matrix, targets: Matrix, weights: Floats) -> Matrix:
    """Return weighted least-squares coefficients ``(R, dim)`` for each row of targets ``(R, n)``."""
    root = np.sqrt(weights)
    return np.asarray(np.linalg.lstsq(features * root[:, None], (targets * root).T, rcond=None)[0].T)


def _precision(coefficients: Matrix, buckets: int) -> Matrix:
    """Return the inverse covariance of resampled coefficients ``(R, dim)``; correlations are shrunk towards zero."""
    covariance = np.cov(coefficients, rowvar=False)
    error = np.sqrt(np.diag(covariance))
    error = np.maximum(error, 1e-9 * float(np.abs(coefficients).max() or 1.0))
    scale = np.outer(error, error)
    # Without shrinkage, few buckets would give some combinations of coefficients a variance near zero.
    unknown = len(error) / (len(error) + buckets)
    correlation = (1 - unknown) * covariance / scale + unknown * np.eye(len(error))
    return np.asarray(np.linalg.inv(correlation) / scale)
