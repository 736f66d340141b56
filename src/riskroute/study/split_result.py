"""The result of a split study: measures of splits and policies, findings in sentences, and a report.

Quantities are natural; amounts are per order, in the quote currency, unless stated otherwise. The *risk-adjusted cost*
is the mean-variance divided by the risk tolerance: the mean cost plus a charge for risk, an amount. It is undefined at
a risk tolerance of zero.
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
from riskroute.core.instrument import SHARES, Instrument
from riskroute.core.records import from_plain, to_plain
from riskroute.core.text import TextTable, money_text, natural_text, shown, words_list
from riskroute.core.validation import instance_of, valid_path
from riskroute.market.fitting import VenueFit
from riskroute.study.config import SplitStudyConfig
from riskroute.study.page import Page, PagePart, PageSection
from riskroute.study.svg import ChartCurve, ChartDot, bar_chart, chart_colours, curve_chart, dot_chart

Value = TypeVar("Value")

RECOMMENDED = "recommended"


@dataclass(frozen=True)
class TrainAndTest(Generic[Value]):
    """One value for the train hours and one for the test hours."""

    train: Value
    test: Value


@dataclass(frozen=True)
class SampleCount:
    """Number of time buckets, and number of the scenarios in them."""

    buckets: int
    scenarios: int


@dataclass(frozen=True)
class SplitMeasures:
    """Profit and cost of a split over the scenarios of the train or the test hours.

    The fields up to ``excess_error`` describe the profit, in the quote currency and its square: mean, variance,
    mean-variance, mean of the worst 5 % (``tail``), their standard errors, and the excess of the mean-variance over
    the recommended split's. The fields from ``cost`` on describe the cost, the negative of the profit;
    ``per_one`` is the cost per quantity of 1. The charge for risk and costs that include it are None at a risk
    tolerance of zero.
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
    per_one: float
    tail_cost: float
    risk_charge: float | None
    charged_cost: float | None
    charged_cost_error: float | None
    charged_excess: float | None
    charged_excess_error: float | None


@dataclass(frozen=True)
class SplitOutcome:
    """One split, as quantities by slot, with its measures in the train and test hours."""

    allocation: tuple[int | float, ...]
    train: SplitMeasures
    test: SplitMeasures


@dataclass(frozen=True)
class PolicyMeasures:
    """Performance of a policy in one environment, averaged over its runs.

    ``learning_cost`` is the regret as an amount, ``cost_each`` the risk-adjusted cost of an order including learning;
    both are None at a risk tolerance of zero. Errors are standard errors over runs. ``explored`` is the fraction of
    orders that were not split as the policy recommended at the end of the run. ``ended_on`` is the most frequent of
    these recommendations, ``ended_on_share`` the fraction of runs with it. ``mean_regret`` and ``std_regret`` have one
    value per checkpoint.
    """

    regret: float
    regret_error: float
    learning_cost: float | None
    mean_variance: float
    cost_each: float | None
    cost_each_error: float | None
    mean_variance_error: float | None
    explored: float
    ended_on: tuple[int | float, ...]
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
    """Mean and variance of the profit in a slot, each given by the coefficients of the quantity and of its square."""

    mean: tuple[float, float]
    variance: tuple[float, float]
    kind: str


@dataclass(frozen=True)
class FrontierSplit:
    """The best split of the train hours, from ``risk_tolerance`` up to the tolerance of the next split on the frontier.

    ``mean`` and ``variance`` of the profit are from the train hours; ``test_mean``, ``test_variance`` and ``tail`` (the
    mean of the worst 5 %) are from the test hours.
    """

    risk_tolerance: float
    allocation: tuple[int | float, ...]
    mean: float
    variance: float
    test_mean: float
    test_variance: float
    tail: float


