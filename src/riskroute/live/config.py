"""What a running router is: its log, router, venues, limits and who may do what, from one TOML file."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import math
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from riskroute.core.config import Name, Seed, config_list, read_toml_config, validated_config
from riskroute.core.errors import InputError
from riskroute.core.validation import in_file_name
from riskroute.live.limits import Limits
from riskroute.live.log.interface import Log
from riskroute.live.log.sqlite import SqliteLog
from riskroute.live.market_history import MarketHistory
from riskroute.live.orders import LARGEST_QUANTITY
from riskroute.live.state.events import NANO
from riskroute.live.venues.gateway import Gateway
from riskroute.live.venues.simulated import Faults, FeeMarket, JournalledVenue, ServedVenue
from riskroute.routers.registry import (
    file_router,
    in_file,
    make_router,
    restore_router,
    router_name,
    router_parameters,
)
from riskroute.routers.router import Router

HASH = "sha256:"
"""How the hash of a token begins; tokens are random and long, so a plain hash of one cannot be undone."""

LONGEST_TOKEN = 200
"""Characters of a token, at most."""


class Known(Protocol):
    """What is known of a token: its hash, and what it is good for."""

    @property
    def hash(self) -> str:
        """As `token_hash` gives it."""

    @property
    def scopes(self) -> Sequence[str]:
        """What it is good for."""


def new_token() -> str:
    """A token that nobody guesses."""
    return secrets.token_urlsafe(32)


def token_hash(token: str) -> str:
    """The hash of a token, as it stands in the configuration."""
    return HASH + hashlib.sha256(token.encode()).hexdigest()


def token_owner(tokens: Mapping[str, Known], token: str) -> tuple[str, frozenset[str]] | None:
    """Who has a token, and its scopes; None if nobody has. The time does not tell how near a guess was."""
    given, found = token_hash(token), None
    for name, one in tokens.items():
        if hmac.compare_digest(given, one.hash):
            found = name, frozenset(one.scopes) | {"read"}
    return found


def bearer_owner(tokens: Mapping[str, Known], header: str) -> tuple[str, frozenset[str]] | None:
    """Who sent a header ``Authorization``, and the scopes of the token; None if the token is nobody's or missing."""
    word, _, token = header.partition(" ")
    if word.lower() != "bearer" or not 0 < len(token) <= LONGEST_TOKEN:
        return None
    return token_owner(tokens, token)


SCOPES = ("trade", "halt", "read")
"""What a token may be good for: orders and resuming, halting, and looking. To trade or to halt includes to read."""

MOST_PARTITIONS = 1_000
"""Processes that share the symbols, at most."""

