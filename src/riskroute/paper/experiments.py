"""The paper's simulated experiments: figures 2 and 4, autocorrelated noise, and changing coefficients."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from riskroute.core.arrays import Floats, Integers
from riskroute.core.errors import InputError
from riskroute.core.files import write_json
from riskroute.core.provenance import provenance_versions
from riskroute.core.seeding import seed_stream
from riskroute.core.text import TextTable
from riskroute.core.validation import one_of, whole_number
from riskroute.learning.bounds import rise_bound, rise_plus_plus_bound
from riskroute.learning.plan import LONGEST_HORIZON
from riskroute.learning.policies.restart_gse import RestartGse
from riskroute.learning.policy import Policy
from riskroute.learning.problem import random_problem
from riskroute.learning.registry import POLICIES
from riskroute.learning.regret import regret_checkpoints
from riskroute.paper.figures import draw_experiment
from riskroute.paper.presets import DEFAULT, PRESETS, PaperChoices
from riskroute.routing.allocations import routing_actions
from riskroute.routing.instances import PAPER_SHARES, PAPER_VENUES, paper_routing_instance, random_routing_problem
from riskroute.routing.splits import count_splits
from riskroute.simulation.backends import Backend, Finished
from riskroute.simulation.environments import Autocorrelated, Environment, PiecewiseStationary, random_changes
from riskroute.simulation.policy_comparison import COMPARED
from riskroute.simulation.runner import (
    Final,
    RunnerCache,
    RunnerPanelWriter,
    SimulationPanel,
    SimulationSize,
    run_panels,
    simulation_panel_average,
)

# The experiments, in the order in which they run.
TITLES = {
    "figure2": "Figure 2: regret on random instances",
    "figure4": "Figure 4: regret on the paper's table of venues",
    "nonstationary": "Abruptly changing coefficients",
    "autocorrelation": "Autocorrelated noise",
    "instances": "Thirty random instances of each problem of figure 2",
}

_SIZES = {"a": (4, 4), "b": (5, 4), "c": (6, 6), "d": (6, 8)}  # slots and shares per panel of figure 2
_CHANGING = (4, 4)  # slots and shares with changing coefficients: the paper states none, so the smallest of figure 2
_CHECKPOINTS = 1000  # recorded rounds per run with changing coefficients

# Exploration rounds per cycle of restart-gse; None: the paper's rate T^(2/9).
_EXPLORATION = {"restart-gse": 500, "restart-gse short": None}


def experiment_panels(
    name: str, size: SimulationSize, policies: Sequence[str] | None = None, choices: PaperChoices = DEFAULT
) -> list[SimulationPanel]:
    """Return the panels of an experiment; default of ``policies``: the ones that the experiment compares."""
    if name == "nonstationary":
        return _changing_panels(size, policies or ("restart-gse", "change-test", "rise"), choices)
    make: dict[str, Callable[..., list[SimulationPanel]]] = {
        "figure2": _figure2_panels,
        "figure4": _figure4_panels,
        "autocorrelation": _autocorrelation_panels,
        "instances": _instance_panels,
    }
    return make[name](size, policies or COMPARED, choices)


def _figure2_panels(size: SimulationSize, policies: Sequence[str], choices: PaperChoices) -> list[SimulationPanel]:
    return [_random_panel(name, name, choices.instance, size, policies, choices) for name in _SIZES]


def _instance_panels(size: SimulationSize, policies: Sequence[str], choices: PaperChoices) -> list[SimulationPanel]:
    """Return the four problems of figure 2 on 30 random instances each, recorded only at the end of a run."""
    return [
        _random_panel(f"{name}-{instance:02d}", name, instance, size, policies, choices, checkpoints=1)
        for name in _SIZES
        for instance in range(30)
    ]


def _random_panel(
    name: str,
    problem: str,
    instance: int,
    size: SimulationSize,
    policies: Sequence[str],
    choices: PaperChoices,
    checkpoints: int = 100,
) -> SimulationPanel:
    slots, shares = _SIZES[problem]
    return SimulationPanel(
        name,
        f"({problem}) {slots} slots, {shares} shares: {count_splits(shares, slots):,} splits",
        Environment(random_routing_problem(shares, slots, instance)),
        choices.policies(policies, slots),
        {"panel": problem, "slots": slots, "shares": shares, "instance": instance},
        size,
        checkpoints,
    )


def experiment_bounds(panel: SimulationPanel, choices: PaperChoices = DEFAULT) -> dict[str, dict[str, Any]]:
    """Return the paper's bounds on the final regret by policy, for RISE (Theorem 1) and RISE++ (Theorem 2).

    With m slots RISE explores ``explored * m T^(2/3)`` rounds; its accuracy epsilon is taken as ``d T^(-1/3)``, as in
    the paper's theory. The paper does not state the constant of Theorem 2; 1 is used.
    """
    problem, horizon = panel.environment.pieces[0], panel.size.horizon
    handles = problem.actions.listed().handles
    means, variances = problem.means(handles), problem.variances(handles)
    best_mean = float(problem.means(np.array([problem.best]))[0])
    return {
        "rise": {
            "theorem": "Theorem 1",
            "value": rise_bound(
                horizon,
                min(math.ceil(choices.explored * panel.facts["slots"] * horizon ** (2 / 3) - 1e-9), horizon),
                problem.actions.dim * horizon ** (-1 / 3),
                risk_tolerance=problem.risk_tolerance,
                min_variance=float(variances.min()),
                max_variance=float(variances.max()),
                max_mean_difference=float(np.ptp(means)),
            ),
        },
        "rise++": {
            "theorem": "Theorem 2",
            "value": rise_plus_plus_bound(horizon, problem.actions.dim, problem.gaps(handles), best_mean - means),
        },
    }


def _figure4_panels(size: SimulationSize, policies: Sequence[str], choices: PaperChoices) -> list[SimulationPanel]:
    """Return the panels of the paper's table of venues in both units, since the paper does not state its units."""
    return [
        SimulationPanel(
            name,
            f"({name}) the paper's venues, {PAPER_SHARES} shares, {units} units",
            Environment(paper_routing_instance(units, base_variance=choices.table_base_variance)),
            choices.policies(policies, len(PAPER_VENUES)),
            {"panel": name, "slots": len(PAPER_VENUES), "shares": PAPER_SHARES, "units": units},
            size,
        )
        for name, units in (("a", "norm-1"), ("b", "money"))
    ]


