"""The ``riskroute`` command: parse arguments, call the library, print results."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command; a user's mistake ends in one line and exit code 2, never in a traceback."""
    try:
        from riskroute.cli.app import run_app

        sys.exit(run_app(sys.argv[1:]))
    except KeyboardInterrupt:
        print("riskroute: interrupted, nothing was finished yet", file=sys.stderr)  # noqa: T201 - no console yet
        sys.exit(130)
