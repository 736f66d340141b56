"""The command line: some tests in separate processes, the rest in this one."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from numba.core.event import trigger_event

from riskroute import POLICIES, __version__
from riskroute.cli import main
from riskroute.cli.app import run_app
from riskroute.cli.experiments import _POLICIES
from riskroute.core.runtime import announce_compilation, compilation_timed

QUICK = ["simulate", "--slots", "3", "--shares", "3", "--horizon", "500", "--runs", "3"]
ENVIRONMENT = os.environ | {"COLUMNS": "120", "NO_COLOR": "1"}


def riskroute(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "riskroute", *arguments], capture_output=True, text=True, cwd=cwd, env=ENVIRONMENT
    )


def test_help_teaches_without_loading_the_numerics() -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from riskroute.cli.app import app;"
        "out = CliRunner().invoke(app, ['--help']).output; assert 'simulate' in out, out;"
        "heavy = {'numpy', 'scipy', 'numba', 'polars', 'matplotlib'} & set(sys.modules); assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_simulate_help_names_every_policy() -> None:
    text = riskroute("simulate", "--help").stdout
    flat = re.sub(r"[\s│]+", "", text)
    for name in POLICIES:
        assert name in flat
    assert "--instance-seed" in text


def test_commands_announce_compilation(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A kernel is said to compile for three seconds while the books are routed."""
    monkeypatch.setattr("riskroute.core.runtime.announce_compilation", announce_compilation)
    now = 0.0
    monkeypatch.setattr("riskroute.core.runtime.time.perf_counter", lambda: now)
    try:
        assert run_app(["--version"]) == 0
        with compilation_timed("a test of commands"), trigger_event("numba:compile"):
            now += 3.0
    finally:
        announce_compilation(None)
    line = "riskroute: compiling kernels for a test of commands; later runs load them from the cache\n"
    assert capsys.readouterr().err == line


def test_version() -> None:
    assert riskroute("--version").stdout == f"riskroute {__version__}\n"


