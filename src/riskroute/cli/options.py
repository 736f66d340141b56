"""Options that several commands share."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from riskroute.cli.output import say
from riskroute.core.errors import InputError

Backend = Annotated[str, typer.Option(help="Where to run: local, dask or ray.")]
Workers = Annotated[
    int | None, typer.Option(help="Number of processes; default: one per core, or all in the cluster at --address.")
]
Address = Annotated[
    str | None, typer.Option(help="Address of a running dask or ray cluster; default: start one on this machine.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue from the finished tasks of an earlier run.")]
Market = Annotated[
    str, typer.Option(help="Market: paper, comparable, dark, or a folder written by `riskroute market import`.")
]
Days = Annotated[
    int | None, typer.Option(help="Number of days; default: 16 synthetic days, or all days of the folder.")
]
Hours = Annotated[
    str | None,
    typer.Option(
        help="Times of orders, FIRST-LAST, in the zone of the instrument (New York if synthetic); may cross midnight "
        "within a session; default: the session, or 09:35-15:55 in New York if none is declared."
    ),
]
Protection = Annotated[
    str | None,
    typer.Option(
        help="Order protection, reg-nms or none; default: reg-nms for synthetic days and US equities, else none."
    ),
]
Queue = Annotated[
    str | None,
    typer.Option(
        help="Queue positions at venues whose trades have no order ids: pessimistic, proportional, power, optimistic, "
        "or exact (no limit orders there); default: pessimistic. Elsewhere they are exact."
    ),
]
Risk = Annotated[
    str | None,
    typer.Option(
        help="Risk profile: cheapest (mean cost), balanced (mean cost + 0.05 x variance), cautious (balanced, expected "
        "shortfall capped at the benchmark rule's), or kappa in bps per squared bp of unforeseen cost variance; "
        "default: balanced."
    ),
]
Benchmark = Annotated[
    str | None,
    typer.Option(
        help="Price against which costs are stated: arrival (the mid), touch (the far side of the book at arrival), "
        "vwap (of the public trades until the horizon) or twap (of the mid until then); default: arrival."
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of markets, orders and dark pools.")]
Kept = Annotated[Path, typer.Option(help="Cache folder for prepared days and results.")]
Symbols = Annotated[list[str] | None, typer.Option(help="Symbol; repeat for more.")]
Quantities = Annotated[
    list[float] | None,
    typer.Option(
        "--shares",
        "--quantity",
        help="Order size, such as 1000 (shares) or 0.25 (BTC); repeat for more; default: 1000.",
    ),
]
Lot = Annotated[
    float | None, typer.Option(help="Child orders are multiples of this quantity; default: the lot of the instrument.")
]
Fees = Annotated[Path | None, typer.Option(help="Fee schedule (.toml) for recorded days.")]
Instruments = Annotated[
    Path | None,
    typer.Option(help="Instruments by symbol (.toml): unit, tick, session, ...; default: those of the recordings."),
]
Results = Annotated[Path | None, typer.Option("--json", help="Write the results to this .json file.")]


def router_option(router: str | None) -> str | None:
    """Print all routers and exit if ``--router list`` was given."""
    if router is not None and router.casefold() == "list":
        from riskroute.routers.registry import NAMES

        _print_routers(NAMES)
    return router


def judged_routers_option(router: list[str] | None) -> list[str] | None:
    """Print all routers that a backtest plays and exit if ``--router list`` was given."""
    if any(one.casefold() == "list" for one in router or ()):
        from riskroute.study.candidates import NAMES

        _print_routers(NAMES)
    return router


def _print_routers(names: Sequence[str]) -> None:
    from riskroute.learning.registry import POLICIES
    from riskroute.routers.registry import ROUTERS
    from riskroute.simulation.clairvoyant import Clairvoyant

    kinds = {**ROUTERS, **POLICIES, Clairvoyant.name: Clairvoyant}
    for name in names:
        about = (kinds[name].__doc__ or "").strip().splitlines()[0]
        say(f"{name:24} {about}")
    say(f"{'FILE.py:CLASS':24} A user-defined router: a subclass of riskroute.routers.Router in a file.")
    raise typer.Exit


def date_option(text: str | None) -> dt.date | None:
    """Return the day of ``--date``."""
    try:
        return dt.date.fromisoformat(text) if text is not None else None
    except ValueError:
        raise InputError(f"--date must be a day, for example 2019-03-27, was {text!r}") from None
