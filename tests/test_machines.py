"""The same numbers on every machine: the commands are run as processors of other makers would round.

BLAS kernels, NumPy's vector loops, compiled kernels and the C library are told, by environment variables, to do without
what this processor has. Their sums then differ in the last bits, as they do on other hardware.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

import small_runs
from once import one_at_a_time, shared_folder

FILES = ("table.json", "sweep/sweep.json", "split-study/study.json")
DIGITS = 1e-4
"""Four significant digits."""

_VECTORS = [name for name in __cpu_dispatch__ if __cpu_features__.get(name)]  # what NumPy can be told to do without
_AVX512 = [name for name in _VECTORS if "512" in name or name == "X86_V4"]
MACHINES = {
    "haswell": {"OPENBLAS_CORETYPE": "Haswell", "NPY_DISABLE_CPU_FEATURES": " ".join(_AVX512)},
    "nehalem": {"OPENBLAS_CORETYPE": "Nehalem", "NPY_DISABLE_CPU_FEATURES": " ".join(_VECTORS)},
    "generic": {
        "OPENBLAS_CORETYPE": "Prescott",
        "NUMBA_CPU_NAME": "generic",
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4",
    },
}
"""Without OpenBLAS's SkylakeX: a processor that can run its code does so anyway, and no other can."""

_THOROUGH = ("haswell", "generic")  # between this machine and the oldest; and one for which all kernels are compiled
_NEEDS = {"haswell": "avx2", "nehalem": "sse4_2"}  # of the processor, to run another's code


def processor_flags() -> set[str]:
    """What this processor can do, as Linux tells it; nothing where it does not."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return set()
    return set(next((line for line in text.splitlines() if line.startswith("flags")), "").split())


def outcome(folder: Path, environment: dict[str, str]) -> tuple[str, dict[str, Any]]:
    """What the program prints, and its JSON files, in a given environment."""
    folder.mkdir()
    settings = {key: value for key, value in os.environ.items() if not key.startswith("COV_")} | environment
    done = subprocess.run(
        [sys.executable, small_runs.__file__, "print", str(folder)],
        env=settings,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return _without_times(done.stdout, folder), _files(folder)


def outcome_here(folder: Path) -> tuple[str, dict[str, Any]]:
    """The same, from this process, which is as it is."""
    folder.mkdir()
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        assert small_runs.print_numbers(folder) == 0
    return _without_times(said.getvalue(), folder), _files(folder)


def _files(folder: Path) -> dict[str, Any]:
    return {name: json.loads((folder / name).read_text()) for name in FILES}


def _without_times(text: str, folder: Path) -> str:
    """The printed text without names of files, and without the seconds at the end of the first table's rows."""
    table, rest = text.replace(str(folder), "FOLDER").split("best split", 1)
    return "\n".join(line.rsplit(maxsplit=1)[0] for line in table.splitlines()) + "\nbest split" + rest


def differences(ours: Any, theirs: Any, where: str = "") -> Iterator[str]:
    """Places where two JSON values differ by more than four digits, or at all if they are no numbers."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in ours.keys() | theirs.keys():
            if "seconds" not in key and key != "decision_us":
                yield from differences(ours.get(key), theirs.get(key), f"{where}/{key}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for i, pair in enumerate(zip(ours, theirs, strict=True)):
            yield from differences(*pair, f"{where}/{i}")
    elif isinstance(ours, float) and isinstance(theirs, float):
        if abs(ours - theirs) > DIGITS * max(abs(ours), abs(theirs)) and max(abs(ours), abs(theirs)) > 1e-9:
            yield f"{where}: {ours} and {theirs}"
    elif ours != theirs:
        yield f"{where}: {ours} and {theirs}"


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """What this machine prints and writes as it is."""
    folder = shared_folder(tmp_path_factory, "machines")
    with one_at_a_time(folder) as made:
        if not made:
            (folder / "usual.json").write_text(json.dumps(outcome_here(folder / "usual")))
    printed, files = json.loads((folder / "usual.json").read_text())
    return printed, files


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.thorough] * (name in _THOROUGH)) for name in MACHINES]
)
def test_every_machine_prints_the_same_numbers(name: str, usual: tuple[str, dict[str, Any]], tmp_path: Path) -> None:
    """The machine as it is against all that it can pretend to be."""
    if _NEEDS.get(name, "") not in {"", *processor_flags()}:
        pytest.skip(f"needs a processor with {_NEEDS[name]}")
    printed, files = usual
    printed_there, files_there = outcome(tmp_path / name, MACHINES[name])
    assert list(differences(files, files_there)) == []
    words, numbers = split_numbers(printed)
    words_there, numbers_there = split_numbers(printed_there)
    assert words_there == words
    assert numbers_there == pytest.approx(numbers, rel=1e-2)  # a last digit may turn


STUDY = (
    "study --market dark --days 2 --hours 10:30-11:00 --orders 12 --surface-orders 0 --router contextual --horizon 10"
)


@pytest.mark.thorough  # a router that learns, for one case that takes as long as all of the above
def test_every_machine_answers_the_desk_alike(tmp_path: Path) -> None:
    """The whole answer of a study, its costs, examples, routing table and learned state included."""

    def answer(name: str, environment: dict[str, str]) -> tuple[dict[str, Any], str]:
        folder = tmp_path / name
        command = [sys.executable, "-m", "riskroute", *STUDY.split(), "--workers", "1", "--out", str(folder)]
        subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=True)
        return json.loads((folder / "study.json").read_text()), (folder / "routing.csv").read_text()

    study, table = answer("here", {})
    for name in ("haswell", "nehalem"):
        if _NEEDS[name] in processor_flags():
            study_there, table_there = answer(name, MACHINES[name])
            assert list(differences(study, study_there)) == []
            assert split_numbers(table_there)[1] == pytest.approx(split_numbers(table)[1], rel=DIGITS)


def split_numbers(text: str) -> tuple[list[str], list[float]]:
    """The words of a text, and the numbers between them."""
    number = r"-?\d[\d,]*\.?\d*"
    return re.split(number, text), [float(found.replace(",", "")) for found in re.findall(number, text)]


def test_differences_are_found() -> None:
    ours = {"a": [1.0, {"b": 2.0}], "seconds": 3.0, "best": [8, 0], "zero": 1e-17}
    assert list(differences(ours, {"a": [1.00005, {"b": 2.0}], "seconds": 9.0, "best": [8, 0], "zero": 0.0})) == []
    assert len(list(differences(ours, {"a": [1.0002, {"b": 2.0}], "best": [7, 0], "zero": 0.0, "more": 1}))) == 3
