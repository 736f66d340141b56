"""Order placement after Cont and Kukanov: market against limit orders over exchanges with random queue outflows.

The order has ``S`` shares. ``M`` are taken, ``L_k`` join the queue of exchange ``k`` behind ``Q_k`` shares. Until the
horizon ``xi_k`` shares leave that queue, by executions and by cancellations ahead, so that exchange ``k`` fills
``(xi_k - Q_k)^+ - (xi_k - Q_k - L_k)^+``. With ``A`` shares executed in total, the cost against the mid is

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

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numba import njit

from riskroute.core.arrays import Floats, Integers, Matrix, Vector
from riskroute.core.records import Count, NonNegative, Positive
from riskroute.core.validation import parameter, real_number, true_or_false, whole_number
from riskroute.routers.context import Context
from riskroute.routers.plan import Plan
from riskroute.routers.public_data import PublicData
from riskroute.routers.router import Router
from riskroute.routers.rules import DarkFirstRule, sweep_rule_plan
from riskroute.routing.allocations import proportional_allocation


@dataclass(frozen=True)
class _PlacementPrices:
    """Prices of the placement problem, in dollars per share.

    An optimum neither leaves the order unfilled nor buys it twice if missing shares cost more than taking, and surplus
    shares more than any fill gains.
    """

    half_spread: float  # h
    taker: float  # taker fee (f)
    rebates: tuple[float, ...]  # by exchange: rebate of a fill (r_k), net of adverse selection
    under: float  # penalty per share missing at the horizon (lambda_u)
    over: float  # penalty per surplus share (lambda_o)
    impact: float = 0.0  # impact cost of every share sent (theta)

    @property
    def taking(self) -> float:
        """Cost of a share taken immediately."""
        return self.half_spread + self.taker

    @property
    def gains(self) -> Floats:
        """Gain of a filled limit order share against the mid, by exchange, ``(K,)``."""
        return self.half_spread + np.array(self.rebates, dtype=np.float64)

    def problem(self, shares: int, ahead: Vector, outflows: Matrix) -> _Placement:
        """Return the placement problem of an order."""
        costs = self.taking, self.gains, self.under, self.over, self.impact
        return _Placement(float(shares), ahead, np.ascontiguousarray(outflows), *costs)


class _Placement(NamedTuple):
    """Placement problem with ``n`` samples of outflows over ``K`` exchanges."""

    shares: float
    ahead: Vector  # (K,)
    outflows: Matrix  # (n, K)
    taking: float
    gains: Vector  # (K,)
    under: float
    over: float
    impact: float


@njit(cache=True)
def _step_size(problem: _Placement, steps: int) -> float:
    most = max(problem.under + problem.impact, problem.over)
    bound = (abs(problem.taking) + problem.impact + most) ** 2
    for gain in problem.gains:
        bound += (abs(gain) + problem.impact + most) ** 2
    return float(problem.shares * np.sqrt((len(problem.gains) + 1) / (bound * steps)))


@njit(cache=True)
def _gradient_step(problem: _Placement, placed: Floats, row: int, step: float) -> None:
    """Move a placement against the gradient at one sample, in place, without projection."""
    had = placed[0]
    for k in range(len(problem.ahead)):
        had += min(max(problem.outflows[row, k] - problem.ahead[k], 0.0), placed[k + 1])
    price = 0.0  # marginal penalty of one more executed share
    if had < problem.shares - 1e-9:
        price = -(problem.under + problem.impact)
    elif had > problem.shares + 1e-9:
        price = problem.over
    placed[0] -= step * (problem.taking + problem.impact + price)
    for k in range(len(problem.ahead)):
        filled = problem.outflows[row, k] > problem.ahead[k] + placed[k + 1]
        placed[k + 1] -= step * (problem.impact - problem.gains[k] + price if filled else problem.impact)


@njit(cache=True)
def _stochastic_placement(problem: _Placement, steps: int) -> Floats:
    """Return ``(M, L_1, .., L_K)`` by projected stochastic gradient descent, ``(K + 1,)``, not rounded.

    Shares taken and posted sum to the order. Each step uses the gradient at the next sample; the result is the mean of
    the second half of the iterates. The step size is ``D / (G sqrt(N))`` for ``N`` steps, with the diameter ``D`` of
    the feasible set and a bound ``G`` on the gradients, so that the expected cost is within ``O(D G / sqrt(N))`` of the
    optimum.
    """
    count = len(problem.ahead) + 1
    step, placed = _step_size(problem, steps), np.full(count, problem.shares / count)
    mean, ranked = np.zeros(count), np.zeros(count)
    for n in range(steps):
        _gradient_step(problem, placed, n % len(problem.outflows), step)
        _into_simplex(placed, problem.shares, ranked)
        if n >= steps // 2:
            for k in range(count):
                mean[k] += placed[k]
    return mean / (steps - steps // 2)


@njit(cache=True)
def _into_simplex(placed: Floats, shares: float, ranked: Floats) -> None:
    """Project in place onto the simplex of size ``shares``; ``ranked`` is a buffer for sorting."""
    for k in range(len(placed)):  # insertion sort: fastest for few numbers, and allocates nothing
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


_FURTHEST = 2  # ticks behind the best price are capped here: 0, 1, or at least 2


@dataclass(frozen=True)
class _OutflowSample:
    """Horizon of a past order and, by venue, ticks behind the best price, outflow, and outflow rate before arrival."""

    horizon: Positive
    queues: dict[str, tuple[int, Count, NonNegative]]


@dataclass
class ContKukanov(Router):
    """Split between market and limit orders by sampled queue outflows (Cont and Kukanov).

    Every past order is a joint sample of the outflows of all queues, from public data: shares ahead that traded or were
    cancelled, and trades beyond them. Samples are scaled to recent trading activity and to the horizon. Where a venue
    stood at another distance from the best price than now, the nearest sample in time at the present distance is used.
    Buy and sell orders are pooled.

    The penalty of a missing share is the cost of taking now plus the recent mean rise of the sweep cost until the
    horizon, given that limit orders did not fill (half a tick if that is not positive). It contains adverse selection,
    because costs are measured from the arrival mid; the paper's reduction of rebates would count it twice and is an
    option (``adverse``). Orders are not overbooked, since surplus fills are not unwound.

    With fewer than ``least`` samples, or a horizon of 0, the router sweeps.

    Parameters
    ----------
    steps : int
        Steps of the stochastic approximation.
    remembered, least : int
        Maximum number of samples, and the minimum to place limit orders.
    memory_weight : float
        Discount factor of the penalty's mean, per observed order.
    impact : float
        Impact cost of every share sent, dollars per share (``theta``).
    adverse : float
        Fraction of the mean adverse move after fills that is deducted from rebates.
    scaled : bool
        Scale outflows by the ratio of the recent outflow now to that at the time of the sample.
    behind : int
        Maximum ticks behind the market's best price at which a queue is joined; 0 is the paper's setting.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> from riskroute.routers.public_data import PublicMarketAtHorizon, PublicQueueOutflow
    >>> fees = {"taker": "0.003 per share", "maker": "-0.002 per share"}
    >>> books = {"A": {"bids": [[10.00, 200]], "asks": [[10.02, 900]], **fees}}
    >>> router = ContKukanov(least=2)
    >>> for name, outflow in (("a", 500), ("b", 700)):
    ...     past = read_context({"venues": books}, side="buy", shares=1000, horizon=60, order=name)
    ...     queues = {"A": PublicQueueOutflow(10.0, 200, outflow)}
    ...     router.on_public_data(PublicData(past, {}, queues, PublicMarketAtHorizon(10.02, 0.033)))
    >>> plan = router.route(read_context({"venues": books}, side="buy", shares=1000, lot=100, horizon=60))
    >>> plan.take, plan.limit  # 300 shares always filled, the next 200 half the time, which still pays
    ({'A': 500}, {'A': 500})
    """

    name: ClassVar[str] = "cont-kukanov"
    feedback: ClassVar[str] = "F3"
    memory: ClassVar[tuple[str, ...]] = ("moments", "missing", "moves")
    steps: int = parameter(2000, whole_number, maximum=10**7)
    remembered: int = parameter(300, whole_number, maximum=100_000)
    least: int = 20
    memory_weight: float = parameter(0.99, real_number, minimum=0, below=1)
    impact: float = parameter(0.0, real_number, minimum=0, maximum=10)
    adverse: float = parameter(0.0, real_number, minimum=0, maximum=10)
    scaled: bool = parameter(True, true_or_false)
    behind: int = parameter(0, whole_number, minimum=0, maximum=_FURTHEST)
    moments: list[_OutflowSample] = field(init=False, repr=False)
    # samples by venue, (n, 4): ticks, outflow, outflow rate before arrival, horizon; NaN where the venue was absent
    past: dict[str, Floats] = field(init=False, repr=False, compare=False)
    missing: tuple[NonNegative, float] = field(init=False, repr=False)  # unfilled weight, weighted rise of the sweep
    moves: dict[str, tuple[NonNegative, float]] = field(init=False, repr=False)  # by venue: filled weight, adverse move

    def check_parameters(self) -> None:
        whole_number("least", self.least, maximum=self.remembered)

    def begin(self) -> None:
        self.moments, self.missing, self.moves, self.past = [], (0.0, 0.0), {}, {}

    def decide(self, context: Context) -> Plan:
        return sweep_rule_plan(context, self.placement(context))

    def placement(self, context: Context) -> dict[str, int] | None:
        """Return the shares to post by venue; None with a horizon of 0, too few samples, or no sampled queue."""
        if context.horizon <= 0 or len(self.moments) < self.least:
            return None
        standing = {venue: queue for venue, queue in cont_kukanov_queues(context).items() if queue[0] <= self.behind}
        outflows = {venue: self._outflows(context, venue, ticks) for venue, (ticks, _, _) in standing.items()}
        known = {venue: samples for venue, samples in outflows.items() if samples is not None}
        if not known:
            return None
        ahead = np.array([standing[venue][1] for venue in known])
        prices = self.prices(context, {venue: standing[venue][2] for venue in known})
        problem = prices.problem(context.shares, ahead, np.column_stack(list(known.values())))
        found = _stochastic_placement(problem, self.steps)
        lots = proportional_allocation(found, context.shares, context.lot)[1:]
        return {venue: int(shares) for venue, shares in zip(known, lots, strict=True) if shares}

    def prices(self, context: Context, gains: dict[str, float]) -> _PlacementPrices:
        """Return the prices of the placement problem, given the gain of a fill at each venue."""
        half = (context.books.best_ask - context.books.best_bid) / 2
        taking = float(context.displayed.costs(context.shares)) / context.shares
        weight, more = self.missing
        excess = more / weight if weight > 0 else 0.0
        under = taking + (excess if excess > 0 else context.tick / 2)
        rebates = []
        for venue, gain in gains.items():
            filled, moved = self.moves.get(venue, (0.0, 0.0))
            rebates.append(gain - half - self.adverse * (moved / filled if filled > 0 else 0.0))
        return _PlacementPrices(half, taking - half, tuple(rebates), under=under, over=under, impact=self.impact)

    def _outflows(self, context: Context, venue: str, ticks: int) -> Floats | None:
        """Return the past outflows of a queue, scaled to the present; None without a sample at that distance."""
        if venue not in self.past:
            return None
        behind, outflows, rates, horizons = self.past[venue].T
        rows = np.flatnonzero(behind == ticks)
        if not len(rows):
            return None
        values, then = outflows[rows] / horizons[rows], rates[rows]
        rate = context.features.get(f"outflow {venue}", 0.0)
        if self.scaled and rate > 0:
            known = then > 0
            values[known] *= np.clip(rate / then[known], 0.25, 4.0)
        return np.asarray(values[_nearest(rows, len(self.moments))] * context.horizon)

    def _remember(self, sample: _OutflowSample) -> None:
        """Append a sample, and drop the oldest beyond ``remembered``."""
        for venue in sample.queues:
            self.past.setdefault(venue, np.full((len(self.moments), 4), np.nan))
        self.moments.append(sample)
        del self.moments[: -self.remembered]
        for venue, rows in self.past.items():
            last = [*sample.queues.get(venue, (np.nan,) * 3), sample.horizon]
            self.past[venue] = np.concatenate([rows, [last]])[-self.remembered :]

    def on_public_data(self, public: PublicData) -> None:
        context = public.context
        if not public.queues or public.at_horizon is None:
            return
        queues: dict[str, tuple[int, int, float]] = {}
        unfilled = []
        for venue, (ticks, _, _) in cont_kukanov_queues(context).items():
            if venue in public.queues:
                one = public.queues[venue]
                filled = one.filled(context.shares)
                queues[venue] = (ticks, one.outflow, context.features.get(f"outflow {venue}", 0.0))
                unfilled.append(1 - filled / context.shares)
                against = context.sign * (context.mid - public.at_horizon.mid)
                self.moves[venue] = self._add(self.moves.get(venue, (0.0, 0.0)), filled / context.shares, against)
        if not queues:
            return
        self._remember(_OutflowSample(context.horizon, queues))
        now = float(context.displayed.costs(context.shares)) / context.shares
        if np.isfinite(public.at_horizon.sweep - now):
            share = sum(unfilled) / len(unfilled)
            self.missing = self._add(self.missing, share, public.at_horizon.sweep - now)

    def _add(self, sums: tuple[float, float], weight: float, value: float) -> tuple[float, float]:
        """Return discounted sums of weights and of weighted values, with one more term."""
        return self.memory_weight * sums[0] + weight, self.memory_weight * sums[1] + weight * value

    def load_memory(self, memory: dict[str, Any]) -> None:
        super().load_memory(memory)
        samples, self.moments, self.past = self.moments, [], {}
        for sample in samples:
            self._remember(sample)


@dataclass
class DarkFirstContKukanov(DarkFirstRule):
    """Ping dark pools with the whole order, then place the remainder as `ContKukanov` does.

    Pool fills first reduce the shares to take: with one exchange, the optimal limit order is the same for all
    sufficiently large orders.

    Parameters
    ----------
    mode, memory_weight, cap, min_saving
        As in `DarkFirstRule`.
    steps, remembered, least, adverse, scaled, behind
        As in `ContKukanov`.
    """

    name: ClassVar[str] = "dark-first+cont-kukanov"
    feedback: ClassVar[str] = "F3"
    memory: ClassVar[tuple[str, ...]] = (*DarkFirstRule.memory, "lit_memory")
    steps: int = 2000
    remembered: int = 300
    least: int = 20
    adverse: float = 0.0
    scaled: bool = True
    behind: int = 0

    def check_parameters(self) -> None:
        super().check_parameters()
        names = ("steps", "remembered", "least", "adverse", "scaled", "behind")
        self.lit = ContKukanov(**{name: getattr(self, name) for name in names})

    def then(self, context: Context, dark: Mapping[str, int], *, in_turn: bool) -> Plan:
        placed = self.lit.placement(context)
        if not placed:
            return super().then(context, dark, in_turn=in_turn)
        return Plan(context.order, dark=dark, in_turn=True, before=True, limit=placed)

    def on_public_data(self, public: PublicData) -> None:
        self.lit.on_public_data(public)

    @property
    def lit_memory(self) -> dict[str, Any]:
        """Learned attributes of the lit part."""
        return {name: getattr(self.lit, name) for name in self.lit.memory}

    def load_memory(self, memory: dict[str, Any]) -> None:
        super().load_memory(memory)
        self.lit.load_memory(memory["lit_memory"])


def cont_kukanov_queues(context: Context) -> dict[str, tuple[int, float, float]]:
    """Return by venue: ticks behind the best own-side price, shares ahead, dollars gained by a fill against the mid."""
    books = context.books
    best = books.best_bid if context.sign > 0 else books.best_ask
    prices, sizes = books.side("bid" if context.sign > 0 else "ask")
    fees = books.post_fees("bid" if context.sign > 0 else "ask")
    found = {}
    for v, name in enumerate(books.venues):
        price, size = float(prices[v, 0]), float(sizes[v, 0])
        if size > 0 and np.isfinite(price):
            ticks = min(round(context.sign * (best - price) / context.tick), _FURTHEST)
            found[name] = (ticks, size, context.sign * (context.mid - price) - float(fees[v]))
    return found


def _nearest(rows: Integers, count: int) -> Integers:
    """Return, for 0 .. ``count - 1``, the index of the nearest of the ascending ``rows``; ties go to the earlier."""
    at = np.arange(count)
    after = np.minimum(np.searchsorted(rows, at), len(rows) - 1)
    before = np.maximum(after - 1, 0)
    return np.where(np.abs(rows[before] - at) <= np.abs(rows[after] - at), before, after)
