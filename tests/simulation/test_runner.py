"""The runner: blocks against rounds, seeds, figure 2, interrupts, bad input."""

from __future__ import annotations

import json
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from riskroute import Actions, Environment, InputError, Problem, random_problem, simulate
from riskroute.core.seeding import seed_stream
from riskroute.environments import Autocorrelated, PiecewiseStationary
from riskroute.policies import Oracle, Rise, RiskExpExp
from riskroute.simulation.environments import _block_cuts
from riskroute.simulation.policy_comparison import PAPER_POLICIES, compare_policies
from riskroute.simulation.results import PolicyResult

FAST_LEARNERS = {"rise": Rise(), "risk-exp-exp": RiskExpExp(divisor=60.0)}


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("label", FAST_LEARNERS)
def test_blocks_and_rounds_agree_in_mean_and_spread(small_problem: Problem, label: str) -> None:
    """600 runs by blocks, 300 by rounds. Means within five standard errors; deviations within a quarter.

    The relative error of a sample deviation is sqrt((kurtosis - 1) / (4 n)), about 8 % for n = 300 even at a
    kurtosis of 8. 13 per cent more spread in the blocks moves the means by 5 to 6 standard errors. The horizon is
    long enough for all phases of every learner, and leaves 65 rounds or more to the last. That blocks have exactly the
    law of their rounds is checked draw by draw in the tests of environments, and that other learners decide alike in
    both ways below, without noise.
    """
    runs = {"blocks": 600, "rounds": 300}
    learner = {label: FAST_LEARNERS[label]}
    ways = [
        simulate(small_problem, learner, horizon=150, runs=count, seed=6, checkpoints=5, method=method).policies[label]
        for method, count in runs.items()
    ]
    means = [one.mean_regret() for one in ways]
    deviations = [one.std_regret() for one in ways]
    error = np.sqrt(sum(one.std_regret() ** 2 / one.runs for one in ways))
    assert (np.abs(means[0] - means[1]) <= 5 * error).all()
    np.testing.assert_allclose(deviations[0], deviations[1], rtol=0.25)
    explored = [one.exploration.mean() for one in ways]
    assert explored[0] == pytest.approx(explored[1], rel=0.1)


@pytest.mark.parametrize("label", ["rise", "rise++", "risk-exp-exp", "restart-gse", "uniform", "greedy", "risk-ucb"])
def test_without_noise_blocks_and_rounds_are_the_same(label: str) -> None:
    """Rewards are then exactly the means, so both ways see the same data and every curve must agree."""
    actions = Actions.scaled(np.random.default_rng(2).standard_normal((9, 3)))
    problem = Problem(actions=actions, mean_coef=np.array([0.3, -0.5, 0.6]), var_coef=np.zeros(3), base_variance=0.0)
    ways = [
        simulate(problem, [label], horizon=400, runs=2, seed=1, method=method).policies[label]
        for method in ("blocks", "rounds")
    ]
    np.testing.assert_allclose(ways[0].regret, ways[1].regret, atol=1e-8)
    np.testing.assert_allclose(ways[0].pseudo_regret, ways[1].pseudo_regret, atol=1e-8)
    assert ways[0].recommended == ways[1].recommended
    assert ways[0].exploration.tolist() == ways[1].exploration.tolist()


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize(("shares", "size", "instance"), [(6, 462, 0), (8, 1287, 1)])
def test_figure_2_ordering_on_large_sets(shares: int, size: int, instance: int) -> None:
    """T = 100,000, rho = 2: RISE and RISE++ end below half of RiskUCB and RiskExpExp.

    Five runs of the paper's fifty leave five standard errors or more between each and that half.
    """
    result = compare_policies(slots=6, shares=shares, instance_seed=instance, seed=1, policies=PAPER_POLICIES, runs=5)
    assert result.config["actions"] == str(size)
    final = {name: one.mean_regret()[-1] for name, one in result.policies.items()}
    assert max(final["rise"], final["rise++"]) < 0.5 * min(final["risk-ucb"], final["risk-exp-exp"])


def test_risk_exp_exp_regret_is_linear_when_it_never_stops_exploring() -> None:
    one = compare_policies(slots=6, shares=6, policies=["risk-exp-exp"], runs=10).policies["risk-exp-exp"]
    half = np.interp(50_000, one.checkpoints, one.mean_regret())
    assert one.mean_regret()[-1] == pytest.approx(2 * half, rel=0.03)


