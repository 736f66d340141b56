"""One order size of a study: scenarios to learn from and to test on, venue models, and the problem they make."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from riskroute.core.arrays import Integers
from riskroute.core.config import config_all_different
from riskroute.core.errors import DataError, InputError
from riskroute.core.validation import one_of
from riskroute.learning.actions import Action, as_action, as_batch
from riskroute.learning.policies.adaptive import Adaptive
from riskroute.learning.problem import Problem
from riskroute.market.fitting import Fit
from riskroute.market.importing import SymbolBooks
from riskroute.market.scenarios import ENOUGH, Scenarios, Slot, sample_scenarios
from riskroute.routing.allocations import Allocations
from riskroute.routing.fees import load_fees
from riskroute.routing.frontier import trace_frontier
from riskroute.routing.venues import VenueModel, venue_problem
from riskroute.simulation.replay import Replay, replay_belief
from riskroute.study.split.config import SplitStudyConfig
from riskroute.study.split.evaluation import evaluate_splits, evaluated_best_single
from riskroute.study.split.order_records import RECOMMENDED, OrderFrontierSplit

MODEL_ONLY, RISK_NEUTRAL = "linear model alone", "ignoring risk"
NO_DARK = "without dark pools"
BEST_VENUE, EVEN, BY_DEPTH = "best single slot", "equal split", "in proportion to depth"
NAIVE = (EVEN, BY_DEPTH, BEST_VENUE)
PARTS = ("train", "test")

MOST_LISTED = 5_000
"""Splits up to which policies that try each of them are played; beyond, that takes long and teaches nothing."""

ENOUGH_TO_TEST = 0.5
"""Share of the sample times in the test hours at which a slot must have books; other slots are left out."""

MOST_POINTS = 25
"""Splits of the risk frontier at most."""


@dataclass(frozen=True)
class PreparedOrder:
    """What is known of one order size, whatever the risk tolerance."""

    shares: int
    lot: int
    caps: Integers
    scenarios: dict[str, Scenarios]
    models: list[VenueModel]
    fits: dict[str, Fit]
    unused: dict[str, str]

    @property
    def slots(self) -> list[str]:
        """Names of the slots."""
        return [model.name for model in self.models]

    @property
    def homes(self) -> dict[str, str]:
        """Dark pools, and the venue at which their remainder crosses."""
        return {slot.name: slot.venue for slot in self.scenarios["train"].slots if slot.pool is not None}

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
        buckets = len(np.unique(self.buckets(part)))
        if buckets < 2:
            known = self.scenarios[part].deep(self.caps).mean(axis=1)
            worst = int(known.argmin())
            most = (
                f"{self.slots[worst]} has books for {self.caps[worst]} shares at {known[worst]:.0%} of the sample times"
            )
            raise DataError(f"{part} must have deep books at all slots in at least two buckets, was {buckets}; {most}")
        return Replay(problem, *self.scenarios[part].replayed(self.caps))

    def buckets(self, part: str) -> Integers:
        """Bucket of each scenario of `replay`."""
        scenarios = self.scenarios[part]
        return scenarios.buckets[scenarios.whole(self.caps)]

    def left_out(self, part: str) -> float:
        """Share of the scenarios of a part that are not deep enough."""
        return float(1 - self.scenarios[part].whole(self.caps).mean())

    def mid(self, part: str) -> float:
        """Mid over the scenarios of `replay` on average, in dollars."""
        scenarios = self.scenarios[part]
        return float(np.nanmean(scenarios.mids[scenarios.whole(self.caps)]))


def order_slots(config: SplitStudyConfig, data: SymbolBooks) -> list[Slot]:
    """Slots in the order: market orders, limit orders, dark pools."""
    venues = tuple(one.venue for one in data.recordings)
    for name, chosen in (("market", config.market or []), ("limit", config.limit)):
        for venue in chosen:
            one_of(name, venue, venues)
    slots = [Slot(venue) for venue in (venues if config.market is None else config.market)]
    slots += [Slot(venue, "limit") for venue in config.limit]
    for pool in config.pools:
        home = pool.venue or data.deepest
        slots.append(Slot(one_of(f"venue of {pool.name}", home, venues), "dark", pool.pool()))
    if len(slots) < 2:
        names = ", ".join(slot.name for slot in slots)
        raise InputError(f"slots must be at least two, was {names}; limit = [..] or [[dark]] add some")
    config_all_different("slots", [slot.name for slot in slots])
    return slots


def prepare_order(config: SplitStudyConfig, data: SymbolBooks, shares: int) -> PreparedOrder:
    """Sample scenarios of both parts of the day, see what slots can take, and fit models to the first part.

    Slots that lack books too often, or that cannot take one lot, are left out.
    """
    slots, lot = order_slots(config, data), config.lot_of(shares)
    names = tuple(slot.name for slot in slots)
    for name, cap in config.caps.items():
        one_of("slot in caps", name, names)
        if cap < lot:
            raise InputError(f"cap of {name} must be at least one lot of {lot}, was {cap}")
    scenarios = _sampled(config, data, slots, shares)
    unused = _unusable(scenarios, lot)
    if unused:
        slots = [slot for slot in slots if slot.name not in unused]
        if len(slots) < 2:
            why = "; ".join(f"{name}: {reason}" for name, reason in unused.items())
            raise DataError(f"slots that can be used must be at least two, was {len(slots)} ({why})")
        scenarios = _sampled(config, data, slots, shares)
    train = scenarios["train"]
    given = np.array([config.caps.get(slot.name, shares) for slot in slots])
    caps = np.minimum(train.caps(), given) // lot * lot
    if train.room(caps) < shares:
        able = ", ".join(f"{slot.name} {cap}" for slot, cap in zip(slots, caps, strict=True))
        raise DataError(f"slots must be able to take {shares} shares together, was {train.room(caps)} ({able} alone)")
    if Allocations(shares, len(caps), lot, caps.tolist()).size > MOST_LISTED:
        rounded = np.where(given < shares, caps, _rounded(caps, shares, lot))
        caps = rounded if train.room(rounded) >= shares else caps
    models, fits = train.models(caps, config.seed)
    return PreparedOrder(shares, lot, caps, scenarios, models, fits, unused)


def _sampled(config: SplitStudyConfig, data: SymbolBooks, slots: list[Slot], shares: int) -> dict[str, Scenarios]:
    """Scenarios of both parts of the day."""
    fees = load_fees(config.fees) if config.fees is not None else None
    return {
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


def _unusable(scenarios: dict[str, Scenarios], lot: int) -> dict[str, str]:
    """Slots that cannot take part, and why."""
    train, test = scenarios["train"].presence(), scenarios["test"].presence()
    caps = scenarios["train"].caps()
    found = {}
    for k, slot in enumerate(scenarios["train"].slots):
        if train[k] < ENOUGH:
            found[slot.name] = _too_few_books(train[k], "train", ENOUGH)
        elif test[k] < ENOUGH_TO_TEST:
            found[slot.name] = _too_few_books(test[k], "test", ENOUGH_TO_TEST)
        elif caps[k] < lot:
            found[slot.name] = f"books for {caps[k]} shares, a lot is {lot}"
    return found


def _too_few_books(share: float, part: str, needed: float) -> str:
    """Why a slot is left out.

    >>> _too_few_books(0.5, "train", 0.95)
    'books at 50% of the sample times in the train hours, 95% are needed'
    """
    return f"books at {share:.0%} of the sample times in the {part} hours, {needed:.0%} are needed"


def _rounded(caps: Integers, shares: int, lot: int) -> Integers:
    """Caps as few different numbers, in lots: the whole order, or a half, a quarter .. of it, or nothing.

    Splits that cannot be listed are proven about, which takes long with many different caps.

    >>> _rounded(np.array([1000, 980, 397, 0]), 1000, 10).tolist()
    [1000, 500, 250, 0]
    """
    halvings = np.ceil(np.log2(shares / np.clip(caps, 1, shares)))
    return np.where(caps > 0, (shares / 2**halvings).astype(np.int64) // lot * lot, 0)


def order_alternatives(prepared: PreparedOrder, problem: Problem, train: Replay) -> dict[str, tuple[int, ...]]:
    """The recommended split and what else one might do, all from the training part."""
    shares, caps = prepared.shares, prepared.caps
    allocations = Allocations(shares, len(caps), prepared.lot, caps.tolist())
    kinds = np.array([model.kind for model in prepared.models])
    depths = np.where(kinds == "market", np.nanmean(prepared.scenarios["train"].depths, axis=1), 0.0)
    found: dict[str, Action] = {
        RECOMMENDED: train.comparators[0],
        MODEL_ONLY: problem.best,
        RISK_NEUTRAL: train.best_split(np.inf),
        EVEN: allocations.apportion(np.ones(len(caps))),
    }
    lit = np.where(kinds == "dark", 0, caps)
    if (kinds == "dark").any() and prepared.scenarios["train"].room(lit) >= shares:
        without = replace(prepared, caps=lit).problem(problem.risk_tolerance)
        found[NO_DARK] = Replay(without, train.profits, train.shared).best_split()
    if depths.any():
        found[BY_DEPTH] = allocations.apportion(depths)
    single = evaluated_best_single(train, shares, caps)
    if len(single):
        found[BEST_VENUE] = tuple(single[0].tolist())
    return {name: tuple(as_batch(split)[0].tolist()) for name, split in found.items()}


def order_frontier(prepared: PreparedOrder, train: Replay, test: Replay, seed: int) -> tuple[OrderFrontierSplit, ...]:
    """Best splits on the books trained on, from careful to bold, and what they come to on those of the other part."""

    def best(risk_tolerance: float) -> tuple[Action, float, float]:
        split = as_batch(train.best_split(risk_tolerance))
        (mean,), (deviation,) = train.moments(split)
        return as_action(split[0]), float(mean), float(deviation**2)

    points = trace_frontier(best, at=[train.risk_tolerance], most=MOST_POINTS)
    splits = {f"{k}": tuple(as_batch(point.action)[0].tolist()) for k, point in enumerate(points)}
    measured = evaluate_splits(splits, test, prepared.buckets("test"), first="0", seed=seed)
    return tuple(
        OrderFrontierSplit(
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


def order_warm_policy(prepared: PreparedOrder, train: Replay, seed: int) -> Adaptive:
    """The recommended policy with a belief from the books of the training part."""
    return Adaptive(prior=replay_belief(train, prepared.buckets("train"), seed=seed))
