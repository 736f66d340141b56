"""Figures 1, 3 and 5 of the paper and its table of parameters, computed from order books."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars

from riskroute.core.errors import DataError
from riskroute.core.files import write_json, write_whole
from riskroute.core.provenance import provenance_versions
from riskroute.core.validation import one_of
from riskroute.market.calibration import Calibration, calibrate
from riskroute.market.clock import SECOND, TimeWindow, zone_label
from riskroute.market.fitting import VenueFit
from riskroute.market.importing import ImportedBooks
from riskroute.market.order_profits import market_order_value
from riskroute.market.sampling import draw_sample_times, sample_books, sample_closest_books
from riskroute.paper.figures import plot_fits, plot_sampling
from riskroute.routing.instances import PAPER_VENUES
from riskroute.routing.venue_models import venue_model_table

# Figures and tables computed from order books, in output order.
TITLES = {
    "figure1": "Figure 1: profit of market orders, one stock at one venue",
    "figure3": "Figure 3: how books are sampled",
    "figure5": "Figure 5: profit of market orders, all venues",
    "table": "Table: parameters of venue models",
}

LEVELS = 5  # levels of a book that orders walk, as in the paper
_QUANTITIES = tuple(range(1, 11))  # shares: few enough for the thinnest venue
_BUCKETS = 4  # buckets shown in figure 3

_Made = tuple[dict[str, Any], str, polars.DataFrame, Mapping[str, VenueFit]]  # JSON summary, printed text, table, fits


@dataclass(frozen=True)
class _OrderBookFigure:
    """Figure or table computed from order books, with its JSON summary, printed text and written files."""

    name: str
    summary: dict[str, Any]
    text: str
    files: list[Path]
    fits: Mapping[str, VenueFit]

    @property
    def title(self) -> str:
        """Title with the source of the data."""
        return f"{self.summary['title']} ({self.summary['data']})"

    def draw(self) -> Path:
        """Draw the figure into the other files' folder; return its path."""
        path = self.files[0].with_suffix(".png")
        if "picture" in self.summary:
            return plot_sampling(self.summary["picture"], path, title=self.title)
        return plot_fits(self.fits, path, title=self.title)


def draw_book_figure(name: str, data: ImportedBooks, out: Path, seed: int) -> _OrderBookFigure:
    """Compute the figure or table ``name`` of `TITLES`; write its table, summary and configuration below ``out``."""
    make: dict[str, Callable[[ImportedBooks, int], _Made]] = {
        "figure1": _figure1,
        "figure3": _figure3,
        "figure5": _figure5,
        "table": _table,
    }
    summary, text, frame, fits = make[one_of("experiment", name, tuple(TITLES))](data, seed)
    head = {"experiment": name, "title": TITLES[name], "data": data.origin}
    stem = out / name
    files = [
        write_whole(stem / f"{name}.parquet", frame.write_parquet),
        write_json(stem / f"{name}.json", head | summary),
        write_json(
            stem / f"{name}.config.json", head | {"versions": provenance_versions(), "seed": seed} | summary["config"]
        ),
    ]
    return _OrderBookFigure(name, head | summary, text, files, fits)


def _figure1(data: ImportedBooks, seed: int) -> _Made:
    """Fit mean and variance of profit at the venue with the most snapshots, over a wide range of quantities."""
    return _fitted(_calibrated(data, seed, quantities=range(10, 201, 10), venues=(data.deepest,)))


def _figure5(data: ImportedBooks, seed: int) -> _Made:
    """Fit mean and variance of profit at all venues."""
    return _fitted(_calibrated(data, seed))


def _calibrated(data: ImportedBooks, seed: int, quantities: Sequence[int] = _QUANTITIES, **options: Any) -> Calibration:
    options |= {"quantities": quantities, "seed": seed, "date": data.date, "levels": LEVELS}
    return calibrate(data.store, data.symbol, **options)


def _fitted(found: Calibration) -> _Made:
    return found.summary(), repr(found), found.to_frame(), found.fits


