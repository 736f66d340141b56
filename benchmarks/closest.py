"""Search the choices that the paper leaves open for the setting in which most of its statements hold.

In stages, each starting from the best setting of the previous one: (1) the constants of RISE++ and RiskUCB, on a few
instances; (2) every other choice, one at a time; (3) figure 4 alone, on a full grid, since it has no random instance;
(4) the instances; (5) the best of them again with the paper's 50 runs. All experiments share one setting, and the four
panels of figure 2 share one instance number. Exits with status 1 if ``--preset closest`` differs from the result.
``--workers N`` sets the number of processes.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any

from riskroute.core.errors import InputError
from riskroute.paper.claims import CLAIMS
from riskroute.paper.experiments import Experiment, experiment_summary, plan_experiments
from riskroute.paper.presets import DEFAULT, PRESETS, REGRETS, PaperChoices
from riskroute.simulation.backends import Backend, run_backend_tasks
from riskroute.simulation.policy_comparison import PAPER_POLICIES
from riskroute.simulation.results import PolicyResult
from timing import leave, print_heading, print_table, progress, quick, say, sized, verdict

# Choices that must be the same in all experiments.
CONSTANTS = ("horizon", "regret", "constant", "ridge", "delta", "explored")

# Choices on which the outcome of each experiment depends.
DEPENDS = {
    "figure2": (*CONSTANTS, "instance"),
    "figure4": (*CONSTANTS, "table_base_variance"),
    "nonstationary": ("horizon", "regret", "changing_instance", "changes"),
    "autocorrelation": (*CONSTANTS, "correlated_instance"),
    "instances": CONSTANTS,
}

Statement = tuple[str, str]  # place in the paper, and text

HORIZON = sized(100_000, 300)
FULL_RUNS = sized(50, 2)
CONSTANT, DELTA = sized((0.01, 0.015, 0.02, 0.025), (0.02,)), sized((None, 0.01, 0.05, 0.1), (0.01,))
# Instance numbers on which the constants are chosen.
FIRST = {"figure2": range(sized(12, 1)), "autocorrelation": range(sized(4, 1))}

# Instance numbers on which the other choices are made.
SOME = {"figure2": range(sized(4, 1)), "autocorrelation": range(sized(2, 1))}

# Instance numbers among which those of the figures are chosen.
ALL = {"figure2": range(sized(60, 1)), "autocorrelation": range(sized(30, 1)), "nonstationary": range(sized(25, 1))}

# Runs of a trial before the last stage.
SCREENED = {"figure2": sized(3, 1), "figure4": sized(5, 1), "autocorrelation": sized(2, 1), "nonstationary": 1}

ONE_AT_A_TIME: dict[str, Sequence[Any]] = {
    "horizon": sized((30_000, 300_000), ()),
    "ridge": sized((1.0,), ()),
    "explored": (2.0,),
}
TABLE: dict[str, Sequence[Any]] = {
    "horizon": sized((10_000, 30_000, 100_000, 300_000, 1_000_000), (300,)),
    "delta": sized((None, 0.001, 0.01, 0.1), (0.01,)),
    "constant": sized((0.005, 0.01, 0.015, 0.02, 0.03), (0.02,)),
    "table_base_variance": sized((0.1, 1.0, 10.0), (1.0,)),
}
CHANGES, FEWER = sized((3, 10), ()), 8
"""Other numbers of coefficient changes, and the number of settings tried with each."""

# Number of instances that are played with all runs.
CONFIRMED = {"figure2": 5, "autocorrelation": 2, "nonstationary": 2}

BOOKS = sorted({claim.experiment for claim in CLAIMS} - set(DEPENDS))
OWN = {"figure2": "instance", "autocorrelation": "correlated_instance", "nonstationary": "changing_instance"}
NAMES = {
    "horizon": "rounds of a run",
    "regret": "regret of a path, or steady: without the noise of its rewards",
    "constant": "C-hat of RISE++",
    "ridge": "lambda of RISE++",
    "delta": "delta of RISE++ and RiskUCB",
    "explored": "rounds that RISE explores, in multiples of slots T^(2/3)",
    "instance": "instance of figure 2, all panels",
    "correlated_instance": "instance of the autocorrelation check",
    "changing_instance": "instance of the changing coefficients",
    "changes": "number of changes",
    "table_base_variance": "omega of figure 4",
}


@dataclass(frozen=True)
class Trial:
    """One experiment under one setting of the choices it depends on, and the statements that held in ``runs`` runs."""

    experiment: str
    choices: Mapping[str, Any]
    held: frozenset[Statement]
    runs: int = 1


@dataclass(frozen=True)
class JointTrial:
    """One trial of every experiment, all in one setting."""

    trials: tuple[Trial, ...]

    @property
    def held(self) -> frozenset[Statement]:
        """Statements that hold in any of the trials."""
        return frozenset().union(*(trial.held for trial in self.trials))

    @property
    def choices(self) -> dict[str, Any]:
        """The setting, as far as the experiments depend on it."""
        return {name: value for trial in self.trials for name, value in trial.choices.items()}

    @property
    def departures(self) -> int:
        """Number of choices that differ from our defaults."""
        return sum(value != getattr(DEFAULT, name) for name, value in self.choices.items())


def statements_about(experiment: str) -> list[Statement]:
    """Return the statements of the paper about one experiment."""
    return [(claim.where, claim.text) for claim in CLAIMS if claim.experiment == experiment]


def best_joint_trial(trials: Sequence[Trial]) -> JointTrial:
    """Return the setting under which most statements hold, over all experiments.

    Trials of two experiments are compatible if they agree in every choice that both depend on. So the shared choices
    are enumerated, and choices of one experiment alone, such as its instance, are made separately for each. Ties go to
    the setting with the fewest departures from our defaults, then to the first one tried.
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
    """Yield every distinct setting of the shared choices that some trial states in full."""
    seen = set()
    for trial in trials:
        if all(name in trial.choices for name in shared):
            values = tuple(trial.choices[name] for name in shared)
            if values not in seen:
                seen.add(values)
                yield dict(zip(shared, values, strict=True))


