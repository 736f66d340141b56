"""Tail probabilities for compiled code against those of SciPy, which define them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numba import njit
from scipy.special import chdtrc, fdtr, fdtrc, ndtri, stdtr

from riskroute.learning.tail_probabilities import chi_squared_above, fisher_tails, normal_score


@pytest.mark.parametrize("first", [1.0, 2.0, 7.0, 250.0, 4000.0])
@pytest.mark.parametrize("second", [20.0, 100.0, 1234.5, 1e5, 1e7])
def test_tails_of_fishers_ratio_are_the_same(first: float, second: float) -> None:
    close = 1 + np.linspace(-6, 6, 13) * min(0.15, 1 / math.sqrt(first))
    for ratio in [*np.exp(np.linspace(-20, 4, 9)), *close]:
        below, above = fisher_tails(first, second, float(ratio))
        assert below == pytest.approx(fdtr(first, second, ratio), rel=1e-8, abs=1e-14)
        assert above == pytest.approx(fdtrc(first, second, ratio), rel=1e-8, abs=1e-14)


def test_the_square_of_students_t_is_fishers_ratio() -> None:
    for error in (0.0, 0.1, 1.0, 4.75, 12.0):
        assert fisher_tails(1.0, 150.0, error**2)[1] / 2 == pytest.approx(stdtr(150.0, -error), rel=1e-9)


def test_tails_far_out_and_of_no_number() -> None:
    assert fisher_tails(3.0, 100.0, 0.0) == (0.0, 1.0)
    assert fisher_tails(3.0, 100.0, -1.0) == (0.0, 1.0)
    assert fisher_tails(250.0, 2e12, 1.1)[1] == pytest.approx(fdtrc(250.0, 2e12, 1.1), rel=1e-3)
    for found in (*fisher_tails(3.0, 100.0, math.nan), normal_score(math.nan), chi_squared_above(2, math.nan)):
        assert math.isnan(found)


def test_normal_scores_are_the_same() -> None:
    for above in np.exp(np.linspace(-690, math.log(0.5), 200)):
        assert normal_score(float(above)) == pytest.approx(-ndtri(above), rel=1e-8, abs=1e-8)
    assert normal_score(0.0) == normal_score(1e-300)


def test_probabilities_of_squared_distances_are_the_same() -> None:
    for freedom in (1, 2, 3, 8, 31, 200):
        for distance in np.linspace(0, 300, 31):
            found = chi_squared_above(freedom, float(distance))
            assert found == pytest.approx(chdtrc(freedom, distance), rel=1e-10)


def test_compiled_they_are_what_they_are_in_python() -> None:
    @njit(error_model="numpy")
    def compiled(first: float, second: float, ratio: float) -> tuple[float, float, float]:
        below, above = fisher_tails(first, second, ratio)
        return below, normal_score(above), chi_squared_above(3, ratio)

    for ratio in (0.7, 1.0, 1.3):
        below, above = fisher_tails(40.0, 600.0, ratio)
        expected = below, normal_score(above), chi_squared_above(3, ratio)
        assert compiled(40.0, 600.0, ratio) == pytest.approx(expected, rel=1e-12)
    assert math.isnan(compiled(40.0, 600.0, math.nan)[1])
