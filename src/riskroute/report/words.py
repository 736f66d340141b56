"""A study in words: sentences and tables from the plain values of its summary, which hold every number in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

RECOMMENDED = "recommended"
FEW = 3
"""Slots of a split that is named within a sentence, at most."""


def dollars(value: float | None) -> str:
    """An amount, with a sign before the dollar; a dash for none.

    >>> dollars(-0.3456), dollars(1234.6), dollars(12.3), dollars(-1e-9), dollars(None)
    ('-$0.346', '$1,235', '$12.30', '$0.000', '-')
    """
    if value is None:
        return "-"
    size = abs(value)
    digits = 0 if size >= 1000 else 2 if size >= 1 else 3
    text = f"{size:,.{digits}f}"
    return f"{'-' if value < 0 and float(text.replace(',', '')) else ''}${text}"


def split_text(slots: Sequence[str], allocation: Sequence[int]) -> str:
    """Where the shares go, short.

    >>> split_text(["XNAS", "XPSX", "Dark 1"], [4, 0, 1200])
    '4 XNAS, 1,200 Dark 1'
    """
    return ", ".join(f"{shares:,} {slot}" for slot, shares in zip(slots, allocation, strict=True) if shares)


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + f" and {names[-1]}"


def headline(order: Mapping[str, Any], side: str) -> str:
    """The recommendation in one sentence.

    >>> order = {"shares": 10, "slots": ["XNAS", "Dark 1"], "splits": {"recommended": {"allocation": [4, 6]}}}
    >>> headline(order, "sell")
    'Sell 10 shares by sending 4 to XNAS and 6 to Dark 1.'
    """
    verb, split = "Sell" if side == "sell" else "Buy", order["splits"][RECOMMENDED]["allocation"]
    parts = [f"{shares:,} to {slot}" for slot, shares in zip(order["slots"], split, strict=True) if shares]
    return f"{verb} {order['shares']:,} shares by sending {_listed(parts)}."


def summary_sentences(order: Mapping[str, Any]) -> list[str]:
    """What it costs, what else would have cost, which policy learns it, and how sure that is."""
    tested, seen = order["splits"][RECOMMENDED]["test"], order["moments"]["test"]
    said = [
        *_assumed(order),
        f"On books not used for the choice this cost {dollars(tested['cost'])} an order on average (error "
        f"{dollars(tested['cost_error'])}): {tested['basis_points']:.2f} basis points, or "
        f"{dollars(tested['per_thousand'])} per 1,000 shares. In the worst 5 % of cases it cost "
        f"{dollars(tested['tail_cost'])} on average. These were {seen['scenarios']:,} moments in {seen['buckets']:,} "
        "stretches of time.",
    ]
    gap = order["gap"]
    if gap is not None:
        word = "more" if gap > 0 else "less"
        error = dollars(order["gap_error"])
        than = "there than on the books it was chosen on"
        said.append(f"With risk charged, it cost {dollars(abs(gap))} {word} {than} (error {error}).")
    said += _appetite(order)
    said += [_against(order, name) for name in order["splits"] if name != RECOMMENDED]
    return [*said, *_doubts(order), *_learning(order)]


def _assumed(order: Mapping[str, Any]) -> list[str]:
    """Which slots of the recommendation are assumed, and where their rest goes."""
    homes = order["rests_cross_at"]
    split = zip(order["slots"], order["splits"][RECOMMENDED]["allocation"], strict=True)
    pools = [slot for slot, shares in split if shares and slot in homes]
    if not pools:
        return []
    left = _listed(list(dict.fromkeys(homes[pool] for pool in pools)))
    are = "is a dark pool" if len(pools) == 1 else "are dark pools"
    return [f"{_listed(pools)} {are} with assumed parameters; what is not filled there crosses the spread at {left}."]


def _doubts(order: Mapping[str, Any]) -> list[str]:
    """What limits the recommendation: slots that are out, moments left out, depth that is not known."""
    said = [f"Not used: {slot}, {reason}." for slot, reason in order["unused_slots"].items()]
    if max(order["caps"]) < order["shares"]:
        said.append("No single slot can take the whole order.")
    dropped, beyond = order["left_out"]["test"], order["beyond_known_levels"]["test"]
    if dropped:
        said.append(
            f"{dropped:.1%} of the times in the test hours were left out, as a book was missing or not deep enough."
        )
    if beyond:
        moments = f"At {beyond:.1%} of the times in the test hours"
        said.append(f"{moments} it needed more than a book's known levels hold; its cost beyond them is an estimate.")
    return said


def known_levels(summary: Mapping[str, Any]) -> list[str]:
    """Where books had more levels than the study knows."""
    said = [one["cut"] for one in summary["market"]["recordings"].values() if one["cut"]]
    levels = summary["config"]["levels"]
    return said if levels is None else [*said, f"Levels of a book that an order may walk: {levels}, as configured."]


def _appetite(order: Mapping[str, Any]) -> list[str]:
    """Between which risk tolerances the recommendation stays the same."""
    points = order["frontier"]
    places = [k for k, point in enumerate(points) if point["allocation"] == order["splits"][RECOMMENDED]["allocation"]]
    if not places:
        return []
    start, later = points[places[0]]["risk_tolerance"], points[places[0] + 1 :]
    span = f"from {start:.3g} to {later[0]['risk_tolerance']:.3g}" if later else f"of {start:.3g} and more"
    return [f"The same split is best for any risk tolerance {span}."]


def _against(order: Mapping[str, Any], name: str) -> str:
    split, label = order["splits"][name], name[0].upper() + name[1:]
    if split["allocation"] == order["splits"][RECOMMENDED]["allocation"]:
        return f"{label}: the same split."
    if sum(shares > 0 for shares in split["allocation"]) <= FEW:
        label += f" ({split_text(order['slots'], split['allocation'])})"
    more, error = split["test"]["charged_excess"], split["test"]["charged_excess_error"]
    if more is None:
        larger, error = split["test"]["excess"], split["test"]["excess_error"]
        word = "larger" if larger > 0 else "smaller"
        return f"{label} would have had a {word} variance, by {abs(larger):.3g} squared dollars (error {error:.3g})."
    word, doubt = "more" if more > 0 else "less", "" if abs(more) > 2 * error else ", so this may be chance"
    return f"{label} would have cost {dollars(abs(more))} {word}, risk charged (error {dollars(error)}{doubt})."


def _learning(order: Mapping[str, Any]) -> list[str]:
    name = order["recommended_policy"]
    tested = order["policies"][name]["test"]
    rounds = tested["checkpoints"][-1]
    if tested["learning_cost"] is None:
        return [f"The policy {name} learns it: over {rounds:,} orders its regret was {tested['regret']:,.3g}."]
    begin = "A router that has to find this out by trading should use the policy"
    if name in order["warm_policies"]:
        begin = "A router that goes on learning should begin with what earlier books teach, the policy"
    fixed = order["splits"][RECOMMENDED]["test"]["charged_cost"]
    naive = [
        f"{dollars(order['splits'][label]['test']['charged_cost'])} for {label}" for label in order["naive_splits"]
    ]
    return [
        f"{begin} {name}: learning while trading cost it {dollars(tested['learning_cost'])} over {rounds:,} orders, "
        "risk charged.",
        f"Its orders then cost {dollars(tested['cost_each'])} on average, learning and risk included (error over runs "
        f"{dollars(tested['cost_each_error'])}), against {dollars(fixed)} for always sending the recommended split, "
        f"{', '.join(naive)}.",
        *_verdict(order, tested["cost_each"]),
    ]


def _verdict(order: Mapping[str, Any], each: float) -> list[str]:
    """A warning if learning costs more than routing that learns nothing."""
    better = [name for name in order["naive_splits"] if order["splits"][name]["test"]["charged_cost"] < each]
    if not better:
        return []
    said = f"Learning while trading cost more than it brought here: {' and '.join(better)} would have been cheaper. "
    return [said + "Send the recommended split as it is, or let a policy learn over more orders."]


def splits_table(order: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """What one might do, and what it costs on books not seen before."""
    rows = []
    for name, split in order["splits"].items():
        tested = split["test"]
        rows.append(
            [
                name,
                split_text(order["slots"], split["allocation"]),
                f"{dollars(tested['cost'])} ± {dollars(tested['cost_error'])}",
                f"{tested['basis_points']:.2f}",
                dollars(tested["tail_cost"]),
                dollars(tested["charged_cost"]),
                dollars(split["train"]["charged_cost"]),
            ]
        )
    header = ["", "split", "cost", "basis points", "worst 5 %", "with risk charged", "the same, when chosen"]
    return header, rows


def policies_table(order: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """What every policy paid to learn, and what it explored."""
    rows = []
    for name, one in order["policies"].items():
        tested = one["test"]
        rows.append(
            [
                name,
                f"{tested['runs']}",
                dollars(tested["learning_cost"]),
                f"{dollars(tested['cost_each'])} ± {dollars(tested['cost_each_error'])}",
                dollars(one["train"]["cost_each"]),
                f"{tested['explored']:.1%}",
                f"{split_text(order['slots'], tested['ended_on'])} ({tested['ended_on_share']:.0%} of runs)",
            ]
        )
    header = ["", "runs", "cost of learning", "cost of an order, all included", "the same, earlier books"]
    return [*header, "orders sent elsewhere", "most often ended on"], rows


def models_table(order: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """The venue models with the evidence behind them."""
    rows = []
    for (slot, model), cap in zip(order["models"].items(), order["caps"], strict=True):
        fit = order["fits"][slot]
        known = list(fit["warnings"])
        if fit["variance"] != model["variance"]:
            known.append("the model has a pure square instead of the fitted variance")
        rows.append(
            [
                slot,
                f"{cap:,}",
                *(f"{value:.4g}" for value in (*model["mean"], *model["variance"])),
                f"{fit['r2_mean']:.3f}",
                f"{fit['r2_variance']:.3f}",
                "; ".join(known) or "none",
            ]
        )
    moments = ["profit per share ($)", "per share² ($)", "variance per share ($²)", "per share² ($²)"]
    return ["slot", "most shares", *moments, "R² mean", "R² variance", "to be aware of"], rows
