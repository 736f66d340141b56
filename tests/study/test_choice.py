"""Why a router is to be used or not, and where it loses: on orders and comparisons made by hand."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import polars as pl
import pytest

from riskroute.routers.risk import BALANCED, CHEAPEST
from riskroute.study.case import (
    CaseDarkSurface,
    CaseEstimate,
    CaseLearningCost,
    CaseSaving,
    CaseStressTable,
    StudyCase,
    _differences_by_state,
    _estimated_share,
    _headline_saving,
    _learning_cost,
    _saving_of,
    _StressSaving,
    _SurfacePoint,
)
from riskroute.study.config import StudyConfig
from riskroute.study.day_tables import DayTables
from riskroute.study.page import _stress_rows, _study_page, _verdict_facts
from riskroute.study.result import StudyResult, savings_table
from riskroute.study.router_comparison import (
    REASONS,
    QueueEstimate,
    RouterComparison,
    _RouterResult,
    compare_routers,
)
from riskroute.study.statistics import PairedDifference, Sample
from riskroute.study.verdict import backtest_verdict, case_verdict


def router(
    cost: float,
    objective: float,
    paired: tuple[float, float, float] | None = None,
    charged: tuple[float, float, float] | None = None,
    estimated: float = 0.0,
    admitted: bool = True,
    known: float | None = None,
) -> _RouterResult:
    pair, other = (None if one is None else PairedDifference("sweep", *one, 0.01, 0.31) for one in (paired, charged))
    numbers: dict[str, Any] = dict.fromkeys((item.name for item in dataclasses.fields(_RouterResult)), 0.0)
    return _RouterResult(
        **numbers
        | {"cost_bps": cost, "objective_bps": objective, "paired": pair, "es95_bps": cost + 4}
        | {"paired_objective": other, "estimated_share": estimated, "feedback": "F0"}
        | {"paired_tail": pair, "admitted": admitted, "paired_amount": None, "known_quantity": known}
    )


def comparison(
    paired: tuple[float, float, float],
    objective: float,
    room: float = 1.0,
    charged: tuple[float, float, float] | None = None,
    estimated: float = 0.0,
    admitted: bool = True,
) -> RouterComparison:
    routers = {
        "sweep": router(2.0, 2.2, estimated=estimated, known=900.0 if estimated > 0.1 else None),
        "contextual": router(2.0 + paired[0], objective, paired, charged or paired, admitted=admitted),
        "clairvoyant": router(2.0 - room, 2.0 - room, (-room, -room, -room)),
    }
    return RouterComparison(160, "sweep", Sample("day", 8, 8.0), 8.0, False, routers)


PAIRED = {
    "beats": (-0.4, -0.6, -0.2),
    "worse": (0.4, 0.2, 0.6),
    "riskier": (-0.4, -0.6, -0.2),
    "no headroom": (-0.01, -0.02, 0.02),
    "too few days": (-0.4, -0.6, -0.2),
    "too little": (-0.01, -0.05, 0.03),
    "too few orders": (-0.2, -0.6, 0.2),
    "tail": (-0.4, -0.6, -0.2),
    "queues": (-0.4, -0.6, -0.2),
}
CASES = {
    "beats": comparison(PAIRED["beats"], 1.8),
    "worse": comparison(PAIRED["worse"], 2.6),
    "riskier": comparison(PAIRED["riskier"], 2.3, charged=(0.1, 0.02, 0.18)),
    "no headroom": comparison(PAIRED["no headroom"], 2.1, room=0.06),
    "too few days": dataclasses.replace(
        comparison(PAIRED["too few days"], 1.8), sample=Sample("block", 60, 12.0), days=3.0
    ),
    "too little": comparison(PAIRED["too little"], 2.1),
    "too few orders": comparison(PAIRED["too few orders"], 2.0),
    "tail": comparison(PAIRED["tail"], 1.8, admitted=False),
    "queues": dataclasses.replace(
        comparison(PAIRED["queues"], 1.8),
        queues=QueueEstimate(
            ("BITS",), "power 3", {"sweep": 2.0, "contextual": 2.1}, {"sweep": 2.0, "contextual": 1.25}
        ),
    ),
}


@pytest.mark.parametrize("reason", CASES)
def test_the_reason_and_its_words(reason: str) -> None:
    found = CASES[reason]
    assert found.choice_reason("contextual") == reason
    mean, low, high = PAIRED[reason]
    saved = CaseEstimate(-mean, -high, -low)
    saving = CaseSaving("contextual", "sweep", saved, saved, saved, 0.31, saved, 0.01)
    use = "contextual" if reason == "beats" else "sweep"
    case = StudyCase(
        *(1000, 60.0, 3, 3, 10.0, 0.03, 0.2, {}, "contextual", use, reason, saving, (), ()),
        *(
            CaseLearningCost(CaseEstimate(0.012, 0.001, 0.023), CaseEstimate(-0.003, None, None)),
            None,
            found.routers["sweep"].cost_bps - found.routers["clairvoyant"].cost_bps,
        ),
        *(None, (), found),
        verdict=reason != "too few days",
        further_days=found.further_days("contextual"),
        further_orders=found.further_orders("contextual"),
    )
    whole, profile = case_verdict(case, StudyConfig()), " The risk profile is balanced (mean cost + 0.05 x variance)."
    assert profile in whole
    text = whole.replace(profile, "")
    if reason == "too few days":
        assert text.startswith(
            "Not enough data to tell which router to use for orders of 1,000 shares with a 60-second deadline: the "
            "orders cover 60 time blocks, 12 of them independent; 30 independent time blocks or 8 test days are "
            "needed. About 5 further test days like these (267 orders) would be enough. So far contextual, the best on "
            "the training days, saved 0.40 bps per order against sweep (95 % CI 0.20 to 0.60; p = 0.010)."
        )
        return
    assert text.startswith(
        f"For orders of 1,000 shares with a 60-second deadline, use {use}. On 3 test days (160 orders, 8 days)"
    )
    expected = {
        "beats": "it saved 0.40 bps per order against the benchmark rule sweep (95 % CI 0.20 to 0.60; p = "
        "0.010): 0.400 USD per order, 0.400 USD per 1,000 orders (0.200 USD to 0.600 USD).",
        "worse": "more than sweep (95 % CI 0.20 to 0.60; p = 0.010); it is significantly worse.",
        "riskier": "; with the charge for risk it cost 0.10 bps more (95 % CI 0.02 to 0.18; p = 0.010).",
        "no headroom": "there is no headroom: even perfect foresight would have saved only 0.06 bps per order.",
        "too little": "CI -0.03 to 0.05; p = 0.010); even the largest saving in the interval is too small to matter.",
        "too few orders": "too few orders to tell (minimum detectable saving 0.31 bps); about 12 further test days "
        "like these (240 orders) would be enough.",
        "tail": "p = 0.010); but its expected shortfall is significantly larger than the rule's.",
        "queues": "(0.200 USD to 0.600 USD); but not with both the pessimistic and the optimistic queue model. Queue "
        "positions at BITS are estimates (model power 3), since trades there have no order ids: contextual saves -0.10 "
        "to 0.75 bps between the pessimistic and the optimistic model.",
    }[reason]
    assert expected in text
    learned = "Exploration by contextual cost 0.012 bps per order on the first day (95 % CI 0.001 to 0.023) and "
    assert f"{learned}-0.003 bps afterwards (too few time blocks for a CI); a negative cost means" in text
    assert "(an order is 3.0% of the displayed depth and 20.0% of the 10-minute volume, too large" in text


def test_the_rule_stays_unless_something_is_better() -> None:
    assert [comparison((0.4, 0.2, 0.6), 3.0, room).choice_reason("sweep") for room in (1.0, 0.05)] == [
        "nothing better",
        "no headroom",
    ]
    assert {*CASES, "nothing better", "estimated"} == set(REASONS)


def test_there_is_no_verdict_where_much_is_estimated() -> None:
    """The case stays whole, with the simple rule as the router of its tables; no text recommends it."""
    sure, unsure = (comparison(PAIRED["beats"], 1.8, estimated=share) for share in (0.1, 0.57))
    assert [one.choice_reason("contextual") for one in (sure, unsure)] == ["beats", "estimated"]
    assert unsure.choice_reason("sweep") == "estimated"
    saved = CaseEstimate(0.4, 0.2, 0.6)
    case = StudyCase(
        *(5000, 60.0, 3, 3, 10.0, 0.03, 0.2, {}, "contextual", "sweep", "estimated"),
        *(
            CaseSaving("contextual", "sweep", saved, saved, saved, 0.31, saved, 0.01),
            (),
            (),
            None,
            None,
            1.0,
            None,
            (),
            unsure,
        ),
        symbol="AAPL",
        verdict=False,
        estimated_share=0.57,
    )
    said = case_verdict(case, StudyConfig())
    assert said == (
        "Not enough data to tell which router to use for orders of 5,000 shares of AAPL with a 60-second deadline: 57% "
        "of the volume is beyond the recorded depth and priced by an estimate. Orders of up to about 900 shares would "
        "have been small enough; or import more levels. The risk profile is balanced (mean cost + 0.05 x variance)."
    )
    unplayed = dataclasses.replace(case, comparison=dataclasses.replace(unsure, resting=False))
    assert case_verdict(unplayed, StudyConfig()) == f"{said} Limit orders could not be played on this data."
    pooled = case_verdict(dataclasses.replace(case, symbol=""), StudyConfig(), pooled=True)
    assert pooled.startswith("All symbols pooled: not enough data to tell which router to use for orders of ")
    table = savings_table([case])
    row = dict(zip(table.header, table.rows[0], strict=True))
    assert (row["use"], row["estimated"]) == ("not enough data", "57.0%")
    assert dict(_verdict_facts(case, BALANCED))["router to use"] == "not enough data to tell"
    result = StudyResult(StudyConfig(), ("AAPL 2019-03-04",), (), (case,))
    page = repr(_study_page(result))
    assert "Not enough data to tell: more than 10% of the volume is beyond the recorded depth" in page
    for text in (said, str(result), page):
        assert "use sweep" not in text.lower()
    assert result.to_json()["cases"][0]["verdict"] is False
    assert StudyResult.from_json(result.to_json()) == result


def test_estimates_are_counted_in_every_world() -> None:
    """Of 1,000 judged shares 130 are estimated; those of the training days do not count."""
    rows = {"judged": [True, True, False], "quantity": [600, 400, 5000], "estimated": [130, 0, 5000]}
    assert _estimated_share(pl.DataFrame(rows)) == 0.13
    saved = CaseEstimate(0.4, 0.2, 0.6)
    table = _stress_rows(CaseStressTable("a", "b", 2, (_StressSaving("as usual", 1.0, 1.4, saved, 0.13),)))
    assert (table.header[-1], table.rows[0][-1]) == ("estimated", "13.0%")
    points = tuple(_SurfacePoint(1.0, 1.0, saved, share) for share in (0.0, 0.13, 0.02))
    assert CaseDarkSurface("a", "b", 2, points).estimated_share == 0.13


def test_a_small_share_of_estimates_is_said() -> None:
    saved = CaseEstimate(0.4, 0.2, 0.6)
    case = StudyCase(
        *(1000, 60.0, 3, 3, 10.0, 0.03, 0.2, {}, "contextual", "contextual", "beats"),
        *(CaseSaving("contextual", "sweep", saved, saved, saved, 0.31, saved, 0.01), (), (), None, None, 1.0, None, ()),
        CASES["beats"],
    )
    text = case_verdict(case, StudyConfig())
    assert "estimate" not in text
    assert (
        "Against the consolidated mid at arrival, contextual cost 1.60 bps and sweep cost 2.00 bps per order." in text
    )
    for share, words in ((0.043, "4.3%"), (0.0001, "Less than 0.1%")):
        text = case_verdict(dataclasses.replace(case, estimated_share=share), StudyConfig())
        assert f"{words} of the volume is beyond the recorded depth and priced by an estimate." in text


def test_the_answer_says_that_days_are_synthetic() -> None:
    saved = CaseEstimate(0.4, 0.2, 0.6)
    case = StudyCase(
        *(1000, 60.0, 3, 3, 10.0, 0.03, 0.2, {}, "contextual", "contextual", "beats"),
        *(CaseSaving("contextual", "sweep", saved, saved, saved, 0.31, saved, 0.01), (), (), None, None, 1.0, None, ()),
        CASES["beats"],
        symbol="LUMO",
        zone="America/New_York",
    )
    made = StudyResult(StudyConfig(hours="10:30-11:30"), ("LUMO 2019-03-04",), (), (case,), synthetic=True)
    real = dataclasses.replace(made, synthetic=False, protection="reg-nms")
    start = "For orders of 1,000 shares of LUMO with a 60-second deadline"
    assert made.answer.startswith(f"{start} on synthetic days, use contextual.")
    assert real.answer.startswith(f"{start}, use contextual.")
    assert str(made).startswith("dark (synthetic), 10:30-11:30 New York, protection none, risk profile balanced: ")
    assert str(real).startswith("dark, 10:30-11:30 New York, protection reg-nms, risk profile balanced: ")
    page = _study_page(made)
    assert page.title == "Which router to use for LUMO (synthetic)"
    assert "Synthetic days: generated, not recorded" in page.subtitle
    assert _study_page(real).title == "Which router to use for LUMO"
    assert (made.to_json()["synthetic"], real.to_json()["synthetic"]) == (True, False)
    assert "synthetic" not in str(real) + repr(_study_page(real))


def played(days: int = 4, orders: int = 48) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Orders of two routers: one costs $0.10 more where spreads are wide, $0.10 less elsewhere; and their states."""
    rng = np.random.default_rng(5)
    rows, states = [], []
    for day in range(days):
        for number in range(orders):
            spread = float(1 + number % 3)
            common = {"seed": 0, "symbol": "QVEX", "day": f"2019-03-0{4 + day}", "number": number}
            more = {
                "block": number // 4,
                "judged": day > 0,
                "quantity": 100,
                "multiplier": 1.0,
                "currency": "USD",
                "mid": 10.0,
                "foreseen": 0.0,
                "impact": 0.0,
                "fees": 0.0,
                "estimated": 0.0,
                "decision_us": 1.0,
            }
            cost = float(rng.normal())
            gap = (0.1 if spread == 3 else -0.1) + 0.01 * float(rng.normal())
            rows.append({"router": "sweep", **common, **more, "cost": cost, "exploration": float("nan")})
            rows.append({"router": "contextual", **common, **more, "cost": cost + gap, "exploration": 0.02 / (1 + day)})
            key = {name: common[name] for name in ("symbol", "day", "seed", "number")}
            kept = {
                "side": 1 if number % 2 else -1,
                "zone": "America/New_York",
                "hour": 10 + number // 24,
                "imbalance": -0.5,
                "spread": spread,
                "volatility": None,
                "depth": 500.0,
            }
            states.append({**key, **kept})
    return pl.DataFrame(rows), pl.DataFrame(states, schema_overrides={"volatility": pl.Float64})


