"""`adaptive` with a proven regret bound, restricted to the actions that a short exploration cannot rule out.

1. *Explore.* A G-optimal design is played for `strength` times the number of rounds that balances the cost of
   exploration against the remaining uncertainty. `adaptive` also learns from these rewards. The step is skipped if it
   would not lower the bound.
2. *Eliminate.* Least squares on these rewards alone estimates the mean-variance of every action. With probability ``1 -
   1/T`` no error exceeds a known bound. Actions whose estimate exceeds the best by more than twice this bound are
   eliminated.
3. *Play.* `adaptive` continues with the survivors, whose gaps are at most four times the error bound.
4. *Commit.* Switching between actions of different means adds to the variance of a path. The guarantee therefore
   limits the rounds on actions other than the most played one. Instead of a plan that would exceed this limit, the most
   played action is played to the end.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from riskroute.core.arrays import Floats, Integers
from riskroute.core.errors import InputError
from riskroute.core.validation import parameter, valid_magnitude
from riskroute.learning.actions import Action, ActionSet, as_action, as_batch, distinct_actions
from riskroute.learning.belief import Belief
from riskroute.learning.design.rounding import round_up_counts
from riskroute.learning.estimation import unbiased_estimate
from riskroute.learning.plan import LONGEST_HORIZON, Plan, Setting
from riskroute.learning.policies.adaptive import Adaptive
from riskroute.learning.policy import memory
from riskroute.learning.state_checks import check_state_cut, check_state_member, check_state_round
from riskroute.learning.tally import ActionBatch, Tallies


@dataclass(frozen=True)
class _ConfidenceBounds:
    """Constants of the regret guarantee, known before any reward; docs/guarantee.md derives them.

    With ``L`` the largest norm of a feature vector, and ``S`` and ``P`` bounds on the norms of the mean and variance
    coefficients, no variance exceeds ``base_variance + L P``, no two means differ by more than ``2 L S``, and no gap
    exceeds ``2 L (P + risk_tolerance S)``.
    """

    horizon: int
    log_actions: float  # logarithm of the number of actions
    leverage: float  # bound on the leverages of the exploration design
    risk_tolerance: float
    variance: float  # upper bound on the variance of a reward; infinite if unknown
    gap: float  # upper bound on gaps
    mean_difference: float  # upper bound on the difference of two means

    @classmethod
    def of(cls, setting: Setting, leverage: float, mean_bound: float, var_bound: float | None) -> _ConfidenceBounds:
        """Derive the constants from a setting; ``var_bound`` None: the base variance, infinite if that is 0."""
        norm, rho = setting.actions.largest_norm(), setting.risk_tolerance
        if var_bound is None:
            var_bound = setting.base_variance or math.inf
        return cls(
            horizon=setting.horizon or 1,
            log_actions=math.log(setting.actions.size),
            leverage=leverage,
            risk_tolerance=rho,
            variance=setting.base_variance + (norm * var_bound if norm else 0.0),
            gap=2 * norm * (var_bound + rho * mean_bound) if norm else 0.0,
            mean_difference=2 * norm * mean_bound,
        )

    @property
    def known(self) -> bool:
        """Whether the constants are finite and positive, so that a guarantee exists."""
        return 0 < self.round_cost < math.inf and 0 < self.leverage < math.inf and 0 < self.variance < math.inf

    @property
    def round_cost(self) -> float:
        """Upper bound on the expected regret of one round: the gap plus the squared difference of means."""
        return self.gap + self.mean_difference * self.mean_difference

    def confidence(self, check: int) -> float:
        """Return ``u`` such that ``exp(-u)``, summed over both signs, all actions and checks, is at most ``1/T``."""
        return self.log_actions + math.log(2 * check * (check + 1)) + math.log(self.horizon)

    def width(self, rounds: float, check: int, ratio: float = 1.0) -> float:
        """Bound all estimation errors at check number ``check``; ``ratio`` is the largest ``n / (n - 1)`` of counts."""
        u, lever = self.confidence(check), self.leverage / rounds
        return math.sqrt(2 * u * lever * self._noise(ratio)) + 2 * ratio * self.variance * u * lever

    def _noise(self, ratio: float = 1.0) -> float:
        """Return the largest variance of the mean-variance estimate from one reward."""
        return self.variance * (2 * ratio * self.variance + self.risk_tolerance * self.risk_tolerance)

    @property
    def balanced_rounds(self) -> float:
        """Rounds ``n``, at most ``T``, that solve ``round_cost * n = 4 T width`` for the leading term of the width."""
        leading = math.sqrt(2 * self.confidence(1) * self.leverage * self._noise())
        logarithm = math.log(4 * self.horizon) + math.log(leading) - math.log(self.round_cost)
        return math.exp(min(logarithm * 2 / 3, math.log(self.horizon)))

    def checks(self, rounds: float) -> list[float]:
        """Return the total exploration rounds before each check; they double up to ``rounds``."""
        # with fewer rounds, no action can be certified as the best
        least = 32 * self.confidence(1) * self.leverage * (self._noise() / self.gap / self.gap)
        doublings = max(math.floor(math.log2(max(rounds, 1.0) / max(least, 1.0))), 0)
        return [rounds / 2**k for k in range(doublings, -1, -1)]

    def regret(self, explored: int, width: float, away: float) -> float:
        """Bound the expected regret (docs/guarantee.md, theorem 1).

        After ``explored`` rounds, errors are at most ``width``, and actions other than the most played one get at most
        ``away`` rounds.
        """
        square, rounds = self.mean_difference * self.mean_difference, float(self.horizon)
        trivial = self.variance + rounds * self.round_cost
        exploring = self.round_cost * (explored + 1)
        inside = rounds * min(4 * width, self.gap) + square * min(away, rounds)
        noise = 2 * self.mean_difference * math.sqrt(self.variance * rounds)
        return min(self.variance + exploring + inside + noise, trivial)


@dataclass(kw_only=True)
class Guarded(Adaptive):
    """`Adaptive` restricted to the survivors of a short exploration, with a proven bound on the expected regret.

    The bound holds for Gaussian rewards whose coefficients have norms of at most `mean_bound` and `var_bound`; see
    docs/guarantee.md for theorem, proof and cost. It is of order ``T^(2/3)``, the minimax rate.

    Parameters
    ----------
    strength : float
        Exploration rounds as a fraction of the rounds that balance cost and uncertainty in the worst case. The
        bound is smallest near 0.6 and about five times as large at 0.01, but more exploration costs more regret on most
        instances.
    mean_bound : float
        Bound on the norm of the coefficients of the mean, in units of reward; the paper's is 1.
    var_bound : float, optional
        Bound on the norm of the coefficients of the variance. Default: the base variance, as in the paper. If that is
        0, there is no guarantee, and the policy is plain `Adaptive`.
    growth, start_rounds, prior, patience, draws, portions, budget, assumed_size
        See `Adaptive`.

    Examples
    --------
    >>> import riskroute as rr
    >>> policy = Guarded(strength=0.1).start(rr.Setting(actions=rr.Actions(np.eye(2)), horizon=1_000_000))
    >>> policy.plan().counts.tolist()
    [342, 342]
    >>> round(policy.regret_bound() / 1e6, 1)
    2.2

    References
    ----------
    Vakili and Zhao (2016), `Risk-Averse Multi-Armed Bandit Problems under Mean-Variance Measure
    <https://arxiv.org/abs/1604.05257>`_: the lower bound of order ``T^(2/3)``.
    """

    name: ClassVar[str] = "guarded"
    needs_horizon: ClassVar[bool] = True
    fixed_set: ClassVar[bool] = True

    strength: float = parameter(0.01, valid_magnitude, above=0)
    mean_bound: float = parameter(1.0, valid_magnitude, above=0)
    var_bound: float | None = parameter(None, valid_magnitude, above=0)

    explored: Tallies | None = memory(None)  # tallies of the design's actions
    cuts: list[tuple[Floats, float]] = memory(None, check_state_cut)  # score and tolerance of each elimination
    main: Action | None = memory(None, check_state_member)  # the only action that can have more than half the rounds
    lead: int = memory(0, check_state_round)  # rounds of `main` not offset by rounds of other actions
    away: int = memory(0, check_state_round)  # bound on the rounds of other actions since exploration ended
    settled: bool = memory(False)

    def begin(self) -> None:
        super().begin()
        self.cuts = []
        self.resume()

    def resume(self) -> None:
        super().resume()
        self.design = self.setting.actions.design(0.01)
        self.bounds = _ConfidenceBounds.of(self.setting, self.design.bound, self.mean_bound, self.var_bound)
        guards = self.bounds.known
        self.balanced = self.bounds.balanced_rounds if guards else float(self.horizon)
        self.checks = self.bounds.checks(self.strength * self.balanced) if guards else []
        room = self.balanced >= self.start_rounds * self.setting.actions.dim  # for the first plan of `adaptive`
        if guards and room and self.regret_bound() >= self.bounds.regret(0, math.inf, self.balanced):
            self.checks = []  # exploration would not lower the bound
        self.survivors: ActionSet = self.setting.actions
        for score, tolerance in self.cuts:
            self.survivors = self.survivors.within(score, tolerance)
        if self.explored is not None and (self._places(self.explored.actions) >= len(self.design)).any():
            raise InputError("explored must have tallies of the design's actions only, had others")
        if self.main is not None and not self.survivors.contains(as_batch(self.main)).all():
            raise InputError(f"main must be an action that was not eliminated, was {self.main}")

    def in_units(self, factor: float) -> Self:
        var_bound = None if self.var_bound is None else self.var_bound * factor**2
        same = super().in_units(factor)
        return dataclasses.replace(same, mean_bound=self.mean_bound * factor, var_bound=var_bound)

    @property
    def exploring(self) -> bool:
        """Whether exploration continues: checks remain, and more than one action survives."""
        return len(self.cuts) < len(self.checks) and not self.survivors.single

    def regret_bound(self) -> float:
        """Return the proven bound on the expected regret; infinite without a bound on the variances."""
        if not self.bounds.known:
            return math.inf
        return self.bounds.regret(self.exploration, self._last_width(), self.balanced)

    @property
    def exploration(self) -> int:
        """Planned exploration rounds, unless one action is left earlier; 0 if the policy does not explore."""
        return int(self._design_counts(len(self.checks)).sum()) if self.checks else 0

    def _last_width(self) -> float:
        if not self.checks:
            return math.inf
        return self.bounds.width(self.checks[-1], len(self.checks), _ratio(self._design_counts(len(self.checks))))

    def propose(self) -> Plan:
        if self.exploring:
            return Plan(self.design.actions, self._missing())
        if not self.settled:
            single = self.survivors.single
            plan = Plan.repeat(self.recommend(), self.remaining) if single else self.inner_plan()
            if self._counted(plan.actions, plan.counts)[2] <= self.balanced:
                return plan
            self.settled = True
        return Plan.repeat(self.recommend() if self.main is None else self.main, self.remaining)

    def inner_plan(self) -> Plan:
        """Return the plan of `Adaptive` over the surviving actions."""
        return super().propose()

    def explore(self, belief: Belief, rounds: int) -> Plan:
        with self._among_survivors():
            return super().explore(belief, rounds)

    def observe(self, tallies: Tallies) -> None:
        super().observe(tallies)
        if not self.exploring:
            self.main, self.lead, self.away = self._counted(tallies.actions, tallies.counts)
            return
        self.explored = self._joined(tallies)
        while self.exploring and self.explored is not None and not self._missing().any():
            self._eliminate(self.explored)
        if not self.exploring:
            self.explored = None

    def recommend(self) -> Action:
        if self.survivors.single:
            return self.survivors.best(np.zeros(self.survivors.dim))
        if self.settled and self.main is not None:
            return self.main
        with self._among_survivors():
            return super().recommend()

    @contextmanager
    def _among_survivors(self) -> Iterator[None]:
        whole = self.setting
        self._setting = dataclasses.replace(whole, actions=self.survivors)
        try:
            yield
        finally:
            self._setting = whole

    def _design_counts(self, check: int) -> Integers:
        """Return the rounds of each design action up to a check; at least two, for a sample variance."""
        rounds = min(self.checks[check - 1], LONGEST_HORIZON)
        return np.maximum(round_up_counts(self.design.weights, rounds), 2)

    def _missing(self) -> Integers:
        """Return the rounds of each design action still needed before the next check."""
        counts = self._design_counts(len(self.cuts) + 1)
        if self.explored is None:
            return counts
        done = np.zeros_like(counts)
        done[self._places(self.explored.actions)] = self.explored.counts
        return np.asarray(np.maximum(counts - done, 0))

    def _places(self, actions: ActionBatch) -> Integers:
        """Return the index of each action in the design; indices beyond its end for other actions."""
        _, places = distinct_actions(np.concatenate([self.design.actions, actions]))
        return places[len(self.design) :]

    def _eliminate(self, explored: Tallies) -> None:
        """Estimate mean-variances from exploration alone, and eliminate actions beyond twice the error bound."""
        setting, check = self.setting, len(self.cuts) + 1
        width = self.bounds.width(self.checks[check - 1], check, _ratio(explored.counts))
        features = setting.actions.features(explored.actions)
        cut = unbiased_estimate(features, explored, setting.base_variance, setting.risk_tolerance), 2 * width
        self.cuts.append(cut)
        self.survivors = self.survivors.within(*cut)

    def _joined(self, news: Tallies) -> Tallies | None:
        """Return the tallies of the design's actions, merged with new tallies of the same actions."""
        part = self._places(news.actions) < len(self.design)
        if not part.any():
            return self.explored
        wanted = Tallies(news.actions[part], news.counts[part], news.means[part], news.spreads[part])
        return (wanted if self.explored is None else self.explored.joined(wanted)).by_action()

    def _counted(self, actions: ActionBatch, counts: Integers) -> tuple[Action | None, int, int]:
        """Return `main`, `lead` and `away` after further rounds, by the Boyer-Moore majority vote."""
        # rounds of different actions offset each other one by one; the rounds left over are all of one action
        main, lead, away = self.main, self.lead, self.away
        inside = self.survivors.contains(actions).tolist()
        for action, count, survives in zip(map(as_action, actions), counts.tolist(), inside, strict=True):
            if not survives:
                away += count
            elif action == main:
                lead += count
            else:
                offset = min(lead, count)
                away += 2 * offset
                lead -= offset
                if count > offset:
                    main, lead = action, count - offset
        return main, lead, away


def _ratio(counts: Integers) -> float:
    return float(np.max(counts / (counts - 1)))
