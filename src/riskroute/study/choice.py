"""Which router to use: chosen by its objective on the training days, confirmed or refused by the test days."""

from __future__ import annotations

import polars

from riskroute.study.candidates import CLAIRVOYANT
from riskroute.study.comparison import MOST_ESTIMATED, ROUNDING, Comparison, objective_bps, too_much_estimated
from riskroute.study.headroom import WORTH

REASONS = {
    "beats": "it beats the simple rule on the test days",
    "nothing better": "no router had a lower objective on the training days",
    "no headroom": f"even perfect foresight would save less than {WORTH} bps",
    "worse": "the chosen router cost more on the test days",
    "riskier": "the chosen router saves on average, but not once its risk is charged",
    "chance": "the best of so many routers may look as good by chance",
    "too little": f"whatever the chance, the chosen router saves less than {WORTH} bps",
    "too few orders": "there are too few orders to tell",
    "estimated": f"more than {MOST_ESTIMATED:.0%} of the volume is beyond the recorded depth and priced by an estimate",
}
"""Why a router is to be used, or why the simple rule is; ``estimated`` says why there is no verdict at all."""

LEVEL = 0.05
"""A p-value must be below this."""


def training_objectives(orders: polars.DataFrame, kappa: float) -> dict[str, float]:
    """Return the objective of every router but the clairvoyant on the orders that are not judged, in basis points.

    Routers that learn pay for it there; those that were fitted to these days look a little better than they are.
    """
    training = orders.filter(~polars.col("judged"))
    names = training["router"].unique(maintain_order=True).to_list()
    return {
        name: objective_bps(training.filter(polars.col("router") == name), kappa)
        for name in names
        if name != CLAIRVOYANT
    }


def choose_router(objectives: dict[str, float], bar: str) -> str:
    """Return the router of the least objective; the simple rule if nothing is better than that.

    Examples
    --------
    >>> choose_router({"sweep": 1.0, "contextual": 0.8}, "sweep"), choose_router({"sweep": 1.0, "x": 1.0}, "sweep")
    ('contextual', 'sweep')
    """
    best = min(objectives, key=lambda name: objectives[name])
    return best if objectives[best] < objectives[bar] - ROUNDING else bar


def why(found: Comparison, chosen: str) -> str:
    """Return the name of the reason to use the chosen router (``beats``), the simple rule, or none (``estimated``)."""
    if too_much_estimated(found, chosen):
        return "estimated"
    bar = found.routers[found.bar]
    little = headroom_bps(found) < WORTH
    if chosen == found.bar:
        return "no headroom" if little else "nothing better"
    one = found.routers[chosen]
    low, high = (one.paired.low, one.paired.high) if one.paired is not None else (None, None)
    clear = high is not None and high < 0
    tested = found.p_value is None or found.p_value < LEVEL
    cheaper = one.objective_bps < bar.objective_bps
    if clear and tested and cheaper:
        return "beats"
    if low is not None and low > 0:
        return "worse"
    if clear and not cheaper:
        return "riskier"
    if little:
        return "no headroom"
    if clear:
        return "chance"
    return "too little" if low is not None and low > -WORTH else "too few orders"


def headroom_bps(found: Comparison) -> float:
    """Return what perfect foresight, of future prices too, would save against the simple rule, in bps an order."""
    return found.routers[found.bar].cost_bps - found.routers[CLAIRVOYANT].cost_bps
