"""Presets of the choices the paper leaves open, and the search for the one that reproduces most claims."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from closest import (
    DEPENDS,
    JointTrial,
    Trial,
    TrialRunner,
    as_choices,
    best_joint_trial,
    choice_values,
    statements_about,
)
from riskroute import InputError
from riskroute.cli.app import run_app as command
from riskroute.learning.policy import Policy
from riskroute.paper.claims import CLAIMS
from riskroute.paper.experiments import (
    Experiment,
    _changing_environment,
    _restart_gse_episode,
    plan_experiments,
    reproduce,
)
from riskroute.paper.presets import DEFAULT, PRESETS, PaperChoices
from riskroute.simulation.backends import Backend
from riskroute.simulation.runner import SimulationSize

CHOSEN = PaperChoices(
    horizon=400,
    regret="steady",
    constant=0.02,
    ridge=0.5,
    delta=0.03,
    explored=2.0,
    instance=7,
    correlated_instance=8,
    changing_instance=9,
    changes=3,
    table_base_variance=0.5,
)
"""Different from ours in everything."""


def identities(experiments: list[Experiment]) -> list[str]:
    return [task.identity for one in experiments for panel in one.panels for task in panel.tasks()]


def test_the_default_preset_changes_nothing() -> None:
    """The very same tasks as without a preset, which are those of the names of the policies alone."""
    assert PRESETS["default"] == DEFAULT == PaperChoices()
    plain, preset = plan_experiments(), plan_experiments(preset="default")
    assert identities(plain) == identities(preset)
    for experiment in plain:
        for panel in experiment.panels:
            named = isinstance(panel.policies, tuple)
            assert named or experiment.name == "nonstationary"
            assert panel.size.horizon == 100_000
    digest = {"policies": {"rise": {"final": {"regret": 1.0}}}}
    assert DEFAULT.shown(digest) == digest


def test_choices_reach_every_experiment() -> None:
    experiments = {one.name: one for one in plan_experiments(preset=CHOSEN)}
    for experiment in experiments.values():
        for panel in experiment.panels:
            assert panel.size.horizon == 400
            slots = panel.facts["slots"]
            chosen = panel.chosen()
            assert chosen["rise"].parameters["explore_multiplier"] == 2 * slots
            if experiment.name != "nonstationary":
                parameters = chosen["rise++"].parameters
                assert (parameters["constant"], parameters["ridge"], parameters["delta"]) == (0.02, 0.5, 0.03)
                assert chosen["risk-ucb"].parameters["delta"] == 0.03
    assert {panel.facts["instance"] for panel in experiments["figure2"].panels} == {7}
    assert {panel.facts["instance"] for panel in experiments["autocorrelation"].panels} == {8}
    assert sorted({panel.facts["instance"] for panel in experiments["instances"].panels}) == list(range(30))
    assert {panel.environment.pieces[0].base_variance for panel in experiments["figure4"].panels} == {0.5}
    (changing,) = experiments["nonstationary"].panels
    assert len(changing.facts["changes"]) == 3
    ours = _changing_environment(400)
    assert not np.array_equal(changing.environment.pieces[0].mean_coef, ours.pieces[0].mean_coef)
    story = _restart_gse_episode(SimulationSize(400, 1), choices=CHOSEN)
    assert story["changes"] == changing.facts["changes"]


def test_every_choice_matters_to_the_experiments_that_are_said_to_depend_on_it() -> None:
    """And to no other; the kind of regret is looked at, not played."""
    names = [name for name in DEPENDS["figure2"] if name not in ("regret", "horizon")]
    names += ["correlated_instance", "changing_instance", "changes", "table_base_variance"]
    before = {name: identities(plan_experiments(name, runs=1, policies=_paper(name))) for name in DEPENDS}
    for choice in names:
        value: dict[str, Any] = {choice: getattr(CHOSEN, choice)}
        changed = replace(DEFAULT, **value)
        for name, depends in DEPENDS.items():
            after = identities(plan_experiments(name, runs=1, policies=_paper(name), preset=changed))
            assert (after != before[name]) == (choice in depends), (choice, name)


def _paper(experiment: str) -> list[str]:
    return ["restart-gse"] if experiment == "nonstationary" else ["rise", "rise++", "risk-ucb", "risk-exp-exp"]


def test_a_steady_regret_is_shown_where_claims_look(tmp_path: Path) -> None:
    """The same runs, played once per kind of regret."""
    found = {}
    for regret in ("path", "steady"):
        plans = plan_experiments("figure4", panel="a", runs=3, policies=["rise"], preset=PaperChoices(horizon=300))
        plans = [replace(plan, choices=PaperChoices(horizon=300, regret=regret)) for plan in plans]
        (done,) = reproduce(plans, tmp_path / regret, Backend(workers=1))
        found[regret] = done.summary["panels"]["a"]["policies"]["rise"]
    path, steady = found["path"], found["steady"]
    assert steady["mean_regret"] == path["mean_steady_regret"] != path["mean_regret"]
    assert steady["std_regret"] == path["std_steady_regret"]
    assert steady["final"]["regret"] == path["final"]["steady_regret"]
    assert steady["final"]["regret_error"] == path["final"]["steady_regret_error"]
    config = json.loads((tmp_path / "steady" / "figure4" / "figure4-a.config.json").read_text())
    assert config["choices"]["regret"] == "steady"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"regret": "noisy"}, "regret must be one of path, steady, was 'noisy'"),
        ({"constant": 0.0}, "constant must be a number above 0"),
        ({"delta": 1.0}, "delta must be a number .* below 1"),
        ({"instance": -1}, "instance must be a non-negative integer, was -1"),
        ({"changes": 0}, "changes must be a positive integer, was 0"),
    ],
)
def test_invalid_choices_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        PaperChoices(**values)


def test_the_closest_preset_departs_from_ours() -> None:
    closest = PRESETS["closest"]
    assert closest != DEFAULT
    played = closest.policies(["rise++"], 4)
    assert isinstance(played, dict)
    assert isinstance(played["rise++"], Policy)


def test_invalid_presets_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, expected in (
        (["figure2", "--preset", "best"], "preset must be one of default, closest, was 'best'"),
        (["figure1", "--preset", "closest"], "--preset does not apply to figure1, was 'closest'"),
    ):
        assert command(["reproduce", *words, "--out", str(tmp_path / "x")]) == 2
        said = capsys.readouterr().err.strip()
        assert expected in said
        assert len(said.splitlines()) == 1
    assert not (tmp_path / "x").exists()


@pytest.mark.usefixtures("untraced")
def test_the_command_takes_the_preset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["reproduce", "figure4", "--preset", "closest", "--runs", "1", "--horizon", "300", "--workers", "1"]
    assert command([*words, "--out", str(tmp_path)]) == 0
    assert "statements about these experiments hold here" in capsys.readouterr().out
    config = json.loads((tmp_path / "figure4" / "figure4.config.json").read_text())
    assert config["panels"]["a"]["policies"]["rise++"]["constant"] == PRESETS["closest"].constant
    assert config["panels"]["a"]["horizon"] == 300
    assert config["choices"]["instance"] == PRESETS["closest"].instance
    rows = (tmp_path / "figure4" / "claims.md").read_text().splitlines()
    assert rows[0] == "| where | the paper says | measured | agrees |"  # remarks are about our own choices
    assert all(row.count("|") == 5 for row in rows)


def trial(experiment: str, held: str, **choices: Any) -> Trial:
    """A made-up trial; every letter is a statement."""
    return Trial(experiment, choices, frozenset((experiment, letter) for letter in held))


def naive_best(trials: list[Trial]) -> int:
    """Most statements over all ways to take one trial of each experiment that do not contradict each other."""
    experiments = sorted({one.experiment for one in trials})
    most = -1
    for picked in itertools.product(*([t for t in trials if t.experiment == name] for name in experiments)):
        values: dict[str, set[Any]] = {}
        for one in picked:
            for name, value in one.choices.items():
                values.setdefault(name, set()).add(value)
        if all(len(some) == 1 for some in values.values()):
            most = max(most, sum(len(one.held) for one in picked))
    return most


def test_the_best_setting_is_best_for_all_experiments_together() -> None:
    """Each experiment alone would take another constant; the instance is made for one experiment by itself."""
    trials = [
        trial("figure2", "abc", constant=1.0, delta=None, instance=0),
        trial("figure2", "a", constant=2.0, delta=None, instance=0),
        trial("figure2", "ab", constant=2.0, delta=None, instance=5),
        trial("figure4", "", constant=1.0, delta=None),
        trial("figure4", "xyz", constant=2.0, delta=None),
        trial("nonstationary", "p", delta=None, changing_instance=3),
        trial("nonstationary", "pq", delta=0.5, changing_instance=3),
    ]
    best = best_joint_trial(trials)
    assert best.choices == {"constant": 2.0, "delta": None, "instance": 5, "changing_instance": 3}
    assert len(best.held) == 6 == naive_best(trials)


def test_the_best_setting_is_the_naive_one() -> None:
    rng = np.random.default_rng(0)
    for _ in range(30):
        trials = [
            trial(name, "abcdef"[: rng.integers(7)], **{choice: int(rng.integers(1, 4)) for choice in depends})
            for name, depends in {
                "figure2": ("constant", "delta", "instance"),
                "figure4": ("constant", "delta"),
                "nonstationary": ("constant", "changing_instance"),
            }.items()
            for _ in range(rng.integers(4, 12))
        ]
        expected = naive_best(trials)
        if expected < 0:
            with pytest.raises(InputError, match="no setting was tried in all experiments"):
                best_joint_trial(trials)
        else:
            assert sum(len(one.held) for one in best_joint_trial(trials).trials) == expected


def test_of_equal_settings_the_one_nearest_to_ours() -> None:
    trials = [
        trial("figure2", "ab", constant=0.02, instance=4),
        trial("figure2", "cd", constant=0.02, instance=0),
        trial("figure2", "ab", constant=None, instance=4),
    ]
    assert best_joint_trial(trials).choices == {"constant": 0.02, "instance": 0}
    assert JointTrial((trials[0],)).departures == 2
    with pytest.raises(InputError, match="no trials given"):
        best_joint_trial([])


def test_values_are_listed_in_order() -> None:
    trials = [trial("figure2", "", constant=value, instance=3) for value in (0.02, None, 0.01)]
    assert choice_values(trials) == {"constant": [None, 0.01, 0.02], "instance": [3]}


@pytest.mark.usefixtures("untraced")
def test_trials_judge_as_reproduce_does_and_play_nothing_twice(tmp_path: Path) -> None:
    runner = TrialRunner(Backend(workers=1))
    settings = [PaperChoices(horizon=300, delta=0.05), PaperChoices(horizon=300, delta=0.05, regret="steady")]
    path, steady = runner.run("figure4", settings, 2)
    played = dict(runner.done)
    (again,) = runner.run("figure4", settings[:1], 2)
    assert again == path
    assert runner.done.keys() == played.keys()
    assert path.choices["delta"] == 0.05
    assert (path.choices["regret"], steady.choices["regret"]) == ("path", "steady")
    plans = plan_experiments("figure4", runs=2, policies=_paper("figure4"), preset=settings[0])
    (done,) = reproduce(plans, tmp_path, Backend(workers=1))
    held = {(c.where, c.text) for c in CLAIMS if c.experiment == "figure4" and c.measure(done.summary)[1]}
    assert path.held == held <= set(statements_about("figure4"))


def test_unstated_choices_are_the_defaults() -> None:
    assert as_choices({"delta": 0.1}) == PaperChoices(delta=0.1)
