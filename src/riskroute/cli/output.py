"""Print results and progress; check output paths."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from riskroute.core.errors import InputError
from riskroute.core.runtime import compilation_timed
from riskroute.core.text import count_text
from riskroute.core.validation import one_of

if TYPE_CHECKING:
    from rich.progress import Task as RichTask

    from riskroute.simulation.results import SimulationResult


_LINE_EVERY = 5.0  # seconds between progress lines where standard error is not a terminal
_ENDINGS = {"--json": (".json",), "--parquet": (".parquet",), "--figure": (".png", ".pdf", ".svg")}


def check_output_paths(paths: dict[str, Path | None]) -> None:
    """Raise an error for wrong file endings and unwritable folders before any work is done."""
    for name, path in paths.items():
        if path is None:
            continue
        if name in _ENDINGS:
            one_of(f"{name} file ending", path.suffix.lower(), _ENDINGS[name])
        if path.is_dir():
            raise InputError(f"{name} must be a file, was the folder {str(path)!r}")
        above = next(folder for folder in path.absolute().parents if folder.exists())
        if not above.is_dir() or not os.access(above, os.W_OK):
            raise InputError(f"{name} must be in a folder that can be written to, was {str(path)!r}")


@contextmanager
def output_status(text: str, *, lines: bool = False) -> Iterator[None]:
    """Show a status on standard error; without a terminal, print it repeatedly if ``lines``."""
    console = Console(stderr=True)
    with ExitStack() as stack:
        stack.enter_context(compilation_timed(text))
        if console.is_terminal:
            stack.enter_context(console.status(text))
        elif lines:
            stack.enter_context(_lines(lambda: text))
        yield


@contextmanager
def _lines(state: Callable[[], str]) -> Iterator[None]:
    """Print a status line on standard error at once and every few seconds."""
    ended = threading.Event()

    def speak() -> None:
        say(state(), err=True)
        while not ended.wait(_LINE_EVERY):
            say(state(), err=True)

    speaker = threading.Thread(target=speak, daemon=True)
    speaker.start()
    try:
        yield
    finally:
        ended.set()
        speaker.join()


@contextmanager
def show_progress(total: int, noun: str = "runs", *, lines: bool = False) -> Iterator[Callable[..., None]]:
    """Show a progress bar on standard error; without a terminal, print counts if ``lines``.

    Yields a function that takes the label of a finished step, and its ``count`` of units (default: 1).
    """
    done = 0
    with ExitStack() as stack:
        advance = stack.enter_context(_bar(total, noun))
        if lines and not Console(stderr=True).is_terminal:
            stack.enter_context(_lines(lambda: f"{done:,} of {total:,} {noun}"))

        def finished(what: str, _done: int = 0, _total: int = 0, *, count: int = 1) -> None:
            nonlocal done
            done += count
            advance(what, count)

        yield finished


def resumable_output_tasks(out: Path) -> AbstractContextManager[None]:
    """On Ctrl-C, print how to resume the tasks of ``out``, and exit."""
    return resumable_output(f"finished tasks are in {out / 'tasks'}; the same command with --resume continues")


@contextmanager
def resumable_output(advice: str) -> Iterator[None]:
    """On Ctrl-C, print where finished work is kept, and exit."""
    try:
        yield
    except KeyboardInterrupt:
        say(f"interrupted: {advice}", err=True)
        raise typer.Exit(130) from None


@contextmanager
def _bar(total: int, noun: str = "runs") -> Iterator[Callable[[str, int], None]]:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        SpinnerColumn,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: RichTask) -> Text:
            return Text(f"{task.speed:,.1f}/s" if task.speed else "")

    console = Console(stderr=True)
    label, counts = TextColumn("{task.description:<14}", markup=False), (MofNCompleteColumn(), TextColumn(noun), Rate())
    columns = (SpinnerColumn(), label, BarColumn(), *counts, TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("starting", total=total)
        yield lambda text, runs: bar.update(task, advance=runs, description=text)


def say(text: str, *, err: bool = False) -> None:
    """Print a line."""
    Console(stderr=err, soft_wrap=True, highlight=False, markup=False).print(text)


def show_simulation(result: SimulationResult) -> None:
    """Print the setting and the final regret of every policy."""
    say(_headline(result.config))
    say(str(result))
    if isinstance(result.best, int):
        say(f"best action: row {result.best}, counted from 0")
    else:
        say(f"best split: {' '.join(map(str, result.best))}")


def write_simulation_output(
    result: SimulationResult, json: Path | None, parquet: Path | None, figure: Path | None
) -> None:
    """Write the requested files; exit with status 130 if the simulation was interrupted."""
    for path in (json, parquet):
        if path is not None:
            say(f"wrote {result.save(path)}")
    if figure is not None:
        from riskroute.paper.figures import plot_regret

        say(f"wrote {plot_regret(result, figure)}")
    if result.interrupted:
        say("interrupted: table and files hold the finished runs only", err=True)
        raise typer.Exit(130)


def _headline(config: dict[str, object]) -> str:
    """Return a line with the settings of the simulation."""
    if "slots" in config:
        splits = count_text(int(str(config["actions"])))
        what = f"{config['shares']} shares over {config['slots']} slots: {splits} splits"
    else:
        what = f"{int(str(config['actions'])):,} actions with {config['dim']} features"
    return (
        f"{what}, {config['horizon']:,} rounds, {config['runs']} runs, "
        f"risk tolerance {config['risk_tolerance']:g}, instance {config['instance_seed']}, seed {config['seed']}"
    )