def _best_of(trials: Iterable[Trial], common: Mapping[str, Any]) -> Trial | None:
    """Return the trial in which most statements held, among those that agree with ``common``."""
    fitting = [t for t in trials if all(t.choices[name] == common[name] for name in common if name in t.choices)]
    return max(fitting, key=lambda t: (len(t.held), -JointTrial((t,)).departures), default=None)


class TrialRunner:
    """Simulates experiments under many settings, and reuses earlier results."""

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
        results = run_backend_tasks([tasks[identity] for identity in new], self.backend)
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
    """Return a setting with some choices given and the others at our defaults."""
    return replace(DEFAULT, **choices)


def choice_values(trials: Iterable[Trial], names: Sequence[str] | None = None) -> dict[str, list[Any]]:
    """Return the sorted values of every choice over some trials."""
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


class Search:
    """The trials of a search so far."""

    def __init__(self, runner: TrialRunner) -> None:
        self.runner = runner
        self.trials: list[Trial] = []
        self.began = time.perf_counter()

    def add(self, experiment: str, settings: Iterable[PaperChoices], runs: int) -> list[Trial]:
        """Try an experiment under some settings, with both kinds of regret where they differ."""
        both = [replace(one, regret=regret) for one in dict.fromkeys(settings) for regret in REGRETS]
        wanted = both if experiment != "nonstationary" else list(dict.fromkeys(settings))
        new = self.runner.run(experiment, wanted, runs)
        self.trials += new
        seconds = time.perf_counter() - self.began
        progress(f"{seconds:.0f} s: {len(new)} trials of {experiment}, best {max(len(one.held) for one in new)}")
        return new

    def screen(self, settings: Sequence[PaperChoices], instances: dict[str, range]) -> list[Trial]:
        """Try figures 2 and 4 and the autocorrelation experiment under some settings, on some instances."""
        found = self.add("figure4", settings, SCREENED["figure4"])
        for name, numbers in instances.items():
            each = [with_choice(one, OWN[name], number) for one in settings for number in numbers]
            found += self.add(name, each, SCREENED[name])
        return found


