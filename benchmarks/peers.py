"""Rounds per second of an index policy with 1,287 arms, next to other bandit libraries.

All play 8 shares over 6 slots with the same Gaussian rewards, and learn after every round. The contestants:

- riskroute kernel: RiskUCB (MV-LCB) through `riskroute.simulate`; its rate includes drawing the rewards, the first
  K rounds and recording the regret curve.
- riskroute round by round: the same through ``select`` and ``update``, as a live router would.
- river, MV-LCB: the same policy on river's own extension points, a subclass of ``river.bandit.base.Policy`` with its
  running variance as reward statistic. Only the index of the arm just played changes, so it is computed in ``update``.
- river, UCB1: its own ``river.bandit.UCB``.
- bayesianbandits, MV-LCB: the same policy as an object of its documented policy protocol, with its
  ``NormalInverseGammaRegressor`` (a nearly flat prior) as learner of every arm, and the index computed in ``update``.
- bayesianbandits, its own ``UpperConfidenceBound`` with default settings, a quantile of 1,000 posterior draws.
- MABWiser, UCB1: custom policies are not supported, so its ``UCB1`` with ``partial_fit`` after every round.

The peers' rewards use noise drawn beforehand, and only the arms are recorded: the peers' rates exclude work that our
rates include. The script checks that peers with MV-LCB choose the same arms as the kernel. All are timed in turn,
several times; a turn ends after a given number of rounds or seconds, and the next turn continues from there. The first
K rounds of peers are not timed. Target: the median rate of the kernel is at least 100 times that of the fastest peer.
Peers that are not installed are named and omitted.
"""

from __future__ import annotations

import importlib.util
import math
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from riskroute import Environment, random_routing_problem, simulate
from riskroute.policies import RiskUcb
from riskroute.simulation.runner import _index_episode
from timing import REPEATS, leave, print_heading, print_table, progress, quick, say, sized, verdict

SHARES, SLOTS = sized((8, 6), (4, 4))
HORIZON = sized(100_000, 2000)
TARGET_RATIO = 100.0
KERNEL_RUNS = sized(10, 2)
ROUND_BY_ROUND_HORIZON = sized(10_000, 200)
TURN_ROUNDS, TURN_SECONDS = sized((2000, 3.0), (100, 0.3))


class BayesianMeanVarianceBound:
    """MV-LCB as a policy for bayesianbandits' ``Agent``; arms are numbered by their action tokens."""

    prior_rate = 1e-9

    def __init__(self, n_arms: int, bonus: float, risk_tolerance: float) -> None:
        self.index = np.full(n_arms, -np.inf)
        self.counts = [0] * n_arms
        self.bonus = bonus
        self.risk_tolerance = risk_tolerance

    def learner(self) -> Any:
        """Return an estimator of one arm whose posterior is, to rounding, its sample mean and variance."""
        import bayesianbandits

        return bayesianbandits.NormalInverseGammaRegressor(lam=1e-9, a=1e-9, b=self.prior_rate)

    def __call__(self, arms: list[Any], X: Any, rng: Any, top_k: int | None = None) -> list[Any]:  # noqa: N803 - the peer's name for it
        return [arms[self.index.argmin()]]

    def update(
        self,
        arm: Any,
        X: Any,  # noqa: N803 - the peer's name for it
        y: NDArray[np.float64],
        all_arms: list[Any],
        rng: Any,
        sample_weight: Any = None,
    ) -> None:
        """Update the arm's learner, and its index."""
        arm.update(X, y, sample_weight)
        token = arm.action_token
        count = self.counts[token] = self.counts[token] + 1
        variance = 2 * (arm.learner.b_ - self.prior_rate) / count
        self.index[token] = variance - self.risk_tolerance * arm.learner.coef_[0] - self.bonus / math.sqrt(count)


