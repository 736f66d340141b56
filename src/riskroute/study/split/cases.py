"""The cases of a study: market data, venue models, and the policies to be played for each order."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from riskroute.core.errors import InputError
from riskroute.core.validation import instance_of, path_of
from riskroute.learning.actions import Actions
from riskroute.learning.policy import Policy
from riskroute.learning.problem import Problem
from riskroute.learning.registry import POLICIES
from riskroute.market.importing import SymbolBooks, import_files, open_books
from riskroute.market.readers.reading import ImportOptions
from riskroute.simulation.comparison import Panel, PanelSize
from riskroute.simulation.environments import Environment
from riskroute.simulation.replay import Replay
from riskroute.study.split.config import SYNTHETIC, SplitStudyConfig
from riskroute.study.split.orders import (
    PARTS,
    PreparedOrder,
    order_warm_policy,
    prepare_order,
)

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


def study_data(config: SplitStudyConfig, out: Path) -> SymbolBooks:
    """Recorded books: made, imported, or found in a folder."""
    instance_of("config", config, SplitStudyConfig, "a SplitStudyConfig")
    out = path_of("out", out)
    if config.data == [SYNTHETIC]:
        return open_books(None, config.symbol, out, config.seed, hours=_hours(config))
    paths = [Path(name) for name in config.data]
    folders = [path for path in paths if path.is_dir()]
    if folders and len(paths) > 1:
        raise InputError(f"data must be one folder or some files, was {', '.join(config.data)}")
    if folders:
        return open_books(folders[0], config.symbol, out, config.seed, date=config.date)
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
    return open_books(folder, config.symbol, out, config.seed, date=config.date)


def _hours(config: SplitStudyConfig) -> tuple[Any, Any]:
    return min(config.train[0], config.test[0]), max(config.train[1], config.test[1])


def study_cases(config: SplitStudyConfig, data: SymbolBooks) -> list[Case]:
    """Estimate the models, and say what is to be played for each order size and risk tolerance."""
    cases = []
    for shares in config.shares:
        prepared = prepare_order(config, data, shares)
        cases += [_case(config, prepared, tolerance) for tolerance in config.risk_tolerances]
    return cases


def _case(config: SplitStudyConfig, prepared: PreparedOrder, tolerance: float) -> Case:
    problem = prepared.problem(tolerance)
    listed = isinstance(problem.actions, Actions)
    played = [name for name in config.policies if listed or not POLICIES[name].needs_list]
    if not played:
        raise InputError(f"policies must not all need a list of splits, was {', '.join(config.policies)}")
    scale = PanelSize(config.horizon, config.runs, config.seed)
    facts = {"shares": prepared.shares, "risk_tolerance": tolerance}
    replays = {part: prepared.replay(part, problem) for part in PARTS}
    environments: dict[str, Environment] = {"model": Environment(problem), **replays}
    policies: dict[str, str | Policy] = {name: name for name in played}
    if "adaptive" in played:
        policies[WARM] = order_warm_policy(prepared, replays["train"], config.seed)
    panels = {
        name: Panel(f"{name} {prepared.shares} {tolerance:g}", name, environment, policies, facts, scale)
        for name, environment in environments.items()
    }
    return Case(prepared, problem, replays, panels, [name for name in config.policies if name not in played])
