"""Every experiment of the paper by its name: played on a backend, written as figure, page, table and summary."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from riskroute.core.errors import InputError
from riskroute.core.files import write_json
from riskroute.core.records import from_plain, to_plain
from riskroute.core.results import RegretCurve
from riskroute.core.runtime import provenance_versions
from riskroute.core.text import TextTable
from riskroute.core.validation import one_of, whole_number
from riskroute.learning.plan import LONGEST_HORIZON
from riskroute.learning.registry import POLICIES
from riskroute.paper import autocorrelation, figure2, figure4, nonstationary
from riskroute.paper.presets import DEFAULT, PRESETS, PaperChoices
from riskroute.paper.results import PaperChangeStory, PaperFigureResult
from riskroute.simulation.backends import Backend, Finished
from riskroute.simulation.comparison import COMPARED
from riskroute.simulation.panels import Final, Panel, PanelSize, PanelWriter, panel_average, play_panels
from riskroute.simulation.tasks import TaskCache

TITLES = {
    "figure2": "Figure 2: regret on random instances",
    "figure4": "Figure 4: regret on the paper's table of venues",
    "nonstationary": "Coefficients that change abruptly",
    "autocorrelation": "Autocorrelated noise",
    "instances": "Thirty random instances of each problem of figure 2",
}
"""The experiments, in the order in which they are run."""

USUAL_RUNS = {"instances": 1}
"""Runs per policy where they are not 50: what varies there is the instance."""


@dataclass(frozen=True)
class Experiment:
    """Panels that belong together; ``whole`` says that nothing was left out or added."""

    name: str
    panel: str | None
    panels: list[Panel]
    whole: bool
    choices: PaperChoices = DEFAULT

    @property
    def stem(self) -> str:
        """Name of its files, without ending."""
        return self.name if self.panel is None else f"{self.name}-{self.panel}"

    @property
    def runs(self) -> int:
        """All runs of all policies."""
        return sum(panel.runs for panel in self.panels)


@dataclass(frozen=True)
class ExperimentResult:
    """What came out of an experiment: its summary, as in the JSON file, and the files written."""

    experiment: Experiment
    summary: dict[str, Any]
    files: list[Path]

    def curves(self) -> dict[str, dict[str, RegretCurve]]:
        """Regret curves of the policies, by the title of the panel."""
        return {
            panel["title"]: {name: _curve(digest) for name, digest in panel["policies"].items()}
            for panel in self.summary["panels"].values()
        }

    def story(self) -> PaperChangeStory | None:
        """What one run of ``restart-gse`` did as the coefficients changed; None for other experiments."""
        told = self.summary.get("stories", {}).get("restart-gse")
        if told is None:
            return None
        return from_plain(PaperChangeStory, {field.name: told[field.name] for field in fields(PaperChangeStory)})

    @property
    def title(self) -> str:
        """Title of the experiment, with what was played."""
        scale = self.experiment.panels[0].size
        return f"{TITLES[self.experiment.name]} ({scale.runs} runs of {scale.horizon:,} rounds)"

    def figure(self) -> PaperFigureResult:
        """Return what its picture shows."""
        experiment = self.experiment
        return PaperFigureResult(experiment.name, self.title, self.curves(), self.story(), experiment.panel)


def _curve(digest: dict[str, Any]) -> RegretCurve:
    checkpoints, mean, deviation = (tuple(digest[name]) for name in ("checkpoints", "mean_regret", "std_regret"))
    return RegretCurve(checkpoints, mean, deviation, digest["runs"])


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
    """Say what is to be played.

    Parameters
    ----------
    name : str
        One of `TITLES`, or ``all``.
    panel : str, optional
        One panel of the paper's figure only, ``a`` to ``e``.
    runs : int, optional
        Runs per policy; if None, 50, and 1 per instance.
    horizon : int, optional
        Rounds per run; those of the preset if None.
    policies : Sequence[str], optional
        Instead of the paper's four and the recommended one.
    preset : str or PaperChoices
        What the paper leaves open: one of `PRESETS`, or choices of your own.
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
        raise InputError(f"panel must go with one experiment, was {panel!r} for all of them")
    found = []
    for each in names:
        run_size = PanelSize(horizon, USUAL_RUNS.get(each, 50) if runs is None else runs, seed)
        panels = _panels(each, run_size, tuple(dict.fromkeys(policies)) if policies else None, choices)
        if panel is not None:
            one_of("panel", panel, tuple(dict.fromkeys("".join(str(one.facts["panel"]) for one in panels))))
            panels = [one for one in panels if panel in str(one.facts["panel"])]
        found.append(Experiment(each, panel, panels, whole=panel is None and not policies, choices=choices))
    return found


