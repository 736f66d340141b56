"""Whole numbers of rounds from weights: the paper's ceiling, and efficient rounding against enumeration."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from riskroute.core.errors import InputError
from riskroute.learning.design.rounding import round_exact_counts, round_up_counts

positive_weights = st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=8).map(np.array)
weights_with_zeros = (
    st.lists(st.floats(1e-6, 1.0) | st.just(0.0), min_size=1, max_size=8)
    .filter(lambda weights: sum(weights) > 0)
    .map(np.array)
)


@given(
    tokens=st.lists(st.integers(0, 5), min_size=64, max_size=64),
    eighths=st.integers(0, 8000),
)
@settings(max_examples=50)
def test_ceil_counts_is_the_ceiling_of_the_eq_for_n_a(tokens: list[int], eighths: int) -> None:
    """Weights in 64ths and rounds in eighths are exact in floating point, so the ceiling must be too."""
    shares = [Fraction(tokens.count(k), 64) for k in range(6)]
    rounds = Fraction(eighths, 8)
    expected = [math.ceil(rounds * share) for share in shares]
    assert round_up_counts(np.array(shares, dtype=float), float(rounds)).tolist() == expected


def test_ceil_counts_with_the_constants_of_the_eq_for_n_a() -> None:
    """RISE, eq. for n_a: n_a = ceil(C^2 d^2 log d log^2(1/delta) g Q(a) / eps^2), for a design with g = d."""
    constant, dim, delta, tolerance = 0.3, 4, 0.05, 0.5
    design = [0.25, 0.35, 0.3, 0.1]
    common = constant**2 * dim**2 * math.log(dim) * math.log(1 / delta) ** 2 * dim / tolerance**2
    assert round_up_counts(np.array(design), common).tolist() == [math.ceil(common * share) for share in design]


@given(weights=weights_with_zeros, rounds=st.floats(0, 1e9))
@settings(max_examples=50)
def test_ceil_counts_gives_each_weight_its_share_and_less_than_one_more(
    weights: NDArray[np.float64], rounds: float
) -> None:
    counts = round_up_counts(weights, rounds)
    share = rounds * weights / weights.sum()
    slack = 1e-12 * (1 + rounds)
    assert counts.dtype == np.int64
    assert (counts >= share - slack).all()
    assert (counts < share + 1 + slack).all()
    assert (counts[weights == 0] == 0).all()


@given(weights=weights_with_zeros, rounds=st.integers(0, 10_000))
@settings(max_examples=100)
def test_exact_counts_spends_every_round_on_positive_weights(weights: NDArray[np.float64], rounds: int) -> None:
    counts = round_exact_counts(weights, rounds)
    assert counts.dtype == np.int64
    assert counts.sum() == rounds
    assert (counts >= 0).all()
    assert (counts[weights == 0] == 0).all()
    if rounds >= np.count_nonzero(weights):
        assert (counts[weights > 0] >= 1).all()


@given(weights=positive_weights, spare=st.integers(0, 5000))
@settings(max_examples=100)
def test_exact_counts_satisfies_the_condition_of_efficient_rounding(weights: NDArray[np.float64], spare: int) -> None:
    """Pukelsheim and Rieder: no (n_j - 1) / w_j may exceed any n_i / w_i."""
    counts = round_exact_counts(weights, len(weights) + spare)
    assert ((counts - 1) / weights).max() <= (counts / weights).min() * (1 + 1e-12)


@given(weights=positive_weights, spare=st.integers(0, 5000))
@settings(max_examples=50)
def test_exact_counts_keeps_the_efficiency_and_the_quota(weights: NDArray[np.float64], spare: int) -> None:
    """With l weights and n rounds, every n_i / (n w_i) is at least 1 - l / n, and n_i stays below n w_i + 1."""
    rounds = len(weights) + spare
    share = weights / weights.sum()
    counts = round_exact_counts(weights, rounds)
    assert (counts / (rounds * share)).min() >= 1 - len(weights) / rounds - 1e-12
    assert (counts < rounds * share + 1 + 1e-9).all()


@given(weights=positive_weights, rounds=st.integers(0, 300))
@settings(max_examples=50)
def test_exact_counts_never_gives_a_larger_weight_less(weights: NDArray[np.float64], rounds: int) -> None:
    counts = round_exact_counts(weights, rounds)
    for i, j in np.ndindex(len(weights), len(weights)):
        if weights[i] > weights[j] * (1 + 1e-12):  # closer ones may become equal when normalised
            assert counts[i] >= counts[j]


def compositions(rounds: int, parts: int) -> Iterator[tuple[int, ...]]:
    """All ways to write ``rounds`` as a sum of ``parts`` positive integers."""
    if parts == 1:
        yield (rounds,)
        return
    for first in range(1, rounds - parts + 2):
        for rest in compositions(rounds - first, parts - 1):
            yield (first, *rest)


@given(weights=st.lists(st.integers(1, 9), min_size=1, max_size=4), spare=st.integers(0, 9))
@settings(max_examples=30)
def test_exact_counts_is_the_best_of_all_apportionments(weights: list[int], spare: int) -> None:
    """Efficient rounding maximises the smallest n_i / w_i: compare with every apportionment there is."""
    rounds = len(weights) + spare

    def worst(counts: tuple[int, ...]) -> Fraction:
        return min(Fraction(n, w) for n, w in zip(counts, weights, strict=True))

    best = max(worst(counts) for counts in compositions(rounds, len(weights)))
    assert worst(tuple(round_exact_counts(np.array(weights, dtype=float), rounds).tolist())) == best


@given(weights=weights_with_zeros, rounds=st.integers(0, 200), power=st.integers(-30, 30))
@settings(max_examples=30)
def test_only_the_ratios_of_the_weights_matter(weights: NDArray[np.float64], rounds: int, power: int) -> None:
    scaled = weights * 2.0**power
    assert round_exact_counts(scaled, rounds).tolist() == round_exact_counts(weights, rounds).tolist()
    assert round_up_counts(scaled, rounds).tolist() == round_up_counts(weights, rounds).tolist()


def test_more_rounds_take_no_round_away_when_no_two_weights_tie() -> None:
    weights = np.sqrt([2.0, 3.0, 5.0, 7.0, 11.0])  # irrational ratios: n_i / w_i are never equal
    ladder = np.array([round_exact_counts(weights, rounds) for rounds in range(200)])
    assert (np.diff(ladder, axis=0) >= 0).all()
    assert (np.diff(ladder, axis=0).sum(axis=1) == 1).all()


def test_too_few_rounds_go_to_the_largest_weights_and_ties_to_the_earlier() -> None:
    weights = np.array([0.2, 0.0, 0.3, 0.2, 0.3])
    assert round_exact_counts(weights, 0).tolist() == [0, 0, 0, 0, 0]
    assert round_exact_counts(weights, 1).tolist() == [0, 0, 1, 0, 0]
    assert round_exact_counts(weights, 2).tolist() == [0, 0, 1, 0, 1]
    assert round_exact_counts(weights, 3).tolist() == [1, 0, 1, 0, 1]


def test_weights_that_divide_the_rounds_get_their_share_exactly() -> None:
    assert round_exact_counts(np.array([0.5, 0.25, 0.125, 0.125]), 80).tolist() == [40, 20, 10, 10]
    assert round_exact_counts(np.full(7, 1 / 7), 7 * 13).tolist() == [13] * 7


def test_very_many_rounds_and_very_uneven_weights() -> None:
    assert round_exact_counts(np.array([0.3, 0.7]), 10**15).sum() == 10**15
    assert round_exact_counts(np.array([1.0, 1e-300]), 10**9).tolist() == [10**9 - 1, 1]


@pytest.mark.parametrize("round_off", [round_up_counts, round_exact_counts])
@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ([], "weights must not be empty"),
        ([[0.5, 0.5]], "weights must be a list of numbers"),
        ([0.5, [0.5]], "weights must be a list of numbers"),
        (["a", "b"], "weights must be a list of numbers"),
        (1.0, "weights must be a list of numbers"),
        ([0.5, math.nan], r"weights must be finite, was nan at \[1\]"),
        ([math.inf, 0.5], r"weights must be finite, was inf at \[0\]"),
        ([0.5, -0.1], r"weights must be non-negative with a positive sum, was \[0.5, -0.1\]"),
        ([0.0, 0.0], r"weights must be non-negative with a positive sum, was \[0.0, 0.0\]"),
    ],
)
def test_bad_weights(round_off: Any, weights: Any, expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        round_off(weights, 3)


@pytest.mark.parametrize("rounds", [-1, 2.0, 2.5, math.nan, "3", None, True, [3]])
def test_exact_counts_wants_a_whole_number_of_rounds(rounds: Any) -> None:
    with pytest.raises(InputError, match="rounds must be a non-negative integer, was "):
        round_exact_counts(np.array([1.0]), rounds)


@pytest.mark.parametrize("rounds", [-0.1, math.nan, math.inf, "three", None, [3]])
def test_ceil_counts_wants_a_number_of_rounds(rounds: Any) -> None:
    with pytest.raises(InputError, match=r"rounds must be a number of at least 0 and of at most 4.61169e\+18, was "):
        round_up_counts(np.array([1.0]), rounds)