def _table(data: ImportedBooks, seed: int) -> _Made:
    """Return calibrated venue parameters beside the paper's; dark pools are drawn relative to the lit venues."""
    found = _calibrated(data, seed, dark_pools=2)
    rows = [
        {"source": source, "venue": one.name, "kind": one.kind}
        | {f"mean_{power}": one.mean[power - 1] for power in (1, 2)}
        | {f"variance_{power}": one.variance[power - 1] for power in (1, 2)}
        for source, models in (("here", found.models), ("paper", PAPER_VENUES))
        for one in models
    ]
    text = f"here:\n{venue_model_table(found.models)}\n\nthe paper's:\n{venue_model_table(PAPER_VENUES)}"
    return found.summary(), text, polars.DataFrame(rows), found.fits


def _figure3(data: ImportedBooks, seed: int) -> _Made:
    """Return sample times and matched books of the first buckets, and one book walked by an order."""
    recordings = data.recordings
    window = TimeWindow()
    sample_times = draw_sample_times(recordings[0].date, window, seed, recordings[0].instrument)
    begin, end = int(sample_times.edges[0]), int(sample_times.edges[_BUCKETS])
    minutes = 1 / (60 * SECOND)
    venues, rows = {}, []
    for one in recordings:
        snapshots = data.store.snapshots(one, begin, end)
        books = sample_closest_books(snapshots, sample_times, levels=1)
        shown = books.found[:_BUCKETS]
        stamps, mids = books.stamps[:_BUCKETS][shown], books.mid[:_BUCKETS][shown]
        course = _course(snapshots, begin, minutes)
        matched = (stamps - begin) * minutes
        venues[one.venue] = course | {"matched": matched.tolist(), "matched_mids": mids.tolist()}
        rows += [
            {"venue": one.venue, "bucket": int(k), "minute": minute, "mid": mid}
            for k, minute, mid in zip(np.flatnonzero(shown), matched.tolist(), mids.tolist(), strict=True)
        ]
    if not rows:
        raise DataError(f"no venue has books of {data.symbol} in the first {_BUCKETS} buckets from {window.start}")
    picture = {
        "start": f"{str(window.start)[:5]} {zone_label(recordings[0].zone)}",
        "edges": ((sample_times.edges[: _BUCKETS + 1] - begin) * minutes).tolist(),
        "times": ((sample_times.times[:_BUCKETS] - begin) * minutes).tolist(),
        "venues": venues,
        "book": _walked(data, sample_times.times[0], begin, end),
    }
    text = f"{len(rows)} books matched in the first {_BUCKETS} of {window.buckets} buckets"
    config = {"symbol": data.symbol, "date": str(recordings[0].date), "buckets": window.buckets}
    return {"config": config, "picture": picture}, text, polars.DataFrame(rows), {}


def _course(snapshots: polars.DataFrame, begin: int, minutes: float) -> dict[str, Any]:
    """Return the mid over time, in minutes after ``begin``, thinned to fewer than 2,000 points."""
    step = max(snapshots.height // 1000, 1)
    some = snapshots.gather_every(step)
    stamps = some["ts_event"].cast(polars.Int64).to_numpy()
    mids = ((some["bid_px_00"] + some["ask_px_00"]) / 2).to_list()
    return {"minutes": ((stamps - begin) * minutes).tolist(), "mids": mids}


def _walked(data: ImportedBooks, time: int, begin: int, end: int) -> dict[str, Any]:
    """Return the bids nearest to ``time`` at the venue with the most snapshots, and how much of each an order takes."""
    recording = next(one for one in data.recordings if one.venue == data.deepest)
    snapshots = data.store.snapshots(recording, begin, end)
    stamps = snapshots["ts_event"].cast(polars.Int64).to_numpy()
    row = int(np.abs(stamps - time).argmin())
    book = sample_books(snapshots, np.array([row]), levels=LEVELS)
    prices, sizes = book.bid_px[0], book.bid_sz[0]
    shares = int(0.7 * sizes.sum())  # enough to walk most levels
    taken = np.clip(shares - (sizes.cumsum() - sizes), 0, sizes)
    money = float(market_order_value(book.bid_px, book.bid_sz, np.array([shares]))[0, 0])
    mid = float(book.mid[0])
    return {
        "venue": recording.venue,
        "mid": mid,
        "prices": prices.tolist(),
        "sizes": sizes.tolist(),
        "taken": taken.tolist(),
        "profit": money - mid * shares,
    }
