"""Every public call with valid arguments, and values that are invalid almost everywhere."""

from __future__ import annotations

import datetime as dt
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars

import riskroute as rr
from riskroute.simulation import sweep
from riskroute.study import config as study_config

Call = tuple[Callable[..., Any], dict[str, Any]]

BAD: tuple[Any, ...] = (
    None, True, 3, -1, 0, 3.5, float("nan"), float("inf"), 1e300, 1e-300, 10**30, "x", "", b"x", "\0",
    [], {}, (), object(), [1, "x"], [[1.0], [2.0, 3.0]], [None], [object()], [1e300, -1e300],
    np.zeros((2, 2, 2)), np.array(["a"]), np.array([]), np.array([np.nan, 1.0]), np.array(5),
    dt, Path("/dev/null/folder/file"), dt.datetime(2019, 3, 27, 11),
)  # fmt: skip

ACTIONS = rr.Actions([[0.6, 0.1], [0.1, 0.7], [0.4, 0.4]])
SPLITS = rr.Allocations(shares=4, slots=3)
SURVIVORS = rr.Allocations(shares=400, slots=6).within(np.linspace(-1.0, 1.0, 12), 0.4)
PROBLEM = rr.Problem(actions=ACTIONS, mean_coef=np.array([0.5, 0.1]), var_coef=np.array([0.2, 0.3]))
OVER_SPLITS = rr.random_problem(SPLITS, seed=1)
ENVIRONMENT = rr.Environment(PROBLEM)
MODELS = [rr.VenueModel("A", (-0.07, -0.0002), (0.0, 0.0006)), rr.VenueModel("B", (-0.05, 0.0), (0.0, 0.006))]
TALLIES = rr.Tallies(np.array([0, 1]), np.array([2, 3]), np.array([0.5, 0.1]), np.array([1.0, 2.0]))
BELIEF = rr.Belief(np.zeros(2), np.eye(2), np.zeros(2), np.eye(2), 1.0, 10.0)
BOOK: dict[str, Any] = {
    "slots": (0, 2),
    "crossing": np.array([[0.0, -1.0, -3.0, -6.0]]),
    "rests": np.array([[[0, 1, 2, 3]], [[0, 0, 1, 2]]]),
    "depths": np.array([2]),
}
DAY = dt.date(2019, 3, 27)
SCHEDULE = rr.routing.FeeSchedule([rr.routing.Fee("XNAS", DAY, 0.003, -0.002)])
SETTING = rr.Setting(actions=ACTIONS, horizon=50)


POOL = rr.market.DarkPool(presence=0.5, tail=1.0)
ONE_WORKER = rr.Backend("local", 1)
WINDOW = rr.market.TimeWindow(dt.time(11), dt.time(11, 20), 10)
BOOKS: dict[str, Any] = {
    "venues": {
        "A": {"bids": [[10.00, 150], [9.98, 500]], "asks": [[10.02, 100]], "taker": 0.003, "maker": -0.002},
        "B": {"bids": [[10.00, 100], [9.99, 300]], "asks": [[10.02, 100]], "taker": -0.002, "maker": 0.001},
    },
    "pools": {"P": {"fee": 0.001}},
}
ORDER: dict[str, Any] = {"side": "sell", "shares": 300, "lot": 1, "horizon": 10.0, "order": "a", "time": 5}
CONTEXT = rr.routers.read_context(BOOKS, **ORDER)
CHILD = rr.routers.ChildReport(0, "dark", "P", 300, 120, 10.01, 0.12, 5, 9)
PLAN = rr.routers.Plan("a", dark={"P": 300})


def replay() -> rr.Replay:
    return rr.Replay(OVER_SPLITS, np.random.default_rng(0).normal(size=(3, 6, 5)))


def a_little(policy: rr.Policy) -> None:
    """Play a few rounds, and plans."""
    rng = np.random.default_rng(1)
    for _ in range(12):
        policy.update(policy.select(), float(rng.normal()))


def started(name: str) -> Callable[..., Any]:
    def start(**parameters: Any) -> None:
        a_little(rr.make_policy(name, **parameters).start(SETTING))

    return start


def policies() -> Iterator[tuple[str, Call]]:
    for name, kind in rr.POLICIES.items():
        parameters = {key: item.default for key, item in inspect.signature(kind).parameters.items()}
        if name == "oracle":
            parameters["schedule"] = ((0, 1),)
        yield f"make_policy {name}", (started(name), parameters)

        def method(call: Callable[..., Any], kind: Any = kind, parameters: dict[str, Any] = parameters) -> Any:
            return lambda **arguments: call(kind(**parameters), **arguments)

        yield f"{kind.__name__}.start", (method(lambda policy, **a: policy.start(**a)), {"setting": SETTING, "seed": 3})
        yield f"{kind.__name__}.learn", (method(_learn), {"tallies": "right"})
        yield f"{kind.__name__}.update", (method(_update), {"action": "right", "reward": 0.3})
        yield f"{kind.__name__}.offer", (method(_offer), {"actions": ACTIONS})
        state = kind(**parameters).start(SETTING).state()
        yield f"{kind.__name__}.restore", (kind.restore, {"state": state, "actions": ACTIONS})