def _autocorrelation_panels(
    size: SimulationSize, policies: Sequence[str], choices: PaperChoices
) -> list[SimulationPanel]:
    """Return a panel per correlation and noise scale: standard deviation (the model) or variance (as printed)."""
    slots, shares = 5, 6
    problem = random_routing_problem(shares, slots, choices.correlated_instance)
    return [
        SimulationPanel(
            f"{name}-{noise}",
            f"({name}) correlation {correlation:+.1f}, noise times {noise}",
            Autocorrelated(problem, correlation, scale=noise),
            choices.policies(policies, slots),
            {
                "panel": name,
                "slots": slots,
                "shares": shares,
                "instance": choices.correlated_instance,
                "correlation": correlation,
                "noise": noise,
            },
            size,
        )
        for noise in ("deviation", "variance")
        for name, correlation in zip("abcde", (-0.6, -0.2, 0.2, 0.6, 0.0), strict=True)
    ]


def _changing_environment(horizon: int, choices: PaperChoices = DEFAULT) -> PiecewiseStationary:
    """Return an environment that draws new random coefficients at every change."""
    slots, shares = _CHANGING
    actions, number = routing_actions(shares, slots), choices.changing_instance
    changes = random_changes(horizon, min(choices.changes, horizon - 1), seed=number)
    # 1,000 seeds per instance, so that no two instances share a piece
    problems = [random_problem(actions, 1000 * number + piece) for piece in range(len(changes) + 1)]
    return PiecewiseStationary(problems, changes)


def _changing_panels(size: SimulationSize, policies: Sequence[str], choices: PaperChoices) -> list[SimulationPanel]:
    """Return one simulation panel, from which both panels of the paper's figure are drawn."""
    slots, shares = _CHANGING
    environment = _changing_environment(size.horizon, choices)
    facts = {"panel": "ab", "slots": slots, "shares": shares, "changes": list(environment.starts[1:])}
    title = f"{slots} slots, {shares} shares, {len(environment.starts) - 1} changes"
    named = choices.policies(policies, slots)
    chosen: dict[str, str | Policy] = dict(named) if isinstance(named, dict) else {name: name for name in named}
    if "restart-gse" in chosen:
        chosen["restart-gse"] = RestartGse(budget=_EXPLORATION["restart-gse"])
    return [SimulationPanel("a", title, environment, chosen, facts, size, _CHECKPOINTS, "linear")]


