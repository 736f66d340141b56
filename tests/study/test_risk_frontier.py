"""The risk frontier: points of all routers, the efficient ones, the line of the contextual router, and its chart."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import polars as pl
import pytest

from riskroute.routers.risk import BALANCED, CAUTIOUS, CHEAPEST, PROFILES, RiskProfile
from riskroute.study.candidates import named_candidate
from riskroute.study.frontier import (
    CaseFrontier,
    ProfileChoice,
    frontier_points,
    frontier_profiles,
    frontier_table,
    line_candidate,
    line_profiles,
)
from riskroute.study.result import StudyResult, leading_table, profiles_table
from riskroute.study.svg import _WIDTH, ChartPoint, _spread, _text_width, frontier_chart
from riskroute.study.verdict import case_verdict

TEXT = re.compile(r'<text x="([\d.]+)" y="([\d.-]+)" font-size="([\d.]+)" text-anchor="(\w+)"[^>]*>([^<]*)</text>')


def orders(costs: dict[str, list[float]], *, judged: bool = True) -> pl.DataFrame:
    """Orders of $10,000 with costs in basis points."""
    rows = [
        {"router": name, "number": k, "cost": cost, "judged": judged}
        for name, some in costs.items()
        for k, cost in enumerate(some)
    ]
    more = {"quantity": 1000, "mid": 10.0, "multiplier": 1.0, "foreseen": 0.0, "impact": 0.0}
    return pl.DataFrame(rows).with_columns(**{name: pl.lit(value) for name, value in more.items()})


def test_points_are_moments_of_the_judged_orders() -> None:
    rng = np.random.default_rng(1)
    cheap, safe, worse, known = (rng.normal(mean, sd, 40) for mean, sd in ((0.0, 3), (1.0, 0.5), (2.0, 3), (-5, 1)))
    played = orders({"cheap": [*cheap], "safe": [*safe], "worse": [*worse], "clairvoyant": [*known]})
    training = orders({"cheap": [99.0] * 9}, judged=False)
    found = {one.router: one for one in frontier_points(pl.concat([played, training]), {}, "")}
    assert set(found) == {"cheap", "safe", "worse"}
    for name, costs in (("cheap", cheap), ("safe", safe), ("worse", worse)):
        one = found[name]
        assert one.cost_bps == pytest.approx(costs.mean())
        assert one.sd_bps == pytest.approx(costs.std(ddof=1))
        assert one.es95_bps == pytest.approx(np.sort(costs)[-2:].mean())
        assert one.risk == ""
    assert [found[name].efficient for name in ("cheap", "safe", "worse")] == [True, True, False]


def test_the_line_joins_one_router_under_several_profiles() -> None:
    own = orders({"contextual": [1.0, 3.0], "sweep": [5.0, 5.0]})
    line = {BALANCED: orders({"contextual": [1.0, 3.0]}), CAUTIOUS: orders({"contextual": [2.5, 2.5]})}
    frontier = CaseFrontier(frontier_points(own, line, "contextual"), ())
    assert [one.name for one in frontier.points] == ["contextual, balanced", "contextual, cautious", "sweep"]
    assert [one.risk for one in frontier.line] == ["cautious", "balanced"]  # smallest tail first
    table = frontier_table(frontier)
    assert [row[:2] for row in table.rows] == [["contextual", "balanced"], ["contextual", "cautious"], ["sweep", "-"]]
    assert [row[-1] for row in table.rows] == ["yes", "yes", ""]


def test_profiles_are_not_played_twice() -> None:
    own = RiskProfile("kappa 0.2", 0.2)
    assert frontier_profiles(CAUTIOUS) == (BALANCED, CHEAPEST)
    assert frontier_profiles(own) == tuple(PROFILES.values())
    assert [one.kappa for one in line_profiles(BALANCED)] == [0.2, 1.0]
    assert [one.kappa for one in line_profiles(own)] == [1.0]
    fixed, follows = named_candidate("contextual:risk=cautious"), named_candidate("contextual:units=20")
    assert line_candidate([named_candidate("sweep"), fixed]) is None
    assert line_candidate([fixed, follows]) is follows


def test_the_study_answers_for_every_profile(study_result: StudyResult) -> None:
    (case,) = study_result.cases
    assert case.frontier is not None
    assert [one.risk for one in case.frontier.choices] == ["cautious", "balanced"]
    assert {one.risk for one in case.frontier.line} == {"cautious", "balanced", "cheapest", "kappa 0.2", "kappa 1"}
    names = {one.router for one in case.frontier.points}
    assert names == set(case.comparison.routers) - {"clairvoyant"}
    own = next(one for one in case.frontier.line if one.risk == study_result.config.risk.name)
    assert own.cost_bps == pytest.approx(case.comparison.routers["contextual"].cost_bps)
    assert own.es95_bps == pytest.approx(case.comparison.routers["contextual"].es95_bps)
    table = profiles_table(case, study_result.config.risk)
    assert [row[0] for row in table.rows] == ["cheapest", "cautious", "balanced"]
    assert [row[1] for row in table.rows] == ["not enough data"] * 3  # on two days
    assert "The risk profile is cheapest (mean cost)." in study_result.answer
    sure = dataclasses.replace(
        case,
        reason="beats",
        verdict=True,
        frontier=dataclasses.replace(
            case.frontier, choices=(ProfileChoice("cautious", "a", "b", "tail"), case.frontier.choices[1])
        ),
    )
    assert profiles_table(sure, study_result.config.risk).rows[1][:2] == ["cautious", "b"]
    said = case_verdict(sure, study_result.config)
    assert "The risk profile is cheapest (mean cost); with cautious b and with balanced no verdict." in said
    leading = leading_table(case)
    assert {case.use, case.chosen, case.comparison.bar} <= {row[0] for row in leading.rows}
    assert [float(row[-1]) for row in leading.rows] == sorted(float(row[-1]) for row in leading.rows)


@pytest.mark.parametrize("seed", range(5))
def test_labels_of_the_chart_never_overlap(seed: int) -> None:
    """Clusters of points, equal ones among them, with the longest names of routers."""
    rng = np.random.default_rng(seed)
    where = np.round(rng.choice([1.0, 1.01, 3.0], (15, 2)) + rng.choice([0, 0, 0.3]) * rng.normal(size=(15, 2)), 2)
    points = [
        ChartPoint(f"dark-first+post+sweep {k}" if k % 2 else f"r{k}", float(x), float(y), joined=k < 3)
        for k, (x, y) in enumerate(where)
    ]
    boxes = []
    for x, y, size, anchor, text in TEXT.findall(frontier_chart("t", "across", "up", points)):
        width = _text_width(text) * float(size) / 12 * 0.85  # the estimate is rather too large
        left = float(x) - {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor] * width
        boxes.append((left, float(y) - 0.75 * float(size), left + width, float(y)))
        assert left > -1
        assert left + width < _WIDTH + 1
    assert len(boxes) > 15 + 4
    for k, one in enumerate(boxes):
        for other in boxes[:k]:
            apart = one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
            assert apart, (one, other)


def test_labels_stay_near_their_points() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        wanted = np.sort(rng.uniform(0, 300, rng.integers(1, 20))).tolist()
        found = _spread(wanted, 15.0, 0.0, 300.0)
        assert np.diff([0.0, *found, 300.0]).min() >= 0
        assert len(found) == 1 or np.diff(found).min() >= 15 - 1e-9
    assert _spread([10.0, 40.0, 100.0], 15.0, 0.0, 300.0) == [10.0, 40.0, 100.0]