@pytest.mark.usefixtures("untraced")
def test_simulate_prints_a_table_and_writes_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [tmp_path / f"a.{ending}" for ending in ("json", "parquet", "png")]
    options = zip(("--json", "--parquet", "--figure"), map(str, files), strict=True)
    words = [word for pair in options for word in pair]
    assert run_app([*QUICK, "--policy", "rise", "--policy", "uniform", *words]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("3 shares over 3 slots: 10 splits, 500 rounds, 3 runs, risk tolerance 2")
    assert re.search(r"^rise +[\d,-]+", out, re.MULTILINE)
    assert err == ""
    assert sorted(tmp_path.iterdir()) == files
    read = json.loads(files[0].read_text())
    assert list(read["policies"]) == ["rise", "uniform"]
    assert {"checkpoints", "mean_regret", "std_regret", "seconds"} <= set(read["policies"]["rise"])
    assert read["config"]["slots"] == 3
    assert read["config"]["instance_seed"] == 0


@pytest.mark.usefixtures("untraced")
def test_the_same_command_gives_the_same_numbers(tmp_path: Path) -> None:
    """In a process of its own, and in this one."""
    done = riskroute(*QUICK, "--json", "a.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("3 shares over 3 slots: 10 splits")
    assert all("compiling kernels" in line for line in done.stderr.splitlines())
    assert run_app([*QUICK, "--json", str(tmp_path / "b.json")]) == 0
    first, second = (json.loads((tmp_path / f"{name}.json").read_text())["policies"] for name in ("a", "b"))
    assert list(first) == ["adaptive", "rise", "rise++", "risk-ucb", "risk-exp-exp"]
    for name in first:
        assert first[name]["mean_regret"] == second[name]["mean_regret"]


MISTAKES = [
    (["simulate", "--shares", "-3"], "shares must be a positive integer, was -3"),
    (["simulate", "--slots", "0"], "slots must be a positive integer, was 0"),
    (["simulate", "--policy", "rize"], "policy must be one of rise, .* was 'rize' \\(did you mean rise\\?\\)"),
    (["simulate", "--runs", "0"], "runs must be a positive integer, was 0"),
    (["simulate", "--horizon", "0"], "horizon must be a positive integer, was 0"),
    (["simulate", "--seed", "-1"], "seed must be a non-negative integer, was -1"),
    (["simulate", "--risk-tolerance", "-1"], "risk_tolerance must be a number of at least 0, was -1.0"),
    (
        ["simulate", "--shares", "100", "--slots", "20", "--policy", "risk-ucb"],
        "risk-ucb needs a list of all about 4.9e\\+21 splits",
    ),
    (["design", "--shares", "0", "--slots", "3"], "shares must be a positive integer, was 0"),
    (["design", "--shares", "9", "--slots", "3", "--lot", "2"], "shares must be a multiple of the lot of 2, was 9"),
    (["design", "--shares", "9", "--slots", "3", "--cap", "2"], "caps must add up to at least 9 shares, was 6"),
    (
        ["design", "--shares", "9", "--slots", "3", "--cap", "5", "--cap", "6"],
        "caps must be one number or 3, one per slot",
    ),
    (
        ["design", "--shares", "9", "--slots", "3", "--minimum", "4"],
        "minimums must add up to at most 9 shares, was 12",
    ),
    (
        ["design", "--shares", "9", "--slots", "3", "--tolerance", "0"],
        "tolerance must be a number of at least 1e-06",
    ),
    (["design", "--shares", "9", "--slots", "3", "--json", "x.csv"], "--json file ending must be one of .json"),
    (["simulate", "--json", "x.txt"], "--json file ending must be one of .json, was '.txt'"),
    (["simulate", "--figure", "x"], "--figure file ending must be one of .png, .pdf, .svg, was ''"),
]
UNKNOWN_WORDS = [
    (["simulat"], "No such command 'simulat'"),
    (["simulate", "--slot", "3"], "No such option: --slot"),
    (["simulate", "--runs", "many"], "'--runs'.*, was 'many'"),
    (["design", "--shares", "3"], "Missing option '--slots'"),
    (["simulate", "--instance-seed", "-1"], "instance_seed must be a non-negative integer, was -1"),
    (["simulate", "--horizon", "100000000000", "--policy", "risk-ucb"], "horizon must be at most 1,000,000,000"),
    (["simulate", "--json", "."], "--json"),
    (["demo", "--out", sys.executable], "--out must be in a folder that can be written to"),
]


@dataclass(frozen=True)
class Answer:
    """How a command ended, what it said, and what it left in its folder."""

    code: str | int | None
    out: str
    err: str
    files: list[str]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, ...], Answer]:
    """All mistakes, made in this process: most of the time of each would be that of a start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("mistakes"))
        patch.setattr(sys.modules["__main__"], "__package__", None, raising=False)  # or that would be the command
        for name in ("COLUMNS", "NO_COLOR"):
            patch.setenv(name, ENVIRONMENT[name])
        return {tuple(words): answer(words, patch) for words, _ in MISTAKES + UNKNOWN_WORDS}


def answer(words: list[str], patch: pytest.MonkeyPatch) -> Answer:
    """How the command ends in this process."""
    patch.setattr(sys, "argv", ["riskroute", *words])
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as end:
        main()
    return Answer(end.value.code, out.getvalue(), err.getvalue(), os.listdir())


@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
def test_mistakes_end_in_one_line_and_code_2(
    arguments: list[str], message: str, answers: dict[tuple[str, ...], Answer]
) -> None:
    found = answers[tuple(arguments)]
    assert found.code == 2
    assert re.fullmatch(f"riskroute: .*{message}.*\n", found.err)
    assert found.out == ""
    assert found.files == []


@pytest.mark.parametrize(("arguments", "message"), UNKNOWN_WORDS)
def test_unknown_options_end_in_one_line(
    arguments: list[str], message: str, answers: dict[tuple[str, ...], Answer]
) -> None:
    found = answers[tuple(arguments)]
    assert found.code == 2
    assert re.fullmatch(f"riskroute: .*{message}.*\n", found.err)


@pytest.mark.parametrize("arguments", [MISTAKES[0][0], UNKNOWN_WORDS[0][0]])
def test_a_separate_process_behaves_alike(
    arguments: list[str], tmp_path: Path, answers: dict[tuple[str, ...], Answer]
) -> None:
    done = riskroute(*arguments, cwd=tmp_path)
    err = done.stderr.replace("python -m riskroute", "riskroute")
    files = [path.name for path in tmp_path.iterdir()]
    assert Answer(done.returncode, done.stdout, err, files) == answers[tuple(arguments)]


def test_without_arguments_it_shows_the_help() -> None:
    assert "simulate" in riskroute().stdout


def test_names_in_the_help_are_those_of_the_registry() -> None:
    assert _POLICIES.split(", ") == list(POLICIES)


def shown(terminal: int, wanted: str) -> str:
    """What appears on a terminal until some text does, or until nobody writes there any more."""
    text = ""
    with contextlib.suppress(OSError):  # how a terminal says so
        while not re.search(wanted, text):
            assert select.select([terminal], [], [], 60)[0], text
            read = os.read(terminal, 4096)
            if not read:
                break
            text += read.decode(errors="replace")
    return text


@pytest.mark.usefixtures("untraced")
@pytest.mark.usefixtures("interruptible")
def test_interrupt_keeps_what_is_finished(tmp_path: Path) -> None:
    """Ctrl-C in the middle of a long simulation: the table and the files hold the finished runs."""
    command = [sys.executable, "-m", "riskroute", "simulate", "--slots", "3", "--shares", "3", "--runs", "100000"]
    terminal, its_end = pty.openpty()
    running = subprocess.Popen(
        [*command, "--policy", "rise", "--json", "a.json"], cwd=tmp_path, env=ENVIRONMENT | {"TERM": "xterm"},
        stdout=subprocess.PIPE, stderr=its_end, text=True, start_new_session=True,
    )  # fmt: skip
    os.close(its_end)
    counted = r"[1-9]\d*/100000"
    assert re.search(counted, shown(terminal, counted))
    running.send_signal(signal.SIGINT)
    out, _ = running.communicate(timeout=60)
    err = shown(terminal, "interrupted")
    os.close(terminal)
    assert running.returncode == 130, err
    assert "interrupted" in err
    read = json.loads((tmp_path / "a.json").read_text())
    assert read["interrupted"]
    assert 0 < read["policies"]["rise"]["runs"] < 100_000
    assert "rise" in out


@pytest.mark.usefixtures("untraced")
def test_design_over_more_splits_than_could_be_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_app(["design", "--shares", "1000", "--slots", "20", "--json", str(tmp_path / "d.json")]) == 0
    assert "about 9.9e+39 allocations" in capsys.readouterr().out
    read = json.loads((tmp_path / "d.json").read_text())
    assert int(read["actions"]) == 9928648649789007111289430252718014636201
    assert (read["dim"], read["rank"]) == (40, 40)
    assert 40 <= read["bound"] <= 40.4
    assert sum(point["weight"] for point in read["support"]) == pytest.approx(1)
    assert all(sum(point["allocation"]) == 1000 for point in read["support"])
    assert len(read["support"]) <= 820
    assert read["seconds"] > 0


@pytest.mark.usefixtures("untraced")
def test_design_respects_lots_caps_and_minimums(tmp_path: Path) -> None:
    bounds = ["--cap", "6", "--cap", "8", "--cap", "8", "--minimum", "2", "--lot", "2"]
    assert run_app(["design", "--shares", "12", "--slots", "3", *bounds, "--json", str(tmp_path / "d.json")]) == 0
    for point in json.loads((tmp_path / "d.json").read_text())["support"]:
        amounts = point["allocation"]
        assert all(2 <= a <= cap and a % 2 == 0 for a, cap in zip(amounts, (6, 8, 8), strict=True))


@pytest.mark.usefixtures("untraced")
def test_simulate_more_splits_than_could_be_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By default the policies that need no list play."""
    sizes = ["--shares", "100", "--slots", "8", "--runs", "1", "--horizon", "500"]
    assert run_app(["simulate", *sizes, "--json", str(tmp_path / "a.json")]) == 0
    read = json.loads((tmp_path / "a.json").read_text())
    assert list(read["policies"]) == ["adaptive", "rise", "rise++"]
    assert all(sum(split) == 100 for split in read["policies"]["rise"]["recommended"])
    assert "best split: " in capsys.readouterr().out