def test_where_it_loses_is_found_and_nowhere_else() -> None:
    orders, states = played()
    found = _differences_by_state(orders, states, "contextual", "sweep", seed=0)
    assert [(one.measure, one.state) for one in found] == [
        *(("side", "sell"), ("side", "buy"), ("hour", "10:00 to 11:00 New York"), ("hour", "11:00 to 12:00 New York")),
        *(("spread", "low"), ("spread", "middle"), ("spread", "high")),
        ("depth", "low"),
    ]
    assert [(one.measure, one.state) for one in found if one.difference_bps.above_zero] == [("spread", "high")]
    wide = found[6]
    assert (wide.least, wide.most, wide.orders) == (3.0, 3.0, 48)
    assert wide.difference_bps.mean == pytest.approx(1.0, abs=0.1)  # $0.10 of $1,000


def test_symbols_and_losses_are_named() -> None:
    one, states = played()
    two = [frame.with_columns(symbol=pl.lit("ZERO")) for frame in (one, states)]
    found = _differences_by_state(pl.concat([one, two[0]]), pl.concat([states, two[1]]), "contextual", "sweep", seed=0)
    assert [(some.state, some.orders) for some in found if some.measure == "symbol"] == [("QVEX", 144), ("ZERO", 144)]
    lost = tuple(
        dataclasses.replace(some, difference_bps=CaseEstimate(0.5 - k / 10, 0.1, 0.9)) for k, some in enumerate(found)
    )
    compared, saved = CASES["beats"], CaseEstimate(0.4, 0.2, 0.6)
    case = StudyCase(
        *(100, 0.0, 0, 1, 10.0, 0.03, None, {}, "contextual", "contextual", "beats"),
        *(
            CaseSaving("contextual", "sweep", saved, saved, saved, None),
            lost,
            lost[:6],
            None,
            None,
            1.0,
            None,
            (),
            compared,
        ),
    )
    text = case_verdict(case, StudyConfig(side="buy"))
    assert "It lost in QVEX (by 0.50 bps), in ZERO (by 0.40 bps) and on sell orders (by 0.30 bps)." in text
    assert text.startswith(
        "For buy orders of 100 shares for immediate execution, use contextual. On the second half of 1 day"
    )
    hours = case_verdict(dataclasses.replace(case, losses=(lost[4], lost[7])), StudyConfig(side="sell"))
    assert (
        "It lost from 10:00 to 11:00 New York (by 0.10 bps) and in the middle tercile of spread (by -0.20 bps)."
        in hours
    )