@dataclass(frozen=True)
class Game:
    """The common problem, with the noise of every round drawn beforehand."""

    means: list[float]
    deviations: list[float]
    noise: NDArray[np.float64]
    bonus: float
    risk_tolerance: float

    @classmethod
    def of(cls, environment: Environment) -> Game:
        """Return a game with the arms of an environment, and noise with seed 0."""
        means, deviations, _ = environment.table(0)
        bonus = RiskUcb().start(environment.setting(HORIZON)).bonus_at(0)
        noise = np.random.default_rng(0).standard_normal(HORIZON)
        return cls(means.tolist(), deviations.tolist(), noise, bonus, environment.risk_tolerance)

    @property
    def arms(self) -> range:
        """The arms in the order of the first K rounds."""
        return range(len(self.means))

    def first_rewards(self) -> list[float]:
        """Rewards of the first K rounds, in which every arm is played once."""
        return [self.means[k] + self.deviations[k] * float(self.noise[k]) for k in self.arms]

    def kernel_arms(self) -> list[int]:
        """Arms that the kernel plays on the same noise."""
        tables = np.array([self.means]), np.array([self.deviations])
        pieces, bonuses = np.zeros(len(self.noise), dtype=np.int64), np.full(len(self.noise), self.bonus)
        arms: list[int] = _index_episode(*tables, pieces, self.noise, bonuses, self.risk_tolerance)[0].tolist()
        return arms


@dataclass
class Peer:
    """A library after its first K rounds: its choice and update, the arms played, and its rate in every turn."""

    label: str
    policy: str
    choose: Callable[[], int]
    learn: Callable[[int, float], None]
    same_policy: bool
    played: list[int]
    rates: list[float] = field(default_factory=list)

    def turn(self, game: Game) -> None:
        """Play `TURN_ROUNDS` further rounds, or fewer within `TURN_SECONDS`; record the rate."""
        choose, learn, played = self.choose, self.learn, self.played
        means, deviations = game.means, game.deviations
        before = len(played)
        noise = game.noise[before : before + TURN_ROUNDS].tolist()
        began = time.perf_counter()
        deadline = began + TURN_SECONDS
        for shock in noise:
            arm = choose()
            learn(arm, means[arm] + deviations[arm] * shock)
            played.append(arm)
            if time.perf_counter() > deadline:
                break
        self.rates.append((len(played) - before) / (time.perf_counter() - began))


def river_peers(game: Game) -> list[Peer]:
    """Return two policies of river, the second its own."""
    from river import bandit, stats

    class MeanVarianceBound(bandit.base.Policy):  # type: ignore[misc]  # river has no types
        """MV-LCB in river: play the arm with the lowest confidence bound on its mean-variance."""

        def __init__(self, bonus: float, risk_tolerance: float) -> None:
            super().__init__(reward_obj=stats.Var(ddof=0))
            self.bonus = bonus
            self.risk_tolerance = risk_tolerance
            self._index: defaultdict[Any, float] = defaultdict(lambda: -math.inf)

        def _pull(self, arm_ids: Any) -> Any:
            return min(arm_ids, key=self._index.__getitem__)

        def update(self, arm_id: Any, *reward_args: Any, **reward_kwargs: Any) -> None:
            super().update(arm_id, *reward_args, **reward_kwargs)
            reward = self._rewards[arm_id]
            self._index[arm_id] = (
                reward.get() - self.risk_tolerance * reward.mean.get() - self.bonus / math.sqrt(self._counts[arm_id])
            )

    peers = []
    for policy, description, same in (
        (MeanVarianceBound(game.bonus, game.risk_tolerance), "MV-LCB (subclass)", True),
        (bandit.UCB(delta=1, seed=0), "UCB1 (its own)", False),
    ):
        for arm, reward in zip(game.arms, game.first_rewards(), strict=True):
            policy.update(arm, reward)
        pull = partial(policy.pull, game.arms)
        peers.append(Peer("river", description, pull, policy.update, same, list(game.arms)))
    return peers


def bayesian_peers(game: Game) -> list[Peer]:
    """Return two policies of bayesianbandits, the second its own."""
    import bayesianbandits

    bound = BayesianMeanVarianceBound(len(game.arms), game.bonus, game.risk_tolerance)
    quantile = bayesianbandits.UpperConfidenceBound()
    default_learner = bayesianbandits.NormalInverseGammaRegressor
    peers = []
    for policy, learner, description, same in (
        (bound, bound.learner, "MV-LCB (policy protocol)", True),
        (quantile, default_learner, "posterior quantile (its own)", False),
    ):
        arms = [bayesianbandits.Arm(k, learner=learner()) for k in game.arms]
        agent = bayesianbandits.Agent(arms, policy, random_seed=0)
        for arm, reward in zip(game.arms, game.first_rewards(), strict=True):
            agent.select_for_update(arm).update(np.array([reward]))

        def pull(agent: Any = agent) -> int:
            return int(agent.pull()[0])

        def update(arm: int, reward: float, agent: Any = agent) -> None:  # the arm is the one pulled last
            agent.update(np.array([reward]))

        peers.append(Peer("bayesianbandits", description, pull, update, same, list(game.arms)))
    return peers