def _learn(policy: rr.Policy, tallies: Any) -> None:
    plan = policy.start(SETTING).plan()
    right = rr.Tallies(plan.actions, plan.counts, np.zeros(len(plan.counts)), np.zeros(len(plan.counts)))
    policy.learn(right if isinstance(tallies, str) and tallies == "right" else tallies)


def _update(policy: rr.Policy, action: Any, reward: Any) -> None:
    policy.start(SETTING)
    right = policy.select()
    policy.update(right if isinstance(action, str) and action == "right" else action, reward)


def _offer(policy: rr.Policy, actions: Any) -> None:
    policy.start(SETTING).offer(actions)
    policy.select()


def action_sets() -> Iterator[tuple[str, Call]]:
    for name, actions in (("Actions", ACTIONS), ("Allocations", SPLITS), ("Survivors", SURVIVORS)):
        coef = np.linspace(-1.0, 1.0, actions.dim)
        best = actions.best(coef)
        batch = np.array([best])
        yield f"{name}.features", (actions.features, {"actions": batch})
        yield f"{name}.contains", (actions.contains, {"actions": batch})
        yield f"{name}.action_features", (actions.action_features, {"action": best})
        yield f"{name}.best", (actions.best, {"coef": coef})
        yield f"{name}.best_each", (actions.best_each, {"coefs": coef[None]})
        yield f"{name}.within", (actions.within, {"coef": coef, "tolerance": 0.1})
        if actions is not SURVIVORS:  # there they take their time
            yield f"{name}.design", (actions.design, {"tolerance": 0.1})
            yield f"{name}.top", (actions.top, {"coef": coef, "count": 2})
        yield f"{name}.sample", (actions.sample, {"rng": np.random.default_rng(0), "count": 2})
    yield "Actions", (rr.Actions, {"features": [[1.0, 2.0], [0.5, 0.0]], "coordinates": 2, "handles": [[1, 2], [2, 3]]})
    yield "Actions.scaled", (rr.Actions.scaled, {"features": [[1.0, 2.0], [0.5, 0.0]], "coordinates": 2})
    yield "Actions.action", (ACTIONS.action, {"position": 1})
    yield "Actions.rows_of", (ACTIONS.rows_of, {"actions": np.array([1])})
    yield "Actions.scores", (ACTIONS.scores, {"coef": np.ones(2)})
    yield "Allocations", (
        rr.Allocations, {"shares": 6, "slots": 3, "lot": 2, "caps": [6, 4, 4], "minimums": 0, "scale": 40.0},
    )  # fmt: skip
    for method in ("two_best", "margin", "separable"):
        yield f"Allocations.{method}", (getattr(SPLITS, method), {"coef": np.ones(6)})
    yield "Allocations.apportion", (SPLITS.apportion, {"weights": [0.5, 0.3, 0.2]})
    yield "Allocations.rank", (SPLITS.rank, {"action": (1, 1, 2)})
    yield "Allocations.unrank", (SPLITS.unrank, {"rank": 3})
    yield "Allocations.listed_rows", (SPLITS.listed_rows, {"allocations": np.array([[1, 1, 2]])})
    yield "g_optimal", (rr.g_optimal, {"features": [[1.0, 2.0], [0.5, 0.0]], "tolerance": 0.1})
    yield "count_splits", (rr.routing.count_splits, {"shares": 4, "slots": 3})
    yield "list_splits", (rr.routing.list_splits, {"shares": 4, "slots": 3})
    yield "split_actions", (rr.routing.split_actions, {"shares": 4, "slots": 3, "scale": 20.0})
    yield "routing_actions", (rr.routing.routing_actions, {"shares": 4, "slots": 3, "listed": True, "scale": 20.0})
    yield "check_actions", (rr.check_actions, {"actions": ACTIONS, "seed": 1})


def _tickets() -> rr.Tickets:
    """Tickets of which one is out."""
    tickets = rr.Tickets(rr.make_policy("greedy").start(rr.Setting(actions=ACTIONS)))
    tickets.issue()
    return tickets


def _settle(number: Any, reward: Any, action: Any) -> None:
    """Settle the ticket that is out, which can be done once."""
    _tickets().settle(number, reward, action)