def _restart_gse_episode(
    size: SimulationSize, label: str = "restart-gse", choices: PaperChoices = DEFAULT
) -> dict[str, Any]:
    """Play one run; return its changes, restarts, exploration windows and gaps, and statistics of the gaps."""
    environment = _changing_environment(size.horizon, choices)
    stream = environment.stream_name
    policy = RestartGse(budget=_EXPLORATION[label]).start(
        environment.setting(size.horizon), seed_stream(size.seed, stream, label, 0, "policy")
    )
    rewards = environment.run(np.random.default_rng(seed_stream(size.seed, stream, label, 0, "rewards")))
    cuts = regret_checkpoints(size.horizon, _CHECKPOINTS, "linear")  # the rounds of the runner, so that draws are equal
    restarts, windows, lengths, gaps = [], [], [], []
    while policy.remaining:
        plan, begin = policy.plan(), policy.played
        if policy.cycle_start == begin:
            restarts.append(begin)
        tallies, _, blocks = rewards.plan_blocks(plan, cuts)
        policy.learn(tallies)
        if len(plan.actions) > 1:
            windows.append((begin, policy.played))
        lengths.append(blocks.counts)
        gaps.append(blocks.gaps)
    counts, gap = np.concatenate(lengths), np.concatenate(gaps)
    changes = list(environment.starts[1:])
    ends = np.cumsum(counts)
    return {
        "changes": changes,
        "restarts": restarts,
        "windows": _joined(windows),
        "gap_rounds": [0, *ends.tolist()],
        "gaps": [*gap.tolist(), float(gap[-1])],
    } | _concentration(ends, counts, gap, windows, changes)


def _concentration(
    ends: Integers,
    counts: Integers,
    gaps: Floats,
    windows: Sequence[tuple[int, int]],
    changes: Sequence[int],
) -> dict[str, float]:
    """Compare gaps inside exploration windows, or between a change and the end of the next window, with other gaps."""
    expected = np.zeros(int(ends[-1]), dtype=bool)
    for begin, end in windows:
        expected[begin:end] = True
    for change in changes:
        following = [end for begin, end in _joined(windows) if begin >= change]
        expected[change : following[0] if following else None] = True
    each = np.repeat(gaps, counts)
    gain = np.maximum(each, 0.0)
    quarters = [np.array_split(each[begin:end], 4) for begin, end in _joined(windows)]
    inside, outside = gain[expected], gain[~expected]
    return {
        "share_of_rounds": float(expected.mean()),
        "share_of_gaps": float(inside.sum() / max(gain.sum(), 1e-300)),
        "gap_inside": _mean([inside]),
        "gap_elsewhere": _mean([outside]),
        "gap_first_quarter": _mean([parts[0] for parts in quarters]),
        "gap_last_quarter": _mean([parts[-1] for parts in quarters]),
    }


def _mean(parts: Sequence[Floats]) -> float:
    """Return the mean of all values, or 0 if there are none."""
    values = np.concatenate([np.zeros(0), *parts])
    return float(values.mean()) if len(values) else 0.0


