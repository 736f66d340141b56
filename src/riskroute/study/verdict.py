"""Verdicts of a backtest and of a study in sentences, with no number that the result does not hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from riskroute.core.text import fixed_text, money_text, rounds_to_zero, words_list
from riskroute.routers.risk import RiskProfile
from riskroute.study.candidates import CLAIRVOYANT, FITTED
from riskroute.study.config import StudyConfig
from riskroute.study.router_comparison import NO_VERDICT, RouterComparison

if TYPE_CHECKING:
    from riskroute.study.case import (
        CaseDarkSurface,
        CaseEstimate,
        CaseLearningCost,
        CaseSaving,
        CaseStateDifference,
        StudyCase,
    )


def backtest_verdict(found: RouterComparison, *, synthetic: bool = False) -> str:
    """Recommend a router and state its saving; the benchmark rule unless another is significantly better."""
    best = found.best
    if share := found.too_much_estimated(best):
        return f"No verdict: {no_verdict_text(share, synthetic=synthetic)}"
    others = [name for name in found.routers if name not in (found.bar, CLAIRVOYANT)]
    use = f"Use {best} (synthetic days)" if synthetic else f"Use {best}"
    pair = found.routers[best].paired
    if best != found.bar and pair is not None:
        low, high = (fixed_text(None if end is None else -end) for end in (pair.high, pair.low))
        tested = "" if found.p_value is None else f"; {_p(found.p_value)}, best of {len(others)}"
        saved = _saved(-pair.difference_bps)
        text = f"{use}: saves {saved} bps per order against {found.bar} (95 % CI {low} to {high}{tested})."
    elif not others:
        text = f"{use}: no other router was played."
    else:
        none = f"none of the {len(others)} others is" if len(others) > 1 else f"{others[0]} is not"
        text = f"{use}: {none} clearly better."
    if CLAIRVOYANT in found.routers:
        headroom = found.routers[found.bar].cost_bps - found.routers[CLAIRVOYANT].cost_bps
        text += (
            _queues(found, best)
            + f" Perfect foresight would save {fixed_text(headroom)} bps per order against {found.bar}."
        )
    return text


def _queues(found: RouterComparison, router: str) -> str:
    """Return a sentence on estimated queue positions and what they mean for a saving, after a space; empty if exact."""
    if found.queues is None:
        return ""
    text = f" {found.queues.note[0].upper()}{found.queues.note[1:]}"
    if router == found.bar:
        return f"{text}."
    low, high = (fixed_text(end) for end in found.queues.saving_bps(router, found.bar))
    return f"{text}: {router} saves {low} to {high} bps between the pessimistic and the optimistic model."


def no_verdict_text(share: float, *, synthetic: bool) -> str:
    """Explain a missing verdict: too much of the volume is priced by an estimate."""
    remedy = "Use smaller orders." if synthetic else "Import more levels or use smaller orders."
    return f"{share:.0%} of the volume is beyond the recorded depth and priced by an estimate. {remedy}"


def footprint_verdict(depth: float, volume: float | None, block_minutes: float) -> str:
    """Compare the order size with displayed depth and volume, and warn if it is too large for a replay.

    Examples
    --------
    >>> footprint_verdict(0.02, 0.005, 10.0)
    'an order is 2.0% of the displayed depth and 0.5% of the 10-minute volume'
    """
    text = f"an order is {depth:.1%} of the displayed depth"
    if volume is not None:
        text += f" and {volume:.1%} of the {block_minutes:g}-minute volume"
    # above these fractions real books would react, and replayed ones do not
    too_large = depth > 0.5 or (volume or 0.0) > 0.1
    return f"{text}, too large for a replay without market impact" if too_large else text


def case_opening(case: StudyCase, config: StudyConfig, *, pooled: bool = False, synthetic: bool = False) -> str:
    """Return the opening sentences of a verdict: which router to use, its saving, and the risk profile."""
    deadline = f"with a {case.horizon:g}-second deadline" if case.horizon else "for immediate execution"
    orders = {"buy": "buy orders", "sell": "sell orders"}.get(config.side, "orders")
    size = f"{case.size} of {case.symbol}" if case.symbol else case.size
    which = f"{orders} of {size} {deadline}{' on synthetic days' if synthetic else ''}"
    begin = "All symbols pooled: " if pooled else ""
    if not case.verdict:
        text = f"no verdict for {which}: {no_verdict_text(case.estimated_share, synthetic=synthetic)}"
        return begin + text if pooled else text[0].upper() + text[1:]
    return (
        f"{begin}{'for' if pooled else 'For'} {which}, use {case.use}. {_verdict(case)} {_profiles(case, config.risk)}"
    )


def case_verdict(case: StudyCase, config: StudyConfig, *, pooled: bool = False, synthetic: bool = False) -> str:
    """Return the verdict for one symbol, size and deadline; for pooled symbols, its opening sentences."""
    parts = [case_opening(case, config, pooled=pooled, synthetic=synthetic)]
    if pooled or not case.verdict:
        return parts[0]
    if case.estimated_share > 0:
        much = f"{case.estimated_share:.1%}" if case.estimated_share >= 0.0005 else "Less than 0.1%"
        parts.append(f"{much} of the volume is beyond the recorded depth and priced by an estimate.")
    if queues := _queues(case.comparison, case.chosen):
        parts.append(queues.strip())
    if case.saving is not None:
        parts.append(_tail(case))
        if case.chosen in FITTED:
            parts.append(f"{case.chosen} was fitted on the training days, so its cost there is optimistic.")
        parts.append(_losses(case.losses))
    if case.learning is not None:
        parts.append(_exploration(case.learning, case.chosen))
    if case.not_looking is not None:
        parts.append(_static_split(case.not_looking))
    if case.reason != "no headroom":
        headroom = fixed_text(case.headroom_bps)
        parts.append(f"Perfect foresight would have saved {headroom} bps per order against {case.comparison.bar}.")
    parts.append(_assumptions(case, config))
    return " ".join(parts)


def _verdict(case: StudyCase) -> str:
    found, bar, saving = case.comparison, case.comparison.bar, case.saving
    days = "day" if case.test_days == 1 else "days"
    test = f"{case.test_days} test {days}" if case.training_days else f"the second half of {case.test_days} {days}"
    judged = f"{test} ({found.orders:,} orders)"
    headroom = f"even perfect foresight would have saved only {fixed_text(case.headroom_bps)} bps per order"
    if case.reason == "beats" and saving is not None:
        tested = "" if found.p_value is None else f"; {_p(found.p_value)} by Hansen's test over all routers"
        return (
            f"On {judged} it saved {_saved(saving.bps.mean)} bps per order against the benchmark rule {bar} "
            f"({_interval(saving.bps)}{tested}){_amounts(saving, case.currency)}."
        )
    if saving is None:
        if case.reason == "no headroom":
            return f"It is the benchmark rule, and there is no headroom: on {judged} {headroom}."
        return "It is the benchmark rule, and no router was better on the training days."
    if rounds_to_zero(saving.bps.mean):
        moved = f"cost the same as {bar} ({_interval(saving.bps.negated)})"
    elif saving.bps.mean > 0:
        moved = f"saved {fixed_text(saving.bps.mean)} bps per order against {bar} ({_interval(saving.bps)})"
    else:
        more = fixed_text(-saving.bps.mean)
        moved = f"cost {more} bps per order more than {bar} ({_interval(saving.bps.negated)})"
    if case.reason in ("chance", "riskier", "queues"):
        moved += _amounts(saving, case.currency)
    detectable = saving.detectable_bps
    power = "" if detectable is None else f" (minimum detectable saving {fixed_text(detectable)} bps)"
    objectives = [fixed_text(found.routers[name].objective_bps) for name in (case.chosen, bar)]
    because = {
        "worse": "; it is significantly worse",
        "riskier": f"; with the charge for risk it is worse, {objectives[0]} bps against {objectives[1]} bps",
        "no headroom": f", and there is no headroom: {headroom}",
        "chance": f"; the best of this many routers may do that by chance ({_p(found.p_value or 0.0)})",
        "queues": "; but not with both the pessimistic and the optimistic queue model",
        "too little": "; even the largest saving in the interval is too small to matter",
        "too few orders": f"; too few orders to tell{power}",
    }[case.reason]
    return f"On {judged} {case.chosen}, the best on the training days, {moved}{because}."


def _profiles(case: StudyCase, risk: RiskProfile) -> str:
    """Name the risk profile, and the answers under the others."""
    text = f"The risk profile is {risk.name} ({risk.describe()})"
    choices = case.frontier.choices if case.frontier is not None else ()
    answers = [f"with {one.risk} {'no verdict' if one.reason in NO_VERDICT else one.use}" for one in choices]
    return f"{text}; {words_list(answers)}." if answers else f"{text}."


def _saved(bps: float) -> str:
    return "less than 0.01" if rounds_to_zero(bps) else fixed_text(bps)


def _amounts(saving: CaseSaving, currency: str) -> str:
    each, many = saving.amount_per_order, saving.amount_per_1000_orders
    text = f": {money_text(each.mean, currency)} per order" if each is not None else ""
    if many is None:
        return text
    text += f", {money_text(many.mean, currency)} per 1,000 orders"
    if many.low is not None and many.high is not None:
        text += f" ({money_text(many.low, currency)} to {money_text(many.high, currency)})"
    return text


def _tail(case: StudyCase) -> str:
    found = case.comparison
    mine, rule = (round(found.routers[name].es95_bps, 2) for name in (case.chosen, found.bar))
    word = "worse" if mine > rule else "no worse"
    return (
        f"The tail is {word}: {case.chosen}'s worst 5 % of orders averaged {fixed_text(mine)} bps, {found.bar}'s "
        f"{fixed_text(rule)} bps."
    )


def _interval(one: CaseEstimate, digits: int = 2) -> str:
    if one.low is None or one.high is None:
        return "too few time blocks for a CI"
    return f"95 % CI {fixed_text(one.low, digits)} to {fixed_text(one.high, digits)}"


def _p(value: float) -> str:
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def _losses(losses: Sequence[CaseStateDifference]) -> str:
    if not losses:
        return "It lost significantly at no hour, side, spread, imbalance, volatility or depth."
    worst = sorted(losses, key=lambda one: -one.difference_bps.mean)[:3]
    named = [f"{_state(one)} (by {_saved(one.difference_bps.mean)} bps)" for one in worst]
    return f"It lost {words_list(named)}."


def _state(one: CaseStateDifference) -> str:
    texts = {"hour": "from {}", "symbol": "in {}", "imbalance": "when the imbalance was {}", "side": "on {} orders"}
    tercile = f"in the {{}} tercile of {'displayed depth' if one.measure == 'depth' else one.measure}"
    return texts.get(one.measure, tercile).format(one.state)


def _exploration(cost: CaseLearningCost, router: str) -> str:
    first, later = cost.first_day_bps, cost.later_bps
    if rounds_to_zero(first.mean, 3) and (later is None or rounds_to_zero(later.mean, 3)):
        return f"Exploration by {router} cost nothing."
    text = f"Exploration by {router} cost {fixed_text(first.mean, 3)} bps per order on the first day"
    text += f" ({_interval(first, 3)})"
    if later is not None:
        text += f" and {fixed_text(later.mean, 3)} bps afterwards ({_interval(later, 3)})"
    negative = any(one is not None and one.mean < 0 and not rounds_to_zero(one.mean, 3) for one in (first, later))
    return f"{text}; a negative cost means that it paid off at once." if negative else f"{text}."


def _static_split(one: CaseSaving) -> str:
    begin = "Ignoring the books, a static split" if one.bps.mean > 0 else "A static split"
    cheaper = one.bps.mean < 0 and not rounds_to_zero(one.bps.mean)
    interval = _interval(one.bps.negated if cheaper else one.bps)
    return f"{begin} cost {_difference(one.bps.mean)} the sweep ({interval})."


def _difference(bps: float) -> str:
    """Return a cost difference as text that the benchmark's name follows."""
    if rounds_to_zero(bps):
        return "the same as"
    return f"{fixed_text(abs(bps))} bps {'more' if bps > 0 else 'less'} than"


