"""What a study found for one order size and one risk tolerance. Amounts are dollars per order unless said otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

Value = TypeVar("Value")
Pair = tuple[float, float]

RECOMMENDED = "recommended"
"""The name of the recommended split."""


@dataclass(frozen=True)
class OrderParts(Generic[Value]):
    """One value for the train hours and one for the test hours."""

    train: Value
    test: Value


@dataclass(frozen=True)
class OrderSampleCount:
    """How many scenarios the hours gave, and from how many time buckets they come."""

    buckets: int
    scenarios: int


@dataclass(frozen=True)
class OrderSplitMeasures:
    """What a split earned and cost over the scenarios of some hours.

    The first ten are profits, in dollars and squared dollars: mean, variance, mean-variance, expected shortfall at 5 %
    (``tail``), their standard errors, and how much larger the mean-variance was than that of the recommended split
    (``excess``). The others are the same as costs. Those that charge for risk (``risk_charge`` and ``charged_...``)
    are None at a risk tolerance of zero, which has no price of risk in dollars.
    """

    mean: float
    variance: float
    mean_variance: float
    tail: float
    mean_error: float
    variance_error: float
    mean_variance_error: float
    tail_error: float
    excess: float
    excess_error: float
    cost: float
    cost_error: float
    basis_points: float
    per_thousand: float
    tail_cost: float
    risk_charge: float | None
    charged_cost: float | None
    charged_cost_error: float | None
    charged_excess: float | None
    charged_excess_error: float | None


@dataclass(frozen=True)
class OrderSplitResult:
    """One way to split the order, shares by slot, and what it came to in the train and in the test hours."""

    allocation: tuple[int, ...]
    train: OrderSplitMeasures
    test: OrderSplitMeasures

    @property
    def gap(self) -> float | None:
        """How much more the split cost in the test hours than in the train hours, adjusted for risk."""
        later, earlier = self.test.charged_cost, self.train.charged_cost
        return None if later is None or earlier is None else later - earlier

    @property
    def gap_error(self) -> float | None:
        """Standard error of the gap; the two parts of the day are taken to be independent."""
        later, earlier = self.test.charged_cost_error, self.train.charged_cost_error
        return None if later is None or earlier is None else float(np.hypot(earlier, later))


@dataclass(frozen=True)
class OrderPolicyMeasures:
    """How a policy did in one environment, averaged over its runs.

    ``learning_cost`` is the regret in dollars, ``cost_each`` the risk-adjusted cost of an order with learning
    included; both are None at a risk tolerance of zero. Errors are standard errors over runs, None for a single run.
    ``explored`` is the share of orders sent elsewhere than where the run ended; ``ended_on`` is the split that most
    runs ended on, ``ended_on_share`` how many of them. The curves have one value per checkpoint.
    """

    regret: float
    regret_error: float
    learning_cost: float | None
    mean_variance: float
    cost_each: float | None
    cost_each_error: float | None
    mean_variance_error: float | None
    explored: float
    ended_on: tuple[int, ...]
    ended_on_share: float
    runs: int
    checkpoints: tuple[int, ...]
    mean_regret: tuple[float, ...]
    std_regret: tuple[float, ...]


@dataclass(frozen=True)
class OrderPolicyResult:
    """How a policy did in the fitted model, and on replayed books of the train and of the test hours."""

    model: OrderPolicyMeasures
    train: OrderPolicyMeasures
    test: OrderPolicyMeasures


@dataclass(frozen=True)
class OrderSlotModel:
    """The model of a slot: profit has mean and variance linear in the shares (first) and in their square (second)."""

    mean: Pair
    variance: Pair
    kind: str


@dataclass(frozen=True)
class OrderSlotFit:
    """The fit behind the model of a slot; see `riskroute.market.fitting.Fit` for the fields."""

    quantities: tuple[int, ...]
    means: tuple[float, ...]
    variances: tuple[float, ...]
    counts: tuple[int, ...]
    mean: Pair
    variance: Pair
    mean_error: Pair
    variance_error: Pair
    r2_mean: float
    r2_variance: float
    r2_mean_model: float
    r2_variance_model: float
    worst_mean: float
    worst_variance: float
    bucket_correlation: float
    samples: int
    short: int
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class OrderFrontierSplit:
    """A split that is the best of the train hours from ``risk_tolerance`` up to that of the next one.

    ``mean`` and ``variance`` are those of its profit in the train hours; ``test_mean``, ``test_variance`` and
    ``tail``, the expected shortfall at 5 %, those in the test hours.
    """

    risk_tolerance: float
    allocation: tuple[int, ...]
    mean: float
    variance: float
    test_mean: float
    test_variance: float
    tail: float


@dataclass(frozen=True)
class OrderResult:
    """Everything a study found for one order size and one risk tolerance.

    Parameters
    ----------
    shares : int
        Size of the order.
    risk_tolerance : float
        Weight of the mean against the variance.
    lot : int
        Shares go to a slot in multiples of this.
    mid : Parts[float]
        Mid on average, in dollars.
    slots : tuple of str
        Names of the slots, in the order of every allocation.
    kinds : tuple of str
        Kind of each slot: market, limit or dark.
    caps : tuple of int
        Most shares that each slot can take.
    rests_cross_at : dict of str to str
        By dark pool: the venue at which its remainder crosses the spread.
    unused_slots : dict of str to str
        By slot that was left out: the reason.
    moments : Parts[SampleCount]
        How many scenarios there were.
    splits_possible : str
        Number of possible splits, as text since it may have hundreds of digits.
    beyond_known_levels : Parts[float]
        Share of the scenarios in which the recommended split needed more than a book's known levels hold.
    left_out : Parts[float]
        Share of the scenarios left out, as a book was missing or not deep enough.
    models : dict of str to SlotModel
        Models by slot.
    fits : dict of str to SlotFit
        Fits behind the models, by slot.
    splits : dict of str to SplitResult
        The recommended split and its alternatives, by name.
    naive_splits : tuple of str
        Names of those alternatives that need no model.
    gap : float or None
        Risk-adjusted cost of the recommended split, test hours minus train hours.
    gap_error : float or None
        Its standard error.
    frontier : tuple of FrontierSplit
        Best splits from the most careful to the one that ignores risk.
    policies : dict of str to StudiedPolicy
        How each policy did, by label.
    recommended_policy : str
        Label of the policy with the best outcome in the train hours.
    warm_policies : tuple of str
        Labels of the policies that begin with what the train hours taught.
    unplayed : tuple of str
        Policies that were left out, as there are too many splits to list.
    """

    shares: int
    risk_tolerance: float
    lot: int
    mid: OrderParts[float]
    slots: tuple[str, ...]
    kinds: tuple[str, ...]
    caps: tuple[int, ...]
    rests_cross_at: dict[str, str]
    unused_slots: dict[str, str]
    moments: OrderParts[OrderSampleCount]
    splits_possible: str
    beyond_known_levels: OrderParts[float]
    left_out: OrderParts[float]
    models: dict[str, OrderSlotModel]
    fits: dict[str, OrderSlotFit]
    splits: dict[str, OrderSplitResult]
    naive_splits: tuple[str, ...]
    gap: float | None
    gap_error: float | None
    frontier: tuple[OrderFrontierSplit, ...]
    policies: dict[str, OrderPolicyResult]
    recommended_policy: str
    warm_policies: tuple[str, ...]
    unplayed: tuple[str, ...]

    @property
    def recommended(self) -> OrderSplitResult:
        """The recommended split."""
        return self.splits[RECOMMENDED]
