"""The command line: assemble the commands, run one, and turn errors into one line.

Heavy modules are imported inside the commands, so that ``--help`` is fast.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any

import typer

from riskroute._version import __version__
from riskroute.cli import demo, experiments, routers, study
from riskroute.cli.live import live
from riskroute.cli.market import market

app = typer.Typer(
    name="riskroute",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="A smart order router that learns: risk-aware linear bandits over splits of an order.",
)

# click's UsageError: typer may bundle its own click, and does not export it
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]

app.add_typer(demo.commands)
app.add_typer(study.commands)
app.add_typer(routers.commands)
app.add_typer(experiments.commands)
app.add_typer(market, name="market")
live.command("demo")(demo.live_demo)
app.add_typer(live, name="live")


def run_app(arguments: list[str]) -> int:
    """Run a command line and return its exit code; an error becomes one line on standard error."""
    from riskroute.core.errors import RiskrouteError
    from riskroute.core.runtime import announce_compilation

    announce_compilation(lambda text: typer.echo(f"riskroute: {text}", err=True))
    if not arguments:
        arguments = ["--help"]
    try:
        code = _commands()(arguments, standalone_mode=False, obj=tuple(arguments))
    except _UsageError as error:
        return _fail(_usage(error, arguments))
    except RiskrouteError as error:
        shows = " (--router list shows all)" if str(error).startswith("unknown router") else ""
        return _fail(f"{error}{shows}")
    except MemoryError as error:
        return _fail(f"not enough memory: {error}")
    except typer.Abort:
        raise KeyboardInterrupt from None
    return code if isinstance(code, int) else 0


@cache
def _commands() -> Any:
    """Return the click command, built once."""
    return typer.main.get_command(app)


def _fail(message: str) -> int:
    typer.echo(f"riskroute: {message}", err=True)
    return 2


def _usage(error: Exception, arguments: list[str]) -> str:
    """Return one line for a wrong option: the message, the value given and the help command."""
    text = " ".join(str(getattr(error, "format_message", error.__str__)()).split())
    option = next((o for o in getattr(getattr(error, "param", None), "opts", []) if o in arguments[:-1]), None)
    given = f", was {arguments[arguments.index(option) + 1]!r}" if option else ""
    where = getattr(getattr(error, "ctx", None), "command_path", "riskroute")
    return f"{text.rstrip('.')}{given} (see {where} --help)"


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"riskroute {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass
