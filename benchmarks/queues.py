"""Estimated queue positions against true ones: hide the order ids of recorded days, and compare the same orders.

The events become public trades without order ids; the snapshots stay. An order of 100 shares joins the best price of
its own side every few seconds, on both sides; what is unfilled at the deadline takes the opposite side of the last
book. Every second half-hour chooses the model, the others judge it. Synthetic days by default; LOBSTER files as well if
the environment variable ``RISKROUTE_LOBSTER`` names one (or several, separated by colons).
"""

from __future__ import annotations

import datetime as dt
import itertools
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars
from numpy.typing import NDArray

from riskroute.market.clock import SECOND
from riskroute.market.day_books import DayBooks
from riskroute.market.importing import import_files
from riskroute.market.queue_fills import QueueReplay
from riskroute.market.queue_models import DEFAULT_QUEUE_MODEL, QueueModel
from riskroute.market.readers.reading import ReadingOptions
from riskroute.market.recordings import RecordingStore
from riskroute.market.synthetic.generate import generate_market
from timing import leave, print_heading, print_table, progress, say, sized, verdict

FILES = tuple(Path(name) for name in os.environ.get("RISKROUTE_LOBSTER", "").split(":") if name)
HOURS = sized((dt.time(10), dt.time(13)), (dt.time(11), dt.time(11, 12)))
EVERY = sized(5, 20) * SECOND  # between two orders of a side
BLOCK = sized(1800, 180) * SECOND  # a half-hour
SHARES = 100
DEADLINES = (10, 60)  # seconds
EXPONENTS = (0.25, 0.5, 0.75, 1.5, 2.0, 3.0)
MODELS = (
    QueueModel("pessimistic"),
    QueueModel("proportional"),
    *(QueueModel("power", exponent) for exponent in EXPONENTS),
    QueueModel("optimistic"),
)
CLOSE_FILLS, CLOSE_COST = 0.05, 0.1  # targets: fill rate, and basis points

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Outcomes:
    """Filled fraction and cost in basis points of each order, and whether it belongs to the judging half-hours."""

    filled: Values
    cost: Values
    judged: NDArray[np.bool_]

    def part(self, judged: bool) -> Outcomes:
        """Return the orders of the judging or of the choosing half-hours."""
        some = self.judged == judged
        return Outcomes(self.filled[some], self.cost[some], self.judged[some])


@dataclass(frozen=True)
class Errors:
    """Differences between estimated and true outcomes: means of fill rate and cost, Brier score and absolute error."""

    fill_rate: float
    whole: float
    brier: float
    absolute: float
    cost: float
    each_cost: float

    @classmethod
    def of(cls, found: Outcomes, true: Outcomes) -> Errors:
        """Compare the same orders."""
        both = (found.filled >= 1).astype(float) - (true.filled >= 1).astype(float)
        gap, cost = found.filled - true.filled, found.cost - true.cost
        return cls(*(gap.mean(), both.mean(), (both**2).mean(), np.abs(gap).mean(), cost.mean(), np.abs(cost).mean()))


def hidden_ids(events: polars.DataFrame) -> polars.DataFrame:
    """Return the executions as public trades without order ids."""
    return events.filter(polars.col("action") == "F").with_columns(
        action=polars.lit("T"), order_id=polars.lit(0, dtype=polars.UInt64)
    )


def replays(folder: Path) -> Iterator[tuple[str, QueueReplay, QueueReplay]]:
    """Yield every venue and day: its name, the recorded queues, and those estimated from depth and trades."""
    store = RecordingStore(folder)
    for recording in store.recordings():
        books = DayBooks.of_tables({recording.venue: store.snapshots(recording)})
        events = {recording.venue: store.events(recording)}
        public = {name: hidden_ids(table) for name, table in events.items()}
        yield recording.stem, QueueReplay(books, events), QueueReplay(books, public)


def taken(prices: Values, sizes: Values, shares: int) -> float:
    """Return the amount that takes ``shares`` from a book; shares beyond its levels have the last price."""
    known = np.isfinite(prices) & (sizes > 0)
    reached = np.clip(np.cumsum(sizes[known]), 0, shares)
    reached[-1] = shares
    return float(np.diff(reached, prepend=0.0) @ prices[known])