def learning() -> Iterator[tuple[str, Call]]:
    yield "Setting", (
        rr.Setting, {"actions": ACTIONS, "horizon": 10, "risk_tolerance": 1.0, "base_variance": 1.0},
    )  # fmt: skip
    yield "Plan", (rr.Plan, {"actions": [0, 1], "counts": [3, 2]})
    yield "Plan.repeat", (rr.Plan.repeat, {"action": 1, "count": 3})
    yield "Plan.fitted", (rr.Plan(np.array([0, 1]), np.array([3, 2])).fitted, {"rounds": 4})
    yield "Tally", (rr.Tally, {"count": 2, "mean": 0.5, "spread": 1.0})
    yield "Tally.of", (rr.Tally.of, {"rewards": [1.0, 2.0]})
    yield "Tally.merge", (rr.Tally(1, 2.0, 0.0).merge, {"other": rr.Tally(1, 2.0, 0.0)})
    arrays = {"actions": [0, 1], "counts": [2, 3], "means": [0.5, 0.1], "spreads": [1.0, 2.0]}
    yield "Tallies", (lambda **a: rr.Tallies(**a).by_action(), arrays)
    yield "Tallies.of", (rr.Tallies.of, {"actions": [0], "tallies": [rr.Tally(1, 2.0, 0.0)]})
    yield "Tallies.joined", (TALLIES.joined, {"other": TALLIES})
    yield "Ticket", (rr.Ticket, {"number": 0, "action": 1, "learned": True})
    yield (
        "Tickets",
        (rr.Tickets, {"policy": rr.make_policy("greedy").start(rr.Setting(actions=ACTIONS)), "ahead": False}),
    )
    yield "Tickets.settle", (_settle, {"number": 0, "reward": 1.0, "action": 0})
    yield "Tickets.abandon", (_tickets().abandon, {"number": 0})
    yield "Tickets.action", (_tickets().action, {"number": 0})
    yield "Design", (rr.Design, {"actions": [0, 1], "weights": [0.5, 0.5], "bound": 2.0, "rank": 2})
    yield "LeastSquaresEstimate", (rr.learning.LeastSquaresEstimate, {"mean_coef": [0.5], "var_coef": [0.1]})
    yield (
        "LeastSquaresEstimate.score",
        (rr.learning.LeastSquaresEstimate(np.array([0.5]), np.array([0.1])).score, {"risk_tolerance": 2.0}),
    )
    yield (
        "least_squares",
        (
            rr.learning.least_squares,
            {"features": np.eye(2), "tallies": TALLIES, "base_variance": 1.0, "ridge": 0.1, "corrected": False},
        ),
    )
    fields = {
        "mean_coef": [0.0, 0.0],
        "mean_precision": np.eye(2),
        "var_coef": [0.0, 0.0],
        "var_precision": np.eye(2),
        "variance": 1.0,
        "rounds": 10.0,
    }
    yield "Belief", (lambda **a: a_little(rr.policies.Adaptive(prior=rr.Belief(**a)).start(SETTING)), fields)
    yield "Belief.weakened", (BELIEF.weakened, {"factor": 0.5})
    yield "Belief.score", (BELIEF.score, {"risk_tolerance": 2.0})
    yield "Belief.score_covariance", (BELIEF.score_covariance, {"risk_tolerance": 2.0})
    coefs = {"mean_coef": [0.5, 0.1], "var_coef": [0.2, 0.3], "base_variance": 1.0, "risk_tolerance": 2.0}
    yield "Problem", (rr.Problem, {"actions": ACTIONS, **coefs, "check_norms": True})
    yield "Problem unchecked", (lambda **a: rr.Problem(**a, check_norms=False).gaps(), {"actions": ACTIONS, **coefs})
    yield "Problem.scaled", (rr.Problem.scaled, {"actions": ACTIONS, **coefs})
    for method in ("means", "variances", "mean_variances", "gaps"):
        yield f"Problem.{method}", (getattr(PROBLEM, method), {"actions": np.array([1])})
    yield "random_problem", (
        rr.random_problem, {"actions": ACTIONS, "seed": 1, "risk_tolerance": 2.0, "base_variance": 1.0},
    )  # fmt: skip
    gaps: dict[str, Any] = {"horizon": 100, "gaps": [0.0, 0.5], "mean_differences": [0.0, 0.1]}
    yield "rise_plus_plus_bound", (rr.learning.rise_plus_plus_bound, gaps | {"dim": 2, "constant": 1.0})
    yield "risk_ucb_bound", (rr.learning.risk_ucb_bound, gaps | {"risk_tolerance": 2.0, "best_variance": 1.0})
    yield "risk_exp_exp_bound", (rr.learning.risk_exp_exp_bound, {"horizon": 100, "n_actions": 3})
    sizes: dict[str, Any] = {"deviation": 1.0, "largest_mean": 1.0, "constant": 1.0}
    yield "restart_bound", (rr.learning.restart_bound, {"horizon": 100, "changes": 2, **sizes})
    yield (
        "temporal_remainder",
        (
            rr.learning.temporal_remainder,
            {"horizon": 100, "max_deviation": 1.0, "max_mean_difference": 1.0, "var_range": 0.5},
        ),
    )
    spread: dict[str, Any] = {"min_variance": 0.5, "max_variance": 1.0, "max_mean_difference": 1.0}
    yield (
        "rise_bound",
        (
            rr.learning.rise_bound,
            {"horizon": 100, "explore_rounds": 10, "epsilon": 0.1, "risk_tolerance": 2.0, **spread},
        ),
    )
    yield "lower_bound", (rr.lower_bound, {"problem": PROBLEM, "tolerance": 0.1})
    yield "LowerBound.regret", (rr.lower_bound(PROBLEM).regret, {"horizon": 100.0})
    state = rr.policies.Uniform().start(SETTING).state()
    yield "make_policy", (lambda name: rr.make_policy(name), {"name": "rise"})
    yield "restore_policy", (rr.restore_policy, {"state": state, "actions": ACTIONS})
    yield "check_policy", (rr.check_policy, {"policy": rr.policies.Uniform(), "learns": False})