def _assumptions(case: StudyCase, config: StudyConfig) -> str:
    part = footprint_verdict(case.depth_fraction, case.volume_fraction, config.block_minutes)
    fees = "" if any(one.fees_bps for one in case.comparison.routers.values()) else "no fees, "
    text = f"Assumes {fees}no market impact ({part}) and {config.latency_ms:g} ms latency."
    surface = case.surface
    if surface is None:
        return text
    means = [point.saving_bps.mean for point in surface.points]
    presence, adverse = ([getattr(point, name) for point in surface.points] for name in ("presence", "adverse"))
    against = f" against {surface.against}" if surface.against != case.comparison.bar else ""
    return (
        f"{text} Dark pools are assumptions too: with {min(presence):g} to {max(presence):g} times the liquidity and "
        f"{min(adverse):g} to {max(adverse):g} times the adverse selection, {surface.router} saved "
        f"{fixed_text(min(means), 2)} to {fixed_text(max(means), 2)} bps{against} ({surface.orders:,} orders each"
        f"{_significance(surface)})."
    )


def _significance(surface: CaseDarkSurface) -> str:
    points = [point for point in surface.points if not point.saving_bps.above_zero]
    if not points:
        return ", significant everywhere"
    if len(points) == len(surface.points):
        return ", significant nowhere"
    factors = [f"{presence:g}" for presence in dict.fromkeys(point.presence for point in points)]
    return f", not always significant with {words_list(factors)} times the liquidity"