Scope = Literal["trade", "halt", "read"]
Fraction = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Dollars = Annotated[float, Field(ge=-10, le=10, allow_inf_nan=False)]
Amount = Annotated[float, Field(gt=0, le=1e18, allow_inf_nan=False)]
Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]
Whole = Annotated[int, Field(ge=0, le=10**15, strict=True)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class LogConfig(_Section):
    """Where everything is written: a file of SQLite, or a database of PostgreSQL."""

    path: Path | None = None
    postgres: str | None = None
    stream: Annotated[str, Field(min_length=1, max_length=64)] = "main"
    snapshot_every: Whole = 10_000
    lease_seconds: Seconds = 3.0
    quotes: bool = True

    @model_validator(mode="after")
    def _one_store(self) -> LogConfig:
        if (self.path is None) == (self.postgres is None):
            raise ValueError("given either a path or a postgres address, one of them and not both")
        return self


class RouterConfig(_Section):
    """Which router decides; with ``state``, as it is in that file."""

    name: str = "dark-first+sweep"
    state: Path | None = None
    refit_every: Whole = 0
    decision_ms: Amount | None = None


class PlaceConfig(_Section):
    """A venue or a pool, simulated: its fees in dollars a share, and how it behaves."""

    kind: Literal["simulated"] = "simulated"
    taker: Dollars = 0.0
    maker: Dollars = 0.0
    latency_ms: Annotated[float, Field(ge=0, le=60_000)] = 1.0
    seed: Seed = 0
    fill_seconds: Seconds = 1.0
    reject: Fraction = 0.0
    partial: Fraction = 0.0
    duplicate: Fraction = 0.0
    disorder: Fraction = 0.0
    silence: Fraction = 0.0
    lost: Fraction = 0.0

    @property
    def faults(self) -> Faults:
        """What goes wrong there."""
        return Faults(self.reject, self.partial, self.duplicate, self.disorder, self.silence, self.lost)


class PoolConfig(PlaceConfig):
    """A dark pool: its fee, where it trades, and the shares that it holds on average."""

    fee: Dollars = 0.0
    improvement: Annotated[float, Field(ge=-1, le=1)] = 0.0
    hidden: Whole = 100


class InstrumentConfig(_Section):
    """What may be traded."""

    lot: Annotated[int, Field(ge=1, le=LARGEST_QUANTITY, strict=True)] = 1
    tick: Amount = 0.01


class LimitsConfig(_Section):
    """`Limits` in shares, dollars and seconds."""

    order_quantity: Whole = 100_000
    order_notional: Amount = 1_000_000
    symbol_quantity: Whole = 1_000_000
    symbol_notional: Amount = 10_000_000
    venue_open: Whole = 1_000
    day_orders: Whole = 100_000
    day_notional: Amount = 100_000_000
    day_loss: Amount = 10_000
    day_rejects: Whole = 1_000
    rejects_in_a_row: Whole = 20
    unknown: Whole = 20
    unsettled: Whole = 1_000
    collar_bps: Annotated[int, Field(ge=0, le=10_000, strict=True)] = 500
    quote_seconds: Seconds = 2.0
    stale_quotes: Whole = 100
    clock_jump_seconds: Seconds = 5.0
    slow_write_seconds: Seconds = 10.0

    def limits(self) -> Limits:
        """The same in the units of the engine."""
        given = self.model_dump()
        moved = {"collar_bps": "collar"} | {
            f"{name}_seconds": name for name in ("clock_jump", "slow_write")
        }  # fmt: skip
        moved["quote_seconds"] = "quote_age"
        units = {"order_notional", "symbol_notional", "day_notional", "day_loss"}
        return Limits(
            **{
                moved.get(name, name): round(value * NANO) if name in units or name.endswith("_seconds") else value
                for name, value in given.items()
            }
        )


def _hash(value: str) -> str:
    digits = value.removeprefix(HASH)
    if not value.startswith(HASH) or len(digits) != 64 or set(digits) - set("0123456789abcdef"):
        raise ValueError(f"{HASH} and 64 hexadecimal digits, as `riskroute live init` writes it")
    return value


class TokenConfig(_Section):
    """Somebody who may use the service: the hash of the token, and what it is good for."""

    hash: Annotated[str, AfterValidator(_hash)] = Field(repr=False)
    scopes: Annotated[list[Scope], BeforeValidator(config_list), Field(min_length=1)]


def _address(value: str) -> str:
    host, colon, port = value.rpartition(":")
    if not colon or not host or not port.isdigit() or int(port) > 65_535:
        raise ValueError("HOST:PORT, such as 127.0.0.1:8470")
    return value


def _partition(value: str) -> str:
    one, slash, all_of_them = value.partition("/")
    if not (slash and one.isdigit() and all_of_them.isdigit() and 1 <= int(one) <= int(all_of_them) <= MOST_PARTITIONS):
        raise ValueError(f"K/N, the how-manieth of how many, at most {MOST_PARTITIONS}, such as 1/2")
    return value


class LiveConfig(_Section):
    """Everything in the file."""

    mode: Literal["live", "shadow"] = "live"
    partition: Annotated[str, AfterValidator(_partition)] = "1/1"
    listen: Annotated[str, AfterValidator(_address)] = "127.0.0.1:8470"
    public: bool = False
    log: LogConfig
    router: RouterConfig = RouterConfig()
    venues: Annotated[dict[Name, PlaceConfig], Field(min_length=1)]
    pools: dict[Name, PoolConfig] = {}
    instruments: Annotated[dict[Name, InstrumentConfig], Field(min_length=1)]
    limits: LimitsConfig = LimitsConfig()
    tokens: Annotated[dict[Name, TokenConfig], Field(min_length=1)]
    patience_seconds: Seconds = 2.0
    longest_seconds: Seconds = 3_600.0
    body_bytes: Annotated[int, Field(ge=1_000, le=16_000_000, strict=True)] = 1_000_000
    halt_file: Path | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Host and port to listen on."""
        host, _, port = self.listen.rpartition(":")
        return host.strip("[]"), int(port)

    @property
    def part(self) -> tuple[int, int]:
        """Which partition this is, from 1 on, and of how many."""
        return _part(self.partition)

    @property
    def stream(self) -> str:
        """Name of the log: each partition has its own."""
        one, all_of_them = self.part
        return self.log.stream if all_of_them == 1 else f"{self.log.stream}.{one}of{all_of_them}"

    @property
    def lease_seconds(self) -> float:
        """How long a lease lasts: on PostgreSQL another router may stand by, a file of SQLite has one router."""
        return math.inf if self.log.postgres is None else self.log.lease_seconds

    def partition_of(self, symbol: str) -> int:
        """Which partition trades a symbol, from 1 on: the same in all processes, for any list of symbols."""
        parts = self.part[1]
        return int.from_bytes(hashlib.blake2b(symbol.encode(), digest_size=8).digest()) % parts + 1 if parts > 1 else 1


@lru_cache
def _part(partition: str) -> tuple[int, int]:
    one, _, all_of_them = partition.partition("/")
    return int(one), int(all_of_them)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def live_config(values: Mapping[str, Any]) -> LiveConfig:
    """Make a configuration of plain values; `InputError` names field, value and what was expected."""
    config = validated_config(LiveConfig, dict(values))
    both = sorted(set(config.venues) & set(config.pools))
    if both:
        raise InputError(f"venues and pools must have different names, was {both[0]!r} for one of each")
    if config.part[1] > 1 and config.log.postgres is None:
        raise InputError(f"partition must be 1/1 with a file as log, was {config.partition!r}: others need PostgreSQL")
    if not config.public and not _is_loopback(config.address[0]):
        raise InputError(f"listen must be a loopback address unless public = true, was {config.listen!r}")
    return config


def read_live_config(path: Path, **more: str | None) -> LiveConfig:
    """Read a configuration file; paths in it are beside the file unless they are absolute.

    ``more`` are values that count instead of those in the file, unless they are None.
    """
    given = {name: value for name, value in more.items() if value is not None}
    config = live_config({**read_toml_config(path), **given})
    beside = path.absolute().parent

    def placed(given: Path | None) -> Path | None:
        return None if given is None else beside / given.expanduser()

    log = config.log.model_copy(update={"path": placed(config.log.path)})
    name = config.router.name
    if ".py:" in name:  # the file of a router of your own
        name = str(placed(Path(name)))
    router = config.router.model_copy(update={"name": name, "state": placed(config.router.state)})
    return config.model_copy(update={"log": log, "router": router, "halt_file": placed(config.halt_file)})


def write_template(path: Path, *, mode: str = "live") -> dict[str, str]:
    """Write a commented configuration and return the tokens by name; they are written nowhere."""
    if path.exists():
        raise InputError(f"file must be new, was {str(path)!r}, which is there already")
    tokens = {name: new_token() for name in ("desk", "risk", "screen")}
    text = TEMPLATE.format(mode=mode, **{name: token_hash(token) for name, token in tokens.items()})
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise InputError(f"file must be writable, was {str(path)!r}: {error.strerror or error}") from None
    return tokens


TEMPLATE = """\
# A running router: riskroute live serve THIS-FILE. Paths are beside this file.

mode = "{mode}"                # live: trades; shadow: learns from what another router did, and sends nothing
listen = "127.0.0.1:8470"    # only this machine can reach it; put a proxy with TLS before it for others
# partition = "1/1"          # K/N: trade the K-th of N parts of the symbols; several parts need PostgreSQL
# public = true              # needed to listen on an address that others can reach
# patience_seconds = 2.0     # after so long without an answer a venue is asked
# longest_seconds = 3600.0   # an order must be done within that time
# body_bytes = 1000000       # larger requests are refused
halt_file = "HALT"           # while this file is there, trading is halted; so does the signal SIGUSR1

[log]
path = "live.sqlite"         # or: postgres = "host=/run/postgresql dbname=riskroute" (riskroute[postgres])
stream = "main"
# snapshot_every = 10000     # events
# quotes = true              # whether books and trades sent to /quotes are written down too, to backtest on them
# lease_seconds = 3.0        # PostgreSQL: a router that is silent for so long may be replaced by one that stands by

[router]
name = "dark-first+sweep"    # NAME or NAME:KEY=VALUE,... as in riskroute backtest, or your own: FILE.py:CLASS
# state = "state.json"       # begin with what a router has learned: written by riskroute study
# refit_every = 0            # 0: learn from every order at once; otherwise from so many together, beside trading
# decision_ms = 50.0         # a router that takes longer is put out of service

[instruments.DEMO]
lot = 1
tick = 0.01

[venues.NYSE]                # simulated venues trade on the quotes that orders bring
taker = 0.0030               # dollars a share; a rebate is negative
maker = -0.0020
# latency_ms = 1.0
# seed = 0
# fill_seconds = 1.0         # a resting order meets somebody so often, on average

[venues.NASDAQ]
taker = 0.0030
maker = -0.0015

[pools.DARK]
fee = 0.0010
improvement = 0.0            # half-spreads from the mid, in favour of the order
hidden = 300                 # shares that it holds, on average

[limits]                     # hold whatever the router says
order_quantity = 100000      # shares
order_notional = 1000000     # dollars
symbol_quantity = 1000000    # of orders that are not settled
symbol_notional = 10000000
venue_open = 1000            # children at one venue
day_orders = 100000
day_notional = 100000000
day_loss = 10000             # dollars of cost against arrival mids; more halts
day_rejects = 1000           # more halts, and so do the next three
rejects_in_a_row = 20
unknown = 20
stale_quotes = 100
unsettled = 1000             # beyond, the safe router sweep decides
collar_bps = 500             # no child is sent further from the arrival mid
quote_seconds = 2.0          # older quotes are refused
clock_jump_seconds = 5.0
slow_write_seconds = 10.0

# Tokens are sent as "Authorization: Bearer TOKEN". Only their hashes are here: riskroute live token makes more.
[tokens.desk]
hash = "{desk}"
scopes = ["trade"]           # orders, quotes, and to resume after a halt

[tokens.risk]
hash = "{risk}"
scopes = ["halt"]            # to halt

[tokens.screen]
hash = "{screen}"
scopes = ["read"]            # to look; the others may look too
"""
"""The commented configuration that `riskroute live init` writes."""


def open_log(config: LiveConfig, *, create: bool = True) -> Log:
    """The log of a configuration."""
    if config.log.path is not None:
        return SqliteLog(config.log.path, config.stream, create=create)
    from riskroute.live.log.postgres import PostgresLog

    return PostgresLog(str(config.log.postgres), config.stream, create=create)


def configured_router(config: LiveConfig) -> Router:
    """The router of a configuration: by name, or as it is in a state file; both must agree if both are given."""
    name, parameters = router_parameters(config.router.name)
    if config.router.state is None:
        return make_router(name, **parameters)
    state = _read_state(config.router.state)
    if in_file(name):
        return file_router(name).restore(state)
    router = restore_router(state)
    given = "name" in config.router.model_fields_set
    if given and router_name(name) not in (router.name, router.parameters.get("policy")):
        raise InputError(f"router.name must be {router.name}, as in its state file, was {name}")
    return router


def _read_state(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except OSError as error:
        raise InputError(f"router.state must be a readable file, was {str(path)!r}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise InputError(f"router.state must be a JSON file, was {str(path)!r}, which is none") from None


def configured_venues(config: LiveConfig, board: MarketHistory, clock: Callable[[], int]) -> dict[str, Gateway]:
    """The venues and pools of a configuration; none in shadow mode, which sends nothing."""
    if config.mode == "shadow":
        return {}
    fees = {name: (nano(one.taker), nano(one.maker)) for name, one in config.venues.items()}
    fees |= {name: (nano(one.fee), nano(one.fee)) for name, one in config.pools.items()}
    hidden = {name: one.hidden for name, one in config.pools.items()}
    beside = config.log.path or config.halt_file
    folder = Path.cwd() if beside is None else beside.parent
    stem = config.stream if config.log.path is None else config.log.path.name
    made: dict[str, Gateway] = {}
    for name, one in {**config.venues, **config.pools}.items():
        venue = JournalledVenue(
            name,
            FeeMarket(board, fees, one.seed, hidden, one.fill_seconds),
            clock,
            latency=one.latency_ms / 1000,
            faults=one.faults,
            seed=one.seed,
            journal=folder / f"{stem}-venue-{in_file_name(name)}.jsonl",
        )
        made[name] = ServedVenue(venue)
    return made


def nano(dollars: float) -> int:
    """Convert dollars to the log's units of 1e-9 dollars."""
    return round(dollars * NANO)