def routing() -> Iterator[tuple[str, Call]]:
    yield (
        "random_routing_problem",
        (
            rr.random_routing_problem,
            {"shares": 3, "slots": 3, "seed": 1, "risk_tolerance": 2.0, "base_variance": 1.0},
        ),
    )
    flow = {"sizes": [2, 3], "slots": 3, "seed": 0, "length": 10, "risk_tolerance": 2.0, "base_variance": 1.0}
    yield "random_instance_sizes", (rr.routing.random_instance_sizes, flow)
    yield (
        "riskless_slot_instance",
        (rr.routing.riskless_slot_instance, {"problem": OVER_SPLITS, "slot": 1, "remaining": 0.001}),
    )
    model = {"name": "A", "mean": (-0.1, 0.0), "variance": (0.0, 0.1), "kind": "market"}
    errors = {"mean_error": (0.1, 0.1), "variance_error": (0.1, 0.1)}
    yield "VenueModel", (rr.VenueModel, model | errors)
    for method in ("mean_of", "variance_of", "nonnegative"):
        yield f"VenueModel.{method}", (getattr(rr.VenueModel("A", (-0.1, 0.0), (-0.02, 0.01)), method), {"shares": 10})
    problem = {
        "models": MODELS, "shares": 6, "units": "money", "risk_tolerance": 2.0, "base_variance": 1.0, "lot": 2,
        "caps": [6, 4], "most_listed": 100,
    }  # fmt: skip
    yield "venue_problem", (rr.venue_problem, problem)
    correlated = {"models": MODELS, "shares": 6, "correlation": np.eye(2), "risk_tolerance": 2.0, "caps": [6, 4]}
    yield "best_correlated_split", (rr.routing.best_correlated_split, correlated)
    quadratic = {"matrix": np.eye(2), "linear": np.zeros(2), "units": 4, "caps": np.array([4, 4])}
    yield "minimise_quadratic", (rr.routing.minimise_quadratic, quadratic | {"tables": np.zeros((2, 5))})
    yield "Fee", (rr.routing.Fee, {"venue": "XNAS", "since": DAY, "taker": 0.003, "maker": -0.002})
    yield "FeeTier", (rr.routing.FeeTier, {"volume": "1,000 USD", "taker": "9 bps", "maker": "8 bps"})
    yield "FeeSchedule", (rr.routing.FeeSchedule, {"fees": SCHEDULE.fees})
    yield "FeeSchedule.fee", (SCHEDULE.fee, {"venue": "XNAS", "day": DAY})
    yield "SharedBook", (rr.routing.SharedBook, BOOK)
    book = rr.routing.SharedBook(**BOOK)
    for method in ("crossed", "extra", "beyond"):
        yield f"SharedBook.{method}", (getattr(book, method), {"splits": np.array([[2, 0, 1]])})
    yield "SharedBook.of", (book.of, {"scenarios": np.array([True])})
    yield "risk_frontier", (rr.routing.risk_frontier, {"problem": OVER_SPLITS, "at": [1.0], "most": 5})
    yield "trace_frontier", (rr.routing.trace_frontier, {"best": lambda rho: (0, 1.0, 2.0), "at": [1.0], "most": 5})