@dataclass(frozen=True)
class SplitResultCase:
    """The findings for one order size and risk tolerance.

    Allocations are in the order of ``slots``; ``caps`` are the maximum quantities per slot, ``rests_cross_at`` the
    venues at which the remainders of pools cross the spread. ``unused_slots`` has the slots that cannot be used, with
    reasons. In a fraction ``beyond_known_levels`` of the scenarios the recommended split needs more than the recorded
    levels hold; a fraction ``left_out`` is excluded because a book is missing or too thin. ``naive_splits`` (equal, in
    proportion to depth, best single slot) need no model. ``gap`` is the risk-adjusted cost of the recommended split,
    out of sample minus in sample; None at a risk tolerance of zero. ``warm_policies`` start with a belief from the
    train hours. Policies in ``unplayed`` need a list of all splits, which would be too long. ``splits_possible`` is a
    string, since the number may have hundreds of digits.
    """

    quantity: int | float
    risk_tolerance: float
    lot: int | float
    mid: TrainAndTest[float]
    slots: tuple[str, ...]
    kinds: tuple[str, ...]
    caps: tuple[int | float, ...]
    rests_cross_at: dict[str, str]
    unused_slots: dict[str, str]
    moments: TrainAndTest[SampleCount]
    splits_possible: str
    beyond_known_levels: TrainAndTest[float]
    left_out: TrainAndTest[float]
    models: dict[str, SlotModel]
    fits: dict[str, VenueFit]
    splits: dict[str, SplitOutcome]
    naive_splits: tuple[str, ...]
    gap: float | None
    gap_error: float | None
    frontier: tuple[FrontierSplit, ...]
    policies: dict[str, PolicyOutcome]
    recommended_policy: str
    warm_policies: tuple[str, ...]
    unplayed: tuple[str, ...]
    instrument: Instrument = SHARES

    @property
    def size(self) -> str:
        """The quantity of an order as text."""
        return self.instrument.named(self.quantity)

    def money(self, amount: float | None) -> str:
        """Return an amount with its currency."""
        return money_text(amount, self.instrument.currency)

    @property
    def recommended(self) -> SplitOutcome:
        """The recommended split."""
        return self.splits[RECOMMENDED]

    def sent(self, allocation: Sequence[float]) -> dict[str, float]:
        """Return the quantities of an allocation by slot, without empty slots."""
        return {slot: quantity for slot, quantity in zip(self.slots, allocation, strict=True) if quantity}

    def split_text(self, allocation: Sequence[float]) -> str:
        """Return an allocation as text such as ``4 XNAS, 6 Dark 1``, without empty slots."""
        return ", ".join(f"{natural_text(quantity)} {slot}" for slot, quantity in self.sent(allocation).items())

    def headline(self, side: str) -> str:
        """Return the recommendation in one sentence: "Sell 10 shares by sending 4 to XNAS and 6 to Dark 1."."""
        sent = self.sent(self.recommended.allocation)
        parts = [f"{natural_text(quantity)} to {slot}" for slot, quantity in sent.items()]
        return f"{'Sell' if side == 'sell' else 'Buy'} {self.size} by sending {words_list(parts)}."

    def findings(self) -> list[str]:
        """Return the findings in sentences: costs, alternatives, the policy to learn with, and caveats."""
        tested, seen = self.recommended.test, self.moments.test
        found = []
        if pools := [slot for slot in self.sent(self.recommended.allocation) if slot in self.rests_cross_at]:
            venues = words_list(list(dict.fromkeys(self.rests_cross_at[pool] for pool in pools)))
            are = "is a dark pool" if len(pools) == 1 else "are dark pools"
            found.append(
                f"{words_list(pools)} {are} with assumed parameters; the remainder crosses the spread at {venues}."
            )
        found.append(
            f"Out of sample the cost was {self.money(tested.cost)} per order (s.e. "
            f"{self.money(tested.cost_error)}): {tested.basis_points:.2f} basis points, or "
            f"{self.money(tested.per_one)} per {self.instrument.singular}. Expected shortfall (5 %): "
            f"{self.money(tested.tail_cost)}. The test hours gave {seen.scenarios:,} scenarios in "
            f"{seen.buckets:,} time buckets."
        )
        if self.gap is not None:
            word = "higher" if self.gap > 0 else "lower"
            gap, error = self.money(abs(self.gap)), self.money(self.gap_error)
            found.append(f"The risk-adjusted cost was {gap} {word} out of sample than in sample (s.e. {error}).")
        same = [k for k, point in enumerate(self.frontier) if point.allocation == self.recommended.allocation]
        if same:
            start, later = self.frontier[same[0]].risk_tolerance, self.frontier[same[0] + 1 :]
            span = f"from {start:.3g} to {later[0].risk_tolerance:.3g}" if later else f"of {start:.3g} and more"
            found.append(f"The same split is optimal for any risk tolerance {span}.")
        found += [_alternative(self, name) for name in self.splits if name != RECOMMENDED]
        found += [f"Not used: {slot}, {reason}." for slot, reason in self.unused_slots.items()]
        if max(self.caps) < self.quantity:
            found.append("No single slot can take the whole order.")
        if dropped := self.left_out.test:
            why = "because a book was missing or too shallow"
            found.append(f"{dropped:.1%} of the sample times in the test hours were skipped {why}.")
        if beyond := self.beyond_known_levels.test:
            times = f"At {beyond:.1%} of the sample times in the test hours"
            found.append(
                f"{times} the split needed more than the known levels of a book; its cost beyond them is an estimate."
            )
        return [*found, *_learning(self)]


