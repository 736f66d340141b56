"""The paper's non-stationary experiment: coefficients that change abruptly, and restarts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from riskroute.core.arrays import Floats, Integers
from riskroute.core.seeding import seed_stream
from riskroute.learning.policies.restart_gse import RestartGse
from riskroute.learning.policy import Policy
from riskroute.learning.problem import random_problem
from riskroute.learning.regret import regret_checkpoints
from riskroute.paper.presets import DEFAULT, PaperChoices
from riskroute.routing.instances import routing_actions
from riskroute.simulation.environments import PiecewiseStationary, random_changes
from riskroute.simulation.panels import Panel, PanelSize

SLOTS, SHARES = 4, 4
"""The paper states neither; the smallest of its synthetic problems."""

APART = 1000
"""The pieces of one instance are numbered from this many times its number, so that no two instances share one."""

EXPLORED = 500
"""Rounds of exploration per cycle of `restart-gse`; the paper's rate, T^(2/9), is 12 rounds of 100,000."""

POLICIES = ("restart-gse", "change-test", "rise")
"""The paper's; ours; one that expects no changes."""

STORIES = {"restart-gse": EXPLORED, "restart-gse short": None}
"""Runs told segment by segment: with enough exploration, and with as little as the paper's rate says."""

CHECKPOINTS = 1000


def nonstationary_environment(horizon: int, choices: PaperChoices = DEFAULT) -> PiecewiseStationary:
    """Coefficients drawn anew at every change."""
    actions, number = routing_actions(SHARES, SLOTS), choices.changing_instance
    changes = random_changes(horizon, min(choices.changes, horizon - 1), seed=number)
    problems = [random_problem(actions, APART * number + piece) for piece in range(len(changes) + 1)]
    return PiecewiseStationary(problems, changes)


def nonstationary_panels(
    run_size: PanelSize, policies: Sequence[str] = POLICIES, choices: PaperChoices = DEFAULT
) -> list[Panel]:
    """One set of runs, for both panels of the paper's figure."""
    world = nonstationary_environment(run_size.horizon, choices)
    facts = {"panel": "ab", "slots": SLOTS, "shares": SHARES, "changes": list(world.starts[1:])}
    title = f"{SLOTS} slots, {SHARES} shares, {len(world.starts) - 1} changes"
    played = choices.policies(policies, SLOTS)
    chosen: dict[str, str | Policy] = dict(played) if isinstance(played, dict) else {name: name for name in played}
    if "restart-gse" in chosen:
        chosen["restart-gse"] = RestartGse(budget=EXPLORED)
    return [Panel("a", title, world, chosen, facts, run_size, CHECKPOINTS, "linear")]


def nonstationary_story(
    run_size: PanelSize, label: str = "restart-gse", run: int = 0, choices: PaperChoices = DEFAULT
) -> dict[str, Any]:
    """One run of the paper's policy, segment by segment: where it restarts and explores, and the gap of its rounds.

    Returns ``changes``, ``restarts``, ``windows`` of exploration, ``gap_rounds`` (where segments begin, and the end),
    ``gaps``, and how the positive gaps divide, see `_concentration`.
    """
    world = nonstationary_environment(run_size.horizon, choices)
    instance = world.stream_name
    policy = RestartGse(budget=STORIES[label]).start(
        world.setting(run_size.horizon), seed_stream(run_size.seed, instance, label, run, "policy")
    )
    rewards = world.run(np.random.default_rng(seed_stream(run_size.seed, instance, label, run, "rewards")))
    cuts = regret_checkpoints(run_size.horizon, CHECKPOINTS, "linear")  # as the runner cuts
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
    changes = list(world.starts[1:])
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
    """How the positive gaps divide between expected places and the rest.

    Expected are the windows of exploration, and the time from a change to the end of the next window.
    """
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
    """Mean of all values, 0 if there are none."""
    values = np.concatenate([np.zeros(0), *parts])
    return float(values.mean()) if len(values) else 0.0


def _joined(windows: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Windows that touch become one."""
    joined: list[tuple[int, int]] = []
    for begin, end in windows:
        if joined and joined[-1][1] == begin:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((begin, end))
    return joined
