"""Quotes of the consolidated tape, one exchange's best bid and offer per row: NYSE Daily TAQ and WRDS extracts.

Daily TAQ is pipe-delimited, with times such as ``093000123456789`` (New York, up to nanoseconds) and a last line that
begins with ``END``. WRDS extracts are comma-separated, with a date, times such as ``9:30:00.123456789``, and the symbol
in two columns.

Sizes before 3 November 2025 are read as round lots of 100 shares; from that day on the option ``lot`` is required. A
quote that is not firm (a halt, a closed market) empties the exchange's book.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from pathlib import Path

import polars

from riskroute.core.errors import DataError, InputError, NoBooksError
from riskroute.core.validation import LONGEST_SYMBOL, is_valid_name, valid_name_rule
from riskroute.market.clock import SECOND, clock_stamp
from riskroute.market.readers.csv_files import csv_frames, csv_header, csv_member
from riskroute.market.readers.reading import (
    EXCHANGE_CODES,
    MOST_SYMBOLS,
    ReaderPart,
    ReadingOptions,
    label_reading_rows,
    reading_file_date,
    reading_snapshots,
    refuse_rows,
    require_reading_option,
    require_reading_symbols,
)

# By separator, which tells TAQ from WRDS: required columns, and our names for the columns.
_NEEDED = {
    "|": ("time", "exchange", "symbol", "bid_price", "bid_size", "offer_price", "offer_size"),
    ",": ("date", "time_m", "ex", "sym_root", "bid", "bidsiz", "ask", "asksiz"),
}
_OURS = {
    "|": {"exchange": "letter", "bid_price": "bid_px_00", "bid_size": "bid_sz_00"}
    | {"offer_price": "ask_px_00", "offer_size": "ask_sz_00", "symbol": "name"}
    | {"quote_condition": "condition", "quote_cancel_correction": "cancelled"},
    ",": {"time_m": "time", "ex": "letter", "bid": "bid_px_00", "bidsiz": "bid_sz_00"}
    | {"ask": "ask_px_00", "asksiz": "ask_sz_00", "sym_root": "name", "sym_suffix": "suffix"}
    | {"qu_cond": "condition", "qu_cancel": "cancelled"},
}
_CELLS = ("letter", "name", "suffix", "condition", "cancelled", "date", "time", "time_m_nano")
_SIDES = ("bid_px_00", "bid_sz_00", "ask_px_00", "ask_sz_00")


def _separator(lines: dict[str, list[str]]) -> str:
    """Return the separator of a TAQ or WRDS header, given its cells by separator; empty for other headers.

    >>> line = "DATE,TIME_M,EX,SYM_ROOT,BID,BIDSIZ,ASK,ASKSIZ"
    >>> _separator({mark: line.split(mark) for mark in "|,"})
    ','
    """
    marks = {"|": {"time", "exchange", "symbol"}, ",": {"time_m", "sym_root"}}
    return next((mark for mark, names in marks.items() if names <= {*map(_plain, lines[mark])}), "")


class TaqReader:
    """Yields the best bid and offer of every exchange at each of its quotes."""

    name = "taq"
    FIRM = ("", "A", "B", "C", "E", "F", "H", "O", "R", "U", "W", "Y")  # conditions of executable quotes

    @staticmethod
    def recognises(path: Path) -> bool:
        """Return whether a file begins like TAQ or WRDS quotes."""
        return bool(_separator({mark: csv_header(path, mark) for mark in _NEEDED}))

    def __init__(self, path: Path, options: ReadingOptions) -> None:
        self.source, self.options, self.depth = path, options, 1
        self._member = csv_member(path)
        heads = {mark: csv_header(path, mark) for mark in _NEEDED}
        self._mark = _separator(heads) or ("|" if len(heads["|"]) > len(heads[","]) else ",")
        self._header = heads[self._mark]
        known = {_plain(name): name for name in self._header}
        missing = [name for name in _NEEDED[self._mark] if name not in known]
        if missing:
            raise NoBooksError(f"{path} lacks columns {', '.join(missing)} of quotes; it has {', '.join(self._header)}")
        ours = _OURS[self._mark]
        self._names = {known[name]: ours.get(name, name) for name in known if name in ours or name in _CELLS}
        self._best_only = bool({"best_bid_price", "best_bid"} & set(known))
        self._wanted = {symbol.replace(" ", "."): symbol for symbol in options.symbols}
        self.date = self._day()
        change = dt.date(2025, 11, 3)  # first day on which round lots depend on the price
        if options.lot is None and self.date >= change:
            raise InputError(
                f"{path.name!r} of {self.date} needs a lot: from {change} on round lots depend on the price; "
                "give lot (1 for sizes in shares)"
            )
        self._lot = options.lot or 100
        self._latest: dict[tuple[str, str], int] = {}
        self._rows, self._end = 0, ""
        self._sizes = self._hundreds = 0
        self._left_out = {"finra": 0, "other_days": 0, "best_only": int(self._best_only)}

    def _day(self) -> dt.date:
        day = self.options.date or reading_file_date(self._member) or reading_file_date(self.source.name)
        if self._mark == "," and self.options.date is None:
            for frame in self._frames():
                day = _dates(frame["date"].head(1), self.source)[0]
                break
        return require_reading_option("date", day, self.source.name)

    def _frames(self) -> Iterator[polars.DataFrame]:
        import pyarrow

        def ends(text: str) -> bool:
            self._end = text if text.startswith("END") else ""
            return bool(self._end)

        types = dict.fromkeys(self._header, pyarrow.string())
        found = csv_frames(self.source, self._member, types, header=True, separator=self._mark, skips=ends)
        for frame in found:
            missing = set(self._names) - set(frame.columns)
            if missing:
                raise DataError(f"{self.source} lacks columns {', '.join(missing)}; it has {', '.join(frame.columns)}")
            table = frame.select(polars.col(theirs).alias(ours) for theirs, ours in self._names.items())
            absent = [polars.lit("").alias(name) for name in _CELLS if name not in table.columns]
            texts = [polars.col(name).fill_null("").str.strip_chars() for name in table.columns]
            yield table.with_columns(texts).with_columns(absent)

    def parts(self) -> Iterator[ReaderPart]:
        """Yield a part per exchange, symbol and chunk of the file."""
        seen: dict[str, None] = {}
        for frame in self._frames():
            table = frame.with_row_index("sequence", self._rows + 1)
            last = table.filter(polars.col("time") == "END")
            if last.height:
                self._end = "|".join(["END", last["letter"][0], last["name"][0]])
                table = table.filter(polars.col("time") != "END")
            self._rows += table.height
            # Root and suffix are joined by a dot, whichever way the file writes them.
            suffix = polars.when(polars.col("suffix") != "").then("." + polars.col("suffix")).otherwise(polars.lit(""))
            symbol = (polars.col("name") + suffix).str.to_uppercase().str.replace_all(r"\s+", ".")
            named = table.with_columns(symbol=symbol)
            seen |= dict.fromkeys(named["symbol"].unique(maintain_order=True))
            yield from self._venues(self._chosen(named, len(seen)))
        require_reading_symbols(self._wanted, seen, self.source.name)
        yield from self._ended()

    def _chosen(self, table: polars.DataFrame, symbols: int) -> polars.DataFrame:
        """Return the rows of the requested symbols; default: all rows, refused beyond `MOST_SYMBOLS` symbols."""
        if self._wanted:
            return table.filter(polars.col("symbol").is_in(list(self._wanted)))
        if symbols > MOST_SYMBOLS:
            raise InputError(f"{self.source.name} has more than {MOST_SYMBOLS} symbols; give symbol")
        for symbol in table["symbol"].unique(maintain_order=True):
            if not is_valid_name(symbol, longest=LONGEST_SYMBOL):
                row = table.filter(polars.col("symbol") == symbol)["sequence"][0]
                rule = valid_name_rule(LONGEST_SYMBOL)
                raise DataError(f"row {row:,} of {self.source.name}: symbol must be {rule}, was {symbol!r}")
        return table

    def _venues(self, table: polars.DataFrame) -> Iterator[ReaderPart]:
        letters = [*EXCHANGE_CODES, "D"]
        expected = f"an exchange code of {''.join(letters)}"
        refuse_rows(table, ~polars.col("letter").is_in(letters), expected, self.source, "letter")
        table = self._of_day(table)
        self._left_out["finra"] += table.filter(polars.col("letter") == "D").height
        table = table.filter(polars.col("letter") != "D").with_columns(
            polars.col("letter").replace_strict(EXCHANGE_CODES, return_dtype=polars.String).alias("mic")
        )
        for (venue, symbol), rows in table.group_by(["mic", "symbol"], maintain_order=True):
            yield self._part(str(venue), str(symbol), rows)

    def _of_day(self, table: polars.DataFrame) -> polars.DataFrame:
        """Return the rows of the day; a file of several days needs the option ``date``."""
        if self._mark == "|" or not table.height:
            return table
        strange = polars.Series(_dates(table["date"], self.source)) != self.date
        if strange.any() and self.options.date is None:
            number, day = table.filter(strange).select("sequence", "date").row(0)
            raise InputError(
                f"{self.source.name} has several days: it begins on {self.date}, and row {number:,} is dated {day}; "
                "give date"
            )
        self._left_out["other_days"] += int(strange.sum())
        return table.filter(~strange)

    def _part(self, venue: str, symbol: str, rows: polars.DataFrame) -> ReaderPart:
        rows = rows.with_columns(self._stamps(rows))
        before = polars.col("stamp").shift(1).fill_null(self._latest.get((venue, symbol), 0))
        refuse_rows(
            rows, polars.col("stamp") < before, "a time not before that of the previous row", self.source, "time"
        )
        self._latest[venue, symbol] = int(rows["stamp"][-1])
        gone = polars.col("cancelled") == "B"
        cancelled, rows = rows.filter(gone).height, rows.filter(~gone)
        numbers = [polars.col(name).cast(polars.Float64, strict=False).alias(f"{name}_number") for name in _SIDES]
        rows = rows.with_columns(numbers)
        for name in _SIDES:
            number = polars.col(f"{name}_number")
            whole = "a number of 0 or more" if "_px_" in name else "a whole number of lots"
            odd = number.is_null() | ~number.is_finite() | (number < 0)
            odd |= (number % 1 != 0) if "_sz_" in name else polars.lit(False)
            theirs = next(theirs for theirs, ours in self._names.items() if ours == name)
            refuse_rows(rows, odd & (polars.col(name) != ""), f"{whole} in {theirs}", self.source, name)
        firm = polars.col("condition").is_in(self.FIRM)
        sizes = rows.filter(firm).select("bid_sz_00_number", "ask_sz_00_number").fill_null(0)
        shown = polars.concat([sizes.to_series(k).alias("size") for k in range(2)])
        self._sizes += int((shown > 0).sum())
        self._hundreds += int(((shown > 0) & (shown % 100 == 0)).sum())
        books = rows.select(
            "sequence",
            polars.col("stamp").cast(polars.Datetime("ns", "UTC")).alias("ts_event"),
            *(
                polars.when(firm).then(polars.col(f"{name}_number").fill_null(0)).otherwise(0).alias(name)
                for name in _SIDES
            ),
        ).with_columns(polars.col("bid_sz_00", "ask_sz_00") * self._lot)
        kept = reading_snapshots(label_reading_rows(books, venue, symbol), 1, source=self.source.name)
        notes = {"cancelled_quotes": cancelled, "not_firm": rows.filter(~firm).height}
        notes["lots_of_100"] = kept.height if self._lot == 100 and self.options.lot is None else 0
        return ReaderPart(venue, symbol, kept, notes={name: n for name, n in notes.items() if n})

    def _stamps(self, rows: polars.DataFrame) -> polars.Series:
        """Convert New York times to UTC nanoseconds."""
        pattern = (
            r"^(\d{2})(\d{2})(\d{2})(\d*)$" if self._mark == "|" else r"^(\d{1,2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?$"
        )
        found = rows["time"].str.extract_groups(pattern).struct.unnest()
        hours, minutes, seconds = (found.to_series(k).cast(polars.Int64, strict=False) for k in range(3))
        digits = (3, 6, 9) if self._mark == "|" else range(1, 10)
        fraction = found.to_series(3).fill_null("")
        nanoseconds = fraction.str.pad_end(9, "0").cast(polars.Int64, strict=False)
        extra = rows["time_m_nano"].replace("", "0").cast(polars.Float64, strict=False).cast(polars.Int64, strict=False)
        valid = (hours < 24) & (minutes < 60) & (seconds < 60) & fraction.str.len_chars().is_in([0, *digits])
        valid &= extra.is_between(0, 999)
        form = "093000123456789" if self._mark == "|" else "9:30:00.123456789"
        rows = rows.with_columns(valid=valid)
        refuse_rows(rows, ~polars.col("valid"), f"a time such as {form}", self.source, "time")
        total = ((hours * 60 + minutes) * 60 + seconds) * SECOND + nanoseconds + extra
        return (total + clock_stamp(self.date, dt.time(0))).alias("stamp")

    def _ended(self) -> Iterator[ReaderPart]:
        """Check the date and rows of the END line and the unit of sizes; yield the notes on the file."""
        notes = {name: n for name, n in self._left_out.items() if n}
        if not self._latest:
            raise DataError(f"{self.source} has no quotes of {self.date}")
        if self._sizes >= 200 and self._hundreds == self._sizes and self._lot > 1:
            raise DataError(
                f"{self.source}: all sizes are multiples of 100, so they are shares, not lots of {self._lot}; "
                "give lot = 1"
            )
        cells = self._end.split("|")
        if self._mark == "|" and cells[0] != "END":
            notes["no_last_line"] = 1
        elif self._mark == "|":
            day = reading_file_date(cells[1]) if len(cells) > 1 else None
            if day not in (None, self.date):
                raise DataError(f"{self.source} must be dated {self.date}, was {day} by its END line")
            if len(cells) > 2 and cells[2].strip().isdecimal() and int(cells[2]) != self._rows:
                raise DataError(f"{self.source} must have {int(cells[2]):,} rows by its END line, was {self._rows:,}")
        for venue, symbol in self._latest:
            yield ReaderPart(venue, symbol, polars.DataFrame(schema={"ts_event": polars.Int64}), notes=dict(notes))


def _plain(name: str) -> str:
    return re.sub(r"\W+", "_", name.strip().lower())


def _dates(column: polars.Series, source: Path) -> list[dt.date]:
    """Parse dates such as 2018-01-02, 20180102 or 02JAN2018."""
    days: dict[str, dt.date] = {}
    for text in column.unique():
        for form in ("%Y-%m-%d", "%Y%m%d", "%d%b%Y"):
            try:
                days[text] = dt.datetime.strptime(text, form).date()
                break
            except ValueError:
                continue
        else:
            raise DataError(f"{source}: date must be like 2018-01-02, 20180102 or 02JAN2018, was {text!r}")
    return [days[text] for text in column]
