"""Tallies against NumPy on the rewards themselves."""

from __future__ import annotations

import dataclasses
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from riskroute.learning.tally import (
    Tallies,
    Tally,
    _merge_moments,
    merge_moments_compiled,
    merge_tallies_compiled,
    merge_tally_groups,
)

rewards_lists = st.lists(st.floats(-1e6, 1e6, allow_subnormal=False), min_size=1, max_size=30)
tallies_of_anything = st.builds(Tally.of, st.lists(st.floats(-1e3, 1e3, allow_subnormal=False), max_size=6))


def assert_tallies(tally: Tally, rewards: list[float]) -> None:
    """Compare with NumPy; rounding grows with the count and with the size (squared, for the spread) of the rewards."""
    array = np.array(rewards)
    size = float(np.abs(array).max())
    allowed = 1e-15 * 4 * len(array)
    assert tally.count == len(array)
    assert type(tally.count) is int
    assert abs(tally.mean - array.mean()) <= allowed * size
    assert abs(tally.spread - len(array) * array.var()) <= allowed * len(array) * size**2 + np.finfo(float).tiny
    assert tally.spread >= 0


@given(rewards=rewards_lists)
@settings(max_examples=50)
def test_tally_one_by_one_is_numpy_mean_and_variance(rewards: list[float]) -> None:
    assert_tallies(Tally.of(rewards), rewards)


@given(blocks=st.lists(rewards_lists, min_size=1, max_size=6))
@settings(max_examples=50)
def test_merged_blocks_are_the_tally_of_all_rewards(blocks: list[list[float]]) -> None:
    merged = Tally()
    for block in blocks:
        merged = merged.merge(Tally.of(block))
    assert_tallies(merged, [reward for block in blocks for reward in block])


@given(first=rewards_lists, second=rewards_lists)
@settings(max_examples=30)
def test_order_of_merging_matters_to_rounding_only(first: list[float], second: list[float]) -> None:
    assert_tallies(Tally.of(second).merge(Tally.of(first)), first + second)


@given(tally=tallies_of_anything)
@settings(max_examples=30)
def test_the_empty_tally_is_neutral_bit_for_bit(tally: Tally) -> None:
    assert Tally().merge(tally) == tally
    assert tally.merge(Tally()) == tally


def test_far_from_zero_the_spread_keeps_its_digits() -> None:
    rewards = 1e9 + np.array([0.0, 1.0, 2.0, 5.0])
    naive = float(np.mean(rewards**2) - np.mean(rewards) ** 2) * 4
    tally = Tally.of(rewards)
    assert tally.mean - 1e9 == 2.0
    assert tally.spread == pytest.approx(14.0, rel=1e-6)
    assert abs(naive - 14.0) > 1.0  # what subtracting squares would have given


@given(rewards=rewards_lists, risk_tolerance=st.floats(0, 10))
@settings(max_examples=30)
def test_mean_variance_of_a_path_is_a_function_of_its_tally(rewards: list[float], risk_tolerance: float) -> None:
    """The eq. that defines xi(T): squared deviations from the path's own mean, minus rho times the sum."""
    average = sum(rewards) / len(rewards)
    path = sum((reward - average) ** 2 for reward in rewards) - risk_tolerance * sum(rewards)
    tally = Tally.of(rewards)
    size = max(1.0, *(abs(reward) for reward in rewards))
    found = tally.spread - risk_tolerance * tally.count * tally.mean
    assert abs(found - path) <= 1e-14 * len(rewards) ** 2 * (size**2 + risk_tolerance * size)


@given(first=tallies_of_anything, second=tallies_of_anything)
@settings(max_examples=50)
def test_compiled_merge_is_the_plain_one_bit_for_bit(first: Tally, second: Tally) -> None:
    moments = *dataclasses.astuple(first), *dataclasses.astuple(second)
    assert merge_moments_compiled(*map(float, moments)) == _merge_moments(*moments)


def test_a_tally_is_immutable() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Tally.of([1.0]).count = 2  # type: ignore[misc]


def random_entries(shape: tuple[int, ...]) -> tuple[Tallies, dict[tuple[int, ...], list[float]]]:
    """Forty tallies over few actions (so that many repeat), and the rewards behind each action."""
    rng = np.random.default_rng(20)
    actions: NDArray[np.int64] = rng.integers(0, 3, size=shape)
    rewards: dict[tuple[int, ...], list[float]] = defaultdict(list)
    single = []
    for action in actions:
        block = rng.normal(5.0, 2.0, size=int(rng.integers(1, 7))).tolist()
        rewards[tuple(np.atleast_1d(action).tolist())] += block
        single.append(Tally.of(block))
    return Tallies.of(actions, single), rewards


