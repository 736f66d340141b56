"""Which column of a table holds what: names that are known, names that are told one by one or as a pattern."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping, Sequence

from riskroute.core.errors import DataError, InputError, one_line_error, shown
from riskroute.core.validation import path_of
from riskroute.market.readers.reading import MOST_LEVELS
from riskroute.market.schema import LEVEL_FIELDS, schema_level_columns

ALIASES = {
    "ts_event": ("timestamp", "time", "datetime", "ts"),
    "venue": ("exchange", "mic"),
    "symbol": ("ticker", "sym"),
    "bid_px_00": ("bid", "bid_price", "best_bid"),
    "bid_sz_00": ("bid_size", "bid_qty", "bid_volume"),
    "ask_px_00": ("ask", "ask_price", "best_ask", "offer"),
    "ask_sz_00": ("ask_size", "ask_qty", "ask_volume", "offer_size"),
}
"""Other names of columns that are understood without being told, in upper or lower case."""

TARDIS_LEVELS = {
    "bid_px_{}": "bids[{}].price",
    "bid_sz_{}": "bids[{}].amount",
    "ask_px_{}": "asks[{}].price",
    "ask_sz_{}": "asks[{}].amount",
}
"""Columns of Tardis' ``book_snapshot`` tables; their rows are in the order of ``local_timestamp``."""

PATTERNS = tuple(f"{field}_{{}}" for field in LEVEL_FIELDS)
"""Names of ours that stand for all levels."""

_LEVELS = schema_level_columns(MOST_LEVELS + 1)  # one more than can be kept, to see that there is one
_PLACES = {name: place for place, name in enumerate(dict.fromkeys([*ALIASES, *_LEVELS]))}


def is_tardis_table(given: Sequence[str]) -> bool:
    """Whether the columns are those of a Tardis ``book_snapshot`` table."""
    return {TARDIS_LEVELS[name].format(0) for name in PATTERNS} <= set(given)


def table_columns(given: Sequence[str], told: Mapping[str, str]) -> dict[str, str]:
    """Our names to those of a table, for the columns that are there; what is told wins over what is known.

    Examples
    --------
    >>> table_columns(["Time", "BP1", "BP2"], {"bid_px_{}": "BP{}"})
    {'ts_event': 'Time', 'bid_px_00': 'BP1', 'bid_px_01': 'BP2'}
    """
    lower = {name.lower(): name for name in given}
    found = {}
    for name in [*ALIASES, *(lower.keys() & _PLACES.keys())]:
        candidates = [lower[alias] for alias in (name, *ALIASES.get(name, ())) if alias in lower]
        if candidates:
            found[name] = candidates[0]
    if is_tardis_table(given):
        found |= _expanded(given, TARDIS_LEVELS)
        found |= {"ts_event": "local_timestamp"} if "local_timestamp" in given else {}
    patterns = {ours: theirs for ours, theirs in told.items() if "{}" in ours or "{}" in theirs}
    found |= _expanded(given, patterns)
    for name, theirs in told.items():
        if name in patterns:
            continue
        if name not in _PLACES:
            raise InputError(
                f"column must be one of ts_event, venue, symbol, bid_px_00, ... or bid_px_{{}}, ..., was {name!r}"
            )
        if theirs not in given:
            raise InputError(f"column {name} must be one of {', '.join(given)}, was {theirs!r}")
        found[name] = theirs
    return dict(sorted(found.items(), key=lambda pair: _PLACES[pair[0]]))


def _expanded(given: Sequence[str], patterns: Mapping[str, str]) -> dict[str, str]:
    """Patterns as columns, level by level; theirs may count from 0 or from 1, all of them alike."""
    numbered: dict[str, dict[int, str]] = {}
    for ours, theirs in patterns.items():
        if ours not in PATTERNS or theirs.count("{}") != 1:
            expected = f"one of {', '.join(PATTERNS)}, and theirs a name with one {{}} for the level"
            raise InputError(f"column with a pattern must be {expected}, was {ours}={theirs}")
        before, after = map(re.escape, theirs.split("{}"))
        matches = [re.fullmatch(rf"{before}([0-9]{{1,4}}){after}", name) for name in given]
        numbered[ours] = {int(match[1]): match[0] for match in matches if match is not None}
        if not numbered[ours]:
            raise InputError(f"column {ours} must fit some of {', '.join(given)}, was {theirs!r}")
    first = min((min(levels) for levels in numbered.values()), default=0)
    if first > 1:
        raise InputError(f"levels of a pattern must count from 0 or from 1, was {first} in {patterns}")
    names = {
        f"{ours[:-2]}{number - first:02d}": theirs
        for ours, levels in numbered.items()
        for number, theirs in levels.items()
    }
    return {name: theirs for name, theirs in names.items() if name in _PLACES}


def load_columns(path: str | os.PathLike[str]) -> dict[str, str]:
    """Read our names for columns and those of a table from a TOML or a JSON file of ``ours = "theirs"``."""
    file = path_of("columns", path)
    ending = file.suffix.lower()
    if ending not in (".toml", ".json"):
        raise InputError(f"columns must be a .toml or .json file, was {str(file)!r}")
    try:
        text = file.read_text(encoding="utf-8")
        names = tomllib.loads(text) if ending == ".toml" else json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{file} must be a {ending[1:].upper()} file of names: {one_line_error(error)}") from error
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise DataError(f'{file} must hold names as bid_px_00 = "BestBid" and nothing else, was {shown(names)}')
    return names
