"""The study: from market data to venue models, to learning policies, to a recommendation with its evidence."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from riskroute.arrays import Floats
from riskroute.errors import InputError
from riskroute.experiments.book_data import BookData, book_data
from riskroute.experiments.panels import Panel, RunSize, play_panels
from riskroute.experiments.provenance import versions
from riskroute.experiments.study.config import SYNTHETIC, StudyConfig
from riskroute.experiments.study.evaluation import evaluate_splits
from riskroute.experiments.study.money import charged, in_money
from riskroute.experiments.study.orders import (
    NAIVE,
    PARTS,
    RECOMMENDED,
    PreparedOrder,
    alternatives,
    frontier_of,
    prepare,
    warm_policy,
)
from riskroute.files import write_json
from riskroute.learning.actions import Actions
from riskroute.learning.policy import Policy
from riskroute.learning.problem import Problem
from riskroute.learning.registry import POLICIES, YARDSTICKS
from riskroute.market.importing import import_files
from riskroute.market.readers.reading import ImportOptions
from riskroute.results import SimulationResult
from riskroute.simulation.engines import Engine, Finished
from riskroute.simulation.environments import Environment
from riskroute.simulation.replay import Replay
from riskroute.simulation.tasks import TaskCache
from riskroute.validation import instance_of, path_of

WARM = "adaptive, warm"
"""The label of the policy that begins with what the training part taught."""


@dataclass(frozen=True)
class Case:
    """One order size and risk tolerance, and the policies that can play it."""

    prepared: PreparedOrder
    problem: Problem
    replays: dict[str, Replay]
    panels: dict[str, Panel]
    unplayed: list[str]


@dataclass(frozen=True)
class StudyResult:
    """Everything found out, as plain values (the JSON file), and the files written."""

    summary: dict[str, Any]
    files: list[Path]


def study_data(config: StudyConfig, out: Path) -> BookData:
    """Recorded books: made, imported, or found in a folder."""
    instance_of("config", config, StudyConfig, "a StudyConfig")
    out = path_of("out", out)
    if config.data == [SYNTHETIC]:
        return book_data(None, config.symbol, out, config.seed, hours=_hours(config))
    paths = [Path(name) for name in config.data]
    folders = [path for path in paths if path.is_dir()]
    if folders and len(paths) > 1:
        raise InputError(f"data must be one folder or some files, was {', '.join(config.data)}")
    if folders:
        return book_data(folders[0], config.symbol, out, config.seed, date=config.date)
    symbols = (config.symbol,) if config.symbol is not None else ()
    folder = out / "imported"
    shutil.rmtree(folder, ignore_errors=True)  # of an earlier study
    import_files(
        paths,
        folder,
        ImportOptions(symbols, date=config.date, venue=config.venue),
        max_unresolved=config.max_unresolved,
        max_crossed=config.max_crossed,
    )
    return book_data(folder, config.symbol, out, config.seed, date=config.date)


def _hours(config: StudyConfig) -> tuple[Any, Any]:
    return min(config.train[0], config.test[0]), max(config.train[1], config.test[1])


def plan_study(config: StudyConfig, out: Path) -> tuple[BookData, list[Case]]:
    """Read the data, estimate the models, and say what is to be played."""
    data = study_data(config, out)
    cases = []
    for shares in config.shares:
        prepared = prepare(config, data, shares)
        cases += [_case(config, prepared, tolerance) for tolerance in config.risk_tolerances]
    return data, cases


def _case(config: StudyConfig, prepared: PreparedOrder, tolerance: float) -> Case:
    problem = prepared.problem(tolerance)
    listed = isinstance(problem.actions, Actions)
    played = [name for name in config.policies if listed or not POLICIES[name].needs_list]
    if not played:
        raise InputError(f"policies must not all need a list of splits, was {', '.join(config.policies)}")
    scale = RunSize(config.horizon, config.runs, config.seed)
    facts = {"shares": prepared.shares, "risk_tolerance": tolerance}
    replays = {part: prepared.replay(part, problem) for part in PARTS}
    environments: dict[str, Environment] = {"model": Environment(problem), **replays}
    policies: dict[str, str | Policy] = {name: name for name in played}
    if "adaptive" in played:
        policies[WARM] = warm_policy(prepared, replays["train"], config.seed)
    panels = {
        name: Panel(f"{name} {prepared.shares} {tolerance:g}", name, environment, policies, facts, scale)
        for name, environment in environments.items()
    }
    return Case(prepared, problem, replays, panels, [name for name in config.policies if name not in played])


def play_study(
    config: StudyConfig,
    data: BookData,
    cases: list[Case],
    out: Path,
    engine: Engine,
    *,
    resume: bool = False,
    finished: Finished | None = None,
) -> StudyResult:
    """Play all policies everywhere, evaluate splits and policies, and write the JSON file."""
    panels = [panel for case in cases for panel in case.panels.values()]
    played = play_panels(panels, TaskCache(out / "tasks"), engine, resume=resume, finished=finished)
    orders = [_order(config, case, {name: next(played) for name in case.panels}) for case in cases]
    summary = {
        "config": config.model_copy(update={"dark": config.pools}).model_dump(mode="json"),
        "versions": versions(),
        "market": {
            "origin": data.origin,
            "symbol": data.symbol,
            "date": str(data.recordings[0].date),
            "side": config.side,
            "recordings": {
                one.stem: {
                    "books": one.snapshots,
                    "levels": one.levels,
                    "deeper": one.deeper,
                    "cut": one.cut,
                    "events": one.events,
                    "source": one.source,
                }
                for one in data.recordings
            },
        },
        "orders": orders,
    }
    return StudyResult(summary, [write_json(out / "study.json", summary)])


def _order(config: StudyConfig, case: Case, results: dict[str, SimulationResult]) -> dict[str, Any]:
    """Everything about one order size and risk tolerance."""
    prepared, problem, replays = case.prepared, case.problem, case.replays
    splits = alternatives(prepared, problem, replays["train"])
    measured = {
        part: evaluate_splits(splits, replays[part], prepared.buckets(part), first=RECOMMENDED, seed=config.seed)
        for part in PARTS
    }
    policies = {name: _policy(name, case, results) for name in results["train"].policies}
    able = [name for name in policies if name not in YARDSTICKS] or list(policies)
    chosen = min(able, key=lambda name: policies[name]["train"]["mean_variance"])
    fits = {name: fit.summary() for name, fit in prepared.fits.items()}
    mids = {part: prepared.mid(part) for part in PARTS}
    found = {
        name: {"allocation": [*split]}
        | {
            part: measured[part][name]
            | in_money(measured[part][name], prepared.shares, mids[part], problem.risk_tolerance)
            for part in PARTS
        }
        for name, split in splits.items()
    }
    return {
        "shares": prepared.shares,
        "risk_tolerance": problem.risk_tolerance,
        "lot": prepared.lot,
        "mid": mids,
        "slots": prepared.slots,
        "kinds": [model.kind for model in prepared.models],
        "caps": prepared.caps.tolist(),
        "rests_cross_at": prepared.homes,
        "unused_slots": prepared.unused,
        "moments": {
            part: {
                "buckets": len(np.unique(prepared.buckets(part))),
                "scenarios": replays[part].scenarios,
            }
            for part in PARTS
        },
        "splits_possible": str(problem.actions.size),
        "beyond_known_levels": {part: replays[part].beyond(splits[RECOMMENDED]) for part in PARTS},
        "left_out": {part: prepared.left_out(part) for part in PARTS},
        "models": {
            model.name: {"mean": [*model.mean], "variance": [*model.variance], "kind": model.kind}
            for model in prepared.models
        },
        "fits": fits,
        "splits": found,
        "naive_splits": [name for name in NAIVE if name in found],
        "gap": _gap(found[RECOMMENDED]),
        "gap_error": _gap_error(found[RECOMMENDED]),
        "frontier": frontier_of(prepared, replays["train"], replays["test"], config.seed),
        "policies": policies,
        "recommended_policy": chosen,
        "warm_policies": [name for name in policies if name == WARM],
        "unplayed": case.unplayed,
    }


def _gap(split: dict[str, Any]) -> float | None:
    """How much more a split cost in the test hours than in the train hours, risk charged."""
    later, earlier = split["test"]["charged_cost"], split["train"]["charged_cost"]
    return None if later is None else float(later - earlier)


def _gap_error(split: dict[str, Any]) -> float | None:
    """Error of the gap; the parts of the day are taken to be independent."""
    errors = [split[part]["charged_cost_error"] for part in PARTS]
    return None if None in errors else float(np.hypot(*errors))


def _policy(name: str, case: Case, results: dict[str, SimulationResult]) -> dict[str, Any]:
    """How a policy did: regret everywhere, and what a round earned on average, learning included."""
    found: dict[str, Any] = {}
    for place, result in results.items():
        digest = result.digest()["policies"][name]
        one, environment = result.policies[name], case.panels[place].environment
        horizon = int(one.checkpoints[-1])
        comparator = float(environment.expected_comparator(np.array([horizon]))[0])
        each = (one.regret[:, -1] + comparator) / horizon
        error = _error(each)
        ends = [tuple(int(share) for share in np.atleast_1d(action)) for action in one.recommended]
        common = max(set(ends), key=ends.count)
        found[place] = {
            "regret": digest["final"]["regret"],
            "regret_error": digest["final"]["regret_error"],
            "learning_cost": charged(digest["final"]["regret"], environment.risk_tolerance),
            "mean_variance": float(each.mean()),
            "cost_each": charged(float(each.mean()), environment.risk_tolerance),
            "cost_each_error": charged(error, environment.risk_tolerance) if error is not None else None,
            "mean_variance_error": error,
            "explored": float(one.exploration.mean() / horizon),
            "ended_on": list(common),
            "ended_on_share": ends.count(common) / len(ends),
            "runs": one.runs,
            "checkpoints": digest["checkpoints"],
            "mean_regret": digest["mean_regret"],
            "std_regret": digest["std_regret"],
        }
    return found


def _error(values: Floats) -> float | None:
    """Standard error of a mean over runs; unknown if there is one."""
    return float(values.std(ddof=1) / len(values) ** 0.5) if len(values) > 1 else None
