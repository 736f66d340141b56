"""The commands ``study`` (which router to use) and ``split-study`` (which fixed split to use)."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from riskroute.cli import options
from riskroute.cli.market import require_market_command
from riskroute.cli.output import (
    check_output_paths,
    output_status,
    resumable_output,
    resumable_output_tasks,
    say,
    show_progress,
)
from riskroute.core.errors import InputError
from riskroute.core.files import write_json, write_whole
from riskroute.core.runtime import require_extra

if TYPE_CHECKING:
    from riskroute.study.result import StudyResult

commands = typer.Typer()

_InitOption = Annotated[bool, typer.Option("--init", help="Write a commented configuration to CONFIG and exit.")]


@commands.command("study")
def _study(
    context: typer.Context,
    config: Annotated[Path | None, typer.Argument(help="TOML file, see --init; options override its values.")] = None,
    market: Annotated[
        str | None,
        typer.Option(help="Market: dark, comparable, paper, or a folder written by `riskroute market import`."),
    ] = None,
    symbol: Annotated[list[str] | None, typer.Option(help="Symbol; repeat for more; each has its own answer.")] = None,
    quantity: options.Quantities = None,
    side: Annotated[str | None, typer.Option(help="buy, sell, or both (alternating); default: both.")] = None,
    horizon: Annotated[
        list[float] | None,
        typer.Option(help="Deadline of every order in seconds, 0 is immediate; repeat for more; default: 60."),
    ] = None,
    risk: options.Risk = None,
    benchmark: options.Benchmark = None,
    days: options.Days = None,
    train: Annotated[
        int | None, typer.Option(help="Days at the beginning used to train and choose a router; default: half.")
    ] = None,
    hours: options.Hours = None,
    router: Annotated[
        list[str] | None,
        typer.Option(
            help="Router to compare with the simple rules: NAME or NAME:KEY=VALUE,...; or a user-defined one, "
            "FILE.py:CLASS; repeat for more; --router list prints all.",
            is_eager=True,
            callback=options.judged_routers_option,
        ),
    ] = None,
    orders: Annotated[int | None, typer.Option(help="Orders per day; default: 125.")] = None,
    surface_orders: Annotated[
        int | None, typer.Option(help="Orders per day for each dark-pool assumption, 0 for none; default: 125.")
    ] = None,
    latency_ms: Annotated[
        float | None, typer.Option(help="One-way latency to a lit venue in milliseconds; default: 1.")
    ] = None,
    frontier: Annotated[
        bool | None,
        typer.Option(
            "--frontier/--no-frontier", help="Whether to answer for the other risk profiles too; default: yes."
        ),
    ] = None,
    stresses: Annotated[
        bool | None, typer.Option("--stresses", help="Repeat the router and the benchmark rule under stress.")
    ] = None,
    fees: options.Fees = None,
    instruments: options.Instruments = None,
    protection: options.Protection = None,
    queue: options.Queue = None,
    backend: options.Backend = "local",
    workers: options.Workers = None,
    address: options.Address = None,
    seeds: Annotated[
        int | None, typer.Option(help="Draws of arrival times, among which the orders are divided; default: 5.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of markets, orders and dark pools; default: 0.")] = None,
    kept: options.Kept = Path("out/days"),
    out: Annotated[Path, typer.Option(help="Folder for the report, the routing table and the routers' states.")] = Path(
        "out/study"
    ),
    json: options.Results = None,
    init: _InitOption = False,
) -> None:
    """Choose a router for orders of a symbol, size and side, and estimate its saving against the best simple rule.

    Replays the same days for all routers with common random numbers. Chooses one router on the training days; the test
    days decide whether it beats the benchmark rule. If not, the answer is the benchmark rule. The report also shows
    where the router loses, the cost of exploration, and the sensitivity to dark-pool assumptions.

    Writes study.html (one page, works offline), study.json, study.txt, the routing table by state of the book
    (routing.csv, routing.parquet), and the state of the router, which `riskroute route` restores. After Ctrl-C, the
    same command resumes.
    Example:

    riskroute study --market dark --quantity 1000 --horizon 10 --days 6 --orders 100 --out out/study

    riskroute route books.json --side buy --quantity 1000 --horizon 10 --state out/study/state-LUMO-1000-10s.json
    """
    check_output_paths({"--out": out / "x", "--json": json, "--kept": kept / "x"})
    if init:
        _write_template("study", config)
        return
    require_market_command()
    from riskroute.simulation.backends import Backend
    from riskroute.study.markets import SYNTHETIC_DAYS
    from riskroute.study.study import Study

    others = ("config", "backend", "workers", "address", "kept", "out", "json", "init")
    keys = {
        "quantity": "quantities",
        "symbol": "symbols",
        "horizon": "horizons",
        "router": "routers",
    }  # options take one value each
    given = {
        name: value for name, value in context.params.items() if value not in (None, [], ()) and name not in others
    }
    study = Study(config, **{keys.get(name, name): value for name, value in given.items()})
    where = Backend(backend, workers, address)
    with resumable_output(f"finished plays are in {kept}; run the same command to resume"):
        prepared = (study.config.days or SYNTHETIC_DAYS) * max(len(study.config.symbols), 1)
        with show_progress(prepared, "days prepared") as progress:
            market_days = study.days(kept=kept, backend=where, progress=progress)
        with show_progress(study.max_plays(market_days), "plays") as progress:
            result = study.play(market_days, kept=kept, backend=where, progress=progress)
        with output_status("training the chosen routers on all days"):
            states = study.write(result, market_days, out, kept=kept, backend=where)
    files = [*write_page(result, out, shlex.join(["riskroute", *context.obj])), *states]
    say(str(result))
    if json is not None:
        files.append(write_json(json, result.to_json()))
    for path in files:
        say(f"wrote {path}")


def write_page(result: StudyResult, out: Path, command: str = "") -> list[Path]:
    """Write the page of a study if jinja2 is installed; return the files written."""
    from riskroute.core.runtime import extra_is_installed
    from riskroute.study.page import PAGE

    if not extra_is_installed("jinja2"):
        (out / PAGE).unlink(missing_ok=True)  # the page of an earlier study must not stand beside new numbers
        say(f"no {PAGE}: pages need jinja2: pip install 'riskroute[report]'", err=True)
        return []
    from riskroute.study.page import write_study_page

    return [write_study_page(result, out, command=command)]


@commands.command("split-study")
def _split_study(
    config: Annotated[
        Path | None, typer.Argument(help="TOML file, see --init; default: a synthetic market and 10 shares.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the report and its data.")] = Path("out/split-study"),
    json: options.Results = None,
    init: _InitOption = False,
    backend: options.Backend = "local",
    workers: options.Workers = None,
    address: options.Address = None,
    resume: options.Resume = False,
) -> None:
    """Find the best fixed split of an order on market data, and the cost of learning it with each policy.

    Writes report.html (one page, works offline), report.md and study.json. Example:

    riskroute split-study --init split-study.toml

    riskroute split-study split-study.toml --out out/split-study
    """
    check_output_paths({"--out": out / "tasks" / "x", "--json": json})
    if init:
        _write_template("split-study", config)
        return

    require_market_command()
    require_extra("figures and pages", "report", "jinja2")
    with output_status("reading market data and estimating venue models"):
        from riskroute.simulation.backends import Backend
        from riskroute.study.split_study import RESULT, SplitStudy

        wanted, where = SplitStudy(config), Backend(backend, workers, address)
        plan = wanted.plan(out)
    with resumable_output_tasks(out), show_progress(plan.runs) as progress:
        result = plan.play(where, resume=resume, finished=lambda task: progress(task.label, count=task.runs))
    with output_status("writing the report"):
        from riskroute.study.split_result import write_split_page

        files = [*write_split_page(result, out), out / RESULT]
    say(f"\n{result!r}\n")
    if json is not None:
        files.append(result.to_json(json))
    for path in files:
        say(f"wrote {path}")


def _write_template(command: str, config: Path | None) -> None:
    """Write a commented configuration."""
    from riskroute.study.config import study_config_template

    path = config or Path(f"{command}.toml")
    if path.exists():
        raise InputError(f"--init writes a new file, but {str(path)!r} already exists")
    write_whole(path, lambda beside: beside.write_text(study_config_template(command)))
    say(f"wrote {path}; edit it, then: riskroute {command} {path}")
