"""The split study: fit venue models to market data, play learning policies, and recommend a fixed split."""

from __future__ import annotations

import math
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from riskroute.core.arrays import Floats, Integers
from riskroute.core.config import config_all_different, read_toml_config
from riskroute.core.errors import DataError, InputError
from riskroute.core.files import writable_folder
from riskroute.core.instrument import SHARES, Instrument
from riskroute.core.provenance import provenance_versions
from riskroute.core.text import plain_number
from riskroute.core.validation import instance_of, one_of, true_or_false, valid_function, valid_path
from riskroute.learning.actions import Action, Actions, as_action, as_batch
from riskroute.learning.policies.adaptive import Adaptive
from riskroute.learning.policy import Policy
from riskroute.learning.problem import Problem
from riskroute.learning.registry import BASELINES, POLICIES
from riskroute.market.clock import zone_label
from riskroute.market.fitting import VenueFit, bootstrap_fit_buckets, bootstrap_fit_error
from riskroute.market.importing import ImportedBooks, import_books, import_files
from riskroute.market.readers.reading import ReadingOptions
from riskroute.market.recordings import recordings_instrument
from riskroute.market.scenarios import ENOUGH, Scenarios, ScenarioSlot, draw_scenarios
from riskroute.routing.allocations import Allocations
from riskroute.routing.fees import load_fees
from riskroute.routing.frontier import trace_frontier
from riskroute.routing.venue_models import VenueModel, venue_problem
from riskroute.simulation.backends import Backend, Finished
from riskroute.simulation.environments import Environment
from riskroute.simulation.replay import Replay, replay_belief
from riskroute.simulation.results import SimulationResult
from riskroute.simulation.runner import RunnerCache, SimulationPanel, SimulationSize, run_panels
from riskroute.study.config import SplitStudyConfig, changed_config, split_config
from riskroute.study.split_result import (
    RECOMMENDED,
    FrontierSplit,
    PolicyMeasures,
    PolicyOutcome,
    SampleCount,
    SlotModel,
    SplitMarketFacts,
    SplitMeasures,
    SplitOutcome,
    SplitRecordingFacts,
    SplitResultCase,
    SplitStudyResult,
    TrainAndTest,
)

PARTS = ("train", "test")
NAIVE = ("equal split", "in proportion to depth", "best single slot")  # need no model
_WARM = "adaptive, warm"  # starts with a belief from the train hours
RESULT = "study.json"
_MOST_LISTED = 5_000  # maximum splits in a list; with more, policies that try every split are not played


class SplitStudy:
    """Find the best fixed split of an order over venues and dark pools, and the cost of learning it.

    Parameters
    ----------
    config : str or path-like, optional
        A TOML file with the keys of `study_config_template`; keys that it omits have their defaults.
    **values
        Values that override the file, such as ``quantities=10, side="buy", limit=["XNAS"]``.

    Examples
    --------
    >>> study = SplitStudy(quantities=10, train="10:40-11:00", test="11:00-11:20")
    >>> study.config.quantities, study.config.risk_tolerances
    ((10,), (2.0,))
    """

    config: SplitStudyConfig

    def __init__(self, config: str | os.PathLike[str] | None = None, /, **values: Any) -> None:
        given = read_toml_config(valid_path("config", config)) if config is not None else {}
        self.config = split_config(given | values)

    def __repr__(self) -> str:
        return f"SplitStudy({changed_config(self.config)})"

    def plan(self, out: str | os.PathLike[str]) -> _SplitStudyPlan:
        """Read the market data and estimate the venue models; ``out`` is the folder for data and results."""
        folder = writable_folder("out", out)
        data = _study_data(self.config, folder)
        prepared = [_prepare_order(self.config, data, size) for size in self.config.quantities]
        cases = [_task(self.config, one, tolerance) for one in prepared for tolerance in self.config.risk_tolerances]
        return _SplitStudyPlan(self.config, data, cases, folder)

    def run(
        self,
        *,
        backend: Backend | str = "local",
        out: str | os.PathLike[str] | None = None,
        resume: bool = False,
        finished: Finished | None = None,
    ) -> SplitStudyResult:
        """Run the whole study.

        Parameters
        ----------
        backend : Backend or str
            Processes or cluster that run the tasks: ``local``, ``dask``, ``ray``, or a `Backend`.
        out : str or path-like, optional
            Folder for ``study.json``, finished tasks and market data; default: a temporary folder that is deleted.
        resume : bool
            Whether to reuse the tasks that an earlier run finished in ``out``.
        finished : callable, optional
            Function to call after every task, with the task.

        Returns
        -------
        SplitStudyResult
            The result; `print` shows its findings, and `write_split_page` writes a report.
        """
        where = instance_of("backend", Backend(backend) if isinstance(backend, str) else backend, Backend, "a Backend")
        true_or_false("resume", resume)
        if finished is not None:
            valid_function("finished", finished)
        if out is not None:
            return self.plan(out).play(where, resume=resume, finished=finished)
        if resume:
            raise InputError("resume needs the folder of the earlier run as out, was None")
        with tempfile.TemporaryDirectory() as folder:
            return self.plan(folder).play(where, finished=finished)


@dataclass(frozen=True)
class _SplitStudyPlan:
    """A prepared split study: data, fitted models and the tasks to play."""

    config: SplitStudyConfig
    data: ImportedBooks
    tasks: list[_SplitTask]
    out: Path

    @property
    def runs(self) -> int:
        """Number of runs of all policies, for a progress bar."""
        return sum(panel.runs for task in self.tasks for panel in task.panels.values())

    def play(self, backend: Backend, *, resume: bool = False, finished: Finished | None = None) -> SplitStudyResult:
        """Play all policies, evaluate splits and policies, and write ``study.json``; see `SplitStudy.run`."""
        panels = [panel for task in self.tasks for panel in task.panels.values()]
        played = run_panels(panels, RunnerCache(self.out / "tasks"), backend, resume=resume, finished=finished)
        result = SplitStudyResult(
            replace(self.config, dark=self.config.pools),
            provenance_versions(),
            _market_facts(self.data, self.config.side),
            tuple(_case(task, {name: next(played) for name in task.panels}, self.config.seed) for task in self.tasks),
        )
        result.to_json(self.out / RESULT)
        return result


def _study_data(config: SplitStudyConfig, out: Path) -> ImportedBooks:
    """Return the books: generated, imported from files, or read from a folder of recordings."""
    if config.synthetic:
        hours = min(config.train[0], config.test[0]), max(config.train[1], config.test[1])
        return import_books(None, config.symbol, out, config.seed, hours=hours)
    paths = [Path(name) for name in config.data]
    folder = next((path for path in paths if path.is_dir()), None)
    if folder is not None and len(paths) > 1:
        raise InputError(f"data must be one folder or some files, was {', '.join(config.data)}")
    if folder is None:
        symbols = (config.symbol,) if config.symbol is not None else ()
        folder = out / "imported"
        shutil.rmtree(folder, ignore_errors=True)  # may hold the import of an earlier study
        import_files(
            paths,
            folder,
            ReadingOptions(symbols, date=config.date, venue=config.venue),
            max_unresolved=config.max_unresolved,
            max_crossed=config.max_crossed,
        )
    return import_books(folder, config.symbol, out, config.seed, date=config.date)


