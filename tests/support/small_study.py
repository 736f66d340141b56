"""One small study that all tests of it share: two short days, a dozen orders a day, five worlds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest import mock

from riskroute.study import stresses
from riskroute.study.config import BacktestConfig, StudyConfig
from riskroute.study.markets import MarketDay
from riskroute.study.play import TableCache
from riskroute.study.result import StudyResult
from riskroute.study.stresses import stress_configs
from riskroute.study.study import _run_study
from small_days import HERE

CONFIG = StudyConfig(
    orders=12,
    horizons=(10.0,),
    block_minutes=1,
    routers=("static", "contextual"),
    surface_orders=12,
    shares=(2500,),
    stresses=True,
)
WORLDS = (
    *("baseline", "latency 10 ms", "half the shares in pools", "market impact x 1"),
    "pessimistic queue positions",
)


def small_study(days: Sequence[MarketDay], folder: Path) -> StudyResult:
    """Return the study that is kept in a folder; it is made if it is not there yet."""
    kept = folder / "study.json"
    if not kept.exists():
        with few_worlds():
            found = _run_study(days, CONFIG, backend=HERE, cache=TableCache(folder / "played"))
        kept.write_text(json.dumps(found.to_json(), allow_nan=False))
    return StudyResult.from_json(json.loads(kept.read_text()))


def few_worlds() -> AbstractContextManager[Any]:
    """Studies play only a few of the harder worlds."""
    return mock.patch.object(stresses, "stress_configs", _few_worlds)


def _few_worlds(config: BacktestConfig, **more: Any) -> dict[str, BacktestConfig]:
    worlds = stress_configs(config, **more)
    return {name: worlds[name] for name in WORLDS}
