"""Which choices fit the paper's words best: experiments tried under many settings, and the best setting for all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from riskroute.core.errors import InputError
from riskroute.core.results import PolicyResult
from riskroute.paper.claims import CLAIMS
from riskroute.paper.presets import DEFAULT, PaperChoices
from riskroute.paper.reproduce import Experiment, experiment_summary, plan_experiments
from riskroute.simulation.backends import Backend, run_tasks
from riskroute.simulation.comparison import PAPER_POLICIES

CONSTANTS = ("horizon", "regret", "constant", "ridge", "delta", "explored")
"""Choices that must be the same in all experiments."""

DEPENDS = {
    "figure2": (*CONSTANTS, "instance"),
    "figure4": (*CONSTANTS, "table_base_variance"),
    "nonstationary": ("horizon", "regret", "changing_instance", "changes"),
    "autocorrelation": (*CONSTANTS, "correlated_instance"),
    "instances": CONSTANTS,
}
"""By experiment: the choices that its outcome depends on."""

Statement = tuple[str, str]
"""Where the paper says something, and what."""


@dataclass(frozen=True)
class Trial:
    """One experiment under one setting of the choices it depends on, and the statements that held in ``runs`` runs."""

    experiment: str
    choices: Mapping[str, Any]
    held: frozenset[Statement]
    runs: int = 1


@dataclass(frozen=True)
class JointTrial:
    """One trial per experiment, all of one setting."""

    trials: tuple[Trial, ...]

    @property
    def held(self) -> frozenset[Statement]:
        """Statements that hold in any of them."""
        return frozenset().union(*(trial.held for trial in self.trials))

    @property
    def choices(self) -> dict[str, Any]:
        """The setting, as far as the experiments depend on it."""
        return {name: value for trial in self.trials for name, value in trial.choices.items()}

    @property
    def departures(self) -> int:
        """How many choices differ from ours."""
        return sum(value != getattr(DEFAULT, name) for name, value in self.choices.items())


def statements_about(experiment: str) -> list[Statement]:
    """Statements of the paper about one experiment."""
    return [(claim.where, claim.text) for claim in CLAIMS if claim.experiment == experiment]


def best_joint_trial(trials: Sequence[Trial]) -> JointTrial:
    """Find the setting with the most statements that hold, over all experiments that were tried.

    Trials go together if they agree in every choice that both depend on. Choices of one experiment alone, such as its
    instance, are therefore made for each experiment by itself, once those that experiments share are made. Of settings
    with equally many statements the one with the fewest departures from ours is taken, then the one tried first.
    """
    if not trials:
        raise InputError("no trials given")
    by_experiment: dict[str, list[Trial]] = {}
    for trial in trials:
        by_experiment.setdefault(trial.experiment, []).append(trial)
    names = [set(some[0].choices) for some in by_experiment.values()]
    shared = sorted({name for some in names for name in some if sum(name in other for other in names) > 1})
    found = []
    for common in _settings(trials, shared):
        picked = [_best_of(some, common) for some in by_experiment.values()]
        whole = [trial for trial in picked if trial is not None]
        if len(whole) == len(picked):
            found.append(JointTrial(tuple(whole)))
    if not found:
        raise InputError("no setting was tried in all experiments")
    return max(found, key=lambda joint: (len(joint.held), -joint.departures))


def _settings(trials: Iterable[Trial], shared: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Every setting of the shared choices that some trial states in full, once."""
    seen = set()
    for trial in trials:
        if all(name in trial.choices for name in shared):
            values = tuple(trial.choices[name] for name in shared)
            if values not in seen:
                seen.add(values)
                yield dict(zip(shared, values, strict=True))


def _best_of(trials: Iterable[Trial], common: Mapping[str, Any]) -> Trial | None:
    """Of the trials that agree with a setting, the one with the most statements."""
    fitting = [t for t in trials if all(t.choices[name] == common[name] for name in common if name in t.choices)]
    return max(fitting, key=lambda t: (len(t.held), -JointTrial((t,)).departures), default=None)


class TrialRunner:
    """Plays experiments under many settings; what was played once, by whatever setting, is not played again."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.done: dict[str, PolicyResult] = {}

    def run(self, experiment: str, settings: Sequence[PaperChoices], runs: int) -> list[Trial]:
        """Try one experiment under every setting, with ``runs`` runs of each of the paper's policies."""
        policies = ("restart-gse",) if experiment == "nonstationary" else PAPER_POLICIES
        plans = [plan_experiments(experiment, runs=runs, policies=policies, preset=choices)[0] for choices in settings]
        self._play(plans)
        return [self._judged(plan) for plan in plans]

    def _play(self, plans: Sequence[Experiment]) -> None:
        tasks = {task.identity: task for plan in plans for panel in plan.panels for task in panel.tasks()}
        new = [identity for identity in tasks if identity not in self.done]
        results = run_tasks([tasks[identity] for identity in new], self.backend)
        self.done |= dict(zip(new, results, strict=True))

    def _judged(self, plan: Experiment) -> Trial:
        digests = {}
        for panel in plan.panels:
            tasks = panel.tasks()
            result = panel.gather(tasks, [self.done[task.identity] for task in tasks])
            digests[panel.name] = result.digest()
        summary = experiment_summary(plan, digests)
        about = [claim for claim in CLAIMS if claim.experiment == plan.name]
        held = frozenset((claim.where, claim.text) for claim in about if claim.measure(summary)[1])
        return Trial(
            plan.name,
            {name: getattr(plan.choices, name) for name in DEPENDS[plan.name]},
            held,
            plan.panels[0].size.runs,
        )


def as_choices(choices: Mapping[str, Any]) -> PaperChoices:
    """Make a setting from some of its choices; the others are ours."""
    return replace(DEFAULT, **choices)


def choice_values(trials: Iterable[Trial], names: Sequence[str] | None = None) -> dict[str, list[Any]]:
    """By choice: the values that occur in some trials, in the order of size."""
    found: dict[str, set[Any]] = {}
    for trial in trials:
        for name, value in trial.choices.items():
            found.setdefault(name, set()).add(value)
    ordered = [field.name for field in fields(PaperChoices) if field.name in found]
    return {
        name: sorted(found[name], key=lambda value: (value is not None, value))
        for name in ordered
        if names is None or name in names
    }
