"""The displayed books of all venues as one: the cost of taking any number of shares, and the venues to take them from.

A level costs its all-in price: the price plus a fee per quantity and a fraction of the price. Fractions are below 1, so
within a venue the best level is also the cheapest after fees. The cost of taking is therefore convex and piecewise
linear, and greedy allocation by marginal cost is optimal. With minimum order sizes the cost is not convex, and dynamic
programming solves the split. Minimum and maximum fees per order are not part of these costs.

References
----------
B. Fox, "Discrete optimization via marginal analysis", Management Science 13 (1966), https://doi.org/10.1287/mnsc.13.3.210
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from riskroute.core.arrays import Floats, Integers, Matrix, Units, Vector
from riskroute.core.errors import InputError
from riskroute.core.runtime import cached
from riskroute.core.validation import SIDES, exact_array, one_of, real_number, whole_number
from riskroute.routing.fees import fee_at
from riskroute.routing.separable import maximise_tables


class ConsolidatedTake(NamedTuple):
    """Shares taken from a consolidated book, by venue.

    ``shares (V,)`` are taken at each venue, at prices no worse than ``limits (V,)`` (NaN for 0 shares). ``cost`` is
    against the mid, with fees. ``beyond`` shares are not taken: they exceed the displayed depth or, with minimum order
    sizes, fit no venue.
    """

    shares: Integers
    limits: Floats
    cost: float
    beyond: int


class ConsolidatedBook:
    """One side of all venues' books, merged in taking order: the asks if ``side`` is ``buy``, the bids if ``sell``.

    ``prices`` and ``sizes (V, L)`` are the levels of ``V`` venues, best first; a price of NaN or a size of 0 where
    there is no level. ``takers (V, 2)`` are taker fees: per quantity of 1, and as a fraction of the price; a rebate is
    negative. ``mid`` is the benchmark price, the same for all venues. With ``protect``, order protection applies (US
    equities, Rule 611): better displayed prices are taken first, and fees only break ties. Without it, levels are taken
    by their price after fees: the cheapest split.

    Examples
    --------
    Sell 300 shares. The first venue bids for 150 at 10.00 and 500 at 9.98, and charges 0.3 cents per share; the second
    bids for 100 at 10.00 and 300 at 9.99, and pays 0.2 cents per share.

    >>> prices, sizes = np.array([[10.00, 9.98], [10.00, 9.99]]), np.array([[150.0, 500], [100, 300]])
    >>> book = ConsolidatedBook(prices, sizes, np.array([[0.003, 0], [-0.002, 0]]), mid=10.01, side="sell")
    >>> single, lots = book.take(300), book.take(300, lot=100)
    >>> single.shares.tolist(), round(3003 - single.cost, 9), single.limits.tolist()
    ([150, 150], 2999.35, [10.0, 9.99])
    >>> lots.shares.tolist(), round(3003 - lots.cost, 9)
    ([100, 200], 2999.1)
    >>> book.costs([0, 100, 250]).round(9).tolist()
    [0.0, 0.8, 2.75]
    """

    def __init__(
        self, prices: Matrix, sizes: Matrix, takers: Matrix, *, mid: float, side: str, protect: bool = False
    ) -> None:
        prices = np.ascontiguousarray(exact_array("prices", prices, np.float64, (None, None)))
        sizes = np.ascontiguousarray(exact_array("sizes", sizes, np.float64, prices.shape))
        takers = np.ascontiguousarray(exact_array("takers", takers, np.float64, (len(prices), 2)))
        if takers.size and not np.abs(takers[:, 1]).max() < 1:
            raise InputError(f"takers must have fractions of the price between -1 and 1, had {takers[:, 1].tolist()}")
        sign = 1 if one_of("side", side, SIDES) == "buy" else -1
        self._merge(prices, sizes, takers, sign, real_number("mid", mid), protect)

    @classmethod
    def of_checked(
        cls, prices: Matrix, sizes: Matrix, takers: Matrix, *, mid: float, sign: int, protect: bool = False
    ) -> ConsolidatedBook:
        """Build a book without checks, from valid, contiguous arrays and a sign (1 to buy, -1 to sell)."""
        made = cls.__new__(cls)
        made._merge(prices, sizes, takers, sign, mid, protect)
        return made

    def _merge(self, prices: Matrix, sizes: Matrix, takers: Matrix, sign: int, mid: float, protect: bool) -> None:
        self.prices, self.takers, self.sign, self.mid, self.protect = prices, takers, sign, mid, protect
        self.sizes: Matrix
        wrong, self.sizes, self._venues, self._levels, ends, totals = _consolidated(
            prices, sizes, takers, sign, mid, protect
        )
        _refuse(wrong, prices)
        self._steps: tuple[Floats, Floats] = (ends, totals)  # cumulative shares and costs, (N + 1,) from 0

    @cached
    def depth(self) -> int:
        """Total number of shares displayed at all venues."""
        return int(self._steps[0][-1])

    def costs(self, shares: Any) -> Floats:
        """Return the cost C(n) of taking ``n`` shares, fees included, for each entry of ``shares`` (any shape).

        Beyond the displayed depth ``N`` the cost is an estimate that extrapolates the books. If the last level is ``d``
        worse than the mid, share ``m > N`` of a purchase trades at ``mid + d m / N``. A sale is the mirror image in
        relative prices, which stay above zero: ``mid / (1 + r m / N)`` with ``r = d / (mid - d)`` or, if the last level
        is not above zero, ``mid - d m / N``. No estimated price is better than the last level's. The last level's fee
        is charged on the mean estimated price. The cost is NaN if nothing is displayed.
        """
        wanted = np.asarray(shares, dtype=np.float64)
        found = _displayed_costs(wanted.ravel(), *self._steps, *self._last, self.sign, self.mid)
        return np.asarray(found.reshape(wanted.shape))

    def beyond(self, shares: int) -> tuple[float, float]:
        """Return the mean price of ``shares`` beyond the displayed depth, and their fee per share; see `costs`."""
        price, fees = self._last
        mean = _beyond_price(float(shares), float(self.depth), price, self.sign, self.mid)
        return float(mean), float(fee_at(fees, mean))

    def beyond_cost(self, shares: int) -> float:
        """Return the estimated cost of ``shares`` beyond the displayed depth, fees included."""
        if not shares:
            return 0.0
        price, fee = self.beyond(shares)
        return shares * (self.sign * (price - self.mid) + fee)

    @property
    def _last(self) -> tuple[float, Floats]:
        """Price of the last level and the fees of its venue; NaN and 0 if nothing is displayed."""
        if not len(self._venues):
            return math.nan, np.zeros(2)
        venue = self._venues[-1]
        return float(self.prices[venue, self._levels[-1]]), self.takers[venue]

    def take(self, shares: int, *, lot: int = 1, minimums: Units | None = None) -> ConsolidatedTake:
        """Take ``shares`` at the least displayed cost, or the whole depth if fewer are displayed.

        Shares are taken in full lots or, if no venue has a full lot left, in smaller pieces; the remainder is an odd
        lot where it is cheapest. With ``minimums`` ``(V,)``, the venues' minimum order sizes, only full lots are taken.
        """
        wanted = min(whole_number("shares", shares, minimum=0), self.depth)
        whole_number("lot", lot)
        if minimums is not None:
            chosen = self._by_tables(wanted, lot, exact_array("minimums", minimums, np.int64, (len(self.takers),)))
        elif lot > 1:
            signed = self.sign * self.prices
            chosen = _take_lots(signed, self.sizes, self.takers, wanted, lot, self.protect)
        else:
            chosen = _take_levels(self.sizes, self._venues, self._levels, wanted)
        limits, cost = _walked(self.prices, self.sizes, self.takers, chosen, self.sign, self.mid)
        return ConsolidatedTake(chosen, limits, float(cost), shares - int(chosen.sum()))

    def _by_tables(self, wanted: int, lot: int, minimums: Units) -> Units:
        """Take multiples of ``lot``, none between 0 and a venue's minimum, as many as possible up to ``wanted``."""
        tables = []
        for venue, least in enumerate(minimums):
            units = np.arange(int(min(self.sizes[venue].sum(), wanted)) // lot + 1)
            prices = np.nan_to_num(self.prices[venue])
            each = self.sign * (prices - self.mid) + fee_at(self.takers[venue], prices)
            allowed = (units == 0) | (units * lot >= least)
            tables.append(np.where(allowed, -_venue_costs(each, self.sizes[venue], units * lot), -np.inf))
        for units_wanted in range(wanted // lot, -1, -1):
            value, chosen = maximise_tables(tables, units_wanted)
            if np.isfinite(value):
                break
        return chosen * lot


_RIGHT, _NEGATIVE = -1, -2  # error codes of `_consolidated`; any other code is a venue whose levels are not in order


def _refuse(wrong: int, prices: Matrix) -> None:
    """Raise `InputError` for invalid books."""
    if wrong == _NEGATIVE:
        raise InputError("sizes must be at least 0, one is negative or NaN")
    if wrong != _RIGHT:
        raise InputError(f"prices of a venue must be in order, best level first, was {prices[wrong].tolist()}")


def sweep_cost(
    prices: Matrix, sizes: Matrix, takers: Matrix, *, sign: int, mid: float, shares: int, protect: bool = False
) -> float:
    """Compute `ConsolidatedBook.costs` for one number of shares in one compiled call, from valid, contiguous arrays."""
    wrong, _, cost = _cost(prices, sizes, takers, sign, mid, float(shares), protect, True)
    _refuse(wrong, prices)
    return float(cost)


def displayed_cost(
    prices: Matrix, sizes: Matrix, takers: Matrix, *, sign: int, mid: float, shares: float, protect: bool = False
) -> tuple[float, float]:
    """Return how many of ``shares`` are displayed, and the cost of taking them; compiled like `sweep_cost`."""
    wrong, inside, cost = _cost(prices, sizes, takers, sign, mid, float(shares), protect, False)
    _refuse(wrong, prices)
    return inside, cost


@njit(cache=True)
def _cost(
    prices: Matrix, sizes: Matrix, takers: Matrix, sign: int, mid: float, shares: float, protect: bool, beyond: bool
) -> tuple[int, float, float]:
    """Return an error code, the shares that are priced (with ``beyond``, also those not displayed), and their cost."""
    wrong, _, venues, levels, ends, totals = _consolidated(prices, sizes, takers, sign, mid, protect)
    if wrong != _RIGHT:
        return wrong, 0.0, 0.0
    priced = shares if beyond else min(shares, ends[-1])
    last, fees = np.nan, np.zeros(2)
    if len(venues):
        last, fees = prices[venues[-1], levels[-1]], takers[venues[-1]]
    return wrong, priced, _displayed_costs(np.array([priced]), ends, totals, last, fees, sign, mid)[0]


def cheapest_shares(
    prices: Matrix, sizes: Matrix, takers: Matrix, *, sign: int, shares: int, protect: bool = False
) -> Units:
    """Return the shares that `ConsolidatedBook.take` takes, in one compiled call, from valid, contiguous arrays."""
    wrong, chosen = _cheapest_shares(prices, sizes, takers, sign, shares, protect)
    _refuse(wrong, prices)
    return chosen


@njit(cache=True)
def _cheapest_shares(
    prices: Matrix, sizes: Matrix, takers: Matrix, sign: int, shares: int, protect: bool
) -> tuple[int, Units]:
    wrong, whole, venues, levels, _, _ = _consolidated(prices, sizes, takers, sign, 0.0, protect)
    return wrong, _take_levels(whole, venues, levels, shares)


@njit(cache=True)
def _consolidated(
    prices: Matrix, sizes: Matrix, takers: Matrix, sign: int, mid: float, protect: bool
) -> tuple[int, Matrix, Integers, Integers, Floats, Floats]:
    """Merge the books.

    Return an error code (`_RIGHT`, `_NEGATIVE`, or a venue whose levels are not in order), whole sizes, venue and
    index of all levels in taking order, and cumulative shares and costs ``(N + 1,)`` from 0.
    """
    venues, depth = prices.shape
    signed, whole = np.empty((venues, depth)), np.empty((venues, depth))
    wrong = _RIGHT
    for v in range(venues):
        for level in range(depth):
            there = not np.isnan(prices[v, level])
            signed[v, level] = sign * prices[v, level] if there else np.inf
            whole[v, level] = np.floor(sizes[v, level]) if there else 0.0  # children are whole shares
            if not whole[v, level] >= 0:
                wrong = _NEGATIVE
            if wrong == _RIGHT and level and signed[v, level] < signed[v, level - 1]:
                wrong = v
    if wrong != _RIGHT:
        none, nothing = np.zeros(0, dtype=np.int64), np.zeros(0)
        return wrong, whole, none, none, nothing, nothing
    order_venues, order_levels = _merged(signed, whole, takers, protect)
    count = len(order_venues)
    shares, costs = np.zeros(count + 1), np.zeros(count + 1)
    for k in range(count):
        v, level = order_venues[k], order_levels[k]
        price = prices[v, level]
        shares[k + 1] = shares[k] + whole[v, level]
        costs[k + 1] = costs[k] + whole[v, level] * (sign * (price - mid) + _fee(takers, v, price))
    return wrong, whole, order_venues, order_levels, shares, costs


@njit(cache=True)
def _fee(takers: Matrix, venue: int, price: float) -> float:
    """Return `fee_at` of a venue and price."""
    return float(takers[venue, 0] + takers[venue, 1] * abs(price))


@njit(cache=True)
def _displayed_costs(
    wanted: Floats, ends: Floats, totals: Floats, last: float, fees: Floats, sign: int, mid: float
) -> Floats:
    """Return the cost of each number of shares in ``wanted``; ``last`` and ``fees (2,)`` belong to the last level."""
    count = len(ends) - 1
    costs = np.empty(len(wanted))
    for i in range(len(wanted)):
        n = wanted[i]
        if count == 0:
            costs[i] = 0.0 if n == 0 else np.nan
        elif np.isnan(n):
            costs[i] = n
        elif n > ends[-1]:
            more = n - ends[-1]
            price = _beyond_price(more, ends[-1], last, sign, mid)
            costs[i] = totals[-1] + more * (sign * (price - mid) + fees[0] + fees[1] * abs(price))
        else:
            k = min(max(np.searchsorted(ends, n, side="right") - 1, 0), count - 1)
            slope = (totals[k + 1] - totals[k]) / (ends[k + 1] - ends[k])
            costs[i] = slope * (max(n, 0.0) - ends[k]) + totals[k]
    return costs


@njit(cache=True)
def _beyond_price(shares: float, depth: float, last: float, sign: int, mid: float) -> float:
    """Return the mean price of shares beyond the depth, whose last level has the price ``last``."""
    distance = sign * (last - mid)
    if distance <= 0:  # even the last level is no worse than the mid: prices do not improve further
        return last
    if sign > 0 or last <= 0:
        return last + sign * distance * shares / (2 * depth)
    ratio = distance / last
    return mid * depth / (ratio * shares) * math.log1p(ratio * shares / (depth * (1 + ratio)))


@njit(cache=True)
def _same(one: float, other: float) -> bool:
    """Return whether two prices with fees are equal in decimals: 10.01 + 0.02 and 10.00 + 0.03 differ in binary."""
    return abs(one - other) <= 1e-12 * abs(one)


@njit(cache=True)
def _merged(signed: Matrix, sizes: Matrix, takers: Matrix, protect: bool) -> tuple[Integers, Integers]:
    """Return venue and index of all non-empty levels, in taking order.

    Levels are ordered by price after fees, then price (with ``protect``, price first), then larger size, then venue.
    """
    venues, depth = signed.shape
    at = np.zeros(venues, dtype=np.int64)
    order_venues = np.empty(venues * depth, dtype=np.int64)
    order_levels = np.empty(venues * depth, dtype=np.int64)
    count = 0
    while True:
        best = -1
        first, second, size = np.inf, np.inf, 0.0
        for v in range(venues):
            while at[v] < depth and not sizes[v, at[v]] > 0:
                at[v] += 1
            if at[v] == depth:
                continue
            gross = signed[v, at[v]]
            net = gross + _fee(takers, v, gross)
            major, minor = (gross, net) if protect else (net, gross)
            shown = sizes[v, at[v]]
            if best >= 0 and _same(major, first):
                better = shown > size if _same(minor, second) else minor < second
            else:
                better = best < 0 or major < first
            if better:
                best, first, second, size = v, major, minor, shown
        if best < 0:
            return order_venues[:count], order_levels[:count]
        order_venues[count], order_levels[count] = best, at[best]
        count += 1
        at[best] += 1


@njit(cache=True)
def _take_levels(sizes: Matrix, venues: Integers, levels: Integers, wanted: int) -> Units:
    chosen = np.zeros(len(sizes), dtype=np.int64)
    left = wanted
    for k in range(len(venues)):
        if left <= 0:
            break
        taken = min(left, int(sizes[venues[k], levels[k]]))
        chosen[venues[k]] += taken
        left -= taken
    return chosen


@njit(cache=True)
def _next_costs(
    signed: Matrix, sizes: Matrix, takers: Matrix, venue: int, level: int, used: float, lot: int
) -> tuple[float, float]:
    """Return the cost before and after fees of the next ``lot`` shares of a venue; infinite if it has fewer."""
    left, gross, net = float(lot), 0.0, 0.0
    while left > 0 and level < signed.shape[1]:
        shares = min(left, sizes[venue, level] - used)
        if shares > 0:
            price = signed[venue, level]
            gross += shares * price
            net += shares * (price + _fee(takers, venue, price))
            left -= shares
        level += 1
        used = 0.0
    return (gross, net) if left == 0 else (np.inf, np.inf)


@njit(cache=True)
def _take_lots(signed: Matrix, sizes: Matrix, takers: Matrix, wanted: int, lot: int, protect: bool) -> Units:
    """Take lot by lot at the lowest marginal cost, then the odd lot; with ``protect``, fees only break ties."""
    venues = len(takers)
    chosen = np.zeros(venues, dtype=np.int64)
    level = np.zeros(venues, dtype=np.int64)
    used = np.zeros(venues)
    left = wanted
    size = lot
    while left > 0:
        size = min(size, left)
        best, least, tie = -1, np.inf, np.inf
        for v in range(venues):
            gross, net = _next_costs(signed, sizes, takers, v, level[v], used[v], size)
            major, minor = (gross, net) if protect else (net, gross)
            equal = best >= 0 and _same(major, least)
            if (major < least and not equal) or (equal and minor < tie and not _same(minor, tie)):
                best, least, tie = v, major, minor
        if best < 0:  # no venue has a full lot left: take smaller pieces
            size -= 1
            if size == 0:
                break
            continue
        chosen[best] += size
        left -= size
        moved = float(size)
        while moved > 0:
            step = min(moved, sizes[best, level[best]] - used[best])
            used[best] += step
            moved -= step
            if used[best] >= sizes[best, level[best]]:
                level[best] += 1
                used[best] = 0.0
    return chosen


@njit(cache=True)
def _walked(
    prices: Matrix, sizes: Matrix, takers: Matrix, chosen: Units, sign: int, mid: float
) -> tuple[Floats, float]:
    """Return the worst price taken at each venue, and the total cost."""
    limits = np.full(len(takers), np.nan)
    total = 0.0
    for v in range(len(takers)):
        left = float(chosen[v])
        for level in range(prices.shape[1]):
            shares = min(left, sizes[v, level])
            if shares > 0:
                price = prices[v, level]
                total += shares * (sign * (price - mid) + _fee(takers, v, price))
                limits[v] = price
                left -= shares
    return limits, total


def _venue_costs(each: Vector, sizes: Vector, shares: Integers) -> Floats:
    """Return the cost of taking each number of shares from one venue, within its depth, at costs ``each`` by level."""
    ends = np.append(0.0, np.cumsum(sizes))
    totals = np.append(0.0, np.cumsum(np.where(sizes > 0, sizes * each, 0.0)))
    return np.asarray(np.interp(shares, ends, totals))
