"""Time of `riskroute reproduce all` in the paper's sizes, and memory of a hundred-fold panel.

Both are measured from outside the process. A tiny first run compiles the kernels. Memory is the total of all processes
of the command, sampled twice per second.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from timing import leave, print_heading, print_table, quick, say, sized, verdict

RUNS = sized(5000, 2)
TINY = "--runs", "1", "--horizon", "1000"
ALONE = "--panel", "a", "--horizon", "200", "--workers", "1"
WHOLE = sized("all", "figure2")
WIDE = "figure2", "--policy", "rise", "--policy", "rise++", "--runs", str(RUNS), *sized((), ALONE)
REPEATS = 2


def command(out: Path, *words: str) -> tuple[float, float]:
    """Return the seconds and the peak memory in GB of a reproduction."""
    began, most = time.perf_counter(), 0.0
    process = subprocess.Popen(
        [sys.executable, "-m", "riskroute", "reproduce", *words, "--out", str(out)],
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    while process.poll() is None:
        most = max(most, held(process.pid))
        time.sleep(sized(0.5, 0.1))
    if process.returncode != 0:
        raise SystemExit(f"riskroute reproduce {' '.join(words)} failed with status {process.returncode}")
    return time.perf_counter() - began, most


def held(group: int) -> float:
    """Return the memory of all processes of a group, in GB."""
    pages = 0
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and os.getpgid(int(folder.name)) == group:
                pages += int((folder / "statm").read_text().split()[1])
        except OSError:
            continue
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e9


def main() -> None:
    """Print seconds and memory."""
    print_heading("Reproduction", ["riskroute", "joblib", "numpy", "numba"])
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        if not quick():  # a quick run is tiny itself
            command(out / "first", "all", *TINY)
        wide = command(out / "wide", *WIDE)
        whole = [wide] if quick() else [command(out / "whole", WHOLE) for _ in range(REPEATS)]
    rows = [[f"{WHOLE}, the paper's sizes", f"{seconds:.0f} s", f"{memory:.2f} GB"] for seconds, memory in whole]
    rows.append([f"figure2, rise and rise++, {RUNS:,} runs per panel", f"{wide[0]:.0f} s", f"{wide[1]:.2f} GB"])
    print_table(["command", "time", "memory of all processes"], rows)
    fastest = min(seconds for seconds, _ in whole)
    memory = {f"{RUNS:,} runs per panel: {wide[1]:.2f} GB, target at most 4": wide[1] <= 4}
    speed = {f"{WHOLE}: {fastest:.0f} s, target at most 120": fastest <= 120}
    for text, holds in (speed | memory).items():
        say(f"{text}: {verdict(holds)}")
    leave(memory.values(), speed.values())


if __name__ == "__main__":
    main()
