"""Dark pools, for which no public data exist: moments drawn relative to the lit venues, or simulated hidden sizes.

A simulated pool holds a random hidden size or none, trades at the lit mid by default, and reveals only the fill.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from riskroute.core.arrays import Floats, Integers
from riskroute.core.errors import InputError
from riskroute.core.seeding import seed_stream
from riskroute.core.validation import (
    SIDES,
    as_name,
    finite_array,
    one_of,
    real_number,
    valid_list,
    valid_magnitude,
    whole_number,
)
from riskroute.market.order_profits import (
    DECIMALS,
    FeeRow,
    PassiveOrderProfit,
    check_profit_quantities,
    market_order_fees,
    market_order_value,
)
from riskroute.market.sampling import SampledBooks
from riskroute.routing.venue_models import VenueModel


def generated_dark_pools(lit: Sequence[VenueModel], count: int = 2, *, seed: int = 0) -> list[VenueModel]:
    """Draw dark pools with random moments: they cost less than the lit venues on average, with a higher variance.

    Let ``m`` be the largest linear coefficient of a lit venue's mean. A pool's linear coefficient lies between
    ``m + 0.25 |m|`` and ``m + 0.9 |m|``; its quadratic coefficient is a random fraction of the same venue's. At every
    size, a pool's variance is at least 1.25 times the variance of any lit venue. Pool k does not depend on ``count``.

    Examples
    --------
    >>> lit = [VenueModel("XNAS", (-0.07, -0.0002), (0.0, 0.0006)), VenueModel("XPSX", (-1.1, 0.0), (-0.03, 0.04))]
    >>> [(pool.name, round(pool.mean[0], 3), round(pool.variance[1], 3)) for pool in generated_dark_pools(lit)]
    [('Dark 1', -0.01, 0.066), ('Dark 2', -0.01, 0.051)]
    """
    lit = valid_list("lit", lit, VenueModel, "venue models")
    if not lit or any(model.kind == "dark" for model in lit):
        raise InputError(f"lit must be one or more lit venues, was {[(m.name, m.kind) for m in lit]}")
    best = max(lit, key=lambda model: model.mean)
    linear = max(0.0, *(model.variance[0] for model in lit))
    square = max(abs(model.variance[1]) for model in lit)
    pools = []
    for number in range(1, whole_number("count", count, maximum=1000) + 1):
        rng = np.random.default_rng(seed_stream(seed, "dark pool", number))
        gain, curve, factor = rng.uniform(0.25, 0.9), rng.uniform(), rng.uniform(1.25, 2.0)
        mean = (best.mean[0] + gain * abs(best.mean[0]), curve * best.mean[1])
        pools.append(VenueModel(f"Dark {number}", mean, (factor * linear, factor * square), kind="dark"))
    return pools


@dataclass(frozen=True)
class DarkPool:
    """Pool with power-law hidden sizes: ``P(size >= n) = presence * (smallest / n) ** tail`` for ``n >= smallest``.

    Parameters
    ----------
    presence : float
        Probability that the pool holds a hidden size, 0 to 1.
    tail : float
        Exponent, above 0; smaller values make large sizes more frequent. At 1 or below, the mean size is infinite.
    smallest : int
        Smallest hidden size, in shares.
    improvement : float
        Price improvement over the mid in half-spreads: 0 trades at the mid, 1 at the best price of the order's own side
        (the ask for a seller), -1 at the best price of the other side.
    fee : float
        Dollars per share traded in the pool; rebates are negative.
    name : str
        Name of the pool; pools with different names have independent hidden sizes.

    Examples
    --------
    >>> pool = DarkPool(presence=0.5, tail=1.0, smallest=2)
    >>> pool.mean_fill([1, 2, 4]).round(4).tolist()  # of 4 shares, half of 2 + 2/3 + 2/4
    [0.5, 1.0, 1.5833]
    """

    presence: float
    tail: float
    smallest: int = 1
    improvement: float = 0.0
    fee: float = 0.0
    name: str = "Dark"

    def __post_init__(self) -> None:
        real_number("presence", self.presence, minimum=0.0, maximum=1.0)
        valid_magnitude("tail", self.tail, above=0.0)
        whole_number("smallest", self.smallest, maximum=10**9)
        real_number("improvement", self.improvement, minimum=-1.0, maximum=1.0)
        valid_magnitude("fee", self.fee, smallest=0)
        as_name("name", self.name)

    def profits(
        self,
        books: SampledBooks,
        quantities: Sequence[int] | Integers,
        *,
        seed: int,
        side: str = "sell",
        taker_fee: FeeRow = (0.0, 0.0),
        draws: int = 1,
    ) -> PassiveOrderProfit:
        """Return the profit of orders that try the pool first and cross the lit ``books`` with the remainder.

        The hidden size is drawn ``draws`` times per bucket; each draw serves all quantities. The first draw does not
        depend on ``draws``.
        """
        one_of("side", side, SIDES)
        asked = check_profit_quantities(quantities)
        finite_array("taker_fee", taker_fee, ndim=1, length=2)
        direction, other = (1, "bid") if side == "sell" else (-1, "ask")
        buckets, joinable = len(books.stamps), np.isfinite(books.mid)
        hidden = self.hidden_sizes(whole_number("draws", draws, maximum=10**6) * buckets, seed=seed)

        # The bucket is the first axis, so that one walk of each book serves the remainders of all draws.
        filled = np.minimum(asked, np.where(joinable, hidden.reshape(draws, buckets), 0).T[:, :, None])
        rest = asked - filled
        walked = (*books.side(other), rest.reshape(buckets, draws * len(asked)))
        crossed = market_order_value(*walked).reshape(rest.shape)
        middle, half_spread = books.mid[:, None, None], (books.ask_px - books.bid_px)[:, :1, None] / 2
        earned = direction * (crossed - middle * rest) + self.improvement * half_spread * filled
        earned -= self.fee * filled + market_order_fees(*walked, taker_fee).reshape(rest.shape)
        shape = (draws * buckets, len(asked))
        profits = np.round(earned, DECIMALS).swapaxes(0, 1).reshape(shape)
        return PassiveOrderProfit(profits, filled.swapaxes(0, 1).reshape(shape))

    def hidden_sizes(self, count: int, *, seed: int) -> Integers:
        """Draw hidden sizes ``(count,)``, 0 if nothing is hidden; the first k sizes do not depend on ``count``."""
        rng = np.random.default_rng(seed_stream(seed, "hidden sizes", self.name))
        there, height = rng.random((whole_number("count", count, minimum=0, maximum=10**8), 2)).T
        # Sizes are capped at 1e12 shares: with a small tail exponent the exponential would overflow.
        growth = np.minimum(-np.log1p(-height) / self.tail, math.log(10**12 / self.smallest))
        return np.where(there < self.presence, np.floor(self.smallest * np.exp(growth)), 0.0).astype(np.int64)

    def chance_of(self, quantities: Sequence[int] | Integers) -> Floats:
        """Return P(hidden size >= q) for each of ``quantities (Q,)``."""
        return self._chances(check_profit_quantities(quantities))

    def mean_fill(self, quantities: Sequence[int] | Integers) -> Floats:
        """Return the expected fill of orders of ``quantities (Q,)``: the sum over k of P(fill >= k)."""
        asked, shares = _valid_quantities(quantities)
        return np.asarray(np.cumsum(self._chances(shares))[asked - 1])

    def fill_variance(self, quantities: Sequence[int] | Integers) -> Floats:
        """Return the variance of the fill of orders of ``quantities (Q,)``."""
        asked, shares = _valid_quantities(quantities)
        square = np.cumsum((2 * shares - 1) * self._chances(shares))[asked - 1]
        return np.asarray(square - self.mean_fill(asked) ** 2)

    def _chances(self, sizes: Integers) -> Floats:
        return np.asarray(self.presence * np.minimum(1.0, self.smallest / sizes) ** self.tail)


def _valid_quantities(quantities: Sequence[int] | Integers) -> tuple[Integers, Integers]:
    """Return checked, ascending ``quantities`` as an array, and the integers from 1 to the largest."""
    asked = check_profit_quantities(quantities)
    whole_number("quantities", asked[-1], maximum=10**7)  # callers sum over an array of this length
    return asked, np.arange(1, asked[-1] + 1)