def simulation() -> Iterator[tuple[str, Call]]:
    rounds, batch, rng = np.array([1, 5]), np.array([0, 1]), np.random.default_rng(0)
    yield "Environment", (rr.Environment, {"problem": PROBLEM})
    methods: dict[str, dict[str, Any]] = {
        "setting": {"horizon": 10},
        "piece_at": {"rounds": rounds},
        "rounds_in": {"rounds": rounds},
        "playable": {"method": "auto"},
        "moments": {"actions": batch, "piece": 0},
        "gaps": {"actions": batch, "piece": 0},
        "outcomes": {"actions": batch, "piece": 0},
        "table": {"piece": 0},
        "oracle": {"horizon": 10},
        "oracle_schedule": {"horizon": 10},
        "last_comparator": {"horizon": 10},
        "expected_comparator": {"rounds": rounds},
        "comparator_means": {"rounds": rounds},
        "noise": {"rng": rng},
        "reward_tables": {"rng": rng, "horizon": 10},
        "run": {"rng": rng},
    }
    varying = rr.environments.ChangingActionSets([PROBLEM, PROBLEM], [0, 1, 1])
    pieces = rr.environments.PiecewiseStationary([PROBLEM, PROBLEM], [4])
    for environment in (
        ENVIRONMENT,
        varying,
        pieces,
        rr.environments.Autocorrelated(PROBLEM, 0.3),
        rr.environments.HeavyTailed(PROBLEM),
    ):
        for method, arguments in methods.items():
            yield f"{type(environment).__name__}.{method}", (getattr(environment, method), arguments)
    yield (
        "EnvironmentRun.reward",
        (lambda action: ENVIRONMENT.run(np.random.default_rng(0)).reward(action), {"action": 1}),
    )
    plan = rr.Plan(np.array([0, 1]), np.array([2, 3]))
    yield "EnvironmentRun.tally", (lambda plan: ENVIRONMENT.run(np.random.default_rng(0)).tally(plan), {"plan": plan})

    def played(kind: Callable[..., Any]) -> Callable[..., Any]:
        return lambda **arguments: rr.simulate(kind(**arguments), ["uniform", "oracle"], horizon=20, runs=1)

    yield (
        "Autocorrelated",
        (played(rr.environments.Autocorrelated), {"problem": PROBLEM, "correlation": 0.3, "scale": "variance"}),
    )
    yield (
        "PiecewiseStationary",
        (
            played(rr.environments.PiecewiseStationary),
            {"problems": [PROBLEM, PROBLEM], "changes": [4], "comparator": "mean"},
        ),
    )
    yield (
        "ChangingActionSets",
        (played(rr.environments.ChangingActionSets), {"problems": [PROBLEM, PROBLEM], "sequence": [0, 1, 1]}),
    )
    yield "HeavyTailed", (played(rr.environments.HeavyTailed), {"problem": PROBLEM, "degrees": 3.0})
    yield "NonlinearVariance", (played(rr.environments.NonlinearVariance), {"problem": PROBLEM, "power": 1.5})
    yield "WrongBaseVariance", (played(rr.environments.WrongBaseVariance), {"problem": PROBLEM, "factor": 2.0})
    yield "random_changes", (rr.environments.random_changes, {"horizon": 10, "count": 2, "seed": 0})
    yield (
        "simulate",
        (
            rr.simulate,
            {
                "problem": PROBLEM,
                "policies": ["uniform", rr.policies.Greedy()],
                "horizon": 20,
                "runs": 2,
                "seed": 1,
                "checkpoints": 5,
                "spacing": "log",
                "method": "auto",
                "progress": lambda policy, done, all_: None,
            },
        ),
    )
    yield "check_environment", (rr.check_environment, {"environment": ENVIRONMENT, "runs": 50, "seed": 0})
    profits, shared = np.random.default_rng(0).normal(size=(3, 1, 4)), [rr.routing.SharedBook(**BOOK)]
    small = rr.random_problem(rr.Allocations(3, 3), seed=1)
    yield "Replay", (rr.Replay, {"problem": small, "profits": profits, "shared": shared})
    split = {"actions": np.array([[1, 1, 2]])}
    yield "Replay.totals", (replay().totals, split)
    yield "Replay.moments", (replay().moments, split | {"piece": 0})
    yield "Replay.mean_variance", (replay().mean_variance, split | {"risk_tolerance": 2.0})
    yield "Replay.values", (replay().values, {"action": (1, 1, 2)})
    yield "Replay.beyond", (replay().beyond, {"action": (1, 1, 2)})
    yield "Replay.climb", (replay().climb, {"start": (1, 1, 2), "risk_tolerance": 2.0})
    yield "Replay.best_split", (replay().best_split, {"risk_tolerance": 2.0})
    yield (
        "replay_belief",
        (
            rr.environments.replay_belief,
            {"replay": replay(), "buckets": np.array([0, 0, 1, 1, 2, 2]), "firmness": 0.1, "seed": 0},
        ),
    )


