"""Figures 1, 3 and 5 of the paper and its table of parameters: what order books say about the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import polars

from riskroute.core.errors import DataError
from riskroute.core.files import write_json, write_whole
from riskroute.core.records import from_plain
from riskroute.core.runtime import provenance_versions
from riskroute.core.validation import one_of
from riskroute.market.calibration import Calibration, calibrate
from riskroute.market.clock import SECOND, Window, zone_label
from riskroute.market.importing import SymbolBooks
from riskroute.market.order_profits import walk_book
from riskroute.market.sampling import books_at, closest_books, draw_sample_times
from riskroute.paper.results import PaperBookPicture, PaperFitPoints, PaperSamplingPicture
from riskroute.routing.instances import VENUES
from riskroute.routing.venues import venue_model_table

TITLES = {
    "figure1": "Figure 1: profit of market orders, one stock at one venue",
    "figure3": "Figure 3: how books are sampled",
    "figure5": "Figure 5: profit of market orders, all venues",
    "table": "Table: parameters of venue models",
}
"""What is made from order books, in the order in which it is made."""

DEEP_QUANTITIES, QUANTITIES = tuple(range(10, 201, 10)), tuple(range(1, 11))
"""Shares: at the deepest venue alone, and where the thinnest must keep up."""

LEVELS = 5
"""Levels of a book that an order walks in the paper."""

SHOWN_BUCKETS = 4
WALKED = 0.7  # of all that the levels hold
DARK_POOLS = 2


@dataclass(frozen=True)
class OrderBookFigure:
    """What came out: its summary, as in the JSON file, a text to print, and the files written."""

    name: str
    summary: dict[str, Any]
    text: str
    files: list[Path]

    @property
    def title(self) -> str:
        """Title, with the data it was made from."""
        return f"{self.summary['title']} ({self.summary['data']})"

    def picture(self) -> PaperBookPicture:
        """Return what its picture shows."""
        if "picture" in self.summary:
            return PaperBookPicture(self.title, sampling=from_plain(PaperSamplingPicture, self.summary["picture"]))
        names = [field.name for field in fields(PaperFitPoints)]
        fits = {
            venue: from_plain(PaperFitPoints, {name: fit[name] for name in names})
            for venue, fit in self.summary["venues"].items()
        }
        return PaperBookPicture(self.title, fits)


def draw_order_books(name: str, data: SymbolBooks, out: Path, seed: int) -> OrderBookFigure:
    """Make one of `TITLES`: table, summary and configuration as files below ``out``; figures are drawn from these."""
    make: dict[str, Callable[[SymbolBooks, int], tuple[dict[str, Any], str, polars.DataFrame]]] = {
        "figure1": _figure1,
        "figure3": _figure3,
        "figure5": _figure5,
        "table": _table,
    }
    summary, text, frame = make[one_of("experiment", name, tuple(TITLES))](data, seed)
    head = {"experiment": name, "title": TITLES[name], "data": data.origin}
    stem = out / name
    files = [
        write_whole(stem / f"{name}.parquet", frame.write_parquet),
        write_json(stem / f"{name}.json", head | summary),
        write_json(
            stem / f"{name}.config.json", head | {"versions": provenance_versions(), "seed": seed} | summary["config"]
        ),
    ]
    return OrderBookFigure(name, head | summary, text, files)


def _figure1(data: SymbolBooks, seed: int) -> tuple[dict[str, Any], str, polars.DataFrame]:
    """Straight lines at the deepest venue, over a wide range of quantities."""
    return _fitted(
        calibrate(
            data.store,
            data.symbol,
            quantities=DEEP_QUANTITIES,
            seed=seed,
            venues=(data.deepest,),
            date=data.date,
            levels=LEVELS,
        )
    )


def _figure5(data: SymbolBooks, seed: int) -> tuple[dict[str, Any], str, polars.DataFrame]:
    """Straight lines at all venues."""
    return _fitted(calibrate(data.store, data.symbol, quantities=QUANTITIES, seed=seed, date=data.date, levels=LEVELS))


def _fitted(found: Calibration) -> tuple[dict[str, Any], str, polars.DataFrame]:
    return found.summary(), repr(found), found.to_frame()


def _table(data: SymbolBooks, seed: int) -> tuple[dict[str, Any], str, polars.DataFrame]:
    """The calibrated parameters, dark pools drawn relative to them, beside the paper's own."""
    found = calibrate(
        data.store,
        data.symbol,
        quantities=QUANTITIES,
        seed=seed,
        dark_pools=DARK_POOLS,
        date=data.date,
        levels=LEVELS,
    )
    rows = [
        {"source": source, "venue": one.name, "kind": one.kind}
        | {f"mean_{power}": one.mean[power - 1] for power in (1, 2)}
        | {f"variance_{power}": one.variance[power - 1] for power in (1, 2)}
        for source, models in (("here", found.models), ("paper", VENUES))
        for one in models
    ]
    text = f"here:\n{venue_model_table(found.models)}\n\nthe paper's:\n{venue_model_table(VENUES)}"
    return found.summary(), text, polars.DataFrame(rows)


