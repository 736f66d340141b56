"""Slots that cross one book: what they pay together, against a walk share by share."""

from __future__ import annotations

import datetime as dt
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from riskroute import Allocations, InputError, Problem, check_environment, random_problem
from riskroute.market.clock import TimeWindow
from riskroute.market.dark_pools import DarkPool
from riskroute.market.order_profits import extrapolated_market_profits, market_profits
from riskroute.market.recordings import RecordingStore
from riskroute.market.sampling import SampledBooks, draw_sample_times, sample_closest_books
from riskroute.market.scenarios import Scenarios, ScenarioSlot, draw_scenarios
from riskroute.routing.shared_books import SharedBook
from riskroute.simulation.replay import Replay

WINDOW = TimeWindow(dt.time(11), dt.time(11, 20), 10)
POOLS = (DarkPool(0.5, 1.5, 30, name="Dark 1"), DarkPool(0.7, 1.0, 20, improvement=0.2, fee=0.001, name="Dark 2"))
SLOTS = (
    ScenarioSlot("XPSX"),
    ScenarioSlot("XNAS"),
    ScenarioSlot("XNAS", "limit"),
    ScenarioSlot("XNAS", "dark", POOLS[0]),
    ScenarioSlot("XNAS", "dark", POOLS[1]),
)


def random_books(rng: np.random.Generator, count: int, levels: int) -> SampledBooks:
    """Books around 100 dollars, some with fewer levels than others."""
    gaps = rng.integers(1, 5, (2, count, levels)).cumsum(axis=2) / 100
    sizes = rng.integers(1, 6, (2, count, levels)).astype(float)
    missing = np.arange(levels) >= rng.integers(1, levels + 1, (2, count, 1))
    gaps[missing], sizes[missing] = np.nan, 0.0
    return SampledBooks(np.arange(count), 100 - gaps[0], sizes[0], 100 + gaps[1], sizes[1])


def share_by_share(books: SampledBooks, bucket: int, side: str) -> list[float]:
    """Prices of the single shares of a book, best first."""
    prices, sizes = books.side("bid" if side == "sell" else "ask")
    return [p for p, n in zip(prices[bucket], sizes[bucket], strict=True) if n for _ in range(int(n))]


@given(st.integers(0, 10**6), st.sampled_from(["sell", "buy"]))
def test_profits_go_on_beyond_the_known_levels(seed: int, side: str) -> None:
    books = random_books(np.random.default_rng(seed), 3, 4)
    quantities = np.arange(1, 40)
    found, known = extrapolated_market_profits(books, quantities, side), market_profits(books, quantities, side)
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(found[np.isfinite(known)], known[np.isfinite(known)])
    for bucket in range(3):
        prices = share_by_share(books, bucket, side)
        depth, middle = len(prices), float(books.mid[bucket])
        away = [abs(middle - price) for price in prices]
        # the integral of the last distance, growing in proportion, by its middle at each further share: exact
        away += [away[-1] * (share + 0.5) / depth for share in range(depth, 40)]
        np.testing.assert_allclose(found[bucket], -np.cumsum(away)[:39], atol=1e-8)
    assert (np.diff(found, axis=1) < 0).all()


def test_no_book_has_no_profits() -> None:
    nothing, none = np.full((1, 2), np.nan), np.zeros((1, 2))
    assert np.isnan(
        extrapolated_market_profits(SampledBooks(np.array([-1]), nothing, none, nothing, none), np.array([1, 2]))
    ).all()


@pytest.mark.parametrize("shares", [8, 900])
def test_replay_walks_every_book_once(half_hour: RecordingStore, shares: int) -> None:
    """All of it again for single splits: hidden sizes, then the rests and the market order on one list of shares."""
    found = draw_scenarios(half_hour, "QVEX", SLOTS, shares, WINDOW, repeats=1, seed=5)
    caps = np.minimum(found.caps(), shares)
    profits, shared = found.replayed(caps)
    assert [book.slots for book in shared] == [(1, 3, 4)]
    problem = random_problem(Allocations(shares, 5, caps=caps.tolist()), 1)
    replay = Replay(problem, profits, shared)
    splits = replay.actions.sample(np.random.default_rng(3), 20)
    totals = replay.totals(splits)

    recording = next(one for one in half_hour.recordings() if one.venue == "XNAS")
    sample_times = draw_sample_times(recording.date, WINDOW, 5)
    books = sample_closest_books(half_hour.snapshots(recording), sample_times)
    hidden = [_hidden(found, slot) for slot in (3, 4)]
    checked = 0
    for place, scenario in enumerate(np.flatnonzero(found.whole(caps)).tolist()):
        bids, middle = share_by_share(books, scenario, "sell"), float(books.mid[scenario])
        half = float(books.ask_px[scenario, 0] - books.bid_px[scenario, 0]) / 2
        for row, split in enumerate(splits.tolist()):
            fills = [min(split[3], int(hidden[0][scenario])), min(split[4], int(hidden[1][scenario]))]
            crossing = split[1] + split[3] - fills[0] + split[4] - fills[1]
            if crossing > len(bids):
                assert shared[0].beyond(splits)[row, place]
                continue
            checked += 1
            expected = sum(bids[:crossing]) - crossing * middle + fills[1] * (0.2 * half - 0.001)
            expected += found.profits[0, scenario, split[0]] + found.profits[2, scenario, split[2]]
            assert totals[row, place] == pytest.approx(expected, abs=1e-6)
    assert checked > 50


def _hidden(found: Scenarios, slot: int) -> np.ndarray:
    """Hidden sizes: how much of the largest order does not cross."""
    book = found.shared[0]
    return found.shares - book.rests[book.slots.index(slot), :, -1]


