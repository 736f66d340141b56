"""The parts of a running router as its configuration has them: log, router, and venues."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from riskroute.core.errors import InputError
from riskroute.core.validation import in_file_name
from riskroute.live.config import LiveConfig
from riskroute.live.log.interface import Log
from riskroute.live.log.sqlite import SqliteLog
from riskroute.live.market_history import MarketHistory
from riskroute.live.order_terms import nano
from riskroute.live.venues.gateway import Gateway
from riskroute.live.venues.served import FeeMarket, JournalledVenue, ServedVenue
from riskroute.routers.registry import (
    file_router,
    in_file,
    make_router,
    restore_router,
    router_name,
    router_parameters,
)
from riskroute.routers.router import Router


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
