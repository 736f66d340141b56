"""A synthetic market: correlated stocks on three venues of different characters, written as NASDAQ ITCH 5.0 files.

Prices follow one fundamental price per stock, the same for all venues but for a little noise; spreads wander around the
level of their venue. Everything follows from the seed and from names: a stock has the same orders whatever other stocks
or venues are made with it.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from riskroute.arrays import Floats, Integers
from riskroute.errors import InputError, shown
from riskroute.files import write_whole
from riskroute.market.clock import SECOND, clock_stamp
from riskroute.market.readers.itch_messages import (
    ItchOrderMessages,
    encode_itch_messages,
    itch_stock_directory_message,
    itch_system_event_message,
    itch_trading_begins_message,
)
from riskroute.market.synthetic import order_flow as flow
from riskroute.market.synthetic.venues import DEFAULT_VENUES, REFERENCE_PRICE, SyntheticVenue
from riskroute.seeding import seed_stream
from riskroute.validation import function_of, path_of, real_number, whole_number

DEFAULT_SYMBOLS = ("QVEX", "ZORN", "XALT")
_KNOWN_PRICES = {"QVEX": 270.0, "ZORN": 112.0, "XALT": 64.0}

TICK = 0.01
_TICK_UNITS = 100
_STEP = SECOND // 4
_VOLATILITY = 4e-5  # per square root of a second: 0.6 % in a day
_COMMON_SHARE = 0.6  # of the variance of prices
_SPREAD_MEMORY, _NOISE_MEMORY = 120.0, 30.0  # seconds
_NOISE = 0.005  # dollars at the reference price
_OPENING, _CLOSING = 9.5 * 3600, 16.0 * 3600  # seconds of the day
_LEAST_DEVIATION = 0.2  # ticks: a spread that never changed would leave nothing to estimate
_BLOCK = 1 << 17
_MEMBERS = np.array([b"MKRA", b"MKRB", b"MKRC", b"MKRD"])

Progress = Callable[[str, int, int], None]


def generate_market(
    out: str | os.PathLike[str],
    *,
    seed: int = 0,
    symbols: Sequence[str] = DEFAULT_SYMBOLS,
    hours: tuple[dt.time, dt.time] = (dt.time(10, 30), dt.time(13, 30)),
    date: dt.date = dt.date(2019, 3, 27),
    rate: float = 1.0,
    venues: Sequence[SyntheticVenue] = DEFAULT_VENUES,
    progress: Progress | None = None,
) -> list[Path]:
    """Write a market into the folder ``out``, one file per venue; their paths.

    Parameters
    ----------
    symbols : Sequence[str]
        Names of stocks. One that is not known gets a price of its own, which depends on ``seed`` and its name.
    hours : tuple[dt.time, dt.time]
        First and last moment, New York time; books are empty at the first.
    rate : float
        Multiplies the number of messages.
    progress : Progress, optional
        Called with venue and symbol, number of these done and of all.
    """
    names = _checked(seed, symbols, hours, date, venues)
    if progress is not None:
        function_of("progress", progress)
    scaled = real_number("rate", rate, minimum=0.001, maximum=100)
    midnight = clock_stamp(date, dt.time(0))
    begin, end = (clock_stamp(date, moment) - midnight for moment in hours)
    folder = _folder(out)
    paths = []
    for done, venue in enumerate(venues):
        parts = []
        for symbol in names:
            parts.append(_messages(seed, venue, symbol, begin, end, scaled))
            if progress is not None:
                progress(f"{venue.name} {symbol}", done * len(names) + len(parts), len(venues) * len(names))
        blocks = _file(names, parts, begin, end)
        paths.append(write_whole(folder / date.strftime(venue.file_name), partial(_write, blocks)))
    return paths


def _checked(
    seed: int,
    symbols: Sequence[str],
    hours: tuple[dt.time, dt.time],
    date: dt.date,
    venues: Sequence[SyntheticVenue],
) -> tuple[str, ...]:
    whole_number("seed", seed, minimum=0)
    names = (symbols,) if isinstance(symbols, str) or not isinstance(symbols, Sequence) else tuple(symbols)
    for name in names:
        if not (isinstance(name, str) and re.fullmatch("[A-Z0-9.]{1,8}", name)):
            raise InputError(f"symbols must have 1 to 8 capital letters, digits or dots each, was {shown(name)}")
    if not names or len(set(names)) < len(names) or len(names) > 1000:
        raise InputError(f"symbols must be 1 to 1,000 different names, was {list(names)}")
    moments = tuple(hours) if isinstance(hours, Sequence) else ()
    plain = len(moments) == 2 and all(isinstance(moment, dt.time) and moment.tzinfo is None for moment in moments)
    if not (plain and moments[0] < moments[1]):
        raise InputError(f"hours must be a time and a later one, New York, was {shown(hours)}")
    if not isinstance(date, dt.date) or not 1970 < date.year < 2200:
        raise InputError(f"date must be a day from 1971 to 2199, was {shown(date)}")
    some = isinstance(venues, Sequence) and len(venues) > 0
    if not (some and all(isinstance(venue, SyntheticVenue) for venue in venues)):
        raise InputError(f"venues must be one or more of SyntheticVenue, was {shown(venues)}")
    for field, values in (
        ("name", [venue.name for venue in venues]),
        ("file_name", [date.strftime(venue.file_name) for venue in venues]),
    ):
        if len(set(values)) < len(values):
            raise InputError(f"venues must differ in {field}, was {values}")
    return names


def _folder(out: str | os.PathLike[str]) -> Path:
    folder = path_of("out", out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"out must be a folder that can be written to, was {out!r}") from error
    return folder


def fundamental_price(seed: int, symbol: str, steps: int) -> Floats:
    """Price of a stock in dollars, ``(steps,)``, four a second: a factor common to all stocks, and one of its own."""
    common, own = (
        np.random.default_rng(seed_stream(seed, "synthetic price", name)).standard_normal(steps)
        for name in ("", symbol)
    )
    moves = math.sqrt(_COMMON_SHARE) * common + math.sqrt(1 - _COMMON_SHARE) * own
    level = np.random.default_rng(seed_stream(seed, "synthetic level", symbol)).uniform(math.log(40), math.log(400))
    start = _KNOWN_PRICES.get(symbol, math.exp(level))
    return np.asarray(start * np.exp(_VOLATILITY * math.sqrt(_STEP / SECOND) * (np.cumsum(moves) - moves[0])))


def _wandering(rng: np.random.Generator, steps: int, memory: float) -> Floats:
    """A stationary path ``(steps,)`` of mean 0 and variance 1 that forgets within ``memory`` seconds."""
    kept = math.exp(-_STEP / SECOND / memory)
    shocks = rng.standard_normal(steps) * math.sqrt(1 - kept * kept)
    shocks[0] /= math.sqrt(1 - kept * kept)
    return np.array(list(itertools.accumulate(shocks.tolist(), lambda before, shock: kept * before + shock)))


def followed(values: Floats, patience: float) -> Integers:
    """Whole numbers that follow ``values``: they move, to the nearest, when they are off by more than ``patience``.

    Examples
    --------
    >>> followed(np.array([5.2, 5.9, 6.6, 6.1, 5.7]), 1.0).tolist()
    [5, 5, 7, 7, 6]
    """
    now, path = round(values[0]), []
    for value in values.tolist():
        if abs(value - now) > patience:
            now = round(value)
        path.append(now)
    return np.array(path, dtype=np.int64)


def target_quotes(seed: int, venue: SyntheticVenue, symbol: str, steps: int) -> Integers:
    """Best bid and best ask in ticks that a venue shows, ``(steps, 2)``, four a second."""
    price = fundamental_price(seed, symbol, steps)
    scale = price[0] / REFERENCE_PRICE / TICK
    noise, spread = (
        np.random.default_rng(seed_stream(seed, f"synthetic {part}", venue.name, symbol))
        for part in ("noise", "spread")
    )
    middle = price / TICK + scale * _NOISE * _wandering(noise, steps, _NOISE_MEMORY)
    level, deviation = scale * venue.half_spread, max(scale * venue.spread_deviation, _LEAST_DEVIATION)
    log_variance = math.log1p((deviation / level) ** 2)
    logs = math.sqrt(log_variance) * _wandering(spread, steps, _SPREAD_MEMORY) - log_variance / 2
    wanted = 2 * level * np.exp(logs)
    center = followed(middle, max(scale * venue.price_patience, 0.5))
    width = followed(wanted, max(scale * venue.spread_patience, 0.5))
    width = np.maximum(width, 1)
    bid = center - (width + 1) // 2
    return np.column_stack([bid, bid + width])


def _messages(seed: int, venue: SyntheticVenue, symbol: str, begin: int, end: int, rate: float) -> Integers:
    quotes = target_quotes(seed, venue, symbol, -(-(end - begin) // _STEP))
    character = flow.FlowCharacter(
        gap=SECOND / (venue.events_per_second * rate),
        orders=venue.orders,
        lot=venue.lot,
        top_size=venue.top_size,
        top_share=float(venue.top_share),
        reach=float(venue.reach),
        furthest=int(20 * venue.reach),
        takers=float(venue.takers),
        hidden=float(venue.hidden),
        partial=float(venue.partial),
        replaced=float(venue.replaced),
        moved=float(venue.moved),
        sweep=float(venue.sweep),
        pro_rata=venue.matching == "pro-rata",
    )
    rng = np.random.default_rng(seed_stream(seed, "synthetic flow", venue.name, symbol))
    rows: Integers = flow.simulate_compiled(rng, character, quotes, begin, end, _STEP)
    return rows


def _write(blocks: Iterator[bytes], path: Path) -> None:
    with path.open("wb") as file:
        file.writelines(blocks)


def _file(symbols: Sequence[str], parts: list[Integers], begin: int, end: int) -> Iterator[bytes]:
    """Blocks of a file: what a day begins with, the messages of all symbols by time, and what it ends with.

    ``parts`` is emptied on the way, to hold nothing twice.
    """
    yield itch_system_event_message(begin, "O")
    yield from (itch_stock_directory_message(begin, locate, symbol) for locate, symbol in enumerate(symbols, 1))
    yield itch_system_event_message(begin, "S")
    yield from (itch_trading_begins_message(begin, locate, symbol) for locate, symbol in enumerate(symbols, 1))
    locates = np.repeat(np.arange(1, len(parts) + 1), [len(part) for part in parts])
    rows = np.concatenate(parts)
    parts.clear()
    order = np.argsort(rows[:, flow.TIME], kind="stable")
    rows, locates = rows[order], locates[order]
    opening, closing = int(_OPENING * SECOND), min(max(int(_CLOSING * SECOND), begin), end)
    first, last = np.searchsorted(rows[:, flow.TIME], [opening, closing])
    encoded = partial(_blocks, rows, locates, _references(rows, locates), _matches(rows), np.array(symbols, dtype="S8"))
    yield from encoded(0, first)
    if begin <= opening < end:
        yield itch_system_event_message(opening, "Q")
    yield from encoded(first, last)
    yield itch_system_event_message(closing, "M")
    yield from encoded(last, len(rows))
    yield from (itch_system_event_message(end, event) for event in "EC")


def _references(rows: Integers, locates: Integers) -> Integers:
    """Reference numbers of the orders that messages are about and replace, ``(n, 2)``, 0 where there is none.

    Orders are numbered through the file as they come.
    """
    created = np.flatnonzero(np.isin(rows[:, flow.KIND], (flow.ADD, flow.ATTRIBUTED, flow.REPLACE)))
    found = np.zeros((len(rows), 2), dtype=np.int64)
    for locate in range(1, locates.max(initial=0) + 1):
        references = 1 + np.flatnonzero(locates[created] == locate)
        mine = np.flatnonzero(locates == locate)
        for column, field in enumerate((flow.ORDER, flow.OLD)):
            wanted = rows[mine, field]
            found[mine, column] = np.where(wanted >= 0, references[wanted], 0)
    return found


def _matches(rows: Integers) -> Integers:
    """Match numbers ``(n,)``: trades are counted through the file."""
    return np.cumsum(np.isin(rows[:, flow.KIND], (flow.EXECUTE, flow.EXECUTE_AT, flow.TRADE)))


def _blocks(
    rows: Integers,
    locates: Integers,
    references: Integers,
    matches: Integers,
    stocks: NDArray[np.bytes_],
    first: int,
    last: int,
) -> Iterator[bytes]:
    for begin in range(first, last, _BLOCK):
        some = slice(begin, min(begin + _BLOCK, last))
        yield encode_itch_messages(
            ItchOrderMessages(
                time=rows[some, flow.TIME],
                kind=rows[some, flow.KIND],
                locate=locates[some],
                side=rows[some, flow.SIDE],
                price=rows[some, flow.PRICE] * _TICK_UNITS,
                shares=rows[some, flow.SIZE],
                reference=references[some, 0],
                old_reference=references[some, 1],
                match=matches[some],
                stock=stocks[locates[some] - 1],
                attribution=_MEMBERS[references[some, 0] % len(_MEMBERS)],
            )
        )
