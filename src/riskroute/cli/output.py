"""Print results and progress; check output paths."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from riskroute.core.errors import InputError, RiskrouteError
from riskroute.core.results import SimulationResult
from riskroute.core.text import count_text
from riskroute.core.validation import one_of

if TYPE_CHECKING:
    from rich.progress import Task as RichTask

    from riskroute.routing.allocations import DesignResult
    from riskroute.simulation.runner import SimulationTask

_LINE_EVERY = 5.0  # seconds between progress lines where standard error is not a terminal
_ENDINGS = {"--json": (".json",), "--parquet": (".parquet",), "--figure": (".png", ".pdf", ".svg")}


def check_outputs(paths: dict[str, Path | None]) -> None:
    """Refuse wrong file endings and unwritable folders before any work is done."""
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


# Parameter names in errors of the library, and the options that commands give them.
_OPTIONS = (
    (r"\bmax_(unresolved|crossed) = ", r"--max-\1 "),
    (r"\bcolumns = \{'(\w+)': NAME\}", r"--column \1=NAME"),
    (r"\b(unit|zone) = ", r"--\1 "),
    (r"^out must", "--out must"),
    (r"\b(lot|symbol|venue) = (?=[A-Z\d])", r"--\1 "),
    (r"\b(give|omit) (date|lot|symbol|unit|venue|zone)\b", r"\1 --\2"),
)


@contextmanager
def named_as_options() -> Iterator[None]:
    """Make errors name the options of a command instead of the parameters of a function."""
    try:
        yield
    except RiskrouteError as error:
        text = str(error)
        for parameter, option in _OPTIONS:
            text = re.sub(parameter, option, text)
        raise type(error)(text) from error


@contextmanager
def waiting(text: str, *, lines: bool = False) -> Iterator[None]:
    """Show a status on standard error; without a terminal, print ``lines`` or nothing."""
    console = Console(stderr=True)
    if console.is_terminal:
        with console.status(text):
            yield
    elif lines:
        with _lines(lambda: text):
            yield
    else:
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
def track(total: int, noun: str = "runs", *, lines: bool = False) -> Iterator[Callable[[str, int, int], None]]:
    """Show a progress bar on standard error; without a terminal, print ``lines`` or nothing."""
    done = 0
    with ExitStack() as stack:
        advance = stack.enter_context(_bar(total, noun))
        if lines and not Console(stderr=True).is_terminal:
            stack.enter_context(_lines(lambda: f"{done:,} of {total:,} {noun}"))

        def one(what: str, _done: int, _total: int) -> None:
            nonlocal done
            done += 1
            advance(what, 1)

        yield one


@contextmanager
def track_tasks(total: int, *, lines: bool = False) -> Iterator[Callable[[SimulationTask], None]]:
    """Show a progress bar over the runs of tasks; without a terminal, print ``lines`` or nothing."""
    done = 0
    with ExitStack() as stack:
        advance = stack.enter_context(_bar(total))
        if lines and not Console(stderr=True).is_terminal:
            stack.enter_context(_lines(lambda: f"simulating: {done:,} of {total:,} runs"))

        def finished(task: SimulationTask) -> None:
            nonlocal done
            done += task.runs
            advance(task.label, task.runs)

        yield finished


@contextmanager
def counting(noun: str) -> Iterator[Callable[[str, int], None]]:
    """Show a counter for work of unknown length, on a terminal only."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    plain = TextColumn("{task.description}", markup=False)  # names of files may have brackets
    columns = (plain, BarColumn(), TextColumn("{task.completed:,} " + noun))
    with Progress(*columns, TimeElapsedColumn(), console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("reading", total=None)
        yield lambda text, count: bar.update(task, completed=count, description=text)


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


def write_simulation(result: SimulationResult, json: Path | None, parquet: Path | None, figure: Path | None) -> None:
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


def show_design(result: DesignResult) -> None:
    """Print the certificate of a design and its heaviest patterns."""
    design = result.design
    say(f"{result.allocations!r}")
    say(
        f"rank {design.rank}, largest leverage at most {design.bound:.6g}: within {design.excess:.3%} of the optimum, "
        f"{len(design)} allocations, {result.seconds:.2f} s",
    )
    patterns, shown = result.patterns(), 10
    for pattern, count, weight in patterns[:shown]:
        say(f"  {weight:7.2%} on {count:>5} allocations of {pattern}")
    if len(patterns) > shown:
        rest = sum(weight for _, _, weight in patterns[shown:])
        say(f"  {rest:7.2%} on {len(patterns) - shown} other patterns")


def _headline(config: dict[str, object]) -> str:
    """Return one line that describes the simulation."""
    if "slots" in config:
        splits = count_text(int(str(config["actions"])))
        what = f"{config['shares']} shares over {config['slots']} slots: {splits} splits"
    else:
        what = f"{int(str(config['actions'])):,} actions of {config['dim']} features"
    return (
        f"{what}, {config['horizon']:,} rounds, {config['runs']} runs, "
        f"risk tolerance {config['risk_tolerance']:g}, instance {config['instance_seed']}, seed {config['seed']}"
    )
