"""The paper's claims about its experiments, each with a criterion that tests it on measured results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np

from riskroute.core.text import in_markdown

_Summary = Mapping[str, Any]  # JSON summary of an experiment
_Verdict = tuple[str, bool]  # measured values as text, and whether the claim holds

_FOUR = ("rise", "rise++", "risk-ucb", "risk-exp-exp")
_OURS, _BENCHMARKS = _FOUR[:2], _FOUR[2:]

_DATA = "Depends on the data; the default is a synthetic market modelled on the paper's table."
_CONSTANT = "RISE++ depends on a constant the paper does not state; ours is 0.01, see reading-the-paper.md."
_INSTANCE = "Depends on the instance, which the paper does not give."
_UNITS = "The paper does not state the units of its coefficients."
_BUDGET = "The paper does not state the length of exploration; its rate, T^(2/9), is 12 rounds per cycle."


@dataclass(frozen=True)
class _Claim:
    """A claim of the paper about an experiment; ``remark`` states what its outcome depends on."""

    experiment: str
    where: str
    text: str
    measure: Callable[[_Summary], _Verdict]
    remark: str = ""


CLAIMS: list[_Claim] = []  # in the order of the printed table
_Measure = TypeVar("_Measure", bound=Callable[..., _Verdict])


def _claim(
    experiment: str, where: str, text: str, remark: str = "", **arguments: Any
) -> Callable[[_Measure], _Measure]:
    """Return a decorator that adds a claim, checked by the decorated function with ``arguments``."""

    def add(measure: _Measure) -> _Measure:
        CLAIMS.append(_Claim(experiment, where, text, partial(measure, **arguments), remark))
        return measure

    return add


def _figure4_claim(text: str) -> Callable[[_Measure], _Measure]:
    """Return a decorator that adds a claim about both panels of figure 4."""

    def add(measure: _Measure) -> _Measure:
        for panel, units in (("a", "norm-1"), ("b", "money")):
            _claim("figure4", f"figure 4, {units}", text, _UNITS, panel=panel)(measure)
        return measure

    return add


# Order books and venue models


def _linear_fit(summary: _Summary, field: str, stated: tuple[float, ...]) -> _Verdict:
    """Check that R^2, to two digits, is at least ``stated`` at XNAS, XBOS and XPSX; skip venues without a fit."""
    found = {name: fit[field] for name, fit in summary["venues"].items()}
    text = ", ".join(f"{name} {value:.3f}" for name, value in found.items())
    least = dict(zip(("XNAS", "XBOS", "XPSX"), stated, strict=False))
    checked = [found[name] >= value - 0.005 for name, value in least.items() if name in found]
    return f"R^2: {text}", bool(checked) and all(checked)


for _experiment, _field, _stated, _text in (
    ("figure1", "r2_mean", (0.99,), "the mean profit of a market order is linear in its size, R^2 = 0.99"),
    ("figure1", "r2_variance", (0.98,), "the variance of the profit is linear in the squared size, R^2 = 0.98"),
    ("figure5", "r2_mean", (0.99, 0.99, 0.99), "the mean is linear in the size at all three venues, R^2 = 0.99"),
    (
        "figure5",
        "r2_variance",
        (0.93, 0.94, 0.94),
        "the variance is roughly linear in the squared size at all three venues, R^2 = 0.93 and 0.94",
    ),
):
    _claim(_experiment, f"figure {_experiment[-1]}", _text, _DATA, field=_field, stated=_stated)(_linear_fit)


@_claim("table", "table", "NASDAQ has the lowest cost per share of the lit venues", _DATA)
def _nasdaq_cheapest(summary: _Summary) -> _Verdict:
    lit = {name: venue["mean"][0] for name, venue in summary["venues"].items()}
    text = ", ".join(f"{name} {value:.3g}" for name, value in lit.items())
    return f"profit per share: {text}", max(lit, key=lambda name: lit[name]) == "XNAS"


@_claim(
    "table",
    "table",
    "dark pools have higher but more volatile returns, on a scale comparable to the lit venues",
    "Dark pools are simulated to have this property, as in the paper: no data are public.",
)
def _dark_pools_riskier(summary: _Summary) -> _Verdict:
    lit, dark = list(summary["venues"].values()), list(summary["dark"].values())
    worst_dark, best_lit = min(v["mean"][0] for v in dark), max(v["mean"][0] for v in lit)
    lit_variance = sorted(v["variance"][1] for v in lit)[len(lit) // 2]
    dark_variance = min(v["variance"][1] for v in dark)
    profit = f"profit per share: dark at least {worst_dark:.3g}, lit at most {best_lit:.3g}"
    variance = f"variance per squared share: dark at least {dark_variance:.2g}, lit median {lit_variance:.2g}"
    return f"{profit}; {variance}", worst_dark > best_lit and dark_variance > lit_variance


# Regret of the policies


def _final_regrets(summary: _Summary, panel: str) -> dict[str, float]:
    policies = summary["panels"][panel]["policies"]
    return {name: policies[name]["final"]["regret"] for name in _FOUR}


def _all_panels(summary: _Summary) -> dict[str, dict[str, float]]:
    return {name: _final_regrets(summary, name) for name in summary["panels"]}


def _listed(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:,.0f}" for name, value in values.items())


def _percentages(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.0%}" for name, value in values.items())


def _lead(ends: Mapping[str, float]) -> float:
    """Return the regret of the better benchmark divided by the regret of the worse of RISE and RISE++."""
    return min(ends[name] for name in _BENCHMARKS) / max(ends[name] for name in _OURS)


def _growth(summary: _Summary, panel: str) -> dict[str, float]:
    """Return by policy the regret of the second half of the rounds, divided by the regret of the first half."""
    found = {}
    for name in _FOUR:
        policy = summary["panels"][panel]["policies"][name]
        middle = float(np.interp(policy["checkpoints"][-1] / 2, policy["checkpoints"], policy["mean_regret"]))
        found[name] = (float(policy["mean_regret"][-1]) - middle) / middle
    return found


_GROWTH = "regret of the second half of the rounds over that of the first"


@_claim("figure2", "figure 2(a)", "all four policies are comparable", _INSTANCE)
def _comparable(summary: _Summary) -> _Verdict:
    """Check that the final regrets are within a factor of two."""
    ends = _final_regrets(summary, "a")
    return f"final regret: {_listed(ends)}", max(ends.values()) <= 2 * min(ends.values())


def _extreme(summary: _Summary, panel: str, name: str, pick: Callable[..., str]) -> _Verdict:
    """Check that ``name`` has the smallest or largest final regret, by ``pick``."""
    ends = _final_regrets(summary, panel)
    return f"final regret: {_listed(ends)}", pick(ends, key=lambda key: ends[key]) == name


_claim("figure2", "figure 2(a)", "RiskUCB has the lowest regret", _INSTANCE, panel="a", name="risk-ucb", pick=min)(
    _extreme
)


@_claim("figure2", "figure 2(a)", "RISE and RISE++ vary less between runs than the benchmarks", _INSTANCE)
def _less_variable(summary: _Summary) -> _Verdict:
    policies = summary["panels"]["a"]["policies"]
    spread = {name: policies[name]["std_regret"][-1] for name in _FOUR}
    text = f"standard deviation over runs: {_listed(spread)}"
    return text, max(spread[name] for name in _OURS) < min(spread[name] for name in _BENCHMARKS)


@_claim("figure2", "figure 2(b)", "RISE and RISE++ are close to RiskUCB", _INSTANCE)
def _close_to_ucb(summary: _Summary) -> _Verdict:
    ends = _final_regrets(summary, "b")
    return f"final regret: {_listed(ends)}", all(0.5 < ends[name] / ends["risk-ucb"] < 2 for name in _OURS)


_claim("figure2", "figure 2(b)", "RiskExpExp is highest", _INSTANCE, panel="b", name="risk-exp-exp", pick=max)(_extreme)


@_claim("figure2", "figure 2(b)", "RISE++ is above RISE most of the time", _CONSTANT)
def _mostly_above(summary: _Summary) -> _Verdict:
    policies = summary["panels"]["b"]["policies"]
    grid = np.linspace(0, policies["rise"]["checkpoints"][-1], 1001)[1:]
    upper, lower = (
        np.interp(grid, policies[name]["checkpoints"], policies[name]["mean_regret"]) for name in ("rise++", "rise")
    )
    share = float(np.mean(upper > lower))
    return f"rise++ above rise in {share:.0%} of the rounds", share > 0.5


@_claim("figure2", "figure 2(c)", "RISE and RISE++ are below both benchmarks", panel="c")
def _ours_below(summary: _Summary, panel: str) -> _Verdict:
    ends = _final_regrets(summary, panel)
    return f"final regret: {_listed(ends)}", max(ends[n] for n in _OURS) < min(ends[n] for n in _BENCHMARKS)


@_claim("figure2", "figure 2(c)", "the benchmarks' regret grows much faster")
def _benchmarks_grow_faster(summary: _Summary) -> _Verdict:
    parts = _growth(summary, "c")
    agrees = min(parts[n] for n in _BENCHMARKS) > max(parts[n] for n in _OURS)
    return f"{_GROWTH}: {_percentages(parts)}", agrees


@_claim(
    "figure2",
    "figure 2(c)",
    "the standard deviation of RISE falls over time",
    "The regret of a path includes the noise of its rewards, which accumulates.",
)
def _deviation_falls(summary: _Summary) -> _Verdict:
    policy = summary["panels"]["c"]["policies"]["rise"]
    middle = float(np.interp(policy["checkpoints"][-1] / 2, policy["checkpoints"], policy["std_regret"]))
    end = policy["std_regret"][-1]
    return f"standard deviation of RISE: {middle:,.0f} half-way, {end:,.0f} at the end", end < middle


_claim("figure2", "figure 2(d)", "RISE and RISE++ are below both benchmarks", panel="d")(_ours_below)


@_claim("figure2", "figure 2(d)", "RiskExpExp explores over the whole horizon")
def _explores_throughout(summary: _Summary) -> _Verdict:
    panel = summary["panels"]["d"]["policies"]["risk-exp-exp"]
    share = panel["final"]["explored_rounds"] / panel["checkpoints"][-1]
    return f"{share:.1%} of the rounds on splits other than its final one", share > 0.99


@_claim("figure2", "figure 2", "RISE is below RISE++ in (b), (c) and (d)", _CONSTANT)
def _rise_below(summary: _Summary) -> _Verdict:
    pairs = {panel: _final_regrets(summary, panel) for panel in "bcd"}
    text = "; ".join(f"({panel}) {_listed({n: ends[n] for n in _OURS})}" for panel, ends in pairs.items())
    return text, all(ends["rise"] < ends["rise++"] for ends in pairs.values())


@_claim("figure2", "figure 2", "the growth of RISE and RISE++ does not depend on the number of splits")
def _independent_of_size(summary: _Summary) -> _Verdict:
    ratios = {name: _final_regrets(summary, "d")[name] / _final_regrets(summary, "c")[name] for name in _OURS}
    text = ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())
    return f"regret with 1,287 splits over regret with 462: {text} (splits: 2.79)", max(ratios.values()) < 2


@_claim("figure2", "figure 2", "the lead of RISE and RISE++ is larger in (d) than in (c)", _CONSTANT)
def _wider(summary: _Summary) -> _Verdict:
    lead = {panel: _lead(_final_regrets(summary, panel)) for panel in "cd"}
    text = f"better benchmark over worse of RISE and RISE++: {lead['c']:.1f} in (c), {lead['d']:.1f} in (d)"
    return text, lead["d"] > lead["c"]


@_claim("figure2", "figure 2", "the benchmarks become nearly linear as the number of splits grows")
def _nearly_linear(summary: _Summary) -> _Verdict:
    parts = {panel: _growth(summary, panel) for panel in "abcd"}
    text = "; ".join(f"({panel}) {_percentages({n: one[n] for n in _BENCHMARKS})}" for panel, one in parts.items())
    agrees = all(parts["a"][n] < parts["b"][n] < parts["c"][n] and parts["d"][n] > 0.8 for n in _BENCHMARKS)
    return f"{_GROWTH}: {text}", agrees


@_claim("figure2", "figure 2", "RISE++ flattens earlier with fewer splits", _CONSTANT)
def _flattens(summary: _Summary) -> _Verdict:
    parts = [_growth(summary, panel)["rise++"] for panel in "abc"]
    text = ", ".join(f"({panel}) {part:.0%}" for panel, part in zip("abc", parts, strict=True))
    return f"{_GROWTH}, RISE++: {text}", parts[0] < parts[1] < parts[2]


@_claim("instances", "30 instances", "RISE and RISE++ lead when there are many splits")
def _lead_grows_with_splits(summary: _Summary) -> _Verdict:
    sizes: dict[str, list[dict[str, float]]] = {}
    for name, ends in _all_panels(summary).items():
        sizes.setdefault(name[0], []).append(ends)
    means = {size: {n: float(np.mean([one[n] for one in some])) for n in _FOUR} for size, some in sizes.items()}
    text = "; ".join(f"({size}) {_listed(ends)}" for size, ends in means.items())
    leads = {size: _lead(ends) for size, ends in means.items()}
    return text, min(leads["c"], leads["d"]) > max(1.0, leads["a"], leads["b"])


@_figure4_claim("RISE and RISE++ are sublinear")
def _sublinear(summary: _Summary, panel: str) -> _Verdict:
    parts = _growth(summary, panel)
    return f"{_GROWTH}: {_percentages(parts)}", max(parts[name] for name in _OURS) < 0.8


@_figure4_claim("RiskUCB looks logarithmic")
def _logarithmic(summary: _Summary, panel: str) -> _Verdict:
    """Check that growth is below 20 %; a logarithm grows by 6 % in the second half of 100,000 rounds."""
    part = _growth(summary, panel)["risk-ucb"]
    return f"{_GROWTH}, RiskUCB: {part:.0%}", part < 0.2


_figure4_claim("RISE and RISE++ are below both benchmarks")(_ours_below)


@_figure4_claim("RiskExpExp is linear")
def _linear(summary: _Summary, panel: str) -> _Verdict:
    part = _growth(summary, panel)["risk-exp-exp"]
    return f"{_GROWTH}, RiskExpExp: {part:.0%}", part > 0.8


@_figure4_claim("RiskUCB falls behind over time")
def _ucb_falls_behind(summary: _Summary, panel: str) -> _Verdict:
    """Check that RiskUCB's regret, divided by the worse of RISE and RISE++, ends above 1 and above its early value."""
    policies = summary["panels"][panel]["policies"]
    early, late = (
        {
            name: float(np.interp(part * one["checkpoints"][-1], one["checkpoints"], one["mean_regret"]))
            for name, one in policies.items()
        }
        for part in (0.1, 1.0)
    )
    before, after = (one["risk-ucb"] / max(one[name] for name in _OURS) for one in (early, late))
    text = f"RiskUCB over the worse of RISE and RISE++: {before:.2f} after 10 % of the rounds, {after:.2f} at the end"
    return text, after > max(before, 1)