@pytest.mark.usefixtures("untraced")
def test_crossing_together_never_pays(half_hour: RecordingStore) -> None:
    found = draw_scenarios(half_hour, "QVEX", SLOTS, 400, WINDOW, repeats=2, seed=1)
    caps = np.minimum(found.caps(), 400)
    profits, shared = found.replayed(caps)
    replay = Replay(random_problem(Allocations(400, 5, caps=caps.tolist()), 1), profits, shared)
    splits = replay.actions.sample(np.random.default_rng(0), 200)
    assert (shared[0].extra(splits) <= 1e-9).all()
    assert (shared[0].extra(splits) < -0.1).any()
    assert (shared[0].extra(np.array([[0, 400, 0, 0, 0], [200, 0, 200, 0, 0]])) == 0).all()
    check_environment(replay, runs=1500)


def test_what_a_replay_remembers_changes_nothing_and_stays_at_home(half_hour: RecordingStore) -> None:
    """Best splits at many risk tolerances, forth and back, are those of a replay that was asked for no other."""
    found = draw_scenarios(half_hour, "QVEX", SLOTS, 60, WINDOW, repeats=2, seed=1)
    caps = np.minimum(found.caps(), 60)
    problem = random_problem(Allocations(60, 5, caps=caps.tolist()), 1)

    def fresh() -> Replay:
        return Replay(problem, *found.replayed(caps))

    replay, tolerances = fresh(), (0.0, 0.01, 0.1, 1.0, np.inf)
    best = {tolerance: replay.best_split(tolerance) for tolerance in tolerances}
    assert len(set(best.values())) > 1
    for tolerance in tolerances[::-1]:
        assert replay.best_split(tolerance) == best[tolerance] == fresh().best_split(tolerance)
        assert replay.values(best[tolerance]).tolist() == fresh().totals(np.array([best[tolerance]]))[0].tolist()
    assert replay._seen
    assert not pickle.loads(pickle.dumps(replay))._seen


def test_a_book_has_room_for_its_depth_once(half_hour: RecordingStore) -> None:
    found = draw_scenarios(half_hour, "QVEX", SLOTS[1:], 3000, WINDOW, repeats=2, levels=5)
    caps = found.caps()
    deep = np.sort(found.depths[0])[len(found.depths[0]) // 20]
    assert caps[0] == deep  # market orders alone reach the depth that 95 % of the books have
    assert found.room(caps * np.array([1, 1, 0, 0])) == deep + caps[1]
    fills = sum(np.minimum(_hidden(found, slot), caps[slot]) for slot in (2, 3))
    room = caps[1] + np.minimum(found.depths[0] + fills, caps[[0, 2, 3]].sum())
    assert found.room(caps) == np.sort(room)[len(room) // 20]
    assert found.room(np.array([10, 20, 30, 40])) == 100
    assert found.room(np.array([0, 20, 0, 0])) == 20


def book(scenarios: int = 3, shares: int = 4, slots: tuple[int, ...] = (0, 1)) -> SharedBook:
    rests = np.tile(np.arange(shares + 1), (len(slots), scenarios, 1))
    return SharedBook(slots, -(np.arange(shares + 1.0) ** 2) * np.ones((scenarios, 1)), rests, np.full(scenarios, 2))


def test_mistakes_are_named() -> None:
    actions = Allocations(4, 2)
    problem = Problem(actions=actions, mean_coef=np.zeros(4), var_coef=np.zeros(4))
    profits = np.zeros((2, 3, 5))
    for shared, message in (
        (book(scenarios=2), r"shared books must be of shape \(3, 5\) over slots 0 to 1, was \(2, 5\)"),
        (book(slots=(0, 2)), r"was \(3, 5\), slots \(0, 2\)"),
    ):
        with pytest.raises(InputError, match=message):
            Replay(problem, profits, [shared])
    broken = book()
    broken.crossing[1, 4] = np.nan
    with pytest.raises(InputError, match="crossing must be finite for all amounts"):
        Replay(problem, profits, [broken])
    capped = Problem(actions=Allocations(4, 3, caps=[1, 2, 4]), mean_coef=np.zeros(6), var_coef=np.zeros(6))
    assert Replay(capped, np.zeros((3, 3, 5)), [broken]).beyond((1, 2, 1)) == 1.0
    with pytest.raises(InputError, match=r"a shared book needs at least two slots, got \(1,\)"):
        book(slots=(1,))
    with pytest.raises(InputError, match=r"rests must have shape \(2, 3, 5\), was \(2, 3, 4\)"):
        SharedBook((0, 1), np.zeros((3, 5)), np.zeros((2, 3, 4), dtype=np.int64), np.zeros(3))  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"depths must have shape \(3,\), was \(2,\)"):
        SharedBook((0, 1), np.zeros((3, 5)), np.zeros((2, 3, 5), dtype=np.int64), np.zeros(2))  # type: ignore[arg-type]


def test_what_is_shared_makes_another_environment() -> None:
    problem = Problem(actions=Allocations(4, 2), mean_coef=np.zeros(4), var_coef=np.zeros(4))
    plain, shared = Replay(problem, np.zeros((2, 3, 5))), Replay(problem, np.zeros((2, 3, 5)), [book()])
    assert plain.identity != shared.identity
    assert shared.totals(np.array([[2, 2], [4, 0]])).tolist() == [[-8.0] * 3, [0.0] * 3]
    assert (plain.beyond((2, 2)), shared.beyond((2, 2)), shared.beyond((4, 0))) == (0.0, 1.0, 1.0)
