"""The command ``live demo``: a running router, killed in the middle, and its dashboard."""

from __future__ import annotations

import tempfile
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Annotated

import typer

from riskroute.cli.live import require_live_command
from riskroute.cli.route import list_routers


def live_demo_command(
    orders: Annotated[int, typer.Option(min=2, max=100_000, help="Orders to send.")] = 500,
    router: Annotated[
        str,
        typer.Option(
            help="Router: NAME or NAME:KEY=VALUE,...; or your own, FILE.py:CLASS; --router list shows all.",
            is_eager=True,
            callback=list_routers,
        ),
    ] = "contextual",
    port: Annotated[int | None, typer.Option(min=1, max=65_535, help="Port; 8470, or any if that is taken.")] = None,
    out: Annotated[Path | None, typer.Option(help="New folder for log and configuration; a temporary one.")] = None,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="End at once, without leaving the dashboard on.")] = False,
) -> None:
    """Run a router on simulated venues, kill it in the middle, start it again, and show that nothing was lost.

    The dashboard stays on until Ctrl-C.
    Example:

    riskroute live demo --orders 500
    """
    require_live_command()
    from riskroute.cli.output import say, track
    from riskroute.live.demo import Demo
    from riskroute.routers.registry import in_file, make_router, router_parameters

    name, parameters = router_parameters(router)
    make_router(name, **parameters)
    if in_file(name):
        router = str(Path(router).expanduser().absolute())  # the configuration is in another folder
    with ExitStack() as stack:
        folder = out if out is not None else Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="riskroute-")))
        demo = Demo(folder, orders, router=router, port=port)
        say(f"starting {router} on simulated venues")
        stack.enter_context(demo.running())
        say(f"dashboard: {demo.address}")
        say("sign in there with one of these tokens:")
        for (who, token), scope in zip(
            demo.tokens.items(), ("trade: resumes", "halt: halts", "read: looks"), strict=True
        ):
            say(f"  {who:8} {token}  ({scope})")
        say(f"sending {orders:,} orders")
        with track(orders, "orders") as advance:
            result = demo.trade(say, lambda: advance("answered", 1, orders))
        say("")
        say(result.table.plain())
        say("")
        say("nothing was lost" if result.nothing_lost else "something was lost", err=not result.nothing_lost)
        if not result.nothing_lost:
            raise typer.Exit(1)
        if not no_wait:
            say(f"the dashboard stays on at {demo.address} until Ctrl-C")
            with suppress(KeyboardInterrupt):
                threading.Event().wait()
