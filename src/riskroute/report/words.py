"""A study in words: sentences and tables from the plain values of its summary, which hold every number in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

RECOMMENDED = "recommended"


def dollars(value: float | None) -> str:
    """An amount, with a sign before the dollar; a dash for none.

    >>> dollars(-0.3456), dollars(1234.6), dollars(12.3), dollars(None)
    ('-$0.346', '$1,235', '$12.30', '-')
    """
    if value is None:
        return "-"
    size = abs(value)
    digits = 0 if size >= 1000 else 2 if size >= 1 else 3
    return f"{'-' if value < 0 else ''}${size:,.{digits}f}"


def allocation_text(order: Mapping[str, Any], name: str = RECOMMENDED) -> str:
    """Where the shares go, in words.

    >>> order = {"slots": ["XNAS", "Dark 1"], "splits": {"recommended": {"allocation": [4, 6]}}}
    >>> allocation_text(order)
    '4 to XNAS and 6 to Dark 1'
    """
    split = order["splits"][name]["allocation"]
    parts = [f"{shares:,} to {slot}" for slot, shares in zip(order["slots"], split, strict=True) if shares]
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + f" and {parts[-1]}"


def headline(order: Mapping[str, Any], side: str) -> str:
    """The recommendation in one sentence."""
    verb = "Sell" if side == "sell" else "Buy"
    return f"{verb} {order['shares']:,} shares by sending {allocation_text(order)}."


def summary_sentences(order: Mapping[str, Any]) -> list[str]:
    """What it costs, what else would have cost, which policy learns it, and how sure that is."""
    judged = order["splits"][RECOMMENDED]["judge"]
    said = [
        f"On books not used for the choice this cost {dollars(judged['cost'])} an order on average (error "
        f"{dollars(judged['cost_error'])}): {judged['basis_points']:.2f} basis points, or "
        f"{dollars(judged['per_thousand'])} per 1,000 shares. In the worst 5 % of cases it cost "
        f"{dollars(judged['tail_cost'])} on average."
    ]
    gap = order["gap"]
    if gap is not None:
        word = "more" if gap > 0 else "less"
        said.append(f"With risk charged, it cost {dollars(abs(gap))} {word} there than on the books it was chosen on.")
    said += _appetite(order)
    said += [_against(order, name) for name in order["splits"] if name != RECOMMENDED]
    if max(order["caps"]) < order["shares"]:
        said.append("No single slot can take the whole order.")
    dropped = order["left_out"]["judge"]
    if dropped:
        said.append(f"{dropped:.1%} of the judging moments were left out, as a book was not deep enough there.")
    beyond = order["beyond_known_levels"]["judge"]
    if beyond:
        moments = f"At {beyond:.1%} of the judging moments"
        said.append(f"{moments} it needed more than a book's known levels hold; its cost beyond them is an estimate.")
    return [*said, *_learning(order)]


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
    more, error = split["judge"]["charged_excess"], split["judge"]["charged_excess_error"]
    if more is None:
        return f"{label} would have had a variance {split['judge']['excess']:.3g} squared dollars larger."
    word, doubt = "more" if more > 0 else "less", "" if abs(more) > 2 * error else ", so this may be chance"
    return f"{label} would have cost {dollars(abs(more))} {word}, risk charged (error {dollars(error)}{doubt})."


def _learning(order: Mapping[str, Any]) -> list[str]:
    name = order["recommended_policy"]
    judged = order["policies"][name]["judge"]
    rounds = judged["checkpoints"][-1]
    if judged["learning_cost"] is None:
        return [f"The policy {name} learns it: over {rounds:,} orders its regret was {judged['regret']:,.3g}."]
    begin = "A router that has to find this out by trading should use the policy"
    if name in order["warm_policies"]:
        begin = "A router that goes on learning should begin with what earlier books teach, the policy"
    naive = [
        f"{dollars(order['splits'][label]['judge']['charged_cost'])} for {label}" for label in order["naive_splits"]
    ]
    return [
        f"{begin} {name}: learning while trading cost it {dollars(judged['learning_cost'])} over {rounds:,} orders, "
        "risk charged.",
        f"Its orders then cost {dollars(judged['cost_each'])} on average, learning and risk included (error over runs "
        f"{dollars(judged['cost_each_error'])}), against {', '.join(naive)}.",
        *_verdict(order, judged["cost_each"]),
    ]


def _verdict(order: Mapping[str, Any], each: float) -> list[str]:
    """A warning if learning costs more than routing that learns nothing."""
    better = [name for name in order["naive_splits"] if order["splits"][name]["judge"]["charged_cost"] < each]
    if not better:
        return []
    said = f"Learning while trading cost more than it brought here: {' and '.join(better)} would have been cheaper. "
    return [said + "Send the recommended split as it is, or let a policy learn over more orders."]


def splits_table(order: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """What one might do, and what it costs on books not seen before."""
    rows = []
    for name, split in order["splits"].items():
        judged = split["judge"]
        rows.append(
            [
                name,
                " ".join(map(str, split["allocation"])),
                f"{dollars(judged['cost'])} ± {dollars(judged['cost_error'])}",
                f"{judged['basis_points']:.2f}",
                dollars(judged["tail_cost"]),
                dollars(judged["charged_cost"]),
                dollars(split["train"]["charged_cost"]),
            ]
        )
    slots = " ".join(order["slots"])
    header = ["", f"split ({slots})", "cost", "basis points", "worst 5 %", "with risk charged", "the same, when chosen"]
    return header, rows


def policies_table(order: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """What every policy paid to learn, and what it explored."""
    rows = []
    for name, one in order["policies"].items():
        judged = one["judge"]
        rows.append(
            [
                name,
                f"{judged['runs']}",
                dollars(judged["learning_cost"]),
                f"{dollars(judged['cost_each'])} ± {dollars(judged['cost_each_error'])}",
                dollars(one["train"]["cost_each"]),
                f"{judged['explored']:.1%}",
                f"{' '.join(map(str, judged['ended_on']))} ({judged['ended_on_share']:.0%} of runs)",
            ]
        )
    header = ["", "runs", "cost of learning", "cost of an order, all included", "the same, earlier books"]
    return [*header, "orders sent elsewhere", "most often ended on"], rows


def models_table(order: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """The venue models with the evidence behind them."""
    rows = []
    for slot, model in order["models"].items():
        fit = order["fits"][slot]
        known = list(fit["warnings"])
        if fit["variance"] != model["variance"]:
            known.append("the model has a pure square instead of the fitted variance")
        rows.append(
            [
                slot,
                *(f"{value:.4g}" for value in (*model["mean"], *model["variance"])),
                f"{fit['r2_mean']:.3f}",
                f"{fit['r2_variance']:.3f}",
                "; ".join(known) or "none",
            ]
        )
    header = ["slot", "profit per share ($)", "per share² ($)", "variance per share ($²)", "per share² ($²)"]
    return [*header, "R² mean", "R² variance", "to be aware of"], rows