@dataclass(frozen=True)
class SplitRecordingFacts:
    """The recording of one venue: number of books, recorded levels, number of events, and source.

    ``deeper`` counts the books with more levels than were recorded; ``cut`` has remarks on this and other issues.
    """

    books: int
    levels: int
    deeper: int
    cut: str
    events: int
    source: str


@dataclass(frozen=True)
class SplitMarketFacts:
    """Origin, symbol, date, time zone and side of a split study's market data, and its recordings by name."""

    origin: str
    symbol: str
    date: str
    zone: str
    side: str
    recordings: dict[str, SplitRecordingFacts]


@dataclass(frozen=True, repr=False)
class SplitStudyResult:
    """The result of a split study; `print` shows its findings.

    ``config`` includes the defaults, ``versions`` names the software on which the numbers depend, and ``orders`` has
    one case for each order size and risk tolerance.
    """

    config: SplitStudyConfig
    versions: dict[str, str]
    market: SplitMarketFacts
    orders: tuple[SplitResultCase, ...]

    def __post_init__(self) -> None:
        instance_of("config", self.config, SplitStudyConfig, "a SplitStudyConfig")
        instance_of("versions", self.versions, dict, "a dictionary of versions by name")
        instance_of("market", self.market, SplitMarketFacts, "the facts about the market")
        if not isinstance(self.orders, tuple) or not all(isinstance(one, SplitResultCase) for one in self.orders):
            raise InputError(f"orders must be a tuple of SplitResultCase, was {shown(self.orders)}")

    def __repr__(self) -> str:
        return "\n\n".join("\n  ".join([case.headline(self.market.side), *case.findings()]) for case in self.orders)

    def summary(self) -> dict[str, Any]:
        """Return the plain values that `to_json` writes."""
        plain: dict[str, Any] = to_plain(self)
        return plain

    def to_json(self, path: str | os.PathLike[str]) -> Path:
        """Write the result to a ``.json`` file, which `from_json` reads."""
        target = valid_path("path", path)
        if target.suffix.lower() != ".json":
            raise InputError(f"path must end in .json, was {target.name!r}")
        return write_json(target, self.summary())

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> SplitStudyResult:
        """Read a result from a file written by `to_json`, such as ``study.json``."""
        source = valid_path("path", path)
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