def results() -> Iterator[tuple[str, Call]]:
    whole = rr.simulate(PROBLEM, ["uniform"], horizon=20, runs=2)
    one = whole.policies["uniform"]
    fields = {name: getattr(one, name) for name in inspect.signature(rr.PolicyResult).parameters}
    yield "PolicyResult", (lambda **a: rr.PolicyResult(**a).digest(0), fields)
    yield (
        "SimulationResult",
        (
            lambda **a: repr(rr.SimulationResult(**a)),
            {"config": whole.config, "policies": whole.policies, "best": 0, "interrupted": False},
        ),
    )


def experiments() -> Iterator[tuple[str, Call]]:
    small: dict[str, Any] = {"policies": ["uniform"], "shares": 2, "slots": 2, "horizons": 10, "runs": 1}
    config = sweep.SweepConfig.of(small)
    yield "SweepConfig", (lambda **values: sweep.SweepConfig.of(values), small | {"seed": 1, "parameters": {}})
    yield "SweepConfig.of", (sweep.SweepConfig.of, {"values": small})
    one_process = rr.Backend(workers=1)
    yield "sweep", (rr.sweep, {"config": config, "out": "sweep", "backend": one_process, "resume": False})
    yield "Backend", (rr.Backend, {"kind": "local", "workers": 1, "address": None})
    yield "memory", (rr.memory, {"default": None, "check": None})
    yield "as_batch", (lambda action: rr.as_batch(action), {"action": (1, 2)})
    yield "split_config", (study_config.split_config, {"values": {}})


def market() -> Iterator[tuple[str, Call]]:
    yield "TimeWindow", (rr.market.TimeWindow, {"start": dt.time(11), "end": dt.time(12), "buckets": 10})
    yield "Window.edges", (WINDOW.edges, {"day": DAY})
    yield (
        "ReadingOptions",
        (
            rr.market.ReadingOptions,
            {
                "symbols": ("QVEX",),
                "depth": 5,
                "start": dt.time(10),
                "end": dt.time(11),
                "date": DAY,
                "venue": "XNAS",
                "columns": {"bid_px_00": "bid"},
            },
        ),
    )
    yield (
        "ScenarioSlot",
        (lambda **a: rr.market.ScenarioSlot(**a).name, {"venue": "XNAS", "kind": "market", "pool": None}),
    )
    pool = {"presence": 0.5, "tail": 1.0, "smallest": 1, "improvement": 0.0, "fee": 0.0, "name": "Dark"}
    yield "DarkPool", (lambda **a: rr.market.DarkPool(**a).hidden_sizes(3, seed=1), pool)
    for method in ("mean_fill", "fill_variance", "chance_of"):
        yield f"DarkPool.{method}", (getattr(POOL, method), {"quantities": [1, 2, 4]})
    yield "DarkPool.hidden_sizes", (POOL.hidden_sizes, {"count": 3, "seed": 1})
    yield "generated_dark_pools", (rr.market.generated_dark_pools, {"lit": MODELS, "count": 2, "seed": 0})


