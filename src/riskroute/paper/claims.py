"""A statement of the paper in words, and how it is checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from riskroute.core.text import in_markdown

Measure = Callable[[Mapping[str, Any]], tuple[str, bool]]
"""From the JSON summary of an experiment: what was measured, in words, and whether it agrees."""


@dataclass(frozen=True)
class Claim:
    """A statement about an experiment; ``remark`` says what the outcome depends on."""

    experiment: str
    where: str
    text: str
    measure: Measure
    remark: str = ""


# MERGED: What the paper says in words about order books and the venue models made from them.


def _straight(field: str, stated: Mapping[str, float]) -> Measure:
    """R^2 of straight lines, per venue, at least as the paper's to two digits."""

    def measure(summary: Mapping[str, Any]) -> tuple[str, bool]:
        found = {name: fit[field] for name, fit in summary["venues"].items()}
        text = ", ".join(f"{name} {value:.3f}" for name, value in found.items())
        return f"R^2: {text}", all(found[name] >= value - 0.005 for name, value in stated.items() if name in found)

    return measure


def _darker(summary: Mapping[str, Any]) -> tuple[str, bool]:
    lit, dark = list(summary["venues"].values()), list(summary["dark"].values())
    costliest, best = min(v["mean"][0] for v in dark), max(v["mean"][0] for v in lit)
    calm, wild = sorted(v["variance"][1] for v in lit)[len(lit) // 2], min(v["variance"][1] for v in dark)
    earned = f"profit per share: dark {costliest:.3g} or more, best lit {best:.3g}"
    risked = f"variance per squared share: dark {wild:.2g} or more, lit in the middle {calm:.2g}"
    return f"{earned}; {risked}", costliest > best and wild > calm


def _cheapest(summary: Mapping[str, Any]) -> tuple[str, bool]:
    lit = {name: venue["mean"][0] for name, venue in summary["venues"].items()}
    text = ", ".join(f"{name} {value:.3g}" for name, value in lit.items())
    return f"profit per share: {text}", max(lit, key=lambda name: lit[name]) == "XNAS"


_DATA = "Depends on the data; by default they are a synthetic market, made after the paper's table."

BOOK_CLAIMS = (
    Claim(
        "figure1",
        "figure 1",
        "the mean profit of a market order is linear in its size, R^2 = 0.99",
        _straight("r2_mean", {"XNAS": 0.99}),
        _DATA,
    ),
    Claim(
        "figure1",
        "figure 1",
        "the variance of the profit is linear in the squared size, R^2 = 0.98",
        _straight("r2_variance", {"XNAS": 0.98}),
        _DATA,
    ),
    Claim(
        "figure5",
        "figure 5",
        "the mean is linear in the size at all three venues, R^2 = 0.99",
        _straight("r2_mean", {"XNAS": 0.99, "XBOS": 0.99, "XPSX": 0.99}),
        _DATA,
    ),
    Claim(
        "figure5",
        "figure 5",
        "the variance is roughly linear in the squared size at all three venues, R^2 = 0.93 and 0.94",
        _straight("r2_variance", {"XNAS": 0.93, "XBOS": 0.94, "XPSX": 0.94}),
        _DATA,
    ),
    Claim("table", "table", "of the lit venues NASDAQ costs least per share", _cheapest, _DATA),
    Claim(
        "table",
        "table",
        "dark pools have higher but more volatile returns, on a scale comparable to the lit venues",
        _darker,
        "Drawn so, as in the paper: nobody has the data.",
    ),
)


# MERGED: What the paper says in words about the regret of its policies.


FOUR = ("rise", "rise++", "risk-ucb", "risk-exp-exp")
OURS, BENCHMARKS = FOUR[:2], FOUR[2:]


def _ends(summary: Mapping[str, Any], panel: str) -> dict[str, float]:
    policies = summary["panels"][panel]["policies"]
    return {name: policies[name]["final"]["regret"] for name in FOUR}


def _listed(ends: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:,.0f}" for name, value in ends.items())


def _comparable(panel: str) -> Measure:
    """All four within a factor of two."""

    def measure(summary: Mapping[str, Any]) -> tuple[str, bool]:
        ends = _ends(summary, panel)
        return f"final regret: {_listed(ends)}", max(ends.values()) <= 2 * min(ends.values())

    return measure


def _close_to_ucb(summary: Mapping[str, Any]) -> tuple[str, bool]:
    ends = _ends(summary, "b")
    return f"final regret: {_listed(ends)}", all(0.5 < ends[name] / ends["risk-ucb"] < 2 for name in OURS)


def _extreme(panel: str, name: str, pick: Callable[..., str]) -> Measure:
    """A policy has the least or the largest regret."""

    def measure(summary: Mapping[str, Any]) -> tuple[str, bool]:
        ends = _ends(summary, panel)
        found = pick(ends, key=lambda key: ends[key])
        return f"{found} has {ends[found]:,.0f}, {name} {ends[name]:,.0f}", found == name

    return measure


def _steadier(summary: Mapping[str, Any]) -> tuple[str, bool]:
    policies = summary["panels"]["a"]["policies"]
    spread = {name: policies[name]["std_regret"][-1] for name in FOUR}
    text = f"standard deviation over runs: {_listed(spread)}"
    return text, max(spread[name] for name in OURS) < min(spread[name] for name in BENCHMARKS)


def _mostly_above(summary: Mapping[str, Any]) -> tuple[str, bool]:
    policies = summary["panels"]["b"]["policies"]
    grid = np.linspace(0, policies["rise"]["checkpoints"][-1], 1001)[1:]
    upper, lower = (
        np.interp(grid, policies[name]["checkpoints"], policies[name]["mean_regret"]) for name in ("rise++", "rise")
    )
    share = float(np.mean(upper > lower))
    return f"rise++ above rise in {share:.0%} of the rounds", share > 0.5


def _ours_below(panel: str) -> Measure:
    """RISE and RISE++ end below both benchmarks."""

    def measure(summary: Mapping[str, Any]) -> tuple[str, bool]:
        ends = _ends(summary, panel)
        return f"final regret: {_listed(ends)}", max(ends[n] for n in OURS) < min(ends[n] for n in BENCHMARKS)

    return measure


def _halves(policy: Mapping[str, Any]) -> float:
    """Regret of the second half of the rounds, in parts of the first half's."""
    middle = float(np.interp(policy["checkpoints"][-1] / 2, policy["checkpoints"], policy["mean_regret"]))
    return (float(policy["mean_regret"][-1]) - middle) / middle


def _second_halves(summary: Mapping[str, Any], panel: str) -> tuple[str, dict[str, float]]:
    parts = {name: _halves(summary["panels"][panel]["policies"][name]) for name in FOUR}
    text = ", ".join(f"{name} {part:.0%}" for name, part in parts.items())
    return f"second half of the rounds costs, of the first half: {text}", parts


def _grow_faster(summary: Mapping[str, Any]) -> tuple[str, bool]:
    text, parts = _second_halves(summary, "c")
    return text, min(parts[n] for n in BENCHMARKS) > max(parts[n] for n in OURS)


def _settles(summary: Mapping[str, Any]) -> tuple[str, bool]:
    policy = summary["panels"]["c"]["policies"]["rise"]
    middle = float(np.interp(policy["checkpoints"][-1] / 2, policy["checkpoints"], policy["std_regret"]))
    end = policy["std_regret"][-1]
    return f"standard deviation of RISE: {middle:,.0f} at half time, {end:,.0f} at the end", end < middle


def _explores_throughout(summary: Mapping[str, Any]) -> tuple[str, bool]:
    panel = summary["panels"]["d"]["policies"]["risk-exp-exp"]
    share = panel["final"]["explored_rounds"] / panel["checkpoints"][-1]
    return f"{share:.1%} of the rounds on other splits than the one it ended on", share > 0.99


def _rise_first(summary: Mapping[str, Any]) -> tuple[str, bool]:
    pairs = {panel: _ends(summary, panel) for panel in "bcd"}
    text = "; ".join(f"({panel}) {_listed({n: ends[n] for n in OURS})}" for panel, ends in pairs.items())
    return text, all(ends["rise"] < ends["rise++"] for ends in pairs.values())


def _whatever_the_size(summary: Mapping[str, Any]) -> tuple[str, bool]:
    growth = {name: _ends(summary, "d")[name] / _ends(summary, "c")[name] for name in OURS}
    text = ", ".join(f"{name} {ratio:.2f}" for name, ratio in growth.items())
    return f"regret with 1,287 splits over regret with 462: {text} (splits: 2.79)", max(growth.values()) < 2


def _lead(ends: Mapping[str, float]) -> float:
    """Regret of the better benchmark over that of the worse of RISE and RISE++."""
    return min(ends[name] for name in BENCHMARKS) / max(ends[name] for name in OURS)


def _wider(summary: Mapping[str, Any]) -> tuple[str, bool]:
    lead = {panel: _lead(_ends(summary, panel)) for panel in "cd"}
    text = f"better benchmark over worse of RISE and RISE++: {lead['c']:.1f} in (c), {lead['d']:.1f} in (d)"
    return text, lead["d"] > lead["c"]


def _nearly_linear(summary: Mapping[str, Any]) -> tuple[str, bool]:
    parts = {panel: _second_halves(summary, panel)[1] for panel in "abcd"}
    text = "; ".join(f"({p}) " + ", ".join(f"{n} {one[n]:.0%}" for n in BENCHMARKS) for p, one in parts.items())
    agrees = all(parts["a"][n] < parts["b"][n] < parts["c"][n] and parts["d"][n] > 0.8 for n in BENCHMARKS)
    return f"second half of the rounds costs, of the first half: {text}", agrees


def _flattens(summary: Mapping[str, Any]) -> tuple[str, bool]:
    parts = [_second_halves(summary, panel)[1]["rise++"] for panel in "abc"]
    text = ", ".join(f"({panel}) {part:.0%}" for panel, part in zip("abc", parts, strict=True))
    return f"second half of the rounds costs RISE++, of the first half: {text}", parts[0] < parts[1] < parts[2]


def _falls_behind(panel: str) -> Measure:
    """RiskUCB over the worse of RISE and RISE++ is larger at the end than after a tenth of the rounds."""

    def measure(summary: Mapping[str, Any]) -> tuple[str, bool]:
        policies = summary["panels"][panel]["policies"]
        early, late = (
            {
                name: float(np.interp(part * one["checkpoints"][-1], one["checkpoints"], one["mean_regret"]))
                for name, one in policies.items()
            }
            for part in (0.1, 1.0)
        )
        before, after = (one["risk-ucb"] / max(one[name] for name in OURS) for one in (early, late))
        text = f"RiskUCB over the worse of RISE and RISE++: {before:.2f} after a tenth, {after:.2f} at the end"
        return text, after > max(before, 1)

    return measure


def _instances(summary: Mapping[str, Any]) -> tuple[str, bool]:
    sizes: dict[str, list[dict[str, float]]] = {}
    for name in summary["panels"]:
        sizes.setdefault(name[0], []).append(_ends(summary, name))
    means = {size: {n: float(np.mean([one[n] for one in ends])) for n in FOUR} for size, ends in sizes.items()}
    text = "; ".join(f"({size}) {_listed(ends)}" for size, ends in means.items())
    leads = {size: _lead(ends) for size, ends in means.items()}
    return text, min(leads["c"], leads["d"]) > max(1.0, leads["a"], leads["b"])


def _sublinear(panel: str) -> Measure:
    """The second half of the rounds costs RISE and RISE++ clearly less than the first."""

    def measure(summary: Mapping[str, Any]) -> tuple[str, bool]:
        text, parts = _second_halves(summary, panel)
        return text, max(parts[name] for name in OURS) < 0.8

    return measure


def _logarithmic(panel: str) -> Measure:
    """A logarithm of 100,000 rounds makes 6 % of its way in the second half; anything below 20 % is taken for one."""

    def measure(summary: Mapping[str, Any]) -> tuple[str, bool]:
        part = _second_halves(summary, panel)[1]["risk-ucb"]
        return f"second half of the rounds costs RiskUCB {part:.0%} of the first", part < 0.2

    return measure


def _linear(panel: str) -> Measure:
    def measure(summary: Mapping[str, Any]) -> tuple[str, bool]:
        part = _second_halves(summary, panel)[1]["risk-exp-exp"]
        return f"second half of the rounds costs RiskExpExp {part:.0%} of the first", part > 0.8

    return measure


def _by_correlation(summary: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    return {name: _ends(summary, name) for name in summary["panels"]}


def _rise_lowest(summary: Mapping[str, Any]) -> tuple[str, bool]:
    ends = _by_correlation(summary)
    lowest = [min(one, key=lambda name: one[name]) for one in ends.values()]
    won = lowest.count("rise")
    below = sum(one["rise"] < one["risk-exp-exp"] for one in ends.values())
    return f"lowest in {won} of {len(ends)} panels; below RiskExpExp in {below} of {len(ends)}", won == len(ends)


def _alike(summary: Mapping[str, Any]) -> tuple[str, bool]:
    ratios = [one["rise++"] / one["rise"] for one in _by_correlation(summary).values()]
    return f"rise++ over rise: {min(ratios):.2f} to {max(ratios):.2f}", 0.5 < min(ratios) <= max(ratios) < 2


def _lead_without(summary: Mapping[str, Any]) -> tuple[str, bool]:
    leads = {name: _lead(one) for name, one in _by_correlation(summary).items() if name.startswith("e")}
    text = ", ".join(f"{lead:.1f} (noise times {name[2:]})" for name, lead in leads.items())
    return f"better benchmark over worse of RISE and RISE++: {text}", min(leads.values()) > 1


def _sometimes_above(summary: Mapping[str, Any]) -> tuple[str, bool]:
    ends = _by_correlation(summary)
    above = sum(one["rise++"] > one["risk-ucb"] for one in ends.values())
    return f"rise++ above risk-ucb in {above} of {len(ends)} panels", 0 < above < len(ends)


def _ucb_beaten(summary: Mapping[str, Any]) -> tuple[str, bool]:
    ends = _by_correlation(summary)
    beaten = sum(one["risk-ucb"] > max(one[name] for name in OURS) for one in ends.values())
    return f"risk-ucb above both in {beaten} of {len(ends)} panels", beaten > len(ends) / 2


def _exp_exp_worst(summary: Mapping[str, Any]) -> tuple[str, bool]:
    ends = _by_correlation(summary)
    worst = sum(one["risk-exp-exp"] == max(one.values()) for one in ends.values())
    values = [one["risk-exp-exp"] for name, one in ends.items() if name.endswith("deviation")]
    spread = max(values) / min(values)
    text = f"highest in {worst} of {len(ends)} panels; largest over smallest regret across correlations {spread:.2f}"
    return text, worst == len(ends) and spread < 1.25


def _amplified(summary: Mapping[str, Any]) -> tuple[str, bool]:
    ends = _by_correlation(summary)
    gap = {
        name: min(one[n] for n in BENCHMARKS) - max(one[n] for n in OURS)
        for name, one in ends.items()
        if name.endswith("deviation")
    }
    negative, positive = ((gap[f"{x}-deviation"] + gap[f"{y}-deviation"]) / 2 for x, y in ("ab", "cd"))
    text = f"better benchmark minus worse of ours: {negative:,.0f} (negative), {positive:,.0f} (positive)"
    return text, negative > positive


def _concentrated(label: str) -> Measure:
    """Positive gaps are more than twice as high in windows and after changes as elsewhere."""

    def measure(summary: Mapping[str, Any]) -> tuple[str, bool]:
        story = summary["stories"][label]
        text = (
            f"{story['share_of_gaps']:.0%} of the positive gaps in {story['share_of_rounds']:.0%} of the rounds; "
            f"mean positive gap {story['gap_inside']:.2f} there, {story['gap_elsewhere']:.2f} elsewhere"
        )
        return text, story["gap_inside"] > 2 * story["gap_elsewhere"]

    return measure


def _steepest(summary: Mapping[str, Any]) -> tuple[str, bool]:
    policy, story = summary["panels"]["a"]["policies"]["restart-gse"], summary["stories"]["restart-gse"]
    rounds = np.array([0, *policy["checkpoints"]])
    total = np.concatenate([[0.0], np.cumsum(np.diff(story["gap_rounds"]) * np.array(story["gaps"][:-1]))])
    gaps = np.diff(np.interp(rounds, story["gap_rounds"], total))
    found = float(np.corrcoef(gaps, np.diff([0.0, *policy["mean_regret"]]))[0, 1])
    return f"correlation of the gaps of one run with the increments of the mean regret: {found:.2f}", found > 0.5


def _drops(summary: Mapping[str, Any]) -> tuple[str, bool]:
    story = summary["stories"]["restart-gse"]
    first, last = story["gap_first_quarter"], story["gap_last_quarter"]
    return f"mean gap {first:.2f} in the first quarter of a window, {last:.2f} in the last", last < 0.5 * first


_CONSTANT = "RISE++ depends on a constant the paper does not state; ours is 0.01, see reading-the-paper.md."
_INSTANCE = "Depends on the instance, which the paper does not give."
_NOISE = "The regret of a path holds the noise of its rewards, which adds up from round to round."
_UNITS = "The paper does not say in which units its coefficients were used."
_BUDGET = "The paper does not say how long it explores; its rate, T^(2/9), is 12 rounds per cycle."

REGRET_CLAIMS = (
    Claim("figure2", "figure 2(a)", "all four are comparable", _comparable("a"), _INSTANCE),
    Claim("figure2", "figure 2(a)", "RiskUCB ends lowest of the four", _extreme("a", "risk-ucb", min), _INSTANCE),
    Claim("figure2", "figure 2(a)", "RISE and RISE++ vary less between runs", _steadier, _INSTANCE),
    Claim("figure2", "figure 2(b)", "RISE and RISE++ are close to RiskUCB", _close_to_ucb, _INSTANCE),
    Claim("figure2", "figure 2(b)", "RiskExpExp is highest", _extreme("b", "risk-exp-exp", max), _INSTANCE),
    Claim("figure2", "figure 2(b)", "RISE++ is above RISE most of the time", _mostly_above, _CONSTANT),
    Claim("figure2", "figure 2(c)", "RISE and RISE++ are below both benchmarks", _ours_below("c")),
    Claim("figure2", "figure 2(c)", "the benchmarks' regret grows much faster", _grow_faster),
    Claim("figure2", "figure 2(c)", "RISE varies less as time goes on", _settles, _NOISE),
    Claim("figure2", "figure 2(d)", "RISE and RISE++ are below both benchmarks", _ours_below("d")),
    Claim("figure2", "figure 2(d)", "RiskExpExp explores over the whole horizon", _explores_throughout),
    Claim("figure2", "figure 2", "RISE is below RISE++ in (b), (c) and (d)", _rise_first, _CONSTANT),
    Claim(
        "figure2", "figure 2", "the growth of RISE and RISE++ does not rely on the number of splits", _whatever_the_size
    ),
    Claim("figure2", "figure 2", "the differences are larger in (d) than in (c)", _wider, _CONSTANT),
    Claim("figure2", "figure 2", "the benchmarks come close to linear as splits become many", _nearly_linear),
    Claim("figure2", "figure 2", "RISE++ turns flat the sooner, the fewer splits there are", _flattens, _CONSTANT),
    Claim("instances", "30 instances", "the lead of RISE and RISE++ comes with many splits", _instances),
    Claim("figure4", "figure 4, norm-1", "RISE and RISE++ are sublinear", _sublinear("a"), _UNITS),
    Claim("figure4", "figure 4, money", "RISE and RISE++ are sublinear", _sublinear("b"), _UNITS),
    Claim("figure4", "figure 4, norm-1", "RiskUCB looks logarithmic", _logarithmic("a"), _UNITS),
    Claim("figure4", "figure 4, money", "RiskUCB looks logarithmic", _logarithmic("b"), _UNITS),
    Claim("figure4", "figure 4, norm-1", "RISE and RISE++ are below both benchmarks", _ours_below("a"), _UNITS),
    Claim("figure4", "figure 4, money", "RISE and RISE++ are below both benchmarks", _ours_below("b"), _UNITS),
    Claim("figure4", "figure 4, norm-1", "RiskExpExp is linear", _linear("a"), _UNITS),
    Claim("figure4", "figure 4, money", "RiskExpExp is linear", _linear("b"), _UNITS),
    Claim("figure4", "figure 4, norm-1", "RiskUCB falls behind as time goes on", _falls_behind("a"), _UNITS),
    Claim("figure4", "figure 4, money", "RiskUCB falls behind as time goes on", _falls_behind("b"), _UNITS),
    Claim("autocorrelation", "autocorrelated noise", "RISE++ does about as well as RISE", _alike, _CONSTANT),
    Claim("autocorrelation", "no correlation", "RISE and RISE++ keep their lead", _lead_without),
    Claim("autocorrelation", "autocorrelated noise", "RISE is lowest at every correlation", _rise_lowest, _CONSTANT),
    Claim(
        "autocorrelation", "autocorrelated noise", "RISE++ is now and then above RiskUCB", _sometimes_above, _CONSTANT
    ),
    Claim("autocorrelation", "autocorrelated noise", "RiskUCB is mostly above RISE and RISE++", _ucb_beaten, _INSTANCE),
    Claim("autocorrelation", "autocorrelated noise", "RiskExpExp is worst, whatever the correlation", _exp_exp_worst),
    Claim(
        "autocorrelation",
        "autocorrelated noise",
        "negative correlation widens the lead over the benchmarks",
        _amplified,
    ),
    Claim(
        "nonstationary",
        "changes, 500 rounds explored per cycle",
        "positive gaps lie in exploration windows and after changes",
        _concentrated("restart-gse"),
        _BUDGET,
    ),
    Claim(
        "nonstationary",
        "changes, as few rounds as the rate says",
        "positive gaps lie in exploration windows and after changes",
        _concentrated("restart-gse short"),
        _BUDGET,
    ),
    Claim("nonstationary", "changes", "regret rises most where the gap of the rounds is high", _steepest, _BUDGET),
    Claim("nonstationary", "changes", "gaps fall towards zero within a window", _drops, _BUDGET),
)


# MERGED: What the paper says in words about its experiments, beside what was measured here.


Summaries = Mapping[str, Mapping[str, Any]]
"""By experiment: what its JSON summary holds."""

CLAIMS = (*BOOK_CLAIMS, *REGRET_CLAIMS)


@dataclass(frozen=True)
class ClaimVerdict:
    """A claim and what became of it."""

    claim: Claim
    measured: str
    agrees: bool


def judge_claims(summaries: Summaries) -> list[ClaimVerdict]:
    """Check the claims about some experiments, which must have been played in full."""
    found = []
    for claim in CLAIMS:
        if claim.experiment in summaries:
            measured, agrees = claim.measure(summaries[claim.experiment])
            found.append(ClaimVerdict(claim, measured, bool(agrees)))
    return found


def claims_markdown(verdicts: list[ClaimVerdict], *, remarks: bool = True) -> str:
    """One table row per claim, with or without what is remarked on our own choices."""
    columns = ["where", "the paper says", "measured", "agrees", *["remark"] * remarks]
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for v in verdicts:
        measured, agrees = in_markdown(v.measured, cell=True), "yes" if v.agrees else "**no**"
        cells = [v.claim.where, v.claim.text, measured, agrees, *[v.claim.remark] * remarks]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