def test_a_run_depends_on_its_identity_only(small_problem: Problem) -> None:
    def alone(label: str, runs: int) -> PolicyResult:
        return simulate(small_problem, [label], horizon=500, runs=runs, seed=9).policies[label]

    together = simulate(small_problem, ["uniform", "risk-ucb", "rise"], horizon=500, runs=6, seed=9).policies
    for label in together:
        np.testing.assert_array_equal(alone(label, 6).regret, together[label].regret)
        np.testing.assert_array_equal(alone(label, 3).regret, together[label].regret[:3])
    other = simulate(small_problem, ["rise"], horizon=500, runs=6, seed=10).policies["rise"]
    assert not np.array_equal(other.regret, together["rise"].regret)


def test_instances_do_not_share_their_noise() -> None:
    """Oracle regrets over 40 runs of two instances: a correlation of 0.6 would be four deviations from none."""
    actions = Actions.scaled(np.random.default_rng(0).standard_normal((6, 3)))
    first, second = (
        simulate(random_problem(actions, seed), ["oracle"], horizon=300, runs=40, seed=1)
        .policies["oracle"]
        .regret[:, -1]
        for seed in (0, 1)
    )
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.6


def test_best_is_that_of_the_segments_played() -> None:
    actions = Actions.scaled(np.random.default_rng(0).standard_normal((6, 3)))
    environment = PiecewiseStationary([random_problem(actions, seed) for seed in (1, 2)], [1000])
    assert simulate(environment, ["oracle"], horizon=500, runs=2).best == environment.comparators[0]


def test_config_says_what_was_run(small_problem: Problem) -> None:
    seed: Any = np.int64(3)
    config = simulate(Autocorrelated(small_problem, 0.6), ["rise"], horizon=100, runs=1, seed=seed).config
    assert config["environment"]["correlation"] == 0.6
    assert config["environment"]["pieces"][0]["mean_coef"] == small_problem.mean_coef.tolist()
    assert config["spacing"] == "both"
    json.dumps(config)


def test_streams_differ_by_every_part_of_the_identity() -> None:
    identities: list[tuple[Any, ...]] = [
        (0, "rise", 0),
        (1, "rise", 0),
        (0, "rise", 1),
        (0, "rise++", 0),
        (0, "rise", "0"),
        (0, "rise0"),
    ]
    states = {tuple(seed_stream(*identity).generate_state(4).tolist()) for identity in identities}
    assert len(states) == len(identities)


def test_labels_name_variants_of_one_policy(small_problem: Problem) -> None:
    result = simulate(small_problem, {"short": Rise(explore_multiplier=1), "long": Rise(explore_multiplier=3)}, 1000, 5)
    assert list(result.policies) == ["short", "long"]
    assert result.policies["short"].exploration.mean() < result.policies["long"].exploration.mean()
    assert result.config["policies"]["long"]["explore_multiplier"] == 3


def test_piecewise_runs_are_cut_at_changes_and_checkpoints() -> None:
    """One action throughout: pseudo-regret adds up the gaps of each stretch and the price of its mean's jump."""
    actions = Actions.scaled(np.random.default_rng(0).standard_normal((5, 2)))
    problems = [random_problem(actions, seed) for seed in (1, 2)]
    environment = PiecewiseStationary(problems, [30])
    one = simulate(environment, {"fixed": Oracle(schedule=((0, 3),))}, horizon=50, runs=2).policies["fixed"]
    gaps = [environment.gaps(np.array([3]), k)[0] for k in (0, 1)]
    jump = (problems[0].means(np.array([3]))[0] - problems[1].means(np.array([3]))[0]) ** 2
    price = 30 * jump * sum(1 / (t + 1) for t in range(30, 50))
    assert one.pseudo_regret[0, -1] == pytest.approx(30 * gaps[0] + 20 * gaps[1] + price)


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("correlation", [-0.6, 0.6])
def test_autocorrelated_blocks_and_rounds_agree(small_problem: Problem, correlation: float) -> None:
    """Noise that carries over is drawn round by round in both ways, so that every run is the same in both."""
    environment = Autocorrelated(small_problem, correlation)
    ways = [
        simulate(environment, ["rise"], horizon=150, runs=20, seed=3, checkpoints=4, method=method).policies["rise"]
        for method in ("blocks", "rounds")
    ]
    np.testing.assert_allclose(ways[0].regret, ways[1].regret, atol=1e-8)
    assert ways[0].recommended == ways[1].recommended