def _figure3(data: SymbolBooks, seed: int) -> tuple[dict[str, Any], str, polars.DataFrame]:
    """The first buckets: the drawn times, the books matched with them, and one book walked."""
    recordings = data.recordings
    window = Window()
    sample_times = draw_sample_times(recordings[0].date, window, seed, recordings[0].zone)
    begin, end = int(sample_times.edges[0]), int(sample_times.edges[SHOWN_BUCKETS])
    minutes = 1 / (60 * SECOND)
    venues, rows = {}, []
    for one in recordings:
        snapshots = data.store.snapshots(one, begin, end)
        books = closest_books(snapshots, sample_times, levels=1)
        shown = books.found[:SHOWN_BUCKETS]
        stamps, mids = books.stamps[:SHOWN_BUCKETS][shown], books.mid[:SHOWN_BUCKETS][shown]
        course = _course(snapshots, begin, minutes)
        matched = (stamps - begin) * minutes
        venues[one.venue] = course | {"matched": matched.tolist(), "matched_mids": mids.tolist()}
        rows += [{"venue": one.venue, "bucket": int(k)} for k in np.flatnonzero(shown)]
    if not rows:
        raise DataError(f"no venue has books of {data.symbol} in the first {SHOWN_BUCKETS} buckets from {window.start}")
    picture = {
        "start": f"{str(window.start)[:5]} {zone_label(recordings[0].zone)}",
        "edges": ((sample_times.edges[: SHOWN_BUCKETS + 1] - begin) * minutes).tolist(),
        "times": ((sample_times.times[:SHOWN_BUCKETS] - begin) * minutes).tolist(),
        "venues": venues,
        "book": _walked(data, sample_times.times[0], begin, end),
    }
    flat = [
        row | {"minute": minute, "mid": mid}
        for row, (minute, mid) in zip(
            rows,
            [pair for one in venues.values() for pair in zip(one["matched"], one["matched_mids"], strict=True)],
            strict=True,
        )
    ]
    text = f"{len(flat)} books matched in the first {SHOWN_BUCKETS} of {window.buckets} buckets"
    config = {"symbol": data.symbol, "date": str(recordings[0].date), "buckets": window.buckets}
    return {"config": config, "picture": picture}, text, polars.DataFrame(flat)


def _course(snapshots: polars.DataFrame, begin: int, minutes: float) -> dict[str, Any]:
    """Middle price over time, at most a thousand points."""
    step = max(snapshots.height // 1000, 1)
    some = snapshots.gather_every(step)
    stamps = some["ts_event"].cast(polars.Int64).to_numpy()
    mids = ((some["bid_px_00"] + some["ask_px_00"]) / 2).to_list()
    return {"minutes": ((stamps - begin) * minutes).tolist(), "mids": mids}


def _walked(data: SymbolBooks, time: int, begin: int, end: int) -> dict[str, Any]:
    """The bids of the deepest venue at a time, and how many of them an order takes."""
    recording = next(one for one in data.recordings if one.venue == data.deepest)
    snapshots = data.store.snapshots(recording, begin, end)
    stamps = snapshots["ts_event"].cast(polars.Int64).to_numpy()
    row = int(np.abs(stamps - time).argmin())
    book = books_at(snapshots, np.array([row]), levels=LEVELS)
    prices, sizes = book.bid_px[0], book.bid_sz[0]
    shares = int(WALKED * sizes.sum())
    taken = np.clip(shares - (sizes.cumsum() - sizes), 0, sizes)
    money = float(walk_book(book.bid_px, book.bid_sz, np.array([shares]))[0, 0])
    mid = float(book.mid[0])
    return {
        "venue": recording.venue,
        "mid": mid,
        "prices": prices.tolist(),
        "sizes": sizes.tolist(),
        "taken": taken.tolist(),
        "profit": money - mid * shares,
    }
