"""The interface of policies: they propose plans and learn from tallies.

A *plan* is a list of actions with counts that is played without feedback. A policy implements `Policy.propose`, which
returns the next plan, and `Policy.observe`, which learns from the plan's tallies. The base class shortens plans to the
horizon, offers one round at a time by `Policy.select` and `Policy.update`, and saves a plain JSON state, even in the
middle of a plan. A restored policy makes the same decisions.

Constructors only store parameters. `Policy.start` begins an episode. Learned values are in fields declared with
`memory`, which make up the saved state.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from riskroute.core.arrays import Integers
from riskroute.core.errors import DataError, InputError, RiskrouteError, StateError
from riskroute.core.records import to_plain
from riskroute.core.seeding import seeded_generator
from riskroute.core.text import described, shown
from riskroute.core.validation import LARGEST, instance_of, real_number, validated_parameters
from riskroute.learning.actions import Action, ActionSet, as_action
from riskroute.learning.plan import LONGEST_HORIZON, Plan, Setting
from riskroute.learning.state_checks import LARGEST_SPREAD, Check, check_state_field, restored_state_field
from riskroute.learning.tally import Tallies, Tally


def memory(default: Any = None, check: Check | None = None) -> Any:
    """Declare a learned field of a policy: not a parameter, and part of its saved state.

    The field's annotation determines how a saved value is restored. It may consist of numbers, strings, arrays, tuples,
    lists, dictionaries and dataclasses of this package. ``check(name, value, policy)`` raises `InputError` for an
    invalid value in a restored state; for a list, it is called once per item.
    """
    metadata = {"memory": True, "check": check}
    return dataclasses.field(init=False, repr=False, compare=False, default=default, metadata=metadata)


@dataclass(kw_only=True)
class Policy(ABC):
    """Base class of all policies. Subclasses implement `propose`, `observe` and `recommend`; `begin` is optional."""

    name: ClassVar[str]
    state_version: ClassVar[int] = 1  # version of the format of saved states
    needs_list: ClassVar[bool] = False  # whether the policy needs a list of all actions
    needs_horizon: ClassVar[bool] = True  # whether the policy must know the number of rounds
    fixed_set: ClassVar[bool] = True  # whether the action set must be the same in every round
    waits: ClassVar[bool] = True  # whether the policy learns from complete plans only, see `riskroute.learning.tickets`
    unit_free: ClassVar[bool] = False  # whether decisions do not depend on the unit of rewards, see `in_units`

    _setting: Setting | None = dataclasses.field(init=False, repr=False, compare=False, default=None)
    played: int = memory(0)
    pending: Plan | None = memory(None)
    partial: list[Tally] = memory(None)  # if played by `update`: tallies of the pending plan, entry by entry

    def check_parameters(self) -> None:
        """Raise `InputError` for parameters that are inconsistent with each other or with the setting.

        Called when an episode begins or is restored, after the checks of single parameters declared with
        `riskroute.core.validation.parameter`.
        """

    def begin(self) -> None:
        """Initialise fields declared with `memory` at the start of an episode."""

    @abstractmethod
    def propose(self) -> Plan:
        """Return the next plan, of at least one round; the base class shortens it to the remaining horizon."""

    @abstractmethod
    def observe(self, tallies: Tallies) -> None:
        """Learn from the tallies of the finished plan or, after `conclude` or `offer`, of the rounds played."""

    @abstractmethod
    def recommend(self) -> Action:
        """Return the action that the policy would commit to now; raise `StateError` if it has learned too little."""

    def estimated_seconds(self, horizon: int, *, drawn_singly: bool) -> float:
        """Estimate the seconds that a simulated run takes on one core, for dividing work between processes.

        ``drawn_singly``: whether the environment draws every reward instead of one tally per plan entry.
        """
        return 1e-2 + (3e-7 * horizon if drawn_singly or self.needs_list else 0.0)

    def resume(self) -> None:
        """Recompute, after a restore, attributes that derive from the fields declared with `memory`."""

    @property
    def started(self) -> bool:
        """Whether an episode has begun."""
        return self._setting is not None

    @property
    def setting(self) -> Setting:
        """The setting of the running episode."""
        if self._setting is None:
            raise StateError(f"{self.name} has not been started: call start(setting) first")
        return self._setting

    @property
    def horizon(self) -> int:
        """Rounds of the episode; raises `InputError` if unlimited."""
        if self.setting.horizon is None:
            raise InputError(f"horizon must be given to {self.name}, was None")
        return self.setting.horizon

    @property
    def remaining(self) -> int:
        """Rounds left until the horizon; without one, until `LONGEST_HORIZON`."""
        return (LONGEST_HORIZON if self.setting.horizon is None else self.setting.horizon) - self.played

    def start(self, setting: Setting, seed: int | np.random.SeedSequence | None = 0) -> Self:
        """Begin a new episode and return the policy, for chaining."""
        self._prepare(instance_of("setting", setting, Setting, "a Setting"), seeded_generator(seed))
        self.begin()
        return self

    def _prepare(self, setting: Setting, rng: np.random.Generator) -> None:
        self._setting, self.rng = setting, rng
        for item in dataclasses.fields(self):
            if item.metadata.get("memory"):
                setattr(self, item.name, item.default)
        self.partial = []
        if self.needs_horizon and setting.horizon is None:
            raise InputError(f"horizon must be given to {self.name}, was None")
        validated_parameters(self)
        self.check_parameters()

    def plan(self) -> Plan:
        """Return the current plan; repeated calls return the same plan until its tallies are learned."""
        if self.pending is None:
            if self.remaining == 0:
                raise StateError(f"{self.name} has played all {self.played} rounds of its horizon")
            plan = self.propose()
            if plan.rounds == 0:
                raise StateError(f"{self.name} proposed a plan without rounds")
            self.pending = plan.fitted(self.remaining)
            self.partial = []
        return self.pending

    def learn(self, tallies: Tallies) -> None:
        """Learn from the tallies of the completed plan, one per entry, in the plan's order."""
        plan = self.plan()
        instance_of("tallies", tallies, Tallies, "Tallies")
        if not (_alike(tallies.actions, plan.actions) and _alike(tallies.counts, plan.counts)):
            raise InputError("tallies must match the plan's actions and counts, entry by entry")
        size, spread = float(np.abs(tallies.means).max()), float(tallies.spreads.max())
        if not (math.isfinite(size) and math.isfinite(spread) and tallies.spreads.min() >= 0):
            raise InputError("tallies must have finite means and finite, non-negative spreads")
        if max(size, math.sqrt(spread / plan.rounds)) > LARGEST:
            had = f"means up to {size:g} and spreads up to {spread:g}"
            raise InputError(f"rewards must be at most {LARGEST:g} in magnitude, had {had}")
        if self.partial:
            raise StateError("the current plan is played round by round: finish it with update()")
        self._finish(tallies)

    def conclude(self, tallies: Tallies | None) -> None:
        """End the current plan and learn from the rounds actually played, if any.

        `learn` and `update` require exactly the planned rounds. If decisions are concurrent, rewards may arrive late or
        never, or belong to actions other than the planned ones; see `riskroute.learning.tickets`.
        """
        if self.partial:
            raise StateError("the current plan is played round by round: finish it with update()")
        if tallies is None:
            self.pending = None
            return
        instance_of("tallies", tallies, Tallies, "Tallies")
        if not (len(tallies) and tallies.counts.min() > 0 and tallies.rounds <= self.remaining):
            was = tallies.counts.tolist()[:6]
            raise InputError(f"counts of tallies must be positive and sum to at most {self.remaining}, was {was}")
        if not self.setting.actions.contains(tallies.actions).all():
            raise InputError("actions of tallies must be members of the action set")
        self._finish(tallies)

    def _finish(self, tallies: Tallies) -> None:
        self.played += tallies.rounds
        self.pending = None
        self.partial = []
        self.observe(tallies)

    def select(self) -> Action:
        """Return the action of the next round."""
        plan = self.plan()
        return as_action(plan.actions[self._entry(plan)])

    def update(self, action: Action, reward: float) -> None:
        """Learn from the reward of the action that `select` returned."""
        plan = self.plan()
        entry = self._entry(plan)
        expected = as_action(plan.actions[entry])
        if not (isinstance(action, int | np.integer | tuple) and action == expected):
            raise InputError(f"action must be the one select() returned, {expected}, was {shown(action)}")
        reward = real_number("reward", reward, minimum=-LARGEST, maximum=LARGEST)
        if entry == len(self.partial):
            self.partial.append(Tally())
        self.partial[entry] = self.partial[entry].merge(Tally(1, reward, 0.0))
        if entry == len(plan.counts) - 1 and self.partial[entry].count == plan.counts[entry]:
            self._finish(Tallies.of(plan.actions, self.partial))

    def offer(self, actions: ActionSet) -> None:
        """Change the action set of the next round.

        Estimates remain valid, because the coefficients do not depend on the set. The current plan ends, and the policy
        learns from its rounds already played. Policies that need a fixed set raise `StateError`.
        """
        setting = self.setting
        instance_of("actions", actions, ActionSet, "an action set (riskroute.Actions)")
        if actions is setting.actions or actions.fingerprint == setting.actions.fingerprint:
            return
        if self.fixed_set:
            raise StateError(f"{self.name} needs the same action set in every round")
        if actions.dim != setting.actions.dim:
            raise InputError(f"actions must have dimension {setting.actions.dim} in every round, had {actions.dim}")
        if self.pending is not None and self.partial:
            self._finish(Tallies.of(self.pending.actions[: len(self.partial)], self.partial))
        self.pending = None
        self._setting = dataclasses.replace(setting, actions=actions)

    def _entry(self, plan: Plan) -> int:
        last = len(self.partial) - 1
        return last if last >= 0 and self.partial[last].count < plan.counts[last] else last + 1

    @property
    def parameters(self) -> dict[str, Any]:
        """Constructor arguments by name."""
        return {item.name: getattr(self, item.name) for item in dataclasses.fields(self) if item.init}

    def clone(self) -> Self:
        """Return an unstarted policy with the same parameters."""
        return type(self)(**self.parameters)

    def in_units(self, factor: float) -> Self:
        """Return an unstarted policy with the same parameters, for rewards multiplied by ``factor``.

        The setting must be converted too: the risk tolerance times ``factor``, the base variance times its square. A
        ``unit_free`` policy then makes the same decisions.
        """
        return self.clone()

    def state(self) -> dict[str, Any]:
        """Return the complete state as plain JSON values."""
        setting = self.setting
        return {
            "version": self.state_version,
            "policy": self.name,
            "parameters": to_plain(self.parameters),
            "setting": {
                "actions": setting.actions.fingerprint,
                "horizon": setting.horizon,
                "risk_tolerance": setting.risk_tolerance,
                "base_variance": setting.base_variance,
            },
            "random": self.rng.bit_generator.state,
            "memory": {
                item.name: to_plain(getattr(self, item.name))
                for item in dataclasses.fields(self)
                if item.metadata.get("memory")
            },
        }

    @classmethod
    def restore(cls, state: dict[str, Any], actions: ActionSet) -> Self:
        """Rebuild the policy from a saved state, over the same action set."""
        if not isinstance(state, dict):
            raise StateError(f"state must be a dictionary that state() returned, was {described(state)}")
        instance_of("actions", actions, ActionSet, "an action set (riskroute.Actions)")
        for key, expected in (("version", cls.state_version), ("policy", cls.name)):
            if state.get(key) != expected:
                raise StateError(f"state {key} must be {expected!r}, was {state.get(key)!r}")
        try:
            return cls._rebuilt(state, actions)
        except (KeyError, TypeError, AttributeError, InputError, DataError) as error:
            what = str(error) if isinstance(error, RiskrouteError) else repr(error)
            raise StateError(f"state of {cls.name} must be one that state() returned: {what}") from error

    @classmethod
    def _rebuilt(cls, state: dict[str, Any], actions: ActionSet) -> Self:
        saved = dict(instance_of("setting", state["setting"], dict, "a dictionary"))
        if (there := saved.pop("actions")) != actions.fingerprint:
            raise StateError(f"state must belong to the action set {actions.fingerprint}, belonged to {there}")
        given = instance_of("parameters", state["parameters"], dict, "a dictionary")
        expected = {item.name for item in dataclasses.fields(cls) if item.init}
        if set(given) != expected:
            raise StateError(f"state parameters must be {sorted(expected)}, were {sorted(given)}")
        policy = cls(**{name: restored_state_field(cls, name, value) for name, value in given.items()})
        policy._prepare(Setting(actions=actions, **saved), _as_saved(state["random"]))
        fields = {item.name: item for item in dataclasses.fields(cls) if item.metadata.get("memory")}
        given = instance_of("memory", state["memory"], dict, "a dictionary")
        if set(given) != set(fields):
            raise StateError(f"state memory must hold {sorted(fields)}, had {sorted(given)}")
        most = policy.remaining
        for name, item in fields.items():  # in declaration order: later checks need `played`
            value = restored_state_field(cls, name, given[name])
            if name == "played" and not 0 <= value <= most:
                raise StateError(f"played must be from 0 to {most}, was {value}")
            check_state_field(name, value, policy, item.metadata["check"])
            setattr(policy, name, value)
        policy._check_partial()
        policy.resume()
        return policy

    def _check_partial(self) -> None:
        """Raise `InputError` unless the tallies match the first plan entries, all complete except the last."""
        planned = [] if self.pending is None else self.pending.counts.tolist()
        if len(self.partial) > len(planned):
            raise InputError(f"partial must have at most {len(planned)} entries, had {len(self.partial)}")
        for place, entry in enumerate(self.partial):
            last = place == len(self.partial) - 1
            least = 1 if last else planned[place]
            most = planned[place] - (place == len(planned) - 1)  # a completed plan is no longer pending
            if not least <= entry.count <= most:
                raise InputError(
                    f"counts of partial must follow the plan, was {entry.count} of {planned[place]} at entry {place}"
                )
            real_number("a mean of partial", entry.mean, minimum=-LARGEST, maximum=LARGEST)
            real_number("a spread of partial", entry.spread, minimum=0, maximum=LARGEST_SPREAD)


def _alike(first: Integers, second: Integers) -> bool:
    """Return whether two arrays are equal; the common case of one and the same array needs no comparison."""
    return first is second or np.array_equal(first, second)


def _as_saved(state: Any) -> np.random.Generator:
    """Return a random generator with a saved state."""
    rng = np.random.default_rng(0)
    try:
        rng.bit_generator.state = state
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InputError(f"random must be a saved generator, was {described(state)} ({error!r})") from None
    return rng
