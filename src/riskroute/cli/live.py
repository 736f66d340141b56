"""The commands of the running router: ``live init``, ``serve``, ``verify``, ``replay``, ``export`` and ``doctor``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from riskroute.live.log import Log

live = typer.Typer(
    no_args_is_help=True,
    help="A router that runs: takes orders over HTTP, learns from fills, and loses nothing.\n\n"
    "First `riskroute live init`, then `riskroute live serve live.toml`.",
)

ConfigArgument = Annotated[Path, typer.Argument(help="Configuration, as `riskroute live init` writes it.")]
LogArgument = Annotated[Path, typer.Argument(help="A log's SQLite file, or a configuration (.toml) that names one.")]

NEEDED = ("msgspec", "starlette", "uvicorn", "prometheus_client")


def require_live_command() -> None:
    """Say what to install if the commands of this file cannot run."""
    from riskroute.extras import require_extra

    require_extra("the commands of riskroute live", "live", *NEEDED)


@live.command("init")
def live_init_command(
    file: Annotated[Path, typer.Argument(help="File to write.")] = Path("live.toml"),
    shadow: Annotated[bool, typer.Option("--shadow", help="For a router that watches another one.")] = False,
) -> None:
    """Write a configuration with comments, and print its tokens: once, since the file holds only their hashes.

    The configuration runs as it is, on simulated venues.
    Example:

    riskroute live init live.toml
    """
    require_live_command()
    from riskroute.cli.output import say
    from riskroute.live.config import write_template

    tokens = write_template(file, mode="shadow" if shadow else "live")
    say(f"wrote {file}")
    say("tokens, shown once; keep them where you keep passwords:")
    for name, token in tokens.items():
        say(f"  {name:8} {token}")
    say(f"next: riskroute live serve {file}")


@live.command("token")
def live_token_command() -> None:
    """Make a token, and print it with the hash that belongs into the configuration.

    Example:

    riskroute live token
    """
    require_live_command()
    from riskroute.cli.output import say
    from riskroute.live.config import new_token, token_hash

    token = new_token()
    say(f"token  {token}")
    say(f'hash = "{token_hash(token)}"')


@live.command("serve")
def live_serve_command(config: ConfigArgument) -> None:
    """Run the router until Ctrl-C or SIGTERM: recover from the log, ask the venues, then take orders.

    Orders come to POST /orders with a token, and are answered once their decision is durable. SIGUSR1, POST /halt and
    the halt file stop trading; POST /resume goes on. After a crash, start it again: nothing that was answered is lost.
    Example:

    riskroute live serve live.toml
    """
    require_live_command()
    from riskroute.cli.output import say
    from riskroute.live.config import read_live_config
    from riskroute.live.server import serve
    from riskroute.live.service import Service

    read = read_live_config(config)
    service = Service(read)
    try:
        say("starting: reading the log, asking the venues, warming up")
        service.start()
    except BaseException:
        service.close()
        raise
    state = service.engine.state

    def started() -> None:
        say(
            f"{read.mode} on http://{read.listen} with {service.engine.learner.router.name}: {state.decisions:,} orders"
        )
        if state.halted:
            say(f"trading is halted: {state.halted}")

    began = serve(service, started)
    if not began:
        service.close()
        say(f"cannot listen on {read.listen}: another program may do so", err=True)
        raise typer.Exit(2)
    state = service.engine.state
    say(f"stopped: {state.decisions:,} orders, {len(state.unsettled):,} not settled, all of it in the log")


def _log(path: Path) -> Log:
    """The log of a configuration, or in a file."""
    from riskroute.live.config import read_live_config
    from riskroute.live.log_sqlite import SqliteLog
    from riskroute.live.service import open_log

    return open_log(read_live_config(path), create=False) if path.suffix == ".toml" else SqliteLog(path, create=False)
