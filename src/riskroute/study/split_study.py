"""The split study: from market data to venue models, to learning policies, to a recommended fixed split."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from riskroute.core.arrays import Integers
from riskroute.core.config import config_all_different, read_toml_config
from riskroute.core.errors import DataError, InputError
from riskroute.core.files import writable_folder
from riskroute.core.validation import instance_of, one_of, true_or_false, valid_function, valid_path
from riskroute.learning.actions import Actions
from riskroute.learning.policies.adaptive import Adaptive
from riskroute.learning.policy import Policy
from riskroute.learning.problem import Problem
from riskroute.learning.registry import POLICIES
from riskroute.market.fitting import VenueFit
from riskroute.market.importing import ImportedBooks, import_books, import_files
from riskroute.market.readers.reading import ReadingOptions
from riskroute.market.scenarios import ENOUGH, Scenarios, ScenarioSlot, draw_scenarios
from riskroute.routing.allocations import Allocations
from riskroute.routing.fees import load_fees
from riskroute.routing.venue_models import VenueModel, venue_problem
from riskroute.simulation.backends import Backend, Finished
from riskroute.simulation.environments import Environment
from riskroute.simulation.replay import Replay, replay_belief
from riskroute.simulation.runner import RunnerCache, SimulationPanel, SimulationSize, simulate_panels
from riskroute.study.config import SplitStudyConfig, changed_config, split_config
from riskroute.study.split_result import PARTS, WARM, SplitStudyResult

RESULT = "study.json"
_MOST_LISTED = 5_000  # splits; with more, policies that try each of them are not played


class SplitStudy:
    """Find the best fixed split of an order over venues and dark pools, and the cost of learning it.

    Parameters
    ----------
    config : str or path-like, optional
        A TOML file, such as `config_template` returns. Default: all defaults.
    **values
        Values that override those of the file: ``shares=10, side="buy", limit=["XNAS"]``.

    Examples
    --------
    >>> study = SplitStudy(shares=10, train="10:40-11:00", test="11:00-11:20")
    >>> study.config.shares, study.config.risk_tolerances
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
        prepared = [_prepare_order(self.config, data, shares) for shares in self.config.shares]
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
            Where to play: ``local``, ``dask``, ``ray``, or a `Backend` with a number of workers.
        out : str or path-like, optional
            Folder for ``study.json``, finished tasks and market data. Default: nothing is kept.
        resume : bool
            Whether to reuse the tasks that an earlier run finished in ``out``.
        finished : callable, optional
            Called with every finished task.

        Returns
        -------
        SplitStudyResult
            Prints as its findings; `write_split_page` writes a report.
        """
        where = instance_of("backend", Backend(backend) if isinstance(backend, str) else backend, Backend, "a Backend")
        true_or_false("resume", resume)
        if finished is not None:
            valid_function("finished", finished)
        if out is not None:
            return self.plan(out).play(where, resume=resume, finished=finished)
        if resume:
            raise InputError("resume must be False without a folder out")
        with tempfile.TemporaryDirectory() as folder:
            return self.plan(folder).play(where, finished=finished)


@dataclass(frozen=True)
class _SplitStudyPlan:
    """A prepared split study: data, fitted models and the tasks to play."""

    config: SplitStudyConfig
    data: ImportedBooks
    tasks: list[SplitTask]
    out: Path

    @property
    def runs(self) -> int:
        """Number of runs of all policies, for a progress bar."""
        return sum(panel.runs for task in self.tasks for panel in task.panels.values())

    def play(self, backend: Backend, *, resume: bool = False, finished: Finished | None = None) -> SplitStudyResult:
        """Play all policies, evaluate splits and policies, and write ``study.json``; see `SplitStudy.run`."""
        panels = [panel for task in self.tasks for panel in task.panels.values()]
        played = simulate_panels(panels, RunnerCache(self.out / "tasks"), backend, resume=resume, finished=finished)
        result = SplitStudyResult.from_play(self.config, self.data, self.tasks, played)
        result.to_json(self.out / RESULT)
        return result


def _study_data(config: SplitStudyConfig, out: Path) -> ImportedBooks:
    """Return the books: generated, imported from files, or read from a folder of recordings."""
    if config.synthetic:
        hours = min(config.train[0], config.test[0]), max(config.train[1], config.test[1])
        return import_books(None, config.symbol, out, config.seed, hours=hours)
    paths = [Path(name) for name in config.data]
    folders = [path for path in paths if path.is_dir()]
    if folders and len(paths) > 1:
        raise InputError(f"data must be one folder or some files, was {', '.join(config.data)}")
    if folders:
        return import_books(folders[0], config.symbol, out, config.seed, date=config.date)
    symbols = (config.symbol,) if config.symbol is not None else ()
    folder = out / "imported"
    shutil.rmtree(folder, ignore_errors=True)  # of an earlier study
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
    """Scenarios, venue models and caps for one order size, for any risk tolerance."""

    shares: int
    lot: int
    caps: Integers
    scenarios: dict[str, Scenarios]
    models: list[VenueModel]
    fits: dict[str, VenueFit]
    unused: dict[str, str]

    @property
    def slots(self) -> list[str]:
        """Names of the slots."""
        return [model.name for model in self.models]

    def problem(self, risk_tolerance: float) -> Problem:
        """Return the routing problem of the fitted models, in dollars."""
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
        """Return the scenarios of a part that are deep enough for every split, as an environment."""
        buckets = len(np.unique(self.buckets(part)))
        if buckets < 2:
            known = self.scenarios[part].deep(self.caps).mean(axis=1)
            worst = int(known.argmin())
            most = (
                f"{self.slots[worst]} has books for {self.caps[worst]} shares at {known[worst]:.0%} of the sample times"
            )
            raise DataError(f"expected deep books at all slots in two or more buckets of {part}, got {buckets}; {most}")
        return Replay(problem, *self.scenarios[part].replayed(self.caps))

    def buckets(self, part: str) -> Integers:
        """Return the bucket of each scenario of `replay`."""
        scenarios = self.scenarios[part]
        return scenarios.buckets[scenarios.whole(self.caps)]

    def left_out(self, part: str) -> float:
        """Return the fraction of the scenarios of a part that are not deep enough."""
        return float(1 - self.scenarios[part].whole(self.caps).mean())

    def mid(self, part: str) -> float:
        """Return the mean mid over the scenarios of `replay`, in dollars."""
        scenarios = self.scenarios[part]
        return float(np.nanmean(scenarios.mids[scenarios.whole(self.caps)]))


def _slots(config: SplitStudyConfig, data: ImportedBooks) -> list[ScenarioSlot]:
    """Return the slots: market orders, limit orders, dark pools."""
    venues = tuple(one.venue for one in data.recordings)
    for name, chosen in (("market", config.market or ()), ("limit", config.limit)):
        for venue in chosen:
            one_of(name, venue, venues)
    slots = [ScenarioSlot(venue) for venue in (venues if config.market is None else config.market)]
    slots += [ScenarioSlot(venue, "limit") for venue in config.limit]
    for pool in config.pools:
        home = pool.venue or data.deepest
        slots.append(ScenarioSlot(one_of(f"venue of {pool.name}", home, venues), "dark", pool.pool))
    if len(slots) < 2:
        names = ", ".join(slot.name for slot in slots)
        raise InputError(f"expected at least two slots, got {names}; limit = [..] or [[dark]] add some")
    config_all_different("slots", [slot.name for slot in slots])
    return slots


def _prepare_order(config: SplitStudyConfig, data: ImportedBooks, shares: int) -> SplitStudyOrder:
    """Sample scenarios of both parts of the day, drop unusable slots, and fit models to the train hours."""
    slots, lot = _slots(config, data), config.lot_of(shares)
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
            raise DataError(f"expected at least two usable slots, got {len(slots)} ({why})")
        scenarios = _sampled(config, data, slots, shares)
    train = scenarios["train"]
    given = np.array([config.caps.get(slot.name, shares) for slot in slots])
    caps = np.minimum(train.caps(), given) // lot * lot
    if train.room(caps) < shares:
        able = ", ".join(f"{slot.name} {cap}" for slot, cap in zip(slots, caps, strict=True))
        raise DataError(f"expected slots with room for {shares} shares together, got {train.room(caps)} ({able} alone)")
    if Allocations(shares, len(caps), lot, caps.tolist()).size > _MOST_LISTED:
        rounded = np.where(given < shares, caps, _rounded(caps, shares, lot))
        caps = rounded if train.room(rounded) >= shares else caps
    models, fits = train.models(caps, config.seed)
    return SplitStudyOrder(shares, lot, caps, scenarios, models, fits, unused)


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


def _unusable(scenarios: dict[str, Scenarios], lot: int) -> dict[str, str]:
    """Return the slots that cannot be used, with reasons."""
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
            found[slot.name] = f"books for {caps[k]} shares, fewer than a lot of {lot}"
    return found


def _rounded(caps: Integers, shares: int, lot: int) -> Integers:
    """Round caps down to the whole order, a half, a quarter, ... of it: certificates are faster with few distinct caps.

    >>> _rounded(np.array([1000, 980, 397, 0]), 1000, 10).tolist()
    [1000, 500, 250, 0]
    """
    halvings = np.ceil(np.log2(shares / np.clip(caps, 1, shares)))
    return np.where(caps > 0, (shares / 2**halvings).astype(np.int64) // lot * lot, 0)


@dataclass(frozen=True)
class SplitTask:
    """The policies to play for one order size and risk tolerance; ``unplayed`` ones need a list of splits."""

    prepared: SplitStudyOrder
    problem: Problem
    replays: dict[str, Replay]
    panels: dict[str, SimulationPanel]
    unplayed: list[str]


def _task(config: SplitStudyConfig, prepared: SplitStudyOrder, tolerance: float) -> SplitTask:
    problem = prepared.problem(tolerance)
    listed = isinstance(problem.actions, Actions)
    played = [name for name in config.policies if listed or not POLICIES[name].needs_list]
    if not played:
        raise InputError(f"policies must not all need a list of splits, was {', '.join(config.policies)}")
    scale = SimulationSize(config.horizon, config.runs, config.seed)
    facts = {"shares": prepared.shares, "risk_tolerance": tolerance}
    replays = {part: prepared.replay(part, problem) for part in PARTS}
    environments: dict[str, Environment] = {"model": Environment(problem), **replays}
    policies: dict[str, str | Policy] = {name: name for name in played}
    if "adaptive" in played:
        belief = replay_belief(replays["train"], prepared.buckets("train"), seed=config.seed)
        policies[WARM] = Adaptive(prior=belief)
    panels = {
        name: SimulationPanel(f"{name} {prepared.shares} {tolerance:g}", name, environment, policies, facts, scale)
        for name, environment in environments.items()
    }
    return SplitTask(prepared, problem, replays, panels, [name for name in config.policies if name not in played])
