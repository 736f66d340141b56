"""Saved states that were damaged: a sentence says so, or the policy plays on; nothing crashes and nothing is misread."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import json
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from riskroute import (
    POLICIES,
    Actions,
    Allocations,
    Belief,
    Oracle,
    Policy,
    Setting,
    StateError,
    make_policy,
    restore_policy,
)
from riskroute.learning.actions import ActionSet

HORIZON = 100
SPLITS = Allocations(shares=3, slots=3)
ROWS = Actions(np.random.default_rng(0).standard_normal((6, 3)) / 4)

PARAMETERS: dict[str, dict[str, Any]] = {
    "discounted": {"halflife": 40.0},
    "sliding-window": {"window": 64},
    "change-test": {"check_every": 8},
}


def played(name: str, actions: ActionSet, rounds: int) -> Policy:
    """A policy in the middle of its play."""
    rng = np.random.default_rng(5)
    coef = rng.standard_normal(actions.dim)
    best = actions.best(coef)
    policy = Oracle(schedule=((0, best),)) if name == "oracle" else make_policy(name, **PARAMETERS.get(name, {}))
    policy.start(Setting(actions=actions, horizon=HORIZON), seed=3)
    for _ in range(rounds):
        action = policy.select()
        policy.update(action, float(actions.action_features(action) @ coef + rng.normal()))
    return policy


def play_on(policy: Policy) -> None:
    """Play a while."""
    rng = np.random.default_rng(6)
    for _ in range(min(policy.remaining, 12)):
        policy.update(policy.select(), float(rng.normal()))
    with contextlib.suppress(StateError):  # some cannot say before they have finished a plan
        policy.recommend()
    json.dumps(policy.state())


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths to everything within a JSON value; of a long list only the first and the last item."""
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*path, key))
    elif isinstance(value, list) and value:
        for key in {0, len(value) - 1}:
            yield from places(value[key], (*path, key))


def shortened(value: Any) -> Any:
    return value[:-1] if isinstance(value, list) and value else None


def lengthened(value: Any) -> Any:
    return [*value, value[-1]] if isinstance(value, list) and value else None


def with_a_key_less(value: Any) -> Any:
    return dict(list(value.items())[1:]) if isinstance(value, dict) and value else None


def with_a_key_more(value: Any) -> Any:
    return value | {"nonesuch": 1} if isinstance(value, dict) else None


def of_another_type(value: Any) -> Any:
    other = {"int64": "float64", "float64": "int64"}
    return {**value, "dtype": other[value["dtype"]]} if isinstance(value, dict) and "dtype" in value else None


def replaced_by(other: Any) -> Callable[[Any], Any]:
    def replaced(value: Any) -> Any:
        return copy.deepcopy(other) if type(other) is not type(value) or other != value else None

    replaced.__name__ = f"replaced by {other!r}"
    return replaced


REPLACEMENTS = (
    "x", 3, -1, 0, True, 1.5, -0.5, math.nan, math.inf, -math.inf, 1e300, 10**30, 2**63, [], {}, [[1.0], [2.0, 3.0]],
    {"array": [1.0], "dtype": "float64", "shape": [1]}, {"array": [1], "dtype": "object", "shape": [1]},
    {"array": "abc", "dtype": "<U3", "shape": []}, {"array": [], "dtype": "int64", "shape": [0, 10**20]},
    {"tally": [1]}, {"plan": {}}, {"belief": 3}, {"tuple": 3},
)  # fmt: skip
DAMAGE = (shortened, lengthened, with_a_key_less, with_a_key_more, of_another_type, *map(replaced_by, REPLACEMENTS))


def damaged(state: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every damage in every place of a state, with a name, unless it changes nothing."""
    for path in places(state):
        for damage in DAMAGE:
            whole = copy.deepcopy(state)
            *outer, last = path if path else (None,)
            at: Any = whole
            for key in outer:
                at = at[key]
            broken = damage(at[last] if path else whole)
            if broken is None:
                continue
            if path:
                at[last] = broken
            yield f"{'/'.join(map(str, path))} {damage.__name__}", whole if path else broken


@pytest.mark.parametrize("actions", [SPLITS, ROWS], ids=["splits", "rows"])
@pytest.mark.parametrize("name", POLICIES)
def test_a_damaged_state_is_refused_or_played_on(name: str, actions: ActionSet) -> None:
    for rounds in (2, 57):
        state = json.loads(json.dumps(played(name, actions, rounds).state()))
        play_on(restore_policy(copy.deepcopy(state), actions))
        refused = 0
        for what, broken in damaged(state):
            try:
                policy = restore_policy(broken, actions)
            except StateError as error:
                assert "\n" not in str(error), what
                refused += 1
            except Exception as error:
                raise AssertionError(f"{name}, {rounds} rounds, {what}: {error!r}") from error
            else:
                try:
                    play_on(policy)
                except Exception as error:
                    raise AssertionError(f"{name}, {rounds} rounds, {what}, played on: {error!r}") from error
        assert refused > 100
