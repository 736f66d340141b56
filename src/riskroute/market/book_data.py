"""Recorded books of one symbol: from a folder of the user's, or of a synthetic market that is made on the way."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from pathlib import Path

from riskroute.core.errors import DataError
from riskroute.core.validation import one_of, whole_number
from riskroute.market.importing import import_files
from riskroute.market.readers.reading import ImportOptions
from riskroute.market.store import Recording, Store
from riskroute.market.synthetic.generate import DEFAULT_SYMBOLS, generate_market

_WARMING = dt.timedelta(minutes=10)  # before the hours that are looked at: books begin empty


@dataclass(frozen=True)
class BookData:
    """Recorded books of one symbol, and where they come from in words."""

    store: Store
    symbol: str
    origin: str
    date: dt.date | None = None

    @property
    def recordings(self) -> list[Recording]:
        """One per venue."""
        return self.store.of_symbol(self.symbol, self.date)

    @property
    def deepest(self) -> str:
        """The venue with the most books."""
        return max(self.recordings, key=lambda one: one.snapshots).venue


def book_data(
    data: Path | None,
    symbol: str | None,
    out: Path,
    seed: int,
    *,
    depth: int | None = None,
    hours: tuple[dt.time, dt.time] = (dt.time(11), dt.time(13)),
    date: dt.date | None = None,
) -> BookData:
    """Recorded books in ``data``; if None, a synthetic market of ``hours`` is made and imported below ``out``.

    ``depth`` levels of that market are kept, all if None.
    """
    whole_number("seed", seed, minimum=0)
    if data is not None:
        store = Store(data)
        symbols = tuple(dict.fromkeys(one.symbol for one in store.recordings()))
        if not symbols:
            raise DataError(f"data must be a folder of `riskroute market import`, was {str(data)!r} without recordings")
        chosen = symbol.upper() if symbol is not None else symbols[0] if len(symbols) == 1 else ""
        return BookData(store, one_of("symbol", chosen, symbols), f"{chosen} in {data}", date)
    name = symbol.upper() if symbol is not None else DEFAULT_SYMBOLS[0]
    opening = dt.datetime.combine(dt.date(2000, 1, 1), hours[0])
    earlier = max(opening - _WARMING, dt.datetime.combine(opening.date(), dt.time.min)).time()
    files = generate_market(out / "market", seed=seed, symbols=(name,), hours=(earlier, hours[1]))
    import_files(files, out / "market" / "books", ImportOptions((name,), depth=depth))
    return BookData(Store(out / "market" / "books"), name, f"{name} of the synthetic market, seed {seed}")
