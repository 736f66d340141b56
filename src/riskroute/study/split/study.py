"""The study: from market data to venue models, to learning policies, to a recommendation with its evidence."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from riskroute.core.config import read_toml_config
from riskroute.core.errors import InputError
from riskroute.core.files import writable_folder
from riskroute.core.records import from_plain
from riskroute.core.runtime import provenance_versions
from riskroute.core.validation import function_of, instance_of, path_of, true_or_false
from riskroute.market.clock import zone_label
from riskroute.market.importing import SymbolBooks
from riskroute.market.store import Recording
from riskroute.simulation.backends import Backend, Finished
from riskroute.simulation.comparison import play_panels
from riskroute.simulation.runner import TaskCache
from riskroute.study.split.cases import Case, study_cases, study_data
from riskroute.study.split.config import SplitStudyConfig, checked_study
from riskroute.study.split.order_results import order_result
from riskroute.study.split.result import (
    SplitStudyMarketFacts,
    SplitStudyRecordingFacts,
    SplitStudyResult,
    SplitStudySettings,
)

RESULT = "study.json"
"""The file with every number of a study."""


class SplitStudy:
    """A study: how to split orders, from market data to venue models, to learning policies, to a recommendation.

    Parameters
    ----------
    config : str or path-like, optional
        A TOML file; `riskroute.study.split.config.TEMPLATE` is a commented one. Defaults if left out.
    **values
        Values as in such a file, which replace those of the file: ``shares=10, side="buy", limit=["XNAS"]``.

    Examples
    --------
    >>> study = SplitStudy(shares=10, train="10:40-11:00", test="11:00-11:20")
    >>> study.config.shares, study.config.risk_tolerances
    ([10], [2.0])
    >>> SplitStudy(sharez=10)
    Traceback (most recent call last):
    ...
    riskroute.core.errors.InputError: sharez must be left out, was 10: fields are data, symbol, date, venue,
    max_unresolved, max_crossed, side, shares, risk_tolerances, market, limit, dark, lot, caps, fees, train, test,
    bucket_minutes, repeats, levels, horizon, runs, policies, seed
    """

    config: SplitStudyConfig

    def __init__(self, config: str | os.PathLike[str] | None = None, /, **values: Any) -> None:
        given = read_toml_config(path_of("config", config)) if config is not None else {}
        self.config = checked_study(given | values)

    def __repr__(self) -> str:
        changed = {name: getattr(self.config, name) for name in sorted(self.config.model_fields_set)}
        return f"SplitStudy({', '.join(f'{name}={value!r}' for name, value in changed.items())})"

    def plan(self, out: str | os.PathLike[str]) -> SplitStudyPlan:
        """Read the market data and estimate the venue models.

        Parameters
        ----------
        out : str or path-like
            The folder for market data that are made or imported on the way, and for everything that follows.

        Returns
        -------
        SplitStudyPlan
            What is to be played.
        """
        folder = writable_folder("out", out)
        data = study_data(self.config, folder)
        return SplitStudyPlan(self.config, data, study_cases(self.config, data), folder)

    def run(
        self,
        *,
        backend: Backend | str = "local",
        out: str | os.PathLike[str] | None = None,
        resume: bool = False,
        finished: Finished | None = None,
    ) -> SplitStudyResult:
        """Do the whole study.

        Parameters
        ----------
        backend : Backend or str
            Where to play: ``local``, ``dask``, ``ray``, or a `Backend` that also says how many workers there are.
        out : str or path-like, optional
            The folder for ``study.json``, finished tasks, and market data made on the way. Nothing is kept if left out.
        resume : bool
            Whether to go on from the tasks that an earlier run finished in ``out``.
        finished : callable, optional
            Called with every finished task.

        Returns
        -------
        SplitStudyResult
            What was found; it prints as its findings, and `write_report` makes a report of it.
        """
        where = _checked(backend, resume, finished)
        if out is not None:
            return self.plan(out).play(where, resume=resume, finished=finished)
        if resume:
            raise InputError("resume must be False where no folder is given as out")
        with tempfile.TemporaryDirectory() as folder:
            return self.plan(folder).play(where, finished=finished)


@dataclass(frozen=True)
class SplitStudyPlan:
    """A study whose models are estimated and whose policies are still to be played.

    Parameters
    ----------
    config : SplitStudyConfig
        The configuration.
    data : SymbolBooks
        The recorded books.
    cases : list of Case
        One for each order size and risk tolerance.
    out : Path
        The folder for finished tasks and the result.
    """

    config: SplitStudyConfig
    data: SymbolBooks
    cases: list[Case]
    out: Path

    @property
    def runs(self) -> int:
        """All runs of all policies, for a progress bar."""
        return sum(panel.runs for case in self.cases for panel in case.panels.values())

    def play(
        self, backend: Backend | str = "local", *, resume: bool = False, finished: Finished | None = None
    ) -> SplitStudyResult:
        """Play all policies everywhere, evaluate splits and policies, write ``study.json``; see `SplitStudy.run`."""
        where = _checked(backend, resume, finished)
        panels = [panel for case in self.cases for panel in case.panels.values()]
        played = play_panels(panels, TaskCache(self.out / "tasks"), where, resume=resume, finished=finished)
        orders = [
            order_result(case, {name: next(played) for name in case.panels}, self.config.seed) for case in self.cases
        ]
        result = SplitStudyResult(
            _settings(self.config), provenance_versions(), _market(self.data, self.config.side), tuple(orders)
        )
        result.to_json(self.out / RESULT)
        return result


def _checked(backend: Backend | str, resume: bool, finished: Finished | None) -> Backend:
    """Return the backend, after a look at what goes with it."""
    true_or_false("resume", resume)
    if finished is not None:
        function_of("finished", finished)
    return (
        Backend(backend)
        if isinstance(backend, str)
        else instance_of("backend", backend, Backend, "a Backend or its name")
    )


def _settings(config: SplitStudyConfig) -> SplitStudySettings:
    return from_plain(SplitStudySettings, config.model_copy(update={"dark": config.pools}).model_dump(mode="json"))


def _market(data: SymbolBooks, side: str) -> SplitStudyMarketFacts:
    recordings = {one.stem: _recording(one) for one in data.recordings}
    one = data.recordings[0]
    return SplitStudyMarketFacts(data.origin, data.symbol, str(one.date), zone_label(one.zone), side, recordings)


def _recording(one: Recording) -> SplitStudyRecordingFacts:
    return SplitStudyRecordingFacts(
        one.snapshots, one.levels, one.deeper, " ".join(one.remarks), one.events, one.source
    )
