"""The demos: ``demo``, a study and the paper's comparison, and ``live demo``, a router that survives a kill."""

from __future__ import annotations

import dataclasses
import tempfile
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from riskroute.cli.live import require_live_command
from riskroute.cli.market import require_market_command
from riskroute.cli.options import router_option
from riskroute.cli.output import (
    check_output_paths,
    output_status,
    say,
    show_progress,
    show_simulation,
    write_simulation_output,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from riskroute.simulation.backends import Backend
    from riskroute.simulation.results import SimulationResult
    from riskroute.simulation.runner import SimulationTask
    from riskroute.study.backtest import BacktestResult
    from riskroute.study.markets import MarketDay
    from riskroute.study.result import StudyResult
    from riskroute.study.study import Study

# half an hour on each of twelve days: four for training, eight for testing, which are enough for a verdict
DEMO_STUDY = {
    "quantities": 1000,
    "horizons": 10.0,
    "days": 12,
    "train": 4,
    "hours": "10:30-11:00",
    "orders": 60,
    "routers": ["static", "contextual"],
    "surface_orders": 12,
}
# immediate execution, where learning has nothing to add
DEMO_URGENT = DEMO_STUDY | {"horizons": 0.0, "orders": 30, "routers": ["contextual"], "surface_orders": 0}
# rules that do not learn, played first because they are fast
DEMO_RULES = ("sweep", "dark-first+sweep", "dark-first+post+sweep", "rest-even+sweep")
DEMO_POLICIES = ("adaptive", "risk-ucb", "greedy", "uniform", "risk-exp-exp", "thompson", "rise", "rise++")
DEMO_RUNS, DEMO_HORIZON = 50, 100_000  # per policy: runs, and rounds per run


commands = typer.Typer()


@commands.command("demo")
def _demo(
    out: Annotated[Path, typer.Option(help="Folder for tables, figures and the study.")] = Path("out/demo"),
) -> None:
    """Show a router study and a comparison of policies, in about a minute.

    The study (`riskroute study`) chooses a router for orders of 1,000 shares with a 10-second deadline on a synthetic
    market of five exchanges and three dark pools. The comparison reports the regret of the paper's policies, adaptive
    and baselines on 8 shares over 6 slots: 1,287 splits, 100,000 rounds.
    """
    check_output_paths({"--out": out / "regret.json"})
    require_market_command()
    for path in _run_studies(out):
        say(f"wrote {path}")
    from riskroute.simulation.backends import Backend

    say("\nThe paper's experiment: regret of each policy.")
    with show_progress(DEMO_RUNS * len(DEMO_POLICIES), lines=True) as progress:
        compared = _compare_policies(Backend(), lambda task: progress(task.label, count=task.runs))
    show_simulation(compared)
    with output_status("drawing the curves", lines=True):
        write_simulation_output(compared, out / "regret.json", out / "regret.parquet", out / "regret.png")


def _compare_policies(backend: Backend, finished: Callable[[SimulationTask], None] | None = None) -> SimulationResult:
    """Simulate the policies on 8 shares over 6 slots."""
    from riskroute.learning.problem import random_problem
    from riskroute.routing.allocations import routing_actions
    from riskroute.simulation.backends import run_backend_tasks
    from riskroute.simulation.environments import Environment
    from riskroute.simulation.runner import SimulationPanel, SimulationSize

    facts = {"slots": 6, "shares": 8, "instance_seed": 0}
    environment = Environment(random_problem(routing_actions(8, 6, listed=True), 0))
    panel = SimulationPanel(
        "demo", "the demo", environment, DEMO_POLICIES, facts, SimulationSize(DEMO_HORIZON, DEMO_RUNS)
    )
    # Alternate between policies, so that workers compile different kernels at the same time.
    tasks = sorted(panel.tasks(), key=lambda task: task.first)
    return panel.gather(tasks, run_backend_tasks(tasks, backend, finished=finished))


def _run_studies(out: Path) -> list[Path]:
    """Run the demo's studies and print their results, the simple rules first; return the files written."""
    from riskroute.cli.study import write_page

    with output_status("loading (slower the first time)", lines=True):
        from riskroute.core.files import writable_folder
        from riskroute.simulation.backends import Backend
        from riskroute.study.study import Study

    study, urgent, backend = Study(**DEMO_STUDY), Study(**DEMO_URGENT), Backend()
    folder = writable_folder("out", out)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as kept:  # days are large and take seconds to make
        with show_progress(study.config.days or 0, "days prepared", lines=True) as progress:
            days = study.days(kept=kept, backend=backend, progress=progress)
        with show_progress(len(DEMO_RULES), "rules played", lines=True) as progress:
            rules = _play_rules(study, days, Path(kept), backend, progress)
        say("1,000 shares with a 10-second deadline on synthetic days: cost of the simple rules, basis points.")
        say(rules.comparison.table().plain())
        with show_progress(study.max_plays(days), "plays", lines=True) as progress:
            result = study.play(days, kept=kept, backend=backend, progress=progress)
        _show_study(result)
        files = study.write(result, days, folder / "study", kept=kept, backend=backend)
        files += write_page(result, folder / "study")
        with output_status("the same orders for immediate execution", lines=True):
            at_once = urgent.play(days, kept=kept, backend=backend)
        say(f"{at_once.answer}\n")
        files += urgent.write(at_once, days, folder / "study-at-once", kept=kept, backend=backend)
        return [*files, *write_page(at_once, folder / "study-at-once")]


def _play_rules(
    study: Study, days: Sequence[MarketDay], kept: Path, backend: Backend, progress: Callable[..., None]
) -> BacktestResult:
    """Play the simple rules alone; the study reuses these plays from the cache."""
    from riskroute.study.backtest import run_backtest
    from riskroute.study.play import PlayCache

    (case,) = study.config.cases
    config = dataclasses.replace(study.config.backtest(*case), routers=DEMO_RULES)
    cache = PlayCache(kept / "played")
    return run_backtest(
        study.config.market,
        days,
        config,
        backend=backend,
        cache=cache,
        finished=lambda task: progress(task.candidate.label),
    )


def _show_study(result: StudyResult) -> None:
    """Print all routers, the sensitivity to dark-pool assumptions, and the answer."""
    from riskroute.study.result import surface_table

    (case,) = result.cases
    say("\nAll routers on the synthetic test days; clairvoyant has perfect foresight.")
    say(case.comparison.table().plain())
    if case.surface is not None:
        say(f"\nSaving of {case.surface.router} against {case.surface.against} under other dark-pool assumptions, bps.")
        say(surface_table(case.surface).plain())
    say(f"\n{result.answer}\n")


def live_demo(
    orders: Annotated[int, typer.Option(min=2, max=100_000, help="Orders to send.")] = 500,
    router: Annotated[
        str,
        typer.Option(
            help="Router: NAME or NAME:KEY=VALUE,...; or a user-defined one, FILE.py:CLASS; --router list prints all.",
            is_eager=True,
            callback=router_option,
        ),
    ] = "contextual",
    port: Annotated[
        int | None, typer.Option(min=1, max=65_535, help="Port; default: 8470, or a free one if that is taken.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="New folder for log and configuration; default: a temporary one.")
    ] = None,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Exit when the orders are done; default: serve the dashboard.")
    ] = False,
) -> None:
    """Run a router on simulated venues, kill it half-way, restart it, and show that nothing was lost.

    The dashboard stays on until Ctrl-C.
    Example:

    riskroute live demo --orders 500
    """
    require_live_command()
    from riskroute.live.demo import Demo
    from riskroute.routers.registry import is_file_router, make_router, router_parameters

    name, parameters = router_parameters(router)
    make_router(name, **parameters)
    if is_file_router(name):
        router = str(Path(router).expanduser().absolute())  # the configuration is in another folder
    with ExitStack() as stack:
        folder = out if out is not None else Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="riskroute-")))
        demo = Demo(folder, orders, router=router, port=port)
        say(f"starting {router} on simulated venues")
        stack.enter_context(demo.running())
        say(f"dashboard: {demo.address}")
        say("sign in with one of these tokens:")
        for (who, token), scope in zip(
            demo.tokens.items(), ("trade: resumes", "halt: halts", "read: views"), strict=True
        ):
            say(f"  {who:8} {token}  ({scope})")
        say(f"sending {orders:,} orders")
        with show_progress(orders, "orders") as advance:
            result = demo.trade(say, lambda: advance("answered"))
        say("")
        say(result.table.plain())
        say("")
        say("nothing was lost" if result.nothing_lost else "something was lost", err=not result.nothing_lost)
        if not result.nothing_lost:
            raise typer.Exit(1)
        if not no_wait:
            say(f"the dashboard stays on at {demo.address} until Ctrl-C")
            with suppress(KeyboardInterrupt):
                threading.Event().wait()
