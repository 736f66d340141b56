"""Risk profiles: named ones, numbers, and the router that each chooses."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from riskroute.core.errors import DataError, InputError
from riskroute.core.records import to_plain
from riskroute.routers.contextual.router import Contextual
from riskroute.routers.risk import BALANCED, CAUTIOUS, CHEAPEST, PROFILES, RiskProfile, risk_profile
from riskroute.study.config import BacktestConfig, StudyConfig, changed_config


@pytest.mark.parametrize(
    ("value", "profile"),
    [
        *PROFILES.items(),
        ("Cautious", CAUTIOUS),
        (CAUTIOUS, CAUTIOUS),
        (0, CHEAPEST),
        ("0.05", BALANCED),
        (np.float64(0.05), BALANCED),
        (0.2, RiskProfile("kappa 0.2", 0.2)),
        (to_plain(CAUTIOUS), CAUTIOUS),
    ],
)
def test_a_profile_is_given_by_name_by_kappa_or_as_an_object(value: Any, profile: RiskProfile) -> None:
    assert risk_profile("risk", value) == profile
    assert risk_profile("risk", profile.short) == profile
    for kind in (Contextual, BacktestConfig, StudyConfig):
        assert kind(risk=value).risk == profile


@pytest.mark.parametrize("value", [None, True, "cautios", "", "nan", -0.1, 1001, float("inf"), [0.1], {"kappa": 0.1}])
def test_other_values_are_refused(value: Any) -> None:
    with pytest.raises((InputError, DataError), match=r"risk must be cautious, balanced, cheapest or a kappa|missing"):
        risk_profile("risk", value)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"name": "", "kappa": 0.1}, "name of a risk profile must be a name"),
        ({"name": "x", "kappa": -1}, "kappa must be a number of at least 0 and of at most 1000, was -1"),
        ({"name": "x", "kappa": 0.1, "capped": 1}, "capped must be True or False, was 1"),
    ],
)
def test_a_profile_checks_its_fields(words: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        RiskProfile(**words)


def test_a_changed_profile_is_printed_as_it_is_given() -> None:
    assert changed_config(StudyConfig(risk=CAUTIOUS)) == "risk='cautious'"
    assert changed_config(StudyConfig(risk=risk_profile("risk", 0.2))) == "risk=0.2"
    assert "RiskProfile(name='own'" in changed_config(StudyConfig(risk=RiskProfile("own", 0.2, capped=True)))


def test_the_best_router_is_that_of_a_search() -> None:
    """All small tables: the lowest objective among the admissible routers, the rule in a tie."""
    names = ("rule", "a", "b")
    for values in itertools.product((1.0, 2.0, 3.0), (-0.5, 0.5), repeat=3):
        objectives, excess = (dict(zip(names, values[k::2], strict=True)) for k in (0, 1))
        for profile in PROFILES.values():
            some = [name for name in names if name == "rule" or excess[name] <= 0 or not profile.capped]
            least = min(objectives[name] for name in some)
            expected = next(name for name in some if objectives[name] == least)  # the rule comes first
            assert profile.best(objectives, excess, "rule") == expected
    assert CHEAPEST.best({"rule": 1.0, "a": 1.0 - 1e-12}, {}, "rule") == "rule"  # a rounding error is a tie
