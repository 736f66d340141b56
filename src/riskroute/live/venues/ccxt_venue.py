"""The kind of venue ``ccxt``: an exchange with streamed books, where orders are simulated unless ``trade`` is set."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec

from riskroute.core.errors import InputError
from riskroute.core.text import one_line_text, shown
from riskroute.live.venues.ccxt_gateway import CcxtGateway
from riskroute.live.venues.ccxt_quotes import CcxtQuotes
from riskroute.live.venues.ccxt_session import DIALECTS, CcxtSession, read_secrets
from riskroute.live.venues.gateway import VenueLink, VenueSetup
from riskroute.live.venues.paper import PaperGateway, PaperMarket, PaperVenue

_Seconds = Annotated[float, msgspec.Meta(gt=0, le=600)]


class CcxtOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The ``options`` of a venue of this kind.

    ``exchange`` is its name in ccxt. ``symbols`` maps our symbols to the exchange's; default: ``QUANTITY/CURRENCY`` of
    the instrument. Without ``trade``, orders are simulated on the streamed books, and arrive after ``paper_ms``. With
    ``trade``, keys come from the variables ``keys_env`` followed by _APIKEY, _SECRET and so on, or from ``keys_file``,
    a TOML file of mode 600. ``url`` replaces the addresses of the exchange. ``timeout_seconds`` is the time limit of a
    request, ``request_seconds`` the time between requests (default: ccxt's), ``poll_seconds`` the time between looks at
    resting orders.
    """

    exchange: str
    symbols: dict[str, str] = msgspec.field(default_factory=dict)
    trade: bool = False
    keys_env: str | None = None
    keys_file: str | None = None
    url: str | None = None
    timeout_seconds: _Seconds = 10.0
    request_seconds: Annotated[float, msgspec.Meta(ge=0, le=60)] | None = None
    poll_seconds: _Seconds = 1.0
    paper_ms: Annotated[float, msgspec.Meta(ge=0, le=60_000)] = 50.0


def ccxt_venue(setup: VenueSetup) -> VenueLink:
    """Return the gateway and the quote source of an exchange."""
    options = _read_options(setup)

    def session(**more: Any) -> CcxtSession:
        return CcxtSession(
            setup.place,
            options.exchange,
            setup.instruments,
            options.symbols,
            url=options.url,
            timeout=options.timeout_seconds,
            rate_limit=options.request_seconds,
            **more,
        )

    streamed = session()
    if not (options.trade and setup.trades):
        market = PaperMarket(setup.instruments, setup.fees)
        latency = options.paper_ms / 1000
        venue = PaperVenue(
            setup.place, market, setup.clock, terms=streamed.terms, journal=setup.journal, latency=latency
        )
        paper = PaperGateway(venue)
        source = CcxtQuotes(streamed, setup.clock, paper)
        source.on_loaded = paper.ready
        return VenueLink(paper, source)
    file = None if options.keys_file is None else setup.journal.parent / Path(options.keys_file).expanduser()
    gateway = CcxtGateway(session(secrets=read_secrets(setup.place, options.keys_env, file)), setup.clock)
    gateway.poll_seconds = options.poll_seconds
    return VenueLink(gateway, CcxtQuotes(streamed, setup.clock))


def _read_options(setup: VenueSetup) -> CcxtOptions:
    """Return the options; errors never state values of fields that are unknown, which may be keys."""
    known = CcxtOptions.__struct_fields__
    if unknown := sorted(set(setup.options) - set(known)):
        raise InputError(
            f"unknown option {shown(unknown[0])} of {setup.place}; options are {', '.join(known)}; keys belong into "
            "the environment (keys_env) or a file of mode 600 (keys_file)"
        )
    try:
        options = msgspec.convert(dict(setup.options), CcxtOptions)
    except msgspec.ValidationError as error:
        raise InputError(f"options of {setup.place}: {one_line_text(error)}") from None
    if missing := sorted(set(options.symbols) - set(setup.instruments)):
        raise InputError(f"symbols of {setup.place} must be instruments of the configuration, had {shown(missing[0])}")
    if options.trade and options.exchange not in DIALECTS:
        raise InputError(
            f"exchange of {setup.place} must be one of {', '.join(DIALECTS)} to trade, was {shown(options.exchange)}: "
            "how others take the client's id of an order is not known"
        )
    return options