@pytest.mark.parametrize("shape", [(40,), (40, 1), (40, 2), (40, 3)])
def test_by_action_merges_what_belongs_together(shape: tuple[int, ...]) -> None:
    entries, rewards = random_entries(shape)
    merged = entries.by_action()
    assert merged.actions.shape[1:] == shape[1:]
    assert [tuple(np.atleast_1d(action).tolist()) for action in merged.actions] == sorted(rewards)
    for i, action in enumerate(sorted(rewards)):
        entry = Tally(int(merged.counts[i]), float(merged.means[i]), float(merged.spreads[i]))
        assert_tallies(entry, rewards[action])


def test_by_action_leaves_its_input_alone_and_can_be_repeated() -> None:
    entries, _ = random_entries((40,))
    before = entries.counts.copy(), entries.means.copy(), entries.spreads.copy()
    once = entries.by_action()
    for array, kept in zip((entries.counts, entries.means, entries.spreads), before, strict=True):
        assert array.tolist() == kept.tolist()
    twice = once.by_action()
    assert twice.means.tolist() == once.means.tolist()
    assert twice.spreads.tolist() == once.spreads.tolist()


def test_by_action_of_nothing_is_nothing() -> None:
    assert len(Tallies.of(np.zeros(0, dtype=np.int64), []).by_action()) == 0
    assert Tallies.of(np.zeros((0, 3), dtype=np.int64), []).by_action().actions.shape == (0, 3)


def test_joined_keeps_the_order_of_both() -> None:
    first = Tallies.of(np.array([3, 1]), [Tally(1, 2.0, 0.0), Tally(4, 5.0, 6.0)])
    second = Tallies.of(np.array([1]), [Tally(7, 8.0, 9.0)])
    joined = first.joined(second)
    assert len(joined) == 3
    assert joined.actions.tolist() == [3, 1, 1]
    assert joined.counts.tolist() == [1, 4, 7]
    assert joined.means.tolist() == [2.0, 5.0, 8.0]
    assert joined.spreads.tolist() == [0.0, 6.0, 9.0]
    assert joined.counts.dtype == np.int64


def test_joined_works_for_handles_of_several_numbers() -> None:
    first = Tallies.of(np.array([[0, 2], [1, 1]]), [Tally.of([1.0]), Tally.of([2.0])])
    second = Tallies.of(np.array([[1, 1]]), [Tally.of([4.0])])
    merged = first.joined(second).by_action()
    assert merged.actions.tolist() == [[0, 2], [1, 1]]
    assert merged.means.tolist() == [1.0, 3.0]
    assert merged.spreads.tolist() == [0.0, 2.0]


def test_merge_groups_leaves_groups_without_entries_empty() -> None:
    counts, means, spreads = merge_tally_groups(
        np.array([2, 0, 2]), 4, np.array([1, 2, 1]), np.array([1.0, 7.0, 3.0]), np.array([0.0, 5.0, 0.0])
    )
    assert counts.tolist() == [2, 0, 2, 0]
    assert means.tolist() == [7.0, 0.0, 2.0, 0.0]
    assert spreads.tolist() == [5.0, 0.0, 2.0, 0.0]


def test_merge_into_adds_to_what_is_there_in_order() -> None:
    rng = np.random.default_rng(3)
    blocks = [rng.normal(size=n) for n in (4, 3, 1, 6)]
    counts, means, spreads = np.array([4, 0]), np.array([blocks[0].mean(), 0.0]), np.array([4 * blocks[0].var(), 0.0])
    more = [Tally.of(block) for block in blocks[1:]]
    expected = Tally(4, float(means[0]), float(spreads[0])).merge(more[0]).merge(more[2])
    merge_tallies_compiled(
        counts,
        means,
        spreads,
        np.array([0, 1, 0]),
        np.array([t.count for t in more]),
        np.array([t.mean for t in more]),
        np.array([t.spread for t in more]),
    )
    assert (counts[0], means[0], spreads[0]) == dataclasses.astuple(expected)
    assert (counts[1], means[1], spreads[1]) == dataclasses.astuple(more[1])