# Autocorrelated noise: one panel per correlation and scale of the noise


@_claim("autocorrelation", "autocorrelated noise", "RISE++ does about as well as RISE", _CONSTANT)
def _similar(summary: _Summary) -> _Verdict:
    ratios = [one["rise++"] / one["rise"] for one in _all_panels(summary).values()]
    return f"rise++ over rise: {min(ratios):.2f} to {max(ratios):.2f}", 0.5 < min(ratios) <= max(ratios) < 2


@_claim("autocorrelation", "no correlation", "RISE and RISE++ keep their lead")
def _lead_without_correlation(summary: _Summary) -> _Verdict:
    leads = {name: _lead(one) for name, one in _all_panels(summary).items() if name.startswith("e")}
    text = ", ".join(f"{lead:.1f} (noise times {name[2:]})" for name, lead in leads.items())
    return f"better benchmark over worse of RISE and RISE++: {text}", min(leads.values()) > 1


@_claim("autocorrelation", "autocorrelated noise", "RISE is lowest at every correlation", _CONSTANT)
def _rise_lowest(summary: _Summary) -> _Verdict:
    ends = _all_panels(summary)
    lowest = sum(one["rise"] == min(one.values()) for one in ends.values())
    below = sum(one["rise"] < one["risk-exp-exp"] for one in ends.values())
    return f"lowest in {lowest} of {len(ends)} panels; below RiskExpExp in {below} of {len(ends)}", lowest == len(ends)


