"""How much of an order to take at once and how much to post where, if queues drain at random.

The order has ``S`` shares. ``M`` are taken, ``L_k`` join the queue of exchange ``k`` behind ``Q_k`` shares. Until the
horizon ``xi_k`` shares leave that queue, by executions and by cancellations ahead, so that exchange ``k`` fills
``(xi_k - Q_k)^+ - (xi_k - Q_k - L_k)^+``. With ``A`` shares had in all, the cost against the mid is

    (h + f) M - sum_k (h + r_k) fill_k + theta (M + sum_k L_k + (S - A)^+) + lambda_u (S - A)^+ + lambda_o (A - S)^+

and its mean is convex in ``(M, L_1, .., L_K)``.

References
----------
R. Cont, A. Kukanov, "Optimal order placement in limit order markets", Quantitative Finance 17 (2017),
https://doi.org/10.1080/14697688.2016.1190030
A. Nemirovski, A. Juditsky, G. Lan, A. Shapiro, "Robust stochastic approximation approach to stochastic programming",
SIAM Journal on Optimization 19 (2009), https://doi.org/10.1137/070704277
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numba import njit

from riskroute.core.arrays import Floats, Matrix, Vector
from riskroute.core.errors import InputError
from riskroute.core.validation import finite_array, one_of, real_number, whole_number

PLACEMENT_MODES = ("sum", "overbook")
_BISECTIONS = 60


@dataclass(frozen=True)
class PlacementPrices:
    """What shares cost, in dollars each.

    Parameters
    ----------
    half_spread : float
        Half of the spread (``h``).
    taker : float
        Fee for taking (``f``).
    rebates : tuple[float, ...]
        By exchange, what a fill pays beyond the half-spread (``r_k``), net of adverse selection.
    under, over : float
        Price of a share that is missing at the horizon (``lambda_u``), and of one too many (``lambda_o``).
    impact : float
        Price of every share that is sent (``theta``).
    """

    half_spread: float
    taker: float
    rebates: tuple[float, ...]
    under: float
    over: float
    impact: float = 0.0

    def __post_init__(self) -> None:
        for name in ("half_spread", "taker", "under", "over"):
            real_number(name, getattr(self, name))
        real_number("impact", self.impact, minimum=0)
        for rebate in self.rebates:
            real_number("rebate", rebate)

    @property
    def taking(self) -> float:
        """Cost of a share that is taken at once."""
        return self.half_spread + self.taker

    @property
    def gains(self) -> Floats:
        """By exchange, what a filled share of a limit order earns against the mid, ``(K,)``."""
        return self.half_spread + np.array(self.rebates, dtype=np.float64)

    @property
    def sound(self) -> bool:
        """Whether missing shares cost more than taking, and surplus ones more than any fill earns.

        Without that, an order would be left to chance or bought twice.
        """
        most, least = max(self.gains, default=0.0), min(self.gains, default=1.0)
        return bool(least > 0 and self.under > self.taking and self.over > max(most, -self.taking))


def placement_costs(
    shares: int, market: float, limits: Vector, ahead: Vector, outflows: Matrix, prices: PlacementPrices
) -> Floats:
    """Return what a placement costs for each of some outflows ``(n, K)``, in dollars, ``(n,)``.

    Examples
    --------
    >>> prices = PlacementPrices(0.02, 0.003, (0.002,), under=0.026, over=0.024)
    >>> placement_costs(1000, 728, np.array([272.0]), np.array([2000.0]), np.array([[2100.0], [2300.0]]), prices)
    array([19.016, 10.76 ])
    """
    reached = np.asarray(outflows, dtype=np.float64) - ahead
    fills = np.clip(reached, 0.0, limits)
    had = market + fills.sum(axis=1)
    missing = np.maximum(shares - had, 0.0)
    sent = market + float(np.sum(limits)) + missing
    penalties = prices.under * missing + prices.over * np.maximum(had - shares, 0.0)
    return np.asarray(prices.taking * market - fills @ prices.gains + prices.impact * sent + penalties)


def one_exchange_placement(
    shares: int, ahead: int, distribution: Callable[[float], float], prices: PlacementPrices
) -> tuple[int, int]:
    """Return the best ``M`` and ``L`` with one exchange, exactly.

    ``L`` is the least number of shares for which the probability ``F(Q + L)`` that the order is not filled reaches
    ``(2h + f + r) / (lambda_u + h + r + theta)``; all of them if it never does.

    Parameters
    ----------
    distribution : Callable
        ``F``: probability that an outflow is at most so many shares.

    Examples
    --------
    The paper's example:

    >>> from scipy.stats import poisson
    >>> prices = PlacementPrices(0.02, 0.003, (0.002,), under=0.026, over=0.024)
    >>> one_exchange_placement(1000, 2000, poisson(2200).cdf, prices)
    (728, 272)
    """
    gain = float(prices.gains[0])
    fraction = (prices.taking + gain) / (prices.under + gain + prices.impact)
    low, high = 0, whole_number("shares", shares)
    while low < high:
        half = (low + high) // 2
        if distribution(ahead + half) >= fraction:
            high = half
        else:
            low = half + 1
    return shares - low, low


def stochastic_placement(
    shares: int, ahead: Vector, outflows: Matrix, prices: PlacementPrices, *, steps: int = 2000, mode: str = "sum"
) -> Floats:
    """Return ``(M, L_1, .., L_K)`` by stochastic approximation, ``(K + 1,)``, not rounded.

    Step ``n`` goes against the gradient at the next sample and back into the set of placements; the answer is the mean
    of the second half of the iterates. The step is ``D / (G sqrt(steps))``, with the diameter ``D`` of the set and a
    bound ``G`` of the gradients: after ``N`` steps the mean cost is within a multiple of ``D G / sqrt(N)`` of the best.

    Parameters
    ----------
    ahead : Vector
        ``(K,)``, shares in the queues (``Q_k``).
    outflows : Matrix
        ``(n, K)``, samples that are gone through again and again, each of one moment at all exchanges.
    mode : str
        ``sum``: shares taken and posted are the order. ``overbook``: more may be posted, up to the remainder at each
        exchange; what is filled beyond the order must then be sold again, which a replay does not do.

    Examples
    --------
    >>> prices = PlacementPrices(0.02, 0.003, (0.002,), under=0.026, over=0.024)
    >>> outflows = np.random.default_rng(0).poisson(2200, (20_000, 1)).astype(float)
    >>> stochastic_placement(1000, np.array([2000.0]), outflows, prices, steps=100_000).round(-1)
    array([730., 270.])
    """
    queues = finite_array("ahead", ahead, ndim=1, length=len(prices.rebates))
    samples = finite_array("outflows", outflows, ndim=2)
    if samples.shape[1] != len(queues):
        raise InputError(f"outflows must have a column for each of {len(queues)} exchanges, was {samples.shape[1]}")
    one_of("mode", mode, PLACEMENT_MODES)
    args = (prices.taking, prices.gains, prices.under, prices.over, prices.impact)
    found: Floats = _descend(
        float(whole_number("shares", shares)), queues, samples, *args, whole_number("steps", steps), mode == "overbook"
    )
    return found


@njit(cache=True)
def _descend(
    shares: float,
    ahead: Vector,
    outflows: Matrix,
    taking: float,
    gains: Vector,
    under: float,
    over: float,
    impact: float,
    steps: int,
    overbook: bool,
) -> Floats:
    exchanges = len(ahead)
    most = max(under + impact, over)
    bound = (abs(taking) + impact + most) ** 2
    for k in range(exchanges):
        bound += (abs(gains[k]) + impact + most) ** 2
    step = shares * np.sqrt((exchanges + 1) / (bound * steps))
    placed = np.full(exchanges + 1, shares / (exchanges + 1))
    mean, ranked = np.zeros(exchanges + 1), np.zeros(exchanges + 1)
    for n in range(steps):
        row = n % len(outflows)
        had = placed[0]
        for k in range(exchanges):
            had += min(max(outflows[row, k] - ahead[k], 0.0), placed[k + 1])
        price = 0.0  # of one share more
        if had < shares - 1e-9:
            price = -(under + impact)
        elif had > shares + 1e-9:
            price = over
        placed[0] -= step * (taking + impact + price)
        for k in range(exchanges):
            filled = outflows[row, k] > ahead[k] + placed[k + 1]
            slope = impact - gains[k] + price if filled else impact
            placed[k + 1] -= step * slope
        if overbook:
            _into_overbooked(placed, shares)
        else:
            _into_simplex(placed, shares, ranked)
        if n >= steps // 2:
            for k in range(exchanges + 1):
                mean[k] += placed[k]
    return mean / (steps - steps // 2)


@njit(cache=True)
def _into_simplex(placed: Floats, shares: float, ranked: Floats) -> None:
    """Project onto non-negative numbers that add up to ``shares``; ``ranked`` is room to sort them, largest first."""
    for k in range(len(placed)):  # few numbers: sorting by insertion is fastest, and needs no memory
        place = k
        while place > 0 and ranked[place - 1] < placed[k]:
            ranked[place] = ranked[place - 1]
            place -= 1
        ranked[place] = placed[k]
    total, level = 0.0, 0.0
    for k in range(len(ranked)):
        value = ranked[k]
        total += value
        if value > (total - shares) / (k + 1):
            level = (total - shares) / (k + 1)
    for k in range(len(placed)):
        placed[k] = max(placed[k] - level, 0.0)


@njit(cache=True)
def _posted(placed: Floats, room: float, raised: float) -> float:
    """Shares posted if all limits are raised alike, and cut to what there is room for."""
    total = 0.0
    for k in range(1, len(placed)):
        total += min(max(placed[k] + raised, 0.0), room)
    return total


@njit(cache=True)
def _raise(placed: Floats, room: float) -> float:
    """How far limits are raised so that they hold at least ``room`` shares together."""
    low, high = 0.0, room - float(placed[1:].min())
    if _posted(placed, room, 0.0) >= room:
        return 0.0
    for _ in range(_BISECTIONS):
        half = (low + high) / 2
        if _posted(placed, room, half) < room:
            low = half
        else:
            high = half
    return high


@njit(cache=True)
def _distance(placed: Floats, shares: float, market: float) -> float:
    """Squared distance to the nearest placement that takes ``market`` shares."""
    room = shares - market
    raised = _raise(placed, room)
    total = float((market - placed[0]) ** 2)
    for k in range(1, len(placed)):
        total += (min(max(placed[k] + raised, 0.0), room) - placed[k]) ** 2
    return total


@njit(cache=True)
def _into_overbooked(placed: Floats, shares: float) -> None:
    """Project onto ``0 <= M <= S``, ``0 <= L_k <= S - M``, ``M + sum_k L_k >= S``."""
    room, least, most, total = shares - placed[0], np.inf, -np.inf, 0.0
    for k in range(1, len(placed)):
        least, most, total = min(least, placed[k]), max(most, placed[k]), total + placed[k]
    if 0.0 <= placed[0] <= shares and least >= 0.0 and most <= room and total >= room:
        return
    low, high = 0.0, shares
    for _ in range(2 * _BISECTIONS):  # the distance is convex in the shares taken
        third = (high - low) / 3
        if _distance(placed, shares, low + third) <= _distance(placed, shares, high - third):
            high -= third
        else:
            low += third
    room = shares - high
    raised = _raise(placed, room)
    placed[0] = high
    for k in range(1, len(placed)):
        placed[k] = min(max(placed[k] + raised, 0.0), room)
