"""The command that makes one decision: ``route``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from riskroute.errors import InputError


def list_routers(router: str | None) -> str | None:
    """Print all routers if that is asked for, whatever else is missing."""
    if router is not None and router.casefold() == "list":
        from riskroute.routers.registry import NAMES

        _print_routers(NAMES)
    return router


def list_judged_routers(router: list[str] | None) -> list[str] | None:
    """Print all routers that a backtest plays, if that is asked for."""
    if any(one.casefold() == "list" for one in router or ()):
        from riskroute.experiments.backtest.backtest import NAMES

        _print_routers(NAMES)
    return router


def _print_routers(names: Sequence[str]) -> None:
    from riskroute.cli.output import say
    from riskroute.routers.registry import about_router
    from riskroute.simulation.clairvoyant import Clairvoyant

    for name in names:
        say(f"{name:24} {about_router(name, {Clairvoyant.name: Clairvoyant})}")
    say(f"{'FILE.py:CLASS':24} A router of your own, a subclass of riskroute.routers.Router in a file.")
    raise typer.Exit


def route_command(
    books: Annotated[Path, typer.Argument(help="JSON file with the displayed books, fees and pools; see below.")],
    side: Annotated[str, typer.Option(help="buy or sell.")],
    shares: Annotated[int, typer.Option(help="Shares of the order.")],
    lot: Annotated[int, typer.Option(help="Child orders are multiples of this many shares.")] = 1,
    horizon: Annotated[float, typer.Option(help="Seconds until all of it must be done.")] = 0.0,
    router: Annotated[
        str | None,
        typer.Option(
            help="Which router decides, NAME or NAME:KEY=VALUE,...; --router list shows all; sweep if left out.",
            is_eager=True,
            callback=list_routers,
        ),
    ] = None,
    symbol: Annotated[
        str | None, typer.Option(help="What is traded, for routers that learned of several; else what the file says.")
    ] = None,
    state: Annotated[Path | None, typer.Option(help="Go on from the state of a router, a JSON file.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write the answer to this .json file.")] = None,
) -> None:
    """Route one order: which venues and pools get how many shares of it, on the books of the moment.

    The file holds one object, prices and fees in dollars, the best level first:

    {"venues": {"XNAS": {"bids": [[9.99, 300]], "asks": [[10.01, 200]], "taker": 0.003, "maker": -0.002}},
    "pools": {"DARK1": {"fee": 0.001}}, "tick": 0.01}

    Example:

    riskroute route books.json --side buy --shares 500 --router dark-first+sweep

    riskroute route books.json --side buy --shares 1000 --horizon 10 --state out/study/state-LUMO-1000-10s.json
    """
    from riskroute.cli.output import check_outputs, say
    from riskroute.experiments.backtest.backtest import named_choice
    from riskroute.files import write_json
    from riskroute.routers.context import read_context
    from riskroute.routers.decision import price_plan
    from riskroute.routers.registry import restore_router

    check_outputs({"--json": json})
    known = {} if symbol is None else {"symbol": symbol}
    context = read_context(_read(books), side=side, shares=shares, lot=lot, horizon=horizon, **known)
    if state is None:
        chosen = named_choice(router or "sweep").make()
    else:
        chosen = restore_router(_read(state))
        if router is not None and router.partition(":")[0] != chosen.name:
            raise InputError(f"router must be {chosen.name}, which the state is of, was {router!r}")
    decision = price_plan(context, chosen.route(context).checked(context))
    answer = decision.to_json()
    for kind, title in (("dark", "try in"), ("dark_rest", "rest in"), ("limit", "post at"), ("take", "take from")):
        for place, some in answer[kind].items():
            say(f"{title:10} {place:12} {some:>10,} shares")
    word = "brings in" if side == "sell" else "costs in all"
    say(f"{chosen.name}: ${decision.expected_cost:,.2f} against the mid of {context.mid:,.4f}, fees included, if the")
    say(f"displayed books hold; the order {word} ${decision.net:,.2f}. What comes back: {decision.plan.rest}.")
    if json is not None:
        say(f"wrote {write_json(json, answer)}")


def _read(path: Path) -> Any:
    import json

    try:
        return json.loads(path.read_text())
    except OSError as error:
        raise InputError(f"file must be there, was {str(path)!r}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} must be a JSON file, was not: {error}") from None
