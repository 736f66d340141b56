"""Estimated queue positions against true ones: hide the order ids of recorded days, and compare the same orders.

Executions become public trades without order ids; the snapshots stay. An order of 100 shares joins the best price of
its own side every few seconds, on both sides; the remainder takes the opposite side of the book at the deadline. The
model with the least error in every second half-hour is judged in the others: the sum of the absolute errors of fill
rate and cost, each relative to its target, over both deadlines. Synthetic days by default; LOBSTER files as well if
the environment variable ``RISKROUTE_LOBSTER`` names one (or several, separated by colons).

Hidden orders fill no limit order in a replay with order ids, but public trades include them. The last two rows of a
deadline show the default model with these trades too, and with depth that is published every 100 ms.
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
    """Filled fraction and cost in basis points of each order, and whether it belongs to the judging half-hours.

    An order that meets an empty side has neither: NaN.
    """

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
        known = np.isfinite(found.cost + true.cost)
        found, true = (Outcomes(one.filled[known], one.cost[known], one.judged[known]) for one in (found, true))
        both = (found.filled >= 1).astype(float) - (true.filled >= 1).astype(float)
        gap, cost = found.filled - true.filled, found.cost - true.cost
        return cls(*(gap.mean(), both.mean(), (both**2).mean(), np.abs(gap).mean(), cost.mean(), np.abs(cost).mean()))


def public_trades(events: polars.DataFrame) -> polars.DataFrame:
    """Return the executions as public trades without order ids; those of hidden orders without a side."""
    return events.filter(polars.col("action") == "F").with_columns(
        action=polars.lit("T"),
        side=polars.when(polars.col("order_id") > 0).then("side"),
        order_id=polars.lit(0, dtype=polars.UInt64),
    )


def conflated(snapshots: polars.DataFrame, milliseconds: int) -> polars.DataFrame:
    """Return the last snapshot of every interval, published at its end."""
    step = milliseconds * SECOND // 1000
    ends = (-(polars.col("ts_event").cast(polars.Int64) // -step)) * step
    kind = snapshots.schema["ts_event"]
    return snapshots.with_columns(ends.cast(kind).alias("ts_event")).unique(
        "ts_event", keep="last", maintain_order=True
    )


def replays(folder: Path) -> Iterator[tuple[str, QueueReplay, QueueReplay, dict[str, QueueReplay]]]:
    """Yield every venue and day: name, recorded queues, estimated ones, and estimated ones from other data by name."""
    store = RecordingStore(folder)
    for recording in store.recordings():
        venue, events, snapshots = recording.venue, store.events(recording), store.snapshots(recording)
        displayed = public_trades(events.filter(polars.col("order_id") > 0))
        books, slow = (DayBooks.of_tables({venue: table}) for table in (snapshots, conflated(snapshots, 100)))
        others = {
            "with hidden trades": QueueReplay(books, {venue: public_trades(events)}),
            "depth every 100 ms": QueueReplay(slow, {venue: displayed}),
        }
        yield recording.stem, QueueReplay(books, {venue: events}), QueueReplay(books, {venue: displayed}), others


def taken(prices: Values, sizes: Values, shares: int) -> float:
    """Return the amount that takes ``shares`` from a book; shares beyond its levels have the last price."""
    known = np.isfinite(prices) & (sizes > 0)
    reached = np.clip(np.cumsum(sizes[known]), 0, shares)
    reached[-1] = shares
    return float(np.diff(reached, prepend=0.0) @ prices[known])


def outcomes(replay: QueueReplay, seconds: int, books: DayBooks) -> Outcomes:
    """Post an order every few seconds on both sides, and take the remainder from ``books`` at the deadline."""
    starts = np.arange(books.first + 60 * SECOND, books.last - (seconds + 1) * SECOND, EVERY)
    filled, costs, judged = [], [], []
    for begin, sign in itertools.product(starts.tolist(), (1, -1)):
        end, mid = begin + seconds * SECOND, float(books.mids([begin])[0])
        price, fills = replay.fills(0, sign, begin, end, SHARES)
        prices, sizes, _ = books.opposite(end, sign)
        some = sum(shares for _, shares in fills)
        met = bool(np.isfinite(price + mid + prices[0, 0]))
        paid = (some * price + taken(prices[0], sizes[0], SHARES - some)) / SHARES if met else np.nan
        filled.append(some / SHARES if met else np.nan)
        costs.append(1e4 * sign * (paid - mid) / mid)
        judged.append((begin - books.first) // BLOCK % 2 == 1)
    return Outcomes(np.array(filled), np.array(costs), np.array(judged))


def best_model(found: dict[tuple[QueueModel, int], Outcomes], true: dict[int, Outcomes]) -> QueueModel:
    """Return the model with the least error in the choosing half-hours."""

    def error(model: QueueModel) -> float:
        errors = [Errors.of(found[model, wait].part(False), true[wait].part(False)) for wait in DEADLINES]
        return float(np.sum([abs(one.fill_rate) / CLOSE_FILLS + abs(one.cost) / CLOSE_COST for one in errors]))

    return min(MODELS, key=error)


def judge(
    name: str, exact: QueueReplay, estimated: QueueReplay, others: dict[str, QueueReplay]
) -> tuple[QueueModel, dict[str, bool]]:
    """Print the errors of every model in the judging half-hours; return the chosen model and the targets."""
    books = exact.books
    true = {wait: outcomes(exact, wait, books) for wait in DEADLINES}
    found = {
        (model, wait): outcomes(estimated.with_model(model), wait, books) for model in MODELS for wait in DEADLINES
    }
    chosen = best_model(found, true)
    rows: list[list[str]] = []
    checks: dict[str, bool] = {}
    for wait in DEADLINES:
        truth = true[wait].part(True)
        rows.append(
            [
                f"{wait} s",
                "true queue",
                f"{np.nanmean(truth.filled):.3f}",
                "",
                "",
                "",
                f"{np.nanmean(truth.cost):.3f}",
                "",
                "",
            ]
        )
        named = [(f"{model}{' *' if model == chosen else ''}", found[model, wait]) for model in MODELS]
        named += [(f"{DEFAULT_QUEUE_MODEL}, {what}", outcomes(one, wait, books)) for what, one in others.items()]
        for label, each in named:
            one = each.part(True)
            gap = Errors.of(one, truth)
            rows.append(
                [
                    *("", label, f"{np.nanmean(one.filled):.3f}", f"{gap.fill_rate:+.3f}", f"{gap.brier:.3f}"),
                    *(f"{gap.absolute:.3f}", f"{np.nanmean(one.cost):.3f}", f"{gap.cost:+.3f}", f"{gap.each_cost:.3f}"),
                ]
            )
        gap = Errors.of(found[chosen, wait].part(True), truth)
        low, high = (found[model, wait].part(True) for model in (MODELS[0], MODELS[-1]))
        inside = np.nanmean(low.filled) <= np.nanmean(truth.filled) <= np.nanmean(high.filled)
        inside &= np.nanmean(high.cost) <= np.nanmean(truth.cost) <= np.nanmean(low.cost)
        checks |= {
            f"{name}, {wait} s: fill rate within {CLOSE_FILLS}": abs(gap.fill_rate) <= CLOSE_FILLS,
            f"{name}, {wait} s: cost within {CLOSE_COST} bps": abs(gap.cost) <= CLOSE_COST,
            f"{name}, {wait} s: the true queue is between pessimistic and optimistic": bool(inside),
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
            for name, exact, estimated, others in replays(place):
                progress(name)
                model, held = judge(name, exact, estimated, others)
                chosen.append(f"{name}: {model}")
                checks |= held
    for text, holds in checks.items():
        say(f"{text}: {verdict(holds)}")
    say(f"default: {DEFAULT_QUEUE_MODEL}; chosen by {'; '.join(chosen)}")
    leave([held for text, held in checks.items() if "between" in text], checks.values())


if __name__ == "__main__":
    main()
