"""What orders cost, in typed records. Costs, spreads and markouts are basis points of the arrival mid ``m0``.

``s`` is 1 for a purchase and -1 for a sale, ``S`` the shares of an order; a fill is of ``q`` shares at the price ``p``
at time ``t``, and ``m[t]`` is the consolidated mid as of then. Null (None) stands for what cannot be known, such as the
markout of a pool that never filled.
"""

from __future__ import annotations

from dataclasses import dataclass

Interval = tuple[float, float]


@dataclass(frozen=True)
class CostTercile:
    """Costs of a third of the orders: those with a low, middle or high value of a measure.

    The thirds are those of the orders of all routers together, and orders of equal value stay together: a third may be
    larger than the others, and is missing if no order is in it.

    Parameters
    ----------
    measure : str
        ``spread`` (quoted at the decision, basis points), ``time`` (hours since midnight in the zone of the day)
        or ``size`` (shares of the order over those displayed on the side it takes from).
    tercile : str
        ``low``, ``middle`` or ``high``.
    least, most : float
        The smallest and largest value in this third of the router's orders.
    orders : int
        How many there are.
    cost_bps, sd_bps, es95_bps : float
        As in `RouterCosts`.
    """

    measure: str
    tercile: str
    least: float
    most: float
    orders: int
    cost_bps: float
    sd_bps: float | None
    es95_bps: float


@dataclass(frozen=True)
class RouterCosts:
    """What the orders of one router cost, and how they were filled.

    Costs are means over orders. Spreads, markouts and times are means and quantiles over shares. Seeds, symbols and
    days are taken together.

    Parameters
    ----------
    router : str
        Its name.
    orders, shares : int
        How many it was given.
    blocks : int
        Time blocks that the orders came in; blocks of different days are different.
    cost_bps : float
        Mean of ``cost / (S m0)``, fees included.
    slippage_bps : float
        Arrival slippage without fees: mean of ``sum(q s (p - m0)) / (sum(q) m0)``.
    fees_bps : float
        Mean of ``fees / (S m0)``; rebates are negative.
    shortfall_bps : float
        Implementation shortfall: mean of ``[sum_on_time(q s (p - m0)) + L (s (m[H] - m0) + spread[H] / 2) + fees] /
        (S m0)``. A fill is late if it comes of a sweep at or after the horizon ``H`` of an order that has one (above
        0 s); ``L = S - sum_on_time(q)`` are the shares filled late or not at all, which are charged the far touch at
        the horizon. Orders whose mid at the horizon is not known are left out if they have such shares.
    opportunity_bps : float
        Opportunity cost: mean of the second term alone, ``L (s (m[H] - m0) + spread[H] / 2) / (S m0)``.
    late_share : float
        ``sum(L) / sum(S)``.
    effective_spread_bps : float
        ``2 s (p - m[t]) / m0``, over filled shares.
    quoted_spread_bps : float
        ``(ask - bid) / m0`` at the decision, the best of all venues, over shares ordered; negative where the books of
        two venues cross.
    spread_ratio : float
        Effective over quoted spread: 1 pays the whole spread.
    improvement_bps : float
        ``s (touch - p) / m0`` over filled shares, where the touch is the best displayed price to take at the decision;
        negative where fills were worse on average.
    improved_share : float
        Fraction of the filled shares that traded at better than the touch.
    spread_capture : float
        Of limit orders: ``sum(q s (m[t] - p)) / sum(q (ask - bid) / 2)``; 1 earns half a quoted spread.
    sd_bps : float
        Standard deviation of the cost of an order, ``n - 1`` in the denominator.
    es95_bps, worst_bps : float
        Expected shortfall 5 %, the mean cost of the worst twentieth of the orders, and that of their worst hundredth;
        the order at the edge is weighted by its fraction.
    dark_share, limit_share, taken_share : float
        Fractions of the filled shares that traded in dark pools, by limit orders, and by taking and sweeping; they sum
        to 1.
    dark_fill_rate, limit_fill_rate, ioc_fill_rate : float
        Shares filled over shares sent, of child orders in dark pools, of limit orders, and of those that take at once
        (immediate or cancel). Pools tried in turn count the same share as sent more than once. Sweeps are left out:
        they look before they take.
    dark_hit_rate, limit_hit_rate, ioc_hit_rate : float
        Fraction of these child orders that were filled at all.
    fade : float
        ``1 - sum(filled) / sum(min(sent, displayed))`` of the child orders that take at once, with what was displayed
        to them at the decision; below 0 where more was there. Shares that came back as a better price was elsewhere
        count as faded, since the tables do not tell them by child order: see ``prevented_shares``.
    fill_seconds_50, fill_seconds_90, fill_seconds_99 : float
        Seconds from the order's arrival within which this per cent of the filled shares had traded.
    markout_1_bps, markout_10_bps, markout_60_bps : float
        ``s (m[t+D] - p) / m0`` over filled shares, D seconds after each fill; positive is good.
    reversion_1_bps, reversion_10_bps, reversion_60_bps : float
        Mean over orders of ``s (m[end] - m[end+D]) / m0`` after the last fill; positive: the price came back. Recorded
        books hold none of our own impact, so this is the market's own doing.
    estimated_shares, prevented_shares, through_shares : int
        Shares beyond what was displayed, at an estimated price; shares not taken as a better price was elsewhere; and
        shares that traded through a better quote.
    stale_books : int
        Books that were too old to be shown, over all orders.
    decision_us, decision_99_us : float
        Microseconds per decision: mean, and what 99 % of them took at most.
    terciles : tuple of CostTercile
        Costs by spread, time of day and size. Volatility is not in the tables.
    zone : str
        Time zone of the days; empty if there are several.
    """

    router: str
    orders: int
    shares: int
    blocks: int
    cost_bps: float
    slippage_bps: float | None
    fees_bps: float
    shortfall_bps: float | None
    opportunity_bps: float | None
    late_share: float
    effective_spread_bps: float | None
    quoted_spread_bps: float | None
    spread_ratio: float | None
    improvement_bps: float | None
    improved_share: float | None
    spread_capture: float | None
    sd_bps: float | None
    es95_bps: float
    worst_bps: float
    dark_share: float | None
    limit_share: float | None
    taken_share: float | None
    dark_fill_rate: float | None
    limit_fill_rate: float | None
    ioc_fill_rate: float | None
    dark_hit_rate: float | None
    limit_hit_rate: float | None
    ioc_hit_rate: float | None
    fade: float | None
    fill_seconds_50: float | None
    fill_seconds_90: float | None
    fill_seconds_99: float | None
    markout_1_bps: float | None
    markout_10_bps: float | None
    markout_60_bps: float | None
    reversion_1_bps: float | None
    reversion_10_bps: float | None
    reversion_60_bps: float | None
    estimated_shares: int
    prevented_shares: int
    through_shares: int
    stale_books: int
    decision_us: float | None
    decision_99_us: float | None
    terciles: tuple[CostTercile, ...]
    zone: str = ""

    @property
    def estimated_share(self) -> float:
        """Share of the volume whose price is an estimate."""
        return self.estimated_shares / self.shares


