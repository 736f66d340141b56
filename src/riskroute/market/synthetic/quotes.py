"""Best bids and asks of the synthetic market, step by step: targets that the order flow of every venue follows.

Prices follow one fundamental price per stock. A venue quotes on its own, around that price with a little noise and a
spread that wanders, or it shares in the best quotes of one market, at times a few ticks behind them.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from scipy.special import ndtri

from riskroute.core.arrays import Floats, Integers
from riskroute.core.seeding import seed_stream
from riskroute.market.clock import SECOND
from riskroute.market.synthetic.venues import REFERENCE_PRICE, OwnQuotes, SharedQuotes, SyntheticVenue

KNOWN_PRICES = {"QVEX": 270.0, "ZORN": 112.0, "XALT": 64.0, "LUMO": 48.0, "TARN": 93.0, "VEKO": 24.0}
"""Dollars at which well-known stocks begin; others get a price of their own."""

TICK = 0.01
STEP = SECOND // 4
"""Nanoseconds between quotes."""

_VOLATILITY = 4e-5  # per square root of a second: 0.6 % in a day
_COMMON_SHARE = 0.6  # of the variance of prices
_SPREAD_MEMORY, _NOISE_MEMORY = 120.0, 30.0  # seconds
_NOISE = 0.005  # dollars at the reference price
_LEAST_DEVIATION = 0.2  # ticks: a spread that never changed would leave nothing to estimate
_WIDE = 0.25  # share of the time in which the best quotes of a shared market are two ticks apart
_FURTHER = 1.6  # standard deviations of a venue's state that put it another tick behind


def fundamental_price(seed: int, symbol: str, steps: int) -> Floats:
    """Price of a stock in dollars, ``(steps,)``, four a second: a factor common to all stocks, and one of its own."""
    common, own = (
        np.random.default_rng(seed_stream(seed, "synthetic price", name)).standard_normal(steps)
        for name in ("", symbol)
    )
    moves = math.sqrt(_COMMON_SHARE) * common + math.sqrt(1 - _COMMON_SHARE) * own
    level = np.random.default_rng(seed_stream(seed, "synthetic level", symbol)).uniform(math.log(40), math.log(400))
    start = KNOWN_PRICES.get(symbol, math.exp(level))
    return np.asarray(start * np.exp(_VOLATILITY * math.sqrt(STEP / SECOND) * (np.cumsum(moves) - moves[0])))


def _wandering(rng: np.random.Generator, steps: int, memory: float) -> Floats:
    """A stationary path ``(steps,)`` of mean 0 and variance 1 that forgets within ``memory`` seconds."""
    kept = math.exp(-STEP / SECOND / memory)
    shocks = rng.standard_normal(steps) * math.sqrt(1 - kept * kept)
    shocks[0] /= math.sqrt(1 - kept * kept)
    return np.array(list(itertools.accumulate(shocks.tolist(), lambda before, shock: kept * before + shock)))


def followed(values: Floats, patience: float) -> Integers:
    """Whole numbers that follow ``values``: they move, to the nearest, when they are off by more than ``patience``.

    Examples
    --------
    >>> followed(np.array([5.2, 5.9, 6.6, 6.1, 5.7]), 1.0).tolist()
    [5, 5, 7, 7, 6]
    """
    now, path = round(values[0]), []
    for value in values.tolist():
        if abs(value - now) > patience:
            now = round(value)
        path.append(now)
    return np.array(path, dtype=np.int64)


def target_quotes(seed: int, venue: SyntheticVenue, symbol: str, steps: int) -> Integers:
    """Best bid and best ask in ticks that a venue shows, ``(steps, 2)``, four a second."""
    quotes = venue.quotes
    if isinstance(quotes, SharedQuotes):
        return _shared_quotes(seed, venue.name, quotes, symbol, steps)
    return _own_quotes(seed, venue.name, quotes, symbol, steps)


def _own_quotes(seed: int, venue: str, quotes: OwnQuotes, symbol: str, steps: int) -> Integers:
    price = fundamental_price(seed, symbol, steps)
    scale = price[0] / REFERENCE_PRICE / TICK
    noise, spread = (
        np.random.default_rng(seed_stream(seed, f"synthetic {part}", venue, symbol)) for part in ("noise", "spread")
    )
    middle = price / TICK + scale * _NOISE * _wandering(noise, steps, _NOISE_MEMORY)
    level, deviation = scale * quotes.half_spread, max(scale * quotes.spread_deviation, _LEAST_DEVIATION)
    log_variance = math.log1p((deviation / level) ** 2)
    logs = math.sqrt(log_variance) * _wandering(spread, steps, _SPREAD_MEMORY) - log_variance / 2
    wanted = 2 * level * np.exp(logs)
    center = followed(middle, max(scale * quotes.price_patience, 0.5))
    width = followed(wanted, max(scale * quotes.spread_patience, 0.5))
    return _around(center, np.maximum(width, 1))


def _shared_quotes(seed: int, venue: str, quotes: SharedQuotes, symbol: str, steps: int) -> Integers:
    best = market_quotes(seed, symbol, steps)
    for column, side in enumerate(("bid", "ask")):
        rng = np.random.default_rng(seed_stream(seed, f"synthetic {side} behind", venue, symbol))
        state = _wandering(rng, steps, quotes.memory)
        behind = np.maximum(np.ceil((state - ndtri(quotes.at_best)) / _FURTHER), 0).astype(np.int64)
        best[:, column] += behind if side == "ask" else -behind
    return best


def market_quotes(seed: int, symbol: str, steps: int) -> Integers:
    """Best quotes in ticks of the market that venues share, ``(steps, 2)``: one tick apart, at times two."""
    rng = np.random.default_rng(seed_stream(seed, "synthetic market", symbol))
    wide = _wandering(rng, steps, _SPREAD_MEMORY) > ndtri(1 - _WIDE)
    return _around(followed(fundamental_price(seed, symbol, steps) / TICK, 1.0), np.where(wide, 2, 1))


def _around(center: Integers, width: Integers) -> Integers:
    bid = center - (width + 1) // 2
    return np.column_stack([bid, bid + width])
