"""README.md and the guides: examples run, and the README's numbers are what the demo prints."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from riskroute.experiments.claims import CLAIMS
from riskroute.experiments.comparison import demo
from riskroute.experiments.sweep import checked_config

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
GUIDE = (ROOT / "docs" / "policies.md").read_text()
SNIPPETS = re.findall(r"```python\n(.*?)```", README + GUIDE, flags=re.DOTALL)
REPRODUCTION = (ROOT / "docs" / "reproduction.md").read_text()
COMMANDS = re.findall(r"^riskroute [a-z]+ .*--.*$", README, flags=re.MULTILINE)


@pytest.mark.parametrize("code", SNIPPETS, ids=range(len(SNIPPETS)))
def test_python_examples_run(code: str, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run(command: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command.split()], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr


def test_there_is_something_to_run() -> None:
    assert len(SNIPPETS) == 6
    assert len(COMMANDS) == 4


def test_the_page_on_reproduction_states_every_claim() -> None:
    table = re.search(r"<!-- claims -->\n(.*?)<!-- /claims -->", REPRODUCTION, flags=re.DOTALL)
    assert table is not None
    rows = [line.split(" | ")[:2] for line in table.group(1).splitlines()[2:]]
    assert [[claim.where, claim.text] for claim in CLAIMS] == [[where.removeprefix("| "), text] for where, text in rows]


def test_the_sweep_of_the_page_is_valid() -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", REPRODUCTION, flags=re.DOTALL)
    config = checked_config(tomllib.loads(example))
    assert config.all_runs == 2 * 2 * 2 * 10 * 3 * 5


def test_the_table_is_the_demos() -> None:
    """Regret within 5 %, or three of the stated standard errors: another processor rounds differently, no more."""
    table = re.search(r"<!-- demo-table -->\n```\n(.*?)\n```", README, flags=re.DOTALL)
    assert table is not None
    lines = table.group(1).splitlines()
    stated = {fields[0]: [float(x.replace(",", "")) for x in fields[1:3]] for fields in map(str.split, lines[3:])}
    result = demo()
    assert set(stated) == set(result.policies)
    for name, (regret, error) in stated.items():
        assert result.policies[name].mean_regret()[-1] == pytest.approx(regret, rel=0.05, abs=3 * error)
