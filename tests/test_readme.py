"""README.md and the guides: examples run, and the README's numbers are what the demo prints."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from checkout import ROOT, run_code, run_command
from once import one_at_a_time, shared_folder
from riskroute.market.clock import parse_clock_hours
from riskroute.paper.claims import CLAIMS
from riskroute.simulation.backends import Backend
from riskroute.simulation.sweep import SweepConfig
from riskroute.study.markets import market_days

README = (ROOT / "README.md").read_text()
STUDY = (ROOT / "docs" / "study.md").read_text()
GUIDE = (ROOT / "docs" / "policies.md").read_text()
MARKET = (ROOT / "docs" / "market.md").read_text()
BACKTEST = (ROOT / "docs" / "backtest.md").read_text()
FENCED = re.findall(r"^```(\w*)\n(.*?)^```", README + GUIDE + MARKET + BACKTEST + STUDY, flags=re.DOTALL | re.MULTILINE)
SNIPPETS = [text for language, text in FENCED if language == "python"]
REPRODUCTION = (ROOT / "docs" / "reproduction.md").read_text()
BLOCKS = [
    commands
    for language, block in FENCED
    if not language and (commands := re.findall(r"^riskroute [a-z]+ [^#\n]*", block, flags=re.MULTILINE))
]
"""Commands that follow each other in one block, and find what the earlier ones wrote."""


QUARTER = "10:30-10:45"
FEW = f"--days 1 --hours {QUARTER} --orders 4"
SHORTER = {
    "riskroute market generate": "--hours 10:55-11:35",
    "riskroute market calibrate": "--hours 11:00-11:30",
    "riskroute simulate": "--horizon 300",
    "riskroute reproduce": "--horizon 300 --workers 1",
    "riskroute backtest": FEW,
    "riskroute headroom": FEW,
    "riskroute study": f"{FEW} --train 1 --surface-orders 0 --router spray",
}
"""Words put behind commands whose runs take long: of an option that is given twice, the last counts."""


@pytest.fixture(scope="session")
def quarter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the quarter of an hour that pages play on, as they keep their days."""
    folder = shared_folder(tmp_path_factory, "quarter")
    with one_at_a_time(folder):
        market_days("dark", days=1, hours=parse_clock_hours(QUARTER), kept=folder, backend=Backend("local", 1))
    return folder


@pytest.fixture
def place(quarter: Path, tmp_path: Path) -> Path:
    """Where a page runs: its synthetic day is there already."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "days").symlink_to(quarter)
    return tmp_path


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("code", SNIPPETS, ids=range(len(SNIPPETS)))
def test_python_examples_run(code: str, place: Path) -> None:
    """As they are, but for a few hundred rounds where there are tens of thousands."""
    assert run_code(re.sub(r"horizon=\d{2,}_000\b", "horizon=300", code), place)


@pytest.mark.usefixtures("untraced", "unpainted")
def test_commands_run(place: Path) -> None:
    """Two pages make the same market and import it; that is done once."""
    for command in dict.fromkeys(" ".join(command.split()) for commands in BLOCKS for command in commands):
        longer = [more for words, more in SHORTER.items() if command.startswith(words) and "--help" not in command]
        run_command(" ".join([command, *longer]), place)


@pytest.mark.usefixtures("untraced")
def test_the_guide_to_routers_prints_what_its_first_command_does(tmp_path: Path) -> None:
    """All but the last column, which is the time that decisions took."""
    shown = re.search(r"<!-- backtest -->\n```text\n(.*?)```\n<!-- /backtest -->", BACKTEST, flags=re.DOTALL)
    command = re.search(r"^riskroute backtest .*$", BACKTEST, flags=re.MULTILINE)
    assert shown is not None
    assert command is not None
    printed = run_command(command[0], tmp_path)
    lines = [line for line in printed.splitlines() if not line.startswith("wrote ")]
    timed = re.compile(r" +\d+$|-+$")
    assert [timed.sub("", line) for line in shown[1].splitlines()] == [timed.sub("", line) for line in lines]


def test_there_is_something_to_run() -> None:
    assert len(SNIPPETS) == 11
    assert [len(commands) for commands in BLOCKS] == [4, 3, 3, 4, 1, 1, 1, 1, 2]


def test_the_page_on_reproduction_states_every_claim() -> None:
    table = re.search(r"<!-- claims -->\n(.*?)<!-- /claims -->", REPRODUCTION, flags=re.DOTALL)
    assert table is not None
    rows = [line.split(" | ")[:2] for line in table.group(1).splitlines()[2:]]
    assert [[claim.where, claim.text] for claim in CLAIMS] == [[where.removeprefix("| "), text] for where, text in rows]


def test_the_sweep_of_the_page_is_valid() -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", REPRODUCTION, flags=re.DOTALL)
    config = SweepConfig.of(tomllib.loads(example))
    assert config.all_runs == 2 * 2 * 2 * 10 * 3 * 5


@pytest.mark.thorough  # the whole demo
def test_the_demo_prints_what_the_readme_says(tmp_path: Path) -> None:
    """Every word and number of both parts, but for times."""
    printed = run_command("riskroute demo --out out/demo", tmp_path)
    for marker in ("demo-study", "demo-table"):
        shown = re.search(rf"<!-- {marker} -->\n```text\n(.*?)\n```", README, flags=re.DOTALL)
        assert shown is not None
        timed = re.compile(r" {2,}[\d,.]+$|-+$", flags=re.MULTILINE)  # the last column of every table is a time
        assert _without_breaks(timed.sub("", shown[1])) in _without_breaks(timed.sub("", printed))


def _without_breaks(text: str) -> str:
    """A text without its line breaks: README wraps what the command leaves to the terminal."""
    return " ".join(text.split())
