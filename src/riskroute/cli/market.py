"""The commands on market data: ``market generate``, ``import``, ``inspect`` and ``calibrate``."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from riskroute.cli import options
from riskroute.cli.options import date_option
from riskroute.cli.output import check_output_paths, output_status, say, show_progress
from riskroute.core.errors import DataError, InputError, RiskrouteError
from riskroute.core.files import write_json, write_whole
from riskroute.core.instrument import instrument_from_plain
from riskroute.core.runtime import compilation_timed, require_extra
from riskroute.core.text import TextTable
from riskroute.core.validation import one_of, valid_decimal

if TYPE_CHECKING:
    from riskroute.market.calibration import Calibration
    from riskroute.market.dark_pools import DarkPool

market = typer.Typer(no_args_is_help=True, help="Generate, import and inspect market data; calibrate venue models.")

DateOption = Annotated[str | None, typer.Option(help="Day, for example 2019-03-27.")]


@market.command("generate")
def _generate(
    out: Annotated[Path, typer.Option(help="Folder for the files, one per venue.")] = Path("out/market"),
    seed: Annotated[int, typer.Option(help="Seed of the whole market.")] = 0,
    symbols: Annotated[str | None, typer.Option(help="Comma-separated symbols; default: three invented ones.")] = None,
    hours: Annotated[str, typer.Option(help="Trading hours in New York time, FIRST-LAST.")] = "10:30-13:30",
    rate: Annotated[float, typer.Option(help="Multiplier of the message rate.")] = 1.0,
) -> None:
    """Generate a synthetic market: order flow at three venues, written as NASDAQ ITCH 5.0 files.

    XNAS is deep and matches by price and time, XPSX is thin and matches pro rata, XBOS has inverted fees.
    Example:

    riskroute market generate --out out/market --symbols ACME,BOLT --hours 10:45-13:15
    """
    check_output_paths({"--out": out / "x"})
    require_market_command()
    from riskroute.market.synthetic.generate import DEFAULT_SYMBOLS, generate_market
    from riskroute.market.synthetic.venues import DEFAULT_VENUES

    names = tuple(symbols.replace(",", " ").split()) if symbols is not None else DEFAULT_SYMBOLS
    with compilation_timed("the order flow"), show_progress(len(DEFAULT_VENUES) * len(names), "symbols") as progress:
        files = generate_market(
            out, seed=seed, symbols=names, hours=_hours("--hours", hours), rate=rate, progress=progress
        )
    for path in files:
        say(f"wrote {path} ({path.stat().st_size / 1e6:.1f} MB)")


@market.command("import")
def _import(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Files or folders: ITCH 5.0, LOBSTER, Databento, TAQ or WRDS quotes, ticks, book updates, tables."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder for the recordings.")] = Path("out/books"),
    symbol: Annotated[
        list[str] | None,
        typer.Option(help="Symbol to import, or OLD=NEW to import it under another name; repeat for more."),
    ] = None,
    depth: Annotated[
        int | None,
        typer.Option(help="Levels per side to keep, at most 50 for ITCH and mbo; default: all, 50 for updates."),
    ] = None,
    hours: Annotated[str | None, typer.Option(help="Hours of every day to import, FIRST-LAST; default: all.")] = None,
    date: DateOption = None,
    venue: Annotated[
        list[str] | None,
        typer.Option(help="Venue name, for example XNAS, or OLD=NEW in a file with several venues; repeat for more."),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(help="itch, lobster, ticks, databento, taq, deltas, iex, table or trades; default: detected."),
    ] = None,
    lot: Annotated[
        int | None, typer.Option(help="For TAQ and WRDS: shares per unit of size; 100 for days before 2025-11-03.")
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(help="For tables: OURS=THEIRS, for example bid_px_00=BestBid or bid_px_{}=BP{}; repeat for more."),
    ] = None,
    columns: Annotated[Path | None, typer.Option(help="Column names from a .toml or .json file.")] = None,
    instruments: Annotated[
        Path | None, typer.Option(help="Instruments by symbol (.toml): unit, tick, session, ...; default: derived.")
    ] = None,
    zone: Annotated[
        str | None, typer.Option(help="Time zone of days and hours; default: America/New_York, or UTC for crypto.")
    ] = None,
    max_unresolved: Annotated[
        float, typer.Option(help="Largest accepted fraction of references to orders not in the file.")
    ] = 0.01,
    max_crossed: Annotated[
        float, typer.Option(help="Largest accepted fraction of books with the bid at or above the ask.")
    ] = 0.01,
) -> None:
    """Import market data of any supported format as tables of book snapshots, and of events if recorded.

    Venue, day and symbol are taken from the file names where possible. Files in a folder that hold no books are
    skipped and listed.
    Example:

    riskroute market import 12302019.NASDAQ_ITCH50.gz 20191230.BX_ITCH_50.gz --symbol AAPL --out out/books
    """
    check_output_paths({"--out": out / "x"})
    require_market_command()
    from riskroute.core.instrument import load_instruments
    from riskroute.market.importing import READERS, import_files
    from riskroute.market.readers.columns import load_columns
    from riskroute.market.readers.reading import ReadingOptions

    if format is not None:
        one_of("--format", format, tuple(READERS))
    names = load_columns(columns) if columns is not None else {}
    for text in column or []:
        ours, equals, theirs = text.partition("=")
        if not (ours and equals and theirs):
            raise InputError(f"--column must be OURS=THEIRS, was {text!r}")
        names[ours] = theirs
    start, end = _hours("--hours", hours) if hours is not None else (None, None)
    with _named_as_options():
        name, renamed = _venue_names(venue or [])
        symbols, new_symbols = _symbol_names(symbol or [])
        declared = load_instruments(instruments) if instruments is not None else {}
        reading = ReadingOptions(
            *(symbols, depth, start, end, date_option(date), name, names, zone, lot, renamed, declared, new_symbols)
        )
    left_out: list[str] = []
    with _named_as_options(), compilation_timed("market data"), _counting("books") as progress:
        recordings = import_files(
            files,
            out,
            reading,
            kind=format,
            max_unresolved=max_unresolved,
            max_crossed=max_crossed,
            progress=progress,
            skipped=lambda _, why: left_out.append(why),
        )
    _say_overview(recordings)
    for why in left_out:
        say(f"skipped: {why}")
    say(f"wrote {len(recordings):,} recording{'s' * (len(recordings) > 1)} to {out}")


@market.command("inspect")
def _inspect(
    folder: Annotated[Path, typer.Argument(help="Folder written by `riskroute market import`.")],
    json: Annotated[Path | None, typer.Option(help="Write the summary to this .json file.")] = None,
) -> None:
    """Summarise the imported market data in a folder, and their quality.

    Example:

    riskroute market inspect out/books
    """
    check_output_paths({"--json": json})
    require_market_command()
    from riskroute.market.recordings import RecordingStore

    store = RecordingStore(folder)
    recordings = store.recordings()
    if not recordings:
        raise DataError(f"no imported market data in {str(folder)!r}")
    _say_overview(recordings)
    found = {one.stem: store.summary(one) for one in recordings}
    rows = []
    for one in recordings:
        seen, instrument = found[one.stem], one.instrument
        spread, *depths = (seen[name] for name in ("spread", "bid_depth", "ask_depth"))
        rows.append(
            [
                one.stem,
                "-" if math.isnan(spread) else f"{instrument.price_text(spread)} {instrument.currency}",
                *("-" if math.isnan(depth) else instrument.named(depth) for depth in depths),
                f"{seen['one_sided']:.1%}",
            ]
        )
    say("")
    say(TextTable(["", "median spread", "median bid depth", "median ask depth", "one side empty"], rows).plain())
    if json is not None:
        say(f"wrote {write_json(json, found)}")


@market.command("calibrate")
def _calibrate(
    folder: Annotated[Path, typer.Argument(help="Folder written by `riskroute market import`.")],
    symbol: Annotated[str, typer.Option(help="Symbol to trade.")],
    quantities: Annotated[
        str, typer.Option(help="Test quantities FIRST:LAST[:STEP], ends included, such as 0.1:1:0.1.")
    ] = "1:10",
    side: Annotated[str, typer.Option(help="sell or buy.")] = "sell",
    hours: Annotated[str, typer.Option(help="Times in the instrument's zone, FIRST-LAST.")] = "11:00-13:00",
    buckets: Annotated[int, typer.Option(help="Number of time buckets, one sample each.")] = 60,
    seed: Annotated[int, typer.Option(help="Seed of the sampled times and the bootstrap.")] = 0,
    limit: Annotated[bool, typer.Option("--limit", help="Calibrate limit orders too; needs recorded events.")] = False,
    dark: Annotated[int, typer.Option(help="Number of dark pools to add, drawn relative to the lit venues.")] = 0,
    dark_pool: Annotated[
        list[str] | None,
        typer.Option(help="Dark pool by mechanism, PRESENCE:TAIL[:SMALLEST], for example 0.4:1.5:10; repeat for more."),
    ] = None,
    fees: Annotated[Path | None, typer.Option(help="Fee schedule (.toml); profits are then net of fees.")] = None,
    levels: Annotated[
        int | None, typer.Option(help="Levels of a book that an order may walk; default: all recorded.")
    ] = None,
    date: DateOption = None,
    venue: Annotated[list[str] | None, typer.Option(help="Venue to use; repeat for more; default: all.")] = None,
    instruments: options.Instruments = None,
    json: Annotated[Path | None, typer.Option(help="Write the estimates to this .json file.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for venues.toml, points.parquet and fits.png.")] = None,
) -> None:
    """Estimate mean and variance of the profit of an order of quantity Q at each venue.

    Samples one book per bucket and venue, and walks its levels for the profit against the mid. Mean and variance over
    the buckets are regressed on Q and Q^2; standard errors come from a bootstrap.
    Example:

    riskroute market calibrate out/books --symbol AMZN --quantities 10:200:10 --json amzn.json --out out/amzn
    """
    check_output_paths({"--json": json, "--out": out / "x" if out is not None else None})
    require_market_command()
    with _named_as_options(), output_status("sampling books"):
        from riskroute.core.instrument import load_instruments
        from riskroute.market.calibration import calibrate as fit
        from riskroute.market.clock import TimeWindow
        from riskroute.market.recordings import RecordingStore
        from riskroute.routing.fees import load_fees

        found = fit(
            RecordingStore(folder, load_instruments(instruments) if instruments is not None else None),
            symbol.upper(),
            quantities=_quantities(quantities),
            side=side,
            window=TimeWindow(*_hours("--hours", hours), buckets),
            seed=seed,
            orders=("market", "limit") if limit else ("market",),
            fees=load_fees(fees) if fees is not None else None,
            dark_pools=dark,
            pools=[_pool(text, k) for k, text in enumerate(dark_pool or [], 1)],
            date=date_option(date),
            venues=venue or (),
            levels=levels,
        )
    say(repr(found))
    for path in _save(found, json, out):
        say(f"wrote {path}")


def _venue_names(texts: list[str]) -> tuple[str | None, dict[str, str]]:
    """Return the name of a single venue and the new names by old name, from ``--venue``."""
    plain = [text for text in texts if "=" not in text]
    pairs = [text.partition("=") for text in texts if "=" in text]
    if len(plain) > 1 or (plain and pairs) or any(not (old and new) for old, _, new in pairs):
        raise InputError(f"--venue must be one NAME, or OLD=NEW for each venue to rename, was {', '.join(texts)}")
    names = {old: new for old, _, new in pairs}
    if len(names) < len(pairs):
        raise InputError(f"--venue must rename each venue once, was {', '.join(texts)}")
    return (plain[0] if plain else None), names


def _symbol_names(texts: list[str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the symbols to import, as in the file, and new names by old name, from ``--symbol``."""
    found = [text.partition("=") for text in texts]
    if any(not old or (equals and not new) for old, equals, new in found):
        raise InputError(f"--symbol must be NAME or OLD=NEW, was {', '.join(texts)}")
    return tuple(old for old, _, _ in found), {old: new for old, equals, new in found if equals}