def test_a_fixed_split_may_be_cheaper_and_learning_free() -> None:
    found, zero = CASES["too few orders"], CaseEstimate(0.0, 0.0, 0.0)
    split = CaseEstimate(-0.25, -0.5, 0.001)
    saving = CaseSaving("contextual", "sweep", CaseEstimate(0.2, None, None), zero, zero, None)
    case = StudyCase(
        *(100, 0.0, 1, 1, 10.0, 0.03, None, {}, "contextual", "sweep", "too few orders", saving, (), ()),
        *(CaseLearningCost(zero, zero), split, 1.0, None, (), found),
    )
    text = case_verdict(case, StudyConfig())
    assert "saved 0.20 bps per order against sweep (too few time blocks for a CI); too few orders to tell" in text
    assert "Exploration by contextual cost nothing." in text
    assert "A static split cost 0.25 bps less than the sweep (95 % CI 0.00 to 0.50)." in text
    same = CaseEstimate(-0.001, -0.5, 0.25)
    nearly = dataclasses.replace(saving, bps=CaseEstimate(-0.004, -0.2, 0.1))
    text = case_verdict(dataclasses.replace(case, not_looking=same, saving=nearly), StudyConfig())
    assert "A static split cost the same as the sweep (95 % CI -0.50 to 0.25)." in text
    assert "contextual, the best on the training days, cost the same as sweep (95 % CI -0.10 to 0.20)" in text
    assert "-0.00" not in text
    rule = dataclasses.replace(case, chosen="sweep", saving=None, learning=None, not_looking=None)
    assert "no router was better on the training days" in case_verdict(rule, StudyConfig())


