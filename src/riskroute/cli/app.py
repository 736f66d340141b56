"""Commands of riskroute. Heavy modules load inside the commands, so that ``--help`` answers at once."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from riskroute._version import __version__
from riskroute.cli.backtest import backtest_command, headroom_command
from riskroute.cli.demo import demo_command
from riskroute.cli.live import live
from riskroute.cli.live_demo import live_demo_command
from riskroute.cli.market import market
from riskroute.cli.reproduce import reproduce_command, sweep_command
from riskroute.cli.route import route_command
from riskroute.cli.split_study import split_study_command
from riskroute.cli.study import study_command

app = typer.Typer(
    name="riskroute",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="A smart order router that learns: risk-aware linear bandits over splits of an order.",
)

# Of click, which typer may bring as a copy of its own and does not export.
UsageError: type[Exception] = typer.BadParameter.__bases__[0]

POLICY_NAMES = (
    "rise, rise++, risk-ucb, risk-exp-exp, restart-gse, adaptive, thompson, guarded, discounted, sliding-window, "
    "change-test, lin-ucb, lin-thompson, phased-elimination, mv-ucb, mv-thompson, greedy, uniform, oracle"
)

app.command("demo")(demo_command)
app.command("study")(study_command)
app.command("route")(route_command)
app.command("backtest")(backtest_command)
app.command("headroom")(headroom_command)
app.command("reproduce")(reproduce_command)
app.command("sweep")(sweep_command)
app.command("split-study")(split_study_command)
app.add_typer(market, name="market")
live.command("demo")(live_demo_command)
app.add_typer(live, name="live")


def run(arguments: list[str]) -> int:
    """Run the command line; returns the exit code. Errors become one line on standard error."""
    from riskroute.core.errors import RiskrouteError

    if not arguments:
        arguments = ["--help"]
    try:
        code = _commands()(arguments, standalone_mode=False, obj=tuple(arguments))
    except UsageError as error:
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
    """What the functions and their annotations say, read once however often `run` is called."""
    return typer.main.get_command(app)


def _fail(message: str) -> int:
    typer.echo(f"riskroute: {message}", err=True)
    return 2


def _usage(error: Exception, arguments: list[str]) -> str:
    """One line for a mistyped option: what it was given, and where to read on."""
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
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    pass


@app.command("simulate")
def simulate_command(
    context: typer.Context,
    slots: Annotated[int, typer.Option(help="Places to put shares (market, limit or dark slots).")] = 6,
    shares: Annotated[int, typer.Option(help="Shares of the order to split.")] = 8,
    features: Annotated[
        Path | None,
        typer.Option(
            help="Play on actions of your own instead of splits: a .npy, .csv or .parquet file of numbers, one feature "
            "vector per row."
        ),
    ] = None,
    policy: Annotated[
        list[str] | None, typer.Option(help=f"Policy to play; repeat for more. One of {POLICY_NAMES}.")
    ] = None,
    horizon: Annotated[int, typer.Option(help="Rounds per run: orders routed one after the other.")] = 100_000,
    runs: Annotated[int, typer.Option(help="Independent runs per policy.")] = 50,
    seed: Annotated[int, typer.Option(help="Seed of the rewards and the policies' own draws.")] = 0,
    instance_seed: Annotated[int, typer.Option(help="Which random instance (coefficients) to play.")] = 0,
    risk_tolerance: Annotated[float, typer.Option(help="Weight of the mean against the variance.")] = 2.0,
    workers: Annotated[int, typer.Option(help="Processes to play in. Numbers do not depend on it.")] = 1,
    json: Annotated[Path | None, typer.Option(help="Write curves and configuration to this .json file.")] = None,
    parquet: Annotated[Path | None, typer.Option(help="Write the tidy table to this .parquet file.")] = None,
    figure: Annotated[Path | None, typer.Option(help="Draw the curves to this .png, .pdf or .svg file.")] = None,
) -> None:
    """Play policies on a random instance of S shares over M slots, however many splits there are.

    Rewards are Gaussian with mean and variance linear in the split and its squares, or in the feature vectors of
    --features, which are all divided by the largest norm of one.
    Regret is the mean-variance of what was earned, minus that of the best split.
    Example:

    riskroute simulate --slots 4 --shares 4 --policy rise --policy risk-ucb --runs 10 --figure regret.png

    riskroute simulate --features features.csv --policy adaptive --policy rise --runs 10
    """
    from riskroute.cli.output import check_outputs, show, track, write_simulation
    from riskroute.core.errors import InputError
    from riskroute.simulation.backends import Backend
    from riskroute.simulation.comparison import COMPARED, compare_policies, compared_policies, read_features

    check_outputs({"--json": json, "--parquet": parquet, "--figure": figure})
    backend = None if workers == 1 else Backend(workers=workers)
    if features is not None:
        for given in ("slots", "shares"):
            source = context.get_parameter_source(given)
            if source is not None and source.name == "COMMANDLINE":
                raise InputError(f"--{given} must be left out with --features, which has the actions, was given")
    matrix = None if features is None else read_features(features)
    usual = compared_policies(slots, shares) if matrix is None else COMPARED
    names = tuple(dict.fromkeys(policy or usual))
    with track(len(names) * max(runs, 0)) as progress:
        result = compare_policies(
            features=matrix,
            slots=slots,
            shares=shares,
            policies=names,
            horizon=horizon,
            runs=runs,
            seed=seed,
            instance_seed=instance_seed,
            risk_tolerance=risk_tolerance,
            progress=progress,
            backend=backend,
        )
    show(result)
    write_simulation(result, json, parquet, figure)


@app.command("design")
def design_command(
    shares: Annotated[int, typer.Option(help="Shares of the order to split.")],
    slots: Annotated[int, typer.Option(help="Places to put shares.")],
    lot: Annotated[int, typer.Option(help="Amounts are multiples of this many shares.")] = 1,
    cap: Annotated[
        list[int] | None, typer.Option(help="Most shares in a slot: once for all, or once per slot.")
    ] = None,
    minimum: Annotated[
        list[int] | None, typer.Option(help="Fewest shares in a slot: once for all, or once per slot.")
    ] = None,
    tolerance: Annotated[float, typer.Option(help="Relative distance from the optimum to aim at.")] = 0.01,
    json: Annotated[Path | None, typer.Option(help="Write the support, weights and bound to this .json file.")] = None,
) -> None:
    """Find which splits to try, and how often, to learn about all splits at once.

    The G-optimal design makes the worst-known split as well known as possible.
    Its bound is proven over every split, also when there are far too many to list.
    Example:

    riskroute design --shares 1000 --slots 20 --json design.json
    """
    from riskroute.cli.output import check_outputs, show_design, waiting

    check_outputs({"--json": json})
    with waiting("looking for the best splits to try, and for a proof"):
        from riskroute.routing.allocations import Allocations, DesignResult

        allocations = Allocations(shares, slots, lot, caps=_bounds(cap), minimums=_bounds(minimum))
        result = DesignResult.compute(allocations, tolerance)
    show_design(result)
    if json is not None:
        typer.echo(f"wrote {result.save(json)}")


def _bounds(values: list[int] | None) -> int | list[int] | None:
    """One number stands for all slots."""
    return values[0] if values and len(values) == 1 else values or None
