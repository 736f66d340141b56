"""The ``riskroute`` command. Thin: parse, call, print."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command; a user's mistake ends in one line and exit code 2, never in a traceback."""
    from riskroute.cli.app import app
    from riskroute.errors import RiskrouteError

    try:
        app()
    except RiskrouteError as error:
        print(f"riskroute: {error}", file=sys.stderr)  # noqa: T201 - the one place errors meet the terminal
        sys.exit(2)
    except KeyboardInterrupt:
        print("riskroute: interrupted, nothing was finished yet", file=sys.stderr)  # noqa: T201
        sys.exit(130)