def _alternative(case: SplitResultCase, name: str) -> str:
    split, label = case.splits[name], name[0].upper() + name[1:]
    if split.allocation == case.recommended.allocation:
        return f"{label}: the same split."
    if len(case.sent(split.allocation)) <= 3:  # longer ones are in the table
        label += f" ({case.split_text(split.allocation)})"
    more, error = split.test.charged_excess, split.test.charged_excess_error
    if more is None or error is None:
        larger, doubt = split.test.excess, f"{split.test.excess_error:.3g}"
        word = "larger" if larger > 0 else "smaller"
        unit = f"{case.instrument.currency}²"
        return f"{label} would have had a {word} variance, by {abs(larger):.3g} {unit} (s.e. {doubt})."
    word, doubt = "more" if more > 0 else "less", "" if abs(more) > 2 * error else ", not significant"
    return f"{label} would have cost {case.money(abs(more))} {word}, risk-adjusted (s.e. {case.money(error)}{doubt})."


def _learning(case: SplitResultCase) -> list[str]:
    name = case.recommended_policy
    tested = case.policies[name].test
    rounds = tested.checkpoints[-1]
    if tested.learning_cost is None or tested.cost_each is None:
        return [f"The policy {name} learns the split: over {rounds:,} orders its regret was {tested.regret:,.3g}."]
    begin = "To learn the split while trading, use the policy"
    if name in case.warm_policies:
        begin = "To keep learning, start from the train hours with the policy"
    naive = {label: case.splits[label].test.charged_cost for label in case.naive_splits}
    others = ", ".join(f"{case.money(cost)} for {label}" for label, cost in naive.items())
    found = [
        f"{begin} {name}: learning while trading cost {case.money(tested.learning_cost)} over {rounds:,} orders, "
        "risk-adjusted.",
        f"Its orders then cost {case.money(tested.cost_each)} on average, including learning and risk (s.e. over "
        f"runs {case.money(tested.cost_each_error)}), against {case.money(case.recommended.test.charged_cost)} for "
        f"the recommended split, {others}.",
    ]
    cheaper = [label for label, cost in naive.items() if cost is not None and cost < tested.cost_each]
    if cheaper:
        found.append(
            f"Exploration cost more than it saved: {' and '.join(cheaper)} would have been cheaper. Send "
            "the recommended split, or let a policy learn over more orders."
        )
    return found


def _splits_table(case: SplitResultCase) -> TextTable:
    header = ["", "split", "cost", "basis points", "expected shortfall 5 %", "risk-adjusted cost", "in sample"]
    rows = []
    for name, split in case.splits.items():
        tested = split.test
        cost = f"{case.money(tested.cost)} ± {case.money(tested.cost_error)}"
        risky = map(case.money, (tested.tail_cost, tested.charged_cost, split.train.charged_cost))
        rows.append([name, case.split_text(split.allocation), cost, f"{tested.basis_points:.2f}", *risky])
    return TextTable(header, rows)


def _policies_table(case: SplitResultCase) -> TextTable:
    header = ["", "runs", "cost of learning", "cost per order, learning included", "in sample", "explored"]
    rows = []
    for name, one in case.policies.items():
        tested = one.test
        each = f"{case.money(tested.cost_each)} ± {case.money(tested.cost_each_error)}"
        costs = case.money(tested.learning_cost), each, case.money(one.train.cost_each)
        end = f"{case.split_text(tested.ended_on)} ({tested.ended_on_share:.0%} of runs)"
        rows.append([name, f"{tested.runs}", *costs, f"{tested.explored:.1%}", end])
    return TextTable([*header, "most frequent final split"], rows)


def _models_table(case: SplitResultCase) -> TextTable:
    one, money = case.instrument.singular, case.instrument.currency
    moments = [f"profit per {one} ({money})", f"per {one}² ({money})"]
    moments += [f"variance per {one} ({money}²)", f"per {one}² ({money}²)"]
    rows = []
    for (slot, model), cap in zip(case.models.items(), case.caps, strict=True):
        fit = case.fits[slot]
        known = list(fit.warnings)
        if fit.variance != model.variance:
            known.append("the model's variance is purely quadratic: the fitted one is negative somewhere")
        values = [f"{value:.4g}" for value in (*model.mean, *model.variance)]
        rows.append(
            [
                slot,
                natural_text(cap),
                *values,
                f"{fit.r2_mean:.3f}",
                f"{fit.r2_variance:.3f}",
                "; ".join(known) or "none",
            ]
        )
    return TextTable(["slot", "at most", *moments, "R² mean", "R² variance", "caveats"], rows)