def _joined(windows: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for begin, end in windows:
        if joined and joined[-1][1] == begin:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((begin, end))
    return joined


@dataclass(frozen=True)
class Experiment:
    """Panels of one experiment; ``whole``: whether these are all its panels, with the default policies."""

    name: str
    panel: str | None
    panels: list[SimulationPanel]
    whole: bool
    choices: PaperChoices = DEFAULT

    @property
    def stem(self) -> str:
        """Common stem of the names of its files."""
        return self.name if self.panel is None else f"{self.name}-{self.panel}"

    @property
    def runs(self) -> int:
        """Number of runs of all policies in all panels."""
        return sum(panel.runs for panel in self.panels)


@dataclass(frozen=True)
class _ExperimentResult:
    """Result of an experiment: its JSON summary and the written files."""

    experiment: Experiment
    summary: dict[str, Any]
    files: list[Path]

    @property
    def title(self) -> str:
        """Title with the number of runs and rounds."""
        size = self.experiment.panels[0].size
        return f"{TITLES[self.experiment.name]} ({size.runs} run{'s' * (size.runs > 1)} of {size.horizon:,} rounds)"

    def draw(self) -> list[Path]:
        """Draw the figure into the other files' folder; return its path in a list, empty if there is no figure."""
        path = self.files[0].with_suffix(".png")
        return draw_experiment(self.summary, path, title=self.title, panel=self.experiment.panel)

    def table(self) -> TextTable:
        """Return the final regret of every policy per panel, averaged over instances."""
        groups: dict[str, list[Final]] = {}
        for panel in self.experiment.panels:
            policies = self.summary["panels"][panel.name]["policies"]
            groups.setdefault(panel.title, []).append({label: one["final"] for label, one in policies.items()})
        labels = list(self.experiment.panels[0].policies)
        rows = [
            [title, *(simulation_panel_average(members, label) for label in labels)]
            for title, members in groups.items()
        ]
        return TextTable(["final regret", *labels], rows)


def plan_experiments(
    name: str = "all",
    *,
    panel: str | None = None,
    runs: int | None = None,
    horizon: int | None = None,
    seed: int = 0,
    policies: Sequence[str] | None = None,
    preset: str | PaperChoices = "default",
) -> list[Experiment]:
    """Return the experiments to simulate.

    ``name`` is one of `TITLES`, or ``all``; ``panel`` is one panel of the paper's figure, ``a`` to ``e``. ``preset``
    holds the choices that the paper does not state. Defaults: 50 ``runs``, or 1 per random instance; the preset's
    ``horizon``; the ``policies`` that each experiment compares.
    """
    choices = preset if isinstance(preset, PaperChoices) else PRESETS[one_of("preset", preset, tuple(PRESETS))]
    horizon = choices.horizon if horizon is None else horizon
    names = list(TITLES) if one_of("experiment", name, (*TITLES, "all")) == "all" else [name]
    whole_number("horizon", horizon, maximum=LONGEST_HORIZON)
    whole_number("seed", seed, minimum=0)
    if runs is not None:
        whole_number("runs", runs)
    for policy in policies or ():
        one_of("policy", policy, tuple(POLICIES))
    if panel is not None and name == "all":
        raise InputError(f"panel needs a single experiment, got {panel!r} with all")
    found = []
    for each in names:
        usual = 1 if each == "instances" else 50  # one run per instance
        size = SimulationSize(horizon, usual if runs is None else runs, seed)
        panels = experiment_panels(each, size, tuple(dict.fromkeys(policies)) if policies else None, choices)
        if panel is not None:
            one_of("panel", panel, tuple(dict.fromkeys("".join(str(one.facts["panel"]) for one in panels))))
            panels = [one for one in panels if panel in str(one.facts["panel"])]
        found.append(Experiment(each, panel, panels, whole=panel is None and not policies, choices=choices))
    return found


def reproduce(
    experiments: Sequence[Experiment],
    out: Path,
    backend: Backend,
    *,
    resume: bool = False,
    finished: Finished | None = None,
) -> Iterator[_ExperimentResult]:
    """Simulate the experiments as one pool of tasks; write and yield the result of each, in order.

    Finished tasks are stored in ``out/tasks``; with ``resume``, stored tasks are not simulated again.
    """
    panels = [panel for experiment in experiments for panel in experiment.panels]
    played = run_panels(panels, RunnerCache(out / "tasks"), backend, resume=resume, finished=finished)
    for experiment in experiments:
        table = RunnerPanelWriter(out / experiment.name / f"{experiment.stem}.parquet")
        digests, configs = {}, {}
        for panel in experiment.panels:
            result = next(played)
            table.add(panel.tidy(result))
            digests[panel.name] = result.digest()
            configs[panel.name] = digests[panel.name].pop("config")
        yield _write(experiment, digests, configs, table)


def experiment_summary(experiment: Experiment, digests: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the JSON summary of an experiment, from the digests of its panels."""
    size, choices = experiment.panels[0].size, experiment.choices
    extra = {}
    if experiment.name == "nonstationary":
        included = "restart-gse" in experiment.panels[0].policies
        labels = _EXPLORATION if included else ()
        extra = {"stories": {label: _restart_gse_episode(size, label, choices) for label in labels}}
    panels = {}
    for panel in experiment.panels:
        facts = {"title": panel.title, **panel.facts}
        if experiment.name == "figure2":
            bounds = experiment_bounds(panel, choices)
            facts["bounds"] = {name: bounds[name] for name in panel.policies if name in bounds}
        panels[panel.name] = facts | choices.shown(digests[panel.name])
    return _heading(experiment) | extra | {"panels": panels}


def _heading(experiment: Experiment) -> dict[str, Any]:
    return {"experiment": experiment.name, "title": TITLES[experiment.name]}


def _write(
    experiment: Experiment, digests: dict[str, dict[str, Any]], configs: dict[str, Any], table: RunnerPanelWriter
) -> _ExperimentResult:
    stem, choices = table.target.with_suffix(""), experiment.choices
    chosen = {} if choices == DEFAULT else {"choices": asdict(choices)}
    contents = {
        "json": experiment_summary(experiment, digests),
        "config.json": _heading(experiment) | {"versions": provenance_versions()} | chosen | {"panels": configs},
    }
    written = [write_json(stem.with_name(f"{stem.name}.{ending}"), content) for ending, content in contents.items()]
    files = [table.close(), *written]
    return _ExperimentResult(experiment, contents["json"], files)