def _save(found: Calibration, json: Path | None, out: Path | None) -> Iterator[Path]:
    from riskroute.core.runtime import extra_is_installed
    from riskroute.routing.venue_models import save_venue_models

    if json is not None:
        yield write_json(json, found.summary())
    if out is None:
        return
    config = found.config
    title = f"{config['symbol']} on {config['date']}, {config['side']}: profit against the mid of each venue's book"
    yield save_venue_models(found.models, out / "venues.toml", about=[title, found.units])
    yield write_whole(out / "points.parquet", lambda beside: found.to_frame().write_parquet(beside))
    if extra_is_installed("matplotlib"):
        from riskroute.paper.figures import plot_fits

        instrument = instrument_from_plain(config["symbol"], config["instrument"])
        yield plot_fits(found.fits, out / "fits.png", title=title, instrument=instrument)


def _say_overview(recordings: list[Any]) -> None:
    """Print one row per recording, then derived and declared instruments and the remarks on all recordings."""
    from riskroute.core.instrument import REG_NMS, Instrument

    header = ["", "books", "levels", "events", "from (UTC)", "to (UTC)", "unresolved", "crossed", "source"]
    rows = [
        [
            one.stem,
            f"{one.snapshots:,}",
            f"{one.levels}",
            f"{one.events:,}" if one.has_events or one.trades else "none",
            one.first[:19] if one.first[:10] != one.last[:10] else one.first[11:19],
            one.last[:19] if one.first[:10] != one.last[:10] else one.last[11:19],
            f"{one.unresolved_share:.1%}",
            f"{one.crossed_share:.1%}",
            one.source,
        ]
        for one in recordings
    ]
    say(TextTable(header, rows).plain())
    shown = [one for one in recordings if one.derived or one.instrument != Instrument(one.symbol, protection=REG_NMS)]
    for text, derived in dict.fromkeys((one.instrument.describe(), one.derived) for one in shown):
        say(f"{text} Units and ticks are {'derived from the data' if derived else 'declared'}.")
    for one in recordings:
        for text in one.remarks:
            say(text)