def _frontier_table(case: SplitResultCase) -> TextTable:
    variance = f"variance ({case.instrument.currency}²)"
    header = ["risk tolerance from", "split", "cost in sample", variance]
    rows = [
        [
            *(f"{point.risk_tolerance:.3g}", case.split_text(point.allocation)),
            *(case.money(-point.mean), f"{point.variance:.3g}"),
            *(case.money(-point.test_mean), f"{point.test_variance:.3g}", case.money(-point.tail)),
        ]
        for point in case.frontier
    ]
    return TextTable([*header, "cost out of sample", variance, "expected shortfall 5 %"], rows)


_LIMITATIONS = (
    "Costs are against the mid of each venue's own book when the order is sent. No market impact: the books are as "
    "recorded, without these orders.",
    "The books cover a few hours of one day. Another day may differ by more than the standard errors.",
    "Dark pools have assumed parameters; no pool publishes them.",
    "Market orders and the remainders of dark pools walk the book of a venue together. The remainder of a limit order "
    "crosses later, on a book that has recovered. Beyond the known levels prices are extrapolated in proportion.",
    "Limit orders join at the best price and wait; they are not repriced.",
    "The models assume independent slots; replayed books keep the correlation between venues.",
    "Scenarios repeat: a policy that sends more orders than there are scenarios sees them again.",
)


def write_split_page(result: SplitStudyResult, out: str | os.PathLike[str]) -> list[Path]:
    """Write the report of a split study as ``report.html``, which works offline, and as ``report.md``.

    Parameters
    ----------
    result : SplitStudyResult
        Result of `SplitStudy.run` or `SplitStudyResult.from_json`.
    out : str or path-like
        Folder to write to; an earlier report in this folder is replaced.

    Returns
    -------
    list of Path
        The files written.
    """
    instance_of("result", result, SplitStudyResult, "a SplitStudyResult")
    folder = writable_folder("out", out)
    files = [folder / "report.html", folder / "report.md"]
    for path in files:  # an earlier report must not stand beside new numbers
        path.unlink(missing_ok=True)
    page = _page(result)
    page.write(files[0])
    write_whole(files[1], lambda beside: beside.write_text(page.markdown(), encoding="utf-8"))
    return files


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
            PagePart(
                f"{case.size}, risk tolerance {case.risk_tolerance:g}",
                case.headline(market.side),
                _sections(case, fees=config.fees is not None),
            )
            for case in result.orders
        ),
        sections=(
            PageSection("Limitations", points=(*_LIMITATIONS, *levels)),
            PageSection("Reproduction", (f"Versions: {versions}.",)),
        ),
        config=config,
    )


def _sections(case: SplitResultCase, *, fees: bool) -> tuple[PageSection, ...]:
    fee = ", fees included" if fees else ""
    costs = f"Costs are against the mid when the order is sent{fee}, in the test hours; ± is one standard error."
    if case.risk_tolerance:
        charge = (
            "The risk-adjusted cost adds the variance of the cost divided by the risk tolerance of "
            f"{case.risk_tolerance:g}."
        )
    else:
        charge = "At a risk tolerance of zero only the variance counts, and there is no charge for risk."
    rounds = next(iter(case.policies.values())).test.checkpoints[-1]
    policies = (
        f'Every policy routed {rounds:,} orders per run, without prior knowledge; "warm" starts with a belief from the '
        "train hours, so its costs in sample are optimistic. Regret is the mean-variance of the profit minus that of "
        "the best split."
    )
    if case.unplayed:
        policies += f" Not played, since they try every split and there are too many: {', '.join(case.unplayed)}."
    frontier = (
        "Each split is the best of the train hours from its risk tolerance up to that of the next one; the last "
        "ignores risk. If there are more than 25, some are omitted."
    )
    models = (
        "The profit of a slot has a mean and a variance quadratic in the quantity sent. R² is that of the straight "
        "lines in the charts: the mean against the quantity, and the variance against its square."
    )
    return (
        PageSection("Findings", points=tuple(case.findings())),
        PageSection(
            "The split and its alternatives",
            charts=_split_charts(case),
            tables=(("Splits out of sample", _splits_table(case)),),
            notes=(f"{costs} {charge} In sample: on the books of the train hours.",),
        ),
        PageSection("Cost of learning", (), _regret_charts(case), (("Policies", _policies_table(case)),), (policies,)),
        PageSection("Risk frontier", (), (_frontier_chart(case),), (("Splits", _frontier_table(case)),), (frontier,)),
        PageSection("Venue models", (), _fit_charts(case), (("Models", _models_table(case)),), (models,)),
    )


