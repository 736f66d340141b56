"""Hazard regression: against a general optimiser, plain counts, and trials drawn with known coefficients."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from riskroute.core.arrays import Integers, Matrix, Vector
from riskroute.core.errors import InputError, StateError
from riskroute.learning.hazard_regression import HazardRegression
from riskroute.learning.hazards import Hazards

EDGES = [1, 2, 4, 8]
LEVELS, SLOPES = np.array([-0.5, -1.5, -2.0, -1.0]), np.array([0.8, -0.4])
Trials = tuple[Integers, Integers, Matrix]
TRUE = np.concatenate([LEVELS, SLOPES])


def bin_of(unit: int) -> int:
    return min(int(np.searchsorted(EDGES, unit)), len(EDGES) - 1)


def hidden(rng: np.random.Generator, x: Matrix) -> Integers:
    """Hidden sizes given covariates, unit by unit, up to 40."""
    sizes, alive = np.zeros(len(x), dtype=np.int64), np.ones(len(x), dtype=bool)
    for unit in range(1, 41):
        alive &= rng.random(len(x)) >= expit(LEVELS[bin_of(unit)] + x @ SLOPES)
        sizes += alive
    return sizes


def learned(tried: Integers, sizes: Integers, x: Matrix, **parameters: Any) -> HazardRegression:
    model = HazardRegression(EDGES, x.shape[1], **parameters)
    for d, v, row in zip(tried.tolist(), sizes.tolist(), x, strict=True):
        model.add(d, min(d, v), row)
    model.refresh()
    return model


def first(trials: Trials, count: int) -> Trials:
    return trials[0][:count], trials[1][:count], trials[2][:count]


@pytest.fixture(scope="module")
def trials() -> Trials:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((2000, 2))
    return rng.integers(1, 9, 2000), hidden(rng, x), x


def test_it_recovers_the_coefficients_of_drawn_trials(trials: Trials) -> None:
    """Within three standard errors in each of six; the wide prior moves nothing."""
    model = learned(*trials, level_sd=10.0, step_sd=10.0, slope_sd=10.0)
    assert (np.abs(model.coef - TRUE) < 3 * np.sqrt(np.diag(model.covariance))).all()


def test_the_mode_is_that_of_a_general_optimiser(trials: Trials) -> None:
    """The loss written down unit by unit, minimised without derivatives of ours."""
    tried, sizes, x = first(trials, 60)
    model = learned(tried, sizes, x)
    center = np.log(0.2 / 0.8)

    def loss(coef: Vector) -> float:
        total = 0.0
        for d, v, row in zip(tried.tolist(), sizes.tolist(), x, strict=True):
            for unit in range(1, d + 1):
                h = expit(coef[bin_of(unit)] + row @ coef[4:])
                total -= np.log(1 - h) if unit <= v else np.log(h)
                if unit > v:
                    break
        steps = np.diff(coef[:4] - center)
        return float(total + (coef[0] - center) ** 2 / 8 + steps @ steps / 2 + coef[4:] @ coef[4:] / 2)

    found = minimize(loss, np.zeros(6), method="BFGS")
    assert model.coef.tolist() == pytest.approx(found.x.tolist(), abs=1e-4)


def test_without_covariates_it_counts_as_kaplan_and_meier_do(trials: Trials) -> None:
    tried, sizes, x = trials
    model = learned(tried, sizes, x[:, :0], level_sd=1e4, step_sd=1e4)
    counts = Hazards(EDGES)
    for d, v in zip(tried.tolist(), sizes.tolist(), strict=True):
        counts.add(d, min(d, v))
    assert expit(model.coef).tolist() == pytest.approx((counts.events / counts.at_risk).tolist(), abs=1e-6)


def test_sizes_chosen_from_covariates_bias_plain_counts_and_not_the_regression() -> None:
    """Many units are tried for where they are likely: plain counts take deep units to be likelier than they are.

    The chance of at least eight units, on average over covariates, is known by drawing them. Counts miss it by more
    than six standard errors of themselves, the regression by less than three.
    """
    rng = np.random.default_rng(2)
    x = rng.standard_normal((4000, 2))
    sizes = hidden(rng, x)
    tried = np.where(x @ SLOPES < 0, 8, 2)
    model = learned(tried, sizes, x, capacity=4000)
    counts = Hazards(EDGES)
    for d, v in zip(tried.tolist(), sizes.tolist(), strict=True):
        counts.add(d, min(d, v))
    others = rng.standard_normal((4000, 2))
    per_bin = np.array([1, 1, 2, 4])

    def reach(coef: Vector) -> float:
        chances: Matrix = 1 - expit(coef[:4] + (others @ coef[4:])[:, None])
        return float(np.mean(np.prod(chances**per_bin, axis=1)))

    truth = reach(TRUE)
    drawn = [reach(coef) for coef in rng.multivariate_normal(model.coef, model.covariance, 50)]
    assert abs(reach(model.coef) - truth) < 3 * float(np.std(drawn))
    plain = [counts.tails(8, counts.draw(rng))[-1] for _ in range(200)]
    assert counts.tails(8)[-1] - truth > 6 * float(np.std(plain))


def test_discounting_counts_trials_by_their_weight(trials: Trials) -> None:
    tried, sizes, x = first(trials, 80)
    faded = learned(tried, sizes, x)
    faded.discount(0.3)
    faded.refresh()
    weighted = HazardRegression(EDGES, 2)
    for d, v, row in zip(tried.tolist(), sizes.tolist(), x, strict=True):
        weighted.add(d, min(d, v), row, 0.3)
    weighted.refresh()
    assert faded.coef.tolist() == pytest.approx(weighted.coef.tolist(), abs=1e-7)
    faded.discount(0.0)
    faded.refresh()
    assert faded.coef.tolist() == pytest.approx(HazardRegression(EDGES, 2).coef.tolist(), abs=1e-7)
    assert len(faded) == 0


def test_the_last_trials_are_kept(trials: Trials) -> None:
    tried, sizes, x = first(trials, 90)
    short = learned(tried, sizes, x, capacity=20)
    assert len(short) == 20
    assert short.coef.tolist() == pytest.approx(learned(tried[-20:], sizes[-20:], x[-20:]).coef.tolist(), abs=1e-7)


def test_before_any_trial_it_has_the_prior_hazards() -> None:
    model = HazardRegression([1, 2], 1, prior_hazards=[0.5, 0.1])
    assert expit(model.coef[:2]).tolist() == pytest.approx([0.5, 0.1])
    model.refresh()
    assert expit(model.coef[:2]).tolist() == pytest.approx([0.5, 0.1])


def test_a_state_goes_on_to_the_same_decisions(trials: Trials) -> None:
    model = learned(*first(trials, 50), prior_hazards=[0.4, 0.2, 0.2, 0.1])
    model.add(3, 2, [0.1, 0.2])
    again = HazardRegression.restore(json.loads(json.dumps(model.state())))
    assert again.state() == model.state()
    assert again.coef.tolist() == model.coef.tolist()
    again.refresh()
    model.refresh()
    assert again.coef.tolist() == model.coef.tolist()


def test_a_damaged_state_is_refused() -> None:
    model = HazardRegression(EDGES, 1)
    model.add(3, 2, [0.5])
    state = model.state()
    for name, value in (
        ("coef", None),
        ("tried", {"array": [1], "dtype": "int64", "shape": [1]}),
        ("covariance", {"array": [[0.0] * 5] * 5, "dtype": "float64", "shape": [5, 5]}),
        ("slope_sd", -1.0),
        ("other", 1),
    ):
        with pytest.raises(StateError, match="state of a hazard regression must be one that state"):
            HazardRegression.restore(state | {name: value})
    with pytest.raises(StateError):
        HazardRegression.restore({"parameters": {}})


def test_what_cannot_be_is_refused() -> None:
    model = HazardRegression(EDGES, 2)
    with pytest.raises(InputError, match="x must have 2 entries, had 1"):
        model.add(3, 2, [1.0])
    with pytest.raises(InputError, match="reached must be at most 1, was 2"):
        model.add(1, 2, [1.0, 1.0])
    with pytest.raises(InputError, match="prior_hazards must be between 0 and 1"):
        HazardRegression(EDGES, 1, prior_hazards=[0.1, 0.1, 0.1, 1.0])