def require_market_command() -> None:
    """Raise an error with the install command if market data cannot be read."""
    require_extra("market data", "market", "itch_book", "pyarrow")


def _quantities(text: str) -> list[Decimal]:
    """Return the quantities of FIRST:LAST[:STEP], both ends included."""
    try:
        first, last, step = [*(valid_decimal("--quantities", part) for part in text.split(":")), Decimal(1)][:3]
    except (InputError, ValueError):
        first = last = step = Decimal(0)
    if text.count(":") not in (1, 2) or not (0 < first < last <= 10**9 and step > 0):
        expected = "FIRST:LAST or FIRST:LAST:STEP with rising positive numbers"
        raise InputError(f"--quantities must be {expected}, was {text!r}")
    if (last - first) // step > 10_000:
        raise InputError(f"--quantities must give at most 10,000 values, was {text!r}")
    found = [first + step * k for k in range(int((last - first) // step) + 1)]
    return found if found[-1] == last else [*found, last]


def _pool(text: str, number: int) -> DarkPool:
    """Return the dark pool of PRESENCE:TAIL[:SMALLEST]."""
    from riskroute.market.dark_pools import DarkPool

    try:
        presence, tail, smallest = [*text.split(":"), "1"][:3]
        values = float(presence), float(tail), int(smallest)
    except ValueError:
        raise InputError(f"--dark-pool must be PRESENCE:TAIL or PRESENCE:TAIL:SMALLEST, was {text!r}") from None
    return DarkPool(*values, name=f"Pool {number}")


def _hours(option: str, text: str) -> tuple[dt.time, dt.time]:
    from riskroute.market.clock import parse_clock_hours

    try:
        return parse_clock_hours(text)
    except ValueError as error:
        raise InputError(f"{option} must be {error}, was {text!r}") from None


# Patterns of parameter names in library errors, and the corresponding command-line options.
_OPTIONS = (
    (r"\bmax_(unresolved|crossed) = ", r"--max-\1 "),
    (r"\bcolumns = \{'(\w+)': NAME\}", r"--column \1=NAME"),
    (r"\b(zone) = ", r"--\1 "),
    (r"^(out|date) must", r"--\1 must"),
    (r"\b(lot|symbol|venue) = (?=[A-Z\d])", r"--\1 "),
    (r"\b(give|omit) (date|lot|symbol|venue|zone)\b", r"\1 --\2"),
)


@contextmanager
def _named_as_options() -> Iterator[None]:
    """Make errors name the options of a command instead of the parameters of a function."""
    try:
        yield
    except RiskrouteError as error:
        text = str(error)
        for parameter, option in _OPTIONS:
            text = re.sub(parameter, option, text)
        raise type(error)(text) from error


@contextmanager
def _counting(noun: str) -> Iterator[Callable[[str, int], None]]:
    """Show a counter for work of unknown length, on a terminal only."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    plain = TextColumn("{task.description}", markup=False)  # file names may have brackets
    columns = (plain, BarColumn(), TextColumn("{task.completed:,} " + noun))
    with Progress(*columns, TimeElapsedColumn(), console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("reading", total=None)
        yield lambda text, count: bar.update(task, completed=count, description=text)