def test_savings_have_amounts_and_days() -> None:
    """Amounts are from the same resamples as basis points: with orders of $1,000 the interval is the same one."""
    orders, _ = played()
    fills = orders.select("router", "symbol", "day", "seed", "number", "quantity", kind=pl.lit("take"), estimated=False)
    found = compare_routers(DayTables(orders, pl.DataFrame(), fills), "sweep", {}, risk=CHEAPEST, joint=False)
    paired = found.routers["contextual"].paired
    assert paired is not None
    saved = _headline_saving(found, "contextual", paired, orders)
    assert saved.amount_per_order is not None
    assert saved.amount_per_day is not None
    assert saved.amount_per_1000_orders is not None
    ends = [(one.mean, one.low, one.high) for one in (saved.bps, saved.amount_per_order, saved.amount_per_1000_orders)]
    assert ends[0] == pytest.approx([10 * end for end in ends[1] if end is not None])
    assert ends[2] == pytest.approx([1000 * end for end in ends[1] if end is not None])
    assert saved.amount_per_day.mean == pytest.approx(48 * saved.amount_per_order.mean)
    assert (saved.bps.low, saved.p_value) == (-(paired.high or 0.0), paired.p_value)
    assert saved.bps.above_zero
    gaps = orders.pivot("router", index=["day", "number", "judged"], values="cost").filter("judged")
    assert saved.amount_per_order.mean == pytest.approx((gaps["sweep"] - gaps["contextual"]).mean())
    for name, other, sign in (("contextual", "sweep", 1), ("sweep", "contextual", -1)):
        assert _saving_of(orders, name, other, seed=0).mean == pytest.approx(sign * saved.bps.mean)
    several = orders.with_columns(currency=pl.when(pl.col("number") % 2 == 0).then(pl.lit("EUR")).otherwise("currency"))
    mixed = compare_routers(DayTables(several, pl.DataFrame(), fills), "sweep", {}, risk=CHEAPEST, joint=False)
    assert _headline_saving(mixed, "contextual", paired, several).amount_per_order is None