def mabwiser_peers(game: Game) -> list[Peer]:
    """Return UCB1 of MABWiser with one job; two jobs are more than ten times slower here."""
    from mabwiser.mab import MAB, LearningPolicy

    mab = MAB(list(game.arms), LearningPolicy.UCB1(alpha=1.0), seed=0, n_jobs=1)
    mab.fit(list(game.arms), game.first_rewards())

    def update(arm: int, reward: float) -> None:
        mab.partial_fit([arm], [reward])

    return [Peer("MABWiser", "UCB1 (its own)", mab.predict, update, False, list(game.arms))]


PEERS = {"river": river_peers, "bayesianbandits": bayesian_peers, "mabwiser": mabwiser_peers}


def measure(environment: Environment, peers: list[Peer], game: Game) -> tuple[list[float], list[float]]:
    """Time all in turn; return the rates of the kernel and of the round-by-round path."""
    kernel_rates, round_rates = [], []

    def rate(horizon: int, runs: int, method: str) -> float:
        began = time.perf_counter()
        simulate(environment, ["risk-ucb"], horizon, runs, method=method)
        return horizon * runs / (time.perf_counter() - began)

    rate(2000, 1, "auto")  # compile
    rate(2000, 1, "rounds")
    for repeat in range(REPEATS):
        began = time.perf_counter()
        kernel_rates.append(rate(HORIZON, KERNEL_RUNS, "auto"))
        round_rates.append(rate(ROUND_BY_ROUND_HORIZON, 1, "rounds"))
        for peer in peers:
            peer.turn(game)
        progress(f"   repeat {repeat + 1} of {REPEATS}: {time.perf_counter() - began:.0f} s")
    return kernel_rates, round_rates


def main() -> None:
    packages = ("riskroute", "numpy", "numba", "river", "bayesianbandits", "mabwiser", "scikit-learn", "joblib")
    print_heading("Rounds per second next to other bandit libraries", packages)
    environment = Environment(random_routing_problem(SHARES, SLOTS, seed=0))
    game = Game.of(environment)
    say(f"{SHARES} shares over {SLOTS} slots, {len(game.arms):,} arms")
    peers = []
    for package, make in PEERS.items():
        if importlib.util.find_spec(package) is None:
            say(f"{package} is not installed and is left out")
        else:
            peers += make(game)
    kernel_rates, round_rates = measure(environment, peers, game)
    expected = game.kernel_arms()
    for peer in peers:
        if peer.same_policy and peer.played != expected[: len(peer.played)]:
            raise AssertionError(f"{peer.label}, {peer.policy}, played other arms than the kernel")

    kernel = statistics.median(kernel_rates)

    def row(label: str, policy: str, rates: list[float], rounds: int) -> list[str]:
        median = statistics.median(rates)
        return [label, policy, f"{rounds:,}", f"{median:,.0f}", f"{max(rates):,.0f}", f"{kernel / median:,.1f}x"]

    rows = [
        row("riskroute kernel", "MV-LCB (risk-ucb)", kernel_rates, REPEATS * KERNEL_RUNS * HORIZON),
        row("riskroute round by round", "MV-LCB (risk-ucb)", round_rates, REPEATS * ROUND_BY_ROUND_HORIZON),
        *(row(peer.label, peer.policy, peer.rates, len(peer.played) - len(game.arms)) for peer in peers),
    ]
    if peers:
        say("MV-LCB rows play the same arms as the kernel: checked")
    print_table(["library", "policy", "rounds timed", "rounds/s, median", "fastest", "kernel is faster by"], rows, 2)
    if not peers:
        say("no peer is installed: nothing to compare with")
        leave([quick()])
    fastest = max(peers, key=lambda peer: statistics.median(peer.rates))
    ratio = kernel / statistics.median(fastest.rates)
    holds = ratio >= TARGET_RATIO
    say(
        f"kernel over the fastest peer ({fastest.label}, {fastest.policy}): {ratio:,.0f}x, "
        f"target at least {TARGET_RATIO:g}x: {verdict(holds)}"
    )
    leave([], [holds])


if __name__ == "__main__":
    with threadpool_limits(1, "blas"):  # for the peers too, as simulate() does for ours
        main()