@pytest.mark.usefixtures("interruptible")
def test_interrupt_keeps_finished_runs(small_problem: Problem) -> None:
    def stop_in_the_second_policy(label: str, done: int, runs: int) -> None:
        if label == "uniform" and done == 3:
            raise KeyboardInterrupt

    policies = ["rise", "uniform", "greedy"]
    result = simulate(small_problem, policies, horizon=200, runs=5, progress=stop_in_the_second_policy)
    assert result.interrupted
    assert {name: one.runs for name, one in result.policies.items()} == {"rise": 5, "uniform": 3}
    whole = simulate(small_problem, policies, horizon=200, runs=5)
    np.testing.assert_array_equal(result.policies["uniform"].regret, whole.policies["uniform"].regret[:3])


@pytest.mark.usefixtures("interruptible")
def test_a_signal_keeps_what_is_finished(small_problem: Problem) -> None:
    """A real SIGINT after the second run: finished runs count, and the usual handler is back afterwards."""

    def interrupt(label: str, done: int, runs: int) -> None:
        if done == 2:
            signal.raise_signal(signal.SIGINT)

    result = simulate(small_problem, ["rise", "uniform"], horizon=200, runs=5, progress=interrupt)
    assert result.interrupted
    assert {name: one.runs for name, one in result.policies.items()} == {"rise": 2}
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("interruptible")
def test_a_second_signal_stops_at_once(small_problem: Problem) -> None:
    def interrupt_twice(label: str, done: int, runs: int) -> None:
        if done == 2:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)

    result = simulate(small_problem, ["rise", "uniform"], horizon=200, runs=5, progress=interrupt_twice)
    assert result.interrupted
    assert result.policies["rise"].runs == 2


def test_runs_outside_the_main_thread(small_problem: Problem) -> None:
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(simulate, small_problem, ["rise"], 200, 2).result()
    assert result.policies["rise"].runs == 2


@pytest.mark.usefixtures("interruptible")
def test_interrupt_before_anything_is_finished_is_an_interrupt(
    small_problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Rise, "propose", lambda self: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        simulate(small_problem, ["rise"], horizon=200, runs=5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"horizon": 0}, "horizon must be a positive integer, was 0"),
        ({"runs": -1}, "runs must be a positive integer, was -1"),
        ({"seed": -1}, "seed must be a non-negative integer, was -1"),
        ({"seed": 0.5}, "seed must be a non-negative integer, was 0.5"),
        ({"policies": []}, "policies must name at least one policy"),
        ({"policies": "rise"}, "policies must be a list of names or policies, was 'rise'"),
        ({"policies": ["rise", "rise"]}, "policies must have different labels, 'rise' appeared twice"),
        ({"policies": ["ryse"]}, "policy must be one of"),
        ({"policies": [3]}, "policies must be names or policies, was 3"),
        ({"policies": None}, "policies must be a list of names or policies, was None"),
        ({"problem": 3}, "problem must be a Problem, was int"),
        ({"horizon": 10**30}, "horizon must be at most 1,000,000,000,000"),
        ({"method": "fast"}, "method must be one of auto, blocks, rounds, was 'fast'"),
        ({"spacing": "cubic"}, "spacing must be one of log, linear, both, was 'cubic'"),
        ({"checkpoints": 0}, "checkpoints must be a positive integer, was 0"),
    ],
)
def test_bad_input_is_named(small_problem: Problem, changes: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {
        "problem": Environment(small_problem),
        "policies": ["rise"],
        "horizon": 100,
        "runs": 1,
    } | changes
    with pytest.raises(InputError) as error:
        simulate(**arguments)
    assert message in str(error.value)


@pytest.mark.parametrize("seed", range(10))
def test_plans_are_cut_at_entries_and_stops(seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts, begin, stops = rng.integers(1, 9, rng.integers(1, 7)), int(rng.integers(0, 20)), rng.integers(0, 60, 8)
    before, lengths, entry = _block_cuts(counts, begin, stops)
    ends = begin + np.cumsum(counts)
    edges = sorted({begin, *ends.tolist(), *(stop for stop in stops.tolist() if begin < stop < ends[-1])})
    assert before.tolist() == edges[:-1]
    assert (before + lengths).tolist() == edges[1:]
    assert entry.tolist() == np.searchsorted(ends, edges[1:]).tolist()