def test_learning_costs_most_on_the_first_day() -> None:
    orders, _ = played()
    cost = _learning_cost(orders, "contextual", seed=0)
    assert cost is not None
    assert cost.first_day_bps.mean == pytest.approx(0.2)
    assert cost.later_bps is not None
    assert cost.later_bps.mean == pytest.approx(0.2 * (1 / 2 + 1 / 3 + 1 / 4) / 3)
    assert _learning_cost(orders, "sweep", seed=0) is None
    single = _learning_cost(orders.filter(pl.col("day") == "2019-03-04"), "contextual", seed=0)
    assert single == CaseLearningCost(cost.first_day_bps, None)


def test_a_worse_tail_and_a_fit_to_the_training_days_are_said() -> None:
    """The expected shortfall stands beside the saving, whichever way it goes."""
    found, saved = CASES["beats"], CaseEstimate(0.4, 0.2, 0.6)
    heavy = dataclasses.replace(found.routers["contextual"], es95_bps=9.0)
    fitted = {"sweep": found.routers["sweep"], "static+sweep": heavy, "clairvoyant": found.routers["clairvoyant"]}
    saving = CaseSaving("contextual", "sweep", saved, saved, saved, None)
    case = StudyCase(
        *(100, 0.0, 1, 1, 10.0, 0.03, None, {}, "contextual", "contextual", "beats", saving, (), ()),
        *(None, None, 1.0, None, (), found, "LUMO"),
    )
    text = case_verdict(case, StudyConfig())
    assert text.startswith("For orders of 100 shares of LUMO for immediate execution, use contextual.")
    tails = "contextual's worst 5 % of orders averaged 5.60 bps, sweep's 6.00 bps"
    assert f"The tail is no worse: {tails} (95 % CI -0.60 to -0.20 for the difference)." in text
    assert "fitted" not in text
    worse = dataclasses.replace(
        case, chosen="static+sweep", use="static+sweep", comparison=dataclasses.replace(found, routers=fitted)
    )
    text = case_verdict(worse, StudyConfig())
    assert "The tail is worse: static+sweep's worst 5 % of orders averaged 9.00 bps" in text
    assert "static+sweep was scored on training orders that it was not fitted to." in text
    pooled = case_verdict(dataclasses.replace(case, symbol=""), StudyConfig(), pooled=True)
    assert pooled.startswith("All symbols pooled: for orders of 100 shares for immediate execution, use contextual.")
    assert "tail" not in pooled


