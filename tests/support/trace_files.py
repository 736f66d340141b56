"""List the files of riskroute that a command executes, in the order of the first call, with the number of calls.

trace_files.py simulate --policy rise --runs 2 --horizon 1000
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import riskroute

PACKAGE = str(Path(riskroute.__file__).parent)


def traced_files(call: Callable[[], Any]) -> Counter[str]:
    """Run ``call``; return calls by file, relative to the package, in the order of the first call.

    Counts the functions called in this thread and in those it starts, except those called while a module is imported:
    an import happens once, and is no part of a request.
    """
    calls: Counter[str] = Counter()

    def profile(frame: FrameType, event: str, argument: object) -> None:
        file = frame.f_code.co_filename
        # Only functions have optimised locals; bodies of classes and modules do not.
        function = file.startswith(PACKAGE) and frame.f_code.co_flags & inspect.CO_OPTIMIZED
        if event == "call" and function and not _importing(frame):
            calls[str(Path(file).relative_to(PACKAGE))] += 1

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return calls


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(PACKAGE):
            return True
        frame = frame.f_back
    return False


def main(words: list[str]) -> None:
    """Trace a command line, and print its files."""
    from riskroute.cli.app import run_app

    calls = traced_files(lambda: run_app(words))
    for number, (file, count) in enumerate(calls.items(), 1):
        sys.stderr.write(f"{number:3d} {file:45s} {count:9,}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
