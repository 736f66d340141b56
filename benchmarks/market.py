"""Speed of market data: writing a synthetic market, importing one symbol of it, and importing depth updates.

The import is compared with itch-book alone, which reads the same file, symbol, depth and tables, and discards the
batches. Both run in turn in one process; memory is measured in a separate process that does one import. The depth
updates are Binance's, of a book of 1,000 levels per side, imported on one core.
"""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

import itch_book
import numpy as np

from riskroute.market.importing import import_files
from riskroute.market.readers.reading import ReadingOptions
from riskroute.market.synthetic.generate import DEFAULT_SYMBOLS, generate_market
from timing import interleaved, leave, print_heading, print_table, say, sized, verdict

WRITTEN, READ = sized((1_000_000, 3_000_000), (10_000, 10_000))
UPDATES = sized(1_000_000, 5_000)  # depth updates
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

ONE_DEPTH_IMPORT = """
import os, sys, time
os.environ["POLARS_MAX_THREADS"] = "1"
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from pathlib import Path
from riskroute.market.importing import import_files
from riskroute.market.readers.reading import ReadingOptions
began = time.perf_counter()
(one,) = import_files([Path(sys.argv[1])], Path(sys.argv[2]), ReadingOptions())
seconds = time.perf_counter() - began
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(seconds, one.snapshots, int(status["VmHWM"].split()[0]) * 1024 / 1e9)
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


def depth_updates(path: Path, count: int, levels: int = 1000, mid: int = 6_000_000) -> None:
    """Write a snapshot and updates of two levels per side, most of them near the mid (in hundredths)."""
    rng = np.random.default_rng(1)

    def side(prices: Sequence[int], sizes: Sequence[int]) -> str:
        return ",".join(f'["{price / 100:.2f}","{size / 1000}"]' for price, size in zip(prices, sizes, strict=True))

    whole = [side([mid + sign * (k + 1) for k in range(levels)], [1000] * levels) for sign in (-1, 1)]
    with path.open("w") as file:
        file.write(f'{{"lastUpdateId": 0, "bids": [{whole[0]}], "asks": [{whole[1]}]}}\n')
        for begin in range(1, count + 1, 10_000):
            numbers = range(begin, min(begin + 10_000, count + 1))
            away = np.minimum(rng.geometric(0.02, (len(numbers), 4)), levels).tolist()
            sizes = (rng.integers(1, 5000, (len(numbers), 4)) * (rng.random((len(numbers), 4)) < 0.8)).tolist()
            for number, places, some in zip(numbers, away, sizes, strict=True):
                bids = side([mid - place for place in places[:2]], some[:2])
                asks = side([mid + place for place in places[2:]], some[2:])
                head = f'{{"e": "depthUpdate", "E": {1_577_836_800_000 + 50 * number}, "s": "BTCUSDT"'
                file.write(f'{head}, "U": {number}, "u": {number}, "b": [{bids}], "a": [{asks}]}}\n')


def imported_alone(code: str, *words: object) -> list[float]:
    """Run an import in a process of its own; return the numbers that it prints."""
    done = subprocess.run([sys.executable, "-c", code, *map(str, words)], check=True, capture_output=True, text=True)
    return list(map(float, done.stdout.split()))


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
        (memory,) = imported_alone(ONE_IMPORT, file, here / "again", symbol)
        depth_updates(here / "depth.jsonl", 10)
        imported_alone(ONE_DEPTH_IMPORT, here / "depth.jsonl", here / "warm")  # compiles what is not cached
        depth_updates(here / "depth.jsonl", UPDATES)
        depth_seconds, snapshots, depth_memory = imported_alone(ONE_DEPTH_IMPORT, here / "depth.jsonl", here / "depth")
    rows = [
        [name, f"{one.median:.2f} s", f"{size / one.median / 1e6:.1f}", f"{one.outcome:,}"]
        for name, one in timings.items()
    ]
    say(f"a file of {size:,} messages, one of {len(DEFAULT_SYMBOLS)} symbols, five levels")
    print_table(["", "time", "million messages per second", "snapshots"], rows)
    say(f"{UPDATES:,} depth updates became {snapshots:,.0f} snapshots of 50 levels")
    ratio = timings["import"].median / timings["itch-book alone"].median
    speed = {
        f"a million messages written in {per_million:.1f} s, target at most 10": per_million <= 10,
        f"import takes {ratio:.2f} times as long as itch-book alone, target at most 2": ratio <= 2,
        f"{UPDATES:,} depth updates at 1,000 levels take {depth_seconds:.1f} s, target at most 60": depth_seconds <= 60,
    }
    checks = {
        f"import uses {memory:.2f} GB, target at most 1": memory <= 1,
        f"import of depth updates uses {depth_memory:.2f} GB, target at most 1": depth_memory <= 1,
        f"the file has {size:,} messages, target at least {READ:,}": size >= READ,
    }
    for text, holds in (speed | checks).items():
        say(f"{text}: {verdict(holds)}")
    leave(checks.values(), speed.values())


if __name__ == "__main__":
    main()
