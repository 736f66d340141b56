"""Markets for backtests: synthetic ones by name, or a folder of imported recordings.

Days are prepared once, in parallel, and cached in a folder.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from riskroute.core.errors import DataError, InputError
from riskroute.core.files import in_file_name, writable_folder
from riskroute.core.instrument import REG_NMS, Instrument
from riskroute.core.provenance import code_hash
from riskroute.core.runtime import compilation_timed
from riskroute.core.seeding import seed_stream, seeding_hash
from riskroute.core.text import one_line_text, shown
from riskroute.core.validation import instance_of, one_of, valid_function, valid_list, whole_number
from riskroute.market.day_books import DayBooks, PreparedDayBooks
from riskroute.market.day_trades import DayTrades
from riskroute.market.importing import import_files
from riskroute.market.queue_fills import QueueReplay
from riskroute.market.readers.reading import ReadingOptions
from riskroute.market.recordings import (
    EVENTS,
    SNAPSHOTS,
    Recording,
    RecordingStore,
    comparable_recordings,
    recording_in_units,
    recording_to_json,
    recordings_instrument,
)
from riskroute.market.synthetic.generate import generate_market
from riskroute.market.synthetic.venues import PRESETS
from riskroute.routing.fees import FeeSchedule, VenueFees
from riskroute.simulation.backends import Backend, run_backend_tasks
from riskroute.simulation.dark_market import DarkMarketPool

_SYNTHETIC_LEVELS = 20  # levels kept per side: all of ``comparable``, enough of ``paper`` for 5,000 shares

SYNTHETIC_DAYS = 16  # default: half of them are enough test days for a verdict

Hours = tuple[dt.time, dt.time]

_SYNTHETIC_HOURS = (dt.time(10, 30), dt.time(13, 30))  # of a synthetic day, New York

# pools of the market ``dark``: an average one, a large one that rarely fills, and a small one that often fills
_DARK_POOLS = (
    DarkMarketPool("POOL1", presence=0.30, rate=0.10, tail=1.2, smallest=100, fee=0.0010),
    DarkMarketPool("POOL2", presence=0.15, rate=0.04, tail=0.9, smallest=200, fee=0.0005),
    DarkMarketPool("POOL3", presence=0.45, rate=0.25, tail=1.6, smallest=50, fee=0.0012),
)
# synthetic markets by name, and their pools; ``dark`` is ``comparable`` with pools
MARKETS = {"paper": (), "comparable": (), "dark": _DARK_POOLS}


@dataclass(frozen=True)
class MarketDay:
    """A prepared day of a symbol, with its arrays in ``folder``.

    ``plain_fees`` are `VenueFees` as nested tuples, so that days can be compared.
    """

    instrument: Instrument
    date: dt.date
    folder: Path
    plain_fees: tuple[tuple[tuple[float, ...], ...], ...]
    pools: tuple[DarkMarketPool, ...] = ()
    synthetic: bool = False

    @property
    def symbol(self) -> str:
        """Symbol of the instrument."""
        return self.instrument.symbol

    @property
    def zone(self) -> str:
        """Time zone of the instrument."""
        return self.instrument.zone

    @property
    def protection(self) -> str:
        """Order protection of the instrument, which a backtest may override."""
        return self.instrument.protection

    def playing(self, protection: str | None) -> Instrument:
        """Return the instrument, with another order protection unless it is None."""
        return self.instrument if protection is None else replace(self.instrument, protection=protection)

    @property
    def name(self) -> str:
        """Symbol and day."""
        return f"{self.symbol} {self.date}"

    @property
    def fees(self) -> VenueFees:
        """Fees of the venues."""
        return VenueFees(*map(np.array, self.plain_fees))

    def load(self) -> PreparedDayBooks:
        """Return the prepared books, queues and trades; the day of the latest call stays in memory."""
        try:
            record = (self.folder / PreparedDayBooks.RECORD).stat()
        except OSError:
            return PreparedDayBooks.read(self.folder)  # reports what is missing
        return _loaded(self.folder, record.st_ino, record.st_mtime_ns)


def estimated_queue_venues(days: Sequence[MarketDay]) -> tuple[str, ...]:
    """Return the venues whose queue positions are estimates on any of the days, since trades have no order ids."""
    found = {venue for day in days for venue in PreparedDayBooks.record(day.folder).get("estimated", ())}
    return tuple(sorted(found))


def without_trades(days: Sequence[MarketDay]) -> tuple[MarketDay, ...]:
    """Return the days whose recordings have no public trades."""
    return tuple(day for day in days if not PreparedDayBooks.record(day.folder)["tape"])


def market_days_zone(days: Sequence[MarketDay]) -> str:
    """Return the time zone of the days; empty if they have several."""
    zones = {day.zone for day in days}
    return zones.pop() if len(zones) == 1 else ""


@lru_cache(maxsize=1)
def _loaded(folder: Path, inode: int, written: int) -> PreparedDayBooks:
    """Return a day, cached by inode and modification time, since a folder may be rewritten."""
    return PreparedDayBooks.read(folder)


@dataclass(frozen=True)
class _SyntheticDay:
    """A task that generates one day of a synthetic market as venue files, and imports these like recorded ones."""

    preset: str
    symbol: str
    date: dt.date
    seed: int
    hours: Hours
    folder: Path

    def prepare(self) -> None:
        pass

    def perform(self) -> Path:
        venues, symbol, date = PRESETS[self.preset].venues, self.symbol, self.date
        seed = int(seed_stream(self.seed, "market day", str(date)).generate_state(1)[0])
        recordings: list[Recording] = []
        with compilation_timed("market days"), tempfile.TemporaryDirectory() as place:
            scratch = Path(place)
            files = generate_market(
                scratch / "files", seed=seed, symbols=[symbol], hours=self.hours, date=date, venues=venues
            )
            for venue, path in zip(venues, files, strict=True):
                options = ReadingOptions((symbol,), _SYNTHETIC_LEVELS, date=date, venue=venue.name)
                recordings += import_files([path], scratch / "books", options)
            matching = {venue.name: venue.matching for venue in venues}
            return _prepared(RecordingStore(scratch / "books"), recordings, matching).write(self.folder)


@dataclass(frozen=True)
class _RecordedDay:
    """A task that prepares one recorded day."""

    store: RecordingStore
    recordings: tuple[Recording, ...]
    folder: Path

    def prepare(self) -> None:
        pass

    def perform(self) -> Path:
        with compilation_timed("market days"):
            return _prepared(self.store, self.recordings, {}).write(self.folder)


def _prepared(store: RecordingStore, recordings: Sequence[Recording], matching: Mapping[str, str]) -> PreparedDayBooks:
    deepest = max(one.levels for one in recordings) or None  # tables may have room for more levels than any book
    instrument = recordings_instrument(recordings)
    tables = {one.venue: recording_in_units(store.snapshots(one), instrument) for one in recordings}
    books = DayBooks.of_tables(tables, levels=deepest)
    some = [one for one in recordings if one.has_events or one.trades]
    events = {one.venue: recording_in_units(store.events(one), instrument) for one in some}
    rules = {venue: rule for venue, rule in matching.items() if venue in events}
    queue = QueueReplay(books, events, rules) if events else None
    return PreparedDayBooks(books, queue, DayTrades.of_events(events))


def _business_days(count: int, first: dt.date = dt.date(2019, 3, 4)) -> list[dt.date]:
    """Return the first ``count`` weekdays from ``first`` on.

    Examples
    --------
    >>> [str(day) for day in _business_days(6)][-2:]
    ['2019-03-08', '2019-03-11']
    """
    days: list[dt.date] = []
    day = first
    while len(days) < count:
        if day.weekday() < 5:
            days.append(day)
        day += dt.timedelta(days=1)
    return days


def market_days(
    market: str | Path,
    *,
    symbols: Sequence[str] = (),
    days: int | None = None,
    seed: int = 0,
    hours: Hours | None = None,
    kept: Path = Path("out/days"),
    fees: FeeSchedule | None = None,
    pools: Sequence[DarkMarketPool] | None = None,
    instruments: Mapping[str, Instrument] | None = None,
    backend: Backend | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[MarketDay]:
    """Return the prepared days of a market by symbol, earliest first.

    Parameters
    ----------
    market : str or Path
        A name of `MARKETS`, or a folder written by ``riskroute market import``.
    symbols : Sequence[str]
        Symbols to play. Default: the first of a synthetic market, all of a folder.
    days : int, optional
        Number of days, from the first. Default: all days of a folder, 16 synthetic ones.
    seed : int
        Seed of a synthetic market.
    hours : Hours, optional
        Hours of a synthetic day in New York, ignored for recordings. Default: `_SYNTHETIC_HOURS`.
    kept : Path
        Cache folder for prepared days.
    fees : FeeSchedule, optional
        Fees of recorded venues; refused for a synthetic market, which has its own.
    pools : Sequence[DarkMarketPool], optional
        Dark pools. Default: the pools of the market; recordings have none.
    instruments : Mapping[str, Instrument], optional
        Declared instruments by symbol, which replace the recorded ones; refused for a synthetic market.
    backend : Backend, optional
        Where to prepare days.
    progress : Callable, optional
        Called with the name of a day, the number of days done, and their total.
    """
    instance_of("market", market, (str, Path), "a name or a folder")
    kept = writable_folder("kept", kept).absolute()  # workers may have another working directory
    symbols = valid_list("symbols", [symbols] if isinstance(symbols, str) else symbols, str, "names")
    if pools is not None:
        pools = valid_list("pools", pools, DarkMarketPool, "pool models")
    for name, value, kind in (("fees", fees, FeeSchedule), ("backend", backend, Backend)):
        if value is not None:
            instance_of(name, value, kind, f"a {kind.__name__}")
    if progress is not None:
        valid_function("progress", progress)
    days = None if days is None else whole_number("days", days, maximum=10_000)
    seed = whole_number("seed", seed, minimum=0)
    if hours is not None:
        both = valid_list("hours", hours, dt.time, "two times")
        if str(market) in MARKETS and (len(both) != 2 or both[0] >= both[1]):
            raise InputError(f"hours must be two times, the second after the first, was {shown(hours)}")
    if str(market) in MARKETS:
        if fees is not None:
            raise InputError("fees cannot be given for a synthetic market, which has its own")
        if instruments:
            raise InputError("instruments cannot be given for a synthetic market, which has its own")
        tasks, found = _synthetic(str(market), symbols, days or SYNTHETIC_DAYS, seed, hours or _SYNTHETIC_HOURS, kept)
    else:
        tasks, found = _recorded(Path(market), symbols, days, kept, fees, instruments or {})
    missing = [task for task in tasks if not PreparedDayBooks.exists(task.folder)]
    done = len(tasks) - len(missing)

    def tell(task: _SyntheticDay | _RecordedDay) -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(task.folder.name, done, len(tasks))

    if missing:
        list(run_backend_tasks(missing, backend or Backend(), finished=tell))
    return found if pools is None else [replace(day, pools=tuple(pools)) for day in found]


def _synthetic(
    market: str, symbols: Sequence[str], days: int, seed: int, hours: Hours, kept: Path
) -> tuple[list[_SyntheticDay | _RecordedDay], list[MarketDay]]:
    name = "comparable" if market == "dark" else market
    preset = PRESETS[name]
    fees = [preset.fees[venue.name] for venue in preset.venues]
    rows = VenueFees.per_quantity(*zip(*fees, strict=True)).plain()
    for symbol in symbols:
        if symbol not in preset.symbols:
            raise InputError(
                f"symbol must be one of {', '.join(preset.symbols)} in the synthetic market {market}, was "
                f"{shown(symbol)}; real symbols need recordings, see `riskroute market import`"
            )
    tasks: list[_SyntheticDay | _RecordedDay] = []
    found: list[MarketDay] = []
    for symbol in symbols or preset.symbols[:1]:
        for date in _business_days(days):
            made_of = [name, symbol, str(date), seed, _SYNTHETIC_LEVELS, *map(str, hours), code_hash()]
            key = seeding_hash(made_of, 12)
            folder = kept / f"{name}-{symbol}-{date}-{key}"
            tasks.append(_SyntheticDay(name, symbol, date, seed, hours, folder))
            instrument = Instrument(symbol, protection=REG_NMS)
            found.append(MarketDay(instrument, date, folder, rows, MARKETS[market], synthetic=True))
    return tasks, found


def _recorded(
    market: Path,
    symbols: Sequence[str],
    days: int | None,
    kept: Path,
    fees: FeeSchedule | None,
    instruments: Mapping[str, Instrument],
) -> tuple[list[_SyntheticDay | _RecordedDay], list[MarketDay]]:
    if not market.is_dir():
        names = ", ".join(MARKETS)
        raise InputError(f"market must be one of {names} or a folder of `riskroute market import`, was {str(market)!r}")
    store = RecordingStore(market.absolute(), instruments)
    recordings = store.recordings()
    if not recordings:
        raise DataError(f"market must be a folder with recordings from `riskroute market import`, was {str(market)!r}")
    known = tuple(dict.fromkeys(one.symbol for one in recordings))
    tasks: list[_SyntheticDay | _RecordedDay] = []
    found: list[MarketDay] = []
    for symbol in symbols or known:
        mine = [one for one in recordings if one.symbol == one_of("symbol", symbol, known)]
        for date in sorted({one.date for one in mine})[:days]:
            some = tuple(one for one in mine if one.date == date)
            comparable_recordings(f"{symbol} on {date}", some)
            key = seeding_hash([[_content(store, one) for one in some], code_hash()], 12)
            folder = kept / f"{in_file_name(symbol)}-{date}-{key}"
            instrument = recordings_instrument(some)
            free = [0.0] * len(some)
            charged = VenueFees.per_quantity(free, free)
            if fees is not None:
                charged = fees.venue_fees([one.venue for one in some], instrument, date)
            tasks.append(_RecordedDay(store, some, folder))
            found.append(MarketDay(instrument, date, folder, charged.plain()))
    # one table of results has one protection, the weakest of its days
    least = min((day.protection for day in found), default=REG_NMS)
    return tasks, [replace(day, instrument=day.playing(least)) for day in found]


def _content(store: RecordingStore, recording: Recording) -> list[Any]:
    """Return the record of a recording and the digests of its files, which an import may replace."""
    endings = (SNAPSHOTS, EVENTS) if recording.has_events or recording.trades else (SNAPSHOTS,)
    return [
        recording_to_json(recording),
        *(_file_digest(store.folder / f"{recording.stem}{ending}") for ending in endings),
    ]


def _file_digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(
            f"{path} must be a table that `riskroute market import` wrote: {one_line_text(error)}"
        ) from error