@_claim("autocorrelation", "autocorrelated noise", "RISE++ is sometimes above RiskUCB", _CONSTANT)
def _sometimes_above(summary: _Summary) -> _Verdict:
    ends = _all_panels(summary)
    above = sum(one["rise++"] > one["risk-ucb"] for one in ends.values())
    return f"rise++ above risk-ucb in {above} of {len(ends)} panels", 0 < above < len(ends)


@_claim("autocorrelation", "autocorrelated noise", "RiskUCB is mostly above RISE and RISE++", _INSTANCE)
def _ucb_mostly_above(summary: _Summary) -> _Verdict:
    ends = _all_panels(summary)
    above = sum(one["risk-ucb"] > max(one[name] for name in _OURS) for one in ends.values())
    return f"risk-ucb above both in {above} of {len(ends)} panels", above > len(ends) / 2


@_claim("autocorrelation", "autocorrelated noise", "RiskExpExp is worst, whatever the correlation")
def _exp_exp_worst(summary: _Summary) -> _Verdict:
    ends = _all_panels(summary)
    worst = sum(one["risk-exp-exp"] == max(one.values()) for one in ends.values())
    values = [one["risk-exp-exp"] for name, one in ends.items() if name.endswith("deviation")]
    spread = max(values) / min(values)
    text = f"highest in {worst} of {len(ends)} panels; largest over smallest regret across correlations {spread:.2f}"
    return text, worst == len(ends) and spread < 1.25


