"""Model of hidden liquidity in dark pools: an assumption common to all routers, since pools do not publish it.

The probability of presence varies with the spread, with recent fills of ours and with a random state that is partly
common to all pools. Sizes follow a power law. Adverse selection: counterparties are more often present before the
price moves against us.

Random draws depend on the seed, the day, the order number and the pool only: common random numbers for all routers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from riskroute.core.arrays import Floats, Integers, Stamps
from riskroute.core.seeding import seed_stream
from riskroute.core.validation import LONGEST_VENUE, as_name, real_number
from riskroute.market.clock import SECOND
from riskroute.routers.context import ContextPool

LEAK = 0.02  # probability of information leakage per 1,000 shares sent to a pool; the far touch then fades


@dataclass(frozen=True)
class DarkMarketPool:
    """Behaviour of a dark pool.

    Parameters
    ----------
    name : str
        Name of the pool.
    presence : float
        Baseline probability that it holds shares for us.
    rate : float
        Baseline arrival rate of counterparties for a resting order, per second.
    tail, smallest, largest : float
        Sizes, as natural quantities: at least ``n`` with probability ``(smallest / n) ** tail``, capped at ``largest``.
    spread, recent, state : float
        Change of the log odds of presence with the log of the spread over its median, with a fill of ours there within
        the last minute, and per standard deviation of the pool's state.
    adverse : float
        Adverse selection: presence is ``exp(adverse)`` times as likely before a move against us, and
        ``exp(-adverse)`` times before a move in our favour.
    fee : float
        Money per quantity of 1; a rebate is negative.
    improvement : float
        As in `riskroute.routers.ContextPool`.
    """

    name: str
    presence: float
    rate: float = 0.1
    tail: float = 1.2
    smallest: int | float = 100
    largest: int | float = 100_000
    spread: float = 0.5
    recent: float = 0.7
    state: float = 0.8
    adverse: float = 0.2
    fee: float = 0.001
    improvement: float = 0.0

    def __post_init__(self) -> None:
        as_name("name of a pool", self.name, longest=LONGEST_VENUE)
        real_number(f"presence of {self.name}", self.presence, minimum=0, maximum=1)
        real_number(f"rate of {self.name}", self.rate, minimum=0, maximum=1000)
        real_number(f"tail of {self.name}", self.tail, above=0)
        real_number(f"smallest of {self.name}", self.smallest, above=0)
        real_number(f"largest of {self.name}", self.largest, minimum=self.smallest)
        self.pool.__post_init__()
        for field in ("spread", "recent", "state", "adverse"):
            real_number(f"{field} of {self.name}", getattr(self, field), minimum=-10, maximum=10)

    @property
    def pool(self) -> ContextPool:
        """The published terms of the pool, as a `Context` holds them."""
        return ContextPool(self.name, self.fee, self.improvement)


@dataclass(frozen=True)
class DarkMarketMoments:
    """Conditions at the arrival of each order of a day, ``(n,)`` each.

    ``spreads`` are relative to their median; ``adverse_moves`` is 1 before a price move against a fill, -1 before a
    move in its favour, 0 without a move.
    """

    times: Stamps
    spreads: Floats
    adverse_moves: Integers


AdverseMoves = Callable[[int, Stamps], Integers]  # as in `DarkMarketMoments`, by order number and fill times (n,)


class DarkMarket:
    """The dark pools of a day, with sizes in units.

    Examples
    --------
    >>> moments = DarkMarketMoments(np.array([0, SECOND]), np.ones(2), np.zeros(2, dtype=np.int64))
    >>> market = DarkMarket([DarkMarketPool("P", presence=1.0)], moments, seed=0, day="2019-03-27")
    >>> [market.hidden(0, "P", recent=False) == market.hidden(0, "P", recent=True), market.hidden(0, "P") >= 100]
    [True, True]
    >>> DarkMarket([DarkMarketPool("P", presence=0.0)], moments, seed=0, day="2019-03-27").hidden(0, "P")
    0
    """

    def __init__(
        self,
        pools: Sequence[DarkMarketPool],
        moments: DarkMarketMoments,
        *,
        seed: int,
        day: str,
        leak: float = LEAK,
        later_moves: AdverseMoves | None = None,
    ) -> None:
        self.later_moves = later_moves
        self.leak = leak
        self.pools = {one.name: one for one in pools}
        self.moments = moments
        count = len(moments.times)
        correlation = 0.3  # between the states of two pools
        common = _state(np.random.default_rng(seed_stream(seed, "dark state", day)), moments.times)
        self._odds: dict[str, Floats] = {}
        self._draws: dict[str, Floats] = {}
        self._leaks: dict[str, Floats] = {}
        self._arrivals: dict[str, tuple[Floats, Floats, Floats]] = {}
        for name, one in self.pools.items():
            own = _state(np.random.default_rng(seed_stream(seed, "dark state", day, name)), moments.times)
            state = math.sqrt(correlation) * common + math.sqrt(1 - correlation) * own
            self._odds[name] = one.spread * np.log(moments.spreads) + one.state * state
            self._draws[name] = np.random.default_rng(seed_stream(seed, "hidden sizes", day, name)).random((count, 2))
            self._leaks[name] = np.random.default_rng(seed_stream(seed, "dark leaks", day, name)).random(count)
            rng = np.random.default_rng(seed_stream(seed, "dark arrivals", day, name))
            shape = (count, 64)  # at most 64 counterparties per resting order
            self._arrivals[name] = (rng.exponential(size=shape), rng.random(shape), rng.random(shape))

    def chance(self, order: int, pool: str, *, recent: bool = False) -> float:
        """Return the probability that a pool holds shares for order number ``order``."""
        one = self.pools[pool]
        usual = self._usual_chance(order, one, recent)
        if one.presence in (0.0, 1.0):
            return usual
        return min(usual * math.exp(one.adverse * int(self.moments.adverse_moves[order])), 1.0)

    def _usual_chance(self, order: int, one: DarkMarketPool, recent: bool) -> float:
        """Return the probability of presence before adverse selection."""
        if one.presence in (0.0, 1.0):
            return one.presence
        odds = math.log(one.presence / (1 - one.presence)) + self._odds[one.name][order] + one.recent * recent
        return 1 / (1 + math.exp(-odds))

    def hidden(self, order: int, pool: str, *, recent: bool = False) -> int:
        """Return the shares resting in a pool when order number ``order`` arrives."""
        there, height = self._draws[pool][order]
        return _size(self.pools[pool], height) if there < self.chance(order, pool, recent=recent) else 0

    def leaks(self, order: int, pool: str, shares: int) -> bool:
        """Return whether shares sent to a pool leak information."""
        return bool(self._leaks[pool][order] < self.leak * shares / 1000)

    def arrivals(self, order: int, pool: str, seconds: float, *, recent: bool = False) -> list[tuple[float, int]]:
        """Return the counterparties that arrive while shares rest in a pool: seconds after the order, and sizes.

        More of them arrive before price moves against the fill.
        """
        one = self.pools[pool]
        most = math.exp(abs(one.adverse))
        rate = one.rate * self._usual_chance(order, one, recent) / max(one.presence, 1e-9) * most
        if rate <= 0:
            return []
        gaps, heights, draws = self._arrivals[pool]
        times = np.cumsum(gaps[order]) / rate
        times = times[times <= seconds]
        if not len(times):
            return []
        if self.later_moves is None:
            adverse_moves = np.full(len(times), self.moments.adverse_moves[order])
        else:
            adverse_moves = self.later_moves(order, self.moments.times[order] + (times * SECOND).astype(np.int64))
        comes = draws[order, : len(times)] * most < np.exp(one.adverse * adverse_moves)
        return [(float(times[k]), _size(one, heights[order, k])) for k in np.flatnonzero(comes)]


def _size(pool: DarkMarketPool, height: float) -> int:
    """Return a power-law size from a uniform draw."""
    growth = min(-math.log1p(-height) / pool.tail, math.log(pool.largest / pool.smallest))
    return int(pool.smallest * math.exp(growth))


def _state(rng: np.random.Generator, times: Stamps) -> Floats:
    """Draw a stationary autoregressive path of mean 0 and variance 1 at given times."""
    shocks = rng.standard_normal(len(times))
    if not len(times):
        return shocks
    kept = np.exp(-np.diff(times) / SECOND / 60.0)  # correlation time: 60 s
    path = [float(shocks[0])]
    for weight, shock in zip(kept.tolist(), shocks[1:].tolist(), strict=True):
        path.append(weight * path[-1] + math.sqrt(1 - weight * weight) * shock)
    return np.array(path)
