"""How results and progress appear on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from riskroute.errors import one_of
from riskroute.results import SimulationResult
from riskroute.routing.splits import about

if TYPE_CHECKING:
    from riskroute.experiments.designs import DesignResult

PATTERNS_SHOWN = 10


def check_outputs(json: Path | None, parquet: Path | None, figure: Path | None) -> None:
    """Refuse wrong file endings before any work is done."""
    for name, path, endings in (
        ("--json", json, (".json",)),
        ("--parquet", parquet, (".parquet",)),
        ("--figure", figure, (".png", ".pdf", ".svg")),
    ):
        if path is not None:
            one_of(f"{name} file ending", path.suffix.lower(), endings)


@contextmanager
def track(total: int) -> Iterator[Callable[[str, int, int], None]]:
    """Progress bar on standard error, or nothing at all when that is not a terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description:<14}"), BarColumn(), MofNCompleteColumn(), TextColumn("runs"))
    with Progress(*columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("starting", total=total)

        def advance(policy: str, done: int, runs: int) -> None:
            bar.update(task, advance=1, description=policy)

        yield advance


def show(result: SimulationResult) -> None:
    """Print what was played and the final standings."""
    config = result.config
    console = Console()
    header, rows = result.table()
    if console.is_terminal:
        table = Table(title=headline(config), title_justify="left", caption_justify="left")
        for k, name in enumerate(header):
            table.add_column(name, justify="left" if k == 0 else "right", no_wrap=True)
        for row in rows:
            table.add_row(*row)
        console.print(table)
    else:
        console.file.write(f"{headline(config)}\n{result}\n")
    console.print(f"best split: {' '.join(map(str, result.best))}", highlight=False, soft_wrap=True)


def show_design(result: DesignResult) -> None:
    """Print how good a design is and what it consists of."""
    design, write = result.design, Console(soft_wrap=True).print
    write(f"{result.allocations!r}", highlight=False)
    write(
        f"rank {design.rank}, largest leverage at most {design.bound:.6g}: within {design.excess:.3%} of the optimum, "
        f"{len(design)} allocations, {result.seconds:.2f} s",
        highlight=False,
    )
    patterns = result.patterns()
    for pattern, count, weight in patterns[:PATTERNS_SHOWN]:
        write(f"  {weight:7.2%} on {count:>5} allocations of {pattern}", highlight=False)
    if len(patterns) > PATTERNS_SHOWN:
        rest = sum(weight for _, _, weight in patterns[PATTERNS_SHOWN:])
        write(f"  {rest:7.2%} on {len(patterns) - PATTERNS_SHOWN} other patterns", highlight=False)


def headline(config: dict[str, object]) -> str:
    """One line that says what was played."""
    return (
        f"{config['shares']} shares over {config['slots']} slots: {about(int(str(config['actions'])))} splits, "
        f"{config['horizon']:,} rounds, {config['runs']} runs, risk tolerance {config['risk_tolerance']:g}, "
        f"instance {config['instance_seed']}, seed {config['seed']}"
    )