@dataclass(frozen=True)
class SplitStudyOrder:
    """Scenarios, venue models and caps in units for one order size; they do not depend on the risk tolerance.

    ``unused`` has the slots that cannot be used, with reasons.
    """

    instrument: Instrument
    shares: int
    lot: int
    caps: Integers
    scenarios: dict[str, Scenarios]
    models: list[VenueModel]
    fits: dict[str, VenueFit]
    unused: dict[str, str]

    @property
    def slots(self) -> list[str]:
        """Names of the slots that are used."""
        return [model.name for model in self.models]

    def problem(self, risk_tolerance: float) -> Problem:
        """Return the problem of splitting the order under the fitted models, with profits in the quote currency."""
        return venue_problem(
            self.models,
            self.shares,
            risk_tolerance=risk_tolerance,
            base_variance=0.0,
            lot=self.lot,
            caps=self.caps.tolist(),
            most_listed=_MOST_LISTED,
        )

    def replay(self, part: str, problem: Problem) -> Replay:
        """Return a replay of the scenarios of ``part`` (train or test) whose books are all deep enough for the caps."""
        buckets = len(np.unique(self.buckets(part)))
        if buckets < 2:
            known = self.scenarios[part].deep(self.caps).mean(axis=1)
            worst = int(known.argmin())
            most = (
                f"{self.slots[worst]} has books for {self.instrument.quantity_text(int(self.caps[worst]))} at "
                f"{known[worst]:.0%} of the sample times"
            )
            raise DataError(f"expected deep books at all slots in two or more buckets of {part}, got {buckets}; {most}")
        return Replay(problem, *self.scenarios[part].replayed(self.caps))

    def buckets(self, part: str) -> Integers:
        """Return the time bucket of each scenario in the `replay` of a part."""
        scenarios = self.scenarios[part]
        return scenarios.buckets[scenarios.whole(self.caps)]

    def left_out(self, part: str) -> float:
        """Return the fraction of a part's scenarios that `replay` excludes because a book is too thin or missing."""
        return float(1 - self.scenarios[part].whole(self.caps).mean())

    def mid(self, part: str) -> float:
        """Return the mean value of a unit at the mid over the scenarios in the `replay` of a part."""
        scenarios = self.scenarios[part]
        return float(np.nanmean(scenarios.mids[scenarios.whole(self.caps)]))


def _slots(config: SplitStudyConfig, data: ImportedBooks) -> list[ScenarioSlot]:
    venues = tuple(one.venue for one in data.recordings)
    for name, chosen in (("market", config.market or ()), ("limit", config.limit)):
        for venue in chosen:
            one_of(name, venue, venues)
    slots = [ScenarioSlot(venue) for venue in (venues if config.market is None else config.market)]
    slots += [ScenarioSlot(venue, "limit") for venue in config.limit]
    for pool in config.pools:
        home = pool.venue or data.deepest
        slots.append(
            ScenarioSlot(
                one_of(f"venue of {pool.name}", home, venues), "dark", pool.pool(recordings_instrument(data.recordings))
            )
        )
    if len(slots) < 2:
        names = ", ".join(slot.name for slot in slots)
        raise InputError(f"expected at least two slots, got {names}; limit = [..] or [[dark]] add some")
    config_all_different("slots", [slot.name for slot in slots])
    return slots


def _prepare_order(config: SplitStudyConfig, data: ImportedBooks, quantity: float) -> SplitStudyOrder:
    """Sample scenarios of the train and test hours, drop unusable slots, and fit models to the train hours."""
    instrument = recordings_instrument(data.recordings)
    shares = instrument.order_units(quantity, "quantities")
    if shares < 2:
        raise InputError(f"quantities must be at least {instrument.quantity_text(2)}, was {quantity}")
    slots, lot = _slots(config, data), config.lot_of(shares, instrument)
    names = tuple(slot.name for slot in slots)
    for name, cap in config.caps.items():
        one_of("slot in caps", name, names)
        if instrument.units(cap, f"cap of {name}") < lot:
            raise InputError(f"cap of {name} must be at least one lot of {instrument.quantity_text(lot)}, was {cap}")
    scenarios = _sampled(config, data, slots, shares)
    unused = _unusable(scenarios, lot, instrument)
    if unused:
        slots = [slot for slot in slots if slot.name not in unused]
        if len(slots) < 2:
            why = "; ".join(f"{name}: {reason}" for name, reason in unused.items())
            raise DataError(f"expected at least two usable slots, got {len(slots)} ({why})")
        scenarios = _sampled(config, data, slots, shares)
    train = scenarios["train"]
    asked = {name: instrument.units(cap) for name, cap in config.caps.items()}
    given = np.array([asked.get(slot.name, shares) for slot in slots])
    caps = np.minimum(train.caps(), given) // lot * lot
    if train.room(caps) < shares:
        named = instrument.quantity_text
        able = ", ".join(f"{slot.name} {named(cap)}" for slot, cap in zip(slots, caps.tolist(), strict=True))
        room = named(train.room(caps))
        raise DataError(f"expected slots with room for {named(shares)} together, got {room} ({able} alone)")
    if Allocations(shares, len(caps), lot, caps.tolist()).size > _MOST_LISTED:
        rounded = np.where(given < shares, caps, _rounded(caps, shares, lot))
        caps = rounded if train.room(rounded) >= shares else caps
    models, fits = train.models(caps, config.seed)
    return SplitStudyOrder(instrument, shares, lot, caps, scenarios, models, fits, unused)


