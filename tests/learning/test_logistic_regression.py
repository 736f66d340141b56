"""Logistic regression: against a general optimiser, and observations drawn with known coefficients."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit

from riskroute.core.arrays import Flags, Matrix, Vector
from riskroute.core.errors import InputError, StateError
from riskroute.learning.logistic_regression import LogisticRegression

TRUE = np.array([-0.5, 0.8, -0.4])
Drawn = tuple[Matrix, Flags]


@pytest.fixture(scope="module")
def drawn() -> Drawn:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((2000, 2))
    return x, rng.random(2000) < expit(TRUE[0] + x @ TRUE[1:])


def learned(x: Matrix, events: Flags, capacity: int = 2000) -> LogisticRegression:
    model = LogisticRegression(2, 0.2, capacity)
    for row, event in zip(x, events.tolist(), strict=True):
        model.add(event, row)
    model.refresh()
    return model


def loss(coef: Vector, x: Matrix, events: Flags, weights: Vector) -> float:
    """Negative log-posterior, observation by observation."""
    total = (coef[0] - logit(0.2)) ** 2 / 8 + coef[1:] @ coef[1:] / 2
    for row, event, weight in zip(x, events, weights, strict=True):
        chance = expit(coef[0] + row @ coef[1:])
        total -= weight * np.log(chance if event else 1 - chance)
    return float(total)


def test_it_recovers_the_coefficients_of_drawn_observations(drawn: Drawn) -> None:
    """A coefficient of 2,000 observations has a standard error of about 0.05."""
    assert learned(*drawn).coef.tolist() == pytest.approx(TRUE.tolist(), abs=0.15)


@pytest.mark.parametrize("factor", [1.0, 0.3])
def test_the_mode_is_that_of_a_general_optimiser(drawn: Drawn, factor: float) -> None:
    x, events = drawn[0][:60], drawn[1][:60]
    model = learned(x, events)
    model.discount(factor)
    model.refresh()
    found = minimize(loss, np.zeros(3), (x, events, np.full(60, factor)), method="BFGS")
    assert model.coef.tolist() == pytest.approx(found.x.tolist(), abs=1e-4)


def test_before_any_observation_and_without_weight_it_has_the_prior(drawn: Drawn) -> None:
    model = learned(drawn[0][:80], drawn[1][:80])
    model.discount(0.0)
    for one in (model, LogisticRegression(2, 0.2)):
        one.refresh()
        assert expit(one.coef).tolist() == pytest.approx([0.2, 0.5, 0.5])
        assert len(one) == 0


def test_the_last_observations_are_kept(drawn: Drawn) -> None:
    x, events = drawn
    short = learned(x[:90], events[:90], capacity=20)
    assert len(short) == 20
    assert short.coef.tolist() == pytest.approx(learned(x[70:90], events[70:90]).coef.tolist(), abs=1e-7)


def test_a_state_goes_on_to_the_same_decisions(drawn: Drawn) -> None:
    model = learned(drawn[0][:50], drawn[1][:50])
    model.add(True, np.array([0.1, 0.2]))
    again = LogisticRegression.restore(json.loads(json.dumps(model.state())))
    assert again.state() == model.state()
    assert again.coef.tolist() == model.coef.tolist()
    again.refresh()
    model.refresh()
    assert again.coef.tolist() == model.coef.tolist()


def test_a_damaged_state_is_refused() -> None:
    model = LogisticRegression(1, 0.3)
    model.add(False, np.array([0.5]))
    state = model.state()
    for name, value in (
        ("coef", None),
        ("coef", {"array": [np.nan, 0.0], "dtype": "float64", "shape": [2]}),
        ("events", {"array": [0.0, 1.0], "dtype": "float64", "shape": [2]}),
        ("events", {"array": [0.5], "dtype": "float64", "shape": [1]}),
        ("weights", {"array": [-1.0], "dtype": "float64", "shape": [1]}),
        ("prior", 1.0),
        ("other", 1),
    ):
        with pytest.raises(StateError, match="state of a logistic regression must"):
            LogisticRegression.restore(state | {name: value})
    with pytest.raises(StateError):
        LogisticRegression.restore({"parameters": {}})


def test_invalid_arguments_are_refused() -> None:
    with pytest.raises(InputError, match="x must have 2 entries, had 1"):
        LogisticRegression(2, 0.3).add(True, np.array([1.0]))
    with pytest.raises(InputError, match="prior must be a number above 0 and below 1, was 1"):
        LogisticRegression(2, 1.0)
