"""Print the demo's table, one study and one sweep, small: a program for tests that run it on unlike machines."""

from __future__ import annotations

import sys
from pathlib import Path

from riskroute.cli.app import run

POLICIES = ("adaptive", "thompson", "rise", "rise++", "risk-ucb", "risk-exp-exp", "uniform")

SWEEP = f"""
slots = [3]
shares = 6
risk_tolerances = [0.5, 2.0]
horizons = 600
instances = 1
runs = 1
policies = {list(POLICIES)}
"""

STUDY = f"""
shares = 10
train = "10:40-10:46"
test = "10:46-10:52"
bucket_minutes = 1
repeats = 2
horizon = 200
runs = 1
policies = {list(POLICIES)}
"""


def main(folder: Path) -> int:
    """Run the three commands, with their files in ``folder``; returns an exit code."""
    (folder / "sweep.toml").write_text(SWEEP)
    (folder / "split-study.toml").write_text(STUDY)
    chosen = [word for name in POLICIES for word in ("--policy", name)]
    code = run(["simulate", "--runs", "2", "--horizon", "1000", "--json", str(folder / "table.json"), *chosen])
    for command in ("sweep", "split-study"):
        code = code or run([command, str(folder / f"{command}.toml"), "--workers", "1", "--out", str(folder / command)])
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
