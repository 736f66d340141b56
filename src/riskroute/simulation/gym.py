"""Routing as gymnasium environments: ``riskroute/Synthetic-v0`` and ``riskroute/Replay-v0``.

Importing this module registers both environments; ``gymnasium.make("riskroute.simulation.gym:riskroute/Replay-v0")``
imports the module first. An episode has ``horizon`` orders of the same size, one per step. The action is the split of
an order, the reward its profit. The objective is the mean-variance of the rewards, not their sum: ``info`` has the
regret so far, computed as in `riskroute.simulate`.

>>> env = gymnasium.make("riskroute/Synthetic-v0", shares=4, slots=3, horizon=100)
>>> env.action_space, env.observation_space.shape
(Discrete(15), (7,))
>>> observation, info = env.reset(seed=1)
>>> observation, reward, terminated, truncated, info = env.step(0)
>>> info["allocation"].tolist(), round(reward, 4), round(info["mean"], 4), round(info["variance"], 4)
([0, 0, 4], 0.8416, 0.5061, 0.9421)
"""

from __future__ import annotations

import datetime as dt
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from riskroute.core.arrays import Vector
from riskroute.core.errors import InputError, StateError
from riskroute.core.runtime import require_extra
from riskroute.core.text import count_text
from riskroute.core.validation import one_of, whole_number
from riskroute.learning.actions import Action, ActionSet, as_action, as_batch
from riskroute.learning.plan import LONGEST_HORIZON, Setting
from riskroute.learning.tally import Tally
from riskroute.market.clock import TimeWindow
from riskroute.market.dark_pools import DarkPool
from riskroute.market.importing import import_books
from riskroute.market.scenarios import ScenarioSlot, draw_scenarios
from riskroute.market.synthetic.venues import DEFAULT_VENUES
from riskroute.routing.allocations import Allocations
from riskroute.routing.instances import random_routing_problem
from riskroute.routing.splits import COMFORTABLE_LIST
from riskroute.routing.venue_models import venue_problem
from riskroute.simulation.environments import Environment, EnvironmentRun
from riskroute.simulation.replay import Replay

require_extra("gymnasium environments", "gym", "gymnasium")

import gymnasium  # noqa: E402 - whether it is installed is checked first

_HORIZON = 1000


