"""The command that makes one decision: ``route``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from riskroute.core.errors import InputError

if TYPE_CHECKING:
    from riskroute.routers.decision import Decision
    from riskroute.routers.router import Router


def list_routers(router: str | None) -> str | None:
    """Print all routers if that is asked for, whatever else is missing."""
    if router is not None and router.casefold() == "list":
        from riskroute.routers.registry import NAMES

        _print_routers(NAMES)
    return router


def list_judged_routers(router: list[str] | None) -> list[str] | None:
    """Print all routers that a backtest plays, if that is asked for."""
    if any(one.casefold() == "list" for one in router or ()):
        from riskroute.study.candidates import NAMES

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
    horizon: Annotated[
        float, typer.Option(help="Seconds until all of it must be done; above 0 it needs --router or --state.")
    ] = 0.0,
    router: Annotated[
        str | None,
        typer.Option(
            help="Which router decides, NAME or NAME:KEY=VALUE,...; or your own, FILE.py:CLASS; --router list shows "
            "all; default: sweep.",
            is_eager=True,
            callback=list_routers,
        ),
    ] = None,
    protection: Annotated[
        str,
        typer.Option(
            help="Order protection: none (the cheapest shares after fees first), or reg-nms (US equities: better "
            "displayed prices first, whatever the fees)."
        ),
    ] = "none",
    symbol: Annotated[
        str | None, typer.Option(help="What is traded, for routers that learned of several; else what the file says.")
    ] = None,
    state: Annotated[Path | None, typer.Option(help="Go on from the state of a router, a JSON file.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write the answer to this .json file.")] = None,
) -> None:
    """Route one order: which venues and pools get how many shares of it, on the books of the moment.

    The file holds one object, prices and fees in dollars, sizes in whole shares, the best level first:

    {"venues": {"XNAS": {"bids": [[9.99, 300]], "asks": [[10.01, 200]], "taker": 0.003, "maker": -0.002}},
    "pools": {"DARK1": {"fee": 0.001}}, "tick": 0.01}

    Prints the child orders, and what they cost against the mid, fees included: shares that are taken at displayed
    prices; those that are posted or sent to pools as a range, since books do not say how many of them are filled.
    Example:

    riskroute route books.json --side buy --shares 500 --router dark-first+sweep

    riskroute route books.json --side buy --shares 1000 --horizon 10 --state out/study/state-LUMO-1000-10s.json
    """
    from riskroute.cli.output import check_outputs, say
    from riskroute.core.files import write_json
    from riskroute.core.validation import one_of
    from riskroute.routers.context import PROTECTIONS, read_context
    from riskroute.routers.decision import price_plan

    check_outputs({"--json": json})
    one_of("--protection", protection, PROTECTIONS)
    if horizon > 0 and router is None and state is None:
        raise InputError(
            "--horizon needs --router or --state, since a sweep does not wait; for example --router "
            "dark-first+post+sweep, or the --state of a study"
        )
    chosen = _router(router, state)
    known = {} if symbol is None else {"symbol": symbol}
    order = {"side": side, "shares": shares, "lot": lot, "horizon": horizon, "protection": protection, **known}
    context = read_context(_read(books), **order)
    decision = price_plan(context, chosen.route(context).checked(context))
    for line in _lines(chosen.name, decision):
        say(line)
    for warning in decision.warnings:
        say(f"warning: {warning}", err=True)
    if json is not None:
        say(f"wrote {write_json(json, decision.to_json())}")


def _router(text: str | None, state: Path | None) -> Router:
    """Make the router that was asked for, or restore it from a state."""
    from riskroute.routers.registry import (
        file_router,
        in_file,
        make_router,
        restore_router,
        router_name,
        router_parameters,
    )

    name, parameters = router_parameters(text or "sweep")
    if state is None:
        return make_router(name, **parameters)
    if in_file(name):
        return file_router(name).restore(_read(state))
    chosen = restore_router(_read(state))
    if text is not None and router_name(name) not in (chosen.name, chosen.parameters.get("policy")):
        raise InputError(f"router must be {chosen.name}, which the state is of, was {text!r}")
    return chosen


def _lines(name: str, decision: Decision) -> list[str]:
    """What is printed: the child orders, what becomes of the others, and the cost."""
    from riskroute.core.text import TextTable

    context, plan = decision.context, decision.plan
    rows = [
        [kind, place, f"{shares:,}", "any" if limit is None else f"{limit:.10g}", f"{fee:g}"]
        for kind, place, shares, limit, fee in decision.children
    ]
    lines = [TextTable(["kind", "place", "shares", "limit price", "fee per share"], rows).plain()] if rows else []
    if plan.in_turn and plan.dark:
        lines.append("Pools are tried in turn, each with the remainder.")
    rule, _, venue = plan.rest.partition(":")
    then = {
        "sweep": "swept, cheapest first",
        "touch": "taken at the best price alone, as often as it takes",
        "venue": f"taken at {venue}",
        "post": f"posted at {venue} until the horizon, then swept",
    }
    lines.append(f"Shares that come back, or that no child holds, are {then[rule]}.")
    order = f"{context.side} {context.shares:,} at a mid of {context.mid:.10g}"

    def dollars(cost: float) -> str:
        return f"{'-' if cost < 0 else ''}${abs(cost):,.2f} ({1e4 * cost / (context.mid * context.shares):.2f} bps)"

    whole = f"{'brings in' if context.side == 'sell' else 'costs in all'} ${decision.net:,.2f}"
    if decision.passive:
        lines += [
            f"{name}: {order}, cost with fees, if the displayed books hold:",
            f"  {dollars(decision.cost_if_filled)} if all that is posted or sent to pools fills at its price,",
            f"  {dollars(decision.cost_if_swept)} if none of it fills and all is swept; the order then {whole}.",
        ]
    else:
        cost = dollars(decision.cost_if_swept)
        lines.append(f"{name}: {order}, cost with fees {cost} if the displayed books hold; the order {whole}.")
    return lines


def _read(path: Path) -> Any:
    import json

    try:
        return json.loads(path.read_text())
    except OSError as error:
        raise InputError(f"file must be there, was {str(path)!r}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} must be a JSON file, was not: {error}") from None