def _sampled(
    config: SplitStudyConfig, data: ImportedBooks, slots: list[ScenarioSlot], shares: int
) -> dict[str, Scenarios]:
    fees = load_fees(config.fees) if config.fees is not None else None
    return {
        part: draw_scenarios(
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


def _unusable(scenarios: dict[str, Scenarios], lot: int, instrument: Instrument) -> dict[str, str]:
    caps = scenarios["train"].caps()
    # a slot without books in half of the test hours would leave too few scenarios to test on
    needed = {"train": ENOUGH, "test": 0.5}
    presence = {part: scenarios[part].presence() for part in PARTS}
    found = {}
    for k, slot in enumerate(scenarios["train"].slots):
        lacking = next((part for part in PARTS if presence[part][k] < needed[part]), None)
        if lacking is not None:
            share = f"books at {presence[lacking][k]:.0%} of the sample times in the {lacking} hours"
            found[slot.name] = f"{share}, {needed[lacking]:.0%} are needed"
        elif caps[k] < lot:
            named = instrument.quantity_text
            found[slot.name] = f"books for {named(int(caps[k]))}, fewer than a lot of {named(lot)}"
    return found


def _rounded(caps: Integers, shares: int, lot: int) -> Integers:
    """Round caps down to the order size or a half, a quarter .. of it: designs are found faster with few distinct caps.

    >>> _rounded(np.array([1000, 980, 397, 0]), 1000, 10).tolist()
    [1000, 500, 250, 0]
    """
    halvings = np.ceil(np.log2(shares / np.clip(caps, 1, shares)))
    return np.where(caps > 0, (shares / 2**halvings).astype(np.int64) // lot * lot, 0)


@dataclass(frozen=True)
class _SplitTask:
    """The policies to play for one order size and risk tolerance.

    Policies in ``unplayed`` need a list of all splits, which would be too long.
    """

    prepared: SplitStudyOrder
    problem: Problem
    replays: dict[str, Replay]
    panels: dict[str, SimulationPanel]
    unplayed: list[str]


def _task(config: SplitStudyConfig, prepared: SplitStudyOrder, tolerance: float) -> _SplitTask:
    problem = prepared.problem(tolerance)
    listed = isinstance(problem.actions, Actions)
    played = [name for name in config.policies if listed or not POLICIES[name].needs_list]
    if not played:
        raise InputError(f"too many splits to list for {', '.join(config.policies)}; add a policy that needs no list")
    scale = SimulationSize(config.horizon, config.runs, config.seed)
    facts = {"shares": prepared.shares, "risk_tolerance": tolerance}
    replays = {part: prepared.replay(part, problem) for part in PARTS}
    environments: dict[str, Environment] = {"model": Environment(problem), **replays}
    policies: dict[str, str | Policy] = {name: name for name in played}
    if "adaptive" in played:
        belief = replay_belief(replays["train"], prepared.buckets("train"), seed=config.seed)
        policies[_WARM] = Adaptive(prior=belief)
    panels = {
        name: SimulationPanel(f"{name} {prepared.shares} {tolerance:g}", name, environment, policies, facts, scale)
        for name, environment in environments.items()
    }
    return _SplitTask(prepared, problem, replays, panels, [name for name in config.policies if name not in played])


def _measure_splits(
    splits: Mapping[str, tuple[int, ...]],
    replay: Replay,
    buckets: Integers,
    *,
    first: str,
    seed: int,
    mid: float = math.nan,
    instrument: Instrument = SHARES,
) -> dict[str, SplitMeasures]:
    """Return the measures of each split: bootstrap errors are over ``buckets``, excesses over the split ``first``."""
    totals, tolerance = replay.totals(np.array(list(splits.values()))), replay.risk_tolerance
    drawn = bootstrap_fit_buckets(buckets, 400, np.random.default_rng(seed)).astype(np.float64)
    samples = len(np.unique(buckets))
    plain, redrawn = (
        {name: _moments(weights, row, tolerance) for name, row in zip(splits, totals, strict=True)}
        for weights in (np.ones((1, totals.shape[1])), drawn)
    )
    found = {}
    for name, split in splits.items():
        for moments in plain, redrawn:
            moments[name]["excess"] = moments[name]["mean_variance"] - moments[first]["mean_variance"]
        values = {field: float(one[0]) for field, one in plain[name].items()}
        errors = {f"{field}_error": float(bootstrap_fit_error(one, samples)) for field, one in redrawn[name].items()}
        cost, shares = -values["mean"], sum(split)
        found[name] = SplitMeasures(
            **values,
            **errors,
            cost=cost,
            cost_error=errors["mean_error"],
            basis_points=cost / (shares * mid) * 1e4,
            per_one=cost / float(instrument.natural(shares)),
            tail_cost=-values["tail"],
            risk_charge=_charged(values["variance"], tolerance),
            charged_cost=_charged(values["mean_variance"], tolerance),
            charged_cost_error=_charged(errors["mean_variance_error"], tolerance),
            charged_excess=_charged(values["excess"], tolerance),
            charged_excess_error=_charged(errors["excess_error"], tolerance),
        )
    return found


def _moments(weights: Floats, values: Floats, tolerance: float) -> dict[str, Floats]:
    """Return mean, variance, mean-variance and 5 % expected shortfall of values ``(n,)`` under weights ``(R, n)``."""
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
    """Return the recommended split and its alternatives by name; all are determined from the train hours."""
    shares, caps = prepared.shares, prepared.caps
    allocations = Allocations(shares, len(caps), prepared.lot, caps.tolist())
    kinds = np.array([model.kind for model in prepared.models])
    depths = np.where(kinds == "market", np.nanmean(prepared.scenarios["train"].depths, axis=1), 0.0)
    even, by_depth, single = NAIVE
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


def _frontier(prepared: SplitStudyOrder, train: Replay, test: Replay, seed: int) -> tuple[FrontierSplit, ...]:

    def best(risk_tolerance: float) -> tuple[Action, float, float]:
        split = as_batch(train.best_split(risk_tolerance))
        (mean,), (deviation,) = train.moments(split)
        return as_action(split[0]), float(mean), float(deviation**2)

    points = trace_frontier(best, at=[train.risk_tolerance], most=25)
    splits = {f"{k}": tuple(as_batch(point.action)[0].tolist()) for k, point in enumerate(points)}
    measured = _measure_splits(
        splits, test, prepared.buckets("test"), first="0", seed=seed, instrument=prepared.instrument
    )
    return tuple(
        FrontierSplit(
            risk_tolerance=point.risk_tolerance,
            allocation=_natural(splits[name], prepared.instrument),
            mean=point.mean,
            variance=point.variance,
            test_mean=measured[name].mean,
            test_variance=measured[name].variance,
            tail=measured[name].tail,
        )
        for name, point in zip(splits, points, strict=True)
    )


def _case(task: _SplitTask, results: dict[str, SimulationResult], seed: int) -> SplitResultCase:
    prepared, problem, replays = task.prepared, task.problem, task.replays
    instrument, one = prepared.instrument, prepared.instrument.unit_size
    allocations = _alternatives(prepared, problem, replays["train"])
    mids = {part: prepared.mid(part) for part in PARTS}
    measured = {
        part: _measure_splits(
            *(allocations, replay, prepared.buckets(part)),
            first=RECOMMENDED,
            seed=seed,
            mid=mids[part],
            instrument=instrument,
        )
        for part, replay in replays.items()
    }
    tolerance = problem.risk_tolerance
    splits = {
        name: SplitOutcome(_natural(allocation, instrument), measured["train"][name], measured["test"][name])
        for name, allocation in allocations.items()
    }
    seen, tested = (measured[part][RECOMMENDED] for part in PARTS)
    policies = {
        name: PolicyOutcome(
            *(_policy(name, results[place], task.panels[place], instrument) for place in ("model", *PARTS))
        )
        for name in results["train"].policies
    }
    able = [name for name in policies if name not in BASELINES] or list(policies)  # a baseline if there are no others
    counts = [SampleCount(len(np.unique(prepared.buckets(part))), replays[part].scenarios) for part in PARTS]
    pools = [slot for slot in prepared.scenarios["train"].slots if slot.pool is not None]
    return SplitResultCase(
        quantity=plain_number(instrument.natural(prepared.shares)),
        risk_tolerance=tolerance,
        lot=plain_number(instrument.natural(prepared.lot)),
        mid=TrainAndTest(mids["train"] / instrument.value, mids["test"] / instrument.value),
        slots=tuple(prepared.slots),
        kinds=tuple(model.kind for model in prepared.models),
        caps=_natural(prepared.caps.tolist(), instrument),
        rests_cross_at={slot.name: slot.venue for slot in pools},
        unused_slots=prepared.unused,
        moments=TrainAndTest(*counts),
        splits_possible=str(problem.actions.size),
        beyond_known_levels=TrainAndTest(*(replays[part].beyond(allocations[RECOMMENDED]) for part in PARTS)),
        left_out=TrainAndTest(*(prepared.left_out(part) for part in PARTS)),
        models={
            model.name: SlotModel(
                (model.mean[0] / one, model.mean[1] / one**2),
                (model.variance[0] / one, model.variance[1] / one**2),
                model.kind,
            )
            for model in prepared.models
        },
        fits={name: fit.natural(instrument) for name, fit in prepared.fits.items()},
        splits=splits,
        naive_splits=tuple(name for name in NAIVE if name in splits),
        gap=tested.mean_variance / tolerance - seen.mean_variance / tolerance if tolerance else None,
        gap_error=math.hypot(*(one.mean_variance_error / tolerance for one in (seen, tested))) if tolerance else None,
        frontier=_frontier(prepared, replays["train"], replays["test"], seed),
        policies=policies,
        recommended_policy=min(able, key=lambda name: policies[name].train.mean_variance),
        warm_policies=tuple(name for name in policies if name == _WARM),
        unplayed=tuple(task.unplayed),
        instrument=instrument,
    )


def _natural(units: Sequence[int], instrument: Instrument) -> tuple[int | float, ...]:
    """Return units as natural quantities."""
    return tuple(plain_number(instrument.natural(one)) for one in units)


def _policy(name: str, result: SimulationResult, panel: SimulationPanel, instrument: Instrument) -> PolicyMeasures:
    one, environment = result.policies[name], panel.environment
    rounds, means, deviations = (tuple(x.tolist()) for x in (one.checkpoints, one.mean_regret(), one.std_regret()))
    horizon = int(one.checkpoints[-1])
    comparator = float(environment.expected_comparator(np.array([horizon]))[0])
    each = (one.regret[:, -1] + comparator) / horizon  # mean-variance of an order, learning included
    error = float(each.std(ddof=1) / len(each) ** 0.5) if len(each) > 1 else None
    ends = [tuple(int(share) for share in np.atleast_1d(action)) for action in one.recommended]
    common = max(set(ends), key=ends.count)
    tolerance = environment.risk_tolerance
    return PolicyMeasures(
        regret=means[-1],
        regret_error=deviations[-1] / one.runs**0.5,
        learning_cost=_charged(means[-1], tolerance),
        mean_variance=float(each.mean()),
        cost_each=_charged(float(each.mean()), tolerance),
        cost_each_error=_charged(error, tolerance) if error is not None else None,
        mean_variance_error=error,
        explored=float(one.exploration.mean() / horizon),
        ended_on=_natural(common, instrument),
        ended_on_share=ends.count(common) / len(ends),
        runs=one.runs,
        checkpoints=rounds,
        mean_regret=means,
        std_regret=deviations,
    )


def _market_facts(data: ImportedBooks, side: str) -> SplitMarketFacts:
    recordings = {
        one.stem: SplitRecordingFacts(
            one.snapshots, one.levels, one.deeper, " ".join(one.remarks), one.events, one.source
        )
        for one in data.recordings
    }
    one = data.recordings[0]
    return SplitMarketFacts(data.origin, data.symbol, str(one.date), zone_label(one.zone), side, recordings)
