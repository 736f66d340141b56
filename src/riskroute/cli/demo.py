"""The command that shows what riskroute does, in a minute: ``demo``."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from riskroute.cli.market import require_market_command

if TYPE_CHECKING:
    from riskroute.study.result import StudyResult


def demo_command(
    out: Annotated[Path, typer.Option(help="Folder for tables, figures and the study.")] = Path("out/demo"),
) -> None:
    """Two things in a minute: which router to use for an order of 1,000 shares, and what the policies cost to learn.

    First a study, as `riskroute study` does it, on a synthetic market of five exchanges and three dark pools: the
    simple rules, then routers that look at the books and one that learns. Then the paper's policies, ours and the
    yardsticks on 8 shares over 6 slots: 1,287 splits, 100,000 rounds.
    """
    from riskroute.cli.output import check_outputs, say, show, track_tasks, waiting, write_simulation

    check_outputs({"--out": out / "regret.json"})
    require_market_command()
    for path in run_demo_studies(out):
        say(f"wrote {path}")
    from riskroute.simulation.comparison import DEMO_RUNS, demo_comparison

    say("\nWhat learning costs, policy by policy: the paper's experiment.")
    with track_tasks(DEMO_RUNS, lines=True) as finished:
        compared = demo_comparison(finished=finished)
    show(compared)
    with waiting("drawing the curves", lines=True):
        write_simulation(compared, out / "regret.json", out / "regret.parquet", out / "regret.png")


def run_demo_studies(out: Path) -> list[Path]:
    """Do the demo's studies and print what they find, the simple rules first; returns the files written."""
    from riskroute.cli.output import say, track, waiting
    from riskroute.cli.study import write_page

    with waiting("loading, which takes longer the first time", lines=True):
        from riskroute.core.files import writable_folder
        from riskroute.simulation.backends import Backend
        from riskroute.study.comparison import comparison_table
        from riskroute.study.demo import DEMO_RULES, DEMO_STUDY, DEMO_URGENT, demo_rules
        from riskroute.study.study import Study, most_plays, played_cache, run_study, write_study

    study, backend = Study(**dataclasses.asdict(DEMO_STUDY)), Backend()
    folder = writable_folder("out", out)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as kept:  # days are large, and made in seconds
        with track(DEMO_STUDY.days or 0, "days made ready", lines=True) as progress:
            days = study.days(kept=kept, backend=backend, progress=progress)
        cache = played_cache(kept)
        with track(len(DEMO_RULES), "rules played", lines=True) as progress:
            rules = demo_rules(days, backend=backend, cache=cache, progress=progress)
        say("1,000 shares with 10 seconds to be done, on synthetic days: what the simple rules cost, in basis points.")
        say(comparison_table(rules.comparison).plain())
        with track(most_plays(DEMO_STUDY, 1, pools=True), "plays", lines=True) as progress:
            result = run_study(days, DEMO_STUDY, backend=backend, cache=cache, progress=progress)
        show_demo_study(result)
        files = write_study(result, days, folder / "study", backend=backend, cache=cache)
        files += write_page(result, folder / "study")
        with waiting("the same orders, to be done at once", lines=True):
            urgent = run_study(days, DEMO_URGENT, backend=backend, cache=cache)
        say(f"{urgent.answer}\n")
        files += write_study(urgent, days, folder / "study-at-once", backend=backend, cache=cache)
        return [*files, *write_page(urgent, folder / "study-at-once")]


def show_demo_study(result: StudyResult) -> None:
    """Print all routers, the saving under other assumptions on dark pools, and the answer."""
    from riskroute.cli.output import say
    from riskroute.study.comparison import comparison_table
    from riskroute.study.result import surface_table

    (case,) = result.cases
    say("\nAll routers on the synthetic test days; clairvoyant has perfect foresight, of future prices too.")
    say(comparison_table(case.comparison).plain())
    if case.surface is not None:
        say(f"\nWhat {case.surface.router} saves against {case.surface.against}, if dark pools are not as assumed.")
        say(surface_table(case.surface).plain())
    say(f"\n{result.answer}\n")