def of_recordings(store: rr.market.RecordingStore, folder: Path) -> dict[str, Call]:
    recording = store.recordings()[0]
    slots = [
        rr.market.ScenarioSlot("XNAS"),
        rr.market.ScenarioSlot("XNAS", "limit"),
        rr.market.ScenarioSlot("XNAS", "dark", POOL),
        rr.market.ScenarioSlot("XBOS"),
    ]
    terms = {"side": "sell", "fees": None, "levels": 5, "seed": 0, "date": None}
    scenarios = rr.market.draw_scenarios(store, "QVEX", slots, 4, WINDOW, repeats=2)
    fields = {name: getattr(scenarios, name) for name in inspect.signature(rr.market.Scenarios).parameters}
    caps, methods = np.array([2, 2, 2, 2]), ("deep", "whole", "replayed", "room")
    calibrated = rr.market.calibrate(store, "QVEX", window=WINDOW)
    hours: dict[str, Any] = {"train": "11:00-11:10", "test": "11:10-11:20", "bucket_minutes": 1.0, "repeats": 1}
    small: dict[str, Any] = {
        "data": str(store.folder),
        "quantities": 2,
        "horizon": 10,
        "runs": 1,
        "policies": ["uniform"],
    }
    study, out = rr.SplitStudy(**hours, **small), folder / "study"
    found = study.run(backend=ONE_WORKER, out=out)
    return {
        "RecordingStore": (rr.market.RecordingStore, {"folder": store.folder}),
        "Store.of_symbol": (store.of_symbol, {"symbol": "QVEX", "date": None, "venues": ["XNAS"]}),
        "Store.snapshots": (store.snapshots, {"recording": recording, "begin": None, "end": None}),
        "Store.events": (store.events, {"recording": recording, "begin": None, "end": None}),
        "SplitStudy": (lambda **values: rr.SplitStudy(**values), hours | small | {"caps": {}, "dark": []}),
        "SplitStudy.run": (study.run, {"backend": ONE_WORKER, "out": out, "resume": False, "finished": None}),
        "SplitStudyResult": (lambda **a: rr.SplitStudyResult(**a).summary(), vars(found)),
        "SplitStudyResult.to_json": (found.to_json, {"path": out / "again.json"}),
        "SplitStudyResult.from_json": (rr.SplitStudyResult.from_json, {"path": out / "study.json"}),
        "write_split_page": (rr.write_split_page, {"result": found, "out": out}),
        "calibrate": (
            rr.market.calibrate,
            terms
            | {
                "store": store,
                "symbol": "QVEX",
                "quantities": [1, 2, 3],
                "window": WINDOW,
                "orders": ["market"],
                "dark_pools": 1,
                "pools": [POOL],
                "venues": ["XNAS"],
            },
        ),
        "draw_scenarios": (
            rr.market.draw_scenarios,
            terms | {"store": store, "symbol": "QVEX", "slots": slots, "shares": 4, "window": WINDOW, "repeats": 2},
        ),
        "Scenarios": (lambda **a: rr.market.Scenarios(**a).caps(), fields),
        **{f"Scenarios.{name}": (getattr(scenarios, name), {"caps": caps}) for name in methods},
        "Scenarios.fit": (scenarios.fit, {"slot": 0, "cap": 4, "seed": 0}),
        "Scenarios.models": (scenarios.models, {"caps": caps, "seed": 0}),
        "Calibration": (
            lambda **a: repr(rr.market.Calibration(**a)),
            {name: getattr(calibrated, name) for name in inspect.signature(rr.market.Calibration).parameters},
        ),
    }  # fmt: skip


def of_files(folder: Path) -> dict[str, Call]:
    rr.routing.save_venue_models(MODELS, folder / "models.toml")
    fees = folder / "fees.toml"
    fees.write_text('[[fees]]\nvenue = "XNAS"\nfrom = 2019-01-01\ntaker = 0.003\nmaker = -0.002\n')
    minute = (dt.time(11), dt.time(11, 0, 20))
    files = rr.market.generate_market(folder / "day", symbols=("QVEX",), hours=minute, rate=0.2)
    result = rr.simulate(PROBLEM, ["uniform"], horizon=20, runs=2)
    market = {"out": folder / "market", "seed": 1, "symbols": ("QVEX",), "hours": minute, "date": DAY, "rate": 0.2}
    updates = polars.DataFrame(
        {"time": [1_577_836_800] * 2, "side": ["bid", "ask"], "price": [99.0, 101.0], "size": [0.5, 2.0]}
    )
    trades = polars.DataFrame({"time": [1_577_836_800], "side": ["buy"], "price": [101.0], "size": [0.5]})
    return {
        "load_venue_models": (rr.routing.load_venue_models, {"path": folder / "models.toml"}),
        "save_venue_models": (
            rr.routing.save_venue_models,
            {"models": MODELS, "path": folder / "saved.toml", "about": ["a line"]},
        ),
        "load_fees": (rr.routing.load_fees, {"path": fees}),
        "SimulationResult.save": (result.save, {"path": folder / "result.json"}),
        "plot_regret": (rr.plot_regret, {"result": result, "path": folder / "plot.svg", "title": "a title"}),
        "generate_market": (rr.market.generate_market, market | {"venues": _some_venues(), "progress": None}),
        "from_frame": (
            rr.market.from_frame,
            {
                "books": updates,
                "out": folder / "frames",
                "options": rr.market.ReadingOptions(("QVEX",), venue="XNAS"),
                "trades": trades,
                "max_crossed": 0.5,
            },
        ),
        "import_files": (
            rr.market.import_files,
            {
                "paths": files[:1],
                "out": folder / "books",
                "options": rr.market.ReadingOptions(("QVEX",)),
                "kind": "itch",
                "max_unresolved": 0.01,
                "max_crossed": 0.5,
                "progress": None,
            },
        ),
    }


def _some_venues() -> Any:
    return inspect.signature(rr.market.generate_market).parameters["venues"].default[:1]


