"""The commands that judge routers on recorded days: ``backtest`` and ``headroom``."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from riskroute.cli.route import list_judged_routers

if TYPE_CHECKING:
    from riskroute.simulation.backends import Backend
    from riskroute.study.backtest import BacktestResult
    from riskroute.study.markets import MarketDay
    from riskroute.study.play import TableCache

MarketOption = Annotated[str, typer.Option(help="paper, comparable, dark, or a folder of `riskroute market import`.")]
DaysOption = Annotated[int | None, typer.Option(help="Days to play; 10 synthetic ones, or all that a folder has.")]
HoursOption = Annotated[
    str | None,
    typer.Option(
        help="Times of orders, FIRST-LAST, in the zone of the recordings (New York if synthetic); "
        "default: 09:35-15:55 in New York, the whole day elsewhere."
    ),
]
ProtectionOption = Annotated[
    str | None,
    typer.Option(
        help="Order protection, reg-nms or none; default: reg-nms for synthetic days and US equities, else none."
    ),
]
SeedOption = Annotated[int, typer.Option(help="Seed of markets, orders and luck.")]
KeptOption = Annotated[Path, typer.Option(help="Folder in which days that are ready are kept.")]


def backtest_command(
    market: MarketOption = "dark",
    symbol: Annotated[list[str] | None, typer.Option(help="Symbol; repeat for more.")] = None,
    days: DaysOption = None,
    train: Annotated[int | None, typer.Option(help="Days at the beginning that are not judged; default: half.")] = None,
    hours: HoursOption = None,
    shares: Annotated[list[int] | None, typer.Option(help="Size of orders; repeat for more; default: 1000.")] = None,
    side: Annotated[str, typer.Option(help="buy, sell, or both in turn.")] = "both",
    lot: Annotated[int, typer.Option(help="Child orders are multiples of this many shares.")] = 1,
    orders: Annotated[int, typer.Option(help="Orders a day.")] = 200,
    horizon: Annotated[float, typer.Option(help="Seconds that every order has; 0 is at once.")] = 0.0,
    kappa: Annotated[float, typer.Option(help="Bps charged for a squared bp of unforeseen cost.")] = 0.05,
    router: Annotated[
        list[str] | None,
        typer.Option(
            help="Router to play, NAME or NAME:KEY=VALUE,...; or your own, FILE.py:CLASS; repeat for more, or all; "
            "--router list shows them.",
            is_eager=True,
            callback=list_judged_routers,
        ),
    ] = None,
    latency_ms: Annotated[float, typer.Option(help="Milliseconds on the way to a lit venue.")] = 1.0,
    fees: Annotated[Path | None, typer.Option(help="TOML file of fees, for recorded days.")] = None,
    protection: ProtectionOption = None,
    seeds: Annotated[int, typer.Option(help="How often all is played, with other luck in dark pools.")] = 1,
    backend: Annotated[str, typer.Option(help="Where days are played: local, dask or ray.")] = "local",
    address: Annotated[str | None, typer.Option(help="Of a running cluster; default: one is started here.")] = None,
    seed: SeedOption = 0,
    kept: KeptOption = Path("out/days"),
    stresses: Annotated[bool, typer.Option("--stresses", help="Play all again in harder worlds, and rank.")] = False,
    placebos: Annotated[bool, typer.Option("--placebos", help="Check the yardstick with the wrong books.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder for orders, children and fills as Parquet files, and costs by venue.")
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Write the results to this .json file.")] = None,
) -> None:
    """Play routers on the same books with the same luck, and compare what their orders cost.

    Costs are basis points against the consolidated mid at arrival, fees included. Every router is compared order by
    order with the rule that every desk has: dark pools first, then the displayed market. Every size of --shares has a
    table and a verdict of its own.
    Example:

    riskroute backtest --market dark --days 6 --shares 1000 --horizon 60 --out out/backtest
    """
    from riskroute.cli.output import check_outputs, say, track

    check_outputs({"--json": json, "--out": out / "x" if out else None, "--kept": kept / "x"})
    from riskroute.cli.market import require_market_command

    require_market_command()
    from riskroute.core.files import write_json
    from riskroute.simulation.backends import Backend
    from riskroute.study.backtest import run_backtest
    from riskroute.study.candidates import CLAIRVOYANT, check_routers, router_names
    from riskroute.study.config import BacktestConfig
    from riskroute.study.play import TableCache

    config = BacktestConfig(
        shares=tuple(shares or (1000,)),
        side=side,
        lot=lot,
        orders=orders,
        horizon=horizon,
        kappa=kappa,
        routers=check_routers(router or ()),
        hours=hours,
        train=train,
        latency_ms=latency_ms,
        seeds=seeds,
        seed=seed,
        protection=protection,
    )
    where = Backend(backend, address=address)
    cache = TableCache(kept / "played")
    found = market_command_days(market, symbol, days, seed, config.clock_hours, kept, fees, where)
    names = router_names(config.routers, pools=bool(found[0].pools), horizon=horizon, train=train)
    with track(len({*names, CLAIRVOYANT}) * len({day.symbol for day in found}) * seeds, "plays") as progress:
        result = run_backtest(
            market,
            found,
            config,
            backend=where,
            cache=cache,
            finished=lambda task: progress(task.candidate.label, 1, 1),
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


def market_command_days(
    market: str,
    symbol: list[str] | None,
    days: int | None,
    seed: int,
    hours: tuple[dt.time, dt.time] | None,
    kept: Path,
    fees: Path | None,
    backend: Backend,
) -> list[MarketDay]:
    """Days of a market, made ready with progress."""
    from riskroute.cli.output import track
    from riskroute.routing.fees import load_fees
    from riskroute.study.markets import market_days

    schedule = load_fees(fees) if fees is not None else None
    with track(days or 10, "days made ready") as progress:
        return market_days(
            market,
            symbols=tuple(symbol or ()),
            days=days,
            seed=seed,
            hours=hours,
            kept=kept,
            fees=schedule,
            backend=backend,
            progress=progress,
        )


def _say_stresses(result: BacktestResult, backend: Backend, cache: TableCache) -> None:
    from riskroute.cli.output import say, track
    from riskroute.study.stresses import run_stresses, stress_configs, stress_table

    worlds = len(stress_configs(result.config, pools=bool(result.days[0].pools)))
    with track(worlds, "worlds") as progress:
        found = run_stresses(result, backend=backend, cache=cache, progress=progress)
    say("")
    say("Harder worlds: the three routers of the least objective, in bps")
    say(stress_table(found).plain())


def _say_placebos(result: BacktestResult, backend: Backend, cache: TableCache) -> None:
    from riskroute.cli.output import say, waiting
    from riskroute.study.stresses import placebo_table, run_placebos

    with waiting("checking the yardstick"):
        found = run_placebos(result.days, result.config, backend=backend, cache=cache)
    say("")
    say("The yardstick itself: cost with the wrong books, the future or empty pools, less the cost of sweep")
    say(placebo_table(found).plain())


def headroom_command(
    market: Annotated[
        list[str] | None,
        typer.Option(help="paper, comparable, dark or a folder; repeat for more; default: all three."),
    ] = None,
    symbol: Annotated[list[str] | None, typer.Option(help="Symbol; repeat for more.")] = None,
    days: DaysOption = 4,
    hours: HoursOption = None,
    shares: Annotated[list[int] | None, typer.Option(help="Size of orders; default: 10, 100, 1000 and 5000.")] = None,
    horizon: Annotated[list[float] | None, typer.Option(help="Seconds; default: 0, 10, 60 and 300.")] = None,
    kappa: Annotated[list[float] | None, typer.Option(help="Price of risk; default: 0, 0.05 and 0.2.")] = None,
    orders: Annotated[int, typer.Option(help="Orders a day.")] = 200,
    fees: Annotated[Path | None, typer.Option(help="TOML file of fees, for recorded days.")] = None,
    seed: SeedOption = 0,
    kept: KeptOption = Path("out/days"),
    json: Annotated[Path | None, typer.Option(help="Write the table to this .json file.")] = None,
) -> None:
    """Show how much there is to gain, before anything learns: fixed rules against perfect foresight.

    What perfect foresight saves includes knowledge of future prices, so it is an upper bound of what learning can add.
    Example:

    riskroute headroom --market dark --shares 1000 --horizon 0 --horizon 60
    """
    from riskroute.cli.output import check_outputs, say, track

    check_outputs({"--json": json, "--kept": kept / "x"})
    from riskroute.cli.market import require_market_command

    require_market_command()
    from riskroute.core.files import write_json
    from riskroute.core.records import to_plain
    from riskroute.simulation.backends import Backend
    from riskroute.study.config import BacktestConfig
    from riskroute.study.headroom import (
        HORIZONS,
        KAPPAS,
        SIZES,
        headroom_table,
        headroom_words,
        market_headroom,
    )
    from riskroute.study.play import TableCache

    sizes, waits, prices = tuple(shares or SIZES), tuple(horizon or HORIZONS), tuple(kappa or KAPPAS)
    config, backend, found = BacktestConfig(orders=orders, hours=hours, seed=seed), Backend(), []
    names = market or ["paper", "comparable", "dark"]
    with track(len(names) * len(sizes) * len(waits) * len(prices), "cases") as progress:
        for name in names:
            ready = market_command_days(name, symbol, days, seed, config.clock_hours, kept, fees, backend)
            found += market_headroom(
                *(name, ready, config),
                sizes=sizes,
                horizons=waits,
                kappas=prices,
                backend=backend,
                cache=TableCache(kept / "played"),
                progress=progress,
            )
    say(headroom_table(found).plain())
    say("")
    say("Objectives in bps, fees included. For nothing: static less the best rule that looks at the books.")
    say("For learning: the best fixed rule less the clairvoyant, which knows future prices too: an upper bound.")
    say("Estimated: volume of these two beyond the recorded depth.")
    for line in headroom_words(found):
        say(line)
    if json is not None:
        say(f"wrote {write_json(json, [to_plain(one) for one in found])}")
