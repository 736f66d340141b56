"""The command that does the main job: ``study``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from riskroute.cli.market import require_market
from riskroute.cli.reproduce import AddressOption, EngineOption, ResumeOption, WorkersOption, resumable
from riskroute.errors import InputError


def study(
    config: Annotated[
        Path | None, typer.Argument(help="TOML file, see --init; a synthetic market and 10 shares if left out.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the report and everything behind it.")] = Path("out/study"),
    json: Annotated[Path | None, typer.Option(help="Write all numbers of the report to this .json file too.")] = None,
    init: Annotated[bool, typer.Option("--init", help="Write a commented configuration to CONFIG and stop.")] = False,
    engine: EngineOption = "local",
    workers: WorkersOption = None,
    address: AddressOption = None,
    resume: ResumeOption = False,
) -> None:
    """Say how to split orders: from market data to venue models, to learning policies, to a report.

    Writes report.html (one page, works offline), report.md and study.json. Example:

    riskroute study --init study.toml

    riskroute study study.toml --out out/study
    """
    from riskroute.cli.output import check_outputs, say

    check_outputs({"--out": out / "tasks" / "x", "--json": json})
    if init:
        _init(config or Path("study.toml"))
        return
    files, summary = run_study(config, out, (engine, workers, address), resume=resume)
    if json is not None:
        from riskroute.files import write_json

        files.append(write_json(json, summary))
    for path in files:
        say(f"wrote {path}")


def run_study(
    config: Path | None,
    out: Path,
    where: tuple[str, int | None, str | None] = ("local", None, None),
    *,
    resume: bool = False,
    lines: bool = False,
) -> tuple[list[Path], dict[str, Any]]:
    """Run a study, say what came out, and write the report; returns the files written, and all numbers.

    With ``lines`` it says how far it is also where a bar cannot be drawn.
    """
    from riskroute.cli.output import say, track_tasks, waiting
    from riskroute.report import require

    require_market()
    require("matplotlib", "plotly", "jinja2")
    with waiting("reading market data and estimating venue models", lines=lines):
        from riskroute.experiments.study.config import read_study
        from riskroute.experiments.study.study import plan_study, play_study
        from riskroute.simulation.engines import Engine

        wanted, engine = read_study(config), Engine(*where)
        data, cases = plan_study(wanted, out)
    runs = sum(panel.runs for case in cases for panel in case.panels.values())
    with resumable(out), track_tasks(runs, lines=lines) as finished:
        done = play_study(wanted, data, cases, out, engine, resume=resume, finished=finished)
    with waiting("writing the report", lines=lines):
        from riskroute.report.study_page import remove_study, write_study
        from riskroute.report.words import headline, summary_sentences

        remove_study(out)  # pages of an earlier study must not stand beside new numbers
        files = [*write_study(done.summary, out), *done.files]
    for order in done.summary["orders"]:
        say(f"\n{headline(order, wanted.side)}")
        for sentence in summary_sentences(order):
            say(f"  {sentence}")
    say("")
    return files, done.summary


def _init(path: Path) -> None:
    from riskroute.cli.output import say
    from riskroute.experiments.study.config import TEMPLATE
    from riskroute.files import write_whole

    if path.exists():
        raise InputError(f"config must be a new file, was {str(path)!r}, which is there already")
    say(f"wrote {write_whole(path, lambda beside: beside.write_text(TEMPLATE))}; edit it, then: riskroute study {path}")
