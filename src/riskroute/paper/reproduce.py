"""Reproduce the paper's simulated experiments: simulate on a backend, write figures, tables and summaries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from riskroute.core.errors import InputError
from riskroute.core.files import write_json
from riskroute.core.runtime import provenance_versions
from riskroute.core.text import TextTable
from riskroute.core.validation import one_of, whole_number
from riskroute.learning.plan import LONGEST_HORIZON
from riskroute.learning.registry import POLICIES
from riskroute.paper.experiments import experiment_panels, regret_bounds, restart_gse_episodes
from riskroute.paper.figures import draw_experiment
from riskroute.paper.presets import DEFAULT, PRESETS, PaperChoices
from riskroute.simulation.backends import Backend, Finished
from riskroute.simulation.runner import (
    Final,
    PanelWriter,
    SimulationPanel,
    SimulationSize,
    TaskCache,
    panel_average,
    simulate_panels,
)

# The experiments, in the order in which they run.
TITLES = {
    "figure2": "Figure 2: regret on random instances",
    "figure4": "Figure 4: regret on the paper's table of venues",
    "nonstationary": "Abruptly changing coefficients",
    "autocorrelation": "Autocorrelated noise",
    "instances": "Thirty random instances of each problem of figure 2",
}


@dataclass(frozen=True)
class Experiment:
    """Panels of one experiment; ``whole`` if all panels with the default policies are included."""

    name: str
    panel: str | None
    panels: list[SimulationPanel]
    whole: bool
    choices: PaperChoices = DEFAULT

    @property
    def stem(self) -> str:
        """Stem of the file names."""
        return self.name if self.panel is None else f"{self.name}-{self.panel}"

    @property
    def runs(self) -> int:
        """Number of runs of all policies in all panels."""
        return sum(panel.runs for panel in self.panels)


@dataclass(frozen=True)
class _ExperimentResult:
    """Result of an experiment: its summary, as in the JSON file, and the written files."""

    experiment: Experiment
    summary: dict[str, Any]
    files: list[Path]

    @property
    def title(self) -> str:
        """Title with the number of runs and rounds."""
        size = self.experiment.panels[0].size
        return f"{TITLES[self.experiment.name]} ({size.runs} runs of {size.horizon:,} rounds)"

    def draw(self) -> list[Path]:
        """Draw the figure beside the other files; return its path, or nothing if the experiment has no figure."""
        path = self.files[0].with_suffix(".png")
        return draw_experiment(self.summary, path, title=self.title, panel=self.experiment.panel)

    def table(self) -> TextTable:
        """Return the final regret of every policy per panel, averaged over instances."""
        groups: dict[str, list[Final]] = {}
        for panel in self.experiment.panels:
            policies = self.summary["panels"][panel.name]["policies"]
            groups.setdefault(panel.title, []).append({label: one["final"] for label, one in policies.items()})
        labels = list(self.experiment.panels[0].policies)
        rows = [[title, *(panel_average(members, label) for label in labels)] for title, members in groups.items()]
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

    ``name`` is one of `TITLES`, or ``all``; ``panel`` a single panel of the paper's figure, ``a`` to ``e``. Default:
    50 runs, and 1 per random instance; rounds of the preset; the paper's four policies and ``adaptive``. ``preset``
    makes the choices that the paper does not state.
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
        raise InputError(f"panel needs a single experiment, was {panel!r} with all")
    found = []
    for each in names:
        usual = 1 if each == "instances" else 50  # there the instance varies, not the run
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
    """Simulate all experiments, then write and yield one after the other.

    Finished tasks are stored in ``out/tasks``; ``resume`` continues from them.
    """
    panels = [panel for experiment in experiments for panel in experiment.panels]
    played = simulate_panels(panels, TaskCache(out / "tasks"), backend, resume=resume, finished=finished)
    for experiment in experiments:
        table = PanelWriter(out / experiment.name / f"{experiment.stem}.parquet")
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
        extra = {"stories": restart_gse_episodes(size, choices) if included else {}}
    panels = {}
    for panel in experiment.panels:
        facts = {"title": panel.title, **panel.facts}
        if experiment.name == "figure2":
            bounds = regret_bounds(panel, choices)
            facts["bounds"] = {name: bounds[name] for name in panel.policies if name in bounds}
        panels[panel.name] = facts | choices.shown(digests[panel.name])
    return _heading(experiment) | extra | {"panels": panels}


def _heading(experiment: Experiment) -> dict[str, Any]:
    return {"experiment": experiment.name, "title": TITLES[experiment.name]}


def _write(
    experiment: Experiment, digests: dict[str, dict[str, Any]], configs: dict[str, Any], table: PanelWriter
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
