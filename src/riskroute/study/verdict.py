"""Verdicts of a backtest and of a study in sentences; every number is taken from the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from riskroute.core.instrument import each_instrument_text
from riskroute.core.text import fixed_text, money_text, natural_text, rounds_to_zero, words_list
from riskroute.routers.risk import RiskProfile
from riskroute.study.candidates import CLAIRVOYANT, FITTED
from riskroute.study.config import StudyConfig
from riskroute.study.day_tables import PRICE_BENCHMARKS
from riskroute.study.router_comparison import NO_VERDICT, ROUNDING, RouterComparison
from riskroute.study.statistics import LEAST_DAYS, LEAST_INDEPENDENT, Sample

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
    """Recommend the best router, with its saving, or the benchmark rule; or say why the data allow no verdict."""
    best = found.best
    rested = "" if found.resting else f" {_NO_LIMIT_ORDERS}"
    if share := found.too_much_estimated(best):
        quantity = found.known_quantity(best)
        known = natural_text(quantity) if quantity else ""
        return f"Not enough data to tell: {no_verdict_text(share, synthetic=synthetic, known=known)}{rested}"
    if not found.sample.enough:
        few = _few_days(found.sample, found.further_days(best), found.further_orders(best))
        return f"Not enough data to tell: {few}{_queues(found, best)}{rested}"
    others = [name for name in found.routers if name not in (found.bar, CLAIRVOYANT)]
    use = f"Use {best} (synthetic days)" if synthetic else f"Use {best}"
    pair = found.routers[best].paired
    if best != found.bar and pair is not None:
        low, high = (fixed_text(None if end is None else -end) for end in (pair.high, pair.low))
        tested = "" if pair.p_value is None else f"; {_p(pair.p_value)}, best of {len(others)}"
        saved = _saved(-pair.difference_bps)
        text = f"{use}: saves {saved} bps per order against {found.bar} (95 % CI {low} to {high}{tested})"
        text += f"{_charged(found, best)}."
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
    return text + rested


_NO_LIMIT_ORDERS = "Limit orders could not be played on this data."


def _few_days(sample: Sample, days: int, orders: int) -> str:
    """Say that there are too few days or time blocks for a verdict, and how many further ones would be enough."""
    needed = f"{LEAST_INDEPENDENT} independent time blocks or {LEAST_DAYS} test days are needed"
    return f"the orders cover {sample}; {needed}. {_further(days, orders).capitalize()}."


def _further(days: int, orders: int) -> str:
    return (
        f"about {days:,} further test {'day' if days == 1 else 'days'} like these ({orders:,} orders) would be enough"
    )


def _queues(found: RouterComparison, router: str) -> str:
    """Return a sentence on estimated queue positions and what they mean for a saving, after a space; empty if exact."""
    if found.queues is None:
        return ""
    text = f" {found.queues.note[0].upper()}{found.queues.note[1:]}"
    if router == found.bar:
        return f"{text}."
    low, high = (fixed_text(end) for end in found.queues.saving_bps(router, found.bar))
    return f"{text}: {router} saves {low} to {high} bps between the pessimistic and the optimistic model."


def no_verdict_text(share: float, *, synthetic: bool, known: str = "") -> str:
    """Explain a missing verdict: too much volume is priced by an estimate; orders up to ``known`` would get a verdict.

    Examples
    --------
    >>> no_verdict_text(0.57, synthetic=True, known="2,500 shares")
    '57% of the volume is beyond the recorded depth and priced by an estimate. Orders of up to about 2,500
    shares would have been small enough.'
    """
    if not known:
        remedy = "Use smaller orders." if synthetic else "Import more levels or use smaller orders."
    else:
        more = "" if synthetic else "; or import more levels"
        remedy = f"Orders of up to about {known} would have been small enough{more}."
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
    if not case.verdict:
        begin = "All symbols pooled: not" if pooled else "Not"
        if case.reason == "too few days":
            why = _few_days(case.comparison.sample, case.further_days, case.further_orders) + _so_far(case)
        else:
            quantity = case.comparison.known_quantity(case.chosen)
            known = each_instrument_text(case.instruments, quantity) if quantity else ""
            why = no_verdict_text(case.estimated_share, synthetic=synthetic, known=known)
        parts = [f"{begin} enough data to tell which router to use for {which}: {why}"]
    else:
        begin = "All symbols pooled: for" if pooled else "For"
        parts = [f"{begin} {which}, use {case.use}.", _verdict(case)]
    return " ".join([*parts, _profiles(case, config.risk)])


def case_verdict(case: StudyCase, config: StudyConfig, *, pooled: bool = False, synthetic: bool = False) -> str:
    """Return the verdict for one symbol, size and deadline: its opening and its details."""
    opening = case_opening(case, config, pooled=pooled, synthetic=synthetic)
    return " ".join([opening, *case_details(case, config, pooled=pooled)])


def case_details(case: StudyCase, config: StudyConfig, *, pooled: bool = False) -> list[str]:
    """Return the sentences after the opening of a verdict, point by point; for pooled symbols, only the first."""
    parts = []
    if not case.comparison.resting:
        parts.append(_NO_LIMIT_ORDERS)
    if case.reason == "estimated":
        return parts
    if overlooked := _not_chosen(case):
        parts.append(overlooked)
    if pooled:
        return parts
    if case.estimated_share > 0:
        much = f"{case.estimated_share:.1%}" if case.estimated_share >= 0.0005 else "Less than 0.1%"
        parts.append(f"{much} of the volume is beyond the recorded depth and priced by an estimate.")
    if queues := _queues(case.comparison, case.chosen):
        parts.append(queues.strip())
    if case.saving is not None:
        parts.append(_tail(case))
        if case.chosen in FITTED:
            parts.append(f"{case.chosen} was scored on training orders that it was not fitted to.")
        parts.append(_losses(case.losses))
    if case.learning is not None:
        parts.append(_exploration(case.learning, case.chosen))
    if case.not_looking is not None:
        parts.append(_static_split(case.not_looking))
    parts.append(_levels(case))
    if case.reason != "no headroom":
        headroom = fixed_text(case.headroom_bps)
        parts.append(f"Perfect foresight would have saved {headroom} bps per order against {case.comparison.bar}.")
    return [*parts, _assumptions(case, config)]


def _verdict(case: StudyCase) -> str:
    found, bar, saving = case.comparison, case.comparison.bar, case.saving
    days = "day" if case.test_days == 1 else "days"
    test = f"{case.test_days} test {days}" if case.training_days else f"the second half of {case.test_days} {days}"
    judged = f"{test} ({found.orders:,} orders, {found.sample})"
    headroom = f"even perfect foresight would have saved only {fixed_text(case.headroom_bps)} bps per order"
    if case.reason == "beats" and saving is not None:
        moved = _moved(saving, f"the benchmark rule {bar}")
        return f"On {judged} it {moved}{_amounts(saving, case.currency)}{_charged(found, case.chosen)}."
    if saving is None:
        if case.reason == "no headroom":
            return f"It is the benchmark rule, and there is no headroom: on {judged} {headroom}."
        return "It is the benchmark rule, and no router was better on the training days."
    moved = _moved(saving, bar)
    if case.reason in ("riskier", "queues"):
        moved += _amounts(saving, case.currency)
    moved += _charged(found, case.chosen)
    detectable = saving.detectable_bps
    power = "" if detectable is None else f" (minimum detectable saving {fixed_text(detectable)} bps)"
    if case.further_days:
        power += f"; {_further(case.further_days, case.further_orders)}"
    because = {
        "worse": "; it is significantly worse",
        "riskier": "",
        "no headroom": f", and there is no headroom: {headroom}",
        "tail": "; but its expected shortfall is significantly larger than the rule's",
        "queues": "; but not with both the pessimistic and the optimistic queue model",
        "too little": "; even the largest saving in the interval is too small to matter",
        "too few orders": f"; too few orders to tell{power}",
    }[case.reason]
    return f"On {judged} {case.chosen}, the best on the training days, {moved}{because}."


def _profiles(case: StudyCase, risk: RiskProfile) -> str:
    """Name the risk profile, and the answers under the others."""
    text = f"The risk profile is {risk.name} ({risk.describe()})"
    choices = case.frontier.choices if case.frontier is not None else ()
    if all(reason in NO_VERDICT for reason in (case.reason, *(one.reason for one in choices))):
        return f"{text}."
    answers = [f"with {one.risk} {'no verdict' if one.reason in NO_VERDICT else one.use}" for one in choices]
    return f"{text}; {words_list(answers)}." if answers else f"{text}."


def _moved(saving: CaseSaving, bar: str) -> str:
    """Say how much a router saved or lost against the rule, with interval and p-value."""
    tested = "" if saving.p_value is None else f"; {_p(saving.p_value)}"
    if rounds_to_zero(saving.bps.mean):
        return f"cost the same as {bar} ({_interval(saving.bps.negated)}{tested})"
    if saving.bps.mean > 0:
        return f"saved {fixed_text(saving.bps.mean)} bps per order against {bar} ({_interval(saving.bps)}{tested})"
    more = fixed_text(-saving.bps.mean)
    return f"cost {more} bps per order more than {bar} ({_interval(saving.bps.negated)}{tested})"


def _levels(case: StudyCase) -> str:
    """State the mean costs of the chosen router and of the rule against the price benchmark."""
    found = case.comparison
    names = dict.fromkeys((case.chosen, found.bar))
    costs = words_list([f"{name} cost {fixed_text(found.routers[name].cost_bps)} bps" for name in names])
    return f"Against the {PRICE_BENCHMARKS[found.benchmark]}, {costs} per order."


def _charged(found: RouterComparison, router: str) -> str:
    """State the saving with the charge for risk; empty if the charge makes no difference."""
    one = found.routers[router]
    pair, cost = one.paired_objective, one.paired
    if pair is None or cost is None or abs(pair.difference_bps - cost.difference_bps) < ROUNDING:
        return ""
    tested = "" if pair.p_value is None else f"; {_p(pair.p_value)}"
    if pair.difference_bps > 0:
        more = fixed_text(pair.difference_bps)
        return f"; with the charge for risk it cost {more} bps more ({_ends(pair.low, pair.high)}{tested})"
    low, high = (None if end is None else -end for end in (pair.high, pair.low))
    saved = fixed_text(-pair.difference_bps)
    return f"; with the charge for risk it saved {saved} bps ({_ends(low, high)}{tested})"


def _so_far(case: StudyCase) -> str:
    """State the saving on too few days, after a space; empty if the rule was chosen."""
    if case.saving is None:
        return ""
    return f" So far {case.chosen}, the best on the training days, {_moved(case.saving, case.comparison.bar)}."


def _not_chosen(case: StudyCase) -> str:
    """Explain why the router with the best objective on the test days was not chosen; empty if it was."""
    test = {name: one.objective_bps for name, one in case.comparison.routers.items() if name != CLAIRVOYANT}
    best, training = min(test, key=lambda name: test[name]), case.training_objective_bps
    if test[best] >= test[case.chosen] - ROUNDING or not {best, case.chosen} <= training.keys():
        return ""
    found = f"{fixed_text(test[best], 3)} bps against {fixed_text(test[case.chosen], 3)} bps"
    why = f"there it had {fixed_text(training[best], 3)} bps against {fixed_text(training[case.chosen], 3)} bps"
    if training[best] < training[case.chosen] - ROUNDING:
        why += f", but its expected shortfall exceeded that of {case.comparison.bar} by "
        why += f"{fixed_text(case.training_excess_bps.get(best))} bps"
    return (
        f"On the test days {best} had a lower objective than {case.chosen}, {found}, but a router is chosen on the "
        f"training days: {why}."
    )


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
    word, pair = "worse" if mine > rule else "no worse", found.routers[case.chosen].paired_tail
    interval = "" if pair is None or pair.low is None else f" ({_ends(pair.low, pair.high)} for the difference)"
    return (
        f"The tail is {word}: {case.chosen}'s worst 5 % of orders averaged {fixed_text(mine)} bps, {found.bar}'s "
        f"{fixed_text(rule)} bps{interval}."
    )


def _interval(one: CaseEstimate, digits: int = 2) -> str:
    return _ends(one.low, one.high, digits)


def _ends(low: float | None, high: float | None, digits: int = 2) -> str:
    if low is None or high is None:
        return "too few time blocks for a CI"
    return f"95 % CI {fixed_text(low, digits)} to {fixed_text(high, digits)}"


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


def _static_split(one: CaseEstimate) -> str:
    begin = "Ignoring the books, a static split" if one.mean > 0 else "A static split"
    cheaper = one.mean < 0 and not rounds_to_zero(one.mean)
    interval = _interval(one.negated if cheaper else one)
    return f"{begin} cost {_difference(one.mean)} the sweep ({interval})."


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
