"""The command that finds a fixed split: ``split-study``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from riskroute.cli.experiments import AddressOption, BackendOption, ResumeOption, WorkersOption, resumable_reproduction
from riskroute.cli.market import require_market_command
from riskroute.core.errors import InputError

if TYPE_CHECKING:
    from riskroute.study.split_result import SplitStudyResult


def split_study_command(
    config: Annotated[
        Path | None, typer.Argument(help="TOML file, see --init; a synthetic market and 10 shares if left out.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the report and everything behind it.")] = Path(
        "out/split-study"
    ),
    json: Annotated[Path | None, typer.Option(help="Write all numbers of the report to this .json file too.")] = None,
    init: Annotated[bool, typer.Option("--init", help="Write a commented configuration to CONFIG and stop.")] = False,
    backend: BackendOption = "local",
    workers: WorkersOption = None,
    address: AddressOption = None,
    resume: ResumeOption = False,
) -> None:
    """Say how to split orders: from market data to venue models, to learning policies, to a report.

    Writes report.html (one page, works offline), report.md and study.json. Example:

    riskroute split-study --init split-study.toml

    riskroute split-study split-study.toml --out out/split-study
    """
    from riskroute.cli.output import check_outputs, say

    check_outputs({"--out": out / "tasks" / "x", "--json": json})
    if init:
        _init(config or Path("split-study.toml"))
        return
    files, result = run_split_study(config, out, (backend, workers, address), resume=resume)
    if json is not None:
        files.append(result.to_json(json))
    for path in files:
        say(f"wrote {path}")


def run_split_study(
    config: Path | None,
    out: Path,
    where: tuple[str, int | None, str | None] = ("local", None, None),
    *,
    resume: bool = False,
    lines: bool = False,
) -> tuple[list[Path], SplitStudyResult]:
    """Run a study, print its findings, and write the report; returns the files written, and the result.

    With ``lines`` it says how far it is also where a bar cannot be drawn.
    """
    from riskroute.cli.output import say, track_tasks, waiting
    from riskroute.core.runtime import require_extra

    require_market_command()
    require_extra("figures and pages", "report", "jinja2")
    with waiting("reading market data and estimating venue models", lines=lines):
        from riskroute.simulation.backends import Backend
        from riskroute.study.split_study import RESULT, SplitStudy

        wanted, backend = SplitStudy(config), Backend(*where)
        plan = wanted.plan(out)
    with resumable_reproduction(out), track_tasks(plan.runs, lines=lines) as finished:
        result = plan.play(backend, resume=resume, finished=finished)
    with waiting("writing the report", lines=lines):
        from riskroute.study.split_result import write_report

        files = [*write_report(result, out), out / RESULT]
    say(f"\n{result!r}\n")
    return files, result


def _init(path: Path) -> None:
    from riskroute.cli.output import say
    from riskroute.core.files import write_whole
    from riskroute.study.split_study import TEMPLATE

    if path.exists():
        raise InputError(f"config must be a new file, was {str(path)!r}, which is there already")
    written = write_whole(path, lambda beside: beside.write_text(TEMPLATE))
    say(f"wrote {written}; edit it, then: riskroute split-study {path}")
