"""What one order size and risk tolerance of a study came to: splits, frontier and policies, as typed results."""

from __future__ import annotations

import numpy as np

from riskroute.core.arrays import Floats
from riskroute.core.records import from_plain
from riskroute.core.results import SimulationResult
from riskroute.learning.registry import BASELINES
from riskroute.simulation.comparison import Panel
from riskroute.study.split.cases import WARM, Case
from riskroute.study.split.evaluation import evaluate_splits
from riskroute.study.split.money import charged_money, in_money
from riskroute.study.split.order_records import (
    RECOMMENDED,
    OrderParts,
    OrderPolicyMeasures,
    OrderPolicyResult,
    OrderResult,
    OrderSampleCount,
    OrderSlotFit,
    OrderSlotModel,
    OrderSplitResult,
)
from riskroute.study.split.orders import NAIVE, order_alternatives, order_frontier


def order_result(case: Case, results: dict[str, SimulationResult], seed: int) -> OrderResult:
    """Everything about one order size and risk tolerance.

    Parameters
    ----------
    case : Case
        The prepared order.
    results : dict of str to SimulationResult
        What the policies did, by environment: ``model``, ``train`` and ``test``.
    seed : int
        Seed of the bootstrap behind the standard errors.

    Returns
    -------
    OrderResult
        The findings.
    """
    prepared, problem, replays = case.prepared, case.problem, case.replays
    allocations = order_alternatives(prepared, problem, replays["train"])
    measured = {
        part: evaluate_splits(allocations, replay, prepared.buckets(part), first=RECOMMENDED, seed=seed)
        for part, replay in replays.items()
    }
    mid = OrderParts(prepared.mid("train"), prepared.mid("test"))
    splits = {
        name: OrderSplitResult(
            allocation,
            in_money(measured["train"][name], prepared.shares, mid.train, problem.risk_tolerance),
            in_money(measured["test"][name], prepared.shares, mid.test, problem.risk_tolerance),
        )
        for name, allocation in allocations.items()
    }
    policies = {
        name: OrderPolicyResult(
            *(_policy(name, results[place], case.panels[place]) for place in ("model", "train", "test"))
        )
        for name in results["train"].policies
    }
    recommended = splits[RECOMMENDED]
    return OrderResult(
        shares=prepared.shares,
        risk_tolerance=problem.risk_tolerance,
        lot=prepared.lot,
        mid=mid,
        slots=tuple(prepared.slots),
        kinds=tuple(model.kind for model in prepared.models),
        caps=tuple(prepared.caps.tolist()),
        rests_cross_at=prepared.homes,
        unused_slots=prepared.unused,
        moments=OrderParts(_count(case, "train"), _count(case, "test")),
        splits_possible=str(problem.actions.size),
        beyond_known_levels=OrderParts(*(replays[part].beyond(allocations[RECOMMENDED]) for part in ("train", "test"))),
        left_out=OrderParts(prepared.left_out("train"), prepared.left_out("test")),
        models={model.name: OrderSlotModel(model.mean, model.variance, model.kind) for model in prepared.models},
        fits={name: from_plain(OrderSlotFit, fit.summary()) for name, fit in prepared.fits.items()},
        splits=splits,
        naive_splits=tuple(name for name in NAIVE if name in splits),
        gap=recommended.gap,
        gap_error=recommended.gap_error,
        frontier=order_frontier(prepared, replays["train"], replays["test"], seed),
        policies=policies,
        recommended_policy=_best_policy(policies),
        warm_policies=tuple(name for name in policies if name == WARM),
        unplayed=tuple(case.unplayed),
    )


def _count(case: Case, part: str) -> OrderSampleCount:
    return OrderSampleCount(len(np.unique(case.prepared.buckets(part))), case.replays[part].scenarios)


def _best_policy(policies: dict[str, OrderPolicyResult]) -> str:
    """The policy with the best outcome in the train hours; baselines are excluded where there are others."""
    able = [name for name in policies if name not in BASELINES] or list(policies)
    return min(able, key=lambda name: policies[name].train.mean_variance)


def _policy(name: str, result: SimulationResult, panel: Panel) -> OrderPolicyMeasures:
    """Regret of a policy, and what a round earned on average with learning included."""
    one, environment, curve = result.policies[name], panel.environment, result.policies[name].curve()
    horizon = int(one.checkpoints[-1])
    comparator = float(environment.expected_comparator(np.array([horizon]))[0])
    each = (one.regret[:, -1] + comparator) / horizon
    regret, error = curve.mean_regret[-1], _error(each)
    ends = [tuple(int(share) for share in np.atleast_1d(action)) for action in one.recommended]
    common = max(set(ends), key=ends.count)
    tolerance = environment.risk_tolerance
    return OrderPolicyMeasures(
        regret=regret,
        regret_error=curve.std_regret[-1] / one.runs**0.5,
        learning_cost=charged_money(regret, tolerance),
        mean_variance=float(each.mean()),
        cost_each=charged_money(float(each.mean()), tolerance),
        cost_each_error=charged_money(error, tolerance) if error is not None else None,
        mean_variance_error=error,
        explored=float(one.exploration.mean() / horizon),
        ended_on=common,
        ended_on_share=ends.count(common) / len(ends),
        runs=one.runs,
        checkpoints=curve.checkpoints,
        mean_regret=curve.mean_regret,
        std_regret=curve.std_regret,
    )


def _error(values: Floats) -> float | None:
    """Standard error of a mean over runs; None for a single run."""
    return float(values.std(ddof=1) / len(values) ** 0.5) if len(values) > 1 else None