def outcomes(replay: QueueReplay, seconds: int) -> Outcomes:
    """Post an order every few seconds on both sides, and take the remainder at the deadline."""
    books = replay.books
    starts = np.arange(books.first + 60 * SECOND, books.last - (seconds + 1) * SECOND, EVERY)
    filled, costs, judged = [], [], []
    for begin, sign in itertools.product(starts.tolist(), (1, -1)):
        end, mid = begin + seconds * SECOND, float(books.mids([begin])[0])
        price, fills = replay.fills(0, sign, begin, end, SHARES)
        prices, sizes, _ = books.opposite(end, sign)
        some = sum(shares for _, shares in fills)
        if np.isfinite(price + mid + prices[0, 0]):
            filled.append(some / SHARES)
            paid = (some * price + taken(prices[0], sizes[0], SHARES - some)) / SHARES
            costs.append(1e4 * sign * (paid - mid) / mid)
            judged.append((begin - books.first) // BLOCK % 2 == 1)
    return Outcomes(np.array(filled), np.array(costs), np.array(judged))


def best_model(found: dict[tuple[QueueModel, int], Outcomes], true: dict[int, Outcomes]) -> QueueModel:
    """Return the model with the least mean absolute error of the filled share in the choosing half-hours."""

    def error(model: QueueModel) -> float:
        errors = [Errors.of(found[model, wait].part(False), true[wait].part(False)) for wait in DEADLINES]
        return float(np.mean([abs(one.fill_rate) / CLOSE_FILLS + abs(one.cost) / CLOSE_COST for one in errors]))

    return min(MODELS, key=error)


def judge(name: str, exact: QueueReplay, estimated: QueueReplay) -> tuple[QueueModel, dict[str, bool]]:
    """Print the errors of every model in the judging half-hours; return the chosen model and the targets."""
    true = {wait: outcomes(exact, wait) for wait in DEADLINES}
    found = {(model, wait): outcomes(estimated.with_model(model), wait) for model in MODELS for wait in DEADLINES}
    chosen = best_model(found, true)
    rows: list[list[str]] = []
    checks: dict[str, bool] = {}
    for wait in DEADLINES:
        truth = true[wait].part(True)
        rows.append(
            [f"{wait} s", "true queue", f"{truth.filled.mean():.3f}", "", "", "", f"{truth.cost.mean():.3f}", "", ""]
        )
        for model in MODELS:
            one = found[model, wait].part(True)
            gap = Errors.of(one, truth)
            rows.append(
                [
                    *("", f"{model}{' *' if model == chosen else ''}", f"{one.filled.mean():.3f}"),
                    *(f"{gap.fill_rate:+.3f}", f"{gap.brier:.3f}", f"{gap.absolute:.3f}"),
                    *(f"{one.cost.mean():.3f}", f"{gap.cost:+.3f}", f"{gap.each_cost:.3f}"),
                ]
            )
        gap = Errors.of(found[chosen, wait].part(True), truth)
        low, high = (found[model, wait].part(True) for model in (MODELS[0], MODELS[-1]))
        inside = low.filled.mean() <= truth.filled.mean() <= high.filled.mean()
        checks |= {
            f"{name}, {wait} s: fill rate within {CLOSE_FILLS}": abs(gap.fill_rate) <= CLOSE_FILLS,
            f"{name}, {wait} s: cost within {CLOSE_COST} bps": abs(gap.cost) <= CLOSE_COST,
            f"{name}, {wait} s: the fill rate of the true queue is in the band": bool(inside),
        }
    orders = len(true[DEADLINES[0]].part(True).filled)
    say(f"{name}: {orders:,} judged orders of {SHARES} shares; * chosen in the other half-hours")
    header = ["deadline", "model", "fill rate", "error", "Brier", "abs. error", "cost bps", "error", "abs. error"]
    print_table(header, rows, left=2)
    return chosen, checks


def main() -> None:
    """Print the errors of every model on every day, and what the default is."""
    print_heading("Queue models: estimated and true queue positions", ["riskroute", "numpy", "numba", "polars"])
    checks: dict[str, bool] = {}
    chosen = []
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        made = generate_market(here / "files", symbols=("QVEX",), hours=HOURS, seed=3)
        import_files(made[:1], here / "synthetic", ReadingOptions(("QVEX",), 10))
        for number, file in enumerate(FILES):
            import_files([file], here / f"lobster{number}", ReadingOptions())
        for place in (here / "synthetic", *(here / f"lobster{number}" for number in range(len(FILES)))):
            for name, exact, estimated in replays(place):
                progress(name)
                model, held = judge(name, exact, estimated)
                chosen.append(f"{name}: {model}")
                checks |= held
    for text, holds in checks.items():
        say(f"{text}: {verdict(holds)}")
    say(f"default: {DEFAULT_QUEUE_MODEL}; chosen by {'; '.join(chosen)}")
    leave([held for text, held in checks.items() if "band" in text], checks.values())


if __name__ == "__main__":
    main()