def distinct(trials: Iterable[Trial], names: Sequence[str]) -> dict[tuple[Any, ...], list[Trial]]:
    """Return the trials grouped by their values of some choices."""
    groups: dict[tuple[Any, ...], list[Trial]] = {}
    for trial in trials:
        groups.setdefault(tuple(trial.choices[name] for name in names), []).append(trial)
    return groups


def best_constants(trials: Sequence[Trial], count: int) -> list[PaperChoices]:
    """Return the settings of the shared choices in which most statements hold on the best third of instances."""
    shared = DEPENDS["instances"]

    def merit(group: Sequence[Trial]) -> float:
        counts = [
            sorted((len(one.held) for one in some), reverse=True) for some in distinct_experiments(group).values()
        ]
        return sum(statistics.mean(some[: max(len(some) // 3, 1)]) for some in counts)

    groups = distinct(trials, shared)
    ranked = sorted(groups, key=lambda key: merit(groups[key]), reverse=True)
    settings = [as_choices(dict(zip(shared, key, strict=True))) for key in ranked]
    return list({replace(one, regret=DEFAULT.regret): one for one in reversed(settings)}.values())[::-1][:count]


def distinct_experiments(trials: Iterable[Trial]) -> dict[str, list[Trial]]:
    """Return the trials grouped by experiment."""
    parts: dict[str, list[Trial]] = {}
    for trial in trials:
        parts.setdefault(trial.experiment, []).append(trial)
    return parts


def search(runner: TrialRunner) -> tuple[Search, JointTrial]:
    """Return all trials, and the best setting among those played with all runs."""
    seek = Search(runner)
    start = replace(DEFAULT, horizon=HORIZON)
    grid = [replace(start, constant=constant, delta=delta) for constant, delta in product(CONSTANT, DELTA)]
    found = seek.screen([start, *grid], FIRST)
    leaders = best_constants(found, sized(2, 1))
    others = [with_choice(leaders[0], name, value) for name, values in ONE_AT_A_TIME.items() for value in values]
    again = seek.screen([leaders[0], *others], SOME)
    leaders = list(dict.fromkeys([*leaders, *best_constants(again, 1)]))
    progress(f"best constants: {leaders}")
    seek.add("figure4", [with_choices(start, dict(zip(TABLE, v, strict=True))) for v in product(*TABLE.values())], 2)
    screened = {name: seek.add(name, on_instances(name, leaders), SCREENED[name]) for name in OWN}
    tried = [trial for some in screened.values() for trial in some]
    leader = as_choices(best_joint_trial(tried).choices)
    last = seek.add("figure4", [leader], FULL_RUNS)
    if not quick():  # thirty instances, and one statement about them
        last += seek.add("instances", [leader], 1)
    for name in OWN:
        last += seek.add(name, leading_instances(name, screened[name], leader), FULL_RUNS)
    return seek, best_joint_trial(last)


def on_instances(name: str, leaders: Sequence[PaperChoices]) -> list[PaperChoices]:
    """Return the leading settings on every instance of an experiment, without duplicates in its own choices."""
    plain = [as_choices({field: getattr(one, field) for field in DEPENDS[name]}) for one in leaders]
    found = [with_choice(one, OWN[name], number) for one in dict.fromkeys(plain) for number in ALL[name]]
    if name == "nonstationary":
        found += [replace(one, changes=count) for count in CHANGES for one in found[:FEWER]]
    return found


def with_choice(choices: PaperChoices, name: str, value: Any) -> PaperChoices:
    """Return a setting with one choice changed."""
    return with_choices(choices, {name: value})


def with_choices(choices: PaperChoices, changed: dict[str, Any]) -> PaperChoices:
    """Return a setting with some choices changed."""
    return replace(choices, **changed)


def leading_instances(name: str, trials: Sequence[Trial], leader: PaperChoices) -> list[PaperChoices]:
    """Return the settings that agree with ``leader``, on the instances on which most statements held."""
    shared = [field for field in DEPENDS[name] if field in DEPENDS["instances"]]
    fitting = [one for one in trials if all(one.choices[field] == getattr(leader, field) for field in shared)]
    ranked = sorted(fitting, key=lambda one: len(one.held), reverse=True)
    return [as_choices(one.choices) for one in ranked[: CONFIRMED[name]]]


def print_statements(trials: Sequence[Trial], joint: JointTrial) -> None:
    """Print the number of trials in which each statement held, by choice."""
    say("Number of settings in which each statement held, of those tried, and the values to which it was limited")
    for experiment in DEPENDS:
        tried = [one for one in trials if one.experiment == experiment]
        values = choice_values(tried)
        say(f"\n{experiment}: {len(tried)} settings of {', '.join(name for name in values if len(values[name]) > 1)}")
        for statement in statements_about(experiment):
            there = [one for one in tried if statement in one.held]
            mark = "+" if statement in joint.held else "-"
            say(f"  {mark} {': '.join(statement)}: {len(there)} of {len(tried)}")
            if 0 < len(there) < len(tried):
                held = choice_values(there)
                words = [
                    f"{name} {spread(held[name], name)}"
                    for name in held
                    if name not in OWN.values() and held[name] != values[name]
                ]
                words += [
                    f"{len(held[name])} of {len(values[name])} instances" for name in held if name in OWN.values()
                ]
                if words:
                    say(f"      only with {'; '.join(words)}" if len(words) > 1 else f"      {words[0]}")
    say("")


def spread(values: Sequence[Any], name: str) -> str:
    """Return values as a comma-separated list; None stands for our default."""
    return ", ".join("ours" if value is None else f"{value}" for value in values)


def print_best(seek: Search, joint: JointTrial) -> tuple[int, int]:
    """Print the best setting and the statements that fail; return the numbers of those that hold and of all."""
    choices = joint.choices
    rows = [[NAMES[name], name, f"{getattr(DEFAULT, name)}", f"{value}"] for name, value in choices.items()]
    say("The setting in which most statements hold")
    print_table(["choice", "name", "ours", "closest"], rows, left=2)
    for experiment, own in OWN.items():
        best = next(one for one in joint.trials if one.experiment == experiment)
        alike = [
            one
            for one in seek.trials
            if one.experiment == experiment
            and one.runs == SCREENED[experiment]
            and all(one.choices[n] == best.choices[n] for n in best.choices if n != own)
        ]
        enough = {one.choices[own] for one in alike if len(one.held) >= len(best.held)}
        asked = {one.choices[own] for one in alike}
        all_of, runs = len(statements_about(experiment)), SCREENED[experiment]
        rare = f"{len(enough)} of {len(asked)} instances reach as many in {runs} run{'s' * (runs > 1)}"
        say(f"{experiment}: {len(best.held)} of {all_of} statements in {best.runs} runs; {rare}")
    books = sum(len(statements_about(name)) for name in BOOKS)
    everything = sum(len(statements_about(name)) for name in DEPENDS) + books
    say(f"order books: {books} of {books} statements, under every setting\n")
    say("Statements that fail in this setting")
    for experiment in DEPENDS:
        for statement in statements_about(experiment):
            if statement not in joint.held:
                tried = [one for one in seek.trials if one.experiment == experiment]
                there = sum(statement in one.held for one in tried)
                say(f"  {': '.join(statement)}: held in {there} of {len(tried)} trials")
    return len(joint.held) + books, everything


def main() -> None:
    """Search, and compare with the preset."""
    print_heading("The paper's open choices", ["riskroute", "numpy", "scipy", "numba"])
    workers = int(sys.argv[sys.argv.index("--workers") + 1]) if "--workers" in sys.argv else None
    seek, joint = search(TrialRunner(Backend(workers=1 if quick() else workers)))
    print_statements(seek.trials, joint)
    held, everything = print_best(seek, joint)
    same = as_choices(joint.choices) == PRESETS["closest"]
    preset = f"riskroute reproduce all --preset closest has this setting: {verdict(same)}"
    say(f"\n{held} of {everything} statements hold; {preset}")
    leave([], [same])


if __name__ == "__main__":
    main()