@dataclass(frozen=True)
class VenueCosts:
    """What one kind of child order of one router cost at one venue or pool; means are over filled shares.

    Adverse selection is that of fills which we did not time, in dark pools and of limit orders, and null for others.
    Its excess over the markout of the venue at random moments needs more than the tables hold, and is not given.

    Parameters
    ----------
    router, place, kind : str
        Whose, where (``beyond`` for shares beyond all displays) and what kind: take, sweep, limit, dark or dark_rest.
    orders : int
        Orders that sent something there.
    blocks : int
        Time blocks with a fill there.
    sent, filled : int
        Shares.
    fill_rate, hit_rate : float
        Shares filled over shares sent, and fraction of the orders that were filled at all there.
    volume_share : float
        Fraction of the router's filled shares.
    slippage_bps : float
        ``s (p - m0) / m0``, without fees.
    fees_bps : float
        ``fee / m0``.
    effective_spread_bps : float
        ``2 s (p - m[t]) / m0``.
    fade : float
        Of child orders that take at once, as in `RouterCosts`.
    fill_seconds_50, fill_seconds_90 : float
        Seconds from when the child order was sent within which this per cent of the filled shares had traded.
    markout_1_bps, markout_10_bps, markout_60_bps : float
        ``s (m[t+D] - p) / m0``; positive is good.
    mid_markout_1_bps, mid_markout_10_bps, mid_markout_60_bps : float
        ``s (m[t+D] - m[t]) / m0``, without the spread.
    adverse_1_bps, adverse_10_bps, adverse_60_bps : float
        Adverse selection: minus the mid-to-mid markout.
    adverse_1_interval, adverse_10_interval, adverse_60_interval : tuple of float
        Where 95 % of its bootstrap samples lie, with whole time blocks drawn together; null below 30 blocks.
    toxicity : float
        Adverse selection at 1 s over half the quoted spread at the decision, of the same fills.
    saving_bps : float
        What fills which we did not time saved against a sweep: ``((ask - bid) / 2 - s (p - m[t]) - fee) / m0``. The
        sweep is taken to have paid half the spread quoted at the decision; its taker fees, the depth it needed, and
        the way to the pool are left out.
    net_saving_bps : float
        The same less the adverse selection at 10 s: ``((ask - bid) / 2 + s (m[t+10] - p) - fee) / m0``.
    toxic : bool
        Whether the interval of the adverse selection at 1 s lies above the saving; null without an interval.
    """

    router: str
    place: str
    kind: str
    orders: int
    blocks: int
    sent: int
    filled: int
    fill_rate: float | None
    hit_rate: float | None
    volume_share: float | None
    slippage_bps: float | None
    fees_bps: float | None
    effective_spread_bps: float | None
    fade: float | None
    fill_seconds_50: float | None
    fill_seconds_90: float | None
    markout_1_bps: float | None
    markout_10_bps: float | None
    markout_60_bps: float | None
    mid_markout_1_bps: float | None
    mid_markout_10_bps: float | None
    mid_markout_60_bps: float | None
    adverse_1_bps: float | None
    adverse_10_bps: float | None
    adverse_60_bps: float | None
    adverse_1_interval: Interval | None
    adverse_10_interval: Interval | None
    adverse_60_interval: Interval | None
    toxicity: float | None
    saving_bps: float | None
    net_saving_bps: float | None
    toxic: bool | None
