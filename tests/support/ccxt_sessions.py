"""Sessions of ccxt with loopback exchanges, and waiting for what they report."""

from __future__ import annotations

import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from live_engines import Listener
from loopback_exchanges import ExchangeServer
from riskroute.core.instrument import Instrument
from riskroute.live.state.execution_reports import ExecutionReport
from riskroute.live.state.orders import ChildOrder
from riskroute.live.venues.ccxt_gateway import CcxtGateway
from riskroute.live.venues.ccxt_session import DIALECTS, CcxtSession, Secrets

KEY, SECRET = "the-key-of-this-test-0123456789", "dGhlLXNlY3JldC1vZi10aGlzLXRlc3Qtd2hpY2gtaXMtbG9uZw=="


def instruments(server: ExchangeServer) -> dict[str, Instrument]:
    """The instruments of a loopback exchange, by our symbols."""
    made = {}
    for name, one in server.exchange.markets.items():
        symbol = name.replace("/", "")
        made[symbol] = Instrument(
            symbol, unit=Decimal(one.lot), tick=Decimal(one.tick), quantity=one.base, currency=one.quote, zone="UTC"
        )
    return made


def session(place: str, server: ExchangeServer, exchange: str, **more: Any) -> CcxtSession:
    """A session with a loopback exchange, with short times."""
    dialect = DIALECTS[exchange]._replace(horizon=more.pop("horizon", 0.5))
    return CcxtSession(
        place,
        exchange,
        instruments(server),
        secrets=Secrets({"apiKey": KEY, "secret": SECRET}),
        url=server.url,
        timeout=more.pop("timeout", 0.5),
        rate_limit=0.0,
        dialect=dialect,
        **more,
    )


class Reached:
    """A gateway that is up, and what it says."""

    def __init__(self, gateway: CcxtGateway) -> None:
        self.gateway, self.heard = gateway, list[ExecutionReport]()
        self.listener = Listener(self.heard)
        gateway.connect(self.listener)
        self.wait(lambda: "up" in self.listener.states)

    def wait(self, done: Callable[[], Any], seconds: float = 120.0) -> Any:
        until = time.monotonic() + seconds
        while not (found := done()):
            assert time.monotonic() < until, (self.listener.states, self.heard)
            time.sleep(0.002)
        return found

    def of(self, child: ChildOrder, *kinds: str) -> list[ExecutionReport]:
        """The reports of a child, each exec id once."""
        found = {one.exec_id: one for one in list(self.heard) if one.child == child.id}
        return [one for one in found.values() if not kinds or one.kind in kinds]

    def ended(self, child: ChildOrder) -> ExecutionReport:
        kinds = ("cancelled", "expired", "rejected", "not_known")
        found: list[ExecutionReport] = self.wait(lambda: self.of(child, *kinds))
        return found[-1]
