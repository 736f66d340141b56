"""Compile what the tests and the demo use, once, into ``NUMBA_CACHE_DIR``: a program for a fresh checkout.

It goes through the motions of all that has compiled code: policies on listed and on implicit sets, designs, a study of
a synthetic market with limit orders, books of other files.
"""

from __future__ import annotations

import datetime as dt
import multiprocessing
import sys
import tempfile
from pathlib import Path

import numpy as np

import riskroute as rr
from naive_queues import hidden_ids
from riskroute.learning.hazards import Hazards
from riskroute.learning.mean_variance_regression import _nonnegative_least_squares
from riskroute.market.day_books import DayBooks
from riskroute.market.queue_fills import QueueReplay
from riskroute.market.readers.databento import _DatabentoBook
from riskroute.market.readers.itch import _scan_symbols
from riskroute.market.readers.level_book import LevelBook, LevelUpdates
from riskroute.routers.literature.cont_kukanov import _PlacementPrices, _stochastic_placement
from riskroute.routing.consolidated import ConsolidatedBook

STUDY = {
    "quantities": 4,
    "train": "10:40-10:44",
    "test": "10:44-10:48",
    "bucket_minutes": 1,
    "repeats": 2,
    "horizon": 40,
    "runs": 1,
    "policies": ["adaptive", "rise", "mv-ucb"],
    "limit": ["XNAS", "XPSX"],
}


def main() -> None:
    """Go through the motions: markets in a process of their own, and then a study, which needs all of it."""
    with tempfile.TemporaryDirectory() as folder:
        other = multiprocessing.get_context("spawn").Process(target=compile_markets, args=(Path(folder),))
        other.start()
        compile_learning()
        other.join()
        if other.exitcode != 0:
            sys.exit("the kernels of markets could not be compiled")
        rr.SplitStudy(**STUDY).run(out=Path(folder), backend=rr.Backend(workers=1))


def compile_learning() -> None:
    """Policies on listed and on implicit sets, and designs."""
    problem = rr.random_routing_problem(shares=3, slots=3, seed=0)
    rr.simulate(problem, [name for name in rr.POLICIES if name != "oracle"], horizon=200, runs=1)
    rr.simulate(rr.environments.Autocorrelated(problem, 0.5), ["rise", "risk-ucb"], horizon=200, runs=1)
    large = rr.random_problem(rr.Allocations(60, 10, caps=[30] * 10), seed=0)
    rr.simulate(large, ["rise", "rise++"], horizon=2000, runs=1)
    rr.simulate(large, ["adaptive"], horizon=60, runs=1)
    rr.Allocations(30, 12, caps=list(range(5, 17))).design(0.05)
    rr.Allocations(5, 3).best(-np.ones(6))
    rr.Allocations(5, 3).two_best(-np.ones(6))
    survivors = rr.Allocations(100, 6).within(np.linspace(-1.0, 1.0, 12), 0.4)
    survivors.sample(np.random.default_rng(0), 1)
    survivors.best(np.linspace(1.0, -1.0, 12))
    rr.routing.split_actions(2, 40).design(0.01)
    rr.g_optimal(np.random.default_rng(0).standard_normal((2000, 5)), tolerance=1e-6)
    rr.routing.minimise_quadratic(np.eye(2), np.zeros(2), 2)
    _nonnegative_least_squares(np.eye(1), np.ones(1))


def compile_markets(folder: Path) -> None:
    """Books, routers that look at them, readers of files, and the synthetic market, whose books are left there."""
    book = ConsolidatedBook(np.full((2, 1), 10.0), np.full((2, 1), 300.0), np.zeros((2, 2)), mid=9.99, side="buy")
    book.take(200, lot=100)
    book.take(200)
    lit = {"bids": [[10.0, 300]], "asks": [[10.02, 300]]}
    patient = {"side": "buy", "shares": 20, "horizon": 10.0, "features": {"outflow A": 1.0}}
    rr.routers.make_router("contextual").route(
        rr.routers.read_context({"venues": {"A": lit}, "pools": {"P": {}}}, **patient)
    )
    prices = _PlacementPrices(0.02, 0.003, (0.002,), under=0.026, over=0.024)
    _stochastic_placement(prices.problem(10, np.ones(1), np.ones((1, 1))), 2000)
    hazards = Hazards([1, 2])
    hazards.add(2, 1)
    hazards.tails(2, hazards.hazards)
    hazards.expected(2)
    flags, numbers, values = np.array([True]), np.array([1]), np.ones(1)
    for writeable in (True, False):  # columns of tables are not
        numbers.flags.writeable = values.flags.writeable = writeable
        list(LevelBook(1).follow(LevelUpdates(numbers, numbers, numbers, flags, flags, values, values)))
    one = np.ones(1, dtype=np.int64)
    _DatabentoBook(1).apply(one, one * ord("A"), one * ord("B"), one, one, one)
    (folder / "empty.itch").write_bytes(bytes(2))
    _scan_symbols(folder / "empty.itch")
    files = rr.market.generate_market(
        folder / "files", symbols=("QVEX",), hours=(dt.time(11), dt.time(11, 1)), rate=0.2
    )
    rr.market.import_files(files[:1], folder / "books", rr.market.ReadingOptions(("QVEX",)))
    store = rr.market.RecordingStore(folder / "books")
    (recording,) = store.of_symbol("QVEX")
    books = DayBooks.of_tables({"XNAS": store.snapshots(recording)})
    books.touches([books.first])
    queue = QueueReplay(books, {"XNAS": store.events(recording)})
    queue.fills(0, 1, books.first, books.last, 10)
    queue.drain(0, 1, books.first, books.last)
    estimated = QueueReplay(books, {"XNAS": hidden_ids(store.events(recording))})
    estimated.drain(0, 1, books.first, books.last)
    estimated.trades(0, 1, books.first, books.last)


if __name__ == "__main__":
    main()