class RoutingEnv(gymnasium.Env[Vector, Any]):
    """A riskroute environment as a gymnasium environment, one order per step.

    An observation holds the elapsed fraction of the horizon, the last reward, mean and variance of the rewards so far,
    and the last allocation as fractions of the order, ``(slots,)``. All are zero before the first step. ``info`` of a
    step has the ``allocation`` in shares, its true ``mean`` and ``variance``, its ``gap`` to the best split's
    mean-variance, and the ``regret`` so far. ``info`` of a reset has the ``best`` split.

    ``environment`` must have one action set: ``allocations``, or a list of its splits. Observed rewards and means are
    clipped to ``reach`` in absolute value, variances to its square. An episode is truncated after ``horizon`` steps. If
    ``action_mode`` is ``discrete``, an action is the number of a split in lexicographic order, for up to 200,000
    splits. If it is ``weights``, an action is one weight from 0 to 1 per slot, rounded to a split by
    `Allocations.apportion`.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - the base class declares an instance attribute

    def __init__(
        self, environment: Environment, allocations: Allocations, reach: float, *, horizon: int, action_mode: str
    ) -> None:
        self.environment, self.allocations = environment, allocations
        self.horizon = whole_number("horizon", horizon, maximum=LONGEST_HORIZON)
        self.action_mode = one_of("action_mode", action_mode, ("discrete", "weights"))
        if action_mode == "discrete" and allocations.size > COMFORTABLE_LIST:
            raise InputError(
                f"action_mode must be weights for more than {COMFORTABLE_LIST:,} splits, "
                f"was 'discrete' for {count_text(allocations.size)}"
            )
        slots = allocations.slots
        self.action_space = (
            gymnasium.spaces.Discrete(allocations.size)
            if action_mode == "discrete"
            else gymnasium.spaces.Box(0.0, 1.0, (slots,), dtype=np.float64)
        )
        largest = reach or 1.0  # a reach of 0 would give observations a range of zero width
        self._low = np.concatenate([[0.0, -largest, -largest, 0.0], np.zeros(slots)])
        self._high = np.concatenate([[1.0, largest, largest, largest**2], np.ones(slots)])
        self.observation_space = gymnasium.spaces.Box(self._low, self._high, dtype=np.float64)
        self._rewards: EnvironmentRun | None = None
        self._seen = Tally()

    def setting(self) -> Setting:
        """Return the `Setting` to start a riskroute policy with; `encode` converts its actions for `step`."""
        return self.environment.setting(self.horizon)

    def encode(self, action: Action) -> Any:
        """Return the gymnasium action that plays ``action``, a split in the environment's action set."""
        lattice, shares = self.allocations.lattice, np.asarray(action)
        if shares.shape != (self.allocations.slots,) or not self.allocations.contains(shares[None])[0]:
            raise InputError(f"action must be a split of {self.allocations}, was {action!r}")
        units = shares // self.allocations.lot
        if self.action_mode == "discrete":
            return lattice.rank(units)
        return np.asarray((units - lattice.lows) / max(lattice.free, 1))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Vector, dict[str, Any]]:
        """Start an episode; ``options`` must be empty."""
        if options:
            raise InputError(f"options are not supported, was {options!r}")
        super().reset(seed=seed)
        self._rewards, self._seen = self.environment.run(self.np_random), Tally()
        best = self.environment.comparators[0]
        return self._observed(0.0, np.zeros(self.allocations.slots)), {"best": np.array(best)}

    def step(self, action: Any) -> tuple[Vector, float, bool, bool, dict[str, Any]]:
        """Split one order as ``action`` says; return observation, reward, terminated, truncated and ``info``."""
        if self._rewards is None or self._seen.count == self.horizon:
            raise StateError(f"call reset() first: the episode is at step {self._seen.count} of {self.horizon}")
        handle = self._handle(action)
        mean, deviation, gap = (float(one[0]) for one in self.environment.outcomes(as_batch(handle)))
        reward = self._rewards.reward(handle)
        self._seen = self._seen.merge(Tally(1, reward, 0.0))
        allocation = np.array(handle)
        info = {"allocation": allocation, "mean": mean, "variance": deviation**2, "gap": gap, "regret": self._regret()}
        observation = self._observed(reward, allocation / self.allocations.shares)
        return observation, reward, False, self._seen.count == self.horizon, info

    def _handle(self, action: Any) -> Action:
        lattice, lot = self.allocations.lattice, self.allocations.lot
        if self.action_mode == "discrete":
            number = whole_number("action", action, minimum=0, maximum=lattice.size - 1)
            return as_action(lattice.unrank(number) * lot)
        return self.allocations.apportion(action)

    def _observed(self, reward: float, fractions: Vector) -> Vector:
        seen = self._seen
        numbers = [seen.count / self.horizon, reward, seen.mean, seen.spread / max(seen.count, 1)]
        return np.asarray(np.clip(np.concatenate([numbers, fractions]), self._low, self._high))

    def _regret(self) -> float:
        """Return the mean-variance of the rewards so far minus its expectation under the best split."""
        seen = self._seen
        expected = self.environment.expected_comparator(np.array([seen.count]))[0]
        return float(seen.spread - self.environment.risk_tolerance * seen.count * seen.mean - expected)


