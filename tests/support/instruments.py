"""Instruments of tests, with numbers as text."""

from __future__ import annotations

from typing import Any

from riskroute.core.instrument import Instrument


def instrument_of(symbol: str = "", **fields: Any) -> Instrument:
    """Return an instrument; numbers may be text."""
    return Instrument(symbol, **fields)
