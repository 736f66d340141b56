"""Shared fixtures: small problems and a small market that every test file may use."""

from __future__ import annotations

import datetime as dt
import gc
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import settings

from longest import LONGEST
from naive_learning import numbered_routing_problem
from once import one_at_a_time, shared_folder
from riskroute import Actions, Problem, random_problem
from riskroute.market import ReadingOptions, RecordingStore, generate_market, import_files
from riskroute.study.markets import MarketDay
from small_days import short_days

if TYPE_CHECKING:
    from riskroute.study.result import StudyResult

settings.register_profile("riskroute", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("riskroute")


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over what stays until the end: modules, compiled code, thousands of tests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files that take longest first."""
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))


@pytest.fixture(scope="session", autouse=True)
def _compilation_unannounced() -> Iterator[None]:
    """Keep commands silent about compilation: whether kernels are in the cache depends on the tests before.

    Of the session, since fixtures of modules run commands too, whose announcements would last until the end.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("riskroute.core.runtime.announce_compilation", lambda *_, **__: None)
        yield


@pytest.fixture(scope="session")
def small_problem() -> Problem:
    """Splits of 3 shares over 3 slots: 10 actions in 6 dimensions, known by their row numbers."""
    return numbered_routing_problem(shares=3, slots=3, seed=5)


@pytest.fixture(scope="session")
def gaussian_problem() -> Problem:
    """Forty random actions in 4 dimensions."""
    features = np.random.default_rng(12).standard_normal((40, 4))
    return random_problem(Actions.scaled(features), seed=3)


@pytest.fixture(scope="session")
def half_hour(tmp_path_factory: pytest.TempPathFactory) -> RecordingStore:
    """Half an hour of the synthetic market, 10:55 to 11:25: books of one symbol at three venues."""
    out = shared_folder(tmp_path_factory, "half_hour")
    with one_at_a_time(out) as made:
        if not made:
            files = generate_market(out, seed=3, symbols=("QVEX",), hours=(dt.time(10, 55), dt.time(11, 25)))
            import_files(files, out / "books", ReadingOptions(("QVEX",)))
    return RecordingStore(out / "books")


@pytest.fixture(scope="session")
def kept_days(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of short days of the synthetic markets that all tests share, with those of `dark_days`."""
    folder = shared_folder(tmp_path_factory, "kept_days")
    with one_at_a_time(folder):
        short_days(folder)
    return folder


@pytest.fixture(scope="session")
def dark_days(kept_days: Path) -> list[MarketDay]:
    """Two short days of five venues that take turns at the best price, and three pools."""
    return short_days(kept_days)


@pytest.fixture(scope="session")
def study_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the small study, with the tables of all that was played for it."""
    return shared_folder(tmp_path_factory, "study")


@pytest.fixture(scope="session")
def study_result(dark_days: list[MarketDay], study_folder: Path) -> StudyResult:
    """The small study, made once for all workers."""
    from small_runs import small_study

    with one_at_a_time(study_folder):
        return small_study(dark_days, study_folder)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C does what it usually does, here and in processes started from here.

    Background jobs and ``nohup`` ignore it from the start, and hand that on.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def unpainted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of pictures are written empty: painting takes most of the time of some commands, and others look at it."""
    from matplotlib.figure import Figure

    monkeypatch.setattr(Figure, "savefig", lambda self, path, **_: Path(path).write_bytes(b""))


@pytest.fixture
def untraced() -> Iterator[None]:
    """Leave a long test out of the coverage, which would double its time; shorter tests must run the same lines.

    The marker of pytest-cov only stops the recording in workers of xdist, and the tracing goes on.
    """
    tracer = sys.gettrace()
    if not type(tracer).__module__.startswith("coverage"):
        yield
        return
    sys.settrace(None)
    yield
    sys.settrace(tracer)
