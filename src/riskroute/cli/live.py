"""The commands ``riskroute live``: make a configuration, run and control the service, examine its log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from riskroute.live.config import LiveConfig
    from riskroute.live.http.control import ControlAnswer
    from riskroute.live.log.interface import Log, LogHead

live = typer.Typer(
    no_args_is_help=True,
    help="Run a router: it takes orders over HTTP, learns from fills, and survives crashes.\n\n"
    "First `riskroute live init`, then `riskroute live serve live.toml`.",
)

ConfigArgument = Annotated[Path, typer.Argument(help="TOML file written by `riskroute live init`.")]
LogArgument = Annotated[Path, typer.Argument(help="A log's SQLite file, or a configuration (.toml) that names it.")]


def require_live_command() -> None:
    """Raise an error with the install command if the live router's dependencies are missing."""
    from riskroute.core.runtime import require_extra

    require_extra("the commands of riskroute live", "live", "starlette", "uvicorn", "prometheus_client")


@live.command("init")
def _init_command(
    file: Annotated[Path, typer.Argument(help="File to write.")] = Path("live.toml"),
    shadow: Annotated[bool, typer.Option("--shadow", help="Configure shadow mode.")] = False,
) -> None:
    """Write a commented configuration, and print its tokens once: the file holds only their hashes.

    The configuration runs as written, on simulated venues.
    Example:

    riskroute live init live.toml
    """
    require_live_command()
    from riskroute.cli.output import say
    from riskroute.live.config import write_live_config

    tokens = write_live_config(file, mode="shadow" if shadow else "live")
    say(f"wrote {file}")
    say("tokens, shown only once; keep them like passwords:")
    for name, token in tokens.items():
        say(f"  {name:8} {token}")
    say(f"next: riskroute live serve {file}")


@live.command("token")
def _token_command() -> None:
    """Generate a token, and print it with its hash, which goes into the configuration.

    Example:

    riskroute live token
    """
    require_live_command()
    from riskroute.cli.output import say
    from riskroute.live.tokens import new_token, token_hash

    token = new_token()
    say(f"token  {token}")
    say(f'hash = "{token_hash(token)}"')


PartitionOption = Annotated[
    str | None,
    typer.Option(metavar="K/N", help="Trade symbol partition K of N; needs PostgreSQL, and one process per partition."),
]


@live.command("serve")
def _serve_command(
    config: ConfigArgument,
    partition: PartitionOption = None,
    listen: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Override the configured address.")] = None,
) -> None:
    """Run the router until Ctrl-C or SIGTERM: recover from the log, query the venues, then take orders.

    POST /orders with a token places an order, which is answered once its decision is durable. SIGUSR1, POST /halt,
    `riskroute live halt` and the halt file halt trading; POST /resume resumes it. After a crash, start it again: no
    answered order is lost.
    On PostgreSQL, a second process for the same partition stands by, and takes over when the first one ends.
    Example:

    riskroute live serve live.toml
    """
    require_live_command()
    from riskroute.live.config import read_live_config

    _serve(read_live_config(config, partition=partition, listen=listen))


def _serve(read: LiveConfig) -> None:
    from riskroute.cli.output import say
    from riskroute.live.http.control import control_socket
    from riskroute.live.http.server import serve
    from riskroute.live.service import Service

    service = Service(read)
    try:
        say("starting: reading the log, querying the venues, warming up")
        if read.log.postgres is None:
            service.start()
        else:
            service.stand_by(lambda held: say(f"standing by: {held}"))
    except BaseException:
        service.close()
        raise
    state = service.engine.state

    def started() -> None:
        say(
            f"{read.mode} on http://{read.listen} with {service.engine.learner.router.name}: {state.decisions:,} orders"
        )
        say(second_way)
        if state.halted:
            say(f"trading is halted: {state.halted}")

    assert read.control_socket is not None
    with control_socket(service, read.control_socket) as second_way:
        began = serve(service, started)
    if not began:
        service.close()
        say(f"cannot listen on {read.listen}: another program may be using it", err=True)
        raise typer.Exit(2)
    if service.engine.fenced:
        say("stopped: another process has taken over", err=True)
        raise typer.Exit(3)
    state, end = service.engine.state, service.engine.end
    ended = f"all in the log, with head {end}" if end else "end not recorded: the next start recovers as after a crash"
    say(f"stopped: {state.decisions:,} orders, {len(state.unsettled):,} unsettled, {ended}")