def test_the_surface_says_where_the_saving_is_not_clear() -> None:
    clear, unclear = CaseEstimate(0.4, 0.2, 0.6), CaseEstimate(0.1, -0.1, 0.3)
    found, saving = CASES["beats"], CaseSaving("contextual", "sweep", clear, clear, clear, None)

    def said(*estimates: CaseEstimate) -> str:
        points = tuple(_SurfacePoint(presence, 1.0, one) for presence, one in zip((0.5, 2.0), estimates, strict=True))
        surface = CaseDarkSurface("contextual", "sweep", 72, points)
        case = StudyCase(
            *(100, 0.0, 1, 1, 10.0, 0.03, None, {}, "contextual", "contextual", "beats", saving, (), ()),
            *(None, None, 1.0, surface, (), found),
        )
        return case_verdict(case, StudyConfig()).rpartition("(")[2]

    assert said(clear, clear) == "72 orders each, significant everywhere)."
    assert said(clear, unclear) == "72 orders each, not always significant with 2 times the liquidity)."
    assert said(unclear, unclear) == "72 orders each, significant nowhere)."


def test_the_key_figures_name_the_price_and_the_saving_that_decides() -> None:
    """A profile with a charge for risk judges by another saving than that of the cost."""
    found, saved = CASES["riskier"], CaseEstimate(0.4, 0.2, 0.6)
    saving = CaseSaving("contextual", "sweep", saved, None, None, None, None, 0.01)
    case = StudyCase(
        *(100, 0.0, 1, 1, 10.0, 0.03, None, {}, "contextual", "sweep", "riskier", saving, (), ()),
        *(None, None, 1.0, None, (), dataclasses.replace(found, benchmark="vwap")),
    )
    facts = dict(_verdict_facts(case, BALANCED))
    assert facts["95 % CI"] == "+0.200 to +0.600 bps"
    charged = facts["saving with the charge for risk"]
    assert charged == "-0.100 bps (95 % CI -0.180 to -0.020; p-value 0.010)"
    assert facts["price benchmark"] == "VWAP from arrival to the horizon"
    assert (facts["cost, contextual"], facts["cost, sweep"]) == ("1.60 bps", "2.00 bps")
    plain = dataclasses.replace(case, comparison=CASES["beats"])
    assert "saving with the charge for risk" not in dict(_verdict_facts(plain, BALANCED))
    assert "Against the VWAP from arrival to the horizon, contextual cost 1.60 bps" in case_verdict(case, StudyConfig())


def test_a_backtest_names_the_saving_that_decides() -> None:
    """Its cost is not significantly lower, its objective is."""
    found = comparison((-0.1, -0.3, 0.1), 1.5, charged=(-0.7, -0.9, -0.5))
    assert backtest_verdict(dataclasses.replace(found, sample=Sample("day", 8, 8.0))).startswith(
        "Use contextual: saves 0.10 bps per order against sweep (95 % CI -0.10 to 0.30; p = 0.010, best of 1); with "
        "the charge for risk it saved 0.70 bps (95 % CI 0.50 to 0.90; p = 0.010)."
    )