def _fields(record: Any) -> dict[str, Any]:
    return {name: getattr(record, name) for name in inspect.signature(type(record)).parameters}


def _checked_plan(**fields: Any) -> None:
    rr.routers.Plan(**fields).checked(CONTEXT)


def _routed(kind: type[rr.routers.Router]) -> Callable[..., Any]:
    def route(**parameters: Any) -> None:
        router = kind(**parameters)
        router.route(CONTEXT).checked(CONTEXT)
        router.learn(rr.routers.Report("a", (CHILD,), complete=True, profit=-1.0))
        kind.restore(router.state())

    return route


def _learned(report: Any) -> None:
    router = rr.routers.DarkFirstRule()
    router.route(CONTEXT)
    router.learn(report)


def _routers() -> dict[str, Call]:
    return {
        kind.__name__: (_routed(kind), kind().parameters)
        for kind in rr.routers.ROUTERS.values()
    }  # fmt: skip


def routers() -> Iterator[tuple[str, Call]]:
    yield from _routers().items()
    yield from _ROUTER_CALLS.items()


_ROUTER_CALLS: dict[str, Call] = {
    "read_context": (rr.routers.read_context, {"books": BOOKS, **ORDER}),
    "Context": (rr.routers.Context, _fields(CONTEXT)),
    "ContextPool": (rr.routers.ContextPool, {"name": "P", "fee": 0.001, "improvement": 0.0}),
    "ContextBooks": (rr.routers.ContextBooks, _fields(CONTEXT.books)),
    "Plan": (_checked_plan, _fields(rr.routers.Plan("a", dark={"P": 100}, take={"A": 100}, take_limits={"A": 9.0}))),
    "ChildReport": (rr.routers.ChildReport, _fields(CHILD)),
    "Report": (rr.routers.Report, {"order": "a", "children": (CHILD,), "complete": True, "profit": -1.0}),
    "price_decision": (rr.routers.price_decision, {"context": CONTEXT, "plan": PLAN}),
    "make_router": (rr.routers.make_router, {"name": "sweep", "discretion": 1}),
    "restore_router": (rr.routers.restore_router, {"state": rr.routers.make_router("sweep").state()}),
    "RiskProfile": (rr.routers.RiskProfile, {"name": "tight", "kappa": 0.2, "capped": True}),
    "check_router": (rr.check_router, {"router": rr.routers.SweepRule()}),
    "DarkMarketPool": (rr.DarkMarketPool, _fields(rr.DarkMarketPool("P", 0.3))),
    "Router.route": (lambda **a: rr.routers.SweepRule().route(**a), {"context": CONTEXT}),
    "Router.learn": (_learned, {"report": rr.routers.Report("a", (CHILD,))}),
}


def of_markets(folder: Path) -> dict[str, Call]:
    """Calls that need recorded days."""
    minutes = (dt.time(11), dt.time(11, 5))
    files = rr.market.generate_market(folder / "files", symbols=("QVEX",), hours=minutes, rate=0.2)
    rr.market.import_files(files[:2], folder / "books", rr.market.ReadingOptions(("QVEX",)))
    days: dict[str, Any] = {"market": folder / "books", "symbols": ["QVEX"], "days": 1, "seed": 1, "hours": None}
    days |= {"kept": folder / "kept", "fees": None, "pools": [rr.DarkMarketPool("P", 0.3)], "progress": None}
    backend = rr.Backend("local", 1)
    played = days | {
        "backend": backend,
        "quantities": 10,
        "routers": ["sweep"],
        "orders": 2,
        "horizon": 0.0,
        "risk": "balanced",
    }
    for name in ("hours", "progress"):
        del played[name]
    pool = rr.DarkMarketPool("P", 0.3)
    asked = _fields(rr.StudyConfig()) | {"hours": "11:00-11:05"}
    study = rr.Study(market=folder / "books", quantities=10, horizons=0, orders=4, routers="spray", pools=pool)
    return {
        "market_days": (rr.market_days, days | {"backend": backend}),
        "backtest": (rr.backtest, played),
        "StudyConfig": (rr.StudyConfig, asked),
        "Study": (lambda **values: rr.Study(**values), asked | {"fees": None, "pools": [_fields(pool)]}),
        "write_study_page": (
            rr.write_study_page,
            {
                "result": study.run(backend=backend, kept=folder / "kept"),
                "out": folder / "page",
                "command": "riskroute study",
            },
        ),
        "Study.run": (study.run, {"backend": backend, "out": None, "kept": folder / "kept", "progress": None}),
    }


PARTS = (policies, action_sets, learning, routing, simulation, results, experiments, market, routers)
CALLS = {name: call for part in PARTS for name, call in part()}
