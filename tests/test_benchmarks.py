"""Benchmarks: every one runs in its quick mode, is run in full by some target of the Makefile, and has its printout."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import pytest

from checkout import ROOT

FOLDER = ROOT / "benchmarks"
SHARED = {"crowd", "live_load", "placement", "timing"}
"""Modules the benchmarks import; not benchmarks themselves."""

BENCHMARKS = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in SHARED)
UNPRINTED = {"fuzz_market", "soak"}
"""Benchmarks without a printout in the documentation: nothing to compare, only something to find."""


APART = {"halt", "live", "soak"} | ({"design"} if importlib.util.find_spec("cvxpy") else set())
"""Benchmarks that start processes of their own, which must find the program again: design does so for cvxpy."""


class Done(NamedTuple):
    """How a script ended, and what it printed."""

    code: object
    out: str
    err: str


def run_quickly(name: str, *words: str) -> Done:
    """Run a benchmark in this process, where starting another would take longer than most of them.

    Whether a run is quick is found out when what they share is imported, so that is imported anew.
    """
    if name in APART:
        command = [sys.executable, str(FOLDER / f"{name}.py"), "--quick", *words]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
        return Done(done.returncode, done.stdout, done.stderr)
    before = {module: sys.modules.pop(module) for module in SHARED & sys.modules.keys()}
    try:
        with mock.patch.object(sys, "path", [str(FOLDER), *sys.path]), contextlib.chdir(ROOT):
            return run_script(FOLDER / f"{name}.py", "--quick", *words)
    finally:
        for module in SHARED:
            sys.modules.pop(module, None)
        sys.modules.update(before)


def run_script(path: Path, *words: str) -> Done:
    out, err, code = io.StringIO(), io.StringIO(), None
    with (
        mock.patch.object(sys, "argv", [str(path), *words]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            runpy.run_path(str(path), run_name="__main__")
        except SystemExit as end:
            code = end.code
    return Done(code, out.getvalue(), err.getvalue())


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_runs_in_its_quick_mode(name: str) -> None:
    kept = ROOT / "out" / "bench" / f"{name}.txt"
    before = kept.read_text() if kept.exists() else None
    done = run_quickly(name)
    assert done.code == 0, done.out + done.err
    assert "Traceback" not in done.err
    assert len(done.out.splitlines()) > 3
    assert (kept.read_text() if kept.exists() else None) == before, "a quick run is no printout"


def test_what_is_shared_is_no_benchmark() -> None:
    for name in SHARED:
        assert "__main__" not in (FOLDER / f"{name}.py").read_text()


def test_the_makefile_runs_every_benchmark_in_full() -> None:
    makefile = (ROOT / "Makefile").read_text()
    listed = re.findall(r"^(?:BENCHMARKS|EVIDENCE|ROUTERS|SEARCHES|SOAKS) +:= (.*)$", makefile, flags=re.MULTILINE)
    assert len(listed) == 5
    assert sorted(" ".join(listed).split()) == BENCHMARKS


def test_every_printout_has_its_place_in_the_documentation() -> None:
    pages = "".join(path.read_text() for path in (ROOT / "docs").glob("*.md"))
    for name in set(BENCHMARKS) - UNPRINTED:
        assert pages.count(f"<!-- bench-{name} -->") == pages.count(f"<!-- /bench-{name} -->") == 1, name


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("what", ["benchmarks", "evidence"])
def test_refreshing_copies_printouts_and_refuses_without_them(what: str, tmp_path: Path) -> None:
    """In a copy of what the script touches."""
    (tmp_path / "docs").mkdir()
    for page in [*(ROOT / "docs").glob("*.md"), ROOT / "docs" / "refresh.py"]:
        (tmp_path / "docs" / page.name).write_text(page.read_text())
    script = tmp_path / "docs" / "refresh.py"
    refused = run_script(script, what).code
    assert isinstance(refused, str)  # which is printed, with exit code 1
    assert re.fullmatch(r"out/bench/\w+\.txt is missing: run the whole of benchmarks/\w+\.py first", refused)
    (tmp_path / "out" / "bench").mkdir(parents=True)
    for name in BENCHMARKS:
        (tmp_path / "out" / "bench" / f"{name}.txt").write_text(f"the printout of {name}\n")
    assert run_script(script, what).code is None
    pages = {path.name: path.read_text() for path in (tmp_path / "docs").glob("*.md")}
    place = {"benchmarks": ("benchmarks.md", "allocations"), "evidence": ("evidence.md", "evidence")}[what]
    assert f"<!-- bench-{place[1]} -->\n```text\nthe printout of {place[1]}\n```\n" in pages[place[0]]


def test_a_part_of_the_evidence_that_is_not_there_is_refused() -> None:
    done = run_quickly("evidence", "7")
    assert done.code == 2
    assert "part must be a number from 1 to 6, was 7" in done.err


@pytest.mark.usefixtures("untraced")
def test_one_part_of_the_evidence() -> None:
    done = run_quickly("evidence", "3")
    assert done.code == 0
    assert "3. growth" in done.out
    assert "1. figure 2" not in done.out
