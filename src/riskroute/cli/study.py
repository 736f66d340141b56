"""The command that does the main job: ``study``."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from riskroute.cli.experiments import AddressOption, BackendOption, WorkersOption
from riskroute.cli.market import require_market_command
from riskroute.cli.routers import HoursOption, ProtectionOption, list_judged_routers
from riskroute.core.errors import InputError

if TYPE_CHECKING:
    from riskroute.simulation.backends import Backend
    from riskroute.study.result import StudyResult
    from riskroute.study.study import Study


def study_command(
    context: typer.Context,
    config: Annotated[
        Path | None, typer.Argument(help="TOML file, see --init; options say otherwise for one run.")
    ] = None,
    market: Annotated[
        str | None, typer.Option(help="dark, comparable, paper, or a folder of `riskroute market import`.")
    ] = None,
    symbol: Annotated[list[str] | None, typer.Option(help="Symbol; repeat for more, each has its own answer.")] = None,
    shares: Annotated[list[int] | None, typer.Option(help="Size of orders; repeat for more; default: 1000.")] = None,
    side: Annotated[str | None, typer.Option(help="buy, sell, or both in turn; default: both.")] = None,
    horizon: Annotated[
        list[float] | None, typer.Option(help="Seconds that an order has, 0 is at once; repeatable; default: 60.")
    ] = None,
    kappa: Annotated[float | None, typer.Option(help="Bps charged for a squared bp of unforeseen cost; 0.05.")] = None,
    days: Annotated[int | None, typer.Option(help="Days to play; 10 synthetic ones, or all that a folder has.")] = None,
    train: Annotated[
        int | None, typer.Option(help="Days at the beginning to learn and choose on; default: half.")
    ] = None,
    hours: HoursOption = None,
    router: Annotated[
        list[str] | None,
        typer.Option(
            help="Router to compare with the simple rules, NAME or NAME:KEY=VALUE,...; or your own, FILE.py:CLASS; "
            "repeat for more; --router list shows all.",
            is_eager=True,
            callback=list_judged_routers,
        ),
    ] = None,
    orders: Annotated[int | None, typer.Option(help="Orders a day; default: 200.")] = None,
    surface_orders: Annotated[
        int | None, typer.Option(help="Orders a day for each assumption on dark pools; 200, or 0 for none.")
    ] = None,
    latency_ms: Annotated[float | None, typer.Option(help="Milliseconds to a lit venue; default: 1.")] = None,
    stresses: Annotated[
        bool | None, typer.Option("--stresses", help="Repeat the router and the benchmark rule under stress.")
    ] = None,
    fees: Annotated[Path | None, typer.Option(help="TOML file of fees, for recorded days.")] = None,
    protection: ProtectionOption = None,
    backend: BackendOption = "local",
    workers: WorkersOption = None,
    address: AddressOption = None,
    seed: Annotated[int | None, typer.Option(help="Seed of markets, orders and luck; default: 0.")] = None,
    kept: Annotated[Path, typer.Option(help="Folder in which days that are ready are kept.")] = Path("out/days"),
    out: Annotated[Path, typer.Option(help="Folder for the answer, the routing table and the routers' states.")] = Path(
        "out/study"
    ),
    json: Annotated[Path | None, typer.Option(help="Write all numbers to this .json file too.")] = None,
    init: Annotated[bool, typer.Option("--init", help="Write a commented configuration to CONFIG and stop.")] = False,
) -> None:
    """Say which router to use for orders of a symbol, size and side, and what it saves against the best simple rule.

    Routers play the same days with the same luck. One is chosen on the training days; the test days decide whether it
    beats the standard routing rule. If nothing does, the answer is the rule. The answer also says where the router
    loses, what learning cost, and how much depends on what was assumed of dark pools.

    Writes study.html (one page, works offline), study.json, study.txt, the routing table by state of the book
    (routing.csv, routing.parquet), and the state of the router, which `riskroute route` goes on from. Ctrl-C loses
    nothing: the same command goes on.
    Example:

    riskroute study --market dark --shares 1000 --horizon 10 --days 6 --orders 100 --out out/study

    riskroute route books.json --side buy --shares 1000 --horizon 10 --state out/study/state-LUMO-1000-10s.json
    """
    from riskroute.cli.output import check_outputs, say

    check_outputs({"--out": out / "x", "--json": json, "--kept": kept / "x"})
    if init:
        _init(config or Path("study.toml"))
        return
    require_market_command()
    from riskroute.core.files import write_json
    from riskroute.simulation.backends import Backend
    from riskroute.study.study import Study

    given: dict[str, Any] = {
        "market": market,
        "symbols": symbol,
        "shares": shares,
        "side": side,
        "horizons": horizon,
        "kappa": kappa,
        "days": days,
        "train": train,
        "hours": hours,
        "routers": router,
        "orders": orders,
        "surface_orders": surface_orders,
        "latency_ms": latency_ms,
        "stresses": stresses,
        "fees": fees,
        "protection": protection,
        "seed": seed,
    }
    study = Study(config, **{name: value for name, value in given.items() if value is not None})
    command = shlex.join(["riskroute", *context.obj])
    result, files = _run(study, out, kept, Backend(backend, workers, address), command)
    say(str(result))
    if json is not None:
        files.append(write_json(json, result.to_json()))
    for path in files:
        say(f"wrote {path}")


def _run(study: Study, out: Path, kept: Path, backend: Backend, command: str = "") -> tuple[StudyResult, list[Path]]:
    """Run a study with progress bars and write its files; return the result and the files."""
    from riskroute.cli.output import track, waiting
    from riskroute.study.study import max_plays

    config = study.config
    with nothing_lost(kept):
        with track((config.days or 10) * max(len(config.symbols), 1), "days prepared") as progress:
            days = study.days(kept=kept, backend=backend, progress=progress)
        plays = max_plays(config, len({day.symbol for day in days}), pools=bool(days[0].pools))
        with track(plays, "plays") as progress:
            result = study.play(days, kept=kept, backend=backend, progress=progress)
        with waiting("training the routers to use on all days"):
            files = study.write(result, days, out, kept=kept, backend=backend)
    return result, [*write_page(result, out, command), *files]


def write_page(result: StudyResult, out: Path, command: str = "") -> list[Path]:
    """Write the page of a study if jinja2 is installed; return the files written."""
    from riskroute.cli.output import say
    from riskroute.core.runtime import extra_is_installed
    from riskroute.study.page import PAGE

    if not extra_is_installed("jinja2"):
        (out / PAGE).unlink(missing_ok=True)  # the page of an earlier study must not stand beside new numbers
        say(f"no {PAGE}: pages need jinja2: pip install 'riskroute[report]'", err=True)
        return []
    from riskroute.study.page import write_study_page

    return [write_study_page(result, out, command=command)]


@contextmanager
def nothing_lost(kept: Path) -> Iterator[None]:
    """Say on an interrupt where finished plays are kept."""
    from riskroute.cli.output import say

    try:
        yield
    except KeyboardInterrupt:
        say(f"interrupted: finished plays are in {kept}; run the same command to resume", err=True)
        raise typer.Exit(130) from None


def _init(path: Path) -> None:
    from riskroute.cli.output import say
    from riskroute.core.files import write_whole
    from riskroute.study.study import TEMPLATE

    if path.exists():
        raise InputError(f"config must be a new file, was {str(path)!r}, which is there already")
    written = write_whole(path, lambda beside: beside.write_text(TEMPLATE))
    say(f"wrote {written}; edit it, then: riskroute study {path}")
