"""Saved states that were damaged: one sentence says so, or the policy plays on; nothing crashes."""

from __future__ import annotations

import contextlib
import copy
import itertools
import json
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from riskroute import POLICIES, Actions, Allocations, Policy, Setting, StateError, make_policy, restore_policy
from riskroute.learning.actions import ActionSet
from riskroute.policies import Oracle

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
    for _ in range(min(policy.remaining, 6)):
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


REPLACEMENTS: tuple[Any, ...] = (
    "x", 3, -1, 0, True, 1.5, -0.5, math.nan, math.inf, -math.inf, 1e300, 10**30, 2**63, [], {}, [[1.0], [2.0, 3.0]],
    {"array": [1.0], "dtype": "float64", "shape": [1]}, {"array": [1], "dtype": "object", "shape": [1]},
    {"array": "abc", "dtype": "<U3", "shape": []}, {"array": [], "dtype": "int64", "shape": [0, 10**20]},
    {"count": 1}, {"actions": {}}, {"mean_coef": 3},
)  # fmt: skip

STRUCTURAL = (shortened, lengthened, with_a_key_less, with_a_key_more, of_another_type)
OTHER = tuple(map(replaced_by, REPLACEMENTS))
AT_EACH_PLACE = 2  # of the replacements, in turn: all of them would take minutes


def damaged(state: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The same state damaged in one place after the other, in place, with a name for each damage."""
    turn = itertools.cycle(OTHER)
    whole = {"state": state}
    for path in places(state, ("state",)):
        *outer, last = path
        at: Any = whole
        for key in outer:
            at = at[key]
        sound = at[last]
        for damage in (*STRUCTURAL, *itertools.islice(turn, AT_EACH_PLACE)):
            broken = damage(sound)
            if broken is not None:
                at[last] = broken
                yield f"{'/'.join(map(str, path))} {damage.__name__}", whole["state"]
        at[last] = sound


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("name", POLICIES)
def test_a_damaged_state_is_refused_or_played_on(name: str) -> None:
    actions = (SPLITS, ROWS)[len(name) % 2]
    for rounds in (2, 57):
        state = json.loads(json.dumps(played(name, actions, rounds).state()))
        play_on(restore_policy(state, actions))
        cases, refused = 0, 0
        for what, broken in damaged(state):
            cases += 1
            try:
                play_on(restore_policy(broken, actions))
            except StateError as error:
                refused += 1
                message = str(error)
            except Exception as error:
                raise AssertionError(f"{name} after {rounds} rounds, {what}: {error!r}") from error
            else:
                message = ""
            assert "\n" not in message, what
        assert refused > 0.8 * cases


def state_of(name: str, actions: ActionSet) -> dict[str, Any]:
    state: dict[str, Any] = json.loads(json.dumps(played(name, actions, 57).state()))
    return state


def saved(entries: list[Any]) -> dict[str, Any]:
    array = np.array(entries)
    return {"array": entries, "dtype": array.dtype.name, "shape": list(array.shape)}


@pytest.mark.parametrize(
    ("name", "field", "broken", "message"),
    [
        ("risk-ucb", "means", saved([0.5]), r"means must have shape \(6,\), was \(1,\)"),
        ("risk-ucb", "counts", saved([9.5] * 6), "dtype of an array must be int64"),
        ("risk-ucb", "counts", saved([9] * 6), r"counts must be non-negative and sum to 57, was \[9, 9"),
        ("adaptive", "vague", saved([[1.0]]), r"vague must have shape \(3, 3\), was \(1, 1\)"),
        ("rise", "committed", 6, "committed must belong to the action set"),
        ("rise", "played", 101, "played must be from 0 to 100, was 101"),
        (
            "uniform",
            "partial",
            [{"count": 2, "mean": 0.0, "spread": 0.0}],
            "counts of partial must follow the plan, was 2 of 1 at entry 0",
        ),
    ],
)
def test_the_damage_is_named(name: str, field: str, broken: Any, message: str) -> None:
    state = state_of(name, ROWS)
    state["memory"][field] = broken
    with pytest.raises(StateError, match=message):
        restore_policy(state, ROWS)


def test_a_state_without_a_parameter_is_refused() -> None:
    state = state_of("discounted", ROWS)
    del state["parameters"]["halflife"]
    with pytest.raises(StateError, match=r"state parameters must be .*'halflife'"):
        restore_policy(state, ROWS)


@pytest.mark.parametrize("state", [None, 3, "x", [], {}, {"policy": ["rise"]}, {"policy": "rise"}])
def test_what_is_no_state_is_refused(state: Any) -> None:
    with pytest.raises(StateError):
        restore_policy(state, ROWS)
    with pytest.raises(StateError):
        POLICIES["rise"].restore(state, ROWS)
