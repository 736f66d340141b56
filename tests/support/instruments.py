"""Instruments of tests, with numbers as text: thirty of all kinds of markets."""

from __future__ import annotations

from typing import Any

from riskroute.core.instrument import Instrument


def instrument_of(symbol: str = "", **fields: Any) -> Instrument:
    """Return an instrument; numbers may be text."""
    return Instrument(symbol, **fields)


_CRYPTO = {"zone": "UTC", "currency": "USDT"}
_FUTURE = {"zone": "America/New_York", "hours": "18:00-17:00", "quantity": "contracts"}
_EVENT = {"zone": "UTC", "quantity": "contracts", "unit": "1"}

THIRTY = (
    instrument_of("BTCUSDT", unit="0.00001", tick="0.01", quantity="BTC", **_CRYPTO),
    instrument_of("ETHUSDT", unit="0.0001", tick="0.01", quantity="ETH", minimum_notional="5", **_CRYPTO),
    instrument_of("BTCUSD", unit="0.00000001", tick="0.01", quantity="BTC", zone="UTC"),
    instrument_of("SHIBUSDT", unit="1", tick="0.00000001", quantity="SHIB", **_CRYPTO),
    instrument_of("PEPEUSDT", unit="1", tick="0.000000001", quantity="PEPE", **_CRYPTO),
    instrument_of("BONKIDR", unit="1000000", tick="0.0001", quantity="BONK", zone="Asia/Tokyo", currency="IDR"),
    instrument_of("DOGEUSDT", unit="1", tick="0.00001", quantity="DOGE", lot="10", **_CRYPTO),
    instrument_of("XRPBTC", unit="0.1", tick="0.00000001", quantity="XRP", zone="UTC", currency="BTC"),
    instrument_of("BTC-PERP", unit="0.001", tick="0.1", quantity="BTC", **_CRYPTO),
    instrument_of("BTC-INV", unit="1", tick="0.5", quantity="contracts", multiplier="100", zone="UTC"),
    instrument_of("BTC-OPT", unit="0.1", tick="0.0005", quantity="contracts", zone="UTC", currency="BTC"),
    instrument_of("ES", tick="0.25", multiplier="50", **_FUTURE),
    instrument_of("MES", tick="0.25", multiplier="5", **_FUTURE),
    instrument_of("CL", tick="0.01", multiplier="1000", negative_prices=True, **_FUTURE),
    instrument_of("NG", tick="0.001", multiplier="10000", **_FUTURE),
    instrument_of("ZN", tick="0.015625", multiplier="1000", **_FUTURE),
    instrument_of("6J", tick="0.0000005", multiplier="12500000", **_FUTURE),
    instrument_of("CL-SPREAD", tick="0.01", multiplier="1000", negative_prices=True, **_FUTURE),
    instrument_of("POWER", unit="0.1", tick="0.01", quantity="MWh", currency="EUR", zone="UTC", negative_prices=True),
    instrument_of(
        "NIKKEI", unit="1", tick="5", multiplier="1000", quantity="contracts", currency="JPY", zone="Asia/Tokyo"
    ),
    instrument_of("AAPL", protection="reg-nms"),
    instrument_of("BRK.A", protection="reg-nms", hours="09:30-16:00"),
    instrument_of("PENNY", tick="0.0001", protection="reg-nms"),
    instrument_of("VOD", tick="0.02", currency="GBX", zone="Europe/London", hours="08:00-16:30"),
    instrument_of("7203", lot="100", tick="1", currency="JPY", zone="Asia/Tokyo", hours="09:00-15:30"),
    instrument_of("KOSPI", tick="100", currency="KRW", zone="Asia/Seoul", hours="09:00-15:30"),
    instrument_of("EURUSD", unit="1000", tick="0.00001", quantity="EUR", hours="17:00-17:00"),
    instrument_of("GOLD", unit="0.001", tick="0.01", quantity="oz", zone="Europe/London", minimum_quantity="0.01"),
    instrument_of("EVENT", tick="0.01", **_EVENT),
    instrument_of("EVENT-FINE", tick="0.001", minimum_quantity="5", currency="USDC", **_EVENT),
)
