"""The demos: ``demo``, a study and the paper's comparison, and ``live demo``, a router that survives a kill."""

from __future__ import annotations

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
    from collections.abc import Callable

    from riskroute.simulation.backends import Backend
    from riskroute.simulation.results import SimulationResult
    from riskroute.simulation.runner import SimulationTask

# half an hour on each of twelve days: four for training, eight for testing, which are enough for a verdict
DEMO_STUDY = {
    "quantities": 1000,
    "horizons": 60.0,
    "days": 12,
    "train": 4,
    "hours": "10:30-11:00",
    "orders": 60,
    "surface_orders": 12,
}
DEMO_POLICIES = ("adaptive", "risk-ucb", "greedy", "uniform", "risk-exp-exp", "thompson", "rise", "rise++")
DEMO_RUNS, DEMO_HORIZON = 50, 100_000  # per policy: runs, and rounds per run


commands = typer.Typer()


@commands.command("demo")
def _demo(
    out: Annotated[Path, typer.Option(help="Folder for tables, figures and the study.")] = Path("out/demo"),
) -> None:
    """Show a router study and a comparison of policies, in about a minute.

    The study (`riskroute study`) chooses a router for orders of 1,000 shares with a deadline of a minute on a
    synthetic market of five exchanges and three dark pools. The comparison reports the regret of the paper's policies,
    adaptive and baselines on 8 shares over 6 slots: 1,287 splits, 100,000 rounds.
    """
    check_output_paths({"--out": out / "regret.json"})
    require_market_command()
    _run_study(out)
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


def _run_study(out: Path) -> None:
    """Run the demo's study; print its verdict, the routers with the lowest objectives, and where the page is."""
    from riskroute.cli.study import write_page

    with output_status("loading (slower the first time)", lines=True):
        from riskroute.core.files import writable_folder
        from riskroute.simulation.backends import Backend
        from riskroute.study.result import leading_table
        from riskroute.study.study import Study
        from riskroute.study.verdict import case_opening

    study, backend = Study(**DEMO_STUDY), Backend()
    folder = writable_folder("out", out)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as kept:  # days are large and take seconds to make
        with show_progress(study.config.days or 0, "days prepared", lines=True) as progress:
            days = study.days(kept=kept, backend=backend, progress=progress)
        with show_progress(study.max_plays(days), "plays", lines=True) as progress:
            result = study.play(days, kept=kept, backend=backend, progress=progress)
        study.write(result, days, folder / "study", kept=kept, backend=backend)
    (case,) = result.cases
    say(f"{case_opening(case, result.config, synthetic=result.synthetic)}\n")
    say(leading_table(case).plain())
    for page in write_page(result, folder / "study") or [folder / "study" / "study.txt"]:
        say(f"\nThe whole answer: {page}")


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
