"""The checkout under test: its folders, its public names, and what its pages and programs print."""

from __future__ import annotations

import contextlib
import io
import runpy
import sys
from collections.abc import Callable
from glob import glob
from pathlib import Path
from types import ModuleType
from unittest import mock

import riskroute
from riskroute.cli.app import run_app
from riskroute.simulation import backends

ROOT = Path(__file__).parents[2]
SHARED_DATA = ROOT.parent / "shared" / "data"


GROUPS = ("environments", "learning", "market", "policies", "routers", "routing")
MODULES: tuple[ModuleType, ...] = (riskroute, *(getattr(riskroute, name) for name in GROUPS))
PUBLIC = {
    f"{module.__name__}.{name}".removeprefix("riskroute."): getattr(module, name)
    for module in MODULES
    for name in module.__all__
    if name not in (*GROUPS, "__version__")
}


def _printed(folder: Path, action: Callable[[], object], *, quiet: bool = False) -> str:
    """What an action prints in a folder, on a machine of one core; nothing on standard error, if to be ``quiet``."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(backends, "_cores", return_value=1))
        stack.enter_context(contextlib.chdir(folder))
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        done = action()
    assert not done, f"{done}\n{err.getvalue()}"
    assert not quiet or not err.getvalue(), err.getvalue()
    return out.getvalue()


def run_code(code: str, folder: Path) -> str:
    """What lines of Python print."""
    return _printed(folder, lambda: exec(compile(code, "<page>", "exec"), {"__name__": "__main__"}))


def run_script(path: Path, folder: Path, *arguments: str) -> str:
    """What a script prints, which leaves standard error alone."""
    with mock.patch.object(sys, "argv", [str(path), *arguments]):
        return _printed(folder, lambda: runpy.run_path(str(path), run_name="__main__") and None, quiet=True)


def run_command(command: str, folder: Path) -> str:
    """What a command line that starts with ``riskroute`` prints; files are matched as a shell would."""
    _, *words = command.split()
    found = [name for word in words for name in (sorted(glob(word, root_dir=folder)) if "*" in word else [word])]
    return _printed(folder, lambda: run_app(found))
