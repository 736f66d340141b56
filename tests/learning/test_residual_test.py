"""The test for change: how often it is wrong, and how soon it is right."""

from __future__ import annotations

import json

import numpy as np
import pytest

from riskroute.core.errors import InputError, StateError
from riskroute.learning.heteroscedastic import ResidualTest


def alarms(errors: np.ndarray, kurtosis: float = 3.0, **parameters: float) -> list[int]:
    test = ResidualTest(**parameters)  # type: ignore[arg-type]
    return [place for place, error in enumerate(errors) if test.add(np.array([error]), kurtosis)]


def test_false_alarms_are_as_rare_as_the_level_says() -> None:
    """Windows that do not overlap: 2,000 tests at one in a hundred, of which 20 are expected, give or take 4.5."""
    rng = np.random.default_rng(1)
    test, found = ResidualTest(length=20, level=0.01, least=20), 0
    for _ in range(2000):
        found += test.add(rng.standard_normal(20))
        test.window = test.window[:0]
    assert 7 <= found <= 34
    assert alarms(rng.standard_normal(3000)) == []


def test_heavy_tails_that_are_known_raise_no_alarm() -> None:
    rng = np.random.default_rng(2)
    errors = np.where(rng.random(3000) < 0.05, 4.0, 1.0) * rng.standard_normal(3000) / np.sqrt(1.75)
    assert alarms(errors)  # if they are taken to be Gaussian
    assert alarms(errors, kurtosis=13.5) == []  # 3 (0.95 + 0.05 * 4^4) / 1.75^2


@pytest.mark.parametrize(("shift", "factor"), [(1.2, 1.0), (0.0, 2.0), (-1.2, 1.0)])
def test_a_change_is_found_within_a_window(shift: float, factor: float) -> None:
    rng = np.random.default_rng(3)
    errors = np.concatenate([rng.standard_normal(500), shift + factor * rng.standard_normal(60)])
    first = alarms(errors, length=50)[0]
    assert 500 < first < 550


def test_a_state_goes_on_to_the_same_alarm() -> None:
    errors = 1.5 + np.random.default_rng(4).standard_normal(40)
    test = ResidualTest(length=30, level=1e-4)
    test.add(errors[:9])
    again = ResidualTest.restore(json.loads(json.dumps(test.state())))
    found = [(test.add(errors[i : i + 1]), again.add(errors[i : i + 1])) for i in range(9, 40)]
    assert all(one == other for one, other in found)
    assert (True, True) in found
    with pytest.raises(StateError, match="level must be a number above 0 and below 1, was 2"):
        ResidualTest.restore(test.state() | {"level": 2})
    with pytest.raises(StateError):
        ResidualTest.restore({})


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(InputError, match="least must be at most 5, was 10"):
        ResidualTest(length=5)
    with pytest.raises(InputError, match="errors must be finite, was nan"):
        ResidualTest().add(np.array([np.nan]))
