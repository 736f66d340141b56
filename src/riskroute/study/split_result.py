"""The result of a split study: its records, its findings in sentences, its tables and its page.

Amounts are dollars per order unless stated otherwise. Mean-variance divided by the risk tolerance is the risk-adjusted
cost: the cost plus a charge for risk, in dollars. There is no such charge at a risk tolerance of zero.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from riskroute.core.errors import DataError, InputError
from riskroute.core.files import writable_folder, write_json, write_whole
from riskroute.core.records import from_plain, to_plain
from riskroute.core.text import TextTable, dollars_text
from riskroute.core.validation import instance_of, path_of
from riskroute.study.config import SplitStudyConfig
from riskroute.study.page import Page, Part, Section, program_text
from riskroute.study.svg import Curve, Dot, bar_chart, curve_chart, dot_chart, palette

Value = TypeVar("Value")
Pair = tuple[float, float]

RECOMMENDED = "recommended"
_REPORTS = ("report.html", "report.md")


@dataclass(frozen=True)
class Hours(Generic[Value]):
    """One value for the train hours and one for the test hours."""

    train: Value
    test: Value


@dataclass(frozen=True)
class SampleCount:
    """Numbers of time buckets and of scenarios."""

    buckets: int
    scenarios: int


@dataclass(frozen=True)
class SplitMeasures:
    """Profit and cost of a split over the scenarios of some hours.

    The first ten are profits, in dollars and squared dollars: mean, variance, mean-variance, expected shortfall at 5 %
    (``tail``), their standard errors, and the excess of the mean-variance over that of the recommended split. The
    others are costs; those with a charge for risk are None at a risk tolerance of zero.
    """

    mean: float
    variance: float
    mean_variance: float
    tail: float
    mean_error: float
    variance_error: float
    mean_variance_error: float
    tail_error: float
    excess: float
    excess_error: float
    cost: float
    cost_error: float
    basis_points: float
    per_thousand: float
    tail_cost: float
    risk_charge: float | None
    charged_cost: float | None
    charged_cost_error: float | None
    charged_excess: float | None
    charged_excess_error: float | None


@dataclass(frozen=True)
class SplitOutcome:
    """One split, shares by slot, and its measures in the train and test hours."""

    allocation: tuple[int, ...]
    train: SplitMeasures
    test: SplitMeasures

    @property
    def gap(self) -> float | None:
        """Risk-adjusted cost in the test hours minus that in the train hours."""
        later, earlier = self.test.charged_cost, self.train.charged_cost
        return None if later is None or earlier is None else later - earlier

    @property
    def gap_error(self) -> float | None:
        """Standard error of the gap, if the two parts of the day are independent."""
        later, earlier = self.test.charged_cost_error, self.train.charged_cost_error
        return None if later is None or earlier is None else float(np.hypot(earlier, later))


@dataclass(frozen=True)
class PolicyMeasures:
    """Performance of a policy in one environment, averaged over its runs.

    ``learning_cost`` is the regret in dollars, ``cost_each`` the risk-adjusted cost of an order including learning;
    both are None at a risk tolerance of zero. Errors are standard errors over runs. ``explored`` is the fraction of
    orders sent elsewhere than to the final split; ``ended_on`` is the most frequent final split, ``ended_on_share``
    the fraction of runs that ended there. Curves have one value per checkpoint.
    """

    regret: float
    regret_error: float
    learning_cost: float | None
    mean_variance: float
    cost_each: float | None
    cost_each_error: float | None
    mean_variance_error: float | None
    explored: float
    ended_on: tuple[int, ...]
    ended_on_share: float
    runs: int
    checkpoints: tuple[int, ...]
    mean_regret: tuple[float, ...]
    std_regret: tuple[float, ...]


@dataclass(frozen=True)
class PolicyOutcome:
    """Performance of a policy in the fitted model, and on replayed books of the train and test hours."""

    model: PolicyMeasures
    train: PolicyMeasures
    test: PolicyMeasures


@dataclass(frozen=True)
class SlotModel:
    """Mean and variance of the profit of a slot: coefficients of the shares and of their square."""

    mean: Pair
    variance: Pair
    kind: str


@dataclass(frozen=True)
class SlotFit:
    """The fit behind the model of a slot; see `riskroute.market.fitting.Fit`."""

    quantities: tuple[int, ...]
    means: tuple[float, ...]
    variances: tuple[float, ...]
    counts: tuple[int, ...]
    mean: Pair
    variance: Pair
    mean_error: Pair
    variance_error: Pair
    r2_mean: float
    r2_variance: float
    r2_mean_model: float
    r2_variance_model: float
    worst_mean: float
    worst_variance: float
    bucket_correlation: float
    samples: int
    short: int
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class FrontierSplit:
    """The best split of the train hours from ``risk_tolerance`` up to that of the next one.

    ``mean`` and ``variance`` are of its profit in the train hours; ``test_mean``, ``test_variance`` and ``tail`` (the
    expected shortfall at 5 %) in the test hours.
    """

    risk_tolerance: float
    allocation: tuple[int, ...]
    mean: float
    variance: float
    test_mean: float
    test_variance: float
    tail: float


@dataclass(frozen=True)
class SplitCase:
    """The findings for one order size and risk tolerance.

    ``slots`` gives the order of every allocation; ``caps`` are the most shares of each slot; ``rests_cross_at`` is, by
    dark pool, the venue at which its remainder crosses the spread; ``unused_slots`` gives reasons by slot;
    ``beyond_known_levels`` and ``left_out`` are fractions of the scenarios: where the recommended split needed more
    than the known levels, and where a book was missing or too shallow; ``naive_splits`` need no model; ``gap`` is that
    of the recommended split; ``warm_policies`` start with a belief from the train hours; ``unplayed`` policies need a
    list of splits, and there are too many. ``splits_possible`` is text, since it may have hundreds of digits.
    """

    shares: int
    risk_tolerance: float
    lot: int
    mid: Hours[float]
    slots: tuple[str, ...]
    kinds: tuple[str, ...]
    caps: tuple[int, ...]
    rests_cross_at: dict[str, str]
    unused_slots: dict[str, str]
    moments: Hours[SampleCount]
    splits_possible: str
    beyond_known_levels: Hours[float]
    left_out: Hours[float]
    models: dict[str, SlotModel]
    fits: dict[str, SlotFit]
    splits: dict[str, SplitOutcome]
    naive_splits: tuple[str, ...]
    gap: float | None
    gap_error: float | None
    frontier: tuple[FrontierSplit, ...]
    policies: dict[str, PolicyOutcome]
    recommended_policy: str
    warm_policies: tuple[str, ...]
    unplayed: tuple[str, ...]

    @property
    def recommended(self) -> SplitOutcome:
        """The recommended split."""
        return self.splits[RECOMMENDED]


@dataclass(frozen=True)
class RecordingFacts:
    """The recording of one venue: its books, the levels kept, its events and its source."""

    books: int
    levels: int
    deeper: int
    cut: str
    events: int
    source: str


@dataclass(frozen=True)
class MarketFacts:
    """The market data of a split study."""

    origin: str
    symbol: str
    date: str
    zone: str
    side: str
    recordings: dict[str, RecordingFacts]


@dataclass(frozen=True, repr=False)
class SplitStudyResult:
    """The result of a split study; it prints as its findings.

    Parameters
    ----------
    config : SplitStudyConfig
        The configuration, with all defaults filled in.
    versions : dict of str to str
        Versions of the software that the numbers depend on.
    market : MarketFacts
        The market data.
    orders : tuple of SplitCase
        One for each order size and risk tolerance.
    """

    config: SplitStudyConfig
    versions: dict[str, str]
    market: MarketFacts
    orders: tuple[SplitCase, ...]

    def __post_init__(self) -> None:
        instance_of("config", self.config, SplitStudyConfig, "a SplitStudyConfig")
        instance_of("versions", self.versions, dict, "a dictionary of versions by name")
        instance_of("market", self.market, MarketFacts, "a MarketFacts")
        if not isinstance(self.orders, tuple) or not all(isinstance(one, SplitCase) for one in self.orders):
            raise InputError("orders must be a tuple of SplitCase")

    def __repr__(self) -> str:
        return "\n\n".join("\n  ".join([_headline(case, self.market.side), *_findings(case)]) for case in self.orders)

    def summary(self) -> dict[str, Any]:
        """Return plain values: the content of the JSON file."""
        plain: dict[str, Any] = to_plain(self)
        return plain

    def to_json(self, path: str | os.PathLike[str]) -> Path:
        """Write every number to a ``.json`` file, which `from_json` reads."""
        target = path_of("path", path)
        if target.suffix.lower() != ".json":
            raise InputError(f"path must end in .json, was {target.name!r}")
        return write_json(target, self.summary())

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> SplitStudyResult:
        """Read a result from a file of `to_json`, such as ``study.json``."""
        source = path_of("path", path)
        try:
            plain = json.loads(source.read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(f"path must be a readable file, was {str(source)!r}: {error.strerror or error}") from None
        except ValueError as error:
            raise DataError(f"{source.name} must be JSON: {error}") from None
        try:
            return from_plain(cls, plain, "the file")
        except DataError as error:
            raise DataError(f"{source.name} must be the result of a study: {error}") from None


def _headline(case: SplitCase, side: str) -> str:
    """Return the recommendation in one sentence: "Sell 10 shares by sending 4 to XNAS and 6 to Dark 1."."""
    split = case.recommended.allocation
    parts = [f"{shares:,} to {slot}" for slot, shares in zip(case.slots, split, strict=True) if shares]
    return f"{'Sell' if side == 'sell' else 'Buy'} {sum(split):,} shares by sending {_listed(parts)}."


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + f" and {names[-1]}"


def _split_text(slots: Sequence[str], allocation: Sequence[int]) -> str:
    """Return shares and slot of an allocation, without empty slots."""
    return ", ".join(f"{shares:,} {slot}" for slot, shares in zip(slots, allocation, strict=True) if shares)


def _findings(case: SplitCase) -> list[str]:
    """Return the findings in sentences: costs, alternatives, the policy to learn with, and caveats."""
    tested, seen = case.recommended.test, case.moments.test
    found = []
    pools = [
        slot
        for slot, shares in zip(case.slots, case.recommended.allocation, strict=True)
        if shares and slot in case.rests_cross_at
    ]
    if pools:
        venues = _listed(list(dict.fromkeys(case.rests_cross_at[pool] for pool in pools)))
        are = "is a dark pool" if len(pools) == 1 else "are dark pools"
        found.append(f"{_listed(pools)} {are} with assumed parameters; the remainder crosses the spread at {venues}.")
    found.append(
        f"Out of sample the cost was {dollars_text(tested.cost)} per order (s.e. {dollars_text(tested.cost_error)}): "
        f"{tested.basis_points:.2f} basis points, or {dollars_text(tested.per_thousand)} per 1,000 shares. Expected "
        f"shortfall (5 %): {dollars_text(tested.tail_cost)}. The test hours gave {seen.scenarios:,} scenarios in "
        f"{seen.buckets:,} time buckets."
    )
    if case.gap is not None:
        word = "higher" if case.gap > 0 else "lower"
        gap, error = dollars_text(abs(case.gap)), dollars_text(case.gap_error)
        found.append(f"The risk-adjusted cost was {gap} {word} there than in sample (s.e. {error}).")
    same = [k for k, point in enumerate(case.frontier) if point.allocation == case.recommended.allocation]
    if same:
        start, later = case.frontier[same[0]].risk_tolerance, case.frontier[same[0] + 1 :]
        span = f"from {start:.3g} to {later[0].risk_tolerance:.3g}" if later else f"of {start:.3g} and more"
        found.append(f"The same split is optimal for any risk tolerance {span}.")
    found += [_alternative(case, name) for name in case.splits if name != RECOMMENDED]
    found += [f"Not used: {slot}, {reason}." for slot, reason in case.unused_slots.items()]
    if max(case.caps) < case.shares:
        found.append("No single slot can take the whole order.")
    if dropped := case.left_out.test:
        why = "because a book was missing or too shallow"
        found.append(f"{dropped:.1%} of the sample times in the test hours were skipped {why}.")
    if beyond := case.beyond_known_levels.test:
        times = f"At {beyond:.1%} of the sample times in the test hours"
        found.append(f"{times} it needed more than the known levels of a book; its cost beyond them is an estimate.")
    return [*found, *_learning(case)]


def _alternative(case: SplitCase, name: str) -> str:
    split, label = case.splits[name], name[0].upper() + name[1:]
    if split.allocation == case.recommended.allocation:
        return f"{label}: the same split."
    if sum(shares > 0 for shares in split.allocation) <= 3:  # longer ones are in the table
        label += f" ({_split_text(case.slots, split.allocation)})"
    more, error = split.test.charged_excess, split.test.charged_excess_error
    if more is None or error is None:
        larger, doubt = split.test.excess, f"{split.test.excess_error:.3g}"
        word = "larger" if larger > 0 else "smaller"
        return f"{label} would have had a {word} variance, by {abs(larger):.3g} squared dollars (s.e. {doubt})."
    word, doubt = "more" if more > 0 else "less", "" if abs(more) > 2 * error else ", not significant"
    return (
        f"{label} would have cost {dollars_text(abs(more))} {word}, risk-adjusted (s.e. {dollars_text(error)}{doubt})."
    )


def _learning(case: SplitCase) -> list[str]:
    name = case.recommended_policy
    tested = case.policies[name].test
    rounds = tested.checkpoints[-1]
    if tested.learning_cost is None or tested.cost_each is None:
        return [f"The policy {name} learns it: over {rounds:,} orders its regret was {tested.regret:,.3g}."]
    begin = "To learn the split while trading, use the policy"
    if name in case.warm_policies:
        begin = "To keep learning, start from the train hours with the policy"
    naive = {label: case.splits[label].test.charged_cost for label in case.naive_splits}
    others = ", ".join(f"{dollars_text(cost)} for {label}" for label, cost in naive.items())
    found = [
        f"{begin} {name}: learning while trading cost {dollars_text(tested.learning_cost)} over {rounds:,} orders, "
        "risk-adjusted.",
        f"Its orders then cost {dollars_text(tested.cost_each)} on average, including learning and risk (s.e. over "
        f"runs {dollars_text(tested.cost_each_error)}), against {dollars_text(case.recommended.test.charged_cost)} for "
        f"the recommended split, {others}.",
    ]
    cheaper = [label for label, cost in naive.items() if cost is not None and cost < tested.cost_each]
    if cheaper:
        found.append(
            f"Learning while trading cost more than it saved: {' and '.join(cheaper)} would have been cheaper. Send "
            "the recommended split, or let a policy learn over more orders."
        )
    return found


def _splits_table(case: SplitCase) -> TextTable:
    """Return the recommended split and its alternatives with their costs out of sample."""
    rows = []
    for name, split in case.splits.items():
        tested = split.test
        rows.append(
            [
                *(name, _split_text(case.slots, split.allocation)),
                f"{dollars_text(tested.cost)} ± {dollars_text(tested.cost_error)}",
                *(f"{tested.basis_points:.2f}", dollars_text(tested.tail_cost)),
                *(dollars_text(tested.charged_cost), dollars_text(split.train.charged_cost)),
            ]
        )
    header = ["", "split", "cost", "basis points", "expected shortfall 5 %", "risk-adjusted cost", "in sample"]
    return TextTable(header, rows)


def _policies_table(case: SplitCase) -> TextTable:
    """Return the cost of learning of every policy, and its exploration."""
    rows = []
    for name, one in case.policies.items():
        tested = one.test
        rows.append(
            [
                *(name, f"{tested.runs}", dollars_text(tested.learning_cost)),
                f"{dollars_text(tested.cost_each)} ± {dollars_text(tested.cost_each_error)}",
                *(dollars_text(one.train.cost_each), f"{tested.explored:.1%}"),
                f"{_split_text(case.slots, tested.ended_on)} ({tested.ended_on_share:.0%} of runs)",
            ]
        )
    header = ["", "runs", "cost of learning", "cost per order, learning included", "in sample", "explored"]
    return TextTable([*header, "most frequent final split"], rows)


def _models_table(case: SplitCase) -> TextTable:
    """Return the venue models with their goodness of fit."""
    rows = []
    for (slot, model), cap in zip(case.models.items(), case.caps, strict=True):
        fit = case.fits[slot]
        known = list(fit.warnings)
        if fit.variance != model.variance:
            known.append("the model has a pure square instead of the fitted variance")
        rows.append(
            [
                *(slot, f"{cap:,}"),
                *(f"{value:.4g}" for value in (*model.mean, *model.variance)),
                *(f"{fit.r2_mean:.3f}", f"{fit.r2_variance:.3f}", "; ".join(known) or "none"),
            ]
        )
    moments = ["profit per share ($)", "per share² ($)", "variance per share ($²)", "per share² ($²)"]
    return TextTable(["slot", "most shares", *moments, "R² mean", "R² variance", "caveats"], rows)


def _frontier_table(case: SplitCase) -> TextTable:
    """Return the risk tolerances at which the best split changes, lowest first."""
    rows = [
        [
            *(f"{point.risk_tolerance:.3g}", _split_text(case.slots, point.allocation)),
            *(dollars_text(-point.mean), f"{point.variance:.3g}"),
            *(dollars_text(-point.test_mean), f"{point.test_variance:.3g}", dollars_text(-point.tail)),
        ]
        for point in case.frontier
    ]
    header = ["risk tolerance from", "split", "cost in sample", "variance ($²)"]
    return TextTable([*header, "cost out of sample", "variance ($²)", "expected shortfall 5 %"], rows)


_LIMITATIONS = (
    "Costs are against the mid of each venue's own book when the order is sent. No market impact: the books are as "
    "recorded, without these orders.",
    "One day and a few hours of books. Another day may differ by more than the standard errors.",
    "Dark pools have assumed parameters; no pool publishes them.",
    "Market orders and the remainders of dark pools walk the book of a venue together. The remainder of a limit order "
    "crosses later, on a book that has recovered. Beyond the known levels prices are extrapolated in proportion.",
    "Limit orders join at the best price and wait; they are not repriced.",
    "The models add up over slots and ignore that venues move together; replayed books do not.",
    "Scenarios repeat. A policy that trades for longer than there are books sees them again.",
)


def write_report(result: SplitStudyResult, out: str | os.PathLike[str]) -> list[Path]:
    """Write the report of a split study: ``report.html``, one page that works offline, and ``report.md``.

    Parameters
    ----------
    result : SplitStudyResult
        From `SplitStudy.run` or `SplitStudyResult.from_json`.
    out : str or path-like
        The folder to write to; an earlier report there is replaced.

    Returns
    -------
    list of Path
        The files written.
    """
    instance_of("result", result, SplitStudyResult, "a SplitStudyResult")
    folder = writable_folder("out", out)
    for name in _REPORTS:  # an earlier report must not stand beside new numbers
        (folder / name).unlink(missing_ok=True)
    page = _page(result)
    text = page.markdown()
    return [
        page.write(folder / _REPORTS[0]),
        write_whole(folder / _REPORTS[1], lambda beside: beside.write_text(text, encoding="utf-8")),
    ]


def _page(result: SplitStudyResult) -> Page:
    config, market = result.config, result.market
    levels = [one.cut for one in market.recordings.values() if one.cut]
    if config.levels is not None:
        levels.append(f"Levels of a book that an order may walk: {config.levels}, as configured.")
    versions = ", ".join(f"{name} {number}" for name, number in result.versions.items())
    train, test = (f"{span[0]:%H:%M} to {span[1]:%H:%M}" for span in (config.train, config.test))
    return Page(
        title=f"How to split orders of {market.symbol}",
        subtitle=f"{market.origin}, {market.date}, {market.side} side. Train hours {train}, test hours {test} "
        f"({market.zone}).",
        parts=tuple(
            Part(
                f"{case.shares:,} shares, risk tolerance {case.risk_tolerance:g}",
                _headline(case, market.side),
                "",
                (),
                (Section("Findings", points=tuple(_findings(case))), *_sections(case, fees=config.fees is not None)),
            )
            for case in result.orders
        ),
        sections=(
            Section("Limitations", points=(*_LIMITATIONS, *levels)),
            Section("Reproduction", (f"Versions: {versions}.",)),
        ),
        program=program_text("SplitStudy", config),
        settings=json.dumps(to_plain(config), indent=1),
    )


def _sections(case: SplitCase, *, fees: bool) -> tuple[Section, ...]:
    fee = ", fees included" if fees else ""
    costs = f"Costs are against the mid when the order is sent{fee}, in the test hours; ± is one standard error."
    if case.risk_tolerance:
        charge = (
            "The risk-adjusted cost adds the variance of the cost divided by the risk tolerance of "
            f"{case.risk_tolerance:g}."
        )
    else:
        charge = "At a risk tolerance of zero only the variance counts, and there is no charge in dollars."
    rounds = next(iter(case.policies.values())).test.checkpoints[-1]
    policies = (
        f'Every policy routed {rounds:,} orders per run, without prior knowledge; "warm" starts with a belief from the '
        "train hours, so its costs in sample are optimistic. Regret is the mean-variance of the profit minus that of "
        "the best split."
    )
    if case.unplayed:
        policies += f" Not played, because there are too many splits to try each: {', '.join(case.unplayed)}."
    frontier = (
        "Each split is the best of the train hours from its risk tolerance up to that of the next one; the last "
        "ignores risk. Where there are many, some are omitted."
    )
    models = (
        "The profit of a slot has a mean and a variance quadratic in the shares sent. R² is the fraction of the "
        "variation that the straight line explains."
    )
    return (
        Section(
            "The split and its alternatives",
            charts=_split_charts(case),
            tables=(("Splits out of sample", _splits_table(case)),),
            notes=(f"{costs} {charge} In sample: on the books of the train hours.",),
        ),
        Section("Cost of learning", (), _regret_charts(case), (("Policies", _policies_table(case)),), (policies,)),
        Section("Risk frontier", (), (_frontier_chart(case),), (("Splits", _frontier_table(case)),), (frontier,)),
        Section("Venue models", (), _fit_charts(case), (("Models", _models_table(case)),), (models,)),
    )


def _split_charts(case: SplitCase) -> tuple[tuple[str, str], ...]:
    """The recommended split beside the first naive one, and the cost of every split out of sample."""
    names = (RECOMMENDED, case.naive_splits[0])
    bars = {name: case.splits[name].allocation for name in names}
    tested = {name: split.test for name, split in case.splits.items()}
    roles = {RECOMMENDED: "chosen"}
    dots = [Dot(name, one.cost, error=one.cost_error, role=roles.get(name, "other")) for name, one in tested.items()]
    title, cost = "Shares by slot", "Cost per order, out of sample"
    return (title, bar_chart(title, "shares", case.slots, bars)), (cost, dot_chart(cost, "dollars per order", dots))


def _regret_charts(case: SplitCase) -> tuple[tuple[str, str], ...]:
    """Regret in the model and out of sample, on a logarithmic scale: policies differ by orders of magnitude."""
    charts, colours = [], palette(list(case.policies))
    for title, place in (("Regret, in the model", "model"), ("Regret, out of sample", "test")):
        curves = []
        for name, outcome in case.policies.items():
            one: PolicyMeasures = getattr(outcome, place)
            curves.append(Curve(name, one.checkpoints, one.mean_regret, dots=False, colour=colours[name]))
        charts.append((title, curve_chart(title, "orders routed", "regret (squared dollars)", curves, log=True)))
    return tuple(charts)


def _frontier_chart(case: SplitCase) -> tuple[str, str]:
    points, chosen = case.frontier, case.recommended.test
    in_sample = [one.variance**0.5 for one in points], [-one.mean for one in points]
    tested = [one.test_variance**0.5 for one in points]
    curves = [
        Curve("in sample", *in_sample, role="chosen"),
        Curve("out of sample", tested, [-one.test_mean for one in points], role="rule", line=False),
        Curve("expected shortfall 5 %, out of sample", tested, [-one.tail for one in points], role="bound", line=False),
        Curve("recommended, out of sample", [chosen.variance**0.5], [chosen.cost], line=False, colour="#e69f00"),
    ]
    title = "Risk frontier: the best split by risk tolerance"
    return title, curve_chart(title, "standard deviation of the cost (dollars)", "cost (dollars)", curves)


def _fit_charts(case: SplitCase) -> tuple[tuple[str, str], ...]:
    """Sampled mean against quantity and variance against its square, with straight lines, by slot."""
    charts = []
    for slot, fit in case.fits.items():
        quantities = np.array(fit.quantities, dtype=float)
        for title, x, axis, unit, values in (
            (f"{slot}: mean, R² = {fit.r2_mean:.3f}", quantities, "shares", "dollars", fit.means),
            (f"{slot}: variance, R² = {fit.r2_variance:.3f}", quantities**2, "shares²", "dollars²", fit.variances),
        ):
            slope, start = np.polyfit(x, values, 1)
            line = Curve("straight line", x.tolist(), (start + slope * x).tolist(), role="rule", dots=False)
            curves = [Curve("sampled", x.tolist(), values, role="chosen", line=False), line]
            charts.append((title, curve_chart(title, axis, unit, curves)))
    return tuple(charts)
