"""Every public call, with one argument at a time replaced by an invalid value: it works, or raises a one-line error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import riskroute as rr
from checkout import PUBLIC
from public_calls import BAD, CALLS, Call, of_files, of_markets, of_recordings
from riskroute.simulation import backends


def mistakes(function: Callable[..., Any], arguments: dict[str, Any], *bad: Any) -> Iterator[str]:
    """Errors of calls with one argument replaced, other than a one-line `RiskrouteError`."""
    function(**arguments)
    for name in arguments:
        for value in (*BAD, *bad):
            try:
                function(**arguments | {name: value})
            except rr.RiskrouteError as error:
                if "\n" in str(error):
                    yield f"{name}={value!r}: several lines: {error}"
            except Exception as error:
                yield f"{name}={value!r}: {error!r}"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files named by a string go to a temporary folder, and no processes start."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(backends, "_cores", lambda: 1)


@pytest.mark.parametrize("name", CALLS)
def test_what_does_not_belong_there_is_named(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a value tried for a path may be a good one
    assert list(mistakes(*CALLS[name])) == []


@pytest.fixture(scope="module")
def recorded(half_hour: rr.market.RecordingStore, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Call]:
    return of_recordings(half_hour, tmp_path_factory.mktemp("recorded"))


@pytest.fixture(scope="module")
def filed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Call]:
    return of_files(tmp_path_factory.mktemp("filed"))


@pytest.mark.usefixtures("untraced")
def test_of_recordings(recorded: dict[str, Call], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = {name: list(mistakes(*call, tmp_path)) for name, call in recorded.items()}
    assert {name: some for name, some in found.items() if some} == {}


@pytest.mark.usefixtures("untraced")
def test_of_files(filed: dict[str, Call], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = {name: list(mistakes(*call, tmp_path)) for name, call in filed.items()}
    assert {name: some for name, some in found.items() if some} == {}


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Call]:
    return of_markets(tmp_path_factory.mktemp("markets"))


@pytest.mark.usefixtures("untraced")
def test_of_markets(played: dict[str, Call], tmp_path: Path) -> None:
    found = {name: list(mistakes(*call, tmp_path)) for name, call in played.items()}
    assert {name: some for name, some in found.items() if some} == {}


def test_every_public_name_is_called(
    recorded: dict[str, Call], filed: dict[str, Call], played: dict[str, Call]
) -> None:
    called = {name.split(".")[0].split(" ")[0] for name in (*CALLS, *recorded, *filed, *played)}
    called |= {kind.__name__ for kind in rr.POLICIES.values()}
    not_called = {
        "POLICIES",
        "Action",
        "ActionSet",
        "Policy",
        "ArmPolicy",
        "IndexPolicy",
        "LinearPolicy",
        "PhasedPolicy",
    }
    not_called |= {
        "RiskrouteError",
        "InputError",
        "DataError",
        "StateError",
        "InvariantError",
        "CheckError",
        "DesignError",
    }
    not_called |= {"BacktestResult", "Decision", "StudyResult", "ROUTERS"}
    not_called |= {"SplitList", "EnvironmentNoise", "QuadraticResult", "Recording", "SweepResult"}  # made by others
    assert {name.rpartition(".")[2] for name in PUBLIC} - called == not_called
