"""The result of a split study: the measures of splits and policies, and the findings in sentences.

Amounts are dollars per order unless stated otherwise. Mean-variance divided by the risk tolerance is the risk-adjusted
cost: the cost plus a charge for risk, in dollars. There is no such charge at a risk tolerance of zero.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from riskroute.core.arrays import Floats, Integers
from riskroute.core.errors import DataError, InputError
from riskroute.core.files import write_json
from riskroute.core.records import from_plain, to_plain
from riskroute.core.results import SimulationResult
from riskroute.core.runtime import provenance_versions
from riskroute.core.text import dollars_text, words_list
from riskroute.core.validation import instance_of, valid_path
from riskroute.learning.actions import Action, as_action, as_batch
from riskroute.learning.problem import Problem
from riskroute.learning.registry import BASELINES
from riskroute.market.clock import zone_label
from riskroute.market.fitting import VenueFit, bootstrap_fit_buckets, bootstrap_fit_error
from riskroute.market.importing import ImportedBooks
from riskroute.routing.allocations import Allocations
from riskroute.routing.frontier import trace_frontier
from riskroute.simulation.replay import Replay
from riskroute.simulation.runner import SimulationPanel
from riskroute.study.config import SplitStudyConfig

if TYPE_CHECKING:
    from riskroute.study.split_study import SplitStudyOrder, SplitTask

Value = TypeVar("Value")

PARTS = ("train", "test")
RECOMMENDED = "recommended"
WARM = "adaptive, warm"  # starts with a belief from the train hours
_NAIVE = ("equal split", "in proportion to depth", "best single slot")  # need no model


@dataclass(frozen=True)
class _TrainAndTest(Generic[Value]):
    """One value for the train hours and one for the test hours."""

    train: Value
    test: Value


@dataclass(frozen=True)
class _SampleCount:
    """Numbers of time buckets and of scenarios."""

    buckets: int
    scenarios: int


@dataclass(frozen=True)
class _SplitMeasures:
    """Profit and cost of a split over the scenarios of the train or the test hours.

    The first ten are profits, in dollars and squared dollars: mean, variance, mean-variance, expected shortfall at 5 %
    (``tail``), their standard errors, and the excess of the mean-variance over that of the recommended split. The
    others are costs; those with a charge for risk are None at a risk tolerance of zero.
    """

    mean: float
    variance: float
    mean_variance: float
    tail: float
    mean_error: float
    variance_error: float
    mean_variance_error: float
    tail_error: float
    excess: float
    excess_error: float
    cost: float
    cost_error: float
    basis_points: float
    per_thousand: float
    tail_cost: float
    risk_charge: float | None
    charged_cost: float | None
    charged_cost_error: float | None
    charged_excess: float | None
    charged_excess_error: float | None


@dataclass(frozen=True)
class _SplitOutcome:
    """One split, shares by slot, and its measures in the train and test hours."""

    allocation: tuple[int, ...]
    train: _SplitMeasures
    test: _SplitMeasures


@dataclass(frozen=True)
class _PolicyMeasures:
    """Performance of a policy in one environment, averaged over its runs.

    ``learning_cost`` is the regret in dollars, ``cost_each`` the risk-adjusted cost of an order including learning;
    both are None at a risk tolerance of zero. Errors are standard errors over runs. ``explored`` is the fraction of
    orders sent elsewhere than to the final split; ``ended_on`` is the most frequent final split, ``ended_on_share``
    the fraction of runs that ended there. Curves have one value per checkpoint.
    """

    regret: float
    regret_error: float
    learning_cost: float | None
    mean_variance: float
    cost_each: float | None
    cost_each_error: float | None
    mean_variance_error: float | None
    explored: float
    ended_on: tuple[int, ...]
    ended_on_share: float
    runs: int
    checkpoints: tuple[int, ...]
    mean_regret: tuple[float, ...]
    std_regret: tuple[float, ...]


@dataclass(frozen=True)
class _PolicyOutcome:
    """Performance of a policy in the fitted model, and on replayed books of the train and test hours."""

    model: _PolicyMeasures
    train: _PolicyMeasures
    test: _PolicyMeasures


@dataclass(frozen=True)
class _SlotModel:
    """Mean and variance of the profit of a slot: coefficients of the shares and of their square."""

    mean: tuple[float, float]
    variance: tuple[float, float]
    kind: str


@dataclass(frozen=True)
class _FrontierSplit:
    """The best split of the train hours from ``risk_tolerance`` up to the next; profit in the train and test hours."""

    risk_tolerance: float
    allocation: tuple[int, ...]
    mean: float
    variance: float
    test_mean: float
    test_variance: float
    tail: float


@dataclass(frozen=True)
class SplitResultCase:
    """The findings for one order size and risk tolerance.

    ``slots`` gives the order of every allocation, ``caps`` the most shares per slot, ``rests_cross_at`` the venue where
    a pool's remainder crosses the spread, ``unused_slots`` the reasons by slot. ``beyond_known_levels`` and
    ``left_out`` are fractions of the scenarios: where the recommended split needs more than the known levels, and where
    a book is missing or too shallow. ``naive_splits`` need no model. ``gap`` is the risk-adjusted cost of the
    recommended split, out of sample minus in sample. ``warm_policies`` start with a belief from the train hours;
    ``unplayed`` ones need a list of splits, and there are too many. ``splits_possible`` is text: it may have hundreds
    of digits.
    """

    shares: int
    risk_tolerance: float
    lot: int
    mid: _TrainAndTest[float]
    slots: tuple[str, ...]
    kinds: tuple[str, ...]
    caps: tuple[int, ...]
    rests_cross_at: dict[str, str]
    unused_slots: dict[str, str]
    moments: _TrainAndTest[_SampleCount]
    splits_possible: str
    beyond_known_levels: _TrainAndTest[float]
    left_out: _TrainAndTest[float]
    models: dict[str, _SlotModel]
    fits: dict[str, VenueFit]
    splits: dict[str, _SplitOutcome]
    naive_splits: tuple[str, ...]
    gap: float | None
    gap_error: float | None
    frontier: tuple[_FrontierSplit, ...]
    policies: dict[str, _PolicyOutcome]
    recommended_policy: str
    warm_policies: tuple[str, ...]
    unplayed: tuple[str, ...]

    @property
    def recommended(self) -> _SplitOutcome:
        """The recommended split."""
        return self.splits[RECOMMENDED]

    def split_text(self, allocation: Sequence[int]) -> str:
        """Return an allocation as text, shares and slot, without empty slots."""
        return ", ".join(f"{shares:,} {slot}" for slot, shares in zip(self.slots, allocation, strict=True) if shares)

    def headline(self, side: str) -> str:
        """Return the recommendation in one sentence: "Sell 10 shares by sending 4 to XNAS and 6 to Dark 1."."""
        split = self.recommended.allocation
        parts = [f"{shares:,} to {slot}" for slot, shares in zip(self.slots, split, strict=True) if shares]
        return f"{'Sell' if side == 'sell' else 'Buy'} {sum(split):,} shares by sending {words_list(parts)}."

    def findings(self) -> list[str]:
        """Return the findings in sentences: costs, alternatives, the policy to learn with, and caveats."""
        tested, seen = self.recommended.test, self.moments.test
        found = []
        pools = [
            slot
            for slot, shares in zip(self.slots, self.recommended.allocation, strict=True)
            if shares and slot in self.rests_cross_at
        ]
        if pools:
            venues = words_list(list(dict.fromkeys(self.rests_cross_at[pool] for pool in pools)))
            are = "is a dark pool" if len(pools) == 1 else "are dark pools"
            found.append(
                f"{words_list(pools)} {are} with assumed parameters; the remainder crosses the spread at {venues}."
            )
        found.append(
            f"Out of sample the cost was {dollars_text(tested.cost)} per order (s.e. "
            f"{dollars_text(tested.cost_error)}): {tested.basis_points:.2f} basis points, or "
            f"{dollars_text(tested.per_thousand)} per 1,000 shares. Expected shortfall (5 %): "
            f"{dollars_text(tested.tail_cost)}. The test hours gave {seen.scenarios:,} scenarios in "
            f"{seen.buckets:,} time buckets."
        )
        if self.gap is not None:
            word = "higher" if self.gap > 0 else "lower"
            gap, error = dollars_text(abs(self.gap)), dollars_text(self.gap_error)
            found.append(f"The risk-adjusted cost was {gap} {word} out of sample than in sample (s.e. {error}).")
        same = [k for k, point in enumerate(self.frontier) if point.allocation == self.recommended.allocation]
        if same:
            start, later = self.frontier[same[0]].risk_tolerance, self.frontier[same[0] + 1 :]
            span = f"from {start:.3g} to {later[0].risk_tolerance:.3g}" if later else f"of {start:.3g} and more"
            found.append(f"The same split is optimal for any risk tolerance {span}.")
        found += [_alternative(self, name) for name in self.splits if name != RECOMMENDED]
        found += [f"Not used: {slot}, {reason}." for slot, reason in self.unused_slots.items()]
        if max(self.caps) < self.shares:
            found.append("No single slot can take the whole order.")
        if dropped := self.left_out.test:
            why = "because a book was missing or too shallow"
            found.append(f"{dropped:.1%} of the sample times in the test hours were skipped {why}.")
        if beyond := self.beyond_known_levels.test:
            times = f"At {beyond:.1%} of the sample times in the test hours"
            found.append(
                f"{times} the split needed more than the known levels of a book; its cost beyond them is an estimate."
            )
        return [*found, *_learning(self)]


@dataclass(frozen=True)
class _RecordingFacts:
    """The recording of one venue: its books, the levels kept, its events and its source."""

    books: int
    levels: int
    deeper: int
    cut: str
    events: int
    source: str


@dataclass(frozen=True)
class _MarketFacts:
    """The market data of a split study."""

    origin: str
    symbol: str
    date: str
    zone: str
    side: str
    recordings: dict[str, _RecordingFacts]


@dataclass(frozen=True, repr=False)
class SplitStudyResult:
    """The result of a split study; it prints as its findings.

    ``config`` has all defaults filled in; ``versions`` are those of the software that the numbers depend on; ``orders``
    has one case for each order size and risk tolerance.
    """

    config: SplitStudyConfig
    versions: dict[str, str]
    market: _MarketFacts
    orders: tuple[SplitResultCase, ...]

    def __post_init__(self) -> None:
        instance_of("config", self.config, SplitStudyConfig, "a SplitStudyConfig")
        instance_of("versions", self.versions, dict, "a dictionary of versions by name")
        instance_of("market", self.market, _MarketFacts, "the facts about the market")
        if not isinstance(self.orders, tuple) or not all(isinstance(one, SplitResultCase) for one in self.orders):
            raise InputError("orders must be a tuple of SplitResultCase")

    def __repr__(self) -> str:
        return "\n\n".join("\n  ".join([case.headline(self.market.side), *case.findings()]) for case in self.orders)

    @classmethod
    def from_play(
        cls,
        config: SplitStudyConfig,
        data: ImportedBooks,
        tasks: Sequence[SplitTask],
        played: Iterator[SimulationResult],
    ) -> SplitStudyResult:
        """Evaluate splits and policies; ``played`` holds the results of the panels of all tasks in turn."""
        cases = [_case(task, {name: next(played) for name in task.panels}, config.seed) for task in tasks]
        filled = replace(config, dark=config.pools)
        return cls(filled, provenance_versions(), _market_facts(data, config.side), tuple(cases))

    def summary(self) -> dict[str, Any]:
        """Return plain values: the content of the JSON file."""
        plain: dict[str, Any] = to_plain(self)
        return plain

    def to_json(self, path: str | os.PathLike[str]) -> Path:
        """Write every number to a ``.json`` file, which `from_json` reads."""
        target = valid_path("path", path)
        if target.suffix.lower() != ".json":
            raise InputError(f"path must end in .json, was {target.name!r}")
        return write_json(target, self.summary())

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> SplitStudyResult:
        """Read a result from a file of `to_json`, such as ``study.json``."""
        source = valid_path("path", path)
        try:
            plain = json.loads(source.read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(f"path must be a readable file, was {str(source)!r}: {error.strerror or error}") from None
        except ValueError as error:
            raise DataError(f"{source.name} must be JSON: {error}") from None
        try:
            return from_plain(cls, plain, "the file")
        except DataError as error:
            raise DataError(f"{source.name} must be the result of a study: {error}") from None


def _measure_splits(
    splits: Mapping[str, tuple[int, ...]],
    replay: Replay,
    buckets: Integers,
    *,
    first: str,
    seed: int,
    mid: float = math.nan,
) -> dict[str, _SplitMeasures]:
    """Return the measures of each split; errors resample ``buckets (scenarios,)``; ``excess`` is over ``first``."""
    totals, tolerance = replay.totals(np.array(list(splits.values()))), replay.risk_tolerance
    drawn = bootstrap_fit_buckets(buckets, 400, np.random.default_rng(seed)).astype(np.float64)
    samples = len(np.unique(buckets))
    plain, redrawn = (
        {name: _moments(weights, row, tolerance) for name, row in zip(splits, totals, strict=True)}
        for weights in (np.ones((1, totals.shape[1])), drawn)
    )
    found = {}
    for name, split in splits.items():
        mean, variance, mean_variance, tail = (float(values[0]) for values in plain[name].values())
        errors = {
            f"{field}_error": float(bootstrap_fit_error(values, samples)) for field, values in redrawn[name].items()
        }
        excess = mean_variance - float(plain[first]["mean_variance"][0])
        gaps = redrawn[name]["mean_variance"] - redrawn[first]["mean_variance"]
        excess_error = float(bootstrap_fit_error(gaps, samples))
        cost, shares = -mean, sum(split)
        found[name] = _SplitMeasures(
            mean=mean,
            variance=variance,
            mean_variance=mean_variance,
            tail=tail,
            **errors,
            excess=excess,
            excess_error=excess_error,
            cost=cost,
            cost_error=errors["mean_error"],
            basis_points=cost / (shares * mid) * 1e4,
            per_thousand=cost / shares * 1000,
            tail_cost=-tail,
            risk_charge=_charged(variance, tolerance),
            charged_cost=_charged(mean_variance, tolerance),
            charged_cost_error=_charged(errors["mean_variance_error"], tolerance),
            charged_excess=_charged(excess, tolerance),
            charged_excess_error=_charged(excess_error, tolerance),
        )
    return found


def _moments(weights: Floats, values: Floats, tolerance: float) -> dict[str, Floats]:
    """Return mean, variance, mean-variance and 5 % tail of values ``(n,)`` under each row of weights ``(R, n)``."""
    total = weights.sum(axis=1)
    mean = weights @ values / total
    variance = np.maximum(weights @ (values - values.mean()) ** 2 / total - (mean - values.mean()) ** 2, 0.0)
    order = np.argsort(values)
    sorted_weights = weights[:, order]
    left = np.clip(0.05 * total[:, None] - (sorted_weights.cumsum(axis=1) - sorted_weights), 0, sorted_weights)
    tail = left @ values[order] / (0.05 * total)
    return {"mean": mean, "variance": variance, "mean_variance": variance - tolerance * mean, "tail": tail}


def _charged(mean_variance: float, risk_tolerance: float) -> float | None:
    return mean_variance / risk_tolerance if risk_tolerance else None


def _best_single(replay: Replay, shares: int, caps: Integers) -> tuple[int, ...] | None:
    """Return the split with the whole order in the best single slot; None if no slot can take it."""
    able = np.flatnonzero(caps >= shares)
    if not len(able):
        return None
    corners = np.zeros((len(able), len(caps)), dtype=np.int64)
    corners[np.arange(len(able)), able] = shares
    return tuple(corners[int(replay.mean_variance(corners).argmin())].tolist())


def _alternatives(prepared: SplitStudyOrder, problem: Problem, train: Replay) -> dict[str, tuple[int, ...]]:
    """Return the recommended split and its alternatives by name, all from the train hours."""
    shares, caps = prepared.shares, prepared.caps
    allocations = Allocations(shares, len(caps), prepared.lot, caps.tolist())
    kinds = np.array([model.kind for model in prepared.models])
    depths = np.where(kinds == "market", np.nanmean(prepared.scenarios["train"].depths, axis=1), 0.0)
    even, by_depth, single = _NAIVE
    found: dict[str, Action] = {
        RECOMMENDED: train.comparators[0],
        "linear model alone": problem.best,
        "ignoring risk": train.best_split(np.inf),
        even: allocations.apportion(np.ones(len(caps))),
    }
    lit = np.where(kinds == "dark", 0, caps)
    if (kinds == "dark").any() and prepared.scenarios["train"].room(lit) >= shares:
        without = replace(prepared, caps=lit).problem(problem.risk_tolerance)
        found["without dark pools"] = Replay(without, train.profits, train.shared).best_split()
    if depths.any():
        found[by_depth] = allocations.apportion(depths)
    best = _best_single(train, shares, caps)
    if best is not None:
        found[single] = best
    return {name: tuple(as_batch(split)[0].tolist()) for name, split in found.items()}


def _frontier(prepared: SplitStudyOrder, train: Replay, test: Replay, seed: int) -> tuple[_FrontierSplit, ...]:
    """Return the best splits of the train hours by risk tolerance, with their measures in the test hours."""

    def best(risk_tolerance: float) -> tuple[Action, float, float]:
        split = as_batch(train.best_split(risk_tolerance))
        (mean,), (deviation,) = train.moments(split)
        return as_action(split[0]), float(mean), float(deviation**2)

    points = trace_frontier(best, at=[train.risk_tolerance], most=25)
    splits = {f"{k}": tuple(as_batch(point.action)[0].tolist()) for k, point in enumerate(points)}
    measured = _measure_splits(splits, test, prepared.buckets("test"), first="0", seed=seed)
    return tuple(
        _FrontierSplit(
            risk_tolerance=point.risk_tolerance,
            allocation=splits[name],
            mean=point.mean,
            variance=point.variance,
            test_mean=measured[name].mean,
            test_variance=measured[name].variance,
            tail=measured[name].tail,
        )
        for name, point in zip(splits, points, strict=True)
    )


def _case(task: SplitTask, results: dict[str, SimulationResult], seed: int) -> SplitResultCase:
    """Return the findings for one order size and risk tolerance; ``results`` are by environment."""
    prepared, problem, replays = task.prepared, task.problem, task.replays
    allocations = _alternatives(prepared, problem, replays["train"])
    mids = {part: prepared.mid(part) for part in PARTS}
    measured = {
        part: _measure_splits(allocations, replay, prepared.buckets(part), first=RECOMMENDED, seed=seed, mid=mids[part])
        for part, replay in replays.items()
    }
    tolerance = problem.risk_tolerance
    splits = {
        name: _SplitOutcome(allocation, measured["train"][name], measured["test"][name])
        for name, allocation in allocations.items()
    }
    seen, tested = (measured[part][RECOMMENDED] for part in PARTS)
    policies = {
        name: _PolicyOutcome(*(_policy(name, results[place], task.panels[place]) for place in ("model", *PARTS)))
        for name in results["train"].policies
    }
    counts = [_SampleCount(len(np.unique(prepared.buckets(part))), replays[part].scenarios) for part in PARTS]
    pools = [slot for slot in prepared.scenarios["train"].slots if slot.pool is not None]
    return SplitResultCase(
        shares=prepared.shares,
        risk_tolerance=tolerance,
        lot=prepared.lot,
        mid=_TrainAndTest(mids["train"], mids["test"]),
        slots=tuple(prepared.slots),
        kinds=tuple(model.kind for model in prepared.models),
        caps=tuple(prepared.caps.tolist()),
        rests_cross_at={slot.name: slot.venue for slot in pools},
        unused_slots=prepared.unused,
        moments=_TrainAndTest(*counts),
        splits_possible=str(problem.actions.size),
        beyond_known_levels=_TrainAndTest(*(replays[part].beyond(allocations[RECOMMENDED]) for part in PARTS)),
        left_out=_TrainAndTest(*(prepared.left_out(part) for part in PARTS)),
        models={model.name: _SlotModel(model.mean, model.variance, model.kind) for model in prepared.models},
        fits=prepared.fits,
        splits=splits,
        naive_splits=tuple(name for name in _NAIVE if name in splits),
        gap=tested.mean_variance / tolerance - seen.mean_variance / tolerance if tolerance else None,
        gap_error=math.hypot(*(one.mean_variance_error / tolerance for one in (seen, tested))) if tolerance else None,
        frontier=_frontier(prepared, replays["train"], replays["test"], seed),
        policies=policies,
        recommended_policy=_best_policy(policies),
        warm_policies=tuple(name for name in policies if name == WARM),
        unplayed=tuple(task.unplayed),
    )


def _best_policy(policies: dict[str, _PolicyOutcome]) -> str:
    """Return the best policy of the train hours; a baseline only if there are no others."""
    able = [name for name in policies if name not in BASELINES] or list(policies)
    return min(able, key=lambda name: policies[name].train.mean_variance)


def _policy(name: str, result: SimulationResult, panel: SimulationPanel) -> _PolicyMeasures:
    one, environment = result.policies[name], panel.environment
    rounds, means, deviations = (tuple(x.tolist()) for x in (one.checkpoints, one.mean_regret(), one.std_regret()))
    horizon = int(one.checkpoints[-1])
    comparator = float(environment.expected_comparator(np.array([horizon]))[0])
    each = (one.regret[:, -1] + comparator) / horizon  # mean-variance of an order, learning included
    error = float(each.std(ddof=1) / len(each) ** 0.5) if len(each) > 1 else None
    regret = means[-1]
    ends = [tuple(int(share) for share in np.atleast_1d(action)) for action in one.recommended]
    common = max(set(ends), key=ends.count)
    tolerance = environment.risk_tolerance
    return _PolicyMeasures(
        regret=regret,
        regret_error=deviations[-1] / one.runs**0.5,
        learning_cost=_charged(regret, tolerance),
        mean_variance=float(each.mean()),
        cost_each=_charged(float(each.mean()), tolerance),
        cost_each_error=_charged(error, tolerance) if error is not None else None,
        mean_variance_error=error,
        explored=float(one.exploration.mean() / horizon),
        ended_on=common,
        ended_on_share=ends.count(common) / len(ends),
        runs=one.runs,
        checkpoints=rounds,
        mean_regret=means,
        std_regret=deviations,
    )


def _market_facts(data: ImportedBooks, side: str) -> _MarketFacts:
    """Return the facts about the market data that a report states."""
    recordings = {
        one.stem: _RecordingFacts(one.snapshots, one.levels, one.deeper, " ".join(one.remarks), one.events, one.source)
        for one in data.recordings
    }
    one = data.recordings[0]
    return _MarketFacts(data.origin, data.symbol, str(one.date), zone_label(one.zone), side, recordings)


def _alternative(case: SplitResultCase, name: str) -> str:
    split, label = case.splits[name], name[0].upper() + name[1:]
    if split.allocation == case.recommended.allocation:
        return f"{label}: the same split."
    if sum(shares > 0 for shares in split.allocation) <= 3:  # longer ones are in the table
        label += f" ({case.split_text(split.allocation)})"
    more, error = split.test.charged_excess, split.test.charged_excess_error
    if more is None or error is None:
        larger, doubt = split.test.excess, f"{split.test.excess_error:.3g}"
        word = "larger" if larger > 0 else "smaller"
        return f"{label} would have had a {word} variance, by {abs(larger):.3g} squared dollars (s.e. {doubt})."
    word, doubt = "more" if more > 0 else "less", "" if abs(more) > 2 * error else ", not significant"
    return (
        f"{label} would have cost {dollars_text(abs(more))} {word}, risk-adjusted (s.e. {dollars_text(error)}{doubt})."
    )


def _learning(case: SplitResultCase) -> list[str]:
    name = case.recommended_policy
    tested = case.policies[name].test
    rounds = tested.checkpoints[-1]
    if tested.learning_cost is None or tested.cost_each is None:
        return [f"The policy {name} learns the split: over {rounds:,} orders its regret was {tested.regret:,.3g}."]
    begin = "To learn the split while trading, use the policy"
    if name in case.warm_policies:
        begin = "To keep learning, start from the train hours with the policy"
    naive = {label: case.splits[label].test.charged_cost for label in case.naive_splits}
    others = ", ".join(f"{dollars_text(cost)} for {label}" for label, cost in naive.items())
    found = [
        f"{begin} {name}: learning while trading cost {dollars_text(tested.learning_cost)} over {rounds:,} orders, "
        "risk-adjusted.",
        f"Its orders then cost {dollars_text(tested.cost_each)} on average, including learning and risk (s.e. over "
        f"runs {dollars_text(tested.cost_each_error)}), against {dollars_text(case.recommended.test.charged_cost)} for "
        f"the recommended split, {others}.",
    ]
    cheaper = [label for label, cost in naive.items() if cost is not None and cost < tested.cost_each]
    if cheaper:
        found.append(
            f"Exploration cost more than it saved: {' and '.join(cheaper)} would have been cheaper. Send "
            "the recommended split, or let a policy learn over more orders."
        )
    return found
