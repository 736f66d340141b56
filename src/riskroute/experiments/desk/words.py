"""The answer in plain words, one paragraph for every size and horizon: no number in it that is not in the result."""

from __future__ import annotations

from collections.abc import Sequence

from riskroute.experiments.backtest.backtest import too_large
from riskroute.experiments.desk.config import DeskConfig
from riskroute.experiments.desk.records import DeskCase, Estimate, LearningCost, Saving, StateDifference
from riskroute.text import dollars_text

MOST_NAMED = 3
"""Of the states of the market where a router loses, so many are named, the worst first."""

_UNIT = {"spread": "spread", "volatility": "volatility", "depth": "displayed depth"}


def case_paragraph(case: DeskCase, config: DeskConfig) -> str:
    """Return the answer for one size and horizon: what to use, what it saved, where it loses, what was assumed."""
    found = case.comparison
    time = f"with {case.horizon:g} seconds to be done" if case.horizon else "to be done at once"
    orders = {"buy": "purchases", "sell": "sales"}.get(config.side, "orders")
    parts = [f"For {orders} of {case.shares:,} shares {time}, use {case.use}."]
    parts.append(_verdict(case))
    if case.saving is not None:
        one, rule = found.routers[case.chosen], found.routers[found.bar]
        parts.append(
            f"The worst twentieth of the orders of {case.chosen} cost {one.es95_bps:.2f} bps on average, "
            f"against {rule.es95_bps:.2f} bps with {found.bar}."
        )
        parts.append(_losses(case.losses))
    if case.learning is not None:
        parts.append(_learning(case.learning, case.chosen))
    if case.not_looking is not None:
        parts.append(_not_looking(case.not_looking))
    if case.reason != "no headroom":
        parts.append(f"Knowing everything would have saved {case.headroom_bps:.2f} bps against {found.bar}.")
    parts.append(_assumed(case, config))
    return " ".join(parts)


def _verdict(case: DeskCase) -> str:
    found, bar, saving = case.comparison, case.comparison.bar, case.saving
    judged = f"On {_judged(case)}"
    if case.reason == "beats" and saving is not None:
        tested = "" if found.p_value is None else f", {_p(found.p_value)} allowing for the number of routers compared"
        return (
            f"{judged} it saved {saving.bps.mean:.2f} bps an order against {bar}, the simple rule to beat "
            f"({_interval(saving.bps)}{tested}): {dollars_text(saving.dollars_per_order.mean)} an order "
            f"and {dollars_text(saving.dollars_per_day.mean)} a day."
        )
    if saving is None:
        if case.reason == "no headroom":
            return (
                f"It is the simple rule, and there is nothing to gain: on {_judged(case)} even knowing everything "
                f"would have saved only {case.headroom_bps:.2f} bps."
            )
        return "It is the simple rule, and no router did better on the training days."
    moved = "saved" if saving.bps.mean >= 0 else "cost"
    amount = f"{abs(saving.bps.mean):.2f} bps an order" + ("" if saving.bps.mean >= 0 else " more")
    did = f"{judged} {case.chosen}, which did best on the training days, {moved} {amount} ({_interval(saving.bps)}"
    did += ")" if found.p_value is None else f", {_p(found.p_value)} allowing for the number of routers compared)"
    dollars = (
        f": {dollars_text(saving.dollars_per_order.mean)} an order, {dollars_text(saving.dollars_per_day.mean)} a day"
    )
    because = {
        "worse": ", so it is not better",
        "riskier": f", but charged for risk it is worse: {found.routers[case.chosen].objective_bps:.2f} bps "
        f"against {found.routers[bar].objective_bps:.2f} bps",
        "no headroom": f", and there is nothing to gain: even knowing everything would have saved only "
        f"{case.headroom_bps:.2f} bps",
        "chance": ", which the best of so many routers may do by chance",
        "too few orders": _too_few(saving),
    }[case.reason]
    return f"{did}{dollars if case.reason in ('chance', 'riskier') else ''}{because}."


def _too_few(saving: Saving) -> str:
    if saving.detectable_bps is None:
        return ", too few orders to tell"
    return f", too few orders to tell: a saving would have to be {saving.detectable_bps:.2f} bps to show reliably"


def _judged(case: DeskCase) -> str:
    days = "day" if case.test_days == 1 else "days"
    half = "" if case.training_days else "the second half of "
    return f"{half}{case.test_days} test {days} ({case.comparison.orders:,} orders)"


def _interval(one: Estimate, digits: int = 2) -> str:
    if one.low is None or one.high is None:
        return "too few time blocks for an interval"
    return f"95 % interval {one.low:.{digits}f} to {one.high:.{digits}f}"


def _p(value: float) -> str:
    return "p below 0.001" if value < 0.001 else f"p = {value:.3f}"


def _losses(losses: Sequence[StateDifference]) -> str:
    if not losses:
        return "There was no hour, side, spread, volatility or depth at which it clearly lost."
    worst = sorted(losses, key=lambda one: -one.difference_bps.mean)[:MOST_NAMED]
    named = [f"{_state(one)} (by {one.difference_bps.mean:.2f} bps)" for one in worst]
    return f"It lost {_listed(named)}."


def _state(one: StateDifference) -> str:
    if one.measure == "hour":
        return f"from {one.state}"
    if one.measure == "symbol":
        return f"in {one.state}"
    if one.measure == "side":
        return f"on {'purchases' if one.state == 'buy' else 'sales'}"
    return f"in the {one.state} third of the {_UNIT[one.measure]}"


def _listed(names: Sequence[str]) -> str:
    return " and ".join([*([", ".join(names[:-1])] if len(names) > 1 else []), names[-1]])


def _learning(cost: LearningCost, router: str) -> str:
    first, later = cost.first_day_bps, cost.later_bps
    text = f"Trying things out cost {router} {first.mean:.3f} bps an order on the first day ({_interval(first, 3)})"
    if later is not None:
        text += f" and {later.mean:.3f} bps later ({_interval(later, 3)})"
    lucky = first.mean < 0 or (later is not None and later.mean < 0)
    return f"{text}; below zero, what it tried turned out better than what seemed best." if lucky else f"{text}."


def _not_looking(one: Saving) -> str:
    if one.bps.mean <= 0:
        return f"A fixed split cost {-one.bps.mean:.2f} bps less than the sweep ({_interval(one.bps)} for looking)."
    more = f"{one.bps.mean:.2f} bps more than the sweep"
    return f"Not looking at the books, a fixed split cost {more} ({_interval(one.bps)})."


def _assumed(case: DeskCase, config: DeskConfig) -> str:
    part = f"an order is {case.depth_fraction:.1%} of the displayed depth"
    if case.volume_fraction is not None:
        part += f" and {case.volume_fraction:.1%} of what trades in {config.block_minutes:g} minutes"
    if too_large(case.depth_fraction, case.volume_fraction):
        part += ", which is too large for a market that does not react"
    text = f"It is assumed that orders move no prices ({part}) and take {config.latency_ms:g} ms to a venue"
    surface = case.surface
    if surface is None:
        return f"{text}."
    means = [point.saving_bps.mean for point in surface.points]
    presence = [point.presence for point in surface.points]
    adverse = [point.adverse for point in surface.points]
    whose = "the saving" if surface.against == case.comparison.bar else f"the saving against {surface.against}"
    factors = f"{min(presence):g} to {max(presence):g} times as much in them"
    return (
        f"{text}. What dark pools hold is an assumption too: with {factors} and {min(adverse):g} to {max(adverse):g} "
        f"times the adverse selection, {whose} would be {min(means):.2f} to {max(means):.2f} bps."
    )
