"""The answer in plain words, one paragraph for every size and horizon: no number in it that is not in the result."""

from __future__ import annotations

from collections.abc import Sequence

from riskroute.core.text import difference_text, dollars_text, fixed_text, rounds_to_zero
from riskroute.study.backtest import too_large
from riskroute.study.candidates import FITTED
from riskroute.study.comparison import no_verdict_text
from riskroute.study.config import StudyConfig
from riskroute.study.records import DarkSurface, Estimate, LearningCost, Saving, StateDifference, StudyCase
from riskroute.study.savings import turned

MOST_NAMED = 3
"""Of the states of the market where a router loses, so many are named, the worst first."""

_UNIT = {"spread": "spread", "volatility": "volatility", "depth": "displayed depth"}


def case_paragraph(case: StudyCase, config: StudyConfig, *, pooled: bool = False, synthetic: bool = False) -> str:
    """Return the answer for one symbol, size and horizon: what to use, what it saved, where it loses, what was assumed.

    Of several symbols taken together it is one sentence or two.

    Parameters
    ----------
    pooled : bool
        Whether the case is that of several symbols together.
    synthetic : bool
        Whether days were generated, and not recorded.
    """
    found = case.comparison
    time = f"with {case.horizon:g} seconds to be done" if case.horizon else "to be done at once"
    orders = {"buy": "purchases", "sell": "sales"}.get(config.side, "orders")
    shares = f"{case.shares:,} shares of {case.symbol}" if case.symbol else f"{case.shares:,} shares"
    days = " on synthetic days" if synthetic else ""
    if not case.verdict:
        text = f"{orders} of {shares} {time}{days}: {no_verdict_text(case.estimated_share, synthetic=synthetic)}"
        return f"All symbols together: no verdict for {text}" if pooled else f"No verdict for {text}"
    if pooled:
        return f"All symbols together: for {orders} of {shares} {time}{days}, use {case.use}. {_verdict(case)}"
    parts = [f"For {orders} of {shares} {time}{days}, use {case.use}."]
    parts.append(_verdict(case))
    if case.estimated_share > 0:
        parts.append(_estimated(case.estimated_share))
    if case.saving is not None:
        parts.append(_tail(case))
        if case.chosen in FITTED:
            parts.append(f"{case.chosen} was fitted to the training days it was chosen on, which flatters it there.")
        parts.append(_losses(case.losses))
    if case.learning is not None:
        parts.append(_learning(case.learning, case.chosen))
    if case.not_looking is not None:
        parts.append(_not_looking(case.not_looking))
    if case.reason != "no headroom":
        parts.append(
            f"Perfect foresight, of future prices too, would have saved {fixed_text(case.headroom_bps)} bps against "
            f"{found.bar}."
        )
    parts.append(_assumed(case, config))
    return " ".join(parts)


def _verdict(case: StudyCase) -> str:
    found, bar, saving = case.comparison, case.comparison.bar, case.saving
    judged = f"On {_judged(case)}"
    if case.reason == "beats" and saving is not None:
        return (
            f"{judged} it saved {_saved(saving.bps.mean)} bps an order against {bar}, the simple rule to beat "
            f"({_interval(saving.bps)}{_tested(found.p_value)}): {_dollars(saving)}."
        )
    if saving is None:
        if case.reason == "no headroom":
            return (
                f"It is the simple rule, and there is nothing to gain: on {_judged(case)} even perfect foresight "
                f"would have saved only {fixed_text(case.headroom_bps)} bps."
            )
        return "It is the simple rule, and no router did better on the training days."
    if rounds_to_zero(saving.bps.mean):
        moved = f"cost the same as {bar} ({_interval(turned(saving.bps))})"
    elif saving.bps.mean > 0:
        moved = f"saved {fixed_text(saving.bps.mean)} bps an order ({_interval(saving.bps)})"
    else:
        moved = f"cost {fixed_text(-saving.bps.mean)} bps an order more ({_interval(turned(saving.bps))})"
    did = f"{judged} {case.chosen}, which did best on the training days, {moved}"
    dollars = f": {_dollars(saving)}"
    because = {
        "worse": ", so it is not better",
        "riskier": f", but charged for risk it is worse: {fixed_text(found.routers[case.chosen].objective_bps)} bps "
        f"against {fixed_text(found.routers[bar].objective_bps)} bps",
        "no headroom": f", and there is nothing to gain: even perfect foresight would have saved only "
        f"{fixed_text(case.headroom_bps)} bps",
        "chance": f", which the best of so many routers may do by chance ({_p(found.p_value or 0.0)})",
        "too little": ", and even the upper end of that is too little to matter",
        "too few orders": _too_few(saving),
    }[case.reason]
    return f"{did}{dollars if case.reason in ('chance', 'riskier') else ''}{because}."


def _saved(bps: float) -> str:
    return "less than 0.01" if rounds_to_zero(bps) else fixed_text(bps)


def _estimated(share: float) -> str:
    much = f"{share:.1%}" if share >= 0.0005 else "Less than 0.1%"
    return f"{much} of the shares are beyond the recorded depth and priced by an estimate."


