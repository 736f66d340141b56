"""Thompson sampling over action sets with different features for mean and variance, offered round by round."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from riskroute.core.arrays import Vector
from riskroute.core.errors import InputError, StateError, described
from riskroute.core.seeding import seeded_generator
from riskroute.core.validation import instance_of, real_number, true_or_false, whole_number
from riskroute.learning.actions import Action, ActionSet, as_batch
from riskroute.learning.two_map_belief import KEPT, TwoMapBelief
from riskroute.learning.two_maps import TwoMapEstimate, TwoMapRows

_PARAMETERS = ("risk_tolerance", "base_variance", "width", "draw_variance", "growth")


class TwoMapThompson:
    """Plays what is best for coefficients of the mean drawn from the belief, variances taken as they are expected.

    Every round has an action set of its own: coefficients are common to all rounds. There is no first plan, and so the
    prior must say something.

    Parameters
    ----------
    prior : TwoMapEstimate
        What is believed before the first round.
    risk_tolerance : float
        What a unit of mean is worth in units of variance.
    base_variance : float
        Known part of every reward's variance.
    width : float
        Draws spread this many times as far as the belief; zero is greedy.
    draw_variance : bool
        Whether coefficients of the variance are drawn too, clipped at zero.
    growth : float
        The belief is refreshed whenever it has grown by this part.
    offset_sd, keep
        See `TwoMapBelief`.
    seed : int
        Of the draws.

    Examples
    --------
    >>> from riskroute.learning.two_map_actions import TwoMapActions
    >>> rng = np.random.default_rng(1)
    >>> player = TwoMapThompson(TwoMapEstimate.independent([0.0], [1.0], [1.0], [1.0]), risk_tolerance=1.0)
    >>> for _ in range(300):  # two actions with a feature each that varies, of which twice is the mean
    ...     actions = TwoMapActions(rng.standard_normal((2, 1)), [[0.1], [0.1]])
    ...     action = player.select(actions)
    ...     player.update(actions, action, float(2 * actions.action_features(action)[0] + 0.3 * rng.standard_normal()))
    >>> player.belief.estimate.mean_coef.round(1).tolist()
    [2.0]
    >>> player.recommend(TwoMapActions([[0.2], [0.7]], [[0.1], [0.1]]))
    1

    References
    ----------
    Agrawal and Goyal (2013), `Thompson Sampling for Contextual Bandits with Linear Payoffs
    <https://arxiv.org/abs/1209.3352>`_.
    """

    def __init__(
        self,
        prior: TwoMapEstimate,
        *,
        risk_tolerance: float,
        base_variance: float = 0.0,
        width: float = 1.0,
        draw_variance: bool = False,
        growth: float = 0.1,
        offset_sd: float | None = None,
        keep: int = KEPT,
        seed: int = 0,
    ) -> None:
        self.risk_tolerance = real_number("risk_tolerance", risk_tolerance, minimum=0)
        self.base_variance = real_number("base_variance", base_variance, minimum=0)
        self.width = real_number("width", width, minimum=0)
        self.draw_variance = true_or_false("draw_variance", draw_variance)
        self.growth = real_number("growth", growth, minimum=0, maximum=1)
        self.belief = TwoMapBelief(prior, offset_sd=offset_sd, keep=keep)
        self.rng = seeded_generator(seed)
        self.fresh = 0

    def select(self, actions: ActionSet) -> Action:
        """Choose from the action set of this round."""
        self._check(actions)
        mean_coef, var_coef = self.belief.draw(self.rng, self.width), self.belief.estimate.var_coef
        if self.draw_variance:
            var_coef = self.belief.draw_variance(self.rng, self.width)
        return self._best(actions, mean_coef, var_coef)

    def recommend(self, actions: ActionSet) -> Action:
        """Choose the action that is best for what is expected, without exploring."""
        self._check(actions)
        return self._best(actions, self.belief.estimate.mean_coef, self.belief.estimate.var_coef)

    def _best(self, actions: ActionSet, mean_coef: Vector, var_coef: Vector) -> Action:
        if self.belief.offset_sd is None:
            return actions.best_of_both(mean_coef, var_coef, self.risk_tolerance)
        return actions.best_of_both(mean_coef[:-1], var_coef, self.risk_tolerance, float(mean_coef[-1]))

    def _check(self, actions: ActionSet) -> None:
        instance_of("actions", actions, ActionSet, "an action set (riskroute.Actions)")
        given = self.belief.given
        sizes = (len(given.mean_coef), len(given.var_coef))
        if (actions.dim, actions.var_dim) != sizes:
            raise InputError(f"actions must have dimensions {sizes}, was {(actions.dim, actions.var_dim)}")

    def rows(self, actions: ActionSet, action: Action, reward: float) -> TwoMapRows:
        """Return the row of one reward, to add now or when it matures."""
        self._check(actions)
        batch = as_batch(action)
        return TwoMapRows(
            actions.mean_features(batch),
            actions.var_features(batch),
            np.array([real_number("reward", reward)]),
            offset=actions.offset(batch),
            base_variance=np.array([self.base_variance]),
        )

    def update(self, actions: ActionSet, action: Action, reward: float) -> None:
        """Learn from the reward of an action of a set offered before, in this round or an earlier one."""
        self.belief.add(self.rows(actions, action, reward))
        self.fresh += 1
        if self.fresh >= self.growth * self.belief.seen:
            self.belief.refresh()
            self.fresh = 0

    def state(self) -> dict[str, Any]:
        """Everything, as plain JSON values."""
        parameters = {name: getattr(self, name) for name in _PARAMETERS}
        learned = {"fresh": self.fresh, "random": self.rng.bit_generator.state}
        return {"parameters": parameters, "belief": self.belief.state(), **learned}

    @classmethod
    def restore(cls, state: dict[str, Any]) -> Self:
        """Rebuild the player of a saved state, to the same decisions."""
        belief = TwoMapBelief.restore(state.get("belief", {}) if isinstance(state, dict) else {})
        try:
            player = cls(belief.given, **state["parameters"])
            player.belief = belief
            player.fresh = whole_number("fresh", state["fresh"], minimum=0)
            player.rng.bit_generator.state = state["random"]
        except (KeyError, TypeError, ValueError, InputError) as error:
            what = error if isinstance(error, InputError) else described(state)
            raise StateError(f"state of a player must be one that state() returned: {what}") from error
        return player
