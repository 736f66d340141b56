"""One order size of a study: scenarios to learn from and to judge by, venue models, and the problem they make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from riskroute.errors import DataError, InputError, one_of
from riskroute.experiments.judging import best_single, judge_splits
from riskroute.experiments.order_books import BookData
from riskroute.experiments.study_config import StudyConfig
from riskroute.learning.actions import Action, as_action, as_batch
from riskroute.learning.adaptive import Adaptive
from riskroute.learning.problem import Problem
from riskroute.market.fitting import Fit
from riskroute.market.scenarios import Scenarios, sample_scenarios
from riskroute.market.slots import Slot
from riskroute.routing.allocations import Allocations
from riskroute.routing.fees import load_fees
from riskroute.routing.frontier import trace_frontier
from riskroute.routing.venues import VenueModel, venue_problem
from riskroute.routing.weights import whole_allocation
from riskroute.simulation.replay import Replay
from riskroute.simulation.warm_start import replay_belief

RECOMMENDED, MODEL_ONLY, RISK_NEUTRAL = "recommended", "linear model alone", "ignoring risk"
BEST_VENUE, EVEN, BY_DEPTH = "best single slot", "equal split", "in proportion to depth"
NAIVE = (EVEN, BY_DEPTH, BEST_VENUE)
PARTS = ("train", "judge")

MOST_LISTED = 5_000
"""Splits up to which policies that try each of them are played; beyond, that takes long and teaches nothing."""

MOST_POINTS = 25
"""Splits of the risk frontier at most."""


@dataclass(frozen=True)
class Prepared:
    """What is known of one order size, whatever the risk tolerance."""

    shares: int
    lot: int
    caps: NDArray[np.int64]
    scenarios: dict[str, Scenarios]
    models: list[VenueModel]
    fits: dict[str, Fit]

    @property
    def slots(self) -> list[str]:
        """Names of the slots."""
        return [model.name for model in self.models]

    def problem(self, risk_tolerance: float) -> Problem:
        """The routing problem of the fitted models, in dollars."""
        return venue_problem(
            self.models,
            self.shares,
            risk_tolerance=risk_tolerance,
            base_variance=0.0,
            lot=self.lot,
            caps=self.caps.tolist(),
            most_listed=MOST_LISTED,
        )

    def replay(self, part: str, problem: Problem) -> Replay:
        """The scenarios of a part that are deep enough for every split, as an environment."""
        return Replay(problem, *self.scenarios[part].replayed(self.caps))

    def buckets(self, part: str) -> NDArray[np.int64]:
        """Bucket of each scenario of `replay`."""
        scenarios = self.scenarios[part]
        return scenarios.buckets[scenarios.whole(self.caps)]

    def left_out(self, part: str) -> float:
        """Share of the scenarios of a part that are not deep enough."""
        return float(1 - self.scenarios[part].whole(self.caps).mean())

    @property
    def mid(self) -> float:
        """Middle price on average, in dollars."""
        return float(np.nanmean(self.scenarios["train"].mids))


def study_slots(config: StudyConfig, data: BookData) -> list[Slot]:
    """Slots in the order: market orders, limit orders, dark pools."""
    venues = tuple(one.venue for one in data.recordings)
    for name, chosen in (("market", config.market or []), ("limit", config.limit)):
        for venue in chosen:
            one_of(name, venue, venues)
    slots = [Slot(venue) for venue in (venues if config.market is None else config.market)]
    slots += [Slot(venue, "limit") for venue in config.limit]
    for pool in config.dark:
        home = pool.venue or data.deepest
        slots.append(Slot(one_of(f"venue of {pool.name}", home, venues), "dark", pool.pool()))
    if len(slots) < 2:
        raise InputError(f"slots must be at least two, was {[slot.name for slot in slots]}")
    return slots


def prepare(config: StudyConfig, data: BookData, shares: int) -> Prepared:
    """Sample scenarios of both parts of the day, see what slots can take, and fit models to the first part."""
    slots, fees = study_slots(config, data), load_fees(config.fees) if config.fees is not None else None
    scenarios = {
        part: sample_scenarios(
            data.store,
            data.symbol,
            slots,
            shares,
            config.window(part),
            repeats=config.repeats,
            side=config.side,
            fees=fees,
            levels=config.levels,
            seed=config.seed,
            date=config.date,
        )
        for part in PARTS
    }
    lot = config.lot_of(shares)
    names = [slot.name for slot in slots]
    caps = scenarios["train"].caps() // lot * lot
    for name, cap in config.caps.items():
        place = names.index(one_of("slot in caps", name, tuple(names)))
        caps[place] = min(caps[place], cap // lot * lot)
    if caps.sum() >= shares and Allocations(shares, len(caps), lot, caps.tolist()).size > MOST_LISTED:
        given = np.array([name in config.caps for name in names])
        caps = np.where(given, caps, _rounded(caps, shares, lot))
    room = scenarios["train"].room(caps)
    if room < shares:
        able = ", ".join(f"{name} {cap}" for name, cap in zip(names, caps, strict=True))
        raise DataError(f"slots must be able to take {shares} shares together, was {room} ({able} alone)")
    models, fits = scenarios["train"].models(caps, config.seed)
    return Prepared(shares, lot, caps, scenarios, models, fits)


def _rounded(caps: NDArray[np.int64], shares: int, lot: int) -> NDArray[np.int64]:
    """Caps as few different numbers, in lots: the whole order, or a half, a quarter .. of it, or nothing.

    Splits that cannot be listed are proven about, which takes long with many different caps.

    >>> _rounded(np.array([1000, 980, 397, 0]), 1000, 10).tolist()
    [1000, 500, 250, 0]
    """
    halvings = np.ceil(np.log2(shares / np.clip(caps, 1, shares)))
    return np.where(caps > 0, (shares / 2**halvings).astype(np.int64) // lot * lot, 0)


def alternatives(prepared: Prepared, problem: Problem, train: Replay) -> dict[str, tuple[int, ...]]:
    """The recommended split and what else one might do, all from the training part."""
    shares, caps = prepared.shares, prepared.caps
    allocations = Allocations(shares, len(caps), prepared.lot, caps.tolist())
    lit = np.array([model.kind == "market" for model in prepared.models])
    depths = np.where(lit, np.nanmean(prepared.scenarios["train"].depths, axis=1), 0.0)
    found: dict[str, Action] = {
        RECOMMENDED: train.comparators[0],
        MODEL_ONLY: problem.best,
        RISK_NEUTRAL: train.best_split(np.inf),
        EVEN: whole_allocation(np.ones(len(caps)), allocations),
        BY_DEPTH: whole_allocation(depths, allocations),
    }
    single = best_single(train, shares, caps)
    if len(single):
        found[BEST_VENUE] = tuple(single[0].tolist())
    return {name: tuple(as_batch(split)[0].tolist()) for name, split in found.items()}


def frontier_of(prepared: Prepared, train: Replay, judge: Replay, seed: int) -> list[dict[str, Any]]:
    """Best splits on the books trained on, from careful to bold, and what they come to on those of the other part."""

    def best(risk_tolerance: float) -> tuple[Action, float, float]:
        split = as_batch(train.best_split(risk_tolerance))
        (mean,), (deviation,) = train.moments(split)
        return as_action(split[0]), float(mean), float(deviation**2)

    points = trace_frontier(best, at=[train.risk_tolerance], most=MOST_POINTS)
    splits = {f"{k}": tuple(as_batch(point.action)[0].tolist()) for k, point in enumerate(points)}
    judged = judge_splits(splits, judge, prepared.buckets("judge"), first="0", seed=seed)
    return [
        {
            "risk_tolerance": point.risk_tolerance,
            "allocation": list(splits[name]),
            "mean": point.mean,
            "variance": point.variance,
            "judged_mean": judged[name]["mean"],
            "judged_variance": judged[name]["variance"],
            "tail": judged[name]["tail"],
        }
        for name, point in zip(splits, points, strict=True)
    ]


def warm_policy(prepared: Prepared, train: Replay, seed: int) -> Adaptive:
    """The recommended policy with a belief from the books of the training part."""
    return Adaptive(prior=replay_belief(train, prepared.buckets("train"), seed=seed))
