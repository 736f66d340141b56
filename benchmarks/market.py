"""Speed of market data: writing a synthetic market, and importing one symbol compared with itch-book alone.

itch-book alone reads the same file, symbol, depth and tables, and discards the batches. Both run in turn in one
process; memory is measured in a separate process that does one import.
"""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import itch_book

from riskroute.market.importing import import_files
from riskroute.market.readers.reading import ReadingOptions
from riskroute.market.synthetic.generate import DEFAULT_SYMBOLS, generate_market
from timing import interleaved, leave, print_heading, print_table, say, sized, verdict

WRITTEN, READ = sized((1_000_000, 3_000_000), (10_000, 10_000))
DAY = dt.date(2019, 3, 27)
HOURS = dt.time(10), sized(dt.time(15), dt.time(10, 5))

ONE_IMPORT = """
import sys
from pathlib import Path
from riskroute.market.importing import import_files
from riskroute.market.readers.reading import ReadingOptions
import_files([Path(sys.argv[1])], Path(sys.argv[2]), ReadingOptions((sys.argv[3],), depth=5))
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(int(status["VmHWM"].split()[0]) * 1024 / 1e9)  # not ru_maxrss, which includes the parent's peak
"""


def messages(path: Path) -> int:
    """Return the number of messages in a file."""
    feed = itch_book.open(str(path), date=DAY)
    for _ in feed.batches(tables=("symbols",)):
        pass
    assert feed.stats is not None
    return int(feed.stats["messages"])


def alone(path: Path, symbol: str) -> int:
    """Read the file with itch-book alone; return the number of depth rows."""
    rows = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        feed = itch_book.open(str(path), date=DAY)
        for batch in feed.batches(tables=("depth", "messages", "symbols"), depth=5, symbols=(symbol,)):
            rows += len(batch.depth["seq"])
    return rows


def written(out: Path, least: int) -> tuple[list[Path], int, float]:
    """Generate a market with a minimum number of messages; return its files, messages and seconds."""
    rate = 1.0
    while True:
        began = time.perf_counter()
        files = generate_market(out, hours=HOURS, rate=rate)
        seconds = time.perf_counter() - began
        count = sum(map(messages, files))
        if count >= least:
            return files, count, seconds
        rate *= 1.05 * least / count


def main() -> None:
    """Print messages per second, and the ratio to itch-book."""
    print_heading("Market data", ["riskroute", "itch-book", "polars", "pyarrow"])
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        generate_market(here / "first", symbols=DEFAULT_SYMBOLS[:1], hours=(dt.time(11), dt.time(11, 1)))
        _, count, seconds = written(here / "small", WRITTEN)
        per_million = seconds * 1e6 / count
        files, _, _ = written(here / "large", 2 * READ)
        file = max(files, key=lambda path: path.stat().st_size)
        size, symbol = messages(file), DEFAULT_SYMBOLS[0]
        wanted = ReadingOptions((symbol,), depth=5)
        timings = interleaved(
            {
                "itch-book alone": lambda: alone(file, symbol),
                "import": lambda: import_files([file], here / "books", wanted)[0].snapshots,
            }
        )
        memory = float(
            subprocess.run(
                [sys.executable, "-c", ONE_IMPORT, str(file), str(here / "again"), symbol],
                check=True,
                capture_output=True,
                text=True,
            ).stdout
        )
    rows = [
        [name, f"{one.median:.2f} s", f"{size / one.median / 1e6:.1f}", f"{one.outcome:,}"]
        for name, one in timings.items()
    ]
    say(f"a file of {size:,} messages, one of {len(DEFAULT_SYMBOLS)} symbols, five levels")
    print_table(["", "time", "million messages per second", "snapshots"], rows)
    ratio = timings["import"].median / timings["itch-book alone"].median
    speed = {
        f"a million messages written in {per_million:.1f} s, target at most 10": per_million <= 10,
        f"import takes {ratio:.2f} times as long as itch-book alone, target at most 2": ratio <= 2,
    }
    checks = {
        f"import uses {memory:.2f} GB, target at most 1": memory <= 1,
        f"the file has {size:,} messages, target at least {READ:,}": size >= READ,
    }
    for text, holds in (speed | checks).items():
        say(f"{text}: {verdict(holds)}")
    leave(checks.values(), speed.values())


if __name__ == "__main__":
    main()
