"""How results and progress appear on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from riskroute.errors import one_of
from riskroute.results import SimulationResult


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


def headline(config: dict[str, object]) -> str:
    """One line that says what was played."""
    return (
        f"{config['shares']} shares over {config['slots']} slots: {int(str(config['actions'])):,} splits, "
        f"{config['horizon']:,} rounds, {config['runs']} runs, risk tolerance {config['risk_tolerance']:g}, "
        f"instance {config['instance_seed']}, seed {config['seed']}"
    )
