"""Beliefs about hazards: against Kaplan and Meier, enumeration and simulated trials."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from riskroute.core.arrays import Integers, Vector
from riskroute.core.errors import InputError, StateError
from riskroute.core.records import to_plain
from riskroute.learning.hazards import Hazards

EDGES = [1, 2, 4, 8, 16]
TRUE = np.array([0.4, 0.2, 0.1, 0.05, 0.15])
NOTHING = 1e-12  # a prior worth nothing


def hidden(rng: np.random.Generator, count: int, hazards: Vector = TRUE) -> Integers:
    """Hidden sizes with these hazards per unit, the last of which goes on for ever; unit by unit."""
    sizes = np.zeros(count, dtype=np.int64)
    alive = np.ones(count, dtype=bool)
    for s in range(400):
        alive &= rng.random(count) >= hazards[min(int(np.searchsorted(EDGES, s + 1)), len(EDGES) - 1)]
        sizes += alive
    return sizes


def kaplan_meier(trials: list[tuple[int, int]], units: int) -> list[float]:
    """Product-limit estimate of at least 1, 2 .. units, by its definition."""
    tails, tail = [], 1.0
    for s in range(1, units + 1):
        at_risk = [(tried, reached) for tried, reached in trials if tried >= s and reached >= s - 1]
        tail *= 1 - sum(reached == s - 1 for _, reached in at_risk) / len(at_risk)
        tails.append(tail)
    return tails


def learned(trials: list[tuple[int, int]], edges: list[int], **prior: float) -> Hazards:
    belief = Hazards(edges, **prior)
    for tried, reached in trials:
        belief.add(tried, reached)
    return belief


@pytest.fixture(scope="module")
def trials() -> list[tuple[int, int]]:
    rng = np.random.default_rng(1)
    sizes, tried = hidden(rng, 4000), rng.integers(1, 21, 4000)
    return list(zip(tried.tolist(), np.minimum(sizes, tried).tolist(), strict=True))


def test_bins_of_one_unit_are_the_product_limit_estimator(trials: list[tuple[int, int]]) -> None:
    belief = learned(trials, list(range(1, 21)), alpha=NOTHING, beta=NOTHING)
    assert belief.tails(20).tolist() == pytest.approx(kaplan_meier(trials, 20), abs=1e-9)
    assert belief.tails(20, belief.hazards).tolist() == pytest.approx(kaplan_meier(trials, 20), abs=1e-9)


def test_censored_trials_lead_to_the_true_hazards(trials: list[tuple[int, int]]) -> None:
    """Within 3.5 standard deviations of the belief in each of five bins: by chance once in 400 seeds."""
    belief = learned(trials, EDGES)
    alpha, beta = belief.posterior
    deviation = np.sqrt(alpha * beta / (alpha + beta + 1)) / (alpha + beta)
    assert (np.abs(belief.hazards - TRUE) < 3.5 * deviation).all()


def test_expected_units_are_those_of_the_law_with_these_hazards() -> None:
    belief = Hazards(EDGES)
    expected = belief.expected(30, TRUE)
    rng = np.random.default_rng(2)
    sizes = hidden(rng, 20_000)
    for d in (1, 3, 8, 12, 30):
        found = np.minimum(sizes, d)
        assert abs(found.mean() - expected[d]) < 4 * found.std() / np.sqrt(len(found))


def test_expected_units_are_those_of_the_enumerated_law() -> None:
    chances = np.array([0.3, 0.1, 0.4, 0.1, 0.1])  # of 0 .. 4
    tails = np.array([chances[s:].sum() for s in range(1, 5)])
    hazards = 1 - tails / np.append(1.0, tails[:-1])
    found = Hazards([1, 2, 3, 4]).expected(4, hazards)
    assert found.tolist() == pytest.approx([float(chances @ np.minimum(np.arange(5), d)) for d in range(5)])


def test_draws_have_the_tails_of_the_belief_on_average(trials: list[tuple[int, int]]) -> None:
    belief = learned(trials[:40], EDGES)
    rng = np.random.default_rng(3)
    drawn = np.array([belief.tails(20, belief.draw(rng)) for _ in range(2000)])
    error = drawn.std(axis=0) / np.sqrt(len(drawn))
    assert (np.abs(drawn.mean(axis=0) - belief.tails(20)) < 4 * error).all()
    assert (np.diff(drawn, axis=1) <= 0).all()
    assert (drawn >= 0).all()
    assert (drawn <= 1).all()


def test_a_prior_from_tails_has_these_tails_and_counts_for_so_many_trials() -> None:
    tails = [0.6, 0.5, 0.3, 0.2, 0.1]
    prior = Hazards.from_tails(EDGES, tails, strength=1e6)
    assert prior.tails(16)[np.array(EDGES) - 1].tolist() == pytest.approx(tails, abs=1e-4)
    assert Hazards.from_tails(EDGES, tails, 10).alpha[0] == pytest.approx(10 * 0.4)


def test_discounting_and_merging_count_trials_by_their_weight(trials: list[tuple[int, int]]) -> None:
    some, more = learned(trials[:50], EDGES), learned(trials[50:90], EDGES)
    weighted = Hazards(EDGES)
    for tried, reached in trials[:50]:
        weighted.add(tried, reached, 0.25)
    faded = some.merged(some, 0.0)
    faded.discount(0.25)
    assert faded.events.tolist() == pytest.approx(weighted.events.tolist())
    assert faded.at_risk.tolist() == pytest.approx(weighted.at_risk.tolist())
    assert some.at_risk[0] == 50  # the belief itself is as it was
    both = learned(trials[:90], EDGES)
    assert some.merged(more).posterior[1].tolist() == pytest.approx(both.posterior[1].tolist())
    assert some.borrowed([more], most=10).trials == pytest.approx(60)
    assert some.borrowed([more, more], most=1000).at_risk.tolist() == pytest.approx(
        (some.at_risk + 2 * more.at_risk).tolist()
    )
    assert some.borrowed([], most=10).state() == some.state()
    assert some.merged(more, 0.0).tails(9).tolist() == some.tails(9).tolist()
    some.discount(0.0)
    assert some.tails(9).tolist() == Hazards(EDGES).tails(9).tolist()


def test_a_state_is_restored_to_the_bit(trials: list[tuple[int, int]]) -> None:
    belief = learned(trials[:99], EDGES, alpha=0.3, beta=1.7)
    belief.discount(0.9)
    again = Hazards.restore(json.loads(json.dumps(belief.state())))
    assert again.tails(20).tolist() == belief.tails(20).tolist()
    assert again.state() == belief.state()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"events": None}, "events: an array must have the fields array, dtype and shape"),
        ({"edges": to_plain(np.array([3, 2]))}, "edges must rise"),
        (to_plain({"events": np.full(2, 9.0), "at_risk": np.ones(2)}), "events between 0 and the units at risk"),
        ({"other": 1}, "unknown field 'other'"),
    ],
)
def test_a_damaged_state_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(StateError, match=message):
        Hazards.restore(Hazards([1, 2]).state() | change)


def test_what_cannot_be_is_refused() -> None:
    belief = Hazards(EDGES)
    for edges in ([], [0, 1], [2, 2], [1.5], [1, 10**7]):
        with pytest.raises(InputError, match="edges must"):
            Hazards(edges)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="alpha must be positive, was 0"):
        Hazards(EDGES, alpha=0.0)
    with pytest.raises(InputError, match="reached must be at most 3, was 4"):
        belief.add(3, 4)
    with pytest.raises(InputError, match="weight must be a number of at least 0, was -1"):
        belief.add(3, 2, -1)
    with pytest.raises(InputError, match=r"hazards must have shape \(2,\), was \(3,\)"):
        Hazards([1, 2]).tails(4, np.zeros(3))
