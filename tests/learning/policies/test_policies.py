"""Every policy by name, and every mode, through the shared check suite."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from riskroute import (
    POLICIES,
    Actions,
    InputError,
    Plan,
    Policy,
    Setting,
    StateError,
    Tallies,
    check_policy,
    make_policy,
    restore_policy,
)
from riskroute.core.errors import CheckError
from riskroute.policies import Oracle, RestartGse, Rise, RisePlusPlus, RiskUcb
from riskroute.simulation.checks import _easy_problem

BEST = _easy_problem().best

CASES: dict[str, Policy] = {
    **{name: make_policy(name) for name in POLICIES if name != "oracle"},
    "oracle": Oracle(schedule=((0, BEST),)),
    "rise theory": Rise(mode="theory"),
    "rise theory, accurate": Rise(mode="theory", constant=0.05, epsilon=0.5),
    "rise corrected": Rise(corrected=True),
    "rise++ theory": RisePlusPlus(mode="theory"),
    "rise++ corrected": RisePlusPlus(corrected=True),
    "restart-gse theory": RestartGse(mode="theory"),
    "restart-gse mean-variance": RestartGse(objective="mean-variance"),
    "risk-ucb other constants": RiskUcb(scale=2.0, divisor=1.0, delta=0.01),
}
# Uniform play cannot beat itself; with the theory's constants exploration outlasts the easy case's horizon.
CANNOT_LEARN = {"uniform", "rise theory", "rise++ theory", "restart-gse theory"}


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("case", CASES)
def test_passes_the_shared_checks(case: str) -> None:
    check_policy(CASES[case], learns=case not in CANNOT_LEARN)


def test_registry_covers_every_policy_of_the_package() -> None:
    def below(kind: type[Policy]) -> set[type[Policy]]:
        return {kind}.union(*map(below, kind.__subclasses__()))

    kinds = below(Policy)  # type: ignore[type-abstract]  # its subclasses are meant
    ours = {kind.name for kind in kinds if kind.__module__.startswith("riskroute.") and hasattr(kind, "name")}
    assert ours == set(POLICIES)


def test_unknown_name_offers_the_nearest() -> None:
    with pytest.raises(InputError, match=r"policy must be one of rise, .*was 'risk-ucbb' \(did you mean risk-ucb\?\)"):
        make_policy("risk-ucbb")


def test_unknown_parameter_is_named() -> None:
    with pytest.raises(InputError, match="explore_multipler"):
        make_policy("rise", explore_multipler=3)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (Rise(mode="pratical"), "mode must be one of practical, theory, was 'pratical'"),
        (Rise(explore_multiplier=-1), "explore_multiplier must be a number above 0, was -1"),
        (Rise(mode="theory", delta=2.0), "delta must be a number above 0 and below 1, was 2.0"),
        (Rise(mode="theory", epsilon=0.0), "epsilon must be a number above 0, was 0.0"),
        (RisePlusPlus(constant=0.0), "constant must be a number above 0, was 0.0"),
        (RisePlusPlus(mode="x"), "mode must be one of practical, theory, was 'x'"),
        (RestartGse(cycle=0), "cycle must be a positive integer, was 0"),
        (RestartGse(budget=-2), "budget must be a positive integer, was -2"),
        (RestartGse(objective="var"), "objective must be one of mean, mean-variance, was 'var'"),
        (RiskUcb(delta=0.0), "delta must be a number of at most 1 and above 0, was 0.0"),
        (RiskUcb(divisor=0.0), "divisor must be a number above 0, was 0.0"),
        (make_policy("risk-exp-exp", divisor=-14.0), "divisor must be a number above 0, was -14.0"),
        (make_policy("greedy", tries=0), "tries must be a positive integer, was 0"),
        (make_policy("greedy", growth=0), "growth must be a number above 0, was 0"),
        (make_policy("uniform", batch=0), "batch must be a positive integer, was 0"),
        (Oracle(schedule=((3, 0),)), "schedule must start at round 0"),
        (Oracle(), "schedule must start at round 0"),
        (Rise(delta=-1.0), "delta must be a number above 0 and below 1, was -1.0"),
        (RisePlusPlus(ridge=-1.0), "ridge must be a number of at least 0, was -1.0"),
    ],
)
def test_bad_parameters_are_named(policy: Policy, message: str) -> None:
    def play_a_little() -> None:
        running = policy.start(Setting(actions=Actions(np.eye(2)), horizon=30))
        for _ in range(10):
            running.update(running.select(), 0.1)

    with pytest.raises(InputError) as error:
        play_a_little()
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("field", "value"), [("horizon", 0), ("horizon", 2.5), ("risk_tolerance", -1.0), ("base_variance", float("nan"))]
)
def test_bad_settings_are_named(field: str, value: float) -> None:
    arguments: dict[str, Any] = {"actions": Actions(np.eye(2)), "horizon": 10, field: value}
    with pytest.raises(InputError, match=f"{field} must be .*, was {value}"):
        Setting(**arguments)


def test_restore_policy_finds_the_class_by_name() -> None:
    setting = Setting(actions=Actions(np.eye(3)), horizon=100)
    saved = json.loads(json.dumps(make_policy("greedy").start(setting).state()))
    assert type(restore_policy(saved, setting.actions)).name == "greedy"
    with pytest.raises(StateError, match=r"must name a registered policy .*, was 'nonesuch'"):
        restore_policy({"policy": "nonesuch"}, setting.actions)
    with pytest.raises(StateError, match=r"must name a registered policy .*, was None"):
        restore_policy({}, setting.actions)
    with pytest.raises(StateError, match="state policy must be 'rise', was 'greedy'"):
        Rise.restore(saved, setting.actions)


@pytest.mark.parametrize(
    "broken",
    [
        {"setting": {}},
        {"parameters": {"nonesuch": 1}},
        {"memory": {}},
        {"memory": None},
        {"random": {"bit_generator": "PCG64"}},
        {"setting": {"actions": "x", "horizon": 1}},
    ],
)
def test_broken_states_are_state_errors(broken: dict[str, object]) -> None:
    setting = Setting(actions=Actions(np.eye(3)), horizon=100)
    with pytest.raises(StateError):
        Rise.restore(Rise().start(setting).state() | broken, setting.actions)


def test_states_are_json_whatever_numbers_were_given() -> None:
    numbers: Any = np.int64(100), np.float32(2)
    setting = Setting(actions=Actions(np.eye(3)), horizon=numbers[0], risk_tolerance=numbers[1])
    json.dumps(Rise(explore_multiplier=np.float32(2)).start(setting).state())  # type: ignore[arg-type]  # likewise


def test_coordinates_are_part_of_an_action_sets_identity() -> None:
    assert Actions(np.eye(4)).fingerprint != Actions(np.eye(4), coordinates=2).fingerprint


@pytest.mark.parametrize(("mean", "spread"), [(np.nan, 1.0), (0.0, np.inf), (0.0, -1.0)])
def test_tallies_that_make_no_sense_are_refused_before_anything_is_learned(mean: float, spread: float) -> None:
    policy = RiskUcb().start(Setting(actions=Actions(np.eye(3)), horizon=100))
    plan = policy.plan()
    with pytest.raises(InputError, match="tallies must have finite means"):
        policy.learn(Tallies(plan.actions, plan.counts, np.full(3, mean), np.full(3, spread)))
    assert (policy.played, policy.plan()) == (0, plan)


def test_recommendation_before_any_data_is_refused() -> None:
    setting = Setting(actions=Actions(np.eye(3)), horizon=1000)
    for name in ("rise", "rise++", "restart-gse", "greedy", "uniform", "risk-ucb", "risk-exp-exp"):
        with pytest.raises(StateError, match=name.replace("+", r"\+")):
            make_policy(name).start(setting).recommend()


def test_mixing_rounds_and_plans_within_a_plan_is_refused() -> None:
    policy = Rise().start(Setting(actions=Actions(np.eye(3)), horizon=1000))
    policy.update(policy.select(), 0.5)
    plan = policy.plan()
    with pytest.raises(StateError, match="round by round"):
        policy.learn(Tallies(plan.actions, plan.counts, np.zeros(len(plan.counts)), np.zeros(len(plan.counts))))


class _Broken(Policy):
    """Plays in turn, but keeps its place outside its saved memory."""

    name = "test-broken"

    def begin(self) -> None:
        self.place = 0

    def resume(self) -> None:
        self.place = 0

    def propose(self) -> Plan:
        return Plan.repeat(self.place % self.setting.actions.size, 1)

    def observe(self, tallies: Tallies) -> None:
        self.place += 1

    def recommend(self) -> int:
        return 0


class _Lazy(Rise):
    """Never learns: always the worst action."""

    name = "test-lazy"

    def propose(self) -> Plan:
        return Plan.repeat(self.setting.actions.size - 1, self.remaining)

    def observe(self, tallies: Tallies) -> None:
        self.committed = self.setting.actions.size - 1


def test_check_suite_catches_a_policy_that_hides_state() -> None:
    with pytest.raises(CheckError, match="test-broken: must make the same decisions"):
        check_policy(_Broken())


def test_check_suite_catches_a_policy_that_does_not_learn() -> None:
    with pytest.raises(CheckError, match="test-lazy: must beat uniform play"):
        check_policy(_Lazy())
