"""The commands that run routers: ``route`` on one order, ``backtest`` and ``headroom`` on recorded days."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from riskroute.cli import options
from riskroute.cli.market import require_market_command
from riskroute.cli.output import check_output_paths, output_status, say, show_progress
from riskroute.core.errors import InputError
from riskroute.core.files import write_json
from riskroute.core.runtime import compilation_timed
from riskroute.core.text import TextTable, money_text, natural_text
from riskroute.core.validation import one_of

if TYPE_CHECKING:
    from riskroute.core.instrument import Instrument
    from riskroute.routers.decision import Decision
    from riskroute.routers.router import Router
    from riskroute.simulation.backends import Backend
    from riskroute.study.backtest import BacktestResult
    from riskroute.study.markets import MarketDay
    from riskroute.study.play import PlayCache

commands = typer.Typer()


@commands.command("route")
def _route(
    books: Annotated[Path, typer.Argument(help="JSON file with the displayed books, fees and pools; see below.")],
    side: Annotated[str, typer.Option(help="buy or sell.")],
    quantity: Annotated[
        float, typer.Option("--shares", "--quantity", help="Quantity of the order, such as 500 (shares) or 0.25 (BTC).")
    ],
    lot: options.Lot = None,
    horizon: Annotated[
        float, typer.Option(help="Seconds until the deadline; above 0 needs --router or --state.")
    ] = 0.0,
    router: Annotated[
        str | None,
        typer.Option(
            help="Router: NAME or NAME:KEY=VALUE,...; or a user-defined one, FILE.py:CLASS; --router list prints all; "
            "default: sweep.",
            is_eager=True,
            callback=options.router_option,
        ),
    ] = None,
    protection: Annotated[
        str,
        typer.Option(
            help="Order protection: none (the cheapest after fees first), or reg-nms (US equities: better "
            "displayed prices first, regardless of fees)."
        ),
    ] = "none",
    symbol: Annotated[
        str | None, typer.Option(help="Symbol, for routers trained on several; default: the one in the file.")
    ] = None,
    instruments: Annotated[
        Path | None, typer.Option(help="Instruments by symbol (.toml); the order uses the one with its symbol.")
    ] = None,
    state: Annotated[Path | None, typer.Option(help="Restore the router from this state (.json).")] = None,
    risk: options.Risk = None,
    json: Annotated[Path | None, typer.Option(help="Write the answer to this .json file.")] = None,
) -> None:
    """Route one order: print which venues and pools get which quantity, given the current books.

    The file holds one JSON object: the levels of every venue as [price, natural size], best first; fees such as "0.0030
    per share" or "10 bps"; and optionally the instrument:

    {"venues": {"XNAS": {"bids": [[9.99, 300]], "asks": [[10.01, 200]], "taker": "0.0030 per share"}},
    "pools": {"DARK1": {"fee": "0.001 per share"}}, "instrument": {"symbol": "QVEX", "currency": "USD"}}

    Prints the child orders and their cost against the mid, fees included. For a quantity that is posted or sent to
    pools the cost is a range, since the books do not show how much of it will fill.
    Example:

    riskroute route books.json --side buy --quantity 500 --router dark-first+sweep

    riskroute route books.json --side buy --quantity 1000 --horizon 10 --state out/study/state-LUMO-1000-10s.json
    """
    from riskroute.core.instrument import PROTECTIONS
    from riskroute.routers.context import read_context
    from riskroute.routers.decision import price_decision

    check_output_paths({"--json": json})
    one_of("--protection", protection, PROTECTIONS)
    if horizon > 0 and router is None and state is None:
        raise InputError(
            "--horizon needs --router or --state, since a sweep does not wait; for example --router "
            "dark-first+post+sweep, or the --state of a study"
        )
    chosen = _router(router, state, risk)
    known: dict[str, Any] = {} if symbol is None else {"symbol": symbol}
    content = _read(books)
    if instruments is not None:
        known["instrument"] = _declared(instruments, symbol or _stated_symbol(content), protection)
    order = {"side": side, "quantity": quantity, "lot": lot, "horizon": horizon, "protection": protection, **known}
    context = read_context(content, **order)
    with compilation_timed(chosen.name):
        decision = price_decision(context, chosen.route(context).checked(context))
    for line in _lines(chosen.name, decision):
        say(line)
    for warning in decision.warnings:
        say(f"warning: {warning}", err=True)
    if json is not None:
        say(f"wrote {write_json(json, decision.to_json())}")


def _stated_symbol(books: Any) -> str | None:
    """Return the symbol that books state, if any, so that they are not read with another instrument."""
    given = books if isinstance(books, dict) else {}
    nested = given.get("instrument")
    return given.get("symbol") or (nested.get("symbol") if isinstance(nested, dict) else None)


def _declared(instruments: Path, symbol: str | None, protection: str) -> Instrument:
    """Return the declared instrument of a symbol, or the only one, with its own order protection."""
    from riskroute.core.instrument import NO_PROTECTION, load_instruments

    known = load_instruments(instruments)
    one = known[one_of("--symbol", symbol or (next(iter(known)) if len(known) == 1 else None), tuple(known))]
    if protection not in (NO_PROTECTION, one.protection):
        raise InputError(f"omit --protection, which {instruments} declares as {one.protection}; was {protection!r}")
    return one


def _router(text: str | None, state: Path | None, risk: str | None = None) -> Router:
    """Make the router, or restore it from a state, which has its own risk profile."""
    from riskroute.routers.registry import (
        file_router,
        is_file_router,
        make_router,
        restore_router,
        router_name,
        router_parameters,
    )

    name, parameters = router_parameters(text or "sweep")
    if state is None:
        return make_router(name, **parameters | ({} if risk is None else {"risk": risk}))
    if risk is not None:
        raise InputError(f"omit --risk with --state, whose router has its own risk profile; was {risk!r}")
    if is_file_router(name):
        return file_router(name).restore(_read(state))
    chosen = restore_router(_read(state))
    if text is not None and router_name(name) not in (chosen.name, chosen.parameters.get("policy")):
        raise InputError(f"router must be {chosen.name}, the router of the state, was {text!r}")
    return chosen


def _lines(name: str, decision: Decision) -> list[str]:
    """Return the printout: child orders, the rule for the remainder, and the cost."""
    context, plan, instrument = decision.context, decision.plan, decision.context.instrument
    rows = [
        [
            *(one.kind, one.place, natural_text(instrument.natural(one.shares))),
            *("any" if one.limit is None else instrument.price_text(one.limit), one.fee),
        ]
        for one in decision.children
    ]
    lines = [TextTable(["kind", "place", instrument.quantity, "limit price", "fee"], rows).plain()] if rows else []
    if plan.in_turn and plan.dark:
        lines.append("Pools are tried in turn, each with the remainder.")
    rule, _, venue = plan.rest.partition(":")
    then = {
        "sweep": "swept, cheapest first",
        "touch": "taken at the best price only, repeatedly",
        "venue": f"taken at {venue}",
        "post": f"posted at {venue} until the deadline, then swept",
    }
    lines.append(f"Any unfilled or unassigned quantity is {then[rule]}.")
    size, mid = instrument.quantity_text(context.shares), instrument.price_text(context.mid)
    order = f"{context.side} {size}{f' of {context.symbol}' if context.symbol else ''} at a mid of {mid}"

    def amount(cost: float) -> str:
        bps = 1e4 * cost / (context.value_price * context.shares)
        return f"{money_text(cost * instrument.value, instrument.currency)} ({bps:.2f} bps)"

    net = money_text(decision.net * instrument.value, instrument.currency)
    whole = f"the order {'returns' if context.side == 'sell' else 'costs'} {net}"
    if decision.passive:
        lines += [
            f"{name}: {order}, cost with fees, if the displayed books hold:",
            f"  {amount(decision.cost_if_filled)} if everything posted or sent to pools fills at its price,",
            f"  {amount(decision.cost_if_swept)} if nothing fills there and all is swept; then {whole} in total.",
        ]
    else:
        cost = amount(decision.cost_if_swept)
        lines.append(f"{name}: {order}, cost with fees {cost} if the displayed books hold; {whole} in total.")
    return lines


def _read(path: Path) -> Any:
    import json

    try:
        return json.loads(path.read_text())
    except OSError as error:
        raise InputError(f"cannot read {str(path)!r}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} must be a JSON file: {error}") from None


@commands.command("backtest")
def _backtest(
    market: options.Market = "dark",
    symbol: options.Symbols = None,
    days: options.Days = None,
    train: Annotated[
        int | None, typer.Option(help="Days at the beginning used for training only; default: half.")
    ] = None,
    hours: options.Hours = None,
    quantity: options.Quantities = None,
    side: Annotated[str, typer.Option(help="buy, sell, or both (alternating).")] = "both",
    lot: options.Lot = None,
    orders: Annotated[int, typer.Option(help="Orders per day.")] = 125,
    horizon: Annotated[float, typer.Option(help="Deadline of every order in seconds; 0 is immediate.")] = 0.0,
    risk: options.Risk = None,
    benchmark: options.Benchmark = None,
    router: Annotated[
        list[str] | None,
        typer.Option(
            help="Router: NAME or NAME:KEY=VALUE,...; or a user-defined one, FILE.py:CLASS; repeat for more, or all; "
            "--router list prints all.",
            is_eager=True,
            callback=options.judged_routers_option,
        ),
    ] = None,
    latency_ms: Annotated[float, typer.Option(help="One-way latency to a lit venue in milliseconds.")] = 1.0,
    fees: options.Fees = None,
    instruments: options.Instruments = None,
    protection: options.Protection = None,
    queue: options.Queue = None,
    seeds: Annotated[int, typer.Option(help="Draws of arrival times, among which the orders are divided.")] = 5,
    backend: options.Backend = "local",
    address: options.Address = None,
    seed: options.Seed = 0,
    kept: options.Kept = Path("out/days"),
    stresses: Annotated[bool, typer.Option("--stresses", help="Repeat under stress and rank the routers.")] = False,
    placebos: Annotated[bool, typer.Option("--placebos", help="Run placebo tests of the backtest.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder for orders, child orders, fills (.parquet) and costs (.json, .txt).")
    ] = None,
    json: options.Results = None,
) -> None:
    """Backtest routers on the same recorded days with common random numbers, and compare their costs.

    Costs are basis points against the consolidated mid at arrival or another --benchmark, fees included. A second table
    has the costs against all price benchmarks, and effective and realised spreads. Every router is compared order by
    order with the benchmark rule: dark pools first, then a sweep of the lit venues; with a deadline, the simple rule
    that is best on the training days. Every --quantity has its own table and verdict.
    Example:

    riskroute backtest --market dark --days 6 --quantity 1000 --horizon 60 --out out/backtest
    """
    check_output_paths({"--json": json, "--out": out / "x" if out else None, "--kept": kept / "x"})
    require_market_command()
    from riskroute.routers.risk import BALANCED, risk_profile
    from riskroute.simulation.backends import Backend
    from riskroute.study.backtest import queue_plays, run_backtest
    from riskroute.study.candidates import CLAIRVOYANT, candidate_names, check_candidates
    from riskroute.study.config import BacktestConfig
    from riskroute.study.play import PlayCache

    config = BacktestConfig(
        quantities=tuple(quantity or (1000,)),
        side=side,
        lot=lot,
        orders=orders,
        horizon=horizon,
        risk=BALANCED if risk is None else risk_profile("risk", risk),
        routers=check_candidates(router or ()),
        hours=hours,
        train=train,
        latency_ms=latency_ms,
        seeds=seeds,
        seed=seed,
        protection=protection,
        queue=queue,
        benchmark=benchmark or "arrival",
    )
    where = Backend(backend, address=address)
    cache = PlayCache(kept / "played")
    found = _market_days(market, symbol, days, seed, config.clock_hours, kept, fees, where, instruments)
    names = candidate_names(config.routers, pools=bool(found[0].pools), horizon=horizon, train=train)
    plays = len({*names, CLAIRVOYANT}) * len({day.symbol for day in found}) * queue_plays(found, config)
    with show_progress(plays, "plays") as progress:
        result = run_backtest(
            market,
            found,
            config,
            backend=where,
            cache=cache,
            finished=lambda task: progress(task.candidate.label),
        )
    say(str(result))
    if stresses:
        _say_stresses(result, where, cache)
    if placebos:
        _say_placebos(result, where, cache)
    if out is not None:
        for path in result.write(out):
            say(f"wrote {path}")
    if json is not None:
        say(f"wrote {write_json(json, result.to_json())}")


def _market_days(
    market: str,
    symbol: list[str] | None,
    days: int | None,
    seed: int,
    hours: tuple[dt.time, dt.time] | None,
    kept: Path,
    fees: Path | None,
    backend: Backend,
    instruments: Path | None = None,
) -> list[MarketDay]:
    """Prepare the days of a market, with a progress bar."""
    from riskroute.core.instrument import load_instruments
    from riskroute.routing.fees import load_fees
    from riskroute.study.markets import SYNTHETIC_DAYS, market_days

    schedule = load_fees(fees) if fees is not None else None
    declared = load_instruments(instruments) if instruments is not None else None
    with show_progress(days or SYNTHETIC_DAYS, "days prepared") as progress:
        return market_days(
            market,
            symbols=tuple(symbol or ()),
            days=days,
            seed=seed,
            hours=hours,
            kept=kept,
            fees=schedule,
            instruments=declared,
            backend=backend,
            progress=progress,
        )


def _say_stresses(result: BacktestResult, backend: Backend, cache: PlayCache) -> None:
    from riskroute.study.stresses import run_stresses, stress_configs, stress_table

    worlds = len(stress_configs(result.config, pools=bool(result.days[0].pools)))
    with show_progress(worlds, "scenarios") as progress:
        found = run_stresses(result, backend=backend, cache=cache, progress=progress)
    say("")
    say("Stress tests: the three routers with the lowest objective, in bps")
    say(stress_table(found).plain())


def _say_placebos(result: BacktestResult, backend: Backend, cache: PlayCache) -> None:
    from riskroute.study.stresses import placebo_table, run_placebos

    with output_status("running placebo tests"):
        found = run_placebos(result.days, result.config, backend=backend, cache=cache)
    say("")
    say("Placebo tests: cost with wrong books, future books or empty pools, minus the cost of sweep")
    say(placebo_table(found).plain())


@commands.command("headroom")
def _headroom(
    market: Annotated[
        list[str] | None,
        typer.Option(
            help="Market: paper, comparable, dark or a folder; repeat for more; default: the three synthetic ones."
        ),
    ] = None,
    symbol: options.Symbols = None,
    days: Annotated[int, typer.Option(help="Number of days of each market, from the first.")] = 4,
    hours: options.Hours = None,
    quantity: Annotated[
        list[float] | None,
        typer.Option("--shares", "--quantity", help="Order size; repeat for more; default: 100 and 1000."),
    ] = None,
    horizon: Annotated[
        list[float] | None, typer.Option(help="Deadline in seconds; repeat for more; default: 0, 10, 60 and 300.")
    ] = None,
    risk: Annotated[
        list[str] | None,
        typer.Option(
            help="Risk profile: cautious, balanced, cheapest, or kappa in bps per squared bp; repeat for more; "
            "default: these three."
        ),
    ] = None,
    benchmark: options.Benchmark = None,
    orders: Annotated[int, typer.Option(help="Orders per day.")] = 125,
    fees: options.Fees = None,
    instruments: options.Instruments = None,
    protection: options.Protection = None,
    queue: options.Queue = None,
    seed: options.Seed = 0,
    kept: options.Kept = Path("out/days"),
    json: Annotated[Path | None, typer.Option(help="Write the table to this .json file.")] = None,
) -> None:
    """Divide the headroom of a market into what fixed plans save, what seeing the books adds, and foresight.

    Learning can save the second part only. It is estimated twice: an upper bound, from plans fitted on the judged days,
    and an out-of-sample estimate, from plans that were not fitted to the orders they are judged by.
    Example:

    riskroute headroom --market dark --quantity 1000 --horizon 0 --horizon 60
    """
    check_output_paths({"--json": json, "--kept": kept / "x"})
    require_market_command()
    from riskroute.routers.risk import risk_profile
    from riskroute.simulation.backends import Backend
    from riskroute.study.config import BacktestConfig
    from riskroute.study.headroom import (
        HORIZONS,
        RISKS,
        SIZES,
        headroom_legend,
        headroom_table,
        headroom_words,
        market_headroom,
    )
    from riskroute.study.play import PlayCache

    sizes, waits = tuple(quantity or SIZES), tuple(horizon or HORIZONS)
    risks = tuple(risk_profile("risk", one) for one in risk) if risk else RISKS
    config = BacktestConfig(
        orders=orders, hours=hours, seed=seed, protection=protection, queue=queue, benchmark=benchmark or "arrival"
    )
    backend, found = Backend(), []
    names = market or ["paper", "comparable", "dark"]
    with show_progress(len(names) * len(sizes) * len(waits) * len(risks), "cases") as progress:
        for name in names:
            ready = _market_days(name, symbol, days, seed, config.clock_hours, kept, fees, backend, instruments)
            found += market_headroom(
                *(name, ready, config),
                sizes=sizes,
                horizons=waits,
                risks=risks,
                backend=backend,
                cache=PlayCache(kept / "played"),
                progress=progress,
            )
    say(headroom_table(found).plain())
    say("")
    for line in (*headroom_legend(found), *headroom_words(found)):
        say(line)
    if json is not None:
        say(f"wrote {write_json(json, [one.to_json() for one in found])}")