@live.command("halt")
def _halt_command(
    config: ConfigArgument,
    reason: Annotated[str, typer.Option(help="Reason, for the log and the dashboard.")] = "",
    partition: PartitionOption = None,
) -> None:
    """Halt trading of the running service over its control socket, which works even if its HTTP port does not.

    Returns once the halt is durable. POST /resume resumes trading.
    Example:

    riskroute live halt live.toml --reason "prices look wrong"
    """
    from riskroute.cli.output import say

    say(f"trading is halted: {_ask(config, partition, reason).halted}")


@live.command("health")
def _health_command(config: ConfigArgument, partition: PartitionOption = None) -> None:
    """Print the status of the running service over its control socket: ready, halted, starting or failed.

    Exit code 1 if it is starting or has failed, 2 if it does not run or does not answer.
    Example:

    riskroute live health live.toml
    """
    from riskroute.cli.output import say

    answer = _ask(config, partition)
    say(f"{answer.status}: {answer.halted}" if answer.halted else answer.status)
    if answer.status not in ("ready", "halted"):
        raise typer.Exit(1)


def _ask(config: Path, partition: str | None, halt: str | None = None) -> ControlAnswer:
    """Request the health of the running service over its control socket, or halt it with a reason."""
    require_live_command()
    from riskroute.live.config import read_live_config
    from riskroute.live.http.control import ask_control_socket

    socket = read_live_config(config, partition=partition).control_socket
    assert socket is not None
    return ask_control_socket(socket, halt)


def _log(path: Path) -> Log:
    from riskroute.live.config import read_live_config
    from riskroute.live.log.sqlite import SqliteLog

    return read_live_config(path).open_log(create=False) if path.suffix == ".toml" else SqliteLog(path, create=False)


def _head(log: Log) -> LogHead:
    """Return the head of a log; warn if the log contradicts a recorded head."""
    from riskroute.cli.output import say
    from riskroute.core.errors import DataError
    from riskroute.live.log.interface import check_log_heads

    try:
        check_log_heads(log, log.recorded())
    except DataError as error:
        say(f"warning: {error}", err=True)
    return log.head()


def _named_head(log: Log, text: str) -> LogHead:
    """Return the head given as NUMBER:HASH, or as the HASH of a row alone."""
    from riskroute.core.errors import DataError
    from riskroute.live.log.interface import parse_log_head

    if ":" in text:
        return parse_log_head(text)
    for row in log.read(-1):
        if row.chain.hex() == text.lower():
            return parse_log_head(f"{row.seq}:{text}")
    raise DataError(f"no row of the log has the hash {text!r}: rows are missing, or were rewritten")


@live.command("verify")
def _verify_command(
    log: LogArgument,
    refits: Annotated[
        bool, typer.Option("--refits", help="The router learned in a worker process (refit_every above 0).")
    ] = False,
    head: Annotated[
        str | None,
        typer.Option(metavar="NUMBER:HASH", help="A head that you kept elsewhere, or its HASH; the log must have it."),
    ] = None,
    accept: Annotated[
        bool, typer.Option("--accept", help="Trust this log: record its head, signed with head_key, as the new one.")
    ] = False,
) -> None:
    """Verify the hash chain and the recorded head of a log, and recompute every decision in it, bit for bit.

    Recomputing needs the machine type and package versions named in the log. Exit code 1 if something differs.
    Example:

    riskroute live verify live.sqlite
    """
    require_live_command()
    from riskroute.cli.output import output_status, say
    from riskroute.core.provenance import machine_type, provenance_versions
    from riskroute.live.config import read_live_config
    from riskroute.live.log.interface import check_log_heads, verify_log_chain
    from riskroute.live.log.recovery import verify_log
    from riskroute.routers.registry import file_router, is_file_router, router_parameters

    own = None
    if log.suffix == ".toml":
        router = read_live_config(log).router
        refits = refits or router.refit_every > 0
        name, _ = router_parameters(router.name)
        own = file_router(name) if is_file_router(name) else None
    with _log(log) as opened, output_status("recomputing all decisions"):
        if head is not None:
            check_log_heads(opened, [_named_head(opened, head)])
        end = verify_log_chain(opened, trusted=accept)
        if accept:
            opened.lease("verify", 0, trusted=True)
        recorded = opened.recorded()
        found = verify_log(opened, own, refits=refits) if end.seq else None
        header = opened.header
    say(f"{end.seq:,} rows, hash chain intact; head {end}")
    if not recorded:
        say("no head is recorded: rows missing at the end go undetected")
    if (header.machine, header.versions) != (machine_type(), provenance_versions()):
        say("the log was started on another machine type or with other versions: decisions may differ in the last bit")
    if found is None:
        return
    say(f"{found.decisions:,} decisions recomputed, {len(found.different):,} differ")
    for key in found.different[:10]:
        say(f"  {key}")
    if not found.holds:
        raise typer.Exit(1)