def _panels(name: str, run_size: PanelSize, policies: tuple[str, ...] | None, choices: PaperChoices) -> list[Panel]:
    if name == "nonstationary":
        return nonstationary.nonstationary_panels(run_size, policies or nonstationary.POLICIES, choices)
    make: dict[str, Callable[..., list[Panel]]] = {
        "figure2": figure2.figure2_panels,
        "figure4": figure4.figure4_panels,
        "autocorrelation": autocorrelation.autocorrelation_panels,
        "instances": figure2.figure2_instances,
    }
    return make[name](run_size, policies or COMPARED, choices)


def reproduce(
    experiments: Sequence[Experiment],
    out: Path,
    backend: Backend,
    *,
    resume: bool = False,
    finished: Finished | None = None,
) -> Iterator[ExperimentResult]:
    """Play everything, then write and return one experiment after the other.

    Finished tasks lie in ``out/tasks``; ``resume`` goes on from them.
    """
    panels = [panel for experiment in experiments for panel in experiment.panels]
    played = play_panels(panels, TaskCache(out / "tasks"), backend, resume=resume, finished=finished)
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
    """Return what is known about a played experiment, as in its JSON file, from the digests of its panels."""
    run_size, choices = experiment.panels[0].size, experiment.choices
    extra = {}
    if experiment.name == "nonstationary":
        labels = nonstationary.STORIES if "restart-gse" in experiment.panels[0].policies else ()
        stories = {label: nonstationary.nonstationary_story(run_size, label, choices=choices) for label in labels}
        extra = {"stories": stories}
    facts = {panel.name: {"title": panel.title, **panel.facts} for panel in experiment.panels}
    panels = {name: facts[name] | choices.shown(digest) for name, digest in digests.items()}
    return _heading(experiment) | extra | {"panels": panels}


def _heading(experiment: Experiment) -> dict[str, Any]:
    return {"experiment": experiment.name, "title": TITLES[experiment.name]}


def _write(
    experiment: Experiment, digests: dict[str, dict[str, Any]], configs: dict[str, Any], table: PanelWriter
) -> ExperimentResult:
    stem, choices = table.target.with_suffix(""), experiment.choices
    left_open = {} if choices == DEFAULT else {"choices": to_plain(choices)}
    contents = {
        "json": experiment_summary(experiment, digests),
        "config.json": _heading(experiment) | {"versions": provenance_versions()} | left_open | {"panels": configs},
    }
    written = [write_json(stem.with_name(f"{stem.name}.{ending}"), content) for ending, content in contents.items()]
    files = [table.close(), *written]
    return ExperimentResult(experiment, contents["json"], files)


def reproduced_standings(done: ExperimentResult) -> TextTable:
    """Header and rows of a table: where every policy ended, per panel; instances are averaged over."""
    groups: dict[str, list[Final]] = {}
    for panel in done.experiment.panels:
        policies = done.summary["panels"][panel.name]["policies"]
        groups.setdefault(panel.title, []).append({label: one["final"] for label, one in policies.items()})
    labels, run_size = list(done.experiment.panels[0].policies), done.experiment.panels[0].size
    rows = [[title, *(panel_average(members, label) for label in labels)] for title, members in groups.items()]
    names = [f"{n} ({run_size.runs_of(n)} runs)" if run_size.runs_of(n) < run_size.runs else n for n in labels]
    return TextTable(["final regret", *names], rows)
