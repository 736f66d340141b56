"""The commands that simulate policies: ``simulate``, ``design``, ``reproduce`` and ``sweep``."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from riskroute.cli import options
from riskroute.cli.market import require_market_command
from riskroute.cli.options import date_option
from riskroute.cli.output import (
    check_output_paths,
    output_status,
    resumable_output_tasks,
    say,
    show_progress,
    show_simulation,
    write_simulation_output,
)
from riskroute.core.errors import InputError
from riskroute.core.files import write_whole
from riskroute.core.runtime import require_extra
from riskroute.core.validation import one_of

if TYPE_CHECKING:
    from riskroute.paper.experiments import Experiment
    from riskroute.routing.allocations import AllocationDesign
    from riskroute.simulation.backends import Backend

commands = typer.Typer()

BOOKS = ("figure1", "figure3", "figure5", "table")
PLAYED = ("figure2", "figure4", "nonstationary", "autocorrelation", "instances")


_POLICIES = (
    "rise, rise++, risk-ucb, risk-exp-exp, restart-gse, adaptive, thompson, guarded, discounted, sliding-window, "
    "change-test, lin-ucb, lin-thompson, phased-elimination, mv-ucb, mv-thompson, greedy, uniform, oracle"
)


@commands.command("simulate")
def _simulate(
    context: typer.Context,
    slots: Annotated[int, typer.Option(help="Slots: places that take shares (market, limit or dark).")] = 6,
    shares: Annotated[int, typer.Option(help="Order size in shares.")] = 8,
    features: Annotated[
        Path | None,
        typer.Option(
            help="Simulate on your own actions instead of splits: a .npy, .csv or .parquet file, one feature vector "
            "per row."
        ),
    ] = None,
    policy: Annotated[
        list[str] | None, typer.Option(help=f"Policy to simulate; repeat for more. One of {_POLICIES}.")
    ] = None,
    horizon: Annotated[int, typer.Option(help="Rounds per run, one order each.")] = 100_000,
    runs: Annotated[int, typer.Option(help="Independent runs per policy.")] = 50,
    seed: Annotated[int, typer.Option(help="Seed of the rewards and of randomised policies.")] = 0,
    instance_seed: Annotated[int, typer.Option(help="Seed of the coefficients of the random instance.")] = 0,
    risk_tolerance: Annotated[float, typer.Option(help="Weight of the mean against the variance.")] = 2.0,
    workers: Annotated[int, typer.Option(help="Number of processes; results do not depend on it.")] = 1,
    json: Annotated[Path | None, typer.Option(help="Write curves and configuration to this .json file.")] = None,
    parquet: Annotated[Path | None, typer.Option(help="Write the tidy table to this .parquet file.")] = None,
    figure: Annotated[Path | None, typer.Option(help="Draw the curves to this .png, .pdf or .svg file.")] = None,
) -> None:
    """Simulate policies on a random instance and report their regret.

    An instance splits --shares over --slots. Rewards are Gaussian, with mean and variance linear in the split and its
    squares, or in the vectors of --features divided by their largest norm. Regret is the mean-variance of the rewards
    minus that of the best split.
    Example:

    riskroute simulate --slots 4 --shares 4 --policy rise --policy risk-ucb --runs 10 --figure regret.png

    riskroute simulate --features features.csv --policy adaptive --policy rise --runs 10
    """
    from riskroute.simulation.backends import Backend
    from riskroute.simulation.policy_comparison import (
        COMPARED,
        compare_policies,
        compared_policies,
        read_compared_features,
    )

    check_output_paths({"--json": json, "--parquet": parquet, "--figure": figure})
    backend = None if workers == 1 else Backend(workers=workers)
    if features is not None:
        for given in ("slots", "shares"):
            source = context.get_parameter_source(given)
            if source is not None and source.name == "COMMANDLINE":
                raise InputError(f"--{given} cannot be combined with --features, which defines the actions")
    matrix = None if features is None else read_compared_features(features)
    usual = compared_policies(slots, shares) if matrix is None else COMPARED
    names = tuple(dict.fromkeys(policy or usual))
    with show_progress(len(names) * max(runs, 0)) as progress:
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
    show_simulation(result)
    write_simulation_output(result, json, parquet, figure)


@commands.command("design")
def _design(
    shares: Annotated[int, typer.Option(help="Order size in shares.")],
    slots: Annotated[int, typer.Option(help="Number of slots.")],
    lot: Annotated[int, typer.Option(help="Lot size: amounts are multiples of this many shares.")] = 1,
    cap: Annotated[
        list[int] | None, typer.Option(help="Maximum shares in a slot: given once for all, or once per slot.")
    ] = None,
    minimum: Annotated[
        list[int] | None, typer.Option(help="Minimum shares in a slot: given once for all, or once per slot.")
    ] = None,
    tolerance: Annotated[float, typer.Option(help="Target relative distance from the optimum.")] = 0.01,
    json: Annotated[Path | None, typer.Option(help="Write the support, weights and bound to this .json file.")] = None,
) -> None:
    """Compute a G-optimal design: which splits to try, and how often, to learn about all of them.

    The design minimises the largest prediction variance over all splits. Its bound is certified for every split, even
    when there are too many to list.
    Example:

    riskroute design --shares 1000 --slots 20 --json design.json
    """
    check_output_paths({"--json": json})
    with output_status("computing the design and its certificate"):
        from riskroute.routing.allocations import AllocationDesign, Allocations

        allocations = Allocations(shares, slots, lot, caps=_bounds(cap), minimums=_bounds(minimum))
        result = AllocationDesign.compute(allocations, tolerance)
    _show_design(result)
    if json is not None:
        typer.echo(f"wrote {result.save(json)}")


def _bounds(values: list[int] | None) -> int | list[int] | None:
    """Return one bound for all slots, or one per slot."""
    return values[0] if values and len(values) == 1 else values or None


@commands.command("reproduce")
def _reproduce(
    experiment: Annotated[
        str,
        typer.Argument(
            help="Experiment: figure1 to figure5, table, nonstationary, autocorrelation, instances, or all. "
            "Figures 1, 3, 5 and the table are made from order books."
        ),
    ] = "all",
    panel: Annotated[str | None, typer.Option(help="Simulate a single panel of the figure: a, b, c, d or e.")] = None,
    runs: Annotated[int | None, typer.Option(help="Runs per policy; default: 50, and 1 per random instance.")] = None,
    horizon: Annotated[int | None, typer.Option(help="Rounds per run; default: 100,000.")] = None,
    preset: Annotated[
        str,
        typer.Option(
            help="Settings that the paper leaves open: default (ours), or closest (most of its statements hold)."
        ),
    ] = "default",
    seed: Annotated[int, typer.Option(help="Seed of the rewards and of randomised policies.")] = 0,
    policy: Annotated[
        list[str] | None,
        typer.Option(help="Policy to simulate; repeat for more; default: the paper's four and adaptive."),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder written by `riskroute market import`; default: a synthetic market.")
    ] = None,
    symbol: Annotated[str | None, typer.Option(help="Symbol in --data.")] = None,
    date: Annotated[str | None, typer.Option(help="Day in --data, for example 2019-03-27.")] = None,
    backend: options.Backend = "local",
    workers: options.Workers = None,
    address: options.Address = None,
    out: Annotated[Path, typer.Option(help="Folder for figures, tables and summaries.")] = Path("out/reproduce"),
    resume: options.Resume = False,
) -> None:
    """Reproduce the paper's figures and tables, and check its statements about them.

    Writes, per experiment: a figure (.png), the tidy table (.parquet), a summary (.json) and the exact configuration
    (.config.json). claims.md compares the paper's statements with the measurements.
    Example:

    riskroute reproduce figure2 --panel a --runs 10
    """
    check_output_paths({"--out": out / "tasks" / "x"})
    one_of("experiment", experiment, (*BOOKS, *PLAYED, "all"))
    chosen = None if preset == "default" else preset
    played = {"--panel": panel, "--runs": runs, "--horizon": horizon, "--preset": chosen, "--policy": policy}
    read = {"--data": data, "--symbol": symbol, "--date": date}
    for given, elsewhere in ((played, BOOKS), (read, PLAYED)):
        for option, value in given.items():
            if value is not None and experiment in elsewhere:
                raise InputError(f"{option} does not apply to {experiment}, was {str(value)!r}")
    require_extra("figures and pages", "report", "matplotlib")
    summaries: dict[str, dict[str, Any]] = {}
    if experiment not in BOOKS:
        from riskroute.paper.experiments import plan_experiments
        from riskroute.simulation.backends import Backend

        where = Backend(backend, workers, address)
        plans = plan_experiments(
            experiment, panel=panel, runs=runs, horizon=horizon, seed=seed, policies=policy, preset=preset
        )
    if experiment in (*BOOKS, "all"):
        names = list(BOOKS) if experiment == "all" else [experiment]
        summaries |= _from_books(names, data, symbol, date, out, seed)
    if experiment not in BOOKS:
        summaries |= _from_play(plans, where, out, resume)
    if summaries:
        where_to = (out if experiment == "all" else out / experiment) / "claims.md"
        _compare_with_paper(summaries, where_to, remarks=preset == "default")


def _from_books(
    names: list[str], data: Path | None, symbol: str | None, date: str | None, out: Path, seed: int
) -> dict[str, dict[str, Any]]:
    """Draw the figures that are made from order books; return their summaries by name."""
    require_market_command()
    with output_status("reading order books" if data is not None else "generating and reading a synthetic market"):
        from riskroute.market.importing import import_books
        from riskroute.paper.book_figure import LEVELS, draw_book_figure

        books = import_books(data, symbol, out, seed, depth=LEVELS, date=date_option(date))
    found = {}
    for name in names:
        done = draw_book_figure(name, books, out, seed)
        say(f"\n{done.title}\n{done.text}")
        for path in (*done.files, done.draw()):
            say(f"wrote {path}")
        found[name] = done.summary
    return found


def _from_play(plans: list[Experiment], where: Backend, out: Path, resume: bool) -> dict[str, dict[str, Any]]:
    """Simulate experiments; return the summaries of the complete ones by name."""
    from riskroute.paper.experiments import reproduce as play

    summaries = {}
    with resumable_output_tasks(out):
        with show_progress(sum(one.runs for one in plans)) as progress:
            everything = play(
                plans, out, where, resume=resume, finished=lambda task: progress(task.label, count=task.runs)
            )
            first = next(everything)  # all tasks are done by now: close the bar
        for done in itertools.chain([first], everything):
            say(f"\n{done.title}\n{done.table().plain()}")
            for path in (*done.files, *done.draw()):
                say(f"wrote {path}")
            if done.experiment.whole:
                summaries[done.experiment.name] = done.summary
    return summaries


@commands.command("sweep")
def _sweep(
    config: Annotated[Path, typer.Argument(help="TOML file of the grid, see below.")],
    backend: options.Backend = "local",
    workers: options.Workers = None,
    address: options.Address = None,
    out: Annotated[Path, typer.Option(help="Folder for the table, the summary and the configuration.")] = Path(
        "out/sweep"
    ),
    resume: options.Resume = False,
) -> None:
    """Simulate every combination of slots, shares, policies, risk tolerances, horizons and instances of a TOML file.

    All fields have defaults; a single value stands for a list of one:

    slots = [4, 6]; shares = 8; risk_tolerances = [1.0, 2.0]; horizons = 100_000; instances = 30;
    policies = ["adaptive", "rise"]; runs = 10; seed = 0; checkpoints = 1; [parameters.rise] explore_multiplier = 2

    Writes sweep.parquet (one row per run and recorded round), sweep.json and config.json.
    Example:

    riskroute sweep study.toml --out out/study
    """
    check_output_paths({"--out": out / "tasks" / "x"})
    from riskroute.simulation.backends import Backend
    from riskroute.simulation.sweep import SweepConfig
    from riskroute.simulation.sweep import sweep as play

    where, wanted = Backend(backend, workers, address), SweepConfig.read(config)
    with resumable_output_tasks(out), show_progress(wanted.all_runs) as progress:
        done = play(wanted, out, where, resume=resume, finished=lambda task: progress(task.label, count=task.runs))
    say(done.table().plain())
    for path in done.files:
        say(f"wrote {path}")


def _compare_with_paper(summaries: dict[str, dict[str, Any]], path: Path, *, remarks: bool) -> None:
    """Write which of the paper's statements hold; ``remarks`` adds our remarks, which apply to the default preset."""
    from riskroute.paper.claims import claims_markdown, judge_claims

    verdicts = judge_claims(summaries)
    if not verdicts:
        return
    agree = sum(verdict.agrees for verdict in verdicts)
    write_whole(path, lambda beside: beside.write_text(claims_markdown(verdicts, remarks=remarks)))
    say(f"\n{agree} of the paper's {len(verdicts)} statements about these experiments hold here; wrote {path}")


def _show_design(result: AllocationDesign) -> None:
    """Print the certificate of a design and its heaviest patterns."""
    design = result.design
    say(f"{result.allocations!r}")
    say(
        f"rank {design.rank}, largest leverage at most {design.bound:.6g}: within {design.excess:.3%} of the optimum, "
        f"{len(design)} allocations, {result.seconds:.2f} s",
    )
    patterns, shown = result.patterns(), 10
    for pattern, count, weight in patterns[:shown]:
        say(f"  {weight:7.2%} on {count:>5} allocations of {pattern}")
    if len(patterns) > shown:
        rest = sum(weight for _, _, weight in patterns[shown:])
        say(f"  {rest:7.2%} on {len(patterns) - shown} other patterns")