def _split_charts(case: SplitResultCase) -> tuple[tuple[str, str], ...]:
    bars = {name: case.splits[name].allocation for name in (RECOMMENDED, case.naive_splits[0])}
    dots = [
        ChartDot(name, one.test.cost, error=one.test.cost_error, role="chosen" if name == RECOMMENDED else "other")
        for name, one in case.splits.items()
    ]
    title, cost = "Quantity by slot", "Cost per order, out of sample"
    unit = f"{case.instrument.currency} per order"
    chart = bar_chart(title, case.instrument.quantity, case.slots, bars)
    return (title, chart), (cost, dot_chart(cost, unit, dots))


def _regret_charts(case: SplitResultCase) -> tuple[tuple[str, str], ...]:
    """Draw regret in the model and out of sample, on a log scale because policies differ by orders of magnitude."""
    charts, colours = [], chart_colours(list(case.policies))
    for title, place in (("Regret, in the model", "model"), ("Regret, out of sample", "test")):
        measured = {name: getattr(outcome, place) for name, outcome in case.policies.items()}
        curves = [
            ChartCurve(name, one.checkpoints, one.mean_regret, dots=False, colour=colours[name])
            for name, one in measured.items()
        ]
        charts.append(
            (title, curve_chart(title, "orders routed", f"regret ({case.instrument.currency}²)", curves, log=True))
        )
    return tuple(charts)


def _frontier_chart(case: SplitResultCase) -> tuple[str, str]:
    points, chosen = case.frontier, case.recommended.test
    in_sample = [one.variance**0.5 for one in points], [-one.mean for one in points]
    tested = [one.test_variance**0.5 for one in points]
    curves = [
        ChartCurve("in sample", *in_sample, role="chosen"),
        ChartCurve("out of sample", tested, [-one.test_mean for one in points], role="rule", line=False),
        ChartCurve(
            "expected shortfall 5 %, out of sample", tested, [-one.tail for one in points], role="bound", line=False
        ),
        ChartCurve("recommended, out of sample", [chosen.variance**0.5], [chosen.cost], line=False, colour="#e69f00"),
    ]
    title = "Risk frontier: the best split by risk tolerance"
    money = case.instrument.currency
    return title, curve_chart(title, f"standard deviation of the cost ({money})", f"cost ({money})", curves)


def _fit_charts(case: SplitResultCase) -> tuple[tuple[str, str], ...]:
    """Draw, for each slot, mean against quantity and variance against squared quantity, with least-squares lines."""
    charts, counted, money = [], case.instrument.quantity, case.instrument.currency
    for slot, fit in case.fits.items():
        quantities = np.array(fit.quantities, dtype=float)
        for title, x, axis, unit, values in (
            (f"{slot}: mean, R² = {fit.r2_mean:.3f}", quantities, counted, money, fit.means),
            (f"{slot}: variance, R² = {fit.r2_variance:.3f}", quantities**2, f"{counted}²", f"{money}²", fit.variances),
        ):
            slope, start = np.polyfit(x, values, 1)
            line = ChartCurve("straight line", x.tolist(), (start + slope * x).tolist(), role="rule", dots=False)
            curves = [ChartCurve("sampled", x.tolist(), values, role="chosen", line=False), line]
            charts.append((title, curve_chart(title, axis, unit, curves)))
    return tuple(charts)
