"""What a study found out, in money: costs instead of profits, and risk as a charge in dollars.

Mean-variance divided by the risk tolerance is the cost of an order plus a charge for its risk, both in dollars. There
is no such charge at a risk tolerance of zero, which does not care for money.
"""

from __future__ import annotations

from dataclasses import asdict

from riskroute.study.split.evaluation import SplitEvaluation
from riskroute.study.split.order_records import OrderSplitMeasures


def in_money(measured: SplitEvaluation, shares: int, mid: float, risk_tolerance: float) -> OrderSplitMeasures:
    """Add what an order cost to what it earned.

    Parameters
    ----------
    measured : ProfitMeasures
        What the split earned.
    shares : int
        Size of the order.
    mid : float
        Mid on average over the same books, in dollars.
    risk_tolerance : float
        Weight of the mean against the variance.

    Returns
    -------
    SplitMeasures
        Profits and costs.

    Examples
    --------
    >>> errors = {"mean_error": 0.1, "variance_error": 0.3, "mean_variance_error": 0.4, "tail_error": 0.2}
    >>> excess = {"excess": 1.0, "excess_error": 0.2}
    >>> measured = SplitEvaluation(mean=-0.5, variance=1.0, mean_variance=2.0, tail=-1.5, **errors, **excess)
    >>> found = in_money(measured, shares=10, mid=100.0, risk_tolerance=2.0)
    >>> found.cost, found.basis_points, found.per_thousand, found.charged_cost, found.risk_charge
    (0.5, 5.0, 50.0, 1.0, 0.5)
    """
    cost = -measured.mean
    return OrderSplitMeasures(
        **asdict(measured),
        cost=cost,
        cost_error=measured.mean_error,
        basis_points=cost / (shares * mid) * 1e4,
        per_thousand=cost / shares * 1000,
        tail_cost=-measured.tail,
        risk_charge=charged_money(measured.variance, risk_tolerance),
        charged_cost=charged_money(measured.mean_variance, risk_tolerance),
        charged_cost_error=charged_money(measured.mean_variance_error, risk_tolerance),
        charged_excess=charged_money(measured.excess, risk_tolerance),
        charged_excess_error=charged_money(measured.excess_error, risk_tolerance),
    )


def charged_money(value: float, risk_tolerance: float) -> float | None:
    """A mean-variance in dollars."""
    return value / risk_tolerance if risk_tolerance else None
