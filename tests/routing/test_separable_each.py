"""The best allocations for many scores at once against one score at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riskroute import Allocations, InputError
from riskroute.learning.actions import ActionSet
from riskroute.routing import routing_actions
from riskroute.routing.separable import minimise_separable, minimise_separable_each


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_each_row_is_what_one_call_finds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    slots, units = int(rng.integers(1, 20)), int(rng.integers(0, 60))
    lows = rng.multinomial(units // 3, np.full(slots, 1 / slots)).astype(np.int64)
    highs = np.minimum(lows + rng.integers(0, units + 1, slots), units) if rng.random() < 0.5 else np.full(slots, units)
    highs = np.maximum(highs, lows)
    if highs.sum() < units:
        highs[0] = units
    whole = rng.random() < 0.3  # ties
    alphas, betas = rng.standard_normal((2, 9, slots)) * (2 if whole else 1)
    if whole:
        alphas, betas = np.round(alphas), np.round(betas)
    betas[: int(rng.integers(0, 9))] = np.abs(betas[: int(rng.integers(0, 9)) or 1][:1])
    found = minimise_separable_each(alphas, betas, units, lows, highs)
    for row, alpha, beta in zip(found, alphas, betas, strict=True):
        assert row.tolist() == minimise_separable(alpha, beta, units, lows, highs).tolist()


@pytest.mark.parametrize("lot", [1, 5])
@pytest.mark.parametrize("caps", [None, 10])
def test_implicit_and_listed_sets_find_the_same_allocations(lot: int, caps: int | None) -> None:
    implicit = Allocations(8 * lot, 6, lot=lot, caps=None if caps is None else caps * lot // 2)
    listed = implicit.listed()
    coefs = np.random.default_rng(lot).standard_normal((300, implicit.dim))
    expected = ActionSet.best_each(implicit, coefs)
    np.testing.assert_array_equal(implicit.best_each(coefs), expected)
    np.testing.assert_array_equal(listed.best_each(coefs), expected)
    half = listed.top(coefs[0], listed.size // 2)  # no longer all allocations: every row is looked at
    np.testing.assert_array_equal(half.best_each(coefs), ActionSet.best_each(half, coefs))


def test_lists_of_splits_find_them_too() -> None:
    listed = routing_actions(8, 6).listed()
    coefs = np.random.default_rng(0).standard_normal((100, 12))
    np.testing.assert_array_equal(listed.best_each(coefs), ActionSet.best_each(listed, coefs))
    np.testing.assert_array_equal(listed.shrunk().best_each(coefs), ActionSet.best_each(listed, coefs))


def test_tables_that_do_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("riskroute.routing.separable.LARGEST_TABLES", 10)
    allocations = Allocations(40, 6, caps=20)
    with pytest.raises(InputError, match="lots times slots"):
        allocations.best_each(-np.ones((2, 12)))
    assert allocations.best_each(np.ones((2, 12))).sum() == 80  # convex scores need no tables


def test_scores_of_another_length_are_refused() -> None:
    with pytest.raises(InputError, match="coefs must have 12 columns, had 11"):
        Allocations(8, 6).best_each(np.zeros((2, 11)))
