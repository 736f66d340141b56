"""Misspecified environments: heavy tails, nonlinear variances, a wrong base variance."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar

import numpy as np

from riskroute.core.arrays import Vector
from riskroute.core.errors import InputError
from riskroute.core.seeding import checked_seed
from riskroute.core.validation import real_number, sized_number
from riskroute.learning.actions import Action
from riskroute.learning.plan import Setting
from riskroute.learning.problem import Problem
from riskroute.learning.tally import ActionBatch
from riskroute.simulation.environments import Environment, Noise


class HeavyTailed(Environment):
    """Independent rewards with Student t noise, scaled to the problem's means and variances.

    With four degrees of freedom or fewer the fourth moment is infinite: empirical variances, and the regret of a run,
    then have infinite variance.

    Parameters
    ----------
    degrees : float
        Degrees of freedom, above 2 so that the variance is finite.
    """

    gaussian = False

    def __init__(self, problem: Problem, degrees: float = 3.0) -> None:
        super().__init__(problem)
        self.degrees = real_number("degrees", degrees, above=2)

    def describe(self) -> dict[str, Any]:
        return super().describe() | {"degrees": self.degrees}

    def noise(self, rng: np.random.Generator) -> Noise:
        return _StudentNoise(checked_seed(rng), self.degrees)


class _StudentNoise(Noise):
    """Independent Student t noise of variance one."""

    def __init__(self, rng: np.random.Generator, degrees: float) -> None:
        super().__init__(rng)
        self.degrees = degrees

    def draw(self, rounds: int) -> Vector:
        return np.asarray(math.sqrt((self.degrees - 2) / self.degrees) * self.rng.standard_t(self.degrees, rounds))


class NonlinearVariance(Environment):
    """Independent Gaussian rewards whose variance is a power of the linear one.

    The true variance is ``base_variance * (linear variance / base_variance) ** power``. The comparator is the best
    action by the true mean-variance, found by enumeration.

    Parameters
    ----------
    problem : Problem
        With a positive base variance.
    power : float
        Above 0; above 1 moves variances away from the base variance, below 1 towards it.
    """

    kind: ClassVar[str] = "BentVariance"

    def __init__(self, problem: Problem, power: float = 1.5) -> None:
        super().__init__(problem)
        if problem.base_variance == 0:
            raise InputError("base_variance must be positive for a nonlinear variance, was 0.0")
        self.power = sized_number("power", power, above=0, largest=10, smallest=0)

    def describe(self) -> dict[str, Any]:
        return super().describe() | {"power": self.power}

    def moments(self, actions: ActionBatch, piece: int = 0) -> tuple[Vector, Vector]:
        mean, deviation = super().moments(actions, piece)
        base = np.sqrt(self.pieces[piece].base_variance)
        return mean, base * (deviation / base) ** self.power

    def _comparator(self, piece: int) -> Action:
        return self._listed_comparator(piece)


class WrongBaseVariance(Environment):
    """The problem's rewards, with ``factor`` times the true base variance in the `Setting` passed to policies."""

    kind: ClassVar[str] = "Mistold"

    def __init__(self, problem: Problem, factor: float = 2.0) -> None:
        super().__init__(problem)
        self.factor = sized_number("factor", factor, above=0)

    def describe(self) -> dict[str, Any]:
        return super().describe() | {"factor": self.factor}

    def setting(self, horizon: int) -> Setting:
        true = super().setting(horizon)
        return dataclasses.replace(true, base_variance=self.factor * true.base_variance)