@_claim("autocorrelation", "autocorrelated noise", "negative correlation widens the lead over the benchmarks")
def _negative_correlation_helps(summary: _Summary) -> _Verdict:
    margins = {
        name: min(one[n] for n in _BENCHMARKS) - max(one[n] for n in _OURS)
        for name, one in _all_panels(summary).items()
    }
    negative, positive = ((margins[f"{x}-deviation"] + margins[f"{y}-deviation"]) / 2 for x, y in ("ab", "cd"))
    text = f"better benchmark minus worse of RISE and RISE++: {negative:,.0f} (negative), {positive:,.0f} (positive)"
    return text, negative > positive


# Changing coefficients: one run of restart-gse in detail


def _gaps_concentrated(summary: _Summary, label: str) -> _Verdict:
    """Check that gaps are more than twice as large in exploration windows and after changes as elsewhere, on average.

    Negative gaps count as 0.
    """
    story = summary["stories"][label]
    text = (
        f"{story['share_of_gaps']:.0%} of the positive gaps in {story['share_of_rounds']:.0%} of the rounds; "
        f"mean positive gap {story['gap_inside']:.2f} there, {story['gap_elsewhere']:.2f} elsewhere"
    )
    return text, story["gap_inside"] > 2 * story["gap_elsewhere"]


