"""The example of Cont and Kukanov remade: all it says holds, with any luck."""

from __future__ import annotations

import pytest
from scipy.stats import norm

from riskroute.core.errors import InputError
from riskroute.paper.literature.cont_kukanov_example import PRICES, mean_cost, remake_cont_kukanov


@pytest.mark.parametrize("seed", [0, 1])
def test_all_statements_hold(seed: int) -> None:
    found = remake_cont_kukanov(quick=True, seed=seed)
    assert [one.name for one in found.statements if not one.holds] == []
    assert len(found.statements) == 8
    assert found.placement == (728, 272)
    assert found.costs == pytest.approx({"placed": 14.278, "all taken": 23.0, "all posted": 16.4}, abs=5e-4)
    assert found.by_under == {0.024: 295, 0.026: 272, 0.03: 252, 0.05: 215, 0.1: 184}
    assert found.by_queue == {1950: 322, 2000: 272, 2050: 222, 2100: 172}
    assert found.two == pytest.approx((499, 297, 297), abs=25)
    assert all(one.measured for one in found.statements)


def test_limits_are_the_quantiles_of_a_normal_distribution_nearly() -> None:
    """Another way to the same numbers: the Poisson distribution is close to a normal one, within a share here."""
    for under, limit in remake_cont_kukanov(quick=True).by_under.items():
        fraction = 0.045 / (under + 0.022)
        assert limit == pytest.approx(norm(2200, 2200**0.5).ppf(fraction) - 2000, abs=1)


def test_the_mean_is_that_of_the_closed_form() -> None:
    assert mean_cost(727, 273, PRICES) > mean_cost(728, 272, PRICES) < mean_cost(729, 271, PRICES)
    with pytest.raises(InputError, match="quick must be True or False, was 3"):
        remake_cont_kukanov(quick=3)  # type: ignore[arg-type]