class SyntheticRoutingEnv(RoutingEnv):
    """``riskroute/Synthetic-v0``: a random instance of the paper's synthetic experiments, with Gaussian rewards.

    ``instance`` is the ``seed`` of `random_routing_problem`. ``risk_tolerance`` is the weight of the mean against the
    variance in gaps and regret. The other parameters are as in `RoutingEnv`.
    """

    def __init__(
        self,
        shares: int = 4,
        slots: int = 4,
        instance: int = 0,
        *,
        risk_tolerance: float = 2.0,
        horizon: int = _HORIZON,
        action_mode: str = "discrete",
    ) -> None:
        allocations = Allocations(shares, slots)
        whole_number("instance", instance, minimum=0)
        problem = random_routing_problem(shares, slots, instance, risk_tolerance=risk_tolerance)
        environment, best = Environment(problem), problem.actions.best
        extremes = as_batch(best(problem.mean_coef), best(-problem.mean_coef), best(-problem.var_coef))
        mean, deviation = environment.moments(extremes)
        reach = float(np.abs(mean).max() + 40 * deviation.max())
        super().__init__(environment, allocations, reach, horizon=horizon, action_mode=action_mode)


class ReplayRoutingEnv(RoutingEnv):
    """``riskroute/Replay-v0``: profits of splits in recorded scenarios.

    The actions of ``replay`` must be all splits within some caps, minimums and lot; default: twenty minutes of the
    synthetic market. The other parameters are as in `RoutingEnv`.
    """

    def __init__(self, replay: Replay | None = None, *, horizon: int = _HORIZON, action_mode: str = "discrete") -> None:
        if replay is not None and not isinstance(replay, Replay):
            raise InputError(f"replay must be a Replay or None, was {replay!r}")
        chosen = _synthetic_replay() if replay is None else replay
        allocations = _allocations(chosen.actions)
        reach = float(np.nanmax(np.abs(chosen.profits), axis=(1, 2)).sum())
        super().__init__(chosen, allocations, reach, horizon=horizon, action_mode=action_mode)


def _allocations(actions: ActionSet) -> Allocations:
    if isinstance(actions, Allocations):
        return actions
    splits = actions.listed().handles
    lot = int(np.gcd.reduce(splits, axis=None))
    caps, minimums = splits.max(axis=0).tolist(), splits.min(axis=0).tolist()
    whole = Allocations(int(splits[0].sum()), splits.shape[1], lot, caps, minimums)
    if whole.size != actions.size:
        expected = f"all {whole.size:,} splits within its caps and minimums"
        raise InputError(f"replay must be over {expected}, was over {actions.size:,}")
    return whole


@cache
def _synthetic_replay() -> Replay:
    """Return a replay of twenty minutes of the synthetic market: 10 shares, three lit venues, two dark pools."""
    first = DEFAULT_VENUES[0].name
    pools = DarkPool(0.3, 1.0, name="Dark 1"), DarkPool(0.6, 1.5, fee=0.03, name="Dark 2")
    slots = [
        *(ScenarioSlot(venue.name) for venue in DEFAULT_VENUES),
        *(ScenarioSlot(first, "dark", pool) for pool in pools),
    ]
    shares, end = 10, dt.time(11, 20)
    window = TimeWindow(dt.time(11, 2), end, buckets=18)  # skips the first two minutes, in which the books fill
    with tempfile.TemporaryDirectory() as folder:
        books = import_books(None, None, Path(folder), 0, hours=(dt.time(11, 10), end))
        scenarios = draw_scenarios(books.store, books.symbol, slots, shares, window, repeats=20)
    caps = scenarios.caps()
    models, _ = scenarios.models(caps, seed=0)
    problem = venue_problem(models, shares, caps=caps.tolist(), base_variance=0.0)
    return Replay(problem, *scenarios.replayed(caps))


for _name, _class in (("Synthetic", SyntheticRoutingEnv), ("Replay", ReplayRoutingEnv)):
    if f"riskroute/{_name}-v0" not in gymnasium.registry:
        gymnasium.register(f"riskroute/{_name}-v0", entry_point=f"{__name__}:{_class.__name__}")