for _where, _label in (
    ("changes, 500 rounds explored per cycle", "restart-gse"),
    ("changes, explored at the paper's rate", "restart-gse short"),
):
    _text = "positive gaps lie in exploration windows and after changes"
    _claim("nonstationary", _where, _text, _BUDGET, label=_label)(_gaps_concentrated)


@_claim("nonstationary", "changes", "regret rises fastest where gaps are large", _BUDGET)
def _gaps_drive_regret(summary: _Summary) -> _Verdict:
    policy, story = summary["panels"]["a"]["policies"]["restart-gse"], summary["stories"]["restart-gse"]
    rounds = np.array([0, *policy["checkpoints"]])
    total = np.concatenate([[0.0], np.cumsum(np.diff(story["gap_rounds"]) * np.array(story["gaps"][:-1]))])
    gaps = np.diff(np.interp(rounds, story["gap_rounds"], total))
    found = float(np.corrcoef(gaps, np.diff([0.0, *policy["mean_regret"]]))[0, 1])
    return f"correlation of one run's gaps with the increments of the mean regret: {found:.2f}", found > 0.5


@_claim("nonstationary", "changes", "gaps fall towards zero within a window", _BUDGET)
def _gaps_shrink(summary: _Summary) -> _Verdict:
    story = summary["stories"]["restart-gse"]
    first, last = story["gap_first_quarter"], story["gap_last_quarter"]
    return f"mean gap {first:.2f} in the first quarter of a window, {last:.2f} in the last", last < 0.5 * first


@dataclass(frozen=True)
class _ClaimVerdict:
    """A claim, the measured values as text, and whether it holds."""

    claim: _Claim
    measured: str
    agrees: bool


def judge_claims(summaries: Mapping[str, _Summary]) -> list[_ClaimVerdict]:
    """Check all claims about the experiments in ``summaries``; each summary must contain all panels and policies."""
    found = []
    for claim in CLAIMS:
        if claim.experiment in summaries:
            measured, agrees = claim.measure(summaries[claim.experiment])
            found.append(_ClaimVerdict(claim, measured, bool(agrees)))
    return found


def claims_markdown(verdicts: list[_ClaimVerdict], *, remarks: bool = True) -> str:
    """Return a Markdown table with one row per claim; ``remarks`` adds a column of remarks."""
    columns = ["where", "the paper says", "measured", "agrees", *["remark"] * remarks]
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for v in verdicts:
        measured, agrees = in_markdown(v.measured, cell=True), "yes" if v.agrees else "**no**"
        cells = [v.claim.where, v.claim.text, measured, agrees, *[v.claim.remark] * remarks]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