@live.command("replay")
def _replay_command(
    log: LogArgument,
    json: Annotated[Path | None, typer.Option(help="Write the state to this .json file.")] = None,
) -> None:
    """Replay a log and print its final state: orders, positions and costs. The result is the same on any machine.

    Example:

    riskroute live replay live.sqlite --json state.json
    """
    require_live_command()
    import msgspec

    from riskroute.cli.output import check_output_paths, output_status, say
    from riskroute.core.files import write_whole
    from riskroute.live.http.views import encode_view, replay_view
    from riskroute.live.log.recovery import replay_log

    check_output_paths({"--json": json})
    with _log(log) as opened, output_status("replaying the log"):
        head = _head(opened)
        view = replay_view(replay_log(opened, head.seq)) | {"head": str(head)}
    counts = "{events:,} events, {orders:,} orders, {settled:,} settled, {unsettled:,} unsettled"
    say(f"{counts.format_map(view)}; head {head}")
    for symbol, held in view["positions"].items():
        cash, fees, currency = f"{held['cash']:,.2f} cash", f"{held['fees']:,.2f} fees", held["currency"]
        say(f"{symbol:10} {held['quantity']:>12,f} {held['unit']} {cash:>20} {fees:>16} in {currency}")
    cost = view["totals"]["cost_bps"]
    if cost["mean"] is not None:
        say(f"cost against arrival mid: {_interval(cost)} bps")
        say(f"saving against {view['against']}: {_interval(view['totals']['saving_bps'])} bps, estimated")
    if view["halted"]:
        say(f"halted: {view['halted']}")
    if json is not None:
        text = msgspec.json.format(encode_view(view), indent=1) + b"\n"
        say(f"wrote {write_whole(json, lambda beside: beside.write_bytes(text), private=True)}")


def _interval(mean: dict[str, float]) -> str:
    if mean["mean"] is None:
        return "unknown"
    if mean["low"] is None:
        return f"{mean['mean']:.3f}"
    return f"{mean['mean']:.3f} [{mean['low']:.3f}, {mean['high']:.3f}]"


@live.command("export")
def _export_command(
    log: LogArgument,
    out: Annotated[Path, typer.Option(help="Folder for the Parquet files.")] = Path("out/live"),
) -> None:
    """Export the orders, children, fills and books in a log as Parquet files.

    `riskroute market import OUT/books/* --instruments OUT/instruments.toml` imports the books; `riskroute backtest` and
    `riskroute study` then take their folder as `--market`, and OUT/fees.toml as `--fees`.
    Example:

    riskroute live export live.sqlite --out out/live
    """
    require_live_command()
    from riskroute.cli.output import check_output_paths, output_status, say
    from riskroute.live.log.export import export_log

    check_output_paths({"--out": out / "x"})
    with _log(log) as opened, output_status("reading the log"):
        head = _head(opened)
        written = export_log(opened, out, head)
    for path in written:
        say(f"wrote {path}")
    say(f"head {head}")


@live.command("doctor")
def _doctor_command(config: ConfigArgument) -> None:
    """Check what the router needs: configuration, disk, fsync, log, clock, versions and decision time.

    Exit code 1 if a check fails.
    Example:

    riskroute live doctor live.toml
    """
    require_live_command()
    from riskroute.cli.output import say
    from riskroute.live.config import read_live_config
    from riskroute.live.readiness import check_readiness

    failed = 0
    for check in check_readiness(read_live_config(config)):
        failed += not check.passed
        say(f"{'ok' if check.passed else 'BAD':4}  {check.name:14} {check.result}")
    if failed:
        raise typer.Exit(1)
