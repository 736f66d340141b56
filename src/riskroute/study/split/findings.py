"""The findings of a study in sentences; every number in them is one of the result."""

from __future__ import annotations

from collections.abc import Sequence

from riskroute.core.text import dollars_text, split_text
from riskroute.study.split.order_records import RECOMMENDED, OrderResult

FEW = 3
"""Slots of a split that is named within a sentence, at most."""


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + f" and {names[-1]}"


def findings(order: OrderResult, side: str) -> list[str]:
    """The recommendation, then what there is to say about it."""
    return [headline(order, side), *summary_sentences(order)]


def headline(order: OrderResult, side: str) -> str:
    """The recommendation in one sentence."""
    return _instruction(side, order.slots, order.recommended.allocation)


def _instruction(side: str, slots: Sequence[str], allocation: Sequence[int]) -> str:
    """What to do with the whole order.

    >>> _instruction("sell", ["XNAS", "Dark 1"], [4, 6])
    'Sell 10 shares by sending 4 to XNAS and 6 to Dark 1.'
    """
    verb = "Sell" if side == "sell" else "Buy"
    parts = [f"{shares:,} to {slot}" for slot, shares in zip(slots, allocation, strict=True) if shares]
    return f"{verb} {sum(allocation):,} shares by sending {_listed(parts)}."


def summary_sentences(order: OrderResult) -> list[str]:
    """What it costs, what else would have cost, which policy learns it, and how sure that is."""
    tested, seen = order.recommended.test, order.moments.test
    said = [
        *_assumed(order),
        f"Out of sample this cost {dollars_text(tested.cost)} an order on average (s.e. "
        f"{dollars_text(tested.cost_error)}): {tested.basis_points:.2f} basis points, or "
        f"{dollars_text(tested.per_thousand)} per 1,000 shares. The expected "
        f"shortfall (5 %) was {dollars_text(tested.tail_cost)}. The test hours gave {seen.scenarios:,} scenarios in "
        f"{seen.buckets:,} time buckets.",
    ]
    gap = order.gap
    if gap is not None:
        word, error = "higher" if gap > 0 else "lower", dollars_text(order.gap_error)
        said.append(f"The risk-adjusted cost was {dollars_text(abs(gap))} {word} there than in sample (s.e. {error}).")
    said += _appetite(order)
    said += [_against(order, name) for name in order.splits if name != RECOMMENDED]
    return [*said, *_doubts(order), *_learning(order)]


def _assumed(order: OrderResult) -> list[str]:
    """Which slots of the recommendation are assumed, and where their remainder goes."""
    homes = order.rests_cross_at
    split = zip(order.slots, order.recommended.allocation, strict=True)
    pools = [slot for slot, shares in split if shares and slot in homes]
    if not pools:
        return []
    left = _listed(list(dict.fromkeys(homes[pool] for pool in pools)))
    are = "is a dark pool" if len(pools) == 1 else "are dark pools"
    return [f"{_listed(pools)} {are} with assumed parameters; the remainder crosses the spread at {left}."]


def _doubts(order: OrderResult) -> list[str]:
    """What limits the recommendation: slots and sample times that are left out, depth that is not known."""
    said = [f"Not used: {slot}, {reason}." for slot, reason in order.unused_slots.items()]
    if max(order.caps) < order.shares:
        said.append("No single slot can take the whole order.")
    dropped, beyond = order.left_out.test, order.beyond_known_levels.test
    if dropped:
        why = "as a book was missing or not deep enough"
        said.append(f"{dropped:.1%} of the sample times in the test hours were left out, {why}.")
    if beyond:
        times = f"At {beyond:.1%} of the sample times in the test hours"
        said.append(f"{times} it needed more than a book's known levels hold; its cost beyond them is an estimate.")
    return said


def _appetite(order: OrderResult) -> list[str]:
    """Between which risk tolerances the recommendation stays the same."""
    points = order.frontier
    places = [k for k, point in enumerate(points) if point.allocation == order.recommended.allocation]
    if not places:
        return []
    start, later = points[places[0]].risk_tolerance, points[places[0] + 1 :]
    span = f"from {start:.3g} to {later[0].risk_tolerance:.3g}" if later else f"of {start:.3g} and more"
    return [f"The same split is best for any risk tolerance {span}."]


def _against(order: OrderResult, name: str) -> str:
    split, label = order.splits[name], name[0].upper() + name[1:]
    if split.allocation == order.recommended.allocation:
        return f"{label}: the same split."
    if sum(shares > 0 for shares in split.allocation) <= FEW:
        label += f" ({split_text(order.slots, split.allocation)})"
    more, error = split.test.charged_excess, split.test.charged_excess_error
    if more is None or error is None:
        larger, doubt = split.test.excess, f"{split.test.excess_error:.3g}"
        word = "larger" if larger > 0 else "smaller"
        return f"{label} would have had a {word} variance, by {abs(larger):.3g} squared dollars (s.e. {doubt})."
    word, doubt = "more" if more > 0 else "less", "" if abs(more) > 2 * error else ", so this may be chance"
    return (
        f"{label} would have cost {dollars_text(abs(more))} {word}, risk-adjusted (s.e. {dollars_text(error)}{doubt})."
    )


def _learning(order: OrderResult) -> list[str]:
    name = order.recommended_policy
    tested = order.policies[name].test
    rounds = tested.checkpoints[-1]
    if tested.learning_cost is None or tested.cost_each is None:
        return [f"The policy {name} learns it: over {rounds:,} orders its regret was {tested.regret:,.3g}."]
    begin = "A router that has to find this out by trading should use the policy"
    if name in order.warm_policies:
        begin = "A router that goes on learning should begin with what earlier books teach, the policy"
    fixed = order.recommended.test.charged_cost
    naive = [f"{dollars_text(order.splits[label].test.charged_cost)} for {label}" for label in order.naive_splits]
    return [
        f"{begin} {name}: learning while trading cost it {dollars_text(tested.learning_cost)} over {rounds:,} orders, "
        "risk-adjusted.",
        f"Its orders then cost {dollars_text(tested.cost_each)} on average, learning and risk included (s.e. over runs "
        f"{dollars_text(tested.cost_each_error)}), against {dollars_text(fixed)} for always sending the recommended "
        f"split, {', '.join(naive)}.",
        *_verdict(order, tested.cost_each),
    ]


def _verdict(order: OrderResult, each: float) -> list[str]:
    """A warning if learning costs more than routing that learns nothing."""
    costs = {name: order.splits[name].test.charged_cost for name in order.naive_splits}
    better = [name for name, cost in costs.items() if cost is not None and cost < each]
    if not better:
        return []
    said = f"Learning while trading cost more than it brought here: {' and '.join(better)} would have been cheaper. "
    return [said + "Send the recommended split as it is, or let a policy learn over more orders."]