def _tested(p_value: float | None) -> str:
    if p_value is None:
        return ""
    return f"; {_p(p_value)} by Hansen's test of all routers compared, not of this one alone"


def _dollars(saving: Saving) -> str:
    each, many = saving.dollars_per_order, saving.dollars_per_1000_orders
    text = f"{dollars_text(each.mean)} an order"
    if many is None:
        return text
    text += f", or {dollars_text(many.mean)} per 1,000 orders"
    if many.low is not None and many.high is not None:
        text += f" ({dollars_text(many.low)} to {dollars_text(many.high)})"
    return text


def _tail(case: StudyCase) -> str:
    """Expected shortfalls, and whether the chosen router's is worse."""
    found = case.comparison
    mine, rule = (round(found.routers[name].es95_bps, 2) for name in (case.chosen, found.bar))
    worst = f"the worst twentieth of the orders of {case.chosen} cost {fixed_text(mine)} bps on average"
    against = f"against {fixed_text(rule)} bps with {found.bar}"
    verdict = "worse than the rule's" if mine > rule else "no worse than the rule's"
    return f"Its tail is {verdict}: {worst}, {against}."


def _too_few(saving: Saving) -> str:
    if saving.detectable_bps is None:
        return ", too few orders to tell"
    least = fixed_text(saving.detectable_bps)
    return f", too few orders to tell: a saving would have to be {least} bps to show reliably"


def _judged(case: StudyCase) -> str:
    days = "day" if case.test_days == 1 else "days"
    which = f"{case.test_days} test {days}" if case.training_days else f"the second half of {case.test_days} {days}"
    return f"{which} ({case.comparison.orders:,} orders)"


def _interval(one: Estimate, digits: int = 2) -> str:
    if one.low is None or one.high is None:
        return "too few time blocks for an interval"
    return f"95 % interval {fixed_text(one.low, digits)} to {fixed_text(one.high, digits)}"


def _p(value: float) -> str:
    return "p below 0.001" if value < 0.001 else f"p = {value:.3f}"


def _losses(losses: Sequence[StateDifference]) -> str:
    if not losses:
        return "There was no hour, side, spread, imbalance, volatility or depth at which it clearly lost."
    worst = sorted(losses, key=lambda one: -one.difference_bps.mean)[:MOST_NAMED]
    named = [f"{_state(one)} (by {_saved(one.difference_bps.mean)} bps)" for one in worst]
    return f"It lost {_listed(named)}."


def _state(one: StateDifference) -> str:
    if one.measure == "hour":
        return f"from {one.state}"
    if one.measure == "symbol":
        return f"in {one.state}"
    if one.measure == "imbalance":
        return f"where the books leaned {one.state}"
    if one.measure == "side":
        return f"on {'purchases' if one.state == 'buy' else 'sales'}"
    return f"in the {one.state} third of the {_UNIT[one.measure]}"


def _listed(names: Sequence[str]) -> str:
    return " and ".join([*([", ".join(names[:-1])] if len(names) > 1 else []), names[-1]])


def _learning(cost: LearningCost, router: str) -> str:
    first, later = cost.first_day_bps, cost.later_bps
    text = f"Trying things out cost {router} {fixed_text(first.mean, 3)} bps an order on the first day"
    text += f" ({_interval(first, 3)})"
    if later is not None:
        text += f" and {fixed_text(later.mean, 3)} bps later ({_interval(later, 3)})"
    if rounds_to_zero(first.mean, 3) and (later is None or rounds_to_zero(later.mean, 3)):
        return f"Trying things out cost {router} nothing."
    lucky = any(one is not None and one.mean < 0 and not rounds_to_zero(one.mean, 3) for one in (first, later))
    return f"{text}; below zero, what it tried turned out better than what seemed best." if lucky else f"{text}."


def _not_looking(one: Saving) -> str:
    begin = "Not looking at the books, a fixed split" if one.bps.mean > 0 else "A fixed split"
    below = one.bps.mean < 0 and not rounds_to_zero(one.bps.mean)
    interval = _interval(turned(one.bps) if below else one.bps)
    return f"{begin} cost {difference_text(one.bps.mean)} the sweep ({interval})."


def _assumed(case: StudyCase, config: StudyConfig) -> str:
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
    whose = f"the saving of {surface.router}"
    if surface.against != case.comparison.bar:
        whose += f" against {surface.against}"
    factors = f"{min(presence):g} to {max(presence):g} times as much in them"
    return (
        f"{text}. What dark pools hold is an assumption too: with {factors} and {min(adverse):g} to {max(adverse):g} "
        f"times the adverse selection, {whose} was {fixed_text(min(means), 2)} to {fixed_text(max(means), 2)} bps "
        f"({surface.orders:,} orders each{_unclear(surface)})."
    )


def _unclear(surface: DarkSurface) -> str:
    """Where the saving may be none."""
    points = [point for point in surface.points if not point.saving_bps.above_zero]
    if not points:
        return ", and clear in each"
    if len(points) == len(surface.points):
        return ", and not clear in any"
    amounts = [f"{presence:g}" for presence in dict.fromkeys(point.presence for point in points)]
    return f", and not always clear with {_listed(amounts)} times as much"
